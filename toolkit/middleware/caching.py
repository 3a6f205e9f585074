"""Answer a read that was made before with what it gave then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolkit._messages import ToolCall, ToolResult
from toolkit._tools.tool import Tool
from toolkit.middleware.equality import identity_of
from toolkit.middleware.line import Middleware, Next

Place: TypeAlias = tuple[str, tuple[str, str]]


def cache(
    ttl: float = 60.0, maxsize: int = 256, *, shared: bool = False, clock: Callable[[], float] = time.monotonic
) -> Middleware:
    """Make a middleware that keeps the results of tools with `effect="read"`.

    A call with equal arguments gets a copy of the result of the first one, without asking a gate again; so tools with
    gates of their own are not kept, and runs keep theirs apart. Any call of a tool that may change something forgets
    all. Errors are not kept, nor is what cannot be copied; nor is a tool's result given for another tool that took its
    name.

    Args:
        ttl: How long a result is good, in seconds.
        maxsize: How many results are kept; the one that was used longest ago goes first.
        shared: Whether runs see each other's results, whatever their deps.
        clock: Tells the time in seconds.

    Raises:
        ValueError: `ttl` or `maxsize` is not above 0.
    """
    if ttl <= 0 or maxsize <= 0:
        raise ValueError(f"cache(ttl={ttl!r}, maxsize={maxsize!r}): both have to be above 0.")
    kept = _Kept(ttl, maxsize, clock)

    async def caching(call: ToolCall, following: Next) -> ToolResult:
        tool = following.tools.get(call.name)
        if tool is not None and tool.settings.effect != "read":
            return await kept.changed(call, following)
        if tool is None or _is_gated(tool):
            return await following(call)
        scope = "" if shared else following.context.run_id
        return await kept.read(tool, (scope, identity_of(call)), call, following)

    return caching


@dataclass(frozen=True)
class _Entry:
    tool: Tool[..., Any]
    until: float
    result: ToolResult


class _Kept:
    """Results by place, the one that was used last at the end."""

    def __init__(self, ttl: float, maxsize: int, clock: Callable[[], float]) -> None:
        self._ttl, self._maxsize, self._clock = ttl, maxsize, clock
        self._lock = threading.Lock()
        self._entries: dict[Place, _Entry] = {}
        self._changes = 0

    async def read(self, tool: Tool[..., Any], place: Place, call: ToolCall, following: Next) -> ToolResult:
        with self._lock:
            entry, changes = self._found(tool, place), self._changes
        if entry is not None and (known := _copied(entry.result)) is not None:
            return known
        result = await following(call)
        if not result.is_error and (copy := _copied(result)) is not None:
            self._keep(place, _Entry(tool, self._clock() + self._ttl, copy), changes)
        return result

    async def changed(self, call: ToolCall, following: Next) -> ToolResult:
        try:
            return await following(call)
        finally:
            with self._lock:
                self._changes += 1
                self._entries.clear()

    def _found(self, tool: Tool[..., Any], place: Place) -> _Entry | None:
        entry = self._entries.pop(place, None)
        if entry is None or entry.tool is not tool or self._clock() >= entry.until:
            return None
        self._entries[place] = entry
        return entry

    def _keep(self, place: Place, entry: _Entry, changes: int) -> None:
        with self._lock:
            if changes == self._changes:  # else it may show how things were before
                self._entries[place] = entry
            if len(self._entries) > self._maxsize:
                del self._entries[next(iter(self._entries))]


def _copied(result: ToolResult) -> ToolResult | None:
    """Copy a result, so that nobody changes another one's; None where its values cannot be copied."""
    try:
        return deepcopy(result)
    except Exception:  # noqa: BLE001  copying runs the code of their classes
        return None


def _is_gated(tool: Tool[..., Any]) -> bool:
    return tool.settings.authorize is not None or tool.settings.approve is not False
