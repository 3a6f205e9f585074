"""Calls in a process of their own: what is sent, what is returned, and what remains."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import ways
from tests.apart import (
    Counter,
    count,
    count_later,
    end,
    known,
    late,
    measure,
    nested,
    parent,
    prints,
    process,
    process_later,
)
from tests.properties import combine
from tests.resources import held
from toolkit import (
    DefinitionError,
    FatalError,
    Halt,
    Limits,
    Runner,
    TimedOut,
    Tool,
    Toolbox,
    ToolContext,
    ToolResult,
    tool,
)
from toolkit.events import ToolCallUpdated
from toolkit.testing import ScriptedModel, call

BOTH = pytest.mark.parametrize("go", [ways.call, ways.acall], ids=["sync", "async"])


def wait_for_end(process_id: int) -> bool:
    """Return whether a process ends within ten seconds: the system takes a moment to kill it."""
    stat = Path(f"/proc/{process_id}/stat")
    for _ in range(1000):
        if not stat.exists() or ") Z " in stat.read_text(encoding="ascii"):
            return True
        threading.Event().wait(0.01)
    return False


# -- results


@BOTH
def test_every_call_has_its_own_process(go: Callable[..., ToolResult]) -> None:
    """A function runs in another process, sync or async, each call in its own, and its value is the result."""
    processes = [go(each).value for each in (process, process, process_later)]

    assert 5 == len({None, os.getpid(), *processes})


@pytest.mark.parametrize("generator", [count_later, count], ids=["async", "sync"])
def test_generator(generator: Tool[..., Any]) -> None:
    """The result of a generator is the list of its values."""
    assert [0, 1, 2] == ways.call(generator, to=3).value


def test_large_argument() -> None:
    """An argument that fills the pipe many times arrives whole."""
    assert 1_000_000 == ways.call(measure, text="x" * 1_000_000).value


def test_method() -> None:
    """A method is sent with its instance."""
    assert 5 == ways.call(Counter(2).add, amount=3).value


def test_context() -> None:
    """A context is a copy: dependencies, ids and deadline."""
    model = ScriptedModel([call("known"), call("known"), "Done."])
    calls = Runner([known], model=model, limits=Limits(max_seconds=60)).run("go", deps="mine").calls

    assert [f"mine {calls[turn].call.id} {turn} True" for turn in (0, 1)] == [m.result.value for m in calls]


def test_updates() -> None:
    """Progress and the values of a generator are events while the call runs."""
    model = ScriptedModel([[call("count", to=2)], "Done."])
    with Runner([count], model=model).stream("Count.") as events:
        updates = [event for event in events if isinstance(event, ToolCallUpdated)]

    assert [("to 2", None), ("", 0), ("", 1)] == [(e.text, e.partial and e.partial.value) for e in updates]


def test_standard_streams(capfd: pytest.CaptureFixture[str]) -> None:
    """What a tool prints goes to standard error, and there is nothing to read."""
    assert "" == ways.call(prints).value
    out, errors = capfd.readouterr()
    assert ("", ["said"]) == (out, errors.splitlines())


def test_prints_what_a_pipe_cannot_encode(
    environment: Callable[[str, str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    """What standard output cannot encode, as that of a process without a terminal on Windows, is printed escaped."""
    environment("PYTHONIOENCODING", "cp1252")

    assert "" == ways.call(prints, text="\u2713").value
    out, errors = capfd.readouterr()
    assert ("", ["\\u2713"]) == (out, errors.splitlines())


# -- failures

HIDDEN = ". Its message is not shown here. Try other arguments or another tool, or report that this did not work."
ENDS = {
    "value error": ("ValueError", "end failed: ValueError: why"),
    "tool error": ("ToolError", "Try later."),
    "exit": ("SystemExit", f"end failed: SystemExit{HIDDEN}"),
    "interrupt": ("KeyboardInterrupt", f"end failed: KeyboardInterrupt{HIDDEN}"),
    "stop": ("StopIteration", f"end failed: StopIteration{HIDDEN}"),
    "local": ("Local", f"end failed: Local{HIDDEN}"),
    "unsendable": ("PicklingError", "end has run, but its result was lost."),
    "os exit": ("Failed", "end failed: its process ended with exit code 3 before it had a result."),
    "killed": ("Failed", "end failed: its process was ended by SIGKILL before it had a result."),
    "segfault": ("Failed", "end failed: its process was ended by SIGSEGV before it had a result."),
}


@pytest.mark.parametrize(("how", "go"), combine(ENDS, [ways.call, ways.acall]))
def test_failures(go: Callable[..., ToolResult], how: str) -> None:
    """However the process ends, the call has a result: exceptions keep their class and text."""
    result = go(end, how=how)

    assert ENDS[how] == (type(result.exception).__name__, result.text)


def test_exception_that_cannot_be_unpickled() -> None:
    """An exception that cannot be unpickled is replaced by one of the same name and text."""
    error = ways.call(end, how="unusual").exception

    assert ("tests.apart", "Unusual", "this and that") == (type(error).__module__, type(error).__qualname__, str(error))


def test_traceback() -> None:
    """The cause of an exception is the traceback of the other process."""
    error = ways.call(end, how="value error").exception

    assert isinstance(error, ValueError)
    assert "apart.py" in str(error.__cause__)


@BOTH
def test_fatal(go: Callable[..., ToolResult]) -> None:
    """A fatal error in another process ends the run."""
    with pytest.raises(FatalError, match="no more"):
        go(end, how="fatal")


@BOTH
def test_halt_that_cannot_be_sent(go: Callable[..., ToolResult]) -> None:
    """A halt of the user's own class in another process ends the run, also where that class cannot be unpickled."""
    with pytest.raises(Halt, match="this and that"):
        go(end, how="over")


