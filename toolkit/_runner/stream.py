"""The ways to follow a run: as an iterator, as an async iterator, or in the background."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeAlias

from typing_extensions import Self, TypeVar

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import run_sync
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit._concurrency.tasks import get_loop
from toolkit._concurrency.threads import LONGEST_WAIT, start_thread
from toolkit._options import explain_missing, hide_frames, is_float
from toolkit._runner.prompt import UserInput
from toolkit._runner.result import OTHER_NAMES, RunResult, require_result
from toolkit._runner.run import Run
from toolkit.events import Event

T = TypeVar("T", default=str)
# Attributes of a result, which a stream or a handle does not have, by the names that are tried.
RESULT_NAMES: Mapping[str, str] = {
    **{name: name for name in ("output", "messages", "calls", "usage", "finish_reason", "cost", "pending", "state")},
    **OTHER_NAMES,
}


class Controls:
    """Methods that steer and cancel a run."""

    _run: Run[Any]

    def _get_run(self) -> Run[Any]:
        return self._run

    def steer(self, message: UserInput) -> None:
        """Add a message that the model reads before its next response. Calls that have not started are skipped.

        Raises:
            RunError: The run has ended.
        """
        self._get_run().tool_caller.queue.steer(message)

    def follow_up(self, message: UserInput) -> None:
        """Add a message that the model reads after its answer. The run then continues.

        Raises:
            RunError: The run has ended.
        """
        self._get_run().tool_caller.queue.follow_up(message)

    def clear(self, *, steering: bool = True, follow_ups: bool = True) -> None:
        """Remove messages that the model has not read."""
        self._get_run().tool_caller.queue.clear(steering=steering, follow_ups=follow_ups)

    def cancel(self) -> bool:
        """Cancel the run. Its tools are notified, every call gets a result, and the run returns its result so far.

        A run in the background or in an event loop stops waiting for models, tools and gates at once. A run on the
        caller's own thread ends after its current step, and any run after a running hook or checkpoint.

        Returns:
            Whether this call cancelled it, and no earlier one.
        """
        return self._get_run().cancellation.cancel()


class _Stream(Controls, Generic[T]):
    """A run that is being iterated over."""

    _run: Run[T]

    @property
    def result(self) -> RunResult[T]:
        """The result, also of a run that was left early.

        Raises:
            RunError: The run has not ended.
        """
        return require_result(self._run.result)

    def __repr__(self) -> str:
        end = self._run.result and self._run.result.finish_reason
        return f"<{type(self).__name__}, {f'ended: {end}' if end else 'not ended: iterate over its events'}>"

    def _repr_html_(self) -> str:
        from toolkit.display.notebook import render_stream  # only a notebook asks

        return render_stream(self._run.result)

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(
            *((name, f"stream.result.{ours}, after the last event") for name, ours in RESULT_NAMES.items()),
            ("events stream_events stream_output stream_text text_stream", "for event in stream, or async for"),
        )


class RunStream(_Stream[T]):
    """The events of a run: an iterator and a context manager, with a `result` once it has ended."""

    def __init__(self, run: Run[T]) -> None:
        self._run = run
        self._events = run.events(SyncBackend())

    def __iter__(self) -> Self:
        return self

    if not TYPE_CHECKING:  # type checkers report such a loop themselves

        def __aiter__(self) -> NoReturn:
            raise TypeError("This stream is read by: for event in stream. In an event loop write runner.astream(...).")

        __aenter__ = __aexit__ = __aiter__

    @hide_frames
    def __next__(self) -> Event:
        try:
            return run_sync(self._events.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel the run if it has not ended."""
        if getattr(self._events, "ag_running", False):  # another thread is iterating
            self._run.cancellation.cancel()
            return
        run_sync(self._events.aclose())
        self._run.leave()  # a run that was never iterated has no generator to close

    def __del__(self) -> None:
        with suppress(Exception):  # a running event loop would close it much later
            self.close()


