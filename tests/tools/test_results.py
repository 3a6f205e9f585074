"""Return values become the texts and parts that a model receives."""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import enum
import json
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel, Field, SecretBytes, SecretStr

from toolkit import File, Image, Runner, RunState, Tool, Toolbox, ToolError, ToolResult, tool
from toolkit.errors import Denied, NotFound, TimedOut
from toolkit.models import UserMessage
from toolkit.testing import FakeServer, ScriptedModel, call, reply


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


class Unreadable:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Long:
    def __str__(self) -> str:
        return "x" * 10**6


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


def cycle_of_dicts() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["a"] = value
    return value


def deep(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
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
    "bytes that are not a text": ([b"\xff"], '["_w=="]'),
    "bytes beside others": ({"a": b"a", "b": [b"\xff"]}, '{"a":"a","b":["_w=="]}'),
    "bytes beside an object": ([b"a", Shown()], '["a","shown"]'),
    "object": ({"it": Shown()}, '{"it":"shown"}'),
    "evil object inside": ({"a": 1, "it": Evil()}, '{"a":1,"it":"<Evil that cannot be written>"}'),
    "object with a long text": ([Long()], f'["{"x" * 9_999}…"]'),
    "evil object": (Evil(), '"<Evil that cannot be written>"'),
    "object that cannot be read": (Unreadable(), f'"<{__name__}.Unreadable object>"'),
    "class": (Shown, f"\"<class '{__name__}.Shown'>\""),
    "frozen set": (frozenset({1}), "[1]"),
    "date": (datetime.date(2026, 1, 2), '"2026-01-02"'),
    "bytearray": (bytearray(b"a"), '"a"'),
    "bytes as key": ({b"\xff": 1}, '{"_w==":1}'),
    "bytes by date": ({datetime.date(2026, 1, 2): b"\xff"}, '{"2026-01-02":"_w=="}'),
    "keys of many types": ({1: 2, None: 3, (1, 2): 5}, '{"1":2,"None":3,"1,2":5}'),
    "exception": (ValueError("why"), '"ValueError: why"'),
    "complex": (1 + 2j, '"1+2j"'),
    "too deep": (deep(100_000), "<list that cannot be written>"),
    "cycle": (cycle(), "[[...]]"),
    "cycle of dicts": (cycle_of_dicts(), "{'a': {...}}"),
    "half a character, nested": (["\ud800"], '["\ufffd"]'),
}


@pytest.mark.parametrize(("value", "text"), TEXTS.values(), ids=TEXTS)
def test_text(value: Any, text: str) -> None:
    """A text is sent as it is, everything else as JSON without escapes; nothing makes a call fail.

    Every text can be sent as UTF-8, and is strict JSON inside a request.
    """
    result = tool(lambda: value).invoke("{}")

    assert (text, None) == (result.text, result.error)
    assert result.value is value
    assert text == json.loads(json.dumps(text, ensure_ascii=False, allow_nan=False).encode())


@pytest.mark.parametrize("depth", [200, 500, 2_000])
def test_deep(depth: int) -> None:
    """A value that is nested deeply makes neither an error nor nothing, whatever this Python can write of it."""
    result = tool(lambda: deep(depth)).invoke("{}")

    assert (False, True) == (result.is_error, bool(result.text))


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
    "error and text": (ToolResult(text="half", error="no"), ToolResult(None, "half\nno", "no", "failed")),
    "error that the text ends with": (
        ToolResult(text="half\nno", error="no"),
        ToolResult(None, "half\nno", "no", "failed"),
    ),
    "exception as error": (ToolResult(error=ValueError("no")), ToolResult(None, "no", "no", "failed")),  # type: ignore[arg-type]
    "text that is none": (ToolResult([1], 5), ToolResult([1], "5")),  # type: ignore[arg-type]
    "evil text": (ToolResult([1], Evil()), ToolResult([1], "")),  # type: ignore[arg-type]
    "details": (ToolResult(1, details={"secret": 2}), ToolResult(1, "1", details={"secret": 2})),
}


@pytest.mark.parametrize(("given", "expected"), RESULTS.values(), ids=RESULTS)
def test_tool_result(given: ToolResult, expected: ToolResult) -> None:
    """A result that the tool made itself is completed; its own fields remain, and details are never sent."""
    assert expected == tool(lambda: given).invoke("{}")


