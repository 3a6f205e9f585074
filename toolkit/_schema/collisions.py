"""Sets and dicts whose keys were chosen to have one hash: filling one of them would take quadratic time.

Only the hashes of text, bytes and what is made of them are random. Those of numbers, UUIDs, durations and tuples can be
chosen. So core schemas of sets and of dicts with other keys are changed to look at the hashes before they are filled.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic_core import PydanticCustomError

# Different keys of one hash; by chance there are two at most, such as -1 and -2.
MAX_COLLISIONS = 100

# Core schemas of keys whose hashes are random, or that are few.
_HARMLESS = frozenset({"str", "bytes", "date", "datetime", "time", "literal", "enum", "bool", "none"})
# Keys of the core schema of a set that say how it is read; the others are about the whole set.
_READING = ("items_schema", "strict", "fail_fast")


def refuse_collisions(keys: Sequence[Any]) -> Sequence[Any]:
    """Return keys that a set or dict can hold in linear time; refuse others, and leave unhashable ones to the set."""
    counts, written = Counter[int](), defaultdict[int, set[str]](set)
    for key in keys if len(keys) > MAX_COLLISIONS else ():
        try:
            found = hash(key)
        except TypeError:
            return keys
        counts[found] += 1
        if counts[found] > MAX_COLLISIONS:  # of different keys, or of one that occurs often
            written[found].add(repr(key))
            if len(written[found]) > MAX_COLLISIONS:
                raise PydanticCustomError("collisions", "Too many of these values have one hash. Send fewer")
    return keys


def bound_set(core: dict[str, Any]) -> dict[str, Any]:
    """Change the core schema of a set or frozenset: its items are read as a list first."""
    if _is_harmless(core.get("items_schema")):
        return core
    listed = {"type": "list", **{key: core[key] for key in _READING if key in core}}
    own = {key: value for key, value in core.items() if key not in (*_READING, "ref")}
    return {"type": "chain", "steps": [apply_after(refuse_collisions, listed), own], **_get_ref(core)}


def bound_dict(core: dict[str, Any]) -> dict[str, Any]:
    """Change the core schema of a dict: its keys are hidden in objects of their own hash until all are known."""
    if _is_harmless(core.get("keys_schema")):
        return core
    keys = apply_after(_Key, core.get("keys_schema", {"type": "any"}))
    own = {key: value for key, value in core.items() if key != "ref"}
    return {**apply_after(_unwrap, {**own, "keys_schema": keys}), **_get_ref(core)}


def bound_ordered_dict(core: dict[str, Any]) -> dict[str, Any]:
    """Change the core schema of an OrderedDict."""
    return apply_after(OrderedDict, bound_dict({**core, "type": "dict"}))


def bound_counter(core: dict[str, Any]) -> dict[str, Any]:
    """Change the core schema of a Counter."""
    return apply_after(Counter, bound_dict({**core, "type": "dict"}))


class _Key:
    """A key that is equal to itself alone."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _unwrap(wrapped: Mapping[_Key, Any]) -> dict[Any, Any]:
    keys = refuse_collisions([key.value for key in wrapped])
    return dict(zip(keys, wrapped.values()))


def apply_after(function: Callable[[Any], Any], core: Mapping[str, Any]) -> dict[str, Any]:
    """Change a core schema so that a function converts what it validated."""
    return {"type": "function-after", "function": {"type": "no-info", "function": function}, "schema": core}


def _get_ref(core: Mapping[str, Any]) -> dict[str, Any]:
    return {"ref": core["ref"]} if "ref" in core else {}


def _is_harmless(core: Mapping[str, Any] | None) -> bool:
    return core is not None and core["type"] in _HARMLESS
