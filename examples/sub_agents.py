"""Use sub-agents: an editor delegates to two specialists at the same time. One limit on tokens applies to all three.

Prints the steps of each agent. The models are scripted.
"""

from toolkit import Limits, Runner, tool
from toolkit.display import show
from toolkit.testing import ScriptedModel, call


@tool(effect="read")
def search_archive(words: str) -> str:
    """Search the newspaper archive."""
    return f"1889-05-06, found by {words!r}: The Eiffel Tower opens to the public."


@tool(effect="read")
def measure_building(name: str) -> int:
    """Look up the height of a building, in metres."""
    return {"Eiffel Tower": 330}[name]


archivist = Runner(
    [search_archive],
    model=ScriptedModel([call("search_archive", words="Eiffel Tower opens"), "It opened on 6 May 1889."]),
    instructions="Answer from the archive, in one sentence.",
)
surveyor = Runner(
    [measure_building],
    model=ScriptedModel([call("measure_building", name="Eiffel Tower"), "It is 330 m high."]),
    instructions="Give heights in metres.",
)
questions = [
    call("ask_archivist", query="When was the Eiffel Tower opened?"),
    call("ask_surveyor", query="How high is the Eiffel Tower?"),
]
editor = Runner(
    [
        archivist.as_tool("ask_archivist", "dates in old newspapers"),
        surveyor.as_tool("ask_surveyor", "heights of buildings"),
    ],
    model=ScriptedModel([questions, "The Eiffel Tower, 330 m high, opened on 6 May 1889."]),
    limits=Limits(max_tokens=100_000),
)
result = show(editor.stream("Write a sentence about the Eiffel Tower."), "Write a sentence about the Eiffel Tower.")
print(f"{result.usage.requests} requests of three runs")
