"""Sub-agents: runners as tools of other runners, and what holds for every run that a tool starts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from tests.ways import arun, astream, run, start, stream
from toolkit import (
    ApprovalRequest,
    Decision,
    Image,
    Limits,
    Runner,
    RunResult,
    RunState,
    Session,
    Tool,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolResult,
    Usage,
    tool,
)
from toolkit.approvers import Console, ask_when, defer
from toolkit.errors import DefinitionError, FatalError, LimitError, ModelError
from toolkit.events import ApprovalNeeded, Event, SubAgentEvent, ToolCallStarted, event_to_dict
from toolkit.middleware import Next
from toolkit.models import ModelRequest, ModelResponse
from toolkit.testing import ModelReply, ScriptedModel, call

WAYS = pytest.mark.parametrize("go", [run, arun, stream, astream, start])
BOTH_WAYS = pytest.mark.parametrize("go", [run, arun])


class Shop:
    """Has a tool that deletes books, and one that only looks."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    @tool(effect="destructive")
    def delete_book(self, title: str) -> str:
        """Delete a book."""
        self.deleted.append(title)
        return f"deleted {title}"

    @tool(effect="read")
    def count_books(self) -> int:
        """Count the books."""
        return 7


DELETE = call("delete_book", title="Dune")


def clerk(*replies: ModelReply, shop: Shop | None = None, **options: Any) -> Runner:
    """A runner of a shop, for a model that answers so."""
    return Runner([shop or Shop()], model=ScriptedModel(replies), **options)


def boss(worker: Runner, *replies: ModelReply, **options: Any) -> Runner:
    """A runner whose only tool is another runner."""
    model = ScriptedModel(replies or [call("clerk", query="Do it."), "Done."])
    return Runner([worker.as_tool("clerk", "books")], model=model, **options)


def respond(text: str, *calls: ToolCall, tokens: int) -> ModelResponse:
    return ModelResponse(text=text, calls=calls, usage=Usage(tokens, 0, 1))


# -- what a sub-agent is


@WAYS
def test_answer(go: Callable[[Runner], RunResult]) -> None:
    """A sub-agent gets the task alone, works with tools of its own, and its answer is the result of the call."""
    worker = clerk(call("count_books"), "There are 7.", instructions="Be brief.")
    result = go(boss(worker, call("clerk", query="How many books?"), "Seven."))
    model: Any = worker.model

    assert ("Seven.", ["There are 7."]) == (result.output, [end.result.text for end in result.calls])
    assert ["Be brief.", "How many books?"] == [message.text for message in model.requests[0].messages]


@pytest.mark.parametrize("arg", ["self", "request", "parent"])
def test_any_parameter_name(arg: str) -> None:
    """The parameter may have any name."""
    subject = clerk("There are 7.").as_tool("clerk", "books", arg=arg)

    assert "There are 7." == Toolbox([subject]).call("clerk", {arg: "How many?"}).text


def test_schema() -> None:
    """The model sees one parameter for the task, and what the sub-agent is good at."""
    subject = clerk().as_tool("ask_clerk", "books and their prices", arg="task")

    assert ("ask_clerk", "Delegate to specialist sub-agent: books and their prices", ["task"]) == (
        subject.name,
        subject.description,
        [*subject.parameters["properties"]],
    )


def test_each_call_begins_anew() -> None:
    """A second call knows nothing of the first."""
    worker = clerk("One.", "Two.")
    calls = [call("clerk", query="First?"), call("clerk", query="Second?")]
    result = boss(worker, *calls, "Done.").run("go")
    model: Any = worker.model

    assert ["One.", "Two."] == [end.result.text for end in result.calls]
    assert [["First?"], ["Second?"]] == [[message.text for message in each.messages] for each in model.requests]


class Book(BaseModel):
    title: str


def test_output_type() -> None:
    """An answer of a type is sent as JSON, and is the call's value."""
    worker = Runner(model=ScriptedModel(['{"title": "Dune"}']))
    model = ScriptedModel([call("find_book", query="Which one?"), "Done."])
    result = Runner([worker.as_tool("find_book", "books", output_type=Book)], model=model).run("go").calls[0].result

    assert ('{"title":"Dune"}', Book(title="Dune")) == (result.text, result.value)


