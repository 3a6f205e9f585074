"""Models behind a client of the openai package: the body of a request, and the response made from the answer."""

from __future__ import annotations

import inspect
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing
from copy import copy
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import Self

from toolkit._concurrency.cancellation import Cancellation
from toolkit._dialects.base import RunDialect, get_member
from toolkit._dialects.catalog import API, APIS, RunDialectName
from toolkit._dialects.tool_choice import applies_to_turn, resolve_choice
from toolkit._messages import ModelRequest, ModelResponse, ToolCall, Usage, replace_surrogates
from toolkit._options import check_options, is_whole, make_hints
from toolkit.errors import ModelError
from toolkit.events import TextDelta
from toolkit.models import CallReady, Piece
from toolkit.models.errors import excerpt, get_address, refuses_format, refuses_reasoning, translate_errors
from toolkit.models.transport import find_client, parse_text, post, read_head, read_on, read_stream

if TYPE_CHECKING:
    import openai

logger: logging.Logger = logging.getLogger("toolkit")

# Arguments of the package's `create` that are not keys of a body, and the advice about them.
CLIENT_OPTIONS = frozenset({"extra_body", "extra_headers", "extra_query", "max_retries", "timeout"})
CLIENT_REMEDY = "write the keys of extra_body beside the others, and set the rest on the client, client=OpenAI(...)."
# Options that servers refuse in a request without tools.
TOOL_OPTIONS = frozenset({"tool_choice", "parallel_tool_calls"})
# Hosts that understand a list of allowed tools; other servers are offered only the allowed tools.
KNOW_ALLOWED = ("api.openai.com", ".openai.azure.com")
FORKED = (
    "This client sent a request before the process was forked, and now shares its connections with its parent, so "
    "answers could get into the wrong process. Make a client and a Runner in each process, or pass base_url= instead."
)


class ResponseBuilder(ABC):
    """Collects one answer, whole or chunk by chunk."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.reasoning_key = ""
        self.finish_reason = ""
        self.model = ""
        self.usage: Usage = Usage(requests=1)
        self.is_complete = False

    @abstractmethod
    def add_reply(self, reply: Any) -> None:
        """Add an answer that was not streamed."""

    @abstractmethod
    def add_chunk(self, chunk: Any) -> Iterable[Piece]:
        """Add a chunk of a stream, and yield its pieces, and the calls that it completes, as the model wrote them."""

    @abstractmethod
    def build_calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order of the answer."""

    @abstractmethod
    def build_items(self) -> tuple[Mapping[str, Any], ...]:
        """Return the items that the server expects back unchanged."""


HINTS = make_hints(
    ("model", "The model's name is the second argument."),
    ("api_key base_url http_client max_retries timeout", "Set it on the client: OpenAI(...)."),
    ("max_tokens reasoning_effort request_options temperature", "Write options={...}, keys of the request."),
)


