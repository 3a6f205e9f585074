"""What networks do wrong: refusals that pass, connections that break, answers without end, addresses that change.

Waits before another try are the client's own: a server that names a millisecond keeps the tests short.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import os
import ssl
import time
import traceback
import tracemalloc
import weakref
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import openai
import pytest
import trustme

from tests.origins import Origin
from tests.properties import combine
from tests.servers import FakeServer
from toolkit import Limits, ModelError, Runner, RunResult
from toolkit.models.transport import MAX_ANSWER, MAX_EVENT
from toolkit.testing import Reply, reply

SHORT = Limits(max_seconds_per_turn=0.8)  # enough for a client to begin on a busy machine
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
SOON = {"retry-after-ms": "1"}
SOON_AGAIN = replace(reply.text("x"), headers=SOON)
MIB = 2**20

Opened = Callable[..., AbstractContextManager[Runner]]


class Counted:
    """A tool that counts how often it was entered."""

    def __init__(self) -> None:
        self.entered = 0

    def ping(self) -> str:
        """Answer."""
        self.entered += 1
        return "pong"


@contextmanager
def clients_own(
    server: FakeServer, tools: Iterable[Any] = (), *, retries: int = 0, key: str = "test", **options: Any
) -> Iterator[Runner]:
    """A runner with a client that the application has made."""
    with openai.OpenAI(base_url=server.base_url, api_key=key, max_retries=retries) as client:
        yield Runner(tools, model="fake", client=client, **options)


def test_cookies_of_a_client_that_is_made_here() -> None:
    """A cookie comes back with the next request, as a balancer with sticky sessions needs it."""
    sticky = replace(reply.text("x"), headers={"set-cookie": "sticky=1"})

    async def main(runner: Runner) -> None:
        await runner.arun("Go on.")
        await runner.arun("Go on.")

    with FakeServer([sticky, sticky]) as server, by_address(server) as runner:
        asyncio.run(main(runner))

        assert [None, "sticky=1"] == [request.headers.get("cookie") for request in server.requests]


@asynccontextmanager
async def client_of(server: FakeServer, tools: Iterable[Any] = (), **options: Any) -> AsyncIterator[Runner]:
    """A runner with an async client."""
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="test", max_retries=0) as client:
        yield Runner(tools, model="fake", client=client, **options)


@contextmanager
def by_address(server: FakeServer, tools: Iterable[Any] = ()) -> Iterator[Runner]:
    """A runner that makes its client itself."""
    yield Runner(tools, model="fake", base_url=server.base_url, api_key="test")


def ran(runner: Runner, *, streamed: bool) -> RunResult:
    if not streamed:
        return runner.run("Go on.")
    with runner.stream("Go on.") as events:
        list(events)
    return events.result


async def aran(runner: Runner, *, streamed: bool) -> RunResult:
    if not streamed:
        return await runner.arun("Go on.")
    async with runner.astream("Go on.") as events:
        async for _ in events:
            pass
    return events.result


# -- refusals that pass


@pytest.mark.parametrize(("status", "streamed"), [(408, True), (409, False), (429, True), (500, False), (529, True)])
def test_passing_refusal(status: int, streamed: bool) -> None:
    """F1, F2: what may pass is asked for again by the client, twice by default, and the run knows nothing of it."""
    script = [reply.error(status, "later", headers=SOON)] * 2 + [reply.text("Hi.")]
    with FakeServer(script) as server, clients_own(server, retries=2) as runner:
        result = ran(runner, streamed=streamed)

    assert ("Hi.", 1, 3) == (result.output, result.usage.requests, len(server.requests))


@pytest.mark.parametrize(("status", "streamed"), [(429, True), (500, False), (503, True), (529, False)])
def test_lasting_refusal(status: int, streamed: bool) -> None:
    """F1, F2: what does not pass is an error with its status after the client's tries, and no more are made."""
    with (
        FakeServer([reply.error(status, "the server's words", headers=SOON)] * 3) as server,
        clients_own(server, retries=2) as runner,
        pytest.raises(ModelError, match="the server's words") as caught,
    ):
        ran(runner, streamed=streamed)

    assert (status, 3) == (caught.value.status, len(server.requests))


