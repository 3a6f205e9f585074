"""How a tool is shown to a model, and how the model's words come back.

A dialect is two-way and does no I/O: `body` makes a request of messages and tools, `read` makes text and calls of a
reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from toolkit.dialects.calls import Calls
from toolkit.dialects.chat import Chat
from toolkit.messages import ModelRequest, ToolCall, ToolSpec


class Dialect(Protocol):
    """One way to speak with a model about tools."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    def tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool."""
        ...

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Make the part of the request's body that says messages and tools."""
        ...

    def shows_text(self, request: ModelRequest) -> bool:
        """Tell whether the text of the reply is meant for people as it comes."""
        ...

    def read(self, text: str, calls: Sequence[ToolCall]) -> tuple[str, tuple[ToolCall, ...]]:
        """Find text and calls in a whole reply."""
        ...


DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (Chat(), Calls())}


def dialect_named(name: str) -> Dialect:
    """Find a dialect.

    Raises:
        ValueError: There is none of this name.
    """
    if name not in DIALECTS:
        raise ValueError(f"{name!r} is not one of the dialects {', '.join(map(repr, DIALECTS))}.")
    return DIALECTS[name]
