"""The fake server answers as scripted, refuses what OpenAI refuses, and leaves nothing behind."""

# ruff: noqa: SIM300 - the expected value stands on the left

import asyncio
import contextlib
import http.client
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from tests.servers import FakeServer
from toolkit import Runner
from toolkit.testing import Reply, Request, ScriptError, call, reply
from toolkit.testing.fake_server import Answer

USER: dict[str, Any] = {"role": "user", "content": "What is 1 + 2?"}
ADD: dict[str, Any] = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {}}},
}


def body(*messages: Any, **options: Any) -> dict[str, Any]:
    return {"model": "gpt", "messages": list(messages) or [USER], **options}


def calls(*ids: Any, name: Any = "add", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "tool_calls": [{"id": i, "type": "function", "function": function} for i in ids],
        **more,
    }


def answer(call_id: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "3"}


@contextlib.contextmanager
def client_of(server: FakeServer, **options: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=server.base_url, api_key="test", **{"max_retries": 0, "timeout": 5, **options}
    ) as client:
        yield client


def ask(server: FakeServer, **options: Any) -> Any:
    with client_of(server) as client:
        return client.chat.completions.create(**body(**options))


def stream(server: FakeServer, **options: Any) -> list[Any]:
    with client_of(server) as client, client.chat.completions.create(**body(stream=True, **options)) as chunks:
        return list(chunks)


def address_of(server: FakeServer) -> tuple[str, int]:
    host, port = server.base_url.removeprefix("http://").removesuffix("/v1").split(":")
    return host, int(port)


@contextlib.contextmanager
def http_to(server: FakeServer) -> Iterator[http.client.HTTPConnection]:
    """An HTTP connection that is kept alive as long as the server allows it."""
    connection = http.client.HTTPConnection(*address_of(server), timeout=5)
    with contextlib.closing(connection):
        yield connection


def post(connection: http.client.HTTPConnection, content: Any = None) -> http.client.HTTPResponse:
    raw = content if isinstance(content, bytes) else json.dumps(content or body()).encode()
    connection.request("POST", "/v1/chat/completions", raw, {"content-type": "application/json"})
    return connection.getresponse()


def status_and_json(server: FakeServer, content: Any = None) -> tuple[int, Any]:
    with http_to(server) as connection, post(connection, content) as response:
        return response.status, json.loads(response.read())


@contextlib.contextmanager
def socket_to(server: FakeServer, content: Any = None) -> Iterator[socket.socket]:
    """A socket on which one request has been sent."""
    raw = json.dumps(content or body()).encode()
    with socket.create_connection(address_of(server), timeout=5) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(raw), raw))
        yield connection


def arrived(server: FakeServer, count: int) -> None:
    """Wait until the server has recorded so many requests."""
    deadline = time.monotonic() + 10
    while len(server.requests) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def received(server: FakeServer, content: Any = None) -> bytes:
    """All bytes until the server closes."""
    with socket_to(server, content) as connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def until_reset(connection: socket.socket) -> bytes:
    """All bytes until the server resets the connection."""
    answered = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(65536):
            answered += data
        pytest.fail("closed, not reset")
    return answered


def payload(answered: bytes) -> bytes:
    return answered.partition(b"\r\n\r\n")[2]


# Answers


def test_text_as_json() -> None:
    """A text reply is one completion when the request does not stream."""
    with FakeServer([reply.text("It is 3.", finish_reason="length", usage=(10, 5))]) as server:
        completion = ask(server)

    choice, usage = completion.choices[0], completion.usage
    assert ("It is 3.", None, "length") == (choice.message.content, choice.message.tool_calls, choice.finish_reason)
    assert (10, 5, 15) == (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)


def test_text_as_stream() -> None:
    """The same reply is split into deltas when the request streams."""
    with FakeServer([reply.text("It is 3.", split=3)]) as server:
        chunks = stream(server)

    assert ["", "It ", "is ", "3.", None] == [chunk.choices[0].delta.content for chunk in chunks]
    assert [None, None, None, None, "stop"] == [chunk.choices[0].finish_reason for chunk in chunks]


def test_usage_chunk_on_request() -> None:
    """The usage chunk comes last, has no choices, and comes only when it is asked for."""
    with FakeServer([reply.text("3", usage=(10, 5))] * 2) as server:
        asked = stream(server, stream_options={"include_usage": True})
        unasked = stream(server)

    assert ([], 15) == (asked[-1].choices, asked[-1].usage.total_tokens)
    assert [None] * len(unasked) == [chunk.usage for chunk in unasked]


def test_usage_may_be_missing() -> None:
    """A reply without usage reports null."""
    with FakeServer([reply.text("3", usage=None)]) as server:
        completion = ask(server)

    assert completion.usage is None


