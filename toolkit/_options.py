"""Keyword options: a signature that shows each, an error that names the one that was meant, checks of numbers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from inspect import Parameter
from types import FunctionType, MappingProxyType
from typing import Any, TypeGuard, TypeVar, cast

from toolkit._tracebacks import hide_frames

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Any])
# The longest wait that every system supports.
MAX_SECONDS = 1e6
NO_HINTS: Mapping[str, str] = MappingProxyType({})


def list_own_options(function: Callable[..., Any]) -> tuple[str, ...]:
    """List the parameters of a function or class, without its `**options`."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)


def refuse_unknown_options(given: Collection[str], known: Collection[str], hints: Mapping[str, str] = NO_HINTS) -> None:
    """Refuse the first option that is not known.

    Args:
        given: Names of options.
        known: Names of the options that there are.
        hints: Sentences that say what to write instead, by names that other libraries use, or that belong elsewhere.

    Raises:
        TypeError: There is one; the message has the nearest name or its hint, or else all names.
    """
    if not set(given).difference(known):
        return
    import difflib  # only a mistake needs it

    unknown = next(name for name in given if name not in known)
    near = next(iter(difflib.get_close_matches(unknown, known, n=1)), "")
    (hint,) = difflib.get_close_matches(unknown, hints, n=1, cutoff=0.85) or [""]
    remedy = f"Did you mean {near!r}?" if near else f"The options are: {', '.join(known)}."
    if unknown in hints or not near:
        remedy = hints.get(hint, remedy)
    raise TypeError(f"There is no option {unknown!r}. {remedy}") from None


def spell_options(options: type, defaults: Mapping[str, Any]) -> Callable[[F], F]:
    """Show the keys of a TypedDict in a function's signature, in place of `**options: Unpack[...]`.

    Type checkers and editors read the TypedDict. `inspect.signature`, `help()` and the completion of notebooks read the
    signature that is set here. What the function raises has a short traceback; it refuses unknown options itself.

    Args:
        options: A TypedDict.
        defaults: The default of each key that is not None.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [parameter for parameter in signature.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
        spelled = (
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=defaults.get(name),
                annotation=getattr(annotation, "__forward_arg__", annotation),
            )
            for name, annotation in options.__annotations__.items()
        )
        decorated = hide_frames(function)
        vars(decorated)["__signature__"] = signature.replace(parameters=[*own, *spelled])
        return decorated

    return decorate


def check_options(function: F, hints: Mapping[str, str] = NO_HINTS) -> F:
    """Decorate a function or method so that it refuses unknown keyword arguments by `refuse_unknown_options`.

    What it raises has a short traceback.
    """
    code = cast("FunctionType", function).__code__
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    known = [name for name in taken if name != "self"]

    def name_option(error: BaseException, options: Mapping[str, Any]) -> BaseException:
        if isinstance(error, TypeError):  # Python's own for an unknown argument, or any other
            try:
                refuse_unknown_options(options, known, hints)
            except TypeError as refusal:
                return refusal
        return error

    return hide_frames(function, name_option)


def check_methods(hints: Mapping[str, str] = NO_HINTS) -> Callable[[C], C]:
    """Decorate a class so that `check_options` holds for its constructor and its public methods."""

    def decorate(owner: C) -> C:
        for name, member in [*vars(owner).items()]:
            is_open = not inspect.isfunction(member) or member.__code__.co_flags & inspect.CO_VARKEYWORDS
            if not is_open and (name == "__init__" or not name.startswith("_")):
                setattr(owner, name, check_options(member, hints))
        return owner

    return decorate


def is_whole(value: object, least: float = -math.inf) -> TypeGuard[int]:
    """Return whether a value is a whole number of at least `least`; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number; True and False are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
