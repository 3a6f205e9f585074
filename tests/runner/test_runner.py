"""A run: who is asked, what is executed, what is reported, and what leaves."""

import _thread
import asyncio
import contextvars
import hashlib
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from toolkit import (
    FatalError,
    Image,
    LimitError,
    Limits,
    ModelError,
    RunError,
    Runner,
    RunResult,
    Tool,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    Usage,
    tool,
)
from toolkit.models import Message, ModelRequest, ModelResponse, Piece, SystemMessage, ToolMessage, UserMessage
from toolkit.testing import ScriptedModel, call

SUMMARY = "You have used all available tool calls. Summarize what you found and respond to the user."


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def through_run(runner: Runner, prompt: str | None = "Go on.", **options: Any) -> RunResult:
    return runner.run(prompt, **options)


def through_arun(runner: Runner, prompt: str | None = "Go on.", **options: Any) -> RunResult:
    return asyncio.run(runner.arun(prompt, **options))


BOTH = pytest.mark.parametrize("go", [through_run, through_arun], ids=["run", "arun"])


def texts_of(result: RunResult) -> list[str]:
    return [message.text for message in result.messages if isinstance(message, ToolMessage)]


def one_turn(*tools: Any, calls: list[ToolCall], go: Callable[..., RunResult], **options: Any) -> RunResult:
    """A run whose model makes these calls, then is done."""
    with ScriptedModel([calls, "Done."]) as model:
        return go(Runner(tools, model=model), **options)


# -- the outcome of a run


@BOTH
def test_result(go: Callable[..., RunResult]) -> None:
    """A result holds answer, history, calls, cost and reason."""
    result = one_turn(add, calls=[call("add", a=1, b=2)], go=go)
    made = ToolCall(
        name="add",
        arguments='{"a": 1, "b": 2}',
        id=f"{result.state.run_id[:8]}_0",
        provider_call_id=f"{result.state.run_id[:8]}_0",
    )

    assert ("Done.", "Done.", "stop", Usage(requests=2), [(made, "3")]) == (
        result.output, str(result), result.finish_reason, result.usage, [(c.call, c.result.text) for c in result.calls]
    )  # fmt: skip


def test_history() -> None:
    """The history has all messages, in order, call and answer paired."""
    result = one_turn(add, calls=[call("add", a=1)], go=through_run)
    made = result.calls[0].call

    assert (
        UserMessage("Go on."),
        ModelResponse(calls=(made,), finish_reason="tool_calls", usage=Usage(requests=1), model="scripted"),
        ToolMessage(call_id=made.id, provider_call_id=made.provider_call_id, name="add", text="1"),
        ModelResponse(text="Done.", finish_reason="stop", usage=Usage(requests=1), model="scripted"),
    ) == result.messages


def test_usage_is_summed() -> None:
    """Tokens and requests of every answer are added up, those of an empty one too."""
    replies = [
        ModelResponse(usage=Usage(1, 2, 1)),
        ModelResponse(calls=(call("add", a=1),), usage=Usage(10, 20, 1)),
        ModelResponse(text="Done.", usage=Usage(100, 200, 1)),
    ]

    assert Usage(111, 222, 3) == Runner([add], model=ScriptedModel(replies)).run("x").usage


def test_empty_answer_is_not_sent() -> None:
    """An empty answer stays in the history, but is not sent: Mistral and Moonshot would refuse every later request."""
    model = ScriptedModel(["", " ", "Hi."])
    first = Runner(model=model).run("Hello?")
    second = Runner(model=model).run("Hello??", messages=first.messages)

    assert ("empty", 2, "Hi.", 4) == (first.finish_reason, len(first.messages), second.output, len(second.messages))
    assert (UserMessage("Hello?"), UserMessage("Hello??")) == model.requests[-1].messages


def test_run_without_an_answer(tmp_path: Path) -> None:
    """A run whose model gave only an empty answer has no text; that of an earlier run is none of its own."""
    runner = Runner(model=ScriptedModel(["Paris.", "", ModelError("down"), "", ModelError("down")]))
    earlier = runner.run("The capital of France?").messages
    for messages in (earlier, ()):
        with pytest.raises(ModelError) as caught:
            runner.run("And of Italy?", messages=messages)
        result = caught.value.result
        result.save(tmp_path / "run.html")

        assert ("error", "") == (result.finish_reason, result.output)
        assert "And of Italy?" in (tmp_path / "run.html").read_text("utf-8")


def test_tools_reach_the_model() -> None:
    """The model is offered the tools of the box, as plain specifications."""
    model = ScriptedModel(["Hi."])
    runner = Runner([add], model=model)
    runner.run("x")

    assert ModelRequest(messages=(UserMessage("x"),), tools=tuple(t._spec for t in runner.toolbox)) == model.requests[0]


