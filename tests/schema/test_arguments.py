"""Raw arguments become values, or an error that the model can act on; repairs never guess."""

from __future__ import annotations

import json
import math
from base64 import b64decode
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from annotated_types import Le
from pydantic import VERSION, AfterValidator, BaseModel, BeforeValidator, Field, Json
from typing_extensions import TypedDict

from toolkit import DefinitionError, Runner, Tool, ToolCall, ToolResult, tool
from toolkit.testing import ScriptedModel


@tool
def search(query: str, limit: Annotated[int, Field(ge=1, le=50)] = 10, unit: Literal["c", "f"] = "c") -> list[Any]:
    """Search."""
    return [query, limit, unit]


@tool
def optional(a: int = 1, b: list[int] | None = None) -> list[Any]:
    """Take nothing."""
    return [a, b]


class Point(BaseModel):
    x: int
    y: int = 0


@tool
def nested(points: list[Point], by_name: dict[str, Point] | None = None) -> Any:
    """Take points."""
    return [point.x for point in points]


def invalid(reason: str) -> str:
    return f"Invalid arguments: {reason}"


def unfit(reason: str) -> str:
    """The error message for wrong arguments of `search`: the faults, then the signature."""
    signature = 'search(query: string, limit: integer = 10, unit: "c" | "f" = "c")'
    stop = "" if reason.endswith((".", "?")) else "."
    return f"Invalid arguments: {reason}{stop} Expected: {signature}"


WHOLE = ". Send one whole JSON object."
ERRORS = {
    "missing": ("{}", "query: missing, but required"),
    "missing and null": ('{"query": null}', "query: Input should be a valid string (received null)"),
    "wrong type": ('{"query": 5}', "query: Input should be a valid string (received 5)"),
    "fraction": (
        '{"query": "a", "limit": 3.5}',
        "limit: Input should be a valid integer, got a number with a fractional part (received 3.5)",
    ),
    "out of bounds": ('{"query": "a", "limit": 500}', "limit: Input should be less than or equal to 50 (received 500)"),
    "not one of": ('{"query": "a", "unit": "k"}', "unit: Input should be 'c' or 'f' (received \"k\")"),
    "two faults": (
        '{"limit": 0}',
        "query: missing, but required; limit: Input should be greater than or equal to 1 (received 0)",
    ),
    "several unknown": (
        '{"query": "a", "q": 1, "limits": 3}',
        "q: no such parameter. Available: query, limit, unit; limits: no such parameter; did you mean 'limit'?",
    ),
    "unknown": ('{"query": "a", "q": 1}', "q: no such parameter. Available: query, limit, unit"),
    "nearly known": (
        '{"query": "a", "limits": 1}',
        "limits: no such parameter; did you mean 'limit'? Available: query, limit, unit",
    ),
    "cut": ('{"query": "a', f"not valid JSON (EOF while parsing a string at line 1 column 12){WHOLE}"),
    "Python": ("{'query': 'a'}", f"not valid JSON (key must be a string at line 1 column 2){WHOLE}"),
    "trailing comma": ('{"query": "a",}', f"not valid JSON (trailing comma at line 1 column 15){WHOLE}"),
    "fenced": ('```json\n{"query": "a"}\n```', f"not valid JSON (expected value at line 1 column 1){WHOLE}"),
    "two objects": ('{"query": "a"}{}', f"not valid JSON (trailing characters at line 1 column 15){WHOLE}"),
    "comment": ('{"query": "a"} // b', f"not valid JSON (trailing characters at line 1 column 16){WHOLE}"),
    "half a character": (
        '{"query": "\\ud800"}',
        f"not valid JSON (unexpected end of hex escape at line 1 column 18){WHOLE}",
    ),
    "list": ("[1]", "expected one JSON object with query, limit, unit, received [1]"),
    "number": ("5", "expected one JSON object with query, limit, unit, received 5"),
    "bool": ("true", "expected one JSON object with query, limit, unit, received true"),
    "text": ('"a"', 'expected one JSON object with query, limit, unit, received "a"'),
}


