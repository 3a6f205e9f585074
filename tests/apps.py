"""Servers of ASGI applications on this machine, for tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from typing_extensions import override


class Server(uvicorn.Server):
    """uvicorn that looks a hundred times a second, and not ten times, whether it is to stop."""

    @override
    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:  # noqa: ASYNC110  a flag
            await asyncio.sleep(0.01)


@contextmanager
def serve(app: Any, port: int = 0) -> Iterator[str]:
    """Serve an app, and yield its address."""
    running = Server(uvicorn.Config(app, port=port, log_level="critical", ws="none", timeout_graceful_shutdown=0))
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        threading.Event().wait(0.01)
    try:
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join()
