"""Commands that end, time out or are cancelled leave no process, whatever they do.

`TOOLKIT_COMMANDS=1000 TOOLKIT_CANCELS=1000 python -m pytest --timeout 3600 tests/builtin/test_shell_processes.py`
runs more.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import randbelow
from typing import Any

import pytest

from tests.resources import held
from toolkit import Limits, Runner, Tool, Toolbox, ToolContext, ToolResult, tool
from toolkit.builtin import bash_tool, shell_tool
from toolkit.builtin.shell.guard import Marked, end
from toolkit.events import ToolCallFinished
from toolkit.testing import ScriptedModel, call

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no subreapers")

CANCELS = int(os.environ.get("TOOLKIT_CANCELS", "20"))
COMMANDS = int(os.environ.get("TOOLKIT_COMMANDS", "20"))
# Ways out of a process group, a session, a terminal, a name and an environment. Each says `ready` once it is under way,
# and has MARK on its command line, where it puts its environment away.
FORKED = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); {0}time.sleep(600)"
ESCAPES = {
    "in the background": "sleep 600 &",
    "no hangup": "nohup sleep 600 > /dev/null 2>&1 &",
    "disowned": "sleep 600 & disown",
    "a session": "setsid sleep 600 &",
    "sessions in sessions": "setsid bash -c 'setsid bash -c \"setsid sleep 600 & sleep 600\" & sleep 600' &",
    "deaf": "bash -c \"trap '' TERM HUP INT QUIT; sleep 600 & wait; wait; sleep 600\" &",
    "another name": "(exec -a kworker sleep 600) &",
    "no environment": "env -i setsid sleep 600.MARK &",
    "no output": "setsid sleep 600 > /dev/null 2>&1 < /dev/null &",
    "holds the output": "(sleep 600; echo late) &",
    "daemon": f"{sys.executable} -c '{FORKED.format('')}'",
    "daemon without files": f"{sys.executable} -c '{FORKED.format('os.closerange(0, 1000); ')}'",
    "stopped": "sleep 600 & kill -STOP $!",
    "stops itself": "bash -c 'kill -STOP $$; sleep 600' &",
    "many": "for i in $(seq 40); do sleep 600 & done",
    "comes again": "again() { sleep 0.01; (again &) }; for i in 1 2 3 4 5; do again & done",
    "answers with another": "bash -c \"trap 'setsid sleep 600 &' TERM; sleep 600 & wait; sleep 600\" &",
}
GUARD = "$PPID"


def list_living(mark: str) -> list[str]:
    """The processes that have a mark in their environment or on their command line, and have not ended."""
    result = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            text = (place / "environ").read_bytes() + (place / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in text:
            result.append(text.decode(errors="replace"))
    return result


def test_the_check_itself() -> None:
    """A living process is found by its environment, and by its command line, until it ends."""
    mark = str(randbelow(10**18))
    with (
        subprocess.Popen(["/bin/sleep", "600"], env={"MARK": mark}) as one,
        subprocess.Popen(["/bin/sleep", f"600.{mark}"], env={}) as other,
    ):
        for _ in range(1000):  # what has just started has no command line for a moment
            if len(list_living(mark)) == 2:
                break
            threading.Event().wait(0.01)
        counts = [len(list_living(mark))]
        for process in (one, other):
            process.kill()
            process.wait()
            counts.append(len(list_living(mark)))

    assert [2, 1, 0] == counts


def is_over(mark: str) -> bool:
    """Return whether all processes with a mark end within some seconds."""
    return any(not list_living(mark) or threading.Event().wait(0.1) for _ in range(150))


def run_command(subject: Tool[..., Any], command: str, context: ToolContext | None = None) -> ToolResult:
    """Run a command."""
    return Toolbox([subject]).call("bash", {"command": command}, context)


class Place:
    """A directory for commands that report when they are ready."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark = str(randbelow(10**18))
        os.mkfifo(path / "ready")

    def tool(self, **options: Any) -> Tool[..., Any]:
        """A tool whose commands have the mark."""
        return bash_tool(self.path, env={"MARK": self.mark}, **options)

    def call(self, command: str, context: ToolContext | None = None, **options: Any) -> ToolResult:
        """Run a command."""
        return run_command(self.tool(**options), command, context)

    def wait(self, then: Callable[[], object]) -> None:
        """Wait for a command to print `ready`, and call a function."""
        (self.path / "ready").read_text()
        then()

    def cancelled(self, command: str) -> ToolResult:
        """Run a command, and cancel it once it is ready."""
        context = ToolContext(deps=None)
        script = f"{command.replace('MARK', self.mark)}\necho > ready; sleep 600"
        with ThreadPoolExecutor(1) as pool:
            pool.submit(self.wait, context.cancellation.cancel)
            return self.call(script, context)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A directory, and a mark."""
    return Place(tmp_path)


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_nothing_is_left_after_cancel(place: Place, escape: str) -> None:
    """When a command has been cancelled, all that it started has ended."""
    result = place.cancelled(escape)

    assert ("cancelled", []) == (result.kind, list_living(place.mark))


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_nothing_is_left_at_the_end(place: Place, escape: str) -> None:
    """Background processes end with their command, and do not delay the result."""
    result = place.call(f"{escape.replace('MARK', place.mark)}\necho done")

    assert ("Exit code: 0\ndone\n", []) == (result.value, list_living(place.mark))


@pytest.mark.parametrize("escape", [ESCAPES["deaf"], ESCAPES["daemon"], "yes &"], ids=["deaf", "daemon", "loud"])
def test_nothing_is_left_when_late(place: Place, escape: str) -> None:
    """At a timeout all processes of a command end; its output remains."""
    result = place.call(f"echo first; {escape}\nsleep 600", timeout=1)

    assert ("timed_out", "first", []) == (result.kind, (result.value or "").partition("\n")[0], list_living(place.mark))


def test_guard_is_killed(place: Place) -> None:
    """A command that kills its guard ends with it, and so do all of its processes."""
    result = place.call(f"setsid sleep 600 & echo first; kill -9 {GUARD}; sleep 600")

    text = "The end of the command is unknown: it killed its supervisor process."
    assert (text, []) == (result.error, list_living(place.mark))


@pytest.mark.slow
def test_guard_is_killed_by_a_program_that_replaces_itself(place: Place) -> None:
    """A process that is between two programs, and so without an environment, ends as well."""
    (place.path / "again").write_text("exec bash again\n", encoding="utf-8")

    for _ in range(20):
        place.call(f"bash again & kill -9 {GUARD}; sleep 600")

    assert [] == list_living(place.mark)


@pytest.mark.slow
def test_guard_is_stopped(place: Place) -> None:
    """A command that stops its guard is ended after the timeout."""
    result = place.call(f"kill -STOP {GUARD}; sleep 600", timeout=1)

    assert ("timed_out", []) == (result.kind, list_living(place.mark))


# Ends when it is asked to.
ENDLESS = "echo first; echo > ready; sleep 600"
# Does not end when it is asked to, nor does what it started.
DEAF = "trap '' TERM; (trap '' TERM; sleep 600) & echo first; echo > ready; sleep 600"


# The results of a call whose end a cancelled run has not waited for.
ABANDONED = (
    "Cancelled: it had started, and its effects stay.",
    "Cancelled: what it was doing may still take effect.",
)


def run_until_its_deadline(place: Place) -> ToolResult:
    """Have a run end a command, as its time is up."""
    model = ScriptedModel([call("bash", command=ENDLESS.replace("echo > ready; ", "")), "Done."])
    return Runner([place.tool()], model=model, limits=Limits(max_seconds=1)).run("Go.").calls[0].result


def call_with_a_deadline(place: Place) -> ToolResult:
    """Have a call's own context end a command, as its time is up."""
    context = ToolContext(deps=None)
    context.cancellation.restart(1)
    return Toolbox([place.tool()]).call("bash", {"command": ENDLESS.replace("echo > ready; ", "")}, context)


