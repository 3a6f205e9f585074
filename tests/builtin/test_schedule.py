"""Scheduled actions: the tools that plan them, the store, and the loop that runs them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from toolkit import ApprovalRequest, Decision, DefinitionError, Runner, Tool, Toolbox, ToolContext, tool
from toolkit.builtin import (
    Action,
    Firing,
    FiringOutcome,
    Scheduler,
    SQLiteSchedule,
    next_run,
    planned_only,
    schedule_tools,
)
from toolkit.stores import StoreError
from toolkit.testing import ScriptedModel, call

HOUR = 3600
DAY = 24 * HOUR
NOW = datetime(2026, 2, 17, 10, tzinfo=timezone.utc).timestamp()  # a Tuesday, 17:00 in Jakarta
Tools: TypeAlias = dict[str, Tool[..., Any]]
CALLS = [{"tool": "read_mail", "params": {"folder": "in"}}]
DENIED = (
    "Tool execution was denied by authorization policy. Reason: delete_mail was not planned when this action was "
    "scheduled."
)
UNSCHEDULED = (
    "Tool execution was denied by authorization policy. Reason: This run was not started or resumed by a Scheduler."
)
NESTED = "A scheduled action may neither schedule nor change one. Ask the user to do it."
HOW = (
    'A time is HH:MM, 24 hours. A day is "monday" for weekly, "monday,friday" for custom and "15" for monthly; once '
    "and daily take none."
)
UNKNOWN = "The recurrence 'hourly' is not one of once, daily, custom, weekly, monthly: daily was taken instead."
FIRINGS = int(os.environ.get("TOOLKIT_FIRINGS", "40"))


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that shows 10:00 UTC."""
    return Clock()


@pytest.fixture
def store() -> SQLiteSchedule:
    """A store in memory, which is one in a file except the file."""
    return SQLiteSchedule()


@pytest.fixture
def box(store: SQLiteSchedule, clock: Clock) -> Toolbox:
    """The tools of a user in Jakarta."""
    return Toolbox(schedule_tools(store, "Asia/Jakarta", clock=clock))


@pytest.fixture
def tools(store: SQLiteSchedule) -> Tools:
    """The tools by name."""
    return {subject.name: subject for subject in schedule_tools(store)}


def create(box: Toolbox, description: str = "Mail digest", **arguments: Any) -> str | None:
    """Schedule an action, by default daily at 08:00."""
    usual = {"description": description, "time": "08:00", "recurrence": "daily", "tools": CALLS}
    return box.call("schedule_create", {**usual, **arguments}).text


def call_tool(box: Toolbox, name: str, **arguments: Any) -> str | None:
    """Call a tool, and return its text."""
    return box.call(name, arguments).text


def action(description: str = "Mail digest", **fields: Any) -> Action:
    """An action that is due at 10:00 UTC each day."""
    usual = {"schedule": "10:00 daily", "zone": "UTC", "next_run": NOW, "created_at": NOW - DAY}
    return Action(**{"description": description, **usual, **fields})


def statuses(outcomes: tuple[FiringOutcome, ...]) -> list[tuple[str, str, float]]:
    """The status and description of outcomes, and the hours from NOW to their due times."""
    return [(one.status, one.firing.action.description, (one.firing.due - NOW) / HOUR) for one in outcomes]


# The tools


def test_create(box: Toolbox, store: SQLiteSchedule) -> None:
    """A new action is confirmed in local time, and stored."""
    text = create(box, synthesis_prompt="Summarize.")
    (document,) = store.actions()

    assert "Scheduled: Mail digest\nSchedule: 08:00 daily\nNext run: 2026-02-18 08:00" == text
    assert document == Action(
        id=document.id,
        description="Mail digest",
        schedule="08:00 daily",
        zone="Asia/Jakarta",
        next_run=next_run("08:00 daily", NOW, "Asia/Jakarta"),
        tools='[{"tool": "read_mail", "params": {"folder": "in"}}]',
        synthesis_prompt="Summarize.",
        created_at=NOW,
    )


@pytest.mark.parametrize(
    ("arguments", "schedule"),
    [
        ({"recurrence": "once"}, "08:00 once"),
        ({"recurrence": "weekly"}, "08:00 weekly(monday)"),
        ({"recurrence": "weekly", "day": " Friday "}, "08:00 weekly(friday)"),
        ({"recurrence": "custom"}, "08:00 custom(monday,wednesday,friday)"),
        ({"recurrence": "custom", "day": "Mon, SENIN"}, "08:00 custom(mon,senin)"),
        ({"recurrence": "monthly"}, "08:00 monthly(1)"),
        ({"recurrence": "monthly", "day": "31"}, "08:00 monthly(31)"),
        ({"recurrence": "fortnightly"}, "08:00 daily"),
        ({"time": ""}, "08:00 daily"),
    ],
    ids=str,
)
def test_schedule(box: Toolbox, store: SQLiteSchedule, arguments: dict[str, str], schedule: str) -> None:
    """A rule is composed of the arguments and of defaults."""
    create(box, **arguments)

    assert [schedule] == [document.schedule for document in store.actions()]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"time": "25:00"}, "invalid schedule format: 25:00 daily"),
        ({"time": "8am"}, f"invalid schedule format: 8am daily. {HOW}"),
        ({"recurrence": "once", "day": "2026-12-24"}, f"once takes no day, and 2026-12-24 was given. {HOW}"),
        ({"day": "monday"}, f"daily takes no day, and monday was given. {HOW}"),
        ({"tools": []}, "Invalid arguments: tools"),
        ({"recurrence": "weekly", "day": "funday"}, "invalid schedule format: 08:00 weekly(funday)"),
        ({"recurrence": "monthly", "day": "32"}, "invalid schedule format: 08:00 monthly(32)"),
        ({"description": " "}, "Invalid arguments: description"),
        ({"tools": [{"tool": "read_mail"}]}, "Invalid arguments: tools[0].params"),
        ({"tools": [{"params": {}}]}, "Invalid arguments: tools[0].tool"),
    ],
    ids=str,
)
def test_create_refused(box: Toolbox, store: SQLiteSchedule, arguments: dict[str, Any], text: str) -> None:
    """An invalid schedule is refused with the reason, and nothing is stored."""
    assert (create(box, **arguments) or "").startswith(text)
    assert () == store.actions()


def test_unknown_recurrence(box: Toolbox) -> None:
    """The result names the recurrence that replaces an unknown one."""
    text = create(box, recurrence="hourly")

    assert f"Scheduled: Mail digest\nSchedule: 08:00 daily\nNext run: 2026-02-18 08:00\n{UNKNOWN}" == text


def test_create_requires(tools: Tools) -> None:
    """Description, time, recurrence and tools are required."""
    parameters = tools["schedule_create"].parameters

    assert ["description", "time", "recurrence", "tools"] == parameters["required"]
    assert ["once", "daily", "custom", "weekly", "monthly"] == parameters["properties"]["recurrence"]["enum"]


