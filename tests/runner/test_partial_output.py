"""Structured answers while they arrive: values of their type, never less than valid, never an exception."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator
from typing_extensions import NotRequired, TypedDict

from tests.properties import examples
from tests.servers import FakeServer
from toolkit import Limits, RunError, Runner
from toolkit.events import OutputDelta, RunFinished, TextDelta, TurnFinished
from toolkit.models import ModelRequest, ModelResponse, Piece
from toolkit.testing import ScriptedModel, call, reply


class Section(BaseModel):
    """A part of a report."""

    heading: str
    lines: list[str] = []


class Report(BaseModel):
    """A model with fields that may be missing."""

    title: str
    score: int = 0
    sections: list[Section] = []


@dataclass
class Event:
    """A dataclass."""

    name: str
    day: date | None = None


class Place(TypedDict):
    """A TypedDict."""

    name: str
    zone: NotRequired[Literal["north", "south"]]


class Person(BaseModel):
    """A model all of whose fields have to be there."""

    name: str
    age: int


def look() -> str:
    """Look around."""
    return "trees"


@dataclass
class InPieces:
    """A model whose answer arrives in these pieces."""

    answer: str
    texts: tuple[str, ...]
    name: str = "in pieces"
    is_async: bool = False

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        for text in self.texts:
            yield TextDelta(text)
        yield ModelResponse(text=self.answer)


def values(kind: Any, *texts: str, answer: str = "") -> list[Any]:
    """The values of an answer that arrives in these pieces; one that does not fit the type ends its run."""
    found = []
    runner = Runner(model=InPieces(answer or "".join(texts), texts), limits=Limits(max_output_retries=0))
    with suppress(RunError), runner.stream("x", output_type=kind) as stream:
        for event in stream:
            if isinstance(event, OutputDelta):
                found.append(event.value)  # noqa: PERF401  the run may raise
    return found


def test_model() -> None:
    """A model grows by its fields; an item that is not whole enough to be one is left out."""
    assert [
        Report(title="Tr"),
        Report(title="Trees", score=12),
        Report(title="Trees", score=12, sections=[Section(heading="O")]),
        Report(title="Trees", score=12, sections=[Section(heading="Oak", lines=["tall", "o"])]),
        Report(title="Trees", score=12, sections=[Section(heading="Oak", lines=["tall", "old"])]),
    ] == values(
        Report,
        '{"title": "Tr',
        'ees", "score": 12, ',
        '"sections": [{"head',
        'ing": "O',
        'ak", "lines": ["tall", "o',
        'ld"]}]}',
    )


GROWTH: dict[str, tuple[Any, list[str], list[Any]]] = {
    "a dataclass": (
        Event,
        ['{"name": "Fair"', ', "day": "2024-01', '-02"}'],
        [Event("Fair"), Event("Fair", date(2024, 1, 2))],
    ),
    "a TypedDict": (
        Place,
        ['{"name": "Oslo", ', '"zone": "no', 'rth"}'],
        [{"name": "Oslo"}, {"name": "Oslo", "zone": "north"}],
    ),
    "a list under its key": (list[int], ['{"result": [1, 2', "2, 3", "]}"], [[1], [1, 22], [1, 22, 3]]),
    "a list by itself": (list[int], ["[1, 2", "2, 3", "]"], [[1], [1, 22], [1, 22, 3]]),
    "a mapping": (dict[str, int], ['{"a": 1, "b"', ": 2}"], [{"a": 1}, {"a": 1, "b": 2}]),
    "a number": (int, ['{"result": 4', "2", "}"], [42]),
    "a number by itself": (int, ["4", "2"], [42]),
    "a truth": (bool, ['{"result": tr', "ue}"], [True]),
    "a text and more": (str | int, ['{"result": "on', 'e"}'], ["on", "one"]),
    "a union of models": (
        Person | Section,
        ['{"result": {"heading": "a"', ', "lines": ["b"]}}'],
        [Section(heading="a"), Section(heading="a", lines=["b"])],
    ),
    "nothing before it is whole": (Person, ['{"name": "Ann"', ', "age": 4', "1}"], [Person(name="Ann", age=41)]),
    "in a fence": (list[int], ["```json\n", "[1, ", "2]\n", "```"], [[1], [1, 2]]),
    "a character in halves": (list[str], ['["\\ud83d', '\\ude00"]'], [[""], ["\U0001f600"]]),
}


@pytest.mark.parametrize(("kind", "texts", "grown"), GROWTH.values(), ids=GROWTH)
def test_growth(kind: Any, texts: list[str], grown: list[Any]) -> None:
    """Whatever the type, its value grows, and ends as the whole answer."""
    assert grown == values(kind, *texts)


class Key(BaseModel):
    key: str


class Keys(BaseModel):
    keys: list[Key]
    note: str = ""


REPORT = {"title": "", "score": None, "sections": [{"heading": "", "lines": None}, {"heading": "", "lines": [""]}]}
PAIRS = {"additional_properties": [{"key": "ab", "value": 1}, {"key": "cd", "value": [2]}]}
# Types whose schemas are rewritten for strict mode: an answer in the form that is sent, and its values.
REWRITTEN: dict[str, tuple[Any, Any, list[Any]]] = {
    "null for a default": (
        Report,
        REPORT,
        [
            Report(title=""),
            Report(title="", sections=[Section(heading="")]),
            Report(title="", sections=[Section(heading="")] * 2),
            Report(title="", sections=[Section(heading=""), Section(heading="", lines=[""])]),
        ],
    ),
    "no pairs": (
        Keys,
        {"keys": [{"key": ""}] * 3, "note": None},
        [Keys(keys=[]), Keys(keys=[Key(key="")] * 2), Keys(keys=[Key(key="")] * 3)],
    ),
    "any keys": (dict[str, Any], PAIRS, [{}, {"ab": 1}, {"ab": 1, "cd": [2]}]),
    "tuples": (
        list[tuple[int, str]],
        {"result": [{"item_1": 1, "item_2": ""}, {"item_1": 2, "item_2": ""}]},
        [[], [(1, "")], [(1, ""), (2, "")]],
    ),
}


@pytest.mark.parametrize("is_refused", [False, True], ids=["native", "call"])
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(("kind", "sent", "grown"), REWRITTEN.values(), ids=REWRITTEN)
def test_rewritten_schemas(
    kind: Any, sent: Any, grown: list[Any], api: Literal["chat", "responses"], *, is_refused: bool
) -> None:
    """An answer in the form of strict mode grows as one in the type's own form, and shows nothing of that form."""
    refusal = [reply.error(400, "'response_format' is not supported")] if is_refused else []
    answer = reply.calls(("final_result", sent), split=1) if is_refused else reply.text(json.dumps(sent), split=1)
    with FakeServer([*refusal, answer]) as server:
        runner = Runner(base_url=server.base_url, api_key="test", model="fake", api=api)
        with runner.stream("x", output_type=kind) as stream:
            found = [event.value for event in stream if isinstance(event, OutputDelta)]

    assert grown == found
    assert grown[-1] == stream.result.output


