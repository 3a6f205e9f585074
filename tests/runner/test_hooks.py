"""Hooks: what they see and change around the model and around calls, and what becomes of a run when one fails."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import pytest

from tests.ways import arun, astream, run, stream
from toolkit import (
    Decision,
    Denied,
    Deny,
    FatalError,
    Halt,
    Limits,
    Runner,
    RunResult,
    Session,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    Usage,
    tool,
)
from toolkit.events import ToolCallFinished, event_to_dict
from toolkit.middleware import Next, Telemetry
from toolkit.models import ModelRequest, ModelResponse, SystemMessage, ToolMessage
from toolkit.testing import ScriptedModel, call

Go = Callable[..., RunResult]
BACKENDS = pytest.mark.parametrize("go", [run, arun, stream, astream])
LATER = pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])


class Hook:
    """An object with the hooks that it is given, sync or async."""

    def __init__(self, later: bool = False, /, **hooks: Callable[..., Any]) -> None:
        for name, answer in hooks.items():
            setattr(self, name, waiting(answer) if later else answer)


def waiting(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Make an async function of a sync one, which waits for an event loop first."""

    async def asked(*given: Any) -> Any:
        await asyncio.sleep(0)
        return answer(*given)

    return asked


def raising(error: Exception) -> Callable[..., Any]:
    def answer(*_: Any) -> Any:
        raise error

    return answer


class Account:
    """Counts how often its tool's body is entered."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    @tool
    def pay(self, amount: int) -> int:
        """Pay."""
        self.paid.append(amount)
        return amount


def paying(*hooks: object, account: Account | None = None, go: Go = run, **options: Any) -> ToolResult:
    """Return the outcome of one call of the tool `pay`."""
    with ScriptedModel([[call("pay", amount=5)], "Done."]) as model:
        return go(Runner([(account or Account()).pay], model=model, hooks=hooks, **options)).calls[0].result


def answering(*hooks: object, script: Any = ("Done.",), go: Go = run) -> tuple[RunResult, ScriptedModel]:
    """Return the outcome of a run whose model follows the script, and the model."""
    with ScriptedModel(script) as model:
        return go(Runner([Account().pay], model=model, hooks=hooks)), model


# -- what is a hook


class Passive:
    """Has no hook."""


class AsyncObserver:
    """Has a hook that nothing would await."""

    async def on_event(self, event: object, run_id: str) -> None: ...


@pytest.mark.parametrize(
    ("hook", "error_text"),
    [
        (Passive(), "is not a hook: a hook has one of the methods before_model, after_model, before_call, after_call"),
        (Hook(before_call=5), "is not a hook"),  # type: ignore[arg-type]
        (print, "is not a hook"),
        (Account, "give an instance, Account"),
        (AsyncObserver(), "has an async on_event"),
        (Telemetry(), r"is not a hook: .* Pass a function that wraps a call as middleware=\["),
    ],
    ids=["no hook", "no function", "function", "class", "async", "middleware"],
)
def test_no_hook(hook: object, error_text: str) -> None:
    """What has no hook is refused when the runner is made."""
    with pytest.raises(TypeError, match=error_text):
        Runner(hooks=[hook])


class Observer:
    """A middleware that gets the events of its runs, too."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_event(self, event: object, run_id: str) -> None:
        self.seen.append(type(event).__name__)

    async def __call__(self, made: ToolCall, call_next: Next) -> ToolResult:
        self.seen.append(made.name)
        return await call_next(made)


@BACKENDS
def test_events_of_a_middleware(go: Go) -> None:
    """A middleware that is an object may have `on_event`."""
    observer, account = Observer(), Account()
    go(Runner([account.pay], model=ScriptedModel([call("pay", amount=5), "Done."]), middleware=[observer]))

    assert [5] == account.paid
    assert ["RunStarted", "pay", "RunFinished"] == [
        name for name in observer.seen if name in ("RunStarted", "pay", "RunFinished")
    ]


