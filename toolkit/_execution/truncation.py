"""Truncation of results that are too long for a conversation: shortened for the model, and stored for reading on.

    too long -> beginning, a note with size and handle, end -> result_read(handle, offset=...) or (handle, query=...)
    table    -> first rows, the same note, last rows        -> result_read(handle, offset=row, columns=[...])
    array    -> like a table, by characters                 -> result_read(handle, offset=...)
    a dict or list with a table in it: like an array

A handle is a hash of the text, so that one of an earlier run never stands for another text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

from toolkit._messages import ToolResult
from toolkit._tools.decorator import tool
from toolkit._tools.library_values import holds_table, is_table, write_rows, write_table
from toolkit._tools.tool import Tool
from toolkit.errors import Failed

# The most characters of one result that a model reads, unless its tool or the runner sets another number.
MAX_RESULT = 100_000
# The same for a table or array, since a model rarely needs each row.
MAX_TABLE = 6_000
# The most that one run stores of truncated results; the oldest are removed first.
MAX_BYTES = 10 * 2**20
# The most characters that `result_read` returns at once, about 5,000 tokens.
PAGE = 20_000
# The most characters of the line with which it begins.
MAX_HEAD = 200
# The tool that a run adds with the first handle.
RESULT_READ = "result_read"
# Characters on each side of a match, in a line that is too long.
AROUND = 200


@dataclass(eq=False, repr=False)
class ResultStore:
    """Stores the whole texts of the results that one run truncated, and lets the model read them.

    Attributes:
        limit: Characters that `result_read` may return at once.
    """

    limit: int = MAX_RESULT
    _results: dict[str, tuple[str, Any]] = field(default_factory=dict, init=False)  # texts and tables, by handle
    _bytes: int = field(default=0, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    @property
    def _room(self) -> int:
        """Characters of a page, without its first line."""
        page = min(self.limit, PAGE)
        return max(page - MAX_HEAD, page // 2)

    @property
    def is_used(self) -> bool:
        """True if there is something to read, so that the run needs the tool."""
        return bool(self._results)

    def store(self, text: str, table: Any = None) -> str:
        """Store a text, and the table that it shows. Return the handle, or "" if the text is longer than the store."""
        import hashlib  # it takes longer to load than all of this, and few results are so long

        content = text.encode("utf-8", "replace")
        if len(content) > MAX_BYTES:
            return ""

        handle = hashlib.sha256(content).hexdigest()[:12]
        with self._lock:
            if handle not in self._results:
                self._bytes += len(content)
            if handle not in self._results or table is not None:
                self._results[handle] = text, table
            while self._bytes > MAX_BYTES:
                oldest, _ = self._results.pop(next(iter(self._results)))
                self._bytes -= len(oldest.encode("utf-8", "replace"))

        return handle

    @tool(effect="read")
    def result_read(
        self, handle: str, offset: int = 0, query: str | None = None, columns: list[str] | None = None
    ) -> ToolResult:
        """Read on in a result that was too long to be shown whole.

        Args:
            handle: The handle that the shortened result names.
            offset: Where to begin, in characters, or in rows of a table; a negative one counts from the end.
            query: Show only lines that contain this text, with their numbers; upper and lower case are the same. The
                offset then counts characters.
            columns: Of a table, show only these columns.
        """
        stored = self._results.get(handle)
        if stored is None:
            raise Failed(f"No result {handle[:50]!r} is kept here. Repeat the call that gave it.")
        text, table = stored
        if query:
            shown = _search_lines(text, query, _count_from_start(offset, len(text)), self._room)
        elif table is not None:
            shown = _show_rows(table, offset, columns, self._room)
        else:
            shown = _cut_page(text, _count_from_start(offset, len(text)), self._room)
        return ToolResult(shown, shown)

    @cached_property
    def tool(self) -> Tool[..., Any]:
        """The tool `result_read`."""
        bound: Tool[..., Any] = self.result_read
        return bound


def truncate(result: ToolResult, limit: int = MAX_RESULT, overflow: ResultStore | None = None) -> ToolResult:
    """Shorten the text of a result to about `limit` characters: beginning and end stay, with a note between them.

    A result that is short enough is returned itself. The value for Python stays whole. At least half of `limit` is the
    result's own text, however long the note is.

    Args:
        result: The result of a call.
        limit: The most characters, but for the note.
        overflow: Stores the whole text; without it, or if it is full, the model cannot read on.
    """
    text = result.text
    table = None
    if len(text) > min(limit, MAX_TABLE):
        # A hook may have left something out of the text.
        table = result.value if is_table(result.value) and text == write_table(result.value) else None
        if holds_table(result.value):
            limit = min(limit, MAX_TABLE)

    if len(text) <= limit:
        return result

    note = _build_note(text, overflow.store(text, table) if overflow else "", is_table=table is not None)
    room = max(limit - len(note), limit // 2)
    head = text[: room - room // 3]
    tail = text[len(text) - room // 3 :]

    # Half a number would be another number, so an incomplete line goes, too, if it is short.
    spare = min(AROUND, (room - limit // 2) // 2)
    head = head[: head.rfind("\n", len(head) - spare) + 1] or head
    tail = tail[tail.find("\n", 0, spare) + 1 :]
    return result.replace(text=f"{head}{note}{tail}")


def _build_note(text: str, handle: str, *, is_table: bool) -> str:
    ways = "offset=row, columns=[...]" if is_table else "offset=..."
    way = f'Read on with result_read(handle="{handle}", {ways} or query="...").' if handle else "Ask for less."
    return f"\n\n[... The whole result has {len(text):,} characters; its middle is left out here. {way} ...]\n\n"


def _count_from_start(offset: int, length: int) -> int:
    return min(offset, length) if offset >= 0 else max(length + offset, 0)


def _show_rows(table: Any, offset: int, columns: list[str] | None, room: int) -> str:
    rows = table.shape[0]
    start = _count_from_start(offset, rows)
    try:
        text, end = write_rows(table, start, columns, room)
    except KeyError as error:
        raise Failed(f"The table has no column {str(error.args[0])[:50]!r}: its first line has their names.") from None
    more = f" Read on with offset={end}." if end < rows else ""
    if len(text) > room:
        more = f" Only {room:,} of the row's {len(text):,} characters are shown: choose columns=[...].{more}"
    return f"[Rows {start:,} to {end:,} of {rows:,}.{more}]\n{text[:room]}"


def _cut_page(text: str, start: int, room: int) -> str:
    end = min(start + room, len(text))
    more = f" Read on with offset={end}." if end < len(text) else ""
    return f"[Characters {start:,} to {end:,} of {len(text):,}.{more}]\n{text[start:end]}"


def _search_lines(text: str, query: str, start: int, room: int) -> str:
    lines: list[str] = []
    for offset, line in _iter_matches(text, query, start):
        room -= len(line) + 1
        if room < 0 and lines:
            return "\n".join([*lines, f"[There are more: read on with offset={offset} and the same query.]"])
        lines.append(line)
    return "\n".join(lines) or f"[No line from character {start:,} on contains {query[:100]!r}.]"


def _iter_matches(text: str, query: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield offset and text of each line that contains the query. Of a long line, yield only the part around it."""
    number = 1
    counted = 0
    end = start

    for match in re.compile(re.escape(query), re.IGNORECASE).finditer(text, start):
        if match.start() < end:  # in the text of the one before
            continue
        number += text.count("\n", counted, match.start())
        counted = match.start()
        begin = max(text.rfind("\n", 0, counted) + 1, counted - AROUND)
        newline = text.find("\n", match.end(), match.end() + AROUND)
        end = newline if newline >= 0 else min(match.end() + AROUND, len(text))
        yield counted, f"Line {number}, offset {counted}: {text[begin:end]}"
