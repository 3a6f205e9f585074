"""OpenAI's Responses through the openai package: a request out, an answer back.

Nothing is kept by the server: each request says all of the conversation, and what the model said goes back as it came,
its thoughts encrypted. An answer is a list of items; in a stream they arrive in pieces, and what counts is an item's
last form.

The items of a streamed response, as they arrive.

A piece belongs to the item at its index, or of its id, or else to the last one of its kind: servers leave out either.
What a piece costs does not grow with what has arrived before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from typing_extensions import override

from toolkit._dialects.base import attribute
from toolkit._dialects.responses import Responses, is_call, output_text, parse_call, reasoning_text, to_plain_item
from toolkit._messages import ToolCall, Usage, replace_surrogates
from toolkit._schema.json_text import is_object
from toolkit.errors import ModelError
from toolkit.events import ReasoningDelta, TextDelta, ToolArgumentsDelta
from toolkit.models import Piece
from toolkit.models.client import Answer, ServerModel, count_of
from toolkit.models.errors import excerpt
from toolkit.models.streaming import MAX_CALLS


@dataclass
class Item:
    """An item that is still arriving.

    Attributes:
        call: Which call of the answer it is, from 0; None where it is none.
        last: Its last form, once that is there.
    """

    first: Mapping[str, Any]
    index: object = None
    call: int | None = None
    parts: list[str] = field(default_factory=list)
    last: Mapping[str, Any] | None = None

    def is_open_to(self, item: Mapping[str, Any], index: object) -> bool:
        """Tell whether what an event brings of an item may belong to this one."""
        known = ((self.index, index), (self.first.get("call_id") or None, item.get("call_id") or None))
        is_same = all(mine is None or theirs is None or mine == theirs for mine, theirs in known)
        return self.last is None and self.first["type"] == item["type"] and is_same

    def whole(self) -> Mapping[str, Any]:
        """Make the item of what has arrived; where its last form never came, it is as whole as the answer."""
        if self.last is not None:
            return self.last
        arrived = replace_surrogates("".join(self.parts))
        begun = {name: value for name, value in self.first.items() if name != "status"}
        if begun["type"] == "message":
            return {**begun, "content": [{"type": "output_text", "text": arrived, "annotations": []}]}
        member = "input" if begun["type"] == "custom_tool_call" else "arguments"
        return {**begun, member: arrived} if is_call(begun) and arrived else begun


class Arrival:
    """Finds the item that an event is about.

    Attributes:
        items: What has arrived, in the order in which it began.
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._latest: dict[tuple[str, Any], Item] = {}
        self._calls = itertools.count()

    @property
    def is_whole(self) -> bool:
        """Whether the last form of every item has come."""
        return all(item.last is not None for item in self.items)

    def open_at(self, event: Any, item: Mapping[str, Any]) -> Item:
        """Find an item, or begin it."""
        return self.found(event, item) or self.begun(item, event)

    def found(self, event: Any, item: Mapping[str, Any]) -> Item | None:
        """Find what an event is about: at its place, or else the last of its kind; nothing that is whole already."""
        candidates = (self._latest.get(place) for place in _places(event, item))
        return next((one for one in candidates if one and one.is_open_to(item, _index(event))), None)

    def begun(self, item: Mapping[str, Any], event: Any) -> Item:
        """Begin an item.

        Raises:
            ModelError: There are more than MAX_CALLS.
        """
        new = Item(first=item, index=_index(event), call=next(self._calls) if is_call(item) else None)
        self.items.append(new)
        self._latest.update(dict.fromkeys(_places(event, item), new))
        check_count(self.items)
        return new


def check_count(items: Sequence[object]) -> None:
    """Refuse an answer of more items than anybody would have to keep.

    Raises:
        ModelError: There are more than MAX_CALLS.
    """
    if len(items) > MAX_CALLS:
        raise ModelError(f"The model's answer has more than {MAX_CALLS:,} items. Nothing of it was carried out.")


