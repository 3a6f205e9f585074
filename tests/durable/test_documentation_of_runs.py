"""The page about durable runs and the example with its steps do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.durable.support import Durable, environment, omit_abort

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "durable"


def start(command: list[str], home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603
        [sys.executable, *command],
        cwd=home, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def stop(process: subprocess.Popen[str]) -> str:
    """Kill a process; returns what it has printed, errors included."""
    process.kill()
    return "".join(process.communicate(timeout=30))


def test_page(durable: Durable, tmp_path: Path) -> None:
    """Agent, worker and client of the page are whole programs; the client prints what the page says."""
    text = (ROOT / "docs" / "durable.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (expected,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    for name, program in zip(("agent", "worker", "client"), programs, strict=True):
        own = program.replace("localhost:7233", durable.address).replace('"toolkit")', f'"{durable.queue}")')
        (tmp_path / f"{name}.py").write_text(own, encoding="utf-8")
    worker = start(["worker.py"], tmp_path)
    client = start(["client.py"], tmp_path)
    try:
        printed, errors = client.communicate(timeout=60)
        assert ("", expected) == (omit_abort(errors), printed)
    finally:
        stop(client)
        assert "" == stop(worker)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_example(durable: Durable, tmp_path: Path) -> None:
    """The steps of the example: the worker is killed while it counts, and the run finishes at another one."""
    for path in FOLDER.glob("*.py"):  # with less patience
        quick = path.read_text(encoding="utf-8").replace("time.sleep(3)", "time.sleep(1)")
        (tmp_path / path.name).write_text(quick, encoding="utf-8")
    command = ["-m", "toolkit", "worker", "agent.py", "--address", durable.address, "--queue", durable.queue]
    worker = start(command, tmp_path)
    client = start(["client.py", "--address", durable.address, "--queue", durable.queue, "--yes"], tmp_path)
    try:
        assert worker.stdout and "counting" in worker.stdout.readline()
        stop(worker)
        worker = start(command, tmp_path)
        printed, errors = client.communicate(timeout=100)
        assert [] == [line for line in omit_abort(errors).splitlines() if not line.endswith("Waiting.")]
        assert ["count_birds: 15", "count_birds: 14", "count_birds: 15", "count_birds: 14", "ring: kea has a ring"] == (
            printed.splitlines()[1:-2]
        )
        assert ["All bays are counted, and the kea has a ring.", "stop"] == printed.splitlines()[-2:]
    finally:
        stop(client)
        stop(worker)
