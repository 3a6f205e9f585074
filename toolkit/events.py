"""Events of a run, and their JSON form.

A run emits events while it is active. `event_to_dict` converts them for logs, queues and user interfaces in other
languages. The JSON form has no details, no Python values and no context, and of an exception only the name of its
class.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolkit._lazy import lazy_names, render
from toolkit._messages import (
    Effect,
    File,
    Image,
    Message,
    ModelResponse,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
    clean_json,
    make_plain,
)
from toolkit._options import explain_missing

__all__ = [
    "ApprovalNeeded",
    "CallEvent",
    "Event",
    "LimitReached",
    "MessageAdded",
    "OutputDelta",
    "ReasoningDelta",
    "ResultsAdded",
    "RunFinished",
    "RunStarted",
    "SubAgentEvent",
    "TextDelta",
    "ToolArgumentsDelta",
    "ToolCallAbandoned",
    "ToolCallFinished",
    "ToolCallRetried",
    "ToolCallStarted",
    "ToolCallUpdated",
    "TurnFinished",
    "TurnStarted",
    "event_to_dict",
]


LimitName: TypeAlias = Literal[
    "max_turns", "max_calls", "max_seconds", "max_tokens", "max_input_tokens", "max_output_tokens", "max_cost"
]

FinishReason: TypeAlias = Literal[
    "stop", "paused", "cancelled", "stopped", "halted", "length", "content_filter", "empty", "error", LimitName
]
"""Reason why a run ended; see `RunResult.finish_reason`."""

# Finish reasons of a run whose last text is not an answer.
REASONS_WITHOUT_ANSWER: frozenset[FinishReason] = frozenset({"cancelled", "error", "paused", "stopped"})


@dataclass(frozen=True, kw_only=True)
class RunStarted:
    """The first event of a run.

    Attributes:
        name: Name of the runner; empty without one. It is not in the JSON form.
        address: Address of the model's server; empty if it is not known. It is not in the JSON form.
    """

    run_id: str
    model: str
    name: str = ""
    address: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True)
class TurnStarted:
    """The model is asked for a response.

    Attributes:
        turn: Number of the turn, from 0.
        messages: The conversation so far, before hooks shorten it. They are not in the JSON form.
    """

    turn: int
    messages: tuple[Message, ...] = field(default=(), compare=False, repr=False)


# Attributes of an event of a call, by the names that other libraries use.
_CALL_HINTS = (
    ("name tool tool_name", "event.call.name"),
    ("call_id id tool_call_id", "event.call.id"),
    ("args arguments input", "event.call.arguments"),
)


@dataclass(frozen=True)
class TextDelta:
    """A piece of the model's text."""

    text: str

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(("content data delta", "event.text"))


@dataclass(frozen=True)
class ReasoningDelta:
    """A piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ToolArgumentsDelta:
    """A piece of a call's arguments. The response may still be cut off.

    Attributes:
        index: Position of the call in the response, from 0.
        name: Name of the tool, as far as it has arrived.
    """

    index: int
    name: str
    text: str


@dataclass(frozen=True)
class OutputDelta:
    """The structured output so far, as a value of the run's `output_type`."""

    value: Any


@dataclass(frozen=True)
class MessageAdded:
    """A user message that was sent during the run was added to the conversation."""

    message: UserMessage


@dataclass(frozen=True, kw_only=True)
class TurnFinished:
    """The model's response is complete.

    Attributes:
        seconds: Duration of the turn, hooks included, calls not.
        started: When it started, in seconds since 1970.
    """

    turn: int
    response: ModelResponse
    seconds: float = field(default=0.0, compare=False, repr=False)
    started: float = field(default=0.0, compare=False, repr=False)


