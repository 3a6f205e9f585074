"""Requests to Responses that OpenAI refuses, and so a strict fake server.

As in `strict_chat`, only the first fault is ever read, so a check relies on those before it. The server stores nothing:
whatever refers to an earlier response is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolkit.testing.strict_chat import (
    NAME_RULE,
    Fault,
    check_choice,
    check_strict_schema,
    check_tool_list,
    is_filled,
    is_name,
    is_object_text,
)

_ROLES = ("user", "assistant", "system", "developer")
_PARTS = {"assistant": ("output_text", "refusal")}
_OTHERS_PARTS = ("input_text", "input_image", "input_file")
# Keys of Chat Completions that Responses do not know.
_FOREIGN = ("messages", "response_format", "functions", "max_tokens", "max_completion_tokens", "n", "stop", "seed")
_ANSWERS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
_NOT_STORED = "Items are not persisted when `store` is set to false"


def find_faults(body: Any) -> Iterator[Fault]:
    """Find the faults of a request for a response."""
    if not isinstance(body, dict):
        yield Fault(param="body", message="must be a JSON object")
    if not is_filled(body.get("model")):
        yield Fault(param="model", message="you must provide a model")
    yield from (Fault(param=key, message="unknown parameter") for key in _FOREIGN if key in body)
    if "stream_options" in body and set(body["stream_options"]) - {"include_obfuscation"}:
        yield Fault(param="stream_options", message="unknown parameter")
    for key in ("previous_response_id", "conversation"):
        if body.get(key) is not None:
            yield Fault(param=key, message="not found")
    yield from _check_input(body)
    yield from _check_tools(body)
    yield from _check_format(body)


def _check_input(body: dict[str, Any]) -> Iterator[Fault]:
    given: Any = body.get("input")
    if is_filled(given):
        return
    if not isinstance(given, list) or not given:
        yield Fault(param="input", message="must be text, or a list with at least one item")
    for index, item in enumerate(given):
        yield from _check_item(f"input[{index}]", item, is_stored=body.get("store") is not False)
    yield from _check_pairing(given)
    yield from _check_reasoning_order(given)
    yield from _check_namespaces(given, body.get("tools") or [])


def _check_item(at: str, item: Any, *, is_stored: bool) -> Iterator[Fault]:
    if not isinstance(item, dict):
        yield Fault(param=at, message="must be an object")
    kind = item.get("type", "message")
    if not isinstance(kind, str):
        yield Fault(param=f"{at}.type", message="must be text")
    if kind in _ITEMS:
        yield from _ITEMS[kind](at, item)
    if kind == "reasoning" and not is_stored and not (item.get("encrypted_content") or item.get("content")):
        yield Fault(param=at, message=f"Item with id {item['id']!r} not found. {_NOT_STORED}")


def _check_message(at: str, item: dict[str, Any]) -> Iterator[Fault]:
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES:
        yield Fault(param=f"{at}.role", message=f"must be one of {', '.join(_ROLES)}")
    yield from _check_content(f"{at}.content", content, _PARTS.get(str(role), _OTHERS_PARTS))


def _check_content(at: str, content: Any, kinds: tuple[str, ...]) -> Iterator[Fault]:
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        yield Fault(param=at, message="must be text, or a list with at least one part")
    for index, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") not in kinds:
            yield Fault(param=f"{at}[{index}].type", message=f"must be one of {', '.join(kinds)}")


def _check_call(at: str, item: dict[str, Any]) -> Iterator[Fault]:
    if not is_filled(item.get("call_id")):
        yield Fault(param=f"{at}.call_id", message="must be non-empty text")
    if not is_name(item.get("name")):
        yield Fault(param=f"{at}.name", message=NAME_RULE)
    if not is_object_text(item.get("arguments")):
        yield Fault(param=f"{at}.arguments", message="must be text that holds one JSON object")


def _check_output(at: str, item: dict[str, Any]) -> Iterator[Fault]:
    if not is_filled(item.get("call_id")):
        yield Fault(param=f"{at}.call_id", message="must be non-empty text")
    yield from _check_content(f"{at}.output", item.get("output"), _OTHERS_PARTS)


def _check_reasoning(at: str, item: dict[str, Any]) -> Iterator[Fault]:
    if not is_filled(item.get("id")):
        yield Fault(param=f"{at}.id", message="must be non-empty text")
    if not isinstance(item.get("summary"), list):
        yield Fault(param=f"{at}.summary", message="must be a list")


_ITEMS: Mapping[str, Callable[[str, dict[str, Any]], Iterator[Fault]]] = {
    "message": _check_message,
    "function_call": _check_call,
    "function_call_output": _check_output,
    "custom_tool_call_output": _check_output,
    "reasoning": _check_reasoning,
}


def _check_pairing(given: list[dict[str, Any]]) -> Iterator[Fault]:
    """Find calls without their answer, answers without a call or out of order, and ids used twice."""
    open_calls: list[tuple[str, str]] = []
    known: set[str] = set()
    for index, item in enumerate(given):
        at, kind = f"input[{index}]", item.get("type", "message")
        if kind in _ANSWERS.values():
            if item["call_id"] in known:
                yield Fault(param=f"{at}.call_id", message=f"{item['call_id']!r} is already in this conversation")
            known.add(item["call_id"])
            open_calls.append((kind, item["call_id"]))
        elif kind in _ANSWERS:
            yield from _check_answer(at, (_ANSWERS[kind], item["call_id"]), open_calls)
            open_calls = open_calls[1:]
        elif kind == "message" and item.get("role") != "assistant":
            yield from _find_unanswered(at, open_calls)
    yield from _find_unanswered("input", open_calls)


def _check_answer(at: str, answered: tuple[str, str], open_calls: list[tuple[str, str]]) -> Iterator[Fault]:
    if not open_calls:
        yield Fault(param=at, message=f"No tool call found for function call output with call_id {answered[1]}.")
    elif answered != open_calls[0]:
        yield Fault(param=at, message=f"{answered} stands where {open_calls[0]} must be answered")


def _find_unanswered(at: str, open_calls: list[tuple[str, str]]) -> Iterator[Fault]:
    yield from (Fault(param=at, message=f"No tool output found for function call {one}.") for _, one in open_calls)


def _check_reasoning_order(given: list[dict[str, Any]]) -> Iterator[Fault]:
    """Find reasoning after which nothing of the model follows."""
    for index, item in enumerate(given):
        if item.get("type") != "reasoning":
            continue
        after = given[index + 1] if index + 1 < len(given) else {"role": "user"}
        kind = after.get("type", "message")
        if kind in _ANSWERS or (kind == "message" and after.get("role", "assistant") != "assistant"):
            text = f"Item {item['id']!r} of type 'reasoning' was provided without its required following item."
            yield Fault(param=f"input[{index}]", message=text)


def _check_namespaces(given: list[dict[str, Any]], tools: list[Any]) -> Iterator[Fault]:
    """Find calls of namespaced tools that do not name the namespace."""
    grouped = {
        function.get("name"): tool.get("name")
        for tool in tools
        if isinstance(tool, dict) and tool.get("type") == "namespace"
        for function in tool.get("tools") or ()
    }
    for index, item in enumerate(given):
        if item.get("type") == "function_call" and grouped.get(item["name"], item.get("namespace")) != item.get(
            "namespace"
        ):
            text = f"Missing namespace for function_call {item['name']!r}."
            yield Fault(param=f"input[{index}].namespace", message=text)


def _check_tools(body: dict[str, Any]) -> Iterator[Fault]:
    yield from check_tool_list(body, _check_tool)
    tools = body.get("tools", [])
    functions = [function for tool in tools for function in tool.get("tools", [tool])]
    if any(f.get("defer_loading") for f in functions) and not any(t["type"] == "tool_search" for t in tools):
        yield Fault(param="tools", message="tools with 'defer_loading' need the tool 'tool_search'")
    if "tool_choice" in body:
        names = {tool.get("name") for tool in tools if tool["type"] == "function"}
        yield from check_choice(body["tool_choice"], names)


def _check_tool(at: str, tool: Any) -> Iterator[Fault]:
    if not isinstance(tool, dict) or not is_filled(tool.get("type")):
        yield Fault(param=f"{at}.type", message="must be non-empty text")
    if tool["type"] == "namespace":
        yield from _check_namespace(at, tool)
    if tool["type"] == "function":
        yield from _check_function(at, tool)


def _check_namespace(at: str, tool: dict[str, Any]) -> Iterator[Fault]:
    if not is_name(tool.get("name")):
        yield Fault(param=f"{at}.name", message=NAME_RULE)
    if not is_filled(tool.get("description")):
        yield Fault(param=f"{at}.description", message="must be non-empty text")
    if not isinstance(tool.get("tools"), list) or not tool["tools"]:
        yield Fault(param=f"{at}.tools", message="must be a list with at least one tool")
    for index, inner in enumerate(tool["tools"]):
        yield from _check_function(f"{at}.tools[{index}]", inner)


def _check_function(at: str, tool: Any) -> Iterator[Fault]:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        yield Fault(param=f"{at}.type", message="must be 'function'")
    if not is_name(tool.get("name")):
        yield Fault(param=f"{at}.name", message=NAME_RULE)
    parameters = tool.get("parameters")
    if not isinstance(parameters, dict) or parameters.get("type") != "object" or "properties" not in parameters:
        yield Fault(param=f"{at}.parameters", message="must have type 'object' and 'properties'")
    yield from check_strict_schema(at, tool.get("strict"), "parameters", parameters)


def _check_format(body: dict[str, Any]) -> Iterator[Fault]:
    text = body.get("text", {})
    asked: Any = text.get("format", {"type": "text"}) if isinstance(text, dict) else None
    if not isinstance(asked, dict) or asked.get("type") not in ("text", "json_object", "json_schema"):
        yield Fault(param="text.format.type", message="must be 'text', 'json_object' or 'json_schema'")
    if asked["type"] != "json_schema":
        return
    if not is_name(asked.get("name")):
        yield Fault(param="text.format.name", message=NAME_RULE)
    if not isinstance(asked.get("schema"), dict):
        yield Fault(param="text.format.schema", message="must be an object")
    yield from check_strict_schema("text.format", asked.get("strict"), "schema", asked["schema"])
