"""Break a model's circles: the same call over and over, or two in turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from toolkit._messages import ToolCall, ToolResult
from toolkit.errors import Denied, Halt, ToolError
from toolkit.middleware.equality import identity_of
from toolkit.middleware.line import Middleware, Next
from toolkit.middleware.per_run import PerRun


def repeat_guard(limit: int = 3, window: int = 4, stop_after: int | None = None) -> Middleware:
    """Make a middleware that refuses a call which has been made before, with equal arguments and the same result.

    Calls at work at the same time count as well. A call between that is another one, or that gives another result,
    begins the count anew; so a model may ask for something that changes as often as it likes.

    Args:
        limit: How often in a row a call is carried out.
        window: How many calls two calls in turn may make, A-B-A-B: an even number, 4 or more.
        stop_after: How many refusals in a row end the run, by Halt; none do by default, and the turns run out.

    Raises:
        ValueError: A bound is none that it can have.
    """
    if limit < 1 or window < 4 or window % 2 or stop_after == 0:
        raise ValueError("repeat_guard: limit and stop_after are 1 or more, window is even, 4 or more.")
    circles = ((1, limit), (2, window // 2))
    histories = PerRun(lambda: _History(deque(maxlen=max(limit, window)), stop_after))

    async def guarding(call: ToolCall, following: Next) -> ToolResult:
        history = histories.of(following.context)
        made = history.begin(_Made(identity_of(call)), circles)
        try:
            result = await following(call)
        except ToolError as refusal:
            made.outcome = (True, hash(refusal.text))
            raise
        except BaseException:
            history.forget(made)  # it waits for somebody's yes, or the run has ended
            raise
        made.outcome = (result.is_error, hash((result.text, result.images, result.files)))
        return result

    return guarding


@dataclass(eq=False)
class _Made:
    """A call that was let pass, and its outcome: whether it failed, and what it gave. At work, it has none."""

    identity: tuple[str, str]
    outcome: tuple[bool, int] | None = None

    def repeats(self, other: _Made) -> bool:
        if self.identity != other.identity:
            return False
        return self.outcome is None or other.outcome is None or self.outcome == other.outcome


@dataclass
class _History:
    calls: deque[_Made]
    stop_after: int | None
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, made: _Made, circles: tuple[tuple[int, int], ...]) -> _Made:
        """Note a call.

        Raises:
            Denied: It goes round in a circle.
            Halt: It does so once too often.
        """
        with self.lock:
            last = list(self.calls)
            if any(_goes_round(made, last[-period * times :], period, times) for period, times in circles):
                self.refused += 1
                raise (Halt if self.refused == self.stop_after else Denied)(_text(made.identity[0], last[-1]))
            self.refused = 0
            self.calls.append(made)
        return made

    def forget(self, made: _Made) -> None:
        """Take a call back that may be made once more."""
        with self.lock, suppress(ValueError):
            self.calls.remove(made)


def _goes_round(made: _Made, last: Sequence[_Made], period: int, times: int) -> bool:
    """Tell whether the last calls went round in a circle of so many calls, and this one would go on with it."""
    circle = {earlier.identity for earlier in last[:period]}
    return (
        len(last) == period * times
        and len(circle) == period
        and made.identity in circle
        and all(earlier.repeats(later) for earlier, later in zip(last, last[period:]))
    )


def _text(name: str, last: _Made) -> str:
    has_failed = last.outcome is not None and last.outcome[0]
    return (
        f'Circuit breaker skipped tool "{name[:100]}" after repeated {"failures" if has_failed else "calls"}. '
        "Equal arguments gave the same result each time: change them, use another tool, or answer with what there is."
    )
