"""The events of a run, drawn one by one: in place, or in the caller's event loop.

A run in the background, on a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from contextvars import copy_context
from itertools import count
from types import TracebackType
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import Self, TypeVar, override

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import run_sync
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit._runner.control import Controls, MessageQueue
from toolkit._runner.result import RunResult, require_result
from toolkit._runner.run import Run
from toolkit.events import Event
from toolkit.models import Model
from toolkit.models.default import ModelChoice

T = TypeVar("T", default=str)


class _Drawn(Controls, Generic[T]):
    """What both kinds of stream are: a run, and what can be done to it."""

    _run: Run[T]

    @property
    @override
    def _queue(self) -> MessageQueue:
        return self._run.queue

    @property
    @override
    def _cancellation(self) -> Cancellation:
        return self._run.cancellation

    @property
    def result(self) -> RunResult[T]:
        """What came of the run; of one that was left early, too.

        Raises:
            RunError: It has not ended.
        """
        return require_result(self._run.result)


class RunStream(_Drawn[T]):
    """The events of a run, as an iterator and a context manager; `result` is there once it has ended."""

    def __init__(self, run: Run[T]) -> None:
        self._run = run
        self._events = run.events(SyncBackend(), _in_place)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        try:
            return run_sync(self._events.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the run where it stands."""
        if getattr(self._events, "ag_running", False):  # another thread draws from it
            self._run.cancellation.cancel()
            return
        run_sync(self._events.aclose())
        self._run.leave()  # one that was never begun has nothing to close

    def __del__(self) -> None:
        with suppress(Exception):  # a loop that runs here would close it much later
            self.close()


class AsyncRunStream(_Drawn[T]):
    """The events of a run, as an async iterator and an async context manager."""

    def __init__(self, run: Run[T]) -> None:
        self._run = run
        self._events = run.events(AsyncBackend(), _in_loop)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[Event]:
        return self._events.__anext__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the run where it stands."""
        await self._events.aclose()
        self._run.leave()  # one that was never begun has nothing to close


async def _in_place(choice: ModelChoice) -> Model:
    return choice.sync_model()


async def _in_loop(choice: ModelChoice) -> Model:
    return await choice.async_model()


Status: TypeAlias = Literal["pending", "running", "completed", "paused", "cancelled", "failed"]


class RunHandle(Controls, Generic[T]):
    """A run in the background: ask how it goes, wait for its result, steer it, call it off."""

    def __init__(self, run: Run[T]) -> None:
        self._run = run
        self._told: list[Event] = []
        self._news = threading.Condition()
        self._error: BaseException | None = None
        self._is_done = False
        self._waiting: list[Callable[[], None]] = []
        thread = threading.Thread(target=copy_context().run, args=(self._work,), name="toolkit-run", daemon=True)
        thread.start()

    @property
    @override
    def _queue(self) -> MessageQueue:
        return self._run.queue

    @property
    @override
    def _cancellation(self) -> Cancellation:
        return self._run.cancellation

    @property
    def run_id(self) -> str:
        """The run's id, as its tools and events have it."""
        return self._run.conversation.run_id

    @property
    def status(self) -> Status:
        """How it goes: "pending", "running", "completed", "paused", "cancelled" or "failed"."""
        with self._news:
            if not self._is_done:
                return "running" if self._told else "pending"
        if self._error is not None:
            return "failed"
        reason = require_result(self._run.result).finish_reason
        return "paused" if reason == "paused" else "cancelled" if reason == "cancelled" else "completed"

    def result(self, timeout: float | None = None) -> RunResult[T]:
        """Wait for what comes of the run.

        Args:
            timeout: Seconds to wait; as long as it takes by default.

        Raises:
            TimeoutError: It has not ended by then; it goes on.
            RunError: It failed; and whatever else `run` raises.
        """
        with self._news:
            if not self._news.wait_for(lambda: self._is_done, timeout):
                raise TimeoutError(f"The run has not ended after {timeout:g} s; it goes on.")
        if self._error is not None:
            raise self._error
        return require_result(self._run.result)

    def events(self) -> Iterator[Event]:
        """Give the events of the run from its first one to its last, as they happen; more than one may listen."""
        for number in count():
            event = self._told_at(number)
            if event is None:
                return
            yield event

    def __await__(self) -> Generator[Any, None, RunResult[T]]:
        import asyncio

        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(done.set)

        with self._news:
            if self._is_done:
                done.set()
            self._waiting.append(tell)
        yield from done.wait().__await__()
        return self.result()

    def _work(self) -> None:
        try:
            with RunStream(self._run) as stream:
                for event in stream:
                    self._tell(event)
        except BaseException as error:  # noqa: BLE001  it is raised again where the result is asked for
            self._error = error
        with self._news:
            self._is_done = True
            self._news.notify_all()
            waiting = list(self._waiting)
        for tell in waiting:
            tell()

    def _told_at(self, number: int) -> Event | None:
        """Wait for an event; None where there is none of this number."""
        with self._news:
            self._news.wait_for(lambda: self._is_done or len(self._told) > number)
            return self._told[number] if number < len(self._told) else None

    def _tell(self, event: Event) -> None:
        with self._news:
            self._told.append(event)
            self._news.notify_all()
