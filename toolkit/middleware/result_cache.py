"""Results of tools that only read, for calls with equal arguments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolkit._execution.middleware import Middleware, Next
from toolkit._messages import ToolCall, ToolResult
from toolkit._options import check_options
from toolkit._tools.tool import Tool
from toolkit.middleware.per_run import identify

CacheKey: TypeAlias = tuple[str, tuple[str, str]]


@check_options
def cache(
    ttl: float = 60.0, maxsize: int = 256, *, shared: bool = False, clock: Callable[[], float] = time.monotonic
) -> Middleware:
    """Create a middleware that caches the results of tools with `effect="read"`.

    A call with equal arguments gets a copy of the earlier result, and no gate is asked. So tools with their own gates
    are not cached, and each run has its own cache. A call of a tool that may change something clears the cache. Errors,
    and results that cannot be copied, are not cached.

    Args:
        ttl: Lifetime of a result, in seconds.
        maxsize: Number of results. The least recently used one is removed first.
        shared: Whether runs share results, even with different deps.
        clock: Returns the time in seconds.

    Raises:
        ValueError: `ttl` or `maxsize` is not above 0.
    """
    if ttl <= 0 or maxsize <= 0:
        raise ValueError(f"cache(ttl={ttl!r}, maxsize={maxsize!r}): both have to be above 0.")
    results = _ResultCache(ttl, maxsize, clock)

    async def caching(call: ToolCall, call_next: Next) -> ToolResult:
        tool = call_next.tools.get(call.name)
        if tool is not None and tool.settings.effect != "read":
            return await results.invalidate(call, call_next)
        if tool is None or _is_gated(tool):
            return await call_next(call)
        scope = "" if shared else call_next.context.run_id
        return await results.get_or_call(tool, (scope, identify(call)), call, call_next)

    return caching


@dataclass(frozen=True)
class _CacheEntry:
    tool: Tool[..., Any]
    expires: float
    result: ToolResult


class _ResultCache:
    """Results by key, least recently used first."""

    def __init__(self, ttl: float, maxsize: int, clock: Callable[[], float]) -> None:
        self._ttl, self._maxsize, self._clock = ttl, maxsize, clock
        self._lock = threading.Lock()
        self._entries: dict[CacheKey, _CacheEntry] = {}
        self._changes = 0

    async def get_or_call(self, tool: Tool[..., Any], place: CacheKey, call: ToolCall, call_next: Next) -> ToolResult:
        with self._lock:
            entry, changes = self._look_up(tool, place), self._changes
        if entry is not None and (known := _copy(entry.result)) is not None:
            return known
        result = await call_next(call)
        if not result.is_error and (copy := _copy(result)) is not None:
            self._store(place, _CacheEntry(tool, self._clock() + self._ttl, copy), changes)
        return result

    async def invalidate(self, call: ToolCall, call_next: Next) -> ToolResult:
        try:
            return await call_next(call)
        finally:
            with self._lock:
                self._changes += 1
                self._entries.clear()

    def _look_up(self, tool: Tool[..., Any], place: CacheKey) -> _CacheEntry | None:
        entry = self._entries.pop(place, None)
        if entry is None or entry.tool is not tool or self._clock() >= entry.expires:
            return None
        self._entries[place] = entry
        return entry

    def _store(self, place: CacheKey, entry: _CacheEntry, changes: int) -> None:
        with self._lock:
            if changes == self._changes:  # else it may show how things were before
                self._entries[place] = entry
            if len(self._entries) > self._maxsize:
                del self._entries[next(iter(self._entries))]


def _copy(result: ToolResult) -> ToolResult | None:
    """Copy a result, so that callers do not share it; None if its values cannot be copied."""
    try:
        return deepcopy(result)
    except Exception:  # noqa: BLE001  copying runs the code of their classes
        return None


def _is_gated(tool: Tool[..., Any]) -> bool:
    return tool.settings.authorize is not None or tool.settings.approve is not False
