"""Spans and metrics of runs, in the SDK's memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from openai import OpenAI
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.servers import FakeServer
from toolkit import ModelError, Runner, ToolError, Usage, tool
from toolkit.approvers import defer
from toolkit.events import RunFinished, RunStarted, TurnFinished
from toolkit.middleware import Telemetry
from toolkit.models import ModelResponse
from toolkit.testing import ScriptedModel, call, reply


class Recorded:
    """A Telemetry, and what it has reported."""

    def __init__(self, **options: Any) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        meters = MeterProvider([self._reader])
        self.telemetry = Telemetry(tracer_provider=self.provider, meter_provider=meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, by their start."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    @property
    def tree(self) -> list[tuple[str, str]]:
        """Each span's name, with that of the span around it."""
        names = {span.context.span_id: span.name for span in self.spans if span.context}
        return [(span.name, names[span.parent.span_id] if span.parent else "") for span in self.spans]

    def attributes(self, name: str) -> dict[str, Any]:
        """The attributes of the first span of a name."""
        return dict(next(span.attributes or {} for span in self.spans if span.name == name))

    @property
    def metrics(self) -> dict[str, list[float]]:
        """What each metric has counted, by its attributes."""
        data: Any = self._reader.get_metrics_data()
        listed = [
            metric for resource in data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
        ]
        return {
            metric.name.removeprefix("gen_ai."): [
                getattr(each, "count", None) or each.value for each in metric.data.data_points
            ]
            for metric in listed
        }

    def measured(self, name: str) -> Any:
        """The first data point of a metric."""
        data: Any = self._reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        return next(metric.data.data_points[0] for metric in metrics if metric.name == f"gen_ai.{name}")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def run(runner: Runner, way: str) -> object:
    """Run in one of the ways that a runner has."""
    if way == "async":
        return asyncio.run(runner.arun("Go")).output
    if way == "stream":
        return [event for event in runner.stream("Go") if isinstance(event, RunFinished)][0].output
    if way == "start":
        return runner.start("Go").result().output
    return runner.run("Go").output


@pytest.mark.parametrize("way", ["sync", "async", "stream", "start"])
def test_run(way: str) -> None:
    """A run has a span, with one for each response and each call inside; metrics count time and tokens."""
    recorded = Recorded()
    responses = [
        ModelResponse(
            calls=(call("add", a=1, b=2), call("add", a=3, b=4)), usage=Usage(10, 5), finish_reason="tool_calls"
        ),
        ModelResponse(text="Done.", usage=Usage(20, 7, 1, 4, 3, 6), model="m-1", finish_reason="stop"),
    ]
    output = run(Runner([add], model=ScriptedModel(responses), middleware=[recorded.telemetry]), way)

    assert "Done." == output
    assert [
        ("invoke_agent", ""),
        ("chat scripted", "invoke_agent"),
        ("execute_tool add", "invoke_agent"),
        ("execute_tool add", "invoke_agent"),
        ("chat scripted", "invoke_agent"),
    ] == recorded.tree
    streamed = {"client.inference.time_to_first_chunk": [1]} if way in ("stream", "start") else {}
    assert {
        **streamed,
        "invoke_agent.duration": [1],
        "client.inference.duration": [2],
        "execute_tool.duration": [2],
        "client.inference.usage.input_tokens": [30],
        "client.inference.usage.output_tokens": [12],
        "client.inference.usage.cache_read.input_tokens": [4],
        "client.inference.usage.cache_write.input_tokens": [6],
        "client.inference.usage.reasoning.output_tokens": [3],
    } == recorded.metrics
    assert {"scripted"} == {
        recorded.attributes(name)["gen_ai.request.model"] for name in ("invoke_agent", "chat scripted")
    }
    assert (10, 5, ("tool_calls",)) == tuple(
        recorded.attributes("chat scripted")[f"gen_ai.{name}"]
        for name in ("usage.input_tokens", "usage.output_tokens", "response.finish_reasons")
    )
    assert "gen_ai.usage.cache_read.input_tokens" not in recorded.attributes("chat scripted")  # as it is 0


