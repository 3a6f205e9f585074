"""Wrap the whole line of a call: whoever rewrites its arguments passes every gate again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from toolkit.messages import ToolCall, ToolResult

Next: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]
# Gets the call and the rest of the line; answers with a result, its own or the line's.
Middleware: TypeAlias = Callable[[ToolCall, Next], Awaitable[ToolResult]]


def compose(middleware: Sequence[Middleware], line: Next) -> Next:
    """Fold middleware around a line, the first one outermost; without any it is the line itself."""
    for wrapper in reversed(middleware):
        line = _wrapped(wrapper, line)
    return line


def _wrapped(wrapper: Middleware, line: Next) -> Next:
    return lambda call: wrapper(call, line)
