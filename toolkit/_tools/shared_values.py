"""Values that the calls of one run share, by instance and dotted path; and the part that a call may read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import from_json, to_json

from toolkit._messages import IMPORTS, INSTANCE, MODULE, OUTPUT, OUTPUT_PATH, REASONING
from toolkit._schema.error_messages import suggest
from toolkit.errors import DefinitionError, Failed, InvalidArguments

if TYPE_CHECKING:
    from toolkit._context import ToolContext

# Limits of one run: bytes of JSON and of paths, and names in a path.
MAX_BYTES = 16 * 2**20
MAX_DEPTH = 32
# An optional prefix of a path, which means nothing.
STATE = "state."

Path: TypeAlias = tuple[str, ...]


class SharedValues:
    """JSON values of one run, each at a dotted path, such as "trip.city", and of an instance or of none.

    Thread-safe. Values are copied on the way out. Calls cannot overwrite values of the application.

    Args:
        values: The first values by path, of no instance.

    Raises:
        ValueError: A value is not JSON, or they are too large.
    """

    def __init__(self, values: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._lock = RLock()
        self._trees: Mapping[str, Any] = {}  # replaced and never changed, so that reading needs no lock
        self._sizes: Mapping[Path, int] = {}
        self._owned: frozenset[Path] = frozenset()  # paths of the application's values, each after its instance
        for path, value in values.items():
            self.set(path, value)

    @classmethod
    def of(cls, given: SharedValues | Mapping[str, Any] | None) -> SharedValues:
        """Return SharedValues as they are. Make them of values by path, or of None.

        Raises:
            TypeError: The value is something else.
            ValueError: A value is not JSON, or they are too large.
        """
        if isinstance(given, (Mapping, type(None))):
            return cls(given or {})
        if not isinstance(given, SharedValues):
            raise TypeError(f"shared={given!r:.100} is neither SharedValues nor a mapping of values by path.")
        return given

    def set(self, path: str, value: Any, instance: str = "") -> None:
        """Store a value at a path, in place of an earlier one. Missing objects on the way are created.

        Args:
            path: At most 32 names with dots between.
            value: Anything that can be written as JSON.
            instance: The instance that it belongs to.

        Raises:
            ValueError: The value is not JSON, all values together exceed 16 MiB, or the path is malformed.
        """
        steps = parse_path(path)
        with self._lock:
            self._owned |= {(instance, *steps)}
            owners = {place[0] for place in self._owned if overlap(place[1:], steps)}
            hiding = [place for place in self._sizes if place[0] not in owners and overlap(place[1:], steps)]
            for place in hiding:  # values of calls, which would hide the application's
                self._trees = _remove_at(self._trees, min(place, (place[0], *steps), key=len))
            self._sizes = {
                place: size
                for place, size in self._sizes.items()
                if not any(place[: len(each)] == each for each in hiding)  # what was added to one of them is gone, too
            }

        self._store(path, value, instance)

    def store_result(self, path: str, value: Any, instance: str = "") -> None:
        """Store the result of a call, as `set` does.

        Raises:
            ValueError: As for `set`; or it would overwrite or extend a value of the application.
        """
        with self._lock:
            self.check_path(path)
            self._store(path, value, instance)

    def check_path(self, path: str) -> None:
        """Check that a call may store its result at a path.

        Raises:
            ValueError: The application has a value there, above it or below it.
        """
        steps = parse_path(path)
        for _, *other in self._owned:
            if overlap(tuple(other), steps):
                raise ValueError(f"{path!r} cannot be written: {'.'.join(other)!r} is read-only. Choose another path.")

    def _store(self, path: str, value: Any, instance: str) -> None:
        place = (instance, *parse_path(path))
        text = _dump_value(path, value)
        with self._lock:
            sizes = {other: size for other, size in self._sizes.items() if other[: len(place)] != place}
            sizes[place] = len(text) + len(path)
            if sum(sizes.values()) > MAX_BYTES:
                size = f"it has {len(text):,} bytes; all values may have {MAX_BYTES:,}"
                raise ValueError(f"{path!r} was not stored: {size}.")
            self._trees = _set_at(self._trees, place, from_json(text))
            self._sizes = sizes  # last: whoever finds a path there reads its value

    def get(self, path: str, instance: str = "") -> Any:
        """Return the value of the instance, or else the value that belongs to no instance.

        Raises:
            KeyError: There is no value. The message lists the paths that have one.
            ValueError: The path is malformed.
        """
        steps = parse_path(path)
        for owner in (instance, ""):
            with suppress(LookupError):
                return deepcopy(_follow_path(self._trees.get(owner), steps))
        raise missing_value(path, self.paths(instance))

    def paths(self, instance: str = "") -> tuple[str, ...]:
        """List the paths that an instance may see, in alphabetical order."""
        return tuple(sorted({".".join(place[1:]) for place in self._sizes if place[0] in (instance, "")}))

    def view(self, instance: str = "") -> Mapping[str, Any]:
        """Return a read-only view of the values that an instance may see."""
        return _View(self, instance)


# The shared values of a run: SharedValues, which later runs may share, or values by path.
Values: TypeAlias = SharedValues | Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class _View(Mapping[str, Any]):
    """Values by path, for reading."""

    _shared: SharedValues
    _instance: str

    def __getitem__(self, path: str) -> Any:
        try:
            return self._shared.get(path, self._instance)
        except ValueError as error:
            raise KeyError(*error.args) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._shared.paths(self._instance))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # another process gets a copy


# The view of a run without shared values.
NOTHING_SHARED: Mapping[str, Any] = SharedValues().view()


def missing_value(path: str, paths: Collection[str]) -> KeyError:
    """Make the error of a path without a value. It lists the paths that have one."""
    return KeyError(f"there is nothing at {path!r}{suggest(path, paths)}")


def parse_path(text: str) -> Path:
    """Split a path into its names, outermost first.

    Raises:
        ValueError: A name is empty, or there are too many.
    """
    steps = tuple(text.removeprefix(STATE).split(".")) if isinstance(text, str) else ("",)
    if len(steps) > MAX_DEPTH or not all(steps):
        raise ValueError(
            f"{text!r:.100} is not a path: one to {MAX_DEPTH} names with dots between, such as 'trip.city'."
        )
    return steps


def _dump_value(path: str, value: Any) -> bytes:
    try:
        return to_json(value, inf_nan_mode="strings")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path!r} was not stored: it cannot be written as JSON: {error}") from error


def _set_at(tree: Any, place: Path, value: Any) -> Any:
    """Copy a tree with a value at a place. A value on the way that is not an object is replaced by an object."""
    if not place:
        return value
    own = tree if isinstance(tree, dict) else {}
    return {**own, place[0]: _set_at(own.get(place[0]), place[1:], value)}


def _remove_at(tree: Any, place: Path) -> Any:
    """Copy a tree without the value at a place, if there is one."""
    if not isinstance(tree, dict) or place[0] not in tree:
        return tree
    others = {name: value for name, value in tree.items() if name != place[0]}
    return {**others, place[0]: _remove_at(tree[place[0]], place[1:])} if place[1:] else others


def overlap(one: Path, other: Path) -> bool:
    """Return whether two paths are equal, or one leads to a place inside the other."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _follow_path(tree: Any, steps: Path) -> Any:
    """Follow a path into a tree, or raise LookupError. A list is entered by a number."""
    for step in steps:
        if isinstance(tree, list) and step.isdecimal():
            tree = tree[int(step)]
        elif isinstance(tree, dict):
            tree = tree[step]
        else:
            raise LookupError(step)
    return tree


