"""A docstring's lines -> prose and sections, in Google, NumPy, reST and Epytext style.

Whatever the text, nothing is raised and the time is linear: keep each regular expression anchored to one line, without
two neighbouring repeats that can match the same character.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["prose", "parameters", "returns", "raises", "examples", "dropped"]

_TITLES: Mapping[str, Kind] = {
    **dict.fromkeys(("args", "arguments", "parameters", "params", "keyword args", "keyword arguments"), "parameters"),
    **dict.fromkeys(("other args", "other arguments", "other parameters", "other params"), "parameters"),
    **dict.fromkeys(("returns", "return", "yields", "yield"), "returns"),
    **dict.fromkeys(("raises", "raise", "exceptions", "except", "throws"), "raises"),
    **dict.fromkeys(("example", "examples"), "examples"),
    **dict.fromkeys(("attributes", "methods", "receives", "references", "see also", "todo", "warns"), "dropped"),
    **dict.fromkeys(("note", "notes", "warning", "warnings", "caution", "hint", "important", "tip"), "prose"),
}
_FIELDS: Mapping[str, Kind] = {
    **dict.fromkeys(("param", "parameter", "arg", "argument", "key", "keyword", "kwarg"), "parameters"),
    **dict.fromkeys(("return", "returns", "yield", "yields"), "returns"),
    **dict.fromkeys(("raise", "raises", "except", "exception", "throws"), "raises"),
    **dict.fromkeys(("example", "examples"), "examples"),
    **dict.fromkeys(("type", "rtype", "ytype", "kwtype", "ivar", "cvar", "var", "vartype", "meta"), "dropped"),
    **dict.fromkeys(("author", "references", "see", "seealso", "since", "todo", "version"), "dropped"),
}
LISTED = frozenset(("parameters", "raises"))

_HEADING = re.compile(
    r"\s*(?:(?P<hash>#+ )|\*\*|:)?(?P<title>[A-Za-z]+(?: [A-Za-z]+)?)(?(hash):?|(?:\*\*)?:(?:\*\*)?)$"
)
_UNDERLINED = re.compile(r"\s*([A-Z]\w*(?: \w+){0,4}):?$")
_UNDERLINE = re.compile(r"\s*[-=~]{2,}$")
_FIELD = re.compile(r"\s*[:@](\w+)((?:\s(?::\w+:`|[^:])*)?):(.*)")
_ROLE = re.compile(r":\w+:")
_FENCE = re.compile(r"\s*(?:```[^`]*|~~~.*)$")
ITEM = re.compile(r"\s*(?:[-*+•]\s|\d+[.)]\s|>>>)")
NAME = re.compile(r"[^\W\d]\w*(?:[-.]\w+)*")
_MARKED_NAME = rf"[\\*`]*{NAME.pattern}[*`]*"
_ENTRY = re.compile(
    r"\s*(?P<bullet>[-*+•]\s+)?(?!None\b)"
    rf"(?P<names>{_MARKED_NAME}(?:,\s*{_MARKED_NAME}){{0,9}})"  # at most ten: the text is repeated for each
    r"(?P<type>\s*\(.*?\)(?=[*`]*\s*(?::|--?\s|$)))?[*`]*"
    r"(?P<mark>\s*:(?!:|//)(?:\*\*(?=\s))?|\s+(?:--?|\u2013|\u2014)\s|$)(?P<text>.*)"
)


@dataclass(frozen=True, kw_only=True)
class Section:
    """A stretch of lines, the first of which is what follows the heading on its own line."""

    kind: Kind
    style: Literal["google", "numpy", "field"] = "google"
    indent: int = 0
    title: str = ""
    names: tuple[str, ...] = ()
    lines: list[str]

    @property
    def has_text(self) -> bool:
        """Whether something stands on the heading's line or on the one below."""
        return any(self.lines[:2])

    @property
    def is_flush(self) -> bool:
        """Whether the text is not indented below the heading."""
        return len(self.lines) < 2 or depth(self.lines[1]) <= self.indent


