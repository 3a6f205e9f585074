"""Create the runs of a runner: from its options and a request to a conversation, a dispatcher and a run."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from toolkit._concurrency.backend import Backend, call_function
from toolkit._concurrency.cancellation import Cancellation, current_cancellation
from toolkit._dialects.base import Dialect
from toolkit._dialects.catalog import APIS
from toolkit._dialects.tool_choice import allowed_names, check_tool_choice
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.gates import Gates, list_new
from toolkit._execution.ledger import Ledger, MemoryLedger, Recording
from toolkit._execution.references import restore_shared
from toolkit._execution.truncation import RESULT_READ, ResultStore
from toolkit._execution.undo import Undo, Undoer, get_undo, was_undone
from toolkit._messages import Message, ModelResponse, SystemMessage, ToolMessage, UserMessage
from toolkit._runner.control import ActiveRuns, MessageQueue
from toolkit._runner.conversation import Conversation
from toolkit._runner.history import read_history
from toolkit._runner.hooks import Hooks
from toolkit._runner.limits import Limits
from toolkit._runner.model_calls import ModelCaller
from toolkit._runner.options import (
    DEFAULTS,
    RunnerOptions,
    RunnerSettings,
    RunRequest,
    check_values,
    reject_reserved_keys,
)
from toolkit._runner.output import TEXT, build_output
from toolkit._runner.prompt import NOTHING_TO_ANSWER, make_user_message
from toolkit._runner.resuming import record_calls, record_decisions
from toolkit._runner.run import Run
from toolkit._runner.saved_runs import SQLiteRuns
from toolkit._runner.session import Session
from toolkit._runner.state import RunState, restore_calls
from toolkit._runner.sub_agent import SubAgent, continue_handoff, walk_tools
from toolkit._runner.tool_calls import ToolCaller, find_parent, parent_call
from toolkit._schema.error_messages import suggest
from toolkit._toolbox import Toolbox
from toolkit._tools.bindings import AnyTool
from toolkit._tools.shared_values import SharedValues
from toolkit._tools.tool import check_deps, find_instance
from toolkit.errors import ApprovalError, ConversationError, DuplicateToolError
from toolkit.models import Model
from toolkit.models.default import ModelChoice

if TYPE_CHECKING:  # slow to load
    from toolkit._tools.definitions import Fingerprint

logger = logging.getLogger("toolkit")

# The most runs that a runner without a ledger records whole, to resume or undo them.
MAX_REMEMBERED = 1_000
# Effects of calls that need approval if the embedded model is the fallback.
CHANGES = frozenset({"write", "destructive"})
# Options of the Runner that a client, or a Model, already has.
_OWN_OPTIONS = {
    "client": ("base_url", "api_key"),
    "model": ("client", "base_url", "api_key", "dialect", "request_options", "api"),
}
# Options that say where a run runs, not what it does.
PLACES = frozenset({"client", "base_url", "api_key", "max_runs", "ledger", "checkpoint"})
NOT_GIVEN = object()

T = TypeVar("T")


class RunFactory:
    """Creates the runs of a runner.

    Attributes:
        options: The other options of the runner, with the defaults of those that are not None.
        active: The runs that have not ended.
        ledger: The given one, or else one in memory, for resumed runs and calls that can be undone.
        dispatcher: The middleware and gates of a run, without those of a run above.

    Raises:
        ValueError: An option has a wrong value.
        TypeError: An option has a wrong type.
        DefinitionError: One of the tools cannot be described to a model, or is called `result_read`.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        model: str | Model | None,
        instructions: str,
        given: RunnerOptions,
    ) -> None:
        self.toolbox = toolbox
        self._tools: _CheckedTools | None = None
        for tool in self.check_tools().listed.values():
            _ = tool._spec, tool._invocation  # a tool that cannot be described is found here, not in the first run
        check_values({**given, "instructions": instructions})
        if isinstance(saved := given.get("checkpoint"), SQLiteRuns):
            given.setdefault("ledger", saved)
        reject_reserved_keys(given.get("request_options") or {})
        limits = _read_limits(given)
        self.instructions = instructions
        self.options: Mapping[str, Any] = {**DEFAULTS, **given}
        choice = _make_model_choice(toolbox, model, self.options)
        _check_provider_tools(toolbox, choice)
        self.settings = RunnerSettings(
            name=given.get("name") or "",
            model_choice=choice,
            limits=limits,
            hooks=Hooks(self.options["hooks"], self.options["middleware"]),
            order=self.options["order"],
            max_parallel=self.options["max_parallel"],
            early=self.options["early"],
            raise_errors=self.options["raise_errors"],
            checkpoint=given.get("checkpoint"),
        )
        self.active = ActiveRuns[Run[Any]](given.get("max_runs"))
        self._has_warned = False
        ledger = given.get("ledger")
        self.ledger: Ledger = MemoryLedger(MAX_REMEMBERED) if ledger is None else ledger
        self.dispatcher = Dispatcher(
            tools={},
            gates=Gates(
                authorizers=_list_given(given.get("authorize")),
                approvers=_list_given(given.get("approve")),
                timeout=given.get("approval_timeout"),
            ),
            middleware=self.settings.hooks.middleware,
            recording=Recording(ledger=ledger, undo_ledger=self.ledger),
            max_result=self.options["max_result"],
            format_error=given.get("format_error"),
        )

    async def undo(self, run: RunState | str, deps: Any, backend: Backend) -> tuple[Undo, ...]:
        """Undo the calls of a run, given its state or its id; `Runner.undo` says what it raises."""
        if not isinstance(run, (RunState, str)):
            raise TypeError(f"undo() takes result.state, or the id of a run, not {run!r:.100}.")

        state = None if isinstance(run, str) else run
        run_id = run if isinstance(run, str) else run.run_id
        saved = self.options.get("checkpoint")
        ledger = self.ledger
        tools = self.toolbox.snapshot()
        if isinstance(saved, SQLiteRuns):
            state = saved.load(run_id)
        if any(active.conversation.run_id == run_id for active in self.active.get_all()):
            raise ConversationError(f"The run {run_id} is active: cancel it, or wait for its end, before it is undone.")

        called = () if state is None else [tools[name] for name in state.calls_by_tool if name in tools]
        may_undo = state is None or any(tool.settings.undo for tool in walk_tools(called))
        if may_undo and not ledger.read(run_id):
            raise ConversationError(f"There is no record of the calls of run {run_id!r:.100} in this runner's ledger.")

        undone = await self.create_undoer(backend, run_id, deps, self.dispatcher.recording).undo()
        if saved is not None and state is not None and state.phase != "finished":
            conversation = Conversation(state)
            conversation.end("cancelled")
            await call_function(saved, (conversation.state,), backend)
        return undone

    def fingerprint(self) -> Fingerprint:
        """Make digests of the tools and settings; `Runner.fingerprint` says what they hold and what it raises."""
        from toolkit._tools.definitions import Fingerprint, make_fingerprint

        given: dict[str, Any] = {
            name: value
            for name, value in self.options.items()
            if name not in (*PLACES, "max_turns") and value != DEFAULTS.get(name, NOT_GIVEN)
        }
        own = {
            **given,
            "model": self.settings.model_choice.given_name,
            "instructions": self.instructions or None,
            "limits": self.settings.limits,
            "api_key": "given" if self.options.get("api_key") else None,
        }
        list(walk_tools(self.toolbox))  # refuses a circle
        box = self.toolbox.fingerprint()
        return Fingerprint(box.tools, {**box.settings, **make_fingerprint((), own).settings})

    def create(self, request: RunRequest) -> Run[Any]:
        """Create a run and add it to the active runs.

        If a call of another run starts it, the limits and gates of that run hold, too.

        Raises:
            RunError: Runs are nested too deeply.
            ApprovalError: A decision is for a call that does not wait.
            TypeError: A tool takes `ToolContext[X]`, and `deps` is missing or of another type.
            BusyError: The runner has as many active runs as it may have.
            ValueError: There is nothing to answer, or an option names a tool that does not exist.
            TypeError: `session` is not a Session, or there are `messages`, too.
        """
        run = _RunBuilder(self, request).build()
        self.active.add(run)
        return run

    def create_undoer(self, backend: Backend, run_id: str, deps: Any, recording: Recording) -> Undoer:
        """Create an `Undoer` with this runner's tools."""
        return Undoer(
            tools=[*walk_tools(self.toolbox.snapshot().values())],
            ledger=self.ledger if recording.undo_ledger is None else recording.undo_ledger,
            run_id=run_id,
            recorded_as=next(iter(recording.runs_above), run_id),
            deps=deps,
            backend=backend,
        )

    def check_tools(self) -> _CheckedTools:
        """Return the current tools of the toolbox, checked again if they may have changed.

        Raises:
            DefinitionError: Sub-agents form a circle, or are nested too deeply.
            DuplicateToolError: A tool has the name of one that a run adds.
        """
        checked = self._tools
        listed = self.toolbox.snapshot()
        if checked is not None and checked.listed is listed and not checked.has_agents:
            return checked
        if RESULT_READ in listed:
            raise DuplicateToolError(
                f"A run adds a tool {RESULT_READ!r} of its own, which reads results that are too long. Give yours "
                f"another name=, or put a prefix with Toolbox.prefixed()."
            )

        self._tools = checked = _CheckedTools(
            listed=listed,
            changing=[tool for tool in listed.values() if tool.settings.effect in CHANGES],
            typed=[tool for tool in walk_tools(listed.values()) if tool._deps_types],
            has_agents=any(isinstance(find_instance(tool), SubAgent) for tool in listed.values()),
        )
        return checked

    def warn_of_unasked(self, tools: Iterable[AnyTool]) -> None:
        """Warn once if calls of destructive tools run without approval."""
        destructive = [tool for tool in tools if tool.settings.effect == "destructive"]
        unasked = [tool.name for tool in destructive if tool.settings.approve is False]
        if unasked and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "No approver is set, so calls of destructive tools run unasked: %s. Pass approve=Console(), or "
                "approve=approve_all to accept that.",
                ", ".join(map(repr, unasked)),
            )