@pytest.mark.parametrize(("arguments", "reason"), ERRORS.values(), ids=ERRORS)
def test_errors(arguments: str, reason: str) -> None:
    """An error names place, reason, the value received, what is available and the signature."""
    assert (unfit(reason), "invalid_arguments") == search.invoke(arguments)[1::2][:2]


def test_no_keys() -> None:
    """The error of a tool without parameters states that there are none."""
    nothing = tool(name="nothing")(lambda: 1)

    assert (
        invalid("expected one JSON object with no keys, received [1]. Expected: nothing()")
        == nothing.invoke("[1]").text
    )
    assert invalid("a: no such parameter. Expected: nothing()") == nothing.invoke('{"a": 1}').text


NESTED = {
    "item": ('{"points": [{"x": 1}, {"x": "a"}]}', "points[1].x: Input should be a valid integer"),
    "missing": ('{"points": [{}]}', "points[0].x: missing, but required"),
    "by name": ('{"points": [], "by_name": {"a b": {"x": []}}}', "by_name.a b.x: Input should be a valid integer"),
}


@pytest.mark.parametrize(("arguments", "reason"), NESTED.values(), ids=NESTED)
def test_nested_errors(arguments: str, reason: str) -> None:
    """The path leads to the fault."""
    assert str(nested.invoke(arguments).text).startswith(invalid(reason))


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    chip: str


UNION_ERRORS = {
    "a number or a list": (
        '{"n": ["a"]}',
        'n (int): Input should be a valid integer (received ["a"]); n[0] (list[int]): ',
    ),
    "a kind": ('{"pet": {"kind": "cat", "lives": "x"}}', "pet.lives (cat): Input should be a valid integer, "),
    "a missing field": ('{"pet": {"kind": "dog"}}', "pet.chip (dog): missing, but required. Expected: "),
    "two models": (
        '{"points": [{"x": 1}, {}]}',
        "points[1].x (Point): missing, but required; points[1].kind (Cat): missing",
    ),
    "after a repair": (
        '{"points": "[{}]"}',
        "points[0].x (Point): missing, but required; points[0].kind (Cat): missing",
    ),
    "branches without a name": (
        '{"host": "x"}',
        'host: Input is not a valid IPv4 address (received "x"); host: Input should be \'auto\' (received "x")',
    ),
}


@pytest.mark.parametrize(("arguments", "reason"), UNION_ERRORS.values(), ids=list(UNION_ERRORS))
def test_union_errors(arguments: str, reason: str) -> None:
    """Paths are those of the arguments; branches of unions are named beside them."""

    @tool
    def take(
        n: int | list[int] = 0,
        pet: Annotated[Cat | Dog | None, Field(discriminator="kind")] = None,
        points: Sequence[Point | Cat] = (),
        host: IPv4Address | Literal["auto"] = "auto",
    ) -> None:
        """Take one of several things."""

    assert str(take.invoke(arguments).text).startswith(invalid(reason))


def test_received_as_json() -> None:
    """A value that was converted before it was refused is shown as JSON, not as Python writes it."""

    @tool
    def wait(time: Annotated[timedelta, Le(timedelta(hours=1))]) -> None:
        """Wait for some time."""

    assert '(received "PT10H")' in str(wait.invoke('{"time": "10:00"}').text)


def test_received_without_json() -> None:
    """Of a refused value that has no JSON, such as bytes that a validator decoded, the model reads the type."""

    @tool
    def load(text: Annotated[str, BeforeValidator(b64decode)]) -> None:
        """Load a text."""

    assert "(received bytes)" in str(load.invoke('{"text": "/w=="}').text)


@pytest.mark.parametrize("arguments", ["", "  \n", "null", " null ", "{}", b"", {}, None], ids=repr)
def test_no_arguments(arguments: Any) -> None:
    """Nothing, in whatever spelling, means that there are no arguments."""
    assert ToolResult([1, None], "[1,null]") == optional.invoke(arguments)
    assert unfit("query: missing, but required") == search.invoke(arguments).text


INFINITE = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", '"nan"', '"inf"', '"Infinity"', '"-inf"', '"1e400"']


