"""`read_file`, `write_file`, `edit_file`, `list_files`, `search`: files, for a model that writes code.

Regular expressions and globs of a model run in time linear in the text. Python's own engine may need years for one
line, and cannot be interrupted; Rust's engine, which is part of pydantic, is linear. It visits each character once for
each state of an expression. Both numbers are limited here, so that one match takes a tenth of a second at most, during
which no other thread runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import PurePosixPath
from typing import Annotated

from annotated_types import Ge
from pydantic_core import SchemaError, SchemaValidator, core_schema

from toolkit._concurrency.cancellation import Cancellation, cancellation_error
from toolkit._context import ToolContext
from toolkit._guards.media import detect_image
from toolkit._guards.options import check_seconds, check_whole
from toolkit._messages import Image, ToolResult
from toolkit._tools.decorator import tool
from toolkit.builtin.files.text import (
    TooLarge,
    count_lines,
    decode_file,
    escape_name,
    iter_lines,
    read_bytes,
    report_errors,
)
from toolkit.builtin.files.workspace import FileTools, WalkedPath, Workspace
from toolkit.builtin.files.writing import MAX_HASHED, NO_CONTEXT, ExpectHash, hash_bytes
from toolkit.errors import Failed

MAX_IMAGE = 20 * 1024 * 1024  # bytes of a picture
MAX_PAGED = 64 * 1024 * 1024  # bytes of a text file that is read in part, or searched
MAX_PAGE = 500  # lines that are read by default
MAX_LINES = 5000  # lines that are read at most
MAX_LINE = 2000  # characters of a line that are searched and returned
MAX_LISTED = 200  # files
MAX_MATCHES = 50
MAX_NAMED = 5  # files of which a search without a match says that they were not searched in full
MAX_COMPARED = 100  # places in a file that are compared with a text that is not found
MAX_DEPTH = 100  # levels of directories that are searched
MAX_PATTERN = 1000  # characters of a pattern or a glob
# The engine refuses an expression that needs 10 MiB (regex, RegexBuilder::size_limit). One that it accepts when it is
# repeated so often needs less than a tenth of that.
REPETITIONS = 10
# White space, quotation marks and dashes that a model may write as those of ASCII, or the other way round.
LOOKALIKES = str.maketrans(
    "\u00a0\u2007\u2009\u202f\u3000\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2014\u2212", "     ''\"\"-----"
)
_TOKEN = re.compile(r"(?<![^/])\*\*/|\*+|\?|\[[!^]?\]?[^\]/]*\]|\{[^{}]*\}|.", re.DOTALL)
TIP = "Tip: Use read_file to see the current file contents, then copy the exact text you want to replace."
LINE_ENDS = "The line ends differ: the file has LF, CR LF, or both. Replace one line at a time, without its end."
EDIT_ADVICE = "Make sure old_text matches exactly, including whitespace and indentation."
ADVICE = " Use offset/limit for partial reads."
OUTSIDE_MESSAGES: Mapping[str, str] = dict.fromkeys(
    ("absolute", "traversal", "link"), "path '{}' is outside the allowed directories"
)
_report_errors = partial(report_errors, outside=OUTSIDE_MESSAGES)


@dataclass(frozen=True, kw_only=True)
class CodingLimits:
    """Limits of the tools of `coding_tools`.

    Attributes:
        max_bytes: Size in bytes of a text file that is read without `offset` and `limit`, or edited. No file above 64
            MiB is edited, searched, or read in part, and no picture above 20 MiB is read.
        list_seconds: Seconds for one listing.
        search_seconds: Seconds for one search.

    Raises:
        DefinitionError: The size is not a whole number above 0, or a time is not above 0.
    """

    max_bytes: int = 1024 * 1024
    list_seconds: float = 10
    search_seconds: float = 30

    def __post_init__(self) -> None:
        check_whole("max_bytes", self.max_bytes)
        for name in ("list_seconds", "search_seconds"):
            check_seconds(name, getattr(self, name))


class CodingTools(FileTools):
    """The tools of `coding_tools`."""

    def __init__(self, workspace: Workspace, limits: CodingLimits, *, hashes: bool) -> None:
        super().__init__(workspace, hashes=hashes)
        self._limits = limits

    @tool(title="Read File", effect="read")
    def read_file(
        self, path: str, offset: Annotated[int, Ge(0)] | None = None, limit: Annotated[int, Ge(0)] | None = None
    ) -> ToolResult:
        """Read a text file with numbered lines, 500 by default, or a picture.

        Args:
            path: File path to read.
            offset: Starting line number, counted from 1.
            limit: Maximum number of lines to return.
        """
        is_part = offset is not None or limit is not None
        with _report_errors(f"Cannot access {path}", path), self._workspace.open_file(path) as file:
            if media_type := detect_image(file.peek()):
                return ToolResult(Image(read_bytes(file, MAX_IMAGE), media_type), details={"path": path})
            with _report_errors(f"Cannot read {path}", path, large="" if is_part else ADVICE):
                data = read_bytes(file, MAX_PAGED if is_part else self._limits.max_bytes)
                text, _ = decode_file(data)
                page = _format_page(text, max(offset or 1, 1) - 1, limit, is_part=is_part)
        mark = f"[hash {hash_bytes(data)}]\n" if self._hashes else ""
        return ToolResult(mark + page, details={"path": path})

    def write_file(  # noqa: D417  the type says what expect_hash is
        self, path: str, content: str, expect_hash: ExpectHash = "", *, context: ToolContext = NO_CONTEXT
    ) -> ToolResult:
        """Write a text file, replacing its content. Missing directories are made. To change a part, use edit_file.

        Args:
            path: File path to write.
            content: The whole content of the file.
            context: Cancels the write.
        """
        with _report_errors("Cannot create directory", path):
            self._workspace.root.make_parents(path)
        with _report_errors(f"Cannot write {path}", path):
            data = self._workspace.encode_text(path, content)
            self._workspace.replace(path, data, expect_hash if self._hashes else None, context.cancellation)
        details = {"path": path, "bytes": len(data)}
        return ToolResult(f"Wrote {len(data)} bytes to {path}{self._format_hash(data)}", details=details)

    @tool(title="Edit File", effect="write")
    def edit_file(self, path: str, old_text: str, new_text: str, *, context: ToolContext = NO_CONTEXT) -> ToolResult:
        """Replace one text in a file by another. For new files, use write_file.

        Args:
            path: File path to edit.
            old_text: Exact text to find, with its white space and indentation; it must occur exactly once.
            new_text: The text that replaces it.
            context: Cancels the write.
        """
        missing = f"Cannot read {path}: No such file or directory. Use write_file to create new files."
        with (
            _report_errors(f"Cannot read {path}", path, missing=missing),
            self._workspace.open_file(path) as file,
        ):
            data = read_bytes(file, min(self._limits.max_bytes, MAX_HASHED))  # so that a change meanwhile is noticed
            text, text_format = decode_file(data)

        changed = replace_once(text, old_text, new_text, path, has_crlf=text_format.has_crlf)
        new_data = text_format.encode(changed)
        if changed != text:
            with _report_errors(f"Cannot write {path}", path):
                self._workspace.replace(path, new_data, hash_bytes(data), context.cancellation)
        old_lines = count_lines(old_text)
        new_lines = count_lines(new_text)
        summary = "No changes (old_text == new_text)"
        if changed != text:
            summary = f"Replaced {_format_lines(old_lines)} with {_format_lines(new_lines)} in {path}"
        details = {"path": path, "old_lines": old_lines, "new_lines": new_lines}
        return ToolResult(summary + self._format_hash(new_data), details=details)

    @tool(title="List Files", effect="read")
    def list_files(
        self, path: str = ".", pattern: str = "", max_depth: Annotated[int, Ge(1)] = 3, *, context: ToolContext
    ) -> ToolResult:
        """List the files beneath a directory, sorted, without those in target, .git and node_modules.

        Args:
            path: Directory to list.
            pattern: Glob: `*.py` matches names, `src/**/*.py` paths from that directory on; all by default.
            max_depth: Levels of directories to list.
            context: Cancels the listing.
        """
        is_match = compile_glob(pattern)
        errors = _report_errors(
            f"Failed to list {path}", path, missing=f"Directory not found: {path}. Check the path and try again."
        )
        with errors, _deadline(context, self._limits.list_seconds, "Listing timed out") as check:
            found = [*self._find_files(path, is_match, max_depth, check)]
        names = sorted(walked.path for walked in found if walked.is_file)
        deeper = next((walked.path for walked in found if not walked.is_file), "")
        return _render_listing(names, path, deeper if pattern or not names else "")

    @tool(title="Search Files", effect="read")
    def search(
        self, pattern: str, path: str = ".", include: str = "", *, case_sensitive: bool = False, context: ToolContext
    ) -> ToolResult:
        """Search files for a pattern. Returns lines of the form `path:line number:text`, 50 at most.

        Binary, private and large files are left out, and those in target, .git and node_modules, unless path is such a
        directory. The first 2000 characters of each line are searched.

        Args:
            pattern: Regular expression as ripgrep takes it, matched against each line.
            path: Directory or file to search in.
            include: Glob: `*.py` matches names, `src/**/*.py` paths from that directory on; all by default.
            case_sensitive: Whether upper and lower case differ.
            context: Cancels the search.
        """
        matches = compile_pattern(pattern, case_sensitive=case_sensitive)
        is_match = compile_glob(include)
        errors = _report_errors("Search error", path)

        with errors, _deadline(context, self._limits.search_seconds, "Search timed out") as check:
            hits: list[str] = []
            partly: list[str] = []
            walk = self._find_files(path, is_match, MAX_DEPTH, check)
            for name in (walked.path for walked in walk if walked.is_file):
                found, is_whole = self._search_file(name, path, matches, check)
                hits += found
                if not is_whole:
                    partly.append(escape_name(name))
                if len(hits) >= MAX_MATCHES:
                    break
            return _render_matches(hits[:MAX_MATCHES], pattern, partly)

    def _find_files(
        self, path: str, is_match: Callable[[str], bool], depth: int, check: Callable[[], object]
    ) -> Iterator[WalkedPath]:
        """Walk the files like `walk_files`, but yield only files that match."""
        start = PurePosixPath(*self._workspace.root.split(path))
        for walked in self._workspace.walk_files(path, depth, check):
            below = PurePosixPath(walked.path).relative_to(start)
            if not walked.is_file or is_match(str(below) if below.name else start.name):
                yield walked

    def _search_file(
        self, name: str, path: str, matches: Callable[[str], bool], check: Callable[[], object]
    ) -> tuple[list[str], bool]:
        """Return the matches of a file, and whether it was searched in full: it, or one of its lines, may be too long.

        A binary file has no match, but fails if the model named it.
        """
        check()
        hits: list[str] = []
        longest = 0

        try:
            with self._workspace.open_file(name) as file:
                text, _ = decode_file(read_bytes(file, MAX_PAGED), errors="replace")
            for number, line in enumerate(iter_lines(text), 1):
                check()
                longest = max(longest, len(line))
                if len(hits) < MAX_MATCHES and matches(line):
                    hits.append(f"{escape_name(name)}:{number}:{clip_line(line)}")
        except OSError as error:
            if self._workspace.root.split(path) == self._workspace.root.split(name):
                raise
            longest = MAX_LINE + isinstance(error, TooLarge)

        return hits, longest <= MAX_LINE


def _format_page(text: str, start: int, limit: int | None, *, is_part: bool) -> str:
    total = count_lines(text)
    start = min(start, total)
    end = min(start + min(MAX_PAGE if limit is None else limit, MAX_LINES), total)
    lines = map(clip_line, islice(iter_lines(text, start), end - start))
    header = f"[Lines {start + 1}-{end} of {total}]" if is_part or end < total else f"[{total} lines]"
    return "\n".join([header, *(f"{number:>4} | {line}" for number, line in enumerate(lines, start + 1))])


def replace_once(text: str, old: str, new: str, path: str, *, has_crlf: bool) -> str:
    """Replace the only occurrence of a text.

    With `has_crlf`, every line of the file ends in CR LF. The lines of `old` and `new` may end in LF.

    Raises:
        Failed: There is no occurrence, or several; the message says what to do.
    """
    if has_crlf:
        old, new = (each.replace("\r\n", "\n").replace("\n", "\r\n") for each in (old, new))
    start = text.find(old)
    if start < 0:
        differs_by_ends = old.replace("\r\n", "\n") in text.replace("\r\n", "\n")
        advice = LINE_ENDS if differs_by_ends else _suggest_match(text, old) + _name_lookalikes(text, old)
        raise Failed(f"old_text not found in {path}.\n\n{advice}")
    if text.find(old, start + 1) >= 0:  # also if two overlap, as two lines of `}` in three
        count = max(text.count(old), 2)
        raise Failed(
            f"old_text matches {count} locations in {path}. Include more surrounding context to make the match unique."
        )
    return text[:start] + new + text[start + len(old) :]


def _name_lookalikes(text: str, old: str) -> str:
    """Name the characters in which a text differs from one that looks the same. Return "" if there is none."""
    position = text.translate(LOOKALIKES).find(old.translate(LOOKALIKES))
    if position < 0:
        return ""
    pairs = dict.fromkeys(pair for pair in zip(text[position:], old) if pair[0] != pair[1])
    shown = ", ".join(f"U+{ord(found):04X} for {wanted!r}" for found, wanted in pairs)
    return f"\nThe file has other characters that look alike: {shown}. Write them as they are in the file."


def _suggest_match(text: str, old: str) -> str:
    """Quote the lines of a text that are most similar to the wanted ones, and one line more.

    The first of them contains the first wanted line.
    """
    wanted = list(iter_lines(old.strip()))
    lines = list(iter_lines(text))
    starts = (number for number, line in enumerate(lines) if wanted and wanted[0].strip() in line)
    places = [lines[start : start + len(wanted) + 1] for start in islice(starts, MAX_COMPARED)]
    if not places:
        return TIP

    def count_equal(place: list[str]) -> int:
        return sum(found.strip() == line.strip() for found, line in zip(place, wanted))

    best = max(places, key=count_equal)
    similar = "\n".join(map(clip_line, best))
    return f"Did you mean:\n```\n{similar}\n```\n{EDIT_ADVICE}"


@contextmanager
def _deadline(context: ToolContext, seconds: float, message: str) -> Iterator[Callable[[], None]]:
    """Yield a function that raises when the time is up or the call is cancelled."""
    with Cancellation(seconds, context.cancellation) as limit:

        def check() -> None:
            if context.cancellation:
                raise cancellation_error(context.cancellation)
            if limit:
                raise Failed(message)

        check()
        yield check


def _render_listing(paths: list[str], path: str, deeper: str) -> ToolResult:
    total = len(paths)
    details = {"total": total, "truncated": total > MAX_LISTED}
    note = f"\nNot listed: files below max_depth, such as those in {escape_name(deeper)}" if deeper else ""
    if not paths:
        return ToolResult(f"No files found in {path}{note}", details=details)
    names = "\n".join(map(escape_name, paths[:MAX_LISTED]))
    count = f"... ({total} files, showing first {MAX_LISTED})" if total > MAX_LISTED else f"({total} files)"
    return ToolResult(f"{names}\n\n{count}{note}", details=details)


def _render_matches(hits: list[str], pattern: str, partly: list[str]) -> ToolResult:
    details = {"matches": len(hits)}
    if not hits:
        text = f"No matches found for '{pattern}'"
        if "\n" in pattern or r"\n" in pattern:
            text += "\nEach line is searched alone, without its end."
        if partly:
            names = ", ".join(partly[:MAX_NAMED]) + ("..." if len(partly) > MAX_NAMED else "")
            text += f"\nNot searched in full, as it or one of its lines is too long: {names}"
        return ToolResult(text, details=details)
    count = f"... (showing first {MAX_MATCHES} matches)" if len(hits) >= MAX_MATCHES else f"({len(hits)} matches)"
    return ToolResult("\n".join([*hits, count]), details=details)


def compile_pattern(pattern: str, *, case_sensitive: bool) -> Callable[[str], bool]:
    """Compile a regular expression to a predicate that searches the first `MAX_LINE` characters of a line.

    The syntax is that of ripgrep: no look-around, no back references.

    Raises:
        Failed: The pattern is invalid or too large.
    """
    if len(pattern) > MAX_PATTERN:
        raise Failed(f"Search error: a pattern has {MAX_PATTERN} characters at most")
    matches = _compile(pattern if case_sensitive else f"(?i){pattern}", "Search error")
    return lambda line: matches(line[:MAX_LINE])


def compile_glob(glob: str) -> Callable[[str], bool]:
    """Compile a glob to a predicate of paths.

    `*.py` matches a file's name. With a `/` in it, such as `src/**/*.py`, a glob matches the whole path. `*` and `?`
    stop at a directory, `**/` matches any number of directories, `[a-z]` one of these characters, `{py,js}` one or the
    other. An empty glob, such as `.`, matches everything.

    Raises:
        Failed: The glob is invalid or too large.
    """
    if len(glob) > MAX_PATTERN:
        raise Failed(f"a glob has {MAX_PATTERN} characters at most")
    wanted = glob.removeprefix("./").lstrip("/")
    if wanted in ("", ".") or wanted.endswith("/"):
        wanted = wanted.removesuffix(".") + "**"
    if "/" not in glob:
        wanted = f"**/{wanted}"
    matches = _compile(f"(?s)^{_translate_glob(wanted)}$", f"{glob!r} is not a glob")
    return lambda path: matches(path.encode("utf-8", "replace").decode())


def _format_lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def _translate_glob(glob: str) -> str:
    return "".join(_translate_token(part) for part in _TOKEN.findall(glob))


def _translate_token(part: str) -> str:
    if part[0] == "*":
        if part == "*":
            return "[^/]*"
        return "(?:.*/)?" if part.endswith("/") else ".*"
    if part == "?":
        return "[^/]"
    if len(part) == 1:
        return re.escape(part)
    inner = part[1:-1]
    if part[0] == "{":
        return f"(?:{'|'.join(map(_translate_glob, inner.split(',')))})"
    is_negated = inner[:1] in ("!", "^")
    return f"[{'^' * is_negated}{re.escape(inner[is_negated:]).replace(chr(92) + '-', '-')}]"


def _compile(expression: str, label: str) -> Callable[[str], bool]:
    try:
        matches = _make_matcher(expression)
    except SchemaError as error:
        raise Failed(f"{label}: {str(error).partition('SchemaError: ')[2] or error}") from error
    try:
        _make_matcher(f"(?:{expression}){{{REPETITIONS}}}")
    except SchemaError as error:
        raise Failed(f"{label}: it is too large; search for less, or repeat less in it") from error
    return matches


def _make_matcher(expression: str) -> Callable[[str], bool]:
    schema = core_schema.str_schema(pattern=expression, regex_engine="rust-regex")
    return SchemaValidator(schema).isinstance_python


def clip_line(line: str) -> str:
    """Cut a line to the characters that are searched."""
    left = len(line) - MAX_LINE
    return line if left <= 0 else f"{line[:MAX_LINE]}... ({left} more characters)"
