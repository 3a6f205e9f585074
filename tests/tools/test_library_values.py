"""Values of other packages that tools return: what the model receives, with the packages themselves."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import io
import re
import sqlite3
from array import array
from collections import UserList, UserString
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import MappingProxyType, SimpleNamespace
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

from toolkit import File, Image, Runner, ToolCall, ToolResult, tool
from toolkit.models import ModelRequest, ModelResponse
from toolkit.testing import ScriptedModel, call

mpl.use("Agg")
PNG = b"\x89PNG\r\n"


@attrs.define
class Place:
    """A class of attrs."""

    name: str
    height: Any
    key: str = attrs.field(default="secret", repr=False)


class Struct:
    """A class of msgspec."""

    __struct_fields__ = ("name", "height")

    def __init__(self) -> None:
        self.name, self.height = "Eiger", np.int64(3967)


class Mapped:
    """A class of SQLAlchemy's, whose columns are named by its mapper; one is read only when it is needed."""

    __mapper__ = SimpleNamespace(
        column_attrs=[SimpleNamespace(key=key, deferred=key == "photo") for key in ("id", "title", "photo")]
    )

    def __init__(self) -> None:
        self.id, self.title, self.author = 5, "Dune", "a relationship"

    @property
    def photo(self) -> bytes:
        raise AssertionError


class Bare:
    """A class without a text of its own."""


class Store:
    """A database of keys and values, which is no row."""

    _mapping = MappingProxyType({"a": "hidden"})

    def keys(self) -> list[str]:
        return ["a"]

    def __getitem__(self, key: str) -> str:
        return "b"


class Query:
    """A query of Django, which is no sequence, and shows some of its rows in its `repr`."""

    def values_list(self) -> None: ...

    def __iter__(self) -> Iterator[Any]:
        return iter([{"n": n} for n in range(3)])

    def __repr__(self) -> str:
        return "<QuerySet [{'n': 0}, '...(remaining elements truncated)...']>"


class SelectedRow(Sequence[Any]):
    """A row as SQLAlchemy returns it: a sequence that is neither a tuple nor a list, with a view of its columns."""

    _mapping = MappingProxyType({"a": 1, "b": None})

    def __getitem__(self, place: Any) -> Any:
        return [1, None][place]

    def __len__(self) -> int:
        return 2


def read_row() -> sqlite3.Row:
    """Read a row of a database, whose repr is that of any object."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        row: sqlite3.Row = connection.execute("SELECT 1 AS a, 'x' AS b, x'ff' AS c").fetchone()
    return row


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
    ([{"d": pd.NaT, "n": np.int64(3), "x": float("nan")}], '[{"d":"NaT","n":3,"x":"NaN"}]'),
    ({1: pd.NaT, "t": pd.Timestamp(2026, 1, 2), "a": [{2}]}, '{"1":"NaT","t":"2026-01-02T00:00:00","a":[[2]]}'),
    (np.float32(1.5), "1.5"),
    (np.bool_(True), "true"),
    (np.float64("nan"), '"NaN"'),
    (np.longdouble(1.5), "1.5"),
    (np.array([1.5], dtype=np.longdouble), "[1.5]"),
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
    (memoryview(b"ab"), '"ab"'),
    (Bare(), '"<test_library_values.Bare object>"'),
    (Store(), '"<test_library_values.Store object>"'),
    ([read_row()], '[{"a":1,"b":"x","c":"_w=="}]'),
    (Query(), '[{"n":0},{"n":1},{"n":2}]'),
    (array("i", [1, 2]), "[1,2]"),
    ({"a": UserList([{3}])}, '{"a":[[3]]}'),
    (UserString("ab"), '"ab"'),
    ([Struct()], '[{"name":"Eiger","height":3967}]'),
    ([Mapped()], '[{"id":5,"title":"Dune"}]'),
    ([SelectedRow()], '[{"a":1,"b":null}]'),
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
    assert repr(result).startswith("ToolResult(")


def test_array_of_unknown_shape() -> None:
    """An array that does not know its shape is written as its text."""
    tensor = type("Tensor", (), {"dtype": "f4", "shape": (None, 2), "tolist": list, "__str__": lambda _: "a tensor"})

    assert '"a tensor"' == invoke(tensor()).text


def test_large_array() -> None:
    """A large array is summarised, with its shape and its type."""
    text = str(invoke(np.zeros((1000, 200))).text)

    assert text.startswith('"ndarray of shape 1000 x 200, float64, shortened:')
    assert len(text) < 1_000


def draw_line() -> Figure:
    """Draw a figure."""
    figure = Figure()
    figure.add_subplot().plot([1, 2])
    return figure


class Plot:
    """A plot of seaborn, which returns metadata with its picture."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        return PNG, {"width": 5}


