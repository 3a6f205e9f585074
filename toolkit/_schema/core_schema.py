"""Types as JSON Schema for a model, and as pydantic-core's schema for a validator.

Usual types are written by hand: both schemas are those that pydantic makes, without the time that it takes. All other
types are left to pydantic, which makes both from one source: types become the keys of a TypedDict, whose keys may be
any text, so no name is special. What pydantic makes for Python's values is then adapted to JSON.

The JSON Schema of a class is cached as long as the class lives: many tools share few models.
"""

from __future__ import annotations

import types
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
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin
from uuid import UUID
from weakref import WeakKeyDictionary

from pydantic_core import CoreConfig, SchemaValidator, ValidationError, from_json, to_json, to_jsonable_python
from typing_extensions import LiteralString, TypedDict

from toolkit._schema.json_schema import MAX_KEYS, clean, find_text, get_generator

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FINITE: Mapping[str, Any] = {"allow_inf_nan": False}  # JSON has no NaN and no infinity

# Classes that refer to each other are described again for each that is described alone: of so many, all at once.
MAX_SEPARATE = 32

Node: TypeAlias = dict[str, Any]

# Core schemas of keys whose hashes are random, or that are few.
_HARMLESS = frozenset({"str", "bytes", "date", "datetime", "time", "literal", "enum", "bool", "none"})

_TRUNCATED: Mapping[str, Any] = {"microseconds_precision": "truncate"}
_LISTS = frozenset({list, set, frozenset, Collection, Container, Reversible, Iterator})
_BARE: Mapping[Any, Any] = {
    list: list[Any],
    set: set[Any],
    frozenset: frozenset[Any],
    tuple: tuple[Any, ...],
    dict: dict[Any, Any],
}

# Keys of a core schema whose values are no schemas.
_DATA = frozenset({"default", "expected", "members", "metadata", "serialization", "config", "function", "cls", "ref"})


def apply_after(function: Callable[[Any], Any], core: Mapping[str, Any]) -> Node:
    """Change a core schema so that a function converts what it validated."""
    return {"type": "function-after", "function": {"type": "no-info", "function": function}, "schema": core}


class Unusual(Exception):
    """A type is not written by hand, but left to pydantic."""


class Written(NamedTuple):
    """One type, as JSON Schema for a model and as pydantic-core's schema for a validator."""

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
    """Writer of usual types; the core schemas are adapted to JSON with the validator that is built of them.

    Attributes:
        definitions: JSON Schemas that the written ones refer to, by name.
        core_definitions: Core schemas that the written ones refer to, by their `ref`.
        unknown: Classes whose core schemas are still to be generated, and the empty dicts that stand for these.
    """

    definitions: Node = field(default_factory=dict)
    core_definitions: Node = field(default_factory=dict)
    unknown: list[tuple[type, Node]] = field(default_factory=list)

    def write_usual(self, types: Mapping[str, Any]) -> dict[str, Written]:
        """Write the types that can be written by hand, by name; the rest is left out."""
        written = {}
        for name, annotation in types.items():
            before = self.definitions
            try:
                written[name] = self.write(annotation)
            except Exception:  # noqa: BLE001  a class that pydantic refuses is looked at again, beside all that is left
                self.definitions = before
        return written

    def write(self, annotation: Any) -> Written:
        """Write a type.

        Raises:
            Unusual: The type, or a part of it, is left to pydantic.
        """
        origin, args = get_origin(annotation), get_args(annotation)
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
        """Write a class, and add its definitions.

        Raises:
            Unusual: There are many definitions, or two classes have one name.
        """
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
        """Generate the core schemas that are missing, together, and return all definitions."""
        if self.unknown:
            generated = generate_fields({str(number): kind for number, (kind, _) in enumerate(self.unknown)}, {})
            for (_, core), made in zip(self.unknown, generated.cores.values()):
                core |= made["schema"]
            self.add({}, generated.definitions)
        return list(self.core_definitions.values())


def _write_list(kind: Any, item: Written) -> Written:
    """Write a list, a set, a frozenset, or an abstract type that a list can be."""
    is_set = kind in (set, frozenset)
    schema = {"type": "array", "items": item.schema, **({"uniqueItems": True} if is_set else {})}
    core = {"type": kind.__name__ if is_set else "list", "items_schema": item.core}
    return Written(schema, apply_after(iter, core) if kind is Iterator else core)


