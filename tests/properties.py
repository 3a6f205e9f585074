"""Settings of property tests: how many examples each tries."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

PERCENT = int(os.environ.get("TOOLKIT_EXAMPLES", "20"))
FEWEST = 5


def examples(count: int, **more: Any) -> settings:
    """Make settings with TOOLKIT_EXAMPLES percent of a number of examples, and more settings of Hypothesis."""
    return settings(max_examples=max(FEWEST, count * PERCENT // 100), **more)
