"""Characters as readers see them: several code points can make one.

The rules are a part of https://www.unicode.org/reports/tr29/: accents, flags, skin tones and joined emoji stay whole.
"""

from __future__ import annotations

import unicodedata
from itertools import pairwise, takewhile

JOINER = "\u200d"  # joins the character before it to the one behind it
REGIONS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))  # two of these letters make a flag
TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))  # skin tones


def split_characters(text: str) -> list[str]:
    """Split a text into its characters."""
    starts = [0]
    for index in range(1, len(text)):
        if not is_within_character(text, index, starts[-1]):
            starts.append(index)
    return [text[start:end] for start, end in pairwise([*starts, len(text)])]


def is_within_character(text: str, index: int, start: int) -> bool:
    """Return whether a split before `text[index]` would divide a character.

    Args:
        text: The text.
        index: Position of a code point, above 0.
        start: Position before it where a character starts.
    """
    before, after = text[index - 1], text[index]
    if JOINER in (before, after) or (before, after) == ("\r", "\n"):
        return True
    if after in REGIONS:
        letters = takewhile(lambda place: text[place] in REGIONS, range(index - 1, start - 1, -1))
        return sum(1 for _ in letters) % 2 == 1
    return after in TONES or unicodedata.category(after).startswith("M")
