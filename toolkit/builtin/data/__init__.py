"""`data_parse`, `data_filter`, `data_aggregate`, `data_transform`: tables of a few hundred rows, without code."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Le, MaxLen, MinLen
from typing_extensions import TypedDict

from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.builtin.data.metrics import aggregated
from toolkit.builtin.data.parsing import PARSERS, format_of
from toolkit.builtin.data.tables import MAX_RECORDS, fitted, fitting, refuse_unknown, transformed
from toolkit.builtin.data.values import matcher

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
