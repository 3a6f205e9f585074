"""How a tool is shown to a model, and how the model's words come back.

A dialect is two-way and does no I/O: `tool` shows a tool as a provider wants to see it, `calls` finds the calls in what
the provider's client gave back, `answers` makes the messages that answer them. Where arguments are shown in another
form than the tool's own (`form`), the calls that come back are in the tool's own again.

`dialect` says what all have in common; each has a module of its own. `forms` says how a schema becomes what a provider
understands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from toolkit._dialects.anthropic import Anthropic
from toolkit._dialects.base import Dialect, RunDialect
from toolkit._dialects.calls import Calls
from toolkit._dialects.chat import Chat, Minimal
from toolkit._dialects.gemini import Gemini
from toolkit._dialects.mcp import MCP
from toolkit._dialects.responses import CallsResponses, MinimalResponses, Responses

__all__ = [
    "APIS",
    "DIALECTS",
    "RESPONSES_DIALECTS",
    "RUN_DIALECTS",
    "Dialect",
    "RunDialect",
    "get_dialect",
    "get_run_dialect",
]

D = TypeVar("D", bound=Dialect)

RUN_DIALECTS: Mapping[str, type[RunDialect]] = {kind.name: kind for kind in (Chat, Calls, Minimal)}
# Those of runs over Responses.
RESPONSES_DIALECTS: Mapping[str, type[RunDialect]] = {
    kind.name: kind for kind in (Responses, CallsResponses, MinimalResponses)
}
APIS: Mapping[str, Mapping[str, type[RunDialect]]] = {"chat": RUN_DIALECTS, "responses": RESPONSES_DIALECTS}
DIALECTS: Mapping[str, type[Dialect]] = {
    **RUN_DIALECTS,
    **{kind.name: kind for kind in (Responses, Anthropic, Gemini, MCP)},
}


def get_dialect(name: str, *, strict: bool = False) -> Dialect:
    """Find a dialect.

    Args:
        name: One of DIALECTS.
        strict: Whether the provider is to enforce the schemas of tools that have no opinion of their own.

    Raises:
        ValueError: There is none of this name.
    """
    return _found(name, DIALECTS)(strict=strict)


def get_run_dialect(name: str, *, strict: bool = False, api: str = "chat") -> RunDialect:
    """Find a dialect for a run; as `dialect_named`, among those of the API.

    Raises:
        ValueError: There is none of this name, or no such API.
    """
    if api not in APIS:
        raise ValueError(f"api={api!r} is not one of {', '.join(map(repr, APIS))}.")
    return _found(name, APIS[api])(strict=strict)


def _found(name: str, table: Mapping[str, type[D]]) -> type[D]:
    if name not in table:
        raise ValueError(f"{name!r} is not one of the dialects {', '.join(map(repr, table))}.")
    return table[name]
