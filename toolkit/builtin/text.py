"""`echo`, `reverser`, `word_count`: what small programs try a model's calls with.

What readers take for one character: https://www.unicode.org/reports/tr29/.
"""

from __future__ import annotations

import unicodedata
from itertools import pairwise, takewhile

from toolkit._tools.decorator import tool

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


@tool(title="Echo", effect="read")
def echo(message: str) -> str:
    """Give a message back as it is.

    Args:
        message: What to give back.
    """
    return message


@tool(title="Reverser", effect="read")
def reverser(text: str) -> str:
    """Reverse a text. Use it when something is to be read backwards.

    Args:
        text: The text to reverse.
    """
    return "".join(reversed(_characters(text)))


@tool(title="Word Count", effect="read")
def word_count(text: str) -> int:
    """Count the words of a text, parted by white space.

    Args:
        text: The text whose words to count.
    """
    return len(text.split())


def _characters(text: str) -> list[str]:
    """Part a text into what readers take for one character."""
    begins = [0]
    for index in range(1, len(text)):
        if not is_inside(text, index, begins[-1]):
            begins.append(index)
    return [text[begin:end] for begin, end in pairwise([*begins, len(text)])]
