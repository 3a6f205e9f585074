"""How a run ends: with a result, whatever it was that ended it."""

from __future__ import annotations

from collections.abc import Sized
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic

from typing_extensions import TypeVar

from toolkit._messages import UNANSWERED, ModelResponse
from toolkit.conversation import Conversation
from toolkit.events import ToolCallFinished
from toolkit.output import Output
from toolkit.runs.inbox import Inbox
from toolkit.runs.result import RunResult

T = TypeVar("T", default=str)


@dataclass(kw_only=True, eq=False)
class Ending(Generic[T]):
    """Makes the result of a run.

    Attributes:
        calls: What came of the calls, by their ids.
        model: Which model it is, for people.
        abandoned: The functions that were given up and may still be at work.
        result: What came of the run, once it has ended.
    """

    conversation: Conversation
    output: Output[T]
    inbox: Inbox
    calls: dict[str, ToolCallFinished] = field(default_factory=dict)
    model: str = ""
    abandoned: Sized = ()
    result: RunResult[T] | None = None

    def end(self, output: Any, reason: str) -> None:
        """Make the result; a text that is no value of the output type is left out."""
        is_text = isinstance(output, str) and reason in (*UNANSWERED, "halted")
        state = self.conversation.state
        calls = (call.id for message in state.messages if isinstance(message, ModelResponse) for call in message.calls)
        self.result = RunResult(
            output=None if is_text and self.output.asked else output,  # type: ignore[arg-type]  # as documented
            messages=state.messages,
            calls=tuple(self.calls[call_id] for call_id in calls if call_id in self.calls),
            usage=state.usage,
            finish_reason=reason,
            model=self.model,
            state=state,
            unread=self.inbox.close(),
            abandoned=len(self.abandoned),
        )

    def cut(self, reason: str) -> None:
        """End the conversation where it stands."""
        self.conversation.end(reason)
        self.end(self.conversation.text, reason)

    def break_off(self, error: BaseException) -> None:
        """Leave a history that is whole, and the result with it."""
        if self.result is None:
            self.cut("error" if isinstance(error, Exception) else "cancelled")
        if not isinstance(error, GeneratorExit):
            with suppress(AttributeError):  # of the user's own class, which has another use for the name
                error.result = self.result  # type: ignore[attr-defined]  # whoever catches it finds what there is
