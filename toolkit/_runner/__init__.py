"""The loop of a run: model and tools in turn, until there is an answer.

`conversation` decides what comes next and does no I/O; `run` does it through a backend. What happens to a single call
belongs to `toolkit._execution`.

Files, each importing only those below it:

    runner         `Runner`: the public class
    run_factory    creates the runs of a runner
    resuming       the decisions on a resumed run, and the records of its calls
    sub_agent      a runner as a tool of another one
    many           many prompts, some of them at the same time, and the file of their answers
    stream         the events of a run as an iterator, and the handle of a run in the background
    saved_runs     the steps of runs in a SQLite file
    run            one run: does the steps of the conversation, and emits events
    model_calls    calls the model: the request of a turn, its time limit, the hooks around it
    tool_calls     runs the calls of one response, some while it still arrives; what runs below share with this one
    output         structured output: schema of the answer, its value, partial values
    conversation   the state machine, and the steps that it gives
    result         `RunResult`
    options        the options of a runner and of a run
    hooks          the application's methods around model responses and calls
    session        conversations that several runs continue
    state          `RunState`
    limits         `Limits` and `Prices`
    history        reading of a history, and repair of one that servers reject
    control        messages to running runs, cancellation, and the list of active runs
    prompt         what a user sends, as a message
    hints          names that other libraries use, and what to write here
"""
