"""Approval of a call: the request, the decision, and the digest that binds one to the other.

Without an approver, calls whose tool requires approval are refused and all others run. An approver is asked about every
call; the policies in `toolkit.approvers` are approvers that ask another one only sometimes.

The digest is equal for equal calls in every process, whatever the order of sets and keys, and differs for values of
different types. A value that is not plain data is written as pickle reduces it: its class, by name, and its parts.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from dataclasses import fields as fields_of
from enum import Enum
from functools import cached_property
from types import BuiltinFunctionType, FunctionType
from typing import Any, Literal, TypeAlias

from pydantic_core import to_jsonable_python

from toolkit._concurrency.backend import Backend
from toolkit._concurrency.cancellation import Cancellation
from toolkit._context import ToolContext, discard
from toolkit._execution.authorization import Late, Unanswered, ask_gate, format_reason, view_arguments
from toolkit._messages import PendingApproval, ToolCall
from toolkit._options import check_methods
from toolkit._schema.json_text import escape_confusable
from toolkit._tools.handlers import Handler
from toolkit._tools.tool import Tool, find_instance
from toolkit.errors import ApprovalError, Denied, TimedOut, ToolkitError
from toolkit.events import ApprovalNeeded

logger = logging.getLogger("toolkit")

# Increased when the digest covers something else. A saved approval of another version is asked for again.
DIGEST_VERSION = 1

REJECTED = "Tool execution was rejected by the user."
INCOMPLETE = "Tool approval could not be completed; the tool was not run."
NO_APPROVER = (
    "Tool approval could not be completed because no approval handler is configured; "
    "continuing without running the tool."
)

_PLAIN = frozenset({str, int, float, bool, type(None)})
_BASES: Mapping[type, Callable[[Any], Any]] = {str: str.__str__, int: int.__index__, float: float.__float__}
# Modules whose values pydantic writes as JSON itself, without a serializer of their classes.
_STANDARD = frozenset({"builtins", "pydantic", "pydantic_core", *sys.stdlib_module_names})
_NAMED = (type, FunctionType, BuiltinFunctionType)


@dataclass(frozen=True)
class ApprovalRequest:
    """A call to be approved; as text, its name and its arguments, with nothing hidden.

    Attributes:
        tool: The tool.
        arguments: Typed values, as the tool will get them; each access returns a copy.
        context: The context that the tool will get; `cancelled` once no answer is awaited any more.
        call: The call as the model wrote it.
        required: Whether the tool's own `approve=` requires approval.
        emit: Adds an event to those of the run.
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
        """Identifies what is approved: the run, the call, the tool's definition, the arguments.

        Raises:
            TypeError: An argument cannot be compared by value, such as an iterator.
        """
        return digest_call(self.tool, self.arguments, self.call, self.context.run_id)

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON, with invisible and misleading characters as escapes."""
        return render_arguments(self.arguments)

    def to_pending(self, reason: str = "") -> PendingApproval:
        """Return the request as plain data.

        Raises:
            TypeError: An argument cannot be compared by value, such as an iterator.
        """
        return PendingApproval(
            call=self.call,
            digest=self.digest,
            arguments=self.arguments_json,
            title=escape_confusable(self.tool.title or ""),
            effect=self.tool.settings.effect or "",
            reason=reason,
            source=escape_confusable(self.tool.origin),
        )

    def announce(self) -> None:
        """Emit `ApprovalNeeded` with the request."""
        self.emit(ApprovalNeeded(self.to_pending()))


@check_methods()
@dataclass(frozen=True)
class Decision:
    """An approver's answer.

    Attributes:
        approved: Whether the call runs.
        reason: Reason for a rejection; the model sees it.
        arguments: Arguments that replace the model's; they are validated and authorized again.
        refusal: What comes instead: `reject` answers the call and the run goes on, `defer` pauses the run, `stop` ends
            it, `unavailable` answers the call: nobody could be asked.

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
        """Run the call with other arguments: all of them, as the model would write them."""
        return cls(approved=True, arguments=arguments)

    @classmethod
    def reject(cls, reason: str = "") -> Decision:
        """Refuse the call; the run goes on."""
        return cls(approved=False, reason=reason)

    @classmethod
    def defer(cls, reason: str = "") -> Decision:
        """Pause the run; `Runner.resume` goes on once there is a decision."""
        return cls(approved=False, reason=reason, refusal="defer")

    @classmethod
    def unavailable(cls, reason: str = "") -> Decision:
        """Refuse the call, since nobody could be asked; the run goes on."""
        return cls(approved=False, reason=reason, refusal="unavailable")

    @classmethod
    def stop(cls, reason: str = "") -> Decision:
        """Refuse the call and end the run."""
        return cls(approved=False, reason=reason, refusal="stop")


