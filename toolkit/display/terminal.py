"""A run as a transcript in a terminal or a pipe, line by line as it happens."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Protocol, TextIO
from unicodedata import east_asian_width

from typing_extensions import TypeVar

from toolkit._messages import ModelResponse, ToolCall
from toolkit._options import hide_frames
from toolkit._schema.error_messages import shorten
from toolkit.display.formatting import escape_controls, get_progress_text, print_text
from toolkit.display.notebook import LiveStory, find_cell, is_in_kernel, is_in_marimo
from toolkit.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    RunFinished,
    SubAgentEvent,
    TextDelta,
    ToolCallAbandoned,
    ToolCallFinished,
    ToolCallRetried,
    ToolCallStarted,
    ToolCallUpdated,
    TurnStarted,
)

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

MARGIN = 10  # columns: the widest label and a space
LINES = 20  # of one text
MAX_TEXT = 10_000  # characters of one result
MAX_CALL = 40  # characters of a call that is printed before its progress or result
SLOW = 1.0  # seconds from which on a call is printed with its duration
_CLEAR = "\r\x1b[2K"  # carriage return, and erase the line
# The console of Windows writes escape sequences out unless it is told that they are colours and movements.
_STDOUT = -11
_WITH_ESCAPES = 7
_COLOURS: Mapping[str, str] = {
    "Question": "1",
    "Call": "36",
    "Progress": "2",
    "Result": "32",
    "Error": "31",
    "Retry": "33",
    "Approval": "33",
    "Answer": "1",
}


class EventStream(Protocol[R_co]):
    """The events of a run, and its result after the last one, as `Runner.stream` returns them."""

    def __iter__(self) -> Iterator[Event]: ...
    def __enter__(self) -> object: ...
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> object: ...
    @property
    def result(self) -> R_co: ...  # noqa: D102


class AsyncEventStream(Protocol[R_co]):
    """The events of a run in an event loop, and its result, as `Runner.astream` returns them."""

    def __aiter__(self) -> AsyncIterator[Event]: ...
    async def __aenter__(self) -> object: ...
    async def __aexit__(self, kind: Any, error: Any, trace: Any, /) -> object: ...
    @property
    def result(self) -> R_co: ...  # noqa: D102


@hide_frames
def show(stream: EventStream[R_co], question: str = "", out: TextIO | None = None) -> R_co:
    """Print a run while it happens, and return its result.

    Args:
        stream: The stream from `Runner.stream`.
        question: Printed first.
        out: Standard output by default, or in a notebook one display that changes. Only a terminal gets colours (none
            if NO_COLOR is set) and progress that is overwritten.

    Raises:
        TypeError: `stream` is not such a stream.

    Examples:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> _ = show(Runner(model=ScriptedModel(["Hello."])).stream("Hi!"), "Hi!")
        Question  Hi!
        Answer    Hello.
    """
    if not (hasattr(stream, "__enter__") and hasattr(stream, "__next__")):
        raise _make_stream_error(stream)
    with stream:
        transcript = _start_transcript(question, out)
        try:
            for event in stream:
                transcript.add(event)
        finally:
            transcript.end_line()
        return _note_cell(stream.result)


@hide_frames
async def ashow(stream: AsyncEventStream[R_co], question: str = "", out: TextIO | None = None) -> R_co:
    """Print a run while it happens in the caller's event loop, and return its result.

    Args:
        stream: The stream from `Runner.astream`.
        question: As in `show`.
        out: As in `show`.

    Raises:
        TypeError: `stream` is not such a stream.
    """
    if not (hasattr(stream, "__aenter__") and hasattr(stream, "__anext__")):
        raise _make_stream_error(stream)
    async with stream:
        transcript = _start_transcript(question, out)
        try:
            async for event in stream:
                transcript.add(event)
        finally:
            transcript.end_line()
        return _note_cell(stream.result)


class Transcript:
    """Writer of events as labelled lines, one below the other.

    Args:
        out: Standard output by default.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self.out: TextIO = out or sys.stdout
        self._open_label = ""  # of a text that is written in parts; "" if none is
        self._has_status = False
        self._call_count = 0  # in this turn
        self._has_answer = False
        if sys.platform == "win32" and self.out.isatty():
            import ctypes

            kernel32 = ctypes.windll.kernel32
            kernel32.SetConsoleMode(kernel32.GetStdHandle(_STDOUT), _WITH_ESCAPES)

    def add(self, event: Event) -> None:  # noqa: C901  one case for each kind of event
        """Write an event; some kinds of events write nothing."""
        match event:
            case TurnStarted():
                self._call_count = 0
                self._has_answer = False
            case TextDelta(text=text):
                self.write_part("Answer", text)
                self._has_answer = True
            case ToolCallStarted(call=call, title=title, source=source):
                self._call_count += 1
                about = ", ".join(filter(None, (title, source)))
                self.write("Call", f"{call}  [{about}]" if about else str(call))
                if call.reasoning:
                    self.write("Reasoning", call.reasoning)
            case ToolCallUpdated(call=call) | SubAgentEvent(call=call):
                if text := get_progress_text(event):
                    self.write_status("Progress", self._name_call(call, text))
            case ToolCallRetried(call=call, error=error, seconds=seconds):
                self.write("Retry", self._name_call(call, f"after {type(error).__name__}, in {seconds:.1f} s"))
            case ToolCallAbandoned(call=call, count=count):
                self.write("Abandoned", f"{call}: its function is still running ({count} in all)")
            case ApprovalNeeded(approval=approval):
                reason = f": {approval.reason}" if approval.reason else ""
                self.write("Approval", f"{approval.call} waits{reason}")
            case ToolCallFinished(call=call, result=result):
                note = f"  ({event.seconds:.1f} s)" if event.seconds >= SLOW else ""
                label = "Error" if result.is_error else "Result"
                self.write(label, self._name_call(call, shorten(result.text or "", MAX_TEXT)), note)
            case MessageAdded(message=message):
                self.write("User", message.text)
            case RunFinished(output=output, finish_reason=finish_reason):
                if not self._has_answer and output:
                    self.write_part("Answer", output)
                self.end_line()
                if finish_reason != "stop":
                    self.write("Ended", f"by {finish_reason}")

    def add_response(self, response: ModelResponse) -> None:
        """Write a response of the model: its text and its calls."""
        if response.text:
            self.write("Answer", response.text)
        for call in response.calls:
            self.write("Call", str(call))

    def write(self, label: str, text: str, note: str = "") -> None:
        """Write one labelled text, its lines aligned, and a note after the last line."""
        self.end_line()
        lines = _fit_lines(_escape_line_controls(text).splitlines() or [""], self._measure_width() - len(note))
        margin = "\n" + " " * MARGIN
        self._write(f"{self._format_label(label)}{margin.join(lines)}{note}\n")

    def write_part(self, label: str, text: str) -> None:
        """Write the next part of a text."""
        if self._open_label != label:
            self.end_line()
            self._write(self._format_label(label))
            self._open_label = label
        self._write(_escape_line_controls(text).replace("\n", "\n" + " " * MARGIN))

    def write_status(self, label: str, text: str) -> None:
        """Write a line that the next write replaces. In a pipe, write an ordinary line."""
        line = " ".join(escape_controls(text).split())
        if not self.out.isatty():
            self.write(label, line)
            return
        self.end_line()
        (fitted,) = _fit_lines([line], self._measure_width())
        self._write(self._format_label(label) + fitted)
        self._has_status = True

    def end_line(self) -> None:
        """End a text that is written in parts, or remove a status line."""
        if self._open_label or self._has_status:
            self._write("\n" if self._open_label else _CLEAR)
        self._open_label = ""
        self._has_status = False

    def _name_call(self, call: ToolCall, text: str) -> str:
        """Put the call before a text, if the turn has several calls."""
        return text if self._call_count == 1 else f"{shorten(str(call), MAX_CALL)}: {text}"

    def _write(self, text: str) -> None:
        print_text(text, self.out, end="")

    def _format_label(self, label: str) -> str:
        padded = label.ljust(MARGIN)
        colour = _COLOURS.get(label)
        wants_colour = self.out.isatty() and "NO_COLOR" not in os.environ
        return f"\x1b[{colour}m{padded}\x1b[0m" if colour and wants_colour else padded

    def _measure_width(self) -> int:
        """Return the number of columns beside the labels, without the last one, in which some terminals wrap."""
        return max(40, shutil.get_terminal_size().columns - MARGIN - 1) if self.out.isatty() else sys.maxsize