def cut(lines: Sequence[str], parameters: frozenset[str]) -> list[Section]:
    """Cut lines into sections, the first of which is the summary."""
    sections = [Section(kind="prose", lines=[])]
    code = _fenced(lines)
    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        current = sections[-1]
        opened = None if number in code else _heading(line, below)
        if opened and _admits(current, opened, below, parameters):
            sections.append(opened)
        elif not current.has_text and (not line or _UNDERLINE.match(line)):
            continue
        elif line and number not in code and _ends(current, line, parameters):
            sections.append(Section(kind="prose", lines=[line]))
        else:
            current.lines.append(line)
    return sections


def _fenced(lines: Sequence[str]) -> frozenset[int]:
    """Number the lines inside Markdown fences; a fence that is never closed is none."""
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    pairs = zip(fences[::2], fences[1::2], strict=False)
    return frozenset(number for start, end in pairs for number in range(start + 1, end + 1))


def depth(line: str) -> int:
    """Count the blanks that a line begins with."""
    return len(line) - len(line.lstrip())


def _heading(line: str, below: str) -> Section | None:
    """Read a line, and the one below it, as the beginning of a section."""
    indent = depth(line)
    if _UNDERLINE.match(below) and depth(below) == indent and (match := _UNDERLINED.match(line)):
        kind = _TITLES.get(match[1].lower(), "prose")
        return Section(kind=kind, style="numpy", indent=indent, lines=[line if kind == "prose" else ""])
    if (match := _HEADING.match(line)) and (titled := _TITLES.get(match["title"].lower())):
        first = line if titled == "prose" else ""
        return Section(kind=titled, indent=indent, title=match["title"], lines=[first])
    if match := _FIELD.match(line):
        return _field(match, line)
    return None


def _field(match: re.Match[str], line: str) -> Section:
    """Read a reST or Epytext field; an unknown one is prose."""
    kind = _FIELDS.get(match[1].lower(), "prose")
    names = NAME.findall(_ROLE.sub("", match[2]))
    names = [name for name in names if name not in ("or", "and")] if kind == "raises" else names[-1:]
    text = line if kind == "prose" else match[3].strip()
    return Section(kind=kind, style="field", indent=depth(line), names=tuple(names[:10]), lines=[text])


def _admits(current: Section, opened: Section, below: str, parameters: frozenset[str]) -> bool:
    """Decide whether a heading is one at its place, and not part of the text around it."""
    if current.kind == "prose":
        entry = _ENTRY.match(below)
        names = opened.names or (NAME.findall(entry["names"]) if entry else [])
        return opened.indent == 0 or opened.style == "numpy" or not parameters.isdisjoint(names)
    if current.kind == "parameters" and opened.title in parameters:
        return False
    return opened.indent <= current.indent or (not current.is_flush and opened.indent < depth(current.lines[1]))


def _ends(section: Section, line: str, parameters: frozenset[str]) -> bool:
    """Decide whether a line with text lies behind the end of a section."""
    if section.kind == "prose" or depth(line) > section.indent or _is_flush_entry(section, line, parameters):
        return False
    if section.style == "numpy" and section.kind not in LISTED:
        return False
    if section.is_flush:
        return not section.lines[-1] if section.has_text else section.kind in LISTED
    return True


def _is_flush_entry(section: Section, line: str, parameters: frozenset[str]) -> bool:
    """Decide whether a line is an entry of the section although it is not indented."""
    match = entry(section, line, parameters)
    if match is None or section.style == "field":
        return False
    names = NAME.findall(match["names"])
    if section.kind == "parameters" and parameters.issuperset(names):
        return True
    # A capital begins a sentence ("Note: ..."), hardly ever a parameter.
    return section.is_flush and (section.kind == "raises" or section.style == "numpy" or not names[0][0].isupper())


def entry(section: Section, line: str, parameters: frozenset[str]) -> re.Match[str] | None:
    """Match a line that can begin an entry of the section."""
    match = _ENTRY.match(line) if section.kind in LISTED else None
    if match is None or parameters.issuperset(NAME.findall(match["names"])):
        return match
    if not match["mark"] and section.style != "numpy" and section.kind != "raises":
        return None
    # A list inside a text is not a list of entries, unless the section begins with a list.
    begins_with_list = ITEM.match(section.lines[1] if section.has_text else line)
    return match if bool(match["bullet"]) == bool(begins_with_list) else None
