"""`execute_plan`: many calls in one, for a model that knows all of their arguments in advance.

`InnerCalls` executes the calls that a tool makes of other tools, in the run that called the tool.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any

from annotated_types import MaxLen, MinLen
from typing_extensions import Self, TypedDict

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._context import ToolContext
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.parallel import ParallelCalls, split_batches
from toolkit._messages import Effect, ToolCall, ToolResult, make_refusal
from toolkit._runner.tool_calls import find_dispatcher
from toolkit._toolbox import Toolbox, make_toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.decorator import tool
from toolkit._tools.shared_values import SharedValues
from toolkit._tools.tool import Tool, find_instance
from toolkit.builtin.ask_user import UserPrompt
from toolkit.errors import DefinitionError, FatalError, ToolError

MAX_STEPS = 50
NAME = "execute_plan"
NEEDS_APPROVAL = "this call needs approval, and a plan cannot wait for that. Call this tool by itself."


class Step(TypedDict):
    """One call of a tool."""

    tool: str
    args: dict[str, Any]


def plan_tool(tools: Toolbox | Iterable[Addable]) -> Tool[..., Any]:
    """Make `execute_plan`, which executes up to 50 calls of some tools in one.

    Each step is executed like a call of the model: it counts in the run's limits, and passes validation, the run's
    gates, hooks, middleware and ledger, and the tool's own gates. So does the plan itself. A tool of the run that is
    not in its `allowed_tools` is refused. Tools that only the plan has are allowed with the plan. A step that needs
    approval is refused, unless an approver decides at once. Steps that only read run in parallel, others in order.

    Args:
        tools: The tools that a step may call: those of a toolbox at this time. Tools that make calls themselves, ask a
            user, or are executed by the model's provider are left out, whatever their name.
    """
    calls = InnerCalls.of(tools)
    return tool(_PlanTool(calls).execute_plan, effect=calls.effect)


@dataclass(frozen=True)
class _PlanTool:
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
        # The id of each call is the key of ledger entries and idempotency keys.
        calls = [
            ToolCall(name=step["tool"], arguments=json.dumps(step["args"]), id=f"{context.call_id}/{number}")
            for number, step in enumerate(steps)
        ]
        results = await self.calls.run(calls, context)
        stopped = next((result for result in results.values() if result.kind == "stopped"), None)
        truncate = self.calls.make_dispatcher().truncate
        return stopped or _join_results(steps, [truncate(call, results[call.id]) for call in calls])


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


@dataclass(frozen=True)
class InnerCalls:
    """The tools that a tool calls; each call is executed like one of the model.

    It counts in the run's limits, and passes validation, gates, hooks, middleware and ledger of the run, and the tool's
    own gates. A call that needs approval is refused, unless an approver decides at once. A tool that the run has and
    may not call is refused, too. Tools that only the caller has are allowed with it.

    Attributes:
        tools: The tools by name.
        excluded: Names of tools that cannot be called: those that make inner calls themselves, those that a provider
            executes, and those that ask a user, who should not get many questions from one call.
        checks_output: Whether the value of a result must be of the tool's declared type.
    """

    tools: Mapping[str, Tool[..., Any]]
    excluded: frozenset[str]
    checks_output: bool

    @classmethod
    def of(cls, tools: Toolbox | Iterable[Addable]) -> Self:
        """Make an object for the tools that a toolbox has at this time."""
        box = make_toolbox(tools)
        snapshot = box.snapshot()
        known = {name: tool for name, tool in snapshot.items() if not _is_excluded(tool)}
        return cls(known, frozenset({*snapshot} - {*known}), box.check_output)

    @property
    def effect(self) -> Effect:
        """The strictest effect of the tools. A tool without one counts as destructive."""
        effects = {tool.settings.effect for tool in self.tools.values()}
        if effects <= {"read"}:
            return "read"
        return "write" if effects <= {"read", "write"} else "destructive"

    async def run(self, calls: Sequence[ToolCall], context: ToolContext[Any], first: int = 0) -> dict[str, ToolResult]:
        """Execute calls until an approver stops the run. Return results by call id, with their whole texts.

        Those that only read run in parallel, others in order. `first` is the number of calls before them.

        Raises:
            FatalError: A tool raised it, or cannot be executed where it is to run.
        """
        dispatcher = self.make_dispatcher()
        counted = [(call, dispatcher.count(call.name, number)) for number, call in enumerate(calls, first)]
        results = {call.id: make_refusal(why) for call, why in counted if why}
        parallel = ParallelCalls(dispatcher, context, AsyncBackend(), SharedValues.of(None))
        allowed = [call for call in calls if call.id not in results]

        for batch in split_batches(allowed, "parallel", dispatcher.runs_alone):
            try:
                done = await parallel.all(batch)
            except DefinitionError as error:  # the developer has to act, so it must leave the tool that makes the calls
                raise FatalError(str(error)) from error
            results |= {call.id: result for call, result in zip(batch, done)}
            if any(result.kind == "stopped" for result in done):
                break

        return results

    def make_dispatcher(self) -> Dispatcher:
        """Make the dispatcher of the calls: a copy of the run's, with these tools."""
        run = find_dispatcher() or Dispatcher(tools=self.tools)
        allowed = None if run.available is None else {*self.tools} - ({*run.tools} - {*run.available})
        checks_output = self.checks_output or run.check_output
        return replace(run, tools=self.tools, available=allowed, check_output=checks_output)


def _is_excluded(tool: Tool[..., Any]) -> bool:
    if tool._spec.provider_form is not None:  # only a provider can run it
        return True
    owner = find_instance(tool)
    return isinstance(owner, UserPrompt) or isinstance(getattr(owner, "calls", None), InnerCalls)
