"""Runs one command in a guard process, and captures its output.

The guard ends every process of the command; if the command kills or stops the guard, this module ends them. Output is
captured in memory that does not grow: the beginning and the end of each stream.
"""

from __future__ import annotations

import marshal
import os
import re
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, TypeAlias, cast

from toolkit._concurrency.cancellation import CANCELLED, Cancellation, on_cancel
from toolkit._concurrency.threads import starting_process
from toolkit._guards.options import MAX_SECONDS
from toolkit._guards.paths import Root
from toolkit.builtin.shell.guard import CLEAN, GRACE, PERSISTENCE, Marked, end
from toolkit.builtin.shell.sandbox import CommandLimits, MakePrefix, make_environment
from toolkit.errors import Failed, InvalidArguments

Sink: TypeAlias = Callable[[bytes], object]
# Reasons why a command was ended, besides those of a cancellation.
LATE: Final = "late"
GUARD_LOST: Final = "lost"
GUARD_COMMAND = "import os, sys; sys.path.append({directory!r}); import guard; os._exit(guard.serve())"
# A variable in the environment of every process of a command; no other command has its value.
MARK_VARIABLE = "TOOLKIT_COMMAND"
# Variables that a Python may need to find its own libraries.
LIBRARY_VARIABLES = ("LD_LIBRARY_PATH",)
# Seconds that a guard may take to end the processes of a command.
GUARD_TIMEOUT = GRACE + PERSISTENCE + 1
# Seconds between two checks that a guard still runs.
POLL_INTERVAL = 1.0
CHUNK = 65_536  # bytes; as much as a pipe holds
MAX_PIPE = 1_048_576  # bytes that a pipe holds at most, unless root has changed it: pipe(7)
# Control sequences of terminals (ECMA-48), and control characters other than tabs and line ends.
_CONTROLS = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]*[0-~])"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
# What a line had before it was written again from its beginning on, as by a progress bar; short text is kept.
_OVERWRITTEN = re.compile(r"^[^\n]{200,}\r(?=[^\r\n])", re.MULTILINE)


@dataclass(frozen=True)
class CommandOutcome:
    """The end of a command.

    Attributes:
        status: Its wait status; None if it did not end by itself.
        reason: Why it was ended: `late`, or the reason of the cancellation; `lost` if it killed the guard, so that its
            end is unknown. Empty if it ended by itself.
        stdout: Captured stdout.
        stderr: Captured stderr.
    """

    status: int | None
    reason: str
    stdout: Capture
    stderr: Capture

    @property
    def exit_code(self) -> int | None:
        """Its exit code, -1 if a signal ended it, or None if it did not end by itself."""
        if self.status is None:
            return None
        return max(-1, os.waitstatus_to_exitcode(self.status))

    @property
    def failure(self) -> str:
        """A description of its failure, or "" if it succeeded."""
        code = 0 if self.status is None else os.waitstatus_to_exitcode(self.status)
        if code < 0:
            return f"exit: signal: {(signal.strsignal(-code) or str(-code)).lower()}"
        return f"exit: exit status {code}" if code else ""


@dataclass(frozen=True, kw_only=True)
class CommandRunner:
    """Runs commands beneath a directory.

    Attributes:
        root: The directory, held open.
        interpreter: Arguments before the command.
        max_output: Bytes that are stored of the beginning, and of the end, of each stream.
        variables: Variables that are added to the environment.
        limits: Resource limits of a command.
        make_prefix: Makes the arguments of a sandbox; None if there is none.
    """

    root: Root
    interpreter: Sequence[str]
    max_output: int
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits: CommandLimits = field(default_factory=CommandLimits)
    make_prefix: MakePrefix | None = None

    def run(self, command: str, seconds: float, cancellation: Cancellation) -> CommandOutcome:
        """Run a command for at most `seconds`, then end all of its processes, also those in the background.

        If a process resists, this takes up to 10 seconds longer.

        Raises:
            InvalidArguments: The command has a NUL.
            Failed: The command could not be run.
            KeyboardInterrupt: Ctrl-C was pressed. All processes are ended first.
        """
        if "\0" in command:
            raise InvalidArguments("command: it contains a NUL")
        mark = secrets.token_hex(8)
        try:
            with self.root.open_directory(".") as directory, _start_guard(directory, mark) as guard:
                # A sandbox finds the directory by its current path.
                prefix = self.make_prefix(self.root.locate()) if self.make_prefix else []
                arguments = [*map(os.fsencode, (*prefix, *self.interpreter)), command.encode()]
                variables = {**make_environment(self.variables), MARK_VARIABLE: mark}
                encoded = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
                order = marshal.dumps((arguments, encoded, directory, self.limits.to_rlimits(), os.getpid()))
                return guard.run(order, self.max_output, seconds, cancellation)
        except OSError as error:
            raise Failed(f"Failed to execute: {error.strerror or error}") from error


