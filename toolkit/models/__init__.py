"""Models: the protocol that a run talks to, and clients of servers that implement it.

A model answers one request, whole or in pieces. An application implements `Model` to connect one of its own; the
messages of a request are imported from here, too.

Files, each importing only those below it:

    combined     models made of others: fallback, rate limits
    default      the model of a run, where the application does not pass one
    local/       the embedded model, which needs no key
    connections  clients that are made here
    responses    OpenAI's Responses
    openai       OpenAI's Chat Completions, which most servers understand
    streaming    the calls of a streamed completion, fragment by fragment
    wire         the types of what a server sends
    client       what both share: the body of a request, and what becomes of its answer
    errors       errors of the openai package as ModelError
    transport    a request on its way: sent as it is, its answer read, limited and cancelled
"""

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
    """A call whose arguments are complete while the answer still arrives; sent only if the request has `early`.

    The call counts only if the whole answer turns out not to be cut, and has the same call at this position.

    Attributes:
        call: As it will be in the answer, its arguments decoded.
        position: Index among the answer's calls, from 0.
    """

    call: ToolCall
    position: int


Piece: TypeAlias = TextDelta | ReasoningDelta | ToolArgumentsDelta | CallReady | ModelResponse


@runtime_checkable
class Model(Protocol):
    """A language model.

    The methods are coroutines in either case; those of a sync model never suspend.
    """

    @property
    def name(self) -> str:
        """The model's name, for people."""
        ...

    @property
    def is_async(self) -> bool:
        """True if the methods need an event loop."""
        ...

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer a request.

        Raises:
            ModelError: No answer came, or none that can be used.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer a request in pieces; the last one is the whole answer.

        Raises:
            ModelError: No answer came, none that can be used, or it was cut.
        """
        ...
