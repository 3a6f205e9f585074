"""Execute several calls at the same time: the calls of one turn, or calls without a run."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Container, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Literal, TypeAlias

from toolkit._concurrency.backend import Backend
from toolkit._concurrency.cancellation import Cancellation, note_effects
from toolkit._context import ToolContext
from toolkit._execution.attempts import Emit
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.references import Dependencies
from toolkit._messages import ToolCall, ToolResult
from toolkit._options import is_whole
from toolkit._tools.shared_values import SharedValues
from toolkit._tools.tool import CONTEXT_REMEDY, check_deps
from toolkit.errors import Cancelled, Failed, TimedOut
from toolkit.events import CallEvent, ToolCallAbandoned, ToolCallFinished

# Calls of one turn that run at the same time by default, on a thread or as a task each.
MAX_PARALLEL = 256


@dataclass(frozen=True)
class Batched:
    """Run calls in batches of `size`: a batch starts when all calls of the one before have ended."""

    size: int

    def __post_init__(self) -> None:
        if not is_whole(self.size, 1):
            raise ValueError(f"batched({self.size!r}): the size is not a whole number of at least 1.")


Order: TypeAlias = Literal["parallel", "sequential"] | Batched
Execute: TypeAlias = Callable[[ToolCall, Emit], Coroutine[Any, Any, ToolCallFinished]]


def batched(size: int) -> Batched:
    """Run the calls of a turn in batches: `Runner(..., order=batched(4))`.

    Raises:
        ValueError: `size` is not a whole number of at least 1.
    """
    return Batched(size)


def parallel_limit(order: Order, max_parallel: int) -> int:
    """Return how many calls may run at the same time."""
    if order == "sequential":
        return 1
    return min(order.size, max_parallel) if isinstance(order, Batched) else max_parallel


def split_batches(
    calls: Sequence[ToolCall], order: Order, runs_alone: Callable[[ToolCall], bool]
) -> list[Sequence[ToolCall]]:
    """Split the calls of a turn into batches, in call order. A call that runs alone is a batch of its own."""
    if order == "sequential" or len(calls) == 1:
        return [[call] for call in calls]
    size = order.size if isinstance(order, Batched) else len(calls)
    batches: list[Sequence[ToolCall]] = []
    for alone, group in groupby(calls, runs_alone):
        members = list(group)
        width = 1 if alone else size
        batches += [members[start : start + width] for start in range(0, len(members), width)]
    return batches


async def run_batch(
    calls: Sequence[ToolCall],
    execute: Execute,
    backend: Backend,
    *,
    max_parallel: int = MAX_PARALLEL,
    cancellation: Cancellation | None = None,
    own_thread: bool = False,
    started: Container[str] = (),
) -> AsyncGenerator[CallEvent | ToolCallFinished, None]:
    """Execute calls at the same time. A call that fails does not affect the others.

    Args:
        calls: The calls.
        execute: Executes one call.
        backend: The backend of the run.
        max_parallel: How many run at the same time.
        cancellation: When it is cancelled, the calls without a result are abandoned and get an error.
        own_thread: Whether a single call, too, runs on a thread of its own, so that its events arrive as they happen.
        started: Ids of the calls whose handlers have started.

    Yields:
        The events that calls emit, and a ToolCallFinished for each call, as they happen.
    """
    channel = backend.channel()
    jobs = [partial(execute, call, channel.put) for call in calls]
    left = {id(call): call for call in calls}
    start = time.perf_counter()

    try:
        events = backend.run_all(jobs, max_parallel, channel, cancellation=cancellation, own_thread=own_thread)
        async with aclosing(events):
            async for event in events:
                if isinstance(event, ToolCallFinished):
                    del left[id(event.call)]
                    if event.call.id in backend.running:
                        yield ToolCallAbandoned(call=event.call, count=len(backend.abandoned))
                yield event
    except (TimedOut, Cancelled) as error:
        for event in _abandon(left.values(), error, backend, time.perf_counter() - start, started):
            yield event


def _abandon(
    calls: Iterable[ToolCall], error: TimedOut | Cancelled, backend: Backend, seconds: float, started: Container[str]
) -> Iterator[CallEvent | ToolCallFinished]:
    """Yield the events of calls that are no longer awaited."""
    for call in calls:
        is_running = call.id in backend.running
        if is_running:
            yield ToolCallAbandoned(call=call, count=len(backend.abandoned))
        result = ToolResult.from_error(note_effects(error, has_started=call.id in started, is_running=is_running))
        yield ToolCallFinished(call, result, seconds, started=time.time() - seconds)


@dataclass(frozen=True)
class ParallelCalls:
    """Executes calls without a run.

    Attributes:
        context: The context of each call, but for what identifies the call.
        shared: Values that the calls share.
    """

    dispatcher: Dispatcher
    context: ToolContext[Any]
    backend: Backend
    shared: SharedValues

    async def all(self, calls: Iterable[ToolCall]) -> list[ToolResult]:
        """Execute calls and return their results in call order."""
        copies = _copy_calls(calls)
        async with aclosing(self.ends(copies)) as ends:
            results = {id(end.call): end.result async for end in ends}
        return [results[id(call)] for call in copies]

    async def first(self, calls: Iterable[ToolCall], *, needs_success: bool) -> ToolResult:
        """Execute calls until one ends, or succeeds, and cancel the others. Return an error if none does."""
        copies = _copy_calls(calls)
        errors: dict[int, str] = {}
        async with aclosing(self.ends(copies)) as ends:
            async for end in ends:
                if not needs_success or not end.result.is_error:
                    return end.result
                errors[id(end.call)] = f"{end.call.name}: {end.result.error}"
        return ToolResult.from_error(Failed("; ".join(errors[id(call)] for call in copies) or "there is no call"))

    async def ends(self, calls: Sequence[ToolCall]) -> AsyncGenerator[ToolCallFinished, None]:
        """Execute calls at the same time and give each end as it comes. Leaving early cancels the rest.

        Raises:
            TypeError: The tool of a call takes deps that the context does not have.
        """
        for call in calls:
            if tool := self.dispatcher.tools.get(call.name):
                check_deps(tool, self.context.deps, CONTEXT_REMEDY)
        with Cancellation(parent=self.context.cancellation) as cancellation:
            dependencies = Dependencies(calls, self.shared, self.dispatcher.tools, cancellation)

            async def execute(call: ToolCall, emit: Emit) -> ToolCallFinished:
                dispatch = partial(self._dispatch, cancellation, emit)
                return ToolCallFinished(call, await dependencies.execute(call, dispatch, self.backend), 0.0)

            try:
                async with aclosing(run_batch(dependencies.startable, execute, self.backend)) as events:
                    async for event in events:
                        if isinstance(event, ToolCallFinished):
                            yield event
            finally:
                dependencies.close()

    async def _dispatch(self, cancellation: Cancellation, emit: Emit, call: ToolCall) -> ToolResult:
        context = replace(
            self.context,
            call_id=call.id,
            provider_call_id=call.provider_call_id,
            tool_name=call.name,
            shared=self.shared.view(instance=call.instance),
            cancellation=cancellation,
        )
        return await self.dispatcher.dispatch(call, context, self.backend, emit)


def _copy_calls(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """Copy calls, since one may be listed twice."""
    if not isinstance(calls, Iterable):
        raise TypeError(f"Calls come in a list, so write [{calls!r:.100}].")
    given = list(calls)
    for call in given:
        if not isinstance(call, ToolCall):
            raise TypeError(
                f"{call!r:.100} is not a ToolCall: ToolCall.from_dict(data) and ToolCall.from_json(text) make one, "
                f"and toolkit.calls.parse_calls(toolbox, reply) makes those of a reply."
            )
        if not isinstance(call.arguments, str):
            raise TypeError(f"The arguments of a ToolCall are JSON text, so write json.dumps({call.arguments!r:.100}).")

    return [replace(call.validate()) for call in given]
