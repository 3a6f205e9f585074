"""JSON texts, as models write them: whole, cut, in a Markdown fence, or no JSON at all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolkit._messages import sendable

# A Markdown fence; behind it stands the name of a language, or the JSON itself.
_FENCE = "```"
_OPENING = re.compile(rf'\s*{_FENCE}(?:[^\n{{\["]*\n|\s*json\b)?', re.IGNORECASE)
# Half of a character, as an escape; pydantic-core reads no text with one that has no other half.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
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


class Repeating(dict[str, Any]):
    """An object in which a key stands twice: its items are all that stood there."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self._pairs = pairs

    def items(self) -> Any:
        """Give what stood there; the standard library writes an object by this."""
        return self._pairs


def loaded(text: str) -> Any:
    """Read a JSON text with all that is doubtful in it, which `dumped` writes again: a tool refuses it, and says why.

    Raises:
        ValueError: It is no JSON, or too deep.
    """
    from_json(_HALF.sub(r"\\u00", sendable(text)))  # which limits the depth
    return json.loads(text, object_pairs_hook=_object)


def dumped(document: Any) -> str:
    """Write what `loaded` gave, or a part of it; halves of characters as escapes."""
    return json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace").decode()


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else Repeating(pairs)


def without_opening(text: str) -> str:
    """Take off the beginning of a Markdown fence: some models wrap JSON for people to read."""
    opening = _OPENING.match(text)
    return text[opening.end() :] if opening else text


def unfenced(text: str) -> str:
    """Take a Markdown fence off, where there is one."""
    bare = without_opening(text)
    return text if bare == text else bare.rstrip().removesuffix(_FENCE)


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
