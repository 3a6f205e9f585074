"""Workers that kill themselves at a named point, one after the other, followed by one that does not.

A program: its argument is the server's address, each line on its input a worker to start. It forks, as a fork takes
milliseconds and an import of everything takes seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import (
    ActivityInboundInterceptor,
    Interceptor,
    UnsandboxedWorkflowRunner,
    WorkflowInboundInterceptor,
    WorkflowOutboundInterceptor,
)

from tests.durable.support import Shelf, make_converter
from toolkit import Runner, SQLiteLedger, ToolContext, tool
from toolkit.approvers import defer
from toolkit.durable import Worker
from toolkit.models import ModelResponse
from toolkit.testing import ScriptedModel, call

STEPS = ("toolkit.open", "toolkit.model", "toolkit.authorize", "toolkit.call")
# Points at which a worker is killed; those of the ledger need one. The first ones say most.
POINTS = (
    *("after effect of book", "after stage started", "in the sub-agent", "continue as new", "after toolkit.call"),
    *("after decision", "before effect of book", "before effect of store", "after effect of store"),
    *(f"{when} {step}" for step in STEPS for when in ("before", "after") if (when, step) != ("after", STEPS[-1])),
    *(f"{when} stage {stage}" for stage in ("proposed", "approved", "finished") for when in ("before", "after")),
    *("before stage started",),
    *("model", "gate", "before hook", "after hook", "workflow begins", "workflow ends", "before decision"),
    *("step is scheduled", "sub-agent begins", "before payload", "after payload"),
)
CLAIM_BYTES = 1_500


class Killer:
    """Kills this process when it comes to a point for the n-th time."""

    def __init__(self, home: Path, point: str, hit: int) -> None:
        self.home, self._point, self._left = home, point, hit

    def at(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if not self._left:
                self.note("killed", point)
                os.kill(os.getpid(), signal.SIGKILL)

    def note(self, file: str, line: str) -> None:
        """Have an effect: one line of a file."""
        handle = os.open(self.home / file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.write(handle, f"{line}\n".encode())
        os.close(handle)


class Ledger(SQLiteLedger):
    def __init__(self, killer: Killer) -> None:
        super().__init__(killer.home / "calls.db")
        self._killer = killer

    def write(self, entry: Any) -> bool:
        self._killer.at(f"before stage {entry.stage}")
        is_first = super().write(entry)
        self._killer.at(f"after stage {entry.stage}")
        return is_first


class Payloads(Shelf):
    """A store in a directory, which the next worker reaches, too."""

    def __init__(self, killer: Killer) -> None:
        super().__init__()
        self._killer, self._path = killer, killer.home / "payloads"
        self._path.mkdir(exist_ok=True)

    def save(self, data: bytes) -> str:
        self._killer.at("before payload")
        key = super().save(data)
        draft = self._path / f"{key}.{os.getpid()}"
        draft.write_bytes(data)
        draft.replace(self._path / key)  # whole or not at all
        self._killer.at("after payload")
        return key

    def load(self, key: str) -> bytes:
        return (self._path / key).read_bytes()


class Hook:
    def __init__(self, killer: Killer) -> None:
        self._killer = killer

    def before_call(self, call: Any, context: Any) -> None:
        self._killer.at("before hook")

    def after_call(self, call: Any, result: Any, context: Any) -> None:
        self._killer.at("after hook")


def make_interceptor(killer: Killer) -> Interceptor:
    class Activities(ActivityInboundInterceptor):
        async def execute_activity(self, input: Any) -> Any:
            step = activity.info().activity_type
            killer.at(f"before {step}")
            done = await super().execute_activity(input)
            killer.at(f"after {step}")
            return done

    class Outbound(WorkflowOutboundInterceptor):
        def start_activity(self, input: Any) -> Any:
            killer.at("step is scheduled")
            return super().start_activity(input)

        def continue_as_new(self, input: Any) -> Any:
            killer.at("continue as new")
            return super().continue_as_new(input)

        async def start_child_workflow(self, input: Any) -> Any:
            killer.at("sub-agent begins")
            return await super().start_child_workflow(input)

    class Workflows(WorkflowInboundInterceptor):
        def init(self, outbound: Any) -> None:
            super().init(Outbound(outbound))

        async def execute_workflow(self, input: Any) -> Any:
            killer.at("workflow begins")
            done = await super().execute_workflow(input)
            killer.at("workflow ends")
            return done

        async def handle_update_handler(self, input: Any) -> Any:
            killer.at("before decision")
            done = await super().handle_update_handler(input)
            killer.at("after decision")
            return done

    class Kills(Interceptor):
        def intercept_activity(self, next: Any) -> Any:
            return Activities(next)

        def workflow_interceptor_class(self, input: Any) -> Any:
            return Workflows

    return Kills()


def make_runner(killer: Killer, *, has_ledger: bool) -> Runner:
    """A runner whose run books twice, once with approval, stores three times, and once more in a sub-agent."""

    @tool(effect="write")
    def book(n: int, context: ToolContext) -> str:
        """Book, once."""
        killer.at("before effect of book")
        killer.note("booked", context.call_id)
        killer.at("after effect of book")
        return f"booked {n}"

    @tool(idempotent=True)
    def store(n: int, context: ToolContext) -> str:
        """Store under a key."""
        killer.at("in the sub-agent" if n == 100 else "before effect of store")
        killer.note("stored", context.idempotency_key)
        killer.at("after effect of store")
        return f"stored {n}"

    def answer(request: Any) -> Any:
        turn = sum(isinstance(message, ModelResponse) for message in request.messages)
        killer.at("model")
        turns = [
            [call("store", n=0), call("book", n=0)],
            [call("ask_helper", query="Store 100."), call("store", n=1)],
            [call("book", n=2), call("store", n=2)],
        ]
        return turns[turn] if turn < len(turns) else "Done."

    def help_out(request: Any) -> Any:
        return "Helped." if len(request.messages) > 1 else call("store", n=100)

    def gate(request: Any) -> Any:
        killer.at("gate")
        return defer(request) if request.name == "book" and request.arguments["n"] == 0 else True

    options: Any = {"ledger": Ledger(killer)} if has_ledger else {}
    helper = Runner([store], model=ScriptedModel(help_out), **options)
    return Runner(
        [book, store, helper.as_tool("ask_helper", "storing")],
        model=ScriptedModel(answer),
        approve=gate,
        hooks=[Hook(killer)],
        **options,
    )


async def work(address: str, queue: str, killer: Killer, *, has_ledger: bool) -> None:
    client = await Client.connect(address, data_converter=make_converter(Payloads(killer), CLAIM_BYTES))
    runner = make_runner(killer, has_ledger=has_ledger)
    async with Worker(
        client,
        runner,
        task_queue=queue,
        heartbeat=1.0,
        interceptors=[make_interceptor(killer)],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        await asyncio.Event().wait()


def supervise(address: str, given: dict[str, Any]) -> None:
    """Start a worker, and once it is dead another one; the last one lives."""
    for point in (*[given["point"]] * given["kills"], ""):
        worker = os.fork()
        if not worker:
            killer = Killer(Path(given["home"]), point, given["hit"])
            asyncio.run(work(address, given["queue"], killer, has_ledger=given["ledger"]))
        os.waitpid(worker, 0)


def main() -> None:
    for line in sys.stdin:
        if not os.fork():
            supervise(sys.argv[1], json.loads(line))
            os._exit(0)


if __name__ == "__main__":
    main()
