"""What middleware remembers of calls: by run, and which calls are equal."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pydantic_core import from_json

from toolkit._context import ToolContext
from toolkit._messages import ToolCall

# Runs that are remembered at a time; then the one that was used longest ago is forgotten.
MAX_RUNS = 10_000

S = TypeVar("S")


class PerRun(Generic[S]):
    """State of a middleware for each run, so that concurrent runs never mix, and a resumed one finds its own.

    A call without a run gets a state of its own.

    Args:
        make: Creates the state of a run on first use. The calls of one turn share it, from several threads.
    """

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._states: dict[str, S] = {}

    def get(self, context: ToolContext[Any]) -> S:
        """Return the state of a call's run."""
        if not context.run_id:
            return self._make()
        with self._lock:
            state = self._states.pop(context.run_id) if context.run_id in self._states else self._make()
            self._states[context.run_id] = state
            if len(self._states) > MAX_RUNS:
                del self._states[next(iter(self._states))]
        return state


def identify(call: ToolCall) -> tuple[str, str]:
    """Return what equal calls have in common: the tool's name and the arguments as canonical JSON.

    Text that is not JSON stays as it is.
    """
    try:
        return call.name, json.dumps(from_json(call.arguments), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return call.name, call.arguments
