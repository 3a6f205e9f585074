"""Calls as data, carried out together: all of them, the first that succeeds, the first that ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from toolkit.attempts import Tell
from toolkit.cancellation import Cancellation
from toolkit.context import ToolContext, unheard
from toolkit.dispatch import Dispatcher
from toolkit.doors import Door
from toolkit.errors import Failed
from toolkit.events import ToolCallFinished
from toolkit.execution import execute
from toolkit.messages import ToolCall, ToolResult


@dataclass(frozen=True)
class Callings:
    """Carries calls out with the tools of one composition.

    Attributes:
        context: What the context of each call is made of.
    """

    dispatcher: Dispatcher
    context: ToolContext[Any]
    door: Door

    async def one(self, call: ToolCall, tell: Tell = unheard) -> ToolResult:
        """Carry one call out."""
        own = replace(self.context, call_id=call.id, provider_call_id=call.provider_call_id, tool_name=call.name)
        return await self.dispatcher.dispatch(call, own, self.door, tell)

    async def all(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Carry all out; their results in call order."""
        own = [replace(call) for call in calls]  # one call may stand there twice
        async with aclosing(execute(own, self.one, self.door)) as events:
            ended = {id(event.call): event.result async for event in events if isinstance(event, ToolCallFinished)}
        return [ended[id(call)] for call in own]

    async def first(self, calls: Sequence[ToolCall], wanted: Callable[[ToolResult], bool]) -> ToolResult:
        """Carry all out until one ends as wanted, and give the others up; an error where none does."""
        left = Cancellation(parent=self.context.cancellation)
        own = replace(self, context=replace(self.context, cancellation=left))
        failed: list[str] = []
        try:
            async with aclosing(execute([replace(call) for call in calls], own.one, self.door)) as events:
                async for event in events:
                    if isinstance(event, ToolCallFinished):
                        if wanted(event.result):
                            return event.result
                        failed.append(f"{event.call.name}: {event.result.error}")
        finally:
            left.cancel()
            left.close()
        return ToolResult.failed(Failed("; ".join(failed) or "there is no call"))


def succeeded(result: ToolResult) -> bool:
    """Tell whether a call ended well."""
    return not result.is_error


def ended(_: ToolResult) -> bool:
    """Tell that a call ended, well or not."""
    return True
