"""How objects, open objects and tuples are shown.

{"a": int, "b": int = 1}     {"a": int, "b": int | null}, or `b` left out where the provider lets it
{"a": int, **more}           {"a": int, "additional_properties": [{"key", "value"}]}
{**more}                     [{"key", "value"}]
[int, str]                   {"item_1": int, "item_2": str}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from toolkit._schema.matching import apart, fits, mapping
from toolkit.dialects.codecs import Items
from toolkit.dialects.keywords import json_of
from toolkit.dialects.members import KEY, OMIT, VALUE, Field, Fields, Pairs, Places
from toolkit.dialects.references import opened
from toolkit.dialects.scope import Part, Schema, Scope, either, free_name, nullable, without_null

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
    unknown = _conditional_names(schema) - mapping(schema.get("properties")).keys()
    if unknown:
        return scope.text(schema, path, f"{min(unknown)!r} is a property under some condition only")
    if is_open(schema) and not mapping(schema.get("properties")) and path:
        return _described(scope, schema, path, free(scope, schema, path))
    if not schema.get("properties") and path and not scope.rules.sends("properties", "none"):
        return scope.text(schema, path, "the provider takes no object without properties")
    return _described(scope, schema, path, _fields(scope, schema, path))


def free(scope: Scope, schema: Schema, path: str) -> Part:
    """Show the free keys of an object as an array of pairs."""
    scope.note(path, "sent as a list of key and value")
    value = scope.part(_free_value(schema), f"{path}.*".lstrip("."))
    names = mapping(schema.get("propertyNames"))
    key = scope.part({"type": "string", **names}, f"{path} (keys)")
    patterns = " or ".join(map(json_of, mapping(schema.get("patternProperties"))))
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
    known = frozenset(mapping(schema.get("properties")))
    rest, pairs = free_name("additional_properties", known | shown.keys()), free(scope, schema, path)
    required += [] if scope.rules.sends("required", "partial") else [rest]
    return Part(
        scope.object_of({**shown, rest: pairs.shown}, required), Fields(fields, rest, cast("Pairs", pairs.codec), known)
    )


def _properties(scope: Scope, schema: Schema, path: str) -> Iterator[Property]:
    own, required = mapping(schema.get("properties")), schema.get("required", ())
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
    return not fits(schema, None, scope.root) or mapping(schema).get("default", schema) is None


def _marked(scope: Scope, field: Field, schema: Any, part: Part, path: str) -> Property:
    """Show an optional property whose null means something by itself: a mark leaves it out."""
    scope.note(path, f"optional, and null is a value: {json_of(OMIT)} leaves it out")
    (name,) = OMIT
    mark = scope.object_of({name: {"type": "boolean", "enum": [True]}}, [name])
    if not apart(part.shown, mark, {"$defs": scope.definitions}):
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
    patterns = list(mapping(schema.get("patternProperties")).values())
    others = schema.get("additionalProperties", not patterns)
    values = [*patterns, *([] if others is False else [others])]
    return values[0] if len(values) == 1 else True if True in values else {"anyOf": values}


def _conditional_names(schema: Schema) -> set[str]:
    """Name the properties that a schema knows only under a condition, such as those in `then`."""
    return {name for part in _conditional(schema) for name in mapping(mapping(part).get("properties"))}


def _conditional(schema: Schema) -> Iterator[Any]:
    yield from (schema.get(keyword) for keyword in ("then", "else"))
    yield from mapping(schema.get("dependentSchemas")).values()
    for keyword in ("anyOf", "oneOf"):
        yield from schema.get(keyword, ())
