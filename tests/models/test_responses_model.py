"""Runs over Responses: what goes out, what comes back, what is kept of it, and what servers get wrong.

The server is strict: it refuses a later request whose calls and answers do not pair, whose reasoning refers to what it
would have to keep, or whose arguments are not JSON. So every script also says that the conversation can go on.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests import ways
from tests.servers import FakeServer
from toolkit import FallbackModel, File, Image, ModelError, Runner, RunResult, RunState, Toolbox, ToolCall, Usage, tool
from toolkit.errors import NoModelError
from toolkit.events import ReasoningDelta, TextDelta, ToolArgumentsDelta
from toolkit.models import CallReady, Message, ModelRequest, ModelResponse, ToolMessage, UserMessage
from toolkit.models.default import ModelChoice
from toolkit.models.responses import ResponsesModel
from toolkit.testing import Reply, reply

THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "gAAAA",
}
PROGRAM = {"type": "program", "id": "prog_1", "call_id": "p_1", "code": "await add()", "fingerprint": "f"}
UNKNOWN = {"type": "web_search_call", "id": "ws_1", "status": "completed", "async": True, "action": {"x": [None, 1.5]}}
SEARCH = {"type": "tool_search_call", "id": "ts_1", "call_id": None, "execution": "server"}
COMMAND = {"type": "shell_call", "id": "sh_1", "call_id": "s_1", "action": {"commands": ["ls"]}}
SHOWN = {"type": "shell_call_output", "id": "so_1", "call_id": "s_1", "output": []}
COMPACTION = {"type": "compaction", "id": "cmp_1", "encrypted_content": "zzz"}
HI = reply.text("Hi.")
CUT_TEXT = "Not run: the answer that held this call was cut off. Send it again, with shorter arguments or fewer calls."


def add(a: int = 0, b: int = 0) -> int:
    """Add."""
    return a + b


def called(**changes: Any) -> dict[str, Any]:
    """An item that calls `add`, with some of its members changed."""
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}'}
    return {**item, "status": "completed", **changes}


def message(text: str, **changes: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": content, **changes}


def client_of(server: FakeServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.base_url, api_key="test", max_retries=0, timeout=10)


def whole(server: FakeServer, tools: Any = (add,), prompt: str = "x", **options: Any) -> RunResult[Any]:
    with client_of(server) as client:
        return Runner(tools, model="m", client=client, api="responses", **options).run(prompt)


def sent_after(*messages: Message) -> Any:
    """The body of a request with this history."""
    with FakeServer([HI]) as server, client_of(server) as client:
        Runner(model="m", client=client, api="responses").run("x", messages=messages)
        return {**server.requests[0].body, "input": server.requests[0].body["input"][:-1]}


def streamed(server: FakeServer, tools: Any = (add,), **options: Any) -> RunResult[Any]:
    with client_of(server) as client:
        stream = Runner(tools, model="m", client=client, api="responses", **options).stream("x")
        with stream:
            list(stream)
        return stream.result


def in_loop(server: FakeServer, tools: Any = (add,)) -> RunResult[Any]:
    async def main() -> RunResult[Any]:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="test", max_retries=0) as client:
            return await Runner(tools, model="m", client=client, api="responses").arun("x")

    return asyncio.run(main())


def streamed_in_loop(server: FakeServer, tools: Any = (add,)) -> RunResult[Any]:
    async def main() -> RunResult[Any]:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="test", max_retries=0) as client:
            async with Runner(tools, model="m", client=client, api="responses").astream("x") as stream:
                async for _ in stream:
                    pass
            return stream.result

    return asyncio.run(main())


EVERY_WAY = pytest.mark.parametrize("through", [whole, streamed, in_loop, streamed_in_loop])
BOTH = pytest.mark.parametrize("through", [whole, streamed])


# -- a request, and what stays of an answer


@EVERY_WAY
def test_run(through: Callable[[FakeServer], RunResult[Any]]) -> None:
    """A run executes calls and ends with the answer, through every backend and either client."""
    with FakeServer([reply.calls(("add", {"a": 15, "b": 27}), usage=(3, 4)), HI]) as server:
        result = through(server)

    assert ("Hi.", "stop", [42], Usage(4, 5, 2)) == (
        result.output, result.finish_reason, [call.result.value for call in result.calls], result.usage
    )  # fmt: skip


def test_request() -> None:
    """A request says all of the conversation, and asks the server to keep nothing."""
    with FakeServer([HI]) as server:
        whole(server, instructions="Be brief.", request_options={"reasoning": {"effort": "low"}})
        body = server.requests[0].body

    assert "/v1/responses" == server.requests[0].path
    assert {
        "model": "m",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low"},
        "stream": False,
        "input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x"}],
    } == {key: value for key, value in body.items() if key != "tools"}


def test_options_of_the_application() -> None:
    """What the application says of a request goes before what is usual; tools of the provider stand beside ours."""
    options = {"store": True, "include": [], "text": {"verbosity": "low"}, "tools": [{"type": "web_search"}]}
    with FakeServer([HI]) as server, client_of(server) as client:
        Runner([add], model=ResponsesModel(client, "m", options=options)).run("x")
        body = server.requests[0].body

    assert (True, [], {"verbosity": "low"}) == (body["store"], body["include"], body["text"])
    assert ["add", "web_search"] == [tool.get("name", tool["type"]) for tool in body["tools"]]


@EVERY_WAY
def test_items_go_back(through: Callable[[FakeServer], RunResult[Any]]) -> None:
    """Reasoning and items that nobody here knows go back as they came, in their order, with the calls."""
    output: list[dict[str, Any]] = [THOUGHT, PROGRAM, SEARCH, COMMAND, SHOWN, called(), UNKNOWN, COMPACTION]
    with FakeServer([reply.output(*output), HI]) as server:
        through(server)

        assert [*output, {"type": "function_call_output", "call_id": "call_1", "output": "1"}] == (
            server.requests[1].body["input"][1:]
        )


def test_items_survive_json() -> None:
    """A state saved as JSON keeps what the provider sent, and another run sends it again."""
    output = [THOUGHT, called(), UNKNOWN]
    with FakeServer([reply.output(*output), HI, reply.text("More.")]) as server, client_of(server) as client:
        runner = Runner([add], model="m", client=client, api="responses")
        state = RunState.from_json(runner.run("x").state.to_json())
        runner.run("y", messages=state.messages)

        assert output == server.requests[2].body["input"][1:4]


def test_phase_of_a_message() -> None:
    """What a message is, beside its text, goes back with it."""
    output = [message("Let me see.", phase="commentary"), called()]
    with FakeServer([reply.output(*output), HI]) as server:
        whole(server)

        assert output == server.requests[1].body["input"][1:3]


def test_answer_goes_to_who_asked() -> None:
    """The answer to a call that a program made says so."""
    caller = {"type": "program", "caller_id": "p_1"}
    with FakeServer([reply.output(PROGRAM, called(caller=caller)), HI]) as server:
        whole(server)

        assert caller == server.requests[1].body["input"][-1]["caller"]


@pytest.mark.parametrize(
    "output",
    [[{**THOUGHT, "encrypted_content": None}, called()], [called(), {**THOUGHT}]],
    ids=["kept by the server", "followed by nothing"],
)
def test_reasoning_that_cannot_go_back(output: list[Any]) -> None:
    """Reasoning that only the server could read, or that led to nothing, does not go back."""
    with FakeServer([reply.output(*output), HI]) as server:
        whole(server)

        assert ["function_call", "function_call_output"] == [i["type"] for i in server.requests[1].body["input"][1:]]


def test_changed_answer_is_written_anew() -> None:
    """Where an answer no longer says what its items say, its text and calls are what goes back."""
    call = ToolCall(name="add", arguments='{"a": 2}', id="ours", provider_call_id="call_1")
    changed = ModelResponse(text="Other.", calls=(call,), items=(message("Mine."), called()))
    answer = ToolMessage(call_id="ours", provider_call_id="call_1", name="add", text="2")
    body = sent_after(changed, answer)

    assert [
        {"role": "assistant", "content": "Other."},
        {"type": "function_call", "name": "add", "arguments": '{"a": 2}', "call_id": "call_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "2"},
    ] == body["input"]


def test_history_of_chat_completions() -> None:
    """A conversation that was held over Chat Completions continues over Responses, and back."""
    with FakeServer([reply.calls(("add", {"a": 1})), HI, HI, HI]) as server, client_of(server) as client:
        runners = [Runner([add], model="m", client=client, api=api) for api in ("chat", "responses", "chat")]
        messages: Any = ()
        for runner in runners:
            messages = runner.run("x", messages=messages).messages

        assert ["Hi."] * 3 == [m.text for m in messages if isinstance(m, ModelResponse) and m.text]


def test_messages_are_written_once() -> None:
    """Each message is turned into its wire form once in a run."""

    class Marking:
        def before_model(self, request: ModelRequest) -> None:
            for written in request.memo[:1]:
                written["items"] = [{"role": "user", "content": "known"}]

    with FakeServer([reply.calls(("add", {"a": 1})), HI]) as server:
        whole(server, hooks=[Marking()])

        assert ["x", "known"] == [sent.body["input"][0]["content"] for sent in server.requests]


# -- pictures, files


def test_pictures_and_files_of_the_user() -> None:
    """Pictures and files are in the user's message."""
    sent = UserMessage("See.", (Image(b"i"),), (File(b"f", name="a.pdf"),))
    body = sent_after(sent)

    assert [
        {"type": "input_text", "text": "See."},
        {"type": "input_image", "image_url": "data:image/png;base64,aQ=="},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,Zg=="},
    ] == body["input"][0]["content"]