def test_interrupt_in_on_event() -> None:
    """Ctrl-C while `on_event` runs ends the run as elsewhere: it has a result, and is neither undone nor saved."""

    class Printer:
        def on_event(self, event: object, run_id: str) -> None:
            if isinstance(event, ToolCallFinished):
                raise KeyboardInterrupt

    undone, session = list[str](), Session()
    book = tool(lambda: "booked", name="book", undo=undone.append)
    runner = Runner([book], model=ScriptedModel([call("book")]), hooks=[Printer()], undo_on_failure=True)
    with pytest.raises(KeyboardInterrupt) as caught:
        runner.run("go", session=session)

    assert ["booked"] == [each.result.text for each in caught.value.result.calls]  # type: ignore[attr-defined]
    assert ([], ()) == (undone, session.messages)


@BACKENDS
def test_events_of_a_run_below(go: Go) -> None:
    """`on_event` gets each event of a sub-agent once: from its own run."""
    observer = Observer()
    below = Runner(model=ScriptedModel(["Found."]), name="clerk", description="Finds.")
    go(Runner([below], model=ScriptedModel([call("subagent_clerk", query="Find it."), "Done."]), middleware=[observer]))

    assert 2 == observer.seen.count("RunStarted") == observer.seen.count("RunFinished")
    assert "SubAgentEvent" not in observer.seen


def test_async_on_event_of_a_middleware() -> None:
    """An async `on_event` of a middleware is refused, as that of a hook is."""

    class Late(Observer):
        async def on_event(self, event: object, run_id: str) -> None: ...  # type: ignore[override]

    with pytest.raises(TypeError, match="has an async on_event"):
        Runner(middleware=[Late()])


# -- around the model


@BACKENDS
@LATER
def test_before_model(go: Go, later: bool) -> None:
    """A hook may change what the model is asked."""

    def instructing(request: ModelRequest) -> ModelRequest:
        return dataclasses.replace(request, messages=(SystemMessage("Be brief."), *request.messages))

    result, model = answering(Hook(later, before_model=instructing), go=go)

    assert ["Be brief.", "go"] == [getattr(m, "text", "") for m in model.requests[0].messages]
    assert ["go", "Done."] == [m.text for m in result.messages]


@BACKENDS
@LATER
def test_after_model(go: Go, later: bool) -> None:
    """A hook may change what the model answered, and drop its calls."""

    def dropping(response: ModelResponse) -> ModelResponse:
        return dataclasses.replace(response, text="I may not.", calls=(), finish_reason="stop")

    result, _ = answering(Hook(later, after_model=dropping), script=[[call("pay", amount=5)]], go=go)

    assert ("I may not.", ()) == (result.output, result.calls)


@BACKENDS
def test_order_around_the_model(go: Go) -> None:
    """Hooks run in the order in which they are given, before and after the model; None changes nothing."""
    asked: list[str] = []

    def named(name: str) -> Hook:
        return Hook(
            before_model=lambda _: asked.append(f"before {name}"), after_model=lambda _: asked.append(f"after {name}")
        )

    result, _ = answering(named("a"), named("b"), go=go)

    assert ["before a", "before b", "after a", "after b"] == asked
    assert "Done." == result.output


@BACKENDS
@LATER
@pytest.mark.parametrize("name", ["before_model", "after_model"])
def test_a_hook_of_the_model_fails(go: Go, later: bool, name: str) -> None:
    """What a hook around the model raises leaves the run as it is."""
    with pytest.raises(LookupError, match="no budget"):
        answering(Hook(later, **{name: raising(LookupError("no budget"))}), go=go)


@BACKENDS
@LATER
@pytest.mark.parametrize("error", [Halt("enough"), LookupError("no budget")], ids=["halt", "error"])
def test_cost_of_an_answer_that_a_hook_refuses(go: Go, later: bool, error: Exception) -> None:
    """What an answer has cost counts, whatever a hook makes of it."""
    reply = ModelResponse(text="Hi.", usage=Usage(3, 4, 1))
    hook = Hook(later, after_model=raising(error))
    try:
        result, _ = answering(hook, script=[reply], go=go)
    except LookupError as left:
        result = left.result  # type: ignore[attr-defined]  # as documented

    assert Usage(3, 4, 1) == result.usage


