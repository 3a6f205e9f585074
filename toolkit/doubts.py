"""JSON texts that readers read in different ways: a key that stands twice, numbers that JSON has not.

pydantic-core reads them without a word. Reading every text a second time, to look for them, would take half of a call's
time; so colons are counted first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from toolkit.schemas import rewritten

# Keywords of which each place that is restricted to something has at least one, and OpenAPI's `discriminator`, too.
TYPED = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "propertyName"})


def doubts(text: str) -> str:
    """Say about what in a JSON text readers disagree: equal keys, numbers that JSON has not; or nothing."""
    try:
        json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    except ValueError as error:
        return str(error)
    return ""


def _once(pairs: Sequence[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f"the key {key[:100]!r} stands twice in one object")
        seen.add(key)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"the number {digits[:20]} is too large")
    return value


def colons_within(schema: Mapping[str, Any]) -> int:
    """Count the colons below a document's own keys, where nothing is there but what must be.

    With so many, and one for each of its own keys, no key stands twice: a valid document has each of them once.

    Returns:
        The number; -1, which no document has, where one may hold what the schema does not restrict.
    """
    if _has_untyped(schema):
        return -1
    known: dict[str, int] = {}
    return _least_within(schema, schema, known)


def _has_untyped(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema has a place that takes any value."""
    found: list[bool] = []

    def look(node: dict[str, Any]) -> dict[str, Any]:
        kinds = isinstance(node.get("type"), list) or node.get("additionalProperties") is True
        found.append(kinds or not TYPED & node.keys())
        return node

    rewritten(schema, look)
    return any(found)


def _least_keys(node: Any, root: Mapping[str, Any], known: dict[str, int]) -> int:
    """Count keys that every document of a schema has, at any depth: hardly ever too few, and never too many.

    Args:
        node: The schema.
        root: The one that has its definitions.
        known: What has been counted of these, by pointer; each is counted once, and as none inside itself.
    """
    if not isinstance(node, Mapping):
        return 0
    pointer = node.get("$ref")
    if pointer is None:
        ways = node.get("anyOf") or node.get("oneOf") or ()
        in_one = min((_least_keys(way, root, known) for way in ways), default=0)
        return max(in_one, len(set(node.get("required", ()))) + _least_within(node, root, known))
    if pointer not in known:
        known[pointer] = 0
        known[pointer] = _least_keys(root.get("$defs", {}).get(pointer.rpartition("/")[2]), root, known)
    return known[pointer]


def _least_within(node: Mapping[str, Any], root: Mapping[str, Any], known: dict[str, int]) -> int:
    """Count the keys below those that a document of a schema must have itself."""
    parts = node.get("properties", {})
    return sum(_least_keys(parts.get(name), root, known) for name in set(node.get("required", ())))
