"""Calls in a process of their own, which is killed with everything it started, and calls in an executor.

The child is a fresh Python with this one's `sys.path`. If the call needs something of the main script, the script is
run again under another name, as in a child of `multiprocessing`. Parent and child exchange pickles over the child's
standard input and output; what a tool prints goes to standard error, and its own standard input is empty.

    parent -> child    the main script, or None; tool, arguments and context
    child -> parent    progress, as it comes; then the outcome

The child ends when its standard input does: it does not outlive a killed parent.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, fields, replace
from functools import partial
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any, cast

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import Outcome, cancellation_error, capture_outcome, get_unless_cancelled, time_left
from toolkit._context import ToolContext
from toolkit._tools.options import USUAL
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError, Failed, TimedOut

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

# What of a context stays in its process: others have a copy of the rest, made of what there is of it when they begin.
AT_HOME = frozenset({"cancellation", "emit"})


class RemoteTraceback(Exception):
    """The traceback of an exception in another process, as text: the cause of that exception here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class Sent:
    """Outcome of a tool, on its way from another process; not every exception survives pickling.

    Attributes:
        value: The return value.
        error: The pickled exception; empty if it does not pickle.
        named: Module, name and text of the exception.
        trace: Its traceback.
    """

    value: Any = None
    error: bytes = b""
    named: tuple[str, str, str] | None = None
    trace: str = ""


def performed(tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any]) -> Sent:
    """Run a tool in another process."""
    value, error = capture_outcome(lambda: tool._invocation.perform(values, context))
    return Sent(value) if error is None else packed(error)


def packed(error: BaseException) -> Sent:
    """Make an exception ready to be sent."""
    text = capture_outcome(lambda: str(error))[0] or ""
    trace = capture_outcome(lambda: "".join(traceback.format_exception(error)))[0] or ""
    pickled = capture_outcome(lambda: pickle.dumps(error))[0] or b""
    return Sent(error=pickled, named=(type(error).__module__, type(error).__qualname__, text), trace=trace)


def revived(sent: Sent) -> Outcome[Any]:
    """Restore an outcome; an exception that cannot be unpickled is replaced by one of the same name and text."""
    if sent.named is None:
        return sent.value, None
    error: Any = capture_outcome(lambda: pickle.loads(sent.error))[0]  # noqa: S301  it comes from a tool of our own
    if not isinstance(error, BaseException):
        module, kind, text = sent.named
        error = type(kind.rpartition(".")[2], (Exception,), {"__module__": module, "__qualname__": kind})(text)
    error.__cause__ = RemoteTraceback(sent.trace)
    return None, error


def submitted(
    executor: Executor,
    tool: Tool[..., Any],
    values: dict[str, Any],
    context: ToolContext[Any],
    begun: Callable[[], object],
) -> Future[Any]:
    """Submit a tool to an executor; `begun` is called when it starts, on a thread of this process.

    Another process does not report when it starts.

    Raises:
        DefinitionError: The tool cannot be sent to another process.
        Failed: The executor does not accept it.
    """
    try:
        if _shares_memory(executor):
            return executor.submit(copy_context().run, _perform_here, tool, values, context, begun)
        return executor.submit(_perform, _bare(executor, tool), values, portable(context))
    except DefinitionError:
        raise
    except Exception as error:
        raise _unbegun(tool) from error


def _shares_memory(executor: Executor) -> bool:
    from concurrent import futures  # each kind of executor is loaded with its name

    apart: Any = getattr(futures, "InterpreterPoolExecutor", ())  # a thread pool by name: its threads share nothing
    return isinstance(executor, futures.ThreadPoolExecutor) and not isinstance(executor, apart)


def _bare(executor: Executor, tool: Tool[..., Any]) -> Tool[..., Any]:
    """Return the tool without its settings; for another process it must be found there by name."""
    from concurrent.futures import ProcessPoolExecutor

    return movable(tool) if isinstance(executor, ProcessPoolExecutor) else replace(tool, settings=USUAL)


def waited(future: Future[Any], cancellation: Cancellation) -> Outcome[Any]:
    """Wait on this thread for the outcome of a tool; one that has not started when the time is up does not start.

    Raises:
        TimedOut: The deadline has passed.
        Cancelled: The run was cancelled.
        Exception: The executor broke, or cannot send the outcome.
    """
    done: SimpleQueue[Future[Any] | None] = SimpleQueue()
    future.add_done_callback(done.put)
    try:
        while get_unless_cancelled(done, cancellation) is None:
            if cancellation:  # or it has begun meanwhile: its time counts anew
                break
        else:
            came = future.result()
            return revived(came) if isinstance(came, Sent) else came
    finally:
        has_begun = not future.cancel()
    error = cancellation_error(cancellation)
    if isinstance(error, TimedOut) and not has_begun:
        raise TimedOut("Timed out: not started, its executor was busy.")
    raise error


def sendable(tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any]) -> bytes:
    """Pickle a call for another process.

    Raises:
        DefinitionError: The tool cannot be found from there by its name.
        Failed: An argument or a part of the context does not pickle, which is its cause.
    """
    bare = movable(tool)
    try:
        return pickle.dumps((bare, values, portable(context)))
    except Exception as error:  # noqa: BLE001  a value is the user's: anything may happen
        raise _unbegun(tool) from pickle.PicklingError(
            f"{tool.origin}: an argument, or a part of its context, cannot be sent to another process: {error} "
            "Let parameters and deps be what pickles: plain data, or of classes at the top of a module."
        )


