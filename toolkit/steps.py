"""What a conversation says is to be done next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from toolkit.messages import Message, PendingApproval, ToolCall


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
        failed: Calls of the same answer that have failed before.
    """

    calls: tuple[ToolCall, ...]
    turn: int
    failed: tuple[ToolCall, ...] = ()


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
