"""Chat Completions through the openai package: a request out, an answer back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from toolkit._dialects.base import attribute, content_of
from toolkit._dialects.chat import Chat, first_choice, list_calls
from toolkit._messages import ToolCall, Usage, replace_surrogates
from toolkit.errors import ModelError
from toolkit.events import ReasoningDelta, TextDelta, ToolArgumentsDelta
from toolkit.models import Piece
from toolkit.models.client import Answer, ServerModel, count_of
from toolkit.models.errors import excerpt
from toolkit.models.streaming import Accumulator


class _Answer(Answer):
    """What has arrived of one completion."""

    def __init__(self) -> None:
        super().__init__()
        self.accumulator = Accumulator()

    @classmethod
    @override
    def of(cls, reply: Any) -> _Answer:
        """Read an answer that came whole."""
        answer = cls()
        choice = first_choice(reply)
        if choice is None:
            raise ModelError(f"The server's answer is no chat completion: {excerpt(reply)}")
        message = attribute(choice, "message")
        answer._take_about(reply, choice)
        answer.text.append(_text(message))
        answer.reasoning.append(_reasoning(message))
        for call in list_calls(message):
            answer.accumulator.take_whole(call)
        answer.finish_reason = answer.finish_reason or "stop"
        return answer

    @override
    def take(self, chunk: Any) -> Iterator[Piece]:
        """Add a chunk of a stream, and give what of it is worth showing."""
        if error := attribute(chunk, "error"):
            raise ModelError(f"The server broke off its answer: {excerpt(error)}")
        choice = _choice_in(chunk)
        self._take_about(chunk, choice)
        delta = attribute(choice, "delta")
        if thought := _reasoning(delta):
            self.reasoning.append(thought)
            yield ReasoningDelta(replace_surrogates(thought))
        if text := _text(delta):
            self.text.append(text)
            yield TextDelta(replace_surrogates(text))
        for fragment in list_calls(delta):
            call, arguments = self.accumulator.take(fragment)
            if arguments:
                yield ToolArgumentsDelta(
                    index=call.number, name=replace_surrogates(call.name), text=replace_surrogates(arguments)
                )

    @override
    def calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they began."""
        return self.accumulator.calls()

    @override
    def ready(self) -> Iterator[tuple[ToolCall, int]]:
        """List the calls that have become whole since this was asked last, and which of the answer's they are."""
        return ((call.call(), call.number) for call in self.accumulator.ready())

    def _take_about(self, reply: Any, choice: Any) -> None:
        reason, model, usage = attribute(choice, "finish_reason"), attribute(reply, "model"), attribute(reply, "usage")
        self.finish_reason = reason if isinstance(reason, str) and reason else self.finish_reason
        self.model = model if isinstance(model, str) and model else self.model
        if usage is not None:
            self.usage = Usage(
                count_of(attribute(usage, "prompt_tokens")), count_of(attribute(usage, "completion_tokens")), 1
            )


class OpenAIModel(ServerModel):
    """A model behind a server that is compatible with OpenAI's Chat Completions.

    Args:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`, or something that behaves like one.
        name: The model's, as the server knows it.
        dialect: How tools are shown; native tool calls, strict where that is lossless, by default.
        options: Further keys of each request, such as `temperature`.
    """

    answer = _Answer
    usual_dialect = Chat
    placeholders: ClassVar[Mapping[str, Any]] = {"messages": []}
    streaming: ClassVar[Mapping[str, Any]] = {"stream_options": {"include_usage": True}}

    @override
    def _endpoint(self) -> Any:
        return self.client.chat.completions.create


def _choice_in(chunk: Any) -> Any:
    """Find what a chunk brings of the answer: several choices take turns, and only the first one is read."""
    choices = attribute(chunk, "choices")
    listed = choices if isinstance(choices, (list, tuple)) else ()
    return next((choice for choice in listed if not _is_positive(attribute(choice, "index"))), None)


def _is_positive(index: Any) -> bool:
    return isinstance(index, int) and index > 0


def _text(message: Any) -> str:
    """Read what is said: as text, as a refusal, or aloud, of which the transcript is kept and not the sound."""
    said = content_of(attribute(message, "content")) or content_of(attribute(message, "refusal"))
    return said or content_of(attribute(attribute(message, "audio"), "transcript"))


def _reasoning(message: Any) -> str:
    """Read thoughts: no part of OpenAI's own protocol, but of DeepSeek's and vLLM's."""
    return content_of(attribute(message, "reasoning_content")) or content_of(attribute(message, "reasoning"))
