"""JSON texts, as models write them: whole, cut, or no JSON at all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolkit.parts import sendable

_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
_BRACKETS = re.compile(r"[{}\[\]]")
# What a quote has to stand behind to begin a string; elsewhere it is a stray one. Nothing: the text begins with it.
_OPENERS = frozenset({"", "{", "[", ",", ":"})
# What to look for next, outside of strings and in a string of either quote; some models write Python's.
_MARKS = {
    "": re.compile(r"""["']"""),
    '"': re.compile(r'\\.?|"', re.DOTALL),
    "'": re.compile(r"\\.?|'", re.DOTALL),
}


@dataclass
class Nesting:
    """How deep in brackets and strings a text is that arrives in pieces; it need not be JSON."""

    _depth: int = 0
    _quote: str = ""  # that of the string which it is in
    _last: str = ""  # the last character outside of strings that is no space
    _escape: str = ""
    _has_brackets: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it has ended inside a bracket or a string."""
        return bool(self._depth or self._quote)

    @property
    def is_closed(self) -> bool:
        """Whether there were brackets, and all of them are closed."""
        return self._has_brackets and not self.is_open

    def add(self, text: str) -> None:
        """Add a piece."""
        text, self._escape = self._escape + text, ""
        at = 0
        while found := _MARKS[self._quote].search(text, at):
            self._pass(text[at : found.start()])
            self._meet(found[0])
            at = found.end()
        self._pass(text[at:])

    def _pass(self, text: str) -> None:
        if self._quote:
            return
        for bracket in _BRACKETS.finditer(text):
            self._depth = max(self._depth + _STEPS[bracket[0]], 0)
            self._has_brackets = True
        self._last = text.rstrip()[-1:] or self._last

    def _meet(self, mark: str) -> None:
        if mark.startswith("\\"):
            self._escape = mark if len(mark) == 1 else ""  # what it escapes comes with the next piece
        elif self._quote:
            self._quote, self._last = "", mark
        elif self._last in _OPENERS:
            self._quote = mark
        else:
            self._last = mark


def as_text(words: str | bytes | Mapping[str, Any] | None) -> str:
    """Write arguments as the text of a JSON object."""
    if isinstance(words, bytes):
        words = words.decode("utf-8", "surrogateescape")  # what is not UTF-8 is refused later, and never repaired
    if isinstance(words, str):
        return words
    try:
        return to_json(words or {}).decode()
    except PydanticSerializationError:
        return json.dumps(words, default=repr)  # halves of surrogate pairs, as escapes: refused later, too


def is_object(text: str) -> bool:
    """Tell whether a text is one whole JSON object."""
    try:
        return isinstance(from_json(sendable(text)), dict)
    except ValueError:
        return False


def is_cut(text: str) -> bool:
    """Tell whether a text ends inside a bracket or a string: it was not received whole, whatever else is wrong."""
    try:
        from_json(sendable(text))
    except ValueError:
        nesting = Nesting()
        nesting.add(text)
        return nesting.is_open
    return False
