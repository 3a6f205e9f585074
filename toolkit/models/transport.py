"""Sending a request through a client of the openai package; reading, limiting and cancelling its answer.

An answer is read only up to a limit: a server may send without end, or a gigabyte in a compressed kilobyte. Bytes are
counted after decompression, while the client reads them, so nothing above the limit is in memory.
"""

from __future__ import annotations

import inspect
import json
import socket
import sys
import time
from codecs import BOM_UTF8, getincrementaldecoder
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, suppress
from functools import cache, partial
from types import MethodType
from typing import TYPE_CHECKING, Any

from toolkit._concurrency.cancellation import Cancellation, on_cancel
from toolkit.errors import ModelError

if TYPE_CHECKING:
    import httpx2

# Bytes. The longest answers of today's models have about half a megabyte of text, as ten megabytes of events.
MAX_ANSWER = 64 * 2**20
MAX_EVENT = 16 * 2**20

TOO_LONG = (
    f"The model's answer is longer than {MAX_ANSWER >> 20} MiB, or {MAX_EVENT >> 20} MiB in one event. Its calls are "
    "discarded."
)

# What ends an event.
_EVENT_ENDS = (b"\n\n", b"\r\r", b"\n\r\n")

# Seconds for a stream to end after its last event; most servers send both at once.
END_WAIT = 0.1

# Bytes of the beginning of an answer that are kept for an error, which shows fewer.
HEAD = 2000


def find_client(create: Any) -> Any:
    """Return the client behind the package's own `create`; None if a wrapper must see the arguments or the answer.

    Some wrap `create`, such as Langfuse; others the method that it calls, `request`, such as Logfire.
    """
    client = getattr(create.__self__, "_client", None) if _is_original(create) else None
    is_original = client is not None and all(_is_original(getattr(client, name, None)) for name in ("post", "request"))
    return client if is_original else None


def _is_original(method: Any) -> bool:
    """Return whether a method is one of the package; a proxy imitates isinstance() and __module__ of what it wraps."""
    if type(method) is not MethodType:
        return False
    home: str = getattr(method.__func__, "__globals__", {}).get("__name__", "")
    return home.partition(".")[0] == "openai"


async def post(client: Any, path: str, body: Mapping[str, Any], cancellation: Cancellation | None) -> Any:
    """Send a body unchanged, and return the response of a stream, or the text of an answer; retry as the client would.

    A connection that breaks while a text is read counts as a retry, too. A stream is not retried after it has started.
    """
    import httpx2

    is_async, retries = hasattr(client, "__aenter__"), client.max_retries
    send = partial(client.post, path, body=body, stream=True, cast_to=httpx2.Response)
    while True:
        response = send(options={"security": {"bearer_auth": True}, "max_retries": retries})
        response = await response if is_async else response
        if body["stream"]:
            return response
        try:
            pieces = [piece async for piece in _read(response, cancellation, is_async=is_async)]
            return b"".join(pieces).decode("utf-8-sig")  # whatever the headers say
        except tuple(package.TransportError for package in _list_packages()):
            retries -= 1 + int(response.request.headers.get("x-stainless-retry-count", 0))  # those of the client itself
            if retries < 0 or cancellation:
                raise


def _list_packages() -> list[Any]:
    """List the HTTP packages in use; the application's client may use the older one, httpx."""
    return [sys.modules[name] for name in ("httpx2", "httpx") if name in sys.modules]


def parse_text(reply: Any) -> Any:
    """Parse an answer that is JSON text; return any other value, such as an object of the client, unchanged."""
    with suppress(TypeError, ValueError):
        return json.loads(reply)
    return reply


async def read_stream(chunks: Any, cancellation: Cancellation | None, *, is_async: bool) -> AsyncGenerator[Any, None]:
    """Yield the chunks of a stream until the request is cancelled, and close the stream.

    The stream is a response, whose events are the chunks, or one of the package, which may be in a wrapper.
    """
    response = _find_response(chunks)
    if response is not None:
        limit_response(response)
        response.max_event = MAX_EVENT

    async with aclosing(_read(chunks, cancellation, is_async=is_async)) as pieces:
        if chunks is not response:
            async for chunk in pieces:
                yield chunk
            return
        events = _Events()
        async for piece in pieces:
            for data in events.add(piece):
                if data.startswith("[DONE]"):
                    await read_on(pieces, response)
                    return
                yield json.loads(data)


async def _read(source: Any, cancellation: Cancellation | None, *, is_async: bool) -> AsyncGenerator[Any, None]:
    """Yield the bytes of a response, or the chunks of another stream, until the request is cancelled, and close it.

    A wrapper's stream may have the methods of both kinds; then it is of the client's kind, `is_async`.
    """
    response, items = _find_response(source), source
    if response is not None:
        limit_response(response)
        if source is response:
            items = response.aiter_bytes() if is_async else response.iter_bytes()
    try:
        if hasattr(items, "__aiter__") and (is_async or not hasattr(items, "__iter__")):
            async for item in items:
                yield item
        else:
            with on_cancel(cancellation, partial(_shut_down, response)):
                for item in items:
                    yield item
    finally:
        close = getattr(source, "aclose" if is_async else "close", None) or getattr(source, "close", None)
        closing = close() if close else None
        if inspect.isawaitable(closing):
            await closing


