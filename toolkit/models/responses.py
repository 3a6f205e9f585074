"""OpenAI's Responses through the openai package.

The server stores nothing: each request has the whole conversation, and the model's items go back as they came, its
reasoning encrypted. An answer is a list of items; in a stream they arrive in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from toolkit._dialects.base import RunDialect, get_member
from toolkit._dialects.responses import Responses, is_call, output_text, parse_call, reasoning_text
from toolkit._messages import ToolCall, replace_surrogates
from toolkit._schema.json_text import is_object
from toolkit.errors import ModelError
from toolkit.events import ReasoningDelta, TextDelta, ToolArgumentsDelta
from toolkit.models import Piece
from toolkit.models.client import ResponseBuilder, ServerModel, read_usage
from toolkit.models.errors import excerpt
from toolkit.models.items import UNFINISHED, OpenItem, OpenItems, read_item, read_items
from toolkit.models.wire import read_arguments, read_object, read_text

# Reason why a response is incomplete -> finish reason; any other reason counts as "length".
REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
# Status of a response that is not an answer.
FAILED = ("failed", "cancelled", "queued", "in_progress")


class _ItemsBuilder(ResponseBuilder):
    """Collects one response."""

    def __init__(self) -> None:
        super().__init__()
        self.open = OpenItems()
        self.has_streamed_text = False
        self._ready: dict[int, OpenItem] = {}
        self._listed: set[int] = set()

    @classmethod
    @override
    def from_reply(cls, reply: Any) -> _ItemsBuilder:
        """Read a response that was not streamed."""
        builder = cls()
        builder._finish(reply)
        return builder

    @override
    def add_chunk(self, chunk: Any) -> Iterator[Piece]:
        """Add an event of a stream, and yield the pieces for its listeners."""
        kind = read_text(get_member(read_object(chunk, "an event"), "type"), "the type of an event")
        if kind == "error" or get_member(chunk, "error"):
            raise ModelError(
                f"The server broke off its answer: {excerpt(_error_text(get_member(chunk, 'error') or chunk))}"
            )
        if kind in _HANDLERS:
            yield from _HANDLERS[kind](self, chunk)

    @override
    def build_calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they stand."""
        return tuple(map(parse_call, filter(is_call, self.items)))

    @override
    def take_ready(self) -> Iterator[tuple[ToolCall, int]]:
        """List the calls completed since the last time, with their positions."""
        ready, self._ready = self._ready, {}
        calls = ((parse_call(item.last), number) for number, item in ready.items())
        return ((call, number) for call, number in calls if call.name and is_object(call.arguments))

    def start_item(self, event: Any) -> Iterator[Piece]:
        item = read_item(get_member(event, "item"))
        if item is not None and not self.open.is_added(event, item):
            self.open.start(event, item)
        return iter(())

    def finish_item(self, event: Any) -> Iterator[Piece]:
        item = read_item(get_member(event, "item"))
        if item is None or self.open.is_final(event, item):
            return iter(())
        open_item = self.open.find_or_start(event, item)
        open_item.last = item
        if open_item.call is not None and open_item.call not in self._listed and item.get("status") not in UNFINISHED:
            self._ready[open_item.call] = open_item
            self._listed.add(open_item.call)
        return iter(())

    def add_text(self, event: Any) -> Iterator[Piece]:
        if (delta := _delta(event)) and (item := self.open.find_for_piece(event, "message")):
            item.parts.append(delta)
            self.has_streamed_text = True
            yield TextDelta(replace_surrogates(delta))

    def report_reasoning(self, event: Any) -> Iterator[Piece]:
        """Report a piece of reasoning, which the final item has whole."""
        if delta := _delta(event):
            yield ReasoningDelta(replace_surrogates(delta))

    def separate_reasoning(self, event: Any) -> Iterator[Piece]:
        if get_member(event, "summary_index"):
            yield ReasoningDelta("\n\n")

    def add_arguments(self, event: Any) -> Iterator[Piece]:
        if (delta := _delta(event)) and (item := self.open.find_for_piece(event, "function_call")):
            item.parts.append(delta)
            yield ToolArgumentsDelta(
                index=item.call or 0, name=parse_call(item.first).name, text=replace_surrogates(delta)
            )

    def replace_arguments(self, event: Any) -> Iterator[Piece]:
        arguments = get_member(event, "arguments")
        text = read_arguments(arguments)
        if arguments is not None and (item := self.open.find_for_piece(event, "function_call")):
            item.parts[:] = [text]
        return iter(())

    def complete(self, event: Any) -> Iterator[Piece]:
        self._finish(read_object(get_member(event, "response"), "the response"))
        self.is_complete = True  # some servers keep the connection open after this event
        text = "".join(self.text)
        if text and not self.has_streamed_text:
            yield TextDelta(replace_surrogates(text))

    def complete_cut(self, event: Any) -> Iterator[Piece]:
        yield from self.complete(event)
        if self.finish_reason not in REASONS.values():
            self.finish_reason = "length"

    def fail(self, event: Any) -> Iterator[Piece]:
        error = get_member(get_member(event, "response"), "error")
        raise ModelError(f"The model's server reports an error: {excerpt(_error_text(error) or 'the response failed')}")

    def _finish(self, response: Any) -> None:
        """Read the final response; the items of a streamed one may have come before it."""
        status, error, output = (get_member(response, name) for name in ("status", "error", "output"))
        if read_text(status, "the status") in FAILED or error:
            raise ModelError(f"The model's server reports an error: {excerpt(_error_text(error) or status)}")
        if output is None and not self.open.items:
            raise ModelError(f"The server's answer is not a response: {excerpt(response)}")
        self.items = self.open.merge(read_items(output))
        self._read_metadata(response, status)

    def _read_metadata(self, response: Any, status: Any) -> None:
        self.text.append(output_text(self.items))
        self.reasoning.append(reasoning_text(self.items))
        model, usage = get_member(response, "model"), get_member(response, "usage")
        self.model = model if isinstance(model, str) else ""
        self.usage = read_usage(usage, "input", "output")
        details = read_object(get_member(response, "incomplete_details"), "the details of a response")
        reason = get_member(details, "reason")
        if reason or status == "incomplete" or any(item.get("status") in UNFINISHED for item in self.items):
            self.finish_reason = REASONS.get(reason, "length") if isinstance(reason, str) else "length"
        else:
            self.finish_reason = "tool_calls" if any(map(is_call, self.items)) else "stop"


