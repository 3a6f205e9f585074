"""One run, told as AG-UI does: what is open, and what of it was said.

What must stay true: whatever is opened is closed, in whatever way the run ends; no id is opened twice at a time;
nothing is told after RUN_FINISHED but a failure, and nothing after RUN_ERROR.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolkit._messages import PendingApproval, ToolCall, sendable
from toolkit.agui.values import content_of, interrupt_of, usage_of
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
        yield {"type": "TEXT_MESSAGE_CONTENT", **identity, "delta": sendable(event.text)}
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
        yield {"type": "REASONING_MESSAGE_CONTENT", **identity, "delta": sendable(event.text)}
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
        yield {"type": "TEXT_MESSAGE_CONTENT", **identity, "delta": sendable(event.message.text)}
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
        result = {"result": sendable(event.output)} if outcome["type"] == "success" else {}
        about = {"metadata": {"finishReason": event.finish_reason}, **usage_of(event.usage, self._model)}
        yield {"type": "RUN_FINISHED", **self._ids(), "outcome": outcome, **result, **about}

    def _call(self, call: ToolCall) -> Iterator[Told]:
        if call.id in self._called:
            return
        self._called.add(call.id)
        identity = {"toolCallId": call.id}
        about = {"toolCallName": sendable(call.name), "parentMessageId": self._turn_id}
        reasoned = {"metadata": {"reasoning": sendable(call.reasoning)}} if call.reasoning else {}
        yield {"type": "TOOL_CALL_START", **identity, **about, **reasoned}
        if call.arguments.strip() not in ("", "{}"):
            yield {"type": "TOOL_CALL_ARGS", **identity, "delta": sendable(call.arguments)}
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
