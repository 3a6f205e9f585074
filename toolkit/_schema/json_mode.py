"""Validators of JSON text, built from pydantic-core's schemas of Python types, which are adapted to JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, Flag
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import CoreConfig, SchemaValidator, ValidationError, from_json, to_jsonable_python

from toolkit._schema.json_schema import MAX_KEYS, find_flag_bounds

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Node: TypeAlias = dict[str, Any]

FINITE: Mapping[str, Any] = {"allow_inf_nan": False}  # JSON has no NaN and no infinity
# Types of core schemas of keys that cannot be chosen to have the same hash, since hashes are random or keys are few.
_SAFE_KEYS = frozenset({"str", "bytes", "date", "datetime", "time", "literal", "enum", "bool", "none"})
# Keys of a core schema whose values are not schemas.
_DATA = frozenset({"default", "expected", "members", "metadata", "serialization", "config", "function", "cls", "ref"})


def build_object_validator(fields: Mapping[str, Node], definitions: Sequence[Node]) -> Callable[[str], dict[str, Any]]:
    """Build a validator of the text of a JSON object, which has these fields of a TypedDict and no others."""
    arguments = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid", "config": FINITE}
    core: Any = adapt_to_json({"type": "definitions", "schema": arguments, "definitions": definitions})
    # Without `_use_prebuilt=False` the validator of a model would be used as it is, which accepts NaN.
    return SchemaValidator(core, _use_prebuilt=False).validate_json


def build_json_validator(adapter: TypeAdapter[Any]) -> Callable[[str], Any]:
    """Build a validator of the JSON text of any type."""
    core: Any = adapt_to_json(adapter.core_schema)
    return SchemaValidator(core, CoreConfig(allow_inf_nan=False), _use_prebuilt=False).validate_json


def adapt_to_json(core: Any) -> Any:
    """Adapt one or several core schemas so that their validator accepts the JSON that the JSON Schema describes.

    - Numbers in models are finite, unless the model's own configuration allows others.
    - An enum member, or bytes, in a Literal is recognized by its value in JSON. So is an enum member whose value has
      another type in JSON, such as a tuple or a date, and one that is the discriminator of a union.
    - A flag is a number, which may be written with a fraction of zero, such as 3.0.
    - In a union of text and bytes, text stays text.
    - An Iterable is read and validated before the call.
    - A key of a dict may be a number written as text, such as the value of an enum member or a Literal.
    - Sets, and dicts whose keys are not text, have MAX_KEYS keys at most.
    """
    if isinstance(core, (list, tuple)):
        return type(core)(map(adapt_to_json, core))
    if not isinstance(core, dict):
        return core
    inner = {key: _adapt_value(key, value) for key, value in core.items()}
    if isinstance(inner.get("config"), dict):
        inner["config"] = {**FINITE, **inner["config"]}
    return _KINDS.get(inner.get("type"), dict)(inner)


def _adapt_value(key: str, value: Any) -> Any:
    if key in ("fields", "choices") and isinstance(value, dict):
        return {name: adapt_to_json(core) for name, core in value.items()}
    return value if key in _DATA else adapt_to_json(value)


def _adapt_literal(core: dict[str, Any]) -> dict[str, Any]:
    if not [value for value in core["expected"] if isinstance(value, (Enum, bytes))]:
        return core
    parts = groupby(core["expected"], type)
    return {**core, "type": "union", "choices": [_write_literals(kind, list(values)) for kind, values in parts]}


def _write_literals(kind: type, values: list[Any]) -> dict[str, Any]:
    literal = {"type": "literal", "expected": values}
    if issubclass(kind, bytes):
        return {"type": "chain", "steps": [{"type": "bytes"}, literal]}
    if issubclass(kind, Enum):  # a validator of an enum accepts all members, whichever are listed
        members = _adapt_enum({"type": "enum", "cls": kind, "members": list(kind)})
        return {"type": "chain", "steps": [members, literal]}
    return literal


def _adapt_enum(core: dict[str, Any]) -> dict[str, Any]:
    reference = {"ref": core["ref"]} if "ref" in core else {}
    if issubclass(core["cls"], Flag) and core["members"]:
        least, most = find_flag_bounds(core["cls"])
        number = {"type": "int", "ge": least, "le": most}
        make = {"type": "no-info", "function": core["cls"]}
        return {"type": "function-after", "function": make, "schema": number, **reference}

    unusual = [each for each in core["members"] if not isinstance(each.value, (str, int, float, type(None)))]
    written = [(to_jsonable_python(member.value), member) for member in unusual]
    if not written:
        return core

    def find_member(value: Any) -> Any:
        return next((member for form, member in written if form == value), value)

    inner = {key: value for key, value in core.items() if key != "ref"}
    return {
        "type": "function-before",
        "function": {"type": "no-info", "function": find_member},
        "schema": inner,
        **reference,
    }


def _adapt_union(core: dict[str, Any]) -> dict[str, Any]:
    """Sort bytes after the other members of a union, since any text can be bytes."""

    def is_bytes(choice: Any) -> bool:
        return isinstance(choice, dict) and choice["type"] == "bytes"

    return {**core, "choices": sorted(core["choices"], key=is_bytes)}


def _adapt_tagged_union(core: dict[str, Any]) -> dict[str, Any]:
    return {**core, "choices": {getattr(tag, "value", tag): choice for tag, choice in core["choices"].items()}}


def _adapt_dict(core: dict[str, Any]) -> dict[str, Any]:
    keys = core.get("keys_schema", {"type": "any"})
    values = keys.get("expected", [member.value for member in keys.get("members", ())])
    bounded = _bound_keys(core)
    if keys["type"] != "definition-ref" and all(isinstance(value, str) for value in values):
        return bounded
    reading = {"type": "function-wrap", "function": {"type": "no-info", "function": _read_key}, "schema": keys}
    return {**bounded, "keys_schema": reading}


def _read_key(key: str, validate: Callable[[Any], Any]) -> Any:
    """Validate a key as text. If that fails, validate the number, bool or null that the text spells."""
    try:
        return validate(key)
    except ValidationError:
        try:
            spelled = from_json(key)
        except ValueError:
            spelled = key
        if isinstance(spelled, (str, list, dict)):
            raise
        return validate(spelled)


def _bound_keys(core: Node) -> Node:
    """Limit the items of a set, or the keys of a dict, to MAX_KEYS if their hashes can be chosen."""
    keys = core.get("items_schema", core.get("keys_schema"))
    if keys is not None and keys["type"] in _SAFE_KEYS:
        return core
    return {**core, "max_length": min(core.get("max_length", MAX_KEYS), MAX_KEYS)}


_KINDS: Mapping[Any, Any] = {
    "literal": _adapt_literal,
    "generator": lambda core: {**core, "type": "list"},
    "enum": _adapt_enum,
    "union": _adapt_union,
    "tagged-union": _adapt_tagged_union,
    "dict": _adapt_dict,
    **dict.fromkeys(("set", "frozenset", "ordered-dict", "counter"), _bound_keys),
}
