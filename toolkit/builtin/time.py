"""`current_time`: the current time, in any time zone."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from toolkit._guards.options import check_sync_function
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool


def current_time_tool(clock: Callable[[], float] = time.time) -> Tool[..., Any]:
    """Make `current_time`.

    Args:
        clock: Returns the time, in seconds since 1970, UTC.

    Raises:
        DefinitionError: `clock` cannot be called, or is asynchronous.
    """
    check_sync_function("clock", clock)

    @tool(name="current_time", title="Current Time", effect="read")
    def format_time(timezone: str = "") -> str:
        """Return the current date and time by RFC 3339, such as 2026-02-17T17:00:00+07:00.

        Args:
            timezone: IANA name, such as "Asia/Jakarta". UTC by default, and where there is none of this name: the time
                ends with Z then.
        """
        now = datetime.fromtimestamp(clock(), _find_zone(timezone))
        return now.isoformat(timespec="seconds").replace("+00:00", "Z")

    return format_time


def _find_zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else timezone.utc
    except (LookupError, ValueError, OSError):  # the name may be a path outside the database, or a directory
        return timezone.utc


current_time = current_time_tool()
