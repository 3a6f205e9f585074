"""Middleware around calls: what it gets, how it waits, and what the built-in ones do."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import html
import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from tests.ways import arun, astream, run, stream
from toolkit import (
    DefinitionError,
    Deny,
    FatalError,
    File,
    Image,
    Limits,
    Runner,
    RunResult,
    TimedOut,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    middleware,
    tool,
)
from toolkit.approvers import defer
from toolkit.middleware import Middleware, Next, PerRun, audit, cache, redact, repeat_guard
from toolkit.middleware.repeated_calls import MAX_RUNS
from toolkit.models import ModelRequest
from toolkit.testing import ScriptedModel, call

SECRET = 'k3y/with "odd" chars\\\\+é😀\n&more'  # noqa: S105  it is none


Go = Callable[..., RunResult]
BACKENDS = pytest.mark.parametrize("go", [run, arun, stream, astream])


@tool
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def made(*turns: list[ToolCall], tools: Any = (add,), go: Go = run, **options: Any) -> RunResult:
    """A run whose model makes these calls, turn by turn, then is done."""
    deps = options.pop("deps", None)
    with ScriptedModel([*turns, "Done."]) as model:
        return go(Runner(tools, model=model, **options), deps=deps)


def texts(result: RunResult) -> list[str | None]:
    return [finished.result.text for finished in result.calls]


def counted(**settings: Any) -> tuple[Tool[..., Any], list[str]]:
    """A tool that records how often it has run, and with which arguments."""
    seen: list[str] = []

    @tool(**settings)
    def look(at: str = "") -> int:
        """Look."""
        seen.append(at)
        return len(seen)

    return look, seen


# -- what a middleware gets, and how it waits


@BACKENDS
def test_context_of_the_run(go: Go) -> None:
    """A middleware gets the run, its deps and its tools."""
    contexts: list[tuple[Any, ...]] = []

    async def listening(call: ToolCall, call_next: Next) -> ToolResult:
        context = call_next.context
        contexts.append((context.run_id, context.call_id, context.tool_name, context.deps, dict(call_next.tools)))
        return await call_next(call)

    result = made([call("add", a=1)], middleware=[listening], go=go, deps="Ann")

    assert [(result.state.run_id, result.calls[0].call.id, "add", "Ann", {"add": add})] == contexts


@BACKENDS
def test_waits(go: Go) -> None:
    """What needs an event loop is awaited with `wait`, whatever method started the run."""

    async def patient(call: ToolCall, call_next: Next) -> ToolResult:
        waited = await call_next.wait(asyncio.sleep(0, "waited"))
        result = await call_next(call)
        return result.replace(text=f"{waited}: {result.text}")

    assert ["waited: 3"] == texts(made([call("add", a=1, b=2)], middleware=[patient], go=go))


@BACKENDS
@pytest.mark.parametrize("calls", [1, 2])
def test_exits(go: Go, calls: int, caplog: pytest.LogCaptureFixture) -> None:
    """A middleware that raises SystemExit ends its call alone, and the outer ones see an exception."""
    seen: list[Any] = []

    async def outer(call: ToolCall, call_next: Next) -> ToolResult:
        try:
            return await call_next(call)
        except Exception as error:
            seen.append(error)
            raise

    async def exiting(call: ToolCall, call_next: Next) -> ToolResult:
        await call_next(call)
        sys.exit(3)

    result = made([call("add", a=1)] * calls, middleware=[outer, exiting], go=go)

    assert ["add has run, but its result was lost."] * calls == texts(result)
    assert ["it raised SystemExit"] * calls == list(map(str, seen))


@BACKENDS
@pytest.mark.parametrize("calls", [1, 3])
def test_awaits_what_is_cancelled(go: Go, calls: int) -> None:
    """A middleware that awaits what another task has cancelled fails for its own call; the run is not cancelled."""
    if sys.version_info < (3, 11) and go in (arun, astream):
        pytest.skip("a task of Python 3.10 does not say whether it is cancelled itself")

    async def shared(call: ToolCall, call_next: Next) -> ToolResult:
        if call.arguments == '{"a": 1}':
            raise asyncio.CancelledError
        return await call_next(call)

    result = made([call("add", a=number) for number in range(1, calls + 1)], middleware=[shared], go=go)

    assert ["add was not run.", "2", "3"][:calls] == texts(result)
    assert "Done." == result.output


@BACKENDS
def test_hint_beside_an_error(go: Go, caplog: pytest.LogCaptureFixture) -> None:
    """If a middleware adds a hint to an error whose message the model does not read, its traceback is in the log."""

    async def hint(call: ToolCall, call_next: Next) -> ToolResult:
        result = await call_next(call)
        return result.replace(text=f"{result.text} Ask Ann.")

    @tool
    def lose() -> None:
        """Lose."""
        raise ValueError("lost")

    (text,) = texts(made([call("lose")], tools=[lose], middleware=[hint], go=go))

    assert (True, True) == (f"{text}".endswith("this did not work. Ask Ann."), "in lose" in caplog.text)


@BACKENDS
def test_interrupts(go: Go) -> None:
    """A middleware that raises KeyboardInterrupt ends the run."""

    async def interrupting(call: ToolCall, call_next: Next) -> ToolResult:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made([call("add", a=1)], middleware=[interrupting], go=go)


def test_audit_exits(caplog: pytest.LogCaptureFixture) -> None:
    """Writing an audit record may exit: the call goes on."""
    assert ["1"] == texts(made([call("add", a=1)], middleware=[audit(lambda _: sys.exit(3))]))
    assert "could not be written" in caplog.text


@BACKENDS
def test_waiting_fails(go: Go, caplog: pytest.LogCaptureFixture) -> None:
    """What is raised while a middleware waits is raised in the middleware."""

    async def failing() -> None:
        raise LookupError("nothing")

    async def patient(call: ToolCall, call_next: Next) -> ToolResult:
        with pytest.raises(LookupError, match="nothing"):
            await call_next.wait(failing())
        return await call_next(call)

    assert ["1"] == texts(made([call("add", a=1)], middleware=[patient], go=go))


@pytest.mark.parametrize("go", [run, arun])
def test_waits_no_longer_than_the_run(go: Go) -> None:
    """Waiting ends when the run's time is up, and what would begin to wait then is refused."""
    refused: list[str] = []

    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    async def patient(call: ToolCall, call_next: Next) -> ToolResult:
        for _ in range(2):
            with pytest.raises(TimedOut):
                await call_next.wait(forever())
            refused.append("timed out")
        return ToolResult("gave up")

    made([call("add", a=1)], middleware=[patient], limits=Limits(max_seconds=0.3), go=go)

    assert ["timed out", "timed out"] == refused


