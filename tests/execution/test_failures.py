"""Ways in which a tool can fail, by kinds of tool, by modes of a run: one result for each call, siblings intact."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import math
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn

import pytest

from tests.properties import combine
from toolkit import Runner, RunResult, Tool, ToolError, ToolResult, tool
from toolkit.errors import Cancelled, Denied, TimedOut
from toolkit.models import ToolMessage
from toolkit.testing import ScriptedModel, call


class Evil(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> NoReturn:
        raise ValueError("no")

    __repr__ = __str__


class Sly(BaseException):
    """An exception that `except Exception` does not catch."""


class Unshown:
    """A value that cannot be shown."""

    def __repr__(self) -> NoReturn:
        raise ValueError("no")


class Unread:
    """A value whose every attribute raises."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise RuntimeError(name)


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def fail() -> NoReturn:
        raise error

    return fail


def deeper() -> Any:
    return deeper()


def group() -> NoReturn:
    error: Any = ValueError("inmost")
    for _ in range(100):
        error = ExceptionGroup("outer", [error])  # noqa: F821  of Python 3.11
    raise error


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def nested() -> list[Any]:
    value: list[Any] = []
    for _ in range(2000):
        value = [value]
    return value


async def promised() -> NoReturn:
    raise ValueError("later")


def cancel() -> None:
    task = asyncio.current_task()
    if task is None:
        raise asyncio.CancelledError
    task.cancel()


WAYS: dict[str, Callable[[], Any]] = {
    "exception": raising(ValueError("why")),
    "tool error": raising(ToolError("Try later.")),
    "denied": raising(Denied("no")),
    "cancelled": raising(Cancelled()),
    "timed out": raising(TimedOut("late")),
    "exit": raising(SystemExit(3)),
    "interrupt": raising(KeyboardInterrupt()),
    "cancellation": raising(asyncio.CancelledError()),
    "cancelled future": raising(concurrent.futures.CancelledError()),
    "cancels its task": cancel,
    "stop": raising(StopIteration(1)),
    "async stop": raising(StopAsyncIteration(1)),
    "generator exit": raising(GeneratorExit()),
    "memory": raising(MemoryError()),
    "recursion": deeper,
    "base exception": raising(Sly()),
    "unshown exception": raising(Evil()),
    "huge message": raising(ValueError("x" * 10_000_000)),
    "group": group if sys.version_info >= (3, 11) else raising(ValueError("no groups yet")),
    "caused": raising(ValueError("why").with_traceback(None)),
    "promise that fails": promised,
    "unserialisable": threading.Lock,
    "function": lambda: len,
    "bytes": lambda: b"\xff\x00",
    "cyclic": cyclic,
    "nested": nested,
    "not a number": lambda: [math.nan, math.inf],
    "half a character": lambda: "\ud800",
    "unshown value": Unshown,
    "unread value": Unread,
    "huge": lambda: "x" * 10_000_000,
    "exception as value": lambda: ValueError("given"),
    "odd result": lambda: ToolResult(error=3),  # type: ignore[arg-type]  # on purpose
}


def plain(way: Callable[[], Any]) -> Tool[..., Any]:
    def fail() -> Any:
        return way()

    return tool(fail)


def later(way: Callable[[], Any]) -> Tool[..., Any]:
    async def fail() -> Any:
        value = way()
        await asyncio.sleep(0)
        return value

    return tool(fail)


def one_by_one(way: Callable[[], Any]) -> Tool[..., Any]:
    def fail() -> Iterator[Any]:
        yield 1
        yield way()

    return tool(fail)


def one_by_one_later(way: Callable[[], Any]) -> Tool[..., Any]:
    async def fail() -> AsyncIterator[Any]:
        yield 1
        yield way()
        await asyncio.sleep(0)

    return tool(fail)


class Owner:
    """Has a method that fails."""

    def __init__(self, way: Callable[[], Any]) -> None:
        self.way = way

    @tool
    def fail(self) -> Any:
        """Fail."""
        return self.way()


POOL: list[Executor] = []


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[None]:
    """A pool of threads for tools that run elsewhere."""
    with ThreadPoolExecutor(2) as executor:
        POOL.append(executor)
        yield
    POOL.clear()


KINDS: dict[str, Callable[[Callable[[], Any]], Tool[..., Any]]] = {
    "sync": plain,
    "async": later,
    "generator": one_by_one,
    "async generator": one_by_one_later,
    "method": lambda way: Owner(way).fail,
    "elsewhere": lambda way: tool(plain(way), executor=POOL[0]),
}


def parallel(made: Tool[..., Any], model: ScriptedModel) -> RunResult:
    return Runner([made, good], model=model).run("Go on.")


def sequential(made: Tool[..., Any], model: ScriptedModel) -> RunResult:
    return Runner([made, good], model=model, order="sequential").run("Go on.")


def streamed(made: Tool[..., Any], model: ScriptedModel) -> RunResult:
    async def main() -> RunResult:
        async with Runner([made, good], model=model).astream("Go on.") as events:
            async for _ in events:
                pass
            return events.result

    return asyncio.run(main())


MODES = {"parallel": parallel, "sequential": sequential, "astream": streamed}


def good(number: int) -> int:
    """Do well."""
    return number


def play(way: str, kind: str, mode: str, model: ScriptedModel) -> RunResult:
    """Run a tool that fails; one that raises KeyboardInterrupt on another thread, since it would end these tests."""
    run = partial(MODES[mode], KINDS[kind](WAYS[way]), model)
    if way != "interrupt":
        return run()
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(run).result()


@pytest.mark.filterwarnings("ignore:coroutine 'promised' was never awaited:RuntimeWarning")
@pytest.mark.parametrize(("way", "kind", "mode"), combine(WAYS, KINDS, MODES))
def test_failure(way: str, kind: str, mode: str) -> None:
    """However a tool fails, each call has one message, in call order; its siblings' are untouched, and the run ends."""
    calls = [call("good", number=1), call("fail"), call("good", number=2)]
    with ScriptedModel([calls, "Done."]) as model:
        result = play(way, kind, mode, model)
    if way == "promise that fails":
        gc.collect()  # a coroutine that nothing awaits warns here, where its warning is ignored
    tool_messages = [message for message in result.messages if isinstance(message, ToolMessage)]

    assert (["good", "fail", "good"], "Done.") == ([message.name for message in tool_messages], result.output)
    assert [("1", False), ("2", False)] == [
        (tool_messages[number].text, tool_messages[number].is_error) for number in (0, 2)
    ]


@pytest.mark.parametrize(
    ("way", "kind", "mode"), combine([way for way, made in WAYS.items() if made.__name__ == "fail"], KINDS, MODES)
)
def test_what_is_raised_is_an_error(way: str, kind: str, mode: str) -> None:
    """Whatever a tool raises is the error of its call, and no reason to end the run."""
    with ScriptedModel([[call("fail")], "Done."]) as model:
        result = play(way, kind, mode, model)

    assert [True] == [finished.result.is_error for finished in result.calls]


@pytest.mark.parametrize(("kind", "mode"), [("sync", "parallel"), ("generator", "sequential"), ("async", "astream")])
def test_interrupt_on_the_main_thread(kind: str, mode: str) -> None:
    """A tool that raises KeyboardInterrupt on the main thread interrupts the run, as Ctrl-C does."""
    with ScriptedModel([[call("fail")]]) as model, pytest.raises(KeyboardInterrupt):
        MODES[mode](KINDS[kind](WAYS["interrupt"]), model)
