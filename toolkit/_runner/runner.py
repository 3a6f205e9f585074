"""Runner: the public class; it creates runs from its options. The loop itself is `Run.events` in `run.py`."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, overload

from typing_extensions import TypeVar, Unpack, override

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._concurrency.backend import run_sync
from toolkit._concurrency.cancellation import Cancellation, current_cancellation
from toolkit._concurrency.sync_backend import SyncBackend
from toolkit._dialects.catalog import get_run_dialect
from toolkit._dialects.chat import parse_history
from toolkit._dialects.tool_choice import allowed_names, check_choice
from toolkit._execution.approval import RecordedDecisions
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.ledger import MemoryLedger
from toolkit._execution.parallel import MAX_PARALLEL, Order, check_order
from toolkit._execution.references import restore_shared
from toolkit._execution.truncation import MAX_RESULT, RESULT_READ, ResultStore
from toolkit._messages import Message, ModelResponse, SystemMessage, UserMessage, get_open_calls
from toolkit._options import check_methods, is_whole, spell_options
from toolkit._runner.control import ActiveRuns, Controls, MessageQueue
from toolkit._runner.conversation import Conversation
from toolkit._runner.history import repair_history
from toolkit._runner.hooks import Hooks
from toolkit._runner.limits import Limits
from toolkit._runner.nesting import MAX_NESTING, ParentRun, parent_call
from toolkit._runner.options import (
    DEFAULTS,
    NO_DECISIONS,
    RUN_DEFAULTS,
    RUN_HINTS,
    Decisions,
    History,
    Prompt,
    RunnerOptions,
    RunOptions,
    RunRequest,
    check_values,
    get_given_options,
    make_request,
    reject_reserved_keys,
)
from toolkit._runner.output import build_output
from toolkit._runner.prompt import UserInput, make_user_message
from toolkit._runner.result import RunResult, restore_calls
from toolkit._runner.run import Run
from toolkit._runner.state import RunState
from toolkit._runner.stream import AsyncRunStream, RunHandle, RunStream
from toolkit._runner.sub_agent import MAX_DEPTH, make_sub_agent, walk_tools
from toolkit._runner.tool_calls import ToolCaller
from toolkit._schema.error_messages import suggest
from toolkit._toolbox import Addable, Toolbox
from toolkit._tools.bindings import AnyTool
from toolkit._tools.shared_values import SharedValues, Values
from toolkit._tools.tool import Tool
from toolkit.errors import ApprovalError, ConversationError, DuplicateToolError, RunError
from toolkit.models import Model
from toolkit.models.default import ModelChoice

logger = logging.getLogger("toolkit")

# Resumed runs whose results a runner without a ledger remembers.
MAX_REMEMBERED = 1_000
# Effects of calls that need approval where the embedded model is the fallback.
CHANGES = frozenset({"write", "destructive"})

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
        max_turns: Answers of the model that may call tools; then one last answer without. 10 by default.
        client: `openai.OpenAI` or `openai.AsyncOpenAI`. One is created by default.
        base_url: Address of an OpenAI-compatible server, such as "http://localhost:11434/v1".
        api_key: The key for that server. Without `base_url` that of the environment is used.
        api: The API of the server: "chat" (Chat Completions, which all servers have) or "responses".
        dialect: The form in which tools are sent: "chat" or "responses", by the API (native tool calls), "minimal" (the
            same for servers that know few keywords of JSON Schema) or "calls" (a format for the whole answer).
        strict: Whether the server is to enforce the schemas of tools that have no `strict` of their own, where that is
            lossless. By default the toolbox's own setting, or else True.
        request_options: Further keys of each request's body, such as `temperature`. Options of the client itself, such
            as `timeout`, are set on the client.
        tool_choice: "auto", "none", "required" or a tool's name. A forced call is forced in the first turn only.
        allowed_tools: Names of the tools that may be called. OpenAI and Azure are sent the others, too, which keeps
            their prompt caches valid; a call of one is refused.
        limits: Limits of a run; `max_turns` is one of them.
        max_runs: How many runs of this runner may be active at once. By default any number.
        authorize: A function of tool, arguments and context that allows or denies a call.
        approve: A function of an ApprovalRequest that approves or rejects a call; `toolkit.approvers` has some, and
            policies. By default a call that needs approval is refused.
        approval_timeout: Seconds that an approver or an authorizer may take: less than the `max_seconds` of a run, and
            31 days at most. By default without limit.
        ledger: A record of the steps of calls, so that none is executed twice, such as SQLiteLedger.
        checkpoint: A function that gets the state of a run before each of its steps, to save it.
        hooks: Objects with any of `before_model`, `after_model`, `before_call`, `after_call`.
        middleware: Functions around each call with its gates, the first one outermost.
        order: The calls of one turn that run together: "parallel", "sequential" or `batched(n)`.
        max_parallel: How many calls run at the same time, at most.
        early: Whether calls of tools with effect="read" start while the answer is still arriving.
        refresh: When a run takes over changes of its toolbox: "run", not at all; or "iteration", before each turn.
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

    Example:
        >>> from toolkit.testing import ScriptedModel, call
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> runner = Runner([add], model=ScriptedModel([[call("add", a=15, b=27)], "It is 42."]))
        >>> runner.run("What is 15 + 27?").output
        'It is 42.'
    """

    @spell_options(RunnerOptions, DEFAULTS)
    def __init__(
        self,
        toolbox: Toolbox | Iterable[Addable] = (),
        *,
        model: str | Model | None = None,
        instructions: str = "",
        max_turns: int | None = None,
        **options: Unpack[RunnerOptions],
    ) -> None:
        if not isinstance(model, (str, Model, type(None))):
            raise TypeError(f"model={model!r} is neither a model's name nor a Model. A client goes in as client=...")
        self.toolbox = toolbox if isinstance(toolbox, Toolbox) else Toolbox(toolbox)
        _refuse_reserved(self.toolbox.names)
        for made in walk_tools(self.toolbox):
            _ = made._spec  # a tool that cannot be described is found here, not in the first run
        self.instructions = instructions
        given = get_given_options(options)
        check_values(given)
        reject_reserved_keys(given.get("request_options", {}))
        MessageQueue(given.get("queue", "one"))  # an unknown mode is found here, not in the first run
        limits = given.get("limits", Limits())
        self.limits = limits if max_turns is None else replace(limits, max_turns=max_turns)
        _check_approval_timeout(given.get("approval_timeout"), self.limits)
        self._options = given
        self._model_choice = _make_model_choice(self.toolbox, model, given)
        self._has_warned = False
        self._order: Order = check_order(given.get("order", "parallel"))
        self._max_parallel = _check_max_parallel(given.get("max_parallel", MAX_PARALLEL))
        self._hooks = Hooks(given.get("hooks", ()))
        self._active = ActiveRuns[Run[Any]](given.get("max_runs"))
        self._ledger = given["ledger"] if "ledger" in given else MemoryLedger(MAX_REMEMBERED)

    @overload
    def run(self, prompt: Prompt = ..., *, output_type: type[T] = ..., **given: Unpack[RunOptions]) -> RunResult[T]: ...
    @overload
    def run(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunResult[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS)
    def run(self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]) -> RunResult[Any]:
        """Call the model and execute its tool calls until it has an answer.

        Works in a script and inside a running event loop. A single call of a turn runs on the caller's thread. An
        exception that leaves `run`, KeyboardInterrupt included, has the RunResult so far as its `result`.

        Args:
            prompt: The user's message: text; or a list of texts, `Path`s of images, PDFs and text files, `Image`s,
                `File`s, pictures of PIL, figures of Matplotlib or Plotly. Or the state of a run, to resume it.
            messages: The conversation so far: the messages of another result, or a history in OpenAI's form. A broken
                history is repaired.
            deps: Given to tools as `ToolContext.deps`.
            output_type: The type of the answer: anything that pydantic validates, such as a model, a dataclass or
                `list[int]`; or a JSON Schema, whose values are plain data. `str` means any text.
            decisions: With a state: decisions on its pending calls by call id; True, False or a Decision.
            shared: Values by dotted path, given to tools as `ToolContext.shared`; calls may refer to them if the
                toolbox has `references`. Results that calls store join them. A SharedValues is used as it is, so that
                several runs can share it.
            allowed_tools: As for the Runner, in the place of its own; kept in the state.

        Raises:
            DefinitionError: `output_type` has no JSON form.
            ModelError: The model's server failed, or did not answer in time.
            NoModelError: No model is configured.
            LimitError: A limit was reached, with `on_limit="raise"`.
            BusyError: The runner has `max_runs` active runs.
            ApprovalError: A decision is for a call that does not wait.
            FatalError: A tool raised it.
            TypeError: A tool takes `ToolContext[X]`, and there are no deps.
            RunError: The model gave no answer of the `output_type` within `output_retries`.
        """
        request = make_request(prompt, output_type, given)
        return run_sync(self._create_run(request).finish(SyncBackend()))

    @overload
    async def arun(
        self, prompt: Prompt = ..., *, output_type: type[T] = ..., **given: Unpack[RunOptions]
    ) -> RunResult[T]: ...
    @overload
    async def arun(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunResult[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS)
    async def arun(
        self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]
    ) -> RunResult[Any]:
        """Do what `run` does, in the running event loop; sync tools run on threads."""
        request = make_request(prompt, output_type, given)
        return await self._create_run(request).finish(AsyncBackend())

    @overload
    def stream(
        self, prompt: Prompt = ..., *, output_type: type[T] = ..., **given: Unpack[RunOptions]
    ) -> RunStream[T]: ...
    @overload
    def stream(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunStream[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS)
    def stream(self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]) -> RunStream[Any]:
        """Do what `run` does, as an iterator of events; leaving it early cancels the run."""
        return RunStream(self._create_run(make_request(prompt, output_type, given, streams=True)))

    @overload
    def astream(
        self, prompt: Prompt = ..., *, output_type: type[T] = ..., **given: Unpack[RunOptions]
    ) -> AsyncRunStream[T]: ...
    @overload
    def astream(
        self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]
    ) -> AsyncRunStream[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS)
    def astream(
        self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]
    ) -> AsyncRunStream[Any]:
        """Do what `stream` does, in the running event loop."""
        return AsyncRunStream(self._create_run(make_request(prompt, output_type, given, streams=True)))

    @overload
    def start(
        self, prompt: Prompt = ..., *, output_type: type[T] = ..., **given: Unpack[RunOptions]
    ) -> RunHandle[T]: ...
    @overload
    def start(self, prompt: Prompt = ..., *, output_type: Any, **given: Unpack[RunOptions]) -> RunHandle[Any]: ...
    @spell_options(RunOptions, RUN_DEFAULTS)
    def start(self, prompt: Prompt = None, *, output_type: Any = str, **given: Unpack[RunOptions]) -> RunHandle[Any]:
        """Start the run on a thread of its own, and return a handle at once."""
        request = make_request(prompt, output_type, given, streams=True, in_background=True)
        return RunHandle(self._create_run(request))

    @overload
    def resume(
        self,
        state: RunState | str,
        decisions: Decisions = ...,
        *,
        deps: Any = None,
        output_type: type[T] = ...,
        shared: Values = None,
    ) -> RunResult[T]: ...
    @overload
    def resume(
        self,
        state: RunState | str,
        decisions: Decisions = ...,
        *,
        deps: Any = None,
        output_type: Any,
        shared: Values = None,
    ) -> RunResult[Any]: ...
    def resume(
        self,
        state: RunState | str,
        decisions: Decisions = NO_DECISIONS,
        *,
        deps: Any = None,
        output_type: Any = str,
        shared: Values = None,
    ) -> RunResult[Any]:
        """Resume a run from its saved state, in this process or another.

        Args:
            state: `result.state`, or the text that its `to_json` wrote.
            decisions: Decisions on its pending calls by call id: True, False or a Decision. Each counts once, and only
                for the call, arguments and tool definition that were shown; a call without one keeps waiting.
            deps: As for `run`; not part of the state.
            output_type: As for `run`; not part of the state.
            shared: As for `run`; not part of the state, except for stored results, which are in its messages.

        Raises:
            ConversationError: It is not the state of a run that can be resumed.
            ApprovalError: A decision is for a call that does not wait.
            TypeError: It is neither a state nor a text.
        """
        return self.run(_read(state), deps=deps, output_type=output_type, decisions=decisions, shared=shared)

    @overload
    async def aresume(
        self,
        state: RunState | str,
        decisions: Decisions = ...,
        *,
        deps: Any = None,
        output_type: type[T] = ...,
        shared: Values = None,
    ) -> RunResult[T]: ...
    @overload
    async def aresume(
        self,
        state: RunState | str,
        decisions: Decisions = ...,
        *,
        deps: Any = None,
        output_type: Any,
        shared: Values = None,
    ) -> RunResult[Any]: ...
    async def aresume(
        self,
        state: RunState | str,
        decisions: Decisions = NO_DECISIONS,
        *,
        deps: Any = None,
        output_type: Any = str,
        shared: Values = None,
    ) -> RunResult[Any]:
        """Do what `resume` does, in the running event loop."""
        return await self.arun(_read(state), deps=deps, output_type=output_type, decisions=decisions, shared=shared)

    def as_tool(
        self, name: str, description: str, *, arg: str = "query", output_type: Any = str, max_depth: int = MAX_DEPTH
    ) -> Tool[..., Any]:
        """Make a tool of this runner, for another one: a sub-agent.

        Each call is a run of this runner with a conversation of its own and the `deps` of the run above. What it uses
        counts in the usage, the calls and the limits of the run above; its calls pass the gates and the middleware of
        that run, too; its events arrive there as `SubAgentEvent`s; it is cancelled with it. A call of it that would
        have to wait for approval fails. The tool's effect is `destructive` or `write` where one of this runner's tools
        has that label now, and else unknown.

        Args:
            name: The tool's name.
            description: What it is good at; the model reads it after "Delegate to specialist sub-agent:".
            arg: Name of the parameter that holds the task.
            output_type: Type of the answer, as for `run`.
            max_depth: How many sub-agents may be inside each other, this one included.

        Raises:
            DefinitionError: The name, or that of the parameter, cannot be one.
            ValueError: `max_depth` is below 1.

        Example:
            >>> from toolkit.testing import ScriptedModel, call
            >>> historian = Runner(model=ScriptedModel(["In 1889."]), instructions="You know history.")
            >>> model = ScriptedModel([call("ask_historian", query="When was the Eiffel Tower built?"), "1889."])
            >>> runner = Runner([historian.as_tool("ask_historian", "dates of buildings")], model=model)
            >>> runner.run("When was the Eiffel Tower built?").output
            '1889.'
        """
        return make_sub_agent(
            self._create_run,
            lambda: self.toolbox,
            name=name,
            description=description,
            arg=arg,
            max_depth=max_depth,
            output_type=output_type,
        )

    def __repr__(self) -> str:
        return f"<Runner of {self.toolbox!r}>"

    @property
    def model(self) -> Model:
        """The model; chosen when first needed, and, if it is the embedded one, fetched and started.

        Raises:
            NoModelError: No model is configured.
        """
        return self._model_choice.sync_model()

    @property
    @override
    def _queue(self) -> MessageQueue:
        return self._active.get_only().queue

    @property
    @override
    def _cancellation(self) -> Cancellation:
        return self._active.get_only().cancellation

    @override
    def clear(self, *, steering: bool = True, follow_ups: bool = True) -> None:
        """Remove the messages that no run has read yet."""
        for run in self._active.get_all():
            run.queue.clear(steering=steering, follow_ups=follow_ups)

    @override
    def cancel(self) -> bool:
        """Cancel all active runs; returns whether there was one."""
        cancelled = [run.cancellation.cancel() for run in self._active.get_all()]
        return any(cancelled)

    def _create_run(self, request: RunRequest) -> Run[Any]:
        """Create a run and count it among the active ones.

        A run that a call of another run starts is bound by that one's limits and gates, too.

        Raises:
            RunError: Runs are nested too deeply.
            ApprovalError: A decision is for a call that does not wait.
            TypeError: A tool needs `deps`, and there are none.
            BusyError: The runner has as many active runs as it may have.
            ValueError: There is nothing to answer, or an option names a tool that does not exist.
        """
        options, start, parent = self._options, time.monotonic(), _find_parent()
        above = parent.conversation if parent else None
        state, prompt = (request.prompt, None) if isinstance(request.prompt, RunState) else (None, request.prompt)
        list_tools = partial(self._list_tools, request.deps, parent)
        tools = list_tools()  # result_read may join in the course of the run
        for name in self.limits.max_calls_per_tool:
            if name not in tools:
                raise ValueError(
                    f"Limits(max_calls_per_tool=...) has {name!r}, which is not a tool here{suggest(str(name), tools)}"
                )
        own = state.allowed_tools if state and request.allowed_tools is None else request.allowed_tools
        choice, allowed = check_choice(
            options.get("tool_choice"), options.get("allowed_tools") if own is None else own, tools
        )
        own = None if own is None else allowed
        if state:
            conversation = _resume(state.replace(allowed_tools=own), self.limits, above)
        elif request.decisions:
            raise ApprovalError("decisions= belongs to the state of a paused run: pass that, too.")
        else:
            messages = _list_first_messages(prompt, request.messages, self.instructions)
            conversation = Conversation(
                messages, run_id=uuid.uuid4().hex, limits=self.limits, allowed_tools=own, parent=above
            )
        cancellation = Cancellation(parent=current_cancellation.get())
        deadline = Cancellation(self.limits.max_seconds, parent=cancellation)
        queue = MessageQueue(options.get("queue", "one"))
        shared: SharedValues | None = None
        if request.shared is not None or self.toolbox.references:
            shared = restore_shared(request.shared, conversation.history, tools)
        dispatcher = self._create_dispatcher(request, state, tools, choice, allowed, conversation, parent)
        run = Run(
            conversation=conversation,
            model_choice=self._model_choice,
            limits=self.limits,
            hooks=self._hooks,
            tool_caller=ToolCaller(
                dispatcher=dispatcher,
                tools=tools,
                queue=queue,
                order=self._order,
                max_parallel=self._max_parallel,
                streams=request.streams,
                in_background=request.in_background,
                run_id=conversation.run_id,
                deps=request.deps,
                refers=self.toolbox.references,
                shared=shared,
                deadline=deadline,
                raise_errors=options.get("raise_errors", False),
                place=ParentRun(
                    conversation=conversation,
                    dispatcher=dispatcher,
                    depth=parent.depth + 1 if parent else 1,
                    streams=request.streams,
                ),
            ),
            output=build_output(request.output_type, taken=tools),
            tools=tools,
            tool_choice=choice,
            allowed=allowed,
            streams=request.streams,
            early=options.get("early", False),
            list_tools=list_tools if options.get("refresh") == "iteration" else None,
            in_background=request.in_background,
            active=self._active,
            queue=queue,
            cancellation=cancellation,
            deadline=deadline,
            start=start,
            checkpoint=options.get("checkpoint"),
            calls=restore_calls(state) if state else {},
        )
        self._active.add(run)
        return run

    def _list_tools(self, deps: Any, parent: ParentRun | None) -> dict[str, AnyTool]:
        """Return the tools that the toolbox holds now; with the fallback model, changes need approval.

        Warns, once, of destructive tools without an approver.

        Raises:
            DefinitionError: Sub-agents form a circle, or are nested too deeply.
            DuplicateToolError: A tool has the name of one that a run adds.
            TypeError: A tool needs `deps`, and there are none.
        """
        tools = dict(self.toolbox.snapshot())
        _refuse_reserved(tools)
        for made in walk_tools(tools.values()):
            if deps is None and made._needs_deps:
                raise TypeError(f"{made.origin} takes a ToolContext with deps: pass deps= to the run.")
        changing = [tool for tool in tools.values() if tool.settings.effect in CHANGES]
        has_approver = self._options.get("approve") is not None or (parent and parent.dispatcher.approvers)
        if has_approver or not changing:
            return tools
        if self._model_choice.is_fallback:
            return {**tools, **{tool.name: _require_approval(tool) for tool in changing}}
        unasked = [tool for tool in changing if tool.settings.approve is False]
        names = [repr(tool.name) for tool in unasked if tool.settings.effect == "destructive"]
        if names and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "No approver is set, so calls of destructive tools run unasked: %s. Pass approve=Console(), or "
                "approve=approve_all to accept that.",
                ", ".join(names),
            )
        return tools

    def _create_dispatcher(
        self,
        request: RunRequest,
        state: RunState | None,
        tools: Mapping[str, AnyTool],
        choice: str | None,
        allowed: tuple[str, ...] | None,
        conversation: Conversation,
        parent: ParentRun | None,
    ) -> Dispatcher:
        options, above = self._options, parent.dispatcher if parent else Dispatcher(tools={})
        approver = options.get("approve")
        if state and (state.pending or request.decisions):
            approver = RecordedDecisions(request.decisions, state.pending, otherwise=approver)
        is_free = allowed is None and choice != "none"
        max_result = options.get("max_result", MAX_RESULT)
        return Dispatcher(
            tools=tools,
            available=None if is_free else allowed_names(tools, choice, allowed),
            authorizers=_join(options.get("authorize"), above.authorizers),
            approvers=_join(approver, above.approvers),
            approval_timeout=options.get("approval_timeout", above.approval_timeout),
            middleware=(*above.middleware, *self._hooks.middleware, *options.get("middleware", ())),
            max_result=max_result,
            check_output=self.toolbox.check_output,
            format_error=options.get("format_error"),
            overflow=ResultStore(max_result) if is_free else None,
            ledger=self._ledger if "ledger" in options or state else None,
            suspects=() if "ledger" in options or not state else _list_open_ids(state),
            count=conversation.count_call,
        )


