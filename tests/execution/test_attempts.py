"""How a call is executed: for how long, how often, and where."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import math
import multiprocessing
import os
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from tests import ways
from tests.apart import fail_there, known_there, where, where_later
from toolkit import (
    Cancelled,
    DefinitionError,
    FatalError,
    Limits,
    NotFound,
    RunHandle,
    Runner,
    RunResult,
    Tool,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)
from toolkit.errors import TimedOut
from toolkit.events import Event, ToolCallAbandoned, ToolCallFinished, ToolCallRetried, ToolCallUpdated
from toolkit.testing import ScriptedModel, call

# Seconds in which a function starts, on a busy machine too.
SOON = 0.5
BOTH = pytest.mark.parametrize("go", [ways.call, ways.acall], ids=["sync", "async"])
STREAMS = pytest.mark.parametrize("go", [ways.read, ways.aread], ids=["stream", "astream"])


def happened(go: Callable[[Runner], list[Event]], *tools: Any, calls: list[ToolCall]) -> list[Event]:
    """Return the events of a run whose model makes these calls, and then is done."""
    return go(Runner(tools, model=ScriptedModel([calls, "Done."])))


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets go what hangs when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def hanging(release: threading.Event, **settings: Any) -> Tool[..., Any]:
    """A tool that hangs in its thread."""

    def hang(number: int = 0) -> int:
        """Hang."""
        release.wait(60)
        return number

    settings.setdefault("timeout", 0.01)
    return tool(hang, **settings)


def hanging_later(**settings: Any) -> Tool[..., Any]:
    """A tool that hangs in its loop."""

    async def hang() -> None:
        """Hang."""
        await asyncio.Event().wait()

    settings.setdefault("timeout", 0.01)
    return tool(hang, **settings)


# -- time

STILL_RUNS = f"{TimedOut.after(0.5).text} What it was doing may still take effect."


@BOTH
def test_timeout_of_a_sync_tool(go: Callable[..., ToolResult], release: threading.Event) -> None:
    """A sync function that takes too long is abandoned, wherever the caller stands."""
    result = go(hanging(release, timeout=SOON))

    assert ("timed_out", STILL_RUNS) == (result.kind, result.text)


@BOTH
def test_timeout_of_an_async_tool(go: Callable[..., ToolResult]) -> None:
    """An async function that takes too long is cancelled."""
    assert "Timed out after 0.01 s." == go(hanging_later()).text


@BOTH
@pytest.mark.parametrize("is_async", [False, True], ids=["sync tool", "async tool"])
def test_enough_time(go: Callable[..., ToolResult], is_async: bool) -> None:
    """A function that is done in time gives its value."""

    async def later() -> str:
        return "done"

    made = tool(later if is_async else lambda: "done", name="made", timeout=60)

    assert ToolResult("done", "done") == go(made)


@BOTH
def test_finally_of_an_async_tool(go: Callable[..., ToolResult]) -> None:
    """A cancelled function has its `finally` run before the call ends."""
    ended: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("finally")

    go(tool(hang, timeout=SOON))

    assert ["finally"] == ended


@BOTH
def test_what_a_cancelled_tool_has(go: Callable[..., ToolResult]) -> None:
    """An async function that is cancelled may give what it has, and that is its result."""

    async def collect() -> ToolResult:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return ToolResult("the first half", error="There was no time for more.", kind="timed_out")

    result = go(tool(collect, timeout=SOON))

    assert ("timed_out", "the first half\nThere was no time for more.") == (result.kind, result.text)


@BOTH
def test_tool_that_swallows_the_cancellation(go: Callable[..., ToolResult]) -> None:
    """An async function that will not end is left to itself, and the model knows."""

    async def stubborn() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    assert STILL_RUNS == go(tool(stubborn, timeout=SOON)).text


@BOTH
def test_tool_that_holds_its_loop(go: Callable[..., ToolResult], caplog: pytest.LogCaptureFixture) -> None:
    """An async function that lets nothing else run, for longer than its timeout, is named in the log."""

    async def block() -> str:
        await asyncio.sleep(0)
        threading.Event().wait(SOON + 0.1)
        return "done"

    assert "done" == go(tool(block, timeout=SOON)).text
    assert caplog.messages[0].startswith("Tool block blocked its event loop for ")
    assert "Make it a sync function" in caplog.messages[0]


@BOTH
def test_exceptions_pass_the_watch(go: Callable[..., ToolResult]) -> None:
    """An async function with a timeout sees what it awaits fail, and continues."""

    async def work() -> str:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        except asyncio.TimeoutError:
            await asyncio.sleep(0)
            return "went on"
        return "not late"

    assert "went on" == go(tool(work, timeout=60)).text


@BOTH
def test_function_that_keeps_running_knows(go: Callable[..., ToolResult]) -> None:
    """A function whose time is up finds so in its context."""
    known, seen = threading.Event(), []

    def watch(context: ToolContext) -> None:
        while not context.cancelled:
            known.wait(0.001)
        seen.append(context.cancellation.reason)
        known.set()

    go(tool(watch, timeout=SOON))

    assert known.wait(10)
    assert seen[0] in ("deadline", "cancelled")


def test_deadline_in_the_context() -> None:
    """A function finds the earlier of the run's deadline and its own."""

    def due(context: ToolContext) -> float | None:
        return context.deadline

    for seconds, earlier in ((600, 60), (6, 6)):
        model, before = ScriptedModel([call("due"), "Done."]), time.monotonic()
        runner = Runner([tool(due, timeout=60)], model=model, limits=Limits(max_seconds=seconds))
        (made,) = runner.run("go").calls

        assert before + earlier <= made.result.value <= time.monotonic() + earlier


