"""Authorization of a call, and how any gate is called: with copies of the arguments; an exception is a refusal."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolkit._concurrency.backend import Backend, call_function
from toolkit._concurrency.cancellation import DEADLINE, Cancellation
from toolkit._context import ToolContext
from toolkit._tools.tool import Tool
from toolkit.errors import Cancelled, Denied, TimedOut

logger = logging.getLogger("toolkit")


class Unanswered(Denied):
    """Nobody could be asked: there is no gate, or it raised, which is the cause then."""

    kind = "unavailable"


class Late(Unanswered):
    """A gate gave no answer in time."""

    kind = "timed_out"


class ArgumentsView(Mapping[str, Any]):
    """The arguments of a call for gates: each access returns a copy, so that no gate can change what runs."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return deepcopy(self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(dict(self._values))


def view_arguments(values: Mapping[str, Any]) -> ArgumentsView:
    """Return a view of arguments for gates."""
    return values if isinstance(values, ArgumentsView) else ArgumentsView(values)


async def ask_gate(
    gate: Callable[..., Any], questions: tuple[Any, ...], backend: Backend, cancellation: Cancellation
) -> Any:
    """Call a gate, and return its answer.

    A sync gate runs on the calling thread, unless `cancellation` has a deadline.

    Raises:
        Denied: The gate raised it.
        Unanswered: The gate raised something else, which is logged.
        TimedOut: The deadline passed before there was an answer.
        Cancelled: The run was cancelled before there was an answer.
    """
    try:
        answer = await call_function(gate, questions, backend, cancellation)
    except Exception as error:
        _raise_if_cancelled(cancellation)
        if isinstance(error, Denied):
            raise
        logger.exception("The gate %r raised; the call is refused.", gate)
        raise Unanswered from error
    _raise_if_cancelled(cancellation)
    return answer


def format_reason(reason: object) -> str:
    """Return a gate's reason, to be appended to its refusal."""
    return f" Reason: {reason}" if isinstance(reason, str) and reason.strip() else ""


def _raise_if_cancelled(cancellation: Cancellation) -> None:
    if cancellation:
        raise TimedOut if cancellation.reason == DEADLINE else Cancelled


DENIED = "Tool execution was denied by authorization policy."
FAILED = 'Tool execution failed: tool authorization error for "{}": {}; the tool was not run.'


@dataclass(frozen=True)
class Deny:
    """An authorizer's refusal, with a reason that the model may see."""

    reason: str = ""


# Gets tool, validated arguments and context; True lets the call pass, anything else does not.
Authorizer: TypeAlias = Callable[
    [Tool[..., Any], Mapping[str, Any], ToolContext[Any]], bool | Deny | Awaitable[bool | Deny]
]


async def authorize(
    authorizer: Authorizer | None,
    tool: Tool[..., Any],
    values: Mapping[str, Any],
    context: ToolContext[Any],
    backend: Backend,
    timeout: float | None = None,
) -> None:
    """Check a call with an authorizer; without one it is allowed.

    The authorizer has `timeout` seconds, by default as long as the run takes. A late answer does not count.

    Raises:
        Denied: The authorizer returned anything but True; what is neither a bool nor a Deny is logged.
        Unanswered: It raised, or did not answer in time.
        Cancelled: The run was cancelled first.
    """
    if authorizer is None:
        return
    cancellation = Cancellation(timeout, parent=context.cancellation)
    try:
        verdict: object = await ask_gate(authorizer, (tool, view_arguments(values), context), backend, cancellation)
    except Unanswered as failure:
        raise Unanswered(FAILED.format(tool.name, "it failed")) from failure.__cause__
    except Denied as refusal:
        raise Denied(DENIED + format_reason(str(refusal))) from refusal.__cause__
    except TimedOut:
        if timeout is None or context.cancellation:  # the run's time is up, not the authorizer's
            raise
        raise Late(FAILED.format(tool.name, "it was not answered in time")) from None
    finally:
        cancellation.close()
    if type(verdict) not in (bool, Deny):
        kind = type(verdict).__name__
        logger.error("The authorizer %r returned a %s, not a bool or Deny: the call is denied.", authorizer, kind)
    if verdict is not True:
        raise Denied(DENIED + format_reason(verdict.reason if type(verdict) is Deny else ""))
