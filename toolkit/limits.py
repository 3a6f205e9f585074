"""How far a run may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

OnLimit: TypeAlias = Literal["answer", "stop", "raise"]

# The sentence that asks for the last answer, word for word as users of earlier agent loops know it.
LAST_TURN = "You have used all available tool calls. Summarize what you found and respond to the user."
# What its calls are answered with.
NO_TOOLS_TEXT = "Not run: no tool can be called in the last turn."


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one run.

    Attributes:
        turns: Answers of the model that may call tools, at least 1.
        on_limit: What happens then: `answer` asks for one last answer without tools, `stop` ends the run as it is,
            `raise` raises LimitError.
        output_retries: How often an answer that does not fit the output type goes back to the model.
    """

    turns: int = 10
    on_limit: OnLimit = "answer"
    output_retries: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.turns, int) or self.turns < 1:
            raise ValueError(f"A run needs a whole number of turns, at least 1; max_turns={self.turns!r} is none.")
        if self.on_limit not in ("answer", "stop", "raise"):
            raise ValueError(f"on_limit={self.on_limit!r} is not one of 'answer', 'stop', 'raise'.")
        if not isinstance(self.output_retries, int) or self.output_retries < 0:
            raise ValueError(f"output_retries={self.output_retries!r} is no whole number of tries, 0 or more.")