def _write_tuple(writer: TypeWriter, args: tuple[Any, ...]) -> Written:
    """Write a tuple; from a repeated item on, JSON Schema knows no order."""
    items = list(_list_items(args))
    repeated = next((number for number, (_, is_repeated) in enumerate(items) if is_repeated), None)
    schemas, cores = zip(*(writer.write(item) for item, _ in items)) if items else ((), ())
    first, least = schemas[:repeated], len(items) - (repeated is not None)
    schema = {
        "type": "array",
        **({"prefixItems": list(first)} if first else {}),
        **({"maxItems": least} if repeated is None else {"items": _join_schemas(schemas[repeated:])}),
        **({"minItems": least} if least or repeated is None else {}),
    }
    place = {} if repeated is None else {"variadic_item_index": repeated}
    return Written(schema, {"type": "tuple", "items_schema": list(cores), **place})


def _list_items(args: tuple[Any, ...]) -> Iterable[tuple[Any, bool]]:
    """List the types of a tuple's items, and whether each is repeated; `*tuple[...]` is replaced by its own items."""
    if args[1:] == (...,):
        return [(args[0], True)]
    parts = (_list_items(get_args(arg)) if getattr(arg, "__unpacked__", False) else [(arg, False)] for arg in args)
    return chain.from_iterable(parts)


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
    """Write the JSON Schema of a union; equal members are one, and unions in it are its own members."""
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
    """Schemas that pydantic makes of named types.

    Attributes:
        cores: pydantic-core's schema of each, as the field of a TypedDict.
        definitions: Core schemas that they refer to.
    """

    cores: Mapping[str, Node]
    definitions: Sequence[Node]

    def make_json_schemas(self) -> tuple[dict[str, Node], Node]:
        """Return the JSON Schema of each by name, and the definitions that these refer to."""
        if not self.cores:
            return {}, {}
        inputs: Any = [
            (name, "validation", {"type": "definitions", "schema": core, "definitions": self.definitions})
            for name, core in self.cores.items()
        ]
        schemas, definitions = get_generator()().generate_definitions(inputs)
        described = {name: clean(schemas[name, "validation"]) for name in self.cores}
        return described, {name: clean(schema) for name, schema in definitions.items()}


def generate_fields(types: Mapping[str, Any], names: Mapping[str, Any]) -> Fields:
    """Generate the schemas of named types by pydantic.

    Args:
        types: Types by name.
        names: Names that the classes among them may use, besides those of their modules.

    Raises:
        Exception: Whatever pydantic and the user's types raise where a type cannot be described.
    """
    if not types:
        return Fields({}, ())
    from pydantic import ConfigDict, TypeAdapter

    arguments = TypedDict("arguments", dict(types))  # type: ignore[misc]  # noqa: UP013  keys known at run time only
    # A class that pydantic does not know is not an error yet: of a union, the other members can be described.
    config = ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)
    arguments.__pydantic_config__ = config  # type: ignore[attr-defined]
    adapter = TypeAdapter(arguments)
    adapter.rebuild(_types_namespace=names)  # does nothing where all names were found
    core: Any = adapter.core_schema
    whole = core["schema"] if core["type"] == "definitions" else core
    return Fields(whole["fields"], core.get("definitions", ()))


