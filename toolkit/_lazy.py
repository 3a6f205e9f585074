"""Lazy loading: of a package's public names, and of what displays a value in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(
    scope: dict[str, object], homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return a package's `__getattr__`, `__dir__` and `__all__`.

    Args:
        scope: The package's `globals()`.
        homes: Public names by the module that defines them.
    """
    names = sorted(name for there in homes.values() for name in there)

    def load(name: str) -> object:
        home = next((home for home, there in homes.items() if name in there), None)
        if home is None:
            raise AttributeError(f"module {scope['__name__']!r} has no attribute {name!r}")
        scope[name] = getattr(import_module(home), name)  # the next access bypasses `__getattr__`
        return scope[name]

    return load, lambda: sorted({*scope, *names}), names


def render_html(value: object, renderer: str) -> str:
    """Render a value by a function of `toolkit.display.cards`, which is loaded when a notebook asks."""
    html: str = getattr(import_module("toolkit.display.cards"), renderer)(value)
    return html
