"""The interface of both backends: run leaves and jobs, sleep; iterate over a leaf, and call sync or async functions."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.tasks import await_in_place
from toolkit._concurrency.threads import AbandonedJobs, Outcome, is_interrupt

SUSPENDED = "a sync method called something that needs an event loop: await the async method, such as arun() for run()"

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
CoroutineFunction: TypeAlias = Callable[[], Coroutine[Any, Any, T]]


class Channel(Protocol):
    """Carries items from running jobs to the iteration of `Backend.run_all`."""

    def put(self, item: Any) -> object:
        """Put one item, from any thread."""
        ...


class Handle(Protocol[T_co]):
    """A job that has been started."""

    async def wait(self) -> T_co:
        """Wait for its value, or raise its exception."""
        ...

    def cancel(self) -> None:
        """Cancel it without waiting for its end."""
        ...


class Backend(Protocol):
    """Runs sync and async leaves, and waits for them.

    Attributes:
        is_async: Whether it waits in an event loop, where async leaves belong.
        running: Ids of the calls whose functions are running, once for each function.
        abandoned: Functions that were abandoned and are still running.
    """

    is_async: bool
    running: list[str]
    abandoned: AbandonedJobs

    async def call(
        self,
        job: CoroutineFunction[T],
        *,
        is_async: bool,
        cancellation: Cancellation | None = None,
        in_caller_task: bool = False,
    ) -> T:
        """Run one leaf and return its value.

        Args:
            job: Makes the leaf's coroutine.
            is_async: Whether it may wait for an event loop.
            cancellation: Ends the wait.
            in_caller_task: Whether an async leaf without a deadline runs in the caller's task. A task of its own takes
                extra rounds of the loop; with many runs on one client, the connections that are idle meanwhile cost
                time in each request. Cancelling waits for such a leaf to end.

        Raises:
            TimedOut: The deadline has passed.
            Cancelled: The wait was cancelled.
            concurrent.futures.CancelledError: The leaf cancelled itself.
        """
        ...

    def run_all(
        self,
        jobs: Sequence[CoroutineFunction[T]],
        width: int,
        channel: Channel | None = None,
        *,
        cancellation: Cancellation | None = None,
        own_thread: bool = False,
    ) -> AsyncGenerator[T | Any, None]:
        """Run jobs at the same time, and yield their values in the order in which they end.

        Args:
            jobs: Make the jobs' coroutines. In a sync backend a single one stays on the caller's thread.
            width: Jobs that run at the same time.
            channel: From `channel()`. Its items are yielded as they come, between the values; with a single job on the
                caller's thread, after that has ended.
            cancellation: Abandons the jobs that have not ended, except one on the caller's thread. It is cancelled
                when the iteration ends early. Async leaves have a moment to end; their values are not yielded.
            own_thread: Whether a single job gets a thread of its own too.

        Raises:
            TimedOut: The deadline has passed; the values so far have been yielded.
            Cancelled: The jobs were cancelled; the values so far have been yielded.
        """
        ...

    def channel(self) -> Channel:
        """Make a channel for `run_all`."""
        ...

    async def complete(self, job: CoroutineFunction[T]) -> T:
        """Run a job to its end, even if the caller's task is cancelled meanwhile. Then raise this cancellation.

        Some frameworks cancel a task again in each round of the loop, until it ends.
        """
        ...

    async def sleep(self, seconds: float, cancellation: Cancellation | None = None) -> None:
        """Wait some seconds.

        Raises:
            TimedOut: The deadline comes first.
            Cancelled: The wait was cancelled.
        """
        ...

    def start(self, job: CoroutineFunction[T]) -> Handle[T]:
        """Start a job, to wait for it later."""
        ...


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, without an event loop.

    Raises:
        RuntimeError: The coroutine suspended, since an async leaf was called as a sync one. The error is raised where
            the coroutine suspended, so that its `finally` blocks run.
    """
    try:
        coroutine.send(None)
        coroutine.throw(RuntimeError(SUSPENDED))
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise RuntimeError(SUSPENDED)


async def await_value(awaitable: Awaitable[T]) -> T:
    """Wrap an awaitable in a coroutine."""
    return await awaitable


class LazyAwaitable(Generic[T]):
    """Makes its coroutine only when it is awaited. If the wait is cancelled before, no coroutine is left unawaited."""

    def __init__(self, make: CoroutineFunction[T]) -> None:
        self._make = make

    def __await__(self) -> Generator[Any, Any, T]:
        """Await the coroutine."""
        return self._make().__await__()


