"""Start a run, or attach to one by its id: follow it, and decide on its calls. README.md has the steps."""

from __future__ import annotations

import argparse
import asyncio

from agent import runner  # type: ignore[import-not-found]  # the file beside this one
from temporalio.client import Client

from toolkit.durable import DurableRun, DurableRunner
from toolkit.models import ModelResponse, ToolMessage


async def decide(run: DurableRun, *, yes: bool) -> None:
    """Ask about each call that waits, until the run has ended."""
    while (status := await run.status()).phase != "finished":
        for waiting in status.pending:
            question = f"{waiting.call.name}({waiting.arguments})? [y/n] "
            answer = "y" if yes else await asyncio.to_thread(input, question)
            await run.approve(waiting.call.id, answer == "y")
        await asyncio.sleep(0.5)


async def follow(run: DurableRun) -> None:
    """Print the messages as they come."""
    async for message in run.messages():
        if isinstance(message, ToolMessage):
            print(f"{message.name}: {message.text}", flush=True)
        elif isinstance(message, ModelResponse) and message.text:
            print(message.text, flush=True)


async def main() -> None:
    """Start or attach, then follow to the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run_id", nargs="?", help="a run that was started before")
    parser.add_argument("--address", default="localhost:7233")
    parser.add_argument("--queue", default="toolkit")
    parser.add_argument("--yes", action="store_true", help="approve each call")
    given = parser.parse_args()
    runs = DurableRunner(await Client.connect(given.address), runner, task_queue=given.queue)
    run = await (runs.attach(given.run_id) if given.run_id else runs.start("Count the birds, and ring the kea."))
    print(f"run {run.id}", flush=True)
    await asyncio.gather(follow(run), decide(run, yes=given.yes))
    print((await run.result()).finish_reason)


if __name__ == "__main__":
    asyncio.run(main())
