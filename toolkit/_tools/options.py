"""Options of a tool: their types, defaults and checks.

To add an option: a key in `ToolOptions`, a field in `ToolSettings`, a rule in `_RULES`, and a line in the docstring of
`tool`. Tests compare them. A tool has the option of the function that is bound to it, unless `_NOT_INHERITED` has it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from typing_extensions import TypedDict

from toolkit._messages import Effect
from toolkit._options import MAX_SECONDS, is_number, is_whole, make_hints
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from toolkit._concurrency.threads import Semaphore

Isolation: TypeAlias = Literal["process"]
Trust: TypeAlias = Literal["foreign"]
# Rules about a call: functions of one value or of three. A method in the body of the tool's class has its `self`, too.
# With `Callable[..., Any]`, type checkers could not infer the parameters of a lambda.
ValueRule: TypeAlias = Callable[[Any], Any] | Callable[[Any, Any], Any]
CallRule: TypeAlias = Callable[[Any, Any, Any], Any] | Callable[[Any, Any, Any, Any], Any]
# Exceptions after which a call is tried again, or a function of an exception that returns whether it is.
RetryOn: TypeAlias = tuple[type[BaseException], ...] | ValueRule


@dataclass(frozen=True, kw_only=True)
class ToolSettings:
    """Options about the execution of a tool's calls. The docstring of `tool` says what each means.

    Raises:
        DefinitionError: Two settings contradict each other.
    """

    effect: Effect | None = None
    trust: Trust | None = None
    idempotent: bool | None = None
    exclusive: bool = False
    max_parallel: int | None = None
    timeout: float | None = None
    retries: int = 0
    retry_on: RetryOn = (Exception,)
    retry_delay: float = 0.5
    executor: Executor | None = None
    isolate: Isolation | None = None
    authorize: CallRule | None = None
    approve: bool | ValueRule = False
    undo: Callable[..., Any] | None = None
    max_result: int | None = None
    return_direct: bool = False
    namespace: str | None = None
    defer_loading: bool = False

    def __post_init__(self) -> None:
        if self.retries and not self.may_repeat:
            raise DefinitionError(
                f"retries={self.retries} may repeat the tool's effect: set idempotent=True or effect='read'."
            )
        if self.executor is not None and self.isolate is not None:
            raise DefinitionError("executor= and isolate= both set where the tool runs: give one of them.")
        _ = self.semaphore  # made now: two threads at their first calls would make two

    @cached_property
    def semaphore(self) -> Semaphore | None:
        """Limits the calls at the same time to `max_parallel`. Renamed and bound copies of a tool share it."""
        if not self.max_parallel:
            return None
        from toolkit._concurrency.threads import Semaphore  # slow to load, and few tools have one

        return Semaphore(self.max_parallel)

    @property
    def may_repeat(self) -> bool:
        """True if a call may be repeated."""
        return self.effect == "read" if self.idempotent is None else self.idempotent

    def bind(self, instance: Any) -> ToolSettings:
        """Bind the functions that are methods of the instance's class, as the tool itself is bound."""
        functions = {option: getattr(self, option) for option in ("authorize", "approve", "retry_on", "undo")}
        methods = {option: _bind_method(value, instance) for option, value in functions.items()}
        if all(methods[option] is value for option, value in functions.items()):
            return self
        return _with_semaphore(replace(self, **methods), self.semaphore)

    @cached_property
    def is_plain(self) -> bool:
        """True if a call needs no timeout, retry, place or slot."""
        options = (self.timeout, self.executor, self.isolate, self.max_parallel)
        return not self.retries and all(value is None for value in options)

    def inherit(self, inner: ToolSettings) -> ToolSettings:
        """Return these settings, completed by those of the tool whose function is used.

        The stricter gates and effects hold. If both tools have a rule about approval, each call needs approval. Place,
        time and retries are those of the inner tool where these settings leave them out.
        """
        if inner is DEFAULT_SETTINGS:
            return self

        excluded = set(_NOT_INHERITED)
        if self.executor is not None or self.isolate is not None:
            excluded.update(_PLACES)
        completed = {
            field.name: getattr(inner, field.name)
            for field in fields(self)
            if field.name not in excluded and getattr(self, field.name) == field.default
        }
        effect = max(self.effect, inner.effect, key=_EFFECTS.index)
        idempotent = False if inner.idempotent is False else self.idempotent
        may_repeat = effect == "read" if idempotent is None else idempotent
        joined = {
            **completed,
            "effect": effect,
            "trust": self.trust or inner.trust,
            "exclusive": self.exclusive or inner.exclusive,
            "approve": _join_approval(self.approve, inner.approve),
            "authorize": _join_authorizers(self.authorize, inner.authorize),
            "idempotent": idempotent,
            "retries": (self.retries or inner.retries) if may_repeat else 0,
        }
        return _with_semaphore(replace(self, **joined), self.semaphore or inner.semaphore)

    def tighten(self, given: Mapping[str, Any]) -> ToolSettings:
        """Return these settings with further options, for a tool that is made of the tool with these settings.

        Both authorizers have to allow a call. If both tools have a rule about approval, each call needs approval.

        Raises:
            DefinitionError: An option has a wrong value, or would loosen a gate or an effect.
        """
        self.refuse_loosening(given)
        gates = {}
        if "authorize" in given:
            gates["authorize"] = _join_authorizers(given["authorize"], self.authorize)
        if "approve" in given:
            gates["approve"] = _join_approval(given["approve"], self.approve)
        return replace(self, **{**given, **gates})

    def refuse_loosening(self, given: Mapping[str, Any]) -> None:
        """Refuse options that would loosen these settings.

        Raises:
            DefinitionError: One of the options would.
        """
        for name, is_looser in _IS_LOOSER.items():
            own = getattr(self, name)
            if name in given and is_looser(given[name], own):
                raise DefinitionError(
                    f"{name}={given[name]!r} would loosen {name}={own!r} of the tool that it is made of. Leave it out, "
                    "or make the tool of the plain function: inspect.unwrap(...) returns it."
                )

    @property
    def runs_alone(self) -> bool:
        """True if no other call runs at the same time."""
        return self.exclusive or self.effect in ("write", "destructive")


