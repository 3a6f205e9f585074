"""Runs that are saved and resumed, here or elsewhere: nothing runs twice, nothing without its approval."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolkit import (
    Decision,
    Image,
    MemoryLedger,
    Runner,
    RunResult,
    RunState,
    SQLiteLedger,
    ToolContext,
    ToolResult,
    tool,
)
from toolkit.errors import ApprovalError, ConversationError
from toolkit.models import ToolMessage, UserMessage
from toolkit.testing import ScriptedModel, call

STARTED = "This call was started before and may have taken effect; it was not run again."


class Bank:
    """Tools that say what they were called with, in a process of their own each."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def runner(self, script: Any = ("Done.",), description: str = "Pay.", **options: Any) -> Runner:
        def pay(amount: int) -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        def look() -> Image:
            """Look."""
            return Image(b"x", "image/png")

        pay.__doc__ = description
        return Runner([tool(pay, approve=True, effect="write"), look], model=ScriptedModel(script), **options)

    def paused(self, *amounts: int) -> RunResult:
        """A run that waits for approval of some payments."""
        calls = [call("look"), *(call("pay", amount=amount) for amount in amounts)]
        return self.runner([calls], approve=wait_for_payments).run("Pay.")


def wait_for_payments(request: Any) -> Decision | bool:
    return Decision.defer("ask me later") if request.tool.name == "pay" else True


def ids(result: RunResult) -> list[str]:
    return [pending.call.id for pending in result.pending]


def texts(result: RunResult) -> list[str]:
    return [message.text for message in result.messages]


def resume(runner: Runner, state: RunState, decisions: Any) -> RunResult:
    return runner.resume(state, decisions)


def aresume(runner: Runner, state: RunState, decisions: Any) -> RunResult:
    return asyncio.run(runner.aresume(state, decisions))


def streamed(runner: Runner, state: RunState, decisions: Any) -> RunResult:
    with runner.stream(state, decisions=decisions) as events:
        list(events)
    return events.result


def started(runner: Runner, state: RunState, decisions: Any) -> RunResult:
    return runner.start(state, decisions=decisions).result(10)


WAYS = pytest.mark.parametrize("go", [resume, aresume, streamed, started])
Go = Callable[[Runner, RunState, Any], RunResult]


# -- pausing


def test_paused() -> None:
    """A run whose calls wait for approval is paused: it says which, and has run the others."""
    result = Bank().paused(1, 2)

    assert ("paused", True, ["pay", "pay"], ["look"]) == (
        result.finish_reason, result.is_paused, [p.call.name for p in result.pending], [d.name for d in result.calls]
    )  # fmt: skip


def test_pending() -> None:
    """What waits says what it would do, for people."""
    (pending,) = Bank().paused(7).pending

    assert ('{"amount": 7}', "write", "ask me later") == (pending.arguments, pending.effect, pending.reason)


@WAYS
def test_resumed(go: Go) -> None:
    """With decisions a run continues: what was allowed runs, what was refused does not, all in call order."""
    bank = Bank()
    paused = bank.paused(1, 2)
    result = go(bank.runner(), paused.state, dict(zip(ids(paused), [True, Decision.reject("too much")])))

    assert ([1], "Done.") == (bank.paid, result.output)
    assert ["paid 1", "Tool execution was rejected by the user. Reason: too much"] == texts(result)[3:5]


def test_json() -> None:
    """A paused state is JSON, images and all, and is the same when it is read again."""
    state = Bank().paused(1).state

    assert state == RunState.from_json(state.to_json())
    assert "paused" == json.loads(state.to_json())["phase"]


def test_modified() -> None:
    """A decision may change the arguments."""
    bank = Bank()
    paused = bank.paused(100)
    bank.runner().resume(paused.state, {ids(paused)[0]: Decision.modify({"amount": 5})})

    assert [5] == bank.paid


@WAYS
def test_calls_of_the_whole_run(go: Go) -> None:
    """After a resume the calls of the whole run are listed, in the conversation's order, and none of another run."""
    bank = Bank()
    before = bank.runner([[call("look")], "Seen."]).run("Look.")
    script = [[call("look")], [call("pay", amount=1), call("look"), call("drop")]]
    paused = bank.runner(script, approve=wait_for_payments).run("Pay.", messages=before.messages)
    runner = bank.runner([[call("look")], "Done."], approve=wait_for_payments)
    result = go(runner, paused.state, {ids(paused)[0]: True})

    outcomes = [(done.name, done.result.is_error, done.result.text[:6]) for done in result.calls]
    look = ("look", False, "[image")
    assert [look, ("pay", False, "paid 1"), look, ("drop", True, "unknow"), look] == outcomes


