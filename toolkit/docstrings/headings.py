"""A docstring's line -> the section that it opens, in Google, NumPy, reST and Epytext style."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from toolkit.docstrings.paragraphs import depth

Kind = Literal["prose", "parameters", "returns", "raises", "examples", "dropped"]

_ARGUMENTS = ("arg", "args", "argument", "arguments", "parameter", "parameters", "param", "params")
_QUALIFIERS = ("keyword", "other", "optional", "required", "named", "positional", "additional", "extra")
_TITLES: Mapping[str, Kind] = {
    **dict.fromkeys((*_ARGUMENTS, "kwargs"), "parameters"),
    **{f"{qualifier} {noun}": "parameters" for qualifier in _QUALIFIERS for noun in _ARGUMENTS},
    **dict.fromkeys(("returns", "return", "return value", "yields", "yield"), "returns"),
    **dict.fromkeys(("raises", "raise", "exceptions", "except", "throws"), "raises"),
    **dict.fromkeys(("example", "examples"), "examples"),
    **dict.fromkeys(("attributes", "methods", "receives", "references", "see also", "todo", "warns"), "dropped"),
    **dict.fromkeys(("note", "notes", "warning", "warnings", "caution", "hint", "important", "tip"), "prose"),
}
_FIELDS: Mapping[str, Kind] = {
    **dict.fromkeys((*_ARGUMENTS, "key", "keyword", "kwarg"), "parameters"),
    **dict.fromkeys(("return", "returns", "yield", "yields"), "returns"),
    **dict.fromkeys(("raise", "raises", "except", "exception", "throws"), "raises"),
    **dict.fromkeys(("example", "examples"), "examples"),
    **dict.fromkeys(("type", "rtype", "ytype", "kwtype", "ivar", "cvar", "var", "vartype", "meta"), "dropped"),
    **dict.fromkeys(("author", "references", "see", "seealso", "since", "todo", "version"), "dropped"),
}

LISTED = frozenset(("parameters", "raises"))

NAME = re.compile(r"[^\W\d]\w*(?:[-.]\w+)*")
_RULES = ("-", "=", "~")
_BEGINS, _ENDS = ":@#*_", ":\uff1a-=~"
_HEADING = re.compile(
    r" *(?:(?P<hash>#+ )|(?P<bold>\*\*|__)|:)?(?P<title>[A-Za-z]+(?: [A-Za-z]+)?)"
    r"(?P<close> ?[:\uff1a])?(?(bold)(?P=bold)[:\uff1a]?)$"
)
_UNDERLINED = re.compile(r" *(\w+(?: \w+){0,4}) ?:?$")
UNDERLINE = re.compile(r" *[-=~]{2,}$")
_FIELD_MARK = re.compile(r" *[:@](\w+)(?:((?: (?::[\w:]+:`|[^:])*)?):(?!`)(.*)|( [^:]+)$)")
_ROLE = re.compile(r":[\w:]+:")


@dataclass(kw_only=True, slots=True)
class Section:
    """A stretch of lines, the first of which is what follows the heading on its own line."""

    kind: Kind
    style: Literal["google", "numpy", "field"] = "google"
    indent: int = 0
    title: str = ""
    is_bare: bool = False  # only the place tells the heading from prose
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


def signs(lines: Iterable[str]) -> frozenset[str]:
    """Choose the lines that can be headings or underlines: a quick look at most lines, to read few of them."""
    return frozenset(
        [line for line in lines if line and (line[-1] in _ENDS or line.lstrip()[0] in _BEGINS or line.isalpha())]
    )


def heading(line: str, below: str, parameters: frozenset[str]) -> Section | None:
    """Read a line, and the one below it, as the beginning of a section."""
    if below.lstrip().startswith(_RULES) and UNDERLINE.match(below) and depth(below) == depth(line):
        return _underlined(line)
    if match := _FIELD_MARK.match(line):
        return _field(match, line, parameters)
    return _titled(line)


def _underlined(line: str) -> Section | None:
    """Read the title of a NumPy section; an unknown one is prose."""
    match = _UNDERLINED.match(line)
    kind = _TITLES.get(match[1].lower(), "prose") if match else "prose"
    if match is None or (kind == "prose" and not match[1][0].isupper()):
        return None
    return Section(kind=kind, style="numpy", indent=depth(line), lines=[line if kind == "prose" else ""])


def _titled(line: str) -> Section | None:
    """Read the title of a Google section, or of one in Markdown."""
    match = _HEADING.match(line)
    kind = _TITLES.get(match["title"].lower()) if match else None
    if match is None or kind is None:
        return None
    is_bare = not (match["close"] or match["hash"] or match["bold"])
    if is_bare and kind != "parameters":
        return None
    first = line if kind == "prose" else ""
    return Section(kind=kind, indent=depth(line), title=match["title"], is_bare=is_bare, lines=[first])


def _field(match: re.Match[str], line: str, parameters: frozenset[str]) -> Section | None:
    """Read a reST or Epytext field, with or without its second colon; an unknown one is prose."""
    word, argument, text, uncut = match.groups()
    kind = _FIELDS.get(word.lower(), "prose")
    if uncut is not None:
        argument, _, text = uncut.strip().partition(" ") if kind in LISTED else ("", "", uncut)
    names = _names(_ROLE.sub("", argument.replace("\\", "")), kind, parameters)
    if uncut is not None and kind == "parameters" and parameters.isdisjoint(names):
        return None
    if kind in LISTED and not names:
        return _unnamed(line, kind, text)
    first = line if kind == "prose" else text.strip()
    return Section(kind=kind, style="field", indent=depth(line), names=names, lines=[first])


def _unnamed(line: str, kind: Kind, text: str) -> Section | None:
    """Read a field whose names are in its text (":raises: KeyError: ...") or in the lines below (":Parameters:")."""
    if not text.strip():
        return _titled(line)
    return Section(kind=kind, indent=depth(line), lines=["", " " * (depth(line) + 1) + text.strip()])


def _names(argument: str, kind: Kind, parameters: frozenset[str]) -> tuple[str, ...]:
    """List what a field is about: all exceptions, or the parameters behind the type."""
    if kind == "raises":
        return tuple(name for name in NAME.findall(argument) if name not in ("or", "and"))
    words: list[str] = []
    for part in reversed(argument.split(",")):
        words += part.split()[-1:]
        if len(part.split()) > 1:
            break
    names = [match[0] for word in reversed(words) if (match := NAME.search(word))]
    first = argument.split()[:1]
    return tuple(first if parameters.isdisjoint(names) and parameters.issuperset(first) else names)
