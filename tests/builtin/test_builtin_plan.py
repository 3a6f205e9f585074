"""`execute_plan`: many calls in one, each of which passes the gates that it would pass alone."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from toolkit import (
    ApprovalRequest,
    Decision,
    Deny,
    FatalError,
    Image,
    Limits,
    MemoryLedger,
    Runner,
    RunState,
    Tool,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolkit.approvers import Approver, allow, approve_all, ask_when, defer
from toolkit.builtin import ask_user_tool, plan_tool
from toolkit.middleware import Next
from toolkit.testing import ModelReply, ScriptedModel, call

UNANSWERED = (
    "Tool approval could not be completed because no approval handler is configured; "
    "continuing without running the tool."
)
DENIED = "Tool execution was denied by authorization policy."
REJECTED = "Tool execution was rejected by the user."
NEEDS_APPROVAL = "this call needs approval, and a plan cannot wait for that. Call this tool by itself."
PIXEL = Image(b"\x89PNG")


class Books:
    """A catalogue that records its calls."""

    def __init__(self) -> None:
        self.done: list[str] = []

    @tool(effect="read")
    def find(self, title: str) -> str:
        """Find a book."""
        return f"{title}: A3"

    @tool(effect="write")
    async def lend(self, title: str) -> str:
        """Lend a book."""
        self.done.append(f"lend {title}")
        return "lent"

    @tool(effect="destructive", approve=True)
    def burn(self, title: str) -> str:
        """Burn a book."""
        self.done.append(f"burn {title}")
        return "burnt"


@pytest.fixture
def books() -> Books:
    """A catalogue to which nothing was done yet."""
    return Books()


def step(name: str, /, **args: Any) -> dict[str, Any]:
    """One step of a plan."""
    return {"tool": name, "args": args}


def run_plan(subject: Tool[..., Any], *steps: dict[str, Any], **gates: Any) -> Any:
    """Run a plan with some gates; return its value, or the text of its error."""
    runner = Runner([subject], model=ScriptedModel([call("execute_plan", steps=steps), "."]), **gates)
    result = runner.run("Go.").calls[0].result
    return result.text if result.is_error else json.loads(result.text)


def outcomes(expected: Any) -> list[Any]:
    """The result of each step, or its error."""
    return [entry.get("result", entry.get("error")) for entry in expected]


def plan_of(books: Books) -> Tool[..., Any]:
    """A plan tool for a catalogue."""
    return plan_tool(Toolbox.from_object(books))


def for_steps(approver: Approver) -> Approver:
    """An approver that is asked about the steps alone."""
    return lambda request: True if request.tool.name == "execute_plan" else approver(request)


def test_results(books: Books) -> None:
    """Each step has a result or an error, in the order of the steps."""
    result = run_plan(
        plan_of(books), step("find", title="Emma"), step("find"), step("lend", title="Emma"), step("sell")
    )

    assert {"step": 0, "tool": "find", "status": "ok", "result": "Emma: A3"} == result[0]
    assert {"step": 2, "tool": "lend", "status": "ok", "result": "lent"} == result[2]
    assert ["error", "error"] == [result[1]["status"], result[3]["status"]]
    assert "Invalid arguments: title: missing" == result[1]["error"][:33]
    assert "unknown tool: 'sell'" == result[3]["error"][:20]


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([step("execute_plan", steps=[])], "execute_plan cannot be called from within execute_plan"),
        (
            [step("lend", title="Emma"), step("ask_user", question="?")],
            "ask_user cannot be called from within execute_plan",
        ),
        ([], "Invalid arguments: steps: List should have at least 1 item"),
        ([step("lend", title="Emma")] * 51, "Invalid arguments: steps: List should have at most 50 items"),
        ([{"tool": "lend"}], "Invalid arguments: steps[0].args: missing"),
        ([{"tool": "lend", "args": [1]}], "Invalid arguments: steps[0].args: "),
    ],
    ids=["plan", "question", "empty", "many", "no arguments", "list"],
)
def test_refused(books: Books, steps: list[Any], text: str) -> None:
    """An invalid plan is refused before its first step."""
    box = Toolbox([*Toolbox.from_object(books), ask_user_tool(lambda _: "yes")])
    box.add(plan_tool(box))

    assert text == str(run_plan(plan_tool(box), *steps))[: len(text)]
    assert [] == books.done


def test_tools_that_are_not_allowed(books: Books) -> None:
    """A step cannot call a tool of the run that `allowed_tools` leave out."""
    box = Toolbox([books])
    model = ScriptedModel([call("execute_plan", steps=[step("lend", title="Emma"), step("find", title="Emma")]), "."])
    result = (
        Runner([*box, plan_tool(box)], model=model, allowed_tools=["execute_plan", "find"]).run("Go.").calls[0].result
    )

    assert ["error", "ok"] == [entry["status"] for entry in json.loads(result.text)]
    assert [] == books.done


def test_tools_that_only_the_plan_has(books: Books) -> None:
    """A list of allowed tools cannot name them: they are allowed with the plan, and refused with it."""
    steps = [call("execute_plan", steps=[step("find", title="Emma")])]
    tools = [plan_tool([books]), tool(lambda: "here", name="echo")]
    results = [
        Runner(tools, model=ScriptedModel([steps, "."]), allowed_tools=[name]).run("Go.").calls[0].result
        for name in ("execute_plan", "echo")
    ]

    assert [None, "not_found"] == [result.kind for result in results]
    assert "ok" == json.loads(results[0].text)[0]["status"]


def test_question_that_is_bound() -> None:
    """A tool that asks a user is refused where it is bound to another one, too."""

    @tool
    def check(question: str) -> Any:
        """Check."""

    box = Toolbox([check])
    box.bind("check", ask_user_tool(lambda _: "yes"))

    assert "check cannot be called from within execute_plan" == run_plan(plan_tool(box), step("check", question="?"))


def test_refused_by_nature() -> None:
    """A tool that plans or asks is refused under any name; a tool of the user's own may have its name."""
    asking = ask_user_tool(lambda _: "yes")
    barred = Toolbox([asking, tool(asking, name="ask"), plan_tool([asking])]).prefixed("my_")

    def ask_user() -> str:
        """Ask without a handler."""
        return "."

    result = [run_plan(plan_tool([ask_user, *barred]), step(name)) for name in ("ask_user", *barred.names)]

    assert ["."] == outcomes(result[0])
    assert [f"{name} cannot be called from within execute_plan" for name in barred.names] == result[1:]


