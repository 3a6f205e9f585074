"""The types that are written by hand are written as pydantic writes them."""

from __future__ import annotations

import datetime
import enum
import gc
import pathlib
import uuid
import weakref
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, TypeAdapter
from typing_extensions import Doc, NamedTuple, TypedDict

from tests.properties import examples
from toolkit import tool
from toolkit._schema.core_schema import TypeWriter, Unusual, clean, generate_fields
from toolkit._schema.generator import Generator
from toolkit._schema.json_mode import adapt_to_json


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntFlag):
    LOW = 1
    HIGH = 2


class Place(BaseModel):
    """Where."""

    name: str = Field(title="Its name", description="As on the map.")
    height: float = 0.5


class Tree(BaseModel):
    branches: dict[str, Tree] = {}
    place: Optional[Place] = None  # noqa: UP045


class Roots(RootModel[list[Tree]]):
    pass


@dataclass
class Data:
    places: list[Place]
    day: datetime.date = datetime.date(2026, 1, 2)


class Keys(TypedDict, total=False):
    data: Data


class Pair(NamedTuple):
    left: int
    right: Color


# Types that are made at run time, which no checker follows.
DICT: Any = dict
TUPLE: Any = tuple
ANNOTATED: Any = Annotated
LITERAL: Any = Literal
OPTIONAL: Any = Optional
UNION: Any = Union

BARE: list[Any] = [
    *(str, int, float, bool, bytes, None, Any, object, list, dict, set, frozenset, tuple),
    *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, uuid.UUID, Decimal),
]
CLASSES: list[Any] = [Color, Level, Place, Tree, Roots, Data, Keys, Pair, SecretStr, pathlib.Path]
LITERALS = st.lists(st.text(max_size=3), min_size=1, max_size=3) | st.lists(st.integers(), min_size=1, max_size=3)
HASHABLE = st.sampled_from([str, int, float, bool, bytes, datetime.date, uuid.UUID])


def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Make types of types."""
    return st.one_of(
        inner.map(lambda it: list[it]),  # type: ignore[valid-type]
        HASHABLE.map(lambda it: set[it]),  # type: ignore[valid-type]
        HASHABLE.map(lambda it: frozenset[it]),  # type: ignore[valid-type]
        st.tuples(st.sampled_from([str, int, Any]), inner).map(lambda pair: DICT[pair]),
        inner.map(lambda it: tuple[it, ...]),  # type: ignore[valid-type]
        st.lists(inner, max_size=3).map(lambda each: TUPLE[tuple(each)]),
        inner.map(lambda it: OPTIONAL[it]),
        st.lists(inner, min_size=1, max_size=4).map(lambda each: UNION[tuple(each)]),
    )


def wider_with_texts(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Make types of types, and add texts to some: pydantic ignores these, which our JSON Schema does not."""
    return wider(inner) | inner.map(lambda it: ANNOTATED[it, "A note.", Doc("Another.")])


PLAIN = st.sampled_from(BARE) | LITERALS.map(lambda values: LITERAL[tuple(values)])


def by_pydantic(annotation: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make the JSON Schema of a type, and its definitions."""
    keys: dict[str, Any] = {"it": list[annotation]}  # a text in it is not the key's
    whole: Any = TypedDict("whole", keys)  # type: ignore[misc]  # noqa: UP013  keys known at run time only
    whole.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]
    made = TypeAdapter(whole).json_schema(schema_generator=Generator)
    return clean(made["properties"]["it"]["items"]), {name: clean(each) for name, each in made.get("$defs", {}).items()}


@examples(300)
@given(st.recursive(PLAIN | st.sampled_from(CLASSES), wider, max_leaves=6))
def test_json_schema(annotation: Any) -> None:
    """The JSON Schema of a type is the one that pydantic makes."""
    writer = TypeWriter()
    try:
        written = writer.write(annotation)
    except Unusual:
        return

    assert by_pydantic(annotation) == (written.schema, writer.definitions)


@examples(300)
@given(st.recursive(PLAIN, wider_with_texts, max_leaves=6))
def test_core_schema(annotation: Any) -> None:
    """The validator's schema of a type is the one that pydantic makes."""
    writer = TypeWriter()
    try:
        written = writer.write(annotation)
    except Unusual:
        return
    writer.complete()

    assert adapt_to_json(generate_fields({"it": annotation}, {}).cores["it"]["schema"]) == adapt_to_json(written.core)


def test_written_by_hand() -> None:
    """The usual types are written by hand, at any depth."""
    usual: Any = Optional[dict[str, list[tuple[Literal["a", "b"], set[int] | None]]]]  # noqa: UP045
    item = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    pair = [{"enum": ["a", "b"], "type": "string"}, {"anyOf": [item, {"type": "null"}]}]
    row = {"type": "array", "prefixItems": pair, "minItems": 2, "maxItems": 2}
    mapping = {"type": "object", "additionalProperties": {"type": "array", "items": row}}

    assert {"anyOf": [mapping, {"type": "null"}]} == TypeWriter().write(usual).schema
    assert "nullable" == TypeWriter().write(usual).core["type"]


UNUSUAL: dict[str, Any] = {
    "bounds": Annotated[int, Field(ge=1)],
    "Literal of a member": Literal[Color.RED],
    "Literal of kinds": Literal["a", 1],
    "truth as a key": dict[bool, int],
    "empty tuple": tuple[()],
    "no type": 5,
}


@pytest.mark.parametrize("annotation", UNUSUAL.values(), ids=UNUSUAL)
def test_left_to_pydantic(annotation: Any) -> None:
    """What is not usual is left to pydantic."""
    with pytest.raises(Unusual):
        TypeWriter().write(annotation)


def describe(kind: type[BaseModel]) -> Any:
    """The schema of a tool that takes a value of a class."""

    def take(value: Any) -> None: ...

    take.__annotations__ = {"value": kind}
    return tool(take).parameters


def test_rebuilt_model() -> None:
    """A model that is rebuilt is described again."""

    class Late(BaseModel):
        value: int

    before = describe(Late)
    Late.model_fields["value"].annotation = str
    Late.model_rebuild(force=True)

    assert ["integer", "string"] == [
        schema["$defs"]["Late"]["properties"]["value"]["type"] for schema in (before, describe(Late))
    ]


def test_nothing_is_kept_of_a_class() -> None:
    """What is known of a class goes with it, and each tool has its own copy."""

    class Local(BaseModel):
        value: int

    first, second = [describe(Local)["$defs"]["Local"]["properties"] for _ in range(2)]
    first.clear()
    reference = weakref.ref(Local)
    del Local
    gc.collect()

    assert (["value"], None) == (list(second), reference())
