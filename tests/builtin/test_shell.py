"""Shell tools: their texts, their refusals, and the environment of a command."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.properties import examples
from toolkit import ApprovalRequest, DefinitionError, Runner, Tool, Toolbox
from toolkit.approvers import approve_all
from toolkit.builtin import CommandLimits, Root, bash_tool, shell_tool
from toolkit.builtin.shell import DEFAULT_SHELL_DENY
from toolkit.builtin.shell.process import Capture
from toolkit.testing import ScriptedModel, call

Setter = Callable[[str, str], None]


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    """Both tools, for one directory."""
    return Toolbox([shell_tool(tmp_path), bash_tool(tmp_path)])


def text(box: Toolbox, name: str, command: str, **arguments: Any) -> str:
    """Call a tool and return the text that the model reads."""
    return box.call(name, {"command": command, **arguments}).text


def run_and_read(subject: Tool[..., Any], command: str) -> str:
    """Return the output of a command."""
    return Toolbox([subject]).call(subject.name, {"command": command}).text


def test_names(box: Toolbox) -> None:
    """Each tool has a name, a title and an effect."""
    assert [("shell_exec", "Run Command", "destructive"), ("bash", "Run Command", "destructive")] == [
        (subject.name, subject.title, subject.settings.effect) for subject in box
    ]


def test_described_parameters(box: Toolbox) -> None:
    """Every parameter has a description, and none turns a protection off."""
    parameters = [[(name, p["type"]) for name, p in subject.parameters["properties"].items()] for subject in box]

    assert ([], [[("command", "string"), ("timeout", "integer")], [("command", "string")]]) == (
        list(box.check()),
        parameters,
    )


def test_description(tmp_path: Path) -> None:
    """The description has the time limit, and that there is no sandbox."""
    description = shell_tool(tmp_path, timeout=7).description

    assert "A command may take 7 seconds. There is no sandbox." == description.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "message", "exit_code"),
    [
        pytest.param("echo hi", "hi\n", 0, id="stdout"),
        pytest.param("echo oops >&2", "oops\n", 0, id="stderr"),
        pytest.param("printf a; printf b >&2", "a\n--- stderr ---\nb", 0, id="both"),
        pytest.param("true", "(no output)", 0, id="nothing"),
        pytest.param("printf hi; exit 3", "hi\nexit: exit status 3", 3, id="failed"),
        pytest.param("exit 3", "exit: exit status 3", 3, id="failed without output"),
        pytest.param("kill -9 $$", "exit: signal: killed", -1, id="signal"),
        pytest.param("-c 2>/dev/null", "exit: exit status 127", 127, id="like an option"),
    ],
)
def test_shell_exec(box: Toolbox, command: str, message: str, exit_code: int) -> None:
    """`shell_exec` returns output and exit status; a failed command is not an error."""
    result = box.call("shell_exec", {"command": command})

    expected = (message, None, {"exit_code": exit_code, "success": exit_code == 0})
    assert expected == (
        re.sub(r"^.*sh: (line )?1: -c:.*\n", "sh: 1: -c: not found\n", result.text),
        *result[2:5:2],
    )


@pytest.mark.parametrize(
    ("command", "message", "exit_code"),
    [
        pytest.param("echo hi", "Exit code: 0\nhi\n", 0, id="stdout"),
        pytest.param("true", "Exit code: 0\n", 0, id="nothing"),
        pytest.param("echo a; echo b >&2; exit 1", "Exit code: 1\nSTDOUT:\na\n\nSTDERR:\nb\n", 1, id="both"),
        pytest.param("printf b >&2", "Exit code: 0\nSTDOUT:\n\nSTDERR:\nb", 0, id="stderr"),
        pytest.param("echo a; kill -TERM $$", "Exit code: -1\na\nexit: signal: terminated", -1, id="signal"),
        pytest.param("[[ ab == a* ]] && echo bash", "Exit code: 0\nbash\n", 0, id="is bash"),
    ],
)
def test_bash(box: Toolbox, command: str, message: str, exit_code: int) -> None:
    """`bash` returns the exit code and then the output; a failed command is not an error."""
    result = box.call("bash", {"command": command})

    assert (message, None, {"exit_code": exit_code, "success": exit_code == 0}) == (result.text, *result[2:5:2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(shell_tool, "hi\nexit: exit status 3", id="shell_exec"),
        pytest.param(bash_tool, "Exit code: 3\nhi\nexit: exit status 3", id="bash"),
    ],
)
def test_error_on_exit(tmp_path: Path, make: Callable[..., Tool[..., Any]], message: str) -> None:
    """With `error_on_exit`, a failed command is a failed call with its output."""
    subject = make(tmp_path, error_on_exit=True)

    result = Toolbox([subject]).call(subject.name, {"command": "printf hi; exit 3"})

    details = {"exit_code": 3, "success": False}
    assert (message, "exit: exit status 3", "failed", details) == (result.text, *result[2:5])


@pytest.mark.parametrize("command", ["rm -rf /", "RM -RF /tmp/x", "sudo ls", "mkfs /x", "ls > /dev/null", "dd if=/x"])
def test_blocked(box: Toolbox, command: str) -> None:
    """`shell_exec` refuses denied texts in upper and lower case."""
    pattern = next(blocked for blocked in DEFAULT_SHELL_DENY if blocked in command.lower())

    assert f"command blocked for safety: {pattern}" == text(box, "shell_exec", f": '{command}'")


@pytest.mark.parametrize("denied", ["rm -rf /", "rm -rf /*", "mkfs", "dd if=", ":(){:|:&};:", ":(){ :|:& };:"])
def test_denied(tmp_path: Path, denied: str) -> None:
    """`bash` refuses denied texts, also the fork bomb as it is usually written, before it asks for confirmation."""
    box = Toolbox([bash_tool(tmp_path, confirm=lambda _command: False)])  # what is not denied is not run either

    message = re.fullmatch(
        r"Command blocked by safety policy: contains '(.*)'\. This pattern is denied for safety\.",
        text(box, "bash", f": '{denied}'"),  # harmless if it should run after all
    )

    assert message is not None and message[1] in denied


def test_denied_letter_for_letter(box: Toolbox) -> None:
    """`bash` compares denied texts case-sensitively."""
    assert "Exit code: 0\nMKFS\n" == text(box, "bash", "echo MKFS")


@pytest.mark.parametrize("make", [shell_tool, bash_tool])
def test_own_texts_denied(tmp_path: Path, make: Callable[..., Tool[..., Any]]) -> None:
    """A list of one's own takes the place of the usual one."""
    subject = make(tmp_path, deny=["curl"])

    assert (True, True) == ("curl" in run_and_read(subject, "curl x"), "mkfs" in run_and_read(subject, "echo mkfs"))


