"""Rules such as `08:00 daily` or cron's five fields, and their next time.

The functions are pure: they read neither the clock nor the machine's time zone.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import count
from zoneinfo import ZoneInfo

from toolkit._lazy import needs_extra
from toolkit.errors import ToolError

# The most characters of an expression in cron's form.
MAX_CRON = 100
CRON_FIELDS = 5

MINUTE = timedelta(minutes=1)
EVERY_DAY = frozenset(range(7))
FORMS = (
    "A rule is a time, HH:MM in 24 hours, and one of once, daily, weekly(monday), custom(monday,friday) and "
    "monthly(15), such as '08:00 daily'; or cron's five fields."
)
QUOTED = 100  # characters of an invalid rule that a message quotes

RECURRENCES = ("once", "daily", "custom", "weekly", "monthly")
DEFAULT_TIME = "08:00"
DEFAULT_DAYS: Mapping[str, str] = {"weekly": "monday", "custom": "monday,wednesday,friday", "monthly": "1"}

RULE_HELP = (
    'A time is HH:MM, 24 hours. A day is "monday" for weekly, "monday,friday" for custom and "15" for monthly; once '
    "and daily take none."
)


def next_run(rule: str, now: float, zone: str | int | tzinfo) -> float:
    """Return the next time of a rule, strictly after now, in seconds since 1970, UTC.

    A rule is a time and one of `once`, `daily`, `weekly(monday)`, `custom(monday,friday)` and `monthly(15)`, such as
    `08:00 daily`; or cron's five fields. Days have their English names, whole or three letters of them, or their
    Indonesian ones. In a month that is too short, `monthly(31)` is due on the last day.

    A rule is due once for each local day. When the clock is set back and a time comes twice, the first one counts. When
    the clock skips a time, the rule is due right after the gap. On a day that the zone skips, it is not due.

    Args:
        rule: The rule.
        now: Seconds since 1970, UTC.
        zone: An IANA name, such as "Asia/Jakarta"; or the whole hours that clocks are ahead of UTC, from -12 to 14; or
            a `tzinfo`.

    Raises:
        TypeError: The rule is not text.
        ValueError: The rule is invalid or never due, or the zone does not exist.
        ImportError: The rule is in cron's form, and the extra `schedule` is not installed.
    """
    recurrence = parse_rule(rule)
    time_zone = find_zone(zone)
    if recurrence is None:
        return find_next_cron_run(rule, now, time_zone)
    return _find_next_run(recurrence, now, time_zone)


def _find_next_run(recurrence: Recurrence, now: float, zone: tzinfo) -> float:
    today = datetime.fromtimestamp(now, zone).date()
    days = filter(recurrence.falls_on, (today + timedelta(later) for later in count()))
    moments = (_to_timestamp(datetime.combine(day, recurrence.at), zone) for day in days if _has_day(day, zone))
    return next(moment for moment in moments if moment > now)


def _has_day(day: date, zone: tzinfo) -> bool:
    """Return whether a zone has a day: Samoa went from 29 to 31 December 2011."""
    return _to_wall_time(_to_timestamp(datetime.combine(day, time()), zone), zone).date() == day


def _to_timestamp(wall: datetime, zone: tzinfo) -> float:
    """Return the first moment at which clocks show a time, or the moment after the gap if they skip it."""
    moment = wall.replace(tzinfo=zone).timestamp()
    while _to_wall_time(moment, zone) != wall:
        wall += MINUTE
        moment = wall.replace(tzinfo=zone).timestamp()
    return moment


def _to_wall_time(moment: float, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(moment, zone).replace(tzinfo=None)


def find_next_cron_run(expression: str, now: float, zone: tzinfo) -> float:
    """Return the next time of an expression in cron's form, strictly after now.

    When the clock is changed, the times are those of Debian's cron: a fixed time of the day is due once, even if the
    clock skips it. An expression with a wildcard for minute or hour follows the clock.

    Raises:
        ImportError: The extra `schedule` is not installed.
        ValueError: The expression is invalid, or never due in 50 years.
    """
    with needs_extra("A rule in cron's form", "schedule"):
        from cronsim import CronSim, CronSimError

    try:
        fires = CronSim(expression, datetime.fromtimestamp(now, zone))
    except CronSimError as error:
        raise ValueError(f"invalid schedule format: {expression} ({error})") from None

    # CronSim counts in wall time, so after the clock was set back its first result can be in the past.
    for fire in fires:
        if (moment := fire.timestamp()) > now:
            return moment
    raise ValueError(f"this schedule is never due: {expression}")


def find_zone(zone: str | int | tzinfo) -> tzinfo:
    """Return the time zone of an IANA name, or of hours ahead of UTC.

    Raises:
        ValueError: There is no such zone.
    """
    if isinstance(zone, tzinfo):
        return zone
    try:
        return ZoneInfo(to_zone_name(zone))
    except (LookupError, ValueError, OSError, TypeError, AttributeError):
        raise ValueError(
            f"There is no time zone {zone!r}. Give an IANA name, such as 'Asia/Jakarta', or the hours ahead of UTC, "
            "from -12 to 14, such as 7; a machine without zones needs the package tzdata."
        ) from None


def to_zone_name(zone: str | int) -> str:
    """Return the IANA name of hours ahead of UTC, which has the opposite sign. A name is returned as it is."""
    return zone if isinstance(zone, str) else f"Etc/GMT{-zone:+d}"


@dataclass(frozen=True)
class Recurrence:
    """A time of day on some weekdays, counted from Monday as 0, or on one day of each month."""

    at: time
    weekdays: frozenset[int] = EVERY_DAY
    month_day: int | None = None

    def falls_on(self, day: date) -> bool:
        """Return whether it is due on a day."""
        if self.month_day is None:
            return day.weekday() in self.weekdays
        _, last_day = monthrange(day.year, day.month)
        return day.day == min(self.month_day, last_day)


def parse_rule(rule: str) -> Recurrence | None:
    """Parse a rule. Return None for one in cron's form, whose five fields are not checked.

    Raises:
        TypeError: The rule is not text.
        ValueError: The rule is invalid.
    """
    if not isinstance(rule, str):
        raise TypeError(f"The rule {rule!r:.100} is not text. {FORMS}")
    if ":" not in rule and len(rule) <= MAX_CRON and len(rule.split()) == CRON_FIELDS:
        return None

    match = _RULE.fullmatch(rule.strip().lower())
    try:
        hour, minute, kind, days = match.groups() if match else ("", "", "", None)
        at = time(int(hour), int(minute))
        names = [name.strip() for name in (days or "").split(",")]
        if kind in ("once", "daily") and days is None:
            return Recurrence(at)
        if kind == "custom" or (kind == "weekly" and len(names) == 1):
            return Recurrence(at, frozenset(_WEEKDAYS[name] for name in names))
        if kind == "monthly" and _MONTH_DAY.fullmatch(days or ""):
            return Recurrence(at, month_day=int(days or ""))
    except (LookupError, ValueError):
        pass

    raise ValueError(f"invalid schedule format: {rule[:QUOTED]}. {FORMS}")


_RULE = re.compile(r"([0-9]{1,2}):([0-9]{2})\s+([a-z]+)(?:\(([^()]*)\))?")
_MONTH_DAY = re.compile("0?[1-9]|[12][0-9]|3[01]")
_NAMES = (
    ("monday", "mon", "senin"),
    ("tuesday", "tue", "selasa"),
    ("wednesday", "wed", "rabu"),
    ("thursday", "thu", "kamis"),
    ("friday", "fri", "jumat"),
    ("saturday", "sat", "sabtu"),
    ("sunday", "sun", "minggu"),
)
_WEEKDAYS: Mapping[str, int] = {name: number for number, names in enumerate(_NAMES) for name in names}


def compose_rule(time: str, recurrence: str, day: str) -> str:
    """Compose a rule. An empty part gets its default, and an unknown recurrence becomes daily.

    Raises:
        ToolError: A day was given for a recurrence that takes none.
    """
    at = time.strip() or DEFAULT_TIME
    kind = recurrence.strip().lower()
    if kind not in DEFAULT_DAYS:
        if day.strip():
            raise ToolError(f"{recurrence} takes no day, and {day} was given. {RULE_HELP}")
        return f"{at} once" if kind == "once" else f"{at} daily"
    days = day.strip().lower() or DEFAULT_DAYS[kind]
    names = ",".join(name.strip() for name in days.split(","))
    return f"{at} {kind}({names})"


def change_rule(schedule: str, time: str, recurrence: str | None, day: str) -> str | None:
    """Change the time, the recurrence or the days of a rule. Return None if none of them is given.

    Raises:
        ToolError: The rule is in cron's form, or a day was given for a recurrence that takes none.
    """
    time = time.strip()
    day = day.strip()
    if not (time or recurrence or day):
        return None
    if ":" not in schedule:
        raise ToolError(
            f"The schedule {schedule} is in cron's form, which cannot be changed here: ask the user to do it."
        )
    at, rest = schedule.split(maxsplit=1)
    if recurrence or day:
        return compose_rule(time or at, recurrence or rest.partition("(")[0], day)
    return f"{time} {rest}"


def validate_rule(schedule: str, fault: str) -> str:
    """Check that a rule is valid and not in cron's form, and return it.

    Raises:
        ToolError: The rule is invalid; the message begins with `fault`.
    """
    with suppress(ValueError):
        if parse_rule(schedule) is not None:
            return schedule
    raise ToolError(f"{fault}: {schedule}. {RULE_HELP}")


def explain_unknown(recurrence: str | None) -> str:
    """Return a line for the model which says that an unknown recurrence was replaced, or "" for a known one."""
    if not recurrence or recurrence.strip().lower() in ("", *RECURRENCES):
        return ""
    return f"\nThe recurrence {recurrence!r} is not one of {', '.join(RECURRENCES)}: daily was taken instead."
