"""Schema and validator of a signature: what a model is sent, and what the function gets."""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import itertools
import json
import math
import pathlib
import re
import subprocess
import sys
import threading
import typing
import uuid
import zoneinfo
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    Protocol,
    TypeVar,
    Union,
    cast,
)

import pytest
import typer
import typing_extensions
from annotated_types import Predicate
from fastapi import BackgroundTasks, Depends, Query, Request, Security
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import (
    VERSION,
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    HttpUrl,
    Json,
    SecretStr,
    Tag,
    computed_field,
    create_model,
    field_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import MISSING, core_schema
from typing_extensions import (
    Doc,
    LiteralString,
    NotRequired,
    ReadOnly,
    Required,
    TypeAliasType,
    TypedDict,
    TypeVarTuple,
    Unpack,
)

from toolkit import DefinitionError, Tool, Toolbox, ToolContext, ToolError, tool
from toolkit.schema import FromJson

INTEGER = {"type": "integer"}
TEXT = {"type": "string"}


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Nothing(enum.Enum):
    """Without members."""


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Model(BaseModel):
    number: int
    day: datetime.date | None = None


class Tree(BaseModel):
    """A tree."""

    title: str
    children: list[Tree] = []


@dataclass
class Data:
    number: int
    models: list[Model]


class Keys(TypedDict):
    number: int
    text: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: str


T = TypeVar("T")
Rest = TypeVarTuple("Rest")


Number = NewType("Number", int)
Bounded = TypeVar("Bounded", bound=int)
Numbers = TypeAliasType("Numbers", list[int])
Contexts = TypeAliasType("Contexts", ToolContext[T], type_params=(T,))


class Box(BaseModel, Generic[T]):
    item: T


def echo(annotation: Any, **default: Any) -> Tool[..., Any]:
    """Make a tool with one parameter of a type, that gives back what arrives."""

    def function(value: Any) -> Any:
        return value

    function.__annotations__ = {"value": annotation}
    function.__defaults__ = (default["default"],) if default else None
    return tool(function)


def shown(made: Tool[..., Any], name: str = "value") -> Any:
    return made.parameters["properties"][name]


TYPES: dict[str, tuple[Any, Any, Any]] = {
    "str": (str, "a", "a"),
    "str that holds JSON": (str, "[1, 2]", "[1, 2]"),
    "str that holds a number": (str, "007", "007"),
    "int": (int, 3, 3),
    "int from 3.0": (int, 3.0, 3),
    "int from a text": (int, "3", 3),
    "float": (float, 1, 1.0),
    "bool": (bool, True, True),
    "None": (None, None, None),
    "Any": (Any, {"a": [1]}, {"a": [1]}),
    "list": (list[int], [1, 2], [1, 2]),
    "set": (set[int], [1, 1], {1}),
    "tuple": (tuple[int, str], [1, "a"], (1, "a")),
    "dict": (dict[str, int], {"a": 1}, {"a": 1}),
    "Literal": (Literal["a", 1], 1, 1),
    "Optional": (Optional[int], None, None),  # noqa: UP045
    "Union": (Union[int, list[int]], [1], [1]),  # noqa: UP007
    "Enum": (Color, "red", Color.RED),
    "IntEnum": (Level, 2, Level.HIGH),
    "date": (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
    "datetime": (datetime.datetime, "2026-01-02T03:04:05", datetime.datetime(2026, 1, 2, 3, 4, 5)),
    "time": (datetime.time, "03:04", datetime.time(3, 4)),
    "timedelta": (datetime.timedelta, "PT1H", datetime.timedelta(hours=1)),
    "UUID": (uuid.UUID, str(uuid.UUID(int=1)), uuid.UUID(int=1)),
    "Path": (pathlib.Path, "/a", pathlib.Path("/a")),
    "Decimal": (decimal.Decimal, "0.10", decimal.Decimal("0.10")),
    "bytes": (bytes, "é", "é".encode()),
    "Pattern": (re.Pattern[str], "a+", re.compile("a+")),
    "bytearray": (bytearray, "a", bytearray(b"a")),
    "Fraction": (fractions.Fraction, "1/2", fractions.Fraction(1, 2)),
    "complex": (complex, "1+2j", 1 + 2j),
    "zone": (zoneinfo.ZoneInfo, "Europe/Berlin", zoneinfo.ZoneInfo("Europe/Berlin")),
    "Collection": (Collection[int], [1], [1]),
    "Sequence": (Sequence[int], [1], [1]),
    "Mapping": (Mapping[str, int], {"a": 1}, {"a": 1}),
    "deque": (collections.deque[int], [1], collections.deque([1])),
    "defaultdict": (collections.defaultdict[str, int], {"a": 1}, collections.defaultdict(int, a=1)),
    "Counter": (collections.Counter[str], {"a": 1}, collections.Counter("a")),
    "LiteralString": (LiteralString, "a", "a"),
    "NewType": (Number, 3, 3),
    "TypeVar": (Bounded, 3, 3),
    "alias": (Numbers, [3], [3]),
    "Json": (Json[list[int]], "[1]", [1]),
    "SecretStr": (SecretStr, "a", SecretStr("a")),
    "HttpUrl": (HttpUrl, "http://a/", HttpUrl("http://a/")),
    "address": (ipaddress.IPv4Address, "1.2.3.4", ipaddress.IPv4Address("1.2.3.4")),
    "model": (Model, {"number": 1}, Model(number=1)),
    "dataclass": (Data, {"number": 1, "models": [{"number": 2}]}, Data(1, [Model(number=2)])),
    "TypedDict": (Keys, {"number": 1}, Keys(number=1)),
    "NamedTuple": (Pair, [1, "a"], Pair(1, "a")),
    "generic model": (Box[Data], {"item": {"number": 1, "models": []}}, Box[Data](item=Data(1, []))),
    "list of models": (list[Model], [{"number": 1}], [Model(number=1)]),
    "dict of models": (dict[str, Model], {"a": {"number": 1}}, {"a": Model(number=1)}),
    "recursive model": (
        Tree,
        {"title": "a", "children": [{"title": "b"}]},
        Tree(title="a", children=[Tree(title="b")]),
    ),
}


@pytest.mark.parametrize(("annotation", "sent", "value"), TYPES.values(), ids=TYPES)
def test_typed_values(annotation: Any, sent: Any, value: Any) -> None:
    """What a model sends arrives as a value of the annotated type, nested ones too."""
    arrived = echo(annotation).invoke({"value": sent})

    assert (None, value, type(value)) == (arrived.error, arrived.value, type(arrived.value))


@pytest.mark.parametrize(("annotation", "sent", "value"), TYPES.values(), ids=TYPES)
def test_schema_is_valid(annotation: Any, sent: Any, value: Any) -> None:
    """The schema of every type is valid draft 2020-12, holds all that it refers to, and repeats no titles."""
    schema = echo(annotation).parameters

    Draft202012Validator.check_schema(schema)
    references = re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema))
    assert (set(references), "object") == (set(schema.get("$defs", ())), schema["type"])
    assert not any("title" in node.keys() - {"title"} or node.get("title") == "Value" for node in _nodes(schema))


def _nodes(schema: Any) -> list[dict[str, Any]]:
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    found = [node for part in inner for node in _nodes(part)]
    return [*found, schema] if isinstance(schema, dict) and "type" in schema else found


