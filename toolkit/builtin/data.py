"""`data_parse`, `data_filter`, `data_aggregate`, `data_transform`: tables of a few hundred rows, without code.

Values of a table, of whatever types: what is a number, what is equal, what comes first.

Records as a table: chosen, renamed, sorted, and cut to what a model may be shown.

Sums and the like, of groups of records.

Texts that hold records: CSV, JSON, JSON Lines.
"""

from __future__ import annotations

import csv
import io
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic_core import from_json
from typing_extensions import TypedDict

from toolkit._schema.error_messages import MAX_NAME, suggest
from toolkit._tools.decorator import tool
from toolkit._tools.invocation import write_value
from toolkit._tools.tool import Tool
from toolkit.builtin.arithmetic import to_integer
from toolkit.errors import Failed, InvalidArguments

Number: TypeAlias = int | float

# Python's float() takes more than tables mean by a number: nan, 1_000, digits of other scripts.
_NUMERAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
# Zip codes and the like, of which "0123" is another one than "123".
_CODE = re.compile(r"\s*[+-]?0\d", re.ASCII)
LONGEST = 400  # characters of a numeral
LARGEST = 1e300  # a thousand of them can be added up

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
)


def number_of(value: Any) -> Number | None:
    """Read a number, be it in a text; None of what is none, or beyond 1e300."""
    if isinstance(value, str):
        value = _numeral(value.strip())
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and abs(value) <= LARGEST else None


def key_of(value: Any) -> Any:
    """Make what is the same for equal values: numbers without leading zeros are equal as such, all else as text."""
    rank, key = order_of(value)
    if rank == 2:
        return None
    return value if isinstance(value, str) and _CODE.match(value) else key


def order_of(value: Any) -> tuple[int, Any]:
    """Make what values of all types can be sorted by: numbers, then texts, then nothing."""
    if value is None:
        return 2, ""
    number = number_of(value)
    return (1, write_value(value)) if number is None else (0, number)


def matcher(op: str, wanted: Any) -> Callable[[Any], bool]:
    """Make what tells whether a value is as wanted.

    Raises:
        InvalidArguments: `in` has no list.
    """
    if op == "contains":
        part = write_value(wanted).casefold()
        return lambda value: part in write_value(value).casefold()
    if op == "in":
        keys = _keys(wanted)
        return lambda value: key_of(value) in keys
    key = key_of(wanted)
    if op in ("==", "!="):
        return lambda value: (key_of(value) == key) is (op == "==")
    return lambda value: _is_ordered(_ORDERS[op], value, wanted)


def _is_ordered(compare: Callable[[Any, Any], bool], value: Any, wanted: Any) -> bool:
    """Compare two numbers or two texts; others come in no order."""
    (rank, left), (other, right) = order_of(value), order_of(wanted)
    return rank == other and rank != 2 and compare(left, right)


def _keys(wanted: Any) -> set[Any]:
    if not isinstance(wanted, list):
        raise InvalidArguments("where: op 'in' needs a list as value.")
    return {key_of(value) for value in wanted}


def _numeral(text: str) -> Number | None:
    if len(text) > LONGEST:
        return None
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMERAL.fullmatch(text) else None


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
        raise InvalidArguments(f"{parameter}: no record has a column {missing[:MAX_NAME]!r}{suggest(missing, known)}")


def fitting(name: str, rows: list[Row]) -> dict[str, Any]:
    """Make a result of rows: as many as a model may be shown, and the number of all."""
    return fitted({name: rows, "count": len(rows)}, name)


def fitted(result: dict[str, Any], name: str) -> dict[str, Any]:
    """Leave out the last rows of a result that is too long, and say how many of all that were counted are shown."""
    rows: list[Row] = result[name]
    sizes = [len(write_value(row).encode()) + 1 for row in rows]
    room = MAX_OUTPUT - len(write_value({**result, name: [], CUT: _cut(len(rows), result)}).encode())
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


def aggregated(rows: Sequence[Row], metrics: Sequence[tuple[str, str]], group_by: Sequence[str]) -> list[Row]:
    """Compute metrics of each group, sorted by what makes the groups; without that, of all rows.

    Args:
        rows: What is counted.
        metrics: Each an operation and a column; the result is called `op_column`.
        group_by: Columns whose values make a group.

    Raises:
        InvalidArguments: No row has such a column, or a metric would be called as one that makes the groups.
    """
    refuse_unknown("metrics", [column for op, column in metrics if op != "count"], rows)
    refuse_unknown("group_by", group_by, rows)
    if taken := {f"{op}_{column}" for op, column in metrics}.intersection(group_by):
        raise InvalidArguments(f"metrics: {min(taken)} is a column of group_by: rename that with data_transform first.")
    groups: dict[tuple[Any, ...], list[Row]] = {} if group_by else {(): list(rows)}
    for row in rows if group_by else ():
        groups.setdefault(tuple(key_of(row.get(name)) for name in group_by), []).append(row)
    members = sorted(groups.values(), key=lambda group: [order_of(group[0].get(name)) for name in group_by])
    return [_computed(group, metrics, group_by) for group in members]


