"""`execute_plan`: many calls in one, for a model that knows all of their arguments in advance."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any

from annotated_types import MaxLen, MinLen
from typing_extensions import TypedDict

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._context import ToolContext
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.parallel import ParallelCalls, dispatching, split_batches
from toolkit._messages import ToolCall, ToolResult
from toolkit._toolbox import Addable, Toolbox
from toolkit._tools.decorator import tool
from toolkit._tools.options import Effect
from toolkit._tools.shared_values import SharedValues
from toolkit._tools.tool import Tool, find_instance
from toolkit.builtin.ask_user import UserPrompt
from toolkit.errors import ToolError

MAX_STEPS = 50
NAME = "execute_plan"
NEEDS_APPROVAL = "this call needs approval, and a plan cannot wait for that. Call this tool by itself."


class Step(TypedDict):
    """One call of a tool."""

    tool: str
    args: dict[str, Any]


def plan_tool(tools: Toolbox | Iterable[Addable]) -> Tool[..., Any]:
    """Make `execute_plan`, which executes up to 50 calls of some tools in one.

    Each step passes the same line as a call of the model: the run's limits, validation, the run's gates, hooks,
    middleware and ledger, and the tool's own gates. So does the plan itself. A tool that the run's `allowed_tools`
    leave out is refused. So is a step that needs approval, unless an approver decides at once. Reading steps run in
    parallel, writing ones in order.

    Args:
        tools: The tools that a step may call: those of a toolbox at this time. Tools that execute plans or ask a user
            are left out, whatever their name.
    """
    snapshot = (tools if isinstance(tools, Toolbox) else Toolbox(tools)).snapshot()
    known = {name: candidate for name, candidate in snapshot.items() if not _is_excluded(candidate)}
    return tool(
        _Plan(known, frozenset({NAME, *snapshot} - {*known})).execute_plan, effect=_find_worst_effect(known.values())
    )


@dataclass(frozen=True)
class _Plan:
    tools: Mapping[str, Tool[..., Any]]
    excluded: frozenset[str]

    @tool(title="Execute Plan")
    async def execute_plan(
        self, steps: Annotated[list[Step], MinLen(1), MaxLen(MAX_STEPS)], context: ToolContext[Any]
    ) -> ToolResult:
        """Execute several tool calls in one.

        Use it if you know all arguments in advance. Steps that only read run in parallel, so no step can use the result
        of another. Returns a list with step, tool, status (ok or error) and result or error of each.

        Args:
            steps: The calls: tool is a tool's name, args its arguments. Not of execute_plan, nor of ask_user.
            context: Context of the plan's own call.
        """
        for step in steps:
            if step["tool"] in self.excluded:
                raise ToolError(f"{step['tool']} cannot be called from within {NAME}")
        calls = [_make_call(number, step, context) for number, step in enumerate(steps)]
        results = await self._run_calls(calls, context)
        stopped = next((result for result in results if result.kind == "stopped"), None)
        return stopped or _join_results(steps, results)

    async def _run_calls(self, calls: Sequence[ToolCall], context: ToolContext[Any]) -> list[ToolResult]:
        """Execute calls until an approver stops the run; those beyond the run's limits are refused."""
        run = dispatching.get() or Dispatcher(tools=self.tools)
        allowed = None if run.available is None else {*self.tools} - ({*run.tools} - {*run.available})
        dispatcher = replace(run, tools=self.tools, available=allowed)
        parallel = ParallelCalls(dispatcher, context, AsyncBackend(), SharedValues.of(None))
        results = _refuse_excess(calls, dispatcher)
        for batch in split_batches([call for call in calls if call.id not in results], "parallel", self._runs_alone):
            batch_results = await parallel.all(batch)
            results |= {call.id: dispatcher.truncate(call, result) for call, result in zip(batch, batch_results)}
            if any(result.kind == "stopped" for result in batch_results):
                break
        return [results[call.id] for call in calls if call.id in results]

    def _runs_alone(self, call: ToolCall) -> bool:
        candidate = self.tools.get(call.name)
        return candidate is not None and candidate.settings.runs_alone


def _is_excluded(candidate: Tool[..., Any]) -> bool:
    """Return whether a tool executes plans, or asks a user, who should not get many questions from one call."""
    return isinstance(find_instance(candidate), (_Plan, UserPrompt))


def _refuse_excess(calls: Sequence[ToolCall], dispatcher: Dispatcher) -> dict[str, ToolResult]:
    """Count calls as the run counts those of one response, and refuse those beyond its limits."""
    counted = [(call, dispatcher.count(call.name, number)) for number, call in enumerate(calls)]
    return {call.id: ToolResult(text=why, error=why, kind="cancelled") for call, why in counted if why}


def _make_call(number: int, step: Step, context: ToolContext[Any]) -> ToolCall:
    """Make the call of a step; its own id is the key of ledger entries and idempotency keys."""
    return ToolCall(name=step["tool"], arguments=json.dumps(step["args"]), id=f"{context.call_id}/{number}")


def _join_results(steps: Sequence[Step], results: Sequence[ToolResult]) -> ToolResult:
    return ToolResult(
        [_make_entry(number, *one) for number, one in enumerate(zip(steps, results))],
        images=tuple(chain.from_iterable(result.images for result in results)),
        files=tuple(chain.from_iterable(result.files for result in results)),
    )


def _make_entry(number: int, step: Step, result: ToolResult) -> Mapping[str, Any]:
    entry = {"step": number, "tool": step["tool"]}
    if not result.is_error:
        return {**entry, "status": "ok", "result": result.text}
    return {**entry, "status": "error", "error": NEEDS_APPROVAL if result.kind == "pending" else result.text}


def _find_worst_effect(tools: Iterable[Tool[..., Any]]) -> Effect:
    """Return the worst effect of a plan; an unlabelled tool may be destructive."""
    effects = {candidate.settings.effect for candidate in tools}
    if effects <= {"read"}:
        return "read"
    return "write" if effects <= {"read", "write"} else "destructive"
