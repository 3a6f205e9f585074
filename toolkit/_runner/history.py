"""Reading of a history, and repair of one that servers would refuse.

In a valid history each call has one result, directly after the response with the call, in call order. No two calls have
the same id, and the arguments of each are one JSON object. Crashes, trimming and other programs break these rules, and
then every later request fails.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, TypeAlias, cast

from toolkit._dialects.chat import parse_history, sanitize_arguments
from toolkit._messages import Message, ModelResponse, ToolCall, ToolMessage, refuse_call, replace_surrogates

logger = logging.getLogger("toolkit")

LOST_TEXT = "No result of this call is known: it may have been executed, or not. Find out before you make it again."

# The place of a call: the number of its message, and its own number in that.
_Place: TypeAlias = tuple[int, int]


def read_history(given: Iterable[Message | Mapping[str, Any]]) -> list[Message]:
    """Parse a history, of messages or of dicts in OpenAI's form, and repair it. Log each change as a warning.

    Raises:
        TypeError: The history is not a list, or an entry is not a message.
        ValueError: A message has no known form.
    """
    messages, notes = repair_history(parse_history(given))
    for note in notes:
        logger.warning("The history was repaired: %s", note)
    return messages


def repair_history(messages: Sequence[Message]) -> tuple[list[Message], tuple[str, ...]]:
    """Repair a history, and return it with notes of the changes. A valid one is returned unchanged, without notes.

    A call without a result gets an error. A result moves to the last earlier call with its id that has no result, or
    else to a later one. A result without a call is left out. A call whose id was used before gets another id, and
    arguments that are not a JSON object become an empty one. Ids and names of results are filled in without a note.
    """
    results, notes = _pair_results(messages)
    ids = _UniqueIds(_get_wire_id(call) for _, call in _iter_calls(messages))
    repaired: list[Message] = []
    order: list[int] = []  # the former places of the messages

    for at, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        order.append(at)
        if not isinstance(message, ModelResponse):
            repaired.append(message)
            continue
        calls = tuple(_repair_call(call, ids, notes) for call in message.calls)
        repaired.append(replace(message, calls=calls))
        for number, (former, call) in enumerate(zip(message.calls, calls)):
            if (place := results.get((at, number))) is None:
                notes.append(f"The call {_quote(_get_wire_id(former))} had no result; it got an error.")
                result = refuse_call(call, LOST_TEXT)
            else:
                order.append(place)
                result = cast("ToolMessage", messages[place])
            name = result.name or call.name
            repaired.append(replace(result, call_id=call.id, provider_call_id=call.provider_call_id, name=name))

    if order != sorted(order):
        notes.append("Results that were elsewhere were moved to their calls, in call order.")
    return repaired, tuple(notes)


def _pair_results(messages: Sequence[Message]) -> tuple[dict[_Place, int], list[str]]:
    """Find the place of each call's result, and note results without a call."""
    unused = _UnusedResults()
    results = dict[_Place, int]()
    for at, message in reversed([*enumerate(messages)]):
        if isinstance(message, ToolMessage):
            unused.add(at, message)
        elif isinstance(message, ModelResponse):
            for number, call in enumerate(message.calls):
                if (found := unused.take(call)) is not None:
                    results[at, number] = found

    for place, call in _iter_calls(messages):
        if place not in results and (found := unused.take(call)) is not None:
            results[place] = found  # it comes before its call

    notes: list[str] = []
    for _, message in sorted(unused.left.items()):
        call_id, *_ = _list_ids(message.provider_call_id, message.call_id)
        notes.append(f"A result of {_quote(call_id)} was left out: there is no call for it.")
    return results, notes


class _UnusedResults:
    """Results that no call has yet, by their places."""

    def __init__(self) -> None:
        self.left: dict[int, ToolMessage] = {}
        self._by_id = defaultdict[str, list[int]](list)

    def add(self, at: int, message: ToolMessage) -> None:
        """Add a result that comes before all others."""
        self.left[at] = message
        for one in _list_ids(message.provider_call_id, message.call_id):
            self._by_id[one].append(at)

    def take(self, call: ToolCall) -> int | None:
        """Return the place of the first result of a call, or None if there is none."""
        for one in _list_ids(call.provider_call_id, call.id):
            while self._by_id[one]:
                if self.left.pop(at := self._by_id[one].pop(), None):
                    return at
        return None


def _iter_calls(messages: Sequence[Message]) -> Iterator[tuple[_Place, ToolCall]]:
    for at, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            yield from (((at, number), call) for number, call in enumerate(message.calls))


class _UniqueIds:
    """Gives each call an id that no earlier call has: its own if that is unused."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)
        self._taken: set[str] = set()
        self._numbers = defaultdict[str, Iterator[int]](lambda: count(2))

    def assign(self, one: str) -> str:
        """Return the id of the next call."""
        if not one.strip() or one in self._taken or one != replace_surrogates(one):
            stem = replace_surrogates(one).strip() or "call"
            others = (f"{stem}_{number}" for number in self._numbers[stem])
            one = next(other for other in others if other not in self._taken and other not in self._known)
        self._taken.add(one)
        return one


def _repair_call(call: ToolCall, ids: _UniqueIds, notes: list[str]) -> ToolCall:
    """Give a call a unique id, and arguments that are an object."""
    former = _get_wire_id(call)
    written = replace_surrogates(call.wire_arguments or call.arguments)
    if (arguments := sanitize_arguments(written)) != written:  # perhaps encoded twice, as some models do
        call = replace(call, arguments=arguments, wire_arguments="")
        if arguments == "{}":
            notes.append(f"The arguments of the call {_quote(former)} were not a JSON object; they are {{}} now.")
    if (new := ids.assign(former)) != former:
        notes.append(f"The call {_quote(former)} had no id of its own; it is {_quote(new)} now.")
        call = replace(call, id=new, provider_call_id=new)
    return call


def _list_ids(provider_call_id: str, own: str) -> tuple[str, ...]:
    """List the ids by which a call and its result may be matched. The empty id counts if there is no other."""
    return tuple(dict.fromkeys(filter(None, (provider_call_id, own)))) or ("",)


def _get_wire_id(call: ToolCall) -> str:
    """Return the id of a call as it is sent to the provider."""
    return call.provider_call_id or call.id


def _quote(text: str) -> str:
    return repr(text[:60])
