"""Calls of sub-agents that wait for approval: the run pauses, and its sub-agents go on where they were."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.ways import arun, astream, run, start, stream
from toolkit import (
    ApprovalRequest,
    Decision,
    Limits,
    MemoryLedger,
    Runner,
    RunResult,
    RunState,
    Session,
    SQLiteLedger,
    Toolbox,
    ToolResult,
    tool,
)
from toolkit.approvers import approve_all, ask_when, defer
from toolkit.builtin import plan_tool
from toolkit.errors import ApprovalError, ConversationError
from toolkit.events import ApprovalNeeded, SubAgentEvent, ToolCallFinished
from toolkit.middleware import Next
from toolkit.models import ToolMessage
from toolkit.testing import ModelReply, ScriptedModel, call

WAYS = pytest.mark.parametrize("go", [run, arun, stream, astream, start])


ASK = ask_when(defer, names=["pay"])


async def ask_later(request: ApprovalRequest) -> bool | Decision:
    return Decision.defer() if request.name == "pay" else True


TWICE: list[ModelReply] = [[call("pay", amount=3), call("look"), call("pay", amount=4)], "It is paid."]


class Bank:
    """Has a tool that pays, and one that only looks."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    @tool(effect="destructive")
    def pay(self, amount: int) -> str:
        """Pay an amount."""
        self.paid.append(amount)
        return f"paid {amount}"

    @tool(effect="read")
    def look(self) -> int:
        """Look how much is there."""
        return 7


def clerk(bank: Bank, *replies: ModelReply, approve: Any = ASK, **options: Any) -> Runner:
    """A runner with a bank, whose calls of `pay` wait if no other approver is given."""
    script: Sequence[ModelReply] = replies or TWICE
    return Runner([bank], model=ScriptedModel(script), approve=approve, **options)


def boss(*workers: Runner, approve: Any = approve_all, **options: Any) -> Runner:
    """A runner that asks each of these runners at once."""
    tools = [worker.as_tool(f"clerk_{number}", "payments") for number, worker in enumerate(workers)]
    script: list[ModelReply] = [[call(each.name, query="Pay.") for each in tools], "All done."]
    return Runner(tools, model=ScriptedModel(script), approve=approve, **options)


def decide(result: RunResult[Any], *verdicts: bool | Decision) -> dict[str, bool | Decision]:
    """The decisions on the first of the calls that wait, all of them approved if there are none."""
    ids = [waiting.call.id for waiting in result.pending]
    return dict(zip(ids, verdicts or [True] * len(ids)))


def reload(result: RunResult[Any]) -> RunState:
    """The state of a run as another process reads it."""
    return RunState.from_json(result.state.to_json(key="secret"), key="secret")


@WAYS
def test_pause(go: Callable[[Runner], RunResult]) -> None:
    """The run pauses with the calls of its sub-agent that wait, and none of them has run."""
    bank = Bank()
    result = go(boss(clerk(bank)))

    assert ("paused", [], ["pay", "pay"]) == (result.finish_reason, bank.paid, [p.call.name for p in result.pending])
    waiting = 'pay({"amount": 3}) by clerk_0, pay({"amount": 4}) by clerk_0'
    assert f"[paused: {waiting} wait for approval]" == str(result)


@pytest.mark.parametrize("in_loop", [False, True], ids=["resume", "aresume"])
def test_resume(in_loop: bool) -> None:
    """In another process the sub-agent goes on where it was; everything counts once, as in a run without a pause."""
    bank, runner = Bank(), boss(clerk(Bank()))
    expected = boss(clerk(Bank(), approve=approve_all)).run("go")
    paused = boss(worker := clerk(bank)).run("go")
    runner = Runner([worker.as_tool("clerk_0", "payments")], model=ScriptedModel(["All done."]), approve=approve_all)
    state, decisions = reload(paused), decide(paused)
    result = asyncio.run(runner.aresume(state, decisions)) if in_loop else runner.resume(state, decisions)

    assert [3, 4] == bank.paid
    assert ("All done.", "stop", expected.usage) == (result.output, result.finish_reason, result.usage)
    assert expected.state.calls_by_tool == result.state.calls_by_tool
    assert ["It is paid."] == [end.result.text for end in result.calls]
    assert {} == result.state.sub_agents


