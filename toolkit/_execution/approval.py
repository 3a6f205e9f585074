"""Decisions on calls: what an authorizer or an approver answers, and the decisions on a paused run.

Who is asked, and when, is in `gates.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Literal, TypeAlias

from toolkit._context import ToolContext
from toolkit._execution.approval_request import ApprovalRequest
from toolkit._options import check_methods
from toolkit._tools.tool import Tool
from toolkit.errors import ApprovalError, ToolkitError
from toolkit.events import PendingApproval


@dataclass(frozen=True)
class Deny:
    """An authorizer's refusal, with a reason that the model reads."""

    reason: str = ""


# A function of tool, validated arguments and context. True allows the call; anything else denies it.
Authorizer: TypeAlias = Callable[
    [Tool[..., Any], Mapping[str, Any], ToolContext[Any]], bool | Deny | Awaitable[bool | Deny]
]


@check_methods()
@dataclass(frozen=True)
class Decision:
    """An approver's answer.

    Attributes:
        approved: Whether the call runs.
        reason: Reason for a rejection. The model reads it.
        arguments: Arguments that replace the model's. They are validated and authorized again.
        refusal: What happens to a refused call: `reject` gives it an error and the run continues, `defer` pauses the
            run, `stop` ends the run, `unavailable` gives it an error that says that no person could be asked.

    Raises:
        ValueError: The values contradict each other.
    """

    approved: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    refusal: Literal["reject", "defer", "stop", "unavailable"] = "reject"

    def __post_init__(self) -> None:
        rules = {
            "approved is True or False": isinstance(self.approved, bool),
            "refusal is reject, defer, stop or unavailable": self.refusal in ("reject", "defer", "stop", "unavailable"),
            "an approval has no refusal": not self.approved or self.refusal == "reject",
            "arguments are a mapping": self.arguments is None or isinstance(self.arguments, Mapping),
            "a rejection has no arguments": self.approved or self.arguments is None,
        }
        for rule, is_met in rules.items():
            if not is_met:
                raise ValueError(f"{self!r} is not a valid decision: {rule}.")

    @classmethod
    def approve(cls) -> Decision:
        """Run the call."""
        return cls(approved=True)

    @classmethod
    def modify(cls, arguments: Mapping[str, Any]) -> Decision:
        """Run the call with other arguments. Pass all of them, as the model would write them."""
        return cls(approved=True, arguments=arguments)

    @classmethod
    def reject(cls, reason: str = "") -> Decision:
        """Refuse the call. The run continues."""
        return cls(approved=False, reason=reason)

    @classmethod
    def defer(cls, reason: str = "") -> Decision:
        """Pause the run, until `Runner.resume` gets a decision."""
        return cls(approved=False, reason=reason, refusal="defer")

    @classmethod
    def unavailable(cls, reason: str = "") -> Decision:
        """Refuse the call, since no person could be asked. The run continues."""
        return cls(approved=False, reason=reason, refusal="unavailable")

    @classmethod
    def stop(cls, reason: str = "") -> Decision:
        """Refuse the call and end the run."""
        return cls(approved=False, reason=reason, refusal="stop")


# True, False or a Decision; anything else, and an exception, refuses the call.
Verdict: TypeAlias = bool | Decision
Approver: TypeAlias = Callable[[ApprovalRequest], Verdict | Awaitable[Verdict]]


def make_decision(verdict: Verdict) -> Decision:
    """Return a Decision unchanged, and make one of True or False."""
    return verdict if isinstance(verdict, Decision) else Decision(approved=verdict)


class Deferred(ToolkitError):
    """A call waits for approval. It is raised through the pipeline of the call, middleware included.

    Attributes:
        pending: The approvals that are awaited: of the call itself, or of the calls of its sub-agent.
        state: State of the sub-agent's run; None if the call itself waits.
        digest: Digest of the sub-agent's call, which has passed its gates.
    """

    def __init__(self, *pending: PendingApproval, state: Any = None, digest: str = "") -> None:
        super().__init__(*pending)
        self.pending = pending
        self.state = state
        self.digest = digest


