"""The two backends: sync leaves are stepped, async leaves are awaited, and nothing waits for itself."""

import asyncio
import concurrent.futures
import contextvars
import gc
import os
import threading
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import Backend, call_function, iterate_until, run_sync
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.event_loop import LoopWaits, PrivateLoop, loop_waits, private_loop
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit.errors import Cancelled, TimedOut

WAITS = "needs an event loop: await the async method"


async def here() -> threading.Thread:
    return threading.current_thread()


async def suspended() -> None:
    await asyncio.sleep(0)


async def asked(backend: Backend, *, is_async: bool) -> threading.Thread:
    return await backend.call(here, is_async=is_async)


async def counted(closed: list[str], *, to: int = 3) -> AsyncIterator[int]:
    try:
        for number in range(to):
            yield number
    finally:
        closed.append("closed")


class Bare:
    """An async iterator that cannot be closed."""

    def __init__(self) -> None:
        self.left = [1, 2]

    def __aiter__(self) -> "Bare":
        return self

    async def __anext__(self) -> int:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop(0)


async def all_of(values: AsyncIterator[Any]) -> list[Any]:
    return [value async for value in values]


def through_sync(made: Callable[[Backend], Any]) -> Any:
    return run_sync(made(SyncBackend()))


def through_async(made: Callable[[Backend], Any]) -> Any:
    async def main() -> Any:
        return await made(AsyncBackend())

    return asyncio.run(main())


# Seconds in which a leaf begins, on a busy machine too.
SOON = 0.5
BOTH = pytest.mark.parametrize("through", [through_sync, through_async], ids=["sync", "async"])
LEAVES = pytest.mark.parametrize("is_async", [False, True], ids=["sync leaf", "async leaf"])


# -- stepping


def test_step() -> None:
    """A coroutine that never suspends is run in place."""
    assert threading.current_thread() is run_sync(here())


def test_step_of_what_suspends() -> None:
    """A coroutine that suspends is ended where it waits, with what to do."""
    with pytest.raises(RuntimeError, match=WAITS):
        run_sync(suspended())


def test_step_leaves_in_order() -> None:
    """What suspends has its `finally` run, inner before outer, generators in between included."""
    left: list[str] = []

    async def inner() -> AsyncIterator[int]:
        try:
            await asyncio.sleep(0)
            yield 1
        finally:
            left.append("inner")

    async def outer() -> None:
        try:
            await all_of(inner())
        finally:
            left.append("outer")

    with pytest.raises(RuntimeError, match=WAITS):
        run_sync(outer())

    assert ["inner", "outer"] == left


def test_step_of_what_suspends_again() -> None:
    """A coroutine that will not end is closed."""

    async def stubborn() -> None:
        try:
            await asyncio.sleep(0)
        except RuntimeError:
            await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match=WAITS):
        run_sync(stubborn())


def test_step_of_what_bears_it() -> None:
    """A coroutine that makes do without the wait gives its value."""

    async def patient() -> str:
        try:
            await asyncio.sleep(0)
        except RuntimeError:
            return "without"
        return "with"

    assert "without" == run_sync(patient())


# -- one leaf


@pytest.mark.parametrize(
    ("through", "is_async", "expected"),
    [
        (through_sync, False, ("caller",)),
        (through_sync, True, ("toolkit-loop",)),
        (through_async, False, ("toolkit-call",)),
        (through_async, True, ("caller",)),
    ],
    ids=["sync, sync", "sync, async", "async, sync", "async, async"],
)
def test_where_a_leaf_runs(through: Callable[..., Any], is_async: bool, expected: tuple[str]) -> None:
    """A leaf runs on the caller's thread where it can, else on the private loop or a thread of its own."""
    thread = through(lambda backend: asked(backend, is_async=is_async))
    name = "caller" if thread is threading.current_thread() else thread.name

    assert expected == (name,)


