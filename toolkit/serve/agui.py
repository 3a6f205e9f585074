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

A call is told when its turn is over: only then is it known to be whole, and has its id. A call that waited for approval
in an earlier run was told then; now there is its result. Specification: https://docs.ag-ui.com/spec/1.0

What a user interface answers to the interrupts of a run.

Results, approvals and usage in the words of AG-UI.

One run, told as AG-UI does: what is open, and what of it was said.

What must stay true: whatever is opened is closed, in whatever way the run ends; no id is opened twice at a time;
nothing is told after RUN_FINISHED but a failure, and nothing after RUN_ERROR.

What is told of a run, drawn one by one; whoever closes it ends the run, begun or not.
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
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnFinished,
    TurnStarted,
    event_to_dict,
)

# What an answer looks like: the protocol's own pattern for approvals with edits.
ANSWER: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object"},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}


def decisions(resume: Iterable[Mapping[str, Any]]) -> dict[str, Decision]:
    """Read the `resume` of a client's input: decisions by call id, as `Runner.resume` takes them.

    Nothing but `{"approved": true}` is a yes; a call that the client gave up is refused.

    Raises:
        ValueError: It is no list of answers, one for each interrupt.

    Example:
        >>> entry = {"interruptId": "ab12cd34_0", "status": "resolved", "payload": {"approved": True}}
        >>> decisions([entry]) == {"ab12cd34_0": Decision.approve()}
        True
    """
    if isinstance(resume, (str, Mapping)) or not isinstance(resume, Iterable):
        raise ValueError(f"resume is a list of answers to interrupts, not {resume!r:.100}.")  # noqa: TRY004  it comes from a client
    decided: dict[str, Decision] = {}
    for entry in resume:
        interrupt = _interrupt_of(entry)
        if interrupt in decided:
            raise ValueError(f"The interrupt {interrupt!r:.100} has two answers.")
        decided[interrupt] = _decision(entry)
    return decided


def _interrupt_of(entry: object) -> str:
    interrupt = entry.get("interruptId") if isinstance(entry, Mapping) else None
    if not isinstance(interrupt, str) or not interrupt:
        raise ValueError(f"An answer names its interrupt by 'interruptId'; this one does not: {entry!r:.200}.")
    return interrupt


def _decision(entry: Mapping[str, Any]) -> Decision:
    payload = entry.get("payload")
    answer = payload if isinstance(payload, Mapping) else {}
    if entry.get("status") != "resolved" or answer.get("approved") is not True:
        reason = answer.get("reason")
        return Decision.reject(reason if isinstance(reason, str) else "")
    edited = answer.get("editedArgs")
    if isinstance(edited, Mapping):
        return Decision.modify(edited)
    return Decision.approve() if edited is None else Decision.reject()


def content_of(result: ToolResult) -> str | list[dict[str, Any]]:
    """Write what a result shows: a text, or the parts of it where there are pictures or files."""
    text = replace_surrogates(result.text or "")
    parts: list[Image | File] = [*result.images, *result.files]
    return [{"type": "text", "text": text}, *map(_part, parts)] if parts else text


def interrupt_of(approval: PendingApproval) -> dict[str, Any]:
    """Write what a run waits for; its id is the call's, by which a decision names it."""
    call, facts = approval.call, event_to_dict(ApprovalNeeded(approval))
    told = ("toolName", "arguments", "reasoning", "digest", "effect")
    about = {name: facts[name] for name in told if name in facts}
    message = replace_surrogates(f"Allow {approval.title or call.name}? {approval.reason}".rstrip())
    identity = {"id": call.id, "reason": "tool_call", "toolCallId": call.id}
    return {**identity, "message": message, "responseSchema": ANSWER, "metadata": about}


def usage_of(usage: Usage, model: str) -> dict[str, Any]:
    """Write tokens; a count of 0 means that the provider has not told, and then nothing must be said."""
    counts = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
    told = {name: count for name, count in counts.items() if count}
    return {"usage": [{"model": replace_surrogates(model), **told}]} if told else {}


