"""The events of a run: what they are, in which order, and that a stream that is left leaves nothing behind."""

import asyncio
import gc
import io
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import openai
import pytest

from tests import ways
from tests.servers import FakeServer
from toolkit import FatalError, Limits, ModelError, NoModelError, RunError, Runner, ToolError, Usage, tool
from toolkit.display import Story, Transcript
from toolkit.events import (
    ReasoningDelta,
    ResultsAdded,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnFinished,
    TurnStarted,
    event_to_dict,
)
from toolkit.models import ModelRequest, ModelResponse
from toolkit.testing import Reply, ScriptedModel, call, reply


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def test_repr() -> None:
    """A stream and a handle say whether their run has ended."""
    stream = Runner(model=ScriptedModel(["Hi."])).stream("x")
    handle = Runner(model=ScriptedModel(["Hi."])).start("x")

    assert "<RunStream, not ended: iterate over its events>" == repr(stream)
    assert [*stream] and "<RunStream, ended: stop>" == repr(stream)
    assert handle.result() and "<RunHandle, completed>" == repr(handle)


BOTH = pytest.mark.parametrize("draw", [ways.read, ways.aread], ids=["stream", "astream"])


# -- what they are


@BOTH
def test_order(draw: Callable[[Runner], list[Any]]) -> None:
    """Events come in the order of the run, from RunStarted to RunFinished."""
    events = draw(Runner([add], model=ScriptedModel([[call("add", a=1)], "Two words."])))

    assert [
        RunStarted, TurnStarted, TurnFinished, ToolCallStarted, ToolCallFinished, ResultsAdded,
        TurnStarted, TextDelta, TextDelta, TurnFinished, RunFinished,
    ] == [type(event) for event in events]  # fmt: skip


@BOTH
def test_results_of_a_turn(draw: Callable[[Runner], list[Any]]) -> None:
    """The results of a turn are reported as the model reads them, in call order; refused calls are among them."""
    script: list[Any] = [[call("add", a=1), call("add", a=2), call("add", a=3)], [call("add", a=4)], "Done."]
    events = draw(Runner([add], model=ScriptedModel(script), limits=Limits(max_calls_per_turn=2, max_turns=1)))

    added = [event for event in events if isinstance(event, ResultsAdded)]
    started = [event for event in events if isinstance(event, ToolCallStarted)]
    assert [(0, 3), (1, 1)] == [(event.turn, len(event.messages)) for event in added]
    assert [("add", '{"a": 1}'), ("add", '{"a": 2}')] == [(event.name, event.arguments) for event in started[1:3]]
    assert [False, False, True, True] == [message.is_error for event in added for message in event.messages]


@BOTH
def test_facts(draw: Callable[[Runner], list[Any]]) -> None:
    """Events name model, turn, words, cost and reason."""
    events = draw(Runner([add], model=ScriptedModel(["Two words."])))
    response = ModelResponse(text="Two words.", finish_reason="stop", usage=Usage(requests=1), model="scripted")

    assert [
        RunStarted(run_id=events[0].run_id, model="scripted"),
        TurnStarted(turn=0),
        TextDelta("Two"),
        TextDelta(" words."),
        TurnFinished(turn=0, response=response),
        RunFinished(output="Two words.", finish_reason="stop", usage=Usage(requests=1)),
    ] == events


@BOTH
def test_finished_call(draw: Callable[[Runner], list[Any]]) -> None:
    """A finished call shows name, arguments, result, time and what was raised."""

    def fail() -> None:
        """Fail."""
        raise ToolError("no")

    events = draw(Runner([fail], model=ScriptedModel([[call("fail")], "Done."])))
    (finished,) = [event for event in events if isinstance(event, ToolCallFinished)]

    assert ("fail", "{}", "no") == (finished.name, finished.arguments, finished.result.text)
    assert isinstance(finished.exception, ToolError)


@BOTH
def test_calls_start_in_call_order(draw: Callable[[Runner], list[Any]]) -> None:
    """All calls of a turn are reported to start, in call order, before any of them ends."""
    events = draw(Runner([add], model=ScriptedModel([[call("add", a=n) for n in range(3)], "Done."])))
    started = [event.call.arguments for event in events[3:6] if isinstance(event, ToolCallStarted)]

    assert [f'{{"a": {n}}}' for n in range(3)] == started


