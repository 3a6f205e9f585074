"""Runs whose calls refer to each other: in one answer, across answers, and over a pause."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from toolkit import (
    ApprovalRequest,
    Limits,
    Runner,
    RunResult,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    batched,
    tool,
)
from toolkit._messages import ModelResponse, ToolMessage
from toolkit._tools.shared_values import SharedValues
from toolkit.approvers import defer
from toolkit.events import ToolCallFinished, ToolCallStarted
from toolkit.testing import FakeServer, Reply, ScriptedModel, reply

Said: TypeAlias = tuple[str, Mapping[str, Any]]


@tool(effect="read")
def store_result(path: str, value: Any) -> SharedValues:
    """Make the shared values that an earlier call leaves behind."""
    shared = SharedValues()
    shared.store_result(path, value)
    return shared


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
async def later(a: int) -> int:
    """Give a number back, later."""
    await asyncio.sleep(0)
    return a


@tool(effect="write")
def note(text: str) -> str:
    """Write a text down."""
    return text


@tool
def fail(a: int) -> int:
    """Fail."""
    raise ToolError(f"no {a}")


@tool
def seen(context: ToolContext) -> dict[str, Any]:
    """Show what is shared."""
    return dict(context.shared)


@tool(effect="write", approve=True)
def ask(a: int) -> int:
    """Give a number back, if somebody agrees."""
    return a


TOOLS = Toolbox([add, later, note, fail, seen, ask], references=True)


def call(name: str, /, to: str = "", of: str = "", **arguments: Any) -> ToolCall:
    """Make a call that keeps its result somewhere."""
    return ToolCall(name=name, arguments=json.dumps(arguments), output_path=to, instance=of)


def scripted(*turns: Sequence[ToolCall], **options: Any) -> Runner:
    """Make a runner whose model makes calls, turn by turn, and then says that it is done."""
    return Runner(TOOLS, model=ScriptedModel([*turns, "Done."]), approve=_deferred, **options)


def _deferred(request: ApprovalRequest) -> Any:
    """Let one tool wait for somebody's yes."""
    return defer(request) if request.tool.name == "ask" else True


def texts(result: RunResult[Any]) -> list[str]:
    """List what the model was told, in order."""
    return [message.text for message in result.messages if isinstance(message, ToolMessage)]


def native(calls: Sequence[Said]) -> Reply:
    """Answer with tool calls."""
    return reply.calls(*calls)


def listed(calls: Sequence[Said]) -> Reply:
    """Answer with a list of calls."""
    return reply.text(json.dumps({"calls": [{"_tool": name, **said} for name, said in calls], "output": None}))


TURNS: list[list[Said]] = [
    [
        ("add", {"a": "†one", "b": "†half.two"}),
        ("later", {"_outputPath": "half.two", "a": 2}),
        ("add", {"_outputPath": "one", "_instance": "", "a": 0, "b": 1}),
    ],
    [
        ("add", {"a": "†one", "b": "†state.half.two"}),
        ("note", {"text": "††"}),
        ("add", {"a": "†three", "b": 1}),
    ],
]
TOLD = ["3", "2", "1", "3", "†", "Invalid arguments: †three: there is nothing at 'three'. There is: half.two, one"]


@pytest.mark.parametrize("is_async", [False, True], ids=["run", "arun"])
@pytest.mark.parametrize(
    ("answered", "done", "options"),
    [
        (native, "Done.", {}),
        (native, "Done.", {"strict": False, "order": "sequential"}),
        (listed, '{"calls": [], "output": "Done."}', {"dialect": "calls"}),
        (listed, '{"calls": [], "output": "Done."}', {"dialect": "calls", "order": batched(2), "max_parallel": 1}),
    ],
    ids=["native", "native, one by one", "calls", "calls, in batches"],
)
def test_a_run(answered: Any, done: str, options: dict[str, Any], is_async: bool) -> None:
    """Calls get the results of others of the same answer and of earlier ones, whatever the model speaks."""
    with FakeServer([*map(answered, TURNS), reply.text(done)]) as server:
        runner = Runner(TOOLS, model="fake", base_url=server.base_url, **options)
        result = asyncio.run(runner.arun("Add.")) if is_async else runner.run("Add.")

    assert (TOLD, "Done.") == (texts(result), result.output)


