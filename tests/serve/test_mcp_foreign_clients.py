"""`toolkit serve` with clients of others, each in an environment of its own; only where TOOLKIT_SERVERS is set."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.environments import install_packages

PLACE = os.environ.get("TOOLKIT_SERVERS")
HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}

pytestmark = [
    pytest.mark.skipif(not PLACE, reason="TOOLKIT_SERVERS is not set"),
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("public servers"),
]

TOOLS = '''
from toolkit import ToolError, tool


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="destructive", approve=True)
def remove(name: str) -> str:
    """Remove a file."""
    return f"removed {name}"


@tool
def fail() -> str:
    """Fail."""
    raise ToolError("no such city")
'''


@contextmanager
def serve(way: str, tools: Path) -> Iterator[list[str]]:
    """Give what a client needs: the command that it starts, or the address of a running server."""
    command = [sys.executable, "-m", "toolkit", "serve", str(tools)]
    if way == "stdio":
        yield command
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([*command, "--http", str(port)], env=ENVIRONMENT, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
            yield [f"http://127.0.0.1:{port}/mcp"]
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("package", "requires", "way"),
    [
        ("fastmcp", (), "stdio"),
        ("fastmcp", (), "http"),
        ("mcp", ("mcp<2",), "stdio"),
        ("mcp", ("mcp<2",), "http"),
        ("toolbox-core", (), "http"),
    ],
)
def test_foreign_client(package: str, requires: tuple[str, ...], way: str, tmp_path: Path) -> None:
    """It lists the tools, calls them, is asked about the one that requires approval, and reads errors."""
    python = install_packages(f"{PLACE}", f"client-{package}", *(requires or (package,))) / "python"
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    with serve(way, tmp_path / "tools.py") as address:
        words = [str(python), str(HERE / "foreign_client.py"), package, way, *address]
        done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120)
    assert 0 == done.returncode, done.stderr
    names, texts, asked = json.loads(done.stdout.splitlines()[-1])
    is_asked = package != "toolbox-core"

    assert ["add", "remove", "fail"] == names
    assert ["3", "no such city"] == texts[::2]
    assert texts[1].endswith("removed x" if is_asked else "This client cannot ask its user for approval.")
    assert ['Run remove with {"name": "x"}?'] * is_asked == asked