@BOTH
@LEAVES
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, StopAsyncIteration])
def test_what_a_leaf_raises(through: Callable[..., Any], is_async: bool, kind: type[BaseException]) -> None:
    """What a leaf raises is raised where its value is awaited."""

    async def fail() -> None:
        raise kind("mine")

    async def ask(backend: Backend) -> str:
        try:
            await backend.call(fail, is_async=is_async)
        except kind as error:
            return str(error)
        return "nothing"

    assert "mine" == through(ask)


NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="unset")


@BOTH
@LEAVES
def test_context_variables(through: Callable[..., Any], is_async: bool) -> None:
    """A leaf sees the caller's context variables."""

    async def look() -> str:
        return NAME.get()

    async def ask(backend: Backend) -> Any:
        NAME.set("set")
        return await backend.call(look, is_async=is_async)

    assert "set" == contextvars.copy_context().run(through, ask)


# -- many values


def iterate(backend: Backend, source: Any, *, is_async: bool) -> Any:
    return iterate_until(backend, source, is_async=is_async, cancellation=Cancellation())


@BOTH
@LEAVES
def test_iterate(through: Callable[..., Any], is_async: bool) -> None:
    """Values come one by one, and the source is closed at their end."""
    closed: list[str] = []

    assert [0, 1, 2] == through(lambda backend: all_of(iterate(backend, counted(closed), is_async=is_async)))
    assert ["closed"] == closed


@BOTH
@LEAVES
def test_iterate_what_cannot_be_closed(through: Callable[..., Any], is_async: bool) -> None:
    """A source that has no aclose is read to its end all the same."""
    assert [1, 2] == through(lambda backend: all_of(iterate(backend, Bare(), is_async=is_async)))


@BOTH
@LEAVES
def test_iterate_left_early(through: Callable[..., Any], is_async: bool) -> None:
    """A source whose drawer leaves is closed before the drawer goes on."""
    closed: list[str] = []

    async def leave(backend: Backend) -> list[str]:
        values: Any = iterate(backend, counted(closed), is_async=is_async)
        await values.__anext__()
        await values.aclose()
        return list(closed)

    assert ["closed"] == through(leave)


# -- several jobs


def jobs(count: int, work: Callable[[int], Any]) -> list[Any]:
    async def job(number: int) -> Any:
        return work(number)

    return [lambda number=number: job(number) for number in range(count)]


@BOTH
@pytest.mark.parametrize("count", [0, 1, 2, 10])
def test_together(through: Callable[..., Any], count: int) -> None:
    """Every job has its value, also where there are fewer places than jobs."""
    assert list(range(count)) == sorted(through(lambda backend: all_of(backend.run_all(jobs(count, lambda n: n), 3))))


def test_width_of_the_sync_backend() -> None:
    """No more jobs than there are places are at work at the same time."""
    at_work, most, lock = [0], [0], threading.Lock()

    def work(_: int) -> None:
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        threading.Event().wait(0.002)
        with lock:
            at_work[0] -= 1

    through_sync(lambda backend: all_of(backend.run_all(jobs(12, work), 3)))

    assert most[0] <= 3


def test_width_of_the_async_backend() -> None:
    """No more tasks than there are places are at work at the same time."""
    at_work: list[int] = []
    most: list[int] = []

    async def job() -> None:
        at_work.append(1)
        most.append(len(at_work))
        await asyncio.sleep(0)
        at_work.pop()

    through_async(lambda backend: all_of(backend.run_all([job] * 12, 3)))

    assert 3 == max(most)


@BOTH
def test_error_among_jobs(through: Callable[..., Any]) -> None:
    """What a job raises leaves; the others harm nobody."""

    def work(number: int) -> int:
        if number == 1:
            raise ValueError("mine")
        return number

    with pytest.raises(ValueError, match="mine"):
        through(lambda backend: all_of(backend.run_all(jobs(4, work), 2)))


# -- waits that end


async def outlasted(backend: Backend, job: Any, cancellation: Cancellation, *, is_async: bool) -> str:
    """What a wait ends with."""
    try:
        return f"gave {await backend.call(job, is_async=is_async, cancellation=cancellation)}"
    except (TimedOut, Cancelled) as error:
        return type(error).__name__


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets go what hangs when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def hanging(release: threading.Event, *, is_async: bool) -> Callable[[], Any]:
    async def hang() -> None:
        release.wait(60)

    async def hang_later() -> None:
        await asyncio.Event().wait()

    return hang_later if is_async else hang


