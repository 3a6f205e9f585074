"""Undo: what the calls of a run have done is undone by the ledger, in reverse, each call once."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from tests import ways
from toolkit import (
    Decision,
    DefinitionError,
    FatalError,
    Image,
    Limits,
    MemoryLedger,
    ModelError,
    Runner,
    RunResult,
    RunState,
    Session,
    SQLiteLedger,
    SQLiteRuns,
    Tool,
    Toolbox,
    ToolContext,
    ToolError,
    tool,
)
from toolkit.approvers import defer
from toolkit.errors import ConversationError, StoreError, TimedOut
from toolkit.events import ResultsAdded, RunFinished
from toolkit.testing import ScriptedModel, call


@dataclass
class Booking:
    number: int
    city: str


class Travel:
    """Tools whose calls are undone, and what was done, in order."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def cancel(self, booking: Booking) -> None:
        self.done.append(("cancelled", booking))

    def give_back(self, city: str, days: int, context: ToolContext[Any]) -> None:
        self.done.append(("given back", city, days, context.deps))

    @tool(effect="write", undo=cancel)
    def book(self, city: str) -> Booking:
        """Book."""
        self.done.append(("booked", city))
        return Booking(len(self.done), city)

    @tool(effect="write", undo=give_back)
    async def rent(self, city: str, days: int = 3) -> None:
        """Rent."""
        self.done.append(("rented", city, days))

    @tool
    def fail(self) -> None:
        """Fail."""
        raise FatalError("No.")

    def make(self, *script: Any, **options: Any) -> Runner:
        return Runner(Toolbox.from_object(self), model=ScriptedModel(script), **options)


def test_undo_by_a_tool_of_the_class() -> None:
    """The undo of a method may be another tool of its class, which gets its instance with it."""

    class Desk:
        def __init__(self) -> None:
            self.freed: list[str] = []

        @tool(idempotent=True)
        def free(self, city: str) -> None:
            """Free a room."""
            self.freed.append(city)

        @tool(effect="write", undo=free)
        def book(self, city: str) -> None:
            """Book a room."""

    desk = Desk()
    runner = Runner(Toolbox.from_object(desk), model=ScriptedModel([call("book", city="Rome"), "Done."]))
    runner.undo(runner.run("go").state)

    assert ["Rome"] == desk.freed


def undo_sync(runner: Runner, result: RunResult, **options: Any) -> Any:
    return runner.undo(result.state, **options)


def undo_async(runner: Runner, result: RunResult, **options: Any) -> Any:
    return asyncio.run(runner.aundo(result.state.run_id, **options))


each_undo = pytest.mark.parametrize("undo", [undo_sync, undo_async])
BOTH = [call("book", city="Rome"), call("rent", city="Rome")]
UNDONE = [("given back", "Rome", 3, "deps"), ("cancelled", Booking(1, "Rome"))]


@each_undo
def test_undo(undo: Callable[..., Any]) -> None:
    """Calls are undone in reverse: by their arguments, defaults included, by their typed results, with the deps."""
    travel = Travel()
    runner = travel.make(BOTH, "Booked.", ledger=MemoryLedger())
    result = runner.run("Go.", deps="deps")
    undone = undo(runner, result, deps="deps")

    assert UNDONE == travel.done[2:]
    assert [("rent", "undone", ""), ("book", "undone", "")] == [(u.call.name, u.outcome, u.error) for u in undone]
    assert [each.call.id for each in reversed(result.calls)] == [each.call.id for each in undone]


@each_undo
def test_undo_again(undo: Callable[..., Any], tmp_path: Path) -> None:
    """What was undone is not undone again, in this process or another one with the same ledger."""
    travel = Travel()
    options = {"ledger": SQLiteLedger(tmp_path / "calls.db")}
    result = travel.make(BOTH, "Booked.", **options).run("Go.")
    outcomes = [[each.outcome for each in undo(travel.make(**options), result)] for _ in range(3)]

    assert [["undone", "undone"]] * 3 == outcomes
    assert 4 == len(travel.done)


