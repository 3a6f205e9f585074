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
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from functools import cache
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin
from uuid import UUID
from weakref import WeakKeyDictionary

import typing_extensions
from pydantic_core import (
    PydanticOmit,
    PydanticSerializationError,
    SchemaValidator,
    from_json,
    to_json,
    to_jsonable_python,
)
from typing_extensions import LiteralString, NotRequired, ReadOnly, Required, TypedDict, TypeVarTuple, get_type_hints

from toolkit._schema.json_schema import Schema, as_mapping, iterate_schemas, map_schemas

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.fields import FieldInfo
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
    from pydantic_core.core_schema import (
        DataclassSchema,
        DictSchema,
        IsSubclassSchema,
        ModelSchema,
        NamedTupleSchema,
        TypedDictSchema,
        UnionSchema,
    )

# Describing a class alone also describes all classes that it refers to. Beyond this number of definitions, pydantic
# describes the remaining types together.
MAX_SEPARATE = 32

Node: TypeAlias = dict[str, Any]

# In Python 3.11 `typing.Unpack` and `typing_extensions.Unpack` differ.
UNPACK = (getattr(typing, "Unpack", typing_extensions.Unpack), typing_extensions.Unpack)

# Texts for error messages about types without a JSON Schema, by the type of the core schema.
_UNWRITABLE = {
    "callable": "a function",
    "union": "any of the union",
    "function-plain": "a type with its own validator; derive a model of pydantic.v1 from pydantic.BaseModel instead",
}

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
    """Writer of the schemas of common types. `json_mode` adapts the core schemas to JSON.

    Attributes:
        definitions: JSON Schemas that the written ones refer to, by name.
        core_definitions: Core schemas that the written ones refer to, by their `ref`.
        unknown: Classes whose core schemas are still to be generated, and the empty dicts that will hold these.
    """

    definitions: Node = field(default_factory=dict)
    core_definitions: Node = field(default_factory=dict)
    unknown: list[tuple[type, Node]] = field(default_factory=list)

    def write_usual(self, types: Mapping[str, Any]) -> dict[str, Written]:
        """Write the common types among named types, by name; leave out the others."""
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
            Unusual: There are more than MAX_SEPARATE definitions, or two classes have one name.
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
    """Write a tuple; JSON Schema cannot express the order of items from a repeated one on."""
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
    """List the types of a tuple's items, and whether each is repeated; an unpacked tuple is replaced by its items."""
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
    """Schemas that pydantic makes of named types.

    Attributes:
        cores: pydantic-core's schemas by name, each as the field of a TypedDict.
        definitions: Core schemas that they refer to.
    """

    cores: Mapping[str, Node]
    definitions: Sequence[Node]

    def make_json_schemas(self) -> tuple[dict[str, Node], Node]:
        """Return the JSON Schemas by name, and the definitions that they refer to."""
        if not self.cores:
            return {}, {}
        inputs: Any = [
            (name, "validation", {"type": "definitions", "schema": core, "definitions": self.definitions})
            for name, core in self.cores.items()
        ]
        schemas, definitions = get_generator()().generate_definitions(inputs)
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
    if not types:
        return Fields({}, ())
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


@cache
def get_generator() -> type[GenerateJsonSchema]:  # noqa: C901  it counts each method
    """Return pydantic's generator with clear errors, with constraints and texts that it leaves out, and no warnings."""
    from pydantic.errors import PydanticInvalidForJsonSchema
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  pydantic's own, set again

        def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:  # noqa: ARG002
            kind = getattr(schema.get("cls"), "__qualname__", schema.get("cls")) or _UNWRITABLE.get(schema["type"])
            raise PydanticInvalidForJsonSchema(f"JSON has no form for {kind or schema['type']}")

        def is_subclass_schema(self, schema: IsSubclassSchema) -> JsonSchemaValue:  # noqa: ARG002
            raise PydanticInvalidForJsonSchema("JSON has no form for a class")

        def generate_inner(self, schema: Any) -> JsonSchemaValue:
            _refuse_misplaced(schema)
            return _write_constraints(schema, super().generate_inner(schema))

        def field_is_present(self, field: Any) -> bool:
            is_argument = field.get("init", True)  # False after dataclasses.field(init=False)
            return (self.mode == "serialization" or is_argument) and super().field_is_present(field)

        def model_field_schema(self, schema: Any) -> JsonSchemaValue:
            return _omit_unfit(super().model_field_schema, schema, self.mode)

        dataclass_field_schema = model_field_schema  # pydantic's two are equal

        def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
            return _add_texts(super().model_schema(schema), schema["cls"])

        def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
            return _add_texts(super().dataclass_schema(schema), schema["cls"])

        def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
            return _add_texts(super().typed_dict_schema(schema), schema.get("cls"))

        def named_tuple_schema(self, schema: NamedTupleSchema) -> JsonSchemaValue:
            return _name_items(super().named_tuple_schema(schema), schema["cls"])

        def dict_schema(self, schema: DictSchema) -> JsonSchemaValue:
            generated = super().dict_schema(schema)
            keys = self.generate_inner(schema.get("keys_schema", {"type": "any"}))
            return generated | _write_keys(generated, self.resolve_ref_schema(keys))

        def union_schema(self, schema: UnionSchema) -> JsonSchemaValue:
            generated = super().union_schema(schema)
            is_empty = generated.get("anyOf") == []  # each member was skipped
            return self.handle_invalid_for_json_schema(schema, "") if is_empty else generated

    return Generator


