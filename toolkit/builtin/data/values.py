"""Values of a table, of whatever types: what is a number, what is equal, what comes first."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from toolkit._tools.invocation import written
from toolkit.errors import InvalidArguments

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
    return (1, written(value)) if number is None else (0, number)


def matcher(op: str, wanted: Any) -> Callable[[Any], bool]:
    """Make what tells whether a value is as wanted.

    Raises:
        InvalidArguments: `in` has no list.
    """
    if op == "contains":
        part = written(wanted).casefold()
        return lambda value: part in written(value).casefold()
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
