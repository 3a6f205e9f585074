"""Requests to Responses that OpenAI refuses, and so a strict fake server.

As in `strict_chat`, a check raises the first fault, and may rely on those before it. The server stores nothing:
whatever refers to an earlier response is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.strict_chat import (
    check_choice,
    check_format,
    check_function,
    check_strict_schema,
    check_tool_list,
    is_filled,
    require,
    require_name,
    require_object_text,
)

_ROLES = ("user", "assistant", "system", "developer")
_PARTS = {"assistant": ("output_text", "refusal")}
_OTHERS_PARTS = ("input_text", "input_image", "input_file")
# Keys of Chat Completions that Responses do not know.
_FOREIGN = ("messages", "response_format", "functions", "max_tokens", "max_completion_tokens", "n", "stop", "seed")
_ANSWERS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
_NOT_STORED = "Items are not persisted when `store` is set to false"


def check_request(body: dict[str, Any]) -> None:
    """Check a request for a response."""
    for key in _FOREIGN:
        require(key not in body, key, "unknown parameter")
    require(not {*body.get("stream_options", ())} - {"include_obfuscation"}, "stream_options", "unknown parameter")
    for key in ("previous_response_id", "conversation"):
        require(body.get(key) is None, key, "not found")
    if not is_filled(body.get("input")):
        _check_input(body.get("input"), body)
    _check_tools(body)
    _check_text(body.get("text", {}))


def _check_input(given: Any, body: dict[str, Any]) -> None:
    require(isinstance(given, list) and given, "input", "must be text, or a list with at least one item")
    for index, item in enumerate(given):
        _check_item(f"input[{index}]", item, is_stored=body.get("store") is not False)
    _check_pairing(given)
    _check_reasoning_order(given)
    _check_namespaces(given, body.get("tools") or [])


def _check_item(at: str, item: Any, *, is_stored: bool) -> None:
    require(isinstance(item, dict), at, "must be an object")
    kind = item.get("type", "message")
    require(isinstance(kind, str), f"{at}.type", "must be text")
    if kind in _ITEMS:
        _ITEMS[kind](at, item)
    if kind == "reasoning" and not is_stored:
        is_whole = item.get("encrypted_content") or item.get("content")
        require(is_whole, at, f"Item with id {item['id']!r} not found. {_NOT_STORED}")


def _check_message(at: str, item: dict[str, Any]) -> None:
    role = item.get("role")
    require(role in _ROLES, f"{at}.role", f"must be one of {', '.join(_ROLES)}")
    _check_content(f"{at}.content", item.get("content"), _PARTS.get(str(role), _OTHERS_PARTS))


def _check_content(at: str, content: Any, kinds: tuple[str, ...]) -> None:
    if isinstance(content, str):
        return
    require(isinstance(content, list) and content, at, "must be text, or a list with at least one part")
    for index, part in enumerate(content):
        is_known = isinstance(part, dict) and part.get("type") in kinds
        require(is_known, f"{at}[{index}].type", f"must be one of {', '.join(kinds)}")


def _require_filled(at: str, item: Any, *keys: str) -> None:
    for key in keys:
        require(is_filled(item.get(key)), f"{at}.{key}", "must be non-empty text")


def _check_call(at: str, item: dict[str, Any]) -> None:
    _require_filled(at, item, "call_id")
    require_name(f"{at}.name", item.get("name"))
    require_object_text(f"{at}.arguments", item.get("arguments"))


def _check_output(at: str, item: dict[str, Any]) -> None:
    _require_filled(at, item, "call_id")
    _check_content(f"{at}.output", item.get("output"), _OTHERS_PARTS)


def _check_reasoning(at: str, item: dict[str, Any]) -> None:
    _require_filled(at, item, "id")
    require(isinstance(item.get("summary"), list), f"{at}.summary", "must be a list")


_ITEMS: Mapping[str, Callable[[str, dict[str, Any]], None]] = {
    "message": _check_message,
    "function_call": _check_call,
    "function_call_output": _check_output,
    "custom_tool_call_output": _check_output,
    "reasoning": _check_reasoning,
}


def _check_pairing(given: list[dict[str, Any]]) -> None:
    """Refuse calls without their answer, answers without a call or out of order, and ids used twice."""
    open_calls: list[tuple[str, str]] = []
    known: set[str] = set()
    for index, item in enumerate(given):
        at, kind = f"input[{index}]", item.get("type", "message")
        if kind in _ANSWERS.values():
            text = f"{item['call_id']!r} is already in this conversation"
            require(item["call_id"] not in known, f"{at}.call_id", text)
            known.add(item["call_id"])
            open_calls.append((kind, item["call_id"]))
        elif kind in _ANSWERS:
            text = f"No tool call found for function call output with call_id {item['call_id']}."
            require(open_calls, at, text)
            expected, answered = open_calls.pop(0), (_ANSWERS[kind], item["call_id"])
            require(answered == expected, at, f"{answered} stands where {expected} must be answered")
        elif kind == "message" and item.get("role") != "assistant":
            _require_answered(at, open_calls)
    _require_answered("input", open_calls)


def _require_answered(at: str, open_calls: list[tuple[str, str]]) -> None:
    require(not open_calls, at, f"No tool output found for function call {open_calls and open_calls[0][1]}.")


def _check_reasoning_order(given: list[dict[str, Any]]) -> None:
    """Refuse reasoning after which nothing of the model follows."""
    for index, (item, after) in enumerate(zip(given, [*given[1:], {"role": "user"}])):
        kind = after.get("type", "message")
        is_others = kind in _ANSWERS or (kind == "message" and after.get("role", "assistant") != "assistant")
        text = f"Item {item.get('id')!r} of type 'reasoning' was provided without its required following item."
        require(item.get("type") != "reasoning" or not is_others, f"input[{index}]", text)


def _check_namespaces(given: list[dict[str, Any]], tools: list[Any]) -> None:
    """Refuse calls of namespaced tools that do not name the namespace."""
    grouped = {
        function.get("name"): tool.get("name")
        for tool in tools
        if isinstance(tool, dict) and tool.get("type") == "namespace"
        for function in tool.get("tools") or ()
    }
    for index, item in enumerate(given):
        if item.get("type") == "function_call":
            is_named = grouped.get(item["name"], item.get("namespace")) == item.get("namespace")
            text = f"Missing namespace for function_call {item['name']!r}."
            require(is_named, f"input[{index}].namespace", text)


def _check_tools(body: dict[str, Any]) -> None:
    check_tool_list(body, _check_tool)
    tools = body.get("tools", [])
    is_deferred = any(each.get("defer_loading") for tool in tools for each in tool.get("tools", [tool]))
    has_search = any(tool["type"] == "tool_search" for tool in tools)
    require(has_search or not is_deferred, "tools", "tools with 'defer_loading' need the tool 'tool_search'")
    if "tool_choice" in body:
        check_choice(body["tool_choice"], {tool.get("name") for tool in tools if tool["type"] == "function"})


def _check_tool(at: str, tool: Any) -> None:
    require(isinstance(tool, dict) and is_filled(tool.get("type")), f"{at}.type", "must be non-empty text")
    if tool["type"] == "function":
        check_function(at, tool)
    if tool["type"] == "namespace":
        require_name(f"{at}.name", tool.get("name"))
        _require_filled(at, tool, "description")
        inner = tool.get("tools")
        require(isinstance(inner, list) and inner, f"{at}.tools", "must be a list with at least one tool")
        for index, each in enumerate(tool["tools"]):
            is_function = isinstance(each, dict) and each.get("type") == "function"
            require(is_function, f"{at}.tools[{index}].type", "must be 'function'")
            check_function(f"{at}.tools[{index}]", each)


def _check_text(text: Any) -> None:
    asked: Any = text.get("format", {"type": "text"}) if isinstance(text, dict) else None
    if check_format("text.format", asked):
        require_name("text.format.name", asked.get("name"))
        require(isinstance(asked.get("schema"), dict), "text.format.schema", "must be an object")
        check_strict_schema("text.format", asked.get("strict"), "schema", asked["schema"])