def test_async_client() -> None:
    """The server needs no event loop, so it serves an async client from the same process."""

    async def talk(server: FakeServer) -> tuple[Any, list[Any]]:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="test", max_retries=0) as client:
            whole = await client.chat.completions.create(**body())
            chunks = await client.chat.completions.create(**body(stream=True))
            return whole, [chunk async for chunk in chunks]

    with FakeServer([reply.text("one"), reply.text("two")]) as server:
        whole, chunks = asyncio.run(talk(server))

    assert "one" == whole.choices[0].message.content
    assert "two" == "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def test_calls_as_json() -> None:
    """Arguments go out as JSON text, or as the text they were given as, broken or not."""
    with FakeServer([reply.calls(("add", {"city": "Zürich"}), ("add", '{"a": 3'), text="Wait.")]) as server:
        choice = ask(server).choices[0]

    assert ("Wait.", "tool_calls") == (choice.message.content, choice.finish_reason)
    assert ['{"city": "Zürich"}', '{"a": 3'] == [call.function.arguments for call in choice.message.tool_calls]


def test_calls_as_stream() -> None:
    """A streamed call opens with id and name; its arguments follow in fragments at its index."""
    with FakeServer([reply.calls(("add", {"a": 1}), ("sub", "{}"), split=4)]) as server:
        deltas = [chunk.choices[0].delta for chunk in stream(server)]

    seen = [(c.index, c.id, c.function.name, c.function.arguments) for d in deltas for c in d.tool_calls or ()]
    opened = [(0, "call_1", "add", ""), (1, "call_2", "sub", "")]
    assert [opened[0], (0, None, None, '{"a"'), (0, None, None, ": 1}"), opened[1], (1, None, None, "{}")] == seen


def test_call_ids_are_unique() -> None:
    """Ids that the script does not choose are counted over the server's life."""
    with FakeServer([reply.calls(("add", {}), ("add", {})), reply.calls(("add", {}))]) as server:
        ids = [[call.id for call in ask(server).choices[0].message.tool_calls] for _ in range(2)]

    assert [["call_1", "call_2"], ["call_3"]] == ids


@pytest.mark.parametrize("streamed", [False, True])
def test_call_ids_may_be_wrong(streamed: bool) -> None:
    """Null, empty and repeated ids go out as scripted."""
    script = [reply.calls(("add", {}, None), ("add", {}, ""), ("add", {}, "x"), ("add", {}, "x"))]
    with FakeServer(script) as server:
        choices = [chunk.choices[0] for chunk in stream(server)] if streamed else ask(server).choices

    messages = [choice.delta if streamed else choice.message for choice in choices]
    found = [call.id for message in messages for call in message.tool_calls or () if call.function.name]
    assert [None, "", "x", "x"] == found


def test_error() -> None:
    """An error reply has OpenAI's form and the given headers."""
    with (
        FakeServer([reply.error(429, "slow down", code="rate", headers={"Retry-After": "7"})]) as server,
        pytest.raises(openai.RateLimitError, match="slow down") as caught,
    ):
        ask(server)

    assert ("7", "rate") == (caught.value.response.headers["retry-after"], caught.value.code)


def test_client_retries_against_script() -> None:
    """Each try of a client takes the next reply and is recorded."""
    busy = reply.error(503, "busy", headers={"retry-after-ms": "1"})
    with FakeServer([busy, busy, reply.text("ready")]) as server, client_of(server, max_retries=2) as client:
        completion = client.chat.completions.create(**body())

    assert "ready" == completion.choices[0].message.content
    assert ["0", "1", "2"] == [request.headers["x-stainless-retry-count"] for request in server.requests]


@pytest.mark.parametrize("value", [None, [], "x", {"choices": None}, {"a": float("inf")}], ids=repr)
def test_body(value: Any) -> None:
    """Any JSON value can be the whole answer, with any status."""
    with FakeServer([reply.body(value, status=529)]) as server:
        answered = status_and_json(server)

    assert (529, value) == answered


def test_raw() -> None:
    """Bytes, content type, status and headers of a raw reply are the script's."""
    script = [reply.raw(b"<h1>", content_type="text/html", status=307, headers={"Location": "/x"})]
    with FakeServer(script) as server, http_to(server) as connection, post(connection) as response:
        answered = (
            response.status,
            response.getheader("content-type"),
            response.getheader("location"),
            response.read(),
        )

    assert (307, "text/html", "/x", b"<h1>") == answered


def test_raw_pieces() -> None:
    """Each item of an iterable is one HTTP chunk, so events can be split and joined at will."""
    with FakeServer([reply.raw([b"data: \xc3", b"", b"\xbc\n\ndata: 2\r\n\r\n"]).cut(99)]) as server:
        answered = received(server)

    assert b"7\r\ndata: \xc3\r\ne\r\n\xbc\n\ndata: 2\r\n\r\n\r\n" == payload(answered)


