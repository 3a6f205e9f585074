"""A run put away: plain data, enough to go on in another process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from toolkit.errors import ConversationError
from toolkit.messages import (
    Message,
    ModelResponse,
    PendingApproval,
    ToolCall,
    ToolMessage,
    Usage,
)
from toolkit.transcripts import check_fields, message_from_dict, message_to_dict

Phase: TypeAlias = Literal["asking", "calling", "paused", "finished"]

# Reasons after which the model's last words are no answer.
UNANSWERED = frozenset({"cancelled", "error", "paused", "stopped"})
# Raised when the form changes; a state of another version is refused.
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class RunState:
    """A run put away: plain data, enough to go on in another process.

    Attributes:
        turn: Answers of the model so far.
        calls: Calls of those answers.
        used: Calls that were carried out, by tool.
        answered: Results of the calls of the last answer, while not all of them are there.
        pending: Calls of the last answer that wait for somebody's yes.
        reason: Why the run ended; empty while it has not.
        output: The answer, where that is no message of the model.
        last: Whether the next answer is the last, without tools.
        empty: How many answers in a row said nothing.
        retries: How many answers were refused.
    """

    run_id: str
    messages: tuple[Message, ...]
    phase: Phase = "asking"
    turn: int = 0
    calls: int = 0
    used: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    answered: tuple[ToolMessage, ...] = ()
    pending: tuple[PendingApproval, ...] = ()
    reason: str = ""
    output: str | None = None
    last: bool = False
    empty: int = 0
    retries: int = 0

    def changed(self, **changes: Any) -> RunState:
        """Make the same state with other values; `dataclasses.replace` takes six times as long."""
        state = object.__new__(RunState)
        vars(state).update(vars(self), **changes)
        return state

    def to_json(self) -> str:
        """Write the state as a JSON text."""
        plain = asdict(self.changed(messages=(), answered=(), used={}))
        told = {name: list(map(message_to_dict, getattr(self, name))) for name in ("messages", "answered")}
        return json.dumps({"version": VERSION, **plain, **told, "used": dict(self.used)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> RunState:
        """Read what `to_json` wrote.

        Raises:
            ConversationError: It is something else, or of another version, or no run can be in it.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            _check_version(data.pop("version", VERSION))
            state = cls(**{name: _READERS[name](value) if name in _READERS else value for name, value in data.items()})
            check_fields(state)
            _check_calls(state)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ConversationError(f"This is not the state of a run: {type(error).__name__}: {error}") from error
        return state


def _check_version(version: Any) -> None:
    if version != VERSION:
        raise ConversationError(f"This state is of version {version!r}; this library reads version {VERSION}.")


def _check_calls(state: RunState) -> None:
    """Check that the last message has calls where they are carried out or wait, and there only; and that these wait."""
    last = state.messages[-1] if state.messages else None
    calls = {call.id for call in last.calls} if isinstance(last, ModelResponse) else set()
    answered = {result.call_id for result in state.answered}
    waiting = {pending.call.id for pending in state.pending}
    has_open = bool(calls - answered)
    if last is None or has_open != (state.phase in ("calling", "paused")):
        raise ValueError(f"a run that is {state.phase} does not end in {last!r:.100}.")
    if not (answered <= calls and waiting <= calls - answered) or (state.phase == "paused" and not waiting):
        raise ValueError(
            "results and approvals belong to calls of the last answer, and approvals to those without a result."
        )


def _messages(data: Any) -> tuple[Any, ...]:
    return tuple(map(message_from_dict, data))


def _pending(data: Any) -> tuple[PendingApproval, ...]:
    return tuple(PendingApproval(**{**item, "call": ToolCall.of(item["call"])}) for item in data)


_READERS: Mapping[str, Any] = {
    "messages": _messages,
    "answered": _messages,
    "pending": _pending,
    "usage": lambda data: Usage(**data),
}