def test_calls_finish_as_they_come() -> None:
    """A call's end is reported when it comes, though an earlier call is still running."""
    release = threading.Event()

    def work(n: int) -> int:
        """Work."""
        return n if n else int(release.wait(10)) - 1

    finished = []
    with Runner([work], model=ScriptedModel([[call("work", n=n) for n in range(3)], "Done."])).stream("x") as events:
        for event in events:
            if isinstance(event, ToolCallFinished):
                finished.append(event.result.value)
            if len(finished) == 2:
                release.set()

    assert (0, [0, 1, 2]) == (finished[2], [finished.result.value for finished in events.result.calls])


@BOTH
def test_reasoning_and_text(draw: Callable[[Runner], list[Any]]) -> None:
    """Reasoning and text of a server come as deltas of their own, in order, whichever client reads them."""
    deltas: list[dict[str, Any]] = [
        {"reasoning_content": "Hm."},
        {"reasoning": "Ah."},
        {"content": "Hi"},
        {"content": "."},
    ]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    with FakeServer([reply.chunks([*chunks, end])]) as server:
        events = draw(Runner(base_url=server.base_url, model="fake"))

    assert [ReasoningDelta("Hm."), ReasoningDelta("Ah."), TextDelta("Hi"), TextDelta(".")] == [
        event for event in events if isinstance(event, (TextDelta, ReasoningDelta))
    ]


# -- results


def test_result_of_a_stream() -> None:
    """A stream that was read to its end has the result that run would have given."""
    with Runner([add], model=ScriptedModel([[call("add", a=1)], "Done."])).stream("x") as events:
        list(events)

    assert ("Done.", "stop", 1) == (events.result.output, events.result.finish_reason, len(events.result.calls))


def test_result_of_an_astream() -> None:
    """An async stream that was read to its end has a result too."""

    async def main() -> str:
        events = Runner(model=ScriptedModel(["Done."])).astream("x")
        _ = [event async for event in events]
        return events.result.output

    assert "Done." == asyncio.run(main())


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_no_result_before_the_end(count: int) -> None:
    """Before the end there is no result, and the error says what to do."""
    with Runner([add], model=ScriptedModel([[call("add", a=1)], "Done."])).stream("x") as events:
        for _ in range(count):
            next(events)
        with pytest.raises(RunError, match="has not ended: read its events to the end first"):
            _ = events.result


def test_no_result_of_an_astream_before_the_end() -> None:
    """An async stream has no result before its end either."""
    with pytest.raises(RunError, match="has not ended"):
        _ = Runner(model=ScriptedModel(["Done."])).astream("x").result


def test_nothing_happens_before_the_first_event() -> None:
    """A stream that nobody reads calls no model."""
    model = ScriptedModel(["Hi."])
    with Runner(model=model).stream("x"):
        pass

    assert [] == model.requests


def test_closed_stream_has_no_events() -> None:
    """A stream that was closed does not start, nor continue."""
    model = ScriptedModel(["Hi."])
    events = Runner(model=model).stream("x")
    events.close()
    events.close()

    assert ([], []) == (list(events), model.requests)


def test_closed_astream_has_no_events() -> None:
    """The same for an async stream."""

    async def main() -> list[Any]:
        events = Runner(model=ScriptedModel(["Hi."])).astream("x")
        await events.aclose()
        return [event async for event in events]

    assert [] == asyncio.run(main())


def test_stream_is_over_after_an_error() -> None:
    """A stream that has raised is at its end."""
    events = Runner(model=ScriptedModel([ModelError("down")])).stream("x")
    with pytest.raises(ModelError, match="down"):
        list(events)

    assert [] == list(events)


def test_no_model() -> None:
    """A missing model is an error at the first event."""
    with pytest.raises(NoModelError, match="names a model, but not its server"):
        next(Runner(model="nobody's").stream("x"))


# -- leaving early

TALK = reply.text("a b c d e f", split=1)
HELD = TALK.held(400)


