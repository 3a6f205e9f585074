"""Durable runs on a real development server: the same transcript as in one process, and what a client can do."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import temporalio.activity
import temporalio.worker
from pydantic import BaseModel, field_validator
from temporalio.client import Client, Interceptor, OutboundInterceptor, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from tests.durable.support import Durable, until
from toolkit import (
    Decision,
    FatalError,
    LedgerEntry,
    LimitError,
    Limits,
    MemoryLedger,
    ModelError,
    Prices,
    RunError,
    Runner,
    SQLiteLedger,
    SQLiteSession,
    Tool,
    Toolbox,
    ToolContext,
    ToolError,
    Usage,
    schema,
    tool,
)
from toolkit.approvers import defer
from toolkit.durable import DurableRun, DurableRunner, RunStatus, Worker
from toolkit.durable.client import POLL_INTERVAL
from toolkit.durable.wire import CHECK
from toolkit.errors import (
    ApprovalError,
    DefinitionError,
    FingerprintError,
    RunEndedError,
    RunExistsError,
    RunNotFoundError,
    RunUnreachableError,
)
from toolkit.events import ApprovalNeeded, MessageAdded, ResultsAdded, TextDelta, TurnFinished
from toolkit.models import ModelRequest, ModelResponse, ToolMessage, UserMessage
from toolkit.testing import ScriptedModel, call

# Messages to a run while one tool runs; more by night.
STEERS = int(os.environ.get("TOOLKIT_STEERS", "300"))


@tool(idempotent=True)
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effect="write")
def write(n: int) -> str:
    """Write."""
    return f"written {n}"


@tool
def fail() -> str:
    """Fail."""
    raise ToolError("It is closed.")


def fetch() -> str:
    """Fetch."""
    return "Somebody's text."


@tool(return_direct=True)
def report() -> str:
    """Report."""
    return "The report."


@tool(approve=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


ECHO = Runner(model=ScriptedModel(lambda request: "Known."), instructions="You know.")


def stopping(request: Any) -> Decision:
    return Decision.stop("Enough.")


def ask_for_pay(request: Any) -> Any:
    return defer(request) if request.name == "pay" else True


FAILURES: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "model": (ModelError("No such model.", 404), {}, ModelError, "No such model"),
    "limit": ([call("add", a=1, b=1)], {"limits": Limits(max_turns=1, on_limit="raise")}, LimitError, "max_turns"),
    "fatal": ([call("explode")], {}, FatalError, "Broken for good"),
    "half a character": (ModelError("Cut \ud83d off.", 404), {}, ModelError, "Cut \ufffd off"),
    "hook": (ValueError("bad"), {}, RunError, "ValueError was raised; the worker's log has it"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures(name: str, durable: Durable) -> None:
    """What `run` raises, the result of a durable run raises."""

    @tool
    def explode() -> str:
        """Explode."""
        raise FatalError("Broken for good.")

    first, options, kind, text = FAILURES[name]
    runner = Runner([add, explode], model=ScriptedModel([first]), **options)

    with pytest.raises(kind, match=text):
        asyncio.run(durable.run(runner))


def test_type_of_an_answer(durable: Durable) -> None:
    """The model is shown the same schema as in one process; the client makes the value, also of a run that it finds."""

    class Place(BaseModel):
        """Where it is."""

        town: str
        country: str = "Norway"

        @field_validator("town")
        @classmethod
        def check_town(cls, town: str) -> str:
            if not town.istitle():
                raise ValueError("towns begin with a capital")
            return town

    script = [ModelResponse(text='{"town": "Oslo"}'), ModelResponse(text='{"town": "oslo"}')]
    expected, model = ScriptedModel(script), ScriptedModel(script)
    Runner(model=expected).run("Go.", output_type=Place)

    async def go() -> Any:
        async with await durable.worker(runner := Runner(model=model)):
            runs = await durable.runs(runner)
            run = await runs.start("Go.", output_type=Place)
            result, found = await run.result(), await (await runs.attach(run.id, output_type=Place)).result()
            text = await (await runs.attach(run.id)).result()
            with pytest.raises(RunError, match="no answer of its output_type.*towns begin with a capital"):
                await runs.run("Go.", output_type=Place)
            return result.output, found.output, text.output

    assert (Place(town="Oslo"), Place(town="Oslo"), '{"town": "Oslo"}') == asyncio.run(go())
    assert expected.requests[0].output == model.requests[0].output is not None


class SlowChecks(temporalio.worker.Interceptor):
    """Lets each check of an answer wait until it is released."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    def intercept_activity(
        self, next: temporalio.worker.ActivityInboundInterceptor
    ) -> temporalio.worker.ActivityInboundInterceptor:
        release = self.release

        class Slow(temporalio.worker.ActivityInboundInterceptor):
            async def execute_activity(self, input: temporalio.worker.ExecuteActivityInput) -> Any:
                if temporalio.activity.info().activity_type == CHECK:
                    await release.wait()
                return await super().execute_activity(input)

        return Slow(next)