# True, False or a Decision; anything else, and an exception, refuses the call.
Verdict: TypeAlias = bool | Decision
Approver: TypeAlias = Callable[[ApprovalRequest], Verdict | Awaitable[Verdict]]


class Deferred(ToolkitError):
    """A call waits for approval; leaves the pipeline of the call, middleware included.

    Attributes:
        pending: The approval that is awaited.
    """

    def __init__(self, pending: PendingApproval) -> None:
        super().__init__(pending)
        self.pending = pending


class Rejected(Denied):
    """An approver rejected the call."""

    kind = "rejected"


class Stopped(ToolkitError):
    """An approver ended the run; the message is its reason."""


async def approve(
    approver: Approver | None,
    request: ApprovalRequest,
    backend: Backend,
    timeout: float | None = None,
    no_approver: str = NO_APPROVER,
) -> Decision:
    """Return the decision that approves a call.

    The tool's own rule and the approver have `timeout` seconds each, by default as long as the run takes. A late answer
    does not count.

    Raises:
        Rejected: The approver rejected the call.
        Unanswered: The approver raised, did not answer in time, could ask nobody, or returned neither a bool nor a
            Decision; or there is none, and the tool requires approval.
        Deferred: The approver deferred the decision.
        Stopped: The approver ends the run.
        Cancelled: The run was cancelled first.
    """
    request = replace(request, required=await _is_required(request, backend, timeout))
    if approver is None and request.required:
        raise Unanswered(no_approver)
    if approver is None:
        return Decision.approve()
    decision = await _get_decision(approver, request, backend, timeout)
    if decision.approved is True:
        return decision
    if decision.refusal == "defer":
        raise _build_deferral(decision, request)
    if decision.refusal == "stop":
        raise Stopped(decision.reason)
    if decision.refusal == "unavailable":
        raise Unanswered(INCOMPLETE + format_reason(decision.reason))
    raise Rejected(REJECTED + format_reason(decision.reason))


async def _is_required(request: ApprovalRequest, backend: Backend, timeout: float | None) -> bool:
    """Ask the tool's own rule; one that fails, or does not answer in time, requires approval."""
    rule, run_cancellation = request.tool.settings.approve, request.context.cancellation
    if not callable(rule):
        return rule
    cancellation = Cancellation(timeout, parent=run_cancellation)
    try:
        return await ask_gate(rule, (request,), backend, cancellation) is not False
    except Denied:
        return True
    except TimedOut:
        if timeout is None or run_cancellation:  # the run's time is up, not the rule's
            raise
        return True
    finally:
        cancellation.close()


async def _get_decision(
    approver: Approver, request: ApprovalRequest, backend: Backend, timeout: float | None
) -> Decision:
    run_cancellation = request.context.cancellation
    cancellation = Cancellation(timeout, parent=run_cancellation)
    request = replace(request, context=replace(request.context, cancellation=cancellation))
    try:
        verdict = await ask_gate(approver, (request,), backend, cancellation)
    except Unanswered as failure:
        raise Unanswered(INCOMPLETE) from failure.__cause__
    except Denied as refusal:
        raise Rejected(REJECTED + format_reason(str(refusal))) from refusal.__cause__
    except TimedOut:
        if timeout is None or run_cancellation:  # the run's time is up, not the approver's
            raise
        raise Late(f"Tool approval timed out after {timeout:g} s.") from None
    finally:
        cancellation.cancel()  # ends an approver that is still running
        cancellation.close()
    if type(verdict) not in (Decision, bool):
        kind = type(verdict).__name__
        logger.error("The approver %r returned a %s, no bool and no Decision: the call is refused.", approver, kind)
        raise Unanswered(INCOMPLETE)
    return verdict if isinstance(verdict, Decision) else Decision(approved=verdict)