def test_most(store: SQLiteSchedule, clock: Clock) -> None:
    """The number of actions is limited for each owner."""
    boxes = [Toolbox(schedule_tools(store, owner=owner, most=1, clock=clock)) for owner in ("Ann", "Bob", "Ann")]
    texts = [create(box) for box in boxes]

    assert "There are 1 scheduled actions, and there may be no more. Delete one first." == texts[2]
    assert ["Ann", "Bob"] == [document.owner for document in store.actions()]


def test_owners(store: SQLiteSchedule, clock: Clock) -> None:
    """The actions of another owner are not listed, changed or deleted."""
    ann, bob = (Toolbox(schedule_tools(store, owner=owner, clock=clock)) for owner in ("Ann", "Bob"))
    create(ann)

    assert [
        "No scheduled actions.",
        'No scheduled action matching "mail".',
        'No scheduled action matching "mail".',
        "Deleted all 0 scheduled action(s).",
        "Deleted: Mail digest",
    ] == [
        call_tool(bob, "schedule_list"),
        call_tool(bob, "schedule_update", description_query="mail", enabled=False),
        call_tool(bob, "schedule_delete", description_query="mail"),
        call_tool(bob, "schedule_delete", description_query="*"),
        call_tool(ann, "schedule_delete", description_query="mail"),
    ]


def test_allowed_tools(store: SQLiteSchedule, clock: Clock) -> None:
    """With `allowed_tools`, no other tool can be planned."""
    texts = [
        create(Toolbox(schedule_tools(store, allowed_tools=names, clock=clock)))
        for names in (["send_mail", "read_file"], [], ["read_mail"])
    ]

    assert "'read_mail' cannot be scheduled. These can: send_mail, read_file." == texts[0]
    assert [CALLS] == [json.loads(document.tools) for document in store.actions()]


def test_list(box: Toolbox) -> None:
    """Actions are listed by their next time."""
    create(box, "Later", recurrence="weekly")
    create(box, "Sooner")
    call_tool(box, "schedule_update", description_query="later", enabled=False)

    assert call_tool(box, "schedule_list") == (
        "2 scheduled action(s):\n\n"
        "1. Sooner [active]\n   Schedule: 08:00 daily | Next: 2026-02-18 08:00\n"
        "2. Later [paused]\n   Schedule: 08:00 weekly(monday) | Next: 2026-02-23 08:00"
    )


def test_list_empty(box: Toolbox, tools: Tools) -> None:
    """Without actions the list has its own text; the tool takes no arguments."""
    assert "No scheduled actions." == call_tool(box, "schedule_list")
    assert {} == tools["schedule_list"].parameters["properties"]


@pytest.mark.parametrize(
    ("change", "text", "schedule"),
    [
        ({"enabled": False}, 'Updated "Mail digest": paused', "08:00 weekly(friday)"),
        ({"enabled": True}, 'Updated "Mail digest": enabled', "08:00 weekly(friday)"),
        ({"time": "09:30"}, 'Updated "Mail digest": schedule updated', "09:30 weekly(friday)"),
        ({"recurrence": "monthly"}, 'Updated "Mail digest": schedule updated', "08:00 monthly(1)"),
        (
            {"recurrence": "custom", "day": "sat,sun"},
            'Updated "Mail digest": schedule updated',
            "08:00 custom(sat,sun)",
        ),
        ({"time": "9:00", "day": "sun"}, 'Updated "Mail digest": schedule updated', "9:00 weekly(sun)"),
        ({"time": " 21:30 "}, 'Updated "Mail digest": schedule updated', "21:30 weekly(friday)"),
        ({"time": " ", "recurrence": "daily"}, 'Updated "Mail digest": schedule updated', "08:00 daily"),
        ({"day": "sunday"}, 'Updated "Mail digest": schedule updated', "08:00 weekly(sunday)"),
        ({"day": " "}, "No changes specified.", "08:00 weekly(friday)"),
        ({"time": "*"}, f"invalid schedule: * weekly(friday). {HOW}", "08:00 weekly(friday)"),
        ({"enabled": False, "time": "9:00"}, 'Updated "Mail digest": paused, schedule updated', "9:00 weekly(friday)"),
        ({}, "No changes specified.", "08:00 weekly(friday)"),
        ({"time": "99:00"}, f"invalid schedule: 99:00 weekly(friday). {HOW}", "08:00 weekly(friday)"),
        (
            {"recurrence": "monthly", "day": "x"},
            f"invalid schedule: 08:00 monthly(x). {HOW}",
            "08:00 weekly(friday)",
        ),
        (
            {"recurrence": "once", "day": "sunday"},
            f"once takes no day, and sunday was given. {HOW}",
            "08:00 weekly(friday)",
        ),
        (
            {"recurrence": "hourly"},
            f'Updated "Mail digest": schedule updated\n{UNKNOWN}',
            "08:00 daily",
        ),
    ],
    ids=str,
)
def test_update(box: Toolbox, store: SQLiteSchedule, change: dict[str, Any], text: str, schedule: str) -> None:
    """The passed parts are changed, and no others."""
    create(box, recurrence="weekly", day="friday")

    assert text == call_tool(box, "schedule_update", description_query="MAIL", **change)
    assert [(schedule, next_run(schedule, NOW, "Asia/Jakarta"), change.get("enabled", True))] == [
        (document.schedule, document.next_run, document.enabled) for document in store.actions()
    ]


def test_update_cron(box: Toolbox, store: SQLiteSchedule) -> None:
    """A model can pause and resume an action with a cron rule, but not change its times."""
    store.add(action("Backup", schedule="0 * * * *"))
    changes: list[dict[str, Any]] = [{"time": "*"}, {"recurrence": "daily"}, {"enabled": False}, {"enabled": True}]
    refusal = "The schedule 0 * * * * is in cron's form, which cannot be changed here: ask the user to do it."

    assert [refusal, refusal, 'Updated "Backup": paused', 'Updated "Backup": enabled'] == [
        call_tool(box, "schedule_update", description_query="backup", **change) for change in changes
    ]
    assert ["0 * * * *"] == [document.schedule for document in store.actions()]


def test_create_cron(box: Toolbox, store: SQLiteSchedule) -> None:
    """No time argument makes a cron rule."""
    assert f"invalid schedule format: * * * * daily. {HOW}" == create(box, time="* * * *")
    assert () == store.actions()


def test_one_line(box: Toolbox) -> None:
    """A description is one line, so it cannot imitate another action in a list."""
    create(box, "Clean\n   Schedule: never\u2028\r\n2. Pay [active]")

    assert call_tool(box, "schedule_list") == (
        "1 scheduled action(s):\n\n"
        "1. Clean Schedule: never 2. Pay [active] [active]\n   Schedule: 08:00 daily | Next: 2026-02-18 08:00"
    )


