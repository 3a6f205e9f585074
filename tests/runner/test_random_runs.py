"""Runs with anything at any time: calls that fail, words of the user, an end from outside; what they leave is whole."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers import FakeServer
from toolkit import (
    AsyncRunStream,
    Decision,
    FatalError,
    Limits,
    RunHandle,
    Runner,
    RunResult,
    RunState,
    RunStream,
    ToolContext,
    ToolError,
    batched,
    tool,
)
from toolkit.errors import RunError
from toolkit.models import Message, ModelResponse, ToolMessage
from toolkit.testing import ScriptedModel, call, reply

RUNS = int(os.environ.get("TOOLKIT_RUNS", "20"))

Deed: TypeAlias = Literal["nothing", "steer", "follow up", "clear", "cancel", "leave"]
Way: TypeAlias = Literal["stream", "astream", "start"]
NAMES = st.sampled_from(["read", "wait", "fail", "awrite", "fatal", "nobody", "ask", "direct"])


@dataclass(frozen=True)
class Plan:
    """One run: what the model does, and what happens to it meanwhile."""

    turns: tuple[tuple[str, ...], ...]
    deeds: tuple[Deed, ...]
    way: Way
    order: Any
    is_async: bool


PLANS = st.builds(
    Plan,
    turns=st.lists(st.lists(NAMES, max_size=4).map(tuple), max_size=3).map(tuple),
    deeds=st.lists(
        st.sampled_from(["nothing"] * 8 + ["steer", "follow up", "clear", "cancel", "leave"]), max_size=24
    ).map(tuple),
    way=st.sampled_from(["stream", "astream", "start"]),
    order=st.sampled_from(["parallel", "sequential", batched(2)]),
    is_async=st.booleans(),
)


@tool(effect="read")
def read() -> str:
    """Read."""
    return "read"


@tool
def wait(context: ToolContext) -> str:
    """Wait a little, and say so."""
    context.progress("waiting")
    return str(context.cancelled)


@tool
def fail() -> None:
    """Fail."""
    raise ToolError("no")


@tool(effect="write")
async def awrite() -> str:
    """Write."""
    await asyncio.sleep(0)
    return "written"


@tool
def fatal() -> None:
    """End the run."""
    raise FatalError("the end")


@tool(approve=True)
def ask() -> str:
    """Ask."""
    return "asked"


@tool(return_direct=True)
def direct() -> str:
    """Answer."""
    return "direct"


TOOLS: list[Any] = [read, wait, fail, awrite, fatal, ask, direct]


@dataclass
class Played:
    """A run that is played by a plan: its events and its result."""

    plan: Plan
    events: list[Any] = field(default_factory=list)
    result: RunResult | None = None

    def runner(self) -> Runner:
        script: list[Any] = [[call(name) for name in turn] or "" for turn in self.plan.turns]
        model = ScriptedModel([*script, *["Done."] * 40], is_async=self.plan.is_async)
        verdicts, limits = {"ask": Decision.defer()}, Limits(max_calls_per_turn=2)
        return Runner(
            TOOLS,
            model=model,
            order=self.plan.order,
            limits=limits,
            approve=lambda request: verdicts.get(request.tool.name, True),
        )

    def play(self) -> None:
        {"stream": self.streamed, "astream": lambda: asyncio.run(self.astreamed()), "start": self.started}[
            self.plan.way
        ]()

    def streamed(self) -> None:
        with self.runner().stream("x") as run:
            self.follow(run, run)
        self.result = run.result

    async def astreamed(self) -> None:
        async with self.runner().astream("x") as run:
            try:
                async for event in run:
                    if self.does(run, event):
                        break
            except FatalError:
                pass
        self.result = run.result

    def started(self) -> None:
        run = self.runner().start("x")
        self.follow(run, run.events())
        run.cancel()
        try:
            self.result = run.result(10)
        except FatalError as error:
            self.result = error.result

    def follow(self, run: RunStream | RunHandle, events: Iterator[Any]) -> None:
        try:
            for event in events:
                if self.does(run, event):
                    break
        except FatalError:
            pass

    def does(self, run: RunStream | AsyncRunStream | RunHandle, event: Any) -> bool:
        """Do what the plan says at this event; return whether the run is to be left."""
        number = len(self.events)
        self.events.append(event)
        deed = self.plan.deeds[number] if number < len(self.plan.deeds) else "nothing"
        deeds: dict[str, Callable[[], object]] = {
            "steer": lambda: run.steer(f"steer {number}"),
            "follow up": lambda: run.follow_up(f"follow {number}"),
            "clear": run.clear,
            "cancel": run.cancel,
        }
        with suppress(RunError):  # it has ended
            deeds.get(deed, lambda: None)()
        return deed == "leave"


def is_whole(messages: tuple[Message, ...]) -> bool:
    """Whether each call has its one result, in call order, directly behind the answer that made it."""
    left: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not left or left.pop(0) != message.call_id:
                return False
        elif left:
            return False
        elif isinstance(message, ModelResponse):
            left = [made.id for made in message.calls]
    return not left


def ids(messages: tuple[Message, ...]) -> list[str]:
    return [made.id for message in messages if isinstance(message, ModelResponse) for made in message.calls]


def still_working(before: set[threading.Thread]) -> list[str]:
    """The names of the new threads that work for runs; those that are about to end are given the time for it."""
    until = time.monotonic() + 20
    while (names := working(before)) and time.monotonic() < until:
        threading.Event().wait(0.002)
    return names


def working(before: set[threading.Thread]) -> list[str]:
    names = (thread.name for thread in threading.enumerate() if thread not in before)
    return [name for name in names if name in ("toolkit-call", "toolkit-run")]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer(lambda _: reply.text("Yes.")) as server:
        yield server


@settings(max_examples=RUNS)
@given(plan=PLANS)
def test_any_run(plan: Plan, server: FakeServer) -> None:
    """Whatever happens in a run, its history is whole, strict servers accept it, and nothing is left running."""
    before = {*threading.enumerate()}  # an earlier test may have abandoned what still waits for a silent server
    played = Played(plan)
    played.play()
    result = played.result
    assert result is not None
    if result.is_paused:
        result = Runner(TOOLS, model=ScriptedModel(["Done."])).resume(
            RunState.from_json(result.state.to_json()), {pending.call.id: True for pending in result.pending}
        )
    made = ids(result.messages)

    assert is_whole(result.messages)
    assert len(made) == len(set(made))
    assert made == [done.call.id for done in result.calls]
    assert [] == still_working(before)
    Runner(model="fake", base_url=server.base_url).run("And now?", messages=result.messages)
