"""The usual types, written by hand: what pydantic makes of them, without the time that it takes.

One walk over a type, two ways to write what is met: as JSON Schema for the model, as pydantic-core's schema for the
validator. Both are what pydantic itself makes, and any type that is not usual is left to it.

pydantic-core's schemas, mended where pydantic means Python's values and a model sends JSON.

All types that are not usual: pydantic makes their schemas, of validator and of JSON, from one source.

Types become the keys of a TypedDict, whose keys may be any text, so no name is special. What is known of a class is
kept as long as the class lives: many tools share few models.
"""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from collections.abc import (
    Callable,
    Collection,
    Container,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Reversible,
    Sequence,
)
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import Enum
from itertools import chain, groupby
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin
from uuid import UUID
from weakref import WeakKeyDictionary

from pydantic_core import CoreConfig, SchemaValidator, from_json, to_json, to_jsonable_python
from typing_extensions import LiteralString, TypedDict

from toolkit._schema.json_schema import clean, clean_all, generator

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FINITE: Mapping[str, Any] = {"allow_inf_nan": False}  # JSON has no NaN and no infinity

# What stands in a core schema beside schemas.
_DATA = frozenset({"default", "expected", "members", "metadata", "serialization", "config", "function", "cls", "ref"})


def mended(core: Any) -> Any:
    """Make a schema, or several, whose validator takes what the JSON Schema says.

    - The numbers of models are finite, where these do not allow others themselves.
    - A member of an enumeration, or bytes, in a Literal is known by its value in JSON; so is a member whose value is a
      tuple, a date or another one that JSON writes in another way.
    - Where a text or bytes may stand, a text is a text.
    - An Iterable is read and checked before the call.
    """
    if isinstance(core, (list, tuple)):
        return type(core)(map(mended, core))
    if not isinstance(core, dict):
        return core
    inner = {key: _inner(key, value) for key, value in core.items()}
    if isinstance(inner.get("config"), dict):
        inner["config"] = {**FINITE, **inner["config"]}
    return _KINDS.get(inner.get("type"), dict)(inner)


def _inner(key: str, value: Any) -> Any:
    if key in ("fields", "choices") and isinstance(value, dict):
        return {name: mended(core) for name, core in value.items()}
    return value if key in _DATA else mended(value)


def _literal_core(core: dict[str, Any]) -> dict[str, Any]:
    kinds = {type(value) for value in core["expected"]}
    if not any(issubclass(kind, (Enum, bytes)) for kind in kinds):
        return core
    parts = groupby(core["expected"], type)
    return {**core, "type": "union", "choices": [_of_kind(kind, list(values)) for kind, values in parts]}


def _of_kind(kind: type, values: list[Any]) -> dict[str, Any]:
    literal = {"type": "literal", "expected": values}
    if issubclass(kind, bytes):
        return {"type": "chain", "steps": [{"type": "bytes"}, literal]}
    if issubclass(kind, Enum):  # its validator knows all members, whichever it is given
        members = _enumeration({"type": "enum", "cls": kind, "members": list(kind)})
        return {"type": "chain", "steps": [members, literal]}
    return literal


def _enumeration(core: dict[str, Any]) -> dict[str, Any]:
    written = [(to_jsonable_python(member.value), member) for member in core["members"] if not _is_plain(member.value)]
    if not written:
        return core

    def member_of(value: Any) -> Any:
        return next((member for form, member in written if form == value), value)

    place = {"ref": core["ref"]} if "ref" in core else {}
    inner = {key: value for key, value in core.items() if key != "ref"}
    return {"type": "function-before", "function": {"type": "no-info", "function": member_of}, "schema": inner, **place}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _union_core(core: dict[str, Any]) -> dict[str, Any]:
    return {**core, "choices": texts_first(core["choices"])}


def texts_first(choices: Sequence[Any]) -> list[Any]:
    """Put bytes, which any text can be, behind the other members of a union."""
    return sorted(choices, key=_is_bytes)


def _is_bytes(choice: Any) -> bool:
    return isinstance(choice, dict) and choice["type"] == "bytes"


def _iterable(core: dict[str, Any]) -> dict[str, Any]:
    return {**core, "type": "list"}


_KINDS: Mapping[Any, Any] = {
    "literal": _literal_core,
    "generator": _iterable,
    "enum": _enumeration,
    "union": _union_core,
}


Node: TypeAlias = dict[str, Any]

_LISTS = frozenset({list, set, frozenset, Collection, Container, Reversible, Iterator})
_BARE: Mapping[Any, Any] = {
    list: list[Any],
    set: set[Any],
    frozenset: frozenset[Any],
    tuple: tuple[Any, ...],
    dict: dict[Any, Any],
}


