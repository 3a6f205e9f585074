"""File tools: their texts, their refusals, and the state of files afterwards."""

from __future__ import annotations

import fcntl
import os
import random
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from toolkit import Cancelled, DefinitionError, Image, Limits, Runner, TimedOut, Tool, Toolbox, ToolContext, ToolError
from toolkit._guards.paths import open_stepwise
from toolkit.approvers import allow, defer
from toolkit.builtin import CodingLimits, Root, coding_tools, file_tools
from toolkit.builtin.files.coding import compile_glob
from toolkit.builtin.files.sensitive import Patterns
from toolkit.builtin.files.workspace import Workspace
from toolkit.testing import ScriptedModel, call

KILLS = int(os.environ.get("TOOLKIT_KILLS", "40"))
HASH = "9a0eb266a9a46dd2"  # of a..b.txt
CHANGED = "it was changed since it was read; read it again"
NAMES = {"src", "node_modules", "link", "victim"}
SOURCE = str(Path(__file__).parents[2])
LEFT = re.compile(r"\.[0-9a-f]{16}\.tmp")
NOT_SEARCHED = "Not searched in full, as it or one of its lines is too long:"
NOT_LISTED = "Not listed: files below max_depth, such as those in"
NO_HOME = "~ is not the home directory here; write a path without it"
LATE = CodingLimits(list_seconds=1e-9, search_seconds=1e-9)
UNANSWERED = (
    "Tool approval could not be completed because no approval handler is configured; "
    "continuing without running the tool. Pass approve=..., such as approve=Console()."
)
ADVICE = "Make sure old_text matches exactly, including whitespace and indentation."
TIP = "Tip: Use read_file to see the current file contents, then copy the exact text you want to replace."


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace with a few files, a link out of it, and a secret outside."""
    work = tmp_path / "work"
    for directory in (work / "src" / "deep", work / "node_modules", tmp_path / "work-evil"):
        directory.mkdir(parents=True)
    (work / "src" / "main.py").write_text("import os\n\nprint(os.name)\n")
    (work / "src" / "deep" / "a..b.txt").write_text("Two dots\n")
    (work / "node_modules" / "noise.py").write_text("import os\n")
    (tmp_path / "work-evil" / "secret").write_text("the secret")
    (work / "link").symlink_to("../work-evil")
    return work


@pytest.fixture(params=[None, open_stepwise], ids=["usual", "steps"])
def box(request: pytest.FixtureRequest, place: Path) -> Toolbox:
    """All file tools, with each way of looking up paths."""
    root = Root(place, request.param)
    return Toolbox([*file_tools(root), *coding_tools(root)])


def text(box: Toolbox, name: str, /, **arguments: Any) -> str:
    """Call a tool and return the text that the model reads."""
    return box.call(name, arguments).text


def test_names(box: Toolbox) -> None:
    """Each tool has a name, a title and an effect."""
    assert [
        ("file_read", "Read File", "read"),
        ("file_write", "Write File", "write"),
        ("file_list", "List Directory", "read"),
        ("file_delete", "Delete File", "destructive"),
        ("file_stat", "Look Up File", "read"),
        ("read_file", "Read File", "read"),
        ("write_file", "Write File", "write"),
        ("edit_file", "Edit File", "write"),
        ("list_files", "List Files", "read"),
        ("search", "Search Files", "read"),
    ] == [(subject.name, subject.title, subject.settings.effect) for subject in box]


def test_described_parameters(box: Toolbox) -> None:
    """Every parameter has a description, and the context is not a parameter."""
    described = [all("description" in p for p in subject.parameters["properties"].values()) for subject in box]

    assert ([], [True] * 10) == (list(box.check()), described)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("file_read", {"path": "src/deep/a..b.txt"}, "Two dots\n"),
        ("file_read", {"path": "nothing"}, "read error: No such file or directory"),
        ("file_read", {"path": "src"}, "read error: Is a directory"),
        ("file_write", {"path": "x/y/new.txt", "content": "h\u00e9"}, "Written 3 bytes to new.txt"),
        ("file_write", {"path": "new.txt", "content": ""}, "Written 0 bytes to new.txt"),
        ("file_write", {"path": "src", "content": ""}, "write error: Is a directory"),
        ("file_write", {"path": "src/main.py/x", "content": ""}, "mkdir error: Not a directory"),
        ("file_list", {}, "file\tlink\ndir\tnode_modules\ndir\tsrc\n"),
        ("file_list", {"path": ""}, "file\tlink\ndir\tnode_modules\ndir\tsrc\n"),
        ("file_list", {"path": "nothing"}, "list error: No such file or directory"),
        ("file_delete", {"path": "src/main.py"}, "Deleted main.py"),
        ("file_delete", {"path": "link"}, "Deleted link"),
        ("file_delete", {"path": "src"}, "delete error: Directory not empty"),
        ("file_delete", {"path": "."}, "delete error: this is the root directory"),
        ("file_stat", {"path": "nothing"}, "stat error: No such file or directory"),
        ("read_file", {"path": "src/main.py"}, "[3 lines]\n   1 | import os\n   2 | \n   3 | print(os.name)"),
        ("read_file", {"path": "src/main.py", "offset": 0, "limit": 1}, "[Lines 1-1 of 3]\n   1 | import os"),
        ("read_file", {"path": "src/main.py", "offset": 3}, "[Lines 3-3 of 3]\n   3 | print(os.name)"),
        ("read_file", {"path": "src/main.py", "offset": 9, "limit": 2}, "[Lines 4-3 of 3]"),
        ("read_file", {"path": "nothing"}, "Cannot access nothing: No such file or directory"),
        ("write_file", {"path": "x/y/new.txt", "content": "h\u00e9"}, "Wrote 3 bytes to x/y/new.txt"),
        ("write_file", {"path": "src/main.py/x", "content": ""}, "Cannot create directory: Not a directory"),
        ("write_file", {"path": "src", "content": ""}, "Cannot write src: Is a directory"),
        ("write_file", {"path": "~/x", "content": ""}, f"Cannot create directory: {NO_HOME}"),
        ("file_write", {"path": "./~/x", "content": ""}, f"mkdir error: {NO_HOME}"),
        ("list_files", {}, "src/deep/a..b.txt\nsrc/main.py\n\n(2 files)"),
        ("list_files", {"max_depth": 2, "pattern": "*.py"}, f"src/main.py\n\n(1 files)\n{NOT_LISTED} src/deep"),
        ("list_files", {"max_depth": 2}, "src/main.py\n\n(1 files)"),
        ("list_files", {"max_depth": 1}, f"No files found in .\n{NOT_LISTED} src"),
        ("list_files", {"max_depth": 1, "pattern": "**/*.py"}, f"No files found in .\n{NOT_LISTED} src"),
        ("list_files", {"path": "src/main.py"}, "src/main.py\n\n(1 files)"),
        ("list_files", {"path": "src", "pattern": "*.rs"}, "No files found in src"),
        ("list_files", {"path": "nothing"}, "Directory not found: nothing. Check the path and try again."),
        ("search", {"pattern": "OS"}, "src/main.py:1:import os\nsrc/main.py:3:print(os.name)\n(2 matches)"),
        ("search", {"pattern": "OS", "case_sensitive": True}, "No matches found for 'OS'"),
        ("search", {"pattern": "^two", "include": "*.txt"}, "src/deep/a..b.txt:1:Two dots\n(1 matches)"),
        ("search", {"pattern": "^two", "include": "*.py"}, "No matches found for '^two'"),
        ("search", {"pattern": "import", "path": "src/main.py"}, "src/main.py:1:import os\n(1 matches)"),
        ("search", {"pattern": "x", "path": "nothing"}, "Search error: No such file or directory"),
    ],
)
def test_result_texts(box: Toolbox, name: str, arguments: dict[str, Any], message: str) -> None:
    """Each result has a fixed text."""
    assert message == text(box, name, **arguments)


def test_directory_with_the_name_of_the_home(box: Toolbox, place: Path) -> None:
    """A directory `~` that there is already is a directory like others."""
    (place / "~").mkdir()

    assert "Wrote 1 bytes to ~/x" == text(box, "write_file", path="~/x", content="h")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("import os", "import sys", "Replaced 1 line with 1 line in src/main.py"),
        ("import os\n\n", "", "Replaced 2 lines with 0 lines in src/main.py"),
        ("import os", "import os", "No changes (old_text == new_text)"),
        (
            "os",
            "sys",
            "old_text matches 2 locations in src/main.py. Include more surrounding context to make the match unique.",
        ),
        (
            "  import os  \nimport re",
            "",
            f"old_text not found in src/main.py.\n\nDid you mean:\n```\nimport os\n\nprint(os.name)\n```\n{ADVICE}",
        ),
        (
            "nowhere",
            "",
            f"old_text not found in src/main.py.\n\n{TIP}",
        ),
    ],
    ids=["one", "lines", "same", "two", "similar", "none"],
)
def test_edits(box: Toolbox, old: str, new: str, message: str) -> None:
    """An edit replaces the only occurrence, or explains what to do."""
    assert message == text(box, "edit_file", path="src/main.py", old_text=old, new_text=new)


def test_most_similar_lines(box: Toolbox, place: Path) -> None:
    """Of several places that begin like a text, the most similar one is quoted, with its long lines cut."""
    (place / "code").write_text("def f():\n    a\n\ndef f():\n    b\n    " + "c" * 2000 + "\n    d\n    e\n")
    answer = text(box, "edit_file", path="code", old_text="def f():\n  b\n  x\n  d", new_text="")

    quoted = f"def f():\n    b\n    {'c' * 1996}... (4 more characters)\n    d\n    e"
    assert f"old_text not found in code.\n\nDid you mean:\n```\n{quoted}\n```\n{ADVICE}" == answer


@pytest.mark.parametrize(
    ("data", "old", "message"),
    [
        ("list in\u00a0current\n", "in current", "U+00A0 for ' '. "),
        ("\u201chi\u201d", '"hi"', "U+201C for '\"', U+201D for '\"'. "),
        ("a - b - c", "a \u2013 b \u2013 c", "U+002D for '\u2013'. "),
    ],
)
def test_edit_of_lookalikes(box: Toolbox, place: Path, data: str, old: str, message: str) -> None:
    """If an edit fails only because of characters that look alike, the answer names them."""
    (place / "text").write_text(data, encoding="utf-8")

    assert f"look alike: {message}" in text(box, "edit_file", path="text", old_text=old, new_text="x")


def test_edit_of_a_large_file(box: Toolbox, place: Path) -> None:
    """A file above the limit is not edited."""
    (place / "large").write_text("x" * 1_100_000)
    message = text(box, "edit_file", path="large", old_text="x", new_text="y")

    assert "File too large (1100000 bytes, max 1048576)." == message


def test_large_limits(place: Path) -> None:
    """The application sets the largest file that is edited."""
    (place / "large").write_bytes(b"a" + b"x" * 1024 * 1024)
    box = Toolbox(coding_tools(place, limits=CodingLimits(max_bytes=2 * 1024 * 1024)))

    assert "Replaced 1 line with 1 line in large" == text(box, "edit_file", path="large", old_text="a", new_text="b")


def test_edit_beyond_all_limits(place: Path) -> None:
    """A file that is too large to be compared before it is replaced is refused for its size, whatever the limits."""
    os.truncate(place / "src/main.py", 65 * 2**20)
    box = Toolbox(coding_tools(place, limits=CodingLimits(max_bytes=2**30)))

    assert "File too large (68157440 bytes, max 67108864)." in text(
        box, "edit_file", path="src/main.py", old_text="a", new_text="b"
    )


@pytest.mark.parametrize(("name", "arguments"), [("read_file", {"offset": 9}), ("search", {"pattern": "y"})])
def test_memory_of_large_files(box: Toolbox, place: Path, name: str, arguments: dict[str, Any]) -> None:
    """To look through a large file takes its bytes and its text, and little more memory."""
    (place / "large").write_bytes(b"0123456789abcdefghi\n" * 150_000)
    tracemalloc.start()
    box.call(name, {"path": "large", **arguments})
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert most < 6_500_000


def test_edit_of_a_directory(box: Toolbox) -> None:
    """Only for a missing path is the model advised to create a file."""
    assert "Cannot read src: Is a directory" == text(box, "edit_file", path="src", old_text="a", new_text="b")


def test_edit_of_a_missing_file(box: Toolbox) -> None:
    """A missing file is not edited; the model is advised to create it."""
    message = text(box, "edit_file", path="nothing", old_text="a", new_text="b")

    assert "Cannot read nothing: No such file or directory. Use write_file to create new files." == message


@pytest.mark.parametrize(
    ("name", "arguments", "details"),
    [
        ("read_file", {"path": "src/main.py"}, {"path": "src/main.py"}),
        ("write_file", {"path": "new", "content": "\u00e9"}, {"path": "new", "bytes": 2}),
        (
            "edit_file",
            {"path": "src/main.py", "old_text": "import os\n\n", "new_text": ""},
            {"path": "src/main.py", "old_lines": 2, "new_lines": 0},
        ),
        ("list_files", {}, {"total": 2, "truncated": False}),
        ("search", {"pattern": "nowhere"}, {"matches": 0}),
        ("search", {"pattern": "os"}, {"matches": 2}),
    ],
    ids=["read", "write", "edit", "list", "no-match", "matches"],
)
def test_details(box: Toolbox, name: str, arguments: dict[str, Any], details: dict[str, Any]) -> None:
    """Details have the facts for the application."""
    assert details == box.call(name, arguments).details


def test_stat(box: Toolbox, place: Path) -> None:
    """Of a file and of a directory: name, size, type, and when it was changed, in UTC."""
    os.utime(place / "src" / "main.py", (0, 1_700_000_000))
    result = box.call("file_stat", {"path": "src/main.py"})

    assert '{"name":"main.py","size":26,"type":"file","modified":"2023-11-14T22:13:20Z"}' == result.text
    assert ("src", "directory") == tuple(box.call("file_stat", {"path": "src"}).value[k] for k in ("name", "type"))
    assert (".", "directory") == tuple(box.call("file_stat", {"path": "."}).value[k] for k in ("name", "type"))


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/etc/passwd", "absolute paths not allowed"),
        ("../work-evil/secret", "path traversal not allowed"),
        ("src/../../work-evil/secret", "path traversal not allowed"),
        ("link/secret", "path escapes workspace"),
    ],
)
@pytest.mark.parametrize("name", ["file_read", "read_file", "file_write", "write_file", "edit_file"])
def test_outside(box: Toolbox, place: Path, path: str, plain: str, name: str) -> None:
    """Both families refuse paths outside with their own message, which does not reveal the root."""
    wanted = f"{plain}: {path}" if name.startswith("file_") else f"path '{path}' is outside the allowed directories"

    assert wanted == text(box, name, path=path, **other_arguments(name))
    assert "the secret" == (place.parent / "work-evil" / "secret").read_text()


def other_arguments(name: str) -> dict[str, str]:
    """Return the arguments that a tool needs beside the path."""
    edit = {"old_text": "a", "new_text": "b"}
    return edit if name == "edit_file" else {"content": "x"} if "write" in name else {}


def test_absolute_inside(box: Toolbox, place: Path) -> None:
    """An absolute path that is inside will do; one beside it, with the same beginning, will not."""
    assert "Two dots\n" == text(box, "file_read", path=f"{place}/src/deep/a..b.txt")
    assert f"absolute paths not allowed: {place}-evil/secret" == text(box, "file_read", path=f"{place}-evil/secret")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nul\0", "a path cannot contain a NUL or an unpaired surrogate"),
        ("x" * 300, "File name too long"),
        ("x/" * 3000, "File name too long"),
    ],
    ids=["nul", "long-name", "long-path"],
)
def test_impossible_paths(box: Toolbox, path: str, why: str) -> None:
    """An impossible path is refused like a missing file."""
    assert f"read error: {why}" == text(box, "file_read", path=path)


@pytest.mark.parametrize("name", ["file_read", "read_file", "edit_file", "file_write"])
def test_special_files(box: Toolbox, place: Path, name: str) -> None:
    """A FIFO is neither waited for nor replaced."""
    os.mkfifo(place / "fifo")
    reader = os.open(place / "fifo", os.O_RDONLY | os.O_NONBLOCK)  # without one, it could not be opened to write
    message = text(box, name, path="fifo", **other_arguments(name))
    os.close(reader)

    assert "it is not a regular file" in message
    assert (place / "fifo").is_fifo()


def test_sockets(box: Toolbox, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket is not read."""
    monkeypatch.chdir(place)  # a socket's path has 107 bytes at most
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")

        assert "read error: No such device or address" == text(box, "file_read", path="socket")


