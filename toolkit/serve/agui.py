"""The events of a run as those of AG-UI 1.0, a protocol between agents and user interfaces.

    the run                     AG-UI
    RunStarted                  RUN_STARTED
    a turn with its calls       STEP_STARTED ... STEP_FINISHED
    ReasoningDelta              REASONING_START, REASONING_MESSAGE_START, _CONTENT, _END, REASONING_END
    TextDelta                   TEXT_MESSAGE_START, _CONTENT, _END, from the assistant
    MessageAdded                the same, from the user
    the calls of a turn         TOOL_CALL_START, TOOL_CALL_ARGS where there are some, TOOL_CALL_END
    ToolCallFinished            TOOL_CALL_RESULT
    RunFinished                 RUN_FINISHED, whose outcome is an interrupt where calls wait for approval
    an exception, or no end     RUN_ERROR
    all others                  CUSTOM, with the JSON form of the event

A call is encoded when its turn is over: only then is it known to be whole, and has its id. A call that waited for
approval was encoded by the earlier run; the resumed one adds its result. Specification: https://docs.ag-ui.com/spec/1.0

What must stay true: whatever is opened is closed, in whatever way the run ends; no id is open twice at a time; nothing
follows RUN_FINISHED but a failure, and nothing follows RUN_ERROR.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeAlias, overload

from typing_extensions import override

from toolkit._execution.approval import Decision
from toolkit._messages import File, Image, PendingApproval, ToolCall, ToolResult, Usage, replace_surrogates
from toolkit.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    ReasoningDelta,
    ResultsAdded,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnFinished,
    TurnStarted,
    event_to_dict,
)

__all__ = ["AGUIEvent", "AGUIStream", "AsyncAGUIStream", "encode_events", "parse_decisions"]

logger = logging.getLogger("toolkit")

AGUIEvent: TypeAlias = dict[str, Any]

VERSION = "1.0"  # of the protocol
# Finish reasons of runs that were ended from outside. A run at a limit has an answer, unless its last turn made calls.
STOPPED = frozenset({"cancelled", "stopped"})
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
def encode_events(stream: AsyncIterable[Event], *, thread_id: str = "", run_id: str = "") -> AsyncAGUIStream: ...
@overload
def encode_events(stream: Iterable[Event], *, thread_id: str = "", run_id: str = "") -> AGUIStream: ...
def encode_events(stream: Any, *, thread_id: str = "", run_id: str = "") -> Any:
    """Encode the events of a run as AG-UI events, JSON-able dicts; an async stream gives an async iterator.

    A run that fails ends with RUN_ERROR and raises nothing: its exception is logged. Leaving early ends the run.

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
    encoder = EventEncoder(thread_id=thread_id, run_id=run_id)
    return AsyncAGUIStream(stream, encoder) if isinstance(stream, AsyncIterable) else AGUIStream(stream, encoder)


def parse_decisions(resume: Iterable[Mapping[str, Any]]) -> dict[str, Decision]:
    """Parse the `resume` of a client's input into decisions by call id, as `Runner.run` takes them.

    Only `{"approved": true}` approves; a call whose interrupt the client cancelled is rejected.

    Raises:
        ValueError: It is not a list with one answer for each interrupt.

    Examples:
        >>> entry = {"interruptId": "ab12cd34_0", "status": "resolved", "payload": {"approved": True}}
        >>> parse_decisions([entry]) == {"ab12cd34_0": Decision.approve()}
        True
    """
    if isinstance(resume, (str, Mapping)) or not isinstance(resume, Iterable):
        raise ValueError(f"resume must be a list of answers to interrupts, not {resume!r:.100}.")  # noqa: TRY004  it comes from a client
    decisions: dict[str, Decision] = {}
    for entry in resume:
        interrupt = _parse_interrupt_id(entry)
        if interrupt in decisions:
            raise ValueError(f"The interrupt {interrupt!r:.100} has two answers.")
        decisions[interrupt] = _parse_decision(entry)
    return decisions


def _parse_interrupt_id(entry: object) -> str:
    interrupt = entry.get("interruptId") if isinstance(entry, Mapping) else None
    if not isinstance(interrupt, str) or not interrupt:
        raise ValueError(f"An answer names its interrupt by 'interruptId'; this one does not: {entry!r:.200}.")
    return interrupt


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