@pytest.mark.parametrize(
    "make", [lambda: ToolResult(1), lambda: {"a": 1}, lambda: Pair(1, 2)], ids=["result", "dict", "pair"]
)
def test_again(make: Callable[[], Any]) -> None:
    """The second call of a tool has the same result as the first."""
    made = tool(make)

    assert made.invoke("{}") == made.invoke("{}")


# -- values that change, and those that come one by one


def test_changed_later() -> None:
    """The text for the model is written when the function returns."""
    value = {"a": 1}
    result = tool(lambda: value).invoke("{}")
    value["a"] = 2

    assert ('{"a":1}', {"a": 2}) == (result.text, result.value)


@pytest.mark.parametrize("size", [3, 100_001], ids=["whole", "without end"])
def test_generator_is_closed(size: int) -> None:
    """A generator is read to its end, or as far as may be, and closed."""
    closed = []

    def count() -> Iterator[int]:
        try:
            yield from range(size)
        finally:
            closed.append(True)

    result = tool(count).invoke("{}")
    assert (min(size, 100_000), [True]) == (len(result.value), closed)


@pytest.mark.parametrize("piece", ["x" * 2**20, b"x" * 2**20], ids=["text", "bytes"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_long_pieces_of_a_generator(piece: str | bytes, is_async: bool) -> None:
    """A generator of long pieces, such as those of a download without end, is closed after 64 MiB."""
    closed = []

    def download() -> Iterator[str | bytes]:
        try:
            for _ in range(70):
                yield piece
        finally:
            closed.append(True)

    async def adownload() -> AsyncIterator[str | bytes]:
        for each in download():
            yield each

    result = tool(adownload if is_async else download).invoke("{}")
    assert (64, [True]) == (len(result.value), closed)


def test_generator_that_fails() -> None:
    """A generator that raises has an error as its result, and not the values before it."""

    def count() -> Iterator[int]:
        yield 1
        raise ToolError("no more")

    assert ToolResult.from_error(ToolError("no more"))[:4] == tool(count).invoke("{}")[:4]


@pytest.mark.parametrize("kind", [TimedOut, Denied, NotFound])
def test_error_without_a_message(kind: type[ToolError]) -> None:
    """An error of the library that a tool raises without a message keeps its kind."""

    def fail() -> None:
        """Fail."""
        raise kind

    assert kind.kind == tool(fail).invoke().kind


def test_generator_inside() -> None:
    """A generator inside another value is read to its end."""
    assert '{"a":[0,1]}' == tool(lambda: {"a": (i for i in range(2))}).invoke("{}").text


# -- pictures and files

PIXEL = Image(b"\x89PNG")
REPORT = File(b"%PDF", name="report.pdf")
PARTS: dict[str, tuple[Any, str, tuple[Image, ...], tuple[File, ...]]] = {
    "picture": (PIXEL, "[image]", (PIXEL,), ()),
    "file": (REPORT, "[file report.pdf]", (), (REPORT,)),
    "list": (
        ["A chart:", PIXEL, {"a": 1}, REPORT],
        'A chart:\n[image]\n{"a":1}\n[file report.pdf]',
        (PIXEL,),
        (REPORT,),
    ),
    "list and inside": ([REPORT, {"chart": PIXEL}], '[file report.pdf]\n{"chart":"[image]"}', (PIXEL,), (REPORT,)),
    "tuple": ((REPORT, PIXEL), "[file report.pdf]\n[image]", (PIXEL,), (REPORT,)),
    "value of a result": (ToolResult([PIXEL, REPORT]), "[image]\n[file report.pdf]", (PIXEL,), (REPORT,)),
    "beside a value": (ToolResult(1, images=(PIXEL,), files=(REPORT,)), "1", (PIXEL,), (REPORT,)),
    "alone in a result": (
        ToolResult(images=(PIXEL,), files=(REPORT,)),
        "[image]\n[file report.pdf]",
        (PIXEL,),
        (REPORT,),
    ),
    "in a list": (ToolResult(1, files=[REPORT]), "1", (), (REPORT,)),  # type: ignore[arg-type]
    "not in a tuple": (ToolResult(1, images=PIXEL, files=None), "1", (PIXEL,), ()),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("value", "text", "images", "files"), PARTS.values(), ids=PARTS)
def test_parts(value: Any, text: str, images: tuple[Image, ...], files: tuple[File, ...]) -> None:
    """Pictures and files are split from the text, which has the place of each."""
    result = tool(lambda: value).invoke("{}")

    assert (text, images, files) == (result.text, result.images, result.files)


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (ToolResult(1, images=[b"\x89PNG"]), "images= of a ToolResult takes Image(data, media_type), not bytes."),  # type: ignore[arg-type]
        (ToolResult(1, files=("a.pdf",)), "files= of a ToolResult takes File(data, media_type), not str."),  # type: ignore[arg-type]
    ],
)
def test_wrong_parts_of_a_result(result: ToolResult, error: str) -> None:
    """What is no image or file is not dropped silently: the call fails, and the error says what to write."""
    whole = tool(lambda: result).invoke("{}")

    assert (error, f"1\n{error}", "failed") == (whole.error, whole.text, whole.kind)


