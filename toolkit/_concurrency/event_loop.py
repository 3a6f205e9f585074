"""The private event loop of the process, for async leaves in the sync backend."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from toolkit._concurrency.tasks import GRACE, get_loop
from toolkit._concurrency.threads import LONGEST_WAIT, start_thread
from toolkit.errors import FatalError

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")


class LoopWaits:
    """The futures in the private loop that the thread of one job waits for; `end_waits` cancels them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: list[Future[Any]] = []
        self._has_ended = False

    def add(self, start: Callable[[], Future[T]]) -> Future[T]:
        """Start a thread's future and add it.

        Raises:
            CancelledError: The waits have ended; nothing was started.
        """
        from concurrent.futures import CancelledError

        with self._lock:
            if self._has_ended:
                raise CancelledError
            future = start()
            self._futures.append(future)
        return future

    def is_waiting(self) -> bool:
        """Return whether the thread waits for a future."""
        with self._lock:
            return not all(future.done() for future in self._futures)

    def end(self) -> Sequence[Future[Any]]:
        """Cancel the futures that the thread still waits for, and return them."""
        with self._lock:
            self._has_ended = True
        return [future for future in self._futures if future.cancel()]


def end_waits(waits: Iterable[LoopWaits], seconds: float) -> None:
    """Cancel the futures that threads still wait for, and wait some seconds for their `finally` blocks."""
    if unfinished := [future for wait in waits for future in wait.end()]:
        from concurrent.futures import wait as wait_for_futures

        wait_for_futures(unfinished, seconds)


NO_THREADS = "An async function is called, and a browser has no threads: use async methods, such as arun() for run()."
loop_waits: ContextVar[LoopWaits | None] = ContextVar("loop_waits", default=None)


class PrivateLoop:
    """An event loop on a thread of its own, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def run(self, job: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function in the loop and wait for it on the caller's thread.

        Raises:
            RuntimeError: Called on the loop's own thread, which would wait for itself.
        """
        import asyncio
        from concurrent.futures import CancelledError

        self.check_caller()
        loop = self._get_loop()
        has_ended = threading.Event()
        future = None

        async def watched() -> T:
            try:
                return await job()
            finally:
                has_ended.set()

        def start() -> Future[T]:
            return asyncio.run_coroutine_threadsafe(watched(), loop)

        try:
            waits = loop_waits.get()
            future = waits.add(start) if waits else start()
            return _get_result(future)
        except CancelledError as error:
            if self._loop is loop:
                raise  # the coroutine cancelled itself, or its batch has ended
            raise asyncio.CancelledError from error  # the loop was closed
        except BaseException:
            if future and future.cancel():  # Ctrl-C
                has_ended.wait(GRACE)  # let its `finally` blocks run
            raise

    def check_caller(self) -> None:
        """Check that the current thread may wait for the loop.

        Raises:
            RuntimeError: The current thread is the loop's own, which would wait for itself.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "an async tool, gate or hook called a sync method of this library: await the async method, such as "
                "arun() for run()"
            )

    async def arun(self, job: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function in the loop and wait for it in the running loop, which may be this one."""
        import asyncio

        running = get_loop()
        loop = self._get_loop()
        if running is loop:
            return await job()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(job(), loop))

    def close(self) -> None:
        """Stop the loop. The next `run` starts another."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is None or self._thread is None or self._process != os.getpid():
                return
            loop.call_soon_threadsafe(lambda: loop.create_task(_cancel_all(loop)))
            self._thread.join(GRACE)

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():  # a forked process has the loop, but not its thread
                if sys.platform == "emscripten":
                    raise FatalError(NO_THREADS)
                # Not in the context of the first call, which the loop would keep, with its run and deps.
                start = Context().run
                loop = start(_make_loop)
                try:
                    self._thread = start(start_thread, partial(_run_loop, loop), "toolkit-loop")
                except RuntimeError:
                    loop.close()
                    raise
                self._loop = loop
                self._process = os.getpid()
                atexit.register(self.close)
            return self._loop


def _get_result(future: Future[T]) -> T:
    """Wait for a future on this thread.

    The wait is repeated, since no single wait may be longer than `LONGEST_WAIT`.
    """
    from concurrent import futures

    while not future.done():
        with suppress(futures.TimeoutError):
            future.result(LONGEST_WAIT)
    return future.result()


# One for the process, since an async client belongs to the loop that first used it.
private_loop = PrivateLoop()


def _make_loop() -> asyncio.AbstractEventLoop:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    class Pool(ThreadPoolExecutor):
        """A pool whose threads do not inherit the context of a call, as threads do on free-threaded Python."""

        def submit(self, function: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
            return Context().run(super().submit, function, *args, **named)

    loop = asyncio.new_event_loop()
    loop.set_default_executor(Pool(thread_name_prefix="asyncio"))
    return loop


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the tasks of a loop, then stop it."""
    import asyncio

    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await loop.shutdown_asyncgens()
    loop.stop()
