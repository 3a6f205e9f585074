"""Coroutines as tasks of their own: what one of them does to its task harms nobody else."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from time import monotonic
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast

from toolkit._concurrency.cancellation import CANCELLED, Cancellation
from toolkit._concurrency.threads import Abandoned, Job, Outcome, cancellation_error, time_left, unwrap_outcome

if TYPE_CHECKING:
    import asyncio

# What was left may take this long to end, in seconds: its `finally` may have something to bring home.
GRACE = 1.0
# What is called off may take this long to end, and to say what it has; then the wait goes on without it.
PATIENCE = 0.5
# A cancellation that was swallowed is said again, once in a GRACE, so many times.
REMINDERS = 10

T = TypeVar("T")


def begun(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begin a coroutine as a task of the running loop, at once where Python knows how."""
    import asyncio

    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, eager_start=True)
    return loop.create_task(coroutine)


async def in_task(
    job: Callable[[], Coroutine[Any, Any, T]], cancellation: Cancellation | None, abandoned: Abandoned
) -> T:
    """Carry a coroutine out as a task of its own, for no longer than `cancellation` lasts.

    A coroutine that is called off may catch that, and give the value that it has by then.

    Raises:
        TimedOut: The deadline has passed.
        Cancelled: It was called off.
        concurrent.futures.CancelledError: The coroutine cancelled itself.
    """
    import asyncio
    from concurrent.futures import CancelledError

    task = begun(job())
    try:
        await settled(task, cancellation)
    except asyncio.CancelledError:
        await give_up([task], GRACE, abandoned)
        raise
    if not task.done():
        await give_up([task], PATIENCE, abandoned)
        if not _has_value(task):
            raise cancellation_error(cancellation or Cancellation())
    if task.cancelled():
        raise CancelledError
    return task.result()


async def run_to_end(function: Callable[[Cancellation], T], cancellation: Cancellation) -> T:
    """Carry a function out on a thread, and wait for its end whatever happens; called off, it is told, and hurries."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome[T]] = loop.create_future()
    with Cancellation(parent=cancellation) as stop:
        Job(partial(function, stop), partial(soon, loop, settle, future)).start()
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
            if not future.done():
                stop.cancel(cancellation.reason or CANCELLED)
    return unwrap_outcome(future.result())


async def in_place(coroutine: Coroutine[Any, Any, T], cancellation: Cancellation | None) -> T:
    """Await a coroutine in the caller's own task, until it is called off: it is cancelled then, and the task is not.

    Raises:
        Cancelled: It was called off.
    """
    if cancellation is None:
        return await coroutine
    import asyncio

    awaiting = _Awaiting()
    leave = cancellation.subscribe(partial(soon, asyncio.get_running_loop(), awaiting.cancel))
    try:
        return await coroutine
    except asyncio.CancelledError:
        if not awaiting.is_mine():
            raise
        raise cancellation_error(cancellation) from None
    finally:
        awaiting.is_over = True
        leave()


@coroutine
def watch_loop(promise: Awaitable[T], longest: float | None, tell: Callable[[float], object]) -> Generator[Any, Any, T]:
    """Await something, and tell of each time that it held the loop for longer than it may, in seconds."""
    if longest is None:
        return (yield from promise.__await__())
    steps: Any = promise.__await__()
    step, sent = steps.send, None
    while True:
        began = monotonic()
        try:
            waits_for = step(sent)
        except StopIteration as done:
            return cast("T", done.value)
        finally:
            if (held := monotonic() - began) > longest:
                tell(held)
        try:
            step, sent = steps.send, (yield waits_for)
        except BaseException as error:  # noqa: BLE001  it is the promise's: a cancellation, above all
            step, sent = steps.throw, error


async def settled(task: asyncio.Task[Any], cancellation: Cancellation | None) -> None:
    """Wait in the loop until a task is done or its time is over; the task is not touched."""
    if task.done():
        return
    waiter: asyncio.Future[bool] = task.get_loop().create_future()
    task.add_done_callback(partial(_settle_with, waiter))
    await given(waiter, cancellation)


async def given(
    waiter: asyncio.Future[T], cancellation: Cancellation | None = None, seconds: float | None = None
) -> T | None:
    """Wait in the loop for what a future is given; None when the time is up, or it is called off."""
    loop, left = waiter.get_loop(), time_left(cancellation, seconds)
    timer = loop.call_later(left, _settle_without, waiter) if left is not None else None
    leave = cancellation.subscribe(lambda: soon(loop, _settle_without, waiter)) if cancellation is not None else None
    try:
        return await waiter
    finally:
        if leave:
            leave()
        if timer:
            timer.cancel()


async def give_up(tasks: list[asyncio.Task[Any]], seconds: float, abandoned: Abandoned) -> None:
    """Call tasks off, and wait a while for them to end."""
    import asyncio

    unfinished = [task for task in tasks if not task.done()]
    for task in unfinished:
        call_off(task, abandoned)
    if unfinished:
        await asyncio.wait(unfinished, timeout=seconds)


def call_off(task: asyncio.Task[Any], abandoned: Abandoned) -> None:
    """Cancel a task; for as long as it refuses to end it is counted, and reminded from time to time."""
    task.cancel()
    task.add_done_callback(_look_at)
    abandoned.add(lambda: not task.done())
    task.get_loop().call_later(GRACE, _remind, task, REMINDERS)


def _has_value(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def settle(future: asyncio.Future[T], value: T) -> None:
    """Give a future its value, where somebody waits for it still."""
    if not future.done():
        future.set_result(value)


class _Awaiting:
    """One wait of the running task, which can be cancelled for itself."""

    def __init__(self) -> None:
        import asyncio

        self._task = asyncio.current_task()
        self._before = getattr(self._task, "cancelling", int)()  # Python 3.10 does not count
        self._is_cancelled = False
        self.is_over = False

    def cancel(self) -> None:
        """End the wait, where it goes on."""
        if self._task and not self.is_over:
            self._is_cancelled = self._task.cancel()

    def is_mine(self) -> bool:
        """Tell whether it was this that cancelled the task, and nobody else; the task forgets it then."""
        uncancel = getattr(self._task, "uncancel", int)
        return self._is_cancelled and uncancel() <= self._before


def _settle_with(future: asyncio.Future[bool], _: object) -> None:
    settle(future, True)  # noqa: FBT003  the value


def _settle_without(future: asyncio.Future[Any]) -> None:
    settle(future, None)


def soon(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
    """Call a function in a loop, from any thread; in a loop that is closed nobody waits any more."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)


def _remind(task: asyncio.Task[Any], times: int) -> None:
    if times and not task.done():
        task.cancel()
        task.get_loop().call_later(GRACE, _remind, task, times - 1)


def _look_at(task: asyncio.Task[Any]) -> None:
    """Take note of what a task raised that nobody waits for: asyncio would complain."""
    if not task.cancelled():
        task.exception()
