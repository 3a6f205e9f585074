"""JSON Schema as plain data: walking through it, cleaning what pydantic generates, defaults."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
    from pydantic_core.core_schema import IsSubclassSchema, UnionSchema

# Keywords whose value maps names, chosen by the user, to schemas: a name there is never a keyword.
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
# Keywords whose value is data, not a schema.
_DATA = frozenset({"default", "const", "enum", "examples", "example", "required", "dependentRequired", "$vocabulary"})


def map_schemas(schema: Any, rewrite: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Apply `rewrite` to every schema inside a schema, from the inside out, and return a new one."""
    if isinstance(schema, list):
        return [map_schemas(item, rewrite) for item in schema]
    if not isinstance(schema, (dict, Mapping)):  # checking for dict is several times faster
        return schema
    return rewrite({keyword: _map_value(keyword, value, rewrite) for keyword, value in schema.items()})


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
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  pydantic's own, set anew

        def is_subclass_schema(self, schema: IsSubclassSchema) -> JsonSchemaValue:
            return self.handle_invalid_for_json_schema(schema, "a class, which JSON has no form for")

        def union_schema(self, schema: UnionSchema) -> JsonSchemaValue:
            generated = super().union_schema(schema)
            if generated.get("anyOf") == []:  # each member was skipped
                return self.handle_invalid_for_json_schema(schema, "a union of what JSON has no form for")
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


def _map_value(keyword: str, value: Any, rewrite: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if keyword in _NAMED and isinstance(value, (dict, Mapping)):
        return {name: map_schemas(schema, rewrite) for name, schema in value.items()}
    return value if keyword in _DATA else map_schemas(value, rewrite)
