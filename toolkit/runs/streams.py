"""The events of a run, drawn one by one: in place, or in the caller's event loop."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from types import TracebackType
from typing import Generic

from typing_extensions import Self, TypeVar, override

from toolkit._concurrency.async_backend import AsyncDoor
from toolkit._concurrency.backend import step
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.sync_backend import SyncDoor
from toolkit.events import Event
from toolkit.models import Model
from toolkit.models.default import ModelChoice
from toolkit.runs.controls import Controls
from toolkit.runs.inbox import Inbox
from toolkit.runs.result import RunResult, ended
from toolkit.runs.run import Run

T = TypeVar("T", default=str)


class _Drawn(Controls, Generic[T]):
    """What both kinds of stream are: a run, and what can be done to it."""

    _run: Run[T]

    @property
    @override
    def _inbox(self) -> Inbox:
        return self._run.inbox

    @property
    @override
    def _cancellation(self) -> Cancellation:
        return self._run.stop

    @property
    def result(self) -> RunResult[T]:
        """What came of the run; of one that was left early, too.

        Raises:
            RunError: It has not ended.
        """
        return ended(self._run.result)


class RunStream(_Drawn[T]):
    """The events of a run, as an iterator and a context manager; `result` is there once it has ended."""

    def __init__(self, run: Run[T]) -> None:
        self._run = run
        self._events = run.events(SyncDoor(), _in_place)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        try:
            return step(self._events.__anext__())
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
            self._run.stop.cancel()
            return
        step(self._events.aclose())
        self._run.leave()  # one that was never begun has nothing to close

    def __del__(self) -> None:
        with suppress(Exception):  # a loop that runs here would close it much later
            self.close()


class AsyncRunStream(_Drawn[T]):
    """The events of a run, as an async iterator and an async context manager."""

    def __init__(self, run: Run[T]) -> None:
        self._run = run
        self._events = run.events(AsyncDoor(), _in_loop)

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
