"""Middleware for repeated calls: a cache of results, and a guard that refuses repetitions."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from toolkit._context import ToolContext
from toolkit._dialects.base import canonical_text
from toolkit._execution.dispatcher import Middleware, Next
from toolkit._guards.options import check_sync_function
from toolkit._messages import ToolCall, ToolResult
from toolkit._options import check_options, is_float, is_whole
from toolkit._tools.tool import Tool
from toolkit.errors import Denied, Halt, ToolError

ADVICE = "Equal arguments gave the same result each time: change them, use another tool, or answer with what there is."


def identify(call: ToolCall) -> tuple[str, str]:
    """Return a key that is the same for equal calls: the tool's name, and the arguments as canonical JSON."""
    return call.name, canonical_text(call.arguments)


CacheKey: TypeAlias = tuple[str, tuple[str, str]]


@check_options
def cache(
    *, ttl: float = 60.0, maxsize: int = 256, shared: bool = False, clock: Callable[[], float] = time.monotonic
) -> Middleware:
    """Create a middleware that caches the results of tools with `effect="read"`.

    A call with equal arguments gets a copy of the earlier result without passing any gate. So the results of tools with
    their own gates are not cached, and each run has its own cache. A call of a tool with another effect clears the
    cache. Errors, and results that cannot be copied, are not cached.

    Args:
        ttl: Lifetime of a result, in seconds.
        maxsize: Number of results. The least recently used one is removed first.
        shared: Whether runs share results, even with different deps.
        clock: Returns the time in seconds.

    Raises:
        ValueError: `ttl` is not a number above 0, or `maxsize` is not a whole number above 0.
        DefinitionError: `clock` is not a sync function.
    """
    if not (is_float(ttl) and is_whole(maxsize, 1) and ttl > 0):
        raise ValueError(
            f"cache(ttl={ttl!r}, maxsize={maxsize!r}): ttl must be a number of seconds above 0, and maxsize a whole "
            "number above 0."
        )
    results = _ResultCache(ttl, maxsize, check_sync_function("clock", clock))

    async def use_cache(call: ToolCall, call_next: Next) -> ToolResult:
        tool = call_next.tools.get(call.name)
        if tool is not None and tool.settings.effect != "read":
            return await results.invalidate(call, call_next)
        if tool is None or tool.settings.authorize is not None or tool.settings.approve is not False:
            return await call_next(call)
        scope = "" if shared else call_next.context.run_id
        return await results.get_or_call(tool, (scope, identify(call)), call, call_next)

    return use_cache


@dataclass(frozen=True)
class _CacheEntry:
    tool: Tool[..., Any]
    expires: float
    result: ToolResult


class _ResultCache:
    """Results by key, least recently used first."""

    def __init__(self, ttl: float, maxsize: int, clock: Callable[[], float]) -> None:
        self._ttl = ttl
        self._maxsize = maxsize
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[CacheKey, _CacheEntry] = {}
        self._changes = 0

    async def get_or_call(self, tool: Tool[..., Any], place: CacheKey, call: ToolCall, call_next: Next) -> ToolResult:
        with self._lock:
            entry = self._look_up(tool, place)
            changes = self._changes
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
            if changes == self._changes:  # otherwise the result may be older than a change
                self._entries[place] = entry
            if len(self._entries) > self._maxsize:
                del self._entries[next(iter(self._entries))]


def _copy(result: ToolResult) -> ToolResult | None:
    """Copy a result, so that callers do not share it. Return None if its values cannot be copied."""
    try:
        return deepcopy(result)
    except Exception:  # noqa: BLE001  copying runs code of the values' classes
        return None


# The most runs whose values are kept; the least recently used one is removed first.
MAX_RUNS = 10_000
# The most of each count of `repeat_guard`, which keeps so many calls.
MAX_COUNT = 1_000_000

S = TypeVar("S")


class PerRun(Generic[S]):
    """A separate value for each run, for the data of a middleware. A resumed run finds its value again.

    A call without a run gets a new value.

    Args:
        make: A function that creates the value of a run. The calls of one turn share it, on several threads.

    Raises:
        DefinitionError: `make` is not a sync function.
    """

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = check_sync_function("make", make)
        self._lock = threading.Lock()
        self._states: dict[str, S] = {}

    def get(self, context: ToolContext[Any]) -> S:
        """Return the value of a call's run."""
        if not context.run_id:
            return self._make()
        with self._lock:
            state = self._states.pop(context.run_id) if context.run_id in self._states else self._make()
            self._states[context.run_id] = state
            if len(self._states) > MAX_RUNS:
                del self._states[next(iter(self._states))]
        return state


