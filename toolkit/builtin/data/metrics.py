"""Sums and the like, of groups of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from toolkit.builtin.arithmetic import whole
from toolkit.builtin.data.tables import Row, refuse_unknown
from toolkit.builtin.data.values import Number, key_of, number_of, order_of
from toolkit.errors import InvalidArguments


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
    return whole(sum(numbers) if all(isinstance(number, int) for number in numbers) else math.fsum(numbers))


_OPS: Mapping[str, Callable[[list[Number]], Number | None]] = MappingProxyType(
    {
        "sum": _sum,
        "avg": lambda numbers: whole(_sum(numbers) / len(numbers)) if numbers else None,
        "min": lambda numbers: min(numbers, default=None),
        "max": lambda numbers: max(numbers, default=None),
    }
)