def test_the_wire_stays_as_it_was() -> None:
    """The model reads its own calls again as it made them, references and all."""
    with FakeServer([native(TURNS[0]), reply.text("Done.")]) as server:
        Runner(TOOLS, model="fake", base_url=server.base_url, strict=False).run("Add.")

    sent = server.requests[-1].body["messages"][-4]["tool_calls"]
    assert [said for _, said in TURNS[0]] == [json.loads(each["function"]["arguments"]) for each in sent]


def test_the_calls_of_a_result() -> None:
    """Events and results tell the calls as the model made them."""
    calls = [call("add", a="†x", b=1), call("add", to="x", a=1, b=1)]
    result = scripted(calls).run("Add.")

    assert [made.arguments for made in calls] == [done.call.arguments for done in result.calls]
    assert ["3", "2"] == texts(result)


def test_each_call_begins_and_ends_once() -> None:
    """Calls are told as they begin, each behind those that it needs."""
    calls = [call("note", text="†x"), call("note", to="x", text="a"), call("note", text="b")]
    events = list(scripted(calls).stream("Write."))
    begun = [event.call.arguments for event in events if isinstance(event, ToolCallStarted)]
    ended = [event.call.arguments for event in events if isinstance(event, ToolCallFinished)]

    assert [calls[1].arguments, calls[0].arguments, calls[2].arguments] == begun == ended


def test_what_a_run_is_given() -> None:
    """A run is given values to begin with, which tools find in their context."""
    result = scripted([call("seen"), call("add", a="†trip.days", b=1)]).run("Look.", shared={"trip": {"days": 2}})

    assert ['{"trip":{"days":2}}', "3"] == texts(result)


def test_every_verb_takes_shared() -> None:
    """So do stream, astream, start, arun and their like."""
    calls, days = [call("add", a="†days", b=1)], {"days": 2}

    async def drawn() -> RunResult[str]:
        async with scripted(calls).astream("Add.", shared=days) as stream:
            [_ async for _ in stream]
            return stream.result

    with scripted(calls).stream("Add.", shared=days) as stream:
        list(stream)
    told = [stream.result, scripted(calls).start("Add.", shared=days).result(), asyncio.run(drawn())]
    assert [["3"]] * 4 == [texts(r) for r in (*told, asyncio.run(scripted(calls).arun("Add.", shared=days)))]


def test_one_shared_for_many_runs() -> None:
    """A Shared keeps the results of a run for others."""
    shared = SharedValues()
    scripted([call("add", to="x", a=1, b=1)]).run("Add.", shared=shared)

    assert ["4"] == texts(scripted([call("add", a="†x", b="†x")]).run("Add.", shared=shared))


def test_going_on() -> None:
    """A run that goes on from the messages of another one knows the results that it kept."""
    before = scripted([call("add", to="x", of="one", a=1, b=1), call("note", to="text", text="5")]).run("Add.")
    after = scripted([call("add", of="one", a="†x", b=1), call("seen")]).run("More.", messages=before.messages)

    assert ["3", '{"text":"5"}'] == texts(after)[2:]


def test_values_of_the_application_when_going_on() -> None:
    """What a call of an earlier run stored does not replace a value that the application gives now."""
    result = scripted([call("add", to="x", a=1, b=1)]).run("Add.")

    later = scripted([call("seen")]).run("Look.", messages=result.messages, shared={"x": "given"})

    assert ['{"x":"given"}'] == texts(later)[-1:]


def test_going_on_after_the_last_write() -> None:
    """Where calls of an answer kept their results in one place, that of the one which was carried out last is known."""
    calls = [call("add", to="x", a="†y", b=0), call("add", to="x", a=2, b=0), call("add", to="y", a=3, b=0)]
    before = scripted(calls, [call("add", a="†x", b=0)]).run("Add.")
    after = scripted([call("add", a="†x", b=0)]).run("More.", messages=before.messages)

    assert ["3", "2", "3", "3", "3"] == texts(after)


def as_text() -> Any:
    """Give what nothing is said of."""
    return "true"


def phone() -> str | None:
    """Give digits."""
    return "12"


def told_otherwise() -> ToolResult:
    """Tell the model something else."""
    return ToolResult({"a": 1}, text="done")


def nothing() -> int | None:
    """Give no number."""
    return None


def price() -> Decimal:
    """Give an amount."""
    return Decimal("1.50")


def pair() -> tuple[int, str]:
    """Give a number and a text."""
    return 5, "5"


