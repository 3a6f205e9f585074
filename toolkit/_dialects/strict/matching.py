"""Matching documents with schemas, such as the alternatives of a union, and finding whether schemas overlap.

This does not validate: types, values, properties and items are compared, and other keywords are ignored. An object that
lists properties and has no `additionalProperties` is treated as closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolkit._schema.json_schema import TYPES, as_list, as_mapping, list_allowed_values, resolve_reference, to_hashable

Schema: TypeAlias = Mapping[str, Any]


def is_valid(schema: Any, document: Any, root: Any) -> bool:
    """Return whether a document matches a schema, whose references point into `root`."""
    return _Matcher(root).is_valid(schema, document)


def is_type(document: Any, kind: str) -> bool:
    """Return whether a document is of a type, by JSON Schema's name."""
    return kind in TYPES and TYPES[kind](document)


def are_disjoint(one: Any, other: Any, root: Any, depth: int = 8) -> bool:
    """Return whether no document can match both schemas; False in doubt."""
    if depth == 0:
        return False
    one = resolve_reference(as_mapping(one), root)
    other = resolve_reference(as_mapping(other), root)
    for schema, rest in ((one, other), (other, one)):
        if "anyOf" in schema:
            return all(are_disjoint(choice, rest, root, depth - 1) for choice in schema["anyOf"])
    return any(check(one, other, root, depth - 1) for check in _DISJOINT_CHECKS)


@dataclass(frozen=True)
class _Matcher:
    """Matches parts of a document with parts of a schema, each pair only once: references may repeat them.

    Attributes:
        known: Results, by the identities of the schema and of the document.
    """

    root: Any
    known: dict[tuple[int, int], bool] = field(default_factory=dict)

    def is_valid(self, schema: Any, document: Any) -> bool:
        """Return whether a document matches a schema."""
        if not isinstance(schema, Mapping):
            return schema is not False
        pair = id(schema), id(document)
        if pair not in self.known:
            self.known[pair] = False  # the answer for a schema that refers to itself
            self.known[pair] = self._fits(resolve_reference(schema, self.root), document)
        return self.known[pair]

    def _fits(self, schema: Schema, document: Any) -> bool:
        kind = schema.get("type")
        if kind is not None and not any(is_type(document, name) for name in as_list(kind)):
            return False

        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices is not None and not any(self.is_valid(choice, document) for choice in choices):
            return False
        if not all(self.is_valid(part, document) for part in schema.get("allOf", ())):
            return False
        if to_hashable(document) not in map(to_hashable, list_allowed_values(schema, [document])):
            return False
        if isinstance(document, dict):
            return self._object_fits(schema, document)
        return not isinstance(document, list) or self._array_fits(schema, document)

    def _object_fits(self, schema: Schema, document: dict[str, Any]) -> bool:
        properties = schema.get("properties", {})
        free: Any = "patternProperties" in schema or schema.get("additionalProperties", "properties" not in schema)
        whole = all(key in document for key in schema.get("required", ()))
        return whole and all(self.is_valid(properties.get(key, free), value) for key, value in document.items())

    def _array_fits(self, schema: Schema, document: list[Any]) -> bool:
        first = schema.get("prefixItems", [])
        items = [*first, *[schema.get("items", True)] * (len(document) - len(first))]
        return all(self.is_valid(item, value) for item, value in zip(items, document))


def _list_types(schema: Schema) -> set[str]:
    named = set(as_list(schema.get("type", list(TYPES))))
    return named | ({"integer"} if "number" in named else set())


def _have_disjoint_types(one: Schema, other: Schema, _root: Any, _depth: int) -> bool:
    return not _list_types(one) & _list_types(other)


def _have_disjoint_values(one: Schema, other: Schema, _root: Any, _depth: int) -> bool:
    values, others = ({*map(to_hashable, list_allowed_values(schema, []))} for schema in (one, other))
    return bool(values and others) and values.isdisjoint(others)


def _are_disjoint_objects(one: Schema, other: Schema, root: Any, depth: int) -> bool:
    if _list_types(one) & _list_types(other) != {"object"}:
        return False
    if _requires_forbidden_key(one, other) or _requires_forbidden_key(other, one):
        return True
    needed = [key for key in one.get("required", ()) if key in other.get("required", ())]
    mine = one.get("properties", {})
    theirs = other.get("properties", {})
    return any(are_disjoint(mine.get(key), theirs.get(key), root, depth) for key in needed)


def _requires_forbidden_key(one: Schema, other: Schema) -> bool:
    """Return whether one schema requires a key that the other does not allow."""
    known = other.get("properties", {}).keys()
    return other.get("additionalProperties") is False and any(key not in known for key in one.get("required", ()))


def _are_disjoint_arrays(one: Schema, other: Schema, root: Any, depth: int) -> bool:
    filled = one.get("minItems", 0) > 0 and other.get("minItems", 0) > 0
    only = _list_types(one) & _list_types(other) == {"array"}
    return only and filled and are_disjoint(one.get("items"), other.get("items"), root, depth)


_DISJOINT_CHECKS = (_have_disjoint_types, _have_disjoint_values, _are_disjoint_objects, _are_disjoint_arrays)
