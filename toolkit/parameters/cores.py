"""pydantic-core's schemas, mended where pydantic means Python's values and a model sends JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import groupby
from typing import Any

from pydantic_core import to_jsonable_python

FINITE: Mapping[str, Any] = {"allow_inf_nan": False}  # JSON has no NaN and no infinity

# What stands in a core schema beside schemas.
_DATA = frozenset({"default", "expected", "members", "metadata", "serialization", "config", "function", "cls", "ref"})


def mended(core: Any) -> Any:
    """Make a schema, or several, whose validator takes what the JSON Schema says.

    - The numbers of models are finite, where these do not allow others themselves.
    - A member of an enumeration, or bytes, in a Literal is known by its value in JSON; so is a member whose value is a
      tuple, a date or another one that JSON writes in another way.
    - Where a text or bytes may stand, a text is a text.
    - An Iterable is read and checked before the call.
    """
    if isinstance(core, (list, tuple)):
        return type(core)(map(mended, core))
    if not isinstance(core, dict):
        return core
    inner = {key: _inner(key, value) for key, value in core.items()}
    if isinstance(inner.get("config"), dict):
        inner["config"] = {**FINITE, **inner["config"]}
    return _KINDS.get(inner.get("type"), dict)(inner)


def _inner(key: str, value: Any) -> Any:
    if key in ("fields", "choices") and isinstance(value, dict):
        return {name: mended(core) for name, core in value.items()}
    return value if key in _DATA else mended(value)


def _literal_core(core: dict[str, Any]) -> dict[str, Any]:
    kinds = {type(value) for value in core["expected"]}
    if not any(issubclass(kind, (Enum, bytes)) for kind in kinds):
        return core
    parts = groupby(core["expected"], type)
    return {**core, "type": "union", "choices": [_of_kind(kind, list(values)) for kind, values in parts]}


def _of_kind(kind: type, values: list[Any]) -> dict[str, Any]:
    literal = {"type": "literal", "expected": values}
    if issubclass(kind, bytes):
        return {"type": "chain", "steps": [{"type": "bytes"}, literal]}
    if issubclass(kind, Enum):  # its validator knows all members, whichever it is given
        members = _enumeration({"type": "enum", "cls": kind, "members": list(kind)})
        return {"type": "chain", "steps": [members, literal]}
    return literal


def _enumeration(core: dict[str, Any]) -> dict[str, Any]:
    written = [(to_jsonable_python(member.value), member) for member in core["members"] if not _is_plain(member.value)]
    if not written:
        return core

    def member_of(value: Any) -> Any:
        return next((member for form, member in written if form == value), value)

    place = {"ref": core["ref"]} if "ref" in core else {}
    inner = {key: value for key, value in core.items() if key != "ref"}
    return {"type": "function-before", "function": {"type": "no-info", "function": member_of}, "schema": inner, **place}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _union_core(core: dict[str, Any]) -> dict[str, Any]:
    return {**core, "choices": texts_first(core["choices"])}


def texts_first(choices: Sequence[Any]) -> list[Any]:
    """Put bytes, which any text can be, behind the other members of a union."""
    return sorted(choices, key=_is_bytes)


def _is_bytes(choice: Any) -> bool:
    return isinstance(choice, dict) and choice["type"] == "bytes"


def _iterable(core: dict[str, Any]) -> dict[str, Any]:
    return {**core, "type": "list"}


_KINDS: Mapping[Any, Any] = {
    "literal": _literal_core,
    "generator": _iterable,
    "enum": _enumeration,
    "union": _union_core,
}
