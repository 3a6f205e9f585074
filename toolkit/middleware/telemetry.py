"""OpenTelemetry: spans and metrics of runs, by the semantic conventions for generative AI, version 0.1.0.

The names are those of https://github.com/open-telemetry/semantic-conventions-genai. They are still in development.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from toolkit._execution.approval import Deferred
from toolkit._execution.dispatcher import Next
from toolkit._messages import Message, ModelResponse, SystemMessage, ToolCall, ToolMessage, ToolResult
from toolkit._schema.json_text import load_if_json
from toolkit.errors import ToolError
from toolkit.events import (
    Event,
    OutputDelta,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolArgumentsDelta,
    TurnFinished,
    TurnStarted,
)

MAX_NAME = 100  # characters of a tool's name, which a model may invent
# The conventions have no attribute for the id of a run, which stays the same when the run is resumed.
RUN_ID = "toolkit.run.id"
# Bucket boundaries of the histograms, in seconds.
SHORT = [0.01 * 2**power for power in range(14)]
LONG = [0.1 * 2**power for power in range(13)]
# The pieces of a streamed response.
DELTAS = (TextDelta, ReasoningDelta, ToolArgumentsDelta, OutputDelta)
# Fields of Usage by their names in the conventions.
TOKENS: Mapping[str, str] = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read.input_tokens": "cached_tokens",
    "cache_write.input_tokens": "cache_write_tokens",
    "reasoning.output_tokens": "reasoning_tokens",
}


@dataclass
class _TracedRun:
    """A run that has not ended.

    Attributes:
        span: Its span; for a durable run the span around the step.
        model: The name of its model.
        agent: The attribute with its runner's name; empty if it has no name.
        server: The attributes of the model's server; empty if it is not known.
        start: Time of its start, on the clock of `time.perf_counter`.
        turn_start: Start of the pending request to the model, in seconds since 1970; 0 if none is pending.
        first_chunk: Arrival of the first piece of its response, in seconds since 1970; 0 before.
        messages: Messages of that request.
        has_input: Whether its span has the messages of its first request.
    """

    span: Span
    model: str = ""
    agent: Mapping[str, str] = field(default_factory=dict)
    server: Mapping[str, str | int] = field(default_factory=dict)
    start: float = field(default_factory=time.perf_counter)
    turn_start: float = 0.0
    first_chunk: float = 0.0
    messages: tuple[Message, ...] = ()
    has_input: bool = False


class Telemetry:
    """A middleware that reports runs to OpenTelemetry.

    A run is a span `invoke_agent`, with a span `chat` for each response of the model and a span `execute_tool` for each
    call. Spans of a tool and the run of a sub-agent are inside the span of the call, so a sub-agent needs no Telemetry.
    The metrics are the durations of all three and the time to the first chunk of a streamed response, in seconds, and
    the tokens of the responses.

    A durable run has no span `invoke_agent`. The spans of its responses and calls are inside the current span, such as
    one of temporalio's `TracingInterceptor`.

    Args:
        content: Whether spans contain the messages, arguments and results, which may be secret.
        provider: The name of the model's provider in OpenTelemetry's conventions, such as "anthropic" or
            "azure.ai.openai".
        tracer_provider: The tracer provider. By default the global one.
        meter_provider: The meter provider. By default the global one.

    Examples:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> Runner(model=ScriptedModel(["Hello."]), middleware=[Telemetry()]).run("Hi!").output
        'Hello.'
    """

    def __init__(
        self,
        *,
        content: bool = False,
        provider: str = "openai",
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._content = content
        self._provider = provider
        self._tracer = trace.get_tracer("toolkit", tracer_provider=tracer_provider)
        meter = metrics.get_meter("toolkit", meter_provider=meter_provider)
        self._run_seconds, self._turn_seconds, self._first_chunk_seconds, self._call_seconds = (
            meter.create_histogram(f"gen_ai.{name}", "s", explicit_bucket_boundaries_advisory=buckets)
            for name, buckets in (
                ("invoke_agent.duration", LONG),
                ("client.inference.duration", SHORT),
                ("client.inference.time_to_first_chunk", SHORT),
                ("execute_tool.duration", SHORT),
            )
        )
        self._tokens = {
            name: meter.create_counter(f"gen_ai.client.inference.usage.{name}", "{token}") for name in TOKENS
        }
        self._runs: dict[str, _TracedRun] = {}

    def on_event(self, event: Event | BaseException, run_id: str) -> None:
        """Start and end the spans of a run and of its model's responses."""
        run = self._runs.get(run_id)
        if isinstance(event, RunStarted):
            agent = {"gen_ai.agent.name": event.name} if event.name else {}
            attributes = {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": self._provider,
                "gen_ai.request.model": event.model,
                RUN_ID: run_id,
            }
            span = self._tracer.start_span(f"invoke_agent {event.name}".rstrip(), attributes={**attributes, **agent})
            self._runs[run_id] = _TracedRun(span, event.model, agent, _read_server(event.address))
        elif isinstance(event, TurnFinished):
            turn = run or _TracedRun(trace.get_current_span(), event.response.model)
            self._record_turn(turn, run_id, event.started or time.time(), event.response)
        elif run is None:
            return
        elif isinstance(event, TurnStarted):
            if not run.has_input:
                self._add_messages(run.span, "input", event.messages)
                run.has_input = True
            run.turn_start = time.time()
            run.first_chunk = 0.0
            run.messages = event.messages
        elif isinstance(event, DELTAS):
            run.first_chunk = run.first_chunk or time.time()
        elif isinstance(event, RunFinished):
            answer = ModelResponse(text=event.output, finish_reason=event.finish_reason)
            self._add_messages(run.span, "output", (answer,) if answer.text else ())
            self._finish_run(run_id, run, reason=event.finish_reason)
        elif isinstance(event, Exception):
            self._finish_run(run_id, run, error=event)
        elif isinstance(event, BaseException):  # somebody has left the stream, or cancelled the task
            self._finish_run(run_id, run, reason="cancelled")

    async def __call__(self, call: ToolCall, call_next: Next) -> ToolResult:
        """Execute a call inside a span."""
        run_id = call_next.context.run_id
        start = time.perf_counter()
        name = call.name[:MAX_NAME]
        run = self._runs.get(run_id) or _TracedRun(trace.get_current_span())
        known = name if name in call_next.tools else "unknown"  # a model may invent any number of names
        measured = {"gen_ai.tool.name": known, "gen_ai.tool.type": "function", **run.agent}
        attributes = {
            **measured,
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call.id,
            RUN_ID: run_id,
        }
        if name in call_next.tools:
            attributes["gen_ai.tool.description"] = call_next.tools[name].description
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = call.arguments
        span = self._tracer.start_span(
            f"execute_tool {known}", trace.set_span_in_context(run.span), attributes=attributes
        )

        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                result = await call_next(call)
            if result.is_error:
                self._fail(span, measured, result.kind or "failed", result.text)
            if self._content:
                span.set_attribute("gen_ai.tool.call.result", result.text)
        except Deferred:  # it has not failed: it waits for approval
            raise
        except BaseException as error:
            kind = error.kind if isinstance(error, ToolError) else type(error).__qualname__
            self._fail(span, measured, kind, str(error))
            raise
        else:
            return result
        finally:
            span.end()
            self._call_seconds.record(time.perf_counter() - start, measured)

    def _record_turn(
        self,
        run: _TracedRun,
        run_id: str,
        start: float,
        response: ModelResponse | None = None,
        error: Exception | None = None,
    ) -> None:
        """Record the span and the metrics of a response, or of a request that failed without one."""
        measured: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": self._provider}
        measured |= {"gen_ai.request.model": run.model, **run.server}
        attributes: dict[str, Any] = {**measured, RUN_ID: run_id}
        counts = {name: getattr(response.usage, own) for name, own in TOKENS.items()} if response else {}
        usage = {name: count for name, count in counts.items() if count}  # 0: the server does not report it
        if response:
            attributes["gen_ai.response.model"] = response.model or run.model
            attributes["gen_ai.response.finish_reasons"] = [response.finish_reason]
            attributes |= {f"gen_ai.usage.{name}": count for name, count in usage.items()}
        if run.first_chunk:
            seconds = max(0.0, run.first_chunk - start)
            attributes |= {"gen_ai.request.stream": True, "gen_ai.response.time_to_first_chunk": seconds}
            self._first_chunk_seconds.record(seconds, measured)
        parent = trace.set_span_in_context(run.span)
        start_time = int(start * 1e9)
        span = self._tracer.start_span(f"chat {run.model}", parent, SpanKind.CLIENT, attributes, start_time=start_time)
        self._add_messages(span, "input", run.messages)
        self._add_messages(span, "output", (response,) if response else ())
        run.turn_start = 0.0
        run.first_chunk = 0.0
        run.messages = ()
        if error:
            self._fail(span, measured, type(error).__qualname__, str(error))
        span.end()
        self._turn_seconds.record(max(0.0, time.time() - start), measured)
        for name, count in usage.items():
            self._tokens[name].add(count, {**measured, "gen_ai.token.modality": "unknown"})

    def _finish_run(self, run_id: str, run: _TracedRun, *, reason: str = "", error: Exception | None = None) -> None:
        if run.turn_start:  # the request failed, or the run was cancelled or timed out before the response
            self._record_turn(run, run_id, run.turn_start, error=error)
        measured: dict[str, Any] = {"gen_ai.request.model": run.model, **run.agent}
        if reason:
            run.span.set_attribute("gen_ai.response.finish_reasons", [reason])
        if error:
            self._fail(run.span, measured, type(error).__qualname__, str(error))
        run.span.end()
        self._run_seconds.record(time.perf_counter() - run.start, measured)
        del self._runs[run_id]

    def _add_messages(self, span: Span, kind: str, messages: Iterable[Message]) -> None:
        """Add messages to a span, if it contains any content."""
        if self._content and (written := [*map(_write_message, messages)]):
            span.set_attribute(f"gen_ai.{kind}.messages", json.dumps(written))

    def _fail(self, span: Span, measured: dict[str, Any], error: str, message: str) -> None:
        """Note an error in a span and in the attributes of its metrics. Its message is content."""
        measured["error.type"] = error
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR, message if self._content else None))


def _read_server(address: str) -> dict[str, str | int]:
    """Return the attributes of a server by its address. An empty address has none."""
    parts = urlsplit(address)
    if not parts.hostname:
        return {}
    return {"server.address": parts.hostname, "server.port": parts.port or (80 if parts.scheme == "http" else 443)}


def _write_message(message: Message) -> dict[str, Any]:
    """Write a message by the conventions' JSON Schemas of messages, without images and files."""
    if isinstance(message, ModelResponse):
        parts: list[dict[str, Any]] = []
        if message.reasoning:
            parts.append({"type": "reasoning", "content": message.reasoning})
        if message.text:
            parts.append({"type": "text", "content": message.text})
        for call in message.calls:
            given = load_if_json(call.arguments)
            parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": given})
        return {"role": "assistant", "parts": parts, "finish_reason": message.finish_reason}

    if isinstance(message, ToolMessage):
        part = {"type": "tool_call_response", "id": message.call_id, "response": message.text}
        return {"role": "tool", "parts": [part]}
    role = "system" if isinstance(message, SystemMessage) else "user"
    return {"role": role, "parts": [{"type": "text", "content": message.text}]}
