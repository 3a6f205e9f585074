"""How far the tools for a model that writes code go."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit._guards.options import seconds, whole


@dataclass(frozen=True, kw_only=True)
class CodingLimits:
    """How far the tools go; sizes in bytes.

    Attributes:
        max_bytes: Of a text file that is read without `offset` and `limit`, or edited.
        max_paged: Of a text file that is read in part, or searched.
        max_image: Of a picture.
        list_seconds: For one listing.
        search_seconds: For one search.

    Raises:
        DefinitionError: A size is no whole number above 0, or a time is none.
    """

    max_bytes: int = 1024 * 1024
    max_paged: int = 64 * 1024 * 1024
    max_image: int = 20 * 1024 * 1024
    list_seconds: float = 10
    search_seconds: float = 30

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_paged", "max_image"):
            whole(name, getattr(self, name))
        for name in ("list_seconds", "search_seconds"):
            seconds(name, getattr(self, name))
