"""State of a run: plain data, enough to continue in another process."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic_core import ValidationError

from toolkit._messages import (
    FrozenValue,
    Message,
    ModelResponse,
    ToolCall,
    ToolMessage,
    Usage,
    get_last_calls,
    get_open_calls,
    message_from_dict,
    message_to_dict,
)
from toolkit._options import explain_missing
from toolkit._schema.json_text import dump_json
from toolkit.errors import ConversationError
from toolkit.events import FinishReason, PendingApproval, ToolCallFinished

Phase: TypeAlias = Literal["asking", "calling", "paused", "finished"]

# Increased when the format changes; a state of another version is rejected.
VERSION = 1


@dataclass(frozen=True)
class PausedSubAgent:
    """The run of a sub-agent that waits for approval.

    Attributes:
        digest: Digest of the call of the sub-agent, which has passed its gates.
        state: State of its run.
    """

    digest: str
    state: RunState


@dataclass(frozen=True, kw_only=True, repr=False)
class RunState(FrozenValue):
    """State of a run: plain data, enough to continue in another process.

    Attributes:
        run_id: The run's id.
        messages: The whole history.
        start: Number of messages from before the run's first response: earlier ones, and the prompt.
        phase: The next step: `asking` the model, `calling` tools, `paused`, or `finished`.
        turns: Responses of the model so far, and the answer of a Halt.
        call_count: Calls in those responses.
        calls_by_tool: Calls that ran, by tool.
        usage: Tokens and requests, summed over the run.
        results: Results of the calls of the last response, while other calls have none.
        pending: Calls that wait for approval: those of the last response, and those of its sub-agents.
        sub_agents: The sub-agents that wait for approval, by the ids of their calls.
        finish_reason: Why the run ended, or the limit that was reached. Otherwise empty.
        output: The answer, if it is not the text of the last response.
        allowed_tools: Names of the tools that this run may call, if they were limited.
        offered: Names of the tools that the last response may call, if a hook has limited them.
        is_last_turn: Whether the next response is the last, without tools.
        empty_responses: Empty responses in a row.
        output_retries: Number of answers that did not fit the output type.
    """

    run_id: str
    messages: tuple[Message, ...]
    start: int = 0
    phase: Phase = "asking"
    turns: int = 0
    call_count: int = 0
    calls_by_tool: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    results: tuple[ToolMessage, ...] = ()
    pending: tuple[PendingApproval, ...] = ()
    sub_agents: Mapping[str, PausedSubAgent] = field(default_factory=dict)
    finish_reason: FinishReason | Literal[""] = ""
    output: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    offered: tuple[str, ...] | None = None
    is_last_turn: bool = False
    empty_responses: int = 0
    output_retries: int = 0

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(
            ("approve reject", "runner.resume(state, {pending.call.id: True for pending in state.pending})"),
            ("get_interruptions interruptions", "state.pending"),
        )

    def __repr__(self) -> str:
        counts = f"messages: {len(self.messages)}, turns: {self.turns}, pending: {len(self.pending)}"
        return f"<RunState {self.run_id}, {self.finish_reason or self.phase}, {counts}>"

    def _repr_html_(self) -> str:
        from toolkit.display.notebook import render_state  # only a notebook asks

        return render_state(self, restore_calls(self).values())

    def to_json(self, *, key: str | bytes | None = None) -> str:
        """Write the state as JSON. With a key, sign it by HMAC-SHA-256.

        Raises:
            ValueError: The key is empty.
        """
        _check_key(key)
        data = {"version": VERSION, **_to_dict(self)}
        if key is not None:
            data["signature"] = _sign(data, key)
        return dump_json(data)

    @classmethod
    def from_json(cls, text: str, *, key: str | bytes | None = None) -> RunState:
        """Read the output of `to_json`.

        Args:
            text: The output of `to_json`.
            key: The key of the signature. Without a key, signatures are not checked.

        Raises:
            ConversationError: The text is not a valid state, is of another version, or was not signed with this key.
            ValueError: The key is empty.
        """
        _check_key(key)
        try:
            data: dict[str, Any] = json.loads(text)
            signature = data.pop("signature", "")
            if key is not None and not _is_signature(signature, data, key):
                raise ConversationError("This state was not signed with this key, or was changed since.")
            version = data.pop("version", VERSION)
            if version != VERSION:
                raise ConversationError(f"This state is of version {version!r}; this library reads version {VERSION}.")
            state = _from_dict(data)
            _check_fields(state)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ConversationError(f"This is not the state of a run: {type(error).__name__}: {error}") from error

        state.check()
        return state

    def check(self) -> None:
        """Check that the state is consistent. A text that was cut or edited might not be.

        Raises:
            ConversationError: The state is not consistent.
        """
        calls = [call.id for call in _iter_calls(self)]
        own = [call_id for call_id in calls if is_own_id(call_id, self.run_id)]
        last = [call.id for call in get_last_calls(self.messages)]
        waiting = get_ids(self.pending)
        inner = list_inner(self.sub_agents)
        own_waiting = get_ids(list_own(self.pending, self.sub_agents))
        ended_or_waiting = [*(result.call_id for result in self.results), *own_waiting, *self.sub_agents]
        last_kind = type(self.messages[-1]).__name__ if self.messages else "nothing"
        is_open = self.phase in ("calling", "paused")
        has_end = self.messages and is_open == bool(get_open_calls(self.messages, self.results))
        belong = _are_unique(last) and _are_unique(ended_or_waiting) and {*ended_or_waiting} <= {*last}
        are_paused = all(paused.state.phase == "paused" for paused in self.sub_agents.values())
        counts = (self.start, self.turns, self.empty_responses, self.output_retries, *self.calls_by_tool.values())
        rules = {
            "a count is below 0": min(*counts, *vars(self.usage).values()) >= 0,
            f"a run that is {self.phase} does not end in {last_kind}": has_end,
            "results and approvals belong to the calls of the last answer, one to each": belong,
            "it is paused, and no call waits": self.phase != "paused" or self.pending,
            "a sub-agent of it waits, and none of its calls does": are_paused
            and all(each in self.pending for each in inner),
            "two calls of one id wait": _are_unique(waiting),
            # Later calls would get ids that are taken.
            f"its {self.call_count} calls are not those of its messages": _are_unique(own)
            and len(own) == self.call_count,
            "its messages lack results of calls, or calls of results": _has_results(
                self.messages[:-1] if is_open else self.messages
            ),
        }
        if error := next((rule for rule, is_met in rules.items() if not is_met), ""):
            raise ConversationError(f"This is not the state of a run: {error}.")
        for paused in self.sub_agents.values():
            paused.state.check()


def _are_unique(ids: Collection[str]) -> bool:
    return len({*ids}) == len(ids)


def get_ids(pending: Iterable[PendingApproval]) -> list[str]:
    """Return the ids of calls that wait for approval."""
    return [waiting.call.id for waiting in pending]


def list_inner(sub_agents: Mapping[str, PausedSubAgent]) -> list[PendingApproval]:
    """List the calls of sub-agents that wait for approval."""
    return [waiting for paused in sub_agents.values() for waiting in paused.state.pending]


def list_own(pending: Iterable[PendingApproval], sub_agents: Mapping[str, PausedSubAgent]) -> list[PendingApproval]:
    """List the run's own calls that wait for approval, without those of its sub-agents."""
    inner = list_inner(sub_agents)
    return [waiting for waiting in pending if waiting not in inner]


