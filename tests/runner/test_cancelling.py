"""Runs that are cancelled, left or late: they end at once, with a history to continue from."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.servers import FakeServer
from tests.ways import arun, astream, run, start, stream
from toolkit import (
    AsyncRunStream,
    Decision,
    FatalError,
    Halt,
    Limits,
    ModelError,
    RunHandle,
    Runner,
    RunResult,
    RunState,
    RunStream,
    ToolContext,
    tool,
)
from toolkit.events import (
    ApprovalNeeded,
    Event,
    RunFinished,
    TextDelta,
    ToolCallAbandoned,
    ToolCallFinished,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
)
from toolkit.models import Message, ModelRequest, ModelResponse, ToolMessage
from toolkit.testing import Reply, ScriptedModel, call, reply

Stream = RunStream | AsyncRunStream | RunHandle


class Silent:
    """A model that sends nothing, or one word after the other, without end; `asked` is set once it has started."""

    name = "silent"

    def __init__(self, *, is_async: bool, drips: bool = False) -> None:
        self.is_async = is_async
        self.drips = drips
        self.asked = threading.Event()
        self.release = threading.Event()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        while not self.release.is_set():
            await self.pause()
        return ModelResponse(text="late")

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        while not self.release.is_set():
            await self.pause()
            yield TextDelta("x")
        yield ModelResponse(text="late")

    async def pause(self) -> None:
        self.asked.set()
        if self.is_async:
            await asyncio.sleep(0.005 if self.drips else 60)
        else:
            self.release.wait(0.005 if self.drips else 60)


@pytest.fixture(params=["sync silent", "sync dripping", "async silent", "async dripping"])
def silent(request: pytest.FixtureRequest) -> Iterator[Silent]:
    model = Silent(is_async="async" in request.param, drips="dripping" in request.param)
    yield model
    model.release.set()


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages]


WAYS = pytest.mark.parametrize("go", [run, arun, stream, astream, start])


def later(runner: Runner, when: threading.Event) -> None:
    """Cancel the runner's run from another thread, as soon as `when` is set."""
    threading.Thread(target=lambda: when.wait(10) and runner.cancel()).start()


# -- when


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_before_the_run(way: str) -> None:
    """A run that is cancelled before it starts calls no model."""
    model = ScriptedModel(["ok"])
    with Runner(model=model).stream("go") as events:
        events.cancel()
        list(events)

    assert ("cancelled", "", []) == (events.result.finish_reason, events.result.output, model.requests)


@pytest.mark.parametrize("go", [arun, astream, start])
def test_while_the_model_answers(silent: Silent, go: Callable[[Runner], RunResult]) -> None:
    """A run in a loop or in the background leaves a model that it waits for, at once."""
    runner = Runner(model=silent)
    later(runner, silent.asked)
    result = go(runner)

    assert ("cancelled", ["go"]) == (result.finish_reason, texts(result.messages))


@pytest.mark.parametrize("go", [run, stream])
def test_while_an_async_model_answers(go: Callable[[Runner], RunResult]) -> None:
    """A run on its caller's thread leaves an async model at once, too."""
    model = Silent(is_async=True)
    runner = Runner(model=model)
    later(runner, model.asked)

    assert "cancelled" == go(runner).finish_reason


def test_between_pieces() -> None:
    """A stream on its caller's thread ends with the piece of the answer at which it was cancelled."""
    model = Silent(is_async=False, drips=True)
    with Runner(model=model).stream("go") as events:
        for event in events:
            if isinstance(event, TextDelta):
                events.cancel()

    assert ("cancelled", ["go"]) == (events.result.finish_reason, texts(events.result.messages))


@WAYS
def test_between_calls(go: Callable[[Runner], RunResult]) -> None:
    """A tool that cancels its own run ends; the calls behind it do not start, and the model is not called again."""
    ran: list[int] = []

    @tool(effect="write")
    def work(n: int) -> int:
        """Work."""
        ran.append(n)
        return int(runner.cancel())

    model = ScriptedModel([[call("work", n=n) for n in range(3)], "never"])
    runner = Runner([work], model=model)
    result = go(runner)

    assert ([0], 1, "cancelled", ["Cancelled"] * 2) == (
        ran, len(model.requests), result.finish_reason, texts(result.messages)[3:]
    )  # fmt: skip


@pytest.mark.parametrize("go", [run, stream])
def test_between_values(go: Callable[[Runner], RunResult]) -> None:
    """A generator on its caller's thread ends with the value at which its run was cancelled, and is closed."""
    read_stream: list[object] = []

    @tool
    def draw() -> Iterator[int]:
        """Draw."""
        try:
            for n in range(3):
                read_stream.append(n)
                runner.cancel()
                yield n
        finally:
            read_stream.append("closed")

    runner = Runner([draw], model=ScriptedModel([[call("draw")], "never"]))
    result = go(runner)

    assert ([0, "closed"], "cancelled", ["cancelled"]) == (
        read_stream, result.finish_reason, [done.result.kind for done in result.calls]
    )  # fmt: skip


