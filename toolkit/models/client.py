"""How much of an answer is read: a server may send without end, or a gigabyte in a compressed kilobyte.

Counted is what comes out of the decompression, where the client reads it, so nothing above a bound is ever held.

Ending what a thread reads: no thread can be ended from outside, but the connection can that it waits for.

What the models behind a client of the openai package have in common: one request, one answer, whole or in pieces.
"""

from __future__ import annotations

import inspect
import logging
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from copy import copy
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self

from toolkit._concurrency.cancellation import Cancellation
from toolkit._dialects.base import RunDialect, extract_output
from toolkit._dialects.tool_choice import applies_to_turn, resolve_choice
from toolkit._messages import ModelRequest, ModelResponse, ToolCall, Usage, replace_surrogates
from toolkit.errors import ModelError
from toolkit.events import TextDelta
from toolkit.models import CallReady, Piece
from toolkit.models.errors import refuses_format, translated

if TYPE_CHECKING:
    import httpx2
    import openai

# Bytes. The longest answers of today's models have about half a megabyte of text, as ten megabytes of events.
MAX_ANSWER = 64 * 2**20
MAX_EVENT = 16 * 2**20

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Meter:
    """Counts what has arrived of one answer, and of the event that is arriving."""

    def __init__(self) -> None:
        self.answer = 0
        self.event = 0

    def passed(self, piece: bytes) -> bytes:
        """Count a piece, and give it back.

        Raises:
            ModelError: It is more than an answer may have.
        """
        ended = max(piece.rfind(end) for end in _EVENT_ENDS)  # where an end comes apart, the event counts as longer
        self.answer += len(piece)
        self.event = len(piece) + (self.event if ended < 0 else -ended)
        if self.answer > MAX_ANSWER or self.event > MAX_EVENT:
            bound = f"{MAX_ANSWER >> 20} MiB, or {MAX_EVENT >> 20} MiB in one event"
            raise ModelError(f"The model's answer is longer than {bound}. Nothing of it was carried out.")
        return piece


def bound(response: httpx2.Response) -> None:
    """Let no more be read of a response that has just begun than an answer may have; twice is as good as once."""
    if "iter_bytes" in vars(response):
        return
    meter, read, aread = Meter(), response.iter_bytes, response.aiter_bytes

    def iter_bytes(chunk_size: int | None = None) -> Iterator[bytes]:
        return map(meter.passed, read(chunk_size))

    async def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        async with aclosing(aread(chunk_size)) as pieces:
            async for piece in pieces:
                yield meter.passed(piece)

    vars(response).update(iter_bytes=iter_bytes, aiter_bytes=aiter_bytes)


@contextmanager
def read_until(cancellation: Cancellation | None, response: httpx2.Response | None) -> Iterator[None]:
    """Break the connection of a response when it is called off; from then on nothing more of it comes.

    For a response that is read on a thread; one that is read in an event loop ends with its task.
    """
    if cancellation is None or response is None:
        yield
        return
    leave = cancellation.subscribe(partial(_break, response))
    try:
        yield
    finally:
        leave()


def _break(response: httpx2.Response) -> None:
    """Break a connection, unless others may use it: where it was given back, or HTTP/2 shares it."""
    if response.is_closed or response.extensions.get("http_version") not in (b"HTTP/1.1", b"HTTP/1.0"):
        return
    stream: Any = response.extensions.get("network_stream")
    connection = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            # To close it would not wake who reads from it; a TLS socket's own shutdown would take its state from it.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


logger = logging.getLogger("toolkit")

ONLY_WITH_TOOLS = frozenset({"tool_choice", "parallel_tool_calls"})
# Who knows a list of allowed tools beside the list of tools; elsewhere what is not allowed is not shown.
KNOW_ALLOWED = ("api.openai.com", ".openai.azure.com")


