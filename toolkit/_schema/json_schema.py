"""JSON Schema as plain data: walking through it, its references, types and nulls; cleaning what pydantic generates."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import EnumMeta
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args, get_origin

from typing_extensions import NotRequired, ReadOnly, Required, get_type_hints

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.fields import FieldInfo
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
    from pydantic_core.core_schema import (
        DataclassSchema,
        DictSchema,
        IsSubclassSchema,
        ModelSchema,
        TypedDictSchema,
        UnionSchema,
    )


# Keywords whose value maps names, chosen by the user, to schemas: a name there is never a keyword.
NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
# Keys of a set or dict whose hashes can be chosen, as those of numbers: with one hash, they take quadratic time.
MAX_KEYS = 5_000
# Keywords whose value is data, not a schema.
_DATA = frozenset({"default", "const", "enum", "examples", "example", "required", "dependentRequired", "$vocabulary"})
# What pydantic validates and has no JSON Schema for, by the type of its core schema.
_UNWRITABLE = {
    "callable": "a function",
    "function-plain": "a type with its own validator; derive a model of pydantic.v1 from pydantic.BaseModel instead",
}


def map_schemas(schema: Any, rewrite: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Apply `rewrite` to every schema inside a schema, from the inside out, and return a new one."""
    if isinstance(schema, list):
        return [map_schemas(item, rewrite) for item in schema]
    if not isinstance(schema, (dict, Mapping)):  # checking for dict is several times faster
        return schema
    mapped: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in NAMED and isinstance(value, (dict, Mapping)):
            mapped[keyword] = {name: map_schemas(part, rewrite) for name, part in value.items()}
        else:
            mapped[keyword] = value if keyword in _DATA else map_schemas(value, rewrite)
    return rewrite(mapped)