def test_one_decision_after_the_other() -> None:
    """A call without a decision stays; its sub-agent waits on, and no other call runs twice."""
    bank = Bank()
    runner = boss(clerk(bank))
    first = runner.run("go")
    second = runner.resume(reload(first), decide(first, True))
    seen = [*bank.paid], [waiting.arguments for waiting in second.pending]
    third = runner.resume(reload(second), decide(second, False))

    assert ([3], ['{"amount": 4}']) == seen
    assert ([3], "All done.") == (bank.paid, third.output)


DECISIONS: dict[str, tuple[bool | Decision, list[int]]] = {
    "approved": (True, [3, 4]),
    "rejected": (False, [4]),
    "modified": (Decision.modify({"amount": 5}), [5, 4]),
    "stopped": (Decision.stop("Enough."), []),
}
APPROVERS: dict[str, tuple[Any, Any]] = {
    "of the sub-agent": (ASK, approve_all),
    "of the sub-agent alone": (ASK, None),
    "of the run": (None, ASK),
    "of both": (ASK, ASK),
    "of both, async": (ask_later, ask_later),
    "everything": (defer, defer),
}


@pytest.mark.parametrize(("own", "above"), APPROVERS.values(), ids=APPROVERS)
@pytest.mark.parametrize(("decision", "paid"), DECISIONS.values(), ids=DECISIONS)
def test_decisions(own: Any, above: Any, decision: bool | Decision, paid: list[int]) -> None:
    """One decision is for the approvers of all runs, whichever of them has deferred the call."""
    bank = Bank()
    runner = boss(clerk(bank, approve=own), approve=above)
    result, pauses = runner.run("go"), 0
    while result.is_paused and pauses < 5:
        pauses += 1
        given = [decision if waiting.call.arguments == '{"amount": 3}' else True for waiting in result.pending]
        result = runner.resume(reload(result), decide(result, *given))

    assert sorted(paid) == sorted(bank.paid)
    assert result.finish_reason == ("stopped" if isinstance(decision, Decision) and not decision.approved else "stop")


def test_policy_above() -> None:
    """An approver of the run that rejects a call rejects it, also after a decision on it."""
    bank = Bank()
    runner = boss(clerk(bank), approve=lambda request: request.name != "pay")
    result = runner.run("go")
    result = runner.resume(reload(result), decide(result))

    assert ([], "All done.") == (bank.paid, result.output)


@pytest.mark.parametrize(("own", "above"), [(ASK, None), (None, ASK)], ids=["of the sub-agent", "of the run"])
def test_without_the_approver(own: Any, above: Any) -> None:
    """If the approver that deferred is missing when the run is resumed, later calls wait for decisions."""
    bank = Bank()
    worker = clerk(bank, call("pay", amount=1), "It is paid.", approve=own)
    paused = boss(worker, approve=above).run("go")
    worker = Runner([bank], model=ScriptedModel([call("pay", amount=2), "It is paid."]))
    tools = [worker.as_tool("clerk_0", "payments"), bank]
    runner = Runner(tools, model=ScriptedModel([call("pay", amount=3), "Done."]))
    again = runner.resume(reload(paused), decide(paused))
    last = runner.resume(reload(again), decide(again))

    assert (["paused", "paused"], [1, 2]) == ([again.finish_reason, last.finish_reason], bank.paid)


def test_authorizers_are_asked_again() -> None:
    """Authorizers are asked when the call runs."""
    bank, allowed = Bank(), [True]
    runner = boss(clerk(bank), authorize=lambda made, *_: made.name != "pay" or allowed[0])
    result = runner.run("go")
    allowed[0] = False
    runner.resume(reload(result), decide(result))

    assert [] == bank.paid


def test_sub_agent_is_approved_once() -> None:
    """The call of a sub-agent that has waited is not asked about again, unless its tool has changed."""
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.name)
        return True

    bank = Bank()
    worker = clerk(bank, call("pay", amount=1), call("pay", amount=2), "It is paid.")
    first = boss(worker, approve=approve).run("go")
    second = boss(worker, approve=approve).resume(reload(first), decide(first))
    changed = Runner([worker.as_tool("clerk_0", "all payments")], model=ScriptedModel(["Done."]), approve=approve)
    changed.resume(reload(second), decide(second))

    assert (["clerk_0", "pay", "clerk_0", "pay"], [1, 2]) == (asked, bank.paid)


