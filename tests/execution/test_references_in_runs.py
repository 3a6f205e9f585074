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
from tests.servers import FakeServer
from toolkit import (
    ApprovalRequest,
    Limits,
    Runner,
    RunResult,
    RunState,
    Tool,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    batched,
    schema,
    tool,
)
from toolkit.approvers import defer
from toolkit.events import ToolCallFinished, ToolCallStarted
from toolkit.models import ModelResponse, ToolMessage
from toolkit.testing import Reply, ScriptedModel, reply

NamedCall: TypeAlias = tuple[str, Mapping[str, Any]]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
async def later(a: int) -> int:
    """Return a number, later."""
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
def read_shared(context: ToolContext) -> dict[str, Any]:
    """Return the shared values."""
    return dict(context.shared)


@tool(effect="write", approve=True)
def ask(a: int) -> int:
    """Return a number, with approval."""
    return a


TOOLS = Toolbox([add, later, note, fail, read_shared, ask], references=True)


def call(name: str, /, to: str = "", of: str = "", **arguments: Any) -> ToolCall:
    """Make a call that stores its result at a path."""
    return ToolCall(name=name, arguments=json.dumps(arguments), output_path=to, instance=of)


def scripted(*turns: Sequence[ToolCall], **options: Any) -> Runner:
    """Make a runner whose model makes calls, turn by turn, and then says that it is done."""
    return Runner(TOOLS, model=ScriptedModel([*turns, "Done."]), approve=_defer_ask, **options)


def _defer_ask(request: ApprovalRequest) -> Any:
    """Defer the approval of one tool."""
    return defer(request) if request.tool.name == "ask" else True


def list_results(result: RunResult[Any]) -> list[str]:
    """List the texts of results, in order."""
    return [message.text for message in result.messages if isinstance(message, ToolMessage)]


def native(calls: Sequence[NamedCall]) -> Reply:
    """Answer with tool calls."""
    return reply.calls(*calls)


def listed(calls: Sequence[NamedCall]) -> Reply:
    """Answer with a list of calls."""
    return reply.text(
        json.dumps({"calls": [{"_tool": name, **arguments} for name, arguments in calls], "output": None})
    )