def test_promise_that_nobody_awaits() -> None:
    """What a function returns after its run was cancelled is dropped, without a coroutine that was never awaited."""
    left, returned = threading.Event(), threading.Event()

    async def count() -> AsyncIterator[int]:
        yield 1

    def work() -> Any:
        """Work."""
        try:
            runner.cancel()
            left.wait(10)
            return count()
        finally:
            returned.set()

    runner = Runner([work], model=ScriptedModel([[call("work")], "never"]))

    async def main() -> None:
        await runner.arun("go")
        left.set()
        await asyncio.to_thread(returned.wait, 10)
        await asyncio.sleep(0.05)  # for the rest of the thread

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()

    assert [] == [str(each.message) for each in caught]


STILL_RUNS = "Cancelled: what it was doing may still take effect."
HAD_STARTED = "Cancelled: it had started, and its effects stay."
HAD_LATE = "Timed out. It had started, and its effects stay."
ENDED_HERE = "The run ended at this call; its effects stay."


def waiting(kind: str, running: threading.Event, release: threading.Event) -> Any:
    """A tool of some kind that sets an event when it runs, and runs for long."""

    def sync() -> None:
        """Wait."""
        running.set()
        release.wait(60)

    @tool
    def looking(context: ToolContext) -> str:
        """Wait, and look whether that is still wanted."""
        running.set()
        while not context.cancelled:
            release.wait(0.001)
        return "ended"

    @tool
    async def asynchronous() -> None:
        """Wait."""
        running.set()
        await asyncio.sleep(60)

    return {"sync": tool(sync), "timed": tool(sync, timeout=60), "looking": looking, "async": asynchronous}[kind]


@pytest.mark.parametrize("go", [arun, astream, start])
@pytest.mark.parametrize("kind", ["sync", "timed", "looking", "async"])
@pytest.mark.parametrize("count", [1, 3])
def test_during_calls(count: int, kind: str, go: Callable[[Runner], RunResult]) -> None:
    """Running calls are abandoned, whatever their kind, and each has its result."""
    running, release = threading.Event(), threading.Event()
    each = waiting(kind, running, release)
    runner = Runner([each], model=ScriptedModel([[call(each.name)] * count, "never"]))
    later(runner, running)
    result = go(runner)
    release.set()

    assert ("cancelled", count) == (result.finish_reason, len(result.calls))
    assert set(texts(result.messages)[2:]) <= {
        "Cancelled",
        HAD_STARTED,
        STILL_RUNS,
        "ended",
    }  # one that looks may be quick


@pytest.mark.parametrize("go", [run, stream])
@pytest.mark.parametrize("kind", ["looking", "async", "timed"])
def test_during_a_call_on_this_thread(kind: str, go: Callable[[Runner], RunResult]) -> None:
    """A run on its caller's thread ends, too, where its tool looks, is async, or has a time."""
    running, release = threading.Event(), threading.Event()
    each = waiting(kind, running, release)
    runner = Runner([each], model=ScriptedModel([[call(each.name)], "never"]))
    later(runner, running)
    result = go(runner)
    release.set()

    assert ("cancelled", 1) == (result.finish_reason, len(result.calls))


@WAYS
def test_during_approval(go: Callable[[Runner], RunResult]) -> None:
    """A question that is open when the run is cancelled counts no more: its call does not run."""
    asked, ran = threading.Event(), threading.Event()

    async def approve(_: Any) -> bool:
        asked.set()
        await asyncio.sleep(60)
        return True

    @tool
    def work() -> None:
        """Work."""
        ran.set()

    runner = Runner([work], model=ScriptedModel([[call("work")], "never"]), approve=approve)
    later(runner, asked)
    result = go(runner)

    assert ("cancelled", "Cancelled", False) == (result.finish_reason, result.messages[-1].text, ran.is_set())


@WAYS
def test_during_the_pause_before_another_try(go: Callable[[Runner], RunResult]) -> None:
    """A call that waits for another try is not tried again."""
    tried: list[int] = []
    failed = threading.Event()

    @tool(idempotent=True, retries=9)
    def work() -> None:
        """Work."""
        tried.append(len(tried))
        failed.set()
        raise OSError

    runner = Runner([work], model=ScriptedModel([[call("work")], "never"]))
    later(runner, failed)

    assert ("cancelled", True) == (go(runner).finish_reason, len(tried) < 9)


# -- how often


@pytest.mark.parametrize("go", [run, arun, stream, astream, start])
def test_reaches_runs_within(go: Callable[[Runner], RunResult]) -> None:
    """Cancelling a run cancels the runs that its tools have started."""
    running, ended, outcomes = threading.Event(), threading.Event(), list[str]()

    @tool
    def deep(context: ToolContext) -> None:
        """Work until it is cancelled."""
        off = threading.Event()
        context.cancellation.subscribe(off.set)
        running.set()
        assert off.wait(10)

    @tool
    def ask() -> None:
        """Ask another model."""
        outcomes.append(Runner([deep], model=ScriptedModel([[call("deep")], "ok"])).run("dig").finish_reason)
        ended.set()

    runner = Runner([ask], model=ScriptedModel([[call("ask")], "ok"]))
    later(runner, running)

    assert "cancelled" == go(runner).finish_reason
    assert ended.wait(10)
    assert ["cancelled"] == outcomes


