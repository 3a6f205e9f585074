"""A state that was cut, edited or written by another version: refused, or resumed without a call that nobody saw."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeAlias, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from toolkit import ApprovalRequest, Decision, Runner, RunState, ToolCall, ToolkitError, tool
from toolkit.errors import ConversationError
from toolkit.models import ToolMessage
from toolkit.testing import ScriptedModel, call

AMOUNTS = [1, 2]
JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    7,
    10**12,
    0.5,
    "",
    "x",
    "paused",
    "calling",
    "look",
    [],
    {},
    ["x"],
    {"x": 1},
)

Place: TypeAlias = tuple[dict[Any, Any] | list[Any], Any]


class Bank:
    """Has a tool that needs approval, and records what was paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    @tool(effect="write", approve=True)
    def pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return f"paid {amount}"

    @tool(effect="read")
    def look(self) -> str:
        """Look."""
        return "much"

    def runner(self, *script: Any) -> Runner:
        """Make a runner that defers what needs approval."""

        def approver(asked: ApprovalRequest) -> bool | Decision:
            return Decision.defer() if asked.required else True

        return Runner([self.pay, self.look], model=ScriptedModel(script), approve=approver)

    def paused(self) -> RunState:
        """Pause at two payments, behind a turn that is over and beside a call that is done."""
        calls = [call("look"), *(call("pay", amount=amount) for amount in AMOUNTS)]
        return self.runner([call("look")], calls).run("Pay.").state


PAUSED = Bank().paused()
TEXT = PAUSED.to_json()
APPROVALS = {waiting.call.id: True for waiting in PAUSED.pending}


def refused(state: RunState | str) -> tuple[str, list[int]]:
    """Return why a state is not resumed, and what was paid."""
    bank = Bank()
    with pytest.raises(ConversationError) as caught:
        bank.runner("Done.").resume(state, APPROVALS)
    return str(caught.value), bank.paid


def test_whole_state() -> None:
    """The state that the others here are made of is resumed, and both calls are executed."""
    bank = Bank()
    bank.runner("Done.").resume(TEXT, APPROVALS)

    assert AMOUNTS == bank.paid


@given(st.integers(0, len(TEXT) - 1))
def test_cut(size: int) -> None:
    """A text that was cut, wherever, is refused, and runs nothing."""
    why, paid = refused(TEXT[:size])

    assert ("This is not the state of a run", []) == (why.partition(":")[0], paid)


@given(st.none() | st.integers().filter(lambda version: version != 1) | st.text())
def test_version(version: Any) -> None:
    """A state of another version is refused, and runs nothing."""
    why, paid = refused(json.dumps({**json.loads(TEXT), "version": version}))

    assert (f"This state is of version {version!r}; this library reads version 1.", []) == (why, paid)


def test_unknown_finish_reason() -> None:
    """A state whose finish reason no run can have is refused, and runs nothing."""
    why, paid = refused(json.dumps({**json.loads(TEXT), "finish_reason": "tired"}))

    assert ("finish_reason='tired' is not of type" in why, paid) == (True, [])


def places(data: Any) -> Iterator[Place]:
    """List where something stands in JSON, at any depth."""
    for key in data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ():
        yield data, key
        yield from places(data[key])


def leave_out(data: Any, key: Any, _: Any) -> None:
    del data[key]


def put_in(data: Any, key: Any, junk: Any) -> None:
    data[key] = junk


def repeat(data: Any, key: Any, _: Any) -> None:
    if isinstance(data, list):
        data.append(deepcopy(data[key]))
    else:
        data["more"] = data[key]


EDITS = st.tuples(st.sampled_from([leave_out, put_in, repeat]), st.integers(0, 999), st.sampled_from(JUNK))


