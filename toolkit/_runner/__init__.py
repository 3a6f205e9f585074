"""The loop of a run: model and tools in turn, until there is an answer.

`conversation` decides what comes next and does no I/O; `run` does it through a backend. What happens to a single call
belongs to `toolkit._execution`.

Files, each importing only those below it:

    runner         `Runner`: run, stream, start and resume, sync and async
    setup          checks a runner's options, and builds a run
    options        the options of a runner and of a run
    stream         the events of a run as an iterator, and the handle of a run in the background
    run            one run: does the steps of the conversation, and emits events
    tool_calls     runs the calls of one response
    early_calls    calls that start while their response is still arriving
    model_call     calls the model once
    hooks          the application's methods around model responses and calls
    output         structured output: schema of the answer, its value, partial values
    conversation   the state machine
    result         `RunResult`
    state          `RunState`, call ids, and the steps of the conversation
    limits         `Limits` and `Prices`
    history        repair of a history that servers reject
    control        messages to running runs, cancellation, and the list of active runs
"""
