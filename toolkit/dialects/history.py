"""A history in OpenAI's form -> our messages."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolkit.jsontext import as_text
from toolkit.messages import Image, Message, ModelResponse, SystemMessage, ToolCall, ToolMessage, UserMessage

_OURS = (SystemMessage, UserMessage, ModelResponse, ToolMessage)


def decoded(messages: Iterable[Message | Mapping[str, Any]]) -> list[Message]:
    """Read a history in wire form; messages that are ours already stay as they are.

    Raises:
        ValueError: A message has no role, or one that is not known; or it lacks what messages of its role have.
        TypeError: Something is no message at all.
    """
    read: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        known = message if isinstance(message, _OURS) else _decoded(_as_mapping(message))
        if isinstance(known, ModelResponse):
            names.update((call.provider_call_id, call.name) for call in known.calls)
        read.append(_named(known, names))
    return read


def _named(message: Message, names: Mapping[str, str]) -> Message:
    if isinstance(message, ToolMessage) and not message.name:
        return replace(message, name=names.get(message.provider_call_id, ""))
    return message


def _as_mapping(message: Any) -> Mapping[str, Any]:
    if hasattr(message, "model_dump"):  # an answer of the openai package, put into the history as it is
        message = message.model_dump()
    if not isinstance(message, Mapping):
        raise TypeError(f"{message!r} is not a message: it takes those of another result, or dicts in OpenAI's form.")
    return message


def _decoded(message: Mapping[str, Any]) -> Message:
    role, content = message.get("role"), message.get("content")
    if role not in _READERS:
        raise ValueError(f"A message's role is one of {', '.join(_READERS)}; this one has {role!r}.")
    text = content if isinstance(content, str) else "".join(part.get("text") or "" for part in content or ())
    return _READERS[role](message, text)


def _system(_: Mapping[str, Any], text: str) -> Message:
    return SystemMessage(text)


def _user(message: Mapping[str, Any], text: str) -> Message:
    content = message.get("content")
    parts = () if isinstance(content, str) else content or ()
    return UserMessage(text, tuple(_image(part) for part in parts if not isinstance(part.get("text"), str)))


def _image(part: Mapping[str, Any]) -> Image:
    head, comma, data = (part.get("image_url") or {}).get("url", "").partition(";base64,")
    if not comma:
        raise ValueError(f"A user's message holds text and pictures as data URLs; this is neither: {str(part)[:100]}")
    return Image(base64.b64decode(data), head.removeprefix("data:"))


def _assistant(message: Mapping[str, Any], text: str) -> Message:
    calls = tuple(map(_call, message.get("tool_calls") or ()))
    return ModelResponse(text=text, calls=calls, reasoning=message.get("reasoning_content") or "")


def _call(call: Mapping[str, Any]) -> ToolCall:
    provider_call_id, function = call.get("id"), call.get("function") or {}
    if not isinstance(provider_call_id, str) or "name" not in function:
        raise ValueError(f"A tool call needs an id and a function with a name; this is {call!r}.")
    return ToolCall(
        id=provider_call_id,
        provider_call_id=provider_call_id,
        name=function["name"],
        arguments=as_text(function.get("arguments")),
    )


def _tool(message: Mapping[str, Any], text: str) -> Message:
    provider_call_id = message.get("tool_call_id")
    if isinstance(provider_call_id, str):
        return ToolMessage(call_id=provider_call_id, provider_call_id=provider_call_id, name="", text=text)
    raise ValueError(f"A message of the role 'tool' needs the tool_call_id that it answers; this is {message!r}.")


_READERS: Mapping[Any, Callable[[Mapping[str, Any], str], Message]] = {
    "system": _system,
    "developer": _system,
    "user": _user,
    "assistant": _assistant,
    "tool": _tool,
}