@pytest.mark.parametrize("record", ["", "{", "5", "null", "[]", "{}", b"\xff"])
@pytest.mark.parametrize("stage", ["started", "finished"])
def test_damaged_ledger(stage: str, record: str | bytes, tmp_path: Path) -> None:
    """A ledger whose record of a call is damaged is named, and nothing is undone by it."""
    travel = Travel()
    with SQLiteLedger(tmp_path / "calls.db") as ledger:
        result = travel.make(BOTH, "Booked.", ledger=ledger).run("Go.")
    with closing(sqlite3.connect(tmp_path / "calls.db")) as connection, connection:
        connection.execute("UPDATE entries SET result = ? WHERE stage = ?", (record, stage))

    if stage == "started" and record == "":  # as of a call whose tool has no undo
        assert () == travel.make(ledger=ledger).undo(result.state)
    else:
        with pytest.raises(StoreError, match=r"The record of the call '.*' is damaged"):
            travel.make(ledger=ledger).undo(result.state)
    assert 2 == len(travel.done)


@pytest.mark.parametrize("way", [ways.run, ways.arun, ways.stream, ways.astream, ways.start])
def test_on_failure(way: Callable[..., Any]) -> None:
    """With `undo_on_failure` a run that raises is undone, and its result says so; the exception stays."""
    travel = Travel()
    with pytest.raises(ModelError, match="down") as raised:
        way(travel.make(BOTH, ModelError("down"), undo_on_failure=True), deps="deps")

    assert UNDONE == travel.done[2:]
    assert ["undone", "undone"] == [each.outcome for each in raised.value.result.undos]


def test_fatal_error() -> None:
    """A tool that raises has nothing to undo, and is not reported."""
    travel = Travel()
    with pytest.raises(FatalError) as raised:
        travel.make([call("book", city="Rome"), call("fail")], undo_on_failure=True).run("Go.")

    assert ["book"] == [each.call.name for each in raised.value.result.undos]


def test_cancelled_and_stopped_runs() -> None:
    """A run that was cancelled, or stopped by an approver, is undone, too."""
    travel = Travel()

    def stop(request: Any) -> Any:
        return Decision.stop("Enough.") if request.name == "rent" else True

    stopped = travel.make(BOTH, approve=stop, undo_on_failure=True).run("Go.")
    runner: Runner = travel.make(BOTH, lambda _: runner.cancel() and "Late.", undo_on_failure=True)
    cancelled = runner.run("Go.", deps="deps")

    assert [("stopped", ["book"]), ("cancelled", ["rent", "book"])] == [
        (result.finish_reason, [each.call.name for each in result.undos]) for result in (stopped, cancelled)
    ]


@pytest.mark.parametrize("options", [{"undo_on_failure": True, "limits": Limits(max_turns=1)}, {}])
def test_runs_that_stay(options: dict[str, Any]) -> None:
    """A run that ends with an answer is not undone by itself, nor is one without `undo_on_failure`."""
    travel = Travel()
    result = travel.make(BOTH, "Booked.", **options).run("Go.", deps="deps")
    with pytest.raises(ModelError):
        travel.make(BOTH, ModelError("down")).run("Go.")

    assert () == result.undos
    assert {"booked", "rented"} == {each[0] for each in travel.done}


@pytest.mark.parametrize("times", [1, 1000])
def test_cancelled_task(times: int) -> None:
    """A run whose asyncio task is cancelled is undone before the task ends, however often it is cancelled."""
    travel = Travel()

    @tool
    async def wait() -> None:
        """Wait."""
        started.set()
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(runner.arun("Go.", deps="deps"))
        await started.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task

    started = asyncio.Event()
    tools = [*Toolbox.from_object(travel), wait]
    runner = Runner(tools, model=ScriptedModel([BOTH, call("wait")]), undo_on_failure=True)
    asyncio.run(main())

    assert UNDONE == travel.done[2:]


def test_left_stream() -> None:
    """A run whose stream is left early is undone; one that has ended is not."""
    for last, undone in ((ResultsAdded, UNDONE), (RunFinished, [])):
        travel = Travel()
        with travel.make(BOTH, "Booked.", undo_on_failure=True).stream("Go.", deps="deps") as events:
            next(event for event in events if isinstance(event, last))

        assert undone == travel.done[2:]
        assert len(undone) == len(events.result.undos)


