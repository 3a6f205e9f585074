"""Does somebody agree that this call runs? Asked with the validated arguments, the ones that will be used.

A run without an approver refuses the calls that need one, by their tool's own word, and asks about no other. A run with
one asks it about every call; the policies in `approvers` are approvers that ask another one only sometimes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

from toolkit._concurrency.backend import Door
from toolkit._concurrency.cancellation import Cancellation
from toolkit._context import ToolContext, unheard
from toolkit._messages import PendingApproval, ToolCall
from toolkit._schema.json_text import escaped
from toolkit._tools.tool import Tool
from toolkit.digests import digest_of
from toolkit.errors import Denied, TimedOut, ToolkitError
from toolkit.events import ApprovalNeeded
from toolkit.gates import Unanswered, ask, because, guarded
from toolkit.screen import shown

REJECTED = "Tool execution was rejected by the user."
INCOMPLETE = "Tool approval could not be completed; the tool was not run."
NO_APPROVER = (
    "Tool approval could not be completed because no approval handler is configured; "
    "continuing without running the tool."
)


@dataclass(frozen=True)
class ApprovalRequest:
    """One call that waits for a yes; as a text, its name and its arguments, with nothing hidden.

    Attributes:
        arguments: Typed values, as the tool will get them; each look gives a copy.
        context: As the tool will get it; its `cancelled` says whether an answer is still awaited.
        required: Whether the tool's own `approve=` asks for somebody's yes.
        tell: Takes what the run's events shall say of the call.
    """

    tool: Tool[..., Any]
    arguments: Mapping[str, Any]
    context: ToolContext[Any]
    call: ToolCall = field(default=ToolCall(name=""), compare=False)
    required: bool = field(default=False, compare=False)
    tell: Callable[[ApprovalNeeded], object] = field(default=unheard, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", guarded(self.arguments))

    def __str__(self) -> str:
        return f"{self.name}({self.arguments_json})"

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name

    @cached_property
    def digest(self) -> str:
        """What a yes is bound to: the run, the call, the tool as it is now, the arguments.

        Raises:
            TypeError: An argument is nothing that could be told from others, such as an iterator.
        """
        return digest_of(self.tool, self.arguments, self.call, self.context.run_id)

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON, whatever their types, with invisible and misleading characters as escapes."""
        return shown(self.arguments)

    def pending(self, reason: str = "") -> PendingApproval:
        """Write the request as plain data, for people elsewhere.

        Raises:
            TypeError: As above.
        """
        return PendingApproval(
            call=self.call,
            digest=self.digest,
            arguments=self.arguments_json,
            title=escaped(self.tool.title or ""),
            effect=self.tool.settings.effect or "",
            reason=reason,
        )

    def announce(self) -> None:
        """Tell by the run's events that somebody is asked now."""
        self.tell(ApprovalNeeded(self.pending()))


@dataclass(frozen=True)
class Decision:
    """An approver's answer.

    Attributes:
        approved: Whether the call runs; True and nothing else is a yes.
        reason: Why not; the model sees it.
        arguments: Others than the model's, with which the call runs; they pass validation and authorization.
        refusal: What a no means: the model is told, or the run is paused until there is an answer, or it ends.

    Raises:
        ValueError: It contradicts itself.
    """

    approved: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    refusal: Literal["reject", "defer", "stop"] = "reject"

    def __post_init__(self) -> None:
        rules = {
            "approved is True or False": isinstance(self.approved, bool),
            "refusal is reject, defer or stop": self.refusal in ("reject", "defer", "stop"),
            "a yes has no refusal": not self.approved or self.refusal == "reject",
            "arguments are a mapping": self.arguments is None or isinstance(self.arguments, Mapping),
            "a no has no arguments": self.approved or self.arguments is None,
        }
        for rule, is_kept in rules.items():
            if not is_kept:
                raise ValueError(f"{self!r} is no decision: {rule}.")

    @classmethod
    def approve(cls) -> Decision:
        """Let the call run."""
        return cls(approved=True)

    @classmethod
    def modify(cls, arguments: Mapping[str, Any]) -> Decision:
        """Let the call run with other arguments: all of them, as the model would write them."""
        return cls(approved=True, arguments=arguments)

    @classmethod
    def reject(cls, reason: str = "") -> Decision:
        """Answer the call with a refusal; the run goes on."""
        return cls(approved=False, reason=reason)

    @classmethod
    def defer(cls, reason: str = "") -> Decision:
        """Pause the run until somebody has decided; `Runner.resume` goes on."""
        return cls(approved=False, reason=reason, refusal="defer")

    @classmethod
    def stop(cls, reason: str = "") -> Decision:
        """Refuse the call and end the run."""
        return cls(approved=False, reason=reason, refusal="stop")


