"""OpenAI's Responses through the openai package.

The server stores nothing: each request has the whole conversation, with the model's items unchanged and its reasoning
encrypted. An answer is a list of items. In a stream, the pieces of an item are for listeners only; complete items are
in the event that ends each, and in the list at the end of the response. If both are sent, they must have the same
calls; otherwise the answer is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from toolkit._dialects.base import canonical_text, drop_repeated, get_member, to_plain_item
from toolkit._dialects.catalog import API
from toolkit._dialects.responses import Item, is_call, output_text, parse_call, reasoning_text
from toolkit._messages import ModelRequest, ToolCall, replace_surrogates
from toolkit._schema.json_text import is_object
from toolkit.errors import ModelError
from toolkit.events import ReasoningDelta, TextDelta, ToolArgumentsDelta
from toolkit.models import CallReady, Piece
from toolkit.models.client import ResponseBuilder, ServerModel, read_usage
from toolkit.models.errors import excerpt
from toolkit.models.streaming import check_count
from toolkit.models.wire import (
    malformed,
    read_arguments,
    read_content,
    read_identity,
    read_index,
    read_object,
    read_objects,
    read_text,
)

# Reason why a response is incomplete -> finish reason; any other reason counts as "length".
REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
# Statuses of a response that is not an answer.
FAILED = ("failed", "cancelled", "queued", "in_progress")
# Statuses of an item that was cut off.
UNFINISHED = ("incomplete", "in_progress")
# Types of items that the application has to answer, unless their output is in the same response.
WAITING = ("apply_patch_call", "computer_call", "local_shell_call", "mcp_approval_request", "shell_call")


class _ItemsBuilder(ResponseBuilder):
    """Collects one response."""

    def __init__(self) -> None:
        super().__init__()
        self.items: tuple[Item, ...] = ()
        self.has_pieces = False
        # By index and content, so that a repeated event counts once.
        self.started: dict[str, Item] = {}
        self.done: dict[str, Item] = {}
        self._numbers: dict[object, int] = {}  # positions of calls, by `call_id`
        self._calls: dict[object, tuple[int, str]] = {}  # positions and names of calls, by the index and id of an item

    @override
    def add_reply(self, reply: Any) -> None:
        """Add a response, or the one at the end of a stream, which may lack items that were streamed before."""
        status, error, output = (get_member(reply, name) for name in ("status", "error", "output"))
        if read_text(status, "the status") in FAILED or error:
            raise ModelError(f"The model's server reports an error: {excerpt(_error_text(error) or status)}")
        if output is None and not self.started and not self.done:
            raise ModelError(f"The server's answer is not a response: {excerpt(reply)}")
        self.items = self._choose_items(_read_items(output))
        self._read_metadata(reply, status)

    @override
    def add_chunk(self, chunk: Any) -> Iterator[Piece]:
        """Add an event of a stream, and yield its pieces and the calls that it completes."""
        kind = read_text(get_member(read_object(chunk, "an event"), "type"), "the type of an event")
        if kind == "error" or get_member(chunk, "error"):
            raise ModelError(
                f"The server broke off its answer: {excerpt(_error_text(get_member(chunk, 'error') or chunk))}"
            )
        if kind.endswith(".delta"):
            yield from self._report_piece(kind, chunk)
        elif kind == "response.reasoning_summary_part.added" and get_member(chunk, "summary_index"):
            yield ReasoningDelta("\n\n")
        elif kind == "response.output_item.added":
            yield from self._start_item(chunk)
        elif kind == "response.output_item.done":
            yield from self._finish_item(chunk)
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            yield from self._complete(kind, get_member(chunk, "response"))

    @override
    def build_calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order of the items."""
        return _list_calls(self.items)

    @override
    def build_items(self) -> tuple[Item, ...]:
        """Return the items of the answer."""
        return self.items

    def _report_piece(self, kind: str, event: Any) -> Iterator[Piece]:
        if kind.startswith("response.reasoning_"):
            if delta := _read_delta(event):
                yield ReasoningDelta(replace_surrogates(delta))
        elif kind in ("response.output_text.delta", "response.refusal.delta"):
            if delta := _read_delta(event):
                self.has_pieces = True
                yield TextDelta(replace_surrogates(delta))
        elif kind == "response.function_call_arguments.delta" and (delta := _read_delta(event)):
            keys = (get_member(event, "item_id"), _read_position(event))
            number, name = next((self._calls[key] for key in keys if key in self._calls), (0, ""))
            yield ToolArgumentsDelta(index=number, name=name, text=replace_surrogates(delta))

    def _start_item(self, event: Any) -> Iterator[Piece]:
        item = _add_item(event, self.started)
        if item and item.get("phase") and self.has_pieces:
            yield TextDelta("\n\n")  # between a comment and the answer
        if item and is_call(item):
            call = self._number_call(item), parse_call(item).name
            self._calls.update({_read_position(event): call, item.get("id"): call})

    def _finish_item(self, event: Any) -> Iterator[Piece]:
        if (item := _add_item(event, self.done)) and is_call(item):
            call, number = parse_call(item), self._number_call(item)
            if call.name and is_object(call.arguments) and item.get("status") not in UNFINISHED:
                yield CallReady(call, number)

    def _number_call(self, item: Item) -> int:
        """Return the position of a call among the answer's calls, from 0, which is the same for the same `call_id`."""
        return self._numbers.setdefault(item.get("call_id") or object(), len(self._numbers))

    def _complete(self, kind: str, response: Any) -> Iterator[Piece]:
        if kind == "response.failed":
            error = _error_text(get_member(response, "error")) or "the response failed"
            raise ModelError(f"The model's server reports an error: {excerpt(error)}")
        self.add_reply(read_object(response, "the response"))
        self.is_complete = True  # some servers keep the connection open after this event
        if (text := "".join(self.text)) and not self.has_pieces:
            yield TextDelta(replace_surrogates(text))
        if kind == "response.incomplete" and self.finish_reason not in REASONS.values():
            self.finish_reason = "length"

    def _choose_items(self, listed: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items that the final response lists or, if it lists none, those that have ended in the stream."""
        done = tuple(self.done.values())
        if not listed:
            if len(done) < max(len(self.started), self.has_pieces):
                raise ModelError("The model's answer lacks the end of an item. Its calls are discarded.")
            return done
        if done and _count_calls(done) != _count_calls(listed):
            raise ModelError(
                "The model's answer has other calls at its end than in its stream. Its calls are discarded."
            )
        return tuple(listed)

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
            _check_waiting(self.items)
            self.finish_reason = "tool_calls" if any(map(is_call, self.items)) else "stop"


class ResponsesModel(ServerModel):
    """A model behind OpenAI's Responses, or a server that is compatible with them.

    Args:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`, or an object that behaves like one.
        name: The model's name at the server.
        dialect: How tools are sent, as for a Runner; native tool calls, strict if that is lossless, by default.
        options: Further keys of each request, such as `reasoning`. The provider's own tools, under `tools`, are added
            to the run's.
    """

    builder: ClassVar[type[ResponseBuilder]] = _ItemsBuilder
    api: ClassVar[API] = "responses"
    own_keys: ClassVar[frozenset[str]] = frozenset({"input", "model", "stream"})
    resource = "responses"
    # The server stores nothing, so reasoning is received encrypted, and sent back.
    defaults: ClassVar[Mapping[str, Any]] = {"store": False, "include": ["reasoning.encrypted_content"]}

    @override
    def _adapt(self, request: ModelRequest, body: Mapping[str, Any], error: ModelError) -> bool:
        """Ask for no reasoning any more if the model has none; otherwise as for every server."""
        is_own = "include" in body and self.options.get("include") is None  # it may be None since another run's refusal
        if not is_own or "ncrypted content is not supported" not in str(error):
            return super()._adapt(request, body, error)
        self.options["include"] = None
        return True

    @override
    def _add_options(self, body: dict[str, Any]) -> dict[str, Any]:
        tools = [*body.get("tools", ()), *self.options.get("tools", ())]
        text = {**self.options.get("text", {}), **body.get("text", {})}
        joined = {name: value for name, value in {"tools": tools, "text": text}.items() if value}
        return {**body, **self.options, **joined}


def _add_item(event: Any, items: dict[str, Item]) -> Item | None:
    """Add the item of an event to `items`, by index and content, and return it; None if the event has none."""
    item = _read_item(get_member(event, "item"))
    if item is not None:
        items[f"{_read_position(event)} {json.dumps(item, sort_keys=True)}"] = item
        check_count(len(items), "items")
    return item


def _check_waiting(items: Iterable[Item]) -> None:
    """Refuse an answer that waits for what a run does not give."""
    answered = {item.get("call_id") for item in items if item["type"].endswith("_output")}
    for item in items:
        is_own = item["type"] in WAITING or item.get("execution") == "client"
        if is_own and item.get("call_id", "") not in answered:
            raise ModelError(
                f"The model waits for an answer to its {item['type']!r}, which a run does not give. Leave that tool "
                "out, or let the provider execute it, such as a server of MCP by require_approval='never'."
            )


def _list_calls(items: Iterable[Item]) -> tuple[ToolCall, ...]:
    """List the calls among items, without repeated ones."""
    calls = drop_repeated(tuple(map(parse_call, filter(is_call, items))))
    counts = Counter(call.provider_call_id for call in calls if call.provider_call_id)
    if repeated := next((call_id for call_id, count in counts.items() if count > 1), ""):
        raise ModelError(
            f"The model's answer has different calls with the id {excerpt(repeated)!r}. Its calls are discarded."
        )
    return calls


def _count_calls(items: Iterable[Item]) -> Counter[tuple[str, str, str]]:
    """Count calls by name, namespace and arguments: some gateways change their ids with each event."""
    return Counter((call.name, call.namespace, canonical_text(call.arguments)) for call in _list_calls(items))


def _read_items(output: Any) -> list[Item]:
    """Read the items of a response."""
    items = [item for item in map(_read_item, read_objects(output, "the output")) if item is not None]
    check_count(len(items), "items")
    return items


def _read_item(value: Any) -> Item | None:
    """Read an item as plain data.

    Raises:
        ModelError: It is not an item, or a member of a call or a message has a wrong type.
    """
    if read_object(value, "an item") is None:
        return None
    item = to_plain_item(value)
    if item is None:
        raise malformed("an item", value)
    if is_call(item):
        for member in ("call_id", "id"):
            read_identity(item.get(member), f"the {member} of a call")
        for member in ("name", "namespace", "status"):
            read_text(item.get(member), f"the {member} of a call")
        read_arguments(item.get("input" if item["type"] == "custom_tool_call" else "arguments"))
    elif item["type"] == "message":
        read_content(item.get("content"), "the content of a message")
        read_text(item.get("status"), "the status of a message")
    return item


def _read_position(event: Any) -> int | None:
    return read_index(get_member(event, "output_index"), "the index of an item")


def _read_delta(event: Any) -> str:
    return read_text(get_member(event, "delta"), "a delta")


def _error_text(error: Any) -> str:
    """Return the message and code of a server's error."""
    message, code = get_member(error, "message"), get_member(error, "code")
    return f"{message} ({code})" if message and code else str(message or error or "")
