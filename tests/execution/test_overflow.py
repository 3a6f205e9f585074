"""A result that is too long is cut for the model, kept whole for a while, and can be read on."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolkit import Runner, Toolbox, ToolCall, ToolResult, tool
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.truncation import MAX_BYTES, MAX_RESULT, PAGE, ResultStore, truncate
from toolkit.builtin import plan_tool
from toolkit.events import ToolCallFinished, event_to_dict
from toolkit.testing import ScriptedModel, call

LINES = "\n".join(f"line {number}: {'needle' if number % 100 == 7 else 'hay'}" for number in range(10_000))


def handle_in(result: ToolResult) -> str:
    """The handle that a cut result names."""
    (handle,) = re.findall(r'handle="(\w+)"', result.text)
    return str(handle)


def read(overflow: ResultStore, **arguments: Any) -> ToolResult:
    """What the model is shown when it reads on."""
    return overflow.tool.invoke(arguments)


# -- cut


@pytest.mark.parametrize("text", ["", "a", "a" * MAX_RESULT], ids=["empty", "short", "just so long"])
def test_short(text: str) -> None:
    """A result that is not too long stays as it is, and nothing is kept."""
    overflow = ResultStore()
    result = ToolResult(1, text)

    assert (result, False) == (truncate(result, overflow=overflow), overflow.is_used)


def test_cut() -> None:
    """Beginning and end stay, a note has the size and how to read on; the value stays whole."""
    overflow = ResultStore()
    text = "a" * 1_000 + "b" * 1_000
    result = truncate(ToolResult(text, text, details=1), 500, overflow)

    assert re.fullmatch(
        r"a{100,}\n\n\[\.\.\. The whole result has 2,000 characters; its middle is left out here\. Read on with "
        r'result_read\(handle="\w{12}", offset=\.\.\. or query="\.\.\."\)\. \.\.\.\]\n\nb{50,}',
        result.text,
    )
    assert (500, text, 1, True) == (len(result.text), result.value, result.details, overflow.is_used)


def test_without_a_store() -> None:
    """Without anything that keeps the whole, the note does not promise it."""
    text = truncate(ToolResult(1, "a" * 1_000), 300).text

    assert (300, True, False) == (len(text), "Ask for less." in text, "result_read" in text)


def test_error() -> None:
    """An error is cut as any result is; for Python it stays whole."""
    result = truncate(ToolResult(text="a" * 1_000, error="a" * 1_000, kind="failed"), 300)

    assert (300, 1_000, "failed") == (len(result.text), len(result.error or ""), result.kind)


@given(st.text(max_size=400), st.integers(1, 400))
@example("\n" + "0" * 399, 300)
def test_lengths(text: str, limit: int) -> None:
    """What is cut begins and ends as the whole does, and at least half of the limit is the result's own."""
    cut = truncate(ToolResult(text, text), limit).text
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
    """Without a run, the messages of `answer` are cut; the result of `call` is whole."""

    @tool(max_result=400)
    def log() -> str:
        """Log."""
        return "a" * 1_000

    box = Toolbox([log])
    reply = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "log", "arguments": "{}"}}]}

    assert (400, 1_000) == (len(box.answer(reply)[0]["content"]), len(box.call("log").text))


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
    overflow = ResultStore()
    handle = handle_in(truncate(ToolResult(1, LINES), 1_000, overflow))
    pieces: list[str] = []
    while sum(map(len, pieces)) < len(LINES):
        shown = read(overflow, handle=handle, offset=sum(map(len, pieces))).text
        assert len(shown) <= PAGE
        pieces.append(shown.partition("]\n")[2])

    assert LINES == "".join(pieces)


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
    overflow = ResultStore()
    handle = overflow.store("0123456789")

    assert text == read(overflow, handle=handle, **arguments).text


def test_where_to_go_on() -> None:
    """A piece that is not the last says where the next one begins."""
    overflow = ResultStore(limit=1_000)
    handle = overflow.store("a" * 2_000)

    assert read(overflow, handle=handle).text.startswith(
        "[Characters 0 to 800 of 2,000. Read on with offset=800.]\naaa"
    )


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
    overflow = ResultStore()
    handle = overflow.store("a\na b\nc c\nB")

    assert text == read(overflow, handle=handle, query=query, **arguments).text


def test_query_in_a_long_line() -> None:
    """Of a line that is as long as the whole, the text around each match is shown."""
    overflow = ResultStore()
    handle = overflow.store("x" * 5_000 + "needle" + "y" * 5_000 + "needle")

    around = f"Line 1, offset 5000: {'x' * 200}needle{'y' * 200}\nLine 1, offset 10006: {'y' * 200}needle"
    assert around == read(overflow, handle=handle, query="needle").text


def test_query_with_many_lines() -> None:
    """Lines that would be too much are left for the next call, which the text names."""
    overflow = ResultStore(limit=1_000)
    handle = overflow.store(LINES)
    seen: list[str] = []
    shown, offset = "", 0
    while "[There are more" in shown or not seen:
        shown = read(overflow, handle=handle, query="needle", offset=offset).text
        assert len(shown) <= 1_000
        seen += re.findall(r"line \d+: needle", shown)
        offset = int((re.findall(r"offset=(\d+)", shown) or ["0"])[0])

    assert [f"line {number}: needle" for number in range(7, 10_000, 100)] == seen


def test_unknown_handle() -> None:
    """A handle that nothing is kept under is an error that says what to do."""
    result = read(ResultStore(), handle="ffff")

    assert "No result 'ffff' is kept here. Make the call again that gave it." == result.error


@pytest.mark.parametrize("limit", [1, 10, 100, 1_000])
def test_pages_are_not_cut(limit: int) -> None:
    """What was read on is never cut again, so that no handle leads to a handle."""
    overflow = ResultStore(limit)
    page = read(overflow, handle=overflow.store(LINES))

    assert page == Dispatcher(tools={}, max_result=limit, overflow=overflow).truncate(
        ToolCall(name="result_read"), page
    )


# -- kept


def test_same_text() -> None:
    """A text that comes twice is kept once, and has one handle, in every run."""
    overflow = ResultStore()

    assert overflow.store("a") == overflow.store("a") == ResultStore().store("a") != overflow.store("b")


def test_oldest_go_first() -> None:
    """More than may be kept pushes out what was kept first."""
    overflow = ResultStore()
    handles = [overflow.store(f"{number}" * (MAX_BYTES // 4)) for number in range(5)]

    assert [True, False, False, False, False] == [read(overflow, handle=handle).is_error for handle in handles]


def test_too_long_to_be_kept() -> None:
    """A text that alone is more than may be kept is cut without a handle, and pushes nothing out."""
    overflow = ResultStore()
    handle = overflow.store("a")
    text = truncate(ToolResult(1, "é" * (MAX_BYTES // 2 + 1)), 300, overflow).text

    assert (True, False) == ("Ask for less." in text, read(overflow, handle=handle).is_error)


def test_from_many_threads() -> None:
    """Results that come at the same time are all kept, within the bounds."""
    overflow = ResultStore()
    texts = [f"{number} {'x' * 1_000}" for number in range(2_000)]
    with ThreadPoolExecutor(16) as pool:
        handles = list(pool.map(overflow.store, texts))

    assert texts == [read(overflow, handle=one).text.partition("\n")[2] for one in handles]


def test_tool() -> None:
    """The tool is one like any other: it only reads, and its parameters are described."""
    made = ResultStore().tool

    assert ("result_read", "read", ["handle"]) == (made.name, made.settings.effect, made.parameters["required"])
    assert all("description" in parameter for parameter in made.parameters["properties"].values())
