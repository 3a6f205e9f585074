"""Chat Completions through the openai package: a request out, an answer back, provider errors by one table."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from types import MethodType
from typing import TYPE_CHECKING, Any

from toolkit.dialects import RunDialect
from toolkit.dialects.chat import Chat, choice_of, listed_calls
from toolkit.dialects.structured import answered
from toolkit.dialects.wire import attribute, content_of
from toolkit.errors import ModelError
from toolkit.events import ReasoningDelta, TextDelta
from toolkit.messages import ModelRequest, ModelResponse, ToolMessage, Usage, sendable
from toolkit.models import Piece
from toolkit.models.accumulator import Accumulator
from toolkit.models.failures import excerpt, refuses_format, translated

logger = logging.getLogger("toolkit")

ONLY_WITH_TOOLS = frozenset({"tool_choice", "parallel_tool_calls"})

if TYPE_CHECKING:
    from collections.abc import Iterator

    import openai


class OpenAIModel:
    """A model behind an OpenAI-compatible server.

    Args:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`, or something that behaves like one.
        name: The model's, as the server knows it.
        dialect: How tools are shown; native tool calls, strict where that is lossless, by default.
        options: Further keys of each request, such as `temperature`.
    """

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
        self.dialect: RunDialect = dialect or Chat(strict=True)
        self.options = dict(options or {})
        self.is_async = hasattr(client, "__aenter__")  # as AsyncOpenAI has; its methods do not tell

    def __repr__(self) -> str:
        return f"<OpenAIModel {self.name} at {getattr(self.client, 'base_url', '?')}>"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer.

        Raises:
            ModelError: The server failed, or answered something that is no completion.
        """
        reply = await self._asked(request, stream=False)
        with translated():
            answer = _Answer.of(reply)
        return self._read(answer, request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer in pieces, by our own accumulator; the last piece is the whole answer.

        Raises:
            ModelError: As `complete`; also where the stream ended without a finish reason, since it may have been cut.
        """
        answer = _Answer()
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

    async def _pieces(self, request: ModelRequest, answer: _Answer) -> AsyncGenerator[list[Piece], None]:
        """Fill an answer, and give what of each chunk is worth showing."""
        chunks = await self._asked(request, stream=True, stream_options={"include_usage": True})
        shows_text = self.dialect.shows_text(request)
        with translated():
            async with aclosing(_drawn(chunks)) as drawn:
                async for chunk in drawn:
                    pieces = answer.take(chunk)
                    yield list(pieces if shows_text else filter(_is_thought, pieces))

    async def _asked(self, request: ModelRequest, **options: Any) -> Any:
        """Send a request; where the server takes no `response_format`, the answer becomes a call, for the whole run."""
        body = self._body(request)
        try:
            with translated():
                return await self._create(body, **options)
        except ModelError as error:
            if request.output is None or request.output.by_tool or not refuses_format(error):
                raise
            logger.info("%r takes no response_format: it is to answer by calling %r.", self, request.output.spec.name)
            request.output.by_tool = True
        return await self._asked(request, **options)

    async def _create(self, body: Mapping[str, Any], **options: Any) -> Any:
        create = self.client.chat.completions.create
        if _is_the_packages_own(create):
            # The package walks every message of `messages` on every turn; what stands in extra_body it sends as it is.
            reply = create(model=self.name, messages=[], extra_body=body, **options)
        else:
            reply = create(model=self.name, **body, **options)
        return await reply if inspect.isawaitable(reply) else reply

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        """Make the body, without what servers refuse where there are no tools.

        A forced choice goes out once: forced on every turn, calls would never end.
        """
        body = {**self.dialect.body(request), **self.options}
        unfit = frozenset() if "tools" in body else ONLY_WITH_TOOLS
        followed = bool(request.messages) and isinstance(request.messages[-1], ToolMessage)
        if followed and body.get("tool_choice") not in (None, "auto", "none"):
            unfit |= {"tool_choice"}
        return {key: value for key, value in body.items() if key not in unfit}

    def _read(self, answer: _Answer, request: ModelRequest) -> ModelResponse:
        said = sendable("".join(answer.text))
        text, calls = self.dialect.read(said, answer.accumulator.calls(), request.offered)
        if request.output:
            text, calls = answered(text, calls, request.output, self.dialect.read)
        return ModelResponse(
            text=text,
            calls=calls,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            model=answer.model or self.name,
            reasoning=sendable("".join(answer.reasoning)),
        )


class _Answer:
    """What has arrived of one answer."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.accumulator = Accumulator()
        self.finish_reason = ""
        self.model = ""
        self.usage = Usage(requests=1)

    @classmethod
    def of(cls, reply: Any) -> _Answer:
        """Read an answer that came whole."""
        answer = cls()
        choice = choice_of(reply)
        if choice is None:
            raise ModelError(f"The server's answer is no chat completion: {excerpt(reply)}")
        message = attribute(choice, "message")
        answer._take_about(reply, choice)
        answer.text.append(_text(message))
        answer.reasoning.append(_reasoning(message))
        for call in listed_calls(message):
            answer.accumulator.take_whole(call)
        answer.finish_reason = answer.finish_reason or "stop"
        return answer

    def take(self, chunk: Any) -> Iterator[Piece]:
        """Add a chunk of a stream, and give what of it is worth showing."""
        if error := attribute(chunk, "error"):
            raise ModelError(f"The server broke off its answer: {excerpt(error)}")
        choice = choice_of(chunk)
        self._take_about(chunk, choice)
        delta = attribute(choice, "delta")
        if thought := _reasoning(delta):
            self.reasoning.append(thought)
            yield ReasoningDelta(sendable(thought))
        if text := _text(delta):
            self.text.append(text)
            yield TextDelta(sendable(text))
        for call in listed_calls(delta):
            self.accumulator.take(call)

    def _take_about(self, reply: Any, choice: Any) -> None:
        reason, model, usage = attribute(choice, "finish_reason"), attribute(reply, "model"), attribute(reply, "usage")
        self.finish_reason = reason if isinstance(reason, str) and reason else self.finish_reason
        self.model = model if isinstance(model, str) and model else self.model
        if usage is not None:
            self.usage = Usage(_count(usage, "prompt_tokens"), _count(usage, "completion_tokens"), 1)


def _is_the_packages_own(create: Any) -> bool:
    """Tell whether nobody has wrapped or replaced `create`: a wrapper must see the ordinary arguments."""
    if type(create) is not MethodType:  # a proxy answers isinstance() and __module__ for what it wraps
        return False
    home: str = getattr(create.__func__, "__globals__", {}).get("__name__", "")
    return home.partition(".")[0] == "openai"


async def _drawn(chunks: Any) -> AsyncGenerator[Any, None]:
    """Draw from a stream of either kind of client, and close it whatever happens."""
    try:
        if hasattr(chunks, "__aiter__"):
            async for chunk in chunks:
                yield chunk
        else:
            for chunk in chunks:
                yield chunk
    finally:
        closed = chunks.close() if hasattr(chunks, "close") else None
        if inspect.isawaitable(closed):
            await closed


def _is_thought(piece: Piece) -> bool:
    return isinstance(piece, ReasoningDelta)


def _text(message: Any) -> str:
    return content_of(attribute(message, "content")) or content_of(attribute(message, "refusal"))


def _reasoning(message: Any) -> str:
    """Read thoughts: no part of OpenAI's own protocol, but of DeepSeek's and vLLM's."""
    return content_of(attribute(message, "reasoning_content")) or content_of(attribute(message, "reasoning"))


def _count(usage: Any, name: str) -> int:
    count = attribute(usage, name)
    return count if isinstance(count, int) else 0
