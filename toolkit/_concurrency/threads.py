"""Functions on threads of their own: daemons, each with a copy of its starter's context variables.

A semaphore for threads and tasks alike: whoever waits for a place waits as its run does.

Work that is done for a call ends with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

from toolkit._concurrency.cancellation import DEADLINE, Cancellation, current_cancellation
from toolkit.errors import Cancelled, TimedOut

Wait: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], Awaitable[None]]


class Semaphore:
    """Gives places to as many as there are; the others wait, and the one that came first is next.

    Args:
        places: How many there are, at least 1.
    """

    def __init__(self, places: int) -> None:
        self._places = self._free = places
        self._lock = Lock()
        self._waiting: deque[Future[None]] = deque()

    def __reduce__(self) -> tuple[Any, ...]:
        return Semaphore, (self._places,)  # another process has places of its own

    async def acquire(self, wait: Wait) -> None:
        """Take a place, which `release` gives back.

        Args:
            wait: Carries out a coroutine, for as long as the caller will wait; what it raises ends the wait.
        """
        with self._lock:
            if self._free:
                self._free -= 1
                return
            ticket = Future[None]()
            self._waiting.append(ticket)
        try:
            await wait(partial(_called_up, ticket))
        except BaseException:
            if not ticket.cancel():  # it was called up at the same moment
                self.release()
            raise

    def release(self) -> None:
        """Give the place to whoever has waited longest."""
        with self._lock:
            while self._waiting:
                ticket = self._waiting.popleft()
                if ticket.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        ticket.set_result(None)


async def _called_up(ticket: Future[None]) -> None:
    import asyncio

    await asyncio.wrap_future(ticket)


T = TypeVar("T")

# What came of a function: its value, or what it raised.
Outcome: TypeAlias = tuple[T | None, BaseException | None]

# A thread's starter waits until it runs, which on a busy machine takes as long as the scheduler likes: several starters
# wait side by side. More than four gain nothing, measured with 256 threads on 2 cores.
STARTERS = 4


class Job(Generic[T]):
    """One function, to be carried out on a thread of its own.

    Args:
        function: What is carried out.
        tell: Gets what came of it, on that thread.
    """

    def __init__(self, function: Callable[[], T], tell: Callable[[Outcome[T]], object]) -> None:
        self._function = function
        self._tell = tell
        self._context = copy_context()
        self._is_dropped = False
        self._is_at_work = False

    def start(self) -> None:
        """Begin, on a thread of its own."""
        ThreadPool([self], 1).start()

    def run(self) -> None:
        """Carry it out on this thread, unless it is dropped."""
        self._context.run(self._carry_out)

    def drop(self) -> None:
        """Do not begin what has not begun."""
        self._is_dropped = True

    def is_running(self) -> bool:
        """Tell whether the function is at work."""
        return self._is_at_work

    def _carry_out(self) -> None:
        self._is_at_work = True  # before it looks whether it is dropped, as who drops it looks at this afterwards
        outcome = None if self._is_dropped else capture_outcome(self._function)
        self._is_at_work = False
        if outcome:
            self._tell(outcome)


class Abandoned:
    """What was given up and works on: a thread cannot be ended, and a task may refuse to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_work: list[Callable[[], bool]] = []

    def __len__(self) -> int:
        if not self._at_work:
            return 0
        with self._lock:
            self._at_work = [is_at_work for is_at_work in self._at_work if is_at_work()]
            return len(self._at_work)

    def add(self, is_at_work: Callable[[], bool]) -> None:
        """Count something in, for as long as it is at work."""
        with self._lock:
            self._at_work.append(is_at_work)

    def give_up(self, *works: Job[Any]) -> None:
        """Wait no longer for functions; each is counted for as long as it is at work."""
        for work in works:
            work.drop()
            if work.is_running():
                self.add(work.is_running)


class ThreadPool:
    """Threads that carry functions out; one that is done takes the next that waits.

    As long as a function waits and there is a place, another thread is started: functions may wait for each other.

    Args:
        works: What is carried out, begun in this order.
        width: How many are at work at the same time.
    """

    def __init__(self, works: Sequence[Job[Any]], width: int) -> None:
        self._waiting = deque(works)
        self._places = deque(range(min(width, len(works))))

    def start(self) -> None:
        """Begin; many threads are started by several."""
        for _ in range(STARTERS):
            self._hire(self._lead)

    def _hire(self, role: Callable[[], None]) -> bool:
        """Start a thread, where there is a place; where the system has none left, do its work here and now."""
        try:
            self._places.popleft()
        except IndexError:
            return False
        thread = threading.Thread(target=role, name="toolkit-call", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            role()
        return True

    def _lead(self) -> None:
        while self._waiting and self._hire(self._serve):
            pass
        self._serve()

    def _serve(self) -> None:
        with suppress(IndexError):
            while True:
                self._waiting.popleft().run()


@contextmanager
def on_cancel(cancellation: Cancellation | None, callback: Callable[[], object]) -> Iterator[None]:
    """Have a function called when `cancellation` is called off, for as long as this is entered."""
    leave = cancellation.subscribe(callback) if cancellation is not None else None
    try:
        yield
    finally:
        if leave:
            leave()


def get_unless_cancelled(
    queue: SimpleQueue[T | None], cancellation: Cancellation | None, seconds: float | None = None
) -> T | None:
    """Wait on this thread for what is put into a queue; None when the time is up, or it is called off."""
    with on_cancel(cancellation, lambda: queue.put(None)), suppress(Empty):
        return queue.get(timeout=time_left(cancellation, seconds))
    return None


def time_left(cancellation: Cancellation | None, seconds: float | None = None) -> float | None:
    """Say how long one may wait, in seconds, as far as the system can count them; None for ever."""
    times = (seconds, cancellation.remaining if cancellation is not None else None, threading.TIMEOUT_MAX)
    known = [time for time in times if time is not None]
    return min(known) if len(known) > 1 else None


def cancellation_error(cancellation: Cancellation) -> TimedOut | Cancelled:
    """Make the error of what was given up."""
    is_late = cancellation.reason in ("", DEADLINE)  # the clock of a wait may be a little ahead
    return TimedOut("Timed out.") if is_late else Cancelled()


def note_still_running(end: TimedOut | Cancelled) -> TimedOut | Cancelled:
    """Say of what was given up that it works on."""
    if isinstance(end, Cancelled):
        return Cancelled("what it was doing may still take effect.")
    return TimedOut(f"{end} What it was doing may still take effect.")


def capture_outcome(function: Callable[[], T]) -> Outcome[T]:
    """Carry a function out; what it raises is part of the outcome."""
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001  it is raised again where the value is awaited
        return None, error


def unwrap_outcome(outcome: Outcome[T]) -> T:
    """Take the value of an outcome, or raise its error."""
    value, error = outcome
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # no error, so it is the function's value


@contextmanager
def use_cancellation(cancellation: Cancellation) -> Iterator[None]:
    """Have what is done in the block look at this one."""
    token = current_cancellation.set(cancellation)
    try:
        yield
    finally:
        current_cancellation.reset(token)


def check_cancelled() -> None:
    """Go no further where the call, or the run, that this is done for was called off.

    Raises:
        Cancelled, TimedOut: It was.
    """
    if cancellation := current_cancellation.get():
        raise cancellation_error(cancellation)
