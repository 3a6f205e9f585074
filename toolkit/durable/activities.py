"""The steps of a run as activities: each is one step of the runner's own loop, with its hooks, gates and middleware.

An activity gets a state, does the step as `Runner.run` does it, and returns the changes. While it runs, heartbeats
report to the server that the worker is alive, and to the activity that it was cancelled.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, astuple, dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._context import discard
from toolkit._execution.approval import Decision
from toolkit._execution.attempts import LONGEST_PAUSE
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.parallel import Batched
from toolkit._messages import ToolCall, message_from_dict, message_to_dict, refuse_call, replace_surrogates
from toolkit._runner.hooks import notify
from toolkit._runner.options import Prompt, RunRequest
from toolkit._runner.output import build_output
from toolkit._runner.run import Run
from toolkit._runner.run_factory import RunFactory
from toolkit._runner.runner import Runner
from toolkit._runner.session import Session
from toolkit._runner.state import RunState
from toolkit._runner.sub_agent import delegate, walk_tools
from toolkit._runner.tool_calls import ParentCall, ToolCaller, parent_call
from toolkit._tools.bindings import AnyTool
from toolkit._tools.definitions import Fingerprint
from toolkit._tools.tool import find_instance
from toolkit.durable import wire
from toolkit.durable.calls import Hold, StepLedger, find_agent, get_answer, make_dispatcher, make_outcome, subtract
from toolkit.errors import DefinitionError, FingerprintError, Halt, ModelError, StoreError, ToolError, ToolkitError
from toolkit.events import Event, TextDelta, TurnFinished

logger: logging.Logger = logging.getLogger("toolkit")

T = TypeVar("T")

# HTTP statuses of a model's server after which the same request may succeed.
TRANSIENT = frozenset({408, 409, 425, 429})
SLACK = 30.0  # seconds that a call, or its gates, may take beyond their timeouts
# Seconds between two heartbeats with text, and characters of a response from which on no more is shown.
STREAM_SECONDS = 0.25
MAX_STREAMED = 100_000
TOO_LARGE_TO_ASK = "Not run: the arguments are too large to be asked about: {size:,} bytes, and {most:,} are allowed."
TOO_LARGE = "The call has run, but its result is too large: {size:,} bytes, and {most:,} are allowed."


@dataclass(kw_only=True, eq=False)
class Activities:
    """The activities of one worker.

    Attributes:
        runner: Does the steps.
        deps: Passed to the tools, as by `Runner.run`.
        heartbeat: Seconds without a heartbeat after which the worker counts as dead.
        attempts: How often a step is tried.
        max_bytes: Bytes of the largest state, and of the largest result.
        tool_queues: Names of the task queues of tools that have one of their own.
        checks: Whether the fingerprints of client, run and worker have to be equal.
        streams: Whether clients see the text of a response while it arrives.
        sessions: Opens the session of a name; None if runs have none.
    """

    runner: Runner
    deps: Any
    heartbeat: float
    attempts: int
    max_bytes: int
    tool_queues: Mapping[str, str]
    checks: bool
    streams: bool
    sessions: Callable[[str], Session] | None
    _known: tuple[list[AnyTool], Fingerprint] | None = None

    @activity.defn(name=wire.OPEN)
    async def open(self, step: wire.OpenStep) -> wire.Opened:
        """Compare the client's fingerprint with that of the runner, and make the first state."""
        question = step.question
        with _translate_errors(), self._inside(step.path, schema=question.schema) as (factory, output_type):
            own = self._fingerprint()
            if question.fingerprint and self.checks:
                Fingerprint.from_json(question.fingerprint).check(own)  # as the client reads it
            earlier = [message_from_dict(each) for each in question.messages]
            if question.session:
                earlier = await self._run_in_thread(lambda: [*self._open_session(question.session).messages])
            options: dict[str, Any] = {"messages": earlier, "allowed_tools": question.allowed_tools}
            run = self._create_run(factory, question.prompt or None, output_type, **options)
            state = run.conversation.state.replace(run_id=step.run_id)
            run.leave()
            plan = self._make_plan(factory, own, run.tool_caller, is_typed=output_type is not str)
            text = wire.dump_state(state, self.max_bytes)

        own_messages = len(state.messages) - bool(question.prompt)
        return wire.Opened(plan=plan, state=text, earlier=len(earlier), first=own_messages)

    @activity.defn(name=wire.MODEL)
    async def call_model(self, fields: Any) -> Mapping[str, Any]:
        """Call the model once."""
        step = wire.ModelStep(**fields)
        with _translate_errors(), self._inside(step.path, schema=step.schema) as (factory, output_type):
            self._check(step.digest)
            state = RunState.from_json(step.state)
            options: dict[str, Any] = {"output_type": output_type, "streams": self.streams, "spent": step.spent}
            run = await self._restore_run(factory, state, **options)
            allowed = run.tool_caller.available
            events, halt = await self._perform(run, _Shown(len(state.messages)) if self.streams else None)

        response = next((event.response for event in events if isinstance(event, TurnFinished)), None)
        offered = run.tool_caller.dispatcher.available
        message = None if response is None else message_to_dict(response)
        if (size := wire.measure(message)) > self.max_bytes:
            text = f"The model's response has {size:,} bytes, and {self.max_bytes:,} are allowed."
            raise ApplicationError(text, type="RunError", non_retryable=True)
        outcome = wire.ModelOutcome(
            response=message,
            usage=subtract(run.conversation.state.usage, state.usage),
            available=None if offered is None or offered is allowed else sorted(offered),
            halt=halt,
        )
        return vars(outcome)

    @activity.defn(name=wire.AUTHORIZE)
    async def authorize(self, fields: Any) -> Mapping[str, Any]:
        """Ask the gates about one call without running it, so that the history has the call that has passed."""
        return vars(await self._call_tool(wire.CallStep(**fields), Hold()))

    @activity.defn(name=wire.CALL)
    async def call_tool(self, fields: Any) -> Mapping[str, Any]:
        """Run one call. If another attempt has started it, run it only if its tool may be repeated."""
        return vars(await self._call_tool(wire.CallStep(**fields)))

    async def _call_tool(self, step: wire.CallStep, hold: Hold | None = None) -> wire.CallOutcome:
        """Run one call, or hold it once it has passed its gates."""
        if step.answer:
            delegate.set(partial(get_answer, wire.ChildAnswer(**step.answer)))
        with _translate_errors(), self._inside(step.path, step.runs_above) as (factory, _):
            self._check(step.digest)
            state = RunState.from_json(step.state)
            (call,) = state.messages[-1].calls  # type: ignore[union-attr]  # the workflow has made it so
            decisions = {} if step.decision is None else {call.id: Decision(**step.decision)}
            run = await self._restore_run(factory, state, decisions=decisions, spent=step.spent)
            has_ledger = factory.options.get("ledger") is not None
            run.tool_caller.dispatcher = make_dispatcher(run.tool_caller, call, step, hold, has_ledger=has_ledger)
            observers = run.tool_caller.observers
            if hold is not None:
                run.tool_caller.observers = ()
            events, halt = await self._perform(run)
            if hold is not None:
                for event in hold.select(events):
                    notify(observers, event, state.run_id)

        if halt is not None:
            ended = run.conversation.state
            result = next(map(message_to_dict, ended.results), None)
            outcome = wire.CallOutcome(message=result, halt=halt, usage=subtract(ended.usage, state.usage))
        elif hold is not None and hold.request is not None:
            usage = subtract(run.conversation.state.usage, state.usage)
            pending = asdict(hold.request.to_pending())
            outcome = wire.CallOutcome(pending=pending, has_passed=True, task=hold.task, usage=usage)
        else:
            outcome = make_outcome(run, state, events)

        if (size := wire.measure(vars(outcome))) > self.max_bytes:
            text = (TOO_LARGE_TO_ASK if outcome.pending else TOO_LARGE).format(size=size, most=self.max_bytes)
            message = message_to_dict(refuse_call(call, text))
            return wire.CallOutcome(message=message, halt=outcome.halt, usage=outcome.usage)
        return outcome

    @activity.defn(name=wire.CHECK)
    async def check_answer(self, step: wire.CheckStep) -> Sequence[str]:
        """Return why an answer is not of its type, and what the model has to do, or nothing if it is."""
        with _translate_errors(), self._inside(step.path, schema=step.schema) as (_, output_type):
            output = build_output(output_type)
            try:
                output.parse(step.text)
            except ToolError as error:
                return error.text, output.remedy
            return ()

    @activity.defn(name=wire.UNDO)
    async def undo(self, step: wire.UndoStep) -> Sequence[Mapping[str, Any]]:
        """Undo the calls of a run. A further attempt continues from the end of this one."""
        async with self._beating():
            with _translate_errors(), self._inside(step.path, step.runs_above) as (factory, _):
                run = self._create_run(factory, wire.UNDO)
                recording = run.tool_caller.dispatcher.recording
                undoer = factory.create_undoer(AsyncBackend(), step.run_id, self.deps, recording)
                run.leave()
                undos = await undoer.undo()
        return [{"call": asdict(each.call), "outcome": each.outcome, "error": each.error} for each in undos]

    @activity.defn(name=wire.REMEMBER)
    async def remember(self, step: wire.RememberStep) -> None:
        """Add the messages of a run to its session, unless another attempt has added them."""
        messages = tuple(map(message_from_dict, step.messages))

        def add() -> None:
            session = self._open_session(step.session)
            if activity.info().attempt == 1 or session.messages[step.after :] != messages:
                session.extend(messages, after=step.after)

        with _translate_errors():
            await self._run_in_thread(add)

    @property
    def all(self) -> Sequence[Any]:
        """The activities, for a worker."""
        steps = [self.open, self.call_model, self.authorize, self.call_tool]
        return [*steps, self.check_answer, self.undo, self.remember]

    def _open_session(self, name: str) -> Session:
        if self.sessions is None:
            raise DefinitionError(f"The run has the session {name!r}: its worker needs Worker(sessions=...), too.")
        return self.sessions(name)

    async def _restore_run(self, factory: RunFactory, state: RunState, **options: Any) -> Run[Any]:
        """Create the run of a state, on a thread if that reads a ledger."""
        create = partial(self._create_run, factory, state, **options)
        return create() if factory.options.get("ledger") is None else await self._run_in_thread(create)

    def _create_run(self, factory: RunFactory, prompt: Prompt, output_type: Any = str, **options: Any) -> Run[Any]:
        return factory.create(RunRequest(prompt=prompt, output_type=output_type, deps=self.deps, **options))

    @contextmanager
    def _inside(
        self, path: Sequence[str], run_ids: Sequence[str] = (), schema: str = ""
    ) -> Iterator[tuple[RunFactory, Any]]:
        """Yield the run factory of a sub-agent and its output type. Its runs are inside the gates of all runs above."""
        factory = self.runner._factory
        output_type: Any = json.loads(schema) if schema else str
        with ExitStack() as above:
            for name, run_id in zip_longest(path, run_ids, fillvalue=""):
                run = self._create_run(factory, name)
                above.callback(run.leave)
                run.conversation.run_id = run_id
                parent_call.set(ParentCall(run.tool_caller, ToolCall(name=name), discard, AsyncBackend()))
                agent: Any = find_instance(run.tool_caller.tools[name])
                factory, output_type = agent.runner, agent.output_type
            yield factory, output_type

    def _make_plan(self, factory: RunFactory, own: Fingerprint, caller: ToolCaller, *, is_typed: bool) -> wire.Plan:
        options = factory.options
        order = options["order"]
        return wire.Plan(
            fingerprint=own.to_json() if self.checks else "",
            digest=own.digest if self.checks else "",
            model=factory.settings.model_choice.given_name or "",
            limits=asdict(factory.settings.limits),
            order=order.size if isinstance(order, Batched) else order,
            max_parallel=options["max_parallel"],
            queue=options["queue"],
            heartbeat=self.heartbeat,
            attempts=self.attempts,
            max_bytes=self.max_bytes,
            is_typed=is_typed,
            undoes=options["undo_on_failure"],
            tools={tool.name: self._plan_tool(tool, factory, caller.dispatcher) for tool in caller.tools.values()},
        )

    def _plan_tool(self, tool: AnyTool, factory: RunFactory, dispatcher: Dispatcher) -> wire.ToolPlan:
        """Plan a tool's calls. Their longest time is that of the attempts and of the pauses between them."""
        settings = tool.settings
        seconds = None
        gate_seconds = None
        limits = [each for each in (settings.timeout, factory.settings.limits.max_seconds) if each is not None]
        if settings.timeout is not None:
            pauses = settings.retries * max(settings.retry_delay, LONGEST_PAUSE)
            seconds = (settings.retries + 1) * settings.timeout + pauses + SLACK

        # Each gate is asked, and the tool's own rules; and all of them again if one changes the arguments.
        gates = dispatcher.gates
        if gates.timeout is not None:
            gate_seconds = 2 * (len(gates.authorizers) + len(gates.approvers) + 2) * gates.timeout + SLACK
        return wire.ToolPlan(
            runs_alone=settings.runs_alone,
            is_gated=dispatcher.is_gated(tool) or find_agent(tool) is not None,
            gate_seconds=gate_seconds,
            seconds=seconds,
            timeout=min(limits, default=None),
            task_queue=self.tool_queues.get(tool.name, ""),
        )

    def _check(self, digest: str) -> None:
        """Refuse a step of a run that started with other tools. The step waits for another worker."""
        if digest and self.checks and digest != (own := self._fingerprint()).digest:
            text = f"The run {activity.info().workflow_id!r} has other tools or settings, and waits for another worker."
            logger.warning(text)
            kind = ApplicationErrorCategory.BENIGN  # without a traceback
            details = own.to_json(), activity.info().attempt
            raise ApplicationError(text, *details, type=wire.MISMATCH, non_retryable=True, category=kind)

    def _fingerprint(self) -> Fingerprint:
        """Return the runner's fingerprint. It is made again if tools have changed."""
        tools = [*walk_tools(self.runner.toolbox.snapshot().values())]
        if self._known is None or [*map(id, self._known[0])] != [*map(id, tools)]:
            self._known = tools, self.runner.fingerprint()
        return self._known[1]

    async def _perform(self, run: Run[Any], shown: _Shown | None = None) -> tuple[list[Event], str | None]:
        """Do one step of a run. If the server cancels the step, its results so far count.

        `shown` receives the text of a response while it arrives.

        Returns:
            The events of the step, and the answer of a hook or tool that has ended the run.
        """

        async def work() -> tuple[list[Event], str | None]:
            events: list[Event] = []
            try:
                async for event in run.step(AsyncBackend()):
                    events.append(event)
                    if shown is not None and isinstance(event, TextDelta) and len(shown.text) < MAX_STREAMED:
                        shown.text += event.text
            except Halt as halt:
                return [], str(halt)
            else:
                return events, None

        async with self._beating(shown):
            task = asyncio.create_task(work())
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                is_requested = _is_requested()
                ledger = run.tool_caller.dispatcher.recording.undo_ledger
                if not is_requested and isinstance(ledger, StepLedger):
                    ledger.is_broken_off = True
                run.cancellation.cancel()
                await asyncio.wait({task})
                if not is_requested:
                    raise
            return task.result()

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        """Call a function that may wait for a database, on a thread."""

        async def job() -> T:
            return work()

        async with self._beating():
            return await AsyncBackend().call(job, is_async=False)

    @asynccontextmanager
    async def _beating(self, shown: _Shown | None = None) -> AsyncIterator[None]:
        """Send heartbeats: often enough that the worker counts as alive, and also when text has arrived."""
        loop = asyncio.get_running_loop()
        limit = activity.info().heartbeat_timeout  # that of the run, not of this worker
        pause = limit.total_seconds() / 3  # type: ignore[union-attr]  # each step has a limit
        interval = min(STREAM_SECONDS, pause) if shown else pause
        due = loop.time() + pause
        sent = ""
        timer: asyncio.TimerHandle

        def beat() -> None:
            nonlocal timer, due, sent
            timer = loop.call_later(interval, beat)
            if loop.time() >= due or (shown and shown.text != sent):
                due = loop.time() + pause
                sent = shown.text if shown else ""
                activity.heartbeat(*(astuple(shown) if shown else ()))

        timer = loop.call_later(interval, beat)  # a short step sends none
        try:
            yield
        except asyncio.CancelledError:
            if _is_requested():
                raise
            text = "The worker was shut down, or late with its heartbeats: another one takes over."
            raise ApplicationError(text, type="Shutdown", category=ApplicationErrorCategory.BENIGN) from None
        finally:
            timer.cancel()


