"""Durable runs beside the bare SDK: CPU of a worker for many runs of some tool calls at the same time.

    python benchmarks/durable.py [--runs 200] [--calls 5] [--pairs 3] [--profile FILE]

The bare side is a workflow by hand, which calls a model and a tool as activities: the same activities, arguments and
results, with neither gates nor checks. The server is the development server, the model scripted. Workers and clients of
both sides are processes of their own, which take turns; the ratio is the median of those of neighbours.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker as BareWorker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

with workflow.unsafe.imports_passed_through():
    from toolkit import Runner, tool
    from toolkit.durable import DevServer, DurableRunner, Worker
    from toolkit.models import ModelResponse
    from toolkit.testing import ScriptedModel, call

CALLS = int(os.environ.get("BENCH_CALLS", "5"))
SHORT = timedelta(seconds=60)


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def answer(request: Any) -> Any:
    """One call to a turn, then the answer."""
    turn = sum(isinstance(message, ModelResponse) for message in request.messages)
    return call("add", a=turn, b=1) if turn < CALLS else "Done."


@dataclass
class Chat:
    """The bare side's conversation: messages in the form of the API."""

    messages: list[dict[str, Any]] = field(default_factory=list)


@activity.defn(name="bare.model")
async def call_model(chat: Chat) -> dict[str, Any]:
    """Answer as the scripted model does."""
    turn = sum(message["role"] == "assistant" for message in chat.messages)
    if turn >= CALLS:
        return {"role": "assistant", "content": "Done."}
    arguments = json.dumps({"a": turn, "b": 1})
    function = {"name": "add", "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": function}]}


@activity.defn(name="bare.tool")
async def call_tool(made: dict[str, Any]) -> dict[str, Any]:
    """Add."""
    given = json.loads(made["function"]["arguments"])
    return {"role": "tool", "tool_call_id": made["id"], "content": str(given["a"] + given["b"])}


@workflow.defn(name="bare.run")
class BareRun:
    """The loop of model and tools by hand."""

    @workflow.run
    async def run(self, prompt: str) -> Chat:
        """Run to the answer."""
        chat = Chat([{"role": "user", "content": prompt}])
        while True:
            reply: dict[str, Any] = await workflow.execute_activity(
                call_model, chat, start_to_close_timeout=SHORT, heartbeat_timeout=timedelta(seconds=10)
            )
            chat.messages.append(reply)
            calls = reply.get("tool_calls")
            if not calls:
                return chat
            chat.messages += await asyncio.gather(
                *[
                    workflow.execute_activity(
                        call_tool, each, start_to_close_timeout=SHORT, heartbeat_timeout=timedelta(seconds=10)
                    )
                    for each in calls
                ]
            )


RUNNER = Runner([add], model=ScriptedModel(answer, is_async=True))
PASSED = SandboxRestrictions.default.with_passthrough_modules("benchmarks", "toolkit", "__main__")


async def work(side: str, address: str, runs: int, profile: str) -> None:
    """Work for as many runs, started by this process too; print the CPU seconds and the seconds."""
    client = await Client.connect(address)
    queue = f"{side}-{os.getpid()}"
    if side == "bare":
        worker: Any = BareWorker(
            client,
            task_queue=queue,
            workflows=[BareRun],
            activities=[call_model, call_tool],
            workflow_runner=SandboxedWorkflowRunner(restrictions=PASSED),
        )
    else:
        worker = Worker(client, RUNNER, task_queue=queue)
    durable = DurableRunner(client, RUNNER, task_queue=queue)

    async def run(number: int) -> None:
        if side == "bare":
            chat: Chat = await client.execute_workflow(
                BareRun.run, "Add.", id=f"{queue}-{number}", task_queue=queue, task_timeout=timedelta(seconds=5)
            )
            last = chat.messages[-1]["content"]
            count = len(chat.messages)
        else:
            result = await durable.run("Add.")
            last, count = result.output, len(result.messages)
        if (last, count) != ("Done.", 2 * CALLS + 2):
            raise SystemExit(f"A run ended with {last!r} after {count} messages.")

    async with worker:
        await asyncio.gather(*map(run, range(-10, 0)))  # what is made once
        profiler = cProfile.Profile() if profile else None
        if profiler:
            profiler.enable()
        cpu, start = time.process_time(), time.perf_counter()
        await asyncio.gather(*map(run, range(runs)))
        print(json.dumps([time.process_time() - cpu, time.perf_counter() - start]), flush=True)
        if profiler:
            profiler.disable()
            profiler.dump_stats(profile)


def measure(side: str, address: str, given: argparse.Namespace) -> list[float]:
    """Measure one side in a process of its own: CPU seconds, seconds."""
    command = [sys.executable, __file__, "--side", side, "--address", address, "--runs", str(given.runs)]
    command += ["--profile", given.profile if side == "durable" else ""]
    environment = {**os.environ, "BENCH_CALLS": str(given.calls)}
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603  temporalio may abort at its exit
    found: list[float] = json.loads(ran.stdout)
    return found


def free_port() -> int:
    """Find a port."""
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def main() -> None:
    """Compare the two sides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--profile", default="", help="file for a cProfile of the durable side's main thread")
    parser.add_argument("--side", choices=("bare", "durable"), help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        asyncio.run(work(given.side, given.address, given.runs, given.profile))
        return
    memory = Path("/dev/shm")  # noqa: S108  the server's file is no part of what is measured
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        server = DevServer(Path(folder) / "runs.db", port=free_port())
        asyncio.run(server.start())
        ratios = []
        try:
            for _ in range(given.pairs):
                bare, durable = measure("bare", server.address, given), measure("durable", server.address, given)
                ratios.append(durable[0] / bare[0])
                for side, (cpu, seconds), more in (("bare", bare, 1), ("durable", durable, 2)):
                    steps = given.runs * (2 * given.calls + more)  # the durable side has a first one
                    each = f"{cpu / steps * 1e3:.2f} ms CPU a step, {given.runs / seconds:.1f} runs/s"
                    print(f"{side:8} {cpu:6.2f} s CPU, {seconds:6.2f} s: {each}", flush=True)
        finally:
            server.kill()
        print(f"ratio    {statistics.median(ratios):.2f} of CPU, aim 1.3")


if __name__ == "__main__":
    main()