def test_long_wait() -> None:
    """F1: a wait of minutes is not waited for: the error comes at once."""
    refusal = reply.error(429, "later", headers={"retry-after": "300"})
    with (
        FakeServer([refusal]) as server,
        clients_own(server, retries=2) as runner,
        pytest.raises(ModelError, match="refuses more requests for now") as caught,
    ):
        ran(runner, streamed=False)

    assert (429, 1) == (caught.value.status, len(server.requests))


@pytest.mark.parametrize("wait", ["Wed, 21 Oct 2015 07:28:00 GMT", "soon", "-5", "nan", "1e400", ""])
def test_odd_wait(wait: str) -> None:
    """F1: a wait that is not a number of seconds ahead breaks nothing: the client takes its own."""
    refusal = reply.error(429, "later", headers={"retry-after": wait, "retry-after-ms": "1"})
    with FakeServer([refusal, reply.text("Hi.")]) as server, clients_own(server, retries=1) as runner:
        assert "Hi." == ran(runner, streamed=False).output


@pytest.mark.parametrize(("status", "streamed"), [(400, True), (401, False), (403, True), (404, False), (422, True)])
def test_lasting_fault_of_the_request(status: int, streamed: bool) -> None:
    """F3, F4: what no other try mends is not tried again, neither by the client nor by the run."""
    with (
        FakeServer([reply.error(status, "no", headers=SOON)]) as server,
        clients_own(server, retries=2) as runner,
        pytest.raises(ModelError) as caught,
    ):
        ran(runner, streamed=streamed)

    assert (status, 1) == (caught.value.status, len(server.requests))


@pytest.mark.parametrize(("status", "streamed"), [(400, False), (401, True), (401, False), (403, True)])
def test_server_that_repeats_the_key(status: int, streamed: bool) -> None:
    """F4: a key that the server repeats is not in the error, which then has no cause."""
    with (
        FakeServer([reply.error(status, "Incorrect API key provided: sk-canary-1234")]) as server,
        clients_own(server, key="sk-canary-1234") as runner,
        pytest.raises(ModelError, match=r"provided: \[key\]") as caught,
    ):
        ran(runner, streamed=streamed)

    assert (status, None) == (caught.value.status, caught.value.cause)
    assert "canary" not in "".join([repr(caught.value), *traceback.format_exception(caught.value)])


@STREAMED
@pytest.mark.parametrize("before", [230, 250, 270])
def test_error_that_is_cut_inside_the_key(before: int, streamed: bool) -> None:
    """F4: of a key that the server repeats where its text is cut, no more than a few characters are in the error."""
    key = "sk-proj-canary" + 40 * "x"
    with (
        FakeServer([reply.body({"error": {"message": before * "y" + key}})]) as server,
        clients_own(server, key=key) as runner,
        pytest.raises(ModelError, match="y{200}") as caught,
    ):
        ran(runner, streamed=streamed)

    assert "canary" not in "".join([repr(caught.value), *traceback.format_exception(caught.value)])


@pytest.mark.parametrize("max_seconds", [None, 60])
@pytest.mark.parametrize("fault", [SOON_AGAIN.cut(100), SOON_AGAIN.reset(100)], ids=["closed", "reset"])
def test_broken_whole_answer(fault: Reply, max_seconds: float | None) -> None:
    """F6: an answer that is not streamed is asked for again where it breaks, as often as the client's retries say."""
    limits = Limits(max_seconds=max_seconds)
    with (
        FakeServer([fault, fault, reply.text("Hi.")]) as server,
        clients_own(server, retries=2, limits=limits) as runner,
    ):
        assert "Hi." == ran(runner, streamed=False).output
    with FakeServer([fault, fault]) as server, clients_own(server, retries=1, limits=limits) as runner:
        with pytest.raises(ModelError, match="the connection broke"):
            ran(runner, streamed=False)

        assert 2 == len(server.requests)


