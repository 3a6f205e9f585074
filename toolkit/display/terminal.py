"""A run as a transcript in a terminal or a pipe, line by line as it happens."""

from __future__ import annotations

import sys
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Protocol, TextIO, overload

from pydantic_core import from_json
from typing_extensions import TypeVar

from toolkit._messages import ToolCall
from toolkit.display.formatting import Lines, shortened, told
from toolkit.events import (
    ApprovalNeeded,
    Event,
    LimitReached,
    MessageAdded,
    RunFinished,
    TextDelta,
    ToolCallAbandoned,
    ToolCallFinished,
    ToolCallRetried,
    ToolCallStarted,
    ToolCallUpdated,
    TurnStarted,
)

R_co = TypeVar("R_co", covariant=True)

# Characters of one argument of a call, and of a call where it only says whose text follows.
MAX_ARGUMENT = 80
MAX_CALL = 40
# Seconds from which on it is told how long a call took.
SLOW = 1.0


class EventStream(Protocol[R_co]):
    """The events of a run, and its result once they have ended: what `Runner.stream` returns."""

    def __iter__(self) -> Iterator[Event]: ...
    def __enter__(self) -> object: ...
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> object: ...
    @property
    def result(self) -> R_co: ...  # noqa: D102


class AsyncEventStream(Protocol[R_co]):
    """The same for an event loop: what `Runner.astream` returns."""

    def __aiter__(self) -> AsyncIterator[Event]: ...
    async def __aenter__(self) -> object: ...
    async def __aexit__(self, kind: Any, error: Any, trace: Any, /) -> object: ...
    @property
    def result(self) -> R_co: ...  # noqa: D102


def show(stream: EventStream[R_co], question: str = "", out: TextIO | None = None) -> R_co:
    """Print a run while it happens, and give its result.

    Args:
        stream: What `Runner.stream` gave.
        question: Printed first.
        out: Where to; standard output by default. Colours, and progress that is overwritten, only where a person
            looks; no colours with NO_COLOR set.

    Raises:
        TypeError: It is no stream.

    Example:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> _ = show(Runner(model=ScriptedModel(["Hello."])).stream("Hi!"), "Hi!")
        Question  Hi!
        Answer    Hello.
    """
    if not hasattr(stream, "__enter__"):
        raise _no_stream(stream, "show(runner.stream(prompt))")
    with stream:
        for _ in _followed(stream, _begun(question, out)):
            pass
        return stream.result


async def ashow(stream: AsyncEventStream[R_co], question: str = "", out: TextIO | None = None) -> R_co:
    """Print a run while it happens in the caller's event loop, and give its result.

    Args:
        stream: What `Runner.astream` gave.
        question: As in `show`.
        out: As in `show`.

    Raises:
        TypeError: It is no stream.
    """
    if not hasattr(stream, "__aenter__"):
        raise _no_stream(stream, "await ashow(runner.astream(prompt))")
    async with stream:
        async for _ in _afollowed(stream, _begun(question, out)):
            pass
        return stream.result


@overload
def follow(events: AsyncIterable[Event], out: TextIO | None = None) -> AsyncGenerator[Event, None]: ...
@overload
def follow(events: Iterable[Event], out: TextIO | None = None) -> Generator[Event, None, None]: ...
def follow(events: Any, out: TextIO | None = None) -> Any:
    """Print events as `show` does, and pass each of them on; of an async stream, as an async iterator.

    Leaving early ends the run.
    """
    transcript = Transcript(out)
    return _afollowed(events, transcript) if isinstance(events, AsyncIterable) else _followed(events, transcript)


