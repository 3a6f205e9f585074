"""The calls of one turn: execute them in their order, and collect their results.

A run that a call starts sees the run above through `parent_call`: usage and calls count in every run above, and each
call passes the gates and the middleware of the runs above as well as those of its own run. Cancellation and deadline
pass down by `current_cancellation`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

from toolkit._concurrency.backend import Backend, Handle
from toolkit._concurrency.cancellation import DEADLINE, Cancellation, current_cancellation, note_effects
from toolkit._context import ToolContext, discard
from toolkit._dialects.tool_choice import allowed_names
from toolkit._execution.approval import Deferred, Stopped
from toolkit._execution.attempts import Emit
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.parallel import parallel_limit, run_batch, split_batches
from toolkit._execution.references import Blocked, Dependencies, may_depend, may_refer
from toolkit._messages import (
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    get_last_calls,
    make_message,
    make_refusal,
)
from toolkit._runner.control import MessageQueue
from toolkit._runner.conversation import Conversation, RunCalls, explain_skip
from toolkit._runner.options import RunnerSettings, RunRequest
from toolkit._runner.state import PausedSubAgent
from toolkit._schema.json_text import escape_confusable
from toolkit._tools.bindings import AnyTool
from toolkit._tools.handlers import Declaration
from toolkit._tools.shared_values import NOTHING_SHARED, SharedValues
from toolkit.errors import Cancelled, Failed, FatalError, RunError, ToolError
from toolkit.events import ApprovalNeeded, CallEvent, Event, PendingApproval, ToolCallFinished, ToolCallStarted
from toolkit.models import CallReady

logger = logging.getLogger("toolkit")

# The keys of a provider's items that hold the arguments of its own calls.
PROVIDER_ARGUMENTS = ("action", "queries", "code")
# The most runs inside each other, whatever starts them; sub-agents have a lower limit.
MAX_NESTING = 10
DROPPED_TEXT = "Dropped: the model's answer does not hold this call in the end."
NO_CALL = ToolCall(name="")
ENDED_TEXT = "The run ended at this call; its effects stay."


@dataclass(kw_only=True, eq=False)
class ToolCaller:
    """Executes the calls of a run. Runs that a call starts get it as their parent.

    Attributes:
        available: Names of the tools that may be called in the run; all if None.
        tools: The run's tools by name; `result_read` may be added later.
        queue: Messages of the user; steering skips the batches that have not started.
        shared: Values that the calls share; None if no call can read any.
        deadline: The run's cancellation with its time limit.
        agent: The name of the runner, as in `ToolContext`.
        depth: The number of runs from the outermost to this one.
        observers: Hooks that get each event of this run and of the runs below.
        early_calls: Calls that started while their response was arriving, by call id.
        results: Results of calls by call id, also of calls whose events were not read.
        may_offer: Whether the gates allow to offer a tool, by the names of those that the provider executes.
    """

    settings: RunnerSettings
    conversation: Conversation
    dispatcher: Dispatcher
    available: Collection[str] | None
    tools: dict[str, AnyTool]
    queue: MessageQueue
    request: RunRequest
    shared: SharedValues | None
    deadline: Cancellation
    agent: str = ""
    depth: int = 1
    observers: tuple[Callable[..., Any], ...] = ()
    early_calls: dict[str, EarlyCall] = field(default_factory=dict)
    results: dict[str, ToolResult] = field(default_factory=dict)
    may_offer: dict[str, bool] = field(default_factory=dict)

    def offer(self, request: ModelRequest | None) -> None:
        """Refuse calls of tools that hooks have removed from a request. None allows the tools of the run again."""
        available = self.available
        if request is not None:
            names = allowed_names([spec.name for spec in request.tools], request.choice, request.allowed)
            available = names if available is None else names.intersection(available)
        self.dispatcher = replace(self.dispatcher, available=available)
        self.conversation.offer(None if request is None else available)

    async def vet_provider_tools(self, specs: Iterable[ToolSpec], turn: int, backend: Backend) -> None:
        """Ask the gates whether the tools that the provider executes may be offered.

        Raises:
            Stopped: An approver ends the run.
        """
        for spec in specs:
            name, form = spec.name, spec.provider_form
            if form is None or name in self.may_offer:
                continue
            if self.available is not None and name not in self.available:
                self.may_offer[name] = False
                continue
            settings = json.dumps({key: value for key, value in form.items() if key != "type"})
            call = ToolCall(name=name, arguments=settings, id=f"{self.conversation.run_id[:8]}_{name}")
            result = (await self.execute(call, turn, discard, backend)).result
            self.may_offer[name] = not result.is_error
            if result.is_error:
                logger.warning("The tool %r is not offered to the model: %s", name, result.text)
            if isinstance(result.exception, Stopped):
                raise result.exception

    def report_provider_calls(self, response: ModelResponse) -> Iterator[Event]:
        """Yield the events of the calls that the provider has executed for a response."""
        for item in response.items:
            tool = self.tools.get(str(item.get("type")).removesuffix("_call"))
            if tool is not None and tool._spec.provider_form is not None:
                self.dispatcher.add_foreign(tool.name)
                given = json.dumps({key: item[key] for key in PROVIDER_ARGUMENTS if key in item})
                call = ToolCall(name=tool.name, arguments=given, id=str(item.get("id") or ""))
                status = str(item.get("status"))
                yield self.make_start(call)
                yield self.make_end(call, ToolResult(item, text=status, error=status if status == "failed" else None))

    def make_start(self, call: ToolCall) -> ToolCallStarted:
        """Make the event of a call that starts."""
        tool = self.tools.get(call.name)
        source = tool.origin if tool is not None and isinstance(tool.handler.interface, Declaration) else ""
        return ToolCallStarted(call, self._find_title(call), escape_confusable(source))

    def make_end(self, call: ToolCall, result: ToolResult, seconds: float = 0.0) -> ToolCallFinished:
        """Make the event of a call that has its result."""
        ran = self.dispatcher.started.get(call.id, call)
        # A call that started before the response was complete gets the provider's id only now.
        changed = None if ran is call or ran.replace(provider_call_id=call.provider_call_id) == call else ran
        return ToolCallFinished(call, result, seconds, changed, self._find_title(ran), time.time() - seconds)

    def _find_title(self, call: ToolCall) -> str:
        tool = self.tools.get(call.name)
        return "" if tool is None else tool.title or ""

    def find_answer(self, messages: Sequence[ToolMessage]) -> str | None:
        """Find the whole text of the first result of a tool with `return_direct`, or None if there is none."""
        for message in messages:
            tool = None if message.is_error else self.tools.get(message.name)
            if tool is not None and tool.settings.return_direct:
                result = self.results.get(message.call_id)
                return message.text if result is None else result.text
        return None

    def end_turn(self) -> None:
        """Drop the early calls that are not in the response, and add `result_read` if a result was truncated."""
        self.drop_early()
        self._add_result_read()

    def replace_tools(self, tools: Mapping[str, AnyTool]) -> None:
        """Replace the tools by those of a toolbox that has changed, but keep `result_read`."""
        self.tools.clear()
        self.tools.update(tools)
        self._add_result_read()

    def _add_result_read(self) -> None:
        overflow = self.dispatcher.overflow
        if overflow is not None and overflow.is_used:
            self.tools.setdefault(overflow.tool.name, overflow.tool)

    def may_start_early(self, ready: CallReady) -> bool:
        """Return whether a call may start before its response is complete.

        It may if its tool only reads and has no gate, it refers to no other call, there is no ledger, and all calls
        before it have started early and may run at the same time.
        """
        tool = self.tools.get(ready.call.name)
        if tool is None or tool.settings.effect != "read" or tool.settings.exclusive:
            return False

        dispatcher = self.dispatcher
        if dispatcher.is_gated(tool) or dispatcher.middleware or dispatcher.recording.ledger is not None:
            return False

        limit = parallel_limit(self.settings.order, self.settings.max_parallel)
        is_next = ready.position == len(self.early_calls) < limit
        return is_next and not may_depend(ready.call, tool) and not self.queue.has_steering

    def start_early(self, call: ToolCall, turn: int, backend: Backend) -> None:
        """Start a call while its response is still arriving."""
        early = EarlyCall(call)
        early.handle = backend.start(lambda: self.execute(call, turn, early.emit, backend))
        self.early_calls[call.id] = early

    def drop_early(self, but: Collection[ToolCall] = ()) -> Sequence[ToolCallFinished]:
        """Cancel the early calls that were not used, except those in `but`, and return a ToolCallFinished for each."""
        wanted = {call.id for call in but}
        dropped = [early for call_id, early in self.early_calls.items() if call_id not in wanted]
        for early in dropped:
            del self.early_calls[early.call.id]
        return [self.make_end(early.call, early.drop()) for early in dropped]

    async def execute(self, call: ToolCall, turn: int, emit: Emit, backend: Backend) -> ToolCallFinished:
        """Execute one call with a context of its own."""
        start = time.perf_counter()
        with Cancellation(parent=self.deadline) as cancellation:  # a tool may cancel only its own call
            context = self.make_context(turn, cancellation, call)
            outer = current_cancellation.get()
            above = parent_call.get()
            try:
                # Inside the try: after Ctrl-C, what is set here must not stay for later runs of this thread.
                current_cancellation.set(self.deadline)
                parent_call.set(ParentCall(self, call, emit, backend))
                result = await self.dispatcher.dispatch(call, context, backend, emit)
            except FatalError as error:
                if call.id in self.dispatcher.started:
                    self.results[call.id] = ToolResult.from_error(Failed(ENDED_TEXT), error)
                raise
            finally:
                current_cancellation.set(outer)
                parent_call.set(above)

        return self.end(call, result, start)

    def make_context(self, turn: int, cancellation: Cancellation, call: ToolCall = NO_CALL) -> ToolContext[Any]:
        """Make the context of a call, or of the hooks around the model."""
        return ToolContext(
            deps=self.request.deps,
            run_id=self.conversation.run_id,
            call_id=call.id,
            provider_call_id=call.provider_call_id,
            tool_name=call.name,
            agent=self.agent,
            iteration=turn,
            shared=NOTHING_SHARED if self.shared is None else self.shared.view(instance=call.instance),
            cancellation=cancellation,
        )

    def end(self, call: ToolCall, result: ToolResult, start: float) -> ToolCallFinished:
        """Record the result of a call, unless it waits for approval. `start` is a time of `time.perf_counter()`."""
        if type(result.exception) is not Deferred:
            self.results[call.id] = result
        return self.make_end(call, result, time.perf_counter() - start)


@dataclass(frozen=True)
class ParentCall:
    """The call that is being executed, and the run that it belongs to."""

    caller: ToolCaller
    call: ToolCall
    emit: Emit
    backend: Backend


parent_call: ContextVar[ParentCall | None] = ContextVar("parent_call", default=None)


def find_dispatcher() -> Dispatcher | None:
    """Return the dispatcher of the run whose call is being executed, for calls that this call makes."""
    call = parent_call.get()
    return None if call is None else call.caller.dispatcher


def find_parent() -> ToolCaller | None:
    """Return the run whose call is being executed, or None outside of a call.

    Raises:
        RunError: The runs are nested too deeply.
    """
    call = parent_call.get()
    if call is None:
        return None
    if call.caller.depth >= MAX_NESTING:
        raise RunError(f"Runs are nested {MAX_NESTING} deep: a tool starts a run whose tool starts a run, and so on.")
    return call.caller


class EarlyCall:
    """A call that starts while its response is still arriving. Its events are stored until there is a listener."""

    handle: Handle[ToolCallFinished]

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self._lock = Lock()
        self._events: list[CallEvent] = []
        self._listener: Emit = self._events.append

    def emit(self, event: CallEvent) -> None:
        """Pass an event to the listener, or store it. Thread-safe."""
        with self._lock:
            self._listener(event)

    async def wait(self, call: ToolCall, emit: Emit) -> ToolCallFinished:
        """Wait for the end of the call, and pass on its events. `call` is the same call in the complete response."""
        self._listen(emit)
        return replace(await self.handle.wait(), call=call)

    def drop(self) -> ToolResult:
        """Cancel the call."""
        self._listen(discard)
        self.handle.cancel()
        return make_refusal(DROPPED_TEXT)

    def _listen(self, listener: Emit) -> None:
        with self._lock:
            for event in self._events:
                listener(event)
            self._listener = listener


class TurnCalls:
    """The calls of one response and their results.

    Attributes:
        batches: The calls in batches, which run one after the other.
        finished: The finished calls of the run by call id, as they were reported.
        messages: The results as messages for the model.
        is_stopped: Whether an approver has ended the run.
    """

    def __init__(self, caller: ToolCaller, step: RunCalls, finished: dict[str, ToolCallFinished]) -> None:
        self.finished = finished
        self.messages: list[ToolMessage] = []
        self.is_stopped = False
        self._caller = caller
        self._calls = step.calls
        self._turn = step.turn
        self._waiting: dict[str, Deferred] = {}
        self._dependencies: Dependencies | None = None
        calls: Sequence[ToolCall] = step.calls
        if caller.shared is not None and any(may_refer(caller.tools.get(call.name)) for call in calls):
            state = caller.conversation.state
            calls = get_last_calls(state.messages)
            self._dependencies = Dependencies(calls, caller.shared, caller.tools, caller.deadline, state.results)
            calls = self._dependencies.startable

        self.batches = split_batches(calls, caller.settings.order, caller.dispatcher.runs_alone)
        self._reported = set(caller.early_calls)

    def start(self, batch: Sequence[ToolCall]) -> Iterator[ToolCallStarted]:
        """Yield the events that the calls start, except those that have started early."""
        for call in batch:
            if call.id not in self._reported:
                self._reported.add(call.id)
                yield self._caller.make_start(call)

    def run(self, batch: Sequence[ToolCall], backend: Backend) -> AsyncGenerator[CallEvent | ToolCallFinished, None]:
        """Execute one batch. Yield its events as they happen, and a ToolCallFinished for each call."""
        caller = self._caller
        cancelled_by = caller.deadline.reason
        reason = explain_skip(
            is_stopped=self.is_stopped,
            is_late=cancelled_by == DEADLINE,
            is_cancelled=bool(cancelled_by),
            has_steering=caller.queue.has_steering,
        )
        if reason and not any(call.id in caller.early_calls for call in batch):
            return self._skip(batch, reason)

        execute = partial(self._execute_call, backend)
        if self._dependencies:
            execute = partial(self._execute_in_order, self._dependencies, backend)
        tools = [caller.tools[call.name] for call in batch if call.name in caller.tools]
        is_followed = caller.request.streams and any(map(caller.dispatcher.may_emit, tools))
        return run_batch(
            batch,
            execute,
            backend,
            max_parallel=caller.settings.max_parallel,
            cancellation=caller.deadline,
            own_thread=caller.request.in_background or is_followed,
            started=caller.dispatcher.started,
        )

    def record(self, event: CallEvent | ToolCallFinished) -> Sequence[Event]:
        """Record an event, and return the events to report.

        Nothing is reported for a call that needs the result of a call that waits for approval.
        """
        if not isinstance(event, ToolCallFinished):
            return (event,)

        result = self._caller.results.get(event.call.id)
        if result is not event.result:  # the call was abandoned; it may have ended after all
            event = self._caller.make_end(event.call, result or event.result, event.seconds)
        if self._dependencies:
            self._dependencies.end(event.call, event.result)
        error = event.result.exception
        if type(error) is Blocked:
            return ()
        if type(error) is Deferred:
            self._waiting[event.call.id] = error
            return [ApprovalNeeded(waiting) for waiting in error.pending]

        self.is_stopped = self.is_stopped or type(error) is Stopped
        self._finish_call(event)
        return (event,)

    def break_off(self, backend: Backend) -> Sequence[ToolCallStarted | ToolCallFinished]:
        """Finish each unfinished call with its result, or with an error that says whether it has started.

        Returns:
            The events of these calls that have not been reported.
        """
        events: list[ToolCallStarted | ToolCallFinished] = []
        for call in self._calls:
            if call.id not in self.finished:
                result = self._caller.results.get(call.id)
                if result is None:
                    has_started = call.id in self._caller.dispatcher.started
                    is_running = call.id in backend.running
                    error = note_effects(Cancelled(), has_started=has_started, is_running=is_running)
                    result = ToolResult.from_error(error)
                end = self._caller.make_end(call, result)
                self._finish_call(end)
                events += [*self.start([call]), end]

        return events

    @property
    def pending(self) -> list[PendingApproval]:
        """The calls that wait for approval, and those of the sub-agents that wait, in call order."""
        waiting = [self._waiting[call.id] for call in self._calls if call.id in self._waiting]
        return [pending for deferred in waiting for pending in deferred.pending]

    @property
    def sub_agents(self) -> dict[str, PausedSubAgent]:
        """The sub-agents that wait for approval, by the ids of their calls."""
        waiting = {call_id: each for call_id, each in self._waiting.items() if each.state is not None}
        return {call_id: PausedSubAgent(each.digest, each.state) for call_id, each in waiting.items()}

    @property
    def error(self) -> Exception | None:
        """The first exception that ends the run, with `raise_errors=True`. A ToolError is for the model."""
        if not self._caller.settings.raise_errors:
            return None
        results = (self.finished[call.id].result for call in self._calls if call.id in self.finished)
        errors = (result.exception for result in results if result.kind == "failed")
        return next((e for e in errors if isinstance(e, Exception) and not isinstance(e, ToolError)), None)

    def _execute_call(self, backend: Backend, call: ToolCall, emit: Emit) -> Coroutine[Any, Any, ToolCallFinished]:
        """Execute a call, or wait for it if it has started early."""
        early = self._caller.early_calls.pop(call.id, None)
        return early.wait(call, emit) if early else self._caller.execute(call, self._turn, emit, backend)

    async def _execute_in_order(
        self, dependencies: Dependencies, backend: Backend, call: ToolCall, emit: Emit
    ) -> ToolCallFinished:
        """Execute a call once the calls that it refers to have ended."""
        start = time.perf_counter()

        async def dispatch(own: ToolCall) -> ToolResult:
            return (await self._execute_call(backend, own, emit)).result

        return self._caller.end(call, await dependencies.execute(call, dispatch, backend), start)

    def _finish_call(self, event: ToolCallFinished) -> None:
        call = event.call
        result = event.result
        ran = event.ran or event.call
        logger.debug("Call %s(%s) gave %r in %.3f s", ran.name, ran.arguments, result.text, event.seconds)
        shown = self._caller.dispatcher.truncate(ran, result)
        self.finished[call.id] = event
        foreign = tuple(sorted(self._caller.dispatcher.foreign))
        message = make_message(call, shown)
        self.messages.append(message.replace(foreign=foreign, timestamp=time.time(), is_cut=shown is not result))

    async def _skip(self, calls: Sequence[ToolCall], reason: str) -> AsyncGenerator[ToolCallFinished, None]:
        for call in calls:
            yield self._caller.make_end(call, make_refusal(reason))
