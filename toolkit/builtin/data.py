"""`data_parse`, `data_filter`, `data_aggregate`, `data_transform`: tables of a few hundred rows, without code.

Values are compared across types: a text that is a numeral counts as a number, anything else as text.
"""

from __future__ import annotations

import csv
import io
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, repeat
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic_core import from_json
from typing_extensions import TypedDict

from toolkit._options import is_number
from toolkit._schema.error_messages import MAX_NAME, suggest
from toolkit._tools.decorator import tool
from toolkit._tools.results import write_value
from toolkit._tools.tool import Tool
from toolkit.errors import Failed, InvalidArguments

MAX_RECORDS = 1000

Number: TypeAlias = int | float
Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Annotated[list[dict[str, Any]], MaxLen(MAX_RECORDS)]
Names: TypeAlias = Annotated[list[str], MaxLen(50)]
Limit: TypeAlias = Annotated[int, Ge(1), Le(MAX_RECORDS)]
MAX_OUTPUT = 32 * 1024  # bytes of JSON
CUT = "truncated"  # the key of the note that records were left out
# Delimiters of cells; the most frequent one in the header is used.
DELIMITERS = ",;\t|"
MAX_NUMERAL = 400  # characters of a numeral
MAX_NUMBER = 1e300  # the sum of a thousand of them is finite
MAX_EXACT = 2**53  # floats above it are not exact
# Python's float() accepts more than numbers in tables: nan, 1_000, digits of other scripts.
_NUMERAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
# Numerals with leading zeros, such as zip codes: "0123" differs from "123".
_CODE = re.compile(r"\s*[+-]?0\d", re.ASCII)
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


class Condition(TypedDict):
    """A condition on a column of a record."""

    column: str
    op: Literal["==", "!=", ">", "<", ">=", "<=", "contains", "in"]
    value: Any


class Metric(TypedDict):
    """A metric of a column. Its result is called `op_column`, such as sum_price."""

    column: str
    op: Literal["sum", "count", "avg", "min", "max"]


def data_tools() -> list[Tool[..., Any]]:
    """Make `data_parse`, `data_filter`, `data_aggregate` and `data_transform`.

    They take at most 1000 records, and return at most 32 KiB of JSON. A note says how many records were left out.
    """
    return [data_parse, data_filter, data_aggregate, data_transform]


@tool(title="Parse Data", effect="read")
def data_parse(
    content: Annotated[str, MinLen(1)],
    format: Literal["csv", "json", "jsonl"] | None = None,  # noqa: A002  a name that the model sees
    limit: Limit = MAX_RECORDS,
) -> dict[str, Any]:
    """Parse CSV, JSON or JSON Lines into records, which data_filter, data_aggregate and data_transform take.

    Args:
        content: The text: CSV with a header, a JSON array of objects, or one object per line.
        format: Its format; detected by default.
        limit: Maximum number of records.
    """
    content = content.removeprefix("\ufeff")
    parsed = PARSERS[format or detect_format(content)](content)
    rows = list(islice(parsed, limit))
    return limit_rows("records", rows, len(rows) + sum(1 for _ in parsed), columns=_list_columns(rows))


