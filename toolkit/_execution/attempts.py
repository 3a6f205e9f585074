"""Run a tool's handler in its place, with its timeout and its retries.

    kind                runs                                     when cancelled
    sync                on the caller's thread, or its own       abandoned: a thread cannot be ended
    async               in an event loop                         its task is cancelled
    executor=...        in the executor                          taken back if it has not started, else abandoned
    isolate="process"   in a process of its own                  killed, with all its child processes

Functions that still run after they were abandoned are counted. A run with too many of them starts no more.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from toolkit._concurrency.backend import Backend, call_function
from toolkit._concurrency.cancellation import Cancellation, cancellation_error, note_effects
from toolkit._concurrency.tasks import watch_loop
from toolkit._concurrency.threads import Outcome
from toolkit._context import ToolContext
from toolkit._execution.isolation import NOT_STARTED, NotStarted, run_in_process, submit_call, wait_for_future
from toolkit._messages import ToolCall, ToolResult
from toolkit._tools.options import ToolSettings
from toolkit._tools.results import render
from toolkit._tools.tool import Tool
from toolkit.errors import Cancelled, DefinitionError, Failed, TimedOut, ToolError
from toolkit.events import CallEvent, ToolCallRetried, ToolCallUpdated

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

logger = logging.getLogger("toolkit")

Emit: TypeAlias = Callable[[CallEvent], object]

# Abandoned functions of one run that may still be running; each may hold a thread for ever.
MAX_ABANDONED = 64
BUSY = "Busy: too many earlier calls took too long and are still running. Go on without this tool, or try again later."
# Exceptions that end the wait for a call before the call itself ends: the last one, when the turn's calls have ended.
ENDS = (Cancelled, TimedOut, CancelledError)
# Seconds before a retry, unless its first pause is longer.
LONGEST_PAUSE = 30.0


@dataclass
class Attempts:
    """Runs the handler of one call, once or with its retries. An exception becomes a result.

    Attributes:
        call: The model's call, for the events.
        arguments: Validated values by name.
        emit: Gets progress, partial results and retries.
        cancellation: The cancellation of the run. That of a call is its child.
        started: Calls whose handlers have started, by id; this one is added.
    """

    tool: Tool[..., Any]
    call: ToolCall
    arguments: dict[str, Any]
    backend: Backend
    emit: Emit
    cancellation: Cancellation
    started: dict[str, ToolCall]

    async def run(self, context: ToolContext[Any]) -> ToolResult:
        """Repeat attempts until one succeeds, one fails in a way that is not retried, or no retry is left.

        Raises:
            FatalError: The tool raised it.
            DefinitionError: The tool cannot be sent to the process or executor where it is to run.
        """
        settings = self.tool.settings
        try:
            for attempt in range(settings.retries):
                result = await self._run_limited(context, attempt)
                error = result.exception
                if error is None or result.kind in ("pending", "stopped") or not _may_retry(error, settings):
                    return result
                seconds = _choose_pause(attempt, settings.retry_delay)
                self.emit(ToolCallRetried(call=self.call, attempt=attempt, error=error, seconds=seconds))
                await self.backend.sleep(seconds, self.cancellation)
            return await self._run_limited(context, settings.retries)
        except ENDS as end:
            return self._abandon(end)

    async def _run_limited(self, context: ToolContext[Any], attempt: int) -> ToolResult:
        """Run one attempt within the tool's `max_parallel` and `timeout`."""
        semaphore = self.tool.settings.semaphore
        if semaphore is not None:
            await semaphore.acquire(partial(self.backend.call, is_async=True, cancellation=self.cancellation))
        try:
            with Cancellation(self.tool.settings.timeout, parent=self.cancellation) as cancellation:
                return await self.run_once(replace(context, attempt=attempt, cancellation=cancellation))
        finally:
            if semaphore is not None:
                semaphore.release()

    async def run_once(self, context: ToolContext[Any]) -> ToolResult:
        """Run the handler once. Updates that it emits after the attempt has ended are dropped."""
        invocation = self.tool._invocation
        is_over = False
        if invocation.emits:
            forward = context.emit

            def emit(text: str | None, so_far: Any) -> None:
                if not is_over:
                    result = None if text is not None else render(so_far, invocation.write)
                    self.emit(ToolCallUpdated(self.call, text or "", result))
                    forward(text, so_far)

            context = replace(context, emit=emit)

        try:
            if context.cancellation:
                raise cancellation_error(context.cancellation)
            if len(self.backend.abandoned) >= MAX_ABANDONED and not self._can_be_ended:
                return ToolResult.from_error(Failed(BUSY))
            result = await self._start(context)
            if isinstance(result, ToolResult):
                return result
            finish = partial(self._wait_for, result)  # a sync function returned a coroutine
            return await self.backend.call(finish, is_async=True, cancellation=context.cancellation)
        except ENDS as end:
            return self._abandon(end)
        finally:
            is_over = True

    @property
    def _can_be_ended(self) -> bool:
        """True if no thread of a cancelled call goes on running."""
        settings = self.tool.settings
        return settings.isolate is not None or (self.tool.is_async and settings.executor is None)

    def _start(self, context: ToolContext[Any]) -> Awaitable[ToolResult | Awaitable[ToolResult]]:
        """Start the handler in its place: a process, an executor, an event loop or a thread."""
        settings = self.tool.settings
        is_async = self.tool._invocation.is_async
        if settings.executor is not None:
            return self._receive(self._run_in_executor(settings.executor, context))

        self.started[self.call.id] = self.call
        if settings.isolate is not None:
            return self._receive(call_function(run_in_process, (self.tool, self.arguments, context), self.backend))

        async def execute() -> ToolResult | Awaitable[ToolResult]:
            running = self.backend.running
            running.append(self.call.id)
            try:
                return copy_context().run(self.tool._invocation.execute, self.arguments, context)
            finally:
                running.remove(self.call.id)

        async def execute_async() -> ToolResult:
            result = await execute()
            return result if isinstance(result, ToolResult) else await self._wait_for(result)

        job = execute_async if is_async else execute
        return self.backend.call(job, is_async=is_async, cancellation=context.cancellation)

    async def _wait_for(self, pending: Awaitable[ToolResult]) -> ToolResult:
        running = self.backend.running
        running.append(self.call.id)
        try:
            return await watch_loop(pending, self.tool.settings.timeout, self._warn_of_blocked_loop)
        finally:
            running.remove(self.call.id)

    async def _receive(self, outcome: Awaitable[Outcome[Any]]) -> ToolResult:
        """Make a result from the outcome of a process or an executor. Without an outcome, the call has failed."""
        try:
            value, error = await outcome
        except (Cancelled, TimedOut, DefinitionError):
            raise
        except Failed as failed:
            return ToolResult.from_error(failed, failed.__cause__)
        except Exception as lost:  # noqa: BLE001  the executor is not ours: anything may happen
            return ToolResult.from_error(
                Failed(f"{self.tool.name} failed: nothing came back from where it runs."), lost
            )

        invocation = self.tool._invocation
        return invocation.explain_error(error) if error is not None else cast("ToolResult", invocation.settle(value))

    async def _run_in_executor(self, executor: Executor, context: ToolContext[Any]) -> Outcome[Any]:
        """Submit the call to an executor, and wait for it.

        The timeout starts when the executor starts the call. If that is not known, it starts at once.
        """
        cancellation = context.cancellation
        running = self.backend.running
        abandoned = self.backend.abandoned

        async def submit() -> Future[Any]:
            on_start = partial(cancellation.restart, self.tool.settings.timeout)
            future = submit_call(executor, self.tool, self.arguments, context, on_start)
            running.append(self.call.id)
            future.add_done_callback(lambda _: running.remove(self.call.id))
            if cancellation:  # cancelled while the executor was busy
                future.cancel()
            return future

        async def wait() -> Outcome[Any]:
            try:
                return wait_for_future(future, cancellation)
            except (Cancelled, TimedOut):
                abandoned.add(lambda: not future.done())
                raise
            finally:
                if not future.cancelled():
                    self.started[self.call.id] = self.call

        future = await self.backend.call(submit, is_async=False, cancellation=cancellation)
        return await self.backend.call(wait, is_async=False)

    def _warn_of_blocked_loop(self, seconds: float) -> None:
        logger.warning(
            "Tool %s blocked its event loop for %.3g s, longer than its timeout of %g s. Nothing else could run there, "
            "and the timeout could not end it. Make it a sync function, which gets a thread, pass executor=, or await "
            "what blocks.",
            self.tool.name,
            seconds,
            self.tool.settings.timeout,
        )

    def _abandon(self, end: Cancelled | TimedOut | CancelledError) -> ToolResult:
        """Make the result of a call that is no longer awaited.

        Its text says how much time the call had, and whether its effects stay.
        """
        seconds = self.tool.settings.timeout
        has_started = self.call.id in self.started
        if isinstance(end, CancelledError):
            end = Cancelled()
        if isinstance(end, TimedOut) and seconds is not None and not self.cancellation:
            end = TimedOut.after(seconds, NOT_STARTED if isinstance(end, NotStarted) else "")
            has_started = False  # the text says it
        is_running = self.call.id in self.backend.running
        return ToolResult.from_error(note_effects(end, has_started=has_started, is_running=is_running))


def _may_retry(error: BaseException, settings: ToolSettings) -> bool:
    """Return whether `retry_on` covers an error."""
    rule: Any = settings.retry_on
    if isinstance(rule, tuple):
        matching = [kind for kind in rule if isinstance(error, kind)]
        if isinstance(error, ToolError) and not isinstance(error, TimedOut):
            # It is an answer of the tool, so a base class such as Exception does not cover it.
            return any(issubclass(kind, ToolError) for kind in matching)
        return bool(matching)

    try:
        answer = rule(error)
        if isawaitable(answer):
            raise TypeError("it is async, and its answer is not awaited")  # noqa: TRY301  as if the function raised it
        return bool(answer)
    except (Exception, SystemExit):
        logger.exception("retry_on=%r failed; the call is not repeated.", rule)
        return False


def _choose_pause(attempt: int, first: float) -> float:
    """Return the seconds to wait after a failed attempt, counted from 0: doubled each time, up to a bound.

    A random part, up to half of it, is subtracted, so that many calls do not retry at once.
    """
    import random  # few calls are retried

    longest = min(first * 2.0 ** min(attempt, 100), max(first, LONGEST_PAUSE))
    return longest * random.uniform(0.5, 1)  # noqa: S311  not a secret
