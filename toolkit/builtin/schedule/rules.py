"""Rules made of what a model says: a time, how often, and on which days."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from toolkit.builtin.schedule.recurrence import is_cron, parse
from toolkit.errors import ToolError

RECURRENCES = ("once", "daily", "custom", "weekly", "monthly")
DEFAULT_TIME = "08:00"
DEFAULT_DAYS: Mapping[str, str] = MappingProxyType(
    {"weekly": "monday", "custom": "monday,wednesday,friday", "monthly": "1"}
)

HOW = (
    'A time is HH:MM, 24 hours. A day is "monday" for weekly, "monday,friday" for custom and "15" for monthly; once '
    "and daily take none."
)


def composed(time: str, recurrence: str, day: str) -> str:
    """Write a rule: what is not said has its default, and an unknown recurrence is daily.

    Raises:
        ToolError: There is a day for a recurrence that takes none.
    """
    at, kind = time.strip() or DEFAULT_TIME, recurrence.strip().lower()
    if kind not in DEFAULT_DAYS:
        if day.strip():
            raise ToolError(f"{recurrence} takes no day, and {day} was given. {HOW}")
        return f"{at} once" if kind == "once" else f"{at} daily"
    days = ",".join(name.strip() for name in (day.strip().lower() or DEFAULT_DAYS[kind]).split(","))
    return f"{at} {kind}({days})"


def rescheduled(schedule: str, time: str, recurrence: str | None, day: str) -> str | None:
    """Write a rule anew with what is said; None where neither a time nor a recurrence is, as days alone change nothing.

    Raises:
        ToolError: The rule is in cron's form, or there is a day for a recurrence that takes none.
    """
    time = time.strip()
    if not (time or recurrence):
        return None
    if is_cron(schedule):
        raise ToolError(
            f"The schedule {schedule} is in cron's form, which cannot be changed here: ask somebody to do it."
        )
    at, rest = schedule.split(maxsplit=1)
    if recurrence or day:
        return composed(time or at, recurrence or rest.partition("(")[0], day)
    return f"{time} {rest}"


def readable(schedule: str, fault: str) -> str:
    """Give a rule back where it is one, and not in cron's form.

    Raises:
        ToolError: It is none.
    """
    try:
        parse(schedule)
    except ValueError:
        raise ToolError(f"{fault}: {schedule}. {HOW}") from None
    return schedule


def remark(recurrence: str | None) -> str:
    """Tell, on a line of its own, that a recurrence is unknown and what was taken instead; else nothing."""
    if not recurrence or recurrence.strip().lower() in ("", *RECURRENCES):
        return ""
    return f"\nThe recurrence {recurrence!r} is none of {', '.join(RECURRENCES)}: daily was taken instead."
