"""Whatever the signature: the schema is valid, what fits it arrives typed, what does not is refused by both."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import keyword
import pathlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal, NamedTuple, Optional

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypeAliasType, TypedDict

from tests.properties import examples
from toolkit import Tool, ToolResult, tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Model(BaseModel, extra="forbid"):
    number: int
    color: Color = Color.RED


@dataclass
class Data:
    day: datetime.date
    models: list[Model]


class Keys(TypedDict):
    text: str


class Pair(NamedTuple):
    left: int
    right: str


class Tree(BaseModel):
    branches: list[Tree] = []


Numbers = TypeAliasType("Numbers", list[int])


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTEGER = st.integers(-(2**40), 2**40)
MODEL = st.builds(Model, number=INTEGER, color=st.sampled_from(Color))

TREES = st.recursive(st.builds(Tree), lambda inner: st.builds(Tree, branches=st.lists(inner, max_size=2)), max_leaves=4)

# A type, its values, and documents of JSON that no value of it has, not even in pydantic's lax reading.
PLAIN: list[tuple[Any, st.SearchStrategy[Any], list[Any]]] = [
    (str, TEXT, [1, True, None, [], {}]),
    (int, INTEGER, [1.5, "x", None, [], {}]),
    (float, st.floats(allow_nan=False, allow_infinity=False), ["x", None, [], {}]),
    (bool, st.booleans(), [2, "x", None, [], {}]),
    (Literal["a", "b"], st.sampled_from(["a", "b"]), ["c", 1, None, []]),
    (Color, st.sampled_from(Color), ["green", 1, None, {}]),
    (datetime.date, st.dates(), [[], None, {}]),
    (uuid.UUID, st.uuids(), [1, None, []]),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=2), [None, [], {}]),
    (Model, MODEL, [1, "x", None, {}, {"number": "x"}, {"number": 1, "more": 1}]),
    (Data, st.builds(Data, day=st.dates(), models=st.lists(MODEL, max_size=2)), [1, None, {}, {"day": "2026-01-02"}]),
    (Keys, st.builds(Keys, text=TEXT), [1, None, {}, {"text": 1}, {"text": "a", "more": 1}]),
    (None, st.none(), [1, "x", [], {}]),
    (bytes, TEXT.map(str.encode), [1, True, None, [], {}]),
    (datetime.datetime, st.datetimes().map(lambda at: at.replace(fold=0)), [[], None, {}]),
    (pathlib.PurePosixPath, TEXT.map(pathlib.PurePosixPath), [1, None, [], {}]),
    (frozenset[int], st.frozensets(INTEGER, max_size=3), [1, "x", None, {}, ["x"]]),
    (Literal[Color.RED], st.just(Color.RED), ["blue", 1, None, {}]),
    (Annotated[int, Field(ge=0, le=9)], st.integers(0, 9), [-1, 10, "x", None]),
    (Pair, st.builds(Pair, left=INTEGER, right=TEXT), [1, "x", None, [1], ["x", "x"]]),
    (Tree, TREES, [1, "x", None, {"branches": [1]}]),
    (Numbers, st.lists(INTEGER, max_size=3), [1, "x", None, ["x"]]),
]


# Types that are made at run time, which no checker follows.
LIST: Any = list
DICT: Any = dict
TUPLE: Any = tuple
OPTIONAL: Any = Optional


def wider(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Make types of types."""
    return st.one_of(
        types.map(lambda it: (LIST[it[0]], st.lists(it[1], max_size=3), [1, "x", {}, *([bad] for bad in it[2])])),
        types.map(lambda it: (DICT[str, it[0]], st.dictionaries(TEXT, it[1], max_size=3), [1, "x", [], None])),
        types.map(lambda it: (OPTIONAL[it[0]], st.none() | it[1], [bad for bad in it[2] if bad is not None])),
        types.map(lambda it: (TUPLE[it[0], int], st.tuples(it[1], INTEGER), [1, "x", {}, [], None])),
    )


TYPES = st.recursive(st.sampled_from(PLAIN), wider, max_leaves=3)
NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))
KINDS = st.sampled_from([Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY])


