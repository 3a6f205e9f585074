"""The middleware around a call, and what it is given: the call, and what follows.

A middleware that rewrites a call's arguments sends them through validation and every gate.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from toolkit._concurrency.backend import Backend, await_value
from toolkit._context import ToolContext
from toolkit._messages import ToolCall, ToolResult
from toolkit._tools.tool import Tool

T = TypeVar("T")

CallHandler: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]


@dataclass(frozen=True)
class Next:
    """The next step of a call: inner middleware, the gates and the tool. Await `call_next(call)` to run it.

    Attributes:
        handler: Runs the call.
        context: The context of the call: deps, ids, whether the run was cancelled.
        tools: Tools of the run, by name.
        backend: Backend of the run.
    """

    handler: CallHandler = field(repr=False)
    context: ToolContext[Any]
    tools: Mapping[str, Tool[..., Any]] = field(repr=False)
    backend: Backend = field(repr=False)

    def __call__(self, call: ToolCall) -> Awaitable[ToolResult]:
        """Run the call; a gate that refuses it raises a ToolError."""
        return self.handler(call)

    async def wait(self, promise: Awaitable[T]) -> T:
        """Await a coroutine that needs an event loop, also in a sync run.

        Raises:
            TimedOut: The call's deadline has passed.
            Cancelled: The run was cancelled.
        """
        try:
            return await self.backend.call(
                lambda: await_value(promise), is_async=True, cancellation=self.context.cancellation
            )
        finally:
            if inspect.iscoroutine(promise) and inspect.getcoroutinestate(promise) == inspect.CORO_CREATED:
                promise.close()  # it was too late to begin


# Gets the call and what follows; answers with a result, its own or that of what follows.
Middleware: TypeAlias = Callable[[ToolCall, Next], Awaitable[ToolResult]]


def compose(
    middleware: Sequence[Middleware],
    handler: CallHandler,
    context: ToolContext[Any],
    tools: Mapping[str, Tool[..., Any]],
    backend: Backend,
) -> CallHandler:
    """Wrap a handler in middleware, the first one outermost."""
    for wrapper in reversed(middleware):
        handler = _wrap(wrapper, Next(handler, context, tools, backend))
    return handler


def _wrap(wrapper: Middleware, call_next: Next) -> CallHandler:
    async def handle(call: ToolCall) -> ToolResult:
        try:
            answer = wrapper(call, call_next)
            if not inspect.isawaitable(answer):
                raise TypeError(f"the middleware {wrapper!r} is not async: write it with async def.")
            return await answer
        except SystemExit as error:  # it would end the process; a KeyboardInterrupt is meant to
            raise RuntimeError("it raised SystemExit") from error

    return handle
