"""Dispatch one call, from the model's raw arguments to a result.

    resolve -> validate -> authorize -> approve -> invoke -> render

Middleware wraps all of these steps, so that the arguments that it rewrites pass validation and every gate. A step that
refuses the call raises a ToolError, which becomes the call's result. Only FatalError, its subclass Halt,
DefinitionError and cancellation are raised.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from pydantic_core import ValidationError

from toolkit._concurrency.backend import Backend, await_value, contain
from toolkit._context import ToolContext, discard
from toolkit._execution.approval import STOPPED_TEXT, WAITING_TEXT, Deferred, Stopped
from toolkit._execution.approval_request import ApprovalRequest, digest_call
from toolkit._execution.attempts import Attempts, Emit
from toolkit._execution.gates import Gates, Unanswered
from toolkit._execution.isolation import LOST
from toolkit._execution.ledger import STARTED, CallNote, CallRecord, Ledger, Recording
from toolkit._execution.truncation import MAX_RESULT, RESULT_READ, ResultStore, truncate
from toolkit._messages import OUTPUT, ToolCall, ToolResult, replace_surrogates
from toolkit._options import get_short_traceback
from toolkit._schema.error_messages import ErrorExplainer, explain_unknown_tool, suggest
from toolkit._tools.results import accept, explain_exception, follow_error, log_exception
from toolkit._tools.tool import Tool
from toolkit.errors import (
    Cancelled,
    DefinitionError,
    Denied,
    Failed,
    FatalError,
    InvalidArguments,
    NotFound,
    ToolError,
    UnknownTool,
)

logger = logging.getLogger("toolkit")

T = TypeVar("T")

CallHandler: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]


@dataclass(frozen=True)
class Next:
    """The next step of a call: inner middleware, the gates and the tool. Await `call_next(call)` to run it.

    Attributes:
        handler: Runs the call.
        context: The context of the call: deps, ids, whether the run was cancelled.
        tools: Tools of the run, by name.
        backend: Backend of the run.
    """

    handler: CallHandler = field(repr=False)
    context: ToolContext[Any]
    tools: Mapping[str, Tool[..., Any]] = field(repr=False)
    backend: Backend = field(repr=False)

    def __call__(self, call: ToolCall) -> Awaitable[ToolResult]:
        """Run the call. A gate that refuses it raises a ToolError."""
        return self.handler(call)

    async def wait(self, promise: Awaitable[T]) -> T:
        """Await a coroutine that needs an event loop, also in a sync run.

        Raises:
            TimedOut: The call's deadline has passed.
            Cancelled: The run was cancelled.
        """
        try:
            return await self.backend.call(
                lambda: await_value(promise), is_async=True, cancellation=self.context.cancellation
            )
        finally:
            if inspect.iscoroutine(promise) and inspect.getcoroutinestate(promise) == inspect.CORO_CREATED:
                promise.close()  # the deadline had passed before it started


# A function of the call and the next step, which returns the result of that step or another one.
Middleware: TypeAlias = Callable[[ToolCall, Next], Awaitable[ToolResult]]


@dataclass(frozen=True, kw_only=True)
class Dispatcher:
    """The tools of a run by name, with the middleware and gates around their calls.

    Attributes:
        available: Names of the tools that may be called; all if None.
        gates: Asked about each call, besides the tool's own.
        middleware: Wraps each call and its gates; the first one is the outermost.
        recording: Where the calls are recorded.
        max_result: The most characters of a result that the model reads, unless its tool sets its own number.
        check_output: Whether the value of a result must be of the tool's declared type.
        format_error: Makes the text of an error that the model reads.
        overflow: Stores truncated results, so that the model can read the rest.
        started: Calls whose handlers have started, as they ran, by id.
        foreign: Names of the tools with `trust="foreign"` that the run, a run above it or a run below it has called.
        count: Counts a call that another call makes, by its tool and position; returns why it exceeds a limit, or "".
    """

    tools: Mapping[str, Tool[..., Any]]
    available: Collection[str] | None = None
    gates: Gates = field(default_factory=Gates)
    middleware: tuple[Middleware, ...] = ()
    recording: Recording = field(default_factory=Recording)
    max_result: int = MAX_RESULT
    check_output: bool = False
    format_error: Callable[[ToolResult], str] | None = None
    overflow: ResultStore | None = None
    started: dict[str, ToolCall] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    count: Callable[[str, int], str] = lambda *_: ""

    async def dispatch(
        self, call: ToolCall, context: ToolContext[Any], backend: Backend, emit: Emit = discard
    ) -> ToolResult:
        """Execute one call and return its result, with its whole text. Failures of tools and middleware are results.

        Raises:
            FatalError: A tool or a hook raised it.
            DefinitionError: A tool cannot be described to a model.
        """
        pipeline = _CallPipeline(self, call, context, backend, emit)
        try:
            if self.middleware:
                handler: CallHandler = pipeline.execute
                for wrapper in reversed(self.middleware):
                    handler = _wrap(wrapper, Next(handler, context, self.tools, backend))
                result = await handler(call)
                result = accept(result if pipeline.result is None else follow_error(result, pipeline.result))
                if not result.is_error:  # a middleware may have returned an earlier result of the tool
                    self.add_foreign(call.name)
            else:
                result = await pipeline.execute(call)
            if result.exception is not None:
                # A middleware may have changed the text, by which it is seen whether the model reads the message.
                log_exception(call.name, result.exception, (pipeline.result or result).text)
        except (FatalError, DefinitionError):
            raise
        except CancelledError as error:  # the turn has ended
            return ToolResult.from_error(Cancelled(), error)
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever it is, the call has a result
            result = _refuse(error, pipeline)

        if self.format_error is not None and result.error is not None and type(result.exception) is not Deferred:
            result = _format_error(self.format_error, result)
        if not self._is_foreign(call.name):
            return result
        from toolkit._guards.hidden_text import escape_hidden  # few runs need it

        return result.replace(text=escape_hidden(result.text), error=result.error and escape_hidden(result.error))

    def truncate(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Shorten the text of a call's result for the model, unless it is a page of a long result."""
        if call.name == RESULT_READ:
            return result
        tool = self.tools.get(call.name)
        return truncate(result, (tool and tool.settings.max_result) or self.max_result, self.overflow)

    def add_foreign(self, name: str) -> None:
        """Record a call of this tool, if other people may have written its results."""
        if self._is_foreign(name):
            self.foreign.add(name)

    def _is_foreign(self, name: str) -> bool:
        tool = self.tools.get(name)
        return tool is not None and tool.settings.trust is not None

    def runs_alone(self, call: ToolCall) -> bool:
        """Return whether a call must run alone, without other calls at the same time."""
        tool = self.tools.get(call.name)
        return tool is not None and tool.settings.runs_alone

    def is_gated(self, tool: Tool[..., Any]) -> bool:
        """Return whether an authorizer or approver is asked about a tool's calls."""
        settings = tool.settings
        has_own_gate = settings.approve is not False or settings.authorize is not None  # even a gate that is falsy
        gates = self.gates
        return has_own_gate or gates.hold is not None or bool(gates.authorizers or gates.approvers)

    def may_emit(self, tool: Tool[..., Any]) -> bool:
        """Return whether a call may emit events before its result."""
        is_plain = tool.settings.is_plain and not self.middleware
        return not is_plain or self.is_gated(tool) or tool._invocation.emits

    def resolve(self, call: ToolCall) -> Tool[..., Any]:
        """Return the tool that a call names.

        Raises:
            NotFound: There is no tool of this name, or it may not be called now.
            Failed: The call may have started in a process that has ended.
        """
        tool = self.tools.get(call.name)
        if tool is None:
            raise UnknownTool(explain_unknown_tool(call.name, self._available_names()))
        if self.available is not None and call.name not in self.available:
            raise NotFound(f"{call.name} may not be called now{suggest('', self._available_names())}")
        if call.id in self.recording.suspects and not tool.settings.may_repeat:
            raise Failed(STARTED)
        return tool

    def _available_names(self) -> list[str]:
        return [name for name in self.tools if self.available is None or name in self.available]