@BOTH
@LEAVES
def test_deadline(through: Callable[..., Any], is_async: bool, release: threading.Event) -> None:
    """A leaf that is not done at the deadline is given up."""
    job = hanging(release, is_async=is_async)

    assert "TimedOut" == through(lambda backend: outlasted(backend, job, Cancellation(0.01), is_async=is_async))


@BOTH
@LEAVES
def test_in_time(through: Callable[..., Any], is_async: bool) -> None:
    """A leaf that is done before the deadline gives its value."""

    async def quick() -> int:
        return 1

    assert "gave 1" == through(lambda backend: outlasted(backend, quick, Cancellation(60), is_async=is_async))


@BOTH
@LEAVES
def test_called_off(through: Callable[..., Any], is_async: bool, release: threading.Event) -> None:
    """A leaf is given up when it is called off, from whatever thread."""
    cancellation = Cancellation(60)
    job = hanging(release, is_async=is_async)
    timer = threading.Timer(0.01, cancellation.cancel)
    timer.start()

    assert "Cancelled" == through(lambda backend: outlasted(backend, job, cancellation, is_async=is_async))


@BOTH
def test_too_late_to_begin(through: Callable[..., Any]) -> None:
    """A sync leaf does not begin when its time is over."""
    started: list[int] = []

    async def begin() -> None:
        started.append(1)

    assert "TimedOut" == through(lambda backend: outlasted(backend, begin, Cancellation(0), is_async=False))
    assert [] == started


@pytest.mark.parametrize("cancellation", [None, Cancellation()], ids=["no end", "no deadline"])
def test_caller_thread_has_no_deadline(cancellation: Cancellation | None) -> None:
    """In the sync backend a sync leaf leaves the caller's thread only where it has a deadline."""

    async def ask(backend: Backend) -> list[threading.Thread]:
        late = await backend.call(here, is_async=False, cancellation=Cancellation(60))
        return [await backend.call(here, is_async=False, cancellation=cancellation), late]

    caller, other = through_sync(ask)

    assert (threading.current_thread(), "toolkit-call") == (caller, other.name)


@BOTH
def test_abandoned_thread(through: Callable[..., Any], release: threading.Event) -> None:
    """A thread that was given up is counted, until it ends."""
    job = hanging(release, is_async=False)

    async def count_abandoned(backend: Backend) -> list[int]:
        await outlasted(backend, job, Cancellation(SOON), is_async=False)
        counts = [len(backend.abandoned)]
        release.set()
        while len(backend.abandoned):
            await backend.sleep(0.001)
        return [*counts, len(backend.abandoned)]

    assert [1, 0] == through(count_abandoned)


@BOTH
def test_abandoned_task(through: Callable[..., Any]) -> None:
    """A task that swallows its cancellation is counted, until it ends."""
    release = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(asyncio.get_running_loop())
            await release.wait()

    async def count_abandoned(backend: Backend) -> list[int]:
        await outlasted(backend, stubborn, Cancellation(SOON), is_async=True)
        counts = [len(backend.abandoned)]
        ended[0].call_soon_threadsafe(release.set)
        while len(backend.abandoned):
            await backend.sleep(0.001)
        return [*counts, len(backend.abandoned)]

    ended: list[asyncio.AbstractEventLoop] = []

    assert [1, 0] == through(count_abandoned)


@BOTH
def test_finally_of_what_is_late(through: Callable[..., Any]) -> None:
    """A coroutine that is given up has its `finally` run before the wait ends."""
    ended: list[str] = []

    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("finally")

    through(lambda backend: outlasted(backend, tidy, Cancellation(SOON), is_async=True))

    assert ["finally"] == ended


@BOTH
def test_leaf_that_cancels_its_task(through: Callable[..., Any]) -> None:
    """A coroutine that cancels its own task ends itself, and nothing else."""

    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async def ask(backend: Backend) -> str:
        with pytest.raises(concurrent.futures.CancelledError):
            await backend.call(cancel, is_async=True)
        return "goes on"

    assert "goes on" == through(ask)