@pytest.mark.parametrize("go", [run, arun])
def test_by_a_signal(go: Callable[[Runner], RunResult]) -> None:
    """A signal's handler may cancel at any moment, in the midst of the bookkeeping of runs and cancellations too."""
    runner = Runner([look], model=ScriptedModel([[call("look", n=1)], "ok"]))
    handled: list[bool] = []

    def signalled(frame: Any, event: str, arg: object) -> Any:
        if frame.f_code.co_filename.endswith(("control.py", "cancellation.py")):
            signal.raise_signal(signal.SIGTERM)
        return signalled

    former = signal.signal(signal.SIGTERM, lambda *_: handled.append(runner.cancel()))
    tracer = sys.gettrace()
    sys.settrace(signalled)
    try:
        result = go(runner)
    finally:
        sys.settrace(tracer)
        signal.signal(signal.SIGTERM, former)

    assert ("cancelled", 1) == (result.finish_reason, handled.count(True))


def test_all_runs_of_a_runner() -> None:
    """A runner cancels all of its runs, and returns whether there was one to cancel."""
    runner = Runner(model=ScriptedModel(["ok", "ok"]))
    with runner.stream("a") as first, runner.stream("b") as second:
        outcomes = runner.cancel(), runner.cancel()
        results = [(list(events), events.result.finish_reason)[1] for events in (first, second)]

    assert ((True, False), ["cancelled"] * 2, False) == (outcomes, results, runner.cancel())


def test_closed_from_another_thread() -> None:
    """A stream that another thread reads ends when it is closed."""
    model = Silent(is_async=False, drips=True)
    events = Runner(model=model).stream("go")
    drawing = threading.Thread(target=lambda: list(events))
    drawing.start()
    assert model.asked.wait(10)
    events.close()
    drawing.join(10)
    model.release.set()

    assert (False, "cancelled") == (drawing.is_alive(), events.result.finish_reason)


def test_twice() -> None:
    """The first cancel counts; a second one, and one after the end, does nothing."""
    with Runner(model=ScriptedModel(["ok"])).stream("go") as events:
        first, second = events.cancel(), events.cancel()
        list(events)

    assert (True, False, False) == (first, second, events.cancel())


def test_after_the_end() -> None:
    """To cancel a run that has ended changes nothing."""
    with Runner(model=ScriptedModel(["ok"])).stream("go") as events:
        list(events)

    assert (False, "stop") == (events.cancel(), events.result.finish_reason)


def test_storm() -> None:
    """Of a hundred cancels from a hundred threads one counts."""
    model = Silent(is_async=False)
    handle = Runner(model=model).start("go")
    assert model.asked.wait(10)
    together, counted = threading.Barrier(100), list[bool]()

    def cancel() -> None:
        together.wait(10)
        counted.append(handle.cancel())

    threads = [threading.Thread(target=cancel) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    model.release.set()

    assert (1, 100, "cancelled") == (sum(counted), len(counted), handle.result(10).finish_reason)


# -- leaving


@tool(effect="read")
def look(n: int) -> int:
    """Look."""
    return n


SCRIPT: list[Any] = [
    [call("look", n=1), call("look", n=2)],
    [call("look", n=3), call("nobody")],
    "Two words.",
]


def went(number: int) -> RunResult:
    """The result of a stream that is left at its event of this number."""
    with Runner([look], model=ScriptedModel(SCRIPT)).stream("go") as events:
        for _ in range(number):
            next(events)
    return events.result


def awent(number: int) -> RunResult:
    """The same of an async one."""

    async def main() -> RunResult:
        async with Runner([look], model=ScriptedModel(SCRIPT)).astream("go") as events:
            for _ in range(number):
                await events.__anext__()
        return events.result

    return asyncio.run(main())


# How many events the whole run has.
COUNT = 20


def test_count() -> None:
    """The run that is left below has so many events."""
    assert COUNT == len(list(Runner([look], model=ScriptedModel(SCRIPT)).stream("go")))


@pytest.mark.parametrize("number", range(COUNT + 1))
@pytest.mark.parametrize("leave", [went, awent], ids=["stream", "astream"])
def test_left_at(number: int, leave: Callable[[int], RunResult]) -> None:
    """A stream that is left at any event has a result, whose history a strict server continues from."""
    result = leave(number)
    with FakeServer([reply.text("Yes.")], strict=True) as server:
        on = Runner([look], model="fake", base_url=server.base_url).run("And now?", messages=result.messages)

    assert ("Yes.", "cancelled" if number < COUNT else "stop") == (on.output, result.finish_reason)
    assert [] == [done.call.id for done in result.calls if done.call.id not in str(result.messages)]


def test_left_before_its_beginning() -> None:
    """A stream that was closed before it started has a result too, and takes no more messages."""
    events = Runner(model=ScriptedModel(["ok"])).stream("go")
    events.close()

    assert ("cancelled", ["go"]) == (events.result.finish_reason, texts(events.result.messages))


# -- Ctrl-C and tasks


def interrupt(when: threading.Event) -> None:
    """Press Ctrl-C, once the main thread waits: Python looks no more for a signal that came just before."""

    def press() -> None:
        assert when.wait(10)
        threading.Event().wait(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=press).start()


@pytest.mark.skipif(sys.platform == "win32", reason="no signal reaches the process itself there")
@pytest.mark.parametrize("go", [run, stream])
def test_interrupt_while_the_model_answers(silent: Silent, go: Callable[[Runner], RunResult]) -> None:
    """Ctrl-C leaves `run` as KeyboardInterrupt, with the run's result."""
    interrupt(silent.asked)
    with pytest.raises(KeyboardInterrupt) as caught:
        go(Runner(model=silent))

    assert "cancelled" == caught.value.result.finish_reason  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.platform == "win32", reason="no signal reaches the process itself there")
