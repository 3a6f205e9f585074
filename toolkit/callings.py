"""Calls as data, carried out together: all of them, the first that succeeds, the first that ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from toolkit._concurrency.backend import Door
from toolkit._concurrency.cancellation import Cancellation
from toolkit._context import ToolContext, unheard
from toolkit._messages import ToolCall, ToolResult
from toolkit._tools.shared_values import Shared
from toolkit.attempts import Tell
from toolkit.dependencies import Dependencies, refer
from toolkit.dispatch import Dispatcher
from toolkit.errors import Failed
from toolkit.events import ToolCallFinished
from toolkit.execution import execute

# By whom the calls of the run whose tool works here are carried out: what the tool calls in turn passes the same gates.
dispatching: ContextVar[Dispatcher | None] = ContextVar("dispatching", default=None)


@dataclass(frozen=True)
class Callings:
    """Carries calls out with the tools of one composition.

    Attributes:
        context: What the context of each call is made of.
        shared: What the calls share.
    """

    dispatcher: Dispatcher
    context: ToolContext[Any]
    door: Door
    shared: Shared

    async def one(self, call: ToolCall) -> ToolResult:
        """Carry one call out."""
        if refer(self.dispatcher.tools):
            return (await self.all([call]))[0]
        with self._left() as left:
            return await self._dispatched(left, _checked(call))

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
        return ToolResult.failed(Failed("; ".join(failed[id(call)] for call in own) or "there is no call"))

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
        if refer(self.dispatcher.tools):
            return self._in_order(calls, left)
        return execute(calls, partial(self._dispatched, left), self.door)

    async def _in_order(self, calls: Sequence[ToolCall], left: Cancellation) -> AsyncGenerator[Any, None]:
        """Do the same with calls of which some wait for others."""
        linked = Dependencies.of(calls, self.shared, self.dispatcher.tools, left)

        async def carry_out(call: ToolCall, tell: Tell) -> ToolResult:
            return await linked.carried_out(call, partial(self._dispatched, left, tell=tell), self.door)

        try:
            async with aclosing(execute(linked.calls, carry_out, self.door)) as events:
                async for event in events:
                    yield event
        finally:
            linked.close()

    async def _dispatched(self, left: Cancellation, call: ToolCall, tell: Tell = unheard) -> ToolResult:
        own = replace(
            self.context,
            call_id=call.id,
            provider_call_id=call.provider_call_id,
            tool_name=call.name,
            shared=self.shared.view(instance=call.instance),
            cancellation=left,
        )
        return await self.dispatcher.dispatch(call, own, self.door, tell)


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
            f"{call!r:.100} is no ToolCall: ToolCall.of(data) and ToolCall.from_json(text) make one, "
            f"and Toolbox.parse_calls(reply) makes those of a reply."
        )
    if not isinstance(call.arguments, str):
        raise TypeError(f"The arguments of a ToolCall are JSON text, so write json.dumps({call.arguments!r:.100}).")
    return call


def succeeded(result: ToolResult) -> bool:
    """Tell whether a call ended well."""
    return not result.is_error


def ended(_: ToolResult) -> bool:
    """Tell that a call ended, well or not."""
    return True