@pytest.mark.parametrize("command", ["", " ", "\n"])
def test_nothing_to_run(box: Toolbox, command: str) -> None:
    """`shell_exec` needs a command."""
    assert "command is required" == text(box, "shell_exec", command)


@pytest.mark.parametrize("name", ["shell_exec", "bash"])
@pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param("a\0b", "Invalid arguments: command: it contains a NUL", id="NUL"),
        pytest.param("x" * 200_000, "Failed to execute: Argument list too long", id="too long"),
    ],
)
def test_no_command(box: Toolbox, name: str, command: str, message: str) -> None:
    """A command that cannot be passed to a shell is an error with the reason."""
    assert message == text(box, name, command)


def test_no_shell(tmp_path: Path) -> None:
    """Without a shell, the call fails."""
    result = Toolbox([bash_tool(tmp_path, env={"PATH": "/nowhere"})]).call("bash", {"command": "echo"})

    assert ("Failed to execute: No such file or directory", "failed") == (result.text, result.kind)


@pytest.mark.parametrize("make", [shell_tool, bash_tool])
def test_timeout(tmp_path: Path, make: Callable[..., Tool[..., Any]]) -> None:
    """A command that takes too long is an error, after its output so far."""
    subject = make(tmp_path, timeout=0.5)

    result = Toolbox([subject]).call(subject.name, {"command": "printf started; sleep 60"})

    text = f"{'c' if subject.name == 'shell_exec' else 'C'}ommand timed out after 0.5s"
    details = {"exit_code": None, "success": False}
    assert (f"started\n{text}", text, "timed_out", details) == (result.text, *result[2:5])


