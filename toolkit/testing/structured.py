"""Which schemas OpenAI refuses where `strict` is true.

Rules and limits: https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas, read in November
2026. What that page does not settle is as the API answers: a reference stands alone, and a keyword that is not listed
is refused. As in `strict`, only the first fault is ever read, so a check relies on those before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

KEYWORDS = (
    *("type", "title", "description", "enum", "const", "anyOf", "$ref", "$defs", "definitions"),
    *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
    *("pattern", "format", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
SAYS_WHAT = ("type", "anyOf", "$ref", "enum", "const")
NAMED = ("properties", "$defs", "definitions")
MAX_PROPERTIES = 5000
MAX_DEPTH = 10  # objects inside objects
MAX_NAMES = 120_000  # characters in names of properties and definitions and in values of enum and const
MAX_ENUM_VALUES = 1000  # in the whole schema
MAX_ENUM_TEXT = 15_000  # characters in one enum, where it has more than LONG_ENUM values
LONG_ENUM = 250

Path = tuple[str, ...]
_LOOKAROUND = re.compile(r"\(\?<?[=!]")


def schema_faults(schema: Any) -> Iterator[str]:
    """Find what OpenAI refuses in a schema: where, as it writes it, and which keyword."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or "anyOf" in schema:
        yield "the root must have type 'object', and no 'anyOf'"
    for path, depth, node in _nodes(schema):
        faults = (text for check in _CHECKS for text in check(node, schema))
        yield from (f"In context={path}, {text}" for text in faults)
        if depth > MAX_DEPTH:
            yield f"In context={path}, {depth} levels of nesting exceed the limit of {MAX_DEPTH}"
    yield from _too_big([node for _, _, node in _nodes(schema)])


def _nodes(node: Any, path: Path = (), depth: int = 0) -> Iterator[tuple[Path, int, Any]]:
    """List every schema in a schema, with the objects that it lies in, itself included."""
    depth += isinstance(node, dict) and "properties" in node
    yield path, depth, node
    for keyword in NAMED:
        for name, inner in node.get(keyword, {}).items():
            yield from _nodes(inner, (*path, keyword, name), depth if keyword == "properties" else 0)
    for index, way in enumerate(node.get("anyOf", ())):
        yield from _nodes(way, (*path, "anyOf", str(index)), depth)
    if "items" in node:
        yield from _nodes(node["items"], (*path, "items"), depth)


def _form(node: Any, _: Any) -> Iterator[str]:
    if not isinstance(node, dict):
        yield f"{node!r} is not a schema"
    if not any(keyword in node for keyword in SAYS_WHAT):
        yield "schema must have a 'type' key"
    for keyword in NAMED:
        if not isinstance(node.get(keyword, {}), dict):
            yield f"{keyword!r} must be an object"
    if not isinstance(node.get("anyOf", [0]), list) or not node.get("anyOf", [0]):
        yield "'anyOf' must be a list with at least one schema"


def _keywords(node: Mapping[str, Any], _: Any) -> Iterator[str]:
    yield from (f"{keyword!r} is not permitted" for keyword in node if keyword not in KEYWORDS)


def _types(node: Mapping[str, Any], _: Any) -> Iterator[str]:
    named = node.get("type", [])
    types = named if isinstance(named, list) else [named]
    yield from (f"'type' {name!r} is not supported" for name in types if name not in TYPES)
    if "array" in types and "items" not in node:
        yield "array schema missing 'items'"
    if "object" in types or "properties" in node:
        yield from _object(node)


def _object(node: Mapping[str, Any]) -> Iterator[str]:
    if node.get("additionalProperties") is not False:
        yield "'additionalProperties' is required to be supplied and to be false"
    properties, required = node.get("properties"), node.get("required")
    if not isinstance(properties, dict):
        yield "object schema missing 'properties'"
    elif not isinstance(required, list) or {*map(str, required)} != properties.keys():
        yield f"'required' is required to be a list of every key in properties: {', '.join(properties)}"


def _texts(node: Mapping[str, Any], _: Any) -> Iterator[str]:
    if "format" in node and node["format"] not in FORMATS:
        yield f"'format' {node['format']!r} is not supported"
    if _LOOKAROUND.search(str(node.get("pattern", ""))):
        yield "'pattern': regex lookaround is not supported"
    if "enum" in node and not (isinstance(node["enum"], list) and node["enum"]):
        yield "'enum' must be a list with at least one value"


def _reference(node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" not in node:
        return
    beside = sorted(node.keys() - {"$ref", "$defs"})
    if beside:
        yield f"'$ref' cannot have keywords beside it: {', '.join(beside)}"
    target = str(node["$ref"])
    if target != "#" and target not in {f"#/{place}/{name}" for place in NAMED for name in root.get(place, {})}:
        yield f"'$ref' {target!r} does not resolve"


_CHECKS = (_form, _keywords, _types, _texts, _reference)


def _too_big(nodes: list[dict[str, Any]]) -> Iterator[str]:
    enums = [node["enum"] for node in nodes if "enum" in node]
    names = [name for node in nodes for keyword in NAMED for name in node.get(keyword, {})]
    values = [value for enum in enums for value in enum] + [node["const"] for node in nodes if "const" in node]
    if sum(len(node.get("properties", {})) for node in nodes) > MAX_PROPERTIES:
        yield f"expected at most {MAX_PROPERTIES} object properties in total"
    if sum(map(len, enums)) > MAX_ENUM_VALUES:
        yield f"expected at most {MAX_ENUM_VALUES} enum values in total"
    if sum(len(str(text)) for text in [*names, *values]) > MAX_NAMES:
        yield f"expected at most {MAX_NAMES} characters in names and enum values in total"
    if any(len(enum) > LONG_ENUM and len("".join(map(str, enum))) > MAX_ENUM_TEXT for enum in enums):
        yield f"expected at most {MAX_ENUM_TEXT} characters in an 'enum' of more than {LONG_ENUM} values"
