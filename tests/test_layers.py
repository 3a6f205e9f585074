"""The rooms of the package: imports run downwards only, and in no circle."""

from __future__ import annotations

import ast
import re
import traceback
from functools import cache
from importlib import import_module
from inspect import isabstract, isclass
from pathlib import Path
from typing import get_args, get_origin

import pytest

from toolkit import Runner, Toolbox, tool
from toolkit._dialects.base import Dialect, RunDialect
from toolkit._dialects.catalog import DialectName, RunDialectName
from toolkit.testing import ScriptedModel, call

PACKAGE = Path(__file__).parent.parent / "toolkit"
PAGE = PACKAGE.parent / "docs" / "architecture.md"

# From top to bottom. A room may import what stands below it, or beside it in its own row.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("__main__", "cli"),
    ("adapters", "builtin", "durable", "serve", "sources", "testing"),
    ("_runner",),
    ("_toolbox", "approvers", "calls", "middleware"),
    ("_execution",),
    ("display", "stores"),
    ("_tools",),
    ("_dialects", "models"),
    ("_guards", "_schema", "schema"),
    ("_context", "_messages", "events"),
    ("_concurrency",),
    ("_lazy", "_options", "errors"),
)
ROWS = {room: number for number, row in enumerate(LAYERS) for room in row}
LISTING = "Files, each importing only those below it"

FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
ROOMS = sorted(  # folders with several files
    path.parent
    for path in FILES
    if path.name == "__init__.py" and len([*path.parent.glob("*.py"), *path.parent.glob("*/__init__.py")]) > 2
)


def module_of(path: Path) -> str:
    """Return a file's dotted name inside the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Return the modules of the package that a file imports, lazily and for types included."""
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "toolkit":
            inner = (node.module or "").removeprefix("toolkit").removeprefix(".")
            names = (f"{inner}.{alias.name}".strip(".") for alias in node.names)
            found.update(name if is_module(name) else inner for name in names)
    return frozenset(found - {""})


@cache
def is_module(name: str) -> bool:
    """Return True where the package has a module of this name."""
    place = PACKAGE.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def layer_of(module: str) -> int:
    """Return the row of a module's room."""
    return ROWS[module.partition(".")[0]]


def imports_of_all(path: Path) -> set[str]:
    """Return the modules that a file imports, or the files of a room where the file is its `__init__`."""
    inside = path.parent.rglob("*.py") if path.name == "__init__.py" else [path]
    return {target for file in inside for target in imports_of(file)}


def listing_of(room: Path) -> list[str]:
    """Return the files that a room's docstring lists, from top to bottom; empty where it lists none."""
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    _, _, listing = docstring.partition(LISTING)
    return re.findall(r"^    (\w+)/?  +\S", listing, re.MULTILINE)


def test_every_module_is_in_a_layer() -> None:
    """No file of the package is outside the layers, and no layer names a room that is not there."""
    assert {*ROWS} == {module_of(path).partition(".")[0] for path in FILES}


def test_imports_run_downwards() -> None:
    """No module imports one of a room that stands above its own."""
    upwards = [
        f"{module_of(path)} imports {target}"
        for path in FILES
        for target in imports_of(path)
        if layer_of(target) < layer_of(module_of(path))
    ]

    assert [] == upwards


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: module_of(room / "__init__.py"))
def test_files_of_a_room(room: Path) -> None:
    """A room's docstring lists every file of it, and each imports only those below it."""
    name, listed = module_of(room / "__init__.py"), listing_of(room)
    files = {path.stem: path for path in room.glob("*.py") if path.stem not in ("__init__", "__main__")}
    files |= {path.parent.name: path for path in room.glob("*/__init__.py")}

    assert sorted(files) == sorted(listed)

    upwards = [
        f"{above} is above {below}, which imports it"
        for number, below in enumerate(listed)
        for above in listed[:number]
        if any(f"{target}.".startswith(f"{name}.{above}.") for target in imports_of_all(files[below]))
    ]
    assert [] == upwards


@pytest.mark.parametrize("parts", [1, 9], ids=["rooms", "modules"])
def test_no_circles(parts: int) -> None:
    """No room and no module needs itself, by whatever way round."""

    def shorten(module: str) -> str:
        return ".".join(module.split(".")[:parts])

    graph: dict[str, set[str]] = {shorten(module_of(path)): set() for path in FILES}
    for path in FILES:
        own = shorten(module_of(path))
        graph[own] |= {shorten(target) for target in imports_of(path)} - ({own} if parts == 1 else set())

    def reaches(start: str, goal: str, seen: set[str]) -> bool:
        fresh = graph[start] - seen
        seen |= fresh
        return goal in fresh or any(reaches(target, goal, seen) for target in fresh)

    assert [] == [module for module in graph if reaches(module, module, {module})]


def test_page_of_the_layers() -> None:
    """The page for contributors has these layers, and names files that exist."""
    layers, _ = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    named = re.findall(r"`([\w/]+\.py)`", PAGE.read_text(encoding="utf-8"))

    assert [" · ".join(row) for row in LAYERS] == layers.splitlines()
    assert [] == [name for name in named if not any(path.match(name) for path in [*FILES, Path(__file__)])]


def test_page_of_the_path_of_a_call() -> None:
    """The page for contributors lists the frames between `run` and a tool's function."""
    _, path = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

    @tool
    def list_frames() -> list[str]:
        """List the frames above."""
        files = [(Path(frame.filename), frame.name) for frame in traceback.extract_stack()]
        return [f"{file.name} {name}" for file, name in files if file.is_relative_to(PACKAGE)]

    result = Runner([list_frames], model=ScriptedModel([call("list_frames"), "Done."])).run("Go.")

    assert [" ".join(line.split()[:2]) for line in path.splitlines()] == result.calls[0].result.value


def test_no_module_level_state() -> None:
    """No function rebinds a global: the two shared resources of a process live in objects."""
    rebinding = [
        f"{module_of(path)}:{node.lineno}" for path in FILES for node in nodes_of(path) if isinstance(node, ast.Global)
    ]

    assert [] == rebinding


def test_optional_packages_stay_optional() -> None:
    """Packages of an extra are imported only where they are used: xllamacpp in the process that serves."""
    using = [
        path.stem
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Import) and any(alias.name == "xllamacpp" for alias in node.names)
    ]

    assert ["child"] == using


def dialects(*, of_runs: bool = False) -> set[str]:
    """Return the names of the dialects that a module of `_dialects/` defines; or those that a run may use."""
    modules = [import_module(f"toolkit.{module_of(path)}") for path in (PACKAGE / "_dialects").glob("*.py")]
    kinds = [kind for module in modules for kind in vars(module).values() if isclass(kind) and get_origin(kind) is None]
    base = RunDialect if of_runs else Dialect
    return {kind.name for kind in kinds if issubclass(kind, base) and not isabstract(kind)}


def test_dialects_are_in_the_table() -> None:
    """A dialect that a module of `_dialects/` defines is found by its name, which type checkers know."""
    assert dialects() == {*get_args(DialectName)}
    assert dialects(of_runs=True) == {*get_args(RunDialectName)}
    assert [] == [name for name in dialects() if not isinstance(Toolbox().schemas(name), list | dict)]  # type: ignore[arg-type]