@pytest.mark.parametrize("kind", [TimeoutError, concurrent.futures.CancelledError, StopAsyncIteration])
@BOTH
def test_errors_that_asyncio_knows(through: Callable[..., Any], kind: type[Exception]) -> None:
    """An exception that means something to asyncio comes out of a coroutine as any other."""

    async def fail() -> None:
        raise kind("mine")

    async def ask(backend: Backend) -> str:
        try:
            await backend.call(fail, is_async=True, cancellation=Cancellation(60))
        except kind as error:
            return str(error)
        return "nothing"

    assert "mine" == through(ask)


@BOTH
@pytest.mark.parametrize(("cancellation", "expected"), [(None, "slept"), (0.01, "TimedOut")], ids=["whole", "deadline"])
def test_sleep(through: Callable[..., Any], cancellation: float | None, expected: str) -> None:
    """A backend sleeps, but not beyond a deadline."""

    async def sleep(backend: Backend) -> str:
        try:
            await backend.sleep(0.001 if cancellation is None else 60, Cancellation(cancellation))
        except TimedOut as error:
            return type(error).__name__
        return "slept"

    assert expected == through(sleep)


# -- news of jobs


@BOTH
@pytest.mark.parametrize("apart", [False, True], ids=["in place", "apart"])
@pytest.mark.parametrize("count", [1, 3])
def test_told(through: Callable[..., Any], count: int, apart: bool) -> None:
    """What a job tells comes before its end, in its order; every job ends."""

    async def run(backend: Backend) -> list[Any]:
        events = backend.channel()

        async def job(number: int) -> int:
            events.put(f"{number} begins")
            events.put(f"{number} ends")
            return number

        return await all_of(backend.run_all([partial(job, n) for n in range(count)], 9, events, own_thread=apart))

    news = through(run)

    assert [[f"{n} begins", f"{n} ends", n] for n in range(count)] == [
        [item for item in news if str(item)[0] == str(n)] for n in range(count)
    ]


@BOTH
def test_told_at_once(through: Callable[..., Any]) -> None:
    """What a job emits on a thread is given while the job is at work."""
    received = threading.Event()

    async def run(backend: Backend) -> list[Any]:
        events, items = backend.channel(), []

        async def work() -> bool:
            events.put("started")
            return received.wait(10)

        async for item in backend.run_all([partial(backend.call, work, is_async=False)], 1, events, own_thread=True):
            items.append(item)
            received.set()
        return items

    assert ["started", True] == through(run)


@BOTH
@LEAVES
def test_jobs_called_off(through: Callable[..., Any], is_async: bool, release: threading.Event) -> None:
    """When jobs are called off, those that are done have been given, and the others are given up."""
    cancellation, values = Cancellation(), list[Any]()
    hang = hanging(release, is_async=is_async)

    async def quick() -> str:
        return "quick"

    async def run(backend: Backend) -> str:
        both: list[Any] = [quick, partial(backend.call, hang, is_async=is_async)]
        try:
            async for value in backend.run_all(both, 2, cancellation=cancellation):
                values.append(value)
                cancellation.cancel()
        except Cancelled:
            return "called off"
        return "ended"

    assert ("called off", ["quick"]) == (through(run), values)


@BOTH
def test_jobs_that_are_late(through: Callable[..., Any], release: threading.Event) -> None:
    """Jobs have no more time than there is."""
    hang = hanging(release, is_async=False)

    async def run(backend: Backend) -> str:
        jobs = [partial(backend.call, hang, is_async=False)] * 2
        try:
            await all_of(backend.run_all(jobs, 2, cancellation=Cancellation(0.01)))
        except TimedOut:
            return "late"
        return "ended"

    assert "late" == through(run)


