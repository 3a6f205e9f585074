"""A run as a transcript in a terminal or a pipe, line by line as it happens."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from pydantic_core import from_json

from toolkit.events import Event, RunFinished, TextDelta, ToolCallFinished, ToolCallStarted, TurnStarted
from toolkit.messages import ToolCall
from toolkit.runs import RunResult, RunStream

# C0 but for tab and newline, C1, and what changes the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MARGIN = 10  # the widest label and a space
_COLOURS: Mapping[str, str] = {
    "Question": "1",
    "Call": "36",
    "Result": "32",
    "Error": "31",
    "Answer": "1",
    "Model": "2",
}


def show(stream: RunStream, question: str = "", out: TextIO | None = None) -> RunResult:
    """Print a run while it happens, and give its result.

    Args:
        stream: What `Runner.stream` gave.
        question: Printed first.
        out: Where to; standard output by default. Colours only where a person looks, and not with NO_COLOR set.

    Example:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> _ = show(Runner(model=ScriptedModel(["Hello."])).stream("Hi!"), "Hi!")
        Question  Hi!
        Answer    Hello.
    """
    with stream:
        transcript = Transcript(out or sys.stdout)
        if question:
            transcript.line("Question", question)
        for event in stream:
            transcript.add(event)
        return stream.result


@dataclass
class Transcript:
    """Writes events as labelled lines."""

    out: TextIO
    _answering: bool = field(default=False, init=False)
    _together: int = field(default=0, init=False)  # calls of this turn

    def add(self, event: Event) -> None:
        """Write what an event has for people to read; several have nothing."""
        match event:
            case TextDelta():
                self._answer(event.text)
            case TurnStarted():
                self._together = 0
            case ToolCallStarted():
                self._together += 1
                self.line("Call", called(event.call))
            case ToolCallFinished():
                self._finish(event)
            case RunFinished():
                self._close(event)

    def line(self, label: str, text: str) -> None:
        """Write one labelled text; further lines of it stand below its first."""
        self._end_answer()
        margin = "\n" + " " * _MARGIN
        lines = _cut(visible(text).splitlines() or [""], self.out)
        self._write(f"{self._label(label)}{margin.join(lines)}\n")
        self.out.flush()

    def _finish(self, event: ToolCallFinished) -> None:
        text = event.result.text or ""
        told = text if self._together == 1 else f"{called(event.call)}: {text}"
        self.line("Error" if event.result.is_error else "Result", told)

    def _answer(self, text: str) -> None:
        if not self._answering:
            self._write(self._label("Answer"))
            self._answering = True
        self._write(visible(text).replace("\n", "\n" + " " * _MARGIN))

    def _end_answer(self) -> None:
        if self._answering:
            self._write("\n")
            self._answering = False

    def _write(self, text: str) -> None:
        encoding = self.out.encoding or "utf-8"
        self.out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        self.out.flush()

    def _close(self, event: RunFinished) -> None:
        if not self._answering and event.output:
            self._answer(event.output)
        self._end_answer()
        if event.finish_reason != "stop":
            self.line("Ended", f"by {event.finish_reason}")

    def _label(self, label: str) -> str:
        padded = label.ljust(_MARGIN)
        colour = _COLOURS.get(label)
        return f"\x1b[{colour}m{padded}\x1b[0m" if colour and _wants_colour(self.out) else padded


def visible(text: str) -> str:
    """Show control characters as escapes: what a model writes must not move the cursor or the direction of text."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def called(call: ToolCall) -> str:
    """Write a call as Python would: `add(a=17, b=25)`."""
    try:
        arguments = from_json(call.arguments)
    except ValueError:
        return f"{call.name}({call.arguments})"
    if not isinstance(arguments, dict):
        return f"{call.name}({call.arguments})"
    return f"{call.name}({', '.join(_given(arguments))})"


def _given(arguments: Mapping[str, Any]) -> Iterator[str]:
    return (f"{name}={value!r}" for name, value in arguments.items())


def _cut(lines: list[str], out: TextIO) -> list[str]:
    """Keep a text to twenty lines, and to the width of a terminal where there is one."""
    width = max(40, shutil.get_terminal_size().columns - _MARGIN) if out.isatty() else sys.maxsize
    shown = [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines[:20]]
    return shown if len(lines) <= 20 else [*shown, f"… {len(lines) - 20} more lines"]


def _wants_colour(out: TextIO) -> bool:
    return out.isatty() and "NO_COLOR" not in os.environ
