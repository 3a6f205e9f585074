"""Calls that begin while their answer is still arriving; dropped where it does not hold them in the end.

The calls of one answer: carried out in their order, or answered without, and what came of them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, TypeAlias

from toolkit._concurrency.backend import Backend, Handle
from toolkit._concurrency.cancellation import DEADLINE, Cancellation, current_cancellation
from toolkit._concurrency.threads import note_still_running
from toolkit._context import ToolContext, discard
from toolkit._execution.approval import Deferred, Stopped
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.invoke import Emit
from toolkit._execution.parallel import Order, dispatching, parallel_limit, run_batch, split_batches
from toolkit._execution.references import Blocked, Dependencies, any_references, may_depend
from toolkit._messages import PendingApproval, ToolCall, ToolMessage, ToolResult
from toolkit._runner.control import MessageQueue
from toolkit._runner.conversation import CANCELLED_TEXT, LATE_TEXT, SKIPPED_TEXT, STOPPED_TEXT
from toolkit._runner.state import RunCalls
from toolkit._tools.bindings import AnyTool
from toolkit._tools.shared_values import SharedValues
from toolkit.errors import Cancelled, TimedOut, ToolError
from toolkit.events import ApprovalNeeded, CallEvent, Event, ToolCallFinished, ToolCallStarted
from toolkit.models import CallReady

DROPPED_TEXT = "Dropped: the model's answer does not hold this call in the end."

Job: TypeAlias = Callable[[Emit], Coroutine[Any, Any, ToolResult]]


class EventBuffer:
    """What is told before anybody hears it; any thread may tell."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._told: list[CallEvent] = []
        self._hear: Emit = self._told.append

    def emit(self, event: CallEvent) -> None:
        """Pass an event on, or keep it."""
        with self._lock:
            self._hear(event)

    def listen(self, hear: Emit) -> None:
        """Pass on what was told so far, and from now on whatever is told."""
        with self._lock:
            for event in self._told:
                hear(event)
            self._hear = hear


@dataclass(frozen=True)
class EarlyCall:
    """A call that has begun early."""

    call: ToolCall
    message: EventBuffer
    handle: Handle[ToolResult]

    async def wait(self, tell: Emit) -> ToolResult:
        """Wait for its result, and pass on what it tells."""
        self.message.listen(tell)
        return await self.handle.wait()

    def drop(self) -> ToolCallFinished:
        """Give it up."""
        self.message.listen(discard)
        self.handle.drop()
        result = ToolResult(text=DROPPED_TEXT, error=DROPPED_TEXT, kind="cancelled")
        return ToolCallFinished(self.call, result, 0.0)


@dataclass
class EarlyCalls:
    """The calls of one answer that have begun early, by call id."""

    begun: dict[str, EarlyCall] = field(default_factory=dict)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self.begun

    def start(self, call: ToolCall, job: Job, backend: Backend) -> None:
        """Begin a call."""
        told = EventBuffer()
        self.begun[call.id] = EarlyCall(call, told, backend.start(lambda: job(told.emit)))

    def take(self, call: ToolCall) -> EarlyCall | None:
        """Find what was begun for a call."""
        return self.begun.pop(call.id, None)

    def drop(self, but: Collection[ToolCall] = ()) -> Sequence[ToolCallFinished]:
        """Give up whatever was not taken, but for the calls that the whole answer holds; tell the end of each."""
        held = {call.id for call in but}
        dropped = [each for each in self.begun.values() if each.call.id not in held]
        for each in dropped:
            del self.begun[each.call.id]
        return [each.drop() for each in dropped]


BEGUN_TEXT = "it had begun, and what it has done stays."


