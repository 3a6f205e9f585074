"""A result that is too long is cut for the model, kept whole for a while, and can be read on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolkit import Failed, Limits, Runner, RunResult, Toolbox, tool
from toolkit.approvers import ask_when
from toolkit.builtin import plan_tool
from toolkit.events import ToolCallFinished, event_to_dict
from toolkit.models import ModelRequest, ToolMessage
from toolkit.testing import ScriptedModel, call

LINES = "\n".join(f"line {number}: {'needle' if number % 100 == 7 else 'hay'}" for number in range(10_000))
STORED = 10 * 2**20  # bytes that a run stores


def handle_in(text: str) -> str:
    """The handle that a cut result names."""
    (handle,) = re.findall(r'handle="(\w+)"', text)
    return str(handle)


def texts(result: RunResult) -> list[str]:
    """What the model reads of each result."""
    return [message.text for message in result.messages if isinstance(message, ToolMessage)]


def run(value: Any, limit: int | None, *reads: dict[str, Any], **options: Any) -> RunResult:
    """Run one call whose result is too long, then read on in it."""

    @tool(effect="read", max_result=limit)
    def log() -> Any:
        """Log."""
        if isinstance(value, Exception):
            raise value
        return value

    def read_on(arguments: dict[str, Any]) -> Any:
        return lambda request: call("result_read", **{"handle": handle_in(request.messages[2].text), **arguments})

    script = [call("log"), *map(read_on, reads), "Done."]
    return Runner([log], model=ScriptedModel(script), **options).run("go")


def read(text: str, **arguments: Any) -> str:
    """What the model reads of a text when it reads on."""
    return texts(run(text, 5, arguments))[1]


def read_to_the_end(text: str, **arguments: Any) -> list[str]:
    """What the model reads of a text, page by page."""

    @tool(max_result=5)
    def log() -> str:
        """Log."""
        return text

    def reply(request: ModelRequest) -> Any:
        known = [message.text for message in request.messages if isinstance(message, ToolMessage)]
        if not known:
            return call("log")
        more = re.findall(r"ead on with offset=(\d+)", known[-1]) if len(known) > 1 else ["0"]
        return call("result_read", handle=handle_in(known[0]), offset=int(more[0]), **arguments) if more else "Done."

    return texts(Runner([log], model=ScriptedModel(reply), limits=Limits(max_turns=None)).run("go"))[1:]


# -- cut


@pytest.mark.parametrize("text", ["a", "a" * 100_000], ids=["short", "just so long"])
def test_short(text: str) -> None:
    """A result that is not too long stays as it is, and nothing is offered to read on."""
    model = ScriptedModel([call("log"), "Done."])
    result = Runner([tool(lambda: text, name="log")], model=model).run("go")

    assert ([text], ["log"]) == (texts(result), [spec.name for spec in model.requests[-1].tools])


def test_cut() -> None:
    """Beginning and end stay, a note has the size and how to read on; the value stays whole."""
    text = "a" * 1_000 + "b" * 1_000
    result = run(text, 500)
    (shown,), (made,) = texts(result), result.calls

    assert re.fullmatch(
        r"a{100,}\n\n\[\.\.\. The whole result has 2,000 characters; its middle is left out here\. Read on with "
        r'result_read\(handle="\w{12}", offset=\.\.\. or query="\.\.\."\)\. \.\.\.\]\n\nb{50,}',
        shown,
    )
    assert (500, text) == (len(shown), made.result.value)


def test_error() -> None:
    """An error is cut as any result is; for Python it stays whole."""
    result = run(Failed("a" * 1_000), 500)
    (shown,), (made,) = texts(result), result.calls

    assert (500, 1_000, "failed") == (len(shown), len(made.result.error or ""), made.result.kind)


@given(st.text(max_size=400), st.integers(1, 400))
@example("\n" + "0" * 399, 300)
def test_lengths(text: str, limit: int) -> None:
    """What is cut begins and ends as the whole does, and at least half of the limit is the result's own."""
    (cut,) = texts(run(text, limit))
    head, note, tail = cut.partition("\n\n[...")
    end = tail.rpartition("...]\n\n")[2]

    assert (text == cut) == (len(text) <= limit)
    if text != cut:
        assert text.startswith(head) and text.endswith(end) and note
        assert limit // 2 <= len(head) + len(end) <= limit