@pytest.mark.parametrize("name", ["before_model", "after_model"])
def test_a_hook_of_the_model_answers_with_nonsense(name: str) -> None:
    """What is neither None nor of the kind that was given ends the run, and names the hook."""
    with pytest.raises(TypeError, match="must return a Model.* or None, not 'text'"):
        answering(Hook(**{name: lambda _: "text"}))


# -- around calls


@BACKENDS
@LATER
def test_before_call(go: Go, later: bool) -> None:
    """A hook may change a call; what it wrote passes every gate."""
    hook = Hook(later, before_call=lambda made, _: dataclasses.replace(made, arguments='{"amount": "7"}'))

    assert 7 == paying(hook, go=go, authorize=lambda _, values, __: values["amount"] == 7).value
    assert "denied" == paying(hook, go=go, authorize=lambda _, values, __: values["amount"] == 5).kind


@BACKENDS
@LATER
def test_after_call(go: Go, later: bool) -> None:
    """A hook may change a result; the model and the caller get what it made."""
    hook = Hook(later, after_call=lambda _, result, __: result.replace(text=f"{result.text} euros"))

    assert "5 euros" == paying(hook, go=go).text


@BACKENDS
def test_after_call_of_a_denied_call(go: Go) -> None:
    """A hook may extend the text of a denied call; the error is not added again."""
    hook = Hook(after_call=lambda _, result, __: result.replace(text=f"{result.text}, Ann"))

    assert (
        "Tool execution was denied by authorization policy. Reason: no, Ann"
        == paying(hook, go=go, authorize=lambda *_: Deny("no")).text
    )


def fail_to_log_in() -> str:
    """Log in."""
    raise ToolError("login failed for sk-123")


@BACKENDS
@LATER
def test_redacted_errors(go: Go, later: bool) -> None:
    """What a hook removes from the text of an error is gone, from the result's error too."""
    hook = Hook(later, after_call=lambda _, result, __: result.replace(text="login failed for ***"))
    with ScriptedModel([[call("fail_to_log_in")], "Done."]) as model:
        result = go(Runner([fail_to_log_in], model=model, hooks=[hook]))

    done = result.calls[0].result
    assert ("login failed for ***", "login failed for ***", True) == (done.text, done.error, done.is_error)
    assert "sk-123" not in str(result.messages) + str(model.requests)


@BACKENDS
def test_redacted_errors_in_middleware(go: Go) -> None:
    """The same holds for a middleware, and for a text that is only a part of what it was."""

    async def redact(made: ToolCall, call_next: Next) -> ToolResult:
        return (await call_next(made)).replace(text="")

    with ScriptedModel([[call("fail_to_log_in")], "Done."]) as model:
        result = go(Runner([fail_to_log_in], model=model, middleware=[redact]))

    assert ("", "") == (result.calls[0].result.text, result.calls[0].result.error)
    assert "sk-123" not in str(result.messages) + str(model.requests)


