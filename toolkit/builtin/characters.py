"""What readers take for one character: https://www.unicode.org/reports/tr29/."""

from __future__ import annotations

import unicodedata
from itertools import takewhile

# What joins the character in front of it to the one behind.
JOINER = "\u200d"
REGIONS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))  # letters of which two make a flag
TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))  # of skin


def is_inside(text: str, index: int, start: int) -> bool:
    """Tell whether a place lies within a character: accents, flags and joined signs stay whole.

    Args:
        text: The text.
        index: The place, between two of its letters.
        start: A place before it where a character begins.
    """
    before, after = text[index - 1], text[index]
    if JOINER in (before, after) or (before, after) == ("\r", "\n"):
        return True
    if after in REGIONS:
        return bool(_regions(text, index, start) % 2)
    return after in TONES or unicodedata.category(after).startswith("M")


def _regions(text: str, index: int, start: int) -> int:
    """Count the letters of flags in front of a place."""
    return sum(1 for _ in takewhile(lambda place: text[place] in REGIONS, range(index - 1, start - 1, -1)))