@pytest.mark.parametrize("kind", [Image, File])
def test_invalid_parts(kind: type[Any]) -> None:
    """A path is not a picture, and a word no media type: making one raises an error at once."""
    with pytest.raises(TypeError, match=r"takes the bytes of a file, as Path.read_bytes\(\) returns them, not 'a.png'"):
        kind("a.png")
    with pytest.raises(ValueError, match="'png' is not a media type"):
        kind(b"", "png")


PRIVATE = ToolResult(1, details={"key": "hidden"}, exception=ValueError("hidden"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([PRIVATE, ToolResult("b", error="half")], '["1","b\\nhalf"]'),
        ([PRIVATE] * 300, json.dumps(["1"] * 300, separators=(",", ":"))),
        ({"first": PRIVATE}, '{"first":"1"}'),
        ({"all": [ToolResult(text="a picture", images=(PIXEL,))]}, '{"all":["a picture"]}'),
    ],
    ids=["list", "long list", "dict", "image"],
)
def test_results_inside(value: Any, text: str) -> None:
    """Of results inside a value their texts are sent, and never their details and exceptions."""

    def gather() -> Any:
        """Gather."""
        return value

    result = tool(gather).invoke("{}")

    assert (text, value) == (result.text, result.value)
    assert (PIXEL,) * ("picture" in text) == result.images


def test_name_of_a_file() -> None:
    """A file name that no request can contain is replaced by a valid one."""
    assert "a\ufffd" == File(b"", name="a\udcff").name


FILE_URL = "data:application/pdf;base64,JVBERg=="
CALLED: dict[str, Any] = {
    "chat": {"tool_calls": [{"id": "a", "function": {"name": "get", "arguments": "{}"}}]},
    "responses": {"output": [{"type": "function_call", "call_id": "a", "name": "get", "arguments": "{}"}]},
    "anthropic": {"content": [{"type": "tool_use", "id": "a", "name": "get", "input": {}}]},
    "gemini": {"candidates": [{"content": {"parts": [{"functionCall": {"id": "a", "name": "get", "args": {}}}]}}]},
    "interactions": {"steps": [{"type": "function_call", "id": "a", "name": "get", "arguments": {}}]},
    "mcp": {"method": "tools/call", "params": {"name": "get", "arguments": {}}},
}
DOCUMENT = {"type": "document", "title": "report.pdf"}
WIRE: dict[str, Any] = {
    "chat": [
        {"role": "tool", "tool_call_id": "a", "content": "[file report.pdf]"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "The files of the results above, in order: the images first."},
                {"type": "file", "file": {"filename": "report.pdf", "file_data": FILE_URL}},
            ],
        },
    ],
    "responses": [
        {
            "type": "function_call_output",
            "call_id": "a",
            "output": [
                {"type": "input_text", "text": "[file report.pdf]"},
                {"type": "input_file", "filename": "report.pdf", "file_data": FILE_URL},
            ],
        }
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "content": [
                        {"type": "text", "text": "[file report.pdf]"},
                        {**DOCUMENT, "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}},
                    ],
                }
            ],
        }
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "name": "get",
                        "response": {"output": "[file report.pdf]"},
                        "id": "a",
                        "parts": [
                            {
                                "inlineData": {
                                    "mimeType": "application/pdf",
                                    "data": "JVBERg==",
                                    "displayName": "report.pdf",
                                }
                            }
                        ],
                    }
                }
            ],
        }
    ],
    "interactions": [
        {
            "type": "function_result",
            "name": "get",
            "call_id": "a",
            "result": [
                {"type": "text", "text": "[file report.pdf]"},
                {"type": "document", "mime_type": "application/pdf", "data": "JVBERg=="},
            ],
        }
    ],
    "mcp": [
        {
            "content": [
                {"type": "text", "text": "[file report.pdf]"},
                {
                    "type": "resource",
                    "resource": {"uri": "file:///report.pdf", "mimeType": "application/pdf", "blob": "JVBERg=="},
                },
            ],
            "isError": False,
            "resultType": "complete",
        }
    ],
}


