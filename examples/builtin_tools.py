"""Use built-in tools together with your own, with and without approval.

A model calculates, reverses and counts words, writes a note after approval, reads the note if an environment variable
allows it, and gets another tool between two runs. Prints each request, its calls with their results, and the answer.
The model is scripted. Set `ALLOW_PROTECTED_NOTE=1` to let it read the note.
"""

import os
from collections.abc import Mapping
from typing import Any

from toolkit import ApprovalRequest, Decision, Deny, Runner, Tool, Toolbox, tool
from toolkit.approvers import ask_when
from toolkit.builtin.samples import calculator, reverser, word_count
from toolkit.testing import ModelReply, ScriptedModel, call

NOTES = {"garden": "The key is under the third pot."}


def may_read(_: Tool[..., Any], arguments: Mapping[str, Any], __: object) -> bool | Deny:
    """Allow reading notes if the environment variable is set."""
    if os.environ.get("ALLOW_PROTECTED_NOTE") == "1":
        return True
    return Deny(f"The note about {arguments['topic']} is protected")


@tool(effect="read", authorize=may_read)
def protected_note(topic: str) -> str:
    """Read a protected note.

    Args:
        topic: Topic of the note.
    """
    return NOTES[topic]


@tool(effect="write")
def write_note(topic: str, text: str) -> str:
    """Write a note, in place of an older one.

    Args:
        topic: Topic of the note.
        text: Text of the note.
    """
    NOTES[topic] = text
    return f"There are {len(NOTES)} notes."


def keep_the_key(request: ApprovalRequest) -> Decision:
    """Approve every note except one about the garden; to ask a person instead, see approval_terminal.py."""
    if request.arguments["topic"] == "garden":
        return Decision.reject("That note has to stay.")
    return Decision.approve()


def run(title: str, tools: Toolbox, prompt: str, *script: ModelReply) -> None:
    """Run a prompt with the scripted model, and print what happens."""
    guarded = ask_when(keep_the_key, names=["write_note"])
    result = Runner(tools, model=ScriptedModel(script), approve=guarded).run(prompt)
    print(f"{title}: {prompt}")
    for finished in result.calls:
        print(f"    {finished.name}{finished.arguments}: {finished.result.text}")
    print(f"    {result}\n")


run(
    "Ready tools",
    Toolbox([calculator]),
    "What is 15 + 27, and what 7 / 4?",
    [call("calculator", operation="add", a=15, b=27), call("calculator", operation="divide", a=7, b=4)],
    "42 and 1.75.",
)
run(
    "Approval",
    Toolbox([write_note]),
    "Note that the shed is open, and that the key is gone.",
    [call("write_note", topic="shed", text="It is open."), call("write_note", topic="garden", text="No key.")],
    "The first is noted; the second I may not change.",
)
run(
    "Authorization",
    Toolbox([protected_note]),
    "Where is the key?",
    call("protected_note", topic="garden"),
    lambda request: f"I asked, and was told: {request.messages[-1].text}",
)
box = Toolbox()
run("No tools yet", box, "Reverse 'hello world'.", "I have no tool for that.")
box.add(reverser, word_count)
run(
    "Tools that came later",
    box,
    "Reverse 'hello world', and count its words.",
    [call("reverser", text="hello world"), call("word_count", text="hello world")],
    "'dlrow olleh'; two words.",
)
