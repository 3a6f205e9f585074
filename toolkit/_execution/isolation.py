"""Calls in a process of their own, which is killed with everything it started, and calls in an executor.

The child is a fresh Python with this one's `sys.path`. Parent and child exchange pickles over the child's standard
input and output; what a tool prints goes to standard error, and its own standard input is empty.

    parent -> child    the main script, or None; tool, arguments and context
    child -> parent    (text, partial) for each update; then the outcome

`multiprocessing` is not used. Its `spawn` runs the main script again in each child, guarded or not, which here
happens only if the call holds something of that script. It refuses to start a process in a worker of a pool, leaves a
resource tracker behind, and starts in 140 ms where this takes 20 ms plus imports. A `ProcessPoolExecutor` cannot kill
one call.
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
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

from toolkit._concurrency.cancellation import Cancellation, cancellation_error, on_cancel
from toolkit._concurrency.threads import Outcome, capture_outcome, get_unless_cancelled, starting_process, time_left
from toolkit._context import ToolContext, discard
from toolkit._tools.options import DEFAULT_SETTINGS
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError, Failed, TimedOut, ToolkitError

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

BOOT = "import sys; sys.path[:] = {path!r}; from toolkit._execution.isolation import serve; serve()"
# Set in a child while it runs the main script again: that must not start another child.
PREPARING = "TOOLKIT_PREPARING"
# Seconds for a child to exit once it has sent its outcome.
GRACE = 1.0
# Fields of a context that stay in this process. The deadline is sent as the seconds left.
LOCAL_FIELDS = frozenset({"cancellation", "emit"})
NOT_STARTED = "not started, its executor was busy."
LOST = "{} has run, but its result was lost."


def run_in_process(tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any]) -> Outcome[Any]:
    """Run a tool in a process of its own, and wait on this thread for its outcome.

    Raises:
        TimedOut: The deadline of the context has passed; the process is dead.
        Cancelled: The run was cancelled; the process is dead.
        DefinitionError: The process cannot get the tool.
        Failed: An argument, a part of the context or the result does not pickle; the cause says more.
    """
    cancellation = context.cancellation
    child = _Child(_pickle_request(tool, values, context))
    try:
        with on_cancel(cancellation, child.kill), _alarm(time_left(cancellation), child.kill):
            reply = child.receive(context.emit)
    finally:
        child.close()

    if isinstance(reply, _Fault):
        if not reply.has_run:
            raise DefinitionError(f"{tool.origin}: the main script cannot be run again for it: {reply.reason}")
        raise Failed(LOST.format(tool.name)) from pickle.PicklingError(
            f"{tool.origin}: its result cannot be sent from a process of its own: {reply.reason}. "
            "Return plain data, or instances of classes at the top of a module."
        )

    if reply is not None:
        return reply.restore()
    if cancellation:
        raise cancellation_error(cancellation)
    return None, Failed(f"{tool.name} failed: its process {child.describe_exit()} before it had a result.")


def submit_call(
    executor: Executor,
    tool: Tool[..., Any],
    values: dict[str, Any],
    context: ToolContext[Any],
    on_start: Callable[[], object],
) -> Future[Any]:
    """Submit a call to an executor; `on_start` is called when it starts, on a thread of this process.

    Another process does not report when it starts.

    Raises:
        DefinitionError: The tool cannot be sent to another process.
        Failed: The executor does not accept it.
    """

    def run_here() -> Outcome[Any]:
        on_start()
        return capture_outcome(lambda: tool._invocation.perform(values, context))

    try:
        from concurrent import futures  # each kind of executor is loaded with its name

        isolated: Any = getattr(futures, "InterpreterPoolExecutor", ())  # a thread pool by name that shares no memory
        if isinstance(executor, futures.ThreadPoolExecutor) and not isinstance(executor, isolated):
            return executor.submit(copy_context().run, run_here)
        is_process = isinstance(executor, futures.ProcessPoolExecutor)
        bare = strip_settings(tool) if is_process else replace(tool, settings=DEFAULT_SETTINGS)
        return executor.submit(run_remotely, bare, values, select_portable(context))
    except DefinitionError:
        raise
    except Exception as error:
        raise _explain_unsent(tool) from error


class NotStarted(TimedOut):
    """The executor had not started a call when its time was up."""


def wait_for_future(future: Future[Any], cancellation: Cancellation) -> Outcome[Any]:
    """Wait on this thread for the outcome of a submitted call. One that has not started at the deadline does not start.

    Raises:
        NotStarted: The deadline has passed, and the executor never started the call.
        TimedOut: The deadline has passed.
        Cancelled: The run was cancelled.
        Exception: The executor broke, or cannot send the outcome.
    """
    done: SimpleQueue[Future[Any] | None] = SimpleQueue()
    future.add_done_callback(done.put)
    try:
        while get_unless_cancelled(done, cancellation) is None:
            if cancellation:  # otherwise the call has just started, which restarted its time
                break
        else:
            if not (cancellation and future.cancelled()):  # otherwise it was submitted too late, and cancelled there
                outcome = future.result()
                return outcome.restore() if isinstance(outcome, RemoteOutcome) else outcome
    finally:
        has_started = not future.cancel()

    error = cancellation_error(cancellation)
    if isinstance(error, TimedOut) and not has_started:
        raise NotStarted.after(None, NOT_STARTED)
    raise error


class RemoteTraceback(Exception):
    """The traceback of an exception in another process, as text: the cause of that exception here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class RemoteOutcome:
    """Outcome of a tool, as another process sends it.

    Attributes:
        value: The return value.
        error: The pickled exception; empty if it does not pickle.
        label: Module, name and text of the exception; None without one.
        trace: Its traceback.
        base: Its nearest base class of this library: whether it ends the run, or is an answer to the model.
    """

    value: Any = None
    error: bytes = b""
    label: tuple[str, str, str] | None = None
    trace: str = ""
    base: type[Exception] = Exception

    @staticmethod
    def from_error(error: BaseException) -> RemoteOutcome:
        """Make the outcome of an exception. A part that cannot be written is empty."""
        text, _ = capture_outcome(lambda: str(error))
        trace, _ = capture_outcome(lambda: "".join(traceback.format_exception(error)))
        pickled, _ = capture_outcome(lambda: pickle.dumps(error))
        label = type(error).__module__, type(error).__qualname__, text or ""
        base = next((kind for kind in type(error).__mro__ if kind.__module__ == ToolkitError.__module__), Exception)
        return RemoteOutcome(error=pickled or b"", label=label, trace=trace or "", base=cast("type[Exception]", base))

    def restore(self) -> Outcome[Any]:
        """Return the outcome. An exception that cannot be unpickled is replaced by one of its name, text and base."""
        if self.label is None:
            return self.value, None
        error: Any = capture_outcome(lambda: pickle.loads(self.error))[0]  # noqa: S301  from a tool of our own
        if not isinstance(error, BaseException):
            module, kind, text = self.label
            error = type(kind.rpartition(".")[2], (self.base,), {"__module__": module, "__qualname__": kind})(text)
        error.__cause__ = RemoteTraceback(self.trace)
        return None, error


