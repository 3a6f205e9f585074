"""What people read of a run: in a terminal, in a pipe, in a notebook."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest

from toolkit import (
    Image,
    PendingApproval,
    Runner,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolkit.display import ashow, show
from toolkit.events import (
    ApprovalNeeded,
    Event,
    LimitReached,
    MessageAdded,
    OutputDelta,
    ReasoningDelta,
    RunStarted,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallAbandoned,
    ToolCallFinished,
    ToolCallRetried,
    ToolCallStarted,
    ToolCallUpdated,
    TurnStarted,
    event_to_dict,
)
from toolkit.models import UserMessage
from toolkit.serve import agui
from toolkit.testing import ScriptedModel, call


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("secret")


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(*script: object, question: str = "What is 1 + 2?", out: io.StringIO | None = None) -> str:
    """The transcript of a scripted run."""
    out = out or io.StringIO()
    show(Runner([add, fail], model=ScriptedModel(script), max_turns=2).stream("x"), question, out)
    return out.getvalue()


class Events(list[Event]):
    """A stream of these events, without a run."""

    result = SimpleNamespace()

    def __next__(self) -> Event:
        raise StopIteration

    def __enter__(self) -> object:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the cell of a marimo notebook has displayed, one update after the other."""
    pages: list[str] = []
    replace = SimpleNamespace(replace=lambda story: pages.append(story._repr_html_()))
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(running_in_notebook=lambda: True, output=replace))
    return pages


