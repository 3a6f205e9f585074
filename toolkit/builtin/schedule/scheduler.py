"""`Scheduler`: runs actions when they are due, and limits such runs to the planned calls."""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import Backend, call_function, run_sync
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit._context import ToolContext
from toolkit._execution.approval import Verdict
from toolkit._execution.authorization import Deny
from toolkit._guards.options import check_choice, check_function, check_number, check_sync_function
from toolkit._runner.result import RunResult
from toolkit._runner.runner import Runner
from toolkit._runner.state import RunState
from toolkit._tools.tool import Tool
from toolkit.builtin.schedule.recurrence import is_once, next_run
from toolkit.builtin.schedule.store import Action, Firing, ScheduleStore, validate_store
from toolkit.errors import Cancelled, DefinitionError

logger = logging.getLogger("toolkit")

T = TypeVar("T")

# Attempts at a firing, if its processes crash.
ATTEMPTS = 3

# The firing that runs in the current context.
current_firing: ContextVar[Firing | None] = ContextVar("current", default=None)


Status: TypeAlias = Literal["done", "paused", "failed", "refused", "missed", "crashed"]
Function: TypeAlias = Callable[[Firing], Any]
Decisions: TypeAlias = Mapping[str, Verdict]


@dataclass(frozen=True, kw_only=True)
class FiringOutcome:
    """The outcome of one firing.

    Attributes:
        status: `done`: the run has ended, though some of its calls may have failed or been denied, see `result`.
            `paused`: calls of a Runner wait for approval; `Scheduler.resume` continues from `result.state`.
            `failed`: see `error`. The other ones did not run: `refused` by `allow`; `missed`, as it was due too long
            ago; `crashed`, as the process that claimed it never recorded its end.
        result: Return value of `run`.
    """

    firing: Firing
    status: Status
    result: Any = None
    error: Exception | None = None

    def __repr__(self) -> str:
        result = self.result.output if isinstance(self.result, RunResult) else self.result
        value = result if self.error is None else self.error
        suffix = "" if value is None else f", {value!r}"
        return f"<FiringOutcome {self.status}: {self.firing.action.description!r}{suffix}>"


@runtime_checkable
class Runs(Protocol):
    """The methods of a Runner that a Scheduler calls."""

    def run(self, prompt: str, *, deps: Any) -> Any:
        """Run a prompt."""
        ...

    def arun(self, prompt: str, *, deps: Any) -> Awaitable[Any]:
        """Async version of `run`."""
        ...

    def resume(self, state: RunState, decisions: Decisions, *, deps: Any) -> Any:
        """Resume a paused run."""
        ...

    def aresume(self, state: RunState, decisions: Decisions, *, deps: Any) -> Awaitable[Any]:
        """Async version of `resume`."""
        ...


