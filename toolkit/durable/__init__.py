"""Durable runs: the same runner on Temporal, so that a run outlives its process and may use many machines.

    from toolkit.durable import DurableRunner, Worker

The workflow of a run executes the steps that the run's conversation decides. Each call of the model, the gates of a
call, and each call of a tool are activities. Needs the extra `temporal`; a ledger in PostgreSQL needs the extra
`postgres`.

Files, each importing only those below it:

    client       starts, follows, steers and cancels runs; decides on their calls
    worker       executes the steps of runs
    activities   one step of a run, as the runner executes it
    calls        a call's gates, its ledger, and the run of a sub-agent
    workflow     decides the next step, in the engine's sandbox
    ledger       a ledger in PostgreSQL, for workers on several machines
    server       a development server on this machine
    wire         the messages between client, workflow and activities
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.durable.client import DurableRun as DurableRun
    from toolkit.durable.client import DurableRunner as DurableRunner
    from toolkit.durable.client import RunStatus as RunStatus
    from toolkit.durable.ledger import PostgresLedger as PostgresLedger
    from toolkit.durable.server import DevServer as DevServer
    from toolkit.durable.worker import Worker as Worker

# The public names by module. Type checkers read the imports above instead; a test compares the two.
_HOMES = {
    "toolkit.durable.client": ("DurableRun", "DurableRunner", "RunStatus"),
    "toolkit.durable.ledger": ("PostgresLedger",),
    "toolkit.durable.server": ("DevServer",),
    "toolkit.durable.worker": ("Worker",),
}

if not TYPE_CHECKING:  # with __getattr__, a type checker would accept any name
    _EXTRAS = {"temporalio": "temporal", "psycopg": "postgres", "psycopg_pool": "postgres"}
    __getattr__, __dir__, __all__ = lazy_names(globals(), _HOMES, _EXTRAS)
