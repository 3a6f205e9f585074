"""Sessions: what runs read of them and add to them."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolkit import (
    DefinitionError,
    Limits,
    ModelError,
    Runner,
    RunResult,
    RunState,
    Session,
    SQLiteSession,
    ToolContext,
    tool,
)
from toolkit.approvers import defer
from toolkit.errors import ConversationError, StoreError
from toolkit.events import RunFinished, ToolCallFinished
from toolkit.models import ModelRequest, ModelResponse
from toolkit.testing import ScriptedModel, call


@tool(effect="write")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@pytest.fixture(params=["memory", "file"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    return Session() if request.param == "memory" else SQLiteSession(tmp_path / "chats.db", "anna")


def run(runner: Runner, prompt: str, **options: Any) -> RunResult[Any]:
    return runner.run(prompt, **options)


def arun(runner: Runner, prompt: str, **options: Any) -> RunResult[Any]:
    return asyncio.run(runner.arun(prompt, **options))


def stream(runner: Runner, prompt: str, **options: Any) -> RunResult[Any]:
    with runner.stream(prompt, **options) as events:
        _ = list(events)
    return events.result


def start(runner: Runner, prompt: str, **options: Any) -> RunResult[Any]:
    return runner.start(prompt, **options).result(timeout=30)


def kinds(session: Session) -> list[str]:
    """Return the kinds of a session's messages."""
    return [type(message).__name__.removesuffix("Message") for message in session.messages]


@pytest.mark.parametrize("go", [run, arun, stream, start])
def test_session(session: Session, go: Callable[..., RunResult[Any]]) -> None:
    """A run goes on from the messages of the session, and adds its own, without the instructions."""
    model = ScriptedModel(["Hello Anna.", [call("pay", amount=5)], "Paid, Anna."])
    runner = Runner([pay], model=model, instructions="Be brief.")
    _ = go(runner, "I am Anna.", session=session)
    result = go(runner, "Pay 5.", session=session)

    assert "Paid, Anna." == result.output
    assert result.messages[1:] == session.messages
    assert ["User", "ModelResponse", "User", "ModelResponse", "Tool", "ModelResponse"] == kinds(session)
    assert "Be brief." == model.requests[1].messages[0].text
    assert 4 == len(model.requests[1].messages)


def test_new_instructions(session: Session) -> None:
    """The instructions are those of the runner, not those of an earlier one."""
    model = ScriptedModel(["One.", "Two."])
    Runner(model=model, instructions="Count.").run("Go", session=session)
    Runner(model=model, instructions="Count on.").run("Go", session=session)

    assert ["Count.", "Count on."] == [request.messages[0].text for request in model.requests]


def test_paused_run(session: Session) -> None:
    """A run that waits for approval adds nothing; once it is resumed to the end, all of it is added."""
    model = ScriptedModel(["Hello.", [call("pay", amount=5)], "Paid."])
    runner = Runner([pay], model=model, instructions="Be brief.", approve=defer)
    runner.run("Hello!", session=session)
    paused = runner.run("Pay 5.", session=session)
    before = kinds(session)
    result = runner.resume(paused.state, {waiting.call.id: True for waiting in paused.pending}, session=session)

    assert ["User", "ModelResponse"] == before
    assert "Paid." == result.output
    assert result.messages[1:] == session.messages


def test_run_that_raises(session: Session) -> None:
    """A run that an exception leaves adds nothing, so that the same prompt can be tried again."""

    def fail(_: ModelRequest) -> str:
        raise ModelError("The server is away.")

    with pytest.raises(ModelError, match="The server is away") as failure:
        Runner(model=ScriptedModel(fail)).run("Go", session=session)

    assert () == session.messages
    assert 1 == len(failure.value.result.messages)


async def cancel_task(go: Callable[[], Any], started: asyncio.Event) -> None:
    """Cancel the task of a run."""
    task = asyncio.ensure_future(go())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def keep_cancelling(go: Callable[[], Any], started: asyncio.Event) -> None:
    """Cancel the task of a run in each round of the loop until it ends, as the scopes of anyio do."""
    task = asyncio.ensure_future(go())
    await started.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()


async def leave(stream: Any, started: asyncio.Event) -> None:
    async for _ in stream:
        if started.is_set():
            break
    await stream.aclose()