@check_options
def repeat_guard(
    *,
    limit: int = 3,
    window: int = 4,
    stop_after: int | None = None,
    reset_after: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Middleware:
    """Create a middleware that refuses a call that repeats with equal arguments and the same result.

    Calls that still run count, too. Another call in between, or another result, resets the count. So a model may poll
    something that changes.

    Args:
        limit: How often a call may run in a row.
        window: How many calls of an alternating pair, A-B-A-B, may run: an even number, 4 or more.
        stop_after: Number of refusals in a row after which the run ends. None does not end it.
        reset_after: Seconds since the last call that ran, after which the count starts again. None does not reset it.
        clock: Returns the time in seconds.

    Raises:
        ValueError: A number is out of range.
        DefinitionError: `clock` is not a sync function.
    """
    check_sync_function("clock", clock)
    counts = (limit, window, 1 if stop_after is None else stop_after)
    if not all(is_whole(value, 1) for value in counts) or max(counts) > MAX_COUNT or window < 4 or window % 2:
        raise ValueError(
            f"repeat_guard(limit={limit!r}, window={window!r}, stop_after={stop_after!r}): limit and stop_after must "
            f"be at least 1, and window an even number of at least 4; none above {MAX_COUNT:,}."
        )

    if reset_after is not None and not (is_float(reset_after) and reset_after > 0):
        raise ValueError(f"repeat_guard(reset_after={reset_after!r}): it must be a number of seconds above 0, or None.")

    cycles = ((1, limit), (2, window // 2))
    histories = PerRun(lambda: _CallHistory(deque(maxlen=max(limit, window)), stop_after, reset_after, clock))

    async def refuse_repeats(call: ToolCall, call_next: Next) -> ToolResult:
        history = histories.get(call_next.context)
        past = history.start(_PastCall(identify(call)), cycles)
        try:
            result = await call_next(call)
        except ToolError as refusal:
            past.outcome = (True, hash(refusal.text))
            raise
        except BaseException:
            history.forget(past)  # it waits for approval, or the run has ended
            raise

        past.outcome = (result.is_error, hash((result.text, result.images, result.files)))
        return result

    return refuse_repeats


@dataclass(eq=False)
class _PastCall:
    """A call that was allowed, and its outcome: whether it failed, and a hash of its result. None while it runs."""

    identity: tuple[str, str]
    outcome: tuple[bool, int] | None = None

    def is_repeat_of(self, other: _PastCall) -> bool:
        if self.identity != other.identity:
            return False
        return self.outcome is None or other.outcome is None or self.outcome == other.outcome


@dataclass
class _CallHistory:
    calls: deque[_PastCall]
    stop_after: int | None
    reset_after: float | None
    clock: Callable[[], float]
    refused: int = 0
    last_time: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, past: _PastCall, cycles: tuple[tuple[int, int], ...]) -> _PastCall:
        """Record a call.

        Raises:
            Denied: The call repeats earlier calls.
            Halt: The call repeats earlier calls, and so many calls were refused that `stop_after` ends the run.
        """
        with self.lock:
            now = self.clock()
            if self.reset_after is not None and now - self.last_time >= self.reset_after:
                self.calls.clear()
            last = list(self.calls)
            if any(_is_cycle(past, last[-period * times :], period, times) for period, times in cycles):
                self.refused += 1
                text = _format_refusal(past.identity[0], last[-1])
                raise Halt(text) if self.refused == self.stop_after else Denied(f"{text} {ADVICE}")

            self.refused = 0
            self.last_time = now
            self.calls.append(past)
        return past

    def forget(self, past: _PastCall) -> None:
        """Remove a call that did not end, since it may be made again."""
        with self.lock, suppress(ValueError):
            self.calls.remove(past)


def _is_cycle(past: _PastCall, last: Sequence[_PastCall], period: int, times: int) -> bool:
    """Return whether the last calls repeat a cycle of `period` calls so many times, and this call would continue it."""
    cycle = {earlier.identity for earlier in last[:period]}
    return (
        len(last) == period * times
        and len(cycle) == period
        and past.identity in cycle
        and all(earlier.is_repeat_of(later) for earlier, later in zip(last, last[period:]))
    )


def _format_refusal(name: str, last: _PastCall) -> str:
    has_failed = last.outcome is not None and last.outcome[0]
    repeated = "failures" if has_failed else "calls"
    return f'Circuit breaker skipped tool "{name[:100]}" after repeated {repeated}.'
