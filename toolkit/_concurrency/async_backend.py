"""The backend of `arun`, `astream`, `ainvoke` and `acall`: what is async is a task, what is sync gets a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toolkit._concurrency.backend import Channel, CoroutineFunction, Ended, Handle, close, pull, run_sync
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.tasks import (
    GRACE,
    PATIENCE,
    begun,
    call_off,
    give_up,
    given,
    in_place,
    in_task,
    settle,
    settled,
    soon,
)
from toolkit._concurrency.threads import (
    Abandoned,
    Job,
    Outcome,
    ThreadPool,
    cancellation_error,
    capture_outcome,
    on_cancel,
    time_left,
    unwrap_outcome,
)

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class AsyncBackend:
    """The backend of `arun`, `astream`, `ainvoke` and `acall`."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.abandoned = Abandoned()
        self._waiting: list[Job[Any]] | None = None
        self._ended: deque[tuple[asyncio.Future[Any], Outcome[Any]]] = deque()
        self._is_called = False

    async def call(
        self,
        job: CoroutineFunction[T],
        *,
        is_async: bool,
        cancellation: Cancellation | None = None,
        stays: bool = False,
    ) -> T:
        """Carry out one leaf, for no longer than `cancellation` lasts."""
        if is_async and stays and (cancellation is None or cancellation.deadline is None):
            return await in_place(job(), cancellation)
        if is_async:  # where it is too late, a promise has to begin all the same, to be cancelled
            return await in_task(job, cancellation, self.abandoned)
        if cancellation:
            raise cancellation_error(cancellation)
        return await self._in_thread(lambda: run_sync(job()), cancellation)

    async def iterate(
        self, source: AsyncIterator[T], *, is_async: bool, cancellation: Cancellation | None = None
    ) -> AsyncGenerator[T, None]:
        """Draw from a leaf that gives many values; an async one in the caller's task, where its own scopes are."""
        drawing = threading.Lock()

        def drawn(coroutine: Coroutine[Any, Any, Any]) -> Any:
            with drawing:
                return run_sync(coroutine)

        async def leaf(coroutine: Coroutine[Any, Any, Any], cancellation: Cancellation | None) -> Any:
            if is_async:
                return await in_place(coroutine, cancellation)
            return await self._in_thread(partial(drawn, coroutine), cancellation)

        try:
            while (item := await leaf(pull(source), cancellation)) is not None:
                yield item[0]
        finally:
            if drawing.locked():  # given up while a thread draws: that has to end before the source can be closed
                Job(partial(drawn, close(source)), _forget).start()
            else:
                await leaf(close(source), None)

    async def run_all(
        self,
        jobs: Sequence[CoroutineFunction[T]],
        width: int,
        told: Channel | None = None,
        *,
        cancellation: Cancellation | None = None,
        apart: bool = False,
    ) -> AsyncGenerator[T | Any, None]:
        """Carry out jobs as tasks; a single one that has nothing to tell stays in the caller's, unless it is apart."""
        if len(jobs) == 1 and told is None and not apart:
            yield await jobs[0]()
            return
        import asyncio

        news = told if isinstance(told, _LoopChannel) else self.channel()
        places = asyncio.Semaphore(width)

        async def placed(job: CoroutineFunction[T]) -> T:
            async with places:
                return await job()

        with self._collecting():
            tasks = [news.follow(begun(placed(job))) for job in jobs]
        try:
            with news.ending(cancellation):
                for _ in tasks:
                    while not isinstance(item := await news.taken(cancellation), Ended):
                        yield item
                    yield unwrap_outcome(item.outcome)
        finally:
            await give_up(tasks, PATIENCE if cancellation else GRACE + PATIENCE, self.abandoned)

    def channel(self) -> _LoopChannel:
        """Make a channel for `together`."""
        return _LoopChannel()

    async def sleep(self, seconds: float, cancellation: Cancellation | None = None) -> None:
        """Wait, in the loop."""
        import asyncio

        await given(asyncio.get_running_loop().create_future(), cancellation, seconds)
        if cancellation:
            raise cancellation_error(cancellation)

    def start(self, job: CoroutineFunction[T]) -> Handle[T]:
        """Begin a job as a task."""
        return _Begun(job, self.abandoned)

    async def _in_thread(self, function: Callable[[], T], cancellation: Cancellation | None) -> T:
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome[T] | None] = loop.create_future()
        work = Job(function, partial(self._end, loop, future))
        self._start_soon(work, loop)
        outcome = None
        try:
            outcome = await given(future, cancellation)
        finally:
            if outcome is None:
                self.abandoned.give_up(work)
        if outcome is None:
            raise cancellation_error(cancellation or Cancellation())
        return unwrap_outcome(outcome)

    def _end(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Outcome[Any]) -> None:
        """Bring an outcome into the loop, from its thread; what has come before the loop wakes comes with it."""
        self._ended.append((future, outcome))
        if not self._is_called:
            self._is_called = True
            soon(loop, self._settle_ended)

    def _settle_ended(self) -> None:
        self._is_called = False  # before it looks, as who ends looks at this afterwards
        while self._ended:
            settle(*self._ended.popleft())

    def _start_soon(self, work: Job[Any], loop: asyncio.AbstractEventLoop) -> None:
        """Start a thread; those that follow in the same round of the loop are started together."""
        if self._waiting is not None:
            self._waiting.append(work)
            return
        self._waiting = []
        loop.call_soon(self._start_waiting)
        work.start()

    @contextmanager
    def _collecting(self) -> Iterator[None]:
        """Start the threads that are asked for within this together, at its end."""
        if self._waiting is None:
            self._waiting = []
        try:
            yield
        finally:
            self._start_waiting()

    def _start_waiting(self) -> None:
        works, self._waiting = self._waiting, None
        if works:
            ThreadPool(works, len(works)).start()


class _LoopChannel:
    """A channel into the running loop."""

    def __init__(self) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    def put(self, item: Any) -> None:
        """Give one item; from any thread, at any time."""
        if threading.get_ident() == self._thread:
            self._queue.put_nowait(item)
        else:
            soon(self._loop, self._queue.put_nowait, item)

    def follow(self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        """Put in the end of a task, once it comes."""
        task.add_done_callback(lambda task: self.put(Ended(capture_outcome(task.result))))
        return task

    @contextmanager
    def ending(self, cancellation: Cancellation | None) -> Iterator[None]:
        """End what draws when the time is up, or it is called off."""
        left, end = time_left(cancellation), partial(self.put, None)
        timer = self._loop.call_later(left, end) if left is not None else None
        try:
            with on_cancel(cancellation, end):
                yield
        finally:
            if timer:
                timer.cancel()

    async def taken(self, cancellation: Cancellation | None) -> Any:
        """Wait for an item.

        Raises:
            TimedOut: The deadline has passed.
            Cancelled: It was called off.
        """
        item = await self._queue.get()
        if item is None and cancellation is not None:
            raise cancellation_error(cancellation)
        return item


class _Begun(Generic[T]):
    """A job as a task."""

    def __init__(self, job: CoroutineFunction[T], abandoned: Abandoned) -> None:
        self.abandoned = abandoned
        self._task = begun(job())

    async def wait(self) -> T:
        """Wait for its value, in the loop."""
        await settled(self._task, None)
        return self._task.result()

    def drop(self) -> None:
        """Give it up."""
        call_off(self._task, self.abandoned)


def _forget(_: object) -> None:
    """Take no notice of an outcome."""
