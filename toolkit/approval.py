"""Does somebody agree that this call runs? Asked with the validated arguments, the ones that will be used."""

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
class ApprovalRequest:
    """One call that waits for a yes.

    Attributes:
        arguments: Typed values, as the tool will get them.
    """

    tool: Tool[..., Any]
    arguments: Mapping[str, Any]
    context: ToolContext[Any]


@dataclass(frozen=True)
class Decision:
    """An approver's answer, with a reason that the model may see."""

    approved: bool
    reason: str = ""


Approver: TypeAlias = Callable[[ApprovalRequest], bool | Decision | Awaitable[bool | Decision]]


async def approve(approver: Approver | None, request: ApprovalRequest, door: Door) -> None:
    """Let a call pass or not.

    Raises:
        Denied: The approver said no, raised, or answered something that is neither True nor an approving Decision.
    """
    if approver is None:
        return
    verdict = await ask(approver, (request,), door)
    decision = verdict if isinstance(verdict, Decision) else Decision(verdict is True)
    if decision.approved is not True:
        reason = f" Reason: {decision.reason}" if decision.reason else ""
        raise Denied(f"Tool execution was rejected by the user.{reason}")
