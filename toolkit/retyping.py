"""Values of the types that an interface says, for a function that says others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from inspect import Parameter as Written
from typing import Any, get_origin

from pydantic_core import from_json, to_json
from typing_extensions import get_type_hints, is_typeddict

from toolkit._schema.parameters import Accepted, Built, ByType, Filled, Parameter
from toolkit._schema.signature import Returns, given

_REST = (Written.VAR_KEYWORD, Written.VAR_POSITIONAL)


def types_of(accepted: Accepted) -> Mapping[str, Any]:
    """Give Python's types of the values by name; none where a JSON Schema says it, or where they cannot be told."""
    if isinstance(accepted, Built):
        return {p.name: p.annotation for p in accepted.offered}
    if not isinstance(accepted, ByType):
        return {}
    with suppress(NameError, TypeError):  # a name of a local scope: such values are checked once more
        return get_type_hints(get_origin(accepted.kind) or accepted.kind, include_extras=True)
    return {}


def written(accepted: Accepted, values: dict[str, Any], *, by_alias: bool) -> dict[str, Any]:
    """Write values as plain data, as their own types say.

    Args:
        accepted: What they were read by.
        values: By name.
        by_alias: Whether members of a type get the names that they have in JSON.
    """
    if isinstance(accepted, Built):
        return {p.name: _plain(accepted, p, values[p.name]) for p in accepted.offered if p.name in values}
    if isinstance(accepted, ByType) and isinstance(values, Filled):
        return accepted.written(values.whole, by_alias=by_alias)
    return values


def filled(accepted: Accepted) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Make what adds the defaults that a model was told of; a type or a schema adds its own where it is read."""
    if not isinstance(accepted, Built):
        return lambda values: values
    told = [p for p in accepted.offered if not p.required and p.kind not in _REST and p.name not in accepted.hidden]
    if not told:
        return lambda values: values
    return lambda values: {**{p.name: given(p, values, None) for p in told if p.name not in values}, **values}


def left_out(accepted: Accepted) -> Collection[str]:
    """List what a call may leave out, and nothing fills in."""
    if isinstance(accepted, Built):
        return ()
    if isinstance(accepted, ByType) and not is_typeddict(get_origin(accepted.kind) or accepted.kind):
        return ()
    shown, required = accepted.schema["properties"], accepted.schema.get("required", ())
    return [name for name, said in shown.items() if name not in required and "default" not in {**said}]


def _plain(accepted: Built, p: Parameter, value: Any) -> Any:
    write = Returns(p.document_type, names=accepted.names).to_json or to_json
    return from_json(write(value))
