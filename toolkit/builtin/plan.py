"""`execute_plan`: many calls in one, for a model that knows all of their arguments in advance."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any

from annotated_types import MaxLen, MinLen
from typing_extensions import TypedDict

from toolkit._context import ToolContext
from toolkit._messages import ToolCall, ToolResult
from toolkit._toolbox import Toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.builtin.inner_calls import InnerCalls
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
    middleware and ledger, and the tool's own gates. So does the plan itself. A tool of the run that its `allowed_tools`
    leave out is refused. Tools that only the plan has, which that list cannot name, are allowed with the plan. A step
    that needs approval is refused, unless an approver decides at once. Reading steps run in parallel, writing ones in
    order.

    Args:
        tools: The tools that a step may call: those of a toolbox at this time. Tools that make calls themselves or ask
            a user are left out, whatever their name.
    """
    calls = InnerCalls.of(tools)
    return tool(_Plan(calls).execute_plan, effect=calls.effect)


@dataclass(frozen=True)
class _Plan:
    calls: InnerCalls

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
            if step["tool"] in {NAME, *self.calls.excluded}:
                raise ToolError(f"{step['tool']} cannot be called from within {NAME}")
        calls = [_make_call(number, step, context) for number, step in enumerate(steps)]
        results = await self.calls.run(calls, context)
        stopped = next((result for result in results.values() if result.kind == "stopped"), None)
        truncate = self.calls.make_dispatcher().truncate
        return stopped or _join_results(steps, [truncate(call, results[call.id]) for call in calls])


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
