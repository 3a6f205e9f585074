"""Models made of others: fallback and rate limits."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import openai
import pytest

from tests.servers import FakeServer
from toolkit import FallbackModel, ModelError, OpenAIModel, RateLimitedModel, Runner, RunResult, tool
from toolkit.models import Model, ModelRequest, ModelResponse, Piece
from toolkit.testing import ScriptedModel, call, reply


def fail(_: ModelRequest) -> str:
    """Fail as a server that is overloaded."""
    raise ModelError("overloaded")


def run(model: Model, **options: Any) -> RunResult[Any]:
    return Runner([add], model=model, **options).run("Go")


def arun(model: Model, **options: Any) -> RunResult[Any]:
    return asyncio.run(Runner([add], model=model, **options).arun("Go"))


def stream(model: Model, **options: Any) -> RunResult[Any]:
    with Runner([add], model=model, **options).stream("Go") as events:
        _ = list(events)
    return events.result


WAYS = pytest.mark.parametrize("go", [run, arun, stream])


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@WAYS
def test_fallback(go: Callable[..., RunResult[Any]], caplog: pytest.LogCaptureFixture) -> None:
    """Each request goes to the first model that answers; the log says which one failed."""
    flaky = ScriptedModel(lambda request: fail(request) if len(request.messages) == 1 else "3.", name="large")
    small = ScriptedModel([[call("add", a=1, b=2)]], name="small")
    with caplog.at_level(logging.WARNING, "toolkit"):
        result = go(FallbackModel([flaky, small]))

    assert ("3.", "large, else small") == (result.output, result.model)
    assert ["large failed, so small is asked: overloaded"] == caplog.messages


@WAYS
def test_all_fail(go: Callable[..., RunResult[Any]]) -> None:
    """Where all models fail, the error of the last one leaves the run."""

    def refuse(_: ModelRequest) -> str:
        raise ModelError("no such model")

    with pytest.raises(ModelError, match="no such model"):
        go(FallbackModel([ScriptedModel(fail), ScriptedModel(refuse)]))


async def arun_and_close(model: FallbackModel) -> RunResult[Any]:
    try:
        return await Runner([add], model=model).arun("Go")
    finally:
        for each in model.models:
            await each.client.close()  # type: ignore[attr-defined]


def arun_with_async_clients(model: FallbackModel) -> RunResult[Any]:
    return asyncio.run(arun_and_close(model))


@pytest.mark.parametrize("go", [run, arun, stream, arun_with_async_clients])
def test_servers(go: Callable[..., RunResult[Any]]) -> None:
    """Servers stand in for each other, each with the whole conversation."""
    make: Any = openai.AsyncOpenAI if go is arun_with_async_clients else openai.OpenAI
    replies = [reply.error(500, "down"), reply.text("It is 3.")]
    with FakeServer(replies) as first, FakeServer([reply.calls(("add", {"a": 1, "b": 2}))]) as second:
        clients = [make(base_url=server.base_url, api_key="k", max_retries=0) for server in (first, second)]
        result = go(FallbackModel([OpenAIModel(client, name) for client, name in zip(clients, "ab")]))
        if go is not arun_with_async_clients:
            _ = [client.close() for client in clients]

    assert "It is 3." == result.output
    assert ["user", "assistant", "tool"] == [message["role"] for message in first.requests[1].body["messages"]]


def test_broken_stream() -> None:
    """An answer that broke off after its first piece is not begun again by another model."""
    other = ScriptedModel(["Never."])
    with (
        FakeServer([reply.text("one two three four").cut(400)]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=0) as client,
        pytest.raises(ModelError),
    ):
        stream(FallbackModel([OpenAIModel(client, "a"), other]))

    assert [] == other.requests


def test_cancelled() -> None:
    """A run that was cancelled asks no further model."""
    runner: Runner
    other = ScriptedModel(["Never."])

    def cancel(request: ModelRequest) -> str:
        runner.cancel()
        return fail(request)

    runner = Runner(model=FallbackModel([ScriptedModel(cancel), other]))

    assert "cancelled" == runner.run("Go").finish_reason
    assert [] == other.requests


UNFIT: dict[str, tuple[Callable[[], Any], str]] = {
    "none": (lambda: FallbackModel([]), "is not a list of one or more models"),
    "names": (lambda: FallbackModel(["gpt-5"]), "is not a list of one or more models"),  # type: ignore[list-item]
    "both kinds": (
        lambda: FallbackModel([ScriptedModel([]), ScriptedModel([], is_async=True)]),
        "Some of the models are async",
    ),
    "no model": (lambda: RateLimitedModel("gpt-5", 5), "is not a model"),  # type: ignore[arg-type]
    "no rate": (lambda: RateLimitedModel(ScriptedModel([])), "rpm=None, tpm=None: give one or both"),
    "rate of nothing": (lambda: RateLimitedModel(ScriptedModel([]), 0), "whole numbers of at least 1"),
    "half a request": (lambda: RateLimitedModel(ScriptedModel([]), 1.5), "whole numbers of at least 1"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("make", "message"), UNFIT.values(), ids=UNFIT)
def test_unfit(make: Callable[[], Any], message: str) -> None:
    """What is no model, and what is no rate, is refused at once."""
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@WAYS
@pytest.mark.usefixtures("fast_clock")
def test_rate_limit(go: Callable[..., RunResult[Any]]) -> None:
    """Requests beyond the rate wait; those within it do not."""
    model = RateLimitedModel(ScriptedModel(lambda _: "ok"), rpm=3)
    start = time.monotonic()
    took = [(go(model), time.monotonic() - start)[1] for _ in range(7)]

    assert took[3] >= 60
    assert took[6] >= 120


@pytest.mark.usefixtures("fast_clock")
def test_rate_limit_of_threads() -> None:
    """Runs of several threads share the rate."""
    times = list[float]()

    def answer(_: ModelRequest) -> str:
        times.append(time.monotonic())
        return "ok"

    runner = Runner(model=RateLimitedModel(ScriptedModel(answer), rpm=4))
    assert 12 == len(runner.map(["Go"] * 12, max_parallel=12))
    for first, fifth in zip(sorted(times), sorted(times)[4:]):
        assert fifth - first >= 40  # a request is noted a little later than it starts


@pytest.mark.usefixtures("fast_clock")
def test_rate_limit_of_tokens() -> None:
    """Once the tokens of the last minute are used, requests wait."""
    with FakeServer([reply.text("ok")] * 3) as server, openai.OpenAI(base_url=server.base_url, api_key="k") as client:
        model = RateLimitedModel(OpenAIModel(client, "m"), tpm=1)
        start = time.monotonic()
        took = [(run(model), time.monotonic() - start)[1] for _ in range(3)]

    assert took[0] < took[1]
    assert took[2] >= 120


def test_waiting_run_is_cancelled() -> None:
    """A run that waits for the rate ends when it is cancelled."""
    model = RateLimitedModel(ScriptedModel(lambda _: "ok"), rpm=1)
    run(model)
    handle = Runner(model=model).start("Go")
    threading.Timer(0.2, handle.cancel).start()

    assert "cancelled" == handle.result(timeout=10).finish_reason


class PlainIterator:
    """A model whose stream is an iterator without `aclose`."""

    name, is_async = "plain", False

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer."""
        return ModelResponse(text="Hello.")

    def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer in one piece."""
        return Once(ModelResponse(text="Hello."))


class Once:
    """Gives one piece."""

    def __init__(self, piece: Piece) -> None:
        self._pieces = [piece]

    def __aiter__(self) -> Once:
        return self

    async def __anext__(self) -> Piece:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop()


@pytest.mark.parametrize("wrap", [lambda model: FallbackModel([model]), lambda model: RateLimitedModel(model, 5)])
def test_stream_without_aclose(wrap: Callable[[Model], Model]) -> None:
    """The stream of a model may be any async iterator."""
    assert "Hello." == stream(wrap(PlainIterator())).output
