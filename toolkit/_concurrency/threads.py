"""Daemon threads with a copy of the starter's context variables, jobs on several of them, and waiting."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import cache, partial
from math import inf
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

from toolkit._concurrency.cancellation import Cancellation, on_cancel

# Seconds after which a waiting thread looks for signals: one that came just before the wait did not wake it, and on
# Windows none does.
LONGEST_WAIT = 1.0
# Seconds for a cancelled job to end by itself, where its thread waits for nothing.
MOMENT = 0.05
# Seconds by which a wait of asyncio may end early: 0.016 on Windows before Python 3.13.
TICK = time.get_clock_info("monotonic").resolution

# Held while a call starts its process. A fork at that moment would inherit the pipes of that process, and whoever reads
# them, as `Popen` itself does, would wait for the end of the fork.
starting_process = threading.RLock()
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=starting_process.acquire,
        after_in_parent=starting_process.release,
        after_in_child=starting_process.release,
    )

Wait: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], Awaitable[None]]


# Seconds in which the threads of a compiled library let go of the interpreter at its end.
EXIT_SECONDS = 0.1


@cache
def wait_at_exit() -> None:
    """Let this process wait a moment at its exit, for the threads of a library that is written in Rust.

    One that holds a Python object when the interpreter ends aborts the process. Of 360 processes that ran an empty
    program of pydantic-monty on a busy machine 20 were aborted, and none that waited.
    """
    atexit.register(time.sleep, EXIT_SECONDS)


def start_thread(run: Callable[[], object], name: str) -> threading.Thread:
    """Start a daemon thread.

    Raises:
        RuntimeError: The system has no thread left, or the interpreter ends, where Python before 3.12 waits for ever.
    """
    if sys.is_finalizing():
        raise RuntimeError("Python is shutting down, and starts no more threads")
    thread = OwnThread(target=run, name=name, daemon=True)
    thread.start()
    return thread


# Names of exceptions that derive from BaseException and are errors of a function; some of them cannot be imported.
FAILURES = ("CancelledError", "BaseExceptionGroup", "PanicException")


class OwnThread(threading.Thread):
    """A thread that this library has started. An exception on it does not interrupt the application."""


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception is meant for whoever runs the current thread, and not an error of a function.

    A KeyboardInterrupt is Ctrl-C on the main thread only. Other exceptions that derive from BaseException alone, such
    as gevent's Timeout or Streamlit's rerun, interrupt any thread of the application. A panic of Rust code derives from
    BaseException, too, but is an error of the function.
    """
    if isinstance(error, (Exception, SystemExit, GeneratorExit)):
        return False
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    return type(error).__name__ not in FAILURES and not isinstance(threading.current_thread(), OwnThread)


class Semaphore:
    """A semaphore with at least one place, for threads and tasks alike, first come, first served."""

    def __init__(self, places: int) -> None:
        self._places = self._free = places
        self._lock = Lock()
        self._waiting: deque[Future[None]] = deque()

    def __reduce__(self) -> tuple[Any, ...]:
        return Semaphore, (self._places,)  # a copy in another process counts for itself

    async def acquire(self, wait: Wait) -> None:
        """Acquire a place.

        Args:
            wait: Runs a coroutine for as long as the caller may wait; what it raises ends the wait.
        """
        with self._lock:
            if self._free:
                self._free -= 1
                return
            ticket = Future[None]()
            self._waiting.append(ticket)

        try:
            await wait(partial(_wait_for_ticket, ticket))
        except BaseException:
            if not ticket.cancel():  # it got its place at the same moment
                self.release()
            raise

    def release(self) -> None:
        """Release the place. The first one waiting gets it."""
        with self._lock:
            while self._waiting:
                ticket = self._waiting.popleft()
                if ticket.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        ticket.set_result(None)


async def _wait_for_ticket(ticket: Future[None]) -> None:
    import asyncio

    await asyncio.wrap_future(ticket)


T = TypeVar("T")

# A function's value, or what it raised.
Outcome: TypeAlias = tuple[T | None, BaseException | None]

# `Thread.start` waits until the thread runs, so several threads start the others. More than four gain nothing, measured
# with 256 threads on 2 cores.
STARTERS = 4