def test_server() -> None:
    """A response has the server that sent it, without the user and the path."""
    recorded = Recorded()
    with FakeServer([reply.text("Done.")]) as server:
        url = urlsplit(server.base_url)
        client = OpenAI(base_url=f"http://user:secret@{url.netloc}/v1", api_key="test")
        Runner(client=client, model="m", middleware=[recorded.telemetry]).run("Go")
    expected = {"server.address": url.hostname, "server.port": url.port}

    assert expected.items() <= recorded.attributes("chat m").items()
    assert expected.items() <= recorded.measured("client.inference.duration").attributes.items()
    assert "secret" not in "".join(span.to_json() for span in recorded.spans)


def test_port_of_the_scheme() -> None:
    """An address without a port has that of its scheme."""
    ports = []
    for scheme in ("http", "https"):
        recorded = Recorded()
        recorded.telemetry.on_event(RunStarted(run_id="r", model="m", address=f"{scheme}://host/v1"), "r")
        recorded.telemetry.on_event(TurnFinished(turn=0, response=ModelResponse()), "r")
        ports.append(recorded.attributes("chat m")["server.port"])

    assert [80, 443] == ports


def test_time_to_first_chunk() -> None:
    """A streamed response has the time to its first chunk, in its span and as a metric; others have none."""
    recorded = Recorded()
    with FakeServer([reply.text("One."), reply.text("Two."), reply.text("Three.").delayed(0.2)]) as server:
        runner = Runner(base_url=server.base_url, api_key="t", model="m", middleware=[recorded.telemetry])
        runner.run("Go")
        for _ in range(2):
            list(runner.stream("Go"))
    whole, fast, slow = (dict[str, Any](span.attributes or {}) for span in recorded.spans if span.name == "chat m")
    seconds = [each["gen_ai.response.time_to_first_chunk"] for each in (fast, slow)]

    assert not {"gen_ai.request.stream", "gen_ai.response.time_to_first_chunk"} & {*whole}
    assert fast["gen_ai.request.stream"] is True
    assert 0 < seconds[0] < 60 and 0.2 <= seconds[1] < 60
    assert [2] == recorded.metrics["client.inference.time_to_first_chunk"]
    assert sum(seconds) == pytest.approx(recorded.measured("client.inference.time_to_first_chunk").sum)


def test_content() -> None:
    """What was said is left out, unless it is asked for."""
    quiet, full = Recorded(), Recorded(content=True)
    for recorded in (quiet, full):
        model = ScriptedModel([call("add", a=1, b=987_654_321), "It is 987654322."])
        Runner([add], model=model, instructions="Add.", middleware=[recorded.telemetry]).run("What is it?")

    assert "98765432" not in "".join(span.to_json() for span in quiet.spans)
    assert ('{"a": 1, "b": 987654321}', "987654322") == tuple(
        full.attributes("execute_tool add")[f"gen_ai.tool.call.{name}"] for name in ("arguments", "result")
    )
    chat = [dict(span.attributes or {}) for span in full.spans if span.name.startswith("chat")]
    outputs: list[Any] = [json.loads(str(each["gen_ai.output.messages"])) for each in chat]
    inputs: list[Any] = [json.loads(str(each["gen_ai.input.messages"])) for each in chat]
    assert ["tool_call", "text"] == [message[0]["parts"][0]["type"] for message in outputs]
    assert {"a": 1, "b": 987_654_321} == outputs[0][0]["parts"][0]["arguments"]
    assert ["system", "user"] == [message["role"] for message in inputs[0]]
    assert "What is it?" == inputs[0][1]["parts"][0]["content"]
    assert ["system", "user", "assistant", "tool"] == [message["role"] for message in inputs[1]]
    assert "987654322" == inputs[1][3]["parts"][0]["response"]


