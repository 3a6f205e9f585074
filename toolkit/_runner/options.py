"""Options of a Runner, and the request that a run is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isclass, signature
from os import PathLike
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from typing_extensions import TypedDict

from toolkit._dialects.catalog import API, RunDialectName
from toolkit._execution.approval import Approver, Authorizer, Verdict
from toolkit._execution.dispatcher import Middleware
from toolkit._execution.ledger import Ledger
from toolkit._execution.parallel import MAX_PARALLEL, Batched, Order
from toolkit._execution.truncation import MAX_RESULT
from toolkit._messages import Message, ToolResult
from toolkit._options import is_number, is_whole
from toolkit._runner.control import QueueMode
from toolkit._runner.hooks import Hooks
from toolkit._runner.limits import ANY_SECONDS, MAX_TURNS, Limits
from toolkit._runner.prompt import UserInput
from toolkit._runner.session import Session
from toolkit._runner.state import RunState
from toolkit._tools.shared_values import Values
from toolkit._tools.tool import Tool
from toolkit.models import Model
from toolkit.models.client import CLIENT_OPTIONS, CLIENT_REMEDY
from toolkit.models.default import ModelChoice

# Keys of a request that the Runner decides on.
RESERVED = frozenset(
    {
        "background",
        "conversation",
        "input",
        "messages",
        "model",
        "previous_response_id",
        "response_format",
        "stream",
        "stream_options",
        "tool_choice",
        "tools",
    }
)
# When a run looks at its toolbox: once, or before each turn.
Refresh: TypeAlias = Literal["run", "iteration"]


class RunnerOptions(TypedDict, total=False):
    """Options of a Runner besides toolbox, model and instructions; its docstring says what each means."""

    max_turns: int | None
    name: str | None
    description: str | None
    client: Any
    base_url: str | None
    api_key: str | None
    api: API
    dialect: RunDialectName | None
    strict: bool | None
    request_options: Mapping[str, Any] | None
    tool_choice: str | None
    allowed_tools: Sequence[str] | None
    limits: Limits | None
    max_runs: int | None
    authorize: Authorizer | None
    approve: Approver | None
    approval_timeout: float | None
    ledger: Ledger | None
    checkpoint: Callable[[RunState], Any] | None
    hooks: Sequence[object]
    middleware: Sequence[Middleware]
    order: Order
    max_parallel: int
    early: bool
    refresh: Refresh
    undo_on_failure: bool
    format_error: Callable[[ToolResult], str] | None
    raise_errors: bool
    max_result: int
    queue: QueueMode


@dataclass(frozen=True, kw_only=True)
class RunnerSettings:
    """What all runs of a runner have in common.

    Attributes:
        name: The runner's name; empty without one.
        model_choice: Chooses the model when a run starts.
        limits: The limits of each run.
        hooks: The hooks, and the middleware.
        order: Which calls of a turn run at the same time.
        max_parallel: The most calls at the same time.
        early: Whether calls may start before the response is complete.
        raise_errors: Whether an exception of a tool ends the run.
        checkpoint: Called with the state before each step, and at the end.
    """

    name: str
    model_choice: ModelChoice
    limits: Limits
    hooks: Hooks
    order: Order
    max_parallel: int
    early: bool
    raise_errors: bool
    checkpoint: Callable[[RunState], Any] | None


# Defaults of a Runner's options, but for None.
DEFAULTS: Mapping[str, Any] = {
    "api": "chat",
    "max_turns": MAX_TURNS,
    "hooks": (),
    "middleware": (),
    "order": "parallel",
    "max_parallel": MAX_PARALLEL,
    "early": False,
    "refresh": "run",
    "undo_on_failure": False,
    "raise_errors": False,
    "max_result": MAX_RESULT,
    "queue": "one",
}

_LISTS = ("allowed_tools", "hooks", "middleware", "messages")

# Hints for options that other libraries have.
HINTS: Mapping[str, str] = {
    **dict.fromkeys(("system", "system_prompt", "system_message", "prompt"), "Write Runner(..., instructions=...)."),
    **dict.fromkeys(("output_type", "response_format", "response_model"), "Write runner.run(..., output_type=...)."),
    **dict.fromkeys(
        ("output_schema", "result_type", "structured_output_model"), "Write runner.run(..., output_type=...)."
    ),
    **{
        name: f"It belongs to one run: runner.run(prompt, {name}=...)."
        for name in ("messages", "deps", "session", "shared")
    },
    **dict.fromkeys(("tools", "functions", "toolsets"), "Tools are the first argument: Runner([...])."),
    "mcp_servers": "A server is one of the tools: Runner([MCP(...)]), from toolkit.sources.mcp import MCP.",
    **dict.fromkeys(
        ("handoffs", "managed_agents"),
        "A runner is a tool of another one: Runner([other]), or other.as_tool(..., handoff=True).",
    ),
    **dict.fromkeys(("llm", "model_name"), "Write Runner(..., model=...)."),
    "provider": "Write base_url= and model=, or client=.",
    **dict.fromkeys(
        ("chain_limit", "max_iterations", "max_steps", "recursion_limit"),
        "Write Runner(..., max_turns=...), or limits=Limits(...).",
    ),
    **dict.fromkeys(("max_tool_calls", "tool_call_limit"), "Write limits=Limits(max_calls=...)."),
    "usage_limits": "Write limits=Limits(...).",
    "output_retries": "Write limits=Limits(max_output_retries=...).",
    "retries": "@tool(retries=...) repeats a call, and limits=Limits(max_output_retries=...) asks for another answer.",
    **dict.fromkeys(("timeout", "max_time"), "limits=Limits(...) has the time of a run and of a turn."),
    "tool_timeout": "Write @tool(timeout=...), or Toolbox([...], defaults={'timeout': ...}).",
    **dict.fromkeys(("stream", "streaming", "verbose"), "runner.stream(prompt) gives the events of a run."),
    **dict.fromkeys(
        ("callback_handler", "callbacks", "event_stream_handler"),
        "runner.stream(prompt) gives the events of a run, and on_event of a hook gets them.",
    ),
    **dict.fromkeys(("instrument", "tracing"), "Write middleware=[Telemetry()] of toolkit.middleware."),
    **dict.fromkeys(
        ("deps_type", "context_schema"),
        "Annotate a parameter of a tool: context: ToolContext[Deps], and pass deps= to a run.",
    ),
    **dict.fromkeys(
        ("guardrails", "input_guardrails", "output_guardrails"),
        "Write hooks=[...]: before_model checks the prompt, after_model the answer, and raise Halt(...) ends the run.",
    ),
    **dict.fromkeys(
        ("after_call", "after_tool_call", "before_call", "before_tool_call", "plugins"),
        "Write hooks=[...]: objects with before_call or after_call.",
    ),
    **dict.fromkeys(
        ("interrupt_before", "interrupt_on", "needs_approval", "on_tool_request"),
        "Write Runner(..., approve=...), such as Console() of toolkit.approvers. A tool has @tool(approve=True).",
    ),
    **dict.fromkeys(
        ("conversation_manager", "history_processors"), "Write hooks=[Compaction(...)] of toolkit.middleware."
    ),
    **dict.fromkeys(
        ("is_enabled", "prepare_tools"),
        "Leave tools out by allowed_tools=[...] of a run, or in before_model of a hook.",
    ),
    **dict.fromkeys(
        ("checkpointer", "memory", "session_id", "session_manager", "thread_id"),
        "A conversation is a session: runner.run(prompt, session=SQLiteSession('chats.db', 'name')).",
    ),
    "tool_use_behavior": "Write @tool(return_direct=True): the result is the answer.",
    "reset_tool_choice": "A forced tool_choice applies to the first turn only.",
    "output_validators": "Write a validator into the type: output_type=Annotated[T, AfterValidator(f)] of a run.",
    **dict.fromkeys(
        ("additional_authorized_imports", "executor_type"),
        "Write Runner([code_tool([...])]), from toolkit.builtin import code_tool.",
    ),
    "cache": "Write middleware=[cache(...)] of toolkit.middleware.",
    **dict.fromkeys(("model_settings", "settings"), "Write request_options={...}."),
    "max_tokens": "limits=Limits(max_tokens=...) bounds a run, and one answer request_options={'max_tokens': ...}.",
    "max_retries": "Set it on the client: client=OpenAI(max_retries=...).",
    **{
        name: f"It is a key of the request: request_options={{{name!r}: ...}}."
        for name in (
            "temperature",
            "top_p",
            "max_completion_tokens",
            "max_output_tokens",
            "seed",
            "stop",
            "frequency_penalty",
            "presence_penalty",
            "reasoning",
            "reasoning_effort",
            "parallel_tool_calls",
        )
    },
}

# Hints for options of a run that belong to the Runner, or that other libraries have.
RUN_HINTS: Mapping[str, str] = {
    **HINTS,
    **{
        name: f"It is an option of the Runner: Runner(..., {name}=...)."
        for name in ("model", "instructions", *RunnerOptions.__annotations__)
    },
    **dict.fromkeys(("output_type", "response_format", "response_model", "result_type"), "Write output_type=..."),
    **dict.fromkeys(("output_schema", "schema", "structured_output_model"), "Write output_type=..."),
    **dict.fromkeys(("history", "message_history", "chat_history"), "Write messages=..."),
    **dict.fromkeys(("context", "dependencies", "invocation_state"), "Write deps=..."),
    **dict.fromkeys(("input", "message", "query", "user_prompt"), "The prompt is the first argument."),
    **dict.fromkeys(
        ("attachments", "files", "images"), "They are parts of the prompt: runner.run([text, image, path])."
    ),
    **dict.fromkeys(("tools", "functions", "toolsets"), "Tools are the first argument of the Runner: Runner([...])."),
    **dict.fromkeys(
        ("config", "conversation_id", "previous_response_id", "session_id", "thread_id"), "Write session=..."
    ),
    **dict.fromkeys(("deferred_tool_results", "resume"), "Write runner.resume(result.state, {call_id: True})."),
    **dict.fromkeys(
        ("cancel_signal", "cancellation_token"), "Write handle = runner.start(prompt), and handle.cancel()."
    ),
}


def get_given_options(options: RunnerOptions) -> RunnerOptions:
    """Return the options without those that are None by default and are given as None."""
    given = {name: value for name, value in options.items() if value is not None or name in DEFAULTS}
    return cast("RunnerOptions", read_iterators(given))


def read_iterators(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options whose iterators are tuples: more than one run reads them."""
    return {
        name: tuple(value) if name in _LISTS and isinstance(value, Iterator) else value
        for name, value in options.items()
    }


