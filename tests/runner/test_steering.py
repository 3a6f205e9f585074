"""Messages of the user to an active run: when the model reads them, and which calls are skipped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.ways import arun, astream, run, start, stream
from toolkit import BusyError, Limits, RunError, Runner, RunResult, batched, tool
from toolkit.approvers import defer
from toolkit.events import MessageAdded, ToolCallFinished, ToolCallStarted, TurnFinished, TurnStarted
from toolkit.models import ModelRequest, ToolMessage, UserMessage
from toolkit.testing import ScriptedModel, call

SKIPPED = "Skipped due to queued user message."


WAYS = pytest.mark.parametrize("go", [run, arun, stream, astream, start])


class SteeredRun:
    """A runner whose tool sends messages to its own run in call number `at`."""

    def __init__(self, script: Any, *, at: int = 0, steer: Any = (), follow_up: Any = (), **options: Any) -> None:
        self.ran: list[int] = []
        self.model = ScriptedModel(script)

        @tool
        def work(n: int) -> int:
            """Work."""
            self.ran.append(n)
            if n == at:
                for text in steer:
                    self.runner.steer(text)
                for text in follow_up:
                    self.runner.follow_up(text)
            return n

        self.runner = Runner([work], model=self.model, **options)


def works(count: int) -> list[Any]:
    return [call("work", n=n) for n in range(count)]


def texts(result: RunResult) -> list[str]:
    return [message.text for message in result.messages]


# -- calls that are skipped


@WAYS
@pytest.mark.parametrize("at", [0, 1, 2])
def test_sequential(at: int, go: Callable[[Runner], RunResult]) -> None:
    """In order, the running call ends, each later one is skipped, and the message follows the results."""
    steered = SteeredRun([works(3), "ok"], at=at, steer=["stop"], order="sequential")
    results = [str(n) if n <= at else SKIPPED for n in range(3)]

    assert ["go", "", *results, "stop", "ok"] == texts(go(steered.runner))
    assert list(range(at + 1)) == steered.ran


@WAYS
def test_batched(go: Callable[[Runner], RunResult]) -> None:
    """In batches, the running batch ends, and the later ones are skipped."""
    steered = SteeredRun([works(5), "ok"], at=0, steer=["stop"], order=batched(2))

    assert ["go", "", "0", "1", SKIPPED, SKIPPED, SKIPPED, "stop", "ok"] == texts(go(steered.runner))


@WAYS
def test_parallel(go: Callable[[Runner], RunResult]) -> None:
    """Side by side, all calls of the turn end; the words stand behind them."""
    steered = SteeredRun([works(3), "ok"], at=1, steer=["stop"])

    assert ["go", "", "0", "1", "2", "stop", "ok"] == texts(go(steered.runner))


def test_writes_are_skipped() -> None:
    """Calls that write run in order, so that those behind the running one are skipped."""

    @tool(effect="write")
    def write(n: int) -> int:
        """Write."""
        runner.steer("stop")
        return n

    runner = Runner([write], model=ScriptedModel([[call("write", n=n) for n in range(3)], "ok"]))

    assert ["go", "", "0", SKIPPED, SKIPPED, "stop", "ok"] == texts(runner.run("go"))


def test_skipped_call_is_an_error() -> None:
    """A skipped call is an error for the model, of the kind `cancelled`, and among the run's calls."""
    steered = SteeredRun([works(2), "ok"], steer=["stop"], order="sequential")
    result = steered.runner.run("go")
    skipped = result.messages[3]

    assert isinstance(skipped, ToolMessage)
    assert (True, [None, "cancelled"]) == (skipped.is_error, [done.result.kind for done in result.calls])


def test_events() -> None:
    """A skipped call starts and finishes as any other; the message is reported before the turn that reads it."""
    steered = SteeredRun([works(2), "ok"], steer=["stop"], order="sequential")
    kinds = (TurnStarted, TurnFinished, ToolCallStarted, ToolCallFinished, MessageAdded)
    events = [type(event) for event in steered.runner.stream("go") if isinstance(event, kinds)]

    assert [
        TurnStarted, TurnFinished, ToolCallStarted, ToolCallFinished, ToolCallStarted, ToolCallFinished,
        MessageAdded, TurnStarted, TurnFinished,
    ] == events  # fmt: skip


@WAYS
def test_while_the_model_answers(go: Callable[[Runner], RunResult]) -> None:
    """A message that comes while the model answers skips all calls of that answer."""

    def reply(_: ModelRequest) -> Any:
        steered.runner.steer("stop")
        return works(2)

    steered = SteeredRun([reply, "ok"])

    assert ["go", "", SKIPPED, SKIPPED, "stop", "ok"] == texts(go(steered.runner))
    assert [] == steered.ran


