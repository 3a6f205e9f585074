"""Find the tools of a Python file or module."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from toolkit import Runner, Tool, Toolbox
from toolkit._schema.error_messages import suggest
from toolkit._tools.decorator import tool_methods
from toolkit.errors import DefinitionError

T = TypeVar("T")
# Code in place of a file, and the name of its module.
CODE = re.compile(r"\s*(@|(def|async def|from|import)\s)")
CODE_NAME = "functions"


def load_tools(target: str, *, all_functions: bool, instead: tuple[type[object], ...]) -> Runner | Toolbox:
    """Import a file or module, and return its Runner, its Toolbox, or a toolbox of its tools.

    Args:
        target: `tools.py`, `package.module`, or one of them with a name: `tools.py:box`; or code, all functions of
            which are tools: `def add(a: int, b: int): return a + b`.
        all_functions: Take the tools and the public functions that are defined there, and no Runner or Toolbox.
        instead: Types of values, such as prompts; a file with such a value may have no tools.

    Raises:
        DefinitionError: There is no such file, module or name; there are no tools; or there are several runners or
            toolboxes to choose from.
        Exception: Any exception of the file.
    """
    source, name = _split_name(target)
    if CODE.match(target):
        source = "The code"
        name = ""
        all_functions = True
        module = _run_code(target, CODE_NAME, f"<{CODE_NAME}>")
    else:
        module = _import(source)

    if name:
        member = _get_member(module, name, source)
        return member if isinstance(member, (Runner, Toolbox)) else Toolbox([member])

    values = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    only = None if all_functions else _find_only(Runner, values, source) or _find_only(Toolbox, values, source)
    if only is not None:
        return only

    functions = {
        name: value
        for name, value in values.items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }
    tools = {id(value): value for value in values.values() if isinstance(value, Tool) or tool_methods(type(value))}
    found = [*tools.values(), *(functions.values() if all_functions else ())]
    if not found and not any(isinstance(value, instead) for value in values.values()):
        names = "" if all_functions else ", ".join(functions)
        hint = f", or pass --all to take its functions as they are: {names}" if names else ""
        owner = next((name for name, value in values.items() if inspect.isclass(value) and tool_methods(value)), None)
        if owner is not None:
            hint += f", or make an object for the tools of {owner}: {owner.lower()} = {owner}(...)"
        raise DefinitionError(f"{source} has no tools. Decorate a function with @tool{hint}.")

    return Toolbox(found)


def _find_only(kind: type[T], values: Mapping[str, object], source: str) -> T | None:
    found = {name: value for name, value in values.items() if isinstance(value, kind)}
    if len(found) > 1:
        choices = ", ".join(f"{source}:{name}" for name in found)
        raise DefinitionError(f"{source} has several {kind.__name__} objects. Choose one: {choices}.")
    return next(iter(found.values()), None)


def find_values(target: str, kind: type[T]) -> dict[str, T]:
    """Return the values of a type in an imported file or module, by their public names."""
    source, _ = _split_name(target)
    module = sys.modules.get(Path(source).stem if source.endswith(".py") else source)
    values = vars(module).items() if module else ()
    return {name: value for name, value in values if isinstance(value, kind) and not name.startswith("_")}


def find_deps(target: str) -> Any:
    """Return the variable `deps` of an imported file or module, for its tools, or None without one."""
    return find_values(target, object).get("deps")


def get_stem(target: str) -> str:
    """Return the name of a file or module: `tools` of `tools.py:box`."""
    if CODE.match(target):
        return CODE_NAME
    source, _ = _split_name(target)
    return Path(source).stem


def _split_name(target: str) -> tuple[str, str]:
    r"""Split `tools.py:box`. The colon of `C:\tools.py` belongs to the path."""
    source, colon, name = target.rpartition(":")
    return (source, name) if colon and source and name.isidentifier() else (target, "")


def _import(source: str) -> ModuleType:
    is_module = all(part.isidentifier() for part in source.split(".")) and not _is_other_file(Path(source))
    return _import_file(Path(source)) if source.endswith(".py") or not is_module else _import_module(source)


def _import_file(path: Path) -> ModuleType:
    """Run a file as a module, with its directory on the path. Refuse one that would hide another module."""
    if path.is_dir():
        names = ", ".join(str(path / name) for name in _list_files(path))
        remedy = f"Name a file in it: {names}" if names else "It has no .py file"
        raise DefinitionError(f"{str(path)!r} is a directory. {remedy}.")
    if not path.is_file():
        if " " in path.name and path.suffix != ".py":
            raise DefinitionError(f"{str(path)!r} is not a file. Name one as the first argument, such as tools.py.")
        raise DefinitionError(f"There is no file {str(path)!r}{suggest(path.name, _list_files(path.parent))}")
    if path.suffix != ".py":
        raise DefinitionError(f"{str(path)!r} is not a Python file (.py).")
    if _hides_module(path):
        raise DefinitionError(f"{str(path)!r} would hide the module {path.stem!r}. Give the file another name.")

    directory = str(path.resolve().parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)  # as `python tools.py` does, for the modules beside it
    return _run_code(path.read_bytes(), path.stem, str(path.resolve()))


def _hides_module(path: Path) -> bool:
    """Return whether a module of Python or of an installed package has the name of a file; `test` may be hidden."""
    spec = PathFinder.find_spec(path.stem)
    is_other = spec is not None and spec.origin is not None and Path(spec.origin).resolve() != path.resolve()
    return path.stem != "test" and (is_other or path.stem in sys.stdlib_module_names)


def _run_code(code: str | bytes, name: str, file: str) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    module.__file__ = file
    exec(compile(code, file, "exec", dont_inherit=True), vars(module))  # noqa: S102  a person has named or typed it
    return module


def _is_other_file(path: Path) -> bool:
    """Return whether a path that might be the name of a module is a file, or a directory that is not a package."""
    return path.is_file() or (path.is_dir() and not (path / "__init__.py").is_file())


def _list_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.py"))


def _import_module(name: str) -> ModuleType:
    sys.path.insert(0, "")  # as `python -m` does
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module imports one that is missing
        near = suggest(f"{name}.py", _list_files(Path()))
        raise DefinitionError(f"There is no file or module {name!r}{near}") from None


def _get_member(module: ModuleType, name: str, source: str) -> Any:
    if not hasattr(module, name):
        names = [name for name, value in vars(module).items() if isinstance(value, (Runner, Toolbox, Tool))]
        raise DefinitionError(f"{source} has no {name!r}{suggest(name, names)}")
    return getattr(module, name)