def _then(function: Callable[[Any], Any], core: Node) -> Node:
    """Make pydantic-core's schema of what a function makes of a value."""
    return {"type": "function-after", "function": {"type": "no-info", "function": function}, "schema": core}


class Unusual(Exception):
    """A type is none of those that are written by hand."""


class Writer(ABC):
    """A way to write types down."""

    scalars: ClassVar[Mapping[Any, Node]]

    def write(self, annotation: Any) -> Node:
        """Write a type.

        Raises:
            Unusual: It is left to pydantic.
        """
        origin, args = get_origin(annotation), get_args(annotation)
        if origin is None and isinstance(annotation, Hashable):
            return self._bare(annotation)
        if not args:
            raise Unusual
        if origin in _LISTS:
            return self.listed(origin, self.write(*args))
        if origin in _FORMS:
            return _FORMS[origin](self, args)
        raise Unusual

    def _bare(self, kind: Any) -> Node:
        if kind in self.scalars:
            return dict(self.scalars[kind])
        if kind in _BARE:
            return self.write(_BARE[kind])
        if isinstance(kind, type):
            return self.named(kind)
        raise Unusual

    @abstractmethod
    def listed(self, kind: Any, item: Node) -> Node:
        """Write a list, a set, a frozenset or, of abstract ones, what a list can be."""

    @abstractmethod
    def row(self, items: Sequence[Node], repeated: int | None) -> Node:
        """Write a tuple; the item of the number `repeated` may be there any number of times."""

    @abstractmethod
    def mapping(self, key: Node, value: Node) -> Node:
        """Write a dict."""

    @abstractmethod
    def literal(self, values: Sequence[Any]) -> Node:
        """Write a Literal of texts or of integers."""

    @abstractmethod
    def nullable(self, node: Node) -> Node:
        """Write what may be None, too."""

    @abstractmethod
    def choice(self, nodes: Sequence[Node]) -> Node:
        """Write a union."""

    @abstractmethod
    def named(self, kind: type) -> Node:
        """Write a class that is none of the others."""


class JsonWriter(Writer, ABC):
    """Writes JSON Schema, draft 2020-12."""

    scalars: ClassVar[Mapping[Any, Node]] = {
        str: {"type": "string"},
        int: {"type": "integer"},
        float: {"type": "number"},
        bool: {"type": "boolean"},
        None: {"type": "null"},
        type(None): {"type": "null"},
        Any: {},
        object: {},
        LiteralString: {"type": "string"},
        bytes: {"type": "string", "format": "binary"},
        bytearray: {"type": "string", "format": "binary"},
        date: {"type": "string", "format": "date"},
        datetime: {"type": "string", "format": "date-time"},
        time: {"type": "string", "format": "time"},
        timedelta: {"type": "string", "format": "duration"},
        UUID: {"type": "string", "format": "uuid"},
    }

    def listed(self, kind: Any, item: Node) -> Node:
        """Write a list, a set, a frozenset or, of abstract ones, what a list can be."""
        return {"type": "array", "items": item, **({"uniqueItems": True} if kind in (set, frozenset) else {})}

    def row(self, items: Sequence[Node], repeated: int | None) -> Node:
        """Write a tuple; behind items that are repeated, any of them may stand anywhere."""
        first = list(items if repeated is None else items[:repeated])
        least = len(items) - (repeated is not None)
        return {
            "type": "array",
            **({"prefixItems": first} if first else {}),
            **({"maxItems": least} if repeated is None else {"items": self.choice(items[repeated:])}),
            **({"minItems": least} if least or repeated is None else {}),
        }

    def mapping(self, key: Node, value: Node) -> Node:  # noqa: ARG002  keys are texts in JSON
        """Write a dict."""
        return {"type": "object", "additionalProperties": value or True}

    def literal(self, values: Sequence[Any]) -> Node:
        """Write a Literal of texts or of integers."""
        kind = "string" if isinstance(values[0], str) else "integer"
        return {"const": values[0], "type": kind} if len(values) == 1 else {"enum": list(values), "type": kind}

    def nullable(self, node: Node) -> Node:
        """Write what may be None, too."""
        return self.choice([node, {"type": "null"}])

    def choice(self, nodes: Sequence[Node]) -> Node:
        """Write a union; equal members are one, and unions in it are its own members."""
        members: list[Node] = []
        for node in nodes:
            inner = node["anyOf"] if node.keys() == {"anyOf"} else [node]
            members += [member for member in inner if member not in members]
        return members[0] if len(members) == 1 else {"anyOf": members}


