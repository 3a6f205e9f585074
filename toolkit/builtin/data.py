"""`data_parse`, `data_filter`, `data_aggregate`, `data_transform`: tables of a few hundred rows, without code.

Values are compared across types: a text that is a numeral counts as a number, anything else as text.
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

__all__ = ["data_tools"]

MAX_RECORDS = 1000

Number: TypeAlias = int | float
Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Annotated[list[dict[str, Any]], MaxLen(MAX_RECORDS)]
Names: TypeAlias = Annotated[list[str], MaxLen(50)]
Limit: TypeAlias = Annotated[int, Ge(1), Le(MAX_RECORDS)]
MAX_OUTPUT = 32 * 1024  # bytes of JSON
# The key of the note that records were left out.
CUT = "truncated"
MAX_COLUMNS = 200
# Delimiters of cells; the most frequent one of the header is used.
DELIMITERS = ",;\t|"
MAX_NUMERAL = 400  # characters of a numeral
MAX_NUMBER = 1e300  # a thousand of them can be added up
# Python's float() accepts more than tables mean by a number: nan, 1_000, digits of other scripts.
_NUMERAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
# Numerals with leading zeros, such as zip codes: "0123" differs from "123".
_CODE = re.compile(r"\s*[+-]?0\d", re.ASCII)
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
)


class Condition(TypedDict):
    """A condition on a column of a record."""

    column: str
    op: Literal["==", "!=", ">", "<", ">=", "<=", "contains", "in"]
    value: Any


class Metric(TypedDict):
    """A metric of a column; its result is called `op_column`, such as sum_price."""

    column: str
    op: Literal["sum", "count", "avg", "min", "max"]


def data_tools() -> list[Tool[..., Any]]:
    """Make `data_parse`, `data_filter`, `data_aggregate` and `data_transform`.

    They take at most 1000 records, and return at most 32 KiB of JSON; a note says how many records were left out.
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
        format: Its format; detected by default.
        limit: How many records to give, at most.
    """
    table = PARSERS[format or detect_format(content)](content, limit)
    return limit_result(
        {"records": table.rows, "columns": table.columns, "count": table.total, **table.notes}, "records"
    )


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
    check_columns("where", [one["column"] for one in where], records)
    conditions = [(one["column"], make_predicate(one["op"], one["value"])) for one in where]
    chosen = [row for row in records if all(name in row and fits(row[name]) for name, fits in conditions)]
    return limit_rows("records", chosen)


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
    return limit_rows("groups", aggregate(records, [(one["op"], one["column"]) for one in metrics], group_by))


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
    return limit_rows("records", transform(records, select, rename, (sort_by, sort_desc))[:limit])


@dataclass(frozen=True, kw_only=True)
class Table:
    """A parsed text.

    Attributes:
        rows: The first rows, up to the limit.
        columns: Names of the columns, in order of appearance.
        total: Number of all rows.
        notes: Further entries of the result.
    """

    rows: list[Row]
    columns: list[str]
    total: int
    notes: Mapping[str, Any] = field(default_factory=dict)


def detect_format(content: str) -> str:
    """Detect the format of a text by its first two lines."""
    lines_with_text = filter(None, map(str.strip, io.StringIO(content.lstrip("\ufeff"))))
    lines = list(islice(lines_with_text, 2))
    if not lines or lines[0][0] not in "[{":
        return "csv"
    return "jsonl" if len(lines) > 1 and all(line.startswith("{") for line in lines) else "json"


def parse_csv(content: str, limit: int) -> Table:
    """Parse CSV with a header; cells are texts, missing ones are empty.

    Raises:
        Failed: The text is not CSV.
    """
    content = content.lstrip("\ufeff\r\n")
    delimiter = max(DELIMITERS, key=content.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, skipinitialspace=True)
    lines = filter(None, reader)  # without empty ones
    try:
        columns = _name_columns(next(lines, []))
        rows = [_make_row(columns, line) for line in islice(lines, limit)]
        return Table(rows=rows, columns=columns, total=len(rows) + sum(1 for _ in lines))
    except csv.Error as error:
        raise Failed(f"csv parse error: {error}") from error


def _name_columns(header: Sequence[str]) -> list[str]:
    """Make the names of columns distinct, and name those without a name."""
    if len(header) > MAX_COLUMNS:
        raise Failed(f"csv parse error: {len(header)} columns, max {MAX_COLUMNS}")
    names: dict[str, None] = {}
    for position, name in enumerate(header, 1):
        unique = name.strip() or f"column_{position}"
        while unique in names:
            unique += f"_{position}"
        names[unique] = None
    return list(names)


def _make_row(columns: Sequence[str], cells: Sequence[str]) -> Row:
    return dict(zip(columns, (*islice(cells, len(columns)), *[""] * (len(columns) - len(cells)))))


def parse_json(content: str, limit: int) -> Table:
    """Parse a JSON array of objects, or one object.

    Raises:
        Failed: The text is neither.
    """
    try:
        data = from_json(content.lstrip("\ufeff"), allow_inf_nan=False)
    except ValueError as error:
        raise Failed(f"json parse error: {error}") from error
    rows = data if isinstance(data, list) else [data]
    if wrong := next((number for number, row in enumerate(rows, 1) if not isinstance(row, dict)), None):
        raise Failed(f"json parse error: record {wrong} is no object")
    return Table(rows=rows[:limit], columns=_list_columns(rows[:limit]), total=len(rows))


def parse_jsonl(content: str, limit: int) -> Table:
    """Parse JSON Lines; lines that are not objects are left out, and counted."""
    lines = filter(str.strip, io.StringIO(content.lstrip("\ufeff")))
    parsed = [_parse_object(line) for line in islice(lines, limit)]
    rows = [row for row in parsed if row is not None]
    notes = {"skipped": len(parsed) - len(rows)} if len(rows) < len(parsed) else {}
    return Table(rows=rows, columns=_list_columns(rows), total=len(rows) + sum(1 for _ in lines), notes=notes)


def _parse_object(line: str) -> Row | None:
    try:
        data = from_json(line, allow_inf_nan=False)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _list_columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


PARSERS: Mapping[str, Callable[[str, int], Table]] = MappingProxyType(
    {"csv": parse_csv, "json": parse_json, "jsonl": parse_jsonl}
)


def transform(
    rows: Sequence[Row], select: Sequence[str], rename: Mapping[str, str], sort: tuple[str, bool]
) -> list[Row]:
    """Sort rows, then choose and rename their columns.

    Args:
        rows: The rows, which are not changed.
        select: Columns to keep, by their old names; all if empty.
        rename: New names by old ones.
        sort: A column, by its old or new name, and whether the largest comes first; "" does not sort.

    Raises:
        InvalidArguments: No row has such a column, or two would have one name.
    """
    check_columns("select", select, rows)
    check_columns("rename", rename, rows)
    column, is_descending = sort
    if column:
        column = _find_column(column, rows, rename)
        check_columns("sort_by", [column], rows)
        rows = _sort(rows, column, is_descending=is_descending)
    return [_rename({name: row[name] for name in (select or row) if name in row}, rename) for row in rows]


def check_columns(parameter: str, columns: Iterable[str], rows: Sequence[Row]) -> None:
    """Check that some row has each column.

    Raises:
        InvalidArguments: A column is in no row; the message suggests a similar one.
    """
    known = {name: None for row in rows for name in row}
    missing = next((column for column in columns if column not in known), None)
    if rows and missing is not None:
        raise InvalidArguments(f"{parameter}: no record has a column {missing[:MAX_NAME]!r}{suggest(missing, known)}")


def _find_column(column: str, rows: Sequence[Row], rename: Mapping[str, str]) -> str:
    """Return the old name of a column, given its old or new one."""
    if any(column in row for row in rows):
        return column
    return next((old for old, new in rename.items() if new == column), column)


def _sort(rows: Sequence[Row], column: str, *, is_descending: bool) -> list[Row]:
    known = [row for row in rows if row.get(column) is not None]
    ordered = sorted(known, key=lambda row: make_sort_key(row[column]), reverse=is_descending)
    return ordered + [row for row in rows if row.get(column) is None]


def _rename(row: Row, rename: Mapping[str, str]) -> Row:
    named = {rename.get(name, name): value for name, value in row.items()}
    if len(named) < len(row):
        raise InvalidArguments("rename: two columns of a record would have one name.")
    return named


def aggregate(rows: Sequence[Row], metrics: Sequence[tuple[str, str]], group_by: Sequence[str]) -> list[Row]:
    """Compute metrics of each group, in order of the groups' values; without `group_by`, of all rows.

    Args:
        rows: The rows.
        metrics: Pairs of operation and column; a result is named `op_column`.
        group_by: Columns whose values make a group.

    Raises:
        InvalidArguments: No row has such a column, or a metric would have the name of a column of `group_by`.
    """
    check_columns("metrics", [column for op, column in metrics if op != "count"], rows)
    check_columns("group_by", group_by, rows)
    if taken := {f"{op}_{column}" for op, column in metrics}.intersection(group_by):
        raise InvalidArguments(f"metrics: {min(taken)} is a column of group_by: rename that with data_transform first.")
    groups: dict[tuple[Any, ...], list[Row]] = {} if group_by else {(): list(rows)}
    for row in rows if group_by else ():
        groups.setdefault(tuple(make_key(row.get(name)) for name in group_by), []).append(row)
    members = sorted(groups.values(), key=lambda group: [make_sort_key(group[0].get(name)) for name in group_by])
    return [_compute_group(group, metrics, group_by) for group in members]


def _compute_group(group: Sequence[Row], metrics: Sequence[tuple[str, str]], group_by: Sequence[str]) -> Row:
    named = {name: group[0].get(name) for name in group_by}
    return named | {f"{op}_{column}": _compute_metric(group, op, column) for op, column in metrics}


def _compute_metric(group: Sequence[Row], op: str, column: str) -> Number | None:
    if op == "count":
        return len(group)
    numbers = (parse_number(row.get(column)) for row in group)
    return _OPS[op]([number for number in numbers if number is not None])


def _sum(numbers: Sequence[Number]) -> Number:
    """Add up: integers exactly, others without loss of precision."""
    return to_integer(sum(numbers) if all(isinstance(number, int) for number in numbers) else math.fsum(numbers))


_OPS: Mapping[str, Callable[[list[Number]], Number | None]] = MappingProxyType(
    {
        "sum": _sum,
        "avg": lambda numbers: to_integer(_sum(numbers) / len(numbers)) if numbers else None,
        "min": lambda numbers: min(numbers, default=None),
        "max": lambda numbers: max(numbers, default=None),
    }
)


def limit_rows(name: str, rows: list[Row]) -> dict[str, Any]:
    """Make a result of as many rows as fit, and the number of all."""
    return limit_result({name: rows, "count": len(rows)}, name)


def limit_result(result: dict[str, Any], name: str) -> dict[str, Any]:
    """Cut the last rows of a result that is too long, and add a note of how many are left."""
    rows: list[Row] = result[name]
    sizes = [len(write_value(row).encode()) + 1 for row in rows]
    room = MAX_OUTPUT - len(write_value({**result, name: [], CUT: _describe_cut(len(rows), result)}).encode())
    if room < 0:
        raise InvalidArguments(f"there are too many columns, or their names are too long, for {MAX_OUTPUT} bytes.")
    count = 0
    while count < len(rows) and (room := room - sizes[count]) >= 0:
        count += 1
    if count == result["count"]:
        return result
    return {**result, name: rows[:count], CUT: _describe_cut(count, result)}


def _describe_cut(count: int, result: Mapping[str, Any]) -> str:
    return f"The first {count} of {result['count']} are shown: the rest is beyond the limit, or {MAX_OUTPUT} bytes."


def make_predicate(op: str, wanted: Any) -> Callable[[Any], bool]:
    """Return a predicate of values for an operator and an operand.

    Raises:
        InvalidArguments: The operand of `in` is not a list.
    """
    if op == "contains":
        part = write_value(wanted).casefold()
        return lambda value: part in write_value(value).casefold()
    if op == "in":
        keys = _make_keys(wanted)
        return lambda value: make_key(value) in keys
    key = make_key(wanted)
    if op in ("==", "!="):
        return lambda value: (make_key(value) == key) is (op == "==")
    return lambda value: _compare(_ORDERS[op], value, wanted)


def _compare(compare: Callable[[Any, Any], bool], value: Any, wanted: Any) -> bool:
    """Compare two numbers or two texts; other pairs have no order."""
    (rank, left), (other, right) = make_sort_key(value), make_sort_key(wanted)
    return rank == other and rank != 2 and compare(left, right)


def _make_keys(wanted: Any) -> set[Any]:
    if not isinstance(wanted, list):
        raise InvalidArguments("where: op 'in' needs a list as value.")
    return {make_key(value) for value in wanted}


def make_key(value: Any) -> Any:
    """Return a key that equal values share: numbers without leading zeros compare as numbers, the rest as text."""
    rank, key = make_sort_key(value)
    if rank == 2:
        return None
    return value if isinstance(value, str) and _CODE.match(value) else key


def make_sort_key(value: Any) -> tuple[int, Any]:
    """Return a sort key for values of all types: numbers, then texts, then None."""
    if value is None:
        return 2, ""
    number = parse_number(value)
    return (1, write_value(value)) if number is None else (0, number)


def parse_number(value: Any) -> Number | None:
    """Return a number, or the number in a text; None for anything else, and beyond 1e300."""
    if isinstance(value, str):
        value = _parse_numeral(value.strip())
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and abs(value) <= MAX_NUMBER else None


def _parse_numeral(text: str) -> Number | None:
    if len(text) > MAX_NUMERAL:
        return None
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMERAL.fullmatch(text) else None
