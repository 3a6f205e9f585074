"""Show the arguments of a call to a person who decides on it: all that the model wrote, except secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolkit._messages import ToolCall
from toolkit._schema.json_schema import as_mapping, is_secret, resolve_reference
from toolkit._schema.json_text import escape_confusable, load_json
from toolkit._tools.tool import Tool
from toolkit.errors import InvalidArguments

MASK = "**********"  # as pydantic writes one

_TYPES: Mapping[type, str] = {dict: "object", list: "array", str: "string"}


def show_arguments(tool: Tool[..., Any], call: ToolCall) -> Any:
    """Return the arguments of a call as plain data, with the defaults of the tool's schema, and secrets as asterisks.

    Only objects whose keys the schema names get defaults: any other key may be the alias of one of them.
    """
    try:
        written = tool._invocation.parser.parse_document(call.arguments)
    except InvalidArguments:  # of a request made by hand
        written = load_json(call.arguments)
    return _show(written, tool.parameters, tool.parameters)


def _show(written: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    schema = _choose(written, schema, root)
    if isinstance(written, str):
        return MASK if is_secret(schema) else written
    if isinstance(written, list):
        first, rest = schema.get("prefixItems", []), schema.get("items")
        shown = [_show(item, first[i] if i < len(first) else rest, root) for i, item in enumerate(written)]
        return [*shown, *(item["default"] for item in first[len(written) :] if "default" in item)]
    if isinstance(written, dict):
        properties, others = as_mapping(schema.get("properties")), schema.get("additionalProperties")
        members = {key: _show(item, properties.get(key, others), root) for key, item in written.items()}
        left_out = properties.items() if written.keys() <= properties.keys() else ()
        defaults = {key: each["default"] for key, each in left_out if "default" in as_mapping(each)}
        return {**members, **{key: default for key, default in defaults.items() if key not in written}}
    return written


def _choose(written: Any, schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a value: of a union, the only member that it can be of; or one that says nothing."""
    members = _list_members(schema, root)
    fitting = [member for member in members if _may_fit(written, member)] if len(members) > 1 else members
    return fitting[0] if len(fitting) == 1 else {}


def _list_members(schema: Any, root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the members of a union, and of unions in it; a schema that is not a union stands for itself."""
    resolved = resolve_reference(as_mapping(schema), root)
    for keyword in ("anyOf", "oneOf"):
        if keyword in resolved:
            return [inner for member in resolved[keyword] for inner in _list_members(member, root)]
    return [resolved]


def _may_fit(written: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a value is of a schema's type, and has the keys that it requires, and the constants."""
    kind = _TYPES.get(type(written))
    types = schema.get("type", kind)
    if kind not in (types if isinstance(types, list) else [types]):
        return False
    if not isinstance(written, dict):
        return True
    given = [
        (written[key], as_mapping(each)) for key, each in as_mapping(schema.get("properties")).items() if key in written
    ]
    has_keys = written.keys() >= {*schema.get("required", ())}
    return has_keys and all(
        each.get("const", value) == value and value in each.get("enum", [value]) for value, each in given
    )


def to_shown_json(values: Any, indent: int | None = None) -> str:
    """Write plain data as JSON, with invisible characters, and those that look like a Latin letter, as escapes.

    A JSON parser reads the same values as without the escapes.
    """
    return escape_confusable(json.dumps(values, ensure_ascii=False, indent=indent), keep="\n")


def shorten_middle(text: str, most: int) -> str:
    """Replace the middle of a long text by a note with its length and its SHA-256."""
    if len(text) <= most:
        return text
    import hashlib  # slow to load, and rarely used

    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    note = f"\n... {len(text) - most:,} of {len(text):,} characters are not shown here; SHA-256 of all: {digest} ...\n"
    return text[: most - most // 4] + note + text[len(text) - most // 4 :]
