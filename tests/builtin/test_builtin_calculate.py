"""`calculate` agrees with Python, and ends at once for any input."""

from __future__ import annotations

import ast
import time
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties import examples
from toolkit import InvalidArguments, Runner, ToolError, ToolResult
from toolkit.builtin import calculate
from toolkit.builtin.arithmetic import FUNCTIONS, to_integer
from toolkit.testing import ModelReply, ScriptedModel, call

# CPU seconds for one expression; the slowest takes a tenth of it on a slow machine.
AT_ONCE = 0.2
WIDE = "a whole number is too large to be used beside others, which are below 1.8e308"
LARGE = "the result is too large: whole numbers have at most 600 digits, others are below 1.8e308"

NUMBERS = st.one_of(
    st.integers(0, 99).map(str), st.floats(0, 1e6, allow_nan=False).map(repr), st.sampled_from(["pi", "e", ".5", "2."])
)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(" ".join),
        st.tuples(inner, st.integers(-3, 3).map(str)).map(lambda pair: f"({pair[0]}) ** {pair[1]}"),
        st.tuples(st.sampled_from(["-", "+", "abs", "round", "sqrt", "floor"]), inner).map(
            lambda pair: f"{pair[0]}({pair[1]})"
        ),
    ),
    max_leaves=12,
)
HOSTILE = [
    "9**9**9",
    "9**3999999",
    "**".join("9" * 300),
    "*".join(["9" * 30] * 30),
    "2**1994*" * 40 + "1",
    "2**-99999999999999",
    "(-1)**" + "9" * 590,
    "factorial(" * 50 + "5" + ")" * 50,
    "factorial(99999999999999)",
    "lcm(" + ",".join(str(10**15 - n) for n in range(50)) + ")",
    "round(5,-999999999999)",
    "round(5.5,999999999999)",
    "(" * 499 + "1" + ")" * 499,
    "-" * 999 + "1",
    "+".join("1" * 500),
    "sqrt(" * 165 + "2" + ")" * 165,
    "1" * 1000,
    "1" * 999 + "x",
    "max(" + ",".join("1" * 400) + ")",
    "9" * 500 + "%" + "7" * 400,
]


def outcome(text: str) -> Any:
    """Return Python's value of an expression; None if it cannot be compared."""
    try:
        names: dict[str, Any] = {name: FUNCTIONS[name] for name in ("abs", "round", "sqrt", "floor")}
        value = eval(text, {"__builtins__": {}, "pi": 3.141592653589793, "e": 2.718281828459045}, names)
    except (ArithmeticError, ValueError):
        return None
    is_told = isinstance(value, (int, float)) and abs(value) < 10**600 and value - value == 0
    return to_integer(value) if is_told else None


def is_finite(text: str) -> bool:
    """Return whether every part of an expression is within the range of a float."""
    parts = (node for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, (ast.BinOp, ast.UnaryOp)))
    return all(outcome(ast.unparse(part)) is not None for part in parts)


def evaluate_by_tool(text: str) -> Any:
    """Return the value of `calculate`; None if it refuses the expression."""
    try:
        return calculate(text)
    except ToolError:
        return None


def measure(text: str) -> tuple[ToolResult, float]:
    """Call the tool; return its result and the CPU seconds it took."""
    start = time.thread_time()
    return calculate.invoke({"expression": text}), time.thread_time() - start


@examples(500)
@given(EXPRESSIONS)
def test_as_python(text: str) -> None:
    """An expression has the value that Python gives, if all of its parts have one."""
    assume(is_finite(text))

    assert repr(outcome(text)) == repr(evaluate_by_tool(text))


@examples(500)
@given(st.text("0123456789.+-*/%() ,eEpisqrtfaclo_'\"[]{}<>^&|=:;@\\\n\t\0٣×x", max_size=1000))
def test_anything(text: str) -> None:
    """Any text gives a number or a reason at once."""
    result, seconds = measure(text)

    assert isinstance(result.value, (int, float)) or type(result.exception) in (ToolError, InvalidArguments)
    assert seconds < AT_ONCE


