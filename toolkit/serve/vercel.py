"""The events of a run as the UI message stream of Vercel's AI SDK, version 5 or later, which `useChat` reads.

A call is encoded at the end of its turn: before that, it may be incomplete and has no id. A resumed run encodes a call
that waited for approval again, since a client may not have read the earlier stream; a client that has read it replaces
the call. docs/events.md lists the encoding of each event. Specification:
https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, overload

from typing_extensions import override

from toolkit._dialects.base import data_url
from toolkit._execution.approval import Decision
from toolkit._messages import File, Image, ToolCall, ToolResult, UserMessage, replace_surrogates
from toolkit._runner.prompt import make_user_message
from toolkit.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    SubAgentEvent,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
    event_to_dict,
)
from toolkit.serve.streams import STOPPED, AsyncEncodedStream, EncodedStream, RunEncoder, WireEvent, make_encoded_stream

__all__ = ["HEADERS", "encode_events", "encode_sse", "parse_decisions", "parse_prompt"]

# The headers of a response with the lines of `encode_sse`; the last one is for nginx.
HEADERS: Mapping[str, str] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}
DONE = "data: [DONE]\n\n"
# The SDK's finish reasons, by those of a run; all others become "other".
FINISH_REASONS: Mapping[str, str] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "paused": "tool-calls",
    "error": "error",
}


@overload
def encode_events(stream: AsyncIterable[Event], *, message_id: str = "") -> AsyncEncodedStream[WireEvent]: ...
@overload
def encode_events(stream: Iterable[Event], *, message_id: str = "") -> EncodedStream[WireEvent]: ...
def encode_events(stream: Any, *, message_id: str = "") -> Any:
    """Encode the events of a run as parts of the stream, JSON-able dicts. Return an async iterator for an async stream.

    A run that fails ends with `error` and raises nothing. Its exception is logged. Closing the iterator ends the run.

    Args:
        stream: The stream from `Runner.stream` or `Runner.astream`.
        message_id: Id of the message at the client; the run's id by default, which a resumed run keeps.

    Examples:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> stream = Runner(model=ScriptedModel(["Hello."])).stream("Hi!")
        >>> [part["delta"] for part in encode_events(stream) if part["type"] == "text-delta"]
        ['Hello.']
    """
    return make_encoded_stream(stream, VercelEncoder(message_id=message_id))


@overload
def encode_sse(stream: AsyncIterable[Event], *, message_id: str = "") -> AsyncEncodedStream[str]: ...
@overload
def encode_sse(stream: Iterable[Event], *, message_id: str = "") -> EncodedStream[str]: ...
def encode_sse(stream: Any, *, message_id: str = "") -> Any:
    """Encode the events of a run as server-sent events: the body of a response with HEADERS.

    Args:
        stream: As for `encode_events`.
        message_id: As for `encode_events`.
    """
    return make_encoded_stream(stream, VercelEncoder(message_id=message_id), _encode_part, [DONE])


def parse_prompt(messages: Sequence[Mapping[str, Any]]) -> UserMessage:
    """Parse the last of a client's `messages` into a prompt: its texts, and its files.

    A client could have changed the messages before it. Keep the conversation in a Session of your own.

    Raises:
        ValueError: The last message is not from the user, has neither text nor file, or a file is no valid data: URL.

    Examples:
        >>> parse_prompt([{"role": "user", "parts": [{"type": "text", "text": "Hi!"}]}]).text
        'Hi!'
    """
    last = _get_last(messages)
    if last.get("role") != "user":
        raise ValueError(f"The last message is not from the user: {last!r:.200}.")

    parts = [part for part in _list_parts(last) if part.get("type") in ("text", "file")]
    if not parts:
        raise ValueError(f"The last message has no text or file in 'parts' (AI SDK 5 or later): {last!r:.200}.")
    return make_user_message([*map(_parse_part, parts)])


def parse_decisions(messages: Sequence[Mapping[str, Any]]) -> dict[str, Decision]:
    """Parse the answers to approval requests in a client's last message, by call id, as `Runner.run` takes them.

    Only a literal `true` approves. The dict is empty for a message without answers.

    Raises:
        ValueError: There is no message, or the last one is not an object.

    Examples:
        >>> approval = {"id": "ab12cd34_0", "approved": True}
        >>> part = {"type": "tool-pay", "state": "approval-responded", "approval": approval}
        >>> parse_decisions([{"role": "assistant", "parts": [part]}]) == {"ab12cd34_0": Decision.approve()}
        True
    """
    decisions: dict[str, Decision] = {}
    for part in _list_parts(_get_last(messages)):
        approval = part.get("approval")
        if part.get("state") != "approval-responded" or not isinstance(approval, Mapping):
            continue
        reason = approval.get("reason")
        decisions[str(approval.get("id"))] = (
            Decision.approve()
            if approval.get("approved") is True
            else Decision.reject(reason if isinstance(reason, str) else "")
        )

    return decisions


def _get_last(messages: object) -> Mapping[str, Any]:
    last = messages[-1] if isinstance(messages, Sequence) and messages else None
    if not isinstance(last, Mapping):
        raise ValueError(f"messages must be a list of messages, not {messages!r:.200}.")  # noqa: TRY004  it comes from a client
    return last


def _list_parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    parts = message.get("parts")
    if not isinstance(parts, Sequence):
        return []
    return [part for part in parts if isinstance(part, Mapping)]


def _parse_part(part: Mapping[str, Any]) -> str | Image | File:
    if part["type"] == "text":
        return str(part.get("text", ""))
    head, _, data = str(part.get("url", "")).partition(";base64,")
    if not head.startswith("data:") or not data:
        raise ValueError(f"A file must be sent with its message, as a data: URL, not {part.get('url')!r:.100}.")
    media_type = str(part.get("mediaType") or head.removeprefix("data:"))
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        raise ValueError(f"The file {part.get('filename', '')!r:.100} is not valid base64.") from None
    if media_type.startswith("image/"):
        return Image(content, media_type)
    return File(content, media_type, str(part.get("filename") or "file"))


@dataclass(kw_only=True)
class VercelEncoder(RunEncoder):
    """Encoder of one run."""

    protocol: ClassVar[str] = "the AI SDK"
    message_id: str
    _model: str = ""
    _parts: int = 0  # number of texts and parts of reasoning
    # Ids of calls of sub-agents that have had a turn since the run was resumed.
    _started_agents: set[str] = field(default_factory=set)
    _asked: set[str] = field(default_factory=set)  # ids of calls that the client was asked about

    @override
    def start_run(self, event: RunStarted) -> Iterator[WireEvent]:
        self._model = event.model
        yield {"type": "start", "messageId": self.message_id or event.run_id}

    @override
    def add_text(self, event: TextDelta) -> Iterator[WireEvent]:
        return self._add_delta("text", "reasoning", event.text)

    @override
    def add_reasoning(self, event: ReasoningDelta) -> Iterator[WireEvent]:
        return self._add_delta("reasoning", "text", event.text)

    @override
    def start_call(self, event: ToolCallStarted) -> Iterator[WireEvent]:
        return self._encode_call_once(event.call)

    @override
    def finish_call(self, event: ToolCallFinished) -> Iterator[WireEvent]:
        call, result = event.call, event.result
        if call.id in self._asked and result.kind == "cancelled":  # the SDK takes no output without the client's answer
            return

        yield from self._encode_call_once(call)
        if result.kind == "rejected" and self._turn is None:  # before any turn: the client rejected it
            yield {"type": "tool-output-denied", "toolCallId": call.id}
        elif result.is_error:
            text = replace_surrogates(result.text or result.error or "")
            yield {"type": "tool-output-error", "toolCallId": call.id, "errorText": text}
        else:
            yield {"type": "tool-output-available", "toolCallId": call.id, "output": _parse_output(result)}

        parts: list[Image | File] = [*result.images, *result.files]
        for part in parts:
            yield {"type": "file", "mediaType": part.media_type, "url": data_url(part)}

    @override
    def add_message(self, event: MessageAdded) -> Iterator[WireEvent]:
        yield {**_encode_data(event), "transient": False}

    @override
    def add_approval(self, event: ApprovalNeeded) -> Iterator[WireEvent]:
        call = event.approval.call
        self._asked.add(call.id)
        yield from self._encode_call_once(call)
        yield {"type": "tool-approval-request", "approvalId": call.id, "toolCallId": call.id}
        yield _encode_data(event)

    @override
    def encode_custom(self, event: Event) -> Iterator[WireEvent]:
        """Encode an event as data. The calls inside a sub-agent that the run resumed are encoded as parts, too."""
        yield _encode_data(event)
        while isinstance(event, SubAgentEvent):
            agent = event.call.id
            event = event.event
            if isinstance(event, TurnStarted):
                self._started_agents.add(agent)
            elif isinstance(event, (ToolCallStarted, ToolCallFinished)) and (
                agent not in self._started_agents or event.call.id in self._call_ids
            ):
                yield from self.encode(event)

    @override
    def finish_run(self, event: RunFinished) -> Iterator[WireEvent]:
        self._is_over = True
        if event.finish_reason in STOPPED:
            yield from self._close_parts()
            yield {"type": "abort"}
            return
        yield from self._add_answer(event)
        yield from self._close_parts()
        usage = {"inputTokens": event.usage.input_tokens, "outputTokens": event.usage.output_tokens}
        metadata = {"finishReason": event.finish_reason, "model": replace_surrogates(self._model), "usage": usage}
        reason = FINISH_REASONS.get(event.finish_reason, "other")
        yield {"type": "finish", "finishReason": reason, "messageMetadata": metadata}

    @override
    def _open_turn(self, turn: int) -> WireEvent:
        return self._open_part("step", {"type": "start-step"}, "finish-step")

    @override
    def _encode_call(self, call: ToolCall) -> Iterator[WireEvent]:
        identity = {"toolCallId": call.id, "toolName": replace_surrogates(call.name)}
        yield {"type": "tool-input-start", **identity}
        yield {"type": "tool-input-available", **identity, "input": _parse_json(call.arguments.strip() or "{}")}

    @override
    def _make_failure(self, message: str, code: str) -> WireEvent:
        return {"type": "error", "errorText": message}

    def _add_delta(self, kind: str, other: str, text: str) -> Iterator[WireEvent]:
        """Add a delta to a part. Open it first, and close the other kind, if it is not open."""
        if not self._is_open(kind):
            yield from self._close_parts(other)
            self._parts += 1
            yield self._open_part(kind, {"type": f"{kind}-start", "id": f"{kind}-{self._parts}"}, f"{kind}-end")
        yield {"type": f"{kind}-delta", "id": f"{kind}-{self._parts}", "delta": replace_surrogates(text)}
        self._streamed.add(kind)


def _encode_part(part: WireEvent) -> str:
    return f"data: {json.dumps(part, allow_nan=False)}\n\n"


def _encode_data(event: Event) -> WireEvent:
    facts = event_to_dict(event)
    return {"type": f"data-{facts.pop('type')}", "data": facts, "transient": True}


def _parse_output(result: ToolResult) -> Any:
    """Return the text that the model reads, or its value if it is the JSON of an object or a list."""
    text = result.text or ""
    return _parse_json(text) if text.lstrip().startswith(("{", "[")) else replace_surrogates(text)


def _parse_json(text: str) -> Any:
    """Parse JSON. A text that is not JSON is returned as it is."""
    plain = replace_surrogates(text)
    try:
        value = json.loads(plain)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return plain
    return value
