"""What a command prints: the beginning and the end of it, in memory that does not grow."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder

# What turns a text's colour, moves a terminal's cursor, sets its title and so on (ECMA-48), and other control
# characters but tabs and ends of lines.
_CONTROLS = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]*[0-~])"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_Decoder = getincrementaldecoder("utf-8")


class Capture:
    """A stream, of which it keeps the beginning and the end.

    Args:
        most: Bytes of each that are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0  # bytes

    def add(self, data: bytes) -> None:
        """Take what comes next."""
        self.size += len(data)
        room = self._most - len(self._head)
        self._head += data[:room]
        if len(data) > room:
            self._tail = (self._tail + data[room:])[-self._most :]

    def text(self, most: int) -> str:
        """Give all of it, or so many bytes with a note of what was left out between the beginning and the end.

        Bytes that are no UTF-8 are replaced; a terminal's control sequences are taken out.
        """
        if self.size <= most:
            return _plain(self._head.decode(errors="replace"))
        note = f"\n... ({self.size} bytes, the middle left out)\n"
        half = max(0, most - len(note)) // 2
        head = _Decoder("replace").decode(self._head[:half])  # what is cut in the middle waits for the rest of it
        return f"{_plain(head)}{note}{_plain(_ending(self._head + self._tail, half))}"


def _ending(data: bytearray, size: int) -> str:
    end = data[len(data) - size :]
    begun = next((place for place, byte in enumerate(end[:4]) if byte & 0xC0 != 0x80), 0)  # of a character cut in two
    return end[begun:].decode(errors="replace")


def _plain(text: str) -> str:
    return _CONTROLS.sub("", text)
