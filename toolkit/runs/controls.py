"""What can be done to a run while it is under way, from any thread or task."""

from __future__ import annotations

from abc import ABC, abstractmethod

from toolkit._concurrency.cancellation import Cancellation
from toolkit.runs.inbox import Inbox, Said


class Controls(ABC):
    """Steers a run, and calls it off."""

    @property
    @abstractmethod
    def _inbox(self) -> Inbox:
        """What the user says to the run."""

    @property
    @abstractmethod
    def _cancellation(self) -> Cancellation:
        """What calls the run off."""

    def steer(self, said: Said) -> None:
        """Say something that the model reads before its next answer; batches of calls that have not begun are skipped.

        Raises:
            RunError: The run has ended.
        """
        self._inbox.steer(said)

    def follow_up(self, said: Said) -> None:
        """Say something that the model reads once it has answered: the run then goes on.

        Raises:
            RunError: The run has ended.
        """
        self._inbox.follow_up(said)

    def clear(self, *, steering: bool = True, follow_ups: bool = True) -> None:
        """Take back what the model has not read yet."""
        self._inbox.clear(steering=steering, follow_ups=follow_ups)

    def cancel(self) -> bool:
        """Call the run off: its tools see it, every call gets a result, and the run ends with what it has.

        A run that was begun by `start`, or runs in an event loop, waits for no model, tool or gate any more. One on its
        caller's own thread ends with the step that is being done there, and each with a hook or a checkpoint at work.

        Returns:
            Whether this was the call that counted.
        """
        return self._cancellation.cancel()
