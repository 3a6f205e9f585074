"""Middleware: functions around the pipeline of a call.

A middleware that rewrites a call's arguments sends them through validation and every gate.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
import threading
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic_core import from_json

from toolkit._concurrency.backend import Backend, await_value, is_async
from toolkit._context import ToolContext
from toolkit._guards.redaction import Clean, make_cleaner
from toolkit._messages import File, Image, ToolCall, ToolResult
from toolkit._options import check_options
from toolkit._tools.results import explain_exception, write_safely, write_value
from toolkit._tools.tool import Tool
from toolkit.errors import Denied, Failed, Halt, ToolError

__all__ = ["Middleware", "Next", "PerRun", "audit", "cache", "redact", "repeat_guard"]

T = TypeVar("T")

CallHandler: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]


@dataclass(frozen=True)
class Next:
    """The rest of a call's pipeline: inner middleware, the gates, the tool. Calling it runs the call.

    Attributes:
        handler: Runs the call.
        context: Context of the call: deps, ids, whether the run was cancelled.
        tools: Tools of the run, by name.
        backend: Backend of the run.
    """

    handler: CallHandler = field(repr=False)
    context: ToolContext[Any]
    tools: Mapping[str, Tool[..., Any]] = field(repr=False)
    backend: Backend = field(repr=False)

    def __call__(self, call: ToolCall) -> Awaitable[ToolResult]:
        """Run the call; a gate that refuses it raises a ToolError."""
        return self.handler(call)

    async def wait(self, promise: Awaitable[T]) -> T:
        """Await something that needs an event loop, in sync runs too, which have none of their own.

        Raises:
            TimedOut: The call's deadline has passed.
            Cancelled: The run was cancelled.
        """
        try:
            return await self.backend.call(
                lambda: await_value(promise), is_async=True, cancellation=self.context.cancellation
            )
        finally:
            if inspect.iscoroutine(promise) and inspect.getcoroutinestate(promise) == inspect.CORO_CREATED:
                promise.close()  # it was too late to begin


# Gets the call and what follows; answers with a result, its own or that of what follows.
Middleware: TypeAlias = Callable[[ToolCall, Next], Awaitable[ToolResult]]


def compose(
    middleware: Sequence[Middleware],
    line: CallHandler,
    context: ToolContext[Any],
    tools: Mapping[str, Tool[..., Any]],
    backend: Backend,
) -> CallHandler:
    """Wrap a handler in middleware, the first one outermost."""
    for wrapper in reversed(middleware):
        line = _wrap(wrapper, Next(line, context, tools, backend))
    return line


def _wrap(wrapper: Middleware, call_next: Next) -> CallHandler:
    async def handle(call: ToolCall) -> ToolResult:
        try:
            return await wrapper(call, call_next)
        except SystemExit as error:  # it would end the process; a KeyboardInterrupt is meant to
            raise RuntimeError("it raised SystemExit") from error

    return handle


def identify(call: ToolCall) -> tuple[str, str]:
    """Return what equal calls have in common: the tool's name and the arguments as canonical JSON.

    Text that is not JSON stays as it is.
    """
    try:
        return call.name, json.dumps(from_json(call.arguments), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return call.name, call.arguments


logger = logging.getLogger("toolkit")

AuditRecord: TypeAlias = Mapping[str, Any]


def audit(write: Callable[[AuditRecord], object] | str | os.PathLike[str]) -> Middleware:
    """Create a middleware that writes one record per call once it has ended; put it first, so that it sees all calls.

    A record has `at` (when the call ended, ISO 8601 in UTC), `run`, `call`, `tool` (as the model wrote it, at most 100
    characters), `arguments` (SHA-256 of their value, in hexadecimal), `outcome` (`ok`; the kind of an error result,
    such as `denied`; or the name of the exception that paused or ended the run, such as `Deferred`) and `seconds`. An
    exception while writing is logged, and the call goes on.

    Args:
        write: Takes a record, on the thread of the call; it must not block an event loop for long. Or a path: each
            record is appended to that file as a line of JSON.

    Raises:
        OSError: The file cannot be written.
        TypeError: `write` is a coroutine function.
    """
    if callable(write):
        if is_async(write):
            raise TypeError("audit() takes a plain function: a coroutine function would never be awaited.")
        return partial(_audit_call, write)
    _append_line(write, "")
    return partial(_audit_call, lambda record: _append_line(write, json.dumps(record) + "\n"))


async def _audit_call(write: Callable[[AuditRecord], object], call: ToolCall, call_next: Next) -> ToolResult:
    began = time.perf_counter()
    outcome = "ok"
    try:
        result = await call_next(call)
        outcome = (result.kind or "failed") if result.is_error else "ok"
    except BaseException as error:
        outcome = error.kind if isinstance(error, ToolError) else type(error).__name__
        raise
    finally:
        try:
            write(_make_record(call, call_next.context, outcome, time.perf_counter() - began))
        except (Exception, SystemExit):
            logger.exception("The audit record of the call %s could not be written.", call.id)
    return result


def _make_record(call: ToolCall, context: ToolContext[Any], outcome: str, seconds: float) -> AuditRecord:
    import hashlib  # it takes longer to load than all of this package, and few runs are audited

    return {
        "at": datetime.now(timezone.utc).isoformat(),
        "run": context.run_id,
        "call": call.id or context.call_id,
        "tool": call.name[:100],
        "arguments": hashlib.sha256(identify(call)[1].encode("utf-8", "surrogatepass")).hexdigest(),
        "outcome": outcome,
        "seconds": round(seconds, 6),
    }


def _append_line(path: str | os.PathLike[str], line: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(line)


CacheKey: TypeAlias = tuple[str, tuple[str, str]]


@check_options
def cache(
    ttl: float = 60.0, maxsize: int = 256, *, shared: bool = False, clock: Callable[[], float] = time.monotonic
) -> Middleware:
    """Create a middleware that caches the results of tools with `effect="read"`.

    A call with equal arguments gets a copy of the first one's result without asking a gate again; so tools with gates
    of their own are not cached, and runs do not share results. Any call of a tool that may change something clears the
    cache. Errors and results that cannot be copied are not cached; a result is used for the same tool only, not for
    another one of its name.

    Args:
        ttl: Lifetime of a result, in seconds.
        maxsize: Number of results; the least recently used one is dropped first.
        shared: Whether runs share results, whatever their deps.
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