@pytest.mark.parametrize("script", ["eeb", "ebe", "bee", "beb", "bbb"])
def test_retries_of_broken_whole_answers(script: str) -> None:
    """Refusals and answers that break share the retries of the client: no more requests than it sends itself."""
    replies = {"e": reply.error(500, "later", headers=SOON), "b": SOON_AGAIN.cut(100)}
    with (
        FakeServer([replies[each] for each in script]) as server,
        clients_own(server, retries=2) as runner,
    ):
        with pytest.raises(ModelError):
            ran(runner, streamed=False)

        assert 3 == len(server.requests)


def test_broken_whole_answer_in_a_loop() -> None:
    """F6: the same holds in an event loop."""

    async def main(server: FakeServer) -> str:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="test", max_retries=1) as client:
            return (await aran(Runner(model="fake", client=client), streamed=False)).output

    with FakeServer([SOON_AGAIN.cut(100), reply.text("Hi.")]) as server:
        assert "Hi." == asyncio.run(main(server))


def test_silence_within_a_whole_answer() -> None:
    """F9: a client's own timeout is told as one, in the middle of an answer, too."""
    timeout = openai.Timeout(5, read=0.05)
    with (
        FakeServer([reply.text("x").held(100)]) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test", max_retries=0, timeout=timeout) as client,
        pytest.raises(ModelError, match="did not answer in time"),
    ):
        Runner(model="fake", client=client).run("x")


@pytest.mark.parametrize("fault", [reply.text("x").cut(None), reply.text("x").reset(None)], ids=["closed", "reset"])
def test_broken_before_the_answer(fault: Reply) -> None:
    """F5: a connection that breaks before the answer starts is opened again by the client."""
    with FakeServer([fault, reply.text("Hi.")]) as server, clients_own(server, retries=1) as runner:
        assert "Hi." == ran(runner, streamed=True).output


# -- what is left of an answer


@STREAMED
def test_nothing_is_left_of_an_answer(streamed: bool) -> None:
    """A response is gone once it has been read, and does not wait for the garbage collector."""
    kept: list[weakref.ref[Any]] = []

    def keep(response: Any) -> None:
        kept.append(weakref.ref(response))

    async def akeep(response: Any) -> None:
        keep(response)

    async def arun(server: FakeServer) -> None:
        http = openai.DefaultAsyncHttpxClient(event_hooks={"response": [akeep]})
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="test", http_client=http) as client:
            await aran(Runner(model="fake", client=client), streamed=streamed)

    gc.disable()
    try:
        with FakeServer([reply.text("Hi."), reply.text("Hi.")]) as server:
            http = openai.DefaultHttpxClient(event_hooks={"response": [keep]})
            with openai.OpenAI(base_url=server.base_url, api_key="test", http_client=http) as client:
                ran(Runner(model="fake", client=client), streamed=streamed)
            asyncio.run(arun(server))
        left = [response for response in kept if response() is not None]
    finally:
        gc.enable()

    assert (2, []) == (len(kept), left)


# -- answers that break off

TWO_CALLS = reply.calls(("ping", {}), ("ping", {}), split=1)


def bytes_of(answer: Reply) -> list[int]:
    """Where each event of a streamed answer ends."""
    with FakeServer([answer]) as server, openai.OpenAI(base_url=server.base_url, api_key="test") as client:
        messages: Any = [{"role": "user", "content": "x"}]
        with client.chat.completions.with_streaming_response.create(model="x", messages=messages, stream=True) as read:
            content = b"".join(read.iter_bytes())
    return [at + 2 for at in range(len(content)) if content.startswith(b"\n\n", at)]