def _omit_unfit(generate: Callable[[Any], JsonSchemaValue], field: Any, mode: str) -> JsonSchemaValue:
    """Generate the JSON Schema of a field; of arguments, leave it out if no JSON can fill it and it has a default.

    Raises:
        PydanticOmit: It is such a field.
    """
    from pydantic.errors import PydanticInvalidForJsonSchema

    try:
        return generate(field)
    except PydanticInvalidForJsonSchema:
        if field["schema"]["type"] == "default" and mode == "validation":
            raise PydanticOmit from None
        raise


class EmptyType(Exception):
    """No value of a type is valid, so no call can have one; the message says why."""


# Values on which pydantic's constraints are tried, by the type of the core schema.
_SAMPLES = {"int": 0, "float": 0.0, "bool": False, "str": "", "bytes": b"", "list": [], "tuple": (), "dict": {}}


def _refuse_misplaced(core: Mapping[str, Any]) -> None:
    """Refuse a constraint that a type cannot have, such as the length of a number: no value would be valid."""
    inner, *checks = core.get("steps") or [core.get("schema"), {**core, "schema": {"type": "any"}}]
    if core["type"] not in ("function-after", "chain") or inner["type"] not in _SAMPLES:
        return
    for check in filter(_is_constraint, checks):
        with suppress(ValueError):  # the type can have the constraint, and the sample does not meet it
            try:
                SchemaValidator(check).validate_python(_SAMPLES[inner["type"]])
            except TypeError as error:
                name = str(error).partition("'")[2].partition("'")[0]
                raise EmptyType(f"{name} is no constraint of {inner['type']}") from error


def _require_tags(schemas: Any, definitions: Mapping[Any, Any]) -> None:
    """Make the discriminator of each union required: pydantic's validator needs it even if it has a default."""
    for union in iterate_schemas([schemas, *definitions.values()]):
        key = as_mapping(union.get("discriminator")).get("propertyName")
        branches = [str(branch.get("$ref")) for branch in union.get("oneOf", ())] if key else ()
        for branch in branches:
            required = definitions.get(branch.rpartition("/")[2], {}).setdefault("required", [])
            required += [] if key in required else [key]


def _is_constraint(core: Any) -> bool:
    """Return whether a core schema is a constraint that pydantic checks by a function, such as one of a union."""
    function = core.get("function", {}).get("function")
    return str(getattr(getattr(function, "func", function), "__module__", "")).startswith("pydantic.")


def _is_about_json(core: Any) -> bool:
    """Return whether a constraint is about the value in JSON, and not about what a function makes of it."""
    while (core["type"] == "function-after" and _is_constraint(core)) or (
        core["type"] == "function-before" and "json_schema_input_schema" not in core
    ):
        core = core["schema"]
    return not core["type"].startswith("function-")


# Keywords of JSON Schema by pydantic's names of constraints, for each type.
_NUMBER = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_BOUND_NAMES: Mapping[Any, Mapping[str, str]] = {
    "integer": _NUMBER,
    "number": _NUMBER,
    "string": {"minLength": "minLength", "maxLength": "maxLength"},
    "array": {"minLength": "minItems", "maxLength": "maxItems"},
    "object": {"minLength": "minProperties", "maxLength": "maxProperties"},
}


def _write_constraints(core: Any, generated: JsonSchemaValue) -> JsonSchemaValue:
    """Rename a constraint, which pydantic writes by its own name, to the keyword of a type or of a union's members."""
    if core["type"] != "function-after" or not _is_constraint(core):
        return generated
    bounds = {name: generated.pop(name) for name in (*_NUMBER, "minLength", "maxLength") if name in generated}
    is_about_json = _is_about_json(core)
    for member in generated.get("anyOf", [generated]):
        names = _BOUND_NAMES.get(member.get("type"), {})
        written = {
            keyword: bounds[name]
            for name, keyword in names.items()
            if isinstance(bounds.get(name), (int, float)) and (is_about_json or name not in _NUMBER)
        }
        member.update({**written, **member})
    return generated


def find_text(annotation: Any) -> str:
    """Return the text in an `Annotated` type, a string or a `Doc` of PEP 727; "" if there is none."""
    while get_origin(annotation) in (Required, NotRequired, ReadOnly):
        annotation = get_args(annotation)[0]
    annotation = getattr(annotation, "__value__", annotation)  # of a type alias
    return _pick_text(get_args(annotation)[1:]) if get_origin(annotation) is Annotated else ""


