"""Requests to Chat Completions that OpenAI refuses, and schemas that it refuses where `strict` is true.

A check raises the first fault that it finds, so it may rely on those before it: `_check_pairing` gets messages that
`_check_message` has found well formed. Keep that order when you add one.

Rules of schemas: https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas, read in
November 2026. What that page leaves open follows the API's answers: a reference has no keywords beside it, and a
keyword that is not listed is refused. The sizes are those of the dialects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NoReturn

from toolkit._dialects.strict.rules import STRICT, find_excess

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# An assistant message may leave its content out only beside one of these.
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")


class Fault(ValueError):
    """A reason to refuse a request, and the path of the field that is wrong."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(f"Invalid {param!r}: {message}")
        self.param = param


def require(condition: object, param: str, message: str) -> None:
    """Refuse a request where a condition does not hold.

    Raises:
        Fault: It does not.
    """
    if not condition:
        raise Fault(param, message)


def check_content(content: bytes, check: Callable[[Any], None]) -> None:
    """Parse a request's body, and check it.

    Raises:
        Fault: It is not strict JSON, or the check found a fault.
    """
    try:
        body = _parse_strict_json(content.decode())
    except (ValueError, RecursionError) as error:
        raise Fault("body", f"not strict JSON ({error})") from None
    require(isinstance(body, dict), "body", "must be a JSON object")
    require(is_filled(body.get("model")), "model", "you must provide a model")
    check(body)


def _parse_strict_json(text: str) -> Any:
    value = json.loads(text, parse_constant=_refuse_constant)
    json.dumps(value, ensure_ascii=False).encode()  # "\ud800" parses, but no UTF-8 can carry it
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def check_request(body: dict[str, Any]) -> None:
    """Check a request for a completion."""
    is_streamed = "stream_options" not in body or body.get("stream") is True
    require(is_streamed, "stream_options", "only allowed when 'stream' is enabled")
    messages = body.get("messages")
    require(_is_full_list(messages), "messages", "must be a list with at least one message")
    for index, message in enumerate(body["messages"]):
        _check_message(f"messages[{index}]", message)
    _check_pairing(body["messages"])
    check_tool_list(body, _check_tool)
    if "tool_choice" in body:
        check_choice(body["tool_choice"], {tool["function"]["name"] for tool in body["tools"]}, "function")
    _check_response_format(body.get("response_format", {"type": "text"}))


def _is_full_list(values: Any) -> bool:
    return isinstance(values, list) and bool(values)


def _check_message(at: str, message: Any) -> None:
    has_role = isinstance(message, dict) and message.get("role") in _ROLES
    require(has_role, f"{at}.role", f"must be one of {', '.join(_ROLES)}")
    content, is_assistant = message.get("content"), message["role"] == "assistant"
    is_replaced = is_assistant and any(message.get(key) for key in _INSTEAD_OF_CONTENT)
    is_content = isinstance(content, str) or _is_part_list(content) or (content is None and is_replaced)
    require(is_content, f"{at}.content", "must be text, a list of typed parts, or null beside 'tool_calls'")
    if "tool_calls" in message:
        require(is_assistant, f"{at}.tool_calls", "only an assistant message may have tool calls")
        require(_is_full_list(message["tool_calls"]), f"{at}.tool_calls", "must be a list with at least one call")
        for index, call in enumerate(message["tool_calls"]):
            _check_call(f"{at}.tool_calls[{index}]", call)


def _is_part_list(content: Any) -> bool:
    parts = content if isinstance(content, list) else []
    return bool(parts) and all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts)


def _check_call(at: str, call: Any) -> None:
    _require_function(at, call)
    require(is_filled(call.get("id")), f"{at}.id", "must be non-empty text")
    require_name(f"{at}.function.name", call["function"].get("name"))
    require_object_text(f"{at}.function.arguments", call["function"].get("arguments"))


def _require_function(at: str, value: Any) -> None:
    function = value.get("function") if isinstance(value, dict) and value.get("type") == "function" else None
    require(isinstance(function, dict), f"{at}.type", "must be 'function', with a 'function' object")


def is_filled(text: Any) -> bool:
    """Return whether a value is text that is not empty."""
    return isinstance(text, str) and text != ""


