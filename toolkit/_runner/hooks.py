"""Hooks: methods of the application before and after each response of the model, and each call."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from toolkit._concurrency.backend import Backend, call_function, is_async
from toolkit._context import ToolContext
from toolkit._execution.approval import Deny
from toolkit._execution.dispatcher import Middleware, Next
from toolkit._messages import ToolCall, ToolResult
from toolkit._options import find_misfit, get_short_traceback
from toolkit._tools.results import explain_exception, follow_error
from toolkit.errors import Denied, Failed, FatalError, ToolError
from toolkit.events import Event, SubAgentEvent

logger = logging.getLogger("toolkit")

_WITHHELD = "The result of {} is withheld: it could not be checked. If it has run, its effect stays."
# The methods of a hook, and what each takes; those around the model may leave out the context.
METHODS: Mapping[str, tuple[str, ...]] = {
    "before_model": ("request", "context"),
    "after_model": ("response", "context"),
    "before_call": ("call", "context"),
    "after_call": ("call", "result", "context"),
    "on_event": ("event", "run_id"),
}

T = TypeVar("T")
Hook: TypeAlias = Callable[..., Any]


class Hooks:
    """The hooks of a runner: objects with any of these methods, sync or async.

        before_model(request, context) -> ModelRequest | None
        after_model(response, context) -> ModelResponse | None
        before_call(call, context) -> ToolCall | Deny | None
        after_call(call, result, context) -> ToolResult | None
        on_event(event, run_id) -> None                 sync; each event, or the exception that ends the run

    `before_model` and `after_model` may leave out the context, which is that of the run, without a call. None changes
    nothing. A value replaces the argument, for the following hooks, too. Hooks run in the order in which they are
    given. Calls of one turn run at the same time, and so do their hooks. `Halt("...")`, raised in any of them, ends the
    run with that text as its answer. `on_event` also gets the events of sub-agents, each as the event itself and not as
    a `SubAgentEvent`. Exceptions of `on_event` are logged. A middleware that is an object may have `on_event`, too.

    Attributes:
        before_model: The methods of this name, of all hooks.
        after_model: The methods of this name, of all hooks.
        middleware: The middleware of a run: first the one that runs `before_call` and `after_call`.
        observers: The methods `on_event` of all hooks and middleware.

    Raises:
        TypeError: An object has none of the methods, or another one that is named like them; or it is a class and not
            an instance; or a method or a middleware takes other arguments.
    """

    def __init__(self, hooks: Iterable[object] = (), middleware: Iterable[Middleware] = ()) -> None:
        given, wrappers = tuple(hooks), tuple(middleware)
        for hook in given:
            _check_hook(hook)
        for wrapper in wrappers:
            _check_parameters(wrapper, ("call", "call_next"), "If it makes a middleware, call it.")
        for each in (*given, *wrappers):
            if any(map(is_async, _list_methods([each], "on_event"))):
                raise TypeError(f"{each!r} has an async on_event, which is not awaited: write it as a plain function.")

        self.before_model: tuple[Hook, ...] = _list_methods(given, "before_model")
        self.after_model: tuple[Hook, ...] = _list_methods(given, "after_model")
        self._before_call = _list_methods(given, "before_call")
        self._after_call = _list_methods(given, "after_call")
        self.observers: tuple[Hook, ...] = _list_methods((*given, *wrappers), "on_event")
        around_calls = (self._run_call,) if self._before_call or self._after_call else ()
        self.middleware: tuple[Middleware, ...] = (*around_calls, *wrappers)

    async def _run_call(self, call: ToolCall, call_next: Next) -> ToolResult:
        """Run the hooks around one call. The later ones see the rewritten call, and a refusal as a result."""
        current = call
        try:
            for hook in self._before_call:
                current = await _run_before(hook, current, call_next)
            result = await call_next(current)
        except ToolError as refusal:
            result = explain_exception(refusal, current.name)
        for hook in self._after_call:
            result = await _run_after(hook, current, result, call_next)
        return result


def notify(observers: Iterable[Hook], event: Event | BaseException, run_id: str) -> None:
    """Pass an event to hooks, and log what they raise. Sub-agents pass their events to the same hooks themselves."""
    if isinstance(event, SubAgentEvent):
        return
    for observer in observers:
        try:
            observer(event, run_id)
        except (Exception, SystemExit) as error:  # noqa: PERF203  the others still get it
            trace = get_short_traceback(error)
            logger.exception("The hook %r failed; the run goes on.", observer, exc_info=trace)


async def apply_model_hook(hook: Hook, given: T, context: ToolContext[Any], backend: Backend) -> T:
    """Run one hook on a request or a response of the model. Its exceptions are raised."""
    arguments = (given, context) if find_misfit(hook, given) else (given,)
    return _get_replacement(await call_function(hook, arguments, backend, context.cancellation), given, hook)


async def _run_before(hook: Hook, call: ToolCall, call_next: Next) -> ToolCall:
    """Run one hook. If it raises an exception that does not end the run, the call is denied."""
    with _convert_errors(hook, Denied("Tool call denied: it could not be checked.")):
        answer = await _call_hook(hook, (call,), call_next)
        if isinstance(answer, Deny):
            raise Denied(f"Tool call denied: {answer.reason}" if answer.reason else "Tool call denied.")
        return _get_replacement(answer, call, hook)


async def _run_after(hook: Hook, call: ToolCall, result: ToolResult, call_next: Next) -> ToolResult:
    """Run one hook. If it fails, the result is withheld, since it was not checked."""
    try:
        with _convert_errors(hook, Failed(_WITHHELD.format(call.name[:100]))):
            answer = await _call_hook(hook, (call, result), call_next)
            return follow_error(_get_replacement(answer, result, hook), result)
    except ToolError as refusal:
        return explain_exception(refusal, call.name)


@contextmanager
def _convert_errors(hook: Hook, refusal: ToolError) -> Iterator[None]:
    """Replace an exception of a hook by a refusal, unless it is a refusal itself or ends the run."""
    try:
        yield
    except (ToolError, FatalError, CancelledError):  # the last: the turn has ended
        raise
    except Exception as error:
        trace = get_short_traceback(error)
        logger.exception("The hook %r failed; its call gets an error.", hook, exc_info=trace)
        raise refusal from error


async def _call_hook(hook: Hook, given: tuple[Any, ...], call_next: Next) -> Any:
    context = call_next.context
    return await call_function(hook, (*given, context), call_next.backend, context.cancellation)


def _get_replacement(answer: Any, given: T, hook: Hook) -> T:
    if answer is None:
        return given
    if not isinstance(answer, type(given)):
        raise TypeError(f"the hook {hook!r} must return a {type(given).__name__} or None, not {answer!r:.100}")
    return answer


def _list_methods(hooks: Iterable[object], name: str) -> tuple[Hook, ...]:
    """List the methods of a name, of the hooks that have it."""
    return tuple(getattr(hook, name) for hook in hooks if _has_method(hook, name))


def _has_method(hook: object, name: str) -> bool:
    return callable(getattr(hook, name, None))


def _check_hook(hook: object) -> None:
    if inspect.isclass(hook):
        raise TypeError(f"hooks=[{hook.__name__}] is a class: give an instance, {hook.__name__}(...).")

    used = [name for name in METHODS if _has_method(hook, name)]
    if not used or (used == ["on_event"] and callable(hook)):
        raise TypeError(
            f"{hook!r:.100} is not a hook: a hook has one of the methods {', '.join(METHODS)}. Pass a function that "
            "wraps a call as middleware=[...]."
        )

    if unknown := [
        name for name in dir(hook) if name.startswith(("before_", "after_", "around_")) and name not in METHODS
    ]:
        raise TypeError(f"{hook!r} has {unknown[0]}, which is not a method of hooks. Those are {', '.join(METHODS)}.")
    for name in used:
        method = getattr(hook, name)
        if not name.endswith("_model") or find_misfit(method, hook):
            _check_parameters(method, METHODS[name])


def _check_parameters(function: Callable[..., Any], taken: Sequence[str], remedy: str = "") -> None:
    if error := find_misfit(function, *taken):
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name} must take ({', '.join(taken)}): {error}. {remedy}".rstrip()) from error