def movable(tool: Tool[..., Any]) -> Tool[..., Any]:
    """Return the tool without its settings, which belong to this process.

    Raises:
        DefinitionError: It cannot be found by its name.
    """
    bare = replace(tool, settings=USUAL)
    try:
        pickle.dumps(bare)
    except Exception as error:
        raise DefinitionError(
            f"{tool.origin}: it is to run in another process, which cannot get it: {error} "
            "Define it at the top of a module; what it is bound to must pickle."
        ) from error
    return bare


def portable(context: ToolContext[Any]) -> Mapping[str, Any]:
    """Return the parts of a context that another process gets."""
    kept = {field.name: getattr(context, field.name) for field in fields(context) if field.name not in AT_HOME}
    return {**kept, "seconds": context.cancellation.remaining}


def arrived(portable: Mapping[str, Any], **more: Any) -> ToolContext[Any]:
    """Create a context from the output of `portable`."""
    kept = {name: value for name, value in portable.items() if name != "seconds"}
    return ToolContext(**kept, **more, cancellation=Cancellation(portable["seconds"]))


def _unbegun(tool: Tool[..., Any]) -> Failed:
    return Failed(f"{tool.name} was not run: it could not be sent to where it runs.")


def _perform_here(
    tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any], begun: Callable[[], object]
) -> Outcome[Any]:
    begun()
    return capture_outcome(lambda: tool._invocation.perform(values, context))


def _perform(tool: Tool[..., Any], values: dict[str, Any], context: Mapping[str, Any]) -> Sent:
    return performed(tool, values, arrived(context))


BOOT = "import sys; sys.path[:] = {path!r}; from toolkit._execution.isolation import serve; serve()"
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
    """The tool has run, and its return value does not pickle."""

    why: str


def in_process(tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any]) -> Outcome[Any]:
    """Run a tool in a process of its own, and wait on this thread for its outcome.

    Raises:
        TimedOut: The deadline of the context has passed; the process is dead.
        Cancelled: The run was cancelled; the process is dead.
        DefinitionError: The process cannot get the tool.
        Failed: An argument, a part of the context or the result does not pickle; the cause says more.
    """
    cancellation = context.cancellation
    order = _ordered(tool, values, context)
    child = _Child(order)
    try:
        with _watched(cancellation, child):
            end = child.end(context.emit)
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
    if cancellation:
        raise cancellation_error(cancellation)
    return None, Failed(f"{tool.name} failed: its process {child.fate} before it had a result.")


class _Child:
    """A process that runs one call."""

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
        """Send the call, pass on its progress, and return the outcome; None if the process ends without one."""
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
        """Kill the process and everything it started."""
        with self._lock:
            self._kill()

    def close(self) -> None:
        """Kill the process, and close its pipes."""
        with self._lock:
            self._kill()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError):  # what it had no time to read
                    cast("IO[bytes]", pipe).close()
            self._process.wait()

    @property
    def fate(self) -> str:
        """How the process ended, for an error message."""
        code = self._process.returncode
        return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"

    def _kill(self) -> None:
        if self._process.returncode is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL) if hasattr(os, "killpg") else self._process.kill()


@contextmanager
def _watched(cancellation: Cancellation, child: _Child) -> Iterator[None]:
    """Kill a child at the deadline or when the call is cancelled."""
    leave = cancellation.subscribe(child.kill)
    try:
        with _alarm(time_left(cancellation), child.kill):
            yield
    finally:
        leave()


@contextmanager
def _alarm(seconds: float | None, ring: Callable[[], None]) -> Iterator[None]:
    """Call a function after a time, unless the block ends before."""
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
    """Return the location of the main script, as `multiprocessing` does."""
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
    """Run the call that the parent sends. The main function of the child."""
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
    """Run the main script again, if the call needs it."""
    main, error = pickle.load(orders), None  # noqa: S301  of the parent's making
    if main is not None:
        from multiprocessing.spawn import prepare

        error = capture_outcome(lambda: prepare(main))[1]
    del os.environ[PREPARING]
    return _Refused(f"the main script cannot be run again for it: {error}") if error else None


def _served(orders: IO[bytes], report: Callable[[object], None]) -> None:
    """Run the tool, and report its outcome."""
    threading.Thread(target=_end_with, args=(orders.fileno(),), daemon=True).start()
    sent = _sent(orders, report)
    _, unsendable = capture_outcome(lambda: report(sent))
    if unsendable:
        report(_Lost(str(unsendable)))


def _sent(orders: IO[bytes], report: Callable[[object], None]) -> Sent:
    order, error = capture_outcome(lambda: pickle.load(orders))  # noqa: S301  as in `_prepared`
    if order is None:
        return packed(error or EOFError())
    tool, values, context = order
    return performed(tool, values, arrived(context, emit=partial(_tell, report)))


def _tell(report: Callable[[object], None], text: str, partial: Any) -> None:
    with suppress(Exception):  # what cannot be sent is not told
        report((text, partial))


def _end_with(parent: int) -> None:
    """End this process when its parent ends."""
    os.read(parent, 1)  # it sends no more
    os.killpg(0, signal.SIGKILL) if hasattr(os, "killpg") else os._exit(1)
