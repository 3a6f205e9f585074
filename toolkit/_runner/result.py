"""What came of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from typing_extensions import TypeVar

from toolkit._messages import Message, ModelResponse, PendingApproval, ToolMessage, ToolResult, Usage
from toolkit._runner.state import RunState, is_own_id
from toolkit.errors import RunError
from toolkit.events import ToolCallFinished

T = TypeVar("T", default=str)


@dataclass(frozen=True, kw_only=True)
class RunResult(Generic[T]):
    """What came of a run.

    Attributes:
        output: The model's answer: text, or a value of the run's `output_type`. Where there is none (`paused`,
            `cancelled`, `stopped`, `error`) it is the model's last text, or None where text is no such value.
        messages: The whole conversation; give it to the next run to go on.
        calls: Every call of the run with its result, in the order of the conversation. Of those from before a resume
            there is what the model was told: no value, exception, details or seconds.
        usage: Tokens and requests, summed over the run.
        finish_reason: Why it ended: `stop`; `paused`, with approvals to be decided; `cancelled`; `stopped`, by an
            approver; `halted`, by a hook; `max_turns` and so on, by a limit; `length`, `content_filter`, `empty`, by
            the model; or `error`, where an exception holds this result.
        model: Which model it was, for people.
        state: The run as plain data.
        unread: What was said to the run and came too late for the model.
        abandoned: Functions that were given up and may still be at work.
    """

    output: T
    messages: tuple[Message, ...] = field(repr=False)
    calls: tuple[ToolCallFinished, ...] = field(repr=False)
    usage: Usage
    finish_reason: str
    model: str
    state: RunState = field(repr=False)
    unread: tuple[Message, ...] = field(default=(), repr=False)
    abandoned: int = field(default=0, repr=False)

    def __str__(self) -> str:
        return str(self.output)

    def _repr_html_(self) -> str:
        from toolkit.display.notebook import html_of  # only a notebook asks

        return html_of(self.output, self.calls, self.usage, self.finish_reason, self.model)

    @property
    def is_paused(self) -> bool:
        """Whether calls wait for somebody's yes: see `pending`, and `Runner.resume`."""
        return self.finish_reason == "paused"

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """The calls that wait for somebody's yes."""
        return self.state.pending


def restore_calls(state: RunState) -> dict[str, ToolCallFinished]:
    """List what a state tells of the calls of its run that have a result, by call id."""
    answers = (message for message in state.messages if isinstance(message, ModelResponse))
    calls = {call.id: call for answer in answers for call in answer.calls if is_own_id(call.id, state.run_id)}
    results = (*(message for message in state.messages if isinstance(message, ToolMessage)), *state.results)
    return {
        told.call_id: ToolCallFinished(calls[told.call_id], _to_result(told), 0.0)
        for told in results
        if told.call_id in calls
    }


def _to_result(told: ToolMessage) -> ToolResult:
    error = told.text if told.is_error else None
    return ToolResult(text=told.text, error=error, images=told.images, files=told.files)


def require_result(result: RunResult[T] | None) -> RunResult[T]:
    """Give what came of a run.

    Raises:
        RunError: It has not ended.
    """
    if result is None:
        raise RunError("The run has not ended: draw its events to the end first.")
    return result