def test_pictures_of_a_tool() -> None:
    """Pictures are in the result of the call that gave them, and nowhere else."""

    def draw(name: str) -> Image:
        return Image(name.encode())

    with FakeServer([reply.calls(("draw", {"name": "a"}), ("draw", {"name": "b"})), HI]) as server:
        whole(server, [draw])
        sent = server.requests[1].body["input"][3:]

    assert ["function_call_output"] * 2 == [item["type"] for item in sent]
    assert [f"data:image/png;base64,{data}" for data in ("YQ==", "Yg==")] == [
        part["image_url"] for item in sent for part in item["output"] if part["type"] == "input_image"
    ]


# -- groups, and tools that are loaded later


@tool(namespace="crm", defer_loading=True)
def find_customer(name: str) -> str:
    """Find a customer."""
    return f"{name} of crm"


@tool(namespace="crm")
def list_orders() -> str:
    """List orders."""
    return "none"


@tool(defer_loading=True)
def weather() -> str:
    """Report the weather."""
    return "fair"


GROUPED = Toolbox([add, find_customer, list_orders, weather])


def test_groups() -> None:
    """Tools of a group are shown together, those to be loaded later are marked, and one tool finds them."""
    with FakeServer([HI]) as server:
        whole(server, GROUPED)
        tools = server.requests[0].body["tools"]

    assert [
        ("function", "add", None),
        ("namespace", "crm", ["find_customer", "list_orders"]),
        ("function", "weather", None),
        ("tool_search", None, None),
    ] == [(t["type"], t.get("name"), [i["name"] for i in t["tools"]] if "tools" in t else None) for t in tools]
    assert [True, None] == [inner.get("defer_loading") for inner in tools[1]["tools"]]
    assert "Tools: find_customer, list_orders." == tools[1]["description"]