@BACKENDS
def test_order(go: Go) -> None:
    """The first middleware is the outermost; each sees what the one before it wrote."""

    def adding(number: int) -> Middleware:
        async def rewriting(call: ToolCall, call_next: Next) -> ToolResult:
            a = json.loads(call.arguments)["a"] * 10 + number
            result = await call_next(dataclasses.replace(call, arguments=json.dumps({"a": a})))
            return result.replace(text=f"{result.text}, {number}")

        return rewriting

    assert ["123, 3, 2"] == texts(made([call("add", a=1)], middleware=[adding(2), adding(3)], go=go))


@BACKENDS
def test_rewritten_arguments_pass_the_gates(go: Go) -> None:
    """Arguments that a middleware rewrites are validated, authorized and approved as it wrote them."""
    seen: list[int] = []

    async def rewriting(call: ToolCall, call_next: Next) -> ToolResult:
        return await call_next(dataclasses.replace(call, arguments='{"a": "7"}'))

    def authorized(_: Any, values: Any, __: Any) -> bool:
        seen.append(values["a"])
        return True

    def approved(request: Any) -> bool:
        seen.append(request.arguments["a"])
        return False

    result = made([call("add", a=1)], middleware=[rewriting], authorize=authorized, approve=approved, go=go)

    assert ([7, 7], True) == (seen, result.calls[0].result.is_error)


@BACKENDS
def test_each_call_of_a_turn(go: Go) -> None:
    """The calls of one turn pass the middleware at the same time, each by itself."""
    together = threading.Barrier(3, timeout=10)

    async def meeting(call: ToolCall, call_next: Next) -> ToolResult:
        result = await call_next(call)
        return result.replace(text=f"{call.id[-1]}: {result.text}")

    @tool
    def meet(n: int) -> int:
        """Meet."""
        together.wait()
        return n

    calls = [call("meet", n=n) for n in range(3)]

    assert ["0: 0", "1: 1", "2: 2"] == texts(made(calls, tools=[meet], middleware=[meeting], go=go))


def test_no_such_middleware() -> None:
    """The built-in middleware are loaded by name, and no others."""
    with pytest.raises(AttributeError, match="'toolkit.middleware' has no attribute 'compress'"):
        _ = middleware.compress  # type: ignore[attr-defined]  # that is the mistake


# -- state of a run


def context_of(run_id: str) -> ToolContext[None]:
    return ToolContext(deps=None, run_id=run_id)


def test_state_per_run() -> None:
    """Each run has a state of its own, and finds it again."""
    states: PerRun[list[int]] = PerRun(list)
    states.get(context_of("a")).append(1)

    assert ([1], []) == (states.get(context_of("a")), states.get(context_of("b")))


def test_no_run() -> None:
    """Calls without a run share nothing."""
    states: PerRun[list[int]] = PerRun(list)
    states.get(context_of("")).append(1)

    assert [] == states.get(context_of(""))


def test_old_runs_are_forgotten() -> None:
    """Of too many runs, the one that was used longest ago is forgotten."""
    states: PerRun[list[int]] = PerRun(list)
    for run_id in ("old", "used", *map(str, range(MAX_RUNS - 2)), "used", "new"):
        states.get(context_of(run_id)).append(1)

    assert ([], [1, 1]) == (states.get(context_of("old")), states.get(context_of("used")))


