"""The tools that a model may call in one answer, and whether it must call one.

A choice is one of MODES, or the name of the one tool that has to be called; None leaves it to the server. A choice that
forces a call applies to the first answer of a run only: a run whose every turn had to call a tool would never end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from toolkit._messages import ModelRequest
from toolkit._schema.error_messages import suggest

MODES = ("auto", "none", "required")
# The modes that force no call.
FREE_MODES = ("auto", "none")


def check_tool_choice(
    choice: str | None, allowed: Collection[str] | None, names: Collection[str]
) -> tuple[str | None, tuple[str, ...] | None]:
    """Check `tool_choice` and `allowed_tools` of a run, and return them as `choice` and `allowed` of a request.

    All tools are allowed if `allowed` is None.

    Raises:
        ValueError: The choice or a tool is unknown, or they contradict each other.
        TypeError: `allowed` is not a list.
    """
    listed = None if allowed is None else _check_allowed(allowed, names)
    if choice is None:
        return None, listed
    if not (isinstance(choice, str) and choice in (*MODES, *names)):
        modes = ", ".join(map(repr, MODES))
        hint = suggest(str(choice), names)
        raise ValueError(f"tool_choice={choice!r:.100} is neither one of {modes} nor a tool here{hint}")
    if choice == "required" and not names:
        raise ValueError("tool_choice='required' needs a tool, and there is none.")
    if listed is not None and choice not in (*MODES, *listed):
        raise ValueError(f"tool_choice={choice!r:.100} is not among allowed_tools={list(listed)}.")
    return choice, listed


def _check_allowed(allowed: Collection[str], names: Collection[str]) -> tuple[str, ...]:
    if isinstance(allowed, str):
        raise TypeError(f"allowed_tools={allowed!r:.100} is one text: it takes a list of names.")
    if not isinstance(allowed, Collection):
        raise TypeError(f"allowed_tools={allowed!r:.100} is not a list of names.")
    listed = tuple(allowed)
    if not listed:
        raise ValueError("allowed_tools=[] allows no tool: pass tool_choice='none' instead.")
    for name in listed:
        if not (isinstance(name, str) and name in names):
            raise ValueError(f"allowed_tools has {name!r}, which is not a tool here{suggest(str(name), names)}")
    return tuple(dict.fromkeys(listed))


def applies_to_turn(choice: Any, turn: int) -> bool:
    """Return whether a choice applies to a turn; a choice that forces a call applies to the first only.

    Args:
        choice: A choice as above, or one in a provider's own form; a list of allowed tools applies to all turns.
        turn: Counts from 0.
    """
    is_list = isinstance(choice, Mapping) and choice.get("type") == "allowed_tools"
    return turn == 0 or choice is None or is_list or choice in FREE_MODES


def allowed_names(names: Collection[str], choice: str | None, allowed: tuple[str, ...] | None) -> frozenset[str]:
    """Return the names of the tools that an answer may call. Calls of others are not executed."""
    if choice == "none":
        return frozenset()
    return frozenset(names if allowed is None else (name for name in names if name in allowed))


def resolve_choice(request: ModelRequest, *, knows_allowed: bool) -> ModelRequest:
    """Return a request with the choice that applies to its turn, in a form that the server understands.

    `knows_allowed` says whether it understands a list of allowed tools beside the list of all tools.
    """
    if request.choice is None and request.allowed is None:
        return request
    if not applies_to_turn(request.choice, request.turn):
        request = replace(request, choice=None)
    if request.choice == "none" and request.output and request.output.by_tool:  # the output has to be a call
        request = replace(request, choice=None, tools=())
    return request if knows_allowed else offer_allowed(request)


def offer_allowed(request: ModelRequest) -> ModelRequest:
    """Offer only the allowed tools, for servers that understand no list of allowed ones."""
    if request.allowed is None:
        return request
    return replace(request, tools=tuple(s for s in request.tools if s.name in request.allowed), allowed=None)


def render_choice(
    request: ModelRequest, render: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
) -> dict[str, Any]:
    """Write the `tool_choice` of a request's body, for this turn. Return {} if the server may choose.

    `render` writes a part, of its type and its other members.
    """
    choice, allowed = request.choice, request.allowed
    if not request.all_tools or (choice is None and allowed is None):
        return {}
    if allowed is None or choice not in (None, "auto", "required"):
        return {"tool_choice": choice if choice in MODES else render("function", {"name": choice})}
    tools = [render("function", {"name": spec.name}) for spec in offer_allowed(request).all_tools]
    if not tools:
        return {"tool_choice": "none"}
    return {"tool_choice": render("allowed_tools", {"mode": choice or "auto", "tools": tools})}