@st.composite
def signatures(draw: st.DrawFn) -> dict[str, tuple[Parameter, st.SearchStrategy[Any], list[Any]]]:
    """Make parameters of random names, kinds and types, with and without defaults."""
    parameters = {}
    kinds = sorted(draw(st.lists(KINDS, min_size=1, max_size=4)))
    optional = draw(st.integers(0, len(kinds)))
    names = draw(st.lists(NAMES, min_size=len(kinds), max_size=len(kinds), unique=True))
    for number, (name, kind) in enumerate(zip(names, kinds)):
        annotation, values, bad = draw(TYPES)
        default = draw(values) if number >= optional else Parameter.empty
        parameters[name] = (Parameter(name, kind, annotation=annotation, default=default), values, bad)
    return parameters


def made_of(parameters: dict[str, Any], seen: list[Any]) -> Tool[..., Any]:
    """Make a tool of a signature; it notes what it gets."""
    signature = Signature([part[0] for part in parameters.values()])

    def function(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        seen.append(bound.arguments)

    function.__signature__ = signature  # type: ignore[attr-defined]
    return tool(function)


def document_of(parameters: dict[str, Any], draw: Callable[[Any], Any], leave_out: set[str]) -> tuple[Any, Any]:
    """Draw values for all parameters, and write them as JSON."""
    values = {name: part[0].default if name in leave_out else draw(part[1]) for name, part in parameters.items()}
    written = {
        name: TypeAdapter(parameters[name][0].annotation).dump_python(value, mode="json")
        for name, value in values.items()
        if name not in leave_out
    }
    return values, written


def optional_in(parameters: dict[str, Any]) -> list[str]:
    return [name for name, part in parameters.items() if part[0].default is not Parameter.empty]


FEW = examples(60)


@FEW
@given(signatures())
def test_schema(parameters: dict[str, Any]) -> None:
    """The schema is valid draft 2020-12, strict JSON, and names the parameters in order."""
    schema = made_of(parameters, []).parameters

    Draft202012Validator.check_schema(json.loads(json.dumps(schema, allow_nan=False)))
    assert list(parameters) == list(schema["properties"])


def spelled(value: Any) -> Any:
    """A value with its types, and sets in an order of their own: equal sets may be written in different ones."""
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, value))
    if isinstance(value, dict):
        return {key: spelled(inner) for key, inner in value.items()}
    return [type(value).__name__, *map(spelled, value)] if isinstance(value, (list, tuple)) else repr(value)


@FEW
@given(signatures(), st.data())
def test_accepted(parameters: dict[str, Any], data: st.DataObject) -> None:
    """A document made of values is accepted by schema and call, and arrives as those values."""
    seen: list[Any] = []
    made = made_of(parameters, seen)
    optional = optional_in(parameters)
    leave_out = data.draw(st.sets(st.sampled_from(optional))) if optional else set()
    values, written = document_of(parameters, data.draw, leave_out)

    assert (None, ()) == made.invoke(json.dumps(written))[2::4]
    assert [spelled(values)] == [spelled(dict(arguments)) for arguments in seen]
    assert [] == list(Draft202012Validator(made.parameters).iter_errors(written))


@FEW
@given(signatures(), st.data(), NAMES)
def test_unknown_key(parameters: dict[str, Any], data: st.DataObject, extra: str) -> None:
    """A key that is not a parameter is refused by schema and call, and the body is not entered."""
    seen: list[Any] = []
    made = made_of(parameters, seen)
    written = {**document_of(parameters, data.draw, set())[1], f"{extra}_unknown": 1}
    result = made.invoke(json.dumps(written))

    assert ("invalid_arguments", []) == (result.kind, seen)
    assert False is Draft202012Validator(made.parameters).is_valid(written)


@FEW
@given(signatures(), st.data())
def test_wrong_type(parameters: dict[str, Any], data: st.DataObject) -> None:
    """A value of another type is refused by schema and call; the error names the parameter."""
    seen: list[Any] = []
    made, name = made_of(parameters, seen), data.draw(st.sampled_from(list(parameters)))
    wrong = data.draw(st.sampled_from([it for it in parameters[name][2] if it is not None]))
    written = {**document_of(parameters, data.draw, set())[1], name: wrong}
    result = made.invoke(json.dumps(written))

    assert ("invalid_arguments", [], True) == (result.kind, seen, f"Invalid arguments: {name}" in str(result.text))
    assert False is Draft202012Validator(made.parameters).is_valid(written)


