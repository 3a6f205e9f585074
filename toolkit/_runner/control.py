"""Messages to running runs, and the list of active runs, for any thread or task."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, Literal, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from toolkit._messages import UserMessage
from toolkit._runner.prompt import UserInput, make_user_message
from toolkit.errors import BusyError, RunError

QueueMode: TypeAlias = Literal["one", "all"]


class MessageQueue:
    """Two queues of one run: `steering` is read between its steps, `follow_ups` once it has an answer.

    One message is read at a time, or all.
    """

    def __init__(self, mode: QueueMode = "one") -> None:
        self._at_a_time = 1 if mode == "one" else None
        self._lock = threading.RLock()  # reentrant: a signal handler may interrupt it
        self._steering: deque[UserMessage] = deque()
        self._follow_ups: deque[UserMessage] = deque()
        self._is_closed = False

    @property
    def has_steering(self) -> bool:
        """True if there is a message to read before the run's next step."""
        return bool(self._steering)

    def steer(self, message: UserInput) -> None:
        """Add a message that the model reads before its next response.

        Raises:
            RunError: The run has ended.
        """
        self._append(self._steering, message)

    def follow_up(self, message: UserInput) -> None:
        """Add a message that the model reads after its answer.

        Raises:
            RunError: The run has ended.
        """
        self._append(self._follow_ups, message)

    def clear(self, *, steering: bool = True, follow_ups: bool = True) -> None:
        """Remove unread messages."""
        with self._lock:
            if steering:
                self._steering.clear()
            if follow_ups:
                self._follow_ups.clear()

    def take_steering(self) -> list[UserMessage]:
        """Return the messages that the model reads before its next response."""
        with self._lock:
            return self._take(self._steering)

    def take_or_close(self) -> list[UserMessage]:
        """Return the messages that the model reads after its answer. Close the queue if there is none."""
        with self._lock:
            messages = self._take(self._steering) or self._take(self._follow_ups)
            self._is_closed = not messages
            return messages

    def close(self) -> tuple[UserMessage, ...]:
        """Close the queue, and return the unread messages."""
        with self._lock:
            self._is_closed = True
            return (*self._steering, *self._follow_ups)

    def _append(self, queue: deque[UserMessage], message: UserInput) -> None:
        user_message = make_user_message(message)
        with self._lock:
            if self._is_closed:
                raise RunError(
                    "This run has ended. Start another with messages=result.messages, "
                    "or, if it is paused, call resume(result.state, decisions)."
                )
            queue.append(user_message)

    def _take(self, queue: deque[UserMessage]) -> list[UserMessage]:
        count = len(queue) if self._at_a_time is None else min(len(queue), self._at_a_time)
        return [queue.popleft() for _ in range(count)]


R = TypeVar("R")


class ActiveRuns(Generic[R]):
    """The running runs of a runner: at most `max_runs`, or any number if that is None."""

    def __init__(self, max_runs: int | None = None) -> None:
        self._max_runs = max_runs
        self._lock = threading.RLock()  # reentrant: a signal handler may interrupt it
        self._runs: WeakKeyDictionary[R, None] = WeakKeyDictionary()  # an abandoned stream is dropped

    def add(self, run: R) -> None:
        """Add a run.

        Raises:
            BusyError: There are `max_runs` already.
        """
        with self._lock:
            if self._max_runs is not None and len(self._runs) >= self._max_runs:
                raise BusyError(
                    f"This runner is busy: it has {len(self._runs)} of at most {self._max_runs} active runs. "
                    "Use steer() or follow_up() to add messages to a run, or Runner(..., max_runs=None) for more runs."
                )
            self._runs[run] = None

    def discard(self, run: R) -> None:
        """Remove a run."""
        with self._lock:
            self._runs.pop(run, None)

    def get_all(self) -> list[R]:
        """Return all active runs."""
        with self._lock:
            # `keyrefs` copies in one step; on free-threaded Python another thread may drop a run during an iteration.
            return [run for reference in self._runs.keyrefs() if (run := reference()) is not None]

    def get_only(self) -> R:
        """Return the one active run.

        Raises:
            BusyError: No run is active, or several are.
        """
        runs = self.get_all()
        if not runs:
            raise BusyError("No run is active. Start one with start() or stream(), or in another thread.")
        if len(runs) > 1:
            raise BusyError(f"{len(runs)} runs are active: use the object that start() or stream() returned.")
        return runs[0]
