"""Result of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from pydantic_core import SchemaSerializer
from typing_extensions import TypeVar

from toolkit._execution.approval import Stopped
from toolkit._execution.undo import Undo
from toolkit._lazy import render
from toolkit._messages import Message, Usage
from toolkit._options import explain_missing, make_hints
from toolkit._runner.state import RunState, restore_calls
from toolkit.errors import RunError
from toolkit.events import REASONS_WITHOUT_ANSWER, FinishReason, PendingApproval, ToolCallFinished, TurnFinished

T = TypeVar("T", default=str)

# Attributes of a result, by the names that other libraries use.
OTHER_NAMES: Mapping[str, str] = make_hints(
    ("answer content data final_output final_output_as get_output output_text parsed", "output"),
    ("final_answer final_result get_final_result response structured_output text value", "output"),
    ("split startswith strip", "output"),
    ("all_messages history to_input_list", "messages"),
    ("new_items new_messages", "messages, the earlier ones included"),
    ("interruption interruptions interrupts", "pending"),
    ("metrics token_usage tokens", "usage"),
    *((name, f"usage.{name}") for name in ("input_tokens", "output_tokens", "total_tokens")),
    ("raw_responses", "responses"),
    ("run_id", "state.run_id"),
    ("stop_reason", "finish_reason"),
    ("to_json", "state.to_json()"),
    ("to_state", "state"),
    ("logs steps tool_calls", "calls"),
)


def _get_answer(result: RunResult[Any]) -> Any:
    return result.output if result.finish_reason == "stop" else str(result)


@dataclass(frozen=True, kw_only=True)
class RunResult(Generic[T]):
    """Result of a run.

    Attributes:
        output: The answer: a text, or a value of the run's `output_type`. If there is no answer, the model's last text;
            None if the `output_type` is not text.
        messages: The whole conversation. Pass it to the next run to continue.
        calls: Every call with its result, in the order of the conversation. Calls from before a resume have only their
            text and arguments: no value, exception, details or seconds.
        usage: Tokens and requests of the run.
        responses: Every response of the model with its start and duration, except those from before a resume.
        finish_reason: Why the run ended: `stop` (an answer), `paused` (calls wait for approval), `cancelled`, `stopped`
            (by an approver), `halted` (by `Halt`), the name of a limit such as `max_turns`, `length`, `content_filter`
            or `empty` (by the model), or `error` (in the `result` of an exception).
        model: Name of the model.
        state: The state of the run, to save it and to resume it.
        unread: Messages of `steer` and `follow_up` that came too late for the model.
        cost: Cost of the tokens by the `prices` of the run's limits. None without prices.
        undos: With `undo_on_failure`, the outcome of each undo, the last call first.
        abandoned: Number of functions that timed out or were cancelled and may still be running.
    """

    output: T
    messages: tuple[Message, ...] = field(repr=False)
    calls: tuple[ToolCallFinished, ...] = field(repr=False)
    usage: Usage
    finish_reason: FinishReason
    model: str
    state: RunState = field(repr=False)
    responses: tuple[TurnFinished, ...] = field(default=(), repr=False)
    unread: tuple[Message, ...] = field(default=(), repr=False)
    undos: tuple[Undo, ...] = field(default=(), repr=False)
    abandoned: int = field(default=0, repr=False)
    cost: float | None = field(default=None, repr=False)
    # Of a result that a tool returns only the answer is sent, without the conversation, details and exceptions.
    __pydantic_serializer__: ClassVar[SchemaSerializer] = SchemaSerializer(
        {"type": "any", "serialization": {"type": "function-plain", "function": _get_answer}}
    )

    def __str__(self) -> str:
        """Return the answer. If the run ended without one, return the last text and the reason."""
        text = str(self.state.output or "") if self.output is None else str(self.output)
        if self.finish_reason == "stop":
            return text
        return f"{text}\n{self._describe_end()}" if text else self._describe_end()

    def _describe_end(self) -> str:
        if self.is_paused:
            calls = ", ".join(map(str, self.pending))
            return f"[paused: {calls} {'wait' if self.pending[1:] else 'waits'} for approval]"
        reason = self.finish_reason
        stops = (str(call.exception) for call in self.calls if type(call.exception) is Stopped)
        if reason == "stopped" and (why := next(stops, "")):
            return f"[stopped: {why}]"
        return f"[{reason}]" if reason in REASONS_WITHOUT_ANSWER else f"[stopped: {reason}]"

    def _repr_html_(self) -> str:
        return render(self, "notebook.render_result")

    def _ipython_display_(self) -> None:
        """Display nothing if `show` has printed the run in this cell.

        Raises:
            NotImplementedError: This is another cell. IPython then displays what `_repr_html_` returns.
        """
        from toolkit.display.notebook import find_cell  # only a notebook asks

        if vars(self).get("_cell") != find_cell():
            raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run as an HTML page: the prompts, the answer, each call with its arguments and result.

        The page is one file, loads nothing and runs no script. It contains all texts of the run, secrets included.

        Raises:
            OSError: The file cannot be written.
        """
        Path(path).write_text(render(self, "page.render_page"), encoding="utf-8", errors="backslashreplace")

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(*((name, f"result.{ours}") for name, ours in OTHER_NAMES.items()))

    @property
    def is_paused(self) -> bool:
        """True if calls wait for approval: see `pending` and `Runner.resume`."""
        return self.finish_reason == "paused"

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """The calls that wait for approval."""
        return self.state.pending


def restore_result(state: RunState, output: Any, model: str, cost: float | None) -> RunResult[Any]:
    """Make the result of a run that has ended, from its saved state and from values that the state does not have."""
    return RunResult(
        output=output,
        messages=state.messages,
        calls=tuple(restore_calls(state).values()),
        usage=state.usage,
        finish_reason=state.finish_reason or "stop",
        model=model,
        state=state,
        cost=cost,
    )


def require_result(result: RunResult[T] | None) -> RunResult[T]:
    """Return the result of a run.

    Raises:
        RunError: The run has not ended.
    """
    if result is None:
        raise RunError("The run has not ended: read its events to the end first.")
    return result