class Transcript:
    """Writes events as labelled lines.

    Args:
        out: Where to; standard output by default.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._lines = Lines(out or sys.stdout)
        self._together = 0  # calls of this turn
        self._answered = False

    def add(self, event: Event) -> None:
        """Write what an event has for people to read; several have nothing."""
        if tell := _TELLERS.get(type(event)):
            tell(self, event)

    def line(self, label: str, text: str) -> None:
        """Write one labelled text."""
        self._lines.line(label, text)

    def end(self) -> None:
        """Come to the beginning of a line, whatever the run came to."""
        self._lines.end()

    def turn(self, _: TurnStarted) -> None:
        """Begin a turn."""
        self._together, self._answered = 0, False

    def answer(self, event: TextDelta) -> None:
        """Go on with the answer."""
        self._lines.add("Answer", event.text)
        self._answered = True

    def call(self, event: ToolCallStarted) -> None:
        """Write a call, and the model's reason for it."""
        self._together += 1
        self.line("Call", called(event.call))
        if event.call.reasoning:
            self.line("Reasoning", event.call.reasoning)

    def progress(self, event: ToolCallUpdated) -> None:
        """Show how far a call is."""
        self._lines.status("Progress", self._of(event.call, told(event)))

    def retry(self, event: ToolCallRetried) -> None:
        """Write that a try has failed."""
        why = f"after {type(event.error).__name__}, in {event.seconds:.1f} s"
        self.line("Retry", self._of(event.call, why))

    def abandoned(self, event: ToolCallAbandoned) -> None:
        """Write that a function works on."""
        self.line("Abandoned", f"{called(event.call)}: its function works on, one of {event.count}")

    def approval(self, event: ApprovalNeeded) -> None:
        """Write that a call waits."""
        reason = f": {event.approval.reason}" if event.approval.reason else ""
        self.line("Approval", f"{called(event.approval.call)} waits{reason}")

    def result(self, event: ToolCallFinished) -> None:
        """Write a result."""
        note = f"  ({event.seconds:.1f} s)" if event.seconds >= SLOW else ""
        label = "Error" if event.result.is_error else "Result"
        self._lines.line(label, self._of(event.call, event.result.text or ""), note)

    def user(self, event: MessageAdded) -> None:
        """Write what the user said meanwhile."""
        self.line("User", event.message.text)

    def limit(self, event: LimitReached) -> None:
        """Write which limit was reached."""
        self.line("Limit", event.limit)

    def close(self, event: RunFinished) -> None:
        """Write an answer that did not come in pieces, and an end that is none."""
        if not self._answered and event.output:
            self._lines.add("Answer", event.output)
        self.end()
        if event.finish_reason != "stop":
            self.line("Ended", f"by {event.finish_reason}")

    def _of(self, call: ToolCall, text: str) -> str:
        """Say whose text it is, where a turn has several calls."""
        return text if self._together == 1 else f"{shortened(called(call), MAX_CALL)}: {text}"


_TELLERS: Mapping[type[Any], Callable[[Transcript, Any], None]] = {
    TurnStarted: Transcript.turn,
    TextDelta: Transcript.answer,
    ToolCallStarted: Transcript.call,
    ToolCallUpdated: Transcript.progress,
    ToolCallRetried: Transcript.retry,
    ToolCallAbandoned: Transcript.abandoned,
    ApprovalNeeded: Transcript.approval,
    ToolCallFinished: Transcript.result,
    MessageAdded: Transcript.user,
    LimitReached: Transcript.limit,
    RunFinished: Transcript.close,
}


def called(call: ToolCall) -> str:
    """Write a call as Python would, long arguments cut: `add(a=17, b=25)`."""
    try:
        arguments = from_json(call.arguments)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        return f"{call.name}({shortened(call.arguments, MAX_ARGUMENT)})"
    return f"{call.name}({', '.join(_given(arguments))})"


def _given(arguments: Mapping[str, Any]) -> Iterator[str]:
    return (f"{name}={shortened(repr(value), MAX_ARGUMENT)}" for name, value in arguments.items())


def _no_stream(given: object, remedy: str) -> TypeError:
    return TypeError(f"A run is printed while it happens, and this is a {type(given).__name__}. Write {remedy}.")


def _begun(question: str, out: TextIO | None) -> Transcript:
    transcript = Transcript(out)
    if question:
        transcript.line("Question", question)
    return transcript


def _followed(events: Iterable[Event], transcript: Transcript) -> Generator[Event, None, None]:
    with ExitStack() as stack:
        stack.callback(transcript.end)
        if close := getattr(events, "close", None):
            stack.callback(close)
        for event in events:
            transcript.add(event)
            yield event


async def _afollowed(events: AsyncIterable[Event], transcript: Transcript) -> AsyncGenerator[Event, None]:
    async with AsyncExitStack() as stack:
        stack.callback(transcript.end)
        if close := getattr(events, "aclose", None):
            stack.push_async_callback(close)
        async for event in events:
            transcript.add(event)
            yield event
