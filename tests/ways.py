"""The ways to run a `Runner` to its end, and to call a tool: each returns the result.

The prompt is "go".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from toolkit import Runner, RunResult, Tool, Toolbox, ToolResult, tool
from toolkit.events import Event

T = TypeVar("T")


def in_own_loop(job: Callable[[], Awaitable[T]]) -> T:
    """Run a job in the event loop of the library, where async tools run that are called without one."""

    async def work() -> Any:
        return await job()

    value: T = tool(work).invoke("{}").value
    return value


def run(runner: Runner, **options: Any) -> RunResult:
    return runner.run("go", **options)


def arun(runner: Runner, **options: Any) -> RunResult:
    return asyncio.run(runner.arun("go", **options))


def read(runner: Runner) -> list[Event]:
    with runner.stream("go") as events:
        return list(events)


def aread(runner: Runner) -> list[Event]:
    async def main() -> list[Event]:
        async with runner.astream("go") as events:
            return [event async for event in events]

    return asyncio.run(main())


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


def call(made: Tool[..., Any], **arguments: Any) -> ToolResult:
    return Toolbox([made]).call(made.name, arguments)


def acall(made: Tool[..., Any], **arguments: Any) -> ToolResult:
    return asyncio.run(Toolbox([made]).acall(made.name, arguments))
