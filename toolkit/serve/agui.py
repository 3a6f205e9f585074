"""The events of a run as those of AG-UI 1.0, a protocol between agents and user interfaces.

A call is encoded at the end of its turn: before that, it may be incomplete and has no id. A call that waited for
approval was encoded before the run paused; the resumed run adds its result. docs/events.md lists the encoding of each
event. Specification: https://docs.ag-ui.com/spec/1.0
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, overload

from typing_extensions import override

from toolkit._dialects.base import encode_base64
from toolkit._execution.approval import Decision
from toolkit._messages import File, Image, ToolCall, ToolResult, Usage, replace_surrogates
from toolkit.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    PendingApproval,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallFinished,
    event_to_dict,
)
from toolkit.serve.streams import STOPPED, AsyncEncodedStream, EncodedStream, RunEncoder, WireEvent, make_encoded_stream

__all__ = ["encode_events", "parse_decisions"]

VERSION = "1.0"  # of the protocol
# JSON Schema of the answer to an interrupt: the protocol's own pattern for approvals with edits.
RESPONSE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object"},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}


@overload
def encode_events(
    stream: AsyncIterable[Event], *, thread_id: str = "", run_id: str = ""
) -> AsyncEncodedStream[WireEvent]: ...
@overload
def encode_events(stream: Iterable[Event], *, thread_id: str = "", run_id: str = "") -> EncodedStream[WireEvent]: ...
def encode_events(stream: Any, *, thread_id: str = "", run_id: str = "") -> Any:
    """Encode the events of a run as AG-UI events, JSON-able dicts. Return an async iterator for an async stream.

    A run that fails ends with RUN_ERROR and raises nothing. Its exception is logged. Closing the iterator ends the run.

    Args:
        stream: The stream from `Runner.stream` or `Runner.astream`.
        thread_id: The client's id of the conversation; the run's id by default.
        run_id: The client's id of the run; the run's own id by default.

    Examples:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> stream = Runner(model=ScriptedModel(["Hello."])).stream("Hi!")
        >>> [event["delta"] for event in encode_events(stream) if event["type"] == "TEXT_MESSAGE_CONTENT"]
        ['Hello.']
    """
    return make_encoded_stream(stream, AGUIEncoder(thread_id=thread_id, run_id=run_id))


def parse_decisions(resume: Iterable[Mapping[str, Any]]) -> dict[str, Decision]:
    """Parse the `resume` of a client's input into decisions by call id, as `Runner.resume` takes them.

    Only `{"approved": true}` approves; with an object as `editedArgs` the call runs with these arguments. Any other
    answer, and a cancelled interrupt, rejects the call.

    Raises:
        ValueError: `resume` is not a list of answers, or an answer has no interrupt id, or the same one as another.

    Examples:
        >>> entry = {"interruptId": "ab12cd34_0", "status": "resolved", "payload": {"approved": True}}
        >>> parse_decisions([entry]) == {"ab12cd34_0": Decision.approve()}
        True
    """
    decisions: dict[str, Decision] = {}
    entries: Iterable[Any] = resume if isinstance(resume, Iterable) else [None]
    for entry in entries:
        interrupt = entry.get("interruptId") if isinstance(entry, Mapping) else None
        if not isinstance(interrupt, str) or not interrupt or interrupt in decisions:
            raise ValueError(f"resume must be a list with one answer for each 'interruptId', not {resume!r:.200}.")
        decisions[interrupt] = _parse_decision(entry)
    return decisions


def _parse_decision(entry: Mapping[str, Any]) -> Decision:
    payload = entry.get("payload")
    answer = payload if isinstance(payload, Mapping) else {}
    if entry.get("status") != "resolved" or answer.get("approved") is not True:
        reason = answer.get("reason")
        return Decision.reject(reason if isinstance(reason, str) else "")
    edited = answer.get("editedArgs")
    if isinstance(edited, Mapping):
        return Decision.modify(edited)
    return Decision.approve() if edited is None else Decision.reject()


@dataclass(kw_only=True)
class AGUIEncoder(RunEncoder):
    """Encoder of one run."""

    protocol: ClassVar[str] = "AG-UI"
    thread_id: str
    run_id: str
    _model: str = ""
    _turn_id: str = ""  # also the id of its message
    _reasoning_parts: int = 0  # parts of reasoning in the turn
    _user_messages: int = 0  # messages that the user added
    _pending: dict[str, PendingApproval] = field(default_factory=dict)  # by call id

    @override
    def start_run(self, event: RunStarted) -> Iterator[WireEvent]:
        self.run_id = self.run_id or event.run_id
        self.thread_id = self.thread_id or self.run_id
        self._model = event.model
        yield {"type": "RUN_STARTED", **self._ids(), "protocolVersion": VERSION}

    @override
    def add_text(self, event: TextDelta) -> Iterator[WireEvent]:
        yield from self._close_parts("reasoning")
        identity = {"messageId": self._turn_id}
        if not self._is_open("text"):
            opening = {"type": "TEXT_MESSAGE_START", **identity, "role": "assistant"}
            yield self._open_part("text", opening, "TEXT_MESSAGE_END")
        yield {"type": "TEXT_MESSAGE_CONTENT", **identity, "delta": replace_surrogates(event.text)}
        self._streamed.add("text")

    @override
    def add_reasoning(self, event: ReasoningDelta) -> Iterator[WireEvent]:
        is_first = not self._is_open("reasoning")
        if is_first:
            self._reasoning_parts += 1
        identity = {"messageId": f"{self._turn_id}-reasoning-{self._reasoning_parts}"}
        if is_first:
            yield self._open_part("reasoning", {"type": "REASONING_START", **identity}, "REASONING_END")
            opening = {"type": "REASONING_MESSAGE_START", **identity, "role": "reasoning"}
            yield self._open_part("reasoning", opening, "REASONING_MESSAGE_END")
        yield {"type": "REASONING_MESSAGE_CONTENT", **identity, "delta": replace_surrogates(event.text)}
        self._streamed.add("reasoning")

    @override
    def finish_call(self, event: ToolCallFinished) -> Iterator[WireEvent]:
        call, result = event.call, event.result
        self._pending.pop(call.id, None)
        identity = {"messageId": f"{call.id}-result", "toolCallId": call.id}
        metadata = {"metadata": {"isError": True}} if result.is_error else {}
        yield {"type": "TOOL_CALL_RESULT", **identity, "role": "tool", "content": _encode_content(result), **metadata}

    @override
    def add_message(self, event: MessageAdded) -> Iterator[WireEvent]:
        self._user_messages += 1
        identity = {"messageId": f"{self._turn_id or self.run_id}-user-{self._user_messages}"}
        yield {"type": "TEXT_MESSAGE_START", **identity, "role": "user"}
        yield {"type": "TEXT_MESSAGE_CONTENT", **identity, "delta": replace_surrogates(event.message.text)}
        yield {"type": "TEXT_MESSAGE_END", **identity}

    @override
    def add_approval(self, event: ApprovalNeeded) -> Iterator[WireEvent]:
        self._pending[event.approval.call.id] = event.approval
        return self.encode_custom(event)

    @override
    def encode_custom(self, event: Event) -> Iterator[WireEvent]:
        facts = event_to_dict(event)
        yield {"type": "CUSTOM", "name": facts.pop("type"), "value": facts}

    @override
    def finish_run(self, event: RunFinished) -> Iterator[WireEvent]:
        self._is_over = True
        self._turn_id = f"{self.run_id}-answer"
        yield from self._add_answer(event)
        yield from self._close_parts()
        outcome = self._make_outcome(event)
        result = {"result": replace_surrogates(event.output)} if outcome["type"] == "success" else {}
        details = {"metadata": {"finishReason": event.finish_reason}, **_encode_usage(event.usage, self._model)}
        yield {"type": "RUN_FINISHED", **self._ids(), "outcome": outcome, **result, **details}

    @override
    def _open_turn(self, turn: int) -> WireEvent:
        self._turn_id = f"{self.run_id}-{turn}"
        self._reasoning_parts = 0
        return self._open_part("step", {"type": "STEP_STARTED", "stepName": f"turn {turn}"}, "STEP_FINISHED")

    @override
    def _make_failure(self, message: str, code: str) -> WireEvent:
        return {"type": "RUN_ERROR", "message": message, "code": code}

    @override
    def _encode_call(self, call: ToolCall) -> Iterator[WireEvent]:
        identity = {"toolCallId": call.id}
        details = {"toolCallName": replace_surrogates(call.name), "parentMessageId": self._turn_id}
        metadata = {"metadata": {"reasoning": replace_surrogates(call.reasoning)}} if call.reasoning else {}
        yield {"type": "TOOL_CALL_START", **identity, **details, **metadata}
        if call.arguments.strip() not in ("", "{}"):
            yield {"type": "TOOL_CALL_ARGS", **identity, "delta": replace_surrogates(call.arguments)}
        yield {"type": "TOOL_CALL_END", **identity}

    def _make_outcome(self, event: RunFinished) -> WireEvent:
        if event.finish_reason == "paused":
            return {"type": "interrupt", "interrupts": list(map(_encode_interrupt, self._pending.values()))}
        # A run at a limit has an answer, unless its last turn made calls.
        is_stopped = event.finish_reason in STOPPED or (self._has_calls and event.finish_reason.startswith("max_"))
        return {"type": "cancelled" if is_stopped else "success"}

    def _ids(self) -> WireEvent:
        return {"threadId": self.thread_id, "runId": self.run_id}


def _encode_content(result: ToolResult) -> str | list[dict[str, Any]]:
    """Encode a result as a text, or as a list of parts if it has images or files."""
    text = replace_surrogates(result.text or "")
    parts: list[Image | File] = [*result.images, *result.files]
    return [{"type": "text", "text": text}, *map(_encode_file, parts)] if parts else text


def _encode_interrupt(approval: PendingApproval) -> dict[str, Any]:
    """Encode a call that waits for approval. The interrupt has the call's id."""
    call = approval.call
    facts = event_to_dict(ApprovalNeeded(approval))
    names = ("toolName", "arguments", "reasoning", "digest", "effect", "source", "imports", "agent")
    metadata = {name: facts[name] for name in names if name in facts}
    message = replace_surrogates(f"Allow {approval.title or call.name}? {approval.reason}".rstrip())
    identity = {"id": call.id, "reason": "tool_call", "toolCallId": call.id}
    return {**identity, "message": message, "responseSchema": RESPONSE_SCHEMA, "metadata": metadata}


def _encode_usage(usage: Usage, model: str) -> dict[str, Any]:
    """Encode token counts. A count of 0 was not reported, and is left out."""
    counts = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
    reported = {name: count for name, count in counts.items() if count}
    return {"usage": [{"model": replace_surrogates(model), **reported}]} if reported else {}


def _encode_file(part: Image | File) -> dict[str, Any]:
    kind = part.media_type.partition("/")[0]
    source = {"type": "data", "value": encode_base64(part), "mimeType": part.media_type}
    metadata = {"metadata": {"name": part.name}} if isinstance(part, File) else {}
    return {"type": kind if kind in ("image", "audio", "video") else "document", "source": source, **metadata}
