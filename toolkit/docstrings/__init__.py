"""Docstring -> description, parameter texts, returns, raises, examples.

How it works: the lines are cut into prose and sections, the sections into entries, and each entry's lines are joined to
paragraphs. Whatever the text, nothing is raised, the time is linear, and what is returned can be sent as UTF-8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.docstrings.entries import entries, untyped
from toolkit.docstrings.paragraphs import dedented, depth, folded
from toolkit.docstrings.sections import cut

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from toolkit.docstrings.headings import Section

_NEWLINE = re.compile(r"\r\n?|[\f\v\x85\u2028\u2029]")
_BLANK = re.compile(r"\n{2,}")
_GAP = re.compile(r"\n{3,}")
# Where a field begins in a docstring of one line.
_FIELD = re.compile(r" +(?=[:@](?:param|type|returns?|rtype|raises?|yields?)(?: [^:]*)?: )")
_CONTROL = re.compile(r"[\0-\x09\x0b-\x1f\x7f-\x9f]")


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

    Raises nothing and checks nothing: an entry for a name that is not a parameter is returned like any other. Control
    characters are left out, and halves of characters (lone surrogates) replaced.

    Args:
        text: The docstring as written, with its indentation.
        parameters: The real names of the function's parameters. They tell a badly indented entry from prose.
    """
    names = frozenset(parameters)
    prose: list[str] = []
    returns: list[str] = []
    examples: list[str] = []
    texts: dict[str, dict[str, str]] = {"parameters": {}, "raises": {}}
    for section in cut(_cleaned(text or ""), names):
        if section.kind == "prose":
            prose.append(_prose(section.lines))
        elif section.kind == "returns":
            returns.append(_returned(section))
        elif section.kind == "examples":
            examples += _examples(section)
        elif section.kind != "dropped":
            prose.append(_add(texts[section.kind], section, names))
    return Docstring(
        description="\n\n".join(filter(None, prose)),
        parameters=texts["parameters"],
        returns="\n".join(filter(None, returns)),
        raises=texts["raises"],
        examples=tuple(examples),
    )


def _add(texts: dict[str, str], section: Section, parameters: frozenset[str]) -> str:
    """Add a section's entries, of two for a name the first, and give the text that is about all parameters."""
    about_all = ""
    for names, text in entries(section, parameters):
        for name in names:
            texts.setdefault(name, text)
        if not names and section.kind == "parameters":
            about_all = text
    return about_all


def _cleaned(text: str) -> list[str]:
    """Split a docstring into lines without margin, controls and trailing spaces."""
    lines = [line.rstrip() for line in _sendable(text).expandtabs().split("\n")]
    return dedented(lines) if len(lines) > 1 else _FIELD.split(lines[0].strip())


def _sendable(text: str) -> str:
    """Keep line feeds and tabs of all controls, and join or replace surrogates."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROL.sub("", _NEWLINE.sub("\n", text.expandtabs()))


def _prose(lines: Sequence[str]) -> str:
    """Join lines, with paragraphs one blank line apart."""
    text = "\n".join(lines).strip("\n")
    return _GAP.sub("\n\n", text) if "\n\n\n" in text else text


def _returned(section: Section) -> str:
    """Join the text about the result, without its type where it stands alone."""
    first, *rest = section.lines if section.lines[0] else [*section.lines[1:], ""]
    if section.style != "numpy" or not any(depth(line) > depth(first) for line in rest):
        return folded([untyped(first.strip()), *rest])
    if all(depth(line) > depth(first) for line in rest if line):
        return folded(["", *rest])
    return folded(["", *(line if depth(line) > depth(first) or not line else f"- {line}:" for line in [first, *rest])])


def _examples(section: Section) -> Iterator[str]:
    """List the examples: each doctest with the words before it, or else all as one."""
    example: list[str] = []
    text = "\n".join(dedented(section.lines)).strip("\n")
    for paragraph in [text] if "```" in text else _BLANK.split(text):
        example.append(paragraph)
        if ">>>" in paragraph:
            yield "\n\n".join(example)
            example = []
    if any(example):
        yield "\n\n".join(example)
