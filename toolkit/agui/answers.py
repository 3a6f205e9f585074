"""What a user interface answers to the interrupts of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolkit.approval import Decision

# What an answer looks like: the protocol's own pattern for approvals with edits.
ANSWER: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object"},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}


def decisions(resume: Iterable[Mapping[str, Any]]) -> dict[str, Decision]:
    """Read the `resume` of a client's input: decisions by call id, as `Runner.resume` takes them.

    Nothing but `{"approved": true}` is a yes; a call that the client gave up is refused.

    Example:
        >>> entry = {"interruptId": "ab12cd34_0", "status": "resolved", "payload": {"approved": True}}
        >>> decisions([entry]) == {"ab12cd34_0": Decision.approve()}
        True
    """
    return {str(entry.get("interruptId", "")): _decision(entry) for entry in resume}


def _decision(entry: Mapping[str, Any]) -> Decision:
    payload = entry.get("payload")
    answer = payload if isinstance(payload, Mapping) else {}
    if entry.get("status") != "resolved" or answer.get("approved") is not True:
        return Decision.reject(str(answer.get("reason", "")))
    edited = answer.get("editedArgs")
    if isinstance(edited, Mapping):
        return Decision.modify(edited)
    return Decision.approve() if edited is None else Decision.reject()
