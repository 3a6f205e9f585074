"""The workflow of a run: it executes the steps that the conversation decides, each as an activity.

It runs in the engine's sandbox, reads the engine's clock, and looks up no tool: all that it has to know of the runner
is in the plan that the first activity returns. So a replay has the same steps, even if the tools have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from typing import Any, NoReturn, cast

from temporalio import workflow
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    import toolkit.durable.wire as wire  # not `from toolkit.durable`, which the sandbox loads again for each run
    from toolkit._concurrency.cancellation import note_effects
    from toolkit._execution.approval import explain_unknown_call
    from toolkit._execution.gates import INCOMPLETE
    from toolkit._execution.ledger import STARTED
    from toolkit._execution.parallel import batched, split_batches
    from toolkit._messages import (
        ModelResponse,
        ToolCall,
        ToolMessage,
        Usage,
        message_from_dict,
        message_to_dict,
        refuse_call,
    )
    from toolkit._runner.control import MessageQueue
    from toolkit._runner.conversation import (
        CANCELLED_TEXT,
        NO_RESPONSE,
        UNDONE_REASONS,
        CallModel,
        Conversation,
        Finished,
        Paused,
        RunCalls,
        explain_skip,
    )
    from toolkit._runner.limits import ANY_SECONDS
    from toolkit._runner.state import RunState, load_pending
    from toolkit._tools.definitions import Fingerprint
    from toolkit.errors import Cancelled, DefinitionError, ModelError, TimedOut, ToolkitError
    from toolkit.events import REASONS_WITHOUT_ANSWER, PendingApproval

# Seconds between two attempts to find a worker with the tools of the run.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
MAX_PENDING = 1_000  # the engine allows 2,000 pending activities of one run
# The first activity changes nothing, so it is retried.
OPEN_RETRY = RetryPolicy(maximum_interval=timedelta(seconds=10), maximum_attempts=10)
LOST_TEXT = f"The machine that ran this call was lost. {STARTED}"


@dataclass(frozen=True)
class _ChildEnd:
    """The end of a sub-agent's run.

    Attributes:
        answer: The answer; None if the run was cancelled.
        reason: Text of the call's result if the run was cancelled.
        calls_by_tool: Numbers of calls of the run, by tool.
        foreign: Names of the tools with `trust="foreign"` that the run has called.
    """

    answer: wire.ChildAnswer | None = None
    reason: str = CANCELLED_TEXT
    usage: Mapping[str, int] = field(default_factory=dict)
    calls_by_tool: Mapping[str, int] = field(default_factory=dict)
    foreign: Sequence[str] = ()


class _Halted(Exception):
    """A tool or a hook has ended the run with an answer."""


@workflow.defn(name=wire.WORKFLOW, failure_exception_types=[ToolkitError])
class RunWorkflow:
    """One run."""

    @workflow.init
    def __init__(self, run_input: wire.RunInput) -> None:
        self._input = run_input
        self._conversation = Conversation(RunState(run_id=run_input.run_id, messages=()))  # empty until it is opened
        if run_input.plan is not None:  # otherwise the first activity makes it
            self._plan = run_input.plan
            if run_input.state:  # under a new history, where a decision may come before `run` starts
                self._conversation = _restore(run_input.plan, run_input.state)
        self._queue = MessageQueue()
        self._decided = {decided.call_id: decided for decided in run_input.decided}
        self._results: dict[str, wire.CallOutcome] = {}
        self._answers = dict(run_input.answers)  # results that are the answer, by call id
        self._children: list[str] = []  # ids of runs of sub-agents
        self._available = run_input.available
        self._waited = 0.0  # seconds in which the run only waited for decisions
        self._start = workflow.time()
        self._note = ""
        self._has_ended = False
        _enqueue(self._queue, run_input.steering, run_input.follow_ups)

    @workflow.run
    async def run(self, run_input: wire.RunInput) -> wire.RunOutcome:
        """Run to the end. A cancelled run ends with its results so far."""
        await self._open(run_input)
        conversation = self._conversation
        try:
            await self._run_to_end()
            unread, self._queue = self._queue.close(), MessageQueue()  # further messages may still come
            decided = [*self._decided.values()] if run_input.path else []  # the run above reads them
            extra = [*[message.text for message in unread], *map(vars, decided)]
            state = wire.dump_state(conversation.state, self._plan.max_bytes, extra)
        except (ToolkitError, FailureError) as error:
            if self._plan.undoes:
                with suppress(ActivityError):
                    await self._undo()
            raise _make_failure(error, conversation.state) from error

        is_undone = self._plan.undoes and conversation.state.finish_reason in UNDONE_REASONS
        undos = await self._undo() if is_undone else ()
        if run_input.question.session and not undos:
            await self._remember()
        self._has_ended = True
        return wire.RunOutcome(
            state=state,
            model=self._plan.model,
            unread=[message.text for message in (*unread, *self._queue.close())],
            decided=decided,
            undos=undos,
            cost=conversation.cost,
        )

    async def _run_to_end(self) -> None:
        """Run until there is an answer, a hook or a tool ends the run with one, or the run is cancelled."""
        try:
            await self._drive()
        except asyncio.CancelledError:
            self._record_results()
            self._conversation.end("cancelled")
        except _Halted as halted:
            self._record_results()
            self._conversation.halt(str(halted))

    async def _undo(self) -> Sequence[Mapping[str, Any]]:
        own = self._input
        step = wire.UndoStep(run_id=own.run_id, path=own.path, runs_above=own.runs_above)
        undos: Sequence[Mapping[str, Any]] = await self._execute_last(wire.UNDO, step)
        return undos

    async def _remember(self) -> None:
        messages = self.messages(self._input.first)
        step = wire.RememberStep(session=self._input.question.session, messages=messages, after=self._input.earlier)
        try:
            await self._execute_last(wire.REMEMBER, step)
        except ActivityError as error:
            raise _translate(error) from error

    @workflow.signal(name=wire.STEER)
    def steer(self, texts: str | Sequence[str]) -> None:
        """Add messages that the model reads before its next response."""
        _enqueue(self._queue, [texts] if isinstance(texts, str) else texts, ())

    @workflow.signal(name=wire.FOLLOW_UP)
    def follow_up(self, texts: str | Sequence[str]) -> None:
        """Add messages that the model reads after its answer."""
        _enqueue(self._queue, (), [texts] if isinstance(texts, str) else texts)

    @workflow.update(name=wire.DECIDE)
    def decide(self, decided: wire.DecidedCall) -> None:
        """Decide on a pending call. The same decision may be sent again."""
        self._decided[decided.call_id] = decided

    @decide.validator
    def check_decision(self, decided: wire.DecidedCall) -> None:
        """Refuse a decision on a call that does not wait, or that has another one."""
        earlier = self._decided.get(decided.call_id)
        if earlier == decided:
            return
        if earlier is not None:
            raise ApplicationError(f"The call {decided.call_id!r} has another decision already.", type="ApprovalError")
        if decided.call_id not in self._pending:
            raise ApplicationError(explain_unknown_call(decided.call_id, self._pending), type="ApprovalError")

    @workflow.query(name=wire.STATUS)
    def status(self) -> dict[str, Any]:
        """Return the progress of the run, as plain data."""
        state = self._conversation.state
        has_ended = self._has_ended
        if state.phase == "finished" and not has_ended:  # the answer might not fit its type
            state = state.replace(phase="asking")
        return {
            "run_id": self._input.run_id,
            "phase": state.phase if state.messages else "opening",
            "turns": state.turns,
            "finish_reason": state.finish_reason if has_ended else "",
            "usage": vars(state.usage),
            "messages": len(state.messages),
            "pending": [asdict(waiting) for waiting in self._pending.values()],
            "children": list(self._children),
            "note": self._note,
        }

    @workflow.query(name=wire.MESSAGES)
    def messages(self, offset: int) -> list[dict[str, Any]]:
        """Return the messages from an offset on."""
        return [message_to_dict(message) for message in self._conversation.state.messages[offset:]]

    @property
    def _pending(self) -> dict[str, PendingApproval]:
        """The calls that wait for a decision, by id."""
        waiting = self._conversation.state.pending
        return {each.call.id: each for each in waiting if each.call.id not in self._decided}

    async def _open(self, run_input: wire.RunInput) -> None:
        """Let the first activity make the conversation, unless the run continues under a new history."""
        if not self._conversation.history:
            step = wire.OpenStep(run_id=run_input.run_id, question=run_input.question, path=run_input.path)
            if run_input.path:  # a sub-agent, whose step is planned as those of the run above
                opened = await self._execute(wire.OPEN, step, result_type=wire.Opened)
            else:
                opened = await workflow.execute_activity(
                    wire.OPEN,
                    step,
                    result_type=wire.Opened,
                    start_to_close_timeout=timedelta(seconds=ANY_SECONDS),
                    heartbeat_timeout=timedelta(seconds=wire.OPEN_HEARTBEAT),
                    retry_policy=OPEN_RETRY,
                )
            self._input = replace(run_input, earlier=opened.earlier, first=opened.first)
            self._plan = opened.plan
            self._conversation = _restore(opened.plan, opened.state)

        queue, self._queue = self._queue, MessageQueue("all" if self._plan.queue == "all" else "one")
        _enqueue(self._queue, *_drain(queue))

    async def _drive(self) -> None:
        """Execute the steps that the conversation decides, until it has ended."""
        queue, conversation = self._queue, self._conversation
        while True:
            if queue.has_steering:
                conversation.read_messages(queue)
            match conversation.next(self._seconds):
                case CallModel():
                    await self._call_model()
                case RunCalls() as turn:
                    await self._run_calls(turn)
                case Paused():
                    await self._wait_for_decision()
                case Finished() as end:
                    fault = await self._check_answer(end)
                    if fault:
                        conversation.reject_answer(*fault)
                    elif not conversation.read_messages(queue):
                        return

    async def _check_answer(self, end: Finished) -> Sequence[str]:
        """Return why an answer is not of its type, and what the model has to do, or nothing if it is."""
        if not self._plan.is_typed or end.reason in REASONS_WITHOUT_ANSWER:
            return ()
        try:
            step = wire.CheckStep(text=end.output, path=self._input.path, schema=self._input.question.schema)
            fault: Sequence[str] = await self._execute(wire.CHECK, step)
        except ActivityError as error:
            raise _translate(error) from error
        return fault

    @property
    def _seconds(self) -> float:
        """The seconds that the run has taken, without the time in which it waited for decisions."""
        return self._input.spent + workflow.time() - self._start - self._waited

    async def _call_model(self) -> None:
        """Ask the model once. Before that, continue under a new history if this one has become long."""
        if workflow.info().is_continue_as_new_suggested():
            self._continue_as_new()
        step = wire.ModelStep(
            digest=self._plan.digest,
            state=wire.dump_state(self._conversation.state, self._plan.max_bytes),
            path=self._input.path,
            spent=self._seconds,
            schema=self._input.question.schema,
        )
        try:
            asked = asyncio.create_task(self._execute(wire.MODEL, vars(step)))
            (done,) = await asyncio.gather(asked)  # raises if it is cancelled, although the activity returns results
        except ActivityError as error:
            raise _translate(error) from error

        outcome = wire.ModelOutcome(**done)
        self._add_usage(outcome.usage)
        self._available = outcome.available
        if outcome.halt is not None:
            raise _Halted(outcome.halt)
        if outcome.response is not None:
            self._conversation.add_response(cast("ModelResponse", message_from_dict(outcome.response)))

    async def _run_calls(self, step: RunCalls) -> None:
        """Run the open calls except those that wait for a decision."""
        waiting = self._pending
        state = self._conversation.state
        decided = {each.call.id: each for each in state.pending if each.call.id in self._decided}
        results = [message for message in state.messages if isinstance(message, ToolMessage)]
        foreign = sorted({*self._input.foreign}.union(*[result.foreign for result in results]))
        slots = asyncio.Semaphore(min(self._plan.max_parallel, MAX_PENDING))
        self._results = {}

        async def run(call: ToolCall) -> None:
            async with slots:
                outcome = await self._run_call(call, decided.get(call.id), foreign, state)
            self._results[call.id] = outcome
            if outcome.halt is not None:
                self._add_usage(outcome.usage)
                raise _Halted(outcome.halt)
            if outcome.output is not None:
                self._answers[call.id] = outcome.output

        calls = [call for call in step.calls if call.id not in waiting]
        order = self._plan.order
        max_seconds = self._plan.limits.get("max_seconds")
        own_order: Any = batched(order) if isinstance(order, int) else order

        for batch in split_batches(calls, own_order, lambda call: self._get_plan(call).runs_alone):
            reason = explain_skip(
                is_stopped=any(outcome.is_stopped for outcome in self._results.values()),
                is_late=max_seconds is not None and self._seconds >= max_seconds,
                is_cancelled=False,
                has_steering=self._queue.has_steering,
            )
            if reason:
                refused = {call.id: message_to_dict(refuse_call(call, reason)) for call in batch}
                self._results |= {call_id: wire.CallOutcome(message=message) for call_id, message in refused.items()}
            else:
                await _gather([asyncio.create_task(run(call)) for call in batch])

        self._add_results(step, waiting)

    def _add_results(self, step: RunCalls, waiting: dict[str, PendingApproval]) -> None:
        """Add the results of the calls to the conversation, and end the run if one of them ends it."""
        outcomes = [self._results[call.id] for call in step.calls if call.id in self._results]
        self._results = {}
        for outcome in outcomes:
            self._add_usage(outcome.usage)
            for name, count in outcome.calls_by_tool.items():
                for _ in range(count):
                    self._conversation.count_call(name, 0)

        asked = [load_pending(each.pending) for each in outcomes if each.pending]
        pending = [*waiting.values(), *asked]
        answers = self._answers
        for each in asked:
            self._decided.pop(each.call.id, None)  # the call has changed, and is asked about again
        self._conversation.end_turn(
            _load_results(outcomes),
            pending,
            is_stopped=any(outcome.is_stopped for outcome in outcomes),
            find_answer=lambda messages: next((answers[m.call_id] for m in messages if m.call_id in answers), None),
        )

    async def _run_call(
        self, call: ToolCall, decided: PendingApproval | None, foreign: Sequence[str], state: RunState
    ) -> wire.CallOutcome:
        """Run one call: first its gates in a step of their own, if it has any, then the tool or the sub-agent."""
        step = wire.CallStep(
            digest=self._plan.digest,
            state=wire.make_call_state(state, call, decided, self._plan.max_bytes),
            path=self._input.path,
            foreign=foreign,
            available=self._available,
            decision=self._decided[call.id].decision if decided else None,
            runs_above=self._input.runs_above,
            spent=self._seconds,
        )
        if not self._get_plan(call).is_gated:
            return await self._execute_call(wire.CALL, call, step)

        outcome = await self._execute_call(wire.AUTHORIZE, call, step)
        if not outcome.has_passed:
            return outcome

        self._add_usage(outcome.usage)
        passed = load_pending(outcome.pending or {})
        own = wire.make_call_state(state, passed.call, None, self._plan.max_bytes)
        step = replace(step, state=own, decision=None, passed=passed.digest)
        if outcome.task is None:
            return await self._execute_call(wire.CALL, call, step)
        return await self._delegate_call(call, outcome.task, step)

    async def _delegate_call(self, call: ToolCall, task: str, step: wire.CallStep) -> wire.CallOutcome:
        """Execute the call of a sub-agent: first its run, then the call, with the answer of that run."""
        end = await self._run_child(call, task, step.foreign)
        self._add_usage(end.usage)
        if end.answer is None:
            message = message_to_dict(refuse_call(call, end.reason))
            return wire.CallOutcome(message=message, calls_by_tool=end.calls_by_tool)
        step = replace(step, answer=vars(end.answer), foreign=sorted({*step.foreign, *end.foreign}))
        return replace(await self._execute_call(wire.CALL, call, step), calls_by_tool=end.calls_by_tool)

    async def _execute_call(self, name: str, call: ToolCall, step: wire.CallStep) -> wire.CallOutcome:
        """Execute one activity of a call. If it is lost or cancelled, the call's result says so."""
        tool = self._get_plan(call)
        queue, seconds = ("", tool.gate_seconds) if name == wire.AUTHORIZE else (tool.task_queue, tool.seconds)
        try:
            return wire.CallOutcome(**await self._execute(name, vars(step), queue=queue, seconds=seconds))
        except ActivityError as error:
            if isinstance(error.cause, ApplicationError):
                raise _translate(error) from error
            lost = INCOMPLETE if name == wire.AUTHORIZE else LOST_TEXT
            reason = CANCELLED_TEXT if is_cancelled_exception(error) else lost
            return wire.CallOutcome(message=message_to_dict(refuse_call(call, reason)))

    async def _run_child(self, call: ToolCall, task: str, foreign: Sequence[str]) -> _ChildEnd:
        """Run a sub-agent as a workflow of its own. Its id has those of this run and of the call."""
        child_id = f"{workflow.info().workflow_id}/{call.id}"
        self._children.append(child_id)
        seconds = self._limit_child(call)
        reason = note_effects(Cancelled(), has_started=True).text
        timer: asyncio.TimerHandle | None = None

        def stop() -> None:
            nonlocal reason
            own = self._get_plan(call).timeout
            reason = (TimedOut.after(own) if seconds == own else note_effects(TimedOut(), has_started=True)).text
            child.cancel()

        try:
            child = await workflow.start_child_workflow(
                wire.WORKFLOW,
                self._make_child_input(call, task, foreign),
                id=child_id,
                result_type=wire.RunOutcome,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                task_timeout=timedelta(seconds=wire.TASK_SECONDS),
                cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
            if seconds is not None:
                timer = asyncio.get_running_loop().call_later(seconds, stop)
            outcome = await child
        except ChildWorkflowError as error:
            return _ChildEnd(reason=reason) if is_cancelled_exception(error) else _translate_child(error)
        finally:
            self._children.remove(child_id)
            if timer is not None:
                timer.cancel()

        self._decided |= {decided.call_id: decided for decided in outcome.decided}  # they may be sent again
        return _read_child(outcome, reason)

    def _make_child_input(self, call: ToolCall, task: str, foreign: Sequence[str]) -> wire.RunInput:
        return wire.RunInput(
            question=wire.Question(prompt=task, fingerprint=self._plan.fingerprint),
            run_id=sha256(f"{self._input.run_id} {call.id}".encode()).hexdigest()[:32],
            plan=self._plan,
            path=[*self._input.path, call.name],
            foreign=foreign,
            runs_above=[*self._input.runs_above, self._input.run_id],
        )

    def _limit_child(self, call: ToolCall) -> float | None:
        """Return the seconds for a sub-agent: its call's timeout, or those that this run has left if they are fewer."""
        timeout = self._get_plan(call).timeout
        max_seconds = self._plan.limits.get("max_seconds")
        if timeout is None or max_seconds is None:
            return timeout
        return float(min(timeout, max(max_seconds - self._seconds, 0.0)))

    def _get_plan(self, call: ToolCall) -> wire.ToolPlan:
        """Return the plan of a call's tool, or a default plan for a tool that the model invented."""
        return self._plan.tools.get(call.name, wire.ToolPlan())

    async def _execute(
        self, name: str, step: Any, *, queue: str = "", seconds: float | None = None, result_type: Any = None
    ) -> Any:
        """Execute an activity, on a worker whose tools are those of the run. Wait for one if there is none."""
        pause = FIRST_PAUSE
        while True:
            try:
                done = await workflow.execute_activity(
                    name,
                    step,
                    result_type=result_type,
                    task_queue=queue or None,
                    start_to_close_timeout=timedelta(seconds=seconds or ANY_SECONDS),
                    heartbeat_timeout=timedelta(seconds=self._plan.heartbeat),
                    retry_policy=RetryPolicy(
                        maximum_attempts=self._plan.attempts, maximum_interval=timedelta(seconds=LONGEST_PAUSE)
                    ),
                    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                )
            except ActivityError as error:
                if not isinstance(error.cause, ApplicationError) or error.cause.type != wire.MISMATCH:
                    raise
                self._note = f"No worker takes the next step: {_explain_mismatch(error.cause, self._plan)}"
                if name == wire.CALL and any(attempt > 1 for attempt in error.cause.details[1:]):
                    step = {**step, "is_suspect": True}  # the next activity counts its attempts from 1 again
            else:
                self._note = ""
                return done
            await workflow.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _execute_last(self, name: str, step: Any) -> Any:
        """Execute an activity after the end of the run, when it is too late to cancel the run."""
        done = asyncio.create_task(self._execute(name, step))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            return await done

    def _add_usage(self, usage: Mapping[str, int]) -> None:
        self._conversation.add_usage(Usage(**usage))

    async def _wait_for_decision(self) -> None:
        start = workflow.time()
        total = len(self._conversation.state.pending)
        is_long = workflow.info().is_continue_as_new_suggested
        await workflow.wait_condition(lambda: len(self._pending) < total or is_long())
        self._waited += workflow.time() - start
        if is_long():
            self._continue_as_new()
        self._conversation.resume()

    def _record_results(self) -> None:
        """Record the results so far if the run ends in the middle of a turn."""
        known = {result.call_id for result in self._conversation.state.results}
        messages = _load_results(self._results.values())
        self._conversation.record_results([message for message in messages if message.call_id not in known])

    def _continue_as_new(self) -> NoReturn:
        """Continue under a new history, since the old one has become long."""
        (steering, follow_ups) = _drain(self._queue)
        decided = [*self._decided.values()]
        extra = [*steering, *follow_ups, *map(vars, decided)]
        workflow.continue_as_new(
            replace(
                self._input,
                question=replace(self._input.question, prompt="", messages=()),
                plan=self._plan,
                state=wire.dump_state(self._conversation.state, self._plan.max_bytes, extra),
                spent=self._seconds,
                steering=steering,
                follow_ups=follow_ups,
                decided=decided,
                answers=self._answers,
                available=self._available,
            )
        )


def _restore(plan: wire.Plan, state: str) -> Conversation:
    return Conversation(RunState.from_json(state), wire.load_limits(plan.limits))


async def _gather(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all tasks. If one fails, cancel the others, and wait for their ends before raising."""
    try:
        await asyncio.gather(*tasks)
    except (Exception, asyncio.CancelledError):  # not the exception that ends a workflow which leaves the cache
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _make_failure(error: ToolkitError | FailureError, state: RunState) -> ApplicationError:
    """Make the failure of a run, with its usage for the run above."""
    kind = type(error).__name__
    text = str(error)
    if isinstance(error, ApplicationError):
        kind = error.type or "RunError"
        text = error.message
    used = {"usage": vars(state.usage), "calls_by_tool": dict(state.calls_by_tool)}
    return ApplicationError(text, used, type=kind, non_retryable=True)


def _explain_mismatch(cause: ApplicationError, plan: wire.Plan) -> str:
    """Explain why a worker does not take a step. Its failure has its fingerprint, except at the first step."""
    try:
        own, run = map(Fingerprint.from_json, (cause.details[0], plan.fingerprint))
    except (IndexError, DefinitionError):
        return cause.message
    return "; ".join(run.find_differences(own))


def _translate_child(error: ChildWorkflowError) -> _ChildEnd:
    """Convert the failure of a sub-agent's run to an error for the model above. A FatalError ends that run, too."""
    if not isinstance(cause := error.cause, ApplicationError):
        return _ChildEnd(wire.ChildAnswer(error=str(cause)))
    if cause.type == "FatalError":
        raise ApplicationError(cause.message, type="FatalError", non_retryable=True) from error
    reason = NO_RESPONSE if cause.type == ModelError.__name__ else cause.message
    return _ChildEnd(wire.ChildAnswer(error=reason), **(cause.details[0] if cause.details else {}))


def _read_child(outcome: wire.RunOutcome, reason: str) -> _ChildEnd:
    """Read the end of a sub-agent's run; `reason` is the text of the call's result if the run was cancelled."""
    state = RunState.from_json(outcome.state)
    end = wire.read_end(state)
    answer = wire.ChildAnswer(output=end.output, finish_reason=end.reason) if end.reason != "cancelled" else None
    names = {name for each in state.messages if isinstance(each, ToolMessage) for name in each.foreign}
    return _ChildEnd(answer, reason, vars(state.usage), state.calls_by_tool, sorted(names))


def _enqueue(queue: MessageQueue, steering: Sequence[str], follow_ups: Sequence[str]) -> None:
    for text in steering:
        queue.steer(text)
    for text in follow_ups:
        queue.follow_up(text)


def _drain(queue: MessageQueue) -> tuple[list[str], list[str]]:
    """Return the unread texts of a queue: steering, follow-ups."""
    steering: list[str] = []
    while queue.has_steering:
        steering += [message.text for message in queue.take_steering()]
    return steering, [message.text for message in queue.close()]


def _load_results(outcomes: Iterable[wire.CallOutcome]) -> list[ToolMessage]:
    return [cast("ToolMessage", message_from_dict(each.message)) for each in outcomes if each.message]


def _translate(error: ActivityError) -> BaseException:
    """Convert the failure of an activity to the exception that ends the run: a cancellation, or an error."""
    cause = error.cause
    if is_cancelled_exception(error):
        return asyncio.CancelledError()
    if not isinstance(cause, ApplicationError):
        return ApplicationError(f"A step of the run was lost: {cause}", type="RunError", non_retryable=True)
    return ApplicationError(cause.message, type=cause.type, non_retryable=True)
