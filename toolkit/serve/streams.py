"""The events of a run as those of another protocol, while they happen.

What must stay true: every part that is opened is closed, however the run ends; no id is open twice at a time; and only
a failure may follow the end of a run.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from inspect import iscoroutine
from typing import Any, ClassVar, TypeAlias, TypeVar

from typing_extensions import override

from toolkit._messages import ToolCall
from toolkit.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    ReasoningDelta,
    ResultsAdded,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnFinished,
    TurnStarted,
)

logger: logging.Logger = logging.getLogger("toolkit")

WireEvent: TypeAlias = dict[str, Any]  # an event of the other protocol
T = TypeVar("T")
Write: TypeAlias = Callable[[WireEvent], T]
STOPPED = frozenset({"cancelled", "stopped"})  # finish reasons of runs that were ended from outside


class EncodedStream(Iterator[T]):
    """The events of a run in another form. Closing the iterator ends the run, even before its first event."""

    def __init__(self, stream: Iterable[Event], encoder: RunEncoder, write: Write[T], last: Sequence[T]) -> None:
        self._stack = ExitStack()
        if close := getattr(stream, "close", None):
            self._stack.callback(close)
        self._events = _iter_encoded(stream, encoder, write, last, self._stack)

    @override
    def __next__(self) -> T:
        return next(self._events)

    def close(self) -> None:
        """End the run now."""
        self._events.close()
        self._stack.close()  # a generator that was never started runs no finally block


class AsyncEncodedStream(AsyncIterator[T]):
    """The events of a run in another form. Closing the iterator ends the run, even before its first event."""

    def __init__(self, stream: AsyncIterable[Event], encoder: RunEncoder, write: Write[T], last: Sequence[T]) -> None:
        self._stack = AsyncExitStack()
        if close := getattr(stream, "aclose", None):
            self._stack.push_async_callback(close)
        self._events = _aiter_encoded(stream, encoder, write, last, self._stack)

    @override
    async def __anext__(self) -> T:
        return await self._events.__anext__()

    async def aclose(self) -> None:
        """End the run now."""
        await self._events.aclose()
        await self._stack.aclose()  # as above


def make_encoded_stream(
    stream: Any, encoder: RunEncoder, write: Write[Any] = lambda event: event, last: Sequence[Any] = ()
) -> Any:
    """Return the events of a stream, encoded and passed through `write`, then `last`; async for an async stream.

    Raises:
        TypeError: The value is not a stream, such as the coroutine of `arun`.
    """
    if not isinstance(stream, (Iterable, AsyncIterable)):
        if iscoroutine(stream):
            stream.close()
        raise TypeError(
            f"A {type(stream).__name__} is not a stream of events: pass runner.astream(...), or runner.stream(...)."
        )
    if isinstance(stream, Iterator) or not isinstance(stream, AsyncIterable):
        return EncodedStream(stream, encoder, write, last)
    return AsyncEncodedStream(stream, encoder, write, last)


def _iter_encoded(
    stream: Iterable[Event], encoder: RunEncoder, write: Write[T], last: Sequence[T], stack: ExitStack
) -> Generator[T, None, None]:
    failure: Exception | None = None
    with stack:
        try:
            for event in stream:
                yield from map(write, encoder.encode(event))
        except Exception as error:  # noqa: BLE001  the user interface must learn of any failure
            failure = error
        yield from map(write, encoder.end(failure))
        yield from last


async def _aiter_encoded(
    stream: AsyncIterable[Event], encoder: RunEncoder, write: Write[T], last: Sequence[T], stack: AsyncExitStack
) -> AsyncGenerator[T, None]:
    failure: Exception | None = None
    async with stack:
        try:
            async for event in stream:
                for encoded in encoder.encode(event):
                    yield write(encoded)
        except Exception as error:  # noqa: BLE001  as above
            failure = error
        for encoded in encoder.end(failure):
            yield write(encoded)
        for line in last:
            yield line


# The method that encodes each event; other events are encoded by `encode_custom`.
METHODS: Mapping[type[Any], str] = {
    RunStarted: "start_run",
    TurnStarted: "start_turn",
    TextDelta: "add_text",
    ReasoningDelta: "add_reasoning",
    TurnFinished: "finish_turn",
    ToolCallStarted: "start_call",
    ToolCallFinished: "finish_call",
    MessageAdded: "add_message",
    ResultsAdded: "add_results",
    ApprovalNeeded: "add_approval",
    RunFinished: "finish_run",
}


@dataclass(kw_only=True)
class RunEncoder(ABC):
    """Encoder of one run: which parts are open, and which were streamed already."""

    protocol: ClassVar[str]
    _turn: int | None = None  # None before the first turn
    _has_calls: bool = False  # whether the last response has calls
    _is_over: bool = False
    _open_parts: list[tuple[str, WireEvent]] = field(default_factory=list)  # kind, and the event that closes it
    _streamed: set[str] = field(default_factory=set)  # kinds of parts that had deltas in this turn
    _call_ids: set[str] = field(default_factory=set)

    def encode(self, event: Event) -> Iterator[WireEvent]:
        """Encode one event."""
        encoded: Iterator[WireEvent] = getattr(self, METHODS.get(type(event), "encode_custom"))(event)
        return encoded

    def end(self, failure: Exception | None) -> Iterator[WireEvent]:
        """Close the open parts, and report a run that failed or did not end. An exception's text is only logged."""
        if self._is_over and failure is None:
            return
        yield from self._close_parts()
        if failure is None:
            yield self._make_failure("The events ended before the run.", "left")
            return
        logger.error("A run failed while its events were encoded for %s.", self.protocol, exc_info=failure)
        name = type(failure).__name__
        yield self._make_failure(f"The run failed: {name}.", name)

    @abstractmethod
    def start_run(self, event: RunStarted) -> Iterator[WireEvent]:
        """Open the run. Its ids are those of the client, or the run's own."""

    def start_turn(self, event: TurnStarted) -> Iterator[WireEvent]:
        """Close the previous turn, and open the next."""
        yield from self._close_parts()
        self._turn = event.turn
        self._streamed.clear()
        yield self._open_turn(event.turn)

    @abstractmethod
    def add_text(self, event: TextDelta) -> Iterator[WireEvent]:
        """Add a delta to the turn's text. Open the text first if it is not open."""

    @abstractmethod
    def add_reasoning(self, event: ReasoningDelta) -> Iterator[WireEvent]:
        """Add a delta to a part of reasoning. Open the next part if none is open."""

    def finish_turn(self, event: TurnFinished) -> Iterator[WireEvent]:
        """Encode text and reasoning that were not streamed, then the calls."""
        response = event.response
        if response.reasoning and "reasoning" not in self._streamed:
            yield from self.add_reasoning(ReasoningDelta(response.reasoning))
        if response.text and "text" not in self._streamed:
            yield from self.add_text(TextDelta(response.text))
        yield from self._close_parts("reasoning", "text")
        self._has_calls = bool(response.calls)
        for call in response.calls:
            yield from self._encode_call_once(call)

    def start_call(self, event: ToolCallStarted) -> Iterator[WireEvent]:
        """Encode a call that starts before its turn ends. A call before the first turn was encoded before the pause."""
        return iter(()) if self._turn is None else self._encode_call_once(event.call)

    @abstractmethod
    def finish_call(self, event: ToolCallFinished) -> Iterator[WireEvent]:
        """Encode a call's result."""

    @abstractmethod
    def add_message(self, event: MessageAdded) -> Iterator[WireEvent]:
        """Encode a message that the user added."""

    def add_results(self, _: ResultsAdded) -> Iterator[WireEvent]:
        """Encode nothing: each result was encoded at the end of its call."""
        return iter(())

    @abstractmethod
    def add_approval(self, event: ApprovalNeeded) -> Iterator[WireEvent]:
        """Encode a call that waits for approval. If it still waits at the end, the run is interrupted."""

    @abstractmethod
    def encode_custom(self, event: Event) -> Iterator[WireEvent]:
        """Encode an event that the protocol has no type for."""

    @abstractmethod
    def finish_run(self, event: RunFinished) -> Iterator[WireEvent]:
        """Close the run, with its outcome."""

    @abstractmethod
    def _open_turn(self, turn: int) -> WireEvent: ...

    @abstractmethod
    def _encode_call(self, call: ToolCall) -> Iterator[WireEvent]: ...

    @abstractmethod
    def _make_failure(self, message: str, code: str) -> WireEvent: ...

    def _add_answer(self, event: RunFinished) -> Iterator[WireEvent]:
        """Encode an answer that is not the text of a turn: that of a Halt, or the result of a tool."""
        is_text = event.finish_reason == "stop" and "text" in self._streamed and not self._has_calls
        if event.output and event.finish_reason in ("stop", "halted") and not is_text:
            yield from self._close_parts("text")
            yield from self.add_text(TextDelta(event.output))

    def _encode_call_once(self, call: ToolCall) -> Iterator[WireEvent]:
        if call.id in self._call_ids:
            return
        self._call_ids.add(call.id)
        yield from self._encode_call(call)

    def _open_part(self, kind: str, opening: WireEvent, closing: str) -> WireEvent:
        """Remember the event that closes a part: the same keys except the type and the role."""
        identity = {key: value for key, value in opening.items() if key not in ("type", "role")}
        self._open_parts.append((kind, {"type": closing, **identity}))
        return opening

    def _close_parts(self, *kinds: str) -> Iterator[WireEvent]:
        """Close the open parts of these kinds, by default of all, the last one first."""
        closing = [item for item in self._open_parts if not kinds or item[0] in kinds]
        self._open_parts = [item for item in self._open_parts if item not in closing]
        return (event for _, event in reversed(closing))

    def _is_open(self, kind: str) -> bool:
        return any(name == kind for name, _ in self._open_parts)
