"""A helper that a tool calls finds the context of the call, wherever the tool runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.ways import arun, astream, run, start, stream
from toolkit import Runner, RunResult, Tool, Toolbox, ToolContext, tool
from toolkit.testing import ScriptedModel, call

Go = Callable[..., RunResult]
WAYS = pytest.mark.parametrize("go", [run, arun, stream, astream, start])
NAMES = ["sync", "later", "each", "each_later", "in_pool", "made", "nested", "with_context"]


def help_out() -> str:
    """Tell the deps and the tool of the call, deep in the stack."""
    context = ToolContext.current()
    return "none" if context is None else f"{context.tool_name} for {context.deps}"


@tool
def sync() -> str:
    """Help."""
    return help_out()


@tool
async def later() -> str:
    """Help later."""
    await asyncio.sleep(0)
    return await asyncio.to_thread(help_out)


@tool
def each() -> Iterator[str]:
    """Help twice."""
    yield help_out()
    yield help_out()


@tool
async def each_later() -> AsyncIterator[str]:
    """Help twice, later."""
    yield help_out()
    await asyncio.sleep(0)
    yield help_out()


@tool(executor=ThreadPoolExecutor(1))
def in_pool() -> str:
    """Help in a pool."""
    return help_out()


@tool(isolate="process")
def in_process() -> str:
    """Help in a process."""
    return help_out()


def made() -> Any:
    """Return a coroutine."""
    return later.__call__()


@tool
def nested() -> list[Any]:
    """Help, call another tool, and help again."""
    return [help_out(), Toolbox([sync]).call("sync").value, sync.invoke().value, help_out()]


@tool
def with_context(context: ToolContext[Any]) -> bool:
    """Compare it with the parameter."""
    return context is ToolContext.current()


TOOLS: list[Any] = [sync, later, each, each_later, in_pool, in_process, made, nested, with_context]


def expected(name: str) -> Any:
    """Return what a tool finds."""
    here = f"{name} for Ann"
    special = {"nested": [here, "sync for None", here, here], "with_context": True}
    return special.get(name, [here] * 2 if name.startswith("each") else here)


@WAYS
def test_in_a_run(go: Go) -> None:
    """Each call has its own, also where calls run at the same time; outside of calls there is none."""
    model = ScriptedModel([[call(name) for name in NAMES], *(call(name) for name in NAMES), "Done."])
    result = go(Runner(TOOLS, model=model), deps="Ann")

    assert [expected(name) for name in NAMES] * 2 == [done.result.value for done in result.calls]
    assert ToolContext.current() is None


@pytest.mark.parametrize("name", [*NAMES, "in_process"])
def test_in_a_call(name: str) -> None:
    """The same holds for calls of a toolbox."""
    box, context = Toolbox(TOOLS), ToolContext(deps="Ann")

    assert expected(name) == box.call(name, "{}", context).value
    assert expected(name) == asyncio.run(box.acall(name, "{}", context)).value
    assert ToolContext.current() is None


@pytest.mark.parametrize("one", [sync, later])
def test_invoke(one: Tool[..., Any]) -> None:
    """And for a tool that is invoked with a context."""
    context = ToolContext(deps="Ann", tool_name="it")

    assert ["it for Ann"] * 2 == [one.invoke("{}", context).value, asyncio.run(one.ainvoke("{}", context)).value]
    assert "none" == one.invoke().value


@tool(effect="read", retries=1, retry_delay=0.001)
def fail_once() -> int:
    """Fail once."""
    context = ToolContext.current()
    if context is None or not context.attempt:
        raise OSError
    return context.attempt


def test_attempts() -> None:
    """A repeated attempt has its own, and a failed call leaves none behind."""
    assert 1 == Toolbox([fail_once]).call("fail_once").value
    assert ToolContext.current() is None


def test_repr_hides_deps() -> None:
    """The repr of a context does not show the deps, which may hold secrets."""
    assert "secret" not in repr(ToolContext(deps={"password": "secret"}))
