"""Translation of JSON Schema into pydantic-core's schema, keyword by keyword.

The writer and the building blocks come first, then keywords of one type each, and keywords for values of any type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf
from typing import Any, TypeAlias

from pydantic_core import PydanticCustomError, PydanticKnownError, ValidationError

from toolkit._schema.json_schema import MAX_KEYS, as_list, to_hashable
from toolkit._schema.validation.checks import (
    BOUNDS,
    Alternatives,
    DeferredChecks,
    Probe,
    Workload,
    check_unique,
    keep_number,
    keep_value,
    refuse_value,
    to_integer,
)
from toolkit._schema.validation.patterns import build_matcher, write_pattern
from toolkit._schema.validation.pointers import SchemaDocument, join_pointer, refuse
from toolkit._schema.validation.syntax import check_keywords

Node: TypeAlias = dict[str, Any]

MAX_DEPTH = 100  # steps of a JSON pointer
MAX_PARTS = 10_000

FREE_REF = "any JSON"  # the name of a definition; other names are JSON pointers
FREE: Mapping[str, Any] = {"type": "definition-ref", "schema_ref": FREE_REF}


_ABSENT = object()  # stands for an item that `prefixItems` describes and a list does not have


@dataclass(frozen=True)
class KeywordWriter:
    """Writer of pydantic-core's schema of a JSON Schema.

    Attributes:
        fills: Whether to fill in defaults, and to coerce a value that matches no alternative as it is.
        definitions: Shared parts by their pointers; None until they are written.
        probed: Pointers of the parts that the probe tests.
        places: Pointers of all parts.
    """

    document: SchemaDocument
    probe: Probe
    work: Workload
    fills: bool
    definitions: dict[str, Node | None] = field(default_factory=dict)
    probed: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)

    def write(self, schema: Any, place: str) -> Node:
        """Write the core schema of a part.

        Raises:
            DefinitionError: The part is invalid or not supported.
        """
        if schema is True:
            return dict(FREE)
        if schema is False:
            return {"type": "function-plain", "function": no_info(refuse_value)}
        if not isinstance(schema, dict):
            refuse(place, "it is not a schema", "A schema is an object, true or false.")
        self.places.add(place)
        if len(self.places) > MAX_PARTS:
            refuse(place, f"it has more than {MAX_PARTS:,} parts", "Leave out what the tool does not need.")
        if place.count("/") > MAX_DEPTH:
            refuse(
                place, f"it is nested more than {MAX_DEPTH} levels deep", "Move it into $defs, and refer to it by $ref."
            )
        return write_chain(write_steps(self, schema, place))

    def write_here(self, place: str, schema: Any, *keys: str | int) -> Node:
        """Write a part that applies to the same value."""
        inner = join_pointer(place, *keys)
        self.work.add(place, here=[inner])
        return self.write(schema, inner)

    def write_deeper(self, place: str, schema: Any, *keys: str | int) -> Node:
        """Write a part that applies to values inside."""
        inner = join_pointer(place, *keys)
        self.work.add(place, deeper=[inner])
        return self.write(schema, inner)

    def write_reference(self, pointer: str) -> Node:
        """Write a reference to a part, which is written once."""
        self.definitions.setdefault(pointer, None)
        return {"type": "definition-ref", "schema_ref": pointer}

    def probe_at(self, pointer: str) -> str:
        """Add a part to those that the probe tests."""
        self.probed.add(pointer)
        return pointer

    def complete(self) -> None:
        """Write the missing definitions, and those that these refer to."""
        while missing := [pointer for pointer, core in self.definitions.items() if core is None]:
            for pointer in missing:
                self.definitions[pointer] = self.write(self.document.look_up(pointer), pointer)


def no_info(function: Callable[..., Any]) -> Node:
    """Describe a function whose only argument is a value."""
    return {"type": "no-info", "function": function}


def with_info(function: Callable[..., Any]) -> Node:
    """Describe a function whose arguments are a value and validation info."""
    return {"type": "with-info", "function": function}


def write_after(function: Node, core: Node) -> Node:
    """Write a function that is called with the value that another check returned."""
    return {"type": "function-after", "function": function, "schema": core}


def write_wrap(function: Node, core: Node) -> Node:
    """Write a function that is called with a value and another check."""
    return {"type": "function-wrap", "function": function, "schema": core}


def defer_checks(cores: list[Node]) -> Node:
    """Write checks that a function may call or leave out."""
    return {"type": "tuple", "items_schema": [write_wrap(no_info(lambda _, check: check), core) for core in cores]}


def write_filter(types: Collection[type], core: Node) -> Node:
    """Write a check of values of some types. Values of other types pass."""
    return write_wrap(no_info(lambda value, check: check(value) if type(value) in types else value), core)


def write_chain(steps: list[Node]) -> Node:
    """Write checks in sequence. Each checks the value that the check before it returned."""
    flat: list[Node] = []
    for step in steps:
        flat += step["steps"] if step["type"] == "chain" else [step]
    return flat[0] if len(flat) == 1 else {"type": "chain", "steps": flat}


def write_members(values: Sequence[Any]) -> Node:
    """Write the check that a value is one of `values`."""
    if values and all(isinstance(each, str) for each in values):
        return {"type": "literal", "expected": values}
    known = frozenset(map(to_hashable, values))

    def check(value: Any) -> Any:
        if to_hashable(value) not in known:
            written = [json.dumps(each, ensure_ascii=False) for each in values]
            listed = " or ".join(filter(None, (", ".join(written[:-1]), *written[-1:])))
            raise PydanticKnownError("literal_error", {"expected": listed})
        return value

    return write_after(no_info(check), {"type": "any"})


def write_union(cores: list[tuple[Node, str]]) -> Node:
    """Write a union of alternatives, each with a name for error locations."""
    return cores[0][0] if len(cores) == 1 else {"type": "union", "choices": cores}


def write_any_json() -> Node:
    """Write the definition of any JSON value, which refuses NaN and infinities."""
    values = {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": FREE}
    choices = [{"type": "none"}, *({"type": kind, "strict": True} for kind in ("str", "bool", "int"))]
    number = {"type": "float", "strict": True, "allow_inf_nan": False}
    union = {
        "type": "union",
        "mode": "left_to_right",
        "choices": [*choices, number, {"type": "list", "items_schema": FREE}, values],
    }
    return {"type": "custom-error", "custom_error_type": "finite_number", "schema": union, "ref": FREE_REF}


Schema = dict[str, Any]


def _write_integer(_writer: KeywordWriter, schema: Schema, _place: str) -> list[Node]:
    native = dict(to_limit(schema[keyword]) for keyword, to_limit in _INTEGRAL.items() if keyword in schema)
    core = {"type": "function-before", "function": no_info(to_integer), "schema": {"type": "int", **native}}
    return [core, *_write_bounds(schema, ("multipleOf",))]


def _write_number(_writer: KeywordWriter, schema: Schema, _place: str) -> list[Node]:
    core = write_wrap(no_info(keep_number), {"type": "float", "allow_inf_nan": False})
    return [core, *_write_bounds(schema, BOUNDS)]


# Limits of integers, rounded to integers with the same effect.
_INTEGRAL: Mapping[str, Callable[[Any], tuple[str, int]]] = {
    "minimum": lambda limit: ("ge", ceil(limit)),
    "exclusiveMinimum": lambda limit: ("gt", floor(limit)),
    "maximum": lambda limit: ("le", floor(limit)),
    "exclusiveMaximum": lambda limit: ("lt", ceil(limit)),
}


def _write_bounds(schema: Schema, keywords: Any) -> list[Node]:
    limits = [(keyword, schema[keyword]) for keyword in keywords if keyword in schema]

    def check(value: Any) -> Any:
        for keyword, limit in limits:
            is_outside, kind, name = BOUNDS[keyword]
            if is_outside(value, limit):
                raise PydanticKnownError(kind, {name: limit})  # type: ignore[arg-type]
        return value

    return [write_after(no_info(check), {"type": "any"})] if limits else []


def _write_string(_writer: KeywordWriter, schema: Schema, place: str) -> list[Node]:
    core = {"type": "str", **_write_counts(schema, "minLength", "maxLength")}
    pattern = schema.get("pattern")
    return [core, *([] if pattern is None else [write_pattern(pattern, join_pointer(place, "pattern"))])]


def _write_counts(schema: Schema, least: str, most: str) -> Node:
    named = {"min_length": schema.get(least), "max_length": schema.get(most)}
    return {name: int(count) for name, count in named.items() if count is not None}


def _write_array(writer: KeywordWriter, schema: Schema, place: str) -> list[Node]:
    items = writer.write_deeper(place, schema["items"], "items") if "items" in schema else dict(FREE)
    counts = _write_counts(schema, "minItems", "maxItems")
    if "prefixItems" in schema:
        cores = [{"type": "list", **counts}, *_write_tuple(writer, schema, place, items)]
    else:
        cores = [{"type": "list", "items_schema": items, **counts}]
    if schema.get("uniqueItems") is True:
        cores.append(write_after(no_info(check_unique), {"type": "any"}))
    return [*cores, *_write_contains(writer, schema, place)]


def _write_tuple(writer: KeywordWriter, schema: Schema, place: str, items: Node) -> list[Node]:
    first = [writer.write_deeper(place, each, "prefixItems", i) for i, each in enumerate(schema["prefixItems"])]
    optional = [{"type": "default", "schema": core, "default": _ABSENT} for core in first]
    row = {"type": "tuple", "items_schema": [*optional, items], "variadic_item_index": len(first)}
    drop_absent = no_info(lambda items: [item for item in items if item is not _ABSENT])
    return [write_after(no_info(tuple), {"type": "any"}), write_after(drop_absent, row)]


def _write_contains(writer: KeywordWriter, schema: Schema, place: str) -> list[Node]:
    if "contains" not in schema:
        return []

    inner = writer.probe_at(join_pointer(place, "contains"))
    writer.work.add(place, deeper=[inner])
    least = schema.get("minContains", 1)
    most = schema.get("maxContains", inf)

    def check(value: list[Any], info: Any) -> list[Any]:
        count = sum(writer.probe.fits(inner, item, info) for item in value)
        if not least <= count <= most:
            limit = f"at least {least}" if count < least else f"at most {most}"
            known = {"limit": limit, "count": count}
            raise PydanticCustomError(
                "contains", "List should have {limit} items that fit its schema, not {count}", known
            )
        return value

    return [write_after(with_info(check), {"type": "any"})]


def _write_object(writer: KeywordWriter, schema: Schema, place: str) -> list[Node]:
    return [*_write_keys(writer, schema, place), *_write_constants(schema), *_write_fields(writer, schema, place)]


def _write_keys(writer: KeywordWriter, schema: Schema, place: str) -> list[Node]:
    """Write the checks that depend on keys only. They are made before defaults are filled in."""
    core: Node = {"type": "dict", **_write_counts(schema, "minProperties", "maxProperties")}
    if "propertyNames" in schema:
        core["keys_schema"] = write_wrap(
            no_info(keep_value), writer.write_deeper(place, schema["propertyNames"], "propertyNames")
        )
    if "dependentRequired" not in schema:
        return [core] if len(core) > 1 else []

    def check(value: dict[str, Any]) -> dict[str, Any]:
        needed = [name for key, names in schema["dependentRequired"].items() if key in value for name in names]
        missing = dict.fromkeys(name for name in needed if name not in value)
        if missing:
            raise ValidationError.from_exception_data(
                "object", [{"type": "missing", "loc": (name,), "input": value} for name in missing]
            )
        return value

    return [write_after(no_info(check), core)]


def _write_constants(schema: Schema) -> list[Node]:
    """Write a check of the constant properties alone, which comes first, since they identify alternatives."""
    known = schema.get("properties", {})
    marks = {name: each["const"] for name, each in known.items() if isinstance(each, dict) and "const" in each}
    if not marks or len(known) == len(marks):
        return []
    cores = {name: write_members([value]) for name, value in marks.items()}
    needed = schema.get("required", ())
    fields = {
        name: {"type": "typed-dict-field", "schema": core, "required": name in needed} for name, core in cores.items()
    }
    return [{"type": "typed-dict", "fields": fields, "extra_behavior": "allow"}]


def _write_fields(writer: KeywordWriter, schema: Schema, place: str) -> list[Node]:
    patterns = {
        each: build_matcher(each, join_pointer(place, "patternProperties", each))
        for each in schema.get("patternProperties", {})
    }
    known = schema.get("properties", {})
    names = dict.fromkeys([*known, *schema.get("required", ())])
    fields = {name: _write_field(writer, schema, place, name, patterns) for name in names}
    core: Node = {"type": "typed-dict", "fields": fields, "extra_behavior": "allow"}
    if not patterns:
        return [core | _write_extras(writer, schema, place)]

    rest: Node = {"type": "typed-dict", "fields": {}, "extra_behavior": "allow"} | _write_extras(writer, schema, place)
    texts = {"type": "str"}
    cores = [
        {"type": "dict", "keys_schema": texts, "values_schema": _write_matched(writer, place, each)}
        for each in patterns
    ]

    def check(value: dict[str, Any], defer: DeferredChecks) -> dict[str, Any]:
        """Check the keys that `properties` does not list, by the patterns that match or as additional properties."""
        free = [key for key in value if key not in fields]
        matched = [[key for key in free if matches(key)] for matches in patterns.values()]
        known = {key for keys in matched for key in keys}
        groups = [*matched, [key for key in free if key not in known]]
        checked = dict(value)
        for keys, check_by in zip(groups, defer((None,) * len(groups))):
            if keys:
                checked |= check_by({key: checked[key] for key in keys})
        return checked

    return [core, write_wrap(no_info(check), defer_checks([*cores, rest]))]


def _write_extras(writer: KeywordWriter, schema: Schema, place: str) -> Node:
    rest = schema.get("additionalProperties", True)
    if rest is False:
        return {"extra_behavior": "forbid"}
    return {"extras_schema": writer.write_deeper(place, rest, "additionalProperties")}


def _write_field(
    writer: KeywordWriter, schema: Schema, place: str, name: str, patterns: Mapping[str, Callable[[str], bool]]
) -> Node:
    known = schema.get("properties", {})
    cores = [writer.write_deeper(place, known[name], "properties", name)] if name in known else []
    cores += [_write_matched(writer, place, pattern) for pattern, matches in patterns.items() if matches(name)]
    if not cores:
        cores = [writer.write_deeper(place, schema.get("additionalProperties", True), "additionalProperties")]
    core = write_chain(cores)
    required = name in schema.get("required", ())
    if writer.fills and not required and isinstance(known[name], dict) and "default" in known[name]:
        core = {"type": "default", "schema": core, "default": known[name]["default"], "copy_default": True}
    return {"type": "typed-dict-field", "schema": core, "required": required}


def _write_matched(writer: KeywordWriter, place: str, pattern: str) -> Node:
    inner = join_pointer(place, "patternProperties", pattern)
    writer.work.add(place, deeper=[inner])
    return writer.write_reference(inner)


KINDS: Mapping[str, Callable[[KeywordWriter, Schema, str], list[Node]]] = {
    "null": lambda _writer, _schema, _place: [{"type": "none"}],
    "boolean": lambda _writer, _schema, _place: [{"type": "bool"}],
    "integer": _write_integer,
    "number": _write_number,
    "string": _write_string,
    "array": _write_array,
    "object": _write_object,
}
# The keywords that constrain a type, and its types in Python.
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


def write_steps(writer: KeywordWriter, schema: Schema, place: str) -> list[Node]:
    """Write a schema with keywords as checks that follow each other.

    Raises:
        DefinitionError: The schema is invalid or not supported.
    """
    check_keywords(schema, place)
    typed = _write_types(writer, schema, place)
    guarded = [] if typed else _write_guarded(writer, schema, place)
    reading = [write(writer, schema, place) for keyword, write in _READING.items() if keyword in schema]
    checking = [write(writer, schema, place) for keyword, write in _CHECKING.items() if keyword in schema]
    untyped = [*(reading or [dict(FREE)]), *guarded]
    steps = [*typed, *reading, *checking] if typed else [*untyped, *checking]
    return [{"type": "nullable", "schema": write_chain(steps)}] if schema.get("nullable") is True else steps


def _write_types(writer: KeywordWriter, schema: Schema, place: str) -> list[Node]:
    """Write the types that a value may have."""
    named = schema.get("type", [])
    names = list(dict.fromkeys([named] if isinstance(named, str) else named))
    kinds = [name for name in names if name != "null" and not (name == "integer" and "number" in names)]
    cores = [(write_chain(KINDS[name](writer, schema, place)), name) for name in kinds or names]
    if not cores:
        return []
    core = write_union(cores)
    return [{"type": "nullable", "schema": core}] if kinds and "null" in names else [core]


def _write_guarded(writer: KeywordWriter, schema: Schema, place: str) -> list[Node]:
    """Write the constraints of a schema without `type`: each holds for values of its own type."""
    return [
        write_filter(types, write_chain(KINDS[kind](writer, schema, place)))
        for kind, (keywords, types) in CONSTRAINTS.items()
        if schema.keys() & keywords
    ]


def _write_enum(_writer: KeywordWriter, schema: Schema, place: str) -> Node:
    values = schema["enum"]
    if sum(not isinstance(value, str) for value in values) > MAX_KEYS:
        refuse(place, f"its enum has more than {MAX_KEYS:,} values that are not text", "Leave some of them out.")
    return write_members(values)


def _write_reference(writer: KeywordWriter, schema: Schema, place: str) -> Node:
    target = writer.document.resolve(schema["$ref"], place)
    writer.work.add(place, here=[target])
    return writer.write_reference(target)


def _write_all(writer: KeywordWriter, schema: Schema, place: str) -> Node:
    return write_chain([writer.write_here(place, each, "allOf", i) for i, each in enumerate(schema["allOf"])])


def _write_any(writer: KeywordWriter, schema: Schema, place: str) -> Node:
    choices = schema["anyOf"]
    if writer.fills and sum(map(_may_have_parts, choices)) > 1:
        return _write_alternatives(writer, choices, join_pointer(place, "anyOf"), is_exclusive=False)
    return write_union(
        [(writer.write_here(place, each, "anyOf", i), _name_alternative(each, i)) for i, each in enumerate(choices)]
    )


def _write_one(writer: KeywordWriter, schema: Schema, place: str) -> Node:
    return _write_alternatives(writer, schema["oneOf"], join_pointer(place, "oneOf"), is_exclusive=True)


def _write_alternatives(writer: KeywordWriter, choices: list[Any], place: str, *, is_exclusive: bool) -> Node:
    """Write alternatives that are tested with the value as it is before any of them may coerce it."""
    places = [writer.probe_at(join_pointer(place, i)) for i in range(len(choices))]
    writer.work.add(place.rpartition("/")[0], here=places)
    alternatives = Alternatives(writer.probe, places, is_exclusive)
    if not writer.fills:
        return write_after(with_info(alternatives.check_exactly), dict(FREE))
    cores = [writer.write_reference(each) for each in places]
    union = write_union([(core, _name_alternative(each, i)) for i, (core, each) in enumerate(zip(cores, choices))])
    return write_wrap(with_info(alternatives.choose), defer_checks([*cores, union]))


def _may_have_parts(schema: Any) -> bool:
    """Return whether values may be objects or arrays: a union prefers objects with more known keys to exact matches."""
    types = as_list(schema.get("type", "object")) if isinstance(schema, dict) else ["object"]
    return "object" in types or "array" in types


def _name_alternative(schema: Any, number: int) -> str:
    """Return a name of an alternative for error locations."""
    known = schema if isinstance(schema, dict) else {}
    names = (known.get("title"), str(known.get("$ref", "")).rpartition("/")[2], known.get("type"))
    return next((name for name in names if name and isinstance(name, str)), str(number))


def _write_not(writer: KeywordWriter, _schema: Schema, place: str) -> Node:
    inner = writer.probe_at(join_pointer(place, "not"))
    writer.work.add(place, here=[inner])

    def check(value: Any, info: Any) -> Any:
        if writer.probe.fits(inner, value, info):
            raise PydanticCustomError("not", "Input should not match what the schema excludes")
        return value

    return write_after(with_info(check), {"type": "any"})


def _write_if(writer: KeywordWriter, schema: Schema, place: str) -> Node:
    inner = writer.probe_at(join_pointer(place, "if"))
    writer.work.add(place, here=[inner])
    cores = [
        writer.write_here(place, schema[each], each) if each in schema else {"type": "any"} for each in ("then", "else")
    ]

    def check(value: Any, defer: DeferredChecks, info: Any) -> Any:
        then, otherwise = defer((None, None))
        return then(value) if writer.probe.fits(inner, value, info) else otherwise(value)

    return write_wrap(with_info(check), defer_checks(cores))


def _write_dependent(writer: KeywordWriter, schema: Schema, place: str) -> Node:
    schemas = schema["dependentSchemas"]
    cores = [writer.write_here(place, each, "dependentSchemas", key) for key, each in schemas.items()]

    def check(value: dict[str, Any], defer: DeferredChecks) -> dict[str, Any]:
        present = frozenset(value)
        for key, check_by in zip(schemas, defer((None,) * len(schemas))):
            value = check_by(value) if key in present else value
        return value

    return write_filter({dict}, write_wrap(no_info(check), defer_checks(cores)))


# Keywords that read a value, and refuse a value that is not JSON.
_READING: Mapping[str, Callable[[KeywordWriter, Schema, str], Node]] = {
    "const": lambda _writer, schema, _place: write_members([schema["const"]]),
    "enum": _write_enum,
    "$ref": _write_reference,
    "allOf": _write_all,
    "anyOf": _write_any,
    "oneOf": _write_one,
}
# Keywords that check a value that was read.
_CHECKING: Mapping[str, Callable[[KeywordWriter, Schema, str], Node]] = {
    "not": _write_not,
    "if": _write_if,
    "dependentSchemas": _write_dependent,
}
