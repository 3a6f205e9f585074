"""`random`: a random integer."""

from __future__ import annotations

from random import Random, SystemRandom
from typing import Any

from toolkit._tools.decorator import tool
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError, ToolError

# The range of 64-bit integers, which most programs can read.
LIMIT = 2**63


def random_tool(source: Random | None = None) -> Tool[..., Any]:
    """Make `random`.

    Args:
        source: Source of random numbers; the system's by default. `Random(7)` returns the same numbers in each process.

    Raises:
        DefinitionError: `source` is not a `random.Random`.
    """
    generator = SystemRandom() if source is None else source
    if not isinstance(generator, Random):
        raise DefinitionError(f"random_tool: source={source!r} is not a random.Random: write Random({source!r}).")

    @tool(name="random", title="Random Number", effect="read")
    def draw_number(min: int, max: int) -> int:  # noqa: A002  names that the model sees
        """Return a random whole number.

        Args:
            min: The smallest possible number.
            max: The largest possible number.
        """
        if not (-LIMIT <= min < LIMIT and -LIMIT <= max < LIMIT):
            raise ToolError(f"invalid range: min={_format_bound(min)}, max={_format_bound(max)}")
        if min > max:
            raise ToolError("min must be <= max")
        return generator.randint(min, max)

    return draw_number


def _format_bound(number: int) -> str:
    return str(number) if -LIMIT <= number < LIMIT else f"a number of {number.bit_length()} bits, max 63"
