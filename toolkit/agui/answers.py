"""What a user interface answers to the interrupts of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolkit._execution.approval import Decision

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

    Raises:
        ValueError: It is no list of answers, one for each interrupt.

    Example:
        >>> entry = {"interruptId": "ab12cd34_0", "status": "resolved", "payload": {"approved": True}}
        >>> decisions([entry]) == {"ab12cd34_0": Decision.approve()}
        True
    """
    if isinstance(resume, (str, Mapping)) or not isinstance(resume, Iterable):
        raise ValueError(f"resume is a list of answers to interrupts, not {resume!r:.100}.")  # noqa: TRY004  it comes from a client
    decided: dict[str, Decision] = {}
    for entry in resume:
        interrupt = _interrupt_of(entry)
        if interrupt in decided:
            raise ValueError(f"The interrupt {interrupt!r:.100} has two answers.")
        decided[interrupt] = _decision(entry)
    return decided


def _interrupt_of(entry: object) -> str:
    interrupt = entry.get("interruptId") if isinstance(entry, Mapping) else None
    if not isinstance(interrupt, str) or not interrupt:
        raise ValueError(f"An answer names its interrupt by 'interruptId'; this one does not: {entry!r:.200}.")
    return interrupt


def _decision(entry: Mapping[str, Any]) -> Decision:
    payload = entry.get("payload")
    answer = payload if isinstance(payload, Mapping) else {}
    if entry.get("status") != "resolved" or answer.get("approved") is not True:
        reason = answer.get("reason")
        return Decision.reject(reason if isinstance(reason, str) else "")
    edited = answer.get("editedArgs")
    if isinstance(edited, Mapping):
        return Decision.modify(edited)
    return Decision.approve() if edited is None else Decision.reject()