def test_content_of_a_run() -> None:
    """The span of a run has the messages of its first request and the answer, as trace viewers show them first."""
    recorded = Recorded(content=True)
    model = ScriptedModel([call("add", a=1, b=2), "It is 3."])
    Runner([add], model=model, instructions="Add.", middleware=[recorded.telemetry]).run("What is 1 + 2?")
    span = recorded.attributes("invoke_agent")
    answer = {"role": "assistant", "parts": [{"type": "text", "content": "It is 3."}], "finish_reason": "stop"}

    assert [answer] == json.loads(span["gen_ai.output.messages"])
    assert ["Add.", "What is 1 + 2?"] == [
        message["parts"][0]["content"] for message in json.loads(span["gen_ai.input.messages"])
    ]


@pytest.mark.parametrize("content", [False, True])
def test_texts_of_errors(content: bool) -> None:  # noqa: FBT001
    """What an error says is content: without it, a span has only the error's type."""
    recorded = Recorded(content=content)

    def fail() -> None:
        """Fail."""
        raise ToolError("There is no Dune.")

    def script(request: Any) -> Any:
        if request.turn:
            raise ModelError("The server failed.")
        return call("fail")

    with pytest.raises(ModelError):
        Runner([fail], model=ScriptedModel(script), middleware=[recorded.telemetry]).run("Go")
    failed = {span.name: span.status.description for span in recorded.spans if not span.status.is_ok}
    texts = {
        "invoke_agent": "The server failed.",
        "execute_tool fail": "There is no Dune.",
        "chat scripted": "The server failed.",
    }

    assert {name: text if content else None for name, text in texts.items()} == failed


def test_names_of_the_conventions() -> None:
    """A run has the provider that conventions require, and a call the description of its tool."""
    recorded = Recorded(provider="groq")
    model = ScriptedModel([[call("add", a=1, b=2), call("made_up")], "3."])
    Runner([add], model=model, middleware=[recorded.telemetry]).run("1 + 2?")

    assert "groq" == recorded.attributes("invoke_agent")["gen_ai.provider.name"]
    assert "Add two numbers." == recorded.attributes("execute_tool add")["gen_ai.tool.description"]
    assert "gen_ai.tool.description" not in recorded.attributes("execute_tool unknown")


def test_name_of_the_runner() -> None:
    """A runner with a name has it in the span of the run, and so have its calls."""
    recorded = Recorded()
    model = ScriptedModel([call("add", a=1, b=2), "3."])
    Runner([add], name="Clerk", model=model, middleware=[recorded.telemetry]).run("1 + 2?")

    assert "invoke_agent Clerk" == recorded.spans[0].name
    named = (recorded.attributes("invoke_agent Clerk"), recorded.attributes("execute_tool add"))
    assert ["Clerk", "Clerk"] == [each["gen_ai.agent.name"] for each in named]
    assert "Clerk" == recorded.measured("execute_tool.duration").attributes["gen_ai.agent.name"]


def test_buckets() -> None:
    """The histograms of seconds have the buckets of the conventions; those by default are for milliseconds."""
    recorded = Recorded()
    Runner(model=ScriptedModel(["Hello."]), middleware=[recorded.telemetry]).run("Hi!")

    assert 81.92 == recorded.measured("client.inference.duration").explicit_bounds[-1]
    assert 409.6 == recorded.measured("invoke_agent.duration").explicit_bounds[-1]


def test_what_a_tool_does() -> None:
    """Spans that a tool begins are inside the span of its call, on whatever thread it runs."""
    recorded = Recorded()

    @tool(timeout=60)
    def look() -> str:
        """Look."""
        with trace.get_tracer("shop", tracer_provider=recorded.provider).start_as_current_span("query"):
            return "looked"

    async def alook() -> str:
        """Look."""
        with trace.get_tracer("shop", tracer_provider=recorded.provider).start_as_current_span("query"):
            return "looked"

    model = ScriptedModel([[call("look"), call("alook"), call("look")], "Done."])
    Runner([look, alook], model=model, middleware=[recorded.telemetry]).run("Go")

    assert ["execute_tool alook", "execute_tool look", "execute_tool look"] == sorted(
        parent for name, parent in recorded.tree if name == "query"
    )


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_sub_agent(way: str, is_shared: bool) -> None:  # noqa: FBT001
    """The run of a sub-agent is inside the span of the call that started it, once, even if it has the same one."""
    recorded = Recorded()
    shared = [recorded.telemetry] if is_shared else []
    worker = Runner([add], model=ScriptedModel([call("add", a=1, b=2), "It is 3."], name="small"), middleware=shared)
    script = ScriptedModel([call("clerk", query="1 + 2?"), "3."])
    run(Runner([worker.as_tool("clerk", "Adds.")], model=script, middleware=[recorded.telemetry]), way)

    assert [
        ("invoke_agent", ""),
        ("chat scripted", "invoke_agent"),
        ("execute_tool clerk", "invoke_agent"),
        ("invoke_agent", "execute_tool clerk"),
        ("chat small", "invoke_agent"),
        ("execute_tool add", "invoke_agent"),
        ("chat small", "invoke_agent"),
        ("chat scripted", "invoke_agent"),
    ] == recorded.tree