def _part(part: Image | File) -> dict[str, Any]:
    sort = part.media_type.partition("/")[0]
    source = {"type": "data", "value": base64.b64encode(part.data).decode(), "mimeType": part.media_type}
    named = {"metadata": {"name": part.name}} if isinstance(part, File) else {}
    return {"type": sort if sort in ("image", "audio", "video") else "document", "source": source, **named}


logger = logging.getLogger("toolkit")

Told: TypeAlias = dict[str, Any]

VERSION = "1.0"  # of the protocol
# Why a run ended that was ended from outside; at a limit it has an answer, unless the last one made calls.
STOPPED = frozenset({"cancelled", "stopped"})


@dataclass
class Telling:
    """What was told of one run."""

    thread_id: str
    run_id: str
    _model: str = ""
    _turn_id: str = ""  # and that of its message; none before the first turn
    _thoughts: int = 0  # stretches of reasoning in the turn
    _said: int = 0  # messages of the user
    _asks: bool = False  # whether the last answer made calls
    _is_over: bool = False
    _open: list[tuple[str, Told]] = field(default_factory=list)  # what sort of thing, and the event that closes it
    _spoken: set[str] = field(default_factory=set)  # sorts of the turn that came in pieces
    _called: set[str] = field(default_factory=set)
    _pending: dict[str, PendingApproval] = field(default_factory=dict)

    def take(self, event: Event) -> Iterator[Told]:
        """Tell one event."""
        return _TELLERS.get(type(event), Telling.custom)(self, event)

    def end(self, failure: Exception | None) -> Iterator[Told]:
        """Tell that the run has failed, or was left; what an exception says is for the log alone."""
        if self._is_over and failure is None:
            return
        yield from self._close()
        if failure is None:
            yield {"type": "RUN_ERROR", "message": "The run was left before its end.", "code": "left"}
            return
        logger.error("A run failed while its events were told.", exc_info=failure)
        name = type(failure).__name__
        yield {"type": "RUN_ERROR", "message": f"The run failed: {name}.", "code": name}

    def run_started(self, event: RunStarted) -> Iterator[Told]:
        """Open the run."""
        self.run_id = self.run_id or event.run_id
        self.thread_id = self.thread_id or self.run_id
        self._model = event.model
        yield {"type": "RUN_STARTED", **self._ids(), "protocolVersion": VERSION}

    def turn_started(self, event: TurnStarted) -> Iterator[Told]:
        """Open a step, after the one before."""
        yield from self._close()
        self._turn_id, self._thoughts = f"{self.run_id}-{event.turn}", 0
        self._spoken.clear()
        yield self._opened("step", {"type": "STEP_STARTED", "stepName": f"turn {event.turn}"}, "STEP_FINISHED")

    def text(self, event: TextDelta) -> Iterator[Told]:
        """Add to the turn's message."""
        yield from self._close("reasoning")
        identity = {"messageId": self._turn_id}
        if not self._is_open("text"):
            opening = {"type": "TEXT_MESSAGE_START", **identity, "role": "assistant"}
            yield self._opened("text", opening, "TEXT_MESSAGE_END")
        yield {"type": "TEXT_MESSAGE_CONTENT", **identity, "delta": replace_surrogates(event.text)}
        self._spoken.add("text")

    def reasoning(self, event: ReasoningDelta) -> Iterator[Told]:
        """Add to a stretch of reasoning, or begin the next one."""
        begins = not self._is_open("reasoning")
        self._thoughts += begins
        identity = {"messageId": f"{self._turn_id}-reasoning-{self._thoughts}"}
        if begins:
            yield self._opened("reasoning", {"type": "REASONING_START", **identity}, "REASONING_END")
            opening = {"type": "REASONING_MESSAGE_START", **identity, "role": "reasoning"}
            yield self._opened("reasoning", opening, "REASONING_MESSAGE_END")
        yield {"type": "REASONING_MESSAGE_CONTENT", **identity, "delta": replace_surrogates(event.text)}
        self._spoken.add("reasoning")

    def turn_finished(self, event: TurnFinished) -> Iterator[Told]:
        """Tell what did not come in pieces, and the calls."""
        response = event.response
        if response.reasoning and "reasoning" not in self._spoken:
            yield from self.reasoning(ReasoningDelta(response.reasoning))
        if response.text and "text" not in self._spoken:
            yield from self.text(TextDelta(response.text))
        yield from self._close("reasoning", "text")
        self._asks = bool(response.calls)
        for call in response.calls:
            yield from self._call(call)

    def call_started(self, event: ToolCallStarted) -> Iterator[Told]:
        """Tell a call that starts before its turn is over; where there was no turn, an earlier run has told it."""
        return self._call(event.call) if self._turn_id else iter(())

    def call_finished(self, event: ToolCallFinished) -> Iterator[Told]:
        """Tell a result."""
        call, result = event.call, event.result
        self._pending.pop(call.id, None)
        identity = {"messageId": f"{call.id}-result", "toolCallId": call.id}
        failed = {"metadata": {"isError": True}} if result.is_error else {}
        yield {"type": "TOOL_CALL_RESULT", **identity, "role": "tool", "content": content_of(result), **failed}

    def message_added(self, event: MessageAdded) -> Iterator[Told]:
        """Tell what the user said."""
        self._said += 1
        identity = {"messageId": f"{self._turn_id or self.run_id}-user-{self._said}"}
        yield {"type": "TEXT_MESSAGE_START", **identity, "role": "user"}
        yield {"type": "TEXT_MESSAGE_CONTENT", **identity, "delta": replace_surrogates(event.message.text)}
        yield {"type": "TEXT_MESSAGE_END", **identity}

    def approval(self, event: ApprovalNeeded) -> Iterator[Told]:
        """Tell that a call waits; if it still does at the end, the run is interrupted."""
        self._pending[event.approval.call.id] = event.approval
        return self.custom(event)

    def custom(self, event: Event) -> Iterator[Told]:
        """Tell what the protocol has no event for."""
        facts = event_to_dict(event)
        yield {"type": "CUSTOM", "name": facts.pop("type"), "value": facts}

    def run_finished(self, event: RunFinished) -> Iterator[Told]:
        """Close the run, and say how it ended."""
        self._is_over = True
        yield from self._close()
        outcome = self._outcome(event)
        result = {"result": replace_surrogates(event.output)} if outcome["type"] == "success" else {}
        about = {"metadata": {"finishReason": event.finish_reason}, **usage_of(event.usage, self._model)}
        yield {"type": "RUN_FINISHED", **self._ids(), "outcome": outcome, **result, **about}

    def _call(self, call: ToolCall) -> Iterator[Told]:
        if call.id in self._called:
            return
        self._called.add(call.id)
        identity = {"toolCallId": call.id}
        about = {"toolCallName": replace_surrogates(call.name), "parentMessageId": self._turn_id}
        reasoned = {"metadata": {"reasoning": replace_surrogates(call.reasoning)}} if call.reasoning else {}
        yield {"type": "TOOL_CALL_START", **identity, **about, **reasoned}
        if call.arguments.strip() not in ("", "{}"):
            yield {"type": "TOOL_CALL_ARGS", **identity, "delta": replace_surrogates(call.arguments)}
        yield {"type": "TOOL_CALL_END", **identity}

    def _outcome(self, event: RunFinished) -> Told:
        if self._pending:
            return {"type": "interrupt", "interrupts": list(map(interrupt_of, self._pending.values()))}
        is_stopped = event.finish_reason in STOPPED or (self._asks and event.finish_reason.startswith("max_"))
        return {"type": "cancelled" if is_stopped else "success"}

    def _ids(self) -> Told:
        return {"threadId": self.thread_id, "runId": self.run_id}

    def _opened(self, sort: str, opening: Told, closing: str) -> Told:
        """Keep what closes a thing: the same words but for the type and the role."""
        identity = {key: value for key, value in opening.items() if key not in ("type", "role")}
        self._open.append((sort, {"type": closing, **identity}))
        return opening

    def _close(self, *sorts: str) -> Iterator[Told]:
        """Close what is open of these sorts, by default all, the last first."""
        closing = [item for item in self._open if not sorts or item[0] in sorts]
        self._open = [item for item in self._open if item not in closing]
        return (told for _, told in reversed(closing))

    def _is_open(self, sort: str) -> bool:
        return any(name == sort for name, _ in self._open)


