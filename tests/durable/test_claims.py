"""Claim check: what is too large for the server is kept in a store, and a run does not notice."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.converter import DataConverter

from tests.durable.support import Durable
from tests.durable.test_replay import Reversing, decode
from toolkit import DefinitionError, Runner, tool
from toolkit.durable import ClaimCheck, DevServer, DurableRunner, PayloadDirectory, Worker
from toolkit.errors import RunError, StoreError
from toolkit.events import ResultsAdded, TurnFinished
from toolkit.models import UserMessage
from toolkit.testing import ScriptedModel, call

MEGABYTE = 1_000_000


@tool(max_result=10 * MEGABYTE)
def dump() -> str:
    """Dump."""
    return "result " * (5 * MEGABYTE // 7)


class Shelf:
    """A store in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def save(self, data: bytes) -> str:
        self.kept[str(len(self.kept))] = data
        return str(len(self.kept) - 1)

    def load(self, key: str) -> bytes:
        return self.kept[key]


def run(durable: Durable, check: ClaimCheck, prompt: str) -> Any:
    """Run with a tool whose result is large; returns the result and the text of the history."""

    async def go() -> Any:
        converter = DataConverter(payload_codec=check)
        client = await Client.connect(durable.address, data_converter=converter)
        runner = Runner([dump], model=ScriptedModel([[call("dump")], "Done."]), max_result=10 * MEGABYTE)
        async with Worker(client, runner, task_queue=durable.queue):
            run = await DurableRunner(client, runner, task_queue=durable.queue).start(prompt)
            result = await run.result()
            events = [event async for event in run.events()]
            assert [each.response for each in events if isinstance(each, TurnFinished)] == [*result.messages[1::2]]
            assert [each.messages for each in events if isinstance(each, ResultsAdded)] == [result.messages[2:3]]
            return result, decode((await client.get_workflow_handle(run.id).fetch_history()).to_json_dict())

    return asyncio.run(go())


def test_five_megabytes(durable: Durable, tmp_path: Path) -> None:
    """A prompt and a result of 5 MB each go through a run as in one process; the history is short, the files whole."""
    prompt = "prompt " * (5 * MEGABYTE // 7)

    result, history = run(durable, ClaimCheck(tmp_path), prompt)

    assert ("Done.", dump()) == (result.output, result.calls[0].result.text)
    assert UserMessage(prompt) == result.messages[0]
    assert len(history) < 100_000
    assert any(b"prompt prompt" in file.read_bytes() for file in tmp_path.glob("*/*"))


def test_a_store_of_ones_own_and_a_codec(durable: Durable) -> None:
    """A codec is applied before the store, which may be any object; small payloads do not go there."""
    shelf = Shelf()

    result, history = run(durable, ClaimCheck(shelf, codec=Reversing(), min_bytes=100_000), "A question.")

    assert "Done." == result.output
    assert 2 <= len(shelf.kept) and not any(b"result result" in data for data in shelf.kept.values())
    assert all(len(data) > 100_000 for data in shelf.kept.values())
    assert "question" not in history and len(history) < 100_000


def test_too_large_for_a_worker(durable: Durable, tmp_path: Path) -> None:
    """A conversation that a busy worker could not read in time is refused, with a store, too."""
    with pytest.raises(RunError, match="a step may have 20,000,000"):
        run(durable, ClaimCheck(tmp_path), "prompt " * (3 * MEGABYTE))


def test_directory(tmp_path: Path) -> None:
    """A directory has each payload once, checks what it reads, and deletes what is old."""
    store = PayloadDirectory(tmp_path / "new")
    key = store.save(b"data")
    (file,) = (tmp_path / "new").glob("*/*")

    assert (key, b"data") == (store.save(b"data"), store.load(key))
    made = (file, file.parent, tmp_path / "new")
    assert [0o600, 0o700, 0o700] == [stat.S_IMODE(each.stat().st_mode) for each in made]
    assert 0 == store.prune(60)
    assert b"data" == store.load(key)
    file.write_bytes(b"other")
    for wrong in (key, "0" * 64, "../x"):
        with pytest.raises(StoreError):
            store.load(wrong)
    os.utime(file, (0, 0))
    assert (1, 0) == (store.prune(60), store.prune(0))
    with pytest.raises(ValueError, match="seconds=-1"):
        store.prune(-1)
    assert not file.exists()


@pytest.mark.parametrize("options", [{"min_bytes": 0}, {"store": 3}, {"codec": "zip"}])
def test_wrong_options(options: dict[str, Any]) -> None:
    """A size that is no positive whole number, and what is no store or codec, are refused by their names."""
    with pytest.raises(DefinitionError, match=f"{next(iter(options))}="):
        ClaimCheck(**{"store": Shelf(), **options})


@pytest.mark.parametrize("options", [{"port": "7233"}, {"port": -1}, {"options": "--headless"}, {"options": 3}])
def test_wrong_options_of_a_server(options: dict[str, Any]) -> None:
    """A port that is no number, and options that are no list, are refused when the server is made."""
    with pytest.raises(DefinitionError, match=f"{next(iter(options))}="):
        DevServer(**options)
