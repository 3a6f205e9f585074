"""Whether a schema is small enough for a provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from toolkit._schema.matching import allowed, at, nodes_of

Schema: TypeAlias = Mapping[str, Any]

# From this many texts on, an enumeration's length is limited too.
MANY_TEXTS = 250


def excess(schema: Schema, limits: Mapping[str, int]) -> str | None:
    """Say which limit a schema exceeds, and by how much; None where it exceeds none."""
    nodes = nodes_of(schema) if limits else []
    for name, limit in limits.items():
        measured = MEASURES[name](nodes)
        if measured > limit:
            return f"{measured} {name}, where the provider takes {limit}"
    return None


def _depth(nodes: Sequence[Schema]) -> int:
    return _deepest(nodes[-1], nodes[-1], frozenset())  # the whole comes after what is inside it


def _deepest(schema: Any, root: Any, entered: frozenset[str]) -> int:
    """Count objects inside objects; one that holds itself counts once."""
    if not isinstance(schema, Mapping):
        return 0
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return 0 if reference in entered else _deepest(at(root, reference), root, entered | {reference})
    deepest = max((_deepest(inner, root, entered) for inner in _inside(schema)), default=0)
    return deepest + (schema.get("type") == "object")


def _inside(schema: Schema) -> Iterator[Any]:
    yield from schema.get("properties", {}).values()
    yield from schema.get("anyOf", ())
    yield schema.get("items")


def _characters(nodes: Sequence[Schema]) -> int:
    names = (name for node in nodes for keyword in ("properties", "$defs") for name in node.get(keyword, ()))
    values = (value for node in nodes for value in allowed(node, []))
    return sum(map(len, map(str, chain(names, values))))


def _longest(nodes: Sequence[Schema]) -> int:
    texts = ([value for value in node.get("enum", ()) if isinstance(value, str)] for node in nodes)
    return max((len("".join(listed)) for listed in texts if len(listed) > MANY_TEXTS), default=0)


def _optional(nodes: Sequence[Schema]) -> int:
    return sum(len(node.get("properties", {}).keys() - set(node.get("required", ()))) for node in nodes)


def _unions(nodes: Sequence[Schema]) -> int:
    return sum("anyOf" in node or isinstance(node.get("type"), list) for node in nodes)


# What of a schema can be too much, measured on all schemas inside it.
MEASURES: Mapping[str, Callable[[Sequence[Schema]], int]] = {
    "properties": lambda nodes: sum(len(node.get("properties", ())) for node in nodes),
    "levels of objects": _depth,
    "characters in names and values": _characters,
    "values in enumerations": lambda nodes: sum(len(node.get("enum", ())) for node in nodes),
    "characters in one enumeration": _longest,
    "optional properties": _optional,
    "unions": _unions,
}
