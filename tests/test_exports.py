"""The public names: what there is, where it lives, and what loading it costs."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import toolkit
import toolkit.builtin

ALL: list[str] = vars(toolkit)["__all__"]
PACKAGES = [toolkit, toolkit.builtin]
NAMES = [(package, name) for package in PACKAGES for name in vars(package)["__all__"]]
HEAVY = [
    "openai",
    "pydantic",
    "docstring_parser",
    "xllamacpp",
    "asyncio",
    "httpx",
    "httpx2",
    "toolkit._schema.validation",
]

each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
each_name = pytest.mark.parametrize(("package", "name"), NAMES, ids=lambda one: getattr(one, "__name__", one))


def declared(package: ModuleType) -> dict[str, str]:
    """Read the names that a package's block for type checkers declares, with their homes."""
    tree = ast.parse(Path(str(package.__file__)).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {
        str(alias.asname): str(node.module) for node in imports for alias in node.names if alias.asname == alias.name
    }


def loaded_by(statement: str) -> set[str]:
    """Run a statement in a process of its own, and tell which heavy modules it has loaded."""
    code = f"import sys\n{statement}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    return set(done.stdout.split())


@each_package
def test_tables_agree(package: ModuleType) -> None:
    """The block for type checkers and the table of lazy names say the same."""
    homes: dict[str, tuple[str, ...]] = package._HOMES

    assert declared(package) == {name: home for home, names in homes.items() for name in names}


@each_package
def test_all(package: ModuleType) -> None:
    """`__all__` is what is declared, in order and without repetition."""
    assert sorted(declared(package)) == vars(package)["__all__"]


@each_name
def test_importable(package: ModuleType, name: str) -> None:
    """Every public name can be imported, and is the one of its home."""
    scope: dict[str, Any] = {}
    home = declared(package)[name]
    exec(f"from {package.__name__} import {name}\nfrom {home} import {name} as original", scope)  # noqa: S102

    assert scope["original"] is scope[name]


@each_name
def test_home(package: ModuleType, name: str) -> None:
    """No public name is that of a module, which would take its place once it is loaded."""
    assert importlib.util.find_spec(f"{package.__name__}.{name}") is None


@each_name
def test_documented(package: ModuleType, name: str) -> None:
    """Every public name has a docstring of its own."""
    assert getattr(package, name).__doc__


@each_package
def test_star(package: ModuleType) -> None:
    """A star brings the public names and nothing else."""
    scope: dict[str, Any] = {}
    exec(f"from {package.__name__} import *", scope)  # noqa: S102

    assert set(vars(package)["__all__"]) == scope.keys() - {"__builtins__"}


def test_dir() -> None:
    """Completion offers the public names before they are loaded."""
    assert set(ALL) <= set(dir(toolkit))


def test_unknown() -> None:
    """A name that is not there is an ordinary error."""
    with pytest.raises(AttributeError, match="module 'toolkit' has no attribute 'Tolbox'"):
        exec("toolkit.Tolbox", {"toolkit": toolkit})  # noqa: S102
    with pytest.raises(ImportError, match="cannot import name 'Tolbox'"):
        exec("from toolkit import Tolbox")  # noqa: S102


DECORATED = "from toolkit import tool\n@tool\ndef f(a: int): ..."
LOADED = {
    "nothing": (
        "import toolkit",
        {"openai", "pydantic", "docstring_parser", "xllamacpp", "asyncio", "toolkit._schema.validation"},
    ),
    "decorator": (
        "from toolkit import tool",
        {"openai", "pydantic", "docstring_parser", "xllamacpp", "toolkit._schema.validation"},
    ),
    "decorated": (DECORATED, {"openai", "pydantic", "docstring_parser", "xllamacpp", "toolkit._schema.validation"}),
    "invoked": (
        DECORATED + """\nf.invoke('{"a": 1}')""",
        {"openai", "pydantic", "docstring_parser", "xllamacpp", "toolkit._schema.validation"},
    ),
    "toolbox": (
        "from toolkit import Toolbox",
        {"openai", "pydantic", "docstring_parser", "xllamacpp", "toolkit._schema.validation"},
    ),
    "runner": (
        "from toolkit import Runner",
        {"pydantic", "docstring_parser", "xllamacpp", "toolkit._schema.validation"},
    ),
    "schema": (
        "from toolkit import tool\ntool(lambda a: a).parameters",
        {"openai", "xllamacpp", "toolkit._schema.validation"},
    ),
}


@pytest.mark.parametrize(("statement", "absent"), LOADED.values(), ids=LOADED)
def test_loads_little(statement: str, absent: set[str]) -> None:
    """A name loads what it needs, and no client of a model."""
    assert set() == loaded_by(statement) & absent


def test_import_changes_nothing() -> None:
    """Importing leaves no thread, no log handler and no warning filter behind."""
    state = "threading.active_count(), len(logging.root.handlers), len(warnings.filters)"
    code = f"import logging, threading, warnings\nb = {state}\nfrom toolkit import *\nassert b == ({state}), b"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603

    assert (0, "") == (done.returncode, done.stderr)
