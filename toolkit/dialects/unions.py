"""How unions and enumerations are shown.

oneOf, anyOf                        anyOf, where the alternatives can be told apart in what the model writes
[{...}, {...}] written alike        [{...}, {"option_2": {...}}]
where there is no anyOf             the widest of the alternatives, or JSON text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.dialects.codecs import Choice, Wrapped
from toolkit.dialects.keywords import sort_of_values, words
from toolkit.dialects.matching import allowed, apart, fits
from toolkit.dialects.scope import ANNOTATIONS, STRUCTURE, Part, Schema, Scope, nullable

_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
SCALARS = frozenset({"string", "boolean", "integer", "number", "null"})
_NULL = {"type": "null"}


def union(scope: Scope, schema: Schema, path: str) -> Part:
    """Show a union: `anyOf`, or `oneOf`, which is no different where a document is of one alternative alone."""
    alternatives = [choice for choice in schema.get("anyOf", schema.get("oneOf")) if choice is not False]
    others = [choice for choice in alternatives if choice != _NULL]
    has_null = len(others) < len(alternatives)
    if not others or (has_null and not scope.rules.sends("type", "null")):
        return scope.text(schema, path, "the provider has no null")
    before = dict(scope.notes)
    part = _joined(scope, others, path)
    if isinstance(part, str):
        scope.notes = before
        return scope.text(schema, path, part)
    if "oneOf" in schema:
        scope.note(path, "oneOf is sent as anyOf")
    shown = {**part.shown, "description": schema["description"]} if "description" in schema else part.shown
    done = ("anyOf", "oneOf", "description")
    return Part(scope.carried(schema, path, done, nullable(shown) if has_null else shown), part.codec)


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
    kind = {"type": schema["type"]} if "type" in schema else {}
    values = [value for value in allowed(schema, []) if fits(kind, value, {})]
    support = scope.rules.support("enum", sort_of_values(values))
    if not values or support not in ("sent", "words"):
        return scope.text(schema, path, "the provider does not take such an enumeration")
    found = list(dict.fromkeys(_TYPE_NAMES[type(value)] for value in values))
    own = schema.get("type")
    shown = {"type": own if isinstance(own, str) else found[0] if len(found) == 1 else found}
    if support == "words":
        scope.note(path, "enum is said in words")
        return Part(scope.carried(schema, path, (), shown)).saying(words("enum", values))
    only = "const" in schema and scope.rules.sends("const")
    listed = {"const": values[0]} if only else {"enum": values}
    return Part(scope.carried(schema, path, (), {**shown, **listed}))


def _joined(scope: Scope, alternatives: Sequence[Any], path: str) -> Part | str:
    """Show alternatives, null aside; or say why they have to be JSON text."""
    parts = [scope.part(choice, path) for choice in alternatives]
    if len(parts) == 1:
        return parts[0]
    if not scope.rules.sends("anyOf"):
        return _widest(parts) or "the provider knows no unions"
    parts = _told_apart(scope, parts, path)
    shown = {"anyOf": [choice for part in parts for choice in _choices(part.shown)]}
    codecs = tuple(part.codec for part in parts)
    if all(codec == codecs[0] for codec in codecs):
        return Part(shown, codecs[0])
    if not _all_apart(scope, parts):
        return "its alternatives look alike"
    root = {"$defs": scope.definitions}
    return Part(shown, Choice(tuple(part.shown for part in parts), tuple(alternatives), codecs, root, scope.root))


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


def _choices(shown: dict[str, Any]) -> list[Any]:
    return list(shown["anyOf"]) if shown.keys() == {"anyOf"} else [shown]


def _widest(parts: Sequence[Part]) -> Part | None:
    """Find one type that takes every alternative: the same one, number for integer, one enumeration for two."""
    if any(part.codec is not None for part in parts):
        return None
    shown = [part.shown for part in parts]
    if all(other == shown[0] for other in shown):
        return parts[0]
    if all(set(other) == {"type", "enum"} and other["type"] == shown[0]["type"] for other in shown):
        values = [value for other in shown for value in other["enum"]]
        return Part({"type": shown[0]["type"], "enum": list(dict.fromkeys(values))})
    plain = {str(other.get("type")) for other in shown if other.keys() <= {"type", "description"}}
    if len(plain) == len(shown) and plain == {"integer", "number"}:
        return Part({"type": "number"})
    return None


def is_union(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema is nothing but a choice of others."""
    choices = schema.get("anyOf", schema.get("oneOf"))
    return isinstance(choices, list) and bool(choices) and not schema.keys() & STRUCTURE - {"$defs", "definitions"}
