"""Reading of a history, and repair of one that servers reject.

In a valid history each call has one result, directly behind the response with the call, in call order; no two calls
have the same id; the arguments of each are one JSON object. Crashes, trimming and other programs break that, and
then every later request fails.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, TypeAlias

from pydantic_core import from_json

from toolkit._dialects.chat import parse_history
from toolkit._messages import Message, ModelResponse, ToolCall, ToolMessage, replace_surrogates

logger = logging.getLogger("toolkit")

LOST_TEXT = "No result of this call is known: it may have been executed, or not. Find out before you make it again."

# Where a call stands: the number of its message, and its own number there.
_Place: TypeAlias = tuple[int, int]
# The results of calls, and where they stood.
_Results: TypeAlias = dict[_Place, tuple[int, ToolMessage]]


def read_history(given: Iterable[Message | Mapping[str, Any]]) -> list[Message]:
    """Parse a history, messages or their form at OpenAI, and repair it; warns of each change.

    Raises:
        ConversationError: A message has no known form.
    """
    messages, notes = repair_history(parse_history(given))
    for note in notes:
        logger.warning("The history was repaired: %s", note)
    return messages


def repair_history(messages: Sequence[Message]) -> tuple[list[Message], tuple[str, ...]]:
    """Repair a history, and return it with notes of the changes; a valid one is returned unchanged, without notes.

    A call without a result gets an error. A result moves to the latest call of its id that has none, and takes over
    that call's ids; a second one, or one without a call, is left out. A call whose id was used before gets another
    one, and arguments that are not a JSON object become an empty one. A missing provider id or name of a result is
    filled in without a note.
    """
    results, notes = _pair_results(messages)
    if _is_reordered(messages, results):
        notes.append("Results that stood elsewhere were put behind their calls, in call order.")
    ids = _UniqueIds(
        _get_wire_id(call) for message in messages if isinstance(message, ModelResponse) for call in message.calls
    )
    made: list[Message] = []
    for at, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            calls = tuple(_repair_call(call, ids, notes) for call in message.calls)
            found = [_find_result(call, results.get((at, number)), notes) for number, call in enumerate(message.calls)]
            answers = [
                replace(result, call_id=call.id, provider_call_id=call.provider_call_id, name=result.name or call.name)
                for call, result in zip(calls, found)
            ]
            made += [replace(message, calls=calls), *answers]
        elif not isinstance(message, ToolMessage):
            made.append(message)
    return made, tuple(notes)


def _pair_results(messages: Sequence[Message]) -> tuple[_Results, list[str]]:
    """Find the result of each call, and note results without a call."""
    results: _Results = {}
    places: dict[str, list[_Place]] = {}
    early: list[tuple[int, ToolMessage]] = []
    for at, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            for number, call in enumerate(message.calls):
                for one in _list_ids(call.provider_call_id, call.id):
                    places.setdefault(one, []).append((at, number))
        elif isinstance(message, ToolMessage) and not _place_result(at, message, places, results):
            early.append((at, message))  # its call may come later
    without = [message for at, message in early if not _place_result(at, message, places, results)]
    return results, [_describe_unused(message, places) for message in without]


def _place_result(at: int, message: ToolMessage, places: dict[str, list[_Place]], results: _Results) -> bool:
    """Assign a result to the latest response with a call of its id that has none; return whether there is one."""
    for one in _list_ids(message.provider_call_id, message.call_id):
        free = [place for place in places.get(one, ()) if place not in results]
        if free:
            places[one] = free
            results[next(place for place in free if place[0] == free[-1][0])] = (at, message)
            return True
    return False


def _describe_unused(message: ToolMessage, places: Collection[str]) -> str:
    ids = _list_ids(message.provider_call_id, message.call_id)
    if any(one in places for one in ids):
        return f"A second result of the call {_quote(ids[0])} was left out."
    return f"A result of {_quote(ids[0])} was left out: there is no such call."


def _is_reordered(messages: Sequence[Message], results: _Results) -> bool:
    """Return whether the results of a response are not right after it, in call order."""
    behind: dict[int, list[int]] = {}
    for (answer, _), (at, _) in sorted(results.items()):
        behind.setdefault(answer, []).append(at)
    others = [at for at, message in enumerate(messages) if not isinstance(message, ToolMessage)]
    order = [at for other in others for at in (other, *behind.get(other, ()))]
    return order != sorted(order)


class _UniqueIds:
    """Assigns each call an id that no earlier call has: its own if that is unused."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)
        self._taken: set[str] = set()
        self._others: dict[str, Iterator[str]] = {}

    def assign(self, one: str) -> str:
        """Return the id of the next call."""
        if not one.strip() or one in self._taken or one != replace_surrogates(one):
            others = self._others.setdefault(one, _generate_ids(one))
            one = next(other for other in others if other not in self._taken and other not in self._known)
        self._taken.add(one)
        return one


def _repair_call(call: ToolCall, ids: _UniqueIds, notes: list[str]) -> ToolCall:
    """Give a call a unique id, and arguments that are an object."""
    former = _get_wire_id(call)
    text = call.wire_arguments or call.arguments
    if not _is_object(text) and _is_object(inner := _read_text(text)):  # encoded twice, as some models do
        call = replace(call, arguments=inner, wire_arguments="")
    elif not _is_object(text):
        notes.append(f"The arguments of the call {_quote(former)} were no JSON object; they are {{}} now.")
        call = replace(call, arguments="{}", wire_arguments="")
    if (new := ids.assign(former)) != former:
        notes.append(f"The call {_quote(former)} had no id of its own; it is {_quote(new)} now.")
        call = replace(call, id=new, provider_call_id=new)
    return call


def _find_result(call: ToolCall, result: tuple[int, ToolMessage] | None, notes: list[str]) -> ToolMessage:
    """Return the result of a call, unchanged, or an error if there is none."""
    if result is None:
        notes.append(f"The call {_quote(_get_wire_id(call))} had no result; it got an error.")
        return ToolMessage(call_id=call.id, name=call.name, text=LOST_TEXT, is_error=True)
    message = result[1]
    if message.call_id != call.id or message.provider_call_id not in ("", call.provider_call_id):
        notes.append(
            f"The result of the call {_quote(_get_wire_id(call))} had another id; it has that of its call now."
        )
    return message


def _generate_ids(former: str) -> Iterator[str]:
    stem = replace_surrogates(former).strip() or "call"
    return (f"{stem}_{number}" for number in count(2))


def _list_ids(provider_call_id: str, own: str) -> tuple[str, ...]:
    """List the ids by which a call and its result may be matched; the empty id counts if there is no other."""
    return tuple(dict.fromkeys(filter(None, (provider_call_id, own)))) or ("",)


def _get_wire_id(call: ToolCall) -> str:
    """Return the call's id as the provider is sent it."""
    return call.provider_call_id or call.id


def _is_object(text: str) -> bool:
    try:
        return isinstance(from_json(replace_surrogates(text), allow_inf_nan=False), dict)
    except ValueError:
        return False


def _read_text(text: str) -> str:
    """Decode a JSON string; return "" for any other JSON."""
    try:
        inner = from_json(replace_surrogates(text))
    except ValueError:
        return ""
    return inner if isinstance(inner, str) else ""


def _quote(text: str) -> str:
    return repr(text[:60])