def test_sub_agent_is_authorized_again() -> None:
    """The authorizers are asked about the call of the sub-agent again when it goes on."""
    bank, allowed = Bank(), [True]
    runner = boss(clerk(bank), authorize=lambda made, *_: made.name != "clerk_0" or allowed[0])
    paused = runner.run("go")
    allowed[0] = False
    result = runner.resume(reload(paused), decide(paused))

    assert ([], ["denied"]) == (bank.paid, [end.result.kind for end in result.calls])


PLACES: dict[str, tuple[Any, Any, Any]] = {
    "of the sub-agent": (ASK, None, None),
    "of the sub-agent above": (None, ASK, None),
    "of the run": (None, None, ASK),
    "of all": (ASK, ASK, ASK),
}


@pytest.mark.parametrize("approvers", PLACES.values(), ids=PLACES)
def test_later_calls(approvers: tuple[Any, Any, Any]) -> None:
    """After a decision only those calls wait that an approver defers, wherever it is."""
    bank, (own, above, top) = Bank(), approvers
    worker = clerk(bank, [call("pay", amount=1)], [call("look")], "It is paid.", approve=own)
    script: list[ModelReply] = [call("clerk", query="Pay."), call("look"), "Done."]
    middle = Runner([worker.as_tool("clerk", "pay"), bank], model=ScriptedModel(script), approve=above)
    runner = boss(middle, approve=top)
    paused = runner.run("go")

    assert ("All done.", [1]) == (runner.resume(reload(paused), decide(paused)).output, bank.paid)


def test_approver_of_both_runs() -> None:
    """An approver that both runs have is asked once about each call, also after a pause."""
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool | Decision:
        asked.append(str(request))
        return Decision.defer() if request.arguments.get("amount") == 1 and len(asked) == 2 else True

    bank = Bank()
    runner = boss(clerk(bank, call("pay", amount=1), call("pay", amount=2), "Paid.", approve=approve), approve=approve)
    paused = runner.run("go")
    asked.clear()
    runner.resume(reload(paused), decide(paused))

    assert (['pay({"amount": 1})', 'pay({"amount": 2})'], [1, 2]) == (asked, bank.paid)


def test_call_that_an_approver_has_changed() -> None:
    """A decision is for the call as it was shown: with the arguments that the sub-agent's approver has given it."""
    bank = Bank()
    worker = clerk(bank, call("pay", amount=9), "Paid.", approve=lambda _: Decision.modify({"amount": 5}))
    runner = boss(worker, approve=ASK)
    paused = runner.run("go")
    result = runner.resume(reload(paused), decide(paused))

    assert (['{"amount": 5}'], [5]) == ([waiting.arguments for waiting in paused.pending], bank.paid)
    assert "All done." == result.output


def test_call_that_an_approver_above_changes() -> None:
    """A decision is not for the arguments that an approver of the run gives the call: it waits again with these."""
    bank = Bank()
    runner = boss(
        clerk(bank, call("pay", amount=9), "Paid."),
        approve=lambda request: Decision.modify({"amount": 5}) if request.arguments.get("amount") == 9 else True,
    )
    paused = runner.run("go")
    again = runner.resume(reload(paused), decide(paused))
    result = runner.resume(reload(paused), decide(paused, Decision.modify({"amount": 5})))

    assert ['{"amount": 5}'] == [waiting.arguments for waiting in again.pending]
    assert ([5], "All done.") == (bank.paid, result.output)


def test_several_at_once() -> None:
    """Several sub-agents and a call of the run itself wait in one turn; those that are ready have their results."""
    banks = [Bank(), Bank(), Bank()]
    first, second = (clerk(bank, call("pay", amount=number), "Paid.") for number, bank in enumerate(banks[:2]))
    free, own = clerk(banks[2], call("look"), "There are 7."), Bank()
    tools = [each.as_tool(name, "money") for each, name in ((first, "first"), (second, "second"), (free, "free"))]
    script: list[ModelReply] = [[*(call(each.name, query="?") for each in tools), call("pay", amount=9)], "All done."]
    runner = Runner([*tools, own], model=ScriptedModel(script), approve=ASK)
    paused = runner.run("go")
    waiting = [(pending.call.name, pending.arguments) for pending in paused.pending]
    again = runner.resume(reload(paused), decide(paused, True, False))
    result = runner.resume(reload(again), decide(again))

    assert [("pay", f'{{"amount": {amount}}}') for amount in (0, 1, 9)] == waiting
    assert ["free"] == [end.call.name for end in paused.calls]
    assert ["pay"] == [pending.call.name for pending in again.pending]
    assert ([0], [], [9]) == (banks[0].paid, banks[1].paid, own.paid)
    results = [message.name for message in result.messages if isinstance(message, ToolMessage)]
    assert ["first", "second", "free", "pay"] == results == [end.call.name for end in result.calls]


