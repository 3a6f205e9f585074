"""How a function of the application is called: a gate, a hook, a checkpoint; sync or async, where its kind belongs.

How a run waits: what every backend can do, and how a coroutine is run without a loop.

Drawing from a leaf that gives many values, for no longer than there is time.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import Abandoned, Outcome, cancellation_error

SUSPENDED = "a sync call met something that waits for an event loop; use the method whose name begins with a"

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
CoroutineFunction: TypeAlias = Callable[[], Coroutine[Any, Any, T]]


class Channel(Protocol):
    """What those who work put their news into."""

    def put(self, item: Any) -> object:
        """Give one item to whoever draws from `together`; from any thread, at any time."""
        ...


class Handle(Protocol[T_co]):
    """A job that has begun."""

    async def wait(self) -> T_co:
        """Wait for its value, or raise what it raised."""
        ...

    def drop(self) -> None:
        """Give it up."""
        ...


class Backend(Protocol):
    """How a run waits."""

    @property
    def running(self) -> list[str]:
        """The calls whose functions are at work, by id, once for each function."""
        ...

    @property
    def abandoned(self) -> Abandoned:
        """What was given up here and is still at work."""
        ...

    async def call(
        self,
        job: CoroutineFunction[T],
        *,
        is_async: bool,
        cancellation: Cancellation | None = None,
        stays: bool = False,
    ) -> T:
        """Carry out one leaf, for no longer than `cancellation` lasts.

        Args:
            job: What is carried out.
            is_async: Whether it may wait for an event loop.
            cancellation: When to wait no longer.
            stays: Whether an async leaf that has no deadline stays in the caller's task. One of its own ends rounds of
                the loop before its caller goes on; where many runs wait for one client, its connections lie idle then,
                and it looks at each idle one for each request. It can be called off, but is not left before its end.

        Raises:
            TimedOut: The deadline has passed.
            Cancelled: It was called off.
            concurrent.futures.CancelledError: The leaf cancelled itself.
        """
        ...

    def iterate(
        self, source: AsyncIterator[T], *, is_async: bool, cancellation: Cancellation | None = None
    ) -> AsyncGenerator[T, None]:
        """Draw from a leaf that gives many values, until it is called off; a deadline is not looked at.

        Raises:
            Cancelled: It was called off; has no power over the caller's thread.
        """
        ...

    def run_all(
        self,
        jobs: Sequence[CoroutineFunction[T]],
        width: int,
        told: Channel | None = None,
        *,
        cancellation: Cancellation | None = None,
        apart: bool = False,
    ) -> AsyncGenerator[T | Any, None]:
        """Carry out jobs at the same time, at most `width` of them, and give their values as they come.

        Args:
            jobs: What is carried out. In a sync backend a single one stays on the caller's thread.
            width: How many are at work at the same time.
            told: From `channel()`. What is put into it is given at once, between the values; with a single job on the
                caller's thread, once that has ended.
            cancellation: What is not done then is given up; has no power over the caller's thread.
            apart: Whether a single job has a thread of its own too.

        Raises:
            TimedOut: The deadline has passed; what was done before has been given.
            Cancelled: The jobs were called off; as above.
        """
        ...

    def channel(self) -> Channel:
        """Make a channel for `together`."""
        ...

    async def sleep(self, seconds: float, cancellation: Cancellation | None = None) -> None:
        """Wait.

        Raises:
            TimedOut: The deadline comes first.
            Cancelled: The wait was called off.
        """
        ...

    def start(self, job: CoroutineFunction[T]) -> Handle[T]:
        """Begin a job now, to wait for it later."""
        ...


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
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


async def await_value(promise: Awaitable[T]) -> T:
    """Make a coroutine of whatever can be awaited."""
    return await promise


def is_cancelling(error: BaseException) -> bool:
    """Tell whether an error is the cancellation of the running task, and not of something that it waits for."""
    import asyncio

    if not isinstance(error, asyncio.CancelledError):
        return False
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0  # Python 3.10 cannot tell, and gives way


def is_interrupt(error: BaseException) -> bool:
    """Tell whether an error is the user's Ctrl-C: it comes to the main thread, and from no `raise`."""
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    from opcode import opmap

    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] != opmap["RAISE_VARARGS"]


class Ended:
    """The end of one job, among what is told."""

    def __init__(self, outcome: Outcome[Any]) -> None:
        self.outcome = outcome


async def pull(source: AsyncIterator[T]) -> tuple[T] | None:
    """Draw one value; None at the end."""
    try:
        return (await source.__anext__(),)
    except StopAsyncIteration:
        return None


async def close(source: AsyncIterator[Any]) -> None:
    """Close a source that can be closed."""
    closing = getattr(source, "aclose", None)
    if closing is not None:
        await closing()


async def call_function(
    function: Callable[..., Any], given: tuple[Any, ...], backend: Backend, cancellation: Cancellation | None = None
) -> Any:
    """Call a function as a sync tool would be, and await what it promises in an event loop.

    Raises:
        TimedOut: The deadline passed first.
        Cancelled: It was called off.
        RuntimeError: It raised what would have ended more than itself: the program, or a task.
    """

    async def begin() -> Any:
        with _kept(BaseException):  # a cancellation, too: that of a task comes to nobody who does not wait
            return function(*given)

    async def awaited() -> Any:
        with _kept(SystemExit):
            return await answer

    answer = (
        function(*given) if is_async(function) else await backend.call(begin, is_async=False, cancellation=cancellation)
    )
    return (
        await backend.call(awaited, is_async=True, cancellation=cancellation) if inspect.isawaitable(answer) else answer
    )


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether a function, or an object that is called like one, is known to answer with a promise."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


@contextmanager
def _kept(kind: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except kind as error:
        raise RuntimeError(f"it raised {type(error).__name__}") from error


_END: Any = object()


async def iterate_until(
    backend: Backend, source: AsyncIterator[T], *, is_async: bool, cancellation: Cancellation
) -> AsyncGenerator[T, None]:
    """Draw from a leaf, for no longer than `cancellation` lasts: where it has an end, what draws can be given up.

    Raises:
        TimedOut: The deadline has passed.
        Cancelled: It was called off.
    """
    if cancellation.deadline is None:
        items = backend.iterate(source, is_async=is_async, cancellation=cancellation)
    else:
        items = _pumped(backend, source, cancellation, is_async=is_async)
    async with aclosing(items):
        async for item in items:
            yield item
    if cancellation:  # it may have been left before its end
        raise cancellation_error(cancellation)


async def _pumped(
    backend: Backend, source: AsyncIterator[T], cancellation: Cancellation, *, is_async: bool
) -> AsyncGenerator[T, None]:
    """Have one job draw everything, which tells what it has drawn: it is begun once, and given up once."""
    told, left = backend.channel(), Cancellation(parent=cancellation)

    async def pump() -> Any:
        try:
            async for item in source:
                told.put(item)
                if left:  # nobody draws any more
                    break
        finally:
            await close(source)
        return _END

    job = partial(backend.call, pump, is_async=is_async)
    try:
        async with aclosing(backend.run_all([job], 1, told, cancellation=cancellation, apart=True)) as items:
            async for item in items:
                if item is not _END:
                    yield item
    finally:
        left.cancel()
        left.close()
