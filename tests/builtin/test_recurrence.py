"""The next time of a rule: its days, changes of the clock, and invalid rules.

The oracle walks through the time and looks at the clock, each minute where clocks are set; it computes nothing.
`TOOLKIT_YEARS=2005-2026 python -m pytest --timeout 3600 tests/builtin/test_recurrence.py` walks through more of it.
"""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from functools import cache
from itertools import accumulate, groupby, islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.properties import IS_WHOLE, combine
from toolkit.builtin import next_run

UTC = timezone.utc
MINUTE = 60
QUARTER = 15 * MINUTE
DAY = 86_400

# Zones with rules of every kind: half hours, midnight, Ramadan, twice a year, never, and one that left out a day.
ZONES = (  # noqa: SIM905  # a list of them would be a page long
    "Africa/Cairo Africa/Casablanca Africa/El_Aaiun Africa/Johannesburg Africa/Juba Africa/Khartoum Africa/Sao_Tome "
    "Africa/Tripoli Africa/Windhoek America/Asuncion America/Caracas America/Chicago America/Godthab America/Havana "
    "America/Los_Angeles America/Mexico_City America/New_York America/Phoenix America/Sao_Paulo America/Scoresbysund "
    "America/St_Johns Antarctica/Casey Antarctica/Troll Asia/Amman Asia/Beirut Asia/Damascus Asia/Dhaka Asia/Gaza "
    "Asia/Jakarta Asia/Jerusalem Asia/Kathmandu Asia/Kolkata Asia/Pyongyang Asia/Tehran Asia/Ulaanbaatar "
    "Atlantic/Azores Australia/Eucla Australia/Lord_Howe Australia/Sydney Europe/Berlin Europe/Chisinau Europe/Dublin "
    "Europe/Istanbul Europe/London Europe/Moscow Pacific/Apia Pacific/Chatham Pacific/Easter Pacific/Norfolk UTC"
).split()
# One zone of each kind, where TOOLKIT_EXAMPLES is below 100.
FEW_ZONES = (  # noqa: SIM905  as above
    "Africa/Cairo Africa/Casablanca America/Havana America/Sao_Paulo America/St_Johns Antarctica/Troll Asia/Gaza "
    "Asia/Kathmandu Asia/Tehran Australia/Lord_Howe Europe/Berlin Pacific/Apia UTC"
).split()
each_zone = pytest.mark.parametrize("zone", ZONES if IS_WHOLE else FEW_ZONES)
YEARS = tuple(map(int, os.environ.get("TOOLKIT_YEARS", "2011-2012").split("-")))
# By default, the months around a leap day and a day that was left out; most zones set their clocks twice in them.
BEGIN = datetime(YEARS[0], 9, 15, tzinfo=UTC).timestamp()
END = datetime(YEARS[1], 5, 1, tzinfo=UTC).timestamp()
TIMES = ("00:00", "00:30", "01:30", "02:00", "02:30", "03:00", "12:00", "23:15", "23:59")


def moment(text: str, zone: str = "UTC") -> float:
    """Seconds since 1970 of a local time."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def due(rule: str, now: str, zone: str = "UTC") -> str:
    """When a rule is due next, as a local time, asked at a local time."""
    return f"{datetime.fromtimestamp(next_run(rule, moment(now, zone), zone), ZoneInfo(zone)):%Y-%m-%d %H:%M}"


def series(rule: str, begin: float, zone: str) -> Iterator[float]:
    """All times that a rule is due after one."""
    while True:
        begin = next_run(rule, begin, zone)
        yield begin


def moments(place: ZoneInfo) -> Iterator[float]:
    """Each quarter of an hour, and each minute of those in which clocks are set."""
    quarters = [(at, datetime.fromtimestamp(at, place).utcoffset()) for at in range(int(BEGIN), int(END), QUARTER)]
    for (quarter, before), (_, after) in pairwise(quarters):
        yield from range(quarter, quarter + QUARTER, QUARTER if before == after else MINUTE)


@cache
def clock(zone: str) -> tuple[tuple[datetime, float], ...]:
    """The times that a zone's clocks show for the first time, and their moments."""
    place = ZoneInfo(zone)
    text = ((datetime.fromtimestamp(at, place).replace(tzinfo=None), at) for at in moments(place))
    latest = accumulate(text, max)
    return tuple(pair for pair, _ in groupby(latest))


