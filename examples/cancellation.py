"""End a run: cancel it, set a time limit, or leave its stream. Then continue from its history.

Prints how each run ended, the results of its calls, and the answer of a run that continues. The model is scripted.
"""

import threading
import time

from toolkit import Limits, Runner, ToolContext, tool
from toolkit.events import ToolCallStarted
from toolkit.testing import ScriptedModel, call

at_work = threading.Event()


@tool
def count_sheep(context: ToolContext) -> str:
    """Count sheep until the run is cancelled."""
    at_work.set()
    for _ in range(1_000):
        if context.cancelled:
            return "not all sheep"
        time.sleep(0.01)
    return "1,000 sheep"


@tool
def wait_for_dawn() -> str:
    """Wait without checking the context: at its limit the run does not wait for such a tool, and its value is lost."""
    time.sleep(3)
    return "The sun has risen."


def runner(name: str, limits: Limits | None = None) -> Runner:
    """Make a runner whose model calls one tool."""
    model = ScriptedModel([[call(name)], "I have slept well."])
    return Runner([count_sheep, wait_for_dawn], model=model, limits=limits or Limits())


handle = runner("count_sheep").start("Count sheep.")  # in the background
at_work.wait()
handle.cancel()
cancelled = handle.result()
print("Cancelled:", cancelled.finish_reason, "-", cancelled.messages[-1].text)

late = runner("wait_for_dawn", Limits(max_seconds=0.5)).run("Wait for dawn.")
print("Too late: ", late.finish_reason, "-", late.messages[2].text, "-", late.output)

with runner("count_sheep").stream("Count sheep.") as stream:
    for event in stream:
        if isinstance(event, ToolCallStarted):
            break
print("Left:     ", stream.result.finish_reason, "-", stream.result.messages[-1].text)

again = Runner(model=ScriptedModel(["Nothing was counted."])).run("And now?", messages=cancelled.messages)
print("Gone on:  ", again.output)
