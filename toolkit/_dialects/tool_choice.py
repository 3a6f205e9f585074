"""Which tools a model may call in one answer, and whether it must.

A choice is one of WORDS, or the name of the one tool that has to be called; None leaves it to the server. A choice that
forces a call holds for the first answer of a run only: forced in every turn, calls would never end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolkit._messages import ModelRequest
from toolkit._schema.error_messages import suggest

WORDS = ("auto", "none", "required")
# What forces nothing.
FREE = ("auto", "none")


def check_choice(
    choice: str | None, allowed: Iterable[str] | None, names: Collection[str]
) -> tuple[str | None, tuple[str, ...] | None]:
    """Check what a run says of its tools, and give it back as a request has it.

    Args:
        choice: One of WORDS, a tool's name, or None.
        allowed: Names of the tools that may be called; None means all.
        names: The run's tools.

    Raises:
        ValueError: There is no such choice, or no such tool; or the one excludes the other.
        TypeError: What is allowed is no list.
    """
    kept = None if allowed is None else _listed(allowed, names)
    if choice is not None and not _is_one_of(choice, (*WORDS, *names)):
        words = ", ".join(map(repr, WORDS))
        raise ValueError(f"tool_choice={choice!r} is none of {words}, and no tool here{_known(choice, names)}")
    _check_together(choice, kept, names)
    return choice, kept


def applies_to_turn(choice: Any, turn: int) -> bool:
    """Tell whether a choice holds for the answer of this number, from 0: one that forces a call does for the first.

    Args:
        choice: One of ours; or one in a provider's own form, of which a list of allowed tools restricts all answers.
        turn: The number.
    """
    is_list = isinstance(choice, Mapping) and choice.get("type") == "allowed_tools"
    return turn == 0 or choice is None or is_list or choice in FREE


def allowed_names(names: Collection[str], choice: str | None, allowed: tuple[str, ...] | None) -> frozenset[str]:
    """List the tools whose calls an answer may have; calls of others are not to be carried out."""
    if choice == "none":
        return frozenset()
    return frozenset(names if allowed is None else (name for name in names if name in allowed))


def resolve_choice(request: ModelRequest, *, knows_allowed: bool) -> ModelRequest:
    """Say of tools what holds in this turn, and what the server understands.

    Args:
        request: What the model is asked.
        knows_allowed: Whether the server can be told which of the tools on offer are allowed.
    """
    if request.choice is None and request.allowed is None:
        return request
    if not applies_to_turn(request.choice, request.turn):
        request = replace(request, choice=None)
    if request.choice == "none" and request.output and request.output.by_tool:  # the answer is a call all the same
        request = replace(request, choice=None, tools=())
    return request if knows_allowed else narrowed(request)


def narrowed(request: ModelRequest) -> ModelRequest:
    """Offer only what is allowed, for servers that cannot be told so otherwise."""
    if request.allowed is None:
        return request
    return replace(request, tools=tuple(s for s in request.tools if s.name in request.allowed), allowed=None)


def chosen(
    request: ModelRequest,
    named: Callable[[str], Mapping[str, Any]],
    limited: Callable[[str, list[Mapping[str, Any]]], Mapping[str, Any]],
) -> dict[str, Any]:
    """Make the part of a request's body that says what may or must be called; nothing where all is left open.

    Args:
        request: What the model is asked.
        named: Writes the choice of one tool.
        limited: Writes a choice among some tools: "auto" or "required", and the tools.
    """
    choice, allowed = request.choice, request.allowed
    if not request.all_tools or (choice is None and allowed is None):
        return {}
    if allowed is None or choice not in (None, "auto", "required"):
        return {"tool_choice": choice if choice in WORDS else named(str(choice))}
    answers = [spec.name for spec in request.all_tools[len(request.tools) :]]  # the call that is the answer
    return {"tool_choice": limited(choice or "auto", [named(name) for name in (*allowed, *answers)])}


def _listed(allowed: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    if isinstance(allowed, str):
        raise TypeError(f"allowed_tools={allowed!r} is one text: it takes a list of names.")
    if not isinstance(allowed, Iterable):
        raise TypeError(f"allowed_tools={allowed!r} is no list of names.")
    listed = tuple(allowed)
    if not listed:
        raise ValueError("allowed_tools=[] allows no tool: say so by tool_choice='none'.")
    for name in listed:
        if not _is_one_of(name, names):
            raise ValueError(f"allowed_tools has {name!r}, which is no tool here{_known(name, names)}")
    return tuple(dict.fromkeys(listed))


def _is_one_of(name: object, names: Collection[str]) -> bool:
    return isinstance(name, str) and name in names


def _check_together(choice: str | None, allowed: tuple[str, ...] | None, names: Collection[str]) -> None:
    if choice == "required" and not names:
        raise ValueError("tool_choice='required' needs a tool, and there is none.")
    if allowed is None or choice is None or choice in WORDS:
        return
    if choice not in allowed:
        raise ValueError(f"tool_choice={choice!r} is not among allowed_tools={list(allowed)}.")


def _known(name: object, names: Collection[str]) -> str:
    return suggest(str(name), names)
