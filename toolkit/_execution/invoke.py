"""Letting a tool do its work: where it belongs, for as long as it may, as often as it may.

    kind              where                                     given up, it is
    sync              the caller's thread, or one of its own    left to its thread, which cannot be ended
    async             an event loop                             cancelled
    executor=...      a place of the executor's                 taken back, if it has not begun
    isolate="process" a process of its own                      killed, with all that it started

What works on after it was given up is told, and counted: a run that has too many of these starts no more.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from toolkit._concurrency.backend import Backend
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.tasks import watch_loop
from toolkit._concurrency.threads import Outcome, cancellation_error, note_still_running
from toolkit._context import ToolContext
from toolkit._execution.isolation import submitted, waited
from toolkit._messages import ToolCall, ToolResult
from toolkit._tools.invocation import render
from toolkit._tools.options import ToolSettings
from toolkit._tools.tool import Tool
from toolkit.errors import Cancelled, DefinitionError, Failed, TimedOut, ToolError
from toolkit.events import CallEvent, ToolCallRetried, ToolCallUpdated

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

logger = logging.getLogger("toolkit")

Emit: TypeAlias = Callable[[CallEvent], object]

# So many functions of one run may be at work after they were given up; each may hold a thread for ever.
MAX_ABANDONED = 64
BUSY = "Busy: too many earlier calls took too long and are still at work. Go on without this tool, or try again later."
# The pause before another try, in seconds: twice as long each time, up to a bound, and never the same for many at once.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


async def invoke(
    tool: Tool[..., Any],
    call: ToolCall,
    values: dict[str, Any],
    context: ToolContext[Any],
    backend: Backend,
    tell: Emit,
) -> ToolResult:
    """Let a tool do its work; whatever comes of it, there is a result.

    Args:
        tool: What does the work.
        call: The model's call, for what is told.
        values: The arguments, validated.
        context: What a parameter annotated ToolContext gets.
        backend: How to wait.
        tell: Takes what the tool says, and what becomes of it.

    Raises:
        FatalError: The tool raised it.
        DefinitionError: The tool cannot be taken to where it is to run.
    """
    attempts = _Attempts(tool, call, values, backend, tell, context.cancellation)
    return await (attempts.attempt(context) if tool.settings.is_plain else attempts.result(context))


@dataclass
class _Attempts:
    """One call, as often as it takes.

    Attributes:
        cancellation: How long the run has.
    """

    tool: Tool[..., Any]
    call: ToolCall
    values: dict[str, Any]
    backend: Backend
    emit: Emit
    cancellation: Cancellation

    async def result(self, context: ToolContext[Any]) -> ToolResult:
        """Try until there is a result worth having, or no try is left."""
        settings = self.tool.settings
        for attempt in range(settings.retries):
            result = await self._limited(context, attempt)
            error = result.exception
            if error is None or not _is_worth_another(error, settings):
                return result
            seconds = _pause(attempt)
            self.emit(ToolCallRetried(call=self.call, attempt=attempt, error=error, seconds=seconds))
            try:
                await self.backend.sleep(seconds, self.cancellation)
            except (Cancelled, TimedOut) as end:
                return self._given_up(end)
        return await self._limited(context, settings.retries)

    async def _limited(self, context: ToolContext[Any], attempt: int) -> ToolResult:
        """Try once, where the tool has a limit for its calls as soon as there is a place."""
        semaphore = self.tool.settings.semaphore
        if semaphore is None:
            return await self._timed(context, attempt)
        try:
            await semaphore.acquire(partial(self.backend.call, is_async=True, cancellation=self.cancellation))
        except (Cancelled, TimedOut) as end:
            return ToolResult.from_error(end)
        try:
            return await self._timed(context, attempt)
        finally:
            semaphore.release()

    async def _timed(self, context: ToolContext[Any], attempt: int) -> ToolResult:
        """Try once, for no longer than the tool may take."""
        cancellation = Cancellation(self.tool.settings.timeout, parent=self.cancellation)
        try:
            return await self.attempt(replace(context, attempt=attempt, cancellation=cancellation))
        finally:
            cancellation.close()
            cancellation.cancel()  # what works on may look whether it still should

    async def attempt(self, context: ToolContext[Any]) -> ToolResult:
        """Carry the tool out once; what it tells afterwards is not heard."""
        if not self.tool.invocation.tells:
            return await self._begun(context)
        with _News(self.call, self.emit, self.tool.invocation.write) as news:
            return await self._begun(replace(context, emit=news.update))

    async def _begun(self, context: ToolContext[Any]) -> ToolResult:
        try:
            if context.cancellation:
                raise cancellation_error(context.cancellation)
            return await self._placed(context)
        except (Cancelled, TimedOut) as end:
            return self._given_up(self._worded(end))

    async def _placed(self, context: ToolContext[Any]) -> ToolResult:
        settings = self.tool.settings
        if settings.isolate is not None:
            return await self._elsewhere(self._in_process(context))
        if len(self.backend.abandoned) >= MAX_ABANDONED and not (self.tool.is_async and settings.executor is None):
            return ToolResult.from_error(Failed(BUSY))
        if settings.executor is not None:
            return await self._elsewhere(self._in_executor(settings.executor, context))
        return await self._here(context)

    async def _here(self, context: ToolContext[Any]) -> ToolResult:
        """Carry the tool out where its kind belongs: on this thread, on another, or in an event loop."""
        cancellation, working = context.cancellation, _Working(self.backend.running, self.call.id)

        async def begin() -> Any:
            with working:
                return self.tool.execute(self.values, context)

        async def finish(promise: Awaitable[ToolResult]) -> ToolResult:
            with working:
                return await watch_loop(promise, self.tool.settings.timeout, self._warn)

        async def carry_out() -> ToolResult:
            result = await begin()
            return result if isinstance(result, ToolResult) else await finish(result)

        if self.tool.is_async:
            return await self.backend.call(carry_out, is_async=True, cancellation=cancellation)
        result = await self.backend.call(begin, is_async=False, cancellation=cancellation)
        if isinstance(result, ToolResult):
            return result
        return await self.backend.call(partial(finish, result), is_async=True, cancellation=cancellation)

    async def _elsewhere(self, outcome: Awaitable[Outcome[Any]]) -> ToolResult:
        """Make a result here of what comes from another place; what is wrong with that place is the developer's."""
        try:
            value, error = await outcome
        except (Cancelled, TimedOut, DefinitionError):
            raise
        except Failed as failed:
            return ToolResult.from_error(failed, failed.__cause__)
        except Exception as lost:  # noqa: BLE001  the place is somebody else's: anything may happen
            return ToolResult.from_error(
                Failed(f"{self.tool.name} failed: nothing came back from where it runs."), lost
            )
        invocation = self.tool.invocation
        return invocation.fail(error) if error is not None else cast("ToolResult", invocation.settle(value))

    async def _in_process(self, context: ToolContext[Any]) -> Outcome[Any]:
        from toolkit._execution.isolation import in_process

        async def wait() -> Outcome[Any]:
            return in_process(self.tool, self.values, context)

        return await self.backend.call(wait, is_async=False)

    async def _in_executor(self, executor: Executor, context: ToolContext[Any]) -> Outcome[Any]:
        """Give the tool to an executor, and wait: each for as long as the tool may take, where its start is known."""
        cancellation, at_work, abandoned = context.cancellation, self.backend.running, self.backend.abandoned

        async def submit() -> Future[Any]:
            begun = partial(cancellation.restart, self.tool.settings.timeout)
            future = submitted(executor, self.tool, self.values, context, begun)
            at_work.append(self.call.id)
            future.add_done_callback(lambda _: at_work.remove(self.call.id))
            if cancellation:  # the executor took its time: nobody waits any more
                future.cancel()
            return future

        async def wait() -> Outcome[Any]:
            try:
                return waited(future, cancellation)
            except (Cancelled, TimedOut):
                abandoned.add(lambda: not future.done())
                raise

        future = await self.backend.call(submit, is_async=False, cancellation=cancellation)
        return await self.backend.call(wait, is_async=False)

    def _warn(self, seconds: float) -> None:
        logger.warning(
            "Tool %s held its event loop for %.3g s in one go, longer than its timeout of %g s: meanwhile nothing else "
            "ran there, and nothing could end it. Make it a sync function, which gets a thread, give it executor=, or "
            "await what blocks.",
            self.tool.name,
            seconds,
            self.tool.settings.timeout,
        )

    def _given_up(self, end: Cancelled | TimedOut) -> ToolResult:
        return ToolResult.from_error(note_still_running(end) if self.call.id in self.backend.running else end)

    def _worded(self, end: Cancelled | TimedOut) -> Cancelled | TimedOut:
        """Say how long the call had, where it was its own time that was up."""
        seconds = self.tool.settings.timeout
        if isinstance(end, Cancelled) or seconds is None or self.cancellation:
            return end
        return TimedOut(f"Timed out after {seconds:g} s{str(end).removeprefix('Timed out')}")


