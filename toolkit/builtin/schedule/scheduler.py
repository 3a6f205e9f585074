"""What a scheduled run may do: no more than was planned when it was scheduled.

What is done for a firing, and what came of it.

The loop that carries actions out when they are due.
"""

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

# The firing that is carried out here.
current_firing: ContextVar[Firing | None] = ContextVar("current", default=None)


def planned_only(tool: Tool[..., Any], arguments: Mapping[str, Any], context: ToolContext[Any]) -> bool | Deny:
    """Let a scheduled run call only the tools that were planned when it was scheduled: `Runner(authorize=...)`.

    What was planned then is in the store, and stays as it is; which tools there are, and what they may do, is for the
    runner to say when the time comes. A run that no Scheduler began, or goes on with, may call none.
    """
    del arguments, context
    firing = current_firing.get()
    if firing is None:  # perhaps a scheduled run that was paused: it must not be freer now
        return Deny("No Scheduler carries this run out.")
    if tool.name in firing.action.planned_tools:
        return True
    return Deny(f"{tool.name} was not planned when this action was scheduled.")


Status: TypeAlias = Literal["done", "paused", "failed", "refused", "missed", "crashed"]
Function: TypeAlias = Callable[[Firing], Any]
Decisions: TypeAlias = Mapping[str, Verdict]


@dataclass(frozen=True, kw_only=True)
class FiringOutcome:
    """What came of one firing.

    Attributes:
        status: `done`, where the run has ended, though its calls may have failed or been refused, as `result` tells;
            `paused`, where calls of a Runner wait for somebody's yes: `Scheduler.resume` goes on with `result.state`;
            `failed`, with an `error`. Not carried out now: `refused`, by `allow`; `missed`, as it was due too long ago;
            or `crashed`, as whoever claimed it never said what came of it.
        result: What `run` gave.
    """

    firing: Firing
    status: Status
    result: Any = None
    error: Exception | None = None

    def __repr__(self) -> str:
        given = self.result.output if isinstance(self.result, RunResult) else self.result
        told = given if self.error is None else self.error
        shown = "" if told is None else f", {told!r}"
        return f"<FiringOutcome {self.status}: {self.firing.action.description!r}{shown}>"


@runtime_checkable
class Runs(Protocol):
    """Something that a model works in, such as a Runner."""

    def run(self, prompt: str, *, deps: Any) -> Any:
        """Do what a prompt says."""
        ...

    def arun(self, prompt: str, *, deps: Any) -> Awaitable[Any]:
        """Do the same in an event loop."""
        ...

    def resume(self, state: RunState, decisions: Decisions, *, deps: Any) -> Any:
        """Go on with what was paused."""
        ...

    def aresume(self, state: RunState, decisions: Decisions, *, deps: Any) -> Awaitable[Any]:
        """Do the same in an event loop."""
        ...


def make_outcome(firing: Firing, result: Any) -> FiringOutcome:
    """Tell what came of a firing that was carried out."""
    is_paused = isinstance(result, RunResult) and result.is_paused
    return FiringOutcome(firing=firing, status="paused" if is_paused else "done", result=result)


def make_functions(run: Function | Runs) -> tuple[Function, Function]:
    """Give what is called in place, and what in an event loop.

    Raises:
        DefinitionError: It is neither a function of a Firing nor a Runner.
    """
    if inspect.ismethod(run) and run.__func__ in vars(Runner).values():
        raise DefinitionError(f"run={run!r} is a method of a Runner, which takes no Firing. Give the Runner itself.")
    if callable(run):
        return run, run
    if isinstance(run, type) or not isinstance(run, Runs):
        raise DefinitionError(f"run={run!r} is neither a function nor a Runner.")
    return (lambda firing: run.run(firing.prompt, deps=firing)), partial(_run_async, run)


def make_resume_functions(run: Function | Runs, state: RunState, decisions: Decisions) -> tuple[Function, Function]:
    """Give what goes on with a run in place, and what in an event loop.

    Raises:
        TypeError: A function cannot go on with one.
    """
    if not isinstance(run, Runs):
        raise TypeError(f"run={run!r} is no Runner. Give one to a Scheduler of the same store, and go on with that.")
    return (lambda firing: run.resume(state, decisions, deps=firing)), partial(_resume_async, run, state, decisions)


async def _run_async(run: Runs, firing: Firing) -> Any:
    return await run.arun(firing.prompt, deps=firing)


async def _resume_async(run: Runs, state: RunState, decisions: Decisions, firing: Firing) -> Any:
    return await run.aresume(state, decisions, deps=firing)


