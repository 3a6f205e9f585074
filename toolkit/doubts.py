"""JSON texts that readers read in different ways: a key that stands twice, numbers that JSON has not.

pydantic-core reads them without a word. Reading every text a second time, to look for them, would take half of a call's
time; so colons are counted first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
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


def least_marks(schema: Mapping[str, Any]) -> tuple[int, int]:
    """Count the colons and the opening braces of a document in which nothing is but what must be.

    In a valid document with just so many of both no key stands twice: each key that it must have takes one colon, and
    each object one brace.

    Returns:
        The numbers; -1, which no document has, where one may hold what the schema does not restrict.
    """
    if _has_untyped(schema):
        return -1, -1
    return _least(schema, schema, {}, _keys), _least(schema, schema, {}, _braces)


def _keys(node: Mapping[str, Any]) -> int:
    return len(set(node.get("required", ())))


def _braces(node: Mapping[str, Any]) -> int:
    return int(node.get("type") == "object")


def _has_untyped(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema has a place that takes any value."""
    found: list[bool] = []

    def look(node: dict[str, Any]) -> dict[str, Any]:
        kinds = isinstance(node.get("type"), list) or node.get("additionalProperties") is True
        found.append(kinds or not TYPED & node.keys())
        return node

    rewritten(schema, look)
    return any(found)


def _least(node: Any, root: Mapping[str, Any], known: dict[str, int], own: Callable[[Mapping[str, Any]], int]) -> int:
    """Count what every document of a schema has, at any depth.

    Args:
        node: The schema.
        root: The one that has its definitions.
        known: What has been counted of these, by pointer; each is counted once, and as none inside itself.
        own: Counts what belongs to a schema itself.
    """
    if not isinstance(node, Mapping):
        return 0
    pointer = node.get("$ref")
    if pointer is None:
        ways = node.get("anyOf") or node.get("oneOf") or ()
        in_one = min((_least(way, root, known, own) for way in ways), default=0)
        parts, required = node.get("properties", {}), set(node.get("required", ()))
        return max(in_one, own(node) + sum(_least(parts.get(name), root, known, own) for name in required))
    if pointer not in known:
        known[pointer] = 0
        known[pointer] = _least(root.get("$defs", {}).get(pointer.rpartition("/")[2]), root, known, own)
    return known[pointer]
