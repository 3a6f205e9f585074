"""Two doors to one implementation: step a coroutine in place, or await it in the caller's event loop.

Everything between a door and its leaves is written once, with `async def`. A leaf (a model, a tool, a gate) is either
sync, a coroutine that never suspends, or async. Each door knows how to wait for both kinds:

    leaf    SyncDoor                          AsyncDoor
    sync    stepped on the caller's thread    stepped on a thread of its own
    async   awaited on one private loop       awaited in the caller's loop, as a task of its own

So a sync run needs neither loop nor thread until it meets an async leaf or several calls in one turn, and it works
where a loop is running already, as in a notebook. Threads are daemons with a copy of the caller's context variables:
they never keep the interpreter from leaving.

A wait may have an end: `until`, a Cancellation. What is not done then is given up: a task is cancelled, a thread is
left to itself. The one thing that cannot be given up is the caller's own thread, so a sync leaf that has a
deadline gets another, in both doors.
"""
