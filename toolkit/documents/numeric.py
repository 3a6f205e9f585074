"""Numbers as JSON means them: integers that stay integers, limits that are kept exactly."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

from pydantic_core import PydanticKnownError

# Keyword -> what a number must not be, and pydantic-core's name for it.
BOUNDS: Mapping[str, tuple[Callable[[Any, Any], bool], str, str]] = {
    "minimum": (operator.lt, "greater_than_equal", "ge"),
    "exclusiveMinimum": (operator.le, "greater_than", "gt"),
    "maximum": (operator.gt, "less_than_equal", "le"),
    "exclusiveMaximum": (operator.ge, "less_than", "lt"),
    "multipleOf": (lambda value, step: not is_multiple(value, step), "multiple_of", "multiple_of"),
}


def whole(value: Any) -> Any:
    """Take 3.0 as the integer it is, and no truth value as one."""
    if type(value) is bool:
        raise PydanticKnownError("int_type")
    return int(value) if type(value) is float and value.is_integer() else value


def number(value: Any, check: Callable[[Any], Any]) -> Any:
    """Keep an integer an integer; `check` reads the rest."""
    if type(value) is int or (type(value) is float and isfinite(value)):
        return value
    if type(value) is bool:
        raise PydanticKnownError("float_type")
    return check(value)


@dataclass(frozen=True)
class Bounds:
    """Checks a number against limits, exactly."""

    limits: Sequence[tuple[str, Any]]

    def check(self, value: Any) -> Any:
        """Give a number that keeps the limits."""
        for keyword, limit in self.limits:
            is_outside, kind, name = BOUNDS[keyword]
            if is_outside(value, limit):
                raise PydanticKnownError(kind, {name: limit})  # type: ignore[arg-type]
        return value


def is_multiple(value: float, step: float) -> bool:
    """Tell whether a number is a multiple of another, both as they are written: 0.3 is one of 0.1."""
    return (Fraction(repr(value)) / Fraction(repr(step))).denominator == 1
