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
from toolkit.display.formatting import LineWriter, get_progress_text, shorten
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

# Characters of one argument of a call, and of a call that only labels a text.
MAX_ARGUMENT = 80
MAX_CALL = 40
# Seconds from which the duration of a call is written.
SLOW = 1.0


class EventStream(Protocol[R_co]):
    """The events of a run, and its result after the last one, as `Runner.stream` returns them."""

    def __iter__(self) -> Iterator[Event]: ...
    def __enter__(self) -> object: ...
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> object: ...
    @property
    def result(self) -> R_co: ...  # noqa: D102


class AsyncEventStream(Protocol[R_co]):
    """The same for an event loop, as `Runner.astream` returns them."""

    def __aiter__(self) -> AsyncIterator[Event]: ...
    async def __aenter__(self) -> object: ...
    async def __aexit__(self, kind: Any, error: Any, trace: Any, /) -> object: ...
    @property
    def result(self) -> R_co: ...  # noqa: D102


def show(stream: EventStream[R_co], question: str = "", out: TextIO | None = None) -> R_co:
    """Print a run while it happens, and return its result.

    Args:
        stream: The stream from `Runner.stream`.
        question: Printed first.
        out: Standard output by default. Only a terminal gets colours (none if NO_COLOR is set) and progress that is
            overwritten.

    Raises:
        TypeError: It is not a stream.

    Example:
        >>> from toolkit import Runner
        >>> from toolkit.testing import ScriptedModel
        >>> _ = show(Runner(model=ScriptedModel(["Hello."])).stream("Hi!"), "Hi!")
        Question  Hi!
        Answer    Hello.
    """
    if not hasattr(stream, "__enter__"):
        raise _make_stream_error(stream, "show(runner.stream(prompt))")
    with stream:
        for _ in _follow(stream, _start_transcript(question, out)):
            pass
        return stream.result


async def ashow(stream: AsyncEventStream[R_co], question: str = "", out: TextIO | None = None) -> R_co:
    """Print a run while it happens in the caller's event loop, and return its result.

    Args:
        stream: The stream from `Runner.astream`.
        question: As in `show`.
        out: As in `show`.

    Raises:
        TypeError: It is not a stream.
    """
    if not hasattr(stream, "__aenter__"):
        raise _make_stream_error(stream, "await ashow(runner.astream(prompt))")
    async with stream:
        async for _ in _afollow(stream, _start_transcript(question, out)):
            pass
        return stream.result


@overload
def follow(events: AsyncIterable[Event], out: TextIO | None = None) -> AsyncGenerator[Event, None]: ...
@overload
def follow(events: Iterable[Event], out: TextIO | None = None) -> Generator[Event, None, None]: ...
def follow(events: Any, out: TextIO | None = None) -> Any:
    """Print events as `show` does, and yield each of them; an async stream gives an async iterator.

    Leaving early ends the run.
    """
    transcript = Transcript(out)
    return _afollow(events, transcript) if isinstance(events, AsyncIterable) else _follow(events, transcript)