@dataclass(kw_only=True)
class ToolCaller:
    """How a run has calls carried out.

    Attributes:
        tools: Those of the run, by name; more may join.
        order: Which calls of a turn run together.
        width: How many of them at the same time.
        shared: What the calls share.
        live: Whether what a call tells is wanted while it is at work.
        work: Tells when calls are to end.
        early: What was begun while the answer was still arriving.
        is_apart: Whether the run may leave calls that it waits for.
        raises: Whether what a function raises ends the run.
    """

    dispatcher: Dispatcher
    tools: dict[str, AnyTool]
    inbox: MessageQueue
    order: Order
    width: int
    live: bool
    run_id: str
    deps: Any
    shared: SharedValues
    work: Cancellation
    early: EarlyCalls
    is_apart: bool = False
    raises: bool = False

    def begun(self, todo: RunCalls) -> Turn:
        """Make what carries out the calls of one turn."""
        if not any_references(self.tools):
            return Turn(self, todo.calls, todo.turn)
        linked = Dependencies.of(todo.calls, self.shared, self.tools, self.work, todo.answered)
        return Turn(self, todo.calls, todo.turn, linked)

    def direct(self, told: Sequence[ToolMessage]) -> str | None:
        """Give the first result that is the run's answer, of those of one answer; None where there is none."""
        good = (message for message in told if not message.is_error and message.name in self.tools)
        return next((message.text for message in good if self.tools[message.name].settings.return_direct), None)

    def settle(self) -> None:
        """End a turn: give up what was begun early and not wanted; offer the model to read what was cut."""
        self.early.drop()
        overflow = self.dispatcher.overflow
        if overflow is not None and overflow.is_used:
            self.tools.setdefault(overflow.tool.name, overflow.tool)

    def begins_early(self, ready: CallReady) -> bool:
        """Tell whether a call may begin before its answer is whole.

        It only reads, refers to no other, nobody is asked about it, no ledger binds its id to it, and those before it
        have begun and may run beside it.
        """
        tool, by = self.tools.get(ready.call.name), self.dispatcher
        return (
            tool is not None
            and tool.settings.effect == "read"
            and not may_depend(ready.call, tool)
            and by.ledger is None
            and not (tool.settings.exclusive or by.is_gated(tool) or by.middleware)
            and ready.position == len(self.early.begun) < parallel_limit(self.order, self.width)
            and not self.inbox.is_steered
        )

    def start_early(self, call: ToolCall, turn: int, backend: Backend) -> None:
        """Begin a call while the answer that holds it is still arriving."""
        self.early.start(call, lambda tell: self.dispatch(call, turn, tell, backend), backend)

    async def execute(self, call: ToolCall, turn: int, tell: Emit, backend: Backend) -> ToolResult:
        """Take what was begun early; or have the call carried out now."""
        if (early := self.early.take(call)) is not None:
            return await early.wait(tell)
        return await self.dispatch(call, turn, tell, backend)

    async def dispatch(self, call: ToolCall, turn: int, tell: Emit, backend: Backend) -> ToolResult:
        """Have one call carried out."""
        cancellation = Cancellation(parent=self.work)  # a tool may call off its own call, and no more
        context = ToolContext(
            deps=self.deps,
            run_id=self.run_id,
            call_id=call.id,
            provider_call_id=call.provider_call_id,
            tool_name=call.name,
            iteration=turn,
            shared=self.shared.view(instance=call.instance),
            cancellation=cancellation,
        )
        tokens = current_cancellation.set(self.work), dispatching.set(self.dispatcher)
        try:
            return await self.dispatcher.dispatch(call, context, backend, tell)
        finally:
            current_cancellation.reset(tokens[0])
            dispatching.reset(tokens[1])
            cancellation.close()
            cancellation.cancel()  # what works on may look whether it still should


