"""The agent of this folder: slow counting, and a ring that needs approval. README.md has the steps."""

from __future__ import annotations

import time

from toolkit import Runner, tool
from toolkit.approvers import ask_when, defer
from toolkit.models import ModelRequest, ModelResponse
from toolkit.testing import ModelReply, ScriptedModel, call

BAYS = ("north", "east", "south", "west")


@tool(effect="read")
def count_birds(bay: str) -> int:
    """Count the birds of a bay, which takes some seconds.

    Args:
        bay: Name of the bay.
    """
    print(f"counting in the {bay} bay ...", flush=True)
    time.sleep(3)
    return 10 + len(bay)


@tool(effect="write")
def ring(bird: str) -> str:
    """Put a ring on a bird.

    Args:
        bird: Name of the bird.
    """
    print(f"putting a ring on the {bird}", flush=True)
    return f"{bird} has a ring"


def answer(request: ModelRequest) -> ModelReply:
    """Answer as a model would: count bay after bay, then ring the kea. The answer depends only on the conversation."""
    turn = sum(isinstance(message, ModelResponse) for message in request.messages)
    if turn < len(BAYS):
        return call("count_birds", bay=BAYS[turn])
    return call("ring", bird="kea") if turn == len(BAYS) else "All bays are counted, and the kea has a ring."


runner = Runner([count_birds, ring], model=ScriptedModel(answer), approve=ask_when(defer, effects=["write"]))