@pytest.mark.parametrize(
    ("limits", "lent", "text"),
    [
        (Limits(max_calls_per_tool={"lend": 1}), 1, "Not run: lend may be called 1 times in a run. Go on without it."),
        (Limits(max_calls=3), 2, "Not run: the run's 3 calls are used up. Answer with what you have."),
        (Limits(max_calls_per_turn=2), 2, "Not run: one answer may hold 2 calls."),
    ],
    ids=["tool", "all", "turn"],
)
def test_limits(books: Books, limits: Limits, lent: int, text: str) -> None:
    """Steps count for the limits of the run; those over them are refused, and the others run."""
    steps = [step("lend", title=str(number)) for number in range(4)]
    plan = call("execute_plan", steps=steps)
    result = Runner([plan_of(books), books.lend], model=ScriptedModel([plan, "."]), limits=limits).run("Go.")
    results = outcomes(json.loads(result.calls[0].result.text))

    assert [f"lend {number}" for number in range(lent)] == books.done
    assert [text] * (4 - lent) == [outcome[: len(text)] for outcome in results[lent:]]


def test_limits_of_two_plans(books: Books) -> None:
    """Plans that run at the same time share one limit."""
    plans = [call("execute_plan", steps=[step("find", title=str(number)) for number in range(50)])] * 2
    tools, limits = [plan_tool([books.find]), books.find], Limits(max_calls_per_tool={"find": 75})
    result = Runner(tools, model=ScriptedModel([plans, "."]), limits=limits).run("Go.")
    entries = [entry for subject in result.calls for entry in json.loads(subject.result.text)]

    assert 75 == sum(entry["status"] == "ok" for entry in entries)


