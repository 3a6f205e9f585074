"""What a scheduled run may do: no more than was planned when it was scheduled."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from toolkit._context import ToolContext
from toolkit._execution.authorization import Deny
from toolkit._tools.tool import Tool
from toolkit.builtin.schedule.store import Firing

# The firing that is carried out here.
current: ContextVar[Firing | None] = ContextVar("current", default=None)


def planned_only(tool: Tool[..., Any], arguments: Mapping[str, Any], context: ToolContext[Any]) -> bool | Deny:
    """Let a scheduled run call only the tools that were planned when it was scheduled: `Runner(authorize=...)`.

    What was planned then is in the store, and stays as it is; which tools there are, and what they may do, is for the
    runner to say when the time comes. A run that no Scheduler began, or goes on with, may call none.
    """
    del arguments, context
    firing = current.get()
    if firing is None:  # perhaps a scheduled run that was paused: it must not be freer now
        return Deny("No Scheduler carries this run out.")
    if tool.name in firing.action.planned:
        return True
    return Deny(f"{tool.name} was not planned when this action was scheduled.")