def test_calls_of_another_process() -> None:
    """Of a call from before a resume there is what the model read, pictures included; of others the value, too."""
    bank = Bank()
    paused = bank.paused(1)
    looked, paid = bank.runner().resume(paused.state.to_json(), {ids(paused)[0]: True}).calls

    assert ToolResult(text="[image]", images=(Image(b"x", "image/png"),)) == looked.result
    assert "paid 1" == paid.result.value


@WAYS
def test_some_decisions(go: Go) -> None:
    """A call without a decision waits on; the one that was decided has run, and does not run again."""
    bank = Bank()
    paused = bank.paused(1, 2)
    first, second = ids(paused)
    again = go(bank.runner(), paused.state, {first: True})
    result = go(bank.runner(), again.state, {second: True})

    assert ("paused", [second], [1, 2], "Done.") == (again.finish_reason, ids(again), bank.paid, result.output)


def test_no_decision() -> None:
    """Without a decision a run stays where it is, and calls no model."""
    bank = Bank()
    paused = bank.paused(1)

    assert paused.pending == bank.runner([]).resume(paused.state).pending


def test_stop() -> None:
    """A decision may end the run; all calls have a result."""
    bank = Bank()
    paused = bank.paused(1, 2)
    result = bank.runner([]).resume(paused.state, {ids(paused)[0]: Decision.stop("enough")})

    assert ("stopped", [], ["Not run: the run was stopped. enough", "Not run: the run was stopped."]) == (
        result.finish_reason, bank.paid, texts(result)[3:5]
    )  # fmt: skip


# -- once


def test_replay() -> None:
    """A state that is resumed twice by one runner runs nothing twice."""
    bank = Bank()
    paused = bank.paused(1)
    runner = bank.runner(["Done.", "Done again."])
    runner.resume(paused.state, {ids(paused)[0]: True})
    again = runner.resume(paused.state, {ids(paused)[0]: True})

    assert ([1], "paid 1") == (bank.paid, texts(again)[3])


def test_replay_by_another_runner(tmp_path: Path) -> None:
    """With a ledger in a file, not even another runner runs it twice."""
    bank = Bank()
    paused = bank.paused(1)
    for _ in range(2):
        ledger = SQLiteLedger(tmp_path / "ledger.db")
        bank.runner(ledger=ledger).resume(paused.state, {ids(paused)[0]: True})
        ledger.close()

    assert [1] == bank.paid


def test_changed_tool() -> None:
    """An approval is for the tool as it was: where its definition has changed the call waits again."""
    bank = Bank()
    paused = bank.paused(1)
    again = bank.runner([], description="Pay twice.").resume(paused.state, {ids(paused)[0]: True})

    assert ("paused", [], "The tool or the call has changed since it was shown.") == (
        again.finish_reason, bank.paid, again.pending[0].reason
    )  # fmt: skip


def test_tool_that_is_gone() -> None:
    """Where the tool is not there any more, the call gets an error, which the model reads."""
    paused = Bank().paused(1)
    result = Runner(model=ScriptedModel(["Done."])).resume(paused.state, {ids(paused)[0]: True})

    assert texts(result)[3].startswith("unknown tool: 'pay'")


@pytest.mark.parametrize("decisions", [{"nobody": True}, {0: True}], ids=str)
def test_unknown_call(decisions: Any) -> None:
    """A decision for no call that waits is refused before anything runs."""
    bank = Bank()
    paused = bank.paused(1)
    with pytest.raises(ApprovalError, match="waits for a decision; these do: "):
        bank.runner().resume(paused.state, {ids(paused)[0]: True, **decisions})

    assert [] == bank.paid


def test_late_decision() -> None:
    """A decision on a call that was decided on before is refused."""
    bank = Bank()
    paused = bank.paused(1, 2)
    first, _ = ids(paused)
    again = bank.runner([]).resume(paused.state, {first: True})

    with pytest.raises(ApprovalError, match="No call .* waits for a decision"):
        bank.runner().resume(again.state, {first: True})


