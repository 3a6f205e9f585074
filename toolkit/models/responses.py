"""OpenAI's Responses through the openai package.

The server stores nothing: each request has the whole conversation, and the model's items go back as they came, its
reasoning encrypted. An answer is a list of items; in a stream they arrive in pieces, and an item's last form counts.

A piece belongs to the item at its index, or with its id, or else to the last one of its type: servers leave out either.
The cost of a piece does not grow with what has arrived before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from typing_extensions import override

from toolkit._dialects.base import get_member
from toolkit._dialects.responses import Responses, is_call, output_text, parse_call, reasoning_text, to_plain_item
from toolkit._messages import ToolCall, Usage, replace_surrogates
from toolkit._schema.json_text import is_object
from toolkit.errors import ModelError
from toolkit.events import ReasoningDelta, TextDelta, ToolArgumentsDelta
from toolkit.models import Piece
from toolkit.models.client import ResponseBuilder, ServerModel, count_tokens
from toolkit.models.errors import excerpt
from toolkit.models.streaming import MAX_CALLS

# Reason why a response is incomplete -> finish reason; any other reason counts as "length".
REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
# Status of a response that is no answer.
FAILED = ("failed", "cancelled", "queued", "in_progress")
# Status of an item that was cut.
UNFINISHED = ("incomplete", "in_progress")


@dataclass
class OpenItem:
    """An item that is still arriving.

    Attributes:
        first: The item as it was added.
        index: Its index in the output, where the server sends one.
        call: Position among the answer's calls, from 0; None for an item that is no call.
        parts: Text that has arrived.
        last: The final item, once it has arrived.
    """

    first: Mapping[str, Any]
    index: object = None
    call: int | None = None
    parts: list[str] = field(default_factory=list)
    last: Mapping[str, Any] | None = None

    def is_open_to(self, item: Mapping[str, Any], index: object) -> bool:
        """Return whether an event's item may be this one."""
        pairs = ((self.index, index), (self.first.get("call_id") or None, item.get("call_id") or None))
        is_same = all(mine is None or theirs is None or mine == theirs for mine, theirs in pairs)
        return self.last is None and self.first["type"] == item["type"] and is_same

    def build(self) -> Mapping[str, Any]:
        """Make the item of what has arrived."""
        if self.last is not None:
            return self.last
        arrived = replace_surrogates("".join(self.parts))
        item = {name: value for name, value in self.first.items() if name != "status"}
        if item["type"] == "message":
            return {**item, "content": [{"type": "output_text", "text": arrived, "annotations": []}]}
        member = "input" if item["type"] == "custom_tool_call" else "arguments"
        return {**item, member: arrived} if is_call(item) and arrived else item


class OpenItems:
    """The items of a streamed response, found by their events.

    Attributes:
        items: In the order in which they started.
    """

    def __init__(self) -> None:
        self.items: list[OpenItem] = []
        self._latest: dict[tuple[str, Any], OpenItem] = {}
        self._calls = itertools.count()

    @property
    def is_whole(self) -> bool:
        """True once every item has its final form."""
        return all(item.last is not None for item in self.items)

    def find_or_start(self, event: Any, item: Mapping[str, Any]) -> OpenItem:
        """Find an event's item, or start it."""
        return self._find(event, item) or self.start(event, item)

    def _find(self, event: Any, item: Mapping[str, Any]) -> OpenItem | None:
        """Find an event's item: at its index, by its id, or else the last of its type; a final item is never found."""
        candidates = (self._latest.get(key) for key in _list_keys(event, item))
        return next((one for one in candidates if one and one.is_open_to(item, _index(event))), None)

    def is_repeated(self, event: Any, item: Mapping[str, Any]) -> bool:
        """Return whether an event brings a final item again, with the same ids."""
        known = (self._latest.get(key) for key in _list_keys(event, item) if key[0] == "id")
        return any(one is not None and one.last == item for one in known)

    def start(self, event: Any, item: Mapping[str, Any]) -> OpenItem:
        """Add an item.

        Raises:
            ModelError: There are more than MAX_CALLS.
        """
        new = OpenItem(first=item, index=_index(event), call=next(self._calls) if is_call(item) else None)
        self.items.append(new)
        self._latest.update(dict.fromkeys(_list_keys(event, item), new))
        _check_count(self.items)
        return new


def _check_count(items: Sequence[object]) -> None:
    if len(items) > MAX_CALLS:
        raise ModelError(f"The model's answer has more than {MAX_CALLS:,} items. Its calls are discarded.")


