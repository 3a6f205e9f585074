"""Whether a schema is small enough for a provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.dialects.matching import allowed, at, nodes_of
from toolkit.dialects.rules import Limits

# From this many texts on, an enumeration's length is limited too.
MANY_TEXTS = 250


def excess(schema: Mapping[str, Any], limits: Limits) -> str | None:
    """Say which limit a schema exceeds, and by how much; None where it exceeds none."""
    for name, (measured, limit) in _measures(schema, limits).items():
        if limit is not None and measured > limit:
            return f"{measured} {name}, where the provider takes {limit}"
    return None


def _measures(schema: Mapping[str, Any], limits: Limits) -> dict[str, tuple[int, int | None]]:
    nodes = nodes_of(schema)
    names = [name for node in nodes for keyword in ("properties", "$defs") for name in node.get(keyword, ())]
    values = [value for node in nodes for value in allowed(node, [])]
    texts = [[value for value in node.get("enum", ()) if isinstance(value, str)] for node in nodes]
    return {
        "properties": (sum(len(node.get("properties", ())) for node in nodes), limits.properties),
        "levels of objects": (_depth(schema, schema, frozenset()), limits.depth),
        "characters in names and values": (sum(len(str(text)) for text in [*names, *values]), limits.names),
        "values in enumerations": (sum(len(node.get("enum", ())) for node in nodes), limits.enum_values),
        "characters in one enumeration": (
            max((len("".join(listed)) for listed in texts if len(listed) > MANY_TEXTS), default=0),
            limits.enum_text,
        ),
        "optional properties": (
            sum(len(node.get("properties", {}).keys() - set(node.get("required", ()))) for node in nodes),
            limits.optional,
        ),
        "unions": (sum("anyOf" in node or isinstance(node.get("type"), list) for node in nodes), limits.unions),
    }


def _depth(schema: Any, root: Any, entered: frozenset[str]) -> int:
    """Count objects inside objects; one that holds itself counts once."""
    if not isinstance(schema, Mapping):
        return 0
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return 0 if reference in entered else _depth(at(root, reference), root, entered | {reference})
    deepest = max((_depth(inner, root, entered) for inner in _inside(schema)), default=0)
    return deepest + (schema.get("type") == "object")


def _inside(schema: Mapping[str, Any]) -> Iterator[Any]:
    yield from schema.get("properties", {}).values()
    yield from schema.get("anyOf", ())
    yield schema.get("items")
