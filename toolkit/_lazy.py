"""Names of a package that are loaded when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(
    scope: dict[str, object], homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Make a package's `__getattr__`, `__dir__` and `__all__`.

    Args:
        scope: The package's own names, its `globals()`.
        homes: For each module the public names that live there.
    """
    names = sorted(name for there in homes.values() for name in there)

    def load(name: str) -> object:
        home = next((home for home, there in homes.items() if name in there), None)
        if home is None:
            raise AttributeError(f"module {scope['__name__']!r} has no attribute {name!r}")
        scope[name] = getattr(import_module(home), name)  # the next look-up is an ordinary one
        return scope[name]

    return load, lambda: sorted({*scope, *names}), names