def _list_keys(event: Any, item: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """List the keys under which an item is found again: its index, its ids, its type."""
    if (index := _index(event)) is not None:
        yield "index", index
    identities = (get_member(event, "item_id"), item.get("id"), item.get("call_id"))
    yield from (("id", identity) for identity in identities if isinstance(identity, str) and identity)
    yield "type", item["type"]


def _index(event: Any) -> int | None:
    index = get_member(event, "output_index")
    return index if isinstance(index, int) else None


class _ItemsBuilder(ResponseBuilder):
    """Collects one response."""

    def __init__(self) -> None:
        super().__init__()
        self.open = OpenItems()
        self.has_streamed_text = False
        self._ready: list[OpenItem] = []

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
        kind = get_member(chunk, "type")
        if kind == "error" or get_member(chunk, "error"):
            raise ModelError(
                f"The server broke off its answer: {excerpt(_error_text(get_member(chunk, 'error') or chunk))}"
            )
        if isinstance(kind, str) and kind in _HANDLERS:
            yield from _HANDLERS[kind](self, chunk)

    @override
    def build_calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they stand."""
        return tuple(map(parse_call, filter(is_call, self.items)))

    @override
    def take_ready(self) -> Iterator[tuple[ToolCall, int]]:
        """List the calls completed since the last time, with their positions."""
        ready, self._ready = self._ready, []
        calls = ((parse_call(item.last), item.call) for item in ready)
        return (
            (call, number) for call, number in calls if call.name and number is not None and is_object(call.arguments)
        )

    def start_item(self, event: Any) -> Iterator[Piece]:
        item = to_plain_item(get_member(event, "item"))
        if item is not None:
            self.open.start(event, item)
        return iter(())

    def finish_item(self, event: Any) -> Iterator[Piece]:
        item = to_plain_item(get_member(event, "item"))
        if item is not None and not self.open.is_repeated(event, item):
            open_item = self.open.find_or_start(event, item)
            open_item.last = item
            self._ready += [open_item] if is_call(item) and item.get("status") not in UNFINISHED else []
        return iter(())

    def add_text(self, event: Any) -> Iterator[Piece]:
        if delta := _delta(event):
            self.open.find_or_start(event, {"type": "message", "role": "assistant"}).parts.append(delta)
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
        if delta := _delta(event):
            item = self.open.find_or_start(event, {"type": "function_call"})
            item.parts.append(delta)
            yield ToolArgumentsDelta(
                index=item.call or 0, name=parse_call(item.first).name, text=replace_surrogates(delta)
            )

    def replace_arguments(self, event: Any) -> Iterator[Piece]:
        arguments = get_member(event, "arguments")
        if isinstance(arguments, str):
            self.open.find_or_start(event, {"type": "function_call"}).parts[:] = [arguments]
        return iter(())

    def complete(self, event: Any) -> Iterator[Piece]:
        self._finish(get_member(event, "response"))
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
        if status in FAILED or error:
            raise ModelError(f"The model's server reports an error: {excerpt(_error_text(error) or status)}")
        is_list = isinstance(output, (list, tuple))
        if not is_list and not self.open.items:
            raise ModelError(f"The server's answer is not a response: {excerpt(response)}")
        listed = [item for item in map(to_plain_item, output if is_list else ()) if item is not None]
        _check_count(listed)
        arrived = [item.build() for item in self.open.items]
        is_whole = self.open.is_whole and len(arrived) >= len(listed)
        self.items = tuple(arrived if is_whole or not listed else listed)
        self._read_metadata(response, status)

    def _read_metadata(self, response: Any, status: Any) -> None:
        self.text.append(output_text(self.items))
        self.reasoning.append(reasoning_text(self.items))
        model, usage = get_member(response, "model"), get_member(response, "usage")
        self.model = model if isinstance(model, str) else ""
        self.usage = Usage(
            count_tokens(get_member(usage, "input_tokens")), count_tokens(get_member(usage, "output_tokens")), 1
        )
        reason = get_member(get_member(response, "incomplete_details"), "reason")
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

    builder = _ItemsBuilder
    default_dialect = Responses
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
    delta = get_member(event, "delta")
    return delta if isinstance(delta, str) else ""


def _error_text(error: Any) -> str:
    """Return the message and code of a server's error."""
    message, code = get_member(error, "message"), get_member(error, "code")
    return f"{message} ({code})" if message and code else str(message or error or "")
