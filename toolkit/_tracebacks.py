"""Tracebacks of what public functions raise: the caller's lines, then the error, without the frames in between.

An error that this package raises on purpose says what to do, so that its frames are of no use. Any other one keeps the
frame in which it arose. The application's own frames always stay, such as those of a tool that failed. The logger
`toolkit` has the whole traceback, at level DEBUG.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

from toolkit.errors import ToolkitError

logger = logging.getLogger("toolkit")
F = TypeVar("F", bound=Callable[..., Any])
# Packages whose frames lie between the caller and the error.
OWN = frozenset({"toolkit", "asyncio", "concurrent", "contextlib", "functools", "threading"})
# Those whose exceptions our messages repeat.
REPEATED = OWN | {"json", "pydantic", "typing_extensions", "openai", "httpx", "httpx2"}


def _keep_error(error: BaseException, _options: Mapping[str, Any]) -> BaseException:
    return error


def hide_frames(function: F, replace: Callable[[BaseException, Mapping[str, Any]], BaseException] = _keep_error) -> F:
    """Decorate a public function, sync or async, so that what it raises has a short traceback.

    Args:
        function: The function.
        replace: Returns the error to raise in place of one, by the keyword arguments of the call.
    """

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # IPython and pytest leave out this frame, too
        try:
            return function(*args, **options)
        except BaseException as error:
            error = replace(error, options)
            shorten_traceback(error)
            raise error

    @wraps(function)
    async def call_async(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        try:
            return await function(*args, **options)
        except BaseException as error:
            error = replace(error, options)
            shorten_traceback(error)
            raise error

    return cast("F", call_async if inspect.iscoroutinefunction(function) else call)


def shorten_traceback(error: BaseException) -> None:
    """Remove the frames of this package below the handler of an error.

    The handler raises it again by its name: in Python 3.10 a bare `raise` would have the long traceback.
    """
    frames = _list_frames(error.__traceback__)[1:]
    kept = [frame for frame in frames if _find_package(frame) not in OWN]
    if len(kept) < len(frames) and isinstance(error, Exception):
        logger.debug("The whole traceback of %s:", type(error).__name__, exc_info=error)
        if isinstance(error, ToolkitError) and not kept:
            _hide_cause(error)
        elif kept[-1:] != frames[-1:]:
            kept.append(frames[-1])
    error.with_traceback(_join_frames(kept))  # a frozen dataclass refuses to have an attribute set


def _hide_cause(error: ToolkitError) -> None:
    """Move the cause of an error to its attribute, unless it arose in the application.

    Where the cause of a cause did, the traceback goes on with that one.
    """
    causes = _list_causes(error)
    shown = next((cause for cause in causes if _is_foreign(cause)), None)
    if causes and causes[0] is not shown:
        error.cause = error.cause or causes[0]
        error.__cause__ = shown  # which hides the context, too


def _list_causes(error: BaseException) -> list[BaseException]:
    """List what led to an error, the latest first."""
    causes = [error]
    while cause := causes[-1].__cause__ or (None if causes[-1].__suppress_context__ else causes[-1].__context__):
        if cause in causes:  # causes that are set by hand may form a circle
            break
        causes.append(cause)
    return causes[1:]


def _is_foreign(error: BaseException) -> bool:
    """Return whether an exception arose in the application."""
    frames = _list_frames(error.__traceback__)
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
        joined = TracebackType(joined, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return joined


def _find_package(frame: TracebackType) -> str:
    """Return the top-level package of the code of a frame."""
    return str(frame.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
