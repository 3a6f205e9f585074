"""Write a fake server's reply in the wire form of Chat Completions or Responses, as JSON or as server-sent events."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

CallSpec: TypeAlias = tuple[str, Mapping[str, Any] | str] | tuple[str, Mapping[str, Any] | str, str | None]
Event: TypeAlias = dict[str, Any]

# Finish reason -> the reason why a response is incomplete.
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
# Members of an item that are empty when a stream adds it.
_EMPTY: Mapping[str, Mapping[str, Any]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "reasoning": {"summary": []},
}


@dataclass(frozen=True, kw_only=True)
class ReplyContext:
    """The parts of a request that its reply depends on."""

    number: int  # counts from 1
    model: str
    stream: bool
    include_usage: bool
    new_id: Callable[[], str]
    api: str = "chat"  # or "responses"

    def envelope(self, kind: str) -> dict[str, Any]:
        """Return the members that every completion and every chunk has."""
        return {"id": f"chatcmpl-{self.number}", "object": kind, "created": 0, "model": self.model}


@dataclass(frozen=True, kw_only=True)
class Payload:
    """A body: bytes are sent with a Content-Length, an iterable of bytes as one HTTP chunk for each item."""

    content: bytes | Iterable[bytes]
    content_type: str = "application/json"

    @property
    def pieces(self) -> Iterable[bytes]:
        """The pieces of the body."""
        return [self.content] if isinstance(self.content, bytes) else self.content

    def frame(self, piece: bytes) -> bytes:
        """Add the HTTP framing to a piece. An empty piece ends the body."""
        return piece if isinstance(self.content, bytes) else b"%x\r\n%b\r\n" % (len(piece), piece)

    def truncate(self, size: int) -> Payload:
        """Return a payload with the body's first `size` bytes."""
        if isinstance(self.content, bytes):
            return replace(self, content=self.content[:size])
        return replace(self, content=take_bytes(self.content, size))


@dataclass(frozen=True, kw_only=True)
class Completion:
    """The content of an answer, independent of API and streaming."""

    text: str | None
    calls: tuple[CallSpec, ...]
    finish_reason: str | None
    usage: tuple[int, int] | None  # prompt and completion tokens
    split: int  # characters per SSE delta
    items: tuple[Mapping[str, Any], ...] = ()  # instead of text and calls, in Responses

    def render(self, context: ReplyContext) -> Payload:
        """Write the completion for the API of the request, as a stream if the request asks for one."""
        render = _render_response if context.api == "responses" else _render_completion
        return render(self, context)

    def tokens(self, prompt: str, completion: str) -> dict[str, int] | None:
        """Write the usage, with the API's names for prompt and completion tokens."""
        if self.usage is None:
            return None
        return {prompt: self.usage[0], completion: self.usage[1], "total_tokens": sum(self.usage)}


def render_events(context: ReplyContext, chunks: Iterable[Mapping[str, Any] | bytes], *, done: bool = True) -> Payload:
    """Write chunks as SSE events. Bytes stay as they are. Responses have neither envelope nor `[DONE]`."""
    envelope = context.envelope("chat.completion.chunk") if context.api == "chat" else {}
    events = (chunk if isinstance(chunk, bytes) else _render_event({**envelope, **chunk}) for chunk in chunks)
    last = [b"data: [DONE]\n\n"] if done and context.api == "chat" else []
    return Payload(content=itertools.chain(events, last), content_type="text/event-stream")


def _render_event(chunk: Mapping[str, Any]) -> bytes:
    name = b"event: " + str(chunk["type"]).encode("ascii", "replace") + b"\n" if "type" in chunk else b""
    return name + b"data: " + encode_json(chunk) + b"\n\n"


def take_bytes(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the pieces up to `size` bytes in all."""
    for piece in pieces:
        if size <= 0:
            return
        yield piece[:size]
        size -= len(piece)


def encode_json(value: Any) -> bytes:
    """Encode a JSON value in ASCII; NaN and lone surrogates are allowed, since a model may send them."""
    return json.dumps(value).encode()


def _split_text(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _split_call(context: ReplyContext, call: CallSpec) -> tuple[str | None, str, str]:
    """Return a call's id, name and arguments as text."""
    name, arguments = call[0], call[1]
    call_id = call[2] if len(call) == 3 else context.new_id()
    return call_id, name, arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False)