@pytest.mark.parametrize("kind", [None, Shop])
def test_wrong_output_type(kind: Any) -> None:
    """A type that no JSON can fill is refused when the tool is made, not told to the model at each call."""
    with pytest.raises(DefinitionError, match=r"output_type=.* is not a type that JSON can fill"):
        clerk().as_tool("clerk", "books", output_type=kind)


@BOTH_WAYS
def test_deps(go: Callable[..., RunResult]) -> None:
    """The tools of a sub-agent get the deps of the run above."""

    def who(context: ToolContext[str]) -> str:
        """Say who is asking."""
        return context.deps

    worker = Runner([who], model=ScriptedModel([call("who"), "Done."]))
    ends: list[Event] = []
    subject = boss(worker)
    with subject.stream("go", deps="Ann") as events:
        ends += events

    inner = [event.event for event in ends if isinstance(event, SubAgentEvent)]
    assert ["Ann"] == [getattr(event, "result").text for event in inner if type(event).__name__ == "ToolCallFinished"]
    assert "Done." == go(boss(Runner([who], model=ScriptedModel([call("who"), "Done."]))), deps="Ann").output


def test_without_a_run() -> None:
    """A toolbox calls a sub-agent too, sync and async."""
    box = Toolbox([clerk("One.", "Two.").as_tool("clerk", "books")])

    assert "One." == box.call("clerk", {"query": "go"}).text
    assert "Two." == asyncio.run(box.acall("clerk", {"query": "go"})).text


def test_sync_run_stays_on_its_thread() -> None:
    """A sub-agent of a sync run calls sync tools on the caller's thread, as the run itself does."""
    threads: list[int] = []

    def look() -> str:
        """Look."""
        threads.append(threading.get_ident())
        return "seen"

    boss(Runner([look], model=ScriptedModel([call("look"), "Done."]))).run("go")

    assert [threading.get_ident()] == threads


@tool(effect="write")
def write_note() -> None:
    """Write a note."""


@tool
def look() -> None:
    """Look."""


EFFECTS = [([], None), ([Shop().count_books], None), ([write_note], "write"), ([write_note, look], None)]


@pytest.mark.parametrize(("tools", "effect"), [*EFFECTS, ([Shop(), look], "destructive")])
def test_effect(tools: Any, effect: str | None) -> None:
    """The effect of a sub-agent is the worst label of its tools; unknown with unlabelled ones, and never `read`."""
    assert effect == Runner(tools, model=ScriptedModel([])).as_tool("clerk", "books").settings.effect


# -- events


@pytest.mark.parametrize("go", ["stream", "astream"])
def test_events(go: str) -> None:
    """Events of a sub-agent, and of one below it, arrive in the run above, with the call that they belong to."""
    middle = boss(clerk(call("count_books"), "7."), call("clerk", query="?"), "Seven.")
    model = ScriptedModel([call("middle", query="?"), "Done."])
    subject = Runner([middle.as_tool("middle", "everything")], model=model)

    async def collect() -> list[Event]:
        return [event async for event in subject.astream("go")]

    events = asyncio.run(collect()) if go == "astream" else [*subject.stream("go")]
    paths = []
    for event in events:
        path: list[str] = []
        while isinstance(event, SubAgentEvent):
            path, event = [*path, event.call.name], event.event  # noqa: PLW2901  down to the innermost
        if isinstance(event, ToolCallStarted):
            paths.append([*path, event.call.name])

    assert [["middle"], ["middle", "clerk"], ["middle", "clerk", "count_books"]] == paths


def test_event_as_json() -> None:
    """An event of a sub-agent is data that holds the inner event."""
    inner = ToolCallStarted(ToolCall(name="count_books", id="b"))
    data = event_to_dict(SubAgentEvent(ToolCall(name="clerk", id="a"), inner))

    assert ("subAgentEvent", "a", event_to_dict(inner)) == (data["type"], data["toolCallId"], data["event"])


# -- limits


@BOTH_WAYS
def test_usage(go: Callable[[Runner], RunResult]) -> None:
    """What a sub-agent uses counts in the usage of the runs above it."""
    worker = Runner(model=ScriptedModel([respond("Yes.", tokens=100)]))
    middle = boss(worker, respond("", call("clerk", query="?"), tokens=10), respond("Yes.", tokens=20))
    first = respond("", call("middle", query="?"), tokens=1)
    result = go(Runner([middle.as_tool("middle", "all")], model=ScriptedModel([first, respond("Yes.", tokens=2)])))

    assert Usage(133, 0, 5) == result.usage == result.state.usage