def call_with_a_timeout(place: Place) -> ToolResult:
    """Have a tool's own time end a command."""
    subject = tool(place.tool(), timeout=1)
    return Toolbox([subject]).call("bash", {"command": ENDLESS.replace("echo > ready; ", "")})


def cancel_a_context(place: Place) -> ToolResult:
    """Cancel the context of a call, in an event loop."""

    async def go() -> ToolResult:
        context = ToolContext(deps=None)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(place.wait, context.cancellation.cancel)
            return await Toolbox([place.tool()]).acall("bash", {"command": ENDLESS}, context)

    return asyncio.run(go())


def cancel_handle(place: Place) -> ToolResult:
    """Cancel a run in the background."""
    handle = Runner([place.tool()], model=ScriptedModel([call("bash", command=ENDLESS)])).start("Go.")
    place.wait(handle.cancel)
    return handle.result(10).calls[0].result


def cancel_stream(place: Place) -> ToolResult:
    """Cancel a run from beside its stream."""
    runner = Runner([place.tool()], model=ScriptedModel([call("bash", command=ENDLESS)]))
    with runner.stream("Go.") as events, ThreadPoolExecutor(1) as pool:
        pool.submit(place.wait, events.cancel)
        list(events)
    return events.result.calls[0].result


def cancel_task(place: Place) -> ToolResult:
    """Cancel the task of a run."""

    async def go() -> ToolResult:
        runner = Runner([place.tool()], model=ScriptedModel([call("bash", command=ENDLESS)]))
        task = asyncio.ensure_future(runner.arun("Go."))
        await asyncio.to_thread(place.wait, lambda: None)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        error = caught.value if sys.version_info >= (3, 11) else caught.value.__context__
        result: ToolResult = vars(error)["result"].calls[0].result
        return result

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("end_it", "kind", "text"),
    [
        (run_until_its_deadline, "timed_out", "first\nTimed out."),
        (call_with_a_deadline, "timed_out", "first\nTimed out."),
        (call_with_a_timeout, "timed_out", "first\nTimed out."),
        (cancel_a_context, "cancelled", "first\nCancelled"),
        (cancel_handle, "cancelled", "first\nCancelled"),
        (cancel_stream, "cancelled", "first\nCancelled"),
        (cancel_task, "cancelled", "first\nCancelled"),
    ],
)
def test_output_of_a_cancelled_command(
    place: Place, end_it: Callable[[Place], ToolResult], kind: str, text: str
) -> None:
    """The result of a cancelled command has its output so far, and no process is left."""
    result = end_it(place)
    for _ in range(5):  # on a busy machine the end of a command takes longer than a run waits for it
        assert is_over(place.mark)
        if result.text in ABANDONED:
            result = end_it(place)

    assert (text, kind) == (result.text, result.kind)


