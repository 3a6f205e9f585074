"""Arithmetic in a text, evaluated within milliseconds, whatever the text is.

Python's parser reads it; what it may hold, and how large anything may become, is said here. Libraries for this were
measured with 9**3999999 and the like: simpleeval, asteval and numexpr all took seconds.

`calculator` and `calculate`: arithmetic, exact where numbers are whole.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from pydantic import Field, StringConstraints, WithJsonSchema

from toolkit._tools.decorator import tool
from toolkit.errors import ToolError

Number: TypeAlias = int | float

MAX_TEXT = 1000  # characters
# Python never refuses to write this many digits: the lowest limit that it can be given is 640.
MAX_DIGITS = 600
MAX_WHOLE = 10**MAX_DIGITS
MAX_FACTORIAL = 300
# A float above it may have lost digits in front of the point.
MAX_EXACT = 2**53

TOO_LARGE = f"the result is too large: whole numbers have at most {MAX_DIGITS} digits, others are below 1.8e308"
TOO_WIDE = "a whole number is too large to be used beside others, which are below 1.8e308"

# Numbers with a digit in front of a letter, such as 0x1f or 1if, are none here: the parser would warn of some.
_TOKEN = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])|[A-Za-z_]\w*|[-+*/%(), ]", re.ASCII)
_SIGNS = str.maketrans("×·÷−", "**/-")  # noqa: RUF001  as people write them

OPERATORS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
    }
)
CONSTANTS: Mapping[str, float] = MappingProxyType({"pi": math.pi, "e": math.e, "tau": math.tau})


def evaluate(text: str) -> Number:
    """Evaluate an expression as Python does: whole numbers exactly, others as IEEE doubles.

    A result that is whole is an int, where no digit can have been lost.

    Raises:
        ToolError: It is none, has no value, or has a value or a step that is too large; the text is for the model.
    """
    root, values = _parsed(text), dict[ast.expr, Number]()
    try:
        for node in reversed(list(_nodes(root))):  # what a node is made of comes before it
            values[node] = _bounded(_value(node, [values[part] for part in _parts(node)]))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise ToolError(_explained(error)) from error
    return whole(values[root])


def applied(function: Callable[..., Any], *values: Number) -> Number:
    """Apply an operator, with the same bounds.

    Raises:
        ToolError: As for `evaluate`.
    """
    try:
        return whole(_bounded(function(*values)))
    except ArithmeticError as error:
        raise ToolError(_explained(error)) from error


def whole(value: Number) -> Number:
    """Make an int of a float that is one."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < MAX_EXACT else value


def _parsed(text: str) -> ast.expr:
    text = " ".join(text.translate(_SIGNS).split())
    if len(text) > MAX_TEXT:
        raise ToolError(f"the expression is too long: it has {len(text)} characters, max {MAX_TEXT}")
    if rest := _TOKEN.sub("", text):
        raise ToolError(f"{rest[0]!r} is not understood. {_known()}")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError(f"{text[:100]!r} is no expression: {getattr(error, 'msg', '') or 'too deep'}") from error


def _nodes(root: ast.expr) -> Iterator[ast.expr]:
    """Give a node before what it is made of, without recursion."""
    left = [root]
    while left:
        node = left.pop()
        yield node
        left += _parts(node)


def _parts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    return node.args if isinstance(node, ast.Call) else []


def _value(node: ast.expr, values: list[Number]) -> Any:
    if isinstance(node, ast.BinOp):
        return (_power if isinstance(node.op, ast.Pow) else OPERATORS[type(node.op)])(*values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        return -values[0] if isinstance(node.op, ast.USub) else values[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _named(FUNCTIONS, node.func.id)(*values)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.Name):
        return _named(CONSTANTS, node.id)
    raise ToolError(f"this is more than arithmetic. {_known()}")


def _named(known: Mapping[str, Any], name: str) -> Any:
    if name not in known:
        raise ToolError(f"{name[:100]!r} is not understood. {_known()}")
    return known[name]


def _bounded(value: Any) -> Number:
    """Refuse what has grown too large, or is no real number."""
    if isinstance(value, complex):
        raise ToolError("the result is no real number")
    if isinstance(value, int) and abs(value) >= MAX_WHOLE:
        raise OverflowError
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError
    return value  # type: ignore[no-any-return]  # what is left is an int or a float


def _power(base: Number, exponent: Number) -> Any:
    if isinstance(base, int) and isinstance(exponent, int):
        least = (base.bit_length() - 1) * exponent  # bits of the result
        if least > MAX_WHOLE.bit_length():
            raise OverflowError
    return base**exponent


def _factorial(number: int) -> int:
    if isinstance(number, int) and number > MAX_FACTORIAL:
        raise OverflowError
    return math.factorial(number)


def _round(number: Number, digits: int = 0) -> Number:
    """Round as Python does; it would take 10 to the power of any number of digits."""
    return round(number, max(-MAX_DIGITS, min(digits, MAX_DIGITS)))


def _explained(error: Exception) -> str:
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    if isinstance(error, OverflowError):
        return TOO_WIDE if "convert" in str(error) else TOO_LARGE
    return f"this cannot be calculated: {error}"


def _known() -> str:
    names = ", ".join((*FUNCTIONS, *CONSTANTS))
    return f"There are numbers, + - * / // % **, parentheses and: {names}."


_MATH = (
    *("floor", "ceil", "sqrt", "exp", "log", "log2", "log10", "gcd", "lcm"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "hypot", "degrees", "radians"),
)
_OWN: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "round": _round,
    "min": lambda *numbers: min(numbers),
    "max": lambda *numbers: max(numbers),
    "factorial": _factorial,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {**_OWN, **{name: getattr(math, name) for name in _MATH}}
)


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
