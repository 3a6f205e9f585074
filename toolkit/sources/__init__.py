"""Tools from elsewhere.

openapi    the operations of an OpenAPI document: `from toolkit.sources.openapi import openapi_tools`
"""

from __future__ import annotations

__all__: list[str] = []  # each source is imported from its own module