def _read(state: RunState | str) -> RunState:
    read = RunState.from_json(state) if isinstance(state, str) else state
    if not isinstance(read, RunState):
        raise TypeError(f"resume() takes result.state, or the text of its to_json(), not {state!r:.100}.")
    return read


def _refuse_reserved(names: Container[str]) -> None:
    """Refuse a tool that has the name of one that a run adds.

    Raises:
        DuplicateToolError: There is one.
    """
    if RESULT_READ in names:
        raise DuplicateToolError(
            f"A run adds a tool {RESULT_READ!r} of its own, which reads results that are too long. Give yours another "
            f"name=, or put a prefix with Toolbox.prefixed()."
        )


def _require_approval(tool: AnyTool) -> AnyTool:
    return replace(tool, settings=replace(tool.settings, approve=True))


def _make_model_choice(toolbox: Toolbox, model: str | Model | None, options: RunnerOptions) -> ModelChoice:
    strict = options.get("strict", toolbox.strict is not False)
    return ModelChoice(
        given=None if isinstance(model, str) else model,
        name=model if isinstance(model, str) else None,
        client=options.get("client"),
        base_url=options.get("base_url"),
        api_key=options.get("api_key"),
        api=options.get("api", "chat"),
        dialect=get_run_dialect(options["dialect"], strict=strict, api=options.get("api", "chat"))
        if "dialect" in options
        else None,
        strict=strict,
        options=options.get("request_options", {}),
    )


