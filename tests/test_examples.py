"""Examples in docstrings become arguments: shown to the model, and tried out by `check()`."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit import Toolbox, tool

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
