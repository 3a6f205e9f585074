"""Cancel a run and everything that it started, from any thread or by a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NoReturn

from typing_extensions import Self

from toolkit.errors import Cancelled, TimedOut

Callback = Callable[[], object]

# Values of `Cancellation.reason`.
CANCELLED: Final = "cancelled"
DEADLINE: Final = "deadline"


class Cancellation:
    """A token that is cancelled once, by `cancel`, by its parent, or when its deadline passes. It is true from then on.

    A `with` block cancels it at its end, so that whatever still runs can see that it should stop.

    Args:
        seconds: Time until the deadline; none by default. A child has no later deadline than its parent.
        parent: Cancels this one too; a child does not cancel its parent.
    """

    def __init__(self, seconds: float | None = None, parent: Cancellation | None = None) -> None:
        self._lock = threading.RLock()  # reentrant: a signal handler may interrupt it
        self._callbacks: dict[object, Callback] = {}
        self._reason = ""
        self._parent = parent
        self.deadline: float | None = None if parent is None else parent.deadline
        if seconds is not None:
            self.restart(seconds)
        self._unsubscribe: Callback = lambda: None
        if parent is not None:
            self._unsubscribe = parent.subscribe(lambda: self.cancel(parent.reason))

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> NoReturn:  # nor has a ToolContext: this is a field of it
        raise TypeError("a context comes from the run: write ToolContext alone, or ToolContext | None")

    @property
    def reason(self) -> str:
        """The reason: "cancelled", "deadline", or "" while it is not cancelled."""
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
        """Set the deadline again, counted from now; None leaves that of the parent."""
        deadlines = [] if seconds is None else [time.monotonic() + seconds]
        if self._parent is not None and self._parent.deadline is not None:
            deadlines.append(self._parent.deadline)
        self.deadline = min(deadlines, default=None)

    def cancel(self, reason: str = CANCELLED) -> bool:
        """Cancel, and unsubscribe from the parent. Return whether this was the first time."""
        with self._lock:
            if self._reason:
                return False
            self._reason = reason
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        self._unsubscribe()
        for callback in callbacks:
            _notify(callback)
        return True

    def subscribe(self, callback: Callback) -> Callback:
        """Call a function at `cancel`, on the thread that cancels, or at once if it is cancelled already.

        A deadline that passes calls nothing: waits are bounded by `remaining`.

        Returns:
            A function that unsubscribes.
        """
        key = object()
        with self._lock:
            if not self._reason:
                self._callbacks[key] = callback
                return lambda: self._callbacks.pop(key, None)
        callback()
        return lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()


# Of the run whose tool is running: runs that the tool starts are cancelled with it.
current_cancellation: ContextVar[Cancellation | None] = ContextVar("current_cancellation", default=None)


@contextmanager
def use_cancellation(cancellation: Cancellation) -> Iterator[None]:
    """Make a cancellation the current one for the block."""
    outer = current_cancellation.get()
    try:
        # Inside the try: after Ctrl-C, what is set here must not stay for later runs of this thread.
        current_cancellation.set(cancellation)
        yield
    finally:
        current_cancellation.set(outer)


def check_cancelled() -> None:
    """Raise if the current call or run was cancelled.

    Raises:
        Cancelled, TimedOut: The call or run was cancelled, or its time is up.
    """
    if cancellation := current_cancellation.get():
        raise cancellation_error(cancellation)


@contextmanager
def on_cancel(cancellation: Cancellation | None, callback: Callable[[], object]) -> Iterator[None]:
    """Call a function if `cancellation` is cancelled during the `with` block."""
    leave = cancellation.subscribe(callback) if cancellation is not None else None
    try:
        yield
    finally:
        if leave:
            leave()


def cancellation_error(cancellation: Cancellation) -> TimedOut | Cancelled:
    """Make the error of a wait that was cancelled or timed out."""
    is_late = cancellation.reason in ("", DEADLINE)  # empty if a wait ended just before the deadline
    return TimedOut() if is_late else Cancelled()


def note_effects(end: TimedOut | Cancelled, *, has_started: bool, is_running: bool = False) -> TimedOut | Cancelled:
    """Add to the error of a wait that the function is still running, or that it had started."""
    if not (has_started or is_running):
        return end
    note = "What it was doing may still take effect." if is_running else "It had started, and its effects stay."
    return Cancelled(note[0].lower() + note[1:]) if isinstance(end, Cancelled) else TimedOut(f"{end} {note}")


def _notify(callback: Callback) -> None:
    try:
        callback()
    except Exception:  # the other subscribers must be called
        import logging  # it takes longer to load than a tool

        logging.getLogger("toolkit").exception("The cancellation callback %r failed.", callback)
