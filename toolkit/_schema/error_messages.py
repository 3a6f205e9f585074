"""Error messages for a model: path, reason, what was received, and what is available."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_jsonable_python

from toolkit._messages import replace_surrogates
from toolkit._schema.json_schema import (
    as_mapping,
    collect_references,
    is_secret,
    iterate_schemas,
    look_up,
    resolve_reference,
    without_null,
)
from toolkit.errors import InvalidArguments, UnknownTool

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_ERROR = 400  # characters of a message: five or six errors, and little of the model's context
MAX_SHOWN = 60
MAX_NAME = 100
MAX_REASON = 200
MAX_LISTED = MAX_ERROR - MAX_NAME - len(UnknownTool.prefix) - 2
MAX_FAULT_TEXT = MAX_ERROR - len(InvalidArguments.prefix)
MAX_FAULTS = 8  # more would not fit, and a model may send a million
MAX_CHOICES = 8  # of one parameter, in a signature
MAX_OUTLINE = 3  # objects and lists inside of each other
# Prefixes of pydantic-core's names of union branches that mean nothing to a model.
INTERNAL_BRANCHES = ("chain[", "constrained-", "function-", "json-or-python[", "lax-or-strict[", "literal[")


class ErrorExplainer:
    """Explains validation errors to a model: path, reason, what was received, and what is available.

    The signature of the tool is added at the end of the message, as far as there is room.
    """

    def __init__(self, schema: Mapping[str, Any], signature: str = "") -> None:
        self._schema = schema
        self._end = f" Expected: {signature}" if signature else ""
        self._has_secrets = _is_secret(schema, schema)
        self._secrets = {name for name, part in schema["properties"].items() if _is_secret(part, schema)}

    def explain(self, faults: Sequence[ErrorDetails], text: str = "") -> str:
        """Explain errors, as pydantic-core lists them; `text` is the JSON text that they are in."""
        if len(faults) == 1:
            document = from_json(text) if text and len(faults[0]["loc"]) > 1 else None
            message = self._explain_fault(faults[0], document)
        else:
            message = self._explain_faults(faults, from_json(text) if text else None)
        if self._end:
            message += ("" if message.endswith((".", "?")) else ".") + self._end
        return replace_surrogates(shorten(message, MAX_FAULT_TEXT))

    def _explain_faults(self, faults: Sequence[ErrorDetails], document: Any) -> str:
        # A default factory that needs other values is not called if one of these is wrong, which is the fault.
        faults = [fault for fault in faults if fault["type"] != "default_factory_not_called"] or faults
        unknown = [
            fault for fault in faults[:MAX_FAULTS] if fault["type"] == "extra_forbidden" and not fault["loc"][1:]
        ]
        shown = [self._explain_fault(fault, document, has_list=fault in unknown[:1]) for fault in faults[:MAX_FAULTS]]
        more = [f"and {len(faults) - MAX_FAULTS} more"] if len(faults) > MAX_FAULTS else []
        return "; ".join(shown + more)

    def _explain_fault(self, fault: ErrorDetails, document: Any, *, has_list: bool = True) -> str:
        location, kind = fault["loc"], fault["type"]
        if kind == "json_invalid" and not location:
            return f"not valid JSON ({fault['msg'].removeprefix('Invalid JSON: ')}). Send one whole JSON object."

        path = shorten(format_path(location) if document is None else _format_place(document, location, kind), MAX_NAME)
        if kind == "missing":
            return f"{path}: missing, but required"
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            return f"{path}: no such parameter{self._suggest_parameters(location, has_list=has_list)}"

        is_secret = location[0] in self._secrets if location else self._has_secrets
        received = "a secret" if is_secret else shorten(_dump_input(fault["input"]), MAX_SHOWN)
        if path or isinstance(fault["input"], dict):  # of the whole object, such as that of a model's own validator
            return f"{path}: {shorten(fault['msg'], MAX_REASON)} (received {received})".removeprefix(": ")
        rest = "any keys" if self._schema.get("additionalProperties") else "no keys"
        return f"expected one JSON object with {', '.join(self._schema['properties']) or rest}, received {received}"

    def _suggest_parameters(self, location: Sequence[int | str], *, has_list: bool) -> str:
        """Suggest parameters in place of an unknown key at the top, nothing for a deeper one."""
        known = self._schema["properties"] if len(location) == 1 else ()
        if not known:
            return ""
        return suggest(str(location[0]), known) if has_list else suggest_near(str(location[0]), known)


def summarize_signature(name: str, schema: Mapping[str, Any]) -> str:
    """Write the signature of a tool: `add(a: integer, b: integer = 0)`."""
    required = schema.get("required", ())
    taken = (
        _render_parameter(key, part, is_optional=key not in required) for key, part in schema["properties"].items()
    )
    return f"{name}({', '.join(islice(taken, MAX_ERROR))})"


def outline_json(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """Write a schema in short, such as `{"name": string, "age"?: integer}`. Return "" if it allows any value."""

    def outline(inner: Any) -> str:
        return outline_json(inner, root, depth + 1) or "any"

    part = without_null(resolve_reference(as_mapping(schema), root)) or {}
    if values := part.get("enum") or ([part["const"]] if "const" in part else ()):
        return " | ".join(map(json.dumps, values))
    if branches := part.get("anyOf") or part.get("oneOf"):
        return " | ".join(map(outline, branches))

    kind = str(part.get("type", ""))
    if depth > MAX_OUTLINE:
        return kind
    if kind == "array":
        items = part.get("prefixItems")
        return f"[{', '.join(map(outline, items))}]" if items else f"[{outline(part.get('items'))}, ...]"

    required = part.get("required", ())
    members: list[str] = []
    for name, each in part.get("properties", {}).items():
        mark = "" if name in required else "?"
        members.append(f'"{name}"{mark}: {outline(each)}')
    if others := as_mapping(part.get("additionalProperties")):
        members.append(f"...: {outline(others)}")
    return "{" + ", ".join(members) + "}" if members else kind


def explain_unknown_tool(name: str, names: Collection[str]) -> str:
    """Explain to a model that no tool has this name, and list the names of tools."""
    called = shorten(repr(name[:MAX_NAME]), MAX_NAME + 2) if name else "the call names none"
    return f"{called}{suggest(name, names)}"


def shorten(text: str, limit: int) -> str:
    """Truncate a text to `limit` characters, an ellipsis at its end included."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def suggest(name: str, names: Collection[str]) -> str:
    """Suggest names like a wrong one, and list all."""
    known = ", ".join(names) or "none"
    return shorten(f"{suggest_near(name, names) or '.'} Available: {known}", MAX_LISTED)


