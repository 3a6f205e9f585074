"""The seam to a model: one request, one answer, whole or in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, TypeAlias, runtime_checkable

from toolkit.events import ReasoningDelta, TextDelta
from toolkit.messages import ModelRequest, ModelResponse

Piece: TypeAlias = TextDelta | ReasoningDelta | ModelResponse


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
