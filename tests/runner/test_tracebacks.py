"""Tracebacks of what leaves a public function: the caller's line, and what the error says."""

from __future__ import annotations

import logging
import pickle
import re
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, field_validator

import toolkit
from tests import ways
from toolkit import (
    ApprovalRequest,
    DefinitionError,
    FatalError,
    ModelError,
    RunError,
    Runner,
    SQLiteSession,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolkit.builtin import shell_tool
from toolkit.display import show
from toolkit.errors import ToolkitError
from toolkit.events import Event, RunStarted
from toolkit.middleware import Next
from toolkit.sources.openapi import openapi_tools
from toolkit.testing import FakeServer, Reply, ScriptedModel, call

PACKAGE = Path(toolkit.__file__).parent
WAYS = [ways.run, ways.arun, ways.stream, ways.astream, ways.start]


def list_own_files(error: BaseException) -> list[str]:
    """Return the files of the package in a traceback, in order."""
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    return [file.relative_to(PACKAGE).as_posix() for file in files if file.is_relative_to(PACKAGE)]


def count_lines(error: BaseException) -> int:
    return len("".join(traceback.format_exception(type(error), error, error.__traceback__)).splitlines())


@tool
def fail() -> str:
    """Fail."""
    raise RuntimeError("the tool's own")


@tool
def end() -> str:
    """End."""
    raise FatalError("the tool's end")


@tool
def need(context: ToolContext[int]) -> str:
    """Need deps."""
    return "x"


class Shelf:
    @tool
    def find(self) -> str:
        """Find."""
        return "x"


def describe(sequence: Callable[[], int]) -> str:
    """Describe."""
    return "x"


@pytest.mark.parametrize("way", WAYS)
def test_error_of_a_run(way: Callable[..., Any]) -> None:
    """An error that says what to do has one frame of the package, in which it is raised to the caller."""
    runner = Runner(base_url="http://127.0.0.1:9/v1", model="m")

    with pytest.raises(ModelError, match=r"\(m at http://127\.0\.0\.1:9/v1/") as caught:
        way(runner)

    assert 1 == len(list_own_files(caught.value))


MISTAKES: Sequence[tuple[str, Callable[[], object]]] = (
    ("an option of a tool", lambda: tool(effect="del")(describe)),  # type: ignore[call-overload]
    ("a name of a tool", lambda: tool(name="a b")(describe)),
    ("an undo", lambda: tool(undo=lambda a, b, c: None)(describe)),
    ("a signature", lambda: Runner([describe])),
    ("a class", lambda: Runner([Shelf])),
    ("twice", lambda: Toolbox([fail, fail])),
    ("no list", lambda: Runner(fail)),  # type: ignore[arg-type]
    ("no key", lambda: Runner(model="gpt-5").run("go")),
    ("an address", lambda: Runner(base_url="localhost:1", model="m")),
    ("an option", lambda: Runner(temperature=1)),  # type: ignore[call-arg]
    ("a prompt", lambda: Runner(model=ScriptedModel(["x"])).run(5)),  # type: ignore[call-overload]
    ("deps", lambda: Runner([need], model=ScriptedModel(["x"])).run("go")),
    ("output", lambda: Runner(model=ScriptedModel(["x"])).run("go", output_type=Callable)),
    ("a state", lambda: Runner(model=ScriptedModel(["x"])).resume("no JSON")),
    ("a directory", lambda: shell_tool("/nowhere")),
    ("a session", lambda: SQLiteSession("/nowhere/runs.db")),
    ("a document", lambda: openapi_tools("{")),
    ("no answer", lambda: Runner(model=ScriptedModel(["x"] * 9)).run("go", output_type=int)),
)


@pytest.mark.parametrize("mistake", [mistake for _, mistake in MISTAKES], ids=[name for name, _ in MISTAKES])
def test_mistakes(mistake: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary mistake is told in few lines: no chain of exceptions, two frames of the package at most."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    with pytest.raises((ToolkitError, TypeError, ValueError)) as caught:
        mistake()

    assert 15 >= count_lines(caught.value)  # of which up to three are the test's own, four from Python 3.13 on
    assert 2 >= len(list_own_files(caught.value))


def test_cause() -> None:
    """What led to an error of ours is its `cause`."""
    with pytest.raises(RunError) as caught:
        Runner(model=ScriptedModel(["x"] * 9)).run("go", output_type=int)

    assert (None, "ToolError") == (caught.value.__cause__, type(caught.value.cause).__name__)


def test_cause_of_the_application() -> None:
    """What the application's own code raised stays in the traceback."""

    class Odd:
        @classmethod
        def __get_pydantic_core_schema__(cls, *_: object) -> Any:
            raise KeyError("the application's own")

    def take(odd: Odd) -> str:
        """Take."""
        return "x"

    take.__annotations__["odd"] = Odd
    with pytest.raises(DefinitionError) as caught:
        Runner([take])

    assert isinstance(caught.value.__cause__, KeyError)


def test_failed_connection_of_the_application() -> None:
    """What the application's own code cannot connect to is in the traceback, with its line."""

    def look_up(city: str) -> str:
        socket.create_connection(("127.0.0.1", 9))
        return city

    class City(BaseModel):
        name: Annotated[str, AfterValidator(look_up)]

    with pytest.raises(RunError) as caught:
        Runner(model=ScriptedModel(['{"name": "Oslo"}'] * 3)).run("go", output_type=City)

    assert "in look_up" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("broken", "name"), [(fail, "fail"), (end, "end")], ids=["raise_errors", "fatal"])
def test_frames_of_a_tool(way: Callable[..., Any], broken: Any, name: str) -> None:
    """An exception of a tool keeps the tool's frames."""
    runner = Runner([broken], model=ScriptedModel([call(name), "x"]), raise_errors=True)

    with pytest.raises((RuntimeError, FatalError), match="the tool's") as caught:
        way(runner)

    assert (name, 1) == (traceback.extract_tb(caught.value.__traceback__)[-1].name, len(list_own_files(caught.value)))


@pytest.mark.skipif(sys.platform == "win32", reason="no signal wakes a thread there")
@pytest.mark.parametrize("way", [ways.run, ways.stream, lambda runner: show(runner.stream("x"))])
def test_interrupt_while_the_model_answers(way: Callable[..., Any]) -> None:
    """The traceback of Ctrl-C has the caller's lines, without what waits for the network."""

    def interrupt(_: object) -> Reply:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return Reply.hang()

    with FakeServer(interrupt) as server, pytest.raises(KeyboardInterrupt) as caught:
        way(Runner(base_url=server.base_url, model="m", api_key="x"))

    files = " ".join(frame.filename for frame in traceback.extract_tb(caught.value.__traceback__))
    assert not re.search("openai|httpx|httpcore", files)
    assert {"_options.py"} == set(list_own_files(caught.value))


def test_frame_of_a_fault() -> None:
    """An error that is not one of ours keeps the frame in which it arose."""
    with pytest.raises(TypeError) as caught:
        Runner(model=ScriptedModel(["x"])).run(5)  # type: ignore[call-overload]

    assert "_runner/prompt.py" == list_own_files(caught.value)[-1]


def test_whole_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """The log has all frames, at level DEBUG."""
    with caplog.at_level(logging.DEBUG, "toolkit"), pytest.raises(TypeError):
        Runner(model=ScriptedModel(["x"])).run(5)  # type: ignore[call-overload]

    assert "_runner/run_factory.py" in caplog.text.replace("\\", "/")


def test_pickle_of_an_error_with_a_cause() -> None:
    """A cause, which may be anything, does not keep an error from being pickled."""
    error = RunError("no")
    error.cause = ValueError(lambda: None)

    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  our own

    assert ("no", None) == (str(copy), copy.cause)


def test_cause_of_a_cause() -> None:
    """The traceback goes on with what the application's own code raised, even if an error of ours lies between."""

    class Place(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def look_up(cls, name: str) -> str:
            raise KeyError(name)

    with pytest.raises(RunError) as caught:
        Runner(model=ScriptedModel(['{"name": "x"}'] * 3)).run("go", output_type=Place)

    assert (KeyError, "ToolError") == (type(caught.value.__cause__), type(caught.value.cause).__name__)


def test_annotation_that_cannot_be_evaluated() -> None:
    """A name that is not defined, in a field of a model, is in the message; how it was looked up is not printed."""

    class Book(BaseModel):
        author: Author  # type: ignore[name-defined]  # noqa: F821

    @tool
    def lend(book: Book) -> str:
        """Lend a book."""
        return "lent"

    with pytest.raises(DefinitionError, match="name 'Author' is not defined") as caught:
        _ = lend.parameters
    assert count_lines(caught.value) < 10


def test_frozen_exception() -> None:
    """An exception that refuses to have an attribute set leaves as it is."""

    @dataclass(frozen=True)
    class Frozen(FatalError):
        code: int

    @tool
    def refuse() -> str:
        """Refuse."""
        raise Frozen(5)

    with pytest.raises(Frozen) as caught:
        Toolbox([refuse]).call("refuse")

    assert "refuse" == traceback.extract_tb(caught.value.__traceback__)[-1].name


def test_code_without_line_numbers() -> None:
    """An exception leaves as it is if a frame has no line number: Ctrl-C may come before the first line of one."""

    def refuse(_: object) -> str:
        raise ValueError("no")

    refuse.__code__ = refuse.__code__.replace(co_linetable=b"")
    raised: Exception | None = None
    try:
        Runner(model=ScriptedModel(refuse)).run("x")
    except Exception as error:  # pytest cannot show it
        raised = error.with_traceback(None)

    assert "ValueError('no')" == repr(raised)


def test_traceback_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The log shows where the application's function, gate, hook or middleware raised, without the package's frames."""

    def refuse(request: ApprovalRequest) -> bool:
        raise RuntimeError("the gate's own")

    class Hook:
        def before_call(self, call: ToolCall, context: ToolContext) -> None:
            raise RuntimeError("the hook's own")

        def on_event(self, event: Event, run_id: str) -> None:
            if isinstance(event, RunStarted):
                raise RuntimeError("the listener's own")

    async def wrap(call: ToolCall, call_next: Next) -> ToolResult:
        raise RuntimeError("the middleware's own")

    for approve in (None, refuse):
        Runner([fail], model=ScriptedModel([call("fail"), "x"]), approve=approve).run("go")
    Runner([tool(fail, approve=refuse)], model=ScriptedModel([call("fail"), "x"])).run("go")
    hook = Hook()
    Runner([fail], model=ScriptedModel([call("fail"), "x"]), hooks=[hook]).run("go")
    Runner([fail], model=ScriptedModel([call("fail"), "x"]), middleware=[wrap]).run("go")

    assert [
        "Tool fail raised RuntimeError (relay= lets the model read the message)",
        *[f"The gate {refuse!r} raised, so it does not allow the call."] * 2,
        f"The hook {hook.on_event!r} failed; the run goes on.",
        f"The hook {hook.before_call!r} failed; its call gets an error.",
        "A middleware or gate around the call fail failed; the call gets an error.",
    ] == caplog.messages
    assert ["fail", "refuse", "refuse", "on_event", "before_call", "wrap"] == [
        frame.name for record in caplog.records for frame in traceback.extract_tb((record.exc_info or [None])[-1])
    ]