@STREAMS
def test_siblings_of_a_late_call(go: Callable[..., Any], release: threading.Event) -> None:
    """A call that takes too long harms no other."""
    calls = [call("hang"), call("len_of", text="four"), call("hang")]
    events = happened(go, hanging(release), tool(len_of), calls=calls)
    kinds = {e.call.id: e.result.kind for e in events if isinstance(e, ToolCallFinished)}

    assert ["timed_out", None, "timed_out"] == [kinds[call_id] for call_id in sorted(kinds)]


def len_of(text: str) -> int:
    """Count."""
    return len(text)


@STREAMS
def test_abandoned_function(go: Callable[..., Any], release: threading.Event) -> None:
    """An abandoned thread is reported, with how many there are."""
    events = happened(go, hanging(release, timeout=SOON), calls=[call("hang"), call("hang")])

    assert 2 == max(event.count for event in events if isinstance(event, ToolCallAbandoned))


@STREAMS
def test_too_many_abandoned_functions(go: Callable[..., Any], release: threading.Event) -> None:
    """A run with too many of them starts no more sync function, with a timeout or without; async ones are."""
    first = [call("hang") for _ in range(200)]  # a thread that starts late is not one abandoned running

    async def later() -> str:
        """Need no thread."""
        return "later"

    model = ScriptedModel([first, [call("hang"), call("len_of", text="four"), call("later")], "Done."])
    events = go(Runner([hanging(release, timeout=2), len_of, later], model=model))
    last = [event.result.text for event in events if isinstance(event, ToolCallFinished)][-3:]

    busy = "Busy: too many earlier calls took too long and are still running."
    assert [busy, busy, "later"] == sorted(text[: len(busy)] for text in last)


# -- tries


class Flaky:
    """Fails so many times, then does its work."""

    def __init__(self, failures: int, error: BaseException) -> None:
        self.failures, self.error, self.keys = failures, error, list[str]()

    def work(self, context: ToolContext) -> int:
        """Work."""
        self.keys.append(context.idempotency_key)
        if context.attempt < self.failures:
            raise self.error
        return context.attempt