def test_sub_agent_of_a_sub_agent() -> None:
    """A run waits for a sub-agent that waits for its own."""
    bank = Bank()
    runner = boss(boss(clerk(bank)))
    paused = runner.run("go")
    again = runner.resume(reload(paused), decide(paused, True))
    result = runner.resume(reload(again), decide(again, Decision.modify({"amount": 8})))

    assert ([3, 8], "All done.", ["All done."]) == (bank.paid, result.output, [end.result.text for end in result.calls])


def test_handoff() -> None:
    """A sub-agent that has the conversation waits, and its answer is that of the run."""
    bank, session = Bank(), Session()
    worker = clerk(bank, call("pay", amount=3), "It is paid.", call("pay", amount=4), "That, too.")
    model = ScriptedModel([call("clerk", query="Pay.")])
    runner = Runner([worker.as_tool("clerk", "payments", handoff=True)], model=model, approve=approve_all)
    outputs = []
    for prompt in ("Pay.", "More."):
        paused = runner.run(prompt, session=session)
        outputs.append(runner.resume(reload(paused), decide(paused), session=session).output)

    assert (["It is paid.", "That, too."], [3, 4]) == (outputs, bank.paid)


@pytest.mark.parametrize("has_ledger", [False, True])
def test_state_that_is_resumed_twice(has_ledger: bool, tmp_path: Path) -> None:
    """A call that ran does not run again if the same state is resumed twice."""
    bank = Bank()
    options: dict[str, Any] = {"ledger": SQLiteLedger(tmp_path / "calls.db")} if has_ledger else {}
    worker = clerk(bank, call("pay", amount=3), "It is paid.", "It is paid.")
    model = ScriptedModel([call("clerk", query="Pay."), "Done.", "Done."])
    runner = Runner([worker.as_tool("clerk", "payments")], model=model, approve=approve_all, **options)
    paused = runner.run("go")
    results = [runner.resume(reload(paused), decide(paused)) for _ in range(2)]

    assert ([3], ["Done.", "Done."]) == (bank.paid, [result.output for result in results])


def test_undo() -> None:
    """The calls of a sub-agent from before and after a pause are undone with the run."""
    undone: list[int] = []

    @tool(effect="write", undo=undone.append)
    def book(amount: int) -> int:
        """Book an amount."""
        return amount

    worker = Runner(
        [book],
        model=ScriptedModel([call("book", amount=1), call("book", amount=2), "It is booked."]),
        approve=lambda request: Decision.defer() if request.arguments["amount"] == 2 else True,
    )
    runner = boss(worker)
    paused = runner.run("go")
    result = runner.resume(reload(paused), decide(paused))
    runner.undo(result.state)

    assert [2, 1] == undone


def test_changed_sub_agent_with_a_ledger() -> None:
    """With a ledger, too, a sub-agent whose tool has changed goes on once its call is approved."""
    bank, ledger = Bank(), MemoryLedger()
    worker = clerk(bank, call("pay", amount=3), "It is paid.")
    paused = boss(worker, ledger=ledger).run("go")
    changed = Runner(
        [worker.as_tool("clerk_0", "all payments")], model=ScriptedModel(["Done."]), approve=approve_all, ledger=ledger
    )
    result = changed.resume(reload(paused), decide(paused))

    assert ([3], ["It is paid."]) == (bank.paid, [end.result.text for end in result.calls])


@pytest.mark.parametrize("has_ledger", [False, True])
def test_crash_after_the_decision(has_ledger: bool) -> None:
    """A process that dies while the sub-agent goes on leaves a state with which nothing runs twice."""
    bank, states = Bank(), list[RunState]()
    options: dict[str, Any] = {"ledger": MemoryLedger()} if has_ledger else {}
    worker = clerk(bank, call("pay", amount=3), "It is paid.", "It is paid.")
    paused = boss(worker, **options).run("go")
    boss(worker, checkpoint=states.append, **options).resume(paused.state, decide(paused))
    runner = Runner([worker.as_tool("clerk_0", "payments")], model=ScriptedModel(["Done."]), **options)
    result = runner.resume(states[0].to_json())

    assert ("calling", [3], "Done.") == (states[0].phase, bank.paid, result.output)
    text = (
        "It is paid." if has_ledger else "This call was started before and may have taken effect; it was not run again."
    )
    assert [text] == [end.result.text for end in result.calls]