@pytest.mark.parametrize(
    ("function", "kept"),
    [(as_text, "true"), (phone, "12"), (told_otherwise, "done"), (nothing, None), (price, "1.50"), (pair, [5, "5"])],
    ids=["any", "text or nothing", "told otherwise", "number or nothing", "decimal", "array"],
)
def test_what_is_kept(function: Callable[[], Any], kept: Any) -> None:
    """A later run finds what the first one did: what the model was told, read as the output schema says."""
    told: list[Any] = []

    @tool
    def use(x: Any) -> None:
        told.append(x)

    box, using = Toolbox([function, use], references=True), [call("use", x="†p")]
    first = Runner(box, model=ScriptedModel([[call(function.__name__, to="p")], using, "Done."])).run("Go.")
    Runner(box, model=ScriptedModel([using, "Done."])).run("More.", messages=first.messages)

    assert [kept, kept] == told


def test_a_yes_holds_for_a_text_of_digits() -> None:
    """Whoever agreed to a text of digits has agreed to what the call gets once it is resumed."""

    @tool(approve=True)
    def ask(x: Any) -> str:
        return repr(x)

    model = ScriptedModel([[call("phone", to="p"), call("ask", x="†p")], "Done."])
    runner = Runner(Toolbox([phone, ask], references=True), model=model, approve=_deferred)
    paused = runner.run("Go.")
    result = runner.resume(paused.state.to_json(), {paused.pending[0].call.id: True})

    assert ("stop", ["12", "'12'"]) == (result.finish_reason, texts(result))


def test_a_result_that_was_cut() -> None:
    """A run knows the whole of a result that the model was shown a part of; one that goes on from it does not."""
    turns = [call("note", to="x", text="a" * 300)], [call("note", to="y", text="†x")]
    first = scripted(*turns, max_result=100).run("Write.")
    second = scripted([call("note", text="†x")]).run("More.", messages=first.messages)

    assert ["a" * 300] * 2 == [done.result.value for done in first.calls]
    assert "there is nothing at 'x'. There is: none" in texts(second)[-1]


def test_circles() -> None:
    """Calls that wait for each other are errors, and the run goes on."""
    calls = [call("add", to="x", a="†y", b=1), call("add", to="y", a="†x", b=1), call("add", a=1, b=1)]
    result = scripted(calls).run("Add.")

    refused = (
        "Invalid arguments: by way of other calls they refer to this call's own result: {} waits for {}. "
        "Leave a reference out."
    )
    assert [refused.format("'x'", "'y'"), refused.format("'y'", "'x'"), "2"] == texts(result)
    assert "Done." == result.output


def test_a_call_that_failed() -> None:
    """A call does not get an older value where the call failed that was to give a newer one."""
    result = scripted([call("add", a="†x", b=1), call("fail", to="x", a=1)]).run("Add.", shared=store_result("x", 1))

    assert "Not run: it needs the result of fail at 'x', which failed: no 1" == texts(result)[0]


def test_a_call_that_was_refused() -> None:
    """The same holds where a limit is why the other call was not run."""
    calls = [call("add", to="y", a=1, b=1), call("add", to="x", a=1, b=1), call("note", text="†x")]
    result = scripted(calls, limits=Limits(max_calls_per_tool={"add": 1})).run("Add.", shared=store_result("x", "old"))

    why = "Not run: add may be called 1 times in a run. Go on without it."
    assert ["2", why, f"Not run: it needs the result of add at 'x', which failed: {why}"] == texts(result)


def test_limits_count_in_call_order() -> None:
    """A call that is over the bound is refused though another one waits for it, which is told why."""
    calls = [call("note", text="†x"), call("add", to="x", a=1, b=1)]
    result = scripted(calls, limits=Limits(max_calls_per_turn=1)).run("Add.")

    why = "Not run: one answer may hold 1 calls. Send this one again later, if it is needed."
    assert [f"Not run: it needs the result of add at 'x', which failed: {why}", why] == texts(result)


def test_a_call_that_waits_for_a_yes() -> None:
    """Calls that need the result of one that waits for somebody wait with it; the others are carried out."""
    calls = [
        call("add", to="sum", a="†x", b=1),
        call("ask", to="x", a="†one"),
        call("note", text="†sum"),
        call("add", to="one", a=0, b=1),
    ]
    paused = scripted(calls).run("Add.", shared=store_result("x", 100))
    told = [message.text for message in paused.state.results]

    assert ("paused", ['{"a": 1}'], ["1"]) == (paused.finish_reason, [p.arguments for p in paused.pending], told)


