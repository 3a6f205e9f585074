"""`echo`, `reverser`, `word_count`: what small programs try a model's calls with."""

from __future__ import annotations

import unicodedata
from itertools import chain

from toolkit.decorator import tool

# What joins the character in front of it to the one behind.
JOINER = "\u200d"
REGIONS = range(0x1F1E6, 0x1F200)  # letters of which two make a flag
TONES = range(0x1F3FB, 0x1F400)


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
    return "".join(chain.from_iterable(reversed(_characters(text))))


@tool(title="Word Count", effect="read")
def word_count(text: str) -> int:
    """Count the words of a text, parted by white space.

    Args:
        text: The text whose words to count.
    """
    return len(text.split())


def _characters(text: str) -> list[list[str]]:
    """Part a text into what readers take for one character: accents, flags and joined signs stay whole."""
    found: list[list[str]] = []
    for letter in text:
        if found and _belongs(found[-1], letter):
            found[-1].append(letter)
        else:
            found.append([letter])
    return found


def _belongs(before: list[str], letter: str) -> bool:
    is_flag = ord(letter) in REGIONS and len(before) == 1 and ord(before[0]) in REGIONS
    is_mark = unicodedata.category(letter) in ("Mn", "Mc", "Me") or letter == JOINER or ord(letter) in TONES
    return is_flag or is_mark or before[-1] == JOINER or (before == ["\r"] and letter == "\n")
