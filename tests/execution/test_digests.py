"""The digest of a call: the same for the same call everywhere, another one for whatever differs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any
from uuid import uuid4

import pytest
from pydantic import Field

from toolkit import ApprovalRequest, MemoryLedger, Runner, Tool, Toolbox, ToolCall, ToolContext, tool
from toolkit.approvers import defer
from toolkit.builtin import file_tools, shell_tool
from toolkit.errors import DefinitionError
from toolkit.testing import ScriptedModel, call


@tool
def pay(amount: int, to: set[str]) -> str:
    """Pay."""
    return "paid"


CALL = ToolCall(name="pay", id="run_1", arguments='{"amount": 5, "to": ["anna", "bert"]}')


def digest(made: Tool[..., Any] = pay, call: ToolCall = CALL, run: str = "run", **more: Any) -> str:
    """Return the digest of a call."""
    return ApprovalRequest(made, {}, ToolContext(deps=None, run_id=run), call, **more).digest


def rewritten(arguments: str) -> str:
    """Return the digest of the call with other arguments."""
    return digest(call=replace(CALL, arguments=arguments))


def described_otherwise() -> Tool[..., Any]:
    """A tool of the same name and origin that says something else of itself."""
    return tool(pay, description="Pay twice.")


def other_parameters() -> Tool[..., Any]:
    """Another function of the same name and description."""

    def pay(amount: float, to: set[str]) -> str:
        """Pay."""
        return "paid"

    return tool(pay)


CHANGED: dict[str, Callable[[], str]] = {
    "name": lambda: digest(pay.with_name("pay_2")),
    "description": lambda: digest(described_otherwise()),
    "function": lambda: digest(other_parameters()),
    "effect": lambda: digest(tool(pay, effect="destructive")),
    "value": lambda: rewritten('{"amount": 6, "to": ["anna", "bert"]}'),
    "type": lambda: rewritten('{"amount": 5.0, "to": ["anna", "bert"]}'),
    "text in place of a number": lambda: rewritten('{"amount": "5", "to": ["anna", "bert"]}'),
    "order of a list": lambda: rewritten('{"amount": 5, "to": ["bert", "anna"]}'),
    "similar letter": lambda: rewritten('{"amount": 5, "to": ["\u0430nna", "bert"]}'),
    "invisible letter": lambda: rewritten('{"amount": 5, "to": ["anna\u200b", "bert"]}'),
    "half a character": lambda: rewritten('{"amount": 5, "to": ["anna", "bert\\ud800"]}'),
    "left out": lambda: rewritten('{"amount": 5}'),
    "cut off": lambda: rewritten('{"amount": 5, "to": ["anna", "bert"]'),
    "null": lambda: rewritten("null"),
    "too deep": lambda: rewritten("[" * 500 + "]" * 500),
    "imports": lambda: digest(imports={"user": "Ann"}),
    "call": lambda: digest(call=replace(CALL, id="run_2")),
    "run": lambda: digest(run="ruin"),
}


@pytest.mark.parametrize("changed", CHANGED.values(), ids=CHANGED)
def test_changed(changed: Callable[[], str]) -> None:
    """The digest is another one as soon as the tool, its definition, an argument, the call or the run is."""
    assert digest() != changed()


UNCHANGED: dict[str, Callable[[], str]] = {
    "order of the keys, and spaces": lambda: rewritten('{ "to": ["anna", "bert"],"amount" : 5 }'),
    "escapes": lambda: rewritten('{"amount": 5, "to": ["\\u0061nna", "bert"]}'),
    "id of the provider": lambda: digest(call=replace(CALL, provider_call_id="call_0")),
    "title": lambda: digest(tool(pay, title="Payment")),
    "timeout": lambda: digest(tool(pay, timeout=5)),
}


@pytest.mark.parametrize("unchanged", UNCHANGED.values(), ids=UNCHANGED)
def test_unchanged(unchanged: Callable[[], str]) -> None:
    """The digest stays the same where nothing changes that an approval is about."""
    assert digest() == unchanged()


MODULE = """
from pydantic import BaseModel
from toolkit import tool
{imported}

class Place(BaseModel):
    name: str

@tool
def {function}(place: {annotation}) -> str:
    'Visit a place.'
    return place.name
"""


def module(name: str, function: str = "visit", imported: str = "", annotation: str = "Place") -> Any:
    """Make a module with one tool, as if its file had that name."""
    made = ModuleType(name)
    sys.modules[name] = made
    exec(MODULE.format(function=function, imported=imported, annotation=annotation), vars(made))  # noqa: S102
    return made


@pytest.fixture
def _modules() -> Iterator[None]:
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]


@pytest.mark.usefixtures("_modules")
def test_moved_module() -> None:
    """A tool whose file is moved, with the classes of its arguments, keeps its digest."""
    old, new = module("bookings"), module("shop.later.bookings")

    assert digest(old.visit) == digest(new.visit)


@pytest.mark.usefixtures("_modules")
def test_other_function() -> None:
    """Another function of the same name changes the digest."""
    old, renamed = module("bookings"), tool(module("more", function="leave").leave, name="visit")

    assert digest(old.visit) != digest(renamed)


def test_version() -> None:
    """The digest is the same in every release, for the approvals of saved runs; only a new version changes it."""
    assert "sha256:2ce85c4be4807324b80b82a984b6ad67015e0204ac74fcf9495ffafb1fb92101" == digest()


PROGRAM = """
from enum import Enum
from pydantic import BaseModel
from toolkit import ApprovalRequest, ToolCall, ToolContext, tool

