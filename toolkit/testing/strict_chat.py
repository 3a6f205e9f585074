"""Requests to Chat Completions that OpenAI refuses, and so a strict fake server.

Each check is a generator of faults and only the first fault is ever read, so a check relies on those before it
(`_check_pairing` gets messages that `_check_messages` has found well formed). Keep that order when you add one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from toolkit.testing.strict_schemas import find_schema_faults

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
