"""Options that a toolbox states for all of its tools."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from toolkit import ApprovalRequest, DefinitionError, Runner, Tool, Toolbox, ToolCall, ToolResult, tool
from toolkit.middleware import Next
from toolkit.testing import ScriptedModel, call


@tool(effect="read")
def load() -> str:
    """Load."""
    raise OSError("the disk is full")


@tool(timeout=9, relay=(KeyError,), effect="read", retries=1, retry_on=(OSError,))
def own() -> str:
    """Have options of its own."""
    return ""


def save() -> str:
    """Save."""
    raise OSError("the disk is full")


DEFAULTS: Any = {"timeout": 30, "retries": 2, "retry_delay": 0.001, "relay": (OSError,)}


def options(made: Tool[..., Any]) -> tuple[Any, ...]:
    """Return its options."""
    return made.settings.timeout, made.settings.retries, made.relay


def test_options() -> None:
    """Tools get the options of which they have the usual value; retries only where they may be repeated."""
    box = Toolbox([load, own], defaults=DEFAULTS)
    box.add(save)
    box.replace(load)

    assert [(30, 2, (OSError,)), (9, 1, (KeyError,)), (30, 0, (OSError,))] == [options(made) for made in box]
    assert (None, 0, ()) == options(load)


def test_idempotent_by_default() -> None:
    """Where the toolbox says that calls may be repeated, they are."""
    (made,) = Toolbox([save], defaults={"idempotent": True, "retries": 2})

    assert 2 == made.settings.retries


def test_copies() -> None:
    """Copies of a toolbox have its options for tools that are added to them; tools of another one keep their own."""
    box = Toolbox([load], defaults=DEFAULTS)
    for copy in (box.prefixed("my_"), box.filtered(lambda _: True)):
        copy.add(save)
        assert [30, 30] == [made.settings.timeout for made in copy]
    joined = box | Toolbox([save])

    assert [30, None] == [made.settings.timeout for made in joined]


def test_bound_and_latent() -> None:
    """They hold for tools that a function is bound to."""
    box = Toolbox([Tool.from_schema("load", {"properties": {}}, effect="read")], defaults=DEFAULTS)
    box.bind("load", load)

    assert "the disk is full" in str(box.call("load").text)


@pytest.mark.parametrize(
    ("defaults", "error", "message"),
    [
        (
            {"timeout": -1},
            DefinitionError,
            r"^Toolbox\(defaults=\.\.\.\): timeout=-1 is not a number",
        ),
        ({"relay": OSError}, DefinitionError, "is not a tuple of exception classes"),
        ({"name": "x"}, TypeError, "has no option 'name'"),
    ],
)
def test_wrong(defaults: Any, error: type[Exception], message: str) -> None:
    """A wrong option is refused when the toolbox is made."""
    with pytest.raises(error, match=message):
        Toolbox(defaults=defaults)


def test_order(caplog: pytest.LogCaptureFixture) -> None:
    """Middleware is outermost, then authorization, approval, and the attempts of the function."""
    caplog.set_level(logging.CRITICAL, logger="toolkit")
    seen: list[str] = []
    lock = threading.Lock()

    def note(what: str) -> bool:
        with lock:
            seen.append(what)
        return True

    async def middleware(call: ToolCall, call_next: Next) -> ToolResult:
        note("middleware")
        return await call_next(call)

    def approve(_: ApprovalRequest) -> bool:
        return note("approve")

    @tool(effect="read")
    def look() -> str:
        """Look."""
        note("function")
        raise OSError("gone")

    box = Toolbox([look], defaults=DEFAULTS)
    gates: Any = {"authorize": lambda *_: note("authorize"), "approve": approve, "middleware": [middleware]}
    result = Runner(box, model=ScriptedModel([call("look"), "Done."]), **gates).run("go")

    assert ["middleware", "authorize", "approve", "function", "function", "function"] == seen
    assert "look failed: OSError: gone" == result.calls[0].result.text