@dataclass(frozen=True)
class ToolCallStarted:
    """A call is passed to its tool.

    Attributes:
        title: The tool's name for people; empty without one.
        source: The origin of a tool that is not a function here, such as an MCP server. Otherwise empty.
    """

    call: ToolCall
    title: str = ""
    source: str = ""

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(*_CALL_HINTS)

    @property
    def name(self) -> str:
        """Name of the tool, as the model wrote it."""
        return self.call.name

    @property
    def arguments(self) -> str:
        """Arguments as JSON text, as the model wrote them."""
        return self.call.arguments


@dataclass(frozen=True)
class ToolCallUpdated:
    """A tool reported progress. The model does not see it.

    Attributes:
        text: Argument of `ToolContext.progress`.
        partial: The result so far, from `ToolContext.update`.
    """

    call: ToolCall
    text: str = ""
    partial: ToolResult | None = None

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(*_CALL_HINTS)


@dataclass(frozen=True, kw_only=True)
class ToolCallRetried:
    """An attempt failed, and another follows.

    Attributes:
        attempt: Number of the failed attempt, from 0.
        seconds: Delay before the next one.
    """

    call: ToolCall
    attempt: int
    error: BaseException
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ToolCallAbandoned:
    """A call timed out or was cancelled, and its function still runs, since a thread cannot be stopped.

    Attributes:
        count: Number of such functions that still run in this run.
    """

    call: ToolCall
    count: int


@dataclass(frozen=True)
class SubAgentEvent:
    """A run inside a call, such as that of a sub-agent, emitted an event.

    Attributes:
        call: The call of this run.
        event: The event of the inner run. For a run inside that one, another SubAgentEvent.
    """

    call: ToolCall
    event: Event


@dataclass(frozen=True, kw_only=True)
class PendingApproval:
    """A call that waits for approval, as plain data.

    Attributes:
        call: The call. A decision is for its `id`.
        digest: SHA-256 of the tool, its definition, the arguments and the call.
        arguments: The arguments as JSON for people: those that the model wrote, and the defaults of the others.
        title: The tool's name for people.
        effect: The effect of the tool: read, write or destructive. Empty if it is not declared.
        reason: Why the decision was deferred.
        source: The function or schema from which the tool was made.
        imports: The shared values that the call imports, as JSON by path.
        agent: The runner whose model made the call, as in `ToolContext`.
    """

    call: ToolCall
    digest: str
    arguments: str
    title: str = ""
    effect: Effect | Literal[""] = ""
    reason: str = ""
    source: str = ""
    imports: str = ""
    agent: str = ""

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(
            ("name tool tool_name", "pending.call.name"),
            ("call_id id tool_call_id", "pending.call.id"),
            ("args input", "pending.arguments"),
            ("approve reject", "runner.resume(state, {pending.call.id: True})"),
        )

    def __str__(self) -> str:
        """Return the call with the shared values that it imports, and the agent: `pay({"to": "Ann"}) by clerk`."""
        imports = f" with {self.imports}" if self.imports else ""
        agent = f" by {self.agent}" if self.agent else ""
        return f"{self.call.name}({self.arguments}){imports}{agent}"

    def _repr_html_(self) -> str:
        return render(self, "cards.render_pending")


@dataclass(frozen=True)
class ApprovalNeeded:
    """A call waits for approval."""

    approval: PendingApproval