def test_missing_is_not_null() -> None:
    """Where a field that is left out means null, a field that has not arrived yet does not."""
    with FakeServer([reply.text('{"result": 76}', split=1)]) as server:
        runner = Runner(base_url=server.base_url, api_key="test", model="fake", dialect="minimal")
        with runner.stream("x", output_type=int | None) as stream:
            found = [event.value for event in stream if isinstance(event, OutputDelta)]

    assert [76] == found


NOTHING: dict[str, tuple[Any, str]] = {
    "prose": (Report, "Here is your report: {"),
    "another type": (Report, '{"title": 5}'),
    "another shape": (Report, "[1, 2]"),
    "a number that is none": (Person, '{"name": "Ann", "age": NaN}'),
    "a deep nest": (int, "[" * 5_000),
    "no JSON at all": (int, "}"),
    "blank": (Report, " \n "),
    "prose that begins with a number": (int, "3 birds"),
    "nothing": (Report, ""),
}


@pytest.mark.parametrize(("kind", "text"), NOTHING.values(), ids=NOTHING)
def test_nothing(kind: Any, text: str) -> None:
    """An answer that is not one of the type, or none yet, gives nothing, and raises nothing."""
    assert [] == values(kind, *text)


def test_answer_that_came_whole() -> None:
    """Where no pieces came, there is one value: that of the whole."""
    assert [[1, 2]] == values(list[int], answer='{"result": [1, 2]}')