def test_decisions_without_a_state() -> None:
    """Decisions belong to a state."""
    with pytest.raises(ApprovalError, match="belongs to the state of a paused run"):
        Bank().runner().run("go", decisions={"a": True})


def test_messages_beside_a_state() -> None:
    """A state has its own messages; others would be lost, so they are refused."""
    paused = Bank().paused(1)

    with pytest.raises(TypeError, match="messages= cannot be passed with a state"):
        Bank().runner().run(paused.state, messages=[UserMessage("And hurry.")])


def test_finished_state() -> None:
    """A run that has ended is not resumed; the error says how to continue."""
    runner = Bank().runner()

    with pytest.raises(ConversationError, match=r"has finished: go on from it with run\(prompt, messages="):
        runner.resume(runner.run("go").state)


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"run_id": "r", "messages": [], "phase": "flying"}'])
def test_no_state(text: str) -> None:
    """What is no state is refused."""
    with pytest.raises(ConversationError, match="This is not the state of a run"):
        Bank().runner().resume(text)


def test_later_version() -> None:
    """What a later version wrote is refused, whatever it holds."""
    with pytest.raises(ConversationError, match="is of version 99; this library reads version 1"):
        RunState.from_json('{"version": 99, "moods": []}')


def test_no_prompt() -> None:
    """A run without a prompt is refused where it is started."""
    history = Bank().runner().run("go").messages

    with pytest.raises(ValueError, match="nothing to answer: .* not the model's own"):
        Bank().runner().run(messages=history)


def test_replay_of_a_no() -> None:
    """A call that was refused stays refused when its state is resumed."""
    bank = Bank()
    paused = bank.paused(1)
    runner = bank.runner(["Done.", "Done again."])
    runner.resume(paused.state, {ids(paused)[0]: Decision.reject("No.")})
    again = runner.resume(paused.state, {ids(paused)[0]: True})

    assert ([], "Tool execution was rejected by the user. Reason: No.") == (bank.paid, texts(again)[3])


def test_whole_result_after_a_crash() -> None:
    """What had finished when its process died is known with its pictures."""
    states: list[RunState] = []
    looking = Bank().runner([[call("look")], "Done.", "Done."], ledger=MemoryLedger(), checkpoint=states.append)
    seen = looking.run("Look.").messages[2]
    state = next(state for state in states if state.phase == "calling")

    assert seen == looking.resume(state, {}).messages[2]
    assert isinstance(seen, ToolMessage)
    assert (Image(b"x", "image/png"),) == seen.images


# -- other processes

SHARED = """
import json, os, sys
from pathlib import Path
from toolkit import Decision, Image, Runner, RunState, SQLiteLedger, tool
from toolkit.testing import ScriptedModel, call

HOME = Path(sys.argv[1])

def note(word):
    with (HOME / "done").open("a") as file:
        file.write(word + " ")
"""

PAYING = """
@tool(approve=True)
def pay(amount: int) -> str:
    '''Pay.'''
    note(f"paid-{amount}")
    return f"paid {amount}"
"""

ASKING = """
model = ScriptedModel([[call("pay", amount=1), call("pay", amount=2)]])
result = Runner([pay], model=model, approve=lambda _: Decision.defer()).run("Pay.")
(HOME / "state.json").write_text(result.state.to_json())
"""

DECIDING = """
state = RunState.from_json((HOME / "state.json").read_text())
first, second = (pending.call.id for pending in state.pending)
print(Runner([pay], model=ScriptedModel(["Done."])).resume(state, {first: True, second: False}).messages[-2].text)
"""

# A process that dies in a tool; the state of its run was saved before each step.
DYING = """
@tool(effect="write")
def write(n: int) -> str:
    '''Write.'''
    note(f"write-{n}")
    if n == 1 and sys.argv[2] == "die":
        os._exit(9)
    return f"written {n}"

@tool(idempotent=True)
def again(n: int) -> str:
    '''Write, as often as you like.'''
    note(f"again-{n}")
    if n == 1 and sys.argv[2] == "die":
        os._exit(9)
    return f"written {n}"

def keep(state):
    (HOME / "state.json").write_text(state.to_json())

def runner(script, with_ledger):
    more = {"ledger": SQLiteLedger(HOME / "ledger.db")} if with_ledger else {}
    return Runner([write, again], model=ScriptedModel(script), order="sequential", checkpoint=keep, **more)

name, with_ledger = sys.argv[3], sys.argv[4] == "ledger"
if sys.argv[2] == "die":
    runner([[call(name, n=n) for n in range(3)]], with_ledger).run("go")
else:
    result = runner(["Done."], with_ledger).resume((HOME / "state.json").read_text())
    print(json.dumps([message.text for message in result.messages[2:5]]))
"""


