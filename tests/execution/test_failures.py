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
from toolkit import ApprovalRequest, Runner, RunResult, Session, Tool, ToolError, ToolResult, tool
from toolkit.errors import Cancelled, Denied, TimedOut
from toolkit.models import ToolMessage
from toolkit.testing import ScriptedModel, call


class Evil(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> NoReturn:
        raise ValueError("no")

    __repr__ = __str__


class Stop(BaseException):
    """An exception with which a host takes its thread back, as gevent, Streamlit and dramatiq do."""


class PanicException(BaseException):
    """What Rust code raises when it panics."""


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
    "panic": raising(PanicException()),
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
    """However a tool fails, each call has one message, in call order; its siblings' are untouched, and the run ends.

    Whatever is raised is an error.
    """
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
    assert tool_messages[1].is_error or WAYS[way].__name__ != "fail"


@pytest.mark.parametrize(("kind", "mode"), [("sync", "parallel"), ("generator", "sequential"), ("async", "astream")])
def test_interrupt_on_the_main_thread(kind: str, mode: str) -> None:
    """A tool that raises KeyboardInterrupt on the main thread interrupts the run, as Ctrl-C does."""
    with ScriptedModel([[call("fail")]]) as model, pytest.raises(KeyboardInterrupt):
        MODES[mode](KINDS[kind](WAYS["interrupt"]), model)


@pytest.mark.parametrize(("kind", "mode"), [("sync", "parallel"), ("generator", "sequential"), ("async", "astream")])
def test_host_takes_its_thread_back(kind: str, mode: str) -> None:
    """What is no `Exception` ends the run if it is raised on the application's thread; the run so far is kept."""
    chat, fail = Session(), KINDS[kind](raising(Stop()))
    runner = Runner([fail], model=ScriptedModel([call("fail")]), order="sequential")
    with pytest.raises(Stop) as caught:
        asyncio.run(runner.arun("Go.", session=chat)) if mode == "astream" else runner.run("Go.", session=chat)

    assert "cancelled" == caught.value.result.finish_reason  # type: ignore[attr-defined]  # the run adds it
    assert [True] == [message.is_error for message in chat.messages if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("mode", ["parallel", "start"])
def test_stop_on_a_thread_of_the_library(mode: str) -> None:
    """On a thread that no host waits for it is the error of its call."""
    calls = [call("fail")] * (2 if mode == "parallel" else 1)
    runner = Runner([tool(raising(Stop()), name="fail", effect="read")], model=ScriptedModel([calls, "Done."]))
    result = runner.run("Go.") if mode == "parallel" else runner.start("Go.").result(10)

    assert {True} == {finished.result.is_error for finished in result.calls}
    assert "Done." == result.output


def test_stop_in_a_gate() -> None:
    """An approver on the application's thread that is taken back ends the run, too; the tool does not run."""
    ran: list[int] = []
    runner = Runner([tool(lambda: ran.append(1), name="go")], model=ScriptedModel([call("go")]), approve=stop)
    with pytest.raises(Stop):
        runner.run("Go.")

    assert not ran


def stop(_: ApprovalRequest) -> NoReturn:
    raise Stop
