"""How a gate is asked: sync or async alike, and an exception is not a yes."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from toolkit.doors import Door, awaited

logger = logging.getLogger("toolkit")


async def ask(gate: Callable[..., Any], questions: tuple[Any, ...], door: Door) -> Any:
    """Ask a gate; what it raises is logged and answers None, which no gate takes for a yes."""
    try:
        is_async = inspect.iscoroutinefunction(gate) or inspect.iscoroutinefunction(getattr(gate, "__call__", None))  # noqa: B004
        answer = gate(*questions) if is_async else await door.call(lambda: _asked(gate, questions), is_async=False)
        return await door.call(lambda: awaited(answer), is_async=True) if inspect.isawaitable(answer) else answer
    except Exception:
        logger.exception("The gate %r raised; the call is refused.", gate)
        return None


async def _asked(gate: Callable[..., Any], questions: tuple[Any, ...]) -> Any:
    return gate(*questions)
