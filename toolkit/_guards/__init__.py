"""What several ready tools keep themselves within."""

from __future__ import annotations