def test_answer_that_is_checked(durable: Durable) -> None:
    """A run whose answer is being checked has not finished; its events go on if the answer is not of its type."""

    async def collect(run: DurableRun) -> list[Any]:
        return [event async for event in run.events()]

    async def go() -> tuple[RunStatus, list[str]]:
        checks, runner = SlowChecks(), Runner(model=ScriptedModel(["two", "[1, 2]"]))
        async with await durable.worker(runner, interceptors=[checks]):
            run = await (await durable.runs(runner)).start("Go.", output_type=list[int])
            events = asyncio.create_task(collect(run))
            status = await until(run.status, lambda status: status.turns)
            await asyncio.sleep(2 * POLL_INTERVAL)  # the events are read meanwhile
            checks.release.set()
            return status, [event.response.text for event in await events if isinstance(event, TurnFinished)]

    status, answers = asyncio.run(go())

    assert ("asking", "") == (status.phase, status.finish_reason)
    assert ["two", "[1, 2]"] == answers


def test_status_of_a_run_without_an_answer_of_its_type(durable: Durable) -> None:
    """The status of a run that gave no answer of its type says why it failed."""

    async def go() -> Any:
        runner = Runner(model=ScriptedModel(["one", "two", "three"]))
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Go.", output_type=list[int])
            with pytest.raises(RunError, match="no answer of its output_type"):
                await run.result()
            return await run.status()

    status = asyncio.run(go())

    assert ("finished", "error") == (status.phase, status.finish_reason)
    assert "no answer of its output_type" in status.note


def test_a_server_that_recovers(durable: Durable) -> None:
    """A model's server that fails temporarily is asked again."""
    model = ScriptedModel([ModelError("busy", 503), ModelError("gone"), "Done."])

    assert "Done." == asyncio.run(durable.run(Runner(model=model))).output


def test_context_of_a_tool(durable: Durable) -> None:
    """A tool has the deps of the worker, the id of the run, and its key."""
    seen: list[ToolContext[str]] = []

    @tool
    def note(context: ToolContext[str]) -> str:
        """Note."""
        seen.append(context)
        return "noted"

    runner = Runner([note], model=ScriptedModel([[call("note")], "Done."]))
    result = asyncio.run(durable.run(runner, deps="the deps"))
    (context,) = seen

    assert ("the deps", result.state.run_id, 0) == (context.deps, context.run_id, context.iteration)
    assert context.call_id == result.calls[0].call.id and 32 == len(context.idempotency_key)


def test_events_of_steps(durable: Durable) -> None:
    """`on_event` gets the events of turns and calls, with the ids of the run and of a sub-agent's run."""
    seen: dict[str, list[str]] = {}

    class Watch:
        def on_event(self, event: object, run_id: str) -> None:
            seen.setdefault(run_id, []).append(type(event).__name__)

    below = Runner(model=ScriptedModel(["Found."]), name="clerk", description="Finds.")
    script: list[Any] = [[call("subagent_clerk", query="Find it.")], "Done."]
    result = asyncio.run(durable.run(Runner([below], model=ScriptedModel(script), hooks=[Watch()])))

    turn = ["TurnStarted", "TurnFinished"]
    calls = ["ToolCallStarted", "ToolCallStarted", "ToolCallFinished"]  # once more with the sub-agent's answer
    assert [*turn, *calls, *turn] == seen.pop(result.state.run_id)
    assert [turn] == [*seen.values()]


def test_telemetry(durable: Durable) -> None:
    """Telemetry has a span for each response and each call, in the trace of what has started the run."""
    pytest.importorskip("opentelemetry.sdk", reason='needs the extra "otel"')
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from temporalio.client import Client
    from temporalio.contrib.opentelemetry import TracingInterceptor

    from toolkit.middleware import Telemetry

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    model = ScriptedModel([call("add", a=1, b=2), "3"])
    runner = Runner([add], model=model, middleware=[Telemetry(tracer_provider=provider)])

    async def go() -> str:
        client = await Client.connect(durable.address, interceptors=[TracingInterceptor(tracer)])
        async with Worker(client, runner, task_queue=durable.queue):
            with tracer.start_as_current_span("request"):
                run = await DurableRunner(client, runner, task_queue=durable.queue).start("Go.")
            return (await run.result()).state.run_id

    run_id = asyncio.run(go())
    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans if span.context}
    own = [span for span in spans if (span.attributes or {}).get("toolkit.run.id") == run_id]

    assert [
        ("chat scripted", "RunActivity:toolkit.model"),
        ("execute_tool add", "RunActivity:toolkit.call"),
        ("chat scripted", "RunActivity:toolkit.model"),
    ] == [(span.name, names[span.parent.span_id]) for span in own if span.parent]
    assert 1 == len({span.context.trace_id for span in spans if span.context})


def test_a_ledger_holds_up_no_other_run(durable: Durable, tmp_path: Path) -> None:
    """A ledger, which may be far away, is read and written on threads: the worker's own has all other runs."""
    threads = set[int]()

    class Ledger(SQLiteLedger):
        def read(self, run_id: str, call_id: str | None = None) -> tuple[LedgerEntry, ...]:
            threads.add(threading.get_ident())
            return super().read(run_id, call_id)

        def write(self, entry: LedgerEntry) -> bool:
            threads.add(threading.get_ident())
            return super().write(entry)

    model = ScriptedModel([[call("write", n=1)], "Done."])
    runner = Runner([write], model=model, approve=lambda _: True, ledger=Ledger(tmp_path / "calls.db"))

    assert "Done." == asyncio.run(durable.run(runner)).output
    assert threads and threading.get_ident() not in threads