class AGUIStream(Iterator[AGUIEvent]):
    """The AG-UI events of a run; closing it ends the run, started or not."""

    def __init__(self, stream: Iterable[Event], encoder: EventEncoder) -> None:
        self._events = _encode_stream(stream, encoder)
        self._stack = _close_on_exit(stream)

    @override
    def __next__(self) -> AGUIEvent:
        return next(self._events)

    def close(self) -> None:
        """End the run now."""
        self._events.close()
        self._stack.close()  # a generator that was never started runs no finally block


class AsyncAGUIStream(AsyncIterator[AGUIEvent]):
    """The AG-UI events of a run, as an async iterator; closing it ends the run, started or not."""

    def __init__(self, stream: AsyncIterable[Event], encoder: EventEncoder) -> None:
        self._events = _encode_async_stream(stream, encoder)
        self._stack = _aclose_on_exit(stream)

    @override
    async def __anext__(self) -> AGUIEvent:
        return await self._events.__anext__()

    async def aclose(self) -> None:
        """End the run now."""
        await self._events.aclose()
        await self._stack.aclose()  # as above


def _encode_stream(stream: Iterable[Event], encoder: EventEncoder) -> Generator[AGUIEvent, None, None]:
    failure: Exception | None = None
    with _close_on_exit(stream):
        try:
            for event in stream:
                yield from encoder.encode(event)
        except Exception as error:  # noqa: BLE001  whatever it was, the user interface has to know
            failure = error
        yield from encoder.end(failure)


async def _encode_async_stream(stream: AsyncIterable[Event], encoder: EventEncoder) -> AsyncGenerator[AGUIEvent, None]:
    failure: Exception | None = None
    async with _aclose_on_exit(stream):
        try:
            async for event in stream:
                for encoded in encoder.encode(event):
                    yield encoded
        except Exception as error:  # noqa: BLE001  as above
            failure = error
        for encoded in encoder.end(failure):
            yield encoded


def _close_on_exit(stream: Any) -> ExitStack:
    stack = ExitStack()
    if close := getattr(stream, "close", None):
        stack.callback(close)
    return stack


def _aclose_on_exit(stream: Any) -> AsyncExitStack:
    stack = AsyncExitStack()
    if close := getattr(stream, "aclose", None):
        stack.push_async_callback(close)
    return stack


