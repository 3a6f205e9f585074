"""Ids of calls: ours, and those that the provider is shown; unique in a history, whatever the provider sent."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, count
from typing import TypeAlias

from toolkit._messages import Message, ModelResponse, ToolCall

# What tells an answer from others.
Answer: TypeAlias = tuple[int, int]


def is_own(call_id: str, run_id: str) -> bool:
    """Tell whether an id of a call is ours, given in a run."""
    return call_id.startswith(f"{run_id[:8]}_")


class Numbering:
    """Gives the calls of one conversation their ids.

    Args:
        run_id: Makes ids unique beyond this run.
        messages: What was said before, with the ids that are taken.
    """

    def __init__(self, run_id: str, messages: Iterable[Message]) -> None:
        self._prefix = run_id[:8]
        calls = (call for m in messages if isinstance(m, ModelResponse) for call in m.calls)
        self._taken = {call.provider_call_id for call in calls}
        self._foreseen: dict[str, tuple[Answer, str, str]] = {}

    def foreseen(self, call: ToolCall, number: int, at: Answer) -> ToolCall:
        """Give a call of an answer that still arrives the id that it will have, and no other call."""
        own = self._own(call, number, at)
        self._foreseen[own] = at, call.name, call.arguments
        return call.changed(id=own)

    def numbered(self, call: ToolCall, number: int, at: Answer) -> ToolCall:
        """Give a call our id, and one for the provider that no other call of the history has.

        Args:
            call: What the model wrote.
            number: Which call of the run it is.
            at: Which answer holds it, as told from others.
        """
        own = self._own(call, number, at)
        candidates = chain((call.provider_call_id, own), (f"{own}_{again}" for again in count(2)))
        unused = next(one for one in candidates if one.strip() and one not in self._taken)
        self._taken.add(unused)
        return call.changed(id=own, provider_call_id=unused)

    def _own(self, call: ToolCall, number: int, at: Answer) -> str:
        """Say what our id of a call is: by its number, and promised to no other call."""
        own = first = f"{self._prefix}_{number}"
        identity, others = (at, call.name, call.arguments), count(2)
        while self._foreseen.get(own, identity) != identity:
            own = f"{first}_{next(others)}"
        return own