@pytest.mark.parametrize("is_async", [False, True], ids=["resume", "aresume"])
@pytest.mark.parametrize(
    ("agreed", "errors"), [(True, [False] * 4), (False, [True, True, True, False])], ids=["yes", "no"]
)
def test_resuming(agreed: bool, errors: list[bool], is_async: bool) -> None:
    """A run that is taken up again knows the results that were kept; what waited is carried out, or fails with it."""
    calls = [
        call("add", to="sum", a="†x", b=1),
        call("ask", to="x", a="†one"),
        call("add", a="†sum", b=5),
        call("add", to="one", a=0, b=1),
    ]
    paused = scripted(calls).run("Add.")
    state, decisions = paused.state.to_json(), {paused.pending[0].call.id: agreed}
    result = asyncio.run(scripted().aresume(state, decisions)) if is_async else scripted().resume(state, decisions)

    told = [message for message in result.messages if isinstance(message, ToolMessage)]
    assert errors == [message.is_error for message in told]
    assert not agreed or ["2", "1", "7", "1"] == texts(result)


LATE: Mapping[str, tuple[list[ToolCall], Any]] = {
    "one place": ([call("ask", to="x", a=1), call("add", to="x", a=1, b=1)], 2),
    "inside": ([call("ask", to="x.a", a=1), call("add", to="x", a=1, b=1)], 2),
    "around": ([call("ask", to="x", a=1), call("add", to="x.a", a=1, b=1)], {"a": 2}),
    "another instance": ([call("ask", to="x", a=1), call("add", to="x", of="one", a=1, b=1)], 1),
    "an earlier one": ([call("add", to="x", a=1, b=1), call("ask", to="x", a=1)], 1),
    "one that failed": ([call("ask", to="x", a=1), call("fail", to="x", a=1)], 1),
    "both late": ([call("ask", to="x", a=1), call("add", to="x", a=1, b=1), call("ask", to="x", a=3)], 3),
}


@pytest.mark.parametrize(("calls", "kept"), LATE.values(), ids=LATE)
def test_a_value_that_comes_late(calls: Sequence[ToolCall], kept: Any) -> None:
    """What is kept is the same where a call waits for a yes, where it need not, and where a run goes on from there."""
    look = [call("seen")]
    paused = scripted(calls).run("Add.")
    decisions = {waiting.call.id: True for waiting in paused.pending}
    late = scripted(look).resume(paused.state, decisions)
    after = scripted(look).run("More.", messages=late.messages)
    at_once = Runner(TOOLS, model=ScriptedModel([calls, look, "Done."]), approve=lambda _: True).run("Add.")

    assert [kept] * 3 == [json.loads(texts(result)[-1])["x"] for result in (late, after, at_once)]


def test_who_waits_for_a_value_that_comes_late() -> None:
    """A call that waited with the one before gets the value of the last one."""
    calls = [call("ask", to="x", a=1), call("add", to="x", a=1, b=1), call("add", a="†x", b=0)]
    paused = scripted(calls).run("Add.")

    assert ["1", "2", "2"] == texts(scripted().resume(paused.state, {paused.pending[0].call.id: True}))


def test_shared_when_resuming() -> None:
    """What a run was given is given again when it is taken up again."""
    paused = scripted([call("add", a="†days", b="†x"), call("ask", to="x", a=1)]).run("Add.", shared={"days": 2})
    result = scripted().resume(paused.state, {paused.pending[0].call.id: True}, shared={"days": 2})

    assert ["3", "1"] == texts(result)


def test_nothing_begins_early_that_refers_to_another() -> None:
    """Of the calls that may begin early, those that refer to others do not."""
    turn: list[Said] = [
        ("add", {"_outputPath": "x", "a": 1, "b": 1}),
        ("add", {"a": "†x", "b": 1}),
        ("later", {"a": 6}),
    ]
    with FakeServer([native(turn), reply.text("Done.")]) as server:
        runner = Runner(TOOLS, model="fake", base_url=server.base_url, early=True)
        stream = runner.stream("Add.")
        begun = [event.call.id for event in stream if isinstance(event, ToolCallStarted)]

    assert ["2", "3", "6"] == texts(stream.result)
    assert 3 == len(set(begun)) == len(begun)


