"""Calls as data, carried out together: all of them, the first that succeeds, the first that ends.

The calls of one turn: which of them run together, and their events as they come.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Literal, TypeAlias

from toolkit._concurrency.backend import Backend
from toolkit._concurrency.cancellation import Cancellation
from toolkit._concurrency.threads import note_still_running
from toolkit._context import ToolContext, discard
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.invoke import Emit
from toolkit._execution.references import Dependencies, any_references
from toolkit._messages import ToolCall, ToolResult
from toolkit._tools.shared_values import SharedValues
from toolkit.errors import Cancelled, Failed, TimedOut
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
CarryOut: TypeAlias = Callable[[ToolCall, Emit], Coroutine[Any, Any, ToolResult]]


def batched(size: int) -> Batched:
    """Order calls in batches: `Runner(..., order=batched(4))`.

    Raises:
        ValueError: No batch has that size.
    """
    return Batched(size)


def parallel_limit(order: Order, width: int) -> int:
    """Say how many calls run at the same time, at most."""
    if order == "sequential":
        return 1
    return min(order.size, width) if isinstance(order, Batched) else width


def check_order(order: Any) -> Order:
    """Give back an order that there is.

    Raises:
        ValueError: There is no such order.
    """
    if isinstance(order, Batched) or order in ("parallel", "sequential"):
        ordered: Order = order
        return ordered
    raise ValueError(f'invalid order {order!r}: use "sequential", "parallel" or batched(n).')


def split_batches(
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


async def run_batch(
    calls: Sequence[ToolCall],
    carry_out: CarryOut,
    backend: Backend,
    *,
    width: int = MAX_PARALLEL,
    cancellation: Cancellation | None = None,
    apart: bool = False,
    heard: bool = True,
) -> AsyncGenerator[CallEvent | ToolCallFinished, None]:
    """Carry calls out together; one that fails harms no other.

    Args:
        calls: What is carried out.
        carry_out: Carries one call out.
        backend: How to wait.
        width: How many run at the same time.
        cancellation: When to wait no longer: calls without a result have one then.
        apart: Whether a single call has a thread of its own, so that what it tells is heard at once.
        heard: Whether anything may be told; to listen costs a task in an event loop.

    Yields:
        What the calls tell while they are at work; and an end for each, in the order in which they come.
    """
    told = backend.channel() if heard else None
    left = {id(call): call for call in calls}

    async def timed(call: ToolCall) -> ToolCallFinished:
        began = time.perf_counter()
        result = await carry_out(call, told.put if told else discard)
        return ToolCallFinished(call, result, time.perf_counter() - began)

    jobs = [partial(timed, call) for call in calls]
    began = time.perf_counter()
    try:
        async with aclosing(backend.run_all(jobs, width, told, cancellation=cancellation, apart=apart)) as happened:
            async for event in happened:
                if isinstance(event, ToolCallFinished):
                    del left[id(event.call)]
                    if event.call.id in backend.running:
                        yield ToolCallAbandoned(call=event.call, count=len(backend.abandoned))
                yield event
    except (TimedOut, Cancelled) as error:
        for event in _given_up(left.values(), error, backend, time.perf_counter() - began):
            yield event


def _given_up(
    calls: Iterable[ToolCall], end: TimedOut | Cancelled, backend: Backend, seconds: float
) -> Iterator[CallEvent | ToolCallFinished]:
    """End calls that nobody waits for any more."""
    for call in calls:
        works_on = call.id in backend.running
        if works_on:
            yield ToolCallAbandoned(call=call, count=len(backend.abandoned))
        yield ToolCallFinished(call, ToolResult.from_error(note_still_running(end) if works_on else end), seconds)


# By whom the calls of the run whose tool works here are carried out: what the tool calls in turn passes the same gates.
dispatching: ContextVar[Dispatcher | None] = ContextVar("dispatching", default=None)


@dataclass(frozen=True)
class ParallelCalls:
    """Carries calls out with the tools of one composition.

    Attributes:
        context: What the context of each call is made of.
        shared: What the calls share.
    """

    dispatcher: Dispatcher
    context: ToolContext[Any]
    backend: Backend
    shared: SharedValues

    async def all(self, calls: Iterable[ToolCall]) -> list[ToolResult]:
        """Carry all out; their results in call order."""
        own = _begun(calls)
        async with aclosing(self.ends(own)) as happened:
            ended = {id(event.call): event.result async for event in happened}
        return [ended[id(call)] for call in own]

    async def first(self, calls: Iterable[ToolCall], wanted: Callable[[ToolResult], bool]) -> ToolResult:
        """Carry all out until one ends as wanted, and give the others up; an error where none does."""
        own = _begun(calls)
        failed: dict[int, str] = {}
        async with aclosing(self.ends(own)) as happened:
            async for event in happened:
                if wanted(event.result):
                    return event.result
                failed[id(event.call)] = f"{event.call.name}: {event.result.error}"
        return ToolResult.from_error(Failed("; ".join(failed[id(call)] for call in own) or "there is no call"))

    async def ends(self, calls: Sequence[ToolCall]) -> AsyncGenerator[ToolCallFinished, None]:
        """Carry calls out at the same time, and give each end as it comes; those that are left are called off."""
        with self._left() as left:
            async with aclosing(self._events(calls, left)) as happened:
                async for event in happened:
                    if isinstance(event, ToolCallFinished):
                        yield event

    def _left(self) -> Cancellation:
        return Cancellation(parent=self.context.cancellation)

    def _events(self, calls: Sequence[ToolCall], left: Cancellation) -> AsyncGenerator[Any, None]:
        if any_references(self.dispatcher.tools):
            return self._in_order(calls, left)
        return run_batch(calls, partial(self._dispatched, left), self.backend)

    async def _in_order(self, calls: Sequence[ToolCall], left: Cancellation) -> AsyncGenerator[Any, None]:
        """Do the same with calls of which some wait for others."""
        linked = Dependencies.of(calls, self.shared, self.dispatcher.tools, left)

        async def carry_out(call: ToolCall, tell: Emit) -> ToolResult:
            return await linked.execute(call, partial(self._dispatched, left, tell=tell), self.backend)

        try:
            async with aclosing(run_batch(linked.calls, carry_out, self.backend)) as events:
                async for event in events:
                    yield event
        finally:
            linked.close()

    async def _dispatched(self, left: Cancellation, call: ToolCall, tell: Emit = discard) -> ToolResult:
        own = replace(
            self.context,
            call_id=call.id,
            provider_call_id=call.provider_call_id,
            tool_name=call.name,
            shared=self.shared.view(instance=call.instance),
            cancellation=left,
        )
        return await self.dispatcher.dispatch(call, own, self.backend, tell)


def _begun(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """Copy calls, as one may stand there twice.

    Raises:
        TypeError: Something else is among them.
    """
    if not isinstance(calls, Iterable):
        raise TypeError(f"Calls come in a list, so write [{calls!r:.100}].")
    return [replace(_checked(call)) for call in calls]


def _checked(call: ToolCall) -> ToolCall:
    if not isinstance(call, ToolCall):
        raise TypeError(
            f"{call!r:.100} is no ToolCall: ToolCall.from_dict(data) and ToolCall.from_json(text) make one, "
            f"and toolkit.calls.parse_calls(toolbox, reply) makes those of a reply."
        )
    if not isinstance(call.arguments, str):
        raise TypeError(f"The arguments of a ToolCall are JSON text, so write json.dumps({call.arguments!r:.100}).")
    return call


def is_success(result: ToolResult) -> bool:
    """Tell whether a call ended well."""
    return not result.is_error


def is_finished(_: ToolResult) -> bool:
    """Tell that a call ended, well or not."""
    return True
