"""A worker of durable runs, until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path

from temporalio.client import Client

from toolkit import Runner
from toolkit.durable import DevServer, Worker
from toolkit.durable.server import PORT
from toolkit.errors import RunError


def work(runner: Runner, *, address: str | None, namespace: str, queue: str, file: Path | None) -> None:
    """Work until Ctrl-C, or until the system ends the process.

    Args:
        runner: The runner.
        address: The server; None for that of this machine.
        namespace: The server's namespace.
        queue: The task queue.
        file: File of a development server to start; None for a server that runs already.

    Raises:
        KeyboardInterrupt: The end of the work.
        RunError: The server cannot be reached.
        DefinitionError: The development server is not installed.
    """

    async def go() -> None:
        if file is not None:
            async with DevServer(file) as server:
                await _work_at(runner, server.address, namespace, queue)
        else:
            await _work_at(runner, address or f"127.0.0.1:{PORT}", namespace, queue)

    asyncio.run(go())


async def _work_at(runner: Runner, address: str, namespace: str, queue: str) -> None:
    try:
        client = await Client.connect(address, namespace=namespace)
    except RuntimeError as error:
        raise RunError(
            f"No Temporal server answers at {address}. Pass --address, or start one for development with --dev FILE: "
            f"{str(error).splitlines()[0]:.200}"
        ) from None
    async with Worker(client, runner, task_queue=queue):
        print(f"Working on the queue {queue!r} of {address}; Ctrl-C ends it.", file=sys.stderr, flush=True)
        await _wait_for_interrupt()
    raise KeyboardInterrupt


async def _wait_for_interrupt() -> None:
    """Wait for SIGINT or SIGTERM, after which the worker ends its calls; without signal handlers, until cancelled."""
    interrupted, loop = asyncio.Event(), asyncio.get_running_loop()
    with suppress(NotImplementedError):  # on Windows, where Ctrl-C cancels the task
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupted.set)
    await interrupted.wait()