def require_name(at: str, name: Any) -> None:
    """Require a name that OpenAI takes for a tool."""
    require(isinstance(name, str) and _NAME.fullmatch(name), at, f"must match ^{_NAME.pattern}$")


def require_object_text(at: str, text: Any) -> None:
    """Require the text of one JSON object."""
    try:
        is_object = isinstance(text, str) and isinstance(_parse_strict_json(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    require(is_object, at, "must be text that holds one JSON object")


def _check_pairing(messages: list[dict[str, Any]]) -> None:
    """Refuse calls whose answers do not follow at once, answers without a call, and ids used twice."""
    open_ids: list[str] = []
    known_ids: set[str] = set()
    for index, message in enumerate(messages):
        at = f"messages[{index}]"
        if message["role"] == "tool":
            text = "role 'tool' must be a response to a preceding message with 'tool_calls'"
            require(open_ids, f"{at}.role", text)
            expected, given = open_ids.pop(0), message.get("tool_call_id")
            text = f"{given!r} stands where {expected!r} must be answered"
            require(given == expected, f"{at}.tool_call_id", text)
            continue
        _require_answered(at, open_ids)
        for number, call in enumerate(message.get("tool_calls", ())):
            param, text = f"{at}.tool_calls[{number}].id", f"{call['id']!r} is already in this conversation"
            require(call["id"] not in known_ids, param, text)
            known_ids.add(call["id"])
            open_ids.append(call["id"])
    _require_answered("messages", open_ids)


def _require_answered(at: str, open_ids: list[str]) -> None:
    require(not open_ids, at, f"these tool_call_ids did not have response messages: {', '.join(open_ids)}")


def check_tool_list(body: dict[str, Any], check_tool: Callable[[str, Any], None]) -> None:
    """Check each tool, and that keys which need tools have some."""
    if "tools" not in body:
        for option in ("tool_choice", "parallel_tool_calls"):
            require(option not in body, option, "only allowed when 'tools' are specified")
        return
    require(_is_full_list(body["tools"]), "tools", "must be a list with at least one tool")
    for index, tool in enumerate(body["tools"]):
        check_tool(f"tools[{index}]", tool)


def check_choice(choice: Any, names: Collection[str], member: str = "") -> None:
    """Check a `tool_choice`.

    Args:
        choice: A mode, one function, or a list of those that are allowed.
        names: The functions on offer.
        member: Member of a tool that holds the function's name; the tool itself by default.
    """
    if isinstance(choice, str) and choice in ("auto", "none", "required"):
        return
    given: Any = choice if isinstance(choice, dict) else {}
    kind = given.get("type")
    text = "must be 'auto', 'none', 'required', a function or 'allowed_tools'"
    require(kind in ("function", "allowed_tools"), "tool_choice", text)
    limited = given.get("allowed_tools", given) if member else given
    is_limited = kind == "function" or (limited.get("mode") in ("auto", "required") and limited.get("tools"))
    require(is_limited, "tool_choice", "'mode' must be 'auto' or 'required', and 'tools' a list with a tool")
    for tool in limited["tools"] if kind == "allowed_tools" else [given]:
        name = tool.get(member, tool).get("name")
        is_known = tool.get("type") == "function" and name in names
        require(is_known, "tool_choice", f"Tool choice {name!r} not found in 'tools' parameter")


def _check_tool(at: str, tool: Any) -> None:
    _require_function(at, tool)
    # OpenAI reads a tool without "parameters" as one that takes none.
    check_function(f"{at}.function", {"parameters": {"type": "object", "properties": {}}, **tool["function"]})


def check_function(at: str, function: dict[str, Any]) -> None:
    """Check the name, the parameters and the strictness of a function."""
    require_name(f"{at}.name", function.get("name"))
    parameters = function.get("parameters")
    is_object = isinstance(parameters, dict) and parameters.get("type") == "object" and "properties" in parameters
    require(is_object, f"{at}.parameters", "must have type 'object' and 'properties'")
    check_strict_schema(at, function.get("strict"), "parameters", parameters)


def check_format(at: str, asked: Any) -> bool:
    """Check the type of an answer's format, and return whether it has a schema."""
    is_known = isinstance(asked, dict) and asked.get("type") in ("text", "json_object", "json_schema")
    require(is_known, f"{at}.type", "must be 'text', 'json_object' or 'json_schema'")
    return bool(asked["type"] == "json_schema")


def _check_response_format(asked: Any) -> None:
    if check_format("response_format", asked):
        at, named = "response_format.json_schema", asked.get("json_schema")
        require_name(f"{at}.name", isinstance(named, dict) and named.get("name"))
        check_strict_schema(at, named.get("strict"), "schema", named.get("schema"))


def check_strict_schema(at: str, strict: Any, place: str, schema: Any) -> None:
    """Check `strict` and, where it is true, its schema."""
    require(isinstance(strict, (bool, type(None))), f"{at}.strict", "must be a boolean")
    fault = next(find_schema_faults(schema), None) if strict else None
    require(fault is None, f"{at}.{place}", str(fault))


KEYWORDS = (
    *("type", "title", "description", "enum", "const", "anyOf", "$ref", "$defs", "definitions"),
    *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
    *("pattern", "format", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
DEFINING = ("type", "anyOf", "$ref", "enum", "const")
NAMED = ("properties", "$defs", "definitions")

Path = tuple[str, ...]
_LOOKAROUND = re.compile(r"\(\?<?[=!]")


def find_schema_faults(schema: Any) -> Iterator[str]:
    """Find the faults of a schema: where, in OpenAI's notation, and which keyword."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or "anyOf" in schema:
        yield "the root must have type 'object', and no 'anyOf'"
    for path, node in _list_nodes(schema):
        yield from (f"In context={path}, {text}" for text in _find_faults(node, schema))
    if excess := find_excess(schema, STRICT.limits):
        yield excess


def _list_nodes(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every schema in a schema, itself included, with its path."""
    yield path, node
    for step, inner in _list_inner(node):
        yield from _list_nodes(inner, (*path, *step))


def _list_inner(node: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for keyword in NAMED:
        yield from (((keyword, name), inner) for name, inner in node.get(keyword, {}).items())
    yield from ((("anyOf", str(index)), way) for index, way in enumerate(node.get("anyOf", ())))
    if "items" in node:
        yield ("items",), node["items"]


def _find_faults(node: Any, root: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(node, dict):
        yield f"{node!r} is not a schema"
    if node.keys().isdisjoint(DEFINING):
        yield "schema must have a 'type' key"
    yield from (f"{keyword!r} must be an object" for keyword in NAMED if not isinstance(node.get(keyword, {}), dict))
    for keyword, what in ("anyOf", "schema"), ("enum", "value"):
        if not _is_full_list(node.get(keyword, [0])):
            yield f"{keyword!r} must be a list with at least one {what}"
    yield from (f"{keyword!r} is not permitted" for keyword in node if keyword not in KEYWORDS)
    yield from _find_type_faults(node)
    if "format" in node and node["format"] not in FORMATS:
        yield f"'format' {node['format']!r} is not supported"
    if _LOOKAROUND.search(str(node.get("pattern", ""))):
        yield "'pattern': regex lookaround is not supported"
    yield from _find_reference_faults(node, root)


def _find_type_faults(node: Mapping[str, Any]) -> Iterator[str]:
    named = node.get("type", [])
    types = named if isinstance(named, list) else [named]
    yield from (f"'type' {name!r} is not supported" for name in types if name not in TYPES)
    if "array" in types and "items" not in node:
        yield "array schema missing 'items'"
    if "object" not in types and "properties" not in node:
        return
    if node.get("additionalProperties") is not False:
        yield "'additionalProperties' is required to be supplied and to be false"
    properties, required = node.get("properties"), node.get("required")
    if not isinstance(properties, dict):
        yield "object schema missing 'properties'"
    elif not isinstance(required, list) or {*map(str, required)} != properties.keys():
        yield f"'required' is required to be a list of every key in properties: {', '.join(properties)}"


def _find_reference_faults(node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" not in node:
        return
    beside = sorted(node.keys() - {"$ref", "$defs"})
    if beside:
        yield f"'$ref' cannot have keywords beside it: {', '.join(beside)}"
    known = {"#"} | {f"#/{place}/{name}" for place in NAMED for name in root.get(place, {})}
    if node["$ref"] not in known:
        yield f"'$ref' {node['$ref']!r} does not resolve"