def test_devices(box: Toolbox, place: Path) -> None:
    """A device is not read, where there can be one."""
    try:
        os.mknod(place / "zero", 0o020666, os.makedev(1, 5))
        os.close(os.open(place / "zero", os.O_RDONLY))
    except PermissionError:
        pytest.skip("only root may make devices")

    assert "read error: it is not a regular file" == text(box, "file_read", path="zero")


def test_sparse_terabyte(box: Toolbox, place: Path) -> None:
    """A file of a terabyte is refused, not read."""
    with (place / "huge").open("wb") as file:
        file.truncate(10**12)

    assert [
        "read error: it is binary",
        "File too large (1000000000000 bytes, max 1048576). Use offset/limit for partial reads.",
        "File too large (1000000000000 bytes, max 67108864).",
        f"No matches found for 'x'\n{NOT_SEARCHED} huge",
    ] == [
        text(box, "file_read", path="huge"),
        text(box, "read_file", path="huge"),
        text(box, "read_file", path="huge", offset=1),
        text(box, "search", pattern="x"),
    ]


def test_cut(box: Toolbox, place: Path) -> None:
    """A long file is cut between characters, with a note."""
    (place / "long").write_text("a" + "\u00e9" * 5000)

    assert "a" + "\u00e9" * 3999 + "\n... (truncated)" == text(box, "file_read", path="long")