@tool(title="Filter Data", effect="read")
def data_filter(records: Rows, where: Annotated[list[Condition], MinLen(1), MaxLen(20)]) -> dict[str, Any]:
    """Filter records by conditions.

    Numbers are compared as numbers, also if they are texts; everything else as text. A number with leading zeros,
    such as a zip code, equals only the same text. `contains` looks for a part of the text, in upper or lower case;
    `in` takes a list of values. Records without the column are left out.

    Args:
        records: Records, as data_parse returns them.
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
        records: Records, as data_parse returns them.
        metrics: The metrics. Values that are not numbers, or beyond 1e300, are left out, and left_out says of how
            many of a column; count counts the records.
        group_by: Columns whose values make a group; all records are one group by default.
    """
    check_columns("metrics", [one["column"] for one in metrics if one["op"] != "count"], records)
    check_columns("group_by", group_by, records)
    names = [f"{one['op']}_{one['column']}" for one in metrics]
    if taken := {*names}.intersection(group_by):
        raise InvalidArguments(f"metrics: {min(taken)} is a column of group_by: rename that with data_transform first.")

    groups: dict[tuple[Any, ...], list[Row]] = {} if group_by else {(): records}
    for row in records if group_by else ():
        groups.setdefault(tuple(make_key(row.get(name)) for name in group_by), []).append(row)
    members = sorted(groups.values(), key=lambda group: [make_sort_key(group[0].get(name)) for name in group_by])
    rows = [
        {name: group[0].get(name) for name in group_by}
        | {name: compute_metric(group, one) for name, one in zip(names, metrics)}
        for group in members
    ]
    left_out = count_left_out(records, [one["column"] for one in metrics if one["op"] != "count"])
    more: dict[str, Any] = {"left_out": left_out} if left_out else {}
    return limit_rows("groups", rows, **more)


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
    """Sort and limit records, and select and rename their columns.

    Args:
        records: Records, as data_parse returns them.
        select: Columns to select, by their old names; all by default.
        rename: New names by old ones.
        sort_by: Column to sort by, by its old name: numbers first, then texts, then records without a value.
        sort_desc: Whether the largest comes first.
        limit: Maximum number of records.
    """
    check_columns("select", select, records)
    check_columns("rename", rename, records)
    rows: list[Row] = records
    if sort_by:
        check_columns("sort_by", [sort_by], rows)
        known = [row for row in rows if row.get(sort_by) is not None]
        known.sort(key=lambda row: make_sort_key(row[sort_by]), reverse=sort_desc)
        rows = known + [row for row in rows if row.get(sort_by) is None]

    selected = [{name: row[name] for name in (select or row) if name in row} for row in rows]
    renamed = [{rename.get(name, name): value for name, value in row.items()} for row in selected]
    if list(map(len, renamed)) != list(map(len, selected)):
        raise InvalidArguments("rename: two columns of a record would have the same name.")
    return limit_rows("records", renamed[:limit])


def detect_format(content: str) -> str:
    """Detect the format of a text by its first two lines."""
    lines = list(islice(filter(None, map(str.strip, io.StringIO(content))), 2))
    if not lines or lines[0][0] not in "[{":
        return "csv"
    return "jsonl" if len(lines) > 1 and all(line.startswith("{") for line in lines) else "json"


def parse_csv(content: str) -> Iterator[Row]:
    """Parse CSV with a header. Cells are texts. Missing cells are empty, and cells without a column are left out.

    Raises:
        Failed: The text is not CSV, or two columns have the same name.
    """
    content = content.lstrip("\r\n")
    delimiter = max(DELIMITERS, key=content.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        if len({*names}) < len(names):
            raise Failed("csv parse error: two columns have the same name, or none")
        for cells in filter(None, reader):
            yield dict(zip(names, chain(cells, repeat(""))))
    except csv.Error as error:
        raise Failed(f"csv parse error: {error}") from error


def parse_json(content: str) -> Iterator[Row]:
    """Parse a JSON array of objects, or one object.

    Raises:
        Failed: The text is neither.
    """
    data = _parse_value(content)
    yield from _require_objects(data if isinstance(data, list) else [data])


def parse_jsonl(content: str) -> Iterator[Row]:
    """Parse JSON Lines.

    Raises:
        Failed: A line is not an object.
    """
    lines = enumerate(filter(str.strip, io.StringIO(content)), 1)
    yield from _require_objects(_parse_value(line, f"record {number}: ") for number, line in lines)


def _parse_value(text: str, place: str = "") -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise Failed(f"json parse error: {place}{error}") from error


def _require_objects(values: Iterable[Any]) -> Iterator[Row]:
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict):
            raise Failed(f"json parse error: record {number} is not an object")
        yield value


PARSERS: Mapping[str, Callable[[str], Iterator[Row]]] = {"csv": parse_csv, "json": parse_json, "jsonl": parse_jsonl}


def _list_columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def check_columns(parameter: str, columns: Iterable[str], rows: Sequence[Row]) -> None:
    """Check that some row has each column.

    Raises:
        InvalidArguments: A column is in no row; the message suggests a similar one.
    """
    known = _list_columns(rows)
    missing = next((column for column in columns if column not in known), None)
    if rows and missing is not None:
        raise InvalidArguments(f"{parameter}: no record has a column {missing[:MAX_NAME]!r}{suggest(missing, known)}")


