"""Tasks of an event loop: start them, wait for them, cancel them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast

from toolkit._concurrency.cancellation import CANCELLED, Cancellation, cancellation_error, on_cancel
from toolkit._concurrency.threads import AbandonedJobs, Job, Outcome, time_left, unwrap_outcome

if TYPE_CHECKING:
    import asyncio

# Seconds for a task that was cancelled from outside to run its `finally` blocks.
GRACE = 1.0
# Seconds for a cancelled task to end, or to return what it has; then it is abandoned.
PATIENCE = 0.5
# A task that swallows its cancellation is cancelled again every GRACE seconds, this many times.
REMINDERS = 10
# Seconds between two rounds of a notebook's loop, at most, while a run is active.
ROUND = 0.1

NO_LOOP = (
    "This needs an event loop of asyncio, and none is running. In one of another library, run the sync method in a "
    "thread: await trio.to_thread.run_sync(runner.run, prompt)."
)

T = TypeVar("T")


def get_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop.

    Raises:
        RuntimeError: No event loop of asyncio is running. One of another library may be.
    """
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(NO_LOOP) from None


def start_task(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a coroutine as a task of the running loop, eagerly on Python 3.12 and later."""
    import asyncio

    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, eager_start=True)
    return loop.create_task(coroutine)


async def run_in_task(
    job: Callable[[], Coroutine[Any, Any, T]], cancellation: Cancellation | None, abandoned: AbandonedJobs
) -> T:
    """Run a coroutine as a task and return its value.

    A coroutine that is cancelled may catch that and return the value that it has.

    Raises:
        TimedOut: The deadline has passed.
        Cancelled: The coroutine was cancelled.
        concurrent.futures.CancelledError: The coroutine cancelled itself.
    """
    import asyncio
    from concurrent.futures import CancelledError

    task = start_task(capture(job))
    try:
        await wait_until_done(task, cancellation)
    except asyncio.CancelledError:
        await cancel_tasks([task], GRACE, abandoned)
        raise

    if not task.done():
        await cancel_tasks([task], PATIENCE, abandoned)
        if not task.done() or task.cancelled() or task.result()[1] is not None:
            raise cancellation_error(cancellation or Cancellation())
    if task.cancelled():
        raise cancellation_error(cancellation) if cancellation else CancelledError
    return unwrap_outcome(task.result())


async def capture(job: Callable[[], Coroutine[Any, Any, T]]) -> Outcome[T]:
    """Return the exception of a job as a value: asyncio replaces some, and an interrupt would end the loop."""
    try:
        return await job(), None
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001  raised again where the value is awaited
        return None, error


async def run_to_end(function: Callable[[Cancellation], T], cancellation: Cancellation) -> T:
    """Run a function on a thread and wait for its end, even when cancelled. It gets a Cancellation to look at."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome[T]] = loop.create_future()
    with Cancellation(parent=cancellation) as stop:
        Job(partial(function, stop), partial(call_soon, loop, set_result, future)).start()
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
            if not future.done():
                stop.cancel(cancellation.reason or CANCELLED)

    return unwrap_outcome(future.result())


async def await_in_place(job: Callable[[], Coroutine[Any, Any, T]], cancellation: Cancellation | None) -> T:
    """Run a job in the caller's own task. `cancellation` cancels the job, but not the task.

    Raises:
        Cancelled: The job was cancelled.
    """
    if cancellation is None:
        return await job()

    import asyncio

    task = asyncio.current_task()
    is_cancelled = False
    is_over = False
    before = getattr(task, "cancelling", int)()  # not there on Python 3.10

    def cancel() -> None:
        nonlocal is_cancelled
        if task and not is_over:
            is_cancelled = task.cancel()

    try:
        with on_cancel(cancellation, partial(call_soon, asyncio.get_running_loop(), cancel)):
            return await job()
    except asyncio.CancelledError:
        if not is_cancelled or getattr(task, "uncancel", int)() > before:  # the task was cancelled, too
            raise
        raise cancellation_error(cancellation) from None
    finally:
        is_over = True


@coroutine
def watch_loop(
    awaitable: Awaitable[T], limit: float | None, report: Callable[[float], object]
) -> Generator[Any, Any, T]:
    """Await something, and report the seconds of each step that blocked the loop for longer than `limit`."""
    if limit is None:
        return (yield from awaitable.__await__())

    steps: Any = awaitable.__await__()
    step = steps.send
    sent = None

    while True:
        start = monotonic()
        try:
            waits_for = step(sent)
        except StopIteration as done:
            return cast("T", done.value)
        finally:
            if (seconds := monotonic() - start) > limit:
                report(seconds)
        try:
            step, sent = steps.send, (yield waits_for)
        except BaseException as error:  # noqa: BLE001  passed on to the awaitable
            step = steps.throw
            sent = error


async def wait_until_done(task: asyncio.Task[Any], cancellation: Cancellation | None) -> None:
    """Wait until a task is done or the wait is cancelled. The task continues."""
    if task.done():
        return
    waiter: asyncio.Future[bool] = task.get_loop().create_future()
    task.add_done_callback(lambda _: set_result(waiter, True))  # noqa: FBT003  the value
    await wait_for(waiter, cancellation)


async def wait_for(
    waiter: asyncio.Future[T],
    cancellation: Cancellation | None,
    seconds: float | None = None,
    *,
    patience: float = 0.0,
) -> T | None:
    """Wait for a future's value. Return None when the time is up, or `patience` seconds after the wait is cancelled."""
    loop = waiter.get_loop()
    left = time_left(cancellation, seconds)
    timer = loop.call_later(left, set_result, waiter, None) if left is not None else None
    try:
        with on_cancel(cancellation, partial(call_soon, loop, loop.call_later, patience, set_result, waiter, None)):
            return await waiter
    finally:
        if timer:
            timer.cancel()


async def cancel_tasks(tasks: list[asyncio.Task[Any]], seconds: float, abandoned: AbandonedJobs) -> None:
    """Cancel tasks, and wait some seconds for them to end."""
    import asyncio

    unfinished = [task for task in tasks if not task.done()]
    for task in unfinished:
        cancel_task(task, abandoned)
    if unfinished:
        await asyncio.wait(unfinished, timeout=seconds)


def cancel_task(task: asyncio.Task[Any], abandoned: AbandonedJobs) -> None:
    """Cancel a task. Until it ends, it counts as abandoned and is cancelled again from time to time."""
    task.cancel()
    task.add_done_callback(_consume_exception)
    abandoned.add(lambda: not task.done())
    task.get_loop().call_later(GRACE, _remind, task, REMINDERS)


def set_result(future: asyncio.Future[Any], value: Any) -> None:
    """Set a future's result, unless it is done."""
    if not future.done():
        future.set_result(value)


def call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
    """Call a function in a loop, from any thread. Do nothing if the loop is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)


def _remind(task: asyncio.Task[Any], times: int) -> None:
    if times and not task.done():
        task.cancel()
        task.get_loop().call_later(GRACE, _remind, task, times - 1)


def _consume_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task that nothing awaits, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


@contextmanager
def notice_interrupts() -> Iterator[None]:
    """Wake the running loop of a Jupyter kernel from time to time.

    An interrupt of a cell schedules its cancellation in the loop without waking it. Until something else happens in the
    loop, such as the end of a tool's thread, the cell would continue.
    """
    if "ipykernel" not in sys.modules:
        yield
        return

    import asyncio

    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def wake() -> None:
        nonlocal timer
        timer = loop.call_later(ROUND, wake)

    wake()
    try:
        yield
    finally:
        if timer:
            timer.cancel()