SHOWN: dict[str, tuple[Any, Any]] = {
    "str": (str, TEXT),
    "bounds": (Annotated[int, Field(ge=1, le=50)], {"type": "integer", "minimum": 1, "maximum": 50}),
    "length": (Annotated[str, Field(min_length=1)], {"type": "string", "minLength": 1}),
    "bounds after a validator before": (
        Annotated[int, BeforeValidator(int), Field(ge=1, lt=9)],
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
    ),
    "bounds of a function's result": (Annotated[str, AfterValidator(int), Field(ge=1)], TEXT),
    "bounds of another input": (Annotated[int, BeforeValidator(len, json_schema_input_type=str), Field(ge=1)], TEXT),
    "length after a validator": (
        Annotated[dict[str, int], AfterValidator(dict), Field(min_length=1)],
        {"type": "object", "additionalProperties": INTEGER, "minProperties": 1},
    ),
    "Literal": (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    "Optional": (int | None, {"anyOf": [INTEGER, {"type": "null"}]}),
    "Any": (Any, {}),
    "described": (Annotated[int, "How many."], {"type": "integer", "description": "How many."}),
    "described by Doc": (Annotated[int, Doc("How many.")], {"type": "integer", "description": "How many."}),
    "described by Field": (Annotated[int, Field(description="How many.")], {**INTEGER, "description": "How many."}),
    "described by both": (Annotated[int, "No.", Field(description="Yes.")], {**INTEGER, "description": "Yes."}),
    "other metadata": (Annotated[int, 5], INTEGER),
    "UUID": (uuid.UUID, {"type": "string", "format": "uuid"}),
    "date": (datetime.date, {"type": "string", "format": "date"}),
}


@pytest.mark.parametrize(("annotation", "expected"), SHOWN.values(), ids=SHOWN)
def test_schema(annotation: Any, expected: Any) -> None:
    """The schema has type, bounds, format and description, and nothing else."""
    assert expected == shown(echo(annotation))


def test_whole_schema() -> None:
    """A described city is a required string; what has a default is not required."""

    def search(city: str, limit: Annotated[int, Field(ge=1, le=50)] = 10, unit: Literal["c", "f"] = "c") -> None:
        """Search.

        Args:
            city: Name of the city.
            unit: c or f.
        """

    properties = {
        "city": {"type": "string", "description": "Name of the city."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
        "unit": {"type": "string", "enum": ["c", "f"], "description": "c or f.", "default": "c"},
    }
    whole = {"type": "object", "properties": properties, "required": ["city"], "additionalProperties": False}

    assert whole == tool(search).parameters


def test_no_parameters() -> None:
    """A function without parameters has a schema of an object with nothing in it."""
    assert {"type": "object", "properties": {}, "additionalProperties": False} == tool(lambda: 1).parameters


def test_required_and_nullable() -> None:
    """A default makes a parameter optional, a type with None makes it nullable: neither implies the other."""

    def function(a: int | None, b: int = None, c: int | None = None) -> Any:  # type: ignore[assignment]
        return [a, b, c]

    made = tool(function)

    assert ["a"] == made.parameters["required"]
    assert ([None] * 3, True) == (made.invoke({"a": None}).value, made.invoke({"a": "x"}).is_error)


def test_title_as_a_name() -> None:
    """A parameter or field named as a keyword of JSON Schema is a name like any other."""

    class Book(TypedDict):
        title: str
        default: int

    def function(title: str, properties: int, required: Any, book: Any) -> None:
        pass

    function.__annotations__["book"] = Book
    schema = tool(function).parameters

    assert {"title", "properties", "required", "book"} == schema["properties"].keys()
    assert {"title": TEXT, "default": INTEGER} == schema["$defs"]["Book"]["properties"]


def cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class Opaque:
    """Nothing that JSON knows."""


class Checked:
    """A type with a validator and no schema, as models of pydantic.v1 are for pydantic."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> core_schema.PlainValidatorFunctionSchema:
        return core_schema.no_info_plain_validator_function(str)


DEFAULTS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "int": (int, 7, {"default": 7}),
    "None": (int | None, None, {"default": None}),
    "enum": (Color, Color.RED, {"default": "red"}),
    "date": (datetime.date, datetime.date(2026, 1, 2), {"default": "2026-01-02"}),
    "model": (Model, Model(number=1), {"default": {"number": 1, "day": None}}),
    "dataclass": (Data, Data(1, []), {"default": {"number": 1, "models": []}}),
    "set": (set[str], {"b", "a", "c"}, {"default": ["a", "b", "c"]}),
    "frozenset": (frozenset[int], frozenset({2, 1}), {"default": [1, 2]}),
    "pure path": (pathlib.PurePosixPath, pathlib.PurePosixPath("/a"), {"default": "/a"}),
    "time zone": (zoneinfo.ZoneInfo, zoneinfo.ZoneInfo("Europe/Rome"), {"default": "Europe/Rome"}),
    "NaN": (float, float("nan"), {}),
    "infinity, nested": (list[float], [float("inf")], {}),
    "bytes that are not a text": (bytes, b"\xff", {}),
    "half a character": (str, "\ud800", {}),
    "object": (Any, Opaque(), {}),
    "function": (Any, len, {}),
    "cycle": (list[Any], cycle(), {}),
}


@pytest.mark.parametrize(("annotation", "default", "keyword"), DEFAULTS.values(), ids=DEFAULTS)
def test_default(annotation: Any, default: Any, keyword: dict[str, Any]) -> None:
    """A default is shown where strict JSON has a form for it, and is Python's own object in the call, or a copy."""
    made = echo(annotation, default=default)
    written = {key: value for key, value in shown(made).items() if key == "default"}

    assert (keyword, False) == (written, "required" in made.parameters)
    written_as = sorted if isinstance(default, set) else repr  # sets of texts have no lasting order
    assert written_as(default) == written_as(made.invoke("{}").value)


def test_field_as_default() -> None:
    """pydantic's `Field(...)` may stand in place of a default, with or without one."""

    def function(
        a: int = Field(ge=1), b: int = Field(default=3, le=9, description="B."), c: Any = Field(Opaque())
    ) -> Any:
        return [a, b, type(c).__name__]

    made = tool(function)

    assert (["a"], {"type": "integer", "minimum": 1}) == (made.parameters["required"], shown(made, "a"))
    assert {"type": "integer", "maximum": 9, "description": "B.", "default": 3} == shown(made, "b")
    assert [1, 3, "Opaque"] == made.invoke('{"a": 1}').value


def test_field_of_another_library() -> None:
    """A default of a class derived from that of pydantic's `Field(...)` is like one."""

    def function(a: int = Query(ge=1), b: int = Query(3, description="B.")) -> Any:
        return [a, b]

    made = tool(function)

    assert (["a"], {"type": "integer", "minimum": 1}) == (made.parameters["required"], shown(made, "a"))
    assert {"type": "integer", "description": "B.", "default": 3} == shown(made, "b")
    assert [1, 3] == made.invoke('{"a": 1}').value


def find_user() -> Any:
    raise AssertionError


class InjectedToolArg:
    """As that of LangChain, which is not installed everywhere."""


InjectedToolArg.__module__ = "langchain_core.tools.base"


class InjectedState(InjectedToolArg):
    """As that of LangGraph."""


User = TypeAliasType("User", Annotated[Model, Depends(find_user)])


@dataclass
class Ticker:
    name: str


Ticker.__name__ = "Security"


@dataclass
class FieldInfo:
    name: str


def test_texts_about_keywords() -> None:
    """What a docstring says about other names than those of the parameters is about the keys of `**options`."""

    def connect(host: str, port: int, **options: Any) -> None:
        """Connect.

        Args:
            host: Its name.
            port: Its number.
            **options: Passed on.

        Keyword Args:
            timeout (float): Seconds.
            retries: How often.
        """

    def connect_more(host: str, **options: Any) -> None: ...

    connect_more.__doc__ = "Connect.\n\n:param host: Its name.\n:keyword timeout: Seconds."

    keys = "Passed on.\n\n- timeout: Seconds.\n- retries: How often."

    assert keys == shown(tool(connect), "options")["description"]
    assert keys == shown(tool(functools.partial(connect, port=1)), "options")["description"]
    assert "- timeout: Seconds." == shown(tool(connect_more), "options")["description"]
    assert "Its name." == shown(tool(connect_more), "host")["description"]


@pytest.mark.parametrize("default", [typer.Option(1), typer.Argument(...)], ids=["option", "argument"])
def test_default_of_typer(default: Any) -> None:
    """An option of typer as the default is refused: the function would receive the option in place of a value."""
    with pytest.raises(
        DefinitionError, match=r"'value' cannot be described to a model: its default is an option .* Annotated\[int, "
    ):
        _ = echo(int, default=default).parameters


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (Model, {"default": Depends(find_user)}),
        (Opaque, {"default": Security(find_user)}),
        (Annotated[Model, Depends(find_user)], {}),
        (Annotated[Opaque | None, Depends(find_user)], {"default": None}),
        (User, {}),
        (Annotated[str, InjectedToolArg], {}),
        (Annotated[str, InjectedState()], {"default": ""}),
    ],
    ids=[
        *("default", "default of any class", "annotation", "annotation with a default", "alias of a type"),
        *("class of LangChain", "object of LangGraph"),
    ],
)
def test_dependency(annotation: Any, default: dict[str, Any]) -> None:
    """A dependency of another library, which nobody resolves for a tool, is neither offered nor left out."""
    with pytest.raises(
        DefinitionError, match=r"'value' cannot be described to a model: it is a dependency.* ToolContext\.deps"
    ):
        _ = echo(annotation, **default).parameters


@pytest.mark.parametrize("kind", [Request, BackgroundTasks])
def test_objects_of_a_web_request(kind: Any) -> None:
    """An object of a request to a web server is refused, with what to do; with a default it is left out."""
    with pytest.raises(
        DefinitionError, match=rf"cannot represent {kind.__name__}\)\. .* If your program has it: ToolContext\.deps"
    ):
        _ = echo(list[kind]).parameters

    assert {} == echo(kind | None, default=None).parameters["properties"]


class Reach(float, enum.Enum):
    LOW = 1.0
    ANY = math.inf


@pytest.mark.parametrize("kind", [Reach, Annotated[float, Field(examples=[math.nan])]], ids=["enum", "examples"])
def test_schema_with_infinity(kind: Any) -> None:
    """A schema with a number that JSON does not have is refused, since no server could read the request."""
    with pytest.raises(DefinitionError, match=r"its description or schema holds what no JSON can carry: Out of range"):
        Toolbox([echo(kind)]).schemas("chat")


@pytest.mark.parametrize("kind", [Ticker, FieldInfo])
def test_class_with_the_name_of_another(kind: Any) -> None:
    """A class of the user's may have the name of one of FastAPI's or pydantic's."""
    made = echo(kind, default=kind("IBM"))

    assert ({"name": "IBM"}, kind("A")) == (shown(made)["default"], made.invoke({"value": {"name": "A"}}).value)


