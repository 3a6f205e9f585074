"""Requests to Chat Completions that OpenAI refuses, and schemas that it refuses where `strict` is true.

Each check is a generator of faults and only the first fault is ever read, so a check relies on those before it
(`_check_pairing` gets messages that `_check_messages` has found well formed). Keep that order when you add one.

Rules of schemas: https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas, read in
November 2026. What that page leaves open follows the API's answers: a reference has no keywords beside it, and a
keyword that is not listed is refused. The sizes are those of the dialects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from toolkit._dialects.strict.rules import STRICT, find_excess

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAME_RULE = f"must match ^{_NAME.pattern}$"
# An assistant message may leave its content out only beside one of these.
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One reason to refuse a request, and the path of the field that is wrong."""

    param: str
    message: str

    def __str__(self) -> str:
        return f"Invalid {self.param!r}: {self.message}"


def find_first_fault(content: bytes, find_faults: Callable[[Any], Iterator[Fault]]) -> Fault | None:
    """Find the first reason to refuse a request body; None if there is none."""
    try:
        body = _parse_strict_json(content.decode())
    except (ValueError, RecursionError) as error:
        return Fault(param="body", message=f"not strict JSON ({error})")
    return next((find_faults)(body), None)


def _parse_strict_json(text: str) -> Any:
    value = json.loads(text, parse_constant=_refuse_constant)
    json.dumps(value, ensure_ascii=False).encode()  # "\ud800" parses, but no UTF-8 can carry it
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def find_faults(body: Any) -> Iterator[Fault]:
    """Find the faults of a request for a completion."""
    if not isinstance(body, dict):
        yield Fault(param="body", message="must be a JSON object")
    if not is_filled(body.get("model")):
        yield Fault(param="model", message="you must provide a model")
    if "stream_options" in body and body.get("stream") is not True:
        yield Fault(param="stream_options", message="only allowed when 'stream' is enabled")
    yield from _check_messages(body.get("messages"))
    yield from _check_pairing(body["messages"])
    yield from _check_tools(body)
    yield from _check_response_format(body)


def _check_messages(messages: Any) -> Iterator[Fault]:
    if not isinstance(messages, list) or not messages:
        yield Fault(param="messages", message="must be a list with at least one message")
    for index, message in enumerate(messages):
        at = f"messages[{index}]"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            yield Fault(param=f"{at}.role", message=f"must be one of {', '.join(_ROLES)}")
        yield from _check_content(at, message)
        yield from _check_calls(at, message)


def _check_content(at: str, message: dict[str, Any]) -> Iterator[Fault]:
    content = message.get("content")
    replaced = message["role"] == "assistant" and any(message.get(key) for key in _INSTEAD_OF_CONTENT)
    if not (isinstance(content, str) or _is_part_list(content) or (content is None and replaced)):
        yield Fault(param=f"{at}.content", message="must be text, a list of typed parts, or null beside 'tool_calls'")


def _is_part_list(content: Any) -> bool:
    parts = content if isinstance(content, list) else []
    return bool(parts) and all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts)


def _check_calls(at: str, message: dict[str, Any]) -> Iterator[Fault]:
    if "tool_calls" not in message:
        return
    calls = message["tool_calls"]
    if message["role"] != "assistant":
        yield Fault(param=f"{at}.tool_calls", message="only an assistant message may have tool calls")
    if not isinstance(calls, list) or not calls:
        yield Fault(param=f"{at}.tool_calls", message="must be a list with at least one call")
    for index, call in enumerate(calls):
        yield from _check_call(f"{at}.tool_calls[{index}]", call)


def _check_call(at: str, call: Any) -> Iterator[Fault]:
    if not isinstance(call, dict) or call.get("type") != "function" or not isinstance(call.get("function"), dict):
        yield Fault(param=f"{at}.type", message="must be 'function', with a 'function' object")
    if not is_filled(call.get("id")):
        yield Fault(param=f"{at}.id", message="must be non-empty text")
    if not is_name(call["function"].get("name")):
        yield Fault(param=f"{at}.function.name", message=NAME_RULE)
    if not is_object_text(call["function"].get("arguments")):
        yield Fault(param=f"{at}.function.arguments", message="must be text that holds one JSON object")


def is_filled(text: Any) -> bool:
    """Return whether a value is text that is not empty."""
    return isinstance(text, str) and text != ""