def test_raw_is_lazy() -> None:
    """An endless body is produced only as fast as the client reads it."""
    endless = reply.raw(itertools.repeat(b"x" * 65536))
    with FakeServer([endless]) as server, http_to(server) as connection, post(connection) as response:
        head = response.read(200_000)

    assert b"x" * 200_000 == head


def test_chunks() -> None:
    """A mapping becomes a chunk with an envelope, bytes go out untouched."""
    event = {"id": "mine", "choices": [{"index": 7, "delta": {"content": "a"}}]}
    with FakeServer([reply.chunks([event, b": ping\r\n\r\n", b"data: 5\n\n"]).cut(999)]) as server:
        lines = payload(received(server)).split(b"\r\n")

    chunk = {"id": "mine", "object": "chat.completion.chunk", "created": 0, "model": "gpt", "choices": event["choices"]}
    assert chunk == json.loads(lines[1].removeprefix(b"data: "))
    assert [b": ping", b"", b"", b"9", b"data: 5\n\n", b"e", b"data: [DONE]\n\n", b""] == lines[3:]


def test_chunks_without_done() -> None:
    """A stream may end without `[DONE]`; the client then sees a silent end."""
    with FakeServer([reply.chunks([{"choices": []}], done=False)]) as server:
        chunks = stream(server)

    assert [[]] == [chunk.choices for chunk in chunks]


def test_verbatim() -> None:
    """A verbatim reply puts exactly its bytes on the wire, then closes."""
    with FakeServer([reply.verbatim(b"HTTP/1.1 200 OK\r\nA: 1\r\nA: 2\r\n\r\nrest")]) as server:
        answered = received(server)

    assert b"HTTP/1.1 200 OK\r\nA: 1\r\nA: 2\r\n\r\nrest" == answered


# Faults of the wire


def test_delayed() -> None:
    """A delayed reply starts late."""
    with FakeServer([reply.text("late").delayed(0.1)]) as server:
        start = time.monotonic()
        ask(server)

    assert 0.1 <= time.monotonic() - start


def test_dripping() -> None:
    """A dripping body comes in slices with a pause after each."""
    with FakeServer([reply.raw(b"123456").dripping(2, 0.05)]) as server, socket_to(server) as connection:
        start = time.monotonic()
        answered = b""
        while not answered.endswith(b"123456"):
            answered += connection.recv(65536)

    assert 0.1 <= time.monotonic() - start


def test_dripping_stream() -> None:
    """Every slice of a stream is an HTTP chunk of its own."""
    with FakeServer([reply.raw([b"abc", b"d"]).dripping(2, 0).cut(3)]) as server:
        answered = received(server)

    assert b"2\r\nab\r\n1\r\nc\r\n" == payload(answered)


@pytest.mark.parametrize("content", [b"123456", [b"12", b"3456"]], ids=["whole", "pieces"])
@pytest.mark.parametrize("size", [0, 3, 99])
def test_truncated(content: Any, size: int) -> None:
    """A truncated body ends early, yet HTTP counts it as complete and keeps the connection."""
    with FakeServer([reply.raw(content).truncated(size)] * 2) as server, http_to(server) as connection:
        bodies = [post(connection).read(), post(connection).read()]

    assert [b"123456"[:size]] * 2 == bodies


def test_truncated_stream() -> None:
    """A truncated stream ends silently: the client sees fewer chunks and no error."""
    with FakeServer([reply.text("It is 3.", split=1).truncated(400)]) as server:
        chunks = stream(server)

    assert {None} == {chunk.choices[0].finish_reason for chunk in chunks}


def test_cut_body() -> None:
    """A cut closes cleanly after the given bytes of the body, short of what was announced."""
    with (
        FakeServer([reply.raw(b"123456").cut(4)]) as server,
        http_to(server) as connection,
        post(connection) as response,
        pytest.raises(http.client.IncompleteRead) as caught,
    ):
        response.read()

    assert (b"1234", 2) == (caught.value.partial, caught.value.expected)


@pytest.mark.parametrize("size", [0, 25, 500])
def test_cut_stream(size: int) -> None:
    """A cut stream lacks the end of its framing, which the client reports."""
    with FakeServer([reply.text("It is 3.").cut(size)]) as server, pytest.raises(openai.APIConnectionError):
        stream(server)


def test_cut_before_status() -> None:
    """A cut without a count closes before the first byte."""
    with FakeServer([reply.text("never").cut()]) as server:
        answered = received(server)

    assert b"" == answered


