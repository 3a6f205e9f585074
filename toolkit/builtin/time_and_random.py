"""`current_time`: the current time, in any time zone; and `random`: a random integer."""

from __future__ import annotations

from datetime import datetime, timezone, tzinfo
from random import Random, SystemRandom
from typing import Any
from zoneinfo import ZoneInfo

from toolkit._guards.options import check_type
from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import ToolError

LIMIT = 2**63  # the range of 64-bit integers, which most programs can read


@tool(title="Current Time", effect="read")
def current_time(timezone: str = "") -> str:
    """Return the current date and time by RFC 3339, such as 2026-02-17T17:00:00+07:00.

    Args:
        timezone: IANA name, such as "Asia/Jakarta". UTC by default, and if there is no such zone: the time ends
            with Z then.
    """
    now = datetime.now(_find_zone(timezone))
    return now.isoformat(timespec="seconds").replace("+00:00", "Z")


def _find_zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else timezone.utc
    except (LookupError, ValueError, OSError):  # the name may be a path outside the database, or a directory
        return timezone.utc


def random_tool(source: Random | None = None) -> Tool[..., Any]:
    """Make `random`.

    Args:
        source: Source of random numbers; the system's by default. `Random(7)` returns the same numbers in each process.

    Raises:
        DefinitionError: `source` is not a `random.Random`.
    """
    generator = SystemRandom() if source is None else check_type("source", source, Random)

    @tool(name="random", title="Random Number", effect="read")
    def draw_number(min: int, max: int) -> int:  # noqa: A002  names that the model sees
        """Return a random whole number.

        Args:
            min: The smallest possible number.
            max: The largest possible number.
        """
        if not (-LIMIT <= min < LIMIT and -LIMIT <= max < LIMIT):
            raise ToolError(f"invalid range: min={min}, max={max}")
        if min > max:
            raise ToolError("min must be <= max")
        return generator.randint(min, max)

    return draw_number
