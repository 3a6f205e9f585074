"""May this caller use this tool? Asks nobody, and refuses when in doubt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolkit.context import ToolContext
from toolkit.doors import Door
from toolkit.errors import Denied
from toolkit.gates import ask
from toolkit.tools import Tool


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
) -> None:
    """Let a call pass or not.

    Raises:
        Denied: The authorizer said no, raised, or answered something that is not a plain True.
    """
    if authorizer is None:
        return
    verdict = await ask(authorizer, (tool, values, context), door)
    if verdict is True:
        return
    reason = f" Reason: {verdict.reason}" if isinstance(verdict, Deny) and verdict.reason else ""
    raise Denied(f"Tool execution was denied by authorization policy.{reason}")
