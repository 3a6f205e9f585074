"""How a tool is to be carried out: its effect, its time, its tries, its place, its gates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from toolkit._concurrency.threads import Semaphore
from toolkit.errors import DefinitionError

if TYPE_CHECKING:
    from concurrent.futures import Executor

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
