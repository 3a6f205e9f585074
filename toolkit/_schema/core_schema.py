"""Types as JSON Schema for a model, and as pydantic-core's schema for a validator.

The schemas of common types are written here, in less time than pydantic takes, and equal to pydantic's. All other types
are left to pydantic: they become the keys of a TypedDict, which may have any text as keys, so no parameter name is
special.

The JSON Schema of a class is cached as long as the class lives, since many tools share few models.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Reversible, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin
from uuid import UUID
from weakref import WeakKeyDictionary

import typing_extensions
from pydantic_core import from_json, to_json, to_jsonable_python
from typing_extensions import LiteralString, TypedDict, TypeVarTuple

from toolkit._schema.docstrings import find_text
from toolkit._schema.json_schema import UnusableType, as_mapping, iterate_schemas, map_schemas

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# Describing a class alone also describes all classes that it refers to. Beyond this number of definitions, pydantic
# describes the remaining types together.
MAX_SEPARATE = 32

Node: TypeAlias = dict[str, Any]

# In Python 3.11 `typing.Unpack` and `typing_extensions.Unpack` differ.
UNPACK = (getattr(typing, "Unpack", typing_extensions.Unpack), typing_extensions.Unpack)


_TRUNCATED: Mapping[str, Any] = {"microseconds_precision": "truncate"}
_LISTS = frozenset({list, set, frozenset, Collection, Container, Reversible, Iterator})
_BARE: Mapping[Any, Any] = {
    list: list[Any],
    set: set[Any],
    frozenset: frozenset[Any],
    tuple: tuple[Any, ...],
    dict: dict[Any, Any],
}


def apply_after(function: Callable[[Any], Any], core: Mapping[str, Any]) -> Node:
    """Return a core schema that applies a function to the validated value."""
    return {"type": "function-after", "function": {"type": "no-info", "function": function}, "schema": core}


class Unusual(Exception):
    """A type must be left to pydantic."""


class Written(NamedTuple):
    """The schemas of one type: JSON Schema for a model, and pydantic-core's schema for a validator."""

    schema: Node
    core: Node


_SCALARS: Mapping[Any, Written] = {
    str: Written({"type": "string"}, {"type": "str"}),
    int: Written({"type": "integer"}, {"type": "int"}),
    float: Written({"type": "number"}, {"type": "float"}),
    bool: Written({"type": "boolean"}, {"type": "bool"}),
    None: Written({"type": "null"}, {"type": "none"}),
    type(None): Written({"type": "null"}, {"type": "none"}),
    Any: Written({}, {"type": "any"}),
    object: Written({}, {"type": "any"}),
    LiteralString: Written({"type": "string"}, {"type": "str"}),
    bytes: Written({"type": "string", "format": "binary"}, {"type": "bytes"}),
    bytearray: Written({"type": "string", "format": "binary"}, apply_after(bytearray, {"type": "bytes"})),
    date: Written({"type": "string", "format": "date"}, {"type": "date"}),
    datetime: Written({"type": "string", "format": "date-time"}, {"type": "datetime", **_TRUNCATED}),
    time: Written({"type": "string", "format": "time"}, {"type": "time", **_TRUNCATED}),
    timedelta: Written({"type": "string", "format": "duration"}, {"type": "timedelta", **_TRUNCATED}),
    UUID: Written({"type": "string", "format": "uuid"}, {"type": "uuid"}),
}