class AsyncRunStream(_Stream[T]):
    """The events of a run, as an async iterator and an async context manager."""

    def __init__(self, run: Run[T]) -> None:
        self._run = run

    @cached_property
    def _events(self) -> AsyncGenerator[Event, None]:  # made in the loop in which the stream is read
        return self._run.events(AsyncBackend())

    def __aiter__(self) -> Self:
        return self

    if not TYPE_CHECKING:  # type checkers report such a loop themselves

        def __iter__(self) -> NoReturn:
            raise TypeError("An async stream is read by: async for event in stream. Or write runner.stream(...).")

        __enter__ = __exit__ = __iter__

    @hide_frames
    async def __anext__(self) -> Event:
        return await self._events.__anext__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the run if it has not ended."""
        await self._events.aclose()
        self._run.leave()  # a run that was never iterated has no generator to close


Status: TypeAlias = Literal["pending", "running", "completed", "paused", "cancelled", "failed"]


class RunHandle(Controls, Generic[T]):
    """A run in the background. Read its status, wait for its result, steer it or cancel it."""

    def __init__(self, run: Run[T]) -> None:
        self._run = run
        self._events: list[Event] = []
        self._changed = threading.Condition()
        self._end = Future[RunResult[T]]()
        self._end.set_running_or_notify_cancel()  # cancelling a task that waits for it does not cancel it
        self._end.add_done_callback(self._notify)
        start_thread(partial(copy_context().run, self._execute), "toolkit-run")

    def __repr__(self) -> str:
        return f"<RunHandle, {self.status}>"

    def _repr_html_(self) -> str:
        from toolkit.display.notebook import render_events  # only a notebook asks

        return render_events(self.status, list(self._events), self._end.exception() if self._end.done() else None)

    @property
    def run_id(self) -> str:
        """The id of the run, as in `ToolContext` and in events."""
        return self._run.conversation.run_id

    @property
    def status(self) -> Status:
        """One of "pending", "running", "completed", "paused", "cancelled", "failed"."""
        if not self._end.done():
            return "running" if self._events else "pending"
        if self._end.exception() is not None:
            return "failed"
        reason = require_result(self._run.result).finish_reason
        return reason if reason in ("paused", "cancelled") else "completed"

    @hide_frames
    def result(self, timeout: float | None = None) -> RunResult[T]:
        """Wait for the result.

        Args:
            timeout: Seconds to wait. By default without limit.

        Raises:
            TimeoutError: The run has not ended by then. It continues.
            RunError: The run failed. Or any other exception that `run` raises.
        """
        if timeout is not None and not is_float(timeout):
            raise TypeError(f"timeout={timeout!r:.100} is not a number of seconds.")
        if not self._wait(self._end.done, timeout):
            raise TimeoutError(f"The run has not ended after {timeout:g} s; it goes on.")
        return self._end.result()

    def events(self) -> Iterator[Event]:
        """Yield the events of the run as they happen, from the first one. You can call it more than once."""
        for number in count():
            event = self._wait_for_event(number)
            if event is None:
                return
            yield event

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(
            *((name, f"handle.result().{ours}") for name, ours in RESULT_NAMES.items()),
            ("get join wait", "handle.result()"),
            ("done finished is_done is_running running", "handle.status"),
        )

    def __await__(self) -> Generator[Any, None, RunResult[T]]:
        import asyncio

        return asyncio.wrap_future(self._end, loop=get_loop()).__await__()

    def call_when_done(self, function: Callable[[], object]) -> None:
        """Call a function when the run has ended, on the thread of the run, or at once if it has ended already."""
        self._end.add_done_callback(lambda _: function())

    def _execute(self) -> None:
        try:
            with RunStream(self._run) as stream:
                for event in stream:
                    self._events.append(event)
                    self._notify()
            self._end.set_result(stream.result)
        except BaseException as error:  # noqa: BLE001  raised again by `result`
            self._end.set_exception(error)

    def _notify(self, *_: object) -> None:
        with self._changed:
            self._changed.notify_all()

    def _wait_for_event(self, number: int) -> Event | None:
        """Wait for an event by its number. Return None if the run ends before."""
        self._wait(lambda: self._end.done() or len(self._events) > number)
        return self._events[number] if number < len(self._events) else None

    def _wait(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until a condition holds. Return False when the time is up."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not (holds := condition()) and (left := end - time.monotonic()) > 0:
                self._changed.wait(min(left, LONGEST_WAIT))
        return holds
