"""A worker takes a run over to answer a question, before the server has started the task of the step that has ended."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from temporalio.client import WorkflowHandle, WorkflowQueryFailedError
from temporalio.worker import Replayer

from tests.durable.support import Durable, environment, until
from toolkit import Runner, ToolContext, tool
from toolkit.durable import DurableRun
from toolkit.durable.workflow import RunWorkflow
from toolkit.errors import RunError, RunUnreachableError
from toolkit.models import ModelRequest, ModelResponse
from toolkit.testing import ModelReply, ScriptedModel, call


@tool(effect="read")
async def wait(context: ToolContext[Any]) -> str:
    """Wait."""
    await context.deps.wait()
    return "waited"


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def answer(request: ModelRequest) -> ModelReply:
    """Answer by the conversation alone, in any process."""
    has_called = any(isinstance(message, ModelResponse) for message in request.messages)
    return "Done." if has_called else [call("wait"), call("add", a=1, b=2)]


runner = Runner([wait, add], model=ScriptedModel(answer), order="sequential")


async def work(address: str, queue: str) -> None:
    await (await Durable(address, queue).worker(runner, **options(queue))).run()


def options(queue: str) -> dict[str, Any]:
    # The server waits so long for the killed worker before it starts the next task: time for a message.
    waits = {"sticky_queue_schedule_to_start_timeout": timedelta(seconds=9)}
    return {"heartbeat": 5.0, "tool_queues": {"wait": f"{queue}-wait"}, **waits}


async def is_calling(run: DurableRun) -> bool:
    try:
        return (await run.status()).phase == "calling"
    except RunUnreachableError:  # the worker is still starting
        return False


async def start(durable: Durable) -> DurableRun:
    """Start a run, and kill its worker while another one makes its first call."""
    code = "import asyncio, sys, tests.durable.test_takeovers as own; asyncio.run(own.work(*sys.argv[1:]))"
    killed = subprocess.Popen([sys.executable, "-c", code, durable.address, durable.queue], env=environment())  # noqa: ASYNC220
    run = await (await durable.runs(runner)).start("Go.")
    await until(partial(is_calling, run), bool)
    killed.kill()
    killed.wait()
    return run


async def count_ended_calls(handle: WorkflowHandle[Any, Any]) -> int:
    events = (await handle.fetch_history()).events
    return sum(event.HasField("activity_task_completed_event_attributes") for event in events)


@pytest.mark.slow
def test_a_question_before_a_task(durable: Durable) -> None:
    """A message after the question is read where a replay reads it; the question waits for its answer."""

    async def go() -> tuple[list[str | None], str]:
        given, released = options(durable.queue), asyncio.Event()
        async with await Durable(durable.address, given["tool_queues"]["wait"]).worker(runner, deps=released, **given):
            run = await start(durable)
            handle = (await durable.connect()).get_workflow_handle(run.id)
            async with await durable.worker(runner, **given):
                asked = asyncio.create_task(handle.query("status"))
                await asyncio.sleep(2)
                released.set()
                with suppress(WorkflowQueryFailedError):
                    await asked
                status = asyncio.create_task(run.status())
                await run.steer("Hey.")
                result = await run.result()
                await Replayer(workflows=[RunWorkflow]).replay_workflow(await handle.fetch_history())
                return [end.result.text for end in result.calls], (await status).run_id

    texts, run_id = asyncio.run(go())

    assert ["waited", "Skipped due to queued user message."] == texts
    assert run_id


def test_a_terminated_run(durable: Durable) -> None:
    """Its state and its events say that it was terminated, also if a call ended after its last task."""

    async def go() -> None:
        given, released = options(durable.queue), asyncio.Event()
        async with await Durable(durable.address, given["tool_queues"]["wait"]).worker(runner, deps=released, **given):
            run = await start(durable)
            handle = (await durable.connect()).get_workflow_handle(run.id)
            calls = await count_ended_calls(handle)
            released.set()
            await until(partial(count_ended_calls, handle), calls.__lt__)
        await handle.terminate("By hand.")
        async with await durable.worker(runner, **given):
            with pytest.raises(RunError, match="terminated"):
                await run.status()
            with pytest.raises(RunError, match="terminated"):
                await asyncio.wait_for(anext(run.events()), 20)

    asyncio.run(go())