@dataclass
class TypeWriter:
    """Writer of the schemas of common types. `json_mode` adapts the core schemas to JSON."""

    definitions: Node = field(default_factory=dict)  # those that the written JSON Schemas refer to, by name
    core_definitions: Node = field(default_factory=dict)  # those that the written core schemas refer to, by `ref`
    # Classes whose core schemas are still to be generated, and the empty dicts that will hold these.
    unknown: list[tuple[type, Node]] = field(default_factory=list)

    def write_usual(self, types: Mapping[str, Any]) -> dict[str, Written]:
        """Write the common types among named types, by name. Leave out the others."""
        written = {}
        for name, annotation in types.items():
            before = self.definitions
            try:
                written[name] = self.write(annotation)
            except Exception:  # noqa: BLE001  left to pydantic, as a class that pydantic refused here
                self.definitions = before
        return written

    def write(self, annotation: Any) -> Written:
        """Write the schemas of a type.

        Raises:
            Unusual: The type, or a part of it, must be left to pydantic.
        """
        origin = get_origin(annotation)
        args = get_args(annotation)
        if origin in _LISTS and args:
            return _write_list(origin, self.write(*args))
        if origin in _FORMS and args:
            return _FORMS[origin](self, args)
        if origin is None and isinstance(annotation, Hashable):
            if annotation in _SCALARS:
                schema, core = _SCALARS[annotation]
                return Written(dict(schema), core)
            if annotation in _BARE:
                return self.write(_BARE[annotation])
            if isinstance(annotation, type):
                return self._write_class(annotation)

        raise Unusual

    def _write_class(self, kind: type) -> Written:
        """Write a class, and add its definitions."""
        if len(self.definitions) > MAX_SEPARATE:
            raise Unusual
        schema, definitions = _describe_class(kind)
        core = _get_own_core(kind)
        if core is None:
            core = {}
            self.unknown.append((kind, core))
        cores = core.get("definitions", ())
        self.add(definitions, cores)
        return Written(schema, core["schema"] if cores else core)

    def add(self, definitions: Node, cores: Sequence[Node]) -> None:
        """Add definitions of both kinds.

        Raises:
            Unusual: Two classes have one name.
        """
        for name, schema in definitions.items():
            if self.definitions.get(name, schema) != schema:
                raise Unusual
        self.definitions = self.definitions | definitions
        self.core_definitions |= {each["ref"]: each for each in cores}

    def complete(self) -> Sequence[Node]:
        """Generate the missing core schemas, together, and return all definitions of core schemas."""
        if self.unknown:
            generated = generate_fields({str(number): kind for number, (kind, _) in enumerate(self.unknown)}, {})
            for (_, core), built in zip(self.unknown, generated.cores.values()):
                core |= built["schema"]
            self.add({}, generated.definitions)
        return list(self.core_definitions.values())


def _write_list(kind: Any, item: Written) -> Written:
    """Write a list, a set, a frozenset, or an abstract type that a list can be."""
    is_set = kind in (set, frozenset)
    schema = {"type": "array", "items": item.schema, **({"uniqueItems": True} if is_set else {})}
    core = {"type": kind.__name__ if is_set else "list", "items_schema": item.core}
    return Written(schema, apply_after(iter, core) if kind is Iterator else core)


def _write_tuple(writer: TypeWriter, args: tuple[Any, ...]) -> Written:
    """Write a tuple. JSON Schema cannot express the order of the items after a repeated one."""
    items = list(_list_items(args))
    repeated = next((number for number, (_, is_repeated) in enumerate(items) if is_repeated), None)
    schemas, cores = zip(*(writer.write(item) for item, _ in items)) if items else ((), ())
    first = schemas[:repeated]
    least = len(items) if repeated is None else len(items) - 1
    schema = {
        "type": "array",
        **({"prefixItems": list(first)} if first else {}),
        **({"maxItems": least} if repeated is None else {"items": _join_schemas(schemas[repeated:])}),
        **({"minItems": least} if least or repeated is None else {}),
    }
    place = {} if repeated is None else {"variadic_item_index": repeated}
    return Written(schema, {"type": "tuple", "items_schema": list(cores), **place})


def _list_items(args: tuple[Any, ...]) -> Iterable[tuple[Any, bool]]:
    """List the types of a tuple's items, and whether each is repeated. An unpacked tuple is replaced by its items."""
    if args[1:] == (...,):
        return [(args[0], True)]
    return chain.from_iterable(map(_unpack_item, args))


def _unpack_item(item: Any) -> Iterable[tuple[Any, bool]]:
    inner = get_args(item)[0] if get_origin(item) in UNPACK else item
    if isinstance(inner, TypeVarTuple):
        return [(Any, True)]
    is_unpacked = inner is not item or getattr(item, "__unpacked__", False)  # as `*tuple[...]`
    return _list_items(get_args(inner)) if is_unpacked else [(item, False)]


def _write_dict(writer: TypeWriter, args: tuple[Any, ...]) -> Written:
    if args[0] not in (Any, str, int):
        raise Unusual
    key, value = map(writer.write, args)
    schema = {"type": "object", "additionalProperties": value.schema or True}  # keys are texts in JSON
    return Written(schema, {"type": "dict", "keys_schema": key.core, "values_schema": value.core})