logger = logging.getLogger("toolkit")

T = TypeVar("T")

# How often a firing is tried that ends whoever tries it.
ATTEMPTS = 3


@dataclass(frozen=True)
class _Pass:
    """One look into the store.

    Attributes:
        run: What is done for a firing.
        oldest: What was due before is missed.
        run_id: The run that is gone on with; it can be until it is done.
    """

    backend: Backend
    execute: Function
    oldest: float = -math.inf
    run_id: str | None = None

    def find_paused_run(self, outcome: FiringOutcome) -> str | None:
        """Tell which run of a firing can be gone on with."""
        if outcome.status == "paused":
            return str(outcome.result.state.run_id)
        return None if outcome.status == "done" else self.run_id


class Scheduler:
    """Carries actions out when they are due, one after another; several may share a store, in several processes.

    An action's next time is set, and its firing claimed, before it is carried out: none is carried out twice, whatever
    the clock does or whoever crashes, unless `crashed="again"` asks for it. When several times of an action have gone
    by, it is carried out once for all of them, or, with `missed="skip"`, not at all. A clock that is set back repeats
    nothing: an action waits until the clock has come to its next time again.

    An action whose rule or zone cannot be read any more is carried out this time, and then paused.

    Args:
        store: Where the actions are.
        run: What is done for a Firing: a function of it, sync or async; or a Runner, which is given `firing.prompt` as
            prompt and the firing as `deps`. Nobody sits there to approve a call: it is refused, or the run pauses, as
            the Runner says, and `resume` goes on with it. `Runner(authorize=planned_only)` keeps it to the tools that
            were planned.
        on_run: Gets each FiringOutcome; sync or async. What it raises is logged.
        allow: Whether a firing may be carried out, asked each time, sync or async; any may by default. What is no plain
            True is a no; what it raises fails the firing.
        missed: "once" or "skip": what is done where an action has been due for longer than `grace`. The time in which
            this Scheduler was busy with others does not count.
        grace: Seconds; more than `poll`.
        crashed: What is done with a firing that was claimed and never finished: "skip" it, so that it is carried out at
            most once; or try it "again", three times at most, so that it is carried out at least once, and `firing.key`
            keeps what it does from happening twice.
        lease: Seconds after which a claim that is not finished counts as crashed; it has to be longer than any run.
        poll: Seconds from one look into the store to the next.
        clock: Gives the time, in seconds since 1970, UTC.

    Raises:
        DefinitionError: `run` is neither a function nor a Runner, or another argument makes no sense.
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
        """Carry out what is due, until `stop` is called; what the store raises is logged."""
        run_sync(self._run_loop(SyncBackend(), self._run))

    async def arun_forever(self) -> None:
        """Do the same in the running event loop. Cancelled, it leaves the firing under way as one that has crashed."""
        await self._run_loop(AsyncBackend(), self._arun)

    def stop(self) -> None:
        """Let the loop end, once the action under way has ended; without a loop, the next one ends at once.

        From any thread, or a signal handler. After that a loop may begin anew.
        """
        self._stopping.cancel()

    def run_due(self) -> tuple[FiringOutcome, ...]:
        """Carry out what is due now, and tell what came of it.

        What ends more than the action, such as KeyboardInterrupt, leaves it, and the firing counts as crashed.
        """
        return run_sync(self._run_due(SyncBackend(), self._run, Cancellation()))

    async def arun_due(self) -> tuple[FiringOutcome, ...]:
        """Do the same in the running event loop."""
        return await self._run_due(AsyncBackend(), self._arun, Cancellation())

    def resume(self, state: RunState | str, decisions: Decisions) -> FiringOutcome:
        """Go on with the run of a paused firing, in this process or another, as what it is: a scheduled run.

        `allow` is asked again, and `on_run` told. A run that fails, or is refused, can be gone on with again.

        Args:
            state: `outcome.result.state`, or the text that its `to_json` wrote.
            decisions: What was decided on its pending calls, by call id, as for `Runner.resume`.

        Raises:
            ValueError: The store knows of no firing that waits for this run: it has been gone on with, the action was
                deleted, or nobody scheduled it.
            TypeError: The Scheduler has no Runner.
            ConversationError: It is not the state of a run.
        """
        state = _parse_state(state)
        return run_sync(
            self._resume(state.run_id, SyncBackend(), make_resume_functions(self._work, state, decisions)[0])
        )

    async def aresume(self, state: RunState | str, decisions: Decisions) -> FiringOutcome:
        """Do the same in the running event loop."""
        state = _parse_state(state)
        return await self._resume(state.run_id, AsyncBackend(), make_resume_functions(self._work, state, decisions)[1])

    async def _run_loop(self, backend: Backend, run: Function) -> None:
        stopping = self._stopping
        while not stopping:
            try:
                await self._run_due(backend, run, stopping)
            except Exception:  # the next look may find the store whole again
                logger.exception("The scheduler could not look into its store.")
            with suppress(Cancelled):
                await backend.sleep(self._poll, stopping)  # by a clock that nobody sets
        self._stopping = Cancellation()

    async def _run_due(self, backend: Backend, run: Function, stopping: Cancellation) -> tuple[FiringOutcome, ...]:
        outcomes: list[FiringOutcome] = []
        begun = self._clock()
        oldest = begun - self._grace
        this = _Pass(backend, run, oldest if self._busy_until < oldest else -math.inf)
        firings = self._claim_firings(begun)
        while not stopping and (firing := await _call_blocking(backend, partial(next, firings, None))):
            outcomes.append(await self._execute(firing, this))
        self._busy_until = self._clock()
        return tuple(outcomes)

    async def _resume(self, run_id: str, backend: Backend, run: Function) -> FiringOutcome:
        firing = await _call_blocking(backend, partial(self._store.paused, run_id))
        if firing is None:
            raise ValueError(f"No firing of this store waits for the run {run_id}.")
        return await self._execute(firing, _Pass(backend, run, run_id=run_id))

    def _claim_firings(self, begun: float) -> Iterator[Firing]:
        """Claim what is due: each only when the one before has ended."""
        for firing in self._store.unfinished(begun - self._lease):
            taken = self._store.take_over(firing, self._clock())
            if taken is not None:
                yield taken
        for action in self._store.actions():
            now = self._clock()
            claimed = self._store.claim(action, _advance(action, now), now) if _is_due(action, now) else None
            if claimed is not None:
                yield claimed

    async def _execute(self, firing: Firing, this: _Pass) -> FiringOutcome:
        token = current_firing.set(firing)
        try:
            outcome = await self._find_outcome(firing, this)
        finally:
            current_firing.reset(token)
        await _log_errors(
            _call_blocking(this.backend, partial(self._finish, outcome, this)), "write down the end of", firing
        )
        if self._on_run is not None:
            await _log_errors(call_function(self._on_run, (outcome,), this.backend), "tell of", firing)
        return outcome

    def _finish(self, outcome: FiringOutcome, this: _Pass) -> None:
        self._store.finish(outcome.firing, self._clock(), this.find_paused_run(outcome))

    async def _find_outcome(self, firing: Firing, this: _Pass) -> FiringOutcome:
        try:
            if status := await self._find_obstacle(firing, this):
                return FiringOutcome(firing=firing, status=status)
            return make_outcome(firing, await call_function(this.execute, (firing,), this.backend))
        except Exception as error:
            logger.exception("The scheduled action %s failed.", firing.key)
            return FiringOutcome(firing=firing, status="failed", error=error)

    async def _find_obstacle(self, firing: Firing, this: _Pass) -> Status | None:
        """Tell why a firing is not carried out now; None where it is."""
        if firing.attempt > self._attempts:
            return "crashed"
        if firing.attempt == 1 and firing.due < this.oldest:
            return "missed"
        is_allowed = self._allow is None or await call_function(self._allow, (firing,), this.backend) is True
        return None if is_allowed else "refused"


def _parse_state(state: RunState | str) -> RunState:
    return RunState.from_json(state) if isinstance(state, str) else state


async def _call_blocking(backend: Backend, work: Callable[[], T]) -> T:
    """Do what waits for a disk: in an event loop, on a thread of its own."""

    async def job() -> T:
        return work()

    return await backend.call(job, is_async=False)


def _is_due(action: Action, now: float) -> bool:
    return action.enabled and action.next_run <= now


def _advance(action: Action, now: float) -> Action:
    """Give what an action is once it has been claimed; one that has no next time is disabled."""
    if is_once(action.schedule):
        return replace(action, enabled=False)
    try:
        return replace(action, next_run=next_run(action.schedule, now, action.zone))
    except (ValueError, ImportError):  # else it would be due at every look
        logger.exception("The scheduled action %s has no next time, and is disabled.", action.id)
        return replace(action, enabled=False)


async def _log_errors(work: Awaitable[object], what: str, firing: Firing) -> None:
    try:
        await work
    except Exception:  # the actions after it are due all the same
        logger.exception("The scheduler could not %s %s.", what, firing.key)
