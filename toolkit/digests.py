"""What a yes is bound to: a text for each value that is the same in every process, and the digest of a call.

Equal values are written alike, whatever the order of their sets and keys; values of different types are not. What is
no plain data is written as pickle takes it apart: its class, by name, and what it is made of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

from toolkit._messages import ToolCall
from toolkit._tools.tool import Tool

_PLAIN = frozenset({str, int, float, bool, type(None)})
_NAMED = (type, FunctionType, BuiltinFunctionType)


def digest_of(tool: Tool[..., Any], values: Mapping[str, Any], call: ToolCall, run_id: str) -> str:
    """Say in 64 hexadecimal digits which call this is: of which run, of which tool as it is now, with which values.

    Raises:
        TypeError: A value is nothing that could be told from others, such as an iterator.
    """
    return _sha256([run_id, call.id, definition_of(tool), _told(tool, values, call), *call.imports])


def _told(tool: Tool[..., Any], values: Mapping[str, Any], call: ToolCall) -> dict[str, Any]:
    """Leave out what the tool itself makes anew each time: a default that no schema can show."""
    shown, needed = tool.parameters["properties"], tool.parameters.get("required", ())
    made = {name for name in values if name in shown and name not in needed and "default" not in shown[name]}
    if made:
        made -= tool.invocation.reader.said(call.arguments).keys()
    return {name: value for name, value in values.items() if name not in made}


def definition_of(tool: Tool[..., Any]) -> str:
    """Say in 64 hexadecimal digits which tool this is: its name, where it comes from, and what it says of itself."""
    return _sha256([tool.name, tool.origin, tool.description, tool.parameters, tool.settings.effect])


def canonical(value: Any) -> str:
    """Write a value.

    Raises:
        TypeError: It cannot be told from others.
    """
    kind = type(value)
    if kind in _PLAIN:
        return json.dumps(value)
    if kind in (list, tuple):
        return f"{kind.__name__}[{','.join(map(canonical, value))}]"
    if kind in (dict, set, frozenset):
        return f"{kind.__name__}{{{_sorted(value)}}}"
    if kind in (bytes, bytearray):
        return f"{kind.__name__}'{value.hex()}'"
    if isinstance(value, _NAMED):
        return f"<{value.__module__}.{value.__qualname__}>"
    return _taken_apart(value)


def _sorted(values: Mapping[Any, Any] | Iterable[Any]) -> str:
    if isinstance(values, Mapping):
        return ",".join(sorted(f"{canonical(key)}:{canonical(value)}" for key, value in values.items()))
    return ",".join(sorted(map(canonical, values)))


def _taken_apart(value: Any) -> str:
    reduced = value.__reduce_ex__(2)
    if isinstance(reduced, str):
        return f"<{type(value).__module__}.{reduced}>"
    made_by, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    if isinstance(value, (set, frozenset)):
        arguments = (type(value), set(value))
    parts = [made_by, arguments, _given(value, state), items and list(items), pairs and dict(pairs)]
    return f"({','.join(map(canonical, parts))})"


def _given(value: Any, state: Any) -> Any:
    """Leave out of a model's state what its class makes anew each time: pydantic says which fields were given."""
    given = getattr(value, "__pydantic_fields_set__", None)
    if given is None or type(state) is not dict or "__dict__" not in state:
        return state
    made = {name for name, field in type(value).__pydantic_fields__.items() if field.default_factory} - given
    return {**state, "__dict__": {name: held for name, held in state["__dict__"].items() if name not in made}}


def _sha256(value: Any) -> str:
    import hashlib  # it takes longer to load than all that is here

    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()
