"""Calls that begin while their answer is still arriving; dropped where it does not hold them in the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias

from toolkit._concurrency.backend import Door, Handle
from toolkit._context import unheard
from toolkit._execution.invoke import Tell
from toolkit._messages import ToolCall, ToolResult
from toolkit.events import CallEvent, ToolCallFinished

DROPPED_TEXT = "Dropped: the model's answer does not hold this call in the end."

Job: TypeAlias = Callable[[Tell], Coroutine[Any, Any, ToolResult]]


class Kept:
    """What is told before anybody hears it; any thread may tell."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._told: list[CallEvent] = []
        self._hear: Tell = self._told.append

    def tell(self, event: CallEvent) -> None:
        """Pass an event on, or keep it."""
        with self._lock:
            self._hear(event)

    def hear(self, hear: Tell) -> None:
        """Pass on what was told so far, and from now on whatever is told."""
        with self._lock:
            for event in self._told:
                hear(event)
            self._hear = hear


@dataclass(frozen=True)
class Begun:
    """A call that has begun early."""

    call: ToolCall
    told: Kept
    handle: Handle[ToolResult]

    async def wait(self, tell: Tell) -> ToolResult:
        """Wait for its result, and pass on what it tells."""
        self.told.hear(tell)
        return await self.handle.wait()

    def drop(self) -> ToolCallFinished:
        """Give it up."""
        self.told.hear(unheard)
        self.handle.drop()
        result = ToolResult(text=DROPPED_TEXT, error=DROPPED_TEXT, kind="cancelled")
        return ToolCallFinished(self.call, result, 0.0)


@dataclass
class EarlyCalls:
    """The calls of one answer that have begun early, by call id."""

    begun: dict[str, Begun] = field(default_factory=dict)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self.begun

    def begin(self, call: ToolCall, job: Job, door: Door) -> None:
        """Begin a call."""
        told = Kept()
        self.begun[call.id] = Begun(call, told, door.begin(lambda: job(told.tell)))

    def take(self, call: ToolCall) -> Begun | None:
        """Find what was begun for a call."""
        return self.begun.pop(call.id, None)

    def drop(self, but: Collection[ToolCall] = ()) -> Sequence[ToolCallFinished]:
        """Give up whatever was not taken, but for the calls that the whole answer holds; tell the end of each."""
        held = {call.id for call in but}
        dropped = [each for each in self.begun.values() if each.call.id not in held]
        for each in dropped:
            del self.begun[each.call.id]
        return [each.drop() for each in dropped]