@pytest.mark.parametrize(("requests", "seconds"), [(0, 1), (-5, 1), (1, 1)])
def test_timeout_of_a_call(tmp_path: Path, requests: int, seconds: int) -> None:
    """The model may set the timeout; 0 or less means the default."""
    box = Toolbox([shell_tool(tmp_path, timeout=1 if requests < 1 else 60)])

    assert f"command timed out after {seconds}s" == text(box, "shell_exec", "sleep 60", timeout=requests)


@pytest.mark.parametrize(("options", "message"), [(0, 30), (-1, 30), (1000, 300)])
def test_usual_seconds(tmp_path: Path, options: int, message: int) -> None:
    """Without a time of its own a command has 30 seconds, and never more than 300."""
    assert f"A command may take {message} seconds." in shell_tool(tmp_path, timeout=options).description


def test_confirm(tmp_path: Path) -> None:
    """`confirm` is called with each command that is not denied; only True lets it run."""
    requests: list[str] = []

    def confirm(command: str) -> bool:
        requests.append(command)
        return command == "echo a"

    bash = bash_tool(tmp_path, confirm=confirm)
    text = [run_and_read(bash, command) for command in ("echo a", "echo b", "mkfs")]

    assert (["echo a", "echo b"], "Exit code: 0\na\n", "Command was not confirmed by the user.") == (
        requests,
        *text[:2],
    )


def test_confirm_fails(tmp_path: Path) -> None:
    """If `confirm` raises, nothing runs."""

    def confirm(_: str) -> bool:
        raise OSError

    run_and_read(shell_tool(tmp_path, confirm=confirm), "touch ran")

    assert [] == list(tmp_path.iterdir())


# One thing that no list of texts has, spelled in ways that a shell does not tell apart, and what may stand around it.
SPELLINGS = (
    *("rm -r -f /nowhere", "rm -fr /nowhere", "rm  -rf /nowhere", "rm -rf  /nowhere", "rm -rf -- /nowhere"),
    *("rm -rf '/nowhere'", 'rm -rf "/"nowhere', "r\\m -rf /nowhere", "r''m -rf /nowhere", "rm -rf \\/nowhere"),
    *("rm\t-rf /nowhere", "rm -rf $'\\057nowhere'", "$(echo rm) -rf /nowhere", "X=rm; $X -rf /nowhere"),
    *("/bin/rm --recursive /nowhere", "find /nowhere -delete", "find /nowhere -exec rm {} +"),
    "python3 -c 'import shutil; shutil.rmtree(\"/nowhere\")'",
    "git -c alias.x='!rm -r -f /nowhere' x",
    "echo cm0gLXJmIC9ub3doZXJl | base64 -d | sh",
)
AROUND = (
    *("%s", "true; %s", "true\n%s", "true && %s", "A=1 %s", "( %s )", "{ %s; }", "if :; then %s; fi", "%s &"),
    "cd / && %s # harmless",
)
BYPASSES = [around.replace("%s", spelling) for around in AROUND for spelling in SPELLINGS]


@pytest.mark.parametrize("make", [shell_tool, bash_tool])
def test_a_list_is_no_sandbox(tmp_path: Path, make: Callable[..., Tool[..., Any]]) -> None:
    """200 other spellings of a denied command pass the list, so each command needs approval."""
    passed: list[str] = []
    subject = make(tmp_path, confirm=passed.append, env={"PATH": "/nowhere"})  # None is not a yes; no shell is found
    text = [run_and_read(subject, command) for command in ("rm -rf /nowhere", *BYPASSES)]

    assert (200, BYPASSES, True) == (len(BYPASSES), passed, "safety" in text[0])