@pytest.mark.parametrize(("size", "is_error"), [(16_374, False), (16_375, True)])
def test_largest(box: Toolbox, size: int, *, is_error: bool) -> None:
    """The calls and the prompt have at most 16 KiB together."""
    calls = [{"tool": "t", "params": {}}]
    length = size - len(json.dumps(calls)) + 10
    arguments = {
        "description": "x",
        "time": "8:00",
        "recurrence": "daily",
        "tools": calls,
        "synthesis_prompt": "x" * length,
    }

    assert is_error == box.call("schedule_create", arguments).is_error


def test_update_bad_is_error(box: Toolbox) -> None:
    """An invalid schedule is an error; no match or several matches are not."""
    create(box, "One")
    create(box, "Two")
    queries = {"one": {"time": "x"}, "three": {}, "o": {}}

    assert [True, False, False] == [
        box.call("schedule_update", {"description_query": query, **change}).is_error
        for query, change in queries.items()
    ]


def test_resumed(box: Toolbox, store: SQLiteSchedule, clock: Clock) -> None:
    """A resumed action continues with its next time, and does not run for missed ones."""
    create(box)
    call_tool(box, "schedule_update", description_query="mail", enabled=False)
    clock.now += 10 * DAY
    call_tool(box, "schedule_update", description_query="mail", enabled=True)

    assert [next_run("08:00 daily", clock.now, "Asia/Jakarta")] == [document.next_run for document in store.actions()]


@pytest.mark.parametrize("name", ["schedule_update", "schedule_delete"])
def test_no_match(box: Toolbox, name: str) -> None:
    """If nothing matches, the result quotes the query."""
    create(box)

    assert 'No scheduled action matching "backup".' == call_tool(box, name, description_query="backup")


def test_many_matches(box: Toolbox) -> None:
    """With several matches nothing is changed."""
    create(box, "Mail digest")
    create(box, "Mail backup")
    text = call_tool(box, "schedule_update", description_query="mail", enabled=False)

    assert "Multiple matches: Mail digest, Mail backup. Be more specific." == text


def test_whole_description(box: Toolbox) -> None:
    """An action whose whole description is given is changed, though others contain it."""
    create(box, "Mail")
    create(box, "Mail backup")

    text = call_tool(box, "schedule_update", description_query="Mail", enabled=False)

    assert 'Updated "Mail": paused' == text


def test_changed_meanwhile(clock: Clock) -> None:
    """A simultaneous change of another process is not overwritten."""

    class Late(SQLiteSchedule):
        """A store in which another process is always first."""

        def change(self, old: Action, new: Action) -> bool:
            return super().change(old, replace(old, enabled=False)) and super().change(old, new)

    late = Late()
    late.add(action())
    box = Toolbox(schedule_tools(late, clock=clock))

    assert '"Mail digest" was changed by another process at the same time. Try again.' == call_tool(
        box, "schedule_update", description_query="mail", time="09:00"
    )
    assert ["10:00 daily"] == [document.schedule for document in late.actions()]


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("digest", "Deleted: Mail digest", ["Mail backup", "100 % *"]),
        ("MAIL", "Deleted 2 scheduled action(s).", ["100 % *"]),
        ("*", "Deleted all 3 scheduled action(s).", []),
        ("%", "Deleted: 100 % *", ["Mail digest", "Mail backup"]),
        ("", "Invalid arguments", ["Mail digest", "Mail backup", "100 % *"]),
    ],
)
def test_delete(box: Toolbox, store: SQLiteSchedule, query: str, text: str, expected: list[str]) -> None:
    """All that match are deleted, and only those."""
    for description in ("Mail digest", "Mail backup", "100 % *"):
        create(box, description)

    assert (call_tool(box, "schedule_delete", description_query=query) or "").startswith(text)
    assert expected == [document.description for document in store.actions()]


def test_deleted_meanwhile(clock: Clock) -> None:
    """An action that another process has deleted first is not reported as deleted."""

    class Late(SQLiteSchedule):
        """A store in which another process is always first."""

        def delete(self, *actions: Action) -> int:
            super().delete(*actions)
            return super().delete(*actions)

    late = Late()
    late.add(action())
    box = Toolbox(schedule_tools(late, clock=clock))

    assert 'No scheduled action matching "mail".' == call_tool(box, "schedule_delete", description_query="mail")


@pytest.mark.parametrize("store", [None, "x.db", SQLiteSchedule, object()], ids=["none", "path", "class", "object"])
@pytest.mark.parametrize("make", [schedule_tools, lambda store: Scheduler(store, str)], ids=["tools", "scheduler"])
def test_invalid_store(make: Callable[[Any], object], store: Any) -> None:
    """A value that is not a store is refused."""
    with pytest.raises(DefinitionError, match=r"is not of type SQLiteSchedule"):
        make(store)


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        (
            {"allowed_tools": "send_mail"},
            "allowed_tools='send_mail' is not a list of texts, such as allowed_tools=['send_mail']",
        ),
        ({"allowed_tools": 5}, "allowed_tools=5 is not a list of texts"),
        ({"owner": None}, "owner=None is not of type str"),
        ({"most": "x"}, "most='x' is not a whole number of at least 0"),
        ({"clock": 5}, "clock=5 is not a function"),
        ({"zone": 5.5}, "zone=5.5 is not of type str or int"),
        ({"zone": True}, "zone=True is not of type str or int"),
        ({"zone": 15}, "zone=15: There is no time zone 15"),
    ],
    ids=str,
)
def test_invalid_terms(store: SQLiteSchedule, terms: Any, text: str) -> None:
    """An invalid option is refused by name when the tools are made."""
    with pytest.raises(DefinitionError, match=re.escape(text)):
        schedule_tools(store, **terms)


def test_effects(tools: Tools) -> None:
    """Each tool has an effect."""
    assert ["write", "read", "write", "destructive"] == [subject.settings.effect for subject in tools.values()]


def test_zone_in_hours(store: SQLiteSchedule, clock: Clock) -> None:
    """A zone may be given as hours ahead of UTC; it is stored under its name."""
    box = Toolbox(schedule_tools(store, 7, clock=clock))

    assert str(create(box)).endswith("Next run: 2026-02-18 08:00")
    assert ["Etc/GMT-7"] == [each.zone for each in store.actions()]
    assert "Etc/GMT+3" == action(zone=-3).zone


def test_unknown_zone(store: SQLiteSchedule) -> None:
    """An unknown zone is refused when the tools are made."""
    with pytest.raises(DefinitionError, match="^zone='Mars/Olympus': There is no time zone"):
        schedule_tools(store, "Mars/Olympus")


def test_a_zone_that_is_gone(box: Toolbox, store: SQLiteSchedule) -> None:
    """An action whose zone does not exist any more is listed in UTC."""
    store.add(action(zone="Mars/Olympus"))

    assert (call_tool(box, "schedule_list") or "").endswith("Schedule: 10:00 daily | Next: 2026-02-17 10:00 UTC")


def test_damaged_while_in_use(tmp_path: Path) -> None:
    """The model reads the errors of the store."""
    box = Toolbox(schedule_tools(SQLiteSchedule(tmp_path / "actions.db")))
    for path in tmp_path.iterdir():
        path.write_bytes(b"no database" * 10_000)

    assert "actions.db cannot be used: " in (call_tool(box, "schedule_list") or "")