@pytest.mark.parametrize("number", INFINITE)
@pytest.mark.parametrize("place", ["%s", "[%s]", '{"a": %s}'], ids=["bare", "list", "dict"])
def test_finite(number: str, place: str) -> None:
    """No spelling of NaN or infinity is a number, at any depth."""

    def function(value: float | list[float] | dict[str, float]) -> Any: ...

    assert "invalid_arguments" == tool(function).invoke('{"value": %s}' % (place % number)).kind


COERCED: dict[str, tuple[Any, str, Any]] = {
    "int from text": (int, '"5"', 5),
    "int from whole number": (int, "5.0", 5),
    "int from bool": (int, "true", 1),
    "float from int": (float, "5", 5.0),
    "bool from yes": (bool, '"yes"', True),
    "bool from 1": (bool, "1", True),
    "date from text": (date, '"2026-01-02"', date(2026, 1, 2)),
}


@pytest.mark.parametrize(("kind", "written", "value"), COERCED.values(), ids=COERCED)
def test_coerced(kind: Any, written: str, value: Any) -> None:
    """What can only mean one value is taken for it, and arrives typed."""

    def function(value: Any) -> Any:
        return value

    function.__annotations__ = {"value": kind}

    assert repr(value) == repr(tool(function).invoke(f'{{"value": {written}}}').value)


NOT_COERCED: dict[str, tuple[Any, str]] = {
    "str from int": (str, "5"),
    "str from bool": (str, "true"),
    "str from list": (str, "[]"),
    "int from fraction": (int, "5.5"),
    "int from word": (int, '"five"'),
    "int from empty text": (int, '""'),
    "bool from 2": (bool, "2"),
    "bool from word": (bool, '"maybe"'),
    "list from bare value": (list[int], "5"),
    "list from arguments": (list[str], '"a, b"'),
    "dict from list": (dict[str, int], "[]"),
    "model from list": (Point, "[1, 2]"),
    "date from word": (date, '"tomorrow"'),
}


@pytest.mark.parametrize(("kind", "written"), NOT_COERCED.values(), ids=NOT_COERCED)
def test_not_coerced(kind: Any, written: str) -> None:
    """What could mean several things is refused."""

    def function(value: Any) -> Any:
        raise AssertionError("must not be entered")

    function.__annotations__ = {"value": kind}

    assert "invalid_arguments" == tool(function).invoke(f'{{"value": {written}}}').kind


def mixed(
    numbers: list[int] | None = None,
    table: dict[str, int] | None = None,
    point: Point | None = None,
    pair: tuple[int, int] | None = None,
    either: list[int] | str = "",
    text: str = "",
    short: list[int] | Annotated[str, Field(max_length=3)] = "",
    number: int | list[int] = 0,
) -> Any:
    return locals()


REPAIRED: dict[str, tuple[str, str, Any, Sequence[str]]] = {
    "list": ("numbers", "[1, 2]", [1, 2], ["numbers: decoded from a JSON string"]),
    "dict": ("table", '{"a": 1}', {"a": 1}, ["table: decoded from a JSON string"]),
    "model": ("point", '{"x": 1}', Point(x=1), ["point: decoded from a JSON string"]),
    "tuple": ("pair", "[1, 2]", (1, 2), ["pair: decoded from a JSON string"]),
    "no text is due": ("number", "[1]", [1], ["number: decoded from a JSON string"]),
    "a text is due": ("either", "[1]", "[1]", []),
    "only a text is due": ("text", "[1]", "[1]", []),
}


@pytest.mark.parametrize(("name", "text", "value", "repairs"), REPAIRED.values(), ids=REPAIRED)
def test_decoded(name: str, text: str, value: Any, repairs: Sequence[str]) -> None:
    """JSON in a string is decoded only where no string is valid; the repair is in the result."""
    result = tool(mixed).invoke({name: text})

    assert (value, tuple(repairs)) == (result.value[name], result.repairs)


NOT_REPAIRED = {
    "a short text is due": {"short": "[1, 2]"},
    "still wrong": {"numbers": '["a"]'},
    "no JSON": {"numbers": "1, 2"},
    "a bare value": {"numbers": "1"},
    "cut": {"numbers": "[1, 2"},
    "encoded three times": {"numbers": json.dumps("[1]")},
}