@BOTH
def test_retry(go: Callable[..., ToolResult]) -> None:
    """A try that fails is followed by another, which knows its number and has the same key."""
    flaky = Flaky(1, OSError())
    result = go(tool(flaky.work, retries=1, idempotent=True))

    assert (1, 2, 1) == (result.value, len(flaky.keys), len(set(flaky.keys)))


@STREAMS
def test_retry_is_reported(go: Callable[..., Any]) -> None:
    """Each attempt that is followed by another is reported: its number, its error, and the pause."""
    error = OSError("down")
    events = happened(go, tool(Flaky(1, error).work, retries=1, effect="read"), calls=[call("work")])
    reported = [event for event in events if isinstance(event, ToolCallRetried)]

    assert [(0, error)] == [(event.attempt, event.error) for event in reported]
    assert 0.25 <= reported[0].seconds <= 0.5


def test_no_attempt_left() -> None:
    """The last try's failure is the result."""
    flaky = Flaky(9, OSError())

    assert "failed" == ways.call(tool(flaky.work, retries=1, effect="read")).kind
    assert 2 == len(flaky.keys)


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ToolError("no"), {}),
        (NotFound("no"), {}),
        (KeyboardInterrupt(), {}),
        (SystemExit(), {}),
        (ValueError(), {"retry_on": (OSError,)}),
    ],
    ids=["tool error", "not found", "interrupt", "exit", "another exception"],
)
def test_not_worth_another_try(error: BaseException, options: dict[str, Any]) -> None:
    """A ToolError is not retried, and neither is an exception that `retry_on` does not name."""
    flaky = Flaky(9, error)
    with contextlib.suppress(KeyboardInterrupt):
        ways.call(tool(flaky.work, retries=3, effect="read", **options))

    assert 1 == len(flaky.keys)


class Rate(ToolError):
    """Too many requests."""


@pytest.mark.parametrize(
    ("error", "named", "tries"),
    [(Rate("wait"), Rate, 2), (Rate("wait"), ToolError, 2), (Rate("wait"), Exception, 1), (NotFound("no"), Rate, 1)],
    ids=["itself", "its base", "any", "another"],
)
def test_tool_error_that_is_named(error: ToolError, named: type[Exception], tries: int) -> None:
    """A ToolError is retried where `retry_on` names its class."""
    flaky = Flaky(9, error)
    ways.call(tool(flaky.work, retries=1, effect="read", retry_on=(named,)))

    assert tries == len(flaky.keys)


def decide_badly(error: BaseException) -> bool:
    """A rule that fails."""
    raise RuntimeError("no rule")


async def decide_later(error: BaseException) -> bool:
    """A rule that nobody awaits."""
    return False


class Later:
    """A verdict that nobody awaits."""

    def __init__(self, error: BaseException) -> None: ...

    def __await__(self) -> Any: ...


@pytest.mark.parametrize(
    ("rule", "attempts"),
    [
        (lambda error: "later" in str(error), 2),
        (lambda error: "never" in str(error), 1),
        (decide_badly, 1),
        (lambda error: sys.exit(str(error)), 1),
        (lambda error: Later(error), 1),
    ],
    ids=["yes", "no", "fails", "exits", "async"],
)
def test_retry_by_a_function(rule: Callable[[BaseException], bool], attempts: int) -> None:
    """A function of the exception decides about a retry; one that fails allows none."""
    flaky = Flaky(9, ToolError("try later"))
    ways.call(tool(flaky.work, retries=1, effect="read", retry_on=rule))

    assert attempts == len(flaky.keys)


