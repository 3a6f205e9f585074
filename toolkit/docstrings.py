"""Docstring -> description, parameter texts, returns, raises.

How it works: the lines are cut into prose and sections; the entries of the sections are rewritten as NumPy would write
them; docstring_parser reads the result. NumPy is the one form which that library reads in linear time and with the
indentation kept. Its Google reader takes cubic time for a line of brackets and gives up all entries for one without a
colon, the reST one for a type of two words, the Epytext one for a name that is not ASCII.

Whatever the text, nothing is raised and the time is linear.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from toolkit.sections import ITEM, LISTED, NAME, Section, cut, depth, entry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from docstring_parser import Docstring as Found

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
    sections = cut(lines, names)
    has_more = any(section.kind != "prose" for section in sections)
    found = _read("\n".join(part for section in sections for part in _rewritten(section, names))) if has_more else None
    if found is None:
        return Docstring(description=_prose(lines), parameters={}, raises={})
    return _assembled(sections, found)


def _assembled(sections: Sequence[Section], found: Found) -> Docstring:
    examples = (_examples(section) for section in sections if section.kind == "examples")
    return Docstring(
        description=_joined(sections),
        parameters=_first_texts((each.arg_name, each.description) for each in found.params),
        returns="\n".join(_folded(each.description or "") for each in found.many_returns).strip(),
        raises=_first_texts((each.type_name or "", each.description) for each in found.raises),
        examples=tuple(chain.from_iterable(examples)),
    )


def _joined(sections: Sequence[Section]) -> str:
    """Join the prose of all sections."""
    return "\n\n".join(filter(None, (_prose(section.lines) for section in sections if section.kind == "prose")))


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


def _rewritten(section: Section, parameters: frozenset[str]) -> Iterator[str]:
    """Write a section in NumPy style, one name and one text at a time."""
    if section.kind == "returns":
        yield "Returns\n-------\nvalue\n    " + _returned(section).replace("\n", "\n    ")
    elif section.kind in LISTED:
        yield "Parameters\n----------" if section.kind == "parameters" else "Raises\n------"
        for names, text in _entries(section, parameters):
            yield from (f"{name}\n    " + text.replace("\n", "\n    ") for name in names)


def _entries(section: Section, parameters: frozenset[str]) -> Iterator[tuple[Sequence[str], str]]:
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
        yield NAME.findall(match["names"]), _entry_text(section, match, lines)


def _matched(section: Section, parameters: frozenset[str]) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Pair each line with its match where it begins an entry."""
    matches = [(line, entry(section, line, parameters)) for line in section.lines[1:]]
    level = next((depth(line) for line, match in matches if match), 0)
    listed = [match["names"] for line, match in matches if match and depth(line) <= level]
    # A deeper line is text ("city: ..." among the keys of a dict), unless it is all there is about a parameter.
    missing = parameters.difference(*map(NAME.findall, listed)) if section.kind == "parameters" else frozenset[str]()
    for line, match in matches:
        is_missing = match and match["mark"] and missing.issuperset(NAME.findall(match["names"]))
        yield line, match if depth(line) <= level or is_missing else None


def _entry_text(section: Section, match: re.Match[str], lines: Sequence[str]) -> str:
    """Join the text of an entry, without the type that NumPy puts behind the colon."""
    is_typed = section.style == "numpy" and section.kind == "parameters" and not match["type"]
    if is_typed and (any(lines) or not match["text"].endswith(".")):
        return _dedented(["", *lines])
    return _dedented([match["text"], *lines])


def _returned(section: Section) -> str:
    """Join the text about the result, without its type where it stands alone."""
    first, *rest = section.lines if section.lines[0] else [*section.lines[1:], ""]
    if section.style != "numpy" or not any(depth(line) > depth(first) for line in rest):
        return _dedented([_RETURN_TYPE.sub("", first.strip()), *rest])
    if all(depth(line) > depth(first) for line in rest if line):
        return _dedented(["", *rest])
    marked = (line if depth(line) > depth(first) or not line else f"- {line}:" for line in [first, *rest])
    return _dedented(["", *marked])


def _examples(section: Section) -> Iterator[str]:
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
        is_item = ITEM.match(line)
        if line and parts:
            parts.append(gap or ("\n" if is_item else " "))
        if line:
            parts += [" " * depth(line) if is_item else "", " ".join(line.split())]
        gap = "" if line else "\n\n"
    return "".join(parts)