@dataclass
class _Shown:
    """The text of a response while it arrives, for the details of heartbeats, which are not in the history.

    Attributes:
        count: Number of messages before the response.
    """

    count: int
    text: str = ""


def _is_requested() -> bool:
    """Return whether the server has cancelled the activity. A worker that is shut down cancels its own, too."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert exceptions to failures of an activity; only those of a store or server that may recover are not final."""
    try:
        yield
    except ApplicationError:
        raise
    except Exception as error:
        is_transient = isinstance(error, StoreError) or (
            isinstance(error, ModelError) and (error.status is None or error.status in TRANSIENT or error.status >= 500)
        )
        if isinstance(error, ToolkitError):
            text = replace_surrogates(str(error))  # the SDK sends UTF-8
        else:  # messages of the application's own exceptions must not be in the server's history
            logger.exception("A step of a durable run failed.")
            text = f"{type(error).__name__} was raised; the worker's log has it."
        raise ApplicationError(text, type=_name_error(error), non_retryable=not is_transient) from None


def _name_error(error: Exception) -> str:
    """Return the name of a library error's public class, or `RunError` for another exception."""
    if isinstance(error, FingerprintError):
        return wire.MISMATCH
    own = (kind for kind in type(error).__mro__ if kind.__module__ == "toolkit.errors" and kind is not ToolkitError)
    return next((kind.__name__ for kind in own), "RunError")