class _RunBuilder:
    """Makes one run from its runner, its request and the run above it.

    Raises:
        RunError: Runs are nested too deeply.
        TypeError: `session` is not a Session, or there are `messages`, too; or as for `_list_tools`.
        ValueError: An option names a tool that does not exist.
        ConversationError: The state of a saved run names a tool that does not exist.
        DefinitionError, DuplicateToolError: As for `RunFactory.check_tools`.
    """

    def __init__(self, factory: RunFactory, request: RunRequest) -> None:
        self._factory = factory
        self._request = request
        self._start = time.monotonic() - request.spent
        self._parent = find_parent()
        self._state = state = request.prompt if isinstance(request.prompt, RunState) else None
        self._earlier = _read_session(request)
        self._checked = factory.check_tools()
        self._tools = self._list_tools(self._checked)  # result_read may be added during the run
        _check_limited(factory.settings.limits.max_calls_per_tool, self._tools)

        own = request.allowed_tools
        if own is None and state is not None:
            own = state.allowed_tools
        choice = factory.options.get("tool_choice")
        allowed = factory.options.get("allowed_tools") if own is None else own
        if choice is not None or allowed is not None:
            try:
                choice, allowed = check_tool_choice(choice, allowed, self._tools)
            except ValueError as error:
                if state is None or own is not state.allowed_tools:
                    raise
                raise ConversationError(f"The run cannot be resumed with these tools: {error}") from error

        self._choice = choice
        self._allowed = None if allowed is None else (*allowed, *(tool.name for tool in request.tools))
        self._own_allowed = None if own is None else self._allowed  # part of the state

        self._available: Collection[str] | None = None
        if allowed is not None or choice == "none":
            self._available = allowed_names(self._tools, choice, self._allowed)

    def build(self) -> Run[Any]:
        """Make the run."""
        factory = self._factory
        request = self._request
        state = self._state
        first, older = self._resume_state(state) if state else self._start_state()
        conversation = Conversation(first, factory.settings.limits, self._parent.conversation if self._parent else None)
        if first.phase == "paused":
            conversation.resume()
        handoff = self._hand_over(conversation)
        dispatcher = self._create_dispatcher(conversation)
        cancellation = Cancellation(parent=current_cancellation.get())
        tool_caller = self._create_tool_caller(conversation, dispatcher, cancellation)
        output = TEXT if request.output_type is str else build_output(request.output_type, taken=self._tools)
        session = request.session
        count = len(self._earlier)
        refreshes = factory.options["refresh"] == "iteration"
        return Run(
            settings=factory.settings,
            conversation=conversation,
            model_caller=ModelCaller(
                settings=factory.settings,
                tool_caller=tool_caller,
                output=output.spec,
                tool_choice=self._choice,
                allowed=self._allowed,
                cancellation=cancellation,
                list_tools=(lambda: self._list_tools(factory.check_tools())) if refreshes else None,
            ),
            tool_caller=tool_caller,
            output=output,
            handoff=handoff,
            active=factory.active,
            cancellation=cancellation,
            start=self._start,
            save_messages=None if session is None else lambda new: session.extend(new[older:], after=count),
            calls=restore_calls(state) if state else {},
            create_undoer=self._choose_undoer(dispatcher, conversation.run_id),
        )

    def _create_tool_caller(
        self, conversation: Conversation, dispatcher: Dispatcher, cancellation: Cancellation
    ) -> ToolCaller:
        factory = self._factory
        request = self._request
        parent = self._parent
        settings = factory.settings
        seconds = settings.limits.max_seconds
        observers = settings.hooks.observers
        above = parent_call.get()
        return ToolCaller(
            settings=settings,
            conversation=conversation,
            dispatcher=dispatcher,
            available=self._available,
            tools=self._tools,
            queue=MessageQueue(factory.options["queue"]),
            request=request,
            shared=self._restore_shared(conversation),
            deadline=Cancellation(None if seconds is None else seconds - request.spent, parent=cancellation),
            agent=settings.name or (above.call.name if above else ""),
            depth=parent.depth + 1 if parent else 1,
            observers=(*parent.observers, *list_new(observers, parent.observers)) if parent else observers,
        )

    def _start_state(self) -> tuple[RunState, int]:
        """Make the first state of a run. Return it with the number of messages from before the run.

        Raises:
            ApprovalError: There are decisions.
            ValueError: There is nothing to answer.
        """
        request = self._request
        if request.decisions:
            raise ApprovalError("decisions= belongs to the state of a paused run: pass that, too.")
        messages = self._list_messages()
        run_id = uuid.uuid4().hex
        count = len(messages)
        state = RunState(run_id=run_id, messages=tuple(messages), start=count, allowed_tools=self._own_allowed)
        return state, count if request.prompt is None else count - 1

    def _list_messages(self) -> list[Message]:
        """List the first messages of a conversation: instructions, history, prompt."""
        prompt: Any = self._request.prompt
        history = self._earlier or self._request.messages
        instructions = self._factory.instructions
        messages = read_history(history) if history else []
        if prompt is not None:
            messages.append(UserMessage(prompt) if isinstance(prompt, str) else make_user_message(prompt))
        if not messages or isinstance(messages[-1], ModelResponse):
            raise ValueError(NOTHING_TO_ANSWER)
        if not instructions or any(isinstance(message, SystemMessage) for message in messages):
            return messages
        return [SystemMessage(instructions), *messages]

    def _resume_state(self, state: RunState) -> tuple[RunState, int]:
        """Check the state of a saved run. Return it with the number of messages from before the run.

        Raises:
            ConversationError: The state cannot be resumed, or the session has changed since.
            TypeError: There are `messages`, too.
        """
        earlier = self._earlier
        if was_undone(self._factory.ledger, state.run_id):
            raise ConversationError(f"The calls of run {state.run_id} were undone, so it cannot be resumed.")

        older = len(earlier) + isinstance(state.messages[0], SystemMessage)
        if state.messages[older - len(earlier) : older] != tuple(earlier):
            raise ConversationError(
                "The session has other messages than when this run started, so the run cannot add its own: resume it "
                "without session=."
            )

        if state.phase == "finished":
            raise ConversationError("This run has finished: go on from it with run(prompt, messages=state.messages).")
        if self._request.messages:
            raise TypeError(
                "messages= cannot be passed with a state, which has its own: leave it out. steer() sends a message to "
                "the resumed run."
            )

        state.check()
        return state.replace(allowed_tools=self._own_allowed), older

    def _hand_over(self, conversation: Conversation) -> ModelResponse | None:
        """If a sub-agent has the conversation, add and return a response that hands the user's message to it."""
        if self._state is not None or not self._checked.has_agents:
            return None
        allowed = self._allowed
        may_call = {name: tool for name, tool in self._tools.items() if allowed is None or name in allowed}
        call = continue_handoff(conversation.history, may_call)
        return None if call is None else conversation.add_response(ModelResponse(calls=(call,)))

    def _choose_undoer(self, dispatcher: Dispatcher, run_id: str) -> Callable[[Backend], Undoer] | None:
        """Return a function that creates the `Undoer` of a failed run, or None unless `undo_on_failure` is set.

        Raises:
            TypeError: An undo function takes `ToolContext[X]`, and `deps` is missing or of another type.
        """
        factory = self._factory
        deps = self._request.deps
        if not factory.options["undo_on_failure"]:
            return None
        for tool in walk_tools(self._checked.listed.values()):
            if tool.settings.undo is not None:
                check_deps(get_undo(tool), deps, "pass deps= to the run")
        return partial(factory.create_undoer, run_id=run_id, deps=deps, recording=dispatcher.recording)

    def _list_tools(self, checked: _CheckedTools) -> dict[str, AnyTool]:
        """Return the tools of the toolbox and of the request. With the fallback model, changes need approval.

        Raises:
            TypeError: A tool takes `ToolContext[X]`, and `deps` is missing or of another type.
        """
        factory, request = self._factory, self._request
        tools = {**checked.listed, **{tool.name: tool for tool in request.tools}}
        for tool in checked.typed:
            check_deps(tool, request.deps, "pass deps= to the run")
        dispatchers = (factory.dispatcher, self._parent.dispatcher) if self._parent else (factory.dispatcher,)
        if not checked.changing or any(each.gates.approvers for each in dispatchers):
            return tools
        if factory.settings.model_choice.is_fallback:
            asked = [replace(tool, settings=replace(tool.settings, approve=True)) for tool in checked.changing]
            return {**tools, **{tool.name: tool for tool in asked}}
        factory.warn_of_unasked(checked.changing)
        return tools

    def _create_dispatcher(self, conversation: Conversation) -> Dispatcher:
        own = self._factory.dispatcher
        parent = self._parent
        if parent:
            own = _join_gates(own, parent)
        if self._state:
            own = record_decisions(own, self._state, self._request.decisions, self._tools, parent)
            own = record_calls(own, self._state, self._factory.ledger, parent)
        available = self._available
        if self._state and (offered := self._state.offered) is not None:  # what its last response may call
            available = frozenset(offered) if available is None else frozenset(offered).intersection(available)
        dispatcher = replace(
            own,
            tools=self._tools,
            available=available,
            check_output=self._factory.toolbox.check_output,
            overflow=ResultStore(own.max_result) if self._available is None else None,
            started={},
            foreign=parent.dispatcher.foreign if parent else set(),
            count=conversation.count_call,
        )

        for message in conversation.history:
            if isinstance(message, ToolMessage):
                dispatcher.foreign.update(message.foreign)
                if not message.is_error:
                    dispatcher.add_foreign(message.name)  # a history in OpenAI's form says no more
        return dispatcher

    def _restore_shared(self, conversation: Conversation) -> SharedValues | None:
        """Return the values that the calls of the run share, or None if no call can read any."""
        given = self._request.shared
        if given is None and not any(tool._meta for tool in self._tools.values()):
            return None
        return restore_shared(given, conversation.history, self._tools)