def test_retry_delay() -> None:
    """The pause before a retry doubles, and a random part of up to a half is left out."""
    made = tool(Flaky(2, OSError()).work, retries=2, effect="read", retry_delay=0.01)
    events = happened(ways.read, made, calls=[call("work")])
    first, second = [event.seconds for event in events if isinstance(event, ToolCallRetried)]

    assert 0.005 <= first <= 0.01 <= second <= 0.02


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"retry_on": OSError}, "retry_on=<class 'OSError'> is not a tuple of exception classes"),
        ({"retry_delay": 0}, "retry_delay=0 is not a number of seconds above 0"),
        ({"retry_delay": math.inf}, "retry_delay=inf is not a number of seconds above 0, at most 1,000,000."),
        ({"retry_delay": math.nan}, "retry_delay=nan is not a number of seconds above 0"),
        ({"timeout": math.inf}, "timeout=inf is not a number of seconds above 0, at most 1,000,000."),
        ({"retry_on": decide_later}, "or a function of an exception, which is not async."),
        ({"retry_on": partial(decide_later)}, "or a function of an exception, which is not async."),
    ],
    ids=["class", "no delay", "endless delay", "no number", "endless timeout", "async", "async partial"],
)
def test_invalid_retry_options(options: Any, text: str) -> None:
    """A class alone is not a rule, nor is a coroutine function, and a delay is a number of seconds."""
    with pytest.raises(DefinitionError, match=re.escape(text)):
        tool(Flaky(0, OSError()).work, **options)


def test_fatal_error_is_not_tried_again() -> None:
    """A fatal error ends the run at the first try."""
    flaky = Flaky(9, FatalError())

    with pytest.raises(FatalError):
        ways.call(tool(flaky.work, retries=3, effect="read"))
    assert 1 == len(flaky.keys)


@BOTH
def test_another_try_after_the_time(go: Callable[..., ToolResult]) -> None:
    """Each try has the whole time; one that was late is followed by another."""
    tries: list[int] = []

    async def hang(context: ToolContext) -> str:
        tries.append(context.attempt)
        await asyncio.Event().wait()
        return "never"

    result = go(tool(hang, timeout=0.01, retries=1, effect="read"))

    assert ("timed_out", [0, 1]) == (result.kind, tries)


@BOTH
def test_cancelled_between_tries(go: Callable[..., ToolResult]) -> None:
    """A run that is cancelled during the pause tries no more."""
    context, flaky = ToolContext(deps=None), Flaky(9, OSError())

    def work(own: ToolContext) -> None:
        try:
            flaky.work(own)
        finally:
            context.cancellation.cancel()  # from here on nothing waits for this thread

    toolbox = Toolbox([tool(work, retries=5, effect="read")])
    result = toolbox.call("work", {}, context) if go is ways.call else asyncio.run(toolbox.acall("work", {}, context))

    assert ("cancelled", 1) == (result.kind, len(flaky.keys))


@BOTH
def test_call_that_comes_too_late(go: Callable[..., ToolResult]) -> None:
    """A call of a run that is over does not enter the function."""
    context, entered = ToolContext(deps=None), []
    context.cancellation.cancel()
    toolbox = Toolbox([tool(lambda: entered.append(1), name="enter")])
    result = toolbox.call("enter", {}, context) if go is ways.call else asyncio.run(toolbox.acall("enter", {}, context))

    assert (Cancelled, []) == (type(result.exception), entered)


# -- places


@pytest.fixture(scope="module")
def threads() -> Iterator[Executor]:
    """A pool of two threads."""
    with ThreadPoolExecutor(2, thread_name_prefix="pool") as executor:
        yield executor


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    """A pool of one process, which has to find everything again."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


@BOTH
@pytest.mark.parametrize("is_async", [False, True], ids=["sync tool", "async tool"])
def test_thread_pool(go: Callable[..., ToolResult], is_async: bool, threads: Executor) -> None:
    """A function runs in the executor's thread; an async one in a loop of its own there."""

    def name() -> str:
        return threading.current_thread().name

    async def name_later() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    result = go(tool(name_later if is_async else name, executor=threads))

    assert result.value.startswith("pool")