def test_details_stay_here() -> None:
    """What a tool puts in details is on the result and nowhere in what the model receives."""

    def look() -> ToolResult:
        """Look."""
        return ToolResult("seen", details={"secret": "canary"}, exception=ValueError("canary"))

    model = ScriptedModel([[call("look")], "Done."])
    result = Runner([look], model=model).run("x")

    assert ({"secret": "canary"}, False) == (result.calls[0].result.details, "canary" in repr(model.requests))


# -- what goes in


def test_nothing_to_answer() -> None:
    """A run without prompt and messages is refused, instructions or not, and the model is not called."""
    model = ScriptedModel(["Hi."])
    with pytest.raises(ValueError, match="nothing to answer: pass a prompt, or messages"):
        Runner(model=model, instructions="Be brief.").run()

    assert [] == model.requests


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], [SystemMessage("Be brief."), UserMessage("x")]),
        ([UserMessage("a")], [SystemMessage("Be brief."), UserMessage("a"), UserMessage("x")]),
        ([SystemMessage("Own.")], [SystemMessage("Own."), UserMessage("x")]),
    ],
    ids=["alone", "with a history", "with a system message"],
)
def test_instructions(messages: list[Message], expected: list[Message]) -> None:
    """Instructions come before the conversation, unless it has some of its own."""
    model = ScriptedModel(["Hi."])
    Runner(model=model, instructions="Be brief.").run("x", messages=messages)

    assert expected == list(model.requests[0].messages)


@BOTH
def test_continuing(go: Callable[..., RunResult]) -> None:
    """The messages of one result are the beginning of the next run, which gives its own calls new ids."""
    first = one_turn(add, calls=[ToolCall(name="add", arguments='{"a": 1}', provider_call_id="x")], go=go)
    second = one_turn(
        add, calls=[ToolCall(name="add", arguments='{"a": 2}', provider_call_id="x")], go=go, messages=first.messages
    )

    assert (first.messages, True) == (second.messages[:4], "x" != second.calls[0].call.provider_call_id)


def test_continuing_does_not_change_the_first() -> None:
    """A list of messages that was passed in is not added to."""
    history = [UserMessage("a")]
    Runner(model=ScriptedModel(["Hi."])).run("x", messages=history)

    assert [UserMessage("a")] == history


def test_history_in_openai_form() -> None:
    """A history of dicts in OpenAI's form is read as if this library had made it."""
    function = {"name": "add", "arguments": '{"a": 1}'}
    history: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "assistant", "content": "It is 1."},
    ]
    result = Runner(model=ScriptedModel(["Hi."])).run("x", messages=history)

    assert (
        SystemMessage("Be brief."),
        UserMessage("1?"),
        ModelResponse(calls=(ToolCall(name="add", arguments='{"a": 1}', id="c", provider_call_id="c"),)),
        ToolMessage(call_id="c", provider_call_id="c", name="add", text="1"),
        ModelResponse(text="It is 1."),
        UserMessage("x"),
    ) == result.messages[:-1]


def test_history_is_enough() -> None:
    """Without a prompt the model answers the history."""
    assert "Hi." == Runner(model=ScriptedModel(["Hi."])).run(messages=[{"role": "user", "content": "x"}]).output


@BOTH
def test_context(go: Callable[..., RunResult]) -> None:
    """A tool finds the run's deps and the call's facts in its context."""
    seen: list[ToolContext[Any]] = []

    def look(context: ToolContext[Any], a: int) -> None:
        """Look."""
        seen.append(context)

    script: list[Any] = [
        [call("look", a=1)],
        [ToolCall(name="look", arguments='{"a": 2}', provider_call_id="w")],
        "Done.",
    ]
    result = go(Runner([look], model=ScriptedModel(script)), deps=["deps"])
    run_id = result.state.run_id

    assert [
        ToolContext(
            deps=["deps"],
            run_id=run_id,
            call_id=f"{run_id[:8]}_0",
            provider_call_id=f"{run_id[:8]}_0",
            tool_name="look",
        ),
        ToolContext(
            deps=["deps"], run_id=run_id, call_id=f"{run_id[:8]}_1", provider_call_id="w", tool_name="look", iteration=1
        ),
    ] == seen


def test_idempotency_key() -> None:
    """The key of a call is the first 32 digits of the SHA-256 of run, iteration and call."""
    expected = hashlib.sha256(b"r:2:c").hexdigest()[:32]

    assert expected == ToolContext(deps=None, run_id="r", iteration=2, call_id="c").idempotency_key


