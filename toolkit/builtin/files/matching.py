"""Regular expressions and globs of a model's, in time that grows with the text alone.

Python's own engine may need years for one line, and nothing can stop it; that of Rust, which pydantic brings along,
cannot. It looks at each character once for each state that an expression is in: both numbers are bounded here, so that
one look takes a tenth of a second at most, during which nothing else runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pydantic_core import SchemaError, SchemaValidator, core_schema

from toolkit.errors import Failed

# Characters of a pattern or a glob.
MAX_PATTERN = 1000
# Characters of a line; also what is shown of one.
MAX_LINE = 2000
# The engine itself takes no expression that needs 10 MiB (regex, RegexBuilder::size_limit): one that can be repeated
# so often needs less than a tenth of that.
REPEATED = 10

_TOKEN = re.compile(r"(?<![^/])\*\*/|\*+|\?|\[[!^]?\]?[^\]/]*\]|\{[^{}]*\}|.", re.DOTALL)


def matcher(pattern: str, *, case_sensitive: bool) -> Callable[[str], bool]:
    """Make what tells whether the beginning of a line, as far as it is shown, holds a pattern.

    The syntax is that of ripgrep: no look-around, no back references.

    Raises:
        Failed: The pattern is none, or too large.
    """
    if len(pattern) > MAX_PATTERN:
        raise Failed(f"Search error: a pattern has {MAX_PATTERN} characters at most")
    matches = _compiled(pattern if case_sensitive else f"(?i){pattern}", "Search error")
    return lambda line: matches(line[:MAX_LINE])


def globber(glob: str) -> Callable[[str], bool]:
    """Make what tells whether a path fits a glob.

    `*.py` is about a file's name; with a `/` in it, such as `src/**/*.py`, a glob is about the whole path. `*` and `?`
    stop at a directory, `**/` is any number of them, `[a-z]` one of these, `{py,js}` one or the other. One that says
    nothing, such as `.`, fits all.

    Raises:
        Failed: It is none, or too large.
    """
    if len(glob) > MAX_PATTERN:
        raise Failed(f"a glob has {MAX_PATTERN} characters at most")
    wanted = glob.removeprefix("./").lstrip("/")
    if wanted in ("", ".") or wanted.endswith("/"):
        wanted = wanted.removesuffix(".") + "**"
    if "/" not in glob:
        wanted = f"**/{wanted}"
    matches = _compiled(f"(?s)^{_expression(wanted)}$", f"{glob!r} is no glob")
    return lambda path: matches(path.encode("utf-8", "replace").decode())


def clipped(line: str) -> str:
    """Show a line as far as it is searched."""
    left = len(line) - MAX_LINE
    return line if left <= 0 else f"{line[:MAX_LINE]}... ({left} more characters)"


def _compiled(expression: str, before: str) -> Callable[[str], bool]:
    try:
        matches = _engine(expression)
    except SchemaError as error:
        raise Failed(f"{before}: {str(error).partition('SchemaError: ')[2] or error}") from error
    try:
        _engine(f"(?:{expression}){{{REPEATED}}}")
    except SchemaError as error:
        raise Failed(f"{before}: it is too large; search for less, or repeat less in it") from error
    return matches


def _engine(expression: str) -> Callable[[str], bool]:
    schema = core_schema.str_schema(pattern=expression, regex_engine="rust-regex")
    return SchemaValidator(schema).isinstance_python


def _expression(glob: str) -> str:
    return "".join(_translated(part) for part in _TOKEN.findall(glob))


def _translated(part: str) -> str:
    if part[0] == "*":
        return "[^/]*" if part == "*" else "(?:.*/)?" if part.endswith("/") else ".*"
    if part == "?":
        return "[^/]"
    if len(part) == 1:
        return re.escape(part)
    inner = part[1:-1]
    if part[0] == "{":
        return f"(?:{'|'.join(map(_expression, inner.split(',')))})"
    is_other = inner[:1] in ("!", "^")
    return f"[{'^' * is_other}{re.escape(inner[is_other:]).replace(chr(92) + '-', '-')}]"