def test_session_conflict() -> None:
    """A run that fails at its end, where its session has changed meanwhile, is undone."""
    travel, session = Travel(), Session()

    def answer(_: Any) -> str:
        Runner(model=ScriptedModel(["Hi."])).run("Meanwhile.", session=session)
        return "Booked."

    with pytest.raises(ConversationError) as raised:
        travel.make(BOTH, answer, undo_on_failure=True).run("Go.", session=session, deps="deps")

    assert UNDONE == travel.done[2:]
    assert ["undone"] * 2 == [each.outcome for each in raised.value.result.undos]


def test_failing_checkpoint() -> None:
    """Where saving fails after the undo as well, the run raises what it failed with."""

    def save(state: RunState) -> None:
        if state.phase == "finished":
            raise OSError("disk full")

    for end, error in ((ModelError("down"), ModelError), ("Booked.", OSError)):
        travel = Travel()
        with pytest.raises(error):
            travel.make(BOTH, end, undo_on_failure=True, checkpoint=save).run("Go.", deps="deps")

        assert UNDONE == travel.done[2:]


def test_session_of_an_undone_run() -> None:
    """A run that was cancelled and undone leaves no messages in its session."""
    session = Session()
    runner: Runner = Travel().make(BOTH, lambda _: runner.cancel() and "Late.", undo_on_failure=True)
    runner.run("Go.", session=session, deps="deps")

    assert () == tuple(session.messages)


# -- what an undo takes


@pytest.mark.parametrize(
    ("undo", "wanted"),
    [
        (lambda number: number, 7),
        (lambda: "nothing", "nothing"),
        (lambda a, b=5: (a, b), (1, 2)),
        (lambda made, /, b: (made, b), (7, 2)),
        (lambda made, note="x": (made, note), (7, "x")),
        (lambda made, **rest: (made, rest), (7, {"b": 2, "a": 1})),
    ],
    ids=["result", "nothing", "arguments", "positional", "own default", "rest"],
)
def test_parameters(undo: Any, wanted: Any) -> None:
    """Parameters named as the tool's get its arguments; one other gets the result; those with a default are left."""
    seen: list[Any] = []

    @wraps(undo)
    def note(*values: Any, **named: Any) -> None:
        seen.append(undo(*values, **named))

    @tool(undo=note)
    def make(a: int, b: int = 2) -> int:
        """Make."""
        return 7

    runner = Runner([make], model=ScriptedModel([call("make", a=1), "Done."]))
    runner.undo(runner.run("Go.").state)

    assert [wanted] == seen


def test_declared_tools() -> None:
    """A tool that is declared by a schema gives its arguments and its result, too."""
    seen: list[Any] = []
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    made = Tool.from_schema("touch", schema, lambda path: [path], undo=lambda path, result: seen.append((path, result)))
    runner = Runner([made], model=ScriptedModel([call("touch", path="x"), "Done."]))
    runner.undo(runner.run("Go.").state)

    assert [("x", ["x"])] == seen


def test_defaults_of_bound_functions() -> None:
    """The defaults of a function that only declares a tool are among the arguments, too."""
    seen: list[Any] = []

    @tool(activity="hotel", undo=lambda room, nights: seen.append((room, nights)))
    def book(room: str, nights: int = 2) -> str:
        """Book a room."""
        raise AssertionError

    box = Toolbox([book])
    box.bind("hotel", lambda room, nights: "booked")
    runner = Runner(box, model=ScriptedModel([call("book", room="7"), "Done."]))
    runner.undo(runner.run("Go.").state)

    assert [("7", 2)] == seen


def declare(path: str) -> None:
    """Declare."""


