"""A run put away: plain data, enough to go on in another process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from toolkit._messages import (
    Answered,
    Brief,
    Message,
    ModelResponse,
    PendingApproval,
    ToolCall,
    ToolMessage,
    Usage,
    check_fields,
    message_from_dict,
    message_to_dict,
)
from toolkit.errors import ConversationError
from toolkit.numbering import is_own

Phase: TypeAlias = Literal["asking", "calling", "paused", "finished"]

# Raised when the form changes; a state of another version is refused.
VERSION = 1


@dataclass(frozen=True, kw_only=True, repr=False)
class RunState(Brief):
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
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ConversationError(f"This is not the state of a run: {type(error).__name__}: {error}") from error
        state.check()
        return state

    def check(self) -> None:
        """Check that a run can be in this state: a text that was cut or edited may hold one that is none.

        Raises:
            ConversationError: None can.
        """
        whys = (check(self) for check in (_wrong_phase, _wrong_results, _wrong_ids, _wrong_history))
        if why := next(filter(None, whys), ""):
            raise ConversationError(f"This is not the state of a run: {why}.")


def _check_version(version: Any) -> None:
    if version != VERSION:
        raise ConversationError(f"This state is of version {version!r}; this library reads version {VERSION}.")


def last_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Give the calls of the last message, where that is an answer of the model."""
    last = messages[-1] if messages else None
    return last.calls if isinstance(last, ModelResponse) else ()


def open_calls(messages: Sequence[Message], answered: Sequence[ToolMessage]) -> tuple[ToolCall, ...]:
    """Give the calls of the last message that have no result."""
    done = {result.call_id for result in answered}
    return tuple(call for call in last_calls(messages) if call.id not in done)


def answered_calls(messages: Sequence[Message], answered: Sequence[ToolMessage]) -> tuple[Answered, ...]:
    """Give the calls of the last message that have a result."""
    told = {result.call_id: result for result in answered}
    calls = enumerate(last_calls(messages))
    return tuple(Answered(place, call, told[call.id]) for place, call in calls if call.id in told)


def _wrong_phase(state: RunState) -> str:
    """Say that the last message has no calls where they are carried out or wait; or has some elsewhere."""
    has_open = bool(open_calls(state.messages, state.answered))
    if state.messages and has_open == (state.phase in ("calling", "paused")):
        return ""
    return f"a run that is {state.phase} does not end in {state.messages[-1:]!r:.100}"


def _wrong_results(state: RunState) -> str:
    """Say that what came of the last calls, or waits, is not one thing for each of them."""
    calls = [call.id for call in last_calls(state.messages)]
    told = [*(result.call_id for result in state.answered), *(waiting.call.id for waiting in state.pending)]
    if len({*calls}) < len(calls) or len({*told}) < len(told) or not {*told} <= {*calls}:
        return "results and approvals belong to the calls of the last answer, one to each"
    return "it is paused, and no call waits" if state.phase == "paused" and not state.pending else ""


def _wrong_ids(state: RunState) -> str:
    """Say that the calls of the run are not those that were counted: later ones would get ids that are taken."""
    made = [call.id for call in _made(state) if is_own(call.id, state.run_id)]
    is_counted = len({*made}) == len(made) == state.calls
    return "" if is_counted else f"its {state.calls} calls are not those of its messages"


def _wrong_history(state: RunState) -> str:
    """Say that the results in the history are not those of its calls, in call order."""
    told = [message.call_id for message in state.messages if isinstance(message, ToolMessage)]
    made = [call.id for call in _made(state)]
    is_whole = state.phase in ("asking", "finished")
    closed = made if is_whole else made[: len(made) - len(last_calls(state.messages))]
    return "" if told == closed else "its messages lack results of calls, or calls of results"


def _made(state: RunState) -> Iterator[ToolCall]:
    return (call for message in state.messages if isinstance(message, ModelResponse) for call in message.calls)


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