class CoreWriter(Writer, ABC):
    """Writes the schemas of pydantic-core."""

    scalars: ClassVar[Mapping[Any, Node]] = {
        str: {"type": "str"},
        int: {"type": "int"},
        float: {"type": "float"},
        bool: {"type": "bool"},
        None: {"type": "none"},
        type(None): {"type": "none"},
        Any: {"type": "any"},
        object: {"type": "any"},
        LiteralString: {"type": "str"},
        bytes: {"type": "bytes"},
        bytearray: _then(bytearray, {"type": "bytes"}),
        date: {"type": "date"},
        datetime: {"type": "datetime", "microseconds_precision": "truncate"},
        time: {"type": "time", "microseconds_precision": "truncate"},
        timedelta: {"type": "timedelta", "microseconds_precision": "truncate"},
        UUID: {"type": "uuid"},
    }

    def listed(self, kind: Any, item: Node) -> Node:
        """Write a list, a set, a frozenset or, of abstract ones, what a list can be."""
        if kind is Iterator:
            return _then(iter, self.listed(list, item))
        return {"type": kind.__name__ if kind in (set, frozenset) else "list", "items_schema": item}

    def row(self, items: Sequence[Node], repeated: int | None) -> Node:
        """Write a tuple."""
        place = {} if repeated is None else {"variadic_item_index": repeated}
        return {"type": "tuple", "items_schema": list(items), **place}

    def mapping(self, key: Node, value: Node) -> Node:
        """Write a dict."""
        return {"type": "dict", "keys_schema": key, "values_schema": value}

    def literal(self, values: Sequence[Any]) -> Node:
        """Write a Literal of texts or of integers."""
        return {"type": "literal", "expected": list(values)}

    def nullable(self, node: Node) -> Node:
        """Write what may be None, too."""
        return {"type": "nullable", "schema": node}

    def choice(self, nodes: Sequence[Node]) -> Node:
        """Write a union."""
        return {"type": "union", "choices": texts_first(nodes)}


def _tuple(writer: Writer, args: tuple[Any, ...]) -> Node:
    items = list(_items(args))
    repeated = next((number for number, (_, is_repeated) in enumerate(items) if is_repeated), None)
    return writer.row([writer.write(item) for item, _ in items], repeated)


def _items(args: tuple[Any, ...]) -> Iterable[tuple[Any, bool]]:
    """List the types of a tuple's items, and whether each is repeated; `*tuple[...]` in it stands for its own."""
    if args[1:] == (...,):
        return [(args[0], True)]
    parts = (_items(get_args(arg)) if getattr(arg, "__unpacked__", False) else [(arg, False)] for arg in args)
    return chain.from_iterable(parts)


def _dict(writer: Writer, args: tuple[Any, ...]) -> Node:
    key, value = args
    if key not in (Any, str, int):
        raise Unusual
    return writer.mapping(writer.write(key), writer.write(value))


def _union(writer: Writer, args: tuple[Any, ...]) -> Node:
    choices = [writer.write(arg) for arg in args if arg is not type(None)]
    node = choices[0] if len(choices) == 1 else writer.choice(choices)
    return writer.nullable(node) if len(choices) < len(args) else node


def _literal(writer: Writer, args: tuple[Any, ...]) -> Node:
    kinds = {type(arg) for arg in args}
    if kinds not in ({str}, {int}):
        raise Unusual
    return writer.literal(args)


def _annotated(writer: Writer, args: tuple[Any, ...]) -> Node:
    if all(isinstance(item, str) or hasattr(item, "documentation") for item in args[1:]):
        return writer.write(args[0])
    raise Unusual


_FORMS: Mapping[Any, Callable[[Writer, tuple[Any, ...]], Node]] = {
    tuple: _tuple,
    dict: _dict,
    Union: _union,
    types.UnionType: _union,
    Literal: _literal,
    Annotated: _annotated,
}


# Classes that refer to each other are described again for each that is described alone: of so many, all at once.
MAX_APART = 32


@dataclass(frozen=True)
class Fields:
    """What pydantic makes of named types.

    Attributes:
        cores: pydantic-core's schema of each, as the field of a TypedDict.
        definitions: What they refer to.
    """

    cores: Mapping[str, Node]
    definitions: Sequence[Node]

    def shown(self) -> tuple[dict[str, Node], Node]:
        """Make the JSON Schema of each, and the definitions that these refer to."""
        if not self.cores:
            return {}, {}
        inputs: Any = [
            (name, "validation", {"type": "definitions", "schema": core, "definitions": self.definitions})
            for name, core in self.cores.items()
        ]
        found, definitions = generator()().generate_definitions(inputs)
        return {name: clean(found[name, "validation"]) for name in self.cores}, clean_all(definitions)


