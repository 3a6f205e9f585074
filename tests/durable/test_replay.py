"""Histories of runs: they replay to the same steps, stay short, and hold no secret."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes, PayloadCodec
from temporalio.worker import Replayer, WorkflowReplayResult

from tests.durable.support import Durable, Shelf, environment, make_converter, until
from toolkit import Limits, ModelError, Runner, Session, SQLiteLedger, tool
from toolkit.approvers import defer
from toolkit.durable import DevServer, DurableRun, DurableRunner, Worker
from toolkit.durable.workflow import RunWorkflow
from toolkit.models import ModelRequest, ModelResponse
from toolkit.testing import FakeServer, ScriptedModel, call, reply

HISTORIES = Path(__file__).parent / "histories"


@tool(idempotent=True)
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effect="write", approve=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


SCRIPT: list[Any] = [
    [call("add", a=1, b=2), call("pay", amount=1), call("add", a=3, b=4), call("unknown")],
    [call("pay", amount=2)],
    "Done.",
    "Good bye.",
]


def approve(request: Any) -> Any:
    return defer(request) if request.name == "pay" else True


async def run_with_approvals(durable: Durable) -> WorkflowHistory:
    """A run with parallel calls, approvals, a rejection, a follow-up and a limit."""
    limits = Limits(max_calls=9, max_seconds=60)
    runner = Runner([add, pay], model=ScriptedModel(SCRIPT), approve=approve, limits=limits, instructions="Pay.")
    async with start(durable, runner) as run:
        await run.follow_up("And?")
        first = await until(run.status, lambda status: status.pending)
        await run.approve(first.pending[0].call.id)
        second = await until(run.status, lambda status: status.pending and status.pending != first.pending)
        await run.approve(second.pending[0].call.id, False)
        assert "Good bye." == (await run.result()).output
        return await fetch(durable, run.id)


def delegate() -> Runner:
    """A runner whose sub-agent has a typed answer, the first of which does not fit."""
    script: list[Any] = [call("add", a=1, b=2), "Three.", "3"]
    inner = Runner([add], model=ScriptedModel(script), authorize=lambda *_: True)
    outer: list[Any] = [call("ask_inner", query="Add."), "Done."]
    return Runner([inner.as_tool("ask_inner", "sums", output_type=int)], model=ScriptedModel(outer))


async def run_with_a_sub_agent(durable: Durable) -> WorkflowHistory:
    """A run whose call is a workflow of its own."""
    async with start(durable, delegate()) as run:
        assert "3" == (await run.result()).calls[0].result.text
        return await fetch(durable, run.id)


async def run_of_a_sub_agent(durable: Durable) -> WorkflowHistory:
    """The run of a sub-agent, with an answer that does not fit."""
    async with start(durable, delegate()) as run:
        return await fetch(durable, f"{run.id}/{(await run.result()).calls[0].call.id}")


async def run_that_is_cancelled(durable: Durable) -> WorkflowHistory:
    """A run that is cancelled in the middle of a call, undone and remembered by nobody."""
    begun = asyncio.Event()

    @tool(effect="write")
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.sleep(60)
        return "waited"

    with TemporaryDirectory() as folder, SQLiteLedger(Path(folder) / "calls.db") as ledger:
        options: dict[str, Any] = {"ledger": ledger, "undo_on_failure": True}
        runner = Runner([wait], model=ScriptedModel([call("wait")]), **options)
        async with start(durable, runner) as run:
            await begun.wait()
            await run.cancel()
            assert "cancelled" == (await run.result()).finish_reason
            return await fetch(durable, run.id)


async def run_of_a_session(durable: Durable) -> WorkflowHistory:
    """A run that goes on from a session, and adds to it."""
    runner, session = Runner(model=ScriptedModel(["Hello."])), Session([{"role": "user", "content": "Earlier."}])
    async with start(durable, runner, sessions=lambda name: session) as run:
        await run.result()
        return await fetch(durable, run.id)


async def run_that_goes_on(durable: Durable) -> WorkflowHistory:
    """The first history of a run that goes on under a second one."""
    async with start(durable, count_to(8)) as run:
        await run.follow_up("And?")
        assert "Done." == (await run.result()).output
        started = (await fetch(durable, run.id)).events[0].workflow_execution_started_event_attributes
        return await fetch(durable, run.id, started.first_execution_run_id)


async def run_that_went_on(durable: Durable) -> WorkflowHistory:
    """The second history of such a run, with a question that was not read in the first."""
    async with start(durable, count_to(8)) as run:
        await run.follow_up("And?")
        assert "Done." == (await run.result()).output
        return await fetch(durable, run.id)


def count_to(turns: int) -> Runner:
    """A runner with a call in each of so many turns."""

    def answer(request: ModelRequest) -> Any:
        turn = sum(isinstance(message, ModelResponse) for message in request.messages)
        return "Done." if turn >= turns else [call("add", a=turn, b=0)]

    return Runner([add], model=ScriptedModel(answer), max_turns=50)


async def run_with_claims(durable: Durable) -> WorkflowHistory:
    """A run whose larger payloads are elsewhere."""
    async with start(durable, Runner([add], model=ScriptedModel([call("add", a=1, b=2), "Done."]))) as run:
        await run.result()
        return await fetch(durable, run.id)


RUNS: dict[str, Callable[[Durable], Awaitable[WorkflowHistory]]] = {
    "approvals": run_with_approvals,
    "sub-agent above": run_with_a_sub_agent,
    "sub-agent below": run_of_a_sub_agent,
    "cancelled": run_that_is_cancelled,
    "session": run_of_a_session,
    "first part": run_that_goes_on,
    "second part": run_that_went_on,
    "claims": run_with_claims,
}


@asynccontextmanager
async def start(durable: Durable, runner: Runner, **options: Any) -> AsyncIterator[DurableRun]:
    """Start a run, and a worker."""
    session: dict[str, Any] = {"session": "main"} if "sessions" in options else {}
    async with await durable.worker(runner, identity="test", **options):
        yield await (await durable.runs(runner)).start("Go.", **session)


async def fetch(durable: Durable, run_id: str, history: str | None = None) -> WorkflowHistory:
    """Fetch the last history of a run, or another one."""
    return await (await durable.connect()).get_workflow_handle(run_id, run_id=history).fetch_history()


async def replay(history: WorkflowHistory, shelf: Shelf | None = None) -> WorkflowReplayResult:
    return await Replayer(workflows=[RunWorkflow], data_converter=convert(shelf)).replay_workflow(history)


def convert(shelf: Shelf | None) -> DataConverter:
    """Make what turns values into payloads."""
    return DataConverter.default if shelf is None else make_converter(shelf, 500)


@pytest.fixture(scope="module")
def short_server(make_server: Callable[..., DevServer]) -> DevServer:
    """A server on which a run soon goes on under a new history."""
    return make_server("--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=40")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "second part" else []) for name in RUNS]
)
def test_a_run_replays(name: str, durable: Durable, short_server: DevServer) -> None:
    """A history replays without a worker's tools, in the sandbox, to the same steps."""
    shelf = Shelf() if name == "claims" else None
    address = short_server.address if "part" in name else durable.address

    async def go() -> None:
        history = await RUNS[name](Durable(address, converter=convert(shelf)))
        if label := os.environ.get("TOOLKIT_WRITE_HISTORIES"):
            kept = {key: base64.b64encode(data).decode() for key, data in (shelf.kept if shelf else {}).items()}
            data = {"id": history.workflow_id, "claims": kept, "history": history.to_json_dict()}
            text = json.dumps(data) + "\n"
            (HISTORIES / f"{name.replace(' ', '-')}-{label}.json").write_text(text, encoding="utf-8")
        await replay(history, shelf)

    asyncio.run(go())


