"""The program of the guard process, which runs one command and leaves no process of it behind.

    library -> guard -> command, in a session of its own

The guard adopts the orphans among its descendants (a subreaper: prctl(2), Linux 3.4), so that all processes that a
command starts stay among its descendants: in other sessions, daemonised, under other names. When the command has ended,
or is cancelled, the guard sends its descendants SIGTERM, kills those that are left after 0.2 s, and abandons them after
2 s more. It is cancelled by the end of its control socket, by SIGTERM, and by the death of its parent.

When the command kills or stops the guard, the library ends the processes that have the command's mark in their
environment. Some processes are not ended: those of another user, those that cleared their environment and then killed
the guard, and those that fork faster than they are killed.

If the system has no subreapers, or no /proc, the guard ends the command's process group.

This file does not import the package, and few modules, so that the guard starts fast.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

# linux/prctl.h
SET_DEATH_SIGNAL = 1
SET_SUBREAPER = 36
# Exit codes: no process is left, or one would not end.
CLEAN = 0
LEFT = 1
GRACE = 0.2  # seconds between SIGTERM and SIGKILL
PERSISTENCE = 2.0  # seconds of killing
PAUSE = 0.002  # seconds between two checks
SETTLING = 0.1  # seconds without a marked process after which none is assumed to be left


def serve() -> int:
    """Run the command that comes through the control socket (standard input), and return the exit code."""
    control = os.dup(0)
    with open(0, "rb", closefd=False) as orders:
        try:
            # Arguments, environment, working directory, resource limits, and the library's process id.
            command, environment, directory, limits, parent = marshal.load(orders)  # noqa: S302  this very Python wrote it
        except EOFError:  # it was cancelled
            return CLEAN

    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.fchdir(directory)
    os.close(directory)
    _die_with(parent)

    def run_command() -> int:
        os.setsid()
        return _exec_command(command, environment, limits, control)

    return watch(run_command, control, adopts=_adopt_orphans())


def watch(run: Callable[[], int], control: int, *, adopts: bool) -> int:
    """Run a function in a child until it ends or is cancelled, then end all descendants.

    The function returns the child's exit code. The child is cancelled when the control socket ends. The wait status of
    a child that ended by itself is sent to the socket.
    """
    wakeups = _listen_for_signals()
    try:
        child = _fork(run)
    except OSError as error:  # there are too many processes
        _report_status(control, error.strerror)
        return CLEAN
    status = _wait_for_child(child, wakeups, control)
    if status is not None:
        _report_status(control, status)
    return CLEAN if end(Descendants(child) if adopts else Group(child)) else LEFT


def _listen_for_signals() -> int:
    """Return a pipe that becomes readable when a child ends or SIGTERM comes."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return reader


def _adopt_orphans() -> bool:
    """Make this process the parent of orphans among its descendants. Return whether the system can."""
    return os.path.exists(f"/proc/{os.getpid()}/stat") and _control_process(SET_SUBREAPER, 1)  # noqa: PTH110


