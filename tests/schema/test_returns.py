"""What a function gives: its JSON Schema, and what is written of its values."""

from __future__ import annotations

import datetime
import enum
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Dict, List, TypedDict  # noqa: UP035

import pytest
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer
from typing_extensions import TypeAliasType

from toolkit import Image, Toolbox, ToolResult, tool

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]


class Person(BaseModel):
    name: str


class Member(Person):
    age: int = 5


@dataclass
class Place:
    day: datetime.date


class Color(enum.Enum):
    RED = "red"


def text() -> str: ...  # type: ignore[empty-body]
def nothing() -> None: ...
def unannotated(): ...  # type: ignore[no-untyped-def]
def anything() -> Any: ...
def unknown() -> Unknown: ...
def indescribable() -> Callable[[], int]: ...  # type: ignore[empty-body]
def own() -> ToolResult: ...  # type: ignore[empty-body]
def picture() -> Image: ...  # type: ignore[empty-body]
def documented() -> int:  # type: ignore[empty-body]
    """Count.

    Returns:
        How many there are.
    """


def numbers() -> list[int]: ...  # type: ignore[empty-body]
def values() -> Iterator[int]: ...  # type: ignore[empty-body]
async def later() -> int: ...  # type: ignore[empty-body]
def promised() -> Awaitable[int]: ...  # type: ignore[empty-body]
async def streamed() -> AsyncIterator[int]:
    yield 1


def person() -> Person: ...  # type: ignore[empty-body]