def test_handle_is_cancelled(place: Place) -> None:
    """When a run in the background has been cancelled, its call is answered, and nothing of its command is left."""
    handle = Runner([place.tool()], model=ScriptedModel([call("bash", command=DEAF)])).start("Go.")
    place.wait(handle.cancel)
    kinds = [subject.result.kind for subject in handle.result().calls]

    assert (["cancelled"], True) == (kinds, is_over(place.mark))


def test_task_is_cancelled(place: Place) -> None:
    """When a task that waits for a command has been cancelled, nothing of the command is left."""

    async def go() -> bool:
        task = asyncio.ensure_future(Toolbox([place.tool()]).acall("bash", {"command": DEAF}))
        await asyncio.to_thread((place.path / "ready").read_text)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return is_over(place.mark)

    assert asyncio.run(go())


def test_cancelled_before_start(place: Place) -> None:
    """A command that was cancelled before it started does nothing."""
    context = ToolContext(deps=None)
    context.cancellation.cancel()

    result = place.call("touch here", context)

    assert ("Cancelled", ["ready"]) == (result.error, [path.name for path in place.path.iterdir()])


def test_signals_to_the_group(place: Place) -> None:
    """Signals that a command sends to its own group or its guard's do not hide its exit status."""
    result = place.call("trap '' TERM INT HUP; kill -TERM 0; kill -INT 0; echo on")

    assert "Exit code: 0\non\n" == result.value


