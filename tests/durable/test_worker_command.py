"""The command `toolkit worker`, and the development server that it starts."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.durable.support import environment, free_port, omit_abort
from toolkit.cli import main
from toolkit.durable import DevServer, DurableRunner
from toolkit.errors import RunError

AGENT = """
from toolkit import Runner, tool
from toolkit.testing import ScriptedModel, call

@tool
def add(a: int, b: int) -> int:
    '''Add.'''
    return a + b

runner = Runner([add], model=ScriptedModel([[call("add", a=1, b=2)], "It is 3."]))
"""


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "agent.py"
    path.write_text(AGENT, encoding="utf-8")
    return path


@pytest.mark.slow
def test_worker(agent: Path, tmp_path: Path) -> None:
    """The command works on the runs of a file's Runner until it is interrupted; the server's runs stay in the file."""
    port = free_port()

    async def go() -> tuple[str, str]:
        async with DevServer(tmp_path / "runs.db", port=port) as server:
            command = [
                sys.executable,
                "-m",
                "toolkit",
                "worker",
                str(agent),
                "--address",
                server.address,
                "--queue",
                "q",
            ]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())  # noqa: ASYNC220
            assert process.stderr
            said = process.stderr.readline()
            run = await DurableRunner(await Client.connect(server.address), task_queue="q").start("1 + 2?")
            output = (await run.result()).output
            process.send_signal(signal.SIGINT)
            code, errors = await asyncio.to_thread(process.wait, 30), process.stderr.read()
            # temporalio's threads may crash a process at its very end, mostly with a message
            assert ("", True) == (omit_abort(errors), code in (130, -signal.SIGABRT, -signal.SIGSEGV) or bool(errors))
            process.stderr.close()
        server = DevServer(tmp_path / "runs.db", port=port)
        client = await server.start()
        (kept,) = [each async for each in client.list_workflows("")]
        server.stop()
        assert kept.id == run.id
        return said, output

    assert (f"Working on the queue 'q' of 127.0.0.1:{port}; Ctrl-C ends it.\n", "It is 3.") == asyncio.run(go())


@pytest.mark.usefixtures("own_process")
def test_mistakes(agent: Path, server: DevServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file without a Runner, two servers, no queue, and what is not there are errors of one line."""
    tools = tmp_path / "tools.py"
    tools.write_text("from toolkit import tool\n@tool\ndef add(a: int) -> int:\n    '''Add.'''\n    return a\n")
    nowhere = f"127.0.0.1:{free_port()}"
    commands = {
        "has no Runner": [str(tools)],
        "leave out --address": [str(agent), "--dev", str(tmp_path / "a.db"), "--address", nowhere],
        f"at {nowhere}. Pass --address HOST:PORT, or start one for development with --dev FILE.\n": [
            *(str(agent), "--address", nowhere)
        ],
        "No Temporal server answers at :1.": [str(agent), "--address", ":1"],
        "--queue must be the name of a queue": [str(agent), "--address", server.address, "--queue", ""],
        "refuses the namespace 'birds'": [str(agent), "--address", server.address, "--namespace", "birds"],
    }
    for said, command in commands.items():
        assert 1 == main(["worker", *command])
        error = capsys.readouterr().err
        assert said in error and 1 == error.count("\n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_file_is_private(tmp_path: Path) -> None:
    """Only its owner may read the file of a server, which has whole conversations."""

    async def go() -> None:
        async with DevServer(tmp_path / "runs.db", port=free_port()):
            pass

    asyncio.run(go())
    assert ["0o600"] == [oct(file.stat().st_mode & 0o777) for file in tmp_path.glob("*.db")]


def test_port_is_taken(tmp_path: Path) -> None:
    """A server that cannot start says why; where another one listens, no client gets that one's runs."""
    port = free_port()

    async def go() -> None:
        async with DevServer(tmp_path / "one.db", port=port):
            with pytest.raises(RunError, match="take another port"):
                await DevServer(tmp_path / "two.db", port=port).start()
        with pytest.raises(RunError, match="Check that its directory exists"):
            await DevServer(tmp_path / "none" / "one.db", port=port).start()

    asyncio.run(go())