@pytest.mark.parametrize("end", [cancel_task, keep_cancelling, leave])
def test_run_that_is_cancelled_or_left(end: Callable[..., Any], session: Session) -> None:
    """A run whose task is cancelled, or whose stream is left, adds what it has done, with a result for each call."""

    @tool
    async def wait(context: ToolContext) -> None:
        """Wait."""
        started.set()
        context.progress("waiting")
        await asyncio.Event().wait()

    async def main() -> None:
        runner = Runner([pay, wait], model=ScriptedModel([call("pay", amount=5), call("wait")]), checkpoint=save)
        if end is leave:
            await leave(runner.astream("Go", session=session), started)
        else:
            await end(lambda: runner.arun("Go", session=session), started)

    async def save(state: RunState) -> None:
        await asyncio.sleep(0.01)
        phases.append(state.phase)

    phases: list[str] = []
    started = asyncio.Event()
    asyncio.run(main())

    assert ["User", "ModelResponse", "Tool", "ModelResponse", "Tool"] == kinds(session)
    assert "paid 5" == session.messages[2].text
    assert "finished" == phases[-1]


def test_sync_stream_that_is_left(session: Session) -> None:
    """A sync stream that is left early adds what was done; one that is left after its end adds nothing twice."""
    for last, count in ((ToolCallFinished, 3), (RunFinished, 4)):
        session.clear()
        runner = Runner([pay], model=ScriptedModel([call("pay", amount=5), "Paid."]))
        with runner.stream("Go", session=session) as events:
            next(event for event in events if isinstance(event, last))

        assert ["User", "ModelResponse", "Tool", "ModelResponse"][:count] == kinds(session)


def test_run_that_reaches_a_limit(session: Session) -> None:
    """A run that a limit has ended adds its messages."""
    model = ScriptedModel([[call("pay", amount=5)]])
    Runner([pay], model=model, limits=Limits(max_turns=1, on_limit="stop")).run("Go", session=session)

    assert ["User", "ModelResponse", "Tool", "User"] == kinds(session)


def test_two_runs_at_once(session: Session) -> None:
    """Of two runs at once, the one that ends last adds nothing, and says why."""

    @tool
    def ask() -> str:
        """Run another one in the same session."""
        Runner(model=ScriptedModel(["Inner."])).run("Inside", session=session)
        return "asked"

    runner = Runner([ask], model=ScriptedModel([[call("ask")], "Outer."]))
    with pytest.raises(ConversationError, match=r"The session has 2 messages now, and had 0 .* give each a") as refusal:
        runner.run("Outside", session=session)

    assert "Outer." == refusal.value.result.output
    assert ["User", "ModelResponse"] == kinds(session)


def test_json(session: Session) -> None:
    """A session survives as text, with calls and results."""
    Runner([pay], model=ScriptedModel([[call("pay", amount=5)], "Paid."])).run("Pay 5.", session=session)

    assert session.messages == Session.from_json(session.to_json()).messages


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda session: pickle.loads(pickle.dumps(session))],  # noqa: S301  our own
)
def test_copies(duplicate: Callable[[Session], Session]) -> None:
    """A session in memory can be copied and pickled, as `gr.State(Session())` does; the copy goes on by itself."""
    session = Session([{"role": "user", "content": "I am Anna."}])
    other = duplicate(session)
    other.extend([{"role": "assistant", "content": "Hello Anna."}])

    assert ["User", "ModelResponse"] == kinds(other)
    assert ["User"] == kinds(session)


def test_copy_of_a_file(tmp_path: Path) -> None:
    """A session in a file is not copied: the error names the file and what to do."""
    with (
        SQLiteSession(tmp_path / "chats.db") as session,
        pytest.raises(TypeError, match=r"^chats\.db is open and cannot be pickled or copied: make another object of"),
    ):
        copy.deepcopy(session)


WRONG_FIELDS: list[tuple[int, str, Any]] = [
    (0, "text", None),
    (1, "text", 5),
    (1, "usage", {"requests": "1"}),
    (1, "items", ["x"]),
    (1, "is_answer", 1),
    (2, "name", ["pay"]),
    (2, "foreign", [["pay"]]),
    (2, "timestamp", True),
]


@pytest.mark.parametrize(("number", "field", "value"), WRONG_FIELDS)
def test_fields_of_other_types(number: int, field: str, value: Any, tmp_path: Path) -> None:
    """A field of another type is refused where the session is read, as text or from a file."""
    result = Runner([pay], model=ScriptedModel([call("pay", amount=5), "Paid."])).run("Pay 5.")
    saved = json.loads(Session(result.messages).to_json())
    saved["messages"][number][field] = value
    chat = SQLiteSession(tmp_path / "chats.db")
    chat.extend(result.messages)
    with closing(sqlite3.connect(tmp_path / "chats.db")) as connection, connection:
        changed = (json.dumps(saved["messages"][number]), number)
        connection.execute("UPDATE messages SET message = ? WHERE number = ?", changed)

    with pytest.raises(ConversationError, match="This is not a session: "):
        Session.from_json(json.dumps(saved))
    with pytest.raises(StoreError, match="A message of the session 'main' is damaged"):
        _ = chat.messages