def _computed(group: Sequence[Row], metrics: Sequence[tuple[str, str]], group_by: Sequence[str]) -> Row:
    named = {name: group[0].get(name) for name in group_by}
    return named | {f"{op}_{column}": _metric(group, op, column) for op, column in metrics}


def _metric(group: Sequence[Row], op: str, column: str) -> Number | None:
    if op == "count":
        return len(group)
    read = (number_of(row.get(column)) for row in group)
    return _OPS[op]([number for number in read if number is not None])


def _sum(numbers: Sequence[Number]) -> Number:
    """Add up: whole numbers exactly, others without losing the small ones."""
    return to_integer(sum(numbers) if all(isinstance(number, int) for number in numbers) else math.fsum(numbers))


_OPS: Mapping[str, Callable[[list[Number]], Number | None]] = MappingProxyType(
    {
        "sum": _sum,
        "avg": lambda numbers: to_integer(_sum(numbers) / len(numbers)) if numbers else None,
        "min": lambda numbers: min(numbers, default=None),
        "max": lambda numbers: max(numbers, default=None),
    }
)


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


__all__ = ["data_tools"]

Rows: TypeAlias = Annotated[list[dict[str, Any]], MaxLen(MAX_RECORDS)]
Names: TypeAlias = Annotated[list[str], MaxLen(50)]
Limit: TypeAlias = Annotated[int, Ge(1), Le(MAX_RECORDS)]


class Condition(TypedDict):
    """What a record's column must be."""

    column: str
    op: Literal["==", "!=", ">", "<", ">=", "<=", "contains", "in"]
    value: Any


class Metric(TypedDict):
    """What to compute of a column; it is called `op_column`, such as sum_price."""

    column: str
    op: Literal["sum", "count", "avg", "min", "max"]


def data_tools() -> list[Tool[..., Any]]:
    """Make `data_parse`, `data_filter`, `data_aggregate` and `data_transform`.

    They take 1000 records at most, and give 32 KiB of JSON at most: what does not fit is left out, and said so.
    """
    return [data_parse, data_filter, data_aggregate, data_transform]


@tool(title="Parse Data", effect="read")
def data_parse(
    content: Annotated[str, MinLen(1)],
    format: Literal["csv", "json", "jsonl"] | None = None,  # noqa: A002  the model's word for it
    limit: Limit = MAX_RECORDS,
) -> dict[str, Any]:
    """Parse CSV, JSON or JSON Lines into records, which data_filter, data_aggregate and data_transform take.

    Args:
        content: The text: CSV with a header, a JSON array of objects, or an object a line.
        format: What it is; told by its beginning by default.
        limit: How many records to give, at most.
    """
    table = PARSERS[format or format_of(content)](content, limit)
    return fitted({"records": table.rows, "columns": table.columns, "count": table.total, **table.notes}, "records")


@tool(title="Filter Data", effect="read")
def data_filter(records: Rows, where: Annotated[list[Condition], MinLen(1), MaxLen(20)]) -> dict[str, Any]:
    """Choose the records for which all conditions hold.

    Numbers are compared as numbers, also where they are texts; everything else as text. A number with leading zeros,
    such as a zip code, equals only the same text. `contains` looks for a part of the text, in small or capital letters;
    `in` takes a list of values. A record without the column is not chosen.

    Args:
        records: Records, as data_parse gives them.
        where: Conditions, all of which must hold.
    """
    refuse_unknown("where", [one["column"] for one in where], records)
    conditions = [(one["column"], matcher(one["op"], one["value"])) for one in where]
    chosen = [row for row in records if all(name in row and fits(row[name]) for name, fits in conditions)]
    return fitting("records", chosen)


@tool(title="Aggregate Data", effect="read")
def data_aggregate(
    records: Rows,
    metrics: Annotated[list[Metric], MinLen(1), MaxLen(50)],
    group_by: Names = [],  # noqa: B006  never changed
) -> dict[str, Any]:
    """Compute metrics of records, for each group or for all of them.

    Args:
        records: Records, as data_parse gives them.
        metrics: What to compute. Values that are no numbers, or beyond 1e300, are left out; count counts the
            records.
        group_by: Columns whose values make a group; all records are one group by default.
    """
    return fitting("groups", aggregated(records, [(one["op"], one["column"]) for one in metrics], group_by))


@tool(title="Transform Data", effect="read")
def data_transform(
    records: Rows,
    select: Names = [],  # noqa: B006  never changed
    rename: Annotated[dict[str, str], MaxLen(50)] = {},  # noqa: B006  as above
    sort_by: str = "",
    *,
    sort_desc: bool = False,
    limit: Limit | None = None,
) -> dict[str, Any]:
    """Sort records, choose and rename their columns, and cut them short.

    Args:
        records: Records, as data_parse gives them.
        select: Columns to keep, by their old names; all by default.
        rename: New names by old ones.
        sort_by: Column to sort by: numbers first, then texts, then records without a value.
        sort_desc: Whether the largest comes first.
        limit: How many records to give, at most.
    """
    return fitting("records", transformed(records, select, rename, (sort_by, sort_desc))[:limit])