@pytest.mark.parametrize("early", [False, True])
def test_whole_outside_of_the_conversation(early: bool) -> None:
    """Only the model's messages are cut: events, `result.calls` and their JSON have the whole text."""

    @tool(effect="read", max_result=400)
    def log() -> dict[str, str]:
        """Log."""
        return {"lines": "a" * 1_000}

    whole = log.invoke({}).text
    stream = Runner([log], model=ScriptedModel([call("log"), "Done."]), early=early).stream("go")
    shown = [event_to_dict(event) for event in stream if isinstance(event, ToolCallFinished)]
    message = stream.result.messages[2].text

    assert (1_012, whole, whole) == (len(whole), shown[0]["text"], stream.result.calls[0].result.text)
    assert (400, True) == (len(message), "result_read" in message)


def test_answers_are_cut() -> None:
    """Without a run, the messages of `answer` are cut, without a handle; the result of `call` is whole."""

    @tool(max_result=400)
    def log() -> str:
        """Log."""
        return "a" * 1_000

    box = Toolbox([log])
    reply = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "log", "arguments": "{}"}}]}

    content = box.answer(reply)[0]["content"]
    assert (400, 1_000) == (len(content), len(box.call("log").text))
    assert ("Ask for less." in content, "result_read" in content) == (True, False)


def test_steps_of_a_plan_are_cut() -> None:
    """Each step of a plan is cut by its tool's own limit, so that a long one hides no other."""

    @tool(effect="read", max_result=400)
    def log() -> str:
        """Log."""
        return "a" * 1_000

    plan = call("execute_plan", steps=[{"tool": "log", "args": {}}] * 2)
    (finished,) = Runner([log, plan_tool([log])], model=ScriptedModel([plan, "Done."])).run("go").calls

    assert [400, 400] == [len(step["result"]) for step in finished.result.value]


# -- read on


def test_whole() -> None:
    """Read piece by piece, the whole comes out, each piece no longer than it may be."""
    pieces = read_to_the_end(LINES)

    assert max(map(len, pieces)) <= 20_000
    assert LINES == "".join(piece.partition("]\n")[2] for piece in pieces)


OFFSETS = {
    "begin": ({}, "[Characters 0 to 10 of 10.]\n0123456789"),
    "middle": ({"offset": 4}, "[Characters 4 to 10 of 10.]\n456789"),
    "from the end": ({"offset": -3}, "[Characters 7 to 10 of 10.]\n789"),
    "before the begin": ({"offset": -30}, "[Characters 0 to 10 of 10.]\n0123456789"),
    "behind the end": ({"offset": 30}, "[Characters 10 to 10 of 10.]\n"),
    "empty query": ({"offset": 8, "query": ""}, "[Characters 8 to 10 of 10.]\n89"),
}


@pytest.mark.parametrize(("arguments", "text"), OFFSETS.values(), ids=OFFSETS)
def test_offset(arguments: dict[str, Any], text: str) -> None:
    """A piece says where it is in the whole; an offset below zero counts from the end."""
    assert text == read("0123456789", **arguments)


def test_where_to_go_on() -> None:
    """A piece that is not the last says where the next one begins."""
    shown = texts(run("a" * 2_000, 5, {}, max_result=1_000))[1]

    assert shown.startswith("[Characters 0 to 800 of 2,000. Read on with offset=800.]\naaa")


QUERIES = {
    "lines": ("b", {}, "Line 2, offset 4: a b\nLine 4, offset 10: B"),
    "case": ("B", {}, "Line 2, offset 4: a b\nLine 4, offset 10: B"),
    "from an offset": ("b", {"offset": 5}, "Line 4, offset 10: B"),
    "signs of patterns": (".", {}, "[No line from character 0 on contains '.'.]"),
    "twice in a line": ("c", {}, "Line 3, offset 6: c c"),
    "not there": ("z", {}, "[No line from character 0 on contains 'z'.]"),
}