@pytest.mark.parametrize("size", [0, 4, 5_000])
def test_reset_body(size: int) -> None:
    """A reset follows the given bytes of the body."""
    with FakeServer([reply.raw(b"x" * 9_999).reset(size)]) as server, socket_to(server) as connection:
        answered = until_reset(connection)

    assert b"x" * size == payload(answered)


def test_reset_before_status() -> None:
    """A reset without a count comes before the first byte."""
    with FakeServer([reply.text("never").reset()]) as server, pytest.raises(ConnectionResetError):
        received(server)


def test_held() -> None:
    """A held reply is all there, yet the connection stays open and silent."""
    with FakeServer([reply.text("3").held()]) as server, socket_to(server, body(stream=True)) as connection:
        answered = b""
        while not answered.endswith(b"data: [DONE]\n\n\r\n"):
            answered += connection.recv(65536)
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_held_within_body() -> None:
    """A reply may fall silent within its body."""
    held = reply.text("It is 3.", split=1).held(400)
    with (
        FakeServer([held]) as server,
        client_of(server, timeout=0.5) as client,
        client.chat.completions.create(**body(stream=True)) as chunks,
    ):
        first = next(chunks)
        with pytest.raises(openai.APIError, match="(?i)timed out"):
            list(chunks)

    assert "" == first.choices[0].delta.content


def test_hang() -> None:
    """A hanging reply never starts."""
    with (
        FakeServer([reply.hang()]) as server,
        client_of(server, timeout=0.1) as client,
        pytest.raises(openai.APITimeoutError),
    ):
        client.chat.completions.create(**body())


# The script


def test_requests_are_recorded() -> None:
    """Every request is kept as it arrived, on every path, in order."""
    with FakeServer([reply.text("3")]) as server, http_to(server) as connection:
        connection.request("GET", "/elsewhere?x=1", headers={"X-Mine": "yes"})
        connection.getresponse().read()
        post(connection).read()

    first, second = server.requests
    assert ("GET", "/elsewhere?x=1", "yes", {}) == (first.method, first.path, first.headers["x-mine"], first.body)
    assert ("POST", body(), json.dumps(body()).encode()) == (second.method, second.body, second.content)


def test_function_as_script() -> None:
    """A function chooses each reply from its request."""

    def echo(request: Request) -> Reply:
        return reply.text(request.body["messages"][-1]["content"])

    with FakeServer(echo) as server:
        texts = [ask(server, messages=[{**USER, "content": word}]).choices[0].message.content for word in "ab"]

    assert ["a", "b"] == texts


def test_failing_function() -> None:
    """A script that fails is answered 500 and reported."""

    def fail(_: Request) -> Reply:
        raise LookupError("no idea")

    with contextlib.closing(FakeServer(fail)) as server:
        status, answered = status_and_json(server)

    message = "Request 1: the script failed with LookupError('no idea')"
    assert (500, message, [message]) == (status, answered["error"]["message"], server.problems)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_script_of_a_model() -> None:
    """A server takes the texts and calls of a ScriptedModel's script, also from a function."""
    script: list[Answer] = [call("add", a=1, b=2), [call("add", a=3, b=4), call("add", a=5, b=6)], "Done."]
    replies = iter(script)
    for server in (FakeServer(script), FakeServer(lambda _: next(replies))):
        with server:
            result = Runner([add], base_url=server.base_url, model="any").run("Go.")
        assert ("Done.", [3, 7, 11]) == (result.output, [finished.result.value for finished in result.calls])


def test_what_is_no_reply() -> None:
    """Something else than replies, or than calls with arguments, is refused with what to write."""
    wrong: list[Any] = [5, ("add", {"a": 1}), ["Hello."]]
    for item in wrong:
        with pytest.raises(TypeError, match=r"answers with text, calls such as .*, or a reply such as reply.error\("):
            FakeServer([item])
    calls: list[Any] = ["add", ("add",), call("add", a=1)]
    for each in calls:
        with pytest.raises(TypeError, match=r'takes names with arguments, \("add", {"a": 1}\), not '):
            reply.calls(each)


