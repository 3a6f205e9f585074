"""What a middleware is, what it may ask for, and how several become one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from toolkit._concurrency.backend import Door, awaited
from toolkit._context import ToolContext
from toolkit._messages import ToolCall, ToolResult
from toolkit._tools.tool import Tool

T = TypeVar("T")

Line: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]


@dataclass(frozen=True)
class Next:
    """What follows a middleware: the other middleware, the gates, the tool. Calling it carries a call out.

    Attributes:
        context: What the tool is told of the run: deps, ids, whether the run was cancelled.
        tools: What the run may call, by name.
    """

    line: Line = field(repr=False)
    context: ToolContext[Any]
    tools: Mapping[str, Tool[..., Any]] = field(repr=False)
    door: Door = field(repr=False)

    def __call__(self, call: ToolCall) -> Awaitable[ToolResult]:
        """Carry the call out; a gate that refuses raises a ToolError."""
        return self.line(call)

    async def wait(self, promise: Awaitable[T]) -> T:
        """Await what needs an event loop; a sync run has none that could be awaited in directly.

        Raises:
            TimedOut: The call's deadline has passed.
            Cancelled: The run was cancelled.
        """
        try:
            return await self.door.call(lambda: awaited(promise), is_async=True, until=self.context.cancellation)
        finally:
            if inspect.iscoroutine(promise) and inspect.getcoroutinestate(promise) == inspect.CORO_CREATED:
                promise.close()  # it was too late to begin


# Gets the call and what follows; answers with a result, its own or that of what follows.
Middleware: TypeAlias = Callable[[ToolCall, Next], Awaitable[ToolResult]]


def compose(
    middleware: Sequence[Middleware],
    line: Line,
    context: ToolContext[Any],
    tools: Mapping[str, Tool[..., Any]],
    door: Door,
) -> Line:
    """Fold middleware around a line, the first one outermost; without any it is the line itself."""
    for wrapper in reversed(middleware):
        line = _wrapped(wrapper, Next(line, context, tools, door))
    return line


def _wrapped(wrapper: Middleware, following: Next) -> Line:
    return lambda call: wrapper(call, following)