class Watched:
    """A model that streams without end and keeps a record of being closed."""

    name = "watched"

    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async
        self.closed = 0
        self._end = threading.Event()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        try:
            while True:
                if self.is_async:
                    await asyncio.sleep(0)
                yield TextDelta("x")
        finally:
            try:
                if self.is_async:
                    await asyncio.sleep(0)  # on a busy machine this takes its second, and is cancelled again
            finally:
                self.closed += 1
                self._end.set()

    def wait(self) -> int:
        """Return how often it was closed; on a busy machine, an async model is left before it has closed."""
        self._end.wait(10)
        return self.closed


@pytest.fixture(params=[False, True], ids=["sync model", "async model"])
def watched(request: pytest.FixtureRequest) -> Watched:
    return Watched(is_async=request.param)


def leave(events: Any) -> None:
    with events:
        next(event for event in events if isinstance(event, TextDelta))


async def aleave(events: Any) -> None:
    async with events:
        async for event in events:
            if isinstance(event, TextDelta):
                break


def test_leaving_closes_the_model(watched: Watched) -> None:
    """A stream that is left has closed the model's stream when the with block ends."""
    leave(Runner(model=watched).stream("x"))

    assert 1 == watched.wait()


def test_leaving_an_astream_closes_the_model(watched: Watched) -> None:
    """The same for an async stream, before the loop continues."""

    async def main() -> int:
        await aleave(Runner(model=watched).astream("x"))
        return watched.closed

    assert 1 == asyncio.run(main())


def test_breaking_without_a_with_block(watched: Watched) -> None:
    """A loop that is left without a with block closes the model's stream too, once nobody holds the run's."""
    assert any(isinstance(event, TextDelta) for event in Runner(model=watched).stream("x"))

    gc.collect()

    assert 1 == watched.wait()


def test_exception_in_the_consumer(watched: Watched) -> None:
    """An exception in the with block leaves as it is, and the model's stream is closed."""

    def consume(events: Any) -> None:
        with events:
            next(event for event in events if isinstance(event, TextDelta))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        consume(Runner(model=watched).stream("x"))

    assert 1 == watched.wait()


def test_exception_in_the_async_consumer(watched: Watched) -> None:
    """The same in an async with block."""

    async def main() -> None:
        async with Runner(model=watched).astream("x") as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(main())

    assert 1 == watched.closed


def test_leaving_inside_a_running_loop(watched: Watched) -> None:
    """A sync stream that is left where a loop is running, as in a notebook, is closed at once."""

    async def cell() -> int:
        leave(Runner(model=watched).stream("x"))
        return watched.wait()

    assert 1 == asyncio.run(cell())


@pytest.fixture
def server() -> Iterator[Callable[[Reply], FakeServer]]:
    servers: list[FakeServer] = []

    def serve(answer: Reply) -> FakeServer:
        servers.append(FakeServer(lambda _: answer))
        return servers[-1]

    yield serve
    for each in servers:
        each.close()


@pytest.mark.parametrize("answer", [TALK.dripping(200, 0.001), HELD], ids=["talking", "silent"])
def test_leaving_closes_the_connection(server: Callable[[Reply], FakeServer], answer: Reply) -> None:
    """A client has no connection open when a stream was left."""
    with openai.OpenAI(base_url=server(answer).base_url, api_key="test", max_retries=0) as client:
        runner = Runner(model="fake", client=client)
        leave(runner.stream("x"))
        before = len(pool(client))
        leave(runner.stream("x"))

        assert (0, 0) == (before, len(pool(client)))


@pytest.mark.parametrize("answer", [TALK.dripping(200, 0.001), HELD], ids=["talking", "silent"])
def test_leaving_an_astream_closes_the_connection(server: Callable[[Reply], FakeServer], answer: Reply) -> None:
    """An async client has no connection open either, before the loop continues."""

    async def main() -> int:
        async with openai.AsyncOpenAI(base_url=server(answer).base_url, api_key="test", max_retries=0) as client:
            await aleave(Runner(model="fake", client=client).astream("x"))
            return len(pool(client))

    assert 0 == asyncio.run(main())


