"""A semaphore for threads and tasks alike: whoever waits for a place waits as its run does."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import Any, TypeAlias

Wait: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], Awaitable[None]]


class Semaphore:
    """Gives places to as many as there are; the others wait, and the one that came first is next.

    Args:
        places: How many there are, at least 1.
    """

    def __init__(self, places: int) -> None:
        self._places = self._free = places
        self._lock = Lock()
        self._waiting: deque[Future[None]] = deque()

    def __reduce__(self) -> tuple[Any, ...]:
        return Semaphore, (self._places,)  # another process has places of its own

    async def acquire(self, wait: Wait) -> None:
        """Take a place, which `release` gives back.

        Args:
            wait: Carries out a coroutine, for as long as the caller will wait; what it raises ends the wait.
        """
        with self._lock:
            if self._free:
                self._free -= 1
                return
            ticket = Future[None]()
            self._waiting.append(ticket)
        try:
            await wait(partial(_called_up, ticket))
        except BaseException:
            if not ticket.cancel():  # it was called up at the same moment
                self.release()
            raise

    def release(self) -> None:
        """Give the place to whoever has waited longest."""
        with self._lock:
            while self._waiting:
                ticket = self._waiting.popleft()
                if ticket.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        ticket.set_result(None)


async def _called_up(ticket: Future[None]) -> None:
    import asyncio

    await asyncio.wrap_future(ticket)
