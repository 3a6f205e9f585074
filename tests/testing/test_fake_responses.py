"""The fake server speaks Responses too: it answers as scripted, and refuses what OpenAI refuses there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.servers import FakeServer
from toolkit.testing import Reply, reply

ASKED: dict[str, Any] = {"role": "user", "content": "x"}
ADD: dict[str, Any] = {
    "type": "function",
    "name": "add",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g"}


def call(**changes: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}", **changes}


def answer(**changes: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "c", "output": "3", **changes}


def asked(*items: Any, **options: Any) -> dict[str, Any]:
    return {"model": "m", "input": [ASKED, *items], "store": False, **options}


@pytest.fixture
def client() -> Iterator[openai.OpenAI]:
    """A client of a strict server that would answer anything."""
    with (
        FakeServer(lambda _: reply.text("Hi.")) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test", max_retries=0) as made,
    ):
        yield made
        server.problems.clear()


def post(client: openai.OpenAI, body: Any) -> Any:
    return client.post("/responses", body=body, cast_to=object)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_text_and_calls(stream: bool) -> None:
    """The same script answers either API, whole or streamed."""
    script = [reply.calls(("add", {"a": 1}), text="Hm.", usage=(3, 4))] * 2
    with FakeServer(script) as server, openai.OpenAI(base_url=server.base_url, api_key="test") as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
        if stream:
            *_, last = client.responses.create(model="m", input="x", stream=True)
            response: Any = last.response  # type: ignore[union-attr]  # the last event has one
        else:
            response = client.responses.create(model="m", input="x")

    assert ("completed", "Hm.", "add", '{"a": 1}', "call_2", 7) == (
        response.status, response.output_text, response.output[1].name, response.output[1].arguments,
        response.output[1].call_id, response.usage.total_tokens,
    )  # fmt: skip


def test_events() -> None:
    """A stream has the events of OpenAI's, in their order and numbered."""
    with (
        FakeServer([reply.output(THOUGHT, call(status="completed"), split=99)]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test") as client,
    ):
        events = list(client.responses.create(model="m", input="x", stream=True))

    assert [
        "response.created", "response.in_progress",
        "response.output_item.added", "response.output_item.done",
        "response.output_item.added", "response.function_call_arguments.delta",
        "response.function_call_arguments.done", "response.output_item.done",
        "response.completed",
    ] == [event.type for event in events]  # fmt: skip
    assert [*range(9)] == [event.sequence_number for event in events]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("length", ("incomplete", "max_output_tokens")),
        ("content_filter", ("incomplete", "content_filter")),
        ("stop", ("completed", None)),
        (None, (None, None)),
    ],
    ids=str,
)
def test_status(reason: str | None, expected: Any) -> None:
    """Why an answer ended is reported as Responses do."""
    with (
        FakeServer([reply.text("Hi", finish_reason=reason)]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test") as client,
    ):
        response = client.responses.create(model="m", input="x")

    assert expected == (response.status, response.incomplete_details and response.incomplete_details.reason)


def test_stream_without_end() -> None:
    """Without a finish reason a stream has no last event."""
    with (
        FakeServer([reply.text("Hi", finish_reason=None)]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test") as client,
    ):
        *_, last = client.responses.create(model="m", input="x", stream=True)

    assert "response.output_item.done" == last.type


def test_refusal_and_summary() -> None:
    """Refusals and summaries come in pieces, too."""
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    thought = {**THOUGHT, "summary": [{"type": "summary_text", "text": "Hm."}]}
    with (
        FakeServer([reply.output(thought, refusal)]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test") as client,
    ):
        events: list[Any] = list(client.responses.create(model="m", input="x", stream=True))

    assert ["Hm.", "No."] == [event.delta for event in events if event.type.endswith(".delta")]


def test_own_events() -> None:
    """Events of a script go out as they are, with nothing around them."""
    with (
        FakeServer([Reply.chunks([{"type": "response.created", "x": 1}, b": comment\n\n"])]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test") as client,
    ):
        content = client.responses.with_raw_response.create(model="m", input="x").http_response.content

    assert b'event: response.created\ndata: {"type": "response.created", "x": 1}\n\n: comment\n\n' == content


ACCEPTED: dict[str, dict[str, Any]] = {
    "text": {"model": "m", "input": "x"},
    "roles": asked(*({"role": role, "content": "x"} for role in ("system", "developer", "assistant"))),
    "call and answer": asked(call(), answer()),
    "answers in call order": asked(call(), call(call_id="d"), answer(), answer(call_id="d")),
    "thought before a call": asked(THOUGHT, call(), answer()),
    "thought before an item that nobody knows": asked(THOUGHT, {"type": "odd"}, call(), answer()),
    "picture in an answer": asked(call(), answer(output=[{"type": "input_image", "image_url": "data:"}])),
    "custom tool": asked(
        {"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
    ),
    "tools": asked(tools=[ADD, {"type": "web_search"}], tool_choice={"type": "function", "name": "add"}),
    "group": asked(
        call(namespace="g"),
        answer(),
        tools=[
            {"type": "namespace", "name": "g", "description": "d", "tools": [{**ADD, "defer_loading": True}]},
            {"type": "tool_search"},
        ],
    ),
    "allowed": asked(
        tools=[ADD],
        tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "add"}]},
    ),
    "format": asked(text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}),
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(client: openai.OpenAI, body: Any) -> None:
    """What OpenAI takes is answered."""
    assert "completed" == post(client, body)["status"]


STRICT = {"type": "object", "properties": {"a": {"type": "integer"}}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"input": "x"}, "you must provide a model"),
    "no input": ({"model": "m"}, "'input': must be text, or a list"),
    "empty input": ({"model": "m", "input": []}, "'input': must be text, or a list"),
    "messages": (asked(messages=[]), "'messages': unknown parameter"),
    "response_format": (asked(response_format={}), "'response_format': unknown parameter"),
    "stream_options": (asked(stream=True, stream_options={"include_usage": True}), "'stream_options'"),
    "server's state": (asked(previous_response_id="resp_1"), "'previous_response_id': not found"),
    "item": (asked(5), r"'input\[1\]': must be an object"),
    "type": (asked({"type": 5}), "must be text"),
    "role": (asked({"role": "tool", "content": "x"}), "must be one of user, assistant, system, developer"),
    "content": (asked({"role": "user", "content": None}), "must be text, or a list with at least one part"),
    "part": (asked({"role": "user", "content": [{"type": "text", "text": "x"}]}), "must be one of input_text"),
    "part of the model": (asked({"role": "assistant", "content": [{"type": "input_text"}]}), "output_text, refusal"),
    "call id": (asked(call(call_id=None), answer()), "non-empty text"),
    "name": (asked(call(name="a b"), answer()), "must match"),
    "arguments": (asked(call(arguments="{"), answer()), "holds one JSON object"),
    "decoded arguments": (asked(call(arguments={}), answer()), "holds one JSON object"),
    "no answer": (asked(call()), "No tool output found for function call c"),
    "answer too late": (asked(call(), ASKED, answer()), "No tool output found for function call c"),
    "no call": (asked(answer()), "No tool call found for function call output with call_id c"),
    "wrong order": (asked(call(), call(call_id="d"), answer(call_id="d"), answer()), "must be answered"),
    "answer of another kind": (asked(call(), answer(type="custom_tool_call_output")), "must be answered"),
    "answer without an id": (asked(call(), answer(call_id="")), "non-empty text"),
    "id twice": (asked(call(), answer(), call(), answer()), "already in this conversation"),
    "thought without id": (asked({**THOUGHT, "id": ""}, call(), answer()), "non-empty text"),
    "thought without summary": (asked({**THOUGHT, "summary": None}, call(), answer()), "must be a list"),
    "thought that is not here": (
        asked({**THOUGHT, "encrypted_content": None}, call(), answer()),
        "not found. Items are not persisted",
    ),
    "thought at the end": (asked(THOUGHT), "without its required following item"),
    "thought before the user": (asked(THOUGHT, ASKED), "without its required following item"),
    "group is missing": (
        asked(call(), answer(), tools=[{"type": "namespace", "name": "g", "description": "d", "tools": [ADD]}]),
        "Missing namespace for function_call 'add'",
    ),
    "no tools": (asked(tools=[]), "at least one tool"),
    "choice without tools": (asked(tool_choice="auto"), "only allowed when 'tools' are specified"),
    "unknown choice": (asked(tools=[ADD], tool_choice="add"), "must be 'auto', 'none', 'required'"),
    "choice of no tool": (asked(tools=[ADD], tool_choice={"type": "function", "name": "x"}), "'x' not found"),
    "choice without a list": (asked(tools=[ADD], tool_choice={"type": "allowed_tools", "mode": "auto"}), "a list with"),
    "tool without type": (asked(tools=[{"name": "add"}]), "non-empty text"),
    "nested function": (asked(tools=[{"type": "function", "function": ADD}]), "must match"),
    "parameters": (asked(tools=[{**ADD, "parameters": {}}]), "must have type 'object'"),
    "strict": (asked(tools=[{**ADD, "parameters": STRICT, "strict": True}]), "'additionalProperties' is required"),
    "group without description": (asked(tools=[{"type": "namespace", "name": "g", "tools": [ADD]}]), "description"),
    "empty group": (asked(tools=[{"type": "namespace", "name": "g", "description": "d", "tools": []}]), "with at"),
    "name of a group": (asked(tools=[{"type": "namespace", "name": "g g"}]), "must match"),
    "hosted tool in a group": (
        asked(tools=[{"type": "namespace", "name": "g", "description": "d", "tools": [{"type": "web_search"}]}]),
        "must be 'function'",
    ),
    "nothing to search with": (asked(tools=[{**ADD, "defer_loading": True}]), "need the tool 'tool_search'"),
    "kind of format": (asked(text={"format": {"type": "xml"}}), "'text.format.type'"),
    "name of a format": (asked(text={"format": {"type": "json_schema", "schema": {}}}), "'text.format.name'"),
    "format without schema": (asked(text={"format": {"type": "json_schema", "name": "n"}}), "'text.format.schema'"),
}


@pytest.mark.parametrize(("body", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(client: openai.OpenAI, body: Any, expected: str) -> None:
    """What OpenAI refuses is answered with 400, and says what is wrong."""
    with pytest.raises(openai.BadRequestError, match=expected):
        post(client, body)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("add", "must be 'auto', 'none', 'required'"),
        ({"type": "function", "function": {"name": "x"}}, "'x' not found"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "any", "tools": [1]}}, "'mode' must be"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, "a list with a tool"),
    ],
    ids=["word", "name", "mode", "list"],
)
def test_refused_choice_in_chat(client: openai.OpenAI, choice: Any, expected: str) -> None:
    """Chat Completions refuse a choice of what is not on offer, too."""
    tools = [{"type": "function", "function": {"name": "add"}}]

    with pytest.raises(openai.BadRequestError, match=expected):
        client.post(
            "/chat/completions",
            body={"model": "m", "messages": [ASKED], "tools": tools, "tool_choice": choice},
            cast_to=object,
        )


def test_no_body(client: openai.OpenAI) -> None:
    """A body that is not an object is refused."""
    with pytest.raises(openai.BadRequestError, match="must be a JSON object"):
        post(client, [1])
