"""One call passes gates and middleware: what they see, what they refuse, and what becomes of it when they fail."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import pytest

from toolkit import (
    ApprovalRequest,
    Cancelled,
    Decision,
    DefinitionError,
    Denied,
    Deny,
    FatalError,
    Runner,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolkit.approvers import Console
from toolkit.testing import ScriptedModel, call

BackendName = Literal["sync", "async"]
BACKENDS = pytest.mark.parametrize("backend", ["sync", "async"])
LATER = pytest.mark.parametrize("later", [False, True], ids=["plain gate", "async gate"])

DENIED = "Tool execution was denied by authorization policy."
REJECTED = "Tool execution was rejected by the user."
INCOMPLETE = "Tool approval could not be completed; the tool was not run."


class Account:
    """Counts how often its tool's body is entered."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    @tool
    def pay(self, amount: int) -> int:
        """Pay."""
        self.paid.append(amount)
        return amount


def execute_call(
    made: Tool[..., Any], backend: BackendName, words: str = '{"amount": "5"}', deps: object = None, **options: Any
) -> ToolResult:
    """Execute one call of a tool in a run with these options."""
    model = ScriptedModel([ToolCall(name=made.name, arguments=words), "Done."])
    runner = Runner([made], model=model, **options)
    result = runner.run("go", deps=deps) if backend == "sync" else asyncio.run(runner.arun("go", deps=deps))
    return result.calls[0].result


def gate(answer: Callable[..., Any], later: bool) -> Callable[..., Any]:
    """Make a gate of an answer, sync or async."""

    async def asked(*questions: Any) -> Any:
        await asyncio.sleep(0)
        return answer(*questions)

    return asked if later else answer


def raising(error: BaseException) -> Callable[..., Any]:
    def answer(*questions: Any) -> Any:
        raise error

    return answer


@BACKENDS
def test_no_gates(backend: BackendName) -> None:
    """Without gates a valid call is executed."""
    account = Account()

    assert (ToolResult(5, "5"), [5]) == (execute_call(account.pay, backend), account.paid)


@BACKENDS
@LATER
def test_pass(backend: BackendName, later: bool) -> None:
    """A call is executed if every gate returns True."""
    approving = gate(lambda *_: True, later)

    assert ToolResult(5, "5") == execute_call(Account().pay, backend, authorize=approving, approve=approving)


@BACKENDS
def test_pass_by_decision(backend: BackendName) -> None:
    """An approving decision lets a call pass."""
    assert ToolResult(5, "5") == execute_call(Account().pay, backend, approve=lambda _: Decision(approved=True))


NO_APPROVALS: dict[str, tuple[Callable[..., Any], str]] = {
    "no": (lambda *_: False, ""),
    "nothing": (lambda *_: None, ""),
    "one": (lambda *_: 1, ""),
    "text": (lambda *_: "yes", ""),
}
RAISES: dict[str, Callable[..., Any]] = {
    "exception": raising(RuntimeError("secret")),
    "end of input": raising(EOFError()),
    "time-out": raising(TimeoutError()),
}
NOT_AUTHORIZED = {
    **NO_APPROVALS,
    "deny": (lambda *_: Deny(), ""),
    "deny with a reason": (lambda *_: Deny("Too much."), " Reason: Too much."),
    "deny as a class": (lambda *_: Deny, ""),
    "approval": (lambda *_: Decision(approved=True), ""),
}
NOT_APPROVED: dict[str, tuple[Callable[..., Any], str]] = {
    "no": (lambda *_: False, REJECTED),
    **{name: (NO_APPROVALS[name][0], INCOMPLETE) for name in ("nothing", "one", "text")},
    "decision": (lambda *_: Decision(approved=False), REJECTED),
    "decision with a reason": (
        lambda *_: Decision(approved=False, reason="Ask Anna."),
        f"{REJECTED} Reason: Ask Anna.",
    ),
}


