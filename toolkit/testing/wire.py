"""How a fake server's answer is written, as JSON or as SSE."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

CallSpec: TypeAlias = tuple[str, Mapping[str, Any] | str] | tuple[str, Mapping[str, Any] | str, str | None]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What an answer must know of its request to be written."""

    number: int  # counts from 1
    model: str
    stream: bool
    include_usage: bool
    new_id: Callable[[], str]
    api: str = "chat"  # or "responses"

    def envelope(self, kind: str) -> dict[str, Any]:
        """Begin a completion or a chunk."""
        return {"id": f"chatcmpl-{self.number}", "object": kind, "created": 0, "model": self.model}


@dataclass(frozen=True, kw_only=True)
class Payload:
    """A body: bytes go out under a Content-Length, an iterable of bytes as one HTTP chunk each."""

    content: bytes | Iterable[bytes]
    content_type: str = "application/json"

    @property
    def pieces(self) -> Iterable[bytes]:
        """The body in the pieces that it is sent in."""
        return [self.content] if isinstance(self.content, bytes) else self.content

    def framed(self, piece: bytes) -> bytes:
        """Write a piece as it goes over the wire; an empty one is the end of the body."""
        return piece if isinstance(self.content, bytes) else b"%x\r\n%b\r\n" % (len(piece), piece)

    def shortened(self, size: int) -> Payload:
        """Return the body's first bytes as a body of its own."""
        if isinstance(self.content, bytes):
            return replace(self, content=self.content[:size])
        return replace(self, content=first_bytes(self.content, size))


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What the model says, before it is known whether as JSON or as SSE."""

    text: str | None
    calls: tuple[CallSpec, ...]
    finish_reason: str | None
    usage: tuple[int, int] | None  # prompt and completion tokens
    split: int  # characters per SSE delta
    items: tuple[Mapping[str, Any], ...] = ()  # instead of text and calls, in Responses

    def render(self, ask: Ask) -> Payload:
        """Write it the way the request asks for."""
        calls = [_written(ask, call) for call in self.calls]
        return events(ask, self._chunks(ask, calls)) if ask.stream else self._whole(ask, calls)

    def _whole(self, ask: Ask, calls: list[dict[str, Any]]) -> Payload:
        message = {"role": "assistant", "content": self.text, **({"tool_calls": calls} if calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        completion = {**ask.envelope("chat.completion"), "choices": [choice], "usage": self.tokens()}
        return Payload(content=json_bytes(completion))

    def _chunks(self, ask: Ask, calls: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        usage = {"usage": None} if ask.include_usage else {}
        for delta in self._deltas(calls):
            yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}], **usage}
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": self.finish_reason}], **usage}
        if ask.include_usage:
            yield {"choices": [], "usage": self.tokens()}

    def _deltas(self, calls: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": None if self.text is None else ""}
        yield from ({"content": piece} for piece in pieces_of(self.text or "", self.split))
        for index, call in enumerate(calls):
            function = call["function"]
            yield {"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]}
            for piece in pieces_of(function["arguments"], self.split):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def tokens(self, prompt: str = "prompt_tokens", completion: str = "completion_tokens") -> dict[str, int] | None:
        """Write the usage, under the names that the API has for it."""
        if self.usage is None:
            return None
        return {prompt: self.usage[0], completion: self.usage[1], "total_tokens": sum(self.usage)}


def call_of(ask: Ask, call: CallSpec) -> tuple[str | None, str, str]:
    """Find id, name and arguments of a call."""
    name, arguments = call[0], call[1]
    call_id = call[2] if len(call) == 3 else ask.new_id()
    return call_id, name, arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False)


def _written(ask: Ask, call: CallSpec) -> dict[str, Any]:
    call_id, name, arguments = call_of(ask, call)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def events(ask: Ask, chunks: Iterable[Mapping[str, Any] | bytes], *, done: bool = True) -> Payload:
    """Write chunks as SSE events; bytes stay as they are. Responses have neither envelope nor `[DONE]`."""
    envelope = ask.envelope("chat.completion.chunk") if ask.api == "chat" else {}
    written = (chunk if isinstance(chunk, bytes) else _event({**envelope, **chunk}) for chunk in chunks)
    last = [b"data: [DONE]\n\n"] if done and ask.api == "chat" else []
    return Payload(content=itertools.chain(written, last), content_type="text/event-stream")


def first_bytes(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Pass on the first bytes, in the pieces they came in."""
    for piece in pieces:
        if size <= 0:
            return
        yield piece[:size]
        size -= len(piece)


def json_bytes(value: Any) -> bytes:
    """Write one JSON value in ASCII; NaN and lone surrogates pass, for a model may send them."""
    return json.dumps(value).encode()


def _event(chunk: Mapping[str, Any]) -> bytes:
    name = b"event: " + str(chunk["type"]).encode("ascii", "replace") + b"\n" if "type" in chunk else b""
    return name + b"data: " + json_bytes(chunk) + b"\n\n"


def pieces_of(text: str, size: int) -> Iterator[str]:
    """Part a text into pieces of so many characters."""
    return (text[start : start + size] for start in range(0, len(text), size))