class Job(Generic[T]):
    """A function for a thread, in a copy of the starter's context variables; `on_end` then gets its outcome."""

    def __init__(self, function: Callable[[], T], on_end: Callable[[Outcome[T]], object]) -> None:
        self._function = function
        self._on_end = on_end
        self._context = copy_context()
        self._is_cancelled = False
        self._is_running = False

    def start(self) -> None:
        """Start it on a new thread."""
        start_jobs([self], 1)

    def run(self) -> None:
        """Run it on this thread, unless it is cancelled."""
        self._context.run(self._run)

    def cancel(self) -> None:
        """Do not run it if it has not started."""
        self._is_cancelled = True

    def is_running(self) -> bool:
        """Return whether the function is running."""
        return self._is_running

    def _run(self) -> None:
        self._is_running = True  # set before `cancel` is looked at, since `abandon` looks in the opposite order
        outcome = None if self._is_cancelled else capture_outcome(self._function)
        self._is_running = False
        if outcome:
            self._on_end(outcome)


class AbandonedJobs:
    """Functions that still run after nothing waits for them: a thread cannot be ended, a task may refuse to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[Callable[[], bool]] = []

    def __len__(self) -> int:
        if not self._running:
            return 0
        with self._lock:
            self._running = [is_running for is_running in self._running if is_running()]
            return len(self._running)

    def add(self, is_running: Callable[[], bool]) -> None:
        """Count something for as long as it is running."""
        with self._lock:
            self._running.append(is_running)

    def abandon(self, *jobs: Job[Any]) -> None:
        """Cancel jobs. Those that are running count until they end."""
        for job in jobs:
            job.cancel()
            if job.is_running():
                self.add(job.is_running)


def start_jobs(jobs: Sequence[Job[Any]], width: int) -> None:
    """Start at most `width` threads, which take the jobs in order until none is left.

    A thread is started for each job as long as there is a place, since jobs may wait for each other. The first few
    threads help to start the others.
    """
    waiting = deque(jobs)
    places = deque(range(min(width, len(jobs))))

    def start(role: Callable[[], None]) -> bool:
        """Start a thread if there is a place. If the system has no thread left, do its work on this thread."""
        try:
            places.popleft()
        except IndexError:
            return False
        try:
            start_thread(role, "toolkit-call")
        except RuntimeError:
            role()
        return True

    def work() -> None:
        """Run jobs until none is left."""
        with suppress(IndexError):
            while True:
                waiting.popleft().run()

    def lead() -> None:
        """Start threads as long as there are jobs and places, then run jobs, too."""
        while waiting and start(work):
            pass
        work()

    for _ in range(STARTERS):
        start(lead)


def get_unless_cancelled(
    queue: SimpleQueue[T | None], cancellation: Cancellation | None, seconds: float | None = None
) -> T | None:
    """Wait on this thread for an item of a queue. Return None when the time is up or the wait is cancelled."""
    with on_cancel(cancellation, lambda: queue.put(None)):
        return get_item(queue, time_left(cancellation, seconds))


def get_item(queue: SimpleQueue[T], seconds: float | None) -> T | None:
    """Wait on this thread for an item of a queue. Return None when the time is up."""
    ends = inf if seconds is None else time.monotonic() + seconds
    while True:
        left = ends - time.monotonic()
        with suppress(Empty):
            return queue.get(timeout=max(0, min(left, LONGEST_WAIT)))
        if left <= LONGEST_WAIT:
            return None


def time_left(cancellation: Cancellation | None, seconds: float | None = None) -> float | None:
    """Return the seconds that a wait may take, at most `threading.TIMEOUT_MAX`, or None if there is no limit."""
    times = (seconds, cancellation.remaining if cancellation is not None else None)
    known = [time for time in times if time is not None]
    return min(min(known) + TICK, threading.TIMEOUT_MAX) if known else None


def capture_outcome(function: Callable[[], T]) -> Outcome[T]:
    """Call a function and return its outcome."""
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001  it is raised again where the value is awaited
        return None, error


def unwrap_outcome(outcome: Outcome[T]) -> T:
    """Return the value of an outcome, or raise its error."""
    value, error = outcome
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # no error, so it is the function's value
