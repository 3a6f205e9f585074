"""The rooms of the package: imports run downwards only, and in no circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "toolkit"

# From top to bottom. A room may import what stands below it, or beside it in its own row.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("__main__", "cli"),
    ("builtin", "serve", "sources", "testing"),
    ("_runner",),
    ("_toolbox", "approvers", "calls"),
    ("_execution",),
    ("display", "middleware", "stores"),
    ("_tools",),
    ("models",),
    ("_dialects",),
    ("_guards", "_schema", "schema"),
    ("_context", "events"),
    ("_messages",),
    ("_concurrency",),
    ("_lazy", "_options", "errors"),
)
ROWS = {room: number for number, row in enumerate(LAYERS) for room in row}
OLDER = -1  # modules that have not moved into a room yet

FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def module_of(path: Path) -> str:
    """Return a file's dotted name inside the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[str]:
    """Yield the modules of the package that a file imports, lazily and for types included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "toolkit":
            inner = (node.module or "").removeprefix("toolkit").removeprefix(".")
            names = (f"{inner}.{alias.name}".strip(".") for alias in node.names)
            yield from (name if is_module(name) else inner for name in names)


def is_module(name: str) -> bool:
    """Whether the package has a module of this name."""
    place = PACKAGE.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def layer_of(module: str) -> int:
    """Return the row of a module's room."""
    return ROWS.get(module.partition(".")[0], OLDER)


def test_imports_run_downwards() -> None:
    """No module imports one of a room that stands above its own."""
    upwards = [
        f"{module_of(path)} imports {target}"
        for path in FILES
        for target in imports_of(path)
        if target and OLDER < layer_of(target) < layer_of(module_of(path))
    ]

    assert [] == upwards


def test_no_circles() -> None:
    """No module needs itself, by whatever way round."""
    graph = {module_of(path): {target for target in imports_of(path) if target} for path in FILES}

    def reaches(start: str, goal: str, seen: set[str]) -> bool:
        fresh = graph.get(start, set()) - seen
        seen |= fresh
        return goal in fresh or any(reaches(target, goal, seen) for target in fresh)

    assert [] == [module for module in graph if reaches(module, module, {module})]


def test_no_module_level_state() -> None:
    """No function rebinds a global: the two shared resources of a process live in objects."""
    rebinding = [
        f"{module_of(path)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Global)
    ]

    assert [] == rebinding


def test_optional_packages_stay_optional() -> None:
    """Packages of an extra are imported only where they are used: xllamacpp in the process that serves."""
    using = [
        path.stem
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) and any(alias.name == "xllamacpp" for alias in node.names)
    ]

    assert ["child"] == using
