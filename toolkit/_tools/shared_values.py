"""Values that the calls of one run share: by dotted path, told apart by instance."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolkit._messages import INSTANCE, OUTPUT, OUTPUT_PATH
from toolkit._schema.error_messages import suggest

# What one run may keep, in bytes of JSON and of paths; and how deep a path may lead.
MAX_BYTES = 16 * 2**20
MAX_DEPTH = 32
# A path may begin so; it is the same without.
STATE = "state."

Path: TypeAlias = tuple[str, ...]


class SharedValues:
    """Values of one run, as JSON has them: each at a dotted path, such as "trip.city", and of an instance or of none.

    Any thread may read and write. What is given out is a copy.

    Args:
        values: What is there from the beginning, by path, and belongs to no instance.

    Raises:
        ValueError: One is no JSON, or they are too large.
    """

    def __init__(self, values: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._lock = Lock()
        self._trees: Mapping[str, Any] = {}  # never changed, so that who reads needs no lock
        self._sizes: Mapping[Path, int] = {}
        for path, value in values.items():
            self.set(path, value)

    @classmethod
    def of(cls, given: SharedValues | Mapping[str, Any] | None) -> SharedValues:
        """Take what there is, or make it of values by path.

        Raises:
            TypeError: It is neither.
            ValueError: A value is no JSON, or they are too large.
        """
        if isinstance(given, (Mapping, type(None))):
            return cls(given or {})
        if not isinstance(given, SharedValues):
            raise TypeError(f"shared={given!r} is neither a Shared nor a mapping of values by path.")
        return given

    def set(self, path: str, value: Any, instance: str = "") -> None:
        """Keep a value; what stood there gives way, and what is missing on the way is made.

        Args:
            path: Names that stand inside each other, with dots between; at most 32.
            value: Anything that JSON has a form for.
            instance: What it belongs to.

        Raises:
            ValueError: It is no JSON, or there is no room left: 16 MiB for all together; or the path is none.
        """
        place, text = (instance, *parse_path(path)), _written(path, value)
        with self._lock:
            sizes = {kept: size for kept, size in self._sizes.items() if kept[: len(place)] != place}
            sizes[place] = len(text) + len(path)
            if sum(sizes.values()) > MAX_BYTES:
                raise ValueError(f"{path!r} was not kept: it has {len(text):,} bytes, and there is no room for them.")
            self._sizes = sizes
            self._trees = _placed(self._trees, place, from_json(text))

    def get(self, path: str, instance: str = "") -> Any:
        """Find a value: that of the instance, or else the one that belongs to none.

        Raises:
            KeyError: There is none; the message says what there is.
            ValueError: The path is none.
        """
        steps = parse_path(path)
        for owner in (instance, ""):
            found = _found(self._trees.get(owner), steps)
            if found is not None:
                return deepcopy(found[0])
        raise missing_value(path, self.paths(instance))

    def copy(self) -> SharedValues:
        """Give another one with what is there now."""
        copy = SharedValues()
        with self._lock:
            copy._trees, copy._sizes = self._trees, self._sizes
        return copy

    def paths(self, instance: str = "") -> tuple[str, ...]:
        """List what an instance may see, in alphabetical order: calls end in any."""
        return tuple(sorted({".".join(place[1:]) for place in self._sizes if place[0] in (instance, "")}))

    def view(self, names: Collection[str] | None = None, instance: str = "") -> Mapping[str, Any]:
        """Show the values to somebody who may not change them: all, or those at some paths and what they hold."""
        return _View(self, None if names is None else tuple(names), instance)


# What a run is given to share: a Shared, which keeps what is put into it, or values by path.
Values: TypeAlias = SharedValues | Mapping[str, Any] | None


class _View(Mapping[str, Any]):
    """Values by path, for reading."""

    def __init__(self, shared: SharedValues, names: tuple[str, ...] | None, instance: str) -> None:
        self._shared = shared
        self._names = names
        self._instance = instance

    def __getitem__(self, path: str) -> Any:
        if not self._shows(path):
            raise missing_value(path, list(self))
        try:
            return self._shared.get(path, self._instance)
        except ValueError as error:
            raise KeyError(*error.args) from error

    def __iter__(self) -> Iterator[str]:
        if self._names is None:
            return iter(self._shared.paths(self._instance))
        return (name for name in self._names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # another process sees what there is now

    def _shows(self, path: str) -> bool:
        return self._names is None or any(f"{path}.".startswith(f"{name}.") for name in self._names)


def missing_value(path: str, paths: Collection[str]) -> KeyError:
    """Say that there is nothing at a path, and where there is something."""
    return KeyError(f"there is nothing at {path!r}{suggest(path, paths)}")


def parse_path(text: str) -> Path:
    """Read a path: the names in it, outermost first.

    Raises:
        ValueError: A name is empty, or there are too many.
    """
    steps = tuple(text.removeprefix(STATE).split(".")) if isinstance(text, str) else ("",)
    if len(steps) > MAX_DEPTH or not all(steps):
        raise ValueError(f"{text!r:.100} is no path: one to {MAX_DEPTH} names with dots between, such as 'trip.city'.")
    return steps


def _written(path: str, value: Any) -> bytes:
    try:
        return to_json(value, inf_nan_mode="strings")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ValueError(f"{path!r} was not kept: JSON has no form for it: {error}") from error


def _placed(tree: Any, place: Path, value: Any) -> Any:
    """Make the same tree with a value at a place; what is no object on the way gives way to one."""
    if not place:
        return value
    own = tree if isinstance(tree, dict) else {}
    return {**own, place[0]: _placed(own.get(place[0]), place[1:], value)}


def _found(tree: Any, steps: Path) -> tuple[Any] | None:
    """Walk into a tree; None where that leads nowhere."""
    for step in steps:
        inner = _inner(tree, step)
        if inner is None:
            return None
        tree = inner[0]
    return (tree,)


def _inner(tree: Any, step: str) -> tuple[Any] | None:
    """Take one step; a list is entered by a number."""
    if isinstance(tree, list) and step.isdecimal():
        return tuple(tree[int(step) : int(step) + 1]) or None
    return (tree[step],) if isinstance(tree, dict) and step in tree else None


MARK = "†"


# JSON Schema of what may stand for any argument; grammar compilers take patterns that are bound at both ends.
REFERENCE: Mapping[str, Any] = {"type": "string", "pattern": f"^{MARK}.+$"}


# What a model may say of a call beside its arguments, where calls refer to each other.
ABOUT: Mapping[str, Any] = {
    INSTANCE: {
        "type": "string",
        "description": "Which of several things alike this call is about. Each has kept results of its own.",
    },
    OUTPUT_PATH: {
        "type": "string",
        "description": (
            'Where the result is kept, such as "trip.city". An argument "†trip.city" of any other call stands for it. '
            "A text that itself begins with † begins with ††."
        ),
    },
}


# Keywords that tell of a parameter, not of its value.
_TOLD = ("title", "description", "default", "examples", "deprecated")


def allow_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Show that each argument may be a reference."""
    shown = schema["properties"]
    wide = {name: part if name == OUTPUT else _wide(part) for name, part in shown.items()}
    return {**schema, "properties": wide}


def _wide(schema: Any) -> dict[str, Any]:
    told = {key: schema[key] for key in _TOLD if key in schema} if isinstance(schema, Mapping) else {}
    bare = {key: value for key, value in schema.items() if key not in told} if told else schema
    return {"anyOf": [bare, {**REFERENCE}], **told}