def check_values(options: Mapping[str, Any]) -> None:
    """Check the types and ranges of options.

    Raises:
        TypeError: An option has another type.
        ValueError: A number is out of range.
    """
    for name, value in options.items():
        rule = _RULES.get(name, _NO_RULE)
        if not rule.is_type(value):
            raise TypeError(f"{name}={value!r} is not {rule.wanted}.")
        if not rule.is_in_range(value):
            raise ValueError(f"{name}={value!r} is not {rule.wanted}.")


def reject_reserved_keys(options: Mapping[str, Any]) -> None:
    """Reject keys of a request that the Runner or the client sets.

    Raises:
        TypeError: There is one.
    """
    ours, clients = options.keys() & RESERVED, options.keys() & CLIENT_OPTIONS
    if ours:
        raise TypeError(f"request_options may not have {sorted(ours)[0]!r}: the Runner sets it.")
    if clients:
        name = sorted(clients)[0]
        raise TypeError(f"{name!r} is not a key of a request's body: {CLIENT_REMEDY}")


def _optional(is_fit: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or is_fit(value)


def _is_function(value: object) -> bool:
    return callable(value) and not isclass(value)  # `Console` instead of `Console()`


def _takes(count: int) -> Callable[[Any], bool]:
    """Return a check that a value is a function of so many arguments."""

    def is_fit(value: object) -> bool:
        if not _is_function(value):
            return False
        try:
            signature(cast("Callable[..., Any]", value)).bind(*range(count))
        except TypeError:
            return False
        except ValueError:  # a built-in one without a signature
            pass
        return True

    return _optional(is_fit)


class _Rule(NamedTuple):
    """The rule for an option: a description of its values, and checks of their type and range."""

    wanted: str
    is_type: Callable[[Any], bool] = lambda _: True
    is_in_range: Callable[[Any], bool] = lambda _: True


_NO_RULE = _Rule("")
_TRUTH = _Rule("True or False", lambda value: isinstance(value, bool))
_ANY_TEXT = _Rule("a text", _optional(lambda value: isinstance(value, str)))
_TEXT = _ANY_TEXT._replace(wanted="a text that is not empty", is_in_range=_optional(bool))
# Options that are not here are checked where they are used.
_RULES: Mapping[str, _Rule] = {
    "name": _TEXT,
    "description": _TEXT,
    "instructions": _ANY_TEXT,
    "api_key": _ANY_TEXT,
    "tool_choice": _ANY_TEXT._replace(wanted="a text: 'auto', 'none', 'required' or a tool's name"),
    "allowed_tools": _Rule(
        "a list of names of tools",
        lambda value: isinstance(value, Iterable) and not isinstance(value, str),
    ),
    "limits": _Rule("Limits(...)", lambda value: isinstance(value, Limits)),
    "strict": _TRUTH,
    "request_options": _Rule("a dict of keys of the request", lambda value: isinstance(value, Mapping)),
    "authorize": _Rule("a function of tool, arguments and context", _takes(3)),
    "approve": _Rule(
        "a function of an ApprovalRequest, such as Console() or approve_all of toolkit.approvers",
        _takes(1),
    ),
    "approval_timeout": _Rule(
        "a number of seconds above 0, and at most 31 days",
        _optional(is_number),
        _optional(lambda value: 0 < value <= ANY_SECONDS),
    ),
    "ledger": _Rule(
        "a ledger, with write and read, such as MemoryLedger()",
        lambda value: all(callable(getattr(value, name, None)) for name in ("write", "read")),
    ),
    "checkpoint": _Rule("a function of a RunState, such as SQLiteRuns('runs.db')", _takes(1)),
    "middleware": _Rule(
        "a list of functions of (call, call_next): write middleware=[...]. An object with methods such as before_model "
        "goes in as hooks=[...]",
        lambda value: isinstance(value, Sequence) and all(map(_is_function, value)),
    ),
    "hooks": _Rule("a list of hooks: write hooks=[...]", lambda value: isinstance(value, Iterable)),
    "early": _TRUTH,
    "max_runs": _Rule("a whole number of runs, at least 1", is_in_range=lambda value: is_whole(value, 1)),
    "order": _Rule(
        "'parallel', 'sequential' or batched(n)",
        is_in_range=lambda value: isinstance(value, Batched) or value in ("parallel", "sequential"),
    ),
    "queue": _Rule("'one' or 'all'", is_in_range=lambda value: value in get_args(QueueMode)),
    "refresh": _Rule(
        "'run' or 'iteration'", lambda value: isinstance(value, str), lambda value: value in get_args(Refresh)
    ),
    "undo_on_failure": _TRUTH,
    "format_error": _Rule("a function of a ToolResult", _takes(1)),
    "raise_errors": _TRUTH,
    "max_parallel": _Rule("a whole number of calls, at least 1", is_in_range=lambda value: is_whole(value, 1)),
    "max_result": _Rule("a whole number of characters, at least 1", is_whole, lambda value: value > 0),
}


Prompt: TypeAlias = UserInput | RunState | None
History: TypeAlias = Iterable[Message | Mapping[str, Any]]
Decisions: TypeAlias = Mapping[str, Verdict]
NO_DECISIONS: Decisions = MappingProxyType({})


class ResumeOptions(TypedDict, total=False):
    """Options of a run that its state does not hold; `Runner.run` says what each means."""

    deps: Any
    shared: Values
    session: Session | None


class RunOptions(ResumeOptions, total=False):
    """Options of a run besides the prompt and the type of its output; `Runner.run` says what each means."""

    messages: History
    decisions: Decisions
    allowed_tools: Sequence[str] | None


# Defaults of a run's options, but for None.
RUN_DEFAULTS: Mapping[str, Any] = {"messages": (), "decisions": NO_DECISIONS}


class MapOptions(TypedDict, total=False):
    """Options of many runs; `Runner.map` and `Runner.run` say what each means."""

    max_parallel: int
    rpm: int | None
    tpm: int | None
    save: str | PathLike[str] | None
    progress: bool
    deps: Any
    shared: Values
    messages: History
    decisions: Decisions
    allowed_tools: Sequence[str] | None


# Defaults of the options of many runs, but for None.
MAP_DEFAULTS: Mapping[str, Any] = {**RUN_DEFAULTS, "max_parallel": 8, "progress": False}


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The task of one run, and the way in which it is followed.

    Attributes:
        tools: Tools that the run has besides those of its runner.
        streams: Whether its events are consumed.
        in_background: Whether it may abandon a model or a call that it waits for.
        limit_rate: Makes the model of the run keep a rate; the model as it is by default.
        spent: Seconds of the run's time that earlier steps have taken.
    """

    prompt: Prompt
    output_type: Any
    messages: History = ()
    session: Session | None = None
    deps: Any = None
    decisions: Decisions = field(default_factory=dict)
    shared: Values = None
    allowed_tools: Sequence[str] | None = None
    tools: Sequence[Tool[..., Any]] = ()
    streams: bool = False
    in_background: bool = False
    limit_rate: Callable[[Model], Model] | None = None
    spent: float = 0.0
