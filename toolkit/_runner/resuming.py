"""The dispatcher of a resumed run: the decisions on its calls, and records of the calls that may have run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from toolkit._execution.approval import RecordedDecisions, Verdict, check_decisions, defer_unasked
from toolkit._execution.approval_request import ApprovalRequest
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.ledger import Ledger
from toolkit._messages import get_last_calls, get_open_calls
from toolkit._runner.state import RunState, list_own
from toolkit._runner.sub_agent import SubAgent, walk_tools
from toolkit._runner.tool_calls import ToolCaller
from toolkit._tools.bindings import AnyTool
from toolkit._tools.tool import find_instance


def record_decisions(
    own: Dispatcher,
    state: RunState,
    decisions: Mapping[str, Verdict],
    tools: Mapping[str, AnyTool],
    parent: ToolCaller | None,
) -> Dispatcher:
    """Return the dispatcher of a resumed run, with the decisions on its own calls.

    The decisions on calls of sub-agents are passed on to these. `own` already has the gates of the runs above.

    Raises:
        ApprovalError: A decision is for a call that does not wait, or is not a decision.
    """
    check_decisions(decisions, state.pending)
    pending = list_own(state.pending, state.sub_agents)
    agents = _find_agents(state, tools)
    gates = replace(own.gates, approved={call_id: state.sub_agents[call_id].digest for call_id in agents})
    above = parent.dispatcher.gates.approvers if parent else ()
    if pending:
        approver = next(iter(gates.approvers), None)  # the run's own approver comes first
        if above and len(gates.approvers) == len(above):
            approver = _approve  # the run has no approver of its own, and those above are asked, too
        recorded = RecordedDecisions(decisions, pending, approver)
        gates = replace(gates, resumed=(recorded, *map(recorded.settle, above)))

    if not gates.approvers and (pending or (state.sub_agents and not _has_approver(agents.values()))):
        gates = replace(gates, approvers=(defer_unasked,))
    return replace(own, gates=gates)


def _approve(_: ApprovalRequest) -> bool:
    return True


def record_calls(own: Dispatcher, state: RunState, ledger: Ledger, parent: ToolCaller | None) -> Dispatcher:
    """Return the dispatcher of a resumed run, with a ledger for its calls.

    This is its own ledger, or that of the run above, or else the given one.
    """
    if own.recording.ledger is not None:
        return own
    # A run that was saved while its calls were running may have lost its process since.
    suspects = get_open_calls(state.messages, state.results) if state.phase == "calling" else ()
    above = parent.dispatcher.recording.ledger if parent else None
    recording = replace(
        own.recording, ledger=ledger if above is None else above, suspects=[call.id for call in suspects]
    )
    return replace(own, recording=recording)


def _find_agents(state: RunState, tools: Mapping[str, AnyTool]) -> dict[str, AnyTool]:
    """Find the tools of the sub-agents that have waited for approval, by the ids of their calls."""
    called = {call.id: tools.get(call.name) for call in get_last_calls(state.messages)}
    return {
        call_id: tool
        for call_id, tool in called.items()
        if call_id in state.sub_agents and tool is not None and isinstance(find_instance(tool), SubAgent)
    }


def _has_approver(agents: Iterable[AnyTool]) -> bool:
    """Return whether a sub-agent, or one below it, has an approver of its own."""
    below = [find_instance(tool) for tool in walk_tools(agents)]
    return any(isinstance(agent, SubAgent) and agent.runner.options.get("approve") for agent in below)
