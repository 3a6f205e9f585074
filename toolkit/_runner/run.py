"""One run: do what its conversation says, report the events, and make the result.

`Run.events` is the loop. The conversation (`conversation.py`) says what to do next; the model is called in
`model_call.py`, the calls of a turn are executed in `tool_calls.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence, Sized
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic

from typing_extensions import TypeVar

from toolkit._concurrency.backend import Backend, call_function
from toolkit._concurrency.cancellation import DEADLINE, Cancellation
from toolkit._messages import REASONS_WITHOUT_ANSWER, ModelResponse, ToolResult, UserMessage
from toolkit._runner.control import ActiveRuns, MessageQueue
from toolkit._runner.conversation import STOPPED_TEXT, Conversation
from toolkit._runner.model_call import ModelCaller
from toolkit._runner.output import Output, PartialOutput
from toolkit._runner.result import RunResult, require_result
from toolkit._runner.state import CallModel, Finished, Paused, RunCalls, RunState, Step
from toolkit._runner.tool_calls import ToolCaller, Turn
from toolkit.errors import Cancelled, Halt, RunError, TimedOut, ToolError
from toolkit.events import (
    Event,
    LimitReached,
    MessageAdded,
    RunFinished,
    RunStarted,
    ToolCallFinished,
    ToolCallStarted,
    TurnFinished,
    TurnStarted,
)
from toolkit.models import CallReady, Model, Piece
from toolkit.models.default import ModelChoice

T = TypeVar("T", default=str)


@dataclass(kw_only=True, eq=False)
class Run(Generic[T]):
    """One run of a runner.

    Attributes:
        choice: Chooses the model when the run starts.
        active: The runner's active runs, of which this is one until it ends.
        queue: Messages that the user adds while it runs.
        cancellation: Cancels the run.
        checkpoint: Called with the state before each step.
        calls: Ends of calls by call id, those of the state that was resumed included.
        result: None until the run has ended.
    """

    conversation: Conversation
    choice: ModelChoice
    model_caller: ModelCaller
    tool_caller: ToolCaller
    output: Output[T]
    active: ActiveRuns[Run[Any]]
    queue: MessageQueue
    cancellation: Cancellation
    checkpoint: Callable[[RunState], Any] | None = None
    calls: dict[str, ToolCallFinished] = field(default_factory=dict)
    result: RunResult[T] | None = None
    _model: str = ""
    _abandoned: Sized = ()
    _limit: str = ""

    async def events(
        self, backend: Backend, choose: Callable[[ModelChoice], Awaitable[Model]]
    ) -> AsyncGenerator[Event, None]:
        """Do what the conversation says until it has ended, giving each event as it happens."""
        self._abandoned = backend.abandoned
        with self._ending():
            model = await choose(self.choice)
            self._model = model.name
            yield RunStarted(run_id=self.conversation.run_id, model=model.name)
            try:
                while self.result is None:
                    if self.cancellation:
                        self.conversation.end("cancelled")
                    for added in self._read_messages(self.queue.take_steering):
                        yield added
                    step = self.conversation.next(self.model_caller.elapsed)
                    if self._limit != self.conversation.limit:
                        self._limit = self.conversation.limit
                        yield LimitReached(limit=self._limit)
                    async with aclosing(self._perform(step, model, backend)) as events:
                        async for event in events:
                            yield event
            except Halt as halt:
                self.conversation.end("halted", output=str(halt))
                self._set_result(str(halt), "halted")
            for dropped in self.tool_caller.early.drop():
                yield dropped
        result = require_result(self.result)
        output = "" if result.output is None else str(result)
        yield RunFinished(output=output, finish_reason=result.finish_reason, usage=result.usage)

    def leave(self) -> None:
        """Release what the run holds; one that has not ended is cancelled."""
        if self.result is None:
            self._end_here("cancelled")
        self.cancellation.cancel()
        self.cancellation.close()
        self.tool_caller.early.drop()
        self.active.discard(self)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Leave a whole history and a result behind, however the run ends."""
        try:
            yield
        except BaseException as error:
            if self.result is None:
                self._end_here("error" if isinstance(error, Exception) else "cancelled")
            if not isinstance(error, GeneratorExit):
                with suppress(AttributeError):  # the user's own exception may use the name for something else
                    error.result = self.result  # type: ignore[attr-defined]  # for whoever catches it
            raise
        finally:
            self.leave()

    def _perform(self, step: Step, model: Model, backend: Backend) -> AsyncGenerator[Event, None]:
        match step:
            case CallModel():
                return self._call_model(step, model, backend)
            case RunCalls():
                return self._run_calls(step, backend)
            case _:
                return self._finish(step)

    async def _call_model(self, step: CallModel, model: Model, backend: Backend) -> AsyncGenerator[Event, None]:
        await self._save_checkpoint(backend)
        yield TurnStarted(turn=step.turn)
        response: ModelResponse | None = None
        partial = PartialOutput(self.output) if self.model_caller.streams else None
        try:
            with self.model_caller.time(step) as cancellation:
                async with aclosing(self.model_caller.call(step, model, backend, cancellation)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, ModelResponse):
                            response = piece
                        for event in self._stream_events(piece, step, partial, backend):
                            yield event
                if response is None:
                    raise RunError(f"{model!r} ended its stream without a ModelResponse.")  # noqa: TRY301  as if the model raised it
                self.conversation.add_usage(response)  # its cost counts, whatever the hooks do
                response = await self.model_caller.hooks.after_model(response, backend, cancellation)
        except Exception as error:
            for dropped in self.tool_caller.early.drop():
                yield dropped
            if not (isinstance(error, (TimedOut, Cancelled)) and self.model_caller.deadline_of(step)):
                raise
            if self.model_caller.deadline.reason == DEADLINE and not self.cancellation:
                self.conversation.reach_limit("max_seconds")
            return
        for event in self._respond(response, step, partial):
            yield event

    def _stream_events(
        self, piece: Piece, step: CallModel, partial: PartialOutput | None, backend: Backend
    ) -> Iterator[Event]:
        if isinstance(piece, CallReady):
            if self.model_caller.early and step.with_tools and self.tool_caller.may_start_early(piece):
                call = self.conversation.reserve_id(piece.call, piece.position)
                if call is not None:
                    self.tool_caller.start_early(call, step.turn, backend)
                    yield ToolCallStarted(call)
        elif partial is not None and not isinstance(piece, ModelResponse):
            yield from partial.transform(piece)

    def _respond(self, response: ModelResponse, step: CallModel, partial: PartialOutput | None) -> Iterator[Event]:
        """Add a response to the conversation, and end the calls that it refuses."""
        if partial is not None:
            yield from partial.finish(response.text)
        response = self.conversation.add_response(response)
        yield TurnFinished(turn=step.turn, response=response)
        early = self.tool_caller.early
        yield from early.drop(but=response.calls)
        refused = {message.call_id: message.text for message in self.conversation.refusals}
        for call in response.calls:
            if call.id in refused:
                text = refused[call.id]
                if call.id not in early:
                    yield ToolCallStarted(call)
                self.calls[call.id] = ToolCallFinished(call, ToolResult(text=text, error=text, kind="cancelled"), 0.0)
                yield self.calls[call.id]
        if len(refused) == len(response.calls):
            early.drop()

    async def _run_calls(self, step: RunCalls, backend: Backend) -> AsyncGenerator[Event, None]:
        await self._save_checkpoint(backend)
        turn = Turn(self.tool_caller, step)
        try:
            for batch in turn.batches:
                for call in batch:
                    if call.id not in self.tool_caller.early:
                        yield ToolCallStarted(call)
                async with aclosing(turn.run(batch, backend)) as events:
                    async for event in events:
                        if (recorded := turn.record(event)) is not None:
                            yield recorded
        except BaseException:
            turn.break_off(backend)
            self.conversation.record_results(turn.messages)
            raise
        finally:
            self.calls |= turn.finished
            self.tool_caller.end_turn()
        self._answer(turn)

    def _answer(self, turn: Turn) -> None:
        """Add the results of a turn to the conversation; end the run if they say so."""
        messages = self.conversation.add_results(turn.messages, turn.pending)
        if (error := turn.error) is not None:
            raise error
        if turn.is_stopped:
            self.conversation.end("stopped", text=STOPPED_TEXT)
        elif (direct := self.tool_caller.direct_answer(messages)) is not None:
            self.conversation.end("stop", output=direct)

    async def _finish(self, step: Finished | Paused) -> AsyncGenerator[Event, None]:
        """Make the result; or go on, since the user has added a message or the answer is not of the output type."""
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
        added = self._read_messages(self.queue.take_or_close)
        if not added:
            self._set_result(output, step.reason)
        for event in added:
            yield event

    def _read_messages(self, read: Callable[[], list[UserMessage]]) -> Sequence[Event]:
        """Add the user's messages to the conversation, if it takes any now."""
        messages = read() if self.conversation.may_add_messages else []
        if messages:
            self.conversation.add_messages(messages)
        return [MessageAdded(message) for message in messages]

    async def _save_checkpoint(self, backend: Backend) -> None:
        if self.checkpoint is not None:
            await call_function(self.checkpoint, (self.conversation.state,), backend)

    def _end_here(self, reason: str) -> None:
        self.conversation.end(reason)
        self._set_result(self.conversation.text, reason)

    def _set_result(self, output: Any, reason: str) -> None:
        """Make the result; text that is not of the output type is left out."""
        is_text = isinstance(output, str) and reason in (*REASONS_WITHOUT_ANSWER, "halted")
        state = self.conversation.state
        calls = [call.id for message in state.messages if isinstance(message, ModelResponse) for call in message.calls]
        self.result = RunResult(
            output=None if is_text and self.output.spec else output,  # type: ignore[arg-type]  # as documented
            messages=state.messages,
            calls=tuple(self.calls[call_id] for call_id in calls if call_id in self.calls),
            usage=state.usage,
            finish_reason=reason,
            model=self._model,
            state=state,
            unread=self.queue.close(),
            abandoned=len(self._abandoned),
        )