def test_without_groups() -> None:
    """No tool is looked for where none asks to be loaded later, and Chat Completions know nothing of groups."""
    with FakeServer([HI, HI]) as server, client_of(server) as client:
        whole(server, [add])
        Runner(GROUPED, model="m", client=client).run("x")

    assert [["function"], ["function"] * 4] == [[t["type"] for t in r.body["tools"]] for r in server.requests]


@BOTH
@pytest.mark.parametrize(
    ("name", "group", "expected"),
    [
        ("list_orders", "crm", "none"),
        ("weather", "weather", "fair"),
        ("weather", None, "fair"),
        (
            "add",
            "crm",
            "unknown tool: 'crm.add'; did you mean 'add'? Available: add, find_customer, list_orders, weather",
        ),
    ],
    ids=["its group", "loaded alone", "no group", "another group"],
)
def test_calls_find_their_group(through: Any, name: str, group: str | None, expected: str) -> None:
    """A call that names a group reaches the tool of that group alone, and goes back with it."""
    searched = {"type": "tool_search_call", "id": "ts", "execution": "server", "arguments": {}}
    item = called(name=name, arguments="{}", **({"namespace": group} if group else {}))
    with FakeServer([reply.output(searched, item), HI]) as server:
        result = through(server, GROUPED)

    assert expected == result.calls[0].result.text


def test_group_of_an_older_call() -> None:
    """A call that another model made goes out in the group that its tool has now."""
    messages = (
        UserMessage("x"),
        ModelResponse(calls=(ToolCall(name="list_orders", id="a"),)),
        ToolMessage(call_id="a", name="list_orders", text="none"),
    )
    with FakeServer([HI]) as server, client_of(server) as client:
        Runner(GROUPED, model="m", client=client, api="responses").run("y", messages=messages)

        assert "crm" == server.requests[0].body["input"][1]["namespace"]


def test_calls_of_a_loop_of_ones_own() -> None:
    """`Toolbox.answer` finds the groups of calls, too."""
    answers = GROUPED.answer([called(name="list_orders", arguments="{}", namespace="crm")], "responses")

    assert [{"type": "function_call_output", "call_id": "call_1", "output": "none"}] == answers


# -- structured output, other dialects


def at_once(runner: Runner, **options: Any) -> RunResult[Any]:
    return runner.run("x", **options)


def to_the_end(runner: Runner, **options: Any) -> RunResult[Any]:
    with runner.stream("x", **options) as stream:
        list(stream)
    return stream.result


class Place(BaseModel):
    """A place."""

    name: str
    height: float | None = None


@pytest.mark.parametrize("through", [at_once, to_the_end])
def test_structured_output(through: Any) -> None:
    """An answer with a schema is asked for by `text.format`, beside what else the application says of the text."""
    with FakeServer([reply.text('{"name": "K2", "height": null}')]) as server, client_of(server) as client:
        model = ResponsesModel(client, "m", options={"text": {"verbosity": "low"}})
        output = through(Runner([add], model=model), output_type=Place).output
        asked = server.requests[0].body["text"]

    assert Place(name="K2") == output
    assert ("low", "json_schema", "final_result", True) == (
        asked["verbosity"], asked["format"]["type"], asked["format"]["name"], asked["format"]["strict"]
    )  # fmt: skip


@pytest.mark.parametrize("through", [at_once, to_the_end])
def test_comment_is_not_the_answer(through: Any) -> None:
    """What a model says on the way to its answer is not part of it, and goes back as it came."""
    said = [message("Let me see.", phase="commentary"), message('{"name": "K2"}', phase="final_answer")]
    with FakeServer([reply.output(*said), HI]) as server, client_of(server) as client:
        runner = Runner([add], model="m", client=client, api="responses")
        first = through(runner, output_type=Place)
        runner.run("y", messages=first.messages)

        assert Place(name="K2") == first.output
        assert said == server.requests[1].body["input"][1:3]


@BOTH
def test_structured_output_by_a_call(through: Any) -> None:
    """Where a server refuses `text.format` the answer is a call, and none that would have to be answered."""
    script = [
        reply.error(400, "Unknown parameter: 'text.format'."),
        reply.output(THOUGHT, called()),
        reply.output(called(id="fc_2", call_id="c2", name="final_result", arguments='{"name": 1}')),
        reply.output(called(id="fc_3", call_id="c3", name="final_result", arguments='{"name": "K2"}')),
    ]
    with FakeServer(script) as server, client_of(server) as client:
        result = Runner([add], model="m", client=client, api="responses").run("x", output_type=Place)

    assert Place(name="K2") == result.output


