"""What gates may do and return: only True or an approval allows a call, and no gate changes what runs."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future as ThreadFuture
from typing import Annotated, Any, Literal
from unittest.mock import MagicMock

import pytest

from toolkit import (
    Decision,
    Denied,
    Deny,
    FatalError,
    Limits,
    Runner,
    RunResult,
    RunState,
    TimedOut,
    ToolResult,
    tool,
)
from toolkit.schema import FromJson
from toolkit.testing import ScriptedModel, call

GateName = Literal["authorize", "approve"]
GATES = pytest.mark.parametrize("gate", ["authorize", "approve"])
LATER = pytest.mark.parametrize("later", [False, True], ids=["plain", "async"])
DENIED = "Tool execution was denied by authorization policy."
REFUSED = {"authorize": DENIED, "approve": "Tool execution was rejected by the user."}
UNANSWERED = {
    "authorize": 'Tool execution failed: tool authorization error for "send": it failed; the tool was not run.',
    "approve": "Tool approval could not be completed; the tool was not run.",
}
NOT_AN_ANSWER = {**UNANSWERED, "authorize": DENIED}
NO_KINDS = {"authorize": "denied", "approve": "rejected"}


class Post:
    """Keeps what its tool was called with."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.cancel: Callable[[], Any] = list  # cancels the run, once there is one

    @tool
    def send(self, to: list[str], options: dict[str, list[int]] | None = None) -> str:
        """Send."""
        self.sent.append((to, options))
        return "sent"


def sent(post: Post, **options: Any) -> ToolResult:
    """Let a model send something to Anna, with these options of the run."""
    model = ScriptedModel([call("send", to=["anna"], options={"a": [1]}), "Done."])
    return Runner([post.send], model=model, **options).run("Go.").calls[0].result


def answering(answer: Callable[[], Any], later: bool) -> Callable[..., Any]:
    """Make a gate, sync or async."""

    async def asked(*_: Any) -> Any:
        await asyncio.sleep(0)
        return answer()

    return asked if later else lambda *_: answer()


def raising(error: BaseException) -> Callable[[], Any]:
    """Make an answer that is an exception."""

    def answer() -> Any:
        raise error

    return answer


class Truthful:
    """Claims to be whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]  # nobody looks it up


class Hostile:
    """Fails whatever is done with it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __bool__(self) -> bool:
        raise RuntimeError("bool")


@GATES
@LATER
def test_hostile_answer(gate: GateName, later: bool) -> None:
    """An answer that cannot even be inspected is a refusal."""
    post = Post()
    result = sent(post, **{gate: answering(Hostile, later)})

    assert (True, []) == (result.is_error, post.sent)


class Approval(Decision):
    """A decision by another class."""


JUNK: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "one": lambda: 1,
    "one point": lambda: 1.0,
    "text": lambda: "yes",
    "the word": lambda: "True",
    "bytes": lambda: b"1",
    "list": lambda: [True],
    "tuple": lambda: (True, "ok"),
    "dictionary": lambda: {"approved": True},
    "class": lambda: Decision,
    "method": lambda: Decision.approve,
    "subclass": lambda: Approval(approved=True),
    "mock": MagicMock,
    "mock of a decision": lambda: MagicMock(spec=Decision, approved=True),
    "truthful": Truthful,
    "iterator": lambda: iter([True]),
    "not implemented": lambda: NotImplemented,
}


@GATES
@LATER
@pytest.mark.parametrize("answer", JUNK.values(), ids=JUNK)
def test_junk(gate: GateName, later: bool, answer: Callable[[], Any]) -> None:
    """What is neither True nor a valid decision is a refusal, however much it looks like an approval."""
    post = Post()
    result = sent(post, **{gate: answering(answer, later)})

    assert (NOT_AN_ANSWER[gate], []) == (result.text, post.sent)


def test_junk_of_an_authorizer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An authorizer that returns nothing denies the call, and its fault is logged."""
    result = sent(Post(), authorize=answering(lambda: None, later=False))

    assert DENIED == result.text
    assert "returned a NoneType, not a bool or Deny: the call is denied." in caplog.text


def test_junk_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An approver that returns nothing is a fault of the application, which is logged, and no rejection by the user."""
    result = sent(Post(), approve=answering(lambda: None, later=False))

    assert "rejected" not in result.text
    assert "returned a NoneType, not a bool or Decision: the call is refused." in caplog.text