def test_pages(box: Toolbox, place: Path) -> None:
    """A part of a file above the limit can be read; a page has 500 lines by default."""
    (place / "large").write_text("0123456789" * 10 + "\n" + "x\n" * 600_000)

    assert "[Lines 600000-600000 of 600001]\n600000 | x" == text(
        box, "read_file", path="large", offset=600_000, limit=1
    )
    assert 501 == len(text(box, "read_file", path="large", offset=2).splitlines())
    assert "File too large" in text(box, "read_file", path="large")


def test_millions_of_lines(place: Path, box: Toolbox) -> None:
    """The lines before a part are counted and not read: of millions of lines, the last one comes at once."""
    (place / "lines").write_bytes(b"\n" * 60_000_000 + b"the last")

    assert "[Lines 60000001-60000001 of 60000001]\n60000001 | the last" == text(
        box, "read_file", path="lines", offset=60_000_001
    )
    assert "[Lines 60000002-60000001 of 60000001]" == text(box, "read_file", path="lines", offset=70_000_000)
    assert "[Lines 65537-65538 of 60000001]\n65537 | \n65538 | " == text(
        box, "read_file", path="lines", offset=65_537, limit=2
    )


def test_long_lines(box: Toolbox, place: Path) -> None:
    """A line longer than a page is cut, with a note."""
    (place / "one-line").write_text("x" * 5000)

    assert f"[1 lines]\n   1 | {'x' * 2000}... (3000 more characters)" == text(box, "read_file", path="one-line")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x7fELF\0\0", "it is binary"),
        (b"caf\xe9", "it is binary, or text that is not UTF-8"),
        ("a".encode("utf-16-le"), "it is binary"),
        ("a".encode("utf-32"), "it is binary"),
        (b"\xff\xfea", "it is binary, or text that is not UTF-8"),
    ],
    ids=["nul", "latin-1", "utf-16-without-mark", "utf-32", "half-unit"],
)
def test_binary(box: Toolbox, place: Path, data: bytes, why: str) -> None:
    """Binary files are refused, and not changed."""
    (place / "data").write_bytes(data)

    assert f"read error: {why}" == text(box, "file_read", path="data")
    assert f"Cannot read data: {why}" == text(box, "read_file", path="data")
    assert "Cannot read data" in text(box, "edit_file", path="data", old_text="a", new_text="b")
    assert data == (place / "data").read_bytes()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_encodings(box: Toolbox, place: Path, encoding: str, end: str) -> None:
    """Edits and writes preserve encoding, byte order mark and line ends."""

    def data(*lines: str) -> bytes:
        return "".join(line + end for line in lines).encode(encoding)

    (place / "text").write_bytes(data("eins", "zw\u00f6lf", "drei"))
    text(box, "edit_file", path="text", old_text="zw\u00f6lf\ndrei", new_text="2\n3\n4")
    assert data("eins", "2", "3", "4") == (place / "text").read_bytes()

    text(box, "file_write", path="text", content="5\n6\n")
    assert data("5", "6") == (place / "text").read_bytes()


@pytest.mark.parametrize(
    ("data", "old", "new", "changed"),
    [
        (b"a\r\nb\r\nc\r\n", "b", "x\ry", b"a\r\nx\ry\r\nc\r\n"),
        (b"a\r\nb\r\nc\n", "b\nc\n", "x\n", b"a\r\nb\r\nc\n"),
        (b"a\r\nb", "b", "x\ny", b"a\r\nx\r\ny"),
        (b"a\nb\n", "a\n", "a\r\n", b"a\r\nb\n"),
        (b"a\r\r\nb\rc\n", "c", "x", b"a\r\r\nb\rx\n"),
        (b"", "", "x\n", b"x\n"),
    ],
    ids=["lone", "mixed", "last-line", "made-crlf", "odd", "empty"],
)
def test_line_ends(box: Toolbox, place: Path, data: bytes, old: str, new: str, changed: bytes) -> None:
    """An edit finds a text whose lines end alike, and leaves the ends of all other lines alone."""
    (place / "text").write_bytes(data)
    text(box, "edit_file", path="text", old_text=old, new_text=new)

    assert changed == (place / "text").read_bytes()


