"""A guard at work: it runs one command, and leaves nothing of it."""

from __future__ import annotations

import marshal
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from .families import Adopted, Group, end, ended

# Relative, as this is run without the package, too.

# linux/prctl.h
SET_DEATH_SIGNAL = 1
SET_SUBREAPER = 36
# What the process ends with: nothing is left, or something would not end.
CLEAN, LEFT = 0, 1


def serve() -> int:
    """Do what the control socket, which is the standard input, orders; give what to exit with."""
    control = os.dup(0)
    with open(0, "rb", closefd=False) as orders:
        try:
            # What to execute, its environment, where, within which limits, and for whom.
            command, environment, directory, limits, parent = marshal.load(orders)  # noqa: S302  this very Python wrote it
        except EOFError:  # it was called off
            return CLEAN
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.fchdir(directory)
    os.close(directory)
    _die_with(parent)

    def execute() -> int:
        os.setsid()
        return _executed(command, environment, limits, control)

    def report() -> int:
        return watched(execute, control, adopts=_adopts(), tell=lambda status: _tell(control, status))

    return watched(report, control, adopts=True) if _adopts() else report()


def watched(
    begin: Callable[[], int],
    control: int,
    *,
    adopts: bool,
    tell: Callable[[int], object] = lambda _: None,
) -> int:
    """Carry something out in a child, until it ends or is called off; then end all that came of it.

    Args:
        begin: What is carried out; its value is what the child exits with.
        control: Nothing more comes from it when the work is called off.
        adopts: Whether descendants are adopted.
        tell: Gets how the child ended, as a wait status, when it did so by itself.
    """
    woken = _woken()
    try:
        child = _forked(begin)
    except OSError as error:  # there are too many processes
        _tell(control, error.strerror)
        return CLEAN
    status = _end_of(child, woken, control)
    if status is not None:
        tell(status)
    return CLEAN if end(Adopted() if adopts else Group(child)) else LEFT


def _woken() -> int:
    """Have a child's end and SIGTERM told through a pipe, and give the end of it to read from."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return woken


def _adopts() -> bool:
    """Have orphans among the descendants become children of this process; tell whether that can be."""
    return os.path.exists(f"/proc/{os.getpid()}/stat") and _control_process(SET_SUBREAPER, 1)  # noqa: PTH110


def _die_with(parent: int) -> None:
    """Have this process called off when its parent dies, or has died already."""
    if sys.platform == "linux":
        _control_process(SET_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(CLEAN)


def _control_process(option: int, value: int) -> bool:
    import ctypes  # other systems have nothing to call

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return prctl is not None and prctl(option, value, 0, 0, 0) == 0


def _forked(begin: Callable[[], int]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        signal.set_wakeup_fd(-1)
        _die_with(parent)
        os._exit(begin())
    finally:
        os._exit(LEFT)


def _end_of(child: int, woken: int, control: int) -> int | None:
    """Wait for a child's end, and give its wait status; None where it is called off."""
    while True:
        ready, _, _ = select.select([woken, control], [], [])
        if control in ready or signal.SIGTERM in os.read(woken, 4096):
            return None
        statuses = dict(ended())
        if child in statuses:
            return statuses[child]


def _executed(
    command: list[bytes], environment: dict[bytes, bytes], limits: list[tuple[int, int]], control: int
) -> int:
    """Become the command; where that cannot be, tell why."""
    try:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(os.umask(0) | 0o022)
        for which, most in limits:
            _limit(which, most)
        os.execvpe(command[0], command, environment)  # noqa: S606  what it is for
    except OSError as error:
        _tell(control, error.strerror)
    return LEFT


def _limit(which: int, most: int) -> None:
    import resource  # few commands have limits

    hard = resource.getrlimit(which)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))


def _tell(control: int, what: int | str | None) -> None:
    """Report a wait status, or why there is none; of two reports, the first is heard."""
    with suppress(OSError):
        os.write(control, marshal.dumps(what))
