"""How a tool is shown to a model, and how the model's words come back.

A dialect is two-way and does no I/O: `tool` shows a tool as a provider wants to see it, `calls` finds the calls in what
the provider's client gave back, `answers` makes the messages that answer them. Where arguments are shown in another
form than the tool's own (`form`), the calls that come back are in the tool's own again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from toolkit.dialects.anthropic import Anthropic
from toolkit.dialects.calls import Calls
from toolkit.dialects.chat import Chat
from toolkit.dialects.forms import Form
from toolkit.dialects.gemini import Gemini
from toolkit.dialects.mcp import MCP
from toolkit.dialects.minimal import Minimal
from toolkit.dialects.responses import Responses
from toolkit.messages import ModelRequest, ToolCall, ToolResult, ToolSpec

T = TypeVar("T")


class Dialect(Protocol):
    """One provider's way to speak about tools."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    def form(self, spec: ToolSpec) -> Form:
        """Tell how a tool's arguments are shown, and where that differs from the tool's own schema."""
        ...

    def tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool; it is made once, and must not be changed.

        Raises:
            DefinitionError: The provider takes no such tool.
        """
        ...

    def calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Find the calls in a reply: of the provider's client, or the same as plain data.

        Their arguments are in the tools' own forms. Nothing that a model wrote raises; what is no call is left out.
        """
        ...

    def answers(
        self, done: Sequence[tuple[ToolCall, ToolResult]], specs: Sequence[ToolSpec] = ()
    ) -> list[dict[str, Any]]:
        """Make the messages that answer calls: each exactly once, in the order given."""
        ...


class RunDialect(Dialect, Protocol):
    """A dialect in which a run can be held over Chat Completions."""

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Make the part of the request's body that says messages and tools."""
        ...

    def shows_text(self, request: ModelRequest) -> bool:
        """Tell whether the text of the reply is meant for people as it comes."""
        ...

    def read(self, text: str, calls: Sequence[ToolCall], specs: Sequence[ToolSpec]) -> tuple[str, tuple[ToolCall, ...]]:
        """Find text and calls in a whole reply; the calls' arguments come in the tools' own forms."""
        ...


RUN_DIALECTS: Mapping[str, Callable[..., RunDialect]] = {"chat": Chat, "calls": Calls, "minimal": Minimal}
DIALECTS: Mapping[str, Callable[..., Dialect]] = {
    **RUN_DIALECTS,
    "responses": Responses,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "mcp": MCP,
}


def dialect_named(name: str, *, strict: bool = False) -> Dialect:
    """Find a dialect.

    Args:
        name: One of DIALECTS.
        strict: Whether the provider is to enforce the schemas of tools that have no opinion of their own.

    Raises:
        ValueError: There is none of this name.
    """
    return _found(name, DIALECTS)(strict=strict)


def run_dialect_named(name: str, *, strict: bool = False) -> RunDialect:
    """Find a dialect for a run; as `dialect_named`, among RUN_DIALECTS."""
    return _found(name, RUN_DIALECTS)(strict=strict)


def _found(name: str, table: Mapping[str, T]) -> T:
    if name not in table:
        raise ValueError(f"{name!r} is not one of the dialects {', '.join(map(repr, table))}.")
    return table[name]
