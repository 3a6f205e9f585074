"""How references are shown: as shared definitions where the provider takes them, else as what they point to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from toolkit._schema.matching import at, references_in
from toolkit.dialects.codecs import Codec, Named
from toolkit.dialects.scope import ANNOTATIONS, Part, Schema, Scope

# How often one definition is written inside itself where references are inlined; what lies deeper is JSON text.
MAX_DEPTH = 3


def reference(scope: Scope, schema: Schema, path: str) -> Part:
    """Show a reference."""
    pointer = schema["$ref"]
    if not isinstance(at(scope.root, str(pointer)), Mapping):
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
    if not isinstance(schema, Mapping) or not isinstance(at(scope.root, str(schema.get("$ref", ""))), Mapping):
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
        yield merged(beside, at(scope.root, schema["$ref"]))
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
    target = at(scope.root, pointer)
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
        scope.recursive[pointer] = pointer in references_in(at(scope.root, pointer), scope.root)
    return scope.recursive[pointer]