@pytest.mark.parametrize(("count", "text"), [(1, HAD_STARTED), (3, STILL_RUNS)], ids=["one", "three"])
def test_interrupt_during_calls(count: int, text: str) -> None:
    """Ctrl-C while tools work leaves a history in which each call has a result."""
    running, release = threading.Event(), threading.Event()
    each = waiting("sync", running, release)
    interrupt(running)
    with pytest.raises(KeyboardInterrupt) as caught:
        Runner([each], model=ScriptedModel([[call("sync")] * count])).run("go")
    release.set()
    result: RunResult = caught.value.result  # type: ignore[attr-defined]

    assert ["go", "", *[text] * count] == texts(result.messages)


@pytest.mark.parametrize("way", ["arun", "astream"])
def test_task(silent: Silent, way: str) -> None:
    """A task that is cancelled leaves with asyncio's own error, which has the run's result; no task is left."""

    left: list[str] = []

    async def main() -> int:
        runner = Runner(model=silent)

        async def read_stream() -> None:
            try:
                await runner.arun("go") if way == "arun" else [event async for event in runner.astream("go")]
            except asyncio.CancelledError as error:
                left.append(error.result.finish_reason)  # type: ignore[attr-defined]
                raise

        task = asyncio.create_task(read_stream())
        await asyncio.to_thread(silent.asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(asyncio.all_tasks())

    assert (1, ["cancelled"]) == (asyncio.run(main()), left)


class Interrupted:
    """A runner with a model that calls two async tools at once; one returns what it has when it is cancelled."""

    def __init__(self, calls: int = 2) -> None:
        self.started = threading.Event()
        self.waiting = calls
        model = ScriptedModel([[call("count"), call("wait")][:calls], "Done."])
        self.runner = Runner([self.count, self.wait], model=model)

    @tool
    async def count(self) -> str:
        try:
            await self._wait()
        except asyncio.CancelledError:
            return "3 of 7"
        return "all"

    @tool
    async def wait(self) -> str:
        await self._wait()
        return "all"

    async def _wait(self) -> None:
        self.waiting -= 1
        if not self.waiting:
            self.started.set()
        await asyncio.sleep(60)

    def when_started(self, cancel: Callable[[], object]) -> None:
        threading.Thread(target=lambda: self.started.wait(10) and cancel()).start()


def leave_stream(subject: Interrupted) -> RunResult:
    with subject.runner.stream("go") as events:
        subject.when_started(events.cancel)
        list(events)
    return events.result


def cancel_handle(subject: Interrupted) -> RunResult:
    handle = subject.runner.start("go")
    subject.when_started(handle.cancel)
    return handle.result(10)


def cancel_async_stream(subject: Interrupted) -> RunResult:
    async def main() -> RunResult:
        async with subject.runner.astream("go") as events:
            subject.when_started(events.cancel)
            _ = [event async for event in events]
        return events.result

    return asyncio.run(main())


def find_result(error: asyncio.CancelledError) -> RunResult:
    """Return the result that an error has outside of its task: Python 3.10 puts another one in front of it."""
    result: RunResult = vars(error).get("result") or vars(error.__context__)["result"]
    return result


def cancel_task(subject: Interrupted) -> RunResult:
    async def main() -> RunResult:
        task = asyncio.ensure_future(subject.runner.arun("go"))
        await asyncio.to_thread(subject.started.wait, 10)
        task.cancel()
        try:
            return await task
        except asyncio.CancelledError as error:
            return find_result(error)

    return asyncio.run(main())


def cancel_task_of_stream(subject: Interrupted) -> RunResult:
    async def main() -> RunResult:
        async def iterate() -> None:
            async with subject.runner.astream("go") as events:
                _ = [event async for event in events]

        task = asyncio.ensure_future(iterate())
        await asyncio.to_thread(subject.started.wait, 10)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            return find_result(error)
        raise AssertionError

    return asyncio.run(main())


@pytest.mark.parametrize(("catches", "text"), [(True, '["first","last"]'), (False, HAD_STARTED)])
def test_values_of_an_interrupted_generator(catches: bool, text: str) -> None:
    """An async generator that catches its cancellation keeps its values; one that does not is cancelled."""
    started = threading.Event()

    async def count() -> AsyncIterator[str]:
        """Count."""
        yield "first"
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not catches:
                raise
            yield "last"

    handle = Runner([count], model=ScriptedModel([call("count"), "never"])).start("go")
    assert started.wait(10)
    handle.cancel()

    assert [text] == [end.result.text for end in handle.result(10).calls]


def test_slow_returns_of_interrupted_calls() -> None:
    """Calls that take a while to return after a cancellation keep their results, all of them."""
    started = threading.Semaphore(0)

    async def wait() -> str:
        """Wait."""
        started.release()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.25)
        return "partial"

    handle = Runner([wait], model=ScriptedModel([[call("wait")] * 4, "never"])).start("go")
    for _ in range(4):
        assert started.acquire(timeout=10)
    handle.cancel()

    assert ["partial"] * 4 == [end.result.text for end in handle.result(10).calls]


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("end", [leave_stream, cancel_handle, cancel_async_stream, cancel_task, cancel_task_of_stream])
def test_what_interrupted_calls_return(end: Callable[[Interrupted], RunResult], calls: int) -> None:
    """However a run is cancelled, what an async tool then returns is its result."""
    result = end(Interrupted(calls))
    answers = {message.name: message.text for message in result.messages if isinstance(message, ToolMessage)}

    assert dict([("count", "3 of 7"), ("wait", HAD_STARTED)][:calls]) == answers
    assert answers == {end.call.name: end.result.text for end in result.calls}


