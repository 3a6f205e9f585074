"""How far a run may go."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeGuard, get_args

from toolkit._messages import Usage
from toolkit._options import check_fields

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
    """What a million tokens cost, in any currency.

    Raises:
        ValueError: A price is no number, or below 0.
    """

    input: float
    output: float

    def __post_init__(self) -> None:
        for name, price in (("input", self.input), ("output", self.output)):
            if not (_is_number(price) and 0 <= price < math.inf):
                raise ValueError(f"{name}={price!r} is no price: write a number, 0 or more, for a million tokens.")

    def cost(self, usage: Usage) -> float:
        """Say what was spent."""
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1_000_000


@check_fields
@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one run; a bound that may be None is none then.

    Calls count in the order in which the model wrote them, whichever of them wait for others; the steps of a plan do,
    too.

    Attributes:
        turns: Answers of the model that may call tools, at least 1.
        calls: Calls that may be carried out; each further one is refused.
        calls_per_turn: Calls of one answer; those over it are refused.
        per_tool: Calls of single tools, by name; those over it are refused, and the run goes on.
        seconds: Time for the run. What works then is given up; the last answer has `turn_seconds` more, 60 by default.
        turn_seconds: Time for one answer of the model, however slowly it drips in, and the hooks around it; where that
            is over, the run fails.
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
            raise ValueError(f"Every run has a bound of turns, at least 1; max_turns={self.turns!r} is none.")
        if self.on_limit not in get_args(OnLimit):
            raise ValueError(f"on_limit={self.on_limit!r} is not one of 'answer', 'stop', 'raise'.")
        if not _is_count(self.output_retries, 0):
            raise ValueError(f"output_retries={self.output_retries!r} is no whole number of tries, 0 or more.")
        _check_prices(self.prices, self.cost)
        _check_counts({"calls_per_turn": self.calls_per_turn})
        _check_per_tool(self.per_tool)
        for name in ("calls", "input_tokens", "output_tokens"):
            _check_bound(name, getattr(self, name), _is_count(getattr(self, name), 1), "a whole number, at least 1")
        for name in ("seconds", "turn_seconds", "cost"):
            _check_bound(name, getattr(self, name), _is_positive(getattr(self, name)), "a number above 0")

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


def _check_counts(counts: Mapping[str, Any]) -> None:
    for name, count in counts.items():
        if not _is_count(count, 0):
            raise ValueError(f"{name}={count!r} is no number of calls: write a whole number, 0 or more.")


def _check_per_tool(counts: object) -> None:
    if not isinstance(counts, Mapping):
        raise ValueError(  # noqa: TRY004  as every other bound that is none
            f"per_tool={counts!r} is no mapping of tool names to numbers of calls."
        )
    _check_counts(counts)


def _check_prices(prices: object, cost: float | None) -> None:
    if prices is None and cost is not None:
        raise ValueError("cost= needs prices=Prices(input=..., output=...), per million tokens.")
    if prices is not None and not isinstance(prices, Prices):
        raise ValueError(f"prices={prices!r} are none: write Prices(input=..., output=...), per million tokens.")


def _check_bound(name: str, bound: object, fits: bool, what: str) -> None:  # noqa: FBT001  what was found
    if bound is not None and not fits:
        raise ValueError(f"{name}={bound!r} is no bound: write {what}, or None for no bound.")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_positive(value: object) -> bool:
    return _is_number(value) and value > 0


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