@FEW
@given(signatures().filter(lambda parameters: len(optional_in(parameters)) < len(parameters)), st.data())
def test_missing(parameters: dict[str, Any], data: st.DataObject) -> None:
    """A required parameter that is left out is refused by schema and call; the error names it."""
    made = made_of(parameters, [])
    name = data.draw(st.sampled_from(made.parameters["required"]))
    written = {key: value for key, value in document_of(parameters, data.draw, set())[1].items() if key != name}

    text = str(made.invoke(json.dumps(written)).text)
    assert f"Invalid arguments: {name}: missing, but required" == text.partition(". Expected: ")[0]
    assert False is Draft202012Validator(made.parameters).is_valid(written)


def documents(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Make documents from a schema alone, as a model does; of the keywords only those that the types above need."""
    if "$ref" in schema:
        return st.deferred(lambda: documents(root["$defs"][schema["$ref"].rpartition("/")[2]], root))
    if "anyOf" in schema:
        return st.one_of([documents(way, root) for way in schema["anyOf"]])
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    if schema["type"] == "object":
        return objects(schema, root)
    if schema["type"] == "array":
        return arrays(schema, root)
    return FORMATS[schema["format"]] if schema.get("format") in FORMATS else scalars(schema)


def objects(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Make objects, with and without what is not required."""
    if "properties" not in schema:
        return st.dictionaries(TEXT, documents(schema["additionalProperties"], root), max_size=2)
    made = {name: documents(each, root) for name, each in schema["properties"].items()}
    required = {name: made.pop(name) for name in schema.get("required", ())}
    return st.fixed_dictionaries(required, optional=made)


def arrays(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Make arrays of any or of known length."""
    if "prefixItems" in schema:
        return st.tuples(*(documents(each, root) for each in schema["prefixItems"])).map(list)
    return st.lists(documents(schema["items"], root), max_size=2, unique=schema.get("uniqueItems", False))


def scalars(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Make values of JSON's own types."""
    whole = st.integers(schema.get("minimum", -(2**40)), schema.get("maximum", 2**40))
    number = st.floats(allow_nan=False, allow_infinity=False)
    return {"string": TEXT, "integer": whole, "number": number, "boolean": st.booleans(), "null": st.none()}[
        schema["type"]
    ]


FORMATS = {
    "date": st.dates().map(str),
    "date-time": st.datetimes().map(datetime.datetime.isoformat),
    "uuid": st.uuids().map(str),
}
NO_DECIMAL = signatures().filter(
    lambda parameters: "Decimal" not in str(parameters)
)  # its texts are any, by its schema


@FEW
@given(NO_DECIMAL, st.data())
def test_made_from_the_schema(parameters: dict[str, Any], data: st.DataObject) -> None:
    """A document that is made from the schema alone is accepted, and arrives as values of the annotated types."""
    seen: list[Any] = []
    made = made_of(parameters, seen)
    written = data.draw(documents(made.parameters, made.parameters))

    assert None is made.invoke(json.dumps(written)).error
    for name in written:
        TypeAdapter(parameters[name][0].annotation).validate_python(seen[0][name], strict=True)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | INTEGER | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@FEW
@given(ANYTHING)
def test_any_result(value: Any) -> None:
    """Any value becomes a text that can be sent, and stays itself for Python."""
    result = tool(lambda: value).invoke("{}")

    assert str(result.text).encode().decode() == result.text
    assert result.value is value


@FEW
@given(st.text() | st.binary() | st.text(st.sampled_from('{}[]":,ab1\\u0 ')))
def test_any_words(words: str | bytes) -> None:
    """Whatever a model writes, the answer is a result: short, and fit to be sent."""

    def function(a: int = 1, b: list[str] | None = None) -> str:
        return "done"

    result = tool(function).invoke(words)

    assert isinstance(result, ToolResult)
    assert 400 >= len(str(result.text).encode().decode())
