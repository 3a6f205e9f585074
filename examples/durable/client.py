"""Start a run, or attach to one by its id: follow it, and decide on its calls. README.md has the steps."""

from __future__ import annotations

import argparse
import asyncio

from agent import runner  # type: ignore[import-not-found]  # the file beside this one
from temporalio.client import Client

from toolkit.durable import DurableRun, DurableRunner
from toolkit.events import ApprovalNeeded, ResultsAdded, RunFinished, TurnFinished


async def follow(run: DurableRun, *, yes: bool) -> None:
    """Print what happens, and ask about each call that waits, until the run has ended."""
    async for event in run.events():
        match event:
            case ResultsAdded(messages=messages):
                for message in messages:
                    print(f"{message.name}: {message.text}", flush=True)
            case TurnFinished(response=response) if response.text:
                print(response.text, flush=True)
            case ApprovalNeeded(approval=waiting):
                question = f"{waiting.call.name}({waiting.arguments})? [y/n] "
                answer = "y" if yes else await asyncio.to_thread(input, question)
                await run.approve(waiting.call.id, answer == "y")
            case RunFinished(finish_reason=reason):
                print(reason)


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
    await follow(run, yes=given.yes)


if __name__ == "__main__":
    asyncio.run(main())