# -- redact


def inside(data: bytes) -> str:
    """Base64 in which the secret begins in the middle of a group."""
    return base64.b64encode(b"user:" + data + b":end").decode()


def wrapped(encoded: str, line_end: str) -> str:
    """Wrap encoded bytes in short lines."""
    return line_end.join(encoded[at : at + 5] for at in range(0, len(encoded), 5))


WRITTEN: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in JSON": json.dumps,
    "in JSON as UTF-8": lambda secret: json.dumps(secret, ensure_ascii=False),
    "in JSON in JSON": lambda secret: json.dumps(json.dumps(secret)),
    "in JSON of PHP": lambda secret: json.dumps(secret).replace("/", "\\/"),
    "in JSON of PHP, in JSON": lambda secret: json.dumps(json.dumps(secret).replace("/", "\\/")),
    "by repr": repr,
    "by ascii": ascii,
    "by repr of its bytes": lambda secret: repr(secret.encode())[1:],
    "in a URL": lambda secret: quote(secret, safe=""),
    "in a URL, slashes kept": quote,
    "in a URL, lower case": lambda secret: quote(secret, safe="").replace("%C3%A9", "%c3%a9"),
    "in a form": quote_plus,
    "in HTML": html.escape,
    "in HTML, by numbers": lambda secret: html.escape(secret).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "in JSON in HTML": lambda secret: json.dumps(secret).replace("&", "\\u0026").replace("<", "\\u003C"),
    "in hex": lambda secret: secret.encode().hex(),
    "in hex, upper case": lambda secret: secret.encode().hex().upper(),
    "in base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "in base64 for URLs": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
    "in base64, in a URL": lambda secret: quote(base64.b64encode(secret.encode()).decode(), safe=""),
    "in base64, after 5 bytes": lambda secret: inside(secret.encode()),
    "in base64, after 6 bytes": lambda secret: inside(b":" + secret.encode()),
    "in base64, after 7 bytes": lambda secret: inside(b"::" + secret.encode()),
    "in hex, wrapped": lambda secret: wrapped(secret.encode().hex(), "\n"),
    "in hex, spaced": lambda secret: secret.encode().hex(" "),
    "in base64, wrapped": lambda secret: wrapped(inside(secret.encode()), "\r\n"),
    "in base64, wrapped and indented": lambda secret: wrapped(inside(b":" + secret.encode()), "\n    "),
    "in base64, wrapped, in JSON": lambda secret: json.dumps(wrapped(inside(secret.encode()), "\r\n")),
}


def giving(value: Any) -> Tool[..., Any]:
    """A tool that gives a value, or raises it."""

    @tool(relay=(ValueError,))
    def look() -> Any:
        """Look."""
        if isinstance(value, BaseException):
            raise value
        return value

    return look


def given(value: Any, *middleware: Middleware) -> ToolResult:
    """Return the outcome of a call whose tool gives a value, or raises it."""
    return made([call("look")], tools=[giving(value)], middleware=middleware).calls[0].result


@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
def test_redacts_however_it_is_written(write: Callable[[str], str]) -> None:
    """A secret is found as it is, escaped and encoded, and the text around it is kept."""
    text = given(f"before {write(SECRET)} after", redact([SECRET])).text

    assert text.startswith("before ") and text.endswith(" after")
    assert "[redacted]" in text
    assert write(SECRET).strip("\"'")[2:-4] not in text


SINKS: dict[str, Any] = {
    "text": f"the key is {SECRET}",
    "JSON": {"user": "Ann", "keys": [SECRET]},
    "tool's error": ToolError(f"no access with {SECRET}"),
    "exception": ValueError(f"no access with {SECRET}"),
    "exception's cause": ValueError("no access"),
    "error": ToolResult(error=f"no access with {SECRET}"),
    "partial result": ToolResult(SECRET, error="cut off"),
    "details": ToolResult("fine", details={"sent": SECRET}),
    "value behind a text": ToolResult({"key": SECRET}, "fine"),
    "image's neighbour": [Image(b"pixels"), SECRET],
    "object": type("Account", (), {"__str__": lambda self: f"Account({SECRET!r})"})(),
}
SINKS["exception's arguments"] = type("Quiet", (ValueError,), {"__str__": lambda self: "no access"})(SECRET)
SINKS["exception's cause"].__cause__ = KeyError(SECRET)