class Scheduler:
    """Runs actions when they are due, one after another; several may share a store, in several processes.

    An action's next time is set, and its firing claimed, before it runs: no firing runs twice, even after a change of
    the clock or a crash, unless `crashed="again"` allows it. An action that has missed several times runs once for all
    of them, or, with `missed="skip"`, not at all. When the clock is set back, nothing is repeated: an action waits
    until the clock reaches its next time again.

    An action whose rule or zone has become invalid runs this time, and is then paused.

    Args:
        store: The store of the actions.
        run: Executes a firing: a function of it, sync or async; or a Runner, which gets `firing.prompt` as prompt and
            the firing as `deps`. As no user is there to approve a call, the call is denied or the run pauses, depending
            on the Runner; `resume` continues it. `Runner(authorize=planned_only)` limits it to the planned tools.
        on_run: Receives each FiringOutcome; sync or async. Its exceptions are logged.
        allow: Decides whether a firing may run; called each time, sync or async. Any firing may run by default. Any
            result but True refuses the firing; an exception fails it.
        missed: "once" or "skip": how often an action runs that has been due for longer than `grace`. The time in which
            this Scheduler was busy with other actions does not count.
        grace: Seconds; should be more than `poll`.
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
        store: ScheduleStore,
        run: Function | Runs,
        *,
        on_run: Callable[[FiringOutcome], object] | None = None,
        allow: Callable[[Firing], object] | None = None,
        missed: Literal["once", "skip"] = "once",
        grace: float = 300.0,
        crashed: Literal["skip", "again"] = "skip",
        lease: float = 3600.0,
        poll: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        validate_store(store)
        self._work, (self._run, self._arun) = run, make_functions(run)
        self._store, self._clock = store, check_sync_function("clock", clock)
        self._on_run = None if on_run is None else check_function("on_run", on_run)
        self._allow = None if allow is None else check_function("allow", allow)
        self._lease, self._poll, grace = (
            check_number("lease", lease),
            check_number("poll", poll),
            check_number("grace", grace),
        )
        self._grace = grace if check_choice("missed", missed, "once", "skip") == "skip" else math.inf
        self._attempts = ATTEMPTS if check_choice("crashed", crashed, "skip", "again") == "again" else 1
        self._busy_until = -math.inf
        self._stopping = Cancellation()

    def run_forever(self) -> None:
        """Run due actions until `stop` is called; exceptions of the store are logged."""
        run_sync(self._run_loop(SyncBackend(), self._run))

    async def arun_forever(self) -> None:
        """Async version of `run_forever`. If it is cancelled, the running firing counts as crashed."""
        await self._run_loop(AsyncBackend(), self._arun)

    def stop(self) -> None:
        """Stop the loop after the running action; without a loop, the next one stops at once.

        Safe from any thread and from a signal handler. A new loop can be started afterwards.
        """
        self._stopping.cancel()

    def run_due(self) -> tuple[FiringOutcome, ...]:
        """Run the actions that are due now, and return their outcomes.

        After an exception such as KeyboardInterrupt, which is raised, the running firing counts as crashed.
        """
        return run_sync(self._run_due(SyncBackend(), self._run, Cancellation()))

    async def arun_due(self) -> tuple[FiringOutcome, ...]:
        """Async version of `run_due`."""
        return await self._run_due(AsyncBackend(), self._arun, Cancellation())

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
        state = _parse_state(state)
        return run_sync(
            self._resume(state.run_id, SyncBackend(), make_resume_functions(self._work, state, decisions)[0])
        )

    async def aresume(self, state: RunState | str, decisions: Decisions) -> FiringOutcome:
        """Async version of `resume`."""
        state = _parse_state(state)
        return await self._resume(state.run_id, AsyncBackend(), make_resume_functions(self._work, state, decisions)[1])

    async def _run_loop(self, backend: Backend, run: Function) -> None:
        stopping = self._stopping
        while not stopping:
            try:
                await self._run_due(backend, run, stopping)
            except Exception:  # the store may work again at the next pass
                logger.exception("The scheduler could not use its store.")
            with suppress(Cancelled):
                await backend.sleep(self._poll, stopping)  # by a clock that cannot be set
        self._stopping = Cancellation()

    async def _run_due(self, backend: Backend, run: Function, stopping: Cancellation) -> tuple[FiringOutcome, ...]:
        outcomes: list[FiringOutcome] = []
        started = self._clock()
        oldest = started - self._grace
        this = _Pass(backend, run, oldest if self._busy_until < oldest else -math.inf)
        firings = self._claim_firings(started)
        while not stopping and (firing := await _call_blocking(backend, partial(next, firings, None))):
            outcomes.append(await self._run_firing(firing, this))
        self._busy_until = self._clock()
        return tuple(outcomes)

    async def _resume(self, run_id: str, backend: Backend, run: Function) -> FiringOutcome:
        firing = await _call_blocking(backend, partial(self._store.find_paused, run_id))
        if firing is None:
            raise ValueError(f"No firing of this store waits for the run {run_id}.")
        return await self._run_firing(firing, _Pass(backend, run, run_id=run_id))

    def _claim_firings(self, started: float) -> Iterator[Firing]:
        """Claim due firings, each only after the one before has ended."""
        for firing in self._store.find_unfinished(started - self._lease):
            if (retried := self._store.take_over(firing, self._clock())) is not None:
                yield retried
        for action in self._store.actions():
            now = self._clock()
            claimed = self._store.claim(action, _advance(action, now), now) if _is_due(action, now) else None
            if claimed is not None:
                yield claimed

    async def _run_firing(self, firing: Firing, this: _Pass) -> FiringOutcome:
        token = current_firing.set(firing)
        try:
            outcome = await self._find_outcome(firing, this)
        finally:
            current_firing.reset(token)
        await _log_errors(
            _call_blocking(this.backend, partial(self._finish, outcome, this)), "record the end of", firing
        )
        if self._on_run is not None:
            await _log_errors(call_function(self._on_run, (outcome,), this.backend), "report", firing)
        return outcome

    def _finish(self, outcome: FiringOutcome, this: _Pass) -> None:
        self._store.finish(outcome.firing, self._clock(), this.find_paused_run(outcome))

    async def _find_outcome(self, firing: Firing, this: _Pass) -> FiringOutcome:
        try:
            if status := await self._find_obstacle(firing, this):
                return FiringOutcome(firing=firing, status=status)
            return make_outcome(firing, await call_function(this.run_firing, (firing,), this.backend))
        except Exception as error:
            logger.exception("The scheduled action %s failed.", firing.key)
            return FiringOutcome(firing=firing, status="failed", error=error)

    async def _find_obstacle(self, firing: Firing, this: _Pass) -> Status | None:
        """Return the reason why a firing does not run now; None if it runs."""
        if firing.attempt > self._attempts:
            return "crashed"
        if firing.attempt == 1 and firing.due < this.oldest:
            return "missed"
        is_allowed = self._allow is None or await call_function(self._allow, (firing,), this.backend) is True
        return None if is_allowed else "refused"


def planned_only(tool: Tool[..., Any], arguments: Mapping[str, Any], context: ToolContext[Any]) -> bool | Deny:
    """Allow a scheduled run only the tools of its planned calls, as `Runner(authorize=planned_only)`.

    The plan is read from the store. A run that was not started or resumed by a Scheduler may call no tool.
    """
    del arguments, context
    firing = current_firing.get()
    if firing is None:  # perhaps a scheduled run that was paused: it must not get more rights now
        return Deny("This run was not started or resumed by a Scheduler.")
    if tool.name in firing.action.planned_tools:
        return True
    return Deny(f"{tool.name} was not planned when this action was scheduled.")


def make_outcome(firing: Firing, result: Any) -> FiringOutcome:
    """Make the outcome of a firing that ran."""
    is_paused = isinstance(result, RunResult) and result.is_paused
    return FiringOutcome(firing=firing, status="paused" if is_paused else "done", result=result)


def make_functions(run: Function | Runs) -> tuple[Function, Function]:
    """Return the function to call in a sync backend, and the one to call in an async backend.

    Raises:
        DefinitionError: `run` is neither a function of a Firing nor a Runner.
    """
    if inspect.ismethod(run) and run.__func__ in vars(Runner).values():
        raise DefinitionError(f"run={run!r} is a method of a Runner, which takes no Firing. Pass the Runner itself.")
    if callable(run):
        return run, run
    if isinstance(run, type) or not isinstance(run, Runs):
        raise DefinitionError(f"run={run!r} is neither a function nor a Runner.")
    return (lambda firing: run.run(firing.prompt, deps=firing)), partial(_run_async, run)


def make_resume_functions(run: Function | Runs, state: RunState, decisions: Decisions) -> tuple[Function, Function]:
    """Return the function that resumes a run in a sync backend, and the one for an async backend.

    Raises:
        TypeError: `run` is a function, which cannot resume a run.
    """
    if not isinstance(run, Runs):
        raise TypeError(
            f"run={run!r} is not a Runner. Pass one to a Scheduler of the same store, and resume with that."
        )
    return (lambda firing: run.resume(state, decisions, deps=firing)), partial(_resume_async, run, state, decisions)


async def _run_async(run: Runs, firing: Firing) -> Any:
    return await run.arun(firing.prompt, deps=firing)


async def _resume_async(run: Runs, state: RunState, decisions: Decisions, firing: Firing) -> Any:
    return await run.aresume(state, decisions, deps=firing)


@dataclass(frozen=True)
class _Pass:
    """One pass over the store.

    Attributes:
        execute: Executes a firing.
        oldest: Firings that were due before this time are missed.
        run_id: The run that is resumed; until it is done, it can be resumed again.
    """

    backend: Backend
    run_firing: Function
    oldest: float = -math.inf
    run_id: str | None = None

    def find_paused_run(self, outcome: FiringOutcome) -> str | None:
        """Return the run that can be resumed after this outcome."""
        if outcome.status == "paused":
            return str(outcome.result.state.run_id)
        return None if outcome.status == "done" else self.run_id


def _parse_state(state: RunState | str) -> RunState:
    return RunState.from_json(state) if isinstance(state, str) else state


async def _call_blocking(backend: Backend, work: Callable[[], T]) -> T:
    """Call a function that waits for a disk: on a thread of its own in an event loop."""

    async def job() -> T:
        return work()

    return await backend.call(job, is_async=False)


def _is_due(action: Action, now: float) -> bool:
    return action.enabled and action.next_run <= now


def _advance(action: Action, now: float) -> Action:
    """Return an action with its next time; disabled if it has none."""
    if is_once(action.schedule):
        return replace(action, enabled=False)
    try:
        return replace(action, next_run=next_run(action.schedule, now, action.zone))
    except (ValueError, ImportError):  # else it would be due at every pass
        logger.exception("The scheduled action %s has no next time, and is disabled.", action.id)
        return replace(action, enabled=False)


async def _log_errors(work: Awaitable[object], what: str, firing: Firing) -> None:
    try:
        await work
    except Exception:  # the remaining actions have to run all the same
        logger.exception("The scheduler could not %s %s.", what, firing.key)
