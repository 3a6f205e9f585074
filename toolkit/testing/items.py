"""How a fake server's answer is written in Responses: as JSON, or as the events of a stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolkit.testing import wire

# Our word for why an answer ended -> how Responses say that it is not whole.
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
# What an item has no more than begun with when a stream adds it.
_EMPTY: Mapping[str, Mapping[str, Any]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "reasoning": {"summary": []},
}

Event = dict[str, Any]


def written(completion: wire.Completion, ask: wire.Ask) -> wire.Payload:
    """Write what the model says, as JSON or as SSE, whichever the request wants.

    Without a finish reason a stream ends as if it were cut, and a whole answer has no status.
    """
    items = [*map(dict, completion.items or _items(completion, ask))]
    response = _response(completion, ask, items)
    if not ask.stream:
        return wire.Payload(content=wire.json_bytes(response))
    return wire.events(ask, _events(items, response, completion.split))


def _items(completion: wire.Completion, ask: wire.Ask) -> Iterator[dict[str, Any]]:
    if completion.text is not None:
        content = [{"type": "output_text", "text": completion.text, "annotations": []}]
        yield {
            "type": "message",
            "id": f"msg_{ask.number}",
            "status": "completed",
            "role": "assistant",
            "content": content,
        }
    for number, call in enumerate(completion.calls):
        call_id, name, arguments = wire.call_of(ask, call)
        item = {"type": "function_call", "id": f"fc_{ask.number}_{number}", "call_id": call_id}
        yield {**item, "name": name, "arguments": arguments, "status": "completed"}


def _response(completion: wire.Completion, ask: wire.Ask, items: list[dict[str, Any]]) -> dict[str, Any]:
    reason = INCOMPLETE.get(completion.finish_reason or "")
    status = "incomplete" if reason else completion.finish_reason and "completed"
    return {
        "id": f"resp_{ask.number}",
        "object": "response",
        "created_at": 0,
        "model": ask.model,
        "status": status,
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "output": items,
        "usage": completion.tokens("input_tokens", "output_tokens"),
    }


def _events(items: list[dict[str, Any]], response: dict[str, Any], split: int) -> Iterator[Event]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    told = itertools.chain(
        [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}],
        *(_of_item(item, index, split) for index, item in enumerate(items)),
        [{"type": f"response.{response['status']}", "response": response}] if response["status"] else [],
    )
    return ({**event, "sequence_number": number} for number, event in enumerate(told))


def _of_item(item: dict[str, Any], index: int, split: int) -> Iterator[Event]:
    kind = item.get("type")
    begun = {**item, **_EMPTY.get(str(kind), {}), **({"status": "in_progress"} if "status" in item else {})}
    place = {"output_index": index}
    yield {"type": "response.output_item.added", **place, "item": begun}
    about = {"item_id": item.get("id"), **place}
    for event in _PARTS[kind](item, split) if kind in _PARTS else ():
        yield {**event, **about}
    yield {"type": "response.output_item.done", **place, "item": item}


def _message(item: dict[str, Any], split: int) -> Iterator[Event]:
    for number, part in enumerate(item["content"]):
        place = {"content_index": number}
        name, kind = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
        yield {"type": "response.content_part.added", **place, "part": {**part, name: ""}}
        yield from _deltas(f"response.{kind}", part[name], split, name, place)
        yield {"type": "response.content_part.done", **place, "part": part}


def _function_call(item: dict[str, Any], split: int) -> Iterator[Event]:
    yield from _deltas("response.function_call_arguments", str(item["arguments"]), split, "arguments", {})


def _reasoning(item: dict[str, Any], split: int) -> Iterator[Event]:
    for number, part in enumerate(item.get("summary") or ()):
        place = {"summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
        yield from _deltas("response.reasoning_summary_text", part["text"], split, "text", place)
        yield {"type": "response.reasoning_summary_part.done", **place, "part": part}


def _deltas(kind: str, text: str, split: int, name: str, place: Mapping[str, Any]) -> Iterable[Event]:
    pieces = ({"type": f"{kind}.delta", **place, "delta": piece} for piece in wire.pieces_of(text, split))
    return [*pieces, {"type": f"{kind}.done", **place, name: text}]


_PARTS = {"message": _message, "function_call": _function_call, "reasoning": _reasoning}