def _with_semaphore(settings: ToolSettings, semaphore: Semaphore | None) -> ToolSettings:
    """Return new settings after giving them the semaphore of the tool that they are a copy of."""
    vars(settings)["semaphore"] = semaphore
    return settings


def _bind_method(value: Any, instance: Any) -> Any:
    """Return an instance's method in place of a function from the body of its class or of a base class."""
    if isinstance(value, _BothAuthorizers):
        return replace(value, outer=_bind_method(value.outer, instance), inner=_bind_method(value.inner, instance))
    if not hasattr(type(value), "__get__"):  # a function, a class or static method, a tool
        return value
    owner = instance if isinstance(instance, type) else type(instance)
    names = (name for kind in owner.__mro__ for name, member in vars(kind).items() if member is value)
    name = next(names, None)
    return value if name is None else getattr(instance, name)


# Options about what a model is offered, which are those of the declaration; all others say how a call is executed.
_NOT_INHERITED = frozenset({"return_direct", "namespace", "defer_loading"})
_PLACES = ("executor", "isolate")
# Effects, from the least to the most strict.
_EFFECTS: Sequence[Effect | None] = ("read", None, "write", "destructive")


# Checks that a value of an option loosens the tool's own value.
_IS_LOOSER: Mapping[str, Callable[[Any, Any], bool]] = {
    "approve": lambda new, own: new is False and own is not False,
    "effect": lambda new, own: new in _EFFECTS and own is not None and _EFFECTS.index(new) < _EFFECTS.index(own),
    "exclusive": lambda new, own: new is False and own,
    "idempotent": lambda new, own: new is True and own is False,
}


def _join_approval(outer: Any, inner: Any) -> Any:
    """Return the stricter of two settings. Two functions cannot be compared, so with both, each call needs approval."""
    if inner is False or inner == outer:
        return outer
    return inner if outer is False else True