def test_broken_within_the_answer() -> None:
    """F6: wherever a stream breaks before its finish reason, nothing of it runs, and nobody asks again."""
    counted, ends = Counted(), bytes_of(TWO_CALLS)[:-2]
    faults = [fault for end in ends for fault in (TWO_CALLS.cut(end - 1), TWO_CALLS.reset(end), TWO_CALLS.cut(end))]
    with FakeServer(faults) as server, clients_own(server, [counted.ping], retries=2) as runner:
        for _ in faults:
            with pytest.raises(ModelError, match="broke"):
                ran(runner, streamed=True)

    assert (0, len(faults)) == (counted.entered, len(server.requests))


def test_broken_after_the_finish_reason() -> None:
    """F6: a stream that breaks behind its finish reason is an error as well: the rest is not known."""
    counted = Counted()
    with (
        FakeServer([TWO_CALLS.reset(bytes_of(TWO_CALLS)[-2])]) as server,
        clients_own(server, [counted.ping]) as runner,
        pytest.raises(ModelError, match="broke"),
    ):
        ran(runner, streamed=True)

    assert 0 == counted.entered


def test_reason_of_a_break() -> None:
    """F6: an error says once why a stream broke."""
    with (
        FakeServer([TWO_CALLS.cut(100)]) as server,
        clients_own(server) as runner,
        pytest.raises(ModelError, match=r"connection broke.*RemoteProtocolError: ") as caught,
    ):
        ran(runner, streamed=True)

    assert 1 == str(caught.value).count("peer closed connection")


def test_silent_end() -> None:
    """F7: a body that ends early as if it were whole has no call that runs, unless the finish reason has come."""
    counted, last = Counted(), bytes_of(TWO_CALLS)[-3]
    cuts = list(range(0, last, 7))
    answers = [TWO_CALLS.truncated(size) for size in cuts]
    with FakeServer(answers) as server, clients_own(server, [counted.ping], retries=2) as runner:
        for _ in cuts:
            with pytest.raises(ModelError, match="broke off|cannot be read"):
                ran(runner, streamed=True)

    assert (0, len(cuts)) == (counted.entered, len(server.requests))


def test_socket_that_stays_open() -> None:
    """F8: `[DONE]` is the end for an async client too, though the server keeps the connection open."""

    async def main(server: FakeServer) -> str:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="test") as client:
            return (await aran(Runner(model="fake", client=client), streamed=True)).output

    with FakeServer([reply.text("Hi.").held()]) as server:
        assert "Hi." == asyncio.run(asyncio.wait_for(main(server), 5))


CHAT_END = b'data: {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
RESPONSES_END = b"""event: response.completed
data: {"type": "response.completed", "response": {"status": "completed", "output": [{"type": "message", "content": [
data: {"type": "output_text", "text": "Hi."}]}]}}

"""
END_OF_STREAM = pytest.mark.parametrize(
    ("api", "end"), [("chat", CHAT_END), ("responses", RESPONSES_END)], ids=["chat", "responses"]
)


@END_OF_STREAM
def test_streams_share_a_connection(api: Any, end: bytes) -> None:
    """A stream is read to its end, so that the next one has its connection."""
    answer, used = reply.raw(end, content_type="text/event-stream"), list[Any]()

    def note(response: Any) -> None:
        used.append(response.extensions["network_stream"].get_extra_info("client_addr"))

    http = openai.DefaultHttpxClient(event_hooks={"response": [note]})
    with (
        FakeServer([answer] * 3) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test", http_client=http) as client,
    ):
        runner = Runner(model="fake", client=client, api=api)
        outputs = [ran(runner, streamed=True).output for _ in range(3)]

    assert (["Hi."] * 3, 3, 1) == (outputs, len(used), len(set(used)))