@pytest.mark.parametrize("name", WIRE)
def test_files_on_the_wire(name: Any) -> None:
    """Each provider gets a file where it takes one."""
    assert WIRE[name] == Toolbox([tool(lambda: REPORT, name="get")]).answer(CALLED[name], name)


@pytest.mark.parametrize(
    ("file", "block"),
    [
        (
            File("é".encode(), "text/csv", "a.csv"),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "é"}, "title": "a.csv"},
        ),
        (
            File(b"\xff", "application/zip", "a.zip"),
            {"type": "text", "text": "[a.zip cannot be shown here: application/zip]"},
        ),
    ],
    ids=["text", "neither PDF nor text"],
)
def test_other_files_for_anthropic(file: File, block: dict[str, Any]) -> None:
    """Anthropic reads PDF and text; for any other file the model reads that it cannot see it."""
    get = tool(lambda: ToolResult(1, "1", files=(file,)), name="get")
    (message,) = Toolbox([get]).answer(CALLED["anthropic"], "anthropic")

    assert [{"type": "text", "text": "1"}, block] == message["content"][0]["content"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (File("é".encode(), "text/csv", "a.csv"), "é"),
        (File(b"\xff", "application/zip", "a.zip"), "[a.zip cannot be shown here: application/zip]"),
    ],
    ids=["text", "neither PDF nor text"],
)
def test_other_files_for_interactions(file: File, text: str) -> None:
    """A file that is not PDF is sent as its text, or as a note that the model cannot see it."""
    get = tool(lambda: ToolResult(1, "1", files=(file,)), name="get")
    (step,) = Toolbox([get]).answer(CALLED["interactions"], "interactions")

    assert [{"type": "text", "text": "1"}, {"type": "text", "text": text}] == step["result"]


def test_image_alone_for_interactions() -> None:
    """An image without a text has no empty block of text beside it."""
    get = tool(lambda: ToolResult("", "", images=(PIXEL,)), name="get")
    (step,) = Toolbox([get]).answer(CALLED["interactions"], "interactions")

    assert ["image"] == [block["type"] for block in step["result"]]


def test_messages_as_wire() -> None:
    """What a request has is read back as it was."""
    message = UserMessage("Look.", (PIXEL,), (REPORT,))
    with FakeServer([reply.text("I see.")]) as server:
        Runner(model="m", base_url=server.base_url).run("x", messages=[message])
        wire = server.requests[0].body["messages"]

    assert message == Runner(model=ScriptedModel(["I see."])).run("x", messages=wire).messages[0]


def test_parts_in_a_run() -> None:
    """In a run they follow the results of their turn in one message, and the run's state contains them."""

    def get() -> list[Any]:
        return ["Here:", PIXEL, REPORT]

    result = Runner([get], model=ScriptedModel([[call("get")], "Seen."])).run("Get it.")
    expected = UserMessage("The files of the results above, in order: the images first.", (PIXEL,), (REPORT,))
    assert expected == result.messages[3]
    assert result.messages == RunState.from_json(result.state.to_json()).messages


# -- what a tool raised


def raising(error: BaseException, **options: Any) -> Tool[..., Any]:
    """A tool that raises."""

    def go() -> None:
        raise error

    return tool(go, **options)


def nested(error: Exception, depth: int) -> Exception:
    """An exception in groups of groups."""
    for _ in range(depth):
        error = ExceptionGroup("group", [error])
    return error


ExceptionGroup: Any = getattr(builtins, "ExceptionGroup", None)
needs_groups = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no groups of exceptions before 3.11")
NEXT = "Try other arguments or another tool, or report that this did not work."
REMEDY = f"not shown here. {NEXT}"


@needs_groups
@pytest.mark.parametrize("depth", [1, 100, 5_000])
def test_group_of_one(depth: int) -> None:
    """An exception alone in its groups is described as if there were none, at any depth."""
    result = raising(nested(ToolError("no such book"), depth)).invoke("{}")

    assert ("no such book", "failed") == (result.text, result.kind)
    assert isinstance(result.exception, BaseException) and "group" in str(result.exception)