@BACKENDS
@LATER
def test_arguments_that_ran(go: Go, later: bool) -> None:
    """The call is recorded with the arguments that ran, and with those that the model proposed."""
    hook = Hook(later, before_call=lambda made, _: dataclasses.replace(made, arguments='{"amount": 7}'))
    account = Account()
    with ScriptedModel([[call("pay", amount=5)], "Done."]) as model:
        (done,) = go(Runner([account.pay], model=model, hooks=[hook])).calls

    assert ([7], '{"amount": 7}', {"amount": 5}) == (account.paid, done.arguments, json.loads(done.proposed_arguments))
    assert '{"amount": 7}' == event_to_dict(done)["arguments"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (ToolResult("5 rows"), "5 rows\nstale"),
        (ToolResult("5 rows", error="cut off"), "5 rows\nstale"),
        (ToolResult(error="cut off"), "stale"),
    ],
    ids=["success", "partial", "error"],
)
def test_error_that_a_hook_changes(given: ToolResult, text: str) -> None:
    """An error that a hook changes in a result whose text it leaves is what the model reads."""
    hook = Hook(False, after_call=lambda _, result, __: result.replace(error="stale"))
    with ScriptedModel([[call("look")], "Done."]) as model:
        result = Runner([tool(lambda: given, name="look")], model=model, hooks=[hook]).run("Go.")

    assert (text, "stale", "failed") == (result.calls[0].result[1:4])
    assert text == model.requests[1].messages[-1].text


@BACKENDS
def test_name_that_ran(go: Go) -> None:
    """The call is recorded with the name of the tool that ran, and with the one that the model proposed."""
    seen = [tool(lambda: "1", name="count", title="Count"), tool(lambda: "2", name="measure", title="Measure")]
    hook = Hook(False, before_call=lambda made, _: dataclasses.replace(made, name="measure"))
    with ScriptedModel([[call("count")], "Done."]) as model:
        (done,) = go(Runner(seen, model=model, hooks=[hook])).calls
    fields = event_to_dict(done)

    assert ("measure", "count", "Measure", "2") == (done.name, done.proposed_name, done.title, done.result.text)
    assert ("measure", "count") == (fields["toolName"], fields["proposedToolName"])


def test_arguments_of_an_approver() -> None:
    """The same holds where an approver changes the arguments; those of an unchanged call are the model's."""
    account = Account()
    with ScriptedModel([[call("pay", amount=5), call("pay", amount=6)], "Done."]) as model:
        decide = lambda request: Decision.modify({"amount": 1}) if request.arguments["amount"] == 5 else True  # noqa: E731
        changed, unchanged = Runner([account.pay], model=model, approve=decide, order="sequential").run("Go.").calls

    assert [1, 6] == account.paid
    assert ({"amount": 1}, {"amount": 5}) == (json.loads(changed.arguments), json.loads(changed.proposed_arguments))
    assert unchanged.arguments == unchanged.proposed_arguments
    assert "arguments" not in event_to_dict(unchanged)


@BACKENDS
def test_a_hook_that_promises(go: Go) -> None:
    """A sync hook may answer with something to await."""
    adding = waiting(lambda _, result, __: result.replace(text="awaited"))

    assert "awaited" == paying(Hook(after_call=lambda *given: adding(*given)), go=go).text


@BACKENDS
def test_context_of_the_run(go: Go) -> None:
    """Hooks of a call get its context."""
    contexts: list[Any] = []
    hook = Hook(
        before_call=lambda made, context: contexts.append((context.deps, context.call_id == made.id)),
        after_call=lambda made, _, context: contexts.append((context.deps, context.call_id == made.id)),
    )
    with ScriptedModel([[call("pay", amount=5)], "Done."]) as model:
        go(Runner([Account().pay], model=model, hooks=[hook]), deps="Ann")

    assert [("Ann", True), ("Ann", True)] == contexts


@BACKENDS
def test_order_around_a_call(go: Go) -> None:
    """Hooks run around the middleware, in the order in which they are given, before and after the call."""
    asked: list[str] = []

    def named(name: str) -> Hook:
        return Hook(
            before_call=lambda *_: asked.append(f"before {name}"), after_call=lambda *_: asked.append(f"after {name}")
        )

    async def wrapping(made: ToolCall, call_next: Next) -> ToolResult:
        asked.append("in")
        result = await call_next(made)
        asked.append("out")
        return result

    paying(named("a"), named("b"), middleware=[wrapping], go=go)

    assert ["before a", "before b", "in", "out", "after a", "after b"] == asked


