"""The JSON form of events, for logs, queues and user interfaces in other languages.

One table says what is told of each kind of event, so that nothing is told by accident: no details, no values of
Python, no context, and of an exception the name of its class.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from pydantic_core import to_jsonable_python

from toolkit._messages import File, Image, PendingApproval, ToolCall, ToolResult, Usage, UserMessage, sendable
from toolkit.events import (
    ApprovalNeeded,
    Event,
    LimitReached,
    MessageAdded,
    OutputDelta,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallAbandoned,
    ToolCallFinished,
    ToolCallRetried,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
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
        return sendable(value)
    if isinstance(value, dict):
        return {sendable(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_strict, value))
    return json.dumps(value) if isinstance(value, float) and not isfinite(value) else value