@dataclass
class EventEncoder:
    """Encoder of one run: which parts are open, and which were streamed already."""

    thread_id: str
    run_id: str
    _model: str = ""
    _turn_id: str = ""  # also the id of its message; empty before the first turn
    _reasoning_parts: int = 0  # parts of reasoning in the turn
    _user_messages: int = 0  # messages that the user added
    _has_calls: bool = False  # whether the last response has calls
    _is_over: bool = False
    _open_parts: list[tuple[str, AGUIEvent]] = field(default_factory=list)  # kind, and the event that closes it
    _streamed: set[str] = field(default_factory=set)  # kinds of which the turn had deltas
    _call_ids: set[str] = field(default_factory=set)
    _pending: dict[str, PendingApproval] = field(default_factory=dict)

    def encode(self, event: Event) -> Iterator[AGUIEvent]:
        """Encode one event."""
        return _ENCODERS.get(type(event), EventEncoder.encode_custom)(self, event)

    def end(self, failure: Exception | None) -> Iterator[AGUIEvent]:
        """Close what is open, and report a run that failed or was left; the text of an exception is only logged."""
        if self._is_over and failure is None:
            return
        yield from self._close_parts()
        if failure is None:
            yield {"type": "RUN_ERROR", "message": "The run was left before its end.", "code": "left"}
            return
        logger.error("A run failed while its events were encoded for AG-UI.", exc_info=failure)
        name = type(failure).__name__
        yield {"type": "RUN_ERROR", "message": f"The run failed: {name}.", "code": name}

    def start_run(self, event: RunStarted) -> Iterator[AGUIEvent]:
        """Open the run; its ids are those of the client, or the run's own."""
        self.run_id = self.run_id or event.run_id
        self.thread_id = self.thread_id or self.run_id
        self._model = event.model
        yield {"type": "RUN_STARTED", **self._ids(), "protocolVersion": VERSION}

    def start_turn(self, event: TurnStarted) -> Iterator[AGUIEvent]:
        """Close the step before, and open the next."""
        yield from self._close_parts()
        self._turn_id, self._reasoning_parts = f"{self.run_id}-{event.turn}", 0
        self._streamed.clear()
        yield self._open_part("step", {"type": "STEP_STARTED", "stepName": f"turn {event.turn}"}, "STEP_FINISHED")

    def add_text(self, event: TextDelta) -> Iterator[AGUIEvent]:
        """Add a delta to the turn's message; open it first if there is none."""
        yield from self._close_parts("reasoning")
        identity = {"messageId": self._turn_id}
        if not self._is_open("text"):
            opening = {"type": "TEXT_MESSAGE_START", **identity, "role": "assistant"}
            yield self._open_part("text", opening, "TEXT_MESSAGE_END")
        yield {"type": "TEXT_MESSAGE_CONTENT", **identity, "delta": replace_surrogates(event.text)}
        self._streamed.add("text")

    def add_reasoning(self, event: ReasoningDelta) -> Iterator[AGUIEvent]:
        """Add a delta to a part of reasoning; open the next part if none is open."""
        is_first = not self._is_open("reasoning")
        self._reasoning_parts += is_first
        identity = {"messageId": f"{self._turn_id}-reasoning-{self._reasoning_parts}"}
        if is_first:
            yield self._open_part("reasoning", {"type": "REASONING_START", **identity}, "REASONING_END")
            opening = {"type": "REASONING_MESSAGE_START", **identity, "role": "reasoning"}
            yield self._open_part("reasoning", opening, "REASONING_MESSAGE_END")
        yield {"type": "REASONING_MESSAGE_CONTENT", **identity, "delta": replace_surrogates(event.text)}
        self._streamed.add("reasoning")

    def finish_turn(self, event: TurnFinished) -> Iterator[AGUIEvent]:
        """Encode text and reasoning that were not streamed, then the calls."""
        response = event.response
        if response.reasoning and "reasoning" not in self._streamed:
            yield from self.add_reasoning(ReasoningDelta(response.reasoning))
        if response.text and "text" not in self._streamed:
            yield from self.add_text(TextDelta(response.text))
        yield from self._close_parts("reasoning", "text")
        self._has_calls = bool(response.calls)
        for call in response.calls:
            yield from self._encode_call(call)

    def start_call(self, event: ToolCallStarted) -> Iterator[AGUIEvent]:
        """Encode a call that starts before its turn is over; without a turn, the earlier run has encoded it."""
        return self._encode_call(event.call) if self._turn_id else iter(())

    def finish_call(self, event: ToolCallFinished) -> Iterator[AGUIEvent]:
        """Encode a call's result."""
        call, result = event.call, event.result
        self._pending.pop(call.id, None)
        identity = {"messageId": f"{call.id}-result", "toolCallId": call.id}
        metadata = {"metadata": {"isError": True}} if result.is_error else {}
        yield {"type": "TOOL_CALL_RESULT", **identity, "role": "tool", "content": _encode_content(result), **metadata}

    def add_message(self, event: MessageAdded) -> Iterator[AGUIEvent]:
        """Encode a message that the user added."""
        self._user_messages += 1
        identity = {"messageId": f"{self._turn_id or self.run_id}-user-{self._user_messages}"}
        yield {"type": "TEXT_MESSAGE_START", **identity, "role": "user"}
        yield {"type": "TEXT_MESSAGE_CONTENT", **identity, "delta": replace_surrogates(event.message.text)}
        yield {"type": "TEXT_MESSAGE_END", **identity}

    def add_approval(self, event: ApprovalNeeded) -> Iterator[AGUIEvent]:
        """Encode a call that waits for approval; if it still waits at the end, the run is interrupted."""
        self._pending[event.approval.call.id] = event.approval
        return self.encode_custom(event)

    def encode_custom(self, event: Event) -> Iterator[AGUIEvent]:
        """Encode an event that the protocol has no type for."""
        facts = event_to_dict(event)
        yield {"type": "CUSTOM", "name": facts.pop("type"), "value": facts}

    def finish_run(self, event: RunFinished) -> Iterator[AGUIEvent]:
        """Close the run, with its outcome."""
        self._is_over = True
        yield from self._close_parts()
        outcome = self._make_outcome(event)
        result = {"result": replace_surrogates(event.output)} if outcome["type"] == "success" else {}
        details = {"metadata": {"finishReason": event.finish_reason}, **_encode_usage(event.usage, self._model)}
        yield {"type": "RUN_FINISHED", **self._ids(), "outcome": outcome, **result, **details}

    def _encode_call(self, call: ToolCall) -> Iterator[AGUIEvent]:
        if call.id in self._call_ids:
            return
        self._call_ids.add(call.id)
        identity = {"toolCallId": call.id}
        details = {"toolCallName": replace_surrogates(call.name), "parentMessageId": self._turn_id}
        metadata = {"metadata": {"reasoning": replace_surrogates(call.reasoning)}} if call.reasoning else {}
        yield {"type": "TOOL_CALL_START", **identity, **details, **metadata}
        if call.arguments.strip() not in ("", "{}"):
            yield {"type": "TOOL_CALL_ARGS", **identity, "delta": replace_surrogates(call.arguments)}
        yield {"type": "TOOL_CALL_END", **identity}

    def _make_outcome(self, event: RunFinished) -> AGUIEvent:
        if self._pending:
            return {"type": "interrupt", "interrupts": list(map(_encode_interrupt, self._pending.values()))}
        is_stopped = event.finish_reason in STOPPED or (self._has_calls and event.finish_reason.startswith("max_"))
        return {"type": "cancelled" if is_stopped else "success"}

    def _ids(self) -> AGUIEvent:
        return {"threadId": self.thread_id, "runId": self.run_id}

    def _open_part(self, kind: str, opening: AGUIEvent, closing: str) -> AGUIEvent:
        """Remember the event that closes a part: the same keys except the type and the role."""
        identity = {key: value for key, value in opening.items() if key not in ("type", "role")}
        self._open_parts.append((kind, {"type": closing, **identity}))
        return opening

    def _close_parts(self, *kinds: str) -> Iterator[AGUIEvent]:
        """Close the open parts of these kinds, by default all, the last first."""
        closing = [item for item in self._open_parts if not kinds or item[0] in kinds]
        self._open_parts = [item for item in self._open_parts if item not in closing]
        return (event for _, event in reversed(closing))

    def _is_open(self, kind: str) -> bool:
        return any(name == kind for name, _ in self._open_parts)


