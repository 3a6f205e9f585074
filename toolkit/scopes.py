"""What a call may see of the run that makes it: all of it, or no more than its `_imports` say, and in a module."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolkit._context import ToolContext
from toolkit._messages import IMPORTS, MODULE
from toolkit._schema.error_messages import close_to
from toolkit.errors import DefinitionError, Failed, InvalidArguments
from toolkit.shared import Shared, path_of

ASKED = "Names of the values that this call may see."


@dataclass(frozen=True)
class Scope:
    """What the calls of a tool may see.

    Attributes:
        module: The module that they are carried out in, apart from the run; empty where they are not.
        imports: Paths of the shared values that may be seen; None where nothing is said: all, and in a module none.
        shown: JSON Schema of the names that the model asks for; None where it is given all of `imports`.
    """

    module: str = ""
    imports: tuple[str, ...] | None = None
    shown: Mapping[str, Any] | None = None

    @property
    def about(self) -> Mapping[str, Any]:
        """What the model is to say of a call: schemas by key."""
        return {} if self.shown is None else {IMPORTS: self.shown}

    def entered(self, context: ToolContext[Any], asked: Collection[str]) -> ToolContext[Any]:
        """Make the context of a call: with no other shared values than its imports and, in a module, without `deps`.

        Args:
            context: Of the run.
            asked: What the model asked for.

        Raises:
            InvalidArguments: It asked for what may not be seen.
            Failed: An import is not there.
        """
        inner = replace(context, deps=None) if self.module else context
        if self.imports is None and not self.module:
            return inner
        return replace(inner, shared=Shared(_found(context.shared, self._names(asked))).view())

    def _names(self, asked: Collection[str]) -> Collection[str]:
        allowed = self.imports or ()
        if self.shown is None:
            return allowed
        unknown = next((name for name in asked if name not in allowed), None)
        if unknown is not None:
            raise InvalidArguments(f"{IMPORTS}: {unknown[:100]!r} is none of {', '.join(allowed)}.")
        return asked


def scope_of(module: Any, imports: Any) -> Scope | None:
    """Read what a declaration says of a scope; None where that is nothing.

    Args:
        module: A name, as text or as a constant.
        imports: Paths, as a list or as a constant; or a JSON Schema of an array, whose items are one of a few.

    Raises:
        DefinitionError: It is something else.
    """
    scope = Scope(_module(module), *_imports(imports))
    return None if scope == Scope() else scope


def _module(said: Any) -> str:
    name = said.get("const") if isinstance(said, Mapping) else "" if said is None else said
    if not isinstance(name, str):
        raise DefinitionError(f'{MODULE} is {said!r}. It is the name of a module, {{"const": "name"}}.')
    return name


def _imports(said: Any) -> tuple[tuple[str, ...] | None, Mapping[str, Any] | None]:
    if said is None:
        return None, None
    if not isinstance(said, Mapping) or "const" in said:
        return _paths(said, said["const"] if isinstance(said, Mapping) else said), None
    items = said.get("items")
    names = _paths(said, items.get("enum") if isinstance(items, Mapping) else None)
    return names, {"description": ASKED, **said, "type": "array", "items": {"type": "string", "enum": [*names]}}


def _paths(said: Any, names: Any) -> tuple[str, ...]:
    try:
        if isinstance(names, (list, tuple)) and all(path_of(name) for name in names):
            return tuple(names)
    except (ValueError, AttributeError):
        pass
    raise DefinitionError(
        f'{IMPORTS} is {said!r}. It is a list of shared values, {{"const": ["city"]}}; or, where the model asks for '
        f'them, {{"type": "array", "items": {{"enum": ["city"]}}}}.'
    )


def _found(shared: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    missing = next((name for name in names if name not in shared), None)
    if missing is not None:
        raise Failed(f"{IMPORTS}: there is nothing at {missing!r}{close_to(missing, [*shared])}")
    return {name: shared[name] for name in names}