@pytest.mark.parametrize("path", sorted(HISTORIES.glob("*.json")), ids=lambda path: path.stem)
def test_kept_histories_replay(path: Path) -> None:
    """Runs that an earlier version began go on: write new files beside the old ones, and keep those."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    shelf = Shelf()
    shelf.kept = {key: base64.b64decode(data) for key, data in kept["claims"].items()}

    asyncio.run(replay(WorkflowHistory.from_json(kept["id"], kept["history"]), shelf if shelf.kept else None))


def test_workflow_is_light() -> None:
    """What the sandbox loads for each run loads no client of a model, no database and no tools of ours."""
    code = """
import sys
import toolkit.durable.workflow
heavy = ("openai", "httpx2", "sqlite3", "numpy", "toolkit._runner.runner", "toolkit.builtin", "toolkit._toolbox")
print([name for name in heavy if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)

    assert "[]\n" == ran.stdout


@pytest.mark.slow
def test_long_runs(short_server: DevServer) -> None:
    """A run goes on under a new history before the server ends it for its length, with all that it knows."""
    durable, turns = Durable(short_server.address), 20

    async def go() -> tuple[Any, int, bool]:
        async with start(durable, count_to(turns)) as run:
            await run.follow_up("And?")
            result = await run.result()
            history = await fetch(durable, run.id)
            await replay(history)
            first = history.events[0].workflow_execution_started_event_attributes
            return result, len(history.events), bool(first.continued_execution_run_id)

    result, events, is_continued = asyncio.run(go())

    assert is_continued and events < 60
    assert ["Done."] * 2 == [m.text for m in result.messages if isinstance(m, ModelResponse) and not m.calls]
    assert list(range(turns)) == [json.loads(end.call.arguments)["a"] for end in result.calls]
    assert turns + 2 == result.usage.requests


@pytest.mark.slow
def test_long_conversations(short_server: DevServer) -> None:
    """So does a run without calls, whose user says more and more."""
    runner = Runner(model=ScriptedModel(lambda request: f"{len(request.messages)}"), max_turns=50)

    async def go() -> tuple[str, bool]:
        own = Durable(short_server.address)
        run = await (await own.runs(runner)).start("Go.")
        for _ in range(12):
            await run.follow_up("And?")
        async with await own.worker(runner):
            output = (await run.result()).output
            started = (await fetch(own, run.id)).events[0].workflow_execution_started_event_attributes
            return output, bool(started.continued_execution_run_id)

    assert ("25", True) == asyncio.run(go())


@pytest.mark.slow
def test_long_pauses(short_server: DevServer) -> None:
    """So does a run that waits for one decision after the other, with the answer that a tool has given."""

    @tool(return_direct=True)
    def report() -> str:
        """Report."""
        return "The report."

    script = [[call("report"), *[call("pay", amount=n) for n in range(12)]]]
    runner = Runner([report, pay], model=ScriptedModel(script), approve=approve)

    async def go() -> tuple[Any, bool]:
        durable = Durable(short_server.address)
        async with start(durable, runner) as run:
            for _ in range(12):
                status = await until(run.status, lambda status: status.pending)
                await run.approve(status.pending[0].call.id)
            result = await run.result()
            history = await fetch(durable, run.id)
            await replay(history)
            first = history.events[0].workflow_execution_started_event_attributes
            return result, bool(first.continued_execution_run_id)

    result, is_continued = asyncio.run(go())

    assert ("The report.", True) == (result.output, is_continued)
    assert [f"paid {n}" for n in range(12)] == [end.result.text for end in result.calls[1:]]


class Reversing(PayloadCodec):
    """A codec in place of encryption."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(metadata={"encoding": b"reversed"}, data=p.SerializeToString()[::-1]) for p in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload.FromString(p.data[::-1]) for p in payloads]


def decode(data: Any) -> str:
    """All texts of a history, those of its payloads decoded."""
    if isinstance(data, list):
        return " ".join(map(decode, data))
    if isinstance(data, dict):
        return " ".join(
            base64.b64decode(value).decode(errors="replace") if name == "data" else decode(value)
            for name, value in data.items()
        )
    return str(data)


def test_what_a_history_holds(durable: Durable) -> None:
    """The key of a model is in no history; with a codec neither is the conversation."""

    async def go(converter: DataConverter) -> str:
        own = Durable(durable.address)
        client = await Client.connect(own.address, data_converter=converter)
        with FakeServer([reply.calls(("add", {"a": 1, "b": 2})), reply.text("An answer.")]) as server:
            options: Any = {"model": "fake", "base_url": server.base_url, "api_key": "sk-very-secret"}
            runner = Runner([add], instructions="Instructions.", **options)
            async with Worker(client, runner, task_queue=own.queue, deps="deps-secret"):
                run = await DurableRunner(client, runner, task_queue=own.queue).start("A question.")
                assert "An answer." == (await run.result()).output
                return decode((await client.get_workflow_handle(run.id).fetch_history()).to_json_dict())

    plain = asyncio.run(go(DataConverter.default))
    coded = asyncio.run(go(DataConverter(payload_codec=Reversing())))

    assert "A question." in plain and "An answer." in plain and "Instructions." in plain
    assert "secret" not in plain + coded
    assert "question" not in coded and "answer" not in coded


def test_what_a_history_holds_of_an_error(durable: Durable) -> None:
    """With the SDK's converter of failures a codec is applied to the texts of errors, too; the client reads them."""
    failures = DefaultFailureConverterWithEncodedAttributes
    converter = DataConverter(payload_codec=Reversing(), failure_converter_class=failures)

    async def go() -> str:
        client = await Client.connect(durable.address, data_converter=converter)
        runner = Runner(model=ScriptedModel([ModelError("Bad question.", 400)]))
        async with Worker(client, runner, task_queue=durable.queue):
            run = await DurableRunner(client, runner, task_queue=durable.queue).start("Go.")
            with pytest.raises(ModelError, match="Bad question."):
                await run.result()
            return decode((await client.get_workflow_handle(run.id).fetch_history()).to_json_dict())

    assert "question" not in asyncio.run(go())