@pytest.mark.parametrize(("column", "value"), [("tools", None), ("next_run", "soon"), ("zone", None)])
def test_damaged_action(column: str, value: object, tmp_path: Path) -> None:
    """An action that cannot be read is named, to the scheduler and to the model."""
    with SQLiteSchedule(tmp_path / "actions.db") as store:
        store.add(action(id="a1"))
        with closing(sqlite3.connect(tmp_path / "actions.db")) as connection, connection:
            connection.execute(f"UPDATE actions SET {column} = ?", (value,))  # noqa: S608
        box = Toolbox(schedule_tools(store))

        with pytest.raises(StoreError, match="The scheduled action 'a1' is damaged"):
            Scheduler(store, print).run_due()
        assert "The scheduled action 'a1' is damaged" in (call_tool(box, "schedule_list") or "")


# The loop


def test_due(store: SQLiteSchedule, clock: Clock) -> None:
    """Due actions run, the earliest first; paused and later ones do not."""
    for due, description, enabled in ((0, "now", True), (-1, "before", True), (1, "later", True), (-2, "off", False)):
        store.add(action(description, next_run=NOW + due, enabled=enabled))
    ran: list[str] = []
    Scheduler(store, lambda firing: ran.append(firing.action.description), clock=clock).run_due()

    assert ["before", "now"] == ran


def test_advanced_first(store: SQLiteSchedule, clock: Clock) -> None:
    """An action's next time is set before it runs."""
    store.add(action())
    seen: list[float] = []
    Scheduler(store, lambda firing: seen.append(store.actions()[0].next_run), clock=clock).run_due()

    assert [NOW + DAY] == seen


def test_once(store: SQLiteSchedule, clock: Clock) -> None:
    """An action with `once` is paused after its run."""
    store.add(action(schedule="10:00 once"))
    scheduler = Scheduler(store, str, clock=clock)
    outcomes = [scheduler.run_due(), scheduler.run_due()]

    assert [1, 0] == [len(some) for some in outcomes]
    assert [False] == [document.enabled for document in store.actions()]


def test_firing(store: SQLiteSchedule, clock: Clock) -> None:
    """A firing has a prompt, and a key of its own."""
    store.add(action(id="a1", tools='["read"]', synthesis_prompt="Summarize."))
    clock.now += 5
    seen: list[Firing] = []
    Scheduler(store, seen.append, clock=clock).run_due()

    assert [(f"a1:{NOW:.0f}", 5, 1)] == [(firing.key, firing.late, firing.attempt) for firing in seen]
    assert 'Scheduled action a1: Mail digest\nCall these tools: ["read"]\nSummarize.' == seen[0].prompt


def test_prompt_without_planned_calls(store: SQLiteSchedule, clock: Clock) -> None:
    """Of an action without planned calls the model reads the description, and that alone."""
    store.add(action(id="a1", tools="[]"))
    seen: list[Firing] = []
    Scheduler(store, seen.append, clock=clock).run_due()

    assert ["Scheduled action a1: Mail digest"] == [firing.prompt for firing in seen]


@pytest.mark.parametrize("schedule", ["every day", "8am daily", "* * * *", ""], ids=repr)
def test_add_refused(store: SQLiteSchedule, schedule: str) -> None:
    """A rule without a valid form is not stored, and the error lists the forms."""
    with pytest.raises(ValueError, match=rf"^invalid schedule format: {re.escape(schedule)}\. A rule is a time, HH:MM"):
        store.add(action(schedule=schedule))
    assert () == store.actions()


@pytest.mark.parametrize("schedule", ["10:00 weekly(friday)", "*/5 * * * *"])
def test_next_run_of_its_schedule(schedule: str) -> None:
    """An action without `next_run` is first due by its schedule, in its zone."""
    subject = Action(description="x", schedule=schedule, zone="Asia/Jakarta", created_at=NOW)

    assert next_run(schedule, NOW, "Asia/Jakarta") == subject.next_run


def test_calls_are_json() -> None:
    """Calls that are not JSON text are refused with advice."""
    with pytest.raises(TypeError, match=re.escape("is not text. Pass JSON: tools=json.dumps([...]).")):
        action(tools=CALLS)


