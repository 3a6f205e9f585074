"""The loop: schemas to the model, its calls to the tools, the results back, until there is an answer."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from typing_extensions import Self, TypedDict, Unpack

from toolkit.approval import Approver
from toolkit.authorization import Authorizer
from toolkit.context import ToolContext
from toolkit.conversation import CallModel, Conversation, Finished, RunCalls, RunState
from toolkit.dialects import dialect_named
from toolkit.dialects.chat import decoded
from toolkit.dispatch import Dispatcher
from toolkit.doors import AsyncDoor, Door, SyncDoor, step
from toolkit.errors import RunError
from toolkit.events import Event, RunFinished, RunStarted, ToolCallFinished, TurnFinished, TurnStarted
from toolkit.execution import execute
from toolkit.limits import Limits, OnLimit
from toolkit.messages import (
    Message,
    ModelRequest,
    ModelResponse,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)
from toolkit.middleware import Middleware
from toolkit.models import Model
from toolkit.models.default import ModelChoice
from toolkit.toolbox import Addable, Toolbox

History = Iterable[Message | Mapping[str, Any]]


class RunnerOptions(TypedDict, total=False):
    """What a Runner takes besides toolbox, model and instructions.

    Attributes:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`; one is made where none is given.
        base_url: Address of an OpenAI-compatible server, such as "http://localhost:11434/v1".
        dialect: How tools are shown: "chat" (native tool calls) or "calls" (by `response_format`).
        on_limit: What happens after the last turn: "answer", "stop" or "raise".
        request_options: Further keys of each request, such as `temperature`.
        authorize: May this call be made at all? Gets tool, arguments and context.
        approve: Does somebody agree? Gets an ApprovalRequest.
        middleware: Wraps the whole line of each call, the first one outermost.
    """

    client: Any
    base_url: str
    dialect: str
    on_limit: OnLimit
    request_options: Mapping[str, Any]
    authorize: Authorizer
    approve: Approver
    middleware: Sequence[Middleware]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What came of a run.

    Attributes:
        output: The model's answer.
        messages: The whole conversation; give it to the next run to go on.
        calls: Every call with its result, in the order of the conversation.
        usage: Tokens and requests, summed over the run.
        finish_reason: Why it ended: `stop`; or `max_turns`, `length`, `content_filter`, `empty`.
        model: Which model it was, for people.
        state: The run as plain data.
    """

    output: str
    messages: tuple[Message, ...] = field(repr=False)
    calls: tuple[ToolCallFinished, ...] = field(repr=False)
    usage: Usage
    finish_reason: str
    model: str
    state: RunState = field(repr=False)

    def __str__(self) -> str:
        return self.output


class Runner:
    """Lets a model work with a toolbox. One runner may have many runs, one after the other or at the same time.

    Args:
        toolbox: Tools, or anything that a Toolbox takes. What it holds when a run begins is what that run has.
        model: The model's name at its server; or a model of your own, with `complete` and `stream`.
        instructions: What the model is told before every conversation.
        max_turns: Answers of the model that may call tools; then one last answer without.
        **options: See RunnerOptions.

    Raises:
        ValueError: An option has no such value.
        TypeError: There is no such option, or the model is none.

    Example:
        >>> from toolkit.testing import ScriptedModel, call
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> runner = Runner([add], model=ScriptedModel([[call("add", a=15, b=27)], "It is 42."]))
        >>> runner.run("What is 15 + 27?").output
        'It is 42.'
    """

    def __init__(
        self,
        toolbox: Toolbox | Iterable[Addable] = (),
        *,
        model: str | Model | None = None,
        instructions: str = "",
        max_turns: int = 10,
        **options: Unpack[RunnerOptions],
    ) -> None:
        _refuse_unknown(options)
        if not isinstance(model, (str, Model, type(None))):
            raise TypeError(f"model={model!r} is neither a model's name nor a Model. A client goes in as client=...")
        dialect = dialect_named(options["dialect"]) if "dialect" in options else None
        self.toolbox = toolbox if isinstance(toolbox, Toolbox) else Toolbox(toolbox)
        self.instructions = instructions
        self.limits = Limits(turns=max_turns, on_limit=options.get("on_limit", "answer"))
        self._model = model if isinstance(model, Model) else None
        self._choice = ModelChoice(
            name=model if isinstance(model, str) else None,
            client=options.get("client"),
            base_url=options.get("base_url"),
            dialect=dialect,
            options=options.get("request_options", {}),
        )
        self._options = options

    def __repr__(self) -> str:
        return f"<Runner of {self.toolbox!r}>"

    def run(self, prompt: str | None = None, *, messages: History = (), deps: Any = None) -> RunResult:
        """Ask the model, and carry out its calls until it has an answer.

        Works in a script and inside a running event loop alike. A single call of a turn runs on the caller's thread.

        Args:
            prompt: What the user says.
            messages: What was said before: the messages of another result, or a history in OpenAI's form.
            deps: What tools find in their ToolContext.

        Raises:
            ModelError: The model's server failed.
            NoModelError: Nothing says which model should answer.
            LimitError: The turns are used up, and `on_limit="raise"`.
            FatalError: A tool raised it.
        """
        with RunStream(self._begin(prompt, messages, deps, streams=False)) as stream:
            for _ in stream:
                pass
            return stream.result

    async def arun(self, prompt: str | None = None, *, messages: History = (), deps: Any = None) -> RunResult:
        """Do what `run` does, in the running event loop; sync tools get threads of their own."""
        async with AsyncRunStream(self._begin(prompt, messages, deps, streams=False)) as stream:
            async for _ in stream:
                pass
            return stream.result

    def stream(self, prompt: str | None = None, *, messages: History = (), deps: Any = None) -> RunStream:
        """Do what `run` does, and give the events as they happen; leaving the loop early ends the run."""
        return RunStream(self._begin(prompt, messages, deps, streams=True))

    def astream(self, prompt: str | None = None, *, messages: History = (), deps: Any = None) -> AsyncRunStream:
        """Do what `stream` does, in the running event loop."""
        return AsyncRunStream(self._begin(prompt, messages, deps, streams=True))

    def _begin(self, prompt: str | None, messages: History, deps: Any, *, streams: bool) -> _Run:
        said = decoded(messages)
        if prompt is not None:
            said.append(UserMessage(prompt))
        if not said:
            raise ValueError("There is nothing to answer: pass a prompt, or messages.")
        if self.instructions and not any(isinstance(message, SystemMessage) for message in said):
            said.insert(0, SystemMessage(self.instructions))
        tools = self.toolbox.snapshot()
        run_id = uuid.uuid4().hex
        return _Run(
            run_id=run_id,
            conversation=Conversation(said, run_id=run_id, limits=self.limits),
            model=self._model or self._choice,
            specs=tuple(made.spec for made in tools.values()),
            dispatcher=Dispatcher(
                tools=tools,
                authorizer=self._options.get("authorize"),
                approver=self._options.get("approve"),
                middleware=tuple(self._options.get("middleware", ())),
            ),
            deps=deps,
            streams=streams,
        )


@dataclass(kw_only=True)
class _Run:
    """One run: drives its conversation through a door."""

    run_id: str
    conversation: Conversation
    model: Model | ModelChoice
    specs: tuple[ToolSpec, ...]
    dispatcher: Dispatcher
    deps: Any
    streams: bool
    memo: list[dict[str, Any]] = field(default_factory=list)
    calls: list[ToolCallFinished] = field(default_factory=list)
    result: RunResult | None = None

    async def events(
        self, door: Door, pick: Callable[[Model | ModelChoice], Awaitable[Model]]
    ) -> AsyncGenerator[Event, None]:
        """Do what the conversation says, until it is over."""
        model = await pick(self.model)
        yield RunStarted(run_id=self.run_id, model=model.name)
        while not isinstance(todo := self.conversation.next(), Finished):
            doing = self._ask(todo, model, door) if isinstance(todo, CallModel) else self._carry_out(todo, door)
            async with aclosing(doing):
                async for event in doing:
                    yield event
        self.result = self._finish(todo, model.name)
        yield RunFinished(output=todo.output, finish_reason=todo.reason, usage=self.result.usage)

    async def _ask(self, todo: CallModel, model: Model, door: Door) -> AsyncGenerator[Event, None]:
        yield TurnStarted(turn=todo.turn)
        request = ModelRequest(messages=todo.messages, tools=self.specs if todo.with_tools else (), memo=self.memo)
        response: ModelResponse | None = None
        if not self.streams:
            response = await door.call(lambda: model.complete(request), is_async=model.is_async)
        else:
            async with aclosing(door.iterate(model.stream(request), is_async=model.is_async)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, ModelResponse):
                        response = piece
                    else:
                        yield piece
        if response is None:
            raise RunError(f"{model!r} ended its stream without a ModelResponse.")
        yield TurnFinished(turn=todo.turn, response=self.conversation.respond(response))

    async def _carry_out(self, todo: RunCalls, door: Door) -> AsyncGenerator[Event, None]:
        finished: dict[str, ToolCallFinished] = {}

        async def one(call: ToolCall) -> ToolResult:
            context = ToolContext(
                deps=self.deps, run_id=self.run_id, call_id=call.id, wire_id=call.wire_id, iteration=todo.turn
            )
            return await self.dispatcher.dispatch(call, context, door)

        async with aclosing(execute(todo.calls, one, door)) as events:
            async for event in events:
                if isinstance(event, ToolCallFinished):
                    finished[event.call.id] = event
                yield event
        self.calls += [finished[call.id] for call in todo.calls]
        self.conversation.answer([_told(event) for event in finished.values()])

    def _finish(self, end: Finished, model: str) -> RunResult:
        state = self.conversation.state
        return RunResult(
            output=end.output,
            messages=state.messages,
            calls=tuple(self.calls),
            usage=state.usage,
            finish_reason=end.reason,
            model=model,
            state=state,
        )


class RunStream:
    """The events of a run, as an iterator and a context manager; `result` is there once it has ended."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._events = run.events(SyncDoor(), _model_in_place)

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
    def result(self) -> RunResult:
        """What came of the run.

        Raises:
            RunError: It has not ended.
        """
        return _ended(self._run)


class AsyncRunStream:
    """The events of a run, as an async iterator and an async context manager."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._events = run.events(AsyncDoor(), _model_in_loop)

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
    def result(self) -> RunResult:
        """What came of the run.

        Raises:
            RunError: It has not ended.
        """
        return _ended(self._run)


async def _model_in_place(model: Model | ModelChoice) -> Model:
    return model.sync_model() if isinstance(model, ModelChoice) else model


async def _model_in_loop(model: Model | ModelChoice) -> Model:
    return await model.async_model() if isinstance(model, ModelChoice) else model


def _ended(run: _Run) -> RunResult:
    if run.result is None:
        raise RunError("The run has not ended: draw its events to the end first.")
    return run.result


def _told(event: ToolCallFinished) -> ToolMessage:
    call, result = event.call, event.result
    return ToolMessage(call_id=call.id, name=call.name, text=result.text or "", is_error=result.is_error)


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    unknown = sorted(options.keys() - RunnerOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"Runner has no option {unknown[0]!r}. It has: {', '.join(RunnerOptions.__annotations__)}.")
