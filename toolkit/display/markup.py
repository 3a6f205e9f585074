"""Parts of HTML: cards, tables, texts, Markdown, pictures, all escaped; and the styles of cards and of whole pages."""

from __future__ import annotations

import base64
import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import cache
from html import escape
from io import StringIO
from typing import Any

from toolkit._messages import File, Image, Usage, make_plain
from toolkit._schema.error_messages import shorten
from toolkit._schema.json_text import load_if_json
from toolkit._tools.library_values import is_table, write_rows
from toolkit.display.formatting import escape_controls, escape_text

MAX_PAGE = 200_000  # characters; by default a run cuts results to fewer
MAX_ANSWER = 20_000
MAX_CELL = 2_000
MAX_LINES = 40  # of a text that does not scroll
MAX_NAME = 64
WIDTH = 40  # characters of JSON in one line
MAX_ROWS = 50  # of a table
MAX_COLUMNS = 20
_COLOURS: Mapping[str, str] = {
    **dict.fromkeys(("completed", "approved", "read"), "good"),
    **dict.fromkeys(("failed", "error", "rejected", "destructive"), "bad"),
    **dict.fromkeys(("paused", "waits for approval", "write"), "wait"),
}
_PICTURE = re.compile(r"image/[a-z0-9.+-]+")
# Rules of Markdown that are off. Links, images and HTML stay text, so that nothing is fetched, and no click leads
# elsewhere; entities could be control characters; and an indented answer is rarely code.
_NO_MARKDOWN = ["autolink", "code", "entity", "html_block", "html_inline", "image", "link", "reference"]
# Colours are mixed with that of the page's text, which is dark on a light page and light on a dark one, whatever the
# system prefers; the background is the page's own.
STYLE = """<style>
.tk{--l:var(--jp-border-color2,var(--vscode-panel-border,rgba(128,128,128,.4)));--s:rgba(128,128,128,.1);
--g:color-mix(in srgb,var(--jp-success-color1,#4caf50) 60%,currentColor);
--b:color-mix(in srgb,var(--jp-error-color1,#f44336) 60%,currentColor);
--w:color-mix(in srgb,var(--jp-warn-color1,#ff9800) 60%,currentColor);
line-height:1.45;max-width:72em;overflow-wrap:anywhere;color:inherit}
.tk .t{white-space:pre-wrap;margin:.3em 0}
.tk .t,.tk p,.tk li,.tk td{unicode-bidi:plaintext;text-align:left}
.tk .d{opacity:.75;font-size:.9em;font-weight:normal}
.tk .h{display:flex;flex-wrap:wrap;gap:.2em .6em;align-items:baseline}
.tk .p{border:1px solid;border-radius:1em;padding:0 .6em;font-size:.8em;white-space:nowrap}
.tk .p.good{color:var(--g)}.tk .p.bad{color:var(--b)}.tk .p.wait{color:var(--w)}
.tk .c{border-left:3px solid var(--l);padding:.2em .8em;margin:.6em 0}
.tk .c.bad{border-color:var(--b)}.tk .c.wait{border-color:var(--w)}
.tk .c.wait .s{max-height:none}
.tk .f{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(18em,100%),1fr));gap:.2em 1.5em}
.tk .o{overflow-x:auto}
.tk p{margin:.3em 0}.tk ul,.tk ol{margin:.3em 0;padding-left:1.8em}.tk li{margin:.1em 0}
.tk pre{font-family:var(--jp-code-font-family,monospace);
background:var(--s)!important;color:inherit;padding:.5em .8em!important;margin:.4em 0!important;
border-radius:3px;overflow-x:auto}
.tk blockquote{border-left:3px solid var(--l);padding-left:.8em;margin:.4em 0}
.tk table{border-collapse:collapse;margin:.4em 0;font-size:.95em}
.tk th,.tk td{text-align:left!important;vertical-align:top;padding:.25em .6em;border-bottom:1px solid var(--l);
line-height:1.45;overflow-wrap:normal;white-space:pre-wrap}
.tk code{background:var(--s);color:inherit;padding:.1em .3em;border-radius:3px;white-space:pre-wrap}
.tk .s{max-height:20em;overflow-y:auto}@media print{.tk .s{max-height:none}}
.tk td+td code{overflow-wrap:anywhere}
.tk summary{cursor:pointer}.tk img{max-width:100%;max-height:20em;margin:.3em 0;display:block}
@media (max-width:40em){.tk th,.tk td{padding:.25em .3em;font-size:.9em}}
</style>"""
# The head of a page, in light or dark colours as the reader prefers.
HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
{more}
<style>
:root{{color-scheme:light dark;font-family:system-ui,sans-serif;line-height:1.5}}
@media (prefers-color-scheme:dark){{:root{{background:#16181c;color:#e6e6e6}}}}
h1{{font-size:1.5em;margin:0 0 .2em}}h2{{font-size:1.2em;margin:1.6em 0 .3em}}h3{{font-size:1em;margin:1.4em 0 .3em}}
:target{{outline:2px solid;outline-offset:4px}}
{style}
</style>
</head>
"""


def render_head(title: str, style: str, more: str) -> str:
    """Render the start of a page, up to its body: `style` is CSS, `more` is HTML of further elements of the head."""
    return HEAD.format(title=escape_text(title, MAX_NAME), style=style, more=more)


def render_card(*parts: str) -> str:
    """Put parts into one card, in which MathJax leaves prices such as $5 and $10 alone."""
    return f'<div class="tk tex2jax_ignore mathjax_ignore">{STYLE}{"".join(parts)}</div>'


def render_cells(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Render a table from cells that are HTML. A wide table scrolls."""
    titles = "".join(f"<th>{title}</th>" for title in head)
    lines = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="o" tabindex="0"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'


def render_attachments(images: Iterable[Image], files: Iterable[File]) -> str:
    """Render pictures, and the names of files."""
    listed = ", ".join(f"{file.name} ({file.media_type}, {len(file.data):,} bytes)" for file in files)
    return "".join(map(_render_image, images)) + render_dim(listed, tag="div")


def _render_image(image: Image) -> str:
    media_type = image.media_type.partition(";")[0]
    if not _PICTURE.fullmatch(media_type):
        return ""
    data = base64.b64encode(image.data).decode()
    return f'<img alt="" src="data:{media_type};base64,{data}">'


def render_error(text: str, kind: str = "error") -> str:
    """Render an error. Return "" for an empty text."""
    head = f'<div class="h">{render_pill(kind, "bad")}</div>'
    return f'<div class="c bad">{head}{render_text(text, MAX_CELL)}</div>' if text else ""


def render_folded(title: str, content: str, *, is_open: bool = False) -> str:
    """Render HTML that is folded under a title. Return "" for empty HTML."""
    if not content:
        return ""
    return f"<details{' open' if is_open else ''}><summary>{render_dim(title)}</summary>{content}</details>"


def render_pill(text: str, style: str | None = None) -> str:
    """Render a word as a badge, such as a status. Without a style, the word determines its colour."""
    colour = _COLOURS.get(text, "") if style is None else style
    return f'<span class="p {colour}">{escape_text(text, MAX_NAME)}</span>'


def render_text(text: str, size: int) -> str:
    """Render a text with its line breaks. A long text gets a box, which scrolls by keyboard, too. Return "" for ""."""
    is_long = min(len(text), size) > MAX_CELL or text.count("\n", 0, size) > MAX_LINES
    attributes = ' class="t s" tabindex="0"' if is_long else ' class="t"'
    return f"<div{attributes}>{escape_text(text, size)}</div>" if text else ""


def render_markdown(text: str, size: int) -> str:
    """Render a text of a model, cut to `size` characters, as Markdown if markdown-it-py is installed."""
    try:
        parser = _make_markdown_parser()
    except ImportError:
        return render_text(text, size)
    html: str = parser.render(escape_controls(shorten(text, size)))
    return html


@cache
def _make_markdown_parser() -> Any:
    """Make a parser that keeps line breaks and makes headings bold. Tables and code also scroll by keyboard."""
    from markdown_it import MarkdownIt  # optional

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").disable(_NO_MARKDOWN)
    tags = {
        "heading_open": "<p><b>",
        "heading_close": "</b></p>\n",
        "table_open": '<div class="o" tabindex="0"><table>',
        "table_close": "</table></div>\n",
    }
    for name, tag in tags.items():
        parser.add_render_rule(name, lambda *_, tag=tag: tag)
    parser.add_render_rule("fence", lambda _, tokens, place, *__: _render_fence(tokens[place].content))
    parser.render("x")  # compiles its rules, which another thread could find half compiled
    return parser


def _render_fence(code: str) -> str:
    return f'<pre tabindex="0">{escape(code)}</pre>\n'


def render_dim(text: str, tag: str = "span") -> str:
    """Render a remark in dim text. Return "" for an empty one."""
    return f'<{tag} class="d">{escape_text(text, MAX_CELL)}</{tag}>' if text else ""


def render_code(text: str, size: int = MAX_CELL) -> str:
    """Render a piece of code; several lines as a block, which scrolls."""
    code = escape_text(text, size)
    return f'<pre class="t s" tabindex="0">{code}</pre>' if "\n" in code else f"<code>{code}</code>"


def render_json(text: str, size: int, render_other: Callable[[str, int], str] = render_text) -> str:
    """Render the JSON of an object or a list as code, and any other text by `render_other`."""
    value = load_if_json(text) if len(text) <= size else None
    return render_code(format_value(value), size) if isinstance(value, (dict, list)) else render_other(text, size)


def format_value(value: Any, indent: str = "") -> str:
    """Write a value as JSON, a long one on several lines. A text of several lines is written as it is."""
    if isinstance(value, str) and "\n" in value and not indent:
        return value
    line = json.dumps(value, ensure_ascii=False, default=str)
    if len(line) + len(indent) <= WIDTH or not value or not isinstance(value, (dict, list)):
        return line
    deeper = f"{indent}  "
    if isinstance(value, list):
        lines = [format_value(each, deeper) for each in value]
        return f"[\n{deeper}" + f",\n{deeper}".join(lines) + f"\n{indent}]"
    lines = [f"{json.dumps(name, ensure_ascii=False)}: {format_value(each, deeper)}" for name, each in value.items()]
    return f"{{\n{deeper}" + f",\n{deeper}".join(lines) + f"\n{indent}}}"


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else format_value(value)


def format_seconds(seconds: float) -> str:
    """Write a duration."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def format_tokens(usage: Usage) -> str:
    """Write the tokens used. Return "" if they are not known."""
    if not (usage.input_tokens or usage.output_tokens):
        return ""
    return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"


def format_count(number: int, word: str, plural: str = "") -> str:
    """Write a number with its word."""
    if number == 1:
        return f"{number} {word}"
    return f"{number:,} {plural or word + 's'}"


def render_data(value: Any) -> str:
    """Render rows as a table, and the fields of other data as JSON. Return "" for a text and other single values."""
    if table := render_table(value):
        return table
    plain = make_plain(value)
    return render_code(format_value(plain), MAX_ANSWER) if isinstance(plain, (dict, list)) else ""


def render_table(value: Any, max_rows: int = MAX_ROWS) -> str:
    """Render a DataFrame, or a list of mappings, dataclasses or models, as a table. Return "" for any other value."""
    try:
        rows, count = _read_rows(value, max_rows)
    except Exception:  # noqa: BLE001  the value's class may do anything
        return ""
    if not rows:
        return ""
    head, *body = rows
    more_rows = f"… {format_count(count - len(body), 'more row')}" if count > len(body) else ""
    more_columns = f"… {format_count(len(head) - MAX_COLUMNS, 'more column')}" if len(head) > MAX_COLUMNS else ""
    cells = [[escape_text(cell, MAX_CELL) for cell in row[:MAX_COLUMNS]] for row in rows]
    return render_cells(cells[0], cells[1:]) + render_dim(" ".join(filter(None, (more_rows, more_columns))), tag="div")


def _read_rows(value: Any, max_rows: int) -> tuple[list[list[str]], int]:
    """Return the head and the first rows of a table as texts, and the number of its rows. Other values have none."""
    if is_table(value):
        text, _ = write_rows(value.head(max_rows), 0, None, MAX_ANSWER)
        return list(csv.reader(StringIO(text))), value.shape[0]
    if not isinstance(value, (list, tuple)) or not value or not all(map(_has_fields, value[:max_rows])):
        return [], 0
    plain = [each for each in map(make_plain, value[:max_rows]) if isinstance(each, dict)]
    names = [*dict.fromkeys(name for each in plain for name in each)]
    texts = [[_format_cell(each[name]) if name in each else "" for name in names] for each in plain]
    return [list(map(str, names)), *texts] if names else [], len(value)


def _has_fields(value: Any) -> bool:
    return isinstance(value, Mapping) or is_dataclass(value) or hasattr(type(value), "model_fields")
