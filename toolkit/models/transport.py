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
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, closing, contextmanager, suppress
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

# Seconds for a stream to end after its last event, so that the next request can have its connection, and for whoever
# traces the stream to see its end; most servers send both at once.
END_WAIT = 0.02
TRACE_WAIT = 0.25

# Some servers send it before an answer.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Bytes of the beginning of an answer that are kept for an error, which shows fewer.
HEAD = 2000

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


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
    """Send a body unchanged, and return the stream or the text of the answer; retry as often as the client would.

    A connection that breaks while a text is read counts as a retry, too. A stream is not retried after it has started.
    """
    import httpx2

    is_async, is_streamed = hasattr(client, "__aenter__"), body["stream"]
    send = partial(client.post, path, body=body, stream=True)
    if is_streamed:
        send = partial(send, cast_to=object, stream_cls=_make_stream_class(is_async=is_async))
    else:
        send = partial(send, cast_to=httpx2.Response)
    retries = client.max_retries
    while True:
        reply = send(options={"security": {"bearer_auth": True}, "max_retries": retries})
        reply = await reply if is_async else reply
        if is_streamed or not hasattr(reply, "iter_bytes"):
            return reply
        try:
            return await _read_text(reply, cancellation, is_async=is_async)
        except tuple(package.TransportError for package in _list_packages()) as error:
            retries -= 1 + int(reply.request.headers.get("x-stainless-retry-count", 0))  # those of the client itself
            if retries < 0 or cancellation:
                raise _make_connection_error(error, reply.request) from error


@cache
def _make_stream_class(*, is_async: bool) -> type[Any]:
    """Make a class of streams that are read to their end; the package's own close the connection at the last event.

    They leave out events without data, which the package would parse as JSON.
    """
    import openai

    class EventStream(openai.Stream[object]):
        def _iter_events(self) -> Iterator[Any]:
            events = super()._iter_events()
            for event in events:
                if _may_read_on(event, self.response):
                    with suppress(Exception), _limit_reads(self.response, END_WAIT):
                        next(events, None)
                if event.data.strip():
                    yield event

    class AsyncEventStream(openai.AsyncStream[object]):
        async def _iter_events(self) -> AsyncIterator[Any]:
            events = super()._iter_events()
            async for event in events:
                if _may_read_on(event, self.response):
                    with suppress(Exception), _limit_reads(self.response, END_WAIT):
                        await anext(events, None)
                if event.data.strip():
                    yield event

    return AsyncEventStream if is_async else EventStream


def _may_read_on(event: Any, response: httpx2.Response) -> bool:
    """Return whether an event ends a stream, on a connection that it does not share; the package would not read on."""
    return event.data.startswith("[DONE]") and _find_connection(response) is not None


@contextmanager
def _limit_reads(response: httpx2.Response, seconds: float) -> Iterator[None]:
    """Give all further reads of a response this time together."""
    connection, end = _find_connection(response), time.monotonic() + seconds
    read = connection.read

    def read_in_time(size: int, timeout: float | None = None) -> Any:
        # Once the response is closed, another thread may have the connection.
        return read(size, timeout if response.is_closed else max(0.0, end - time.monotonic()))

    connection.read = read_in_time
    try:
        yield
    finally:
        if connection.read is read_in_time:
            del connection.read  # the method of the class remains


def _make_connection_error(error: Exception, request: Any) -> Exception:
    """Make the error that the package's client raises for an error of its connection."""
    import openai

    is_timeout = "Timeout" in type(error).__name__
    return openai.APITimeoutError(request) if is_timeout else openai.APIConnectionError(request=request)