def typed_fields(types: Mapping[str, Any], names: Mapping[str, Any]) -> Fields:
    """Make fields of types.

    Args:
        types: By the names of the fields.
        names: What the classes among them may name, besides what their modules hold.

    Raises:
        Exception: Whatever pydantic and the user's types raise where a type cannot be described.
    """
    if not types:
        return Fields({}, ())
    from pydantic import ConfigDict, TypeAdapter

    arguments = TypedDict("arguments", dict(types))  # type: ignore[misc]  # noqa: UP013  keys known at run time only
    arguments.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]
    adapter = TypeAdapter(arguments)
    adapter.rebuild(_types_namespace=names)  # does nothing where all names were found
    core: Any = adapter.core_schema
    whole = core["schema"] if core["type"] == "definitions" else core
    return Fields(whole["fields"], core.get("definitions", ()))


class FieldWriter(JsonWriter):
    """Writes JSON Schema of usual types and of classes.

    Attributes:
        definitions: What the written schemas refer to.
    """

    def __init__(self) -> None:
        self.definitions: Node = {}

    def named(self, kind: type) -> Node:
        """Write a class; its definitions are added to those that are there.

        Raises:
            Unusual: There are many, or two classes have one name.
        """
        if len(self.definitions) > MAX_APART:
            raise Unusual
        found, definitions = _known.schema_of(kind)
        self.add(definitions)
        return found

    def add(self, definitions: Node) -> None:
        """Add definitions.

        Raises:
            Unusual: Two classes have one name.
        """
        if any(self.definitions.get(name, schema) != schema for name, schema in definitions.items()):
            raise Unusual
        self.definitions |= definitions


class Core(CoreWriter):
    """Writes pydantic-core's schemas of usual types, and of classes that carry their own.

    Attributes:
        definitions: What the written schemas refer to, by their names.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Node] = {}

    def named(self, kind: type) -> Node:
        """Write a class."""
        core = _own_core(kind)
        if core is None:
            raise Unusual
        return self.hoisted(mended(core))

    def hoisted(self, core: Node) -> Node:
        """Take the definitions out of a schema."""
        if core["type"] != "definitions":
            return core
        self.add(core["definitions"])
        inner: Node = core["schema"]
        return inner

    def add(self, definitions: Sequence[Node]) -> None:
        """Add definitions."""
        self.definitions |= {each["ref"]: each for each in definitions}


def key_of(name: str, core: Node) -> str:
    """Find the name of a field in JSON: its alias or, of several, the first that is no path.

    Raises:
        TypeError: All are paths into the document, of which JSON Schema has no notion.
    """
    alias = core.get("validation_alias", name)
    if isinstance(alias, str):
        return alias
    paths = alias if isinstance(alias[0], list) else [alias]
    key = next((path[0] for path in paths if len(path) == 1), None)
    if key is None:
        raise TypeError(f"the alias of {name!r} is a path into the document. Give it a name as alias.")
    return str(key)


def validating(cores: Mapping[str, Node], definitions: Mapping[str, Node]) -> Callable[[str], dict[str, Any]]:
    """Make what turns the text of a JSON object with these fields, and no others, into values."""
    arguments = {"type": "typed-dict", "fields": cores, "extra_behavior": "forbid", "config": FINITE}
    whole: Any = {"type": "definitions", "schema": arguments, "definitions": list(definitions.values())}
    # A model's own validator, which would be used otherwise, takes NaN.
    return SchemaValidator(whole, _use_prebuilt=False).validate_json


def json_validator(adapter: TypeAdapter[Any]) -> Callable[[str], Any]:
    """Build a validator of JSON text for any type, with pydantic's schemas adapted to JSON."""
    core: Any = mended(adapter.core_schema)
    return SchemaValidator(core, CoreConfig(allow_inf_nan=False), _use_prebuilt=False).validate_json


@dataclass(frozen=True)
class _Classes:
    """What is known of classes, as JSON text, with the identity of the core schema that it was made of.

    A model that is rebuilt gets another one. A text takes less room than what it says, and no tool can change it for
    another.
    """

    texts: WeakKeyDictionary[type, tuple[int, bytes]] = field(default_factory=WeakKeyDictionary)

    def schema_of(self, kind: type) -> tuple[Node, Node]:
        """Give the JSON Schema of a class, and its definitions."""
        core = _own_core(kind)
        known = self.texts.get(kind)
        if known is None or known[0] != id(core):
            known = self.texts[kind] = (id(core), to_json(self._made(kind, core)))
        made: tuple[Node, Node] = from_json(known[1])
        return made

    def _made(self, kind: type, core: Node | None) -> tuple[Node, Node]:
        made = typed_fields({"it": kind}, {}) if core is None else Fields({"it": core}, ())
        found, definitions = made.shown()
        return found["it"], definitions


_known = _Classes()


def _own_core(kind: type) -> Node | None:
    """Find the core schema that a model or a dataclass of pydantic's carries; None while it is not complete."""
    own = vars(kind)
    core: Node | None = own.get("__pydantic_core_schema__") if own.get("__pydantic_complete__") else None
    return core