def test_failing_body() -> None:
    """A lazy body that fails closes the connection and is reported."""
    with contextlib.closing(FakeServer([reply.raw(b"%d" % (1 // n) for n in (1, 0))])) as server:
        answered = received(server)

    assert b"1\r\n1\r\n" == payload(answered)
    assert "A reply failed while it was sent: ZeroDivisionError" in server.problems[0]


def test_unexpected_request() -> None:
    """A request after the last reply is named on leaving."""
    with (
        pytest.raises(
            ScriptError, match="^Request 2: the script has no reply left; the last message is {'content': 'What"
        ),
        FakeServer([reply.text("3")]) as server,
    ):
        assert [200, 500] == [status_and_json(server)[0] for _ in range(2)]


def test_unexpected_request_is_not_retried() -> None:
    """The openai client fails at once, since no retry can mend the script."""
    with contextlib.closing(FakeServer()) as server, client_of(server, max_retries=2) as client:
        with pytest.raises(openai.InternalServerError, match="the script has no reply left"):
            client.chat.completions.create(**body())

        assert 1 == len(server.requests)


def test_unused_replies() -> None:
    """Replies that nobody asked for are named on leaving."""
    script = [reply.text("3"), reply.calls(("add", {}), ("sub", {})), reply.error(500, "no"), reply.hang()]
    with (
        pytest.raises(ScriptError, match=r"^Unused replies: calls\(add, sub\), error\(500, 'no'\), hang\(\)$"),
        FakeServer(script) as server,
    ):
        ask(server)


def test_other_failures_are_not_masked() -> None:
    """An exception of the block itself passes through."""
    with pytest.raises(LookupError), FakeServer([reply.text("unused")]):
        raise LookupError


def test_problems_can_be_cleared() -> None:
    """A test that provokes a refusal may clear it."""
    with FakeServer() as server:
        status, _ = status_and_json(server)
        server.problems.clear()

    assert 500 == status


def test_order_under_concurrency() -> None:
    """The n-th recorded request got the n-th reply, however many arrive at once."""

    def talk(word: int) -> tuple[str, str]:
        _, answered = status_and_json(server, body({**USER, "content": str(word)}))
        return str(word), answered["choices"][0]["message"]["content"]

    with FakeServer([reply.text(str(n)) for n in range(64)]) as server, ThreadPoolExecutor(16) as pool:
        pairs = set(pool.map(talk, range(64)))

    recorded = [request.body["messages"][0]["content"] for request in server.requests]
    assert {(word, str(n)) for n, word in enumerate(recorded)} == pairs


# Strictness


FAULTS = [
    ("not JSON", b"{", "body"),
    ("not UTF-8", b'{"\xff": 1}', "body"),
    ("NaN", json.dumps(body(temperature=float("nan"))).encode(), "body"),
    ("lone surrogate", json.dumps(body({**USER, "content": "\ud800"})).encode(), "body"),
    ("too deep", b"[" * 200_000, "body"),
    ("not an object", [1], "body"),
    ("no model", {"messages": [USER]}, "model"),
    ("needless stream options", body(stream_options={}), "stream_options"),
    ("no messages", {"model": "gpt", "messages": []}, "messages"),
    ("message is text", body("hi"), "messages[0].role"),
    ("unknown role", body(USER, {"role": "robot", "content": "hi"}), "messages[1].role"),
    ("role is a list", body({"role": [], "content": "hi"}), "messages[0].role"),
    ("content is a number", body({**USER, "content": 3}), "messages[0].content"),
    ("content is a list of text", body({**USER, "content": ["hi"]}), "messages[0].content"),
    ("content is null", body({**USER, "content": None}), "messages[0].content"),
    ("assistant says nothing", body({"role": "assistant"}), "messages[0].content"),
    ("calls of the user", body({**USER, "tool_calls": []}), "messages[0].tool_calls"),
    ("calls are empty", body(calls(content="hi")), "messages[0].tool_calls"),
    ("calls are null", body({"role": "assistant", "content": "hi", "tool_calls": None}), "messages[0].tool_calls"),
    ("call of no type", body(calls("a") | {"tool_calls": [{"id": "a"}]}), "messages[0].tool_calls[0].type"),
    ("call id is empty", body(calls(""), answer("")), "messages[0].tool_calls[0].id"),
    ("call id is null", body(calls(None), answer(None)), "messages[0].tool_calls[0].id"),
    ("bad name", body(calls("a", name="a b"), answer("a")), "messages[0].tool_calls[0].function.name"),
    ("long name", body(calls("a", name="a" * 65), answer("a")), "messages[0].tool_calls[0].function.name"),
    ("name with newline", body(calls("a", name="a\n"), answer("a")), "messages[0].tool_calls[0].function.name"),
    ("broken arguments", body(calls("a", arguments="{"), answer("a")), "messages[0].tool_calls[0].function.arguments"),
    ("arguments list", body(calls("a", arguments="[]"), answer("a")), "messages[0].tool_calls[0].function.arguments"),
    ("arguments object", body(calls("a", arguments={}), answer("a")), "messages[0].tool_calls[0].function.arguments"),
    ("no answer", body(USER, calls("a")), "messages"),
    ("no answer before user", body(calls("a"), USER), "messages[1]"),
    ("one answer of two", body(calls("a", "b"), answer("a")), "messages"),
    ("answers out of order", body(calls("a", "b"), answer("b"), answer("a")), "messages[1].tool_call_id"),
    ("answer twice", body(calls("a"), answer("a"), answer("a")), "messages[2].role"),
    ("answer to nothing", body(answer("a")), "messages[0].role"),
    ("answer without id", body(calls("a"), {"role": "tool", "content": "3"}), "messages[1].tool_call_id"),
    ("id twice in a message", body(calls("a", "a"), answer("a"), answer("a")), "messages[0].tool_calls[1].id"),
    ("id twice in history", body(calls("a"), answer("a"), calls("a"), answer("a")), "messages[2].tool_calls[0].id"),
    ("tool choice without tools", body(tool_choice="none"), "tool_choice"),
    ("tools are empty", body(tools=[]), "tools"),
    ("tool of no type", body(tools=[ADD, {"function": {}}]), "tools[1].type"),
    ("tool of bad name", body(tools=[{**ADD, "function": {"name": "ä"}}]), "tools[0].function.name"),
    ("format of no type", body(response_format={}), "response_format.type"),
    ("format is text", body(response_format="json"), "response_format.type"),
    ("format without a schema", body(response_format={"type": "json_schema"}), "response_format.json_schema.name"),
    ("strict is text", body(tools=[{**ADD, "function": {"name": "add", "strict": "yes"}}]), "tools[0].function.strict"),
    (
        "parameters are not an object",
        body(tools=[{**ADD, "function": {"name": "add", "parameters": {"type": "string", "properties": {}}}}]),
        "tools[0].function.parameters",
    ),
    (
        "parameters without properties",
        body(tools=[{**ADD, "function": {"name": "add", "parameters": {"type": "object"}}}]),
        "tools[0].function.parameters",
    ),
]


TEXT: dict[str, Any] = {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    """A schema as strict mode wants it."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def strictly(schema: Any) -> dict[str, Any]:
    """A request with a strict tool of these parameters."""
    function = {"name": "add", "strict": True, "parameters": schema}
    return body(tools=[{"type": "function", "function": function}])


def formatted(schema: Any, **more: Any) -> dict[str, Any]:
    """A request for a reply of this schema."""
    described = {"name": "reply", "strict": True, "schema": schema, **more}
    return body(response_format={"type": "json_schema", "json_schema": described})


def nested(levels: int) -> dict[str, Any]:
    return closed(inner=nested(levels - 1)) if levels > 1 else closed(text=TEXT)


NODE = closed(next={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]})
GOOD_SCHEMAS = {
    "no properties": closed(),
    "texts": closed(a={**TEXT, "format": "date", "pattern": "^a+$"}, b={**TEXT, "minLength": 1, "enum": ["x"]}),
    "numbers": closed(a={"type": "number", "minimum": 0, "exclusiveMaximum": 9, "multipleOf": 0.5}),
    "optional": closed(a={"type": ["integer", "null"], "description": "How many."}),
    "arrays": closed(a={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3}),
    "a constant": closed(a={"const": 1}),
    "a union": closed(a={"anyOf": [TEXT, closed(b=TEXT)]}),
    "recursive": {**closed(a={"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}},
    "recursive at its root": closed(a={"type": "array", "items": {"$ref": "#"}}),
    "10 levels": nested(10),
    "a property with a keyword's name": closed(oneOf=TEXT),
    "1000 values": closed(a={"enum": [str(n) for n in range(1000)]}),
    "5000 properties": closed(**{f"p{n}": TEXT for n in range(5000)}),
}
BAD_SCHEMAS = {
    "not an object": ([], "the root must have type 'object'"),
    "a union as root": ({**closed(), "anyOf": [closed()]}, "the root must have type 'object', and no 'anyOf'"),
    "open": ({**closed(), "additionalProperties": True}, "In context=(), 'additionalProperties' is required to be"),
    "open inside": (
        closed(a={"type": "object", "properties": {}, "required": []}),
        "In context=('properties', 'a'), 'additionalProperties' is required to be supplied and to be false",
    ),
    "a dict": (
        closed(a={"type": "object", "additionalProperties": TEXT}),
        "In context=('properties', 'a'), 'additionalProperties' is required",
    ),
    "optional": ({**closed(a=TEXT, b=TEXT), "required": ["a"]}, "'required' is required to be a list of every key"),
    "required of nothing": ({**closed(), "required": ["a"]}, "'required' is required to be a list of every key"),
    "without required": (
        {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False},
        "'required' is required to be a list of every key in properties: a",
    ),
    "without properties": ({"type": "object", "additionalProperties": False}, "object schema missing 'properties'"),
    "properties are a list": ({**closed(), "properties": []}, "'properties' must be an object"),
    "default": (closed(a={**TEXT, "default": "x"}), "In context=('properties', 'a'), 'default' is not permitted"),
    "oneOf": (closed(a={"oneOf": [TEXT], "type": "string"}), "'oneOf' is not permitted"),
    "prefixItems": (closed(a={"type": "array", "prefixItems": [], "items": TEXT}), "'prefixItems' is not permitted"),
    "uniqueItems": (closed(a={"type": "array", "items": TEXT, "uniqueItems": True}), "'uniqueItems' is not permitted"),
    "anything": (closed(a={}), "In context=('properties', 'a'), schema must have a 'type' key"),
    "true": (closed(a=True), "True is not a schema"),
    "items of a list": (closed(a={"type": "array", "items": [TEXT]}), "is not a schema"),
    "array without items": (closed(a={"type": "array"}), "array schema missing 'items'"),
    "unknown type": (closed(a={"type": "date"}), "'type' 'date' is not supported"),
    "unknown format": (closed(a={**TEXT, "format": "uri"}), "'format' 'uri' is not supported"),
    "lookaround": (closed(a={**TEXT, "pattern": "^(?=a)"}), "regex lookaround is not supported"),
    "empty enum": (closed(a={"enum": []}), "'enum' must be a list with at least one value"),
    "empty union": (closed(a={"anyOf": []}), "'anyOf' must be a list with at least one schema"),
    "in a union": (closed(a={"anyOf": [TEXT, {}]}), "In context=('properties', 'a', 'anyOf', '1'), schema must"),
    "in items": (closed(a={"type": "array", "items": {}}), "In context=('properties', 'a', 'items'), schema must"),
    "in a definition": ({**closed(), "$defs": {"N": {}}}, "In context=('$defs', 'N'), schema must have"),
    "reference to nothing": (closed(a={"$ref": "#/$defs/N"}), "'$ref' '#/$defs/N' does not resolve"),
    "reference with neighbours": (
        {**closed(a={"$ref": "#/$defs/N", "description": "d"}), "$defs": {"N": TEXT}},
        "'$ref' cannot have keywords beside it: description",
    ),
    "11 levels": (nested(11), "11 levels of objects, where the provider takes 10"),
    "1001 values": (closed(a={"enum": [str(n) for n in range(1001)]}), "1001 values in enumerations, where"),
    "5001 properties": (closed(**{f"p{n}": TEXT for n in range(5001)}), "5001 properties, where"),
    "long values": (
        closed(a={"enum": [f"{n:0>60}" for n in range(251)]}),
        "15060 characters in one enumeration, where",
    ),
    "long names": (closed(**{"n" * 120_001: TEXT}), "120001 characters in names and values"),
}


@pytest.mark.parametrize("request_of", [strictly, formatted])
@pytest.mark.parametrize("schema", GOOD_SCHEMAS.values(), ids=GOOD_SCHEMAS)
def test_strict_schema_passes(schema: Any, request_of: Any) -> None:
    """A schema that keeps to the rules of strict mode is accepted, in a tool and for a reply."""
    with FakeServer([reply.text("3")]) as server:
        status, _ = status_and_json(server, request_of(schema))

    assert 200 == status


@pytest.mark.parametrize(("schema", "message"), BAD_SCHEMAS.values(), ids=BAD_SCHEMAS)
def test_strict_schema_refused(schema: Any, message: str) -> None:
    """A schema that strict mode does not take is refused, with the place and the keyword."""
    with contextlib.closing(FakeServer()) as server:
        status, answered = status_and_json(server, formatted(schema))

    assert (400, "response_format.json_schema.schema") == (status, answered["error"]["param"])
    assert message in answered["error"]["message"]


def test_strict_tool_refused() -> None:
    """A strict tool is held to the same rules, and named by its place."""
    with contextlib.closing(FakeServer()) as server:
        _, answered = status_and_json(server, strictly(closed(a={})))

    assert "tools[0].function.parameters" == answered["error"]["param"]


@pytest.mark.parametrize("strict", [False, None], ids=str)
def test_schema_that_is_not_strict(strict: Any) -> None:
    """Without strict mode a schema is the author's own affair."""
    with FakeServer([reply.text("3")]) as server:
        status, _ = status_and_json(server, formatted({"oneOf": [{}]}, strict=strict))

    assert 200 == status


@pytest.mark.parametrize(("content", "param"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_refusal(content: Any, param: str) -> None:
    """A request that OpenAI would refuse is answered 400, names its fault, and is reported."""
    with contextlib.closing(FakeServer()) as server:
        status, answered = status_and_json(server, content)

    error = answered["error"]
    assert (400, param, "invalid_request_error") == (status, error["param"], error["type"])
    assert f"Request 1: Invalid {param!r}" in error["message"]
    with pytest.raises(ScriptError, match=re.escape(error["message"])):
        server.check()


def test_correct_history_passes() -> None:
    """A long and correct conversation with every kind of content is accepted."""
    parts = [{"type": "text", "text": "Add."}]
    history = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": parts},
        calls("a", "b", content=None),
    ]
    history += [
        answer("a"),
        answer("b"),
        calls("c", content="More."),
        answer("c"),
        {"role": "assistant", "content": ""},
    ]
    bare = {"type": "function", "function": {"name": "now"}}
    with FakeServer([reply.text("3")]) as server:
        status, _ = status_and_json(server, body(*history, USER, tools=[ADD, bare], tool_choice="auto"))

    assert 200 == status


def test_refusal_uses_no_reply() -> None:
    """The reply goes to the next request that is correct, and the client does not retry the refused one."""
    with FakeServer([reply.text("3")]) as server, client_of(server, max_retries=2) as client:
        with pytest.raises(openai.BadRequestError, match="a preceding message with 'tool_calls'"):
            client.chat.completions.create(**body(answer("a")))
        server.problems.clear()

        assert "3" == client.chat.completions.create(**body()).choices[0].message.content


@pytest.mark.parametrize("content", [b"\xff", [1], body(answer("a"))], ids=["bytes", "list", "orphan"])
def test_lenient(content: Any) -> None:
    """Without `strict` anything gets its scripted reply."""
    with FakeServer([reply.text("3")], strict=False) as server:
        status, _ = status_and_json(server, content)

    assert 200 == status


# The server


def test_models() -> None:
    """The server names its one model."""
    with FakeServer(model="tiny") as server, client_of(server) as client:
        models = [model.id for model in client.models.list()]

    assert ["tiny"] == models


def test_unknown_path() -> None:
    """Any other path is 404 and uses no reply."""
    with (
        FakeServer() as server,
        client_of(server) as client,
        pytest.raises(openai.NotFoundError, match="POST /v1/embeddings"),
    ):
        client.embeddings.create(model="m", input="x")


def test_keep_alive() -> None:
    """Many requests share one connection, whatever the form of the replies."""
    script = [reply.text("a"), reply.error(400, "b"), reply.raw([b"c", b"d"]), reply.raw(b"")] * 5
    with FakeServer(script) as server, http_to(server) as connection:
        used = set()
        for _ in script:
            post(connection).read()
            used.add(connection.sock.getsockname())

    assert 1 == len(used)


def test_connection_close() -> None:
    """A reply with `connection: close` ends the connection."""
    with FakeServer([reply.raw(b"bye", headers={"Connection": "close"})]) as server:
        answered = received(server)

    assert b"bye" == payload(answered)


def test_concurrent_connections() -> None:
    """A reply that waits does not hold up another connection."""
    with FakeServer([reply.hang(), reply.text("3")]) as server, socket_to(server) as waiting:
        arrived(server, 1)
        status, _ = status_and_json(server)
        waiting.close()

    assert 200 == status


def test_close_releases_everything() -> None:
    """After `close()` no thread is left and nothing listens, though replies hang, drip, and wait."""
    before = set(threading.enumerate())
    script = [
        reply.hang(),
        reply.text("a").delayed(60),
        reply.text("b").dripping(1, 60),
        reply.text("c").held(),
        reply.raw(itertools.repeat(b"x" * 65536)),
    ]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(FakeServer(script))
        for _ in script:
            stack.enter_context(socket_to(server))
        arrived(server, len(script))
        server.close()

        assert set() == set(threading.enumerate()) - before
        with pytest.raises(ConnectionRefusedError):
            received(server)


def test_close_twice() -> None:
    """Closing again does nothing."""
    server = FakeServer()
    server.close()
    server.close()

    assert [] == server.requests


def test_client_that_leaves_ends_the_wait() -> None:
    """A hanging reply ends with its client, not only with the server."""
    with FakeServer([reply.hang()]) as server:
        with socket_to(server):
            arrived(server, 1)
            threads = [thread for thread in threading.enumerate() if thread.name == "FakeServer client"]
        for thread in threads:
            thread.join(5)

        assert [False] == [thread.is_alive() for thread in threads]


def test_quiet_when_clients_leave(capfd: pytest.CaptureFixture[str]) -> None:
    """A client that leaves in the middle, or speaks no HTTP, leaves no trace on the terminal."""
    endless = reply.raw(itertools.repeat(b"x" * 65536))
    with FakeServer([endless, endless.dripping(10, 0.001)]) as server:
        for _ in range(2):
            with socket_to(server) as connection:
                connection.recv(10)
        for start in (
            b"\r\n",
            b"hello\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nhalf",
            b"GET / H\r\n" + b"x" * 99_999,
        ):
            with socket.create_connection(address_of(server)) as connection:
                connection.sendall(start)

    assert ("", "") == tuple(capfd.readouterr())


def test_bound_to_loopback() -> None:
    """The server listens on 127.0.0.1 alone, not even on the other loopback addresses."""
    with FakeServer() as server, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", address_of(server)[1]), timeout=1)