def test_failure(store: SQLiteSchedule, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Exceptions of an action, or of `on_run`, stop no other action."""
    store.add(action("bad", next_run=NOW - 1))
    store.add(action("good"))
    text: list[str] = []

    def run(firing: Firing) -> int:
        return 1 // (firing.action.description == "good")

    def on_run(outcome: FiringOutcome) -> None:
        text.append(outcome.status)
        raise OSError("nobody listens")

    outcomes = Scheduler(store, run, on_run=on_run, clock=clock).run_due()

    assert [(None, "ZeroDivisionError"), (1, "NoneType")] == [(o.result, type(o.error).__name__) for o in outcomes]
    assert ["failed", "done"] == text
    assert 3 == len(caplog.records)


def test_runner(store: SQLiteSchedule, clock: Clock) -> None:
    """A runner receives the prompt, and its tools the firing as deps."""
    store.add(action(id="a1"))

    @tool
    def read_mail(context: ToolContext[Firing]) -> str:
        """Read the mail."""
        return context.deps.key

    with ScriptedModel([call("read_mail"), "You have mail."]) as model:
        (outcome,) = Scheduler(store, Runner([read_mail], model=model), clock=clock).run_due()

    assert ("You have mail.", f"a1:{NOW:.0f}") == (outcome.result.output, outcome.result.calls[0].result.text)


@tool
def read_mail() -> str:
    """Read the mail."""
    return "no mail"


@tool
def delete_mail() -> str:
    """Delete the mail."""
    return "gone"


def test_planned_only(store: SQLiteSchedule, clock: Clock) -> None:
    """A scheduled run can be limited to its plan; a run without a scheduler may call nothing then."""
    store.add(action(tools=json.dumps(CALLS)))
    both = [call("read_mail"), call("delete_mail")]
    with ScriptedModel([both, "Done.", both, "Done."]) as model:
        runner = Runner([read_mail, delete_mail], model=model, authorize=planned_only)
        (outcome,) = Scheduler(store, runner, clock=clock).run_due()
        unscheduled = runner.run("Clean up.")

    assert ["no mail", DENIED] == [subject.result.text for subject in outcome.result.calls]
    assert [UNSCHEDULED, UNSCHEDULED] == [subject.result.text for subject in unscheduled.calls]


def test_revoked(store: SQLiteSchedule, clock: Clock) -> None:
    """A planned tool that is no longer in the toolbox is not called."""
    store.add(action(tools='[{"tool": "delete_mail", "params": {}}]'))
    with ScriptedModel([call("delete_mail"), "Done."]) as model:
        runner = Runner([read_mail], model=model, authorize=planned_only)
        (outcome,) = Scheduler(store, runner, clock=clock).run_due()

    assert ["not_found"] == [subject.result.kind for subject in outcome.result.calls]


def revoked(firing: Firing) -> bool:
    """Raise an error, as an authorizer that fails."""
    raise LookupError(firing.action.owner)


async def left(firing: Firing) -> bool:
    """Ann has left."""
    return firing.action.owner != "Ann"


@pytest.mark.parametrize(
    ("allow", "status"),
    [(left, "refused"), (lambda firing: None, "refused"), (revoked, "failed"), (lambda firing: True, "done")],
    ids=["no", "no answer", "error", "approve_all"],
)
def test_allow(store: SQLiteSchedule, clock: Clock, allow: Any, status: str) -> None:
    """`allow` is called when an action is due, and any result but True refuses it."""
    store.add(action(owner="Ann"))
    ran: list[Firing] = []
    outcomes = Scheduler(store, ran.append, allow=allow, clock=clock).run_due()

    assert [(status, "Mail digest", 0)] == statuses(outcomes)
    assert (status == "done") == bool(ran)


AGAIN = call("schedule_create", description="Again", time="10:00", recurrence="daily", tools=CALLS)


def mail_waits(request: ApprovalRequest) -> Decision:
    """A runner whose tool needs approval."""
    return Decision.defer() if request.name == "read_mail" else Decision.approve()


def pausing(store: SQLiteSchedule, clock: Clock, model: ScriptedModel, **options: Any) -> Runner:
    """A runner whose mail tool needs approval, with the tools of the schedule."""
    tools = [tool(read_mail, approve=True), delete_mail, *schedule_tools(store, clock=clock)]
    return Runner(tools, model=model, approve=mail_waits, **options)


def approve_all(outcome: FiringOutcome) -> dict[str, bool]:
    """Approve all pending calls."""
    return {waiting.call.id: True for waiting in outcome.result.pending}


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_paused(store: SQLiteSchedule, clock: Clock, *, is_async: bool) -> None:
    """A run that waits for approval is resumed as a scheduled run, with the same limits."""
    store.add(action(tools='[{"tool": "read_mail"}, {"tool": "schedule_create"}]'))
    with ScriptedModel([call("read_mail"), [call("delete_mail"), AGAIN], "Done."]) as model:
        scheduler = Scheduler(store, pausing(store, clock, model, authorize=planned_only), clock=clock)
        (outcome,) = scheduler.run_due()
        options = outcome.result.state, approve_all(outcome)
        resumed = asyncio.run(scheduler.aresume(*options)) if is_async else scheduler.resume(*options)

    assert ("paused", "done") == (outcome.status, resumed.status)
    assert ["no mail", DENIED, NESTED] == [subject.result.text for subject in resumed.result.calls]


def test_paused_elsewhere(store: SQLiteSchedule, clock: Clock) -> None:
    """Resumed by the runner alone, a run has the same limits."""
    store.add(action())
    with ScriptedModel([call("read_mail"), AGAIN, "Done."]) as model:
        runner = pausing(store, clock, model)
        (outcome,) = Scheduler(store, runner, clock=clock).run_due()
        result = runner.resume(outcome.result.state, approve_all(outcome))

    assert ["no mail", NESTED] == [subject.result.text for subject in result.calls]


def test_paused_and_unplanned(store: SQLiteSchedule, clock: Clock) -> None:
    """Resumed by the runner alone, a run that is limited to its plan calls nothing."""
    store.add(action(tools=json.dumps(CALLS)))
    with ScriptedModel([call("read_mail"), call("delete_mail"), "Done."]) as model:
        runner = pausing(store, clock, model, authorize=planned_only)
        (outcome,) = Scheduler(store, runner, clock=clock).run_due()
        result = runner.resume(outcome.result.state, approve_all(outcome))

    assert [UNSCHEDULED, UNSCHEDULED] == [subject.result.text for subject in result.calls]


def test_paused_in_a_file(tmp_path: Path, clock: Clock) -> None:
    """A paused run can be resumed with the file and the saved state alone."""
    with SQLiteSchedule(tmp_path / "actions.db") as store, ScriptedModel([call("read_mail")]) as model:
        store.add(action(id="a1"))
        (outcome,) = Scheduler(store, pausing(store, clock, model), clock=clock).run_due()
        text = outcome.result.state.to_json()
    with SQLiteSchedule(tmp_path / "actions.db") as store, ScriptedModel(["Done."]) as model:
        resumed = Scheduler(store, pausing(store, clock, model), clock=clock).resume(text, approve_all(outcome))

    assert ("done", "Done.", f"a1:{NOW:.0f}") == (resumed.status, resumed.result.output, resumed.firing.key)


def test_paused_again(store: SQLiteSchedule, clock: Clock) -> None:
    """A failed run can be resumed again, and a finished one cannot."""
    store.add(action())
    with ScriptedModel([call("read_mail"), "Done."]) as model:
        scheduler = Scheduler(store, pausing(store, clock, model), clock=clock)
        (outcome,) = scheduler.run_due()
        state = outcome.result.state
        result = [
            scheduler.resume(state, decisions).status for decisions in ({"other": True}, {}, approve_all(outcome))
        ]

    assert ["failed", "paused", "done"] == result
    with pytest.raises(ValueError, match="No firing of this store waits for the run"):
        scheduler.resume(state, approve_all(outcome))


def test_paused_and_deleted(store: SQLiteSchedule, clock: Clock) -> None:
    """A run whose action was deleted meanwhile is not resumed."""
    store.add(action())
    with ScriptedModel([call("read_mail")]) as model:
        scheduler = Scheduler(store, pausing(store, clock, model), clock=clock)
        (outcome,) = scheduler.run_due()
        store.delete(*store.actions())

        with pytest.raises(ValueError, match="No firing of this store waits for the run"):
            scheduler.resume(outcome.result.state, approve_all(outcome))


def test_paused_and_forbidden(store: SQLiteSchedule, clock: Clock) -> None:
    """`allow` is called again when a run is resumed."""
    store.add(action())
    answers = iter([True, False])
    with ScriptedModel([call("read_mail")]) as model:
        runner = pausing(store, clock, model)
        scheduler = Scheduler(store, runner, allow=lambda firing: next(answers), clock=clock)
        (outcome,) = scheduler.run_due()

        assert "refused" == scheduler.resume(outcome.result.state, approve_all(outcome)).status


def test_paused_function(store: SQLiteSchedule, clock: Clock) -> None:
    """A function cannot resume a run; a runner with the same store can."""
    store.add(action())
    with ScriptedModel([call("read_mail"), "Done."]) as model:
        runner = pausing(store, clock, model)
        scheduler = Scheduler(store, lambda firing: runner.run(firing.prompt), clock=clock)
        (outcome,) = scheduler.run_due()

        with pytest.raises(TypeError, match="is not a Runner"):
            scheduler.resume(outcome.result.state, approve_all(outcome))
        assert "done" == Scheduler(store, runner, clock=clock).resume(outcome.result.state, approve_all(outcome)).status


def test_paused_remains(store: SQLiteSchedule, clock: Clock) -> None:
    """A firing that waits for approval is not removed, however many follow."""
    store.add(action())
    with ScriptedModel([call("read_mail")]) as model:
        (outcome,) = Scheduler(store, pausing(store, clock, model), clock=clock).run_due()
    scheduler = Scheduler(store, str, clock=clock)
    for _ in range(110):
        clock.now += DAY
        scheduler.run_due()

    assert outcome.firing.due == getattr(store.find_paused(outcome.result.state.run_id), "due", None)


def test_rearmed(store: SQLiteSchedule, clock: Clock) -> None:
    """An action does not reschedule itself."""
    store.add(action(schedule="10:00 once"))
    box = Toolbox(schedule_tools(store, clock=clock))
    ran: list[str] = []

    def run(firing: Firing) -> None:
        ran.append(firing.key)
        call_tool(box, "schedule_update", description_query="mail", enabled=True, time="10:00")

    for _ in range(3):
        Scheduler(store, run, clock=clock).run_due()
        clock.now += DAY

    assert 1 == len(ran)


def test_nested(store: SQLiteSchedule, clock: Clock) -> None:
    """A scheduled run schedules nothing."""
    store.add(action(tools=json.dumps(CALLS)))
    again = call("schedule_create", description="Again", time="10:00", recurrence="daily", tools=CALLS)
    with ScriptedModel([again, "Done."]) as model:
        Scheduler(store, Runner(schedule_tools(store, clock=clock), model=model), clock=clock).run_due()

    assert 1 == len(store.actions())


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_in_an_event_loop(store: SQLiteSchedule, clock: Clock, *, is_async: bool) -> None:
    """Sync and async functions and listeners work with and without an event loop."""
    text: list[FiringOutcome] = []

    async def run(firing: Firing) -> str:
        return firing.action.description

    async def on_run(outcome: FiringOutcome) -> None:
        text.append(outcome)

    for number, work in enumerate((run, lambda firing: firing.action.description)):
        store.add(action(f"{number}"))
        scheduler = Scheduler(store, work, on_run=on_run, clock=clock)
        asyncio.run(scheduler.arun_due()) if is_async else scheduler.run_due()

    assert [("0", "done"), ("1", "done")] == [(outcome.result, outcome.status) for outcome in text]


def test_runner_in_an_event_loop(store: SQLiteSchedule, clock: Clock) -> None:
    """In a loop a runner runs in that loop."""
    store.add(action())
    loops: list[object] = []

    @tool
    async def look() -> str:
        """Look at the loop."""
        loops.append(asyncio.get_running_loop())
        return "seen"

    async def main(model: ScriptedModel) -> object:
        await Scheduler(store, Runner([look], model=model), clock=clock).arun_due()
        return asyncio.get_running_loop()

    with ScriptedModel([call("look"), "Done."]) as model:
        loop = asyncio.run(main(model))

    assert [loop] == loops


def test_forever_in_an_event_loop(store: SQLiteSchedule, clock: Clock) -> None:
    """The loop ends when it is stopped, and does not block other tasks."""
    store.add(action())

    async def main() -> FiringOutcome:
        text: asyncio.Queue[FiringOutcome] = asyncio.Queue()
        scheduler = Scheduler(store, str, on_run=text.put, clock=clock)
        running = asyncio.create_task(scheduler.arun_forever())
        outcome = await text.get()
        scheduler.stop()
        await running
        return outcome

    assert [("done", "Mail digest", 0)] == statuses((asyncio.run(main()),))


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_stop(store: SQLiteSchedule, clock: Clock, *, is_async: bool) -> None:
    """A stopped loop starts no further action; the rest waits for the next loop."""
    store.add(action("1", next_run=NOW - 1))
    store.add(action("2"))
    ran: list[list[str]] = []

    def run(firing: Firing) -> None:
        ran[-1].append(firing.action.description)
        scheduler.stop()

    scheduler = Scheduler(store, run, clock=clock)
    for _ in range(2):
        ran.append([])
        asyncio.run(scheduler.arun_forever()) if is_async else scheduler.run_forever()

    assert [["1"], ["2"]] == ran


def test_stop_before(store: SQLiteSchedule, clock: Clock) -> None:
    """A loop that was stopped before its start runs nothing."""
    store.add(action())
    ran: list[Firing] = []
    scheduler = Scheduler(store, ran.append, clock=clock)
    scheduler.stop()
    scheduler.run_forever()

    assert [] == ran


def test_cancelled_in_an_event_loop(store: SQLiteSchedule, clock: Clock) -> None:
    """If a loop is cancelled, its running action counts as crashed."""
    store.add(action())

    async def main() -> None:
        started_event = asyncio.Event()

        async def run(firing: Firing) -> None:
            started_event.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(Scheduler(store, run, clock=clock).arun_forever())
        await started_event.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())

    assert [1] == [firing.attempt for firing in store.find_unfinished(NOW + 1)]


def test_missed_once(store: SQLiteSchedule, clock: Clock) -> None:
    """A missed action with `once` runs late, and does not repeat."""
    store.add(action(schedule="10:00 once"))
    clock.now += 3 * DAY
    scheduler = Scheduler(store, str, clock=clock)

    assert [[("done", "Mail digest", 0)], []] == [statuses(scheduler.run_due()), statuses(scheduler.run_due())]
    assert [False] == [document.enabled for document in store.actions()]


def test_missed(store: SQLiteSchedule, clock: Clock) -> None:
    """Actions missed for three days run once, and continue with their next time."""
    store.add(action())
    clock.now += 3 * DAY + HOUR
    scheduler = Scheduler(store, str, clock=clock)
    outcomes = [statuses(scheduler.run_due()), statuses(scheduler.run_due())]

    assert [[("done", "Mail digest", 0)], []] == outcomes
    assert [NOW + 4 * DAY] == [document.next_run for document in store.actions()]


@pytest.mark.parametrize(("late", "status"), [(299, "done"), (300, "refused")])
def test_late(store: SQLiteSchedule, clock: Clock, late: float, status: str) -> None:
    """Late actions are refused by a rule of the application, and continue with their next time."""
    store.add(action())
    clock.now += late
    scheduler = Scheduler(store, str, allow=lambda firing: firing.late < 300, clock=clock)

    assert [(status, "Mail digest", 0)] == statuses(scheduler.run_due())
    assert [NOW + DAY] == [document.next_run for document in store.actions()]


def test_clock_set_back(store: SQLiteSchedule, clock: Clock) -> None:
    """A clock that is set back repeats nothing."""
    store.add(action())
    scheduler = Scheduler(store, str, clock=clock)
    counts = []
    for step in (0, -HOUR, HOUR, 1, DAY):
        clock.now += step
        counts.append(len(scheduler.run_due()))

    assert [1, 0, 0, 0, 1] == counts


def test_planned_anew_after_set_back(store: SQLiteSchedule, clock: Clock) -> None:
    """Even rescheduled for a time at which it has run, an action does not run again then, and continues."""
    store.add(action())
    scheduler = Scheduler(store, str, clock=clock)
    scheduler.run_due()
    store.change(store.actions()[0], action(id=store.actions()[0].id))

    assert () == scheduler.run_due()
    assert [NOW + DAY] == [document.next_run for document in store.actions()]


def test_clock_set_forward(store: SQLiteSchedule, clock: Clock) -> None:
    """A clock that is a day ahead for a while skips the times of that day, and repeats none."""
    store.add(action())
    scheduler = Scheduler(store, str, clock=clock)
    result = []
    for step in (DAY, -DAY, DAY, DAY):
        clock.now += step
        result += [hours for _, _, hours in statuses(scheduler.run_due())]

    assert [0, 48] == result


class Killed(KeyboardInterrupt):
    """An exception that ends a process."""


def crash(store: SQLiteSchedule, clock: Clock) -> None:
    """Run an action, and exit before its end is recorded."""

    def run(firing: Firing) -> None:
        raise Killed

    store.add(action())
    with pytest.raises(Killed):
        Scheduler(store, run, clock=clock).run_due()


def test_crash_skipped(store: SQLiteSchedule, clock: Clock) -> None:
    """An unfinished firing is reported after its lease, and does not run again."""
    crash(store, clock)
    scheduler = Scheduler(store, str, clock=clock)
    result = []
    for step in (HOUR, 1, 1):
        clock.now += step
        result.append(statuses(scheduler.run_due()))

    assert [[], [("crashed", "Mail digest", 0)], []] == result


def test_crash_again(store: SQLiteSchedule, clock: Clock) -> None:
    """With `crashed="again"`, a firing runs again under the same key."""
    crash(store, clock)
    clock.now += 2 * HOUR
    keys: list[tuple[int, float]] = []
    scheduler = Scheduler(store, lambda f: keys.append((f.attempt, f.due)), crashed="again", clock=clock)
    scheduler.run_due()
    clock.now += 2 * HOUR
    scheduler.run_due()

    assert [(2, NOW)] == keys


def test_crash_always(store: SQLiteSchedule, clock: Clock) -> None:
    """A firing that ends its processes is tried three times."""

    def run(firing: Firing) -> None:
        tried.append(firing.attempt)
        raise Killed

    tried: list[int] = []
    store.add(action())
    scheduler = Scheduler(store, run, crashed="again", clock=clock)
    for _ in range(3):
        with pytest.raises(Killed):
            scheduler.run_due()
        clock.now += 2 * HOUR

    assert [("crashed", "Mail digest", 0)] == statuses(scheduler.run_due())
    assert [1, 2, 3] == tried


def test_one_takes_over(store: SQLiteSchedule, clock: Clock) -> None:
    """Of several that find an unfinished firing one takes it over."""
    crash(store, clock)
    (firing,) = store.find_unfinished(NOW + 1)
    first, second = store.take_over(firing, NOW + 1), store.take_over(firing, NOW + 1)

    assert (replace(firing, claimed_at=NOW + 1, attempt=2), None) == (first, second)


def test_taken_over_meanwhile(clock: Clock) -> None:
    """A firing that another process takes over first is left to it."""

    class Late(SQLiteSchedule):
        """A store in which another process is always first."""

        def take_over(self, firing: Firing, at: float) -> Firing | None:
            super().take_over(firing, at)
            return super().take_over(firing, at)

    late = Late()
    crash(late, clock)
    clock.now += 2 * HOUR

    assert () == Scheduler(late, str, crashed="again", clock=clock).run_due()


def test_finished(store: SQLiteSchedule) -> None:
    """A finished firing is not listed as unfinished, and cannot be taken over."""
    old = action()
    store.add(old)
    firing = store.claim(old, replace(old, next_run=NOW + DAY), NOW)
    assert firing is not None
    store.finish(firing, NOW)

    assert ((), None) == (store.find_unfinished(NOW + DAY), store.take_over(firing, NOW))


def test_no_next_time(store: SQLiteSchedule, clock: Clock) -> None:
    """An action whose rule cannot be read any more is done this time, and then paused."""
    store.add(action(zone="Mars/Olympus"))

    assert ["done"] == [outcome.status for outcome in Scheduler(store, str, clock=clock).run_due()]
    assert [False] == [document.enabled for document in store.actions()]


def test_cron(store: SQLiteSchedule, clock: Clock) -> None:
    """An application may use a cron rule."""
    store.add(action(schedule="*/5 * * * *"))
    Scheduler(store, str, clock=clock).run_due()

    assert [NOW + 300] == [document.next_run for document in store.actions()]


def test_forever(clock: Clock) -> None:
    """The loop continues until it is stopped, also when the store fails for a while."""

    class Failing(SQLiteSchedule):
        """A store that fails at first."""

        fails = iter([True, True, False])

        def actions(self, owner: str | None = None) -> tuple[Action, ...]:
            if next(self.fails):
                raise StoreError("actions.db is locked")
            return super().actions(owner)

    failing = Failing()
    failing.add(action())
    text: list[FiringOutcome] = []
    scheduler = Scheduler(failing, lambda firing: scheduler.stop(), on_run=text.append, poll=0, clock=clock)
    scheduler.run_forever()

    assert [("done", "Mail digest", 0)] == statuses(tuple(text))


@pytest.mark.parametrize(
    "run", [None, "run", Path.home(), Runner([]).run, Runner([]).arun], ids=["none", "text", "object", "run", "arun"]
)
def test_invalid_run(store: SQLiteSchedule, run: Any) -> None:
    """An invalid `run` is refused when the scheduler is made."""
    with pytest.raises(DefinitionError, match="^run="):
        Scheduler(store, run)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"poll": -1}, "poll=-1 is not a number of at least 0"),
        ({"poll": float("nan")}, "poll=nan is not a number of at least 0"),
        ({"lease": "x"}, "lease='x' is not a number of at least 0"),
        ({"clock": None}, "clock=None is not a function"),
        ({"on_run": "print"}, "on_run='print' is not a function"),
    ],
    ids=str,
)
def test_invalid_options(store: SQLiteSchedule, options: Any, text: str) -> None:
    """An invalid option is refused by name when the scheduler is made."""
    with pytest.raises(DefinitionError, match=re.escape(text)):
        Scheduler(store, str, **options)


def test_invalid_policy(store: SQLiteSchedule) -> None:
    """`crashed` takes one of two values."""
    with pytest.raises(DefinitionError, match="neither '.*' nor '.*'"):
        Scheduler(store, str, crashed="once")  # type: ignore[arg-type]


# The store


def test_reopened(tmp_path: Path) -> None:
    """The actions of a file are there when it is opened again."""
    document = action("Grüße 'x' \x00", tools='["ü"]', enabled=False)
    first = SQLiteSchedule(tmp_path / "actions.db")
    first.add(document)
    first.close()

    assert (document,) == SQLiteSchedule(tmp_path / "actions.db").actions()


def test_change(store: SQLiteSchedule) -> None:
    """An action that was changed meanwhile is neither changed nor claimed."""
    old = action()
    new = replace(old, next_run=NOW + DAY)
    store.add(replace(old, enabled=False))

    assert (False, None) == (store.change(old, new), store.claim(old, new, NOW))
    assert (replace(old, enabled=False),) == store.actions()


def test_deleted(store: SQLiteSchedule, clock: Clock) -> None:
    """Deleting an action deletes its firings; one that was deleted before is not counted."""
    crash(store, clock)
    result = store.actions()

    assert [1, 0, 0] == [store.delete(*result), store.delete(*result), store.delete()]
    assert () == store.find_unfinished(NOW + DAY)


def test_forgets(store: SQLiteSchedule, clock: Clock) -> None:
    """The store retains the latest hundred firings of an action."""
    document = action()
    store.add(document)
    for number in range(110):
        firing = store.claim(document, replace(document, next_run=NOW + (number + 1) * DAY), NOW)
        assert firing is not None
        store.finish(firing, NOW)
        document = store.actions()[0]
    claims = []
    for days in (0, 50):
        store.change(document, replace(document, next_run=NOW + days * DAY))
        claims.append(store.claim(replace(document, next_run=NOW + days * DAY), document, NOW) is not None)

    assert [True, False] == claims


def spoil(path: Path) -> None:
    """Write something else into a file."""
    path.write_bytes(b"no database at all " * 100)


def other(path: Path) -> None:
    """Make a database of another program."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE actions (x)")
    connection.close()


