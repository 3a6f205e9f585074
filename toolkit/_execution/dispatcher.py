"""One call, from the model's words to a result.

    resolve -> validate -> authorize -> approve -> invoke -> render

Middleware wraps the whole line. A step that refuses raises a ToolError, which is the call's result; only FatalError,
Halt and cancellation leave.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit._concurrency.backend import Backend
from toolkit._context import ToolContext, discard
from toolkit._execution.approval import ApprovalRequest, Approver, Deferred, Stopped, approve, digest_of
from toolkit._execution.authorization import Authorizer, Unanswered, authorize
from toolkit._execution.invoke import Emit, invoke
from toolkit._execution.ledger import STARTED, Ledger, Record
from toolkit._execution.truncation import MAX_RESULT, ResultStore, truncate
from toolkit._messages import ToolCall, ToolResult
from toolkit._schema.error_messages import suggest, unknown_tool
from toolkit._schema.json_text import to_json_text
from toolkit._tools.invocation import complete, explain
from toolkit._tools.tool import Tool
from toolkit.errors import (
    Cancelled,
    DefinitionError,
    Denied,
    Failed,
    FatalError,
    Halt,
    InvalidArguments,
    NotFound,
    ToolError,
    ToolkitError,
    UnknownTool,
)
from toolkit.middleware import Middleware, compose

logger = logging.getLogger("toolkit")

# What pydantic writes in place of a secret, whichever it is.
_HIDDEN = '"**********"'


@dataclass(frozen=True, kw_only=True)
class Dispatcher:
    """Knows the tools by name, and the gates before them.

    Attributes:
        available: Names of the tools that may be called; all where it is None.
        authorizer: May a call be made at all?
        approver: Does somebody agree?
        approval_timeout: Seconds for the answer of a gate.
        max_result: Characters of a result that the model is shown, where its tool says no other number.
        overflow: Keeps what was cut, for the model to read on.
        ledger: Where the stages of calls are written down.
        suspects: Ids of calls that may have begun in a process that is gone, and of which no ledger tells more.
        begun: Ids of calls that were let into their tools.
        count: Counts a call that another makes, by its tool and its place; gives why it is one too many.
    """

    tools: Mapping[str, Tool[..., Any]]
    available: Collection[str] | None = None
    authorizer: Authorizer | None = None
    approver: Approver | None = None
    approval_timeout: float | None = None
    middleware: tuple[Middleware, ...] = ()
    max_result: int = MAX_RESULT
    overflow: ResultStore | None = None
    ledger: Ledger | None = None
    suspects: Collection[str] = ()
    started: set[str] = field(default_factory=set)
    count: Callable[[str, int], str] = lambda *_: ""

    async def dispatch(
        self, call: ToolCall, context: ToolContext[Any], backend: Backend, tell: Emit = discard
    ) -> ToolResult:
        """Carry one call out; whatever a tool or a middleware does, there is a result.

        Raises:
            FatalError: A tool raised it.
            Halt: A hook raised it.
            DefinitionError: A tool cannot be described to a model.
        """
        line = _CallPipeline(self, call, context, backend, tell)
        try:
            result = await compose(self.middleware, line.execute, context, self.tools, backend)(call)
            if self.middleware:
                result = complete(_checked(result))
            _log(call, result)
        except (FatalError, Halt, DefinitionError):
            raise
        except CancelledError as error:  # the turn was left; nobody reads this result
            return ToolResult.from_error(Cancelled(), error)
        except Exception as error:  # noqa: BLE001  whatever it is, the call has a result
            result = _refused(error, line)
        return truncate(result, line.max_result, self.overflow)

    def is_gated(self, tool: Tool[..., Any]) -> bool:
        """Tell whether anybody is asked about the calls of a tool; a gate that is an empty object is one, too."""
        own = tool.settings
        gates = (self.authorizer, self.approver, own.authorize)
        return own.approve is not False or any(gate is not None for gate in gates)

    def may_emit(self, tool: Tool[..., Any]) -> bool:
        """Tell whether anything may be heard of a call before its end."""
        is_usual = tool.settings.is_plain and not self.middleware and not tool.invocation.tells
        return self.is_gated(tool) or not is_usual

    @property
    def _callable(self) -> list[str]:
        return [name for name in self.tools if self.available is None or name in self.available]

    def resolve(self, call: ToolCall) -> Tool[..., Any]:
        """Find the tool that a call means.

        Raises:
            NotFound: There is none of this name, or it may not be called now.
            Failed: The call may have begun in a process that is gone.
        """
        tool = self.tools.get(call.name)
        if tool is None:
            raise UnknownTool(unknown_tool(call.name, self._callable))
        if self.available is not None and call.name not in self.available:
            raise NotFound(f"{call.name} may not be called now{suggest('', self._callable)}")
        if call.id in self.suspects and not tool.settings.may_repeat:
            raise Failed(STARTED)
        return tool


@dataclass
class _CallPipeline:
    """The way of one call, inside of all middleware: a step that refuses raises a ToolError.

    Attributes:
        inside: What the tool itself may see: no more than the gates do.
    """

    by: Dispatcher
    call: ToolCall
    context: ToolContext[Any]
    backend: Backend
    emit: Emit
    has_begun: bool = False
    max_result: int = MAX_RESULT
    inside: ToolContext[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.inside = self.context
        self.max_result = self.by.max_result

    async def execute(self, call: ToolCall) -> ToolResult:
        """Carry a call out; a middleware may have made it, but its ids stay ours."""
        by = self.by
        if call.id != self.call.id:
            call = replace(call, id=self.call.id, provider_call_id=self.call.provider_call_id)
        tool = by.resolve(call)
        self._refuse_displaced(call, tool)
        self.max_result = tool.settings.max_result or by.max_result
        values, repairs = tool.read(call.arguments)
        self.inside = self.context if tool.scope is None else tool.scope.entered(self.context, call.imports)
        if by.ledger is None or (self.has_begun and tool.settings.may_repeat):  # a middleware's second try
            result = await self._invoked(tool, await self._passed(tool, values, call), call)
        else:
            result = await self._recorded(tool, values, call, by.ledger)
        return result._replace(repairs=repairs) if repairs else result

    def _refuse_displaced(self, call: ToolCall, tool: Tool[..., Any]) -> None:
        """Refuse a call that was renamed to one that runs alone: the model's call was given its place before."""
        if call.name == self.call.name or not tool.settings.runs_alone:
            return
        meant = self.by.tools.get(self.call.name)
        if meant is None or not meant.settings.runs_alone:
            raise ValueError(f"a hook or a middleware made {call.name}, which runs alone, of {self.call.name!r}")

    async def _recorded(
        self, tool: Tool[..., Any], values: dict[str, Any], call: ToolCall, ledger: Ledger
    ) -> ToolResult:
        """Carry a call out, each stage of it written down; what was carried out before is not, again."""
        record = Record(
            ledger=ledger,
            run_id=self.context.run_id,
            call_id=call.id,
            digest=self._digest(tool, values, call),
            may_repeat=tool.settings.may_repeat,
            backend=self.backend,
        )
        if (known := await record.recall()) is not None:
            return known
        await record.note("proposed")
        try:
            values = await self._passed(tool, values, call)
        except Unanswered:  # nobody's no: whoever takes the state up may ask again
            raise
        except Denied as refusal:
            await record.finish(explain(refusal, call.name, (), ()))
            raise
        await record.note("approved", self._digest(tool, values, call))
        return await record.execute(lambda: self._invoked(tool, values, call))

    async def _passed(self, tool: Tool[..., Any], values: dict[str, Any], call: ToolCall) -> dict[str, Any]:
        """Ask the gates, and give the values with which the call may run: the model's, or an approver's own."""
        by = self.by
        if not by.is_gated(tool):
            return values
        request = ApprovalRequest(tool, values, self.context, call, emit=self.emit)
        await self._authorized(request)
        decision = await approve(by.approver, request, self.backend, by.approval_timeout)
        if decision.arguments is None:
            return values
        values, _ = tool.read(to_json_text(_rewritten(request, decision.arguments)))
        await self._authorized(ApprovalRequest(tool, values, self.context, call))
        return values

    def _digest(self, tool: Tool[..., Any], values: dict[str, Any], call: ToolCall) -> str:
        try:
            return digest_of(tool, values, call, self.context.run_id)
        except TypeError as error:
            raise Failed(
                "This call cannot be written down, so it was not run: an argument is no plain data."
            ) from error

    async def _authorized(self, request: ApprovalRequest) -> None:
        for authorizer in (self.by.authorizer, request.tool.settings.authorize):
            timeout = self.by.approval_timeout
            await authorize(authorizer, request.tool, request.arguments, request.context, self.backend, timeout)

    async def _invoked(self, tool: Tool[..., Any], values: dict[str, Any], call: ToolCall) -> ToolResult:
        self.has_begun = True
        self.by.started.add(self.call.id)
        return await invoke(tool, call, values, self.inside, self.backend, self.emit)