@pytest.mark.parametrize(
    ("undo", "message"),
    [
        (
            lambda a, b: None,
            "takes 'a' and 'b', and only one parameter can get the result. Name its param.*: path",
        ),
        (lambda pth: None, "takes 'pth', and the tool returns nothing"),
        ("cancel", "undo='cancel' is not a function, or a tool, that undoes a call"),
        (Tool.from_schema("x", {"type": "object", "properties": {}}), "has no function of its own"),
    ],
    ids=["two", "a misspelt one", "no function", "a tool without a function"],
)
def test_mistakes(undo: Any, message: str) -> None:
    """An undo that cannot take what there is fails where the tool is made."""
    with pytest.raises(DefinitionError, match=message):
        tool(declare, undo=undo)


def test_missing_deps() -> None:
    """An undo that needs deps is refused without, before anything is undone."""
    undone: list[str] = []

    def cancel(name: str, context: ToolContext[Travel]) -> None:
        undone.append(name)

    @tool(undo=cancel)
    def book(name: str) -> None:
        """Book."""

    runner = Runner([book], model=ScriptedModel([call("book", name="x"), "Done."]))
    state = runner.run("Go.").state
    with pytest.raises(TypeError, match=r"there are no deps: pass deps= to undo"):
        runner.undo(state)

    assert [] == undone
    assert ["undone"] == [each.outcome for each in runner.undo(state, deps=Travel())]
    with pytest.raises(TypeError, match=r"there are no deps: pass deps= to the run"):
        Runner([book], model=ScriptedModel([]), undo_on_failure=True).run("Go.")


# -- what is undone


def test_only_what_succeeded() -> None:
    """Calls that failed, were denied or were wrong are not undone; an approver's arguments are those that ran."""
    undone: list[int] = []

    @tool(undo=lambda n: undone.append(n))
    def add(n: int) -> str:
        """Add."""
        if n == 2:
            raise ToolError("Not 2.")
        return "added"

    def approve(request: Any) -> Any:
        n = request.arguments["n"]
        return Decision.reject("No.") if n == 3 else Decision.modify({"n": 40}) if n == 4 else True

    script: list[Any] = [[*(call("add", n=n) for n in (1, 2, 3, 4)), call("add", n="x")], "Done."]
    runner = Runner([add], model=ScriptedModel(script), approve=approve, order="sequential")
    runner.undo(runner.run("Go.").state)

    assert [40, 1] == undone


def test_timeouts_are_unknown() -> None:
    """A call that timed out may still have its effect: it is reported, and not undone."""
    go_on = threading.Event()

    @tool(undo=lambda: None, timeout=0.05)
    def wait() -> None:
        """Wait."""
        go_on.wait(10)

    runner = Runner([wait], model=ScriptedModel([call("wait"), "Done."]))
    state = runner.run("Go.").state
    go_on.set()
    (undo,) = runner.undo(state)

    assert ("unknown", True) == (undo.outcome, TimedOut.after(0.05).text in undo.error)


def book_once(request: Any) -> Any:
    return call("book", obj="x") if len(request.messages) == 1 else "Done."


def book_three(undo: Any, end: Any = "Done.", **options: Any) -> Runner:
    made = tool(lambda n: n, name="book", description="Book.", undo=undo, effect="write")
    script = [[call("book", n=n) for n in (1, 2, 3)], end]
    return Runner([made], model=ScriptedModel(script), **options)


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_failing_undo(is_idempotent: bool, caplog: pytest.LogCaptureFixture) -> None:
    """An undo that raises is reported and logged; the others follow. It is tried again only if it may be repeated."""
    seen: list[tuple[Any, str]] = []

    def cancel(booking: int, context: ToolContext) -> None:
        seen.append((booking, context.idempotency_key))
        if booking == 2 and len(seen) == 2:
            raise OSError("down")

    runner = book_three(tool(cancel, idempotent=is_idempotent))
    result = runner.run("Go.")
    first = runner.undo(result.state)
    logged = [(record.getMessage(), record.exc_info is not None) for record in caplog.records]
    second = runner.undo(result.state)
    keys = [key for _, key in seen]

    assert [(3, "undone", ""), (2, "failed", "OSError: down"), (1, "undone", "")] == [
        (int(each.call.arguments[-2]), each.outcome, each.error) for each in first
    ]
    assert isinstance(first[1].exception, OSError)
    assert [('book({"n": 2}): OSError: down', True)] == logged
    assert ("undone" if is_idempotent else "unknown") == second[1].outcome
    assert [3, 2, 1, *([2] if is_idempotent else [])] == [booking for booking, _ in seen]
    assert 3 == len({*keys}) and (keys[1] == keys[-1]) == is_idempotent and all(keys)


