"""Texts that hold records: CSV, JSON, JSON Lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any

from pydantic_core import from_json

from toolkit.builtin.data.tables import Row
from toolkit.errors import Failed

MAX_COLUMNS = 200
# What parts the cells; the one that the header has most of.
DELIMITERS = ",;\t|"


@dataclass(frozen=True, kw_only=True)
class Table:
    """What a text holds.

    Attributes:
        rows: Up to as many as were asked for.
        columns: Their names, in the order in which they come.
        total: How many rows there are.
        notes: What else a model should know.
    """

    rows: list[Row]
    columns: list[str]
    total: int
    notes: Mapping[str, Any] = field(default_factory=dict)


def format_of(content: str) -> str:
    """Tell by its beginning what a text is."""
    written = filter(None, map(str.strip, io.StringIO(content.lstrip("\ufeff"))))
    lines = list(islice(written, 2))
    if not lines or lines[0][0] not in "[{":
        return "csv"
    return "jsonl" if len(lines) > 1 and all(line.startswith("{") for line in lines) else "json"


def csv_table(content: str, limit: int) -> Table:
    """Read CSV with a header; cells are texts, and those that a row lacks are empty.

    Raises:
        Failed: It is no CSV; the text is for the model.
    """
    content = content.lstrip("\ufeff\r\n")
    delimiter = max(DELIMITERS, key=content.partition("\n")[0].count)
    read = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, skipinitialspace=True)
    lines = filter(None, read)  # without empty ones
    try:
        columns = _unique(next(lines, []))
        rows = [_row(columns, line) for line in islice(lines, limit)]
        return Table(rows=rows, columns=columns, total=len(rows) + sum(1 for _ in lines))
    except csv.Error as error:
        raise Failed(f"csv parse error: {error}") from error


def json_table(content: str, limit: int) -> Table:
    """Read a JSON array of objects, or one object.

    Raises:
        Failed: It is none; the text is for the model.
    """
    try:
        found = from_json(content.lstrip("\ufeff"), allow_inf_nan=False)
    except ValueError as error:
        raise Failed(f"json parse error: {error}") from error
    rows = found if isinstance(found, list) else [found]
    if wrong := next((number for number, row in enumerate(rows, 1) if not isinstance(row, dict)), None):
        raise Failed(f"json parse error: record {wrong} is no object")
    return Table(rows=rows[:limit], columns=_columns(rows[:limit]), total=len(rows))


def jsonl_table(content: str, limit: int) -> Table:
    """Read JSON Lines; a line that is no object is left out, and counted."""
    lines = filter(str.strip, io.StringIO(content.lstrip("\ufeff")))
    read = [_object(line) for line in islice(lines, limit)]
    rows = [row for row in read if row is not None]
    notes = {"skipped": len(read) - len(rows)} if len(rows) < len(read) else {}
    return Table(rows=rows, columns=_columns(rows), total=len(rows) + sum(1 for _ in lines), notes=notes)


PARSERS: Mapping[str, Callable[[str, int], Table]] = MappingProxyType(
    {"csv": csv_table, "json": json_table, "jsonl": jsonl_table}
)


def _object(line: str) -> Row | None:
    try:
        found = from_json(line, allow_inf_nan=False)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _unique(header: Sequence[str]) -> list[str]:
    """Name columns of one name, or of none, apart."""
    if len(header) > MAX_COLUMNS:
        raise Failed(f"csv parse error: {len(header)} columns, max {MAX_COLUMNS}")
    names: dict[str, None] = {}
    for position, name in enumerate(header, 1):
        plain = name.strip() or f"column_{position}"
        while plain in names:
            plain += f"_{position}"
        names[plain] = None
    return list(names)


def _row(columns: Sequence[str], cells: Sequence[str]) -> Row:
    return dict(zip(columns, (*islice(cells, len(columns)), *[""] * (len(columns) - len(cells)))))
