"""Examples in docstrings become arguments: shown to the model, and tried out by `check()`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import pytest
from pydantic import Field

from toolkit import Toolbox, ToolContext, tool

FOUND: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "by position and keyword": (">>> search('cats', limit=3)", [{"query": "cats", "limit": 3}]),
    "with its result": (">>> search('cats')\n['a']\n>>> search('dogs')\n[]", [{"query": "cats"}, {"query": "dogs"}]),
    "inside an expression": (">>> len(library.search('cats'))\n2", [{"query": "cats"}]),
    "over two lines": (">>> search('cats',\n...        limit=3)", [{"query": "cats", "limit": 3}]),
    "nested values": (">>> search('cats', limit={'a': [1, None]})", [{"query": "cats", "limit": {"a": [1, None]}}]),
    "JSON": ('{"query": "cats"}', [{"query": "cats"}]),
    "JSON in a fence": ('```json\n{"query": "cats"}\n```', [{"query": "cats"}]),
    "a variable": (">>> search(query)", []),
    "spread": (">>> search(**options)", []),
    "too many": (">>> search('a', 1, 2)", []),
    "no JSON": (">>> search('cats', limit=1j)", []),
    "twice": (">>> search('a', query='b')", []),
    "a keyword that it does not take": (">>> search('cats', words=1)", []),
    "of a method of that name": (">>> box.search(limit=3)", []),
    "another function": (">>> find('cats')", []),
    "no Python": (">>> search('cats'", []),
    "no Python before another": (">>> search('cats'\n>>> search('dogs')", [{"query": "dogs"}]),
    "in a block": (">>> for limit in (1, 2):\n...     search('cats', limit=3)", [{"query": "cats", "limit": 3}]),
    "prose": ("Ask for cats.", []),
}


@pytest.mark.parametrize(("text", "documents"), FOUND.values(), ids=FOUND)
def test_found(text: str, documents: list[dict[str, Any]]) -> None:
    """Calls with literal arguments, and JSON objects, are found; nothing else is, and nothing raises."""

    def search(query: str, limit: Any = 5) -> None: ...

    search.__doc__ = "Search.\n\nExamples:\n    " + text.replace("\n", "\n    ")

    assert documents == tool(search).parameters.get("examples", [])


def test_variadic() -> None:
    """Further arguments are in the list of `*args`, and further keywords in the object of `**kwargs`."""

    def mix(first: int, *rest: int, **shares: float) -> None:
        """Mix.

        Examples:
            >>> mix(1, 2, 3)
            >>> mix(1, water=0.5)
        """

    found = tool(mix).parameters["examples"]

    assert [{"first": 1, "rest": [2, 3]}, {"first": 1, "shares": {"water": 0.5}}] == found
    assert "wrong-example" not in [finding.code for finding in Toolbox([mix]).check()]


def travel(
    start: Annotated[str, Field(alias="from")],
    context: ToolContext[Any],
    to: str = "home",
    write: Callable[[str], None] = print,
) -> None:
    """Travel.

    Examples:
        >>> travel("Ulm", to="Rome", write=None)
    """


@dataclass
class Point:
    """A point.

    Examples:
        >>> Point(1, y=2)
    """

    x: int
    y: int = 0


def test_class() -> None:
    """The calls of a class are by its own name."""
    assert [{"x": 1, "y": 2}] == tool(Point).parameters["examples"]


def test_names_in_json() -> None:
    """The arguments have the names of the schema, and those that the model may not fill are left out."""
    assert [{"from": "Ulm", "to": "Rome"}] == tool(travel).parameters["examples"]
    assert [{"to": "Rome"}] == tool(partial(travel, "Bonn")).parameters["examples"]


def test_checked() -> None:
    """An example that the tool itself would refuse is reported; one that it takes is not."""

    def search(query: str, limit: int = 5) -> None:
        """Search.

        Args:
            query: What for.
            limit: At most so many.

        Examples:
            >>> search("cats", limit=3)
            >>> search("cats", limit="few")
        """

    report = Toolbox([search]).check()

    assert [("wrong-example", True)] == [
        (found.code, '{"query": "cats", "limit": "few"}' in found.text) for found in report
    ]