def test_cancelled_at_random(place: Place) -> None:
    """Whenever a command is cancelled, nothing of it is left: no process, no descriptor, no zombie."""
    chance = random.Random(6)  # noqa: S311  no secret
    times = [chance.uniform(0, 0.2) for _ in range(CANCELS)]
    subject = place.tool()
    run_command(subject, "true")  # so that what is opened once is open
    before = held()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda seconds: cancelled_after(subject, seconds), times))

    assert (True, [], set()) == (
        set(results) <= {"cancelled", None},
        list_living(place.mark),
        held() - before,
    )


def cancelled_after(subject: Tool[..., Any], seconds: float) -> str | None:
    """Run a command that escapes, and cancel it after a time."""
    context = ToolContext(deps=None)
    timer = threading.Timer(seconds, context.cancellation.cancel)
    timer.start()
    command = "setsid sleep 600 & (sleep 600 & sleep 600) & sleep 600"
    kind = run_command(subject, command, context).kind
    timer.join()
    return kind


def test_a_run_is_cancelled(place: Place) -> None:
    """When a run has been cancelled, nothing of its command lives."""
    script = [call("bash", command="setsid sleep 600 & echo > ready; sleep 600")]
    runner = Runner([place.tool()], model=ScriptedModel(script))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(place.wait, runner.cancel)
        result = runner.run("Go.")

    assert ("cancelled", []) == (result.finish_reason, list_living(place.mark))


def test_many_at_once(place: Place) -> None:
    """Many commands run side by side, each with its own output."""
    subject = place.tool()
    with ThreadPoolExecutor(64) as pool:
        results = [pool.submit(run_command, subject, f"echo {n}") for n in range(COMMANDS)]

    assert ([f"Exit code: 0\n{n}\n" for n in range(COMMANDS)], []) == (
        [result.result().value for result in results],
        list_living(place.mark),
    )


def test_in_an_event_loop(place: Place) -> None:
    """Commands run in an event loop without blocking it."""
    box = Toolbox([place.tool()])

    async def go() -> list[str | None]:
        return [
            result.text
            for result in await asyncio.gather(*(box.acall("bash", {"command": f"echo {n}"}) for n in range(4)))
        ]

    assert [f"Exit code: 0\n{n}\n" for n in range(4)] == asyncio.run(go())


def test_in_a_stream(place: Place) -> None:
    """A stream has the output of a command."""
    model = ScriptedModel([call("bash", command="echo hi"), "Done."])

    text = [e.result.text for e in Runner([place.tool()], model=model).stream("Go.") if isinstance(e, ToolCallFinished)]

    assert ["Exit code: 0\nhi\n"] == text


