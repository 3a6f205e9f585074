"""A development server, and the runs of one test on it."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytest.importorskip("temporalio", reason='needs the extra "temporal"')

from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter, ExternalStorage, PayloadCodec, StorageDriver, StorageDriverClaim

from toolkit import Runner
from toolkit.durable import DurableRunner, Worker

T = TypeVar("T")
WAIT = 30.0


def free_port() -> int:
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@dataclass
class Durable:
    """Runs of one test: a task queue of its own."""

    address: str
    queue: str = field(default_factory=lambda: f"test-{uuid.uuid4().hex[:8]}")
    converter: DataConverter = DataConverter.default

    async def connect(self) -> Client:
        return await Client.connect(self.address, identity="test", data_converter=self.converter)

    async def runs(self, runner: Runner | None = None) -> DurableRunner:
        return DurableRunner(await self.connect(), runner, task_queue=self.queue)

    async def worker(self, runner: Runner, **options: Any) -> Worker:
        return Worker(await self.connect(), runner, task_queue=self.queue, **{"heartbeat": 1.0, **options})

    async def run(self, runner: Runner, prompt: str = "Go.", **options: Any) -> Any:
        """Run to the end with one worker."""
        async with await self.worker(runner, **options):
            return await (await self.runs(runner)).run(prompt)


class Shelf(StorageDriver):
    """A store of large payloads in memory, by their digests."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def name(self) -> str:
        return "shelf"

    async def store(self, context: object, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        return [StorageDriverClaim({"key": self.save(each.SerializeToString())}) for each in payloads]

    async def retrieve(self, context: object, claims: Sequence[StorageDriverClaim]) -> list[Payload]:
        return [Payload.FromString(self.load(each.claim_data["key"])) for each in claims]

    def save(self, data: bytes) -> str:
        key = sha256(data).hexdigest()
        self.kept[key] = data
        return key

    def load(self, key: str) -> bytes:
        return self.kept[key]


def make_converter(shelf: Shelf, threshold: int, codec: PayloadCodec | None = None) -> DataConverter:
    """Make a converter that stores payloads of `threshold` bytes or more elsewhere."""
    storage = ExternalStorage(drivers=[shelf], payload_size_threshold=threshold)
    return DataConverter(payload_codec=codec, external_storage=storage)


async def until(look: Callable[[], Awaitable[T]], is_there: Callable[[T], Any] = bool, seconds: float = WAIT) -> T:
    """Look again and again until something is there."""
    deadline = time.monotonic() + seconds
    while not is_there(found := await look()):
        assert time.monotonic() < deadline, f"still {found!r} after {seconds} s"
        await asyncio.sleep(0.05)
    return found


def omit_abort(errors: str) -> str:
    """Leave out that temporalio aborted a process at its very end, as it may on a busy machine: see `wait_at_exit`."""
    return errors.partition("Fatal Python error: PyGILState_Release")[0]


def environment() -> dict[str, str]:
    """The environment of a worker's process."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