def compute_expected(at: time, falls_on: Callable[[date], bool], zone: str) -> list[float]:
    """By the oracle: for each day that clocks showed, when they first showed the time or a later one."""
    walls, days = walk_clock(zone)
    places = [bisect_left(walls, datetime.combine(day, at)) for day in days if falls_on(day)]
    result = [clock(zone)[place][1] for place in places if place < len(walls)]
    return [moment for moment in result if BEGIN + DAY < moment < END - DAY]


@cache
def walk_clock(zone: str) -> tuple[list[datetime], list[date]]:
    """The times that a zone's clocks show one after the other, and their days."""
    walls = [wall for wall, _ in clock(zone)]
    return walls, sorted({wall.date() for wall in walls})


def last_day(day: date) -> int:
    """The number of a month's last day."""
    return monthrange(day.year, day.month)[1]


RULES: dict[str, Callable[[date], bool]] = {
    "daily": lambda day: True,
    "weekly(fri)": lambda day: day.weekday() == 4,
    "custom(saturday,minggu)": lambda day: day.weekday() > 4,
    "monthly(31)": lambda day: day.day == last_day(day),
    "monthly(30)": lambda day: day.day == min(30, last_day(day)),
}


@each_zone
def test_oracle(zone: str) -> None:
    """In each zone a rule is due once for each day, as a brute-force oracle computes."""
    for at, (rule, falls_on) in combine(("00:00", "00:30", "02:00", "02:30", "12:00", "23:15"), RULES.items()):
        wanted = compute_expected(time.fromisoformat(at), falls_on, zone)
        result = islice(series(f"{at} {rule}", BEGIN + DAY, zone), len(wanted))

        assert wanted == list(result), f"{at} {rule}"


@each_zone
def test_once_a_day(zone: str) -> None:
    """Over four years a daily rule is due once for each day that the zone has."""
    begin, end = date(2021, 1, 1), date(2025, 1, 1)
    moments = list(islice(series("02:30 daily", moment("2020-12-31T12:00", zone), zone), (end - begin).days))
    days = [datetime.fromtimestamp(at, ZoneInfo(zone)).date() for at in moments]

    assert [begin + timedelta(number) for number in range((end - begin).days)] == days


@given(
    zone=st.sampled_from(sorted(available_timezones())),
    now=st.integers(0, 4_000_000_000),
    at=st.times(),
    kind=st.sampled_from(["once", *RULES, "monthly(1)", "weekly(mon)"]),
)
def test_next(zone: str, now: int, at: time, kind: str) -> None:
    """The next time is later, within 64 days, and the same when computed just before it."""
    rule = f"{at:%H:%M} {kind}"
    result = next_run(rule, now, zone)

    assert now < result <= now + 64 * DAY
    assert result == next_run(rule, max(now, result - 1), zone)


@given(zone=st.sampled_from(ZONES), now=st.integers(0, 4_000_000_000), later=st.integers(0, 100 * DAY))
def test_monotonic(zone: str, now: int, later: int) -> None:
    """Asked later, a rule is due no earlier."""
    assert next_run("02:30 daily", now, zone) <= next_run("02:30 daily", now + later, zone)


@pytest.mark.parametrize(
    ("now", "hours", "expected"), [(1771322400, 7, 1771376400), (1771340400, -5, 1771419600)], ids=["east", "west"]
)
def test_vectors(now: int, hours: int, expected: int) -> None:
    """A zone may be whole hours ahead of UTC, or a `tzinfo`."""
    assert expected == next_run("08:00 daily", now, hours)
    assert expected == next_run("08:00 daily", now, timezone(timedelta(hours=hours)))