@examples(500)
@given(
    st.lists(
        st.sampled_from(["9", "99**", "**", "(", ")", "factorial(", "1e308", "*", "-", "/", "max(", ","]), max_size=200
    )
)
def test_any_arithmetic(parts: list[str]) -> None:
    """The same holds for texts that are nearly arithmetic."""
    result, seconds = measure("".join(parts)[:1000])

    assert isinstance(result.value, (int, float)) or type(result.exception) is ToolError
    assert seconds < AT_ONCE


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:30])
def test_hostile(text: str) -> None:
    """An expression that would keep Python busy, or fill its memory, ends at once."""
    result, seconds = measure(text)

    assert isinstance(result.value, (int, float)) or type(result.exception) is ToolError
    assert seconds < AT_ONCE


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(15 + 27) * 2 ** 10 / 8", "5376"),
        ("3 × 4 − 10 ÷ 4", "9.5"),
        ("1\n+ 1", "2"),
        ("2 ** -1", "0.5"),
        ("1e3", "1000"),
        ("2 ** 53 + 0.0", "9007199254740992.0"),
        ("10 ** 599 // 10 ** 598", "10"),
        ("factorial(20) / factorial(18)", "380"),
        ("max(1, sqrt(16), log(8, 2)) + min(2, 3) + hypot(3, 4)", "11"),
        ("-(-(2))", "2"),
        ("max(1) + min(2)", "3"),
    ],
    ids=repr,
)
def test_values(text: str, value: str) -> None:
    """Numbers are exact where they are whole, and whole where they can be."""
    assert value == calculate.invoke({"expression": text}).text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 / 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("10 ** 600", LARGE),
        ("1e308 * 10", LARGE),
        ("1e999", LARGE),
        ("0.5 ** 10 ** 500", WIDE),
        ("sqrt(10 ** 599)", WIDE),
        ("(-8) ** 0.5", "the result is not a real number"),
        ("sqrt(-1)", "this cannot be calculated: "),
        ("min()", "this cannot be calculated: "),
        ("factorial(2.5)", "this cannot be calculated: "),
        ("1 +", "'1 +' is not an expression: "),
        ("", "'' is not an expression: "),
        ("1 << 3", "'<' is not understood. There are numbers, + - * / // % **, parentheses and: abs, "),
        ("0x1f", "'0' is not understood. "),
        ("٣ + ٤", "'٣' is not understood. "),
        ("__import__('os')", '"\'" is not understood. '),
        ("eval(1)", "'eval' is not understood. "),
        ("x", "'x' is not understood. "),
        ("1,000", "this is more than arithmetic. "),
        ("True", "this is more than arithmetic. "),
        ("not 1", "this is more than arithmetic. "),
        ("1 if 1 else 2", "this is more than arithmetic. "),
        ("max(*(1, 2))", "this is more than arithmetic. "),
        ("(1)(2)", "this is more than arithmetic. "),
    ],
    ids=repr,
)
def test_refused(text: str, reason: str) -> None:
    """A text that is not arithmetic, or has no value, is refused with a reason."""
    result = calculate.invoke({"expression": text})

    assert reason == (result.text or "")[: len(reason)]
    assert ToolError is type(result.exception)


def test_too_long() -> None:
    """A text that is too long is not parsed."""
    assert "invalid_arguments" == calculate.invoke({"expression": "1" * 1001}).kind


def test_in_a_run() -> None:
    """A run calculates, and goes on when a result is too large."""
    script: list[ModelReply] = [
        [call("calculate", expression="15 + 27"), call("calculate", expression="9**9**9")],
        "42",
    ]
    result = Runner([calculate], model=ScriptedModel(script)).run("What is 15 + 27?")

    assert ["42", LARGE] == [subject.result.text for subject in result.calls]