def is_cancelling(error: BaseException) -> bool:
    """Return whether an error is the cancellation of the running task, not of something that it awaits."""
    import asyncio

    if not isinstance(error, asyncio.CancelledError):
        return False
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0  # unknown on Python 3.10: assume that it is


class JobEnd(NamedTuple):
    """The end of one job, as an item of a channel."""

    outcome: Outcome[Any]


async def close_iterator(source: AsyncIterator[Any]) -> None:
    """Close an iterator that has `aclose`."""
    closing = getattr(source, "aclose", None)
    if closing is not None:
        await closing()


async def call_function(
    function: Callable[..., Any], arguments: tuple[Any, ...], backend: Backend, cancellation: Cancellation | None = None
) -> Any:
    """Call a function of the application (a gate, a hook, a checkpoint), sync or async, and return its value.

    Raises:
        TimedOut: The deadline passed first.
        Cancelled: The call was cancelled.
        RuntimeError: The function raised SystemExit or a cancellation, which would end more than the function.
    """

    async def call() -> Any:
        with contain(BaseException):  # a cancellation, too: a sync function is not awaited by a task
            return function(*arguments)

    async def call_and_wait() -> Any:
        with contain(SystemExit):
            return await function(*arguments)

    if is_async(function):  # called only where it is awaited, or a wait that is over would leave an unstarted coroutine
        return await backend.call(call_and_wait, is_async=True, cancellation=cancellation)

    answer = await backend.call(call, is_async=False, cancellation=cancellation)
    if not inspect.isawaitable(answer):
        return answer

    async def wait() -> Any:
        with contain(SystemExit):
            return await answer

    return await backend.call(wait, is_async=True, cancellation=cancellation)


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a function or callable object is a coroutine function."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


@contextmanager
def contain(kind: type[BaseException], *, in_task: bool = False) -> Iterator[None]:
    """Raise a RuntimeError in place of an exception that would end the run or the process.

    Args:
        kind: SystemExit, or BaseException, which includes cancellations. What interrupts the thread is raised.
        in_task: Whether the block awaits in a task. If that is being cancelled, the cancellation is raised.

    Raises:
        RuntimeError: The block raised an exception of this kind.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except kind as error:
        if is_interrupt(error) or (in_task and is_cancelling(error)):
            raise
        raise RuntimeError(f"it raised {type(error).__name__}") from error


_END: Any = object()


def iterate_until(
    backend: Backend, source: AsyncIterator[T], *, is_async: bool, cancellation: Cancellation
) -> AsyncGenerator[T, None]:
    """Iterate over a leaf until it ends, is cancelled or its deadline passes.

    A source that is cancelled may also just end. So the caller has to check whether it was cancelled.

    Raises:
        TimedOut: The deadline has passed.
        Cancelled: The iteration was cancelled.
    """
    if cancellation.deadline is None and is_async == backend.is_async:
        return _iterate_in_place(source, cancellation if is_async else None)
    return _pump(backend, source, cancellation, is_async=is_async)


async def _iterate_in_place(source: AsyncIterator[T], cancellation: Cancellation | None) -> AsyncGenerator[T, None]:
    """Iterate on the caller's thread, or in the caller's task, where the cancel scopes of the source belong."""

    async def pull() -> Any:
        return await anext(source, _END)

    try:
        while (item := await await_in_place(pull, cancellation)) is not _END:
            yield item
    finally:
        await close_iterator(source)


async def _pump(
    backend: Backend, source: AsyncIterator[T], cancellation: Cancellation, *, is_async: bool
) -> AsyncGenerator[T, None]:
    """Iterate in one job that sends each value through a channel, so that it can be abandoned as a whole."""
    channel = backend.channel()
    left = Cancellation(parent=cancellation)

    async def pump() -> Any:
        try:
            async for item in source:
                channel.put(item)
                if left:  # the iterator was closed
                    break
        finally:
            await close_iterator(source)
        return _END

    ends: Cancellation | None = left
    if not is_async:  # it has to close its source; and on the thread of its job nothing ends the wait for it
        ends = cancellation if backend.is_async else None
    job = partial(backend.call, pump, is_async=is_async, cancellation=ends)

    try:
        async with aclosing(backend.run_all([job], 1, channel, cancellation=left, own_thread=True)) as items:
            async for item in items:
                if item is not _END:
                    yield item
    finally:
        left.cancel()