@BOTH_WAYS
def test_tokens_of_the_run_above(go: Callable[[Runner], RunResult]) -> None:
    """A sub-agent ends with an answer when the tokens of the run above are used up, and then so does that run."""
    again = [respond("", call("count_books"), tokens=40) for _ in range(9)]
    worker = clerk(*again[:3], respond("I have seen enough.", tokens=1), limits=Limits(max_turns=None))
    result = go(boss(worker, call("clerk", query="?"), "Done.", limits=Limits(max_tokens=100)))

    assert ("I have seen enough.", "Done.", "max_tokens") == (
        result.calls[0].result.text,
        result.output,
        result.finish_reason,
    )


def test_calls_of_the_run_above() -> None:
    """Calls of a sub-agent count against the limits of the run above; one that these refuse counts nowhere."""
    counts = list[dict[str, int]]()
    worker = clerk(
        [call("count_books"), call("count_books")],
        "I could not.",
        checkpoint=lambda state: counts.append({**state.calls_by_tool}),
    )
    result = boss(worker, limits=Limits(max_calls=2)).run("go")
    model: Any = worker.model

    assert ["7", "Not run: the run's 2 calls are used up. Answer with what you have."] == [
        message.text for message in model.requests[-1].messages if type(message).__name__ == "ToolMessage"
    ]
    assert {"count_books": 1} == {name: count for name, count in counts[-1].items() if count}
    assert "max_calls" == result.finish_reason


def test_last_answer_where_the_calls_of_the_run_above_are_used_up() -> None:
    """A sub-agent that has no call left is asked for its last answer, without tools."""
    worker = clerk(call("count_books"), "Seven.", limits=Limits(max_turns=None))
    result = boss(worker, limits=Limits(max_calls=2)).run("go")
    model: Any = worker.model

    assert [2, 0] == [len(request.tools) for request in model.requests]
    assert "Seven." == result.calls[0].result.text


def test_raised_limit_names_its_value() -> None:
    """A sub-agent whose limits raise fails with the limit of the run above that was reached."""
    worker = clerk(respond("", call("count_books"), tokens=100), limits=Limits(on_limit="raise"))
    result = boss(worker, limits=Limits(max_tokens=50)).run("go")

    assert str(result.calls[0].result.text).startswith("Sub-agent execution failed: The run has reached max_tokens=50.")
    assert isinstance(getattr(result.calls[0].exception, "__cause__", None), LimitError)


@WAYS
def test_cancelled_with_the_run_above(go: Callable[[Runner], RunResult]) -> None:
    """A run that is cancelled cancels its sub-agents, whatever they wait for."""
    runner: Runner
    ended: list[str] = []

    async def wait() -> None:
        """Wait."""
        runner.cancel()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("waiter")

    runner = boss(Runner([wait], model=ScriptedModel([call("wait"), "never"])))
    result = go(runner)

    assert ("cancelled", ["waiter"]) == (result.finish_reason, ended)
    assert ["Cancelled: it had started, and its effects stay."] == [end.result.text for end in result.calls]


# -- nesting


def nested(depth: int, max_depth: int) -> Tool[..., Any]:
    """A sub-agent with sub-agents inside each other."""
    runner = clerk("Deep.")
    for number in range(depth - 1):
        name = f"agent_{number}"
        model = ScriptedModel([call(name, query="?"), "Up."])
        runner = Runner([runner.as_tool(name, "x", max_depth=max_depth)], model=model)
    return runner.as_tool("outer", "x", max_depth=max_depth)


@pytest.mark.parametrize(("depth", "max_depth"), [(1, 1), (2, 2), (3, 3)])
def test_depth(depth: int, max_depth: int) -> None:
    """As many sub-agents may be inside each other as `max_depth` says."""
    subject = Runner([nested(depth, max_depth)], model=ScriptedModel([call("outer", query="?"), "Done."]))

    assert [False] == [end.result.is_error for end in subject.run("go").calls]


def test_too_deep_when_made() -> None:
    """A runner with sub-agents that are nested too deeply is refused when it is made."""
    with pytest.raises(DefinitionError, match=r"too deeply: outer -> agent_1 -> agent_0. The last one .*max_depth=2"):
        Runner([nested(3, 2)], model=ScriptedModel([]))