@WAYS
def test_cancelled_call_as_it_ran(go: Callable[[Runner], RunResult]) -> None:
    """A cancelled call that an approver has changed says what ran, with the title of its tool."""
    started = threading.Event()

    @tool(title="Pay a bill")
    async def pay(amount: int) -> None:
        """Pay."""
        started.set()
        await asyncio.sleep(60)

    model = ScriptedModel([call("pay", amount=70), "never"])
    runner = Runner([pay], model=model, approve=lambda _: Decision.modify({"amount": 50}))
    later(runner, started)
    end = go(runner).calls[0]

    assert end.ran is not None
    assert ('{"amount":50}', "Pay a bill", HAD_STARTED) == (end.ran.arguments, end.title, end.result.text)


@pytest.mark.parametrize("count", [1, 3])
@WAYS
def test_sync_tool_that_ends_at_once(count: int, go: Callable[[Runner], RunResult]) -> None:
    """What a sync tool returns just after the cancellation is its result, in an event loop, too."""

    @tool
    def stop() -> str:
        """Stop the run."""
        runner.cancel()
        time.sleep(0.001)
        return "stopped"

    calls = [call("stop"), *[call("look", n=n) for n in range(count - 1)]]
    runner = Runner([stop, look], model=ScriptedModel([calls, "never"]))

    assert "stopped" == go(runner).calls[0].result.text


def test_cancelled_run_leaves_its_task_alone() -> None:
    """A run that is cancelled by `cancel` does not cancel the task in which it runs."""

    async def main() -> tuple[str, int]:
        events = Runner(model=Silent(is_async=True)).astream("go")
        asyncio.get_running_loop().call_later(0.01, events.cancel)
        async with events:
            _ = [event async for event in events]
        await asyncio.sleep(0)
        return events.result.finish_reason, len(asyncio.all_tasks())

    assert ("cancelled", 1) == asyncio.run(main())


# -- what leaves has the result


@WAYS
def test_error_has_the_result(go: Callable[[Runner], RunResult]) -> None:
    """Whatever leaves a run brings its result along: all that was done, and a whole history."""
    with pytest.raises(ModelError) as caught:
        go(Runner([look], model=ScriptedModel([[call("look", n=7)], ModelError("down")])))
    result: RunResult = caught.value.result

    assert ("error", ["go", "", "7"], 1) == (result.finish_reason, texts(result.messages), len(result.calls))


def end_of(go: Callable[[], RunResult]) -> RunResult:
    """Return the result of a run, of one that a tool has ended as well."""
    try:
        return go()
    except FatalError as error:
        result: RunResult = error.result
        return result


@pytest.mark.parametrize("order", ["parallel", "sequential"])
@WAYS
def test_fatal_error_keeps_its_siblings(order: Any, go: Callable[[Runner], RunResult]) -> None:
    """A tool that ends the run costs no other call the result that it has."""

    @tool
    def work(n: int) -> int:
        """Work."""
        if n == 1:
            raise FatalError("the end")
        return n

    # One place: the second call of a batch starts once the first has its result.
    model = ScriptedModel([[call("work", n=0), call("work", n=1)]])
    runner = Runner([work], model=model, order=order, max_parallel=1)
    with pytest.raises(FatalError) as caught:
        go(runner)
    result: RunResult = caught.value.result

    assert (["go", "", "0", ENDED_HERE], 2) == (texts(result.messages), len(result.calls))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync tool", "async tool"])
