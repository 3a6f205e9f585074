"""The gates of a call: authorizers say whether it may be made, approvers whether a person or a policy agrees.

Gates get copies of the arguments. A call runs only if each gate allows it: any other answer, a late answer or an
exception refuses it.

Without an approver, calls whose tool requires approval are refused and all others run. An approver is asked about every
call; the policies in `toolkit.approvers` are approvers that ask another approver about some calls only.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from toolkit._concurrency.backend import Backend, call_function
from toolkit._concurrency.cancellation import DEADLINE, Cancellation
from toolkit._concurrency.threads import cancellation_error
from toolkit._context import ToolContext
from toolkit._execution.approval_request import ApprovalRequest
from toolkit._options import check_methods, get_short_traceback
from toolkit._tools.tool import Tool
from toolkit.errors import ApprovalError, Denied, ToolkitError
from toolkit.events import PendingApproval

logger = logging.getLogger("toolkit")

DENIED = "Tool execution was denied by authorization policy."
FAILED = 'Tool execution failed: tool authorization error for "{}": {}; the tool was not run.'
REJECTED = "Tool execution was rejected by the user."
INCOMPLETE = "Tool approval could not be completed; the tool was not run."
NO_APPROVER = (
    "Tool approval could not be completed because no approval handler is configured; "
    "continuing without running the tool."
)


class Unanswered(Denied):
    """No gate answered: there is none, or it raised an exception, which is the cause."""

    kind = "unavailable"


class Late(Unanswered):
    """A gate gave no answer in time."""

    kind = "timed_out"


class Rejected(Denied):
    """An approver rejected the call."""

    kind = "rejected"


async def _ask_gate(
    gate: Callable[..., Any],
    request: ApprovalRequest,
    backend: Backend,
    timeout: float | None,
    list_arguments: Callable[[ApprovalRequest], tuple[Any, ...]] = lambda request: (request,),
) -> Any:
    """Call a gate, and return its answer, or the exception that it raised; `Late` if it did not answer in time.

    The gate has `timeout` seconds, by default as long as the run takes. Without a timeout a sync gate runs on the
    calling thread. `list_arguments` makes its arguments from the request, whose context is cancelled as soon as the
    answer is no longer needed.

    Raises:
        TimedOut, Cancelled: The run ended first.
    """
    context = request.context
    with Cancellation(timeout, parent=context.cancellation) as cancellation:
        try:
            bound = replace(request, context=replace(context, cancellation=cancellation))
            answer = await call_function(gate, list_arguments(bound), backend, cancellation)
        except Exception as error:  # noqa: BLE001  it refuses the call
            answer = error
        if cancellation.reason == DEADLINE and not context.cancellation:
            return Late()
        if cancellation:
            raise cancellation_error(cancellation)
    if isinstance(answer, Exception) and not isinstance(answer, Denied):
        logger.error("The gate %r raised; the call is refused.", gate, exc_info=get_short_traceback(answer))
    return answer


def _format_reason(reason: object) -> str:
    return f" Reason: {reason}" if isinstance(reason, str) and reason.strip() else ""


@dataclass(frozen=True)
class Deny:
    """An authorizer's refusal, with a reason that the model reads."""

    reason: str = ""


# A function of tool, validated arguments and context. True allows the call; anything else denies it.
Authorizer: TypeAlias = Callable[
    [Tool[..., Any], Mapping[str, Any], ToolContext[Any]], bool | Deny | Awaitable[bool | Deny]
]


async def authorize(
    authorizer: Authorizer | None, request: ApprovalRequest, backend: Backend, timeout: float | None = None
) -> None:
    """Check a call with an authorizer, which has `timeout` seconds; without an authorizer the call is allowed.

    Raises:
        Denied: The authorizer did not return True. An answer that is neither a bool nor a Deny is logged.
        Unanswered: It raised, or did not answer in time.
        TimedOut, Cancelled: The run ended first.
    """
    if authorizer is None:
        return
    verdict = await _ask_gate(authorizer, request, backend, timeout, attrgetter("tool", "arguments", "context"))
    match verdict:
        case True:
            return
        case Late():
            raise Late(FAILED.format(request.name, "it was not answered in time"))
        case Denied():
            raise Denied(DENIED + _format_reason(str(verdict))) from verdict.__cause__
        case Exception():
            raise Unanswered(FAILED.format(request.name, "it failed")) from verdict
        case Deny():
            raise Denied(DENIED + _format_reason(verdict.reason))
    if verdict is not False:
        kind = type(verdict).__name__
        logger.error("The authorizer %r returned a %s, not a bool or Deny: the call is denied.", authorizer, kind)
    raise Denied(DENIED)


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


class Deferred(ToolkitError):
    """A call waits for approval. It is raised through the pipeline of the call, middleware included.

    Attributes:
        pending: The approval that is awaited.
    """

    def __init__(self, pending: PendingApproval) -> None:
        super().__init__(pending)
        self.pending = pending


