"""The conversations that the command keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest

from tests.servers import FakeServer
from toolkit import Session, SQLiteSession
from toolkit.cli import main
from toolkit.testing import reply

pytestmark = pytest.mark.usefixtures("own_process")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """A server whose model calls a tool of tools.py, and answers; conversations are kept in chats.db."""
    (tmp_path / "tools.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLKIT_SESSIONS", str(tmp_path / "chats.db"))
    replies = chain([reply.calls(("add", {"a": 1, "b": 2})), reply.text("It is 3.")], repeat(reply.text("Yes.")))
    with FakeServer(lambda _: next(replies)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("TOOLKIT_MODEL", "m")
        yield server


def ask(*arguments: str) -> int:
    return main(["run", "tools.py", "--all", "-q", *arguments])


def test_continue(server: FakeServer) -> None:
    """A run goes on from the latest conversation, or from the one that is named; otherwise it begins a new one."""
    assert [0, 0, 0, 0] == [ask("1 + 2?"), ask("-c", "Sure?"), ask("Hello"), ask("--session", "emma", "Hello")]
    assert [1, 3, 5, 1, 1] == [len(request.body["messages"]) for request in server.requests]


def test_system_prompt_of_llm(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """`-s`, the system prompt of the command `llm`, is refused, and not taken for the name of a conversation."""
    assert 2 == ask("-s", "Be brief.", "Hello")
    assert "No such option: -s" in capsys.readouterr().err


def test_logs(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """All conversations are listed, the latest first, what is invisible escaped; one is shown with its calls."""
    assert [0, 0] == [ask("--session", "sums", "1 + 2?"), ask("H\u0435llo\x1b[2J")]
    capsys.readouterr()
    assert [0, 0] == [main(["logs"]), main(["logs", "sums"])]
    assert re.fullmatch(
        r"tools-\d{8}-\d{4}  H\u0435llo\\u001b\[2J\nsums  1 \+ 2\?\n"
        r"User      1 \+ 2\?\nCall      add\(a=1, b=2\)\nResult    3\nAnswer    It is 3\.\n",
        capsys.readouterr().out,
    )


def test_no_conversation_yet(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a conversation, `logs` says so, and prints nothing on standard output."""
    assert 0 == main(["logs"])
    assert ("", "toolkit: no conversation is saved yet.\n") == capsys.readouterr()


def test_logs_as_json(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Each conversation is a line with its name and its messages, as a session has them."""
    assert [0, 0] == [ask("--session", "sums", "1 + 2?"), ask("--session", "other", "Hello")]
    capsys.readouterr()
    assert [0, 0] == [main(["logs", "--json"]), main(["logs", "sums", "--json"])]
    other, *sums = map(json.loads, capsys.readouterr().out.splitlines())

    assert ("other", "Hello") == (other["name"], other["messages"][0]["text"])
    assert ["sums", "sums"] == [each["name"] for each in sums]
    assert SQLiteSession("chats.db", "sums").messages == Session.from_json(json.dumps(sums[0])).messages


def test_chat(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat goes on from a conversation too, and adds to it."""
    assert 0 == ask("--session", "sums", "1 + 2?")
    lines = iter(["Sure?"])

    def read(_: str) -> str:
        if (line := next(lines, None)) is None:
            raise EOFError
        return line

    monkeypatch.setattr("builtins.input", read)
    assert 0 == main(["chat", "tools.py", "--all", "-c"])
    assert 6 == len(SQLiteSession("chats.db", "sums").messages)


def test_nothing_to_continue(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a conversation there is nothing to continue and nothing to show."""
    assert [1, 1] == [ask("-c", "Sure?"), main(["logs", "sums"])]
    assert (
        "toolkit: There is no conversation to continue yet.\n"
        "toolkit: There is no conversation 'sums'. Available: none\n" == capsys.readouterr().err
    )


def test_nothing_is_kept(
    server: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an empty variable nothing is kept, and what would need it says so."""
    monkeypatch.setenv("TOOLKIT_SESSIONS", "")
    assert [0, 1, 1, 1] == [ask("1 + 2?"), ask("-c", "Sure?"), ask("--session", "sums", "Sure?"), main(["logs"])]
    assert (
        3 * ["toolkit: No conversations are saved: TOOLKIT_SESSIONS names no file. Set it to the path of one."]
        == capsys.readouterr().err.splitlines()
    )
    assert not Path("chats.db").exists()


def test_file_that_cannot_be_used(
    server: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run answers although its conversation cannot be kept."""
    monkeypatch.setenv("TOOLKIT_SESSIONS", "tools.py")
    assert 0 == ask("1 + 2?")
    shown = capsys.readouterr()
    assert ("It is 3.\n", 1) == (shown.out, shown.err.count("toolkit: this conversation is not saved: "))


def test_user_without_home(
    server: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user without a home directory, as in some containers, has no conversations, but answers."""

    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("TOOLKIT_SESSIONS", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pathlib.Path.home", home)
    assert [0, 1] == [ask("1 + 2?"), main(["logs"])]
    refusal = "toolkit: No conversations are saved: TOOLKIT_SESSIONS names no file. Set it to the path of one.\n"
    assert ("It is 3.\n", refusal) == tuple(capsys.readouterr())


def test_usage(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The tokens of the whole run are printed where they are asked for, and not among the answer."""
    assert 0 == ask("1 + 2?", "-u")
    assert ("It is 3.\n", "toolkit: 2 tokens in, 2 out\n") == tuple(capsys.readouterr())