def python(home: Path, *parts: str, args: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    program = home / "program.py"
    program.write_text(textwrap.dedent("\n".join(parts)), encoding="utf-8")
    command = [sys.executable, str(program), str(home), *args]
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=root, env={"PYTHONPATH": root}
    )  # noqa: S603


def done(home: Path) -> list[str]:
    return (home / "done").read_text().split()


def test_across_processes(tmp_path: Path) -> None:
    """A run that was paused in one process continues in another."""
    python(tmp_path, SHARED, PAYING, ASKING)
    answer = python(tmp_path, SHARED, PAYING, DECIDING)

    assert ("Tool execution was rejected by the user.\n", ["paid-1"]) == (answer.stdout, done(tmp_path))


@pytest.mark.parametrize(
    ("name", "ledger", "outcomes", "ran"),
    [
        ("write", "ledger", ["written 0", STARTED, "written 2"], [0, 1, 2]),
        ("again", "ledger", ["written 0", "written 1", "written 2"], [0, 1, 1, 2]),
        ("write", "none", [STARTED, STARTED, STARTED], [0, 1]),
        ("again", "none", ["written 0", "written 1", "written 2"], [0, 1, 0, 1, 2]),
    ],
    ids=["ledger", "ledger, idempotent", "no ledger", "no ledger, idempotent"],
)
def test_crash(name: str, ledger: str, outcomes: list[str], ran: list[int], tmp_path: Path) -> None:
    """After a crash what has finished is known, what has started runs again only where it may, the rest runs."""
    died = python(tmp_path, SHARED, DYING, args=("die", name, ledger))
    answer = python(tmp_path, SHARED, DYING, args=("go on", name, ledger))

    assert (9, "", outcomes) == (died.returncode, answer.stderr, json.loads(answer.stdout))
    assert [f"{name}-{n}" for n in ran] == done(tmp_path)


# -- checkpoints


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_checkpoints(is_async: bool) -> None:
    """The state is saved before each step and at the end; before that, the run comes to its end from any of them."""
    states: list[RunState] = []

    async def akeep(state: RunState) -> None:
        states.append(state)

    def look() -> str:
        """Look."""
        return "seen"

    read = tool(look, effect="read")
    Runner([read], model=ScriptedModel([[call("look")], "ok"]), checkpoint=akeep if is_async else states.append).run(
        "go"
    )
    ends = [
        Runner([read], model=ScriptedModel(script)).resume(state.to_json()).output
        for state, script in zip(states[:3], [["a"], ["b"], ["c"]])
    ]

    assert ["asking", "calling", "asking", "finished"] == [state.phase for state in states]
    assert ["a", "b", "c"] == ends


def test_checkpoint_that_fails() -> None:
    """A state that cannot be saved ends the run: nothing runs that is not recorded."""
    bank = Bank()

    def keep(state: RunState) -> None:
        if state.phase == "calling":
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        bank.runner([[call("pay", amount=1)]], approve=lambda _: True, checkpoint=keep).run("go")

    assert [] == bank.paid


def test_cancel_then_resume() -> None:
    """A call that has finished before a run was cancelled does not run again when the run is continued."""
    ran: list[str] = []

    @tool(effect="write")
    def write(context: ToolContext) -> str:
        """Write."""
        ran.append(context.call_id)
        runner.cancel()
        return "written"

    ledger = MemoryLedger()
    runner = Runner([write], model=ScriptedModel([[call("write"), call("write")], "ok"]), ledger=ledger)
    result = runner.run("go")
    on = runner.run("go on", messages=result.messages)

    assert (1, ["written", "Cancelled"], "ok") == (len(ran), texts(on)[2:4], on.output)


# -- answers by tools, and long results


@pytest.mark.parametrize("way", ["run", "arun"])
def test_return_direct(way: str) -> None:
    """A tool's result can be the run's answer: the model is not called again."""

    @tool(return_direct=True)
    def table() -> dict[str, int]:
        """Make a table."""
        return {"a": 1}

    runner = Runner([table], model=ScriptedModel([[call("table")]]))
    result = runner.run("go") if way == "run" else asyncio.run(runner.arun("go"))

    assert ('{"a":1}', "stop", ["go", "", '{"a":1}']) == (result.output, result.finish_reason, texts(result))


