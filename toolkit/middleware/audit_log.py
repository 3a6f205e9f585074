"""Audit: a record of each call."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from toolkit._concurrency.backend import is_async
from toolkit._context import ToolContext
from toolkit._execution.dispatcher import Middleware, Next
from toolkit._guards.options import check_type
from toolkit._messages import ToolCall, ToolResult
from toolkit._options import find_misfit
from toolkit.errors import ToolError
from toolkit.middleware.repeated_calls import identify

logger: logging.Logger = logging.getLogger("toolkit")

AuditRecord: TypeAlias = Mapping[str, Any]


def audit(
    write: Callable[[AuditRecord], object] | Callable[[AuditRecord, ToolContext[Any]], object] | str | os.PathLike[str],
) -> Middleware:
    """Create a middleware that writes a record of each call after its end. Put it first, so that it records all calls.

    A record has `at` (when the call ended, ISO 8601 in UTC), `run`, `call`, `tool` (as the model wrote it, at most 100
    characters), `arguments` (SHA-256 of their value, in hexadecimal), `outcome` (`ok`; the kind of an error result,
    such as `denied`; or the name of the exception that paused or ended the run, such as `Deferred`) and `seconds`. An
    exception while writing is logged, and does not affect the call.

    Args:
        write: A function that is called with a record, on the thread of the call, and must not block an event loop for
            long. It may take the context of the call, too, to record who made it. Or the path of a file to which each
            record is appended as a line of JSON.

    Raises:
        OSError: The file cannot be written.
        TypeError: `write` is a coroutine function.
        DefinitionError: `write` is neither a function nor a path.
    """
    if not callable(write):
        check_type("write", write, str, os.PathLike)
        _append_line(write, "")
        return partial(_audit_call, lambda record, _: _append_line(write, json.dumps(record) + "\n"))
    if is_async(write):
        raise TypeError("audit() takes a plain function: a coroutine function would never be awaited.")
    plain: Callable[..., object] = write
    takes_context = find_misfit(plain, "record") is not None
    return partial(_audit_call, plain if takes_context else lambda record, _: plain(record))


async def _audit_call(
    write: Callable[[AuditRecord, ToolContext[Any]], object], call: ToolCall, call_next: Next
) -> ToolResult:
    """Execute a call, and write its record however it ends. A record that cannot be written is only logged."""
    start = time.perf_counter()
    outcome = "ok"
    try:
        result = await call_next(call)
        outcome = (result.kind or "failed") if result.is_error else "ok"
    except BaseException as error:
        outcome = error.kind if isinstance(error, ToolError) else type(error).__name__
        raise
    finally:
        try:
            record = _make_record(call, call_next.context, outcome, time.perf_counter() - start)
            write(record, call_next.context)
        except (Exception, SystemExit):
            logger.exception("The audit record of the call %s could not be written.", call.id)

    return result


def _make_record(call: ToolCall, context: ToolContext[Any], outcome: str, seconds: float) -> AuditRecord:
    import hashlib  # slow to load, and few runs are audited

    _, arguments = identify(call)
    return {
        "at": datetime.now(timezone.utc).isoformat(),
        "run": context.run_id,
        "call": call.id or context.call_id,
        "tool": call.name[:100],
        "arguments": hashlib.sha256(arguments.encode("utf-8", "surrogatepass")).hexdigest(),
        "outcome": outcome,
        "seconds": round(seconds, 6),
    }


def _append_line(path: str | os.PathLike[str], line: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(line)