@dataclass
class _CallPipeline:
    """The steps of one call inside all middleware. A step that refuses the call raises a ToolError.

    Attributes:
        has_started: Whether the call has reached its tool.
        result: The result of the steps; None until they have ended.
        tool_context: The context with the shared values that the tool may read; the gates may read all of them.
    """

    dispatcher: Dispatcher
    call: ToolCall
    context: ToolContext[Any]
    backend: Backend
    emit: Emit
    has_started: bool = False
    result: ToolResult | None = None
    tool_context: ToolContext[Any] = field(init=False)

    @property
    def _imports(self) -> dict[str, Any]:
        """The shared values that the call imports, by path. Empty if the tool may read all values."""
        shared = self.tool_context.shared
        return {} if shared is self.context.shared else dict(shared)

    async def execute(self, call: ToolCall) -> ToolResult:
        """Resolve, validate, authorize, approve and invoke a call, which a middleware may have changed."""
        dispatcher = self.dispatcher
        if call is not self.call:
            call = self._check_replacement(call)
        tool = dispatcher.resolve(call)
        arguments, repairs = tool._invocation.parser.parse(call.arguments)
        scope = tool._scope
        self.tool_context = self.context if scope is None else scope.restrict(self.context, call.imports)
        asked = call
        recording = dispatcher.recording
        ledger = recording.undo_ledger if tool.settings.undo else recording.ledger
        is_repeat = self.has_started and tool.settings.may_repeat  # by a middleware
        if ledger is None or (is_repeat and tool.settings.undo is None):
            if dispatcher.is_gated(tool):
                arguments, call = await self._pass_gates(tool, arguments, call)
            result = await self._invoke(tool, arguments, call)
        else:
            result = await self._execute_recorded(tool, arguments, call, ledger)

        if isinstance(waiting := result.exception, Deferred):
            if waiting.state is None:  # the tool has returned the result of another call
                raise Failed(f"{call.name} has run, but a call that it made waits for approval.")
            raise Deferred(*waiting.pending, state=waiting.state, digest=self._digest(tool, asked))
        self.result = result.replace(repairs=repairs) if repairs else result
        return self.result

    def _check_replacement(self, call: ToolCall) -> ToolCall:
        """Return a call that a middleware made, with the ids of the model's call.

        Raises:
            ValueError: The new call must run alone, but the model's call need not, so others may run beside it.
        """
        if self.dispatcher.runs_alone(call) and not self.dispatcher.runs_alone(self.call):
            raise ValueError(f"a hook or middleware made {call.name!r}, which runs alone, of {self.call.name!r}")
        return replace(call, id=self.call.id, provider_call_id=self.call.provider_call_id)

    async def _execute_recorded(
        self, tool: Tool[..., Any], arguments: dict[str, Any], call: ToolCall, ledger: Ledger
    ) -> ToolResult:
        """Execute a call and record each of its stages, unless the ledger already has its result."""
        recording = self.dispatcher.recording
        runs = (*recording.runs_above, self.context.run_id)
        may_repeat = tool.settings.may_repeat and not self.has_started  # a call that can be undone runs once
        record = CallRecord(
            ledger=ledger,
            run_id=runs[0],
            call_id=call.id,
            digest=self._digest(tool, call),
            may_repeat=may_repeat or call.id in self.dispatcher.gates.approved,
            backend=self.backend,
        )
        if (earlier := await record.recall()) is not None:
            self.dispatcher.add_foreign(call.name)
            return earlier

        await record.write("proposed")
        try:
            if self.dispatcher.is_gated(tool):
                arguments, call = await self._pass_gates(tool, arguments, call)
        except Unanswered:  # not a refusal: a resumed run may ask again
            raise
        except Denied as refusal:
            await record.finish(explain_exception(refusal, call.name))
            raise

        await record.write("approved", digest=self._digest(tool, call))
        note = CallNote(tool, call, self.context.iteration, runs) if tool.settings.undo else None
        return await record.execute(lambda: self._invoke(tool, arguments, call), note)

    async def _pass_gates(
        self, tool: Tool[..., Any], arguments: dict[str, Any], call: ToolCall
    ) -> tuple[dict[str, Any], ToolCall]:
        """Ask the gates about a call. Return its arguments and the call, with the changes of an approver."""

        def make_request(arguments: dict[str, Any], call: ToolCall) -> ApprovalRequest:
            foreign = tuple(sorted(self.dispatcher.foreign))  # a run inside a gate may add to them
            return ApprovalRequest(tool, arguments, self.context, call, self._imports, foreign, emit=self.emit)

        return await self.dispatcher.gates.ask(make_request, arguments, call, self.backend)

    def _digest(self, tool: Tool[..., Any], call: ToolCall) -> str:
        return digest_call(tool, call, self.context.run_id, self._imports)

    def _invoke(self, tool: Tool[..., Any], arguments: dict[str, Any], call: ToolCall) -> Awaitable[ToolResult]:
        self.has_started = True
        self.dispatcher.add_foreign(call.name)
        context = self.tool_context
        started = self.dispatcher.started
        attempts = Attempts(tool, call, arguments, self.backend, self.emit, context.cancellation, started)
        work = attempts.run_once(context) if tool.settings.is_plain else attempts.run(context)
        return _check_output(tool, work) if self.dispatcher.check_output else work