@BACKENDS
@LATER
@pytest.mark.parametrize(("answer", "reason"), NOT_AUTHORIZED.values(), ids=NOT_AUTHORIZED)
def test_not_authorized(backend: BackendName, later: bool, answer: Callable[..., Any], reason: str) -> None:
    """Only a plain True authorizes; a denied call reaches neither the approver nor the body."""
    account, asked = Account(), list[Any]()
    result = execute_call(account.pay, backend, authorize=gate(answer, later), approve=asked.append)

    assert (DENIED + reason, "denied") == (result.text, result.kind)
    assert [] == asked == account.paid


@BACKENDS
@LATER
@pytest.mark.parametrize(("answer", "text"), NOT_APPROVED.values(), ids=NOT_APPROVED)
def test_not_approved(backend: BackendName, later: bool, answer: Callable[..., Any], text: str) -> None:
    """Only True or an approving decision approves; a rejected call never enters the body."""
    account = Account()
    result = execute_call(account.pay, backend, approve=gate(answer, later))

    kind = "unavailable" if text is INCOMPLETE else "rejected"
    assert (text, kind, []) == (result.text, result.kind, account.paid)


@BACKENDS
@LATER
@pytest.mark.parametrize("answer", RAISES.values(), ids=RAISES)
def test_authorizer_raises(backend: BackendName, later: bool, answer: Callable[..., Any]) -> None:
    """Where an authorizer raises, nobody else is asked, and the model reads that the check failed."""
    account, asked = Account(), list[Any]()
    result = execute_call(account.pay, backend, authorize=gate(answer, later), approve=asked.append)
    text = 'Tool execution failed: tool authorization error for "pay": it failed; the tool was not run.'

    assert (text, "unavailable") == (result.text, result.kind)
    assert [] == asked == account.paid


@BACKENDS
@LATER
@pytest.mark.parametrize("answer", RAISES.values(), ids=RAISES)
def test_approver_raises(backend: BackendName, later: bool, answer: Callable[..., Any]) -> None:
    """Where an approver raises, the body is not entered, and the model does not read that a user rejected the call."""
    account = Account()
    result = execute_call(account.pay, backend, approve=gate(answer, later))

    assert (INCOMPLETE, "unavailable", []) == (result.text, result.kind, account.paid)