@dataclass(frozen=True)
class _CheckedTools:
    """The checked tools of a toolbox, valid until it changes.

    Attributes:
        listed: The tools by name.
        changing: The tools that write or destroy.
        typed: The tools that take `deps` of a type, including those of sub-agents.
        has_agents: Whether there are sub-agents, whose toolboxes may change, too.
    """

    listed: Mapping[str, AnyTool]
    changing: Sequence[AnyTool]
    typed: Sequence[AnyTool]
    has_agents: bool


def _check_provider_tools(toolbox: Toolbox, choice: ModelChoice) -> None:
    """Refuse tools that the provider is to execute, but is known not to have.

    Raises:
        DefinitionError: There is such a tool.
    """
    specs = [tool._spec for tool in toolbox if tool._spec.provider_form is not None]
    dialect = choice.dialect or getattr(choice.given, "dialect", None)
    if specs and dialect is None and choice.given is None:  # without such a tool, a proxy need not make its client yet
        dialect = APIS[choice.usual_api][choice.usual_api]()
    for spec in specs:
        if isinstance(dialect, Dialect):
            dialect.render_tool(spec)


def _read_limits(given: RunnerOptions) -> Limits:
    """Return the limits of each run, with `max_turns` if that is given."""
    limits = given.get("limits") or Limits()
    timeout = given.get("approval_timeout")
    most = limits.max_seconds
    if timeout is not None and most is not None and timeout >= most:
        raise ValueError(f"approval_timeout ({timeout:g} s) must be less than max_seconds ({most:g} s).")
    return replace(limits, max_turns=given["max_turns"]) if "max_turns" in given else limits