def test_long_direct_answer() -> None:
    """A result that is the run's answer is whole, though the conversation has a part of it."""

    @tool(return_direct=True, max_result=400)
    def table() -> str:
        """Return a table."""
        return "x" * 1_000

    result = Runner([table], model=ScriptedModel([call("table")])).run("Show it.")

    assert ("x" * 1_000, 400) == (result.output, len(result.messages[-1].text))


def test_return_direct_of_the_first() -> None:
    """Of several calls the first in call order that may answers does; one that fails does not."""

    @tool(return_direct=True)
    def half(n: int) -> int:
        """Halve."""
        if n % 2:
            raise ValueError(n)
        return n // 2

    calls = [call("half", n=n) for n in (1, 4, 8)]

    assert "2" == Runner([half], model=ScriptedModel([calls])).run("go").output


def test_return_direct_that_fails() -> None:
    """A failed call goes back to the model as any other."""

    @tool(return_direct=True)
    def fail() -> None:
        """Fail."""
        raise ValueError

    assert "Sorry." == Runner([fail], model=ScriptedModel([[call("fail")], "Sorry."])).run("go").output


def test_return_direct_of_a_type() -> None:
    """Where the answer has to be of a type, the tool's has to be, too; else the model is asked."""

    @tool(return_direct=True)
    def count(word: str) -> Any:
        """Count."""
        return len(word) if word else "nothing"

    model = ScriptedModel([[call("count", word="")], [call("count", word="four")]])
    result = Runner([count], model=model).run("go", output_type=int)

    assert (4, 2) == (result.output, result.usage.requests)


ENDS: dict[str, tuple[dict[int, bool], str, str]] = {
    "yes": ({0: True}, "a table", "stop"),
    "no": ({0: False}, "a table", "stop"),
    "not yet": ({}, "", "paused"),
}


@pytest.mark.parametrize(("verdicts", "output", "reason"), ENDS.values(), ids=ENDS)
def test_return_direct_beside_a_pause(verdicts: dict[int, bool], output: str, reason: str) -> None:
    """A result that is the run's answer is so, too, where a sibling had to wait: once all calls have a result."""

    @tool(return_direct=True)
    def table() -> str:
        """Make a table."""
        return "a table"

    script = [[call("pay", amount=1), call("table")]]
    runner = Bank().runner(script, approve=wait_for_payments)
    runner.toolbox.add(table)
    paused = runner.run("go")
    result = runner.resume(paused.state, {ids(paused)[at]: verdict for at, verdict in verdicts.items()})

    assert (output, reason) == (result.output, result.finish_reason)


def test_return_direct_after_an_approval() -> None:
    """A call that waited for approval can give the run's answer."""

    @tool(return_direct=True, approve=True)
    def table() -> str:
        """Make a table."""
        return "a table"

    def runner(*script: Any) -> Runner:
        return Runner([table], model=ScriptedModel(script), approve=lambda _: Decision.defer())

    paused = runner([call("table")]).run("go")

    assert "a table" == runner().resume(paused.state, {ids(paused)[0]: True}).output


def test_result_read() -> None:
    """When a result is cut, the model is offered a tool to read on, from the next turn, and it works."""

    @tool(max_result=300)
    def long() -> str:
        """Write much."""
        return "".join(f"line {n}\n" for n in range(1000))

    def read_on(request: Any) -> Any:
        handle = request.messages[-1].text.partition('handle="')[2].partition('"')[0]
        return [call("result_read", handle=handle, query="line 777")]

    model = ScriptedModel([[call("long")], read_on, "ok"])
    result = Runner([long], model=model).run("go")

    assert [["long"], ["long", "result_read"]] == [[spec.name for spec in r.tools] for r in model.requests[:2]]
    assert "line 777" in texts(result)[4]


def test_no_result_read() -> None:
    """A run in which nothing is cut is offered no other tool than its own."""
    runner = Bank().runner([[call("look")], "ok"])
    runner.run("go")

    assert [["pay", "look"]] * 2 == [[spec.name for spec in r.tools] for r in runner.model.requests]  # type: ignore[attr-defined]