@pytest.mark.parametrize(
    ("rule", "now", "expected"),
    [
        ("08:00 once", "2026-02-17T07:59", "2026-02-17 08:00"),
        ("08:00 daily", "2026-02-17T08:00", "2026-02-18 08:00"),
        ("8:05 daily", "2026-12-31T09:00", "2027-01-01 08:05"),
        ("08:00 weekly(tuesday)", "2026-02-17T07:00", "2026-02-17 08:00"),
        ("08:00 weekly(TUE)", "2026-02-17T09:00", "2026-02-24 08:00"),
        ("08:00 weekly( senin )", "2026-02-17T09:00", "2026-02-23 08:00"),
        ("08:00 custom(mon, friday)", "2026-02-17T09:00", "2026-02-20 08:00"),
        ("08:00 custom(kamis,kamis)", "2026-02-17T09:00", "2026-02-19 08:00"),
        ("08:00 monthly(17)", "2026-02-17T07:00", "2026-02-17 08:00"),
        ("08:00 monthly(1)", "2026-12-02T07:00", "2027-01-01 08:00"),
        ("08:00 monthly(31)", "2026-04-01T00:00", "2026-04-30 08:00"),
        ("08:00 monthly(31)", "2026-04-30T08:00", "2026-05-31 08:00"),
        ("08:00 monthly(29)", "2027-02-01T00:00", "2027-02-28 08:00"),
        ("08:00 monthly(29)", "2028-02-01T00:00", "2028-02-29 08:00"),
        ("08:00 monthly(30)", "2100-02-01T00:00", "2100-02-28 08:00"),
        ("00:00 daily", "2028-02-28T00:00", "2028-02-29 00:00"),
    ],
)
def test_days(rule: str, now: str, expected: str) -> None:
    """A rule is due on the next of its days whose time is not there yet."""
    assert expected == due(rule, now)


@pytest.mark.parametrize(
    ("zone", "rule", "now", "expected"),
    [
        ("Europe/Berlin", "02:30 daily", "2026-03-29T00:00", "2026-03-29 03:00"),
        ("Europe/Berlin", "02:30 daily", "2026-03-29T03:00", "2026-03-30 02:30"),
        ("America/Sao_Paulo", "00:00 daily", "2018-11-03T12:00", "2018-11-04 01:00"),
        ("America/Godthab", "23:30 daily", "2024-03-30T12:00", "2024-03-31 00:00"),
        ("Australia/Lord_Howe", "02:15 daily", "2026-10-04T00:00", "2026-10-04 02:30"),
        ("Pacific/Apia", "08:00 daily", "2011-12-29T09:00", "2011-12-31 08:00"),
        ("Pacific/Apia", "08:00 weekly(friday)", "2011-12-29T09:00", "2012-01-06 08:00"),
        ("Pacific/Kwajalein", "00:00 daily", "1993-08-20T09:00", "1993-08-22 00:00"),
    ],
)
def test_skipped(zone: str, rule: str, now: str, expected: str) -> None:
    """A time that clocks skip is due right after the gap; a day that a zone leaves out has none."""
    assert expected == due(rule, now, zone)


@pytest.mark.parametrize("rule", ["02:30 daily", "30 2 * * *"])
def test_twice(rule: str) -> None:
    """Of a time that comes twice the first counts, also when the search starts between the two."""
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()
    requests = [first - 1, first, first + 1800, first + 3599, first + 3601]

    assert [first, *[first + 25 * 3600] * 4] == [next_run(rule, now, "Europe/Berlin") for now in requests]


@each_zone
def test_cron_agrees(zone: str) -> None:
    """In cron's form a fixed time of each day is due at the same moments."""
    requests = changes(zone)
    for at in TIMES:
        hour, minute = at.split(":")
        result = [next_run(f"{minute} {hour} * * *", now, zone) for now in requests]

        assert [next_run(f"{at} daily", now, zone) for now in requests] == result, at


def changes(zone: str) -> list[float]:
    """Some moments around each time that a zone's clocks were set, except a day that was left out."""
    place = ZoneInfo(zone)
    offsets = [
        (at, datetime.fromtimestamp(at, place).utcoffset() or timedelta()) for at in range(int(BEGIN), int(END), 3600)
    ]
    sets = [
        at for (at, old), (_, new) in zip(offsets, offsets[1:]) if old != new and abs(new - old) < timedelta(hours=12)
    ]
    return [at + hours * 3600 for at in sets for hours in range(-26, 3)]


def test_cron_hours() -> None:
    """A cron rule with a wildcard follows the clock, hour by hour."""
    begin = moment("2026-10-24T23:59", "Europe/Berlin")

    assert [begin + MINUTE + 3600 * number for number in range(25)] == list(
        islice(series("0 * * * *", begin, "Europe/Berlin"), 25)
    )


