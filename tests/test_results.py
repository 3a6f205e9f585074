"""What a function gave back becomes what the model is shown."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, SecretStr

from toolkit import ToolResult, tool


class Text(str):
    """A text of a kind of its own."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Unit(str, enum.Enum):
    CELSIUS = "celsius"


class Color(enum.Enum):
    RED = 1


class Model(BaseModel):
    name: str
    secret: SecretStr = SecretStr("hidden")


@dataclass
class Data:
    day: datetime.date


class Pair(NamedTuple):
    left: int
    right: int


class Shown:
    def __str__(self) -> str:
        return "shown"


class Evil:
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


class EvilModel(BaseModel):
    @property
    def name(self) -> str:
        raise RuntimeError

    def __repr__(self) -> str:
        return "evil model"


def cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(2_000):
        value = [value]
    return value


TEXTS: dict[str, tuple[Any, str]] = {
    "text": ("a\nb", "a\nb"),
    "empty text": ("", ""),
    "other scripts": ("größe 名前 🙂", "größe 名前 🙂"),
    "half a character": ("a\ud800", "a\ufffd"),
    "kind of text": (Text("a"), "a"),
    "enum of texts": (Unit.CELSIUS, "celsius"),
    "enum": (Color.RED, "1"),
    "None": (None, "null"),
    "bool": (True, "true"),
    "int": (5, "5"),
    "huge int": (10**5000, "1" + "0" * 5000),
    "float": (0.5, "0.5"),
    "NaN": (float("nan"), '"NaN"'),
    "infinity, nested": ({"a": [float("inf")]}, '{"a":["Infinity"]}'),
    "dict": ({"a": 1, "größe": [1, None]}, '{"a":1,"größe":[1,null]}'),
    "list": ([{"a": "名"}], '[{"a":"名"}]'),
    "tuple": ((1, 2), "[1,2]"),
    "named tuple": (Pair(1, 2), "[1,2]"),
    "set": ({1}, "[1]"),
    "deque": (collections.deque([1]), "[1]"),
    "model": (Model(name="a"), '{"name":"a","secret":"**********"}'),
    "dataclass": (Data(datetime.date(2026, 1, 2)), '{"day":"2026-01-02"}'),
    "datetime": (datetime.datetime(2026, 1, 2, 3), '"2026-01-02T03:00:00"'),
    "timedelta": (datetime.timedelta(hours=1), '"PT1H"'),
    "UUID": (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    "Decimal": (decimal.Decimal("0.10"), '"0.10"'),
    "Path": (Path("/a"), '"/a"'),
    "bytes": ("é".encode(), '"é"'),
    "bytes that are no text": ([b"\xff"], '["_w=="]'),
    "object": ({"it": Shown()}, '{"it":"shown"}'),
    "evil object": (Evil(), "<Evil that cannot be shown>"),
    "class": (Shown, f"\"<class '{__name__}.Shown'>\""),
    "cycle": (cycle(), "[[...]]"),
    "half a character, nested": (["\ud800"], "['\\ud800']"),
}


@pytest.mark.parametrize(("value", "text"), TEXTS.values(), ids=TEXTS)
def test_text(value: Any, text: str) -> None:
    """A text is shown as it is, everything else as JSON without escapes; nothing makes a call fail."""
    result = tool(lambda: value).invoke("{}")

    assert (text, None) == (result.text, result.error)
    assert result.value is value


def test_deep() -> None:
    """A value that is too deep for JSON makes neither an exception nor nothing."""
    result = tool(deep).invoke("{}")

    assert (False, True) == (result.is_error, bool(result.text))


@pytest.mark.parametrize("value", [part[0] for part in TEXTS.values()], ids=TEXTS)
def test_sendable(value: Any) -> None:
    """Whatever is shown can be sent as UTF-8, and is strict JSON inside a request."""
    text = tool(lambda: value).invoke("{}").text

    assert text == json.loads(json.dumps(text, ensure_ascii=False, allow_nan=False).encode())


RESULTS: dict[str, tuple[ToolResult, ToolResult]] = {
    "value": (ToolResult([1]), ToolResult([1], "[1]")),
    "nothing": (ToolResult(), ToolResult(None, "null")),
    "text": (ToolResult([1], "one"), ToolResult([1], "one")),
    "empty text": (ToolResult([1], ""), ToolResult([1], "")),
    "broken text": (ToolResult([1], "\ud800"), ToolResult([1], "\ufffd")),
    "error": (ToolResult(error="no"), ToolResult(None, "no", "no", "failed")),
    "empty error": (ToolResult(error=""), ToolResult(None, "", "", "failed")),
    "error of a kind": (ToolResult(error="no", kind="denied"), ToolResult(None, "no", "no", "denied")),
    "error and value": (ToolResult("half", error="no"), ToolResult("half", "half\nno", "no", "failed")),
    "details": (ToolResult(1, details={"secret": 2}), ToolResult(1, "1", details={"secret": 2})),
}


@pytest.mark.parametrize(("given", "expected"), RESULTS.values(), ids=RESULTS)
def test_tool_result(given: ToolResult, expected: ToolResult) -> None:
    """A result of the tool's own making is completed; what the tool said stays; details are never shown."""
    assert expected == tool(lambda: given).invoke("{}")


@pytest.mark.parametrize(
    "make", [lambda: ToolResult(1), lambda: {"a": 1}, lambda: Pair(1, 2)], ids=["result", "dict", "pair"]
)
def test_again(make: Callable[[], Any]) -> None:
    """The second call of a tool gives what the first gave."""
    made = tool(make)

    assert made.invoke("{}") == made.invoke("{}")
