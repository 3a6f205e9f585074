"""Gates of durable runs: they are a step of their own, and what they pass is what runs."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio.client import WorkflowHistory

from tests.durable.support import Durable, until
from toolkit import Decision, Runner, ToolContext, ToolResult, tool
from toolkit.approvers import defer
from toolkit.durable import Worker
from toolkit.testing import ScriptedModel, call


@tool(effect="write", timeout=5)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def list_steps(history: WorkflowHistory) -> list[tuple[str, float]]:
    """List the activities of a run, each with its longest time in seconds."""
    scheduled = [each.activity_task_scheduled_event_attributes for each in history.events]
    return [(each.activity_type.name, each.start_to_close_timeout.seconds) for each in scheduled if each.activity_id]


def test_gates_are_a_step(durable: Durable) -> None:
    """Only the calls that have gates get a step for them; it has its own time, and asks each gate once."""
    asked: list[str] = []

    def approve(request: Any) -> Decision:
        asked.append(f"approve {request.arguments['amount']}")
        return Decision.modify({"amount": 2})

    def authorize(made: Any, arguments: Any, context: ToolContext) -> bool:
        asked.append(f"authorize {arguments['amount']}")
        return True

    script: list[Any] = [call("pay", amount=1), "Done."]
    options: dict[str, Any] = {"approve": approve, "authorize": authorize, "approval_timeout": 10}

    async def go(runner: Runner) -> tuple[Any, list[tuple[str, float]]]:
        own = Durable(durable.address)
        async with await own.worker(runner):
            run = await (await own.runs(runner)).start("Pay.")
            result = await run.result()
            handle = (await own.connect()).get_workflow_handle(run.id)
            return result, list_steps(await handle.fetch_history())

    result, steps = asyncio.run(go(Runner([pay], model=ScriptedModel(script), **options)))
    _, free_steps = asyncio.run(go(Runner([pay], model=ScriptedModel(script))))

    assert ("paid 2", ["authorize 1", "approve 1", "authorize 2"]) == (result.calls[0].result.text, asked)
    assert [("toolkit.authorize", 110), ("toolkit.call", 35)] == steps[2:4]
    assert ["toolkit.open", "toolkit.model", "toolkit.call", "toolkit.model"] == [name for name, _ in free_steps]


def test_a_decision_passes_the_other_gates_once(durable: Durable) -> None:
    """Before a decision and after it the gates are asked; where the call runs, none is."""
    asked: list[str] = []

    def authorize(made: Any, arguments: Any, context: ToolContext) -> bool:
        asked.append("authorize")
        return True

    runner = Runner([pay], model=ScriptedModel([call("pay", amount=1), "Done."]), approve=defer, authorize=authorize)

    async def go() -> Any:
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Pay.")
            status = await until(run.status, lambda status: status.pending)
            await run.approve(status.pending[0].call.id)
            return await run.result()

    assert ("paid 1", ["authorize"] * 2) == (asyncio.run(go()).calls[0].result.text, asked)


def test_middleware_and_hooks_around_gates(durable: Durable) -> None:
    """Gates pass what the middleware has made of a call; hooks see one start, and what it swallows is no answer."""
    seen: list[Any] = []

    class Watch:
        def on_event(self, event: object, run_id: str) -> None:
            seen.append(type(event).__name__)

    async def guard(made: Any, call_next: Any) -> Any:
        try:
            return await call_next(made.replace(arguments='{"amount": 7}'))
        except Exception:
            return ToolResult("swallowed")

    def approve(request: Any) -> bool:
        seen.append(dict(request.arguments))
        return True

    model = ScriptedModel([call("pay", amount=1), "Done."])
    runner = Runner([pay], model=model, approve=approve, middleware=[guard], hooks=[Watch()])
    result = asyncio.run(durable.run(runner))
    turn = ["TurnStarted", "TurnFinished"]

    assert "paid 7" == result.calls[0].result.text
    assert [*turn, {"amount": 7}, "ToolCallStarted", "ToolCallFinished", *turn] == seen


def test_gates_of_a_tool_with_a_queue(durable: Durable) -> None:
    """The gates of a tool with a task queue of its own are asked on the run's, and take none of its places."""
    asked: list[str] = []

    def authorize(made: Any, arguments: Any, context: ToolContext[str]) -> bool:
        asked.append(context.deps)
        return True

    @tool
    def render(context: ToolContext[str]) -> str:
        """Render."""
        return context.deps

    runner = Runner([render], model=ScriptedModel([call("render"), "Done."]), authorize=authorize)
    queues = {"render": f"{durable.queue}-gpu"}

    async def go() -> Any:
        far = Worker(await durable.connect(), runner, task_queue=queues["render"], tool_queues=queues, deps="far")
        async with far:
            return await durable.run(runner, tool_queues=queues, deps="near")

    assert ("far", ["near"]) == (asyncio.run(go()).calls[0].result.text, asked)