def is_name(name: Any) -> bool:
    """Return whether a value is a name that OpenAI takes for a tool."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def is_object_text(text: Any) -> bool:
    """Return whether a value is the text of one JSON object."""
    try:
        return isinstance(text, str) and isinstance(_parse_strict_json(text), dict)
    except (ValueError, RecursionError):
        return False


def _check_pairing(messages: list[dict[str, Any]]) -> Iterator[Fault]:
    """Find calls whose answers do not follow at once, answers without a call, and ids used twice."""
    open_ids: list[str] = []
    known_ids: set[str] = set()
    for index, message in enumerate(messages):
        at = f"messages[{index}]"
        if message["role"] == "tool":
            yield from _check_answer(at, message.get("tool_call_id"), open_ids)
            open_ids = open_ids[1:]
            continue
        yield from _find_unanswered(at, open_ids)
        open_ids = [call["id"] for call in message.get("tool_calls", ())]
        yield from _find_repeated(at, open_ids, known_ids)
        known_ids.update(open_ids)
    yield from _find_unanswered("messages", open_ids)


def _check_answer(at: str, call_id: Any, open_ids: list[str]) -> Iterator[Fault]:
    if not open_ids:
        yield Fault(
            param=f"{at}.role", message="role 'tool' must be a response to a preceding message with 'tool_calls'"
        )
    elif call_id != open_ids[0]:
        yield Fault(param=f"{at}.tool_call_id", message=f"{call_id!r} stands where {open_ids[0]!r} must be answered")


def _find_unanswered(at: str, open_ids: list[str]) -> Iterator[Fault]:
    if open_ids:
        yield Fault(param=at, message=f"these tool_call_ids did not have response messages: {', '.join(open_ids)}")


def _find_repeated(at: str, ids: list[str], known_ids: set[str]) -> Iterator[Fault]:
    for index, call_id in enumerate(ids):
        if call_id in known_ids or call_id in ids[:index]:
            yield Fault(param=f"{at}.tool_calls[{index}].id", message=f"{call_id!r} is already in this conversation")


def _check_tools(body: dict[str, Any]) -> Iterator[Fault]:
    yield from check_tool_list(body, _check_tool)
    if "tool_choice" in body:
        yield from check_choice(body["tool_choice"], {tool["function"]["name"] for tool in body["tools"]}, "function")


def check_tool_list(body: dict[str, Any], check_tool: Callable[[str, Any], Iterator[Fault]]) -> Iterator[Fault]:
    """Find the faults of each tool, and of keys that need tools."""
    if "tools" not in body:
        yield from find_needless(body, "tool_choice", "parallel_tool_calls")
        return
    tools = body["tools"]
    if not isinstance(tools, list) or not tools:
        yield Fault(param="tools", message="must be a list with at least one tool")
    for index, tool in enumerate(tools):
        yield from check_tool(f"tools[{index}]", tool)


def check_choice(choice: Any, names: Collection[str], member: str = "") -> Iterator[Fault]:
    """Find the faults of a `tool_choice`.

    Args:
        choice: A mode, one function, or a list of those that are allowed.
        names: The functions on offer.
        member: Member of a tool that holds the function's name; the tool itself by default.
    """
    if isinstance(choice, str) and choice in ("auto", "none", "required"):
        return
    given: Any = choice if isinstance(choice, dict) else {}
    kind = given.get("type")
    if kind not in ("function", "allowed_tools"):
        yield Fault(param="tool_choice", message="must be 'auto', 'none', 'required', a function or 'allowed_tools'")
    limited = given.get("allowed_tools", given) if member else given
    if kind == "allowed_tools" and (limited.get("mode") not in ("auto", "required") or not limited.get("tools")):
        yield Fault(param="tool_choice", message="'mode' must be 'auto' or 'required', and 'tools' a list with a tool")
    for tool in limited["tools"] if kind == "allowed_tools" else [given]:
        name = tool.get(member, tool).get("name")
        if tool.get("type") != "function" or name not in names:
            yield Fault(param="tool_choice", message=f"Tool choice {name!r} not found in 'tools' parameter")


def find_needless(body: dict[str, Any], *options: str) -> Iterator[Fault]:
    """Find options that need tools where there are none."""
    for option in options:
        if option in body:
            yield Fault(param=option, message="only allowed when 'tools' are specified")


def _check_tool(at: str, tool: Any) -> Iterator[Fault]:
    if not isinstance(tool, dict) or tool.get("type") != "function" or not isinstance(tool.get("function"), dict):
        yield Fault(param=f"{at}.type", message="must be 'function', with a 'function' object")
    function = tool["function"]
    if not is_name(function.get("name")):
        yield Fault(param=f"{at}.function.name", message=NAME_RULE)
    # OpenAI reads a tool without "parameters" as one that takes none.
    parameters = function.get("parameters", {"type": "object", "properties": {}})
    if not isinstance(parameters, dict) or parameters.get("type") != "object" or "properties" not in parameters:
        yield Fault(param=f"{at}.function.parameters", message="must have type 'object' and 'properties'")
    yield from check_strict_schema(f"{at}.function", function.get("strict"), "parameters", parameters)


def _check_response_format(body: dict[str, Any]) -> Iterator[Fault]:
    asked = body.get("response_format", {"type": "text"})
    if not isinstance(asked, dict) or asked.get("type") not in ("text", "json_object", "json_schema"):
        yield Fault(param="response_format.type", message="must be 'text', 'json_object' or 'json_schema'")
    if asked["type"] != "json_schema":
        return
    named: Any = asked.get("json_schema")
    if not isinstance(named, dict) or not is_name(named.get("name")):
        yield Fault(param="response_format.json_schema.name", message=NAME_RULE)
    yield from check_strict_schema("response_format.json_schema", named.get("strict"), "schema", named.get("schema"))


def check_strict_schema(at: str, strict: Any, place: str, schema: Any) -> Iterator[Fault]:
    """Find the faults of `strict` and, where it is true, of its schema."""
    if not isinstance(strict, (bool, type(None))):
        yield Fault(param=f"{at}.strict", message="must be a boolean")
    if strict:
        yield from (Fault(param=f"{at}.{place}", message=text) for text in find_schema_faults(schema))


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
        yield from (f"In context={path}, {text}" for check in _CHECKS for text in check(node, schema))
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


def _check_shape(node: Any, _: Any) -> Iterator[str]:
    if not isinstance(node, dict):
        yield f"{node!r} is not a schema"
    if node.keys().isdisjoint(DEFINING):
        yield "schema must have a 'type' key"
    yield from (f"{keyword!r} must be an object" for keyword in NAMED if not isinstance(node.get(keyword, {}), dict))
    if not _is_filled(node.get("anyOf", [0])):
        yield "'anyOf' must be a list with at least one schema"


def _is_filled(values: Any) -> bool:
    return isinstance(values, list) and bool(values)


def _check_keywords(node: Mapping[str, Any], _: Any) -> Iterator[str]:
    yield from (f"{keyword!r} is not permitted" for keyword in node if keyword not in KEYWORDS)


def _check_types(node: Mapping[str, Any], _: Any) -> Iterator[str]:
    types = _to_list(node.get("type", []))
    yield from (f"'type' {name!r} is not supported" for name in types if name not in TYPES)
    if "array" in types and "items" not in node:
        yield "array schema missing 'items'"
    if "object" in types or "properties" in node:
        yield from _check_object(node)


def _to_list(named: Any) -> list[Any]:
    return named if isinstance(named, list) else [named]


def _check_object(node: Mapping[str, Any]) -> Iterator[str]:
    if node.get("additionalProperties") is not False:
        yield "'additionalProperties' is required to be supplied and to be false"
    properties, required = node.get("properties"), node.get("required")
    if not isinstance(properties, dict):
        yield "object schema missing 'properties'"
    elif not isinstance(required, list) or {*map(str, required)} != properties.keys():
        yield f"'required' is required to be a list of every key in properties: {', '.join(properties)}"


def _check_texts(node: Mapping[str, Any], _: Any) -> Iterator[str]:
    if "format" in node and node["format"] not in FORMATS:
        yield f"'format' {node['format']!r} is not supported"
    if _LOOKAROUND.search(str(node.get("pattern", ""))):
        yield "'pattern': regex lookaround is not supported"
    if not _is_filled(node.get("enum", [0])):
        yield "'enum' must be a list with at least one value"


def _check_reference(node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" not in node:
        return
    beside = sorted(node.keys() - {"$ref", "$defs"})
    if beside:
        yield f"'$ref' cannot have keywords beside it: {', '.join(beside)}"
    known = {"#"} | {f"#/{place}/{name}" for place in NAMED for name in root.get(place, {})}
    if node["$ref"] not in known:
        yield f"'$ref' {node['$ref']!r} does not resolve"


_CHECKS = (_check_shape, _check_keywords, _check_types, _check_texts, _check_reference)
