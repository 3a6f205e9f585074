"""Let a language model call your Python functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolkit.tools import Tool, tool

__version__ = "0.1.0"

_HOMES = {"tool": "toolkit.tools", "Tool": "toolkit.tools", "Toolbox":"toolkit.toolbox", "Runner":"toolkit.runner"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
