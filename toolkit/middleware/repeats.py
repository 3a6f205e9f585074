"""Calls that repeat earlier ones with the same result."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from toolkit._execution.middleware import Middleware, Next
from toolkit._messages import ToolCall, ToolResult
from toolkit._options import check_options
from toolkit.errors import Denied, Halt, ToolError
from toolkit.middleware.per_run import PerRun, identify


@check_options
def repeat_guard(
    limit: int = 3,
    window: int = 4,
    stop_after: int | None = None,
    reset_after: float | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Middleware:
    """Create a middleware that refuses a call that repeats with equal arguments and the same result.

    Calls that still run count, too. Another call in between, or another result, resets the count. So a model may poll
    something that changes.

    Args:
        limit: How often a call may run in a row.
        window: How often two alternating calls, A-B-A-B, may run together: an even number, 4 or more.
        stop_after: Number of refusals in a row after which the run ends. None does not end it.
        reset_after: Seconds since the last call that ran, after which the count starts again. None does not reset it.
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
