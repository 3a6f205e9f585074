"""A run put away: plain data, enough to go on in another process."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

from toolkit.errors import ConversationError
from toolkit.messages import Message, Usage, message_from_dict, message_to_dict

Phase: TypeAlias = Literal["asking", "calling", "finished"]


@dataclass(frozen=True, kw_only=True)
class RunState:
    """A run put away: plain data, enough to go on in another process.

    Attributes:
        turn: Answers of the model so far.
        reason: Why the run ended; empty while it has not.
        last: Whether the next answer is the last, without tools.
        empty: How many answers in a row said nothing.
        retries: How many answers were refused.
    """

    run_id: str
    messages: tuple[Message, ...]
    phase: Phase = "asking"
    turn: int = 0
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    reason: str = ""
    last: bool = False
    empty: int = 0
    retries: int = 0

    def to_json(self) -> str:
        """Write the state as a JSON text."""
        messages = [message_to_dict(message) for message in self.messages]
        return json.dumps({**asdict(replace(self, messages=())), "messages": messages}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> RunState:
        """Read what `to_json` wrote.

        Raises:
            ConversationError: It is something else.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            messages = tuple(map(message_from_dict, data.pop("messages")))
            state = cls(messages=messages, usage=Usage(**data.pop("usage")), **data)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConversationError(f"This is not the state of a run: {type(error).__name__}: {error}") from error
        if state.phase not in get_args(Phase):
            raise ConversationError(f"This is not the state of a run: no run is {state.phase!r}.")
        return state