@END_OF_STREAM
def test_streams_share_a_connection_in_a_loop(api: Any, end: bytes) -> None:
    """The same holds for an async client."""
    answer, used = reply.raw(end, content_type="text/event-stream"), list[Any]()

    async def note(response: Any) -> None:
        used.append(response.extensions["network_stream"].get_extra_info("client_addr"))

    async def main(address: str) -> list[str]:
        http = openai.DefaultAsyncHttpxClient(event_hooks={"response": [note]})
        async with openai.AsyncOpenAI(base_url=address, api_key="test", http_client=http) as client:
            runner = Runner(model="fake", client=client, api=api)
            return [(await aran(runner, streamed=True)).output for _ in range(3)]

    with FakeServer([answer] * 3) as server:
        outputs = asyncio.run(main(server.base_url))

    assert (["Hi."] * 3, 3, 1) == (outputs, len(used), len(set(used)))


# -- answers that take too long


def pings() -> Iterator[bytes]:
    """A stream that lives, and says nothing."""
    while True:
        yield b": ping\n\n"


SLOW: dict[str, Callable[[], Reply]] = {
    "F9 byte by byte": lambda: TWO_CALLS.dripping(1, 0.02),
    "F9 nothing but comments": lambda: reply.raw(pings(), content_type="text/event-stream").dripping(100, 0.02),
    "F9 silence in the middle": lambda: TWO_CALLS.held(200),
    "F10 never started": reply.hang,
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fault", SLOW.values(), ids=SLOW)
def test_deadline_of_a_turn(fault: Callable[[], Reply], streamed: bool) -> None:
    """F9, F10: no server outlasts the time of a turn, though its bytes keep coming; nothing of its answer runs."""
    counted, started = Counted(), time.perf_counter()
    with FakeServer([fault()]) as server, clients_own(server, [counted.ping], retries=2, limits=SHORT) as runner:
        with pytest.raises(ModelError, match=r"did not complete its answer within 0\.8 s"):
            ran(runner, streamed=streamed)
        took = time.perf_counter() - started

    assert (0, True) == (counted.entered, took < 30)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fault", SLOW.values(), ids=SLOW)
def test_deadline_of_a_turn_in_a_loop(fault: Callable[[], Reply], streamed: bool) -> None:
    """F9, F10: the same holds in an event loop, and the connection is closed with the turn."""
    counted = Counted()

    async def main(server: FakeServer) -> None:
        async with client_of(server, [counted.ping], limits=SHORT) as runner:
            with pytest.raises(ModelError, match=r"did not complete its answer within 0\.8 s"):
                await asyncio.wait_for(aran(runner, streamed=streamed), 5)

    with FakeServer([fault()]) as server:
        asyncio.run(main(server))

    assert 0 == counted.entered


# -- answers without end


def endless(piece: bytes) -> Iterator[bytes]:
    """More than any answer may have, made as it is sent."""
    yield b": "
    for _ in range(4 * MAX_ANSWER // len(piece)):
        yield piece


LINE = b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": "x" * 60_000}}]}).encode()
ENDLESS: dict[str, bytes] = {
    "one line": b"x" * MIB,
    "one event of many lines": LINE + b"\n",
    "one event, CRLF": LINE + b"\r\n",
    "many events": LINE + b"\n\n",
    "nothing but comments": b": " + b"x" * 60_000 + b"\n\n",
}
WITH_EITHER_CLIENT = pytest.mark.parametrize("opened", [clients_own, by_address])


def peak_of(work: Callable[[], object]) -> int:
    """The bytes that Python held at most while it worked, beyond what it held before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(runner: Runner, *, streamed: bool) -> None:
    with pytest.raises(ModelError, match=r"longer than 64 MiB, or 16 MiB in one event\. Its calls are discarded"):
        ran(runner, streamed=streamed)


@pytest.mark.parametrize(("piece", "opened"), combine(ENDLESS, [clients_own, by_address]))
def test_stream_without_end(piece: str, opened: Opened) -> None:
    """F11: a stream that does not end is left at its bound, and never held as a whole."""
    answer = reply.raw(endless(ENDLESS[piece]), content_type="text/event-stream")
    with FakeServer([answer]) as server, opened(server) as runner:
        peak = peak_of(lambda: refused(runner, streamed=True))

    assert peak < MAX_ANSWER + 64 * MIB


@WITH_EITHER_CLIENT
def test_answer_without_end(opened: Opened) -> None:
    """F11: an answer that is not streamed is left at its bound."""
    with FakeServer([reply.raw(endless(b" " * MIB))]) as server, opened(server) as runner:
        peak = peak_of(lambda: refused(runner, streamed=False))

    assert (True, 1) == (peak < MAX_ANSWER + 64 * MIB, len(server.requests))


def test_error_without_end() -> None:
    """F11: so is the body of an error, where the runner has made the client."""
    with FakeServer([reply.raw(endless(b" " * MIB), status=400)]) as server, by_address(server) as runner:
        refused(runner, streamed=True)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_async_answer_without_end(streamed: bool) -> None:
    """F11: the same holds in an event loop."""

    async def main(server: FakeServer) -> None:
        with pytest.raises(ModelError, match="longer than 64 MiB"):
            await aran(Runner(model="fake", base_url=server.base_url, api_key="test"), streamed=streamed)

    with FakeServer([reply.raw(endless(b" " * MIB), content_type="text/event-stream")]) as server:
        asyncio.run(main(server))


def bomb() -> bytes:
    """Three times what an answer may have, of spaces, in less than a megabyte."""
    packer = zlib.compressobj(1, wbits=31)
    packed = b"".join(packer.compress(b" " * MIB) for _ in range(3 * MAX_ANSWER // MIB))
    return packed + packer.flush()


@WITH_EITHER_CLIENT
@STREAMED
def test_compressed_answer_without_end(opened: Opened, streamed: bool) -> None:
    """F12: what is counted has been unpacked: a small compressed answer cannot become a large one."""
    packed = reply.raw(bomb(), headers={"content-encoding": "gzip"}, content_type="text/event-stream")
    with FakeServer([packed]) as server, opened(server) as runner:
        peak = peak_of(lambda: refused(runner, streamed=streamed))

    assert peak < MAX_ANSWER + 64 * MIB


@WITH_EITHER_CLIENT
@STREAMED
def test_long_answer(opened: Opened, streamed: bool) -> None:
    """F11, F12: an answer below the bounds is read, compressed or not."""
    text = "x" * (MAX_EVENT + (-10_000 if streamed else 10_000))  # the bound of an event is none of a whole answer
    whole = {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]}
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    content = b"data: " + json.dumps(chunk).encode() + b"\n\n" if streamed else json.dumps(whole).encode()
    packed = reply.raw(gzip.compress(content, 1), headers={"content-encoding": "gzip"})
    with FakeServer([packed]) as server, opened(server) as runner:
        assert text == ran(runner, streamed=streamed).output


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_long_event(is_wrapped: bool) -> None:
    """F11: an event above the bound is refused, also if the package reads it, for a wrapper of `create`."""
    chunk = {"choices": [{"index": 0, "delta": {"content": "x" * (MAX_EVENT + MIB)}, "finish_reason": "stop"}]}
    content = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    packed = reply.raw(gzip.compress(content, 1), headers={"content-encoding": "gzip"})
    with FakeServer([packed]) as server, openai.OpenAI(base_url=server.base_url, api_key="test") as client:
        if is_wrapped:
            client.chat.completions.create = partial(client.chat.completions.create)  # type: ignore[assignment]
        refused(Runner(model="fake", client=client), streamed=True)


# -- addresses that change


@pytest.mark.parametrize(("status", "streamed"), [(301, True), (302, False), (307, True), (307, False), (308, True)])
def test_redirect(status: int, streamed: bool) -> None:
    """F13: a server that names another address does not get the conversation sent there; the error names it."""
    with FakeServer([]) as other:
        elsewhere = reply.raw(b"", status=status, headers={"location": f"{other.base_url}/chat/completions"})
        with (
            FakeServer([elsewhere]) as server,
            by_address(server) as runner,
            pytest.raises(ModelError, match=f"It names another address: {other.base_url}") as caught,
        ):
            ran(runner, streamed=streamed)

    assert (status, []) == (caught.value.status, other.requests)


def test_async_redirect() -> None:
    """F13: an async client of the runner's follows no redirect either."""
    with FakeServer([]) as other:
        elsewhere = reply.raw(b"", status=307, headers={"location": f"{other.base_url}/chat/completions"})
        with FakeServer([elsewhere]) as server, pytest.raises(ModelError, match="It names another address"):
            asyncio.run(Runner(model="fake", base_url=server.base_url, api_key="test").arun("Go on."))

    assert [] == other.requests


def test_proxy_of_the_environment(environment: Callable[[str, str], None]) -> None:
    """F14: a client of the runner's goes through the proxy that the environment names, as Python's clients do."""
    with FakeServer([]) as proxy:
        environment("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
        with pytest.raises(ModelError, match="fake at http://model.invalid/v1/, HTTP_PROXY is set, status "):
            Runner(model="fake", base_url="http://model.invalid/v1", api_key="test").run("Go on.")

    assert ["http://model.invalid/v1/chat/completions"] == [request.path for request in proxy.requests]


def test_server_without_proxy(environment: Callable[[str, str], None]) -> None:
    """F14: an error names no proxy that is not used."""
    environment("HTTP_PROXY", "http://proxy.invalid")
    environment("NO_PROXY", "127.0.0.1")
    with FakeServer([reply.error(401, "no")]) as server, pytest.raises(ModelError, match="/v1/, status 401: no"):
        Runner(model="fake", base_url=server.base_url, api_key="test").run("Go on.")


def test_error_in_another_form() -> None:
    """F16: an error that is not in OpenAI's form names the status once."""
    other = reply.body({"detail": "Not Found"}, status=404)
    with FakeServer([other]) as server, pytest.raises(ModelError, match=r"status 404: \{'detail': 'Not Found'\}\)$"):
        Runner(model="fake", base_url=server.base_url, api_key="test").run("Go on.")


def test_unknown_certificate() -> None:
    """A certificate that is not trusted is an error that says how to trust it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with (
        Origin(lambda _: [], context) as server,
        openai.OpenAI(base_url=server.url, api_key="test", max_retries=0) as client,
        pytest.raises(ModelError, match="SSL_CERT_FILE can name a file of certificates to trust"),
    ):
        Runner(model="fake", client=client).run("Go on.")


# -- streams that are left


def open_files() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208  a Path for each would be one more file


HOLDS_FILES = pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="needs /dev/fd to count open files")  # noqa: PTH112


@HOLDS_FILES
def test_streams_that_are_left() -> None:
    """F17: hundreds of streams that are left in the middle leave one idle connection at most."""
    with FakeServer(lambda _: reply.text("Hello.", split=1)) as server, clients_own(server) as runner:
        before = open_files()
        for _ in range(300):
            with runner.stream("Go on.") as events:
                next(events)
                next(events)
                next(events)
        server.close()  # its ends of the connections are closed; ours are what is left
        left = open_files() - before

    assert left <= 1


@HOLDS_FILES
def test_streams_that_are_cancelled() -> None:
    """F17: so do streams whose task is cancelled, before or after the answer has started."""

    async def main(server: FakeServer) -> int:
        async with client_of(server) as runner:
            before = open_files()
            for number in range(300):
                task = asyncio.ensure_future(aran(runner, streamed=True))
                for _ in range(number % 30):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await asyncio.to_thread(server.close)
            return open_files() - before

    with FakeServer(lambda _: reply.text("Hello.", split=1)) as server:
        assert asyncio.run(main(server)) <= 1