def test_error_within_a_stream_closes_the_connection(server: Callable[[Reply], FakeServer]) -> None:
    """A stream that fails has closed its connection while the error is still in hand."""
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": "x"}}]},
        {"choices": [{"delta": {"content": "y"}}], "error": 1},
    ]
    base_url = server(reply.chunks(chunks).held()).base_url
    with openai.OpenAI(base_url=base_url, api_key="test", max_retries=0) as client:
        with pytest.raises(ModelError) as caught, Runner(model="fake", client=client).stream("x") as events:
            list(events)

        assert (0, True) == (len(pool(client)), caught.tb is not None)


def pool(client: Any) -> list[Any]:
    """The connections that a client has open."""
    connections: list[Any] = client._client._transport._pool.connections
    return connections


def test_leaving_while_tools_work() -> None:
    """Leaving an async stream cancels the calls of the turn, and has seen them end."""
    ended: list[int] = []

    async def main() -> list[int]:
        async def work(n: int) -> int:
            """Work."""
            try:
                await asyncio.Event().wait() if n else None
            finally:
                ended.append(n)
            return n

        script: list[Any] = [[call("work", n=n) for n in range(3)], "Done."]
        async with Runner([work], model=ScriptedModel(script)).astream("x") as events:
            async for event in events:
                if isinstance(event, ToolCallFinished):
                    break
        return sorted(ended)

    assert [0, 1, 2] == asyncio.run(main())


def test_leaving_while_threads_work() -> None:
    """Leaving a stream does not wait for calls on other threads; those end by themselves."""
    release = threading.Event()
    threads: list[threading.Thread] = []

    def work(n: int) -> None:
        """Work."""
        if n:
            threads.append(threading.current_thread())
            release.wait(10)

    with Runner([work], model=ScriptedModel([[call("work", n=n) for n in range(3)], "Done."])).stream("x") as events:
        next(event for event in events if isinstance(event, ToolCallFinished))
    release.set()
    for thread in threads:
        thread.join(10)

    assert [False] * len(threads) == [thread.is_alive() for thread in threads]


def test_cancelling_while_a_sync_client_waits(server: Callable[[Reply], FakeServer]) -> None:
    """A deadline over an async stream of a sync client is kept, and leaves as what it is."""
    silent = server(TALK.held(400))
    with openai.OpenAI(base_url=silent.base_url, api_key="test", max_retries=0) as client:

        async def main() -> None:
            async with Runner(model="fake", client=client).astream("x") as events:
                async for _ in events:
                    pass

        async def hurried() -> None:
            await asyncio.wait_for(main(), 0.1)

        with pytest.raises(asyncio.TimeoutError):
            asyncio.run(hurried())
        silent.close()