def get_key(name: str, core: Node) -> str:
    """Find the name of a field in JSON: its alias or, of several, the first that is not a path.

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


def build_object_validator(fields: Mapping[str, Node], definitions: Sequence[Node]) -> Callable[[str], dict[str, Any]]:
    """Build a validator of the text of a JSON object with these fields of a TypedDict and no others."""
    arguments = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid", "config": FINITE}
    core: Any = adapt_to_json({"type": "definitions", "schema": arguments, "definitions": definitions})
    # A model's own validator, which would be used otherwise, takes NaN.
    return SchemaValidator(core, _use_prebuilt=False).validate_json


def build_json_validator(adapter: TypeAdapter[Any]) -> Callable[[str], Any]:
    """Build a validator of the JSON text of any type."""
    core: Any = adapt_to_json(adapter.core_schema)
    return SchemaValidator(core, CoreConfig(allow_inf_nan=False), _use_prebuilt=False).validate_json


# JSON Schemas of classes, as JSON text, and the identity of the core schema that each was made of, since a model that
# is rebuilt gets another one. Text takes less memory than a dict, and no tool can change it for another tool.
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


def adapt_to_json(core: Any) -> Any:
    """Adapt pydantic-core's schema, or several, so that its validator accepts what the JSON Schema says.

    - Numbers in models are finite, unless the model's own configuration allows others.
    - An enum member, or bytes, in a Literal is recognized by its value in JSON; so is an enum member whose value JSON
      writes in another way, such as a tuple or a date.
    - In a union of text and bytes, text stays text.
    - An Iterable is read and validated before the call.
    - A key of a dict may be the text of a member's number, or of one in a Literal.
    - Sets, and dicts with other keys than text, take MAX_KEYS keys at most.
    """
    if isinstance(core, (list, tuple)):
        return type(core)(map(adapt_to_json, core))
    if not isinstance(core, dict):
        return core
    inner = {key: _adapt_value(key, value) for key, value in core.items()}
    if isinstance(inner.get("config"), dict):
        inner["config"] = {**FINITE, **inner["config"]}
    return _KINDS.get(inner.get("type"), dict)(inner)


def _adapt_value(key: str, value: Any) -> Any:
    if key in ("fields", "choices") and isinstance(value, dict):
        return {name: adapt_to_json(core) for name, core in value.items()}
    return value if key in _DATA else adapt_to_json(value)


def _adapt_literal(core: dict[str, Any]) -> dict[str, Any]:
    if not [value for value in core["expected"] if isinstance(value, (Enum, bytes))]:
        return core
    parts = groupby(core["expected"], type)
    return {**core, "type": "union", "choices": [_write_literals(kind, list(values)) for kind, values in parts]}


def _write_literals(kind: type, values: list[Any]) -> dict[str, Any]:
    literal = {"type": "literal", "expected": values}
    if issubclass(kind, bytes):
        return {"type": "chain", "steps": [{"type": "bytes"}, literal]}
    if issubclass(kind, Enum):  # its validator knows all members, whichever it is given
        members = _adapt_enum({"type": "enum", "cls": kind, "members": list(kind)})
        return {"type": "chain", "steps": [members, literal]}
    return literal


def _adapt_enum(core: dict[str, Any]) -> dict[str, Any]:
    unusual = [each for each in core["members"] if not isinstance(each.value, (str, int, float, type(None)))]
    written = [(to_jsonable_python(member.value), member) for member in unusual]
    if not written:
        return core

    def find_member(value: Any) -> Any:
        return next((member for form, member in written if form == value), value)

    place = {"ref": core["ref"]} if "ref" in core else {}
    inner = {key: value for key, value in core.items() if key != "ref"}
    return {
        "type": "function-before",
        "function": {"type": "no-info", "function": find_member},
        "schema": inner,
        **place,
    }


def _adapt_union(core: dict[str, Any]) -> dict[str, Any]:
    """Sort bytes, which any text can be, behind the other members of a union."""

    def is_bytes(choice: Any) -> bool:
        return isinstance(choice, dict) and choice["type"] == "bytes"

    return {**core, "choices": sorted(core["choices"], key=is_bytes)}


def _adapt_dict(core: dict[str, Any]) -> dict[str, Any]:
    keys = core.get("keys_schema", {"type": "any"})
    values = keys.get("expected", [member.value for member in keys.get("members", ())])
    bounded = _bound_keys(core)
    if keys["type"] != "definition-ref" and all(isinstance(value, str) for value in values):
        return bounded
    reading = {"type": "function-wrap", "function": {"type": "no-info", "function": _read_key}, "schema": keys}
    return {**bounded, "keys_schema": reading}


def _read_key(key: str, validate: Callable[[Any], Any]) -> Any:
    """Validate a key, which is a text in JSON, or else the number that it spells."""
    try:
        return validate(key)
    except ValidationError:
        try:
            spelled = from_json(key)
        except ValueError:
            spelled = key
        if isinstance(spelled, (str, list, dict)):
            raise
        return validate(spelled)


def _bound_keys(core: Node) -> Node:
    """Limit the items of a set, or the keys of a dict, to MAX_KEYS where their hashes can be chosen."""
    keys = core.get("items_schema", core.get("keys_schema"))
    if keys is not None and keys["type"] in _HARMLESS:
        return core
    return {**core, "max_length": min(core.get("max_length", MAX_KEYS), MAX_KEYS)}


_KINDS: Mapping[Any, Any] = {
    "literal": _adapt_literal,
    "generator": lambda core: {**core, "type": "list"},
    "enum": _adapt_enum,
    "union": _adapt_union,
    "dict": _adapt_dict,
    **dict.fromkeys(("set", "frozenset", "ordered-dict", "counter"), _bound_keys),
}