def run_remotely(
    tool: Tool[..., Any],
    values: dict[str, Any],
    portable: Mapping[str, Any],
    emit: Callable[[str | None, Any], object] = discard,
) -> RemoteOutcome:
    """Run a tool in another process, with a context made of the output of `select_portable`."""
    others = {name: value for name, value in portable.items() if name != "seconds"}
    context = ToolContext(**others, emit=emit, cancellation=Cancellation(portable["seconds"]))
    value, error = capture_outcome(lambda: tool._invocation.perform(values, context))
    return RemoteOutcome(value) if error is None else RemoteOutcome.from_error(error)


def select_portable(context: ToolContext[Any]) -> Mapping[str, Any]:
    """Return the parts of a context that another process gets."""
    parts = {field.name: getattr(context, field.name) for field in fields(context) if field.name not in LOCAL_FIELDS}
    return {**parts, "seconds": context.cancellation.remaining}


def strip_settings(tool: Tool[..., Any]) -> Tool[..., Any]:
    """Return the tool without its settings, which belong to this process.

    Raises:
        DefinitionError: Another process cannot find it by its name.
    """
    bare = replace(tool, settings=DEFAULT_SETTINGS)
    try:
        pickle.dumps(bare)
    except Exception as error:
        raise DefinitionError(
            f"{tool.origin}: it cannot be sent to another process, in which it is to run: {error}. "
            "Define it at the top of a module; the object that it is bound to must pickle."
        ) from error
    return bare


def _explain_unsent(tool: Tool[..., Any]) -> Failed:
    return Failed(f"{tool.name} was not run: it could not be sent to where it runs.")


# -- the parent


def _pickle_request(tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any]) -> bytes:
    """Pickle all that a child reads.

    Raises:
        DefinitionError: The child cannot find the tool by its name, this process is such a child, or has no Python.
        Failed: An argument or a part of the context does not pickle, which is its cause.
    """
    if PREPARING in os.environ:
        raise DefinitionError(
            f'{tool.origin}: isolate="process" imports the main script again, which would start another run. Put the '
            'code that starts the run under: if __name__ == "__main__":'
        )

    if getattr(sys, "frozen", False):
        raise DefinitionError(
            f'{tool.origin}: isolate="process" starts Python, which a program of PyInstaller does not have. Set '
            "timeout= instead, or executor=ProcessPoolExecutor()."
        )

    bare = strip_settings(tool)
    try:
        call = pickle.dumps((bare, values, select_portable(context)))
    except Exception as error:  # noqa: BLE001  a value is the user's: anything may happen
        raise _explain_unsent(tool) from pickle.PicklingError(
            f"{tool.origin}: an argument, or a part of its context, cannot be sent to another process: {error}. "
            "Parameters and deps must pickle: plain data, or instances of classes at the top of a module."
        )

    return pickle.dumps(_locate_main_script(tool) if b"__main__" in call else None) + call


