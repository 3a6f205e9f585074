"""JSON texts as models write them: whole, truncated, in a Markdown fence, or no JSON at all.

Also text as it is shown to people: invisible and confusable characters are escaped.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolkit._messages import replace_surrogates

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
            self._read_plain(text[at : found.start()])
            self._read_mark(found[0])
            at = found.end()
        self._read_plain(text[at:])

    def _read_plain(self, text: str) -> None:
        if self._quote:
            return
        for bracket in _BRACKETS.finditer(text):
            self._depth = max(self._depth + _STEPS[bracket[0]], 0)
            self._has_brackets = True
        self._last = text.rstrip()[-1:] or self._last

    def _read_mark(self, mark: str) -> None:
        if mark.startswith("\\"):
            self._escape = mark if len(mark) == 1 else ""  # what it escapes comes with the next piece
        elif self._quote:
            self._quote, self._last = "", mark
        elif self._last in _OPENERS:
            self._quote = mark
        else:
            self._last = mark


def to_json_text(words: str | bytes | Mapping[str, Any] | None) -> str:
    """Write arguments as the text of a JSON object."""
    if isinstance(words, bytes):
        words = words.decode("utf-8", "surrogateescape")  # what is not UTF-8 is refused later, and never repaired
    if isinstance(words, str):
        return words
    try:
        return to_json(words or {}, inf_nan_mode="constants").decode()  # NaN is refused later, and not sent as null
    except PydanticSerializationError:
        return json.dumps(words, default=repr)  # halves of surrogate pairs, as escapes: refused later, too


def load_json(text: str) -> Any:
    """Read a JSON text with all that is doubtful in it, which `dumped` writes again: a tool refuses it, and says why.

    Raises:
        ValueError: It is no JSON, or too deep.
    """
    from_json(_HALF.sub(r"\\u00", replace_surrogates(text)))  # which limits the depth
    return json.loads(text)


def dump_json(document: Any) -> str:
    """Write what `loaded` gave, or a part of it; halves of characters as escapes."""
    return json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace").decode()


def strip_fence_start(text: str) -> str:
    """Take off the beginning of a Markdown fence: some models wrap JSON for people to read."""
    opening = _OPENING.match(text)
    return text[opening.end() :] if opening else text


def strip_fence(text: str) -> str:
    """Take a Markdown fence off, where there is one."""
    bare = strip_fence_start(text)
    return text if bare == text else bare.rstrip().removesuffix(_FENCE)


def is_object(text: str) -> bool:
    """Tell whether a text is one whole JSON object."""
    try:
        return isinstance(from_json(replace_surrogates(text)), dict)
    except ValueError:
        return False


def is_truncated(text: str) -> bool:
    """Tell whether a text ends inside a bracket or a string: it was not received whole, whatever else is wrong."""
    try:
        from_json(replace_surrogates(text))
    except ValueError:
        nesting = Nesting()
        nesting.add(text)
        return nesting.is_open
    return False


# Printable by Python's word, and yet nothing is to be seen: joiners, fillers, selectors, the blank of Braille.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)


# What looks like an ASCII letter, by Unicode's names: letters of some scripts, and some rare Latin ones.
_LOOKALIKE = re.compile(
    "ARMENIAN|CHEROKEE|COPTIC|CYRILLIC|FULLWIDTH|GREEK|LISU|MATHEMATICAL"
    "|LATIN LETTER (SMALL CAPITAL|DENTAL CLICK)|LATIN SMALL LETTER (ALPHA|IOTA|SCRIPT G)"
)


# Other ways to write ASCII letters, such as U+217C for l, by Unicode's decompositions.
_ASCII_AGAIN = re.compile("<(compat|font)> 00[4-7]")


_LATIN = re.compile("[A-Za-z]")


def escape_confusable(text: str, keep: str = "") -> str:
    """Write what is unseen or acts on a terminal as escapes, and letters that pass for Latin ones beside them."""
    if text.isascii() and text.isprintable():
        return text
    return escape_invisible(re.sub(r"\w+", lambda word: _escape_lookalikes(word.group()), text), keep)


def escape_invisible(text: str, keep: str = "") -> str:
    """Write what is unseen or acts on a terminal as escapes, and leave all letters as they are."""
    return "".join(c if c in keep or _is_visible(c) else _escape(c) for c in text)


def _is_visible(character: str) -> bool:
    return character.isprintable() and not _INVISIBLE.match(character)


def _escape_lookalikes(word: str) -> str:
    if word.isascii() or not _LATIN.search(word):
        return word
    return "".join(_escape(c) if _looks_latin(c) else c for c in word)


def _looks_latin(character: str) -> bool:
    again = _ASCII_AGAIN.match(unicodedata.decomposition(character))
    return bool(again or _LOOKALIKE.match(unicodedata.name(character, "")))


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
