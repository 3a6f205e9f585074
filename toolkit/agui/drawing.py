"""What is told of a run, drawn one by one; whoever closes it ends the run, begun or not."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from typing_extensions import override

from toolkit.agui.telling import Telling, Told
from toolkit.events import Event


class ToldStream(Iterator[Told]):
    """What AG-UI is told of a run, as an iterator."""

    def __init__(self, stream: Iterable[Event], telling: Telling) -> None:
        self._told = _drawn(stream, telling)
        self._stack = _closing(stream)

    @override
    def __next__(self) -> Told:
        return next(self._told)

    def close(self) -> None:
        """End the run where it stands."""
        self._told.close()
        self._stack.close()  # what was never begun has closed nothing


class AsyncToldStream(AsyncIterator[Told]):
    """What AG-UI is told of a run, as an async iterator."""

    def __init__(self, stream: AsyncIterable[Event], telling: Telling) -> None:
        self._told = _awaited(stream, telling)
        self._stack = _async_closing(stream)

    @override
    async def __anext__(self) -> Told:
        return await self._told.__anext__()

    async def aclose(self) -> None:
        """End the run where it stands."""
        await self._told.aclose()
        await self._stack.aclose()  # as above


def _drawn(stream: Iterable[Event], telling: Telling) -> Generator[Told, None, None]:
    failure: Exception | None = None
    with _closing(stream):
        try:
            for event in stream:
                yield from telling.take(event)
        except Exception as error:  # noqa: BLE001  whatever it was, the user interface has to know
            failure = error
        yield from telling.end(failure)


async def _awaited(stream: AsyncIterable[Event], telling: Telling) -> AsyncGenerator[Told, None]:
    failure: Exception | None = None
    async with _async_closing(stream):
        try:
            async for event in stream:
                for told in telling.take(event):
                    yield told
        except Exception as error:  # noqa: BLE001  as above
            failure = error
        for told in telling.end(failure):
            yield told


def _closing(stream: Any) -> ExitStack:
    stack = ExitStack()
    if close := getattr(stream, "close", None):
        stack.callback(close)
    return stack


def _async_closing(stream: Any) -> AsyncExitStack:
    stack = AsyncExitStack()
    if close := getattr(stream, "aclose", None):
        stack.push_async_callback(close)
    return stack
