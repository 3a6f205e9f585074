"""JSON Schema as plain data: walking through it, cleaning what pydantic generates, and matching documents with it.

Matching picks an alternative of a union, and finds whether alternatives overlap. It does not validate: keywords that it
does not know match everything. An object that lists properties and has no `additionalProperties` is taken as closed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
    from pydantic_core.core_schema import CallableSchema, IsInstanceSchema, IsSubclassSchema, UnionSchema


# Keywords whose value maps names, chosen by the user, to schemas: a name there is never a keyword.
NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
# Keywords whose value is data, not a schema.
_DATA = frozenset({"default", "const", "enum", "examples", "example", "required", "dependentRequired", "$vocabulary"})


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
    """Drop titles, which repeat names, and defaults that are no JSON."""
    cleaned: dict[str, Any] = map_schemas(schema, _clean_node)
    return cleaned


def clean_all(definitions: Mapping[Any, Any]) -> dict[str, Any]:
    """Clean schemas by name."""
    return {name: clean(schema) for name, schema in definitions.items()}


@cache
def get_generator() -> type[GenerateJsonSchema]:
    """Return pydantic's generator, without its warnings of defaults that JSON cannot show: they are left out."""
    from pydantic.errors import PydanticInvalidForJsonSchema
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  pydantic's own, set anew

        def is_instance_schema(self, schema: IsInstanceSchema) -> JsonSchemaValue:
            name = getattr(schema["cls"], "__qualname__", schema["cls"])
            raise PydanticInvalidForJsonSchema(f"JSON has no form for {name}")

        def callable_schema(self, schema: CallableSchema) -> JsonSchemaValue:  # noqa: ARG002  pydantic's signature
            raise PydanticInvalidForJsonSchema("JSON has no form for a function")

        def is_subclass_schema(self, schema: IsSubclassSchema) -> JsonSchemaValue:  # noqa: ARG002
            raise PydanticInvalidForJsonSchema("JSON has no form for a class")

        def union_schema(self, schema: UnionSchema) -> JsonSchemaValue:
            generated = super().union_schema(schema)
            if generated.get("anyOf") == []:  # each member was skipped
                raise PydanticInvalidForJsonSchema("JSON has no form for any of the union")
            return generated

    return Generator


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
        value = to_jsonable_python(_sort_sets(default))
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
    """Drop the title and a default that is no JSON; sort a default that was a set."""
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
_BOUNDS: Mapping[str, tuple[type, Callable[[Any, Any], bool]]] = {
    "minLength": (str, lambda value, bound: len(value) >= bound),
    "maxLength": (str, lambda value, bound: len(value) <= bound),
    "pattern": (str, lambda value, bound: re.search(bound, value) is not None),
    "minItems": (list, lambda value, bound: len(value) >= bound),
    "maxItems": (list, lambda value, bound: len(value) <= bound),
    "minProperties": (dict, lambda value, bound: len(value) >= bound),
    "maxProperties": (dict, lambda value, bound: len(value) <= bound),
    "minimum": (float, lambda value, bound: value >= bound),
    "maximum": (float, lambda value, bound: value <= bound),
    "exclusiveMinimum": (float, lambda value, bound: value > bound),
    "exclusiveMaximum": (float, lambda value, bound: value < bound),
}


def is_valid(schema: Any, document: Any, root: Any) -> bool:
    """Check whether a document matches a schema, whose references point into `root`."""
    return _Matcher(root).is_valid(schema, document)


def is_type(document: Any, kind: str) -> bool:
    """Check whether a document is of a type, by JSON Schema's name."""
    return kind in TYPES and TYPES[kind](document)


def is_number(value: Any) -> bool:
    """Check whether a value is a number in JSON: finite, and no bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def are_equal(one: Any, other: Any) -> bool:
    """Check whether two documents are equal in JSON, where true is not 1."""
    return bool(one == other and _tag_booleans(one) == _tag_booleans(other))


def _tag_booleans(value: Any) -> Any:
    """Wrap bools, which equal numbers in Python."""
    if isinstance(value, bool):
        return (value,)
    if isinstance(value, list):
        return [_tag_booleans(item) for item in value]
    return {key: _tag_booleans(item) for key, item in value.items()} if isinstance(value, dict) else value


def list_allowed_values(schema: Schema, otherwise: list[Any]) -> list[Any]:
    """List the values that `enum` or `const` allows; return `otherwise` where there is neither."""
    values = [schema["const"]] if "const" in schema else schema.get("enum", otherwise)
    return values if isinstance(values, list) else otherwise


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def resolve_reference(schema: Schema, root: Any) -> Schema:
    """Follow a schema's reference to its end; one that leads nowhere is a schema that matches everything."""
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


def list_schemas(schema: Any) -> list[dict[str, Any]]:
    """List every schema inside a schema, from the inside out."""
    found: list[dict[str, Any]] = []

    def look(node: dict[str, Any]) -> dict[str, Any]:
        found.append(node)
        return node

    map_schemas(schema, look)
    return found


