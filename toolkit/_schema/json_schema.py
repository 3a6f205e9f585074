"""JSON Schema as plain data: iteration over its parts, references, types and null."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Flag
from functools import reduce
from itertools import chain, count
from operator import or_
from typing import Any, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = Mapping[str, Any]

# Keywords whose value maps names, chosen by the user, to schemas: a name there is never a keyword.
NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
# The most keys of a set or dict whose hashes can be chosen, as of numbers: keys with equal hashes take quadratic time.
MAX_KEYS = 5_000
# Keywords whose value is data, not a schema.
DATA = frozenset({"default", "const", "enum", "examples", "example", "required", "dependentRequired", "$vocabulary"})


class UnusableType(Exception):
    """No value of a type is valid, or none can be checked, so no call can have one. The message says why."""


def find_flag_bounds(kind: type[Flag]) -> tuple[int, int]:
    """Return the smallest and the largest number of a flag: of its members, of none, and of all of them together."""
    values = [0, *(member.value for member in kind.__members__.values())]
    return min(values), reduce(or_, [value for value in values if value >= 0])


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
            mapped[keyword] = value if keyword in DATA else map_schemas(value, rewrite)
    return rewrite(mapped)


def rename_definitions(schema: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Prefix the names of a schema's definitions with their owner."""

    def rename(node: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(node.get("$ref"), str):
            return node
        return {**node, "$ref": node["$ref"].replace("#/$defs/", f"#/$defs/{owner}.", 1)}

    whole: dict[str, Any] = map_schemas(schema, rename)
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


def wrap_schema(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the schema of an object with a schema as its one property, which is required. Definitions move up."""
    inner = {keyword: value for keyword, value in schema.items() if keyword != "$defs"}
    whole: dict[str, Any] = {"type": "object", "properties": {key: inner}, "required": [key]}
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole


def make_free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken, with a number at its end if necessary."""
    names = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(each for each in names if each not in taken)


TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: is_json_number(value) and value == value // 1,
    "number": lambda value: is_json_number(value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def is_json_number(value: Any) -> bool:
    """Return whether a value is a number in JSON: finite, and no bool."""
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)


def to_hashable(value: Any) -> Any:
    """Convert a value to a hashable key. Keys are equal if their JSON is: 1 equals 1.0, but not true."""
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, list):
        return list, tuple(map(to_hashable, value))
    if isinstance(value, dict):
        return dict, frozenset((key, to_hashable(each)) for key, each in value.items())
    return value


def list_allowed_values(schema: Schema, otherwise: list[Any]) -> list[Any]:
    """List the values that `enum` or `const` allows. Return `otherwise` if there is neither."""
    values = [schema["const"]] if "const" in schema else schema.get("enum", otherwise)
    return values if isinstance(values, list) else otherwise


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping unchanged, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, and anything else as the only item of one: `type` may be a name or a list of names."""
    return value if isinstance(value, list) else [value]


def is_secret(schema: Schema) -> bool:
    """Return whether a schema is that of a secret: `writeOnly` or `format: password`. Pydantic's secrets have both."""
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def resolve_reference(schema: Schema, root: Any) -> Schema:
    """Resolve a schema's reference. One that has no target matches everything."""
    for _ in range(64):
        if not isinstance(schema.get("$ref"), str):
            return schema
        target = look_up(root, schema["$ref"])
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**as_mapping(target), **rest}
    return {}


def look_up(root: Any, reference: str) -> Any:
    """Return the target of a reference inside a document, or None if there is none."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    for step in reference.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
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
                elif keyword not in DATA:
                    inner.append(value)
        waiting += reversed(inner)


def collect_references(schema: Any, root: Any) -> dict[str, None]:
    """List the references in a schema and in their targets, in order."""
    reached: dict[str, None] = {}
    fresh = [schema]
    while fresh:
        found = [str(node["$ref"]) for node in iterate_schemas(fresh.pop()) if "$ref" in node]
        fresh += [look_up(root, reference) for reference in dict.fromkeys(found) if reference not in reached]
        reached |= dict.fromkeys(found)
    return reached


# The value or type by which each keyword allows null.
_NULLS: Mapping[str, Any] = {"anyOf": {"type": "null"}, "oneOf": {"type": "null"}, "type": "null", "enum": None}


def add_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows null too."""
    kinds = as_list(schema.get("type", []))
    if "null" in kinds:
        return schema
    if kinds and schema.keys().isdisjoint({"enum", "const"}) and {"object", "array"}.isdisjoint(kinds):
        return {**schema, "type": [*kinds, "null"]}
    return add_alternative(schema, {"type": "null"})


def add_alternative(schema: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also allows values of another one. The description becomes that of the whole."""
    description = {key: value for key, value in schema.items() if key == "description"}
    bare = {key: value for key, value in schema.items() if key != "description"}
    choices = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
    return {"anyOf": choices if other in choices else [*choices, other], **description}


def without_null(schema: Schema) -> Schema | None:
    """Return a schema without null: the same one if it does not allow null, None if it allows nothing else."""
    if schema.get("const", schema) is None:
        return None
    own = {keyword: schema[keyword] for keyword in _NULLS if keyword in schema}
    rest = {keyword: _remove_null(_NULLS[keyword], values) for keyword, values in own.items()}
    if rest == own:
        return schema
    return {**schema, **rest} if all(rest.values()) else None


def _remove_null(null: Any, values: Any) -> Any:
    rest = [value for value in as_list(values) if value != null]
    return rest[0] if len(rest) == 1 and null == "null" else rest