def test_missing_fields_of_a_model(tmp_path: Path) -> None:
    """A model of one's own may leave None where it has no reasoning; the next run reads that as missing."""
    chat = SQLiteSession(tmp_path / "chats.db")
    missing: Any = None
    answer = ModelResponse(text="Hello.", reasoning=missing, finish_reason=missing)
    Runner([], model=ScriptedModel([answer])).run("Hi", session=chat)
    Runner([], model=ScriptedModel(["Hello again."])).run("Hi", session=chat)

    assert chat.messages[1] == ModelResponse(text="Hello.")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "messages": [5]}', "5", "[" * 99_999]
)
def test_damaged_json(text: str) -> None:
    """A text that is not a session is refused."""
    with pytest.raises(ConversationError, match="This is not a session"):
        Session.from_json(text)


def test_later_version() -> None:
    """A text of another version is refused."""
    with pytest.raises(ConversationError, match="of version 9; this library reads version 1"):
        Session.from_json('{"version": 9, "messages": []}')


def test_history_of_another_program(session: Session) -> None:
    """Messages in OpenAI's form are taken, and repaired."""
    made = Session([{"role": "user", "content": "Hi"}, {"role": "tool", "tool_call_id": "1", "content": "x"}])
    session.extend(made.messages)

    assert ["User"] == kinds(session)


def test_added_messages(session: Session) -> None:
    """Messages that an application adds may be in OpenAI's form, too; what is no message is refused at once."""
    for messages in ("Hi", [{"text": "Hi"}]):
        with pytest.raises((TypeError, ValueError), match="messages= takes a list of messages|has a role, one of"):
            session.extend(messages)  # type: ignore[arg-type]  # as an application may
    session.extend([{"role": "user", "content": "I am Anna."}, {"role": "assistant", "content": "Hello Anna."}])
    runner = Runner(model=ScriptedModel(["Anna."]))

    assert "Anna." == runner.run("Who am I?", session=session).output
    assert ["User", "ModelResponse", "User", "ModelResponse"] == kinds(session)


def test_text_that_is_not_utf8(session: Session) -> None:
    """A prompt with half a character, as a terminal or a file name may have, is kept, and the state can be written."""
    prompt = b"caf\xe9".decode("utf-8", "surrogateescape")
    result = Runner(model=ScriptedModel(["Yes."])).run(prompt, session=session)

    assert (prompt, prompt) == (session.messages[0].text, Session.from_json(session.to_json()).messages[0].text)
    assert RunState.from_json(result.state.to_json().encode().decode()) == result.state


def test_clear(session: Session) -> None:
    """A session that was cleared is empty."""
    session.extend([{"role": "user", "content": "Hi"}])
    session.clear()

    assert () == session.messages
    assert f"<{type(session).__name__} of 0 messages>" == repr(session)


def test_names(tmp_path: Path) -> None:
    """A file holds several conversations; the one that was continued last is in front."""
    path, hello = tmp_path / "chats.db", Session([{"role": "user", "content": "Hi"}]).messages
    for name in ("anna", "bob", "anna"):
        SQLiteSession(path, name).extend(hello)

    assert ("anna", "bob") == SQLiteSession(path).names()
    assert [2, 1, 0] == [len(SQLiteSession(path, name).messages) for name in ("anna", "bob", "main")]


def test_another_process(tmp_path: Path) -> None:
    """Another process goes on where this one has ended, and the file is its owner's alone."""
    path = tmp_path / "chats.db"
    Runner(model=ScriptedModel(["Hello Anna."])).run("I am Anna.", session=SQLiteSession(path))
    program = (
        "import sys; from toolkit import *; from toolkit.testing import ScriptedModel\n"
        "session = SQLiteSession(sys.argv[1])\n"
        "print(Runner(model=ScriptedModel(['Anna.'])).run('Who?', session=session), len(session.messages))"
    )
    shown = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)

    assert "Anna. 4\n" == shown.stdout
    if os.name == "posix":
        assert 0o600 == path.stat().st_mode & 0o777


