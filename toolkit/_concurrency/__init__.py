"""Sync and async from one implementation.

Everything between a backend and its leaves is written once, with `async def`. A leaf (a model, a tool, an approver) is
either sync, a coroutine that never suspends, or async. Each backend knows how to wait for both kinds:

    leaf    SyncBackend                       AsyncBackend
    sync    runs on the caller's thread       runs on a thread of its own
    async   awaited on one private loop       awaited in the caller's loop, as a task of its own

So a sync run needs neither an event loop nor a thread until it meets an async leaf or several calls in one turn, and it
works where a loop is running already, as in a notebook. Threads are daemons with a copy of the caller's context
variables: they never keep the interpreter from exiting.

A wait takes a `cancellation`, which may have a deadline. When it ends early, a task is cancelled and a thread is
abandoned. The caller's own thread cannot be abandoned, so a sync leaf with a deadline gets another, in both backends.

Files, each importing only those below it:

    sync_backend    the backend of `run`, `stream`, `invoke` and `call`
    async_backend   the backend of `arun`, `astream`, `ainvoke` and `acall`
    backend         what both backends offer; iterating, and calling a function that may be sync or async
    event_loop      the private event loop of the process
    tasks           tasks of an event loop: start, cancel, wait
    threads         daemon threads, jobs on several of them, and waiting
    cancellation    cancelling a run and everything it started, from any thread or by a deadline
"""