class Answer(ABC):
    """What has arrived of one answer."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.items: tuple[Mapping[str, Any], ...] = ()
        self.finish_reason = ""
        self.model = ""
        self.usage = Usage(requests=1)
        self.is_over = False

    @classmethod
    @abstractmethod
    def of(cls, reply: Any) -> Answer:
        """Read an answer that came whole."""

    @abstractmethod
    def take(self, chunk: Any) -> Iterable[Piece]:
        """Add a chunk of a stream, and give what of it is worth showing."""

    @abstractmethod
    def calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they began."""

    @abstractmethod
    def ready(self) -> Iterable[tuple[ToolCall, int]]:
        """List the calls that have become whole since this was asked last, and which of the answer's they are."""


class ServerModel(ABC):
    """A model behind a server that a client of the openai package talks to.

    Args:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`, or something that behaves like one.
        name: The model's, as the server knows it.
        dialect: How tools are shown; native tool calls, strict where that is lossless, by default.
        options: Further keys of each request, such as `temperature`.
    """

    answer: ClassVar[type[Answer]]
    usual_dialect: ClassVar[type[RunDialect]]
    # What a request has beside what is asked and what the application says.
    defaults: ClassVar[Mapping[str, Any]] = {}
    # What `create` is given in vain, since the body says it.
    placeholders: ClassVar[Mapping[str, Any]] = {}
    streaming: ClassVar[Mapping[str, Any]] = {}

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
        self.dialect: RunDialect = dialect or self.usual_dialect(strict=True)
        self.options = dict(options or {})
        self.is_async = hasattr(client, "__aenter__")  # as AsyncOpenAI has; its methods do not tell

    def through(self, client: Any) -> Self:
        """Make the same model behind another client of the same server."""
        made = copy(self)
        made.client, made.is_async = client, hasattr(client, "__aenter__")
        return made

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {getattr(self.client, 'base_url', '?')}>"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer.

        Raises:
            ModelError: The server failed, or answered something that is no answer.
        """
        reply = await self._asked(request, stream=False)
        with translated(self.client):
            answer = self.answer.of(reply)
        return self._read(answer, request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer in pieces, by our own accumulator; the last piece is the whole answer.

        Raises:
            ModelError: As `complete`; also where the stream ended without a finish reason, since it may have been cut.
        """
        answer = self.answer()
        async with aclosing(self._pieces(request, answer)) as drawn:
            async for pieces in drawn:
                for piece in pieces:
                    yield piece
        if not answer.finish_reason:
            raise ModelError("The model's answer broke off: no finish reason came. Nothing of it was carried out.")
        response = self._read(answer, request)
        if response.text and not self.dialect.shows_text(request):
            yield TextDelta(response.text)
        yield response

    async def _pieces(self, request: ModelRequest, answer: Answer) -> AsyncGenerator[list[Piece], None]:
        """Fill an answer, and give what of each chunk is worth showing."""
        chunks = await self._asked(request, stream=True, **self.streaming)
        shows_text = self.dialect.shows_text(request)
        with translated(self.client):
            async with aclosing(_drawn(chunks, request.cancellation)) as drawn:
                async for chunk in drawn:
                    pieces = list(answer.take(chunk))
                    yield pieces if shows_text else [piece for piece in pieces if not isinstance(piece, TextDelta)]
                    if request.early:
                        yield [*self._ready(answer, request)]
                    if answer.is_over:
                        break

    def _ready(self, answer: Answer, request: ModelRequest) -> Iterator[CallReady]:
        """Read calls in their tools' own forms; the call that is the answer is none of a tool."""
        for call, position in answer.ready():
            _, (read,) = self.dialect.read("", [call], request.tools)
            if any(spec.name == read.name for spec in request.tools):
                yield CallReady(read, position)

    async def _asked(self, request: ModelRequest, **options: Any) -> Any:
        """Send a request; where the server takes no schema of the answer, that becomes a call, for the whole run."""
        body = self._body(request)
        try:
            with translated(self.client):
                return await self._create(body, request.cancellation, **options)
        except ModelError as error:
            if request.output is None or request.output.by_tool or not refuses_format(error):
                raise
            logger.info("%r takes no response_format: it is to answer by calling %r.", self, request.output.spec.name)
            request.output.by_tool = True
        return await self._asked(request, **options)

    async def _create(self, body: Mapping[str, Any], cancellation: Cancellation | None, **options: Any) -> Any:
        create = self._endpoint()
        if _is_the_packages_own(create):
            # The package walks all that is said on every turn; what stands in extra_body it sends as it is.
            asked = {"model": self.name, **self.placeholders, "extra_body": body, **options}
            has_end = cancellation is not None and cancellation.deadline is not None
            if has_end and not (self.is_async or options["stream"]):
                return _whole(create, asked, cancellation)
            reply = create(**asked)
        else:
            reply = create(model=self.name, **body, **options)
        return await reply if inspect.isawaitable(reply) else reply

    @abstractmethod
    def _endpoint(self) -> Any:
        """Find the client's method that asks."""

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        """Make the body, without what servers refuse where there are no tools."""
        said = self.dialect.body(resolve_choice(request, knows_allowed=self._knows_allowed))
        body = {**self.defaults, **self._with_options(said)}
        unfit = frozenset() if "tools" in body else ONLY_WITH_TOOLS
        if not applies_to_turn(self.options.get("tool_choice"), request.turn):
            unfit |= {"tool_choice"}
        return {key: value for key, value in body.items() if key not in unfit}

    def _with_options(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, **self.options}

    @property
    def _knows_allowed(self) -> bool:
        host = getattr(getattr(self.client, "base_url", None), "host", "")
        return isinstance(host, str) and host.endswith(KNOW_ALLOWED)

    def _read(self, answer: Answer, request: ModelRequest) -> ModelResponse:
        said = replace_surrogates("".join(answer.text))
        text, calls = self.dialect.read(said, answer.calls(), request.all_tools)
        if request.output:
            text, calls = extract_output(text, calls, request.output, self.dialect.read)
        return ModelResponse(
            text=text,
            calls=calls,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            model=answer.model or self.name,
            reasoning=replace_surrogates("".join(answer.reasoning)),
            items=answer.items,
        )


