"""The steps of a run as activities: each is one step of the runner's own loop, with its hooks, gates and middleware.

A state comes in, the step is done as `Runner.run` does it, and what has changed goes back. While it runs, heartbeats
tell the server that the worker lives, and the step that it is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from toolkit._concurrency.async_backend import AsyncBackend
from toolkit._context import discard
from toolkit._execution.approval import ApprovalRequest, Approver, Decision, Verdict
from toolkit._execution.dispatcher import Dispatcher
from toolkit._execution.invoke import LONGEST_PAUSE
from toolkit._execution.ledger import Ledger, LedgerEntry, RecentLedger
from toolkit._execution.parallel import MAX_PARALLEL, Batched
from toolkit._messages import ToolCall, ToolMessage, Usage, message_from_dict, message_to_dict
from toolkit._runner.hooks import notify
from toolkit._runner.options import Prompt, RunRequest
from toolkit._runner.result import RunResult
from toolkit._runner.run import Run
from toolkit._runner.run_factory import RunFactory
from toolkit._runner.runner import Runner
from toolkit._runner.state import RunState
from toolkit._runner.sub_agent import FAILED, SubAgent, delegate, walk_tools
from toolkit._runner.tool_calls import ParentCall, ToolCaller, parent_call
from toolkit._tools.bindings import AnyTool
from toolkit._tools.definitions import Fingerprint
from toolkit._tools.tool import find_instance
from toolkit.durable import wire
from toolkit.errors import Failed, FingerprintError, Halt, ModelError, ToolkitError
from toolkit.events import Event, TextDelta, ToolCallFinished, ToolCallStarted, TurnFinished

logger = logging.getLogger("toolkit")

# HTTP statuses of a model's server after which the same request may succeed.
TRANSIENT = frozenset({408, 409, 425, 429})
# Seconds that a call, or its gates, may take beyond their timeouts.
SLACK = 30.0
# Seconds between two heartbeats with text, and characters of a response from which on no more is shown.
STREAM_SECONDS, MAX_STREAMED = 0.25, 100_000
TOO_LARGE = "The call has run, but its result is too large to be kept: {size:,} bytes, and {most:,} are allowed."


@dataclass(frozen=True, kw_only=True)
class Activities:
    """The activities of one worker.

    Attributes:
        runner: Does the steps.
        deps: Passed to the tools, as `Runner.run` does.
        heartbeat: Seconds without a heartbeat after which the worker counts as dead.
        attempts: How often a step is tried.
        max_bytes: The largest state, and the largest result.
        tool_queues: Names of the task queues of tools that have one of their own.
        checks: Whether the fingerprints of client, run and worker have to be equal.
        streams: Whether clients see the text of a response while it arrives.
        known: The last fingerprint, with the tools that it is of, and as JSON.
    """

    runner: Runner
    deps: Any
    heartbeat: float
    attempts: int
    max_bytes: int
    tool_queues: Mapping[str, str]
    checks: bool
    streams: bool
    known: list[tuple[tuple[AnyTool, ...], Fingerprint, str]] = field(default_factory=list)

    @activity.defn(name=wire.OPEN)
    async def open(self, step: wire.OpenStep) -> wire.Opened:
        """Compare the client's fingerprint with that of the runner, and make the first state."""
        async with self._beating():  # a source may take its time to list its tools
            return await AsyncBackend().call(partial(self._open, step), is_async=False)

    async def _open(self, step: wire.OpenStep) -> wire.Opened:
        question = step.question
        with _translated(), self._inside(step.path) as factory:
            own, _ = self._fingerprint()
            if question.fingerprint and self.checks:
                own.check(Fingerprint.from_json(question.fingerprint))
            options: dict[str, Any] = {"messages": [message_from_dict(each) for each in question.messages]}
            if question.allowed_tools is not None:
                options["allowed_tools"] = question.allowed_tools
            run = self._create_run(factory, question.prompt or None, **options)
            state = run.conversation.state.replace(run_id=step.run_id)
            run.leave()
            plan = self._make_plan(factory, own, run.caller)
        return wire.Opened(plan=plan, state=state.to_json())

    @activity.defn(name=wire.MODEL)
    async def call_model(self, given: Any) -> Mapping[str, Any]:
        """Call the model once."""
        return vars(await self._call_model(wire.ModelStep(**given)))

    async def _call_model(self, step: wire.ModelStep) -> wire.ModelOutcome:
        with _translated(), self._inside(step.path) as factory:
            self._check(step.fingerprint)
            state = RunState.from_json(step.state)
            run = self._create_run(factory, state, streams=self.streams)
            usual = run.caller.available
            events, halt = await self._perform(run, _Shown(len(state.messages)) if self.streams else None)
        response = next((event.response for event in events if isinstance(event, TurnFinished)), None)
        offered = run.caller.dispatcher.available
        return wire.ModelOutcome(
            response=None if response is None else message_to_dict(response),
            usage=_subtract(run.conversation.state.usage, state.usage),
            available=None if offered is None or offered is usual else sorted(offered),
            halt=halt,
        )

    @activity.defn(name=wire.AUTHORIZE)
    async def authorize(self, given: Any) -> Mapping[str, Any]:
        """Ask the gates about one call, which does not run; the history has what they have passed."""
        return vars(await self._call_tool(wire.CallStep(**given), _Hold()))

    @activity.defn(name=wire.CALL)
    async def call_tool(self, given: Any) -> Mapping[str, Any]:
        """Run one call; one that another attempt has started is not repeated if its tool may not be."""
        return vars(await self._call_tool(wire.CallStep(**given)))

    async def _call_tool(self, step: wire.CallStep, hold: _Hold | None = None) -> wire.CallOutcome:
        """Run one call, or hold it once it has passed its gates."""
        if step.answer:
            delegate.set(partial(_get_answer, wire.ChildAnswer(**step.answer)))
        with _translated(), self._inside(step.path, step.runs_above) as factory:
            self._check(step.fingerprint)
            state = RunState.from_json(step.state)
            (call,) = state.messages[-1].calls  # type: ignore[union-attr]  # the workflow has made it so
            decisions = {} if step.decision is None else {call.id: Decision(**step.decision)}
            run = self._create_run(factory, state, decisions=decisions)
            has_ledger = factory.options.get("ledger") is not None
            run.caller.dispatcher = _make_dispatcher(run.caller, call, step, hold, has_ledger=has_ledger)
            observers = run.caller.observers
            if hold is not None:
                run.caller.observers = ()
            events, halt = await self._perform(run)
            if hold is not None:
                for event in hold.select(events):
                    notify(observers, event, state.run_id)
        if halt is not None:
            return wire.CallOutcome(halt=halt, usage=_subtract(run.conversation.state.usage, state.usage))
        if hold is not None and hold.request is not None:
            usage = _subtract(run.conversation.state.usage, state.usage)
            return wire.CallOutcome(
                pending=asdict(hold.request.to_pending()), has_passed=True, task=hold.task, usage=usage
            )
        outcome = _make_outcome(run, state, events)
        if outcome.message and (size := len(str(outcome.message).encode())) > self.max_bytes:
            text = TOO_LARGE.format(size=size, most=self.max_bytes)
            message = ToolMessage(call_id=call.id, name=call.name, text=text, is_error=True)
            return wire.CallOutcome(message=message_to_dict(message), usage=outcome.usage)
        return outcome

    @property
    def all(self) -> Sequence[Any]:
        """The activities, for a worker."""
        return [self.open, self.call_model, self.authorize, self.call_tool]

    def _create_run(self, factory: RunFactory, prompt: Prompt, **options: Any) -> Run[Any]:
        return factory.create(RunRequest(prompt=prompt, output_type=str, deps=self.deps, **options))

    @contextmanager
    def _inside(self, path: Sequence[str], run_ids: Sequence[str] = ()) -> Iterator[RunFactory]:
        """Give what creates the runs of a sub-agent, bound from here on by the gates of all runs above."""
        factory, above = self.runner._factory, list[Run[Any]]()
        try:
            for name, run_id in zip_longest(path, run_ids, fillvalue=""):
                run = self._create_run(factory, name)
                run.conversation.run_id = run_id
                above.append(run)
                parent_call.set(ParentCall(run.caller, ToolCall(name=name), discard, AsyncBackend()))
                agent: Any = find_instance(run.caller.tools[name])
                factory = agent.runner
            yield factory
        finally:
            for run in reversed(above):
                run.leave()

    def _make_plan(self, factory: RunFactory, own: Fingerprint, caller: ToolCaller) -> wire.Plan:
        options = factory.options
        order = options.get("order", "parallel")
        return wire.Plan(
            fingerprint=own.to_json() if self.checks else "",
            model=factory.model_choice.given_name or "",
            limits=asdict(factory.limits),
            order=order.size if isinstance(order, Batched) else order,
            max_parallel=options.get("max_parallel", MAX_PARALLEL),
            queue=options.get("queue", "one"),
            heartbeat=self.heartbeat,
            attempts=self.attempts,
            max_bytes=self.max_bytes,
            tools={made.name: self._plan_tool(made, factory, caller.dispatcher) for made in caller.tools.values()},
        )

    def _plan_tool(self, made: AnyTool, factory: RunFactory, dispatcher: Dispatcher) -> wire.ToolPlan:
        """Plan a tool's calls; their longest time is that of the attempts and of the pauses between them."""
        settings, seconds, gate_seconds = made.settings, None, None
        limits = [each for each in (settings.timeout, factory.limits.max_seconds) if each is not None]
        if settings.timeout is not None:
            pauses = settings.retries * max(settings.retry_delay, LONGEST_PAUSE)
            seconds = (settings.retries + 1) * settings.timeout + pauses + SLACK
        if dispatcher.approval_timeout is not None:  # each is asked, and its tool's own rules; arguments may change
            count = len(dispatcher.authorizers) + len(dispatcher.approvers) + 2
            gate_seconds = 2 * count * dispatcher.approval_timeout + SLACK
        return wire.ToolPlan(
            runs_alone=settings.runs_alone,
            is_gated=dispatcher.is_gated(made) or _find_agent(made) is not None,
            gate_seconds=gate_seconds,
            seconds=seconds,
            timeout=min(limits, default=None),
            task_queue=self.tool_queues.get(made.name, ""),
        )

    def _check(self, fingerprint: str) -> None:
        """Refuse a step of a run that began with other tools; it has not been tried, and waits for another worker."""
        if fingerprint and self.checks:
            own, text = self._fingerprint()
            if text != fingerprint:
                own.check(Fingerprint.from_json(fingerprint))

    def _fingerprint(self) -> tuple[Fingerprint, str]:
        """Return the runner's fingerprint, also as JSON; it is made again where tools have changed."""
        tools = tuple(walk_tools(self.runner.toolbox.snapshot().values()))
        if not self.known or [*map(id, self.known[0][0])] != [*map(id, tools)]:
            made = self.runner.fingerprint()
            self.known[:] = [(tools, made, made.to_json())]
        return self.known[0][1:]

    async def _perform(self, run: Run[Any], shown: _Shown | None = None) -> tuple[list[Event], str | None]:
        """Do one step of a run; if the server cancels it, it ends with what it has.

        Args:
            run: The run.
            shown: Gets the text of a response while it arrives.

        Returns:
            The events of the step, and the answer of a hook that has ended the run.
        """

        async def work() -> tuple[list[Event], str | None]:
            events: list[Event] = []
            try:
                async for event in run.step(AsyncBackend()):
                    events.append(event)
                    if shown is not None and isinstance(event, TextDelta):
                        shown.add(event.text)
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
                if not is_requested and isinstance(ledger := run.caller.dispatcher.undo_ledger, _StepLedger):
                    ledger.is_broken_off = True
                run.cancellation.cancel()
                await asyncio.wait({task})
                if not is_requested:
                    raise
            return task.result()

    @asynccontextmanager
    async def _beating(self, shown: _Shown | None = None) -> AsyncIterator[None]:
        """Send heartbeats: so many that the worker counts as alive, and further ones for text that has arrived."""
        loop = asyncio.get_running_loop()
        pause = min(self.heartbeat, wire.OPEN_HEARTBEAT) / 3
        look = min(STREAM_SECONDS, pause) if shown else pause
        due = loop.time() + pause
        timer: asyncio.TimerHandle

        def beat() -> None:
            nonlocal timer, due
            timer = loop.call_later(look, beat)
            if loop.time() >= due or (shown and shown.is_new):
                due = loop.time() + pause
                activity.heartbeat(*(shown.take() if shown else ()))

        timer = loop.call_later(look, beat)  # a short step sends none
        try:
            yield
        except asyncio.CancelledError:
            if _is_requested():
                raise
            raise ApplicationError("The worker was shut down.", type="Shutdown") from None  # another one takes over
        finally:
            timer.cancel()


