"""Many prompts with one runner, some of them at the same time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import Any, TypeAlias

from toolkit._options import is_whole
from toolkit._runner.options import Prompt
from toolkit._runner.result import RunResult
from toolkit._runner.stream import RunHandle

# The outcome of each prompt: its result, or the exception that left its run.
Outcomes: TypeAlias = list[RunResult[Any] | Exception]


def run_all(
    start: Callable[[Prompt], RunHandle[Any]], prompts: Iterable[Prompt], max_parallel: int, *, progress: bool
) -> Outcomes:
    """Run prompts in the background, and return their outcomes, in order.

    An exception that leaves this function, KeyboardInterrupt included, cancels the runs.

    Args:
        start: Starts a run.
        prompts: The prompts.
        max_parallel: How many runs are active at the same time, at most.
        progress: Whether to count on standard error, where that is a terminal.
    """
    _check_parallel(max_parallel)
    waiting, ended = enumerate(prompts), SimpleQueue[int]()
    active, outcomes = dict[int, RunHandle[Any] | Exception](), dict[int, RunResult[Any] | Exception]()
    try:
        while True:
            for number, prompt in islice(waiting, max_parallel - len(active)):
                try:
                    active[number] = handle = start(prompt)
                except Exception as error:  # noqa: BLE001, PERF203  it is the outcome of the prompt
                    active[number] = error
                    ended.put(number)
                else:
                    handle.call_when_done(partial(ended.put, number))
            if not active:
                break
            number = ended.get()
            outcomes[number] = _collect(active.pop(number))
            _report(outcomes, progress=progress)
    finally:
        for begun in active.values():
            if isinstance(begun, RunHandle):
                begun.cancel()
        _end_report(progress=progress)
    return [outcomes[number] for number in sorted(outcomes)]


async def arun_all(
    run: Callable[[Prompt], Awaitable[RunResult[Any]]],
    prompts: Iterable[Prompt],
    max_parallel: int,
    *,
    progress: bool,
) -> Outcomes:
    """Do what `run_all` does, in the running event loop; cancelling it cancels the runs."""
    _check_parallel(max_parallel)
    waiting = enumerate(prompts)
    outcomes = dict[int, RunResult[Any] | Exception]()

    async def work() -> None:
        for number, prompt in waiting:
            try:
                outcomes[number] = await run(prompt)
            except Exception as error:  # noqa: BLE001  it is the outcome of the prompt
                outcomes[number] = error
            _report(outcomes, progress=progress)

    try:
        workers = [asyncio.ensure_future(work()) for _ in range(max_parallel)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    finally:
        _end_report(progress=progress)
    return [outcomes[number] for number in sorted(outcomes)]


def _check_parallel(max_parallel: object) -> None:
    if not is_whole(max_parallel, 1):
        raise ValueError(f"max_parallel={max_parallel!r} is not a whole number of runs, 1 or more.")


def _collect(begun: RunHandle[Any] | Exception) -> RunResult[Any] | Exception:
    try:
        return begun if isinstance(begun, Exception) else begun.result()
    except Exception as error:  # noqa: BLE001  it is the outcome of the prompt
        return error


def _report(outcomes: dict[int, Any], *, progress: bool) -> None:
    if progress and sys.stderr.isatty():
        failed = sum(isinstance(outcome, Exception) for outcome in outcomes.values())
        sys.stderr.write(f"\r{len(outcomes)} done{f', {failed} failed' if failed else ''}")
        sys.stderr.flush()


def _end_report(*, progress: bool) -> None:
    if progress and sys.stderr.isatty():
        sys.stderr.write("\n")
