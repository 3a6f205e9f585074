"""What a command prints: the beginning and the end of it, in memory that does not grow.

Running one command: what it prints, how it ends, and that nothing of it is left.
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
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, TypeAlias, cast

from toolkit._concurrency.cancellation import CANCELLED, Cancellation
from toolkit._concurrency.threads import on_cancel
from toolkit._guards.options import LONGEST
from toolkit._guards.paths import Root
from toolkit.builtin.shell.guard.families import GRACE, PERSISTENCE, Heirs, Marked, end
from toolkit.builtin.shell.guard.watching import CLEAN
from toolkit.builtin.shell.sandbox import CommandLimits, Sandbox, environment
from toolkit.errors import Failed, InvalidArguments

# What turns a text's colour, moves a terminal's cursor, sets its title and so on (ECMA-48), and other control
# characters but tabs and ends of lines.
_CONTROLS = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]*[0-~])"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_Decoder = getincrementaldecoder("utf-8")


class Capture:
    """A stream, of which it keeps the beginning and the end.

    Args:
        most: Bytes of each that are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0  # bytes

    def add(self, data: bytes) -> None:
        """Take what comes next."""
        self.size += len(data)
        room = self._most - len(self._head)
        self._head += data[:room]
        if len(data) > room:
            self._tail = (self._tail + data[room:])[-self._most :]

    def text(self, most: int) -> str:
        """Give all of it, or so many bytes with a note of what was left out between the beginning and the end.

        Bytes that are no UTF-8 are replaced; a terminal's control sequences are taken out.
        """
        if self.size <= most:
            return _plain(self._head.decode(errors="replace"))
        note = f"\n... ({self.size} bytes, the middle left out)\n"
        half = max(0, most - len(note)) // 2
        head = _Decoder("replace").decode(self._head[:half])  # what is cut in the middle waits for the rest of it
        return f"{_plain(head)}{note}{_plain(_ending(self._head + self._tail, half))}"


def _ending(data: bytearray, size: int) -> str:
    end = data[len(data) - size :]
    begun = next((place for place, byte in enumerate(end[:4]) if byte & 0xC0 != 0x80), 0)  # of a character cut in two
    return end[begun:].decode(errors="replace")


def _plain(text: str) -> str:
    return _CONTROLS.sub("", text)


BOOT = "import os, sys; sys.path.append({place!r}); from guard import watching; os._exit(watching.serve())"
# Every process of a command has it in its environment, with a value of the command's own.
MARK = "TOOLKIT_COMMAND"
CHUNK = 65_536  # bytes; as much as a pipe holds
# A pipe holds no more than this, where nobody but root changes it: pipe(7). In bytes.
MAX_PIPE = 1_048_576
# How long guards may take to end what is left of a command, in seconds: there are two, one after the other.
PATIENCE = 2 * (GRACE + PERSISTENCE) + 1
# How often it looks whether a guard that was called off does not answer, or is gone, in seconds.
LOOK = 1.0
# Where a Python may have to look for its own libraries.
LIBRARIES = ("LD_LIBRARY_PATH",)
# Why a command was ended, beside what calls are called off for.
LATE: Final = "late"
LOST: Final = "lost"

