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

# Keywords of which each place that is restricted to something has at least one.
TYPED = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"})


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
    required = [schema["properties"][name] for name in schema.get("required", ())]
    return -1 if _has_untyped(schema) else sum(_least_keys(part, schema, frozenset()) for part in required)


def _has_untyped(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema has a place that takes any value."""
    found: list[bool] = []

    def look(node: dict[str, Any]) -> dict[str, Any]:
        kinds = isinstance(node.get("type"), list) or node.get("additionalProperties") is True
        found.append(kinds or not TYPED & node.keys())
        return node

    rewritten(schema, look)
    return any(found)


def _least_keys(node: Any, root: Mapping[str, Any], above: frozenset[str]) -> int:
    """Count the keys that every document of a schema has, at any depth; `above` are the pointers that led here."""
    if not isinstance(node, Mapping) or (pointer := node.get("$ref")) in above:
        return 0
    if pointer:
        target = root.get("$defs", {}).get(pointer.rpartition("/")[2], {})
        return _least_keys(target, root, above | {pointer})
    ways = node.get("anyOf") or node.get("oneOf") or ()
    required = node.get("required", ())
    within = (_least_keys(node.get("properties", {}).get(name), root, above) for name in required)
    return len(required) + sum(within) + min((_least_keys(way, root, above) for way in ways), default=0)
