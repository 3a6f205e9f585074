"""May this caller use this tool? Asks nobody, and refuses when in doubt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolkit._concurrency.backend import Door
from toolkit._concurrency.cancellation import Cancellation
from toolkit._context import ToolContext
from toolkit._tools.tool import Tool
from toolkit.errors import Denied, TimedOut
from toolkit.gates import Unanswered, ask, because, guarded

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
    door: Door,
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
    until = Cancellation(timeout, parent=context.cancellation)
    try:
        verdict: object = await ask(authorizer, (tool, guarded(values), context), door, until)
    except Denied as refusal:
        kind = Unanswered if isinstance(refusal, Unanswered) else Denied
        raise kind(DENIED + because(str(refusal))) from refusal.__cause__
    except TimedOut:
        raise Unanswered(DENIED + because("It was not answered in time.")) from None
    finally:
        until.close()
    if verdict is not True:
        raise Denied(DENIED + because(verdict.reason if type(verdict) is Deny else ""))
