"""Which calls of an answer are not carried out, and what the model is told instead."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from toolkit._messages import ModelResponse, ToolCall, ToolMessage
from toolkit._schema.json_text import is_cut
from toolkit.limits import NO_TOOLS_TEXT, Limits

# Finish reasons that mean: there was more to come.
CUT = frozenset({"length", "content_filter"})
CUT_TEXT = "Not run: the answer that held this call was cut off. Send it again, with shorter arguments or fewer calls."
CANCELLED_TEXT = "Cancelled"
LATE_TEXT = "Not run: the run's time is up."
STOPPED_TEXT = "Not run: the run was stopped."
# Word for word as users of earlier agent loops know it.
SKIPPED_TEXT = "Skipped due to queued user message."


def is_whole(response: ModelResponse) -> bool:
    """Tell whether all of an answer has arrived; servers give cut ones other names, too."""
    return response.finish_reason not in CUT and not any(is_cut(call.arguments) for call in response.calls)


def reason_of(response: ModelResponse) -> str:
    """Say why an answer without calls ended: servers have many words for one that is whole."""
    if response.finish_reason in CUT:
        return response.finish_reason
    return "stop" if response.text.strip() else "empty"


def refusal_of(call: ToolCall, why: str) -> ToolMessage:
    """Answer a call that is not carried out."""
    return ToolMessage(call_id=call.id, provider_call_id=call.provider_call_id, name=call.name, text=why, is_error=True)


class Tally:
    """Counts the calls of a run, from any thread: the model's, and those that a call of it makes in turn.

    Args:
        limits: How many there may be.
        used: How many there were before, by tool.
    """

    def __init__(self, limits: Limits, used: Mapping[str, int]) -> None:
        self._limits = limits
        self._used = Counter[str](used)
        self._lock = threading.Lock()

    @property
    def used(self) -> Mapping[str, int]:
        """How many calls were counted, by tool."""
        with self._lock:
            return dict(self._used)

    def count(self, name: str, number: int) -> str:
        """Count a call; or say why it is one too many.

        Args:
            name: The tool's.
            number: Which call of its answer it is, or which step of its plan, from 0.
        """
        with self._lock:
            why = _over(number, self._used.total(), self._used[name], name, self._limits)
            if not why:
                self._used[name] += 1
            return why

    def may_refuse(self, name: str, position: int) -> bool:
        """Tell whether a call may be one too many, whichever calls of its answer stand before it."""
        used = self.used
        return bool(_over(position, sum(used.values()) + position, used.get(name, 0) + position, name, self._limits))


def refused_by_limits(response: ModelResponse, tally: Tally, *, last: bool) -> tuple[ToolMessage, ...]:
    """Count the calls of an answer that run, and answer the others."""
    if last or not is_whole(response):
        why = NO_TOOLS_TEXT if is_whole(response) else CUT_TEXT
        return tuple(refusal_of(call, why) for call in response.calls)
    counted = [(call, tally.count(call.name, number)) for number, call in enumerate(response.calls)]
    return tuple(refusal_of(call, why) for call, why in counted if why)


def _over(number: int, total: int, of_tool: int, name: str, limits: Limits) -> str:
    """Say why a call is one too many; nothing where it is not.

    Args:
        number: Which call of its answer it is, from 0.
        total: How many calls the run has carried out before it.
        of_tool: How many of those were of this tool.
        name: The tool's.
        limits: How many there may be.
    """
    if number >= limits.calls_per_turn:
        return (
            f"Not run: one answer may hold {limits.calls_per_turn} calls. Send this one again later, if it is needed."
        )
    if limits.calls is not None and total >= limits.calls:
        return f"Not run: the run's {limits.calls} calls are used up. Answer with what you have."
    if of_tool >= limits.per_tool.get(name, of_tool + 1):
        return f"Not run: {name} may be called {limits.per_tool[name]} times in a run. Go on without it."
    return ""
