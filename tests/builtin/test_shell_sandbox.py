"""The sandbox for commands: the arguments of bubblewrap, and its effect where it is installed."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolkit import DefinitionError, Tool, Toolbox
from toolkit.builtin import DEFAULT_PRIVATE, Sandbox, bash_tool, shell_tool
from toolkit.builtin.shell.sandbox import TEMPORARY

Setter = Callable[[str, str], None]


def works() -> str:
    """Why there can be no sandbox on this machine; empty where there can be one."""
    try:
        bash_tool(Path(__file__).parent, sandbox=True)
    except DefinitionError as error:
        return str(error)
    return ""


MISSING = works()
needs_sandbox = pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is one")


def names(place: Path) -> list[str]:
    """List the names in a directory."""
    return sorted(path.name for path in place.iterdir())


def run_and_read(subject: Tool[..., object], command: str) -> str:
    """Return the output of a command."""
    return Toolbox([subject]).call(subject.name, {"command": command}).text


def test_command_line(tmp_path: Path) -> None:
    """The root is read-only and the directory writable; hidden parents come before the directory."""
    assert [
        *("/bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", TEMPORARY, "--tmpfs", "/run"),
        *("--bind", str(tmp_path), str(tmp_path), "--setenv", "TMPDIR", TEMPORARY, "--chdir", str(tmp_path), "--"),
    ] == Sandbox(hidden=()).make_prefix("/bwrap", tmp_path)


def test_network(tmp_path: Path) -> None:
    """The network is shared only with `network=True`, and the description says so."""
    sandbox = Sandbox(network=True)

    line = sandbox.make_prefix("/bwrap", tmp_path)
    assert (["--unshare-all", "--share-net"], True) == (line[1:3], "The network can be reached." in sandbox.description)


def hiding(line: Sequence[str]) -> list[str]:
    """Return the arguments that hide paths."""
    return [*line[line.index("/run") + 1 : line.index("--setenv")]]


def test_hidden(tmp_path: Path, environment: Setter) -> None:
    """Existing hidden paths are hidden; parents of the directory come before it."""
    (work := tmp_path / "a" / "work").mkdir(parents=True)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "key").touch()
    environment("HOME", str(tmp_path))
    line = Sandbox(hidden=["~/.ssh", "~/key", "~/none", "~/a"]).make_prefix("/bwrap", work)

    assert [
        *("--tmpfs", f"{tmp_path}/a", "--bind", f"{work}", f"{work}"),
        *("--tmpfs", f"{tmp_path}/.ssh", "--ro-bind", "/dev/null", f"{tmp_path}/key"),
    ] == hiding(line)


def test_hidden_by_a_part_of_the_name(tmp_path: Path, environment: Setter) -> None:
    """A path can have `*` and `?` in its names, and nothing else has a meaning there."""
    (home := tmp_path / "[a]").mkdir()
    for name in ("x.pem", "y.pem", ".z_history", "kept"):
        (home / name).touch()
    environment("HOME", str(home))

    line = Sandbox(hidden=["~/?.pem", "~/.*_history"]).make_prefix("/bwrap", tmp_path)

    assert {str(home / name) for name in ("x.pem", "y.pem", ".z_history")} == {*hiding(line)[5::3]}


def test_hidden_in_an_unreadable_directory(tmp_path: Path) -> None:
    """A hidden path that cannot be looked up is left out."""
    (loop := tmp_path / "loop").symlink_to(loop)

    line = Sandbox(hidden=[f"{loop}/.ssh", "/proc/1/fd/0/.ssh", f"{'x' * 300}"]).make_prefix("/bwrap", tmp_path)

    assert ["--bind", f"{tmp_path}", f"{tmp_path}"] == hiding(line)


@pytest.mark.parametrize("secret", [".ssh", ".config", ".aws", ".netrc", ".pgpass", ".vault-token"])
def test_usually_hidden(secret: str) -> None:
    """The usual places of secrets are hidden by default."""
    assert f"~/{secret}" in Sandbox().hidden


def test_one_list_of_secrets() -> None:
    """Files that are private for file tools are hidden from commands."""
    assert set() == {f"~/{path}" for path in DEFAULT_PRIVATE if path[0] != "!"} - {*Sandbox().hidden}


@pytest.mark.parametrize("root", ["/", "/tmp", "/dev", "/run"])  # noqa: S108  that is the mistake
def test_own_directories(root: str, tmp_path: Path, environment: Setter) -> None:
    """A directory that a sandbox replaces, or one that contains it, is refused."""
    (program := tmp_path / "bwrap").write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environment("PATH", str(tmp_path))

    with pytest.raises(DefinitionError, match=f"no sandbox for {root}: a sandbox has /dev, /proc, /tmp, /run of"):
        bash_tool(root, sandbox=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"hidden": "~/.ssh"}, "hidden='~/.ssh' is not a list of texts", id="one text"),
        pytest.param({"hidden": ["\0"]}, "hidden=['\\x00'] is not a list of texts", id="NUL"),
        pytest.param({"hidden": None}, "hidden=None is not a list of texts", id="nothing"),
        pytest.param({"network": "no"}, "network='no' is not of type bool", id="network"),
    ],
)
def test_mistakes(options: Mapping[str, Any], message: str) -> None:
    """A value that makes no sense is refused where it is written."""
    with pytest.raises(DefinitionError, match=re.escape(message)):
        Sandbox(**options)


def test_not_installed(tmp_path: Path, environment: Setter) -> None:
    """Without bubblewrap making the tool fails."""
    environment("PATH", str(tmp_path))

    with pytest.raises(DefinitionError, match=r"no sandbox: bubblewrap \(bwrap\) is not installed\. Install it"):
        shell_tool(tmp_path, sandbox=True)


def test_does_not_work(tmp_path: Path, environment: Setter) -> None:
    """If bubblewrap fails, making the tool fails with its message."""
    (program := tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permission.' >&2; exit 1\n")
    program.chmod(0o755)
    environment("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(DefinitionError, match=re.escape("no sandbox: bwrap: No permission. Install it")):
        shell_tool(tmp_path, sandbox=True)


def test_cannot_be_tried(tmp_path: Path, environment: Setter) -> None:
    """A file that cannot be executed is not accepted as bubblewrap."""
    (program := tmp_path / "bwrap").write_text("#!/nowhere\n")
    program.chmod(0o755)
    environment("PATH", str(tmp_path))

    with pytest.raises(DefinitionError, match="no sandbox: bubblewrap cannot be tried"):
        shell_tool(tmp_path, sandbox=True)


@needs_sandbox
def test_description(tmp_path: Path) -> None:
    """The description says that there is a sandbox, and its limits."""
    description = bash_tool(tmp_path, sandbox=True).description

    assert description.endswith(
        "It runs in a sandbox: only this directory and /tmp can be written to, /tmp is empty at first. "
        "No network, except Unix sockets in files."
    )


@needs_sandbox
def test_writes(tmp_path: Path) -> None:
    """A command writes to the directory and nowhere else; /tmp is empty for the next command."""
    (work := tmp_path / "work").mkdir()
    bash = bash_tool(work, sandbox=True)
    text = run_and_read(bash, f"touch here $TMPDIR/it; touch /usr/there {tmp_path}/there 2>&-; ls $TMPDIR/it")

    result = (names(work), names(tmp_path), Path("/usr/there").exists())
    assert ("Exit code: 0\n/tmp/it\n", "Exit code: 2\n", (["here"], ["work"], False)) == (
        text,
        run_and_read(bash, "ls $TMPDIR/it 2>&-"),
        result,
    )


@needs_sandbox
def test_secrets_are_hidden(tmp_path: Path, environment: Setter) -> None:
    """Hidden paths appear empty to a command."""
    for place in (home := tmp_path / "home", work := tmp_path / "work", home / ".ssh"):
        place.mkdir()
    (home / ".ssh" / "key").write_text("secret")
    (home / ".netrc").write_text("secret")
    environment("HOME", str(home))
    bash = bash_tool(work, sandbox=Sandbox(hidden=[str(home / ".ssh"), str(home / ".netrc")]))

    assert "Exit code: 0\n" == run_and_read(bash, f"cat {home}/.ssh/* {home}/.netrc 2>&-; true")


@needs_sandbox
def test_secrets_beside_the_directory(tmp_path: Path, environment: Setter) -> None:
    """A directory among secrets is there, and they are not."""
    for place in (work := tmp_path / ".config" / "work", tmp_path / ".config" / "gh", work / "private"):
        place.mkdir(parents=True)
        (place / "key").write_text("secret")
    environment("HOME", str(tmp_path))
    bash = bash_tool(work, sandbox=Sandbox(hidden=["~/.config", "~/.config/work/private"]))

    text = run_and_read(bash, "cat key; cat private/* ../gh/* 2>&-; touch here")

    assert ("Exit code: 0\nsecret", True) == (text, (work / "here").exists())


@needs_sandbox
def test_no_network(tmp_path: Path) -> None:
    """A command reaches no service, this machine's own included."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        bash = bash_tool(tmp_path, sandbox=True)
        shared = bash_tool(tmp_path, sandbox=Sandbox(network=True))

        text = [run_and_read(one, f"(: < /dev/tcp/127.0.0.1/{port}) 2> /dev/null && echo in") for one in (bash, shared)]

    assert ["Exit code: 1\n", "Exit code: 0\nin\n"] == text


@needs_sandbox
def test_other_processes_are_invisible(tmp_path: Path) -> None:
    """A command sees its own processes only, and can signal no other."""
    text = run_and_read(bash_tool(tmp_path, sandbox=True), f"kill -9 {os.getpid()} 2>&- || ls /proc | grep -c '^[0-9]'")

    assert re.fullmatch(r"Exit code: 0\n[1-9]\n", text)


@needs_sandbox
def test_no_rights(tmp_path: Path) -> None:
    """A command has no capabilities, whatever the user."""
    assert "Exit code: 0\nCapEff:\t0000000000000000\n" == run_and_read(
        bash_tool(tmp_path, sandbox=True), "grep CapEff /proc/self/status"
    )


@needs_sandbox
def test_moved_directory(tmp_path: Path) -> None:
    """The writable directory is the one that was opened, even after it was moved."""
    (work := tmp_path / "work").mkdir()
    (tmp_path / "evil").mkdir()
    bash = bash_tool(work, sandbox=True)
    work.rename(tmp_path / "moved")
    work.symlink_to("evil")

    run_and_read(bash, "touch here")

    assert (["here"], []) == (names(tmp_path / "moved"), names(tmp_path / "evil"))
