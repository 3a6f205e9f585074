"""The Markdown that models write as HTML: headings, lists, tables, code, quotations, bold and italic.

Every character of the text is escaped, so that HTML in it is text. Links and images stay as they are written: nothing
is fetched, and no click leads elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import TypeAlias

from toolkit._schema.error_messages import shorten
from toolkit.display.formatting import escape_controls
from toolkit.display.markup import render_cells

MAX_DEPTH = 8  # of lists
# None of them goes back over text that it has read, so that a long text takes a time in proportion.
_INLINE = re.compile(
    r"(?<!`)`(?P<code>[^`\n]+)`(?!`)"
    r"|\*\*(?=[^\s*])(?P<b>(?:[^*\n`]|`[^`\n]*`|\*[^\s*][^*\n]*\*(?!\*(?!\*)))*)\*\*"
    r"|(?<![\w*])\*(?P<i>[^\s*][^*\n]*)\*(?![\w*])"
    r"|(?<!\w)_(?P<u>[^\s_][^_\n]*)_(?!\w)"
)
_TAGS = {"code": "code", "b": "b", "i": "i", "u": "i"}
_FENCE = re.compile(r" *(```+|~~~+)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.+)")
_ITEM = re.compile(r"( *)(?:[-*+]|(\d{1,9})[.)])[ \t]+(.*)")
_RULE = re.compile(r" {0,3}(?:-{3,}|\*{3,}|_{3,}) *")

# A block that begins at a line: its HTML, and the line behind it. None where no such block begins there.
Block: TypeAlias = "tuple[str, int] | None"


def render_markdown(text: str, size: int) -> str:
    """Render a text; "" for an empty one.

    Args:
        text: The text.
        size: Characters to render, at most.
    """
    return "".join(_render_blocks(escape_controls(shorten(text, size)).split("\n")))


def _render_blocks(lines: Sequence[str]) -> Iterator[str]:
    paragraph: list[str] = []
    position = 0
    while position < len(lines):
        block = next(filter(None, (read(lines, position) for read in _READERS)), None)
        if block is None and lines[position].strip():
            paragraph.append(lines[position])
            position += 1
            continue
        yield _render_paragraph(paragraph)
        paragraph.clear()
        html, position = block or ("", position + 1)
        yield html
    yield _render_paragraph(paragraph)


def _render_paragraph(lines: Sequence[str]) -> str:
    text = _render_inline("\n".join(lines))
    return f'<div class="t">{text}</div>' if text else ""


def _render_inline(text: str) -> str:
    parts: list[str] = []
    end = 0
    for match in _INLINE.finditer(text):
        kind = match.lastgroup or ""
        inner = escape(match[kind]) if kind == "code" else _render_inline(match[kind])
        parts += [escape(text[end : match.start()]), f"<{_TAGS[kind]}>{inner}</{_TAGS[kind]}>"]
        end = match.end()
    return "".join(parts) + escape(text[end:])


def _read_fence(lines: Sequence[str], start: int) -> Block:
    """Read code between fences; without the second one, to the end."""
    opening = _FENCE.match(lines[start])
    if opening is None:
        return None
    indent = len(opening[0]) - len(opening[1])
    end = start + 1
    while end < len(lines) and not lines[end].strip().startswith(opening[1]):
        end += 1
    code = "\n".join(line[min(indent, len(line) - len(line.lstrip(" "))) :] for line in lines[start + 1 : end])
    return f'<pre tabindex="0">{escape(code)}</pre>', end + 1


def _read_heading(lines: Sequence[str], start: int) -> Block:
    heading = _HEADING.fullmatch(lines[start])
    text = heading and heading[1].strip().rstrip("#").strip()
    return (f'<div class="t"><b>{_render_inline(text)}</b></div>', start + 1) if text else None


def _read_rule(lines: Sequence[str], start: int) -> Block:
    return ("<hr>", start + 1) if _RULE.fullmatch(lines[start]) else None


def _read_table(lines: Sequence[str], start: int) -> Block:
    if "|" not in lines[start] or start + 1 == len(lines):
        return None
    head, marks = _split_row(lines[start]), _split_row(lines[start + 1])
    if len(head) != len(marks) or not all(re.fullmatch(":?-+:?", mark) for mark in marks):
        return None
    end = start + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    rows = [_split_row(line)[: len(head)] for line in lines[start + 2 : end]]
    return render_cells(map(_render_inline, head), [map(_render_inline, row) for row in rows]), end


def _split_row(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _read_quotation(lines: Sequence[str], start: int) -> Block:
    end = start
    while end < len(lines) and lines[end].startswith(">"):
        end += 1
    inner = "\n".join(line[1:].removeprefix(" ") for line in lines[start:end])
    return (f'<blockquote class="t">{_render_inline(inner)}</blockquote>', end) if end > start else None


def _read_list(lines: Sequence[str], start: int) -> Block:
    """Read the items of a list and of those inside of it, by their indentation."""
    if _ITEM.fullmatch(lines[start]) is None:
        return None
    parts: list[str] = []
    opened: list[tuple[int, str]] = []  # the indentation and the end of each list that is open
    end = start
    while end < len(lines):
        item = _ITEM.fullmatch(lines[end])
        if item is None and not _goes_on(lines, end):
            break
        if item is not None:
            _open_item(parts, opened, item)
        elif text := lines[end].strip():
            parts.append(f"\n{_render_inline(text)}")
        end += 1
    parts += [f"</li>{closing}" for _, closing in reversed(opened)]
    return "".join(parts), end


def _open_item(parts: list[str], opened: list[tuple[int, str]], item: re.Match[str]) -> None:
    indent, number, text = len(item[1]), item[2], item[3]
    closing = "</ol>" if number else "</ul>"
    while len(opened) > 1 and indent < opened[-1][0]:
        parts.append(f"</li>{opened.pop()[1]}")
    is_first = not opened or (indent > opened[-1][0] + 1 and len(opened) < MAX_DEPTH)
    if not is_first:
        parts.append("</li>")
    if not is_first and closing != opened[-1][1]:  # numbers after bullets are another list
        parts.append(opened.pop()[1])
        is_first = True
    if is_first:
        parts.append(f'<ol start="{int(number)}">' if number else "<ul>")
        opened.append((indent, closing))
    parts.append(f"<li>{_render_inline(text)}")


def _goes_on(lines: Sequence[str], position: int) -> bool:
    """Return whether a line inside a list belongs to the item before it: an indented one, or a blank between items."""
    line = lines[position]
    if not line.strip():
        return position + 1 < len(lines) and _ITEM.fullmatch(lines[position + 1]) is not None
    return line.startswith("  ") and _FENCE.match(line) is None


_READERS: Sequence[Callable[[Sequence[str], int], Block]] = (
    _read_fence,
    _read_heading,
    _read_rule,
    _read_table,
    _read_list,
    _read_quotation,
)
