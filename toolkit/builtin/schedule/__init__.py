"""Things to be done at certain times: rules, where they are kept, tools for a model, and the loop that runs them.

    store = SQLiteSchedule("actions.db")
    runner = Runner([send_mail, *schedule_tools(store, "Asia/Jakarta")])
    Scheduler(store, runner).run_forever()

In an event loop, `await Scheduler(store, runner).arun_forever()` does the same.

A rule is text, such as `08:00 weekly(monday)`; `next_run` alone says when it is due. An action is claimed in the store
before it runs, so of all processes that share a file one runs it, and its next time is set before it runs.
"""

from __future__ import annotations

from toolkit.builtin.schedule.recurrence import next_run
from toolkit.builtin.schedule.scheduler import FiringOutcome, Scheduler, planned_only
from toolkit.builtin.schedule.store import Action, Firing, MemorySchedule, ScheduleStore, SQLiteSchedule
from toolkit.builtin.schedule.tools import PlannedCall, schedule_tools

__all__ = [
    "Action",
    "Firing",
    "FiringOutcome",
    "MemorySchedule",
    "PlannedCall",
    "SQLiteSchedule",
    "ScheduleStore",
    "Scheduler",
    "next_run",
    "planned_only",
    "schedule_tools",
]
