"""Checks of the options of factories: each returns the value, or raises a DefinitionError with its name and value."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from toolkit._concurrency.backend import is_async
from toolkit._options import MAX_SECONDS as MAX_SECONDS
from toolkit._options import is_float, is_number, is_whole
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from toolkit._guards.paths import Root

# The name and the value of a header: visible ASCII, in a value with blanks inside, so it cannot hold a second header
# (RFC 9110, sections 5.1 and 5.5).
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE = re.compile(r"([!-~]([ -~\t]*[!-~])?)?")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def check_type(name: str, value: T, *types: type) -> T:
    """Check that a value has one of these types. True and False are not numbers."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        names = " or ".join(kind.__name__ for kind in types)
        raise DefinitionError(f"{name}={value!r:.100} is not of type {names}.")
    return value


def check_choice(name: str, value: T, *choices: str) -> T:
    """Check that a value is one of several texts."""
    if value not in choices:
        raise DefinitionError(f"{name}={value!r:.100} is neither {' nor '.join(map(repr, choices))}.")
    return value


def check_whole(name: str, value: int, least: int = 1) -> int:
    """Check that a value is a whole number of at least `least`."""
    if is_whole(value, sys.maxsize):
        raise DefinitionError(f"{name}={value!r:.100} is not below {sys.maxsize:,}.")
    if not is_whole(value, least):
        raise DefinitionError(f"{name}={value!r:.100} is not a whole number of at least {least}.")
    return value


def check_number(name: str, value: float, least: float = 0) -> float:
    """Check that a value is a number of at least `least`. It may be infinite."""
    if not is_float(value) or not value >= least:
        raise DefinitionError(f"{name}={value!r:.100} is not a number of at least {least:g}.")
    return value


def check_seconds(name: str, value: float, default: float | None = None) -> float:
    """Check that a value is a number of seconds, at most MAX_SECONDS. Return the default, if any, for 0 or less."""
    if not is_number(value) or not value <= MAX_SECONDS:
        raise DefinitionError(f"{name}={value!r:.100} is not a number of seconds, at most {MAX_SECONDS:,.0f}.")
    if value > 0:
        return value
    if default is None:
        raise DefinitionError(f"{name}={value!r:.100} is not a number of seconds above 0.")
    return default


def check_texts(name: str, value: Collection[str]) -> tuple[str, ...]:
    """Check that a value is a list of texts, none of them empty or with a NUL, and return a copy."""
    is_list = isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))
    if not is_list or not all(is_text(text) and text for text in value):
        example = [value] if isinstance(value, str) and value else ["one", "other"]
        raise DefinitionError(f"{name}={value!r:.100} is not a list of texts, such as {name}={example!r:.100}.")
    return tuple(value)


def check_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Check headers, and return a copy. The message repeats no value, which may be secret."""
    if not isinstance(headers, (Mapping, type(None))):
        raise DefinitionError("headers= maps names to texts: headers={'X-Key': key}.")
    for name, value in (headers or {}).items():
        parts = ((TOKEN, name), (HEADER_VALUE, value))
        if not all(isinstance(text, str) and form.fullmatch(text) for form, text in parts):
            raise DefinitionError(
                f"headers[{name!r:.100}] cannot be sent: a name has letters, digits and '-', and a value visible ASCII "
                "characters. Where it was read from a file, use strip()."
            )
    return dict(headers or {})


def check_env(env: Mapping[str, str] | None) -> dict[str, str]:
    """Check variables of an environment, and return a copy. The message repeats no value, which may be secret."""
    if not isinstance(env, (Mapping, type(None))):
        raise DefinitionError("env= maps names to texts: env={'CI': '1'}.")
    for name, value in (env or {}).items():
        if not is_text(name) or not name or "=" in name or not is_text(value):
            raise DefinitionError(
                f"env[{name!r:.100}] cannot be set: name and value are texts without NUL, and the name has no '='."
            )
    return dict(env or {})


def is_text(value: object) -> bool:
    """Return whether a value is a text without NUL."""
    return isinstance(value, str) and "\0" not in value


def check_header(name: str, value: str) -> str:
    """Check that a value can be sent in an HTTP header: one line of ASCII characters."""
    if not (isinstance(value, str) and value.strip() and value.isascii() and value.isprintable()):
        raise DefinitionError(f"{name}={value!r:.100} is not a line of ASCII characters.")
    return value


def check_function(name: str, value: F) -> F:
    """Check that a value can be called."""
    if not callable(value):
        raise DefinitionError(f"{name}={value!r:.100} is not a function.")
    return value


def check_sync_function(name: str, value: F) -> F:
    """Check that a value is a sync function."""
    if is_async(check_function(name, value)):
        raise DefinitionError(f"{name}={value!r:.100} is asynchronous: give a plain function.")
    return value


def open_root(root: str | os.PathLike[str] | Root) -> Root:
    """Open a directory, unless it is open already."""
    from toolkit._guards.paths import Root  # slow to load, and only needed here

    return root if isinstance(root, Root) else Root(root)
