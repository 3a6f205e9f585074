"""Stores of scheduled actions, in a SQLite file or in memory.

A firing is claimed in the store before its action runs, so that of all processes that share a file only one runs it.
"""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from dataclasses import astuple, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from toolkit._guards.options import check_type
from toolkit._options import is_float
from toolkit.builtin.schedule.recurrence import next_run, parse_rule, to_zone_name
from toolkit.errors import StoreError
from toolkit.stores.database import MEMORY, Layout, SQLiteStore

if TYPE_CHECKING:
    import sqlite3


@dataclass(frozen=True, kw_only=True)
class Action:
    """Calls of tools that are due at certain times.

    Attributes:
        description: Description for the model and for people.
        schedule: Rule as `toolkit.builtin.next_run` reads it.
        zone: IANA name of the time zone of the rule; whole hours ahead of UTC are converted to one.
        next_run: Next time, in seconds since 1970, UTC; by default the rule's first time after `created_at`.
        tools: The planned calls as JSON: a list of objects with `tool` and `params`.
        synthesis_prompt: Instructions for the results of the calls.
        created_at: Time of creation, in seconds since 1970, UTC.
        owner: The owner; the tools of other owners do not see the action.

    Raises:
        TypeError: `tools` is not text.
        ValueError: `next_run` is missing, and `schedule` or `zone` is invalid, or the rule is never due.
        ImportError: `next_run` is missing, the rule is in cron's form, and the extra `schedule` is not installed.
    """

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    description: str
    schedule: str
    zone: str
    next_run: float = math.nan
    tools: str = "[]"
    synthesis_prompt: str = ""
    enabled: bool = True
    created_at: float = field(default_factory=time.time)
    owner: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.tools, str):
            raise TypeError(f"tools={self.tools!r:.100} is not text. Pass JSON: tools=json.dumps([...]).")
        if not is_float(self.next_run):
            raise TypeError(f"next_run={self.next_run!r:.100} is not a time in seconds since 1970.")
        object.__setattr__(self, "zone", to_zone_name(self.zone))
        if math.isnan(self.next_run):
            object.__setattr__(self, "next_run", next_run(self.schedule, self.created_at, self.zone))

    @property
    def planned_tools(self) -> frozenset[str]:
        """Names of the tools of the planned calls."""
        return frozenset(call["tool"] for call in json.loads(self.tools))


@dataclass(frozen=True, kw_only=True)
class Firing:
    """One due time of an action, claimed by the process that runs it.

    Attributes:
        due: The due time, in seconds since 1970, UTC.
        claimed_at: Time of the claim, in seconds since 1970, UTC.
        attempt: Number of the claim, counted from 1.
    """

    action: Action
    due: float
    claimed_at: float
    attempt: int = 1

    @property
    def key(self) -> str:
        """Idempotency key: the same for every attempt of this firing."""
        return f"{self.action.id}:{self.due:.0f}"

    @property
    def late(self) -> float:
        """Seconds from the due time to the claim."""
        return self.claimed_at - self.due

    @property
    def prompt(self) -> str:
        """Prompt for the model."""
        action = self.action
        planned = "" if action.tools == "[]" else f"Call these tools: {action.tools}"
        lines = (f"Scheduled action {action.id}: {action.description}", planned, action.synthesis_prompt)
        return "\n".join(filter(None, lines))


LAYOUT = Layout(
    holds="a schedule",
    application_id=int.from_bytes(b"tkSC", "big"),
    migrations=(
        (
            """CREATE TABLE actions (
                id TEXT PRIMARY KEY, description TEXT, schedule TEXT, zone TEXT, next_run REAL, tools TEXT,
                synthesis_prompt TEXT, enabled INTEGER, created_at REAL, owner TEXT
            )""",
            """CREATE TABLE firings (
                action_id TEXT, due REAL, claimed_at REAL, attempt INTEGER, finished_at REAL, paused_run TEXT,
                PRIMARY KEY (action_id, due)
            )""",
        ),
    ),
)