def _build_deferral(decision: Decision, request: ApprovalRequest) -> ToolkitError:
    try:
        return Deferred(request.to_pending(decision.reason))
    except Exception as error:  # noqa: BLE001  reducing values runs the code of their classes
        refusal = Unanswered(f"{INCOMPLETE} Reason: the decision cannot wait: the arguments cannot be saved.")
        refusal.__cause__ = error
        return refusal


class RecordedDecisions:
    """An approver with decisions made while a run was paused, each for one call, once, if the call is unchanged.

    A rejection holds even if its call has changed.

    Args:
        decisions: Verdicts by call id. A pending call without one stays pending.
        pending: The pending calls.
        otherwise: Approver for calls that have changed since, and for all later ones. Without it they are deferred: a
            run that was gated stays gated.

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
                known = ", ".join(self._pending) or "none"
                raise ApprovalError(f"No call {call_id!r:.100} waits for a decision; these do: {known}.")
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


def digest_call(tool: Tool[..., Any], arguments: Mapping[str, Any], call: ToolCall, run_id: str) -> str:
    """Return the SHA-256 of a call: its run, its id, its tool's definition and its arguments.

    Raises:
        TypeError: An argument cannot be compared by value, such as an iterator.
    """
    module, definition = _get_module(tool), digest_definition(tool)
    return _hash([run_id, call.id, definition, _omit_generated(tool, arguments, call), *call.imports], module)


def _omit_generated(tool: Tool[..., Any], arguments: Mapping[str, Any], call: ToolCall) -> dict[str, Any]:
    """Leave out arguments that the tool generates anew each time: by a default that no schema can show."""
    properties, required = tool.parameters["properties"], tool.parameters.get("required", ())
    generated = {
        name for name in arguments if name in properties and name not in required and "default" not in properties[name]
    }
    if generated:
        generated -= tool._invocation.parser.parse_document(call.arguments).keys()
    return {name: value for name, value in arguments.items() if name not in generated}


def digest_definition(tool: Tool[..., Any]) -> str:
    """Return the SHA-256 of a tool's definition: name, function, description, parameters, effect, and what it reaches.

    The function counts by its qualified name without its module: a function in another file is still the same. What it
    reaches is the function that is bound to it, and the `identity` that its instance states, such as a directory.
    """
    function = tool.origin.removeprefix(f"{_get_module(tool)}.")
    reach = _get_reach(tool.handler)
    return _hash([DIGEST_VERSION, tool.name, function, tool.description, tool.parameters, tool.settings.effect, *reach])


def _get_reach(handler: Handler) -> list[str]:
    function = handler.function_handler
    if function is None:
        return []
    name = "" if function is handler else getattr(function.signature.source, "__qualname__", "")
    identity = getattr(find_instance(function), "identity", None)
    stated = "" if identity is None or callable(identity) else str(identity)
    return [name, stated] if name or stated else []


def _get_module(tool: Tool[..., Any]) -> str:
    """Return the module of a tool's function; empty for a tool without one."""
    signature = getattr(tool.handler.interface, "signature", None)
    return "" if signature is None else getattr(signature.source, "__module__", None) or "builtins"


def _hash(value: Any, module: str = "") -> str:
    import hashlib  # slower to load than this whole module

    return hashlib.sha256(canonicalize(value, module).encode("utf-8", "surrogatepass")).hexdigest()