def test_limits_of_later_turns(books: Books) -> None:
    """Steps count towards the run's limits, for later turns and for a resumed run."""
    plan = call("execute_plan", steps=[step("lend", title="Emma")])
    script: list[ModelReply] = [plan, call("burn", title="Emma"), call("lend", title="Dune"), "."]
    tools, limits = [plan_of(books), *Toolbox.from_object(books)], Limits(max_calls_per_tool={"lend": 1})
    gate = for_steps(allow("lend", otherwise=defer))
    paused = Runner(tools, model=ScriptedModel(script[:2]), approve=gate, limits=limits).run("Go.")
    state = RunState.from_json(paused.state.to_json())
    decisions = {waiting.call.id: False for waiting in paused.pending}
    Runner(tools, model=ScriptedModel(script[2:]), approve=gate, limits=limits).resume(state, decisions)

    assert {"execute_plan": 1, "lend": 1, "burn": 1} == paused.state.calls_by_tool
    assert ["lend Emma"] == books.done


def test_reads_at_the_same_time() -> None:
    """50 steps that only read are at work at the same time."""
    together = threading.Barrier(50)

    @tool(effect="read")
    def meet(number: int) -> int:
        """Wait for all the others."""
        together.wait(20)
        return number

    result = run_plan(plan_tool([meet]), *(step("meet", number=number) for number in range(50)))

    assert [str(number) for number in range(50)] == outcomes(result)


def test_writes_in_order(books: Books) -> None:
    """Steps that change something run alone, in the order of the plan."""
    run_plan(plan_of(books), *(step("lend", title=str(number)) for number in range(20)))

    assert [f"lend {number}" for number in range(20)] == books.done


@pytest.mark.parametrize(
    ("approve", "outcome"),
    [
        (None, UNANSWERED),
        (lambda _: False, REJECTED),
        (lambda _: Decision.reject("Keep it."), f"{REJECTED} Reason: Keep it."),
        (lambda _: 1 / 0, "Tool approval could not be completed; the tool was not run."),
        (defer, NEEDS_APPROVAL),
    ],
    ids=["nobody", "no", "reason", "error", "later"],
)
def test_step_without_approval(books: Books, approve: Approver | None, outcome: str) -> None:
    """A step without approval does not run."""
    result = run_plan(plan_of(books), step("burn", title="Emma"), approve=approve and for_steps(approve))

    assert [outcome] == outcomes(result)
    assert [] == books.done


@pytest.mark.parametrize("answer", [False, Deny("Not you."), 1, None], ids=repr)
def test_authorizer(books: Books, answer: Any) -> None:
    """A step that the run's authorizer denies does not run, even if it is approved."""
    authorize = lambda subject, *_: True if subject.name == "execute_plan" else answer  # noqa: E731
    result = run_plan(plan_of(books), step("burn", title="Emma"), authorize=authorize, approve=approve_all)

    assert DENIED == outcomes(result)[0][: len(DENIED)]
    assert [] == books.done


@pytest.mark.parametrize("way", ["run", "arun"])
def test_policy_by_name(books: Books, way: str) -> None:
    """A rule about a tool holds for it also where a plan calls it."""
    steps = [step("burn", title="Emma"), step("lend", title="Emma"), step("find", title="Emma")]
    runner = Runner(
        [plan_of(books)],
        model=ScriptedModel([call("execute_plan", steps=steps), "."]),
        approve=ask_when(lambda _: False, names=["lend"]),
    )
    result = runner.run("Go.") if way == "run" else asyncio.run(runner.arun("Go."))

    assert [REJECTED, REJECTED, "Emma: A3"] == outcomes(json.loads(result.calls[0].result.text))
    assert [] == books.done


