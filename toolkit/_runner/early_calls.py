"""Calls that start while the model's response still arrives; dropped if the whole response does not hold them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from toolkit._concurrency.backend import Backend, Handle
from toolkit._context import discard
from toolkit._execution.invoke import Emit
from toolkit._messages import ToolCall, ToolResult
from toolkit.events import CallEvent, ToolCallFinished

DROPPED_TEXT = "Dropped: the model's answer does not hold this call in the end."


class EventBuffer:
    """Keeps events until there is a listener; any thread may emit."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._events: list[CallEvent] = []
        self._listener: Emit = self._events.append

    def emit(self, event: CallEvent) -> None:
        """Pass an event to the listener, or keep it."""
        with self._lock:
            self._listener(event)

    def listen(self, listener: Emit) -> None:
        """Pass on the events that were kept, and from now on each new one."""
        with self._lock:
            for event in self._events:
                listener(event)
            self._listener = listener


@dataclass(frozen=True)
class EarlyCall:
    """A call that has started early."""

    call: ToolCall
    events: EventBuffer
    handle: Handle[ToolResult]

    async def wait(self, emit: Emit) -> ToolResult:
        """Wait for its result, passing on its events."""
        self.events.listen(emit)
        return await self.handle.wait()

    def drop(self) -> ToolCallFinished:
        """Cancel it."""
        self.events.listen(discard)
        self.handle.cancel()
        return ToolCallFinished(self.call, ToolResult(text=DROPPED_TEXT, error=DROPPED_TEXT, kind="cancelled"), 0.0)


@dataclass
class EarlyCalls:
    """The calls of one response that have started early, by call id."""

    started: dict[str, EarlyCall] = field(default_factory=dict)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self.started

    def start(
        self, call: ToolCall, execute: Callable[[Emit], Coroutine[Any, Any, ToolResult]], backend: Backend
    ) -> None:
        """Start a call."""
        events = EventBuffer()
        self.started[call.id] = EarlyCall(call, events, backend.start(lambda: execute(events.emit)))

    def take(self, call: ToolCall) -> EarlyCall | None:
        """Remove and return a call that has started; None if it has not."""
        return self.started.pop(call.id, None)

    def drop(self, but: Collection[ToolCall] = ()) -> Sequence[ToolCallFinished]:
        """Cancel the calls that were not taken, except those in `but`; returns an end for each."""
        kept = {call.id for call in but}
        dropped = [early for early in self.started.values() if early.call.id not in kept]
        for early in dropped:
            del self.started[early.call.id]
        return [early.drop() for early in dropped]
