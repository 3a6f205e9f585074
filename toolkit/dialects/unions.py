"""How unions and enumerations are shown.

oneOf, anyOf                        anyOf, where the alternatives can be told apart in what the model writes
[{...}, {...}] written alike        [{...}, {"option_2": {...}}]
where there is no anyOf             the widest of the alternatives, or JSON text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any

from toolkit._schema.matching import allowed, apart, fits
from toolkit.dialects.codecs import Choice, Codec, Wrapped
from toolkit.dialects.keywords import sort_of_values, words
from toolkit.dialects.scope import ANNOTATIONS, STRUCTURE, Part, Schema, Scope, nullable

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
    values = [value for value in allowed(schema, []) if fits(kind, value, {})]
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
    return apart(one.shown, other.shown, {"$defs": scope.definitions})


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
