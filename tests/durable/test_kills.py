"""Workers and servers that die: no run is lost, and no call that may not be repeated has its effect twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.durable.support import Durable, environment, until
from toolkit import RunResult
from toolkit.durable import DevServer
from toolkit.models import ToolMessage

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")

# Runs whose workers are killed; more by night.
KILLS = int(os.environ.get("TOOLKIT_RUN_KILLS", "1"))
TURNS = 4

# A worker as a program: address, queue, folder, whether it has a ledger, what it does in `book`.
PROGRAM = """
import asyncio, os, sys, time
from pathlib import Path
from temporalio.client import Client
from toolkit import Runner, SQLiteLedger, ToolContext, tool
from toolkit.approvers import defer
from toolkit.durable import Worker
from toolkit.models import ModelResponse
from toolkit.testing import ScriptedModel, call

ADDRESS, QUEUE, HOME, LEDGER, MODE = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5]

def note(file, line):
    handle = os.open(HOME / file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(handle, f"{line}\\n".encode())
    os.close(handle)

@tool(effect="write", approve=MODE == "ask")
def book(n: int, context: ToolContext) -> str:
    '''Book, once.'''
    note("booked", context.call_id)
    time.sleep(0.02)
    if MODE == "die":
        os._exit(9)
    if MODE == "wait":
        time.sleep(600)
    return f"booked {n}"

@tool(idempotent=True)
def store(n: int, context: ToolContext) -> str:
    '''Store under a key.'''
    note("stored", context.idempotency_key)
    time.sleep(0.02)
    return f"stored {n}"

@tool
def extra() -> str:
    '''Another tool.'''
    return "extra"

def answer(request):
    turn = sum(isinstance(message, ModelResponse) for message in request.messages)
    time.sleep(0.02)
    if turn == TURNS:
        return "Done."
    return [call("store", n=turn), call("book", n=turn), call("store", n=turn + 100)]

async def main():
    ledger = {"ledger": SQLiteLedger(HOME / "calls.db")} if LEDGER == "ledger" else {}
    gate = {"approve": lambda asked: defer(asked) if asked.name == "book" else True} if MODE == "ask" else {}
    tools = [book, store, extra] if MODE == "changed" else [book, store]
    runner = Runner(tools, model=ScriptedModel(answer), **ledger, **gate)
    async with Worker(await Client.connect(ADDRESS), runner, task_queue=QUEUE, heartbeat=1.0):
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
""".replace("TURNS", str(TURNS))


class Workers:
    """Processes that work on one queue; all are killed at the end."""

    def __init__(self, durable: Durable, home: Path) -> None:
        self.durable, self.home = durable, home
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, ledger: str = "none", mode: str = "live") -> subprocess.Popen[str]:
        arguments = [self.durable.address, self.durable.queue, str(self.home), ledger, mode]
        made = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True, env=environment()
        )
        self.processes.append(made)
        assert made.stdout and "ready\n" == made.stdout.readline()
        return made

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait(timeout=30)

    def close(self) -> None:
        for process in self.processes:
            self.kill(process)
            if process.stdout:
                process.stdout.close()


@pytest.fixture
def workers(durable: Durable, tmp_path: Path) -> Any:
    made = Workers(durable, tmp_path)
    yield made
    made.close()


def check(result: RunResult, home: Path) -> list[ToolMessage]:
    """Check a run that was interrupted; returns the results whose outcome is unknown."""
    booked, stored = ((home / name).read_text().split() for name in ("booked", "stored"))
    results = [message for message in result.messages if isinstance(message, ToolMessage)]
    unknown = [message for message in results if "was started before" in message.text]
    known = {message.call_id for message in results if message.name == "book" and message not in unknown}

    assert ("Done.", "stop") == (result.output, result.finish_reason)
    assert 3 * TURNS == len(results) == len({message.call_id for message in results})
    assert len({*booked}) == len(booked) <= TURNS
    assert known <= {*booked}
    assert {"book"} >= {message.name for message in unknown}
    assert 2 * TURNS == len({*stored}) == sum(message.text.startswith("stored") for message in results)
    return unknown


@pytest.mark.parametrize(("seed", "ledger"), [(seed, ("ledger", "none")[seed % 2]) for seed in range(KILLS)])
@pytest.mark.slow
def test_killed_workers(seed: int, ledger: str, workers: Workers) -> None:
    """Workers are killed at random points; each time another one goes on, until the run has ended."""
    chance = random.Random(f"{seed} {ledger}")  # noqa: S311  the same kills each time

    async def go() -> RunResult:
        run = await (await workers.durable.runs()).start("Go.")
        for _ in range(2):
            process = workers.start(ledger)
            await asyncio.sleep(chance.uniform(0.05, 0.8))
            workers.kill(process)
        workers.start(ledger)
        return await asyncio.wait_for(run.result(), 60)

    check(asyncio.run(go()), workers.home)


@pytest.mark.slow
def test_worker_dies_in_a_call(workers: Workers) -> None:
    """A call whose worker died after its effect is not repeated; model and person see that its outcome is unknown."""

    async def go() -> RunResult:
        run = await (await workers.durable.runs()).start("Go.")
        first = workers.start(mode="die")
        await asyncio.to_thread(first.wait, 30)
        workers.start()
        return await asyncio.wait_for(run.result(), 60)

    (unknown,) = check(asyncio.run(go()), workers.home)

    assert TURNS == len((workers.home / "booked").read_text().split())
    assert unknown.text.startswith("This call was started before and may have taken effect")


@pytest.mark.slow
def test_worker_with_other_tools_between(workers: Workers) -> None:
    """A call whose worker died is not repeated either if a worker with other tools has refused it meanwhile."""

    async def go() -> RunResult:
        run = await (await workers.durable.runs()).start("Go.")
        first = workers.start(mode="die")
        await asyncio.to_thread(first.wait, 30)
        other = workers.start(mode="changed")
        await until(run.status, lambda status: "extra" in status.note)
        workers.kill(other)
        workers.start()
        return await asyncio.wait_for(run.result(), 60)

    (unknown,) = check(asyncio.run(go()), workers.home)

    assert unknown.text.startswith("This call was started before and may have taken effect")


def count_lines(file: Path, least: int) -> int:
    """Wait until a file has so many lines; returns how many it has."""
    while not file.exists() or len(file.read_text().split()) < least:
        time.sleep(0.02)
    return len(file.read_text().split())


@pytest.mark.slow
def test_a_run_goes_on_within_five_seconds(durable: Durable, tmp_path: Path) -> None:
    """With a heartbeat of a second, another worker begins the next turn within 5 s, a busy one at a second try."""

    def recover(home: Path) -> float:
        workers = Workers(Durable(durable.address), home)
        home.mkdir()

        async def start() -> None:
            await (await workers.durable.runs()).start("Go.")

        try:
            asyncio.run(start())
            first = workers.start(mode="wait")
            count_lines(home / "booked", 1)
            workers.start()
            workers.kill(first)
            begun = time.monotonic()
            count_lines(home / "stored", count_lines(home / "stored", 1) + 2)  # one of this turn, one of the next
            return time.monotonic() - begun
        finally:
            workers.close()

    assert any(recover(tmp_path / f"{number}") < 5 for number in range(5))


@pytest.mark.slow
def test_approval_after_a_restart(workers: Workers) -> None:
    """A run waits for approval without a worker, and takes the decision once there is one again."""

    async def go() -> RunResult:
        run = await (await workers.durable.runs()).start("Go.")
        process = workers.start(mode="ask")
        first = await until(run.status, lambda status: status.pending)
        workers.kill(process)
        process = workers.start(mode="ask")
        await run.approve(first.pending[0].call.id)
        workers.kill(process)
        workers.start(mode="ask")
        for _ in range(TURNS - 1):
            seen = first
            first = await until(run.status, lambda status: status.pending and status.pending != seen.pending)
            await run.approve(first.pending[0].call.id)
        return await asyncio.wait_for(run.result(), 60)

    check(asyncio.run(go()), workers.home)


@pytest.mark.slow
def test_server_is_killed(make_server: Callable[..., DevServer], tmp_path: Path) -> None:
    """A server that is killed and started again in the middle of runs loses none of them."""
    server = make_server()
    workers = Workers(Durable(server.address, f"test-{uuid.uuid4().hex[:8]}"), tmp_path)

    async def start() -> str:
        return (await (await workers.durable.runs()).start("Go.")).id

    async def result(run_id: str) -> RunResult:
        run = await (await workers.durable.runs()).attach(run_id)
        return await asyncio.wait_for(run.result(), 90)

    try:
        run_id = asyncio.run(start())
        workers.start("ledger")
        time.sleep(0.3)
        server.kill()
        asyncio.run(server.start())
        check(asyncio.run(result(run_id)), tmp_path)
    finally:
        workers.close()
