"""Values of other packages that tools return: what the model receives, with the packages themselves."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import attrs
import httpx2
import matplotlib as mpl
import numpy as np
import pandas as pd
import PIL.Image
import polars as pl
import pytest
from matplotlib.figure import Figure

from toolkit import Image, Runner, ToolResult, tool
from toolkit.testing import ScriptedModel, call

mpl.use("Agg")
PNG = b"\x89PNG\r\n"


@attrs.define
class Place:
    """A class of attrs."""

    name: str
    height: Any
    key: str = attrs.field(default="secret", repr=False)


class Bare:
    """A class without a text of its own."""


def invoke(value: Any) -> ToolResult:
    """Return the result of a tool that returns a value."""

    @tool
    def give() -> Any:
        """Give it."""
        return value

    first, second = give.invoke({}), give.invoke({})  # the second call takes the shorter way

    assert (first.text, first.images) == (second.text, second.images)
    return first


def reply(content: bytes | str, media_type: str) -> httpx2.Response:
    """Make a response of an HTTP server."""
    body = content.encode() if isinstance(content, str) else content
    return httpx2.Response(200, content=body, headers={"content-type": media_type})


TEXTS: list[tuple[Any, str]] = [
    (np.int64(3), "3"),
    (np.float32(1.5), "1.5"),
    (np.bool_(True), "true"),
    (np.float64("nan"), '"NaN"'),
    (np.float32("inf"), '"Infinity"'),
    (np.array(7), "7"),
    (np.arange(6).reshape(2, 3), "[[0,1,2],[3,4,5]]"),
    (np.array(["a", "b"]), '["a","b"]'),
    (np.datetime64("2026-01-02T03:04:05.000000006"), '"2026-01-02T03:04:05.000000006"'),
    (np.array(["2026-01-02"], dtype="datetime64[ns]"), '["2026-01-02T00:00:00.000000000"]'),
    (pd.Timestamp("2026-01-02"), '"2026-01-02T00:00:00"'),
    (pd.RangeIndex(3), "[0,1,2]"),
    (pd.Categorical(["a", "b"]), '["a","b"]'),
    (pd.Series([1, 2], name="n"), "Series, 2 rows, 1 column: n int64\nn\n1\n2\n"),
    (pl.Series("n", [1]), "Series, 1 row, 1 column: n Int64\nn\n1\n"),
    (
        pd.DataFrame({"n": [1, 2], "day": pd.to_datetime(["2026-01-02", "2026-01-03"]).astype("datetime64[us]")}),
        "DataFrame, 2 rows, 2 columns: n int64, day datetime64[us]\nn,day\n1,2026-01-02\n2,2026-01-03\n",
    ),
    (pd.DataFrame({"n": [1]}, index=["Ann"]), "DataFrame, 1 row, 1 column: n int64\n,n\nAnn,1\n"),
    (
        pd.DataFrame({"n": [5, 6]}, index=pd.RangeIndex(2020, 2022, name="year")),
        "DataFrame, 2 rows, 1 column: n int64\nyear,n\n2020,5\n2021,6\n",
    ),
    (pl.DataFrame({"n": [[1], [2, 3]]}), 'DataFrame, 2 rows, 1 column: n List(Int64)\nn\n[1]\n"[2, 3]"\n'),
    (np.array([["2026-01-02"]], dtype="datetime64[D]"), '[["2026-01-02"]]'),
    (pl.DataFrame({"n": [1, 2]}), "DataFrame, 2 rows, 1 column: n Int64\nn\n1\n2\n"),
    ({"n": np.int64(3), "all": np.arange(2)}, '{"n":3,"all":[0,1]}'),
    ([np.float32(1), np.int8(2)], "[1.0,2]"),
    ({"t": pl.DataFrame({"n": [1]})}, '{"t":"DataFrame, 1 row, 1 column: n Int64\\nn\\n1\\n"}'),
    (Place("Ulm", np.int64(478)), '{"name":"Ulm","height":478}'),
    (KeyError("Ulm"), "\"KeyError: 'Ulm'\""),
    (TimeoutError(), '"TimeoutError"'),
    (range(3), "[0,1,2]"),
    (range(10**12), '"range(0, 1000000000000)"'),
    (MappingProxyType({"a": 1}), '{"a":1}'),
    (memoryview(b"ab"), '"YWI="'),
    (Bare(), '"<test_foreign_values.Bare object>"'),
    (reply('{"a": 1}', "application/json"), '{"status":200,"content_type":"application/json","content":{"a":1}}'),
    (reply("{", "application/json"), '{"status":200,"content_type":"application/json","content":"{"}'),
    (reply("hello", "text/plain; charset=utf-8"), '{"status":200,"content_type":"text/plain","content":"hello"}'),
    (
        reply(b"\x00\x01", "application/zip"),
        '{"status":200,"content_type":"application/zip","content":"2 bytes, left out"}',
    ),
]


@pytest.mark.parametrize(
    ("value", "text"), TEXTS, ids=[f"{type(value).__name__}-{n}" for n, (value, _) in enumerate(TEXTS)]
)
def test_text(value: Any, text: str) -> None:
    """Numbers stay numbers, tables are CSV under a line with their size, and the value itself stays what it was."""
    result = invoke(value)

    assert (text, value is result.value) == (result.text, True)


def test_large_array() -> None:
    """A large array is summarised, with its shape and its type."""
    text = str(invoke(np.zeros((100, 200))).text)

    assert text.startswith('"ndarray of shape 100 x 200, float64, shortened:')
    assert len(text) < 1_000


def draw_line() -> Figure:
    """Draw a figure."""
    figure = Figure()
    figure.add_subplot().plot([1, 2])
    return figure


MAKE = [
    draw_line,
    lambda: draw_line().axes[0],
    *[partial(PIL.Image.new, mode, (4, 4)) for mode in ("RGB", "CMYK", "F")],
]


@pytest.mark.parametrize("make", MAKE)
def test_picture(make: Callable[[], Any]) -> None:
    """A figure or a picture is sent as an image."""
    result = invoke(make())

    assert ("[image]", [PNG]) == (result.text, [image.data[:6] for image in result.images])


def test_picture_in_a_list() -> None:
    """Texts beside a figure stay beside it."""
    result = invoke(["Sales:", draw_line(), Image(b"x")])

    assert ("Sales:\n[image]\n[image]", 2) == (result.text, len(result.images))


class Broken:
    """A figure that cannot be drawn."""

    def _repr_png_(self) -> bytes:
        raise RuntimeError("no fonts")

    def __str__(self) -> str:
        return "a figure"


def test_picture_that_cannot_be_drawn() -> None:
    """Where drawing fails, the model receives the value's own text."""
    assert ('"a figure"', ()) == (invoke(Broken()).text, invoke(Broken()).images)


def test_long_table() -> None:
    """A run shows the beginning and the end of a long table; the model can read on."""
    rows = pl.DataFrame({"n": range(5_000), "day": [datetime.date(2026, 1, 2)] * 5_000})

    @tool
    def query() -> Any:
        """Query."""
        return rows

    model = ScriptedModel([call("query"), "Done."])
    result = Runner([query], model=model).run("?").calls[0].result
    text = str(result and result.text)

    assert text.startswith("DataFrame, 5,000 rows, 2 columns: n Int64, day Date\nn,day\n0,2026-01-02\n")
    assert text.endswith("\n4999,2026-01-02\n")
    assert "result_read" in text
    assert len(text) <= 6_000


def test_very_long_table() -> None:
    """The middle rows of a very long table are left out, and the text says how many."""
    text = str(invoke(pl.DataFrame({"n": range(30_000)})).text)

    assert "\n4999\n[... 20,000 rows are left out ...]\n25000\n" in text
    assert text.endswith("\n29999\n")