def _pick_text(metadata: Iterable[Any]) -> str:
    texts = [item if isinstance(item, str) else getattr(item, "documentation", None) for item in metadata]
    return next((text for text in texts if isinstance(text, str)), "")


def _add_texts(generated: JsonSchemaValue, kind: Any) -> JsonSchemaValue:
    """Add the texts in the annotations of a class to the schemas of its fields: pydantic leaves them out."""
    properties = generated.get("properties", {})
    texts = read_field_texts(kind)
    if properties and not hasattr(kind, "__pydantic_fields__"):  # a TypedDict, or a dataclass that is not pydantic's
        texts = _read_texts(kind)
    for name, text in texts.items():
        if text and name in properties:
            properties[name] = {"description": text, **properties[name]}
    return generated


def _name_items(generated: JsonSchemaValue, kind: Any) -> JsonSchemaValue:
    """Describe the items of a named tuple by the texts in its annotations, or else by their names."""
    texts = _read_texts(kind)
    for name, item in zip(getattr(kind, "_fields", ()), generated.get("prefixItems", ())):
        item.setdefault("description", texts.get(name) or name)
    return generated


def _read_texts(kind: Any) -> dict[str, str]:
    """Return the texts in the annotations of a class, by the names of its fields."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001  an annotation is code of the user's, or has a name of a local scope
        return {}
    return {name: find_text(hint) for name, hint in hints.items()}


def read_field_texts(kind: Any) -> dict[str, str]:
    """Return the texts about the fields of a pydantic class by their names in JSON; none for another class."""
    fields: Mapping[str, FieldInfo] = getattr(kind, "__pydantic_fields__", {})
    texts = {_find_alias(name, info): info.description or _pick_text(info.metadata) for name, info in fields.items()}
    return {name: text for name, text in texts.items() if text}


def _find_alias(name: str, info: FieldInfo) -> str:
    return info.validation_alias if isinstance(info.validation_alias, str) else name


def _write_keys(generated: JsonSchemaValue, names: Schema) -> dict[str, Any]:
    """Return keywords for the keys of a dict: allowed keys as texts, as in JSON; if keys have a pattern, no others."""
    if "patternProperties" in generated:
        return {"additionalProperties": False}
    values = names.get("enum", ())
    if all(isinstance(value, str) for value in values):
        return {}
    return {"propertyNames": {"enum": [value if isinstance(value, str) else json.dumps(value) for value in values]}}


def describe_object(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a type if it is an object, else {}; only a type with members has `properties`."""
    schema = adapter.json_schema(schema_generator=get_generator())
    definitions = schema.get("$defs", {})
    _require_tags(schema, definitions)
    root = {**definitions[schema["$ref"].rpartition("/")[2]], "$defs": definitions} if "$ref" in schema else schema
    front = {keyword: root[keyword] for keyword in ("type", "properties") if keyword in root}
    return clean({**front, **root}) if root.get("type") == "object" else {}


# pydantic writes it in place of a secret. A model that repeats it would replace the secret.
_MASK = "*" * 10


def render_default(default: Any) -> dict[str, Any]:
    """Return the keyword `default` for a default; an empty dict if JSON has no form for it, or if it holds a secret."""
    if type(default).__name__ == "_Nothing":  # attrs' NOTHING, an enum member, stands for a default factory
        return {}
    try:
        is_container = isinstance(default, (list, tuple, dict, set, frozenset))
        value = to_jsonable_python(_sort_sets(default) if is_container else default, fallback=_write_text)
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return {}
    return {} if _MASK in text else {"default": value}


def _write_text(value: Any) -> str:
    if isinstance(value, (PurePath, tzinfo)):
        return str(value)
    raise TypeError(f"JSON has no form for {type(value).__name__}")


def _sort_sets(value: Any) -> Any:
    """Sort sets, so that their order is the same in every process."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(_sort_sets, value), key=to_json)
    if type(value) in (list, tuple):
        return [_sort_sets(item) for item in value]
    return {key: _sort_sets(item) for key, item in value.items()} if type(value) is dict else value


def _clean_node(node: dict[str, Any]) -> dict[str, Any]:
    """Drop the title, a default that JSON has no form for, and repeated enum values; sort the default of a set.

    Raises:
        EmptyType: An enum has no members: no value is valid, and providers refuse its schema.
    """
    default = node.get("default")
    if isinstance(default, list) and any(kind.get("uniqueItems") for kind in node.get("anyOf", [node])):
        default = sorted(default, key=json.dumps)
    cleaned = render_default(default) if "default" in node else {}
    if node.get("enum") == []:
        raise EmptyType(f"{node.get('title', 'its enum')} has no members")
    if isinstance(values := node.get("enum"), list):  # 1 and True are equal, but not in JSON
        cleaned["enum"] = list({json.dumps(value): value for value in values}.values())
    return {key: value for key, value in node.items() if key not in ("title", "default")} | cleaned
