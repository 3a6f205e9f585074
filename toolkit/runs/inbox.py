"""What the user says while a run is under way, from any thread or task."""

from __future__ import annotations

import threading
from collections import deque
from typing import Literal, TypeAlias

from toolkit._messages import UserMessage
from toolkit.errors import RunError

Queue: TypeAlias = Literal["one", "all"]
Said: TypeAlias = str | UserMessage


class Inbox:
    """Two queues of one run: `steering` is read between its steps, `follow_ups` once it has an answer.

    Args:
        queue: How many messages are read at a time: "one" or "all".

    Raises:
        ValueError: There is no such mode.
    """

    def __init__(self, queue: Queue = "one") -> None:
        if queue not in ("one", "all"):
            raise ValueError(f"queue={queue!r} is not one of 'one', 'all'.")
        self._at_a_time = 1 if queue == "one" else None
        self._lock = threading.RLock()  # a signal handler may come in between
        self._steering: deque[UserMessage] = deque()
        self._follow_ups: deque[UserMessage] = deque()
        self._is_closed = False

    @property
    def is_steered(self) -> bool:
        """Whether there is something to read before the run's next step."""
        return bool(self._steering)

    def steer(self, said: Said) -> None:
        """Say something that the model reads before its next answer.

        Raises:
            RunError: The run has ended.
        """
        self._put(self._steering, said)

    def follow_up(self, said: Said) -> None:
        """Say something that the model reads once it has answered.

        Raises:
            RunError: The run has ended.
        """
        self._put(self._follow_ups, said)

    def clear(self, *, steering: bool = True, follow_ups: bool = True) -> None:
        """Take back what was not read yet."""
        with self._lock:
            if steering:
                self._steering.clear()
            if follow_ups:
                self._follow_ups.clear()

    def read(self) -> list[UserMessage]:
        """Take what the model shall read now, before its next answer."""
        with self._lock:
            return self._taken(self._steering)

    def last(self) -> list[UserMessage]:
        """Take what the model shall read after its answer; where that is nothing, the inbox is closed."""
        with self._lock:
            said = self._taken(self._steering) or self._taken(self._follow_ups)
            self._is_closed = not said
            return said

    def close(self) -> tuple[UserMessage, ...]:
        """Take no more, and give what was never read."""
        with self._lock:
            self._is_closed = True
            return (*self._steering, *self._follow_ups)

    def _put(self, queue: deque[UserMessage], said: Said) -> None:
        if not isinstance(said, (str, UserMessage)):
            raise TypeError(f"What the user says is text or a UserMessage, not {said!r}.")
        with self._lock:
            if self._is_closed:
                raise RunError(
                    "This run has ended: begin another, with messages=result.messages to go on from it; "
                    "or, where it is paused, resume(result.state, decisions)."
                )
            queue.append(UserMessage(said) if isinstance(said, str) else said)

    def _taken(self, queue: deque[UserMessage]) -> list[UserMessage]:
        count = len(queue) if self._at_a_time is None else min(len(queue), self._at_a_time)
        return [queue.popleft() for _ in range(count)]