def _write_union(writer: TypeWriter, args: tuple[Any, ...]) -> Written:
    schemas, cores = zip(*(writer.write(arg) for arg in args if arg is not type(None)))
    core = cores[0] if len(cores) == 1 else {"type": "union", "choices": list(cores)}
    if len(cores) == len(args):
        return Written(_join_schemas(schemas), core)
    return Written(_join_schemas([*schemas, {"type": "null"}]), {"type": "nullable", "schema": core})


def _join_schemas(schemas: Sequence[Node]) -> Node:
    """Write the JSON Schema of a union, without repeated members and nested unions."""
    members: list[Node] = []
    for schema in schemas:
        inner = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
        members += [member for member in inner if member not in members]
    return members[0] if len(members) == 1 else {"anyOf": members}


def _write_literal(_: TypeWriter, args: tuple[Any, ...]) -> Written:
    kinds = {type(arg) for arg in args}
    if kinds not in ({str}, {int}):
        raise Unusual
    values = {"const": args[0]} if len(args) == 1 else {"enum": list(args)}
    return Written(
        {**values, "type": "string" if kinds == {str} else "integer"}, {"type": "literal", "expected": list(args)}
    )


def _write_annotated(writer: TypeWriter, args: tuple[Any, ...]) -> Written:
    if not all(isinstance(item, str) or hasattr(item, "documentation") for item in args[1:]):
        raise Unusual
    schema, core = writer.write(args[0])
    text = find_text(Annotated[args])
    return Written({**schema, "description": text} if text else schema, core)


_FORMS: Mapping[Any, Callable[[TypeWriter, tuple[Any, ...]], Written]] = {
    tuple: _write_tuple,
    dict: _write_dict,
    Union: _write_union,
    types.UnionType: _write_union,
    Literal: _write_literal,
    Annotated: _write_annotated,
}


@dataclass(frozen=True)
class Fields:
    """Core schemas that pydantic makes of named types, by name, and the definitions that they refer to."""

    cores: Mapping[str, Node]  # each as the field of a TypedDict
    definitions: Sequence[Node]

    def make_json_schemas(self) -> tuple[dict[str, Node], Node]:
        """Return the JSON Schemas by name, and the definitions that they refer to."""
        inputs: Any = [
            (name, "validation", {"type": "definitions", "schema": core, "definitions": self.definitions})
            for name, core in self.cores.items()
        ]
        from toolkit._schema.generator import Generator  # slow to load

        schemas, definitions = Generator().generate_definitions(inputs)
        _require_tags([*schemas.values()], definitions)
        described = {name: clean(schemas[name, "validation"]) for name in self.cores}
        return described, {name: clean(schema) for name, schema in definitions.items()}


def generate_fields(types: Mapping[str, Any], names: Mapping[str, Any]) -> Fields:
    """Generate the schemas of named types by pydantic.

    Args:
        types: Types by name.
        names: Names that classes may use in their annotations, besides those of their modules.

    Raises:
        Exception: Any error of pydantic or of the user's types about a type that cannot be described.
    """
    from pydantic import ConfigDict, TypeAdapter

    arguments = TypedDict("arguments", dict(types))  # type: ignore[misc]  # noqa: UP013  keys known at run time only
    # A class that pydantic does not know is not an error yet: of a union, the other members can be described.
    config = ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)
    arguments.__pydantic_config__ = config  # type: ignore[attr-defined]
    adapter = TypeAdapter(arguments)
    adapter.rebuild(_types_namespace=names)  # does nothing if all names were found
    core: Any = adapter.core_schema
    whole = core["schema"] if core["type"] == "definitions" else core
    return Fields(whole["fields"], core.get("definitions", ()))


def get_key(name: str, core: Node) -> str:
    """Return the name of a field in JSON: its alias or, of several, the first that is not a path.

    Raises:
        TypeError: All aliases are paths into the document, which JSON Schema cannot express.
    """
    alias = core.get("validation_alias", name)
    if isinstance(alias, str):
        return alias
    paths = alias if isinstance(alias[0], list) else [alias]
    key = next((path[0] for path in paths if len(path) == 1), None)
    if key is None:
        raise TypeError(f"the alias of {name!r} is a path into the document. Give it a name as alias.")
    return str(key)


# JSON Schemas of classes as JSON text, each with the identity of its core schema, which a rebuilt model replaces. Text
# takes less memory than a dict, and no tool can change it for another tool.
_class_schemas: WeakKeyDictionary[type, tuple[int, bytes]] = WeakKeyDictionary()


