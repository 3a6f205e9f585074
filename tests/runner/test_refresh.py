"""Options of a run about its tools and their errors: changes of the toolbox, the texts of errors, approval in time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.ways import arun, astream, run, start, stream
from toolkit import DuplicateToolError, Failed, Limits, Runner, RunResult, Toolbox, ToolResult, tool
from toolkit.approvers import defer
from toolkit.models import ToolMessage
from toolkit.testing import ScriptedModel, call

Go = Callable[..., RunResult]
WAYS = pytest.mark.parametrize("go", [run, arun, stream, astream, start])


@tool
def late() -> str:
    """Come late."""
    return "late"


def growing(*, removes: bool = False) -> Toolbox:
    """Return a toolbox with a tool that changes the toolbox."""
    box = Toolbox()

    @tool
    def change() -> str:
        """Change the tools."""
        if removes:
            box.remove("change")
        box.add(late)
        return "changed"

    box.add(change)
    return box


SCRIPT: Any = [[call("change")], [call("late")], "Done."]


@WAYS
def test_changes_are_seen_at_the_next_turn(go: Go) -> None:
    """With refresh="iteration" a tool that was added is offered and called, one that was removed is not."""
    model = ScriptedModel(SCRIPT)
    result = go(Runner(growing(removes=True), model=model, refresh="iteration"))

    assert ["changed", "late"] == [done.result.text for done in result.calls]
    assert [["change"], ["late"], ["late"]] == [[spec.name for spec in request.tools] for request in model.requests]


@WAYS
def test_limit_of_a_removed_tool(go: Go) -> None:
    """A limit for calls of a tool that is removed during the run does not end it."""
    limits = Limits(max_calls_per_tool={"change": 1})
    runner = Runner(growing(removes=True), model=ScriptedModel(SCRIPT), refresh="iteration", limits=limits)

    assert "Done." == go(runner).output


@WAYS
def test_changes_wait_for_the_next_run(go: Go) -> None:
    """By default a run keeps the tools that it started with."""
    model = ScriptedModel([*SCRIPT, "Again."])
    runner = Runner(growing(), model=model)
    result = go(runner)
    go(runner)

    assert [None, "not_found"] == [done.result.kind for done in result.calls]
    assert [1, 1, 1, 2] == [len(request.tools) for request in model.requests]


def test_a_replaced_tool_and_a_long_result() -> None:
    """A tool of the same name is replaced, too, and the tool that reads long results stays."""
    box = Toolbox()

    @tool
    def grow() -> str:
        """Grow."""

        @tool(name="grow")
        def grown() -> str:
            """Be grown."""
            return "grown"

        box.replace(grown)
        return "x" * 5_000

    box.add(grow)
    model = ScriptedModel([[call("grow")], [call("grow")], "Done."])
    Runner(box, model=model, refresh="iteration", max_result=1_000).run("Grow.")

    tools = [{spec.name: spec.description for spec in request.tools} for request in model.requests]
    assert ["Grow.", "Be grown.", "Be grown."] == [each["grow"] for each in tools]
    assert [False, True, True] == ["result_read" in each for each in tools]


@tool
def fail(text: str = "") -> str:
    """Fail."""
    raise Failed(f"no {text}")


def describe(result: ToolResult) -> str:
    return f"Tool execution failed: {result.error} ({result.kind})"


@WAYS
def test_texts_of_errors(go: Go) -> None:
    """One function makes the text of every kind of error; what it was made of stays in the result."""
    calls = [call("fail", text="tea"), call("fail", text=5, more=1), call("unknown"), call("late")]
    model = ScriptedModel([calls, "Done."])
    result = go(Runner([fail, late], model=model, format_error=describe))

    sent = [message.text for message in model.requests[-1].messages if isinstance(message, ToolMessage)]
    assert "Tool execution failed: no tea (failed)" == sent[0]
    assert [True, True, True, False] == [text.startswith("Tool execution failed: ") for text in sent]
    assert "late" == sent[3]
    assert sent == [done.result.text for done in result.calls]
    assert ("no tea", "failed") == (result.calls[0].result.error, result.calls[0].result.kind)
    assert isinstance(result.calls[0].exception, Failed)


def test_a_call_that_waits_is_no_error() -> None:
    """A call that waits for approval is not described as an error."""
    asked: list[ToolResult] = []

    def remember(result: ToolResult) -> str:
        asked.append(result)
        return "x"

    @tool(approve=True)
    def pay() -> None:
        """Pay."""

    assert Runner([pay], model=ScriptedModel([[call("pay")]]), approve=defer, format_error=remember).run("x").is_paused
    assert [] == asked


@pytest.mark.parametrize("wrong", [lambda result: 5, lambda result: 1 / 0], ids=["no text", "exception"])
def test_a_formatter_that_fails(wrong: Any, caplog: pytest.LogCaptureFixture) -> None:
    """If the function fails, the model reads the text as it was, and the log says why."""
    model = ScriptedModel([[call("fail", text="tea")], "Done."])
    with caplog.at_level(logging.ERROR, "toolkit"):
        result = Runner([fail], model=model, format_error=wrong).run("x")

    assert "no tea" == result.calls[0].result.text
    assert "format_error failed" in caplog.text


def test_a_formatter_that_writes_half_a_character() -> None:
    """The text that a function makes of an error can be sent: half a character is replaced, as in a result."""
    model = ScriptedModel([[call("fail", text="tea")], "Done."])
    runner = Runner([fail], model=model, format_error=lambda _: "a\ud800")

    assert "a\ufffd" == runner.run("x").calls[0].result.text


@pytest.mark.parametrize(
    ("options", "kind", "fault"),
    [
        (
            {"approval_timeout": 60, "limits": Limits(max_seconds=60)},
            ValueError,
            r"timeout \(60 s\) must be less",
        ),
        ({"approval_timeout": 31 * 24 * 3600 + 1}, ValueError, "at most 31 days"),
        ({"refresh": "turn"}, ValueError, "refresh='turn' is not 'run' or 'iteration'"),
        ({"refresh": 1}, TypeError, "refresh=1 is not 'run' or 'iteration'"),
        ({"format_error": "x"}, TypeError, "format_error='x' is not a function of a ToolResult"),
        ({"format_error": lambda: ""}, TypeError, "is not a function of a ToolResult"),
        ({"approve": lambda: True}, TypeError, "is not a function of an ApprovalRequest"),
        ({"authorize": lambda request: True}, TypeError, "is not a function of tool, arguments and context"),
        ({"checkpoint": lambda: None}, TypeError, "is not a function of a RunState"),
    ],
)
def test_wrong_options(options: dict[str, Any], kind: type[Exception], fault: str) -> None:
    """A wrong option is refused when the runner is made."""
    with pytest.raises(kind, match=fault):
        Runner(model=ScriptedModel([]), **options)
    assert Runner(model=ScriptedModel([]), approval_timeout=59, limits=Limits(max_seconds=60))


# -- reserved names


@tool
def result_read(handle: str) -> str:
    """Read a result of my own."""
    return handle


def test_reserved_name() -> None:
    """A tool with the name of the one that a run adds is refused when the runner is made, with the way out."""
    with pytest.raises(DuplicateToolError, match=r"adds a tool 'result_read' .* another name="):
        Runner([result_read])


def test_name_of_the_answer() -> None:
    """The tool whose call is the answer takes another name where a tool has its own."""
    model = ScriptedModel(['{"result": 3}'])
    box = Toolbox([tool(name="final_result")(late), tool(name="final_result_2")(late)])
    Runner(box, model=model).run("go", output_type=int)
    (request,) = model.requests

    assert request.output is not None
    assert "final_result_3" == request.output.spec.name


@WAYS
@pytest.mark.parametrize("refresh", ["run", "iteration"])
def test_reserved_name_later(go: Go, refresh: Any) -> None:
    """The same holds for a tool that joins the toolbox later: no run has two tools of one name."""
    box = Toolbox([late])

    @tool
    def change() -> str:
        """Change the tools."""
        box.add(result_read)
        return "changed"

    box.add(change)
    runner = Runner(box, model=ScriptedModel([call("change"), "Done."]), refresh=refresh)
    if refresh == "run":
        go(runner)
    with pytest.raises(DuplicateToolError, match="result_read"):
        go(runner)
