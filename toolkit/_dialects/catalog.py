"""The dialects by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from toolkit._dialects.anthropic import Anthropic
from toolkit._dialects.base import Dialect, RunDialect
from toolkit._dialects.calls import Calls
from toolkit._dialects.chat import Chat, Minimal
from toolkit._dialects.gemini import Gemini
from toolkit._dialects.mcp import MCP
from toolkit._dialects.responses import CallsResponses, MinimalResponses, Responses

RUN_DIALECTS: Mapping[str, type[RunDialect]] = {kind.name: kind for kind in (Chat, Calls, Minimal)}
# The dialects of a run by API.
APIS: Mapping[str, Mapping[str, type[RunDialect]]] = {
    "chat": RUN_DIALECTS,
    "responses": {kind.name: kind for kind in (Responses, CallsResponses, MinimalResponses)},
}
DIALECTS: Mapping[str, type[Dialect]] = {
    **RUN_DIALECTS,
    **{kind.name: kind for kind in (Responses, Anthropic, Gemini, MCP)},
}


def get_dialect(name: str, *, strict: bool = False) -> Dialect:
    """Return a dialect by its name.

    Args:
        name: One of DIALECTS.
        strict: Whether the provider is asked to enforce the schemas of tools that do not set `strict` themselves.

    Raises:
        ValueError: No dialect has this name.
    """
    if name not in DIALECTS:
        raise _explain_unknown(name, DIALECTS)
    return DIALECTS[name](strict=strict)


def find_dialect(reply: Any) -> str | None:
    """Return the name of the provider's dialect in which a reply has calls; None if there is none."""
    kinds = (Chat, Responses, Anthropic, Gemini)
    return next((kind.name for kind in kinds if kind().parse_calls(reply, ())), None)


def get_run_dialect(name: str, *, strict: bool = False, api: str = "chat") -> RunDialect:
    """Return the dialect of a run by its name, among those of the API.

    Raises:
        ValueError: The API has no dialect of this name, or is unknown.
    """
    if api not in APIS:
        raise ValueError(f"api={api!r} is not one of {', '.join(map(repr, APIS))}.")
    if name not in APIS[api]:
        raise _explain_unknown(name, APIS[api])
    return APIS[api][name](strict=strict)


def _explain_unknown(name: object, names: Collection[str]) -> ValueError:
    message = f"{name!r} is not one of the dialects {', '.join(map(repr, names))}."
    if name == "openai":
        return ValueError(f'{message} OpenAI has two APIs: Chat Completions is "chat", Responses is "responses".')
    near = get_close_matches(str(name), names, n=1)
    return ValueError(f"{message} Did you mean {near[0]!r}?" if near else message)