def test_unknown_option() -> None:
    """An option that does not exist is refused by name, with those that do."""
    with pytest.raises(
        TypeError,
        match=r"^Runner has no option 'zoom'\. The options are: toolbox, model, instructions, max_turns, ",
    ):
        Runner(zoom=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dialect": "klingon"}, "'klingon' is not one of 'chat', 'calls'"),
        ({"dialect": "gemini"}, r"Write the loop yourself, with Toolbox\.schemas\('gemini'\) and answer\(reply\)\."),
        ({"order": "random"}, r"order='random' is not 'parallel', 'sequential' or batched\(n\)\."),
        ({"queue": "both"}, "queue='both' is not 'one' or 'all'."),
        ({"max_runs": 0}, "max_runs=0 is not a whole number of at least 1."),
        ({"max_parallel": 0}, "max_parallel=0 is not a whole number of at least 1"),
        ({"max_turns": 0}, "max_turns=0 is not a whole number of at least 1"),
    ],
    ids=["dialect", "dialect without runs", "order", "queue", "max_runs", "max_parallel", "max_turns"],
)
def test_impossible_value(options: dict[str, Any], message: str) -> None:
    """A value that an option cannot have is refused where it is written, with those that it can."""
    with pytest.raises(ValueError, match=message):
        Runner(**options)


def test_model_that_is_none() -> None:
    """What is neither a name nor a model, such as a client, is refused where it is written."""
    with pytest.raises(TypeError, match=r"model=<object.*> is neither a model's name nor a Model\. Pass a client as"):
        Runner(model=object())  # type: ignore[arg-type]


def test_name() -> None:
    """A program that has several runners can read their names."""
    assert ["poet", ""] == [Runner(name="poet").name, Runner().name]


def test_repr() -> None:
    """A runner shows what it has."""
    assert "<Runner of <Toolbox of 1: add>>" == repr(Runner([add], model=ScriptedModel([])))


# -- limits


def searching(request: ModelRequest) -> Any:
    return [call("add", a=1)] if request.tools else "Summary."


@BOTH
def test_eleventh_request(go: Callable[..., RunResult]) -> None:
    """After 10 turns of calls the 11th request has no tools and the literal text, and its text is the answer."""
    model = ScriptedModel(searching)
    result = go(Runner([add], model=model))

    assert ([True] * 10 + [False], UserMessage(SUMMARY)) == (
        [bool(request.tools) for request in model.requests],
        model.requests[10].messages[-1],
    )
    assert ("Summary.", "max_turns", 10) == (result.output, result.finish_reason, len(result.calls))


@BOTH
def test_limit_stops(go: Callable[..., RunResult]) -> None:
    """With on_limit="stop" no further request is made, and the result holds everything."""
    model = ScriptedModel(searching)
    result = go(Runner([add], model=model, limits=Limits(max_turns=2, on_limit="stop")))

    assert ("", "max_turns", 2, 2) == (result.output, result.finish_reason, len(model.requests), len(result.calls))


@BOTH
def test_limit_raises(go: Callable[..., RunResult]) -> None:
    """With on_limit="raise" the limit leaves as LimitError."""
    with pytest.raises(LimitError, match="reached max_turns=2"):
        go(Runner([add], model=ScriptedModel(searching), limits=Limits(max_turns=2, on_limit="raise")))


# -- what a tool does


@BOTH
def test_tool_that_raises(go: Callable[..., RunResult]) -> None:
    """A tool's exception does not leave; it is on the call, live, with its traceback, and its message stays here."""

    def fail() -> None:
        """Fail."""
        raise ValueError("canary")

    result = one_turn(fail, calls=[call("fail")], go=go)
    error = result.calls[0].exception

    assert isinstance(error, ValueError)
    assert error.__traceback__ is not None
    assert ("Done.", False) == (result.output, "canary" in repr(result.messages))


@BOTH
@pytest.mark.parametrize(
    "kind", [Exception, StopIteration, StopAsyncIteration, SystemExit, AssertionError, RecursionError]
)
def test_every_exception_is_a_result(kind: type[BaseException], go: Callable[..., RunResult]) -> None:
    """Whatever a tool raises is the answer to its call, also among calls that go well."""

    def fail() -> None:
        """Fail."""
        raise kind

    result = one_turn(fail, add, calls=[call("fail"), call("add", a=1)], go=go)

    assert [True, False] == [finished.result.is_error for finished in result.calls]


@BOTH
def test_validator_that_exits(go: Callable[..., RunResult]) -> None:
    """A validator of a parameter that raises SystemExit, such as argparse, ends its call alone."""

    def check(_: str) -> str:
        raise SystemExit(2)

    def open_file(path: Annotated[str, AfterValidator(check)]) -> None:
        """Open a file."""

    result = one_turn(open_file, add, calls=[call("open_file", path="a"), call("add", a=1)], go=go)

    assert [True, False] == [finished.result.is_error for finished in result.calls]


