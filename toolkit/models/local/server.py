"""Servers of GGUF files over HTTP on loopback, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

from toolkit.errors import NoModelError

START_SECONDS = 120.0  # enough to read the largest model for a laptop from disk
STOP_SECONDS = 2.0


class LlamaServer:
    """An OpenAI-compatible server of a GGUF file on a free port of 127.0.0.1, until it is closed or the process ends.

    Attributes:
        base_url: Address for a client.
        api_key: Random key, made for this server.
        pid: Id of its process.

    Raises:
        NoModelError: The server did not start.
    """

    def __init__(self, path: Path) -> None:
        process = _spawn(path)
        self._stop = weakref.finalize(self, _stop, process)
        try:
            report = _read_report(process)
        except BaseException:
            self.close()
            raise
        if "error" in report:
            self.close()
            raise NoModelError(f"{path.name} could not be served: {report['error']}")
        self._process = process
        self.pid: int = process.pid
        self.base_url: str = report["base_url"]
        self.api_key: str = report["api_key"]

    def close(self) -> None:
        """Stop the server and wait for its end; a second call does nothing."""
        self._stop()

    @property
    def is_open(self) -> bool:
        """True while the server is running."""
        return self._stop.alive and self._process.poll() is None


# By process and file: a fork starts servers of its own, and lets go of its parent's, which end with the parent.
_servers: dict[int, dict[Path, LlamaServer]] = {}
_starting = threading.Lock()


def share_server(path: Path) -> LlamaServer:
    """Return the server of a file, which all models of this process share; it is started at the first use.

    Raises:
        NoModelError: The server did not start.
    """
    with _starting:
        if os.getpid() not in _servers:
            _servers.clear()
        own = _servers.setdefault(os.getpid(), {})
        if path not in own or not own[path].is_open:
            own[path] = LlamaServer(path)
        return own[path]


def _spawn(path: Path) -> subprocess.Popen[str]:
    child = Path(__file__).with_name("child.py")
    return subprocess.Popen(  # noqa: S603  our own interpreter and script
        [sys.executable, str(child), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # so that Ctrl-C in a terminal reaches the owner only
    )


def _read_report(process: subprocess.Popen[str]) -> dict[str, str]:
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    try:
        line = process.stdout.readline() if process.stdout else ""
    finally:
        watchdog.cancel()
    report: dict[str, str] = json.loads(line or '{"error": "its process died or hung at the start"}')
    return report


def _stop(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
