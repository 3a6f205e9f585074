"""Options of a Runner, the settings of its runs, and the request that a run is made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isclass
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
from toolkit._options import find_misfit, is_number, is_whole, make_hints
from toolkit._runner.control import QueueMode
from toolkit._runner.hints import RUN_HINTS, RUNNER_HINTS
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
        "tool_choice",
        "tools",
    }
)
# When a run looks at its toolbox: once, or before each turn.
Refresh: TypeAlias = Literal["run", "iteration"]


class RunnerOptions(TypedDict, total=False):
    """Options of a Runner besides toolbox, model and instructions. Its docstring says what each means."""

    max_turns: int | None
    name: str | None
    description: str | None
    client: Any
    base_url: str | None
    api_key: str | None
    api: API | None
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

# Hints for options of a run that belong to the Runner, or that other libraries have.
ALL_RUN_HINTS: Mapping[str, str] = {
    **RUNNER_HINTS,
    **{
        name: f"It is an option of the Runner: Runner(..., {name}=...)."
        for name in ("model", "instructions", *RunnerOptions.__annotations__)
    },
    **RUN_HINTS,
}
MAP_HINTS: Mapping[str, str] = {
    **ALL_RUN_HINTS,
    **make_hints(
        ("concurrency max_concurrency max_workers", "Write max_parallel=..."),
        ("return_exceptions", "Leave it out: the exception of a run that failed is in the list."),
    ),
}


def get_given_options(options: RunnerOptions) -> RunnerOptions:
    """Return the options without those that are None by default and are given as None."""
    given = {name: value for name, value in options.items() if value is not None or name in DEFAULTS}
    return cast("RunnerOptions", given)


def check_values(options: Mapping[str, Any]) -> None:
    """Check the types and ranges of options.

    Raises:
        TypeError: An option has another type.
        ValueError: A number is out of range.
    """
    for name, value in options.items():
        if name not in _RULES:
            continue
        rule = _RULES[name]
        shown = "..." if name == "api_key" else f"{value!r:.100}"
        if not rule.is_type(value):
            raise TypeError(f"{name}={shown} is not {rule.wanted}.")
        if not rule.is_in_range(value):
            raise ValueError(f"{name}={shown} is not {rule.wanted}.")


def reject_reserved_keys(options: Mapping[str, Any]) -> None:
    """Reject keys of a request that the Runner or the client sets.

    Raises:
        TypeError: There is such a key.
    """
    if ours := options.keys() & RESERVED:
        raise TypeError(f"request_options may not have {min(ours)!r}: the Runner sets it.")
    if clients := options.keys() & CLIENT_OPTIONS:
        raise TypeError(f"{min(clients)!r} is not a key of a request's body: {CLIENT_REMEDY}")


def _optional(is_fit: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or is_fit(value)


def _is_function(value: object) -> bool:
    return callable(value) and not isclass(value)  # `Console` instead of `Console()`


def _takes(count: int) -> Callable[[Any], bool]:
    """Return a check that a value is a function of so many arguments."""
    return _optional(lambda value: _is_function(value) and not find_misfit(value, *range(count)))


class _Rule(NamedTuple):
    """The rule for an option: a description of its values, and checks of their type and range."""

    wanted: str
    is_type: Callable[[Any], bool] = lambda _: True
    is_in_range: Callable[[Any], bool] = lambda _: True


_TRUTH = _Rule("True or False", lambda value: isinstance(value, bool))
_ANY_TEXT = _Rule("text", _optional(lambda value: isinstance(value, str)))
_TEXT = _ANY_TEXT._replace(wanted="text of at least one character", is_in_range=_optional(bool))
# Options that are not here are checked where they are used.
_RULES: Mapping[str, _Rule] = {
    "name": _TEXT,
    "description": _TEXT,
    "instructions": _ANY_TEXT._replace(wanted="text; a hook with before_model may add one to each request"),
    "api_key": _ANY_TEXT,
    "tool_choice": _ANY_TEXT._replace(wanted="text: 'auto', 'none', 'required' or a tool's name"),
    "allowed_tools": _Rule(
        "a list of names of tools",
        lambda value: isinstance(value, Collection) and not isinstance(value, str),
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
        "a list of functions of (call, call_next): write middleware=[...]. Pass an object with methods such as "
        "before_model as hooks=[...]",
        lambda value: isinstance(value, Sequence) and all(map(_is_function, value)),
    ),
    "hooks": _Rule("a list of hooks: write hooks=[...]", lambda value: isinstance(value, Sequence)),
    "early": _TRUTH,
    "max_runs": _Rule("a whole number of at least 1", is_in_range=lambda value: is_whole(value, 1)),
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
    "max_parallel": _Rule("a whole number of at least 1", is_in_range=lambda value: is_whole(value, 1)),
    "max_result": _Rule("a whole number of at least 1", is_whole, lambda value: value > 0),
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