@WAYS
def test_halt_of_a_tool(is_async: bool, go: Callable[[Runner], RunResult]) -> None:
    """A tool ends the run with an answer; each call has a result, and the next run finds the answer in the history."""

    async def close() -> str:
        """Close."""
        raise Halt("The shop is closed.")

    def close_now() -> str:
        """Close."""
        raise Halt("The shop is closed.")

    tools = [tool(close if is_async else close_now, name="close"), tool(lambda: "done", name="work")]
    model = ScriptedModel([[call("work"), call("close"), call("work")]])
    result = go(Runner(tools, model=model, order="sequential"))

    assert ("The shop is closed.", "halted") == (result.output, result.finish_reason)
    assert ["go", "", "done", ENDED_HERE, "Cancelled", "The shop is closed."] == texts(result.messages)


@pytest.mark.parametrize("order", ["parallel", "sequential"])
@pytest.mark.parametrize("error", [Halt("the end"), FatalError("the end")], ids=["halt", "fatal"])
def test_events_of_the_last_turn(order: Any, error: Exception) -> None:
    """Each call of a turn in which a tool ends the run has one event of its start, and then one of its end."""

    @tool
    def work(n: int) -> int:
        """Work."""
        if n == 1:
            raise error
        return n

    calls, events = [call("work", n=n) for n in range(4)], list[Event]()
    stream = Runner([work], model=ScriptedModel([calls]), order=order).stream("go")
    with suppress(FatalError):
        events.extend(stream)
    starts = [event.call.id for event in events if isinstance(event, ToolCallStarted)]
    ends = [event.call.id for event in events if isinstance(event, ToolCallFinished)]

    assert ([each.call.id for each in stream.result.calls], starts) == (starts, sorted(ends))
    assert 4 == len(starts)


@pytest.mark.parametrize("end", ["halt", "fatal", "cancel", "limit"])
@WAYS
def test_started_and_waiting_calls(end: str, go: Callable[[Runner], RunResult]) -> None:
    """The result of a cancelled call says that its function had started; one that waited for its place says nothing."""
    started, entered = threading.Event(), list[int]()

    @tool(max_parallel=1)
    async def transfer() -> None:
        """Transfer."""
        entered.append(1)
        started.set()
        await asyncio.sleep(60)

    @tool
    def finish() -> None:
        """End the run."""
        assert started.wait(10)
        if end in ("halt", "fatal"):
            raise Halt("the end") if end == "halt" else FatalError("the end")
        if end == "cancel":
            runner.cancel()

    limits = Limits(max_seconds=0.5) if end == "limit" else Limits()
    script: list[Any] = [[call("transfer"), call("transfer"), call("finish")], "So far."]
    runner = Runner([transfer, finish], model=ScriptedModel(script), limits=limits)
    calls = end_of(lambda: go(runner)).calls
    answers = sorted(str(each.result.text) for each in calls if each.call.name == "transfer")

    bare = [answer for answer in answers if answer in ("Cancelled", "Timed out.")]
    assert len(bare) + len(entered) <= 2  # a cancelled call frees its place
    assert end in ("halt", "fatal") or [HAD_LATE if end == "limit" else HAD_STARTED] == answers[1:]


@pytest.mark.parametrize("leaves", [False, True], ids=["cancel", "leave"])
@pytest.mark.parametrize("moment", [TurnFinished, ToolCallStarted, ApprovalNeeded, ToolCallFinished])
def test_calls_that_have_no_result(moment: type[Event], leaves: bool) -> None:
    """Wherever a run is cancelled, its calls are those of its messages; a stream that is read on has their ends."""

    @tool
    def pay(n: int) -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([[call("pay", n=n) for n in range(1, 5)], "never"])
    events, limits = list[Event](), Limits(max_calls_per_turn=2)
    runner = Runner(
        [pay], model=model, limits=limits, approve=lambda asked: asked.arguments["n"] == 1 or Decision.defer()
    )
    with runner.stream("go") as stream:
        for event in stream:
            events.append(event)
            if leaves and type(event) is moment:
                break
            if type(event) is moment:
                stream.cancel()
    result = stream.result
    answers = {message.call_id: message.text for message in result.messages if isinstance(message, ToolMessage)}

    assert answers == {end.call.id: end.result.text for end in result.calls}
    assert leaves or {*answers} == {event.call.id for event in events if isinstance(event, ToolCallFinished)}
    assert leaves or {*answers} == {event.call.id for event in events if isinstance(event, ToolCallStarted)}


@WAYS
def test_waiting_call_of_a_stopped_run(go: Callable[[Runner], RunResult]) -> None:
    """A call that waits for approval when an approver stops the run is among the calls, with its result."""
    decisions = iter([Decision.defer(), Decision.stop("enough")])
    model = ScriptedModel([[call("look", n=1), call("look", n=2)], "never"])
    result = go(Runner([look], model=model, approve=lambda _: next(decisions), order="sequential"))
    answers = [message.text for message in result.messages if isinstance(message, ToolMessage)]

    assert (2, answers) == (len(answers), [end.result.text for end in result.calls])