def test_failing_gate_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Why a gate failed is in the log, and only there."""
    result = execute_call(Account().pay, "sync", authorize=raising(RuntimeError("secret")))

    assert "secret" in caplog.text
    assert "secret" not in repr(result)


class AsyncApprover:
    """An approver that is an object, and answers later."""

    async def __call__(self, request: ApprovalRequest) -> bool:
        await asyncio.sleep(0)
        return request.arguments == {"amount": 5}


@BACKENDS
@pytest.mark.parametrize(
    "approver", [AsyncApprover(), lambda request: AsyncApprover()(request)], ids=["object", "promise"]
)
def test_kinds_of_approvers(backend: BackendName, approver: Any) -> None:
    """An async callable object and a function that returns a promise are approvers, too."""
    assert ToolResult(5, "5") == execute_call(Account().pay, backend, approve=approver)


@BACKENDS
def test_authorizer_sees(backend: BackendName) -> None:
    """An authorizer sees the tool, the typed arguments and the context."""
    seen: list[Any] = []
    made = Account().pay
    execute_call(made, backend, deps="anna", authorize=lambda *questions: seen.extend(questions))

    assert [made, {"amount": 5}, "anna", "pay"] == [*seen[:2], seen[2].deps, seen[2].tool_name]


@BACKENDS
def test_approver_sees(backend: BackendName) -> None:
    """An approver sees the tool, with its title, and the arguments that will be used."""
    seen: Any = []
    made = tool(Account().pay, title="Payment")
    execute_call(made, backend, deps="anna", approve=lambda request: seen.append(request) or True)

    (request,) = seen
    assert (made, {"amount": 5}, "anna", "Payment") == (
        request.tool, request.arguments, request.context.deps, request.tool.title
    )  # fmt: skip


INVALID = {"wrong type": '{"amount": "much"}', "missing": "{}", "no JSON": '{"amount": }', "unknown key": '{"sum": 5}'}


@BACKENDS
@pytest.mark.parametrize("words", INVALID.values(), ids=INVALID)
def test_invalid_reaches_no_gate(backend: BackendName, words: str) -> None:
    """Arguments that do not fit reach no gate and no body."""
    account, asked = Account(), list[Any]()
    result = execute_call(account.pay, backend, words, authorize=lambda *_: asked.append(1), approve=asked.append)

    assert "invalid_arguments" == result.kind
    assert [] == asked == account.paid


def test_unknown_reaches_no_gate() -> None:
    """A tool that is not there reaches no gate."""
    asked: Any = []
    model = ScriptedModel([call("pay"), "Done."])
    result = Runner(model=model, authorize=lambda *_: asked.append(1), approve=asked.append).run("go")

    assert (["unknown tool: 'pay'. Available: none"], []) == ([made.result.text for made in result.calls], asked)


@BACKENDS
def test_repairs(backend: BackendName) -> None:
    """A result lists what was repaired before the gates saw it."""

    def pay(amount: int = 5) -> int:
        return amount

    assert ToolResult(5, "5", repairs=("amount: null taken as left out",)) == execute_call(
        tool(pay), backend, '{"amount": null}'
    )


@BACKENDS
def test_middleware_order(backend: BackendName) -> None:
    """The first middleware is the outermost."""
    steps: list[str] = []

    def named(name: str) -> Any:
        async def around(call: ToolCall, line: Any) -> ToolResult:
            steps.append(f"{name} in")
            result: ToolResult = await line(call)
            steps.append(f"{name} out")
            return result

        return around

    execute_call(Account().pay, backend, middleware=(named("a"), named("b")))

    assert ["a in", "b in", "b out", "a out"] == steps


async def doubling(call: ToolCall, line: Any) -> ToolResult:
    """Write other arguments than the model's."""
    result: ToolResult = await line(dataclasses.replace(call, arguments='{"amount": 10}'))
    return result


@BACKENDS
def test_middleware_rewrites(backend: BackendName) -> None:
    """Arguments that a middleware rewrites pass every gate again."""
    account = Account()
    result = execute_call(
        account.pay, backend, middleware=(doubling,), authorize=lambda _, values, __: values["amount"] < 10
    )

    assert (DENIED, []) == (result.text, account.paid)


@BACKENDS
def test_middleware_answers(backend: BackendName) -> None:
    """A middleware may answer itself; nothing behind it is asked."""
    account = Account()

    async def cached(call: ToolCall, line: Any) -> ToolResult:
        return ToolResult(1, "cached")

    assert ToolResult(1, "cached") == execute_call(
        account.pay, backend, middleware=(cached,), approve=raising(Denied())
    )
    assert [] == account.paid


@BACKENDS
def test_middleware_refuses(backend: BackendName) -> None:
    """A ToolError of a middleware is the call's result."""

    async def refusing(call: ToolCall, line: Any) -> ToolResult:
        raise Cancelled("too late")

    result = execute_call(Account().pay, backend, middleware=(refusing,))

    assert ("Cancelled: too late", "cancelled") == (result.text, result.kind)


@BACKENDS
def test_middleware_sees_refusals(backend: BackendName) -> None:
    """A middleware sees a gate's refusal as an exception, and may turn it into a result."""

    async def softening(call: ToolCall, line: Any) -> ToolResult:
        try:
            result: ToolResult = await line(call)
        except Denied as refusal:
            return ToolResult(error=f"Sorry. {refusal}", text="Sorry.")
        return result

    result = execute_call(Account().pay, backend, middleware=(softening,), authorize=lambda *_: False)

    assert ("Sorry.", "Sorry.") == (result.text, result.error)  # the text of a middleware is all that the model reads


@BACKENDS
def test_middleware_fails(backend: BackendName, caplog: pytest.LogCaptureFixture) -> None:
    """A middleware that raises makes an error without its message; the log has all."""

    async def broken(call: ToolCall, line: Any) -> ToolResult:
        raise RuntimeError("secret")

    result = execute_call(Account().pay, backend, middleware=(broken,))

    assert ("pay was not run.", "failed") == (result.text, result.kind)
    assert ("secret", True) == (str(result.exception), "secret" in caplog.text)


