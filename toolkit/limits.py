"""How far a run may go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args

from toolkit.messages import Usage

OnLimit: TypeAlias = Literal["answer", "stop", "raise"]

# The sentence that asks for the last answer, word for word as users of earlier agent loops know it.
LAST_TURN = "You have used all available tool calls. Summarize what you found and respond to the user."
# What its calls are answered with.
NO_TOOLS_TEXT = "Not run: no tool can be called in the last turn."

# Seconds for the last answer of a run whose time is up, where nothing else bounds a turn.
LAST_SECONDS = 60.0
# Seconds for an answer that nothing bounds: whoever waits so can still be called off.
ANY_SECONDS = 31 * 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What a million tokens cost, in any currency."""

    input: float
    output: float

    def cost(self, usage: Usage) -> float:
        """Say what was spent."""
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1_000_000


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one run; None is no bound.

    Attributes:
        turns: Answers of the model that may call tools, at least 1.
        calls: Calls that may be carried out; each further one is refused.
        calls_per_turn: Calls of one answer; those over it are refused.
        per_tool: Calls of single tools, by name; those over it are refused, and the run goes on.
        seconds: Time for the run. What works then is given up.
        turn_seconds: Time for one answer of the model, however slowly it drips in; where that is over, the run fails.
        input_tokens: Tokens that may be read, over all turns.
        output_tokens: Tokens that may be written, over all turns.
        cost: What may be spent, by `prices`.
        prices: What tokens cost.
        on_limit: What happens at the end of any of them: `answer` asks for one last answer without tools, `stop` ends
            the run as it is, `raise` raises LimitError.
        output_retries: How often an answer that does not fit the output type goes back to the model.

    Raises:
        ValueError: A bound is no number that it can be.
    """

    turns: int = 10
    calls: int | None = None
    calls_per_turn: int = 1024
    per_tool: Mapping[str, int] = field(default_factory=dict)
    seconds: float | None = None
    turn_seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    prices: Prices | None = None
    on_limit: OnLimit = "answer"
    output_retries: int = 2

    def __post_init__(self) -> None:
        if not _is_count(self.turns, 1):
            raise ValueError(f"A run needs a whole number of turns, at least 1; max_turns={self.turns!r} is none.")
        if self.on_limit not in get_args(OnLimit):
            raise ValueError(f"on_limit={self.on_limit!r} is not one of 'answer', 'stop', 'raise'.")
        if not _is_count(self.output_retries, 0):
            raise ValueError(f"output_retries={self.output_retries!r} is no whole number of tries, 0 or more.")
        if self.cost is not None and self.prices is None:
            raise ValueError("cost= needs prices=Prices(input=..., output=...), per million tokens.")
        _check_counts({"calls_per_turn": self.calls_per_turn, **self.per_tool})
        _check_numbers({f.name: getattr(self, f.name) for f in fields(self) if f.name in _BOUNDS})

    @property
    def is_timed(self) -> bool:
        """Whether time bounds the run or its turns."""
        return self.seconds is not None or self.turn_seconds is not None

    def used_up(self, *, turns: int, calls: int, usage: Usage, seconds: float) -> str:
        """Name the first bound that is reached; an empty text where none is."""
        used: dict[str, float] = {
            "turns": turns,
            "calls": calls,
            "seconds": seconds,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost": self.prices.cost(usage) if self.prices else 0,
        }
        bounds = ((name, getattr(self, name)) for name in used)
        return next((name for name, bound in bounds if bound is not None and used[name] >= bound), "")


_BOUNDS = frozenset({"calls", "seconds", "turn_seconds", "input_tokens", "output_tokens", "cost"})


def _check_counts(counts: Mapping[str, Any]) -> None:
    for name, count in counts.items():
        if not _is_count(count, 0):
            raise ValueError(f"{name}={count!r} is no number of calls: write a whole number, 0 or more.")


def _check_numbers(bounds: Mapping[str, Any]) -> None:
    for name, bound in bounds.items():
        is_number = isinstance(bound, (int, float)) and not isinstance(bound, bool) and bound > 0
        if bound is not None and not is_number:
            raise ValueError(f"{name}={bound!r} is no bound: write a number above 0, or None for no bound.")


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