@dataclass
class Turn:
    """The calls of one answer.

    Attributes:
        linked: Which of them wait for others, where they may refer to each other.
        finished: What came of them so far, by call id.
        results: The same, where nobody may have been told yet.
        told: What the model is told of that.
        pending: Those that wait for somebody's yes.
        is_stopped: Whether an approver has ended the run.
    """

    by: ToolCaller
    calls: tuple[ToolCall, ...]
    number: int
    linked: Dependencies | None = None
    finished: dict[str, ToolCallFinished] = field(default_factory=dict)
    results: dict[str, ToolResult] = field(default_factory=dict)
    messages: list[ToolMessage] = field(default_factory=list)
    pending: list[PendingApproval] = field(default_factory=list)
    is_stopped: bool = False

    async def events(self, backend: Backend) -> AsyncGenerator[Event, None]:
        """Carry the calls out, batch after batch."""
        calls = self.linked.calls if self.linked else self.calls
        for batch in split_batches(calls, self.by.order, self._runs_alone):
            for call in batch:
                if call.id not in self.by.early:
                    yield ToolCallStarted(call)
            async with aclosing(self._batch(batch, backend)) as happened:
                async for event in happened:
                    if (seen := self._seen(event)) is not None:
                        yield seen

    def break_off(self, backend: Backend) -> None:
        """Answer the calls of which nothing was told: with their results, or with what is known of their effects."""
        for call in self.calls:
            if call.id not in self.finished:
                known = self.results.get(call.id)
                result = ToolResult.from_error(self._left(call, backend)) if known is None else known
                self._finish(ToolCallFinished(call, result, 0.0))

    @property
    def waiting(self) -> list[PendingApproval]:
        """The calls that wait for somebody's yes, in call order."""
        order = [call.id for call in self.calls]
        return sorted(self.pending, key=lambda pending: order.index(pending.call.id))

    @property
    def raised(self) -> Exception | None:
        """The first exception that ends the run, where functions may: none that is meant for the model."""
        if not self.by.raises:
            return None
        results = (self.finished[call.id].result for call in self.calls if call.id in self.finished)
        errors = (result.exception for result in results if result.kind == "failed")
        return next((e for e in errors if isinstance(e, Exception) and not isinstance(e, ToolError)), None)

    def _batch(self, batch: Sequence[ToolCall], backend: Backend) -> AsyncGenerator[CallEvent | ToolCallFinished, None]:
        if (why := self._skips()) and not any(call.id in self.by.early for call in batch):
            return _skipped(batch, why)

        async def carry_out(call: ToolCall, tell: Emit) -> ToolResult:
            begin = partial(self.by.execute, turn=self.number, tell=tell, backend=backend)
            result = await (self.linked.execute(call, begin, backend) if self.linked else begin(call))
            if type(result.exception) is not Deferred:
                self.results[call.id] = result
            return result

        tells = any(map(self._may_tell, batch))
        apart = self.by.is_apart or (self.by.live and tells)
        heard = tells or len(batch) > 1
        return run_batch(
            batch, carry_out, backend, width=self.by.width, cancellation=self.by.work, apart=apart, heard=heard
        )

    def _seen(self, event: CallEvent | ToolCallFinished) -> Event | None:
        """Take note of what happened; what waits for a yes, or for the result of what does, has not finished."""
        if not isinstance(event, ToolCallFinished):
            return event
        if self.linked:
            self.linked.end(event.call, event.result)
        error = event.result.exception
        if type(error) is Blocked:
            return None
        if type(error) is Deferred:
            self.pending.append(error.pending)
            return ApprovalNeeded(error.pending)
        self.is_stopped = self.is_stopped or type(error) is Stopped
        self._finish(event)
        return event

    def _finish(self, event: ToolCallFinished) -> None:
        self.finished[event.call.id] = event
        self.messages.append(_told(event))

    def _left(self, call: ToolCall, backend: Backend) -> Cancelled | TimedOut:
        if call.id in backend.running:
            return note_still_running(Cancelled())
        return Cancelled(BEGUN_TEXT) if call.id in self.by.dispatcher.started else Cancelled()

    def _skips(self) -> str:
        """Say why the next calls are not begun; nothing where they are."""
        if self.is_stopped:
            return STOPPED_TEXT
        if reason := self.by.work.reason:
            return LATE_TEXT if reason == DEADLINE else CANCELLED_TEXT
        return SKIPPED_TEXT if self.by.inbox.is_steered else ""

    def _runs_alone(self, call: ToolCall) -> bool:
        tool = self.by.tools.get(call.name)
        return tool is not None and tool.settings.runs_alone

    def _may_tell(self, call: ToolCall) -> bool:
        tool = self.by.tools.get(call.name)
        return tool is not None and self.by.dispatcher.may_emit(tool)


async def _skipped(calls: Sequence[ToolCall], why: str) -> AsyncGenerator[ToolCallFinished, None]:
    for call in calls:
        yield ToolCallFinished(call, ToolResult(text=why, error=why, kind="cancelled"), 0.0)


def _told(event: ToolCallFinished) -> ToolMessage:
    call, result = event.call, event.result
    return ToolMessage(
        call_id=call.id,
        name=call.name,
        text=result.text or "",
        is_error=result.is_error,
        images=result.images,
        files=result.files,
        timestamp=time.time(),
    )
