"""The calls of one turn: which of them run together, and their events as they come."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Literal, TypeAlias

from toolkit._concurrency.backend import Door
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import unended
from toolkit._context import unheard
from toolkit._messages import ToolCall, ToolResult
from toolkit.attempts import Tell
from toolkit.errors import Cancelled, TimedOut
from toolkit.events import CallEvent, ToolCallAbandoned, ToolCallFinished

# A thread or a task each: more calls than this in one turn wait for a place.
MAX_PARALLEL = 256


@dataclass(frozen=True)
class Batched:
    """Calls run side by side, `size` at a time: the next ones begin when all of those have ended."""

    size: int

    def __post_init__(self) -> None:
        if not isinstance(self.size, int) or isinstance(self.size, bool) or self.size < 1:
            raise ValueError(f"batched({self.size!r}): a batch holds a whole number of calls, at least 1.")


Order: TypeAlias = Literal["parallel", "sequential"] | Batched
CarryOut: TypeAlias = Callable[[ToolCall, Tell], Coroutine[Any, Any, ToolResult]]


def batched(size: int) -> Batched:
    """Order calls in batches: `Runner(..., order=batched(4))`.

    Raises:
        ValueError: No batch has that size.
    """
    return Batched(size)


def width_of(order: Order, width: int) -> int:
    """Say how many calls run at the same time, at most."""
    if order == "sequential":
        return 1
    return min(order.size, width) if isinstance(order, Batched) else width


def checked_order(order: Any) -> Order:
    """Give back an order that there is.

    Raises:
        ValueError: There is no such order.
    """
    if isinstance(order, Batched) or order in ("parallel", "sequential"):
        ordered: Order = order
        return ordered
    raise ValueError(f'invalid order {order!r}: use "sequential", "parallel" or batched(n).')


def batches(
    calls: Sequence[ToolCall], order: Order, runs_alone: Callable[[ToolCall], bool]
) -> list[Sequence[ToolCall]]:
    """Part the calls of a turn into those that run together, in call order; one that runs alone parts the others."""
    if order == "sequential":
        return [[call] for call in calls]
    size = order.size if isinstance(order, Batched) else len(calls)
    parted: list[Sequence[ToolCall]] = []
    for alone, group in groupby(calls, runs_alone):
        members, width = list(group), 1 if alone else size
        parted += (members[start : start + width] for start in range(0, len(members), width))
    return parted


async def execute(
    calls: Sequence[ToolCall],
    carry_out: CarryOut,
    door: Door,
    *,
    width: int = MAX_PARALLEL,
    until: Cancellation | None = None,
    apart: bool = False,
    heard: bool = True,
) -> AsyncGenerator[CallEvent | ToolCallFinished, None]:
    """Carry calls out together; one that fails harms no other.

    Args:
        calls: What is carried out.
        carry_out: Carries one call out.
        door: How to wait.
        width: How many run at the same time.
        until: When to wait no longer: calls without a result have one then.
        apart: Whether a single call has a thread of its own, so that what it tells is heard at once.
        heard: Whether anything may be told; to listen costs a task in an event loop.

    Yields:
        What the calls tell while they are at work; and an end for each, in the order in which they come.
    """
    told = door.channel() if heard else None
    left = {id(call): call for call in calls}

    async def timed(call: ToolCall) -> ToolCallFinished:
        began = time.perf_counter()
        result = await carry_out(call, told.put if told else unheard)
        return ToolCallFinished(call, result, time.perf_counter() - began)

    jobs = [partial(timed, call) for call in calls]
    began = time.perf_counter()
    try:
        async with aclosing(door.together(jobs, width, told, until=until, apart=apart)) as happened:
            async for event in happened:
                if isinstance(event, ToolCallFinished):
                    del left[id(event.call)]
                    if event.call.id in door.at_work:
                        yield ToolCallAbandoned(call=event.call, count=len(door.abandoned))
                yield event
    except (TimedOut, Cancelled) as error:
        for event in _given_up(left.values(), error, door, time.perf_counter() - began):
            yield event


def _given_up(
    calls: Iterable[ToolCall], end: TimedOut | Cancelled, door: Door, seconds: float
) -> Iterator[CallEvent | ToolCallFinished]:
    """End calls that nobody waits for any more."""
    for call in calls:
        works_on = call.id in door.at_work
        if works_on:
            yield ToolCallAbandoned(call=call, count=len(door.abandoned))
        yield ToolCallFinished(call, ToolResult.failed(unended(end) if works_on else end), seconds)
