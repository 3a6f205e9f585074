"""How objects, open objects and tuples are shown.

{"a": int, "b": int = 1}     {"a": int, "b": int | null}, or `b` left out where the provider lets it
{"a": int, **more}           {"a": int, "additional_properties": [{"key", "value"}]}
{**more}                     [{"key", "value"}]
[int, str]                   {"item_1": int, "item_2": str}

How references are shown: as shared definitions where the provider takes them, else as what they point to.

How unions and enumerations are shown.

oneOf, anyOf                        anyOf, where the alternatives can be told apart in what the model writes
[{...}, {...}] written alike        [{...}, {"option_2": {...}}]
where there is no anyOf             the widest of the alternatives, or JSON text
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any, cast

from toolkit._dialects.strict.codecs import (
    KEY,
    OMIT,
    VALUE,
    Choice,
    Codec,
    Field,
    Fields,
    Items,
    Named,
    Pairs,
    Places,
    Wrapped,
)
from toolkit._dialects.strict.rules import json_of, sort_of_values, words
from toolkit._dialects.strict.scope import (
    ANNOTATIONS,
    STRUCTURE,
    Part,
    Schema,
    Scope,
    either,
    free_name,
    nullable,
    without_null,
)
from toolkit._schema.matching import (
    are_disjoint,
    as_mapping,
    collect_references,
    is_valid,
    list_allowed_values,
    look_up,
)

# How often one definition is written inside itself where references are inlined; what lies deeper is JSON text.
MAX_DEPTH = 3


def reference(scope: Scope, schema: Schema, path: str) -> Part:
    """Show a reference."""
    pointer = schema["$ref"]
    if not isinstance(look_up(scope.root, str(pointer)), Mapping):
        return scope.text(schema, path, f"{pointer!r} is not in the schema")
    if is_inlined(scope, schema):
        return _inlined(scope, schema, path)
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    name = _defined(scope, pointer)
    codec: Codec | None = scope.codecs[name] if name in scope.codecs else Named(name, scope.codecs)
    shown = scope.carried(beside, path, ("description",), Part({}).saying(schema.get("description", "")).shown)
    ref = {"$ref": f"#/$defs/{name}"}
    return Part({"anyOf": [ref], **shown} if shown else ref, codec)  # a reference may have no neighbours


def is_inlined(scope: Scope, schema: Any) -> bool:
    """Tell whether a schema is a reference that is shown as what it points to."""
    if not isinstance(schema, Mapping) or not isinstance(look_up(scope.root, str(schema.get("$ref", ""))), Mapping):
        return False
    sort = "recursive" if _is_recursive(scope, schema["$ref"]) else ""
    return not scope.rules.sends("$ref", sort) or bool(schema.keys() - ANNOTATIONS - {"$ref"})


@contextmanager
def opened(scope: Scope, schema: Any) -> Iterator[Any]:
    """Give what an inlined reference points to, as long as it is not too deep inside itself; else the schema."""
    if not is_inlined(scope, schema) or scope.entered.count(schema["$ref"]) >= MAX_DEPTH:
        yield schema
        return
    scope.entered.append(schema["$ref"])
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    try:
        yield merged(beside, look_up(scope.root, schema["$ref"]))
    finally:
        scope.entered.pop()


def merged(first: Schema, second: Schema) -> dict[str, Any]:
    """Make one schema of two that both hold; where they disagree the first one wins, and the form is wider."""
    both = {**second, **first}
    for keyword in ("properties", "patternProperties"):
        if keyword in first and keyword in second:
            both[keyword] = _merged_properties(first[keyword], second[keyword])
    if "required" in first and "required" in second:
        both["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    return both


def _merged_properties(first: Schema, second: Schema) -> dict[str, Any]:
    shared = {name: {"allOf": [first[name], second[name]]} for name in first if name in second}
    return {**first, **second, **{name: both for name, both in shared.items() if first[name] != second[name]}}


def _inlined(scope: Scope, schema: Schema, path: str) -> Part:
    with opened(scope, schema) as target:
        if target is not schema:
            return scope.part(target, path)
    name = schema["$ref"].rpartition("/")[2]
    return scope.text(schema, path, f"{name!r} lies more than {MAX_DEPTH} times inside itself")


def _defined(scope: Scope, pointer: str) -> str:
    """Rewrite a definition once, and give its name."""
    if pointer in scope.names:
        return scope.names[pointer]
    last = pointer.rpartition("/")[2].strip("#") or "root"
    name = scope.names[pointer] = scope.key(last, scope.names.values(), pointer)
    target = look_up(scope.root, pointer)
    scope.definitions[name] = _outline(scope, target)  # what is inside it may point to it
    part = scope.part(target, last)
    scope.definitions[name], scope.codecs[name] = part.shown, part.codec
    return name


def _outline(scope: Scope, schema: Schema) -> dict[str, Any]:
    """Tell as much of a definition in the making as is needed to tell it from others: the names of its properties."""
    names = list(schema["properties"]) if isinstance(schema.get("properties"), Mapping) else []
    required = schema.get("required", ()) if scope.rules.sends("required", "partial") else names
    return scope.object_of({name: {} for name in names}, required) if names and all(map(scope.takes, names)) else {}


def _is_recursive(scope: Scope, pointer: str) -> bool:
    """Tell whether what a reference points to leads back to itself."""
    if pointer not in scope.recursive:
        scope.recursive[pointer] = pointer in collect_references(look_up(scope.root, pointer), scope.root)
    return scope.recursive[pointer]


_DONE = frozenset(
    {"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "description"}
)
_DONE_ARRAY = frozenset({"items", "prefixItems", "description"})


@dataclass(frozen=True)
class Property:
    """One property as it is shown."""

    part: Part
    field: Field
    required: bool


def object_(scope: Scope, schema: Schema, path: str) -> Part:
    """Show an object: closed, open, or with nothing but free keys."""
    unknown = _conditional_names(schema) - as_mapping(schema.get("properties")).keys()
    if unknown:
        return scope.text(schema, path, f"{min(unknown)!r} is a property under some condition only")
    if is_open(schema) and not as_mapping(schema.get("properties")) and path:
        return _described(scope, schema, path, free(scope, schema, path))
    if not schema.get("properties") and path and not scope.rules.sends("properties", "none"):
        return scope.text(schema, path, "the provider takes no object without properties")
    return _described(scope, schema, path, _fields(scope, schema, path))


def free(scope: Scope, schema: Schema, path: str) -> Part:
    """Show the free keys of an object as an array of pairs."""
    scope.note(path, "sent as a list of key and value")
    value = scope.part(_free_value(schema), f"{path}.*".lstrip("."))
    names = as_mapping(schema.get("propertyNames"))
    key = scope.part({"type": "string", **names}, f"{path} (keys)")
    patterns = " or ".join(map(json_of, as_mapping(schema.get("patternProperties"))))
    said = f"Keys match the regular expression {patterns}." if patterns else ""
    keyed = key.shown if key.codec is None and key.shown.get("type") == "string" else {"type": "string"}
    pair = scope.object_of({KEY: keyed, VALUE: value.shown}, [KEY, VALUE])
    shown = Part({"type": "array", "items": pair}).saying("Each key once, with its value.", said)
    return Part(shown.shown, Pairs(value.codec))


def is_open(schema: Schema) -> bool:
    """Tell whether an object may have keys that it does not list.

    One that lists properties and says no more is taken as closed, as its author nearly always means it; pydantic
    ignores what else is there.
    """
    if schema.get("patternProperties"):
        return True
    return schema.get("additionalProperties", "properties" not in schema) is not False


def tuple_(scope: Scope, schema: Schema, path: str) -> Part:
    """Show an array whose items have types of their own as an object with a property for each."""
    first = schema.get("prefixItems", schema.get("items", []))
    tail = schema.get("items", True) if "prefixItems" in schema else schema.get("additionalItems", True)
    least = schema.get("minItems", 0)
    names = [f"item_{number}" for number in range(1, len(first) + 1)]
    endless = tail is not False and schema.get("maxItems", len(first) + 1) > len(first)
    more = {"more": {"type": "array", "items": tail}} if endless else {}
    listing = {
        "properties": {**dict(zip(names, first)), **more},
        "required": [*names[:least], *more],
        "additionalProperties": False,
    }
    scope.note(path, "a tuple, sent as an object with a property for each item")
    inner = _fields(scope, listing, path)
    codec = Places(tuple(names), inner.codec, "more" if endless else None)
    done = _DONE_ARRAY | {"minItems", "maxItems", "additionalItems"}
    shown = scope.carried(schema, path, done, Part(inner.shown).saying(schema.get("description", "")).shown)
    return Part(shown, codec)


def array(scope: Scope, schema: Schema, path: str) -> Part:
    """Show an array, its items rewritten."""
    if "prefixItems" in schema or isinstance(schema.get("items"), list):
        return tuple_(scope, schema, path)
    item = scope.part(schema.get("items", True), f"{path}[]")
    shown = Part({"type": "array", "items": item.shown}).saying(schema.get("description", "")).shown
    codec = None if item.codec is None else Items(item.codec)
    return Part(scope.carried(schema, path, _DONE_ARRAY, shown), codec)


def _described(scope: Scope, schema: Schema, path: str, part: Part) -> Part:
    said = " ".join(text for text in (schema.get("description"), part.shown.get("description")) if text)
    shown = {**part.shown, "description": said} if said else part.shown
    return Part(scope.carried(schema, path, _DONE, shown), part.codec)


def _fields(scope: Scope, schema: Schema, path: str) -> Part:
    properties = list(_properties(scope, schema, path))
    fields = tuple(made.field for made in properties if made.field.changes)
    shown = {made.field.shown: made.part.shown for made in properties}
    required = [made.field.shown for made in properties if made.required]
    if not is_open(schema):
        return Part(scope.object_of(shown, required), Fields(fields) if fields else None)
    known = frozenset(as_mapping(schema.get("properties")))
    rest, pairs = free_name("additional_properties", known | shown.keys()), free(scope, schema, path)
    required += [] if scope.rules.sends("required", "partial") else [rest]
    return Part(
        scope.object_of({**shown, rest: pairs.shown}, required), Fields(fields, rest, cast("Pairs", pairs.codec), known)
    )


def _properties(scope: Scope, schema: Schema, path: str) -> Iterator[Property]:
    own, required = as_mapping(schema.get("properties")), schema.get("required", ())
    for name, shown in scope.keys(own, path).items():
        place = f"{path}.{name}".lstrip(".")
        if own[name] is False:
            scope.note(place, "left out: no value is valid")
        else:
            yield _property(scope, Field(name, shown), own[name], name in required, place)


def _property(scope: Scope, field: Field, schema: Any, required: bool, path: str) -> Property:  # noqa: FBT001
    with opened(scope, schema) as node:
        if isinstance(node, Mapping) and not scope.rules.sends("type", "null") and without_null(node) is not node:
            return _property_without_null(scope, field, node, required, path)
        part = scope.part(node, path)
    if required or scope.rules.sends("required", "partial"):
        return Property(part, replace(field, codec=part.codec), required)
    if not _null_is_left_out(scope, schema):
        return _marked(scope, field, schema, part, path)
    scope.note(path, "optional, sent as nullable: null leaves it out")
    shown = Part(nullable(part.shown)).saying("Send null to leave it out.")
    return Property(shown, replace(field, codec=part.codec, omission=(None,)), required=True)


def _null_is_left_out(scope: Scope, schema: Any) -> bool:
    """Tell whether null may stand for a property that is left out: it is no value, or it is the default."""
    return not is_valid(schema, None, scope.root) or as_mapping(schema).get("default", schema) is None


def _marked(scope: Scope, field: Field, schema: Any, part: Part, path: str) -> Property:
    """Show an optional property whose null means something by itself: a mark leaves it out."""
    scope.note(path, f"optional, and null is a value: {json_of(OMIT)} leaves it out")
    (name,) = OMIT
    mark = scope.object_of({name: {"type": "boolean", "enum": [True]}}, [name])
    if not are_disjoint(part.shown, mark, {"$defs": scope.definitions}):
        part = scope.text(schema, path, "it cannot be told from the mark")
    shown = Part(either(part.shown, mark)).saying(f"Send {json_of(OMIT)} to leave it out.")
    return Property(shown, replace(field, codec=part.codec, omission=(OMIT,)), required=True)


def _property_without_null(
    scope: Scope,
    field: Field,
    schema: Schema,
    required: bool,  # noqa: FBT001
    path: str,
) -> Property:
    """Show a property that may be null where the provider has no null: leaving it out says it."""
    bare = without_null(schema)
    if bare is None or (not required and schema.get("default", schema) is not None):
        part = scope.text(schema, path, "the provider has no null")
        return Property(part, replace(field, codec=part.codec), required)
    part = scope.part(bare, path)
    scope.note(path, "nullable, sent as optional: leaving it out means null")
    shown = part.saying("Left out, it is null.") if required else part
    absent = replace(field, absence=(None,)) if required else replace(field, default=(None,))
    return Property(shown, replace(absent, codec=part.codec), required=False)


def _free_value(schema: Schema) -> Any:
    patterns = list(as_mapping(schema.get("patternProperties")).values())
    others = schema.get("additionalProperties", not patterns)
    values = [*patterns, *([] if others is False else [others])]
    return values[0] if len(values) == 1 else True if True in values else {"anyOf": values}


def _conditional_names(schema: Schema) -> set[str]:
    """Name the properties that a schema knows only under a condition, such as those in `then`."""
    return {name for part in _conditional(schema) for name in as_mapping(as_mapping(part).get("properties"))}


def _conditional(schema: Schema) -> Iterator[Any]:
    yield from (schema.get(keyword) for keyword in ("then", "else"))
    yield from as_mapping(schema.get("dependentSchemas")).values()
    for keyword in ("anyOf", "oneOf"):
        yield from schema.get(keyword, ())


_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
SCALARS = frozenset({"string", "boolean", "integer", "number", "null"})
_NULL = {"type": "null"}


def union(scope: Scope, schema: Schema, path: str) -> Part:
    """Show a union: `anyOf`, or `oneOf`, which is no different where a document is of one alternative alone."""
    listed = schema.get("anyOf", schema.get("oneOf"))
    others = [choice for choice in listed if choice not in (False, _NULL)]
    has_null = _NULL in listed
    if not others or (has_null and not scope.rules.sends("type", "null")):
        return scope.text(schema, path, "the provider has no null")
    before = dict(scope.notes)
    part = _joined(scope, others, path)
    if isinstance(part, str):
        scope.notes = before
        return scope.text(schema, path, part)
    if "oneOf" in schema:
        scope.note(path, "oneOf is sent as anyOf")
    shown = nullable(part.shown) if has_null else part.shown
    return Part(scope.carried(schema, path, ("anyOf", "oneOf"), shown), part.codec)


def types(scope: Scope, schema: Schema, path: str) -> Part:
    """Show a schema that lists several types."""
    kinds = schema["type"]
    if scope.rules.sends("type", "list") and SCALARS.issuperset(kinds):
        return scalar(scope, schema, path)
    told = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    rest = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    return union(scope, {"anyOf": [{**rest, "type": kind} for kind in kinds], **told}, path)


def scalar(scope: Scope, schema: Schema, path: str) -> Part:
    """Show a text, a number, a boolean or null."""
    if schema["type"] == "null" and not scope.rules.sends("type", "null"):
        return scope.text(schema, path, "the provider has no null")
    return Part(scope.carried(schema, path, (), {"type": schema["type"]}))


def enumeration(scope: Scope, schema: Schema, path: str) -> Part:
    """Show the values that are listed, or the only one."""
    kind = {"type": schema.get("type")}
    values = [value for value in list_allowed_values(schema, []) if is_valid(kind, value, {})]
    support = scope.rules.support("enum", sort_of_values(values))
    if not values or support not in ("sent", "words"):
        return scope.text(schema, path, "the provider does not take such an enumeration")
    shown = scope.carried(schema, path, (), {"type": _type_of(schema, values)})
    if support == "words":
        scope.note(path, "enum is said in words")
        return Part(shown).saying(words("enum", values))
    only = "const" in schema and scope.rules.sends("const")
    return Part({**shown, **({"const": values[0]} if only else {"enum": values})})


def _type_of(schema: Schema, values: Sequence[Any]) -> Any:
    """Read the type of an enumeration, or find it in its values."""
    found = list(dict.fromkeys(_TYPE_NAMES[type(value)] for value in values))
    own = schema.get("type")
    return own if isinstance(own, str) else found[0] if len(found) == 1 else found


def _joined(scope: Scope, alternatives: Sequence[Any], path: str) -> Part | str:
    """Show alternatives, null aside; or say why they have to be JSON text."""
    parts = [scope.part(choice, path) for choice in alternatives]
    if len(parts) == 1:
        return parts[0]
    if not scope.rules.sends("anyOf"):
        return _widest(parts) or "the provider knows no unions"
    parts = _told_apart(scope, parts, path)
    if not _all_apart(scope, parts):
        return "its alternatives look alike"
    shown = {"anyOf": [*chain.from_iterable(map(_choices, parts))]}
    return Part(shown, _choice(scope, parts, alternatives))


def _choice(scope: Scope, parts: Sequence[Part], alternatives: Sequence[Any]) -> Codec | None:
    codecs = tuple(part.codec for part in parts)
    if all(codec == codecs[0] for codec in codecs):
        return codecs[0]
    root = {"$defs": scope.definitions}
    return Choice(tuple(part.shown for part in parts), tuple(alternatives), codecs, root, scope.root)


def _told_apart(scope: Scope, parts: Sequence[Part], path: str) -> list[Part]:
    """Put into an object of its own what is read back by a codec and looks like another alternative."""
    told: list[Part] = []
    for number, part in enumerate(parts, 1):
        alike = any(other.codec != part.codec and not _apart(scope, part, other) for other in parts)
        if alike and part.codec is not None:
            key = f"option_{number}"
            scope.note(path, f"an alternative is wrapped as {key!r}, for it looks like another one")
            part = Part(scope.object_of({key: part.shown}, [key]), Wrapped(key, part.codec))
        told.append(part)
    return told


def _all_apart(scope: Scope, parts: Sequence[Part]) -> bool:
    pairs = ((one, other) for i, one in enumerate(parts) for other in parts[i + 1 :])
    return all(one.codec == other.codec or _apart(scope, one, other) for one, other in pairs)


def _apart(scope: Scope, one: Part, other: Part) -> bool:
    return are_disjoint(one.shown, other.shown, {"$defs": scope.definitions})


def _choices(part: Part) -> list[Any]:
    return list(part.shown["anyOf"]) if part.shown.keys() == {"anyOf"} else [part.shown]


def _widest(parts: Sequence[Part]) -> Part | None:
    """Find one type that takes every alternative: the same one, number for integer, one enumeration for two."""
    if any(part.codec is not None for part in parts):
        return None
    first, *others = (part.shown for part in parts)
    widest: dict[str, Any] | None = first
    widest = reduce(_wider, others, widest)
    return None if widest is None else Part(widest)


def _wider(one: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any] | None:
    if one is None or one == other:
        return one
    if one.keys() == other.keys() == {"type", "enum"} and one["type"] == other["type"]:
        return {"type": one["type"], "enum": list(dict.fromkeys([*one["enum"], *other["enum"]]))}
    numbers = {str(one.get("type")), str(other.get("type"))} == {"integer", "number"}
    return {"type": "number"} if numbers and one.keys() | other.keys() <= {"type", "description"} else None


def is_union(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema is nothing but a choice of others."""
    choices = schema.get("anyOf", schema.get("oneOf"))
    return isinstance(choices, list) and bool(choices) and not schema.keys() & STRUCTURE - {"$defs", "definitions"}