def compute_metric(group: Sequence[Row], metric: Metric) -> Number | None:
    """Compute a metric of some rows. Return None if they have no number."""
    op = metric["op"]
    if op == "count":
        return len(group)

    values = (parse_number(row.get(metric["column"])) for row in group)
    numbers = [number for number in values if number is not None]
    if op == "min" or op == "max":
        return (min if op == "min" else max)(numbers, default=None)

    is_exact = all(isinstance(number, int) for number in numbers)
    total = to_integer(sum(numbers) if is_exact else math.fsum(numbers))
    if op == "sum":
        return total
    return to_integer(total / len(numbers)) if numbers else None


def count_left_out(rows: Sequence[Row], columns: Iterable[str]) -> dict[str, int]:
    """Count the values of each column that are neither numbers nor blank, such as "1,000"."""
    pairs = [(column, row.get(column)) for column in dict.fromkeys(columns) for row in rows]
    others = ((column, value) for column, value in pairs if value is not None and parse_number(value) is None)
    return dict(Counter(column for column, value in others if not isinstance(value, str) or value.strip()))


def to_integer(value: Number) -> Number:
    """Convert an integral float to an int, if it is exact."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < MAX_EXACT else value


def limit_rows(name: str, rows: list[Row], total: int | None = None, **more: Any) -> dict[str, Any]:
    """Make a result of as many rows as fit, with the number of all rows, and a note if some are left out."""
    count = len(rows) if total is None else total
    result = {name: rows, **more, "count": count}
    sizes = [len(write_value(row).encode()) + 1 for row in rows]
    room = MAX_OUTPUT - len(write_value({**result, name: [], CUT: _describe_cut(count, count)}).encode())
    if room < 0:
        raise InvalidArguments(f"there are too many columns, or their names are too long, for {MAX_OUTPUT} bytes.")
    fitting = sum(1 for size in accumulate(sizes) if size <= room)
    return result if fitting == count else {**result, name: rows[:fitting], CUT: _describe_cut(fitting, count)}


def _describe_cut(fitting: int, count: int) -> str:
    return f"The first {fitting} of {count} are shown: the rest is beyond the limit, or {MAX_OUTPUT} bytes."


def make_predicate(op: str, wanted: Any) -> Callable[[Any], bool]:
    """Return a predicate of values for an operator and an operand.

    Raises:
        InvalidArguments: The operand of `in` is not a list.
    """
    if op == "contains":
        part = write_value(wanted).casefold()
        return lambda value: part in write_value(value).casefold()
    if op == "in":
        if not isinstance(wanted, list):
            raise InvalidArguments("where: op 'in' needs a list as value.")
        keys = {make_key(each) for each in wanted}
        return lambda value: make_key(value) in keys

    key = make_key(wanted)
    if op in ("==", "!="):
        return lambda value: (make_key(value) == key) is (op == "==")
    return lambda value: _compare(_ORDERS[op], value, wanted)


def _compare(compare: Callable[[Any, Any], bool], value: Any, wanted: Any) -> bool:
    """Compare two numbers or two texts. Other pairs have no order."""
    rank, left = make_sort_key(value)
    other, right = make_sort_key(wanted)
    return rank == other and rank != 2 and compare(left, right)


def make_key(value: Any) -> Any:
    """Return a key that equal values share: numbers without leading zeros compare as numbers, the rest as text."""
    _, key = make_sort_key(value)
    return value if isinstance(value, str) and _CODE.match(value) else key


def make_sort_key(value: Any) -> tuple[int, Any]:
    """Return a sort key for values of all types: numbers, then texts, then None."""
    if value is None:
        return 2, None
    number = parse_number(value)
    return (1, write_value(value)) if number is None else (0, number)


def parse_number(value: Any) -> Number | None:
    """Return a number, or the number in a text, or None for anything else, and beyond 1e300."""
    if isinstance(value, str):
        value = _parse_numeral(value.strip())
    return value if is_number(value) and abs(value) <= MAX_NUMBER else None


def _parse_numeral(text: str) -> Number | None:
    if len(text) > MAX_NUMERAL:
        return None
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMERAL.fullmatch(text) else None
