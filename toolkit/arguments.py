"""A model's words -> typed values, or an error that the model can act on.

One pass of pydantic-core takes the raw text to typed values. Only when that fails come the repairs that are safe: they
decode what was encoded twice and drop a null that stands for "left out". They never guess, and never mend text that was
cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import ValidationError, from_json, to_json

from toolkit.errors import InvalidArguments
from toolkit.jsontext import as_text
from toolkit.messages import sendable
from toolkit.parameters import Built

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# An error that repeats a bad megabyte costs the model its context; 400 characters hold five or six faults.
MAX_ERROR = 400
MAX_SHOWN = 60
MAX_FAULTS = 8  # more would not fit, and a model may send a million

# Faults that a text may have where JSON itself is due, by pydantic-core's names.
_NOT_A_STRING = frozenset(
    f"{kind}_type"
    for kind in ("dict", "list", "model", "model_attributes", "dataclass", "tuple", "set", "frozen_set", "mapping")
)


def read(built: Built, words: str | bytes | Mapping[str, Any] | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Turn a model's words into values, and say what had to be mended.

    Args:
        built: What the tool's parameters accept.
        words: Raw text; or a mapping, where a server has decoded the text already. Blank text and null mean that there
            are no arguments.

    Raises:
        InvalidArguments: They do not fit.
    """
    text = words if type(words) is str else as_text(words)
    values, faults = _tried(built, text)
    if values is not None:
        return values, ()
    mended = _mended(text, faults, built.schema)
    if mended is not None:
        values, faults = _tried(built, mended[0])
    if mended is None or values is None:
        raise InvalidArguments(explained(faults, built.schema))
    return values, mended[1]


def explained(faults: Sequence[ErrorDetails], schema: Mapping[str, Any]) -> str:
    """Say to a model what is wrong with its arguments: path, reason, what was received, what there is."""
    told = [_fault(fault, schema) for fault in faults[:MAX_FAULTS]]
    more = [f"and {len(faults) - MAX_FAULTS} more"] if len(faults) > MAX_FAULTS else []
    return sendable(shortened("; ".join(told + more), MAX_ERROR))


def shortened(text: str, limit: int) -> str:
    """Cut a text to `limit` characters, and say so."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def close_to(name: str, names: Collection[str]) -> str:
    """Suggest the names that a wrong one may stand for, and list what there is."""
    import difflib  # needed where a model errs

    near = difflib.get_close_matches(name[:MAX_SHOWN], names, n=3)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    known = ", ".join(names) or "none"
    return f"{hint} There is: {shortened(known, MAX_ERROR)}"


def _tried(built: Built, text: str) -> tuple[dict[str, Any] | None, Sequence[ErrorDetails]]:
    try:
        return built.validator(text), ()
    except ValidationError as error:
        return None, error.errors(include_url=False, include_context=False)
    except Exception as error:
        raise InvalidArguments(f"they could not be checked ({type(error).__name__}). Try other values.") from error


def _fault(fault: ErrorDetails, schema: Mapping[str, Any]) -> str:
    properties = schema["properties"]
    path, kind, got = _path(fault["loc"]), fault["type"], fault["input"]
    if kind == "json_invalid":
        return f"not valid JSON ({fault['msg'].removeprefix('Invalid JSON: ')}). Send one whole JSON object."
    if not path:
        return f"expected one JSON object with {', '.join(properties) or 'no keys'}, received {_shown(got)}"
    if kind == "missing":
        return f"{path}: missing, but required"
    if kind == "extra_forbidden":
        known = properties if len(fault["loc"]) == 1 else ()
        return f"{path}: no such parameter" + (close_to(str(fault["loc"][-1]), known) if known else "")
    return f"{path}: {fault['msg']} (received {_shown(got)})"


def _path(location: Sequence[int | str]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return "".join(steps).removeprefix(".")


def _shown(value: Any) -> str:
    import json  # as pydantic-core's writer does not, it takes halves of surrogate pairs

    return shortened(json.dumps(value, ensure_ascii=False, default=repr), MAX_SHOWN)


def _mended(text: str, faults: Sequence[ErrorDetails], schema: Mapping[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    """Mend a text where it failed, and say how; None where nothing can be mended without guessing."""
    if not text.strip() or text.strip() == "null":
        return "{}", ()
    if not any(fault["input"] is None or fault["type"] in _NOT_A_STRING for fault in faults):
        return None
    document = [from_json(text)]  # in a list, so that the whole is a place like any other
    optional = schema["properties"].keys() - set(schema.get("required", ()))
    texts = {_place(document, fault["loc"])[2] for fault in faults if _was_due_as_text(fault)}
    mendable = [fault for fault in faults if _place(document, fault["loc"])[2] not in texts]
    repairs = tuple(dict.fromkeys(note for fault in mendable for note in _repaired(document, fault, optional)))
    return (to_json(document[0]).decode(), repairs) if repairs else None


def _was_due_as_text(fault: ErrorDetails) -> bool:
    """Tell whether a text stands where one may, and is refused for what it says, such as its length."""
    return isinstance(fault["input"], str) and fault["type"].startswith("string_")


def _repaired(document: list[Any], fault: ErrorDetails, optional: Collection[str]) -> Iterator[str]:
    holder, key, path = _place(document, fault["loc"])
    value = holder[key]
    if isinstance(value, str) and fault["type"] in _NOT_A_STRING and (decoded := _decoded(value)) is not None:
        holder[key] = decoded
        yield f"{path or 'arguments'}: decoded from a JSON string"
    elif value is None and holder is document[0] and key in optional and isinstance(holder, dict):
        del holder[key]
        yield f"{path}: null taken as left out"


def _place(document: list[Any], location: Sequence[int | str]) -> tuple[Any, Any, str]:
    """Find the deepest place that a fault's location names; branches of a union have names that no place has."""
    holder: Any = document
    key: int | str = 0
    walked: list[int | str] = []
    for step in location:
        inner = holder[key]
        if not ((isinstance(inner, dict) and step in inner) or (isinstance(inner, list) and step in range(len(inner)))):
            continue
        holder, key = inner, step
        walked.append(step)
    return holder, key, _path(walked)


def _decoded(text: str) -> dict[str, Any] | list[Any] | None:
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, (dict, list)) else None