_TELLERS: Mapping[type[Any], Callable[[Telling, Any], Iterator[Told]]] = {
    RunStarted: Telling.run_started,
    TurnStarted: Telling.turn_started,
    TextDelta: Telling.text,
    ReasoningDelta: Telling.reasoning,
    TurnFinished: Telling.turn_finished,
    ToolCallStarted: Telling.call_started,
    ToolCallFinished: Telling.call_finished,
    MessageAdded: Telling.message_added,
    ApprovalNeeded: Telling.approval,
    RunFinished: Telling.run_finished,
}


class ToldStream(Iterator[Told]):
    """What AG-UI is told of a run, as an iterator."""

    def __init__(self, stream: Iterable[Event], telling: Telling) -> None:
        self._told = _drawn(stream, telling)
        self._stack = _closing(stream)

    @override
    def __next__(self) -> Told:
        return next(self._told)

    def close(self) -> None:
        """End the run where it stands."""
        self._told.close()
        self._stack.close()  # what was never begun has closed nothing


class AsyncToldStream(AsyncIterator[Told]):
    """What AG-UI is told of a run, as an async iterator."""

    def __init__(self, stream: AsyncIterable[Event], telling: Telling) -> None:
        self._told = _awaited(stream, telling)
        self._stack = _async_closing(stream)

    @override
    async def __anext__(self) -> Told:
        return await self._told.__anext__()

    async def aclose(self) -> None:
        """End the run where it stands."""
        await self._told.aclose()
        await self._stack.aclose()  # as above