def test_tool_queues(durable: Durable) -> None:
    """A tool with a task queue of its own runs on the workers of that queue alone."""

    @tool
    def here(context: ToolContext[str]) -> str:
        """Say where it runs."""
        return context.deps

    runner = Runner(
        [here, tool(here, name="there")], model=ScriptedModel([[call("there"), call("here"), call("there")], "Done."])
    )
    queues = {"there": f"{durable.queue}-gpu"}

    async def go() -> Any:
        far = Worker(await durable.connect(), runner, task_queue=queues["there"], tool_queues=queues, deps="far")
        async with far:
            return await durable.run(runner, tool_queues=queues, deps="near")

    assert ["far", "near", "far"] == [each.result.text for each in asyncio.run(go()).calls]


def test_approval(durable: Durable) -> None:
    """A run waits for a decision, is found by its id, and takes each decision once, however often it comes."""
    script: list[Any] = [[call("pay", amount=1), call("pay", amount=2), call("add", a=1, b=1)], "Done."]
    runner = Runner([pay, add], model=ScriptedModel(script), approve=ask_for_pay)

    async def go() -> Any:
        async with await durable.worker(runner):
            runs = await durable.runs(runner)
            started = await runs.start("Pay.")
            run = await (await durable.runs()).attach(started.id)
            status = await until(run.status, lambda status: status.pending)
            first, second = status.pending
            with pytest.raises(ApprovalError, match=f"No call 'other' waits for a decision; these do: {first.call.id}"):
                await run.approve("other")
            await run.approve(first.call.id)
            await run.approve(first.call.id, True)
            await until(run.status, lambda status: len(status.pending) == 1)
            with pytest.raises(ApprovalError):
                await run.approve(first.call.id, False)
            await run.approve(second.call.id, Decision.reject("Too much."))
            return status, await run.result()

    status, result = asyncio.run(go())

    assert ("paused", ['{"amount": 1}', '{"amount": 2}']) == (status.phase, [p.arguments for p in status.pending])
    assert ["paid 1", "Tool execution was rejected by the user. Reason: Too much.", "2"] == [
        end.result.text for end in result.calls
    ]
    assert ("Done.", "stop") == (result.output, result.finish_reason)


def test_an_answer_beside_an_approval(durable: Durable) -> None:
    """A result that is the answer ends the run, also where another call of its turn was decided on later."""
    runner = Runner([report, pay], model=ScriptedModel([[call("report"), call("pay", amount=1)]]), approve=ask_for_pay)

    async def go() -> Any:
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Report and pay.")
            status = await until(run.status, lambda status: status.pending)
            await run.approve(status.pending[0].call.id)
            return await run.result()

    result = asyncio.run(go())

    assert ("The report.", ["The report.", "paid 1"]) == (result.output, [end.result.text for end in result.calls])


def test_changed_arguments_of_an_approval(durable: Durable) -> None:
    """An approver may change the arguments from afar."""
    runner = Runner([pay], model=ScriptedModel([[call("pay", amount=1)], "Done."]), approve=defer)

    async def go() -> Any:
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Pay.")
            status = await until(run.status, lambda status: status.pending)
            await run.approve(status.pending[0].call.id, Decision.modify({"amount": 5}))
            return await run.result()

    assert "paid 5" == asyncio.run(go()).calls[0].result.text


