"""OpenTelemetry: spans and metrics of runs, by the semantic conventions for generative AI, version 1.41.

The names are those of https://opentelemetry.io/docs/specs/semconv/gen-ai/. They are still in development there.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from toolkit._execution.approval import Deferred
from toolkit._execution.middleware import Next
from toolkit._messages import ModelResponse, ToolCall, ToolResult
from toolkit.errors import ToolError
from toolkit.events import Event, RunFinished, RunStarted, TurnFinished, TurnStarted

MAX_NAME = 100  # characters of a tool's name: the model may have made it up


@dataclass
class _TracedRun:
    """A run that has not ended.

    Attributes:
        span: Its span.
        model: The name of its model.
        turn_start: When a response of the model was asked for that has not come, in seconds since 1970; 0 if none is.
    """

    span: Span
    model: str
    turn_start: float = 0.0


class Telemetry:
    """A middleware that reports runs to OpenTelemetry.

    A run is a span `invoke_agent`, with a span `chat` for each response of the model and a span `execute_tool` for each
    call. Spans of a tool and the run of a sub-agent are inside the span of the call, so a sub-agent needs no Telemetry.
    The metrics are `gen_ai.client.operation.duration`, in seconds, and `gen_ai.client.token.usage`.

    A durable run has no span `invoke_agent`. The spans of its responses and calls are inside the current span, such as
    one of temporalio's `TracingInterceptor`.

    Args:
        content: Whether spans contain the model's texts, the arguments and the results. They may be secret.
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
        self._content, self._provider = content, provider
        self._tracer = trace.get_tracer("toolkit", tracer_provider=tracer_provider)
        meter = metrics.get_meter("toolkit", meter_provider=meter_provider)
        self._durations = meter.create_histogram(
            "gen_ai.client.operation.duration", unit="s", description="Time of a run, a response of a model, or a call."
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", unit="{token}", description="Tokens that a model read or wrote."
        )
        self._runs: dict[str, _TracedRun] = {}

    def on_event(self, event: Event | BaseException, run_id: str) -> None:
        """Start and end the spans of a run and of its model's responses."""
        run = self._runs.get(run_id)
        if isinstance(event, RunStarted):
            attributes = self._list_attributes("invoke_agent", event.model) | {"gen_ai.conversation.id": run_id}
            self._runs[run_id] = _TracedRun(self._tracer.start_span("invoke_agent", attributes=attributes), event.model)
        elif isinstance(event, TurnFinished):
            self._finish_turn(run, run_id, event.response, event.started or time.time())
        elif run is None:
            return
        elif isinstance(event, TurnStarted):
            run.turn_start = time.time()
        elif isinstance(event, RunFinished):
            run.span.set_attribute("gen_ai.response.finish_reasons", [event.finish_reason])
            self._finish_run(run_id, run)
        elif isinstance(event, BaseException):
            _fail(run.span, error := type(event).__qualname__)
            self._finish_run(run_id, run, error)

    async def __call__(self, call: ToolCall, call_next: Next) -> ToolResult:
        """Execute a call inside a span."""
        run, start, name = self._runs.get(call_next.context.run_id), time.perf_counter(), call.name[:MAX_NAME]
        known = name if name in call_next.tools else "unknown"  # a model may make up any number of names
        measured = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": known}
        attributes = {
            **measured,
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": call_next.context.run_id,
        }
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = call.arguments
        span = self._tracer.start_span(
            f"execute_tool {known}", None if run is None else trace.set_span_in_context(run.span), attributes=attributes
        )
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                result = await call_next(call)
            if result.is_error:
                measured["error.type"] = _fail(span, result.kind or "failed")
            if self._content:
                span.set_attribute("gen_ai.tool.call.result", result.text)
        except Deferred:  # it has not failed: it waits for approval
            raise
        except BaseException as error:
            measured["error.type"] = _fail(
                span, error.kind if isinstance(error, ToolError) else type(error).__qualname__
            )
            raise
        else:
            return result
        finally:
            span.end()
            self._durations.record(time.perf_counter() - start, measured)

    def _finish_turn(self, run: _TracedRun | None, run_id: str, response: ModelResponse, start: float) -> None:
        """Record the span of a response that has come."""
        usage, model = response.usage, run.model if run else response.model
        attributes: dict[str, Any] = {
            "gen_ai.response.model": response.model or model,
            "gen_ai.response.finish_reasons": [response.finish_reason],
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        }
        if self._content:
            attributes["gen_ai.output.messages"] = json.dumps([_write_message(response)])
        self._record_turn(run, run_id, model, start, attributes)
        measured = self._list_attributes("chat", model)
        self._tokens.record(usage.input_tokens, measured | {"gen_ai.token.type": "input"})
        self._tokens.record(usage.output_tokens, measured | {"gen_ai.token.type": "output"})

    def _record_turn(
        self, run: _TracedRun | None, run_id: str, model: str, start: float, attributes: dict[str, Any], error: str = ""
    ) -> None:
        measured, context = self._list_attributes("chat", model), None
        if run:
            context, run.turn_start = trace.set_span_in_context(run.span), 0.0
        span = self._tracer.start_span(
            f"chat {model}",
            context,
            SpanKind.CLIENT,
            {**measured, "gen_ai.conversation.id": run_id, **attributes},
            start_time=int(start * 1e9),
        )
        if error:
            measured["error.type"] = _fail(span, error)
        span.end()
        self._durations.record(max(0.0, time.time() - start), measured)

    def _finish_run(self, run_id: str, run: _TracedRun, error: str = "") -> None:
        if run.turn_start:  # the response has not come: it failed, the run was cancelled, or its time was up
            self._record_turn(run, run_id, run.model, run.turn_start, {}, error)
        run.span.end()
        del self._runs[run_id]

    def _list_attributes(self, operation: str, model: str) -> dict[str, str]:
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": self._provider,
            "gen_ai.request.model": model,
        }


def _fail(span: Span, kind: str) -> str:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))
    return kind


def _write_message(response: ModelResponse) -> dict[str, Any]:
    """Write a response as the conventions' JSON Schema of output messages has it."""
    text = [{"type": "text", "content": response.text}] if response.text else []
    calls = [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments} for call in response.calls
    ]
    return {"role": "assistant", "parts": [*text, *calls], "finish_reason": response.finish_reason}