def test_failed_calls() -> None:
    """A call that failed or was refused has the kind of its result; a name that a model made up is "unknown"."""
    recorded = Recorded()

    @tool(approve=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    def fail() -> None:
        """Fail."""
        raise ToolError("no")

    script = ScriptedModel([[call("fail"), call("pay"), call("made_up")], "Done."])
    Runner([pay, fail], model=script, middleware=[recorded.telemetry]).run("Go")
    kinds = {span.name: (span.attributes or {})["error.type"] for span in recorded.spans if not span.status.is_ok}

    assert {
        "execute_tool fail": "failed",
        "execute_tool pay": "unavailable",
        "execute_tool unknown": "not_found",
    } == kinds


@pytest.mark.parametrize("way", ["sync", "async", "stream"])
def test_failed_run(way: str) -> None:
    """A run that an exception ends has its class, and so has the response that did not come."""
    recorded = Recorded()

    def refuse(_: Any) -> ModelResponse:
        raise ModelError("no")

    with pytest.raises(ModelError):
        run(Runner(model=ScriptedModel(refuse), middleware=[recorded.telemetry]), way)

    assert {"invoke_agent": "ModelError", "chat scripted": "ModelError"} == {
        span.name: (span.attributes or {})["error.type"] for span in recorded.spans
    }


def test_stream_that_is_left() -> None:
    """A stream that is left ends its spans, as cancelled and not as failed."""
    recorded = Recorded()
    with Runner(model=ScriptedModel(["Hello."]), middleware=[recorded.telemetry]).stream("Hi") as stream:
        next(iter(stream))

    assert [("invoke_agent", True)] == [(span.name, span.status.is_ok) for span in recorded.spans]
    assert ("cancelled",) == recorded.attributes("invoke_agent")["gen_ai.response.finish_reasons"]


def test_paused_run() -> None:
    """A call that waits for approval ends its span, without an error, and the run ends as paused."""
    recorded = Recorded()
    runner = Runner(
        [tool(add, approve=True)],
        model=ScriptedModel([call("add", a=1, b=2)]),
        approve=defer,
        middleware=[recorded.telemetry],
    )
    paused = runner.run("Go")

    assert paused.is_paused
    assert ("paused",) == recorded.attributes("invoke_agent")["gen_ai.response.finish_reasons"]
    assert "error.type" not in recorded.attributes("execute_tool add")


def test_stream_that_is_left_after_its_end() -> None:
    """A run that has ended is not said to be left."""
    seen: list[str] = []

    class Watch:
        def on_event(self, event: object, run_id: str) -> None:
            seen.append(type(event).__name__)

    with Runner(model=ScriptedModel(["Hello."]), hooks=[Watch()]).stream("Hi") as stream:
        for event in stream:
            if isinstance(event, RunFinished):
                break

    assert "RunFinished" == seen[-1]


@pytest.mark.parametrize("error", [RuntimeError("broken"), SystemExit(3)], ids=repr)
def test_hook_that_fails(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """An `on_event` that raises is logged, and the run goes on."""

    class Broken:
        def on_event(self, event: object, run_id: str) -> None:
            raise error

    assert "Hello." == Runner(model=ScriptedModel(["Hello."]), hooks=[Broken()]).run("Hi").output
    assert "The hook" in caplog.text
