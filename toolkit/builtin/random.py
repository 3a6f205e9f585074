"""`random`: a whole number by chance."""

from __future__ import annotations

from random import Random, SystemRandom
from typing import Any

from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError, ToolError

# What most programs that read the number can hold.
LIMIT = 2**63


def random_tool(source: Random | None = None) -> Tool[..., Any]:
    """Make `random`.

    Args:
        source: Where chance comes from; the system by default. `Random(7)` gives the same numbers each time.

    Raises:
        DefinitionError: It is no Random.
    """
    chance = SystemRandom() if source is None else source
    if not isinstance(chance, Random):
        raise DefinitionError(f"random_tool: source={source!r} is no random.Random: write Random({source!r}).")

    @tool(name="random", title="Random Number", effect="read")
    def drawn(min: int, max: int) -> int:  # noqa: A002  the model's words for it
        """Draw a whole number by chance.

        Args:
            min: The smallest number that may come.
            max: The largest number that may come.
        """
        if not (-LIMIT <= min < LIMIT and -LIMIT <= max < LIMIT):
            raise ToolError(f"invalid range: min={_shown(min)}, max={_shown(max)}")
        if min > max:
            raise ToolError("min must be <= max")
        return chance.randint(min, max)

    return drawn


def _shown(number: int) -> str:
    return str(number) if -LIMIT <= number < LIMIT else f"a number of {number.bit_length()} bits, max 63"
