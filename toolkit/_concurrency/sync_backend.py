"""The backend of `run`, `stream`, `invoke` and `call`: everything on the caller's thread, as far as that goes."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from toolkit._concurrency.backend import Channel, CoroutineFunction, Ended, Handle, close, pull, run_sync
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.event_loop import Turn, private_loop, this_turn
from toolkit._concurrency.tasks import GRACE, PATIENCE, in_place, in_task
from toolkit._concurrency.threads import (
    Abandoned,
    Job,
    Outcome,
    ThreadPool,
    cancellation_error,
    get_unless_cancelled,
    on_cancel,
    time_left,
    unwrap_outcome,
)

T = TypeVar("T")


class SyncBackend:
    """The backend of `run`, `stream`, `invoke` and `call`."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.abandoned = Abandoned()

    async def call(
        self,
        job: CoroutineFunction[T],
        *,
        is_async: bool,
        cancellation: Cancellation | None = None,
        stays: bool = False,  # noqa: ARG002  a loop that runs for one leaf has no rounds to save
    ) -> T:
        """Carry out one leaf, for no longer than `cancellation` lasts."""
        if is_async:  # where it is too late, a promise has to begin all the same, to be cancelled
            return unwrap_outcome(private_loop.run(_outcome(partial(in_task, job, cancellation, self.abandoned))))
        if cancellation:
            raise cancellation_error(cancellation)
        if cancellation is None or cancellation.deadline is None:
            return await job()
        return self._in_thread(lambda: run_sync(job()), cancellation)

    async def iterate(
        self, source: AsyncIterator[T], *, is_async: bool, cancellation: Cancellation | None = None
    ) -> AsyncGenerator[T, None]:
        """Draw from a leaf that gives many values."""
        try:
            while (item := await self._drawn(partial(pull, source), cancellation, is_async=is_async)) is not None:
                yield item[0]
        finally:
            await self._drawn(partial(close, source), None, is_async=is_async)

    async def run_all(
        self,
        jobs: Sequence[CoroutineFunction[T]],
        width: int,
        told: Channel | None = None,
        *,
        cancellation: Cancellation | None = None,
        apart: bool = False,
    ) -> AsyncGenerator[T | Any, None]:
        """Carry out jobs on threads; a single one stays on the caller's, unless it is to be apart."""
        news = told if isinstance(told, SimpleQueue) else self.channel()
        if len(jobs) == 1 and not apart:
            value = await jobs[0]()
            for item in (*_drained(news), value):
                yield item
            return
        turn = Turn()
        works = [Job(partial(_stepped, job, turn), partial(_end, news)) for job in jobs]
        try:
            with on_cancel(cancellation, partial(news.put, None)):
                ThreadPool(works, width).start()
                for _ in works:
                    while not isinstance(item := _taken(news, cancellation), Ended):
                        yield item
                    yield unwrap_outcome(item.outcome)
        finally:
            self.abandoned.give_up(*works)
            turn.leave(PATIENCE if cancellation else GRACE)

    def channel(self) -> SimpleQueue[Any]:
        """Make a channel for `together`."""
        return SimpleQueue()

    async def sleep(self, seconds: float, cancellation: Cancellation | None = None) -> None:
        """Wait, on this thread."""
        get_unless_cancelled(SimpleQueue(), cancellation, seconds)
        if cancellation:
            raise cancellation_error(cancellation)

    def start(self, job: CoroutineFunction[T]) -> Handle[T]:
        """Begin a job on a thread."""
        return _Begun(job, self.abandoned)

    async def _drawn(self, job: CoroutineFunction[T], cancellation: Cancellation | None, *, is_async: bool) -> T:
        if is_async:
            return unwrap_outcome(private_loop.run(_outcome(lambda: in_place(job(), cancellation))))
        return await job()

    def _in_thread(self, function: Callable[[], T], cancellation: Cancellation) -> T:
        done: SimpleQueue[Outcome[T] | None] = SimpleQueue()
        work = Job(function, done.put)
        work.start()
        outcome = None
        try:
            outcome = get_unless_cancelled(done, cancellation)
        finally:
            if outcome is None:
                self.abandoned.give_up(work)
        if outcome is None:
            raise cancellation_error(cancellation)
        return unwrap_outcome(outcome)


class _Begun(Generic[T]):
    """A job on a thread."""

    def __init__(self, job: CoroutineFunction[T], abandoned: Abandoned) -> None:
        self.abandoned = abandoned
        self._turn = Turn()
        self._has_ended = threading.Event()
        self._work = Job(partial(_stepped, job, self._turn), self._end)
        self._work.start()

    async def wait(self) -> T:
        """Wait for its value, on this thread."""
        self._has_ended.wait()
        return unwrap_outcome(self._outcome)

    def drop(self) -> None:
        """Give it up."""
        self.abandoned.give_up(self._work)
        self._turn.leave(PATIENCE)

    def _end(self, outcome: Outcome[T]) -> None:
        self._outcome = outcome
        self._has_ended.set()


def _stepped(job: CoroutineFunction[T], turn: Turn) -> T:
    this_turn.set(turn)  # in the thread's own copy of the context
    return run_sync(job())


def _end(news: SimpleQueue[Any], outcome: Outcome[Any]) -> None:
    news.put(Ended(outcome))


async def _outcome(job: CoroutineFunction[T]) -> Outcome[T]:
    """Carry what a job raises past asyncio, which makes other exceptions of some; nothing begins before it does."""
    try:
        return await job(), None
    except Exception as error:  # noqa: BLE001  it is raised again where the value is awaited
        return None, error


def _drained(news: SimpleQueue[Any]) -> Iterator[Any]:
    """Take what is in a queue by now."""
    with suppress(Empty):
        while True:
            yield news.get_nowait()


def _taken(news: SimpleQueue[Any], cancellation: Cancellation | None) -> Any:
    item = None
    with suppress(Empty):
        item = news.get(timeout=time_left(cancellation))
    if item is None and cancellation is not None:
        raise cancellation_error(cancellation)
    return item