def count_of(usage: Any) -> int:
    """Read a number of tokens."""
    return usage if isinstance(usage, int) else 0


def _is_the_packages_own(create: Any) -> bool:
    """Tell whether nobody has wrapped or replaced `create`: a wrapper must see the ordinary arguments."""
    if type(create) is not MethodType:  # a proxy answers isinstance() and __module__ for what it wraps
        return False
    home: str = getattr(create.__func__, "__globals__", {}).get("__name__", "")
    return home.partition(".")[0] == "openai"


def _whole(create: Any, asked: Mapping[str, Any], cancellation: Cancellation | None) -> Any:
    """Ask for an answer that is not streamed, in a way that can be broken off while it is read."""
    with create.__self__.with_streaming_response.create(**asked) as reply:
        bound(reply.http_response)
        with read_until(cancellation, reply.http_response):
            return reply.parse()


def _response_of(chunks: Any) -> httpx2.Response | None:
    """Find the response that a stream is read from, no more of which is to be read than an answer may have."""
    import openai

    if not isinstance(chunks, (openai.Stream, openai.AsyncStream)):
        return None
    bound(chunks.response)
    return chunks.response if isinstance(chunks, openai.Stream) else None


async def _drawn(chunks: Any, cancellation: Cancellation | None) -> AsyncGenerator[Any, None]:
    """Draw from a stream of either kind of client, until it is called off; close it whatever happens."""
    response = _response_of(chunks)
    try:
        if hasattr(chunks, "__aiter__"):
            async for chunk in chunks:
                yield chunk
        else:
            with read_until(cancellation, response):
                for chunk in chunks:
                    yield chunk
    finally:
        closed = chunks.close() if hasattr(chunks, "close") else None
        if inspect.isawaitable(closed):
            await closed
