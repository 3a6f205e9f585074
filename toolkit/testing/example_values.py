"""The smallest value that a JSON Schema allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolkit._schema.json_schema import look_up

# A value of each format; its text has at least 4 characters.
FORMATS: Mapping[str, str] = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "duration": "PT0S",
    "email": "user@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "time": "00:00:00Z",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
TYPES = ("object", "array", "string", "number", "null")  # in this order, for a schema that leaves its type out
KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "object": ("properties", "required"),
    "array": ("items", "prefixItems", "minItems"),
    "string": ("minLength", "maxLength", "format", "pattern"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
# Longer texts and lists are not made up.
MAX_SIZE = 10_000


def make_value(schema: Any) -> Any:
    """Make the smallest value of a schema; it may break `pattern`, `uniqueItems`, `not` and the like: validate it.

    Raises:
        ValueError: None was found.
    """
    return _make(schema, schema, frozenset())


def _make(schema: Any, root: Any, opened: frozenset[str]) -> Any:
    if not isinstance(schema, Mapping):
        return _refuse("a schema that matches nothing") if schema is False else None
    if isinstance(reference := schema.get("$ref"), str):
        if reference in opened:
            return _refuse("a value that holds another one of its kind, without end")
        rest = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        return _make(_join([look_up(root, reference), rest]), root, opened | {reference})
    if "allOf" in schema:
        rest = {keyword: value for keyword, value in schema.items() if keyword != "allOf"}
        return _make(_join([*schema["allOf"], rest]), root, opened)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            rest = {name: value for name, value in schema.items() if name != keyword}
            return _first([_join([rest, branch]) for branch in schema[keyword]], root, opened)
    kinds = schema.get("type") or next((kind for kind in TYPES if {*KEYWORDS.get(kind, ())} & {*schema}), "null")
    if isinstance(kinds, list):
        return _first([{**schema, "type": kind} for kind in kinds], root, opened)
    return _MAKERS[kinds](schema, root, opened) if kinds in _MAKERS else _refuse(f"the type {kinds!r}")


def _refuse(what: str) -> Any:
    raise ValueError(f"No value was found for {what}.")


def _first(branches: Sequence[Any], root: Any, opened: frozenset[str]) -> Any:
    """Return a value of the first branch that has one."""
    for branch in branches:
        try:
            return _make(branch, root, opened)
        except ValueError:  # noqa: PERF203  there are few
            continue
    return _refuse("any of the alternatives")


def _join(schemas: Sequence[Any]) -> Any:
    """Join schemas that all apply; where two have one keyword, the later one counts, except what lists names."""
    if False in schemas:
        return False
    joined: dict[str, Any] = {}
    for schema in schemas:
        for keyword, value in (schema if isinstance(schema, Mapping) else {}).items():
            if keyword == "properties":
                joined[keyword] = {**joined.get(keyword, {}), **value}
            elif keyword in ("required", "allOf"):
                joined[keyword] = [*joined.get(keyword, ()), *value]
            else:
                joined[keyword] = value
    return joined


def _make_object(schema: Mapping[str, Any], root: Any, opened: frozenset[str]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {name: _make(properties.get(name, True), root, opened) for name in schema.get("required", ())}


def _make_array(schema: Mapping[str, Any], root: Any, opened: frozenset[str]) -> list[Any]:
    first = schema.get("prefixItems", ())
    size = _check_size(schema.get("minItems", 0))
    items = [*first[:size], *[schema.get("items", True)] * (size - len(first))]
    return [_make(item, root, opened) for item in items]


def _make_text(schema: Mapping[str, Any], _: Any, __: frozenset[str]) -> str:
    return FORMATS.get(schema.get("format", ""), "").ljust(_check_size(schema.get("minLength", 0)), "x")


def _check_size(size: int) -> int:
    return int(size) if size <= MAX_SIZE else int(_refuse(f"a size of {size}"))


def _make_number(schema: Mapping[str, Any], _: Any, __: frozenset[str]) -> Any:
    """Return 0 if that is allowed, or else the number that is nearest to it."""
    step = schema.get("multipleOf") or (1 if schema["type"] == "integer" else None)
    low, above = schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf)
    high, below = schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf)

    def is_allowed(value: float) -> bool:
        return bool(low <= value <= high and above < value < below)

    middle = (max(low, above) + min(high, below)) / 2
    if step:
        bounds = [value for value in (low, above, high, below) if math.isfinite(value)]
        nearest = [step * (round(bound / step) + change) for bound in bounds for change in (-1, 0, 1)]
        candidates = [0, *sorted(nearest, key=abs)]
    else:
        candidates = [0, low, high, above + 1, below - 1, middle]
    allowed = [value for value in candidates if is_allowed(value)]
    return allowed[0] if allowed else _refuse("a number within these bounds")


_MAKERS: Mapping[str, Callable[[Mapping[str, Any], Any, frozenset[str]], Any]] = {
    "object": _make_object,
    "array": _make_array,
    "string": _make_text,
    "number": _make_number,
    "integer": _make_number,
    "boolean": lambda _, __, ___: False,
    "null": lambda _, __, ___: None,
}