def suggest_near(name: str, names: Collection[str]) -> str:
    """Suggest names like a wrong one. Return "" if there are none."""
    import difflib  # slow to load, and seldom needed

    near = difflib.get_close_matches(name[:MAX_SHOWN], names, n=3)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def _render_parameter(name: str, schema: Any, *, is_optional: bool) -> str:
    part = schema if type(schema) is dict else {}
    if not is_optional:
        return f"{name}: {_render_type(part)}"
    default = shorten(_dump(part["default"]), MAX_SHOWN) if "default" in part else "..."
    return f"{name}: {_render_type(part)} = {default}"


def _render_type(part: Mapping[str, Any]) -> str:
    """Name the type that a schema describes, no deeper than the items of a list."""
    if part.get("type") != "array" or not part.get("items"):
        return _name_types(part)
    items = _name_types(part["items"])
    return f"array of ({items})" if " | " in items else f"array of {items}"


def _name_types(part: Any) -> str:
    """Name the type that a schema describes, or those of a union, also of one with null."""
    branches = [inner for branch in _list_branches(part) for inner in _list_branches(branch)]
    return _join_types(map(_name_type, branches))


def _list_branches(part: Any) -> Sequence[Any]:
    return as_mapping(part).get("anyOf") or as_mapping(part).get("oneOf") or [part]


def _name_type(part: Any) -> str:
    named = part if type(part) is dict else {}
    if choices := named.get("enum") or ([named["const"]] if "const" in named else ()):
        return _join_types(map(_dump, choices))
    kind = named.get("type") or str(named.get("$ref", "any")).rpartition("/")[2]
    return kind if isinstance(kind, str) else _join_types(map(str, kind))


def _join_types(names: Iterable[str]) -> str:
    first = list(islice(names, MAX_CHOICES + 1))
    return " | ".join(dict.fromkeys([*first[:MAX_CHOICES], "..."] if len(first) > MAX_CHOICES else first))


def format_path(location: Sequence[int | str]) -> str:
    """Write a location in a document as a path: `places[0].name`."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


def locate(document: Any, location: Sequence[int | str]) -> tuple[list[int | str], list[int | str]]:
    """Split a location of pydantic-core into the path of a value in the document, and names of union branches."""
    path: list[int | str] = []
    branches: list[int | str] = []
    value = document
    for step in location:
        if (isinstance(value, dict) and step in value) or (isinstance(value, list) and step in range(len(value))):
            value = value[step]  # type: ignore[index]  # a number, in a list
            path.append(step)
        else:
            branches.append(step)
    return path, branches


def _format_place(document: Any, location: Sequence[int | str], kind: str) -> str:
    """Write a location as its path, and the branch of a union in which it is: `pets[0].age (Cat)`."""
    path, branches = locate(document, location)
    if kind == "missing" and branches:
        path.append(branches.pop())
    named = [name for branch in branches if not (name := str(branch)).startswith(INTERNAL_BRANCHES)]
    return format_path(path) + (f" ({', '.join(named)})" if named else "")


def _dump_value(value: Any) -> Any:
    """Convert a Python value to plain data: pydantic-core may refuse a value after converting it from text."""
    return to_jsonable_python(value, fallback=repr)


# Unlike pydantic-core's, this writer takes lone surrogates.
_dump = json.JSONEncoder(ensure_ascii=False, default=_dump_value).encode


def _dump_input(value: Any) -> str:
    """Write a refused value; of one that has no JSON, such as bytes that a validator decoded, only the type."""
    try:
        return _dump(value)
    except Exception:  # noqa: BLE001  the value may be of any class, whose code may fail
        return type(value).__name__


def _is_secret(part: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a part of a schema holds a secret, directly or behind references."""
    reached = [part, *(look_up(schema, reference) for reference in collect_references(part, schema))]
    return any(map(is_secret, iterate_schemas(reached)))
