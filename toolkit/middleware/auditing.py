"""Write down who called what, when, and how it ended: names and digests, no contents."""

from __future__ import annotations

import inspect
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from toolkit._messages import ToolCall, ToolResult
from toolkit.errors import ToolError
from toolkit.middleware.equality import identity_of
from toolkit.middleware.line import Middleware, Next

logger = logging.getLogger("toolkit")

Record: TypeAlias = Mapping[str, Any]


def audit(write: Callable[[Record], object] | str | os.PathLike[str]) -> Middleware:
    """Make a middleware that writes one record for each call, once it has ended; put it first, so that it sees all.

    A record has `at` (when the call ended, ISO 8601 in UTC), `run`, `call`, `tool` (as the model wrote it, at most 100
    characters), `arguments` (SHA-256 of their value, in hexadecimal), `outcome` (`ok`; the kind of a result that is an
    error, such as `denied`; or the name of the exception that paused or ended the run, such as `Deferred`) and
    `seconds`. What goes wrong in writing is logged, and the call goes on.

    Args:
        write: Takes a record, on the thread of the call; it must not block for long in an event loop. Or a path: each
            record is added to that file as a line of JSON.

    Raises:
        OSError: The file cannot be written to.
        TypeError: It is a coroutine function.
    """
    if inspect.iscoroutinefunction(write):
        raise TypeError("audit() takes a plain function: nobody would await what this one promises.")
    if callable(write):
        return partial(_audited, write)
    _add_line(write, "")
    return partial(_audited, lambda record: _add_line(write, json.dumps(record) + "\n"))


async def _audited(write: Callable[[Record], object], call: ToolCall, following: Next) -> ToolResult:
    began = time.perf_counter()
    outcome = "ok"
    try:
        result = await following(call)
        outcome = (result.kind or "failed") if result.is_error else "ok"
    except BaseException as error:
        outcome = error.kind if isinstance(error, ToolError) else type(error).__name__
        raise
    finally:
        record = {"outcome": outcome, "seconds": round(time.perf_counter() - began, 6)}
        _put(write, call, following, record)
    return result


def _put(write: Callable[[Record], object], call: ToolCall, following: Next, ended: Record) -> None:
    try:
        write({**_beginning(call, following), **ended})
    except Exception:
        logger.exception("The audit record of the call %s could not be written.", call.id)


def _beginning(call: ToolCall, following: Next) -> dict[str, Any]:
    import hashlib  # it takes longer to load than all of this package, and few runs are audited

    return {
        "at": datetime.now(timezone.utc).isoformat(),
        "run": following.context.run_id,
        "call": call.id or following.context.call_id,
        "tool": call.name[:100],
        "arguments": hashlib.sha256(identity_of(call)[1].encode("utf-8", "surrogatepass")).hexdigest(),
    }


def _add_line(path: str | os.PathLike[str], line: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(line)