def test_many_threads() -> None:
    """More jobs than one thread starts alone have a thread each, with the caller's context variables."""

    def look(_: int) -> tuple[str, int]:
        return NAME.get(), threading.get_ident() if barrier.wait(10) >= 0 else 0

    def run() -> list[tuple[str, int]]:
        NAME.set("set")
        return through_sync(lambda backend: all_of(backend.run_all(jobs(20, look), 20)))  # type: ignore[no-any-return]

    barrier = threading.Barrier(20)
    seen = contextvars.copy_context().run(run)

    assert ({"set"}, 20) == ({name for name, _ in seen}, len({thread for _, thread in seen}))


def test_system_without_threads() -> None:
    """Where the system gives no thread, a job runs on the caller's."""
    before = threading.stack_size(1 << 45)
    try:
        threads = through_sync(lambda backend: all_of(backend.run_all([here, here], 2)))
    finally:
        threading.stack_size(before)

    assert [threading.current_thread()] * 2 == threads


def test_loop_without_threads() -> None:
    """Where the system gives no thread, an async leaf fails; once it does, the next one runs."""

    async def answer() -> int:
        return 42

    loop, before = PrivateLoop(), threading.stack_size(1 << 45)
    try:
        with pytest.raises(RuntimeError):
            loop.run(answer)
    finally:
        threading.stack_size(before)

    assert 42 == loop.run(answer)
    loop.close()


# -- jobs that begin before somebody waits for them


@BOTH
def test_begin(through: Callable[..., Any]) -> None:
    """A job begins at once, and gives its value to whoever waits, as often as they ask."""

    async def begin(backend: Backend) -> list[str]:
        handle = backend.start(partial(backend.call, name, is_async=False))
        return [await handle.wait(), await handle.wait()]

    async def name() -> str:
        return threading.current_thread().name

    assert ["toolkit-call"] * 2 == through(begin)


@BOTH
def test_begin_what_fails(through: Callable[..., Any]) -> None:
    """What a job raises is raised where its value is awaited."""

    async def fail() -> None:
        raise ValueError("mine")

    async def begin(backend: Backend) -> None:
        await backend.start(fail).wait()

    with pytest.raises(ValueError, match="mine"):
        through(begin)


@BOTH
def test_drop(through: Callable[..., Any]) -> None:
    """A job that is dropped has its async leaf cancelled."""
    ended = threading.Event()

    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def begin(backend: Backend) -> bool:
        handle = backend.start(partial(backend.call, hang, is_async=True))
        while not started.is_set():
            await backend.sleep(0.001)
        handle.cancel()
        while not ended.is_set():
            await backend.sleep(0.001)
        return ended.is_set()

    started = threading.Event()

    assert through(begin)


# -- the thread of a leaf that nobody waits for any more


def test_loop_that_has_gone() -> None:
    """A thread whose loop is closed when it ends, ends without a word."""
    release = threading.Event()

    async def wait() -> None:
        release.wait(10)

    async def give_up() -> None:
        before = set(threading.enumerate())
        waiting = asyncio.ensure_future(AsyncBackend().call(wait, is_async=False))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # its thread starts in the round after that of its task
        threads.extend(set(threading.enumerate()) - before)
        waiting.cancel()

    threads: list[threading.Thread] = []
    asyncio.run(give_up())
    release.set()
    for thread in threads:
        thread.join(10)

    assert [False] == [thread.is_alive() for thread in threads]


def test_value_that_comes_too_late() -> None:
    """A value that comes after the wait was cancelled is dropped."""
    release = threading.Event()

    async def wait() -> str:
        release.wait(10)
        return "late"

    async def main() -> bool:
        before = set(threading.enumerate())
        waiting = asyncio.ensure_future(AsyncBackend().call(wait, is_async=False))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # its thread starts in the round after that of its task
        waiting.cancel()
        (thread,) = set(threading.enumerate()) - before
        release.set()
        await asyncio.to_thread(thread.join, 10)
        await asyncio.sleep(0)
        return waiting.cancelled()

    assert asyncio.run(main())


# -- the private loop


def test_private_loop_is_one() -> None:
    """Every async leaf of a sync backend runs in the same loop."""

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert private_loop.run(loop) is private_loop.run(loop)