def cancelled_future() -> Any:
    """Wait for something that was cancelled."""
    future: ThreadFuture[None] = ThreadFuture()
    future.cancel()
    return future.result()


RAISED: dict[str, Callable[[], Any]] = {
    "error": raising(RuntimeError("secret")),
    "returned error": lambda: RuntimeError("secret"),
    "end of input": raising(EOFError()),
    "time-out": raising(TimeoutError()),
    "time-out of ours": raising(TimedOut("secret")),
    "fatal error": raising(FatalError("secret")),
    "key": raising(KeyError("secret")),
    "stop": raising(StopIteration(True)),
    "async stop": raising(StopAsyncIteration()),
    "cancellation": raising(asyncio.CancelledError()),
    "future": cancelled_future,
    "end of the program": lambda: sys.exit(0),
    "recursion": raising(RecursionError()),
    "memory": raising(MemoryError()),
    "contradiction": lambda: Decision(approved=True, refusal="defer"),
}


@GATES
@LATER
@pytest.mark.parametrize("answer", RAISED.values(), ids=RAISED)
def test_raised(gate: GateName, later: bool, answer: Callable[[], Any]) -> None:
    """Whatever a gate raises is a refusal, and none of it reaches the model, nor that a user rejected the call."""
    post = Post()
    result = sent(post, **{gate: answering(answer, later)})

    assert (UNANSWERED[gate], "unavailable", []) == (result.text, result.kind, post.sent)


@GATES
def test_exception_is_the_cause(gate: GateName) -> None:
    """What a gate raised is the cause of its call's exception."""
    error = RuntimeError("secret")
    refusal = sent(Post(), **{gate: answering(raising(error), later=False)}).exception

    assert isinstance(refusal, Denied) and refusal.__cause__ is error


@GATES
@LATER
def test_denied_with_a_reason(gate: GateName, later: bool) -> None:
    """A gate may raise Denied, and the model reads its reason."""
    post = Post()
    result = sent(post, **{gate: answering(raising(Denied("Ask Anna.")), later)})

    assert (f"{REFUSED[gate]} Reason: Ask Anna.", NO_KINDS[gate], []) == (result.text, result.kind, post.sent)


@GATES
@pytest.mark.parametrize(
    "reason", [None, 5, "", "  ", b"no", Truthful()], ids=["None", "number", "empty", "blank", "bytes", "object"]
)
def test_reason_that_is_none(gate: GateName, reason: Any) -> None:
    """A reason that is not text is left out."""
    verdict = Deny(reason) if gate == "authorize" else Decision(approved=False, reason=reason)

    assert REFUSED[gate] == sent(Post(), **{gate: lambda *_: verdict}).text


@pytest.mark.parametrize("reason", [None, 5, b"no", Truthful()], ids=["None", "number", "bytes", "object"])
def test_paused_for_a_reason_that_is_none(reason: Any) -> None:
    """A run that is paused for a reason that is not text can be saved and loaded; the reason is left out."""
    model = ScriptedModel([call("send", to=["Ann"])])
    paused = Runner([Post().send], model=model, approve=lambda _: Decision.defer(reason)).run("Go")

    assert [""] == [waiting.reason for waiting in RunState.from_json(paused.state.to_json()).pending]


@GATES
@pytest.mark.parametrize("later", [False, True], ids=["plain", "async"])
def test_interrupt(gate: GateName, later: bool) -> None:
    """A KeyboardInterrupt of a gate ends the run; an async gate's does not end the loop that it runs in."""
    post = Post()

    with pytest.raises(KeyboardInterrupt):
        sent(post, **{gate: answering(raising(KeyboardInterrupt()), later=later)})
    assert [] == post.sent


def spoiling(arguments: Any) -> None:
    """Change arguments at every depth where that works."""
    arguments["to"].append("eve")
    arguments["options"]["a"].append(2)
    arguments["options"].clear()


