"""Decorators of public functions: signatures with each option, errors for wrong options, and short tracebacks.

Also the checks of numbers that many modules share.

An error that this package raises on purpose says what to do, so its traceback has no frames of this package and ends
with the caller's line. So does that of an interrupt, which may come anywhere. Any other error keeps the frame in which
it arose. Frames of the application are never removed, such as those of a tool that failed. The logger `toolkit` logs
the whole traceback of an error, at level DEBUG.
"""

from __future__ import annotations

import inspect
import logging
import math
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from inspect import Parameter
from types import FunctionType, MappingProxyType, TracebackType
from typing import Any, NoReturn, TypeGuard, TypeVar, cast

from toolkit.errors import ToolkitError

if sys.version_info >= (3, 14):
    import annotationlib

logger = logging.getLogger("toolkit")

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Any])
# The longest wait that every system supports.
MAX_SECONDS = 1e6
NO_HINTS: Mapping[str, str] = MappingProxyType({})
# For `inspect.signature`: in Python 3.14 it would look up names that are not defined yet, or for type checkers only.
UNEVALUATED: dict[str, Any] = {}
if sys.version_info >= (3, 14):
    UNEVALUATED["annotation_format"] = annotationlib.Format.FORWARDREF


def make_hints(*rows: tuple[str, str]) -> dict[str, str]:
    """Make a table of hints by name, such as names of other libraries, from rows of names, separated by spaces."""
    return {name: hint for names, hint in rows for name in names.split()}


def refuse_unknown_options(
    owner: str, given: Collection[str], known: Collection[str], hints: Mapping[str, str]
) -> None:
    """Refuse the first option that is not known.

    Args:
        owner: Name of the function or class, for the message.
        given: Names of the options that were passed.
        known: Names of the valid options.
        hints: Sentences that say what to write instead, by names that other libraries use, or that belong elsewhere.

    Raises:
        TypeError: An option is unknown; the message has its hint or the nearest name, or else all names.
    """
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise TypeError(f"{owner} has no option {unknown!r}. {_find_remedy(unknown, known, hints)}") from None


def _find_remedy(unknown: str, known: Collection[str], hints: Mapping[str, str]) -> str:
    """Return advice about an unknown option: its own hint, the nearest option, or the hint of a similar name."""
    import difflib  # needed only for errors

    if unknown in hints:
        return hints[unknown]
    if near := difflib.get_close_matches(unknown, known, n=1):
        return f"Did you mean {near[0]!r}?"
    if similar := difflib.get_close_matches(unknown, hints, n=1, cutoff=0.85):
        return hints[similar[0]]
    return f"The options are: {', '.join(known)}."


def explain_missing(*rows: tuple[str, str]) -> Callable[[object, str], NoReturn]:
    """Make the `__getattr__` of a class, whose errors say what to write instead. The rows are those of `make_hints`."""
    hints = make_hints(*rows)

    def refuse(self: object, name: str) -> NoReturn:
        hint = f": write {hints[name]}" if name in hints else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}.", name=name, obj=self)

    return refuse


def spell_options(options: type, defaults: Mapping[str, Any], hints: Mapping[str, str]) -> Callable[[F], F]:
    """Show the keys of a TypedDict in a function's signature, in place of `**options: Unpack[...]`.

    Type checkers and editors read the TypedDict. `inspect.signature`, `help()` and the completion of notebooks read the
    signature that is set here. Other options are refused by `refuse_unknown_options`, and exceptions of the function
    get a short traceback. Keys that are not in `defaults` have the default None.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [parameter for parameter in signature.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
        spelled = (
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=defaults.get(name),
                annotation=getattr(annotation, "__forward_arg__", annotation),
            )
            for name, annotation in options.__annotations__.items()
        )
        parameters = [*own, *spelled]
        named = (each.name for each in parameters if each.kind is not Parameter.POSITIONAL_ONLY)
        decorated = hide_frames(function, [name for name in named if name not in ("self", "cls")], hints)
        vars(decorated)["__signature__"] = signature.replace(parameters=parameters)
        return decorated

    return decorate


def check_options(function: F, hints: Mapping[str, str] = NO_HINTS) -> F:
    """Decorate a function or method so that it refuses unknown keyword arguments by `refuse_unknown_options`.

    Its exceptions get a short traceback.
    """
    code = cast("FunctionType", function).__code__
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return hide_frames(function, [name for name in taken if name != "self"], hints)


def check_methods(hints: Mapping[str, str] = NO_HINTS) -> Callable[[C], C]:
    """Decorate the constructor and the public methods of a class by `check_options`, but for those with `**options`."""

    def decorate(owner: C) -> C:
        for name, member in [*vars(owner).items()]:
            is_public = name == "__init__" or not name.startswith("_")
            is_function = inspect.isfunction(member)
            if is_public and is_function and not member.__code__.co_flags & inspect.CO_VARKEYWORDS:
                setattr(owner, name, check_options(member, hints))
        return owner

    return decorate


def find_misfit(function: Callable[..., Any], *arguments: object) -> TypeError | None:
    """Return why a function cannot be called with these arguments, or None if it can, or if it has no signature."""
    try:
        inspect.signature(function, **UNEVALUATED).bind(*arguments)
    except TypeError as error:
        return error
    except Exception:  # noqa: BLE001  a built-in one has none; an annotation is code of the user's
        return None
    return None


def is_whole(value: object, least: float = -math.inf) -> TypeGuard[int]:
    """Return whether a value is a whole number of at least `least`; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number; True and False are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_float(value: object) -> TypeGuard[float]:
    """Return whether a value is a number that a float can hold; True and False are not."""
    return is_number(value) and (isinstance(value, float) or abs(value) <= sys.float_info.max)