@pytest.mark.parametrize("through", [ways.run, ways.stream])
def test_model_without_reasoning(through: Any) -> None:
    """A model that does not reason is asked for no reasoning, after it has refused that once."""
    refusal = reply.error(400, "Encrypted content is not supported with this model.")
    with FakeServer([refusal, HI, HI]) as server, client_of(server) as client:
        runner = Runner([add], model="m", client=client, api="responses")
        outputs = [through(runner).output for _ in range(2)]

    assert ["Hi.", "Hi."] == outputs
    assert [True, False, False] == ["include" in request.body for request in server.requests]


def test_runs_at_once_without_reasoning() -> None:
    """Of runs at the same time, each whose request for reasoning is refused sends it again without that."""

    async def main(runner: Runner) -> list[RunResult[str]]:
        return await asyncio.gather(*(runner.arun("x") for _ in range(3)))

    refusal = reply.error(400, "Encrypted content is not supported with this model.").delayed(0.1)
    with FakeServer(lambda request: refusal if "include" in request.body else HI) as server:
        runner = Runner(model="m", base_url=server.base_url, api="responses")

        assert ["Hi."] * 3 == [result.output for result in asyncio.run(main(runner))]


def reasoning_ids(server: FakeServer) -> list[list[str]]:
    """The reasoning in each request."""
    return [[item["id"] for item in each.body["input"] if item.get("type") == "reasoning"] for each in server.requests]


UNREADABLE = reply.error(400, "The content gAAA... could not be verified.", code="invalid_encrypted_content")
HISTORY: list[Message] = [UserMessage("x"), ModelResponse(text="Hi.", items=(THOUGHT, message("Hi.")))]


@pytest.mark.parametrize("through", [ways.run, ways.stream])
@pytest.mark.parametrize("refusal", [UNREADABLE, reply.error(400, "Could not decrypt the provided encrypted_content.")])
def test_reasoning_of_another_account(through: Any, refusal: Reply) -> None:
    """A server that cannot read earlier reasoning gets the conversation without it, and its own reasoning back."""
    own = reply.output({**THOUGHT, "id": "rs_2"}, called())
    with FakeServer([refusal, own, HI]) as server, client_of(server) as client:
        result = through(Runner([add], model="m", client=client, api="responses"), messages=HISTORY)

    assert "Hi." == result.output
    assert [["rs_1"], [], ["rs_2"]] == reasoning_ids(server)


def test_reasoning_after_a_fallback() -> None:
    """A model that stands in for another one gets the conversation without the reasoning of that."""
    script = [reply.output(THOUGHT, called()), reply.error(503, "overloaded")]
    with (
        FakeServer(script) as first,
        FakeServer([UNREADABLE, HI]) as second,
        client_of(first) as client,
        client_of(second) as spare,
    ):
        models = [ResponsesModel(each, "m") for each in (client, spare)]
        result = Runner([add], model=FallbackModel(models)).run("x")

    assert "Hi." == result.output
    assert [["rs_1"], []] == reasoning_ids(second)


def test_reasoning_that_is_not_the_reason() -> None:
    """A server that refuses the conversation without reasoning, too, is not asked again."""
    with FakeServer([UNREADABLE, UNREADABLE]) as server, pytest.raises(ModelError, match="could not be verified"):
        Runner(model="m", base_url=server.base_url, api="responses").run("y", messages=HISTORY)


# -- what is refused


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"api": "assistants"}, r"^api='assistants' is not one of 'chat', 'responses'\.$"),
        ({"api": "assistants", "dialect": "chat"}, r"^api='assistants' is not one of 'chat', 'responses'\.$"),
        (
            {"api": "responses", "dialect": "calls"},
            r"^With api='responses', dialect='calls' is not one of 'responses'\.$",
        ),
    ],
    ids=["api", "api with a dialect", "dialect of another api"],
)
def test_refused_options(options: Any, expected: str) -> None:
    """There are two APIs, and each has dialects of its own."""
    with pytest.raises(ValueError, match=expected):
        Runner([add], **options)


def test_dialect_of_another_api() -> None:
    """A model takes the dialects of its own API only."""
    with pytest.raises(ValueError, match=r"dialect='calls' is not one of 'responses'\.$"):
        ResponsesModel(object(), "m", dialect="calls")


def test_embedded_model() -> None:
    """The embedded model does not speak Responses."""
    pytest.importorskip("xllamacpp")

    with pytest.raises(NoModelError, match=r"leave out api='responses'\.$"):
        ModelChoice(api="responses").get_sync_model()


# -- what models and their servers get wrong


