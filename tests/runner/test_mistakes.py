"""Mistakes of the application that are found before the model is called, and runs that end without an answer."""

from __future__ import annotations

import logging
import sqlite3
from typing import Any

import pytest

from toolkit import ApprovalError, Decision, DefinitionError, Limits, Runner, Tool, ToolContext, tool
from toolkit.approvers import defer
from toolkit.events import RunFinished
from toolkit.testing import ScriptedModel, call


def misnamed(x: "Nope") -> str:  # type: ignore[name-defined]  # noqa: F821, UP037
    """Take something of an unknown type."""
    return str(x)


def test_bad_signature() -> None:
    """A tool that cannot be described to a model is refused when the runner is made."""
    with pytest.raises(DefinitionError, match=r"misnamed\(\).*'x'.*Nope"):
        Runner([misnamed], model=ScriptedModel([]))


def test_result_in_the_place_of_its_parts() -> None:
    """A result in the place of its messages or state, and one decision for all, are refused with what is taken."""
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
    with pytest.raises(TypeError, match=r"query\(\) takes a ToolContext with deps: pass deps= to the run"):
        Runner([query], model=model).run("?")

    assert [] == model.requests


@pytest.mark.parametrize("function", [query_if_any, ignore, look])
def test_deps_that_may_be_missing(function: Any) -> None:
    """Where None is of the deps' type, a run needs no deps."""
    result = Runner([function], model=ScriptedModel([call(function.__name__), "Done."])).run("?")

    assert "None" == result.calls[0].result.text


@pytest.mark.parametrize("run", [{"order": "sequential"}, {"order": "parallel"}])
def test_connection(run: Any) -> None:
    """Calls in sequence run on the caller's thread, which a connection of SQLite demands; parallel ones do not."""
    model = ScriptedModel([[call("query"), call("query")], "Done."])
    result = Runner([query], model=model, **run).run("?", deps=sqlite3.connect(":memory:"))

    assert (run["order"] == "sequential") is all(made.result.text == "(1,)" for made in result.calls)


@tool(effect="destructive", approve=True)
def delete_book(title: str) -> str:
    """Delete a book."""
    return title


ENDS: list[tuple[Tool[..., Any], dict[str, Any], list[Any], str]] = [
    (
        delete_book,
        {"approve": defer},
        [call("delete_book", title="Dune")],
        '[paused: delete_book({"title": "Dune"}) waits for approval]',
    ),
    (tool(ignore), {"limits": Limits(max_turns=1)}, [call("ignore"), ""], "[stopped: max_turns]"),
    (tool(ignore), {"limits": Limits(max_turns=1)}, [call("ignore"), "Nearly."], "Nearly.\n[stopped: max_turns]"),
    (delete_book, {"approve": lambda _: Decision.stop("no")}, [call("delete_book", title="Dune")], "[stopped]"),
    (tool(ignore), {}, ["It is done."], "It is done."),
]


@pytest.mark.parametrize(
    ("made", "options", "replies", "text"), ENDS, ids=["paused", "limit", "text at a limit", "approver", "answer"]
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
