"""Limits of one run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from toolkit._lazy import needs_extra
from toolkit._messages import Usage
from toolkit._options import check_methods, is_float, is_whole
from toolkit._runner.hints import LIMIT_HINTS

# The most responses of the model that may call tools, by default.
MAX_TURNS = 10

OnLimit: TypeAlias = Literal["answer", "stop", "raise"]

# Asks the model for its last answer. The wording is fixed: agent loops that users come from have the same.
LAST_TURN = "You have used all available tool calls. Summarize what you found and respond to the user."
# The result of a call in the last response, which may have none.
NO_TOOLS_TEXT = "Not run: no tool can be called in the last turn."
# The last message of a conversation with `on_limit="stop"`. The wording is fixed, like that of `LAST_TURN`.
STOP_NOTES: Mapping[str, str] = {
    "max_turns": "Max turns reached ({used}/{limit})",
    "max_tokens": "Max tokens reached ({used}/{limit})",
    "max_seconds": "Max duration reached ({used:g}s/{limit:g}s)",
}
STOP_NOTE = "Limit reached: {name} ({used}/{limit})"

# Seconds for the last answer of a run whose time is up, if `max_seconds_per_turn` is not set.
LAST_SECONDS = 60.0
# Seconds for a response without a limit: a wait with a deadline can be cancelled.
ANY_SECONDS = 31 * 24 * 3600.0


@check_methods()
@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of a million tokens, in any currency.

    Attributes:
        input: Price of the tokens that the model reads.
        output: Price of the tokens that the model writes.
        cached: Price of the tokens in the provider's cache. By default the price of `input`.
        cache_write: Price of the tokens that the provider puts into its cache. By default the price of `input`.

    Raises:
        ValueError: A price is not a number, or below 0.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for name, price in vars(self).items():
            if not (is_float(price) and 0 <= price < math.inf) and (name in ("input", "output") or price is not None):
                raise ValueError(f"{name}={price!r} is not the price of a million tokens, a number of at least 0.")

    @classmethod
    def of(cls, model: str, provider: str | None = None) -> Prices:
        """Return today's prices of a model in US dollars, from the package genai-prices.

        Prices that rise with the length of a request are not included.

        Args:
            model: The model's name, such as "gpt-6-luna".
            provider: The provider's name, such as "openai". By default the known provider of the model.

        Raises:
            ImportError: The extra `prices` is missing.
            ValueError: No prices are known for the model.
        """
        with needs_extra("Prices.of()", "prices"):
            import genai_prices

        def price(**tokens: int) -> float:
            """Compute the price of a million tokens from that of a thousand."""
            usage = genai_prices.Usage(**tokens)
            return float(genai_prices.calc_price(usage, model, provider_id=provider).total_price * 1_000)

        try:
            read = {"input_tokens": 1_000}
            return cls(
                input=price(**read),
                output=price(output_tokens=1_000),
                cached=price(**read, cache_read_tokens=1_000),
                cache_write=price(**read, cache_write_tokens=1_000),
            )
        except LookupError:
            hint = "Write Prices(input=..., output=...), per million tokens."
            raise ValueError(f"No prices are known for the model {model!r}. {hint}") from None

    def compute_cost(self, usage: Usage) -> float:
        """Return the cost of the tokens used."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        parts = ((cached, self.cached), (written, self.cache_write))
        extra = sum(count * (price - self.input) for count, price in parts if price is not None)
        return (usage.input_tokens * self.input + usage.output_tokens * self.output + extra) / 1_000_000


@check_methods(LIMIT_HINTS)
@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one run. None means no limit.

    At `max_turns`, `max_calls`, `max_seconds`, `max_cost` or a maximum number of tokens, the run ends as `on_limit`
    says. Its `finish_reason` is the name of the limit. Calls count in the order in which the model wrote them. The
    steps of a plan count as calls.

    Attributes:
        max_turns: Responses of the model that may call tools, at least 1.
        max_calls: Calls that may run. Further calls are refused.
        max_calls_per_turn: Calls of one response. Further calls are refused.
        max_calls_per_tool: Calls of single tools, by name. Further calls are refused, and the run continues.
        max_seconds: Seconds for the run. Running calls are then cancelled. The final answer has `max_seconds_per_turn`
            more, 60 by default.
        max_seconds_per_turn: Seconds for one response of the model, with its hooks. After that the run fails.
        max_tokens: Tokens that the model reads and writes, in all turns.
        max_input_tokens: Tokens that the model reads, in all turns.
        max_output_tokens: Tokens that the model writes, in all turns.
        max_cost: Cost of the run, at these `prices`.
        prices: Prices of tokens.
        on_limit: "answer" asks the model for a final answer without tools. "stop" ends the run at once, with a last
            message such as `[Agent stopped: Max turns reached (10/10)]`. "raise" raises LimitError.
        max_output_retries: How often the model may correct an answer that does not fit the output type.

    Raises:
        ValueError: A limit has a wrong value.
    """

    max_turns: int | None = MAX_TURNS
    max_calls: int | None = None
    max_calls_per_turn: int = 1024
    max_calls_per_tool: Mapping[str, int] = field(default_factory=dict)
    max_seconds: float | None = None
    max_seconds_per_turn: float | None = None
    max_tokens: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_cost: float | None = None
    prices: Prices | None = None
    on_limit: OnLimit = "answer"
    max_output_retries: int = 2

    def __post_init__(self) -> None:
        if self.on_limit not in get_args(OnLimit):
            raise ValueError(f"on_limit={self.on_limit!r} is not one of 'answer', 'stop', 'raise'.")

        self._check_prices()
        if not isinstance(self.max_calls_per_tool, Mapping):
            raise ValueError(  # noqa: TRY004  like every other wrong limit
                f"max_calls_per_tool={self.max_calls_per_tool!r:.100} does not map names of tools to numbers of calls."
            )

        _check_counts({"max_calls_per_turn": self.max_calls_per_turn, "max_output_retries": self.max_output_retries})
        _check_counts(self.max_calls_per_tool)
        for name in ("max_turns", "max_calls", "max_tokens", "max_input_tokens", "max_output_tokens"):
            limit = getattr(self, name)
            if limit is not None and not is_whole(limit, 1):
                raise ValueError(f"{name}={limit!r} is not a whole number of at least 1. None means no limit.")

        for name in ("max_seconds", "max_seconds_per_turn", "max_cost"):
            limit = getattr(self, name)
            if limit is not None and not (is_float(limit) and limit > 0):
                raise ValueError(f"{name}={limit!r} is not a number above 0. None means no limit.")

    def _check_prices(self) -> None:
        if self.prices is None and self.max_cost is not None:
            raise ValueError("max_cost= needs prices: Limits(max_cost=..., prices=Prices(input=..., output=...)).")
        if self.prices is not None and not isinstance(self.prices, Prices):
            raise ValueError(f"prices={self.prices!r:.100} is not Prices(input=..., output=...), per million tokens.")


def describe_stop(name: str, used: float, limit: float) -> str:
    """Describe the end of a run that has reached a limit."""
    shown = round(used, 2) if used >= 1 else float(f"{used:.3g}")
    note = STOP_NOTES.get(name, STOP_NOTE).format(name=name, used=shown, limit=limit)
    return f"[Agent stopped: {note}]"


def _check_counts(counts: Mapping[str, Any]) -> None:
    for name, count in counts.items():
        if not is_whole(count, 0):
            raise ValueError(f"{name}={count!r} is not a whole number of at least 0.")