@BACKENDS
@pytest.mark.parametrize("value", SINKS.values(), ids=SINKS)
def test_redacts_everywhere(value: Any, go: Go, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A secret that a tool gives, however it gives it, is in no message, event, log or audit record."""
    file = tmp_path / "audit.jsonl"
    with caplog.at_level(logging.DEBUG, "toolkit"), ScriptedModel([[call("look")], "Done."]) as model:
        result = go(Runner([giving(value)], model=model, middleware=[audit(file), redact([SECRET])]))

    sinks = [repr(result.messages), repr(result.calls), repr(model.requests), caplog.text, file.read_text()]
    forms = {write(SECRET).strip("\"'") for write in (str, repr, json.dumps)}
    assert [] == [(form, sink) for form in forms for sink in sinks if form in sink]


def test_redacts_refusals() -> None:
    """A gate's reason is cleaned as well."""
    with ScriptedModel([[call("add", a=1)], "Done."]) as model:
        refusing = Runner([add], model=model, middleware=[redact([SECRET])], authorize=lambda *_: Deny(SECRET))
        result = refusing.run("Go on.")

    assert ["Tool execution was denied by authorization policy. Reason: [redacted]"] == texts(result)


def test_leaves_the_rest() -> None:
    """A value without a secret is not changed."""
    value = Path("pond")

    assert value is given(value, redact([SECRET])).value


def test_redacts_before_the_cut() -> None:
    """A secret where a long result is cut leaves no half of itself."""

    @tool(max_result=1_000)
    def look(at: int) -> str:
        """Look."""
        return "x" * at + SECRET + "y" * 5_000

    calls = [call("look", at=at) for at in range(300, 800, 10)]
    with ScriptedModel([calls, "Done."]) as model:
        result = Runner([look], model=model, middleware=[redact([SECRET])]).run("Go on.")

    assert [] == [made for made in result.calls if SECRET[:6] in made.result.text]


def test_redacts_a_short_secret() -> None:
    """A secret too short to be distinguished from ordinary text in base64 is found as it is."""
    assert "the pin is [redacted]" == given("the pin is 4711", redact(["4711"])).text


def test_redacts_in_time() -> None:
    """A secret full of backslashes does not go astray in a text full of them."""
    text = "\\" * 5_000

    assert text == given(text, redact(["\\" * 16 + "x"])).text


@pytest.mark.parametrize(("escape", "secret"), [("\\n", SECRET), ("\\t", "key-1234567890")])
def test_redacts_in_time_among_escapes(escape: str, secret: str) -> None:
    """The many escapes of a text that is JSON are passed once, and not from each of them on."""
    text = escape * 200_000

    assert text == given(text, redact([secret])).value


def test_redacts_urls_of_browsers() -> None:
    """The encodeURIComponent of JavaScript leaves more characters than Python does."""
    assert "?key=[redacted]" == given("?key=p%24w0rd!(x)*", redact(["p$w0rd!(x)*"])).text


def test_case_of_a_secret() -> None:
    """A word that differs from a secret by its case is no secret."""
    assert "Paul has no [redacted]" == given("Paul has no paul", redact(["paul"])).text


def test_redacts_patterns() -> None:
    """Patterns find what nobody knew before."""
    middleware = redact(patterns=[r"sk-\w+", re.compile("ann", re.IGNORECASE)])

    assert "[redacted]: [redacted], [redacted]" == given("Ann: sk-1, sk-2", middleware).text


@pytest.mark.parametrize("kind", [list, tuple])
def test_redacted_parts(kind: Any) -> None:
    """Beside a text that held a secret, pictures and files stay what they are."""
    picture, file = Image(SECRET.encode()), File(b"pages", "text/plain", "a.txt")
    result = given(kind([SECRET, picture, {"key": SECRET}, file]), redact([SECRET]))

    assert kind(["[redacted]", picture, {"key": "[redacted]"}, file]) == result.value
    assert '[redacted]\n[image]\n{"key":"[redacted]"}\n[file a.txt]' == result.text


def test_redacted_value() -> None:
    """A value that held a secret is plain data without it, and stays of its kind."""
    assert {"user": "Ann", "keys": ["[redacted]", 5]} == given(
        {"user": "Ann", "keys": (SECRET, 5)}, redact([SECRET])
    ).value


def test_redacted_to_pieces() -> None:
    """A value whose JSON a pattern takes apart becomes a text."""
    assert "[redacted]2}" == given({"a": 1, "b": 2}, redact(patterns=[".*:"])).value


def test_redacted_exception_keeps_its_traceback() -> None:
    """The exception that stands for one with a secret says what it was, and where it was raised."""
    error = given(ValueError(SECRET), redact([SECRET])).exception

    assert isinstance(error, RuntimeError) and error.__traceback__ is not None
    assert "ValueError: [redacted]" == str(error)
    assert "look" == traceback.extract_tb(error.__traceback__)[-1].name


def test_redacts_lines_of_source() -> None:
    """A traceback in which a line of source shows the secret is left out."""

    @tool
    def look() -> str:
        """Look."""
        raise ValueError("tok-4711-abcdef")

    result = made([call("look")], tools=[look], middleware=[redact(["tok-4711-abcdef"])])
    error = result.calls[0].result.exception

    assert ("ValueError: [redacted]", None) == (str(error), error and error.__traceback__)


@BACKENDS
def test_redacted_exception_leaves_the_run(go: Go) -> None:
    """Asked for, an exception that held a secret leaves the run without it; a ToolError stays the model's."""
    options: dict[str, Any] = {"go": go, "middleware": [redact([SECRET])], "raise_errors": True}

    assert ["[redacted]"] == texts(made([call("look")], tools=[giving(ToolError(SECRET))], **options))
    with pytest.raises(RuntimeError, match=r"^ValueError: \[redacted\]$"):
        made([call("look")], tools=[giving(ValueError(SECRET))], **options)


@pytest.mark.parametrize(
    "value",
    [
        "fine",
        {"a": [1, None]},
        [Image(b"pixels"), "seen"],
        Image(SECRET.encode()),
        ToolResult("x", details={"y": 1}),
        ToolError("no"),
    ],
    ids=["text", "JSON", "parts", "image", "details", "error"],
)
def test_nothing_to_redact(value: Any) -> None:
    """A result without a secret stays as it is, images and all."""
    plain = given(value)
    assert plain.replace(exception=None) == given(value, redact([SECRET])).replace(exception=None)


@pytest.mark.parametrize("options", [{"secrets": SECRET}, {"patterns": "sk-"}], ids=["secret", "pattern"])
def test_redacts_lists(options: dict[str, Any]) -> None:
    """One text in place of a list is refused: its characters would be taken for secrets."""
    with pytest.raises(TypeError, match=r"takes a list: write \w+=\[...\]"):
        redact(**options)


def test_redacts_texts() -> None:
    """A secret that is not there, as that of a variable which is not set, is refused."""
    with pytest.raises(TypeError, match=r"^secrets=: one is not text, such as a variable of the environment"):
        redact(secrets=[SECRET, None])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"secrets": ["abc"]}, "a secret of fewer than 4 characters"),
        ({"secrets": [SECRET, ""]}, "a secret of fewer than 4 characters"),
        ({"patterns": ["x*"]}, "the pattern 'x*' matches the empty text"),
    ],
    ids=["short", "empty", "greedy"],
)
def test_refuses_to_blot_out_everything(options: dict[str, Any], message: str) -> None:
    """A secret or a pattern that would be found in ordinary text is refused."""
    with pytest.raises(ValueError, match=re.escape(message)):
        redact(**options)