@BOTH
@pytest.mark.parametrize(
    ("calls", "values"),
    [
        ([called(call_id=None, id=None), called(call_id="", id="")], [1, 1]),
        ([called(call_id=7)], [1]),
        ([called(), called(id="fc_2"), called(arguments='{"a":1}')], [1]),
        ([called(arguments={"a": 1})], [1]),
        ([called(arguments=None)], [0]),
        ([called(arguments="")], [0]),
        ([called(name="x" * 10_000)], [None]),
        ([called(name=None)], [None]),
        ([called(name="add\ud800")], [None]),
        ([called(arguments='["a"]')], [None]),
        ([called(id=5, status=None), None], [1]),
        ([{"type": "custom_tool_call", "id": "c", "call_id": "c", "name": "sh", "input": "ls"}, called()], [None, 1]),
        ([{"type": "odd", "text": "\ud800", "number": float("nan")}, called()], [1]),
    ],
    ids=[
        "no ids", "number as id", "one id for all", "decoded arguments", "null arguments", "no arguments", "long name",
        "no name", "half a character", "no object", "null", "custom tool", "what no request can carry",
    ],
)  # fmt: skip
def test_odd_calls(through: Any, calls: list[Any], values: list[Any]) -> None:
    """Each call is answered once, whatever is wrong with it, and the next request is acceptable."""
    script = [Reply.body({"id": "r", "status": "completed", "output": calls}), HI]
    if through is streamed:
        ended = {"type": "response.completed", "response": {"status": "completed", "output": calls}}
        script[0] = reply.chunks([ended])
    with FakeServer(script) as server:
        result = through(server)

    assert values == [call.result.value for call in result.calls]


@BOTH
def test_ids_of_later_turns(through: Any) -> None:
    """An id that was used before stands for another call."""
    with FakeServer([reply.output(called())] * 3 + [HI]) as server:
        assert [1, 1, 1] == [call.result.value for call in through(server).calls]


@BOTH
@pytest.mark.parametrize(
    "cut",
    [
        reply.output(called(), finish_reason="length"),
        reply.output(called(), finish_reason="content_filter"),
        reply.output(called(status="incomplete")),
        reply.output(called(), called(call_id="c2", arguments='{"a": 1')),
    ],
    ids=["length", "content_filter", "an item", "arguments"],
)
def test_cut_answers(through: Any, cut: Reply) -> None:
    """No call of an answer that was cut is executed, and each is answered."""
    with FakeServer([cut, HI]) as server:
        result = through(server)

    assert {CUT_TEXT} == {call.result.text for call in result.calls}


@BOTH
@pytest.mark.parametrize(
    ("reason", "expected"), [("length", "length"), ("content_filter", "content_filter"), ("stop", "stop")]
)
def test_finish_reasons(through: Any, reason: str, expected: str) -> None:
    """Why a response is incomplete has the same names as in Chat Completions."""
    with FakeServer([reply.text("Hi", finish_reason=reason)]) as server:
        assert expected == through(server).finish_reason


def test_other_reason_for_an_end() -> None:
    """Of a reason that nobody here knows no more is known than that there was more to come."""
    answer = {"status": "incomplete", "incomplete_details": {"reason": "steered"}, "output": [called()]}
    with FakeServer([Reply.body(answer), HI]) as server:
        assert [CUT_TEXT] == [call.result.text for call in whole(server).calls]


@BOTH
def test_refusal(through: Any) -> None:
    """What the model says instead of an answer is its answer."""
    refusal = message("", content=[{"type": "refusal", "refusal": "No."}])
    with FakeServer([reply.output(refusal)]) as server:
        assert "No." == through(server).output


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Reply.body(None), "not a response"),
        (Reply.body([]), "not a response"),
        (Reply.body("x"), "not a response"),
        (Reply.body({"choices": [{"message": {"content": "x"}}]}), "not a response"),
        (Reply.body({"id": "r", "output": None}), "not a response"),
        (Reply.raw(b"<html>", content_type="text/html"), "not a response"),
        (Reply.body({"status": "failed", "error": {"code": "c", "message": "boom"}, "output": []}), r"boom \(c\)"),
        (Reply.body({"status": "cancelled", "output": [called()]}), "cancelled"),
        (Reply.body({"status": "queued", "output": []}), "queued"),
        (reply.output(called(), {"type": "mcp_approval_request", "id": "a", "name": "n"}), "'mcp_approval_request'"),
        (reply.output({"type": "shell_call", "call_id": "s"}, {**SHOWN, "call_id": "t"}), "'shell_call'"),
        (reply.output({"type": "tool_search_call", "call_id": "s", "execution": "client"}), "'tool_search_call'"),
        (reply.error(500, "boom"), "boom"),
        (reply.error(404, "no such address"), "address"),
    ],
    ids=[
        "null", "list", "text", "completion", "no output", "html", "failed", "cancelled", "queued", "approval", "shell",
        "search", "error", "not found"
    ],
)  # fmt: skip
def test_no_answer(answer: Reply, expected: str) -> None:
    """Whatever is not a response is one error, which says what came."""
    with FakeServer([answer]) as server, pytest.raises(ModelError, match=expected):
        whole(server)


# -- streams


def events_of(*items: dict[str, Any], finish_reason: str | None = "stop") -> list[dict[str, Any]]:
    """The events of a good stream, as OpenAI sends them."""
    with FakeServer([reply.output(*items, finish_reason=finish_reason)]) as server, client_of(server) as client:
        events = client.responses.create(model="m", input="x", stream=True)
        return [event.to_dict(mode="json") for event in events]