@GATES
@LATER
def test_spoiling_changes_nothing(gate: GateName, later: bool) -> None:
    """A gate gets copies: whatever it does to nested values, the tool gets the model's."""
    post = Post()

    def spoil(*questions: Any) -> bool:
        spoiling(questions[1] if gate == "authorize" else questions[0].arguments)
        return True

    async def spoil_later(*questions: Any) -> bool:
        return spoil(*questions)

    sent(post, **{gate: spoil_later if later else spoil})

    assert [(["anna"], {"a": [1]})] == post.sent


def test_spoiling_is_not_seen() -> None:
    """What one gate does to the arguments no other one sees, nor itself at its next look."""
    seen: list[Any] = []

    def authorizer(_: object, arguments: Any, __: object) -> bool:
        spoiling(arguments)
        seen.append(dict(arguments))
        return True

    def approver(request: Any) -> bool:
        spoiling(request.arguments)
        seen.append(dict(request.arguments))
        return True

    sent(Post(), authorize=authorizer, approve=approver)

    assert [{"to": ["anna"], "options": {"a": [1]}}] * 2 == seen


@GATES
def test_arguments_take_nothing(gate: GateName) -> None:
    """Arguments cannot be set, and a gate that tries has failed."""
    post = Post()

    def set_one(*questions: Any) -> bool:
        (questions[1] if gate == "authorize" else questions[0].arguments)["to"] = ["eve"]
        return True

    assert (UNANSWERED[gate], []) == (sent(post, **{gate: set_one}).text, post.sent)


def test_arguments_are_a_mapping() -> None:
    """The arguments that a gate sees compare and print as a dictionary does."""
    seen = list[Any]()
    sent(Post(), authorize=lambda _, arguments, __: seen.extend([arguments, len(arguments), repr(arguments)]))

    plain = {"to": ["anna"], "options": {"a": [1]}}
    assert [plain, 2, repr(plain)] == seen


class Uncopied:
    """A value that refuses to be copied."""

    def __deepcopy__(self, memo: object) -> Any:
        raise RuntimeError("no copy")


def test_arguments_without_a_copy() -> None:
    """Looking at a value that has no copy fails, and with it the gate."""

    @tool
    def send(to: Annotated[Uncopied, FromJson(str, lambda _: Uncopied())]) -> None:
        """Send."""

    model = ScriptedModel([call("send", to="anna"), "Done."])
    result = Runner([send], model=model, authorize=lambda _, arguments, __: bool(arguments["to"])).run("Go.")

    assert [UNANSWERED["authorize"]] == [made.result.text for made in result.calls]


BackendName = Literal["sync", "async"]
BACKENDS = pytest.mark.parametrize("backend", ["sync", "async"])


def run_one(post: Post, backend: BackendName, **options: Any) -> RunResult:
    """Let a model send something, in a run that the gates can cancel."""
    runner = Runner([post.send], model=ScriptedModel([call("send", to=["anna"]), "Done."]), **options)

    async def run_later() -> RunResult:
        async with runner.astream("Go.") as events:
            post.cancel = events.cancel
            _ = [event async for event in events]
        return events.result

    if backend == "async":
        return asyncio.run(run_later())
    with runner.stream("Go.") as events:
        post.cancel = events.cancel
        list(events)
    return events.result


def kinds(result: RunResult) -> list[str | None]:
    """The kind of each result."""
    return [made.result.kind for made in result.calls]


@pytest.fixture
def hanging() -> Iterator[Callable[[bool], Callable[..., Any]]]:
    """Make gates that approve after the test has ended."""
    end = threading.Event()

    async def later(*_: object) -> bool:
        await asyncio.Event().wait()
        return True

    yield lambda is_async: later if is_async else lambda *_: end.wait()
    end.set()


LATE = {
    "authorize": UNANSWERED["authorize"].replace("it failed", "it was not answered in time"),
    "approve": "Tool approval timed out after 0.01 s.",
}


@GATES
@LATER
@BACKENDS
def test_hanging(gate: GateName, later: bool, backend: BackendName, hanging: Any) -> None:
    """A gate that does not answer in its time refuses."""
    post = Post()
    (made,) = run_one(post, backend, **{gate: hanging(later)}, approval_timeout=0.01).calls

    assert (LATE[gate], "timed_out", []) == (made.result.text, made.result.kind, post.sent)