@BOTH
@pytest.mark.parametrize("count", [1, 3])
def test_fatal_error(count: int, go: Callable[..., RunResult]) -> None:
    """A FatalError leaves the run as it is."""

    def fail(n: int) -> None:
        """Fail."""
        if n == 0:
            raise FatalError("no more")

    with pytest.raises(FatalError, match="no more"):
        one_turn(fail, calls=[call("fail", n=n) for n in range(count)], go=go)


def test_keyboard_interrupt_of_a_tool() -> None:
    """A KeyboardInterrupt that a tool raises on a thread of its own is the result of its call."""

    def stop(n: int) -> int:
        """Stop."""
        if n == 0:
            raise KeyboardInterrupt
        return n

    result = one_turn(stop, calls=[call("stop", n=n) for n in range(3)], go=through_run)

    assert [True, False, False] == [finished.result.is_error for finished in result.calls]


def test_keyboard_interrupt_of_the_user() -> None:
    """The user's Ctrl-C leaves from within a tool on the caller's thread."""

    def work() -> None:
        """Work."""
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        one_turn(work, calls=[call("work")], go=through_run)


def test_keyboard_interrupt_during_a_timeout() -> None:
    """Where Ctrl-C wakes no waiting thread, as on Windows, it does not wait for a call's timeout either."""
    release, ended = threading.Event(), threading.Event()

    @tool(timeout=30)
    def wait() -> None:
        """Wait."""
        release.wait(0.1)
        _thread.interrupt_main()
        release.wait(10)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        one_turn(wait, calls=[call("wait")], go=through_run)
    assert not ended.is_set()
    release.set()


def test_keyboard_interrupt_while_waiting() -> None:
    """A KeyboardInterrupt while other threads work leaves at once; it waits for none of them."""
    release, started = threading.Event(), threading.Barrier(2, timeout=10)

    def wait(n: int) -> None:
        """Wait."""
        started.wait()
        if n == 0:
            os.kill(os.getpid(), signal.SIGINT)
        release.wait(10)

    with pytest.raises(KeyboardInterrupt):
        one_turn(wait, calls=[call("wait", n=0), call("wait", n=1)], go=through_run)
    release.set()


class Failing:
    """Fails in a way that no model should read of."""

    def __init__(self) -> None:
        self.error = KeyError("the key")

    def fail(self) -> None:
        """Fail."""
        raise self.error


def refuse() -> None:
    """Refuse."""
    raise ToolError("Not today.")


@BOTH
def test_raised_errors(go: Callable[..., RunResult]) -> None:
    """Asked for, what a function raises leaves the run as itself, when the calls beside it have ended."""
    failing = Failing()
    script = ScriptedModel([[call("refuse"), call("fail"), call("add", a=1), call("add", a="x")], "Done."])
    with pytest.raises(KeyError) as caught:
        go(Runner([refuse, failing.fail, add], model=script, raise_errors=True))

    result: RunResult = caught.value.result  # type: ignore[attr-defined]
    assert failing.error is caught.value
    assert "fail" == caught.traceback[-1].name
    assert ["failed", "failed", None, "invalid_arguments"] == [done.result.kind for done in result.calls]
    assert ("error", 4) == (result.finish_reason, sum(isinstance(m, ToolMessage) for m in result.messages))


@BOTH
def test_errors_for_the_model_are_not_raised(go: Callable[..., RunResult]) -> None:
    """A ToolError, wrong arguments and an unknown tool stay the model's, even there."""
    script = ScriptedModel([[call("refuse"), call("add"), call("nobody")], "Done."])

    assert "Done." == go(Runner([refuse, add], model=script, raise_errors=True)).output


@BOTH
def test_every_kind_of_failure_has_one_answer(go: Callable[..., RunResult]) -> None:
    """Success, error, denial, bad arguments and unknown tool: each call gets one message, in call order."""

    def fail() -> None:
        """Fail."""
        raise ToolError("Try later.")

    def locked() -> None:
        """Stay locked."""

    def authorize(tool: Tool[..., Any], *_: Any) -> bool:
        return tool.name != "locked"

    calls = [call("add", a=1), call("fail"), call("locked"), call("add", a="x"), call("nobody")]
    with ScriptedModel([calls, "Done."]) as model:
        result = go(Runner([add, fail, locked], model=model, authorize=authorize))

    assert [
        "1",
        "Try later.",
        "Tool execution was denied by au",
        "Invalid arguments: a: Input sh",
        "unknown tool: 'nobody'. Availa",
    ] == [text[: 30 + (index == 2)] for index, text in enumerate(texts_of(result))]


