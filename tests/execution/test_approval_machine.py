"""Runs that wait for approval, in any order of events: nothing runs twice, and nothing without its approval."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from tests.properties import examples
from toolkit import ApprovalRequest, Decision, MemoryLedger, Runner, RunResult, RunState, ToolContext, tool
from toolkit.errors import ApprovalError
from toolkit.models import ModelRequest, ModelResponse, ToolMessage
from toolkit.testing import ScriptedModel, call

Answer: TypeAlias = Literal["yes", "no", "modify", "defer", "stop", "raise", "junk", "cancel", "give up"]
LIVE = st.sampled_from(["yes", "no", "modify", "defer", "defer", "defer", "stop", "raise", "junk", "cancel", "give up"])
LATER = st.sampled_from(["yes", "yes", "no", "modify", "defer", "stop"])
VERSIONS = st.sampled_from([1, 1, 1, 2])
MORE = 100  # what a person who modifies a call pays instead, on top

# A call, the version of the tool, and what it pays: what an approval is for, and what runs.
Deed: TypeAlias = tuple[str, int, int]


@dataclass
class World:
    """What has happened outside of all runs."""

    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    approved: set[Deed] = field(default_factory=set)
    done: list[Deed] = field(default_factory=list)
    shown: dict[str, Deed] = field(default_factory=dict)

    def tool(self, version: int) -> Any:
        """Make the tool, as this version of the program has it."""

        @tool(name="pay", description=f"Pay, version {version}.", effect="write")
        def pay(amount: int, context: ToolContext) -> str:
            self.done.append((context.call_id, version, amount))
            return f"paid {amount}"

        return pay

    def approver(self, answers: Mapping[int, Answer], version: int) -> Callable[[ApprovalRequest], Any]:
        """Make a person who decides by the amount, and whose approvals are recorded."""

        def answer(request: ApprovalRequest) -> Any:
            amount = request.arguments["amount"]
            self.shown[request.digest] = (request.call.id, version, amount)
            kind = answers.get(amount, "defer")
            if kind == "give up":
                request.context.cancellation.cancel()
            return self.verdict(kind, (request.call.id, version, amount))

        return answer

    def verdict(self, kind: Answer, deed: Deed) -> Any:
        """Make an answer, and write down what it allows."""
        call_id, version, amount = deed
        if kind == "yes":
            self.approved.add(deed)
        if kind == "modify":
            self.approved.add((call_id, version, amount + MORE))
        if kind == "raise":
            raise RuntimeError("the person fell asleep")
        verdicts = {
            "yes": True,
            "modify": Decision.modify({"amount": amount + MORE}),
            "defer": Decision.defer(),
            "stop": Decision.stop("Enough."),
            "junk": "yes",
            "give up": True,
            "cancel": True,
        }
        return verdicts.get(kind, False)

    def runner(self, answers: Mapping[int, Answer], version: int) -> Runner:
        """Start the program: what is known from before is in the ledger and in states alone."""

        def authorizer(_: object, arguments: Any, __: object) -> bool:
            if answers.get(arguments["amount"]) == "cancel":
                runner.cancel()
            return True

        def reply(request: ModelRequest) -> Any:
            if isinstance(request.messages[-1], ToolMessage):
                return "Done."
            return [call("pay", amount=amount) for amount in answers]

        runner = Runner(
            [self.tool(version)],
            model=ScriptedModel(reply),
            ledger=self.ledger,
            approve=self.approver(answers, version),
            authorize=authorizer,
        )
        return runner


def calls_without_one_result(result: RunResult[Any]) -> list[str]:
    """Name the calls of a run that has not paused that have no result, or several."""
    answers = Counter(message.call_id for message in result.messages if isinstance(message, ToolMessage))
    made = [made.id for message in result.messages if isinstance(message, ModelResponse) for made in message.calls]
    return [call_id for call_id in {*made, *answers} if (made.count(call_id), answers[call_id]) != (1, 1)]


def open_calls(result: RunResult[Any]) -> tuple[list[str], list[str]]:
    """The calls of a paused run, and those that wait or have their answer."""
    last = next(message for message in reversed(result.messages) if isinstance(message, ModelResponse))
    waiting = [each.call.id for each in result.state.pending]
    return [made.id for made in last.calls], sorted([*waiting, *(each.call_id for each in result.state.results)])


class Approvals(RuleBasedStateMachine):
    """Starts runs, saves them, and resumes them, in any process and any number of times."""

    states = Bundle("states")

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    def went(self, result: RunResult[Any]) -> Any:
        """Check the results of a run; a paused one can be resumed."""
        if result.state.phase != "paused":
            assert [] == calls_without_one_result(result)
            return multiple()
        made, accounted_for = open_calls(result)
        assert sorted(made) == accounted_for
        return result.state.to_json()

    @rule(
        target=states,
        answers=st.dictionaries(st.integers(1, 9), LIVE, min_size=1, max_size=4),
        later=st.booleans(),
        version=VERSIONS,
    )
    def begin(self, answers: dict[int, Answer], later: bool, version: int) -> Any:
        """Start a run whose calls get these answers."""
        runner = self.world.runner(answers, version)
        return self.went(asyncio.run(runner.arun("Go.")) if later else runner.run("Go."))

    @rule(
        target=states,
        text=states,
        data=st.data(),
        later=st.booleans(),
        version=VERSIONS,
        answers=st.dictionaries(st.integers(1, 9), LIVE),
    )
    def resume(self, text: str, data: Any, later: bool, version: int, answers: dict[int, Answer]) -> Any:
        """Resume a state, the latest or one that was resumed before, with decisions on some of its calls."""
        state = RunState.from_json(text)
        kinds = {waiting.digest: data.draw(st.none() | LATER) for waiting in state.pending}
        decisions = {
            waiting.call.id: self.world.verdict(kind, self.world.shown[waiting.digest])
            for waiting in state.pending
            if (kind := kinds[waiting.digest]) is not None
        }
        runner = self.world.runner(answers, version)
        return self.went(asyncio.run(runner.aresume(state, decisions)) if later else runner.resume(text, decisions))

    @rule(text=states, unknown=st.sampled_from(["", "pay", "call_0", "0"]))
    def decide_on_an_unknown_call(self, text: str, unknown: str) -> None:
        """Give a decision for no call that waits: it is refused, and nothing happens."""
        before = list(self.world.done)

        with pytest.raises(ApprovalError):
            self.world.runner({}, 1).resume(text, {unknown: True})
        assert before == self.world.done

    @invariant()
    def nothing_runs_twice(self) -> None:
        """Each call has had its effect once at most."""
        assert [] == [call_id for call_id, n in Counter(call_id for call_id, *_ in self.world.done).items() if n > 1]

    @invariant()
    def nothing_runs_without_approval(self) -> None:
        """What has run is what was approved: the call, the tool as it was shown, the amount."""
        assert set() == set(self.world.done) - self.world.approved


Approvals.TestCase.settings = examples(30, stateful_step_count=20)
TestApprovals = Approvals.TestCase
