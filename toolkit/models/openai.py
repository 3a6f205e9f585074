"""Chat Completions through the openai package: a request out, an answer back, provider errors by one table."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, contextmanager
from types import MethodType
from typing import TYPE_CHECKING, Any

from toolkit.dialects import Dialect
from toolkit.dialects.chat import Chat
from toolkit.errors import ModelError
from toolkit.events import ReasoningDelta, TextDelta
from toolkit.messages import ModelRequest, ModelResponse, ToolMessage, Usage, sendable
from toolkit.models import Piece
from toolkit.models.accumulator import Accumulator, attribute, text_of

ONLY_WITH_TOOLS = frozenset({"tool_choice", "parallel_tool_calls"})
UNREADABLE = "The model could not be asked, or its answer cannot be read."

if TYPE_CHECKING:
    from collections.abc import Iterator

    import openai


class OpenAIModel:
    """A model behind an OpenAI-compatible server.

    Args:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`, or something that behaves like one.
        name: The model's, as the server knows it.
        dialect: How tools are shown; native tool calls by default.
        options: Further keys of each request, such as `temperature`.
    """

    def __init__(
        self,
        client: openai.OpenAI | openai.AsyncOpenAI | Any,
        name: str,
        *,
        dialect: Dialect | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.client = client
        self.name = name
        self.dialect: Dialect = dialect or Chat()
        self.options = dict(options or {})
        self.is_async = hasattr(client, "__aenter__")  # as AsyncOpenAI has; its methods do not tell

    def __repr__(self) -> str:
        return f"<OpenAIModel {self.name} at {getattr(self.client, 'base_url', '?')}>"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer.

        Raises:
            ModelError: The server failed, or answered something that is no completion.
        """
        body = self._body(request)
        with translated():
            answer = _Answer.of(await self._create(body, stream=False))
        return self._read(answer)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer in pieces, by our own accumulator; the last piece is the whole answer.

        Raises:
            ModelError: As `complete`; also where the stream ended without a finish reason, since it may have been cut.
        """
        shows_text = self.dialect.shows_text(request)
        answer = _Answer()
        async with aclosing(self._pieces(request, answer)) as drawn:
            async for pieces in drawn:
                for piece in pieces if shows_text else filter(_is_thought, pieces):
                    yield piece
        if not answer.finish_reason:
            raise ModelError("The model's answer broke off: no finish reason came. Nothing of it was carried out.")
        response = self._read(answer)
        if response.text and not shows_text:
            yield TextDelta(response.text)
        yield response

    async def _pieces(self, request: ModelRequest, answer: _Answer) -> AsyncGenerator[list[Piece], None]:
        """Fill an answer, and give what of each chunk is worth showing."""
        body = self._body(request)
        with translated():
            chunks = await self._create(body, stream=True, stream_options={"include_usage": True})
            async with aclosing(_drawn(chunks)) as drawn:
                async for chunk in drawn:
                    yield list(answer.take(chunk))

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

    def _read(self, answer: _Answer) -> ModelResponse:
        text, calls = self.dialect.read(sendable("".join(answer.text)), answer.accumulator.calls())
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
        choices = attribute(reply, "choices")
        if not isinstance(choices, (list, tuple)) or not choices:
            raise ModelError(f"The server's answer is no chat completion: {_excerpt(reply)}")
        message = attribute(choices[0], "message")
        answer._take_about(reply, choices[0])
        answer.text.append(text_of(attribute(message, "content")) or text_of(attribute(message, "refusal")))
        answer.reasoning.append(_reasoning(message))
        for call in _listed(message):
            answer.accumulator.take_whole(call)
        answer.finish_reason = answer.finish_reason or "stop"
        return answer

    def take(self, chunk: Any) -> Iterator[Piece]:
        """Add a chunk of a stream, and give what of it is worth showing."""
        if error := attribute(chunk, "error"):
            raise ModelError(f"The server broke off its answer: {_excerpt(error)}")
        choices = attribute(chunk, "choices")
        choice = choices[0] if isinstance(choices, (list, tuple)) and choices else None
        self._take_about(chunk, choice)
        delta = attribute(choice, "delta")
        if thought := _reasoning(delta):
            self.reasoning.append(thought)
            yield ReasoningDelta(sendable(thought))
        if text := text_of(attribute(delta, "content")) or text_of(attribute(delta, "refusal")):
            self.text.append(text)
            yield TextDelta(sendable(text))
        for call in _listed(delta):
            self.accumulator.take(call)

    def _take_about(self, reply: Any, choice: Any) -> None:
        reason, model, usage = attribute(choice, "finish_reason"), attribute(reply, "model"), attribute(reply, "usage")
        self.finish_reason = reason if isinstance(reason, str) and reason else self.finish_reason
        self.model = model if isinstance(model, str) and model else self.model
        if usage is not None:
            self.usage = Usage(_count(usage, "prompt_tokens"), _count(usage, "completion_tokens"), 1)


@contextmanager
def translated() -> Iterator[None]:
    """Make a ModelError of whatever the client raises; nobody has to know its exceptions, or those below it.

    Raises:
        ModelError: Something was raised.
    """
    try:
        yield
    except (ModelError, GeneratorExit):
        raise
    except Exception as error:
        import openai

        status = getattr(error, "status_code", None)
        advice = next((text for kind, text in _advice(openai) if isinstance(error, kind)), UNREADABLE)
        raise ModelError(f"{advice} ({type(error).__name__}: {_excerpt(_said(error))})", status) from error


def _advice(openai: Any) -> tuple[tuple[type[Exception], str], ...]:
    """What to do about the client's errors, the most specific first."""
    return (
        (openai.APITimeoutError, "The model's server did not answer in time."),
        (
            openai.APIConnectionError,
            "The model's server cannot be reached, or the connection broke; check base_url and that it runs.",
        ),
        (
            openai.AuthenticationError,
            "The model's server does not accept the API key; check OPENAI_API_KEY or api_key.",
        ),
        (openai.PermissionDeniedError, "The API key may not use this model."),
        (openai.NotFoundError, "The model's server does not know this model or address; check model and base_url."),
        (openai.RateLimitError, "The model's server refuses more requests for now."),
        (openai.BadRequestError, "The model's server refuses the request."),
        (openai.UnprocessableEntityError, "The model's server refuses the request."),
        (openai.InternalServerError, "The model's server failed."),
        (openai.APIResponseValidationError, UNREADABLE),
        (openai.APIError, "The model's server reports an error."),
        (openai.OpenAIError, "The openai package could not ask the model's server."),
    )


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


def _listed(message: Any) -> list[Any]:
    """List the calls of a message or a delta, those in the form before `tool_calls` too."""
    listed = attribute(message, "tool_calls")
    former = attribute(message, "function_call")
    calls = [call for call in listed if call is not None] if isinstance(listed, (list, tuple)) else []
    return [*calls, {"function": former}] if former and not calls else calls


def _reasoning(message: Any) -> str:
    """Read thoughts: no part of OpenAI's own protocol, but of DeepSeek's and vLLM's."""
    return text_of(attribute(message, "reasoning_content")) or text_of(attribute(message, "reasoning"))


def _count(usage: Any, name: str) -> int:
    count = attribute(usage, name)
    return count if isinstance(count, int) else 0


def _said(error: Exception) -> str:
    """Read an error, with what the server sent where the client's words leave that out."""
    text, body = str(error), getattr(error, "body", None)
    return text if not body or str(body) in text else f"{text} {body}"


def _excerpt(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 300 else f"{text[:299]}…"
