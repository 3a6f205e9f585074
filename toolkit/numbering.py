"""Ids of calls: ours, and those that the provider is shown; unique in a history, whatever the provider sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, count

from toolkit.messages import Message, ModelResponse, ToolCall


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

    def own(self, number: int) -> str:
        """Say what our id of a call is, by its number in the run."""
        return f"{self._prefix}_{number}"

    def numbered(self, call: ToolCall, number: int) -> ToolCall:
        """Give a call our id, and one for the provider that no other call of the history has."""
        own = self.own(number)
        candidates = chain((call.provider_call_id, own), (f"{own}_{again}" for again in count(2)))
        unused = next(one for one in candidates if one.strip() and one not in self._taken)
        self._taken.add(unused)
        return replace(call, id=own, provider_call_id=unused)
