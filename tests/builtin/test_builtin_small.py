"""The small built-in tools: their results and errors."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from toolkit import DefinitionError, Runner, Tool, Toolbox
from toolkit.builtin import current_time, random_tool
from toolkit.builtin.samples import calculator, echo, reverser, word_count
from toolkit.testing import ScriptedModel, call

EXAMPLE = Path(__file__).parents[2] / "examples" / "builtin_tools.py"
HUGE = "9" * 1000


def call_tool(tool: Tool[..., Any], **arguments: Any) -> str | None:
    """Call a tool, and return its text."""
    return Toolbox([tool]).call(tool.name, arguments).text


@pytest.mark.parametrize(
    ("operation", "a", "b", "text"),
    [
        ("add", 15, 27, "42"),
        ("subtract", 0.5, 2, "-1.5"),
        ("multiply", 10**20, 10**20, "1" + "0" * 40),
        ("divide", 6, 4, "1.5"),
        ("divide", 6, 3, "2"),
        ("divide", 1, 0, "division by zero"),
        ("power", 2, 3, "unknown operation: power"),
        ("add", 1, int(HUGE), f"invalid numbers: a=1, b={HUGE}"),
        ("multiply", 10**599, 10**599, "1" + "0" * 1198),
        ("divide", 10**500, 3, "the result is too large"),
        ("multiply", 1e308, 10, "the result is too large"),
    ],
    ids=str,
)
def test_calculator(operation: str, a: float, b: float, text: str) -> None:
    """The result is an integer where possible; an error gives the reason."""
    assert text == call_tool(calculator, operation=operation, a=a, b=b)


def test_calculator_parameters() -> None:
    """The schema has four operations and two numbers."""
    text = calculator.parameters["properties"]

    assert ["add", "subtract", "multiply", "divide"] == text["operation"]["enum"]
    assert ["number", "number"] == [text["a"]["type"], text["b"]["type"]]


@pytest.mark.parametrize("number", ["1e400", "NaN", '"many"'])
def test_no_number(number: str) -> None:
    """Operands that are not finite numbers are refused by validation."""
    result = calculator.invoke(f'{{"operation": "add", "a": 1, "b": {number}}}')

    assert "invalid_arguments" == result.kind


def test_reverser_in_a_run() -> None:
    """A run reverses 'hello world'."""
    model = ScriptedModel([call("reverser", text="hello world"), "There it is."])

    assert "dlrow olleh" == Runner([reverser], model=model).run("Reverse it.").calls[0].result.text


@pytest.mark.parametrize(("text", "reversed_text"), [("", ""), ("abc", "cba")])
def test_reverser(text: str, reversed_text: str) -> None:
    """The characters come in the other order."""
    assert reversed_text == reverser(text)


@pytest.mark.parametrize(("text", "count"), [("", 0), ("one", 1), (" two\n\tlines ", 2), ("a\u00a0b", 2)], ids=repr)
def test_word_count(text: str, count: int) -> None:
    """Words are separated by white space."""
    assert count == word_count(text)


def test_echo() -> None:
    """A message comes back as it is."""
    assert "a \u202e b" == call_tool(echo, message="a \u202e b")


@pytest.mark.parametrize(
    ("zone", "offset"),
    [
        ("Asia/Jakarta", "+07:00"),
        ("Asia/Kathmandu", "+05:45"),
        ("", "Z"),
        ("UTC", "Z"),
        ("Mars/Olympus", "Z"),
        ("../../etc/passwd", "Z"),
        ("Europe", "Z"),
        ("a\0b", "Z"),
    ],
    ids=repr,
)
def test_current_time(zone: str, offset: str) -> None:
    """The time is written by RFC 3339, and in UTC for an unknown zone."""
    text = call_tool(current_time, timezone=zone) or ""
    age = datetime.now(timezone.utc) - datetime.fromisoformat(text.replace("Z", "+00:00"))

    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d" + re.escape(offset), text)
    assert timedelta() <= age < timedelta(minutes=1)


def test_current_time_without_arguments() -> None:
    """The zone is UTC by default."""
    assert "Z" == (call_tool(current_time) or "")[-1]


@pytest.mark.parametrize(
    ("allowed", "message"),
    [("1", "The key is under the third pot."), ("", "Tool execution was denied by authorization policy.")],
    ids=["allowed", "denied"],
)
def test_example(
    allowed: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example calculates, reverses and counts, and shows a protected note where the environment allows it."""
    monkeypatch.setenv("ALLOW_PROTECTED_NOTE", allowed)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    results = [line.partition("}: ")[2] for line in lines if "}: " in line]

    assert ["42", "1.75", "There are 2 notes."] == results[:3]
    assert "Tool execution was rejected by the user. Reason: That note has to stay." == results[3]
    assert message == results[4][: len(message)]
    assert ["dlrow olleh", "2"] == results[5:]


@pytest.mark.parametrize(
    ("minimum", "maximum", "text"),
    [
        (3, 1, "min must be <= max"),
        (5, 5, "5"),
        (0, 2**63, f"invalid range: min=0, max={2**63}"),
        (-(2**63) - 1, 0, f"invalid range: min={-(2**63) - 1}, max=0"),
    ],
    ids=str,
)
def test_random_bounds(minimum: int, maximum: int, text: str) -> None:
    """The bounds belong to the range, which has an order and a size."""
    assert text == call_tool(random_tool(), min=minimum, max=maximum)


@pytest.mark.parametrize("subject", [random_tool, lambda: random_tool(Random(7))], ids=["system", "seeded"])  # noqa: S311  as below
def test_random(subject: Callable[[], Tool[..., Any]]) -> None:
    """Each number of the range comes, and no other."""
    tool = subject()

    assert {"-1", "0", "1"} == {call_tool(tool, min=-1, max=1) for _ in range(100)}


def test_definition() -> None:
    """An invalid source of random numbers is refused when the tool is made."""
    with pytest.raises(DefinitionError, match="source=7"):
        random_tool(cast("Any", 7))


def test_random_again() -> None:
    """Equal sources give equal numbers."""
    one, other = random_tool(Random(7)), random_tool(Random(7))  # noqa: S311  no secret comes of it

    assert call_tool(one, min=0, max=10**9) == call_tool(other, min=0, max=10**9)
