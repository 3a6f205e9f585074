"""When a rule in cron's five fields is due next."""

from __future__ import annotations

from datetime import datetime, tzinfo
from importlib.util import find_spec

# Characters of an expression: longer ones only take time.
LONGEST = 100
FIELDS = 5


def has_form(expression: str) -> bool:
    """Whether a text has five fields; what they say is read by `next_fire`."""
    return len(expression) <= LONGEST and len(expression.split()) == FIELDS


def next_fire(expression: str, now: float, zone: tzinfo) -> float | None:
    """Say when an expression is due next, strictly after now; None where it has no time in the next 50 years.

    Where the clock is set, it does as Debian's cron: a fixed time of the day is due once, one that a clock set forward
    skips when the clock goes on; what has a wildcard for its minute or hour follows the clock.

    Raises:
        ImportError: The extra `schedule` is not installed.
        ValueError: It is no expression.
    """
    if find_spec("cronsim") is None:
        raise ImportError('Rules in cron\'s form need an extra: pip install "function-toolkit[schedule]".')
    from cronsim import CronSim, CronSimError  # only these rules need it

    try:
        fires = CronSim(expression, datetime.fromtimestamp(now, zone))
    except CronSimError as error:
        raise ValueError(f"invalid schedule format: {expression} ({error})") from None
    # It counts by the clock on the wall, so after a clock was set back its first answer can be a time gone by.
    return next((moment for moment in (fire.timestamp() for fire in fires) if moment > now), None)
