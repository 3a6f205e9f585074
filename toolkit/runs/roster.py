"""Which runs of a runner are under way."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar
from weakref import WeakSet

from toolkit.errors import BusyError

R = TypeVar("R")


class Roster(Generic[R]):
    """The runs that a runner has begun and that have not ended.

    Args:
        most: How many there may be at once; any number by default.

    Raises:
        ValueError: It is no number of runs.
    """

    def __init__(self, most: int | None = None) -> None:
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise ValueError(f"max_runs={most!r} is no whole number of runs, at least 1.")
        self._most = most
        self._lock = threading.RLock()  # a signal handler may come in between
        self._runs: WeakSet[R] = WeakSet()  # a stream that nobody draws from is forgotten

    def enter(self, run: R) -> None:
        """Count a run in.

        Raises:
            BusyError: There are as many as there may be.
        """
        with self._lock:
            if self._most is not None and len(self._runs) >= self._most:
                raise BusyError(
                    f"This runner is busy: it has {len(self._runs)} of at most {self._most} runs under way. "
                    f"Use steer() or follow_up() to say more to a run, or Runner(..., max_runs=None) for more of them."
                )
            self._runs.add(run)

    def leave(self, run: R) -> None:
        """Count a run out."""
        with self._lock:
            self._runs.discard(run)

    def all(self) -> list[R]:
        """List the runs that are under way."""
        with self._lock:
            return list(self._runs)

    def only(self) -> R:
        """Find the run that is under way.

        Raises:
            BusyError: There is none, or more than one.
        """
        runs = self.all()
        if not runs:
            raise BusyError("No run is under way. Begin one with start() or stream(), or in another thread.")
        if len(runs) > 1:
            raise BusyError(
                f"{len(runs)} runs are under way: say which one is meant, by what start() or stream() gave."
            )
        return runs[0]
