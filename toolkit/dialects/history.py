"""A history in OpenAI's form -> our messages."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolkit.jsontext import as_text
from toolkit.messages import Message, ModelResponse, SystemMessage, ToolCall, ToolMessage, UserMessage
from toolkit.parts import File, Image

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
    read = [_attached(part) for part in parts if not isinstance(part.get("text"), str)]
    images = tuple(one for one in read if isinstance(one, Image))
    return UserMessage(text, images, tuple(one for one in read if isinstance(one, File)))


def _attached(part: Mapping[str, Any]) -> Image | File:
    file, image = part.get("file") or {}, part.get("image_url") or {}
    head, comma, data = (file.get("file_data") or image.get("url") or "").partition(";base64,")
    if not comma:
        told = "A user's message holds text, and pictures and files as data URLs"
        raise ValueError(f"{told}; this is neither: {str(part)[:100]}")
    content, media_type = base64.b64decode(data), head.removeprefix("data:")
    return File(content, media_type, file.get("filename") or "file") if file else Image(content, media_type)


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