def gated(reply: str = "Done.") -> tuple[asyncio.Event, asyncio.Event, Any]:
    """A tool that waits until it is let go."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def wait(n: int = 0) -> str:
        """Wait."""
        begun.set()
        await go_on.wait()
        return "waited"

    return begun, go_on, wait


def last_text(request: ModelRequest) -> str:
    return f"Answer to {getattr(request.messages[-1], 'text', '')!r}"


def test_steering(durable: Durable) -> None:
    """Messages reach a run while it works: steering skips what has not started, a follow-up comes after the answer."""

    async def go() -> Any:
        begun, go_on, wait = gated()
        script: list[Any] = [[call("wait", n=1), call("wait", n=2)], last_text, last_text]
        runner = Runner([wait], model=ScriptedModel(script))
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Go.")
            await begun.wait()
            await run.steer("Stop that.")
            await run.follow_up("And now?")
            go_on.set()
            return await run.result()

    result = asyncio.run(go())

    assert ["waited", "Skipped due to queued user message."] == [end.result.text for end in result.calls]
    assert "Answer to 'Stop that.'" in [getattr(message, "text", "") for message in result.messages]
    assert "Answer to 'And now?'" == result.output


def test_a_storm_of_messages(durable: Durable) -> None:
    """Messages that come all at once are read in one turn, in their order, as in one process; all are text."""

    async def go() -> Any:
        begun, go_on, wait = gated()
        model = ScriptedModel([call("wait"), "Done."])
        async with await durable.worker(runner := Runner([wait], model=model, queue="all")):
            run = await (runs := await durable.runs(runner)).start("Go.")
            await begun.wait()
            await asyncio.gather(*[run.steer(f"{number}") for number in range(STEERS)])
            for send in (run.steer, run.follow_up, runs.start):
                with pytest.raises(TypeError, match="takes text, not 5"):
                    await send(5)  # type: ignore[arg-type]
            go_on.set()
            return await run.result(), len(model.requests)

    result, turns = asyncio.run(go())

    assert ["Go.", *map(str, range(STEERS))] == [m.text for m in result.messages if isinstance(m, UserMessage)]
    assert ("Done.", 2) == (result.output, turns)


def test_messages_that_come_too_late(durable: Durable, tmp_path: Path) -> None:
    """What comes while a run that has its answer is being recorded does not fail it: the result has it as unread."""
    begun, go_on = threading.Event(), threading.Event()

    class Slow(SQLiteSession):
        def extend(self, messages: Any, **options: Any) -> None:
            begun.set()
            go_on.wait(30)
            super().extend(messages, **options)

    runner = Runner(model=ScriptedModel(["Done."]))

    async def go() -> Any:
        async with await durable.worker(runner, sessions=lambda name: Slow(tmp_path / "chats.db", name)):
            run = await (await durable.runs(runner)).start("Go.", session="anna")
            await asyncio.to_thread(begun.wait, 30)
            await run.steer("Wait.")
            await run.follow_up("And?")
            go_on.set()
            return await run.result()

    result = asyncio.run(go())

    assert ("Done.", ["Wait.", "And?"]) == (result.output, [message.text for message in result.unread])


def test_a_decision_that_is_not_awaited(durable: Durable) -> None:
    """While no worker takes a decision, who waits for it may stop, and send it again."""
    runner = Runner([pay], model=ScriptedModel([call("pay", amount=1), "Done."]), approve=defer)

    async def go() -> Any:
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Pay.")
            status = await until(run.status, lambda status: status.pending)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run.approve(status.pending[0].call.id), 0.5)
        async with await durable.worker(runner):
            await run.approve(status.pending[0].call.id)
            return await run.result()

    assert "paid 1" == asyncio.run(go()).calls[0].result.text


@pytest.mark.slow
def test_decisions_at_once(durable: Durable) -> None:
    """More decisions at the same time than the server takes are all taken."""
    runner = Runner([pay], model=ScriptedModel([[call("pay", amount=n) for n in range(40)], "Done."]), approve=defer)

    async def go() -> Any:
        async with await durable.worker(runner, heartbeat=10.0):
            run = await (await durable.runs(runner)).start("Pay.")
            status = await until(run.status, lambda status: len(status.pending) == 40)
            await asyncio.gather(*[run.approve(waiting.call.id) for waiting in status.pending])
            return await run.result()

    assert [f"paid {n}" for n in range(40)] == [end.result.text for end in asyncio.run(go()).calls]


def test_cancel(durable: Durable) -> None:
    """Cancelling reaches a running tool by the next heartbeat; each call has its result, and the run its end."""
    ended: list[str] = []

    async def go() -> Any:
        begun = asyncio.Event()

        @tool(effect="write")
        async def wait(n: int) -> str:
            """Wait."""
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(f"wait {n}")
            return "waited"

        runner = Runner([wait], model=ScriptedModel([[call("wait", n=1), call("wait", n=2)]]))
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Go.")
            await begun.wait()
            await run.cancel()
            result = await run.result()
            for refused in (run.cancel, lambda: run.steer("x"), lambda: run.approve("x")):
                with pytest.raises(RunEndedError):
                    await refused()
            return result

    result = asyncio.run(go())

    assert ("cancelled", ["wait 1"]) == (result.finish_reason, ended)
    assert [True, True] == [end.result.is_error for end in result.calls]
    assert all(end.result.text.startswith("Cancelled") for end in result.calls)


def test_cancel_a_waiting_run(durable: Durable) -> None:
    """A run that waits for approval, or for its model, can be cancelled."""

    async def go() -> list[str]:
        async def slow(request: ModelRequest) -> ModelResponse:
            await asyncio.sleep(60)
            return ModelResponse(text="Late.")

        class SlowModel(ScriptedModel):
            async def complete(self, request: ModelRequest) -> ModelResponse:
                return await slow(request)

        reasons: list[str] = []
        for runner in (
            Runner([pay], model=ScriptedModel([[call("pay", amount=1)]]), approve=defer),
            Runner([pay], model=SlowModel([], is_async=True)),
        ):
            own = Durable(durable.address)
            async with await own.worker(runner):
                run = await (await own.runs(runner)).start("Pay.")
                await until(
                    run.status, lambda status: status.phase == "paused" or runner.fingerprint() and status.messages
                )
                await asyncio.sleep(0.2)
                await run.cancel()
                reasons.append((await run.result()).finish_reason)
        return reasons

    assert ["cancelled", "cancelled"] == asyncio.run(go())


def test_events_of_messages(durable: Durable) -> None:
    """The messages of a run can be read while it works and afterwards, from any place on, by any number of readers."""

    async def go() -> Any:
        begun, go_on, wait = gated()
        runner = Runner([wait], model=ScriptedModel([[call("wait")], "Done."]))
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Go.")
            seen = []
            async for event in run.events():
                seen.append(event)
                go_on.set()
            later = [event async for event in run.events(offset=2)]
            for wrong in (5, -1, "2"):
                with pytest.raises(ValueError, match=f"offset={wrong!r}: the run .* has 4 messages"):
                    await anext(run.events(wrong))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            return seen, later, await run.result()

    seen, later, result = asyncio.run(go())

    prompt, response, answered, answer = result.messages
    assert [MessageAdded(prompt), TurnFinished(turn=0, response=response)] == seen[:2]
    whole = [event for event in seen[2:-1] if not isinstance(event, TextDelta)]
    assert [ResultsAdded(turn=0, messages=(answered,)), TurnFinished(turn=1, response=answer)] == whole
    assert whole == [event for event in later[:-1] if not isinstance(event, TextDelta)]


def test_events(durable: Durable) -> None:
    """A reader sees a response while it arrives, then whole messages, approvals and the end; a later one the rest."""

    async def go() -> Any:
        go_on = asyncio.Event()

        script: Any = ScriptedModel([call("pay", amount=1), "The rest is paid."], is_async=True)

        class SlowModel:
            name, is_async, complete = "slow", True, script.complete

            async def stream(self, request: ModelRequest) -> Any:
                if len(request.messages) > 1:
                    yield TextDelta("The rest ")
                    await go_on.wait()
                    yield TextDelta("is paid.")
                yield await script.complete(request)

        model: Any = SlowModel()
        runner, seen = Runner([pay], model=model, approve=defer), []
        async with await durable.worker(runner, streams=True):
            run = await (await durable.runs(runner)).start("Pay.")
            async for event in run.events():
                seen.append(event)
                if isinstance(event, ApprovalNeeded):
                    await run.approve(event.approval.call.id)
                elif isinstance(event, TextDelta):
                    go_on.set()
            return seen, [event async for event in run.events(offset=3)]

    seen, rest = asyncio.run(go())
    texts = [event.text for event in seen if isinstance(event, TextDelta)]

    assert ["The rest ", "is paid."] == texts
    assert [
        "MessageAdded",
        "TurnFinished",
        "ApprovalNeeded",
        "ResultsAdded",
        "TextDelta",
        "TextDelta",
        "TurnFinished",
        "RunFinished",
    ] == [type(event).__name__ for event in seen]
    assert [TextDelta("The rest is paid."), *seen[-2:]] == rest


def test_ids(durable: Durable) -> None:
    """A run of an own id is started once; one that does not exist is not found."""

    async def go() -> Any:
        runner = Runner([add], model=ScriptedModel([[call("add", a=1, b=1)], "Done."]))
        async with await durable.worker(runner):
            runs = await durable.runs(runner)
            first = await runs.start("Go.", run_id=f"order-{durable.queue}")
            with pytest.raises(RunExistsError, match="attach"):
                await runs.start("Go.", run_id=first.id)
            with pytest.raises(RunNotFoundError, match="no-such-run"):
                await runs.attach("no-such-run")
            with pytest.raises(RunNotFoundError):
                await DurableRun(await durable.connect(), "no-such-run").steer("x")
            for messages in ([], [{"role": "assistant", "content": "Hi."}]):
                with pytest.raises(ValueError, match="nothing to answer"):
                    await runs.start(messages=messages)
            attached = await runs.attach(first.id)
            return await first.result(), await attached.result()

    first, attached = asyncio.run(go())

    assert (first, "Done.") == (attached, first.output)


def test_history_and_allowed_tools(durable: Durable) -> None:
    """A run goes on from a conversation, and may be given some of the tools."""
    earlier = Runner(model=ScriptedModel(["Yes."])).run("Are you there?").messages
    runner = Runner([add, write], model=ScriptedModel([[call("write", n=1)], "Done."]))

    async def go() -> Any:
        async with await durable.worker(runner):
            runs = await durable.runs(runner)
            with pytest.raises(ValueError, match="allowed_tools has 'ad', which is not a tool here"):
                await runs.start("Go.", allowed_tools=["ad"])
            return await runs.run("Go.", messages=earlier, allowed_tools=["add"])

    result = asyncio.run(go())

    assert earlier == result.messages[:2]
    assert "write may not be called now" in result.calls[0].result.text


def test_what_no_worker_can_read(durable: Durable) -> None:
    """A run of which a worker could not read the options is refused at the client; so is an id that is none."""
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"session": 5}, "session=5 is blank or not text"),
        ({"run_id": ""}, "run_id='' is blank or not text"),
        ({"allowed_tools": ["ad"]}, "allowed_tools has 'ad', which is not a tool here; did you mean 'add'?"),
        ({"allowed_tools": [5]}, "allowed_tools has 5"),
    ]

    async def go() -> None:
        runs = await durable.runs(Runner([add], model=ScriptedModel([])))
        for options, said in mistakes:
            with pytest.raises(ValueError, match=re.escape(said)):
                await runs.start("Go.", **options)
        with pytest.raises(ValueError, match="run_id=None"):
            await runs.attach(None)  # type: ignore[arg-type]
        run = await runs.start("Go.")
        with pytest.raises(ValueError, match="call_id=5"):
            await run.approve(5)  # type: ignore[arg-type]

    asyncio.run(go())


@pytest.mark.parametrize("change", ["tool", "settings"])
def test_other_tools(change: str, durable: Durable) -> None:
    """A run of a client with other tools or settings is refused before any work; the client reads what differs."""
    model = ScriptedModel(["Done."])
    own = Runner([add, write], model=model)
    other = Runner([add], model=model) if change == "tool" else Runner([add, write], model=model, max_turns=3)

    async def go(**options: Any) -> Any:
        async with await durable.worker(own, **options):
            return await (await durable.runs(other)).run("Go.")

    with pytest.raises(FingerprintError, match="write is only there" if change == "tool" else "setting limits differs"):
        asyncio.run(go())
    assert [] == model.requests
    assert "Done." == asyncio.run(go(check_fingerprint=False)).output


def test_another_sub_agent(durable: Durable) -> None:
    """A run of a client whose sub-agent has other instructions is refused; a sub-agent that changes stops a run."""
    box = Toolbox([add])
    model = ScriptedModel([[call("pay", amount=1)], "Done."])

    def made(instructions: str) -> Runner:
        child = Runner(box, model=ScriptedModel([]), name="child", instructions=instructions)
        return Runner([pay, child], model=model, approve=defer)

    async def go() -> Any:
        async with await durable.worker(made("Be brief.")):
            with pytest.raises(FingerprintError, match="setting subagent_child/instructions differs"):
                await (await durable.runs(made("Be kind."))).run("Pay.")
            run = await (await durable.runs(made("Be brief."))).start("Pay.")
            status = await until(run.status, lambda status: status.pending)
            box.add(write)
            await run.approve(status.pending[0].call.id)
            return await until(run.status, lambda status: status.note)

    assert "tool subagent_child/write is only there" in asyncio.run(go()).note


def test_a_sub_agent_without_a_worker(durable: Durable) -> None:
    """While no worker takes the next step of a sub-agent, the status of the run above says why."""
    box = Toolbox([pay])
    child = Runner(box, model=ScriptedModel([call("pay", amount=1)]), name="child", approve=defer)
    runner = Runner([child], model=ScriptedModel([call("subagent_child", query="Pay.")]))

    async def go() -> RunStatus:
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Pay.")
            status = await until(run.status, lambda status: status.pending)
            box.add(write)
            await run.approve(status.pending[0].call.id)
            return await until(run.status, lambda status: status.note)

    assert "tool subagent_child/write is only there" in asyncio.run(go()).note


def test_a_worker_with_other_tools_leaves_a_run_alone(durable: Durable, caplog: pytest.LogCaptureFixture) -> None:
    """A run that has begun waits for a worker with its own tools; its status and the log say so."""
    script: list[Any] = [[call("pay", amount=1)], "Done."]

    async def go() -> Any:
        old = Runner([pay], model=ScriptedModel(script), approve=defer)
        new = Runner([pay, add], model=ScriptedModel([]), approve=defer)
        run = await (await durable.runs(old)).start("Pay.")
        async with await durable.worker(old):
            status = await until(run.status, lambda status: status.pending)
        async with await durable.worker(new):
            await run.approve(status.pending[0].call.id)
            status = await until(run.status, lambda status: status.note)
        async with await durable.worker(Runner([pay], model=ScriptedModel(script[1:]), approve=defer)):
            return status, await run.result()

    status, result = asyncio.run(go())

    assert "tool add is only there" in status.note
    assert ("paid 1", "Done.") == (result.calls[0].result.text, result.output)
    assert "has other tools or settings, and waits for another worker." in caplog.text
    assert "Traceback" not in caplog.text


def test_what_a_worker_refuses(durable: Durable) -> None:
    """What cannot travel is refused when the worker is made."""
    kept = Tool.from_schema("keep", schema.object("Keep.", _outputPath=schema.string()))
    wrong: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: Toolbox([add]), DefinitionError, "is not of type Runner"),
        (lambda: Runner(Toolbox([add], references=True)), DefinitionError, "references=True or _outputPath"),
        (lambda: Runner([Runner(Toolbox([add], references=True), name="x")]), DefinitionError, "references=True"),
        (lambda: Runner([kept]), DefinitionError, "_outputPath"),
        (lambda: Runner([add], max_runs=2), DefinitionError, "max_concurrent_activities="),
        (lambda: Runner([add], checkpoint=lambda state: None), DefinitionError, "checkpoint=.*PostgresLedger"),
        (lambda: Runner([add], ledger=MemoryLedger()), DefinitionError, "MemoryLedger is.*PostgresLedger"),
        (lambda: Runner([add], undo_on_failure=True), DefinitionError, "undo_on_failure=.*PostgresLedger"),
        (lambda: Runner([Runner(name="x", undo_on_failure=True)]), DefinitionError, "undo_on_failure="),
        (lambda: Runner([add], refresh="iteration"), DefinitionError, "refresh='iteration'"),
        (lambda: Runner([ECHO.as_tool("echo", "all", handoff=True)]), DefinitionError, "handoff=True"),
    ]

    async def go() -> None:
        client = await durable.connect()
        for make, kind, text in wrong:
            with pytest.raises(kind, match=text):
                Worker(client, make(), task_queue="x")
        wrong_options: list[dict[str, Any]] = [
            {"heartbeat": 0},
            {"attempts": 0},
            {"max_bytes": 1},
            {"tool_queues": {"sum": "x"}},
            {"tool_queues": ["x"]},
            {"sessions": "chats.db"},
        ]
        for options in wrong_options:
            with pytest.raises(DefinitionError, match=next(iter(options))):
                Worker(client, Runner([add]), **{"task_queue": "x", **options})
        for nameless in ({"tool_queues": {"add": ""}}, {"task_queue": " "}):
            with pytest.raises(ValueError, match=next(iter(nameless))):
                Worker(client, Runner([add]), **{"task_queue": "x", **nameless})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="task_queue=''"):
            DurableRunner(client, task_queue="")
        for make_client in (Worker, DurableRunner):
            with pytest.raises(DefinitionError, match="client='localhost:7233' is not of type Client"):
                make_client("localhost:7233", Runner([add]), task_queue="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        with pytest.raises(DefinitionError, match="is not of type Runner"):
            DurableRunner(client, [add], task_queue="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        first = Worker(client, Runner([add]), task_queue="x")
        with pytest.raises(DefinitionError, match="has a worker of the queue 'x' already"):
            Worker(client, Runner([add]), task_queue="x")
        del first

    asyncio.run(go())


def test_too_large(durable: Durable) -> None:
    """A result that the server could not keep is an error for the model; what else is too large ends the run."""

    @tool
    def talk(text: str) -> str:
        """Talk."""
        return text * 600

    def run(*script: Any) -> Any:
        runner = Runner([talk], model=ScriptedModel(script))
        return asyncio.run(Durable(durable.address).run(runner, max_bytes=10_000))

    assert "Done." == run(call("talk", text="0123456789"), "Done.").output
    for text in ("0123456789abcdefg", "é漢é"):  # the second one is sent as many more bytes than it has
        assert "its result is too large" in run(call("talk", text=text), "Done.").calls[0].result.text
    for script in ([call("talk", text="0123456789")] * 2, ["y" * 9_600], ['"' * 3_000]):
        with pytest.raises(RunError, match=r"The conversation has .* bytes.*max_bytes="):
            run(*script, "Done.")
    with pytest.raises(RunError, match=r"The model's response has .* bytes, and 10,000 are allowed"):
        run("y" * 10_000)  # and the model is not asked again: its script would be at its end


def test_too_large_beside_a_state(durable: Durable) -> None:
    """Nor does a run wait for ever, whose prompt, call, result or unread messages the server would not take."""

    @tool(return_direct=True)
    def tell() -> str:
        """Tell."""
        return "y" * 6_000

    @tool(authorize=lambda *_: True)
    def hear(text: str) -> str:
        """Hear."""
        return "heard"

    echo = Runner([], model=ScriptedModel(["Done."])).as_tool("echo", "all")

    def run(prompt: str, model: ScriptedModel, *messages: str) -> Any:
        async def go() -> Any:
            run = await (await durable.runs()).start(prompt)
            for message in messages:
                await run.steer(message)
            async with await durable.worker(Runner([tell, hear, echo], model=model, max_turns=1), max_bytes=10_000):
                return await run.result()

        return asyncio.run(go())

    assert "its result is too large" in run("Go.", ScriptedModel([call("tell"), "Done."])).calls[0].result.text
    for name, key in (("hear", "text"), ("echo", "query")):
        result = run("Go.", ScriptedModel([call(name, **{key: "y" * 6_000}), "Done."])).calls[0].result
        assert "Not run: the arguments are too large" in result.text
    for prompt, messages in (('"' * 3_000, ()), ("Go.", ["y" * 4_000] * 3)):
        with pytest.raises(RunError, match=r"The conversation.* bytes.*ExternalStorage"):
            run(prompt, ScriptedModel(["Done."] * 2), *messages)


def test_too_large_for_the_server(durable: Durable) -> None:
    """What the server does not take at a time is an error of the client, which says what to do."""

    async def go() -> None:
        runs = await durable.runs()
        run = await runs.start("Go.")
        for size in (3_000_000, 5_000_000):
            for send in (runs.start, run.steer):
                with pytest.raises(RunError, match=r"more than the server takes at a time.*ExternalStorage"):
                    await send("x" * size)

    asyncio.run(go())


def test_time_of_a_call(durable: Durable) -> None:
    """A call has no more time than the run has left."""
    left: list[float] = []

    @tool
    async def wait(context: ToolContext) -> str:
        """Wait."""
        left.append(context.cancellation.remaining or 0.0)
        await asyncio.sleep(0.5)
        return "waited"

    script: list[Any] = [call("wait"), call("wait"), "Done."]
    runner = Runner([wait], model=ScriptedModel(script), limits=Limits(max_seconds=50))

    assert "Done." == asyncio.run(durable.run(runner)).output
    assert 49 < left[0] <= 50 and left[1] <= left[0] - 0.5


def test_cost(durable: Durable) -> None:
    """The result has the cost of the tokens at the runner's prices, as in one process."""
    answer = ModelResponse(text="Done.", usage=Usage(input_tokens=1_000, output_tokens=500, requests=1))
    runner = Runner(model=ScriptedModel([answer]), limits=Limits(prices=Prices(input=2.0, output=10.0)))

    assert 0.007 == asyncio.run(durable.run(runner)).cost