def test_hooks(books: Books) -> None:
    """Middleware of the run sees the plan, and each of its steps."""
    seen = list[str]()

    async def note(one: ToolCall, call_next: Next) -> ToolResult:
        seen.append(one.name)
        return await call_next(one)

    run_plan(plan_of(books), step("find", title="Emma"), step("lend", title="Emma"), middleware=[note])

    assert ["execute_plan", "find", "lend"] == seen


def test_approver(books: Books) -> None:
    """An approver is asked about each step, with the arguments that run."""
    requests = list[tuple[str, Any]]()

    def agree(request: ApprovalRequest) -> bool:
        requests.append((request.tool.name, dict(request.arguments)))
        return True

    result = run_plan(plan_of(books), step("burn", title="Emma"), step("find", title="Dune"), approve=for_steps(agree))

    assert ["burnt", "Dune: A3"] == outcomes(result)
    assert [("burn", {"title": "Emma"}), ("find", {"title": "Dune"})] == requests


def test_modified(books: Books) -> None:
    """An approver's own arguments are those that run."""
    run_plan(
        plan_of(books), step("lend", title="Emma"), approve=for_steps(lambda _: Decision.modify({"title": "Dune"}))
    )

    assert ["lend Dune"] == books.done


def test_stop(books: Books) -> None:
    """If an approver stops the run, no further step of the plan starts."""
    script = [call("execute_plan", steps=[step("burn", title="Emma"), step("lend", title="Dune")])]
    approve = for_steps(lambda request: request.tool.name != "burn" or Decision.stop("Enough."))
    result = Runner([plan_of(books)], model=ScriptedModel(script), approve=approve).run("Tidy up.")

    assert ("stopped", []) == (result.finish_reason, books.done)


def test_fatal() -> None:
    """An error that ends the run ends it from within a plan."""

    def fail() -> str:
        """Fail."""
        raise FatalError("The house is on fire.")

    script = [call("execute_plan", steps=[step("fail")])]
    with pytest.raises(FatalError, match="on fire"):
        Runner([plan_tool([fail])], model=ScriptedModel(script)).run("Go.")


def test_tool_that_cannot_be_executed() -> None:
    """A tool that cannot be sent to where it is to run ends the run from within a plan, and its developer reads why."""

    @tool(isolate="process")
    def local() -> None:
        """Do something."""

    script = [call("execute_plan", steps=[step("local")])]
    with pytest.raises(FatalError, match="Define it at the top of a module"):
        Runner([plan_tool([local])], model=ScriptedModel(script)).run("Go.")


@pytest.mark.parametrize("way", ["run", "arun"])
def test_in_a_run(books: Books, way: str) -> None:
    """A run executes a plan, and the model reads the results."""
    model = ScriptedModel(
        [call("execute_plan", steps=[step("find", title="Emma"), step("lend", title="Emma")]), "Done."]
    )
    runner = Runner([plan_of(books)], model=model)
    result = runner.run("Lend Emma.") if way == "run" else asyncio.run(runner.arun("Lend Emma."))

    assert ["Emma: A3", "lent"] == outcomes(json.loads(result.calls[0].result.text))
    assert "Done." == result.output


def test_approval_of_the_whole(books: Books) -> None:
    """The approver of a run is asked about the plan, and sees all of its steps."""
    requests = list[Any]()
    steps = [step("lend", title="Emma")]
    model = ScriptedModel([call("execute_plan", steps=steps), "I may not."])

    def refuse(request: ApprovalRequest) -> bool:
        requests.append(request.arguments["steps"])
        return False

    Runner([plan_of(books)], model=model, approve=refuse).run("Go.")

    assert [steps] == requests
    assert [] == books.done


