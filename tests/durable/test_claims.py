"""External storage: what is too large for the server is kept elsewhere, and a run does not notice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.converter import DataConverter

from tests.durable.support import Durable, Shelf, make_converter
from tests.durable.test_replay import Reversing, decode
from toolkit import DefinitionError, Runner, tool
from toolkit.durable import DevServer, DurableRunner, Worker
from toolkit.errors import RunError
from toolkit.events import ResultsAdded, TurnFinished
from toolkit.models import UserMessage
from toolkit.testing import ScriptedModel, call

MEGABYTE = 1_000_000


@tool(max_result=10 * MEGABYTE)
def dump() -> str:
    """Dump."""
    return "result " * (5 * MEGABYTE // 7)


def run(durable: Durable, converter: DataConverter, prompt: str) -> Any:
    """Run with a tool whose result is large; returns the result and the text of the history."""

    async def go() -> Any:
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


def test_five_megabytes(durable: Durable) -> None:
    """A prompt and a result of 5 MB each go through a run as in one process, and the history is short."""
    shelf = Shelf()
    prompt = "prompt " * (5 * MEGABYTE // 7)

    result, history = run(durable, make_converter(shelf, 256 * 1024), prompt)

    assert ("Done.", dump()) == (result.output, result.calls[0].result.text)
    assert UserMessage(prompt) == result.messages[0]
    assert len(history) < 100_000
    assert any(b"prompt prompt" in data for data in shelf.kept.values())


def test_codec(durable: Durable) -> None:
    """A codec is applied before the store; small payloads do not go there."""
    shelf = Shelf()

    result, history = run(durable, make_converter(shelf, 100_000, Reversing()), "A question.")

    assert "Done." == result.output
    assert 2 <= len(shelf.kept) and not any(b"result result" in data for data in shelf.kept.values())
    assert all(len(data) > 100_000 for data in shelf.kept.values())
    assert "question" not in history and len(history) < 100_000


def test_too_large_for_a_worker(durable: Durable) -> None:
    """A conversation that a busy worker could not read in time is refused, with a store, too."""
    with pytest.raises(RunError, match="a step may have 20,000,000"):
        run(durable, make_converter(Shelf(), 256 * 1024), "prompt " * (3 * MEGABYTE))


@pytest.mark.parametrize("options", [{"port": "7233"}, {"port": -1}, {"options": "--headless"}, {"options": 3}])
def test_wrong_options_of_a_server(options: dict[str, Any]) -> None:
    """A port that is no number, and options that are no list, are refused when the server is made."""
    with pytest.raises(DefinitionError, match=f"{next(iter(options))}="):
        DevServer(**options)