def test_private_loop_has_a_pool_without_context() -> None:
    """A function in its pool finds no variable of the job that was first to use the pool."""
    loop, variable = PrivateLoop(), contextvars.ContextVar("variable", default="none")

    async def look() -> str:
        return await asyncio.get_running_loop().run_in_executor(None, variable.get)

    def begin() -> str:
        variable.set("first")
        return loop.run(look)

    assert "none" == contextvars.copy_context().run(begin)
    loop.close()


def test_private_loop_does_not_wait_for_itself() -> None:
    """A sync call from inside the private loop is refused, with what to do."""

    async def nested() -> None:
        private_loop.run(suspended)

    with pytest.raises(
        RuntimeError, match=r"an async tool, gate or hook called a sync method of this library: await the async method"
    ):
        private_loop.run(nested)


def test_private_loop_closes() -> None:
    """Closing ends tasks and generators that are left, the thread and the loop; the next run starts another."""
    loop = PrivateLoop()
    ended: list[str] = []
    kept: list[Any] = []

    async def endless(name: str) -> AsyncIterator[None]:
        try:
            yield
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def leave() -> threading.Thread:
        kept.append(endless("generator"))
        await kept[-1].__anext__()
        kept.append(asyncio.ensure_future(all_of(endless("task"))))
        await asyncio.sleep(0)
        return threading.current_thread()

    thread = loop.run(leave)
    loop.close()

    assert (["task", "generator"], False) == (ended, thread.is_alive())
    assert thread is not loop.run(leave)
    loop.close()


def test_private_loop_closes_over_a_waiting_thread() -> None:
    """Whoever waits for the private loop when it is closed is cancelled."""
    loop, started, seen = PrivateLoop(), threading.Event(), []

    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            loop.run(endless)
        except asyncio.CancelledError:
            seen.append("cancelled")

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait(10)
    loop.close()
    thread.join(10)

    assert ["cancelled"] == seen


def test_task_that_cancels_itself() -> None:
    """A coroutine that ends in a cancellation of its own has failed, as far as its caller is concerned."""

    async def cancel() -> None:
        raise asyncio.CancelledError

    with pytest.raises(concurrent.futures.CancelledError):
        private_loop.run(cancel)


def test_private_loop_that_is_stuck() -> None:
    """Closing does not wait for ever for a coroutine that blocks the loop."""
    loop, started, release = PrivateLoop(), threading.Event(), threading.Event()

    async def block() -> None:
        started.set()
        release.wait(10)

    waiting = threading.Thread(target=lambda: loop.run(block))
    waiting.start()
    started.wait(10)
    loop.close()

    assert waiting.is_alive()
    release.set()
    waiting.join(10)


def test_closing_what_never_began() -> None:
    """A private loop that nobody used has nothing to close."""
    before = set(threading.enumerate())
    PrivateLoop().close()

    assert set() == set(threading.enumerate()) - before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_private_loop_after_a_fork() -> None:
    """A forked process, which has no thread of its parent's, starts a loop of its own."""

    async def name() -> int:
        return os.getpid()

    private_loop.run(name)
    child = os.fork()
    if child == 0:
        os._exit(0 if private_loop.run(name) == os.getpid() else 1)

    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_async_function_of_a_batch_that_has_ended() -> None:
    """An async function that a job calls after its batch has ended is not called, and leaves no coroutine behind."""
    reached: list[str] = []
    waits = LoopWaits()
    waits.end()

    async def hook() -> None:
        reached.append("hook")

    def job() -> None:
        loop_waits.set(waits)
        run_sync(call_function(hook, (), SyncBackend()))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(concurrent.futures.CancelledError):
            contextvars.copy_context().run(job)
        gc.collect()
    assert (reached, caught) == ([], [])


def test_nothing_is_kept() -> None:
    """Neither backend keeps what went through it."""

    class Value:
        pass

    async def make() -> Value:
        return Value()

    known = weakref.ref(through_async(lambda backend: backend.call(make, is_async=False)))
    for _ in range(500):  # its thread may still be ending
        gc.collect()
        if known() is None:
            break
        time.sleep(0.01)

    assert known() is None