@pytest.mark.parametrize(("query", "arguments", "text"), QUERIES.values(), ids=QUERIES)
def test_query(query: str, arguments: dict[str, Any], text: str) -> None:
    """Lines that contain a text are shown with their numbers, and where in the whole they are."""
    assert text == read("a\na b\nc c\nB", query=query, **arguments)


def test_query_in_a_long_line() -> None:
    """Of a line that is as long as the whole, the text around each match is shown."""
    text = "x" * 5_000 + "needle" + "y" * 5_000 + "needle"

    around = f"Line 1, offset 5000: {'x' * 200}needle{'y' * 200}\nLine 1, offset 10006: {'y' * 200}needle"
    assert around == read(text, query="needle")


def test_query_with_many_lines() -> None:
    """Lines that would be too much are left for the next call, which the text names."""
    pages = read_to_the_end(LINES * 10, query="needle")

    assert (True, True) == (len(pages) > 1, max(map(len, pages)) <= 20_000)
    assert [f"line {number}: needle" for number in range(7, 10_000, 100)] * 10 == re.findall(
        r"line \d+: needle", "\n".join(pages)
    )


def test_unknown_handle() -> None:
    """A handle that nothing is kept under is an error that says what to do."""
    assert "No result 'ffff' is kept here. Repeat the call that gave it." == read("a" * 10, handle="ffff")


@pytest.mark.parametrize("limit", [1, 10, 100, 1_000])
def test_pages_are_not_cut(limit: int) -> None:
    """What was read on is never cut again, so that no handle leads to a handle."""
    result = run(LINES, None, {}, max_result=limit)

    assert texts(result)[1] == result.calls[1].result.text


# -- kept


def test_same_text() -> None:
    """A text has the same handle in every run, and another text another one."""
    handles = [handle_in(texts(run(text, 5))[0]) for text in ("a" * 10, "a" * 10, "b" * 10)]

    assert handles[0] == handles[1] != handles[2]


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [([STORED // 4] * 5, [False, True, True, True, True]), ([10, STORED + 1], [True]), ([1_000] * 300, [True] * 300)],
    ids=["the oldest goes first", "one that is too long", "at the same time"],
)
def test_kept(sizes: list[int], kept: list[bool]) -> None:
    """Results are kept until they are too much, the oldest goes first; one that alone is too much gets no handle."""
    order: Any = "sequential" if len(sizes) < 10 else "parallel"

    @tool(effect="read", max_result=5)
    def log(number: int) -> str:
        """Log."""
        return f"{number} ".ljust(sizes[number], "x")

    def read_all(request: ModelRequest) -> Any:
        handles = re.findall(r'handle="(\w+)"', "".join(message.text for message in request.messages))
        return [call("result_read", handle=handle) for handle in handles]

    calls = [call("log", number=number) for number in range(len(sizes))]
    model = ScriptedModel([calls, read_all, "Done."])
    limits = Limits(max_calls_per_turn=300)
    result = Runner([log], model=model, order=order, limits=limits).run("go")
    found = [re.search(r"\]\n(\d+) ", text) for text in texts(result)[len(sizes) :]]

    assert kept == [match is not None and int(match[1]) == number for number, match in enumerate(found)]


def test_tool() -> None:
    """The tool is one like any other: it only reads, and its parameters are described."""
    model = ScriptedModel([call("log"), "Done."])
    Runner([tool(lambda: "a" * 10, name="log", max_result=5)], model=model).run("go")
    (spec,) = (spec for spec in model.requests[-1].tools if spec.name == "result_read")

    assert ["handle"] == spec.parameters["required"]
    assert all("description" in parameter for parameter in spec.parameters["properties"].values())
    shown = texts(run("a" * 10, 5, {}, approve=ask_when(lambda _: False, effects=["write"])))[1]
    assert shown.endswith("a" * 10)
