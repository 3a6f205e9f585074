"""Keywords that speak of one type each: what they say of a text, a number, a list, an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor, inf
from typing import Any

from toolkit.documents.checks import Contains, Sorted, Together, same, unique
from toolkit.documents.document import below
from toolkit.documents.numeric import BOUNDS, Bounds, number, whole
from toolkit.documents.patterns import matcher, pattern_core
from toolkit.documents.writer import FREE, Node, Writer, after, chained, doors, informed, members, plain, wrapped

_ABSENT = object()  # an item that `prefixItems` describes and a list does not have

Schema = dict[str, Any]


def _null(_writer: Writer, _schema: Schema, _place: str) -> list[Node]:
    return [{"type": "none"}]


def _boolean(_writer: Writer, _schema: Schema, _place: str) -> list[Node]:
    return [{"type": "bool"}]


def _integer(_writer: Writer, schema: Schema, _place: str) -> list[Node]:
    native = {name: limit for keyword, limit in _limits(schema) for name, limit in [_INTEGRAL[keyword](limit)]}
    core = {"type": "function-before", "function": plain(whole), "schema": {"type": "int", **native}}
    return [core, *_bounded(schema, ("multipleOf",))]


def _number(_writer: Writer, schema: Schema, _place: str) -> list[Node]:
    core = wrapped(plain(number), {"type": "float", "allow_inf_nan": False})
    return [core, *_bounded(schema, BOUNDS)]


def _limits(schema: Schema) -> list[tuple[str, Any]]:
    return [(keyword, schema[keyword]) for keyword in _INTEGRAL if keyword in schema]


# The limits of integers that come to the same as limits with a fraction.
_INTEGRAL: Mapping[str, Callable[[Any], tuple[str, int]]] = {
    "minimum": lambda limit: ("ge", ceil(limit)),
    "exclusiveMinimum": lambda limit: ("gt", floor(limit)),
    "maximum": lambda limit: ("le", floor(limit)),
    "exclusiveMaximum": lambda limit: ("lt", ceil(limit)),
}


def _bounded(schema: Schema, keywords: Any) -> list[Node]:
    limits = [(keyword, schema[keyword]) for keyword in keywords if keyword in schema]
    return [after(plain(Bounds(limits).check), {"type": "any"})] if limits else []


def _string(_writer: Writer, schema: Schema, place: str) -> list[Node]:
    core = {"type": "str", **_counts(schema, "minLength", "maxLength")}
    pattern = schema.get("pattern")
    return [core, *([] if pattern is None else [pattern_core(pattern, below(place, "pattern"))])]


def _counts(schema: Schema, least: str, most: str) -> Node:
    named = {"min_length": schema.get(least), "max_length": schema.get(most)}
    return {name: int(count) for name, count in named.items() if count is not None}


def _array(writer: Writer, schema: Schema, place: str) -> list[Node]:
    items = writer.deeper(place, schema["items"], "items") if "items" in schema else dict(FREE)
    counts = _counts(schema, "minItems", "maxItems")
    if "prefixItems" in schema:
        cores = [{"type": "list", **counts}, *_row(writer, schema, place, items)]
    else:
        cores = [{"type": "list", "items_schema": items, **counts}]
    if schema.get("uniqueItems") is True:
        cores.append(after(plain(unique), {"type": "any"}))
    return [*cores, *_contains(writer, schema, place)]


def _row(writer: Writer, schema: Schema, place: str, items: Node) -> list[Node]:
    first = [writer.deeper(place, each, "prefixItems", i) for i, each in enumerate(schema["prefixItems"])]
    optional = [{"type": "default", "schema": core, "default": _ABSENT} for core in first]
    row = {"type": "tuple", "items_schema": [*optional, items], "variadic_item_index": len(first)}
    return [after(plain(tuple), {"type": "any"}), after(plain(_present), row)]


def _present(items: tuple[Any, ...]) -> list[Any]:
    return [item for item in items if item is not _ABSENT]


def _contains(writer: Writer, schema: Schema, place: str) -> list[Node]:
    if "contains" not in schema:
        return []
    inner = writer.probing(below(place, "contains"))
    writer.work.add(place, deeper=[inner])
    check = Contains(writer.probe, inner, schema.get("minContains", 1), schema.get("maxContains", inf))
    return [after(informed(check.check), {"type": "any"})]


def _object(writer: Writer, schema: Schema, place: str) -> list[Node]:
    return [*_keys(writer, schema, place), *_marks(schema), *_fields(writer, schema, place)]


def _keys(writer: Writer, schema: Schema, place: str) -> list[Node]:
    """Write what is said of the keys alone; this comes before defaults are filled in."""
    core: Node = {"type": "dict", **_counts(schema, "minProperties", "maxProperties")}
    if "propertyNames" in schema:
        core["keys_schema"] = wrapped(plain(same), writer.deeper(place, schema["propertyNames"], "propertyNames"))
    steps = [core] if len(core) > 1 else []
    if "dependentRequired" in schema:
        steps = [after(plain(Together(schema["dependentRequired"]).check), core)]
    return steps


def _marks(schema: Schema) -> list[Node]:
    """Write what tells an alternative from others, so that the rest is not looked at in vain, over and over."""
    known = schema.get("properties", {})
    marks = {name: each["const"] for name, each in known.items() if isinstance(each, dict) and "const" in each}
    if not marks or len(known) == len(marks):
        return []
    cores = {name: members([value]) for name, value in marks.items()}
    needed = schema.get("required", ())
    fields = {
        name: {"type": "typed-dict-field", "schema": core, "required": name in needed} for name, core in cores.items()
    }
    return [{"type": "typed-dict", "fields": fields, "extra_behavior": "allow"}]


def _fields(writer: Writer, schema: Schema, place: str) -> list[Node]:
    patterns = {
        each: matcher(each, below(place, "patternProperties", each)) for each in schema.get("patternProperties", {})
    }
    known = schema.get("properties", {})
    names = dict.fromkeys([*known, *schema.get("required", ())])
    fields = {name: _field(writer, schema, place, name, patterns) for name in names}
    core: Node = {"type": "typed-dict", "fields": fields, "extra_behavior": "allow"}
    if not patterns:
        return [core | _extras(writer, schema, place)]
    rest: Node = {"type": "typed-dict", "fields": {}, "extra_behavior": "allow"} | _extras(writer, schema, place)
    texts = {"type": "str"}
    cores = [
        {"type": "dict", "keys_schema": texts, "values_schema": _matched(writer, place, each)} for each in patterns
    ]
    return [core, wrapped(plain(Sorted(frozenset(fields), list(patterns.values())).check), doors([*cores, rest]))]


def _extras(writer: Writer, schema: Schema, place: str) -> Node:
    rest = schema.get("additionalProperties", True)
    if rest is False:
        return {"extra_behavior": "forbid"}
    return {"extras_schema": writer.deeper(place, rest, "additionalProperties")}


def _field(
    writer: Writer, schema: Schema, place: str, name: str, patterns: Mapping[str, Callable[[str], bool]]
) -> Node:
    known = schema.get("properties", {})
    cores = [writer.deeper(place, known[name], "properties", name)] if name in known else []
    cores += [_matched(writer, place, pattern) for pattern, matches in patterns.items() if matches(name)]
    if not cores:
        cores = [writer.deeper(place, schema.get("additionalProperties", True), "additionalProperties")]
    core, required = chained(cores), name in schema.get("required", ())
    if writer.fills and not required and isinstance(known[name], dict) and "default" in known[name]:
        core = {"type": "default", "schema": core, "default": known[name]["default"], "copy_default": True}
    return {"type": "typed-dict-field", "schema": core, "required": required}


def _matched(writer: Writer, place: str, pattern: str) -> Node:
    inner = below(place, "patternProperties", pattern)
    writer.work.add(place, deeper=[inner])
    return writer.shared(inner)


KINDS: Mapping[str, Callable[[Writer, Schema, str], list[Node]]] = {
    "null": _null,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "string": _string,
    "array": _array,
    "object": _object,
}
# The keywords that constrain a type, and the types of Python that it has.
CONSTRAINTS: Mapping[str, tuple[frozenset[str], frozenset[type]]] = {
    "string": (frozenset({"minLength", "maxLength", "pattern"}), frozenset({str})),
    "number": (frozenset(BOUNDS), frozenset({int, float})),
    "array": (
        frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"}),
        frozenset({list}),
    ),
    "object": (
        frozenset(
            {"properties", "patternProperties", "additionalProperties", "propertyNames", "required"}
            | {"minProperties", "maxProperties", "dependentRequired"}
        ),
        frozenset({dict}),
    ),
}