@pytest.mark.parametrize("sent", NOT_REPAIRED.values(), ids=NOT_REPAIRED)
def test_not_decoded(sent: dict[str, Any]) -> None:
    """What decoding alone does not make right stays wrong."""
    result = tool(mixed).invoke(sent)

    assert ("invalid_arguments", ()) == (result.kind, result.repairs)


needs_pydantic_2_14 = pytest.mark.skipif(VERSION.startswith("2.13"), reason="pydantic 2.14 reports another error")


class Pair(NamedTuple):
    first: int
    second: int


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        pytest.param(Pair, "[1, 2]", Pair(1, 2), marks=needs_pydantic_2_14),
        (deque[int], "[1]", deque([1])),
        (Counter[str], '{"a": 1}', Counter("a")),
        (OrderedDict[str, int], '{"a": 1}', OrderedDict(a=1)),
    ],
    ids=["named tuple", "deque", "counter", "ordered dict"],
)
def test_decoded_for_other_collections(kind: Any, text: str, value: Any) -> None:
    """JSON in a string is decoded for every type that a list or an object becomes."""

    def function(value: Any) -> Any:
        return value

    function.__annotations__ = {"value": kind}

    assert value == tool(function).invoke({"value": text}).value


def test_decoded_inside_of_what_was_decoded() -> None:
    """A text that was decoded may hold texts to decode: each is encoded once for its own place."""
    result = nested.invoke({"points": json.dumps(['{"x": 1}'])})

    assert [1] == result.value
    assert ("points", "points[0]") == tuple(note.partition(":")[0] for note in result.repairs)


def test_decoded_inside() -> None:
    """An item may be encoded, too, and several faults are repaired at once."""
    result = nested.invoke({"points": ['{"x": 1}', {"x": 2}, '{"x": 3}'], "by_name": "{}"})

    assert [1, 2, 3] == result.value
    assert ("points[0]", "points[2]", "by_name") == tuple(note.partition(":")[0] for note in result.repairs)


LAYERS = {1: [1, None], 2: [1, None], 3: None, 4: None}


@pytest.mark.parametrize(("layers", "value"), LAYERS.items(), ids=map(str, LAYERS))
def test_encoded_whole(layers: int, value: Any) -> None:
    """Arguments that were encoded twice are decoded once more, and no further."""
    arguments = '{"a": 1}'
    for _ in range(layers - 1):
        arguments = json.dumps(arguments)

    assert value == optional.invoke(arguments).value


def test_null_left_out() -> None:
    """Null for an optional parameter means that it is left out."""
    result = search.invoke('{"query": "a", "limit": null, "unit": null}')

    assert (["a", 10, "c"], ("limit: null taken as left out", "unit: null taken as left out")) == result[::6]


@pytest.mark.parametrize(
    "arguments",
    ['{"query": null}', '{"query": "a", "limit": null, "unit": "k"}', '{"query": "a", "unknown": null}'],
    ids=["required", "another fault", "unknown"],
)
def test_null_refused(arguments: str) -> None:
    """Null mends nothing that is required, unknown or wrong elsewhere."""
    assert "invalid_arguments" == search.invoke(arguments).kind


def test_null_stays() -> None:
    """Null stays null where the type allows it."""
    assert ([1, None], ()) == optional.invoke('{"b": null}')[::6]


@pytest.mark.parametrize("arguments", ['{"x": "\ud800"}', b'{"x": "\xff"}', {"x": "\ud800"}, {"\ud800": 1}], ids=ascii)
def test_not_unicode(arguments: Any) -> None:
    """What is not Unicode is refused, not replaced, and the error can be sent."""
    result = tool(lambda x: x).invoke(arguments)

    assert "invalid_arguments" == result.kind
    assert str(result.text).encode().startswith(b"Invalid arguments: ")


def test_keys_match_exactly() -> None:
    """A key in another normal form of Unicode is another key."""
    scope: dict[str, Any] = {}
    exec("def function(caf\u00e9: int): return caf\u00e9", scope)  # noqa: S102
    made = tool(name="f")(scope["function"])

    assert [1, None] == [made.invoke({"caf\u00e9": 1}).value, made.invoke({"cafe\u0301": 1}).value]