def _check_key(key: str | bytes | None) -> None:
    if key is not None and not key:
        raise ValueError("key= is empty, so anyone could sign the state: pass a secret, or leave key out.")


def _is_signature(signature: object, data: Mapping[str, Any], key: str | bytes) -> bool:
    """Compare in constant time, so that a signature cannot be guessed piece by piece."""
    import hmac

    return hmac.compare_digest(str(signature).encode(), _sign(data, key).encode())


def _sign(data: Mapping[str, Any], key: str | bytes) -> str:
    """Return the signature of a state. The order of its keys and their spacing do not matter."""
    import hmac  # only a signed state needs it

    own = key.encode() if isinstance(key, str) else key
    return hmac.new(own, json.dumps(data, sort_keys=True).encode(), "sha256").hexdigest()


def _to_dict(state: RunState) -> dict[str, Any]:
    messages = {name: list(map(message_to_dict, getattr(state, name))) for name in ("messages", "results")}
    agents = {
        call_id: {"digest": paused.digest, "state": _to_dict(paused.state)}
        for call_id, paused in state.sub_agents.items()
    }
    pending = [*map(asdict, state.pending)]
    counts = dict(state.calls_by_tool)
    plain = {"usage": vars(state.usage), "pending": pending, "calls_by_tool": counts, "sub_agents": agents}
    return {**vars(state), **messages, **plain}


