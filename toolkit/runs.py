"""One run: drives its conversation through a door, and tells what happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic

from typing_extensions import Self, TypeVar

from toolkit.cancellation import Cancellation
from toolkit.context import ToolContext
from toolkit.conversation import CallModel, Conversation, Finished, RunCalls
from toolkit.dispatch import Dispatcher
from toolkit.doors import AsyncDoor, Door, SyncDoor, step
from toolkit.errors import RunError, ToolError
from toolkit.events import Event, RunFinished, RunStarted, ToolCallFinished, ToolCallStarted, TurnFinished, TurnStarted
from toolkit.execution import execute
from toolkit.messages import (
    Message,
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Usage,
)
from toolkit.models import Model, Piece
from toolkit.models.default import ModelChoice
from toolkit.output import Output
from toolkit.state import RunState

T = TypeVar("T", default=str)


@dataclass(frozen=True, kw_only=True)
class RunResult(Generic[T]):
    """What came of a run.

    Attributes:
        output: The model's answer: text, or a value of the run's `output_type`.
        messages: The whole conversation; give it to the next run to go on.
        calls: Every call with its result, in the order of the conversation.
        usage: Tokens and requests, summed over the run.
        finish_reason: Why it ended: `stop`; or `max_turns`, `length`, `content_filter`, `empty`.
        model: Which model it was, for people.
        state: The run as plain data.
    """

    output: T
    messages: tuple[Message, ...] = field(repr=False)
    calls: tuple[ToolCallFinished, ...] = field(repr=False)
    usage: Usage
    finish_reason: str
    model: str
    state: RunState = field(repr=False)

    def __str__(self) -> str:
        return str(self.output)


@dataclass(kw_only=True)
class Run(Generic[T]):
    """One run: drives its conversation through a door."""

    run_id: str
    conversation: Conversation
    choice: ModelChoice
    specs: tuple[ToolSpec, ...]
    dispatcher: Dispatcher
    output: Output[T]
    deps: Any
    streams: bool
    memo: list[dict[str, Any]] = field(default_factory=list)
    calls: list[ToolCallFinished] = field(default_factory=list)
    cancellation: Cancellation = field(default_factory=Cancellation)
    result: RunResult[T] | None = None

    async def events(self, door: Door, pick: Callable[[ModelChoice], Awaitable[Model]]) -> AsyncGenerator[Event, None]:
        """Do what the conversation says, until it is over."""
        model = await pick(self.choice)
        yield RunStarted(run_id=self.run_id, model=model.name)
        try:
            async with aclosing(self._turns(model, door)) as happened:
                async for event in happened:
                    yield event
        finally:
            self.cancellation.cancel()
        result = _ended(self)
        yield RunFinished(output=str(result), finish_reason=result.finish_reason, usage=result.usage)

    async def _turns(self, model: Model, door: Door) -> AsyncGenerator[Event, None]:
        while todo := self._next(model.name):
            async with aclosing(self._done(todo, model, door)) as happened:
                async for event in happened:
                    yield event

    def _next(self, model: str) -> CallModel | RunCalls | None:
        """Say what to do; nothing once there is a result."""
        todo = self.conversation.next()
        if not isinstance(todo, Finished):
            return todo
        self.result = self._finished(todo, model)
        return None if self.result else self._next(model)

    def _done(self, todo: CallModel | RunCalls, model: Model, door: Door) -> AsyncGenerator[Event, None]:
        return self._ask(todo, model, door) if isinstance(todo, CallModel) else self._carry_out(todo, door)

    async def _ask(self, todo: CallModel, model: Model, door: Door) -> AsyncGenerator[Event, None]:
        yield TurnStarted(turn=todo.turn)
        tools = self.specs if todo.with_tools else ()
        request = ModelRequest(messages=todo.messages, tools=tools, output=self.output.asked, memo=self.memo)
        response: ModelResponse | None = None
        async with aclosing(self._answered(request, model, door)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelResponse):
                    response = piece
                else:
                    yield piece
        if response is None:
            raise RunError(f"{model!r} ended its stream without a ModelResponse.")
        response = self.conversation.respond(response)
        yield TurnFinished(turn=todo.turn, response=response)
        for call, told in zip(response.calls, self.conversation.refused):
            yield ToolCallStarted(call)
            result = ToolResult(text=told.text, error=told.text, kind="cancelled")
            self.calls.append(ToolCallFinished(call, result, 0.0))
            yield self.calls[-1]

    async def _answered(self, request: ModelRequest, model: Model, door: Door) -> AsyncGenerator[Piece, None]:
        if not self.streams:
            yield await door.call(lambda: model.complete(request), is_async=model.is_async)
            return
        async with aclosing(door.iterate(model.stream(request), is_async=model.is_async)) as pieces:
            async for piece in pieces:
                yield piece

    async def _carry_out(self, todo: RunCalls, door: Door) -> AsyncGenerator[Event, None]:
        finished: dict[str, ToolCallFinished] = {}

        async def one(call: ToolCall) -> ToolResult:
            context = ToolContext(
                deps=self.deps,
                run_id=self.run_id,
                call_id=call.id,
                provider_call_id=call.provider_call_id,
                iteration=todo.turn,
                cancellation=self.cancellation,
            )
            return await self.dispatcher.dispatch(call, context, door)

        async with aclosing(execute(todo.calls, one, door)) as happened:
            async for event in happened:
                if isinstance(event, ToolCallFinished):
                    finished[event.call.id] = event
                yield event
        self.calls += [finished[call.id] for call in todo.calls]
        self.conversation.answer([_told(event) for event in finished.values()])

    def _finished(self, end: Finished, model: str) -> RunResult[T] | None:
        """Make the result; None where the answer is refused, and to be asked for again."""
        try:
            output = self.output.read(end.output)
        except ToolError as error:
            self.conversation.refuse(error.text, self.output.remedy)
            return None
        state = self.conversation.state
        return RunResult(
            output=output,
            messages=state.messages,
            calls=tuple(self.calls),
            usage=state.usage,
            finish_reason=end.reason,
            model=model,
            state=state,
        )


class RunStream(Generic[T]):
    """The events of a run, as an iterator and a context manager; `result` is there once it has ended."""

    def __init__(self, run: Run[T]) -> None:
        self._run = run
        self._events = run.events(SyncDoor(), _in_place)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        try:
            return step(self._events.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the run where it stands."""
        step(self._events.aclose())

    @property
    def result(self) -> RunResult[T]:
        """What came of the run.

        Raises:
            RunError: It has not ended.
        """
        return _ended(self._run)


class AsyncRunStream(Generic[T]):
    """The events of a run, as an async iterator and an async context manager."""

    def __init__(self, run: Run[T]) -> None:
        self._run = run
        self._events = run.events(AsyncDoor(), _in_loop)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await self._events.__anext__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the run where it stands."""
        await self._events.aclose()

    @property
    def result(self) -> RunResult[T]:
        """What came of the run.

        Raises:
            RunError: It has not ended.
        """
        return _ended(self._run)


async def _in_place(choice: ModelChoice) -> Model:
    return choice.sync_model()


async def _in_loop(choice: ModelChoice) -> Model:
    return await choice.async_model()


def _ended(run: Run[T]) -> RunResult[T]:
    if run.result is None:
        raise RunError("The run has not ended: draw its events to the end first.")
    return run.result


def _told(event: ToolCallFinished) -> ToolMessage:
    call, result = event.call, event.result
    return ToolMessage(
        call_id=call.id, name=call.name, text=result.text or "", is_error=result.is_error, images=result.images
    )