@dataclass(frozen=True)
class ToolCallFinished:
    """A call has its result. The calls of one turn finish in any order.

    Attributes:
        call: The call as the model wrote it.
        seconds: Duration, gates included.
        ran: The call as it ran, if a hook, a middleware, an approver or a reference changed it. Otherwise None.
        title: The tool's name for people; empty without one.
        started: Start of the call, in seconds since 1970. 0 if it is not known.
    """

    call: ToolCall
    result: ToolResult
    seconds: float
    ran: ToolCall | None = None
    title: str = ""
    started: float = field(default=0.0, compare=False, repr=False)

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(
            *((name, f"call.result.{name}") for name in ("text", "value", "error", "is_error", "kind", "details")),
            ("content output", "call.result.text, or call.result.value"),
            ("args input kwargs parameters params", "call.arguments"),
            ("tool tool_name", "call.name"),
            ("call_id id tool_call_id", "call.call.id"),
            ("duration", "call.seconds"),
        )

    def __str__(self) -> str:
        """Return the call and its result on one line, long ones cut: `add(a=17, b=25) -> 42`."""
        return render(self, "formatting.format_finished")

    def _repr_html_(self) -> str:
        return render(self, "notebook.render_call")

    def _repr_pretty_(self, printer: Any, *_: object) -> None:
        printer.text(str(self))

    @property
    def name(self) -> str:
        """Name of the tool that ran. If the call did not run, as the model wrote it."""
        return (self.ran or self.call).name

    @property
    def proposed_name(self) -> str:
        """Name of the tool, as the model wrote it."""
        return self.call.name

    @property
    def arguments(self) -> str:
        """The arguments that ran, as JSON text. If the call did not run, as the model wrote them."""
        return (self.ran or self.call).arguments

    @property
    def proposed_arguments(self) -> str:
        """Arguments as JSON text, as the model wrote them."""
        return self.call.arguments

    @property
    def exception(self) -> BaseException | None:
        """The exception that the tool raised, with its traceback."""
        return self.result.exception


@dataclass(frozen=True, kw_only=True)
class ResultsAdded:
    """All calls of a turn have results, and these were added to the conversation.

    Attributes:
        turn: Number of the turn, as in `TurnFinished`.
        messages: The results as the model receives them, in call order.
    """

    turn: int
    messages: tuple[ToolMessage, ...]


@dataclass(frozen=True, kw_only=True)
class LimitReached:
    """The run reached a limit.

    Attributes:
        limit: Name of a field of `Limits`, such as `max_turns`.
    """

    limit: LimitName


@dataclass(frozen=True, kw_only=True)
class RunFinished:
    """The last event of a run.

    Attributes:
        output: The answer as text. A structured answer is JSON.
    """

    output: str
    finish_reason: FinishReason
    usage: Usage


# Events that a call emits while it runs.
CallEvent: TypeAlias = ToolCallUpdated | ToolCallRetried | ToolCallAbandoned | ApprovalNeeded | SubAgentEvent

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
    | ResultsAdded
    | MessageAdded
    | LimitReached
    | RunFinished
)


def event_to_dict(event: Event) -> dict[str, Any]:
    """Convert an event to a dict for JSON: a `type`, such as `toolCallFinished`, and its fields.

    Bytes become base64, NaN and infinity become strings, and unpaired surrogates are replaced. There is no inverse.

    Raises:
        TypeError: The value is not an event.

    Examples:
        >>> from toolkit.events import TextDelta
        >>> event_to_dict(TextDelta("Hello."))
        {'type': 'textDelta', 'text': 'Hello.'}
    """
    to_fields = _FIELDS.get(type(event))
    if to_fields is None:
        raise TypeError(f"{event!r} is not an event of a run.")
    name = type(event).__name__
    fields: dict[str, Any] = clean_json(to_fields(event))
    return {"type": name[0].lower() + name[1:], **fields}


def _response_fields(event: TurnFinished) -> dict[str, Any]:
    response = event.response
    return {
        "turn": event.turn,
        "text": response.text,
        "reasoning": response.reasoning,
        "calls": list(map(_call_fields, response.calls)),
        "finishReason": response.finish_reason,
        "model": response.model,
        "usage": _usage_fields(response.usage),
    }


def _approval_fields(approval: PendingApproval) -> dict[str, Any]:
    return {
        **_call_fields(approval.call),
        "arguments": approval.arguments,
        "digest": approval.digest,
        "title": approval.title,
        "effect": approval.effect,
        "reason": approval.reason,
        **_drop_empty(source=approval.source, imports=approval.imports, agent=approval.agent),
    }


