"""The ways to run a `Runner` to its end: each returns the result of a run with the prompt "go"."""

from __future__ import annotations

import asyncio
from typing import Any

from toolkit import Runner, RunResult


def run(runner: Runner, **options: Any) -> RunResult:
    return runner.run("go", **options)


def arun(runner: Runner, **options: Any) -> RunResult:
    return asyncio.run(runner.arun("go", **options))


def stream(runner: Runner, **options: Any) -> RunResult:
    with runner.stream("go", **options) as events:
        list(events)
    return events.result


def astream(runner: Runner, **options: Any) -> RunResult:
    async def main() -> RunResult:
        async with runner.astream("go", **options) as events:
            _ = [event async for event in events]
        return events.result

    return asyncio.run(main())


def start(runner: Runner, **options: Any) -> RunResult:
    return runner.start("go", **options).result(10)