# The result of a call that waits for approval.
WAITING_TEXT = "Waits for approval."
# The result of a call that does not run, since an approver has ended the run.
STOPPED_TEXT = "Not run: the run was stopped."


class Stopped(ToolkitError):
    """An approver ended the run. The message is its reason."""


class RecordedDecisions:
    """An approver that returns the decisions made while a run was paused, each once, if its call is unchanged.

    A rejection holds even if its call has changed.

    Args:
        decisions: Verdicts by call id. A pending call without one stays pending.
        pending: The pending calls.
        otherwise: Approver for calls that have changed since, and for all later calls. Without it these are deferred,
            so that no call runs without a decision.
    """

    def __init__(
        self, decisions: Mapping[str, Verdict], pending: Sequence[PendingApproval], otherwise: Approver | None
    ) -> None:
        self._pending = {waiting.call.id: waiting for waiting in pending}
        self._decisions = {call_id: make_decision(verdict) for call_id, verdict in decisions.items()}
        self._otherwise = otherwise
        self._approved: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, request: ApprovalRequest) -> Verdict | Awaitable[Verdict]:
        """Return the decision on a call."""
        if request.call.id not in self._pending:
            return defer_unasked(request) if self._otherwise is None else self._otherwise(request)
        decision = self._recall(request)
        if decision is None and self._otherwise is not None:
            return self._otherwise(request)
        return decision or Decision.defer("The tool or the call has changed since it was shown.")

    def settle(self, approver: Approver) -> Approver:
        """Wrap an approver of an outer run, so that these decisions apply to the calls that it defers."""

        def approve(request: ApprovalRequest) -> Verdict | Awaitable[Verdict]:
            answer = approver(request)
            return wait(request, answer) if isawaitable(answer) else choose(request, answer)

        async def wait(request: ApprovalRequest, answer: Awaitable[Verdict]) -> Verdict:
            return choose(request, await answer)

        def choose(request: ApprovalRequest, answer: Verdict) -> Verdict:
            if not isinstance(answer, Decision) or answer.refusal != "defer":
                return answer
            if request.call.id in self._approved:
                return True
            # The sub-agent's own approver may have changed the call before it was shown.
            return self._recall(request) or answer

        return approve

    def _recall(self, request: ApprovalRequest) -> Decision | None:
        """Return the decision on a call, and forget it.

        Return None if the call does not wait for a decision, or has changed since it was shown.
        """
        call_id = request.call.id
        with self._lock:
            self._approved.discard(call_id)
            waiting = self._pending.get(call_id)
            if waiting is None:
                return None
            decision = self._decisions.get(call_id) or Decision.defer(waiting.reason)
            is_rejection = not decision.approved and decision.refusal != "defer"
            if not is_rejection and waiting.digest != request.digest:
                return None
            self._decisions.pop(call_id, None)
            if decision.approved:
                self._approved.add(call_id)

        return decision


def defer_unasked(_: ApprovalRequest) -> Verdict:
    """Defer a call: the run was paused by an approver, and resumed without one."""
    return Decision.defer("The run was paused before, and has no other approver.")


def check_decisions(decisions: Mapping[str, Verdict], pending: Iterable[PendingApproval]) -> None:
    """Check decisions by call id, before a run is resumed.

    Raises:
        ApprovalError: The decisions are not a mapping, or one of them has the wrong type or is for a call that is not
            pending.
    """
    if not isinstance(decisions, Mapping):
        raise ApprovalError(
            f"Decisions are by call id, such as {{waiting.call.id: True for waiting in result.pending}}, not "
            f"{decisions!r:.100}."
        )
    waiting = [each.call.id for each in pending]
    for call_id, verdict in decisions.items():
        if call_id not in waiting:
            raise ApprovalError(explain_unknown_call(call_id, waiting))
        if not isinstance(verdict, (bool, Decision)):
            raise ApprovalError(f"The decision on {call_id!r} is {verdict!r}: use True, False or a Decision.")


def explain_unknown_call(call_id: str, pending: Iterable[str]) -> str:
    """Return why a decision on a call is refused. `pending` has the ids of the calls that wait for a decision."""
    return f"No call {call_id!r:.100} waits for a decision; these do: {', '.join(pending) or 'none'}."
