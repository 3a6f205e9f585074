"""A cassette records the answers of a model and replays them to equal requests; tools run live."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import openai
import pytest

from toolkit import Image, ModelError, OpenAIModel, Runner, Usage
from toolkit.events import ReasoningDelta, TextDelta
from toolkit.models import Model, ModelResponse
from toolkit.models.responses import ResponsesModel
from toolkit.testing import Cassette, FakeServer, ScriptedModel, ScriptError, call, reply

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
    with pytest.raises(ScriptError, match=re.escape("  -  text: '3'\n  +  text: '4'")):
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
    assert "  -    'Second line.'\n  +    'Another line.'\n" in str(caught.value)
    assert "tools:\n" in str(caught.value)
    assert "  -  description: 'Add two numbers.'\n  +  description: 'Add some numbers.'\n" in str(caught.value)
    assert "  +      c:\n" in str(caught.value)
    assert str(caught.value).endswith('If this is meant, record it again: mode="record".')


def test_one_request_more(path: Path) -> None:
    """Each record answers one request."""
    record(path, "Hi.", prompt="Hi!", tools=())
    with Cassette(path) as model:
        assert "Hi." == Runner(model=model).run("Hi!").output
        with pytest.raises(
            ScriptError, match=r"All 1 records of .* are used, and there is one more request:\n(.|\n)*Hi!"
        ):
            Runner(model=model).run("Hi!")


def test_one_request_fewer(path: Path) -> None:
    """A replay that leaves records unused fails at the end of its block."""
    record(path, "Hi.", prompt="Hi!")

    with pytest.raises(ScriptError, match=r"1 of 1 requests in .* were not made(.|\n)*text: 'Hi!'"), Cassette(path):
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
        {"scrub": lambda text: text.replace(SECRET, "[redacted]")},
    ],
    ids=["secrets", "patterns", "scrub"],
)
def test_secrets_are_not_written(path: Path, options: Any) -> None:
    """Secrets are scrubbed from prompts, arguments, results, answers and tools; the replay compares without them."""

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


def test_scrub_takes_away_what_changes(path: Path) -> None:
    """A day in a prompt that `scrub` removes is no difference."""
    options: Any = {"scrub": lambda text: re.sub(r"\d{4}-\d\d-\d\d", "DATE", text)}
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

    async def record_stream(client: openai.AsyncOpenAI) -> tuple[Any, Usage]:
        model = Cassette(path, ResponsesModel(client, "m"), mode="record")
        async with Runner([add], model=model).astream("1 + 2?") as events:
            async for _ in events:
                pass
        return events.result.messages[1], events.result.usage

    with FakeServer([reply.output(thought, made), reply.text("3")]) as server:
        client = openai.AsyncOpenAI(base_url=server.base_url, api_key="k")
        answer, usage = asyncio.run(record_stream(client))

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
        ((), {"mode": "record"}, TypeError, "needs a model to ask"),
        ((), {"mode": "auto"}, TypeError, "needs a model to ask"),
        (("gpt",), {}, TypeError, "needs a model to ask"),
        ((), {"mode": "all"}, ValueError, 'is not "record", "replay" or "auto"'),
        ((ScriptedModel([]),), {"mode": "record", "secrets": "abc"}, TypeError, "secrets= takes a list"),
    ],
)
def test_refused_options(path: Path, arguments: Any, options: Any, error: Any, message: str) -> None:
    """What cannot work is refused when the cassette is made, with what to do."""
    with pytest.raises(error, match=re.escape(message)):
        Cassette(path, *arguments, **options)


def test_scrub_returns_text(path: Path) -> None:
    """A scrub function that forgets its return is named."""
    with pytest.raises(TypeError, match=re.escape("scrub= returned None, and not a text")):
        record(path, scrub=lambda text: None)


GOOD = {"version": 1, "model": "m", "records": [{"request": {"messages": []}, "response": {"text": "x"}}]}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        json.dumps({**GOOD, "version": 2}),
        json.dumps({**GOOD, "records": [{}]}),
        json.dumps({**GOOD, "records": 1}),
        json.dumps({**GOOD, "records": [{"request": [], "response": {"text": "x"}}]}),
        json.dumps({**GOOD, "records": [{"request": {}, "response": {"text": "x"}}]}),
        json.dumps({**GOOD, "records": [{"request": {"messages": []}, "response": {"text": 1}}]}),
        json.dumps({**GOOD, "records": [{"request": {"messages": []}, "response": {"txt": "x"}}]}),
    ],
)
def test_other_files(tmp_path: Path, content: str) -> None:
    """A file that is something else is refused by name."""
    path = tmp_path / "other.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(ValueError, match=re.escape(f"{path} is no cassette: ")):
        Cassette(path)
