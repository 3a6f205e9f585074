"""`@tool` makes a tool of a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from typing_extensions import TypedDict, Unpack

from toolkit import hints
from toolkit.callables import source_of
from toolkit.errors import DefinitionError
from toolkit.handlers import Function
from toolkit.naming import legal_name, name_of
from toolkit.settings import USUAL, Effect, Isolation, ToolSettings
from toolkit.signatures import Signature
from toolkit.tools import Tool

if TYPE_CHECKING:
    from concurrent.futures import Executor

P = ParamSpec("P")
R = TypeVar("R")


class ToolOptions(TypedDict, total=False):
    """What `@tool` takes besides name, title and description.

    Attributes:
        relay: Exceptions whose message the model may see, besides ToolError and those that the docstring's `Raises:`
            names.
        strict: Whether the provider is to enforce the schema, where that is lossless; the run decides by default.
        effect: What a call does to the world: "read", "write" or "destructive". Reads run side by side, the others
            alone and in order; nothing said, a call runs side by side with others.
        idempotent: Whether carrying a call out twice does no more than once; reads are.
        exclusive: Whether a call runs alone: those before it end first, those after it wait.
        max_parallel: How many calls run at the same time, in all runs of this process; the others wait.
        timeout: How long one try may take, in seconds; what works on then is given up, and reported.
        retries: How often a failed try is followed by another; only where a call may be repeated.
        retry_on: What failures are worth another try; any but a ToolError by default, and TimedOut.
        executor: Where the function runs: any `concurrent.futures.Executor`, such as a process pool.
        isolate: "process" gives each call a process of its own, which a timeout or a cancellation ends for good.
        authorize: May this call be made at all? Gets tool, arguments and context, after the run's own authorizer.
        approve: True where each call needs somebody's yes; or a function of an ApprovalRequest that says so.
        max_result: Characters of a result that the model is shown; the run's own bound by default.
        return_direct: Whether the result is the run's answer, without another word of the model.
        namespace: A group that the tool is shown in, in dialects that know groups.
        defer_loading: Whether the provider loads the parameters only when the model looks for the tool.
    """

    relay: tuple[type[BaseException], ...]
    strict: bool
    effect: Effect
    idempotent: bool
    exclusive: bool
    max_parallel: int
    timeout: float
    retries: int
    retry_on: tuple[type[BaseException], ...]
    executor: Executor
    isolate: Isolation
    authorize: Callable[..., Any]
    approve: bool | Callable[..., Any]
    max_result: int
    return_direct: bool
    namespace: str
    defer_loading: bool


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[P, R]: ...
@overload
def tool(
    *, name: str | None = None, title: str | None = None, description: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Any:
    """Make a tool of a function: its name, docstring and signature are what the model is told.

    Registers nowhere; the function is not changed, nor is its schema built before it is asked for.

    Args:
        function: Any callable: function, coroutine function, method, class, partial, callable object.
        name: For the model; the function's own by default, with what providers refuse replaced.
        title: For people.
        description: For the model; the docstring's prose by default.
        **options: See ToolOptions.

    Raises:
        DefinitionError: It cannot be a tool; the message names the function and what to change.

    Example:
        >>> @tool
        ... def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> add(1, 2)
        3
        >>> add.invoke('{"a": 1, "b": 2}').text
        '3'
    """
    about: dict[str, Any] = {"name": name, "title": title, "text": description, **options}
    given = {key: value for key, value in about.items() if value is not None}
    _refuse_unknown(options)
    return partial(_decorated, given) if function is None else _decorated(given, function)


def tool_methods(owner: type) -> list[str]:
    """List the methods of a class that are tools, in the order of its body, a base's before its children's."""
    written = dict.fromkeys(name for kind in reversed(owner.__mro__) for name in vars(kind))
    return [name for name in written if _is_tool(inspect.getattr_static(owner, name, None))]


def _is_tool(attribute: object) -> bool:
    return isinstance(getattr(attribute, "__func__", attribute), Tool)


def _decorated(given: Mapping[str, Any], function: Any) -> Any:
    if isinstance(function, Tool):
        return replace(function, **_fields(given, function, function.settings))
    bound = getattr(function, "__func__", None)
    if isinstance(bound, Tool):  # a class method made of a tool
        return _decorated(given, bound.__get__(function.__self__))
    plain = bound if isinstance(function, (classmethod, staticmethod)) else function
    if not callable(plain):
        raise DefinitionError(
            f"@tool needs something that can be called; it got {function!r}. Give options by name: @tool(name=...)."
        )
    handler = Function(Signature(plain, hints.frame_names(source_of(plain))))
    named = {"name": legal_name(name_of(plain)), **_fields(given, plain, USUAL)}
    made: Tool[Any, Any] = Tool(handler=handler, of_class=isinstance(function, classmethod), **named)
    return staticmethod(made) if isinstance(function, staticmethod) else made


def _fields(given: Mapping[str, Any], function: Any, settings: ToolSettings) -> Mapping[str, Any]:
    """Part what is given into a tool's own fields, and its settings."""
    chosen = given.keys() & ToolSettings.__dataclass_fields__.keys()
    try:
        _check(given)
        if chosen:
            settings = replace(settings, **{name: given[name] for name in chosen})
    except DefinitionError as error:
        raise DefinitionError(f"{name_of(function)}: {error}") from None
    return {"settings": settings, **{name: value for name, value in given.items() if name not in chosen}}


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    unknown = options.keys() - ToolOptions.__annotations__.keys()
    if unknown:
        known = ("name", "title", "description", *ToolOptions.__annotations__)
        raise DefinitionError(f"@tool has no option {sorted(unknown)[0]!r}. It has: {', '.join(known)}.")


def _check(given: Mapping[str, Any]) -> None:
    relay, strict = given.get("relay", ()), given.get("strict")
    if not isinstance(relay, (tuple, list)) or not all(map(_is_exception, relay)):
        raise DefinitionError(f"relay={relay!r} is not a tuple of exception classes, such as relay=(KeyError,).")
    if not isinstance(strict, (bool, type(None))):
        raise DefinitionError(f"strict={strict!r} is not True or False.")


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
