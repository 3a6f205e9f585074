"""`echo`, `reverser`, `word_count`: what small programs try a model's calls with."""

from __future__ import annotations

from itertools import pairwise

from toolkit._tools.decorator import tool
from toolkit.builtin.characters import is_inside


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
