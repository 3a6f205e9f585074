"""The backend of `arun`, `astream`, `ainvoke` and `acall`: async leaves are tasks, sync leaves get threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toolkit._concurrency.backend import Channel, CoroutineFunction, Handle, JobEnd, run_sync
from toolkit._concurrency.cancellation import Cancellation, cancellation_error, on_cancel
from toolkit._concurrency.tasks import (
    GRACE,
    PATIENCE,
    await_in_place,
    call_soon,
    cancel_task,
    cancel_tasks,
    get_loop,
    run_in_task,
    set_result,
    start_task,
    wait_for,
    wait_until_done,
)
from toolkit._concurrency.threads import (
    MOMENT,
    AbandonedJobs,
    Job,
    Outcome,
    capture_outcome,
    start_jobs,
    time_left,
    unwrap_outcome,
)

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class AsyncBackend:
    """The backend of `arun`, `astream`, `ainvoke` and `acall`.

    Raises:
        RuntimeError: No event loop of asyncio is running.
    """

    is_async = True

    def __init__(self) -> None:
        get_loop()
        self.running: list[str] = []
        self.abandoned = AbandonedJobs()
        self._waiting: list[Job[Any]] = []
        self._ended: deque[tuple[asyncio.Future[Any], Outcome[Any]]] = deque()
        self._is_called = False

    async def call(
        self,
        job: CoroutineFunction[T],
        *,
        is_async: bool,
        cancellation: Cancellation | None = None,
        in_caller_task: bool = False,
    ) -> T:
        """Run one leaf and return its value."""
        if is_async and in_caller_task and (cancellation is None or cancellation.deadline is None):
            return await await_in_place(job, cancellation)
        if is_async:  # even if it is cancelled already: the coroutine must start to be cancelled
            return await run_in_task(job, cancellation, self.abandoned)
        if cancellation:
            raise cancellation_error(cancellation)
        return await self._in_thread(lambda: run_sync(job()), cancellation)

    async def run_all(
        self,
        jobs: Sequence[CoroutineFunction[T]],
        width: int,
        channel: Channel | None = None,
        *,
        cancellation: Cancellation | None = None,
        own_thread: bool = False,  # noqa: ARG002  tasks do not wait for each other
    ) -> AsyncGenerator[T | Any, None]:
        """Run jobs as tasks."""
        import asyncio

        events = channel if isinstance(channel, _LoopChannel) else self.channel()
        places = asyncio.Semaphore(width)

        async def run_limited(job: CoroutineFunction[T]) -> T:
            async with places:
                return await job()

        tasks = [events.watch(start_task(run_limited(job))) for job in jobs]
        try:
            with events.wake_at_end(cancellation):
                for _ in tasks:
                    while not isinstance(item := await events.get(cancellation), JobEnd):
                        yield item
                    yield unwrap_outcome(item.outcome)
        except (GeneratorExit, asyncio.CancelledError):
            if cancellation is not None:
                cancellation.cancel()
            raise
        finally:
            if cancellation and (unfinished := [task for task in tasks if not task.done()]):
                await asyncio.wait(unfinished, timeout=GRACE)  # cancelled, they return what they have
            await cancel_tasks(tasks, GRACE + PATIENCE, self.abandoned)

    def channel(self) -> _LoopChannel:
        """Make a channel for `run_all`."""
        return _LoopChannel()

    async def complete(self, job: CoroutineFunction[T]) -> T:
        """Run a job to its end as a task, even if the caller's task is cancelled. Then raise CancelledError."""
        import asyncio

        task = start_task(job())
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            while not task.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([task])
            raise
        return task.result()

    async def sleep(self, seconds: float, cancellation: Cancellation | None = None) -> None:
        """Wait some seconds, in the loop."""
        import asyncio

        await wait_for(asyncio.get_running_loop().create_future(), cancellation, seconds)
        if cancellation:
            raise cancellation_error(cancellation)

    def start(self, job: CoroutineFunction[T]) -> Handle[T]:
        """Start a job as a task."""
        return _TaskHandle(job, self.abandoned)

    async def _in_thread(self, function: Callable[[], T], cancellation: Cancellation | None) -> T:
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome[T] | None] = loop.create_future()
        job = Job(function, partial(self._end, loop, future))
        self._start_soon(job, loop)
        outcome = None

        try:
            outcome = await wait_for(future, cancellation, patience=MOMENT)
        finally:
            if outcome is None:
                self.abandoned.abandon(job)

        if outcome is None:
            raise cancellation_error(cancellation or Cancellation())
        return unwrap_outcome(outcome)

    def _end(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Outcome[Any]) -> None:
        """Bring an outcome from its thread into the loop, together with others that arrive before the loop wakes."""
        self._ended.append((future, outcome))
        if not self._is_called:
            self._is_called = True
            call_soon(loop, self._settle_ended)

    def _settle_ended(self) -> None:
        self._is_called = False  # first, so that an outcome that arrives now asks for another call
        while self._ended:
            set_result(*self._ended.popleft())

    def _start_soon(self, job: Job[Any], loop: asyncio.AbstractEventLoop) -> None:
        """Start a thread in the next round of the loop, together with others of this round."""
        if not self._waiting:
            loop.call_soon(self._start_waiting)
        self._waiting.append(job)

    def _start_waiting(self) -> None:
        jobs, self._waiting = self._waiting, []
        start_jobs(jobs, len(jobs))


class _LoopChannel:
    """A channel into the running loop."""

    def __init__(self) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    def put(self, item: Any) -> None:
        """Put one item, from any thread."""
        if threading.get_ident() == self._thread:
            self._queue.put_nowait(item)
        else:
            call_soon(self._loop, self._queue.put_nowait, item)

    def watch(self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        """Put the end of a task when it ends."""
        if task.done():
            self._put_end(task)  # a callback would come a round of the loop later
        else:
            task.add_done_callback(self._put_end)
        return task

    def _put_end(self, task: asyncio.Task[Any]) -> None:
        self.put(JobEnd(capture_outcome(task.result)))

    @contextmanager
    def wake_at_end(self, cancellation: Cancellation | None) -> Iterator[None]:
        """Wake the reader when the deadline passes or the cancellation is cancelled."""
        left = time_left(cancellation)
        end = partial(self.put, None)
        timer = self._loop.call_later(left, end) if left is not None else None
        try:
            with on_cancel(cancellation, end):
                yield
        finally:
            if timer:
                timer.cancel()

    async def get(self, cancellation: Cancellation | None) -> Any:
        """Wait for an item.

        Raises:
            TimedOut: The deadline has passed.
            Cancelled: The wait was cancelled.
        """
        item = await self._queue.get()
        if item is None and cancellation is not None:
            raise cancellation_error(cancellation)
        return item


class _TaskHandle(Generic[T]):
    """A job that runs as a task."""

    def __init__(self, job: CoroutineFunction[T], abandoned: AbandonedJobs) -> None:
        self.abandoned = abandoned
        self._task = start_task(job())

    async def wait(self) -> T:
        """Wait for its value."""
        await wait_until_done(self._task, None)
        return self._task.result()

    def cancel(self) -> None:
        """Cancel its task."""
        cancel_task(self._task, self.abandoned)
