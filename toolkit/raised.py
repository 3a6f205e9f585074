"""What the model may know of an exception: texts that are meant for it, and the names of classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from toolkit._messages import sendable
from toolkit._schema.error_messages import MAX_ERROR, shortened
from toolkit.errors import ToolError

# What a value's own `str` or `repr` may add to a conversation, in characters.
MAX_WRITTEN = 10_000
MAX_NAME = 100
# So many exceptions of a group are looked at: more than MAX_ERROR characters can name.
MAX_LEAVES = 1_000

REMEDY = "Try other arguments or another tool, or report that this did not work."


def explanation(
    error: BaseException, name: str, announced: Collection[str], relay: Collection[type[BaseException]]
) -> tuple[str, str]:
    """Tell what the model is told of an exception, and its kind.

    A ToolError's text is its author's, at any length; anything else has at most MAX_ERROR characters. Of a group of
    exceptions each one is told; one that is alone in its groups, as if there were none.
    """
    leaves = list(islice(_leaves(error), MAX_LEAVES)) or [error]
    only = leaves[0] if len(leaves) == 1 else error
    if isinstance(only, ToolError) and (text := _said(only)):
        return text, only.kind
    return _summary(name, dict(_told(leaf, announced, relay) for leaf in leaves)), "failed"


def safely(write: Callable[[Any], str], value: Any) -> str:
    """Write a value by code of the user's, or nothing where that fails."""
    try:
        return sendable(shortened(write(value), MAX_WRITTEN))
    except Exception:  # noqa: BLE001  it is the user's: anything may happen
        return ""


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Give what groups of exceptions hold, in order; an exception that is no group gives itself."""
    waiting = [error]
    for _ in range(100 * MAX_LEAVES):  # a group of somebody's own making may hold itself
        if not waiting:
            return
        one = waiting.pop()
        if any(kind.__name__ == "BaseExceptionGroup" for kind in type(one).__mro__):  # no builtin in Python 3.10
            waiting += reversed(getattr(one, "exceptions", ()))
        else:
            yield one


def _said(error: ToolError) -> str:
    try:
        return sendable(error.text)
    except Exception:  # noqa: BLE001  as in `safely`
        return ""


def _told(error: BaseException, announced: Collection[str], relay: Collection[type[BaseException]]) -> tuple[str, bool]:
    """Say what the model may know of an exception, and whether its message is part of that."""
    if isinstance(error, ToolError) and (text := _said(error)):
        return text, True
    title = shortened(type(error).__name__, MAX_NAME)
    names = [f".{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    if isinstance(error, tuple(relay)) or any(_is_called(name, known) for name in names for known in announced):
        return f"{title}: {_without_secrets(safely(str, error))}", True
    return title, False


def _summary(name: str, told: Mapping[str, bool]) -> str:
    """Say what went wrong: what the model may know of each exception, and whether it knows all."""
    which = "Its message is" if len(told) == 1 else "Not all messages are"
    rest = "" if all(told.values()) else f". {which} not shown here. {REMEDY}"
    what = f"{shortened(sendable(name), MAX_NAME)} failed: {'; '.join(told)}"
    return sendable(shortened(what, MAX_ERROR - len(rest)) + rest)


def _is_called(name: str, known: str) -> bool:
    """Tell whether a class may go by a shorter name: its end, or its package and its last word, as it is imported."""
    package, _, word = known.rpartition(".")
    return name.endswith(f".{known}") or (name.startswith(f".{package}.") and name.endswith(f".{word}"))


def _without_secrets(text: str) -> str:
    """Take out of the addresses in a text who asks, and the values of what is asked: keys and passwords stand there."""
    return _ADDRESS.sub(lambda found: found[1] + _VALUE.sub(r"\1=...", found[2]), text)


# Scheme, user and password, host and path, and what is asked. A password may hold signs that end a host.
_ADDRESS = re.compile(
    r"(\b[a-z][a-z0-9+.-]{0,30}://)(?:[^\s/?#@:\"'<>]*:[^\s\"'<>]*@|[^\s/?#\"'<>]*@)?([^\s\"'<>]*)", re.IGNORECASE
)
_VALUE = re.compile(r"(?<=[?&;#])([^=&;#\s]*)=[^&;#\s]*")
