"""One contract for every way to run: in one process, from a file after a crash before each step, on a Temporal server.

Each case is run by each engine, and has the same transcript, usage, calls and end as by `Runner.run`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from toolkit import (
    Decision,
    Deny,
    FatalError,
    File,
    Halt,
    Image,
    Limits,
    ModelError,
    PendingApproval,
    Runner,
    RunState,
    SQLiteLedger,
    SQLiteRuns,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    batched,
    tool,
)
from toolkit.approvers import after_foreign, defer
from toolkit.middleware import Next
from toolkit.models import ModelRequest, ModelResponse
from toolkit.testing import ScriptedModel, call

if TYPE_CHECKING:
    from tests.durable.support import Durable

# -- tools


@tool(idempotent=True)
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effect="write")
def write(n: int) -> str:
    """Write."""
    return f"written {n}"


@tool
def fail() -> str:
    """Fail."""
    raise ToolError("It is closed.")


@tool
def explode() -> str:
    """Explode."""
    raise FatalError("Broken for good.")


@tool(relay=(KeyError,))
def leak(is_known: bool) -> str:
    """Raise."""
    raise KeyError("shown") if is_known else OSError("secret")


@tool(idempotent=True, retries=2, retry_delay=0.001)
def flaky(failures: int, context: ToolContext) -> str:
    """Fail so often."""
    if context.attempt < failures:
        raise OSError("busy")
    return f"attempt {context.attempt}"


@tool(timeout=0.05)
async def slow() -> str:
    """Wait."""
    await asyncio.sleep(10)
    return "late"


def fetch() -> str:
    """Fetch."""
    return "Somebody's text."


@tool(return_direct=True)
def report(is_there: bool = True) -> str:
    """Report."""
    if not is_there:
        raise ToolError("There is none.")
    return "The report."


@tool(approve=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def paint() -> list[Any]:
    """Paint."""
    return ["A picture", Image(b"png", "image/png"), File(b"pdf", "application/pdf", "a.pdf")]


NUMBERS = Runner(model=ScriptedModel(lambda request: "two" if len(request.messages) == 1 else "[1, 2]"))
ECHO = Runner(model=ScriptedModel(lambda request: "Known."), instructions="You know.")


# -- gates and hooks


def stopping(request: Any) -> Decision:
    return Decision.stop("Enough.")


def deny_two(made: Any, arguments: Mapping[str, Any], context: Any) -> Any:
    return Deny("Not 2.") if arguments.get("n") == 2 else True


def allow_nothing(made: Any, arguments: Any, context: Any) -> bool:
    return False


class Halting:
    """A hook that ends the run."""

    def after_model(self, response: ModelResponse) -> None:
        if response.calls:
            raise Halt("Halted.")


@tool
def close() -> str:
    """Close the shop."""
    raise Halt("Closed.")


class Hiding:
    """A hook that takes a tool out of each request."""

    def before_model(self, request: ModelRequest) -> ModelRequest:
        return replace(request, tools=tuple(spec for spec in request.tools if spec.name != "write"))


class HaltingCall:
    """A hook that ends the run when a call is made."""

    def before_call(self, call: ToolCall, context: Any) -> None:
        if call.name == "add":
            raise Halt("Halted.")


class Rewriting:
    """A hook that changes what a model answers."""

    def after_model(self, response: ModelResponse) -> ModelResponse:
        return response.replace(text=response.text.upper())


class Changing:
    """Hooks that change the arguments of a call, and its result."""

    def before_call(self, call: ToolCall, context: Any) -> ToolCall:
        return call.replace(arguments='{"a": 20, "b": 1}')

    def after_call(self, call: ToolCall, result: ToolResult, context: Any) -> ToolResult:
        return result.replace(text=f"<{result.text}>")


async def sign(call: ToolCall, call_next: Next) -> ToolResult:
    result = await call_next(call)
    return result.replace(text=f"{result.text}, signed")


# -- cases


@dataclass(frozen=True)
class Case:
    """A run.

    Attributes:
        tools: Its tools.
        script: The answers of its model.
        options: Those of its runner.
        given: Those of the run.
        decide: Decides on the calls that wait.
    """

    tools: list[Any]
    script: list[Any]
    options: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    decide: Callable[[PendingApproval], bool | Decision] = lambda waiting: True

    def make(self, model: ScriptedModel | None = None, **options: Any) -> Runner:
        return Runner(self.tools, model=model or ScriptedModel(self.script), **{**self.options, **options})


def decide(waiting: PendingApproval) -> bool | Decision:
    verdicts: dict[str, bool | Decision] = {
        '{"amount": 1}': True,
        '{"amount": 2}': Decision.reject("Too much."),
        '{"amount": 3}': Decision.modify({"amount": 30}),
    }
    return verdicts[waiting.arguments]


EARLIER = Runner(model=ScriptedModel(["Yes."])).run("Are you there?").messages
PAYMENTS: list[Any] = [[*(call("pay", amount=n) for n in (1, 2, 3)), call("add", a=1, b=1)], "Done."]
BOTH: list[Any] = [[call("write", n=1), call("add", a=1, b=1)], "Done."]

CASES: dict[str, Case] = {
    "no tools": Case([], ["Hello."], {}),
    "parallel": Case([add], [[call("add", a=1, b=2), call("add", a=3, b=4)], "10"], {"instructions": "Add."}),
    "sequential": Case([add, write], [[call("write", n=1), call("add", a=1, b=1)], "Done."], {"order": "sequential"}),
    "batched": Case([add], [[call("add", a=n, b=n) for n in range(5)], "Done."], {"order": batched(2)}),
    "error": Case([fail], [[call("fail")], "Sorry."], {}),
    "unknown tool": Case([add], [[call("ad", a=1)], "Sorry."], {}),
    "wrong arguments": Case([add], [[call("add", a="x")], "Sorry."], {}),
    "direct": Case([report], [[call("report")]], {}),
    "max_turns": Case([add], [*[[call("add", a=1, b=1)]] * 2, "Enough."], {"max_turns": 2}),
    "stop at limit": Case([add], [[call("add", a=1, b=1)]] * 2, {"limits": Limits(max_calls=1, on_limit="stop")}),
    "max_calls": Case([add], [[call("add", a=1, b=1)] * 3, "Done."], {"limits": Limits(max_calls=2)}),
    "cut": Case([add], [ModelResponse(calls=(call("add", a=1, b=1),), finish_reason="length"), "Done."], {}),
    "empty": Case([add], [ModelResponse(), "Done."], {}),
    "stopped": Case([write], [[call("write", n=1), call("write", n=2)]], {"approve": stopping}),
    "no approver": Case([pay], [[call("pay", amount=1)], "Sorry."], {}),
    "halted": Case([add], [[call("add", a=1, b=1)]], {"hooks": [Halting()]}),
    "halted by a call": Case([add, write], [[call("write", n=1), call("add", a=1, b=1)]], {"hooks": [HaltingCall()]}),
    "halted by a tool": Case([close], [[call("close")]], {}),
    "hidden tool": Case([add, write], [[call("write", n=1), call("add", a=1, b=1)], "Done."], {"hooks": [Hiding()]}),
    "foreign": Case(
        [tool(fetch, trust="foreign"), write],
        [[call("fetch")], [call("write", n=1)], "Done."],
        {"approve": after_foreign(lambda request: Decision.reject(f"After {request.foreign}."))},
    ),
    "rewritten": Case([add], ["hello"], {"hooks": [Rewriting()]}),
    "long result": Case([tool(lambda: "x" * 5000, name="long", description="Long.")], [[call("long")], "Ok."], {}),
    "sub-agent": Case([ECHO.as_tool("ask", "facts")], [[call("ask", query="Who?")], "Done."], {}),
    "sub-agent with a type": Case(
        [NUMBERS.as_tool("ask", "numbers", output_type=list[int])], [[call("ask", query="Which?")], "Done."]
    ),
    "sub-agent without an answer of its type": Case(
        [ECHO.as_tool("ask", "facts", output_type=list[int])], [[call("ask", query="Which?")], "Sorry."]
    ),
    "is_answer": Case([add], [ModelResponse(text="Both.", calls=(call("add", a=1, b=1),), is_answer=True)], {}),
    # gates
    "denied": Case([write], [[call("write", n=1), call("write", n=2)], "Done."], {"authorize": deny_two}),
    "denied without a reason": Case([add], [[call("add", a=1, b=1)], "Done."], {"authorize": allow_nothing}),
    "rejected": Case([pay], [[call("pay", amount=1)], "Done."], {"approve": lambda _: Decision.reject("No.")}),
    "changed by an approver": Case(
        [pay], [[call("pay", amount=1)], "Done."], {"approve": lambda _: Decision.modify({"amount": 2})}
    ),
    "approvals that wait": Case(
        [pay, add], PAYMENTS, {"approve": lambda r: defer(r) if r.name == "pay" else True}, decide=decide
    ),
    "approval of the second turn": Case(
        [pay, add],
        [[call("add", a=1, b=1)], [call("pay", amount=1)], "Done."],
        {"approve": lambda r: defer(r) if r.name == "pay" else True},
    ),
    # calls
    "exceptions": Case([leak], [[call("leak", is_known=True), call("leak", is_known=False)], "Sorry."]),
    "retry": Case([flaky], [[call("flaky", failures=1), call("flaky", failures=5)], "Done."]),
    "timeout": Case([slow], [[call("slow")], "Sorry."]),
    "broken JSON": Case([add], [[ToolCall(name="add", arguments='{"a": 1, ')], "Sorry."]),
    "repaired arguments": Case([add], [[ToolCall(name="add", arguments='{"a": "1", "b": 2}')], "Done."]),
    "parallel with an error": Case(
        [add, fail], [[call("add", a=1, b=1), call("fail"), call("add", a=2, b=2)], "Done."]
    ),
    "ids of a provider": Case(
        [add],
        [ModelResponse(calls=tuple(call("add", a=n, b=n).replace(provider_call_id="x") for n in (1, 2))), "Done."],
    ),
    "direct beside another call": Case([report, add], [[call("add", a=1, b=1), call("report")]]),
    "direct that fails": Case([report], [[call("report", is_there=False)], "Sorry."]),
    "pictures and files": Case([paint], [[call("paint")], "Done."]),
    "error texts": Case([fail], [[call("fail")], "Sorry."], {"format_error": lambda result: f"! {result.text}"}),
    # limits
    "calls of a tool": Case(
        [add, write],
        [[call("write", n=1), call("write", n=2), call("add", a=1, b=1)], "Done."],
        {"limits": Limits(max_calls_per_tool={"write": 1})},
    ),
    "a limit that raises": Case([add], [[call("add", a=1, b=1)]], {"limits": Limits(max_turns=1, on_limit="raise")}),
    "a model that fails": Case([add], [[call("add", a=1, b=1)], ModelError("No such model.", 404)]),
    "a tool that ends the run": Case([add, explode], [[call("add", a=1, b=1)], [call("explode")]]),
    # the rest
    "hooks": Case([add], [[call("add", a=1, b=1)], "Done."], {"hooks": [Changing()]}),
    "middleware": Case([add, write], BOTH, {"middleware": [sign]}),
    "history": Case([add], [[call("add", a=1, b=1)], "Done."], given={"messages": EARLIER}),
    "allowed tools": Case([add, write], BOTH, given={"allowed_tools": ["add"]}),
    "instructions": Case([add], ["Hello."], {"instructions": "Be brief.", "allowed_tools": ["add"]}),
    "structured output": Case(
        [add],
        [[call("add", a=1, b=1)], "two", "[1, 2]"],
        given={"output_type": list[int]},
    ),
    "structured output that is never given": Case([], ["one", "two", "three"], given={"output_type": list[int]}),
    "structured output of a stopped run": Case(
        [write], [[call("write", n=1)]], {"approve": stopping}, given={"output_type": list[int]}
    ),
}


# -- engines


def run(case: Case) -> Any:
    runner = case.make()
    result: Any = runner.run("Go.", **case.given)
    while result.is_paused:
        result = runner.run(result.state, decisions=decide_all(case, result.state), **keep(case))
    return result


def run_async(case: Case) -> Any:
    async def go() -> Any:
        runner = case.make()
        result: Any = await runner.arun("Go.", **case.given)
        while result.is_paused:
            result = await runner.arun(result.state, decisions=decide_all(case, result.state), **keep(case))
        return result

    return asyncio.run(go())


def run_as_stream(case: Case) -> Any:
    runner = case.make()

    def draw(prompt: Any, **options: Any) -> Any:
        with runner.stream(prompt, **options) as events:
            list(events)
        return events.result

    result = draw("Go.", **case.given)
    while result.is_paused:
        result = draw(result.state, decisions=decide_all(case, result.state), **keep(case))
    return result


class Crash(KeyboardInterrupt):
    """The end of a process."""


class CrashingRuns(SQLiteRuns):
    """Ends the process after each step, once it is saved."""

    last = ""

    def __call__(self, state: RunState) -> None:
        super().__call__(state)
        before, self.last = self.last, state.to_json()
        if self.last != before and state.phase in ("asking", "calling"):
            raise Crash


def run_from_file(case: Case, folder: Path) -> Any:
    """Run in many processes, each of which does one step and dies."""
    model, runs, crashes = ScriptedModel(case.script), CrashingRuns(folder / "runs.db"), 0
    prompt: str | RunState = "Go."
    options = case.given
    while True:
        try:
            result: Any = case.make(model, checkpoint=runs).run(prompt, **options)
            if not result.is_paused:
                assert crashes
                return result
        except Crash:
            crashes += 1
        (run_id,) = runs.unfinished()
        prompt = state = runs.load(run_id)
        options = {**keep(case), "decisions": decide_all(case, state)}


def run_on_server(case: Case, durable: Durable) -> Any:
    from tests.durable.support import until

    async def go() -> Any:
        runner = case.make()
        async with await durable.worker(runner):
            started = await (await durable.runs(runner)).start("Go.", **case.given)
            if case.options.get("approve") is not None:
                status = await until(started.status, lambda status: status.pending or status.phase == "finished")
                for waiting in status.pending:
                    await started.approve(waiting.call.id, case.decide(waiting))
            return await started.result()

    return asyncio.run(go())


def decide_all(case: Case, state: RunState) -> dict[str, bool | Decision]:
    return {waiting.call.id: case.decide(waiting) for waiting in state.pending}


def keep(case: Case) -> dict[str, Any]:
    """What a state does not hold."""
    return {name: value for name, value in case.given.items() if name == "output_type"}


ENGINES = ("arun", "stream", "file", "server")


def run_by(engine: str, case: Case, request: pytest.FixtureRequest) -> Any:
    match engine:
        case "arun":
            return run_async(case)
        case "stream":
            return run_as_stream(case)
        case "file":
            return run_from_file(case, request.getfixturevalue("tmp_path"))
        case _:
            return run_on_server(case, request.getfixturevalue("durable"))


def look(result: Any) -> dict[str, Any]:
    """What has to be equal: all but ids, which begin with that of the run."""
    own = result.state.run_id[:8]
    return {
        "output": result.output,
        "reason": result.finish_reason,
        "usage": result.usage,
        "counts": dict(result.state.calls_by_tool),
        "messages": repr(result.messages).replace(own, "RUN"),
        "calls": [(end.call.name, end.result.text, end.result.is_error) for end in result.calls],
    }


def look_at(work: Callable[[], Any]) -> Any:
    try:
        return look(work())
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("engines", [ENGINES[:-1], ENGINES[-1:]], ids=["in a process", "on a server"])
@pytest.mark.parametrize("name", CASES)
def test_same_transcript(name: str, engines: tuple[str, ...], request: pytest.FixtureRequest) -> None:
    """A run has the same transcript, usage and end, whatever carries it out."""
    case = CASES[name]
    expected = look_at(lambda: run(case))

    assert dict.fromkeys(engines, expected) == {
        engine: look_at(lambda: run_by(engine, case, request)) for engine in engines
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_undo(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The calls of a run and of its sub-agents are undone by its ledger, whatever has carried it out."""
    undone: list[int] = []

    @tool(effect="write", undo=lambda booking: undone.append(booking))
    def book(n: int) -> int:
        """Book."""
        return n * 10

    inner = Runner([book], model=ScriptedModel([call("book", n=2), "Booked."]))
    tools = [book, inner.as_tool("ask_inner", "bookings")]
    script: list[Any] = [[call("book", n=1), call("ask_inner", query="Book 2.")], [call("book", n=3)], "Done."]
    ledger = SQLiteLedger(tmp_path / "calls.db")
    result = run_by(engine, Case(tools, script, {"ledger": ledger}), request)
    outcomes = [each.outcome for each in Runner(tools, ledger=ledger).undo(result.state.run_id)]

    assert ([30, 20, 10], ["undone"] * 3) == (undone, outcomes)