@pytest.mark.parametrize("data", [b"a\r\nb\nc\n", b"a\r\nb\r\nc\n\n"])
def test_edit_of_mixed_line_ends(box: Toolbox, place: Path, data: bytes) -> None:
    """Where only the line ends differ, the answer says so, and does not show the same text again."""
    (place / "text").write_bytes(data)
    answer = text(box, "edit_file", path="text", old_text="a\nb\nc", new_text="x")

    assert "The line ends differ: the file has LF, CR LF, or both." in answer


def test_line_ends_everywhere(box: Toolbox, place: Path) -> None:
    """The lines around an edit have their old ends, wherever it is."""
    chance = random.Random(1)  # noqa: S311  the same files each time
    for _ in range(200):
        before, after = ("".join(chance.choices(["\r", "\n", "\r\n", "a"], k=9)) for _ in range(2))
        (place / "text").write_bytes(f"{before}b{after}".encode())
        text(box, "edit_file", path="text", old_text="b", new_text="c")

        assert f"{before}c{after}".encode() == (place / "text").read_bytes()


@pytest.mark.parametrize("content", ["a\nb\n", "a\rb\nc\n"], ids=["plain", "lone"])
def test_line_ends_of_long_files(box: Toolbox, place: Path, content: str) -> None:
    """A file's line ends are known from its beginning, even if that ends within one."""
    (place / "text").write_bytes(b"x" + b"1234567890abcd\r\n" * 5000)
    text(box, "file_write", path="text", content=content)

    assert content.replace("\n", "\r\n").encode() == (place / "text").read_bytes()


def test_unchanged(box: Toolbox, place: Path) -> None:
    """A text that is read and written again is the same, byte for byte, with any line ends."""
    chance = random.Random(1)  # noqa: S311  the same files each time
    changed = []
    for _ in range(100):
        data = b"".join(chance.choices([b"\r", b"\n", b"\r\n", b"a", "\u00e9".encode(), b"\xef\xbb\xbf"], k=20))
        (place / "text").write_bytes(data)
        text(box, "file_write", path="text", content=text(box, "file_read", path="text"))
        changed += [data] if data != (place / "text").read_bytes() else []

    assert [] == changed


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_mode(box: Toolbox, place: Path, mode: int) -> None:
    """A replaced file has its old mode."""
    (place / "src" / "main.py").chmod(mode)
    text(box, "write_file", path="src/main.py", content="x")

    assert mode == (place / "src" / "main.py").stat().st_mode & 0o777


def test_attributes(box: Toolbox, place: Path) -> None:
    """A replaced file has its old extended attributes."""
    try:
        os.setxattr(place / "src" / "main.py", "user.origin", b"here")
    except OSError:
        pytest.skip("this file system keeps no attributes")
    text(box, "write_file", path="src/main.py", content="x")

    assert b"here" == os.getxattr(place / "src" / "main.py", "user.origin")


def test_new_modes(box: Toolbox, place: Path) -> None:
    """New files have mode 0644, new directories 0755, within the process's umask."""
    mask = os.umask(0)
    text(box, "write_file", path="new/file", content="x")
    os.umask(mask)

    assert (0o644, 0o755) == tuple(p.stat().st_mode & 0o777 for p in (place / "new" / "file", place / "new"))


def test_hard_links(box: Toolbox, place: Path) -> None:
    """A hard link to a file elsewhere is read; a write leaves that file alone."""
    outside = place.parent / "work-evil" / "secret"
    (place / "hard").hardlink_to(outside)

    assert "the secret" == text(box, "file_read", path="hard")
    text(box, "file_write", path="hard", content="changed")
    assert ("the secret", "changed") == (outside.read_text(), (place / "hard").read_text())


def test_links_are_not_written_to(box: Toolbox, place: Path) -> None:
    """A link is neither followed nor replaced by a write."""
    (place / "inner").symlink_to("src/main.py")

    assert "write error: it is a symbolic link; use the path of its target" == text(
        box, "file_write", path="inner", content="x"
    )
    assert (place / "inner").is_symlink()


def test_read_only(box: Toolbox, place: Path) -> None:
    """A file without write permission is not replaced, even if the directory is writable."""
    (place / "src" / "main.py").chmod(0o444)
    (place / "src").chmod(0o777)
    message = as_other_user(lambda: text(box, "file_write", path="src/main.py", content="x"))

    assert "write error: Permission denied" == message
    assert ["deep", "main.py"] == sorted(path.name for path in (place / "src").iterdir())


def as_other_user(work: Callable[[], str]) -> str:
    """Run a function as a user without privileges."""
    if os.geteuid() != 0:
        return work()
    os.seteuid(65534)
    try:
        return work()
    finally:
        os.seteuid(0)


