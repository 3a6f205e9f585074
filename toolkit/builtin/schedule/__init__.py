"""Scheduled actions: their rules, their stores, tools for a model, and the loop that runs them.

    store = SQLiteSchedule("actions.db")
    runner = Runner([send_mail, *schedule_tools(store, "Asia/Jakarta")])
    Scheduler(store, runner).run_forever()

In an event loop, `await Scheduler(store, runner).arun_forever()` does the same.

A rule is text, such as `08:00 weekly(monday)`; `next_run` computes its next time. Before an action runs, it is claimed
in the store and its next time is set, so that of all processes that share a file only one runs it.

Files, each importing only those below it:

    tools        tools with which a model reads and changes a schedule
    scheduler    the loop that runs due actions
    store        actions and their firings, in a file or in memory
    recurrence   rules, and their next time
"""

from __future__ import annotations