def _find_parent() -> ParentRun | None:
    """Return the run whose call is being executed here.

    Raises:
        RunError: There are as many runs above as may be.
    """
    call = parent_call.get()
    if call is None:
        return None
    if call.run.depth >= MAX_NESTING:
        raise RunError(f"Runs are nested {MAX_NESTING} deep: a tool starts a run whose tool starts a run, and so on.")
    return call.run


def _join(own: T | None, above: tuple[T, ...]) -> tuple[T, ...]:
    """Join a run's own gate with those of the runs above; the same one is asked once."""
    return above if own is None or any(own is each for each in above) else (own, *above)


def _resume(state: RunState, limits: Limits, parent: Conversation | None) -> Conversation:
    if state.phase == "finished":
        raise ConversationError("This run has finished: go on from it with run(prompt, messages=state.messages).")
    state.check()
    conversation = Conversation.restore(state, limits, parent)
    if state.phase == "paused":
        conversation.resume()
    return conversation


def _list_open_ids(state: RunState) -> tuple[str, ...]:
    """Return the ids of the calls that were running when a state was saved: its process may have died meanwhile."""
    if state.phase != "calling":
        return ()
    return tuple(call.id for call in get_open_calls(state.messages, state.results))


def _list_first_messages(prompt: UserInput | None, history: History, instructions: str) -> list[Message]:
    messages: list[Message] = []
    if history:
        messages, notes = repair_history(parse_history(history))
        for note in notes:
            logger.warning("The history was repaired: %s", note)
    if prompt is not None:
        messages.append(UserMessage(prompt) if isinstance(prompt, str) else make_user_message(prompt))
    if not messages:
        raise ValueError("There is nothing to answer: pass a prompt, or messages.")
    if isinstance(messages[-1], ModelResponse):
        raise ValueError(  # noqa: TRY004  it is the right type in the wrong place
            "There is nothing to answer: the last message is the model's own. Pass a prompt, too."
        )
    if not instructions or any(isinstance(message, SystemMessage) for message in messages):
        return messages
    return [SystemMessage(instructions), *messages]


def _check_approval_timeout(timeout: float | None, limits: Limits) -> None:
    if timeout is not None and limits.max_seconds is not None and timeout >= limits.max_seconds:
        raise ValueError(f"approval_timeout ({timeout:g} s) must be less than max_seconds ({limits.max_seconds:g} s).")


def _check_max_parallel(value: Any) -> int:
    if is_whole(value, 1):
        return value
    raise ValueError(f"max_parallel={value!r} is not a whole number of calls, at least 1.")