def test_results_of_an_error_keep_their_place(durable: Durable) -> None:
    """Each call has one result, in call order, whatever the order in which they end."""

    @tool(idempotent=True)
    async def sleep(n: int) -> str:
        """Sleep."""
        await asyncio.sleep(0.2 - n / 20)
        return f"slept {n}"

    runner = Runner([sleep], model=ScriptedModel([[call("sleep", n=n) for n in range(4)], "Done."]))
    result = asyncio.run(durable.run(runner))
    texts = [message.text for message in result.messages if isinstance(message, ToolMessage)]

    assert [f"slept {n}" for n in range(4)] == texts


def test_a_worker_that_is_shut_down(durable: Durable, caplog: pytest.LogCaptureFixture) -> None:
    """A worker that is stopped in the middle of a step leaves it to another one, without a warning."""

    async def go() -> Any:
        begun, go_on = asyncio.Event(), asyncio.Event()

        @tool(idempotent=True)
        async def wait() -> str:
            """Wait."""
            begun.set()
            await go_on.wait()
            return "waited"

        runner = Runner([wait], model=ScriptedModel([[call("wait")], "Done."]))
        run = await (await durable.runs(runner)).start("Go.")
        async with await durable.worker(runner, graceful_shutdown_timeout=timedelta(seconds=0.2)):
            await begun.wait()
        go_on.set()
        async with await durable.worker(runner):
            return await run.result()

    result = asyncio.run(go())

    assert ("Done.", "stop", "waited") == (result.output, result.finish_reason, result.calls[0].result.text)
    assert "Completing activity as failed" not in caplog.text