def test_context() -> None:
    """A step knows the run, and has an id of its own."""
    seen = list[tuple[Any, str, str]]()

    def look(context: ToolContext[str]) -> str:
        """Look."""
        seen.append((context.deps, context.tool_name, context.idempotency_key))
        return "."

    steps = [step("look"), step("look")]
    Runner([plan_tool([look])], model=ScriptedModel([call("execute_plan", steps=steps), "."])).run("Go.", deps="Ann")

    assert [("Ann", "look")] * 2 == [one[:2] for one in seen]
    assert 2 == len({key for *_, key in seen if key})


def test_cancelled() -> None:
    """A cancelled run waits for no step and starts no further one."""
    requests, remaining = threading.Event(), threading.Event()

    @tool(effect="write")
    async def wait() -> str:
        """Wait for ever."""
        if requests.is_set():
            raise AssertionError("A second step has started.")
        requests.set()
        try:
            return str(await asyncio.get_running_loop().create_future())
        finally:
            remaining.set()

    runner = Runner([plan_tool([wait])], model=ScriptedModel([call("execute_plan", steps=[step("wait")] * 2)]))
    handle = runner.start("Go.")
    requests.wait(10)
    runner.cancel()

    assert "cancelled" == handle.result(10).finish_reason
    assert remaining.wait(10)


def test_pictures() -> None:
    """Pictures of steps reach the model with the plan's result."""

    def paint() -> Image:
        """Paint."""
        return PIXEL

    result = Toolbox([plan_tool([paint])]).call("execute_plan", {"steps": [step("paint")] * 2})

    assert (["[image]"] * 2, (PIXEL, PIXEL)) == (outcomes(json.loads(result.text)), result.images)


@pytest.mark.parametrize(
    ("tools", "effect"),
    [
        ([], "read"),
        (["find"], "read"),
        (["find", "lend"], "write"),
        (["find", "lend", "burn"], "destructive"),
        (["say nothing"], "destructive"),
    ],
    ids=str,
)
def test_effect(books: Books, tools: list[str], effect: str) -> None:
    """A plan has the worst effect of its tools; an unlabelled tool counts as destructive."""

    def silent() -> str:
        """Do nothing, without a declared effect."""
        return "."

    known: dict[str, Callable[..., Any]] = {**Toolbox.from_object(books).snapshot(), "say nothing": silent}

    assert effect == plan_tool([known[name] for name in tools]).settings.effect


def test_snapshot(books: Books) -> None:
    """A tool that is added to the toolbox later cannot be a step."""
    box = Toolbox()
    plan = plan_tool(box)
    box.add(*Toolbox.from_object(books))

    assert "unknown tool: 'lend'" == outcomes(run_plan(plan, step("lend", title="Emma")))[0][:20]


def test_ledger(books: Books) -> None:
    """A plan and its steps are in the ledger, and run once, however often the run is resumed."""
    ledger, policy = MemoryLedger(), allow("lend", otherwise=defer)
    script: list[ModelReply] = [call("execute_plan", steps=[step("lend", title="Emma")]), "."]
    paused = Runner([plan_of(books)], model=ScriptedModel(script[:1]), approve=policy, ledger=ledger).run("Lend Emma.")
    decisions = {waiting.call.id: True for waiting in paused.pending}
    results = [
        Runner([plan_of(books)], model=ScriptedModel(script[1:]), approve=policy, ledger=ledger).resume(
            paused.state, decisions
        )
        for _ in range(2)
    ]

    assert ["lend Emma"] == books.done
    assert [["lent"]] * 2 == [outcomes(json.loads(result.calls[0].result.text)) for result in results]


def test_checked_output() -> None:
    """A toolbox that checks what its tools return checks it in a plan, too."""

    def count() -> int:
        return "abc"  # type: ignore[return-value]

    box = Toolbox([plan_tool(Toolbox([count], check_output=True))])

    result = box.call("execute_plan", {"steps": [{"tool": "count", "args": {}}]})

    assert "its result is not what it declares" in result.text
