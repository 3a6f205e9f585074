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
    """A separate value for each run, for the data of a middleware. A resumed run finds its value again.

    A call without a run gets a new value.

    Args:
        make: A function that creates the value of a run. The calls of one turn share it, on several threads.
    """

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._states: dict[str, S] = {}

    def get(self, context: ToolContext[Any]) -> S:
        """Return the value of a call's run."""
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
