"""One run: perform the steps of its conversation, yield the events, and make the result.

`Run.events` is the loop. The conversation (`conversation.py`) returns the next step. `model_calls.py` calls the model,
and `tool_calls.py` executes the calls of a turn.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence, Sized
from contextlib import aclosing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic

from typing_extensions import TypeVar

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import Backend, call_function
from toolkit._concurrency.cancellation import DEADLINE, Cancellation
from toolkit._concurrency.tasks import notice_interrupts
from toolkit._execution.approval import Stopped
from toolkit._execution.undo import Undoer
from toolkit._messages import Message, ModelResponse, make_refusal, write_output
from toolkit._runner.control import ActiveRuns
from toolkit._runner.conversation import UNDONE_REASONS, CallModel, Conversation, Finished, Paused, RunCalls, Step
from toolkit._runner.hooks import Hook, notify
from toolkit._runner.model_calls import ModelCaller
from toolkit._runner.options import RunnerSettings
from toolkit._runner.output import UNTYPED_REASONS, Delta, Output, PartialOutput
from toolkit._runner.result import RunResult, require_result
from toolkit._runner.tool_calls import ToolCaller, TurnCalls
from toolkit.errors import Cancelled, Halt, TimedOut, ToolError
from toolkit.events import (
    REASONS_WITHOUT_ANSWER,
    Event,
    FinishReason,
    LimitReached,
    MessageAdded,
    ResultsAdded,
    RunFinished,
    RunStarted,
    ToolCallFinished,
    TurnFinished,
    TurnStarted,
)
from toolkit.models import CallReady

T = TypeVar("T", default=str)
logger = logging.getLogger("toolkit")

# Exceptions that end the program. Nothing is done after them, so that the run can be resumed as after a crash.
EXIT_ERRORS = (KeyboardInterrupt, SystemExit)


@dataclass(kw_only=True, eq=False)
class Run(Generic[T]):
    """One run of a runner.

    Attributes:
        tool_caller: Executes its calls. It has the tools, the queue of messages, and the hooks that get the events.
        active: The runner's active runs, of which this is one until it ends.
        cancellation: Cancels the run. `tool_caller.deadline` is a child of it, with the run's time limit.
        start: When the run was created, on the clock of `time.monotonic()`.
        save_messages: Adds the messages of the run to its session when it ends.
        calls: Finished calls by call id, including those of a resumed state.
        create_undoer: Creates the Undoer of a run that raises an exception, is cancelled or is stopped.
        handoff: A response that no model wrote: its call hands the user's message to the sub-agent that has the
            conversation.
        responses: The responses of the model so far.
        closed: Calls that had no result when the run was ended; to be reported.
        result: None until the run has ended.
    """

    settings: RunnerSettings
    conversation: Conversation
    model_caller: ModelCaller
    tool_caller: ToolCaller
    output: Output[T]
    active: ActiveRuns[Run[Any]]
    cancellation: Cancellation
    start: float
    save_messages: Callable[[Sequence[Message]], None] | None
    calls: dict[str, ToolCallFinished]
    create_undoer: Callable[[Backend], Undoer] | None = None
    handoff: ModelResponse | None = None
    responses: list[TurnFinished] = field(default_factory=list)
    closed: list[ToolCallFinished] = field(default_factory=list)
    result: RunResult[T] | None = None
    _model: str | None = None
    _abandoned: Sized = ()

    async def finish(self, backend: Backend) -> RunResult[T]:
        """Run to the end, and return the result."""
        async with aclosing(self.events(backend)) as events:
            async for _ in events:
                pass
        return require_result(self.result)

    async def step(self, backend: Backend) -> AsyncGenerator[Event, None]:
        """Perform one step and release the run, for a driver that saves the conversation itself.

        The hooks do not get an exception, since the driver may repeat the step.
        """
        self._abandoned = backend.abandoned
        try:
            await self.model_caller.choose_model(backend)
            async with aclosing(self._perform(self.conversation.next(), backend)) as events:
                async for event in events:
                    notify(self.tool_caller.observers, event, self.conversation.run_id)
                    yield event
        finally:
            self._release()

    def events(self, backend: Backend) -> AsyncGenerator[Event, None]:
        """Perform the steps of the conversation until it ends, and yield each event as it happens."""
        events = self._events(backend)
        return self._observe(events, self.tool_caller.observers) if self.tool_caller.observers else events

    async def _observe(
        self, events: AsyncGenerator[Event, None], observers: Sequence[Hook]
    ) -> AsyncGenerator[Event, None]:
        """Yield events after passing them to the hooks. Pass an exception that ends the run, too."""
        run_id = self.conversation.run_id
        has_ended = False
        try:
            async with aclosing(events):
                async for event in events:
                    has_ended = isinstance(event, RunFinished)
                    try:
                        notify(observers, event, run_id)
                    except BaseException as error:  # noqa: BLE001  Ctrl-C, which ends the run as anywhere else
                        await events.athrow(error)
                    yield event
        except BaseException as error:
            if not (isinstance(error, GeneratorExit) and has_ended):
                notify(observers, error, run_id)
            raise

    async def _events(self, backend: Backend) -> AsyncGenerator[Event, None]:
        self._abandoned = backend.abandoned
        conversation = self.conversation
        queue = self.tool_caller.queue
        limit = ""
        interrupts = notice_interrupts() if isinstance(backend, AsyncBackend) else nullcontext()

        with interrupts:
            async with _End(self, backend):
                model = await self.model_caller.choose_model(backend)
                self._model = model.name
                address = getattr(model, "address", "")
                yield RunStarted(run_id=conversation.run_id, model=model.name, name=self.settings.name, address=address)
                try:
                    while self.result is None:
                        if self.cancellation and not conversation.has_open_calls:  # their step skips them
                            conversation.end("cancelled")
                        if queue.has_steering:
                            for message in conversation.read_messages(queue):
                                yield MessageAdded(message)
                        step = conversation.next(time.monotonic() - self.start)
                        if conversation.limit and limit != conversation.limit:
                            limit = conversation.limit
                            yield LimitReached(limit=limit)
                        async with aclosing(self._perform(step, backend)) as events:
                            async for event in events:
                                yield event
                except Halt as halt:
                    conversation.halt(str(halt))
                    self._set_result(str(halt), "halted")
                ends = [*self.tool_caller.drop_early(), *self.closed]
                result = await self._save(backend)
                for end in ends:
                    yield end

        output = write_output(result.output)
        yield RunFinished(output=output, finish_reason=result.finish_reason, usage=result.usage)

    async def _save(self, backend: Backend) -> RunResult[T]:
        """Save the ended run, and return its result. Undo it first, if it failed and `undo_on_failure` is set."""
        if self.create_undoer or self.save_messages or self.settings.checkpoint:
            await backend.complete(partial(self._save_end, backend))
        return require_result(self.result)

    async def _save_end(self, backend: Backend) -> None:
        result = require_result(self.result)
        if self.create_undoer is not None and result.finish_reason in UNDONE_REASONS:
            result = self.result = replace(result, undos=await self.create_undoer(backend).undo())
        if self.save_messages is not None and not (result.is_paused or result.undos or result.finish_reason == "error"):
            await call_function(self.save_messages, (result.messages,), backend)
        await self._save_state(backend)

    async def _save_state(self, backend: Backend) -> None:
        if (checkpoint := self.settings.checkpoint) is not None:
            await call_function(checkpoint, (self.conversation.state,), backend)

    def leave(self) -> None:
        """Cancel the run if it has not ended, and release its resources."""
        if self.result is None:
            self._end_here("cancelled")
        self._release()

    def _release(self) -> None:
        self.cancellation.cancel()
        self.tool_caller.drop_early()
        self.active.discard(self)

    async def break_off(self, error: BaseException, backend: Backend) -> None:
        """End the run because of an exception.

        A run that failed is undone. A run that was cancelled, or whose stream was left, is undone and saved.
        """
        is_failure = isinstance(error, Exception)
        if self.result is not None and not is_failure:
            return  # the run had ended before

        program_ends = isinstance(error, EXIT_ERRORS) or sys.is_finalizing()
        has_work = self.create_undoer is not None or not is_failure
        is_saved = self._model is not None and has_work and not program_ends
        if self.result is None or is_saved:
            self._end_here("error" if is_failure else "cancelled")

        try:
            if is_saved:
                await self._save(backend)
        except Exception:  # the first exception is raised
            logger.exception("The run %s could not be undone, or not be saved.", self.conversation.run_id)
        except BaseException as again:
            if type(again) is not type(error):
                raise

    def _perform(self, step: Step, backend: Backend) -> AsyncGenerator[Event, None]:
        match step:
            case CallModel():
                return self._call_model(step, backend)
            case RunCalls():
                return self._run_calls(step, backend)
            case _:
                return self._finish_run(step)

    async def _call_model(self, step: CallModel, backend: Backend) -> AsyncGenerator[Event, None]:
        await self._save_state(backend)
        yield TurnStarted(turn=step.turn, messages=step.messages)
        started = time.time()
        partial_output = PartialOutput(self.output) if self.tool_caller.request.streams and self.output.spec else None

        try:
            async with aclosing(self.model_caller.call(step, backend)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, ModelResponse):
                        events = self._add_response(piece, step, partial_output, started)
                    else:
                        events = self._transform_piece(piece, step, partial_output, backend)
                    for event in events:
                        yield event
        except Exception as error:
            for dropped in self.tool_caller.drop_early():
                yield dropped
            if not self._end_if_over(error, self.model_caller.get_deadline(step)):
                raise

    def _end_if_over(self, error: Exception, deadline: Cancellation) -> bool:
        """End the run if the error is a stop, the time limit or a cancellation, and return whether it is."""
        if isinstance(error, Stopped):
            self.conversation.end("stopped")
            return True
        if not (isinstance(error, (TimedOut, Cancelled)) and deadline):
            return False
        if self.tool_caller.deadline.reason == DEADLINE and not self.cancellation:
            seconds = self.settings.limits.max_seconds or 0.0
            self.conversation.reach_limit("max_seconds", time.monotonic() - self.start, seconds)
        else:
            self.cancellation.cancel()  # a hook may have cancelled its context alone
        return True

    def _transform_piece(
        self, piece: Delta | CallReady, step: CallModel, partial_output: PartialOutput | None, backend: Backend
    ) -> Iterator[Event]:
        """Yield the events of a piece of a response. Start a call that is ready, if it may start early."""
        caller = self.tool_caller
        if isinstance(piece, CallReady):
            if self.settings.early and step.with_tools and caller.may_start_early(piece):
                call = self.conversation.reserve_id(piece.call, piece.position)
                if call is not None:
                    caller.start_early(call, step.turn, backend)
                    yield caller.make_start(call)
        elif partial_output is None:
            yield piece
        else:
            yield from partial_output.transform(piece)

    def _add_response(
        self, response: ModelResponse, step: CallModel, partial_output: PartialOutput | None, started: float
    ) -> Iterator[Event]:
        """Add a response to the conversation, and yield its events, with those of the calls that are refused."""
        if partial_output is not None:
            yield from partial_output.finish(response.text)
        response = self.conversation.add_response(response)
        turn = TurnFinished(turn=step.turn, response=response, seconds=max(0.0, time.time() - started), started=started)
        self.responses.append(turn)

        caller = self.tool_caller
        refused = {message.call_id: message.text for message in self.conversation.refusals}
        ends = [caller.make_end(call, make_refusal(refused[call.id])) for call in response.calls if call.id in refused]
        self.calls |= {end.call.id: end for end in ends}  # now: the stream may be left at any of the events

        yield turn
        yield from caller.report_provider_calls(response)
        if caller.early_calls:
            yield from caller.drop_early(but=response.calls)
        for end in ends:
            if end.call.id not in caller.early_calls:
                yield caller.make_start(end.call)
            yield end

        if response.calls and len(refused) == len(response.calls):
            caller.drop_early()
            yield ResultsAdded(turn=step.turn, messages=self.conversation.refusals)

    async def _run_calls(self, step: RunCalls, backend: Backend) -> AsyncGenerator[Event, None]:
        if self.handoff is not None and not step.turn:
            yield TurnStarted(turn=0)
            yield TurnFinished(turn=0, response=self.handoff)
        caller = self.tool_caller
        turn = TurnCalls(caller, step, self.calls)

        try:
            await self._save_state(backend)
            for batch in turn.batches:
                for start in turn.start(batch):
                    yield start
                async with aclosing(turn.run(batch, backend)) as events:
                    async for event in events:
                        for recorded in turn.record(event):
                            yield recorded
        except BaseException as failure:
            ends = turn.break_off(backend)
            self.conversation.record_results(turn.messages)
            for end in ends if isinstance(failure, Exception) else ():  # nobody reads on after a cancellation
                yield end
            raise
        finally:
            caller.end_turn()

        messages = self.conversation.end_turn(
            turn.messages, turn.pending, turn.sub_agents, is_stopped=turn.is_stopped, find_answer=caller.find_answer
        )
        if (error := turn.error) is not None:
            raise error
        if messages and caller.request.streams:
            yield ResultsAdded(turn=step.turn, messages=tuple(messages))

    async def _finish_run(self, step: Finished | Paused) -> AsyncGenerator[Event, None]:
        """Set the result, unless the user has added a message or the answer is not of the output type."""
        if isinstance(step, Paused):
            self._set_result("", "paused")
            return
        if step.reason in REASONS_WITHOUT_ANSWER:
            self._set_result(step.output, step.reason)
            return

        try:
            output = self.output.parse(step.output)
        except ToolError as error:
            self.conversation.reject_answer(error.text, self.output.remedy)
            return

        messages = self.conversation.read_messages(self.tool_caller.queue)
        if not messages:
            self._set_result(output, step.reason)
        for message in messages:
            yield MessageAdded(message)

    def _end_here(self, reason: FinishReason) -> None:
        self.conversation.end(reason)
        self._set_result(self.conversation.text, reason)

    def _set_result(self, output: Any, reason: FinishReason) -> None:
        """Set the result, and end the calls that have none.

        The output is None if there is only text and the output type is another one.
        """
        is_text = isinstance(output, str) and reason in UNTYPED_REASONS
        state = self.conversation.state
        calls = [call for message in state.messages if isinstance(message, ModelResponse) for call in message.calls]
        refused = {message.call_id: message.text for message in self.conversation.refusals}
        for call in calls:
            if call.id in refused and call.id not in self.calls:
                self.calls[call.id] = self.tool_caller.make_end(call, make_refusal(refused[call.id]))
                self.closed.append(self.calls[call.id])

        self.result = RunResult(
            output=None if is_text and self.output.spec else output,  # type: ignore[arg-type]  # as documented
            messages=state.messages,
            calls=tuple([self.calls[call.id] for call in calls if call.id in self.calls]),
            usage=state.usage,
            cost=self.conversation.cost,
            responses=tuple(self.responses),
            finish_reason=reason,
            model=self._model or "",
            state=state,
            unread=self.tool_caller.queue.close(),
            abandoned=len(self._abandoned),
        )


@dataclass(frozen=True)
class _End:
    """Completes the history, sets a result and releases the run, however it ends.

    This is a class, since an event loop that ends closes all async generators at the same time, and a generator that is
    waiting cannot be closed again.
    """

    run: Run[Any]
    backend: Backend

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            if error is not None:  # also when the task is cancelled
                await self.run.break_off(error, self.backend)
                if not isinstance(error, GeneratorExit):
                    with suppress(AttributeError):  # the user's own exception may have a property of this name
                        error.result = self.run.result  # type: ignore[attr-defined]  # for whoever catches it
        finally:
            self.run.leave()
