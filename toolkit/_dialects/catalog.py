"""The dialects by name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar

from toolkit._dialects.anthropic import Anthropic
from toolkit._dialects.base import Dialect, RunDialect, get_member
from toolkit._dialects.calls import Calls
from toolkit._dialects.chat import Chat, Minimal, list_wire_calls
from toolkit._dialects.gemini import Gemini, Interactions
from toolkit._dialects.mcp import ModelContextProtocol
from toolkit._dialects.responses import Responses

# The names of dialects that a run may use.
RunDialectName: TypeAlias = Literal["chat", "responses", "minimal", "calls"]
# The names of `DIALECTS`, for type checkers.
DialectName: TypeAlias = Literal[RunDialectName, "anthropic", "gemini", "interactions", "mcp"]

# The names of `APIS`.
API: TypeAlias = Literal["chat", "responses"]

T = TypeVar("T")


class _Table(dict[str, T]):
    """Entries by name, for an option. Looking up an unknown name raises a ValueError that lists the names."""

    def __init__(self, option: str, entries: Mapping[str, T]) -> None:
        super().__init__(entries)
        self._option = option

    def __missing__(self, name: object) -> NoReturn:
        message = f"{self._option}={name!r:.100} is not one of {', '.join(map(repr, self))}."
        if name == "openai":
            raise ValueError(f'{message} OpenAI has two APIs: Chat Completions is "chat", Responses is "responses".')
        if name in _OWN_LOOP:
            raise ValueError(f"{message} Write the loop yourself, with Toolbox.schemas({name!r}) and answer(reply).")
        near = get_close_matches(str(name), self, n=1)
        raise ValueError(f"{message} Did you mean {near[0]!r}?" if near else message)


# The dialects that a run may use, by API and name.
APIS: Mapping[str, Mapping[str, type[RunDialect]]] = _Table(
    "api",
    {
        "chat": _Table("dialect", {kind.name: kind for kind in (Chat, Calls, Minimal)}),
        "responses": _Table("With api='responses', dialect", {Responses.name: Responses}),
    },
)
_OTHERS: tuple[type[Dialect], ...] = (Responses, Anthropic, Gemini, Interactions, ModelContextProtocol)
DIALECTS: Mapping[str, type[Dialect]] = _Table("dialect", {**APIS["chat"], **{kind.name: kind for kind in _OTHERS}})


# Dialects that are not the format of one provider.
_NOT_IN_REPLIES = ("minimal", "calls", "mcp")
# Formats of providers that a Runner does not call.
_OWN_LOOP = [name for name in DIALECTS if not (name in _NOT_IN_REPLIES or issubclass(DIALECTS[name], RunDialect))]


def find_dialect(reply: Any) -> str | None:
    """Return the name of the provider's dialect in which a reply has calls, or None if there is none."""
    names = (name for name in DIALECTS if name not in _NOT_IN_REPLIES)
    return next((name for name in names if DIALECTS[name]().parse_calls(reply, ())), None)


def is_from_langchain(reply: Any) -> bool:
    """Return whether a reply is a message of LangChain with calls, or its calls: their form is no provider's."""
    calls = reply if isinstance(reply, (list, tuple)) else list_wire_calls(reply) or [reply]
    return any(get_member(call, "type") == "tool_call" and not get_member(call, "function") for call in calls)
