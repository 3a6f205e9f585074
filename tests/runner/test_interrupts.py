"""Ctrl-C ends a run, and the program, while a sync tool keeps running: nothing waits for its thread."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from itertools import count
from types import FrameType
from typing import Any

import pytest

from toolkit import Limits, Runner, RunResult, RunState
from toolkit.models import ModelResponse
from toolkit.testing import ScriptedModel, call

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no signal reaches another process there")

PROGRAM = """
import asyncio, signal, sys, time, types
from toolkit import Runner
from toolkit.testing import ScriptedModel, call

way, count = sys.argv[1], int(sys.argv[2])

def sleep(n: int) -> None:
    '''Sleep.'''
    if n == count - 1:
        print("asleep", flush=True)
    time.sleep(3600)

runner = Runner([sleep], model=ScriptedModel([[call("sleep", n=n) for n in range(count)]]))

async def iterate() -> None:
    async for _ in runner.astream("go"):
        pass

async def run_cell() -> None:
    '''Run as a Jupyter kernel does: its handler does not wake the loop.'''
    sys.modules["ipykernel"] = types.ModuleType("ipykernel")
    task = asyncio.ensure_future(runner.arun("go"))
    loop = asyncio.get_running_loop()
    signal.signal(signal.SIGINT, lambda *_: loop.call_soon(task.cancel))
    await task

ways = {
    "run": lambda: runner.run("go"),
    "stream": lambda: list(runner.stream("go")),
    "start": lambda: runner.start("go").result(),
    "arun": lambda: asyncio.run(runner.arun("go")),
    "astream": lambda: asyncio.run(iterate()),
    "notebook": lambda: asyncio.run(run_cell()),
}
try:
    ways[way]()
except (KeyboardInterrupt, asyncio.CancelledError):
    print("interrupted")
"""


@pytest.mark.parametrize(
    ("way", "count"),
    [("run", 1), ("run", 3), ("stream", 1), ("start", 3), ("arun", 1), ("arun", 3), ("astream", 3), ("notebook", 1)],
)
def test_first_interrupt(way: str, count: int) -> None:
    """The first Ctrl-C leaves a run whose tools sleep for an hour, and the program then ends."""
    command = [sys.executable, "-c", PROGRAM, way, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout
            assert "asleep\n" == program.stdout.readline()
            threading.Event().wait(0.1)  # the main thread waits, too: it does not look again for an earlier signal
            program.send_signal(signal.SIGINT)
            output = program.communicate(timeout=60)
        finally:
            program.kill()

    assert (0, ("interrupted\n", "")) == (program.returncode, output)


def interrupt_at(number: int, file: str) -> tuple[bool, RunResult | None]:
    """Interrupt a run at the n-th function that a module calls. Return whether it was, and the result."""
    left = number

    def watch(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        # What a generator raises when it is deleted is lost.
        is_function = event == "call" and frame.f_code.co_name != "<genexpr>"
        if is_function and frame.f_back and frame.f_back.f_code.co_filename.endswith(file):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    script = [[call("abs", x=-1), call("abs", x=-2)], "", "Done."]
    runner = Runner([abs], model=ScriptedModel(script), limits=Limits(max_calls=1, on_limit="stop"))
    sys.setprofile(watch)
    try:
        runner.run("go")
    except KeyboardInterrupt as error:
        return True, getattr(error, "result", None)
    finally:
        sys.setprofile(None)
    return False, None


@pytest.mark.parametrize("file", ["/conversation.py", "/run.py"])
def test_interrupt_at_any_moment(file: str) -> None:
    """Wherever Ctrl-C comes, each call has a result, in the history too, and the state can be read."""
    runs = set()
    for number in count():
        was_interrupted, result = interrupt_at(number, file)
        if not was_interrupted:
            break
        if result is not None:
            runs.add(RunState.from_json(result.state.to_json()).run_id)
            responses = [message for message in result.messages if isinstance(message, ModelResponse)]
            calls = [each for response in responses for each in response.calls]
            assert calls == [end.call for end in result.calls]

    assert len(runs) > 20


def test_run_after_an_interrupt() -> None:
    """Wherever Ctrl-C comes around a call, the next run on this thread is not cancelled."""
    number = 0
    while interrupt_at(number, "tool_calls.py")[0]:
        number += 1
        assert "stop" == Runner(model=ScriptedModel(["Hi."])).run("go").finish_reason

    assert number > 10
