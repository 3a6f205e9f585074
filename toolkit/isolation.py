"""A process of its own for one call: ended for good, with all that it started, when the call is given up.

The child is a fresh Python with this one's `sys.path`. Of the main script it has what a child of `multiprocessing`
would have: where something of it is needed, it is run again under another name. Both talk in pickles, over the child's
standard input and output; what a tool prints goes to standard error, and its own standard input is empty.

    parent -> child    the main script, or None; tool, values and context
    child -> parent    what is told, as it comes; then the end

The child ends when its standard input does: it does not outlive a parent that was killed.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, cast

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import Outcome, outcome_of, over, time_left
from toolkit._context import ToolContext
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError, Failed
from toolkit.places import Sent, arrived, packed, performed, revived, sendable

BOOT = "import sys; sys.path[:] = {path!r}; from toolkit.isolation import serve; serve()"
# Set in a child while it runs the main script again: that must not start another child.
PREPARING = "TOOLKIT_PREPARING"
# How long a child that has told its end may take to go, in seconds: it may have things to put away.
GRACE = 1.0


@dataclass(frozen=True)
class _Refused:
    """The main script cannot be run again."""

    why: str


@dataclass(frozen=True)
class _Lost:
    """The tool has run, and what it gave cannot be sent."""

    why: str


def in_process(tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any]) -> Outcome[Any]:
    """Carry a tool out in a process of its own, and wait on this thread for what comes of it.

    Raises:
        TimedOut: The deadline of the context has passed; the process is dead.
        Cancelled: It was called off; the process is dead.
        DefinitionError: The process cannot get the tool.
        Failed: It cannot get a value or a part of the context, or cannot send the result; the cause says more.
    """
    until = context.cancellation
    order = _ordered(tool, values, context)
    child = _Child(order)
    try:
        with _watched(until, child):
            end = child.end(context.tell)
    finally:
        child.close()
    if isinstance(end, _Refused):
        raise DefinitionError(f"{tool.origin}: {end.why}")
    if isinstance(end, _Lost):
        raise Failed(f"{tool.name} has run, but its result was lost.") from pickle.PicklingError(
            f"{tool.origin}: its result cannot be sent from a process of its own: {end.why} "
            "Let it give what pickles: plain data, or of classes at the top of a module."
        )
    if end is not None:
        return revived(end)
    if until:
        raise over(until)
    return None, Failed(f"{tool.name} failed: its process {child.fate} before it had a result.")


class _Child:
    """A process that carries one call out."""

    def __init__(self, order: bytes) -> None:
        self._order = order
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603  this very Python
            [sys.executable, "-c", BOOT.format(path=[place for place in sys.path if isinstance(place, str)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, PREPARING: "1"},
            start_new_session=True,  # its own children are in its process group, and Ctrl-C is not for it
        )

    def end(self, tell: Callable[[str, Any], object]) -> Sent | _Refused | _Lost | None:
        """Send the order, pass on what is told, and give the end; None where the child ends without."""
        orders, reports = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        with suppress(EOFError, OSError, pickle.UnpicklingError):
            orders.write(self._order)
            orders.flush()
            while isinstance(report := pickle.load(reports), tuple):  # noqa: S301  of this very Python's making
                tell(*report)
            with _alarm(GRACE, self.kill):
                reports.read()
            end: Sent | _Refused | _Lost = report
            return end
        return None

    def kill(self) -> None:
        """End it now, and all that it started."""
        with self._lock:
            self._kill()

    def close(self) -> None:
        """Leave nothing of it: no process, no descriptor."""
        with self._lock:
            self._kill()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError):  # what it had no time to read
                    cast("IO[bytes]", pipe).close()
            self._process.wait()

    @property
    def fate(self) -> str:
        """How it ended, in words."""
        code = self._process.returncode
        return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"

    def _kill(self) -> None:
        if self._process.returncode is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL) if hasattr(os, "killpg") else self._process.kill()


@contextmanager
def _watched(until: Cancellation, child: _Child) -> Iterator[None]:
    """Kill a child when its time is up, or when it is called off."""
    leave = until.subscribe(child.kill)
    try:
        with _alarm(time_left(until), child.kill):
            yield
    finally:
        leave()


@contextmanager
def _alarm(seconds: float | None, ring: Callable[[], None]) -> Iterator[None]:
    """Call a function after a time, unless this is left before."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _ordered(tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any]) -> bytes:
    if PREPARING in os.environ:
        raise DefinitionError(
            f"{tool.origin}: the main script starts a run wherever it is imported, and a process of its own imports "
            'it. Put what starts the run under: if __name__ == "__main__":'
        )
    order = sendable(tool, values, context)
    return pickle.dumps(_main_script(tool) if b"__main__" in order else None) + order


def _main_script(tool: Tool[..., Any]) -> Mapping[str, Any]:
    """Say how to find the main script, as `multiprocessing` does."""
    from multiprocessing.spawn import get_preparation_data

    found: Mapping[str, Any] = get_preparation_data("toolkit-call")
    kept = {key: found[key] for key in ("sys_argv", "init_main_from_name", "init_main_from_path") if key in found}
    if len(kept) < 2:
        raise DefinitionError(
            f"{tool.origin}: a process of its own cannot get what was typed in, or is in a notebook. Define it at the "
            "top of a module."
        )
    return kept


def serve() -> None:
    """Carry out, in the child, what its parent has ordered."""
    orders, reports = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    lock = threading.Lock()

    def report(item: object) -> None:
        written = pickle.dumps(item)
        with lock:
            reports.write(written)
            reports.flush()

    if refused := _prepared(orders):
        report(refused)
    else:
        _served(orders, report)


def _prepared(orders: IO[bytes]) -> _Refused | None:
    """Run the main script again, where something of it is needed."""
    main, error = pickle.load(orders), None  # noqa: S301  of the parent's making
    if main is not None:
        from multiprocessing.spawn import prepare

        error = outcome_of(lambda: prepare(main))[1]
    del os.environ[PREPARING]
    return _Refused(f"the main script cannot be run again for it: {error}") if error else None


def _served(orders: IO[bytes], report: Callable[[object], None]) -> None:
    """Carry the tool out, and report its end."""
    threading.Thread(target=_end_with, args=(orders.fileno(),), daemon=True).start()
    sent = _sent(orders, report)
    _, unsendable = outcome_of(lambda: report(sent))
    if unsendable:
        report(_Lost(str(unsendable)))


def _sent(orders: IO[bytes], report: Callable[[object], None]) -> Sent:
    order, error = outcome_of(lambda: pickle.load(orders))  # noqa: S301  as in `_prepared`
    if order is None:
        return packed(error or EOFError())
    tool, values, context = order
    return performed(tool, values, arrived(context, tell=partial(_tell, report)))


def _tell(report: Callable[[object], None], text: str, partial: Any) -> None:
    with suppress(Exception):  # what cannot be sent is not told
        report((text, partial))


def _end_with(parent: int) -> None:
    """End when the parent has: nobody waits any more."""
    os.read(parent, 1)  # it sends no more
    os.killpg(0, signal.SIGKILL) if hasattr(os, "killpg") else os._exit(1)
