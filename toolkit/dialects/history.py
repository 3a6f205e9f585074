"""A history in OpenAI's form -> our messages.

Older forms are read, too: `function_call`, and messages of the role `function`. A call of a custom tool becomes one
whose argument is its `input`. Ids that are missing stay empty: whoever repairs the history gives others.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from toolkit._messages import File, Image, Message, ModelResponse, SystemMessage, ToolCall, ToolMessage, UserMessage
from toolkit._schema.json_text import as_text

_Part: TypeAlias = str | Image | File
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
            names.update((call.provider_call_id, call.name) for call in known.calls if call.provider_call_id)
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
    if role not in tuple(_READERS):
        raise ValueError(f"A message's role is one of {', '.join(_READERS)}; this one has {role!r}.")
    try:
        return _READERS[role](message, [content] if isinstance(content, str) else list(map(_part, content or ())))
    except (TypeError, AttributeError) as error:
        raise ValueError(f"This is not a message in OpenAI's form: {str(message)[:200]}") from error


def _system(_: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    return SystemMessage(_only_text(parts))


def _user(_: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    return UserMessage(_text(parts), *_attached(parts))


def _text(parts: Sequence[_Part]) -> str:
    return "".join(part for part in parts if isinstance(part, str))


def _only_text(parts: Sequence[_Part]) -> str:
    if any(_attached(parts)):
        raise ValueError("Pictures and files stand in messages of the user alone; put them into one.")
    return _text(parts)


def _attached(parts: Sequence[_Part]) -> tuple[tuple[Image, ...], tuple[File, ...]]:
    images = tuple(part for part in parts if isinstance(part, Image))
    return images, tuple(part for part in parts if isinstance(part, File))


def _part(part: Mapping[str, Any]) -> _Part:
    """Read a part of a message: a text, or a refusal, which is what a model says instead; or a picture, or a file."""
    said = part.get("text", part.get("refusal"))
    return said if isinstance(said, str) else _file(part)


def _file(part: Mapping[str, Any]) -> Image | File:
    file, image = part.get("file") or {}, part.get("image_url") or {}
    head, comma, data = (file.get("file_data") or image.get("url") or "").partition(";base64,")
    if not comma:
        told = "A message holds text, and pictures and files as data URLs"
        raise ValueError(f"{told}; this is neither: {str(part)[:100]}")
    content, media_type = base64.b64decode(data), head.removeprefix("data:")
    return File(content, media_type, file.get("filename") or "file") if file else Image(content, media_type)


def _assistant(message: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    text = "\n".join(filter(None, (_only_text(parts) or _transcript(message), message.get("refusal"))))
    older = message.get("function_call")
    calls = [*(message.get("tool_calls") or ()), *([{"function": older}] if older else ())]
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return ModelResponse(text=text, calls=tuple(map(_call, calls)), reasoning=reasoning)


def _transcript(message: Mapping[str, Any]) -> str:
    audio = message.get("audio") or {}
    transcript = audio.get("transcript", "")
    if audio and not transcript:
        raise ValueError(f"Of an answer in audio its transcript is kept; this one has none: {str(audio)[:100]}")
    return str(transcript)


def _call(call: Mapping[str, Any]) -> ToolCall:
    function, custom = call.get("function") or {}, call.get("custom") or {}
    name = function.get("name") or custom.get("name")
    if not isinstance(name, str):
        raise ValueError(  # noqa: TRY004  it is a message with something missing
            f"A tool call needs a function with a name; this is {call!r}."
        )
    arguments = {"input": custom.get("input")} if custom else function.get("arguments")
    own = _id(call.get("id"))
    return ToolCall(id=own, provider_call_id=own, name=name, arguments=as_text(arguments))


def _tool(message: Mapping[str, Any], parts: Sequence[_Part]) -> Message:
    own, name = _id(message.get("tool_call_id")), message.get("name") or ""
    return ToolMessage(call_id=own, provider_call_id=own, name=name, text=_only_text(parts))


def _id(value: Any) -> str:
    return "" if value is None else str(value)


_READERS: Mapping[Any, Callable[[Mapping[str, Any], Sequence[_Part]], Message]] = {
    "system": _system,
    "developer": _system,
    "user": _user,
    "assistant": _assistant,
    "tool": _tool,
    "function": _tool,
}
