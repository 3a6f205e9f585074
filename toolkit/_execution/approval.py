"""Does somebody agree that this call runs? Asked with the validated arguments, the ones that will be used.

A run without an approver refuses the calls that need one, by their tool's own word, and asks about no other. A run with
one asks it about every call; the policies in `approvers` are approvers that ask another one only sometimes.

What a yes is bound to: a text for each value that is the same in every process, and the digest of a call.

Equal values are written alike, whatever the order of their sets and keys; values of different types are not. What is
no plain data is written as pickle takes it apart: its class, by name, and what it is made of.

Values as people are shown them before they say yes: nothing hidden, nothing that looks like something else.

Decisions that were made while a run was paused: each is for one call, as it was shown, and for one time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import BuiltinFunctionType, FunctionType
from typing import Any, Literal, TypeAlias

from pydantic_core import to_jsonable_python

from toolkit._concurrency.backend import Backend
from toolkit._concurrency.cancellation import Cancellation
from toolkit._context import ToolContext, discard
from toolkit._execution.authorization import Unanswered, ask_gate, format_reason, view_arguments
from toolkit._messages import PendingApproval, ToolCall
from toolkit._schema.json_text import escape_confusable
from toolkit._tools.tool import Tool
from toolkit.errors import ApprovalError, Denied, TimedOut, ToolkitError
from toolkit.events import ApprovalNeeded

_PLAIN = frozenset({str, int, float, bool, type(None)})
_NAMED = (type, FunctionType, BuiltinFunctionType)


def digest_call(tool: Tool[..., Any], values: Mapping[str, Any], call: ToolCall, run_id: str) -> str:
    """Say in 64 hexadecimal digits which call this is: of which run, of which tool as it is now, with which values.

    Raises:
        TypeError: A value is nothing that could be told from others, such as an iterator.
    """
    return _hash([run_id, call.id, digest_definition(tool), _omit_generated(tool, values, call), *call.imports])


def _omit_generated(tool: Tool[..., Any], values: Mapping[str, Any], call: ToolCall) -> dict[str, Any]:
    """Leave out what the tool itself makes anew each time: a default that no schema can show."""
    shown, needed = tool.parameters["properties"], tool.parameters.get("required", ())
    made = {name for name in values if name in shown and name not in needed and "default" not in shown[name]}
    if made:
        made -= tool._invocation.reader.parse_document(call.arguments).keys()
    return {name: value for name, value in values.items() if name not in made}


def digest_definition(tool: Tool[..., Any]) -> str:
    """Say in 64 hexadecimal digits which tool this is: its name, where it comes from, and what it says of itself."""
    return _hash([tool.name, tool.origin, tool.description, tool.parameters, tool.settings.effect])


def canonicalize(value: Any) -> str:
    """Write a value.

    Raises:
        TypeError: It cannot be told from others.
    """
    kind = type(value)
    if kind in _PLAIN:
        return json.dumps(value)
    if kind in (list, tuple):
        return f"{kind.__name__}[{','.join(map(canonicalize, value))}]"
    if kind in (dict, set, frozenset):
        return f"{kind.__name__}{{{_join_sorted(value)}}}"
    if kind in (bytes, bytearray):
        return f"{kind.__name__}'{value.hex()}'"
    if isinstance(value, _NAMED):
        return f"<{value.__module__}.{value.__qualname__}>"
    return _canonicalize_object(value)


def _join_sorted(values: Mapping[Any, Any] | Iterable[Any]) -> str:
    if isinstance(values, Mapping):
        return ",".join(sorted(f"{canonicalize(key)}:{canonicalize(value)}" for key, value in values.items()))
    return ",".join(sorted(map(canonicalize, values)))


def _canonicalize_object(value: Any) -> str:
    reduced = value.__reduce_ex__(2)
    if isinstance(reduced, str):
        return f"<{type(value).__module__}.{reduced}>"
    made_by, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    if isinstance(value, (set, frozenset)):
        arguments = (type(value), set(value))
    parts = [made_by, arguments, _omit_generated_fields(value, state), items and list(items), pairs and dict(pairs)]
    return f"({','.join(map(canonicalize, parts))})"


def _omit_generated_fields(value: Any, state: Any) -> Any:
    """Leave out of a model's state what its class makes anew each time: pydantic says which fields were given."""
    given = getattr(value, "__pydantic_fields_set__", None)
    if given is None or type(state) is not dict or "__dict__" not in state:
        return state
    made = {name for name, field in type(value).__pydantic_fields__.items() if field.default_factory} - given
    return {**state, "__dict__": {name: held for name, held in state["__dict__"].items() if name not in made}}


def _hash(value: Any) -> str:
    import hashlib  # it takes longer to load than all that is here

    return hashlib.sha256(canonicalize(value).encode("utf-8", "surrogatepass")).hexdigest()


def render_arguments(values: Mapping[str, Any], indent: int | None = None) -> str:
    """Write arguments as JSON, with whatever is unseen, or looks like a Latin letter beside one, as an escape.

    A reader of JSON gets the same values from it as without the escapes.
    """
    plain = {name: _to_plain(value) for name, value in values.items()}
    return escape_confusable(json.dumps(plain, ensure_ascii=False, indent=indent), keep="\n")


