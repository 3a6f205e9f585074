"""What can be done to a run while it is under way, from any thread or task.

What the user says while a run is under way, from any thread or task.

Which runs of a runner are under way.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import Generic, Literal, TypeAlias, TypeVar
from weakref import WeakSet

from toolkit._concurrency.cancellation import Cancellation
from toolkit._messages import UserMessage
from toolkit.errors import BusyError, RunError

QueueMode: TypeAlias = Literal["one", "all"]
UserInput: TypeAlias = str | UserMessage


class MessageQueue:
    """Two queues of one run: `steering` is read between its steps, `follow_ups` once it has an answer.

    Args:
        queue: How many messages are read at a time: "one" or "all".

    Raises:
        ValueError: There is no such mode.
    """

    def __init__(self, queue: QueueMode = "one") -> None:
        if queue not in ("one", "all"):
            raise ValueError(f"queue={queue!r} is not one of 'one', 'all'.")
        self._at_a_time = 1 if queue == "one" else None
        self._lock = threading.RLock()  # a signal handler may come in between
        self._steering: deque[UserMessage] = deque()
        self._follow_ups: deque[UserMessage] = deque()
        self._is_closed = False

    @property
    def has_steering(self) -> bool:
        """Whether there is something to read before the run's next step."""
        return bool(self._steering)

    def steer(self, message: UserInput) -> None:
        """Say something that the model reads before its next answer.

        Raises:
            RunError: The run has ended.
        """
        self._append(self._steering, message)

    def follow_up(self, message: UserInput) -> None:
        """Say something that the model reads once it has answered.

        Raises:
            RunError: The run has ended.
        """
        self._append(self._follow_ups, message)

    def clear(self, *, steering: bool = True, follow_ups: bool = True) -> None:
        """Take back what was not read yet."""
        with self._lock:
            if steering:
                self._steering.clear()
            if follow_ups:
                self._follow_ups.clear()

    def take_steering(self) -> list[UserMessage]:
        """Take what the model shall read now, before its next answer."""
        with self._lock:
            return self._take(self._steering)

    def take_or_close(self) -> list[UserMessage]:
        """Take what the model shall read after its answer; where that is nothing, the inbox is closed."""
        with self._lock:
            said = self._take(self._steering) or self._take(self._follow_ups)
            self._is_closed = not said
            return said

    def close(self) -> tuple[UserMessage, ...]:
        """Take no more, and give what was never read."""
        with self._lock:
            self._is_closed = True
            return (*self._steering, *self._follow_ups)

    def _append(self, queue: deque[UserMessage], said: UserInput) -> None:
        if not isinstance(said, (str, UserMessage)):
            raise TypeError(f"What the user says is text or a UserMessage, not {said!r}.")
        with self._lock:
            if self._is_closed:
                raise RunError(
                    "This run has ended: begin another, with messages=result.messages to go on from it; "
                    "or, where it is paused, resume(result.state, decisions)."
                )
            queue.append(UserMessage(said) if isinstance(said, str) else said)

    def _take(self, queue: deque[UserMessage]) -> list[UserMessage]:
        count = len(queue) if self._at_a_time is None else min(len(queue), self._at_a_time)
        return [queue.popleft() for _ in range(count)]


class Controls(ABC):
    """Steers a run, and calls it off."""

    @property
    @abstractmethod
    def _queue(self) -> MessageQueue:
        """What the user says to the run."""

    @property
    @abstractmethod
    def _cancellation(self) -> Cancellation:
        """What calls the run off."""

    def steer(self, message: UserInput) -> None:
        """Say something that the model reads before its next answer; batches of calls that have not begun are skipped.

        Raises:
            RunError: The run has ended.
        """
        self._queue.steer(message)

    def follow_up(self, message: UserInput) -> None:
        """Say something that the model reads once it has answered: the run then goes on.

        Raises:
            RunError: The run has ended.
        """
        self._queue.follow_up(message)

    def clear(self, *, steering: bool = True, follow_ups: bool = True) -> None:
        """Take back what the model has not read yet."""
        self._queue.clear(steering=steering, follow_ups=follow_ups)

    def cancel(self) -> bool:
        """Call the run off: its tools see it, every call gets a result, and the run ends with what it has.

        A run that was begun by `start`, or runs in an event loop, waits for no model, tool or gate any more. One on its
        caller's own thread ends with the step that is being done there, and each with a hook or a checkpoint at work.

        Returns:
            Whether this was the call that counted.
        """
        return self._cancellation.cancel()


R = TypeVar("R")


class ActiveRuns(Generic[R]):
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

    def add(self, run: R) -> None:
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

    def discard(self, run: R) -> None:
        """Count a run out."""
        with self._lock:
            self._runs.discard(run)

    def list(self) -> list[R]:
        """List the runs that are under way."""
        with self._lock:
            return list(self._runs)

    def get_only(self) -> R:
        """Find the run that is under way.

        Raises:
            BusyError: There is none, or more than one.
        """
        runs = self.list()
        if not runs:
            raise BusyError("No run is under way. Begin one with start() or stream(), or in another thread.")
        if len(runs) > 1:
            raise BusyError(
                f"{len(runs)} runs are under way: say which one is meant, by what start() or stream() gave."
            )
        return runs[0]