SYNC_END = """
stream = runner.stream("Go", session=session)
next(stream), next(stream)
"""
ASYNC_END = """
async def main():
    global stream
    stream = runner.astream("Go", session=session)
    await stream.__anext__(), await stream.__anext__()

import asyncio
asyncio.run(main())
print(len(session.messages))
"""


@pytest.mark.parametrize(("end", "shown"), [(SYNC_END, ""), (ASYNC_END, "1\n")], ids=["sync", "async"])
def test_program_that_ends_in_a_stream(end: str, shown: str, tmp_path: Path) -> None:
    """A program that ends while a stream is open prints nothing; the end of an event loop saves the run."""
    program = (
        "import sys; from toolkit import *; from toolkit.testing import ScriptedModel\n"
        "session = SQLiteSession(sys.argv[1])\n"
        f"runner = Runner(model=ScriptedModel(['Anna.']))\n{end}"
    )
    path = tmp_path / "chats.db"
    ran = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)

    assert (shown, "") == (ran.stdout, ran.stderr)


def test_another_file(tmp_path: Path) -> None:
    """A file that holds something else is refused."""
    path = tmp_path / "notes.txt"
    path.write_text(json.dumps({"a": 1}) * 100)

    with pytest.raises(StoreError):
        _ = SQLiteSession(path).messages


@pytest.mark.parametrize("row", ["{", "[]", "null", '{"kind": "alien"}', '{"kind": "user", "calls": 5}', b"\xff", None])
def test_damaged_message(tmp_path: Path, row: str | bytes | None) -> None:
    """A run does not begin where a message in the file cannot be read, and the error says so."""
    session = SQLiteSession(tmp_path / "chats.db")
    session.extend(Session([{"role": "user", "content": "Hi"}]).messages)
    with closing(sqlite3.connect(tmp_path / "chats.db")) as connection, connection:
        connection.execute("UPDATE messages SET message = ?", (row,))

    with pytest.raises(StoreError, match="A message of the session 'main' is damaged"):
        Runner(model=ScriptedModel(["Hello."])).run("Hi", session=session)


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (["anna"], {}, r"SQLiteSession\('chats.db', 'anna'\), or Path\('anna'\) for a file of this name"),
        (["anna", "chats.db"], {}, "the first argument is a file"),
        (["chats.db"], {"session_id": "anna"}, r"Write SQLiteSession\('chats.db', 'name'\)"),
    ],
)
def test_id_in_place_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], options: dict[str, Any], text: str
) -> None:
    """The id of a session, which other libraries take first, is refused and makes no file; a Path is taken as it is."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((DefinitionError, TypeError), match=text):
        SQLiteSession(*arguments, **options)
    assert [] == list(tmp_path.iterdir())

    SQLiteSession(Path("anna"))
    assert ["anna"] == [path.name for path in tmp_path.iterdir()]


def test_mistakes() -> None:
    """What is no session, and two conversations for one run, are refused before anything runs."""
    runner = Runner(model=ScriptedModel([]))
    with pytest.raises(TypeError, match=r"session='chats.db' is not a Session: write session=SQLiteSession"):
        runner.run("Go", session="chats.db")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="messages= and session= are both the conversation so far"):
        runner.run("Go", session=Session(), messages=[{"role": "user", "content": "Hi"}])
    with pytest.raises(TypeError, match=r"runner.run\(prompt, session=...\)"):
        Runner(session=Session())  # type: ignore[call-arg]


def test_call_without_a_result(tmp_path: Path) -> None:
    """A call that was stored without its result gets an error before the model reads it."""
    session = SQLiteSession(tmp_path / "chats.db")
    made = Runner([pay], model=ScriptedModel([[call("pay", amount=5)], "Paid."])).run("Pay 5.")
    session.extend(made.messages[:2])
    model = ScriptedModel(["Lost."])
    Runner([pay], model=model).run("And?", session=session)

    assert "No result of this call is known" in model.requests[0].messages[2].text
    assert ["User", "ModelResponse", "User", "ModelResponse"] == kinds(session)


def test_pause_beside_another_run(session: Session) -> None:
    """A paused run adds nothing to a session that has other messages since, and says so; nothing is lost."""
    model = ScriptedModel([call("pay", amount=5), "It is sunny."])
    runner = Runner([pay], model=model, approve=defer)
    paused = runner.run("Pay 5.", session=session)
    runner.run("And the weather?", session=session)

    with pytest.raises(ConversationError, match="The session has other messages than when this run started"):
        runner.resume(paused.state, {each.call.id: True for each in paused.pending}, session=session)
    assert ["And the weather?", "It is sunny."] == [message.text for message in session.messages]