class Transcript:
    """Writer of events as labelled lines.

    Args:
        out: Standard output by default.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._lines = LineWriter(out or sys.stdout)
        self._call_count = 0  # in this turn
        self._has_answer = False

    def add(self, event: Event) -> None:
        """Write an event; several kinds have nothing to write."""
        if write := _WRITERS.get(type(event)):
            write(self, event)

    def write(self, label: str, text: str) -> None:
        """Write one labelled text."""
        self._lines.write(label, text)

    def end_line(self) -> None:
        """End an unfinished line."""
        self._lines.end_line()

    def start_turn(self, _: TurnStarted) -> None:
        """Start a turn."""
        self._call_count, self._has_answer = 0, False

    def write_answer(self, event: TextDelta) -> None:
        """Write the next part of the answer."""
        self._lines.write_part("Answer", event.text)
        self._has_answer = True

    def write_call(self, event: ToolCallStarted) -> None:
        """Write a call, and the model's reason for it."""
        self._call_count += 1
        self.write("Call", format_call(event.call))
        if event.call.reasoning:
            self.write("Reasoning", event.call.reasoning)

    def write_progress(self, event: ToolCallUpdated) -> None:
        """Write the progress of a call."""
        self._lines.write_status("Progress", self._name_call(event.call, get_progress_text(event)))

    def write_retry(self, event: ToolCallRetried) -> None:
        """Write that a call is retried."""
        reason = f"after {type(event.error).__name__}, in {event.seconds:.1f} s"
        self.write("Retry", self._name_call(event.call, reason))

    def write_abandoned(self, event: ToolCallAbandoned) -> None:
        """Write that a function still runs after its call ended."""
        self.write("Abandoned", f"{format_call(event.call)}: its function works on, one of {event.count}")

    def write_approval(self, event: ApprovalNeeded) -> None:
        """Write that a call waits for approval."""
        reason = f": {event.approval.reason}" if event.approval.reason else ""
        self.write("Approval", f"{format_call(event.approval.call)} waits{reason}")

    def write_result(self, event: ToolCallFinished) -> None:
        """Write a result."""
        note = f"  ({event.seconds:.1f} s)" if event.seconds >= SLOW else ""
        label = "Error" if event.result.is_error else "Result"
        self._lines.write(label, self._name_call(event.call, event.result.text or ""), note)

    def write_user(self, event: MessageAdded) -> None:
        """Write a message that the user added during the run."""
        self.write("User", event.message.text)

    def write_limit(self, event: LimitReached) -> None:
        """Write which limit was reached."""
        self.write("Limit", event.limit)

    def finish_run(self, event: RunFinished) -> None:
        """Write an answer that was not streamed, and a finish reason other than `stop`."""
        if not self._has_answer and event.output:
            self._lines.write_part("Answer", event.output)
        self.end_line()
        if event.finish_reason != "stop":
            self.write("Ended", f"by {event.finish_reason}")

    def _name_call(self, call: ToolCall, text: str) -> str:
        """Put the call in front of a text, where a turn has several calls."""
        return text if self._call_count == 1 else f"{shorten(format_call(call), MAX_CALL)}: {text}"


_WRITERS: Mapping[type[Any], Callable[[Transcript, Any], None]] = {
    TurnStarted: Transcript.start_turn,
    TextDelta: Transcript.write_answer,
    ToolCallStarted: Transcript.write_call,
    ToolCallUpdated: Transcript.write_progress,
    ToolCallRetried: Transcript.write_retry,
    ToolCallAbandoned: Transcript.write_abandoned,
    ApprovalNeeded: Transcript.write_approval,
    ToolCallFinished: Transcript.write_result,
    MessageAdded: Transcript.write_user,
    LimitReached: Transcript.write_limit,
    RunFinished: Transcript.finish_run,
}


def format_call(call: ToolCall) -> str:
    """Write a call as Python would, long arguments cut: `add(a=17, b=25)`."""
    try:
        arguments = from_json(call.arguments)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        return f"{call.name}({shorten(call.arguments, MAX_ARGUMENT)})"
    return f"{call.name}({', '.join(_format_arguments(arguments))})"


def _format_arguments(arguments: Mapping[str, Any]) -> Iterator[str]:
    return (f"{name}={shorten(repr(value), MAX_ARGUMENT)}" for name, value in arguments.items())


def _make_stream_error(value: object, remedy: str) -> TypeError:
    return TypeError(f"A run is printed while it happens, and this is a {type(value).__name__}. Write {remedy}.")


def _start_transcript(question: str, out: TextIO | None) -> Transcript:
    transcript = Transcript(out)
    if question:
        transcript.write("Question", question)
    return transcript


def _follow(events: Iterable[Event], transcript: Transcript) -> Generator[Event, None, None]:
    with ExitStack() as stack:
        stack.callback(transcript.end_line)
        if close := getattr(events, "close", None):
            stack.callback(close)
        for event in events:
            transcript.add(event)
            yield event


async def _afollow(events: AsyncIterable[Event], transcript: Transcript) -> AsyncGenerator[Event, None]:
    async with AsyncExitStack() as stack:
        stack.callback(transcript.end_line)
        if close := getattr(events, "aclose", None):
            stack.push_async_callback(close)
        async for event in events:
            transcript.add(event)
            yield event
