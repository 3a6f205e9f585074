"""`calculator` and `calculate`: arithmetic, exact where numbers are whole."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field, StringConstraints, WithJsonSchema

from toolkit._tools.decorator import tool
from toolkit.builtin.arithmetic import MAX_TEXT, MAX_WHOLE, Number, applied, evaluate
from toolkit.errors import ToolError

OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv}
)

Operation = Annotated[str, Field(json_schema_extra={"enum": list(OPERATIONS)})]
Operand = Annotated[Number, WithJsonSchema({"type": "number"})]


@tool(title="Calculator", effect="read")
def calculator(operation: Operation, a: Operand, b: Operand) -> Number:
    """Add, subtract, multiply or divide two numbers.

    Args:
        operation: What to do with them.
        a: The first number.
        b: The second number.
    """
    function = OPERATIONS.get(operation)
    if function is None:
        raise ToolError(f"unknown operation: {operation[:100]}")
    if max(abs(a), abs(b)) >= MAX_WHOLE:
        raise ToolError(f"invalid numbers: a={_shown(a)}, b={_shown(b)}")
    return applied(function, a, b)


@tool(title="Calculate", effect="read")
def calculate(expression: Annotated[str, StringConstraints(max_length=MAX_TEXT)]) -> Number:
    """Evaluate an arithmetic expression, such as `(15 + 27) * 2 ** 10 / sqrt(2)`.

    Args:
        expression: Numbers, + - * / // % **, parentheses, pi, e, tau, and functions: abs, round, min, max, factorial,
            floor, ceil, sqrt, exp, log, log2, log10, gcd, lcm, sin, cos, tan, asin, acos, atan, atan2, hypot, degrees,
            radians. Angles are in radians.
    """
    return evaluate(expression)


def _shown(number: Number) -> str:
    return "too large" if abs(number) >= MAX_WHOLE else str(number)
