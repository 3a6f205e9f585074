"""What a call may see of the run that makes it: all of it, or no more than its `_imports` say, and in a module.

How a tool is to be carried out: its effect, its time, its tries, its place, its gates.

What a tool may be told besides its name and its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from typing_extensions import TypedDict

from toolkit._concurrency.threads import Semaphore
from toolkit._context import ToolContext
from toolkit._messages import IMPORTS, MODULE, REASONING
from toolkit._schema.error_messages import suggest
from toolkit._tools.shared_values import SharedValues, parse_path
from toolkit.errors import DefinitionError, Failed, InvalidArguments

if TYPE_CHECKING:
    from concurrent.futures import Executor

ASKED = "Names of the values that this call may see."


@dataclass(frozen=True)
class Scope:
    """What the calls of a tool may see.

    Attributes:
        module: The module that they are carried out in, apart from the run; empty where they are not.
        imports: Paths of the shared values that may be seen; None where nothing is said: all, and in a module none.
        shown: JSON Schema of the names that the model asks for; None where it is given all of `imports`.
    """

    module: str = ""
    imports: tuple[str, ...] | None = None
    shown: Mapping[str, Any] | None = None

    @property
    def about(self) -> Mapping[str, Any]:
        """What the model is to say of a call: schemas by key."""
        return {} if self.shown is None else {IMPORTS: self.shown}

    def entered(self, context: ToolContext[Any], asked: Collection[str]) -> ToolContext[Any]:
        """Make the context of a call: with no other shared values than its imports and, in a module, without `deps`.

        Args:
            context: Of the run.
            asked: What the model asked for.

        Raises:
            InvalidArguments: It asked for what may not be seen.
            Failed: An import is not there.
        """
        inner = replace(context, deps=None) if self.module else context
        if self.imports is None and not self.module:
            return inner
        return replace(inner, shared=SharedValues(_found(context.shared, self._names(asked))).view())

    def _names(self, asked: Collection[str]) -> Collection[str]:
        allowed = self.imports or ()
        if self.shown is None:
            return allowed
        unknown = next((name for name in asked if name not in allowed), None)
        if unknown is not None:
            raise InvalidArguments(f"{IMPORTS}: {unknown[:100]!r} is none of {', '.join(allowed)}.")
        return asked


def scope_of(module: Any, imports: Any) -> Scope | None:
    """Read what a declaration says of a scope; None where that is nothing.

    Args:
        module: A name, as text or as a constant.
        imports: Paths, as a list or as a constant; or a JSON Schema of an array, whose items are one of a few.

    Raises:
        DefinitionError: It is something else.
    """
    scope = Scope(_module(module), *_imports(imports))
    return None if scope == Scope() else scope


def _module(said: Any) -> str:
    name = said.get("const") if isinstance(said, Mapping) else "" if said is None else said
    if not isinstance(name, str):
        raise DefinitionError(f'{MODULE} is {said!r}. It is the name of a module, {{"const": "name"}}.')
    return name


def _imports(said: Any) -> tuple[tuple[str, ...] | None, Mapping[str, Any] | None]:
    if said is None:
        return None, None
    if not isinstance(said, Mapping) or "const" in said:
        return _paths(said, said["const"] if isinstance(said, Mapping) else said), None
    items = said.get("items")
    names = _paths(said, items.get("enum") if isinstance(items, Mapping) else None)
    return names, {"description": ASKED, **said, "type": "array", "items": {"type": "string", "enum": [*names]}}


def _paths(said: Any, names: Any) -> tuple[str, ...]:
    try:
        if isinstance(names, (list, tuple)) and all(parse_path(name) for name in names):
            return tuple(names)
    except (ValueError, AttributeError):
        pass
    raise DefinitionError(
        f'{IMPORTS} is {said!r}. It is a list of shared values, {{"const": ["city"]}}; or, where the model asks for '
        f'them, {{"type": "array", "items": {{"enum": ["city"]}}}}.'
    )


def _found(shared: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    missing = next((name for name in names if name not in shared), None)
    if missing is not None:
        raise Failed(f"{IMPORTS}: there is nothing at {missing!r}{suggest(missing, [*shared])}")
    return {name: shared[name] for name in names}


Effect: TypeAlias = Literal["read", "write", "destructive"]
Isolation: TypeAlias = Literal["process"]


@dataclass(frozen=True, kw_only=True)
class ToolSettings:
    """How a tool is to be carried out.

    Attributes:
        effect: What a call does to the world: `read` changes nothing, `write` changes something, `destructive` what
            cannot be brought back. Reads run side by side, the others alone and in order.
        idempotent: Whether carrying a call out twice does no more than once. Reads are.
        exclusive: Whether a call runs alone: those before it end first, those after it wait.
        max_parallel: How many calls run at the same time, in all runs of this process; the others wait.
        timeout: How long one try may take, in seconds.
        retries: How often a failed try is followed by another; for tools that are idempotent.
        retry_on: What failures are worth another try.
        executor: Where the function runs, such as a process pool; a thread or a task of the run's own by default.
        isolate: "process" for a process of its own, which can be ended for good.
        authorize: May this call be made at all? Asked after the run's own authorizer.
        approve: Whether calls need somebody's yes; or what says so of one call.
        max_result: Characters of a result that the model is shown; the run's own bound by default.
        return_direct: Whether the result is the run's answer.
        namespace: A group that the tool is shown in, where the provider knows groups.
        defer_loading: Whether the provider loads the tool's parameters only when the model looks for it.

    Raises:
        DefinitionError: A value is none that the setting can have.
    """

    effect: Effect | None = None
    idempotent: bool | None = None
    exclusive: bool = False
    max_parallel: int | None = None
    timeout: float | None = None
    retries: int = 0
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    executor: Executor | None = None
    isolate: Isolation | None = None
    authorize: Callable[..., Any] | None = None
    approve: bool | Callable[..., Any] = False
    max_result: int | None = None
    return_direct: bool = False
    namespace: str | None = None
    defer_loading: bool = False

    def __post_init__(self) -> None:
        for name, (is_right, what) in _RULES.items():
            value = getattr(self, name)
            if not is_right(value):
                raise DefinitionError(f"{name}={value!r} is not {what}.")
        if self.retries and not self.may_repeat:
            raise DefinitionError(
                f"retries={self.retries} repeats what the tool does: that needs idempotent=True or effect='read'."
            )
        if self.executor is not None and self.isolate is not None:
            raise DefinitionError("executor= and isolate= both say where the tool runs: give one of them.")
        _ = self.semaphore  # made now: two threads at their first calls would make two

    @cached_property
    def semaphore(self) -> Semaphore | None:
        """What lets no more than `max_parallel` calls run at the same time; shared by all that binds or renames."""
        return Semaphore(self.max_parallel) if self.max_parallel else None

    @property
    def may_repeat(self) -> bool:
        """Whether a call may be carried out twice."""
        return self.effect == "read" if self.idempotent is None else self.idempotent

    @cached_property
    def is_plain(self) -> bool:
        """Whether a call is carried out once, at once, in the usual place, for as long as it takes."""
        said = (self.timeout, self.executor, self.isolate, self.max_parallel)
        return not self.retries and all(value is None for value in said)

    @property
    def runs_alone(self) -> bool:
        """Whether no other call runs beside this one."""
        return self.exclusive or self.effect in ("write", "destructive")


def _is_time(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_size(value: object) -> bool:
    return value is None or (_is_count(value) and value != 0)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value) is not None


def _are_exceptions(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in value
    )


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


_Rule: TypeAlias = tuple[Callable[[Any], bool], str]
_RULES: Mapping[str, _Rule] = {
    "effect": (lambda value: value is None or value in get_args(Effect), "'read', 'write' or 'destructive'"),
    "idempotent": (lambda value: value is None or _is_truth(value), "True or False"),
    "exclusive": (_is_truth, "True or False"),
    "timeout": (_is_time, "a number of seconds above 0"),
    "retries": (_is_count, "a whole number, 0 or more"),
    "retry_on": (_are_exceptions, "a tuple of exception classes, such as retry_on=(OSError,)"),
    "executor": (lambda value: value is None or hasattr(value, "submit"), "an executor, with a method submit()"),
    "isolate": (lambda value: value in (None, "process"), "'process'"),
    "authorize": (lambda value: value is None or callable(value), "a function of tool, arguments and context"),
    "approve": (lambda value: _is_truth(value) or callable(value), "True, False or a function of an ApprovalRequest"),
    "max_parallel": (_is_size, "a number of calls above 0"),
    "max_result": (_is_size, "a number of characters above 0"),
    "return_direct": (_is_truth, "True or False"),
    "namespace": (lambda value: value is None or _is_name(value), "a name of 1 to 64 letters, digits, '_' or '-'"),
    "defer_loading": (_is_truth, "True or False"),
}

# What a tool that says nothing is carried out by; shared, so that decorating makes none.
USUAL = ToolSettings()


# What a model is asked to say of a call.
WHY: Mapping[str, Any] = {REASONING: {"type": "string", "description": "Why this call is made, in one sentence."}}


# Options that are not fields of a tool.
_DERIVED = frozenset({"latent", "reasoning", "module", "imports"})


class ToolOptions(TypedDict, total=False):
    """Options of `@tool` besides name, title and description; its docstring says what each of them means."""

    relay: tuple[type[BaseException], ...]
    strict: bool | None
    effect: Effect | None
    idempotent: bool | None
    exclusive: bool
    max_parallel: int | None
    timeout: float | None
    retries: int
    retry_on: tuple[type[BaseException], ...]
    executor: Executor | None
    isolate: Isolation | None
    authorize: Callable[..., Any] | None
    approve: bool | Callable[..., Any]
    max_result: int | None
    return_direct: bool
    activity: str | None
    latent: bool
    reasoning: bool
    module: str | None
    imports: Sequence[str] | Mapping[str, Any] | None
    namespace: str | None
    defer_loading: bool


# Those that are not None. A tool that becomes a tool again keeps its own value of an option that is not given.
DEFAULTS: Mapping[str, Any] = {
    "relay": (),
    "latent": False,
    "reasoning": False,
    **{field.name: field.default for field in fields(ToolSettings)},
}
# All names, for error messages.
OPTION_NAMES = ("name", "title", "description", *ToolOptions.__annotations__)


def split_options(given: Mapping[str, Any], owner: str, settings: ToolSettings) -> Mapping[str, Any]:
    """Part what is given into a tool's own fields, and its settings.

    Raises:
        DefinitionError: An option has no such value; the message begins with the owner's name.
    """
    chosen = given.keys() & ToolSettings.__dataclass_fields__.keys()
    try:
        _check(given)
        said = _about(given)
        if chosen:
            settings = replace(settings, **{name: given[name] for name in chosen})
    except DefinitionError as error:
        raise DefinitionError(f"{owner}: {error}") from None
    own = {name: value for name, value in given.items() if name not in (*chosen, *_DERIVED)}
    return {"settings": settings, **own, **({"activity": ""} if given.get("latent") else {}), **said}


def _about(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read what is said of the calls, and not of the tool."""
    scope = scope_of(given.get("module"), given.get("imports")) or given.get("_scope")
    shown = {**(scope.about if scope else {}), **given.get("_about", {}), **(WHY if given.get("reasoning") else {})}
    return {**({"_scope": scope} if scope else {}), **({"_about": shown} if shown else {})}


def _check(given: Mapping[str, Any]) -> None:
    relay, strict, activity = given.get("relay", ()), given.get("strict"), given.get("activity", "")
    if not isinstance(relay, (tuple, list)) or not all(map(_is_exception, relay)):
        raise DefinitionError(f"relay={relay!r} is not a tuple of exception classes, such as relay=(KeyError,).")
    if not isinstance(strict, (bool, type(None))):
        raise DefinitionError(f"strict={strict!r} is not True or False.")
    if not isinstance(activity, str):
        raise DefinitionError(f"activity={activity!r} is not the name of what carries the tool out.")
    if given.get("latent") and activity:
        raise DefinitionError(
            f"latent=True leaves the tool to the model, and activity={activity!r} does not. Drop one."
        )


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