@GATES
@LATER
@BACKENDS
def test_end_of_the_run(gate: GateName, later: bool, backend: BackendName, hanging: Any) -> None:
    """No gate is waited for longer than the run lasts."""
    post = Post()
    result = run_one(post, backend, **{gate: hanging(later)}, limits=Limits(max_seconds=0.1))

    assert ("max_seconds", []) == (result.finish_reason, post.sent)
    assert kinds(result) in (["timed_out"], ["cancelled"])  # the latter if there was no time to ask


@GATES
@BACKENDS
def test_cancelled_while_asked(gate: GateName, backend: BackendName) -> None:
    """A run that is cancelled waits for no gate."""
    post = Post()

    async def cancel_and_hang(*_: object) -> bool:
        post.cancel()
        await asyncio.Event().wait()
        return True

    result = run_one(post, backend, **{gate: cancel_and_hang})

    assert ("cancelled", ["cancelled"]) == (result.finish_reason, kinds(result))


@GATES
@LATER
@BACKENDS
def test_cancelled_before_the_approval(gate: GateName, later: bool, backend: BackendName) -> None:
    """An approval that is given after the run was cancelled does not count."""
    post = Post()
    result = run_one(post, backend, **{gate: answering(lambda: post.cancel() or True, later)})

    assert ("cancelled", ["cancelled"], []) == (result.finish_reason, kinds(result), post.sent)


def test_plain_gate_stays_on_its_thread() -> None:
    """In a sync run a plain gate is asked on the thread of whoever runs it."""
    threads: list[Any] = []

    def authorizer(*_: object) -> bool:
        threads.append(threading.get_ident())
        return True

    sent(Post(), authorize=authorizer)

    assert [threading.get_ident()] == threads


def test_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Why a gate failed is in the log, for its developer."""
    sent(Post(), approve=answering(raising(RuntimeError("secret")), later=False))

    assert "RuntimeError: secret" in caplog.text


class Guarded:
    """Has a tool with an authorizer of its own."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_open = False

    def tools(self, own: object = True) -> list[Any]:
        """Make the tool, whose own authorizer gives this answer."""

        def authorizer(*_: object) -> Any:
            self.asked.append("tool")
            return own

        @tool(authorize=authorizer)
        def enter() -> str:
            """Enter."""
            self.is_open = True
            return "in"

        return [enter]


def entered(guarded: Guarded, own: object = True, **options: Any) -> str | None:
    """Let a model enter."""
    model = ScriptedModel([call("enter"), "Done."])
    return Runner(guarded.tools(own), model=model, **options).run("Go.").calls[0].result.text


def test_own_authorizer() -> None:
    """A tool's own authorizer is asked, too, after that of the run."""
    guarded = Guarded()

    def authorizer(*_: object) -> bool:
        guarded.asked.append("run")
        return True

    assert "in" == entered(guarded, authorize=authorizer)
    assert ["run", "tool"] == guarded.asked


def test_own_authorizer_refuses() -> None:
    """What the tool's own authorizer refuses does not run, whatever that of the run says."""
    guarded = Guarded()

    assert REFUSED["authorize"] + " Reason: No." == entered(guarded, Deny("No."), authorize=lambda *_: True)
    assert not guarded.is_open


def test_own_authorizer_comes_second() -> None:
    """What the run's authorizer refuses is not put to the tool's own."""
    guarded = Guarded()
    entered(guarded, authorize=lambda *_: False)

    assert ([], False) == (guarded.asked, guarded.is_open)


def test_slow_rule() -> None:
    """A tool's own rule that does not answer within `approval_timeout` requires approval."""
    ended = threading.Event()

    @tool(approve=lambda _: ended.wait(5))
    def post(letter: str) -> str:
        """Post a letter."""
        return letter

    model = ScriptedModel([call("post", letter="a"), "Done."])
    result = Runner([post], model=model, approval_timeout=0.05).run("?").calls[0].result
    ended.set()

    assert "no approval handler is configured" in str(result.text)
