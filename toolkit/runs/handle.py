"""A run in the background, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from contextvars import copy_context
from itertools import count
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar, override

from toolkit._concurrency.cancellation import Cancellation
from toolkit.events import Event
from toolkit.runs.controls import Controls
from toolkit.runs.inbox import Inbox
from toolkit.runs.result import RunResult, ended
from toolkit.runs.run import Run
from toolkit.runs.streams import RunStream

T = TypeVar("T", default=str)
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
    def _inbox(self) -> Inbox:
        return self._run.inbox

    @property
    @override
    def _cancellation(self) -> Cancellation:
        return self._run.stop

    @property
    def run_id(self) -> str:
        """The run's id, as its tools and events have it."""
        return self._run.run_id

    @property
    def status(self) -> Status:
        """How it goes: "pending", "running", "completed", "paused", "cancelled" or "failed"."""
        with self._news:
            if not self._is_done:
                return "running" if self._told else "pending"
        if self._error is not None:
            return "failed"
        reason = ended(self._run.result).finish_reason
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
        return ended(self._run.result)

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