DENIALS: dict[str, tuple[Callable[..., Any], str]] = {
    "Deny": (lambda *_: Deny("not today"), "Tool call denied: not today"),
    "Deny without a reason": (lambda *_: Deny(), "Tool call denied."),
    "Denied": (raising(Denied("not today")), "not today"),
    "ToolError": (raising(ToolError("not today")), "not today"),
    "exception": (raising(LookupError("secret")), "Tool call denied: it could not be checked."),
    "True": (lambda *_: True, "Tool call denied: it could not be checked."),
    "False": (lambda *_: False, "Tool call denied: it could not be checked."),
    "text": (lambda *_: "yes", "Tool call denied: it could not be checked."),
}


@BACKENDS
@LATER
@pytest.mark.parametrize(("answer", "text"), DENIALS.values(), ids=DENIALS)
def test_denied(answer: Callable[..., Any], text: str, go: Go, later: bool) -> None:
    """A hook that denies a call, fails, or answers with nonsense keeps the body shut; the first one decides."""
    account = Account()
    later_ones = Hook(before_call=lambda *_: account.paid.append(-1))
    result = paying(Hook(later, before_call=answer), later_ones, account=account, go=go)

    assert (text, True, []) == (result.text, result.is_error, account.paid)


@BACKENDS
def test_a_rewritten_call_is_seen_afterwards(go: Go) -> None:
    """Hooks after a call see it as it was made, not as the model wrote it."""
    seen: list[str] = []
    watching = Hook(after_call=lambda made, *_: seen.append(made.arguments))
    rewriting = Hook(before_call=lambda made, _: dataclasses.replace(made, arguments='{"amount": 7}'))
    paying(watching, rewriting, go=go)

    assert ['{"amount": 7}'] == seen


class Renaming:
    """Tools of several effects, and a hook that makes a call of one a call of another."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.made: list[str] = []

    def before_call(self, call: ToolCall, context: ToolContext) -> ToolCall:
        return dataclasses.replace(call, name=self.to)

    @tool(effect="read")
    def look(self) -> None:
        """Look."""
        self.made.append("look")

    @tool(effect="write")
    def pay(self) -> None:
        """Pay."""
        self.made.append("pay")

    @tool(effect="destructive")
    def delete(self) -> None:
        """Delete."""
        self.made.append("delete")


@BACKENDS
@pytest.mark.parametrize(
    ("name", "to", "expected"),
    [
        ("pay", "delete", ["delete"]),
        ("delete", "look", ["look"]),
        ("lok", "look", ["look"]),
        ("look", "pay", []),
        ("lok", "delete", []),
    ],
)
def test_renamed(name: str, to: str, expected: list[str], go: Go) -> None:
    """A call may be made one of another tool, unless that runs alone and the call was placed among others."""
    hook = Renaming(to)
    with ScriptedModel([[call(name)], "Done."]) as model:
        result = go(Runner([hook.look, hook.pay, hook.delete], model=model, hooks=[hook]))

    assert (expected, not expected) == (hook.made, result.calls[0].result.is_error)


@BACKENDS
def test_a_refusal_is_seen_afterwards(go: Go) -> None:
    """Hooks after a call see its refusal as a result, whoever refused it."""
    seen: list[str] = []
    hook = Hook(after_call=lambda _, result, __: seen.append(result.kind))
    paying(hook, Hook(before_call=lambda *_: Deny()), go=go)
    paying(hook, authorize=lambda *_: False, go=go)

    assert ["denied", "denied"] == seen


WITHHELD: dict[str, tuple[Callable[..., Any], str]] = {
    "exception": (
        raising(LookupError("secret")),
        "The result of pay is withheld: it could not be checked. If it has run, its effect stays.",
    ),
    "nonsense": (
        lambda *_: "text",
        "The result of pay is withheld: it could not be checked. If it has run, its effect stays.",
    ),
    "ToolError": (raising(ToolError("Ask somebody else.")), "Ask somebody else."),
}


@BACKENDS
@LATER
@pytest.mark.parametrize(("answer", "text"), WITHHELD.values(), ids=WITHHELD)
def test_withheld(answer: Callable[..., Any], text: str, go: Go, later: bool) -> None:
    """A result that a hook fails over reaches nobody, and the hooks that follow see the error."""
    seen: list[str] = []
    watching = Hook(after_call=lambda _, result, __: seen.append(result.text))
    result = paying(Hook(later, after_call=answer), watching, go=go)

    assert (text, None, True, [text]) == (result.text, result.value, result.is_error, seen)


@BACKENDS
@LATER
@pytest.mark.parametrize("name", ["before_call", "after_call"])
def test_a_hook_that_is_cancelled(name: str, go: Go, later: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A hook whose wait is cancelled, as at the end of a run, has not failed; the call is cancelled with it."""
    result = paying(Hook(later, **{name: raising(CancelledError())}), go=go)

    assert ("cancelled", None, []) == (result.kind, result.value, caplog.records)


