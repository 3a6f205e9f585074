"""Parallel calls of one turn: time from the first one's start to the last one's end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial

import openai

from benchmarks.measure import Sample
from benchmarks.server import address
from toolkit import Runner, tool

# What each call takes, in seconds; calls that wait for nothing but this could all end then.
NAP = 0.05


def spans(loop: asyncio.AbstractEventLoop, port: int, calls: int) -> Mapping[str, Sample]:
    """Name the kinds of tools and runs, each with a sample of wall seconds."""
    clock: list[float] = []

    def add(a: int, b: int) -> int:
        """Add two numbers, slowly."""
        clock.append(time.perf_counter())
        time.sleep(NAP)
        clock.append(time.perf_counter())
        return a + b

    async def aadd(a: int, b: int) -> int:
        """Add two numbers, slowly."""
        clock.append(time.perf_counter())
        await asyncio.sleep(NAP)
        clock.append(time.perf_counter())
        return a + b

    url = address(port, 2, calls)
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    aclient = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    runner = Runner([add], client=client, model="scripted")
    arunner = Runner([add], client=aclient, model="scripted")
    all_async = Runner([tool(aadd, name="add")], client=aclient, model="scripted")
    runs: Mapping[str, Callable[[], object]] = {
        "sync tools, sync run": lambda: runner.run("Go."),
        "sync tools, async run": lambda: loop.run_until_complete(arunner.arun("Go.")),
        "async tools, async run": lambda: loop.run_until_complete(all_async.arun("Go.")),
    }
    return {kind: partial(_span, run, clock, calls) for kind, run in runs.items()}


def _span(run: Callable[[], object], clock: list[float], calls: int) -> float:
    clock.clear()
    run()
    if len(clock) != 2 * calls:
        raise SystemExit(f"{len(clock) // 2} calls ran instead of {calls}: what was measured is not a turn.")
    return max(clock) - min(clock)
