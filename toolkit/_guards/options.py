"""What the options of a factory may be: each is looked at where it is given, and refused by its name and value."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from toolkit._concurrency.backend import is_async
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from toolkit._guards.paths import Root

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# The longest wait, in seconds: what a system can count.
MAX_SECONDS = 1e6


def check_type(name: str, value: T, *types: type) -> T:
    """Give a value of one of these types.

    Raises:
        DefinitionError: It has another one.
    """
    if not isinstance(value, types):
        raise DefinitionError(f"{name}={value!r:.100} is no {' or '.join(one.__name__ for one in types)}.")
    return value


def check_choice(name: str, value: T, *choices: str) -> T:
    """Give one of several words.

    Raises:
        DefinitionError: It is none of them.
    """
    if value not in choices:
        raise DefinitionError(f"{name}={value!r:.100} is neither {' nor '.join(map(repr, choices))}.")
    return value


def check_whole(name: str, value: int, least: int = 1) -> int:
    """Give a whole number that is not too small.

    Raises:
        DefinitionError: It is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise DefinitionError(f"{name}={value!r:.100} is no whole number from {least} on.")
    return value


def check_number(name: str, value: float, least: float = 0) -> float:
    """Give a number that is not too small; it may be infinite.

    Raises:
        DefinitionError: It is none.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= least:
        raise DefinitionError(f"{name}={value!r:.100} is no number from {least:g} on.")
    return value


def check_seconds(name: str, value: float, usual: float | None = None) -> float:
    """Give a number of seconds above 0; the usual one for less, where there is one.

    Raises:
        DefinitionError: It is no number, or none that a system can count to.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value <= MAX_SECONDS:
        raise DefinitionError(f"{name}={value!r:.100} is no number of seconds, or above {MAX_SECONDS:,.0f}.")
    if value > 0:
        return value
    if usual is None:
        raise DefinitionError(f"{name}={value!r:.100} is no number of seconds above 0.")
    return usual


def check_texts(name: str, value: Collection[str]) -> tuple[str, ...]:
    """Give a copy of a list of texts, none of them empty or with a NUL.

    Raises:
        DefinitionError: It is something else: one text would be taken for its letters.
    """
    is_list = isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))
    if not is_list or not all(is_text(text) and text for text in value):
        example = [value] if isinstance(value, str) and value else ["one", "other"]
        raise DefinitionError(f"{name}={value!r:.100} is no list of texts, such as {name}={example!r:.100}.")
    return tuple(value)


def is_text(value: object) -> bool:
    """Whether a value is a text that a system takes: one without NUL."""
    return isinstance(value, str) and "\0" not in value


def check_function(name: str, value: F) -> F:
    """Give what can be called.

    Raises:
        DefinitionError: It cannot.
    """
    if not callable(value):
        raise DefinitionError(f"{name}={value!r:.100} is no function.")
    return value


def check_sync_function(name: str, value: F) -> F:
    """Give a function whose answer is needed at once.

    Raises:
        DefinitionError: It cannot be called, or answers with a promise.
    """
    if is_async(check_function(name, value)):
        raise DefinitionError(f"{name}={value!r:.100} is asynchronous: give a plain function.")
    return value


def open_root(root: str | os.PathLike[str] | Root) -> Root:
    """Hold a directory open, unless it is held already.

    Raises:
        DefinitionError: There is no such directory.
    """
    from toolkit._guards.paths import Root  # no other option needs it and all that it loads

    check_type("root", root, str, os.PathLike, Root)
    return root if isinstance(root, Root) else Root(root)