def _render_completion(completion: Completion, context: ReplyContext) -> Payload:
    calls: list[dict[str, Any]] = []
    for call in completion.calls:
        call_id, name, arguments = _split_call(context, call)
        calls.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})
    if context.stream:
        return render_events(context, _list_chunks(completion, context, calls))
    message = {"role": "assistant", "content": completion.text, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": completion.finish_reason}
    usage = completion.tokens("prompt_tokens", "completion_tokens")
    body = {**context.envelope("chat.completion"), "choices": [choice], "usage": usage}
    return Payload(content=encode_json(body))


def _list_chunks(completion: Completion, context: ReplyContext, calls: list[dict[str, Any]]) -> Iterator[Event]:
    usage = {"usage": None} if context.include_usage else {}
    for delta in _list_deltas(completion, calls):
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}], **usage}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": completion.finish_reason}], **usage}
    if context.include_usage:
        yield {"choices": [], "usage": completion.tokens("prompt_tokens", "completion_tokens")}


def _list_deltas(completion: Completion, calls: list[dict[str, Any]]) -> Iterator[Event]:
    yield {"role": "assistant", "content": None if completion.text is None else ""}
    yield from ({"content": piece} for piece in _split_text(completion.text or "", completion.split))
    for index, call in enumerate(calls):
        function = call["function"]
        yield {"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]}
        for piece in _split_text(function["arguments"], completion.split):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _render_response(completion: Completion, context: ReplyContext) -> Payload:
    """Write a response. Without a finish reason it has no status, and a stream has no last event."""
    items = [*map(dict, completion.items or _list_items(completion, context))]
    reason = INCOMPLETE.get(completion.finish_reason or "")
    response = {
        "id": f"resp_{context.number}",
        "object": "response",
        "created_at": 0,
        "model": context.model,
        "status": "incomplete" if reason else completion.finish_reason and "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "output": items,
        "usage": completion.tokens("input_tokens", "output_tokens"),
    }
    if not context.stream:
        return Payload(content=encode_json(response))
    return render_events(context, _list_events(items, response, completion.split))


def _list_items(completion: Completion, context: ReplyContext) -> Iterator[dict[str, Any]]:
    if completion.text is not None:
        content = [{"type": "output_text", "text": completion.text, "annotations": []}]
        item = {"type": "message", "id": f"msg_{context.number}", "status": "completed", "role": "assistant"}
        yield {**item, "content": content}
    for number, call in enumerate(completion.calls):
        call_id, name, arguments = _split_call(context, call)
        call_item = {"type": "function_call", "id": f"fc_{context.number}_{number}", "call_id": call_id}
        yield {**call_item, "name": name, "arguments": arguments, "status": "completed"}


def _list_events(items: list[dict[str, Any]], response: dict[str, Any], split: int) -> Iterator[Event]:
    pending = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[Event] = [
        {"type": "response.created", "response": pending},
        {"type": "response.in_progress", "response": pending},
    ]
    for index, item in enumerate(items):
        events += _list_item_events(item, index, split)
    if response["status"]:
        events.append({"type": f"response.{response['status']}", "response": response})
    return ({**event, "sequence_number": number} for number, event in enumerate(events))


def _list_item_events(item: dict[str, Any], index: int, split: int) -> Iterator[Event]:
    kind = item.get("type")
    pending = {**item, **_EMPTY.get(str(kind), {}), **({"status": "in_progress"} if "status" in item else {})}
    place = {"output_index": index}
    yield {"type": "response.output_item.added", **place, "item": pending}
    for event in _PART_EVENTS[kind](item, split) if kind in _PART_EVENTS else ():
        yield {**event, "item_id": item.get("id"), **place}
    yield {"type": "response.output_item.done", **place, "item": item}


def _list_message_events(item: dict[str, Any], split: int) -> Iterator[Event]:
    for number, part in enumerate(item["content"]):
        place = {"content_index": number}
        name, kind = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
        yield {"type": "response.content_part.added", **place, "part": {**part, name: ""}}
        yield from _list_text_events(f"response.{kind}", part[name], split, name, place)
        yield {"type": "response.content_part.done", **place, "part": part}


def _list_call_events(item: dict[str, Any], split: int) -> Iterator[Event]:
    yield from _list_text_events("response.function_call_arguments", str(item["arguments"]), split, "arguments", {})


def _list_reasoning_events(item: dict[str, Any], split: int) -> Iterator[Event]:
    for number, part in enumerate(item.get("summary") or ()):
        place = {"summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
        yield from _list_text_events("response.reasoning_summary_text", part["text"], split, "text", place)
        yield {"type": "response.reasoning_summary_part.done", **place, "part": part}


def _list_text_events(kind: str, text: str, split: int, name: str, place: Mapping[str, Any]) -> Iterator[Event]:
    yield from ({"type": f"{kind}.delta", **place, "delta": piece} for piece in _split_text(text, split))
    yield {"type": f"{kind}.done", **place, name: text}


_PART_EVENTS: Mapping[Any, Callable[[dict[str, Any], int], Iterator[Event]]] = {
    "message": _list_message_events,
    "function_call": _list_call_events,
    "reasoning": _list_reasoning_events,
}
