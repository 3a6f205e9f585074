"""The lines of a text -> paragraphs, with lists, code and tables left as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

ITEM = re.compile(r"\s*(?:[-*+•]\s|\d+[.)]\s)")
_FENCE = re.compile(r"\s*(?:```[^`]*|~~~.*)$")
_DRAWN = re.compile(r"\s*(?:\||\+-|={2,} +=|>>>|\.\. )")
_STRUCTURE = re.compile(r"(?:^|\n) *(?:[-*+•|=~`>.]|\d)|::|\n\n")  # what may be a list, code, a table or a paragraph
_LITERAL = re.compile(r"\s*\.\. [\w-]+::|.*::$")


def depth(line: str) -> int:
    """Count the blanks that a line begins with."""
    return len(line) - len(line.lstrip())


def dedented(lines: Sequence[str]) -> list[str]:
    """Cut off the margin that all lines but the first have in common."""
    first, *rest = lines
    margin = min([len(line) - len(line.lstrip()) for line in rest if line], default=0)
    return [first.strip(), *[line[margin:] for line in rest]]


def fenced(lines: Sequence[str]) -> frozenset[int]:
    """Number the lines inside Markdown fences, the closing one included; a fence that is never closed is none."""
    marked = [number for number, line in enumerate(lines) if "```" in line or "~~~" in line]
    fences = [number for number in marked if _FENCE.match(lines[number])]
    pairs = zip(fences[::2], fences[1::2], strict=False)
    return frozenset(number for start, end in pairs for number in range(start + 1, end + 1))


def folded(lines: Sequence[str]) -> str:
    """Join the wrapped lines of each paragraph and each list item."""
    text = "\n".join(lines).strip()
    if not _STRUCTURE.search(text):
        return " ".join(text.split())
    return "".join(_joined(dedented(lines)))


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """Give lines, and between them what parts or joins them."""
    code = fenced(lines).union(_drawn(lines))
    joint = ""
    for number, line in enumerate(lines):
        if not line:
            joint = joint and "\n\n"
            continue
        is_code = number in code or bool(_FENCE.match(line))
        words = line.lstrip() if is_code else " ".join(line.split())
        if is_code or ITEM.match(line):
            yield joint.replace(" ", "\n") + " " * depth(line) + words
        else:
            yield joint + words
        joint = "\n" if is_code else " "


def _drawn(lines: Sequence[str]) -> Iterator[int]:
    """Number the lines of literal blocks, directives, doctests and tables."""
    floor: int | None = None  # the least depth of the literal block
    is_drawn = False
    for number, line in enumerate(lines):
        if floor is not None and (not line or depth(line) >= floor):
            yield number
            continue
        is_drawn = bool(line) and (is_drawn or bool(_DRAWN.match(line)))
        if is_drawn:
            yield number
        floor = _floor(lines, number) if "::" in line and _LITERAL.match(line) else None


def _floor(lines: Sequence[str], number: int) -> int:
    """Tell the least depth of the literal block that a line announces; the first line's own depth is unknown."""
    return depth(lines[number]) + 1 if number else next((depth(line) for line in lines[1:] if line), 0)