@LATER
def test_a_hook_that_hangs(later: bool) -> None:
    """A hook is waited for no longer than the run may take; without its answer the body stays shut."""
    account, ended = Account(), threading.Event()
    asked = Hook(before_call=never if later else lambda *_: ended.wait(10) and None)
    result = paying(asked, account=account, limits=Limits(max_seconds=0.3))
    ended.set()

    assert ("timed_out", []) == (result.kind, account.paid)


async def never(*_: Any) -> None:
    await asyncio.get_running_loop().create_future()


@BACKENDS
def test_hooks_of_one_turn(go: Go) -> None:
    """The calls of one turn are hooked at the same time, and one that fails harms no other."""
    together = threading.Barrier(3, timeout=10)

    def meeting(made: ToolCall, _: object) -> None:
        together.wait()
        if made.arguments == '{"amount": 1}':
            raise LookupError

    calls = [call("pay", amount=amount) for amount in range(3)]
    result, _ = answering(Hook(before_call=meeting), script=[calls, "Done."], go=go)

    assert [False, True, False] == [finished.result.is_error for finished in result.calls]


# -- the end of the run


NAMES = ["before_model", "after_model", "before_call", "after_call"]


@BACKENDS
@LATER
@pytest.mark.parametrize("name", NAMES)
def test_halt(name: str, later: bool, go: Go) -> None:
    """A hook ends the run with an answer of its own."""
    result, _ = answering(
        Hook(later, **{name: raising(Halt("Enough."))}), script=lambda _: call("pay", amount=5), go=go
    )

    assert "Enough." == result.output


@BACKENDS
@pytest.mark.parametrize("name", NAMES)
def test_history_of_a_halt(name: str, go: Go) -> None:
    """Every call of the history has its result, though a hook has ended the run."""
    calls = [call("pay", amount=amount) for amount in range(3)]
    result, _ = answering(Hook(**{name: raising(Halt("Enough."))}), script=lambda _: calls, go=go)

    made = [made.id for message in result.messages if isinstance(message, ModelResponse) for made in message.calls]
    assert made == [message.call_id for message in result.messages if isinstance(message, ToolMessage)]


@BACKENDS
@pytest.mark.parametrize("name", NAMES)
def test_continue_after_a_halt(name: str, go: Go) -> None:
    """The answer of a hook is the last message of the conversation: the next run does not answer the prompt again."""
    session = Session()
    hook = Hook(**{name: raising(Halt("Enough."))})
    go(Runner([Account().pay], model=ScriptedModel([call("pay", amount=5)]), hooks=[hook]), session=session)
    model = ScriptedModel(["Hello."])
    go(Runner(model=model), session=session)

    assert ["Enough.", "go"] == [message.text for message in model.requests[0].messages[-2:]]


def test_text_of_a_halt() -> None:
    """A run with an output type prints the text with which a hook has ended it."""
    hook = Hook(after_model=raising(Halt("Enough.")))
    result = Runner(model=ScriptedModel(['{"result": 5}']), hooks=[hook]).run("x", output_type=int)

    assert "Enough.\n[stopped: halted]" == str(result)