@BOTH
@pytest.mark.parametrize("made", [where, where_later], ids=["sync tool", "async tool"])
def test_process_pool(go: Callable[..., ToolResult], made: Tool[..., Any], processes: Executor) -> None:
    """A function runs in the executor's process; its result is made here."""
    result = go(tool(made, executor=processes), number=1)

    assert (True, str(result.value)) == (result.value != os.getpid(), result.text)


@pytest.mark.parametrize("how", ["value error", "exit", "interrupt", "stop", "local", "unusual", "unsendable"])
def test_failures_in_a_process_pool(how: str, processes: Executor) -> None:
    """However a function fails there, its call has a result, and the pool continues."""
    made = tool(fail_there, executor=processes)

    assert "failed" == ways.call(made, how=how).kind
    assert ways.call(tool(where, executor=processes), number=1).error is None


def test_broken_pool() -> None:
    """A pool whose process dies makes the call fail, not the run."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        result = ways.call(tool(fail_there, executor=executor), how="os exit")

    assert "failed" == result.kind


def test_cancelled_while_it_is_submitted() -> None:
    """A call that is cancelled before its executor has taken it is cancelled, and has not failed."""

    class Busy(ThreadPoolExecutor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            runner.cancel()
            return Future()

    runner = Runner([tool(len_of, executor=Busy(1))], model=ScriptedModel([call("len_of", text="four")]))

    assert ["cancelled"] == [done.result.kind for done in runner.run("go").calls]


def test_closed_executor() -> None:
    """An executor that takes nothing any more makes the call fail, not the run."""
    executor = ThreadPoolExecutor(1)
    executor.shutdown()

    assert "failed" == ways.call(tool(len_of, executor=executor), text="four").kind


def test_local_function_in_a_process_pool(processes: Executor) -> None:
    """A function that no other process finds is refused, with what to do."""

    def local() -> None:
        pass

    with pytest.raises(DefinitionError, match=r"at the top of a module"):
        ways.call(tool(local, executor=processes))


NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="unset")


@BOTH
def test_context_variables_in_a_thread_pool(go: Callable[..., ToolResult], threads: Executor) -> None:
    """A function in a thread pool sees the caller's context variables."""
    made = tool(lambda: NAME.get(), name="look", executor=threads)

    def run() -> Any:
        NAME.set("set")
        return go(made).value

    assert "set" == contextvars.copy_context().run(run)


@BOTH
def test_late_in_an_executor(go: Callable[..., ToolResult], threads: Executor, release: threading.Event) -> None:
    """A function in an executor has no more time than others."""
    assert STILL_RUNS == go(hanging(release, executor=threads, timeout=SOON)).text


@BOTH
def test_wait_for_a_place(go: Callable[..., ToolResult], release: threading.Event) -> None:
    """The time of a function in a pool of threads starts when it does, for its context too."""
    with ThreadPoolExecutor(1) as executor:
        executor.submit(threading.Event().wait, 0.6)

        def work(context: ToolContext) -> bool:
            release.wait(0.6)
            return context.cancelled

        assert go(tool(work, executor=executor, timeout=1)).value is False


class Reluctant(ThreadPoolExecutor):
    """An executor that takes its time to take anything."""

    def __init__(self, release: threading.Event) -> None:
        super().__init__(1)
        self.release, self.taken = release, threading.Event()

    def submit(self, *call: Any, **options: Any) -> Any:
        self.release.wait(60)
        future = super().submit(*call, **options)
        self.taken.set()
        return future


@BOTH
def test_executor_that_takes_nothing(go: Callable[..., ToolResult], release: threading.Event) -> None:
    """An executor that is slow to take a call costs no more time than the tool has."""
    with Reluctant(release) as executor:
        result = go(tool(len_of, executor=executor, timeout=0.05), text="four")
        release.set()
        assert executor.taken.wait(10)

    assert "timed_out" == result.kind


