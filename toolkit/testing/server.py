"""A loopback server that speaks Chat Completions and Responses from a script, faults of the wire included.

    with FakeServer([reply.calls(("add", {"a": 1, "b": 2})), reply.text("It is 3.")]) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="test")

One thread accepts, one thread serves each connection. Two things must stay true when this file changes: a request is
recorded and its reply chosen under one lock, so the n-th request meets the n-th reply; and a serving thread blocks
only on its own socket or on `_closed`, so `close()` can always release it.
"""

import itertools
import json
import reprlib
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, parse_headers, responses
from types import TracebackType
from typing import Any, BinaryIO, TypeAlias

from toolkit.testing import strict, strict_items, wire
from toolkit.testing.errors import ScriptError
from toolkit.testing.reply import Reply

Script: TypeAlias = "Iterable[Reply] | Callable[[Request], Reply]"

_APIS = {"POST /v1/chat/completions": "chat", "POST /v1/responses": "responses"}
_FAULTS = {"chat": strict.faults, "responses": strict_items.faults}
# The platforms disagree about the width of the two numbers in struct linger.
_RESET_ON_CLOSE = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as it arrived.

    `headers` has lower-case names; `body` is empty unless `content` is a JSON object; `at` is `time.monotonic()`.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes
    body: dict[str, Any]
    at: float  # seconds


