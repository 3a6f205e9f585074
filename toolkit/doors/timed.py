"""Drawing from a leaf that gives many values, for no longer than there is time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

from toolkit.cancellation import Cancellation
from toolkit.doors.door import Door, close
from toolkit.threads import over

T = TypeVar("T")

_END: Any = object()


async def drawn(
    door: Door, source: AsyncIterator[T], *, is_async: bool, until: Cancellation
) -> AsyncGenerator[T, None]:
    """Draw from a leaf, for no longer than `until` lasts: where it has an end, what draws can be given up.

    Raises:
        TimedOut: The deadline has passed.
        Cancelled: It was called off.
    """
    if until.deadline is None:
        items = door.iterate(source, is_async=is_async, until=until)
    else:
        items = _pumped(door, source, until, is_async=is_async)
    async with aclosing(items):
        async for item in items:
            yield item
    if until:  # it may have been left before its end
        raise over(until)


async def _pumped(
    door: Door, source: AsyncIterator[T], until: Cancellation, *, is_async: bool
) -> AsyncGenerator[T, None]:
    """Have one job draw everything, which tells what it has drawn: it is begun once, and given up once."""
    told, left = door.channel(), Cancellation(parent=until)

    async def pump() -> Any:
        try:
            async for item in source:
                told.put(item)
                if left:  # nobody draws any more
                    break
        finally:
            await close(source)
        return _END

    job = partial(door.call, pump, is_async=is_async)
    try:
        async with aclosing(door.together([job], 1, told, until=until, apart=True)) as items:
            async for item in items:
                if item is not _END:
                    yield item
    finally:
        left.cancel()
        left.close()