def _join_authorizers(outer: Callable[..., Any] | None, inner: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return a function that allows a call if both do."""
    if outer is None or inner is None or outer == inner:
        return inner if outer is None else outer
    return _BothAuthorizers(outer, inner)


@dataclass(frozen=True)
class _BothAuthorizers:
    outer: Callable[..., Any]
    inner: Callable[..., Any]

    def __call__(self, *questions: Any) -> Any:
        verdict = self.outer(*questions)
        if isawaitable(verdict):
            return self._check_later(verdict, questions)
        return self.inner(*questions) if verdict is True else verdict

    async def _check_later(self, promise: Awaitable[Any], questions: tuple[Any, ...]) -> Any:
        verdict = await promise
        if verdict is True:
            verdict = self.inner(*questions)
        return await verdict if isawaitable(verdict) else verdict


def _is_time(value: object) -> bool:
    return is_number(value) and 0 < value <= MAX_SECONDS


def _is_size(value: object) -> bool:
    return is_whole(value, 1)


def is_name(value: object) -> bool:
    """Return whether a value is a name that OpenAI and Anthropic accept. They refuse a request with any other name."""
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value) is not None


def _are_exceptions(value: object) -> bool:
    return isinstance(value, (tuple, list)) and all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in value
    )


def _is_retry_rule(value: object) -> bool:
    if isinstance(value, tuple):
        return _are_exceptions(value)
    if isinstance(value, type) or not _is_gate(value):
        return False
    from toolkit._concurrency.backend import is_async  # slow to load, and few tools have such a function

    return not is_async(getattr(value, "__func__", value))  # type: ignore[arg-type]  # it is a function


def _is_gate(value: object) -> bool:
    return callable(value) or isinstance(value, classmethod)  # which is callable once it is bound


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


_FLAGS = ("strict", "idempotent", "exclusive", "return_direct", "defer_loading", "latent", "reasoning")
# The check of an option's value, and a description of the valid ones.
_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(_FLAGS, (_is_bool, "True or False")),
    **dict.fromkeys(("timeout", "retry_delay"), (_is_time, f"a number of seconds above 0, at most {MAX_SECONDS:,.0f}")),
    "relay": (_are_exceptions, "a tuple of exception classes, such as relay=(KeyError,)"),
    "effect": (lambda value: value in get_args(Effect), "'read', 'write' or 'destructive'"),
    "trust": (lambda value: value == "foreign", "'foreign'"),
    "retries": (lambda value: is_whole(value, 0), "a whole number of at least 0"),
    "retry_on": (
        _is_retry_rule,
        "a tuple of exception classes, such as retry_on=(OSError,), or a function of an exception, which is not async",
    ),
    "executor": (lambda value: hasattr(value, "submit"), "an executor, with a method submit()"),
    "isolate": (lambda value: value == "process", "'process'"),
    "authorize": (_is_gate, "a function of tool, arguments and context"),
    "approve": (
        lambda value: _is_bool(value) or (_is_gate(value) and not isinstance(value, type)),
        "True, False or a function of an ApprovalRequest, such as Console()",
    ),
    "undo": (_is_gate, "a function, or a tool, that undoes a call"),
    "max_parallel": (_is_size, "a whole number of at least 1"),
    "max_result": (_is_size, "a whole number of at least 1"),
    "activity": (lambda value: isinstance(value, str), "the name of a function that executes the tool"),
    "namespace": (is_name, "a name of 1 to 64 letters, digits, '_' or '-'"),
}

# The settings of a tool without options; shared, so that decorating creates none.
DEFAULT_SETTINGS = ToolSettings()


# Options that are not fields of a tool.
_DERIVED = frozenset({"latent", "reasoning", "module", "imports"})
# Those about meta keys: what a model writes in addition to the arguments.
_META_OPTIONS = frozenset({"reasoning", "module", "imports", "_scope"})


class ToolOptions(TypedDict, total=False):
    """Options of `@tool` besides name, title and description. Its docstring says what each of them means."""

    relay: tuple[type[BaseException], ...]
    strict: bool | None
    effect: Effect | None
    trust: Trust | None
    idempotent: bool | None
    exclusive: bool
    max_parallel: int | None
    timeout: float | None
    retries: int
    retry_on: RetryOn
    retry_delay: float
    executor: Executor | None
    isolate: Isolation | None
    authorize: CallRule | None
    approve: bool | ValueRule
    undo: Callable[..., Any] | None
    max_result: int | None
    return_direct: bool
    activity: str | None
    latent: bool
    reasoning: bool
    module: str | None
    imports: Sequence[str] | Mapping[str, Any] | None
    namespace: str | None
    defer_loading: bool


# Defaults of the options, but for None. A tool made from a tool keeps its value of an option that is not given.
DEFAULTS: Mapping[str, Any] = {
    "relay": (),
    "latent": False,
    "reasoning": False,
    **{field.name: field.default for field in fields(ToolSettings)},
}

# Hints for options that other libraries have.
HINTS: Mapping[str, str] = make_hints(
    ("desc doc description_override", "Write description=..."),
    ("name_override tool_name", "Write name=..."),
    ("retry max_retries", "Write retries=..."),
    ("label display_name", "Write title=..."),
    (
        "approval confirm needs_approval requires_approval requires_confirmation",
        "Write approve=True, or approve= a function of an ApprovalRequest.",
    ),
    (
        "args_schema infer_schema input_schema inputs model parameters params_json_schema schema",
        "Signature and docstring are the schema; Tool.from_schema() takes one written by hand.",
    ),
    (
        "include_return_schema output_json_schema output_schema output_type",
        "The return annotation is the schema of the result.",
    ),
    ("context exclude_args takes_ctx takes_context", "Annotate a parameter with ToolContext."),
    ("parallel sequential", "Write exclusive=True, if its calls must run alone."),
    ("stop_after_tool_call result_as_answer", "Write return_direct=True."),
    (
        "annotations destructive destructiveHint readonly read_only readOnlyHint",
        "Write effect='read', 'write' or 'destructive'.",
    ),
    (
        "failure_error_function handle_tool_error on_error raises",
        "Raise ToolError with a text for the model, or list exceptions in relay=(...).",
    ),
    ("enabled is_enabled prepare", "Toolbox.filtered() leaves tools out, as does allowed_tools= of a run."),
    (
        "args_validator guardrails tool_input_guardrails validator",
        "Write authorize= a function of tool, arguments and context, or a validator into the type of a parameter.",
    ),
    ("tool_output_guardrails", "Write a hook with after_call: Runner(..., hooks=[...])."),
    ("call_limit max_calls max_usage_count usage_limit", "Write limits=Limits(max_calls_per_tool={...}) of a Runner."),
    (
        "custom_data_extractor meta metadata response_format",
        "ToolResult(..., details=...) has what your program reads beside a result.",
    ),
    ("examples input_examples", "Write them into the docstring, below a line `Examples:`."),
    (
        "docstring_format docstring_style parse_docstring require_parameter_descriptions use_docstring_info",
        "Docstrings are parsed. Toolbox.check() reports gaps.",
    ),
    ("strict_docs", "Toolbox.check() reports gaps."),
    ("coroutine fn func", "Write tool(function), or function=..."),
    ("tags", "Write namespace=..., the group of the tool."),
    ("strict_json_schema strict_mode", "Write strict=..."),
    ("compensate compensation rollback", "Write undo= a function that undoes a call."),
    (
        "handle_validation_error timeout_error_function",
        "Write Runner(..., format_error=...): a function of a result that is an error.",
    ),
    ("allowed_callers cache_control extras", "In your own loop, add keys of a provider to box.schemas(...)."),
    ("cache cache_results", "Runner(..., middleware=[toolkit.middleware.cache(...)]) keeps results."),
)


def split_options(given: Mapping[str, Any], owner: str, settings: ToolSettings) -> Mapping[str, Any]:
    """Turn options into the fields of a Tool, among them its settings; None counts as not given.

    Raises:
        DefinitionError: An option has a wrong value; the message begins with the owner's name.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        return {"settings": settings}

    chosen = {name: value for name, value in given.items() if name in ToolSettings.__dataclass_fields__}
    meta: Mapping[str, Any] = {}
    try:
        _check_values(given)
        if not _META_OPTIONS.isdisjoint(given):
            from toolkit._tools.shared_values import make_meta_fields  # slow to load, and few tools have any

            meta = make_meta_fields(given)
        if chosen:
            settings = settings.tighten(chosen)
    except DefinitionError as error:
        raise DefinitionError(f"{owner}: {error}") from None

    own = {name: value for name, value in given.items() if name not in chosen and name not in _DERIVED}
    return {"settings": settings, **own, **({"activity": ""} if given.get("latent") else {}), **meta}


def _check_values(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name in _RULES:
            is_valid, description = _RULES[name]
            if not is_valid(value):
                raise DefinitionError(f"{name}={value!r:.100} is not {description}.")
    if given.get("latent") and given.get("activity"):
        raise DefinitionError(
            f"latent=True leaves the tool to the model, and activity={given['activity']!r} does not. Drop one."
        )