class _Working:
    """A call's function is at work for as long as this is entered."""

    def __init__(self, at_work: list[str], call_id: str) -> None:
        self._at_work, self._call_id = at_work, call_id

    def __enter__(self) -> None:
        self._at_work.append(self._call_id)

    def __exit__(self, *_: object) -> None:
        self._at_work.remove(self._call_id)


class _News:
    """What one try tells, until it is over."""

    def __init__(self, call: ToolCall, tell: Emit, write: Callable[[Any], str]) -> None:
        self._call, self._tell, self._write = call, tell, write
        self._is_over = False

    def __enter__(self) -> _News:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True

    def update(self, text: str | None, partial: Any) -> None:
        """Make an event of what the tool says while it is at work."""
        if not self._is_over:
            told = None if text is not None else render(partial, self._write)
            self._tell(ToolCallUpdated(self._call, text or "", told))


def _is_worth_another(error: BaseException, settings: ToolSettings) -> bool:
    """Tell whether another try may end otherwise: what a tool says itself stays said, unless its kind is named."""
    is_said = isinstance(error, ToolError) and not isinstance(error, TimedOut)
    return any(isinstance(error, kind) and (not is_said or issubclass(kind, ToolError)) for kind in settings.retry_on)


def _pause(attempt: int) -> float:
    """Say how long to wait after a failed try, in seconds."""
    import random  # few calls are tried again

    longest = min(FIRST_PAUSE * 2.0 ** min(attempt, 100), LONGEST_PAUSE)
    return longest * random.uniform(0.5, 1)  # noqa: S311  no secret
