"""The size of long tests: how many examples and combinations they try, by TOOLKIT_EXAMPLES."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

from hypothesis import settings

PERCENT = int(os.environ.get("TOOLKIT_EXAMPLES", "20"))
IS_WHOLE = PERCENT >= 100
FEWEST = 5


def examples(count: int, **more: Any) -> settings:
    """Make settings with TOOLKIT_EXAMPLES percent of a number of examples, and more settings of Hypothesis."""
    return settings(max_examples=max(FEWEST, count * PERCENT // 100), **more)


def combine(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return all combinations of values at 100 percent; below, those of all axes but the last, which takes turns."""
    numbered = [list(enumerate(axis)) for axis in axes]
    return [
        tuple(value for _, value in row)
        for row in itertools.product(*numbered)
        if IS_WHOLE or sum(number for number, _ in row) % len(numbered[-1]) == 0
    ]


def scale(size: int) -> int:
    """Return TOOLKIT_EXAMPLES percent of a size, and no more than all of it."""
    return size * min(PERCENT, 100) // 100