def test_floods(tmp_path: Path) -> None:
    """Output of any size, in both streams at once, does not grow memory or hide the exit status."""
    bash = bash_tool(tmp_path, max_output=1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = run_command(bash, "yes | head -c 150M & yes | head -c 100M >&2; wait")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    assert (0, True) == (result.details["exit_code"], after - before < 20_000)  # kilobytes


def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C ends a command with all that it started, and then raises KeyboardInterrupt."""
    mark = str(randbelow(10**18))
    os.mkfifo(tmp_path / "ready")
    script = (
        "import sys; from toolkit import Toolbox; from toolkit.builtin.shell import shell_tool\n"
        f"made = shell_tool({str(tmp_path)!r}, env={{'MARK': {mark!r}}})\n"
        "try: Toolbox([made]).call('shell_exec', {'command': 'setsid sleep 600 & echo > ready; sleep 600'})\n"
        "except KeyboardInterrupt: sys.exit(7)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as program:
        (tmp_path / "ready").read_text()
        os.killpg(program.pid, signal.SIGINT)

    assert (7, []) == (program.returncode, list_living(mark))


def test_killed_with_its_command(tmp_path: Path) -> None:
    """A program that is killed takes its commands with it."""
    mark = str(randbelow(10**18))
    os.mkfifo(tmp_path / "ready")
    script = (
        "from toolkit import Toolbox; from toolkit.builtin.shell import shell_tool\n"
        f"made = shell_tool({str(tmp_path)!r}, env={{'MARK': {mark!r}}})\n"
        "Toolbox([made]).call('shell_exec', {'command': 'setsid sleep 600 & echo $$ > ready; sleep 600'})\n"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as program:
        shell = int((tmp_path / "ready").read_text())
        end_of_shell = os.pidfd_open(shell)
        program.kill()
    wait_for(end_of_shell)

    assert True is end(Marked(mark.encode()))


def wait_for(process: int) -> None:
    """Wait for the end of a process, and reap it."""
    import select

    select.select([process], [], [])
    os.close(process)


@pytest.mark.parametrize(
    ("script", "called_off", "message"),
    [
        pytest.param("sleep 600 & exit 3", False, "768 0\n", id="done"),
        pytest.param("trap '' TERM; (trap '' TERM; sleep 600) & sleep 600", True, "0\n", id="called off"),
    ],
)
def test_without_subreapers(script: str, called_off: bool, message: str) -> None:
    """On systems without subreapers, a command's process group is ended."""
    mark = str(randbelow(10**18))
    program = (
        "import marshal, os, socket; from toolkit.builtin.shell.guard import watch\n"
        "library, control = socket.socketpair()\n"
        f"if {called_off}: library.shutdown(socket.SHUT_WR)\n"
        f"begin = lambda: os.setsid() or os.execvp('bash', ['bash', '-c', {script!r}])\n"
        "code = watch(begin, control.fileno(), adopts=False)\n"
        "control.close()\n"
        "report = library.recv(100)\n"
        "print(*[marshal.loads(report)] if report else [], code)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "MARK": mark}, capture_output=True)

    assert (message, []) == (done.stdout.decode(), list_living(mark))


def test_no_leaks(place: Place) -> None:
    """After many commands no descriptor, zombie or process is left."""
    subject = place.tool()
    run_command(subject, "true")  # so that what is opened once is open
    before = held()
    with ThreadPoolExecutor(4) as pool:
        codes = {
            result.details["exit_code"]
            for result in pool.map(lambda n: run_command(subject, f"sleep 600 & exit {n % 2}"), range(COMMANDS))
        }

    assert ({0, 1}, [], set()) == (codes, list_living(place.mark), held() - before)


def test_no_descriptors_left(tmp_path: Path) -> None:
    """Commands that could not be run leave no descriptor either."""
    box = Toolbox([shell_tool(tmp_path, env={"PATH": "/nowhere"})])
    box.call("shell_exec", {"command": "echo"})  # starts the event loop's thread, which stays
    before = held()
    for _ in range(3):
        box.call("shell_exec", {"command": "echo"})

    assert set() == held() - before


def test_out_of_descriptors(tmp_path: Path) -> None:
    """If the system has no more descriptors, the call fails with the reason."""
    box = Toolbox([shell_tool(tmp_path)])
    box.call("shell_exec", {"command": "echo"})  # opens what stays open
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 1, hard))
    try:
        result = box.call("shell_exec", {"command": "echo"})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert "Failed to execute: Too many open files" == result.text
