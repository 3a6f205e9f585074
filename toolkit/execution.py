"""The calls of one turn: all at the same time, events as they come."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from toolkit.doors import Door
from toolkit.events import ToolCallFinished, ToolCallStarted
from toolkit.messages import ToolCall, ToolResult

# A thread or a task each: more calls than this in one turn wait for a place.
MAX_PARALLEL = 256


async def execute(
    calls: Sequence[ToolCall], carry_out: Callable[[ToolCall], Coroutine[Any, Any, ToolResult]], door: Door
) -> AsyncGenerator[ToolCallStarted | ToolCallFinished, None]:
    """Carry calls out together; one that fails harms no other.

    Yields:
        A start for each call, in call order; then an end for each, in the order in which they come.
    """

    async def timed(call: ToolCall) -> ToolCallFinished:
        began = time.perf_counter()
        result = await carry_out(call)
        return ToolCallFinished(call, result, time.perf_counter() - began)

    for call in calls:
        yield ToolCallStarted(call)
    async with aclosing(door.together([partial(timed, call) for call in calls], MAX_PARALLEL)) as ends:
        async for finished in ends:
            yield finished