def canonicalize(value: Any, module: str = "") -> str:
    """Return a text that is equal for equal values only.

    Args:
        value: Any value that pickles.
        module: The module whose classes and functions are written without it, so that it can be renamed.

    Raises:
        TypeError: The value cannot be compared by value, such as an iterator.
    """
    kind = type(value)
    if kind in _PLAIN:
        return json.dumps(value)
    if kind in (list, tuple):
        return f"{kind.__name__}[{','.join(canonicalize(item, module) for item in value)}]"
    if kind in (dict, set, frozenset):
        return f"{kind.__name__}{{{_join_sorted(value, module)}}}"
    if kind in (bytes, bytearray):
        return f"{kind.__name__}'{value.hex()}'"
    if isinstance(value, _NAMED):
        return _write_name(value, value.__qualname__, module)
    reduced = value.__reduce_ex__(2)
    if isinstance(reduced, str):
        return _write_name(kind, reduced, module)
    maker, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    if isinstance(value, (set, frozenset)):
        arguments = (kind, set(value))
    parts = [maker, arguments, _omit_generated_fields(value, state), items and list(items), pairs and dict(pairs)]
    return f"({','.join(canonicalize(part, module) for part in parts)})"


def _join_sorted(values: Mapping[Any, Any] | Iterable[Any], module: str) -> str:
    if isinstance(values, Mapping):
        pairs = (f"{canonicalize(key, module)}:{canonicalize(value, module)}" for key, value in values.items())
        return ",".join(sorted(pairs))
    return ",".join(sorted(canonicalize(value, module) for value in values))


def _write_name(owner: Any, name: str, module: str) -> str:
    return f"<{'' if owner.__module__ == module else owner.__module__}.{name}>"


def _omit_generated_fields(value: Any, state: Any) -> Any:
    """Leave out of a pydantic model's state what a default factory has made."""
    given = getattr(value, "__pydantic_fields_set__", None)
    if given is None or type(state) is not dict or "__dict__" not in state:
        return state
    generated = {name for name, field in type(value).__pydantic_fields__.items() if field.default_factory} - given
    fields = {name: content for name, content in state["__dict__"].items() if name not in generated}
    return {**state, "__dict__": fields}


def render_arguments(arguments: Mapping[str, Any], indent: int | None = None) -> str:
    """Return arguments as JSON, with invisible characters, and those that look like a Latin letter, as escapes.

    A JSON parser reads the same values as without the escapes.
    """
    plain = {name: _to_plain(value) for name, value in arguments.items()}
    return escape_confusable(json.dumps(plain, ensure_ascii=False, indent=indent), keep="\n")


def _to_plain(value: Any) -> Any:
    """Return a value as plain data, by its fields: a serializer or a `__repr__` of its class could hide some."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=canonicalize)
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
    if isinstance(value, Enum):
        return _to_plain(value.value)
    for base, convert in _BASES.items():  # subclasses
        if isinstance(value, base):
            return convert(value)
    fields = value if isinstance(value, Mapping) else _get_fields(value)
    if fields is None:
        return to_jsonable_python(value, bytes_mode="base64", fallback=repr)
    return {to_jsonable_python({name: None}).popitem()[0]: _to_plain(item) for name, item in fields.items()}


def _get_fields(value: Any) -> Mapping[Any, Any] | None:
    """Return the fields of an object, those of a pydantic model by their aliases; None if it has none."""
    kind = type(value)
    if hasattr(kind, "__pydantic_fields__"):
        aliases = {name: field.validation_alias for name, field in kind.__pydantic_fields__.items()}
        extra = getattr(value, "__pydantic_extra__", None) or {}
        members = {**vars(value), **extra}.items()
        return {alias if isinstance(alias := aliases.get(name), str) else name: item for name, item in members}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields_of(value)}
    if kind.__module__.partition(".")[0] in _STANDARD:
        return None
    listed = [slots for base in kind.__mro__ if (slots := vars(base).get("__slots__"))]
    names = [
        name for slots in listed for name in ([slots] if isinstance(slots, str) else slots) if hasattr(value, name)
    ]
    return {**{name: getattr(value, name) for name in names}, **getattr(value, "__dict__", {})} or None


def shorten_middle(text: str, most: int) -> str:
    """Replace the middle of a long text by a note with its length and its SHA-256."""
    if len(text) <= most:
        return text
    import hashlib  # as in `_hash`

    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    note = f"\n... {len(text) - most:,} of {len(text):,} characters are not shown here; SHA-256 of all: {digest} ...\n"
    return text[: most - most // 4] + note + text[len(text) - most // 4 :]
