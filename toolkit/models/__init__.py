"""The seam to a model: one request, one answer, whole or in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from toolkit._messages import ModelRequest, ModelResponse, SystemMessage, ToolCall, ToolMessage, UserMessage
from toolkit.events import ReasoningDelta, TextDelta, ToolArgumentsDelta

__all__ = [
    "CallReady",
    "Model",
    "ModelRequest",
    "ModelResponse",
    "Piece",
    "SystemMessage",
    "ToolMessage",
    "UserMessage",
]


@dataclass(frozen=True)
class CallReady:
    """A call's arguments are whole, though the answer still arrives; given only where the request says `early`.

    It is a promise of the wire, not of the model: the call counts only if the whole answer is not cut, and has the same
    call at this position.

    Attributes:
        call: As it will be in the answer, its arguments in the tool's own form.
        position: Which of the answer's calls it is, from 0.
    """

    call: ToolCall
    position: int


Piece: TypeAlias = TextDelta | ReasoningDelta | ToolArgumentsDelta | CallReady | ModelResponse


@runtime_checkable
class Model(Protocol):
    """What answers.

    The methods are coroutines in either case; those of a sync model never suspend.

    Attributes:
        name: Which model it is, for people.
        is_async: Whether its methods need an event loop.
    """

    @property
    def name(self) -> str:
        """Which model it is, for people."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether its methods need an event loop."""
        ...

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer.

        Raises:
            ModelError: There is no answer, or none that can be used.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer in pieces; the last one is the whole answer.

        Raises:
            ModelError: There is no answer, or none that can be used, or it broke off.
        """
        ...