def clean(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Drop titles, which repeat names, and defaults that are not JSON."""
    cleaned: dict[str, Any] = map_schemas(schema, _clean_node)
    return cleaned


@cache
def get_generator() -> type[GenerateJsonSchema]:
    """Return pydantic's generator, without its warnings of defaults that JSON cannot show: they are left out."""
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
            _check_values(schema)
            return super().generate_inner(schema)

        def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
            return _add_texts(super().model_schema(schema), schema["cls"])

        def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
            return _add_texts(super().dataclass_schema(schema), schema["cls"])

        def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
            return _add_texts(super().typed_dict_schema(schema), schema.get("cls"))

        def dict_schema(self, schema: DictSchema) -> JsonSchemaValue:
            generated = super().dict_schema(schema)
            return generated | _write_keys(generated, self.resolve_ref_schema(generated.get("propertyNames", {})))

        def union_schema(self, schema: UnionSchema) -> JsonSchemaValue:
            generated = super().union_schema(schema)
            if generated.get("anyOf") == []:  # each member was skipped
                raise PydanticInvalidForJsonSchema("JSON has no form for any of the union")
            return generated

    return Generator


class EmptyType(Exception):
    """A type has no values, so a parameter of it can never be given; the message says why."""


# A value of each type on which pydantic's constraints are tried, by the type of its core schema.
_SAMPLES = {"int": 0, "float": 0.0, "bool": False, "str": "", "bytes": b"", "list": [], "tuple": (), "dict": {}}
_BOUNDS = (("ge", "le"), ("ge", "lt"), ("gt", "le"), ("gt", "lt"), ("min_length", "max_length"))


def _check_values(core: Mapping[str, Any]) -> None:
    """Check that a type may have values, by its core schema.

    Raises:
        EmptyType: It has none.
    """
    kind = core.get("cls")
    if isinstance(kind, EnumMeta) and not kind.__members__:
        raise EmptyType(f"{kind.__qualname__} has no members")
    for low, high in _BOUNDS:
        if low in core and high in core and core[low] > core[high]:
            raise EmptyType(f"no value has {low}={core[low]!r} and {high}={core[high]!r}")
    inner, *checks = core.get("steps") or [core.get("schema"), {**core, "schema": {"type": "any"}}]
    if core["type"] in ("function-after", "chain") and inner["type"] in _SAMPLES:
        for check in checks:
            _try_constraint(check, inner["type"])


def _try_constraint(check: Any, kind: str) -> None:
    """Try a constraint of pydantic's: one that does not fit the type raises a TypeError for each value."""
    from pydantic_core import SchemaValidator

    function = check.get("function", {}).get("function")
    if str(getattr(getattr(function, "func", function), "__module__", "")).startswith("pydantic."):
        try:
            SchemaValidator(check).validate_python(_SAMPLES[kind])
        except TypeError as error:
            name = str(error).partition("'")[2].partition("'")[0]
            raise EmptyType(f"{name} is no constraint of {kind}") from error
        except ValueError:  # it fits, and refuses this value
            pass


def find_text(annotation: Any) -> str:
    """Find what Annotated says about a type: a text, or PEP 727's Doc."""
    while get_origin(annotation) in (Required, NotRequired, ReadOnly):
        annotation = get_args(annotation)[0]
    annotation = getattr(annotation, "__value__", annotation)  # of a type alias
    return _pick_text(get_args(annotation)[1:]) if get_origin(annotation) is Annotated else ""


def _pick_text(metadata: Iterable[Any]) -> str:
    texts = [item if isinstance(item, str) else getattr(item, "documentation", None) for item in metadata]
    return next((text for text in texts if isinstance(text, str)), "")


def _add_texts(generated: JsonSchemaValue, kind: Any) -> JsonSchemaValue:
    """Add what the annotations of a class say about its fields, which pydantic leaves out."""
    properties = generated.get("properties", {})
    fields = getattr(kind, "__pydantic_fields__", {})
    texts = {_find_alias(name, info): _pick_text(info.metadata) for name, info in fields.items()}
    if properties and not fields:  # a TypedDict, or a dataclass that is not pydantic's
        try:
            hints = get_type_hints(kind, include_extras=True)
        except Exception:  # noqa: BLE001  an annotation is code of the user's, or has a name of a local scope
            hints = {}
        texts = {name: find_text(hint) for name, hint in hints.items()}
    for name, text in texts.items():
        if text and name in properties:
            properties[name] = {"description": text, **properties[name]}
    return generated


def _find_alias(name: str, info: FieldInfo) -> str:
    return info.validation_alias if isinstance(info.validation_alias, str) else name


def _write_keys(generated: JsonSchemaValue, names: Schema) -> dict[str, Any]:
    """Write the allowed keys of a dict as texts, which they are in JSON; where they have a pattern, no others."""
    if "patternProperties" in generated:
        return {"additionalProperties": False}
    values = names.get("enum", ())
    if all(isinstance(value, str) for value in values):
        return {}
    return {"propertyNames": {"enum": [value if isinstance(value, str) else json.dumps(value) for value in values]}}


def rename_definitions(schema: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Prefix the names of a schema's definitions with their owner."""
    whole: dict[str, Any] = map_schemas(schema, lambda node: _prefix_reference(node, owner))
    if "$defs" in whole:
        whole["$defs"] = {f"{owner}.{name}": part for name, part in whole["$defs"].items()}
    return whole


def inline_root(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace a schema that is only a reference to one of its definitions by that definition."""
    definitions = schema.get("$defs")
    if not isinstance(definitions, Mapping) or schema.keys() - {"$defs", "$ref", "$schema", "description", "title"}:
        return schema
    target = definitions.get(str(schema.get("$ref", "")).removeprefix("#/$defs/"))
    own = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
    return {**target, **own} if isinstance(target, Mapping) else schema


def describe_object(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object type, empty for any other; only a type with members has `properties`."""
    schema = adapter.json_schema(schema_generator=get_generator())
    definitions = schema.get("$defs", {})
    root = {**definitions[schema["$ref"].rpartition("/")[2]], "$defs": definitions} if "$ref" in schema else schema
    front = {keyword: root[keyword] for keyword in ("type", "properties") if keyword in root}
    return clean({**front, **root}) if root.get("type") == "object" else {}


def render_default(default: Any) -> dict[str, Any]:
    """Write a default as the keyword `default`; return an empty dict where JSON has no form for it."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        is_container = isinstance(default, (list, tuple, dict, set, frozenset))
        value = to_jsonable_python(_sort_sets(default) if is_container else default)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return {}
    return {"default": value}


def _prefix_reference(node: dict[str, Any], owner: str) -> dict[str, Any]:
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return node
    return {**node, "$ref": reference.replace("#/$defs/", f"#/$defs/{owner}.", 1)}


def _sort_sets(value: Any) -> Any:
    """Sort sets, so that their order is the same in every process."""
    if isinstance(value, (set, frozenset)):
        from pydantic_core import to_json

        return sorted(map(_sort_sets, value), key=to_json)
    if type(value) in (list, tuple):
        return [_sort_sets(item) for item in value]
    return {key: _sort_sets(item) for key, item in value.items()} if type(value) is dict else value


def _clean_node(node: dict[str, Any]) -> dict[str, Any]:
    """Drop the title and a default that is not JSON; sort a default that was a set."""
    default = node.get("default")
    if isinstance(default, list) and any(kind.get("uniqueItems") for kind in node.get("anyOf", [node])):
        default = sorted(default, key=json.dumps)
    shown = render_default(default) if "default" in node else {}
    return {key: value for key, value in node.items() if key not in ("title", "default")} | shown


Schema: TypeAlias = Mapping[str, Any]

TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: is_number(value) and float(value).is_integer(),
    "number": lambda value: is_number(value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def is_number(value: Any) -> bool:
    """Check whether a value is a number in JSON: finite, and no bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def to_hashable(value: Any) -> Any:
    """Convert a value to a key that is equal for equal JSON alone: 1 is 1.0, but not true."""
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, list):
        return list, tuple(map(to_hashable, value))
    if isinstance(value, dict):
        return dict, frozenset((key, to_hashable(each)) for key, each in value.items())
    return value


def list_allowed_values(schema: Schema, otherwise: list[Any]) -> list[Any]:
    """List the values that `enum` or `const` allows; return `otherwise` where there is neither."""
    values = [schema["const"]] if "const" in schema else schema.get("enum", otherwise)
    return values if isinstance(values, list) else otherwise


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def is_secret(schema: Schema) -> bool:
    """Return whether a schema is that of a secret: `writeOnly` or `format: password`; pydantic's secrets have both."""
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def resolve_reference(schema: Schema, root: Any) -> Schema:
    """Resolve a schema's reference; one without a target is a schema that matches everything."""
    for _ in range(64):
        if not isinstance(schema.get("$ref"), str):
            return schema
        target = look_up(root, schema["$ref"])
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**as_mapping(target), **rest}
    return {}


def look_up(root: Any, reference: str) -> Any:
    """Return what a reference inside a document points to; None where it points nowhere."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    for step in reference.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(root, list):
            root = root[int(key)] if key.isdecimal() and int(key) < len(root) else None
        else:
            root = root.get(key) if isinstance(root, Mapping) else None
    return root


def iterate_schemas(schema: Any) -> Iterator[Schema]:
    """Iterate over every schema inside a schema, from the outside in, beginning with itself."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        inner: list[Any] = []
        if isinstance(node, list):
            inner = node
        elif isinstance(node, Mapping):
            yield node
            for keyword, value in node.items():
                if keyword in NAMED and isinstance(value, Mapping):
                    inner += value.values()
                elif keyword not in _DATA:
                    inner.append(value)
        waiting += reversed(inner)


def collect_references(schema: Any, root: Any) -> dict[str, None]:
    """List the references in a schema, and those in what they point to, in order."""
    reached: dict[str, None] = {}
    fresh = [schema]
    while fresh:
        found = [str(node["$ref"]) for node in iterate_schemas(fresh.pop()) if "$ref" in node]
        fresh += [look_up(root, reference) for reference in dict.fromkeys(found) if reference not in reached]
        reached |= dict.fromkeys(found)
    return reached


# How each keyword allows null.
_NULLS: Mapping[str, Any] = {"anyOf": {"type": "null"}, "oneOf": {"type": "null"}, "type": "null", "enum": None}


def add_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows null too."""
    kind = schema.get("type", [])
    kinds = kind if isinstance(kind, list) else [kind]
    if "null" in kinds:
        return schema
    if kinds and schema.keys().isdisjoint({"enum", "const"}) and {"object", "array"}.isdisjoint(kinds):
        return {**schema, "type": [*kinds, "null"]}
    return add_alternative(schema, {"type": "null"})


def add_alternative(schema: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows another one too; the description stays that of the whole."""
    description = {key: value for key, value in schema.items() if key == "description"}
    bare = {key: value for key, value in schema.items() if key != "description"}
    choices = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
    return {"anyOf": choices if other in choices else [*choices, other], **description}


def without_null(schema: Schema) -> Schema | None:
    """Return a schema that does not allow null: None where nothing is left, the same one where it never did."""
    if schema.get("const", schema) is None:
        return None
    own = {keyword: schema[keyword] for keyword in _NULLS if keyword in schema}
    rest = {keyword: _remove_null(_NULLS[keyword], values) for keyword, values in own.items()}
    if rest == own:
        return schema
    return {**schema, **rest} if all(rest.values()) else None


def _remove_null(null: Any, values: Any) -> Any:
    rest = [value for value in (values if isinstance(values, list) else [values]) if value != null]
    return rest[0] if len(rest) == 1 and null == "null" else rest