@needs_groups
def test_group() -> None:
    """Each exception of a group is described, equal ones once, and only messages that are meant for the model."""
    group = ExceptionGroup("secret", [ToolError("full"), OSError("secret"), nested(OSError("other"), 3), KeyError("a")])

    text = raising(group, relay=(KeyError,)).invoke("{}").text
    assert f"go failed: full; OSError; KeyError: 'a'. Some messages are {REMEDY}" == text


@needs_groups
def test_wide_group() -> None:
    """A group of 10,000 exceptions does not fill the conversation."""
    group = ExceptionGroup("many", [type(f"Error{n % 500}", (Exception,), {})() for n in range(10_000)])

    assert 400 == len(raising(group).invoke("{}").text)


class EvilError(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


class EvilRelayed(EvilError): ...


class EvilToolError(ToolError):
    @property
    def text(self) -> str:
        raise RuntimeError


Endless = type("BaseExceptionGroup", (Exception,), {"exceptions": property(lambda self: (self, self))})
FAILURES: dict[str, tuple[BaseException, str]] = {
    "evil": (EvilError(), f"go failed: EvilError. Its message is {REMEDY}"),
    "evil and relayed": (EvilRelayed(), f"go failed: EvilRelayed. {NEXT}"),
    "evil ToolError": (EvilToolError("why"), f"go failed: EvilToolError. {NEXT}"),
    "relayed, empty": (OSError(), f"go failed: OSError. {NEXT}"),
    "ToolError, empty": (ToolError(), f"go failed: ToolError. {NEXT}"),
    "relayed, 10 MB": (OSError("x" * 10**7), "go failed: OSError: " + "x" * 379 + "…"),
    "ToolError, 10 MB": (ToolError("x" * 10**7), "x" * 10**7),
    "long name of a class": (type("E" * 1_000, (Exception,), {})(), f"go failed: {'E' * 99}…. Its message is {REMEDY}"),
    "half a character": (OSError("a\ud800"), "go failed: OSError: a\ufffd"),
    "name of another class": (type("CancelledError", (OSError,), {})("paid"), "go failed: CancelledError: paid"),
    "endless group": (Endless(), f"go failed: BaseExceptionGroup. Its message is {REMEDY}"),
}


@pytest.mark.parametrize(("error", "text"), FAILURES.values(), ids=FAILURES)
def test_failure(error: BaseException, text: str) -> None:
    """Whatever is raised, the model gets a text; only that of a ToolError may be long."""
    result = raising(error, relay=(OSError, EvilRelayed)).invoke("{}")

    assert (text, text, error) == (result.text, result.error, result.exception)


ADDRESSES = {
    "https://user:pass@host/path?key=secret": "https://host/path?key=...",
    "https://token@host": "https://host",
    "https://host/a?b=1&token=secret;c=2#access_token=secret": "https://host/a?b=...&token=...;c=...#access_token=...",
    "postgres://user:p/a?s#s@w@host:5432/db": "postgres://host:5432/db",
    "GET 'https://host/a?key=secret' failed": "GET 'https://host/a?key=...' failed",
    "see https://u:p@a/x and redis://:secret@b/0": "see https://a/x and redis://b/0",
    "https://host/@scope/name": "https://host/@scope/name",
    "a@b.example, 1=2, no://": "a@b.example, 1=2, no://",
    "https://host/a?secret": "https://host/a?...",
    "//user:pass@host/a": "//host/a",
}


@pytest.mark.parametrize(("text", "expected"), ADDRESSES.items(), ids=ADDRESSES)
def test_addresses(text: str, expected: str) -> None:
    """Of an address in a relayed message the model sees neither user and password nor what its query says."""
    assert f"go failed: OSError: {expected}" == raising(OSError(text), relay=(OSError,)).invoke("{}").text


# -- arguments that are secrets


class Login(BaseModel):
    password: Annotated[SecretStr, Field(min_length=20)]
    port: int = 1


@tool
def log_in(key: SecretBytes | None = None, login: Login | None = None, times: int = 1) -> None:
    """Log in."""


WORDS = {
    "in a model": '{"login": {"password": "canary"}}',
    "beside one": '{"login": {"password": "canary", "port": "x"}}',
    "of a wrong type": '{"key": ["canary"]}',
    "no object": '["canary"]',
    "text": '"canary"',
    "under another name": '{"kay": "canary"}',
}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_secrets_are_not_repeated(words: str) -> None:
    """The error of an invalid secret does not contain it."""
    result = log_in.invoke(words)

    assert (True, False) == (result.is_error, "canary" in result.text)


def test_others_are_repeated() -> None:
    """The error of another invalid value contains it."""
    assert '(received "often")' in log_in.invoke('{"times": "often"}').text


LONG = {
    "one value": json.dumps({"times": "x" * 10**6}),
    "one key": json.dumps({"x" * 10**6: 1}),
    "many keys": json.dumps({f"x{n}": 1 for n in range(10_000)}),
    "no object": json.dumps(["x" * 10**6]),
}


@pytest.mark.parametrize("words", LONG.values(), ids=LONG)
def test_length_of_refusals(words: str) -> None:
    """However many errors there are, their text is short."""
    assert 400 >= len(log_in.invoke(words).text)


@pytest.mark.parametrize("name", ["\x00" * 10**6, "🙂" * 10**6, "x" * 10**6, ""], ids=["control", "emoji", "x", "none"])
def test_length_of_unknown_names(name: str) -> None:
    """A name that no tool has is not repeated at length, nor are those of a hundred tools."""
    box = Toolbox([log_in.with_name(f"log_in_{'x' * 50}_{n}") for n in range(100)])

    assert 400 >= len(box.call(name).text)


@tool
def compute_power(base: int, exponent: int) -> int:
    """Compute a power."""
    return int(base**exponent)


def test_long_integers() -> None:
    """An integer of more than 100,000 digits is not written: that takes minutes, in which no other thread runs."""
    box = Toolbox([compute_power])
    for _ in range(2):  # the first call of a tool is another one
        assert "1" + "0" * 90_000 == box.call("compute_power", {"base": 10, "exponent": 90_000}).text
        long = box.call("compute_power", {"base": 10, "exponent": 110_000})
        assert "(An integer of more than 100,000 digits, which is too long to write.)" == long.text
        assert not long.is_error


# -- results as JSON

STORED: dict[str, ToolResult] = {
    "nothing": ToolResult(),
    "zero": ToolResult(0, "0"),
    "empty": ToolResult([], ""),
    "data": ToolResult({"a": [1, None, 0.5]}, "x", details={"b": True}),
    "error": ToolResult(text="e", error="e", kind="failed", repairs=("null",)),
    "parts": ToolResult(images=(Image(b"\x89\x00"),), files=(File(b"1", "text/plain", "a.txt"),)),
}


@pytest.mark.parametrize("result", STORED.values(), ids=STORED)
def test_json(result: ToolResult) -> None:
    """A result of plain data is read as it was written."""
    assert result == ToolResult.from_json(result.to_json())


def test_json_of_other_types() -> None:
    """What JSON cannot represent is written as what it is, and read as plain data; the exception is left out."""
    value = {"day": datetime.date(2026, 1, 2), "raw": b"\x89", "nan": float("nan"), "text": "\ud800", "tuple": (1,)}
    result = ToolResult(value, "x", details=Model(name="Ann"), exception=ValueError("hidden"))

    assert ToolResult(
        {"day": "2026-01-02", "raw": "iQ==", "nan": "NaN", "text": "\ufffd", "tuple": [1]},
        "x",
        details={"name": "Ann", "secret": "**********"},
    ) == ToolResult.from_json(result.to_json())


NO_RESULTS = ["", "[]", "5", '{"x": 1}', '{"text": 5}', '{"error": null}', '{"images": 5}', '{"images": [{"data": 5}]}']


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"images": [{"data": "AAAA"}, {"data": "!!"}]}', r"images\[1\]: Error"),
        ('{"files": [{"name": "a"}]}', r"files\[0\]: KeyError\('data'\)"),
        ('{"files": [{"data": "AAAA", "media_type": "x"}]}', r"files\[0\]: .*File: 'x' is not a media type"),
        ('{"kind": 5}', "kind=5 is not text"),
        ('{"repairs": ["a", 5]}', r"repairs\[1\]=5 is not text"),
    ],
)
def test_json_with_a_wrong_field(text: str, place: str) -> None:
    """The error says which field is wrong."""
    with pytest.raises(ValueError, match=f"not a tool's result: {place}"):
        ToolResult.from_json(text)


@pytest.mark.parametrize("text", NO_RESULTS)
def test_json_of_no_result(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="not a tool's result|Expecting value"):
        ToolResult.from_json(text)
