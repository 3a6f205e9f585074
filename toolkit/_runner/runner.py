"""Runner: the public class; it creates runs from its options. The loop itself is `Run.events` in `run.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

from typing_extensions import TypeVar, Unpack, override

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import run_sync
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit._execution.undo import Undo
from toolkit._options import check_methods, spell_options
from toolkit._runner.limits import Limits
from toolkit._runner.many import arun_all, make_batch, run_all
from toolkit._runner.options import (
    DEFAULTS,
    HINTS,
    MAP_DEFAULTS,
    NO_DECISIONS,
    RUN_DEFAULTS,
    RUN_HINTS,
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
from toolkit._toolbox import Toolbox
from toolkit._tools.addable import Addable
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError
from toolkit.models import Model

if TYPE_CHECKING:
    from toolkit._tools.definitions import Fingerprint

# pyright does not count T's default as an answer to what T is.
# pyright: reportInvalidTypeVarUse=false


T = TypeVar("T", default=str)  # where nothing says what the answer has to be, it is text


@check_methods(RUN_HINTS)
class Runner(Controls):
    """Runs a model with a toolbox. One runner may have many runs, one after the other or at the same time.

    `steer` and `follow_up` apply to the one active run; `clear` and `cancel` apply to all of them. `limits` holds the
    limits of each run.

    Args:
        toolbox: A Toolbox, or anything that a Toolbox takes. A run has the tools that it holds when the run starts;
            see `refresh`.
        model: The model's name at its server; or a `toolkit.models.Model`.
        instructions: The system message of every conversation.
        name: Name of the runner. One that has a name is a tool, `subagent_NAME`, wherever a tool may be given.
        description: What it is good at, for the model of a runner that has it as a tool. By default its name.
        client: `openai.OpenAI` or `openai.AsyncOpenAI`. One is created by default.
        base_url: Address of an OpenAI-compatible server, such as "http://localhost:11434/v1".
        api_key: The key for that server. Without `base_url` that of the environment is used.
        api: The API of the server: "chat" (Chat Completions, which all servers have) or "responses".
        dialect: The form in which tools are sent: "chat" or "responses", by the API (native tool calls), "minimal" (the
            same for servers that know few keywords of JSON Schema) or "calls" (a format for the whole answer).
        strict: Whether the server is to enforce the schemas of tools that have no `strict` of their own, where that is
            lossless. By default the toolbox's own setting, or else True: a run reads the strict form of arguments back,
            which the user of `Toolbox.schemas` may not, so that one's default is False.
        request_options: Further keys of each request's body, such as `temperature`. Options of the client itself, such
            as `timeout`, are set on the client.
        tool_choice: "auto", "none", "required" or a tool's name. A forced call is forced in the first turn only.
        allowed_tools: Names of the tools that may be called. OpenAI and Azure are sent the others, too, which keeps
            their prompt caches valid; a call of one is refused.
        max_turns: Answers of the model that may call tools; then one last answer without. Short for
            `Limits(max_turns=...)`, 10 by default; None is no limit.
        limits: Limits of a run.
        max_runs: How many runs of this runner may be active at once. By default any number.
        authorize: A function of tool, arguments and context that allows or denies a call.
        approve: A function of an ApprovalRequest that approves or rejects a call; `toolkit.approvers` has some, and
            policies. By default a call that needs approval is refused.
        approval_timeout: Seconds that an approver or an authorizer may take: less than the `max_seconds` of a run, and
            31 days at most. By default without limit.
        ledger: A record of the steps of calls, so that none is executed twice, such as SQLiteLedger.
        checkpoint: A function that gets the state of a run before each of its steps and at its end, to save it, such as
            SQLiteRuns("runs.db").
        hooks: Objects with any of `before_model`, `after_model`, `before_call`, `after_call`, `on_event`.
        middleware: Functions around each call with its gates, the first one outermost.
        order: The calls of one turn that run together: "parallel", "sequential" or `batched(n)`.
        max_parallel: How many calls run at the same time, at most.
        early: Whether calls of tools with effect="read" start while the answer is still arriving.
        refresh: When a run takes over changes of its toolbox: "run", not at all; or "iteration", before each turn.
        undo_on_failure: Whether the calls of a run are undone, as by `undo`, where it raises an exception, it or its
            task is cancelled, or an approver stops it: `RunResult.undos`. Not where its process dies, Ctrl-C ends it
            outside asyncio, or its stream is left early. The session gets no messages of a run that was undone.
        format_error: A function of a ToolResult that returns what the model reads of a call that failed; by default its
            `text`. The result keeps error, kind and exception. Calls that were never passed on, such as those beyond a
            limit, keep their texts.
        raise_errors: Whether an exception of a tool's function, other than a ToolError, leaves the run, once the calls
            beside it have ended; for development.
        max_result: Characters of one result that the model sees.
        queue: How many messages of `steer` and of `follow_up` are read at a time: "one" or "all".

    Raises:
        ValueError: An option has a wrong value.
        TypeError: There is no such option, or `model` is not a model.
        DefinitionError: One of the tools cannot be a tool, cannot be described to a model, or is called `result_read`.

    Examples:
        >>> from toolkit.testing import ScriptedModel, call
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> runner = Runner([add], model=ScriptedModel([[call("add", a=15, b=27)], "It is 42."]))
        >>> runner.run("What is 15 + 27?").output
        'It is 42.'
    """

    @spell_options(RunnerOptions, DEFAULTS, HINTS)
    def __init__(
        self,
        toolbox: Toolbox | Iterable[Addable] = (),
        *,
        model: str | Model | None = None,
        instructions: str = "",
        **options: Unpack[RunnerOptions],
    ) -> None:
        if isinstance(model, type) or not isinstance(model, (str, Model, type(None))):
            raise TypeError(f"model={model!r} is neither a model's name nor a Model. A client goes in as client=...")
        box = toolbox if isinstance(toolbox, Toolbox) else Toolbox(toolbox)
        self._factory = RunFactory(box, model, instructions, get_given_options(options))

    @overload
    def run(self, prompt: Prompt = ..., *, output_type: type[T] = ..., **given: Unpack[RunOptions]) -> RunResult[T]: ...
    @overload
    def run(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunResult[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS, RUN_HINTS)
    def run(self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]) -> RunResult[Any]:
        """Call the model and execute its tool calls until it has an answer.

        Works in a script and inside a running event loop. A single call of a turn runs on the caller's thread. An
        exception that leaves `run`, KeyboardInterrupt included, has the RunResult so far as its `result`.

        Args:
            prompt: The user's message: text; or a list of texts, `Path`s of images, PDFs and text files, `Image`s,
                `File`s, pictures of PIL, figures of Matplotlib or Plotly, tables of pandas or polars. Or the state of a
                run, to resume it.
            messages: The conversation so far: the messages of another result, or a history in OpenAI's form. A broken
                history is repaired.
            session: The conversation so far, to which the run adds its messages when it ends: Session or SQLiteSession.
            deps: Given to tools as `ToolContext.deps`.
            output_type: The type of the answer: anything that pydantic validates, such as a model, a dataclass or
                `list[int]`; or a JSON Schema, whose values are plain data. `str` means any text.
            decisions: With a state: decisions on its pending calls by call id; True, False or a Decision.
            shared: Values by dotted path, given to tools as `ToolContext.shared`; calls may refer to them if the
                toolbox has `references`. Results that calls store join them. A SharedValues is used as it is, so that
                several runs can share it.
            allowed_tools: As for the Runner, in place of its own; part of the state.

        Raises:
            DefinitionError: `output_type` has no JSON form.
            ModelError: The model's server failed, or did not answer in time.
            NoModelError: No model is configured.
            LimitError: A limit was reached, with `on_limit="raise"`.
            BusyError: The runner has `max_runs` active runs.
            ApprovalError: A decision is for a call that does not wait.
            ConversationError: Another run has changed the session meanwhile; `error.result` is the result.
            FatalError: A tool raised it.
            TypeError: A tool takes `ToolContext[X]`, and there are no such deps.
            RunError: The model gave no answer of the `output_type` within `output_retries`.
        """
        return run_sync(
            self._factory.create(RunRequest(prompt=prompt, output_type=output_type, **given)).finish(SyncBackend())
        )

    @overload
    async def arun(
        self, prompt: Prompt = ..., *, output_type: type[T] = ..., **given: Unpack[RunOptions]
    ) -> RunResult[T]: ...
    @overload
    async def arun(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunResult[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS, RUN_HINTS)
    async def arun(
        self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]
    ) -> RunResult[Any]:
        """Do what `run` does, in the running event loop; sync tools run on threads."""
        return await self._factory.create(RunRequest(prompt=prompt, output_type=output_type, **given)).finish(
            AsyncBackend()
        )

    @overload
    def stream(
        self, prompt: Prompt = ..., *, output_type: type[T] = ..., **given: Unpack[RunOptions]
    ) -> RunStream[T]: ...
    @overload
    def stream(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunStream[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS, RUN_HINTS)
    def stream(self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]) -> RunStream[Any]:
        """Do what `run` does, as an iterator of events; leaving it early cancels the run."""
        return RunStream(
            self._factory.create(RunRequest(prompt=prompt, output_type=output_type, streams=True, **given))
        )

    @overload
    def astream(
        self, prompt: Prompt = ..., *, output_type: type[T] = ..., **given: Unpack[RunOptions]
    ) -> AsyncRunStream[T]: ...
    @overload
    def astream(
        self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]
    ) -> AsyncRunStream[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS, RUN_HINTS)
    def astream(
        self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]
    ) -> AsyncRunStream[Any]:
        """Do what `stream` does, in the running event loop."""
        request = RunRequest(prompt=prompt, output_type=output_type, streams=True, **given)
        return AsyncRunStream(self._factory.create(request))

    @overload
    def start(
        self, prompt: Prompt = ..., *, output_type: type[T] = ..., **given: Unpack[RunOptions]
    ) -> RunHandle[T]: ...
    @overload
    def start(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunHandle[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS, RUN_HINTS)
    def start(self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]) -> RunHandle[Any]:
        """Start the run on a thread of its own, and return a handle at once."""
        request = RunRequest(prompt=prompt, output_type=output_type, streams=True, in_background=True, **given)
        return RunHandle(self._factory.create(request))

    @spell_options(MapOptions, MAP_DEFAULTS, RUN_HINTS)
    def map(
        self, prompts: Iterable[Prompt], *, output_type: Any = str, **given: Unpack[MapOptions]
    ) -> list[RunResult[Any] | Exception]:
        """Run many prompts, and return their outcomes, in order: a result, or the exception of a failed run.

        Interrupting it cancels the runs.

        Args:
            prompts: The prompts; an iterable is read as far as runs can start.
            max_parallel: How many runs are active at the same time, at most.
            rpm: Requests per minute of all these runs together, at most; those of sub-agents do not count.
            tpm: Tokens per minute, after which a request waits, as RateLimitedModel does.
            save: File of the answers, in JSON Lines. Each is added as soon as it is there, and a prompt that has an
                answer in the file is not run again. Nothing but the prompt is compared.
            progress: Whether to show a bar on standard error, where that is a terminal or a notebook.
            output_type: As for `run`.
            **given: Further options of `run`, for each of them; no `session`, which is for one run at a time.

        Raises:
            ValueError: `max_parallel` is below 1, or a rate is.
            TypeError: There is no such option, or `prompts` is one text.
            StoreError: `save` cannot be read or written, or is another file.

        Examples:
            >>> from toolkit.testing import ScriptedModel
            >>> runner = Runner(model=ScriptedModel(lambda request: request.messages[-1].text.upper()))
            >>> [result.output for result in runner.map(["a", "b", "c"])]
            ['A', 'B', 'C']
        """
        return run_all(self._factory.create, make_batch(prompts, output_type, given, self.limits))

    @spell_options(MapOptions, MAP_DEFAULTS, RUN_HINTS)
    async def amap(
        self, prompts: Iterable[Prompt], *, output_type: Any = str, **given: Unpack[MapOptions]
    ) -> list[RunResult[Any] | Exception]:
        """Do what `map` does, in the running event loop."""
        return await arun_all(self._factory.create, make_batch(prompts, output_type, given, self.limits))

    def undo(self, run: RunState | str, *, deps: Any = None) -> tuple[Undo, ...]:
        """Undo the calls of a run by the `undo` of their tools, the last call first; the run cannot go on then.

        Only calls that succeeded are undone, each once, by a call with an idempotency key of its own. Whatever the
        outcome of one is, the others follow. After a crash, call it again: it goes on where it stopped.

        Args:
            run: The state of the run, or its id. Another process needs a `ledger` or SQLiteRuns for it.
            deps: As for `run`.

        Raises:
            ConversationError: There is no record of the run's calls, or it is still active.
            StoreError: The ledger cannot be read or written.
            TypeError: It is neither a state nor an id; or an undo takes `deps`, and there are none.

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
        output_type: type[T] = ...,
        **given: Unpack[ResumeOptions],
    ) -> RunResult[T]: ...
    @overload
    def resume(
        self, state: RunState | str, decisions: Decisions = ..., *, output_type: Any, **given: Unpack[ResumeOptions]
    ) -> RunResult[Any]: ...
    @spell_options(ResumeOptions, {}, RUN_HINTS)
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
            state: `result.state`, or the text that its `to_json` wrote. Or the id of a run that the runner's SQLiteRuns
                has saved.
            decisions: Decisions on its pending calls by call id: True, False or a Decision. Each counts once, and only
                for the call, arguments and tool definition that were shown; a call without one keeps waiting.
            deps: As for `run`; not part of the state.
            output_type: As for `run`; not part of the state.
            shared: As for `run`; not part of the state, except for stored results, which are in its messages.
            session: As for `run`; not part of the state.

        Raises:
            ConversationError: It is not the state of a run that can be resumed.
            ApprovalError: A decision is for a call that does not wait.
            TypeError: It is neither a state nor a text.
        """
        return self.run(
            read_state(state, self._factory.options.get("checkpoint")),
            output_type=output_type,
            decisions=decisions,
            **given,
        )

    @overload
    async def aresume(
        self,
        state: RunState | str,
        decisions: Decisions = ...,
        *,
        output_type: type[T] = ...,
        **given: Unpack[ResumeOptions],
    ) -> RunResult[T]: ...
    @overload
    async def aresume(
        self, state: RunState | str, decisions: Decisions = ..., *, output_type: Any, **given: Unpack[ResumeOptions]
    ) -> RunResult[Any]: ...
    @spell_options(ResumeOptions, {}, RUN_HINTS)
    async def aresume(
        self,
        state: RunState | str,
        decisions: Decisions = NO_DECISIONS,
        *,
        output_type: Any = str,
        **given: Unpack[ResumeOptions],
    ) -> RunResult[Any]:
        """Do what `resume` does, in the running event loop."""
        return await self.arun(
            read_state(state, self._factory.options.get("checkpoint")),
            output_type=output_type,
            decisions=decisions,
            **given,
        )

    def fingerprint(self) -> Fingerprint:
        """Make digests of the tools and of all settings that decide what a run does, to compare two processes.

        Those of a sub-agent join it, with the name of its tool before theirs: `subagent_math/add`. Of
        `api_key`, only whether it is set is included. `client`, `base_url`, `ledger`, `checkpoint` and `max_runs` are
        left out: they say where a run executes, not what it does.

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
        """Make a tool of this runner, for another one: a sub-agent. A runner with a name needs it for other options.

        Each call is a run of this runner with a conversation of its own and the `deps` of the run above. What it uses
        counts in the usage, the calls and the limits of the run above; its calls pass the gates and the middleware of
        that run, too; its events arrive there as `SubAgentEvent`s; it is cancelled with it. A call of it that would
        have to wait for approval fails. The tool's effect is `destructive` or `write` where one of this runner's tools
        has that label now, and else unknown.

        Args:
            name: The tool's name; by default `subagent_` and the runner's name.
            description: What it is good at; the model reads it after "Delegate to specialist sub-agent:". By default
                the runner's description, or else its name.
            arg: Name of the parameter that holds the task.
            output_type: Type of the answer, as for `run`.
            max_depth: How many sub-agents may be inside each other, this one included.
            handoff: Whether it takes the conversation over: its answer is that of the run above, and what the user says
                next in that conversation goes to it. It remembers its tasks and answers, and ends this by a call of
                `hand_back`, a tool that it has for that.

        Raises:
            DefinitionError: There is no name or no description, or the name, or that of the parameter, cannot be one;
                or `handoff` does not go with `output_type`, or with a tool of the name `hand_back`.
            ValueError: `max_depth` is below 1.

        Examples:
            >>> from toolkit.testing import ScriptedModel, call
            >>> historian = Runner(model=ScriptedModel(["In 1889."]), instructions="You know history.")
            >>> model = ScriptedModel([call("ask_historian", query="When was the Eiffel Tower built?"), "1889."])
            >>> runner = Runner([historian.as_tool("ask_historian", "dates of buildings")], model=model)
            >>> runner.run("When was the Eiffel Tower built?").output
            '1889.'
        """
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

    def _repr_html_(self) -> str:
        from toolkit.display.cards import render_runner  # only a notebook asks

        name = self._factory.model_choice.given_name
        return render_runner(name, self.instructions, self.toolbox, self.limits)

    @property
    def toolbox(self) -> Toolbox:
        """The tools."""
        return self._factory.toolbox

    @property
    def instructions(self) -> str:
        """The system message; empty without one."""
        return self._factory.instructions

    @property
    def limits(self) -> Limits:
        """The limits of each run."""
        return self._factory.limits

    @property
    def model(self) -> Model:
        """The model; chosen when first needed, and, if it is the embedded one, fetched and started.

        Raises:
            NoModelError: No model is configured.
        """
        return self._factory.model_choice.sync_model()

    @override
    def _get_run(self) -> Run[Any]:
        return self._factory.active.get_only()

    @override
    def clear(self, *, steering: bool = True, follow_ups: bool = True) -> None:
        """Remove the messages that no run has read yet."""
        for run in self._factory.active.get_all():
            run.caller.queue.clear(steering=steering, follow_ups=follow_ups)

    @override
    def cancel(self) -> bool:
        """Cancel all active runs; returns whether there was one."""
        cancelled = [run.cancellation.cancel() for run in self._factory.active.get_all()]
        return any(cancelled)