def find_cutoff(seconds: float) -> float:
    """Return the time of so many seconds ago, on the clock of `time.time()`.

    Raises:
        ValueError: `seconds` is not a number of at least 0.
    """
    if not is_float(seconds) or not seconds >= 0:
        raise ValueError(f"seconds={seconds!r} is not a number of at least 0.")
    return time.time() - seconds


# Packages whose frames are left out of tracebacks.
OWN = frozenset({"toolkit", "asyncio", "concurrent", "contextlib", "functools", "threading"})
# Packages whose exceptions are repeated in our messages, so that they need not be printed.
REPEATED = OWN | {"json", "pydantic", "typing_extensions", "openai", "httpx", "httpx2", "typing", "annotationlib"}
# Packages whose frames are left out of the traceback of an interrupt.
INTERRUPTED = REPEATED | {"httpcore", "httpcore2", "h11", "anyio", "socket", "ssl"}


def hide_frames(function: F, known: Sequence[str] | None = None, hints: Mapping[str, str] = NO_HINTS) -> F:
    """Decorate a public function, sync or async, so that its exceptions get a short traceback.

    With `known`, the names of its parameters, unknown keyword arguments are refused by `refuse_unknown_options`.
    """
    names = None if known is None else frozenset(known)
    owner = function.__qualname__

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # IPython and pytest leave out this frame, too
        try:
            if names is not None and not names.issuperset(options):
                name = type(args[0]).__name__ if owner.endswith(".__init__") else owner
                refuse_unknown_options(name, options, known or (), hints)
            return function(*args, **options)
        except BaseException as error:
            shorten_traceback(error)
            raise error

    @wraps(function)
    async def call_async(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        try:
            if names is not None and not names.issuperset(options):
                refuse_unknown_options(owner, options, known or (), hints)
            return await function(*args, **options)
        except BaseException as error:
            shorten_traceback(error)
            raise error

    return cast("F", call_async if inspect.iscoroutinefunction(function) else call)


def shorten_traceback(error: BaseException) -> None:
    """Remove the frames of this package from the traceback of an error, and log the whole traceback.

    The caller must raise the error by its name: in Python 3.10 a bare `raise` would have the long traceback.
    """
    if isinstance(error, (StopIteration, StopAsyncIteration)):  # the end of a stream
        return

    frames = _list_frames(error.__traceback__)[1:]
    hidden = OWN if isinstance(error, Exception) else INTERRUPTED
    kept = [frame for frame in frames if _find_package(frame) not in hidden]
    if len(kept) < len(frames) and isinstance(error, Exception):
        logger.debug("The whole traceback of %s:", type(error).__name__, exc_info=error)
        if isinstance(error, ToolkitError) and not kept:
            _hide_cause(error)
        elif kept[-1:] != frames[-1:]:
            kept.append(frames[-1])

    error.with_traceback(_join_frames(kept))  # an assignment would fail for a frozen dataclass


def get_short_traceback(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Return `exc_info` of an exception for a log, without the frames of this package if there are others."""
    frames = _list_frames(error.__traceback__)
    kept = [frame for frame in frames if _find_package(frame) not in OWN]
    return type(error), error, _join_frames(kept or frames)


def _hide_cause(error: ToolkitError) -> None:
    """Move the cause of an error to `error.cause`, unless it arose in the application.

    If the cause of that cause arose in the application, it takes its place.
    """
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and not _is_from_application(cause):
        error.cause = error.cause or cause
        inner = cause.__cause__
        is_shown = inner is not None and _is_from_application(inner)
        error.__cause__ = inner if is_shown else None  # which hides the context, too


def _is_from_application(error: BaseException) -> bool:
    """Return whether an exception arose in the application. An annotation in quotes is evaluated by a library."""
    frames = _list_frames(error.__traceback__)
    code = frames[-1].tb_frame.f_code if frames[1:] else None
    if code and (code.co_filename, code.co_name) == ("<string>", "<module>"):
        frames.pop()
    return bool(frames) and _find_package(frames[-1]) not in REPEATED


def _list_frames(first: TracebackType | None) -> list[TracebackType]:
    frames = []
    while first is not None:
        frames.append(first)
        first = first.tb_next
    return frames


def _join_frames(frames: list[TracebackType]) -> TracebackType | None:
    joined: TracebackType | None = None
    for frame in reversed(frames):
        line = frame.tb_lineno or -1  # generated code may have no line numbers: -1 stands for that
        joined = TracebackType(joined, frame.tb_frame, frame.tb_lasti, line)
    return joined


def _find_package(frame: TracebackType) -> str:
    """Return the top-level package of the code of a frame."""
    return str(frame.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
