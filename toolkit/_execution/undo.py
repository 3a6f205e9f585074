"""Undo the calls of a run by its ledger, the last call first: each undo is a call of its own, with its own record.

An undo runs only for a call that has succeeded, and never twice, since it is recorded like a call. A call that started
and has no result is reported and not undone. An undo that started and has no result is repeated only if its tool may
be repeated.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from toolkit._concurrency.backend import Backend, call_function
from toolkit._concurrency.cancellation import Cancellation
from toolkit._context import ToolContext, discard
from toolkit._execution.attempts import Attempts
from toolkit._execution.ledger import Ledger, LedgerEntry, Stage, dump_result, parse_record
from toolkit._messages import ToolCall, ToolResult
from toolkit._tools.decorator import tool as make_tool
from toolkit._tools.tool import Tool, check_deps, name_function
from toolkit.errors import Cancelled, Failed, InvalidArguments, TimedOut, ToolError

logger = logging.getLogger("toolkit")

UndoOutcome: TypeAlias = Literal["undone", "failed", "unknown"]

UNFINISHED = "The call was started and has no result: it may have taken effect, and was not undone."
UNKNOWN_RESULT = "It is not known whether the call took effect, and it was not undone: {}"
BROKEN_OFF = "The undo was started before and has no result yet: it may have taken effect, and was not run again."
NOT_KEPT = "Its result, which the undo takes, could not be kept as JSON. Let the undo take arguments of the call."
NO_UNDO = "There is no tool {!r} with an undo here."
TWO_TOOLS = "Two tools here are called {!r}, and it is not known which of them ran: it was not undone."


@dataclass(frozen=True, kw_only=True)
class Undo:
    """The outcome of undoing one call.

    Attributes:
        call: The call, with the arguments that it ran with.
        outcome: `undone`, now or earlier; `failed`, where the undo raised an exception or could not run; `unknown`,
            where it is not known whether the call or its undo took effect: a person has to look.
        error: Why the call is not undone; empty otherwise.
        exception: The exception that the undo raised.
    """

    call: ToolCall
    outcome: UndoOutcome
    error: str = ""
    exception: BaseException | None = field(default=None, repr=False)


def _list_functions(tool: Tool[..., Any]) -> list[Any]:
    """List the functions that a tool and its undo call. Methods of two instances are different functions."""
    handlers = tool.handler.function_handler, get_undo(tool).handler.function_handler
    return [handler and handler.function for handler in handlers]


@dataclass(frozen=True)
class _UndoableCall:
    """A call that may have to be undone, as recorded in the ledger. `result` is None if the call has none."""

    call: ToolCall
    function: str
    turn: int
    digest: str
    result: Mapping[str, Any] | None
    undo_stages: Mapping[Stage, LedgerEntry]


@dataclass(frozen=True, kw_only=True)
class Undoer:
    """Undoes the calls of one run, and of those below it.

    Attributes:
        tools: The tools, including those of sub-agents.
        ledger: The records of the calls.
        recorded_as: The run under which its calls are recorded: the outermost one above it, or itself.
        deps: The functions get it as `ToolContext.deps`.
    """

    tools: Iterable[Tool[..., Any]]
    ledger: Ledger
    run_id: str
    recorded_as: str
    deps: Any
    backend: Backend

    async def undo(self) -> tuple[Undo, ...]:
        """Undo the calls that have succeeded, the last call first. A failed undo does not stop the others.

        Raises:
            StoreError: The ledger cannot be read or written, or is damaged; nothing was undone.
            TypeError: An undo function takes `ToolContext[X]`, and `deps` is missing or of another type.
        """
        await self._record(name_undo(self.run_id), "started")
        entries = await call_function(self.ledger.read, (self.recorded_as,), self.backend)
        found = _list_undoable(entries, self.run_id)
        for each in found:
            for tool in self._find(each):
                check_deps(get_undo(tool), self.deps, "pass deps= to undo")
        undone = [await self._undo(each) for each in reversed(found)]
        for undo in undone:
            if undo.outcome != "undone":
                logger.error("%s(%s): %s", undo.call.name, undo.call.arguments, undo.error, exc_info=undo.exception)
        return tuple(undone)

    def _find(self, undoable: _UndoableCall) -> list[Tool[..., Any]]:
        """Find the tools that may have executed a call: tools of different instances may have the same name."""
        found: list[Tool[..., Any]] = []
        for tool in self.tools:
            is_match = (tool.name, name_function(tool)) == (undoable.call.name, undoable.function)
            has_undo = tool.settings.undo is not None
            if is_match and has_undo and not any(_list_functions(tool) == _list_functions(each) for each in found):
                found.append(tool)
        return found

    async def _undo(self, undoable: _UndoableCall) -> Undo:
        call, result = undoable.call, undoable.result
        if result is None:
            return Undo(call=call, outcome="unknown", error=UNFINISHED)
        if "value" not in result:
            return Undo(call=call, outcome="unknown", error=UNKNOWN_RESULT.format(result["error"]))
        if "finished" in undoable.undo_stages:
            return Undo(call=call, outcome="undone")
        if not result["value"]:
            return Undo(call=call, outcome="failed", error=NOT_KEPT)

        found = self._find(undoable)
        if len(found) != 1:
            return Undo(call=call, outcome="failed", error=(TWO_TOOLS if found else NO_UNDO).format(call.name))

        tool = found[0]
        try:
            arguments, _ = tool._invocation.parser.parse(call.arguments)
            plan = tool._plan_undo()
            returns = tool.handler.interface.returns
            values = plan.fit(arguments, returns.check(json.loads(result["value"])) if plan.result else None)
        except Exception as error:  # noqa: BLE001  the user's types may raise anything
            text = error.text if isinstance(error, InvalidArguments) else f"Its result has changed: {error}"
            return Undo(call=call, outcome="failed", error=text, exception=error)

        return await self._run_undo(undoable, get_undo(tool), values)

    async def _run_undo(self, undoable: _UndoableCall, undo: Tool[..., Any], values: dict[str, Any]) -> Undo:
        """Run one undo, and record its start and its success."""
        call = undoable.call
        call_id = name_undo(undoable.call.id)
        is_first = await self._record(call_id, "started", undoable.digest)
        if not is_first and not undo.settings.may_repeat:
            return Undo(call=call, outcome="unknown", error=BROKEN_OFF)

        with Cancellation() as cancellation:
            context = ToolContext(
                deps=self.deps,
                run_id=self.run_id,
                call_id=call_id,
                tool_name=undo.name,
                iteration=undoable.turn,
                cancellation=cancellation,
            )
            own = ToolCall(name=undo.name, id=call_id)
            attempts = Attempts(undo, own, values, self.backend, discard, cancellation, {})
            try:
                result = await attempts.run(context)
            except Exception as error:  # noqa: BLE001  one that ends a run does not stop the other undos
                result = ToolResult.from_error(Failed(str(error)), error)

        if result.error is not None:
            failure = result.exception
            outcome: UndoOutcome = "unknown" if isinstance(failure, (Cancelled, TimedOut)) else "failed"
            is_explained = failure is None or isinstance(failure, ToolError)
            why = result.error if is_explained else f"{type(failure).__name__}: {failure}"
            return Undo(call=call, outcome=outcome, error=why, exception=failure)

        await self._record(call_id, "finished", undoable.digest, dump_result(result))
        return Undo(call=call, outcome="undone")

    async def _record(self, call_id: str, stage: Stage, digest: str = "", result: str = "") -> bool:
        entry = LedgerEntry(run_id=self.recorded_as, call_id=call_id, stage=stage, digest=digest, result=result)
        return bool(await call_function(self.ledger.write, (entry,), self.backend))


def get_undo(tool: Tool[..., Any]) -> Tool[..., Any]:
    """Return the undo of a tool that has one, as a tool."""
    undo = tool.settings.undo
    return undo if isinstance(undo, Tool) else make_tool(undo)  # type: ignore[arg-type]  # it has one


def name_undo(own_id: str) -> str:
    """Return the id under which the undo of a call, or that of a run, is recorded."""
    return f"{own_id}_undo"


def was_undone(ledger: Ledger, run_id: str) -> bool:
    """Return whether an undo of the run was started."""
    return bool(ledger.read(run_id, name_undo(run_id)))


def _list_undoable(entries: Sequence[LedgerEntry], run_id: str) -> list[_UndoableCall]:
    """List the calls of tools with `undo` that a run, or one below it, has started and that did not fail, in order."""
    done: list[_UndoableCall] = []
    by_call: dict[str, dict[Stage, LedgerEntry]] = {}
    for entry in entries:
        by_call.setdefault(entry.call_id, {})[entry.stage] = entry
    for entry in (entry for entry in entries if entry.stage == "started" and entry.result):
        noted = parse_record(entry, "tool", "function", "arguments", "turn", "runs")
        finished = by_call[entry.call_id].get("finished")
        result = None if finished is None else parse_record(finished, "error")
        is_done = result is None or result["error"] is None or result.get("may_have_run")
        if is_done and run_id in noted["runs"]:
            call = ToolCall(name=noted["tool"], arguments=noted["arguments"], id=entry.call_id)
            undo_stages = by_call.get(name_undo(entry.call_id), {})
            digest = (finished or entry).digest
            done.append(_UndoableCall(call, noted["function"], noted["turn"], digest, result, undo_stages))

    return done
