"""What a tool for commands is made with: each value is looked at where it is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from toolkit.builtin._guards.beneath import Root
from toolkit.callbacks import is_async
from toolkit.errors import DefinitionError

T = TypeVar("T")

# The longest wait, in seconds: what a system can count.
LONGEST = 1e6


def of_type(name: str, value: T, *types: type) -> T:
    """Give a value of one of these types.

    Raises:
        DefinitionError: It has another one.
    """
    if not isinstance(value, types):
        raise DefinitionError(f"{name}={value!r:.100} is no {' or '.join(one.__name__ for one in types)}.")
    return value


def whole(name: str, value: int) -> int:
    """Give a whole number above 0.

    Raises:
        DefinitionError: It is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DefinitionError(f"{name}={value!r:.100} is no whole number above 0.")
    return value


def seconds(timeout: float, usual: float | None = None) -> float:
    """Give a number of seconds above 0; the usual one for less, where there is one.

    Raises:
        DefinitionError: It is no number, or none that a system can count to.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout <= LONGEST:
        raise DefinitionError(f"timeout={timeout!r:.100} is no number of seconds, or above {LONGEST:,.0f}.")
    if timeout > 0:
        return timeout
    if usual is None:
        raise DefinitionError(f"timeout={timeout!r} is no number of seconds above 0.")
    return usual


def texts(name: str, value: Sequence[str]) -> tuple[str, ...]:
    """Give a copy of a list of texts, none of them empty or with a NUL.

    Raises:
        DefinitionError: It is something else.
    """
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(_is_text(text) and text for text in value):
        raise DefinitionError(f"{name}={value!r:.100} is no list of texts, such as {name}=['one', 'other'].")
    return tuple(value)


def variables(env: Mapping[str, str] | None) -> dict[str, str]:
    """Give a copy of variables that somebody wants to add to an environment.

    Raises:
        DefinitionError: There can be no such variable.
    """
    if not isinstance(env, (Mapping, type(None))):
        raise DefinitionError(f"env={env!r:.100} is no mapping, such as env={{'CI': '1'}}.")
    added = dict(env or {})
    for name, value in added.items():
        if not _is_text(name) or not name or "=" in name or not _is_text(value):
            raise DefinitionError(f"env= needs texts by name, without NUL, and without '=' in a name; it has {name!r}.")
    return added


def asked(confirm: Callable[[str], bool] | None) -> Callable[[str], bool] | None:
    """Give a plain function, where there is one.

    Raises:
        DefinitionError: It cannot be called, or answers with a promise.
    """
    if confirm is not None and (not callable(confirm) or is_async(confirm)):
        raise DefinitionError("confirm= is a plain function of the command; an async one can be given as approve=.")
    return confirm


def held(root: str | os.PathLike[str] | Root) -> Root:
    """Hold a directory open, unless it is held already.

    Raises:
        DefinitionError: There is no such directory.
    """
    of_type("root", root, str, os.PathLike, Root)
    return root if isinstance(root, Root) else Root(root)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value
