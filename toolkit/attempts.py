"""Letting a tool do its work: where it belongs, for as long as it may, as often as it may.

    kind              where                                     given up, it is
    sync              the caller's thread, or one of its own    left to its thread, which cannot be ended
    async             an event loop                             cancelled
    executor=...      a place of the executor's                 taken back, if it has not begun
    isolate="process" a process of its own                      killed, with all that it started

What works on after it was given up is told, and counted: a run that has too many of these starts no more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from toolkit.cancellation import Cancellation
from toolkit.context import ToolContext
from toolkit.doors import Door
from toolkit.errors import Cancelled, DefinitionError, Failed, TimedOut, ToolError
from toolkit.events import CallEvent, ToolCallAbandoned, ToolCallRetried, ToolCallUpdated
from toolkit.messages import ToolCall, ToolResult
from toolkit.places import submitted, waited
from toolkit.results import rendered
from toolkit.settings import ToolSettings
from toolkit.threads import Outcome, over
from toolkit.tools import Tool

if TYPE_CHECKING:
    from concurrent.futures import Executor

Tell: TypeAlias = Callable[[CallEvent], object]

# So many functions of one run may be at work after they were given up; each may hold a thread for ever.
MAX_ABANDONED = 64
BUSY = "Busy: too many earlier calls took too long and are still at work. Go on without this tool, or try again later."
# The pause before another try, in seconds: twice as long each time, up to a bound, and never the same for many at once.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


async def invoke(
    tool: Tool[..., Any], call: ToolCall, values: dict[str, Any], context: ToolContext[Any], door: Door, tell: Tell
) -> ToolResult:
    """Let a tool do its work; whatever comes of it, there is a result.

    Args:
        tool: What does the work.
        call: The model's call, for what is told.
        values: The arguments, validated.
        context: What a parameter annotated ToolContext gets.
        door: How to wait.
        tell: Takes what the tool says, and what becomes of it.

    Raises:
        FatalError: The tool raised it.
        DefinitionError: The tool cannot be taken to where it is to run.
    """
    attempts = _Attempts(tool, call, values, door, tell, context.cancellation)
    if tool.invocation.tells:
        context = replace(context, tell=attempts.update)
    try:
        return await (attempts.tried(context) if tool.settings.is_plain else attempts.result(context))
    finally:
        attempts.is_over = True


@dataclass
class _Attempts:
    """One call, as often as it takes.

    Attributes:
        until: How long the run has.
        is_over: Whether the call has its result: what its function still tells is not heard.
        is_at_work: Says whether the function of the last try is at work.
    """

    tool: Tool[..., Any]
    call: ToolCall
    values: dict[str, Any]
    door: Door
    tell: Tell
    until: Cancellation
    is_over: bool = False
    is_at_work: Callable[[], bool] = bool

    def update(self, text: str | None, partial: Any) -> None:
        """Make an event of what the tool says while it is at work."""
        if not self.is_over:
            told = None if text is not None else rendered(partial, self.tool.invocation.write)
            self.tell(ToolCallUpdated(self.call, text or "", told))

    async def result(self, context: ToolContext[Any]) -> ToolResult:
        """Try until there is a result worth having, or no try is left."""
        settings = self.tool.settings
        for attempt in range(settings.retries):
            result = await self._limited(context, attempt)
            error = result.exception
            if error is None or not _is_worth_another(error, settings):
                return result
            seconds = _pause(attempt)
            self.tell(ToolCallRetried(call=self.call, attempt=attempt, error=error, seconds=seconds))
            try:
                await self.door.sleep(seconds, self.until)
            except (Cancelled, TimedOut) as end:
                return ToolResult.failed(end)
        return await self._limited(context, settings.retries)

    async def _limited(self, context: ToolContext[Any], attempt: int) -> ToolResult:
        """Try once, for no longer than the tool may take."""
        if len(self.door.abandoned) >= MAX_ABANDONED and not self.tool.is_async:
            return ToolResult.failed(Failed(BUSY))
        until = Cancellation(self.tool.settings.timeout, parent=self.until)
        try:
            return await self.tried(replace(context, attempt=attempt, cancellation=until))
        finally:
            until.close()
            until.cancel()  # what works on may look whether it still should

    async def tried(self, context: ToolContext[Any]) -> ToolResult:
        """Carry the tool out once; where it was given up and works on, tell that."""
        try:
            if context.cancellation:
                raise over(context.cancellation)
            return await self._placed(context)
        except (Cancelled, TimedOut) as end:
            if self.is_at_work():
                self.tell(ToolCallAbandoned(call=self.call, count=len(self.door.abandoned)))
            return ToolResult.failed(self._worded(end))

    async def _placed(self, context: ToolContext[Any]) -> ToolResult:
        settings = self.tool.settings
        if settings.executor is not None:
            return await self._elsewhere(partial(self._in_executor, settings.executor, context))
        if settings.isolate is not None:
            from toolkit.isolation import in_process

            return await self._elsewhere(partial(in_process, self.tool, self.values, context))
        return await self._here(context)

    async def _here(self, context: ToolContext[Any]) -> ToolResult:
        """Carry the tool out where its kind belongs: on this thread, on another, or in an event loop."""
        until, working = context.cancellation, _Working()
        self.is_at_work = working.is_so

        async def begin() -> Any:
            with working:
                return self.tool.carry_out(self.values, context)

        async def finish(promise: Awaitable[ToolResult]) -> ToolResult:
            with working:
                return await promise

        async def carry_out() -> ToolResult:
            result = await begin()
            return result if isinstance(result, ToolResult) else await finish(result)

        if self.tool.is_async:
            return await self.door.call(carry_out, is_async=True, until=until)
        result = await self.door.call(begin, is_async=False, until=until)
        if isinstance(result, ToolResult):
            return result
        return await self.door.call(partial(finish, result), is_async=True, until=until)

    async def _elsewhere(self, place: Callable[[], Outcome[Any]]) -> ToolResult:
        """Carry the tool out in another place, which keeps the time itself; the result is made here."""

        async def begin() -> Outcome[Any]:
            try:
                return place()
            except (Cancelled, TimedOut, DefinitionError):
                raise
            except Exception as unsent:  # noqa: BLE001  a value that cannot be sent, a place that is closed
                return None, unsent

        value, error = await self.door.call(begin, is_async=False)
        invocation = self.tool.invocation
        return invocation.failed(error) if error is not None else cast("ToolResult", invocation.settled(value))

    def _in_executor(self, executor: Executor, context: ToolContext[Any]) -> Outcome[Any]:
        future = submitted(executor, self.tool, self.values, context)
        self.is_at_work = lambda: not future.done()
        try:
            return waited(future, context.cancellation)
        except (Cancelled, TimedOut):
            self.door.abandoned.add(self.is_at_work)
            raise

    def _worded(self, end: Cancelled | TimedOut) -> Cancelled | TimedOut:
        """Say how long the call had, where it was its own time that was up."""
        seconds = self.tool.settings.timeout
        if isinstance(end, Cancelled) or seconds is None or self.until:
            return end
        return TimedOut(f"Timed out after {seconds:g} s{str(end).removeprefix('Timed out')}")


class _Working:
    """Whether a function is at work."""

    def __init__(self) -> None:
        self._is_so = False

    def __enter__(self) -> None:
        self._is_so = True

    def __exit__(self, *_: object) -> None:
        self._is_so = False

    def is_so(self) -> bool:
        """Tell it."""
        return self._is_so


def _is_worth_another(error: BaseException, settings: ToolSettings) -> bool:
    """Tell whether another try may end otherwise: what a tool says itself stays said."""
    return isinstance(error, settings.retry_on) and (isinstance(error, TimedOut) or not isinstance(error, ToolError))


def _pause(attempt: int) -> float:
    """Say how long to wait after a failed try, in seconds."""
    import random  # few calls are tried again

    longest = min(FIRST_PAUSE * 2.0 ** min(attempt, 100), LONGEST_PAUSE)
    return longest * random.uniform(0.5, 1)  # noqa: S311  no secret