# -- cache


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def looks(*places: str) -> list[list[ToolCall]]:
    """Calls, a turn each."""
    return [[call("look", at=place)] for place in places]


@BACKENDS
def test_cached(go: Go) -> None:
    """A read with equal arguments is executed once; its text does not matter, its value does."""
    look, seen = counted(effect="read")
    turns = [[ToolCall(name="look", arguments=words)] for words in ('{"at": "a"}', '{ "at":"a" }', '{"at": "b"}')]

    assert ["1", "1", "2"] == texts(made(*turns, tools=[look], middleware=[cache()], go=go))
    assert ["a", "b"] == seen


@pytest.mark.parametrize(
    "settings",
    [{}, {"effect": "write"}, {"effect": "read", "authorize": lambda *_: True}],
    ids=["unlabelled", "write", "a gate of its own"],
)
def test_not_cached(settings: dict[str, Any]) -> None:
    """What may change something, and what has a gate of its own, is executed each time."""
    look, seen = counted(**settings)
    made(*looks("a", "a"), tools=[look], middleware=[cache()])

    assert ["a", "a"] == seen


def test_cached_value_is_a_copy() -> None:
    """Whoever changes the value of one call changes that of no other."""

    async def spoiling(call: ToolCall, call_next: Next) -> ToolResult:
        result = await call_next(call)
        result.value.append("spoilt")
        return result

    @tool(effect="read")
    def look() -> list[str]:
        """Look."""
        return ["seen"]

    result = made(*[[call("look")]] * 3, tools=[look], middleware=[spoiling, cache()])

    assert [["seen", "spoilt"]] * 3 == [finished.result.value for finished in result.calls]


def test_what_cannot_be_copied_is_not_cached() -> None:
    """A value that belongs to one call alone is made for each call."""

    @tool(effect="read")
    def look() -> Any:
        """Look."""
        return threading.Lock()

    result = made([call("look")], [call("look")], tools=[look], middleware=[cache()])

    assert 2 == len({id(finished.result.value) for finished in result.calls})


def test_cached_for_a_time() -> None:
    """A result is good for as long as `ttl` says."""
    look, seen = counted(effect="read")
    clock = Clock()

    @tool(effect="read")
    def wait(seconds: float) -> None:
        """Wait."""
        clock.seconds += seconds

    turns = [*looks("a"), [call("wait", seconds=4.9)], *looks("a"), [call("wait", seconds=0.1)], *looks("a")]
    made(*turns, tools=[look, wait], middleware=[cache(ttl=5, clock=clock)])

    assert ["a", "a"] == seen


def test_cache_is_bounded() -> None:
    """Of too many results, the one that was used longest ago is forgotten."""
    look, seen = counted(effect="read")
    made(*looks("a", "b", "a", "c", "a", "b"), tools=[look], middleware=[cache(maxsize=2)])

    assert ["a", "b", "c", "b"] == seen


