"""Decisions that were made while a run was paused: each is for one call, as it was shown, and for one time."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Mapping, Sequence

from toolkit._messages import PendingApproval
from toolkit.approval import ApprovalRequest, Approver, Decision, Verdict
from toolkit.errors import ApprovalError


class Decided:
    """Answers for calls that waited, where they are still what was decided on; asks somebody about the rest.

    A no outlives any change of its call.

    Args:
        decisions: Verdicts by call id. A call that waits and has none goes on waiting.
        pending: The calls that wait.
        otherwise: Who is asked about a call that has changed since, and about all that come later. Without anybody they
            wait: a run that began with a gate keeps it.

    Raises:
        ApprovalError: A decision is for no call that waits, or is none.
    """

    def __init__(
        self,
        decisions: Mapping[str, Verdict],
        pending: Sequence[PendingApproval],
        otherwise: Approver | None = None,
    ) -> None:
        self._waiting = {waiting.call.id: waiting for waiting in pending}
        _refuse_unfit(decisions, self._waiting)
        self._verdicts = dict(decisions)
        self._otherwise = otherwise
        self._lock = threading.Lock()

    def __call__(self, request: ApprovalRequest) -> Verdict | Awaitable[Verdict]:
        """Answer for one call."""
        with self._lock:
            waiting = self._waiting.get(request.call.id)
            verdict = self._verdicts.pop(request.call.id, None)
        if waiting is None:
            return self._asked(request, Decision.defer("The run was paused once, and nobody else is there to ask."))
        if not _is_no(verdict) and waiting.digest != request.digest:
            return self._asked(request, Decision.defer("The tool or the call has changed since it was shown."))
        return Decision.defer(waiting.reason) if verdict is None else verdict

    def _asked(self, request: ApprovalRequest, verdict: Verdict) -> Verdict | Awaitable[Verdict]:
        return verdict if self._otherwise is None else self._otherwise(request)


def _is_no(verdict: Verdict | None) -> bool:
    return verdict is False or (isinstance(verdict, Decision) and not verdict.approved and verdict.refusal != "defer")


def _refuse_unfit(decisions: Mapping[str, Verdict], waiting: Mapping[str, PendingApproval]) -> None:
    unknown = next((call_id for call_id in decisions if call_id not in waiting), None)
    if unknown is not None:
        known = ", ".join(waiting) or "none"
        raise ApprovalError(f"No call {unknown!r} waits for a decision; these do: {known}.")
    for call_id, verdict in decisions.items():
        if not isinstance(verdict, (bool, Decision)):
            raise ApprovalError(f"The decision on {call_id!r} is {verdict!r}: give True, False or a Decision.")
