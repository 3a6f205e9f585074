"""Policies: approvers that ask another one only sometimes. What a tool itself asks for, only a list can waive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, get_args

from toolkit._concurrency.backend import is_async
from toolkit._execution.approval import ApprovalRequest, Approver, Decision, Verdict, definition_of
from toolkit._tools.options import Effect
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError

NO_CONDITION = (
    "ask_when needs a condition: give names=, effects= or when=. approve=person asks about every call, and "
    "when=lambda request: request.required about those whose tools ask for a yes."
)


def approve_all(_: ApprovalRequest) -> bool:
    """Let every call run, and ask nobody."""
    return True


def defer(_: ApprovalRequest) -> Decision:
    """Pause the run at every call, until somebody has decided."""
    return Decision.defer()


def allow(*tools: str | Tool[..., Any], otherwise: Approver) -> Approver:
    """Let calls of the listed tools run unasked, and ask somebody about the rest.

    Args:
        *tools: Names, or patterns such as "read_*"; or tools, which are meant as they are now: of a tool that has
            changed since, or another one of the same name, the calls are asked about.
        otherwise: Who is asked.

    Raises:
        DefinitionError: One of the tools is neither a name nor a tool, or `otherwise` cannot be called.
    """
    _refuse_others((str, Tool), "a name or a tool", tools=tools)
    _refuse_uncallable(otherwise=otherwise)
    patterns = tuple(each.strip() for each in tools if isinstance(each, str))
    definitions = frozenset(definition_of(each) for each in tools if isinstance(each, Tool))

    def allowed(request: ApprovalRequest) -> Verdict | Awaitable[Verdict]:
        if _is_named(request, patterns) or (definitions and definition_of(request.tool) in definitions):
            return True
        return otherwise(request)

    return allowed


def ask_when(
    approver: Approver,
    *,
    names: Sequence[str] = (),
    effects: Sequence[Effect] = (),
    when: Callable[[ApprovalRequest], object] | None = None,
) -> Approver:
    """Ask somebody about some calls, and let the rest run: each of the conditions is enough.

    Calls that need a yes by their tool's own word are always asked about.

    Args:
        approver: Who is asked.
        names: Names of tools, or patterns such as "delete_*".
        effects: What the calls do, such as "destructive"; a tool that does not say what it does may do any of it.
        when: Says so of one call, at once; anything but False is a yes.

    Raises:
        TypeError: `when` is async, or one text stands where a list is due.
        DefinitionError: There is no condition, none that can be met, or nobody to ask.
    """
    _refuse_text(names=names, effects=effects)
    _refuse_others(str, "a name", names=names)
    _refuse_unknown(effects)
    if not (names or effects) and when is None:
        raise DefinitionError(NO_CONDITION)
    _refuse_uncallable(approver=approver)
    if when is not None:
        _refuse_uncallable(when=when)
        _refuse_async(when)
    asked_about = {*effects, None} if effects else frozenset[Effect]()

    def asking(request: ApprovalRequest) -> Verdict | Awaitable[Verdict]:
        by_name = request.required or _is_named(request, names)
        if by_name or request.tool.settings.effect in asked_about or (when and when(request) is not False):
            return approver(request)
        return True

    return asking


def _is_named(request: ApprovalRequest, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(request.tool.name, pattern) for pattern in patterns)


def _refuse_text(**options: object) -> None:
    for name, value in options.items():
        if isinstance(value, str):
            raise TypeError(f"{name}={value!r} is one text: write {name}=({value!r},).")


def _refuse_async(when: Callable[..., object]) -> None:
    if is_async(when):
        raise TypeError("when= is asked at once: give a plain function; an async one can be an approver of its own.")


def _refuse_others(kinds: type | tuple[type, ...], what: str, **options: Sequence[object]) -> None:
    for name, values in options.items():
        for value in values:
            if not isinstance(value, kinds):
                raise DefinitionError(f"{name}: {value!r} is not {what}.")


def _refuse_unknown(effects: Sequence[object]) -> None:
    known = get_args(Effect)
    for effect in effects:
        if effect not in known:
            raise DefinitionError(f"effects: {effect!r} is no effect; these are: {', '.join(known)}.")


def _refuse_uncallable(**options: object) -> None:
    for name, value in options.items():
        if not callable(value):
            raise DefinitionError(f"{name}={value!r} is no function of an ApprovalRequest.")