def test_any_text() -> None:
    """Where the output is text, there are no partial outputs: the text itself is streamed."""
    assert [] == values(str, "Hel", "lo.")


def test_only_changes() -> None:
    """A value is given once, however the text around it grows."""
    assert [[], [1]] == values(list[int], '{"result":', " [1", "   ", " ]  ", "}", "\n")


def test_values_that_cannot_be_compared() -> None:
    """A value whose comparison fails counts as changed."""

    class Odd(BaseModel):
        name: str

        def __eq__(self, other: object) -> bool:
            raise RuntimeError

    assert ["a", "ab", "ab", "ab"] == [value.name for value in values(Odd, '{"name": "a', "b", '"}')]


def test_validators_that_fail() -> None:
    """A validator that raises something odd about a beginning does no harm."""

    class Strict(BaseModel):
        name: str = Field(max_length=5)

        @field_validator("name")
        @classmethod
        def whole(cls, name: str) -> str:
            if name != "Anna":
                raise RuntimeError(name)
            return name

    assert ["Anna"] == [value.name for value in values(Strict, '{"name": "An', 'na"}')]


def test_strict_types() -> None:
    """A type that takes nothing but its own is read as JSON is: a date from a text, a tuple from a list."""

    class Strict(BaseModel, strict=True):
        day: date
        pair: tuple[int, int] | None = None

    assert [(date(2024, 1, 2), None), (date(2024, 1, 2), (1, 2))] == [
        (value.day, value.pair) for value in values(Strict, '{"day": "2024-01-02", ', '"pair": [1, 2', "]}")
    ]


def test_each_value_is_another() -> None:
    """A value that was given does not change when the next one is made."""
    first, second = values(list[list[int]], "[[1], ", "[2]]")

    assert ([[1]], [[1], [2]]) == (first, second)
    assert first[0] is not second[0]


def test_effort_is_linear() -> None:
    """A text is not read again for each token of it: 40,000 pieces are read some 100 times."""
    read: list[str] = []

    class Counted(BaseModel):
        lines: list[str]

        @field_validator("lines")
        @classmethod
        def count(cls, lines: list[str]) -> list[str]:
            read.append("".join(lines))
            return lines

    text = json.dumps({"lines": ["x" * 9] * 16_000})
    values(Counted, *(text[place : place + 5] for place in range(0, len(text), 5)))
    assert len(read) < 200
    assert sum(map(len, read)) < 20 * len(text)


@pytest.mark.parametrize("size", [1, 50], ids=["short", "long"])
def test_stream_of_a_run(size: int) -> None:
    """A stream reports the answer as it grows, and last the run's output, before the turn is finished."""
    report = Report(title="Trees", sections=[Section(heading=f"Tree {number}") for number in range(size)])
    answer = report.model_dump_json(indent=1)
    with Runner(model=ScriptedModel([answer])).stream("x", output_type=Report) as stream:
        events = list(stream)

    values = [event.value for event in events if isinstance(event, OutputDelta)]
    assert (Report(title="Trees"), report, report) == (values[0], values[-1], stream.result.output)
    assert [TurnFinished, RunFinished] == [type(event) for event in events[-2:]]


def test_stream_with_calls_in_between() -> None:
    """What the model says beside its calls is not an answer; a rejected answer is reported before one that fits."""
    script: list[Any] = [[call("look")], '{"title": 5}', '{"result": 7}', '{"title": "Trees"}']
    with Runner([look], model=ScriptedModel(script)).stream("x", output_type=Report) as stream:
        values = [event.value for event in stream if isinstance(event, OutputDelta)]

    assert [Report(title="Trees")] == values


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@examples(200)
@given(JSON, st.integers(1, 7))
def test_any_json(document: Any, size: int) -> None:
    """Whatever JSON arrives, in whatever pieces: the last value is that of the whole."""
    text = json.dumps({"result": document})
    pieces = [text[place : place + size] for place in range(0, len(text), size)]

    assert document == values(Any, *pieces)[-1]


@examples(200)
@given(st.text(alphabet='{}[]",:`\\u1e.-tfn a\ud83d'), st.sampled_from([Report, list[int], int, Place]))
def test_any_text_is_harmless(text: str, kind: Any) -> None:
    """Whatever arrives raises nothing."""
    values(kind, *text)
