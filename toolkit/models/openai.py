"""OpenAI's Chat Completions through the openai package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from toolkit._dialects.base import get_member, join_text
from toolkit._dialects.chat import Chat, get_first_choice, list_wire_calls
from toolkit._messages import ToolCall, Usage, replace_surrogates
from toolkit.errors import ModelError
from toolkit.events import ReasoningDelta, TextDelta, ToolArgumentsDelta
from toolkit.models import Piece
from toolkit.models.client import ResponseBuilder, ServerModel, count_tokens
from toolkit.models.errors import excerpt
from toolkit.models.streaming import Accumulator


class _CompletionBuilder(ResponseBuilder):
    """Collects one completion."""

    def __init__(self) -> None:
        super().__init__()
        self.accumulator = Accumulator()

    @classmethod
    @override
    def from_reply(cls, reply: Any) -> _CompletionBuilder:
        """Read a completion that was not streamed."""
        builder = cls()
        choice = get_first_choice(reply)
        if choice is None:
            raise ModelError(f"The server's answer is not a chat completion; check base_url: {excerpt(reply)}")
        message = get_member(choice, "message")
        _check_calls(message)
        builder._read_metadata(reply, choice)
        builder.text.append(_message_text(message))
        builder.reasoning.append(_reasoning_text(message))
        for call in list_wire_calls(message):
            builder.accumulator.add_whole(call)
        builder.finish_reason = builder.finish_reason or "stop"
        return builder

    @override
    def add_chunk(self, chunk: Any) -> Iterator[Piece]:
        """Add a chunk of a stream, and yield the pieces for its listeners."""
        if error := get_member(chunk, "error"):
            raise ModelError(f"The server broke off its answer: {excerpt(error)}")
        choice = _find_choice(chunk)
        self._read_metadata(chunk, choice)
        delta = get_member(choice, "delta")
        _check_calls(delta)
        if reasoning := _reasoning_text(delta):
            self.reasoning.append(reasoning)
            yield ReasoningDelta(replace_surrogates(reasoning))
        if text := _message_text(delta):
            self.text.append(text)
            yield TextDelta(replace_surrogates(text))
        for fragment in list_wire_calls(delta):
            call, arguments = self.accumulator.add(fragment)
            if arguments:
                yield ToolArgumentsDelta(
                    index=call.number, name=replace_surrogates(call.name), text=replace_surrogates(arguments)
                )

    @override
    def build_calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they started."""
        return self.accumulator.build_calls()

    @override
    def take_ready(self) -> Iterator[tuple[ToolCall, int]]:
        """List the calls completed since the last time, with their positions."""
        return ((call.build(), call.number) for call in self.accumulator.take_ready())

    def _read_metadata(self, reply: Any, choice: Any) -> None:
        reason, model, usage = (
            get_member(choice, "finish_reason"),
            get_member(reply, "model"),
            get_member(reply, "usage"),
        )
        self.finish_reason = reason if isinstance(reason, str) and reason else self.finish_reason
        self.model = model if isinstance(model, str) and model else self.model
        if usage is not None:
            self.usage = Usage(
                count_tokens(get_member(usage, "prompt_tokens")),
                count_tokens(get_member(usage, "completion_tokens")),
                1,
            )


class OpenAIModel(ServerModel):
    """A model behind a server that is compatible with OpenAI's Chat Completions.

    Args:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`, or an object that behaves like one.
        name: The model's name at the server.
        dialect: The wire format of tools; native tool calls, strict where that is lossless, by default.
        options: Further keys of each request, such as `temperature`.
    """

    builder = _CompletionBuilder
    default_dialect = Chat
    resource = "chat.completions"
    streaming: ClassVar[Mapping[str, Any]] = {"stream_options": {"include_usage": True}}


def _find_choice(chunk: Any) -> Any:
    """Return a chunk's part of the first choice: several choices may take turns, and the others are not read."""
    choices = get_member(chunk, "choices")
    if choices and not isinstance(choices, (list, tuple)):
        raise ModelError(f"The model's answer is malformed: its choices are {choices!r:.50}.")
    return next((choice for choice in choices or () if not _is_positive(get_member(choice, "index"))), None)


def _check_calls(message: Any) -> None:
    """Refuse an answer whose calls cannot be read: without them, what is left would run with other values.

    Raises:
        ModelError: The message is no object, or its calls are no list.
    """
    calls = get_member(message, "tool_calls")
    if isinstance(message, (str, int, float, list)) or (calls and not isinstance(calls, (list, tuple))):
        raise ModelError(f"The model's answer is malformed: {excerpt(message)}")


def _is_positive(index: Any) -> bool:
    return isinstance(index, int) and index > 0


def _message_text(message: Any) -> str:
    """Return a message's text, refusal or audio transcript; the sound itself is dropped."""
    text = join_text(get_member(message, "content")) or join_text(get_member(message, "refusal"))
    return text or join_text(get_member(get_member(message, "audio"), "transcript"))


def _reasoning_text(message: Any) -> str:
    """Return the reasoning, which is no part of OpenAI's own protocol, but of DeepSeek's and vLLM's."""
    return join_text(get_member(message, "reasoning_content")) or join_text(get_member(message, "reasoning"))