@pytest.mark.parametrize("make", [shell_tool, bash_tool])
def test_approved_text(tmp_path: Path, make: Callable[..., Tool[..., Any]]) -> None:
    """An approver sees the exact text that would run, in every spelling."""
    requests: list[str] = []

    def ask(request: ApprovalRequest) -> bool:
        requests.append(request.arguments["command"])
        return True

    subject = make(tmp_path, approve=ask, env={"PATH": "/nowhere"})
    kinds = {Toolbox([subject]).call(subject.name, {"command": command}).kind for command in BYPASSES}

    assert (BYPASSES, {"unavailable"}) == (requests, kinds)


@pytest.mark.parametrize("make", [shell_tool, bash_tool])
def test_program_without_a_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Tool[..., Any]]
) -> None:
    """In a program of PyInstaller, which would start itself and no Python, there are no tools for commands."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)

    with pytest.raises(DefinitionError, match=r"a program of PyInstaller does not have\. Write a tool of your own"):
        make(tmp_path)


def test_approve(tmp_path: Path) -> None:
    """A command can require approval like any call."""
    runs = [
        Runner(
            [bash_tool(tmp_path, approve=True)],
            model=ScriptedModel([call("bash", command="echo a"), "Done."]),
            approve=who,
        )
        for who in (approve_all, lambda _: False)
    ]

    results = [run.run("Go.").calls[0].result for run in runs]

    assert [("Exit code: 0\na\n", None), ("Tool execution was rejected by the user.", "rejected")] == [
        (result.text, result.kind) for result in results
    ]


def test_each_call_starts_in_the_directory(tmp_path: Path) -> None:
    """A command starts in the directory, whatever an earlier one did."""
    shell = shell_tool(tmp_path)
    run_and_read(shell, "cd /; export A=1")

    assert f"{tmp_path.resolve()}\n" == run_and_read(shell, "echo $(pwd -P)$A")


def test_directory_is_open(tmp_path: Path) -> None:
    """A link in place of the directory leads no command elsewhere."""
    (work := tmp_path / "work").mkdir()
    (tmp_path / "evil").mkdir()
    shell = shell_tool(work)
    work.rename(tmp_path / "moved")
    work.symlink_to("evil")

    run_and_read(shell, "touch here")

    assert [tmp_path / "moved" / "here"] == [*(tmp_path / "moved").iterdir(), *(tmp_path / "evil").iterdir()]


def test_removed_directory(tmp_path: Path) -> None:
    """If the directory was removed, nothing runs."""
    (work := tmp_path / "work").mkdir()
    shell = shell_tool(Root(work))
    work.rmdir()

    assert "Failed to execute: the root directory was removed" == run_and_read(shell, "echo")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param("wc -c", "0", id="no input"),
        pytest.param("(: < /dev/tty) 2>&- || echo none", "none", id="no terminal"),
        pytest.param("for f in /proc/$$/fd/*; do [ ! -e $f ] || printf ${f##*/}; done", "012", id="no file of ours"),
        pytest.param("[ $(cut -d' ' -f6 /proc/$$/stat) = $$ ] && echo own", "own", id="a session of its own"),
    ],
)
def test_no_terminal(box: Toolbox, command: str, message: str) -> None:
    """A command has no input, no terminal and no open file of this process."""
    assert message == text(box, "shell_exec", command).strip()


def test_umask(tmp_path: Path) -> None:
    """Files of a command are not writable by others, nor less private than those of this process."""
    masks = []
    for mask in (0o000, 0o077):
        before = os.umask(mask)
        try:
            masks.append(run_and_read(shell_tool(tmp_path), "umask"))
        finally:
            os.umask(before)

    assert ["0022\n", "0077\n"] == masks


def test_usual_signals(tmp_path: Path) -> None:
    """No signal is ignored or blocked in a command, but those of glibc itself (32 and 33), which no program can set."""
    shell = shell_tool(tmp_path)

    text = run_and_read(shell, "grep -E '^Sig(Blk|Ign)' /proc/self/status")
    masks = [int(line.split()[1], 16) for line in text.splitlines()]

    assert [0, 0] == [mask & ~(0b11 << 31) for mask in masks]


def names_in(message: str) -> set[str]:
    """The names of variables that `env` run_and_read."""
    return {line.partition("=")[0] for line in message.splitlines()}


def test_environment(tmp_path: Path, environment: Setter) -> None:
    """Variables with keys are not passed on; a few others are, and some are set."""
    for name in ("OPENAI_API_KEY", "GITHUB_TOKEN", "PYTHONPATH", "BASH_ENV", "LC_TIME"):
        environment(name, "C")

    names = names_in(run_and_read(shell_tool(tmp_path, env={"GIVEN": "1"}), "env"))

    document = {"PATH", "HOME", "LC_TIME", "TERM", "GIT_TERMINAL_PROMPT", "GIVEN"}
    assert (document, set()) == (names & document, names & {"OPENAI_API_KEY", "GITHUB_TOKEN", "PYTHONPATH", "BASH_ENV"})


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_no_editor(tmp_path: Path) -> None:
    """An editor that the user has set does not wait for a person: git goes on with what it has prepared."""
    git = "git -c user.name=a -c user.email=a@b.c -c core.editor='sleep 600; :'"
    new, again, log = "commit --allow-empty", "commit --amend --allow-empty", "log --format=%s"
    command = f"git init -q .; {git} {new}; {git} {new} -qm First; {git} {again} -q; {git} {log}"

    message = run_and_read(bash_tool(tmp_path, timeout=30), command)

    assert (True, True) == (message.startswith("Exit code: 0\nSTDOUT:\nFirst\n"), "empty commit message" in message)


def test_output_at_once(box: Toolbox) -> None:
    """Python does not hold back output, which would be lost if the time is up."""
    assert "True\n" == text(box, "shell_exec", f"{sys.executable} -c 'import sys; print(sys.stdout.write_through)'")


NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,20}(_API_KEY|_TOKEN|_SECRET|PASSWORD|_URL)", fullmatch=True)


@examples(10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.sets(NAMES, min_size=1, max_size=50))
def test_no_secret_passes(tmp_path: Path, names: set[str]) -> None:
    """No variable with a secret is passed on, whatever its name."""
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setenv(name, "s3cr3t")
        text = run_and_read(shell_tool(tmp_path, max_output=100_000), "env")

    assert "s3cr3t" not in text


def test_limits(tmp_path: Path) -> None:
    """Resource limits apply; core dumps are off."""
    limits = CommandLimits(cpu_seconds=5, memory=2**30, file_size=4096, open_files=50)
    bash = bash_tool(tmp_path, limits=limits)

    assert "Exit code: 0\n5 1048576 4 50 0\n" == run_and_read(
        bash, "echo $(ulimit -t) $(ulimit -v) $(ulimit -f) $(ulimit -n) $(ulimit -c)"
    )


def test_limit_reached(tmp_path: Path) -> None:
    """A command that writes a file above the limit is ended."""
    shell = shell_tool(tmp_path, limits=CommandLimits(file_size=1000))
    run_and_read(shell, "yes | head -c 5000 > file")

    assert 1000 == (tmp_path / "file").stat().st_size


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        pytest.param(bash_tool, {"timeout": 0}, "timeout=0 is not a number of seconds above 0.", id="timeout"),
        pytest.param(bash_tool, {"timeout": float("nan")}, "timeout=nan is not a number", id="no time"),
        pytest.param(shell_tool, {"timeout": float("nan")}, "timeout=nan is not a number", id="no time for sh"),
        pytest.param(bash_tool, {"timeout": "5"}, "timeout='5' is not a number", id="time as text"),
        pytest.param(shell_tool, {"timeout": None}, "timeout=None is not a number", id="None as time"),
        pytest.param(bash_tool, {"timeout": 1e9}, "timeout=1000000000.0 is not a number", id="too long"),
        pytest.param(shell_tool, {"max_output": 0}, "max_output=0 is not a whole number of at least 1.", id="output"),
        pytest.param(
            bash_tool, {"max_output": True}, "max_output=True is not a whole number of at least 1.", id="True as output"
        ),
        pytest.param(bash_tool, {"deny": None}, "deny=None is not a list of texts", id="None as deny"),
        pytest.param(bash_tool, {"confirm": True}, "confirm= must be a plain function", id="confirm"),
        pytest.param(bash_tool, {"error_on_exit": "x"}, "error_on_exit='x' is not of type bool", id="error_on_exit"),
        pytest.param(shell_tool, {"env": "KEY=s3cr3t"}, "env= maps names to texts: env={'CI': '1'}.", id="env as text"),
        pytest.param(shell_tool, {"env": ["A"]}, "env= maps names to texts: env={'CI': '1'}.", id="env as list"),
        pytest.param(
            bash_tool, {"limits": {"memory": 1}}, "limits={'memory': 1} is not of type CommandLimits", id="limits"
        ),
        pytest.param(bash_tool, {"sandbox": "yes"}, "sandbox='yes' is not of type bool or Sandbox", id="sandbox"),
        pytest.param(shell_tool, {"deny": "mkfs"}, "deny='mkfs' is not a list of texts", id="deny"),
        pytest.param(shell_tool, {"deny": [""]}, "deny=[''] is not a list of texts", id="empty text"),
        pytest.param(bash_tool, {"env": {"A=B": "c"}}, "env['A=B'] cannot be set", id="env"),
        pytest.param(bash_tool, {"env": {"A": "\0"}}, "env['A'] cannot be set", id="NUL in env"),
    ],
)
def test_mistakes(
    tmp_path: Path, make: Callable[..., Tool[..., Any]], options: Mapping[str, Any], message: str
) -> None:
    """A value that makes no sense is refused where it is written."""
    with pytest.raises(DefinitionError, match=re.escape(message)):
        make(tmp_path, **options)


class Asker:
    """Is called like an async function."""

    async def __call__(self, _: str) -> bool:
        """Return True."""
        return True


@pytest.mark.parametrize("confirm", [Asker(), Asker().__call__], ids=["object", "function"])
def test_async_confirm(tmp_path: Path, confirm: Any) -> None:
    """A promise is not an answer."""
    with pytest.raises(DefinitionError, match="confirm= must be a plain function"):
        bash_tool(tmp_path, confirm=confirm)


@pytest.mark.parametrize("root", [None, 3, b"work"])
def test_no_path(root: Any) -> None:
    """A value that is not a path is refused by name."""
    with pytest.raises(DefinitionError, match=rf"root={re.escape(repr(root))} is not a usable directory"):
        shell_tool(root)


def test_no_directory(tmp_path: Path) -> None:
    """A missing directory is refused when the tool is made."""
    with pytest.raises(DefinitionError, match="is not a usable directory"):
        shell_tool(tmp_path / "none")


def test_wrong_limit() -> None:
    """A bound is a whole number from 1 on."""
    with pytest.raises(DefinitionError, match="memory=0 is not a whole number of at least 1"):
        CommandLimits(memory=0)


OVERWRITTEN = "... (overwritten text left out)\n"


def captured(data: bytes, most: int, pieces: int = 7) -> str:
    """Capture a stream that comes in pieces."""
    capture = Capture(most)
    for start in range(0, len(data), pieces):
        capture.add(data[start : start + pieces])
    return capture.text(most)


def test_long_output(box: Toolbox) -> None:
    """Of long output the model reads the beginning and the end, and the number of bytes."""
    message = text(box, "shell_exec", "echo first; yes | head -c 100000; echo last")

    start, note, end = re.split(r"(\n\.\.\. \(.*\)\n)", message)
    assert (True, "\n... (100011 bytes, the middle left out)\n", True, True) == (
        start.startswith("first\ny\n"),
        note,
        end.endswith("y\nlast\n\n... (truncated)"),
        len(message) <= 4000 + len("\n... (truncated)"),
    )


def test_room_for_both(box: Toolbox) -> None:
    """Of two long streams, each has half of the room; a short one is whole."""
    long = "head -c 9000 /dev/zero | tr '\\0' x"

    both, one = (text(box, "shell_exec", f"{command} >&2; {long}") for command in (long, "printf short"))

    most = 4000 + len("\n... (truncated)")
    halves = [message.removesuffix("\n... (truncated)").split("\n--- stderr ---\n") for message in (both, one)]
    assert ([True, True], "short", [True, True]) == (
        [1900 < len(half) <= 2000 for half in halves[0]],
        halves[1][1],
        [most - 2 <= len(message) <= most for message in (both, one)],
    )


def test_exactly_full(box: Toolbox) -> None:
    """Output of exactly the limit is whole."""
    assert "x" * 4000 == text(box, "shell_exec", "head -c 4000 /dev/zero | tr '\\0' x")


def test_streams_of_bash(tmp_path: Path) -> None:
    """Each stream of `bash` is cut for itself."""
    text = run_and_read(bash_tool(tmp_path, max_output=100), "echo a; head -c 1000 /dev/zero | tr '\\0' x >&2")

    assert re.fullmatch(
        r"Exit code: 0\nSTDOUT:\na\n\nSTDERR:\nx{30}\n\.\.\. \(1000 bytes, .*\)\nx{30}\n\.\.\. \(output truncated\)",
        text,
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"a\xffb\xc3", "a\ufffdb\ufffd", id="no UTF-8"),
        pytest.param(b"\x1b[1;31mred\x1b[0m\x1b[2K", "red", id="colours"),
        pytest.param(b"\x1b]0;title\x07a\x1b]8;;x\x1b\\b", "ab", id="titles"),
        pytest.param(b"\x1b]0;never ends\nb", "0;never ends\nb", id="no end"),
        pytest.param(b"a\0b\x08\x07\x7fc", "abc", id="controls"),
        pytest.param("a\tb\r\n\u00e9\U0001f600".encode(), "a\tb\r\n\u00e9\U0001f600", id="kept"),
        pytest.param(b"50%\r100%\r\nok\r\n", "50%\r100%\r\nok\r\n", id="short progress"),
        pytest.param(b"a\r\n" + b"\r 50%" * 99 + b"\r100%\r\nb", f"a\r\n{OVERWRITTEN}100%\r\nb", id="long progress"),
        pytest.param(b"a\r\n" * 99, "a\r\n" * 99, id="CR LF"),
    ],
)
def test_rendering(data: bytes, message: str) -> None:
    """Bytes that are not UTF-8 are replaced, and control sequences removed."""
    assert message == captured(data, 1000)


@examples(300)
@given(sign=st.sampled_from("a\u00e9\u20ac\U0001f600"), size=st.integers(1, 200), most=st.integers(60, 120))
def test_cut_characters(sign: str, size: int, most: int) -> None:
    """A cut replaces at most the characters beside it, and leaves no more characters than bytes were asked for."""
    text = captured((sign * size).encode(), most)

    display = re.sub(r"\ufffd{0,3}\n\.\.\. \(\d+ bytes, the middle left out\)\n\ufffd{0,3}", "", text)
    assert ({sign}, True) == (set(display), len(text) <= most)


@examples(300)
@given(data=st.binary(max_size=500), most=st.integers(1, 300), pieces=st.integers(1, 400))
def test_pieces_do_not_matter(data: bytes, most: int, pieces: int) -> None:
    """Rendering does not depend on how the output is divided."""
    assert captured(data, most, len(data) or 1) == captured(data, most, pieces)
