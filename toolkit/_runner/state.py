"""A run put away: plain data, enough to go on in another process.

Ids of calls: ours, and those that the provider is shown; unique in a history, whatever the provider sent.

What a conversation says is to be done next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, count
from typing import Any, Literal, TypeAlias

from toolkit._messages import (
    AnsweredCall,
    FrozenValue,
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

# What tells an answer from others.
Answer: TypeAlias = tuple[int, int]


def is_own(call_id: str, run_id: str) -> bool:
    """Tell whether an id of a call is ours, given in a run."""
    return call_id.startswith(f"{run_id[:8]}_")


class CallIds:
    """Gives the calls of one conversation their ids.

    Args:
        run_id: Makes ids unique beyond this run.
        messages: What was said before, with the ids that are taken.
    """

    def __init__(self, run_id: str, messages: Iterable[Message]) -> None:
        self._prefix = run_id[:8]
        calls = (call for m in messages if isinstance(m, ModelResponse) for call in m.calls)
        self._taken = {call.provider_call_id for call in calls}
        self._foreseen: dict[str, tuple[Answer, str, str]] = {}

    def foreseen(self, call: ToolCall, number: int, at: Answer) -> ToolCall:
        """Give a call of an answer that still arrives the id that it will have, and no other call."""
        own = self._own(call, number, at)
        self._foreseen[own] = at, call.name, call.arguments
        return call.replace(id=own)

    def assign(self, call: ToolCall, number: int, at: Answer) -> ToolCall:
        """Give a call our id, and one for the provider that no other call of the history has.

        Args:
            call: What the model wrote.
            number: Which call of the run it is.
            at: Which answer holds it, as told from others.
        """
        own = self._own(call, number, at)
        candidates = chain((call.provider_call_id, own), (f"{own}_{again}" for again in count(2)))
        unused = next(one for one in candidates if one.strip() and one not in self._taken)
        self._taken.add(unused)
        return call.replace(id=own, provider_call_id=unused)

    def _own(self, call: ToolCall, number: int, at: Answer) -> str:
        """Say what our id of a call is: by its number, and promised to no other call."""
        own = first = f"{self._prefix}_{number}"
        identity, others = (at, call.name, call.arguments), count(2)
        while self._foreseen.get(own, identity) != identity:
            own = f"{first}_{next(others)}"
        return own


Phase: TypeAlias = Literal["asking", "calling", "paused", "finished"]

# Raised when the form changes; a state of another version is refused.
VERSION = 1


@dataclass(frozen=True, kw_only=True, repr=False)
class RunState(FrozenValue):
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
        plain = asdict(self.replace(messages=(), answered=(), used={}))
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


def answered_calls(messages: Sequence[Message], answered: Sequence[ToolMessage]) -> tuple[AnsweredCall, ...]:
    """Give the calls of the last message that have a result."""
    told = {result.call_id: result for result in answered}
    calls = enumerate(last_calls(messages))
    return tuple(AnsweredCall(place, call, told[call.id]) for place, call in calls if call.id in told)


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
    return tuple(PendingApproval(**{**item, "call": ToolCall.from_dict(item["call"])}) for item in data)


_READERS: Mapping[str, Any] = {
    "messages": _messages,
    "answered": _messages,
    "pending": _pending,
    "usage": lambda data: Usage(**data),
}


@dataclass(frozen=True)
class CallModel:
    """Ask the model; on a last turn without tools."""

    messages: tuple[Message, ...]
    turn: int
    with_tools: bool


@dataclass(frozen=True)
class RunCalls:
    """Carry these calls out.

    Attributes:
        answered: The other calls of the same answer, in call order.
    """

    calls: tuple[ToolCall, ...]
    turn: int
    answered: tuple[AnsweredCall, ...] = ()


@dataclass(frozen=True)
class Paused:
    """Calls wait for somebody's yes."""

    pending: tuple[PendingApproval, ...]


@dataclass(frozen=True)
class Finished:
    """The run is over."""

    output: str
    reason: str


Step: TypeAlias = CallModel | RunCalls | Paused | Finished