class SQLiteSchedule(SQLiteStore):
    """A store in a file, for several threads and processes of one machine; or in memory, as long as the object lasts.

    Every method raises StoreError if the file cannot be used, and then changes nothing.

    Args:
        path: The file, created if it does not exist; by default memory.
        timeout: Seconds to wait for another process that writes.

    Raises:
        DefinitionError: The path or the timeout is invalid.
        StoreError: The file is damaged, is not a schedule, was made by a later version, or cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str] = MEMORY, *, timeout: float = 30.0) -> None:
        super().__init__(path, LAYOUT, timeout=timeout)

    def add(self, action: Action, most: int | None = None) -> bool:
        """Add an action. If its owner already has `most` actions, return False instead.

        Raises:
            ValueError: The schedule has none of the forms of a rule.
            DefinitionError: The value is not an Action.
        """
        parse_rule(check_type("action", action, Action).schedule)
        with self._database.transaction() as connection:
            (count,) = connection.execute(_COUNT, (action.owner,)).fetchone()
            if most is not None and count >= most:
                return False
            connection.execute(_ADD, astuple(action))
            return True

    def actions(self, owner: str | None = None) -> tuple[Action, ...]:
        """Return the actions of one owner, or of all, in the order of their next times."""
        with self._database.snapshot() as connection:
            return tuple(map(_parse_action, connection.execute(_ACTIONS, {"owner": owner})))

    def change(self, old: Action, new: Action) -> bool:
        """Replace an action. If the old one was changed meanwhile, return False instead."""
        with self._database.transaction() as connection:
            return _replace_action(connection, old, new)

    def delete(self, *actions: Action) -> int:
        """Remove actions and their firings. Return the number of actions removed."""
        with self._database.transaction() as connection:
            for action in actions:
                connection.execute("DELETE FROM firings WHERE action_id = ?", (action.id,))
            cursors = [connection.execute("DELETE FROM actions WHERE id = ?", (action.id,)) for action in actions]
            return sum(cursor.rowcount for cursor in cursors)

    def claim(self, old: Action, new: Action, at: float) -> Firing | None:
        """Replace a due action by its next state, and claim the firing.

        Return None if the action was changed meanwhile, or if this firing was claimed before, such as before the clock
        was set back.
        """
        with self._database.transaction() as connection:
            if not _replace_action(connection, old, new):
                return None
            connection.execute(_FORGET, (old.id, old.id))
            cursor = connection.execute(_INSERT, (old.id, old.next_run, at))
        return Firing(action=old, due=old.next_run, claimed_at=at) if cursor.rowcount else None

    def find_unfinished(self, before: float) -> tuple[Firing, ...]:
        """Return the firings that were claimed before a time and not finished: their processes have crashed."""
        with self._database.snapshot() as connection:
            return tuple(map(_parse_firing, connection.execute(_UNFINISHED, (before,))))

    def take_over(self, firing: Firing, at: float) -> Firing | None:
        """Claim an unfinished firing again. Return None if another process has done so, or it has finished."""
        with self._database.transaction() as connection:
            cursor = connection.execute(_TAKE_OVER, (at, firing.action.id, firing.due, firing.attempt))
        return replace(firing, claimed_at=at, attempt=firing.attempt + 1) if cursor.rowcount else None

    def finish(self, firing: Firing, at: float, paused_run: str | None = None) -> None:
        """Record the end of a firing, or the run of it that waits for approval."""
        with self._database.transaction() as connection:
            connection.execute(_FINISH, (at, paused_run, firing.action.id, firing.due))

    def find_paused(self, run_id: str) -> Firing | None:
        """Return the firing whose run waits for approval, or None if there is no such run."""
        with self._database.snapshot() as connection:
            return next(map(_parse_firing, connection.execute(_PAUSED, (run_id,))), None)


_FIELDS = tuple(field.name for field in fields(Action))
_NAMES = ", ".join(_FIELDS)
_MARKS = ", ".join("?" for _ in _FIELDS)
_COUNT = "SELECT count(*) FROM actions WHERE owner = ?"
_ADD = f"INSERT INTO actions ({_NAMES}) VALUES ({_MARKS})"  # noqa: S608  # built from constants alone
_ACTIONS = f"SELECT {_NAMES} FROM actions WHERE :owner IS NULL OR owner = :owner ORDER BY next_run, rowid"  # noqa: S608
_CHANGE = f"UPDATE actions SET ({_NAMES}) = ({_MARKS}) WHERE ({_NAMES}) = ({_MARKS})"  # noqa: S608
_INSERT = "INSERT INTO firings VALUES (?, ?, ?, 1, NULL, NULL) ON CONFLICT DO NOTHING"
# All but the last 100 firings of an action are deleted, once they have finished.
_FORGET = """
DELETE FROM firings WHERE action_id = ? AND finished_at IS NOT NULL AND paused_run IS NULL AND due NOT IN
(SELECT due FROM firings WHERE action_id = ? ORDER BY due DESC LIMIT 100)
"""
_FIRINGS = f"SELECT due, claimed_at, attempt, {_NAMES} FROM firings JOIN actions ON id = action_id"  # noqa: S608
_UNFINISHED = f"{_FIRINGS} WHERE finished_at IS NULL AND claimed_at < ? ORDER BY due"
_PAUSED = f"{_FIRINGS} WHERE paused_run = ?"
_TAKE_OVER = """
UPDATE firings SET claimed_at = ?, attempt = attempt + 1
WHERE action_id = ? AND due = ? AND attempt = ? AND finished_at IS NULL
"""
_FINISH = "UPDATE firings SET finished_at = ?, paused_run = ? WHERE action_id = ? AND due = ?"


def _replace_action(connection: sqlite3.Connection, old: Action, new: Action) -> bool:
    return connection.execute(_CHANGE, (*astuple(new), *astuple(old))).rowcount == 1


def _parse_action(row: tuple[Any, ...]) -> Action:
    values = dict(zip(_FIELDS, row))
    try:
        return Action(**{**values, "enabled": bool(values["enabled"])})
    except (TypeError, ValueError) as error:
        raise StoreError(f"The scheduled action {values['id']!r} is damaged: restore it from a backup.") from error


def _parse_firing(row: tuple[Any, ...]) -> Firing:
    due, claimed_at, attempt, *action = row
    return Firing(action=_parse_action(tuple(action)), due=due, claimed_at=claimed_at, attempt=attempt)
