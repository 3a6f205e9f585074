"""Models behind a client of the openai package: make a client, send a request, limit and cancel its answer.

An answer is read only up to a limit: a server may send without end, or a gigabyte in a compressed kilobyte. Counted are
the bytes after decompression, where the client reads them, so nothing above the limit is ever held.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import socket
import sys
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from copy import copy
from functools import cache, partial
from operator import attrgetter
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from typing_extensions import Self

from toolkit._concurrency.cancellation import Cancellation
from toolkit._dialects.base import RunDialect, extract_output, get_member
from toolkit._dialects.tool_choice import applies_to_turn, resolve_choice
from toolkit._messages import ModelRequest, ModelResponse, ToolCall, Usage, replace_surrogates
from toolkit._options import check_options, is_whole
from toolkit.errors import ModelError
from toolkit.events import TextDelta
from toolkit.models import CallReady, Piece
from toolkit.models.errors import refuses_format, show_address, translate_errors

if TYPE_CHECKING:
    import ssl

    import httpx2
    import openai

logger = logging.getLogger("toolkit")
ClientT = TypeVar("ClientT", bound="openai.OpenAI | openai.AsyncOpenAI")

# Bytes. The longest answers of today's models have about half a megabyte of text, as ten megabytes of events.
MAX_ANSWER = 64 * 2**20
MAX_EVENT = 16 * 2**20

# Arguments of the package's `create` that are not keys of a body -> what to write.
CLIENT_OPTIONS = {
    "extra_body": "write the keys in it beside the others.",
    "extra_headers": "set them on the client, client.with_options(default_headers=...).",
    "max_retries": "set it on the client, client.with_options(max_retries=...).",
    "extra_query": "set it on the client, client.with_options(default_query=...).",
    "timeout": "set it on the client, client.with_options(timeout=...).",
}
# Options that servers refuse where a request has no tools.
TOOL_OPTIONS = frozenset({"tool_choice", "parallel_tool_calls"})
# Hosts that understand a list of allowed tools beside the tools on offer; others are offered only what is allowed.
KNOW_ALLOWED = ("api.openai.com", ".openai.azure.com")

# Connection pools of an async client that is made here, the responses that are open in one before the next is used, and
# its connections: together as many as a client of the package has.
MAX_POOLS = 16
MAX_OPEN = 16
MAX_CONNECTIONS = 1000 // MAX_POOLS

# Seconds for a stream to end after its last event, so that the next request can have its connection; most servers send
# both at once.
END_WAIT = 0.02

# What some servers put in front of an answer; no event and no JSON begins with it.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class ResponseBuilder(ABC):
    """Collects one answer, whole or chunk by chunk."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.items: tuple[Mapping[str, Any], ...] = ()
        self.finish_reason = ""
        self.model = ""
        self.usage = Usage(requests=1)
        self.is_complete = False

    @classmethod
    @abstractmethod
    def from_reply(cls, reply: Any) -> ResponseBuilder:
        """Read an answer that was not streamed."""

    @abstractmethod
    def add_chunk(self, chunk: Any) -> Iterable[Piece]:
        """Add a chunk of a stream, and yield the pieces for its listeners."""

    @abstractmethod
    def build_calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they started."""

    @abstractmethod
    def take_ready(self) -> Iterable[tuple[ToolCall, int]]:
        """List the calls completed since the last time, with their positions."""


class ServerModel:
    """A model behind a server that a client of the openai package talks to.

    Args:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`, or an object that behaves like one.
        name: The model's name at the server.
        dialect: The wire format of tools; native tool calls, strict where that is lossless, by default.
        options: Further keys of each request's body, such as `temperature`.

    Raises:
        TypeError: An option belongs to the client, not to a request's body; or each request sets it.
    """

    builder: ClassVar[type[ResponseBuilder]]
    default_dialect: ClassVar[type[RunDialect]]
    # Keys of each request's body that options may not replace.
    own_keys: ClassVar[frozenset[str]]
    # Those that they may replace.
    defaults: ClassVar[Mapping[str, Any]] = {}
    # The client's attribute whose `create` sends requests; with slashes, their path.
    resource: ClassVar[str]
    # Arguments of a streamed request.
    streaming: ClassVar[Mapping[str, Any]] = {}

    @check_options
    def __init__(
        self,
        client: openai.OpenAI | openai.AsyncOpenAI | Any,
        name: str,
        *,
        dialect: RunDialect | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.client = client
        self.name = name
        self.dialect: RunDialect = dialect or self.default_dialect(strict=True)
        self.options = select_options(options or {})
        for key in self.options.keys() & self.own_keys:
            raise TypeError(
                f"options={{{key!r}: ...}}: each request has a {key!r} of its own, which this would replace."
            )
        self.is_async = hasattr(client, "__aenter__")  # as AsyncOpenAI has; its methods do not show it

    def with_client(self, client: Any) -> Self:
        """Return the same model behind another client of the same server."""
        model = copy(self)
        model.client, model.is_async = client, hasattr(client, "__aenter__")
        return model

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {show_address(getattr(self.client, 'base_url', '')) or '?'}>"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer a request.

        Raises:
            ModelError: The server failed, or its answer cannot be read.
        """
        reply = await self._send(request, stream=False)
        with translate_errors(self.client, self.name):
            return self._build_response(self.builder.from_reply(reply), request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer a request in pieces; the last one is the whole answer.

        Raises:
            ModelError: As `complete`; also where the stream ended without a finish reason, since it may have been cut.
        """
        builder, chunks = self.builder(), await self._send(request, stream=True, **self.streaming)
        is_public = self.dialect.has_public_text(request)  # now that it is known whether the output is a call
        with translate_errors(self.client, self.name):
            async with aclosing(_read_stream(chunks, request.cancellation)) as stream:
                async for chunk in stream:
                    for piece in builder.add_chunk(chunk):
                        if is_public or not isinstance(piece, TextDelta):
                            yield piece
                    for ready in self._list_ready(builder, request) if request.early else ():
                        yield ready
                    if builder.is_complete:
                        break
            if not builder.finish_reason:
                raise ModelError("The model's answer broke off: no finish reason came. Its calls are discarded.")
            response = self._build_response(builder, request)
        if response.text and not is_public:
            yield TextDelta(response.text)
        yield response

    def _list_ready(self, builder: ResponseBuilder, request: ModelRequest) -> Iterator[CallReady]:
        """Decode completed calls of tools; the call that is the output belongs to none."""
        for call, position in builder.take_ready():
            _, (decoded,) = self.dialect.parse_reply("", [call], request.tools)
            if any(spec.name == decoded.name for spec in request.tools):
                yield CallReady(decoded, position)

    async def _send(self, request: ModelRequest, **options: Any) -> Any:
        """Send a request; where the server takes no schema of the output, it becomes a call for the whole run."""
        body = self._make_body(request)
        try:
            with translate_errors(self.client, self.name):
                return await self._create(body, request.cancellation, **options)
        except ModelError as error:
            if request.output is None or request.output.by_tool or not refuses_format(error):
                raise
            logger.info("%r takes no response_format: it is to answer by calling %r.", self, request.output.spec.name)
            request.output.by_tool = True
        return await self._send(request, **options)

    async def _create(self, body: Mapping[str, Any], cancellation: Cancellation | None, **options: Any) -> Any:
        create = attrgetter(f"{self.resource}.create")(self.client)
        client = _find_client(create)
        if client is not None:
            # `create` would walk all messages on every turn, and check each piece of the answer.
            return _parse_text(await self._post(client, {"model": self.name, **body, **options}, cancellation))
        reply = create(model=self.name, **body, **options)
        return _parse_text(await reply if inspect.isawaitable(reply) else reply)

    async def _post(self, client: Any, body: Mapping[str, Any], cancellation: Cancellation | None) -> Any:
        """Send a body as it is, and return the stream, or the text, as often as the client itself would read it."""
        path = f"/{self.resource.replace('.', '/')}"
        stream_cls = _make_stream_class(is_async=hasattr(client, "__aenter__"))
        post = partial(client.post, path, cast_to=object, body=body, stream=True, stream_cls=stream_cls)
        retries = client.max_retries
        while True:
            reply = post(options={"security": {"bearer_auth": True}, "max_retries": retries})
            reply = await reply if inspect.isawaitable(reply) else reply
            if body["stream"] or not isinstance(reply, stream_cls):
                return reply
            try:
                return await _read_text(reply, cancellation)
            except _list_transport_errors() as error:
                if not retries or cancellation:
                    raise _make_connection_error(error, reply.response.request) from error
            retries -= 1

    def _make_body(self, request: ModelRequest) -> dict[str, Any]:
        """Make the body, without what servers refuse where a request has no tools."""
        rendered = self.dialect.render_request(resolve_choice(request, knows_allowed=self._knows_allowed))
        body = {**self.defaults, **self._add_options(rendered)}
        unfit = frozenset() if "tools" in body else TOOL_OPTIONS
        if not applies_to_turn(self.options.get("tool_choice"), request.turn):
            unfit |= {"tool_choice"}
        return {key: value for key, value in body.items() if key not in unfit}

    def _add_options(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, **self.options}

    @property
    def _knows_allowed(self) -> bool:
        host = getattr(getattr(self.client, "base_url", None), "host", "")
        return isinstance(host, str) and host.endswith(KNOW_ALLOWED)

    def _build_response(self, builder: ResponseBuilder, request: ModelRequest) -> ModelResponse:
        content = replace_surrogates("".join(builder.text))
        text, calls = self.dialect.parse_reply(content, builder.build_calls(), request.all_tools)
        if request.output:
            text, calls = extract_output(text, calls, request.output, self.dialect.parse_reply)
        return ModelResponse(
            text=text,
            calls=calls,
            finish_reason=builder.finish_reason,
            usage=builder.usage,
            model=builder.model or self.name,
            reasoning=replace_surrogates("".join(builder.reasoning)),
            items=builder.items,
            is_answer=bool(calls) and self.dialect.has_answer(content),
        )


def select_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without those that the openai package omits.

    Raises:
        TypeError: One is an argument of the package's `create`, and no key of a request's body.
    """
    for name in options.keys() & CLIENT_OPTIONS.keys():
        raise TypeError(f"options={{{name!r}: ...}} is not a key of a request's body: {CLIENT_OPTIONS[name]}")
    openai = sys.modules.get("openai")  # where it was not imported, nothing is of its types
    return {
        name: value
        for name, value in options.items()
        if openai is None or not isinstance(value, (openai.Omit, openai.NotGiven))
    }


def read_usage(usage: Any, read: str, written: str) -> Usage:
    """Read the tokens that a server reports for one request; 0 where it reports no number.

    Args:
        usage: What the server reports.
        read: The name of the model's input in it, such as "prompt".
        written: The name of its output in it.
    """
    return Usage(
        _count_tokens(usage, f"{read}_tokens"),
        _count_tokens(usage, f"{written}_tokens"),
        1,
        _count_tokens(get_member(usage, f"{read}_tokens_details"), "cached_tokens"),
        _count_tokens(get_member(usage, f"{written}_tokens_details"), "reasoning_tokens"),
    )


def _count_tokens(usage: Any, name: str) -> int:
    count = get_member(usage, name)
    return count if is_whole(count, 0) else 0


def _find_client(create: Any) -> Any:
    """Return the client behind the package's own `create`; None for any other one: a wrapper must see the arguments."""
    if type(create) is not MethodType:  # a proxy answers isinstance() and __module__ for what it wraps
        return None
    home: str = getattr(create.__func__, "__globals__", {}).get("__name__", "")
    client = getattr(create.__self__, "_client", None)
    return client if home.partition(".")[0] == "openai" and hasattr(client, "post") else None


@cache
def _make_stream_class(*, is_async: bool) -> type[Any]:
    """Make the class of streams that are read to their end, where the package closes the connection at the last event.

    They leave out the events without data, which the package takes for broken JSON.
    """
    import openai

    class EventStream(openai.Stream[object]):
        def _iter_events(self) -> Iterator[Any]:
            events = super()._iter_events()
            for event in events:
                if _may_read_on(event, self.response):
                    with suppress(Exception), _limit_reads(self.response):
                        next(events, None)
                if event.data.strip():
                    yield event

    class AsyncEventStream(openai.AsyncStream[object]):
        async def _iter_events(self) -> AsyncIterator[Any]:
            events = super()._iter_events()
            async for event in events:
                if _may_read_on(event, self.response):
                    with suppress(Exception), _limit_reads(self.response):
                        await anext(events, None)
                if event.data.strip():
                    yield event

    return AsyncEventStream if is_async else EventStream


def _may_read_on(event: Any, response: httpx2.Response) -> bool:
    """Return whether an event is the last of a stream, on a connection that it does not share."""
    is_last = event.data.startswith("[DONE]") or event.event == "response.completed"
    return is_last and _find_connection(response) is not None


@contextmanager
def _limit_reads(response: httpx2.Response) -> Iterator[None]:
    """Give all further reads of a response END_WAIT together."""
    connection, end = _find_connection(response), time.monotonic() + END_WAIT
    read = connection.read

    def read_in_time(size: int, timeout: float | None = None) -> Any:
        # Once the response is closed, another thread may have the connection.
        return read(size, timeout if response.is_closed else max(0.0, end - time.monotonic()))

    connection.read = read_in_time
    try:
        yield
    finally:
        if connection.read is read_in_time:
            del connection.read  # what is left is that of its class


def _make_connection_error(error: Exception, request: Any) -> Exception:
    """Make the error that the package's client raises for one of its connection."""
    import openai

    is_timeout = "Timeout" in type(error).__name__
    return openai.APITimeoutError(request) if is_timeout else openai.APIConnectionError(request=request)


async def _read_text(reply: Any, cancellation: Cancellation | None) -> str:
    """Read an answer that is not streamed, which is UTF-8 whatever its headers say."""
    response = reply.response
    limit_response(response)
    try:
        if hasattr(reply, "__aiter__"):
            content = await response.aread()
        else:
            with close_on_cancel(cancellation, response):
                content = response.read()
    finally:
        closing = reply.close()
        if inspect.isawaitable(closing):
            await closing
    return bytes(content).decode()


def _list_transport_errors() -> tuple[type[Exception], ...]:
    """List the errors of a connection that breaks; the application's client may be of the older package."""
    packages = (sys.modules.get(name) for name in ("httpx2", "httpx"))
    return tuple(package.TransportError for package in packages if package is not None)


def _parse_text(reply: Any) -> Any:
    """Parse an answer that the client left as it was, whatever its media type; return it where it is not JSON."""
    with suppress(TypeError, ValueError):
        return json.loads(reply)
    return reply


async def _read_stream(chunks: Any, cancellation: Cancellation | None) -> AsyncGenerator[Any, None]:
    """Yield the chunks of either kind of client until it is cancelled; close the stream in any case."""
    response = _limit_stream(chunks)
    try:
        if hasattr(chunks, "__aiter__"):
            async for chunk in chunks:
                yield chunk
        else:
            with close_on_cancel(cancellation, response):
                for chunk in chunks:
                    yield chunk
    finally:
        closing = chunks.close() if hasattr(chunks, "close") else None
        if inspect.isawaitable(closing):
            await closing


def _limit_stream(chunks: Any) -> httpx2.Response | None:
    """Limit the response of a stream; return it where it is read on a thread."""
    import openai

    if not isinstance(chunks, (openai.Stream, openai.AsyncStream)):
        return None
    limit_response(chunks.response)
    return chunks.response if isinstance(chunks, openai.Stream) else None


def limit_response(response: httpx2.Response) -> None:
    """Limit how much of a response can be read. To be called before reading starts; again does nothing."""
    if "iter_bytes" in vars(response):
        return
    meter, read, aread = _Meter(), response.iter_bytes, response.aiter_bytes

    def iter_bytes(chunk_size: int | None = None) -> Iterator[bytes]:
        return map(meter.count, read(chunk_size))

    async def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        async with aclosing(aread(chunk_size)) as pieces:
            async for piece in pieces:
                yield meter.count(piece)

    vars(response).update(iter_bytes=iter_bytes, aiter_bytes=aiter_bytes)


class _Meter:
    """Counts the bytes of one answer, and of the event that is arriving."""

    def __init__(self) -> None:
        self.answer = 0
        self.event = 0
        self._start = b""

    def count(self, piece: bytes) -> bytes:
        """Count a piece, and return it, the first without a byte order mark.

        Raises:
            ModelError: The answer or the event is too long.
        """
        if not self.answer:
            self._start += piece
            if self._start != BYTE_ORDER_MARK and BYTE_ORDER_MARK.startswith(self._start):
                return b""  # the mark may come apart
            piece, self._start = self._start.removeprefix(BYTE_ORDER_MARK), b""
        end = max(piece.rfind(mark) for mark in _EVENT_ENDS)  # where an end comes apart, the event counts as longer
        self.answer += len(piece)
        self.event = len(piece) + (self.event if end < 0 else -end)
        if self.answer > MAX_ANSWER or self.event > MAX_EVENT:
            limit = f"{MAX_ANSWER >> 20} MiB, or {MAX_EVENT >> 20} MiB in one event"
            raise ModelError(f"The model's answer is longer than {limit}. Its calls are discarded.")
        return piece


@contextmanager
def close_on_cancel(cancellation: Cancellation | None, response: httpx2.Response | None) -> Iterator[None]:
    """Shut down a response's connection when it is cancelled, since the thread that reads it cannot be ended.

    A response that is read in an event loop needs none of this: it ends with its task.
    """
    if cancellation is None or response is None:
        yield
        return
    leave = cancellation.subscribe(partial(_shut_down, response))
    try:
        yield
    finally:
        leave()


def _shut_down(response: httpx2.Response) -> None:
    """Shut down a connection, unless others may use it: if it was given back, or HTTP/2 shares it."""
    stream = _find_connection(response)
    connection = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            # Closing it would not wake its reader; a TLS socket's own shutdown would take its state from the reader.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _find_connection(response: httpx2.Response) -> Any:
    """Return the connection of a response that is being read; None where HTTP/2 shares it, or there is none."""
    is_alone = not response.is_closed and response.extensions.get("http_version") in (b"HTTP/1.1", b"HTTP/1.0")
    return response.extensions.get("network_stream") if is_alone else None


def sync_client(base_url: Any, api_key: str) -> openai.OpenAI:
    """Make a client for `run` and `stream`; its connections are closed when it is garbage-collected."""
    import openai

    hooks = {"response": [limit_response]}
    http = openai.DefaultHttpxClient(follow_redirects=False, event_hooks=hooks, verify=_load_certificates())
    client = openai.OpenAI(
        base_url=base_url, api_key=api_key, http_client=http, default_headers=_omit_headers(base_url)
    )
    weakref.finalize(client, http.close)
    return _forget_account(client)


def async_client(base_url: Any, api_key: str) -> openai.AsyncOpenAI:
    """Make a client for `arun` and `astream`, to be used and closed in one event loop."""
    import httpx2
    import openai

    http = _make_pooled_class()(
        follow_redirects=False,
        event_hooks={"response": [_alimit_response]},
        verify=_load_certificates(),
        limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=2 * MAX_OPEN),
    )
    headers = _omit_headers(base_url)
    return _forget_account(
        openai.AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http, default_headers=headers)
    )


@cache
def _make_pooled_class() -> type[Any]:
    """Make the class of HTTP clients with several connection pools: a pool checks all its connections at each request.

    The first pool that is not busy takes a request, so a single conversation stays on one connection.
    """
    import openai

    class PooledClient(openai.DefaultAsyncHttpxClient):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._make_pool = partial(openai.DefaultAsyncHttpxClient, **options)
            self._open: dict[Any, int] = {}  # responses by pool

        async def send(self, request: Any, **options: Any) -> Any:
            pool = _choose_pool(self._open, self._make_pool)
            self._open[pool] += 1
            try:
                response = await pool.send(request, **options)
            except BaseException:
                self._open[pool] -= 1
                raise
            self._open[pool] -= response.is_closed
            close = response.aclose

            async def aclose() -> None:
                self._open[pool] -= not response.is_closed
                await close()

            vars(response)["aclose"] = aclose
            return response

        async def aclose(self) -> None:
            for pool in self._open:
                await pool.aclose()
            await super().aclose()

    return PooledClient


def _choose_pool(opened: dict[Any, int], make: Callable[[], Any]) -> Any:
    """Return the first pool that is not busy, a new one where all are, or the least busy one of MAX_POOLS."""
    for pool, responses in opened.items():
        if responses < MAX_OPEN:
            return pool
    if len(opened) == MAX_POOLS:
        return min(opened, key=opened.__getitem__)
    pool = make()
    opened[pool] = 0
    return pool


@cache
def _load_certificates() -> ssl.SSLContext:
    """Load the certificates that servers are checked by, once in a process: it takes tens of milliseconds."""
    import httpx2

    return httpx2.create_ssl_context()


def _is_openai(base_url: Any) -> bool:
    return not base_url or urlsplit(str(base_url)).hostname == "api.openai.com"


def _omit_headers(base_url: Any) -> dict[str, Any]:
    """Omit the headers that the environment sets for OpenAI (OPENAI_CUSTOM_HEADERS) from requests to another server."""
    import openai

    lines = [] if _is_openai(base_url) else os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()
    return {line.partition(":")[0].strip(): openai.Omit() for line in lines if ":" in line}


def _forget_account(client: ClientT) -> ClientT:
    """Forget OPENAI_ORG_ID and OPENAI_PROJECT_ID, unless the server is OpenAI."""
    if not _is_openai(client.base_url):
        client.organization = client.project = None
    return client


async def _alimit_response(response: httpx2.Response) -> None:
    limit_response(response)