def of_events(events: list[Any], *, done: bool = True) -> RunResult[Any]:
    with FakeServer([reply.chunks(events), HI]) as server:
        try:
            return streamed(server)
        finally:
            server._unused.clear()


def test_pieces() -> None:
    """Reasoning, text and arguments are reported as they come, and add up to the whole."""
    with (
        FakeServer([reply.output(THOUGHT, message("Let me see."), called()), HI]) as server,
        client_of(server) as client,
        Runner([add], model="m", client=client, api="responses").stream("x") as received,
    ):
        events = list(received)

    def joined(kind: Any) -> str:
        return "".join(str(vars(event)["text"]) for event in events if isinstance(event, kind))

    assert ("First.\n\nThen.", "Let me see.Hi.", '{"a": 1}') == (
        joined(ReasoningDelta), joined(TextDelta), joined(ToolArgumentsDelta)
    )  # fmt: skip


def test_pieces_of_a_comment() -> None:
    """A comment is shown as it comes, apart from the answer."""
    said = [message("Let me see.", phase="commentary"), message("42", phase="final_answer")]
    with (
        FakeServer([reply.output(*said)]) as server,
        client_of(server) as client,
        Runner(model="m", client=client, api="responses").stream("x") as received,
    ):
        shown = "".join(event.text for event in received if isinstance(event, TextDelta))

    assert ("Let me see.\n\n42", "42") == (shown, received.result.output)


def test_calls_that_are_ready() -> None:
    """A call is given as soon as it is whole, before the answer has ended."""
    request = ModelRequest(messages=(UserMessage("x"),), tools=(*(t._spec for t in Toolbox([add])),), early=True)

    async def pieces(client: openai.AsyncOpenAI) -> list[Any]:
        return [piece async for piece in ResponsesModel(client, "m").stream(request)]

    async def main(address: str) -> list[Any]:
        async with openai.AsyncOpenAI(base_url=address, api_key="test") as client:
            return await pieces(client)

    second = called(id="fc_2", call_id="c2", arguments='{"a": 2, "b": null}')
    with FakeServer([reply.output(called(), second, called(call_id="c3", name="none"))]) as server:
        received = asyncio.run(main(server.base_url))
    ready = [piece for piece in received if isinstance(piece, CallReady)]

    assert [('{"a": 1}', 0), ('{"a":2}', 1)] == [(piece.call.arguments, piece.position) for piece in ready]
    assert [piece.call for piece in ready] == list(received[-1].calls[:2])


@pytest.mark.parametrize("ending", ["response.completed", "response.incomplete", "response.failed"])
def test_end_of_a_stream(ending: str) -> None:
    """Only a response that ended by itself has calls that are executed."""
    *events, last = events_of(called())
    last = {**last, "type": ending}
    if ending == "response.failed":
        with pytest.raises(ModelError, match="failed"):
            of_events([*events, last])
    else:
        expected = "1" if ending == "response.completed" else CUT_TEXT
        assert expected == of_events([*events, last]).calls[0].result.text


@pytest.mark.parametrize(
    "error",
    [
        {"type": "error", "message": "boom", "code": "c", "param": None},
        {"type": "error", "error": {"message": "boom"}},
        {"error": "boom"},
        {"type": "response.failed", "response": {"status": "failed", "error": {"code": "c", "message": "boom"}}},
    ],
    ids=["flat", "nested", "bare", "failed"],
)
def test_error_within_a_stream(error: dict[str, Any]) -> None:
    """An error in the middle of a stream is an error, and nothing of the answer is executed."""
    events = events_of(called())

    with pytest.raises(ModelError, match="boom"):
        of_events([*events[:-1], error, events[-1]])


@pytest.mark.parametrize("kept", range(len(events_of(THOUGHT, called()))))
def test_stream_that_breaks_off(kept: int) -> None:
    """A stream without its end is an error, wherever it broke off, and nothing of it is executed."""
    entered: list[int] = []

    def note(a: int) -> int:
        """Note."""
        entered.append(a)
        return a

    events = events_of(THOUGHT, called(name="note"))[:kept]
    error = "broke off" if kept else "The server sent no stream"
    with FakeServer([reply.chunks(events)]) as server, pytest.raises(ModelError, match=error):
        streamed(server, [note])

    assert [] == entered


def test_stream_that_stays_open() -> None:
    """A stream is over with its last event, though the server keeps the connection."""
    with FakeServer([HI.held()]) as server:
        assert "Hi." == streamed(server).output