@BOTH
def test_gates_keep_the_body_shut(go: Callable[..., RunResult]) -> None:
    """A call that is not approved does not enter the function."""
    entered = []

    def drop() -> None:
        """Drop."""
        entered.append("drop")

    with ScriptedModel([[call("drop")], "Done."]) as model:
        go(Runner([drop], model=model, approve=lambda _: False))

    assert [] == entered


def test_middleware_that_waits_in_a_sync_run(caplog: pytest.LogCaptureFixture) -> None:
    """A middleware that waits for an event loop gets an error where there is none, and the run continues in order."""

    async def wait(made: ToolCall, line: Any) -> ToolResult:
        await asyncio.sleep(0)
        return ToolResult("never")

    with ScriptedModel([[call("add", a=1)], "Done."]) as model, caplog.at_level(logging.CRITICAL, "toolkit"):
        result = Runner([add], model=model, middleware=[wait]).run("x")

    assert ("Done.", True) == (result.output, "needs an event loop" in str(result.calls[0].exception))


# -- several calls at the same time


@BOTH
def test_parallel_calls_overlap(go: Callable[..., RunResult]) -> None:
    """The calls of one turn run at the same time; results are in call order though the first one ends last."""
    together, ended = threading.Barrier(3, timeout=10), [threading.Event() for _ in range(4)]
    ended[3].set()

    def work(n: int) -> int:
        """Work."""
        together.wait()
        assert ended[n + 1].wait(10)
        ended[n].set()
        return n

    result = one_turn(work, calls=[call("work", n=n) for n in range(3)], go=go)

    assert (["0", "1", "2"], [0, 1, 2]) == (texts_of(result), [finished.result.value for finished in result.calls])


@BOTH
def test_async_tools_overlap(go: Callable[..., RunResult]) -> None:
    """Async tools of one turn wait for each other, in either backend."""
    arrived: list[asyncio.Event] = []

    async def meet(n: int) -> str:
        """Meet."""
        arrived.append(asyncio.Event())
        if len(arrived) == 3:
            for event in arrived:
                event.set()
        await asyncio.wait_for(arrived[0].wait(), 10)
        return "met"

    assert ["met"] * 3 == texts_of(one_turn(meet, calls=[call("meet", n=n) for n in range(3)], go=go))


@BOTH
def test_more_calls_than_places(go: Callable[..., RunResult]) -> None:
    """More calls than may run at the same time are all executed, each with its own result."""
    count = 300
    result = one_turn(add, calls=[call("add", a=n) for n in range(count)], go=go)

    assert [str(n) for n in range(count)] == texts_of(result)


@BOTH
def test_one_that_fails_harms_no_other(go: Callable[..., RunResult]) -> None:
    """Among calls at the same time, errors stay with the calls that made them."""

    def half(n: int) -> int:
        """Fail for odd numbers."""
        if n % 2:
            raise ToolError("odd")
        return n

    result = one_turn(half, calls=[call("half", n=n) for n in range(6)], go=go)

    assert ["0", "odd", "2", "odd", "4", "odd"] == texts_of(result)


# -- threads and loops


def test_one_call_stays_on_the_callers_thread() -> None:
    """With one call per turn, sync model and sync tool, no thread is started and no loop is running."""
    seen: list[Any] = []

    def look() -> None:
        """Look."""
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        seen.append((threading.current_thread(), set(threading.enumerate()) - before))

    before = set(threading.enumerate())  # one of an earlier test may end meanwhile
    Runner([look], model=ScriptedModel([[call("look")], [call("look")], "Done."])).run("x")

    assert [(threading.current_thread(), set())] * 2 == seen


def test_sync_tools_do_not_block_the_loop() -> None:
    """In arun four sync tools wait for an event that only the loop sets, so the loop was free."""
    beat = threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    def signal_main() -> None:
        loops[0].call_soon_threadsafe(beat.set)

    arrived = threading.Barrier(4, action=signal_main)

    def wait() -> bool:
        """Wait."""
        arrived.wait(10)
        return beat.wait(10)

    async def main() -> RunResult:
        loops.append(asyncio.get_running_loop())
        return await Runner([wait], model=ScriptedModel([[call("wait")] * 4, "Done."])).arun("x")

    assert ["true"] * 4 == texts_of(asyncio.run(main()))


def test_one_sync_tool_does_not_block_the_loop() -> None:
    """In arun a single sync tool leaves the loop free as well."""
    beat = threading.Event()

    def wait() -> bool:
        """Wait."""
        return beat.wait(10)

    async def main() -> RunResult:
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, beat.set)
        return await Runner([wait], model=ScriptedModel([[call("wait")], "Done."])).arun("x")

    assert ["true"] == texts_of(asyncio.run(main()))


