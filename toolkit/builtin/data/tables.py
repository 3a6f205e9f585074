"""Records as a table: chosen, renamed, sorted, and cut to what a model may be shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from toolkit._schema.error_messages import MAX_NAME, close_to
from toolkit._tools.invocation import written
from toolkit.builtin.data.values import order_of
from toolkit.errors import InvalidArguments

Row: TypeAlias = dict[str, Any]

MAX_RECORDS = 1000
MAX_OUTPUT = 32 * 1024  # bytes of JSON
# What says that records were left out.
CUT = "truncated"


def transformed(
    rows: Sequence[Row], select: Sequence[str], rename: Mapping[str, str], sort: tuple[str, bool]
) -> list[Row]:
    """Sort rows, then choose and rename their columns.

    Args:
        rows: They are not changed.
        select: Columns to keep, by their old names; all where there is none.
        rename: New names by old ones.
        sort: A column, by its old name or its new one, and whether the largest comes first; not at all where it is "".

    Raises:
        InvalidArguments: No row has such a column, or two would have one name.
    """
    refuse_unknown("select", select, rows)
    refuse_unknown("rename", rename, rows)
    column, is_descending = sort
    if column:
        column = _old_name(column, rows, rename)
        refuse_unknown("sort_by", [column], rows)
        rows = _sorted(rows, column, is_descending=is_descending)
    return [_renamed({name: row[name] for name in (select or row) if name in row}, rename) for row in rows]


def refuse_unknown(parameter: str, columns: Iterable[str], rows: Sequence[Row]) -> None:
    """Refuse a column that none of the rows has.

    Raises:
        InvalidArguments: There is one; the message names those that there are.
    """
    known = {name: None for row in rows for name in row}
    missing = next((column for column in columns if column not in known), None)
    if rows and missing is not None:
        raise InvalidArguments(f"{parameter}: no record has a column {missing[:MAX_NAME]!r}{close_to(missing, known)}")


def fitting(name: str, rows: list[Row]) -> dict[str, Any]:
    """Make a result of rows: as many as a model may be shown, and the number of all."""
    return fitted({name: rows, "count": len(rows)}, name)


def fitted(result: dict[str, Any], name: str) -> dict[str, Any]:
    """Leave out the last rows of a result that is too long, and say how many of all that were counted are shown."""
    rows: list[Row] = result[name]
    sizes = [len(written(row).encode()) + 1 for row in rows]
    room = MAX_OUTPUT - len(written({**result, name: [], CUT: _cut(len(rows), result)}).encode())
    if room < 0:
        raise InvalidArguments(f"there are too many columns, or their names are too long, for {MAX_OUTPUT} bytes.")
    shown = 0
    while shown < len(rows) and (room := room - sizes[shown]) >= 0:
        shown += 1
    if shown == result["count"]:
        return result
    return {**result, name: rows[:shown], CUT: _cut(shown, result)}


def _cut(shown: int, result: Mapping[str, Any]) -> str:
    return f"The first {shown} of {result['count']} are shown: the rest is beyond the limit, or {MAX_OUTPUT} bytes."


def _old_name(column: str, rows: Sequence[Row], rename: Mapping[str, str]) -> str:
    """Find the column that is meant: one that is there, or one that will have this name."""
    if any(column in row for row in rows):
        return column
    return next((old for old, new in rename.items() if new == column), column)


def _sorted(rows: Sequence[Row], column: str, *, is_descending: bool) -> list[Row]:
    known = [row for row in rows if row.get(column) is not None]
    ordered = sorted(known, key=lambda row: order_of(row[column]), reverse=is_descending)
    return ordered + [row for row in rows if row.get(column) is None]


def _renamed(row: Row, rename: Mapping[str, str]) -> Row:
    named = {rename.get(name, name): value for name, value in row.items()}
    if len(named) < len(row):
        raise InvalidArguments("rename: two columns of a record would have one name.")
    return named