def _check_limited(names: Iterable[str], tools: Collection[str]) -> None:
    """Check the names of tools whose calls are limited.

    Raises:
        ValueError: There is no tool of a name.
    """
    for name in names:
        if name not in tools:
            hint = suggest(str(name), tools)
            raise ValueError(f"Limits(max_calls_per_tool=...) has {name!r}, which is not a tool here{hint}")


def _make_model_choice(toolbox: Toolbox, model: str | Model | None, options: Mapping[str, Any]) -> ModelChoice:
    _check_model_options(model, options)
    strict = options.get("strict")
    strict = toolbox.strict is not False if strict is None else strict
    api = options.get("api")
    name = options.get("dialect")
    dialect = None
    if name is not None:
        api = api or ("responses" if name in APIS["responses"] else "chat")
        dialect = APIS[api][name](strict=strict)
    return ModelChoice(
        given=None if isinstance(model, str) else model,
        name=model if isinstance(model, str) else None,
        client=options.get("client"),
        base_url=options.get("base_url"),
        api_key=options.get("api_key"),
        api=api,
        dialect=dialect,
        strict=strict,
        options=options.get("request_options") or {},
    )


def _check_model_options(model: str | Model | None, options: Mapping[str, Any]) -> None:
    """Refuse options about the model that another option replaces."""
    owner = "model"
    value = model
    if model is None or isinstance(model, str):
        owner = "client"
        value = options.get("client")
    if value is None:
        return
    for name in _OWN_OPTIONS[owner]:
        if (given := options.get(name)) and given != DEFAULTS.get(name):  # an empty value counts as none
            raise ValueError(f"{owner}= has its own {name}: leave out {name}=, or {owner}=.")


def _list_given(gate: T | None) -> tuple[T, ...]:
    return () if gate is None else (gate,)


def _join_gates(own: Dispatcher, parent: ToolCaller) -> Dispatcher:
    """Add the gates and middleware of the runs above to those of a run. A function that both have runs once.

    Without a ledger of its own, the calls of the run are undone with those of the run above.
    """
    above = parent.dispatcher
    recording = own.recording
    if recording.ledger is None:
        runs_above = (*above.recording.runs_above, parent.conversation.run_id)
        recording = replace(recording, undo_ledger=above.recording.undo_ledger, runs_above=runs_above)
    return replace(
        own,
        gates=own.gates.join(above.gates),
        middleware=(*above.middleware, *list_new(own.middleware, above.middleware)),
        recording=recording,
    )


def _read_session(request: RunRequest) -> Sequence[Message]:
    session: Any = request.session
    if session is None:
        return ()
    if not isinstance(session, Session):
        raise TypeError(f"session={session!r:.100} is not a Session: write session=SQLiteSession('chats.db', 'name').")
    if request.messages:
        raise TypeError("messages= and session= are both the conversation so far: give one of them.")
    return session.messages