class Color(Enum):
    RED = 1

class Place(BaseModel):
    tags: set[str]
    color: Color | None = None

@tool
def pay(amount: int, to: set[str], places: list[Place]) -> str:
    '''Pay.'''
    return "paid"

words = '{"amount": 5, "to": ["anna", "bert", "carl", "dora"], "places": [{"tags": ["x", "y", "z"], "color": 1}]}'
print(ApprovalRequest(pay, {}, ToolContext(deps=None), ToolCall(name="pay", arguments=words)).digest)
"""


def test_processes() -> None:
    """The digest is the same in every process, whatever Python hashes texts to."""
    digests = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        digests.add(ran.stdout)

    assert 1 == len(digests)
    assert {72} == {len(digest) for digest in digests}


def test_made_defaults() -> None:
    """What a tool itself makes for each call is not part of what was approved; what the model gives in its place is."""

    @tool
    def book(room: str, key: Annotated[str, Field(default_factory=lambda: uuid4().hex)]) -> str:
        """Book a room."""
        return key

    def resume(arguments: str) -> Any:
        """Return the answer after a yes to the first call; a call that has changed is asked about again."""
        script: list[Any] = [[ToolCall(name="book", arguments=arguments)], "Done."]
        runner = Runner([book], model=ScriptedModel(script), approve=defer)
        paused = runner.run("Go")
        return runner.resume(paused.state, {paused.pending[0].call.id: True}).output

    assert ("Done.", "Done.") == (resume('{"room": "a"}'), resume('{"room": "a", "key": "b"}'))


@pytest.mark.skipif(sys.platform == "win32", reason="needs file tools")
def test_directories(tmp_path: Path) -> None:
    """The tools of one directory are not those of another one."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    tools = [[*file_tools(tmp_path / name), shell_tool(tmp_path / name)] for name in ("a", "b", "a")]
    first, other, again = [[digest(made) for made in made_tools] for made_tools in tools]

    assert first == again
    assert set() == {*first} & {*other}


def test_bindings() -> None:
    """A tool that a function is bound to is not the one that another function is bound to."""

    @tool
    def pay(amount: int) -> Any:
        """Pay."""

    def send(amount: int) -> str:
        return f"sent {amount}"

    def pretend(amount: int) -> str:
        return f"pretended {amount}"

    boxes = [Toolbox([pay]) for _ in range(3)]
    for box, function in zip(boxes, (send, pretend, send)):
        box.bind("pay", function)
    digests = [digest(box["pay"]) for box in boxes]

    assert (digests[0] == digests[2], digests[0] == digests[1]) == (True, False)


def test_chosen_bindings() -> None:
    """Functions without a name of their own are told apart by what they are bound as."""

    @tool
    def pay(amount: int) -> Any:
        """Pay."""

    boxes = [Toolbox([pay]) for _ in range(2)]
    for box, chosen in zip(boxes, ("real", "mock")):
        box.bind("real", lambda amount: f"sent {amount}")
        box.bind("mock", lambda amount: f"pretended {amount}")
        box.bindings.choose("pay", chosen)
    first, other = (digest(box["pay"]) for box in boxes)

    assert first != other


class Spot:
    """An object that states what its tool reaches."""

    def __init__(self, identity: object) -> None:
        self.identity = identity

    @tool
    def look(self) -> str:
        """Look."""
        return str(self.identity)


def test_identities() -> None:
    """What an object states counts, whatever its type; so it does behind a partial."""
    stated = ["a", "b", Path("/a"), Path("/b"), 1, 2, None]
    tools = [Spot(each).look for each in stated]
    digests = [digest(made) for made in tools]

    assert len(stated) == len({*digests})
    assert digests == [digest(tool(partial(made))) for made in tools]


class Shop:
    """An object that states what it reaches by a method, which cannot be compared."""

    @tool
    def order(self) -> str:
        """Order."""
        return "ordered"

    def identity(self) -> str:
        return "a shop"


def test_identity_that_is_a_method() -> None:
    """A call of an object whose identity is a method cannot wait for its approval; else it runs, with a ledger too."""
    with pytest.raises(DefinitionError, match=r"^Shop\.identity is a method"):
        Runner([Shop()], model=ScriptedModel([call("order")]), approve=defer).run("Go")

    for ledger in (None, MemoryLedger()):
        result = Runner([Shop()], model=ScriptedModel([call("order"), "Done."]), ledger=ledger).run("Go")
        assert "ordered" == result.calls[0].result.text
