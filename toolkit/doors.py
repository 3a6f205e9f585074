"""Two doors to one implementation: step a coroutine in place, or await it in the caller's event loop.

Everything between a door and its leaves is written once, with `async def`. A leaf (a model, a tool, a gate) is either
sync, a coroutine that never suspends, or async. Each door knows how to wait for both kinds:

    leaf    SyncDoor                          AsyncDoor
    sync    stepped on the caller's thread    stepped on a thread of its own
    async   awaited on one private loop       awaited in the caller's loop

So a sync run needs neither loop nor thread until it meets an async leaf or several calls in one turn, and it works
where a loop is running already, as in a notebook. Threads are daemons with a copy of the caller's context variables:
they never keep the interpreter from leaving.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from toolkit.loops import Turn, private_loop, this_turn

if TYPE_CHECKING:
    import asyncio

SUSPENDED = "a sync call met something that waits for an event loop; use the method whose name begins with a"

T = TypeVar("T")
Job: TypeAlias = Callable[[], Coroutine[Any, Any, T]]


class Door(Protocol):
    """How a run waits."""

    async def call(self, job: Job[T], *, is_async: bool) -> T:
        """Carry out one leaf."""
        ...

    def iterate(self, source: AsyncIterator[T], *, is_async: bool) -> AsyncGenerator[T, None]:
        """Draw from a leaf that gives many values."""
        ...

    def together(self, jobs: Sequence[Job[T]], width: int) -> AsyncGenerator[T, None]:
        """Carry out jobs at the same time, at most `width` of them, and give their values as they come."""
        ...


def step(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, without an event loop.

    Raises:
        RuntimeError: It suspended: an async leaf was called as a sync one. It is raised where that waits, so that
            everything between here and there is left in order.
    """
    try:
        coroutine.send(None)
        coroutine.throw(RuntimeError(SUSPENDED))
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise RuntimeError(SUSPENDED)


async def awaited(promise: Awaitable[T]) -> T:
    """Make a coroutine of whatever can be awaited."""
    return await promise


def is_cancelling(error: BaseException) -> bool:
    """Tell whether an error is the cancellation of the running task, and not of something that it waits for."""
    import asyncio

    if not isinstance(error, asyncio.CancelledError):
        return False
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0  # Python 3.10 cannot tell, and gives way


class SyncDoor:
    """The door of `run`, `stream`, `invoke` and `call`."""

    async def call(self, job: Job[T], *, is_async: bool) -> T:
        """Carry out one leaf."""
        return private_loop.run(job()) if is_async else await job()

    async def iterate(self, source: AsyncIterator[T], *, is_async: bool) -> AsyncGenerator[T, None]:
        """Draw from a leaf that gives many values."""
        try:
            while (item := await self.call(lambda: _pull(source), is_async=is_async)) is not None:
                yield item[0]
        finally:
            await self.call(lambda: _close(source), is_async=is_async)

    async def together(self, jobs: Sequence[Job[T]], width: int) -> AsyncGenerator[T, None]:
        """Carry out jobs on threads; a single one stays on the caller's."""
        if len(jobs) == 1:
            yield await jobs[0]()
            return
        done: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
        queue = iter(jobs)
        turn = Turn()
        try:
            for job in islice(queue, width):
                _start(partial(_stepped, job, turn), done.put)
            for _ in jobs:
                value = _outcome(done.get())
                for job in islice(queue, 1):
                    _start(partial(_stepped, job, turn), done.put)
                yield value
        finally:
            turn.leave()


class AsyncDoor:
    """The door of `arun`, `astream`, `ainvoke` and `acall`."""

    async def call(self, job: Job[T], *, is_async: bool) -> T:
        """Carry out one leaf."""
        return await job() if is_async else await _in_thread(lambda: step(job()))

    async def iterate(self, source: AsyncIterator[T], *, is_async: bool) -> AsyncGenerator[T, None]:
        """Draw from a leaf that gives many values."""
        drawing = threading.Lock()

        async def alone(job: Job[Any]) -> Any:
            with drawing:
                return await job()

        pull, close = partial(alone, lambda: _pull(source)), partial(alone, lambda: _close(source))
        try:
            while (item := await self.call(pull, is_async=is_async)) is not None:
                yield item[0]
        finally:
            if drawing.locked():  # given up while a thread draws: that has to end before the source can be closed
                _start(lambda: step(close()), _forget)
            else:
                await self.call(close, is_async=is_async)

    async def together(self, jobs: Sequence[Job[T]], width: int) -> AsyncGenerator[T, None]:
        """Carry out jobs as tasks; a single one stays in the caller's."""
        if len(jobs) == 1:
            yield await jobs[0]()
            return
        import asyncio

        places = asyncio.Semaphore(width)

        async def placed(job: Job[T]) -> T:
            async with places:
                return await job()

        tasks = [asyncio.ensure_future(placed(job)) for job in jobs]
        try:
            for task in asyncio.as_completed(tasks):
                yield await task
        finally:
            for unfinished in tasks:
                unfinished.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _stepped(job: Job[T], turn: Turn) -> T:
    this_turn.set(turn)  # in the thread's own copy of the context
    return step(job())


async def _pull(source: AsyncIterator[T]) -> tuple[T] | None:
    try:
        return (await source.__anext__(),)
    except StopAsyncIteration:
        return None


async def _close(source: AsyncIterator[Any]) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


async def _in_thread(function: Callable[[], T]) -> T:
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def settle(outcome: tuple[T | None, BaseException | None]) -> None:
        if not future.done():
            future.set_result(outcome)

    def tell(outcome: tuple[T | None, BaseException | None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, outcome)

    _start(function, tell)
    return _outcome(await future)


def _start(function: Callable[[], T], tell: Callable[[tuple[T | None, BaseException | None]], object]) -> None:
    def work() -> None:
        try:
            outcome: tuple[T | None, BaseException | None] = (function(), None)
        except BaseException as error:  # noqa: BLE001  it is raised again where the value is awaited
            outcome = (None, error)
        tell(outcome)

    threading.Thread(target=copy_context().run, args=(work,), name="toolkit-call", daemon=True).start()


def _forget(_: object) -> None:
    """Take no notice of an outcome."""


def _outcome(outcome: tuple[T | None, BaseException | None]) -> T:
    value, error = outcome
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # no error, so it is the function's value