_HANDLERS: Mapping[str, Callable[[_ItemsBuilder, Any], Iterator[Piece]]] = {
    "response.output_item.added": _ItemsBuilder.start_item,
    "response.output_item.done": _ItemsBuilder.finish_item,
    "response.output_text.delta": _ItemsBuilder.add_text,
    "response.refusal.delta": _ItemsBuilder.add_text,
    "response.reasoning_summary_text.delta": _ItemsBuilder.report_reasoning,
    "response.reasoning_text.delta": _ItemsBuilder.report_reasoning,
    "response.reasoning_summary_part.added": _ItemsBuilder.separate_reasoning,
    "response.function_call_arguments.delta": _ItemsBuilder.add_arguments,
    "response.function_call_arguments.done": _ItemsBuilder.replace_arguments,
    "response.completed": _ItemsBuilder.complete,
    "response.incomplete": _ItemsBuilder.complete_cut,
    "response.failed": _ItemsBuilder.fail,
}


class ResponsesModel(ServerModel):
    """A model behind OpenAI's Responses, or a server that is compatible with them.

    Args:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`, or an object that behaves like one.
        name: The model's name at the server.
        dialect: The wire format of tools; native tool calls, strict where that is lossless, by default.
        options: Further keys of each request, such as `reasoning`. Those under `tools` are the provider's own tools
            and are added to the run's.
    """

    builder: ClassVar[type[ResponseBuilder]] = _ItemsBuilder
    default_dialect: ClassVar[type[RunDialect]] = Responses
    own_keys: ClassVar[frozenset[str]] = frozenset({"input", "model", "stream"})
    resource = "responses"
    # The server stores nothing, so reasoning comes here, encrypted, and is sent back.
    defaults: ClassVar[Mapping[str, Any]] = {"store": False, "include": ["reasoning.encrypted_content"]}

    @override
    def _add_options(self, body: dict[str, Any]) -> dict[str, Any]:
        tools = [*body.get("tools", ()), *self.options.get("tools", ())]
        text = {**self.options.get("text", {}), **body.get("text", {})}
        joined = {name: value for name, value in {"tools": tools, "text": text}.items() if value}
        return {**body, **self.options, **joined}


def _delta(event: Any) -> str:
    return read_text(get_member(event, "delta"), "a delta")


def _error_text(error: Any) -> str:
    """Return the message and code of a server's error."""
    message, code = get_member(error, "message"), get_member(error, "code")
    return f"{message} ({code})" if message and code else str(message or error or "")
