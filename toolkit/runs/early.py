"""Calls that begin while the answer that holds them is still arriving; dropped where it turns out to be cut."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from toolkit.doors import Door, Handle
from toolkit.messages import ToolCall, ToolResult


@dataclass
class EarlyCalls:
    """The calls of one answer that have begun early, by call id."""

    begun: dict[str, tuple[ToolCall, Handle[ToolResult]]] = field(default_factory=dict)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self.begun

    def begin(self, call: ToolCall, job: Callable[[], Coroutine[Any, Any, ToolResult]], door: Door) -> None:
        """Begin a call."""
        self.begun[call.id] = call, door.begin(job)

    def taken(self, call: ToolCall) -> Handle[ToolResult] | None:
        """Find what was begun for a call, where it still is the same call."""
        seen, handle = self.begun.pop(call.id, (call, None))
        if handle is None or (seen.name, seen.arguments) == (call.name, call.arguments):
            return handle
        handle.drop()
        return None

    def drop(self) -> None:
        """Give up whatever was not taken."""
        for _, handle in self.begun.values():
            handle.drop()
        self.begun.clear()