def test_run_inside_a_running_loop() -> None:
    """run() works where a loop is running already, with sync and async tools."""

    async def later(a: int) -> int:
        """Wait a moment."""
        await asyncio.sleep(0)
        return a

    async def cell() -> RunResult:
        return Runner([add, later], model=ScriptedModel([[call("add", a=1), call("later", a=2)], "Done."])).run("x")

    assert ["1", "2"] == texts_of(asyncio.run(cell()))


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


@BOTH
@pytest.mark.parametrize("count", [1, 2])
def test_context_variables(count: int, go: Callable[..., RunResult]) -> None:
    """Sync and async tools see the caller's context variables, on whatever thread or task they run."""

    def look(n: int) -> str:
        """Look."""
        return VARIABLE.get()

    async def alook(n: int) -> str:
        """Look."""
        return VARIABLE.get()

    token = VARIABLE.set("set")
    made = [call(name, n=n) for n in range(count) for name in ("look", "alook")[: 1 if count == 1 else 2]]
    result = one_turn(look, alook, calls=made, go=go)
    VARIABLE.reset(token)

    assert ["set"] * len(made) == texts_of(result)


@BOTH
@pytest.mark.parametrize("is_exclusive", [False, True])
def test_set_context_variables(is_exclusive: bool, go: Callable[..., RunResult]) -> None:
    """What a sync tool sets is not seen by other calls, nor by the caller."""

    @tool(exclusive=is_exclusive)
    def move() -> str:
        """Move."""
        before = VARIABLE.get()
        VARIABLE.set("moved")
        return before

    model = ScriptedModel([[call("move")], [call("move"), call("move")], "Done."])
    result = go(Runner([move], model=model), "Move.")

    assert (["unset"] * 3, "unset") == (texts_of(result), VARIABLE.get())


def test_arun_can_be_cancelled() -> None:
    """Cancelling arun cancels its tools, and the cancellation is what leaves."""
    ended: list[str] = []

    async def main() -> None:
        started = asyncio.Event()

        async def wait(n: int) -> None:
            """Wait."""
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("ended")

        model = ScriptedModel([[call("wait", n=0), call("wait", n=1)], "Done."])
        running = asyncio.ensure_future(Runner([wait], model=model).arun("x"))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())

    assert ["ended"] * 2 == ended


def test_runs_at_the_same_time() -> None:
    """One runner may have many runs at the same time; each has its own calls."""

    async def main() -> list[RunResult]:
        runner = Runner([add], model=ScriptedModel(lambda r: "Done." if len(r.messages) > 1 else [call("add", a=1)]))
        return await asyncio.gather(*(runner.arun(str(n)) for n in range(20)))

    results = asyncio.run(main())

    assert ([["1"]] * 20, 20) == ([texts_of(r) for r in results], len({r.calls[0].call.id for r in results}))


def test_asks_in_the_caller_s_task() -> None:
    """An async model without a deadline is awaited in the caller's task: its next request waits for no other task."""

    @dataclass
    class Here(Silent):
        is_async = True
        name = "here"
        tasks: list[Any] = field(default_factory=list)

        async def complete(self, request: ModelRequest) -> ModelResponse:
            self.tasks.append(asyncio.current_task())
            return ModelResponse(text="Done.", finish_reason="stop")

    async def main() -> tuple[list[Any], list[Any]]:
        model = Here()
        await Runner(model=model).arun("x")
        return [asyncio.current_task()], model.tasks

    caller, asked_in = asyncio.run(main())

    assert caller == asked_in


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks start in the next round of the loop")
@pytest.mark.parametrize("count", [1, 3])
def test_waits_for_no_round_of_the_loop(count: int) -> None:
    """Between an answer and the next request the loop does nothing else, where the tools wait for nothing."""

    class Here(Silent):
        is_async = True
        name = "here"

        async def complete(self, request: ModelRequest) -> ModelResponse:
            if len(request.messages) > 1:
                return ModelResponse(text="Done.", finish_reason="stop")
            return ModelResponse(calls=tuple([call("add", a=1)] * count), finish_reason="tool_calls")

    async def aadd(a: int) -> int:
        """Add."""
        return a

    async def main() -> list[str]:
        did: list[str] = []
        asyncio.get_running_loop().call_soon(did.append, "something else")
        result = await Runner([tool(aadd, name="add")], model=Here()).arun("x")
        assert ["1"] * count == texts_of(result)
        return [*did]  # it is done when this ends

    assert [] == asyncio.run(main())


# -- snapshots