# Runs that are remembered at a time; then the one that was used longest ago is forgotten.
MAX_RUNS = 10_000

S = TypeVar("S")


class PerRun(Generic[S]):
    """State of a middleware for each run, so that concurrent runs never mix, and a resumed one finds its own.

    A call without a run gets a state of its own.

    Args:
        make: Creates the state of a run on first use. The calls of one turn share it, from several threads.
    """

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._states: dict[str, S] = {}

    def get(self, context: ToolContext[Any]) -> S:
        """Return the state of a call's run."""
        if not context.run_id:
            return self._make()
        with self._lock:
            state = self._states.pop(context.run_id) if context.run_id in self._states else self._make()
            self._states[context.run_id] = state
            if len(self._states) > MAX_RUNS:
                del self._states[next(iter(self._states))]
        return state


_PARTS = (Image, File)


@check_options
def redact(
    secrets: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = (), instead: str = "[redacted]"
) -> Middleware:
    """Create a middleware that removes secrets from a call's result: text, error, value, details, exception.

    A value or details with a secret become plain data without it. A ToolError becomes a Failed without it, any other
    exception a RuntimeError; they keep the traceback, unless a line of source in it holds a secret. Not found are
    secrets in pieces, such as one spread over the items of a list; encrypted, compressed or twice encoded ones; ones
    in a picture or a file; in progress reports; in the reason of an attempt that was retried; and in exceptions that
    end the run, such as FatalError.

    Args:
        secrets: Secret texts, such as keys; also found escaped, or in URL encoding, base64 or hex, wrapped or not.
        patterns: Regular expressions of further texts, such as r"sk-[A-Za-z0-9]{20,}".
        instead: Replaces them.

    Raises:
        ValueError: A secret is shorter than 4 characters, or a pattern matches the empty text.
        TypeError: Secrets or patterns are one text instead of a list.
    """
    clean = make_cleaner(secrets, patterns, instead)

    async def redacting(call: ToolCall, call_next: Next) -> ToolResult:
        try:
            result = await call_next(call)
        except ToolError as refusal:
            result = explain_exception(refusal, call.name, (), ())
        return _clean_result(result, clean)

    return redacting


def _clean_result(result: ToolResult, clean: Clean) -> ToolResult:
    value = partial(_clean_value, clean=clean)
    return result.replace(
        value=value(result.value),
        text=value(result.text),
        error=value(result.error),
        details=value(result.details),
        exception=_clean_exception(result.exception, clean),
        repairs=tuple(map(clean, result.repairs)),
    )


