"""Schemas that OpenAI refuses where `strict` is true.

Rules and limits: https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas, read in November
2026. What that page leaves open follows the API's answers: a reference has no keywords beside it, and a keyword that
is not listed is refused. As in `strict_chat`, only the first fault is ever read, so a check relies on those before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

KEYWORDS = (
    *("type", "title", "description", "enum", "const", "anyOf", "$ref", "$defs", "definitions"),
    *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
    *("pattern", "format", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
DEFINING = ("type", "anyOf", "$ref", "enum", "const")
NAMED = ("properties", "$defs", "definitions")
MAX_PROPERTIES = 5000
MAX_DEPTH = 10  # objects inside objects
MAX_NAMES = 120_000  # characters in names of properties and definitions and in values of enum and const
MAX_ENUM_VALUES = 1000  # in the whole schema
MAX_ENUM_TEXT = 15_000  # characters in one enum, where it has more than LONG_ENUM values
LONG_ENUM = 250

Path = tuple[str, ...]
_LOOKAROUND = re.compile(r"\(\?<?[=!]")


def find_schema_faults(schema: Any) -> Iterator[str]:
    """Find the faults of a schema: where, in OpenAI's notation, and which keyword."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or "anyOf" in schema:
        yield "the root must have type 'object', and no 'anyOf'"
    for path, depth, node in _list_nodes(schema):
        yield from (f"In context={path}, {text}" for text in _check_node(node, depth, schema))
    yield from _check_limits([node for _, _, node in _list_nodes(schema)])


def _list_nodes(node: Any, path: Path = (), depth: int = 0) -> Iterator[tuple[Path, int, Any]]:
    """Yield every schema in a schema, itself included, with its path and the number of objects around it."""
    depth += isinstance(node, dict) and "properties" in node
    yield path, depth, node
    for step, above, inner in _list_inner(node, depth):
        yield from _list_nodes(inner, (*path, *step), above)


def _list_inner(node: Mapping[str, Any], depth: int) -> Iterator[tuple[Path, int, Any]]:
    for keyword in NAMED:
        for name, inner in node.get(keyword, {}).items():
            yield (keyword, name), depth if keyword == "properties" else 0, inner
    for index, way in enumerate(node.get("anyOf", ())):
        yield ("anyOf", str(index)), depth, way
    if "items" in node:
        yield ("items",), depth, node["items"]


def _check_node(node: Any, depth: int, root: Any) -> Iterator[str]:
    for check in _CHECKS:
        yield from check(node, root)
    if depth > MAX_DEPTH:
        yield f"{depth} levels of nesting exceed the limit of {MAX_DEPTH}"


def _check_shape(node: Any, _: Any) -> Iterator[str]:
    if not isinstance(node, dict):
        yield f"{node!r} is not a schema"
    if node.keys().isdisjoint(DEFINING):
        yield "schema must have a 'type' key"
    yield from (f"{keyword!r} must be an object" for keyword in NAMED if not isinstance(node.get(keyword, {}), dict))
    if not _is_filled(node.get("anyOf", [0])):
        yield "'anyOf' must be a list with at least one schema"


def _is_filled(values: Any) -> bool:
    return isinstance(values, list) and bool(values)


def _check_keywords(node: Mapping[str, Any], _: Any) -> Iterator[str]:
    yield from (f"{keyword!r} is not permitted" for keyword in node if keyword not in KEYWORDS)


def _check_types(node: Mapping[str, Any], _: Any) -> Iterator[str]:
    types = _to_list(node.get("type", []))
    yield from (f"'type' {name!r} is not supported" for name in types if name not in TYPES)
    if "array" in types and "items" not in node:
        yield "array schema missing 'items'"
    if "object" in types or "properties" in node:
        yield from _check_object(node)


def _to_list(named: Any) -> list[Any]:
    return named if isinstance(named, list) else [named]


def _check_object(node: Mapping[str, Any]) -> Iterator[str]:
    if node.get("additionalProperties") is not False:
        yield "'additionalProperties' is required to be supplied and to be false"
    properties, required = node.get("properties"), node.get("required")
    if not isinstance(properties, dict):
        yield "object schema missing 'properties'"
    elif not isinstance(required, list) or {*map(str, required)} != properties.keys():
        yield f"'required' is required to be a list of every key in properties: {', '.join(properties)}"


def _check_texts(node: Mapping[str, Any], _: Any) -> Iterator[str]:
    if "format" in node and node["format"] not in FORMATS:
        yield f"'format' {node['format']!r} is not supported"
    if _LOOKAROUND.search(str(node.get("pattern", ""))):
        yield "'pattern': regex lookaround is not supported"
    if not _is_filled(node.get("enum", [0])):
        yield "'enum' must be a list with at least one value"


def _check_reference(node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" not in node:
        return
    beside = sorted(node.keys() - {"$ref", "$defs"})
    if beside:
        yield f"'$ref' cannot have keywords beside it: {', '.join(beside)}"
    known = {"#"} | {f"#/{place}/{name}" for place in NAMED for name in root.get(place, {})}
    if node["$ref"] not in known:
        yield f"'$ref' {node['$ref']!r} does not resolve"


_CHECKS = (_check_shape, _check_keywords, _check_types, _check_texts, _check_reference)


def _check_limits(nodes: list[dict[str, Any]]) -> Iterator[str]:
    measured = ((measure(nodes), limit, what) for measure, limit, what in _LIMITS)
    yield from (f"expected at most {limit} {what}" for size, limit, what in measured if size > limit)


def _list_enums(nodes: list[dict[str, Any]]) -> list[list[Any]]:
    return [node["enum"] for node in nodes if "enum" in node]


def _count_characters(nodes: list[dict[str, Any]]) -> int:
    names = [name for node in nodes for keyword in NAMED for name in node.get(keyword, {})]
    constants = [node["const"] for node in nodes if "const" in node]
    return len("".join(map(str, chain(names, constants, *_list_enums(nodes)))))


def _find_longest_enum(nodes: list[dict[str, Any]]) -> int:
    return max((len("".join(map(str, enum))) for enum in _list_enums(nodes) if len(enum) > LONG_ENUM), default=0)


_LIMITS: tuple[tuple[Callable[[list[dict[str, Any]]], int], int, str], ...] = (
    (
        lambda nodes: sum(len(node.get("properties", {})) for node in nodes),
        MAX_PROPERTIES,
        "object properties in total",
    ),
    (lambda nodes: sum(map(len, _list_enums(nodes))), MAX_ENUM_VALUES, "enum values in total"),
    (_count_characters, MAX_NAMES, "characters in names and enum values in total"),
    (_find_longest_enum, MAX_ENUM_TEXT, f"characters in an 'enum' of more than {LONG_ENUM} values"),
)
