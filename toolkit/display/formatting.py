"""Labelled lines in a terminal or a pipe, and texts that are safe to look at."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO
from unicodedata import east_asian_width

from toolkit.events import ToolCallUpdated

MARGIN = 10  # columns: the widest label and a space
LINES = 20  # of one text
# C0 but for tab and newline, C1, and what changes the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_CLEAR = "\r\x1b[2K"  # back to the beginning of the line, and wipe it
_COLOURS: Mapping[str, str] = {
    "Question": "1",
    "Call": "36",
    "Progress": "2",
    "Result": "32",
    "Error": "31",
    "Retry": "33",
    "Approval": "33",
    "Answer": "1",
    "Model": "2",
}


@dataclass
class Lines:
    """Writes labelled texts one below the other."""

    out: TextIO
    _writing: str = field(default="", init=False)  # the label of a text that is still being written
    _has_status: bool = field(default=False, init=False)

    def line(self, label: str, text: str, note: str = "") -> None:
        """Write one labelled text; further lines of it stand below its first, a note behind its last."""
        self.end()
        lines = _cut(visible(text).splitlines() or [""], self._width() - len(note))
        margin = "\n" + " " * MARGIN
        self._write(f"{self._label(label)}{margin.join(lines)}{note}\n")

    def add(self, label: str, text: str) -> None:
        """Go on with a text that comes in pieces."""
        if self._writing != label:
            self.end()
            self._write(self._label(label))
            self._writing = label
        self._write(visible(text).replace("\n", "\n" + " " * MARGIN))

    def status(self, label: str, text: str) -> None:
        """Write a line that the next one replaces; in a pipe it stays."""
        one = " ".join(visible(text).split())
        if not self.out.isatty():
            self.line(label, one)
            return
        self.end()
        self._write(self._label(label) + _cut([one], self._width())[0])
        self._has_status = True

    def end(self) -> None:
        """Come to the beginning of a line."""
        if self._writing or self._has_status:
            self._write("\n" if self._writing else _CLEAR)
        self._writing, self._has_status = "", False

    def _write(self, text: str) -> None:
        encoding = self.out.encoding or "utf-8"
        self.out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        self.out.flush()

    def _label(self, label: str) -> str:
        padded = label.ljust(MARGIN)
        colour = _COLOURS.get(label)
        return f"\x1b[{colour}m{padded}\x1b[0m" if colour and _wants_colour(self.out) else padded

    def _width(self) -> int:
        """Count the columns beside the labels; the last one stays free, for some terminals wrap when it is filled."""
        return max(40, shutil.get_terminal_size().columns - MARGIN - 1) if self.out.isatty() else sys.maxsize


def visible(text: str) -> str:
    """Show control characters as escapes: what a model writes must not move the cursor or the direction of text."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shortened(text: str, size: int) -> str:
    """Cut a text to a number of characters."""
    return text if len(text) <= size else f"{text[: size - 1]}…"


def told(event: ToolCallUpdated) -> str:
    """Say what a call tells of itself."""
    return event.text or (event.partial.text if event.partial else None) or ""


def _cut(lines: list[str], width: int) -> list[str]:
    shown = [_fitted(line, width) for line in lines[:LINES]]
    return shown if len(lines) <= LINES else [*shown, f"… {len(lines) - LINES} more lines"]


def _fitted(line: str, width: int) -> str:
    """Cut a line to a number of columns; East Asian characters and emoji take two."""
    columns = 0
    for position, character in enumerate(line):
        columns += 2 if east_asian_width(character) in "WF" else 1
        if columns > width:
            return f"{line[: max(0, position - 1)]}…"
    return line


def _wants_colour(out: TextIO) -> bool:
    return out.isatty() and "NO_COLOR" not in os.environ
