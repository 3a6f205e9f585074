"""Messages as JSON-able data, and back: what a state, a file or a database keeps of a conversation."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

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


def check_fields(value: Any) -> None:
    """Check that the fields of a dataclass hold what they say, at any depth; whole numbers are counts, from 0.

    Raises:
        ValueError: One of them does not.
    """
    kinds = get_type_hints(type(value))
    for told in fields(value):
        found = getattr(value, told.name)
        if not _check_of(kinds[told.name])(found):
            raise ValueError(f"{told.name}={found!r:.100} is not of type {told.type}.")


def _check_of(kind: Any) -> _Check:
    """Make what tells whether a value is of a type."""
    if is_dataclass(kind):
        checks = {name: _check_of(inner) for name, inner in get_type_hints(kind).items()}
        return lambda value: type(value) is kind and all(fits(getattr(value, name)) for name, fits in checks.items())
    if made := _CHECKS.get(get_origin(kind)):
        return made(get_args(kind))
    return _SIMPLE.get(kind) or (lambda value: type(value) is kind)


def _any_of(kinds: Sequence[Any]) -> _Check:
    checks = [*map(_check_of, kinds)]
    return lambda value: any(fits(value) for fits in checks)


def _each_of(kinds: Sequence[Any]) -> _Check:
    fits = _check_of(kinds[0])
    return lambda value: type(value) is tuple and all(map(fits, value))


def _by_name(kinds: Sequence[Any]) -> _Check:
    fits = _check_of(kinds[1])
    return lambda value: type(value) is dict and all(map(fits, value.values()))


_Check: TypeAlias = Callable[[Any], bool]
_CHECKS: Mapping[Any, Callable[[Sequence[Any]], _Check]] = {
    Literal: lambda words: lambda value: value in words,
    Union: _any_of,
    UnionType: _any_of,
    tuple: _each_of,
    Mapping: _by_name,
}
_SIMPLE: Mapping[Any, _Check] = {
    Any: lambda _: True,
    int: lambda value: type(value) is int and value >= 0,
    float: lambda value: type(value) in (int, float),
}

_READERS: Mapping[str, Callable[[Any], Any]] = {
    "usage": lambda usage: Usage(**usage),
    "calls": lambda calls: tuple(map(ToolCall.of, calls)),
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
