"""Tools that each library is given, and what they are to become there."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from pydantic import BaseModel

from toolkit import FatalError, Image, Toolbox, ToolContext, ToolError, tool

PIXEL = Image(b"\x89PNG\r\n\x1a\n", "image/png")


class Place(BaseModel):
    """A place in the catalogue."""

    shelf: str
    row: int = 1


dropped: list[str] = []


@tool
def add(a: int, b: int | None = 1) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + (b or 0)


@tool
async def put(place: Place, config: str, run_manager: str = "", context: ToolContext[str] | None = None) -> str:
    """Put a book somewhere."""
    return f"{place.shelf}{place.row} {config} {run_manager} {context.deps if context else None}"


@tool(approve=True)
def drop(name: str) -> str:
    """Drop a table."""
    dropped.append(name)
    return f"{name} is gone"


@tool
def draw() -> Image:
    """Draw a point."""
    return PIXEL


@tool
def fail(how: str) -> str:
    """Fail."""
    if how == "fatal":
        raise FatalError("secret of the application")
    if how == "tool":
        raise ToolError("There is no such book.")
    raise KeyError("secret of the function")


BOX = Toolbox([add, put, drop, draw, fail])
CONTEXT: ToolContext[Any] = ToolContext(deps="Ann")
PUT = {"place": {"shelf": "A"}, "config": "c", "run_manager": "r"}
PUT_TEXT = "A1 c r Ann"


def load(module: str) -> Any:
    """Import a module of another library, or skip the test."""
    pytest.importorskip(module.partition(".")[0], reason="see the dependency group `adapters`")
    return import_module(module)