def test_errors_are_not_cached() -> None:
    """A call that failed is executed again."""
    seen: list[int] = []

    @tool(effect="read")
    def look() -> int:
        """Look."""
        seen.append(1)
        raise ToolError("not yet")

    made([call("look")], [call("look")], tools=[look], middleware=[cache()])

    assert [1, 1] == seen


@pytest.mark.parametrize(
    "settings",
    [{}, {"effect": "write"}, {"effect": "write", "authorize": lambda *_: True}],
    ids=["unlabelled", "write", "a gate of its own"],
)
def test_a_change_forgets(settings: dict[str, Any]) -> None:
    """A read after a call that may change something is executed again."""
    look, seen = counted(effect="read")

    @tool(**settings)
    def change() -> None:
        """Change."""

    made(*looks("a"), [call("change")], *looks("a"), tools=[look, change], middleware=[cache()])

    assert ["a", "a"] == seen


def test_a_read_beside_a_change_is_not_cached() -> None:
    """A read that started before a change and ended after it may be out of date: nobody gets it again."""
    started, changed = threading.Event(), threading.Event()
    seen: list[str] = []

    @tool(effect="read")
    def look() -> None:
        """Look."""
        seen.append("look")
        started.set()
        assert changed.wait(10)

    @tool
    def change() -> None:
        """Change."""
        assert started.wait(10)

    async def recording(call: ToolCall, call_next: Next) -> ToolResult:
        result = await call_next(call)
        if call.name == "change":
            changed.set()
        return result

    made([call("look"), call("change")], [call("look")], tools=[look, change], middleware=[recording, cache()])

    assert ["look", "look"] == seen


def test_another_tool_of_the_name_misses() -> None:
    """A tool that took another one's name is executed, though the arguments are equal."""
    middleware = cache(shared=True)
    both = [counted(effect="read") for _ in range(2)]
    for look, _ in both:
        made(*looks("a"), tools=[look], middleware=[middleware])

    assert [["a"], ["a"]] == [seen for _, seen in both]


@pytest.mark.parametrize(("shared", "times"), [(False, 2), (True, 1)], ids=["apart", "shared"])
def test_cache_across_runs(shared: bool, times: int) -> None:
    """Runs see each other's results only where that is asked for."""
    look, seen = counted(effect="read")
    middleware = cache(shared=shared)
    for deps in ("Ann", "Bob"):
        made(*looks("a"), tools=[look], middleware=[middleware], deps=deps)

    assert times == len(seen)


@pytest.mark.parametrize("options", [{"ttl": 0}, {"maxsize": 0}, {"ttl": -1}, {"ttl": "5"}, {"maxsize": 2.5}], ids=str)
def test_cache_bounds(options: dict[str, Any]) -> None:
    """A cache that could keep nothing is refused."""
    with pytest.raises(ValueError, match="ttl must be a number of seconds above 0, and maxsize a whole number above 0"):
        cache(**options)


def test_unknown_tool_passes_the_cache() -> None:
    """A call of no tool gets the usual answer, and forgets nothing."""
    look, seen = counted(effect="read")
    result = made(*looks("a"), [call("lok")], *looks("a"), tools=[look], middleware=[cache()])

    assert (["a"], "unknown tool: 'lok'") == (seen, result.calls[1].result.text[:19])


# -- repeat_guard


def steady(answers: dict[str, Any]) -> Tool[..., Any]:
    """A tool that gives each place its answer, or raises it."""

    @tool
    def look(at: str = "") -> Any:
        """Look."""
        if isinstance(answers.get(at), Exception):
            raise answers[at]
        return answers.get(at, "nothing")

    return look


def skipped(*places: str, answers: dict[str, Any] | None = None, go: Go = run, **bounds: Any) -> str:
    """Which calls of a run a guard skips, as a row of `x` and `.`."""
    tools = [steady(answers or {})]
    result = made(*looks(*places), tools=tools, middleware=[repeat_guard(**bounds)], go=go, max_turns=50)
    return "".join("x" if text.startswith("Circuit breaker") else "." for text in map(str, texts(result)))


@BACKENDS
def test_repeats(go: Go) -> None:
    """The same call is executed so often in a row, and then skipped until there is another one."""
    assert "...xx..." == skipped(*"aaaaabaa", go=go)


GUARDED: dict[str, tuple[str, dict[str, Any], str]] = {
    "two in turn": ("abababc", {}, "....xx."),
    "two in turn, broken": ("ababcabab", {}, "........."),
    "two in turn, longer": ("abababab", {"window": 6}, "......xx"),
    "three in turn": ("abcabcabc", {}, "........."),
    "once": ("aab", {"limit": 1}, ".x."),
    "many": ("aaaaaa", {"limit": 5}, ".....x"),
}


@pytest.mark.parametrize(("places", "bounds", "row"), GUARDED.values(), ids=GUARDED)
def test_circles(places: str, bounds: dict[str, Any], row: str) -> None:
    """What a guard lets pass, and what it skips."""
    assert row == skipped(*places, **bounds)


