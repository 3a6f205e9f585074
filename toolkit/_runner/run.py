"""One run: drives its conversation through a backend, and tells what happens.

How a run ends: with a result, whatever it was that ended it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence, Sized
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Generic

from typing_extensions import TypeVar

from toolkit._concurrency.backend import Backend, call_function
from toolkit._concurrency.cancellation import DEADLINE, Cancellation
from toolkit._messages import REASONS_WITHOUT_ANSWER, ModelResponse, ToolResult, UserMessage
from toolkit._runner.control import ActiveRuns, MessageQueue
from toolkit._runner.conversation import STOPPED_TEXT, Conversation
from toolkit._runner.model_call import ModelCaller
from toolkit._runner.output import Output, Partial
from toolkit._runner.result import RunResult, ended
from toolkit._runner.state import CallModel, Finished, Paused, RunCalls, RunState, Step
from toolkit._runner.tool_calls import ToolCaller
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
class Ending(Generic[T]):
    """Makes the result of a run.

    Attributes:
        calls: What came of the calls, by their ids.
        model: Which model it is, for people.
        abandoned: The functions that were given up and may still be at work.
        result: What came of the run, once it has ended.
    """

    conversation: Conversation
    output: Output[T]
    inbox: MessageQueue
    calls: dict[str, ToolCallFinished] = field(default_factory=dict)
    model: str = ""
    abandoned: Sized = ()
    result: RunResult[T] | None = None

    def end(self, output: Any, reason: str) -> None:
        """Make the result; a text that is no value of the output type is left out."""
        is_text = isinstance(output, str) and reason in (*REASONS_WITHOUT_ANSWER, "halted")
        state = self.conversation.state
        calls = (call.id for message in state.messages if isinstance(message, ModelResponse) for call in message.calls)
        self.result = RunResult(
            output=None if is_text and self.output.asked else output,  # type: ignore[arg-type]  # as documented
            messages=state.messages,
            calls=tuple(self.calls[call_id] for call_id in calls if call_id in self.calls),
            usage=state.usage,
            finish_reason=reason,
            model=self.model,
            state=state,
            unread=self.inbox.close(),
            abandoned=len(self.abandoned),
        )

    def cut(self, reason: str) -> None:
        """End the conversation where it stands."""
        self.conversation.end(reason)
        self.end(self.conversation.text, reason)

    def break_off(self, error: BaseException) -> None:
        """Leave a history that is whole, and the result with it."""
        if self.result is None:
            self.cut("error" if isinstance(error, Exception) else "cancelled")
        if not isinstance(error, GeneratorExit):
            with suppress(AttributeError):  # of the user's own class, which has another use for the name
                error.result = self.result  # type: ignore[attr-defined]  # whoever catches it finds what there is


@dataclass(kw_only=True, eq=False)
class Run(Generic[T]):
    """One run: drives its conversation through a backend.

    Attributes:
        asking: How it asks the model.
        calling: How it has calls carried out.
        ending: Makes its result.
        checkpoint: Gets the state before each step.
    """

    run_id: str
    conversation: Conversation
    choice: ModelChoice
    asking: ModelCaller
    calling: ToolCaller
    ending: Ending[T]
    roster: ActiveRuns[Run[Any]]
    checkpoint: Callable[[RunState], Any] | None = None
    _limit: str = ""

    def __post_init__(self) -> None:
        self.roster.enter(self)

    @property
    def stop(self) -> Cancellation:
        """What calls the run off."""
        return self.asking.stop

    @property
    def inbox(self) -> MessageQueue:
        """What is said to the run."""
        return self.calling.inbox

    @property
    def result(self) -> RunResult[T] | None:
        """What came of the run, once it has ended."""
        return self.ending.result

    async def events(
        self, backend: Backend, pick: Callable[[ModelChoice], Awaitable[Model]]
    ) -> AsyncGenerator[Event, None]:
        """Do what the conversation says, until it is over."""
        self.ending.abandoned = backend.abandoned
        try:
            model = await pick(self.choice)
            self.ending.model = model.name
            yield RunStarted(run_id=self.run_id, model=model.name)
            async with aclosing(self._steps(model, backend)) as happened:
                async for event in happened:
                    yield event
        except BaseException as error:
            self.ending.break_off(error)
            raise
        finally:
            self.leave()
        result = ended(self.result)
        output = "" if result.output is None else str(result)
        yield RunFinished(output=output, finish_reason=result.finish_reason, usage=result.usage)

    def leave(self) -> None:
        """Let go of whatever the run has; one that has not ended ends here."""
        if self.result is None:
            self.ending.cut("cancelled")
        self.stop.cancel()
        self.stop.close()
        self.calling.early.drop()
        self.roster.leave(self)

    async def _steps(self, model: Model, backend: Backend) -> AsyncGenerator[Event, None]:
        try:
            while self.result is None:
                for event in self._heard():
                    yield event
                todo = self.conversation.next(self.asking.spent)
                for event in self._limited():
                    yield event
                async with aclosing(self._done(todo, model, backend)) as happened:
                    async for event in happened:
                        yield event
        except Halt as halt:
            self.conversation.end("halted", output=str(halt))
            self.ending.end(str(halt), "halted")
        for event in self.calling.early.drop():
            yield event

    def _heard(self) -> Sequence[Event]:
        """Take into the conversation what comes from outside: that the run is called off, or what the user says."""
        if self.stop:
            self.conversation.end("cancelled")
        return self._said(self.inbox.read)

    def _said(self, read: Callable[[], list[UserMessage]]) -> Sequence[Event]:
        said = read() if self.conversation.hears else []
        if said:
            self.conversation.say(said)
        return [MessageAdded(message) for message in said]

    def _limited(self) -> Iterator[Event]:
        """Tell of a limit, once."""
        if (limit := self.conversation.limit) != self._limit:
            self._limit = limit
            yield LimitReached(limit=limit)

    def _done(self, todo: Step, model: Model, backend: Backend) -> AsyncGenerator[Event, None]:
        if isinstance(todo, CallModel):
            return self._ask(todo, model, backend)
        return self._carry_out(todo, backend) if isinstance(todo, RunCalls) else self._finish(todo)

    async def _finish(self, todo: Finished | Paused) -> AsyncGenerator[Event, None]:
        """Make the result; or go on, with what the user says to the answer, or because it is none."""
        if isinstance(todo, Paused):
            self.ending.end("", "paused")
            return
        if todo.reason in REASONS_WITHOUT_ANSWER:
            self.ending.end(todo.output, todo.reason)
            return
        try:
            output = self.asking.output.read(todo.output)
        except ToolError as error:
            self.conversation.refuse(error.text, self.asking.output.remedy)
            return
        said = self._said(self.inbox.last)
        if not said:
            self.ending.end(output, todo.reason)
        for event in said:
            yield event

    async def _put_away(self, backend: Backend) -> None:
        if self.checkpoint is not None:
            await call_function(self.checkpoint, (self.conversation.state,), backend)

    async def _ask(self, todo: CallModel, model: Model, backend: Backend) -> AsyncGenerator[Event, None]:
        await self._put_away(backend)
        yield TurnStarted(turn=todo.turn)
        response: ModelResponse | None = None
        partial = Partial(self.asking.output) if self.asking.streams else None
        try:
            with self.asking.time(todo) as cancellation:
                async with aclosing(self.asking.answered(todo, model, backend, cancellation)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, ModelResponse):
                            response = piece
                        for event in self._shown(piece, todo, partial, backend):
                            yield event
                response = await self._heard_by_hooks(response, model, backend, cancellation)
        except Exception as error:
            for event in self.calling.early.drop():
                yield event
            if not (isinstance(error, (TimedOut, Cancelled)) and self.asking.span(todo)):
                raise
            self._give_up()
            return
        for event in self._responded(response, todo, partial):
            yield event

    async def _heard_by_hooks(
        self, response: ModelResponse | None, model: Model, backend: Backend, cancellation: Cancellation
    ) -> ModelResponse:
        """Let the hooks see, and change, what the model answered; its cost is counted whatever they do."""
        if response is None:
            raise RunError(f"{model!r} ended its stream without a ModelResponse.")
        self.conversation.charge(response)
        return await self.asking.hooks.after_model(response, backend, cancellation)

    def _shown(self, piece: Piece, todo: CallModel, partial: Partial | None, backend: Backend) -> Iterator[Event]:
        if isinstance(piece, CallReady):
            yield from self._begin_early(piece, todo, backend)
        elif partial is not None and not isinstance(piece, ModelResponse):
            yield from partial.shown(piece)

    def _begin_early(self, ready: CallReady, todo: CallModel, backend: Backend) -> Iterator[Event]:
        """Begin a call of a tool that only reads, while the answer is still arriving."""
        if not (self.asking.early and todo.with_tools and self.calling.begins_early(ready)):
            return
        if call := self.conversation.foresee(ready.call, ready.position):
            self.calling.start_early(call, todo.turn, backend)
            yield ToolCallStarted(call)

    def _give_up(self) -> None:
        """Leave an answer that comes too late: for the run's time, or because nobody wants it any more."""
        if self.asking.work.reason == DEADLINE and not self.stop:
            self.conversation.land("seconds")

    def _responded(self, response: ModelResponse, todo: CallModel, partial: Partial | None) -> Iterator[Event]:
        if partial is not None:
            yield from partial.end(response.text)
        response = self.conversation.respond(response)
        yield TurnFinished(turn=todo.turn, response=response)
        yield from self.calling.early.drop(but=response.calls)
        refused = {told.call_id: told.text for told in self.conversation.refused}
        for call in response.calls:
            if call.id in refused:
                text = refused[call.id]
                if call.id not in self.calling.early:
                    yield ToolCallStarted(call)
                finished = ToolCallFinished(call, ToolResult(text=text, error=text, kind="cancelled"), 0.0)
                self.ending.calls[call.id] = finished
                yield finished
        if not any(call.id not in refused for call in response.calls):
            self.calling.early.drop()

    async def _carry_out(self, todo: RunCalls, backend: Backend) -> AsyncGenerator[Event, None]:
        await self._put_away(backend)
        turn = self.calling.begun(todo)
        try:
            async with aclosing(turn.events(backend)) as happened:
                async for event in happened:
                    yield event
        except BaseException:
            turn.break_off(backend)
            self.conversation.note(turn.messages)
            raise
        finally:
            self.ending.calls |= turn.finished
            self.calling.settle()
        told = self.conversation.answer(turn.messages, turn.waiting)
        if (error := turn.raised) is not None:
            raise error
        if turn.is_stopped:
            self.conversation.end("stopped", text=STOPPED_TEXT)
        elif (direct := self.calling.direct(told)) is not None:
            self.conversation.end("stop", output=direct)