# The result of a call that does not run, since an approver has ended the run.
STOPPED_TEXT = "Not run: the run was stopped."


class Stopped(ToolkitError):
    """An approver ended the run; the message is its reason."""


async def approve(
    approver: Approver | None,
    request: ApprovalRequest,
    backend: Backend,
    timeout: float | None = None,
    no_approver: str = NO_APPROVER,
) -> Decision:
    """Return the decision that approves a call. The tool's own rule and the approver have `timeout` seconds each.

    Raises:
        Rejected: The approver rejected the call.
        Unanswered: The approver raised, did not answer in time, was unavailable, or returned neither a bool nor a
            Decision; or there is none, and the tool requires approval.
        Deferred: The approver deferred the decision.
        Stopped: The approver ends the run.
        TimedOut, Cancelled: The run ended first.
    """
    rule = request.tool.settings.approve
    # A rule that fails, or does not answer in time, requires approval.
    required = await _ask_gate(rule, request, backend, timeout) is not False if callable(rule) else rule
    request = replace(request, required=required)
    if approver is None and request.required:
        raise Unanswered(no_approver)
    if approver is None:
        return Decision.approve()
    decision = await _get_decision(approver, request, backend, timeout)
    if decision.approved is True:
        return decision
    if decision.refusal == "defer":
        raise Deferred(request.to_pending(decision.reason))
    if decision.refusal == "stop":
        raise Stopped(decision.reason)
    if decision.refusal == "unavailable":
        raise Unanswered(INCOMPLETE + _format_reason(decision.reason))
    raise Rejected(REJECTED + _format_reason(decision.reason))


async def _get_decision(
    approver: Approver, request: ApprovalRequest, backend: Backend, timeout: float | None
) -> Decision:
    verdict = await _ask_gate(approver, request, backend, timeout)
    if type(verdict) in (Decision, bool):
        return verdict if isinstance(verdict, Decision) else Decision(approved=verdict)
    match verdict:
        case Late():
            raise Late(f"Tool approval timed out after {timeout:g} s.")
        case Denied():
            raise Rejected(REJECTED + _format_reason(str(verdict))) from verdict.__cause__
        case Exception():
            raise Unanswered(INCOMPLETE) from verdict
    kind = type(verdict).__name__
    logger.error("The approver %r returned a %s, not a bool or Decision: the call is refused.", approver, kind)
    raise Unanswered(INCOMPLETE)


class RecordedDecisions:
    """An approver that returns the decisions made while a run was paused, each once, if its call is unchanged.

    A rejection holds even if its call has changed.

    Args:
        decisions: Verdicts by call id. A pending call without one stays pending.
        pending: The pending calls.
        otherwise: Approver for calls that have changed since, and for all later calls. Without it these are deferred,
            so that no call runs without a decision.

    Raises:
        ApprovalError: A decision is for a call that is not pending, or has the wrong type.
    """

    def __init__(
        self,
        decisions: Mapping[str, Verdict],
        pending: Sequence[PendingApproval],
        otherwise: Approver | None = None,
    ) -> None:
        self._pending = {waiting.call.id: waiting for waiting in pending}
        if not isinstance(decisions, Mapping):
            raise ApprovalError(
                f"Decisions are by call id, such as {{waiting.call.id: True for waiting in result.pending}}, not "
                f"{decisions!r:.100}."
            )
        for call_id, verdict in decisions.items():
            if call_id not in self._pending:
                raise ApprovalError(explain_unknown_call(call_id, self._pending))
            if not isinstance(verdict, (bool, Decision)):
                raise ApprovalError(f"The decision on {call_id!r} is {verdict!r}: use True, False or a Decision.")
        self._verdicts = dict(decisions)
        self._otherwise = otherwise
        self._lock = threading.Lock()

    def __call__(self, request: ApprovalRequest) -> Verdict | Awaitable[Verdict]:
        """Return the decision on a call."""
        with self._lock:
            waiting = self._pending.get(request.call.id)
            verdict = self._verdicts.pop(request.call.id, None)
        if waiting is None:
            return self._delegate(request, Decision.defer("The run was paused before, and has no other approver."))
        if not _is_rejection(verdict) and waiting.digest != request.digest:
            return self._delegate(request, Decision.defer("The tool or the call has changed since it was shown."))
        return Decision.defer(waiting.reason) if verdict is None else verdict

    def _delegate(self, request: ApprovalRequest, verdict: Verdict) -> Verdict | Awaitable[Verdict]:
        return verdict if self._otherwise is None else self._otherwise(request)


def _is_rejection(verdict: Verdict | None) -> bool:
    return verdict is False or (isinstance(verdict, Decision) and not verdict.approved and verdict.refusal != "defer")


def explain_unknown_call(call_id: str, pending: Iterable[str]) -> str:
    """Return why a decision on a call is refused; `pending` are the ids of the calls that wait for one."""
    return f"No call {call_id!r:.100} waits for a decision; these do: {', '.join(pending) or 'none'}."