@pytest.mark.parametrize("depth", [100, 1_000, 1_000_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'], ids=["list", "dict"])
def test_depth(depth: int, opening: str) -> None:
    """No depth of nesting does more than an error."""
    assert tool(lambda x: 1).invoke('{"x":' + opening * depth).is_error


def test_size() -> None:
    """A megabyte of wrong arguments makes an error of 400 characters; a secret far inside does not come back."""
    result = search.invoke({"query": ["x" * 1_000_000, "secret"]})

    assert 400 >= len(str(result.text))
    assert "secret" not in str(result.text)


def test_many_faults() -> None:
    """A thousand faults make a short error, too, with the number of those that it omits."""
    text = str(nested.invoke({"points": [{}] * 1000}).text)

    assert (True, True) == (len(text) <= 400, "; and 992 more. Expected: nested(" in text)


def take_nothing(word: str, count: int = 0) -> None: ...
def take_lists(arguments: list[str], points: list[Point] = [], rest: list[Any] = []) -> None: ...  # noqa: B006
def take_mixed(sizes: list[int | None], points: list[Point | int] = []) -> None: ...  # noqa: B006
def take_either(size: int | float | None = None, unit: Literal["c", 1] = "c", point: Point | None = None) -> None: ...
def take_anything(what, other: Any = None, more: dict[str, int] = Field(default_factory=dict)) -> None: ...  # type: ignore[no-untyped-def]
def take_one_of(number: Literal[1, 2, 3, 4, 5, 6, 7, 8, 9] = 1) -> None: ...
def take_nested(
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None, size: Literal["s", "m"] | int = 1
) -> None: ...
def take_choices(units: list[Literal["c", "f"]]) -> None: ...
def take_long(word: str = "x" * 100) -> None: ...


SIGNATURES = {
    "plain types": (take_nothing, "word: string, count: integer = 0"),
    "lists": (take_lists, "arguments: array of string, points: array of Point = [], rest: array = []"),
    "lists of either": (take_mixed, "sizes: array of (integer | null), points: array of (Point | integer) = []"),
    "choices": (take_either, 'size: integer | number | null = null, unit: "c" | 1 = "c", point: Point | null = null'),
    "anything": (take_anything, "what: any, other: any = null, more: object = ..."),
    "a union in a union": (take_nested, 'pet: Cat | Dog | null = null, size: "s" | "m" | integer = 1'),
    "a list of choices": (take_choices, 'units: array of ("c" | "f")'),
    "many choices": (take_one_of, "number: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | ... = 1"),
    "a long default": (take_long, f'word: string = "{"x" * 58}…'),
}


@pytest.mark.parametrize(("function", "shown"), SIGNATURES.values(), ids=SIGNATURES)
def test_signature(function: Callable[..., None], shown: str) -> None:
    """Behind the faults stands in short what the tool takes: names, types and defaults."""
    text = str(tool(function).invoke("[]").text)

    assert f"Expected: {function.__name__}({shown})" == text[text.index("Expected: ") :]


class Span(BaseModel):
    start: int
    stop: int = Field(default_factory=lambda data: data["start"] + 1)


@needs_pydantic_2_14
def test_default_that_follows() -> None:
    """A default that is made of other values is no fault of its own if one of them is missing."""

    def function(span: Span) -> int:
        return span.stop

    assert (
        invalid("span.start: missing, but required. Expected: function(span: Span)")
        == tool(function).invoke({"span": {}}).text
    )
    assert 3 == tool(function).invoke({"span": {"start": 2}}).value


def test_long_signature() -> None:
    """A signature is cut to the room that the faults leave, and they are whole."""

    def function(a: int, b: Literal["x" * 200, "y" * 200]) -> None: ...  # type: ignore[valid-type]

    text = str(tool(function).invoke({}).text)

    assert text.startswith(
        invalid("a: missing, but required; b: missing, but required. Expected: function(a: integer,")
    )
    assert (400, "…") == (len(text), text[-1])


def test_large() -> None:
    """Ten megabytes arrive whole."""
    assert 10_000_000 == len(tool(lambda x: x).invoke({"x": "x" * 10_000_000}).value)


EQUAL_KEYS = {
    "outside": ('{"x": 1, "x": 2}', 2),
    "once escaped": ('{"x": 1, "\\u0078": 2}', 2),
    "within": ('{"x": {"a": {"b": 1, "b": 2}}}', {"a": {"b": 2}}),
}


@pytest.mark.parametrize(("arguments", "value"), EQUAL_KEYS.values(), ids=EQUAL_KEYS)
def test_equal_keys(arguments: str, value: Any) -> None:
    """Of equal keys the last one wins, as for every reader of JSON."""
    assert value == tool(lambda x: x).invoke(arguments).value


@pytest.mark.parametrize("arguments", ['{"x": NaN}', '{"x": 1e400}'])
@pytest.mark.parametrize("kind", [int, float, float | None, list[float] | str, bool, str, Literal[1]], ids=str)
def test_no_number(kind: Any, arguments: str) -> None:
    """NaN and infinities are refused for every type that is not any value."""

    def function(x: Any) -> Any:
        return x

    function.__annotations__["x"] = kind

    assert "invalid_arguments" == tool(function).invoke(arguments).kind


@pytest.mark.parametrize(
    ("arguments", "value"),
    [('{"x": -Infinity}', -math.inf), ('{"x": 1e400}', math.inf), ({"x": math.inf}, math.inf)],
    ids=["word", "too large", "mapping"],
)
def test_no_number_as_any_value(arguments: Any, value: float) -> None:
    """Where any value is welcome they arrive as what they are, not as null."""
    assert value == tool(lambda x: x).invoke(arguments).value


def test_no_number_in_a_repair() -> None:
    """A repair does not make null of NaN."""

    def function(items: list[int], x: float | None) -> Any:
        return items, x

    assert "x: Input should be a finite number" in str(tool(function).invoke('{"items": "[1]", "x": NaN}').text)


class Leg(BaseModel):
    """A part of a journey; with one key that may be left out."""

    start: str
    end: str = ""


def go(legs: list[Leg], leg: Leg, note: str = "") -> str:
    return f"{len(legs)} {leg.start} {leg.end} {note}"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"legs": [], "leg": {"start": "a"}}', "0 a  "),
        ('{"legs": [{"start": "b:c"}], "leg": {"start": "a", "end": "d"}, "note": "::"}', "1 a d ::"),
        ('{"legs": [], "leg": {"start": "b", "start": "a"}}', "0 a  "),
        ('{"legs": "[]", "legs": "[{}]", "legs": "[]", "leg": {"start": "a"}}', "0 a  "),
        ('{"legs": "[{\\"start\\": \\"b\\", \\"start\\": \\"c\\"}]", "leg": {"start": "a"}}', "1 a  "),
    ],
    ids=["least", "more keys and colons in texts", "nested", "in what is repaired", "in an encoded text"],
)
def test_equal_keys_within(arguments: str, text: str) -> None:
    """Of equal keys the last one wins at any depth, in repaired texts too."""
    assert text == tool(go).invoke(arguments).text