class _Events:
    """Splits a stream into events: UTF-8 with line ends of any kind, and perhaps a byte order mark at its start."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8-sig")()
        self._is_after_cr = False  # so that a line feed belongs to it
        self._line: list[str] = []  # parts of the line that is arriving
        self._data: list[str] = []

    def add(self, piece: bytes) -> Iterator[str]:
        """Add a piece of the stream, and yield the data of the events that it ends, but for those without any."""
        if text := self._decoder.decode(piece):
            is_after_cr, self._is_after_cr = self._is_after_cr, text.endswith("\r")
            text = text.removeprefix("\n") if is_after_cr else text
        part, *parts = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._line.append(part)
        for part in parts:
            line, self._line = "".join(self._line), [part]
            if line.startswith("data:"):
                self._data.append(line[5:].removeprefix(" "))
            elif not line:
                data, self._data = "\n".join(self._data), []
                if data.strip():
                    yield data


async def read_on(stream: AsyncIterator[Any], chunks: Any) -> None:
    """Read a stream from its last event to its end, for END_WAIT seconds at most.

    The next request can then have its connection, and whoever traces the stream sees its end.
    """
    response = _find_response(chunks)
    connection = _find_connection(response)
    if connection is None:
        return
    read, end = connection.read, time.monotonic() + END_WAIT

    def read_in_time(size: int, timeout: float | None = None) -> Any:
        # Once the response is closed, another thread may have the connection.
        return read(size, timeout if response.is_closed else max(0.0, end - time.monotonic()))

    connection.read = read_in_time
    try:
        with suppress(Exception):
            async for _ in stream:
                pass
    finally:
        if connection.read is read_in_time:
            del connection.read  # the method of the class remains


def read_head(chunks: Any) -> str:
    """Return the beginning of the answer that a stream has read; empty if it is not known."""
    head: bytes = getattr(_find_response(chunks), "head", b"")
    return head.decode(errors="replace").strip()


def _find_response(chunks: Any) -> Any:
    """Return the response that a stream reads, which may be in a wrapper, or is the stream; None for another stream."""
    kinds = tuple(package.Response for package in _list_packages())
    for _ in range(5):
        if isinstance(chunks, kinds):
            return chunks
        chunks = getattr(chunks, "response", None)
    return None


def limit_response(response: httpx2.Response) -> None:
    """Limit how much of a response can be read; to be called before reading starts. A second call does nothing."""
    if not isinstance(response, _LimitedReads):
        # Functions set on the response itself would be a reference cycle.
        kind: Any = type(response)
        response.__class__ = _make_limited_class(kind)


class _LimitedReads:
    """Methods of a limited response, which count the bytes that are read."""

    received = 0
    event = 0  # bytes of the event that is arriving
    max_event = MAX_ANSWER  # a whole answer has no events
    head = b""

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        return map(self._count, super().iter_bytes(chunk_size))  # type: ignore[misc]  # of the response's class

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        async with aclosing(super().aiter_bytes(chunk_size)) as pieces:  # type: ignore[misc]  # as above
            async for piece in pieces:
                yield self._count(piece)

    def _count(self, piece: bytes) -> bytes:
        if not self.received:
            piece = piece.removeprefix(BOM_UTF8)  # the package would lose the first event
        self.received += len(piece)
        if len(self.head) < HEAD:
            self.head += piece[:HEAD]
        end = max(piece.rfind(mark) for mark in _EVENT_ENDS)  # if an end is split, the event counts as longer
        self.event = len(piece) + (self.event if end < 0 else -end)
        if self.received > MAX_ANSWER or self.event > self.max_event:
            raise ModelError(TOO_LONG)
        return piece


@cache
def _make_limited_class(kind: Any) -> Any:
    return type(kind.__name__, (_LimitedReads, kind), {})


def _shut_down(response: httpx2.Response | None) -> None:
    """Shut down a connection that a thread is reading, to wake the thread, unless other requests may use it.

    They may if it was returned to its pool, or HTTP/2 shares it. In an event loop, the task is cancelled instead.
    """
    stream = _find_connection(response)
    connection = stream and stream.get_extra_info("socket")
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            # close() would not wake the reader, and shutdown() of a TLS socket would discard the state that it uses.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _find_connection(response: httpx2.Response | None) -> Any:
    """Return the connection of a response that is being read; None if HTTP/2 shares it, or there is none."""
    if response is None or response.is_closed:
        return None
    is_alone = response.extensions.get("http_version") in (b"HTTP/1.1", b"HTTP/1.0")
    return response.extensions.get("network_stream") if is_alone else None