def test_fatal_undo() -> None:
    """An undo that raises what ends a run is reported, and the others follow."""
    undone: list[int] = []

    def cancel(booking: int) -> None:
        undone.append(booking)
        if booking == 2:
            raise FatalError("down")

    runner = book_three(cancel)
    outcomes = [(each.outcome, each.error) for each in runner.undo(runner.run("Go.").state)]

    assert ([("undone", ""), ("failed", "FatalError: down"), ("undone", "")], [3, 2, 1]) == (outcomes, undone)


def book_as(kind: Any, undo: Any) -> Tool[..., Any]:
    def book(n: int) -> Any:
        """Book."""
        return n

    book.__annotations__["return"] = kind
    return tool(book, undo=undo, effect="write")


def test_result_of_another_type() -> None:
    """A call whose result is not of the tool's present type is reported, and its undo does not run."""
    ledger, undone = MemoryLedger(), list[Any]()
    before = Runner([book_as(int, undone.append)], model=ScriptedModel([call("book", n=1), "Done."]), ledger=ledger)
    state = before.run("Go.").state
    (undo,) = Runner([book_as(list[int], undone.append)], ledger=ledger).undo(state)

    assert ("failed", True, []) == (undo.outcome, undo.error.startswith("Its result has changed: "), undone)


def test_keys_differ() -> None:
    """An undo has an idempotency key of its own, not that of its call."""
    keys: list[str] = []

    def note(context: ToolContext) -> None:
        """Note."""
        keys.append(context.idempotency_key)

    runner = Runner([tool(note, name="book", undo=note)], model=ScriptedModel([call("book"), "Done."]))
    runner.undo(runner.run("Go.").state)

    assert 2 == len({*keys}) == len(keys)


def test_retried_undo() -> None:
    """An undo that is a tool has its options: it is retried as they say."""
    attempts: list[int] = []

    @tool(idempotent=True, retries=2, retry_delay=0.001)
    def cancel(booking: int, context: ToolContext) -> None:
        """Cancel."""
        attempts.append(context.attempt)
        if context.attempt < 2:
            raise OSError("down")

    runner = Runner(
        [tool(lambda: 1, name="book", description="Book.", undo=cancel)], model=ScriptedModel([call("book"), "Done."])
    )

    assert ["undone"] == [each.outcome for each in runner.undo(runner.run("Go.").state)]
    assert [0, 1, 2] == attempts


def test_tool_that_is_gone() -> None:
    """A call whose tool has no undo any more is reported, and the others are undone."""
    ledger, undone = MemoryLedger(), list[int]()
    state = book_three(undone.append, ledger=ledger).run("Go.").state
    (*_, last) = Runner(ledger=ledger).undo(state.run_id)

    assert ("failed", "There is no tool 'book' with an undo here.") == (last.outcome, last.error)
    assert ["undone"] * 3 == [each.outcome for each in book_three(undone.append, ledger=ledger).undo(state)]


def test_old_runs() -> None:
    """Of a run that a ledger in memory has shortened it is not known what the calls gave: nothing is undone."""
    ledger = MemoryLedger(runs=1)
    runner = book_three(len, ledger=ledger)
    state = runner.run("Go.").state
    book_three(len, ledger=ledger).run("Go.")

    assert ["unknown"] * 3 == [each.outcome for each in runner.undo(state)]


def test_tool_of_the_same_name() -> None:
    """Another tool that has the name of one that is gone does not undo its calls."""
    ledger, undone = MemoryLedger(), list[int]()
    state = book_three(undone.append, ledger=ledger).run("Go.").state
    other = tool(declare, name="book", undo=lambda path: undone.append(path))

    assert ["failed"] * 3 == [each.outcome for each in Runner([other], ledger=ledger).undo(state)]
    assert [] == undone


