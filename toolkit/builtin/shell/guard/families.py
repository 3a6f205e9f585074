"""What came of a process, and ending it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

# How long processes have to end by themselves when they are asked to, in seconds.
GRACE = 0.2
# How long they are killed before somebody gives up, in seconds.
PERSISTENCE = 2.0
# The pause before the next look, in seconds.
PAUSE = 0.002


class Adopted:
    """All that come of this process, which adopts them."""

    def is_gone(self) -> bool:
        """Tell whether none is left; those that have ended are taken off the system's list."""
        return not _has_children()

    def send(self, number: int) -> None:
        """Send each of them a signal."""
        for process in descendants(os.getpid()):
            _sent(process, number)


class Group:
    """The process group of one child, for systems on which nobody can be adopted."""

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def is_gone(self) -> bool:
        """Tell whether none is left."""
        return not _has_children() and not _sent(-self._leader, 0)

    def send(self, number: int) -> None:
        """Send each of them a signal; the child alone, as long as it has no group."""
        _ = _sent(-self._leader, number) or _sent(self._leader, number)


class Marked:
    """All processes that have a mark in their environment, whoever they come from."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark

    def is_gone(self) -> bool:
        """Tell whether none is left."""
        return not self._processes()

    def send(self, number: int) -> None:
        """Send each of them a signal."""
        for process in self._processes():
            _sent(process, number)

    def _processes(self) -> list[int]:
        return [process for process in _processes() if self._mark in _read(f"/proc/{process}/environ")]


class Heirs(Marked):
    """All that come of processes that have a mark, but the topmost: a guard, which adopts as long as it is there."""

    def _processes(self) -> list[int]:
        return descendants(*super()._processes())


def end(family: Adopted | Group | Marked) -> bool:
    """Ask processes to end, kill those left after `GRACE`, give up after `PERSISTENCE`; tell whether none is left."""
    if family.is_gone():
        return True
    family.send(signal.SIGTERM)
    family.send(signal.SIGCONT)
    asked = time.monotonic()
    while not family.is_gone() and time.monotonic() < asked + GRACE:
        time.sleep(PAUSE)
    while not family.is_gone() and time.monotonic() < asked + GRACE + PERSISTENCE:
        family.send(signal.SIGKILL)
        time.sleep(PAUSE)
    return family.is_gone()


def ended() -> list[tuple[int, int]]:
    """Take the children that have ended off the system's list, and give their wait statuses."""
    statuses: list[tuple[int, int]] = []
    with suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            statuses.append(one)
    return statuses


def descendants(*processes: int) -> list[int]:
    """List the processes that come of others and have not ended, as /proc has them now."""
    children: dict[int, list[int]] = {}
    for one, parent in _parents():
        children.setdefault(parent, []).append(one)
    found = [*processes]
    for one in found:
        found += children.pop(one, ())
    return found[len(processes) :]


def _has_children() -> bool:
    ended()
    with suppress(ChildProcessError):
        return os.waitpid(-1, os.WNOHANG) is not None
    return False


def _parents() -> list[tuple[int, int]]:
    """List the processes that have not ended, each with its parent."""
    # State and parent stand behind the name, which is in brackets and can have any signs: proc_pid_stat(5).
    told = ((process, _read(f"/proc/{process}/stat").rpartition(b")")[2].split()) for process in _processes())
    return [(process, int(fields[1])) for process, fields in told if fields and fields[0] not in b"ZX"]


def _processes() -> list[int]:
    with suppress(OSError), os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdecimal()]
    return []


def _read(path: str) -> bytes:
    """Read a file of /proc; nothing of one that is gone, or somebody else's."""
    with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123  pathlib takes long to load
        return file.read()
    return b""


def _sent(process: int, number: int) -> bool:
    """Send a signal; tell whether there was somebody to get it."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
        return True
    return False