MAKE = [
    draw_line,
    Plot,
    lambda: draw_line().axes[0],
    *[partial(PIL.Image.new, mode, (4, 4)) for mode in ("RGB", "CMYK", "F")],
]


@pytest.mark.parametrize("make", MAKE)
def test_picture(make: Callable[[], Any]) -> None:
    """A figure or a picture is sent as an image."""
    result = invoke(make())

    assert ("[image]", [PNG]) == (result.text, [image.data[:6] for image in result.images])


def test_labels_of_a_figure() -> None:
    """Labels that are longer than a figure's margins are in its image."""
    figure = Figure(figsize=(2, 2), dpi=100)
    figure.add_subplot().set_xlabel("a label of\nmore and\nmore lines")

    _, height = PIL.Image.open(io.BytesIO(invoke(figure).images[0].data)).size

    assert height > 200


def test_text_far_outside_a_figure() -> None:
    """A text that is far outside of a figure does not make its image larger."""
    figure = Figure(figsize=(2, 2), dpi=100)
    figure.add_subplot(xlim=(0, 1)).text(50, 0, "far")

    assert (200, 200) == PIL.Image.open(io.BytesIO(invoke(figure).images[0].data)).size


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


@dataclasses.dataclass
class Report:
    plot: Any


PICTURE, FIGURE, IMAGE = PIL.Image.new("RGB", (1, 1)), Figure(), Image(b"\x89pixels")
INSIDE: dict[str, tuple[Any, str, int]] = {
    "dict": ({"plot": FIGURE, "rows": 3}, '{"plot":"[image]","rows":3}', 1),
    "list in a dict": ({"plots": [FIGURE, PICTURE]}, '{"plots":["[image]","[image]"]}', 2),
    "dicts in a list": ([{"plot": PICTURE}, {"plot": IMAGE}], '[{"plot":"[image]"},{"plot":"[image]"}]', 2),
    "image": ({"plot": IMAGE, "file": File(b"1", name="a.pdf")}, '{"plot":"[image]","file":"[file a.pdf]"}', 1),
    "too deep": ({"a": {"b": {"c": FIGURE}}}, '{"a":{"b":{"c":"Figure(640x480) [picture, left out]"}}}', 0),
    "in an object": (Report(FIGURE), '{"plot":"Figure(640x480) [picture, left out]"}', 0),
    "no picture": ({"media_type": "x", "said": " [picture, left out]"},
                   '{"media_type":"x","said":" [picture, left out]"}', 0),
}  # fmt: skip


@pytest.mark.parametrize(("value", "text", "images"), INSIDE.values(), ids=INSIDE)
@pytest.mark.parametrize("is_async", [False, True])
def test_pictures_inside(value: Any, text: str, images: int, is_async: bool) -> None:
    """Pictures in dicts and lists are images, and the JSON marks their places; others are said to be left out."""

    async def later() -> Any:
        return value

    result = tool(later if is_async else lambda: value, name="look").invoke("{}")

    assert (text, images) == (result.text, len(result.images))
    assert value is result.value


def test_picture_that_cannot_be_drawn() -> None:
    """Where drawing fails, the model receives the value's own text, and that the picture is missing."""
    assert ('"a figure [picture, left out]"', ()) == (invoke(Broken()).text, invoke(Broken()).images)


@pytest.mark.parametrize("kind", [dict, list], ids=["dict", "list"])
def test_long_table_inside(kind: type) -> None:
    """A dict or list with a long table is shortened as a table is; the model can read on by characters."""
    rows = pd.DataFrame({"n": range(5_000)})

    @tool
    def query() -> Any:
        """Query."""
        return {"rows": rows, "count": 5_000} if kind is dict else [rows, 5_000]

    result = Runner([query], model=ScriptedModel([call("query"), "Done."])).run("?")
    text = result.messages[2].text

    assert "DataFrame, 5,000 rows, 1 column: n int64" in text
    assert "result_read" in text
    assert len(text) <= 6_000


@pytest.mark.parametrize("view", [{"a": 1}.keys(), {"a": "a"}.values()], ids=["keys", "values"])
def test_views_of_a_dict(view: Any) -> None:
    """A view of a dict is sent as a list."""
    assert '["a"]' == invoke(view).text


def test_long_table() -> None:
    """A run shows the beginning and the end of a long table; the model can read on."""
    rows = pl.DataFrame({"n": range(5_000), "day": [datetime.date(2026, 1, 2)] * 5_000})

    @tool
    def query() -> Any:
        """Query."""
        return rows

    result = Runner([query], model=ScriptedModel([call("query"), "Done."])).run("?")
    text = result.messages[2].text

    assert text.startswith("DataFrame, 5,000 rows, 2 columns: n Int64, day Date\nn,day\n0,2026-01-02\n")
    assert text.endswith("\n4999,2026-01-02\n")
    assert "result_read" in text
    assert len(text) <= 6_000
    assert result.calls[0].result.text == invoke(rows).text