def shorten_middle(text: str, most: int) -> str:
    """Cut the middle out of a long text, and say so, with what tells the whole one from others."""
    if len(text) <= most:
        return text
    import hashlib  # as in `digests`

    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    note = f"\n... {len(text) - most:,} of {len(text):,} characters are not shown here; SHA-256 of all: {digest} ...\n"
    return text[: most - most // 4] + note + text[len(text) - most // 4 :]


def _to_plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=canonicalize)
    return to_jsonable_python(value, bytes_mode="base64", fallback=repr)


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
    emit: Callable[[ApprovalNeeded], object] = field(default=discard, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", view_arguments(self.arguments))

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
        return digest_call(self.tool, self.arguments, self.call, self.context.run_id)

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON, whatever their types, with invisible and misleading characters as escapes."""
        return render_arguments(self.arguments)

    def to_pending(self, reason: str = "") -> PendingApproval:
        """Write the request as plain data, for people elsewhere.

        Raises:
            TypeError: As above.
        """
        return PendingApproval(
            call=self.call,
            digest=self.digest,
            arguments=self.arguments_json,
            title=escape_confusable(self.tool.title or ""),
            effect=self.tool.settings.effect or "",
            reason=reason,
        )

    def announce(self) -> None:
        """Tell by the run's events that somebody is asked now."""
        self.emit(ApprovalNeeded(self.to_pending()))


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
    approver: Approver | None, request: ApprovalRequest, backend: Backend, timeout: float | None = None
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
    request = replace(request, required=await _is_required(request, backend))
    if approver is None and request.required:
        raise Unanswered(NO_APPROVER)
    if approver is None:
        return Decision.approve()
    decision = await _get_decision(approver, request, backend, timeout)
    if decision.approved is not True:
        raise _build_refusal(decision, request)
    return decision


async def _is_required(request: ApprovalRequest, backend: Backend) -> bool:
    """Ask the tool itself; only a plain False is a no."""
    rule = request.tool.settings.approve
    if not callable(rule):
        return rule
    cancellation = Cancellation(parent=request.context.cancellation)
    try:
        return await ask_gate(rule, (request,), backend, cancellation) is not False
    except Denied:
        return True
    finally:
        cancellation.close()


async def _get_decision(
    approver: Approver, request: ApprovalRequest, backend: Backend, timeout: float | None
) -> Decision:
    run = request.context.cancellation
    cancellation = Cancellation(timeout, parent=run)
    request = replace(request, context=replace(request.context, cancellation=cancellation))
    try:
        verdict = await ask_gate(approver, (request,), backend, cancellation)
    except Denied as refusal:
        raise _explain_refusal(refusal) from refusal.__cause__
    except TimedOut:
        if timeout is None or run:  # it is not the approver's time that is up
            raise
        raise Unanswered(f"Tool approval timed out after {timeout:g} s.") from None
    finally:
        cancellation.cancel()  # an approver that is still at work need not be
        cancellation.close()
    return verdict if type(verdict) is Decision else Decision(approved=verdict is True)


def _explain_refusal(refusal: Denied) -> Denied:
    """Say who refuses: whoever raised it, or nobody."""
    return Unanswered(INCOMPLETE) if isinstance(refusal, Unanswered) else Denied(REJECTED + format_reason(str(refusal)))


def _build_refusal(decision: Decision, request: ApprovalRequest) -> ToolkitError:
    if decision.refusal == "defer":
        return _build_deferral(decision, request)
    if decision.refusal == "stop":
        return Stopped(decision.reason)
    return Denied(REJECTED + format_reason(decision.reason))


def _build_deferral(decision: Decision, request: ApprovalRequest) -> ToolkitError:
    try:
        return Deferred(request.to_pending(decision.reason))
    except Exception as error:  # noqa: BLE001  taking values apart runs the code of their classes
        refusal = Unanswered(f"{INCOMPLETE} Reason: the decision cannot wait: the arguments cannot be written down.")
        refusal.__cause__ = error
        return refusal


class RecordedDecisions:
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
        _check_decisions(decisions, self._waiting)
        self._verdicts = dict(decisions)
        self._otherwise = otherwise
        self._lock = threading.Lock()

    def __call__(self, request: ApprovalRequest) -> Verdict | Awaitable[Verdict]:
        """Answer for one call."""
        with self._lock:
            waiting = self._waiting.get(request.call.id)
            verdict = self._verdicts.pop(request.call.id, None)
        if waiting is None:
            return self._delegate(request, Decision.defer("The run was paused once, and nobody else is there to ask."))
        if not _is_rejection(verdict) and waiting.digest != request.digest:
            return self._delegate(request, Decision.defer("The tool or the call has changed since it was shown."))
        return Decision.defer(waiting.reason) if verdict is None else verdict

    def _delegate(self, request: ApprovalRequest, verdict: Verdict) -> Verdict | Awaitable[Verdict]:
        return verdict if self._otherwise is None else self._otherwise(request)


def _is_rejection(verdict: Verdict | None) -> bool:
    return verdict is False or (isinstance(verdict, Decision) and not verdict.approved and verdict.refusal != "defer")


def _check_decisions(decisions: Mapping[str, Verdict], waiting: Mapping[str, PendingApproval]) -> None:
    unknown = next((call_id for call_id in decisions if call_id not in waiting), None)
    if unknown is not None:
        known = ", ".join(waiting) or "none"
        raise ApprovalError(f"No call {unknown!r} waits for a decision; these do: {known}.")
    for call_id, verdict in decisions.items():
        if not isinstance(verdict, (bool, Decision)):
            raise ApprovalError(f"The decision on {call_id!r} is {verdict!r}: give True, False or a Decision.")
