"""What happens in a run, as it happens: frozen values, in the order of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from toolkit._messages import ModelResponse, PendingApproval, ToolCall, ToolResult, Usage, UserMessage


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
class ToolArgumentsDelta:
    """A piece of a call's arguments, as the model writes them; the call may still turn out to be cut.

    Attributes:
        index: Which call of the answer, from 0.
        name: The tool's, as far as it is known.
    """

    index: int
    name: str
    text: str


@dataclass(frozen=True)
class OutputDelta:
    """The structured answer so far: a value of the run's `output_type`, of what has arrived."""

    value: Any


@dataclass(frozen=True)
class MessageAdded:
    """What the user says while the run is under way has reached the conversation."""

    message: UserMessage


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
class ToolCallUpdated:
    """A tool tells how far it is; the model never sees it.

    Attributes:
        text: What it says of its progress.
        partial: What it has so far.
    """

    call: ToolCall
    text: str = ""
    partial: ToolResult | None = None


@dataclass(frozen=True, kw_only=True)
class ToolCallRetried:
    """A try has failed, and another follows.

    Attributes:
        attempt: The one that failed, from 0.
        seconds: How long the next one waits.
    """

    call: ToolCall
    attempt: int
    error: BaseException
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ToolCallAbandoned:
    """A call was given up, and its function works on: a thread cannot be ended.

    Attributes:
        count: How many such functions of the run are at work.
    """

    call: ToolCall
    count: int


@dataclass(frozen=True)
class ApprovalNeeded:
    """A call waits for somebody's yes."""

    approval: PendingApproval


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
class LimitReached:
    """A limit of the run was reached.

    Attributes:
        limit: Which one, such as `turns`; the name of a field of Limits.
    """

    limit: str


@dataclass(frozen=True, kw_only=True)
class RunFinished:
    """The last event of a run."""

    output: str
    finish_reason: str
    usage: Usage


# What a call tells while it is at work.
CallEvent: TypeAlias = ToolCallUpdated | ToolCallRetried | ToolCallAbandoned | ApprovalNeeded

Event: TypeAlias = (
    RunStarted
    | TurnStarted
    | TextDelta
    | ReasoningDelta
    | ToolArgumentsDelta
    | OutputDelta
    | TurnFinished
    | ToolCallStarted
    | CallEvent
    | ToolCallFinished
    | MessageAdded
    | LimitReached
    | RunFinished
)