async def _read_text(response: httpx2.Response, cancellation: Cancellation | None, *, is_async: bool) -> str:
    """Read an answer that is not streamed as UTF-8, whatever its headers say."""
    limit_response(response)
    if is_async:
        async with aclosing(response):
            return (await response.aread()).decode()
    with closing(response), on_cancel(cancellation, partial(_shut_down, response)):
        return response.read().decode()


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

    A wrapper's stream may have the methods of both kinds; then it is of the client's kind, `is_async`.
    """
    response = _find_response(chunks)
    if response is not None:
        limit_response(response)
    try:
        if hasattr(chunks, "__aiter__") and (is_async or not hasattr(chunks, "__iter__")):
            async for chunk in chunks:
                yield chunk
        else:
            with on_cancel(cancellation, partial(_shut_down, response)):
                for chunk in chunks:
                    yield chunk
    finally:
        closing = chunks.close() if hasattr(chunks, "close") else None
        if inspect.isawaitable(closing):
            await closing


async def read_on(stream: AsyncIterator[Any], chunks: Any) -> None:
    """Read a stream of chunks from its last event to its end, which whoever traces it waits for."""
    response = _find_response(chunks)
    if response is not None and _find_connection(response) is not None:
        with suppress(Exception), _limit_reads(response, TRACE_WAIT):
            async for _ in stream:
                pass


def read_head(chunks: Any) -> str:
    """Return the beginning of the answer that a stream has read; empty if it is not known."""
    meter = getattr(_find_response(chunks), "meter", None)
    return "" if meter is None else meter.head.decode(errors="replace").strip()


def _find_response(chunks: Any) -> Any:
    """Return the response that a stream of the package reads, also one in a wrapper; None for another stream."""
    kinds = tuple(package.Response for package in _list_packages())
    for _ in range(4):
        chunks = getattr(chunks, "response", None)
        if isinstance(chunks, kinds):
            return chunks
    return None


def limit_response(response: httpx2.Response) -> None:
    """Limit how much of a response can be read; to be called before reading starts. A second call does nothing."""
    if not isinstance(response, _LimitedReads):
        kind: Any = type(response)
        # Functions set on the response itself would be a reference cycle.
        response.__class__ = _make_limited_class(kind)
        vars(response)["meter"] = _Meter()


class _LimitedReads:
    """Methods of a limited response, which count the bytes that are read."""

    meter: _Meter

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        return map(self.meter.count, super().iter_bytes(chunk_size))  # type: ignore[misc]  # of the response's class

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        async with aclosing(super().aiter_bytes(chunk_size)) as pieces:  # type: ignore[misc]  # as above
            async for piece in pieces:
                yield self.meter.count(piece)


@cache
def _make_limited_class(kind: Any) -> type[Any]:
    return type(kind.__name__, (_LimitedReads, kind), {})


class _Meter:
    """Counts the bytes of one answer, and of the event that is arriving."""

    def __init__(self) -> None:
        self.answer = 0
        self.event = 0
        self.head = b""
        self._start = b""

    def count(self, piece: bytes) -> bytes:
        """Count a piece, and return it, the first without a byte order mark.

        Raises:
            ModelError: The answer or the event is too long.
        """
        if not self.answer:
            self._start += piece
            if self._start != BYTE_ORDER_MARK and BYTE_ORDER_MARK.startswith(self._start):
                return b""  # the mark may be split
            piece, self._start = self._start.removeprefix(BYTE_ORDER_MARK), b""
        if len(self.head) < HEAD:
            self.head += piece[:HEAD]
        end = max(piece.rfind(mark) for mark in _EVENT_ENDS)  # if an end is split, the event counts as longer
        self.answer += len(piece)
        self.event = len(piece) + (self.event if end < 0 else -end)
        if self.answer > MAX_ANSWER or self.event > MAX_EVENT:
            limit = f"{MAX_ANSWER >> 20} MiB, or {MAX_EVENT >> 20} MiB in one event"
            raise ModelError(f"The model's answer is longer than {limit}. Its calls are discarded.")
        return piece


def _shut_down(response: httpx2.Response | None) -> None:
    """Shut down a connection that a thread is reading, to wake the thread, unless other requests may use it.

    They may if it was returned to its pool, or HTTP/2 shares it. In an event loop, the task is cancelled instead.
    """
    stream = None if response is None else _find_connection(response)
    connection = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            # close() would not wake the reader, and shutdown() of a TLS socket would discard the state that it uses.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _find_connection(response: httpx2.Response) -> Any:
    """Return the connection of a response that is being read; None if HTTP/2 shares it, or there is none."""
    is_alone = not response.is_closed and response.extensions.get("http_version") in (b"HTTP/1.1", b"HTTP/1.0")
    return response.extensions.get("network_stream") if is_alone else None