class FakeServer:
    """Serve scripted replies on 127.0.0.1, one for each POST in order of arrival.

    It is asked at /v1/chat/completions or /v1/responses, and answers as that API does. It keeps nothing between
    requests.

    A request after the last reply is answered 500. With `strict`, a request that OpenAI would refuse is answered 400
    and uses up no reply. Both are kept in `problems`; leaving the `with` block raises them, and the replies left over,
    as `ScriptError`, unless another exception is on its way. Clear `problems` of what a test provokes on purpose.

    Args:
        script: Replies, or a function from a request to its reply (for an endless script). The function is called for
            one request at a time and must not wait; let it return a `delayed` reply instead.
        strict: Whether to refuse what OpenAI refuses; `toolkit.testing.strict` has the list.
        model: The one model that GET /v1/models names.
    """

    def __init__(self, script: Script = (), *, strict: bool = True, model: str = "fake-model") -> None:
        self.model = model
        self.requests: list[Request] = []
        self.problems: list[str] = []
        self._strict = strict
        self._left = deque(() if callable(script) else script)
        self._choose = script if callable(script) else self._next
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
        """What to give to a client; after `close()` nothing listens there."""
        return f"http://127.0.0.1:{self._address[1]}/v1"

    def __enter__(self) -> "FakeServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        if kind is None:
            self.verify()

    def verify(self) -> None:
        """Raise `ScriptError` if there were problems or if replies are left over."""
        left = [f"Never asked for: {', '.join(answer.label for answer in self._left)}"] if self._left else []
        if self.problems or left:
            raise ScriptError("\n".join(self.problems + left))

    def close(self) -> None:
        """Release every reply that waits, close every connection, and wait for the threads to end."""
        if self._closed.is_set():
            return
        self._closed.set()
        socket.create_connection(self._address).close()  # the one way to wake accept() that every platform knows
        self._acceptor.join()
        self._listener.close()
        for thread, connection in self._serving.items():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._closed.is_set():
                connection.close()
                return
            thread = threading.Thread(target=self._serve, args=(connection,), name="FakeServer client", daemon=True)
            self._serving = {known: at for known, at in self._serving.items() if known.is_alive()}
            self._serving[thread] = connection
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while (request := _read(stream)) and self._exchange(connection, request):
                    pass
        except (OSError, HTTPException):
            return  # the client went away, or close() shut the connection
        except Exception as error:  # noqa: BLE001 - a lazy body may raise anything; stderr is no place for it
            self.problems.append(f"A reply failed while it was sent: {error!r}")

    def _exchange(self, connection: socket.socket, request: Request) -> bool:
        with self._lock:
            self.requests.append(request)
            answer, payload = self._answer(request)
        stays = self._send(connection, answer, payload)
        return stays and "close" not in (request.headers.get("connection"), answer.headers.get("connection"))

    def _answer(self, request: Request) -> tuple[Reply, wire.Payload]:
        ask = self._ask(request)
        try:
            answer = self._route(request)
            return answer, answer.render(ask)
        except Exception as error:  # noqa: BLE001 - a script may raise anything, and the test shall read it
            answer = self._problem(500, f"the script failed with {error!r}")
            return answer, answer.render(ask)

    def _ask(self, request: Request) -> wire.Ask:
        options = request.body.get("stream_options")
        return wire.Ask(
            number=len(self.requests),
            model=str(request.body.get("model", self.model)),
            stream=request.body.get("stream") is True,
            include_usage=isinstance(options, dict) and options.get("include_usage") is True,
            new_id=lambda: f"call_{next(self._ids)}",
            api=_APIS.get(_place(request), "chat"),
        )

    def _route(self, request: Request) -> Reply:
        place = _place(request)
        if place == "GET /v1/models":
            return Reply.body({"object": "list", "data": [{"id": self.model, "object": "model"}]})
        if place not in _APIS:
            return Reply.error(404, f"There is no {place} here.")
        if self._strict and (fault := strict.first_fault(request.content, _FAULTS[_APIS[place]])):
            return self._problem(400, str(fault), param=fault.param)
        return self._choose(request)

    def _next(self, request: Request) -> Reply:
        if self._left:
            return self._left.popleft()
        last = (request.body.get("messages") or request.body.get("input") or [None])[-1]
        return self._problem(500, f"no reply is left; the last message is {reprlib.repr(last)}")

    def _problem(self, status: int, message: str, *, param: str | None = None) -> Reply:
        text = f"Request {len(self.requests)}: {message}"
        self.problems.append(text)
        # The header keeps the openai client from retrying what no retry mends.
        return Reply.error(status, text, param=param, headers={"x-should-retry": "false"})

    def _send(self, connection: socket.socket, answer: Reply, payload: wire.Payload) -> bool:
        """Send a reply and say whether the connection may serve another request."""
        self._wait(connection, answer.delay)
        if answer.end_at is not None:
            self._write(connection, answer, payload)
        if answer.end == "held":
            self._wait(connection, None)
        if answer.end == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        return answer.end == "whole"

    def _write(self, connection: socket.socket, answer: Reply, payload: wire.Payload) -> None:
        if not answer.bare:
            connection.sendall(_head(answer, payload))
        for piece in _sliced(wire.first_bytes(payload.pieces, answer.end_at or 0), answer.slice):
            connection.sendall(payload.framed(piece))
            self._wait(connection, answer.pause)
        if answer.end == "whole":
            connection.sendall(payload.framed(b""))

    def _wait(self, connection: socket.socket, seconds: float | None) -> None:
        """Wait, but not longer than the client stays and the server is open; None is for ever."""
        if seconds == 0:
            return
        connection.settimeout(seconds)
        with suppress(TimeoutError):
            if not connection.recv(1, socket.MSG_PEEK):
                raise ConnectionAbortedError
            self._closed.wait(seconds)  # the next request is already here, so only the server can end the wait
        connection.settimeout(None)


def _place(request: Request) -> str:
    return f"{request.method} {request.path.partition('?')[0]}"


def _read(stream: BinaryIO) -> Request | None:
    """Read one request, or None from a client that left or does not speak HTTP."""
    words = stream.readline().decode("latin-1").split()
    if len(words) != 3:
        return None
    headers = {name.lower(): value for name, value in parse_headers(stream).items()}
    size = int(headers.get("content-length", 0))
    content = stream.read(size)
    if len(content) < size:
        return None
    return Request(
        method=words[0], path=words[1], headers=headers, content=content, body=_object(content), at=time.monotonic()
    )


def _object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _head(answer: Reply, payload: wire.Payload) -> bytes:
    if isinstance(payload.content, bytes):
        framing = {"content-length": str(len(payload.content))}
    else:
        framing = {"transfer-encoding": "chunked"}
    headers = {"content-type": payload.content_type, **framing, **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} {responses.get(answer.status, '')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1")


def _sliced(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    for piece in pieces:
        yield from (piece[start : start + size] for start in range(0, len(piece), size))