def test_factory() -> None:
    """A factory is asked once for each call that needs it, and never for the schema."""
    numbers = itertools.count()

    def function(a: int = Field(default_factory=lambda: next(numbers))) -> Any:
        return a

    made = tool(function)

    assert INTEGER == shown(made, "a")
    assert [0, 1] == [made.invoke("{}").value for _ in range(2)]


def test_factory_of_values() -> None:
    """A factory may want the values of the other parameters."""

    def function(a: int, b: int = Field(default_factory=lambda values: -values["a"])) -> Any:
        return [a, b]

    assert [2, -2] == tool(function).invoke('{"a": 2}').value


@pytest.mark.parametrize("values", [(number for number in range(2)), iter(range(2))], ids=["generator", "iterator"])
def test_iterator_as_default(values: Iterator[int]) -> None:
    """A default that yields values, such as the lines of a file, keeps them for the calls."""

    def function(a: Any = values) -> Any:
        return next(a)

    made = tool(function)

    assert {} == shown(made, "a")
    assert [0, 1] == [made.invoke("{}").value for _ in range(2)]


def test_default_without_copy() -> None:
    """A default that cannot be copied, such as one that holds a lock, is passed itself, as by Python."""
    default = [threading.Lock()]

    assert default is echo(Any, default=default).invoke("{}").value


class Unready(BaseModel):
    @computed_field
    def state(self) -> str:
        raise LookupError


def test_default_whose_code_fails() -> None:
    """A default that cannot be written, since its own code fails, is not shown, and is passed."""

    def function(a: Unready = Unready()) -> str:
        return type(a).__name__

    made = tool(function)

    assert "default" not in shown(made, "a")
    assert "Unready" == made.invoke("{}").value


def test_two_defaults() -> None:
    """Python's own default is the one that is shown and passed, whatever `Field` says."""

    def function(a: Annotated[int, Field(default=4)] = 5) -> int:
        return a

    made = tool(function)

    assert (5, 5) == (made.parameters["properties"]["a"]["default"], made.invoke("{}").value)


def test_annotated_default() -> None:
    """A default inside `Annotated` counts, too."""
    made = echo(Annotated[list[int], Field(default_factory=list)])

    assert ([], False) == (made.invoke("{}").value, "required" in made.parameters)


def test_alias() -> None:
    """An alias is what the model sees and sends; the function gets its own name."""
    made = echo(Annotated[int, Field(alias="number")])

    assert (["number"], 3) == (list(made.parameters["properties"]), made.invoke('{"number": 3}').value)


def kinds(a: int, /, b: int, *rest: int, c: int = 1, **more: str) -> Any:
    return [a, b, rest, c, more]


def test_kinds_schema() -> None:
    """Each of Python's five kinds of parameter has its place in the schema."""
    properties = {
        "a": INTEGER,
        "b": INTEGER,
        "rest": {"type": "array", "items": INTEGER},
        "c": {"type": "integer", "default": 1},
        "more": {"type": "object", "additionalProperties": TEXT},
    }

    assert (properties, ["a", "b"]) == (tool(kinds).parameters["properties"], tool(kinds).parameters["required"])


KIND_CALLS: dict[str, tuple[dict[str, Any], Any]] = {
    "least": ({"a": 1, "b": 2}, [1, 2, (), 1, {}]),
    "all": (
        {"a": 1, "b": 2, "rest": [3, 4], "c": 5, "more": {"d": "x"}},
        [1, 2, (3, 4), 5, {"d": "x"}],
    ),
    "keyword of a positional-only name": ({"a": 1, "b": 2, "more": {"a": "x"}}, [1, 2, (), 1, {"a": "x"}]),
}


@pytest.mark.parametrize(("sent", "value"), KIND_CALLS.values(), ids=KIND_CALLS)
def test_kinds(sent: dict[str, Any], value: Any) -> None:
    """Values go where the signature wants them: by position, by keyword, spread."""
    assert value == tool(kinds).invoke(sent).value


def test_default_before_spread() -> None:
    """A parameter before `*args` that is left out gets its default, not the first of them."""

    def function(a: int = 7, b: list[int] = Field(default_factory=lambda: [1]), *rest: int) -> Any:
        return [a, b, rest]

    assert [7, [1], (1, 2)] == tool(function).invoke('{"rest": [1, 2]}').value


@pytest.mark.parametrize("name", ["context", "key", "a", "b"])
def test_keywords_take_no_place(name: str) -> None:
    """Free keywords cannot give what the run, a partial or another key of the call gives."""

    def function(a: int, context: ToolContext, b: int = 2, key: str = "", **more: Any) -> Any:
        raise AssertionError("must not be entered")

    result = tool(functools.partial(function, key="secret")).invoke({"a": 1, "more": {name: "forged"}})

    assert str(result.text).startswith(f"Invalid arguments: more: Value error, {name!r} is already set")


def test_partial_hides() -> None:
    """What a partial has bound is not shown and cannot be given."""
    made = tool(functools.partial(kinds, 1, c=3))

    assert ["b", "rest", "more"] == list(made.parameters["properties"])
    assert [[1, 2, (), 3, {}], True] == [made.invoke('{"b": 2}').value, made.invoke('{"b": 2, "c": 4}').is_error]


@pytest.mark.parametrize("unpack", [Unpack, getattr(typing, "Unpack", Unpack)], ids=["typing_extensions", "typing"])
def test_unpacked_keywords(unpack: Any) -> None:
    """Keywords of a TypedDict are one object; it is required where one of its keys is."""

    def function(**more: Any) -> Any:
        return more

    function.__annotations__["more"] = unpack[Keys]
    made = tool(function)

    assert ["more"] == made.parameters["required"]
    assert {"number": 1} == made.invoke('{"more": {"number": 1}}').value


