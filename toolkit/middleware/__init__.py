"""Ready middleware and hooks, and what those of your own need.

    from toolkit.middleware import audit, redact

Every name here is loaded when it is first used. `toolkit._execution` wraps calls in middleware, and `toolkit._runner`
calls hooks.

Files, each importing only those below it:

    telemetry     OpenTelemetry: spans and metrics of runs
    compaction    a hook that shortens what the model is sent of a long conversation
    audit_log     a record of each call
    redaction     secrets in results
    repeats       refusal of calls that repeat earlier ones
    result_cache  results of tools that only read
    per_run       what middleware remembers of calls
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._lazy import lazy_names

if TYPE_CHECKING:
    from toolkit._execution.middleware import Middleware as Middleware
    from toolkit._execution.middleware import Next as Next
    from toolkit.middleware.audit_log import audit as audit
    from toolkit.middleware.compaction import Compaction as Compaction
    from toolkit.middleware.compaction import estimate_tokens as estimate_tokens
    from toolkit.middleware.per_run import PerRun as PerRun
    from toolkit.middleware.redaction import redact as redact
    from toolkit.middleware.repeats import repeat_guard as repeat_guard
    from toolkit.middleware.result_cache import cache as cache
    from toolkit.middleware.telemetry import Telemetry as Telemetry

# Where each public name lives. The block above says the same to type checkers; a test holds the two together.
_HOMES = {
    "toolkit._execution.middleware": ("Middleware", "Next"),
    "toolkit.middleware.audit_log": ("audit",),
    "toolkit.middleware.compaction": ("Compaction", "estimate_tokens"),
    "toolkit.middleware.per_run": ("PerRun",),
    "toolkit.middleware.redaction": ("redact",),
    "toolkit.middleware.repeats": ("repeat_guard",),
    "toolkit.middleware.result_cache": ("cache",),
    "toolkit.middleware.telemetry": ("Telemetry",),
}

if not TYPE_CHECKING:  # for which each name that is not declared above is a mistake
    __getattr__, __dir__, __all__ = lazy_names(globals(), _HOMES, {"opentelemetry": "otel"})
