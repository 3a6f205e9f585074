"""Small sample tools for examples and tests: `calculator`, `echo`, `reverser` and `word_count`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from toolkit._tools.decorator import tool
from toolkit.builtin.data import Number, to_integer
from toolkit.errors import ToolError

__all__ = ["calculator", "echo", "reverser", "word_count"]

MAX_OPERAND = 10**600  # Python can write the product of two smaller numbers
TOO_LARGE = "the result is too large"

OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
}

Operation = Annotated[str, Field(json_schema_extra={"enum": list(OPERATIONS)})]
Operand = Annotated[Number, WithJsonSchema({"type": "number"})]


@tool(title="Calculator", effect="read")
def calculator(operation: Operation, a: Operand, b: Operand) -> Number:
    """Add, subtract, multiply or divide two numbers.

    Args:
        operation: The operation.
        a: The first number.
        b: The second number.
    """
    function = OPERATIONS.get(operation)
    if function is None:
        raise ToolError(f"unknown operation: {operation[:100]}")
    if max(abs(a), abs(b)) >= MAX_OPERAND:
        raise ToolError(f"invalid numbers: a={a}, b={b}")

    try:
        result = function(a, b)
    except ArithmeticError as error:
        raise ToolError("division by zero" if isinstance(error, ZeroDivisionError) else TOO_LARGE) from error

    if not (isinstance(result, int) or math.isfinite(result)):
        raise ToolError(TOO_LARGE)
    return to_integer(result)


@tool(title="Echo", effect="read")
def echo(message: str) -> str:
    """Return a message unchanged.

    Args:
        message: The message.
    """
    return message


@tool(title="Reverser", effect="read")
def reverser(text: str) -> str:
    """Reverse a text.

    Args:
        text: The text to reverse.
    """
    return text[::-1]


@tool(title="Word Count", effect="read")
def word_count(text: str) -> int:
    """Count the words of a text, separated by white space.

    Args:
        text: The text.
    """
    return len(text.split())
