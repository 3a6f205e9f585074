"""A cassette records the answers of a model and the results of tools, and replays them to equal requests and calls."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.servers import FakeServer
from toolkit import Image, ModelError, OpenAIModel, Runner, Usage, tool
from toolkit.approvers import defer
from toolkit.events import ReasoningDelta, TextDelta
from toolkit.models import Model, ModelResponse
from toolkit.models.responses import ResponsesModel
from toolkit.testing import Cassette, ScriptedModel, ScriptError, call, reply

CALL = call("add", a=1, b=2)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "add.json"


def record(path: Path, *replies: Any, prompt: Any = "1 + 2?", tools: Any = (add,), **options: Any) -> Any:
    with Cassette(path, ScriptedModel(replies or [[CALL], "It is 3."]), mode="record", **options) as model:
        return Runner(tools, model=model).run(prompt)


def replay(path: Path, prompt: Any = "1 + 2?", tools: Any = (add,), **options: Any) -> Any:
    with Cassette(path, **options) as model:
        return Runner(tools, model=model).run(prompt)


def requests_of(path: Path) -> list[Any]:
    return [each["request"] for each in json.loads(path.read_text(encoding="utf-8"))["records"]]


def test_replay_is_what_was_recorded(path: Path) -> None:
    """A replay has the output, the calls and the usage of the recorded run, without a model."""
    response = ModelResponse(text="It is 3.", finish_reason="stop", usage=Usage(5, 6, 1), model="m-1", reasoning="Sum.")
    recorded, replayed = record(path, [CALL], response), replay(path)

    assert isinstance(Cassette(path), Model)
    assert ("scripted", False) == (Cassette(path).name, Cassette(path).is_async)
    assert (recorded.output, recorded.usage, recorded.model) == (replayed.output, replayed.usage, replayed.model)
    assert [3] == [each.result.value for each in replayed.calls]
    assert response == replayed.messages[-1]


def test_tools_run_live(path: Path) -> None:
    """A replayed call executes its tool; another result than the recorded one is a difference."""
    ran: list[int] = []

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        ran.append(a)
        return a + b + len(ran) - 1

    record(path, tools=[add])
    with pytest.raises(ScriptError, match=re.escape('  -    "text": "3"\n  +    "text": "4"')):
        replay(path, tools=[add])

    assert [1, 1] == ran


def test_async_and_streams(path: Path) -> None:
    """A record is replayed to sync and async runs and to streams, however it was recorded; text comes word by word."""
    response = ModelResponse(text="It is 3.", finish_reason="stop", reasoning="Sum.")
    model = ScriptedModel([[CALL], response], is_async=True)

    async def record_stream() -> None:
        async with Runner([add], model=Cassette(path, model, mode="record")).astream("1 + 2?") as events:
            async for _ in events:
                pass

    asyncio.run(record_stream())

    assert Cassette(path, model, mode="auto").is_async
    assert "It is 3." == asyncio.run(Runner([add], model=Cassette(path)).arun("1 + 2?")).output == replay(path).output
    with Runner([add], model=Cassette(path)).stream("1 + 2?") as events:
        deltas = [event for event in events if isinstance(event, (TextDelta, ReasoningDelta))]
    assert [ReasoningDelta("Sum."), TextDelta("It"), TextDelta(" is"), TextDelta(" 3.")] == deltas


def test_file_is_stable(path: Path) -> None:
    """Recording the same run again writes the same file: no ids, no times."""
    record(path)
    first = path.read_text(encoding="utf-8")
    record(path)

    assert first == path.read_text(encoding="utf-8")
    assert first.startswith('{\n  "version": 1,\n  "model": "scripted",\n') and first.endswith("}\n")
    assert [path] == [*path.parent.iterdir()]


def test_difference_of_messages_and_tools(path: Path) -> None:
    """The error has the lines that differ, of messages and of tools, and says what to do."""
    record(path, prompt="First line.\nSecond line.")

    def add(a: int, b: int, c: int = 0) -> int:
        """Add some numbers."""
        return a + b + c

    with pytest.raises(ScriptError) as caught:
        replay(path, prompt="First line.\nAnother line.", tools=[add])

    assert str(caught.value).startswith(f"The request differs from record 1 of 2 in {path} (- recorded, + now):\n")
    assert '  -Second line."\n  +Another line."\n' in str(caught.value)
    assert "tools:\n" in str(caught.value)
    assert '"Add two numbers.",\n  +    "description": "Add some numbers.",\n' in str(caught.value)
    assert '  +        "c": {\n' in str(caught.value)
    assert str(caught.value).endswith(
        'If this is meant, record it again: mode="record", or, with the fixture `cassette`, pytest --cassettes=record.'
    )


def test_one_request_more(path: Path) -> None:
    """Each record answers one request."""
    record(path, "Hi.", prompt="Hi!", tools=())
    with Cassette(path) as model:
        assert "Hi." == Runner(model=model).run("Hi!").output
        with pytest.raises(
            ScriptError, match=r"All 1 requests of .* are used, and there is one more request:\n(.|\n)*Hi!"
        ):
            Runner(model=model).run("Hi!")


def test_one_request_fewer(path: Path) -> None:
    """A replay that leaves records unused fails at the end of its block."""
    record(path, "Hi.", prompt="Hi!")

    with pytest.raises(ScriptError, match=r"1 of 1 requests in .* were not made(.|\n)*text.: .Hi!"), Cassette(path):
        pass


def test_auto_asks_for_what_is_missing(path: Path) -> None:
    """In the mode "auto" a new request is asked and added; known ones are replayed."""
    for prompts, replies in ([["a"], ["A"]], [["a", "b"], ["B"]], [["b", "a"], []]):
        with ScriptedModel(replies) as asked, Cassette(path, asked, mode="auto") as model:
            runner = Runner(model=model)
            assert [prompt.upper() for prompt in prompts] == [runner.run(prompt).output for prompt in prompts]

    assert ["a", "b"] == [request["messages"][0]["text"] for request in requests_of(path)]


def test_order_is_free_between_runs(path: Path) -> None:
    """Runs at the same time find their records in any order."""
    prompts = [str(number) for number in range(8)]
    answering = ScriptedModel(lambda request: request.messages[0].text)
    Runner(model=Cassette(path, answering, mode="record")).map(prompts)

    with Cassette(path) as model:
        assert prompts == [str(result) for result in Runner(model=model).map(prompts)]


def test_record_replaces_the_file(path: Path) -> None:
    """In the mode "record" nothing of the old file stays."""
    record(path, "old", prompt="old")
    record(path, "new", prompt="new")

    assert ["new"] == [request["messages"][0]["text"] for request in requests_of(path)]


def test_errors_are_not_recorded(path: Path) -> None:
    """An answer that did not come is not in the file."""
    with pytest.raises(ModelError):
        record(path, ModelError("overloaded"))

    assert not path.exists()


SECRET = "sk-4711/abcdef"  # noqa: S105  it opens nothing


@pytest.mark.parametrize(
    "options",
    [
        {"secrets": [SECRET]},
        {"patterns": [r"sk-[a-z0-9/]+"]},
    ],
    ids=["secrets", "patterns"],
)
def test_secrets_are_not_written(path: Path, options: Any) -> None:
    """Secrets are redacted in prompts, arguments, results, answers and tools; the replay compares without them."""

    def show(text: str) -> str:
        return text

    show.__doc__ = f"Show {SECRET}."
    given = {"prompt": f"Use {SECRET}.", "tools": [show]}
    answer = ModelResponse(text=f"Shown: {SECRET}.", items=({"key": SECRET},))
    recorded = record(path, [call("show", text=SECRET)], answer, **given, **options)

    assert f"Shown: {SECRET}." == recorded.output
    assert "4711" not in path.read_text(encoding="utf-8")
    assert "Shown: [redacted]." == replay(path, **given, **options).output
    with pytest.raises(ScriptError) as caught:
        replay(path, prompt=f"No {SECRET}!", tools=[show], **options)
    assert "4711" not in str(caught.value)


def test_pattern_takes_away_what_changes(path: Path) -> None:
    """A day in a prompt that a pattern matches is not a difference."""
    options: Any = {"patterns": [r"\d{4}-\d\d-\d\d"]}
    record(path, "Fine.", prompt="Today is 2030-01-01.", **options)

    assert "Fine." == replay(path, "Today is 2031-12-31.", **options).output


def test_pictures_are_written_as_hashes(path: Path) -> None:
    """The content of pictures is compared, and not in the file."""
    record(path, "A cat.", prompt=["What is this?", Image(b"cat")])

    assert re.fullmatch("sha256:[0-9a-f]{64}", requests_of(path)[0]["messages"][0]["images"][0]["data"])
    assert "A cat." == replay(path, ["What is this?", Image(b"cat")]).output
    with pytest.raises(ScriptError, match="sha256"):
        replay(path, ["What is this?", Image(b"dog")])


def test_text_that_utf8_cannot_hold(path: Path) -> None:
    """Unpaired surrogates of a model are replaced in the file."""
    record(path, "half \ud83d", prompt="Hi!")

    assert "half �" == replay(path, "Hi!").output


@pytest.mark.parametrize("refuses", [False, True], ids=["by schema", "by tool"])
def test_structured_output(path: Path, refuses: bool) -> None:
    """Structured output is replayed, also where the server refuses `response_format` and gets a tool instead."""
    answer = reply.calls(("final_result", {"result": [1, 2]})) if refuses else reply.text('{"result": [1, 2]}')
    script = [*([reply.error(400, "'response_format' is not supported")] if refuses else []), answer]
    with FakeServer(script, strict=False) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=0)
        runner = Runner(model=Cassette(path, OpenAIModel(client, "m"), mode="record"))
        runner.run("1, 2", output_type=list[int])

    assert [1, 2] == Runner(model=Cassette(path)).run("1, 2", output_type=list[int]).output
    with pytest.raises(ScriptError, match="output:"):
        Runner(model=Cassette(path)).run("1, 2", output_type=list[str])


def test_items_of_responses_are_replayed(path: Path) -> None:
    """Reasoning, output items and usage of OpenAI's Responses come back as they were, recorded from a stream."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Sum."}]}
    made = {"type": "function_call", "id": "fc_1", "call_id": "c_1", "name": "add", "arguments": '{"a": 1, "b": 2}'}

    async def record_stream(base_url: str) -> tuple[Any, Usage]:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="k") as client:
            model = Cassette(path, ResponsesModel(client, "m"), mode="record")
            async with Runner([add], model=model).astream("1 + 2?") as events:
                async for _ in events:
                    pass
        return events.result.messages[1], events.result.usage

    with FakeServer([reply.output(thought, made), reply.text("3")]) as server:
        answer, usage = asyncio.run(record_stream(server.base_url))

    result = replay(path)
    replayed = result.messages[1]
    assert usage == result.usage
    assert ("Sum.", answer.items) == (replayed.reasoning, replayed.items)


