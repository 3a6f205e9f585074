"""Ready middleware and hooks, and the types for your own.

    from toolkit.middleware import audit, redact

Each name is loaded when it is first used. `toolkit._execution` wraps calls in middleware, and `toolkit._runner` calls
hooks.

Files, each importing only those below it:

    telemetry       OpenTelemetry: spans and metrics of runs
    compaction      a hook that shortens the requests of a long conversation
    redaction       removal of secrets from results
    audit_log       a record of each call
    repeated_calls  a cache of results, and the refusal of repeated calls
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._lazy import lazy_names

if TYPE_CHECKING:
    from toolkit._execution.dispatcher import Middleware as Middleware
    from toolkit._execution.dispatcher import Next as Next
    from toolkit.middleware.audit_log import audit as audit
    from toolkit.middleware.compaction import Compaction as Compaction
    from toolkit.middleware.compaction import estimate_tokens as estimate_tokens
    from toolkit.middleware.redaction import redact as redact
    from toolkit.middleware.repeated_calls import PerRun as PerRun
    from toolkit.middleware.repeated_calls import cache as cache
    from toolkit.middleware.repeated_calls import repeat_guard as repeat_guard
    from toolkit.middleware.telemetry import Telemetry as Telemetry

# The module of each public name. The block above is the same for type checkers; a test compares both.
_HOMES = {
    "toolkit._execution.dispatcher": ("Middleware", "Next"),
    "toolkit.middleware.audit_log": ("audit",),
    "toolkit.middleware.compaction": ("Compaction", "estimate_tokens"),
    "toolkit.middleware.redaction": ("redact",),
    "toolkit.middleware.repeated_calls": ("PerRun", "cache", "repeat_guard"),
    "toolkit.middleware.telemetry": ("Telemetry",),
}

if not TYPE_CHECKING:  # so that type checkers report names that are not declared above
    __getattr__, __dir__, __all__ = lazy_names(globals(), _HOMES, {"opentelemetry": "otel"})
