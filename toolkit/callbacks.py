"""How a function of the application is called: a gate, a hook, a checkpoint; sync or async, where its kind belongs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from toolkit.cancellation import Cancellation
from toolkit.doors import Door


async def called(
    function: Callable[..., Any], given: tuple[Any, ...], door: Door, until: Cancellation | None = None
) -> Any:
    """Call a function as a sync tool would be, and await what it promises in an event loop.

    Raises:
        TimedOut: The deadline passed first.
        Cancelled: It was called off.
        RuntimeError: It raised what would have ended more than itself: the program, or a task.
    """

    async def begin() -> Any:
        with _kept(BaseException):  # a cancellation, too: that of a task comes to nobody who does not wait
            return function(*given)

    async def awaited() -> Any:
        with _kept(SystemExit):
            return await answer

    answer = function(*given) if is_async(function) else await door.call(begin, is_async=False, until=until)
    return await door.call(awaited, is_async=True, until=until) if inspect.isawaitable(answer) else answer


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether a function, or an object that is called like one, is known to answer with a promise."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


@contextmanager
def _kept(kind: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except kind as error:
        raise RuntimeError(f"it raised {type(error).__name__}") from error
