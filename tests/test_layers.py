"""The rooms of the package: imports run downwards only, and in no circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "toolkit"

# From top to bottom. A module may import what stands below it, or beside it in its own row.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli",),
    ("agui", "builtin", "display", "testing"),
    ("runner",),
    ("assembly", "verbs", "options"),
    ("runs",),
    ("toolbox", "models.default"),
    ("callings",),
    ("collection",),
    ("local", "stores"),
    ("models.openai", "models.responses"),
    ("models.server", "models.arrival"),
    (
        "models",
        "models.accumulator",
        "models.bounds",
        "models.clients",
        "models.connections",
        "models.failures",
        "execution",
    ),
    ("dispatch",),
    ("dependencies",),
    ("attempts",),
    ("isolation",),
    ("places",),
    ("approvers",),
    ("authorization", "approval", "middleware", "hooks"),
    ("screen",),
    ("gates", "digests", "ledger"),
    ("callbacks",),
    ("overflow",),
    ("decorator", "checks", "bindings", "modules"),
    ("tools",),
    ("tool_options", "implementations", "declarations", "typed", "described", "references", "scopes"),
    ("invocable",),
    ("invocation",),
    ("handlers", "arguments", "results", "raised", "naming", "output", "partial"),
    ("conversation", "refusals", "state", "steps", "numbering"),
    ("retyping",),
    ("signatures",),
    ("interfaces", "properties"),
    ("returns", "parameters.built", "parameters.accepted"),
    ("parameters",),
    ("documents",),
    ("agreement",),
    ("dialects",),
    (
        "about",
        "kept",
        "schema",
        "callables",
        "doors",
        "loops",
        "tasks",
        "threads",
        "docstrings",
        "hints",
        "schemas",
        "faults",
        "shared",
        "doubts",
        "examples",
        "events",
        "events_json",
        "display.lines",
        "display.notebook",
        "limits",
        "jsontext",
        "history",
        "choice",
        "transcripts",
    ),
    ("context", "messages", "settings"),
    ("brief", "parts", "semaphore", "specs"),
    ("cancellation", "stores.database", "stores.forks", "stores.opening"),
    ("errors", "lazy"),
)


def module_of(path: Path) -> str:
    """A file's dotted name inside the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[str]:
    """What a file imports of the package, wherever in it: lazily and for types included."""
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
    """A module's row: its own, or that of the folder it lies in."""
    rows = {name: number for number, row in enumerate(LAYERS) for name in row}
    places = (module.rsplit(".", cut)[0] for cut in range(module.count(".") + 1))
    row = next((rows[place] for place in places if place in rows), None)
    assert row is not None, f"{module} stands in no row of LAYERS"
    return row


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def test_every_row_exists() -> None:
    """The picture above names no module that is not there."""
    assert [] == [name for row in LAYERS for name in row if not is_module(name)]


def test_imports_run_downwards() -> None:
    """No module imports one that stands above it."""
    upwards = [
        f"{module_of(path)} imports {target}"
        for path in FILES
        for target in imports_of(path)
        if target and layer_of(target) < layer_of(module_of(path))
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
        module_of(path)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) and any(alias.name == "xllamacpp" for alias in node.names)
    ]

    assert ["local.child"] == using