def _describe_class(kind: type) -> tuple[Node, Node]:
    """Return the JSON Schema of a class, and its definitions."""
    core = _get_own_core(kind)
    entry = _class_schemas.get(kind)
    if entry is None or entry[0] != id(core):
        fields = generate_fields({"it": kind}, {}) if core is None else Fields({"it": core}, ())
        schemas, definitions = fields.make_json_schemas()
        entry = _class_schemas[kind] = (id(core), to_json((schemas["it"], definitions)))
    described: tuple[Node, Node] = from_json(entry[1])
    return described


def _get_own_core(kind: type) -> Node | None:
    """Return the core schema that a pydantic model or dataclass carries; None while it is incomplete."""
    own = vars(kind)
    core: Node | None = own.get("__pydantic_core_schema__") if own.get("__pydantic_complete__") else None
    return core


def clean(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Drop titles, which repeat names, and defaults that are not JSON."""
    cleaned: dict[str, Any] = map_schemas(schema, _clean_node)
    return cleaned


def _require_tags(schemas: Any, definitions: Mapping[Any, Any]) -> None:
    """Make the discriminator of each union required: pydantic's validator needs it even if it has a default."""
    for union in iterate_schemas([schemas, *definitions.values()]):
        key = as_mapping(union.get("discriminator")).get("propertyName")
        branches = [str(branch.get("$ref")) for branch in union.get("oneOf", ())] if key else ()
        for branch in branches:
            required = definitions.get(branch.rpartition("/")[2], {}).setdefault("required", [])
            if key not in required:
                required.append(key)


def describe_object(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a type if it is an object, else {}; only a type with members has `properties`."""
    from toolkit._schema.generator import Generator

    schema = adapter.json_schema(schema_generator=Generator)
    definitions = schema.get("$defs", {})
    _require_tags(schema, definitions)
    # Beside the reference there may be any keyword, such as examples.
    root = {**definitions[schema["$ref"].rpartition("/")[2]], "$defs": definitions} if "$ref" in schema else schema
    front = {keyword: root[keyword] for keyword in ("type", "properties") if keyword in root}
    return clean({**front, **root}) if root.get("type") == "object" else {}


# pydantic writes it in place of a secret. A model that repeats it would replace the secret.
_MASK = "*" * 10


def render_default(default: Any) -> dict[str, Any]:
    """Return the keyword `default` for a default, or an empty dict if it has no JSON form, or holds a secret."""
    if type(default).__name__ == "_Nothing":  # attrs' NOTHING, an enum member, stands for a default factory
        return {}
    try:
        if isinstance(default, Iterator):  # writing it would use it up, or read a file
            return {}
        is_container = isinstance(default, (list, tuple, dict, set, frozenset))
        value = to_jsonable_python(_sort_sets(default) if is_container else default, fallback=_write_text)
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except Exception:  # noqa: BLE001  it may be an object of any class, whose code may fail
        return {}

    return {} if _MASK in text else {"default": value}


def _write_text(value: Any) -> str:
    if isinstance(value, (PurePath, tzinfo)):
        return str(value)
    raise TypeError(f"JSON cannot represent {type(value).__name__}")


def _sort_sets(value: Any) -> Any:
    """Sort sets, so that their order is the same in every process."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(_sort_sets, value), key=to_json)
    if type(value) in (list, tuple):
        return [_sort_sets(item) for item in value]
    return {key: _sort_sets(item) for key, item in value.items()} if type(value) is dict else value


def _clean_node(node: dict[str, Any]) -> dict[str, Any]:
    """Drop the title, a default that JSON cannot represent, and repeated enum values. Sort the default of a set."""
    default = node.get("default")
    if isinstance(default, list) and any(kind.get("uniqueItems") for kind in node.get("anyOf", [node])):
        default = sorted(default, key=json.dumps)
    cleaned = render_default(default) if "default" in node else {}
    if node.get("enum") == []:  # no value is valid, and providers refuse it
        raise UnusableType(f"{node.get('title', 'its enum')} has no members")
    if isinstance(values := node.get("enum"), list):  # 1 and True are equal, but not in JSON
        cleaned["enum"] = list({json.dumps(value): value for value in values}.values())
    return {key: value for key, value in node.items() if key not in ("title", "default")} | cleaned