def test_show_in_marimo(pages: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """In a cell of marimo a run is the output of the cell, which is replaced as it goes on, and nothing is printed."""
    show(Runner(model=ScriptedModel(["Hello."])).stream("x"), "Hi!")

    assert "Hi!" in pages[0] and "Hello." not in pages[0]
    assert "Hello." in pages[-1]
    assert "" == capsys.readouterr().out


@pytest.mark.parametrize("last", ["Done.", ValueError("gone")], ids=["completed", "failed"])
def test_many_calls(pages: list[str], last: object) -> None:
    """What each update sends does not grow with the number of calls; the last one has all of them."""
    calls = [call("add", a=1000 + number, b=2) for number in range(100)]
    with suppress(ValueError):
        show(Runner([add], model=ScriptedModel([calls, last])).stream("x"))

    assert all(page.count("<b><code>add") <= 20 for page in pages[:-1])
    assert "100 calls" in pages[-2] and "… 80 more calls" in pages[-2]
    assert 100 == pages[-1].count("<b><code>add")


def test_slow_call(pages: list[str]) -> None:
    """A call that runs stays in sight while later ones finish."""
    calls = [ToolCall(name="add", arguments="{}", id=str(number)) for number in range(50)]
    started = [ToolCallStarted(each) for each in calls]
    finished = [ToolCallFinished(each, ToolResult(3, "3"), 0.1) for each in calls[1:]]
    show(Events([TurnStarted(turn=0), *started, *finished]))

    assert "running" in pages[-2]


def test_interrupted_run(pages: list[str]) -> None:
    """After the stop button no call is displayed as running."""

    @tool
    def wait() -> None:
        """Wait."""
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        show(Runner([wait], model=ScriptedModel([call("wait")])).stream("x"))

    assert "running" in pages[-2]
    assert "cancelled" in pages[-1] and "running" not in pages[-1]


def test_large_images(pages: list[str]) -> None:
    """A large image is sent again with an update or two, not with all that follow."""
    calls = [ToolCall(name="draw", arguments="{}", id=str(number)) for number in range(10)]
    result = ToolResult(images=(Image(bytes(150_000), "image/png"),))
    show(Events([TurnStarted(turn=0), *(ToolCallFinished(each, result, 0.1) for each in calls)]))

    assert all(page.count("<img") <= 1 for page in pages[:-1])
    assert 10 == pages[-1].count("<img")


def test_parts_of_a_response(pages: list[str]) -> None:
    """Parts that come many times a second are sent together."""
    parts: list[Event] = [ReasoningDelta("a"), ToolArgumentsDelta(index=0, name="add", text="1"), OutputDelta(1)]
    show(Events([TurnStarted(turn=0), *parts * 1000]))

    assert len(pages) < 50


def test_whole_transcript() -> None:
    """Question, call, result and answer stand below each other."""
    assert (
        "Question  What is 1 + 2?\n"
        "Call      add(a=1, b=2)\n"
        "Result    3\n"
        "Answer    It is 3.\n"
    ) == shown([call("add", a=1, b=2)], "It is 3.")  # fmt: skip


def test_several_calls_name_their_results() -> None:
    """Where a turn has several calls, each result says whose it is."""
    lines = shown([call("add", a=1, b=2), call("fail")], "Done.").splitlines()

    assert {"Result    add(a=1, b=2): 3"} < set(lines)
    assert any(line.startswith("Error     fail(): fail failed: ValueError") for line in lines)


def test_further_lines_are_indented() -> None:
    """Texts of several lines keep to their column."""
    assert "Question  one\n          two\nAnswer    a\n          b\n" == shown("a\nb", question="one\ntwo")


def test_result_of_the_run_is_given() -> None:
    """What is shown is also returned."""
    stream = Runner(model=ScriptedModel(["Hello."])).stream("Hi!")

    assert "Hello." == show(stream, out=io.StringIO()).output


def test_show_takes_a_stream() -> None:
    """What is no stream of the plain kind is refused by name; the message says what to write."""
    wanted = r"type {} cannot be printed here. Write show\(runner\.stream\(prompt\)\) or await"
    with pytest.raises(TypeError, match=wanted.format("RunResult")):
        show(Runner(model=ScriptedModel(["Hello."])).run("Hi!"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=wanted.format("AsyncRunStream")):
        show(Runner(model=ScriptedModel(["Hello."])).astream("Hi!"))  # type: ignore[arg-type]


def test_unusual_end_is_told() -> None:
    """A run that ended at its limit says so."""
    calls = [[call("add", a=1, b=2)], [call("add", a=1, b=2)], "Enough."]

    assert shown(*calls).endswith("Answer    Enough.\nEnded     by max_turns\n")


def test_broken_arguments_are_shown_as_they_are() -> None:
    """Arguments that are not a JSON object are shown word for word."""
    text = shown([ToolCall(name="add", arguments="[1, 2]"), ToolCall(name="add", arguments="a=1")], "Oh.")

    assert "Call      add([1, 2])\nCall      add(a=1)\n" in text


def test_long_results_are_cut() -> None:
    """A text of many lines is cut, and the rest counted."""

    def lines() -> str:
        """Give lines."""
        return "\n".join(map(str, range(30)))

    out = io.StringIO()
    show(Runner([lines], model=ScriptedModel([[call("lines")], "Done."])).stream("x"), out=out)

    assert "          19\n          … 10 more lines\nAnswer" in out.getvalue()


def test_result_of_one_long_line() -> None:
    """A line of a million characters is cut, in a pipe too."""

    def line() -> str:
        """Return a line."""
        return "x" * 10**6

    out = io.StringIO()
    show(Runner([line], model=ScriptedModel([[call("line")], "Done."])).stream("x"), out=out)

    assert f"Result    {'x' * 9_999}…\nAnswer" in out.getvalue()


def test_colours_only_where_somebody_looks(environment: Callable[[str, str], None]) -> None:
    """A terminal gets colours, unless NO_COLOR is set; a pipe never does."""
    coloured = shown("Hi.", out=Terminal())
    environment("NO_COLOR", "1")

    assert (True, False, False) == tuple(
        "\x1b[" in text for text in (coloured, shown("Hi.", out=Terminal()), shown("Hi."))
    )


def test_control_characters_are_shown() -> None:
    """What a model writes cannot move the cursor, change the title or turn the direction of text."""
    text = shown("\x1b[2Jgone\u202e", question="\x07")

    assert "Question  \\x07\nAnswer    \\x1b[2Jgone\\u202e\n" == text


def test_narrow_encoding() -> None:
    """A stream that cannot hold a character gets its escape."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show(Runner(model=ScriptedModel(["Grüße \ud83d"])).stream("x"), out=out)

    out.seek(0)
    assert "Answer    Gr\\xfc\\xdfe \\ud83d\n" == out.read()


# -- what else happens

SLOW = ToolCall(name="fetch", arguments=json.dumps({"url": "https://example.com/" + "x" * 200, "n": 3}), id="r_0")
QUICK = ToolCall(name="load", arguments='{"rows": 3}', id="r_1")
FAILED = ToolResult(text="fetch failed: OSError", error="fetch failed: OSError", exception=OSError("secret"))


def followed(*events: Event, out: io.StringIO | None = None) -> str:
    """The transcript of events that happened to one call of a turn."""
    out = out or io.StringIO()
    show(Events([TurnStarted(turn=0), ToolCallStarted(QUICK), *events]), out=out)
    return out.getvalue().removeprefix("Call      load(rows=3)\n")


LINES: dict[str, tuple[Event, str]] = {
    "progress": (ToolCallUpdated(QUICK, "50 %\nof all"), "Progress  50 % of all\n"),
    "a partial result": (ToolCallUpdated(QUICK, partial=ToolResult([1], "[1]")), "Progress  [1]\n"),
    "a retry": (
        ToolCallRetried(call=QUICK, attempt=0, error=OSError("secret"), seconds=0.5),
        "Retry     after OSError, in 0.5 s\n",
    ),
    "a call that was given up": (
        ToolCallAbandoned(call=QUICK, count=2),
        "Abandoned load(rows=3): its function is still running (2 in all)\n",
    ),
    "a call that waits": (
        ApprovalNeeded(PendingApproval(call=QUICK, digest="d", arguments="{}", reason="Later.")),
        "Approval  load(rows=3) waits: Later.\n",
    ),
    "a quick result": (ToolCallFinished(QUICK, ToolResult(3, "3"), 0.99), "Result    3\n"),
    "a slow result": (ToolCallFinished(QUICK, ToolResult(3, "3"), 2.345), "Result    3  (2.3 s)\n"),
    "a result without a text": (ToolCallFinished(QUICK, ToolResult(3), 0.1), "Result    \n"),
    "an error": (ToolCallFinished(QUICK, FAILED, 0.1), "Error     fetch failed: OSError\n"),
    "a word of the user": (MessageAdded(UserMessage("Hurry.")), "User      Hurry.\n"),
    "a limit, which the end says": (LimitReached(limit="max_turns"), ""),
    "nothing for people": (OutputDelta([1]), ""),
}


@pytest.mark.parametrize(("event", "line"), LINES.values(), ids=LINES)
def test_lines(event: Event, line: str) -> None:
    """What happens has its line, if it is for people; no message of an exception is in it."""
    assert line == followed(event)


def test_result_without_a_text() -> None:
    """An event that was made by hand, with a result as a tool makes it, is shown and encoded with an empty text."""
    event = ToolCallFinished(QUICK, ToolResult(3), 0.1)
    _, shown, *_ = agui.encode_events([RunStarted(run_id="r", model="m"), event])

    assert ("load(rows=3) -> ", "", "") == (str(event), event_to_dict(event)["text"], shown["content"])


def test_reasoning_has_its_line() -> None:
    """Why the model makes a call stands below it."""
    out = io.StringIO()
    show(Events([ToolCallStarted(ToolCall(name="load", reasoning="They asked.\x1b[2J"))]), out=out)

    assert "Call      load()\nReasoning They asked.\\x1b[2J\n" == out.getvalue()


def test_long_arguments_are_cut() -> None:
    """A long argument is cut, and a call that only says whose text follows is cut shorter."""
    text = followed(ToolCallStarted(SLOW), ToolCallFinished(SLOW, ToolResult(text="200"), 0.1))

    call, result = text.splitlines()
    assert call == "Call      fetch(url='https://example.com/" + "x" * 58 + "…, n=3)"
    assert result == "Result    fetch(url='https://example.com/xxxxxxxx…: 200"


def test_progress_is_overwritten_where_somebody_looks(environment: Callable[[str, str], None]) -> None:
    """In a terminal a line of progress is wiped before anything else is written, and stays one line."""
    environment("COLUMNS", "80")
    events = [ToolCallUpdated(QUICK, "1\n2"), ToolCallUpdated(QUICK, "w" * 500), ToolCallUpdated(QUICK, "漢" * 99)]
    last = ToolCallFinished(QUICK, ToolResult(3, "3"), 0.1)

    written = followed(*events, last, out=Terminal()).split("\r\x1b[2K")
    label = "\x1b[2mProgress  \x1b[0m"
    assert [f"{label}1 2", f"{label}{'w' * 68}…", f"{label}{'漢' * 33}…", "\x1b[32mResult    \x1b[0m3\n"] == [
        written[0].splitlines()[-1],
        *written[1:],
    ]


def test_tabs_forge_no_line(environment: Callable[[str, str], None]) -> None:
    """Tabs in a result count with their width, so a terminal wraps no line to where a label stands."""
    environment("COLUMNS", "80")
    environment("NO_COLOR", "1")
    result = ToolCallFinished(QUICK, ToolResult("", "\t" * 60 + "Call      pay(amount=5)"), 0.1)
    line = followed(result, out=Terminal()).splitlines()[-1]

    assert "\t" not in line and len(line) < 80


def test_progress_of_a_tool_is_shown() -> None:
    """What a tool tells of itself is a line of the transcript."""

    def work(context: ToolContext) -> str:
        """Work."""
        context.progress("half")
        return "done"

    out = io.StringIO()
    show(Runner([work], model=ScriptedModel([[call("work")], "Fine."])).stream("x"), out=out)

    assert "Call      work()\nProgress  half\nResult    done\nAnswer    Fine.\n" == out.getvalue()


class Broken(Events):
    """A stream of these events, and then an exception."""

    def __iter__(self) -> Iterator[Event]:
        yield from super().__iter__()
        raise ValueError


def test_failed_run() -> None:
    """The last line of a run that fails is ended."""
    out = io.StringIO()
    with pytest.raises(ValueError):  # noqa: PT011  it is this one
        show(Broken([TextDelta("Hel")]), out=out)

    assert "Answer    Hel\n" == out.getvalue()


def test_async_run_is_shown() -> None:
    """An async stream is shown in the caller's event loop."""
    out = io.StringIO()
    result = asyncio.run(ashow(Runner(model=ScriptedModel(["Hello."])).astream("x"), "Hi!", out))

    assert ("Hello.", "Question  Hi!\nAnswer    Hello.\n") == (result.output, out.getvalue())


def test_ashow_takes_an_async_stream() -> None:
    """A plain stream is refused by name; the message says what to write."""
    with pytest.raises(TypeError, match=r" RunStream cannot be printed here\. .* await ashow\(runner\.astream\("):
        asyncio.run(ashow(Runner(model=ScriptedModel(["Hello."])).stream("x")))  # type: ignore[arg-type]