def test_full_disk(box: Toolbox, place: Path) -> None:
    """A write that fails half-way leaves the old file, and nothing else."""
    before = sorted(place.rglob("*"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    message = text(box, "write_file", path="src/main.py", content="x" * 5000)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert "Cannot write src/main.py: File too large" == message
    assert (before, 26) == (sorted(place.rglob("*")), (place / "src" / "main.py").stat().st_size)


# In a file system of its own, with room for 64 KiB, which then becomes read-only.
FULL = """
mount -t tmpfs -o size=64k none "$1" && cd "$1" && echo before > file && "$2" -c '
import os
from toolkit import Toolbox
from toolkit.builtin import file_tools
box = Toolbox(file_tools("."))
print(box.call("file_write", {"path": "file", "content": "x" * 100_000}).text, os.listdir("."))
os.system("mount -o remount,ro .")
print(box.call("file_write", {"path": "file", "content": "x"}).text, os.listdir("."))
' && cat file
"""


def test_small_and_read_only_disks(place: Path) -> None:
    """On a disk that is full, or read-only, the old file stays, and nothing beside it."""
    apart = (shutil.which("unshare") or "false", "-Urm")
    if subprocess.run([*apart, "mount", "-t", "tmpfs", "none", place], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount")
    command = [*apart, "sh", "-c", FULL, "sh", str(place), sys.executable]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": SOURCE})

    assert (
        "write error: No space left on device ['file']\nwrite error: Read-only file system ['file']\nbefore\n"
    ) == run.stdout


# Forks writers and kills each at some moment, then says what it found: the size of the text, how many different lines
# it has, and whether it is older than what was acknowledged.
KILLER = """
import os, random, signal, sys, time
from toolkit.builtin import file_tools
place, kills = sys.argv[1], int(sys.argv[2])
write, chance, found = file_tools(place)[1], random.Random(1), set()

def work(writing):
    for number in range(10 ** 6):
        write("victim", f"{number:>9}\\n" * 2000)
        os.write(writing, b"x")

for _ in range(kills):
    write("victim", f"{-1:>9}\\n" * 2000)
    reading, writing = os.pipe()
    writer = os.fork()
    if writer == 0:
        work(writing)
    os.read(reading, 1)
    time.sleep(chance.random() / 200)
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    os.close(writing)
    acknowledged = len(os.read(reading, 10 ** 6))
    os.close(reading)
    with open(os.path.join(place, "victim")) as file:
        lines = file.readlines()
    found.add((len(lines), len(set(lines)), int(lines[0]) >= acknowledged))
print(found)
"""


def test_kills(place: Path) -> None:
    """A process that is killed while it writes leaves the old or the new text, and the new one if it confirmed that."""
    command = [sys.executable, "-c", KILLER, str(place), str(KILLS)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": SOURCE})

    assert "{(2000, 1, True)}\n" == run.stdout
    assert [] == [path for path in place.iterdir() if path.name not in NAMES and not LEFT.fullmatch(path.name)]


def test_hashes(place: Path) -> None:
    """Results of reading and writing have the hash."""
    box = Toolbox([*file_tools(place, hashes=True), *coding_tools(place, hashes=True)])

    assert [
        f"[hash {HASH}]\nTwo dots\n",
        f"[hash {HASH}]\n[1 lines]\n   1 | Two dots",
        f"Written 9 bytes to new [hash {HASH}]",
        f"Wrote 9 bytes to other [hash {HASH}]",
        f"Replaced 1 line with 1 line in edited [hash {HASH}]",
    ] == [
        text(box, "file_read", path="src/deep/a..b.txt"),
        text(box, "read_file", path="src/deep/a..b.txt"),
        text(box, "file_write", path="new", content="Two dots\n"),
        text(box, "write_file", path="other", content="Two dots\n"),
        text(box, "write_file", path="edited", content="2 dots\n")
        and text(box, "edit_file", path="edited", old_text="2", new_text="Two"),
    ]


def test_large_files_have_no_hash(place: Path) -> None:
    """A file above the limit has no hash, and cannot be replaced with an expected one."""
    (place / "huge").write_bytes(b"x" * 8001)
    os.truncate(place / "huge", 10**12)
    box = Toolbox(file_tools(place, hashes=True))

    assert text(box, "file_read", path="huge").startswith("xxx")
    assert f"write error: {CHANGED}" == text(box, "file_write", path="huge", content="x", expect_hash=HASH)


@pytest.fixture
def hashing(place: Path) -> Toolbox:
    """All file tools, with hashes."""
    return Toolbox([*file_tools(place, hashes=True), *coding_tools(place, hashes=True)])


@pytest.mark.parametrize("name", ["file_write", "write_file"])
@pytest.mark.parametrize("path", ["src/main.py", "src/deep/a..b.txt"], ids=["another", "the same"])
def test_expected(hashing: Toolbox, place: Path, path: str, name: str) -> None:
    """A file is replaced if it has the hash that is expected, and left alone if it has another."""
    before = (place / path).read_text()
    message = text(hashing, name, path=path, content="x", expect_hash=HASH)

    assert ("main.py" in path) == message.endswith(CHANGED) == (before == (place / path).read_text())


@pytest.mark.parametrize("name", ["file_write", "write_file"])
def test_write_without_hash(hashing: Toolbox, place: Path, name: str) -> None:
    """With hashes, an existing file is not replaced without one."""
    message = text(hashing, name, path="src/deep/a..b.txt", content="x")

    assert message.endswith("there is a file already; read it, and give its hash as expect_hash")
    assert "Two dots\n" == (place / "src/deep/a..b.txt").read_text()


@pytest.mark.parametrize("tools", [file_tools, coding_tools], ids=["plain", "coding"])
def test_no_hash_by_default(place: Path, tools: Any) -> None:
    """Without hashes, no tool takes one."""
    assert [] == [subject.name for subject in tools(place) if "expect_hash" in subject.parameters["properties"]]


def test_gone_meanwhile(place: Path) -> None:
    """A file that was removed since it was read is not written again."""
    box = Toolbox(file_tools(place, hashes=True))

    assert f"write error: {CHANGED}" == text(box, "file_write", path="new", content="x", expect_hash=HASH)
    assert not (place / "new").exists()


def test_several_agents(place: Path) -> None:
    """With hashes, agents that write to one file at the same time lose nothing."""

    def work() -> None:
        for _ in range(20):
            while not added(file_tools(place, hashes=True)):
                pass

    def added(tools: list[Tool[..., Any]]) -> bool:
        head, _, number = text(Toolbox(tools), "file_read", path="count").partition("\n")
        message = text(Toolbox(tools), "file_write", path="count", content=f"{int(number) + 1}", expect_hash=head[6:-1])
        return message.startswith("Written")

    (place / "count").write_text("0")
    together(work)

    assert "80" == (place / "count").read_text()


@pytest.mark.slow
def test_several_editors(place: Path) -> None:
    """Edits at the same time lose nothing, with and without hashes."""

    def work() -> None:
        box = Toolbox(coding_tools(place))
        for _ in range(20):
            while "Replaced" not in text(box, "edit_file", path="lines", old_text="end\n", new_text="line\nend\n"):
                pass

    (place / "lines").write_text("end\n")
    together(work)

    assert 81 == len((place / "lines").read_text().splitlines())


@pytest.fixture
def locked(place: Path) -> Iterator[Path]:
    """A workspace whose directory is locked by another program."""
    holder = os.open(place, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_SH)
    yield place
    os.close(holder)


def test_locks(locked: Path) -> None:
    """A write does not wait forever for a locked directory."""
    before = sorted(locked.iterdir())

    assert ("write error: another writer keeps its directory locked (flock); try again later") == text(
        Toolbox(file_tools(locked)), "file_write", path="new", content="x"
    )
    assert before == sorted(locked.iterdir())


@pytest.mark.parametrize("name", ["file_write", "write_file", "edit_file"])
def test_nothing_is_written_late(locked: Path, name: str) -> None:
    """When a call's time is up, it ends, and nothing is written."""
    (locked / "text").write_text("a")
    context = ToolContext(deps=None)
    context.cancellation.restart(0.05)
    before = sorted(locked.iterdir())

    with pytest.raises(TimedOut):
        Toolbox([*file_tools(locked), *coding_tools(locked)])[name](
            path="text", **other_arguments(name), context=context
        )
    assert ("a", before) == ((locked / "text").read_text(), sorted(locked.iterdir()))


def test_nothing_is_written_when_the_run_is_over(place: Path) -> None:
    """A write that waits for a lock when its run ends does not happen later."""
    model = ScriptedModel([call("file_write", path="new", content="x"), "Done."])
    holder = os.open(place, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_SH)
    Runner(file_tools(place), model=model, limits=Limits(max_seconds=0.1)).run("Go.")
    os.close(holder)
    while list(place.glob(".*.tmp")):  # the write has not given up yet
        pass

    assert not (place / "new").exists()


def together(work: Callable[[], None]) -> None:
    """Do something on four threads."""
    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


SECRETS = [
    *(".env", ".ENV", "conf/.env.local", ".env.staging", ".env.example/.env", "server.pem", ".ssh/known_hosts"),
    *(".git/config", ".git/modules/x/config", "id_ed25519", "id_ed25519_sk", ".netrc", "credentials.json", "a.tfstate"),
    *(".cargo/credentials.toml", "kubeconfig", ".bash_history", ".0123456789abcdef.tmp"),
    *("secrets.json", "secrets.yaml", "config/secrets.yml", ".streamlit/secrets.toml"),
    *(".config/git/credentials", ".claude/.credentials.json", ".codex/auth.json", "id_rsa.bak"),
]


def test_matches_that_overlap(box: Toolbox, place: Path) -> None:
    """Two occurrences that overlap are two, so nothing is replaced."""
    braces = "if (x) {\n}\n}\n}\n"
    (place / "a.js").write_text(braces)
    message = text(box, "edit_file", path="a.js", old_text="}\n}\n", new_text="}\n")

    assert "old_text matches 2 locations in a.js." in message
    assert braces == (place / "a.js").read_text()


@pytest.mark.parametrize("path", SECRETS)
def test_secrets(box: Toolbox, place: Path, path: str) -> None:
    """Private files are not read or searched, and are written only with approval."""
    (place / path).parent.mkdir(parents=True, exist_ok=True)
    (place / path).write_text("password")

    assert [
        "read error: it may hold secrets, so it cannot be read",
        f"Cannot access {path}: it may hold secrets, so it cannot be read",
        "No matches found for 'password'",
        UNANSWERED,
    ] == [
        text(box, "file_read", path=path),
        text(box, "read_file", path=path),
        text(box, "search", pattern="password"),
        text(box, "file_write", path=path, content=""),
    ]


@pytest.mark.parametrize(
    "path", [".env.example", ".env.sample", ".env.template", ".env (deleted)", "id_rsa.pub", "id_map.py"]
)
def test_no_secret(box: Toolbox, place: Path, path: str) -> None:
    """Templates of private files can be read, and so can files with similar names."""
    (place / path).write_text("KEY=")

    assert "KEY=" == text(box, "file_read", path=path)


@pytest.mark.parametrize(
    ("path", "message"),
    [(".env", "it may hold secrets, so it cannot be read"), ("data", "it is binary"), ("huge", "File too large")],
)
def test_search_of_an_unreadable_file(box: Toolbox, place: Path, path: str, message: str) -> None:
    """A search of a named file that cannot be searched fails with the reason."""
    (place / path).write_bytes(b"KEY\0")
    os.truncate(place / path, 10**9 if path == "huge" else 4)

    assert message in text(box, "search", pattern="KEY", path=path)
    note = f"\n{NOT_SEARCHED} huge" if path == "huge" else ""
    assert f"No matches found for 'KEY'{note}" == text(box, "search", pattern="KEY")


@pytest.mark.parametrize("path", [".", "latin"])
def test_search_of_other_encodings(box: Toolbox, place: Path, path: str) -> None:
    """Text that is not UTF-8 is searched, too."""
    (place / "latin").write_bytes("caf\u00e9\nKEY: \u00e9\n".encode("latin-1"))

    assert "latin:2:KEY: \ufffd\n(1 matches)" == text(box, "search", pattern="KEY", path=path)


def test_search_of_a_long_binary_file(box: Toolbox, place: Path) -> None:
    """A file that is binary after its first lines has no match at all."""
    (place / "data").write_bytes(b"KEY\n" * 50_000 + b"\xff\0")

    assert "it is binary" in text(box, "search", pattern="KEY", path="data")
    assert "No matches found for 'KEY'" == text(box, "search", pattern="KEY")


def test_secrets_behind_links(place: Path) -> None:
    """A link's name hides no secret."""
    (place / ".env").write_text("password")
    (place / "harmless").symlink_to(".env")

    assert "so it cannot be read" in text(Toolbox(file_tools(place)), "file_read", path="harmless")


@pytest.mark.parametrize(
    ("pattern", "path", "is_meant"),
    [
        ("*.key", "a/B.KEY", True),
        ("*.key", "a/b.key/c", True),
        ("*.key", "a/b.keys", False),
        ("a/?", "x/a/b", True),
        ("a/?", "x/a/bc", False),
        ("a*", "b/a", True),
        ("a*b", "a/b", False),
        ("[a]", "a", False),
        (".env", "x.env", False),
        (".env", ".env\n", False),
    ],
)
def test_patterns(pattern: str, path: str, *, is_meant: bool) -> None:
    """A pattern is about whole names, wherever they stand; `*` and `?` stop at a directory."""
    assert is_meant == (path.split("/") in Patterns([pattern]))


def test_no_secrets(place: Path) -> None:
    """The application chooses what is private."""
    (place / ".env").write_text("password")

    assert "password" == text(Toolbox(file_tools(place, private=())), "file_read", path=".env")


@pytest.mark.parametrize("option", ["private", "guarded"])
@pytest.mark.parametrize("options", [".env", None, [1], [""], 5], ids=repr)
def test_patterns_that_are_no_list(place: Path, option: str, options: Any) -> None:
    """One text, or something else, is not a list of patterns: it would protect nothing."""
    with pytest.raises(DefinitionError, match=f"{option}=.* is not a list of texts"):
        file_tools(place, **{option: options})


@pytest.mark.parametrize(
    "options", [{"limits": 3}, {"limits": {}}, {"hashes": "no"}, {"root": 3}, {"root": b"work"}], ids=str
)
def test_invalid_options(place: Path, options: dict[str, Any]) -> None:
    """An option of another type is refused by name."""
    ((name, value),) = options.items()

    with pytest.raises(DefinitionError, match=re.escape(f"{name}={value!r} is not ")):
        coding_tools(**{"root": place, **options})


@pytest.mark.parametrize(
    "options",
    [{"max_bytes": -1}, {"max_bytes": True}, {"list_seconds": 0}, {"search_seconds": "x"}],
    ids=str,
)
def test_invalid_limits(options: dict[str, Any]) -> None:
    """An invalid limit is refused by name."""
    ((name, value),) = options.items()

    with pytest.raises(DefinitionError, match=re.escape(f"{name}={value!r} is not ")):
        CodingLimits(**options)


RUN = [
    *(".git/hooks/pre-commit", "bare.git/hooks/update", "hooks/post-receive", ".GitHub/workflows/ci.yml", ".bashrc"),
    *("src/../.vscode/x", ".travis.yml", ".buildkite/x.yml", ".forgejo/workflows/x.yml", ".gitconfig", ".mcp.json"),
    *(".config/systemd/user/x.service", ".claude/settings.json", "env/bin/python", ".tox/x", ".devcontainer/x"),
    *(".vim/plugin/x.vim", ".emacs", ".gdbinit", ".tmux.conf", ".codex/config.toml", "x.code-workspace", ".ipython/x"),
    *("node_modules/.bin/tsc", "hooks/pre-rebase", ".zed/tasks.json", ".psqlrc", ".Rprofile"),
]


@pytest.mark.parametrize("name", ["file_write", "write_file", "edit_file", "file_delete"])
def test_guarded(box: Toolbox, place: Path, name: str) -> None:
    """Files that other programs run later are changed only with approval."""
    before = sorted(place.rglob("*"))
    answers = {path: text(box, name, path=path, **other_arguments(name)) for path in RUN}

    assert dict.fromkeys(RUN, UNANSWERED) == answers
    assert before == sorted(place.rglob("*"))


@pytest.mark.parametrize("path", [".gitignore", "sub/.env.example", ".editorconfig", "HEAD"])
def test_unguarded_dotfiles(box: Toolbox, path: str) -> None:
    """Dotfiles that no program runs are written without approval."""
    assert text(box, "file_write", path=path, content="x").startswith("Written 1 bytes")


def test_guarded_and_allowed(place: Path) -> None:
    """An approver that allows a tool by its name allows guarded files, too."""
    model = ScriptedModel([call("file_write", path=".bashrc", content="x"), "Done."])
    Runner(file_tools(place), model=model, approve=allow("file_write", otherwise=defer)).run("Go.")

    assert "x" == (place / ".bashrc").read_text()


@pytest.mark.parametrize("name", ["file_write", "write_file", "edit_file"])
def test_guarded_with_hashes(place: Path, name: str) -> None:
    """Tools that take hashes require the same approval."""
    box = Toolbox([*file_tools(place, hashes=True), *coding_tools(place, hashes=True)])

    assert UNANSWERED == text(box, name, path=".git/hooks/pre-commit", **other_arguments(name))


def test_many_files(box: Toolbox, place: Path) -> None:
    """Of many files the first are listed, by name, and all are counted."""
    (place / "many").mkdir()
    for number in range(1200):
        (place / "many" / f"{number:04}").touch()
    listed, result = text(box, "file_list", path="many"), text(box, "list_files", path="many")

    assert listed.endswith("file\t0999\n... (more than 1000 entries)")
    assert result.endswith("many/0199\n\n... (1200 files, showing first 200)")


def test_entries_are_bounded(place: Path) -> None:
    """A walk fails after too many entries."""
    workspace = Workspace(Root(place), Patterns([]), Patterns([]), max_entries=3)

    with pytest.raises(OSError, match="more than 3 entries; look further down"):
        list(workspace.walk_files(".", 9, bool))


def test_entries_of_one_directory(place: Path) -> None:
    """A walk stops within a directory that has too many entries, whatever they are."""
    for number in range(9):
        (place / f"link{number}").symlink_to("nowhere")
    visited: list[None] = []
    workspace = Workspace(Root(place), Patterns([]), Patterns([]), max_entries=3)

    with pytest.raises(OSError, match="more than 3 entries; look further down"):
        list(workspace.walk_files(".", 9, lambda: visited.append(None)))
    assert 4 == len(visited)


def test_deep_trees(box: Toolbox, place: Path) -> None:
    """A walk of any tree ends, however deep it is and wherever its links lead."""
    (place / ("d/" * 150)).mkdir(parents=True)
    (place / "d" / "round").symlink_to("..")
    (place / "d" / "d" / "file").touch()

    assert "d/d/file\nsrc/deep/a..b.txt\nsrc/main.py\n\n(3 files)" == text(box, "list_files", max_depth=1000)


def test_odd_names(box: Toolbox, place: Path) -> None:
    """A name cannot fake a line of its own, nor break the answer."""
    for name in (b"a\nfile\tb", b"\xff", "\u202egpj".encode()):
        (place / "src" / "deep" / os.fsdecode(name)).touch()

    assert "file\ta\\nfile\\tb\nfile\ta..b.txt\nfile\t\\u202egpj\nfile\t\\udcff\n" == text(
        box, "file_list", path="src/deep"
    )


@pytest.mark.parametrize(
    "name",
    ["CON", "aux.txt", "a:b", "trailing.", "trailing ", " leading", "a\\b", "~", "$HOME", "-rf", "*", "A", "\u00e9"],
)
def test_special_names(box: Toolbox, place: Path, name: str) -> None:
    """Names have no special meaning for a shell or another system."""
    text(box, "write_file", path=f"src/deep/{name}", content="x")

    assert {"a..b.txt", name} == {path.name for path in (place / "src" / "deep").iterdir()}
    assert "x" == text(box, "file_read", path=f"src/deep/{name}")


def test_names_differ_by_capitals(box: Toolbox, place: Path) -> None:
    """Names are case-sensitive where the file system is; patterns of private and guarded paths are not."""
    text(box, "write_file", path="src/MAIN.py", content="x")

    assert ("x", "import os\n\nprint(os.name)\n") == tuple(
        (place / "src" / name).read_text() for name in ("MAIN.py", "main.py")
    )


def test_unprintable_names(box: Toolbox, place: Path) -> None:
    """A directory with an unprintable name, or a path that is too long, does not hide the others."""
    (place / os.fsdecode(b"\xff")).mkdir()
    (place / os.fsdecode(b"\xff") / "below").touch()
    directory = os.open(place, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=directory)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    os.close(directory)

    assert "src/deep/a..b.txt\nsrc/main.py\n\n(2 files)" == text(box, "list_files", max_depth=100)
    assert text(box, "search", pattern="Two").endswith("(1 matches)")


@pytest.mark.parametrize("glob", [".", "**/", "./", "/", "", "*", "**"])
def test_empty_globs(box: Toolbox, glob: str) -> None:
    """An empty glob matches everything."""
    assert text(box, "list_files", pattern=glob).endswith("(2 files)")


PATHS = ("a.py", "b.js", "[x].md", "src/a.py", "src/deep/er/a.py", "tests/src/a.py")
GLOBS = {
    "*.py": ("a.py", "src/a.py", "src/deep/er/a.py", "tests/src/a.py"),
    "**/*.py": ("a.py", "src/a.py", "src/deep/er/a.py", "tests/src/a.py"),
    "src/**/*.py": ("src/a.py", "src/deep/er/a.py"),
    "src/*.py": ("src/a.py",),
    "/src/*.py": ("src/a.py",),
    "./*.py": ("a.py",),
    "**/src/*.py": ("src/a.py", "tests/src/a.py"),
    "src/": ("src/a.py", "src/deep/er/a.py"),
    "src/**": ("src/a.py", "src/deep/er/a.py"),
    "*.{js,md}": ("b.js", "[x].md"),
    "{src,tests}/*": ("src/a.py",),
    "[[]x[]].md": ("[x].md",),
    "[!a-b].*": (),
    "[!b].??": ("a.py", "src/a.py", "src/deep/er/a.py", "tests/src/a.py"),
    "[^a].??": ("b.js",),
    "[x": (),
    "a.p": (),
    "A.py": (),
    "a.py\n": (),
}


@pytest.mark.parametrize("glob", GLOBS)
def test_globs(glob: str) -> None:
    """A glob matches names, or paths if it has a `/`."""
    assert GLOBS[glob] == tuple(filter(compile_glob(glob), PATHS))


def test_globs_are_relative(box: Toolbox) -> None:
    """A glob with a `/` matches the path from the listed directory; for a single file, its name."""
    assert "src/main.py\n\n(1 files)" == text(box, "list_files", path="src", pattern="./*")
    assert "src/main.py\n\n(1 files)" == text(box, "list_files", path="src/main.py", pattern="*.py")


@pytest.mark.parametrize("glob", ["*a" * 30 + "*b", "**/" * 300 + "b", "*?" * 499, "{a,a}" * 199 + "b"])
def test_hostile_globs(box: Toolbox, place: Path, glob: str) -> None:
    """No glob occupies the process for long."""
    (place / ("a" * 250)).touch()
    before = time.process_time()
    text(box, "list_files", pattern=glob)

    assert time.process_time() - before < 1


@pytest.mark.parametrize(
    ("glob", "message"),
    [("[b-a]", "'[b-a]' is not a glob: "), ("a" * 1001, "a glob has 1000 characters at most")],
    ids=["range", "long"],
)
def test_invalid_globs(box: Toolbox, glob: str, message: str) -> None:
    """An invalid glob is refused."""
    assert text(box, "search", pattern="x", include=glob).startswith(message)


ODD: list[object] = [
    *(
        "",
        ".",
        "..",
        "src",
        "src/main.py",
        "link/x",
        "loop",
        "fifo",
        "\0",
        "a\nb",
        "/",
        "//",
        "/etc",
        "**/",
        "[",
        "(?i",
    ),
    *("x{1,", "\\", "nul.", "CON", "aux.txt", "a:b", "trailing. ", "~", "$HOME", "%00", "x" * 300, "\ufeff", "\u202e"),
    *(-1, 0, 1, 10**20, None, True, 1.5, [], {}),
]


def test_any_arguments(box: Toolbox, place: Path) -> None:
    """Any arguments give a result in plain text, which does not reveal the root."""
    os.mkfifo(place / "fifo")
    (place / "loop").symlink_to("loop")
    chance = random.Random(1)  # noqa: S311  the same arguments each time
    tools = list(box)
    for _ in range(1500):
        subject = chance.choice(tools)
        arguments = {name: chance.choice(ODD) for name in subject.parameters["properties"] if chance.random() < 0.8}
        result = box.call(subject.name, arguments)

        assert isinstance(result.exception, (ToolError, type(None))), (subject.name, arguments)
        assert str(place) not in result.text


def test_proc_files(place: Path) -> None:
    """Files of /proc, which have no size, can be read, and cannot be replaced."""
    tools = Toolbox([*file_tools("/proc/self"), *coding_tools("/proc/self")])

    assert "Name:" in text(tools, "file_read", path="status")
    assert "   1 | Name:" in text(tools, "read_file", path="status")
    assert "write error: No such file or directory" == text(tools, "file_write", path="new", content="x")


def test_many_matches(box: Toolbox, place: Path) -> None:
    """A search ends at 50 matches, with a note."""
    (place / "many").write_text("word\n" * 60)
    message = text(box, "search", pattern="word")

    assert ("many:50:word", "... (showing first 50 matches)") == tuple(message.splitlines()[-2:])


# Each makes an engine remember much of what it has seen; the refused ones need seconds for a line as long as this.
HARD = {
    r"(a+)+c$": "No matches",
    r"(?:a|b|ab|ba)*a[ab]{200}c": "No matches",
    r"(?:.?){9}{90}x": "No matches",
    r".*a.{900}x": "No matches",
    r"(?:.?){90}{90}x": "Search error: it is too large; search for less, or repeat less in it",
    r"(?:a|b|ab|ba)*a[ab]{999}{20}c": "Search error: it is too large",
    "(?:a|b)" * 200: "Search error: a pattern has 1000 characters at most",
}


@cache
def make_line() -> str:
    """Make a line of three million characters, the same each time."""
    return "".join(random.Random(1).choices("ab", k=3_000_000))  # noqa: S311


@pytest.mark.parametrize("pattern", HARD)
def test_hostile_patterns(box: Toolbox, place: Path, pattern: str) -> None:
    """No pattern occupies the process for long, on lines of any length."""
    (place / "trap").write_text(make_line())
    before = time.process_time()
    message = text(box, "search", pattern=pattern, path="trap")

    assert message.startswith(HARD[pattern])
    assert time.process_time() - before < 1


def test_long_lines_are_searched_in_part(box: Toolbox, place: Path) -> None:
    """The part of a line that is displayed is the part that is searched; without a match, the result says so."""
    for number in range(7):
        (place / f"long-{number}").write_text("a" * 1999 + "bc")
    names = ", ".join(f"long-{number}" for number in range(5))

    assert text(box, "search", pattern="b", path="long-0").startswith("long-0:1:aaa")
    assert f"No matches found for 'c'\n{NOT_SEARCHED} long-0" == text(box, "search", pattern="c", path="long-0")
    assert f"No matches found for 'c$'\n{NOT_SEARCHED} {names}..." == text(box, "search", pattern="c$", include="long*")


@pytest.mark.parametrize("pattern", ["os\nprint", r"os\nprint"])
def test_patterns_of_several_lines(box: Toolbox, pattern: str) -> None:
    """A pattern with a line end matches nothing, and the result says why."""
    note = "Each line is searched alone, without its end."

    assert f"No matches found for '{pattern}'\n{note}" == text(box, "search", pattern=pattern)
    assert "src/main.py:1:import os\n(1 matches)" == text(box, "search", pattern=r"import [^\n]*")


@pytest.mark.parametrize("pattern", ["(", "a{9999999}", "(?=a)", r"(a)\1"])
def test_invalid_patterns(box: Toolbox, pattern: str) -> None:
    """An invalid pattern is refused with the message of the engine."""
    assert text(box, "search", pattern=pattern).startswith("Search error: ")


@pytest.mark.parametrize(("name", "message"), [("list_files", "Listing timed out"), ("search", "Search timed out")])
def test_late(place: Path, name: str, message: str) -> None:
    """A walk ends when its time is up."""
    assert message == text(Toolbox(coding_tools(place, limits=LATE)), name, pattern="x")


def test_late_within_a_file(place: Path) -> None:
    """A search ends when its time is up, even within one file: to read this one takes longer."""
    (place / "long").write_text("x\n" * 3_000_000)
    box = Toolbox(coding_tools(place, limits=CodingLimits(search_seconds=0.01)))

    assert "Search timed out" == text(box, "search", pattern="y", path="long")


@pytest.mark.parametrize("name", ["list_files", "search"])
def test_cancelled_walk(place: Path, name: str) -> None:
    """A walk ends when its call is cancelled."""
    context = ToolContext(deps=None)
    context.cancellation.cancel()

    with pytest.raises(Cancelled):
        Toolbox(coding_tools(place))[name](pattern="x", context=context)


@pytest.mark.parametrize("name", ["list_files", "search"])
def test_late_call(place: Path, name: str) -> None:
    """A walk ends when the time of its call is up, which is another error than that of its own limit."""
    context = ToolContext(deps=None)
    context.cancellation.restart(0)

    with pytest.raises(TimedOut, match=r"Timed out\."):
        Toolbox(coding_tools(place))[name](pattern="x", context=context)


PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "image/jpeg": b"\xff\xd8\xff\xe0\0",
    "image/gif": b"GIF89a\0",
    "image/webp": b"RIFF\0\0\0\0WEBPVP8 ",
}


@pytest.mark.parametrize("media_type", PICTURES)
def test_pictures(box: Toolbox, place: Path, media_type: str) -> None:
    """A picture reaches the model as an image, whatever its name."""
    (place / "picture").write_bytes(PICTURES[media_type])
    result = box.call("read_file", {"path": "picture"})

    assert ((Image(PICTURES[media_type], media_type),), {"path": "picture"}) == (result.images, result.details)


@pytest.mark.parametrize("start", ["GIF8 is how they begin", "RIFFraff WEB"])
def test_texts_that_begin_like_pictures(box: Toolbox, place: Path, start: str) -> None:
    """A text that begins with the letters of an image signature is a text."""
    (place / "text").write_text(start)

    assert f"[1 lines]\n   1 | {start}" == text(box, "read_file", path="text")


def test_large_pictures(box: Toolbox, place: Path) -> None:
    """A picture may be larger than a text, but not without bounds."""
    (place / "picture").write_bytes(PICTURES["image/png"] + bytes(2 * 1024 * 1024))
    (place / "huge").write_bytes(PICTURES["image/png"] + bytes(20 * 1024 * 1024))

    assert 1 == len(box.call("read_file", {"path": "picture"}).images)
    assert "File too large (20971536 bytes, max 20971520)." == text(box, "read_file", path="huge", offset=1)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("file_list", {}, "list error: the root directory was removed"),
        ("list_files", {}, "Directory not found: .. Check the path and try again."),
        ("search", {"pattern": "x"}, "Search error: the root directory was removed"),
    ],
)
def test_a_root_that_was_removed(box: Toolbox, place: Path, name: str, arguments: dict[str, str], message: str) -> None:
    """A removed workspace is an error, not an empty directory."""
    shutil.rmtree(place)

    assert message == text(box, name, **arguments)
