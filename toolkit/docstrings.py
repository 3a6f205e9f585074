"""Docstring -> description, parameter texts, returns, raises.

How it works: the lines are cut into prose and sections; the entries of the sections are rewritten as NumPy would write
them; docstring_parser reads the result. NumPy is the one form which that library reads in linear time and with the
indentation kept. Its Google reader takes cubic time for a line of brackets and gives up all entries for one without a
colon, the reST one for a type of two words, the Epytext one for a name that is not ASCII.

Whatever the text, nothing is raised and the time is linear: keep each regular expression anchored to one line, without
two neighbouring repeats that can match the same character.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from docstring_parser import Docstring as Found

_Kind = Literal["prose", "parameters", "returns", "raises", "examples", "dropped"]

_TITLES: Mapping[str, _Kind] = {
    **dict.fromkeys(("args", "arguments", "parameters", "params", "keyword args", "keyword arguments"), "parameters"),
    **dict.fromkeys(("other args", "other arguments", "other parameters", "other params"), "parameters"),
    **dict.fromkeys(("returns", "return", "yields", "yield"), "returns"),
    **dict.fromkeys(("raises", "raise", "exceptions", "except", "throws"), "raises"),
    **dict.fromkeys(("example", "examples"), "examples"),
    **dict.fromkeys(("attributes", "methods", "receives", "references", "see also", "todo", "warns"), "dropped"),
    **dict.fromkeys(("note", "notes", "warning", "warnings", "caution", "hint", "important", "tip"), "prose"),
}
_FIELDS: Mapping[str, _Kind] = {
    **dict.fromkeys(("param", "parameter", "arg", "argument", "key", "keyword", "kwarg"), "parameters"),
    **dict.fromkeys(("return", "returns", "yield", "yields"), "returns"),
    **dict.fromkeys(("raise", "raises", "except", "exception", "throws"), "raises"),
    **dict.fromkeys(("example", "examples"), "examples"),
    **dict.fromkeys(("type", "rtype", "ytype", "kwtype", "ivar", "cvar", "var", "vartype", "meta"), "dropped"),
    **dict.fromkeys(("author", "references", "see", "seealso", "since", "todo", "version"), "dropped"),
}
_LISTED = frozenset(("parameters", "raises"))

_HEADING = re.compile(
    r"\s*(?:(?P<hash>#+ )|\*\*|:)?(?P<title>[A-Za-z]+(?: [A-Za-z]+)?)(?(hash):?|(?:\*\*)?:(?:\*\*)?)$"
)
_UNDERLINED = re.compile(r"\s*([A-Z]\w*(?: \w+){0,4}):?$")
_UNDERLINE = re.compile(r"\s*[-=~]{2,}$")
_FIELD = re.compile(r"\s*[:@](\w+)((?:\s(?::\w+:`|[^:])*)?):(.*)")
_ROLE = re.compile(r":\w+:")
_FENCE = re.compile(r"\s*(?:```[^`]*|~~~.*)$")
_ITEM = re.compile(r"\s*(?:[-*+•]\s|\d+[.)]\s|>>>)")
_NAME = re.compile(r"[^\W\d]\w*(?:[-.]\w+)*")
_MARKED_NAME = rf"[\\*`]*{_NAME.pattern}[*`]*"
_ENTRY = re.compile(
    r"\s*(?P<bullet>[-*+•]\s+)?(?!None\b)"
    rf"(?P<names>{_MARKED_NAME}(?:,\s*{_MARKED_NAME}){{0,9}})"  # at most ten: the text is repeated for each
    r"(?P<type>\s*\(.*?\)(?=[*`]*\s*(?::|--?\s|$)))?[*`]*"
    r"(?P<mark>\s*:(?!:|//)(?:\*\*(?=\s))?|\s+(?:--?|\u2013|\u2014)\s|$)(?P<text>.*)"
)
# "True: if it worked" is about a value, so its first word is not a type.
_RETURN_TYPE = re.compile(
    r"\A(?!True\b|False\b|None\b)[\w.`~]+(?: \| [\w.`~]+)*(?:\[[^:\n]*\])?(?: \| None)?:\s+(?=\S)"
)


@dataclass(frozen=True, kw_only=True)
class Docstring:
    """Hold what a docstring tells about a function."""

    description: str
    parameters: Mapping[str, str]
    returns: str = ""
    raises: Mapping[str, str]
    examples: tuple[str, ...] = ()


def parse(text: str | None, parameters: Collection[str] = ()) -> Docstring:
    """Read a docstring in Google, NumPy, reST or Epytext style.

    Raises nothing and checks nothing: an entry for a name that is not a parameter is returned like any other.

    Args:
        text: The docstring as written, with its indentation.
        parameters: The real names of the function's parameters. They tell a badly indented entry from prose.
    """
    lines, names = _cleaned(text or ""), frozenset(parameters)
    sections = _cut(lines, names)
    if all(section.kind == "prose" for section in sections):
        return Docstring(description=_prose(lines), parameters={}, raises={})
    found = _read("\n".join(part for section in sections for part in _rewritten(section, names)))
    if found is None:
        return Docstring(description=_prose(lines), parameters={}, raises={})
    return Docstring(
        description="\n\n".join(filter(None, (_prose(each.lines) for each in sections if each.kind == "prose"))),
        parameters=_first_texts((each.arg_name, each.description) for each in found.params),
        returns="\n".join(_folded(each.description or "") for each in found.many_returns).strip(),
        raises=_first_texts((each.type_name or "", each.description) for each in found.raises),
        examples=tuple(each for section in sections if section.kind == "examples" for each in _examples(section)),
    )


def _read(text: str) -> Found | None:
    from docstring_parser import numpydoc  # late: importing it takes longer than reading a hundred docstrings

    try:
        return numpydoc.parse(text)
    except Exception:  # noqa: BLE001 - the library does not say what it raises; a docstring is no reason to fail
        return None


def _cleaned(text: str) -> list[str]:
    """Split a docstring into lines without margin, tabs and trailing spaces."""
    text = re.sub(r"\r\n?|[\f\v]", "\n", text)
    return [line.rstrip() for line in inspect.cleandoc(text).split("\n")]


def _prose(lines: Sequence[str]) -> str:
    """Join lines, with paragraphs one blank line apart."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def _first_texts(entries: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Map names to texts; of two entries for a name the first counts."""
    texts: dict[str, str] = {}
    for name, text in entries:
        texts.setdefault(name, _folded(text or ""))
    return texts


