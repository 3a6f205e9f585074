"""Workers that are killed at any point of a run: the run ends as without, and no effect is there twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("temporalio", reason='needs the extra "temporal"')

from temporalio.client import Client
from temporalio.service import RPCError

from tests.durable import killed
from tests.durable.support import environment, make_converter
from toolkit import RunResult
from toolkit.durable import DevServer, DurableRunner
from toolkit.errors import ApprovalError, RunEndedError, RunUnreachableError
from toolkit.models import ToolMessage

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

# How many runs there are, each with one point, from the first to the last and then again: with the other kind of
# ledger, and later at the second and the third time that a run comes there.
COUNT = int(os.environ.get("TOOLKIT_KILL_POINTS", "6"))
# How many workers of a run are killed, one after the other: it comes to each point again.
KILLS = 2
# Points at which no call of the tool can have begun, nor its step.
GATES = ("gate", "before toolkit.authorize", "after toolkit.authorize", "before decision", "after decision")
# Runs at the same time; more would have no heartbeats on a small machine. Seconds without a step: the run is lost.
WIDTH, SECONDS = 12, 120


@pytest.fixture(scope="module")
def short_server(make_server: Callable[..., DevServer]) -> DevServer:
    """A server on which a run goes on under a new history after each of its first turns."""
    return make_server("--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=12")


@pytest.fixture
def workers(short_server: DevServer) -> Iterator[subprocess.Popen[str]]:
    """The program that starts workers."""
    program = subprocess.Popen(  # noqa: S603
        [sys.executable, killed.__file__, short_server.address],
        stdin=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    yield program
    os.killpg(program.pid, signal.SIGKILL)
    program.communicate()


async def look(client: Client, run_id: str) -> Any:
    """Say how far a run is: its events, and the attempts of its steps; so for the sub-agents that it waits for."""
    about = (await client.get_workflow_handle(run_id).describe()).raw_description
    steps = [(step.activity_id, step.attempt) for step in about.pending_activities]
    children = [await look(client, child.workflow_id) for child in about.pending_children]
    return about.workflow_execution_info.execution.run_id, about.workflow_execution_info.history_length, steps, children


async def finish(client: Client, queue: str) -> RunResult:
    """Start a run, approve what waits, and wait for its end, as long as there is a step now and then."""
    run = await DurableRunner(client, task_queue=queue).start("Go.")
    result = asyncio.create_task(run.result())
    found, seen, since = None, None, time.monotonic()
    while not result.done():
        with suppress(RPCError):  # a sub-agent that the server does not know yet
            found = await look(client, run.id)
        if found != seen:
            seen, since = found, time.monotonic()
        elif time.monotonic() - since > SECONDS:
            raise TimeoutError(f"no step in {SECONDS} s: {seen}")
        try:  # a worker that is dead does not answer
            status = await asyncio.wait_for(run.status(), 1)
            for waiting in status.pending:
                await run.approve(waiting.call.id)
        except (ApprovalError, RunEndedError, RunUnreachableError, TimeoutError, asyncio.TimeoutError):
            pass  # decided on, or ended, since
        await asyncio.wait([result], timeout=0.2)
    return result.result()


def read(home: Path, name: str) -> list[str]:
    """Read the lines of a file, none where there is no such file."""
    file = home / name
    return file.read_text().splitlines() if file.exists() else []


def find_faults(result: RunResult, home: Path, point: str, hit: int) -> list[str]:
    """List what is wrong with a run whose workers died at a point; its effects are lines of files.

    On a busy machine a worker that is late with its heartbeats counts as dead: further bookings are unknown, then.
    """
    booked, stored = (read(home, name) for name in ("booked", "stored"))
    results = [message for message in result.messages if isinstance(message, ToolMessage)]
    unknown = {message.call_id for message in results if "was started before" in message.text}
    known = {message.call_id for message in results if message.name == "book"} - unknown
    count = len(read(home, "killed"))
    rules = {
        "each worker comes to the point": hit > 1 or count == KILLS or len(unknown) > count,
        "the run has its answer": ("Done.", "stop") == (result.output, result.finish_reason),
        "each call has one result": 6 == len(results) == len({message.call_id for message in results}),
        "no booking is made twice": len({*booked}) == len(booked),
        "what is known to be booked is booked": known <= {*booked},
        "only a booking may be unknown": {"book"} >= {m.name for m in results if m.call_id in unknown},
        "a worker that dies among the gates makes nothing unknown": point not in GATES or not unknown,
        "each thing is stored under one key": 4 == len({*stored}),
        "the sub-agent has answered": ["Helped."] == [m.text for m in results if m.name == "ask_helper"],
    }
    return [rule for rule, holds in rules.items() if not holds]


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, COUNT, WIDTH))
def test_kill_points(start: int, short_server: DevServer, workers: subprocess.Popen[str], tmp_path: Path) -> None:
    """Workers are killed at each point until one goes on: no run is lost, and nothing is done twice."""

    async def go_through(index: int) -> tuple[str, Any]:
        number, place = divmod(index, len(killed.POINTS))
        point, hit = killed.POINTS[place], 1 + number // 2 % 3
        home, queue = tmp_path / str(index), f"kill-{uuid.uuid4().hex[:8]}"
        home.mkdir()
        has_ledger = "stage" in point or (place + number) % 2 == 1
        given = {"queue": queue, "home": str(home), "point": point, "hit": hit, "kills": KILLS, "ledger": has_ledger}
        assert workers.stdin
        workers.stdin.write(json.dumps(given) + "\n")
        workers.stdin.flush()
        converter = make_converter(killed.Payloads(killed.Killer(home, "", 0)), killed.CLAIM_BYTES)
        client = await Client.connect(short_server.address, data_converter=converter)
        try:
            result = await finish(client, queue)
        except Exception as error:  # noqa: BLE001  it is one of several
            return point, error
        return point, find_faults(result, home, point, hit)

    async def go() -> dict[str, Any]:
        return dict(await asyncio.gather(*map(go_through, range(start, min(start + WIDTH, COUNT)))))

    faults = {point: found for point, found in asyncio.run(go()).items() if found}

    assert {} == faults