def _from_dict(data: Mapping[str, Any]) -> RunState:
    parsed = {name: parse(data[name]) for name, parse in _PARSERS.items() if name in data}
    return RunState(**{**data, **parsed})


def _parse_sub_agents(data: Mapping[str, Any]) -> dict[str, PausedSubAgent]:
    return {
        call_id: PausedSubAgent(**{**paused, "state": _from_dict(paused["state"])}) for call_id, paused in data.items()
    }


def _parse_messages(data: Any) -> tuple[Any, ...]:
    return tuple(map(message_from_dict, data))


def load_pending(data: Mapping[str, Any]) -> PendingApproval:
    """Read a pending call from the dict of its fields."""
    return PendingApproval(**{**data, "call": ToolCall.from_dict(data["call"])})


_PARSERS: Mapping[str, Any] = {
    "messages": _parse_messages,
    "results": _parse_messages,
    "pending": lambda data: tuple(map(load_pending, data)),
    "sub_agents": _parse_sub_agents,
    "usage": lambda data: Usage(**data),
    "allowed_tools": lambda data: tuple(data) if data and isinstance(data, list) else data,
    "offered": lambda data: tuple(data) if isinstance(data, list) else data,
}


def _has_results(messages: Sequence[Message]) -> bool:
    """Return whether each call has one result, in call order, directly after its response."""
    due: Sequence[tuple[str, str]] = ()
    for message in messages:
        given = (message.call_id, message.provider_call_id) if isinstance(message, ToolMessage) else None
        if given != next(iter(due), None):
            return False
        calls = message.calls if isinstance(message, ModelResponse) else ()
        due = due[1:] or [(call.id, call.provider_call_id) for call in calls]
    return not due


def _iter_calls(state: RunState) -> Iterator[ToolCall]:
    return (call for message in state.messages if isinstance(message, ModelResponse) for call in message.calls)


def restore_calls(state: RunState) -> dict[str, ToolCallFinished]:
    """Return the calls of a saved run that have a result, by call id."""
    calls = {call.id: call for call in _iter_calls(state) if is_own_id(call.id, state.run_id)}
    results = (*(message for message in state.messages if isinstance(message, ToolMessage)), *state.results)
    return {
        message.call_id: ToolCallFinished(calls[message.call_id], message.to_result(), 0.0)
        for message in results
        if message.call_id in calls
    }


def is_own_id(call_id: str, run_id: str) -> bool:
    """Return whether a call id was assigned in a run."""
    return call_id.startswith(f"{run_id[:8]}_")


def _check_fields(state: RunState) -> None:
    """Raise ValueError for a field that, at any depth, is not of its declared type."""
    try:
        make_state_validator().validate_python(state)
    except ValidationError as error:
        name = str(error.errors(include_url=False)[0]["loc"][0])
        kind = RunState.__annotations__[name]
        raise ValueError(f"{name}={getattr(state, name)!r:.100} is not of type {kind}.") from None


@cache
def make_state_validator() -> Any:
    """Make the validator of states, which is slow the first time."""
    from pydantic import ConfigDict, TypeAdapter  # slow to load

    strict = ConfigDict(strict=True, revalidate_instances="always", arbitrary_types_allowed=True)
    return TypeAdapter(RunState | None, config=strict)  # of a union, since a dataclass alone takes no configuration
