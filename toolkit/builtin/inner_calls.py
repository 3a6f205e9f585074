"""Calls that a tool makes of other tools, through the run in which it is called itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import Self

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._context import ToolContext
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.parallel import ParallelCalls, dispatching, split_batches
from toolkit._messages import ToolCall, ToolResult
from toolkit._toolbox import Toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.options import Effect
from toolkit._tools.shared_values import SharedValues
from toolkit._tools.tool import Tool, find_instance, find_wrapped_tool
from toolkit.builtin.ask_user import UserPrompt


@dataclass(frozen=True)
class InnerCalls:
    """The tools that a tool calls; each call passes the same line as one of the model.

    That is the run's limits, validation, gates, hooks, middleware and ledger, and the tool's own gates. A call that
    needs approval is refused, unless an approver decides at once. A tool that the run has and may not call is refused,
    too; tools that only the caller has are allowed with it.

    Attributes:
        tools: The tools by name.
        excluded: Names of tools that cannot be called so: those that make inner calls themselves, and those that ask a
            user, who should not get many questions from one call.
        checks_output: Whether the value of a result must be of the tool's declared type.
    """

    tools: Mapping[str, Tool[..., Any]]
    excluded: frozenset[str]
    checks_output: bool

    @classmethod
    def of(cls, tools: Toolbox | Iterable[Addable]) -> Self:
        """Take the tools that a toolbox has at this time."""
        box = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        snapshot = box.snapshot()
        known = {name: tool for name, tool in snapshot.items() if not _is_excluded(tool)}
        return cls(known, frozenset({*snapshot} - {*known}), box.check_output)

    @property
    def effect(self) -> Effect:
        """The worst effect of the tools; an unlabelled one may be destructive."""
        effects = {tool.settings.effect for tool in self.tools.values()}
        if effects <= {"read"}:
            return "read"
        return "write" if effects <= {"read", "write"} else "destructive"

    async def run(self, calls: Sequence[ToolCall], context: ToolContext[Any], first: int = 0) -> dict[str, ToolResult]:
        """Execute calls until an approver stops the run; returns results by call id, with their whole texts.

        Args:
            calls: The calls. Those that only read run in parallel, others in order.
            context: The context of the call that makes them.
            first: How many calls it has made before.
        """
        dispatcher = self.make_dispatcher()
        counted = [(call, dispatcher.count(call.name, number)) for number, call in enumerate(calls, first)]
        results = {call.id: ToolResult(text=why, error=why, kind="cancelled") for call, why in counted if why}
        parallel = ParallelCalls(dispatcher, context, AsyncBackend(), SharedValues.of(None))
        for batch in split_batches([call for call in calls if call.id not in results], "parallel", self._runs_alone):
            done = await parallel.all(batch)
            results |= {call.id: result for call, result in zip(batch, done)}
            if any(result.kind == "stopped" for result in done):
                break
        return results

    def make_dispatcher(self) -> Dispatcher:
        """Make the dispatcher of the calls: that of the run, with these tools."""
        run = dispatching.get() or Dispatcher(tools=self.tools)
        allowed = None if run.available is None else {*self.tools} - ({*run.tools} - {*run.available})
        checks_output = self.checks_output or run.check_output
        return replace(run, tools=self.tools, available=allowed, check_output=checks_output)

    def _runs_alone(self, call: ToolCall) -> bool:
        tool = self.tools.get(call.name)
        return tool is not None and tool.settings.runs_alone


def _is_excluded(tool: Tool[..., Any]) -> bool:
    if tool._spec.provider_form is not None:  # only a provider can run it
        return True
    function = tool.handler.function_handler
    owner = find_instance((function and find_wrapped_tool(function.function)) or tool)
    return isinstance(owner, UserPrompt) or isinstance(getattr(owner, "calls", None), InnerCalls)
