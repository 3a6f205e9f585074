"""Messages as JSON-able data, and back: what a state, a file or a database keeps of a conversation."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from toolkit.messages import Message, ModelResponse, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage
from toolkit.parts import File, Image

_KINDS: Mapping[str, type[Message]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "model": ModelResponse,
    "tool": ToolMessage,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def message_to_dict(message: Message) -> dict[str, Any]:
    """Write a message as JSON-able data; `message_from_dict` reads it back."""
    return {"kind": _NAMES[type(message)], **{f.name: _plain(getattr(message, f.name)) for f in fields(message)}}


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Read what `message_to_dict` wrote.

    Raises:
        KeyError: There is no such kind of message.
    """
    values = {key: _READERS[key](value) if key in _READERS else value for key, value in data.items() if key != "kind"}
    return _KINDS[data["kind"]](**values)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "usage": lambda usage: Usage(**usage),
    "calls": lambda calls: tuple(ToolCall(**call) for call in calls),
    "images": lambda images: tuple(Image(**_decoded(image)) for image in images),
    "files": lambda files: tuple(File(**_decoded(file)) for file in files),
    "items": tuple,
}


def _decoded(part: Mapping[str, Any]) -> dict[str, Any]:
    return {**part, "data": base64.b64decode(part["data"])}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, (ToolCall, Usage, Image, File)):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
