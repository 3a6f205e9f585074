"""A property that is made once, and fits a protocol that has a property of its name.

pyright does not take `functools.cached_property` for a property.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from builtins import property as kept
else:
    from functools import cached_property as kept

__all__ = ["kept"]
