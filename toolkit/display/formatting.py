"""Labelled lines in a terminal or a pipe, and texts without control characters."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, TextIO
from unicodedata import east_asian_width

from pydantic_core import from_json

from toolkit._messages import ToolCall
from toolkit._schema.error_messages import shorten
from toolkit.events import Event, SubAgentEvent, ToolCallFinished, ToolCallStarted, ToolCallUpdated

MARGIN = 10  # columns: the widest label and a space
LINES = 20  # of one text
MAX_TEXT = 10_000  # characters of one result
MAX_ARGUMENT = 80  # characters
MAX_RESULT = 200  # characters, of a result on one line
# C0 except tab and newline, C1, characters that change the direction of text, and surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_CLEAR = "\r\x1b[2K"  # carriage return, and erase the line
# The console of Windows writes escape sequences out unless it is told that they are colours and movements.
_STDOUT, _WITH_ESCAPES = -11, 7
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


@dataclass
class LineWriter:
    """Writer of labelled texts, one below the other."""

    out: TextIO
    _open_label: str = field(default="", init=False)  # of a text that is written in parts; "" if none is
    _has_status: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if sys.platform == "win32" and self.out.isatty():
            import ctypes

            kernel32 = ctypes.windll.kernel32
            kernel32.SetConsoleMode(kernel32.GetStdHandle(_STDOUT), _WITH_ESCAPES)

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
        """Write a line that the next write replaces; in a pipe, write an ordinary line."""
        line = " ".join(escape_controls(text).split())
        if not self.out.isatty():
            self.write(label, line)
            return
        self.end_line()
        self._write(self._format_label(label) + _fit_lines([line], self._measure_width())[0])
        self._has_status = True

    def end_line(self) -> None:
        """End a text that is written in parts, or remove a status line."""
        if self._open_label or self._has_status:
            self._write("\n" if self._open_label else _CLEAR)
        self._open_label, self._has_status = "", False

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


def escape_controls(text: str) -> str:
    """Escape control characters, by which a model could move the cursor or change the direction of text."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def print_text(text: str, out: TextIO | None = None, end: str = "\n") -> None:
    """Print a text; what the stream, standard output by default, cannot encode is escaped."""
    encoding = getattr(out or sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), end=end, file=out, flush=True)


def _escape_line_controls(text: str) -> str:
    """Escape control characters and replace tabs, which make lines wider than they are counted."""
    return escape_controls(text).replace("\t", "    ")


def escape_text(text: str, size: int) -> str:
    """Cut a text, and escape markup and control characters."""
    return escape(escape_controls(shorten(text, size)))


def parse_json(text: str) -> Any:
    """Parse a text of a model or a tool; return None if it is not JSON."""
    try:
        return from_json(text)
    except (ValueError, TypeError):  # TypeError for unpaired surrogates
        return None


def format_call(call: ToolCall) -> str:
    """Write a call as Python would, long arguments cut: `add(a=17, b=25)`."""
    arguments = parse_json(call.arguments)
    if not isinstance(arguments, dict):
        return f"{call.name}({shorten(call.arguments, MAX_ARGUMENT)})"
    written = (f"{name}={shorten(repr(value), MAX_ARGUMENT)}" for name, value in arguments.items())
    return f"{call.name}({', '.join(written)})"


def format_finished(call: ToolCallFinished) -> str:
    """Write a call and its result on one line, both cut: `add(a=17, b=25) -> 42`."""
    text = " ".join(shorten(call.result.text or "", MAX_RESULT).split())
    return f"{call.ran or call.call} -> {escape_controls(text)}"


def get_progress_text(event: Event) -> str:
    """Return the text of a call's progress or partial result, or the call that its sub-agent makes; "" if none."""
    match event:
        case ToolCallUpdated(text=text, partial=partial):
            return text or (partial.text if partial else None) or ""
        case SubAgentEvent(event=ToolCallStarted(call=call)):
            return str(call)
        case SubAgentEvent(call=call, event=inner):
            return get_progress_text(inner)
    return ""


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
