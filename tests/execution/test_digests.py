"""The digest of a call: the same for the same call everywhere, another one for whatever differs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Annotated, Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, Field, SecretStr

from toolkit import Tool, Toolbox, ToolCall, tool
from toolkit._execution import approval
from toolkit._execution.approval import canonicalize, digest_call, digest_definition
from toolkit.builtin import file_tools, shell_tool


class Color(Enum):
    """An enumeration."""

    RED = 1
    BLUE = 2


class Number(IntEnum):
    """An enumeration of numbers."""

    ONE = 1


class Place(BaseModel):
    """A model."""

    name: str
    tags: set[str] = set()


@dataclass(frozen=True)
class Point:
    """A data class."""

    x: int
    y: int


class Text(str):
    """Another kind of text."""


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


# No two of them may be written alike.
DIFFERENT: list[Any] = [
    None, True, False, 0, 1, 2, -1, 1.0, 0.5, float("nan"), float("inf"), 10**30, "", "1", "true", "null", "[1]",
    '"1"', "a", "A", "\u0430", "\u202ea", "a\x00", "\ud800", b"", b"a", bytearray(b"a"), [], [1], [1, 2], [2, 1],
    [[1], 2], [1, [2]], (), (1,), {}, {"a": 1}, {"a": "1"}, {"a": {"b": 1}}, {1: 1}, {"1": 1}, set(), {1}, {1, 2},
    frozenset({1}), date(2026, 1, 1), "2026-01-01", datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=timezone.utc),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1))), timedelta(1), Decimal("1"), Decimal("1.0"),
    Fraction(1), complex(1), UUID(int=1), PurePosixPath("a"), PurePosixPath("a/b"), Color.RED, Color.BLUE,
    Number.ONE, Place(name="a"), Place(name="b"), Place(name="a", tags={"x"}), Point(1, 2), Point(2, 1), Text("a"),
    Slotted(1), Slotted(2), OrderedDict(a=1), defaultdict(int, a=1), deque([1]), deque([1], maxlen=2), range(3),
    range(4), slice(1), int, str, len, Point, SecretStr("a"), SecretStr("b"),
]  # fmt: skip


def test_different() -> None:
    """Values that differ, if only by their type, are written differently."""
    written = [canonicalize(value) for value in DIFFERENT]

    assert len(DIFFERENT) == len(set(written))


EQUAL: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "keys": (lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}),
    "nested keys": (lambda: [{"a": {"x": 1, "y": 2}}], lambda: [{"a": {"y": 2, "x": 1}}]),
    "set": (lambda: set("abcdef"), lambda: set("fedcba")),
    "mixed set": (lambda: {1, "1", (1,)}, lambda: {(1,), "1", 1}),
    "model with a set": (lambda: Place(name="a", tags=set("abc")), lambda: Place(tags=set("cba"), name="a")),
    "ordered dictionary": (lambda: OrderedDict(a=1, b=2), lambda: OrderedDict(b=2, a=1)),
    "object": (lambda: Slotted(1), lambda: Slotted(1)),
    "moment": (lambda: datetime(2026, 1, 1, tzinfo=timezone.utc), lambda: datetime(2026, 1, 1, tzinfo=timezone.utc)),
}


@pytest.mark.parametrize(("one", "other"), EQUAL.values(), ids=EQUAL)
def test_equal(one: Callable[[], Any], other: Callable[[], Any]) -> None:
    """Equal values are written alike, whatever the order of their keys and sets."""
    assert canonicalize(one()) == canonicalize(other())


def test_what_runs_out() -> None:
    """What can be read only once cannot be written."""
    with pytest.raises(TypeError, match="generator"):
        canonicalize(item for item in [1])


def test_circle() -> None:
    """A value that holds itself cannot be written."""
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(RecursionError):
        canonicalize(circle)


@tool
def pay(amount: int, to: set[str]) -> str:
    """Pay."""
    return "paid"


CALL = ToolCall(name="pay", id="run_1", arguments='{"amount": 5, "to": ["anna", "bert", "carl", "dora"]}')
VALUES = {"amount": 5, "to": {"anna", "bert", "carl", "dora"}}


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
    "name": lambda: digest_call(pay.with_name("pay_2"), VALUES, CALL, "run"),
    "description": lambda: digest_call(described_otherwise(), VALUES, CALL, "run"),
    "function": lambda: digest_call(other_parameters(), VALUES, CALL, "run"),
    "effect": lambda: digest_call(tool(pay, effect="destructive"), VALUES, CALL, "run"),
    "value": lambda: digest_call(pay, {**VALUES, "amount": 6}, CALL, "run"),
    "type": lambda: digest_call(pay, {**VALUES, "amount": 5.0}, CALL, "run"),
    "left out": lambda: digest_call(pay, {"amount": 5}, CALL, "run"),
    "call": lambda: digest_call(pay, VALUES, replace(CALL, id="run_2"), "run"),
    "run": lambda: digest_call(pay, VALUES, CALL, "ruin"),
}


@pytest.mark.parametrize("changed", CHANGED.values(), ids=CHANGED)
def test_changed(changed: Callable[[], str]) -> None:
    """The digest is another one as soon as the tool, its definition, an argument, the call or the run is."""
    assert digest_call(pay, VALUES, CALL, "run") != changed()


UNCHANGED: dict[str, Callable[[], str]] = {
    "order of the arguments": lambda: digest_call(pay, dict(reversed(VALUES.items())), CALL, "run"),
    "spelling of the words": lambda: digest_call(
        pay, VALUES, replace(CALL, arguments='{ "to": ["dora", "anna", "bert", "carl"], "amount" : 5 }'), "run"
    ),
    "id of the provider": lambda: digest_call(pay, VALUES, replace(CALL, provider_call_id="call_0"), "run"),
    "title": lambda: digest_call(tool(pay, title="Payment"), VALUES, CALL, "run"),
    "timeout": lambda: digest_call(tool(pay, timeout=5), VALUES, CALL, "run"),
}


@pytest.mark.parametrize("unchanged", UNCHANGED.values(), ids=UNCHANGED)
def test_unchanged(unchanged: Callable[[], str]) -> None:
    """The digest stays the same where nothing changes that an approval is about."""
    assert digest_call(pay, VALUES, CALL, "run") == unchanged()


def test_definition() -> None:
    """The definition of a tool is the same for every call of it, and another one once the tool has changed."""
    assert (
        digest_definition(pay)
        == digest_definition(tool(pay, title="Payment"))
        != digest_definition(described_otherwise())
    )


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


def digest_of_module(made: Any, place: Any, function: str = "visit") -> str:
    return digest_call(getattr(made, function), {"place": place}, ToolCall(name=function, id="run_1"), "run")


@pytest.fixture
def _modules() -> Iterator[None]:
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]


@pytest.mark.usefixtures("_modules")
def test_moved_module() -> None:
    """A tool whose file is moved, with the classes of its arguments, keeps the digest of its calls."""
    old, new = module("bookings"), module("shop.later.bookings")

    assert digest_definition(old.visit) == digest_definition(new.visit)
    assert digest_of_module(old, old.Place(name="a")) == digest_of_module(new, new.Place(name="a"))


@pytest.mark.usefixtures("_modules")
def test_other_function_or_class() -> None:
    """Another function of the same name, and a class of the same name from another module, change the digest."""
    old, other = module("bookings"), module("others")
    mixed = module("mixed", imported="import others", annotation="Place | others.Place")
    renamed = tool(module("more", function="leave").leave, name="visit")

    assert digest_definition(old.visit) != digest_definition(renamed)
    assert digest_of_module(mixed, mixed.Place(name="a")) != digest_of_module(mixed, other.Place(name="a"))


def test_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest of another version is another one, so that what it approved is asked for again."""
    before = digest_call(pay, VALUES, CALL, "run")
    monkeypatch.setattr(approval, "DIGEST_VERSION", approval.DIGEST_VERSION + 1)

    assert before != digest_call(pay, VALUES, CALL, "run")


