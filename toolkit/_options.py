"""Keyword options: a signature that shows each of them, and an error that names the one that was meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import Parameter
from types import MappingProxyType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Any])
NO_HINTS: Mapping[str, str] = MappingProxyType({})


def refuse_unknown_options(
    given: Collection[str],
    known: Collection[str],
    hints: Mapping[str, str] = NO_HINTS,
    error: type[Exception] = TypeError,
) -> None:
    """Refuse the first option that is not known.

    Args:
        given: Names of options.
        known: Names of the options that there are.
        hints: Sentences that say what to write instead, by names that other libraries use.
        error: The class to raise.

    Raises:
        Exception: Of the class `error`; the message has the hint, or the nearest name, or all names.
    """
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    import difflib  # only a mistake needs it

    near = difflib.get_close_matches(unknown, known, n=1)
    remedy = f"Did you mean {near[0]!r}?" if near else f"The options are: {', '.join(known)}."
    raise error(f"There is no option {unknown!r}. {hints.get(unknown, remedy)}")


def spell_options(options: type, defaults: Mapping[str, Any]) -> Callable[[F], F]:
    """Show the keys of a TypedDict in a function's signature, in the place of `**options: Unpack[...]`.

    Type checkers and editors read the TypedDict. `inspect.signature`, `help()` and the completion of notebooks read the
    signature that is set here. The function itself is not changed.

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
        vars(function)["__signature__"] = signature.replace(parameters=[*own, *spelled])
        return function

    return decorate


def check_options(function: F) -> F:
    """Decorate a method so that it refuses unknown keyword arguments by `refuse_unknown_options`."""
    known = [*inspect.signature(function).parameters][1:]  # without self

    @wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        refuse_unknown_options(options, known)
        return function(*args, **options)

    return checked  # type: ignore[return-value]  # it takes what the function takes


def check_fields(owner: C) -> C:
    """Decorate a dataclass so that its constructor refuses unknown fields by `refuse_unknown_options`."""
    setattr(owner, "__init__", check_options(owner.__init__))  # noqa: B010  type checkers want no method assigned
    return owner