@BOTH
def test_busy_executor(go: Callable[..., ToolResult], release: threading.Event) -> None:
    """A call that did not get a place in time says so, and does not start."""
    started: list[int] = []
    with ThreadPoolExecutor(1) as executor:
        executor.submit(release.wait, 60)
        result = go(tool(lambda: started.append(1), name="made", executor=executor, timeout=0.3))
        release.set()

    assert TimedOut.after(0.3, "not started, its executor was busy.").text == result.text
    assert [] == started


def test_context_in_a_process_pool(processes: Executor) -> None:
    """A function that asks for a context gets a copy there."""
    context = ToolContext(deps="mine", call_id="c1")
    made = tool(known_there, executor=processes)

    assert "mine c1 0 False" == Toolbox([made]).call("known_there", {}, context).value


# -- updates


def count(to: int) -> Iterator[int]:
    """Count."""
    yield from range(to)


async def count_later(to: int) -> AsyncIterator[int]:
    """Count."""
    for number in range(to):
        yield number


@STREAMS
@pytest.mark.parametrize("made", [count, count_later], ids=["sync", "async"])
def test_updates_of_a_generator(go: Callable[..., Any], made: Any) -> None:
    """Each value of a generator is an update, as it comes; all of them are the result."""
    events = happened(go, tool(made, name="count"), calls=[call("count", to=2)])

    assert ["0", "1"] == [e.partial.text for e in events if isinstance(e, ToolCallUpdated) and e.partial]
    assert ["[0,1]"] == [e.result.text for e in events if isinstance(e, ToolCallFinished)]


@STREAMS
def test_progress(go: Callable[..., Any]) -> None:
    """The progress of a tool is reported; the model never sees it."""

    def work(context: ToolContext) -> str:
        """Work."""
        context.progress("half")
        context.update(["first"])
        return "done"

    events = happened(go, tool(work), calls=[call("work")])
    reported = [(e.text, e.partial and e.partial.text) for e in events if isinstance(e, ToolCallUpdated)]

    assert [("half", None), ("", '["first"]')] == reported


@STREAMS
def test_progress_comes_at_once(go: Callable[..., Any]) -> None:
    """An update arrives while its function is running."""
    received = threading.Event()

    def work(context: ToolContext) -> bool:
        """Work."""
        context.progress("started")
        return received.wait(10)

    runner = Runner([work], model=ScriptedModel([[call("work")], "Done."]))
    result = received_in(go, runner, received)

    assert [True] == [finished.result.value for finished in result.calls]


def received_in(go: Callable[..., Any], runner: Runner, received: threading.Event) -> RunResult:
    """Read the events of a run, and set an event when an update is among them."""

    def look(event: Event) -> None:
        if isinstance(event, ToolCallUpdated):
            received.set()

    async def main() -> RunResult:
        async with runner.astream("Go on.") as events:
            async for event in events:
                look(event)
            return events.result

    if go is ways.aread:
        return asyncio.run(main())
    with runner.stream("Go on.") as events:
        for event in events:
            look(event)
        return events.result


@STREAMS
def test_update_of_an_attempt_that_has_ended(go: Callable[..., Any]) -> None:
    """An update of an abandoned attempt does not count as the next one's."""
    answered, started = threading.Event(), threading.Event()

    def work(context: ToolContext) -> str:
        """Say something too late."""
        if context.attempt:
            started.set()
            answered.wait(10)
            return "second"
        started.wait(10)
        context.progress("too late")
        answered.set()
        return "first"

    events = happened(go, tool(work, timeout=SOON, retries=1, effect="read"), calls=[call("work")])

    assert answered.is_set()
    assert [] == [event for event in events if isinstance(event, ToolCallUpdated)]


