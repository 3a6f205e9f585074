"""Calls as data, carried out together: all of them, the first that succeeds, the first that ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from toolkit.attempts import Tell
from toolkit.cancellation import Cancellation
from toolkit.context import ToolContext, unheard
from toolkit.dependencies import Dependencies, refer
from toolkit.dispatch import Dispatcher
from toolkit.doors import Door
from toolkit.errors import Failed
from toolkit.events import ToolCallFinished
from toolkit.execution import execute
from toolkit.messages import ToolCall, ToolResult
from toolkit.shared import Shared


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
        return (await self.all([call]))[0] if refer(self.dispatcher.tools) else await self._dispatched(call)

    async def all(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Carry all out; their results in call order."""
        own = [replace(call) for call in calls]  # one call may stand there twice
        async with aclosing(self.ends(own)) as happened:
            ended = {id(event.call): event.result async for event in happened}
        return [ended[id(call)] for call in own]

    async def first(self, calls: Sequence[ToolCall], wanted: Callable[[ToolResult], bool]) -> ToolResult:
        """Carry all out until one ends as wanted, and give the others up; an error where none does."""
        left = Cancellation(parent=self.context.cancellation)
        own = replace(self, context=replace(self.context, cancellation=left))
        begun = [replace(call) for call in calls]
        failed: dict[int, str] = {}
        try:
            async with aclosing(own.ends(begun)) as happened:
                async for event in happened:
                    if wanted(event.result):
                        return event.result
                    failed[id(event.call)] = f"{event.call.name}: {event.result.error}"
        finally:
            left.cancel()
            left.close()
        return ToolResult.failed(Failed("; ".join(failed[id(call)] for call in begun) or "there is no call"))

    async def ends(self, calls: Sequence[ToolCall]) -> AsyncGenerator[ToolCallFinished, None]:
        """Carry calls out at the same time, and give the end of each as it comes."""
        if not refer(self.dispatcher.tools):
            events = execute(calls, self._dispatched, self.door)
        else:
            events = self._in_order(calls)
        async with aclosing(events) as happened:
            async for event in happened:
                if isinstance(event, ToolCallFinished):
                    yield event

    async def _in_order(self, calls: Sequence[ToolCall]) -> AsyncGenerator[Any, None]:
        """Do the same with calls of which some wait for others."""
        linked = Dependencies.of(calls, self.shared, self.dispatcher.tools, self.context.cancellation)

        async def carry_out(call: ToolCall, tell: Tell) -> ToolResult:
            return await linked.carried_out(call, partial(self._dispatched, tell=tell), self.door)

        try:
            async with aclosing(execute(linked.calls, carry_out, self.door)) as events:
                async for event in events:
                    yield event
        finally:
            linked.close()

    async def _dispatched(self, call: ToolCall, tell: Tell = unheard) -> ToolResult:
        own = replace(
            self.context,
            call_id=call.id,
            provider_call_id=call.provider_call_id,
            tool_name=call.name,
            shared=self.shared.view(instance=call.instance),
        )
        return await self.dispatcher.dispatch(call, own, self.door, tell)


def succeeded(result: ToolResult) -> bool:
    """Tell whether a call ended well."""
    return not result.is_error


def ended(_: ToolResult) -> bool:
    """Tell that a call ended, well or not."""
    return True