class Halting:
    def after_call(self, made: Any, result: Any, context: Any) -> None:
        if made.name == "quick":
            raise Halt("Enough.")


@pytest.mark.parametrize("end", ["fatal", "quick"])
@WAYS
def test_end_beside_a_running_call(end: str, go: Callable[[Runner], RunResult]) -> None:
    """A tool or a hook that ends the run leaves no doubt about the effects of calls that have started."""
    started, release = threading.Event(), threading.Event()

    @tool
    def transfer() -> None:
        """Transfer."""
        started.set()
        release.wait(10)

    @tool
    def fatal() -> None:
        """Fail."""
        assert started.wait(10)
        raise FatalError("the end")

    @tool
    def quick() -> None:
        """Be quick."""
        assert started.wait(10)

    tools = [transfer, fatal, quick]
    script = [[call("transfer"), call(end)]]
    result = end_of(lambda: go(Runner(tools, model=ScriptedModel(script), hooks=[Halting()])))
    release.set()

    assert ["go", "", STILL_RUNS, ENDED_HERE] == texts(result.messages)[:4]


def test_stream_left_beside_a_running_call() -> None:
    """Of a call that still runs when its stream is left, the history says so."""
    release = threading.Event()

    @tool
    def transfer(context: ToolContext) -> None:
        """Transfer."""
        context.progress("started")
        release.wait(10)

    with Runner([transfer], model=ScriptedModel([[call("transfer"), call("transfer")]])).stream("go") as stream:
        next(event for event in stream if isinstance(event, ToolCallUpdated))
    release.set()

    assert STILL_RUNS in texts(stream.result.messages)


def test_model_that_raises_our_own_error() -> None:
    """A model that raises what means that a run is over, though it is not, has failed."""
    from toolkit import Cancelled

    with pytest.raises(ModelError, match="The model failed: Cancelled"):
        Runner(model=ScriptedModel([Cancelled("mine")])).run("go")


@pytest.mark.parametrize("go", [run, stream, start])
def test_async_model_that_cancels_itself(go: Callable[[Runner], RunResult]) -> None:
    """An async model that cancels itself, as a client may that gives up, has failed."""
    model = ScriptedModel([asyncio.CancelledError()], is_async=True)
    with pytest.raises(ModelError, match="The model failed: CancelledError"):
        go(Runner(model=model))


@pytest.mark.parametrize("go", [run, stream, start])
def test_async_model_that_cancels_itself_with_the_run(go: Callable[[Runner], RunResult]) -> None:
    """An async model may cancel itself when its run is cancelled. The run has not failed then."""

    def give_up(_: object) -> str:
        runner.cancel()
        raise asyncio.CancelledError

    runner = Runner(model=ScriptedModel(give_up, is_async=True))

    assert "cancelled" == go(runner).finish_reason


# -- deadlines


@WAYS
def test_run_that_is_late(silent: Silent, go: Callable[[Runner], RunResult]) -> None:
    """A run whose time is up while the model answers ends there, whatever the model does."""
    result = go(Runner(model=silent, limits=Limits(max_seconds=0.05, on_limit="stop")))

    prompt, note = texts(result.messages)
    assert ("max_seconds", "go") == (result.finish_reason, prompt)
    assert note.startswith("[Agent stopped: Max duration reached (")


@WAYS
def test_turn_that_is_late(silent: Silent, go: Callable[[Runner], RunResult]) -> None:
    """An answer that takes longer than a turn may, silent or dripping, is the model's failure."""
    with pytest.raises(ModelError, match=r"did not complete its answer within 0\.05 s"):
        go(Runner(model=silent, limits=Limits(max_seconds_per_turn=0.05)))


@pytest.mark.parametrize("answer", [reply.hang(), reply.text("x" * 500, split=1).dripping(20, 0.02)])
@WAYS
def test_server_that_is_late(go: Callable[[Runner], RunResult], answer: Reply) -> None:
    """A server cannot outlast a turn, however slowly it drips."""
    with FakeServer(lambda _: answer) as server, pytest.raises(ModelError, match="did not complete its answer within"):
        go(Runner(model="fake", base_url=server.base_url, limits=Limits(max_seconds_per_turn=0.1)))


LATE = "Timed out. What it was doing may still take effect."


@WAYS
def test_late_calls(go: Callable[[Runner], RunResult]) -> None:
    """Calls that run when the time is up have a result that says so; the model answers with what there is."""
    release = threading.Event()
    each = waiting("sync", threading.Event(), release)
    runner = Runner([each], model=ScriptedModel([[call("sync")], "So far."]), limits=Limits(max_seconds=0.5))
    result = go(runner)
    release.set()

    assert ("So far.", "max_seconds", LATE) == (result.output, result.finish_reason, result.messages[2].text)


# -- in the background