# True, False or a Decision; anything else is a no. After an exception the call does not run, either.
Verdict: TypeAlias = bool | Decision
Approver: TypeAlias = Callable[[ApprovalRequest], Verdict | Awaitable[Verdict]]


class Deferred(ToolkitError):
    """A call waits for somebody's yes; it leaves the line of the call, middleware included.

    Attributes:
        pending: What waits.
    """

    def __init__(self, pending: PendingApproval) -> None:
        super().__init__(pending)
        self.pending = pending


class Stopped(ToolkitError):
    """Whoever was asked for approval ends the run; the message says why, where they did."""


async def approve(
    approver: Approver | None, request: ApprovalRequest, door: Door, timeout: float | None = None
) -> Decision:
    """Let a call pass or not; give the decision that let it pass.

    The answer has `timeout` seconds, by default as long as the run. A late one is none.

    Raises:
        Denied: The approver said no, or gave an answer that is neither True nor an approving Decision.
        Unanswered: It raised, or gave no answer in time; or there is none, and the tool asks for one.
        Deferred: The approver put the decision off.
        Stopped: The approver ends the run.
        Cancelled: The run was cancelled first.
    """
    request = replace(request, required=await _is_required(request, door))
    if approver is None and request.required:
        raise Unanswered(NO_APPROVER)
    if approver is None:
        return Decision.approve()
    decision = await _decision(approver, request, door, timeout)
    if decision.approved is not True:
        raise _refused(decision, request)
    return decision


async def _is_required(request: ApprovalRequest, door: Door) -> bool:
    """Ask the tool itself; only a plain False is a no."""
    rule = request.tool.settings.approve
    if not callable(rule):
        return rule
    until = Cancellation(parent=request.context.cancellation)
    try:
        return await ask(rule, (request,), door, until) is not False
    except Denied:
        return True
    finally:
        until.close()


async def _decision(approver: Approver, request: ApprovalRequest, door: Door, timeout: float | None) -> Decision:
    run = request.context.cancellation
    until = Cancellation(timeout, parent=run)
    request = replace(request, context=replace(request.context, cancellation=until))
    try:
        verdict = await ask(approver, (request,), door, until)
    except Denied as refusal:
        raise _not_approved(refusal) from refusal.__cause__
    except TimedOut:
        if timeout is None or run:  # it is not the approver's time that is up
            raise
        raise Unanswered(f"Tool approval timed out after {timeout:g} s.") from None
    finally:
        until.cancel()  # an approver that is still at work need not be
        until.close()
    return verdict if type(verdict) is Decision else Decision(approved=verdict is True)


def _not_approved(refusal: Denied) -> Denied:
    """Say who refuses: whoever raised it, or nobody."""
    return Unanswered(INCOMPLETE) if isinstance(refusal, Unanswered) else Denied(REJECTED + because(str(refusal)))


def _refused(decision: Decision, request: ApprovalRequest) -> ToolkitError:
    if decision.refusal == "defer":
        return _deferred(decision, request)
    if decision.refusal == "stop":
        return Stopped(decision.reason)
    return Denied(REJECTED + because(decision.reason))


def _deferred(decision: Decision, request: ApprovalRequest) -> ToolkitError:
    try:
        return Deferred(request.pending(decision.reason))
    except Exception as error:  # noqa: BLE001  taking values apart runs the code of their classes
        refusal = Unanswered(f"{INCOMPLETE} Reason: the decision cannot wait: the arguments cannot be written down.")
        refusal.__cause__ = error
        return refusal