def newer(path: Path) -> None:
    """Make a store of a later version."""
    SQLiteSchedule(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize(
    ("write", "text"),
    [(spoil, "cannot be used"), (other, "something other than a schedule"), (newer, "later version")],
    ids=["damaged", "another program's", "newer"],
)
def test_refused_file(tmp_path: Path, write: Callable[[Path], None], text: str) -> None:
    """A file of another kind is refused with advice, and stays as it is."""
    path = tmp_path / "actions.db"
    write(path)
    before = path.read_bytes()

    with pytest.raises(StoreError, match=text):
        SQLiteSchedule(path)
    assert before == path.read_bytes()


def test_no_folder(tmp_path: Path) -> None:
    """A file that cannot be created is an error."""
    with pytest.raises(StoreError, match="unable to open database file"):
        SQLiteSchedule(tmp_path / "nowhere" / "actions.db")


def test_threads(tmp_path: Path, clock: Clock) -> None:
    """Of schedulers in several threads one runs each action."""
    store = SQLiteSchedule(tmp_path / "actions.db")
    for number in range(20):
        store.add(action(str(number)))
    ran: list[str] = []
    begin = threading.Barrier(4)

    def work() -> None:
        begin.wait()
        Scheduler(store, lambda firing: ran.append(firing.key), clock=clock).run_due()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert sorted(f"{document.id}:{NOW:.0f}" for document in store.actions()) == sorted(ran)


def run_script(script: str, *arguments: object) -> Any:
    """Run a program, and parse its output as JSON. It forks, which is unsafe in a process with threads."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **PATHS})
    return json.loads(run.stdout)


# Eight processes do the same at once, half of them with a store that was open before they were forked.
TOGETHER = """
import json, sys
from multiprocessing import get_context
from toolkit import Toolbox
from toolkit.builtin import Scheduler, SQLiteSchedule, schedule_tools
path, now = sys.argv[1], float(sys.argv[2])
context, inherited = get_context("fork"), SQLiteSchedule(path)
begin = context.Barrier(8)
def work(number):
    store = SQLiteSchedule(path) if number % 2 else inherited
    begin.wait()
    return {0}
with context.Pool(8) as pool:
    print(json.dumps(sum(pool.map(work, range(8), chunksize=1), [])))
"""
RUN = "[one.firing.action.description for one in Scheduler(store, str, clock=lambda: now).run_due()]"
CREATE = """[
    Toolbox(schedule_tools(store, most=5)).call(
        "schedule_create",
        {"description": "x", "time": "8:00", "recurrence": "daily", "tools": [{"tool": "t", "params": {}}]},
    ).is_error
    for _ in range(3)
]"""
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")


@needs_fork
def test_processes(tmp_path: Path) -> None:
    """Of schedulers in several processes one runs each action."""
    names = [f"{number:03}" for number in range(FIRINGS)]
    with SQLiteSchedule(tmp_path / "actions.db") as store:
        for name in names:
            store.add(action(name))

    assert names == sorted(run_script(TOGETHER.replace("{0}", RUN), tmp_path / "actions.db", NOW))


@needs_fork
def test_most_of_all_processes(tmp_path: Path) -> None:
    """Concurrent processes do not exceed the maximum number of actions."""
    refusals = run_script(TOGETHER.replace("{0}", CREATE), tmp_path / "actions.db", NOW)

    assert (5, 5, 24) == (len(SQLiteSchedule(tmp_path / "actions.db").actions()), refusals.count(False), len(refusals))


# Kills a scheduler at each of its steps, and lets another one work two hours later. Prints how often the action was
# executed, and the outcomes then.
KILLED = """
import json, os, signal, sys
from toolkit.builtin import Action, Scheduler, SQLiteSchedule
folder, now, crashed = sys.argv[1], float(sys.argv[2]), sys.argv[3]
def killed_at(kill_at):
    store, ran = SQLiteSchedule(f"{folder}/{kill_at}.db"), f"{folder}/{kill_at}.txt"
    store.add(Action(description="x", schedule="10:00 daily", zone="UTC", next_run=now))
    steps = iter(range(kill_at, -1, -1))
    def step():
        if next(steps) == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def clock():
        step()
        return now
    def work(firing):
        with open(ran, "a") as file:
            file.write(firing.key + " ")
    def run(firing):
        step()
        work(firing)
        step()
    if (child := os.fork()) == 0:
        Scheduler(store, run, crashed=crashed, clock=clock).run_due()
        os._exit(0)
    os.waitpid(child, 0)
    later = Scheduler(store, work, crashed=crashed, clock=lambda: now + 7200).run_due()
    keys = open(ran).read().split() if os.path.exists(ran) else []
    return [len(keys), len(set(keys)), [outcome.status for outcome in later]]
print(json.dumps([killed_at(number) for number in range(6)]))
"""


@needs_fork
@pytest.mark.parametrize(
    ("crashed", "table"),
    [
        ("skip", [[1, 1, ["done"]]] * 2 + [[0, 0, ["crashed"]], [1, 1, ["crashed"]], [1, 1, ["crashed"]], [1, 1, []]]),
        ("again", [[1, 1, ["done"]]] * 3 + [[2, 1, ["done"]]] * 2 + [[1, 1, []]]),
    ],
    ids=["skip", "again"],
)
def test_killed(tmp_path: Path, crashed: str, table: list[Any]) -> None:
    """Killed before and after each step, an action is done at most once, or at least once under one key."""
    assert table == run_script(KILLED, tmp_path, NOW, crashed)


PATHS = {"PYTHONPATH": os.pathsep.join(sys.path)}