def test_handle() -> None:
    """A run in the background has a state, a result and its events."""
    handle = Runner([look], model=ScriptedModel([[call("look", n=1)], "ok"])).start("go")
    result = handle.result(10)

    assert ("completed", "ok", RunFinished) == (handle.status, result.output, type(list(handle.events())[-1]))


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (["ok"], "completed"),
        ([ModelError("down")], "failed"),
        ([[call("guarded")], "ok"], "paused"),
    ],
    ids=["completed", "failed", "paused"],
)
def test_status(script: list[Any], status: str) -> None:
    """The status of a run in the background is one word."""

    @tool(approve=True)
    def guarded() -> None:
        """Ask first."""

    handle = Runner([guarded], model=ScriptedModel(script), approve=lambda _: Decision.defer()).start("go")
    list(handle.events())

    assert status == handle.status


def test_status_of_an_active_run() -> None:
    """The status of a run in the background is running; that of a cancelled one is cancelled."""
    model = Silent(is_async=False)
    handle = Runner(model=model).start("go")
    assert model.asked.wait(10)
    before = handle.status
    handle.cancel()
    handle.result(10)
    model.release.set()

    assert ("running", "cancelled") == (before, handle.status)


def test_result_that_is_not_there_yet() -> None:
    """To wait for a result has an end, which does not end the run."""
    model = Silent(is_async=False)
    handle = Runner(model=model).start("go")
    with pytest.raises(TimeoutError, match=r"has not ended after 0\.01 s; it goes on"):
        handle.result(0.01)
    model.release.set()

    assert "late" == handle.result(10).output


def test_two_listeners() -> None:
    """Every listener gets all events, whenever it starts."""
    handle = Runner([look], model=ScriptedModel([[call("look", n=1)], "ok"])).start("go")
    first: list[Event] = []
    listener = threading.Thread(target=lambda: first.extend(handle.events()))
    listener.start()
    second = list(handle.events())
    listener.join(10)

    assert (first, True) == (second, len(first) > 5)


def test_awaited() -> None:
    """A run in the background can be awaited; cancelling the wait does not end it."""

    async def main() -> tuple[str, str]:
        model = Silent(is_async=False)
        handle = Runner(model=model).start("go")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(handle, 0.02)
        before = handle.status
        model.release.set()
        return before, (await handle).output

    assert ("running", "late") == asyncio.run(main())


def test_error_in_the_background() -> None:
    """What a run in the background raises is raised where its result is asked for, each time."""
    handle = Runner(model=ScriptedModel([ModelError("down")])).start("go")

    for _ in range(2):
        with pytest.raises(ModelError, match="down"):
            handle.result(10)


def test_started_calls_of_a_cancelled_run() -> None:
    """Each call that is reported to start is reported to finish, cancelled or not."""
    running, release = threading.Event(), threading.Event()
    each = waiting("sync", running, release)
    runner = Runner([each], model=ScriptedModel([[call("sync")] * 3]))
    later(runner, running)
    handle = runner.start("go")
    events = list(handle.events())
    release.set()
    kinds = [type(event) for event in events]

    assert (3, 3) == (kinds.count(ToolCallStarted), kinds.count(ToolCallFinished))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("kind", ["sync", "timed"])
def test_abandoned_functions_are_reported(kind: str, count: int) -> None:
    """A cancelled run reports each function that still runs, and its result says that it may still take effect."""
    running, release = threading.Event(), threading.Event()
    each = waiting(kind, running, release)
    runner = Runner([each], model=ScriptedModel([[call("sync")] * count]), max_parallel=1)
    later(runner, running)
    handle = runner.start("go")
    events = list(handle.events())
    release.set()
    ends = [event.result.text for event in events if isinstance(event, ToolCallFinished)]

    assert [STILL_RUNS, *["Cancelled"] * (count - 1)] == sorted(map(str, ends), reverse=True)
    assert ["sync"] == [event.call.name for event in events if isinstance(event, ToolCallAbandoned)]


def test_abandoned_functions_are_counted() -> None:
    """A function that still runs after its run has ended is counted in the result."""
    running, release = threading.Event(), threading.Event()
    each = waiting("sync", running, release)
    runner = Runner([each], model=ScriptedModel([[call("sync")]]))
    later(runner, running)
    result = start(runner)
    release.set()

    assert 1 == result.abandoned


def test_cancelled_while_its_end_is_saved() -> None:
    """A run whose task is cancelled while its end is saved is saved once, and stays finished."""
    saved: list[str] = []
    tasks: list[asyncio.Task[RunResult]] = []

    async def checkpoint(state: RunState) -> None:
        saved.append(state.finish_reason or state.phase)
        if saved.count("stop") == 1:
            tasks[0].cancel()
            await asyncio.sleep(0)

    async def main() -> RunResult:
        tasks.append(asyncio.ensure_future(Runner(model=ScriptedModel(["Hi."]), checkpoint=checkpoint).arun("go")))
        try:
            return await tasks[0]
        except asyncio.CancelledError as error:
            return find_result(error)

    result = asyncio.run(main())

    assert ("Hi.", ["asking", "stop"]) == (result.output, saved)