@BACKENDS
@pytest.mark.parametrize("answer", [None, "text", {}], ids=repr)
def test_middleware_forgets(backend: BackendName, answer: Any) -> None:
    """A middleware that returns no result makes an error, and the log names it, not the middleware around it."""

    async def forgetful(call: ToolCall, line: Any) -> ToolResult:
        await line(call)
        return answer  # type: ignore[no-any-return]

    async def outer(call: ToolCall, line: Any) -> ToolResult:
        return (await line(call)).replace(details="seen")  # type: ignore[no-any-return]

    result = execute_call(Account().pay, backend, middleware=(outer, forgetful))

    assert "pay has run, but its result was lost." == result.text
    expected = f"{forgetful!r} must return a ToolResult, not {answer!r}; does it return what `call_next` gave it?"
    assert f"the middleware {expected}" == str(result.exception)


@BACKENDS
@pytest.mark.parametrize("later", [False, True], ids=["tool", "middleware"])
def test_fatal(backend: BackendName, later: bool) -> None:
    """A fatal error leaves, wherever it was raised."""

    async def ending(call: ToolCall, line: Any) -> ToolResult:
        raise FatalError("end")

    made = Account().pay if later else tool(name="pay")(raising(FatalError("end")))
    with pytest.raises(FatalError, match="end"):
        execute_call(made, backend, "{}", middleware=(ending,) if later else ())


@BACKENDS
def test_indescribable(backend: BackendName) -> None:
    """A tool that cannot be described leaves as its developer's mistake."""

    def pay(account: Account) -> None: ...

    with pytest.raises(DefinitionError, match="parameter 'account'"):
        execute_call(tool(pay), backend)


class Again(RuntimeError):
    """An error that is written in two lines, as a ValidationError of pydantic is."""

    def __repr__(self) -> str:
        return f"Again:\n  {self}"