def collect_references(schema: Any, root: Any) -> dict[str, None]:
    """List the references in a schema, and those in what they point to, in order."""
    reached: dict[str, None] = {}
    fresh = [schema]
    while fresh:
        found = [str(node["$ref"]) for node in list_schemas(fresh.pop()) if "$ref" in node]
        fresh += [look_up(root, reference) for reference in dict.fromkeys(found) if reference not in reached]
        reached |= dict.fromkeys(found)
    return reached


def are_disjoint(one: Any, other: Any, root: Any, depth: int = 8) -> bool:
    """Check whether no document can match both schemas; False in doubt."""
    if depth == 0:
        return False
    one, other = resolve_reference(as_mapping(one), root), resolve_reference(as_mapping(other), root)
    for schema, rest in ((one, other), (other, one)):
        if "anyOf" in schema:
            return all(are_disjoint(choice, rest, root, depth - 1) for choice in schema["anyOf"])
    return any(check(one, other, root, depth - 1) for check in _APART)


@dataclass(frozen=True)
class _Matcher:
    """Matches parts of a document with parts of a schema, each pair once: references may multiply them.

    Attributes:
        known: Results, by the identities of the schema and of the document.
    """

    root: Any
    known: dict[tuple[int, int], bool] = field(default_factory=dict)

    def is_valid(self, schema: Any, document: Any) -> bool:
        """Check whether a document matches a schema."""
        if not isinstance(schema, Mapping):
            return schema is not False
        pair = id(schema), id(document)
        if pair not in self.known:
            self.known[pair] = False  # inside itself
            self.known[pair] = self._fits(resolve_reference(schema, self.root), document)
        return self.known[pair]

    def _fits(self, schema: Schema, document: Any) -> bool:
        kind = schema.get("type")
        if kind is not None and not any(is_type(document, name) for name in _as_list(kind)):
            return False
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices is not None and not any(self.is_valid(choice, document) for choice in choices):
            return False
        if not all(self.is_valid(part, document) for part in schema.get("allOf", ())):
            return False
        if not any(are_equal(document, value) for value in list_allowed_values(schema, [document])):
            return False
        if not all(_within(document, *_BOUNDS[keyword], schema[keyword]) for keyword in _BOUNDS.keys() & schema.keys()):
            return False
        if isinstance(document, dict):
            return self._object_fits(schema, document)
        return not isinstance(document, list) or self._array_fits(schema, document)

    def _object_fits(self, schema: Schema, document: dict[str, Any]) -> bool:
        properties = schema.get("properties", {})
        free: Any = "patternProperties" in schema or schema.get("additionalProperties", "properties" not in schema)
        whole = all(key in document for key in schema.get("required", ()))
        return whole and all(self.is_valid(properties.get(key, free), value) for key, value in document.items())

    def _array_fits(self, schema: Schema, document: list[Any]) -> bool:
        first = schema.get("prefixItems", [])
        items = [*first, *[schema.get("items", True)] * (len(document) - len(first))]
        return all(self.is_valid(item, value) for item, value in zip(items, document))


def _within(document: Any, kind: type, test: Callable[[Any, Any], bool], bound: Any) -> bool:
    concerns = is_number(document) if kind is float else isinstance(document, kind)
    try:
        return not concerns or test(document, bound)
    except (TypeError, ValueError, re.error):  # a bound that is none, a pattern that Python does not read
        return True


def _list_types(schema: Schema) -> set[str]:
    named = set(_as_list(schema.get("type", list(TYPES))))
    return named | ({"integer"} if "number" in named else set())


def _as_list(kind: Any) -> list[str]:
    return kind if isinstance(kind, list) else [kind]


def _have_disjoint_types(one: Schema, other: Schema, _root: Any, _depth: int) -> bool:
    return not _list_types(one) & _list_types(other)


def _have_disjoint_values(one: Schema, other: Schema, _root: Any, _depth: int) -> bool:
    values, others = list_allowed_values(one, []), list_allowed_values(other, [])
    alike = any(are_equal(value, rest) for value in values for rest in others)
    return bool(values and others) and not alike


def _are_disjoint_objects(one: Schema, other: Schema, root: Any, depth: int) -> bool:
    if _list_types(one) & _list_types(other) != {"object"}:
        return False
    if _has_no_place(one, other) or _has_no_place(other, one):
        return True
    return any(are_disjoint(a, b, root, depth) for a, b in _pair_required(one, other))


def _has_no_place(one: Schema, other: Schema) -> bool:
    """Check whether the one requires a key that the other does not allow."""
    known = other.get("properties", {}).keys()
    return other.get("additionalProperties") is False and any(key not in known for key in one.get("required", ()))


def _pair_required(one: Schema, other: Schema) -> Iterator[tuple[Any, Any]]:
    for key in one.get("required", ()):
        if key in other.get("required", ()):
            yield one.get("properties", {}).get(key), other.get("properties", {}).get(key)


def _are_disjoint_arrays(one: Schema, other: Schema, root: Any, depth: int) -> bool:
    filled = one.get("minItems", 0) > 0 and other.get("minItems", 0) > 0
    only = _list_types(one) & _list_types(other) == {"array"}
    return only and filled and are_disjoint(one.get("items"), other.get("items"), root, depth)


_APART = (_have_disjoint_types, _have_disjoint_values, _are_disjoint_objects, _are_disjoint_arrays)
