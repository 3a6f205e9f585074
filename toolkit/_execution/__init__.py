"""Execution of one call, and of the calls of one turn.

Resolve, validate, authorize, approve, invoke, render: the dispatcher does these in order, inside of all middleware. The
loop around calls belongs to `toolkit._runner`.

Files, each importing only those below it:

    parallel          the calls of one turn: which run together, and which wait
    dispatcher        one call: its pipeline, and the middleware around it
    undo              undo the calls of a run, by its ledger
    references        calls that refer to the results of others
    attempts          timeout, retries, and where a tool's function runs
    isolation         calls in a process of their own, or in an executor
    gates             authorizers and approvers: who is asked about a call, and what each answer means
    approval          decisions on calls, and those on a paused run
    approval_request  what a gate decides on: a call, its arguments as they are shown, and its digest
    ledger            records of calls, so that none has its effect twice
    truncation        results that are too long for the model
"""
