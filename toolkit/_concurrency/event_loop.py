"""One private event loop for async leaves in sync backends."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toolkit._concurrency.tasks import GRACE

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")


class Turn:
    """What the threads of one turn wait for in the private loop; once the turn is left, they wait for nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: list[Future[Any]] = []
        self._is_left = False

    def add(self, future: Future[Any]) -> None:
        """Count a thread's future in."""
        with self._lock:
            self._futures.append(future)
            is_left = self._is_left
        if is_left:
            future.cancel()

    def leave(self, seconds: float) -> None:
        """Cancel what threads still wait for, and wait a while until each has run its `finally`."""
        with self._lock:
            self._is_left = True
        unfinished = [future for future in self._futures if future.cancel()]
        if unfinished:
            from concurrent.futures import wait

            wait(unfinished, seconds)


this_turn: ContextVar[Turn | None] = ContextVar("this_turn", default=None)


class PrivateLoop:
    """One event loop on a thread of its own, started when an async leaf first needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait on the caller's thread for a coroutine that runs in the loop.

        Raises:
            RuntimeError: Called from the loop itself, which would wait for itself.
        """
        import asyncio
        from concurrent.futures import CancelledError

        loop = self._running()
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(
                "an async tool called a sync method of this library; await the one whose name begins with a"
            )
        watched = _Watched(coroutine)
        try:
            future = asyncio.run_coroutine_threadsafe(watched.run(), loop)
            if (turn := this_turn.get()) is not None:
                turn.add(future)
            return future.result()
        except CancelledError as error:
            if self._loop is loop:
                raise  # its own doing
            raise asyncio.CancelledError from error  # the loop was closed over it
        except BaseException:
            if not watched.ended.is_set():  # a Ctrl-C, which may come before there is a future
                loop.call_soon_threadsafe(watched.cancel)
                watched.ended.wait(GRACE)  # cancelled, it still has its `finally` to run
            raise

    def close(self) -> None:
        """Stop the loop; the next `run` starts another."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is None or self._thread is None or self._process != os.getpid():
                return
            loop.call_soon_threadsafe(lambda: loop.create_task(_wind_up(loop)))
            self._thread.join(GRACE)

    def _running(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None or self._process != os.getpid():  # a fork takes the loop along, but not its thread
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="toolkit-loop", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            return self._loop


# The one loop of the process for async leaves in sync backends: an async client belongs to the loop that first used it.
private_loop = PrivateLoop()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """End what is left in a loop, then the loop."""
    import asyncio

    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await loop.shutdown_asyncgens()
    loop.stop()


class _Watched(Generic[T]):
    """A coroutine in the private loop, whose end can be waited for from elsewhere."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.ended = threading.Event()
        self._coroutine = coroutine
        self._task: asyncio.Task[Any] | None = None

    async def run(self) -> T:
        """Carry it out, unless it was cancelled before."""
        import asyncio

        if self.ended.is_set():
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        try:
            return await self._coroutine
        finally:
            self.ended.set()

    def cancel(self) -> None:
        """End it, in the loop."""
        if self._task is not None:
            self._task.cancel()
        else:
            self._coroutine.close()
            self.ended.set()
