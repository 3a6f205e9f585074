"""The backend of `run`, `stream`, `invoke` and `call`: leaves run on the caller's thread where they can."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Generic, TypeVar, cast

from toolkit._concurrency.backend import Channel, CoroutineFunction, Handle, JobEnd, run_sync
from toolkit._concurrency.cancellation import Cancellation, cancellation_error, on_cancel
from toolkit._concurrency.event_loop import LoopWaits, end_waits, loop_waits, private_loop
from toolkit._concurrency.tasks import GRACE, PATIENCE, capture, run_in_task
from toolkit._concurrency.threads import (
    MOMENT,
    AbandonedJobs,
    Job,
    Outcome,
    get_item,
    get_unless_cancelled,
    start_jobs,
    time_left,
    unwrap_outcome,
)

T = TypeVar("T")


class SyncBackend:
    """The backend of `run`, `stream`, `invoke` and `call`.

    Raises:
        RuntimeError: It is made in an async tool, gate or hook of a sync run, which would wait for its own loop.
    """

    is_async = False

    def __init__(self) -> None:
        private_loop.check_caller()
        self.running: list[str] = []
        self.abandoned = AbandonedJobs()

    async def call(
        self,
        job: CoroutineFunction[T],
        *,
        is_async: bool,
        cancellation: Cancellation | None = None,
        in_caller_task: bool = False,  # noqa: ARG002  a loop that runs for one leaf has no rounds to save
    ) -> T:
        """Run one leaf and return its value."""
        if is_async:  # even if it is cancelled already: the coroutine must start to be cancelled
            return _run_in_loop(partial(run_in_task, job, cancellation, self.abandoned))
        if cancellation:
            raise cancellation_error(cancellation)
        if cancellation is None or cancellation.deadline is None:
            return await job()
        return self._in_thread(lambda: run_sync(job()), cancellation)

    async def run_all(
        self,
        jobs: Sequence[CoroutineFunction[T]],
        width: int,
        channel: Channel | None = None,
        *,
        cancellation: Cancellation | None = None,
        own_thread: bool = False,
    ) -> AsyncGenerator[T | Any, None]:
        """Run jobs on threads. A single one stays on the caller's unless `own_thread`."""
        if len(jobs) == 1 and not own_thread:
            value = await jobs[0]()
            while isinstance(channel, SimpleQueue) and not channel.empty():
                yield channel.get_nowait()
            yield value
            return

        events = channel if isinstance(channel, SimpleQueue) else self.channel()
        waits = [LoopWaits() for _ in jobs]
        running_jobs = [Job(partial(_run_job, *each), partial(_end, events)) for each in zip(jobs, waits)]

        try:
            with on_cancel(cancellation, partial(events.put, None)):
                start_jobs(running_jobs, width)
                for _ in jobs:
                    while not isinstance(item := _get(events, cancellation), JobEnd):
                        yield item
                    yield unwrap_outcome(item.outcome)
        except (GeneratorExit, KeyboardInterrupt):
            if cancellation is not None:
                cancellation.cancel()
            raise
        finally:
            self.abandoned.abandon(*running_jobs)
            if cancellation:
                _wait_for_ends(running_jobs, waits, events)
            end_waits(waits, GRACE)

    def channel(self) -> SimpleQueue[Any]:
        """Make a channel for `run_all`."""
        return SimpleQueue()

    async def complete(self, job: CoroutineFunction[T]) -> T:
        """Run a job to its end, on this thread."""
        return await job()

    async def sleep(self, seconds: float, cancellation: Cancellation | None = None) -> None:
        """Wait some seconds, on this thread."""
        get_unless_cancelled(SimpleQueue(), cancellation, seconds)
        if cancellation:
            raise cancellation_error(cancellation)

    def start(self, job: CoroutineFunction[T]) -> Handle[T]:
        """Start a job on a thread."""
        return _JobHandle(job, self.abandoned)

    def _in_thread(self, function: Callable[[], T], cancellation: Cancellation) -> T:
        done: SimpleQueue[Outcome[T] | None] = SimpleQueue()
        job = Job(function, done.put)
        job.start()
        outcome = None

        try:
            outcome = get_unless_cancelled(done, cancellation)
        finally:
            if outcome is None:
                self.abandoned.abandon(job)

        if outcome is None:
            raise cancellation_error(cancellation)
        return unwrap_outcome(outcome)


class _JobHandle(Generic[T]):
    """A job that runs on a thread."""

    def __init__(self, job: CoroutineFunction[T], abandoned: AbandonedJobs) -> None:
        self.abandoned = abandoned
        self._waits = LoopWaits()
        self._ends: SimpleQueue[Outcome[T]] = SimpleQueue()
        self._job = Job(partial(_run_job, job, self._waits), self._ends.put)
        self._job.start()

    async def wait(self) -> T:
        """Wait for its value, on this thread."""
        outcome = cast("Outcome[T]", get_item(self._ends, None))
        self._ends.put(outcome)  # for further calls of `wait`
        return unwrap_outcome(outcome)

    def cancel(self) -> None:
        """Abandon its thread."""
        self.abandoned.abandon(self._job)
        end_waits([self._waits], PATIENCE)


def _run_job(job: CoroutineFunction[T], waits: LoopWaits) -> T:
    loop_waits.set(waits)  # in the thread's own copy of the context
    return run_sync(job())


def _end(events: SimpleQueue[Any], outcome: Outcome[Any]) -> None:
    events.put(JobEnd(outcome))


def _wait_for_ends(jobs: Sequence[Job[Any]], waits: Sequence[LoopWaits], events: SimpleQueue[Any]) -> None:
    """Wait for the ends of cancelled jobs: a moment, and longer for async leaves, which may return partial values."""
    ends = monotonic() + PATIENCE + 2 * MOMENT
    idle = 0
    while idle < 2 and monotonic() < ends and any(job.is_running() for job in jobs):
        with suppress(Empty):
            events.get(timeout=MOMENT)
            continue
        idle = 0 if any(wait.is_waiting() for wait in waits) else idle + 1  # twice: one may have just stopped waiting


def _run_in_loop(job: CoroutineFunction[T]) -> T:
    """Run a job in the private loop and wait for it on this thread; Ctrl-C leaves no coroutine that has not started."""
    return unwrap_outcome(private_loop.run(partial(capture, job)))


def _get(events: SimpleQueue[Any], cancellation: Cancellation | None) -> Any:
    item = get_item(events, time_left(cancellation))
    if item is None and cancellation is not None:
        raise cancellation_error(cancellation)
    return item