def test_nothing_begins_early_that_imports_from_another() -> None:
    """A call that may only read, and imports what another one of the answer gives, waits for that too."""

    @tool(effect="read")
    def city() -> str:
        """Find the city."""
        return "Paris"

    @tool(effect="read", imports=["city"])
    def look(context: ToolContext) -> str:
        """Look at the city."""
        return str(context.shared["city"])

    box = Toolbox([city, look], references=True)
    with FakeServer([native([("city", {"_outputPath": "city"}), ("look", {})]), reply.text("Done.")]) as server:
        stream = Runner(box, model="fake", base_url=server.base_url, early=True).stream(
            "Go.", shared=store_result("city", "old")
        )
        list(stream)

    assert ["Paris", "Paris"] == texts(stream.result)


def test_steering_past_a_call() -> None:
    """Where calls are skipped because the user says more, nobody waits for them."""

    @tool(effect="write")
    def steer() -> str:
        runner.steer("Stop.")
        return "steered"

    box = Toolbox([steer, note, add], references=True)
    calls = [call("steer"), call("note", to="x", text="a"), call("add", a="†x", b=1)]
    runner = Runner(box, model=ScriptedModel([calls, "Done."]))

    assert ["steered"] + ["Skipped due to queued user message."] * 2 == texts(runner.run("Go."))


def test_cancelling() -> None:
    """A run that is called off ends with a result for each call, also for those that wait for others."""
    begun = threading.Event()

    @tool
    def wait(context: ToolContext) -> str:
        begun.set()
        over = threading.Event()
        context.cancellation.subscribe(over.set)
        over.wait(10)
        return "late"

    @tool
    def same(text: str) -> str:
        return text

    box = Toolbox([wait, note, same], references=True)
    calls = [call("wait", to="x"), call("note", text="†x"), call("same", text="†x")]
    handle = Runner(box, model=ScriptedModel([calls])).start("Go.")
    begun.wait(10)
    handle.cancel()
    result = handle.result(timeout=10)

    assert ("cancelled", 3) == (result.finish_reason, len(texts(result)))


@pytest.mark.parametrize(
    ("name", "told"), [("note", "Not run: the run's time is up."), ("same", "Timed out.")], ids=["apart", "together"]
)
def test_limits_of_time(name: str, told: str) -> None:
    """A run whose time is up ends, and the calls that waited for a late one with it."""

    @tool
    async def wait() -> str:
        await asyncio.sleep(30)
        return "late"

    @tool
    def same(text: str) -> str:
        return text

    box = Toolbox([wait, note, same], references=True)
    model = ScriptedModel([[call(name, text="†x"), call("wait", to="x")], "Done."])
    result = Runner(box, model=model, limits=Limits(max_seconds=0.5)).run("Go.")

    assert [told, "Timed out."] == texts(result)


def test_without_references() -> None:
    """In a run of tools that refer to nothing, a mark is a character."""
    model = ScriptedModel([[call("note", to="x", text="†x")], "Done."])

    assert ["†x"] == texts(Runner([note], model=model).run("Write."))


@examples(40)
@given(st.data())
def test_any_answer(data: st.DataObject) -> None:
    """Whatever refers to whatever, each call has one result, in call order, under every order and way."""
    size = data.draw(st.integers(1, 8), label="calls")
    numbers = st.integers(0, size)
    names = st.sampled_from(["add", "later", "note", "fail"])
    calls = [_any_call(data.draw(names), data.draw(numbers), data.draw(numbers)) for _ in range(size)]
    order = data.draw(st.sampled_from(["parallel", "sequential", batched(2)]))
    runner = scripted(calls, order=order, max_parallel=data.draw(st.integers(1, 3)))
    result = asyncio.run(runner.arun("Go.")) if data.draw(st.booleans()) else runner.run("Go.")

    made = next(message for message in result.messages if isinstance(message, ModelResponse))
    told = [message.call_id for message in result.messages if isinstance(message, ToolMessage)]
    assert [each.id for each in made.calls] == told == [done.call.id for done in result.calls]


def _any_call(name: str, to: int, of: int) -> ToolCall:
    """Make a call that keeps its result at one number, and refers to another."""
    known: dict[str, dict[str, Any]] = {"add": {"a": 1, "b": f"†n{of}"}, "note": {"text": f"†n{of}"}}
    return call(name, f"n{to}", "", **known.get(name, {"a": f"†n{of}"}))