def test_before_the_first_turn() -> None:
    """A message before the first event of a stream follows the prompt."""
    model = ScriptedModel(["ok"])
    with Runner(model=model).stream("go") as events:
        events.steer("and quickly")
        list(events)

    assert ["go", "and quickly"] == [message.text for message in model.requests[0].messages]


def test_answer_is_followed_up_by_steering() -> None:
    """A message that comes while the model answers is read after it, and the run continues."""

    def reply(_: ModelRequest) -> str:
        steered.runner.steer("shorter")
        return "A long answer."

    steered = SteeredRun([reply, "Short."])

    assert ["go", "A long answer.", "shorter", "Short."] == texts(steered.runner.run("go"))


# -- follow-ups


@WAYS
def test_follow_up(go: Callable[[Runner], RunResult]) -> None:
    """A follow-up skips nothing; it is read once there is an answer, and the run's answer is the one to it."""
    steered = SteeredRun([works(2), "ok", "more"], follow_up=["and then?"], order="sequential")
    result = go(steered.runner)

    assert (["go", "", "0", "1", "ok", "and then?", "more"], "more") == (texts(result), result.output)


def test_steering_comes_first() -> None:
    """Steering is read before follow-ups, whichever came first."""
    steered = SteeredRun([works(1), "a", "b"], steer=["now"], follow_up=["later"])

    assert ["go", "", "0", "now", "a", "later", "b"] == texts(steered.runner.run("go"))


def test_follow_up_of_a_typed_answer() -> None:
    """A follow-up waits for an answer that fits; the last one is the run's value."""

    def reply(_: ModelRequest) -> str:
        runner.follow_up("again")
        return '{"result": 1}'

    runner = Runner(model=ScriptedModel([reply, '{"result": 2}']))

    assert 2 == runner.run("go", output_type=int).output


# -- queues


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("one", ["go", "", "0", "a", "1st", "b", "2nd", "c", "3rd", "d", "4th"]),
        ("all", ["go", "", "0", "a", "b", "1st", "c", "d", "2nd"]),
    ],
)
def test_queue(queue: str, expected: list[str]) -> None:
    """Messages are read one at a time, each with an answer; or all that wait at once."""
    steered = SteeredRun([works(1), "1st", "2nd", "3rd", "4th"], steer=["a", "b"], follow_up=["c", "d"], queue=queue)

    assert expected == texts(steered.runner.run("go"))


@pytest.mark.parametrize("owner", ["runner", "stream"])
@pytest.mark.parametrize(
    ("cleared", "expected"),
    [
        ({}, ["go", "", "0", "ok"]),
        ({"follow_ups": False}, ["go", "", "0", "ok", "b", "end"]),
        ({"steering": False}, ["go", "", "0", "a", "ok"]),
    ],
    ids=["both", "steering", "follow-ups"],
)
def test_clear(cleared: dict[str, bool], expected: list[str], owner: str) -> None:
    """Unread messages can be removed, from each queue alone, by the runner and by the run itself."""

    @tool
    def work(n: int) -> int:
        """Work."""
        runner.steer("a")
        runner.follow_up("b")
        {"runner": runner, "stream": events}[owner].clear(**cleared)
        return n

    runner = Runner([work], model=ScriptedModel([works(1), "ok", "end"]))
    with runner.stream("go") as events:
        list(events)

    assert expected == texts(events.result)


def test_clear_all_runs() -> None:
    """A runner removes the messages that the models of all its runs have not read."""
    runner = Runner(model=ScriptedModel(["ok", "ok"]))
    with runner.stream("a") as first, runner.stream("b") as second:
        first.steer("now")
        second.follow_up("then")
        runner.clear()
        read = [(list(events), texts(events.result))[1] for events in (first, second)]

    assert [["a", "ok"], ["b", "ok"]] == read


def test_message_of_the_user() -> None:
    """A message is text or a UserMessage."""
    steered = SteeredRun([works(1), "ok"], steer=[UserMessage("look")])
    result = steered.runner.run("go")

    assert UserMessage("look") == result.messages[3]


def test_no_message() -> None:
    """What is neither text nor a message is refused at once."""
    events = Runner(model=ScriptedModel(["ok"])).stream("go")

    with events, pytest.raises(TypeError, match="A prompt cannot hold 5 of type int"):
        events.steer(5)  # type: ignore[arg-type]


