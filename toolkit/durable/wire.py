"""The messages between client, workflow and activities: plain data, written as JSON by the engine's converter.

States, responses and approvals are sent as this library's own JSON, so that they are validated as everywhere else. The
frequent steps and their outcomes are sent as dicts of their fields: for a dataclass, the engine resolves the
annotations for each payload, and visits each value in it. To make that faster, annotations are not texts in this file.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from toolkit._messages import ModelResponse, ToolCall, UserMessage
from toolkit._runner.conversation import Conversation, Finished
from toolkit._runner.limits import Limits, Prices
from toolkit._runner.state import RunState
from toolkit.errors import RunError
from toolkit.events import FinishReason, PendingApproval

# Names at the server. If one changed, running runs would have no worker.
WORKFLOW = "toolkit.run"
OPEN = "toolkit.open"
MODEL = "toolkit.model"
AUTHORIZE = "toolkit.authorize"
CALL = "toolkit.call"
CHECK = "toolkit.check"
UNDO = "toolkit.undo"
REMEMBER = "toolkit.remember"
DECIDE = "decide"
STEER = "steer"
FOLLOW_UP = "follow_up"
STATUS = "status"
MESSAGES = "messages"

# Seconds until another worker takes over from one that died while it decided the next step.
TASK_SECONDS = 5.0
# Seconds without a heartbeat after which the worker of the first step counts as dead: its own setting is not known yet.
OPEN_HEARTBEAT = 5.0
# Type of the failure of a step that a worker with other tools has refused.
MISMATCH = "FingerprintError"


@dataclass(frozen=True, kw_only=True)
class Question:
    """The task of a run.

    Attributes:
        prompt: The user's message.
        messages: The conversation so far, as plain data.
        fingerprint: Fingerprint of the client's runner; empty if the client has none.
        allowed_tools: As for `Runner.run`.
        session: Name of the session that the run continues; empty without one.
        schema: JSON Schema of the answer, as a text that keeps its order; empty if any text is an answer.
    """

    prompt: str
    messages: Sequence[Mapping[str, Any]] = ()
    fingerprint: str = ""
    allowed_tools: Sequence[str] | None = None
    session: str = ""
    schema: str = ""


@dataclass(frozen=True, kw_only=True)
class OpenStep:
    """The first activity: compare fingerprints, and make the first state."""

    run_id: str
    question: Question
    path: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class ToolPlan:
    """The treatment of one tool's calls by the workflow.

    Attributes:
        runs_alone: Whether no other call runs at the same time.
        is_gated: Whether the gates are asked first, in a step of their own; so is the task of a sub-agent.
        gate_seconds: The longest time of that step; None without a limit.
        seconds: The longest time of a call with its retries; None without a limit.
        timeout: The longest time of the run of a sub-agent; None without a limit.
        task_queue: Name of the queue whose workers run the tool; empty for that of the run.
    """

    runs_alone: bool = False
    is_gated: bool = False
    gate_seconds: float | None = None
    seconds: float | None = None
    timeout: float | None = None
    task_queue: str = ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that the workflow knows of the worker's runner. It is recorded, so that a replay has the same plan.

    Attributes:
        fingerprint: Fingerprint of the worker's runner; empty if it is not checked.
        digest: Digest of the fingerprint, which every later activity checks.
        model: The model's name.
        limits: The limits of a run, by name.
        order: "parallel", "sequential" or the size of a batch.
        max_parallel: Calls at the same time.
        queue: How many messages are read at a time.
        heartbeat: Seconds without a heartbeat after which a worker counts as dead.
        attempts: How often a step is tried if its worker dies, or a model's server or a store fails temporarily.
        max_bytes: The largest state that is sent to an activity.
        is_typed: Whether the answer has a type, and is checked.
        undoes: Whether a run that fails, is cancelled or stopped is undone.
        tools: The plans for the tools, by name.
    """

    fingerprint: str
    model: str
    limits: Mapping[str, Any]
    order: str | int
    max_parallel: int
    queue: str
    heartbeat: float
    attempts: int
    max_bytes: int
    tools: Mapping[str, ToolPlan]
    digest: str = ""
    is_typed: bool = False
    undoes: bool = False


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The plan and the first state.

    Attributes:
        earlier: Number of messages that the session has.
        first: Position in the state of the first message that the run adds.
    """

    plan: Plan
    state: str
    earlier: int = 0
    first: int = 0


@dataclass(frozen=True, kw_only=True)
class CheckStep:
    """Compare an answer with its schema, or with the type of a sub-agent."""

    text: str
    path: Sequence[str]
    schema: str = ""


@dataclass(frozen=True, kw_only=True)
class UndoStep:
    """Undo the calls of a run."""

    run_id: str
    path: Sequence[str]
    runs_above: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class RememberStep:
    """Add messages to a session that had `after` messages."""

    session: str
    messages: Sequence[Mapping[str, Any]]
    after: int


@dataclass(frozen=True, kw_only=True)
class ModelStep:
    """One call of the model.

    Attributes:
        digest: Digest of the plan's fingerprint.
        state: The conversation.
        path: Names of the tools that lead to the sub-agent that asks; empty for the run itself.
        spent: Seconds that the run has taken.
        schema: As in `Question`.
    """

    digest: str
    state: str
    path: Sequence[str] = ()
    spent: float = 0.0
    schema: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelOutcome:
    """A response of the model; None if the time of the run was up before.

    Attributes:
        usage: Usage of the activity, with that of hooks and of runs that they started.
        available: Names of the tools that may be called in this turn, if hooks have taken some out of the request.
        halt: The answer of a hook that has ended the run.
    """

    response: Mapping[str, Any] | None
    usage: Mapping[str, int]
    available: Sequence[str] | None = None
    halt: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChildAnswer:
    """The end of a sub-agent's run.

    Attributes:
        error: Why the run failed; empty if it did not.
    """

    output: str = ""
    finish_reason: FinishReason = "stop"
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class CallStep:
    """One call of a tool, or its gates.

    Attributes:
        digest: Digest of the plan's fingerprint.
        state: A state with only this call, open or with the approval that it waits for.
        path: Names of the tools that lead to the sub-agent whose call it is; empty for the run's own.
        foreign: Names of the tools with `trust="foreign"` that the run has called, or one above it.
        available: As the model's activity returned it.
        decision: The decision on the approval.
        passed: Digest of the call, if it has passed its gates.
        answer: If the tool is a sub-agent that ran as a workflow of its own: its answer, the fields of a `ChildAnswer`.
        runs_above: Ids of the runs above, from the outermost; one for each name of `path`.
        spent: Seconds that the run has taken.
        is_suspect: Whether a worker that has died may have started the call, before another one refused the step.
    """

    digest: str
    state: str
    path: Sequence[str] = ()
    foreign: Sequence[str] = ()
    available: Sequence[str] | None = None
    decision: Mapping[str, Any] | None = None
    passed: str = ""
    answer: Mapping[str, Any] | None = None
    runs_above: Sequence[str] = ()
    spent: float = 0.0
    is_suspect: bool = False


@dataclass(frozen=True, kw_only=True)
class CallOutcome:
    """The outcome of a call: a result, an approval that it waits for, or the call that has passed its gates.

    Attributes:
        message: The result as a message.
        pending: The approval, or the call that has passed.
        has_passed: Whether the call has passed its gates, and is to run.
        task: If the tool is a sub-agent, and the call has passed: its task.
        is_stopped: Whether an approver ended the run.
        output: The answer of the run, if the result is one.
        usage: Usage of runs that the call started.
        calls_by_tool: Numbers of calls that the call made, by tool.
        halt: The answer of a hook or tool that has ended the run.
    """

    message: Mapping[str, Any] | None = None
    pending: Mapping[str, Any] | None = None
    has_passed: bool = False
    task: str | None = None
    is_stopped: bool = False
    output: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    calls_by_tool: Mapping[str, int] = field(default_factory=dict)
    halt: str | None = None


@dataclass(frozen=True, kw_only=True)
class DecidedCall:
    """A pending call with the decision on it."""

    call_id: str
    decision: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunInput:
    """The input of the workflow: a question, or the state with which a long run continues under a new history.

    Attributes:
        earlier: As in `Opened`, and so is `first`.
        spent: Seconds that the run has taken before.
        steering: Unread messages of `steer`.
        follow_ups: Unread messages of `follow_up`.
        decided: The decisions so far.
        answers: Results that are the answer, by call id.
        available: As in `ModelOutcome`, of the last response.
        path: Names of the tools that lead to the sub-agent whose run it is; its plan is that of the run above.
        foreign: Names of the tools with `trust="foreign"` that the runs above have called.
        runs_above: Ids of the runs above, from the outermost.
    """

    question: Question
    run_id: str = ""
    plan: Plan | None = None
    state: str = ""
    earlier: int = 0
    first: int = 0
    spent: float = 0.0
    steering: Sequence[str] = ()
    follow_ups: Sequence[str] = ()
    decided: Sequence[DecidedCall] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    available: Sequence[str] | None = None
    path: Sequence[str] = ()
    foreign: Sequence[str] = ()
    runs_above: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """The output of the workflow; for a sub-agent also the decisions on its calls, for the run above.

    Attributes:
        undos: The undone calls, each as the fields of an `Undo` without its exception.
    """

    state: str
    model: str
    unread: Sequence[str] = ()
    decided: Sequence[DecidedCall] = ()
    undos: Sequence[Mapping[str, Any]] = ()
    cost: float | None = None


def read_end(state: RunState) -> Finished:
    """Return the answer of a run that has ended, and the reason for the end."""
    return cast("Finished", Conversation(state).next())


def check_name(option: str, name: object) -> None:
    """Check the name or id of a queue, a run, a session or a call.

    Raises:
        ValueError: It is blank or not text.
    """
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"{option}={name!r:.100} is blank or not text.")


def measure(data: Any) -> int:
    """Return the size in bytes of plain data as JSON for the server, in ASCII. Texts count with quotes and escapes."""
    return len(json.dumps(data))


def dump_state(state: RunState, max_bytes: int, extra: Sequence[Any] = ()) -> str:
    """Write a state as JSON. It and `extra`, which is sent in the same payload, may have `max_bytes` together.

    Raises:
        RunError: Together they are larger.
    """
    text = state.to_json()
    if (size := measure(text) + measure(extra)) > max_bytes:
        subject = "The conversation, with the unread messages and the decisions," if extra else "The conversation"
        raise RunError(
            f"{subject} has {size:,} bytes, and a step may have {max_bytes:,}: shorten it with a hook such as "
            "toolkit.middleware.Compaction, or give client and worker an ExternalStorage, or a larger max_bytes=."
        )
    return text


def make_call_state(state: RunState, call: ToolCall, waiting: PendingApproval | None, max_bytes: int) -> str:
    """Write a state with only one call, open or with the approval that it waits for.

    Raises:
        RunError: The state is larger than `max_bytes`.
    """
    own = state.replace(
        messages=(UserMessage(""), ModelResponse(calls=(call,))),
        phase="paused" if waiting else "calling",
        call_count=1,
        results=(),
        pending=(waiting,) if waiting else (),
    )
    return dump_state(own, max_bytes)


def load_limits(limits: Mapping[str, Any]) -> Limits:
    """Read limits that were sent as the dict of their fields."""
    prices = limits.get("prices")
    return Limits(**{**limits, "prices": Prices(**prices) if prices else None})