def _drawn(stream: Iterable[Event], telling: Telling) -> Generator[Told, None, None]:
    failure: Exception | None = None
    with _closing(stream):
        try:
            for event in stream:
                yield from telling.take(event)
        except Exception as error:  # noqa: BLE001  whatever it was, the user interface has to know
            failure = error
        yield from telling.end(failure)


async def _awaited(stream: AsyncIterable[Event], telling: Telling) -> AsyncGenerator[Told, None]:
    failure: Exception | None = None
    async with _async_closing(stream):
        try:
            async for event in stream:
                for told in telling.take(event):
                    yield told
        except Exception as error:  # noqa: BLE001  as above
            failure = error
        for told in telling.end(failure):
            yield told


def _closing(stream: Any) -> ExitStack:
    stack = ExitStack()
    if close := getattr(stream, "close", None):
        stack.callback(close)
    return stack


def _async_closing(stream: Any) -> AsyncExitStack:
    stack = AsyncExitStack()
    if close := getattr(stream, "aclose", None):
        stack.push_async_callback(close)
    return stack


__all__ = ["AsyncToldStream", "Told", "ToldStream", "decisions", "events"]


@overload
def events(stream: AsyncIterable[Event], *, thread_id: str = "", run_id: str = "") -> AsyncToldStream: ...
@overload
def events(stream: Iterable[Event], *, thread_id: str = "", run_id: str = "") -> ToldStream: ...
def events(stream: Any, *, thread_id: str = "", run_id: str = "") -> Any:
    """Tell the events of a run as AG-UI does, as JSON-able dicts; of an async stream, as an async iterator.

    A run that fails ends with RUN_ERROR and raises nothing: the exception is in the log. Leaving early ends the run.

    Args:
        stream: What `Runner.stream` or `Runner.astream` gave.
        thread_id: The conversation, as the client names it; the run's id by default.
        run_id: The run, as the client names it; the run's own id by default.

    Example:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> stream = Runner(model=ScriptedModel(["Hello."])).stream("Hi!")
        >>> [event["delta"] for event in events(stream) if event["type"] == "TEXT_MESSAGE_CONTENT"]
        ['Hello.']
    """
    telling = Telling(thread_id=thread_id, run_id=run_id)
    return AsyncToldStream(stream, telling) if isinstance(stream, AsyncIterable) else ToldStream(stream, telling)