@contextmanager
def _start_guard(directory: int, mark: str) -> Iterator[_GuardProcess]:
    """Start a guard process for a `with` block, which ends it and all processes of its command."""
    control, guard_end = socket.socketpair()
    with control:
        with starting_process, guard_end:
            process = subprocess.Popen(  # noqa: S603  this very Python
                [sys.executable, "-I", "-S", "-c", GUARD_COMMAND.format(directory=str(Path(__file__).parent))],
                stdin=guard_end.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={
                    MARK_VARIABLE: mark,
                    **{name: os.environ[name] for name in LIBRARY_VARIABLES if name in os.environ},
                },
                pass_fds=(directory,),
                start_new_session=True,  # Ctrl-C does not reach it
            )
        guard = _GuardProcess(process, control)
        try:
            yield guard
        finally:
            guard.close(f"{MARK_VARIABLE}={mark}".encode())


class _GuardProcess:
    """A guard process and its report."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._reason = ""
        self._deadline = 0.0
        self._report = bytearray()
        control.settimeout(GUARD_TIMEOUT)

    def run(self, order: bytes, max_output: int, seconds: float, cancellation: Cancellation) -> CommandOutcome:
        """Run a command, and wait for its end, which comes soon after a timeout or cancellation."""
        stdout, stderr = Capture(max_output), Capture(max_output)
        sinks = self._make_sinks(stdout, stderr)
        self._deadline = time.monotonic() + min(
            seconds, MAX_SECONDS if cancellation.remaining is None else cancellation.remaining
        )

        with (
            on_cancel(cancellation, lambda: self._request_end(cancellation.reason)),
            selectors.DefaultSelector() as selector,
        ):
            for stream, sink in sinks.items():
                os.set_blocking(stream, False)
                selector.register(stream, selectors.EVENT_READ, sink)
            with suppress(BrokenPipeError):  # it was cancelled already
                self._control.sendall(order)
            self._listen(selector)
            if not self._is_over(selector):
                self._request_end(cancellation.reason or LATE)
                self._listen(selector)

        for stream, sink in sinks.items():
            _drain(stream, sink)
        return self._make_outcome(stdout, stderr)

    def close(self, mark: bytes) -> None:
        """Cancel the guard, wait for its end, and end the processes that it left."""
        self._request_end(CANCELLED)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, self._deadline - time.monotonic()))
        if self._process.returncode != CLEAN:
            end(Marked(mark))
        self._process.kill()
        self._process.wait()

    def _make_sinks(self, stdout: Capture, stderr: Capture) -> dict[int, Sink]:
        outputs = cast("IO[bytes]", self._process.stdout), cast("IO[bytes]", self._process.stderr)
        return {
            self._control.fileno(): self._receive_report,
            outputs[0].fileno(): stdout.add,
            outputs[1].fileno(): stderr.add,
        }

    def _listen(self, selector: selectors.BaseSelector) -> None:
        """Read outputs and report until the guard is done or the time is up."""
        while not self._is_over(selector) and time.monotonic() < self._deadline:
            for key, _ in selector.select(min(POLL_INTERVAL, self._deadline - time.monotonic())):
                if not _read_available(key.fd, key.data):
                    selector.unregister(key.fd)

    def _is_over(self, selector: selectors.BaseSelector) -> bool:
        """Return whether the guard has closed the control socket, or is gone."""
        return self._control.fileno() not in selector.get_map() or self._process.poll() is not None

    def _receive_report(self, report: bytes) -> None:
        """Store the report of the command's end. The guard has time of its own to end the other processes."""
        self._report += report
        self._deadline = time.monotonic() + GUARD_TIMEOUT

    def _request_end(self, reason: str) -> None:
        if not (self._reason or self._report):
            self._reason = reason
            self._deadline = time.monotonic() + GUARD_TIMEOUT
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def _make_outcome(self, stdout: Capture, stderr: Capture) -> CommandOutcome:
        if not self._report:
            return CommandOutcome(None, self._reason or GUARD_LOST, stdout, stderr)
        status = marshal.loads(self._report)  # noqa: S302  this very Python wrote it
        if isinstance(status, int):
            return CommandOutcome(status, "", stdout, stderr)
        raise Failed(f"Failed to execute: {status}")


def _read_available(stream: int, sink: Sink) -> bool:
    """Read the available bytes, and return whether more may come."""
    try:
        data = os.read(stream, CHUNK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    sink(data)
    return bool(data)


def _drain(stream: int, sink: Sink) -> None:
    """Read the rest of a pipe, at most as much as it can hold: another process may still write to it."""
    with suppress(OSError):
        for _ in range(MAX_PIPE // CHUNK):
            sink(os.read(stream, CHUNK))


class Capture:
    """The beginning and the end of a stream, `max_bytes` of each."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self.size: int = 0  # bytes

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        self.size += len(data)
        room = self._max_bytes - len(self._head)
        self._head += data[:room]
        if len(data) > room:
            self._tail = (self._tail + data[room:])[-self._max_bytes :]

    def text(self, max_bytes: int) -> str:
        """Return the text if it has at most `max_bytes`, else its beginning and end with a note between them.

        Bytes that are not UTF-8 are replaced. Control sequences of terminals, and long overwritten text, are removed.
        """
        if self.size <= max_bytes:
            return _decode(self._head)
        note = f"\n... ({self.size} bytes, the middle left out)\n"
        half = max(0, max_bytes - len(note)) // 2
        stored = self._head + self._tail
        return f"{_decode(stored[:half])}{note}{_decode(stored[len(stored) - half :])}"


def _decode(data: bytearray) -> str:
    return _OVERWRITTEN.sub("... (overwritten text left out)\n", _CONTROLS.sub("", data.decode(errors="replace")))