def test_snapshot_per_run() -> None:
    """What the toolbox holds when a run starts is what that run has; a change counts from the next run on."""
    box = Toolbox([add])

    def grow() -> str:
        """Take `add` out, put `more` in."""
        box.remove("add")
        box.add(more)
        return "grown"

    def more() -> str:
        """More."""
        return "more"

    box.add(grow)
    both: list[Any] = [[call("grow")], [call("add", a=1), call("more")], "Done."]
    runner = Runner(box, model=ScriptedModel([*both, [call("add", a=1), call("more")], "Done."]))
    first, second = runner.run("x"), runner.run("x")

    assert ["grown", "1", "unknown tool: 'more'", "unknown tool: 'add'.", "more"] == [
        text[:20] for text in texts_of(first) + texts_of(second)
    ]


# -- models that do not do what they should


class Silent:
    """A model whose streams end without a response."""

    name = "silent"
    is_async = False

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise ModelError("down")

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        nothing: tuple[Piece, ...] = ()
        for piece in nothing:
            yield piece


@BOTH
def test_model_error(go: Callable[..., RunResult]) -> None:
    """What the model raises leaves the run."""
    with pytest.raises(ModelError, match="down"):
        go(Runner(model=Silent()))


def test_stream_without_a_response() -> None:
    """A model whose stream ends without a response is named in the error."""
    with (
        pytest.raises(RunError, match=r"Silent.* ended its stream without a ModelResponse"),
        Runner(model=Silent()).stream("x") as events,
    ):
        list(events)


# -- messages


@pytest.mark.parametrize(
    ("output_type", "text"), [(str, '{"all":["{\\"a\\": 5}"]}'), (dict, '{"all":[{"a":5}]}')], ids=["text", "data"]
)
def test_a_tool_that_returns_the_result_of_a_run(output_type: type, text: str) -> None:
    """Its answer is sent, and not the conversation, and the details of its calls."""

    def ask() -> dict[str, Any]:
        """Ask another model."""
        model = ScriptedModel([call("look"), '{"a": 5}'])
        return {"all": [Runner([look], model=model).run("secret", output_type=output_type)]}

    def look() -> ToolResult:
        """Look."""
        return ToolResult("seen", details="secret")

    assert text == tool(ask).invoke("{}").text


# -- the end of the process

SCRIPT = """
import asyncio, logging, threading
from toolkit import Runner
from toolkit.testing import FakeServer, ScriptedModel, call, reply

logging.getLogger("asyncio").setLevel(logging.ERROR)  # a busy machine is slow, which asyncio would tell

async def later(a: int) -> int:
    '''Wait.'''
    asyncio.get_running_loop().create_task(asyncio.sleep(600))
    return a

async def endless() -> None:
    '''Never end.'''
    await asyncio.sleep(600)

def stuck() -> None:
    '''Never end.'''
    threading.Event().wait(600)

scripted = Runner([later], model=ScriptedModel([[call("later", a=1), call("later", a=2)], "Done."]))
print(scripted.run("x").output)
with FakeServer(lambda _: reply.text("Hi.")) as server:
    runner = Runner([later], base_url=server.base_url, model="fake")
    print(runner.run("x").output, asyncio.run(runner.arun("x")).output)
    events = runner.stream("x")
    print(type(next(events)).__name__, [type(next(events)).__name__ for _ in range(2)])
left = Runner([endless, stuck], model=ScriptedModel([[call("later"), call("endless"), call("stuck")]]))
for event in left.stream("x"):
    if type(event).__name__ == "ToolCallFinished":
        break
"""