@examples(300)
@given(st.lists(EDITS, min_size=1, max_size=3))
def test_edited(edits: list[tuple[Callable[[Any, Any, Any], None], int, Any]]) -> None:
    """Whatever was edited in a state, it is refused before anything runs, or runs what was shown."""
    state = json.loads(TEXT)
    for edit, number, junk in edits:
        standing = list(places(state))
        edit(*standing[number % len(standing)], deepcopy(junk))
    bank = Bank()
    try:
        bank.runner("Done.", "Done.").resume(json.dumps(state), APPROVALS)
    except ToolkitError:
        assert [] == bank.paid
    assert bank.paid in ([], [1], [2], AMOUNTS)


def test_allowed_tool_that_is_gone() -> None:
    """A run that was limited to a tool is not resumed where there is no such tool any more."""
    paused = Bank().runner([call("pay", amount=1)]).run("Go.", allowed_tools=["pay"])

    with pytest.raises(ConversationError, match=r"cannot be resumed with these tools: allowed_tools has 'pay'"):
        Runner([abs], model=ScriptedModel(["Done."])).resume(paused.state)


def twice(state: RunState) -> RunState:
    return replace(state, pending=state.pending * 2)


def of_nobody(state: RunState) -> RunState:
    stranger = replace(state.pending[0], call=ToolCall(name="pay", id="x"))
    return replace(state, pending=(stranger, *state.pending[1:]))


def without_its_answer(state: RunState) -> RunState:
    return replace(state, messages=state.messages[:-1])


def without_a_result(state: RunState) -> RunState:
    return replace(state, messages=state.messages[:2] + state.messages[3:])


def with_a_result_before_its_call(state: RunState) -> RunState:
    first, called, result, *rest = state.messages
    return replace(state, messages=(first, result, called, *rest))


def with_a_result_of_another_provider_id(state: RunState) -> RunState:
    first, called, result, *rest = state.messages
    changed = replace(cast("ToolMessage", result), provider_call_id="x")
    return replace(state, messages=(first, called, changed, *rest))


def with_one_id(state: RunState) -> RunState:
    last: Any = state.messages[-1]
    calls = tuple(replace(made, id=state.pending[0].call.id) for made in last.calls)
    return replace(state, messages=(*state.messages[:-1], replace(last, calls=calls)))


def with_other_numbers(state: RunState) -> RunState:
    return replace(state, call_count=0)


def answered_twice(state: RunState) -> RunState:
    return replace(state, results=state.results * 2)


def waits_for_nothing(state: RunState) -> RunState:
    return replace(state, pending=())


WRONG = [
    (twice, "results and approvals belong to the calls of the last answer, one to each"),
    (of_nobody, "results and approvals belong to the calls of the last answer, one to each"),
    (answered_twice, "results and approvals belong to the calls of the last answer, one to each"),
    (with_one_id, "results and approvals belong to the calls of the last answer, one to each"),
    (waits_for_nothing, "it is paused, and no call waits"),
    (without_its_answer, "a run that is paused does not end in"),
    (without_a_result, "its messages lack results of calls, or calls of results"),
    (with_a_result_before_its_call, "its messages lack results of calls, or calls of results"),
    (with_a_result_of_another_provider_id, "its messages lack results of calls, or calls of results"),
    (with_other_numbers, "its 0 calls are not those of its messages"),
]


@pytest.mark.parametrize("form", [lambda state: state, RunState.to_json], ids=["object", "text"])
@pytest.mark.parametrize(("edit", "why"), WRONG, ids=lambda edit: getattr(edit, "__name__", ""))
def test_no_run(edit: Callable[[RunState], RunState], why: str, form: Callable[[RunState], RunState | str]) -> None:
    """A state in which no run can be is refused, as an object and as a text, before anything runs."""
    text, paid = refused(form(edit(PAUSED)))

    assert (True, []) == (f"This is not the state of a run: {why}" in text, paid)


def test_no_digest() -> None:
    """A pending call whose digest is gone is approved by no decision: it waits again."""
    bank = Bank()
    blank = tuple(replace(waiting, digest="") for waiting in PAUSED.pending)
    again = bank.runner().resume(replace(PAUSED, pending=blank), APPROVALS)

    assert ("paused", PAUSED.pending, []) == (
        again.finish_reason, tuple(replace(each, reason="") for each in again.pending), bank.paid
    )  # fmt: skip