@BOTH
def test_refusal_that_cannot_be_sent(go: Callable[..., ToolResult]) -> None:
    """A ToolError of the user's own class in another process is an answer, also where that class cannot be found."""
    result = go(end, how="denied")

    assert ("denied", "Not on Sundays.") == (result.kind, result.text)


@BOTH
def test_timeout(go: Callable[..., ToolResult]) -> None:
    """A process that takes too long is killed."""
    result = go(late)

    assert ("timed_out", TimedOut.after(0.01).text) == (result.kind, result.text)


def test_cancellation(tmp_path: Path) -> None:
    """When the run is cancelled, the process is killed with all that it started, and the call has a result."""
    file = tmp_path / "pid"

    handle = Runner([parent], model=ScriptedModel([[call("parent", path=str(file))], "Done."])).start("Go on.")
    while not (file.exists() and file.read_text(encoding="ascii")):
        threading.Event().wait(0.01)
    handle.cancel()
    result = handle.result()

    assert ["cancelled"] == [finished.result.kind for finished in result.calls]
    assert wait_for_end(int(file.read_text(encoding="ascii")))


@pytest.mark.skipif(sys.platform == "win32", reason="needs /proc")
def test_nothing_is_left() -> None:
    """Calls leave no child and no descriptor, however they end."""
    ways.call(process)
    before = held()
    for how in ("value error", "os exit"):
        ways.call(end, how=how)
    ways.call(late)

    assert set() == held() - before


# -- what cannot be sent


def test_local_function() -> None:
    """A function that no other process finds is refused, with what to do."""
    local = tool(lambda: 1, name="local", isolate="process")

    with pytest.raises(
        DefinitionError, match=r"cannot be sent to another process, .*\. Define it at the top of a module"
    ):
        ways.call(local)


def test_context_that_does_not_pickle(caplog: pytest.LogCaptureFixture) -> None:
    """Dependencies that do not pickle fail the call, not the run; the log says what to do, the result does not."""

    class Unsendable(str):
        """A text whose class no other process finds."""

    result = Toolbox([known]).call("known", {}, ToolContext(deps=Unsendable("Ann")))

    assert "known was not run: it could not be sent to where it runs." == result.text
    assert "Parameters and deps must pickle" in str(result.exception)
    assert "Parameters and deps must pickle" in caplog.text


def test_result_that_does_not_pickle() -> None:
    """A result that does not pickle is lost; the exception has the reason, and what to do."""
    error = str(ways.call(end, how="unsendable").exception)

    assert "cannot pickle '_thread.lock' object. Return plain data" in error


def run_program(path: Path, text: str) -> subprocess.CompletedProcess[str]:
    (path / "main.py").write_text(textwrap.dedent(text), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "main.py"],
        cwd=path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )


FORKS = """
import os, signal, time
from tests.apart import process
from toolkit import Runner
from toolkit.builtin import shell_tool
from toolkit.testing import ScriptedModel, call

model = ScriptedModel([[CALL] * 8, "Done."])
handle = Runner([process, shell_tool(".")], model=model).start("go")
children = []
try:
    while handle.status == "running" and len(children) < 120:
        children.append(os.fork())
        if not children[-1]:
            signal.pause()
        time.sleep(0.002)
    print(handle.result(timeout=20))
finally:
    for child in children:
        os.kill(child, signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("made", ['call("process")', 'call("shell_exec", command="true")'])
def test_forks_meanwhile(made: str) -> None:
    """Processes that fork off while calls start theirs, as those of a pool, delay no call."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS.replace("CALL", made)],
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
    )

    assert b"Done." == ended.stdout.strip(), ended.stderr


SCRIPT = """
    from toolkit import Toolbox, tool

    class Own:
        pass

    @tool(isolate="process")
    def own() -> Own:
        '''Give something of the script's own.'''
        return Own()
"""


def test_main_script(tmp_path: Path) -> None:
    """A tool of the main script is sent too, and may return an object of the script's own class."""
    ended = run_program(
        tmp_path, SCRIPT + '\n    if __name__ == "__main__":\n        print(Toolbox([own]).call("own").value)'
    )

    assert "<__main__.Own object" == ended.stdout[:20], ended.stderr


def test_main_script_that_runs_when_imported(tmp_path: Path) -> None:
    """A main script that would start a run in each child is refused, with what to do."""
    ended = run_program(tmp_path, SCRIPT + '\n    Toolbox([own]).call("own")')

    assert 'Put the code that starts the run under: if __name__ == "__main__":' in ended.stderr


def test_tool_without_a_file() -> None:
    """A tool whose code is in no file is refused, with what to do."""
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT) + 'Toolbox([own]).call("own")'],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "from a notebook or a Python prompt. Define it at the top of a module." in ended.stderr


def test_tool_of_a_program_file(tmp_path: Path) -> None:
    """A tool of a __main__.py, as in a zip, fails with what to do; a fresh process cannot import that file again."""
    (tmp_path / "__main__.py").write_text(
        textwrap.dedent(SCRIPT) + 'print(Toolbox([own]).call("own"))', encoding="utf-8"
    )
    ended = subprocess.run(
        [sys.executable, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "cannot find the tool own in __main__. A process of" in ended.stdout, ended.stderr


def test_program_without_a_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a program of PyInstaller, which starts itself and no Python, a tool with its own process is refused."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)

    with pytest.raises(
        DefinitionError, match=r"a program of PyInstaller does not have\. Set timeout= instead, or exec"
    ):
        ways.call(process)


def test_process_of_a_process() -> None:
    """A tool that has its own process may give one to another."""
    assert ways.call(nested).value not in (None, os.getpid())