class ServerModel:
    """A model behind a server, used through a client of the openai package.

    Args:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`, or an object that behaves like one.
        name: The model's name at the server.
        dialect: How tools are sent, as for a Runner; native tool calls, strict if that is lossless, by default.
        options: Further keys of each request's body, such as `temperature`; None leaves out a key.

    Raises:
        ValueError: There is no such dialect, or the API does not have it.
        TypeError: There is no client or no name; or an option belongs to the client, not to a request's body, or is a
            key that each request sets itself.
    """

    builder: ClassVar[type[ResponseBuilder]]
    api: ClassVar[API]
    # Keys of each request's body that options may not replace.
    own_keys: ClassVar[frozenset[str]]
    # Keys of each request's body that options may replace.
    defaults: ClassVar[Mapping[str, Any]] = {}
    # The client's attribute whose `create` sends requests; with slashes, their path.
    resource: ClassVar[str]

    @partial(check_options, hints=HINTS)
    def __init__(
        self,
        client: openai.OpenAI | openai.AsyncOpenAI | Any,
        name: str = "",
        *,
        dialect: RunDialectName | RunDialect | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(client, str) or not isinstance(name, str) or not name:  # neither is repeated: a text may be a key
            made = type(self).__name__
            raise TypeError(f"{made}() takes a client and the model's name, such as {made}(OpenAI(), 'gpt-6-luna').")
        self.client = client
        self.name = name
        if not isinstance(dialect, RunDialect):
            dialect = APIS[self.api][dialect or self.api](strict=True)
        self.dialect: RunDialect = dialect
        self.options: dict[str, Any] = copy_options(options or {})
        for key in self.options.keys() & self.own_keys:
            raise TypeError(
                f"options={{{key!r}: ...}}: each request has a {key!r} of its own, which this would replace."
            )
        self.is_async: bool = hasattr(client, "__aenter__")  # AsyncOpenAI's methods are no coroutine functions
        self._process = 0  # the id of the one that has sent a request

    def with_client(self, client: Any) -> Self:
        """Return the same model behind another client of the same server."""
        model = copy(self)
        vars(model).update(client=client, is_async=hasattr(client, "__aenter__"), _process=0)
        return model

    @property
    def is_open(self) -> bool:
        """False after a fork if a request was sent before it: both processes would read from the same connections."""
        return self._process in (0, os.getpid())

    @property
    def address(self) -> str:
        """The address of the server, without user, password and query; empty if it is not known."""
        return get_address(self.client)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.address or '?'}>"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer a request.

        Raises:
            ModelError: The server failed, or its answer cannot be read.
        """
        builder, reply = self.builder(), await self._send(request, stream=False)
        with translate_errors(self.client, self.name):
            builder.add_reply(reply)
            return self._build_response(builder, request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer a request in pieces; the last one is the whole answer.

        Raises:
            ModelError: As `complete`; also if the stream ended without a finish reason, since it may have been cut off.
        """
        builder, chunks = self.builder(), await self._send(request, stream=True)
        is_stream, chunk = False, None
        is_public = self.dialect.has_public_text(request)  # `_send` may have changed the output to a call
        if output := request.output:
            form = self.dialect.form(output.spec)  # under other rules than strict ones, what is missing may mean null
            output.decode = form.decode_beginning if form.strict and (is_public or output.by_tool) else None
        with translate_errors(self.client, self.name):
            async with aclosing(read_stream(chunks, request.cancellation, is_async=self.is_async)) as stream:
                async for chunk in stream:
                    is_stream = True
                    for piece in self._select_pieces(builder.add_chunk(chunk), request, is_public=is_public):
                        yield piece
                    if builder.is_complete:
                        await read_on(stream, chunks)
                        break
            if not is_stream:
                head = read_head(chunks)
                raise ModelError(
                    "The server sent no stream: its answer broke off, or it does not stream; check base_url, or use "
                    f"run(), which does not stream.{f' It sent: {excerpt(head)}' if head else ''}"
                )
            if not builder.finish_reason:
                # What is no piece of an answer may be the server's reason.
                is_piece = any(get_member(chunk, key) is not None for key in ("choices", "delta"))
                last = "" if is_piece else f" It ended with: {excerpt(chunk)}"
                raise ModelError(
                    f"The model's answer broke off, without a finish reason. Its calls are discarded.{last}"
                )
            response = self._build_response(builder, request)
        if response.text and not is_public:
            yield TextDelta(response.text)
        yield response

    def _select_pieces(self, pieces: Iterable[Piece], request: ModelRequest, *, is_public: bool) -> Iterator[Piece]:
        """Yield the pieces that a run gets: text if it is for the user, and decoded calls if they may start early."""
        for piece in pieces:
            if isinstance(piece, CallReady):
                if request.early and (ready := self._decode_ready(piece, request)):
                    yield ready
            elif is_public or not isinstance(piece, TextDelta):
                yield piece

    def _decode_ready(self, ready: CallReady, request: ModelRequest) -> CallReady | None:
        """Decode a completed call; None if it is not of a tool, such as the call that is the structured output."""
        _, (decoded,) = self.dialect.parse_reply("", [ready.call], request.tools)
        is_tool = any(spec.name == decoded.name for spec in request.tools)
        return CallReady(decoded, ready.position) if is_tool else None

    async def _send(self, request: ModelRequest, *, stream: bool) -> Any:
        """Send a request; if the server refuses a part that can be left out, send it again without that."""
        body = self._make_body(request, stream=stream)
        try:
            with translate_errors(self.client, self.name):
                return await self._create(body, request.cancellation)
        except ModelError as error:
            if not self._adapt(request, body, error):
                raise
        return await self._send(request, stream=stream)

    def _adapt(self, request: ModelRequest, body: Mapping[str, Any], error: ModelError) -> bool:  # noqa: ARG002
        """Leave out what was refused: earlier reasoning, or the schema of the output; return whether that may help."""
        if refuses_reasoning(error) and self.dialect.drop_reasoning(request.memo):
            logger.info("%r refuses the reasoning of earlier answers, so it is left out.", self)
            return True
        if request.output is None or request.output.by_tool or not refuses_format(error):
            return False
        logger.info("%r refuses response_format, so it is asked to call %r.", self, request.output.spec.name)
        request.output.by_tool = True
        return True

    async def _create(self, body: Mapping[str, Any], cancellation: Cancellation | None) -> Any:
        if self._process not in (0, process := os.getpid()):
            raise ModelError(FORKED)
        self._process = process
        create = attrgetter(f"{self.resource}.create")(self.client)
        client = find_client(create)
        if client is not None:
            # Faster than `create`, which converts all messages on every turn, and validates each piece of the answer.
            path = f"/{self.resource.replace('.', '/')}"
            return parse_text(await post(client, path, {"model": self.name, **body}, cancellation))
        reply = create(model=self.name, **body)
        return parse_text(await reply if inspect.isawaitable(reply) else reply)

    def _make_body(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        """Make the body, without options that are None, or that servers refuse in this request."""
        rendered = self.dialect.render_request(resolve_choice(request, knows_allowed=self._knows_allowed))
        body = {**self.defaults, **self._add_options(rendered), "stream": stream}
        unfit = frozenset() if "tools" in body else TOOL_OPTIONS
        if not stream:
            unfit |= {"stream_options"}
        if not applies_to_turn(self.options.get("tool_choice"), request.turn):
            unfit |= {"tool_choice"}
        return {key: value for key, value in body.items() if key not in unfit and value is not None}

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
            text, calls = self.dialect.extract_output(text, calls, request.output)
        return ModelResponse(
            text=text,
            calls=calls,
            finish_reason=builder.finish_reason,
            usage=builder.usage,
            model=builder.model or self.name,
            reasoning=replace_surrogates("".join(builder.reasoning)),
            reasoning_key=builder.reasoning_key,
            items=builder.build_items(),
            is_answer=bool(calls) and self.dialect.has_answer(content),
        )


def copy_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the options of a model.

    Raises:
        TypeError: One is an argument of the package's `create`, and not a key of a request's body.
    """
    for name in options.keys() & CLIENT_OPTIONS:
        raise TypeError(f"options={{{name!r}: ...}} is not a key of a request's body: {CLIENT_REMEDY}")
    return dict(options)


def read_usage(usage: Any, read: str, written: str) -> Usage:
    """Read the tokens that a server reports for one request; 0 for those that it does not report.

    The names of input and output tokens differ, such as "prompt" and "completion".
    """
    details = get_member(usage, f"{read}_tokens_details")
    inputs, outputs = _count_tokens(usage, f"{read}_tokens"), _count_tokens(usage, f"{written}_tokens")
    reasoning = _count_tokens(get_member(usage, f"{written}_tokens_details"), "reasoning_tokens")
    if _count_tokens(usage, "total_tokens") == inputs + outputs + reasoning:
        outputs += reasoning  # xAI counts them apart; others count them as output
    cached, cache_write = _count_tokens(details, "cached_tokens"), _count_tokens(details, "cache_write_tokens")
    return Usage(inputs, outputs, 1, cached, reasoning, cache_write)


def _count_tokens(usage: Any, name: str) -> int:
    count = get_member(usage, name)
    return count if is_whole(count, 0) else 0
