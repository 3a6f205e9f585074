"""JSON texts as models write them: whole, truncated, in a Markdown fence, or not JSON at all.

Also text for people to read: invisible and confusable characters are escaped.
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

# The start of a Markdown fence is followed by the name of a language, or by the JSON itself.
_FENCE = "```"
_OPENING = re.compile(rf'\s*{_FENCE}(?:[^\n{{\["]*\n|\s*json\b)?', re.IGNORECASE)
# An escape of a surrogate. pydantic-core refuses a lone one.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
_BRACKETS = re.compile(r"[{}\[\]]")
# Characters before a quote that starts a string; elsewhere a quote is stray. Empty: the start of the text.
_OPENERS = frozenset({"", "{", "[", ",", ":"})
# The next quote or escape outside of strings, and in a string of either quote; some models write Python's quotes.
_MARKS = {
    "": re.compile(r"""["']"""),
    '"': re.compile(r'\\.?|"', re.DOTALL),
    "'": re.compile(r"\\.?|'", re.DOTALL),
}

# Bits of the longest integer that is written, which has 100,000 digits. Ten times as many would take a hundred times as
# long, and meanwhile no other thread runs.
MAX_BITS = 332_193
# Characters that Python calls printable, but that are invisible: joiners, fillers, selectors, the blank of Braille.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)
# Scripts, by their Unicode names, whose letters may be in a word with Latin letters; letters of other scripts are
# escaped there.
_BESIDE_LATIN = re.compile("BOPOMOFO|CJK|DIGIT|FEMININE|HANGUL|HIRAGANA|KATAKANA|LATIN|MASCULINE|MICRO|MODIFIER")
# Rare Latin letters that look like ASCII ones.
_LOOKALIKE = re.compile("LATIN LETTER (SMALL CAPITAL|DENTAL CLICK)|LATIN SMALL LETTER (ALPHA|IOTA|SCRIPT G)")
# Unicode decompositions of characters that stand for ASCII letters, such as U+217C for l.
_ASCII_VARIANT = re.compile("<(compat|font)> 00[4-7]")
_LATIN = re.compile("[A-Za-z]")


@dataclass
class Nesting:
    """Tracker of brackets and strings in a text that arrives in pieces. It need not be JSON."""

    _depth: int = 0
    _quote: str = ""  # of the current string; empty outside of strings
    _last: str = ""  # the last character outside of strings, other than spaces
    _escape: str = ""
    _has_brackets: bool = False

    @property
    def is_open(self) -> bool:
        """True if the text ends inside a bracket or a string."""
        return bool(self._depth or self._quote)

    @property
    def is_closed(self) -> bool:
        """True if there were brackets, and all of them are closed."""
        return self._has_brackets and not self.is_open

    def add(self, text: str) -> None:
        """Add a piece."""
        text = self._escape + text
        self._escape = ""
        start = 0
        while found := _MARKS[self._quote].search(text, start):
            self._read_plain(text[start : found.start()])
            self._read_mark(found[0])
            start = found.end()
        self._read_plain(text[start:])

    def _read_plain(self, text: str) -> None:
        if self._quote:
            return
        for bracket in _BRACKETS.finditer(text):
            self._depth = max(self._depth + _STEPS[bracket[0]], 0)
            self._has_brackets = True
        self._last = text.rstrip()[-1:] or self._last

    def _read_mark(self, mark: str) -> None:
        if mark.startswith("\\"):
            self._escape = mark if len(mark) == 1 else ""  # the next piece has the escaped character
        elif self._quote:
            self._quote = ""
            self._last = mark
        elif self._last in _OPENERS:
            self._quote = mark
        else:
            self._last = mark


def to_json_text(arguments: str | bytes | Mapping[str, Any] | None) -> str:
    """Convert raw arguments to JSON text. Text is returned as it is."""
    if isinstance(arguments, bytes):
        arguments = arguments.decode("utf-8", "surrogateescape")  # bytes that are not UTF-8 are refused later
    if isinstance(arguments, str):
        return arguments
    document = {} if arguments is None else arguments
    try:
        # NaN is refused later, and not sent as null.
        return to_json(document, inf_nan_mode="constants", fallback=_to_plain).decode()
    except PydanticSerializationError:
        return json.dumps(arguments, default=repr)  # with lone surrogates as escapes, which are refused later, too


