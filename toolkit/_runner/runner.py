"""Runner: the public class; it creates runs from its options. The loop itself is `Run.events` in `run.py`."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn, overload

from typing_extensions import TypeForm, TypeVar, Unpack, override

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import run_sync
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit._execution.undo import Undo
from toolkit._guards.options import check_type
from toolkit._options import check_methods, explain_missing, spell_options
from toolkit._runner.hints import METHOD_HINTS, RUNNER_HINTS
from toolkit._runner.limits import Limits
from toolkit._runner.many import PromptBatch, arun_all, run_all
from toolkit._runner.options import (
    ALL_RUN_HINTS,
    DEFAULTS,
    MAP_DEFAULTS,
    MAP_HINTS,
    NO_DECISIONS,
    RUN_DEFAULTS,
    Decisions,
    MapOptions,
    Prompt,
    ResumeOptions,
    RunnerOptions,
    RunOptions,
    RunRequest,
    get_given_options,
)
from toolkit._runner.result import RunResult
from toolkit._runner.run import Run
from toolkit._runner.run_factory import RunFactory
from toolkit._runner.saved_runs import read_state
from toolkit._runner.state import RunState
from toolkit._runner.stream import AsyncRunStream, Controls, RunHandle, RunStream
from toolkit._runner.sub_agent import MAX_DEPTH, SubAgent, name_sub_agent
from toolkit._toolbox import Toolbox, make_toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError
from toolkit.models import Model

if TYPE_CHECKING:
    from toolkit._tools.definitions import Fingerprint

# pyright does not count T's default as an answer to what T is.
# pyright: reportInvalidTypeVarUse=false


T = TypeVar("T", default=str)  # without an output_type, the answer is text


@check_methods(ALL_RUN_HINTS)
class Runner(Controls):
    """A model with tools. A runner can have many runs, one after the other or at the same time.

    `steer` and `follow_up` need exactly one active run. `clear` and `cancel` apply to all active runs.

    Args:
        toolbox: A Toolbox, or the tools for one. A run uses the tools that the toolbox holds when it starts; see
            `refresh`.
        model: The name of the model at its server, or a `toolkit.models.Model`.
        instructions: The system prompt.
        name: Name of the runner. With a name, you can pass the runner as a tool, `subagent_NAME`, to another runner.
        description: Description of the runner when it is a tool. By default its name.
        client: An `openai.OpenAI` or `openai.AsyncOpenAI`. By default one is made.
        base_url: Address of a server with OpenAI's API, such as "http://localhost:11434/v1".
        api_key: The key for the server. By default, without `base_url`, the key of the environment.
        api: "chat" (Chat Completions, which all servers have) or "responses". By default "responses" for OpenAI's own
            server, and "chat" for others.
        dialect: How tools are sent: "chat" or "responses" (native tool calls, the default), "minimal" (the same, for
            servers that know few keywords of JSON Schema), or "calls" (for models without tool calling). All but
            "responses" use Chat Completions.
        strict: Whether the server enforces the schemas, if they can be rewritten without loss. For tools without their
            own `strict`. By default the toolbox's setting, or else True.
        request_options: Further keys of each request, such as `temperature`; None leaves out a key. Set options of the
            client, such as `timeout`, on the client.
        tool_choice: "auto", "none", "required" or a tool's name. A call is forced in the first turn only.
        allowed_tools: Names of the tools that may be called. Calls of other tools are refused. OpenAI and Azure are
            sent all tools, so that their prompt caches stay valid.
        max_turns: The maximum number of model responses with tools, 10 by default. Then the model is asked for a final
            answer without tools. Short for `Limits(max_turns=...)`. None means no limit.
        limits: Limits of each run: turns, calls, time, tokens, cost.
        max_runs: The maximum number of active runs of this runner. By default without limit.
        authorize: A function of the tool, the arguments and the context that allows or denies a call.
        approve: A function of an ApprovalRequest that approves or rejects a call, such as those in `toolkit.approvers`.
            By default a call that needs approval is refused.
        approval_timeout: The maximum number of seconds for an approver or an authorizer: less than `max_seconds`, and
            up to 31 days. By default without limit.
        ledger: A record of calls, such as SQLiteLedger, so that no call is executed twice.
        checkpoint: A function that saves the state of a run before each step and at the end, such as
            SQLiteRuns("runs.db").
        hooks: Objects with any of `before_model`, `after_model`, `before_call`, `after_call`, `on_event`.
        middleware: Functions that wrap each call and its gates. The first one is the outermost.
        order: How the calls of one turn run: "parallel" (the default), "sequential" or `batched(n)`.
        max_parallel: The maximum number of calls at the same time, 256 by default.
        early: Whether calls of tools with `effect="read"` start while the response is still arriving.
        refresh: When changes of the toolbox take effect: "run", in the next run (the default), or "iteration", in the
            next turn.
        undo_on_failure: Whether to undo the calls of a run that raises an exception, is cancelled, is stopped by an
            approver, or whose stream is left early: see `undo` and `RunResult.undos`. A session gets no messages of a
            run that is undone. Nothing is undone after a crash, or after Ctrl-C outside asyncio.
        format_error: A function of a ToolResult that returns the text of a failed call for the model. By default the
            result's `text`. Calls that never reached a tool, such as those beyond a limit, keep their own texts.
        raise_errors: Whether the run raises an exception of a tool's function, except ToolError. For development.
        max_result: The maximum number of characters of a result that the model reads, 100,000 by default.
        queue: How many messages of `steer` and `follow_up` the model reads at a time: "one" (the default) or "all".

    Raises:
        ValueError: An option has a wrong value.
        TypeError: There is no such option, or `model` is not a model.
        DefinitionError: One of the tools cannot be a tool, has no schema, or is called `result_read`.

    Examples:
        >>> from toolkit.testing import ScriptedModel, call
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> runner = Runner([add], model=ScriptedModel([[call("add", a=15, b=27)], "It is 42."]))
        >>> runner.run("What is 15 + 27?").output
        'It is 42.'
    """

    @spell_options(RunnerOptions, DEFAULTS, RUNNER_HINTS)
    def __init__(
        self,
        toolbox: Toolbox | Iterable[Addable] = (),
        *,
        model: str | Model | None = None,
        instructions: str = "",
        **options: Unpack[RunnerOptions],
    ) -> None:
        if isinstance(model, type) or not isinstance(model, (str, Model, type(None))):
            raise TypeError(f"model={model!r:.100} is neither a model's name nor a Model. Pass a client as client=...")
        self._factory = RunFactory(make_toolbox(toolbox), model, instructions, get_given_options(options))

    @overload
    def run(
        self, prompt: Prompt = ..., *, output_type: TypeForm[T] = ..., **given: Unpack[RunOptions]
    ) -> RunResult[T]: ...
    @overload
    def run(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunResult[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS, ALL_RUN_HINTS)
    def run(self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]) -> RunResult[Any]:
        """Send a prompt to the model, and execute its tool calls until it has an answer.

        Works in a script, in a notebook, and inside a running event loop. The `result` of an exception that `run`
        raises, also of KeyboardInterrupt, is the RunResult so far.

        Args:
            prompt: The user's message: a text, or a list of texts, `Image`s, `File`s, `Path`s of images, PDFs and text
                files, PIL images, figures of Matplotlib or Plotly, and tables of pandas or polars. Or the state of a
                run, to resume it.
            messages: The conversation so far: the messages of a result, or a history in OpenAI's form. A broken history
                is repaired. Not allowed with a state, which has its own messages.
            session: A Session or SQLiteSession with the conversation so far. The run adds its messages when it ends.
            deps: Any object for the tools, which read it as `ToolContext.deps`.
            output_type: The type of the answer: any type that pydantic can validate, such as a model, a dataclass or
                `list[int]`, or a JSON Schema for plain data. `str` means any text.
            decisions: With a state, the decisions on its pending calls, by call id: True, False or a Decision.
            shared: Values by dotted path, which tools read as `ToolContext.shared`. Calls may refer to them if the
                toolbox has `references`. Several runs can share a SharedValues.
            allowed_tools: As for the Runner, but for this run. Part of the state.

        Raises:
            DefinitionError: `output_type` has no JSON form.
            ModelError: The server failed, or did not answer in time.
            NoModelError: No model is configured.
            LimitError: A limit was reached, and `on_limit` is "raise".
            BusyError: The runner has `max_runs` active runs.
            ApprovalError: A decision is for a call that does not wait.
            ConversationError: Another run has changed the session meanwhile; `error.result` is the result of this run.
            FatalError: A tool raised it.
            TypeError: A tool takes `ToolContext[X]`, and `deps` is missing or of another type.
            RunError: The model gave no valid answer of the `output_type` within `max_output_retries`.
        """
        return run_sync(
            self._factory.create(RunRequest(prompt=prompt, output_type=output_type, **given)).finish(SyncBackend())
        )

    @overload
    async def arun(
        self, prompt: Prompt = ..., *, output_type: TypeForm[T] = ..., **given: Unpack[RunOptions]
    ) -> RunResult[T]: ...
    @overload
    async def arun(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunResult[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS, ALL_RUN_HINTS)
    async def arun(
        self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]
    ) -> RunResult[Any]:
        """Do what `run` does, in the running event loop. Sync tools run on threads."""
        return await self._factory.create(RunRequest(prompt=prompt, output_type=output_type, **given)).finish(
            AsyncBackend()
        )

    @overload
    def stream(
        self, prompt: Prompt = ..., *, output_type: TypeForm[T] = ..., **given: Unpack[RunOptions]
    ) -> RunStream[T]: ...
    @overload
    def stream(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunStream[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS, ALL_RUN_HINTS)
    def stream(self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]) -> RunStream[Any]:
        """Do what `run` does, and return an iterator of events. Leaving it early cancels the run."""
        return RunStream(
            self._factory.create(RunRequest(prompt=prompt, output_type=output_type, streams=True, **given))
        )

    @overload
    def astream(
        self, prompt: Prompt = ..., *, output_type: TypeForm[T] = ..., **given: Unpack[RunOptions]
    ) -> AsyncRunStream[T]: ...
    @overload
    def astream(
        self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]
    ) -> AsyncRunStream[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS, ALL_RUN_HINTS)
    def astream(
        self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]
    ) -> AsyncRunStream[Any]:
        """Do what `stream` does, in the running event loop."""
        request = RunRequest(prompt=prompt, output_type=output_type, streams=True, **given)
        return AsyncRunStream(self._factory.create(request))

    @overload
    def start(
        self, prompt: Prompt = ..., *, output_type: TypeForm[T] = ..., **given: Unpack[RunOptions]
    ) -> RunHandle[T]: ...
    @overload
    def start(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunHandle[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS, ALL_RUN_HINTS)
    def start(self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]) -> RunHandle[Any]:
        """Start the run in the background, and return a handle."""
        request = RunRequest(prompt=prompt, output_type=output_type, streams=True, in_background=True, **given)
        return RunHandle(self._factory.create(request))

    @overload
    def map(
        self, prompts: Iterable[Prompt], *, output_type: TypeForm[T] = ..., **given: Unpack[MapOptions]
    ) -> list[RunResult[T] | Exception]: ...
    @overload
    def map(
        self, prompts: Iterable[Prompt], *, output_type: Any, **given: Unpack[MapOptions]
    ) -> list[RunResult[Any] | Exception]: ...
    @spell_options(MapOptions, MAP_DEFAULTS, MAP_HINTS)
    def map(
        self, prompts: Iterable[Prompt], *, output_type: Any = str, **given: Unpack[MapOptions]
    ) -> list[RunResult[Any] | Exception]:
        """Run many prompts, and return a list in their order: results, and the exceptions of runs that failed.

        Ctrl-C cancels the runs.

        Args:
            prompts: The prompts. An iterable is read only as far as runs can start.
            max_parallel: The maximum number of runs at the same time.
            rpm: The maximum number of requests per minute of all these runs together, without those of sub-agents.
            tpm: The tokens per minute after which a request waits, as in RateLimitedModel.
            save: A file for the answers, in JSON Lines. Each answer is added as soon as it arrives. If the file has an
                answer for the same prompt, the prompt is not run again.
            progress: Whether to show a bar, in a terminal (on standard error) or a notebook.
            output_type: As for `run`.
            **given: Further options of `run`, except `session`.

        Raises:
            ValueError: `max_parallel` is below 1, or a rate is.
            TypeError: There is no such option, or `prompts` is one text, a mapping or a whole table.
            NoModelError: No model is configured.
            DefinitionError: `output_type` has no JSON form.
            StoreError: `save` cannot be read or written, or is a file of another kind.

        Examples:
            >>> from toolkit.testing import ScriptedModel
            >>> runner = Runner(model=ScriptedModel(lambda request: request.messages[-1].text.upper()))
            >>> [result.output for result in runner.map(["a", "b", "c"])]
            ['A', 'B', 'C']
        """
        return run_all(self._factory.create, PromptBatch(prompts, output_type, given, self.limits))

    @overload
    async def amap(
        self, prompts: Iterable[Prompt], *, output_type: TypeForm[T] = ..., **given: Unpack[MapOptions]
    ) -> list[RunResult[T] | Exception]: ...
    @overload
    async def amap(
        self, prompts: Iterable[Prompt], *, output_type: Any, **given: Unpack[MapOptions]
    ) -> list[RunResult[Any] | Exception]: ...
    @spell_options(MapOptions, MAP_DEFAULTS, MAP_HINTS)
    async def amap(
        self, prompts: Iterable[Prompt], *, output_type: Any = str, **given: Unpack[MapOptions]
    ) -> list[RunResult[Any] | Exception]:
        """Do what `map` does, in the running event loop."""
        return await arun_all(self._factory.create, PromptBatch(prompts, output_type, given, self.limits))

    def undo(self, run: RunState | str, *, deps: Any = None) -> tuple[Undo, ...]:
        """Undo the calls of a run with the `undo` of their tools, the last call first. The run cannot continue then.

        Only calls that succeeded are undone, each once, with its own idempotency key. If one undo fails, the others
        still run. After a crash, call `undo` again: it continues where it stopped.

        Args:
            run: The state of the run, or its id. In another process this needs a `ledger` or SQLiteRuns.
            deps: As for `run`.

        Raises:
            ConversationError: There is no record of the run's calls, or the run is still active.
            StoreError: The ledger cannot be read or written.
            TypeError: `run` is neither a state nor an id; or an undo function takes `deps`, and there are none.

        Examples:
            >>> from toolkit import tool
            >>> from toolkit.testing import ScriptedModel, call
            >>> @tool(effect="write", undo=lambda booking: print(f"cancel {booking}"))
            ... def book(city: str) -> str:
            ...     '''Book a hotel.'''
            ...     return f"hotel in {city}"
            >>> runner = Runner([book], model=ScriptedModel([call("book", city="Rome"), "Booked."]))
            >>> result = runner.run("Book a hotel in Rome.")
            >>> [each.outcome for each in runner.undo(result.state)]
            cancel hotel in Rome
            ['undone']
        """
        return run_sync(self._factory.undo(run, deps, SyncBackend()))

    async def aundo(self, run: RunState | str, *, deps: Any = None) -> tuple[Undo, ...]:
        """Do what `undo` does, in the running event loop."""
        return await self._factory.undo(run, deps, AsyncBackend())

    @overload
    def resume(
        self,
        state: RunState | str,
        decisions: Decisions = ...,
        *,
        output_type: TypeForm[T] = ...,
        **given: Unpack[ResumeOptions],
    ) -> RunResult[T]: ...
    @overload
    def resume(
        self, state: RunState | str, decisions: Decisions = ..., *, output_type: Any, **given: Unpack[ResumeOptions]
    ) -> RunResult[Any]: ...
    @spell_options(ResumeOptions, {}, ALL_RUN_HINTS)
    def resume(
        self,
        state: RunState | str,
        decisions: Decisions = NO_DECISIONS,
        *,
        output_type: Any = str,
        **given: Unpack[ResumeOptions],
    ) -> RunResult[Any]:
        """Resume a run from its saved state, in this process or another.

        Args:
            state: `result.state`, or the text of its `to_json`. Or the id of a run that the runner's SQLiteRuns has
                saved.
            decisions: Decisions on the pending calls, by call id: True, False or a Decision. Each is valid once, for
                the call, arguments and tool definition that were shown. A call without a decision keeps waiting.
            deps: As for `run`. Not part of the state.
            output_type: As for `run`. Not part of the state.
            shared: As for `run`. Only stored results are part of the state.
            session: As for `run`. Not part of the state.

        Raises:
            ConversationError: The state cannot be resumed.
            ApprovalError: A decision is for a call that does not wait.
            TypeError: `state` is neither a state nor a text.
        """
        read = read_state(state, self._factory.options.get("checkpoint"))
        return self.run(read, output_type=output_type, decisions=decisions, **given)

    @overload
    async def aresume(
        self,
        state: RunState | str,
        decisions: Decisions = ...,
        *,
        output_type: TypeForm[T] = ...,
        **given: Unpack[ResumeOptions],
    ) -> RunResult[T]: ...
    @overload
    async def aresume(
        self, state: RunState | str, decisions: Decisions = ..., *, output_type: Any, **given: Unpack[ResumeOptions]
    ) -> RunResult[Any]: ...
    @spell_options(ResumeOptions, {}, ALL_RUN_HINTS)
    async def aresume(
        self,
        state: RunState | str,
        decisions: Decisions = NO_DECISIONS,
        *,
        output_type: Any = str,
        **given: Unpack[ResumeOptions],
    ) -> RunResult[Any]:
        """Do what `resume` does, in the running event loop."""
        read = read_state(state, self._factory.options.get("checkpoint"))
        return await self.arun(read, output_type=output_type, decisions=decisions, **given)

    def fingerprint(self) -> Fingerprint:
        """Make digests of the tools and settings of this runner, to compare two processes.

        The tools of sub-agents are included, with the sub-agent's name as a prefix: `subagent_math/add`. For `api_key`,
        only whether it is set is included. `client`, `base_url`, `ledger`, `checkpoint` and `max_runs` are left out.

        Raises:
            DefinitionError: A tool cannot be described to a model; or the sub-agents form a circle, or are nested too
                deeply.
        """
        return self._factory.fingerprint()

    def as_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        *,
        arg: str = "query",
        output_type: Any = str,
        max_depth: int = MAX_DEPTH,
        handoff: bool = False,
    ) -> Tool[..., Any]:
        """Make a tool from this runner for another runner: a sub-agent.

        Each call is a new conversation of this runner, with the `deps` of the outer run. Its usage and calls count in
        the outer run and its limits. Its calls also pass the gates and the middleware of the outer run, and its events
        arrive there as `SubAgentEvent`s. It is cancelled with the outer run. If a call waits for approval, the outer
        run pauses. The tool's effect is `destructive` or `write` if one of this runner's tools has this effect, and
        otherwise unknown.

        Args:
            name: The tool's name. By default `subagent_` and the runner's name.
            description: What the sub-agent can do. The model reads it after "Delegate to specialist sub-agent:". By
                default the runner's description, or else its name.
            arg: Name of the parameter that holds the task.
            output_type: Type of the answer, as for `run`.
            max_depth: How many sub-agents may be inside each other, including this one.
            handoff: Whether the sub-agent takes over the conversation: its answer is the answer of the outer run, and
                the next messages of the user go to it. It returns the conversation with its tool `hand_back`.

        Raises:
            DefinitionError: The name or the description is missing, or a name is invalid; no JSON can be of the
                `output_type`; or `handoff` is used with `output_type`, or with a tool called `hand_back`.
            ValueError: `max_depth` is below 1.

        Examples:
            >>> from toolkit.testing import ScriptedModel, call
            >>> historian = Runner(model=ScriptedModel(["In 1889."]), instructions="You know history.")
            >>> model = ScriptedModel([call("ask_historian", query="When was the Eiffel Tower built?"), "1889."])
            >>> runner = Runner([historian.as_tool("ask_historian", "dates of buildings")], model=model)
            >>> runner.run("When was the Eiffel Tower built?").output
            '1889.'
        """
        for option, value in ("name", name), ("description", description):
            check_type(option, value, str, NoneType)
        own = self._factory.options.get("name")
        about = description or self._factory.options.get("description") or own
        if not (name or own) or not about:
            raise DefinitionError(
                f"{self!r:.100} needs a name and a description to be a tool: write .as_tool(name=..., "
                "description=...), or Runner(..., name=..., description=...)."
            )

        sub_agent = SubAgent(
            self._factory,
            name or name_sub_agent(f"{own}"),
            arg=arg,
            max_depth=max_depth,
            output_type=output_type,
            handoff=handoff,
        )
        return sub_agent.make_tool(about)

    def __repr__(self) -> str:
        name = self._factory.options.get("name")
        return f"<Runner{f' {name!r}' if name else ''} of {self.toolbox!r}>"

    @override
    def __reduce__(self) -> NoReturn:
        raise TypeError("A Runner cannot be pickled or copied: make one in each process, or use map() or threads.")

    if not TYPE_CHECKING:  # type checkers report missing attributes themselves
        __getattr__ = explain_missing(*METHOD_HINTS)

    def _repr_html_(self) -> str:
        from toolkit.display.cards import render_runner  # only a notebook asks

        name = self._factory.settings.model_choice.given_name
        return render_runner(name, self.instructions, self.toolbox, self.limits)

    @property
    def name(self) -> str:
        """The name, or "" if the runner has none."""
        return self._factory.settings.name

    @property
    def toolbox(self) -> Toolbox:
        """The tools."""
        return self._factory.toolbox

    @property
    def instructions(self) -> str:
        """The system message, or "" if there is none."""
        return self._factory.instructions

    @property
    def limits(self) -> Limits:
        """The limits of each run."""
        return self._factory.settings.limits

    @property
    def model(self) -> Model:
        """The model. It is chosen when it is first needed. The embedded model is then downloaded and started.

        Raises:
            NoModelError: No model is configured.
        """
        return self._factory.settings.model_choice.get_sync_model()

    @override
    def _get_run(self) -> Run[Any]:
        return self._factory.active.get_only()

    @override
    def clear(self, *, steering: bool = True, follow_ups: bool = True) -> None:
        """Remove the messages of `steer` and `follow_up` that no run has read yet."""
        for run in self._factory.active.get_all():
            run.tool_caller.queue.clear(steering=steering, follow_ups=follow_ups)

    @override
    def cancel(self) -> bool:
        """Cancel all active runs. Return whether there was one."""
        cancelled = [run.cancellation.cancel() for run in self._factory.active.get_all()]
        return any(cancelled)
