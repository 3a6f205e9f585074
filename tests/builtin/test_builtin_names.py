"""The list of ready tools is complete in `toolkit.builtin` and in its documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolkit.builtin

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "toolkit" / "builtin"
PAGE = (ROOT / "docs" / "built-in-tools.md").read_text(encoding="utf-8")


def tool_functions() -> Iterator[str]:
    """Yield the names of the public functions that make tools, in any module."""
    for path in sorted(ROOM.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and re.fullmatch(r"[a-z]\w*_tools?", node.name):
                yield node.name


NAMES = [*tool_functions()]


def test_modules_are_read() -> None:
    """The functions are found in modules and in packages."""
    assert {"file_tools", "plan_tool", "schedule_tools"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_listed(name: str) -> None:
    """A function that makes tools can be imported from `toolkit.builtin`."""
    assert name in vars(toolkit.builtin)["__all__"]


@pytest.mark.parametrize("name", NAMES)
def test_documented(name: str) -> None:
    """A function that makes tools is named on the page of built-in tools."""
    assert re.search(rf"\b{name}\b", PAGE)