@pytest.mark.parametrize("retries", [0, 2])
def test_once_in_spite_of_retries(retries: int) -> None:
    """A sub-agent that waits has not failed: it is not tried again."""
    bank = Bank()
    delegating = tool(clerk(bank).as_tool("clerk", "payments"), retries=retries, idempotent=True)
    runner = Runner([delegating], model=ScriptedModel([call("clerk", query="Pay."), "Done."]), approve=approve_all)
    paused = runner.run("go")

    assert 2 == paused.usage.requests
    assert "Done." == runner.resume(reload(paused), decide(paused)).output


def test_middleware() -> None:
    """Middleware sees the pause as an exception, as for any other call that waits; then the result."""
    seen: list[str] = []

    async def watch(made: Any, call_next: Next) -> ToolResult:
        try:
            result = await call_next(made)
        except Exception as error:
            seen.append(f"{made.name} {type(error).__name__}")
            raise
        seen.append(f"{made.name} {result.text}")
        return result

    runner = boss(clerk(Bank(), call("pay", amount=3), "It is paid."), middleware=[watch])
    paused = runner.run("go")
    runner.resume(reload(paused), decide(paused))

    assert ["pay Deferred", "clerk_0 Deferred", "pay paid 3", "clerk_0 It is paid."] == seen


def test_events() -> None:
    """The run's stream says which calls wait, within the sub-agent's events and in its own."""
    runner = boss(clerk(Bank()))
    events = list(stream := runner.stream("go"))
    own = [event.approval.call.id for event in events if isinstance(event, ApprovalNeeded)]
    inner = [each.event for each in events if isinstance(each, SubAgentEvent)]
    result = stream.result

    assert own == [waiting.call.id for waiting in result.pending]
    assert own == [event.approval.call.id for event in inner if isinstance(event, ApprovalNeeded)]
    assert not any(isinstance(event, ToolCallFinished) for event in events)


def test_limits_count_once() -> None:
    """The calls of a sub-agent count once against the limits of the run, in spite of the pause."""
    bank = Bank()
    runner = boss(clerk(bank), limits=Limits(max_calls=4))
    paused = runner.run("go")
    result = runner.resume(reload(paused), decide(paused))

    assert ([3, 4], {"clerk_0": 1, "pay": 2, "look": 1}) == (bank.paid, result.state.calls_by_tool)


def test_where_a_sub_agent_cannot_wait() -> None:
    """A sub-agent that a plan or a program calls, or that is called without a run, cannot wait: its call fails."""
    bank = Bank()
    alone = Toolbox([clerk(bank).as_tool("clerk", "payments")]).call("clerk", {"query": "Pay."}, approve=approve_all)
    box = Toolbox([clerk(bank).as_tool("clerk", "payments")])
    planned = call("execute_plan", steps=[{"tool": "clerk", "args": {"query": "Pay."}}])
    runner = Runner([*box, plan_tool(box)], model=ScriptedModel([planned, "Done."]), approve=approve_all)
    result = runner.run("go")
    expected = "Sub-agent execution failed: it needs approval for pay, and cannot wait for that here."

    assert expected == alone.text
    assert (expected, []) == (json.loads(result.calls[0].result.text)[0]["error"], bank.paid)


def test_decision_on_no_call() -> None:
    """A decision on a call that does not wait is refused, and names all that do."""
    runner = boss(clerk(Bank(), call("pay", amount=3)))
    paused = runner.run("go")
    (waiting,) = paused.pending

    with pytest.raises(ApprovalError, match=f"No call 'x' waits for a decision; these do: {waiting.call.id}."):
        runner.resume(reload(paused), {"x": True})