PROGRAM = """
from enum import Enum
from pydantic import BaseModel
from toolkit import ToolCall, tool
from toolkit._execution.approval import digest_call

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
values, _ = pay._invocation.parser.parse(words)
print(digest_call(pay, values, ToolCall(name="pay", id="run_1", arguments=words), "run"))
"""


def test_processes() -> None:
    """The digest is the same in every process, whatever Python hashes texts to."""
    digests = set()
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        digests.add(ran.stdout)

    assert 1 == len(digests)
    assert {65} == {len(digest) for digest in digests}


def test_made_defaults() -> None:
    """What a tool itself makes for each call is no part of what was approved."""

    @tool
    def book(room: str, key: Annotated[str, Field(default_factory=lambda: uuid4().hex)]) -> str:
        """Book a room."""
        return room

    call = ToolCall(name="book", id="run_1", arguments='{"room": "a"}')
    first, second = (digest_call(book, book._invocation.parser.parse(call.arguments)[0], call, "run") for _ in range(2))

    assert first == second


class Stamped(BaseModel):
    note: str = ""
    key: str = Field(default_factory=lambda: uuid4().hex)


MADE = {"nothing": "{}", "null": "null", "a null": '{"stamp": null}', "an object": '{"stamp": {"note": "a"}}'}
MADE |= {"a text": '{"stamp": "{}"}', "all in a text": '"{}"'}


@pytest.mark.parametrize("words", MADE.values(), ids=MADE)
def test_made_defaults_of_repaired_arguments(words: str) -> None:
    """The same of what is made inside of a model, and where the arguments had to be repaired."""

    @tool
    def book(stamp: Stamped = Field(default_factory=Stamped)) -> str:
        """Book a room."""
        return stamp.key

    call = ToolCall(name="book", id="run_1", arguments=words)
    first, second = (digest_call(book, book._invocation.parser.parse(words)[0], call, "run") for _ in range(2))

    assert first == second


def test_given_in_place_of_a_made_default() -> None:
    """A value that the model gives is part of what was approved, where another would have been made."""
    assert canonicalize(Stamped(key="a")) != canonicalize(Stamped(key="b"))


def test_directories(tmp_path: Path) -> None:
    """The tools of one directory are not those of another one."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    tools = [[*file_tools(tmp_path / name), shell_tool(tmp_path / name)] for name in ("a", "b", "a")]
    first, other, again = [[digest_definition(made) for made in made_tools] for made_tools in tools]

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
    digests = [digest_definition(box["pay"]) for box in boxes]

    assert (digests[0] == digests[2], digests[0] == digests[1]) == (True, False)


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
    digests = [digest_definition(made) for made in tools]

    assert len(stated) == len({*digests})
    assert digests == [digest_definition(tool(partial(made))) for made in tools]