_ENCODERS: Mapping[type[Any], Callable[[EventEncoder, Any], Iterator[AGUIEvent]]] = {
    RunStarted: EventEncoder.start_run,
    TurnStarted: EventEncoder.start_turn,
    TextDelta: EventEncoder.add_text,
    ReasoningDelta: EventEncoder.add_reasoning,
    TurnFinished: EventEncoder.finish_turn,
    ToolCallStarted: EventEncoder.start_call,
    ToolCallFinished: EventEncoder.finish_call,
    MessageAdded: EventEncoder.add_message,
    ResultsAdded: lambda *_: iter(()),  # each result was encoded when its call had ended
    ApprovalNeeded: EventEncoder.add_approval,
    RunFinished: EventEncoder.finish_run,
}


def _encode_content(result: ToolResult) -> str | list[dict[str, Any]]:
    """Encode a result as a text, or as a list of parts if it has images or files."""
    text = replace_surrogates(result.text or "")
    parts: list[Image | File] = [*result.images, *result.files]
    return [{"type": "text", "text": text}, *map(_encode_file, parts)] if parts else text


def _encode_interrupt(approval: PendingApproval) -> dict[str, Any]:
    """Encode a call that waits for approval; the interrupt has the call's id."""
    call, facts = approval.call, event_to_dict(ApprovalNeeded(approval))
    names = ("toolName", "arguments", "reasoning", "digest", "effect", "source", "imports")
    metadata = {name: facts[name] for name in names if name in facts}
    message = replace_surrogates(f"Allow {approval.title or call.name}? {approval.reason}".rstrip())
    identity = {"id": call.id, "reason": "tool_call", "toolCallId": call.id}
    return {**identity, "message": message, "responseSchema": RESPONSE_SCHEMA, "metadata": metadata}


def _encode_usage(usage: Usage, model: str) -> dict[str, Any]:
    """Encode token counts; a count of 0 is left out, as the provider has not reported it."""
    counts = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
    reported = {name: count for name, count in counts.items() if count}
    return {"usage": [{"model": replace_surrogates(model), **reported}]} if reported else {}


def _encode_file(part: Image | File) -> dict[str, Any]:
    kind = part.media_type.partition("/")[0]
    source = {"type": "data", "value": base64.b64encode(part.data).decode(), "mimeType": part.media_type}
    metadata = {"metadata": {"name": part.name}} if isinstance(part, File) else {}
    return {"type": kind if kind in ("image", "audio", "video") else "document", "source": source, **metadata}
