"""The tools of one moment: those of one run, and those that a hook leaves in one request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.ways import arun, astream, run, start, stream
from toolkit import Runner, RunResult, RunState, tool
from toolkit.approvers import defer
from toolkit.builtin import plan_tool
from toolkit.models import ModelRequest
from toolkit.testing import ScriptedModel, call

Go = Callable[..., RunResult]
WAYS = pytest.mark.parametrize("go", [run, arun, stream, astream, start])


@tool(effect="read")
def read() -> str:
    """Read."""
    return "read"


@tool(approve=True)
def write() -> str:
    """Write."""
    return "written"


BOTH: Any = [call("read"), call("write")]
REFUSED = "Tool not found: {} may not be called now. Available: {}"


def texts(result: RunResult) -> list[str | None]:
    return [done.result.text for done in result.calls]


def approve(_: object) -> bool:
    return True


@WAYS
def test_allowed_in_one_run(go: Go) -> None:
    """`allowed_tools` of a run holds for that run, in place of the runner's."""
    runner = Runner(
        [read, write], model=ScriptedModel([BOTH, "Done."] * 2), approve=approve, allowed_tools=["write"], early=True
    )

    assert ["read", REFUSED.format("write", "read")] == texts(go(runner, allowed_tools=["read"]))
    assert [REFUSED.format("read", "write"), "written"] == texts(go(runner))


def test_unknown_in_one_run() -> None:
    """A name that is not a tool is refused before the model is called."""
    model = ScriptedModel([])
    with pytest.raises(ValueError, match="allowed_tools has 'raed', which is not a tool here; did you mean 'read'"):
        Runner([read], model=model).run("go", allowed_tools=["raed"])

    assert [] == model.requests


def test_allowed_after_a_pause() -> None:
    """A run that is resumed in another process may call no more than before."""
    paused = Runner([read, write], model=ScriptedModel([call("write")]), approve=defer).run(
        "go", allowed_tools=["write"]
    )
    state = RunState.from_json(paused.state.to_json())
    runner = Runner([read, write], model=ScriptedModel([BOTH, "Done."]), approve=approve)
    resumed = runner.resume(state, {paused.pending[0].call.id: True})

    assert ["written", REFUSED.format("read", "write"), "written"] == texts(resumed)
    assert ("write",) == resumed.state.allowed_tools


class Offer:
    """A hook that changes the first request."""

    def __init__(self, change: Callable[[ModelRequest], ModelRequest]) -> None:
        self.change = change

    def before_model(self, request: ModelRequest) -> ModelRequest | None:
        """Change it."""
        return self.change(request) if request.turn == 0 else None


CHANGES: dict[str, tuple[Callable[[ModelRequest], ModelRequest], str]] = {
    "tools": (lambda request: replace(request, tools=request.tools[:1]), "read"),
    "allowed": (lambda request: replace(request, allowed=("read",)), "read"),
    "none": (lambda request: replace(request, choice="none"), "none"),
    "no tools": (lambda request: replace(request, tools=()), "none"),
}


@WAYS
@pytest.mark.parametrize(("change", "left"), CHANGES.values(), ids=CHANGES)
def test_removed_by_a_hook(go: Go, change: Callable[[ModelRequest], ModelRequest], left: str) -> None:
    """A tool that a hook takes out of a request cannot be called in its answer; in the next one it can."""
    model = ScriptedModel([BOTH, BOTH, "Done."])
    result = go(Runner([read, write], model=model, approve=approve, hooks=[Offer(change)], early=True))
    first = "read" if left == "read" else REFUSED.format("read", left)

    assert [first, REFUSED.format("write", left), "read", "written"] == texts(result)


def test_steps_of_a_plan() -> None:
    """Nor can a step of a plan call it."""
    model = ScriptedModel([call("execute_plan", steps=[{"tool": "read", "args": {}}]), "Done."])
    hook = Offer(lambda request: replace(request, tools=request.tools[1:]))
    result = Runner([read, plan_tool([read])], model=model, hooks=[hook]).run("go")

    assert "read may not be called now" in str(texts(result)[0])


def test_widened_by_a_hook() -> None:
    """A hook cannot allow more than the run does."""
    hook = Offer(lambda request: replace(request, allowed=None))
    model = ScriptedModel([BOTH, "Done."])
    result = Runner([read, write], model=model, approve=approve, hooks=[hook], allowed_tools=["read"]).run("go")

    assert ["read", REFUSED.format("write", "read")] == texts(result)