@STREAMS
def test_update_of_a_call_that_has_ended(go: Callable[..., Any], release: threading.Event) -> None:
    """An update of a function whose call was abandoned is dropped."""
    answered = threading.Event()

    def late(context: ToolContext) -> None:
        """Say something too late."""
        while not context.cancelled:
            release.wait(0.001)
        release.wait(0.05)
        context.progress("too late")
        answered.set()

    def wait() -> bool:
        """Wait for it."""
        return answered.wait(10)

    events = happened(go, tool(late, timeout=3 * SOON), tool(wait), calls=[call("late"), call("wait")])

    assert answered.is_set()
    assert [] == [event for event in events if isinstance(event, ToolCallUpdated)]


# -- places


class Crowd:
    """Knows how many were inside at the same time."""

    def __init__(self) -> None:
        self.most = self._inside = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1


def meeting(size: int, **settings: Any) -> tuple[Tool[..., Any], Crowd]:
    """A tool whose calls end when so many of them have met; and who was there."""
    crowd, barrier = Crowd(), threading.Barrier(size)

    def meet(number: int) -> int:
        """Meet."""
        with crowd:
            barrier.wait(10)
        return number

    return tool(meet, **settings), crowd


@STREAMS
def test_max_parallel(go: Callable[..., Any]) -> None:
    """As many calls of a tool run at the same time as it says, and no more."""
    made, crowd = meeting(3, max_parallel=3)
    events = happened(go, made, calls=[call("meet", number=number) for number in range(9)])

    results = [event.result.value for event in events if isinstance(event, ToolCallFinished)]
    assert (3, list(range(9))) == (crowd.most, sorted(results))


def test_max_parallel_of_all_runs() -> None:
    """The runs of a process share a tool's places, under whatever name it has there."""
    made, crowd = meeting(2, max_parallel=2)

    def started(each: Tool[..., Any]) -> RunHandle:
        calls = [call(each.name, number=number) for number in range(4)]
        return Runner([each], model=ScriptedModel([calls, "Done."])).start("Go.")

    handles = [started(each) for each in (made, made.with_name("also"))]

    assert ["Done.", "Done."] == [handle.result(10).output for handle in handles]
    assert 2 == crowd.most


def test_first_come_first_served() -> None:
    """The calls that wait for a place get it in their order."""
    order: list[int] = []

    async def work(number: int) -> None:
        order.append(number)
        await asyncio.sleep(0)

    happened(ways.aread, tool(work, max_parallel=1), calls=[call("work", number=number) for number in range(6)])

    assert [0, 1, 2, 3, 4, 5] == order


@BOTH
def test_wait_for_a_place_ends(go: Callable[..., ToolResult], release: threading.Event) -> None:
    """A call whose run is over leaves the queue, and takes nobody's place."""
    entered = threading.Event()

    def hang() -> str:
        entered.set()
        release.wait(60)
        return "done"

    made = tool(hang, max_parallel=1)
    first = Runner([made], model=ScriptedModel([call("hang"), "Done."])).start("Go.")
    entered.wait(10)
    context, toolbox = ToolContext(deps=None), Toolbox([made])
    threading.Timer(0.05, context.cancellation.cancel).start()
    late = toolbox.call("hang", "{}", context) if go is ways.call else asyncio.run(toolbox.acall("hang", "{}", context))
    release.set()

    assert ("cancelled", "Done.", "done") == (late.kind, first.result(10).output, go(made).text)


def test_wait_for_a_place_is_not_timed(release: threading.Event) -> None:
    """The time of a call counts from where it has a place."""
    made = hanging(release, max_parallel=1, timeout=SOON)
    events = happened(ways.read, made, calls=[call("hang", number=number) for number in range(3)])

    texts = [event.result.kind for event in events if isinstance(event, ToolCallFinished)]
    assert (["timed_out"] * 3, 3) == (texts, sum(isinstance(event, ToolCallAbandoned) for event in events))


def test_places_in_a_copy() -> None:
    """Settings with places may be copied, and so sent to another process."""
    settings = tool(max_parallel=2)(lambda: 1).settings

    assert settings == copy.deepcopy(settings)