def _die_with(parent: int) -> None:
    """Ask the system for SIGTERM when the parent dies. Exit if it has died already."""
    if sys.platform == "linux":
        _control_process(SET_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(CLEAN)


def _control_process(option: int, value: int) -> bool:
    import ctypes  # only Linux needs it

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return prctl is not None and prctl(option, value, 0, 0, 0) == 0


def _fork(run: Callable[[], int]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        signal.set_wakeup_fd(-1)
        _die_with(parent)
        os._exit(run())
    finally:
        os._exit(LEFT)


def _wait_for_child(child: int, wakeups: int, control: int) -> int | None:
    """Wait for a child's end, and return its wait status. Return None if it is cancelled."""
    while True:
        ready, _, _ = select.select([wakeups, control], [], [])
        if control in ready or signal.SIGTERM in os.read(wakeups, 4096):
            return None
        statuses = dict(reap())
        if child in statuses:
            return statuses[child]


def _exec_command(
    command: list[bytes], environment: dict[bytes, bytes], limits: list[tuple[int, int]], control: int
) -> int:
    """Replace this process by the command. Report the reason if that fails."""
    try:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(os.umask(0) | 0o022)
        for resource, maximum in limits:
            _set_limit(resource, maximum)
        os.execvpe(command[0], command, environment)  # noqa: S606  the guard's purpose
    except OSError as error:
        _report_status(control, error.strerror)
    return LEFT


def _set_limit(number: int, maximum: int) -> None:
    import resource  # few commands have limits

    _, hard = resource.getrlimit(number)
    maximum = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
    resource.setrlimit(number, (maximum, maximum))


def _report_status(control: int, status: int | str | None) -> None:
    """Send the library a wait status, or the reason why there is none."""
    with suppress(OSError):
        os.write(control, marshal.dumps(status))


class Descendants:
    """All descendants of this process, which adopts their orphans. `leader` is the first of them."""

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def is_gone(self) -> bool:
        """Reap the children that have ended, and return whether no descendant is left."""
        return not _has_children()

    def send(self, *numbers: int) -> None:
        """Send each of them a signal. First signal the leader's group, which may start processes all the time."""
        group = None
        with suppress(ChildProcessError):  # nothing is left of the group, and its number may be that of another
            os.waitid(os.P_PGID, self._leader, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            group = self._leader if _send_signals(-self._leader, numbers) else None
        for process in _list_descendants(os.getpid()):
            if group is None or _find_group(process) != group:
                _send_signals(process, numbers)


class Group:
    """The process group of one child, for systems without subreapers."""

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def is_gone(self) -> bool:
        """Return whether no process is left."""
        return not _has_children() and not _send_signals(-self._leader, [0])

    def send(self, *numbers: int) -> None:
        """Send each of them a signal, or the child alone as long as it has no group."""
        _ = _send_signals(-self._leader, numbers) or _send_signals(self._leader, numbers)


class Marked:
    """All processes that have a mark in their environment, whatever their parents are."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark

    def is_gone(self) -> bool:
        """Return whether no process is found for `SETTLING` seconds: during execve(2), a process has no environment."""
        deadline = time.monotonic() + SETTLING
        while not self._list():
            if time.monotonic() > deadline:
                return True
            time.sleep(PAUSE)
        return False

    def send(self, *numbers: int) -> None:
        """Send each of them a signal."""
        for process in self._list():
            _send_signals(process, numbers)

    def _list(self) -> list[int]:
        return [process for process in _list_processes() if self._mark in _read_file(f"/proc/{process}/environ")]


def end(processes: Descendants | Group | Marked) -> bool:
    """Send SIGTERM, SIGKILL after `GRACE`, and stop after `PERSISTENCE`. Return whether no process is left."""
    if processes.is_gone():
        return True
    processes.send(signal.SIGTERM, signal.SIGCONT)
    start = time.monotonic()
    while not processes.is_gone() and time.monotonic() < start + GRACE:
        time.sleep(PAUSE)
    while not processes.is_gone() and time.monotonic() < start + GRACE + PERSISTENCE:
        processes.send(signal.SIGKILL)
        time.sleep(PAUSE)
    return processes.is_gone()


def reap() -> list[tuple[int, int]]:
    """Reap the children that have ended, and return their process ids and wait statuses."""
    statuses: list[tuple[int, int]] = []
    with suppress(ChildProcessError):
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            statuses.append(child)
    return statuses


def _list_descendants(ancestor: int) -> list[int]:
    """List the running descendants of a process that /proc has now."""
    children: dict[int, list[int]] = {}
    for process, parent in _list_parents():
        children.setdefault(parent, []).append(process)
    family = [ancestor]
    for process in family:
        family += children.pop(process, ())
    return family[1:]


def _has_children() -> bool:
    reap()
    with suppress(ChildProcessError):
        return os.waitpid(-1, os.WNOHANG) is not None
    return False


def _list_parents() -> list[tuple[int, int]]:
    """List the running processes, each with its parent."""
    # State and parent follow the name, which is in parentheses and can have any characters: proc_pid_stat(5).
    stats = (
        (process, _read_file(f"/proc/{process}/stat").rpartition(b")")[2].split()) for process in _list_processes()
    )
    return [(process, int(fields[1])) for process, fields in stats if fields and fields[0] not in b"ZX"]


def _list_processes() -> list[int]:
    with suppress(OSError), os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdecimal()]
    return []


def _read_file(path: str) -> bytes:
    """Read a file of /proc. Return b"" if the process is gone, or is another user's."""
    with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123  pathlib takes long to load
        return file.read()
    return b""


def _find_group(process: int) -> int | None:
    with suppress(OSError):
        return os.getpgid(process)
    return None


def _send_signals(process: int, numbers: Iterable[int]) -> bool:
    """Send signals. Return whether a process got them."""
    with suppress(ProcessLookupError, PermissionError):
        for number in numbers:
            os.kill(process, number)
        return True
    return False