INTEGERS = {"type": "array", "items": {"type": "integer"}}
SCHEMAS: dict[Any, Any] = {
    text: {"type": "string"},
    nothing: {"type": "null"},
    unannotated: None,
    anything: None,
    unknown: None,
    indescribable: None,
    own: None,
    picture: None,
    documented: {"type": "integer", "description": "How many there are."},
    numbers: INTEGERS,
    values: INTEGERS,
    later: {"type": "integer"},
    promised: {"type": "integer"},
    streamed: INTEGERS,
    person: {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}


@pytest.mark.parametrize(("function", "schema"), SCHEMAS.items(), ids=lambda it: getattr(it, "__name__", ""))
def test_schema(function: Callable[..., Any], schema: Any) -> None:
    """The output schema is that of the result in the end; an annotation without meaning does no harm."""
    assert schema == tool(function).output_schema


class Unfinished(BaseModel):
    number: int = 1
    connection: Unknown | None = None


def unfinished() -> Unfinished:
    return Unfinished.model_construct()


def test_unfinished() -> None:
    """A model that uses names for type checkers only has no output schema, and does no harm."""
    made = tool(unfinished)

    assert (None, False) == (made.output_schema, made.invoke().is_error)


def test_local_names() -> None:
    """A return type may name what is local to the function that defines the tool, and comes later."""

    class Outer(BaseModel):
        inner: Inner

    class Inner(BaseModel):
        number: int

    def function() -> Outer:
        return Outer.model_construct(inner=Inner(number=1))

    assert '{"inner":{"number":1}}' == tool(function).invoke().text


class Odd(BaseModel):
    number: float = float("nan")


def odd() -> list[Odd]:
    return []


def test_default_that_is_no_json() -> None:
    """A default that JSON cannot represent is not in the output schema either."""
    assert "NaN" not in json.dumps(tool(odd).output_schema)


def member() -> Person:
    return Member(name="Ann")


def members() -> list[Person]:
    return [Member(name="Ann")]


def other() -> Person:
    return {"name": 5}  # type: ignore[return-value]


def place() -> Place:
    return Place(datetime.date(2026, 1, 2))


def rounded() -> Annotated[float, PlainSerializer(lambda value: f"{value:.1f}")]:
    return 2.34


def colors() -> dict[Color, int]:
    return {Color.RED: 1}


def broken() -> Annotated[int, PlainSerializer(lambda value: 1 // 0)]:
    return 5


def named() -> Annotated[str, Field(max_length=2)]:
    return "Müller"


def one_by_one() -> Iterator[Person]:
    yield Member(name="Ann")


def labelled() -> Annotated[Iterator[Person], "Who is there."]:
    yield Member(name="Ann")


def optional() -> Iterator[Person] | None:
    return iter([Member(name="Ann")])


People = TypeAliasType("People", AsyncIterator[Person])


async def aliased() -> People:
    yield Member(name="Ann")


async def awaited() -> Person:
    return Member(name="Ann")


WRITTEN: dict[Any, str] = {
    member: '{"name":"Ann"}',
    members: '[{"name":"Ann"}]',
    other: '{"name":5}',
    place: '{"day":"2026-01-02"}',
    rounded: '"2.3"',
    colors: '{"red":1}',
    broken: "5",
    named: "Müller",
    one_by_one: '[{"name":"Ann"}]',
    labelled: '[{"name":"Ann"}]',
    optional: '[{"name":"Ann"}]',
    aliased: '[{"name":"Ann"}]',
    awaited: '{"name":"Ann"}',
}


@pytest.mark.parametrize(("function", "text"), WRITTEN.items(), ids=lambda it: getattr(it, "__name__", ""))
def test_written(function: Callable[..., Any], text: str) -> None:
    """A value is written by its annotation; one of another type is written all the same."""
    made = tool(function)

    assert ([text, text], False) == ([made.invoke().text, made.invoke().text], made.invoke().is_error)


NAN = float("nan")


@dataclass
class Measured:
    value: float


class Sent(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    number: int = Field(default=1, alias="no")
    data: bytes = b"\xff\xfe"


class SentLater(Sent):
    day: int = 2


TYPED: dict[str, tuple[Any, Any, str]] = {
    "model": (Sent, Sent(), '{"no":1,"data":"__4="}'),
    "subclass": (Sent, SentLater(data=b"ok"), '{"no":1,"data":"ok"}'),
    "subclass with bytes": (Sent, SentLater(), '{"no":1,"data":"__4="}'),
    "unannotated": (Any, SentLater(), '{"no":1,"data":"__4=","day":2}'),
    "in a list": (list[Sent], [Sent()], '[{"no":1,"data":"__4="}]'),
    "beside another object": (Any, [Sent(), ...], '[{"no":1,"data":"__4="},"Ellipsis"]'),
}


@pytest.mark.parametrize(("annotation", "value", "text"), TYPED.values(), ids=TYPED)
def test_aliases_and_bytes(annotation: Any, value: Any, text: str) -> None:
    """A model is written with the names that its schema has, and its bytes as Base64 where they are not UTF-8."""

    def function() -> Any:
        return value

    function.__annotations__["return"] = annotation

    assert text == tool(function).invoke().text


class Measuring(TypedDict):
    value: float


class Worded(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="strings")

    number: float = NAN


INFINITE: dict[str, tuple[Any, Any, str]] = {
    "number": (float, NAN, '"NaN"'),
    "or nothing": (float | None, float("inf"), '"Infinity"'),
    "or text": (float | str, float("-inf"), '"-Infinity"'),
    "dataclass": (Measured, Measured(NAN), '{"value":"NaN"}'),
    "dataclass in a list": (list[Measured], [Measured(NAN)], '[{"value":"NaN"}]'),
    "typed dict": (Measuring, {"value": NAN}, '{"value":"NaN"}'),
    "tuple": (tuple[float, float], (NAN, 1.0), '["NaN",1.0]'),
    "set": (set[float], {NAN}, '["NaN"]'),
    "anything": (Any, Measured(NAN), '{"value":"NaN"}'),
    "model": (Odd, Odd(), '{"number":null}'),
    "model, unannotated": (Any, Odd(), '{"number":null}'),
    "model with a word on it": (Worded, Worded(), '{"number":"NaN"}'),
}


@pytest.mark.parametrize(("annotation", "value", "text"), INFINITE.values(), ids=INFINITE)
def test_infinite(annotation: Any, value: Any, text: str) -> None:
    """NaN and infinity are strings, whatever the annotation; a model writes its own numbers."""

    def function() -> Any:
        return value

    function.__annotations__["return"] = annotation

    assert text == tool(function).invoke().text


BARE: list[Any] = [list, dict, List, Dict, List[Dict[Any, Any]], dict[float, int], Dict[float, List[Any]]]  # noqa: UP006
BARE += [List[Dict]]  # type: ignore[type-arg]  # noqa: UP006


@pytest.mark.parametrize("annotation", BARE)
def test_bare_and_unusual_containers(annotation: Any) -> None:
    """A return annotation without parts, or with unusual ones, has a schema, and its values are sent."""

    def get() -> Any:
        """Get."""
        return {}

    get.__annotations__["return"] = annotation
    box = Toolbox([tool(get)])

    assert isinstance(box.schemas("mcp")[0]["outputSchema"], dict)
    assert box.call("get", "{}").text == "{}"


@pytest.mark.parametrize("annotation", [[int], {"a": int}, Annotated[int, ["of", "cats"]], "Missing", 3, lambda: 0])
def test_annotations_that_are_no_types(annotation: Any) -> None:
    """A return annotation that pydantic does not understand describes nothing, and the result is sent."""

    def get() -> Any:
        """Get."""
        return 1

    get.__annotations__["return"] = annotation
    box = Toolbox([tool(get)])

    assert ("get", "1") == (box.schemas("mcp")[0]["name"], box.call("get", "{}").text)


class Event(BaseModel):
    """A base without fields."""


class Opened(Event):
    """An event."""

    door: int = 3


@dataclass
class Report:
    """A base without fields."""


@dataclass
class Count(Report):
    """A report."""

    number: int = 3


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (BaseModel, Opened(), '{"door":3}'),
        (Event, Opened(), '{"door":3}'),
        (list[BaseModel], [Opened()], '[{"door":3}]'),
        (Report | None, Count(), '{"number":3}'),
    ],
)
def test_base_without_fields(kind: Any, value: Any, text: str) -> None:
    """A base without fields says nothing about its values, so they are written whole."""

    def function() -> Any:
        return value

    function.__annotations__["return"] = kind
    made = tool(function)

    assert (None, text) == (made.output_schema, made.invoke({}).text)