@dataclass(frozen=True)
class _Decided:
    """An approver of a run above, for a call that the client has approved: that is its answer where it would defer."""

    approver: Approver
    call_id: str

    def __call__(self, request: ApprovalRequest) -> Verdict | Awaitable[Verdict]:
        verdict = self.approver(request)
        if request.call.id != self.call_id:
            return verdict
        return self._wait(verdict) if isinstance(verdict, Awaitable) else self._decide(verdict)

    async def _wait(self, verdict: Awaitable[Verdict]) -> Verdict:
        return self._decide(await verdict)

    def _decide(self, verdict: Verdict) -> Verdict:
        return True if isinstance(verdict, Decision) and verdict.refusal == "defer" else verdict


class _Hold:
    """Holds a call that has passed its gates, so that it does not run.

    Attributes:
        request: The call as it has passed; None before.
    """

    request: ApprovalRequest | None = None

    def __call__(self, request: ApprovalRequest) -> None:
        """Take the call."""
        self.request = request

    @property
    def task(self) -> str | None:
        """The task, where the call is that of a sub-agent."""
        agent = self.request and _find_agent(self.request.tool)
        return agent.get_task(self.request.arguments) if agent and self.request else None

    def select(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return what hooks see of the step: a call that has passed starts later, but for that of a sub-agent."""
        if self.request is None:
            return events
        return [event for event in events if self.task is not None and isinstance(event, ToolCallStarted)]


def _find_agent(made: AnyTool) -> SubAgent | None:
    """Return the sub-agent that a tool runs, if that may be a workflow of its own."""
    agent = find_instance(made)
    return agent if isinstance(agent, SubAgent) and agent.may_delegate else None


def _get_answer(answer: wire.ChildAnswer, agent: SubAgent, parent: ParentCall) -> Any:
    """Return the answer of a sub-agent that ran as a workflow of its own.

    Raises:
        Failed: It has failed.
    """
    if answer.error:
        raise Failed(FAILED.format(answer.error))
    return agent.get_answer(
        RunResult(
            output=answer.output,
            finish_reason=answer.finish_reason,
            messages=(),
            calls=(),
            usage=Usage(),
            model="",
            state=parent.caller.conversation.state,
        )
    )


def _make_dispatcher(
    caller: ToolCaller, call: ToolCall, step: wire.CallStep, hold: _Hold | None, *, has_ledger: bool
) -> Dispatcher:
    """Make what stands before the call of a step.

    Args:
        caller: Executes the calls of the run.
        call: The call.
        step: The step.
        hold: Holds the call, so that it does not run.
        has_ledger: Whether the run's own runner has a ledger; else the one above may have one, for `undo`.
    """
    dispatcher, made = caller.dispatcher, caller.tools.get(call.name)
    dispatcher.foreign.update(step.foreign)
    gates = dispatcher.approvers
    if step.decision is not None:
        gates = (gates[0], *[_Decided(gate, call.id) for gate in gates[1:]])
    parent = None if has_ledger else parent_call.get()
    recorder = parent.caller if parent else caller
    # The calls of a sub-agent that runs elsewhere are recorded there.
    is_elsewhere = made is not None and _find_agent(made) is not None and bool(hold or step.answer)
    ledger = None if is_elsewhere else _share(recorder.dispatcher)
    is_recorded = ledger is not None and (has_ledger or (made is not None and made.settings.undo is not None))
    is_suspect = activity.info().attempt > 1 and not (hold or is_elsewhere or is_recorded)
    return replace(
        dispatcher,
        approvers=gates,
        ledger=ledger if has_ledger else None,
        undo_ledger=ledger,
        runs_above=(*recorder.dispatcher.runs_above, recorder.conversation.run_id) if parent else (),
        suspects=(call.id,) if is_suspect else (),
        available=caller.available if step.available is None else frozenset(step.available),
        overflow=None,  # what is cut from a result is lost: another worker may be asked for it
        hold=hold,
        passed=step.passed,
    )


def _make_outcome(run: Run[Any], before: RunState, events: Sequence[Event]) -> wire.CallOutcome:
    state = run.conversation.state
    usage = _subtract(state.usage, before.usage)
    if state.pending:
        (waiting,) = state.pending
        return wire.CallOutcome(pending=asdict(waiting), usage=usage)
    message = next(each for each in reversed(state.messages) if isinstance(each, ToolMessage))
    whole = next((event.result.text for event in events if isinstance(event, ToolCallFinished)), None)
    return wire.CallOutcome(
        message=message_to_dict(message),
        is_stopped=state.finish_reason == "stopped",
        output=whole or "" if state.finish_reason == "stop" else None,
        usage=usage,
        calls_by_tool={
            name: count - before.calls_by_tool.get(name, 0)
            for name, count in state.calls_by_tool.items()
            if count > before.calls_by_tool.get(name, 0)
        },
    )


class _Shown:
    """The text of a response while it arrives, for the details of heartbeats, which the server keeps in no history.

    Attributes:
        is_new: Whether there is text that no heartbeat has had.
    """

    def __init__(self, count: int) -> None:
        self._count, self._text, self.is_new = count, "", False

    def add(self, text: str) -> None:
        """Add a piece, up to a length that the server takes."""
        if len(self._text) < MAX_STREAMED:
            self._text, self.is_new = self._text + text, True

    def take(self) -> tuple[int, str]:
        """Return the number of messages before the response, and the text so far."""
        self.is_new = False
        return self._count, self._text


@dataclass
class _StepLedger:
    """The ledger of one step; one that is broken off, as its worker is shut down, has no result and may run again."""

    ledger: Ledger
    is_broken_off: bool = False

    def write(self, entry: LedgerEntry) -> bool:
        """Store an entry, unless it is the end of a step that was broken off."""
        return not (self.is_broken_off and entry.stage == "finished") and self.ledger.write(entry)

    def read(self, run_id: str, call_id: str | None = None) -> tuple[LedgerEntry, ...]:
        """Return the entries of a run, or of one of its calls."""
        return self.ledger.read(run_id, call_id)


def _share(dispatcher: Dispatcher) -> _StepLedger | None:
    """Return the ledger of a run for one step; None where it is in the memory of this worker alone."""
    ledger = dispatcher.undo_ledger if dispatcher.ledger is None else dispatcher.ledger
    return None if ledger is None or isinstance(ledger, RecentLedger) else _StepLedger(ledger)


def _is_requested() -> bool:
    """Return whether the server has cancelled the activity; a worker that is shut down cancels its own, too."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested


def _subtract(after: Usage, before: Usage) -> dict[str, int]:
    return {name: count - vars(before)[name] for name, count in vars(after).items()}


@contextmanager
def _translated() -> Iterator[None]:
    """Turn exceptions into failures of an activity: all are final, but those of a model's server that may recover."""
    try:
        yield
    except ApplicationError:
        raise
    except Exception as error:
        is_transient = isinstance(error, ModelError) and (
            error.status is None or error.status in TRANSIENT or error.status >= 500
        )
        if isinstance(error, ToolkitError):
            text = str(error)
        else:  # what the application's own exceptions say is not for the server's history
            logger.exception("A step of a durable run failed.")
            text = f"{type(error).__name__} was raised; the worker's log has it."
        raise ApplicationError(text, type=_name_error(error), non_retryable=not is_transient) from None


def _name_error(error: Exception) -> str:
    """Return the name of a library error's public class; `RunError` for another exception."""
    if isinstance(error, FingerprintError):
        return wire.MISMATCH
    own = (kind for kind in type(error).__mro__ if kind.__module__ == "toolkit.errors" and kind is not ToolkitError)
    return next((kind.__name__ for kind in own), "RunError")