def _wrap(wrapper: Middleware, call_next: Next) -> CallHandler:
    async def handle(call: ToolCall) -> ToolResult:
        with contain(BaseException, in_task=call_next.backend.is_async):
            answer = wrapper(call, call_next)
            if not inspect.isawaitable(answer):
                raise TypeError(f"the middleware {wrapper!r} is not async: write it with async def.")
            result = await answer
            if not isinstance(result, ToolResult):
                raise TypeError(
                    f"the middleware {wrapper!r} must return a ToolResult, not {result!r:.100}; does it return what "
                    "`call_next` gave it?"
                )
            return result

    return handle


async def _check_output(tool: Tool[..., Any], work: Awaitable[ToolResult]) -> ToolResult:
    """Wait for a result, and convert its value to the tool's declared type. If that is impossible, the call fails."""
    result = await work
    returns = tool.handler.interface.returns
    if result.is_error or result.images or result.files or returns.schema is None:
        return result

    try:
        value = returns.check(result.value)
    except Exception as error:  # noqa: BLE001  the user's type may raise anything
        text = f"{tool.name} has run, but its result is not what it declares: {_explain_fault(error, returns.schema)}"
        return ToolResult.from_error(Failed(text), error)

    write = tool._invocation.write
    is_written = value is not result.value and result.text == write(result.value)
    return result.replace(value=value, text=write(value) if is_written else result.text)


