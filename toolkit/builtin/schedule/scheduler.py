"""`Scheduler`, which runs actions when they are due, and `planned_only`, which limits such runs to planned tools."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import Backend, call_function, run_sync
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit._context import ToolContext
from toolkit._execution.approval import Deny, Verdict
from toolkit._guards.options import check_choice, check_function, check_number, check_sync_function, check_type
from toolkit._runner.result import RunResult
from toolkit._runner.runner import Runner
from toolkit._runner.state import RunState
from toolkit._tools.tool import Tool
from toolkit.builtin.schedule.recurrence import next_run
from toolkit.builtin.schedule.store import Action, Firing, SQLiteSchedule
from toolkit.errors import Cancelled, DefinitionError

logger: logging.Logger = logging.getLogger("toolkit")

ATTEMPTS = 3  # at a firing, if its processes crash

# The firing that runs in the current context.
current_firing: ContextVar[Firing | None] = ContextVar("current", default=None)


Status: TypeAlias = Literal["done", "paused", "failed", "refused", "crashed"]
Function: TypeAlias = Callable[..., Any]
Decisions: TypeAlias = Mapping[str, Verdict]


@dataclass(frozen=True, kw_only=True)
class FiringOutcome:
    """The outcome of one firing.

    Attributes:
        status: `done`: the run has ended, though some of its calls may have failed or been denied, see `result`.
            `paused`: calls of a Runner wait for approval; `Scheduler.resume` continues from `result.state`. `failed`:
            see `error`. `refused`: `allow` did not allow the firing, so it did not run. `crashed`: the process that
            claimed the firing never recorded its end, and it is not tried again.
        result: Return value of `run`.
    """

    firing: Firing
    status: Status
    result: Any = None
    error: Exception | None = None


class Scheduler:
    """Runs actions when they are due, one after another. Several may share a store, in several processes.

    An action's next time is set, and its firing claimed, before it runs: no firing runs twice, even after a change of
    the clock or a crash, unless `crashed="again"` allows it. An action that has missed several times runs once for all
    of them. When the clock is set back, nothing is repeated: an action waits until the clock reaches its next time
    again.

    An action whose rule or zone has become invalid runs this time, and is then paused.

    Args:
        store: The store of the actions.
        run: Executes a firing: a function of the firing, sync or async; or a Runner, which gets `firing.prompt` as
            prompt and the firing as `deps`. No user is there to approve a call, so it is refused or the run pauses,
            depending on the Runner; `resume` continues a paused run. `Runner(authorize=planned_only)` limits it to the
            planned tools.
        on_run: A function of each FiringOutcome, sync or async. Its exceptions are logged.
        allow: A function of each firing that returns whether it may run, sync or async. By default any firing may run.
            Any result but True refuses the firing; an exception makes it fail.
        crashed: "skip" a firing that was claimed and never finished, so that it runs at most once; or try it "again",
            three times at most, so that it runs at least once: use `firing.key` as idempotency key.
        lease: Seconds after which an unfinished claim counts as crashed; must be longer than any run.
        poll: Seconds from one pass over the store to the next.
        clock: Returns the time, in seconds since 1970, UTC.

    Raises:
        DefinitionError: `run` is neither a function nor a Runner, or another option is invalid.
    """

    def __init__(
        self,
        store: SQLiteSchedule,
        run: Function | Runner,
        *,
        on_run: Callable[[FiringOutcome], object] | None = None,
        allow: Callable[[Firing], object] | None = None,
        crashed: Literal["skip", "again"] = "skip",
        lease: float = 3600.0,
        poll: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_type("store", store, SQLiteSchedule)
        is_method = getattr(run, "__func__", None) in vars(Runner).values()
        if not isinstance(run, Runner) and (is_method or not callable(run)):
            raise DefinitionError(f"run={run!r:.100} is neither a Runner nor a function of a Firing.")

        self._run = run
        self._store = store
        self._clock = check_sync_function("clock", clock)
        self._on_run = None if on_run is None else check_function("on_run", on_run)
        self._allow = None if allow is None else check_function("allow", allow)
        self._lease = check_number("lease", lease)
        self._poll = check_number("poll", poll)
        self._attempts = ATTEMPTS if check_choice("crashed", crashed, "skip", "again") == "again" else 1
        self._stopping = Cancellation()

    def run_forever(self) -> None:
        """Run due actions until `stop` is called. Exceptions of the store are logged."""
        run_sync(self._run_loop(SyncBackend()))

    async def arun_forever(self) -> None:
        """Async version of `run_forever`. If it is cancelled, the running firing counts as crashed."""
        await self._run_loop(AsyncBackend())

    def stop(self) -> None:
        """Stop the loop after the running action. Without a loop, the next loop stops at once.

        Safe from any thread and from a signal handler. A new loop can be started afterwards.
        """
        self._stopping.cancel()

    def run_due(self) -> tuple[FiringOutcome, ...]:
        """Run the actions that are due now, and return their outcomes.

        After an exception such as KeyboardInterrupt, which is raised, the running firing counts as crashed.
        """
        return run_sync(self._run_due(SyncBackend(), Cancellation()))

    async def arun_due(self) -> tuple[FiringOutcome, ...]:
        """Async version of `run_due`."""
        return await self._run_due(AsyncBackend(), Cancellation())

    def resume(self, state: RunState | str, decisions: Decisions) -> FiringOutcome:
        """Resume the run of a paused firing as a scheduled run, in this process or another.

        `allow` and `on_run` are called again. A run that fails or is refused can be resumed again.

        Args:
            state: `outcome.result.state`, or the output of its `to_json`.
            decisions: Decisions on its pending calls, by call id, as for `Runner.resume`.

        Raises:
            ValueError: No firing of the store waits for this run: it was resumed already, its action was deleted, or it
                is not a scheduled run.
            TypeError: The Scheduler has no Runner.
            ConversationError: `state` is not the state of a run.
        """
        return run_sync(self._resume(state, decisions, SyncBackend()))

    async def aresume(self, state: RunState | str, decisions: Decisions) -> FiringOutcome:
        """Async version of `resume`."""
        return await self._resume(state, decisions, AsyncBackend())

    async def _run_loop(self, backend: Backend) -> None:
        stopping = self._stopping
        while not stopping:
            try:
                await self._run_due(backend, stopping)
            except Exception:  # the store may work again at the next pass
                logger.exception("The scheduler could not use its store.")
            with suppress(Cancelled):
                await backend.sleep(self._poll, stopping)  # not affected when the system's clock is set
        self._stopping = Cancellation()

    async def _run_due(self, backend: Backend, stopping: Cancellation) -> tuple[FiringOutcome, ...]:
        outcomes: list[FiringOutcome] = []
        firings = self._claim_firings(self._clock())
        while not stopping and (firing := await call_function(next, (firings, None), backend)):
            outcomes.append(await self._run_firing(firing, backend))
        return tuple(outcomes)

    async def _resume(self, state: RunState | str, decisions: Decisions, backend: Backend) -> FiringOutcome:
        if not isinstance(self._run, Runner):
            raise TypeError(
                f"run={self._run!r:.100} is not a Runner. Give one to a Scheduler of the same store, and resume there."
            )
        state = RunState.from_json(state) if isinstance(state, str) else state
        firing = await call_function(self._store.find_paused, (state.run_id,), backend)
        if firing is None:
            raise ValueError(f"No firing of this store waits for the run {state.run_id}.")
        return await self._run_firing(firing, backend, (state, decisions))

    def _claim_firings(self, started: float) -> Iterator[Firing]:
        """Claim and yield crashed and due firings, each only when the next one is asked for."""
        for firing in self._store.find_unfinished(started - self._lease):
            if (retried := self._store.take_over(firing, self._clock())) is not None:
                yield retried
        for action in self._store.actions():
            now = self._clock()
            is_due = action.enabled and action.next_run <= now
            if is_due and (claimed := self._store.claim(action, _advance(action, now), now)):
                yield claimed

    async def _run_firing(
        self, firing: Firing, backend: Backend, resumed: tuple[RunState, Decisions] | None = None
    ) -> FiringOutcome:
        """Run one firing, record its end, and report it. A run can be resumed again until it is done."""
        token = current_firing.set(firing)
        try:
            outcome = await self._find_outcome(firing, backend, resumed)
        finally:
            current_firing.reset(token)

        paused_run = None if resumed is None or outcome.status == "done" else resumed[0].run_id
        if outcome.status == "paused":
            paused_run = outcome.result.state.run_id
        finish = call_function(self._store.finish, (firing, self._clock(), paused_run), backend)
        await _log_errors(finish, "record the end of", firing)
        if self._on_run is not None:
            await _log_errors(call_function(self._on_run, (outcome,), backend), "report", firing)
        return outcome

    async def _find_outcome(
        self, firing: Firing, backend: Backend, resumed: tuple[RunState, Decisions] | None
    ) -> FiringOutcome:
        try:
            if firing.attempt > self._attempts:
                return FiringOutcome(firing=firing, status="crashed")
            if self._allow is not None and await call_function(self._allow, (firing,), backend) is not True:
                return FiringOutcome(firing=firing, status="refused")
            result = await self._call_run(firing, backend, resumed)
        except Exception as error:
            logger.exception("The scheduled action %s failed.", firing.key)
            return FiringOutcome(firing=firing, status="failed", error=error)
        is_paused = isinstance(result, RunResult) and result.is_paused
        return FiringOutcome(firing=firing, status="paused" if is_paused else "done", result=result)

    async def _call_run(self, firing: Firing, backend: Backend, resumed: tuple[RunState, Decisions] | None) -> Any:
        run = self._run
        if not isinstance(run, Runner):
            return await call_function(run, (firing,), backend)
        is_async = isinstance(backend, AsyncBackend)
        if resumed is not None:
            resume: Function = run.aresume if is_async else run.resume
            return await call_function(partial(resume, *resumed, deps=firing), (), backend)
        start: Function = run.arun if is_async else run.run
        return await call_function(partial(start, firing.prompt, deps=firing), (), backend)


def planned_only(tool: Tool[..., Any], arguments: Mapping[str, Any], context: ToolContext[Any]) -> bool | Deny:
    """Allow a scheduled run only the tools of its planned calls, as `Runner(authorize=planned_only)`.

    The plan is read from the store. A run that was not started or resumed by a Scheduler may call no tool.
    """
    del arguments, context
    firing = current_firing.get()
    if firing is None:  # perhaps a paused scheduled run that its Runner resumed: it must not get more rights
        return Deny("This run was not started or resumed by a Scheduler.")
    if tool.name in firing.action.planned_tools:
        return True
    return Deny(f"{tool.name} was not planned when this action was scheduled.")


def _advance(action: Action, now: float) -> Action:
    """Return an action with its next time. Disable it if it has none."""
    if action.schedule.lower().split()[1:] == ["once"]:
        return replace(action, enabled=False)
    try:
        return replace(action, next_run=next_run(action.schedule, now, action.zone))
    except (ValueError, ImportError):  # else it would be due at every pass
        logger.exception("The scheduled action %s has no next time, and is disabled.", action.id)
        return replace(action, enabled=False)


async def _log_errors(work: Awaitable[object], purpose: str, firing: Firing) -> None:
    try:
        await work
    except Exception:  # the remaining actions have to run all the same
        logger.exception("The scheduler could not %s %s.", purpose, firing.key)
