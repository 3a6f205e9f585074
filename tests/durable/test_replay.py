"""Histories of runs: they replay to the same steps, stay short, and hold no secret."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.worker import Replayer, WorkflowReplayResult

from tests.durable.support import Durable, environment, until
from toolkit import Limits, Runner, tool
from toolkit.approvers import defer
from toolkit.durable import DevServer, DurableRunner, Worker
from toolkit.durable.workflow import RunWorkflow
from toolkit.models import ModelRequest, ModelResponse
from toolkit.testing import ScriptedModel, call

HISTORIES = Path(__file__).parent / "histories"


@tool(idempotent=True)
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effect="write", approve=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


SCRIPT: list[Any] = [
    [call("add", a=1, b=2), call("pay", amount=1), call("add", a=3, b=4), call("unknown")],
    [call("pay", amount=2)],
    "Done.",
    "Good bye.",
]


def approve(request: Any) -> Any:
    return defer(request) if request.name == "pay" else True


async def make_history(durable: Durable) -> WorkflowHistory:
    """A run with parallel calls, approvals, a rejection, a follow-up and a limit."""
    limits = Limits(max_calls=9, max_seconds=60)
    runner = Runner([add, pay], model=ScriptedModel(SCRIPT), approve=approve, limits=limits, instructions="Pay.")
    client = await durable.connect()
    async with Worker(client, runner, task_queue=durable.queue, identity="test"):
        run = await DurableRunner(client, runner, task_queue=durable.queue).start("Go.")
        await run.follow_up("And?")
        first = await until(run.status, lambda status: status.pending)
        await run.approve(first.pending[0].call.id)
        second = await until(run.status, lambda status: status.pending and status.pending != first.pending)
        await run.approve(second.pending[0].call.id, False)
        assert "Good bye." == (await run.result()).output
        return await client.get_workflow_handle(run.id).fetch_history()


async def replay(history: WorkflowHistory) -> WorkflowReplayResult:
    return await Replayer(workflows=[RunWorkflow]).replay_workflow(history)


def test_a_run_replays(durable: Durable) -> None:
    """A history replays without a worker's tools, in the sandbox, to the same steps."""

    async def go() -> None:
        history = await make_history(durable)
        if os.environ.get("TOOLKIT_WRITE_HISTORIES"):
            (HISTORIES / "approvals.json").write_text(history.to_json() + "\n", encoding="utf-8")
        await replay(history)

    asyncio.run(go())


@pytest.mark.parametrize("path", sorted(HISTORIES.glob("*.json")), ids=lambda path: path.stem)
def test_kept_histories_replay(path: Path) -> None:
    """Runs that an earlier version began go on: write a new file beside the old ones, and keep those."""
    history = WorkflowHistory.from_json("golden", path.read_text(encoding="utf-8"))

    asyncio.run(replay(history))


def test_workflow_is_light() -> None:
    """What the sandbox loads for each run loads no client of a model, no database and no tools of ours."""
    code = """
import sys
import toolkit.durable.workflow
heavy = ("openai", "httpx2", "sqlite3", "numpy", "toolkit._runner.runner", "toolkit.builtin", "toolkit._toolbox")
print([name for name in heavy if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)

    assert "[]\n" == ran.stdout


def test_long_runs(make_server: Callable[..., DevServer]) -> None:
    """A run goes on under a new history before the server ends it for its length, with all that it knows."""
    server = make_server("--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=40")
    durable, turns = Durable(server.address), 20

    def answer(request: ModelRequest) -> Any:
        turn = sum(isinstance(message, ModelResponse) for message in request.messages)
        return "Done." if turn >= turns else [call("add", a=turn, b=0)]

    async def go() -> tuple[Any, int, bool]:
        runner = Runner([add], model=ScriptedModel(answer), max_turns=50)
        client = await durable.connect()
        async with await durable.worker(runner):
            run = await DurableRunner(client, runner, task_queue=durable.queue).start("Go.")
            await run.follow_up("And?")
            result = await run.result()
            handle = client.get_workflow_handle(run.id)
            history = await handle.fetch_history()
            await replay(history)
            first = history.events[0].workflow_execution_started_event_attributes
            return result, len(history.events), bool(first.continued_execution_run_id)

    result, events, is_continued = asyncio.run(go())

    assert is_continued and events < 60
    assert ["Done."] * 2 == [m.text for m in result.messages if isinstance(m, ModelResponse) and not m.calls]
    assert list(range(turns)) == [json.loads(end.call.arguments)["a"] for end in result.calls]
    assert turns + 2 == result.usage.requests


class Reversing(PayloadCodec):
    """A codec in place of encryption."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(metadata={"encoding": b"reversed"}, data=p.SerializeToString()[::-1]) for p in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload.FromString(p.data[::-1]) for p in payloads]


def decode(data: Any) -> str:
    """All texts of a history, those of its payloads decoded."""
    if isinstance(data, list):
        return " ".join(map(decode, data))
    if isinstance(data, dict):
        return " ".join(
            base64.b64decode(value).decode(errors="replace") if name == "data" else decode(value)
            for name, value in data.items()
        )
    return str(data)


def test_what_a_history_holds(durable: Durable) -> None:
    """The key of a model is in no history; with a codec neither is the conversation."""

    async def go(converter: DataConverter) -> str:
        own = Durable(durable.address)
        model = ScriptedModel([[call("add", a=1, b=2)], "An answer."])
        runner = Runner([add], model=model, api_key="sk-very-secret", instructions="Instructions.")
        client = await Client.connect(own.address, data_converter=converter)
        async with Worker(client, runner, task_queue=own.queue, deps="deps-secret"):
            run = await DurableRunner(client, runner, task_queue=own.queue).start("A question.")
            assert "An answer." == (await run.result()).output
            return decode((await client.get_workflow_handle(run.id).fetch_history()).to_json_dict())

    plain = asyncio.run(go(DataConverter.default))
    coded = asyncio.run(go(DataConverter(payload_codec=Reversing())))

    assert "A question." in plain and "An answer." in plain and "Instructions." in plain
    assert "secret" not in plain + coded
    assert "question" not in coded and "answer" not in coded