def _clean_value(value: Any, clean: Clean) -> Any:
    """Clean a value; next to pictures and files item by item, so that those stay."""
    if type(value) in _PARTS:
        return value
    if type(value) in (list, tuple) and any(type(part) in _PARTS for part in value):
        return type(value)(_clean_value(part, clean) for part in value)
    text = write_value(value)
    cleaned = clean(text)
    if cleaned == text:
        return value
    try:
        return cleaned if isinstance(value, str) else from_json(cleaned)
    except ValueError:  # a pattern took away more than the inside of a text
        return cleaned


def _clean_exception(error: BaseException | None, clean: Clean) -> BaseException | None:
    if error is None or not _has_secret(error, clean):
        return error
    kind = Failed if isinstance(error, ToolError) else RuntimeError  # what is a ToolError ends no run
    message = "".join(traceback.format_exception_only(error)).strip()
    cleaned = kind(clean(message)).with_traceback(error.__traceback__)
    return cleaned.with_traceback(None) if _has_secret(cleaned, clean) else cleaned


def _has_secret(error: BaseException, clean: Clean) -> bool:
    """Return whether an exception shows a secret: in its message, causes, notes, or a line of its traceback."""
    text = "".join(traceback.format_exception(error)) + write_safely(repr, error)
    return clean(text) != text


@check_options
def repeat_guard(
    limit: int = 3,
    window: int = 4,
    stop_after: int | None = None,
    reset_after: float | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Middleware:
    """Create a middleware that refuses a call which was made before with equal arguments and the same result.

    Running calls count as well. A different call in between, or a different result, resets the count; so a model may
    poll something that changes as often as it likes.

    Args:
        limit: How often in a row a call runs.
        window: Number of calls that two alternating calls, A-B-A-B, may make: an even number, 4 or more.
        stop_after: Number of refusals in a row that ends the run, by Halt; None never ends it.
        reset_after: Seconds since the last call that ran, after which the count starts again; None never resets it.
        clock: Returns the time in seconds.

    Raises:
        ValueError: A number is out of range.
    """
    if limit < 1 or window < 4 or window % 2 or stop_after == 0:
        raise ValueError("repeat_guard: limit and stop_after are 1 or more, window is even, 4 or more.")
    if reset_after is not None and reset_after <= 0:
        raise ValueError(f"repeat_guard: reset_after={reset_after!r} must be a number of seconds above 0, or None.")
    circles = ((1, limit), (2, window // 2))
    histories = PerRun(lambda: _CallHistory(deque(maxlen=max(limit, window)), stop_after, reset_after, clock))

    async def guarding(call: ToolCall, call_next: Next) -> ToolResult:
        history = histories.get(call_next.context)
        made = history.start(_PastCall(identify(call)), circles)
        try:
            result = await call_next(call)
        except ToolError as refusal:
            made.outcome = (True, hash(refusal.text))
            raise
        except BaseException:
            history.forget(made)  # it waits for approval, or the run has ended
            raise
        made.outcome = (result.is_error, hash((result.text, result.images, result.files)))
        return result

    return guarding


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

    def start(self, made: _PastCall, circles: tuple[tuple[int, int], ...]) -> _PastCall:
        """Record a call.

        Raises:
            Denied: It repeats earlier ones.
            Halt: It is the last refusal that `stop_after` allows.
        """
        with self.lock:
            now = self.clock()
            if self.reset_after is not None and now - self.last_time >= self.reset_after:
                self.calls.clear()
            last = list(self.calls)
            if any(_is_circle(made, last[-period * times :], period, times) for period, times in circles):
                self.refused += 1
                raise (Halt if self.refused == self.stop_after else Denied)(_format_refusal(made.identity[0], last[-1]))
            self.refused, self.last_time = 0, now
            self.calls.append(made)
        return made

    def forget(self, made: _PastCall) -> None:
        """Remove a call that may be made once more."""
        with self.lock, suppress(ValueError):
            self.calls.remove(made)


def _is_circle(made: _PastCall, last: Sequence[_PastCall], period: int, times: int) -> bool:
    """Return whether the last calls repeat with this period so many times, and this call would continue."""
    circle = {earlier.identity for earlier in last[:period]}
    return (
        len(last) == period * times
        and len(circle) == period
        and made.identity in circle
        and all(earlier.is_repeat_of(later) for earlier, later in zip(last, last[period:]))
    )


def _format_refusal(name: str, last: _PastCall) -> str:
    has_failed = last.outcome is not None and last.outcome[0]
    return (
        f'Circuit breaker skipped tool "{name[:100]}" after repeated {"failures" if has_failed else "calls"}. '
        "Equal arguments gave the same result each time: change them, use another tool, or answer with what there is."
    )
