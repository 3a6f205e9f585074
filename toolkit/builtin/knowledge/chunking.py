"""A long text -> pieces that can be understood alone: cut where people would cut it."""

from __future__ import annotations

import re

from toolkit.builtin.characters import is_inside

SIZE = 2048  # characters of a chunk
OVERLAP = 200  # characters that a chunk has in common with the one before it

# Where to cut, the best place first: after a paragraph, a line, a sentence, a word.
_ENDS = (
    re.compile(r"\n[^\S\n]*\n"),
    re.compile(r"\n"),
    re.compile(r"[.!?\u2026][\"')\]]*\s|[\u3002\uff01\uff1f]"),
    re.compile(r"\s"),
)
_FENCE = re.compile(r"^[^\S\n]*(?:```|~~~)", re.MULTILINE)
# How far to go back for the beginning of a character; some texts have no end of marks.
_FARTHEST = 64


def chunked(text: str, size: int = SIZE, overlap: int = OVERLAP) -> list[str]:
    """Cut a text into chunks; none of spaces alone.

    Args:
        text: The text.
        size: The most characters of a chunk.
        overlap: About how many of them are those that the chunk before it ends with.

    Raises:
        ValueError: The overlap is negative, or more than half of the size.
    """
    if not 0 <= overlap <= size // 2:
        raise ValueError(f"overlap={overlap}: it is from 0 to half of size={size}.")
    chunks, start = [], 0
    while start < len(text):
        end = _end(text, start, size)
        chunks.append(text[start:end].strip())
        start = end if end == len(text) else _start(text, start, max(end - overlap, start + 1), end)
    return [chunk for chunk in chunks if chunk]


def _end(text: str, start: int, size: int) -> int:
    """Find where a chunk ends, in the second half of what it may have."""
    if len(text) - start <= size:
        return len(text)
    half = start + (size + 1) // 2
    piece = text[half : start + size]
    end = next((half + _last(ends, piece) for ends in _ENDS if ends.search(piece)), start + size)
    return _whole(text, _outside(text, start, half, end), half, start)


def _start(text: str, start: int, earliest: int, end: int) -> int:
    """Find where the next chunk starts: with a word, where there is one before the last chunk's end."""
    found = re.compile(r"\s+").search(text, earliest - 1, end)
    return found.end() if found and found.end() < end else _whole(text, earliest, start, start)


def _last(ends: re.Pattern[str], piece: str) -> int:
    return max(found.end() for found in ends.finditer(piece))


def _outside(text: str, start: int, half: int, end: int) -> int:
    """Move an end that lies in a block of code to before it, where that is far enough."""
    fences = [found.start() for found in _FENCE.finditer(text, start, end)]
    return fences[-1] if len(fences) % 2 and fences[-1] >= half else end


def _whole(text: str, index: int, least: int, start: int) -> int:
    """Go back to where a character begins that people see as one."""
    places = range(index, max(least, index - _FARTHEST), -1)
    return next((place for place in places if not is_inside(text, place, start)), index)
