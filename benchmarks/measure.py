"""Compare two ways to do one thing by alternating them, so that other load on the machine affects both.

A sample does the thing some times and gives the CPU seconds of one time. CPU is that of the whole process, all threads.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import repeat
from statistics import median
from time import process_time
from typing import TypeAlias

Sample: TypeAlias = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Duration of a measurement.

    Attributes:
        rounds: Pairs of samples of each row.
        seconds: CPU of one sample of something short.
        conversations: Long conversations of each kind.
        long_by_hand: Whether one is held by hand too, which takes longer than all the others.
    """

    rounds: int
    seconds: float
    conversations: int
    long_by_hand: bool


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Results of the rounds.

    Attributes:
        ratio: Median of the ratios of the pairs; not the ratio of the medians, since the machine's speed drifts.
        measured: CPU seconds, median.
        base: CPU seconds of what it is compared with, median.
    """

    ratio: float
    measured: float
    base: float


def compared(measured: Sample, base: Sample, rounds: int) -> Comparison:
    """Take samples in turn; the first one alternates from round to round."""
    base()  # what is built on first use is not measured
    measured()
    settle()
    return summed_up([_pair(measured, base, number) for number in range(rounds)])


def summed_up(pairs: list[tuple[float, float]]) -> Comparison:
    """Compare pairs of samples: the case and its baseline."""
    ratios = [measured / base for measured, base in pairs]
    return Comparison(
        ratio=median(ratios),
        measured=median(measured for measured, _ in pairs),
        base=median(base for _, base in pairs),
    )


def repeated(call: Callable[[], object], seconds: float) -> Sample:
    """Make a sample of a short call."""

    def times(number: int) -> float:
        began = process_time()
        for _ in repeat(None, number):
            call()
        return process_time() - began

    return _sized(times, seconds)


def repeated_in(loop: asyncio.AbstractEventLoop, call: Callable[[], Awaitable[object]], seconds: float) -> Sample:
    """Make a sample of a short call that is awaited; the loop is entered once for all of them."""

    async def in_loop(number: int) -> float:
        began = process_time()
        for _ in repeat(None, number):
            await call()
        return process_time() - began

    return _sized(lambda number: loop.run_until_complete(in_loop(number)), seconds)


@contextmanager
def event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Yield an event loop that many samples share, and close it."""
    with closing(asyncio.new_event_loop()) as loop:
        yield loop
        loop.run_until_complete(loop.shutdown_asyncgens())


def settle() -> None:
    """Freeze existing objects, so that the garbage collector does not walk them within a sample."""
    gc.collect()
    gc.freeze()


def _pair(measured: Sample, base: Sample, number: int) -> tuple[float, float]:
    if number % 2:
        return measured(), base()
    taken = base()
    return measured(), taken


def _sized(times: Callable[[int], float], seconds: float) -> Sample:
    """Find how many repetitions make a sample long enough for the clock."""
    number = 1
    times(number)  # what is built on first use would look like a long call
    while min(times(number), times(number)) < seconds:
        number *= 2
    return lambda: times(number) / number