def _places(event: Any, item: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """List where an item can be found again: at its index, under an id, or as the last of its kind."""
    if (index := _index(event)) is not None:
        yield "index", index
    identities = (attribute(event, "item_id"), item.get("id"), item.get("call_id"))
    yield from (("id", identity) for identity in identities if isinstance(identity, str) and identity)
    yield "kind", item["type"]


def _index(event: Any) -> int | None:
    index = attribute(event, "output_index")
    return index if isinstance(index, int) else None


# Why an answer is not whole -> our word; of any other reason no more is known than that there was more to come.
REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
# How an answer stands that is none.
FAILED = ("failed", "cancelled", "queued", "in_progress")
# How an item stands that was cut.
UNFINISHED = ("incomplete", "in_progress")


class _Answer(Answer):
    """What has arrived of one response."""

    def __init__(self) -> None:
        super().__init__()
        self.arrival = Arrival()
        self.has_shown_text = False
        self._whole: list[Item] = []

    @classmethod
    @override
    def of(cls, reply: Any) -> _Answer:
        """Read an answer that came whole."""
        answer = cls()
        answer._end(reply)
        return answer

    @override
    def take(self, chunk: Any) -> Iterator[Piece]:
        """Add an event of a stream, and give what of it is worth showing."""
        kind = attribute(chunk, "type")
        if kind == "error" or attribute(chunk, "error"):
            raise ModelError(f"The server broke off its answer: {excerpt(_told(attribute(chunk, 'error') or chunk))}")
        if isinstance(kind, str) and kind in _TAKERS:
            yield from _TAKERS[kind](self, chunk)

    @override
    def calls(self) -> tuple[ToolCall, ...]:
        """Make the calls, in the order in which they stand."""
        return tuple(map(parse_call, filter(is_call, self.items)))

    @override
    def ready(self) -> Iterator[tuple[ToolCall, int]]:
        """List the calls that have become whole since this was asked last, and which of the answer's they are."""
        whole, self._whole = self._whole, []
        calls = ((parse_call(item.last), item.call) for item in whole)
        return (
            (call, number) for call, number in calls if call.name and number is not None and is_object(call.arguments)
        )

    def added(self, event: Any) -> Iterator[Piece]:
        """Begin an item."""
        item = to_plain_item(attribute(event, "item"))
        if item is not None:
            self.arrival.begun(item, event)
        return iter(())

    def done(self, event: Any) -> Iterator[Piece]:
        """Take an item's last form."""
        item = to_plain_item(attribute(event, "item"))
        if item is not None:
            found = self.arrival.found(event, item) or self.arrival.begun(item, event)
            found.last = item
            self._whole += [found] if is_call(item) and item.get("status") not in UNFINISHED else []
        return iter(())

    def said(self, event: Any) -> Iterator[Piece]:
        """Add to a message."""
        if delta := _delta(event):
            self.arrival.open_at(event, {"type": "message", "role": "assistant"}).parts.append(delta)
            self.has_shown_text = True
            yield TextDelta(replace_surrogates(delta))

    def thought(self, event: Any) -> Iterator[Piece]:
        """Show a thought; the item brings it whole."""
        if delta := _delta(event):
            yield ReasoningDelta(replace_surrogates(delta))

    def next_thought(self, event: Any) -> Iterator[Piece]:
        """Part a thought from the one before it."""
        if attribute(event, "summary_index"):
            yield ReasoningDelta("\n\n")

    def argued(self, event: Any) -> Iterator[Piece]:
        """Add to a call's arguments."""
        if delta := _delta(event):
            item = self.arrival.open_at(event, {"type": "function_call"})
            item.parts.append(delta)
            yield ToolArgumentsDelta(
                index=item.call or 0, name=parse_call(item.first).name, text=replace_surrogates(delta)
            )

    def fully_argued(self, event: Any) -> Iterator[Piece]:
        """Take a call's arguments, all of them."""
        arguments = attribute(event, "arguments")
        if isinstance(arguments, str):
            self.arrival.open_at(event, {"type": "function_call"}).parts[:] = [arguments]
        return iter(())

    def completed(self, event: Any) -> Iterator[Piece]:
        """Take the end; some servers keep the connection open after it."""
        self._end(attribute(event, "response"))
        self.is_over = True
        said = "".join(self.text)
        if said and not self.has_shown_text:
            yield TextDelta(replace_surrogates(said))

    def incomplete(self, event: Any) -> Iterator[Piece]:
        """Take an end after which there was more to come."""
        yield from self.completed(event)
        if self.finish_reason not in REASONS.values():
            self.finish_reason = "length"

    def failed(self, event: Any) -> Iterator[Piece]:
        """Take an end that is none."""
        error = attribute(attribute(event, "response"), "error")
        raise ModelError(f"The model's server reports an error: {excerpt(_told(error) or 'the response failed')}")

    def _end(self, response: Any) -> None:
        """Take the whole answer; of a streamed one the items may have come before it."""
        status, error, output = (attribute(response, name) for name in ("status", "error", "output"))
        if status in FAILED or error:
            raise ModelError(f"The model's server reports an error: {excerpt(_told(error) or status)}")
        is_list = isinstance(output, (list, tuple))
        if not is_list and not self.arrival.items:
            raise ModelError(f"The server's answer is no response: {excerpt(response)}")
        listed = [item for item in map(to_plain_item, output if is_list else ()) if item is not None]
        check_count(listed)
        arrived = [item.whole() for item in self.arrival.items]
        is_whole = self.arrival.is_whole and len(arrived) >= len(listed)
        self.items = tuple(arrived if is_whole or not listed else listed)
        self._settle(response, status)

    def _settle(self, response: Any, status: Any) -> None:
        self.text.append(output_text(self.items))
        self.reasoning.append(reasoning_text(self.items))
        model, usage = attribute(response, "model"), attribute(response, "usage")
        self.model = model if isinstance(model, str) else ""
        self.usage = Usage(count_of(attribute(usage, "input_tokens")), count_of(attribute(usage, "output_tokens")), 1)
        reason = attribute(attribute(response, "incomplete_details"), "reason")
        if reason or status == "incomplete" or any(item.get("status") in UNFINISHED for item in self.items):
            self.finish_reason = REASONS.get(reason, "length") if isinstance(reason, str) else "length"
        else:
            self.finish_reason = "tool_calls" if any(map(is_call, self.items)) else "stop"


_TAKERS: Mapping[str, Callable[[_Answer, Any], Iterator[Piece]]] = {
    "response.output_item.added": _Answer.added,
    "response.output_item.done": _Answer.done,
    "response.output_text.delta": _Answer.said,
    "response.refusal.delta": _Answer.said,
    "response.reasoning_summary_text.delta": _Answer.thought,
    "response.reasoning_text.delta": _Answer.thought,
    "response.reasoning_summary_part.added": _Answer.next_thought,
    "response.function_call_arguments.delta": _Answer.argued,
    "response.function_call_arguments.done": _Answer.fully_argued,
    "response.completed": _Answer.completed,
    "response.incomplete": _Answer.incomplete,
    "response.failed": _Answer.failed,
}


class ResponsesModel(ServerModel):
    """A model behind OpenAI's Responses, or a server that is compatible with them.

    Args:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`, or something that behaves like one.
        name: The model's, as the server knows it.
        dialect: How tools are shown; native tool calls, strict where that is lossless, by default.
        options: Further keys of each request, such as `reasoning`. Those under `tools` are tools of the provider's own,
            which stand beside the run's.
    """

    answer = _Answer
    usual_dialect = Responses
    # The server keeps nothing, so thoughts come to us, encrypted, and go back from here.
    defaults: ClassVar[Mapping[str, Any]] = {"store": False, "include": ["reasoning.encrypted_content"]}

    @override
    def _endpoint(self) -> Any:
        return self.client.responses.create

    @override
    def _with_options(self, body: dict[str, Any]) -> dict[str, Any]:
        tools = [*body.get("tools", ()), *self.options.get("tools", ())]
        text = {**self.options.get("text", {}), **body.get("text", {})}
        joined = {name: value for name, value in {"tools": tools, "text": text}.items() if value}
        return {**body, **self.options, **joined}


def _delta(event: Any) -> str:
    delta = attribute(event, "delta")
    return delta if isinstance(delta, str) else ""


def _told(error: Any) -> str:
    """Read what a server says of an error."""
    message, code = attribute(error, "message"), attribute(error, "code")
    return f"{message} ({code})" if message and code else str(message or error or "")