def _locate_main_script(tool: Tool[..., Any]) -> Mapping[str, Any]:
    """Return the location of the main script, as `multiprocessing` does."""
    from multiprocessing.spawn import get_preparation_data

    data: Mapping[str, Any] = get_preparation_data("toolkit-call")
    location = {key: data[key] for key in ("sys_argv", "init_main_from_name", "init_main_from_path") if key in data}
    if len(location) < 2:
        raise DefinitionError(
            f"{tool.origin}: another process cannot import it from a notebook or a Python prompt. Define it at the top "
            "of a module."
        )
    return location


@dataclass(frozen=True)
class _Fault:
    """The reply of a child without an outcome: the main script cannot be run, or the return value does not pickle."""

    reason: str
    has_run: bool


_Reply: TypeAlias = RemoteOutcome | _Fault


class _Child:
    """A process that runs one call, as `_pickle_request` has written it."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._lock = threading.RLock()
        with starting_process:
            self._process = subprocess.Popen(  # noqa: S603  this very Python
                [sys.executable, "-c", BOOT.format(path=[place for place in sys.path if isinstance(place, str)])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, PREPARING: "1"},
                start_new_session=True,  # its own children are in its process group, and Ctrl-C is not for it
            )

    def receive(self, emit: Callable[[str | None, Any], object]) -> _Reply | None:
        """Send the call, pass its updates on, and return its outcome; None if the process ends without one."""
        requests = cast("IO[bytes]", self._process.stdin)
        replies = cast("IO[bytes]", self._process.stdout)
        with suppress(EOFError, OSError, pickle.UnpicklingError):
            requests.write(self._request)
            requests.flush()
            while isinstance(reply := pickle.load(replies), tuple):  # noqa: S301  of this very Python's making
                emit(*reply)
            with _alarm(GRACE, self.kill):
                replies.read()
            outcome: _Reply = reply
            return outcome

        return None

    def kill(self) -> None:
        """Kill the process and everything it started, from any thread."""
        with self._lock, suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL) if hasattr(os, "killpg") else self._process.kill()

    def close(self) -> None:
        """Kill the process, and close its pipes."""
        with self._lock:
            self.kill()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError):  # what it had no time to read
                    cast("IO[bytes]", pipe).close()
            self._process.wait()

    def describe_exit(self) -> str:
        """Describe for an error message how the process ended."""
        code = self._process.returncode
        return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


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


# -- the child


def serve() -> None:
    """Run the call that the parent sends. The main function of the child."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # it prints what a terminal can show; on Windows a pipe takes fewer characters
    lock = threading.Lock()

    def send(item: object) -> None:
        pickled = pickle.dumps(item)
        with lock:
            replies.write(pickled)
            replies.flush()

    def emit(text: str | None, partial: Any) -> None:
        with suppress(Exception):  # an update that does not pickle is dropped
            send((text, partial))

    reply = _run_main_script(requests) or _run_call(requests, emit)
    _, error = capture_outcome(lambda: send(reply))
    if error:
        send(_Fault(str(error), has_run=True))


def _run_main_script(requests: IO[bytes]) -> _Fault | None:
    """Run the main script again under another name, if the call needs it."""
    location = pickle.load(requests)  # noqa: S301  of the parent's making
    error = None
    if location is not None:
        from multiprocessing.spawn import prepare

        _, error = capture_outcome(lambda: prepare(location))
    del os.environ[PREPARING]
    return _Fault(str(error), has_run=False) if error else None


def _run_call(requests: IO[bytes], emit: Callable[[str | None, Any], object]) -> RemoteOutcome:
    call, error = capture_outcome(lambda: pickle.load(requests))  # noqa: S301  as in `_run_main_script`
    threading.Thread(target=_end_with_parent, args=(requests,), daemon=True).start()
    if call is None:
        return RemoteOutcome.from_error(error or EOFError())
    tool, values, portable = call
    return run_remotely(tool, values, portable, emit)


def _end_with_parent(requests: IO[bytes]) -> None:
    """End this process, and all that it started, when its parent ends."""
    os.read(requests.fileno(), 1)  # the parent sends no more: this waits for the end of the pipe
    os.killpg(0, signal.SIGKILL) if hasattr(os, "killpg") else os._exit(1)
