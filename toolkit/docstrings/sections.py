"""A docstring's lines -> prose and sections, in Google, NumPy, reST and Epytext style."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.docstrings.entries import begun
from toolkit.docstrings.headings import LISTED, UNDERLINE, Section, heading, signs
from toolkit.docstrings.paragraphs import depth, fenced


def cut(lines: Sequence[str], parameters: frozenset[str]) -> list[Section]:
    """Cut lines into sections, the first of which is the summary."""
    code = fenced(lines)
    candidates = signs(lines)
    underlines = frozenset(filter(UNDERLINE.match, candidates))
    current = Section(kind="prose", lines=[])
    sections = [current]
    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        if (not line or line in underlines) and not current.has_text:
            continue
        may_open = line in candidates or below in underlines
        following = _following(current, line, below, parameters, may_open=may_open) if number not in code else None
        if following:
            current = following
            sections.append(current)
        else:
            current.lines.append(line)
    return sections


def _following(
    current: Section, line: str, below: str, parameters: frozenset[str], *, may_open: bool
) -> Section | None:
    """Begin the section whose first line this is; None where it belongs to the one before."""
    opened = _opened(current, line, below, parameters) if line and may_open else None
    if opened or not line or current.kind == "prose":
        return opened
    return _closed(current, line, below, parameters)


def _opened(current: Section, line: str, below: str, parameters: frozenset[str]) -> Section | None:
    """Read a section's heading where there is one, and it is not part of the text around it."""
    opened = heading(line, below, parameters)
    return opened if opened and _admits(current, opened, below, parameters) else None


def _admits(current: Section, opened: Section, below: str, parameters: frozenset[str]) -> bool:
    if current.kind == opened.kind == "prose" or (current.kind == "parameters" and opened.title in parameters):
        return False
    if not _is_clear(current, opened) and parameters.isdisjoint(_first_names(opened, below, parameters)):
        return False
    if current.kind == "prose" or opened.indent <= current.indent:
        return True
    inner = 0 if current.is_flush else depth(current.lines[1])
    # One level too deep, "Returns:" is a heading still, where no parameter has this name.
    return opened.indent < inner or (opened.indent == inner and current.kind in LISTED and opened.title[:1].isupper())


def _is_clear(current: Section, opened: Section) -> bool:
    """Decide whether a heading cannot be a line of a sentence."""
    if opened.is_bare or (opened.title[:1].islower() and any(current.lines[-1:])):
        return False
    return current.kind != "prose" or opened.indent == 0 or opened.style == "numpy"


def _first_names(opened: Section, below: str, parameters: frozenset[str]) -> Sequence[str]:
    entry = begun(opened, below, parameters)
    return opened.names or (entry.names if entry else ())


def _closed(section: Section, line: str, below: str, parameters: frozenset[str]) -> Section | None:
    """Begin new prose where a line lies behind the end of a section."""
    if depth(line) > section.indent or _is_flush_entry(section, line, parameters):
        return None
    is_numpy = section.style == "numpy"
    if is_numpy and (section.kind not in LISTED or depth(below) > depth(line)):
        return None
    if section.kind == "dropped" and section.style == "field":
        return Section(kind="prose", lines=[line])
    if section.is_flush and (section.lines[-1] if section.has_text else section.kind not in LISTED):
        return None
    return Section(kind="prose", lines=[line])


def _is_flush_entry(section: Section, line: str, parameters: frozenset[str]) -> bool:
    """Decide whether a line is an entry of the section although it is not indented."""
    entry = begun(section, line, parameters)
    if entry is None:
        return False
    if section.kind == "parameters" and parameters.issuperset(entry.names):
        return True
    # A capital begins a sentence ("Note: ..."), hardly ever a parameter.
    return section.is_flush and (
        section.kind == "raises" or section.style == "numpy" or not entry.names[0][0].isupper()
    )
