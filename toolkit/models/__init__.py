"""Models: the protocol that a run uses, and clients of servers that implement it.

A model answers one request, whole or in pieces. An application implements `Model` to connect its own; it imports the
messages of a request from here, too.

Files, each importing only those below it:

    combined     models made of others: fallback, rate limits
    default      the choice of a run's model, from options and environment
    local/       the embedded model, which needs no key
    connections  clients of the openai package, for an address and a key
    responses    OpenAI's Responses
    openai       OpenAI's Chat Completions, which most servers understand
    streaming    the calls of a streamed completion, fragment by fragment
    wire         checks of the types of values that a server sends
    client       the base class of both: the body of a request, and the response made from the answer
    errors       errors of the openai package as ModelError
    transport    sending a request; reading, limiting and cancelling its answer
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from toolkit._lazy import lazy_names
from toolkit._messages import Message, ModelRequest, ModelResponse, SystemMessage, ToolCall, ToolMessage, UserMessage
from toolkit.events import ReasoningDelta, TextDelta, ToolArgumentsDelta

__all__ = [
    "CallReady",
    "Message",
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

    The call counts only if the complete answer is not cut off, and has the same call at this position.

    Attributes:
        call: The call as in the complete answer, with decoded arguments.
        position: Index among the answer's calls, from 0.
    """

    call: ToolCall
    position: int


Piece: TypeAlias = TextDelta | ReasoningDelta | ToolArgumentsDelta | CallReady | ModelResponse


@runtime_checkable
class Model(Protocol):
    """A language model.

    The methods of a sync model are coroutines, too, but never suspend.
    """

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def is_async(self) -> bool:
        """True if the methods need an event loop."""
        ...

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer a request.

        Raises:
            ModelError: There is no answer, or it cannot be used.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """Answer a request in pieces; the last one is the whole answer.

        Raises:
            ModelError: There is no answer, or it cannot be used or was cut off.
        """
        ...


if not TYPE_CHECKING:  # with __getattr__, a type checker would accept any name
    __getattr__, *_ = lazy_names(globals(), {})  # other names are explained