def test_abandoned_read_still_closes_the_source() -> None:
    """A read that was abandoned on its thread ends first; then the source is closed."""
    drawing, release, closed = threading.Event(), threading.Event(), threading.Event()

    class Slow(Watched):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            try:
                drawing.set()
                release.wait(10)
                yield TextDelta("x")
            finally:
                closed.set()

    async def main() -> None:
        running = asyncio.ensure_future(aleave(Runner(model=Slow(is_async=False)).astream("x")))
        await asyncio.to_thread(drawing.wait, 10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    release.set()

    assert closed.wait(10)


def test_keyboard_interrupt_while_an_async_model_thinks() -> None:
    """A KeyboardInterrupt in a sync stream of an async model leaves as it is, and the model's stream has ended."""
    ended: list[str] = []

    class Thinking(Watched):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            try:
                yield TextDelta("x")
                asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
                await asyncio.Event().wait()
            finally:
                for _ in range(5):
                    await asyncio.sleep(0)
                ended.append("ended")

    with pytest.raises(KeyboardInterrupt), Runner(model=Thinking(is_async=True)).stream("x") as events:
        list(events)

    assert ["ended"] == ended


def test_fatal_error_in_a_stream() -> None:
    """A FatalError leaves a stream after the end of its call."""

    def fail() -> None:
        """Fail."""
        raise FatalError("no more")

    seen: list[type] = []
    with (
        pytest.raises(FatalError, match="no more"),
        Runner([fail], model=ScriptedModel([[call("fail")]])).stream("x") as events,
    ):
        seen.extend(type(event) for event in events)

    assert [RunStarted, TurnStarted, TurnFinished, ToolCallStarted, ToolCallFinished] == seen


@tool(title="Add numbers")
def add_up(a: int) -> int:
    """Add up."""
    return a


@pytest.mark.parametrize("calls", [[call("add_up", a=1)], [call("add_up", a="x")], [call("add_up", a=1)] * 2])
def test_titles(calls: list[Any]) -> None:
    """The events of a call, the result and the transcripts have the tool's title; what the model reads has not."""
    model = ScriptedModel([calls, call("nothing"), "Done."])
    runner = Runner([add_up], model=model, limits=Limits(max_calls=1))
    with runner.stream("x") as stream:
        events = list(stream)
    titles = [event.title for event in events if isinstance(event, (ToolCallStarted, ToolCallFinished))]
    out = io.StringIO()
    transcript = Transcript(out)
    for event in events:
        transcript.add(event)

    assert ["Add numbers"] * 2 * len(calls) + ["", ""] == titles
    assert ["Add numbers"] * len(calls) + [""] == [done.title for done in stream.result.calls]
    assert {"Add numbers"} == {event_to_dict(event).get("title", "Add numbers") for event in events}
    assert "[Add numbers]" in out.getvalue()
    assert "Add numbers" in Story(events)._repr_html_()
    assert "Add numbers" not in repr(model.requests[-1].messages)


@pytest.mark.parametrize("limits", [None, Limits(max_seconds=60)], ids=["no limit", "seconds"])
@pytest.mark.parametrize("is_streamed", [True, False], ids=["stream", "run"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async model", "sync model"])
def test_sync_run_in_an_async_tool(limits: Limits | None, is_streamed: bool, is_async: bool) -> None:
    """An async tool that starts a sync run is told to await: they would wait for each other."""

    @tool
    async def count(number: int) -> int:
        """Count."""
        return number

    @tool
    async def ask() -> str:
        """Ask."""
        model = ScriptedModel([[call("count", number=1), call("count", number=2)], "Hello."], is_async=is_async)
        inner = Runner([count], model=model, limits=limits)
        return "".join(map(str, inner.stream("Hi"))) if is_streamed else inner.run("Hi").output

    result = Runner([ask], model=ScriptedModel([call("ask"), "Done."])).run("Go.").calls[0].result

    assert "an async tool, gate or hook called a sync method of this library" in str(result.exception)


def test_sync_run_in_an_async_hook() -> None:
    """An async hook of a sync run that starts a sync run is told to await, too."""

    class Judge:
        async def before_model(self, request: ModelRequest) -> None:
            Runner(model=ScriptedModel(["Fine."])).run("Is it fine?")

    with pytest.raises(RuntimeError, match=r"hook called a sync method of this library: await .* arun\(\) for run"):
        Runner(model=ScriptedModel(["Hello."]), hooks=[Judge()]).run("Hi")


@pytest.mark.parametrize("client", [openai.OpenAI, openai.AsyncOpenAI], ids=["sync client", "async client"])
@pytest.mark.parametrize("in_loop", [True, False], ids=["in a loop", "sync"])
def test_time_limit_of_a_silent_stream(
    client: Any, in_loop: bool, server: Callable[[Reply], FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream ends when its time is up; it does not wait for the model's, which has nothing to return."""
    for backend in ("sync_backend", "async_backend"):
        monkeypatch.setattr(f"toolkit._concurrency.{backend}.GRACE", 60)
        monkeypatch.setattr(f"toolkit._concurrency.{backend}.PATIENCE", 60)
    model = client(base_url=server(HELD).base_url, api_key="test", max_retries=0)
    runner = Runner(model="fake", client=model, limits=Limits(max_seconds=0.3, on_limit="stop"))

    async def follow_it() -> None:
        async for _ in runner.astream("x"):
            pass

    start = time.monotonic()
    if in_loop:
        asyncio.run(follow_it())
    else:
        list(runner.stream("x"))

    assert time.monotonic() - start < 30
