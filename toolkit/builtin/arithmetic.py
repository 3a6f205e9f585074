"""`calculate`: arithmetic in a text, exact for integers, and evaluated within milliseconds.

Python's parser reads the text; this module limits the syntax, and the size of every intermediate value. Libraries for
this were measured with 9**3999999 and the like: simpleeval, asteval and numexpr all took seconds.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import StringConstraints

from toolkit._tools.decorator import tool
from toolkit.errors import ToolError

Number: TypeAlias = int | float

MAX_TEXT = 1000  # characters
# Python always converts this many digits to text: the lowest limit that a user can set is 640.
MAX_DIGITS = 600
MAX_WHOLE = 10**MAX_DIGITS
MAX_FACTORIAL = 300
# Floats above it are not exact.
MAX_EXACT = 2**53

TOO_LARGE = f"the result is too large: whole numbers have at most {MAX_DIGITS} digits, others are below 1.8e308"
TOO_WIDE = "a whole number is too large to be used beside others, which are below 1.8e308"

# A number directly before a letter, such as 0x1f or 1if, is not matched: the parser would warn of some.
_TOKEN = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])|[A-Za-z_]\w*|[-+*/%(), ]", re.ASCII)
_SIGNS = str.maketrans("×·÷−", "**/-")  # noqa: RUF001  signs that people write

OPERATORS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e, "tau": math.tau}


@tool(title="Calculate", effect="read")
def calculate(expression: Annotated[str, StringConstraints(max_length=MAX_TEXT)]) -> Number:
    """Evaluate an arithmetic expression, such as `(15 + 27) * 2 ** 10 / sqrt(2)`.

    Args:
        expression: Numbers, + - * / // % **, parentheses, pi, e, tau, and functions: abs, round, min, max, factorial,
            floor, ceil, sqrt, exp, log, log2, log10, gcd, lcm, sin, cos, tan, asin, acos, atan, atan2, hypot, degrees,
            radians. Angles are in radians.
    """
    root = _parse_expression(expression)
    try:
        return to_integer(_compute_node(root))
    except RecursionError:
        raise ToolError(f"{expression[:100]!r} is not an expression: too deep") from None
    except (ArithmeticError, ValueError, TypeError) as error:
        raise ToolError(_explain_error(error)) from error


def apply_operator(function: Callable[..., Any], *values: Number) -> Number:
    """Apply an operator within the same limits as `calculate`.

    Raises:
        ToolError: The result is too large, or there is none.
    """
    try:
        return to_integer(_check_bounds(function(*values)))
    except ArithmeticError as error:
        raise ToolError(_explain_error(error)) from error


def to_integer(value: Number) -> Number:
    """Convert an integral float to an int, where it is exact."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < MAX_EXACT else value


def _parse_expression(text: str) -> ast.expr:
    text = " ".join(text.translate(_SIGNS).split())
    if rest := _TOKEN.sub("", text):
        raise ToolError(f"{rest[0]!r} is not understood. {_list_known()}")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError(f"{text[:100]!r} is not an expression: {getattr(error, 'msg', '') or 'too deep'}") from error


def _compute_node(node: ast.expr) -> Number:
    if isinstance(node, ast.BinOp):
        function = _raise_to_power if isinstance(node.op, ast.Pow) else OPERATORS[type(node.op)]
        return _check_bounds(function(_compute_node(node.left), _compute_node(node.right)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        value = _compute_node(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _check_bounds(_look_up_name(FUNCTIONS, node.func.id)(*map(_compute_node, node.args)))
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _check_bounds(node.value)
    if isinstance(node, ast.Name):
        return _look_up_name(CONSTANTS, node.id)  # type: ignore[no-any-return]  # a float
    raise ToolError(f"this is more than arithmetic. {_list_known()}")


def _look_up_name(known: Mapping[str, Any], name: str) -> Any:
    if name not in known:
        raise ToolError(f"{name[:100]!r} is not understood. {_list_known()}")
    return known[name]


def _check_bounds(value: Any) -> Number:
    """Refuse a value that is too large, or not a real number."""
    if isinstance(value, complex):
        raise ToolError("the result is not a real number")
    if abs(value) >= MAX_WHOLE if isinstance(value, int) else not math.isfinite(value):
        raise OverflowError
    return value  # type: ignore[no-any-return]  # an int or a float


def _raise_to_power(base: Number, exponent: Number) -> Any:
    if isinstance(base, int) and isinstance(exponent, int):
        least = (base.bit_length() - 1) * exponent  # bits of the result
        if least > MAX_WHOLE.bit_length():
            raise OverflowError
    return base**exponent


def _compute_factorial(number: int) -> int:
    if isinstance(number, int) and number > MAX_FACTORIAL:
        raise OverflowError
    return math.factorial(number)


def _round(number: Number, digits: int = 0) -> Number:
    """Round as Python does, within limited digits: Python computes 10 to the power of their number."""
    return round(number, max(-MAX_DIGITS, min(digits, MAX_DIGITS)))


def _explain_error(error: Exception) -> str:
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    if isinstance(error, OverflowError):
        return TOO_WIDE if "convert" in str(error) else TOO_LARGE
    return f"this cannot be calculated: {error}"


def _list_known() -> str:
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
    "factorial": _compute_factorial,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {**_OWN, **{name: getattr(math, name) for name in _MATH}}
