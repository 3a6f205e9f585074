"""`read_file`, `write_file`, `edit_file`: files, for a model that writes code.

One text in place of another, where it occurs exactly once, however lines end.

How far the tools for a model that writes code go.

Regular expressions and globs of a model's, in time that grows with the text alone.

Python's own engine may need years for one line, and nothing can stop it; that of Rust, which pydantic brings along,
cannot. It looks at each character once for each state that an expression is in: both numbers are bounded here, so that
one look takes a tenth of a second at most, during which nothing else runs.

`list_files` and `search`: which files there are, and what stands in them, for a model that writes code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Annotated

from annotated_types import Ge
from pydantic_core import SchemaError, SchemaValidator, core_schema

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import cancellation_error
from toolkit._context import ToolContext
from toolkit._guards.media import detect_image
from toolkit._guards.options import check_seconds, check_whole
from toolkit._messages import Image, ToolResult
from toolkit._tools.decorator import tool
from toolkit.builtin.files.text import decode_file, escape_name, line_blocks, read_pieces, report_errors, split_lines
from toolkit.builtin.files.workspace import Workspace
from toolkit.builtin.files.writing import NO_CONTEXT, ContentHash, ExpectHash, hash_bytes
from toolkit.errors import Failed

TIP = "Tip: Use read_file to see the current file contents, then copy the exact text you want to replace."
EDIT_ADVICE = "Make sure old_text matches exactly, including whitespace and indentation."


def replace_once(text: str, old: str, new: str, path: str) -> str:
    r"""Replace the one place, whether its lines end in `\n` or in `\r\n`; what is not replaced keeps its line ends.

    New lines end as the line does that the place begins in.

    Raises:
        Failed: There is no such place, or there are several; the message says what to do.
    """
    plain, wanted = _normalize_line_ends(text), _normalize_line_ends(old)
    count = plain.count(wanted)
    if count == 0:
        raise Failed(f"old_text not found in {path}.\n\n{_suggest_match(text, old)}")
    if count > 1:
        raise Failed(
            f"old_text matches {count} locations in {path}. Include more surrounding context to make the match unique."
        )
    place = plain.index(wanted)
    start, end = _map_position(text, place), _map_position(text, place + len(wanted))
    return (
        text[:start]
        + (_normalize_line_ends(new).replace("\n", "\r\n") if _ends_with_crlf(text, start) else new)
        + text[end:]
    )


def summarize_edit(old: str, new: str, path: str) -> str:
    """Say what was replaced."""
    return f"Replaced {_count_lines(old)} with {_count_lines(new)} in {path}"


def _normalize_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


def _map_position(text: str, plain: int) -> int:
    """Tell where a place in a text with plain line ends stands in the text itself."""
    found, place = plain, -1
    while place != found:
        place, found = found, plain + text.count("\r\n", 0, found)
    return place + (text[place - 1 : place + 1] == "\r\n")


def _ends_with_crlf(text: str, place: int) -> bool:
    """Tell how the line ends that a place stands in; the last one as the line before it."""
    end = text.find("\n", place)
    return text.endswith("\r\n", 0, (end if end >= 0 else text.rfind("\n")) + 1)


def _count_lines(text: str) -> str:
    lines = len(split_lines(text))
    return f"{lines} line{'' if lines == 1 else 's'}"


def _suggest_match(text: str, old: str) -> str:
    """Show the lines that begin as the wanted text does, its white space aside, and one more."""
    wanted = split_lines(old.strip())
    lines = split_lines(text)
    start = next((place for place, line in enumerate(lines) if wanted and wanted[0].strip() in line), None)
    if start is None:
        return TIP
    similar = "\n".join(lines[start : start + len(wanted) + 1])
    return f"Did you mean:\n```\n{similar}\n```\n{EDIT_ADVICE}"


@dataclass(frozen=True, kw_only=True)
class CodingLimits:
    """How far the tools go; sizes in bytes.

    Attributes:
        max_bytes: Of a text file that is read without `offset` and `limit`, or edited.
        max_paged: Of a text file that is read in part, or searched.
        max_image: Of a picture.
        list_seconds: For one listing.
        search_seconds: For one search.

    Raises:
        DefinitionError: A size is no whole number above 0, or a time is none.
    """

    max_bytes: int = 1024 * 1024
    max_paged: int = 64 * 1024 * 1024
    max_image: int = 20 * 1024 * 1024
    list_seconds: float = 10
    search_seconds: float = 30

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_paged", "max_image"):
            check_whole(name, getattr(self, name))
        for name in ("list_seconds", "search_seconds"):
            check_seconds(name, getattr(self, name))


# Characters of a pattern or a glob.
MAX_PATTERN = 1000
# Characters of a line; also what is shown of one.
MAX_LINE = 2000
# The engine itself takes no expression that needs 10 MiB (regex, RegexBuilder::size_limit): one that can be repeated
# so often needs less than a tenth of that.
REPETITIONS = 10

_TOKEN = re.compile(r"(?<![^/])\*\*/|\*+|\?|\[[!^]?\]?[^\]/]*\]|\{[^{}]*\}|.", re.DOTALL)


def compile_pattern(pattern: str, *, case_sensitive: bool) -> Callable[[str], bool]:
    """Make what tells whether the beginning of a line, as far as it is shown, holds a pattern.

    The syntax is that of ripgrep: no look-around, no back references.

    Raises:
        Failed: The pattern is none, or too large.
    """
    if len(pattern) > MAX_PATTERN:
        raise Failed(f"Search error: a pattern has {MAX_PATTERN} characters at most")
    matches = _compile(pattern if case_sensitive else f"(?i){pattern}", "Search error")
    return lambda line: matches(line[:MAX_LINE])


def compile_glob(glob: str) -> Callable[[str], bool]:
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
    matches = _compile(f"(?s)^{_translate_glob(wanted)}$", f"{glob!r} is no glob")
    return lambda path: matches(path.encode("utf-8", "replace").decode())


def clip_line(line: str) -> str:
    """Show a line as far as it is searched."""
    left = len(line) - MAX_LINE
    return line if left <= 0 else f"{line[:MAX_LINE]}... ({left} more characters)"


def _compile(expression: str, before: str) -> Callable[[str], bool]:
    try:
        matches = _make_matcher(expression)
    except SchemaError as error:
        raise Failed(f"{before}: {str(error).partition('SchemaError: ')[2] or error}") from error
    try:
        _make_matcher(f"(?:{expression}){{{REPETITIONS}}}")
    except SchemaError as error:
        raise Failed(f"{before}: it is too large; search for less, or repeat less in it") from error
    return matches


def _make_matcher(expression: str) -> Callable[[str], bool]:
    schema = core_schema.str_schema(pattern=expression, regex_engine="rust-regex")
    return SchemaValidator(schema).isinstance_python


def _translate_glob(glob: str) -> str:
    return "".join(_translate_token(part) for part in _TOKEN.findall(glob))


def _translate_token(part: str) -> str:
    if part[0] == "*":
        return "[^/]*" if part == "*" else "(?:.*/)?" if part.endswith("/") else ".*"
    if part == "?":
        return "[^/]"
    if len(part) == 1:
        return re.escape(part)
    inner = part[1:-1]
    if part[0] == "{":
        return f"(?:{'|'.join(map(_translate_glob, inner.split(',')))})"
    is_other = inner[:1] in ("!", "^")
    return f"[{'^' * is_other}{re.escape(inner[is_other:]).replace(chr(92) + '-', '-')}]"


MAX_PAGE = 500  # lines, where nothing else is said
MAX_LINES = 5000  # lines, whatever is said
ADVICE = " Use offset/limit for partial reads."
OUTSIDE_MESSAGES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("absolute", "traversal", "link"), "path '{}' is outside the allowed directories")
)
report_coding_errors = partial(report_errors, outside=OUTSIDE_MESSAGES)


class EditingTools:
    """The tools for one project."""

    def __init__(self, workspace: Workspace, limits: CodingLimits, *, hashes: bool) -> None:
        self._workspace, self._limits, self._hashes = workspace, limits, hashes

    @tool(title="Read File", effect="read")
    def read_file(
        self, path: str, offset: Annotated[int, Ge(0)] | None = None, limit: Annotated[int, Ge(0)] | None = None
    ) -> ToolResult:
        """Read a file: a text with its lines numbered, 500 of them where nothing else is said, or a picture.

        Args:
            path: File path to read.
            offset: Starting line number, counted from 1.
            limit: Maximum number of lines to return.
        """
        is_part = offset is not None or limit is not None
        most = self._limits.max_paged if is_part else self._limits.max_bytes
        found = ContentHash()
        with report_coding_errors(f"Cannot access {path}", path), self._workspace.open_file(path) as (file, about):
            if media_type := detect_image(file.peek()):
                data = b"".join(read_pieces(file, about.st_size, self._limits.max_image))
                return ToolResult(Image(data, media_type), details={"path": path})
            with report_coding_errors(f"Cannot read {path}", path, large="" if is_part else ADVICE):
                blocks = line_blocks(found.update_from(read_pieces(file, about.st_size, most)))
                page = _format_page(blocks, max(offset or 1, 1) - 1, limit, is_part=is_part)
        return ToolResult(f"[hash {found}]\n{page}" if self._hashes else page, details={"path": path})

    def write_file(  # noqa: D417  the type says what expect_hash is
        self, path: str, content: str, expect_hash: ExpectHash = "", *, context: ToolContext = NO_CONTEXT
    ) -> ToolResult:
        """Write a text file, in place of what it held. Missing directories are made. To change a part, use edit_file.

        Args:
            path: File path to write.
            content: All that the file is to hold.
            context: Tells when the call ends.
        """
        with report_coding_errors("Cannot create directory", path):
            self._workspace.make_parents(path)
        with report_coding_errors(f"Cannot write {path}", path):
            data = self._workspace.encode_text(path, content)
            self._workspace.replace(path, data, expect_hash if self._hashes else None, context.cancellation)
        details = {"path": path, "bytes": len(data)}
        return ToolResult(f"Wrote {len(data)} bytes to {path}{self._format_hash(data)}", details=details)

    @tool(title="Edit File", effect="write")
    def edit_file(self, path: str, old_text: str, new_text: str, *, context: ToolContext = NO_CONTEXT) -> ToolResult:
        """Replace one text in a file by another. For new files, use write_file.

        Args:
            path: File path to edit.
            old_text: Exact text to find, white space and indentation included; it must occur exactly once.
            new_text: What to put in its place.
            context: Tells when the call ends.
        """
        missing = f"Cannot read {path}: No such file or directory. Use write_file to create new files."
        with (
            report_coding_errors(f"Cannot read {path}", path, missing=missing),
            self._workspace.open_file(path) as (file, about),
        ):
            data = b"".join(read_pieces(file, about.st_size, self._limits.max_bytes))
            text, form = decode_file(data)
        changed = replace_once(text, old_text, new_text, path)
        now = form.encode(changed)
        if changed != text:
            with report_coding_errors(f"Cannot write {path}", path):
                self._workspace.replace(path, now, hash_bytes(data), context.cancellation)
        details = {"path": path, "old_lines": len(split_lines(old_text)), "new_lines": len(split_lines(new_text))}
        said = "No changes (old_text == new_text)" if changed == text else summarize_edit(old_text, new_text, path)
        return ToolResult(said + self._format_hash(now), details=details)

    def _format_hash(self, data: bytes) -> str:
        return f" [hash {hash_bytes(data)}]" if self._hashes else ""


def _format_page(blocks: Iterable[list[str]], start: int, limit: int | None, *, is_part: bool) -> str:
    end = start + min(MAX_PAGE if limit is None else limit, MAX_LINES)
    kept: list[str] = []
    total = 0
    for block in blocks:
        kept += map(clip_line, block[max(start - total, 0) : max(end - total, 0)])
        total += len(block)
    start = min(start, total)
    end = start + len(kept)
    header = f"[Lines {start + 1}-{end} of {total}]" if is_part or end < total else f"[{total} lines]"
    return "\n".join([header, *(f"{number:>4} | {line}" for number, line in enumerate(kept, start + 1))])


MAX_LISTED = 200  # files
MAX_MATCHES = 50
MAX_DEPTH = 100  # directories, where nothing else is said


class FindingTools:
    """The tools for one project."""

    def __init__(self, workspace: Workspace, limits: CodingLimits) -> None:
        self._workspace, self._limits = workspace, limits

    @tool(title="List Files", effect="read")
    def list_files(
        self, path: str = ".", pattern: str = "", max_depth: Annotated[int, Ge(1)] = 3, *, context: ToolContext
    ) -> ToolResult:
        """List the files beneath a directory, sorted; what is in target, .git and node_modules is left out.

        Args:
            path: Directory to list.
            pattern: Glob: `*.py` is about names, `src/**/*.py` about paths from that directory on; all by default.
            max_depth: How many directories deep to look.
            context: Ends the listing.
        """
        fits = compile_glob(pattern)
        failing = report_coding_errors(
            f"Failed to list {path}", path, missing=f"Directory not found: {path}. Check the path and try again."
        )
        with failing, _deadline(context, self._limits.list_seconds, "Listing timed out") as check:
            found = sorted(self._find_files(path, fits, max_depth, check))
        return _render_listing(found, path)

    @tool(title="Search Files", effect="read")
    def search(
        self, pattern: str, path: str = ".", include: str = "", *, case_sensitive: bool = False, context: ToolContext
    ) -> ToolResult:
        """Search for a pattern across files. Gives lines of the form `path:line number:text`, 50 at most.

        Left out is what is binary, private or too large, or in target, .git or node_modules. Of a line the first 2000
        characters are searched.

        Args:
            pattern: Regular expression as ripgrep takes it, matched against each line.
            path: Directory or file to search in.
            include: Glob: `*.py` is about names, `src/**/*.py` about paths from that directory on; all by default.
            case_sensitive: Whether capitals matter.
            context: Ends the search.
        """
        matches, fits = compile_pattern(pattern, case_sensitive=case_sensitive), compile_glob(include)
        failing = report_coding_errors("Search error", path)
        with failing, _deadline(context, self._limits.search_seconds, "Search timed out") as check:
            names = self._find_files(path, fits, MAX_DEPTH, check)
            hits = chain.from_iterable(self._search_file(name, path, matches, check) for name in names)
            return _render_matches(list(islice(hits, MAX_MATCHES)), pattern)

    def _find_files(
        self, path: str, fits: Callable[[str], bool], depth: int, check: Callable[[], object]
    ) -> Iterator[str]:
        start = PurePosixPath(*self._workspace.root.split(path))
        for name in self._workspace.walk_files(path, depth, check):
            below = PurePosixPath(name).relative_to(start)
            if fits(str(below) if below.name else start.name):
                yield name

    def _search_file(
        self, name: str, path: str, matches: Callable[[str], bool], check: Callable[[], object]
    ) -> Iterator[str]:
        """Search a file; one that is no text, may not be read, or is gone, has nothing, unless the model named it."""
        check()
        try:
            for number, line in enumerate(self._read_lines(name), 1):
                check()
                if matches(line):
                    yield f"{escape_name(name)}:{number}:{clip_line(line)}"
        except OSError:
            if self._workspace.root.split(path) == self._workspace.root.split(name):
                raise

    def _read_lines(self, name: str) -> Iterator[str]:
        with self._workspace.open_file(name) as (file, about):
            yield from chain.from_iterable(line_blocks(read_pieces(file, about.st_size, self._limits.max_paged)))


@contextmanager
def _deadline(context: ToolContext, seconds: float, late: str) -> Iterator[Callable[[], None]]:
    """Give what ends the work when the time is up, or the run was left."""
    with Cancellation(seconds, context.cancellation) as ended:

        def check() -> None:
            if context.cancellation:
                raise cancellation_error(context.cancellation)
            if ended:
                raise Failed(late)

        check()
        yield check


def _render_listing(found: list[str], path: str) -> ToolResult:
    total = len(found)
    details = {"total": total, "truncated": total > MAX_LISTED}
    if not found:
        return ToolResult(f"No files found in {path}", details=details)
    names = "\n".join(map(escape_name, found[:MAX_LISTED]))
    count = f"... ({total} files, showing first {MAX_LISTED})" if total > MAX_LISTED else f"({total} files)"
    return ToolResult(f"{names}\n\n{count}", details=details)


def _render_matches(hits: list[str], pattern: str) -> ToolResult:
    details = {"matches": len(hits)}
    if not hits:
        return ToolResult(f"No matches found for '{pattern}'", details=details)
    count = f"... (showing first {MAX_MATCHES} matches)" if len(hits) >= MAX_MATCHES else f"({len(hits)} matches)"
    return ToolResult("\n".join([*hits, count]), details=details)