EDITS: dict[str, Callable[[dict[str, Any], str], None]] = {
    "no state": lambda state, own: state["sub_agents"][own].update(state={}),
    "a list": lambda state, _: state.update(sub_agents=[]),
    "another call": lambda state, own: state.update(sub_agents={"x": state["sub_agents"][own]}),
    "finished": lambda state, own: state["sub_agents"][own]["state"].update(phase="asking"),
    "none pending": lambda state, _: state.update(pending=[]),
    "none pending below": lambda state, own: state["sub_agents"][own]["state"].update(pending=[]),
    "no digest": lambda state, own: state["sub_agents"][own].pop("digest"),
    "a number as digest": lambda state, own: state["sub_agents"][own].update(digest=1),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edited_state(edit: Callable[[dict[str, Any], str], None]) -> None:
    """A state whose sub-agents do not fit its calls is refused."""
    paused = boss(clerk(Bank())).run("go").state
    state = json.loads(paused.to_json())
    edit(state, next(iter(paused.sub_agents)))

    with pytest.raises(ConversationError, match="This is not the state of a run"):
        RunState.from_json(json.dumps(state))


def test_call_that_is_not_the_one_shown() -> None:
    """A state that shows another call than the one which its sub-agent makes is refused."""
    state = json.loads(boss(clerk(Bank())).run("go").state.to_json())
    state["pending"][0].update(arguments='{"amount": 0}', digest="x")

    with pytest.raises(ConversationError, match="This is not the state of a run"):
        RunState.from_json(json.dumps(state))


def _copy_digest(state: dict[str, Any], waiting: dict[str, Any]) -> None:
    next(iter(state["sub_agents"].values()))["digest"] = waiting["digest"]


def _hide(state: dict[str, Any], waiting: dict[str, Any]) -> None:
    _, agent = state["sub_agents"].popitem()
    state["sub_agents"][waiting["call"]["id"]] = {**agent, "digest": waiting["digest"]}
    state["pending"].remove(waiting)


@pytest.mark.parametrize("edit", [_copy_digest, _hide])
def test_call_in_place_of_a_sub_agent(edit: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Only the call of a sub-agent counts as approved in a state; one of another tool is asked about."""
    bank = Bank()
    delegating = clerk(Bank(), call("pay", amount=3), "Paid.").as_tool("clerk", "payments")
    model = ScriptedModel([[call("clerk", query="Pay."), call("pay", amount=9)], "Done."])
    runner = Runner([delegating, bank], model=model, approve=ASK)
    state = json.loads(runner.run("go").state.to_json())
    edit(state, state["pending"][-1])
    result = runner.resume(json.dumps(state))

    assert ("paused", []) == (result.finish_reason, bank.paid)


def test_tool_in_place_of_a_sub_agent() -> None:
    """A tool that has taken the name of a sub-agent, and calls it, starts it anew: no state is resumed there."""
    bank = Bank()
    worker = clerk(bank, [call("pay", amount=3)], "Done.", "Done.")
    paused = boss(worker).run("go")
    box = Toolbox([worker.as_tool("clerk_0", "payments")])

    @tool
    def clerk_0(query: str) -> str:
        """Ask twice."""
        return " ".join(box.call("clerk_0", {"query": query}, approve=approve_all).text for _ in range(2))

    runner = Runner([clerk_0], model=ScriptedModel(["All done."]), approve=approve_all)
    result = runner.resume(reload(paused), decide(paused))

    assert ([], ["Done. Done."]) == (bank.paid, [end.result.text for end in result.calls])


def test_result_of_a_call_that_waits() -> None:
    """A tool that returns the result of a call that waits, which it has made itself, has failed."""
    bank = Bank()
    box = Toolbox([bank])

    @tool
    def pay_now() -> ToolResult:
        """Pay."""
        return box.call("pay", {"amount": 1}, approve=defer)

    result = Runner([pay_now], model=ScriptedModel([call("pay_now"), "Done."])).run("go")

    assert ["pay_now has run, but a call that it made waits for approval."] == [end.result.text for end in result.calls]


@pytest.mark.parametrize("own", [ASK, approve_all])
def test_tool_that_has_changed(own: Any) -> None:
    """A decision is not for a tool of the sub-agent that has changed since: its call waits again."""
    bank = Bank()
    worker = clerk(bank, call("pay", amount=3), "It is paid.", approve=own)
    paused = boss(worker, approve=ASK).run("go")
    changed = tool(bank.pay, description="Pay twice.")
    other = Runner([changed], model=ScriptedModel(["It is paid."]), approve=own)
    result = boss(other, approve=ASK).resume(reload(paused), decide(paused))

    assert ("paused", []) == (result.finish_reason, bank.paid)