def test_repeated_call() -> None:
    """A call with an undo runs once: a middleware that repeats it gets the first result again."""
    undone: list[int] = []
    keys: list[str] = []

    async def again(own: Any, call_next: Any) -> Any:
        await call_next(own)
        return await call_next(own)

    @tool(idempotent=True, undo=undone.append)
    def pay(context: ToolContext) -> int:
        """Pay."""
        keys.append(context.idempotency_key)
        return len(keys)

    runner = Runner([pay], model=ScriptedModel([call("pay"), "Done."]), middleware=[again])
    result = runner.run("Go.")

    assert ("1", ["undone"]) == (result.calls[0].result.text, [each.outcome for each in runner.undo(result.state)])
    assert (1, [1]) == (len(keys), undone)


# -- sub-agents


def make_agents(undone: list[int], inner_end: Any = "Booked.", **options: Any) -> Runner:
    """A runner that books 1, delegates to an agent that books 2 and delegates the rest, and books 4."""
    made = tool(lambda n: n, name="book", description="Book.", undo=undone.append, effect="write")
    last = Runner([made], model=ScriptedModel([call("book", n=3), "Booked."]))
    script: list[Any] = [call("book", n=2), call("ask_last", query="Book 3."), inner_end]
    inner = Runner([made, last.as_tool("ask_last", "3")], model=ScriptedModel(script), **options)
    agent = inner.as_tool("ask_inner", "2 and 3", max_depth=3)
    outer: list[Any] = [call("book", n=1), call("ask_inner", query="Book 2 and 3."), call("book", n=4), "Done."]
    return Runner([made, agent], model=ScriptedModel(outer))


def test_sub_agents() -> None:
    """What sub-agents have done is undone with the run above, all of it in reverse."""
    undone: list[int] = []
    runner = make_agents(undone)
    state = runner.run("Go.").state

    assert ["undone"] * 4 == [each.outcome for each in runner.undo(state)]
    assert [4, 3, 2, 1] == undone


def test_sub_agent_that_fails() -> None:
    """A sub-agent with `undo_on_failure` undoes what it has done, and no more; nothing is undone twice."""
    undone: list[int] = []
    runner = make_agents(undone, ModelError("down"), undo_on_failure=True)
    state = runner.run("Go.").state
    before = [*undone]
    runner.undo(state)

    assert ([3, 2], [3, 2, 4, 1]) == (before, undone)


def test_resumed_after_a_sub_agent() -> None:
    """A run goes on, from a state too, after a sub-agent has undone what it did itself."""
    undone: list[int] = []
    made = tool(lambda n: n, name="book", description="Book.", undo=undone.append)
    failing = Runner([made], model=ScriptedModel([call("book", n=1), ModelError("down")]), undo_on_failure=True)
    paid = tool(lambda: "Paid.", name="pay", description="Pay.", approve=True)
    script: list[Any] = [call("ask", query="Book."), call("pay"), "Done."]
    tools = [failing.as_tool("ask", "Book."), paid]
    runner = Runner(
        tools, model=ScriptedModel(script), approve=lambda request: request.name != "pay" or Decision.defer()
    )
    paused = runner.run("Go.")
    (waiting,) = paused.state.pending

    assert ("paused", [1]) == (paused.finish_reason, undone)
    assert "Done." == runner.resume(paused.state, {waiting.call.id: True}).output


def test_instances() -> None:
    """A call of a tool that another instance has, too, is not undone by the wrong one."""
    first, second = Travel(), Travel()
    inner = second.make(call("book", city="Oslo"), "Booked.").as_tool("ask", "Book.")
    tools = [*Toolbox.from_object(first), inner]
    runner = Runner(tools, model=ScriptedModel([call("ask", query="Oslo."), "Done."]))
    (undo,) = runner.undo(runner.run("Go.").state, deps="deps")

    assert ("failed", True) == (undo.outcome, "Two tools here are called 'book'" in undo.error)
    assert ([], [("booked", "Oslo")]) == (first.done, second.done)