def filled(y: int, x: int = Field(default=5)) -> int:
    return y + x


def refuse(value: str) -> str:
    raise ValueError("not this")


def listed(x: list[int] | Annotated[str, AfterValidator(refuse)]) -> Any:
    return x


def chosen(x: list[int] | Literal["a"]) -> Any:
    return x


@pytest.mark.parametrize("function", [listed, chosen])
def test_text_that_may_stand(function: Any) -> None:
    """A text is not decoded where some text may stand, though not this one."""
    assert tool(function).invoke('{"x": "[1]"}').is_error


def test_too_many_faults() -> None:
    """Of a great many faults the number is given, not each of them."""
    arguments = json.dumps({f"key_{number}": number for number in range(100_000)})

    assert "they have 100,001 errors" in str(tool(filled).invoke(arguments).text)


def test_too_long() -> None:
    """A text longer than any model writes is refused before it is read; one of just that length is not."""
    arguments = '{"x": "' + "x" * (2**24 - 9) + '"}'

    assert (16_777_216, False) == (len(arguments), tool(lambda x: x).invoke(arguments).is_error)
    assert "Invalid arguments: they have 16,777,217 characters" in str(tool(lambda x: x).invoke(arguments + " ").text)


def test_keys_about_a_call_are_ignored() -> None:
    """Keys about the call that the tool does not have are ignored; any other unknown key is refused."""
    result = optional.invoke('{"a": 2, "_output": [5], "_reasoningForCall": null}')
    refused = [optional.invoke(arguments) for arguments in ('{"_other": 1}', '{"_output": 1, "other": 1}')]

    assert ([2, None], ("_output: overlooked", "_reasoningForCall: overlooked")) == (result.value, result.repairs)
    assert ["invalid_arguments"] * 2 == [each.kind for each in refused]


