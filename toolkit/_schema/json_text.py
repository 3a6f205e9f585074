"""JSON texts that readers read in different ways: a key that stands twice, numbers that JSON has not.

pydantic-core reads them without a word. Reading every text a second time, to look for them, would take half of a call's
time; so colons are counted first.

JSON texts, as models write them: whole, cut, in a Markdown fence, or no JSON at all.

Text as people may see it: nothing hidden, nothing that looks like something else.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolkit._messages import replace_surrogates
from toolkit._schema.json_schema import map_schemas

# Keywords of which each place that is restricted to something has at least one, and OpenAPI's `discriminator`, too.
TYPED = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "propertyName"})


def find_ambiguity(text: str) -> str:
    """Say about what in a JSON text readers disagree: equal keys, numbers that JSON has not; or nothing."""
    try:
        json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    except ValueError as error:
        return str(error)
    return ""


def _once(pairs: Sequence[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f"the key {key[:100]!r} stands twice in one object")
        seen.add(key)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"the number {digits[:20]} is too large")
    return value


def least_marks(schema: Mapping[str, Any]) -> tuple[int, int]:
    """Count the colons and the opening braces of a document in which nothing is but what must be.

    In a valid document with just so many of both no key stands twice: each key that it must have takes one colon, and
    each object one brace.

    Returns:
        The numbers; -1, which no document has, where one may hold what the schema does not restrict.
    """
    if _has_untyped(schema):
        return -1, -1
    return _least(schema, schema, {}, _keys), _least(schema, schema, {}, _braces)


def _keys(node: Mapping[str, Any]) -> int:
    return len(set(node.get("required", ())))


def _braces(node: Mapping[str, Any]) -> int:
    return int(node.get("type") == "object")


def _has_untyped(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema has a place that takes any value."""
    found: list[bool] = []

    def look(node: dict[str, Any]) -> dict[str, Any]:
        kinds = isinstance(node.get("type"), list) or node.get("additionalProperties") is True
        found.append(kinds or not TYPED & node.keys())
        return node

    map_schemas(schema, look)
    return any(found)


def _least(node: Any, root: Mapping[str, Any], known: dict[str, int], own: Callable[[Mapping[str, Any]], int]) -> int:
    """Count what every document of a schema has, at any depth.

    Args:
        node: The schema.
        root: The one that has its definitions.
        known: What has been counted of these, by pointer; each is counted once, and as none inside itself.
        own: Counts what belongs to a schema itself.
    """
    if not isinstance(node, Mapping):
        return 0
    pointer = node.get("$ref")
    if pointer is None:
        ways = node.get("anyOf") or node.get("oneOf") or ()
        in_one = min((_least(way, root, known, own) for way in ways), default=0)
        parts, required = node.get("properties", {}), set(node.get("required", ()))
        return max(in_one, own(node) + sum(_least(parts.get(name), root, known, own) for name in required))
    if pointer not in known:
        known[pointer] = 0
        known[pointer] = _least(root.get("$defs", {}).get(pointer.rpartition("/")[2]), root, known, own)
    return known[pointer]


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


def to_json_text(words: str | bytes | Mapping[str, Any] | None) -> str:
    """Write arguments as the text of a JSON object."""
    if isinstance(words, bytes):
        words = words.decode("utf-8", "surrogateescape")  # what is not UTF-8 is refused later, and never repaired
    if isinstance(words, str):
        return words
    try:
        return to_json(words or {}).decode()
    except PydanticSerializationError:
        return json.dumps(words, default=repr)  # halves of surrogate pairs, as escapes: refused later, too


class DuplicateKeys(dict[str, Any]):
    """An object in which a key stands twice: its items are all that stood there."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self._pairs = pairs

    def items(self) -> Any:
        """Give what stood there; the standard library writes an object by this."""
        return self._pairs


def load_json(text: str) -> Any:
    """Read a JSON text with all that is doubtful in it, which `dumped` writes again: a tool refuses it, and says why.

    Raises:
        ValueError: It is no JSON, or too deep.
    """
    from_json(_HALF.sub(r"\\u00", replace_surrogates(text)))  # which limits the depth
    return json.loads(text, object_pairs_hook=_object)


def dump_json(document: Any) -> str:
    """Write what `loaded` gave, or a part of it; halves of characters as escapes."""
    return json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace").decode()


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else DuplicateKeys(pairs)


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
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)


# What looks like an ASCII letter, by Unicode's names: letters of some scripts, and some rare Latin ones.
_ALIKE = re.compile(
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
    return escape_invisible(re.sub(r"\w+", lambda word: _told_apart(word.group()), text), keep)


def escape_invisible(text: str, keep: str = "") -> str:
    """Write what is unseen or acts on a terminal as escapes, and leave all letters as they are."""
    return "".join(c if c in keep or _is_seen(c) else _escape(c) for c in text)


def _is_seen(character: str) -> bool:
    return character.isprintable() and not _UNSEEN.match(character)


def _told_apart(word: str) -> str:
    if word.isascii() or not _LATIN.search(word):
        return word
    return "".join(_escape(c) if _is_alike(c) else c for c in word)


def _is_alike(character: str) -> bool:
    again = _ASCII_AGAIN.match(unicodedata.decomposition(character))
    return bool(again or _ALIKE.match(unicodedata.name(character, "")))


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
