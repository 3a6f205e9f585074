"""The gates of a call: authorizers say whether it may be made, approvers whether a person or a policy agrees.

Gates get copies of the arguments. A call runs only if each gate allows it: any other answer, a late answer or an
exception refuses it.

Without an approver, calls whose tool requires approval are refused and all others run. An approver is asked about every
call; the policies in `toolkit.approvers` are approvers that ask another approver about some calls only.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from inspect import ismethod
from operator import attrgetter
from typing import Any, TypeVar

from toolkit._concurrency.backend import Backend, call_function
from toolkit._concurrency.cancellation import DEADLINE, Cancellation, cancellation_error
from toolkit._execution.approval import Approver, Authorizer, Decision, Deferred, Deny, Stopped, make_decision
from toolkit._execution.approval_request import MASK, ApprovalRequest
from toolkit._messages import ToolCall
from toolkit._options import get_short_traceback
from toolkit._schema.json_text import to_json_text
from toolkit.errors import Denied, InvalidArguments

logger = logging.getLogger("toolkit")

T = TypeVar("T")

DENIED = "Tool execution was denied by authorization policy."
FAILED = 'Tool execution failed: tool authorization error for "{}": {}; the tool was not run.'
REJECTED = "Tool execution was rejected by the user."
DISAGREED = f"{REJECTED} Reason: The approvers do not agree on the arguments."
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


@dataclass(frozen=True, kw_only=True)
class Gates:
    """The authorizers and approvers of a run. A call needs all of them, with the arguments that run.

    Attributes:
        authorizers: Decide whether a call may be made.
        approvers: Asked for approval in this order.
        no_approver: Text of the refusal if a tool requires approval and there is no approver.
        timeout: Seconds for an answer; None waits as long as the run takes.
        hold: Gets the request of each call that has passed the gates. The call then waits and does not run.
        passed: Digest of a call that has passed the gates already. They are not asked again unless it has changed.
        approved: Digests of calls by id that were approved before the run paused: those of sub-agents that have waited.
            They go on, although they have started, and only authorizers are asked again.
        resumed: Asked instead of `approvers` after a pause: the decisions, then the approvers of the runs above.
    """

    authorizers: tuple[Authorizer, ...] = ()
    approvers: tuple[Approver, ...] = ()
    no_approver: str = NO_APPROVER
    timeout: float | None = None
    hold: Callable[[ApprovalRequest], None] | None = None
    passed: str = ""
    approved: Mapping[str, str] = field(default_factory=dict)
    resumed: tuple[Approver, ...] = ()

    async def ask(
        self,
        make_request: Callable[[dict[str, Any], ToolCall], ApprovalRequest],
        arguments: dict[str, Any],
        call: ToolCall,
        backend: Backend,
    ) -> tuple[dict[str, Any], ToolCall]:
        """Ask each gate about a call, and return the arguments to run with, and the call with them as JSON.

        Raises:
            Denied: A gate refused the call, or did not answer.
            InvalidArguments: An approver's arguments are not valid.
            Deferred: The call waits for a decision, or is held.
            Stopped: An approver ends the run.
            TimedOut, Cancelled: The run ended first.
        """
        request = make_request(arguments, call)
        if self.passed and self.passed == request.digest:
            return arguments, call

        await self.authorize(request, backend)
        if call.id in self.approved and self.approved[call.id] == request.digest:
            return arguments, call

        approvers = self.resumed or self.approvers
        for number, approver in enumerate(approvers or (None,)):
            request = make_request(arguments, call)  # made again: the approver before may have read foreign content
            decision = await self.approve(approver, request, backend)
            if decision.arguments is not None:
                call = replace(call, arguments=to_json_text(_merge_arguments(request, decision.arguments)))
                arguments, _ = request.tool._invocation.parser.parse(call.arguments)
                await self.authorize(make_request(arguments, call), backend)
                for earlier in approvers[:number]:  # they have approved other arguments
                    decision = await self.approve(earlier, make_request(arguments, call), backend)
                    if decision.arguments is not None:
                        raise Rejected(DISAGREED)

        if self.hold is not None:
            request = make_request(arguments, call)
            self.hold(request)
            raise Deferred(request.to_pending())
        return arguments, call

    def join(self, above: Gates) -> Gates:
        """Return these gates and those of the runs above. A function that both have is asked once."""
        return replace(
            self,
            authorizers=(*list_new(self.authorizers, above.authorizers), *above.authorizers),
            approvers=(*list_new(self.approvers, above.approvers), *above.approvers),
            timeout=above.timeout if self.timeout is None else self.timeout,
        )

    async def authorize(self, request: ApprovalRequest, backend: Backend) -> None:
        """Ask each authorizer about a call, and the tool's own.

        Raises:
            Denied: An authorizer did not return True. An answer that is neither a bool nor a Deny is logged.
            Unanswered: An authorizer raised, or did not answer in time.
            TimedOut, Cancelled: The run ended first.
        """
        for authorizer in (*self.authorizers, request.tool.settings.authorize):
            if authorizer is not None:
                await self._ask_authorizer(authorizer, request, backend)

    async def _ask_authorizer(self, authorizer: Callable[..., Any], request: ApprovalRequest, backend: Backend) -> None:
        verdict = await self._call(authorizer, request, backend, attrgetter("tool", "arguments", "context"))
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

    async def approve(self, approver: Approver | None, request: ApprovalRequest, backend: Backend) -> Decision:
        """Ask the tool's own rule and one approver about a call. Return the decision that approves it.

        Raises:
            Denied: The tool's own rule raised it.
            Rejected: The approver rejected the call.
            Unanswered: The approver raised, did not answer in time, was unavailable, or returned neither a bool nor a
                Decision; or there is none, and the tool requires approval.
            Deferred: The approver deferred the decision.
            Stopped: The approver ends the run.
            TimedOut, Cancelled: The run ended first.
        """
        rule = request.tool.settings.approve
        required = rule is True
        if callable(rule):
            answer = await self._call(rule, request, backend)
            if isinstance(answer, Denied) and not isinstance(answer, Late):
                raise Denied(DENIED + _format_reason(str(answer))) from answer.__cause__
            required = answer is not False  # also if it failed, or did not answer in time

        if approver is None:
            if required:
                raise Unanswered(self.no_approver)
            return Decision.approve()

        request = replace(request, required=required)
        decision = await self._ask_approver(approver, request, backend)
        if decision.approved is True:
            return decision

        reason = decision.reason if isinstance(decision.reason, str) else ""
        if decision.refusal == "defer":
            raise Deferred(request.to_pending(reason))
        if decision.refusal == "stop":
            raise Stopped(reason)
        if decision.refusal == "unavailable":
            raise Unanswered(INCOMPLETE + _format_reason(reason))
        raise Rejected(REJECTED + _format_reason(reason))

    async def _ask_approver(self, approver: Approver, request: ApprovalRequest, backend: Backend) -> Decision:
        verdict = await self._call(approver, request, backend)
        if type(verdict) in (Decision, bool):
            return make_decision(verdict)

        match verdict:
            case Late():
                raise Late(f"Tool approval timed out after {self.timeout:g} s.")
            case Denied():
                raise Rejected(REJECTED + _format_reason(str(verdict))) from verdict.__cause__
            case Exception():
                raise Unanswered(INCOMPLETE) from verdict

        kind = type(verdict).__name__
        logger.error("The approver %r returned a %s, not a bool or Decision: the call is refused.", approver, kind)
        raise Unanswered(INCOMPLETE)

    async def _call(
        self,
        gate: Callable[..., Any],
        request: ApprovalRequest,
        backend: Backend,
        list_arguments: Callable[[ApprovalRequest], tuple[Any, ...]] = lambda request: (request,),
    ) -> Any:
        """Call a gate, and return its answer, or the exception that it raised, or `Late` if it did not answer in time.

        Without a timeout a sync gate runs on the calling thread. `list_arguments` makes its arguments from the request,
        whose context is cancelled as soon as the answer is no longer needed.

        Raises:
            TimedOut, Cancelled: The run ended first.
        """
        context = request.context
        with Cancellation(self.timeout, parent=context.cancellation) as cancellation:
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
            trace = get_short_traceback(answer)
            logger.error("The gate %r raised, so it does not allow the call.", gate, exc_info=trace)
        return answer


def list_new(own: Iterable[T], above: tuple[T, ...]) -> tuple[T, ...]:
    """List the functions of a run that the runs above do not have. Only methods are compared by equality."""
    return tuple(
        each for each in own if not any(each is other or (ismethod(each) and each == other) for other in above)
    )


def _format_reason(reason: object) -> str:
    return f" Reason: {reason}" if isinstance(reason, str) and reason.strip() else ""


def _merge_arguments(request: ApprovalRequest, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Merge an approver's arguments into the model's. Unchanged arguments stay as the model wrote them.

    Raises:
        InvalidArguments: An argument with a secret was changed, and the secret's value is not known; or a key of
            `request.arguments` stands for another key that the model wrote.
    """
    written = request.tool._invocation.parser.parse_document(request.call.arguments)
    shown = json.loads(request.arguments_json)
    known = {*written, *request.tool.parameters.get("properties", ())}
    has_removed = bool(written.keys() - arguments.keys())
    merged = {}

    for name, value in arguments.items():
        is_same = any(name in each and each[name] == value for each in (request.arguments, shown))
        if not is_same and f'"{MASK}"' in to_json_text({name: value}):
            raise InvalidArguments(f"{name}: the approver changed it, and was not shown a secret in it.")
        if is_same and has_removed and name not in known:
            raise InvalidArguments(f"{name}: the approver gave it, and the tool's schema has no such key.")
        if not is_same:
            merged[name] = value
        elif name in written:  # any other is a default, which the tool adds again
            merged[name] = written[name]

    return merged
