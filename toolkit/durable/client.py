"""A client: starts durable runs, follows and steers them, and decides on their calls, from any process."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Literal, TypeVar

from temporalio.client import (
    Client,
    RPCError,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, CancelledError, WorkflowAlreadyStartedError
from temporalio.service import RPCStatusCode

from toolkit import errors
from toolkit._concurrency.threads import wait_at_exit
from toolkit._dialects.tool_choice import check_tool_choice
from toolkit._execution.approval import Verdict, make_decision
from toolkit._execution.undo import Undo
from toolkit._guards.options import check_type
from toolkit._messages import (
    Message,
    ModelResponse,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    message_from_dict,
    message_to_dict,
    write_output,
)
from toolkit._options import is_whole
from toolkit._runner.history import read_history
from toolkit._runner.output import read_answer, write_schema
from toolkit._runner.prompt import NOTHING_TO_ANSWER
from toolkit._runner.result import RunResult, restore_result
from toolkit._runner.runner import Runner
from toolkit._runner.state import Phase, RunState, load_pending
from toolkit.durable import wire
from toolkit.errors import (
    ApprovalError,
    RunEndedError,
    RunError,
    RunExistsError,
    RunNotFoundError,
    RunUnreachableError,
    ToolError,
)
from toolkit.events import (
    ApprovalNeeded,
    Event,
    FinishReason,
    MessageAdded,
    PendingApproval,
    ResultsAdded,
    RunFinished,
    TextDelta,
    TurnFinished,
)

# Seconds between two queries of a run, and the longest time of one query.
POLL_INTERVAL = 0.3
QUERY_TIMEOUT = timedelta(seconds=10)
# Statuses of errors that pass: the server is down or overloaded, a connection broke, or another worker takes over.
UNREACHABLE = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.UNKNOWN,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.FAILED_PRECONDITION,
        RPCStatusCode.RESOURCE_EXHAUSTED,
    }
)
UNREACHABLE_TEXT = "no worker answers, or no server"
# Ends of a run that the server makes without a worker.
CUT_OFF = (WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.TIMED_OUT)
# Parts of the server's error message for a request that is too large.
TOO_LARGE = ("data size exceeds limit", "larger than max")
# Decisions on one run that are sent at the same time, and bytes of messages that are sent together, at most.
MAX_DECISIONS = 10
MAX_SENT = 1_000_000

logger: logging.Logger = logging.getLogger("toolkit")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """The progress of a run.

    Attributes:
        phase: `opening`, before a worker has taken it; `asking` the model; `calling` tools; `paused`, for approvals; or
            `finished`.
        turns: Responses of the model so far.
        messages: Number of messages so far, the first ones included.
        pending: The calls that wait for approval, those of sub-agents included.
        usage: Tokens and requests so far.
        finish_reason: Why the run ended, `error` if `result` raises; empty while it runs.
        note: Why no worker takes the next step of the run or of a sub-agent, if that is known; or why the run failed;
            else empty.
        run_id: Id of the run in the ledger and in the result's state, for `Runner.undo`. It differs from `run_id=` of
            `DurableRunner.start`, unless that is 32 hexadecimal digits in lower case.
    """

    phase: Phase | Literal["opening"]
    turns: int
    messages: int
    pending: tuple[PendingApproval, ...]
    usage: Usage
    finish_reason: FinishReason | Literal[""] = ""
    note: str = ""
    run_id: str = ""


class DurableRunner:
    """Starts durable runs, and finds them again. Workers with the same runner execute them.

    Args:
        client: A connected `temporalio.client.Client`.
        runner: The same runner as that of the workers. If tools or settings differ, a run is refused before any work.
            Without a runner this is not checked.
        task_queue: Name of the queue of the workers.

    Raises:
        DefinitionError: `client` is not a client, or `runner` is not a Runner.
        ValueError: `task_queue` is not text, or is empty.
    """

    def __init__(self, client: Client, runner: Runner | None = None, *, task_queue: str) -> None:
        wait_at_exit()
        check_type("client", client, Client)
        check_type("runner", runner, Runner, type(None))
        wire.check_name("task_queue", task_queue)
        self._client = client
        self._runner = runner
        self._task_queue = task_queue

    async def start(
        self,
        prompt: str = "",
        *,
        messages: Iterable[Message | Mapping[str, Any]] = (),
        session: str | None = None,
        allowed_tools: Sequence[str] | None = None,
        output_type: Any = str,
        run_id: str | None = None,
    ) -> DurableRun:
        """Start a run. Workers may start later.

        Args:
            prompt: The user's message.
            messages: The conversation so far, as for `Runner.run`.
            session: Name of the session to continue, which the worker opens: see its `sessions=`. The run adds its
                messages when it ends, as `Runner.run` does.
            allowed_tools: As for `Runner.run`.
            output_type: As for `Runner.run`. Workers know only its JSON Schema; `result` checks the rules that only
                Python can check.
            run_id: Your own id, such as the number of an order. A second run of the same id is not started. By default
                a new id.

        Raises:
            DefinitionError: `output_type` has no JSON form.
            RunExistsError: There is or was a run of this id.
            RunError: The server refuses the run, such as one of more than 2 MB.
            RunUnreachableError: The server does not answer.
            TypeError: There are `messages` and a `session`, or the prompt is not text.
            ValueError: There is nothing to answer, `session` or `run_id` is empty or not text, or `allowed_tools` has a
                name that no tool of the runner has.
        """
        _check_text(prompt)
        if run_id is not None:
            wire.check_name("run_id", run_id)
        if session is not None:
            wire.check_name("session", session)
        if allowed_tools is not None:
            names = self._runner.toolbox.snapshot() if self._runner else allowed_tools
            _, allowed_tools = check_tool_choice(None, allowed_tools, names)
        workflow_id = run_id or uuid.uuid4().hex
        earlier = read_history(messages)
        if session and earlier:
            raise TypeError("messages= and session= are both the conversation so far: give one of them.")
        if not prompt and (not earlier or isinstance(earlier[-1], ModelResponse)):
            raise ValueError(NOTHING_TO_ANSWER)

        question = wire.Question(
            prompt=prompt,
            messages=[message_to_dict(message) for message in earlier],
            fingerprint=self._runner.fingerprint().to_json() if self._runner else "",
            allowed_tools=allowed_tools,
            session=session or "",
            schema=write_schema(output_type),
        )
        ledger_id = workflow_id
        if not re.fullmatch(r"[0-9a-f]{32}", workflow_id):  # the ids of calls begin with 8 characters of it
            ledger_id = sha256(f"{workflow_id} {uuid.uuid4()}".encode()).hexdigest()[:32]

        with _translate_errors(workflow_id):
            await self._client.start_workflow(
                wire.WORKFLOW,
                wire.RunInput(question=question, run_id=ledger_id),
                id=workflow_id,
                task_queue=self._task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                result_type=wire.RunOutcome,
                task_timeout=timedelta(seconds=wire.TASK_SECONDS),
            )

        return DurableRun(self._client, workflow_id, output_type)

    async def attach(self, run_id: str, *, output_type: Any = str) -> DurableRun:
        """Return a run that was started before, in this or another process. It may have ended.

        Args:
            run_id: The run's id.
            output_type: As for `start`; without it, the answer is a text.

        Raises:
            RunNotFoundError: The server knows no such run.
            ValueError: `run_id` is not text, or is empty.
        """
        wire.check_name("run_id", run_id)
        with _translate_errors(run_id):
            await self._client.get_workflow_handle(run_id).describe()
        return DurableRun(self._client, run_id, output_type)

    async def run(self, prompt: str = "", **options: Any) -> RunResult[Any]:
        """Start a run and wait for its result: see `start` and `DurableRun.result`."""
        return await (await self.start(prompt, **options)).result()


class DurableRun:
    """A durable run. Objects in several processes may refer to the same run.

    Attributes:
        id: Id of the run, for `DurableRunner.attach`.
    """

    def __init__(self, client: Client, run_id: str, output_type: Any = str) -> None:
        self.id = run_id
        self._client = client
        self._output_type = output_type
        self._deciding = asyncio.Semaphore(MAX_DECISIONS)
        self._sending = asyncio.Lock()
        self._outbox: dict[str, tuple[list[str], asyncio.Task[None]]] = {}  # by name of the signal
        self._handle = client.get_workflow_handle(run_id, result_type=wire.RunOutcome)

    async def result(self) -> RunResult[Any]:
        """Wait until the run has ended, without a limit of time, also while no worker or no server answers.

        The result is a RunResult. Its calls have texts, but no values, exceptions or seconds. A run that waits for
        approval has not ended: see `status`.

        Raises:
            FingerprintError: Client and worker have other tools or settings.
            RunError: The run failed, with the exceptions of `Runner.run`: ModelError, LimitError, FatalError. Or the
                answer matches the schema of its `output_type`, but not the type.
            RunNotFoundError: The server has deleted the run.
        """
        try:
            outcome = await _wait_until_reachable(self._wait)
        except WorkflowFailureError as failure:
            raise _make_error(failure.cause) from failure

        state = RunState.from_json(outcome.state)
        end = wire.read_end(state)
        try:
            output = read_answer(end.output, end.reason, self._output_type)
        except ToolError as error:
            raise RunError(f"The run {self.id!r} has no answer of its output_type. {error}") from error

        return replace(
            restore_result(state, output, outcome.model, outcome.cost),
            unread=tuple(UserMessage(text) for text in outcome.unread),
            undos=tuple(Undo(**{**each, "call": ToolCall.from_dict(each["call"])}) for each in outcome.undos),
        )

    async def status(self) -> RunStatus:
        """Return the progress of the run.

        Raises:
            RunUnreachableError: No worker has answered within 10 seconds, or no server.
            RunNotFoundError: The server has deleted the run.
            RunError: The run was terminated at the server, and no worker knows its state.
        """
        description = await self._describe()
        reason = f"no worker of the task queue {description.task_queue!r} answers; start one, or see why in its log"
        data = await self._query(wire.STATUS, unreachable=reason)
        if description.close_time is not None and data["phase"] != "finished":
            data |= {"phase": "finished", "finish_reason": "error", "pending": [], "children": []}
            try:
                await self.result()
            except errors.ToolkitError as error:
                data["note"] = str(error)

        pending = [load_pending(each) for each in data["pending"]]
        for child in data.pop("children"):
            with suppress(RunNotFoundError):  # it is being started
                below = await DurableRun(self._client, child).status()
                pending += below.pending
                data["note"] = data["note"] or below.note
        return RunStatus(**{**data, "pending": tuple(pending), "usage": Usage(**data["usage"])})

    async def events(self, offset: int = 0) -> AsyncIterator[Event]:
        """Yield the events of the run, to its end; any number of readers may do so.

        These are whole messages, as `MessageAdded`, `TurnFinished` and `ResultsAdded`; `ApprovalNeeded` and
        `RunFinished`; and, from a worker with `streams=True`, `TextDelta` for a response that arrives. Deltas may be
        lost if a worker dies or a reader starts late. The whole response is in its `TurnFinished`.

        While no worker answers, or no server, it waits.

        Args:
            offset: Number of messages to skip, such as those that were read before.

        Raises:
            RunError: The run failed, as in `result`.
            ValueError: The run has fewer messages than `offset`, or `offset` is not a whole number of at least 0.
        """
        earlier = (await self._read(0))[:offset] if is_whole(offset, 1) else ()
        turn = sum(isinstance(each, ModelResponse) for each in earlier)
        shown = ""
        asked = set[str]()

        async for status, messages in self._follow(offset):
            for message in messages:
                for event in _make_events(message, turn, shown):
                    yield event
                if isinstance(message, ModelResponse):
                    turn += 1
                    shown = ""
            for waiting in status.pending:
                if waiting.digest not in asked:
                    asked.add(waiting.digest)
                    yield ApprovalNeeded(waiting)
            offset += len(messages)
            if status.phase != "finished":
                text = await self._read_partial_text(offset)
                for delta in _make_deltas(shown, text):
                    shown += delta.text
                    yield delta

        result = await self.result()
        yield RunFinished(output=write_output(result.output), finish_reason=result.finish_reason, usage=result.usage)

    async def approve(self, call_id: str, decision: Verdict = True) -> None:  # noqa: FBT002  as in `decisions=`
        """Decide on a call that waits for approval, also of a sub-agent. Return when a worker has the decision.

        The same decision may be sent again. It holds for the call, its arguments and its tool's definition. If these
        have changed, the call is asked about again.

        Raises:
            ApprovalError: The call does not wait, or has another decision already.
            RunEndedError: The run has ended.
            ValueError: `call_id` is not text or is empty, or `decision` is invalid.
        """
        wire.check_name("call_id", call_id)
        full = make_decision(decision)
        data = {**asdict(full), "arguments": None if full.arguments is None else dict(full.arguments)}

        try:
            async with self._deciding:
                with _translate_errors(self.id):
                    await self._decide(wire.DecidedCall(call_id=call_id, decision=data))
        except WorkflowUpdateFailedError as failure:
            for child in (await self._query(wire.STATUS))["children"]:
                with suppress(ApprovalError, RunEndedError, RunNotFoundError):
                    return await DurableRun(self._client, child).approve(call_id, decision)
            raise _make_error(failure.cause) from None

    async def _decide(self, decided: wire.DecidedCall) -> None:
        try:
            await self._handle.execute_update(wire.DECIDE, decided)
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:  # it hides the reason
            raise error.__cause__ or error from None

    async def steer(self, message: str) -> None:
        """Add a message that the model reads before its next response. Batches of calls not yet started are skipped.

        Raises:
            RunEndedError: The run has ended.
            TypeError: The message is not text.
        """
        await self._send(wire.STEER, message)

    async def follow_up(self, message: str) -> None:
        """Add a message that the model reads after its answer. The run then continues.

        Raises:
            RunEndedError: The run has ended.
            TypeError: The message is not text.
        """
        await self._send(wire.FOLLOW_UP, message)

    async def cancel(self) -> None:
        """Cancel the run. Its tools are notified, and every call gets a result.

        Raises:
            RunEndedError: The run has ended.
        """
        with _translate_errors(self.id):
            if (await self._describe()).close_time is not None:
                raise RunEndedError(f"The run {self.id!r} has ended.")
            await self._handle.cancel()

    async def _send(self, name: str, message: str) -> None:
        """Send a message. The messages that wait for the end of an earlier delivery are sent together, in order."""
        _check_text(message)
        if name not in self._outbox:
            self._outbox[name] = [], asyncio.create_task(self._deliver(name))
        messages, delivery = self._outbox[name]
        messages.append(message)
        await asyncio.shield(delivery)  # it delivers messages of other tasks, too

    async def _deliver(self, name: str) -> None:
        async with self._sending:
            messages, _ = self._outbox.pop(name)
            parts = [messages] if wire.measure(messages) < MAX_SENT else [[message] for message in messages]
            with _translate_errors(self.id):
                for part in parts:
                    await self._handle.signal(name, part)

    async def _follow(self, offset: int) -> AsyncIterator[tuple[RunStatus, Sequence[Message]]]:
        """Yield the status of the run and its new messages, again and again until it has ended."""
        while True:
            status = await _wait_until_reachable(self.status)
            if not is_whole(offset, 0) or status.messages < offset:
                raise ValueError(f"offset={offset!r}: the run {self.id!r} has {status.messages} messages.")
            messages = await self._read(offset)
            yield status, messages
            if status.phase == "finished":
                return
            offset += len(messages)
            await asyncio.sleep(POLL_INTERVAL)

    async def _wait(self) -> wire.RunOutcome:
        with _translate_errors(self.id):
            outcome: wire.RunOutcome = await self._handle.result()
        return outcome

    async def _read(self, offset: int) -> list[Message]:
        query = partial(self._query, wire.MESSAGES, offset)
        return [message_from_dict(data) for data in await _wait_until_reachable(query)]

    async def _read_partial_text(self, offset: int) -> str:
        """Return the text so far of the response that arrives after so many messages, or "" if none is known."""
        description = await _wait_until_reachable(self._describe)
        for pending in description.raw_description.pending_activities:
            if pending.activity_type.name == wire.MODEL and pending.HasField("heartbeat_details"):
                details = await self._client.data_converter.decode(pending.heartbeat_details.payloads)
                if details[:1] == [offset]:
                    return str(details[1])
        return ""

    async def _query(self, name: str, *arguments: Any, unreachable: str = UNREACHABLE_TEXT) -> Any:
        deadline = time.monotonic() + QUERY_TIMEOUT.total_seconds()
        with _translate_errors(self.id, unreachable):
            while True:
                try:
                    return await self._handle.query(name, args=arguments, rpc_timeout=QUERY_TIMEOUT)
                except WorkflowQueryFailedError:  # such as while a worker takes the run over
                    if (await self._describe()).status in CUT_OFF:
                        await self.result()  # raises the reason
                    if time.monotonic() >= deadline:
                        raise
                await asyncio.sleep(POLL_INTERVAL)

    async def _describe(self) -> WorkflowExecutionDescription:
        with _translate_errors(self.id):
            return await self._handle.describe()

    def __repr__(self) -> str:
        return f"<DurableRun {self.id}>"


def _check_text(value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(
            f"A durable run takes text, not {value!r:.100}. Results of its tools may have images and files."
        )


def _make_events(message: Message, turn: int, shown: str) -> Sequence[Event]:
    """Return the events of a message; `shown` is the text of it that deltas have had already."""
    if isinstance(message, ModelResponse):
        return (*_make_deltas(shown, message.text), TurnFinished(turn=turn, response=message))
    if isinstance(message, ToolMessage):
        return (ResultsAdded(turn=turn - 1, messages=(message,)),)
    return (MessageAdded(message),) if isinstance(message, UserMessage) else ()


def _make_deltas(shown: str, text: str) -> Sequence[TextDelta]:
    """Return the text that was added to the shown text, or nothing if the response was started again."""
    return [TextDelta(text[len(shown) :])] if text.startswith(shown) and text != shown else []


async def _wait_until_reachable(request: Callable[[], Awaitable[T]]) -> T:
    """Repeat a request while no worker answers, or no server. The first time, the log says so."""
    is_first = True
    while True:
        try:
            return await request()
        except RunUnreachableError as error:
            if is_first:
                logger.warning("%s Waiting.", error)
            is_first = False
        await asyncio.sleep(POLL_INTERVAL)


@contextmanager
def _translate_errors(run_id: str, unreachable: str = UNREACHABLE_TEXT) -> Iterator[None]:
    """Convert the server's errors about one run to errors of this library."""
    try:
        yield
    except WorkflowAlreadyStartedError:
        raise RunExistsError(f"There is a run {run_id!r} already: attach({run_id!r}) returns it.") from None
    except WorkflowQueryFailedError as error:  # its worker is too busy, or has other code than that of the run
        raise RunUnreachableError(f"The run {run_id!r} cannot be reached now: {error}") from error
    except RPCError as error:
        if any(words in str(error) for words in TOO_LARGE):
            raise RunError(
                f"A request for the run {run_id!r} is more than the server takes at a time, usually 2 MB: shorten it, "
                "or give client and worker an ExternalStorage of temporalio.converter."
            ) from error
        if error.status in UNREACHABLE:
            reason = error.message if error.status is RPCStatusCode.RESOURCE_EXHAUSTED else unreachable
            raise RunUnreachableError(f"The run {run_id!r} cannot be reached now: {reason}.") from None
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise RunError(f"The server of the run {run_id!r} failed: {error}") from error
        if "completed" in str(error):
            raise RunEndedError(f"The run {run_id!r} has ended.") from None
        raise RunNotFoundError(f"The server knows no run {run_id!r}: {error}") from None


def _make_error(cause: BaseException | None) -> Exception:
    """Make the exception that `Runner.run` would have raised."""
    while isinstance(getattr(cause, "cause", None), (ApplicationError, CancelledError)):
        cause = getattr(cause, "cause")  # noqa: B009  the innermost one says what happened
    if isinstance(cause, CancelledError):
        return RunError("The run was cancelled before a worker had taken it.")
    if not isinstance(cause, ApplicationError):
        return RunError(f"The run failed: {cause}")
    kind = getattr(errors, cause.type or "", RunError)
    error: Exception = kind(cause.message)
    return error
