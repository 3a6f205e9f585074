"""What has to rest while the process forks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Protocol
from weakref import WeakSet

# Seconds that a fork waits for its members, and for one of them at a time.
LONGEST = 3.0
PAUSE = 0.02


class Resting(Protocol):
    """What cannot be carried along into another process."""

    path: str

    def rest(self, seconds: float) -> bool:
        """Let go of what must not be carried along, and let nobody take it up; False where it is busy so long."""
        ...

    def resume(self) -> None:
        """Let it be taken up again."""
        ...


class _Fork(threading.local):
    """What a thread holds while it forks."""

    def __init__(self) -> None:
        self.resting: list[Resting] = []
        self.has_lock = False


class Forks:
    """Has its members rest before each fork, and resume after it, in both processes.

    A fork waits for them, but for no more than three seconds. What does not rest by then is lost to the child.

    Attributes:
        making: Held for the moment in which a file is made; a child has its own.
        lost: What did not rest when the process was made. It is never freed: not even to close it is safe here.
    """

    def __init__(self) -> None:
        self.making = threading.Lock()
        self.lost: list[Resting] = []
        self._lock = threading.RLock()
        self._members: WeakSet[Resting] = WeakSet()
        self._fork = _Fork()
        if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
            os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._renew)

    def add(self, member: Resting) -> None:
        """Take a member, for as long as it lives."""
        with self._lock:
            self._members.add(member)

    def _before(self) -> None:
        until = time.monotonic() + LONGEST
        self._fork.has_lock = self._lock.acquire(timeout=LONGEST)
        members = list(self._members)
        while (busy := self._busy(members)) and time.monotonic() < until:
            self._resume()  # whoever keeps one busy may wait for another
            members.sort(key=lambda member: member not in busy)

    def _busy(self, members: Sequence[Resting]) -> list[Resting]:
        """Have members rest, each as soon as it can; give those that do not."""
        return [member for member in members if not self._rests(member)]

    def _rests(self, member: Resting) -> bool:
        rests = member.rest(PAUSE)
        if rests:
            self._fork.resting.append(member)
        return rests

    def _resume(self) -> None:
        while self._fork.resting:
            self._fork.resting.pop().resume()

    def _after(self) -> None:
        self._resume()
        if self._fork.has_lock:
            self._lock.release()

    def _renew(self) -> None:
        resting = {id(member) for member in self._fork.resting}
        self.lost += [member for member in self._members if id(member) not in resting]
        self._resume()
        self._lock, self.making = threading.RLock(), threading.Lock()  # threads that are not here may hold the old ones


# The one list of the process: whoever forks knows nothing of who keeps a file open.
forks = Forks()