def test_workers_with_other_heartbeats(durable: Durable) -> None:
    """A worker whose own heartbeats may be rarer keeps to those of the run, and counts as alive."""

    @tool(effect="write")
    async def work() -> str:
        """Work for longer than a heartbeat may take."""
        await asyncio.sleep(2.5)
        return "worked"

    runner = Runner([work], model=ScriptedModel([call("work"), "Done."]), approve=defer)

    async def go() -> Any:
        async with await durable.worker(runner, heartbeat=1.0):
            run = await (await durable.runs(runner)).start("Work.")
            status = await until(run.status, lambda status: status.pending)
        async with await durable.worker(runner, heartbeat=30.0):
            await run.approve(status.pending[0].call.id)
            return await run.result()

    assert "worked" == asyncio.run(go()).calls[0].result.text


@pytest.mark.slow
def test_no_worker(durable: Durable) -> None:
    """Without a worker a run waits, and its status is an error that says so; so is an unknown namespace."""

    async def go() -> None:
        run = await (await durable.runs()).start("Go.")
        with pytest.raises(RunError, match=f"no worker of the task queue '{durable.queue}' answers; start one"):
            await run.status()
        stranger = DurableRunner(await Client.connect(durable.address, namespace="birds"), task_queue="birds")
        with pytest.raises(RunError, match="Namespace birds is not found"):
            await stranger.start("Go.")

    asyncio.run(go())


