"""Sub-agents of durable runs: each call is a run of its own on the server, below the one that made it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.durable.support import Durable, until
from toolkit import Decision, Limits, Runner, tool
from toolkit.approvers import defer
from toolkit.durable import DurableRun
from toolkit.errors import ApprovalError
from toolkit.models import UserMessage
from toolkit.testing import ScriptedModel, call


@tool(effect="write")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def ask_for_pay(request: Any) -> Any:
    return defer(request) if request.name == "pay" else True


def make_runner(*inner: Any, **options: Any) -> Runner:
    """A runner whose sub-agent pays."""
    payer = Runner([pay], model=ScriptedModel(inner or [call("pay", amount=3), "It is paid."]))
    script: list[Any] = [call("ask_payer", query="Pay 3."), "All done."]
    return Runner([payer.as_tool("ask_payer", "payments")], model=ScriptedModel(script), **options)


def test_a_sub_agent_is_a_run_of_its_own(durable: Durable) -> None:
    """The call of a sub-agent is a workflow, found by the id of the run and of the call; its usage counts above."""

    async def go() -> Any:
        async with await durable.worker(runner := make_runner()):
            run = await (await durable.runs(runner)).start("Go.")
            result = await run.result()
            child = await (await durable.runs()).attach(f"{run.id}/{result.calls[0].call.id}")
            return result, await child.result()

    result, child = asyncio.run(go())
    expected = make_runner().run("Go.")

    assert ("All done.", "It is paid.", ["Pay 3."]) == (
        result.output,
        result.calls[0].result.text,
        [each.text for each in child.messages if isinstance(each, UserMessage)],
    )
    assert (expected.usage, dict(expected.state.calls_by_tool)) == (result.usage, dict(result.state.calls_by_tool))
    assert ["paid 3"] == [end.result.text for end in child.calls]


def test_a_sub_agent_with_a_type(durable: Durable) -> None:
    """The run of a sub-agent is a workflow also where its answer has a type; a wrong one is asked for again."""

    def make() -> Runner:
        counter = Runner(model=ScriptedModel(["Many.", "[1, 2]"]))
        script: list[Any] = [call("ask_counter", query="Count."), "All done."]
        return Runner([counter.as_tool("ask_counter", "numbers", output_type=list[int])], model=ScriptedModel(script))

    async def go() -> Any:
        async with await durable.worker(runner := make()):
            run = await (await durable.runs(runner)).start("Go.")
            result = await run.result()
            return result, await DurableRun(await durable.connect(), f"{run.id}/{result.calls[0].call.id}").result()

    result, child = asyncio.run(go())

    assert ("[1,2]", "[1, 2]", 2) == (result.calls[0].result.text, child.output, child.usage.requests)


def test_approval_in_a_sub_agent(durable: Durable) -> None:
    """A call of a sub-agent passes the gates of the run above, whose client sees it and decides on it."""

    async def go() -> Any:
        async with await durable.worker(runner := make_runner(approve=ask_for_pay)):
            run = await (await durable.runs(runner)).start("Go.")
            status = await until(run.status, lambda status: status.pending)
            (waiting,) = status.pending
            await run.approve(waiting.call.id, Decision.modify({"amount": 5}))
            result = await run.result()
            child = await DurableRun(await durable.connect(), f"{run.id}/{result.calls[0].call.id}").result()
            return waiting, result, child

    waiting, result, child = asyncio.run(go())

    assert ("pay", '{"amount": 3}', "ask_payer") == (waiting.call.name, waiting.arguments, waiting.agent)
    assert ("All done.", ["paid 5"]) == (result.output, [end.result.text for end in child.calls])


def test_a_sub_agent_below_a_sub_agent(durable: Durable) -> None:
    """Sub-agents may be inside each other; a call of the innermost one waits for the client of the outermost run."""

    def make() -> Runner:
        middle = Runner(
            [make_payer().as_tool("ask_payer", "payments")],
            model=ScriptedModel([call("ask_payer", query="Pay 3."), "The payer has paid."]),
        )
        script: list[Any] = [call("ask_middle", query="Have 3 paid."), "All done."]
        return Runner([middle.as_tool("ask_middle", "all")], model=ScriptedModel(script), approve=ask_for_pay)

    def make_payer() -> Runner:
        return Runner([pay], model=ScriptedModel([call("pay", amount=3), "It is paid."]))

    async def go() -> Any:
        async with await durable.worker(runner := make()):
            run = await (await durable.runs(runner)).start("Go.")
            status = await until(run.status, lambda status: status.pending)
            await run.approve(status.pending[0].call.id)
            return await run.result()

    result = asyncio.run(go())

    assert ("All done.", "The payer has paid.") == (result.output, result.calls[0].result.text)
    assert {"ask_middle": 1, "ask_payer": 1, "pay": 1} == dict(result.state.calls_by_tool)
    assert 6 == result.usage.requests


def test_cancel_reaches_a_sub_agent(durable: Durable) -> None:
    """Cancelling the run above cancels the run of its sub-agent, and the tool that runs in it."""
    ended: list[str] = []

    async def go() -> Any:
        begun = asyncio.Event()

        @tool(effect="write")
        async def wait() -> str:
            """Wait."""
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("wait")
            return "waited"

        waiter = Runner([wait], model=ScriptedModel([[call("wait")]]))
        script: list[Any] = [call("ask_waiter", query="Wait.")]
        runner = Runner([waiter.as_tool("ask_waiter", "waiting")], model=ScriptedModel(script))
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Go.")
            await begun.wait()
            await run.cancel()
            result = await run.result()
            return result, await DurableRun(await durable.connect(), f"{run.id}/{result.calls[0].call.id}").result()

    result, child = asyncio.run(go())

    assert ("cancelled", "cancelled", ["wait"]) == (result.finish_reason, child.finish_reason, ended)
    assert ["Cancelled: it had started, and its effects stay."] == [end.result.text for end in result.calls]


def test_a_sub_agent_that_fails(durable: Durable) -> None:
    """What ends the run of a sub-agent is an error that the model above reads, as in one process."""
    script: list[Any] = [[call("pay", amount=1)]]

    def make() -> Runner:
        payer = Runner([pay], model=ScriptedModel(script), limits=Limits(max_turns=1, on_limit="raise"))
        outer: list[Any] = [call("ask_payer", query="Pay 1."), "Sorry."]
        return Runner([payer.as_tool("ask_payer", "payments")], model=ScriptedModel(outer))

    expected, result = make().run("Go."), asyncio.run(durable.run(make()))

    assert [end.result.text for end in expected.calls] == [end.result.text for end in result.calls]
    assert "max_turns=1" in result.calls[0].result.text


def test_middleware_around_a_sub_agent(durable: Durable) -> None:
    """Middleware sees the answer of a sub-agent, and its gates are asked once about its call."""
    asked: list[str] = []
    seen: list[Any] = []

    def approve(request: Any) -> bool:
        asked.append(request.name)
        return True

    async def note(call: Any, call_next: Any) -> Any:
        result = await call_next(call)
        seen.append((call.name, result.text))
        return result.replace(text=result.text.upper()) if not result.is_error else result

    result = asyncio.run(durable.run(make_runner(approve=approve, middleware=[note])))

    assert ["ask_payer", "pay"] == asked
    assert ("ask_payer", "It is paid.") == seen[-1]
    assert "IT IS PAID." == result.calls[0].result.text


@pytest.mark.parametrize("limit", ["timeout", pytest.param("max_seconds", marks=pytest.mark.slow)])
def test_time_of_a_sub_agent(limit: str, durable: Durable) -> None:
    """A sub-agent ends with the `timeout` of its call, and with the time of the run above, as in one process."""
    ended: list[str] = []

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("wait")
        return "waited"

    def make() -> Runner:
        waiter = Runner([wait], model=ScriptedModel([call("wait"), "I have waited."]))
        asked = waiter.as_tool("ask_waiter", "waiting")
        script: list[Any] = [call("ask_waiter", query="Wait."), "All done."]
        if limit == "timeout":
            return Runner([tool(asked, timeout=2)], model=ScriptedModel(script))
        return Runner([asked], model=ScriptedModel(script), limits=Limits(max_seconds=2))

    expected, result = asyncio.run(make().arun("Go.")), asyncio.run(durable.run(make()))

    assert ["wait", "wait"] == ended
    assert (expected.finish_reason, expected.output, expected.usage) == (
        result.finish_reason,
        result.output,
        result.usage,
    )
    assert expected.calls[0].result.text == result.calls[0].result.text
    assert dict(expected.state.calls_by_tool) == dict(result.state.calls_by_tool)


def test_approval_after_a_sub_agent(durable: Durable) -> None:
    """The same decision on a call of a sub-agent may come again once that has ended, and another one is refused."""
    go_on = threading.Event()

    @tool(effect="read")
    def wait() -> str:
        """Wait."""
        go_on.wait(120)
        return "waited"

    payer = Runner([pay], model=ScriptedModel([call("pay", amount=3), "It is paid."]))
    script: list[Any] = [call("ask_payer", query="Pay 3."), call("wait"), "All done."]
    runner = Runner([payer.as_tool("ask_payer", "payments"), wait], model=ScriptedModel(script), approve=ask_for_pay)

    async def go() -> Any:
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Go.")
            status = await until(run.status, lambda status: status.pending)
            call_id = status.pending[0].call.id
            await run.approve(call_id)
            await until(run.status, lambda status: status.turns == 2)
            await run.approve(call_id)
            with pytest.raises(ApprovalError) as caught:
                await run.approve(call_id, False)
            go_on.set()
            return call_id, str(caught.value), await run.result()

    call_id, text, result = asyncio.run(go())

    assert f"The call {call_id!r} has another decision already." == text
    assert "All done." == result.output
