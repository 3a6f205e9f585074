"""OpenAI's Chat Completions through the openai package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from toolkit._dialects.base import CUT_REASONS, get_member, has_failed
from toolkit._dialects.catalog import API
from toolkit._dialects.chat import read_details, read_reasoning
from toolkit._messages import ToolCall, replace_surrogates
from toolkit.errors import ModelError
from toolkit.events import ReasoningDelta, TextDelta, ToolArgumentsDelta
from toolkit.models import CallReady, Piece
from toolkit.models.client import ResponseBuilder, ServerModel, read_usage
from toolkit.models.errors import excerpt
from toolkit.models.streaming import Accumulator
from toolkit.models.wire import malformed, read_content, read_index, read_object, read_objects, read_text

# Details of reasoning whose text comes in fragments, and the key of the text.
_DETAIL_TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary", "thinking": "thinking"}


class _CompletionBuilder(ResponseBuilder):
    """Collects one completion."""

    def __init__(self) -> None:
        super().__init__()
        self.accumulator = Accumulator()
        self.details: list[Mapping[str, Any]] = []

    @override
    def add_reply(self, reply: Any) -> None:
        """Add a completion that was not streamed."""
        choices = read_objects(get_member(reply, "choices"), "the list of choices")
        if not choices:
            if error := get_member(reply, "error"):
                raise ModelError(f"The model's server reports an error: {excerpt(error)}")
            reason = excerpt(reply) or "it is empty"
            raise ModelError(f"The server's answer is not a chat completion; check base_url: {reason}")
        message = read_object(get_member(choices[0], "message"), "the message")
        if message is None:
            raise malformed("the message", message)
        self._read_metadata(reply, choices[0])
        self.finish_reason = self.finish_reason or "stop"
        self._add_message(message)
        for call in _list_calls(message):
            self.accumulator.add_whole(call)

    @override
    def add_chunk(self, chunk: Any) -> Iterator[Piece]:
        """Add a chunk of a stream, and yield its pieces and the calls that it completes."""
        if error := get_member(read_object(chunk, "a chunk"), "error"):
            raise ModelError(f"The server broke off its answer: {excerpt(error)}")
        choice = _find_choice(chunk)
        self._read_metadata(chunk, choice)
        delta = read_object(get_member(choice, "delta"), "a delta")
        yield from self._add_message(delta)
        for fragment in _list_calls(delta):
            call, arguments = self.accumulator.add(fragment)
            if arguments:
                yield ToolArgumentsDelta(
                    index=call.number, name=replace_surrogates(call.name), text=replace_surrogates(arguments)
                )
            if self.accumulator.complete(call):
                yield CallReady(call.build(), call.number)

    @override
    def build_calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they started."""
        return self.accumulator.build_calls()

    @override
    def build_items(self) -> tuple[Mapping[str, Any], ...]:
        """Return the reasoning's details, the fragments of each text joined."""
        details: list[list[Mapping[str, Any]]] = []
        for fragment in self.details:
            if details and _is_continued(details[-1][-1], fragment):
                details[-1].append(fragment)
            else:
                details.append([fragment])
        return tuple(map(_join_details, details))

    def _add_message(self, message: Any) -> list[Piece]:
        """Add the reasoning and the text of a message or a delta, and return them as pieces."""
        (reasoning, key), text, pieces = read_reasoning(message), _message_text(message), list[Piece]()
        self.details += read_details(message)
        self.reasoning_key = key if reasoning else self.reasoning_key or key
        if reasoning:
            self.reasoning.append(reasoning)
            pieces.append(ReasoningDelta(replace_surrogates(reasoning)))
        if text:
            self.text.append(text)
            pieces.append(TextDelta(replace_surrogates(text)))
        return pieces

    def _read_metadata(self, reply: Any, choice: Any) -> None:
        model, usage = get_member(reply, "model"), get_member(reply, "usage")
        usage = get_member(choice, "usage") if usage is None else usage  # Moonshot's place for it in a stream
        reason = read_text(get_member(choice, "finish_reason"), "the finish reason")
        if has_failed(reason):
            raise ModelError(f"The server broke off its answer: {excerpt(get_member(choice, 'error') or reason)}")
        reason = CUT_REASONS.get(reason.lower(), reason)
        if self.finish_reason not in ("length", "content_filter"):  # a router may send another one after it
            self.finish_reason = reason or self.finish_reason
        self.model = model if isinstance(model, str) and model else self.model
        if usage is not None:
            self.usage = read_usage(usage, "prompt", "completion")


class OpenAIModel(ServerModel):
    """A model behind a server that is compatible with OpenAI's Chat Completions.

    Args:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`, or an object that behaves like one.
        name: The model's name at the server.
        dialect: How tools are sent, as for a Runner; native tool calls, strict if that is lossless, by default.
        options: Further keys of each request, such as `temperature`; None leaves out a key.
    """

    builder: ClassVar[type[ResponseBuilder]] = _CompletionBuilder
    api: ClassVar[API] = "chat"
    own_keys: ClassVar[frozenset[str]] = frozenset({"messages", "model", "stream", "tools"})
    resource = "chat.completions"
    defaults: ClassVar[Mapping[str, Any]] = {"stream_options": {"include_usage": True}}


def _is_continued(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    """Return whether two fragments belong to one detail. The signature of a thought is its end."""
    if earlier["type"] != later["type"]:
        return False
    if later["type"] == "thinking":
        return not earlier.get("signature")
    return later["type"] in _DETAIL_TEXTS and earlier.get("index") == later.get("index") is not None


def _join_details(parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Join the fragments of one detail; a later one may have what the first one lacks, such as a signature."""
    joined = dict(parts[0])
    for part in parts[1:]:
        joined.update((key, value) for key, value in part.items() if value is not None)
    if len(parts) > 1:
        name = _DETAIL_TEXTS[joined["type"]]
        joined[name] = "".join(str(part.get(name) or "") for part in parts)
    return joined


def _find_choice(chunk: Any) -> Any:
    """Return a chunk's part of the first choice; other choices are ignored."""
    choices = read_objects(get_member(chunk, "choices"), "the list of choices")
    for choice in choices:
        if (read_index(get_member(choice, "index"), "the index of a choice") or 0) <= 0:
            return choice
    return None


def _list_calls(message: Any) -> list[Any]:
    """List the calls of a message or a delta, the older `function_call` included."""
    calls = read_objects(get_member(message, "tool_calls"), "the list of calls")
    older = read_object(get_member(message, "function_call"), "the function call")
    return calls if calls or not older else [{"function": older}]


def _message_text(message: Any) -> str:
    """Return a message's text, refusal or audio transcript."""
    text = read_content(get_member(message, "content"), "the content")
    if text := text or read_content(get_member(message, "refusal"), "the refusal"):
        return text
    audio = read_object(get_member(message, "audio"), "the audio")
    return "" if audio is None else read_text(get_member(audio, "transcript"), "the transcript")