def _rewritten(request: ApprovalRequest, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write an approver's arguments; those that were left as they are keep the model's words, which no value tells.

    Raises:
        InvalidArguments: A secret was changed, or stands beside what was, and nobody can tell what it is.
    """
    said = request.tool.invocation.reader.said(request.call.arguments)
    seen = (request.arguments, json.loads(request.arguments_json))
    kept = {name for name, value in arguments.items() if any(name in each and each[name] == value for each in seen)}
    changed = {name: value for name, value in arguments.items() if name not in kept}
    if hidden := next((name for name, value in changed.items() if _HIDDEN in to_json_text({name: value})), None):
        raise InvalidArguments(f"{hidden} was changed by whoever approved it, and a secret in it is hidden.")
    return {name: said[name] if name in kept else arguments[name] for name in arguments if name in {*changed, *said}}


def _checked(result: object) -> ToolResult:
    if isinstance(result, ToolResult):
        return result
    raise TypeError(f"a middleware answers with a ToolResult, not {result!r}; does it return what the line gave it?")


def _refused(error: Exception, line: _CallPipeline) -> ToolResult:
    """Make the result of a call that did not come to its end."""
    name = line.call.name[:100]
    if isinstance(error, Deferred):
        return ToolResult(text="", error="Waits for approval.", kind="pending", exception=error)
    if isinstance(error, Stopped):
        text = f"Not run: the run was stopped. {error}".rstrip()
        return ToolResult(text=text, error=text, kind="stopped", exception=error)
    if isinstance(error, ToolError):
        return explain(error, name, (), ())
    logger.error("What stands around the call %s failed; the call gets an error.", name, exc_info=error)
    said = f"{name} has run, but its result was lost." if line.has_begun else f"{name} was not carried out."
    return ToolResult.from_error(Failed(said), error)


def _log(call: ToolCall, result: ToolResult) -> None:
    if result.exception and not isinstance(result.exception, ToolkitError):
        logger.warning("Tool %s raised", call.name, exc_info=result.exception)
    elif result.exception and logger.isEnabledFor(logging.DEBUG):
        logger.debug("Tool %s refused", call.name, exc_info=result.exception)