def _to_plain(value: Any) -> Any:
    """Convert an array or a scalar of NumPy's kind to lists and numbers, and any other object to its `repr`."""
    return value.tolist() if hasattr(type(value), "tolist") else repr(value)


def load_json(text: str) -> Any:
    """Load a JSON text leniently, with NaN and lone surrogates, which `dump_json` writes again.

    Raises:
        ValueError: The text is not JSON, or nested too deeply.
    """
    from_json(_SURROGATE.sub(r"\\u00", replace_surrogates(text)))  # limits the depth
    return json.loads(text)


def load_if_json(text: str) -> Any:
    """Load a JSON text. Return any other text unchanged."""
    try:
        return from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError):  # the latter of unpaired surrogates
        return text


def load_typed(text: str) -> Any:
    """Load what a person has typed: JSON, or a text that does not begin as JSON.

    Raises:
        ValueError: The text begins as JSON, but is not valid JSON.
    """
    try:
        return from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError) as error:  # as above
        if text.lstrip().startswith(("{", "[", '"')):
            raise ValueError(f"this is not valid JSON: {error}") from None
        return text


def dump_json(document: Any) -> str:
    """Write a document of `load_json`, or a part of it, with lone surrogates as escapes."""
    return json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace").decode()


def make_digest(document: Any) -> str:
    """Return the SHA-256 of plain data, such as `sha256:5c1f...`, independent of the order of keys."""
    import hashlib  # slower to load than this module

    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def strip_fence_start(text: str) -> str:
    """Remove the start of a Markdown fence, which some models write around JSON."""
    opening = _OPENING.match(text)
    return text[opening.end() :] if opening else text


def strip_fence(text: str) -> str:
    """Remove a Markdown fence around a text, if there is one."""
    bare = strip_fence_start(text)
    return text if bare == text else bare.rstrip().removesuffix(_FENCE)


def load_object(text: str) -> dict[str, Any] | None:
    """Load a text that is one whole JSON object. Return None for any other."""
    try:
        document = from_json(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def is_object(text: str) -> bool:
    """Return whether a text is one whole JSON object."""
    return load_object(replace_surrogates(text)) is not None


def is_truncated(text: str) -> bool:
    """Return whether a text is not JSON and ends inside a bracket or a string, so that its end is missing."""
    try:
        from_json(replace_surrogates(text))
    except ValueError:
        nesting = Nesting()
        nesting.add(text)
        return nesting.is_open
    return False


def is_long_integer(value: Any) -> bool:
    """Return whether a value is an integer of more than 100,000 digits."""
    return type(value) is int and value.bit_length() > MAX_BITS


def escape_confusable(text: str, keep: str = "") -> str:
    """Escape invisible and control characters, and letters that look like the Latin ones beside them.

    Invisible and control characters in `keep` are not escaped.
    """
    if text.isascii() and text.isprintable():
        return text
    return escape_invisible(re.sub(r"\w+", lambda word: _escape_lookalikes(word.group()), text), keep)


def escape_invisible(text: str, keep: str = "") -> str:
    """Escape invisible and control characters except those in `keep`. No letters are escaped."""

    def write(character: str) -> str:
        is_visible = character.isprintable() and not _INVISIBLE.match(character)
        return character if is_visible or character in keep else _escape(character)

    return "".join(map(write, text))


def _escape_lookalikes(word: str) -> str:
    if word.isascii() or not _LATIN.search(word):
        return word
    return "".join(_escape(c) if _looks_latin(c) else c for c in word)


def _looks_latin(character: str) -> bool:
    is_ascii_variant = _ASCII_VARIANT.match(unicodedata.decomposition(character))
    name = unicodedata.name(character, "")
    is_foreign = (character.isalpha() or character.isdecimal()) and not _BESIDE_LATIN.match(name)
    return bool(is_ascii_variant or is_foreign or _LOOKALIKE.match(name))


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