CUT = {
    "object": ('{"a": 1', True),
    "string": ('{"a": "x', True),
    "key": ('{"a', True),
    "nothing": ("  ", False),
    "whole": ('{"a": 1}', False),
    "never JSON": ("a b", False),
    "too much": ('{"a": 1}}', False),
    "list": ("[1", True),
    "text": ('"x', True),
    "middle": ('": \n', True),
    "escape": ('{"a": "\\', True),
    "escaped quote": ('{"a": "\\"}', True),
    "bracket in a text": ('{"a": "}', True),
    "bracket in single quotes": ("{'a': '}", True),
    "after a raw newline": ('{"a": "x\ny', True),
    "after a word": ('{"a": Tru', True),
    "after a fence": ('```json\n{"a": 1', True),
    "after too much": ('{"a": 1}} {"b"', True),
    "closed, raw newline": ('{"a": "x\ny"}', False),
    "closed, word": ('{"a": Tru}', False),
    "closed, fence": ('```json\n{"a": 1}\n```', False),
    "closed, a quote in single quotes": ("{'a': 'so \"it is'}", False),
    "closed, an apostrophe in single quotes": ("{'a': 'it's so'}", False),
    "closed, an inch": ('{"a": "5" wide"}', False),
    "closed, a quotation": ('{"a": "say "hi" there"}', False),
}


@pytest.mark.parametrize(("text", "expected"), CUT.values(), ids=CUT)
def test_is_cut(text: str, expected: bool) -> None:
    """A call with truncated JSON is told so; other text, whole or no JSON at all, is executed or explained."""
    model = ScriptedModel([ToolCall(name="optional", arguments=text), "."])
    result = Runner([optional], model=model).run("?").calls[0].result

    assert result is not None
    assert expected == result.text.startswith("Not run: the answer that held this call was cut off.")


# Values whose hashes can be chosen: a set of many with one hash would take quadratic time.
MANY = range(1, 6_000)
ALIKE = [(2**61 - 1) * number for number in MANY]  # Python's hash of a number is its value modulo this one
MANY_DECIMALS = [f"{number}E1" for number in MANY]


class Sums(BaseModel):
    sums: frozenset[Decimal]


class Names(TypedDict, total=False):
    names: dict[int, str]


COLLIDING: dict[str, tuple[Any, Any]] = {
    "integers": (set[int], ALIKE),
    "anything": (set[Any], [*MANY]),
    "decimals": (set[Decimal], MANY_DECIMALS),
    "UUIDs": (frozenset[UUID], [str(UUID(int=number)) for number in MANY]),
    "tuples": (set[tuple[int, ...]], [[number] for number in MANY]),
    "keys": (dict[int, str], dict.fromkeys(map(str, MANY), "")),
    "ordered keys": (OrderedDict[int, int], dict.fromkeys(map(str, MANY), 1)),
    "counted": (Counter[int], dict.fromkeys(map(str, MANY), 1)),
    "keys with underscores": (dict[int, str], {f"{number:_}": "" for number in MANY}),
    "keys that are decimals": (dict[Decimal, int], dict.fromkeys(MANY_DECIMALS, 1)),
    "in a model": (Sums, {"sums": MANY_DECIMALS}),
    "in a list of TypedDicts": (list[Names], [{"names": dict.fromkeys(map(str, MANY), "")}]),
}


