"""Calling off: one token for a run, children for what it does; from any thread, and by a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from typing_extensions import Self

Callback = Callable[[], object]

# Why something was called off.
CANCELLED: Final = "cancelled"
DEADLINE: Final = "deadline"


class Cancellation:
    """Tells everybody who works for a run that it is called off.

    A `with` block calls it off at its end: what works on may look whether it still should.

    Args:
        seconds: How long there is; any time by default. A child has no more than its parent.
        parent: What calls this one off too; a child calls nothing off but itself.
    """

    def __init__(self, seconds: float | None = None, parent: Cancellation | None = None) -> None:
        self._lock = threading.RLock()  # a signal handler may come in between
        self._callbacks: dict[object, Callback] = {}
        self._reason = ""
        self._parent = parent
        self.restart(seconds)
        self._leave: Callback | None = parent.subscribe(self._follow) if parent is not None else None

    @property
    def reason(self) -> str:
        """Why it was called off: `cancelled` or `deadline`; empty while it is not."""
        if not self._reason and self.deadline is not None and time.monotonic() >= self.deadline:
            return DEADLINE
        return self._reason

    @property
    def remaining(self) -> float | None:
        """Seconds that are left, 0 at least; None without a deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def __bool__(self) -> bool:
        return bool(self.reason)

    def restart(self, seconds: float | None) -> None:
        """Count the time anew, from now."""
        own = None if seconds is None else time.monotonic() + seconds
        others = () if self._parent is None else (self._parent.deadline,)
        self.deadline: float | None = min((at for at in (own, *others) if at is not None), default=None)

    def cancel(self, reason: str = CANCELLED) -> bool:
        """Call off, once; tell whether this was the time that counted."""
        with self._lock:
            if self._reason:
                return False
            self._reason = reason
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            _told(callback)
        return True

    def subscribe(self, callback: Callback) -> Callback:
        """Have a function called at `cancel`, on the thread that cancels; at once where that is over.

        A deadline calls nothing: who waits, waits no longer than `remaining`.

        Returns:
            What ends the subscription.
        """
        key = object()
        with self._lock:
            if not self._reason:
                self._callbacks[key] = callback
                return lambda: self._callbacks.pop(key, None)
        callback()
        return lambda: None

    def _follow(self) -> None:
        self.cancel(self._parent.reason if self._parent is not None else CANCELLED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.cancel()

    def close(self) -> None:
        """Leave the parent."""
        if self._leave is not None:
            self._leave()
            self._leave = None


# What the run whose tool works here is called off by: runs that the tool begins end with it.
current_cancellation: ContextVar[Cancellation | None] = ContextVar("outer", default=None)


def _told(callback: Callback) -> None:
    try:
        callback()
    except Exception:  # the others have to hear of it
        import logging  # it takes longer to load than a tool

        logging.getLogger("toolkit").exception("%r failed when it heard of a cancellation.", callback)
