"""What happens in a run, as it happens: frozen values, in the order of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from toolkit.messages import ModelResponse, ToolCall, ToolResult, Usage


@dataclass(frozen=True, kw_only=True)
class RunStarted:
    """The first event of a run."""

    run_id: str
    model: str


@dataclass(frozen=True, kw_only=True)
class TurnStarted:
    """The model is asked; turns count from 0."""

    turn: int


@dataclass(frozen=True)
class TextDelta:
    """A piece of the model's answer."""

    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    """A piece of the model's thoughts."""

    text: str


@dataclass(frozen=True, kw_only=True)
class TurnFinished:
    """The model has answered, whole."""

    turn: int
    response: ModelResponse


@dataclass(frozen=True)
class ToolCallStarted:
    """A call goes to its tool."""

    call: ToolCall


@dataclass(frozen=True)
class ToolCallFinished:
    """A call has its result; with several calls in one turn they finish in any order.

    Attributes:
        seconds: How long it took, gates included.
    """

    call: ToolCall
    result: ToolResult
    seconds: float

    @property
    def name(self) -> str:
        """The tool's name, as the model wrote it."""
        return self.call.name

    @property
    def arguments(self) -> str:
        """The arguments, as the model wrote them."""
        return self.call.arguments

    @property
    def exception(self) -> BaseException | None:
        """What the tool raised, with its traceback."""
        return self.result.exception


@dataclass(frozen=True, kw_only=True)
class RunFinished:
    """The last event of a run."""

    output: str
    finish_reason: str
    usage: Usage


Event: TypeAlias = (
    RunStarted
    | TurnStarted
    | TextDelta
    | ReasoningDelta
    | TurnFinished
    | ToolCallStarted
    | ToolCallFinished
    | RunFinished
)