def without(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda event: {key: value for key, value in event.items() if key not in names}


def without_id(event: dict[str, Any]) -> dict[str, Any]:
    """What llama.cpp sends: no place of an item, and no id in it."""
    item = {key: value for key, value in event.get("item", {}).items() if key != "id"}
    return {**without("output_index", "item_id")(event), **({"item": item} if item else {})}


def with_other_ids(event: dict[str, Any]) -> dict[str, Any]:
    """What some gateways send: another id in each event."""
    about = {"item_id": f"other_{event['sequence_number']}"} if "item_id" in event else {}
    item = {"item": {**event["item"], "id": f"id_{event['sequence_number']}"}} if "item" in event else {}
    return {**event, **about, **item}


def empty_at_the_end(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "response": {**event["response"], "output": []}} if "response" in event else event


@pytest.mark.parametrize(
    "changed",
    [without("output_index"), without("item_id"), without_id, with_other_ids, empty_at_the_end],
    ids=["no index", "no item id", "neither", "other ids", "nothing at the end"],
)
def test_odd_streams(changed: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Pieces find their item by its place, its id, or its kind, whichever the server sends."""
    events = events_of(message("Hm."), called(), called(call_id="call_2", id="fc_2", arguments='{"a": 2}'))

    assert [1, 2] == [call.result.value for call in of_events([*map(changed, events)]).calls]


@pytest.mark.parametrize(
    "missing",
    [
        {"response.output_item.added"},
        {"response.output_item.done"},
        {"response.function_call_arguments.delta"},
        {"response.function_call_arguments.done"},
        {"response.created", "response.in_progress"},
    ],
    ids=lambda missing: ", ".join(sorted(missing)),
)
@pytest.mark.parametrize("at_the_end", [True, False], ids=["listed at the end", "not listed"])
def test_missing_events(missing: set[str], at_the_end: bool) -> None:
    """Any one kind of event may be missing, so long as a call comes whole: in its last event, or at the end."""
    events = [event for event in events_of(called()) if event["type"] not in missing]
    received = events if at_the_end else [*map(empty_at_the_end, events)]
    if not at_the_end and "response.output_item.done" in missing:
        with pytest.raises(ModelError, match="lacks the end of an item"):
            of_events(received)
    else:
        assert [1] == [call.result.value for call in of_events(received).calls]


@pytest.mark.parametrize("at_the_end", [True, False], ids=["listed at the end", "not listed"])
def test_item_that_comes_twice_runs_once(at_the_end: bool) -> None:
    """A call whose last event comes twice runs once."""
    events = events_of(called())
    done = next(number for number, event in enumerate(events) if event["type"] == "response.output_item.done")
    events.insert(done, events[done])
    events = events if at_the_end else [*map(empty_at_the_end, events)]

    assert [1] == [call.result.value for call in of_events(events).calls]


TWICE: dict[str, Callable[[list[dict[str, Any]], int], list[dict[str, Any]]]] = {
    "with another item id": lambda events, done: [
        *events[:done], *(with_item(event, id="fc_2") for event in events[:done]), *events[done:]
    ],
    "with its arguments written otherwise": lambda events, done: [
        *events[:done], with_item(events[done - 1], arguments='{"a":1}'), *events[done:]
    ],
    "added twice": lambda events, done: [event for event in events for _ in range(1 + ("added" in event["type"]))],
    "with a late piece": lambda events, done: [
        *events[:done], *(event for event in events if "delta" in event["type"]), *events[done:]
    ],
}  # fmt: skip


def with_item(event: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The same event with its item changed."""
    about = {"item_id": changes["id"]} if "item_id" in event and "id" in changes else {}
    return {**event, **about, **({"item": {**event["item"], **changes}} if "item" in event else {})}


@pytest.mark.parametrize("twice", TWICE.values(), ids=TWICE)
@pytest.mark.parametrize("at_the_end", [True, False], ids=["listed at the end", "not listed"])
def test_call_that_comes_twice_runs_once(twice: Any, at_the_end: bool) -> None:
    """A `call_id` is one call, however often the stream names it."""
    *events, last = twice(received := events_of(called()), len(received) - 1)
    ended = last if at_the_end else empty_at_the_end(last)

    assert [1] == [call.result.value for call in of_events([*events, ended]).calls]


@pytest.mark.parametrize("at_the_end", [True, False], ids=["listed at the end", "not listed"])
@pytest.mark.parametrize("changes", [{"arguments": '{"a": 2}'}, {"name": "other"}], ids=["arguments", "name"])
def test_id_of_two_calls_in_a_stream(changes: dict[str, Any], at_the_end: bool) -> None:
    """One `call_id` with different calls is an answer that nobody can read: none of them runs."""
    events = events_of(called())
    done = with_item(events[-2], **changes)
    end = events[-1] if at_the_end else empty_at_the_end(events[-1])

    with pytest.raises(ModelError, match="different calls with the id 'call_1'|other calls at its end"):
        of_events([*events[:-1], done, end])


@pytest.mark.parametrize(
    "listed",
    [[called(arguments='{"a": 2}')], [called(call_id="call_2", arguments='{"a": 2}')], [called(name="other")]],
    ids=["other arguments", "another call", "another name"],
)
def test_end_that_contradicts_the_stream(listed: list[Any]) -> None:
    """So is a stream whose end lists other calls than it brought."""
    events = events_of(called())
    end = {**events[-1], "response": {"status": "completed", "output": listed}}
    with pytest.raises(ModelError, match=r"other calls at its end than in its stream\. Its calls are discarded\."):
        of_events([*events[:-1], end])


def test_other_call_ids_at_the_end() -> None:
    """Gateways that make new ids in each event name the same calls."""
    events = events_of(called(), called(id="fc_2", call_id="call_2", arguments='{"a": 2}'))
    listed = [called(id="x", call_id="x"), called(id="y", call_id="y", arguments='{"a": 2}')]
    end = {**events[-1], "response": {"status": "completed", "output": listed}}

    assert [1, 2] == [call.result.value for call in of_events([*events[:-1], end]).calls]


def test_id_of_two_calls() -> None:
    """The same in a whole answer."""
    answer = {"status": "completed", "output": [called(), called(id="fc_2", arguments='{"a": 2}')]}
    with (
        FakeServer([Reply.body(answer)]) as server,
        pytest.raises(ModelError, match="different calls with the id 'call_1'"),
    ):
        whole(server)


@pytest.mark.parametrize("items", [[called()], [called(), called(id="fc_2", call_id="call_2")]], ids=["one", "of two"])
def test_item_without_its_last_event(items: list[Any]) -> None:
    """Where nothing lists the calls, and one of them has no last event, the answer is refused: none of them runs."""
    events = events_of(*items)
    del events[max(at for at, event in enumerate(events) if event["type"] == "response.output_item.done")]
    with pytest.raises(ModelError, match=r"lacks the end of an item\. Its calls are discarded\."):
        of_events([*map(empty_at_the_end, events)])


ENDED = "response.completed"
WRONG_ITEMS: dict[str, Any] = {
    "a number": 5,
    "a text": "x",
    "a list": [1],
    "no type": {},
    "a type": {"type": ["function_call"]},
    "arguments": called(arguments=5),
    "a name": called(name=5),
    "a namespace": called(namespace=5),
    "a status": called(status=5),
    "an id": called(call_id=["x"]),
    "a content": message("", content=5),
    "a part of a content": message("", content=[5]),
    "a text of a content": message("", content=[{"type": "output_text", "text": 5}]),
}


@BOTH
@pytest.mark.parametrize("wrong", WRONG_ITEMS.values(), ids=WRONG_ITEMS)
def test_item_of_a_wrong_type(through: Any, wrong: Any) -> None:
    """An item that cannot be read refuses the answer: the call beside it is not run."""
    answer = {"status": "completed", "output": [called(), wrong]}
    sent = reply.chunks([{"type": ENDED, "response": answer}]) if through is streamed else Reply.body(answer)
    entered: list[int] = []

    def add(a: int = 0) -> None:
        """Add."""
        entered.append(a)

    with FakeServer([sent]) as server, pytest.raises(ModelError, match="malformed"):
        through(server, [add])

    assert [] == entered


WRONG_EVENTS: dict[str, Any] = {
    "a number": 5,
    "a text": "0",
    "a list": [],
    "a type": {"type": 5},
    "an item": {"type": "response.output_item.done", "item": 5},
    "an item of no type": {"type": "response.output_item.added", "item": {}},
    "an index": {"type": "response.output_item.added", "output_index": "x", "item": called()},
    "a delta": {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": 5},
    "a delta of text": {"type": "response.output_text.delta", "delta": {}},
    "a response": {"type": ENDED, "response": 5},
    "an output": {"type": ENDED, "response": {"status": "completed", "output": 5}},
    "a status": {"type": ENDED, "response": {"status": 5, "output": []}},
}


@pytest.mark.parametrize("wrong", WRONG_EVENTS.values(), ids=WRONG_EVENTS)
def test_event_of_a_wrong_type(wrong: Any) -> None:
    """So does an event."""
    *first, last = events_of(called())
    sent = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in [*first[:-1], wrong, first[-1], last])
    answer = reply.raw(sent, content_type="text/event-stream")
    with FakeServer([answer]) as server, pytest.raises(ModelError, match="malformed"):
        streamed(server)


def test_text_that_comes_at_the_end() -> None:
    """Text that no piece brought is shown when the answer has ended."""
    last = events_of(message("Hi."))[-1]
    with (
        FakeServer([reply.chunks([last])]) as server,
        client_of(server) as client,
        Runner(model="m", client=client, api="responses").stream("x") as received,
    ):
        assert ["Hi."] == [event.text for event in received if isinstance(event, TextDelta)]


def test_too_many_items() -> None:
    """An answer of more items than anybody would keep is an error."""
    items = [called()] * 10_001
    with (
        FakeServer([Reply.body({"status": "completed", "output": items})]) as server,
        pytest.raises(ModelError, match="more than 10,000 items"),
    ):
        whole(server)


# -- who sees what of a request


def test_wrapped_client() -> None:
    """Whoever wraps `create` sees the ordinary arguments."""
    seen: list[dict[str, Any]] = []

    class Client:
        responses: Any

        def create(self, **arguments: Any) -> Any:
            seen.append(arguments)
            return {"status": "completed", "output": [message("Hi.")]}

    client = Client()
    client.responses = client
    result = Runner([add], model="m", client=client, api="responses").run("x")

    assert ("Hi.", [{"role": "user", "content": "x"}], ["add"]) == (
        result.output, seen[0]["input"], [shown["name"] for shown in seen[0]["tools"]]
    )  # fmt: skip


def test_strict_without_loss() -> None:
    """What comes back in the strict form reaches the function in its own, and goes back in the strict one."""
    with FakeServer([reply.output(called(arguments='{"a": 1, "b": null}')), HI]) as server:
        result = whole(server)

        assert [1] == [call.result.value for call in result.calls]
        assert '{"a": 1, "b": null}' == server.requests[1].body["input"][1]["arguments"]


def test_schemas_stay_as_they_are() -> None:
    """The schemas for the application's own loop are flat functions."""
    (shown,) = Toolbox([find_customer]).schemas("responses")

    assert ("function", "find_customer", False) == (shown["type"], shown["name"], "defer_loading" in shown)
