"""The list of ready tools is complete in `toolkit.builtin` and in its documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import toolkit.builtin

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "toolkit" / "builtin"
PAGE = (ROOT / "docs" / "built-in-tools.md").read_text(encoding="utf-8")


def is_tool(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    """Return whether a public function is decorated with `@tool`, or returns tools."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name.startswith("_"):
        return False
    decorators = [ast.unparse(each).partition("(")[0] for each in node.decorator_list]
    returned = ast.unparse(node.returns) if node.returns else ""
    return "tool" in decorators or re.search(r"\bTool\b", returned) is not None


def tool_functions() -> Iterator[str]:
    """Yield the names of the tools, and of the functions that make tools, in any module but the samples."""
    made = {tool.name for tool in toolkit.builtin.data_tools()}
    for path in sorted(ROOM.rglob("*.py")):
        if path.name != "samples.py":  # small tools for examples and tests, which are imported from there
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield from (node.name for node in tree.body if is_tool(node) and node.name not in made)


def test_complete() -> None:
    """A tool, or a function that makes tools, is in `toolkit.builtin`, and on the page of built-in tools."""
    names = {*tool_functions()}

    assert {"code_tool", "file_tools", "plan_tool", "schedule_tools"} <= names
    assert set() == names - {*vars(toolkit.builtin)["__all__"]}
    assert [] == [name for name in names if not re.search(rf"\b{name}\b", PAGE)]