@pytest.mark.parametrize(("annotation", "value"), COLLIDING.values(), ids=COLLIDING)
def test_values_of_one_hash(annotation: Any, value: Any) -> None:
    """Of values whose hashes can be chosen a set takes so many that no choice of them takes long."""

    def take(value: Any) -> str:
        return "taken"

    take.__annotations__["value"] = annotation
    text = json.dumps({"value": value})

    result = tool(take).invoke(text)

    assert "should have at most 5000 items" in result.text


def test_unique_items_of_one_hash() -> None:
    """A hand-written schema whose items are unique takes as many."""
    ids = {"type": "array", "uniqueItems": True}
    take = Tool.from_schema("take", {"type": "object", "properties": {"ids": ids}}, len)

    results = [take.invoke(json.dumps({"ids": items})) for items in ([*MANY], [[item] for item in MANY])]

    assert ["invalid_arguments"] * 2 == [result.kind for result in results]


def test_members_of_one_hash() -> None:
    """A schema of others with so many allowed values that these could take long is refused at once."""

    with pytest.raises(DefinitionError, match="its enum has more than 5,000 values that are not text"):
        Tool.from_schema("take", {"type": "object", "properties": {"number": {"enum": [*MANY]}}})


@tool
def take_ids(
    ids: Annotated[set[int], Field(min_length=2)] | None = None, names: dict[int, str] | None = None
) -> int | list[str]:
    """Take sets and dicts of integers."""
    return len(ids) if ids else list((names or {}).values())


def test_many_numbers() -> None:
    """Numbers are taken of any length; equal ones are one, and of equal keys the last one wins."""
    long, few = [10**30 + number for number in range(5000)], [-1, -2] * 5000

    assert [5000, 2] == [take_ids.invoke(json.dumps({"ids": ids})).value for ids in (long, few)]
    assert ["1" * 500_000] == take_ids.invoke(json.dumps({"names": {"1": "1" * 500_000}})).value
    assert ["b"] == take_ids.invoke({"names": {"1": "a", "01": "b"}}).value
    assert "at least 2 items" in take_ids.invoke({"ids": [1, 1]}).text


@pytest.mark.parametrize("arguments", [[], 0, False, ""])
def test_empty_arguments(arguments: Any) -> None:
    """What is empty, and no object, is not taken for an empty object; nothing and blank text are."""
    result = tool(lambda value=1: value, name="take").invoke(arguments)

    assert (result.value == 1) == (arguments == "")
    assert result.is_error != (arguments == "")


@pytest.mark.parametrize(
    "numbers", [np.array([1, 2]), pd.Series([1, 2]), [np.int64(1), np.float32(2)]], ids=["array", "series", "scalars"]
)
def test_numbers_of_numpy(numbers: Any) -> None:
    """Arrays and scalars of NumPy in a mapping are lists and numbers; the values beside them stay what they are."""

    @tool
    def add_up(numbers: list[float], day: date, more: Any) -> list[Any]:
        """Add up."""
        return [sum(numbers), day, more]

    given = {"numbers": numbers, "day": date(2026, 1, 2), "more": numbers}
    assert [3.0, date(2026, 1, 2), [1, 2]] == add_up.invoke(given).value


def test_endless_arguments() -> None:
    """A mapping that contains itself, or is too deep, gives an error as a text of that kind does."""
    circle: dict[str, Any] = {}
    circle["value"] = circle
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    texts = [tool(lambda value: value, name="take").invoke(given).text for given in (circle, {"value": deep})]
    assert [invalid("they are nested too deeply, or contain themselves.")] * 2 == texts


def test_json_text_as_argument() -> None:
    """Broken JSON in an argument that is JSON text is that argument's error, and other ones are still repaired."""

    @tool
    def draw(points: Json[list[int]], colors: list[int]) -> list[Any]:
        """Draw."""
        return [points, colors]

    broken = draw.invoke('{"points": "[1,", "colors": [2]}').text

    assert "points: Invalid JSON: EOF while parsing" in (broken or "")
    assert "Send one whole JSON object" not in (broken or "")
    assert "points: Invalid JSON" in draw.invoke('{"points": "[1,", "colors": "[2]"}').text
    assert draw.invoke('{"points": "[1]", "colors": "[2]"}').value == [[1], [2]]
