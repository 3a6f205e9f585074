"""May this caller use this tool? Asks nobody, and refuses when in doubt.

How a gate is asked: sync or async alike, about a copy of the arguments, and an exception is not a yes.
"""

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
    """Nobody has said anything: there is no gate, it gave no answer in time, or it raised, which is the cause then."""


class ArgumentsView(Mapping[str, Any]):
    """The arguments of a call as gates see them: each look gives a copy, so that no gate can change what runs."""

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
    """Make what gates see of arguments."""
    return values if isinstance(values, ArgumentsView) else ArgumentsView(values)


async def ask_gate(
    gate: Callable[..., Any], questions: tuple[Any, ...], backend: Backend, cancellation: Cancellation
) -> Any:
    """Ask a gate.

    A sync gate stays on the thread of whoever asks, unless `cancellation` has a deadline.

    Raises:
        Denied: The gate raised it.
        Unanswered: The gate raised something else, which is logged.
        TimedOut: The deadline passed before there was an answer.
        Cancelled: The same of a cancellation.
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
    """Write a gate's reason, to stand behind the text of its refusal."""
    return f" Reason: {reason}" if isinstance(reason, str) and reason.strip() else ""


def _raise_if_cancelled(cancellation: Cancellation) -> None:
    if cancellation:
        raise TimedOut if cancellation.reason == DEADLINE else Cancelled


DENIED = "Tool execution was denied by authorization policy."


@dataclass(frozen=True)
class Deny:
    """An authorizer's no, with a reason that the model may see."""

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
    """Let a call pass or not, by the word of one authorizer; without one it passes.

    The answer has `timeout` seconds, by default as long as the run. A late one is none.

    Raises:
        Denied: The authorizer said no, or gave an answer that is not a plain True.
        Unanswered: It raised, or gave no answer in time.
        Cancelled: The run was cancelled first.
    """
    if authorizer is None:
        return
    cancellation = Cancellation(timeout, parent=context.cancellation)
    try:
        verdict: object = await ask_gate(authorizer, (tool, view_arguments(values), context), backend, cancellation)
    except Denied as refusal:
        kind = Unanswered if isinstance(refusal, Unanswered) else Denied
        raise kind(DENIED + format_reason(str(refusal))) from refusal.__cause__
    except TimedOut:
        raise Unanswered(DENIED + format_reason("It was not answered in time.")) from None
    finally:
        cancellation.close()
    if verdict is not True:
        raise Denied(DENIED + format_reason(verdict.reason if type(verdict) is Deny else ""))
