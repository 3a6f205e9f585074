"""What happens in a run, as it happens: frozen values, in the order of the run.

The JSON form of events, for logs, queues and user interfaces in other languages.

One table says what is told of each kind of event, so that nothing is told by accident: no details, no values of
Python, no context, and of an exception the name of its class.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

from pydantic_core import to_jsonable_python

from toolkit._messages import (
    File,
    Image,
    ModelResponse,
    PendingApproval,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    replace_surrogates,
)


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


def event_to_dict(event: Event) -> dict[str, Any]:
    """Write an event as data that every JSON writer takes: a `type`, such as `toolCallFinished`, and its facts.

    Bytes are in base64; numbers that JSON has no word for, such as NaN, are texts; halves of characters are replaced.
    There is no way back: what happened is told, not kept.

    Raises:
        TypeError: It is no event of a run.

    Example:
        >>> from toolkit.events import TextDelta
        >>> event_to_dict(TextDelta("Hello."))
        {'type': 'textDelta', 'text': 'Hello.'}
    """
    form = _FORMS.get(type(event))
    if form is None:
        raise TypeError(f"{event!r} is no event of a run.")
    name = type(event).__name__
    facts: dict[str, Any] = _strict(form(event))
    return {"type": name[0].lower() + name[1:], **facts}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"toolCallId": call.id, "toolName": call.name}


def _written(call: ToolCall) -> dict[str, Any]:
    return {**_call(call), "arguments": call.arguments, **_reasoned(call)}


def _reasoned(call: ToolCall) -> dict[str, Any]:
    return {"reasoning": call.reasoning} if call.reasoning else {}


def _approval(approval: PendingApproval) -> dict[str, Any]:
    about = {"digest": approval.digest, "title": approval.title, "effect": approval.effect, "reason": approval.reason}
    return {**_call(approval.call), "arguments": approval.arguments, **_reasoned(approval.call), **about}


def _attached(told: ToolResult | UserMessage) -> dict[str, Any]:
    return {"text": told.text or "", "images": list(map(_part, told.images)), "files": list(map(_part, told.files))}


def _part(part: Image | File) -> dict[str, Any]:
    named = {"name": part.name} if isinstance(part, File) else {}
    return {**named, "mediaType": part.media_type, "data": base64.b64encode(part.data).decode()}


def _result(result: ToolResult) -> dict[str, Any]:
    return {"isError": result.is_error, "kind": result.kind, **_attached(result)}


def _class(error: BaseException | None) -> str | None:
    return None if error is None else type(error).__name__


def _usage(usage: Usage) -> dict[str, int]:
    return {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens, "requests": usage.requests}


def _turn(event: TurnFinished) -> dict[str, Any]:
    response = event.response
    return {
        "turn": event.turn,
        "text": response.text,
        "reasoning": response.reasoning,
        "calls": list(map(_written, response.calls)),
        "finishReason": response.finish_reason,
        "model": response.model,
        "usage": _usage(response.usage),
    }


_FORMS: Mapping[type[Any], Callable[[Any], dict[str, Any]]] = {
    RunStarted: lambda event: {"runId": event.run_id, "model": event.model},
    TurnStarted: lambda event: {"turn": event.turn},
    TextDelta: lambda event: {"text": event.text},
    ReasoningDelta: lambda event: {"text": event.text},
    ToolArgumentsDelta: lambda event: {"index": event.index, "toolName": event.name, "text": event.text},
    OutputDelta: lambda event: {"value": _plain(event.value)},
    MessageAdded: lambda event: _attached(event.message),
    TurnFinished: _turn,
    ToolCallStarted: lambda event: _written(event.call),
    ToolCallUpdated: lambda event: {
        **_call(event.call),
        "text": event.text,
        "partial": _result(event.partial) if event.partial else None,
    },
    ToolCallRetried: lambda event: {
        **_call(event.call),
        "attempt": event.attempt,
        "exception": _class(event.error),
        "seconds": event.seconds,
    },
    ToolCallAbandoned: lambda event: {**_call(event.call), "count": event.count},
    ApprovalNeeded: lambda event: _approval(event.approval),
    ToolCallFinished: lambda event: {
        **_call(event.call),
        **_result(event.result),
        "exception": _class(event.exception),
        "seconds": event.seconds,
    },
    LimitReached: lambda event: {"limit": event.limit},
    RunFinished: lambda event: {
        "output": event.output,
        "finishReason": event.finish_reason,
        "usage": _usage(event.usage),
    },
}


def _plain(value: Any) -> Any:
    """Make JSON of a value of the user's type."""
    try:
        return to_jsonable_python(value, bytes_mode="base64", fallback=str)
    except Exception:  # noqa: BLE001  values are the user's: anything may happen while one is read
        return f"<{type(value).__name__}>"


def _strict(value: Any) -> Any:
    """Put right what a JSON writer would refuse, or write as something that is no JSON."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_strict, value))
    return json.dumps(value) if isinstance(value, float) and not isfinite(value) else value