def test_too_deep_when_run() -> None:
    """A sub-agent that joins a toolbox later is checked when a run starts."""
    inner = Toolbox([])
    worker = Runner(inner, model=ScriptedModel([]))
    subject = boss(worker)
    inner.add(nested(2, 2))

    with pytest.raises(DefinitionError, match="nested too deeply: clerk -> outer -> agent_0"):
        subject.run("go")


def test_circle() -> None:
    """Sub-agents that call each other are refused."""
    box = Toolbox([])
    worker = Runner(box, model=ScriptedModel([]))
    subject = boss(worker)
    box.add(subject.as_tool("boss", "everything"))

    with pytest.raises(DefinitionError, match="in a circle: clerk -> boss -> clerk"):
        subject.run("go")


def test_depth_at_the_call() -> None:
    """A sub-agent that a tool reaches by a run of its own is refused beyond its depth, in a text for the model."""
    inner = nested(1, 1)
    texts: list[str] = []

    def detour() -> str:
        """Ask by a run."""
        result = Runner([inner], model=ScriptedModel([call("outer", query="?"), "Up."])).run("go")
        texts.extend(str(end.result.text) for end in result.calls)
        return result.output

    boss_model = ScriptedModel([call("detour"), "Done."])
    Runner([detour], model=boss_model).run("go")

    assert ["Sub-agent delegation refused: maximum nesting depth (1) reached."] == texts


def test_runs_without_end() -> None:
    """A tool that starts a run with itself in it ends in an error, not in a crash."""
    errors: list[BaseException | None] = []

    def again() -> str:
        """Do it again."""
        result = Runner([again], model=ScriptedModel([call("again"), "Up."])).run("go")
        errors.append(result.calls[0].exception)
        return str(result.calls[0].result.text)

    result = Runner([again], model=ScriptedModel([call("again"), "Done."])).run("go")

    assert str(result.calls[0].result.text).startswith("again failed: RunError.")
    assert "Runs are nested 10 deep" in str(errors[0])


# -- rights


@BOTH_WAYS
def test_approver_of_the_run_above(go: Callable[[Runner], RunResult]) -> None:
    """The approver of a run is asked about the calls of its sub-agents, too."""
    shop, asked = Shop(), list[str]()

    def approve(request: ApprovalRequest) -> bool:
        asked.append(str(request))
        return request.name != "delete_book"

    go(boss(clerk(DELETE, "Done.", shop=shop), approve=approve))

    assert (['clerk({"query": "Do it."})', 'delete_book({"title": "Dune"})'], []) == (asked, shop.deleted)


