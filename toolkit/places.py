"""Carrying a tool out elsewhere: what is taken there, what is brought back, and how long one waits for it."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, fields, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import Outcome, outcome_of, over, taken
from toolkit._context import ToolContext
from toolkit._tools.options import USUAL
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError, Failed, TimedOut

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

# What of a context stays in its process: others have a copy of the rest, made of what there is of it when they begin.
AT_HOME = frozenset({"cancellation", "tell"})


class RemoteTraceback(Exception):
    """The traceback of an exception of another process, as text: the cause of that exception here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class Sent:
    """What came of a tool, on its way from another process: exceptions do not travel well.

    Attributes:
        value: What the tool gave.
        error: What it raised, pickled; nothing where that cannot be pickled.
        named: Module, name and text of what it raised.
        trace: Where it was raised.
    """

    value: Any = None
    error: bytes = b""
    named: tuple[str, str, str] | None = None
    trace: str = ""


def performed(tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any]) -> Sent:
    """Carry a tool out in another process."""
    value, error = outcome_of(lambda: tool.invocation.perform(values, context))
    return Sent(value) if error is None else packed(error)


def packed(error: BaseException) -> Sent:
    """Make an exception ready to travel."""
    text = outcome_of(lambda: str(error))[0] or ""
    trace = outcome_of(lambda: "".join(traceback.format_exception(error)))[0] or ""
    pickled = outcome_of(lambda: pickle.dumps(error))[0] or b""
    return Sent(error=pickled, named=(type(error).__module__, type(error).__qualname__, text), trace=trace)


def revived(sent: Sent) -> Outcome[Any]:
    """Unpack what came of a tool; an exception that cannot be made again has a double of the same name and text."""
    if sent.named is None:
        return sent.value, None
    error: Any = outcome_of(lambda: pickle.loads(sent.error))[0]  # noqa: S301  it comes from a tool of our own
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
    """Give a tool to an executor; `begun` is called when it begins, on a thread of this process.

    A place in another process does not tell when it begins.

    Raises:
        DefinitionError: The tool cannot be sent to another process.
        Failed: The executor takes nothing.
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
    """Make the same tool without its settings; one for another process has to be found there."""
    from concurrent.futures import ProcessPoolExecutor

    return movable(tool) if isinstance(executor, ProcessPoolExecutor) else replace(tool, settings=USUAL)


def waited(future: Future[Any], until: Cancellation) -> Outcome[Any]:
    """Wait on this thread for what comes of a tool; what has not begun when the time is up does not begin.

    Raises:
        TimedOut: The deadline has passed.
        Cancelled: It was called off.
        Exception: Nothing comes back: the executor broke, or cannot send what it should.
    """
    done: SimpleQueue[Future[Any] | None] = SimpleQueue()
    future.add_done_callback(done.put)
    try:
        while taken(done, until) is None:
            if until:  # or it has begun meanwhile: its time counts anew
                break
        else:
            came = future.result()
            return revived(came) if isinstance(came, Sent) else came
    finally:
        has_begun = not future.cancel()
    error = over(until)
    if isinstance(error, TimedOut) and not has_begun:
        raise TimedOut("Timed out: not started, its executor was busy.")
    raise error


def sendable(tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any]) -> bytes:
    """Pack a call for another process.

    Raises:
        DefinitionError: The tool cannot be found from there by its name.
        Failed: A value or a part of the context cannot be pickled, which is its cause.
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
    """Make the same tool without its settings, which belong to this process.

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
    """Take what another process may have of a context."""
    kept = {field.name: getattr(context, field.name) for field in fields(context) if field.name not in AT_HOME}
    return {**kept, "seconds": context.cancellation.remaining}


def arrived(portable: Mapping[str, Any], **more: Any) -> ToolContext[Any]:
    """Make a context of what `portable` took."""
    kept = {name: value for name, value in portable.items() if name != "seconds"}
    return ToolContext(**kept, **more, cancellation=Cancellation(portable["seconds"]))


def _unbegun(tool: Tool[..., Any]) -> Failed:
    return Failed(f"{tool.name} was not carried out: it could not be sent to where it runs.")


def _perform_here(
    tool: Tool[..., Any], values: dict[str, Any], context: ToolContext[Any], begun: Callable[[], object]
) -> Outcome[Any]:
    begun()
    return outcome_of(lambda: tool.invocation.perform(values, context))


def _perform(tool: Tool[..., Any], values: dict[str, Any], context: Mapping[str, Any]) -> Sent:
    return performed(tool, values, arrived(context))
