"""`toolbox.check()` and `tool.explain()`: reports for developers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolkit import Tool, Toolbox, tool


class Engine:
    """Something that no JSON can describe."""


def fine(city: str, days: int = 1) -> str:
    """Forecast for a city.

    Args:
        city: Its name.
        days: How many.
    """
    return city * days


def undocumented(city):  # type: ignore[no-untyped-def]
    return city


def outdated(city: str) -> str:
    """Forecast.

    Args:
        city: Its name.
        town: What it was called before.
    """
    return city


def driven(city: str, engine: Engine = Engine()) -> str:
    """Forecast.

    Args:
        city: Its name.
    """
    return city


def endless(city: str) -> str:
    return city


endless.__doc__ = "Forecast. " * 103 + "\n\nArgs:\n    city: Its name."


def spoken(città: str) -> str:
    """Forecast.

    Args:
        città: Its name.
    """
    return città


def heavy(city: str) -> str:
    return city


heavy.__doc__ = f"Forecast.\n\nArgs:\n    city: {'Its name. ' * 400}"


def open_ended(city: str, **options: str) -> str:
    """Forecast.

    Args:
        city: Its name.
        unit: An option.
    """
    return city


FINDINGS: dict[str, tuple[Callable[..., Any], list[tuple[str, str, str]]]] = {
    "nothing": (fine, []),
    "undocumented": (
        undocumented,
        [("warning", "", "undocumented"), ("warning", "city", "undocumented"), ("warning", "city", "unannotated")],
    ),
    "no such parameter": (outdated, [("warning", "town", "unknown-parameter")]),
    "key of the options": (open_ended, []),
    "left out": (driven, [("warning", "engine", "left-out")]),
    "long description": (endless, [("warning", "", "long-description")]),
    "name": (tool(fine, name="2nd"), [("warning", "", "name")]),
    "parameter's name": (spoken, [("warning", "città", "name")]),
    "large": (heavy, [("warning", "", "large")]),
}


@pytest.mark.parametrize(("function", "expected"), FINDINGS.values(), ids=FINDINGS)
def test_findings(function: Callable[..., Any], expected: list[tuple[str, str, str]]) -> None:
    """What is wrong is found, where it is, and nothing else."""
    report = Toolbox([function]).check()

    assert expected == [(found.level, found.parameter, found.code) for found in report]


def test_undescribable() -> None:
    """A tool that cannot be used is an error, which names its parameter; the others are looked at all the same."""

    def drive(engine: Engine) -> str:
        return ""

    report = Toolbox([outdated, drive]).check()

    assert [("error", "drive"), ("warning", "outdated")] == [(found.level, found.tool) for found in report]
    assert "parameter 'engine' cannot be described" in report[0].text


def test_near_names() -> None:
    """`check` reports two names that differ only in case and underscores."""
    box = Toolbox([tool(fine, name="get_city"), tool(fine, name="getCity")])

    assert ["its name is nearly that of 'get_city'" in str(found) for found in box.check()] == [True]


def test_many_tools() -> None:
    """`check` reports more tools than OpenAI accepts, and not as many as it accepts."""
    tools = [tool(fine, name=f"tool_{letter}_{number}") for letter in "ab" for number in range(65)]

    assert ["many-tools", ()] == [Toolbox(tools).check()[0].code, Toolbox(tools[:128]).check()]
    assert str(Toolbox(tools).check()).startswith("warning  toolbox: 130 tools: OpenAI takes 128 in one request.")


def test_not_strict() -> None:
    """`check` reports a tool that is to be strict and cannot be without loss."""
    asked = Tool.from_schema("wide", {"properties": {f"p{number}": {} for number in range(6000)}}, strict=True)

    assert "not-strict" in {found.code for found in Toolbox([asked]).check()}
    assert () == Toolbox([tool(fine, strict=True)]).check()


def test_report() -> None:
    """A report reads as lines, is empty where there is nothing, and can be cut to a level."""
    report = Toolbox([outdated]).check()
    line = (
        "warning  outdated.town: the docstring describes it, and the function has no such parameter. "
        "Correct one of them. [unknown-parameter]"
    )

    assert (line, "Nothing to report.") == (str(report), str(Toolbox([fine]).check()))
    assert ([], report) == ([*report.at_least("error")], report.at_least("note"))


EXPLAINED = {
    "as it is": ("mcp", True, "fine in the dialect 'mcp': not strict, 392 characters, sent as it is"),
    "strict": (
        "chat",
        True,
        """\
fine in the dialect 'chat': strict, 378 characters
  days  default goes into the description
  days  optional, sent as nullable: null leaves it out""",
    ),
}


@pytest.mark.parametrize(("dialect", "strict", "text"), EXPLAINED.values(), ids=EXPLAINED)
def test_explanation(dialect: Any, strict: bool, text: str) -> None:
    """An explanation has the sent schema, whether it is strict, and each difference from the tool's own schema."""
    made: Tool[..., Any] = tool(fine)

    assert text == str(made.explain(dialect, strict=strict))


def test_rules_that_cannot_be_asked() -> None:
    """A rule of a tool that cannot take its arguments is an error: every call would be refused."""

    def say(word: str) -> str:
        """Say a word.

        Args:
            word: The word.
        """
        return word

    def findings(**options: Any) -> list[str]:
        return [f"{each.level} {each.code}" for each in Toolbox([tool(say, **options)]).check()]

    assert ["error unfit-rule"] == findings(authorize=lambda tool, arguments: True)
    assert ["error unfit-rule"] == findings(approve=lambda: True)
    assert ["error unfit-rule"] == findings(retry_on=lambda: True)
    assert [] == findings(authorize=lambda *_: True, approve=lambda request: True, retry_on=lambda error: True)


def test_schemas_of_others() -> None:
    """A parameter whose schema is `true`, and examples that are no list, are checked like any others."""
    schema = {"type": "object", "properties": {"item": True}, "examples": 5}
    made = Tool.from_models("echo", schema, function=lambda item: item, description="Echo it.")

    found = {(each.code, each.parameter) for each in Toolbox([made]).check()}
    assert {("undocumented", "item"), ("mismatch", "item")} == found
