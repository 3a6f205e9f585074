"""Wrap the whole line of a call: whoever rewrites its arguments passes every gate again.

The stock ones are loaded when they are first used: a run without them pays for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.middleware.line import Line as Line
from toolkit.middleware.line import Middleware as Middleware
from toolkit.middleware.line import Next as Next
from toolkit.middleware.line import compose as compose

if TYPE_CHECKING:
    from toolkit.middleware.auditing import audit as audit
    from toolkit.middleware.caching import cache as cache
    from toolkit.middleware.per_run import PerRun as PerRun
    from toolkit.middleware.redaction import redact as redact
    from toolkit.middleware.repeats import repeat_guard as repeat_guard

_HOMES = {
    "audit": "auditing",
    "cache": "caching",
    "PerRun": "per_run",
    "redact": "redaction",
    "repeat_guard": "repeats",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
