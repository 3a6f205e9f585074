"""Report progress and partial results from a tool, and read the run as events.

Prints a transcript with a line for each step of an import, then the same run as lines of JSON, and as AG-UI events for
a user interface. The model is scripted.
"""

import json
from collections.abc import Iterator
from itertools import groupby

from toolkit import Runner, Toolbox, ToolContext, tool
from toolkit.display import show
from toolkit.events import event_to_dict
from toolkit.serve import agui
from toolkit.testing import ScriptedModel, call

FILES = {"north.csv": 1200, "south.csv": 800}


@tool
def import_files(names: list[str], context: ToolContext) -> str:
    """Import files of measurements.

    Args:
        names: The files' names.
    """
    rows = 0
    for number, name in enumerate(names, start=1):
        rows += FILES[name]
        context.progress(f"{name} ({number} of {len(names)})")  # for people; not sent to the model
        context.update({"rows": rows})  # a partial result
    return f"{rows} rows imported"


@tool
def largest(count: int) -> Iterator[str]:
    """List the largest files, one by one."""
    yield from sorted(FILES, key=FILES.__getitem__, reverse=True)[:count]  # each value is reported as it comes


def runner() -> Runner:
    """Make a runner whose scripted model answers one prompt."""
    model = ScriptedModel(
        [
            [call("import_files", names=[*FILES])],
            [call("largest", count=2)],
            "I imported 2000 rows; north.csv is the largest file.",
        ]
    )
    return Runner(Toolbox([import_files, largest]), model=model)


show(runner().stream("Import everything."), "Import everything.")

print("\nThe updates of the calls as JSON:")
with runner().stream("Import everything.") as stream:
    for event in stream:
        data = event_to_dict(event)
        if data["type"] in ("toolCallUpdated", "toolCallFinished") and data["text"]:
            print("   ", json.dumps({key: data[key] for key in ("type", "toolName", "text")}))

print("\nThe run as AG-UI events:")
for kind, group in groupby(event["type"] for event in agui.encode_events(runner().stream("Import everything."))):
    count = len(list(group))
    print(f"    {kind} ({count} times)" if count > 1 else f"    {kind}")