@pytest.mark.parametrize(("options", "agent"), [({}, "clerk"), ({"name": "Ann"}, "Ann")])
def test_agent_that_asks(options: Any, agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever decides reads which agent asks, at a terminal and in a saved state: by its name, or that of its tool."""
    person = ask_when(Console(read=lambda _: "y"), names=["delete_book"])
    assert "Done." == boss(clerk(DELETE, "Done.", **options), approve=person).run("go").output

    assert f"The model of {agent} wants to call delete_book" in capsys.readouterr().out

    paused = boss(clerk(DELETE, "Done.", **options), approve=ask_when(defer, names=["delete_book"])).run("go")
    assert paused.state
    assert [agent] == [waiting.agent for waiting in RunState.from_json(paused.state.to_json()).pending]
    assert [agent] == [event_to_dict(ApprovalNeeded(waiting))["agent"] for waiting in paused.pending]
    assert [f'delete_book({{"title": "Dune"}}) by {agent}'] == list(map(str, paused.pending))


@pytest.mark.parametrize(("own", "above", "deleted"), [(True, True, 1), (True, False, 0), (False, True, 0)])
def test_both_approve(own: bool, above: bool, deleted: int) -> None:
    """A call of a sub-agent with an approver of its own needs the approval of both."""
    shop = Shop()
    worker = clerk(DELETE, "Done.", shop=shop, approve=lambda _: own)
    boss(worker, approve=lambda request: request.name == "clerk" or above).run("go")

    assert deleted == len(shop.deleted)


def test_changes_of_both_approvers() -> None:
    """The second approver sees what the first one has changed, and what both approved runs."""
    shop, seen = Shop(), list[str]()

    def change(_: ApprovalRequest) -> Decision:
        return Decision.modify({"title": "Emma"})

    def watch(request: ApprovalRequest) -> bool:
        seen.append(request.arguments_json)
        return True

    boss(clerk(DELETE, "Done.", shop=shop, approve=change), approve=watch).run("go")

    assert (['{"query": "Do it."}', '{"title": "Emma"}'], ["Emma"]) == (seen, shop.deleted)


@pytest.mark.parametrize(
    ("own", "deleted"),
    [(True, ["Emma"]), (False, []), (Decision.modify({"title": "Dune"}), []), (Decision.defer(), [])],
    ids=["agrees", "rejects", "changes it back", "defers"],
)
def test_change_of_the_second_approver(own: bool | Decision, deleted: list[str]) -> None:
    """What the second approver has changed runs only if the first one approves that, too."""
    shop = Shop()

    def approve(request: ApprovalRequest) -> bool | Decision:
        return request.arguments["title"] == "Dune" or own

    def change(request: ApprovalRequest) -> bool | Decision:
        return request.name == "clerk" or Decision.modify({"title": "Emma"})

    boss(clerk(DELETE, "Done.", shop=shop, approve=approve), approve=change).run("go")

    assert deleted == shop.deleted


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("above", [True, False])
def test_both_authorize(own: bool, above: bool) -> None:
    """A call of a sub-agent runs if its own authorizer and that of the run above allow it."""
    shop = Shop()
    worker = clerk(DELETE, "Done.", shop=shop, authorize=lambda *_: own)
    boss(worker, authorize=lambda made, *_: made.name == "clerk" or above, approve=lambda _: True).run("go")

    assert (own and above) == bool(shop.deleted)


def test_middleware_of_the_run_above() -> None:
    """The middleware of a run is around the calls of its sub-agents, too."""
    seen: list[str] = []

    async def watch(made: ToolCall, call_next: Next) -> ToolResult:
        seen.append(made.name)
        return await call_next(made)

    boss(clerk(call("count_books"), "7."), middleware=[watch]).run("go")

    assert ["clerk", "count_books"] == seen


@dataclass
class Watch:
    """A middleware that is equal to others of its class, and not hashable."""

    seen: list[str] = field(compare=False)

    async def __call__(self, made: ToolCall, call_next: Next) -> ToolResult:
        self.seen.append(made.name)
        return await call_next(made)


def test_equal_middleware() -> None:
    """Every middleware of the runs above is around a call, even those that are equal to each other."""
    seen: list[str] = []
    middle = boss(clerk(call("count_books"), "7."), middleware=[Watch(seen)])
    top = ScriptedModel([call("middle", query="?"), "7."])
    Runner([middle.as_tool("middle", "all")], model=top, middleware=[Watch(seen)]).run("go")

    assert ["middle", "clerk", "clerk", "count_books", "count_books"] == seen


def test_shared_middleware() -> None:
    """A middleware that a run and one below share runs once for each call."""
    seen: list[str] = []
    shared = Watch(seen)
    middle = boss(clerk(call("count_books"), "7."), middleware=[shared])
    top = ScriptedModel([call("middle", query="?"), "7."])
    Runner([middle.as_tool("middle", "all")], model=top, middleware=[shared]).run("go")

    assert ["middle", "clerk", "count_books"] == seen


def test_approver_that_stops() -> None:
    """An approver that stops the run of a sub-agent stops the run above."""
    shop = Shop()
    worker = clerk(DELETE, "Done.", shop=shop)
    result = boss(
        worker, approve=lambda request: Decision.stop() if request.name == "delete_book" else Decision.approve()
    ).run("go")

    assert ("stopped", []) == (result.finish_reason, shop.deleted)


def test_gates_of_a_run_that_a_tool_starts() -> None:
    """The gates of a run bind every run that its tools start."""
    shop = Shop()

    def detour() -> str:
        """Delete by a run."""
        return clerk(DELETE, "Deleted.", shop=shop).run("go").output

    subject = Runner(
        [detour], model=ScriptedModel([call("detour"), "Done."]), authorize=lambda made, *_: made.name != "delete_book"
    )
    subject.run("go")

    assert [] == shop.deleted


# -- failures


@WAYS
def test_failure(go: Callable[[Runner], RunResult]) -> None:
    """A sub-agent that fails is an error for the model above, which continues, and reads no address."""

    def fail(_: ModelRequest) -> str:
        raise ModelError("overloaded (m at http://host:80)")

    result = go(boss(Runner(model=ScriptedModel(fail))))
    failed = result.calls[0].result

    assert "Done." == result.output
    assert "Sub-agent execution failed: its model did not respond." == failed.text
    assert "host" in str(getattr(failed.exception, "__cause__", ""))


@pytest.mark.parametrize("limits", [Limits(max_turns=1, on_limit="stop"), None])
def test_no_answer(limits: Limits | None) -> None:
    """A sub-agent that ends without an answer has failed."""
    replies = [call("count_books"), "never"] if limits else ["", ""]
    result = boss(clerk(*replies, limits=limits or Limits())).run("go").calls[0].result

    assert result.is_error
    assert str(result.text).startswith("Sub-agent execution failed: it ended without an answer (")


def test_missing_deps() -> None:
    """A tool of a sub-agent that needs deps is found before the first request."""

    def who(context: ToolContext[str]) -> str:
        """Say who is asking."""
        return context.deps

    model = ScriptedModel([])
    with pytest.raises(TypeError, match=r"takes a ToolContext\[str\], and there are no deps: pass deps= to the run"):
        Runner([Runner([who], model=model).as_tool("clerk", "books")], model=model).run("go")
    assert [] == model.requests


@BOTH_WAYS
def test_timeout_of_the_delegation(go: Callable[[Runner], RunResult]) -> None:
    """A delegation that is out of time cancels the sub-agent: nothing begins after that."""
    ran, ended = list[str](), threading.Event()

    def first() -> str:
        """Wait for longer than the delegation may take."""
        ended.wait(0.3)
        return "late"

    def second() -> str:
        """Begin too late."""
        ran.append("second")
        return "done"

    worker = Runner([first, second], model=ScriptedModel([call("first"), call("second"), "Done."]))
    timed = tool(worker.as_tool("clerk", "books"), timeout=0.1)
    result = go(Runner([timed], model=ScriptedModel([call("clerk", query="?"), "Done."])))
    ended.set()
    time.sleep(0.1)

    assert ("timed_out", []) == (result.calls[0].result.kind, ran)


def test_fatal_error() -> None:
    """A FatalError of a tool ends the runs above as well."""

    def explode() -> None:
        """Explode."""
        raise FatalError("the power is gone")

    worker = Runner([explode], model=ScriptedModel([call("explode")]))
    with pytest.raises(FatalError, match="the power is gone"):
        boss(worker).run("go")


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("researcher", "subagent_researcher"),
        (" Math-Expert (v2)! ", "subagent_Math_Expert_v2"),
        ("Übersetzer", "subagent_Ubersetzer"),
    ],
)
def test_named_runner(name: str, made: str) -> None:
    """A runner that has a name is a tool wherever tools are given, and its name makes the tool's."""
    worker = Runner(model=ScriptedModel(["There are 7."]), name=name, description="books and their prices")
    model = ScriptedModel([call(made, query="How many books?"), "Seven."])
    result = Runner([look, worker], model=model).run("go")

    assert ("Seven.", "There are 7.") == (result.output, result.calls[0].result.text)
    assert "Delegate to specialist sub-agent: books and their prices" == Toolbox([worker])[made].description
    assert f"<Runner {name!r} of " in repr(worker)


def test_name_without_a_letter() -> None:
    """A name that leaves nothing for the tool's is refused; `as_tool` may give the tool another."""
    worker = Runner(model=ScriptedModel([]), name="!!!")

    with pytest.raises(DefinitionError, match=r"name='!!!'\) has no letter or digit"):
        Runner([worker])
    assert "ask" == worker.as_tool("ask").name


def test_name_alone() -> None:
    """By default a runner is described by its name; as_tool() replaces what it is given."""
    worker = Runner(model=ScriptedModel([]), name="books")

    assert ("subagent_books", "Delegate to specialist sub-agent: books") == (
        worker.as_tool().name,
        worker.as_tool().description,
    )
    assert ("clerk", "Delegate to specialist sub-agent: prices") == (
        worker.as_tool("clerk").name,
        worker.as_tool(description="prices").description,
    )


def test_named_circle() -> None:
    """Named runners that call each other are refused when the second one is made a tool."""
    first = Runner(model=ScriptedModel([]), name="first")
    second = Runner([first], model=ScriptedModel([]), name="second")
    first.toolbox.add(second)

    with pytest.raises(DefinitionError, match="in a circle: subagent_second -> subagent_first -> subagent_second"):
        first.run("go")


def test_runner_in_a_toolbox() -> None:
    """A runner without a name that is put among tools is refused, with what to write; so is an agent of others."""
    with pytest.raises(DefinitionError, match=r"needs a name and a description .* write \.as_tool\(name=\.\.\., desc"):
        Toolbox([clerk()])
    with pytest.raises(DefinitionError, match=r"An agent becomes one by \.as_tool\(name, description\)"):
        Toolbox([SimpleNamespace(as_tool=str)])
    with pytest.raises(DefinitionError, match=r"of some other libraries are converted by toolkit\.adapters"):
        Toolbox([SimpleNamespace(as_tool=str, arun=str)])  # as tools of LangChain have


@pytest.mark.parametrize(("name", "error"), [(5, TypeError), ("", ValueError)])
def test_wrong_name(name: Any, error: type[Exception]) -> None:
    """A name is a text that is not empty."""
    with pytest.raises(error, match=r"name=.* is not text of at least one character"):
        Runner(model=ScriptedModel([]), name=name)


def test_options_of_the_tool() -> None:
    """A sub-agent takes the options of tools: its answer may be that of the whole run."""
    direct = tool(clerk("There are 7.").as_tool("clerk", "books"), return_direct=True)

    assert "There are 7." == Runner([direct], model=ScriptedModel([call("clerk", query="?")])).run("go").output


def desk(worker: Runner, *replies: ModelReply, **options: Any) -> Runner:
    """A runner that hands conversations over to another one."""
    tools = [worker.as_tool("clerk", "books", handoff=True), look]
    return Runner(tools, model=ScriptedModel(replies), **options)


def list_texts(runner: Runner, request: int) -> list[str]:
    """Texts of a request that the runner's model got."""
    model: Any = runner.model
    return [message.text for message in model.requests[request].messages]


@BOTH_WAYS
def test_handoff(go: Callable[..., RunResult]) -> None:
    """The answer is the run's; the user's next message goes to the sub-agent, which remembers its own answers."""
    worker = clerk("Which shelf?", call("count_books"), "There are 7.", instructions="Be brief.")
    outer, session = desk(worker, call("clerk", query="How many?")), Session()
    first = go(outer, session=session)
    session = Session.from_json(session.to_json())
    second = go(outer, session=session)

    assert ["Which shelf?", "There are 7."] == [first.output, second.output]
    assert ["Be brief.", "How many?", "Which shelf?", "go"] == list_texts(worker, 1)
    assert (2, "stop") == (second.usage.requests, second.finish_reason)  # none of them is the outer model's
    assert ["clerk"] == [end.call.name for end in second.calls]


def test_two_handoffs_of_one_turn() -> None:
    """Of several in one turn the first one gives the answer, and has the conversation from then on."""
    first, second = (Runner(model=ScriptedModel([f"{name} 1", f"{name} 2"])) for name in "ab")
    tools = [first.as_tool("a", "First.", handoff=True), second.as_tool("b", "Second.", handoff=True)]
    outer = Runner(tools, model=ScriptedModel([[call("a", query="x"), call("b", query="y")]]))
    session = Session()

    assert ["a 1", "a 2"] == [outer.run(text, session=session).output for text in ("Go.", "And now?")]


def test_answers_of_a_tool_that_do_not_fit() -> None:
    """A direct answer that is not of the output type is sent back once; then the model's own answer counts."""
    direct = tool(look, name="direct", return_direct=True)
    model = ScriptedModel([call("direct"), '{"title": "Dune"}'])

    assert Book(title="Dune") == Runner([direct], model=model).run("Go.", output_type=Book).output


def test_events_of_a_handoff() -> None:
    """A message that goes to the sub-agent is a turn of the run, with one call, for which no model was asked."""
    outer, session = desk(clerk("Which shelf?", "There are 7."), call("clerk", query="How many?")), Session()
    outer.run("Books?", session=session)
    with outer.stream("The upper one.", session=session) as events:
        names = [type(event).__name__ for event in events if not isinstance(event, SubAgentEvent)]

    first = ["RunStarted", "TurnStarted", "TurnFinished", "ToolCallStarted", "ToolCallFinished", "ResultsAdded"]
    assert [*first, "RunFinished"] == names
    assert () == events.result.responses


def test_handoff_by_messages() -> None:
    """A history in OpenAI's form hands a conversation on as a session does."""
    worker = clerk("There are 7.")
    result = desk(worker).run(
        messages=[
            {"role": "user", "content": "How many books?"},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "a",
                        "type": "function",
                        "function": {"name": "clerk", "arguments": '{"query": "How many?"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "Which shelf?"},
            {"role": "user", "content": "The upper one."},
        ]
    )

    assert "There are 7." == result.output
    assert ["How many?", "Which shelf?", "The upper one."] == list_texts(worker, 0)


def test_hand_back() -> None:
    """A sub-agent gives the conversation back with a reason, which the outer model reads; it answers from then on."""
    worker = clerk("There are 7.", call("hand_back", reason="weather"))
    outer, session = desk(worker, call("clerk", query="How many?"), "Sunny.", "Bye."), Session()
    outputs = [outer.run(text, session=session).output for text in ("Books?", "Weather?", "Thanks.")]

    assert ["There are 7.", "Sunny.", "Bye."] == outputs
    assert "The sub-agent gave the conversation back: weather" == list_texts(outer, 1)[-1]


def test_handoff_with_arguments_that_are_encoded_twice() -> None:
    """A sub-agent that is called again in the same run remembers a task that was repaired before it ran."""
    worker = clerk("Which shelf?", "There are 7.")
    twice = ToolCall(name="clerk", arguments=r'"{\"query\": \"How many?\"}"')
    with desk(worker, [twice], [twice]).stream("Books?") as events:
        events.follow_up("The upper one.")
        list(events)

    assert "There are 7." == events.result.output
    assert ["How many?", "Which shelf?", "How many?"] == list_texts(worker, 1)


def test_failed_handoff() -> None:
    """A sub-agent that fails does not keep the conversation."""
    worker = clerk("Which shelf?", ValueError("no"))
    outer, session = desk(worker, call("clerk", query="How many?"), "I do not know."), Session()
    outer.run("Books?", session=session)

    assert "I do not know." == outer.run("The upper one.", session=session).output


@pytest.mark.parametrize("options", [{"allowed_tools": ["look"]}, {"prompt": ["Look.", Image(b"\x89PNG")]}])
def test_no_handoff(options: dict[str, Any]) -> None:
    """The outer model answers where the run may not call the sub-agent, and what is more than text."""
    worker = clerk("Which shelf?")
    outer, session = desk(worker, call("clerk", query="How many?"), "I do not know."), Session()
    outer.run("Books?", session=session)

    given: dict[str, Any] = {"prompt": "The upper one.", "session": session, **options}

    assert "I do not know." == outer.run(**given).output


def test_gates_of_a_handoff() -> None:
    """A message that goes to the sub-agent is a call, which passes the gates and counts in the limits."""
    worker, session = clerk("Which shelf?", "There are 7."), Session()
    asked: list[Any] = []
    part = tool(worker.as_tool("clerk", "books", handoff=True), approve=True)
    model = ScriptedModel([call("clerk", query="How many?"), "No."])

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.arguments)
        return len(asked) == 1

    outer = Runner([part], model=model, approve=approve)
    outputs = [outer.run(text, session=session).output for text in ("Books?", "The upper one.")]

    assert ["Which shelf?", "No."] == outputs
    assert [{"query": "How many?"}, {"query": "The upper one."}] == asked


@pytest.mark.parametrize(
    ("tools", "options", "why"),
    [
        ([], {"output_type": int}, "leave out output_type="),
        ([tool(write_note, name="hand_back")], {}, "and there is one: rename it"),
    ],
)
def test_wrong_handoff(tools: Any, options: dict[str, Any], why: str) -> None:
    """A handoff has answers of text, and a tool `hand_back` of its own."""
    with pytest.raises(DefinitionError, match=why):
        Runner(tools, model=ScriptedModel([])).as_tool("clerk", "books", handoff=True, **options)


@pytest.mark.parametrize("arg", ["context", "class", "_task", "the task", ""])
def test_parameter_name(arg: str) -> None:
    """A name that no parameter can have is refused."""
    with pytest.raises(DefinitionError, match="clerk: arg=.* cannot name a parameter"):
        clerk().as_tool("clerk", "books", arg=arg)


@pytest.mark.parametrize("max_depth", [0, -1, 1.5, True, "2"])
def test_max_depth(max_depth: Any) -> None:
    """A depth that allows no sub-agent is refused."""
    with pytest.raises(ValueError, match="max_depth=.* is not a whole number of at least 1"):
        clerk().as_tool("clerk", "books", max_depth=max_depth)