def _make_stream_error(value: object) -> TypeError:
    remedy = "Write show(runner.stream(prompt)) or await ashow(runner.astream(prompt))."
    return TypeError(f"A value of type {type(value).__name__} cannot be printed here. {remedy}")


def _note_cell(result: R) -> R:
    """Store the number of the cell that has printed a run, so that it does not display the result again."""
    if (cell := find_cell()) is not None:
        vars(result)["_cell"] = cell
    return result


def _start_transcript(question: str, out: TextIO | None) -> Transcript | LiveStory:
    if out is None and (is_in_kernel() or is_in_marimo()):
        return LiveStory(question)
    transcript = Transcript(out)
    if question:
        transcript.write("Question", question)
    return transcript


def _escape_line_controls(text: str) -> str:
    """Escape control characters and replace tabs, which make lines wider than they are counted."""
    return escape_controls(text).replace("\t", "    ")


def _fit_lines(lines: list[str], width: int) -> list[str]:
    visible = [_fit_line(line, width) for line in lines[:LINES]]
    return visible if len(lines) <= LINES else [*visible, f"… {len(lines) - LINES} more lines"]


def _fit_line(line: str, width: int) -> str:
    """Cut a line to `width` columns; East Asian characters and emoji take two."""
    columns = 0
    for position, character in enumerate(line):
        columns += 2 if east_asian_width(character) in "WF" else 1
        if columns > width:
            return f"{line[: max(0, position - 1)]}…"
    return line