TABLES: dict[str, Callable[[int], Any]] = {
    "polars": lambda n: pl.DataFrame({"n": range(n), "name": [f"row {number}" for number in range(n)]}),
    "pandas": lambda n: pd.DataFrame({"n": range(n), "name": [f"row {number}" for number in range(n)]}),
    "index": lambda n: pd.DataFrame({"name": [f"row {number}" for number in range(n)]}, pd.Index(range(n), name="n")),
}


def read_rows(value: Any, *, to_end: bool = False, hooks: Sequence[object] = (), **arguments: Any) -> list[str]:
    """Return what a model reads on, page by page, in a table that a tool returns."""

    @tool(max_result=6_000)
    def query() -> Any:
        """Query."""
        return value

    def read_first(request: ModelRequest) -> ModelResponse:
        handle = re.findall(r'handle="(\w+)"', request.messages[-1].text)[0]
        return ModelResponse(calls=(call("result_read", handle=handle, **arguments),))

    def read_on(request: ModelRequest) -> ModelResponse:
        handle = re.findall(r'handle="(\w+)"', request.messages[2].text)[0]
        offset = re.findall(r"Read on with offset=(\d+)\.", request.messages[-1].text)
        if not (offset and to_end):
            return ModelResponse(text="Done.")
        return ModelResponse(calls=(call("result_read", handle=handle, offset=int(offset[0])),))

    model = ScriptedModel([call("query"), read_first, *[read_on] * 20])
    result = Runner([query], model=model, max_turns=20, hooks=hooks).run("?")
    return [finished.result.text for finished in result.calls[1:]]


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_read_on_in_a_table(make: Callable[[int], Any]) -> None:
    """A model reads each row of a long table, also of one whose text leaves out the middle."""
    pages = [page.splitlines() for page in read_rows(make(12_000), to_end=True)]

    assert {"n,name"} == {page[1] for page in pages}
    assert [f"{number},row {number}" for number in range(12_000)] == [row for page in pages for row in page[2:]]
    assert "[Rows 0 to " in pages[0][0]
    assert " to 12,000 of 12,000.]" in pages[-1][0]


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_read_columns(make: Callable[[int], Any]) -> None:
    """A model reads some columns of a table, from any row on; an index stays beside them."""
    table = make(2_000)
    index = ("n,", "1998,", "1999,") if getattr(table, "index", None) is not None and "n" not in table else [""] * 3

    assert [f"[Rows 1,998 to 2,000 of 2,000.]\n{index[0]}name\n{index[1]}row 1998\n{index[2]}row 1999\n"] == read_rows(
        table, offset=-2, columns=["name"]
    )


def test_read_unknown_column() -> None:
    """A column that is not in the table is an error that says where the names are."""
    (text,) = read_rows(TABLES["polars"](2_000), columns=["age"])

    assert "The table has no column 'age': its first line has their names." == text


def test_long_series() -> None:
    """A series is read on as a table of one column."""
    (text,) = read_rows(pd.Series(range(3_000), name="n"), offset=2_998)

    assert "[Rows 2,998 to 3,000 of 3,000.]\nn\n2998\n2999\n" == text


def test_long_row() -> None:
    """A row that is longer than a page is cut, and the page says so."""
    (text,) = read_rows(pl.DataFrame({"text": ["x" * 50_000, "y"]}))

    shown = "Only 19,800 of the row's 50,006 characters are shown: choose columns=[...]."
    assert text.startswith(f"[Rows 0 to 1 of 2. {shown} Read on with offset=1.]\ntext\nxxx")
    assert len(text) <= 20_000


class Removing:
    """A hook that removes a number from results."""

    def after_call(self, made: ToolCall, result: ToolResult, _: object) -> ToolResult | None:
        return result.replace(text=result.text.replace("2500", "-")) if made.name == "query" else None


def test_table_that_a_hook_has_changed() -> None:
    """Where a hook has left something out of the text of a table, the model reads on in that text."""
    (text,) = read_rows(pl.DataFrame({"n": range(5_000)}), hooks=[Removing()], offset=10_000)

    assert "\n2499\n-\n2501\n" in text


def test_very_long_table() -> None:
    """The middle rows of a very long table are left out, and the text says how many."""
    text = str(invoke(pl.DataFrame({"n": range(30_000)})).text)

    assert "\n4999\n[... 20,000 rows are left out ...]\n25000\n" in text
    assert text.endswith("\n29999\n")
