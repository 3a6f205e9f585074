"""What a conversation says is to be done next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from toolkit._messages import Answered, Message, PendingApproval, ToolCall


@dataclass(frozen=True)
class CallModel:
    """Ask the model; on a last turn without tools."""

    messages: tuple[Message, ...]
    turn: int
    with_tools: bool


@dataclass(frozen=True)
class RunCalls:
    """Carry these calls out.

    Attributes:
        answered: The other calls of the same answer, in call order.
    """

    calls: tuple[ToolCall, ...]
    turn: int
    answered: tuple[Answered, ...] = ()


@dataclass(frozen=True)
class Paused:
    """Calls wait for somebody's yes."""

    pending: tuple[PendingApproval, ...]


@dataclass(frozen=True)
class Finished:
    """The run is over."""

    output: str
    reason: str


Step: TypeAlias = CallModel | RunCalls | Paused | Finished