# -- from elsewhere


def test_from_another_thread() -> None:
    """A run in the background is steered from the thread that started it."""
    running, go_on = threading.Event(), threading.Event()

    @tool
    def work(n: int) -> int:
        """Work."""
        running.set()
        assert go_on.wait(10)
        return n

    handle = Runner([work], model=ScriptedModel([works(2), "ok"]), order="sequential").start("go")
    assert running.wait(10)
    handle.steer("stop")
    go_on.set()

    assert ["go", "", "0", SKIPPED, "stop", "ok"] == texts(handle.result(10))


def test_from_another_task() -> None:
    """A run in an event loop is steered from another task of it."""

    async def main() -> RunResult:
        running, go_on = asyncio.Event(), asyncio.Event()

        @tool
        async def work(n: int) -> int:
            """Work."""
            running.set()
            await go_on.wait()
            return n

        runner = Runner([work], model=ScriptedModel([works(2), "ok"]), order="sequential")
        task = asyncio.create_task(runner.arun("go"))
        await running.wait()
        runner.steer("stop")
        go_on.set()
        return await task

    assert ["go", "", "0", SKIPPED, "stop", "ok"] == texts(asyncio.run(main()))


# -- too late


def test_after_a_pause() -> None:
    """A paused run takes no message; the error says how to resume it."""

    @tool
    def ring() -> str:
        """Ring."""
        return "rung"

    handle = Runner([ring], model=ScriptedModel([call("ring")]), approve=defer).start("go")
    handle.result(10)

    with pytest.raises(RunError, match=r"if it is paused, call resume\(result\.state, decisions\)"):
        handle.steer("hello?")


@pytest.mark.parametrize("say", ["steer", "follow_up"])
def test_after_the_end(say: str) -> None:
    """A run that has ended takes no message; the error says how to continue."""
    with Runner(model=ScriptedModel(["ok"])).stream("go") as events:
        list(events)

    with pytest.raises(RunError, match="has ended. Start another with messages=result.messages"):
        getattr(events, say)("hello?")


def test_runner_without_a_run() -> None:
    """A runner without an active run takes no message; the error says how to start one."""
    with pytest.raises(BusyError, match="No run is active"):
        Runner(model=ScriptedModel(["ok"])).steer("hello?")


@pytest.mark.parametrize("ends", ["cancel", "last turn", "stop"])
def test_unread(ends: str) -> None:
    """What came too late for the model is in the result, in order, and not in the history."""
    limits = {"cancel": Limits(), "last turn": Limits(max_turns=1), "stop": Limits(max_turns=1, on_limit="stop")}[ends]

    def reply(_: ModelRequest) -> str:
        runner.steer("late")
        return "Bye."

    @tool
    def work(n: int) -> int:
        """Work."""
        if ends == "cancel":
            runner.cancel()
        if ends != "last turn":
            runner.follow_up("late")
        return n

    runner = Runner([work], model=ScriptedModel([works(1), reply]), limits=limits)
    result = runner.run("go")

    assert (("late",), False) == (tuple(m.text for m in result.unread), "late" in texts(result))


def test_nothing_unread() -> None:
    """A run that has read all messages leaves nothing unread."""
    assert () == SteeredRun([works(1), "ok"], steer=["now"]).runner.run("go").unread


# -- busy


def test_busy() -> None:
    """A runner that may have one run refuses a second one, and names the ways out."""
    runner = Runner(model=ScriptedModel(["ok"]), max_runs=1)
    busy = pytest.raises(BusyError, match=r"Use steer\(\) or follow_up\(\) to add messages to a run")
    with runner.stream("go"), busy:
        runner.run("again")


@pytest.mark.parametrize("leave", ["drawn", "closed", "failed", "forgotten"])
def test_no_longer_busy(leave: str) -> None:
    """A run that has ended, however it did, leaves its place to the next."""
    runner = Runner(model=ScriptedModel([RunError("down") if leave == "failed" else "ok", "ok"]), max_runs=1)
    events = runner.stream("go")
    if leave == "drawn":
        list(events)
    if leave == "closed":
        events.close()
    if leave == "failed":
        with pytest.raises(RunError, match="down"):
            list(events)
    del events

    assert "ok" == runner.run("again").output


def test_which_of_two() -> None:
    """With two active runs the runner does not guess which one is meant."""
    runner = Runner(model=ScriptedModel(["ok"]))
    with runner.stream("a"), runner.stream("b"), pytest.raises(BusyError, match="2 runs are active: use the object"):
        runner.steer("you there")