# The first character of a reference.
MARK = "†"
# Between references of which the first that has a value counts.
OR = "||"
# JSON Schema of a reference. Grammar compilers need patterns that are anchored at both ends.
REFERENCE: Mapping[str, Any] = {"type": "string", "pattern": f"^{MARK}.+$"}

# Schemas of the meta keys by which calls refer to each other.
META_SCHEMAS: Mapping[str, Any] = {
    INSTANCE: {
        "type": "string",
        "description": "Which of several things of one kind this call is about. Each has results of its own.",
    },
    OUTPUT_PATH: {
        "type": "string",
        "description": (
            'Where the result is stored, such as "trip.city". An argument "†trip.city" of any other call stands for '
            'it, "†trip.city || †home" for the first that there is. A text that itself begins with † begins with ††.'
        ),
    },
}


# Keywords about a parameter, not about its values.
_ANNOTATIONS = ("title", "description", "default", "examples", "deprecated")


def describe_result(schema: Mapping[str, Any], output: Mapping[str, Any]) -> dict[str, Any]:
    """Add the JSON Schema of a tool's result to the description of the path where it is stored."""
    text = f"{schema.get('description', '')} The JSON Schema of the result: {to_json(output).decode()}"
    return {**schema, "description": text.strip()}


def allow_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Extend a schema so that each argument but the output may be a reference."""
    parts = schema["properties"].items()
    return {**schema, "properties": {name: part if name == OUTPUT else _allow_reference(part) for name, part in parts}}


def _allow_reference(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        return {"anyOf": [schema, {**REFERENCE}]}
    annotations = {key: schema[key] for key in _ANNOTATIONS if key in schema}
    bare = {key: value for key, value in schema.items() if key not in annotations}
    return {"anyOf": [bare, {**REFERENCE}], **annotations}


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
        module: The module that executes them in a run of its own; empty if there is none.
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
        """Restrict a context to the imported values that the model asked for. In a module, it has no `deps` either.

        Raises:
            InvalidArguments: The model asked for a value that the call may not see.
            Failed: There is no value at an imported path.
        """
        inner = replace(context, deps=None) if self.module else context
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
    """Parse the module and the imports of a declaration. Return None if it has neither.

    Args:
        module: A name, as text or as a schema with a constant.
        imports: Paths, as a list or as a schema with a constant; or a JSON Schema of an array whose items are an enum.

    Raises:
        DefinitionError: Either is something else.
    """
    scope = Scope(_parse_module(module), *_parse_imports(imports))
    return None if scope == Scope() else scope


def _parse_module(value: Any) -> str:
    if value is None:
        return ""
    name = value.get("const") if isinstance(value, Mapping) else value
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
    except ValueError:
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