@dataclass(frozen=True, kw_only=True)
class _Section:
    """A stretch of lines, the first of which is what follows the heading on its own line."""

    kind: _Kind
    style: Literal["google", "numpy", "field"] = "google"
    indent: int = 0
    title: str = ""
    names: tuple[str, ...] = ()
    lines: list[str]

    @property
    def has_text(self) -> bool:
        return any(self.lines[:2])

    @property
    def is_flush(self) -> bool:
        """Whether the text is not indented below the heading."""
        return len(self.lines) < 2 or _depth(self.lines[1]) <= self.indent


def _cut(lines: Sequence[str], parameters: frozenset[str]) -> list[_Section]:
    """Cut lines into sections, the first of which is the summary."""
    sections = [_Section(kind="prose", lines=[])]
    code = _fenced(lines)
    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        current = sections[-1]
        opened = None if number in code else _heading(line, below)
        if opened and _admits(current, opened, below, parameters):
            sections.append(opened)
        elif not current.has_text and (not line or _UNDERLINE.match(line)):
            continue
        elif line and number not in code and _ends(current, line, parameters):
            sections.append(_Section(kind="prose", lines=[line]))
        else:
            current.lines.append(line)
    return sections


def _fenced(lines: Sequence[str]) -> frozenset[int]:
    """Number the lines inside Markdown fences; a fence that is never closed is none."""
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    pairs = zip(fences[::2], fences[1::2], strict=False)
    return frozenset(number for start, end in pairs for number in range(start + 1, end + 1))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _heading(line: str, below: str) -> _Section | None:
    """Read a line, and the one below it, as the beginning of a section."""
    indent = _depth(line)
    if _UNDERLINE.match(below) and _depth(below) == indent and (match := _UNDERLINED.match(line)):
        kind = _TITLES.get(match[1].lower(), "prose")
        return _Section(kind=kind, style="numpy", indent=indent, lines=[line if kind == "prose" else ""])
    if (match := _HEADING.match(line)) and (titled := _TITLES.get(match["title"].lower())):
        first = line if titled == "prose" else ""
        return _Section(kind=titled, indent=indent, title=match["title"], lines=[first])
    if match := _FIELD.match(line):
        return _field(match, line)
    return None


def _field(match: re.Match[str], line: str) -> _Section:
    """Read a reST or Epytext field; an unknown one is prose."""
    kind = _FIELDS.get(match[1].lower(), "prose")
    names = _NAME.findall(_ROLE.sub("", match[2]))
    names = [name for name in names if name not in ("or", "and")] if kind == "raises" else names[-1:]
    text = line if kind == "prose" else match[3].strip()
    return _Section(kind=kind, style="field", indent=_depth(line), names=tuple(names[:10]), lines=[text])


def _admits(current: _Section, opened: _Section, below: str, parameters: frozenset[str]) -> bool:
    """Decide whether a heading is one at its place, and not part of the text around it."""
    if current.kind == "prose":
        entry = _ENTRY.match(below)
        names = opened.names or (_NAME.findall(entry["names"]) if entry else [])
        return opened.indent == 0 or opened.style == "numpy" or not parameters.isdisjoint(names)
    if current.kind == "parameters" and opened.title in parameters:
        return False
    return opened.indent <= current.indent or (not current.is_flush and opened.indent < _depth(current.lines[1]))


def _ends(section: _Section, line: str, parameters: frozenset[str]) -> bool:
    """Decide whether a line with text lies behind the end of a section."""
    if section.kind == "prose" or _depth(line) > section.indent or _is_flush_entry(section, line, parameters):
        return False
    if section.style == "numpy" and section.kind not in _LISTED:
        return False
    if section.is_flush:
        return not section.lines[-1] if section.has_text else section.kind in _LISTED
    return True