def test_nothing_is_printed_at_exit() -> None:
    """A script with async tools, clients of our making, streams left early and stuck tools ends without output."""
    done = subprocess.run(  # noqa: S603  our own interpreter and our own words
        [sys.executable, "-W", "error", "-X", "dev", "-c", textwrap.dedent(SCRIPT)],
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip

    assert ("", "Done.\nHi. Hi.\nRunStarted ['TurnStarted', 'TextDelta']\n") == (done.stderr, done.stdout)


LAST_SCRIPT = """
import os
from toolkit import Runner
from toolkit.testing import ScriptedModel, call

async def later(a: int) -> int:
    '''Wait.'''
    return a

def now(a: int) -> int:
    '''Do not wait.'''
    return a

def run():
    script = [[call("now", a=1), call("now", a=2)], call("later", a=3), "Done."]
    return Runner([later, now], model=ScriptedModel(script)).run("x")

class Last:
    def __del__(self):
        try:
            end = [made.result.text for made in run().calls[:2]]
        except ImportError:  # as Python may raise then
            end = ["1", "2"]
        os.write(1, f"Last: {end}".encode())

print(run().output, flush=True)
last = Last()
"""


def test_a_run_while_python_shuts_down() -> None:
    """A run in a finalizer, when no thread can start any more, ends, and its sync tools run."""
    done = subprocess.run(  # noqa: S603  as above
        [sys.executable, "-c", LAST_SCRIPT], capture_output=True, text=True, timeout=250, check=False
    )

    assert "Done.\nLast: ['1', '2']" == done.stdout


async def nap(x: int) -> int:
    """Sleep, then count."""
    await asyncio.sleep(0.4)
    counted.append(x)
    return x


counted: list[int] = []


def end() -> None:
    """End the run."""
    raise FatalError("over")


@BOTH
def test_siblings_end_with_a_run_that_ends(go: Callable[..., RunResult]) -> None:
    """When a tool ends the run, the other async calls are cancelled, and have no effect afterwards."""
    released, ended = threading.Event(), list[int]()

    async def wait(x: int) -> None:
        while not released.is_set():  # noqa: ASYNC110  another thread sets it
            await asyncio.sleep(0.001)
        ended.append(x)

    with pytest.raises(FatalError, match="over"):
        go(Runner([wait, end], model=ScriptedModel([[call("wait", x=1), call("end"), call("wait", x=2)]])))
    released.set()
    time.sleep(0.1)

    assert [] == ended


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a task of Python 3.10 cannot tell whether it is cancelled")
@BOTH
def test_cancellation_of_a_tools_own(go: Callable[..., RunResult]) -> None:
    """A tool whose own task was cancelled has an error for a result; its sibling is not harmed."""

    async def inner() -> None:
        task = asyncio.ensure_future(asyncio.sleep(9))
        task.cancel()
        await task

    counted.clear()
    result = go(Runner([nap, inner], model=ScriptedModel([[call("inner"), call("nap", x=3)], "Done."])))

    assert ([("cancelled", "Cancelled: it had started, and its effects stay."), (None, "3")], [3]) == (
        [(made.result.kind, made.result.text) for made in result.calls],
        counted,
    )


@pytest.mark.parametrize(
    ("options", "word"),
    [({"model": "x"}, "the Runner sets it"), ({"timeout": 5}, "set the rest on the client")],
    ids=["ours", "client"],
)
def test_request_options_that_are_none(options: dict[str, Any], word: str) -> None:
    """Keys that the Runner sets, and those of the client, are refused where they are written."""
    with pytest.raises(TypeError, match=word):
        Runner(request_options=options)


def test_prompt_is_text() -> None:
    """A history given as the prompt is refused, with the way to give it."""
    with pytest.raises(TypeError, match=r"so far as messages="):
        Runner(model=ScriptedModel([])).run([{"role": "user", "content": "Hi"}])


def test_pictures() -> None:
    """Pictures of results reach the model in a user's message behind all results of the turn."""
    picture = Image(b"png")

    def draw(text: str) -> list[str | Image]:
        """Draw."""
        return [text, picture]

    model = ScriptedModel([[call("draw", text="a"), call("draw", text="b")], "Nice."])
    texts_of = Runner([draw], model=model).run("x").messages[2:5]

    assert ["a\n[image]", "b\n[image]", "The images of the results above, in order."] == [m.text for m in texts_of]
    assert UserMessage("The images of the results above, in order.", (picture, picture)) == texts_of[-1]


def test_tool_sees_that_its_run_was_left() -> None:
    """A tool that still runs after its run was left can see it."""
    contexts: list[ToolContext[None]] = []

    def work(context: ToolContext[None]) -> bool:
        """Work."""
        contexts.append(context)
        return context.cancelled

    result = Runner([work], model=ScriptedModel([call("work"), "Done."])).run("x")

    assert (False, True) == (result.calls[0].result.value, contexts[0].cancelled)


@BOTH
def test_truncated_calls_have_results(go: Callable[..., RunResult]) -> None:
    """Calls of an answer that was cut have their results in the record, too: they were not run."""
    cut = ModelResponse(calls=(call("nap", x=1),), finish_reason="length")
    result = go(Runner([nap], model=ScriptedModel([cut, "Sorry."])))

    texts_of = result.calls[0].result
    assert ("cancelled", True) == (texts_of.kind, "cut off" in texts_of.text)


def test_responses_with_times() -> None:
    """A result has each response of the model and its start, which lies before that of the calls in it."""

    def look() -> str:
        """Look."""
        return "a pond"

    result = Runner([look], model=ScriptedModel([call("look"), "A pond."])).run("What is there?")
    first, last = result.responses

    assert ["", "A pond."] == [each.response.text for each in result.responses]
    assert 0 < first.started <= result.calls[0].started <= last.started
    assert first.started + first.seconds <= last.started + last.seconds