Sink: TypeAlias = Callable[[bytes], object]


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        status: Its wait status; None where it was ended.
        why: What it was ended for: `late`, or what the call was called off for; `lost` where nobody knows how it ended,
            because it killed what watched over it.
        stdout: What it printed.
        stderr: The same.
    """

    status: int | None
    why: str
    stdout: Capture
    stderr: Capture

    @property
    def exit_code(self) -> int | None:
        """What it exited with; -1 where a signal ended it; None where it did not end by itself."""
        if self.status is None:
            return None
        return max(-1, os.waitstatus_to_exitcode(self.status))

    @property
    def failure(self) -> str:
        """How it failed, in words; empty where it did not."""
        code = 0 if self.status is None else os.waitstatus_to_exitcode(self.status)
        if code < 0:
            return f"exit: signal: {(signal.strsignal(-code) or str(-code)).lower()}"
        return f"exit: exit status {code}" if code else ""


@dataclass(frozen=True, kw_only=True)
class Commands:
    """Runs commands beneath a directory.

    Attributes:
        root: The directory, held open.
        interpreter: What a command is added to.
        max_output: Bytes of each stream that are kept, at its beginning and at its end.
        variables: What is added to the environment.
        limits: What a command may use.
        sandbox: What it runs in, and where bubblewrap is.
    """

    root: Root
    interpreter: Sequence[str]
    max_output: int
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits: CommandLimits = field(default_factory=CommandLimits)
    sandbox: tuple[Sandbox, str] | None = None

    def run(self, command: str, seconds: float, cancellation: Cancellation) -> Outcome:
        """Run a command, for so many seconds at most; then nothing of it is left, be it in the background.

        What will not end holds the call for up to 10 seconds more.

        Raises:
            InvalidArguments: It is no text that a shell can be given.
            Failed: It could not be run.
            KeyboardInterrupt: And whatever else a signal raises; nothing of the command is left.
        """
        text, mark = _encoded(command), secrets.token_hex(8)
        try:
            with self.root.directory(".") as directory, _guard(directory, mark) as guard:
                words = [*map(os.fsencode, self._around()), text]
                variables = {**environment(self.variables), MARK: mark}
                encoded = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
                order = marshal.dumps((words, encoded, directory, self.limits.numbers(), os.getpid()))
                return guard.outcome(order, self.max_output, seconds, cancellation)
        except OSError as error:
            raise Failed(f"Failed to execute: {error.strerror or error}") from error

    def _around(self) -> list[str]:
        """Write the command line that a command is added to."""
        if self.sandbox is None:
            return [*self.interpreter]
        sandbox, program = self.sandbox
        return [*sandbox.around(program, self.root.where()), *self.interpreter]


@contextmanager
def _guard(directory: int, mark: str) -> Iterator[_Guard]:
    """Start a guard; at the end, neither it nor what it guards is left."""
    control, theirs = socket.socketpair()
    with control:
        with theirs:
            process = subprocess.Popen(  # noqa: S603  this very Python
                [sys.executable, "-I", "-S", "-c", BOOT.format(place=str(Path(__file__).parent))],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={MARK: mark, **{name: os.environ[name] for name in LIBRARIES if name in os.environ}},
                pass_fds=(directory,),
                start_new_session=True,  # Ctrl-C is not for it
            )
        guard = _Guard(process, control)
        try:
            yield guard
        finally:
            guard.close(f"{MARK}={mark}".encode())


class _Guard:
    """A process that runs one command, and what it says of it."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process, self._control = process, control
        self._why, self._ends = "", 0.0
        self._report = bytearray()
        control.settimeout(PATIENCE)

    def outcome(self, order: bytes, most: int, seconds: float, cancellation: Cancellation) -> Outcome:
        """Have it carry an order out, and wait for the end; it comes soon after the time is up, or it is called off."""
        stdout, stderr = Capture(most), Capture(most)
        sinks = self._sinks(stdout, stderr)
        self._ends = time.monotonic() + min(
            seconds, LONGEST if cancellation.remaining is None else cancellation.remaining
        )
        with (
            on_cancel(cancellation, lambda: self._call_off(cancellation.reason)),
            selectors.DefaultSelector() as selector,
        ):
            for stream, sink in sinks.items():
                os.set_blocking(stream, False)
                selector.register(stream, selectors.EVENT_READ, sink)
            with suppress(BrokenPipeError):  # it has been called off already
                self._control.sendall(order)
            self._listen(selector)
            if not self._is_over(selector):
                self._call_off(cancellation.reason or LATE)
                self._listen(selector)
        for stream, sink in sinks.items():
            _drained(stream, sink)
        return self._told(stdout, stderr)

    def close(self, mark: bytes) -> None:
        """Call it off, and wait for its end; what it left is ended from here."""
        self._call_off(CANCELLED)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, self._ends - time.monotonic()))
        if self._process.returncode != CLEAN:
            end(Heirs(mark))  # before the guard that adopts them, be it stopped
            end(Marked(mark))
        self._process.kill()
        self._process.wait()

    def _sinks(self, stdout: Capture, stderr: Capture) -> dict[int, Sink]:
        outputs = cast("IO[bytes]", self._process.stdout), cast("IO[bytes]", self._process.stderr)
        return {
            self._control.fileno(): self._hear,
            outputs[0].fileno(): stdout.add,
            outputs[1].fileno(): stderr.add,
        }

    def _listen(self, selector: selectors.BaseSelector) -> None:
        """Read, until the guards are done or the time is up."""
        while not self._is_over(selector) and time.monotonic() < self._ends:
            for key, _ in selector.select(min(LOOK, self._ends - time.monotonic())):
                if not _read(key.fd, key.data):
                    selector.unregister(key.fd)

    def _is_over(self, selector: selectors.BaseSelector) -> bool:
        """Tell whether the guards have closed the control socket, or the first one is gone."""
        return self._control.fileno() not in selector.get_map() or self._process.poll() is not None

    def _hear(self, report: bytes) -> None:
        """Learn how the command ended; what the guards still do does not count as its time."""
        self._report += report
        self._ends = time.monotonic() + PATIENCE
        self._process.send_signal(signal.SIGCONT)  # the command may have stopped it

    def _call_off(self, why: str) -> None:
        if not (self._why or self._report):
            self._why, self._ends = why, time.monotonic() + PATIENCE
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
            self._process.send_signal(signal.SIGCONT)  # the command may have stopped it

    def _told(self, stdout: Capture, stderr: Capture) -> Outcome:
        if not self._report:
            return Outcome(None, self._why or LOST, stdout, stderr)
        told = marshal.loads(self._report)  # noqa: S302  this very Python wrote it
        if isinstance(told, int):
            return Outcome(told, "", stdout, stderr)
        raise Failed(f"Failed to execute: {told}")


def _read(stream: int, sink: Sink) -> bool:
    """Read what there is; tell whether more may come."""
    try:
        data = os.read(stream, CHUNK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    sink(data)
    return bool(data)


def _drained(stream: int, sink: Sink) -> None:
    """Read what is left in a pipe, and no more than it can hold: somebody else may write to it."""
    with suppress(OSError):
        for _ in range(MAX_PIPE // CHUNK):
            sink(os.read(stream, CHUNK))


def _encoded(command: str) -> bytes:
    if "\0" in command:
        raise InvalidArguments("command: no command can hold a NUL")
    try:
        return command.encode()
    except UnicodeEncodeError:
        raise InvalidArguments("command: it holds half a character") from None
