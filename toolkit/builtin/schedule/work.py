"""What is done for a firing, and what came of it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from toolkit._execution.approval import Verdict
from toolkit._runner.result import RunResult
from toolkit._runner.runner import Verbs
from toolkit._runner.state import RunState
from toolkit.builtin.schedule.store import Firing
from toolkit.errors import DefinitionError

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


def outcome_of(firing: Firing, result: Any) -> FiringOutcome:
    """Tell what came of a firing that was carried out."""
    is_paused = isinstance(result, RunResult) and result.is_paused
    return FiringOutcome(firing=firing, status="paused" if is_paused else "done", result=result)


def functions(run: Function | Runs) -> tuple[Function, Function]:
    """Give what is called in place, and what in an event loop.

    Raises:
        DefinitionError: It is neither a function of a Firing nor a Runner.
    """
    if inspect.ismethod(run) and run.__func__ in vars(Verbs).values():
        raise DefinitionError(f"run={run!r} is a method of a Runner, which takes no Firing. Give the Runner itself.")
    if callable(run):
        return run, run
    if isinstance(run, type) or not isinstance(run, Runs):
        raise DefinitionError(f"run={run!r} is neither a function nor a Runner.")
    return (lambda firing: run.run(firing.prompt, deps=firing)), partial(_begun, run)


def resuming(run: Function | Runs, state: RunState, decisions: Decisions) -> tuple[Function, Function]:
    """Give what goes on with a run in place, and what in an event loop.

    Raises:
        TypeError: A function cannot go on with one.
    """
    if not isinstance(run, Runs):
        raise TypeError(f"run={run!r} is no Runner. Give one to a Scheduler of the same store, and go on with that.")
    return (lambda firing: run.resume(state, decisions, deps=firing)), partial(_resumed, run, state, decisions)


async def _begun(run: Runs, firing: Firing) -> Any:
    return await run.arun(firing.prompt, deps=firing)


async def _resumed(run: Runs, state: RunState, decisions: Decisions, firing: Firing) -> Any:
    return await run.aresume(state, decisions, deps=firing)