def test_sub_agent_without_a_record() -> None:
    """Where a sub-agent may have done something, and there is no record of it, it is an error."""

    def make() -> Runner:
        inner = book_three(len).as_tool("ask", "Book.")
        return Runner([inner], model=ScriptedModel([call("ask", query="Book."), "Done."]))

    state = make().run("Go.").state
    with pytest.raises(ConversationError, match="no record of the calls"):
        make().undo(state)


# -- the run afterwards


def test_a_run_that_was_undone_does_not_go_on(tmp_path: Path) -> None:
    """Undoing ends a run that is saved: an old state of it is refused."""
    runs, undone = SQLiteRuns(tmp_path / "runs.db"), list[int]()
    runner = book_three(undone.append, ModelError("down"), checkpoint=runs)
    with pytest.raises(ModelError) as raised:
        runner.run("Go.")
    old = runs.load(raised.value.result.state.run_id)
    before = runs.unfinished()
    runner.undo(old.run_id)

    assert ([old.run_id], {}, "cancelled") == ([*before], runs.unfinished(), runs.load(old.run_id).finish_reason)
    with pytest.raises(ConversationError, match="were undone"):
        runner.run(old)


def test_paused_run() -> None:
    """A run that waits and has done nothing cannot go on after `undo`, either, with or without a checkpoint."""
    travel = Travel()
    runner = travel.make(BOTH, "Booked.", approve=defer)
    state = runner.run("Go.").state

    assert () == runner.undo(state)
    with pytest.raises(ConversationError, match="were undone"):
        runner.resume(state, {each.call.id: True for each in state.pending})
    assert [] == travel.done


def test_active_runs() -> None:
    """A run that is still active is not undone."""
    found: list[Exception] = []

    def undo(request: Any) -> str:
        (run,) = runner._factory.active.get_all()
        with pytest.raises(ConversationError, match="is active") as raised:
            runner.undo(run.conversation.run_id)
        found.append(raised.value)
        return "Done."

    runner = Runner([], model=ScriptedModel([undo]), ledger=MemoryLedger())

    assert ("Done.", 1) == (runner.run("Go.").output, len(found))


def test_unknown_runs() -> None:
    """Without a record of the calls nothing is taken for undone: it is an error."""
    state = book_three(len).run("Go.").state
    for runner in (book_three(len), book_three(len, ledger=MemoryLedger())):
        for given in (state, state.run_id):
            with pytest.raises(ConversationError, match="no record of the calls"):
                runner.undo(given)
    with pytest.raises(TypeError, match="takes result.state, or the id of a run"):
        runner.undo(None)  # type: ignore[arg-type]


def test_forgotten_runs() -> None:
    """A runner without a ledger forgets what the calls of old runs gave: a person has to look."""
    runner = Runner([tool(len, name="book", description="Book.", undo=lambda: None)], model=ScriptedModel(book_once))
    first, *_, last = [runner.run("Go.").state for _ in range(1_001)]

    assert [["unknown"], ["undone"]] == [[each.outcome for each in runner.undo(state)] for state in (first, last)]


def test_runs_without_calls() -> None:
    """A run without calls has nothing to undo."""
    runner = Runner(model=ScriptedModel(["Hi."]))

    assert () == runner.undo(runner.run("Go.").state)


# -- kills

PROGRAM = """
import os, sys, time
from pathlib import Path
from toolkit import Runner, SQLiteRuns, ToolContext, tool
from toolkit.testing import ScriptedModel, call

HOME, KILL_AT, IS_IDEMPOTENT = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "True"

def note(line):
    handle = os.open(HOME / "notes", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(handle, f"{line}\\n".encode())
    os.close(handle)

def die(place):
    if place == KILL_AT:
        os.kill(os.getpid(), 9)

@tool(idempotent=IS_IDEMPOTENT)
def cancel(booking: int, context: ToolContext) -> None:
    '''Cancel.'''
    die(f"before {booking}")
    note(f"cancelled {booking} {context.idempotency_key}")
    die(f"after {booking}")

@tool(effect="write", undo=cancel)
def book(n: int) -> int:
    '''Book.'''
    note(f"booked {n}")
    die(f"book {n}")
    return n

script = [[call("book", n=n) for n in (1, 2, 3)], "Done."]
runs = SQLiteRuns(HOME / "runs.db")
runner = Runner([book], model=ScriptedModel(script), checkpoint=runs)
run_file = HOME / "run"
if not run_file.exists():
    found = [*runs.unfinished()]
    run_file.write_text(found[0] if found else runner.run("Go.").state.run_id)
for undo in runner.undo(run_file.read_text()):
    print(undo.call.arguments[-2], undo.outcome)
"""


