"""A runner as a tool of another one: a sub-agent, which gets a task and returns its answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from keyword import iskeyword
from typing import Annotated, Any, TypeAlias

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import Backend, run_sync
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit._concurrency.threads import cancellation_error, use_cancellation
from toolkit._context import ToolContext, discard
from toolkit._execution.approval import Stopped
from toolkit._messages import ToolResult
from toolkit._runner.nesting import ParentCall, parent_call
from toolkit._runner.options import RunRequest
from toolkit._runner.result import RunResult, require_result
from toolkit._runner.run import Run
from toolkit._tools.decorator import tool
from toolkit._tools.options import Effect
from toolkit._tools.tool import Tool, find_instance, with_origin
from toolkit.errors import Cancelled, DefinitionError, Failed, FatalError, Halt, ToolkitError
from toolkit.events import SubAgentEvent

# Sub-agents inside each other, by default.
MAX_DEPTH = 2
# The wording of these three is fixed: agent libraries that users come from have the same.
DESCRIPTION = "Delegate to specialist sub-agent: {}"
FAILED = "Sub-agent execution failed: {}"
TOO_DEEP = "Sub-agent delegation refused: maximum nesting depth ({}) reached."

CreateRun: TypeAlias = Callable[[RunRequest], Run[Any]]


class SubAgent:
    """Runs a runner for each call, with a conversation of its own.

    Args:
        create_run: Creates a run of the runner.
        list_tools: Lists the tools of the runner.
        name: The tool's name.
        arg: Name of the tool's parameter.
        max_depth: How many sub-agents may be inside each other, this one included.
        output_type: Type of the answer.

    Raises:
        DefinitionError: `arg` cannot be the name of a parameter.
        ValueError: `max_depth` is below 1.
    """

    def __init__(
        self,
        create_run: CreateRun,
        list_tools: Callable[[], Iterable[Tool[..., Any]]],
        *,
        name: str,
        arg: str,
        max_depth: int,
        output_type: Any,
    ) -> None:
        if not arg.isidentifier() or iskeyword(arg) or arg.startswith("_") or arg == "context":
            raise DefinitionError(f"arg={arg!r} cannot be the name of the parameter of {name!r}.")
        if type(max_depth) is not int or max_depth < 1:
            raise ValueError(f"max_depth={max_depth!r} must be a whole number, at least 1.")
        self.name, self.max_depth, self.list_tools = name, max_depth, list_tools
        self.create_run, self._arg, self._output_type = create_run, arg, output_type
        task = Annotated[str, "The task, with everything that one must know for it."]
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(arg, inspect.Parameter.KEYWORD_ONLY, annotation=task),
                inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=ToolContext),
            ]
        )

    def __call__(self, /, *, context: ToolContext[Any], **arguments: str) -> Any:
        """Run the runner on a task, in the way in which the run above runs."""
        parent = parent_call.get()
        if parent is not None and parent.run.depth > self.max_depth:
            raise Failed(TOO_DEEP.format(self.max_depth))
        request = RunRequest(
            prompt=arguments[self._arg],
            deps=context.deps,
            output_type=self._output_type,
            streams=parent is not None and parent.run.streams,
        )
        if parent is not None and isinstance(parent.backend, AsyncBackend):
            return self._run(request, parent, context.cancellation, AsyncBackend())
        return run_sync(self._run(request, parent, context.cancellation, SyncBackend()))

    async def _run(
        self, request: RunRequest, parent: ParentCall | None, cancellation: Cancellation, backend: Backend
    ) -> Any:
        emit = parent.emit if parent else discard
        try:
            with use_cancellation(cancellation):
                run = self.create_run(request)
            async with aclosing(run.events(backend)) as events:
                async for event in events:
                    if parent:
                        emit(SubAgentEvent(parent.call, event))
        except (FatalError, Halt, Cancelled):
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, ToolkitError) else f"it raised {type(error).__name__}"
            raise Failed(FAILED.format(reason)) from error
        return self._get_answer(require_result(run.result), cancellation)

    def _get_answer(self, result: RunResult[Any], cancellation: Cancellation) -> Any:
        """Return the answer of a run.

        Raises:
            Cancelled: The run was cancelled.
            TimedOut: The delegation was out of time.
            Failed: It waits for an approval, or ended without an answer.
        """
        if result.finish_reason == "cancelled":
            raise cancellation_error(cancellation) if cancellation else Cancelled
        if result.finish_reason == "stopped":
            text = f"Not run to its end: the run of {self.name} was stopped."
            return ToolResult(text=text, error=text, kind="stopped", exception=Stopped(text))
        if result.finish_reason == "paused":
            waiting = ", ".join(pending.call.name for pending in result.state.pending)
            raise Failed(FAILED.format(f"{waiting} needs approval, and a sub-agent cannot wait for that."))
        if result.output is None or result.output == "":
            raise Failed(FAILED.format(f"it ended without an answer ({result.finish_reason})."))
        return result.output


def make_sub_agent(
    create_run: CreateRun,
    list_tools: Callable[[], Iterable[Tool[..., Any]]],
    *,
    name: str,
    description: str,
    arg: str,
    max_depth: int,
    output_type: Any,
) -> Tool[..., Any]:
    """Make the tool that runs a runner."""
    sub_agent = SubAgent(create_run, list_tools, name=name, arg=arg, max_depth=max_depth, output_type=output_type)
    made: Tool[..., Any] = tool(
        sub_agent,
        name=name,
        description=DESCRIPTION.format(description),
        effect=_find_effect(list_tools()),
    )
    return with_origin(made, f"the sub-agent {name!r}")


def _find_effect(tools: Iterable[Tool[..., Any]]) -> Effect | None:
    """Find the effect of what may do as any of some tools, and of others that join: `read` is never certain."""
    effects = {made.settings.effect for made in tools}
    if "destructive" in effects:
        return "destructive"
    return "write" if "write" in effects and None not in effects else None


def walk_tools(tools: Iterable[Tool[..., Any]], above: tuple[SubAgent, ...] = ()) -> Iterator[Tool[..., Any]]:
    """Give tools, those of the sub-agents among them, and so on.

    Args:
        tools: The tools of a runner.
        above: The sub-agents that lead to it, from the outermost.

    Raises:
        DefinitionError: They form a circle, or are nested too deeply.
    """
    for made in tools:
        yield made
        sub_agent = find_instance(made)
        if not isinstance(sub_agent, SubAgent):
            continue
        nested = (*above, sub_agent)
        path = " -> ".join(each.name for each in nested)
        if any(each.create_run == sub_agent.create_run for each in above):
            raise DefinitionError(f"The sub-agents call each other in a circle: {path}. Leave one of them out.")
        if len(nested) > sub_agent.max_depth:
            raise DefinitionError(
                f"The sub-agents are nested too deeply: {path}. The last one allows max_depth={sub_agent.max_depth}."
            )
        yield from walk_tools(sub_agent.list_tools(), nested)
