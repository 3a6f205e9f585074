"""Mistakes of the application that are found before the model is called, and runs that end without an answer."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import sqlite3
import traceback
from collections.abc import Callable, Coroutine
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

import pytest
from openai import OpenAI

from tests.ways import arun, astream, run, stream
from toolkit import (
    ApprovalError,
    Decision,
    DefinitionError,
    FallbackModel,
    File,
    Image,
    Limits,
    MemoryLedger,
    ModelError,
    Prices,
    Runner,
    RunResult,
    SQLiteSession,
    Tool,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolError,
    tool,
)
from toolkit.approvers import Console, defer
from toolkit.builtin import (
    Action,
    ask_user_tool,
    code_tool,
    fetch,
    ingest_message,
    ingest_text,
    ingest_url,
    next_run,
    weather_tool,
)
from toolkit.events import RunFinished
from toolkit.middleware import PerRun, audit, cache, redact, repeat_guard
from toolkit.sources.retrievers import retriever_tool
from toolkit.stores import OpenAIEmbeddings, SQLiteKnowledge
from toolkit.testing import ScriptedModel, call


def misnamed(x: "Nope") -> str:  # type: ignore[name-defined]  # noqa: F821, UP037
    """Take something of an unknown type."""
    return str(x)


def test_bad_signature() -> None:
    """A tool that cannot be described to a model is refused when the runner is made."""
    with pytest.raises(DefinitionError, match=r"misnamed\(\).*'x'.*Nope"):
        Runner([misnamed], model=ScriptedModel([]))


ASYNC_WAYS: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
    "arun": lambda: Runner(model=ScriptedModel(["ok"])).arun("?"),
    "amap": lambda: Runner(model=ScriptedModel(["ok"])).amap(["?"]),
    "astream": lambda: Runner(model=ScriptedModel(["ok"])).astream("?").__anext__(),
    "acall": lambda: Toolbox([look]).acall("look", "{}"),
    "acall_many": lambda: Toolbox([look]).acall_many([ToolCall(name="look", arguments="{}")]),
    "ainvoke": lambda: tool(look).ainvoke("{}"),
}


@pytest.mark.parametrize("way", ASYNC_WAYS.values(), ids=ASYNC_WAYS)
def test_event_loop_of_another_library(way: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """An async method that no event loop of asyncio runs, but that of trio or curio, says what to do instead."""
    with pytest.raises(RuntimeError, match=r"needs an event loop of asyncio.* trio\.to_thread\.run_sync\(runner\.run"):
        way().send(None)


HUGE = 10**400  # a number that no float can hold

NUMBERS: dict[str, Callable[[Any], object]] = {
    "max_seconds": lambda value: Limits(max_seconds=value),
    "max_seconds_per_turn": lambda value: Limits(max_seconds_per_turn=value),
    "max_cost": lambda value: Limits(max_cost=value, prices=Prices(input=1, output=1)),
    "input": lambda value: Prices(input=value, output=1),
    "runs": lambda value: MemoryLedger(0 if value == HUGE else value),  # any whole number above 0
    "ttl": lambda value: cache(ttl=value),
    "limit": lambda value: repeat_guard(limit=value),
    "window": lambda value: repeat_guard(window=value),
    "stop_after": lambda value: repeat_guard(stop_after=value),
    "reset_after": lambda value: repeat_guard(reset_after=value),
    "dimensions": lambda value: OpenAIEmbeddings("small", dimensions=value),
    "timeout": lambda value: OpenAIEmbeddings("small", timeout=value),
    "top_k": lambda value: retriever_tool(list, "docs", top_k=value),
    "min_score": lambda value: retriever_tool(list, "docs", min_score=value),
    "next_run": lambda value: Action(description="", schedule="daily 10:00", zone="UTC", next_run=value),
    "max_memory": lambda value: code_tool([], max_memory=value),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_option_that_is_no_number(name: str) -> None:
    """An option that counts, or measures time or money, refuses what is no number or too large for it, by its name."""
    refused = rf"{name}=.* (must be|is no|not a|not below)"
    for value in (HUGE, True, "3", Decimal(3), timedelta(3), [3]):
        with pytest.raises((DefinitionError, TypeError, ValueError), match=refused):
            NUMBERS[name](value)


FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "read": lambda value: Console(read=value),
    "write": lambda value: Console(write=value),
    "clock": lambda value: cache(clock=value),
    "clock of a guard": lambda value: repeat_guard(clock=value),
    "make": PerRun,
    "embed": lambda value: ingest_text("text", SQLiteKnowledge(), value),
}


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0] for _ in texts]


async def wait() -> str:
    return "an answer that nothing awaits"


@pytest.mark.parametrize("value", [3, "print", wait], ids=["number", "text", "async"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_option_that_is_no_function(name: str, value: object) -> None:
    """An option that is called, and not awaited, refuses what is no sync function."""
    with pytest.raises(DefinitionError, match="is not a function|is asynchronous: give a plain function"):
        FUNCTIONS[name](value)


TEXTS: dict[str, Callable[[Any], object]] = {
    "prefixed": lambda value: Toolbox([look]).prefixed(value),
    "unbind": lambda value: Toolbox([look]).unbind(value),
    "name": lambda value: Runner().as_tool(value, "looks"),
    "description": lambda value: Runner().as_tool("look", value),
    "arg": lambda value: Runner().as_tool("look", "looks", arg=value),
    "handoff": lambda value: Runner().as_tool("look", "looks", handoff=value),
    "session": lambda value: SQLiteSession(":memory:", value),
    "media_type": lambda value: Image(b"", value),
    "file": lambda value: File(b"", value),
    "url": fetch,
    "base_url": lambda value: weather_tool(base_url=value),
    "rule": lambda value: next_run(value, 0, "UTC"),
    "content": lambda value: ingest_text(value, SQLiteKnowledge(), embed),
    "role": lambda value: ingest_message(value, "text", SQLiteKnowledge(), embed),
    "page": lambda value: ingest_url(value, SQLiteKnowledge(), embed),
    "store": lambda value: ingest_text("text", value, embed),
    "agent": lambda value: ask_user_tool(input, agent=value),
    "audit": audit,
    "secrets": redact,
    "models": FallbackModel,
}


@pytest.mark.parametrize("name", TEXTS)
def test_option_that_is_no_text(name: str) -> None:
    """A wrong value is refused where it is written, by an error that shows it or names its option."""
    for value in (3, [3], object()):
        shown = re.escape(repr(value)[:100])
        with pytest.raises((DefinitionError, TypeError, ValueError), match=rf"{shown}|secrets=|names=") as caught:
            TEXTS[name](value)
        assert not isinstance(caught.value, ToolError)


def test_timeout_that_is_no_number() -> None:
    """A wait for a result refuses what is no number of seconds; more prompts at a time than there are is no mistake."""
    wrong: Any = timedelta(seconds=3)
    runner = Runner(model=ScriptedModel(["ok", "ok"]))

    with pytest.raises(TypeError, match=r"timeout=datetime\.timedelta\(seconds=3\) is not a number of seconds"):
        runner.start("?").result(wrong)
    assert ["ok"] == [answer.output for answer in runner.map(["?"], max_parallel=HUGE) if isinstance(answer, RunResult)]


def test_result_in_the_place_of_its_parts() -> None:
    """A result in place of its messages or state, and one decision for all, are refused with what is taken."""
    runner = Runner([look], model=ScriptedModel([call("look")]), approve=defer)
    paused = runner.run("?")
    given: Any = paused
    all_of_them: Any = True

    with pytest.raises(TypeError, match=r"a list of messages, such as result\.messages, not RunResult"):
        runner.run("?", messages=given)
    with pytest.raises(TypeError, match=r"a list of messages, such as result\.messages, not 'Hi\.'"):
        runner.run("?", messages="Hi.")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"resume\(\) takes result\.state, .* not RunResult"):
        runner.resume(given, {})
    with pytest.raises(ApprovalError, match="Decisions are by call id"):
        runner.resume(paused.state, all_of_them)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"instructions": len}, "is not text; a hook with before_model may add one to each request"),
        ({"api_key": b"sk"}, "api_key=... is not text"),
        ({"instructions": ["x" * 10_000]}, f"instructions=['{'x' * 98} is not text"),
        ({"tool_choice": 5}, "tool_choice=5 is not text"),
        ({"allowed_tools": "look"}, "allowed_tools='look' is not a list of names of tools"),
        ({"allowed_tools": 5}, "allowed_tools=5 is not a list of names of tools"),
        ({"allowed_tools": iter(["look"])}, " is not a list of names of tools"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else "",
)
def test_wrong_options(options: Any, why: str) -> None:
    """An option of a wrong type is refused when the runner is made."""
    with pytest.raises(TypeError, match=re.escape(why)):
        Runner([look], model=ScriptedModel([]), **options)


@pytest.mark.parametrize(
    ("make", "options", "why"),
    [
        (partial(tool, misnamed), {"title": 6}, "title=6 is not text"),
        (partial(tool, misnamed), {"description": 5}, "description=5 is not text"),
        (partial(tool, misnamed), {"effect": "x" * 10_000}, f"effect='{'x' * 99} is not 'read', 'write' or"),
        (partial(Tool.from_schema, "f", {"properties": {}}), {"title": 6}, "title=6 is not text"),
        (Toolbox, {"strict": "x"}, "Toolbox(strict='x') is not True or False"),
        (Toolbox, {"references": "x"}, "Toolbox(references='x') is not True or False"),
        (Toolbox, {"check_output": 5}, "Toolbox(check_output=5) is not True or False"),
        (Toolbox, {"defaults": 5}, "Toolbox(defaults=5) is not a dict of options of tools"),
    ],
    ids=["title", "description", "effect", "schema", "strict", "references", "check_output", "defaults"],
)
def test_wrong_definitions(make: Callable[..., object], options: dict[str, Any], why: str) -> None:
    """An option of a tool or a toolbox is checked where it is written."""
    with pytest.raises(DefinitionError, match=re.escape(why)):
        make(**options)


def test_none_is_no_limit() -> None:
    """`max_turns=None` is no limit, on a Runner as in Limits; without it there are ten turns."""
    assert None is Runner(max_turns=None).limits.max_turns is Limits(max_turns=None).max_turns
    assert 10 == Runner().limits.max_turns == Runner(limits=Limits(max_calls=3)).limits.max_turns
    assert 5 == Runner(limits=Limits(max_turns=5)).limits.max_turns
    assert Runner(max_turns=5).fingerprint() == Runner(limits=Limits(max_turns=5)).fingerprint()


def query(context: ToolContext[sqlite3.Connection]) -> str:
    """Query the database."""
    return str(context.deps.execute("select 1").fetchone())


def query_if_any(context: ToolContext[sqlite3.Connection | None]) -> str:
    """Query the database, if there is one."""
    return str(context.deps)


def ignore(context: ToolContext) -> str:
    """Ignore the deps."""
    return str(context.deps)


def look(context: ToolContext[Any]) -> str:
    """Take any deps."""
    return str(context.deps)


def test_missing_deps() -> None:
    """A tool that takes deps of a type is not run without any, and the model is not called."""
    model = ScriptedModel([call("query"), "Done."])
    text = r"query\(\) takes a ToolContext\[Connection\], and there are no deps: pass deps= to the run"
    with pytest.raises(TypeError, match=text):
        Runner([query], model=model).run("?")

    assert [] == model.requests


class Readable(Protocol):
    """Something that can be read."""

    def read(self) -> str: ...


def use(context: ToolContext[Readable]) -> str:
    """Use deps of a protocol."""
    return str(context.deps)


def count(context: ToolContext[list[int]]) -> str:
    """Use deps of a generic type."""
    return str(context.deps)


def write(context: ToolContext[Callable[[str], str]]) -> str:
    """Use deps of a generic type whose arguments are a list."""
    return str(context.deps)


def test_builtin_deps() -> None:
    """A builtin value in place of an object is refused before the first request, and in a call."""
    model = ScriptedModel([call("query"), "Done."])
    text = r"takes a ToolContext\[Connection\], and the deps are of type str: pass {} of type Connection\."
    with pytest.raises(TypeError, match=text.format("deps= to the run,")):
        Runner([query], model=model).run("?", deps="shop.db")
    with pytest.raises(TypeError, match=text.format(r"context=ToolContext\(deps=...\),")):
        tool(query).invoke("{}", ToolContext(deps="shop.db"))

    assert [] == model.requests


def test_deps_that_stand_in() -> None:
    """An object of a class of the application may stand in for one of another, such as in a test."""

    class Fake:
        def execute(self, _: str) -> Any:
            return self

        def fetchone(self) -> tuple[int]:
            return (7,)

    result = Runner([query], model=ScriptedModel([call("query"), "Done."])).run("?", deps=Fake())

    assert "(7,)" == result.calls[0].result.text


@pytest.mark.parametrize("function", [use, count, write])
def test_deps_that_are_not_compared(function: Any) -> None:
    """Only plain classes are compared."""
    result = Runner([function], model=ScriptedModel([call(function.__name__), "Done."])).run("?", deps="x")

    assert "x" == result.calls[0].result.text


@pytest.mark.parametrize(
    "go",
    [
        lambda: tool(query).invoke(),
        lambda: asyncio.run(tool(query).ainvoke()),
        lambda: Toolbox([query]).call("query"),
        lambda: asyncio.run(Toolbox([query]).acall("query")),
        lambda: Toolbox([query]).call_many([ToolCall(name="query")]),
        lambda: Toolbox([query], references=True).call("query"),
    ],
    ids=["invoke", "ainvoke", "call", "acall", "call_many", "references"],
)
def test_call_without_deps(go: Callable[[], object]) -> None:
    """A call without a run says how its tool gets its deps."""
    text = r"query\(\) takes a ToolContext\[Connection\], .* no deps: pass context=ToolContext\(deps=...\)\."
    with pytest.raises(TypeError, match=text):
        go()


def test_deps_of_a_bound_function() -> None:
    """The deps of a function that is bound to a declared tool are checked as well."""
    box = Toolbox([Tool.from_schema("weather", {"type": "object", "properties": {}})])
    box.bind("weather", query)

    with pytest.raises(TypeError, match=r"takes a ToolContext\[Connection\]"):
        Runner(box, model=ScriptedModel([])).run("?")


@pytest.mark.parametrize("function", [query_if_any, ignore, look])
def test_deps_that_may_be_missing(function: Any) -> None:
    """Where None is of the deps' type, a run needs no deps."""
    result = Runner([function], model=ScriptedModel([call(function.__name__), "Done."])).run("?")

    assert "None" == result.calls[0].result.text