def _explain_fault(error: Exception, schema: Mapping[str, Any]) -> str:
    if isinstance(error, ValidationError):
        faults = error.errors(include_url=False, include_context=False)
        for fault in faults:
            place = fault["loc"]
            fault["loc"] = ("result", *(place[1:] if place[:1] == (OUTPUT,) else place))
        return ErrorExplainer({"properties": {"result": schema}}).explain(faults)
    return str(error) if isinstance(error, InvalidArguments) else f"{type(error).__name__}."


def _refuse(error: BaseException, pipeline: _CallPipeline) -> ToolResult:
    """Make the result of a call that did not complete."""
    name = pipeline.call.name[:100]
    if isinstance(error, Deferred):
        return ToolResult(text="", error=WAITING_TEXT, kind="pending", exception=error)
    if isinstance(error, Stopped):
        text = f"{STOPPED_TEXT} {error}".rstrip()
        return ToolResult(text=text, error=text, kind="stopped", exception=error)
    if isinstance(error, ToolError):
        return explain_exception(error, name)

    trace = get_short_traceback(error)
    logger.error("A middleware or gate around the call %s failed; the call gets an error.", name, exc_info=trace)
    text = LOST.format(name) if pipeline.has_started else f"{name} was not run."
    return ToolResult.from_error(Failed(text), error)


def _format_error(format_error: Callable[[ToolResult], str], result: ToolResult) -> ToolResult:
    """Replace the text of an error. If that fails, the text stays."""
    try:
        text = format_error(result)
        if not isinstance(text, str):
            raise TypeError(f"format_error={format_error!r} must return text, not {text!r:.100}")  # noqa: TRY301
    except (Exception, SystemExit):
        logger.exception("format_error failed; the model reads the text as it was.")
        return result
    return result.replace(text=replace_surrogates(text))