def execute(home: Path, kill_at: str, is_idempotent: bool) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, str(home), kill_at, str(is_idempotent)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)  # noqa: S603


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize(
    ("kill_at", "is_idempotent", "outcomes", "cancelled"),
    [
        ("before 2", False, ["3 undone", "2 unknown", "1 undone"], ["3", "1"]),
        pytest.param("after 2", False, ["3 undone", "2 unknown", "1 undone"], ["3", "2", "1"], marks=pytest.mark.slow),
        pytest.param("before 2", True, ["3 undone", "2 undone", "1 undone"], ["3", "2", "1"], marks=pytest.mark.slow),
        ("after 2", True, ["3 undone", "2 undone", "1 undone"], ["3", "2", "2", "1"]),
        ("book 2", True, ["2 unknown", "1 undone"], ["1"]),
    ],
)
def test_kills(kill_at: str, is_idempotent: bool, outcomes: list[str], cancelled: list[str], tmp_path: Path) -> None:
    """A process that is killed while it undoes is followed by another, which goes on where the first one stopped.

    An undo that was running is unknown, unless it may be repeated: then it runs again with the same key. A call that
    was running is unknown, and is not undone.
    """
    killed = execute(tmp_path, kill_at, is_idempotent)
    again = execute(tmp_path, "", is_idempotent)
    once_more = execute(tmp_path, "", is_idempotent)
    lines = [line.split() for line in (tmp_path / "notes").read_text().splitlines()]
    undone = [line[1:] for line in lines if line[0] == "cancelled"]

    assert -signal.SIGKILL == killed.returncode, killed.stderr
    assert outcomes == again.stdout.splitlines() == once_more.stdout.splitlines(), again.stderr
    assert cancelled == [booking for booking, _ in undone]
    assert len({*cancelled}) == len({key for _, key in undone})


class Aliased(BaseModel):
    number: int = Field(alias="ticketNumber")


def test_result_with_an_alias() -> None:
    """A result whose fields have other names in JSON is kept, and given to its undo."""
    received: list[Any] = []

    def book() -> Aliased:
        """Book."""
        return Aliased(ticketNumber=5)

    runner = Runner([tool(undo=received.append)(book)], model=ScriptedModel([call("book"), "Done."]))
    (undo,) = runner.undo(runner.run("Go.").state)

    assert ("undone", [Aliased(ticketNumber=5)]) == (undo.outcome, received)


class Ticket(BaseModel):
    number: int
    secret: SecretStr


RESULTS: dict[str, tuple[Any, Any]] = {
    "bytes": (bytes, b"\xff\xfe\x00"),
    "secret": (SecretStr, SecretStr("s3cret")),
    "model with a secret": (Ticket, Ticket(number=1, secret=SecretStr("s3cret"))),
    "picture": (Image, Image(b"\x89PNG\r\n\x1a\n", "image/png")),
    "object": (Any, object()),
}


@pytest.mark.parametrize(("annotation", "value"), RESULTS.values(), ids=RESULTS)
def test_result_that_cannot_be_kept(annotation: Any, value: Any) -> None:
    """An undo gets the very result, or is not run: another value would undo something else."""
    received: list[Any] = []

    def book() -> Any:
        """Book."""
        return value

    book.__annotations__["return"] = annotation
    runner = Runner([tool(effect="write", undo=received.append)(book)], model=ScriptedModel([call("book"), "Done."]))
    (undo,) = runner.undo(runner.run("Go.").state)

    assert ([], "failed", True) == (received, undo.outcome, "could not be kept as JSON" in undo.error)