@pytest.mark.parametrize(
    ("answers", "word"), [({}, "calls"), ({"a": ToolError("no")}, "failures")], ids=["result", "failure"]
)
def test_what_a_guard_says(answers: dict[str, Any], word: str) -> None:
    """The model reads what it repeats, and what it may do instead."""
    result = made(*looks(*"aaaa"), tools=[steady(answers)], middleware=[repeat_guard()])

    assert (
        f'Circuit breaker skipped tool "look" after repeated {word}. Equal arguments gave the same result each time: '
        "change them, use another tool, or answer with what there is."
    ) == texts(result)[-1]


def test_half_a_character_in_arguments() -> None:
    """Arguments with half a character, as a model of one's own may give them, are the tool's to refuse."""
    words = ToolCall(name="add", arguments='{"a": "\ud800", "b": 2}')
    result = made([words], middleware=[repeat_guard()])

    assert "Invalid arguments" in result.calls[0].result.text


def test_equal_by_value() -> None:
    """Calls are compared by the value of their arguments, not by their text."""
    words = ['{"a": 1, "b": 2}', '{"b":2,"a":1}', '{ "a" : 1, "b" : 2 }', '{"a":1,"b":2}']
    result = made(*([ToolCall(name="add", arguments=text)] for text in words), middleware=[repeat_guard()])

    assert [False, False, False, True] == [finished.result.is_error for finished in result.calls]


def test_no_json() -> None:
    """Arguments that are not JSON are compared as they are."""
    turns = [[ToolCall(name="add", arguments="a=1")] for _ in range(4)]
    result = made(*turns, middleware=[repeat_guard()])

    assert [False, False, False, True] == [text.startswith("Circuit") for text in map(str, texts(result))]


def test_what_changes_may_be_asked_for() -> None:
    """A call that gives another result each time is not a repetition."""
    look, seen = counted()
    made(*looks(*"aaaaaa"), tools=[look], middleware=[repeat_guard()])

    assert 6 == len(seen)


@BACKENDS
def test_repeats_in_one_turn(go: Go) -> None:
    """Equal calls of one turn count, though none has a result yet."""
    together = threading.Barrier(3, timeout=10)

    @tool
    def look() -> None:
        """Look."""
        together.wait()

    result = made([call("look")] * 5, tools=[look], middleware=[repeat_guard()], go=go)

    assert [False, False, False, True, True] == sorted(finished.result.is_error for finished in result.calls)


def test_guarded_runs_never_mix() -> None:
    """Runs of one Runner, at the same time, each count for themselves."""

    def reply(request: ModelRequest) -> Any:
        return call("look", at="a") if len(request.messages) < 6 else "Done."

    runner = Runner([steady({})], model=ScriptedModel(reply), middleware=[repeat_guard()])

    async def all_of_them() -> list[RunResult]:
        return await asyncio.gather(*(runner.arun("Go on.") for _ in range(8)))

    assert [["nothing"] * 3] * 8 == [texts(result) for result in asyncio.run(all_of_them())]


def test_a_call_that_waited_counts_once() -> None:
    """A call that waited for approval, and ran after it, is one call."""
    with ScriptedModel([[call("look")], "Done."]) as model:
        guarded = Runner([steady({})], model=model, approve=defer, middleware=[repeat_guard(limit=1)])
        paused = guarded.run("Go on.")
        result = guarded.resume(paused.state, {pending.call.id: True for pending in paused.state.pending})

    assert (["nothing"], "Done.") == (texts(result), result.output)


def test_a_guard_stops() -> None:
    """A run whose model does not listen ends, where that is asked for."""
    with ScriptedModel(looks(*"aaaaa")) as model:
        result = Runner([steady({})], model=model, middleware=[repeat_guard(stop_after=2)]).run("Go on.")

    assert result.output == 'Circuit breaker skipped tool "look" after repeated calls.'  # no advice for the model


def test_a_guard_resets() -> None:
    """After a time the call may be made again; refused calls do not prolong it."""
    times = iter([1, 2, 3, 4, 12.9, 13, 14])
    tools = [steady({})]
    guard = repeat_guard(limit=3, reset_after=10, clock=lambda: next(times))

    result = made(*looks(*"aaaaaaa"), tools=tools, middleware=[guard], max_turns=50)

    assert [False, False, False, True, True, False, False] == [
        str(text).startswith("Circuit") for text in texts(result)
    ]
    with pytest.raises(ValueError, match=r"reset_after=0\): it must be"):
        repeat_guard(reset_after=0)


@pytest.mark.parametrize(
    "bounds", [{"limit": 0}, {"limit": 2_000_000}, {"window": 2}, {"window": 5}, {"stop_after": 0}], ids=str
)
def test_guard_bounds(bounds: dict[str, Any]) -> None:
    """A bound that makes no sense is refused."""
    expected = "limit and stop_after must be at least 1, and window an even number of at least 4; none above 1,000,000."
    with pytest.raises(ValueError, match=expected):
        repeat_guard(**bounds)