def test_a_server_that_is_away(durable: Durable, caplog: pytest.LogCaptureFixture) -> None:
    """Who waits for a run, or reads its events, waits on while server or workers are away or busy; the log has it."""
    runner, refused = Runner(model=ScriptedModel(["Done."])), Counter[str]()
    # A refusal, a broken line, a server that has too much to do.
    away = [RPCStatusCode.UNAVAILABLE, RPCStatusCode.UNKNOWN, RPCStatusCode.RESOURCE_EXHAUSTED]

    def refuse(name: str) -> None:
        refused[name] += 1
        if refused[name] <= len(away):
            raise RPCError("away", away[refused[name] - 1], b"")
        if name == "query" and refused[name] == 1 + len(away):
            raise WorkflowQueryFailedError("[TMPRL1101] Potential deadlock detected: workflow didn't yield in time")

    class Outage(OutboundInterceptor):
        async def query_workflow(self, input: Any) -> Any:
            refuse("query")
            return await super().query_workflow(input)

        def fetch_workflow_history_events(self, input: Any) -> Any:
            refuse("history")
            return super().fetch_workflow_history_events(input)

    class Outages(Interceptor):
        def intercept_client(self, next: Any) -> OutboundInterceptor:
            return Outage(next)

    async def go() -> tuple[str, list[str]]:
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Go.")
            far = DurableRun(await Client.connect(durable.address, interceptors=[Outages()]), run.id)
            with pytest.raises(RunUnreachableError, match="cannot be reached now"):
                await far.status()
            return (await far.result()).output, [type(event).__name__ async for event in far.events()]

    assert ("Done.", ["MessageAdded", "TextDelta", "TurnFinished", "RunFinished"]) == asyncio.run(go())
    assert min(refused.values()) > len(away)
    assert caplog.messages and all("cannot be reached now" in each for each in caplog.messages)


def test_a_run_that_failed(durable: Durable, tmp_path: Path) -> None:
    """Its status says that it has ended and why, and has the id by which its calls are undone."""
    undone: list[int] = []

    @tool(effect="write", undo=lambda n: undone.append(n))
    def make(n: int) -> str:
        """Make."""
        return f"made {n}"

    model = ScriptedModel([call("make", n=1), ModelError("No such model.", 404)])
    runner = Runner([make], model=model, ledger=SQLiteLedger(tmp_path / "ledger.db"))

    async def go() -> Any:
        async with await durable.worker(runner):
            run = await (await durable.runs(runner)).start("Go.", run_id=f"order-{durable.queue}")
            with pytest.raises(ModelError):
                await run.result()
            status = await run.status()
            return status, await runner.aundo(status.run_id)

    status, undos = asyncio.run(go())

    assert ("finished", "error", "No such model.") == (status.phase, status.finish_reason, status.note)
    assert (["undone"], [1]) == ([undo.outcome for undo in undos], undone)
