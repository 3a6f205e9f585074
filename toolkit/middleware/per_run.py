"""What a middleware remembers, kept apart for each run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from toolkit._context import ToolContext

# Runs that are remembered at a time; then the one that was used longest ago is forgotten.
MAX_RUNS = 10_000

S = TypeVar("S")


class PerRun(Generic[S]):
    """State of a middleware: one for each run, so that runs side by side never mix, and a resumed one finds its own.

    A call without a run gets a state of its own.

    Args:
        make: Makes the state of a run when it is first asked for. Calls of one turn share it, from several threads.
    """

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._states: dict[str, S] = {}

    def of(self, context: ToolContext[Any]) -> S:
        """Find the state of a call's run."""
        if not context.run_id:
            return self._make()
        with self._lock:
            state = self._states.pop(context.run_id) if context.run_id in self._states else self._make()
            self._states[context.run_id] = state
            if len(self._states) > MAX_RUNS:
                del self._states[next(iter(self._states))]
        return state