TURNS: list[list[NamedCall]] = [
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
RESULT_TEXTS = [
    "3",
    "2",
    "1",
    "3",
    "†",
    "Invalid arguments: †three: there is nothing at 'three'. Available: half.two, one",
]


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

    assert (RESULT_TEXTS, "Done.") == (list_results(result), result.output)


def test_the_wire_stays_as_it_was() -> None:
    """The model reads its own calls again as it made them, references and all."""
    with FakeServer([native(TURNS[0]), reply.text("Done.")]) as server:
        Runner(TOOLS, model="fake", base_url=server.base_url, strict=False).run("Add.")

    sent = server.requests[-1].body["messages"][-4]["tool_calls"]
    assert [arguments for _, arguments in TURNS[0]] == [json.loads(each["function"]["arguments"]) for each in sent]


def test_the_calls_of_a_result() -> None:
    """Events and results have the calls as the model made them."""
    calls = [call("add", a="†x", b=1), call("add", to="x", a=1, b=1)]
    result = scripted(calls).run("Add.")

    assert [made.arguments for made in calls] == [done.call.arguments for done in result.calls]
    assert ["3", "2"] == list_results(result)


def test_each_call_starts_and_ends_once() -> None:
    """Each call has one event at its start, after those that it needs."""
    calls = [call("note", text="†x"), call("note", to="x", text="a"), call("note", text="b")]
    events = list(scripted(calls).stream("Write."))
    started = [event.call.arguments for event in events if isinstance(event, ToolCallStarted)]
    ended = [event.call.arguments for event in events if isinstance(event, ToolCallFinished)]

    assert [calls[1].arguments, calls[0].arguments, calls[2].arguments] == started == ended


def test_shared_values_of_a_run() -> None:
    """A run has shared values from its start, which tools find in their context."""
    result = scripted([call("read_shared"), call("add", a="†trip.days", b=1)]).run(
        "Look.", shared={"trip": {"days": 2}}
    )

    assert ['{"trip":{"days":2}}', "3"] == list_results(result)


def test_every_verb_takes_shared() -> None:
    """So do stream, astream, start, arun and their like."""
    calls, days = [call("add", a="†days", b=1)], {"days": 2}

    async def astreamed() -> RunResult[str]:
        async with scripted(calls).astream("Add.", shared=days) as stream:
            [_ async for _ in stream]
            return stream.result

    with scripted(calls).stream("Add.", shared=days) as stream:
        list(stream)
    found = [stream.result, scripted(calls).start("Add.", shared=days).result(), asyncio.run(astreamed())]
    assert [["3"]] * 4 == [list_results(r) for r in (*found, asyncio.run(scripted(calls).arun("Add.", shared=days)))]


def test_continued_run() -> None:
    """A run that continues from another one's messages has its stored results."""
    before = scripted([call("add", to="x", of="one", a=1, b=1), call("note", to="text", text="5")]).run("Add.")
    after = scripted([call("add", of="one", a="†x", b=1), call("read_shared")]).run("More.", messages=before.messages)

    assert ["3", '{"text":"5"}'] == list_results(after)[2:]


def test_values_of_the_application_in_a_continued_run() -> None:
    """A result of an earlier run does not replace a value that the application passes now."""
    result = scripted([call("add", to="x", a=1, b=1)]).run("Add.")

    later = scripted([call("read_shared")]).run("Look.", messages=result.messages, shared={"x": "given"})

    assert ['{"x":"given"}'] == list_results(later)[-1:]


def test_continued_run_after_the_last_write() -> None:
    """Of calls of one response with the same path, a continued run has the result of the last one executed."""
    calls = [call("add", to="x", a="†y", b=0), call("add", to="x", a=2, b=0), call("add", to="y", a=3, b=0)]
    before = scripted(calls, [call("add", a="†x", b=0)]).run("Add.")
    after = scripted([call("add", a="†x", b=0)]).run("More.", messages=before.messages)

    assert ["3", "2", "3", "3", "3"] == list_results(after)


def as_text() -> Any:
    """Return a value without an annotation."""
    return "true"


def phone() -> str | None:
    """Return digits."""
    return "12"


def other_text() -> ToolResult:
    """Return another text for the model."""
    return ToolResult({"a": 1}, text="done")


def nothing() -> int | None:
    """Return no number."""
    return None


def price() -> Decimal:
    """Return an amount."""
    return Decimal("1.50")


def pair() -> tuple[int, str]:
    """Return a number and a text."""
    return 5, "5"


@pytest.mark.parametrize(
    ("function", "stored"),
    [(as_text, "true"), (phone, "12"), (other_text, "done"), (nothing, None), (price, "1.50"), (pair, [5, "5"])],
    ids=["any", "text or nothing", "other text", "number or nothing", "decimal", "array"],
)
def test_stored_values(function: Callable[[], Any], stored: Any) -> None:
    """A continued run has the same values as the first: the texts of results, parsed by the output schema."""
    found: list[Any] = []

    @tool
    def use(x: Any) -> None:
        found.append(x)

    box, using = Toolbox([function, use], references=True), [call("use", x="†p")]
    first = Runner(box, model=ScriptedModel([[call(function.__name__, to="p")], using, "Done."])).run("Go.")
    Runner(box, model=ScriptedModel([using, "Done."])).run("More.", messages=first.messages)

    assert [stored, stored] == found


def test_approval_of_a_text_of_digits() -> None:
    """An approval of a text of digits is for the value that the resumed call gets."""

    @tool(approve=True)
    def ask(x: Any) -> str:
        return repr(x)

    model = ScriptedModel([[call("phone", to="p"), call("ask", x="†p")], "Done."])
    runner = Runner(Toolbox([phone, ask], references=True), model=model, approve=_defer_ask)
    paused = runner.run("Go.")
    result = runner.resume(paused.state.to_json(), {paused.pending[0].call.id: True})

    assert ("stop", ["12", "'12'"]) == (result.finish_reason, list_results(result))


def test_truncated_result() -> None:
    """A run has the whole of a truncated result; one that continues from it does not."""
    turns = [call("note", to="x", text="a" * 300)], [call("note", to="y", text="†x")]
    first = scripted(*turns, max_result=100).run("Write.")
    second = scripted([call("note", text="†x")]).run("More.", messages=first.messages)

    assert ["a" * 300] * 2 == [done.result.value for done in first.calls]
    assert "there is nothing at 'x'. Available: none" in list_results(second)[-1]


def test_truncated_result_in_a_saved_state() -> None:
    """A state remembers which results were truncated."""
    first = scripted([call("note", to="x", text="a" * 300)], max_result=100).run("Write.")
    saved = RunState.from_json(first.state.to_json())
    second = scripted([call("note", text="†x")]).run("More.", messages=saved.messages)

    assert "there is nothing at 'x'" in list_results(second)[-1]


def test_result_that_quotes_a_truncated_one() -> None:
    """A result is not taken for a truncated one by its words."""
    quote = "[... The whole result has 9 characters; its middle is left out here. ...]"
    first = scripted([call("note", to="x", text=quote)]).run("Write.")
    second = scripted([call("note", text="†x")]).run("More.", messages=first.messages)

    assert quote == list_results(second)[-1]


def test_circles() -> None:
    """Calls that wait for each other are errors, and the run continues."""
    calls = [call("add", to="x", a="†y", b=1), call("add", to="y", a="†x", b=1), call("add", a=1, b=1)]
    result = scripted(calls).run("Add.")

    refused = "Invalid arguments: it refers, through other calls, to its own result. Remove a reference."
    assert [refused, refused, "2"] == list_results(result)
    assert "Done." == result.output


def test_a_call_that_failed() -> None:
    """A call does not get an older value if the call failed that should have stored a newer one."""
    earlier = [call("add", to="x", a=1, b=0)]
    result = scripted(earlier, [call("add", a="†x", b=1), call("fail", to="x", a=1)]).run("Add.")

    assert "Not run: it needs the result of fail at 'x', which failed: no 1" == list_results(result)[1]


def test_a_call_that_was_refused() -> None:
    """Nor does it if a limit refused the other call."""
    calls = [call("add", to="y", a=1, b=1), call("add", to="x", a=1, b=1), call("note", text="†x")]
    earlier, limits = [call("note", to="x", text="old")], Limits(max_calls_per_tool={"add": 1})
    result = scripted(earlier, calls, limits=limits).run("Add.")

    why = "Not run: add may be called 1 times in a run. Go on without it."
    assert ["2", why, f"Not run: it needs the result of add at 'x', which failed: {why}"] == list_results(result)[1:]


def test_limits_count_in_call_order() -> None:
    """A call over the limit is refused although another one waits for it, whose error says so."""
    calls = [call("note", text="†x"), call("add", to="x", a=1, b=1)]
    result = scripted(calls, limits=Limits(max_calls_per_turn=1)).run("Add.")

    why = "Not run: one answer may hold 1 calls. Send this one again later, if it is needed."
    assert [f"Not run: it needs the result of add at 'x', which failed: {why}", why] == list_results(result)


def test_call_that_waits_for_approval() -> None:
    """Calls that need the result of a deferred one wait with it; the others are executed."""
    calls = [
        call("add", to="sum", a="†x", b=1),
        call("ask", to="x", a="†one"),
        call("note", text="†sum"),
        call("add", to="one", a=0, b=1),
    ]
    paused = scripted([call("add", to="x", a=100, b=0)], calls).run("Add.")
    found = [message.text for message in paused.state.results]

    assert ("paused", ['{"a": 1}'], ["1"]) == (paused.finish_reason, [p.arguments for p in paused.pending], found)


@pytest.mark.parametrize("is_async", [False, True], ids=["resume", "aresume"])
@pytest.mark.parametrize(
    ("is_approved", "errors"), [(True, [False] * 4), (False, [True, True, True, False])], ids=["approved", "rejected"]
)
def test_resuming(is_approved: bool, errors: list[bool], is_async: bool) -> None:
    """A resumed run has the stored results; the waiting calls are executed, or fail with the deferred one."""
    calls = [
        call("add", to="sum", a="†x", b=1),
        call("ask", to="x", a="†one"),
        call("add", a="†sum", b=5),
        call("add", to="one", a=0, b=1),
    ]
    paused = scripted(calls).run("Add.")
    state, decisions = paused.state.to_json(), {paused.pending[0].call.id: is_approved}
    result = asyncio.run(scripted().aresume(state, decisions)) if is_async else scripted().resume(state, decisions)

    found = [message for message in result.messages if isinstance(message, ToolMessage)]
    assert errors == [message.is_error for message in found]
    assert not is_approved or ["2", "1", "7", "1"] == list_results(result)


LATE: Mapping[str, tuple[list[ToolCall], Any]] = {
    "one place": ([call("ask", to="x", a=1), call("add", to="x", a=1, b=1)], 2),
    "inside": ([call("ask", to="x.a", a=1), call("add", to="x", a=1, b=1)], 2),
    "around": ([call("ask", to="x", a=1), call("add", to="x.a", a=1, b=1)], {"a": 2}),
    "another instance": ([call("ask", to="x", a=1), call("add", to="x", of="one", a=1, b=1)], 1),
    "an earlier one": ([call("add", to="x", a=1, b=1), call("ask", to="x", a=1)], 1),
    "one that failed": ([call("ask", to="x", a=1), call("fail", to="x", a=1)], 1),
}


@pytest.mark.parametrize(("calls", "stored"), LATE.values(), ids=LATE)
def test_late_value(calls: Sequence[ToolCall], stored: Any) -> None:
    """The stored value is the same with and without a deferred approval, and in a continued run."""
    look = [call("read_shared")]
    paused = scripted(calls).run("Add.")
    decisions = {waiting.call.id: True for waiting in paused.pending}
    late = scripted(look).resume(paused.state, decisions)
    after = scripted(look).run("More.", messages=late.messages)
    at_once = Runner(TOOLS, model=ScriptedModel([calls, look, "Done."]), approve=lambda _: True).run("Add.")

    assert [stored] * 3 == [json.loads(list_results(result)[-1])["x"] for result in (late, after, at_once)]


def test_call_that_waits_for_a_late_value() -> None:
    """A call that waited with the one before gets the value of the last one."""
    calls = [call("ask", to="x", a=1), call("add", to="x", a=1, b=1), call("add", a="†x", b=0)]
    paused = scripted(calls).run("Add.")

    assert ["1", "2", "2"] == list_results(scripted().resume(paused.state, {paused.pending[0].call.id: True}))


def test_shared_when_resuming() -> None:
    """The shared values are passed again when a run is resumed."""
    paused = scripted([call("add", a="†days", b="†x"), call("ask", to="x", a=1)]).run("Add.", shared={"days": 2})
    result = scripted().resume(paused.state, {paused.pending[0].call.id: True}, shared={"days": 2})

    assert ["3", "1"] == list_results(result)


def test_no_early_start_of_a_reference() -> None:
    """Of the calls that may start early, those that refer to others do not."""
    turn: list[NamedCall] = [
        ("add", {"_outputPath": "x", "a": 1, "b": 1}),
        ("add", {"a": "†x", "b": 1}),
        ("later", {"a": 6}),
    ]
    with FakeServer([native(turn), reply.text("Done.")]) as server:
        runner = Runner(TOOLS, model="fake", base_url=server.base_url, early=True)
        stream = runner.stream("Add.")
        started = [event.call.id for event in stream if isinstance(event, ToolCallStarted)]

    assert ["2", "3", "6"] == list_results(stream.result)
    assert 3 == len(set(started)) == len(started)


def test_no_early_start_of_an_import() -> None:
    """Nor does a call that imports the result of another one of the response."""

    cities = iter(["Oslo", "Paris"])

    @tool(effect="read")
    def city() -> str:
        """Find the city."""
        return next(cities)

    @tool(effect="read", imports=["city"])
    def look(context: ToolContext) -> str:
        """Look at the city."""
        return str(context.shared["city"])

    box = Toolbox([city, look], references=True)
    find: NamedCall = ("city", {"_outputPath": "city"})
    with FakeServer([native([find]), native([find, ("look", {})]), reply.text("Done.")]) as server:
        stream = Runner(box, model="fake", base_url=server.base_url, early=True).stream("Go.")
        list(stream)

    assert ["Oslo", "Paris", "Paris"] == list_results(stream.result)


def test_steering_past_a_call() -> None:
    """Where calls are skipped because of a new message, no call waits for them."""

    @tool(effect="write")
    def steer() -> str:
        runner.steer("Stop.")
        return "steered"

    box = Toolbox([steer, note, add], references=True)
    calls = [call("steer"), call("note", to="x", text="a"), call("add", a="†x", b=1)]
    runner = Runner(box, model=ScriptedModel([calls, "Done."]))

    assert ["steered"] + ["Skipped due to queued user message."] * 2 == list_results(runner.run("Go."))


def test_cancelling() -> None:
    """A cancelled run has a result for each call, also for those that wait for others."""
    started = threading.Event()

    @tool
    def wait(context: ToolContext) -> str:
        started.set()
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
    started.wait(10)
    handle.cancel()
    result = handle.result(timeout=10)

    assert ("cancelled", 3) == (result.finish_reason, len(list_results(result)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("note", "Not run: the run's time is up."), ("same", "Timed out.")],
    ids=["apart", "together"],
)
def test_limits_of_time(name: str, expected: str) -> None:
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

    assert [expected, "Timed out. It had started, and its effects stay."] == list_results(result)


def test_without_references() -> None:
    """In a run of tools that refer to nothing, a mark is a character."""
    model = ScriptedModel([[call("note", to="x", text="†x")], "Done."])

    assert ["†x"] == list_results(Runner([note], model=model).run("Write."))


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
    found = [message.call_id for message in result.messages if isinstance(message, ToolMessage)]
    assert [each.id for each in made.calls] == found == [done.call.id for done in result.calls]


def _any_call(name: str, to: int, of: int) -> ToolCall:
    """Make a call that stores its result at one number, and refers to another."""
    known: dict[str, dict[str, Any]] = {"add": {"a": 1, "b": f"†n{of}"}, "note": {"text": f"†n{of}"}}
    return call(name, f"n{to}", "", **known.get(name, {"a": f"†n{of}"}))


def make_finder() -> Tool[..., Any]:
    """Declare a tool whose own schema says where its results are stored."""
    declared = schema.object("Find.", name=schema.string(), _outputPath={"const": "data.own"}, _output=schema.string())
    return Tool.from_schema("find", declared, lambda name: f"{name}!")


@pytest.mark.parametrize(
    "written",
    [{"name": "Rome"}, {"name": "Rome", "_outputPath": "data.own"}, {"name": "Rome", "_outputPath": "elsewhere"}],
    ids=["left out", "written", "another"],
)
def test_output_path_of_a_tool_in_a_run(written: Mapping[str, Any]) -> None:
    """A tool whose schema has a constant output path stores its results there, in a toolbox without references."""
    with FakeServer([native([("find", written), ("find", {"name": "†data.own"})]), reply.text("Done.")]) as server:
        result = Runner([make_finder()], model="m", base_url=server.base_url, api_key="k").run("Go")

    assert ["Rome!", "Rome!!"] == [call.result.text for call in result.calls]


def test_output_path_of_a_tool_at_a_value_of_the_application() -> None:
    """A constant output path does not lead to the application's values either."""
    with FakeServer([native([("find", {"name": "Rome"})]), reply.text("Done.")]) as server:
        runner = Runner([make_finder()], model="m", base_url=server.base_url, api_key="k")
        result = runner.run("Go", shared={"data": {"own": "Oslo"}})

    assert "is read-only" in (result.calls[0].result.error or "")