@pytest.mark.parametrize("run", [{"order": "sequential"}, {"order": "parallel"}])
def test_connection(run: Any) -> None:
    """Calls in sequence run on the caller's thread, which a connection of SQLite demands; parallel ones do not."""
    model = ScriptedModel([[call("query"), call("query")], "Done."])
    with closing(sqlite3.connect(":memory:")) as connection:
        result = Runner([query], model=model, **run).run("?", deps=connection)

    assert (run["order"] == "sequential") is all(made.result.text == "(1,)" for made in result.calls)


@pytest.mark.parametrize("go", [run, arun, stream, astream])
def test_refused_port(go: Callable[[Runner], Any]) -> None:
    """Where nobody listens, the traceback is short and ends with what to do; the client's error is the cause."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        runner = Runner(model="fake", base_url=f"http://127.0.0.1:{free.getsockname()[1]}", api_key="test")
        with pytest.raises(ModelError) as caught:
            go(runner)
    *frames, last = traceback.format_exception(caught.value)

    assert len(frames) < 15
    assert "check base_url and that it runs." in last
    assert caught.value.cause is not None and caught.value.cause.__traceback__ is not None


@tool(effect="destructive", approve=True)
def delete_book(title: str) -> str:
    """Delete a book."""
    return title


def test_print_of_a_paused_call() -> None:
    """A call that waits is printed with the values that it imports, so that nothing that is approved is hidden."""
    importing = tool(delete_book, imports=["city"])
    runner = Runner([importing], model=ScriptedModel([call("delete_book", title="Dune")]), approve=defer)

    (waiting,) = runner.run("Delete it.", shared={"city": "Oslo"}).pending
    assert 'delete_book({"title": "Dune"}) with {"city": "Oslo"}' == str(waiting)


ENDS: list[tuple[Tool[..., Any], dict[str, Any], list[Any], str]] = [
    (
        delete_book,
        {"approve": defer},
        [call("delete_book", title="Dune")],
        '[paused: delete_book({"title": "Dune"}) waits for approval]',
    ),
    (
        delete_book,
        {"approve": defer},
        [[call("delete_book", title="Dune"), call("delete_book", title="Emma")]],
        '[paused: delete_book({"title": "Dune"}), delete_book({"title": "Emma"}) wait for approval]',
    ),
    (tool(ignore), {"limits": Limits(max_turns=1)}, [call("ignore"), ""], "[stopped: max_turns]"),
    (tool(ignore), {"limits": Limits(max_turns=1)}, [call("ignore"), "Nearly."], "Nearly.\n[stopped: max_turns]"),
    (delete_book, {"approve": lambda _: Decision.stop("no")}, [call("delete_book", title="Dune")], "[stopped: no]"),
    (delete_book, {"approve": lambda _: Decision.stop()}, [call("delete_book", title="Dune")], "[stopped]"),
    (tool(ignore), {}, ["It is done."], "It is done."),
]


@pytest.mark.parametrize(
    ("made", "options", "replies", "text"),
    ENDS,
    ids=["paused", "two paused", "limit", "text at a limit", "approver", "no reason", "answer"],
)
def test_printed_result(made: Tool[..., Any], options: dict[str, Any], replies: list[Any], text: str) -> None:
    """A result is printed as its answer; without one, as the reason why."""
    assert text == str(Runner([made], model=ScriptedModel(replies), **options).run("?"))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    """The log has a run at level DEBUG: each request, response and call."""
    caplog.set_level(logging.DEBUG, logger="toolkit")
    Runner([add], model=ScriptedModel([call("add", a=15, b=27), "It is 42."])).run("What is 15 + 27?")
    _, first, response, called, second, last = caplog.messages

    assert first.startswith("Request to 'scripted', tools ['add'], messages")
    assert "What is 15 + 27?" in first
    assert "'add'" in response
    assert called.startswith('Call add({"a": 15, "b": 27}) gave \'42\' in 0.')
    assert "ToolMessage" in second
    assert "It is 42." in last


def test_no_answer_in_events() -> None:
    """The last event of a run without an answer has no output."""
    runner = Runner([delete_book], approve=defer, model=ScriptedModel([call("delete_book", title="Dune")]))
    *_, last = runner.stream("?")

    assert isinstance(last, RunFinished)
    assert ("", "paused") == (last.output, last.finish_reason)


def test_client_that_is_made_later() -> None:
    """A proxy is taken as it is: the client behind it may not exist before the first request."""

    class Later:
        def __getattr__(self, name: str) -> object:
            raise RuntimeError("no client yet")

    runner = Runner(client=Later(), model="m")
    with pytest.raises(RuntimeError, match="no client yet"):
        runner.run("Hi")


@pytest.mark.parametrize(
    "client",
    [OpenAI, "http://localhost:11434/v1", "", json, SimpleNamespace(messages=1)],
    ids=["class", "address", "empty", "module", "other API"],
)
def test_client_that_is_none(client: object) -> None:
    """A client's class, module or address, even an empty one, is refused when the runner is made, as is another API."""
    with pytest.raises(TypeError, match=r"is not a client of OpenAI's API: write client=OpenAI\(\.\.\.\), base_url="):
        Runner(client=client, model="m")


def test_approve_that_is_no_function() -> None:
    """What is no approver is refused with the names of some."""
    with pytest.raises(TypeError, match=r"approve=True is not a function .* Console\(\) or approve_all"):
        Runner(approve=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_async", [False, True])
def test_exception_of_a_tool_without_a_run(is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    """What a tool raises is logged with its traceback, though the result has a text; a ToolError is an answer."""

    @tool
    def read(name: str) -> str:
        """Read a shelf."""
        if name == "locked":
            raise ToolError("It is locked.")
        raise KeyError(name)

    for name in ("a", "locked"):
        asyncio.run(read.ainvoke({"name": name})) if is_async else read.invoke({"name": name})

    (record,) = caplog.records
    assert ("Tool read raised KeyError (relay= lets the model read the message)", logging.WARNING) == (
        record.getMessage(),
        record.levelno,
    )
    assert "raise KeyError(name)" in caplog.text