@BACKENDS
@pytest.mark.parametrize("name", NAMES)
def test_fatal(name: str, go: Go) -> None:
    """A fatal error of a hook leaves the run."""
    with pytest.raises(FatalError, match="end"):
        answering(Hook(**{name: raising(FatalError("end"))}), script=lambda _: call("pay", amount=5), go=go)


class Reader:
    """Notes the context of the run around the model."""

    def __init__(self) -> None:
        self.seen = list[Any]()

    def before_model(self, request: ModelRequest, context: ToolContext[str]) -> None:
        self.note(context)

    async def after_model(self, response: ModelResponse, context: ToolContext[str]) -> None:
        await asyncio.sleep(0)
        self.note(context)

    def note(self, context: ToolContext[str]) -> None:
        self.seen.append((context.deps, context.iteration, context.call_id, len(context.run_id)))


@BACKENDS
def test_context_of_the_hooks_around_the_model(go: Go) -> None:
    """They read the deps and the turn of the run if they take a context."""
    reader = Reader()
    model = ScriptedModel([[call("ping")], "x"])
    go(Runner([tool(lambda: 1, name="ping")], model=model, hooks=[reader]), deps="Ann")

    assert [("Ann", 0, "", 32), ("Ann", 0, "", 32), ("Ann", 1, "", 32), ("Ann", 1, "", 32)] == reader.seen


@pytest.mark.parametrize("seconds", [None, 60])
@BACKENDS
def test_hook_that_cancels(go: Go, seconds: float | None) -> None:
    """A hook that cancels its context ends the run."""

    def give_up(_: object, context: ToolContext) -> None:
        context.cancellation.cancel()

    limits = Limits(max_seconds=seconds)
    result = go(Runner(model=ScriptedModel(["x"]), hooks=[Hook(before_model=give_up)], limits=limits))

    assert "cancelled" == result.finish_reason


def test_hook_with_a_default() -> None:
    """A second parameter with a default keeps it, and gets no context."""
    seen = list[int]()
    hook = Hook(before_model=lambda request, own=5: seen.append(own))
    Runner(model=ScriptedModel(["x"]), hooks=[hook]).run("x")

    assert [5] == seen


@pytest.mark.parametrize("middleware", [lambda call: call, lambda call, context, call_next: call], ids=["one", "three"])
def test_middleware_with_other_parameters(middleware: Any) -> None:
    """A middleware that does not take a call and the next step is refused when the runner is made."""
    with pytest.raises(TypeError, match=r"must take \(call, call_next\): "):
        Runner([], model=ScriptedModel(["x"]), middleware=[middleware])


@pytest.mark.parametrize("name", NAMES)
def test_hook_with_other_parameters(name: str) -> None:
    """So is a hook."""
    with pytest.raises(TypeError, match=r"must take \(.+\): too many positional arguments\."):
        Runner([], model=ScriptedModel(["x"]), hooks=[Hook(**{name: lambda: None})])


def test_middleware_that_is_not_async(caplog: pytest.LogCaptureFixture) -> None:
    """The log says how to write a middleware that is not async; its calls get an error."""

    def answer(call: ToolCall, call_next: Any) -> Any:
        return ToolResult("mine")

    model = ScriptedModel([call("ping"), "x"])
    result = Runner([tool(lambda: 1, name="ping")], model=model, middleware=[answer]).run("x")

    assert "ping was not run." == result.calls[0].result.text
    assert "is not async: write it with async def" in caplog.text


def test_wrapping_is_for_middleware() -> None:
    """A hook that would wrap calls is refused, with the way on: left out, its gate would be open."""

    class Guard:
        def before_call(self, call: ToolCall, context: ToolContext) -> None: ...

        def around_call(self, call: ToolCall, call_next: Any) -> Any: ...

    with pytest.raises(TypeError, match="has around_call, which is not a method of hooks"):
        Runner(hooks=[Guard()])
