"""What a Runner can be told besides toolbox, model and instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from typing_extensions import TypedDict

from toolkit._execution.approval import Approver, Verdict
from toolkit._execution.authorization import Authorizer
from toolkit._execution.ledger import Ledger
from toolkit._execution.parallel import Order
from toolkit._messages import Message
from toolkit._runner.control import Queue
from toolkit._runner.limits import Limits
from toolkit._runner.state import RunState
from toolkit._tools.shared_values import Values
from toolkit.middleware import Middleware

# Keys of a request that the Runner decides on, and those that are no part of its body.
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
CLIENT_OPTIONS = frozenset({"timeout", "max_retries", "extra_headers", "extra_query", "extra_body"})


class RunnerOptions(TypedDict, total=False):
    """What a Runner takes besides toolbox, model and instructions.

    Attributes:
        client: `openai.OpenAI` or `openai.AsyncOpenAI`; one is made where none is given.
        base_url: Address of an OpenAI-compatible server, such as "http://localhost:11434/v1".
        api_key: The key for that server; without `base_url` that of the environment is used.
        api: What the server is asked by: "chat" (Chat Completions, which all servers know) or "responses".
        dialect: How tools are shown: "chat" or "responses", by the API (native tool calls), "minimal" (the same for
            servers that know few keywords of JSON Schema) or "calls" (by a format for the whole answer).
        strict: Whether the server is asked to enforce the schemas of tools that do not say so themselves, where that is
            lossless; the toolbox's own setting, or else True, by default.
        request_options: Further keys of each request's body, such as `temperature`; what the client itself takes, such
            as `timeout`, is set on the client.
        tool_choice: "auto", "none", "required" or a tool's name; what forces a call does so in the first turn only.
        allowed_tools: Names of the tools that may be called. OpenAI and Azure are shown the others, too, which keeps
            their caches warm; a call of one is refused.
        limits: How far a run may go; `max_turns` is one of them.
        max_runs: How many runs of this runner may be under way at once; any number by default.
        authorize: May this call be made at all? Gets tool, arguments and context.
        approve: Does somebody agree? Gets an ApprovalRequest; see `toolkit.approvers` for policies.
        approval_timeout: Seconds that an approver or an authorizer may take; as long as it likes by default.
        ledger: Where the steps of calls are written down, so that none is carried out twice.
        checkpoint: Gets the state of a run before each of its steps, to be put away.
        hooks: Objects with any of `before_model`, `after_model`, `before_call`, `after_call`.
        middleware: Wraps the whole line of each call, the first one outermost.
        order: Which calls of one turn run together: "parallel", "sequential" or `batched(n)`.
        max_parallel: How many calls run at the same time, at most.
        early: Whether calls of tools whose effect is "read" begin while the answer is still arriving.
        raise_errors: Whether what a tool's function raises, and is no ToolError, leaves the run, once the calls beside
            it have ended; for development.
        max_result: Characters of one result that the model is shown; 100,000 by default.
        queue: How many messages of `steer` and of `follow_up` are read at a time: "one" or "all".
    """

    client: Any
    base_url: str
    api_key: str
    api: str
    dialect: str
    strict: bool
    request_options: Mapping[str, Any]
    tool_choice: str
    allowed_tools: Sequence[str]
    limits: Limits
    max_runs: int | None
    authorize: Authorizer
    approve: Approver
    approval_timeout: float
    ledger: Ledger
    checkpoint: Callable[[RunState], Any]
    hooks: Sequence[object]
    middleware: Sequence[Middleware]
    order: Order
    max_parallel: int
    early: bool
    raise_errors: bool
    max_result: int
    queue: Queue


def refuse_unknown(options: Mapping[str, Any]) -> None:
    """Make sure that a Runner is given nothing that it does not know.

    Raises:
        TypeError: It is.
    """
    unknown = sorted(options.keys() - RunnerOptions.__annotations__.keys())
    if unknown:
        known = ("toolbox", "model", "instructions", "max_turns", *RunnerOptions.__annotations__)
        raise TypeError(f"Runner has no option {unknown[0]!r}. It has: {', '.join(known)}.")


def refuse_unfit(options: Mapping[str, Any]) -> None:
    """Make sure that options are of their kind, and their numbers in bounds.

    Raises:
        TypeError: One is of another kind.
        ValueError: One is a number out of bounds.
    """
    for name, value in options.items():
        is_kind, is_in_bounds, wanted = _RULES.get(name, _ANY)
        if not is_kind(value):
            raise TypeError(f"{name}={value!r} is not {wanted}.")
        if not is_in_bounds(value):
            raise ValueError(f"{name}={value!r} is not {wanted}.")


def refuse_reserved(options: Mapping[str, Any]) -> None:
    """Make sure that a request's further keys are none of the Runner's own, or the client's.

    Raises:
        TypeError: One is.
    """
    ours, clients = options.keys() & RESERVED, options.keys() & CLIENT_OPTIONS
    if ours:
        raise TypeError(f"request_options may not have {sorted(ours)[0]!r}: the Runner sets it.")
    if clients:
        name = sorted(clients)[0]
        raise TypeError(f"{name!r} is no key of a request's body: set it on the client, client=OpenAI(...).")


def _may_lack(is_fit: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or is_fit(value)


def _is_ledger(value: object) -> bool:
    return all(callable(getattr(value, name, None)) for name in ("write", "read"))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _are_functions(value: object) -> bool:
    return isinstance(value, Sequence) and all(map(callable, value))


def _any(_: object) -> bool:
    return True


# Of an option: is it of its kind, is it in bounds, and what it has to be. The others are checked where they are used.
_Rule: TypeAlias = tuple[Callable[[Any], bool], Callable[[Any], bool], str]
_ANY: _Rule = (_any, _any, "")
_FUNCTION: _Rule = (_may_lack(callable), _any, "a function")
_TRUTH: _Rule = (lambda value: isinstance(value, bool), _any, "True or False")
_RULES: Mapping[str, _Rule] = {
    "limits": (lambda value: isinstance(value, Limits), _any, "Limits(...)"),
    "authorize": _FUNCTION,
    "approve": _FUNCTION,
    "approval_timeout": (_may_lack(_is_number), _may_lack(lambda value: value > 0), "a number of seconds above 0"),
    "ledger": (_is_ledger, _any, "a ledger, with write and read, such as MemoryLedger()"),
    "checkpoint": _FUNCTION,
    "middleware": (_are_functions, _any, "a list of functions"),
    "early": _TRUTH,
    "raise_errors": _TRUTH,
    "max_result": (_is_whole, lambda value: value > 0, "a whole number of characters, at least 1"),
}


Prompt: TypeAlias = str | RunState | None


History: TypeAlias = Iterable[Message | Mapping[str, Any]]


Decisions: TypeAlias = Mapping[str, Verdict]


NONE: Decisions = MappingProxyType({})


class RunOptions(TypedDict, total=False):
    """What a run is given besides the prompt and the type of its output; `run` says what each of it means."""

    messages: History
    deps: Any
    decisions: Decisions
    shared: Values


@dataclass(frozen=True)
class RunRequest:
    """What one run is asked to do, and how it is followed."""

    prompt: Prompt
    messages: History
    deps: Any
    output_type: Any
    decisions: Decisions
    shared: Values
    streams: bool = False
    in_background: bool = False
