"""The loop: schemas to the model, its calls to the tools, the results back, until there is an answer."""

# pyright does not count T's default as an answer to what T is.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, overload

from typing_extensions import TypedDict, TypeVar, Unpack

from toolkit.approval import Approver
from toolkit.authorization import Authorizer
from toolkit.conversation import Conversation
from toolkit.dialects import run_dialect_named
from toolkit.dialects.history import decoded
from toolkit.dispatch import Dispatcher
from toolkit.limits import Limits, OnLimit
from toolkit.messages import Message, SystemMessage, UserMessage
from toolkit.middleware import Middleware
from toolkit.models import Model
from toolkit.models.default import ModelChoice
from toolkit.output import output_of
from toolkit.runs import AsyncRunStream, Run, RunResult, RunStream
from toolkit.toolbox import Addable, Toolbox

# Keys of a request that the Runner decides on, and those that are no part of its body.
RESERVED = frozenset({"model", "messages", "stream", "stream_options", "tools", "response_format"})
CLIENT_OPTIONS = frozenset({"timeout", "max_retries", "extra_headers", "extra_query", "extra_body"})

T = TypeVar("T", default=str)  # where nothing says what the answer has to be, it is text
History: TypeAlias = Iterable[Message | Mapping[str, Any]]


class RunnerOptions(TypedDict, total=False):
    """What a Runner takes besides toolbox, model and instructions.

    Attributes:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`; one is made where none is given.
        base_url: Address of an OpenAI-compatible server, such as "http://localhost:11434/v1".
        api_key: The key for that server; without `base_url` that of the environment is used.
        dialect: How tools are shown: "chat" (native tool calls), "minimal" (the same for servers that know few keywords
            of JSON Schema) or "calls" (by `response_format`).
        strict: Whether the server is asked to enforce the schemas of tools that do not say so themselves, where that is
            lossless; the toolbox's own setting, or else True, by default.
        on_limit: What happens after the last turn: "answer", "stop" or "raise".
        output_retries: How often an answer that does not fit `output_type` goes back to the model; 2 by default.
        request_options: Further keys of each request's body, such as `temperature`; what the client itself takes, such
            as `timeout`, is set on the client.
        authorize: May this call be made at all? Gets tool, arguments and context.
        approve: Does somebody agree? Gets an ApprovalRequest.
        middleware: Wraps the whole line of each call, the first one outermost. In a sync run it must not wait for
            an event loop.
    """

    client: Any
    base_url: str
    api_key: str
    dialect: str
    strict: bool
    on_limit: OnLimit
    output_retries: int
    request_options: Mapping[str, Any]
    authorize: Authorizer
    approve: Approver
    middleware: Sequence[Middleware]


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
        _refuse_reserved(options.get("request_options", {}))
        if not isinstance(model, (str, Model, type(None))):
            raise TypeError(f"model={model!r} is neither a model's name nor a Model. A client goes in as client=...")
        self.toolbox = toolbox if isinstance(toolbox, Toolbox) else Toolbox(toolbox)
        strict = options.get("strict", self.toolbox.strict is not False)
        self.instructions = instructions
        self.limits = Limits(
            turns=max_turns,
            on_limit=options.get("on_limit", "answer"),
            output_retries=options.get("output_retries", 2),
        )
        self._choice = ModelChoice(
            given=model if isinstance(model, Model) else None,
            name=model if isinstance(model, str) else None,
            client=options.get("client"),
            base_url=options.get("base_url"),
            api_key=options.get("api_key"),
            dialect=run_dialect_named(options["dialect"], strict=strict) if "dialect" in options else None,
            strict=strict,
            options=options.get("request_options", {}),
        )
        self._options = options

    def __repr__(self) -> str:
        return f"<Runner of {self.toolbox!r}>"

    @overload
    def run(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: type[T] = ...
    ) -> RunResult[T]: ...
    @overload
    def run(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: Any
    ) -> RunResult[Any]: ...
    def run(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: Any = str
    ) -> RunResult[Any]:
        """Ask the model, and carry out its calls until it has an answer.

        Works in a script and inside a running event loop alike. A single call of a turn runs on the caller's thread.

        Args:
            prompt: What the user says.
            messages: What was said before: the messages of another result, or a history in OpenAI's form.
            deps: What tools find in their ToolContext.
            output_type: What the answer has to be: anything that pydantic can validate, such as a model, a dataclass
                or `list[int]`. It is asked for as JSON, checked, and given as a value; `str` means any text.

        Raises:
            DefinitionError: No JSON can be of the `output_type`.
            ModelError: The model's server failed.
            NoModelError: Nothing says which model should answer.
            LimitError: The turns are used up, and `on_limit="raise"`.
            FatalError: A tool raised it.
            RunError: The model gave no answer of the `output_type`, in spite of `output_retries`.
        """
        with RunStream(self._begin(self._said(prompt, messages), deps, output_type, streams=False)) as stream:
            for _ in stream:
                pass
            return stream.result

    @overload
    async def arun(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: type[T] = ...
    ) -> RunResult[T]: ...
    @overload
    async def arun(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: Any
    ) -> RunResult[Any]: ...
    async def arun(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: Any = str
    ) -> RunResult[Any]:
        """Do what `run` does, in the running event loop; sync tools get threads of their own."""
        async with AsyncRunStream(
            self._begin(self._said(prompt, messages), deps, output_type, streams=False)
        ) as stream:
            async for _ in stream:
                pass
            return stream.result

    @overload
    def stream(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: type[T] = ...
    ) -> RunStream[T]: ...
    @overload
    def stream(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: Any
    ) -> RunStream[Any]: ...
    def stream(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: Any = str
    ) -> RunStream[Any]:
        """Do what `run` does, and give the events as they happen; leaving the loop early ends the run."""
        return RunStream(self._begin(self._said(prompt, messages), deps, output_type, streams=True))

    @overload
    def astream(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: type[T] = ...
    ) -> AsyncRunStream[T]: ...
    @overload
    def astream(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: Any
    ) -> AsyncRunStream[Any]: ...
    def astream(
        self, prompt: str | None = None, *, messages: History = (), deps: Any = None, output_type: Any = str
    ) -> AsyncRunStream[Any]:
        """Do what `stream` does, in the running event loop."""
        return AsyncRunStream(self._begin(self._said(prompt, messages), deps, output_type, streams=True))

    @property
    def model(self) -> Model:
        """The model that answers; chosen, and where it is the embedded one fetched and started, when first asked for.

        Raises:
            NoModelError: Nothing says which model should answer.
        """
        return self._choice.sync_model()

    def _begin(self, said: list[Message], deps: Any, output_type: Any, *, streams: bool) -> Run[Any]:
        tools = self.toolbox.snapshot()
        run_id = uuid.uuid4().hex
        return Run(
            run_id=run_id,
            conversation=Conversation(said, run_id=run_id, limits=self.limits),
            choice=self._choice,
            specs=tuple(made.spec for made in tools.values()),
            dispatcher=Dispatcher(
                tools=tools,
                authorizer=self._options.get("authorize"),
                approver=self._options.get("approve"),
                middleware=tuple(self._options.get("middleware", ())),
            ),
            output=output_of(output_type, taken=tools),
            deps=deps,
            streams=streams,
        )

    def _said(self, prompt: str | None, messages: History) -> list[Message]:
        if not isinstance(prompt, (str, type(None))):
            raise TypeError(f"A prompt is text, not {prompt!r}; what was said before goes in as messages=[...].")
        said = decoded(messages)
        if prompt is not None:
            said.append(UserMessage(prompt))
        if not said:
            raise ValueError("There is nothing to answer: pass a prompt, or messages.")
        return self._instructed(said)

    def _instructed(self, said: list[Message]) -> list[Message]:
        if not self.instructions or any(isinstance(message, SystemMessage) for message in said):
            return said
        return [SystemMessage(self.instructions), *said]


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    unknown = sorted(options.keys() - RunnerOptions.__annotations__.keys())
    if unknown:
        known = ("toolbox", "model", "instructions", "max_turns", *RunnerOptions.__annotations__)
        raise TypeError(f"Runner has no option {unknown[0]!r}. It has: {', '.join(known)}.")


def _refuse_reserved(options: Mapping[str, Any]) -> None:
    ours, clients = options.keys() & RESERVED, options.keys() & CLIENT_OPTIONS
    if ours:
        raise TypeError(f"request_options may not have {sorted(ours)[0]!r}: the Runner sets it.")
    if clients:
        name = sorted(clients)[0]
        raise TypeError(f"{name!r} is no key of a request's body: set it on the client, client=OpenAI(...).")
