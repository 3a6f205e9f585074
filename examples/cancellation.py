"""End a run: cancel it, set a time limit, or leave its stream. Then continue from its history.

Prints how each run ended, the results of its calls, and the answer of a run that continues. The model is scripted, so
that the example runs anywhere.
"""

import threading

from toolkit import Limits, Runner, ToolContext, tool
from toolkit.events import ToolCallStarted
from toolkit.testing import ScriptedModel, call

at_work = threading.Event()


@tool
def count_sheep(context: ToolContext) -> str:
    """Count sheep until the run is cancelled."""
    sheep = 0
    at_work.set()
    while not context.cancelled and sheep < 1_000:
        sheep += 1
        at_work.wait()
        threading.Event().wait(0.01)
    return f"{sheep} sheep"


def runner(limits: Limits | None = None) -> Runner:
    """Make a runner with a model that plays its part once."""
    model = ScriptedModel([[call("count_sheep")], "I have slept well."])
    return Runner([count_sheep], model=model, limits=limits or Limits())


handle = runner().start("Count sheep.")  # in the background
at_work.wait()
handle.cancel()
cancelled = handle.result()
print("Cancelled:", cancelled.finish_reason, "-", cancelled.messages[-1].text)

late = runner(Limits(max_seconds=0.5)).run("Count sheep.")
print("Too late: ", late.finish_reason, "-", late.messages[2].text, "-", late.output)

with runner().stream("Count sheep.") as stream:
    for event in stream:
        if isinstance(event, ToolCallStarted):
            break
print("Left:     ", stream.result.finish_reason, "-", stream.result.messages[-1].text)

again = Runner(model=ScriptedModel(["Nothing was counted."])).run("And now?", messages=cancelled.messages)
print("Gone on:  ", again.output)