# -- audit


@BACKENDS
def test_audited(go: Go) -> None:
    """Each call is written down: who, what, how it ended, and no contents."""
    records: list[Any] = []
    result = made([call("add", a=1, b=SECRET), call("add", a=1)], middleware=[audit(records.append)], go=go)

    records.sort(key=lambda record: record["call"])
    assert ["at", "run", "call", "tool", "arguments", "outcome", "seconds"] == list(records[0])
    assert [
        (result.state.run_id, finished.call.id, "add", outcome)
        for finished, outcome in zip(result.calls, ["invalid_arguments", "ok"])
    ] == [(record["run"], record["call"], record["tool"], record["outcome"]) for record in records]
    assert hashlib.sha256(b'{"a":1}').hexdigest() == records[1]["arguments"]
    assert SECRET not in repr(records)


OUTCOMES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "result": (1, {}, "ok"),
    "error": (ToolError("no"), {}, "failed"),
    "exception": (LookupError("no"), {}, "failed"),
    "refused": (1, {"authorize": lambda *_: False}, "denied"),
}


@pytest.mark.parametrize(("value", "options", "outcome"), OUTCOMES.values(), ids=OUTCOMES)
def test_outcome(value: Any, options: dict[str, Any], outcome: str) -> None:
    """A record has the outcome of its call in one word."""
    records: list[Any] = []
    made([call("look")], tools=[giving(value)], middleware=[audit(records.append)], **options)

    assert [outcome] == [record["outcome"] for record in records]


def test_who_made_a_call_is_audited() -> None:
    """The function may take the context, and record who made a call; of a sub-agent's call, too."""
    users: list[Any] = []
    inner = Runner([giving(SECRET)], model=ScriptedModel([call("look"), "Seen."]), name="inner")
    outer = ScriptedModel([call("subagent_inner", query="Look."), "Done."])
    log = audit(lambda record, context: users.append((record["tool"], context.deps)))
    Runner([inner], model=outer, middleware=[log]).run("Go.", deps="Ann")

    assert [("look", "Ann"), ("subagent_inner", "Ann")] == users


def test_end_of_the_run_is_audited() -> None:
    """A call that ends the run has a record, too."""
    records: list[Any] = []
    with pytest.raises(FatalError), ScriptedModel([[call("look")]]) as model:
        Runner([giving(FatalError("end"))], model=model, middleware=[audit(records.append)]).run("Go on.")

    assert ["FatalError"] == [record["outcome"] for record in records]


def test_audit_file(tmp_path: Path) -> None:
    """A file gets a line of JSON for each call, behind what it held."""
    file = tmp_path / "audit.jsonl"
    file.write_text('{"tool": "earlier"}\n')
    made([call("add", a=1), call("no\nsuch")], middleware=[audit(file)])

    assert {"earlier", "add", "no\nsuch"} == {json.loads(line)["tool"] for line in file.read_text().splitlines()}


def test_audit_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    """A call whose record cannot be written continues, and the log says why."""
    result = made([call("add", a=1)], middleware=[audit(raising(OSError("disk full")))])

    assert (["1"], True) == (texts(result), "disk full" in caplog.text)


def raising(error: Exception) -> Callable[..., Any]:
    def raises(*_: Any) -> Any:
        raise error

    return raises


async def write_later(record: Any) -> None:
    """Write nothing."""


@pytest.mark.parametrize(("write", "error"), [(write_later, TypeError), (5, DefinitionError)], ids=["async", "number"])
def test_audit_without_a_writer(write: Any, error: type[Exception]) -> None:
    """What is neither a plain function nor a path is refused."""
    with pytest.raises(error, match=r"plain function|^write=5 is not"):
        audit(write)


def test_audit_file_that_cannot_be() -> None:
    """A path that cannot be written to is refused before any run."""
    with pytest.raises(OSError, match="nowhere"):
        audit("/nowhere/at/all.jsonl")


@pytest.mark.parametrize("is_async", [False, True])
def test_error_alone_is_changed(is_async: bool) -> None:
    """A middleware that changes only the error changes what the model reads, too."""

    @tool
    def log_in() -> str:
        """Log in."""
        raise ToolError("login failed for sk-123")

    async def hide(call: ToolCall, call_next: Any) -> ToolResult:
        result: ToolResult = await call_next(call)
        return result.replace(error="login failed for ***")

    runner = Runner([log_in], model=ScriptedModel([call("log_in"), "Done."]), middleware=[hide])
    result = asyncio.run(runner.arun("Go")) if is_async else runner.run("Go")

    assert "login failed for ***" == result.calls[0].result.text == result.messages[2].text


@pytest.mark.parametrize("maker", [audit, cache, redact, repeat_guard])
def test_maker_in_place_of_a_middleware(maker: Any) -> None:
    """A function that makes a middleware is not taken for one."""
    with pytest.raises(TypeError, match=rf"{maker.__name__} must take .* If it makes a middleware, call it\."):
        Runner([], middleware=[maker])
