"""What only a tool for commands is made with: each value is looked at where it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toolkit._concurrency.backend import is_async
from toolkit._guards.options import is_text
from toolkit.errors import DefinitionError


def variables(env: Mapping[str, str] | None) -> dict[str, str]:
    """Give a copy of variables that somebody wants to add to an environment.

    Raises:
        DefinitionError: There can be no such variable.
    """
    if not isinstance(env, (Mapping, type(None))):
        raise DefinitionError(f"env={env!r:.100} is no mapping, such as env={{'CI': '1'}}.")
    added = dict(env or {})
    for name, value in added.items():
        if not is_text(name) or not name or "=" in name or not is_text(value):
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
