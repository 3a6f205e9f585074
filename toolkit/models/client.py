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
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from copy import copy
from functools import partial
from operator import attrgetter
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from typing_extensions import Self

from toolkit._concurrency.cancellation import Cancellation
from toolkit._dialects.base import RunDialect, extract_output
from toolkit._dialects.tool_choice import applies_to_turn, resolve_choice
from toolkit._messages import ModelRequest, ModelResponse, ToolCall, Usage, replace_surrogates
from toolkit._options import check_options
from toolkit.errors import ModelError
from toolkit.events import TextDelta
from toolkit.models import CallReady, Piece
from toolkit.models.errors import refuses_format, translate_errors

if TYPE_CHECKING:
    import httpx2
    import openai

logger = logging.getLogger("toolkit")
ClientT = TypeVar("ClientT", bound="openai.OpenAI | openai.AsyncOpenAI")

# Bytes. The longest answers of today's models have about half a megabyte of text, as ten megabytes of events.
MAX_ANSWER = 64 * 2**20
MAX_EVENT = 16 * 2**20

# Options that servers refuse where a request has no tools.
TOOL_OPTIONS = frozenset({"tool_choice", "parallel_tool_calls"})
# Hosts that understand a list of allowed tools beside the tools on offer; others are offered only what is allowed.
KNOW_ALLOWED = ("api.openai.com", ".openai.azure.com")

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
        options: Further keys of each request, such as `temperature`.
    """

    builder: ClassVar[type[ResponseBuilder]]
    default_dialect: ClassVar[type[RunDialect]]
    # Keys of each request's body that options may replace.
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
        self.options = dict(options or {})
        self.is_async = hasattr(client, "__aenter__")  # as AsyncOpenAI has; its methods do not show it

    def with_client(self, client: Any) -> Self:
        """Return the same model behind another client of the same server."""
        model = copy(self)
        model.client, model.is_async = client, hasattr(client, "__aenter__")
        return model

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {getattr(self.client, 'base_url', '?')}>"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer a request.

        Raises:
            ModelError: The server failed, or its answer cannot be read.
        """
        reply = await self._send(request, stream=False)
        with translate_errors(self.client, self.name):
            builder = self.builder.from_reply(reply)
        return self._build_response(builder, request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer a request in pieces; the last one is the whole answer.

        Raises:
            ModelError: As `complete`; also where the stream ended without a finish reason, since it may have been cut.
        """
        builder = self.builder()
        async with aclosing(self._read_pieces(request, builder)) as batches:
            async for pieces in batches:
                for piece in pieces:
                    yield piece
        if not builder.finish_reason:
            raise ModelError("The model's answer broke off: no finish reason came. Its calls are discarded.")
        response = self._build_response(builder, request)
        if response.text and not self.dialect.has_public_text(request):
            yield TextDelta(response.text)
        yield response

    async def _read_pieces(self, request: ModelRequest, builder: ResponseBuilder) -> AsyncGenerator[list[Piece], None]:
        """Fill a builder, and yield the pieces of each chunk."""
        chunks = await self._send(request, stream=True, **self.streaming)
        is_public = self.dialect.has_public_text(request)
        with translate_errors(self.client, self.name):
            async with aclosing(_read_stream(chunks, request.cancellation)) as stream:
                async for chunk in stream:
                    pieces = list(builder.add_chunk(chunk))
                    yield pieces if is_public else [piece for piece in pieces if not isinstance(piece, TextDelta)]
                    if request.early:
                        yield [*self._list_ready(builder, request)]
                    if builder.is_complete:
                        break

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
        if _is_unwrapped(create) and hasattr(self.client, "post"):
            # It would walk all messages on every turn, and check each piece of the answer.
            reply = self._post({"model": self.name, **body, **options}, cancellation)
        else:
            reply = create(model=self.name, **body, **options)
        return _parse_text(await reply if inspect.isawaitable(reply) else reply)

    def _post(self, body: Mapping[str, Any], cancellation: Cancellation | None) -> Any:
        """Send a body as it is; the answer is plain data."""
        import openai

        kind: Any = openai.AsyncStream if self.is_async else openai.Stream
        options = {"security": {"bearer_auth": True}}
        path = f"/{self.resource.replace('.', '/')}"
        post: Any = partial(self.client.post, path, cast_to=object, body=body, options=options)
        if self.is_async or body["stream"] or cancellation is None or cancellation.deadline is None:
            return post(stream=body["stream"], stream_cls=kind[object])
        with post(stream=True, stream_cls=kind[object]) as reply, close_on_cancel(cancellation, reply.response):
            limit_response(reply.response)
            reply.response.read()
            return reply.response.text

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


def count_tokens(usage: Any) -> int:
    """Return a number of tokens that a server reports; 0 for anything else."""
    return usage if isinstance(usage, int) else 0


def _is_unwrapped(create: Any) -> bool:
    """Return whether `create` is the package's own: a wrapper must see the ordinary arguments."""
    if type(create) is not MethodType:  # a proxy answers isinstance() and __module__ for what it wraps
        return False
    home: str = getattr(create.__func__, "__globals__", {}).get("__name__", "")
    return home.partition(".")[0] == "openai"


def _parse_text(reply: Any) -> Any:
    """Parse an answer that the client left as it was, whatever its media type; return it where it is no JSON."""
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

    def count(self, piece: bytes) -> bytes:
        """Count a piece, and return it.

        Raises:
            ModelError: The answer or the event is too long.
        """
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
    if response.is_closed or response.extensions.get("http_version") not in (b"HTTP/1.1", b"HTTP/1.0"):
        return
    stream: Any = response.extensions.get("network_stream")
    connection = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            # Closing it would not wake its reader; a TLS socket's own shutdown would take its state from the reader.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


def sync_client(base_url: Any, api_key: str) -> openai.OpenAI:
    """Make a client for `run` and `stream`; its connections are closed when it is garbage-collected."""
    import openai

    http = openai.DefaultHttpxClient(follow_redirects=False, event_hooks={"response": [limit_response]})
    client = openai.OpenAI(
        base_url=base_url, api_key=api_key, http_client=http, default_headers=_omit_headers(base_url)
    )
    weakref.finalize(client, http.close)
    return _forget_account(client)


def async_client(base_url: Any, api_key: str) -> openai.AsyncOpenAI:
    """Make a client for `arun` and `astream`, to be used and closed in one event loop."""
    import openai

    http = openai.DefaultAsyncHttpxClient(follow_redirects=False, event_hooks={"response": [_alimit_response]})
    headers = _omit_headers(base_url)
    return _forget_account(
        openai.AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http, default_headers=headers)
    )


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
