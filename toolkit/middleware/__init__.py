"""Wrap the whole line of a call: whoever rewrites its arguments passes every gate again.

The stock ones are loaded when they are first used: a run without them pays for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._lazy import lazily
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
    "toolkit.middleware.auditing": ("audit",),
    "toolkit.middleware.caching": ("cache",),
    "toolkit.middleware.per_run": ("PerRun",),
    "toolkit.middleware.redaction": ("redact",),
    "toolkit.middleware.repeats": ("repeat_guard",),
}

if not TYPE_CHECKING:  # for which each name that is not declared above is a mistake
    __getattr__, __dir__, _ = lazily(globals(), _HOMES)