def _is_flush_entry(section: _Section, line: str, parameters: frozenset[str]) -> bool:
    """Decide whether a line is an entry of the section although it is not indented."""
    match = _entry(section, line, parameters)
    if match is None or section.style == "field":
        return False
    names = _NAME.findall(match["names"])
    if section.kind == "parameters" and parameters.issuperset(names):
        return True
    # A capital begins a sentence ("Note: ..."), hardly ever a parameter.
    return section.is_flush and (section.kind == "raises" or section.style == "numpy" or not names[0][0].isupper())


def _entry(section: _Section, line: str, parameters: frozenset[str]) -> re.Match[str] | None:
    """Match a line that can begin an entry of the section."""
    match = _ENTRY.match(line) if section.kind in _LISTED else None
    if match is None or parameters.issuperset(_NAME.findall(match["names"])):
        return match
    if not match["mark"] and section.style != "numpy" and section.kind != "raises":
        return None
    # A list inside a text is not a list of entries, unless the section begins with a list.
    begins_with_list = _ITEM.match(section.lines[1] if section.has_text else line)
    return match if bool(match["bullet"]) == bool(begins_with_list) else None


def _rewritten(section: _Section, parameters: frozenset[str]) -> Iterator[str]:
    """Write a section in NumPy style, one name and one text at a time."""
    if section.kind == "returns":
        yield "Returns\n-------\nvalue\n    " + _returned(section).replace("\n", "\n    ")
    elif section.kind in _LISTED:
        yield "Parameters\n----------" if section.kind == "parameters" else "Raises\n------"
        for names, text in _entries(section, parameters):
            yield from (f"{name}\n    " + text.replace("\n", "\n    ") for name in names)


def _entries(section: _Section, parameters: frozenset[str]) -> Iterator[tuple[Sequence[str], str]]:
    """List the names and the text of each entry."""
    if section.style == "field":
        yield section.names, _dedented(section.lines)
        return
    found: list[tuple[re.Match[str], list[str]]] = []
    for line, match in _matched(section, parameters):
        if match:
            found.append((match, []))
        elif found:
            found[-1][1].append(line)
    for match, lines in found:
        yield _NAME.findall(match["names"]), _entry_text(section, match, lines)


def _matched(section: _Section, parameters: frozenset[str]) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Pair each line with its match where it begins an entry."""
    matches = [(line, _entry(section, line, parameters)) for line in section.lines[1:]]
    level = next((_depth(line) for line, match in matches if match), 0)
    listed = [match["names"] for line, match in matches if match and _depth(line) <= level]
    # A deeper line is text ("city: ..." among the keys of a dict), unless it is all there is about a parameter.
    missing = parameters.difference(*map(_NAME.findall, listed)) if section.kind == "parameters" else frozenset[str]()
    for line, match in matches:
        is_missing = match and match["mark"] and missing.issuperset(_NAME.findall(match["names"]))
        yield line, match if _depth(line) <= level or is_missing else None


def _entry_text(section: _Section, match: re.Match[str], lines: Sequence[str]) -> str:
    """Join the text of an entry, without the type that NumPy puts behind the colon."""
    is_typed = section.style == "numpy" and section.kind == "parameters" and not match["type"]
    if is_typed and (any(lines) or not match["text"].endswith(".")):
        return _dedented(["", *lines])
    return _dedented([match["text"], *lines])


def _returned(section: _Section) -> str:
    """Join the text about the result, without its type where it stands alone."""
    first, *rest = section.lines if section.lines[0] else [*section.lines[1:], ""]
    if section.style != "numpy" or not any(_depth(line) > _depth(first) for line in rest):
        return _dedented([_RETURN_TYPE.sub("", first.strip()), *rest])
    if all(_depth(line) > _depth(first) for line in rest if line):
        return _dedented(["", *rest])
    marked = (line if _depth(line) > _depth(first) or not line else f"- {line}:" for line in [first, *rest])
    return _dedented(["", *marked])


def _examples(section: _Section) -> Iterator[str]:
    """List the examples: each doctest with the words before it, or else all as one."""
    example: list[str] = []
    for paragraph in re.split(r"\n{2,}", _dedented(section.lines)):
        example.append(paragraph)
        if ">>>" in paragraph:
            yield "\n\n".join(example)
            example = []
    if any(example):
        yield "\n\n".join(example)


def _dedented(lines: Sequence[str]) -> str:
    """Join lines without the margin that all but the first have in common."""
    return inspect.cleandoc("\n".join(lines))


def _folded(text: str) -> str:
    """Join the wrapped lines of each paragraph and each list item."""
    parts: list[str] = []
    gap = ""
    for line in text.split("\n"):
        is_item = _ITEM.match(line)
        if line and parts:
            parts.append(gap or ("\n" if is_item else " "))
        if line:
            parts += [" " * _depth(line) if is_item else "", " ".join(line.split())]
        gap = "" if line else "\n\n"
    return "".join(parts)