def test_unexpected_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What a tool did not mean to raise is in the log with its traceback, and how to relay it.

    What it relays is one line there, with a traceback only at level DEBUG; a ToolError is not logged.
    """
    execute_call(tool(name="pay")(raising(RuntimeError("boom"))), "sync", "{}")
    execute_call(tool(name="pay", relay=(RuntimeError,))(raising(Again("again"))), "sync", "{}")
    execute_call(tool(name="pay")(raising(Denied("meant"))), "sync", "{}")

    with caplog.at_level("DEBUG", "toolkit"):
        execute_call(tool(name="pay", relay=(RuntimeError,))(raising(Again("again"))), "sync", "{}")

    hint, line = "Tool pay raised RuntimeError (relay= lets the model read the message)", "Tool pay raised Again: again"
    expected = [
        (text, logging.WARNING, has_traceback) for text, has_traceback in ((hint, True), (line, False), (line, True))
    ]
    logged = [it for it in caplog.records if it.levelno >= logging.WARNING]
    assert expected == [(it.getMessage(), it.levelno, it.exc_info is not None) for it in logged]
    assert "boom" in caplog.text


@BACKENDS
def test_context_knows_the_call(backend: BackendName) -> None:
    """The context says by which name the tool was called, and has the deps of the run."""

    def who(context: ToolContext[str]) -> Any:
        return context

    context = execute_call(tool(who), backend, "{}", deps="db").value
    assert ("db", "who") == (context.deps, context.tool_name)


@BACKENDS
def test_details_stay(backend: BackendName) -> None:
    """Details pass through the line and are not in the text."""
    made = tool(name="pay")(lambda: ToolResult("done", details={"secret": 1}))

    assert ToolResult("done", "done", details={"secret": 1}) == execute_call(made, backend, "{}")


@BACKENDS
def test_promise(backend: BackendName) -> None:
    """A sync tool that returns an awaitable is awaited."""

    async def pay() -> int:
        await asyncio.sleep(0)
        return 5

    assert ToolResult(5, "5") == execute_call(tool(name="pay")(lambda: pay()), backend, "{}")  # type: ignore[misc]  # noqa: PLW0108
    assert ToolResult(5, "5") == execute_call(tool(pay), backend, "{}")


async def count() -> AsyncIterator[int]:
    for number in range(2):
        await asyncio.sleep(0)
        yield number


async def promise_later() -> Any:
    async def later() -> Any:
        return count()

    return asyncio.ensure_future(later())


async def promise_generator() -> Any:
    return (number for number in range(2))


@pytest.mark.parametrize("function", [promise_later, promise_generator])
@BACKENDS
def test_promise_of_a_promise(backend: BackendName, function: Callable[[], Any]) -> None:
    """What an async tool returns is awaited and collected as what a sync one returns, with and without a run."""
    made = tool(function)

    assert ToolResult([0, 1], "[0,1]") == execute_call(made, backend, "{}")
    assert [0, 1] == made.invoke("{}").value == asyncio.run(made.ainvoke("{}")).value


UNFIT: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "approve": ({"approve": 5}, TypeError, r"^approve=5 is not a function of an ApprovalRequest, such as Console"),
    "authorize": ({"authorize": 5}, TypeError, r"^authorize=5 is not a function of tool, arguments and context\.$"),
    "checkpoint": ({"checkpoint": "a.db"}, TypeError, r"'a.db' is not a function of a RunState, such as SQLiteRuns\('"),
    "ledger": ({"ledger": 5}, TypeError, r"^ledger=5 is not a ledger"),
    "limits": ({"limits": 5}, TypeError, r"^limits=5 is not Limits\(\.\.\.\)\.$"),
    "middleware": (
        {"middleware": 5},
        TypeError,
        r"^middleware=5 is not a list .*: write middleware=\[\.\.\.\]\. .* hooks=\[\.\.\.\]\.$",
    ),
    "class": ({"approve": Console}, TypeError, r"^approve=<class '.*Console'> is not a function of an Approv"),
    "hooks": ({"hooks": 5}, TypeError, r"^hooks=5 is not a list of hooks: write hooks=\[\.\.\.\]\.$"),
    "no middleware": (
        {"middleware": [5]},
        TypeError,
        r"^middleware=\[5\] is not a list .*: write middleware=\[\.\.\.\]\. .* hooks=\[\.\.\.\]\.$",
    ),
    "raise_errors": ({"raise_errors": 1}, TypeError, r"^raise_errors=1 is not True or False\.$"),
    "early": ({"early": 1}, TypeError, r"^early=1 is not True or False\.$"),
    "max_result": (
        {"max_result": -1},
        ValueError,
        r"^max_result=-1 is not a whole number of at least 1\.$",
    ),
    "kind of max_result": ({"max_result": "9"}, TypeError, r"^max_result='9' is not a whole number"),
    "timeout": (
        {"approval_timeout": -1},
        ValueError,
        r"^approval_timeout=-1 is not a number of seconds above 0, and at most 31 days\.$",
    ),
    "kind of timeout": ({"approval_timeout": True}, TypeError, r"^approval_timeout=True is not a number of seconds"),
    "no timeout": ({"approval_timeout": float("nan")}, ValueError, r"^approval_timeout=nan is not a number of seconds"),
}


@pytest.mark.parametrize(("options", "error", "message"), UNFIT.values(), ids=UNFIT)
def test_unfit_option(options: dict[str, Any], error: type[Exception], message: str) -> None:
    """What cannot stand around a call is refused when the runner is made."""
    with pytest.raises(error, match=message):
        Runner(**options)


def test_left_out_options() -> None:
    """Gates, their time, the ledger and the checkpoint may be None, which is their default."""
    options: dict[str, Any] = dict.fromkeys(("approve", "authorize", "approval_timeout", "ledger", "checkpoint"))
    runner = Runner(model=ScriptedModel(["Hi."]), **options)

    assert "Hi." == runner.run("x").output
