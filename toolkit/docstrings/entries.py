"""The lines of a section -> its entries: the names and the text of each.

Keep each regular expression anchored to one line, without two neighbouring repeats that can match the same character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from toolkit.docstrings.headings import LISTED, NAME, Section
from toolkit.docstrings.paragraphs import ITEM, depth, folded

_MARKED = rf"(?::[\w:]+:`)?[\\*`~!]*{NAME.pattern}[*`]*"
_DASH = r"(?:--?|[\u2010-\u2015\u2212])"
_HEAD = re.compile(
    r"(?P<indent>\s*)(?P<bullet>[-*+•]\s+)?(?!None\b)"
    rf"(?P<open>[(\[])?(?P<names>{_MARKED}(?:(?:,?\s+or\s+|,\s*|\s\|\s){_MARKED})*)(?:,\s*\.\.\.)?(?(open)[)\]])"
    rf"(?P<type>\s*\(.*?\)(?=[*`]*\s*(?:[:\uff1a]|{_DASH}\s|$))|\s*\([^():]*(?=:\s|:$))?[*`]*"
    rf"(?P<mark>\s*(?:(?(type)::?|:(?!:|//))|\uff1a)(?:\*\*(?=\s))?|\s+{_DASH}\s|$)(?P<text>.*)"
)
_JOINED = re.compile(r":[\w:]+:`|\sor\s")

_LOOSE = re.compile(
    rf"\s*(?:[-*+•]\s+|\d+[.)]\s+)?[^\w\s]*(?P<name>{NAME.pattern})[^\w\s:(\[<=,]*"
    r"(?:\s*(?:\([^()]*\)|\[[^\[\]]*\]|<[^<>]*>|=\s*[^\s:]+))?(?:\s*:)?\s(?P<text>.*)"
)
# A line whose type has an open bracket and goes on below.
_HANGING = re.compile(rf"\s*(?:[-*+•]\s+)?{_MARKED}\s*(?:\(|\s:\s|:\s*[(\[{{])")
_LONGEST_TYPE = 12  # lines

_DEEPEST_TYPE = 5  # brackets in brackets
_BRACKETS = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}")
_ATOM = r"[~`'\"]*[\w.-]+[`'\"]*(?: _)*"
_TYPE = re.compile(rf"{_ATOM}(?:(?:, or | or | of | and |, ?| ?\| ?){_ATOM})*(?:,? (?:optional|default.*))?")


class Head(NamedTuple):
    """What a line says that begins an entry."""

    names: list[str]
    depth: int
    has_bullet: bool
    has_type: bool
    mark: str
    text: str


def entries(section: Section, parameters: frozenset[str]) -> Iterator[tuple[Sequence[str], str]]:
    """List the names and the text of each entry; text in front of the first has no names."""
    if section.style == "field":
        yield section.names, folded(section.lines)
        return
    before: list[str] = []
    found: list[tuple[Head, list[str]]] = []
    for line, head in _matched(section, parameters):
        if head:
            found.append((head, []))
        else:
            (found[-1][1] if found else before).append(line)
    if found and any(before):
        yield (), folded(["", *before])
    for head, lines in found:
        yield head.names, folded(["" if _is_type(section, head, lines) else head.text, *lines])


def begun(section: Section, line: str, parameters: frozenset[str]) -> Head | None:
    """Read a line that can begin an entry of the section."""
    head = _head(line) if section.kind in LISTED and section.style != "field" else None
    if head is None or parameters.issuperset(head.names):
        return head
    if not head.mark and section.style != "numpy" and section.kind != "raises":
        return None
    # A list inside a text is not a list of entries, unless the section begins with a list.
    begins_with_list = ITEM.match(section.lines[1] if section.has_text else line)
    return head if head.has_bullet == bool(begins_with_list) else None


def _head(line: str) -> Head | None:
    match = _HEAD.match(line)
    if match is None:
        return None
    indent, bullet, _, words, type_, mark, text = match.groups()
    names = [words] if words.isidentifier() else NAME.findall(_JOINED.sub(",", words))
    return Head(names, len(indent), bool(bullet), bool(type_), mark, text.strip())


def _matched(section: Section, parameters: frozenset[str]) -> Iterable[tuple[str, Head | None]]:
    """Pair each line with what it says where it begins an entry."""
    lines = _unwrapped(section.lines[1:])
    heads = [begun(section, line, parameters) if line else None for line in lines]
    found = [head for head in heads if head]
    level = found[0].depth if found else max(map(depth, lines[:1]), default=0)
    missing = _missing(found, level, parameters) if section.kind == "parameters" else frozenset[str]()
    if missing:
        before = ["", *lines[:-1]]
        heads = [head or _loose(*pair, level, missing) for head, pair in zip(heads, zip(lines, before), strict=True)]
    return zip(lines, (_entry(head, level, missing) for head in heads), strict=True)


def _missing(heads: Iterable[Head], level: int, parameters: frozenset[str]) -> frozenset[str]:
    """Find the parameters of which no line says anything."""
    return parameters.difference(*(head.names for head in heads if head.depth <= level))


def _entry(head: Head | None, level: int, missing: frozenset[str]) -> Head | None:
    """Take a deeper line for text ("city: ..." among a dict's keys), unless it is all there is about a parameter."""
    if head is None or head.depth <= level:
        return head
    return head if head.mark and missing.issuperset(head.names) else None


def _loose(line: str, before: str, level: int, missing: frozenset[str]) -> Head | None:
    """Read a line without a colon, or with other signs, that begins with a parameter of which nothing else is said."""
    is_place = depth(line) == level and (not before or before.endswith((".", ":", ";", "!", "?", ")")))
    match = _LOOSE.match(line) if is_place else None
    if match is None or match["name"] not in missing:
        return None
    return Head([match["name"]], level, has_bullet=False, has_type=True, mark=" ", text=untyped(match["text"]))


def _unwrapped(lines: Sequence[str]) -> Sequence[str]:
    """Join the lines of each type that has an open bracket."""
    joined: list[str] = []
    number = 0
    while number < len(lines):
        line, length = lines[number], 1
        if ("(" in line or "[" in line or "{" in line) and _excess(line) > 0 and _HANGING.match(line):
            length = _type_length(lines[number : number + _LONGEST_TYPE])
        if length > 1:
            words = (each.strip().rstrip("\\") for each in lines[number : number + length])
            line = " " * depth(line) + " ".join(words)
        joined.append(line)
        number += length
    return joined


def _type_length(lines: Sequence[str]) -> int:
    """Count the lines until all brackets are closed; 1 if they never are."""
    return next((number for number, open_ in enumerate(accumulate(map(_excess, lines)), 1) if open_ <= 0), 1)


def _excess(line: str) -> int:
    """Count the brackets that are left open."""
    return sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))


def _is_type(section: Section, head: Head, lines: Sequence[str]) -> bool:
    """Decide whether what follows the colon is a type, as in NumPy style, and the text stands below."""
    is_numpy, has_lines = section.style == "numpy", any(lines)
    if not head.text or head.has_type or section.kind != "parameters" or not (is_numpy or has_lines):
        return False
    if _reads_as_type(head.text):
        return is_numpy or head.mark[:1] == " " or lines[0].lstrip()[:1].isupper()
    return is_numpy and has_lines and (head.mark[:1] == " " or not head.text[:1].isupper())


def untyped(text: str) -> str:
    """Cut off the type and colon that a text begins with; "True: if ..." begins with a value."""
    first, colon, rest = text.partition(": ")
    return rest if colon and first not in ("True", "False", "None") and _reads_as_type(first) else text


def _reads_as_type(text: str) -> bool:
    """Decide whether a text is names joined by "or", "of", commas and bars, with anything in brackets."""
    for _ in range(_DEEPEST_TYPE):
        text, count = _BRACKETS.subn("_", text)
        if not count:
            break
    return bool(_TYPE.fullmatch(text))
