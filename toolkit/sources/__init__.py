"""Tools from elsewhere; each source is imported from its own module, such as `toolkit.sources.openapi`."""

from __future__ import annotations

__all__ = ["openapi"]
