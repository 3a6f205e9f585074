"""What is wrong with a model's words, told so that it can act: path, reason, what was received, what there is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolkit.errors import InvalidArguments, UnknownTool
from toolkit.parts import sendable

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# An error that repeats a bad megabyte costs the model its context; 400 characters hold five or six faults.
MAX_ERROR = 400
MAX_SHOWN = 60
MAX_NAME = 100
MAX_REASON = 200
MAX_LISTED = MAX_ERROR - MAX_NAME - len(UnknownTool.prefix) - 2
MAX_FAULTS = 8  # more would not fit, and a model may send a million


def explained(faults: Sequence[ErrorDetails], schema: Mapping[str, Any]) -> str:
    """Say to a model what is wrong with its arguments: path, reason, what was received, what there is."""
    told = [_fault(fault, schema) for fault in faults[:MAX_FAULTS]]
    if len(faults) > MAX_FAULTS:
        told.append(f"and {len(faults) - MAX_FAULTS} more")
    return sendable(shortened("; ".join(told), MAX_ERROR - len(InvalidArguments.prefix)))


def unknown(name: str, names: Collection[str]) -> str:
    """Say to a model that there is no tool of this name, and which there are."""
    called = shortened(repr(name[:MAX_NAME]), MAX_NAME + 2) if name else "the call names none"
    return f"{called}{close_to(name, names)}"


def shortened(text: str, limit: int) -> str:
    """Cut a text to `limit` characters, and say so."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def close_to(name: str, names: Collection[str]) -> str:
    """Suggest the names that a wrong one may stand for, and list what there is."""
    import difflib  # needed where a model errs

    near = difflib.get_close_matches(name[:MAX_SHOWN], names, n=3)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    known = ", ".join(names) or "none"
    return shortened(f"{hint} There is: {known}", MAX_LISTED)


def _fault(fault: ErrorDetails, schema: Mapping[str, Any]) -> str:
    path, kind, reason = shortened(path_of(fault["loc"]), MAX_NAME), fault["type"], shortened(fault["msg"], MAX_REASON)
    if kind == "json_invalid":
        return f"not valid JSON ({reason.removeprefix('Invalid JSON: ')}). Send one whole JSON object."
    if kind == "missing":
        return f"{path}: missing, but required"
    if kind == "extra_forbidden":
        return f"{path}: no such parameter{_instead(fault['loc'], schema)}"
    received = f"received {_received(fault, schema)}"
    if not path:
        return f"expected one JSON object with {', '.join(schema['properties']) or 'no keys'}, {received}"
    return f"{path}: {reason} ({received})"


def _instead(location: Sequence[int | str], schema: Mapping[str, Any]) -> str:
    """Say what parameters there are; of what lies deeper nothing is known here."""
    known = schema["properties"] if len(location) == 1 else ()
    return close_to(str(location[0]), known) if known else ""


def path_of(location: Sequence[int | str]) -> str:
    """Write where in a document something is: `places[0].name`."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


# As pydantic-core's writer does not, it takes halves of surrogate pairs.
_written = json.JSONEncoder(ensure_ascii=False, default=repr).encode


def _received(fault: ErrorDetails, schema: Mapping[str, Any]) -> str:
    """Show the value that is wrong, unless it may hold what nobody is to read."""
    place = schema["properties"].get(fault["loc"][0]) if fault["loc"] else schema["properties"]
    return "a secret" if _is_secret(place, schema) else shortened(_written(fault["input"]), MAX_SHOWN)


def _is_secret(place: Any, schema: Mapping[str, Any]) -> bool:
    """Tell whether a part of a schema holds a secret: `writeOnly`, as pydantic says it of its secret types."""
    if type(place) is dict and place.get("type") in _NEVER_SECRET:
        return False
    return _says(place, "writeOnly") or (_says(place, "$ref") and _says(schema.get("$defs"), "writeOnly"))


_NEVER_SECRET = ("integer", "number", "boolean")


def _says(part: Any, keyword: str) -> bool:
    inner = part.values() if type(part) is dict else part if type(part) is list else ()
    return (type(part) is dict and keyword in part) or any(_says(each, keyword) for each in inner)