NAMES = [
    *("model_config", "model_dump", "model_fields", "schema", "json", "copy", "dict", "validate", "construct"),
    *(
        "self",
        "cls",
        "args",
        "kwargs",
        "func",
        "function",
        "values",
        "context",
        "name",
        "handler",
        "arguments",
        "title",
    ),
    *("_x", "__pydantic_config__", "__init__", "_", "größe", "名前"),
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name(name: str) -> None:
    """Every identifier works as a parameter's name."""
    scope: dict[str, Any] = {}
    exec(f"def function({name}: int, other: int = 2): return [{name}, other]", scope)  # noqa: S102

    assert [1, 2] == tool(scope["function"]).invoke({name: 1}).value


CONTEXTS = {
    "bare": ToolContext,
    "with dependencies": ToolContext[int],
    "optional": ToolContext[int] | None,
    "annotated": Annotated[ToolContext, "What the run knows."],
    "text": "ToolContext",
}


@pytest.mark.parametrize("annotation", CONTEXTS.values(), ids=CONTEXTS)
@pytest.mark.parametrize("place", ["first", "last", "keyword"])
def test_context(annotation: Any, place: str) -> None:
    """A context is given in any position, and is never in the schema."""

    def first(it: Any, a: int) -> Any:
        return [a, it.deps]

    def last(a: int, it: Any = None) -> Any:
        return [a, it.deps]

    def keyword(a: int, *, it: Any) -> Any:
        return [a, it.deps]

    function: Any = {"first": first, "last": last, "keyword": keyword}[place]
    function.__annotations__["it"] = annotation
    made = tool(function)

    assert ["a"] == list(made.parameters["properties"])
    assert [1, 5] == made.invoke('{"a": 1}', ToolContext(deps=5)).value


@pytest.mark.parametrize("inner", [ToolContext, ToolContext[int], Contexts[int]])
def test_context_elsewhere(inner: Any) -> None:
    """A context inside another type is refused: no model may write one."""
    with pytest.raises(DefinitionError, match="a context comes from the run: write ToolContext alone"):
        _ = echo(list[inner]).parameters


def test_hidden() -> None:
    """A parameter that no JSON can fill is left out where it has a default; a model cannot give it."""

    def function(a: int, client: Opaque = Opaque()) -> Any:
        return type(client).__name__

    made = tool(function)

    assert (["a"], "Opaque") == (list(made.parameters["properties"]), made.invoke('{"a": 1}').value)
    assert True is made.invoke('{"a": 1, "client": {}}').is_error


def test_hidden_leaves_nothing() -> None:
    """Of a parameter that is left out nothing is shown, not even the definition of a model beside what is unfit."""
    made = echo(tuple[Model, Opaque], default=None)

    assert {"type": "object", "properties": {}, "additionalProperties": False} == made.parameters


@dataclass
class Chosen:
    client: Opaque | None = None
    number: int = 3
    log: Callable[[str], None] = field(default=print, kw_only=True)


class ChosenModel(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: Opaque = Field(default_factory=Opaque)
    number: int = 3


@pytest.mark.parametrize("kind", [Chosen, ChosenModel])
def test_hidden_field(kind: Any) -> None:
    """A field of a class that no JSON can fill is left out if it has a default."""
    made = echo(kind)

    assert ["number"] == list(made.parameters["$defs"][kind.__name__]["properties"])
    assert (kind, 4) == (
        type(made.invoke({"value": {"number": 4}}).value),
        made.invoke({"value": {"number": 4}}).value.number,
    )
    assert made.invoke({"value": {"client": "x"}}).is_error


@dataclass
class Needing:
    client: Opaque


def test_needed_field() -> None:
    """Without a default the parameter is refused."""
    with pytest.raises(DefinitionError, match=r"parameter 'value' .*JSON cannot represent Opaque"):
        _ = echo(Needing).parameters


def test_hidden_factory() -> None:
    """The same holds where a factory makes the default."""

    def function(client: Opaque = Field(default_factory=Opaque)) -> Any:
        return type(client).__name__

    assert "Opaque" == tool(function).invoke("{}").value


def test_alias_path() -> None:
    """A path as alias, which JSON Schema cannot say, is refused; a name beside it is taken."""
    with pytest.raises(
        DefinitionError, match=r"parameter 'value' .* \(the alias of 'value' is a path into the document"
    ):
        _ = echo(Annotated[int, Field(validation_alias=AliasPath("a", "b"))]).parameters
    made = echo(Annotated[int, Field(validation_alias=AliasChoices(AliasPath("a", "b"), "c"))])

    assert (["c"], 1) == (made.parameters["required"], made.invoke('{"c": 1}').value)


def test_alias_path_of_a_field() -> None:
    """A field whose alias is a path is refused, or left out if it has a default, unless it goes by its name, too."""

    class Reply(BaseModel):
        user: int = Field(3, validation_alias=AliasPath("data", "user"))

    class Needed(BaseModel):
        user: int = Field(validation_alias=AliasPath("data", "user"))

    class Named(Needed, validate_by_name=True): ...

    class Short(BaseModel):
        user: int = Field(validation_alias=AliasPath("data"))

    class Loose(TypedDict):
        user: Annotated[int, Field(validation_alias=AliasPath("data", "user"))]

    assert {"properties": {}, "type": "object"} == echo(Reply).parameters["$defs"]["Reply"]
    for refused in (Needed, Short, Loose):
        with pytest.raises(
            DefinitionError, match=r"parameter 'value' .* \(the alias of a field is a path into the document"
        ):
            _ = echo(refused).parameters
    assert 1 == echo(Named).invoke({"value": {"user": 1}}).value.user


@pytest.mark.parametrize("keys", [tuple[int, int], frozenset[str], Pair], ids=str)
def test_keys_that_are_no_texts(keys: Any) -> None:
    """A dict whose keys are arrays or objects in JSON is refused, unless a function makes them of texts."""
    read = Annotated[keys, BeforeValidator(lambda text: text.split(","))]

    with pytest.raises(DefinitionError, match=r"'value' .* \(the keys of an object are texts in JSON\)"):
        _ = echo(dict[keys, int]).parameters
    assert [1] == [*echo(dict[read, int]).invoke({"value": {"1,2": 1}}).value.values()]


def test_pattern_of_keys() -> None:
    """The schema of a dict with a pattern for its keys allows no others."""
    made = echo(dict[Annotated[str, Field(pattern="^a")], int])

    assert Draft202012Validator(made.parameters).is_valid({"value": {"ab": 1}})
    assert not Draft202012Validator(made.parameters).is_valid({"value": {"b": 1}})
    assert ({"ab": 1}, True) == (made.invoke({"value": {"ab": 1}}).value, made.invoke({"value": {"b": 1}}).is_error)


def test_pattern_that_cannot_be_used() -> None:
    """A core schema that pydantic-core refuses is reported with its own message."""
    made = echo(Annotated[str, Field(pattern="^(?!b)")])

    with pytest.raises(DefinitionError, match=r"parameter 'value' .* \(look-around, .* is not supported\)"):
        _ = made.parameters


def test_short_reason() -> None:
    """A type that takes a page to write is not written whole."""
    long: Any = (*[dict[str, list[int]]] * 100, Opaque)
    made = echo(tuple[long])

    with pytest.raises(DefinitionError, match=r"parameter 'value' .*dict\[str.*… \(JSON cannot") as caught:
        _ = made.parameters
    assert 600 > len(str(caught.value))


def raising(value: Any) -> Any:
    raise AssertionError


class Named(Protocol):
    """What the application passes, so that it has a default."""

    name: str


UNFIT: dict[str, tuple[Any, str]] = {
    "class": (
        Opaque,
        r"its type is .*Opaque.*Annotate it .* Annotated\[test_parameters\.Opaque, FromJson\(str\)\] .*program has",
    ),
    "list of a type": ([int], r"its annotation \[<class 'int'>\] is not a type.*Write a type such as list\[int\]"),
    "function": (any, "its annotation <built-in function any> is not a type"),
    "unknown name": ("Nowhere", "its annotation 'Nowhere' cannot be resolved.*Write a type such as"),
    "unknown name in a class": (make_dataclass("Lost", [("at", "Nowhere")]), r"'Nowhere' is not.*Write a type such as"),
    "broken annotation": ("int[", r"its annotation 'int\[' cannot be resolved.*Write a type such as"),
    "broken pattern": (Annotated[str, Field(pattern="(")], r"\(unclosed group\)\. Correct the annotation: write"),
    "broken bound": (Annotated[int, Field(ge="x")], r"'ge' must be .*\)\. Correct the annotation: write"),
    "protocol": (Named, r"'cls' must be .*\. Correct the annotation: .* Or give it a default"),
    "half a type": (dict[str], r"Expected two type arguments.*\)\. Correct the annotation: write"),  # type: ignore[misc]
}


@pytest.mark.parametrize(("annotation", "reason"), UNFIT.values(), ids=UNFIT)
def test_unfit(annotation: Any, reason: str) -> None:
    """A parameter that no JSON can fill is refused, with function, parameter, reason and remedy."""
    message = rf"test_parameters\.echo\.<locals>\.function\(\): parameter 'value' cannot be described.*{reason}"
    with pytest.raises(DefinitionError, match=message):
        echo(annotation).invoke("{}")


REASONS: dict[str, tuple[Any, str]] = {
    "class": (Opaque, r"its type is test_parameters\.Opaque \(JSON cannot represent Opaque\)"),
    "class in a list": (list[Opaque], r"its type is .*Opaque.* \(JSON cannot represent Opaque\)"),
    "function": (typing.Callable, r"its type is .*Callable \(JSON cannot represent a function\)"),
    "own validator": (Checked, r"its type is .*Checked \(JSON cannot represent .* from pydantic.BaseModel instead\)"),
    "class as a value": (type[int], r"its type is type\[int\] \(JSON cannot represent a class\)"),
    "class or function": (type[int] | typing.Callable, r"its type is .* \(JSON cannot represent any of the union\)"),
    "left out on purpose": (SkipJsonSchema[int], r"it is marked to be left out \(SkipJsonSchema\)"),
    "for type checkers, in a list": (list[ForwardRef("Nowhere")], r"its annotation list\[Nowhere\] cannot be .*"),  # type: ignore[misc]
    "for type checkers": ("Nowhere", r"its annotation 'Nowhere' cannot be resolved \(name 'Nowhere' is not defined\)"),
    "module named typing": ("Optional[mad.typing.Array]", r"its annotation 'Optional\[mad\.typing\.Array\]' cannot .*"),
}


async def wait(value: int) -> int:
    """Return a number: no validator, since pydantic would take the coroutine for the number."""
    return value


class Waiting(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    async def check(cls, number: int) -> int:
        return number


MISTAKES: dict[str, tuple[Any, str]] = {
    "async validator": (Annotated[int, AfterValidator(wait)], r".* \(its validator 'wait' is async, and .*\)"),
    "async validator of a field": (list[Waiting], r".* \(its validator 'check' is async, and .*\)"),
    "async partial": (Annotated[int, BeforeValidator(functools.partial(wait))], r".* is async, and .*\)"),
    "empty enum": (list[Nothing], r"its type is .*Nothing.* \(Nothing has no members\)"),
    "empty enum in a model": (create_model("Holder", nothing=(Nothing, ...)), r".* \(Nothing has no members\)"),
    "length of a number": (Annotated[int, Field(max_length=3)], r".* \(max_length is no constraint of int\)"),
    "bound of a list": (Annotated[list[int], Field(ge=3)], r".* \(ge is no constraint of list\)"),
    "bound of a set": (Annotated[set[int], Field(ge=3)], r".* \(ge is no constraint of set\)"),
    "pattern of a date": (Annotated[datetime.date, Field(pattern="-")], r".* \(pattern is no constraint of date\)"),
    "length of a UUID": (Annotated[uuid.UUID, Field(min_length=36)], r".* \(min_length is no constraint of uuid\)"),
    "pattern of a number": (dict[str, Annotated[int, Field(pattern="a")]], r".* \(pattern is no constraint of int\)"),
    "pattern": (Annotated[str, Field(pattern="(")], r"its type is str \(unclosed group\)"),
    "bound that is a text": (Annotated[int, Field(gt="a")], r"its type is int \(ValueError: 'gt' must be .*\)"),
}


def test_predicate() -> None:
    """A predicate is tried on values of calls alone: it may fail for others, such as an empty list."""
    made = echo(Annotated[list[int], Predicate(lambda numbers: numbers[0] > 0)])

    assert [1] == made.invoke('{"value": [1]}').value
    assert made.invoke('{"value": [0]}').is_error


@pytest.mark.parametrize(("annotation", "reason"), REASONS.values(), ids=REASONS)
def test_reasons(annotation: Any, reason: str) -> None:
    """Why a parameter with a default is left out is known; without one it is the same reason, with a remedy."""
    findings = [each for each in Toolbox([echo(annotation, default=None)]).check() if each.code == "left-out"]
    text = rf"left out of what a model may fill, its default is used: {reason}"

    assert [("value", True)] == [(each.parameter, bool(re.fullmatch(text, each.text))) for each in findings]
    with pytest.raises(DefinitionError, match=f"parameter 'value' cannot be described.*{reason}.*(Annotat|[Ww]rite)"):
        _ = echo(annotation).parameters


@pytest.mark.parametrize("default", [{}, {"default": None}], ids=["required", "with a default"])
@pytest.mark.parametrize(("annotation", "reason"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(annotation: Any, reason: str, default: Mapping[str, Any]) -> None:
    """A constraint that the type cannot have is refused, with a default too."""
    with pytest.raises(
        DefinitionError, match=f"parameter 'value' cannot be described.*{reason}.*Correct the annotation"
    ):
        _ = echo(annotation, **default).parameters


class Mail:
    """A type of a package that is not installed, as EmailStr is without email-validator."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, __: Any) -> Any:
        raise ImportError("mail-checker is not installed, run `pip install mail-checker`")


@pytest.mark.parametrize("default", [{}, {"default": None}], ids=["required", "with a default"])
def test_type_without_its_package(default: Mapping[str, Any]) -> None:
    """A type whose package is not installed is refused with what to do, also with a default."""
    with pytest.raises(DefinitionError, match=r"mail-checker is not installed.*\)\. Install the package, or write"):
        _ = echo(Mail, **default).parameters


@pytest.mark.parametrize("annotation", [[int], any, dict[str, any], 5])  # type: ignore[valid-type]
def test_value_for_a_type(annotation: Any) -> None:
    """A value in place of a type is a slip, and refused with a default too."""
    with pytest.raises(DefinitionError, match=r"'value' cannot be .* not a type\. Write a type such as list\[int\]\."):
        _ = echo(annotation, default=None).parameters


def test_callable() -> None:
    """The function `callable` in place of `Callable` is left out if there is a default, as a function is."""
    assert {} == echo(callable, default=None).parameters["properties"]


@pytest.mark.parametrize("annotation", [Opaque | str, str | list[Opaque] | None], ids=["class", "list"])
def test_what_json_can_fill_of_a_union(annotation: Any) -> None:
    """Of a union the members are offered that JSON can fill."""
    made = echo(annotation)

    assert "Opaque" not in str(made.parameters)
    assert "a" == made.invoke('{"value": "a"}').value


class Url:
    """A class with a constructor for texts."""

    def __init__(self, text: str) -> None:
        if ":" not in text:
            raise TypeError("no scheme")
        self.scheme = text.partition(":")[0]


def parse_pair(numbers: list[int]) -> tuple[int, int]:
    first, second = numbers
    return first, second


def test_type_made_from_json() -> None:
    """The remedy of the error works as it is written: the model gives a text, and the function gets the class."""
    with pytest.raises(DefinitionError) as caught:
        _ = echo(Url).parameters
    remedy = re.search(r"Annotated\[.*?\)\]", str(caught.value))
    assert remedy is not None
    made = echo(
        eval(remedy[0], {"Annotated": Annotated, "FromJson": FromJson, "test_parameters": sys.modules[__name__]})
    )

    assert {"type": "string"} == made.parameters["properties"]["value"]
    assert "https" == made.invoke('{"value": "https://example.com"}').value.scheme
    assert "value: Value error, no scheme (received" in made.invoke('{"value": "example"}').text
    assert "value: Input should be a valid string" in made.invoke('{"value": 1}').text


@pytest.mark.parametrize("annotation", [list[Opaque], Url | None, typing.Callable], ids=["list", "union", "function"])
def test_missing_function_that_converts(annotation: Any) -> None:
    """What is no class needs a function: a list would be made of the characters of a text."""
    with pytest.raises(DefinitionError, match="is not a class .* pass a function"):
        _ = echo(Annotated[annotation, FromJson(str)]).parameters


def test_async_conversion() -> None:
    """An async function of FromJson is refused: its coroutine would be the argument."""
    with pytest.raises(DefinitionError, match=r"FromJson\(\.\.\., <function wait .*\) takes a sync function"):
        _ = echo(Annotated[Opaque, FromJson(int, wait)]).parameters


def test_function_that_converts() -> None:
    """What the model gives is validated by its own type, and converted by a function, inside of others, too."""
    pair = Annotated[tuple[int, int], FromJson(list[int], parse_pair)]
    made = echo(dict[str, pair] | None, default=None)

    assert {"a": (1, 2)} == made.invoke('{"value": {"a": [1, "2"]}}').value
    assert "value.a: Value error, " in made.invoke('{"value": {"a": [1]}}').text
    assert "value.a[1]: " in made.invoke('{"value": {"a": [1, "b"]}}').text


@pytest.mark.parametrize("default", [[], {}, set()], ids=["list", "dict", "set"])
def test_mutable_default(default: Any) -> None:
    """What a call makes of its default is not there for the next call."""

    def function(value: Any = default) -> int:
        value.add(1) if isinstance(value, set) else value.append(1) if isinstance(value, list) else value.update(a=1)
        return len(value)

    made = tool(function)

    assert [1, 1, 1] == [made.invoke("{}").value, made.invoke("{}").value, function()]


class Basket(BaseModel):
    items: list[str] = []


@dataclass
class Counts:
    by_name: dict[str, int] = field(default_factory=dict)


class Shop:
    sold = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shop)


def test_default_instance() -> None:
    """A model or dataclass as a default is copied for each call, in a declared tool, too."""

    def buy(item: str, basket: Basket = Basket(), counts: Counts = Counts()) -> list[int]:  # noqa: B008
        basket.items.append(item)
        counts.by_name[item] = 1
        return [len(basket.items), len(counts.by_name)]

    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}

    for made in (tool(buy), Tool.from_schema("buy", schema, buy)):
        assert [[1, 1]] * 2 == [made.invoke({"item": item}).value for item in "ab"]


def test_default_of_the_application() -> None:
    """A default that no JSON can fill is one object for all calls, as in Python."""

    def sell(shop: Shop = Shop(), /, *, other: Shop = Shop()) -> list[int]:  # noqa: B008
        shop.sold += 1
        other.sold += 1
        return [shop.sold, other.sold]

    made = tool(sell)

    assert {} == made.parameters["properties"]
    assert [[1, 1], [2, 2]] == [made.invoke("{}").value, made.invoke("{}").value]


def test_many_classes() -> None:
    """A union of many models that hold each other has each of them once, and takes each of them."""
    names = [f"Model{number}" for number in range(40)]
    held: Any = Union[tuple(ForwardRef(name) for name in names)]  # noqa: UP007  made at run time
    models: dict[str, Any] = {name: create_model(name, item=cast(Any, (held | None, ...))) for name in names}
    for model in models.values():
        model.model_rebuild(_types_namespace=models)
    made = echo(Union[tuple(models.values())])  # noqa: UP007  as above

    assert sorted(names) == sorted(made.parameters["$defs"])
    assert models["Model0"](item=None) == made.invoke('{"value": {"item": null}}').value


def test_one_name_for_two_classes() -> None:
    """Two classes of one name get two definitions, inside of types written by hand, too."""
    first, second = (create_model("Same", **{key: (int, ...)}) for key in "ab")  # type: ignore[call-overload]

    def function(one: Any, more: Any) -> Any:
        return [one.a, more[0].b]

    function.__annotations__ = {"one": first, "more": list[second]}  # type: ignore[valid-type]
    made = tool(function)

    assert (2, True) == (len(made.parameters["$defs"]), Draft202012Validator(made.parameters).is_valid(SAMES))
    assert [1, 2] == made.invoke(SAMES).value


SAMES = {"one": {"a": 1}, "more": [{"b": 2}]}


class Measured(BaseModel):
    number: float = float("nan")
    tags: set[str] = {"c", "a", "b"}


@dataclass
class Area:
    width: int
    height: int
    size: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.size = self.width * self.height


def test_field_that_no_constructor_takes() -> None:
    """A field of a dataclass that its constructor does not take is in no schema of arguments, but in a result's."""

    @tool
    def measure(area: Area) -> Area:
        """Measure an area."""
        return area

    assert ["width", "height"] == list(measure.parameters["$defs"]["Area"]["properties"])
    assert ["width", "height", "size"] == list((measure.output_schema or {})["properties"])
    assert 6 == measure.invoke('{"area": {"width": 2, "height": 3}}').value.size
    assert "area.size: no such parameter" in (measure.invoke('{"area": {"width": 2, "height": 3, "size": 1}}').text)


@dataclass
class Weighed:
    weight: float


class Free(BaseModel, allow_inf_nan=True):
    number: float


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", '"nan"', '"-inf"'])
@pytest.mark.parametrize("annotation", [Measured, Weighed, list[Measured], Weighed | None, dict[str, float]], ids=str)
def test_finite(annotation: Any, number: str) -> None:
    """No number that JSON does not have enters a function, at any depth."""
    inner = f'{{"number": {number}}}' if "Measured" in str(annotation) else f'{{"weight": {number}}}'
    arguments = f'{{"value": {f"[{inner}]" if "list" in str(annotation) else inner}}}'

    assert "invalid_arguments" == echo(annotation).invoke(arguments).kind


def test_infinite_on_purpose() -> None:
    """A model that allows such numbers itself gets them, where a string has them."""
    assert "inf" == str(echo(Free).invoke('{"value": {"number": "inf"}}').value.number)


def test_defaults_of_a_model() -> None:
    """Of the defaults inside a model, too, only strict JSON is shown, and sets are in order."""
    shown = echo(Measured).parameters["$defs"]["Measured"]["properties"]

    assert ({"type": "number"}, ["a", "b", "c"]) == (shown["number"], shown["tags"]["default"])


def test_iterable_is_checked() -> None:
    """What an Iterable gives is checked before the function is entered."""
    made = echo(Iterable[int])

    assert ([1, 2], True) == (list(made.invoke('{"value": [1, "2"]}').value), made.invoke('{"value": ["x"]}').is_error)


class Letter(enum.Enum):
    A = "a"
    B = "b"


LITERALS: dict[str, tuple[Any, Any, Any]] = {
    "member": (Literal[Letter.A], "a", Letter.A),
    "one of two": (Literal[Letter.A, Letter.B], "b", Letter.B),
    "member or text": (Literal[Letter.A, "b"], "b", "b"),
    "member in a list": (list[Literal[Letter.A]], ["a"], [Letter.A]),
    "bytes": (Literal[b"a"], "a", b"a"),
}


@pytest.mark.parametrize(("annotation", "sent", "value"), LITERALS.values(), ids=LITERALS)
def test_literals(annotation: Any, sent: Any, value: Any) -> None:
    """A value of a Literal that JSON writes otherwise is known by how JSON writes it."""
    made = echo(annotation)

    assert True is Draft202012Validator(made.parameters).is_valid({"value": sent})
    assert (value, True) == (made.invoke({"value": sent}).value, made.invoke({"value": "z"}).is_error)


class Speed(enum.Enum):
    SLOW = 1
    CALM = 1  # noqa: PIE796  an alias of SLOW
    FAST = 2


def test_aliases_of_enum_members_are_not_repeated() -> None:
    """Each value of an enum is listed once, also if several members have it."""

    @tool
    def drive(speed: Speed) -> str:
        """Drive."""
        return speed.name

    assert drive.parameters["$defs"]["Speed"]["enum"] == [1, 2]


class Mode(enum.Enum):
    SPAN = (1, 2)
    DAY = datetime.date(2026, 1, 2)
    RAW = b"ab"
    PLAIN = "plain"


MODES = {"tuple": ([1, 2], Mode.SPAN), "date": ("2026-01-02", Mode.DAY), "bytes": ("ab", Mode.RAW)}


@pytest.mark.parametrize(("sent", "member"), [*MODES.values(), ("plain", Mode.PLAIN)], ids=[*MODES, "text"])
@pytest.mark.parametrize("annotation", [Mode, Literal[Mode.SPAN, Mode.DAY, Mode.RAW, Mode.PLAIN]])
def test_member_of_any_value(annotation: Any, sent: Any, member: Mode) -> None:
    """A member of an enumeration is known by its value as JSON writes it, whatever its type."""
    made = echo(annotation)

    assert True is Draft202012Validator(made.parameters).is_valid({"value": sent})
    assert (member, True) == (made.invoke({"value": sent}).value, made.invoke({"value": [2, 1]}).is_error)


class Red(BaseModel):
    color: Literal[Color.RED]


class Blue(BaseModel):
    color: Literal[Color.BLUE]


def test_members_tell_models_apart() -> None:
    """The members of a union may be told apart by members of an enumeration."""
    made = echo(Annotated[Red | Blue, Field(discriminator="color")])

    assert Blue(color=Color.BLUE) == made.invoke('{"value": {"color": "blue"}}').value
    assert "expected tags: 'red', 'blue'" in str(made.invoke('{"value": {"color": "green"}}').text)


BOUNDED_UNIONS: dict[str, Any] = {
    "numbers": (Annotated[int | float, Field(ge=1, lt=3, multiple_of=0.5)], [1, 2.5], [0, 3, 1.2]),
    "number or null": (Annotated[int | float | None, Field(gt=1)], [None, 2], [1]),
    "lengths": (
        Annotated[list[int] | dict[str, int] | str, Field(min_length=1, max_length=2)],
        ["a", [1]],
        ["", [], {}],
    ),
    "decimals": (Annotated[Decimal | int, Field(ge=Decimal(1))], [1], []),
    "literals": (Annotated[Literal[1, 2, 3], Field(ge=2)], [2], [1]),
}


@pytest.mark.parametrize(("annotation", "right", "wrong"), BOUNDED_UNIONS.values(), ids=BOUNDED_UNIONS)
def test_bounded_unions(annotation: Any, right: list[Any], wrong: list[Any]) -> None:
    """The constraints of a union are those of its members, in the schema, too; as are those of literals."""
    made = echo(annotation)

    for value, fits in [*((value, True) for value in right), *((value, False) for value in wrong)]:
        assert fits is Draft202012Validator(made.parameters).is_valid({"value": value})
        assert fits is not made.invoke({"value": value}).is_error


class Price(BaseModel):
    net: float = Field(gt=Decimal("0.5"))


def test_decimal_bounds() -> None:
    """A Decimal that bounds a float is a number in the schema, also in that of a model."""
    net = {"exclusiveMinimum": 0.5, "type": "number"}

    assert net == json.loads(json.dumps(shown(echo(Annotated[float, Field(gt=Decimal("0.5"))]))))
    assert net == echo(Price).parameters["$defs"]["Price"]["properties"]["net"]


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    friend: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None


def test_key_that_tells_models_apart() -> None:
    """The key by which the members of a union are told apart is required, though it has a default."""
    made = echo(Annotated[Cat | Dog, Field(discriminator="kind")])
    cases: list[tuple[Any, bool]] = [
        ({"kind": "dog", "friend": {"kind": "cat"}}, True),
        ({"lives": 1}, False),
        ({"kind": "dog", "friend": {}}, False),
    ]

    for sent, fits in cases:
        assert fits is Draft202012Validator(made.parameters).is_valid({"value": sent})
        assert fits is not made.invoke({"value": sent}).is_error


class Numbered(BaseModel):
    number: int


class Anything(BaseModel):
    """It takes any keys, those of `Numbered` too."""


def test_function_that_tells_models_apart() -> None:
    """A function may choose between models that match the same document, so the schema accepts what matches several."""
    members = Annotated[Numbered, Tag("numbered")] | Annotated[Anything, Tag("anything")]
    choose = Discriminator(lambda value: "numbered" if "number" in value else "anything")
    made = echo(Annotated[members, choose])

    for sent, kind in ({"number": 1}, Numbered), ({}, Anything):
        assert Draft202012Validator(made.parameters).is_valid({"value": sent})
        assert isinstance(made.invoke({"value": sent}).value, kind)
    assert made.invoke({"value": {"number": "x"}}).is_error


class Access(enum.Flag):
    READ = 1
    WRITE = 4


class Documented(enum.IntFlag):
    """Who may read it."""

    OWNER = 1
    GROUP = 2


@pytest.mark.parametrize(
    ("kind", "sent", "value", "description"),
    [
        (Access, 5, Access.READ | Access.WRITE, "The sum of any of: 1 (READ), 4 (WRITE)."),
        (Documented, 3, Documented.OWNER | Documented.GROUP, "Who may read it."),
    ],
    ids=["Flag", "IntFlag"],
)
def test_flags(kind: type[enum.Flag], sent: int, value: enum.Flag, description: str) -> None:
    """A flag is a number in JSON, the sum of any of its members; as a default, too."""
    made = echo(kind, default=value)
    schema = made.parameters["$defs"][kind.__name__]

    assert {"type": "integer", "minimum": 0, "maximum": sent, "description": description} == schema
    assert (sent, value) == (shown(made)["default"], made.invoke({"value": sent}).value)
    assert value == made.invoke({"value": float(sent)}).value
    for wrong in ("READ", sent + 1, -1):
        assert made.invoke({"value": wrong}).is_error


class Mixed(enum.Enum):
    NONE = None
    YES = True
    PAIR = (1, "a")


@pytest.mark.parametrize(
    ("kind", "description"),
    [
        (Speed, "1 (SLOW), 1 (CALM), 2 (FAST)."),
        (Level, "1 (LOW), 2 (HIGH)."),
        (Mixed, 'null (NONE), true (YES), [1, "a"] (PAIR).'),
        (Color, None),
    ],
    ids=["Enum", "IntEnum", "values of several types", "texts"],
)
def test_names_of_enum_members(kind: type[enum.Enum], description: str | None) -> None:
    """The values of an enum that are no texts are described by the names of its members."""
    assert description == echo(kind).parameters["$defs"][kind.__name__].get("description")


class Mask(enum.IntFlag):
    READ = 1
    WRITE = 2
    ALL = -1


class Pairs(enum.Flag):
    LOW = 3
    HIGH = 12


@pytest.mark.parametrize(
    ("kind", "bounds"),
    [(Mask, (min(0, Mask.ALL.value), 3)), (Pairs, (0, 15))],  # Python 3.15 makes a positive number of it
    ids=["a negative member", "members of several bits"],
)
def test_members_of_flags(kind: type[enum.Flag], bounds: tuple[int, int]) -> None:
    """Each member of a flag is valid, whatever bits it has, and so is none of them."""
    made = echo(kind)
    schema = made.parameters["$defs"][kind.__name__]

    assert bounds == (schema["minimum"], schema["maximum"])
    for value in (*kind.__members__.values(), kind(0)):
        assert value == made.invoke({"value": value.value}).value


def test_flags_as_keys() -> None:
    """A flag is a key of a dict as the text of its number."""
    made = echo(dict[Access, str])

    assert {Access.READ | Access.WRITE: "a"} == made.invoke({"value": {"5": "a"}}).value
    for name, fits in (("5", True), ("READ", False)):
        assert fits is Draft202012Validator(made.parameters).is_valid({"value": {name: "a"}})
        assert fits is not made.invoke({"value": {name: "a"}}).is_error


@pytest.mark.parametrize("annotation", [bytes | str, Annotated[bytes | str, Field(max_length=9)]])
def test_text_rather_than_bytes(annotation: Any) -> None:
    """Where a text or bytes may stand, a text stays a text."""
    assert "a" == echo(annotation).invoke('{"value": "a"}').value


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PEP 646 is of Python 3.11")
@pytest.mark.parametrize(
    ("inner", "sent", "wrong"),
    [(tuple[str, ...], [1, "a", "b"], [1, "a", 2]), (tuple[str, bool], [1, "a", True], [1, "a"])],
    ids=["repeated", "of known length"],
)
def test_unpacked_tuple(inner: Any, sent: Any, wrong: Any) -> None:
    """The items of a tuple that is unpacked in another one are items of that one."""
    made = echo(tuple[(int, *inner)])  # as `tuple[int, *inner]`

    assert tuple(sent) == made.invoke({"value": sent}).value
    for arguments, fits in ((sent, True), (wrong, False)):
        assert fits is Draft202012Validator(made.parameters).is_valid({"value": arguments})
        assert fits is not made.invoke({"value": arguments}).is_error


@pytest.mark.parametrize(
    ("items", "sent", "wrong", "required"),
    [
        (tuple[int, str], [1, "a"], [1], ["items"]),
        (tuple[int, ...], [1, 2], [1, "a"], None),
    ],
    ids=["of known length", "repeated"],
)
def test_unpacked_items(items: Any, sent: Any, wrong: Any, required: Any) -> None:
    """The types of `*items: *tuple[...]` are those of the items."""

    def function(*items: Any) -> Any:
        return items

    function.__annotations__["items"] = Unpack[items]
    made = tool(function)

    assert (tuple(sent), required) == (made.invoke({"items": sent}).value, made.parameters.get("required"))
    assert made.invoke({"items": wrong}).is_error
    assert (required is not None) is made.invoke("{}").is_error


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PEP 646 is of Python 3.11")
def test_starred_items() -> None:
    """A star in front of the tuple is the same as `Unpack`."""
    cell: dict[str, Any] = {}
    exec("def function(*items: *tuple[int, str]): return items", cell)  # noqa: S102
    made = tool(cell["function"])

    assert ((1, "a"), True) == (made.invoke('{"items": [1, "a"]}').value, made.invoke('{"items": [1]}').is_error)


@pytest.mark.parametrize(
    ("items", "sent", "wrong"),
    [
        (tuple[int, Unpack[tuple[str, ...]]], [1, "a", "b"], [1, 2]),
        (tuple[int, Unpack[Rest]], [1, "a", None], ["a"]),  # type: ignore[valid-type]
    ],
    ids=["tuple", "type variable"],
)
def test_unpack_in_a_tuple(items: Any, sent: Any, wrong: Any) -> None:
    """`Unpack` in a tuple is the same as a star there; of a type variable, it is any number of items."""
    made = echo(items)

    assert (tuple(sent), True) == (made.invoke({"value": sent}).value, made.invoke({"value": wrong}).is_error)
    assert Draft202012Validator(made.parameters).is_valid({"value": sent})


class TextModel(BaseModel):
    a: Annotated[int, Doc("A number.")] = Field(alias="A")
    b: Annotated[str, "A text."] = ""
    c: Annotated[int, Doc("Not this."), Field(description="A count.")] = 0
    d: Annotated[int, "A rank."] | None = None


@dataclass
class TextDataclass:
    A: Annotated[int, Doc("A number.")]
    b: Annotated[str, "A text."] = ""
    c: Annotated[int, Doc("Not this."), Field(description="A count.")] = 0
    d: Annotated[int, "A rank."] | None = None


class TextDict(TypedDict, total=False):
    A: Required[Annotated[int, Doc("A number.")]]
    b: Annotated[str, "A text."]
    c: Annotated[int, Doc("Not this."), Field(description="A count.")]
    d: NotRequired[Annotated[int, "A rank."] | None]


@pytest.mark.parametrize("kind", [TextModel, TextDataclass, TextDict])
def test_texts_of_fields(kind: Any) -> None:
    """A text or a `Doc` in the annotation of a field is its description, as in that of a parameter."""
    fields = echo(kind).parameters["$defs"][kind.__name__]["properties"]

    assert ["A number.", "A text.", "A count.", "A rank."] == [part["description"] for part in fields.values()]


class DocumentedModel(BaseModel):
    """A model.

    More.

    Attributes:
        a: A number.
        b: Not this.
    """

    a: int = Field(alias="A")
    b: str = Field("", description="A text.")


@dataclass
class DocumentedDataclass:
    """A model.

    More.

    Parameters
    ----------
    A : int
        A number.
    b : str
        A text.
    """

    A: int
    b: str = ""


class DocumentedKeys(TypedDict):
    """A model.

    More.

    :param A: A number.
    """

    A: int
    b: Annotated[str, "A text."]


@dataclass
class DocumentedVariables:
    """A model.

    :ivar A: A number.
    :vartype A: int
    :var str b: A text.

    More.
    """

    A: int
    b: str = ""


@pytest.mark.parametrize("kind", [DocumentedModel, DocumentedDataclass, DocumentedKeys, DocumentedVariables])
def test_texts_in_the_docstring_of_a_class(kind: Any) -> None:
    """Entries of a docstring are the descriptions of fields that have no other, and no part of that of the class."""
    schema = echo(kind).parameters["$defs"][kind.__name__]

    assert "A model.\n\nMore." == schema["description"]
    assert ["A number.", "A text."] == [part["description"] for part in schema["properties"].values()]


class DocumentedPair(NamedTuple):
    """
    Attributes:
        first: A number.
    """  # noqa: D205, D212, D415

    first: int
    second: int


class Outdated(BaseModel):
    """A model.

    Args:
        a: A number.
        gone: Another one.
    """

    a: int


@pytest.mark.skipif(VERSION.startswith("2.13"), reason="pydantic 2.13 reports named tuples as calls")
def test_texts_in_the_docstring_of_a_named_tuple() -> None:
    """Entries of a docstring are the descriptions of items; of such entries alone no description is left."""
    schema = echo(DocumentedPair).parameters["$defs"]["DocumentedPair"]

    assert ["A number.", "second"] == [part["description"] for part in schema["prefixItems"]]
    assert "description" not in schema


def test_docstring_about_other_fields() -> None:
    """A docstring with entries about other fields stays as it is."""
    schema = echo(Outdated).parameters["$defs"]["Outdated"]

    assert "gone: Another one." in schema["description"]
    assert "A number." == schema["properties"]["a"]["description"]


def test_texts_of_items() -> None:
    """A text or a `Doc` of items, values and members of a union is their description."""
    kind = dict[str, tuple[Annotated[int, "A number."], Optional[list[Annotated[str, Doc("A name.")]]]]]  # noqa: UP045
    first, second = echo(kind).parameters["properties"]["value"]["additionalProperties"]["prefixItems"]

    assert {**INTEGER, "description": "A number."} == first
    assert {**TEXT, "description": "A name."} == second["anyOf"][0]["items"]


Degrees = TypeAliasType("Degrees", Annotated[float, Doc("Degrees Celsius.")])


def test_text_of_a_type_alias() -> None:
    """A text in a type alias is that of the parameters that have its type."""
    assert "Degrees Celsius." == shown(echo(Degrees))["description"]


Share = Annotated[int, Field(ge=0, description="A share."), "A percentage."]


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (Annotated[Share, "Done."], {}),
        (Annotated[Share, Doc("Done.")], {}),
        (Annotated[Share, Field(description="Done.")], {}),
        (Share, {"default": Field(1, description="Done.")}),
        (Annotated[Share, typer.Option("--done", help="Done.")], {"default": 1}),
    ],
    ids=["text", "Doc", "Field", "Field as the default", "option of typer"],
)
def test_text_around_another(annotation: Any, default: dict[str, Any]) -> None:
    """Of several texts in an annotation the last one, which is the outermost, is the description."""
    assert "Done." == shown(echo(annotation, **default))["description"]


class Day(enum.Enum):
    MONDAY = enum.auto()
    TUESDAY = enum.auto()


@pytest.mark.parametrize(
    ("kind", "key"),
    [(Level, Level.HIGH), (Day, Day.TUESDAY), (Literal[1, 2], 2), (Literal["1", 2], 2), (Literal[2], 2)],
    ids=["IntEnum", "Enum", "Literal", "Literal of a text and a number", "Literal of one number"],
)
def test_numbers_as_keys(kind: Any, key: Any) -> None:
    """The keys of a dict are texts in JSON: a number in place of which a text stands is that number."""
    made = echo(dict[kind, dict[kind, str]])
    sent = {"value": {"2": {"2": "a"}}}

    assert Draft202012Validator(made.parameters).is_valid(sent)
    assert {key: {key: "a"}} == made.invoke(sent).value
    for name in ("3", "x", "[2]"):
        assert made.invoke({"value": {name: {}}}).is_error
        assert not Draft202012Validator(made.parameters).is_valid({"value": {name: {}}})


def test_literal_of_another_member() -> None:
    """A member that a Literal does not name is refused."""
    assert "invalid_arguments" == echo(Literal[Letter.A]).invoke('{"value": "b"}').kind


def test_default_order() -> None:
    """Sets inside a default are in order, at any depth."""
    made = echo(dict[str, list[frozenset[str]]], default={"x": [frozenset("cab")]})

    assert {"x": [["a", "b", "c"]]} == shown(made)["default"]


class Login(BaseModel):
    user: str = "Ann"
    key: SecretStr = SecretStr("sk-1")


@pytest.mark.parametrize("default", [SecretStr("sk-1"), [SecretStr("sk-1")], Login()], ids=["secret", "list", "model"])
def test_secret_default(default: Any) -> None:
    """A default that holds a secret is not shown, not even masked: a model may send what it sees."""
    made = echo(SecretStr | list[SecretStr] | Login, default=default)

    assert "***" not in str(made.parameters)
    assert default == made.invoke("{}").value


def test_alias_choices() -> None:
    """Of several aliases the first is shown, and all are taken."""
    made = echo(Annotated[int, Field(validation_alias=AliasChoices("first", "second"))])

    assert ["first"] == made.parameters["required"] == list(made.parameters["properties"])
    assert [1, 2] == [made.invoke({"first": 1}).value, made.invoke({"second": 2}).value]


def test_alias_of_another() -> None:
    """An alias that is another parameter's name is refused: one of the two would be lost."""

    def function(a: Annotated[int, Field(alias="b")], b: int) -> None: ...

    with pytest.raises(DefinitionError, match=r"function\(\): two parameters are 'b' in JSON. Give one .* alias"):
        _ = tool(function).parameters


class Options(TypedDict, total=False):
    depth: Required[ReadOnly[int]]
    name: str


@pytest.mark.filterwarnings("ignore:Item 'depth' on TypedDict class 'Options' is using the `ReadOnly` qualifier")
def test_unpacked_options() -> None:
    """Required, ReadOnly and `total=False` of unpacked keywords count."""

    def function(**options: Unpack[Options]) -> Any:
        return options

    made = tool(function)

    assert ["depth"] == made.parameters["$defs"]["Options"]["required"]
    assert ({"depth": 1}, True) == (made.invoke('{"options": {"depth": 1}}').value, made.invoke("{}").is_error)


class GenericOptions(TypedDict, Generic[T]):
    value: T


def test_unpacked_generic_options() -> None:
    """Keywords of a generic TypedDict are required, too."""

    def function(**options: Unpack[GenericOptions[int]]) -> Any:
        return options

    made = tool(function)

    assert ({"value": 1}, True) == (made.invoke('{"options": {"value": 1}}').value, made.invoke("{}").is_error)


def test_unfit_as_a_whole() -> None:
    """Where no single parameter is at fault, pydantic's own message is passed on."""
    failures = [RuntimeError("not now")] * 2  # by itself, and with the others; then the search for the culprit works

    class Moody:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            if failures:
                raise failures.pop()
            return handler(int)

    with pytest.raises(DefinitionError, match=r"function\(\): pydantic cannot build its parameters: not now"):
        _ = echo(Moody).parameters


def test_schema_once() -> None:
    """The schema is built when it is first read, and then cached."""
    made = echo(int)

    assert made.parameters is made.parameters


SAME_EVERYWHERE = """
import enum, json, typing, dataclasses
from toolkit import tool
class E(enum.Enum): A = "a"; B = "b"; C = "c"
@dataclasses.dataclass
class D: x: set[typing.Literal["q", "r", "s"]]; y: frozenset[str]
def f(a: set[str] = {"x", "y", "z", "w"}, b: frozenset[E] = frozenset(E), c: typing.Union[D, E, int, None] = None,
      d: object = object(), e: typing.Callable = lambda: 1, *args: D, **kwargs: E): "Do."
print(json.dumps(tool(f)._spec.parameters))
"""


def test_same_everywhere() -> None:
    """The schema is the same, byte for byte, in every process: no hash seed, no address is in it."""
    runs = [
        subprocess.Popen([sys.executable, "-c", SAME_EVERYWHERE], env={"PYTHONHASHSEED": str(seed)}, stdout=-1)  # noqa: S603
        for seed in range(3)
    ]
    texts = {run.communicate()[0] for run in runs}

    assert (1, True) == (len(texts), b'"default": ["w", "x", "y", "z"]' in texts.pop())


class Spot(NamedTuple):
    """A place on Earth."""

    latitude: Annotated[float, "Degrees north."]
    longitude: float = 0


@pytest.mark.skipif(VERSION.startswith("2.13"), reason="pydantic 2.13 reports named tuples as calls")
def test_items_of_a_named_tuple() -> None:
    """The items of a named tuple, which have no names in JSON, are described by their texts, or else by their names."""
    schema = tool(echo(Spot)).parameters["$defs"]["Spot"]

    assert ["Degrees north.", "longitude"] == [item["description"] for item in schema["prefixItems"]]
    assert "A place on Earth." == schema["description"]
    assert "description" not in echo(Pair).parameters["$defs"]["Pair"]  # Python's own docstring says nothing


def test_validator_raises(caplog: pytest.LogCaptureFixture) -> None:
    """A validator that fails for a reason of its own is an error for the model, and in the log with its traceback."""

    def check(value: int) -> int:
        raise RuntimeError("secret")

    result = echo(Annotated[int, AfterValidator(check)]).invoke('{"value": 1}')

    assert "Invalid arguments: they could not be checked (RuntimeError). Try other values." == result.text
    assert isinstance(getattr(result.exception, "__cause__", None), RuntimeError)
    assert ["Arguments could not be checked; the call is refused."] == caplog.messages
    assert 'raise RuntimeError("secret")' in caplog.text


def test_validator_raises_for_the_model() -> None:
    """The text of a ToolError in a validator reaches the model."""

    def check(value: int) -> int:
        raise ToolError(f"There is no shelf {value}.")

    result = echo(Annotated[int, AfterValidator(check)]).invoke('{"value": 1}')

    assert ("Invalid arguments: There is no shelf 1.", "invalid_arguments") == (result.text, result.kind)


def test_validator_raises_after_repair() -> None:
    """So is one that fails only once the arguments have been repaired."""

    def check(values: list[int]) -> int:
        return values[1]

    result = echo(Annotated[list[int], AfterValidator(check)]).invoke('{"value": "[1]"}')

    assert "Invalid arguments: they could not be checked (IndexError). Try other values." == result.text


UNSET = getattr(builtins, "sentinel", typing_extensions.Sentinel)("UNSET")


def lay_table(
    seats: Annotated[int | UNSET, Field(ge=1)] = UNSET,  # type: ignore[valid-type]
    names: list[str] | None | UNSET = UNSET,  # type: ignore[valid-type]
    colour: str | MISSING = MISSING,
) -> list[str]:
    return [repr(value) for value in (seats, names, colour)]


def test_sentinels() -> None:
    """A sentinel in a union is the default of an argument that is left out; a model does not see it."""
    made = tool(lay_table)

    assert {
        "seats": {"type": "integer", "minimum": 1},
        "names": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "colour": {"type": "string"},
    } == made.parameters["properties"]
    assert [repr(UNSET), repr(UNSET), repr(MISSING)] == made.invoke("{}").value
    assert ["2", "None", "'red'"] == made.invoke({"seats": 2, "names": None, "colour": "red"}).value
    assert "greater than or equal to 1" in made.invoke({"seats": 0}).text


def test_sentinel_alone() -> None:
    """A parameter that takes sentinels only is left out, and is refused without a default."""

    def sit(place: UNSET = UNSET, side: UNSET | MISSING = MISSING) -> str:  # type: ignore[valid-type]
        return f"{place} {side}"

    def stand(place: UNSET) -> None:  # type: ignore[valid-type]
        """Stand."""

    assert {} == tool(sit).parameters["properties"]
    assert f"{UNSET} {MISSING}" == tool(sit).invoke("{}").value
    with pytest.raises(DefinitionError, match="'place' cannot be described to a model: its annotation <?UNSET>?"):
        tool(stand).parameters  # noqa: B018