def test_ids_of_a_server_are_replayed(path: Path) -> None:
    """The ids of a provider come back in the replay, and are not compared."""
    record(path, [CALL.replace(provider_call_id="call_77")], "3")

    assert "call_77" == replay(path).calls[0].call.provider_call_id


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((), {}, ScriptError, 'Record it: Cassette(path, model, mode="record")'),
        (("gpt",), {}, TypeError, "'gpt' is not a model. Pass one: Cassette("),
        ((), {"mode": "all"}, ValueError, 'is not "record", "replay" or "auto"'),
        ((ScriptedModel([]),), {"mode": "record", "secrets": "abc"}, TypeError, "secrets= takes a list"),
    ],
)
def test_refused_options(path: Path, arguments: Any, options: Any, error: Any, message: str) -> None:
    """What cannot work is refused when the cassette is made, with what to do."""
    with pytest.raises(error, match=re.escape(message)):
        Cassette(path, *arguments, **options)


def test_recording_without_a_model(path: Path) -> None:
    """A cassette that is to record and has no model says so when it is asked."""
    with pytest.raises(TypeError, match="has no model to ask"):
        Runner(model=Cassette(path, mode="record")).run("Hi!")


class TestTools:
    """The results of tools are recorded and replayed by a cassette that is a hook of the runner."""

    def test_tools_and_model(self, path: Path) -> None:
        """A replay of both runs no tool and asks no gate; the results are the recorded ones."""
        tape = Cassette(path, ScriptedModel([[CALL, CALL], "It is 3."]), mode="record")
        Runner([add], model=tape, middleware=[tape]).run("1 + 2?")

        def refuse(tool: Any, arguments: Any, context: Any) -> bool:
            raise AssertionError

        with Cassette(path) as tape:
            result = Runner([add], model=tape, middleware=[tape], authorize=refuse).run("1 + 2?")
        assert ([3, 3], "It is 3.") == ([made.result.value for made in result.calls], result.output)

    def test_tools_alone(self, path: Path) -> None:
        """The model is live while the results are replayed, in sync and async runs."""
        tape = Cassette(path, mode="record")
        Runner([add], model=ScriptedModel([CALL, "3"]), middleware=[tape]).run("1 + 2?")

        @tool(name="add", description="Not needed in a replay.")
        def gone(a: int, b: int) -> int:
            raise AssertionError

        with Cassette(path) as tape:
            model = ScriptedModel([CALL, "Three."], is_async=True)
            runner = Runner([gone], model=model, middleware=[tape])
            result = asyncio.run(runner.arun("What are 1 and 2?"))
        assert ("3", "Three.") == (result.calls[0].result.text, result.output)

    def test_difference(self, path: Path) -> None:
        """Another call ends the run, with the lines that differ."""
        tape = Cassette(path, mode="record")
        Runner([add], model=ScriptedModel([CALL, "3"]), middleware=[tape]).run("1 + 2?")

        model = ScriptedModel([call("add", a=1, b=5)])
        with pytest.raises(ScriptError, match=r"The call differs from record 1 of 1(.|\n)*  -  .b.: 2\n  \+  .b.: 5"):
            Runner([add], model=model, middleware=[Cassette(path)]).run("1 + 5?")
        with pytest.raises(ScriptError, match=r"1 of 1 calls in .* were not made"), Cassette(path):
            pass

    def test_errors(self, path: Path) -> None:
        """Exceptions, and arguments that are refused, are replayed as the errors that they were."""

        def fail(x: int) -> int:
            raise OSError("disk")

        script: list[Any] = [[call("fail", x=1), call("fail", x="no"), call("unknown")], "No."]
        tape = Cassette(path, ScriptedModel(script), mode="record")
        recorded = Runner([fail], model=tape, middleware=[tape]).run("Try.")
        with Cassette(path) as tape:
            replayed = Runner([fail], model=tape, middleware=[tape]).run("Try.")

        assert ["failed", "invalid_arguments", "not_found"] == [made.result.kind for made in replayed.calls]
        assert [made.result.text for made in recorded.calls] == [made.result.text for made in replayed.calls]

    def test_pictures_and_secrets(self, path: Path) -> None:
        """Pictures come back whole; secrets in results are not written."""

        def draw() -> list[Any]:
            """Draw."""
            return [f"key {SECRET}", Image(b"cat")]

        tape = Cassette(path, mode="record", secrets=[SECRET])
        Runner([draw], model=ScriptedModel([call("draw"), "Done."]), middleware=[tape]).run("Draw.")
        with Cassette(path) as tape:
            result = Runner([draw], model=ScriptedModel([call("draw"), "Done."]), middleware=[tape]).run("Draw.")

        assert "4711" not in path.read_text(encoding="utf-8")
        assert (Image(b"cat"),) == result.calls[0].result.images

    def test_auto(self, path: Path) -> None:
        """In the mode "auto" a call that is not in the file runs, and is added."""
        ran: list[int] = []

        def double(x: int) -> int:
            """Double."""
            ran.append(x)
            return 2 * x

        for calls in ([1], [1, 2], [1, 2]):
            script: list[Any] = [[call("double", x=x) for x in calls], "Done."]
            Runner([double], model=ScriptedModel(script), middleware=[Cassette(path, mode="auto")]).run("Double.")

        assert [1, 2] == ran

    def test_waiting_calls_are_not_recorded(self, path: Path) -> None:
        """A call that waits for approval has no result to record."""
        tape = Cassette(path, mode="record")
        Runner([add], model=ScriptedModel([CALL]), middleware=[tape], approve=defer).run("1 + 2?")

        assert not path.exists()


GOOD = {"version": 1, "model": "m", "records": [{"request": {"messages": []}, "response": {"text": "x"}}]}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        json.dumps({**GOOD, "records": 1}),
    ],
)
def test_other_files(tmp_path: Path, content: str) -> None:
    """A file that is something else is refused by name."""
    path = tmp_path / "other.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(ValueError, match=re.escape(f"{path} is not a cassette: ")):
        Cassette(path)


def test_later_version(tmp_path: Path) -> None:
    """A cassette of a later version is refused by name."""
    path = tmp_path / "later.json"
    path.write_text(json.dumps({**GOOD, "version": 2}), encoding="utf-8")

    with pytest.raises(ValueError, match="is a cassette of version 2, and this library reads 1"):
        Cassette(path)
