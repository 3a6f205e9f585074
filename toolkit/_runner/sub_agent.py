"""A runner as a tool of another one: a sub-agent, which gets a task and returns its answer.

A sub-agent with `handoff` takes over the conversation. The history shows which sub-agent has it, and its messages.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import replace
from itertools import takewhile
from keyword import iskeyword
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import Backend, LazyAwaitable, run_sync
from toolkit._concurrency.cancellation import Cancellation, cancellation_error, note_effects, use_cancellation
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit._context import ToolContext, discard
from toolkit._execution.approval import WAITING_TEXT, Deferred, Stopped
from toolkit._guards.options import check_type
from toolkit._messages import Effect, Message, ModelResponse, ToolCall, ToolMessage, ToolResult, UserMessage
from toolkit._runner.conversation import NO_RESPONSE
from toolkit._runner.options import RunRequest
from toolkit._runner.output import build_output
from toolkit._runner.result import RunResult, require_result
from toolkit._runner.run import Run
from toolkit._runner.state import get_ids
from toolkit._runner.tool_calls import ParentCall, parent_call
from toolkit._toolbox import Toolbox
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool, find_instance, safe_name, with_origin
from toolkit.errors import Cancelled, DefinitionError, Failed, FatalError, InvalidArguments, ModelError, ToolkitError
from toolkit.events import SubAgentEvent

if TYPE_CHECKING:  # slow to load
    from toolkit._tools.definitions import Fingerprint

# Sub-agents inside each other, by default.
MAX_DEPTH = 2
# The wording of these three is fixed: agent libraries that users come from have the same.
DESCRIPTION = "Delegate to specialist sub-agent: {}"
FAILED = "Sub-agent execution failed: {}"
TOO_DEEP = "Sub-agent delegation refused: maximum nesting depth ({}) reached."

HAND_BACK = "hand_back"
HANDED_BACK = "The sub-agent gave the conversation back: {}"

# Returns the answer to a call of a sub-agent that a driver runs elsewhere.
Delegate: TypeAlias = "Callable[[SubAgent, ParentCall], Any]"
delegate: ContextVar[Delegate | None] = ContextVar("delegate", default=None)


class AgentRunner(Protocol):
    """The runner of a sub-agent: a RunFactory."""

    toolbox: Toolbox
    options: Mapping[str, Any]

    def create(self, request: RunRequest) -> Run[Any]:
        """Create a run."""
        ...

    def fingerprint(self) -> Fingerprint:
        """Make digests of the tools and of all settings."""
        ...


class SubAgent:
    """Runs a runner for each call, with a conversation of its own. The options are those of `Runner.as_tool`.

    Raises:
        DefinitionError: `arg` cannot be the name of a parameter, or no JSON can be of the `output_type`; or it is to
            take the conversation over, and has an `output_type` other than text, or a tool `hand_back`.
        ValueError: `max_depth` is below 1.
    """

    def __init__(
        self, runner: AgentRunner, name: str, *, arg: str, max_depth: int, output_type: Any, handoff: bool
    ) -> None:
        check_type("handoff", handoff, bool)
        if not check_type("arg", arg, str).isidentifier() or iskeyword(arg) or arg.startswith("_") or arg == "context":
            raise DefinitionError(f"{name}: arg={arg!r} cannot name a parameter, as arg='query' can.")
        if type(max_depth) is not int or max_depth < 1:
            raise ValueError(f"max_depth={max_depth!r} is not a whole number of at least 1.")
        if handoff and output_type is not str:
            raise DefinitionError(f"{name}: with handoff=True the answer is text: leave out output_type=.")
        if output_type is not str:
            build_output(output_type)  # refuses what is no type of an answer
        if handoff and any(each.name == HAND_BACK for each in runner.toolbox):
            raise DefinitionError(f"{name}: handoff=True adds a tool {HAND_BACK!r}, and there is one: rename it.")

        self.runner = runner
        self.name = name
        self.max_depth = max_depth
        self.handoff = handoff
        self.output_type = output_type
        self._arg = arg
        task = Annotated[str, "The task, with everything that one must know for it."]
        self.__signature__: inspect.Signature = inspect.Signature(
            [
                inspect.Parameter(arg, inspect.Parameter.KEYWORD_ONLY, annotation=task),
                inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=ToolContext),
            ]
        )

    def make_tool(self, description: str) -> Tool[..., Any]:
        """Make the tool that runs the sub-agent."""
        delegating: Tool[..., Any] = tool(
            self,
            name=self.name,
            description=DESCRIPTION.format(description),
            effect=_find_effect(self.runner.toolbox),
            return_direct=self.handoff,
        )
        return with_origin(delegating, f"the sub-agent {self.name!r}")

    def __call__(self, /, *, context: ToolContext[Any], **arguments: str) -> Any:
        """Run the runner on a task, with the backend of the run above."""
        parent = parent_call.get()
        if parent is not None and parent.caller.depth > self.max_depth:
            raise Failed(TOO_DEEP.format(self.max_depth))
        if parent is not None and (answer_call := delegate.get()) is not None:
            return answer_call(self, parent)

        own = parent if parent is not None and self._is_called_by(parent) else None
        request = RunRequest(
            prompt=arguments[self._arg],
            messages=[*self._iter_earlier(own)] if self.handoff and own else (),
            tools=(hand_back,) if self.handoff else (),
            deps=context.deps,
            output_type=self.output_type,
            streams=parent is not None and parent.caller.request.streams,
        )
        if own and (paused := own.caller.conversation.get_paused(own.call.id)):
            given = own.caller.request.decisions
            waiting = get_ids(paused.state.pending)
            decisions = {call_id: given[call_id] for call_id in waiting if call_id in given}
            request = replace(request, prompt=paused.state, messages=(), decisions=decisions)

        if parent is not None and isinstance(parent.backend, AsyncBackend):
            return LazyAwaitable(lambda: self._run_child(request, parent, context.cancellation, AsyncBackend()))
        return run_sync(self._run_child(request, parent, context.cancellation, SyncBackend()))

    async def _run_child(
        self, request: RunRequest, parent: ParentCall | None, cancellation: Cancellation, backend: Backend
    ) -> Any:
        emit = parent.emit if parent else discard
        try:
            with use_cancellation(cancellation):
                run = self.runner.create(request)
            async with aclosing(run.events(backend)) as events:
                async for event in events:
                    if parent:
                        emit(SubAgentEvent(parent.call, event))
        except (FatalError, Cancelled):
            raise
        except ModelError as error:
            raise Failed(FAILED.format(NO_RESPONSE)) from error
        except Exception as error:
            reason = str(error) if isinstance(error, ToolkitError) else f"it raised {type(error).__name__}"
            raise Failed(FAILED.format(reason)) from error

        result = require_result(run.result)
        if result.is_paused and parent is not None and self._is_called_by(parent):
            waiting = Deferred(*result.pending, state=result.state)
            return ToolResult(error=WAITING_TEXT, kind="pending", exception=waiting)
        return self.get_answer(result, cancellation)

    def _is_called_by(self, parent: ParentCall) -> bool:
        """Return whether a call is a call of this sub-agent itself, and not of a tool that calls the sub-agent."""
        called = parent.caller.tools.get(parent.call.name)
        return called is not None and find_instance(called) is self

    def get_task(self, arguments: Mapping[str, Any]) -> str:
        """Return the task in the arguments of a call."""
        task: str = arguments[self._arg]
        return task

    def make_call(self, name: str, message: UserMessage) -> ToolCall:
        """Make the call that hands a message of the user to the sub-agent."""
        return ToolCall(name=name, arguments=json.dumps({self._arg: message.text}))

    def _iter_earlier(self, parent: ParentCall) -> Iterator[Message]:
        """Yield the earlier tasks of this sub-agent and their answers, as messages of its own conversation."""
        history = parent.caller.conversation.history
        name = parent.call.name
        parser = parent.caller.tools[name]._invocation.parser
        answers = {each.call_id: each for each in history if isinstance(each, ToolMessage) and not each.is_error}
        calls = (call for each in history if isinstance(each, ModelResponse) for call in each.calls)
        for call in calls:
            if call.name == name and call.id in answers:
                parsed = parser.try_parse(call.arguments)
                task = "" if isinstance(parsed, InvalidArguments) else self.get_task(parsed[0])
                yield from (UserMessage(task), ModelResponse(text=answers[call.id].text))

    def get_answer(self, result: RunResult[Any], cancellation: Cancellation | None = None) -> Any:
        """Return the answer of a run.

        Raises:
            Cancelled: The run was cancelled.
            TimedOut: The delegation was out of time.
            Failed: The run waits for an approval, ended without an answer, or gave the conversation back.
        """
        if result.finish_reason == "cancelled":
            raise note_effects(cancellation_error(cancellation) if cancellation else Cancelled(), has_started=True)
        if result.finish_reason == "stopped":
            text = f"Not run to its end: the run of {self.name} was stopped."
            return ToolResult(text=text, error=text, kind="stopped", exception=Stopped(text))
        if result.finish_reason == "paused":
            waiting = ", ".join(dict.fromkeys(pending.call.name for pending in result.pending))
            raise Failed(FAILED.format(f"it needs approval for {waiting}, and cannot wait for that here."))
        if self.handoff and any(end.call.name == HAND_BACK and not end.result.is_error for end in result.calls):
            raise Failed(HANDED_BACK.format(result.output))
        if result.output is None or result.output == "":
            raise Failed(FAILED.format(f"it ended without an answer ({result.finish_reason})."))
        return result.output


@tool(effect="read", return_direct=True)
def hand_back(reason: str) -> str:
    """Give the conversation back to those who handed it to you. Use it where the user wants what is not your task.

    Args:
        reason: What the user wants, and what has been done.
    """
    return reason


def name_sub_agent(runner: str) -> str:
    """Make the name of a tool from that of a runner: `Math Expert` becomes `subagent_Math_Expert`.

    Raises:
        DefinitionError: The name has no letter or digit.
    """
    words = re.sub(r"[\W_]+", "_", runner).strip("_")
    if not words:
        raise DefinitionError(f"Runner(name={runner!r}) has no letter or digit for a tool's name: give it another.")
    return safe_name(f"subagent_{words}")


def _find_effect(tools: Iterable[Tool[..., Any]]) -> Effect | None:
    """Find the effect of a runner with these tools. It is never `read`, since tools may be added later."""
    effects = {each.settings.effect for each in tools}
    if "destructive" in effects:
        return "destructive"
    return "write" if "write" in effects and None not in effects else None


def continue_handoff(messages: Sequence[Message], tools: Mapping[str, Tool[..., Any]]) -> ToolCall | None:
    """Make the call that hands the user's message to the sub-agent that has the conversation.

    None if no sub-agent has it, or if the message has more than text.
    """
    *earlier, last = messages
    if not isinstance(last, UserMessage) or last.images or last.files:
        return None
    ends = [*takewhile(lambda each: isinstance(each, ToolMessage), reversed(earlier))]
    for end in reversed(ends):
        called = tools.get(end.name) if isinstance(end, ToolMessage) and not end.is_error else None
        if called and called.settings.return_direct:  # of several, the first one gave the answer
            sub_agent = find_instance(called)
            is_handoff = isinstance(sub_agent, SubAgent) and sub_agent.handoff
            return sub_agent.make_call(called.name, last) if is_handoff else None
    return None


def walk_tools(tools: Iterable[Tool[..., Any]], above: tuple[SubAgent, ...] = ()) -> Iterator[Tool[..., Any]]:
    """Yield tools, and those of the sub-agents among them, at any depth; `above` are the sub-agents that lead to them.

    Raises:
        DefinitionError: The sub-agents form a circle, or are nested too deeply.
    """
    for each in tools:
        yield each
        sub_agent = find_instance(each)
        if not isinstance(sub_agent, SubAgent):
            continue
        nested = (*above, sub_agent)
        path = " -> ".join(agent.name for agent in nested)
        if any(agent.runner is sub_agent.runner for agent in above):
            raise DefinitionError(f"The sub-agents call each other in a circle: {path}. Leave one of them out.")
        if len(nested) > sub_agent.max_depth:
            raise DefinitionError(
                f"The sub-agents are nested too deeply: {path}. The last one allows max_depth={sub_agent.max_depth}."
            )
        yield from walk_tools(sub_agent.runner.toolbox, nested)
