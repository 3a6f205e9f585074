"""A loopback server that answers Chat Completions and Responses by a script, network faults included.

    with FakeServer([reply.calls(("add", {"a": 1, "b": 2})), reply.text("It is 3.")]) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="test")

One thread accepts connections, and each of them is served by a thread of its own. Two things must stay true when this
file changes: a request is recorded and its reply chosen under one lock, so the n-th request meets the n-th reply; and a
serving thread blocks only on its own socket or on `_closed`, so `close()` can always release it.
"""

from __future__ import annotations

import itertools
import json
import reprlib
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException, parse_headers, responses
from typing import Any, BinaryIO, Literal, TypeAlias

from typing_extensions import Self

from toolkit._messages import ToolCall
from toolkit.testing.rendering import (
    CallSpec,
    Completion,
    Payload,
    ReplyContext,
    encode_json,
    render_events,
    take_bytes,
)
from toolkit.testing.scripted import ScriptError

End: TypeAlias = Literal["whole", "cut", "reset", "held"]
Answer: TypeAlias = "Reply | str | ToolCall | Sequence[ToolCall]"
# `object` is what mypy makes of a variable with texts and calls.
Script: TypeAlias = "Iterable[Answer | object] | Callable[[Request], Answer]"

_APIS = {"POST /v1/chat/completions": "chat", "POST /v1/responses": "responses"}
# The two numbers in struct linger differ in width between platforms.
_RESET_ON_CLOSE = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as it arrived.

    `headers` has lower-case names; `body` is empty unless `content` is a JSON object.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes
    body: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A scripted reply, with or without faults. `delayed`, `cut` and similar methods return a changed copy.

    Counts of bytes are bytes of the body. A connection that is cut, reset or held serves no further request.
    """

    label: str
    render: Callable[[ReplyContext], Payload]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    delay: float = 0.0  # seconds before the status line
    slice: int = sys.maxsize  # bytes per write
    pause: float = 0.0  # seconds after each write
    end: End = "whole"
    end_at: int | None = sys.maxsize  # None: before the status line
    bare: bool = False  # the body is the whole answer: no status line, no framing

    @staticmethod
    def text(
        text: str, *, finish_reason: str | None = "stop", usage: tuple[int, int] | None = (1, 1), split: int = 8
    ) -> Reply:
        """Answer with text, as JSON or as SSE, whichever the request wants.

        Args:
            text: The message's content.
            finish_reason: Any text, even one that does not fit; None is sent as null.
            usage: Prompt and completion tokens; None is sent as null.
            split: Characters per SSE delta.
        """
        completion = Completion(text=text, calls=(), finish_reason=finish_reason, usage=usage, split=split)
        return Reply(label=f"text({reprlib.repr(text)})", render=completion.render)

    @staticmethod
    def calls(
        *calls: CallSpec,
        text: str | None = None,
        finish_reason: str | None = "tool_calls",
        usage: tuple[int, int] | None = (1, 1),
        split: int = 8,
    ) -> Reply:
        """Answer with tool calls, each a name, its arguments and optionally its id.

        Arguments that are a text are sent as they are, even if invalid. Without an id a call gets `call_1`, `call_2`
        and so on, counted over all replies of the server. An id of None is sent as null. The options are those of
        `text`.
        """
        for each in calls:
            if not isinstance(each, tuple) or len(each) not in (2, 3):
                raise TypeError(f'reply.calls() takes names with arguments, ("add", {{"a": 1}}), not {each!r:.100}.')
        completion = Completion(text=text, calls=calls, finish_reason=finish_reason, usage=usage, split=split)
        return Reply(label=f"calls({', '.join(call[0] for call in calls)})", render=completion.render)

    @staticmethod
    def output(
        *items: Mapping[str, Any],
        finish_reason: str | None = "stop",
        usage: tuple[int, int] | None = (1, 1),
        split: int = 8,
    ) -> Reply:
        """Answer with items of Responses, such as reasoning, unchanged. In Chat Completions the reply is empty.

        The options are those of `text`; with "length" or "content_filter" the response is incomplete.
        """
        completion = Completion(text=None, calls=(), finish_reason=finish_reason, usage=usage, split=split, items=items)
        return Reply(label=f"output({', '.join(str(i.get('type')) for i in items)})", render=completion.render)

    @staticmethod
    def error(
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Answer with an error in OpenAI's form."""
        kind = "server_error" if status // 100 == 5 else "invalid_request_error"
        error = {"message": message, "type": kind, "param": param, "code": code}
        answer = Reply.body({"error": error}, status=status, headers=headers)
        return replace(answer, label=f"error({status}, {reprlib.repr(message)})")

    @staticmethod
    def body(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
        """Answer with one JSON value, even if the request wants a stream."""
        answer = Reply.raw(encode_json(value), status=status, headers=headers)
        return replace(answer, label=f"body({reprlib.repr(value)})")

    @staticmethod
    def raw(
        content: bytes | Iterable[bytes],
        *,
        content_type: str = "application/json",
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Answer with these bytes. An iterable is sent lazily, one HTTP chunk and one write for each item."""
        payload = Payload(content=content, content_type=content_type)
        lower = {name.lower(): value for name, value in (headers or {}).items()}
        return Reply(label=f"raw({reprlib.repr(content)})", render=lambda _: payload, status=status, headers=lower)

    @staticmethod
    def chunks(chunks: Iterable[Mapping[str, Any] | bytes], *, done: bool = True) -> Reply:
        r"""Answer with SSE events, even if the request wants no stream.

        A mapping is a whole chunk (`{"choices": [...]}`); `id`, `object`, `created` and `model` are added if they are
        missing. Bytes are sent as they are: write their `data: ` and `\n\n` yourself. `done` adds `data: [DONE]`. In
        Responses a mapping is a whole event (`{"type": "response.created", ...}`), and nothing is added.
        """
        return Reply(
            label=f"chunks({reprlib.repr(chunks)})", render=lambda context: render_events(context, chunks, done=done)
        )

    @staticmethod
    def verbatim(content: bytes) -> Reply:
        """Send only these bytes, which include the status line, then close the connection."""
        return replace(Reply.raw(content), label=f"verbatim({reprlib.repr(content)})", bare=True, end="cut")

    @staticmethod
    def hang() -> Reply:
        """Never answer. The wait ends when the client disconnects or the server closes."""
        return replace(Reply.raw(b"").held(None), label="hang()")

    def delayed(self, seconds: float) -> Reply:
        """Wait before the status line."""
        return replace(self, delay=seconds)

    def dripping(self, bytes_per_write: int, seconds: float) -> Reply:
        """Write the body in slices and wait after each. In SSE, every slice is a separate HTTP chunk."""
        return replace(self, slice=bytes_per_write, pause=seconds)

    def truncated(self, after_bytes: int) -> Reply:
        """End the body early as if it were complete: HTTP shows no error."""
        return replace(self, render=lambda context: self.render(context).truncate(after_bytes))

    def cut(self, after_bytes: int | None = None) -> Reply:
        """Close the connection within the body; None closes before the status line."""
        return replace(self, end="cut", end_at=after_bytes)

    def reset(self, after_bytes: int | None = None) -> Reply:
        """Reset the connection (RST) within the body; None resets before the status line.

        Bytes that the client has not read yet are lost with the connection, as with a real server.
        """
        return replace(self, end="reset", end_at=after_bytes)

    def held(self, after_bytes: int | None = sys.maxsize) -> Reply:
        """Stop sending within the body, by default after all of it, and keep the connection open.

        None stops before the status line.
        """
        return replace(self, end="held", end_at=after_bytes)


reply = Reply  # a short name for scripts: `[reply.text("hi")]`


class FakeServer:
    """An HTTP server on 127.0.0.1 with scripted replies, one for each POST in order of arrival.

    It serves /v1/chat/completions and /v1/responses, and stores nothing between requests.

    A request after the last reply is answered with status 500. A request that `check` refuses is answered with status
    400, and uses no reply. Both are recorded in `problems`. At its end, the `with` block raises `ScriptError` if there
    are problems or unused replies, unless it raises another exception. If a test causes a problem on purpose, clear
    `problems`.

    Args:
        script: Replies, or texts and calls as for `ScriptedModel`; or a function from a request to one of these (for an
            endless script). The function is called for one request at a time and must not wait. To wait, return a
            `delayed` reply.
        check: A function of each request for a completion, which raises ValueError to refuse the request.
        model: The only model that GET /v1/models lists.

    Raises:
        TypeError: An item of the script is not a reply.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        check: Callable[[Request], object] | None = None,
        model: str = "fake-model",
    ) -> None:
        self.model = model
        self.requests: list[Request] = []
        self.problems: list[str] = []
        self._check = check
        script = [script] if isinstance(script, str) else script
        self._unused = deque(() if callable(script) else map(_make_reply, script))
        self._choose = script if callable(script) else self._next_reply
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._serving: dict[threading.Thread, socket.socket] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._address = self._listener.getsockname()
        self._acceptor = threading.Thread(target=self._accept, name="FakeServer", daemon=True)
        self._acceptor.start()

    @property
    def base_url(self) -> str:
        """The `base_url` for a client, until `close()`."""
        return f"http://127.0.0.1:{self._address[1]}/v1"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise `ScriptError` if there were problems or unused replies."""
        unused = [f"Unused replies: {', '.join(answer.label for answer in self._unused)}"] if self._unused else []
        if self.problems or unused:
            raise ScriptError("\n".join(self.problems + unused))

    def close(self) -> None:
        """End every waiting reply, close every connection, and wait for the threads to end."""
        if self._closed.is_set():
            return

        self._closed.set()
        socket.create_connection(self._address).close()  # the one way to wake accept() that works on every platform
        self._acceptor.join()
        self._listener.close()

        for thread, connection in self._serving.items():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
                if sys.platform == "win32":  # where a thread that reads notices only that it is closed
                    socket.close(connection.detach())
            thread.join()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._closed.is_set():
                connection.close()
                return
            thread = threading.Thread(
                target=self._serve_connection, args=(connection,), name="FakeServer client", daemon=True
            )
            self._serving = {known: at for known, at in self._serving.items() if known.is_alive()}
            self._serving[thread] = connection
            thread.start()

    def _serve_connection(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while (request := _read_request(stream)) and self._exchange(connection, request):
                    pass
        except (OSError, HTTPException):
            return  # the client disconnected, or close() shut the connection
        except Exception as error:  # noqa: BLE001 - a lazy body may raise anything, and the test should see it
            self.problems.append(f"A reply failed while it was sent: {error!r}")

    def _exchange(self, connection: socket.socket, request: Request) -> bool:
        with self._lock:
            self.requests.append(request)
            answer, payload = self._choose_reply(request)
        is_open = self._send_reply(connection, answer, payload)
        return is_open and "close" not in (request.headers.get("connection"), answer.headers.get("connection"))

    def _choose_reply(self, request: Request) -> tuple[Reply, Payload]:
        context = self._make_context(request)
        try:
            answer = self._route(request)
            return answer, answer.render(context)
        except Exception as error:  # noqa: BLE001 - a script may raise anything, and the test should see it
            answer = self._add_problem(500, f"the script failed with {error!r}")
            return answer, answer.render(context)

    def _make_context(self, request: Request) -> ReplyContext:
        options = request.body.get("stream_options")
        return ReplyContext(
            number=len(self.requests),
            model=str(request.body.get("model", self.model)),
            stream=request.body.get("stream") is True,
            include_usage=isinstance(options, dict) and options.get("include_usage") is True,
            new_id=lambda: f"call_{next(self._ids)}",
            api=_APIS.get(_name_endpoint(request), "chat"),
        )

    def _route(self, request: Request) -> Reply:
        endpoint = _name_endpoint(request)
        if endpoint == "GET /v1/models":
            return Reply.body({"object": "list", "data": [{"id": self.model, "object": "model"}]})
        if endpoint not in _APIS:
            return Reply.error(404, f"This server has no {endpoint}.")
        try:
            if self._check is not None:
                self._check(request)
        except ValueError as fault:
            return self._add_problem(400, str(fault), param=getattr(fault, "param", None))
        return _make_reply(self._choose(request))

    def _next_reply(self, request: Request) -> Reply:
        if self._unused:
            return self._unused.popleft()
        last = (request.body.get("messages") or request.body.get("input") or [None])[-1]
        return self._add_problem(500, f"the script has no reply left; the last message is {reprlib.repr(last)}")

    def _add_problem(self, status: int, message: str, *, param: str | None = None) -> Reply:
        text = f"Request {len(self.requests)}: {message}"
        self.problems.append(text)
        # The header keeps the openai client from a useless retry.
        return Reply.error(status, text, param=param, headers={"x-should-retry": "false"})

    def _send_reply(self, connection: socket.socket, answer: Reply, payload: Payload) -> bool:
        """Send a reply. Return whether the connection may serve another request."""
        self._wait_for_client(connection, answer.delay)
        if answer.end_at is not None:
            self._send_body(connection, answer, payload)
        if answer.end == "held":
            self._wait_for_client(connection, None)
        if answer.end == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        return answer.end == "whole"

    def _send_body(self, connection: socket.socket, answer: Reply, payload: Payload) -> None:
        if not answer.bare:
            connection.sendall(_render_head(answer, payload))
        for piece in _slice(take_bytes(payload.pieces, answer.end_at or 0), answer.slice):
            connection.sendall(payload.frame(piece))
            self._wait_for_client(connection, answer.pause)
        if answer.end == "whole":
            connection.sendall(payload.frame(b""))

    def _wait_for_client(self, connection: socket.socket, seconds: float | None) -> None:
        """Wait, at most until the client disconnects or the server closes; None means no limit of time."""
        if seconds == 0:
            return
        connection.settimeout(seconds)
        with suppress(TimeoutError):
            if not connection.recv(1, socket.MSG_PEEK):
                raise ConnectionAbortedError
            self._closed.wait(seconds)  # the client has sent its next request already, so only close() ends the wait
        connection.settimeout(None)


def _make_reply(item: Any) -> Reply:
    if isinstance(item, Reply):
        return item
    if isinstance(item, str):
        return Reply.text(item)
    calls = (item,) if isinstance(item, ToolCall) else item
    if not isinstance(calls, Sequence) or not all(isinstance(each, ToolCall) for each in calls):
        raise TypeError(
            f"A FakeServer answers with text, calls such as [call('add', a=1)], or a reply such as "
            f"reply.error(503, 'overloaded'), not {item!r:.100}."
        )
    return Reply.calls(*((each.name, each.arguments) for each in calls))


def _name_endpoint(request: Request) -> str:
    return f"{request.method} {request.path.partition('?')[0]}"


def _read_request(stream: BinaryIO) -> Request | None:
    """Read one request. Return None if the client has disconnected or does not speak HTTP."""
    start = stream.readline().decode("latin-1").split()
    if len(start) != 3:
        return None

    headers = {name.lower(): value for name, value in parse_headers(stream).items()}
    size = int(headers.get("content-length", 0))
    content = stream.read(size)
    if len(content) < size:
        return None
    return Request(
        method=start[0],
        path=start[1],
        headers=headers,
        content=content,
        body=_parse_object(content),
    )


def _parse_object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _render_head(answer: Reply, payload: Payload) -> bytes:
    if isinstance(payload.content, bytes):
        framing = {"content-length": str(len(payload.content))}
    else:
        framing = {"transfer-encoding": "chunked"}
    headers = {"content-type": payload.content_type, **framing, **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} {responses.get(answer.status, '')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1")


def _slice(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    for piece in pieces:
        yield from (piece[start : start + size] for start in range(0, len(piece), size))