def _call_fields(call: ToolCall) -> dict[str, Any]:
    return {**_call_ids(call), "arguments": call.arguments, **_drop_empty(reasoning=call.reasoning)}


def _drop_empty(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _call_ids(call: ToolCall) -> dict[str, Any]:
    return {"toolCallId": call.id, "toolName": call.name}


def _result_fields(result: ToolResult) -> dict[str, Any]:
    return {"isError": result.is_error, "kind": result.kind, **_content_fields(result)}


def _message_fields(message: ToolMessage) -> dict[str, Any]:
    return {
        "toolCallId": message.call_id,
        "toolName": message.name,
        "isError": message.is_error,
        **_content_fields(message),
    }


def _content_fields(source: ToolResult | ToolMessage | UserMessage) -> dict[str, Any]:
    return {
        "text": source.text or "",
        "images": list(map(_attachment_fields, source.images)),
        "files": list(map(_attachment_fields, source.files)),
    }


def _attachment_fields(attachment: Image | File) -> dict[str, Any]:
    name = {"name": attachment.name} if isinstance(attachment, File) else {}
    return {**name, "mediaType": attachment.media_type, "data": base64.b64encode(attachment.data).decode()}


def _usage_fields(usage: Usage) -> dict[str, int]:
    counts = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens, "requests": usage.requests}
    details = {"cachedTokens": usage.cached_tokens, "reasoningTokens": usage.reasoning_tokens}
    return {**counts, **_drop_empty(**details, cacheWriteTokens=usage.cache_write_tokens)}


def _class_name(error: BaseException | None) -> str | None:
    return None if error is None else type(error).__name__


_FIELDS: Mapping[type[Any], Callable[[Any], dict[str, Any]]] = {
    RunStarted: lambda event: {"runId": event.run_id, "model": event.model},
    TurnStarted: lambda event: {"turn": event.turn},
    TextDelta: lambda event: {"text": event.text},
    ReasoningDelta: lambda event: {"text": event.text},
    ToolArgumentsDelta: lambda event: {"index": event.index, "toolName": event.name, "text": event.text},
    OutputDelta: lambda event: {"value": make_plain(event.value)},
    MessageAdded: lambda event: _content_fields(event.message),
    TurnFinished: _response_fields,
    ToolCallStarted: lambda event: {
        **_call_fields(event.call),
        **_drop_empty(title=event.title, source=event.source),
    },
    ToolCallUpdated: lambda event: {
        **_call_ids(event.call),
        "text": event.text,
        "partial": _result_fields(event.partial) if event.partial else None,
    },
    ToolCallRetried: lambda event: {
        **_call_ids(event.call),
        "attempt": event.attempt,
        "exception": _class_name(event.error),
        "seconds": event.seconds,
    },
    ToolCallAbandoned: lambda event: {**_call_ids(event.call), "count": event.count},
    SubAgentEvent: lambda event: {**_call_ids(event.call), "event": event_to_dict(event.event)},
    ApprovalNeeded: lambda event: _approval_fields(event.approval),
    ToolCallFinished: lambda event: {
        **_call_ids(event.ran or event.call),
        **_result_fields(event.result),
        "exception": _class_name(event.exception),
        "seconds": event.seconds,
        **({"arguments": event.arguments} if event.ran else {}),
        **({"proposedToolName": event.proposed_name} if event.name != event.proposed_name else {}),
        **_drop_empty(title=event.title),
    },
    ResultsAdded: lambda event: {"turn": event.turn, "results": list(map(_message_fields, event.messages))},
    LimitReached: lambda event: {"limit": event.limit},
    RunFinished: lambda event: {
        "output": event.output,
        "finishReason": event.finish_reason,
        "usage": _usage_fields(event.usage),
    },
}


if not TYPE_CHECKING:  # with __getattr__, a type checker would accept any name
    __getattr__, *_ = lazy_names(globals(), {})  # other names are explained
