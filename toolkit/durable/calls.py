"""One call of a durable run: its gates, its ledger, the run of a sub-agent, and its outcome for the workflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from temporalio import activity

from toolkit._execution.approval_request import ApprovalRequest
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.ledger import Ledger, LedgerEntry, MemoryLedger, Recording
from toolkit._messages import ToolCall, ToolMessage, Usage, message_to_dict
from toolkit._runner.output import read_answer
from toolkit._runner.result import RunResult
from toolkit._runner.run import Run
from toolkit._runner.state import RunState
from toolkit._runner.sub_agent import FAILED, SubAgent
from toolkit._runner.tool_calls import ParentCall, ToolCaller, parent_call
from toolkit._tools.bindings import AnyTool
from toolkit._tools.tool import find_instance
from toolkit.durable import wire
from toolkit.errors import Failed
from toolkit.events import Event, ToolCallFinished, ToolCallStarted


class Hold:
    """Holds a call that has passed its gates, so that it does not run.

    Attributes:
        request: The call that has passed; None before.
    """

    request: ApprovalRequest | None = None

    def __call__(self, request: ApprovalRequest) -> None:
        """Hold the call of a request."""
        self.request = request

    @property
    def task(self) -> str | None:
        """The task for the sub-agent, or None if the call is not that of a sub-agent."""
        agent = self.request and find_agent(self.request.tool)
        return agent.get_task(self.request.arguments) if agent and self.request else None

    def select(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events of the step that hooks get.

        Of a call that was held, hooks get only the start, and only if it is the call of a sub-agent.
        """
        if self.request is None:
            return events
        return [event for event in events if self.task is not None and isinstance(event, ToolCallStarted)]


def find_agent(tool: AnyTool) -> SubAgent | None:
    """Return the sub-agent that a tool runs, if that may be a workflow of its own."""
    agent = find_instance(tool)
    return agent if isinstance(agent, SubAgent) and not agent.handoff else None


def get_answer(answer: wire.ChildAnswer, agent: SubAgent, parent: ParentCall) -> Any:
    """Return the answer of a sub-agent that ran as a workflow of its own.

    Raises:
        Failed: The sub-agent's run has failed.
    """
    if answer.error:
        raise Failed(FAILED.format(answer.error))
    return agent.get_answer(
        RunResult(
            output=read_answer(answer.output, answer.finish_reason, agent.output_type),
            finish_reason=answer.finish_reason,
            messages=(),
            calls=(),
            usage=Usage(),
            model="",
            state=parent.caller.conversation.state,
        )
    )


def make_dispatcher(
    caller: ToolCaller, call: ToolCall, step: wire.CallStep, hold: Hold | None, *, has_ledger: bool
) -> Dispatcher:
    """Make the dispatcher for the call of a step. `hold` holds the call, so that it does not run.

    Without a ledger of the run's own runner, that of a run above may record the call, for `undo`.
    """
    dispatcher = caller.dispatcher
    tool = caller.tools.get(call.name)
    dispatcher.foreign.update(step.foreign)
    parent = None if has_ledger else parent_call.get()
    recorder = parent.caller if parent else caller

    # The calls of a sub-agent that runs elsewhere are recorded there.
    is_elsewhere = tool is not None and find_agent(tool) is not None and bool(hold or step.answer)
    ledger = None if is_elsewhere else share_ledger(recorder.dispatcher)
    is_recorded = ledger is not None and (has_ledger or (tool is not None and tool.settings.undo is not None))
    is_repeated = step.is_suspect or activity.info().attempt > 1
    is_suspect = is_repeated and not (hold or is_elsewhere or is_recorded)
    return replace(
        dispatcher,
        gates=replace(dispatcher.gates, hold=hold, passed=step.passed),
        recording=Recording(
            ledger=ledger if has_ledger else None,
            undo_ledger=ledger,
            runs_above=(*recorder.dispatcher.recording.runs_above, recorder.conversation.run_id) if parent else (),
            suspects=(call.id,) if is_suspect else (),
        ),
        available=caller.available if step.available is None else frozenset(step.available),
        overflow=None,  # the rest of a result that was cut cannot be read: another worker may get that call
    )


def make_outcome(run: Run[Any], before: RunState, events: Sequence[Event]) -> wire.CallOutcome:
    """Make the outcome of a step, from the states of the run before and after it."""
    state = run.conversation.state
    usage = subtract(state.usage, before.usage)
    if state.pending:
        (waiting,) = state.pending
        return wire.CallOutcome(pending=asdict(waiting), usage=usage)

    message = next(each for each in reversed(state.messages) if isinstance(each, ToolMessage))
    whole = next((event.result.text for event in events if isinstance(event, ToolCallFinished)), None)
    return wire.CallOutcome(
        message=message_to_dict(message),
        is_stopped=state.finish_reason == "stopped",
        output=whole or "" if state.finish_reason == "stop" else None,
        usage=usage,
        calls_by_tool={
            name: count - before.calls_by_tool.get(name, 0)
            for name, count in state.calls_by_tool.items()
            if count > before.calls_by_tool.get(name, 0)
        },
    )


@dataclass
class StepLedger:
    """The ledger of one step. If the step is broken off, since its worker is shut down, its result is not stored."""

    ledger: Ledger
    is_broken_off: bool = False

    def write(self, entry: LedgerEntry) -> bool:
        """Store an entry, unless it is the end of a step that was broken off."""
        return not (self.is_broken_off and entry.stage == "finished") and self.ledger.write(entry)

    def read(self, run_id: str, call_id: str | None = None) -> Sequence[LedgerEntry]:
        """Return the entries of a run, or of one of its calls."""
        return self.ledger.read(run_id, call_id)


def share_ledger(dispatcher: Dispatcher) -> StepLedger | None:
    """Return the ledger of a run for one step, or None if it is in the memory of this worker alone."""
    ledger = dispatcher.recording.undo_ledger
    return None if ledger is None or isinstance(ledger, MemoryLedger) else StepLedger(ledger)


def subtract(after: Usage, before: Usage) -> dict[str, int]:
    """Return the usage between two times."""
    return {name: count - vars(before)[name] for name, count in vars(after).items()}
