"""The part of a run that a tool's calls may see, and the meta keys of the calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from toolkit._messages import IMPORTS, MODULE, REASONING
from toolkit._schema.error_messages import suggest
from toolkit._tools.shared_values import SharedValues, parse_path
from toolkit.errors import DefinitionError, Failed, InvalidArguments

if TYPE_CHECKING:
    from toolkit._context import ToolContext

# The description of `_imports` where the schema has none.
IMPORTS_TEXT = "Names of the values that this call may see."
# The meta key that reasoning=True adds.
REASONING_SCHEMA: Mapping[str, Any] = {
    REASONING: {"type": "string", "description": "Why this call is made, in one sentence."}
}


def make_meta_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Make the fields of a tool that hold its meta schemas and its scope."""
    scope = parse_scope(given.get("module"), given.get("imports")) or given.get("_scope")
    meta = {
        **(scope.meta if scope else {}),
        **given.get("_meta", {}),
        **(REASONING_SCHEMA if given.get("reasoning") else {}),
    }
    return {**({"_scope": scope} if scope else {}), **({"_meta": meta} if meta else {})}


@dataclass(frozen=True)
class Scope:
    """The part of the run that the calls of a tool may see.

    Attributes:
        module: The module that executes them in a run of its own; empty where there is none.
        imports: Paths of the shared values that a call may see. None is all of them, and in a module none.
        schema: JSON Schema of the names that the model asks for; None where a call sees all of `imports`.
    """

    module: str = ""
    imports: tuple[str, ...] | None = None
    schema: Mapping[str, Any] | None = None

    @property
    def meta(self) -> Mapping[str, Any]:
        """JSON Schemas of the meta keys that the model fills in."""
        return {} if self.schema is None else {IMPORTS: self.schema}

    def restrict(self, context: ToolContext[Any], asked: Collection[str]) -> ToolContext[Any]:
        """Restrict a context to the imported values; in a module it has no `deps` either.

        Args:
            context: The context of the run.
            asked: The paths that the model asked for.

        Raises:
            InvalidArguments: The model asked for a value that the call may not see.
            Failed: There is no value at an imported path.
        """
        inner = replace(context, deps=None) if self.module else context
        if self.imports is None and not self.module:
            return inner
        return replace(inner, shared=SharedValues(_import_values(context.shared, self._list_visible(asked))).view())

    def _list_visible(self, asked: Collection[str]) -> Collection[str]:
        allowed = self.imports or ()
        if self.schema is None:
            return allowed
        unknown = next((name for name in asked if name not in allowed), None)
        if unknown is not None:
            raise InvalidArguments(f"{IMPORTS}: {unknown[:100]!r} is not one of {', '.join(allowed)}.")
        return asked


def parse_scope(module: Any, imports: Any) -> Scope | None:
    """Parse the module and the imports of a declaration; None where it has neither.

    Args:
        module: A name, as text or as a schema with a constant.
        imports: Paths, as a list or as a schema with a constant; or a JSON Schema of an array whose items are an enum.

    Raises:
        DefinitionError: Either is something else.
    """
    scope = Scope(_parse_module(module), *_parse_imports(imports))
    return None if scope == Scope() else scope


def _parse_module(value: Any) -> str:
    name = value.get("const") if isinstance(value, Mapping) else "" if value is None else value
    if not isinstance(name, str):
        raise DefinitionError(f'{MODULE} is {value!r}. It is the name of a module, {{"const": "name"}}.')
    return name


def _parse_imports(value: Any) -> tuple[tuple[str, ...] | None, Mapping[str, Any] | None]:
    if value is None:
        return None, None
    if not isinstance(value, Mapping) or "const" in value:
        return _parse_paths(value, value["const"] if isinstance(value, Mapping) else value), None
    items = value.get("items")
    names = _parse_paths(value, items.get("enum") if isinstance(items, Mapping) else None)
    return names, {"description": IMPORTS_TEXT, **value, "type": "array", "items": {"type": "string", "enum": [*names]}}


def _parse_paths(value: Any, names: Any) -> tuple[str, ...]:
    try:
        if isinstance(names, (list, tuple)) and all(parse_path(name) for name in names):
            return tuple(names)
    except (ValueError, AttributeError):
        pass
    raise DefinitionError(
        f'{IMPORTS} is {value!r}. It is a list of shared values, {{"const": ["city"]}}; or, where the model asks for '
        f'them, {{"type": "array", "items": {{"enum": ["city"]}}}}.'
    )


def _import_values(shared: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    missing = next((name for name in names if name not in shared), None)
    if missing is not None:
        raise Failed(f"{IMPORTS}: there is nothing at {missing!r}{suggest(missing, [*shared])}")
    return {name: shared[name] for name in names}