@pytest.mark.parametrize(
    "rule",
    [
        *("", " ", ":", "08:00", "daily", "08:00 fortnightly", "24:00 daily", "08:60 daily", "-1:00 daily"),
        *("aa:00 daily", "٠٨:٠٠ daily", "8 daily", "08:0 daily", "08:00:00 daily", "08:00 daily()", "08:00 once(1)"),
        *("08:00 weekly", "08:00 weekly()", "08:00 weekly(funday)", "08:00 weekly(monday,friday)", "08:00 weekly(1)"),
        *("08:00 custom", "08:00 custom()", "08:00 custom(mon,)", "08:00 custom(mon;tue)", "08:00 custom((mon))"),
        *("08:00 monthly", "08:00 monthly()", "08:00 monthly(0)", "08:00 monthly(32)", "08:00 monthly(1_5)"),
        *("08:00 monthly(x)", "08:00 monthly(+5)", "08:00 monthly(²)", "08:00 daily daily", "08:00 daily\x00"),
        *("60 * * * *", "* * * *", "* * * * * *", "* * * * * * *", "R * * * *", "0 0 31 2 *", "@daily", "* * * * 9"),
        *("0/0 * * * *", "5-1 * * * *", f"{'0,' * 60}0 * * * *"),
    ],
)
def test_no_rules(rule: str) -> None:
    """An invalid rule is refused by a sentence that quotes it."""
    with pytest.raises(ValueError, match=r"^invalid schedule format: "):
        next_run(rule, 0, "UTC")


@pytest.mark.parametrize("rule", [8, None, ["08:00 daily"]], ids=str)
def test_rules_that_are_no_text(rule: Any) -> None:
    """What is not a text is refused by a sentence that lists the forms of rules."""
    with pytest.raises(TypeError, match=r"is not text\. A rule is a time"):
        next_run(rule, 0, "UTC")


@pytest.mark.parametrize("rule", ["daily", "8am daily", "08:00 hourly", "* * * *"])
def test_forms(rule: str) -> None:
    """The error of an invalid rule lists the forms of rules."""
    forms = (
        "A rule is a time, HH:MM in 24 hours, and one of once, daily, weekly(monday), custom(monday,friday) and "
        "monthly(15), such as '08:00 daily'; or cron's five fields."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(f'invalid schedule format: {rule}. {forms}')}$"):
        next_run(rule, 0, "UTC")


@each_zone
def test_leap_days(zone: str) -> None:
    """In a leap year, 29 February is the last day of its month, and a day of its own."""
    rules = ("12:00 daily", "12:00 monthly(29)", "12:00 monthly(31)", "0 12 29 2 *")

    assert [["2028-02-29 12:00"] * 4, ["2027-03-01 12:00", *["2027-02-28 12:00"] * 2, "2028-02-29 12:00"]] == [
        [due(rule, f"{year}-02-28T{hour}:00", zone) for rule, hour in zip(rules, hours)]
        for year, hours in ((2028, [12, 12, 12, 12]), (2027, [12, 11, 11, 12]))
    ]


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the error of a cron rule has the command that installs it; other rules work."""
    monkeypatch.setitem(sys.modules, "cronsim", None)

    with pytest.raises(ImportError, match=re.escape('pip install "function-toolkit[schedule]"')):
        next_run("0 8 * * *", 0, "UTC")
    with pytest.raises(ValueError, match=r"^invalid schedule format: daily\."):
        next_run("daily", 0, "UTC")
    assert 8 * 3600 == next_run("08:00 daily", 0, "UTC")


def test_never() -> None:
    """A rule in cron's form that no day fits is refused, too."""
    with pytest.raises(ValueError, match=r"^this schedule is never due: "):
        next_run("0 0 */31 2 MON#5", 0, "UTC")


@pytest.mark.parametrize("zone", [None, 15, -13, 5.5, b"UTC", ["UTC"]], ids=repr)
def test_invalid_zones(zone: Any) -> None:
    """Every invalid zone is refused with the same message, which names hours as a way out."""
    with pytest.raises(ValueError, match="hours ahead of UTC, from -12 to 14, such as 7"):
        next_run("08:00 daily", 0, zone)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "/etc/passwd", "America", "\x00", "a" * 10_000])
def test_no_zones(zone: str) -> None:
    """A value that is not a zone is refused by a sentence with examples."""
    with pytest.raises(ValueError, match="IANA name"):
        next_run("08:00 daily", 0, zone)


@given(st.text("0123456789:,-*/#LW() odailymnthcusw\x00٣²", max_size=40) | st.text(max_size=40))
@example("08:00 daily")
def test_any_text(rule: str) -> None:
    """Any text gives a later time or a ValueError."""
    try:
        result = next_run(rule, 1e9, "Europe/Berlin")
    except ValueError:
        result = float("inf")

    assert result > 1e9
