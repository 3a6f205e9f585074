"""What each provider understands: its column in the table of keywords, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from toolkit.dialects.keywords import COLUMNS, KEYWORDS, Support


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a provider understands.

    Attributes:
        column: Its column in the table.
        strict: Whether it enforces what it is sent.
        keys: Which names of properties it takes, as a regular expression; empty where it takes all.
        limits: How big a schema may be, by the names of `bounds.MEASURES`.
    """

    name: str
    column: str
    strict: bool = False
    keys: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)

    def support(self, keyword: str, sort: str = "") -> Support | None:
        """Tell what becomes of a keyword, or of one sort of its values; None where the table has no such row."""
        row = KEYWORDS.get(f"{keyword}={sort}") or KEYWORDS.get(keyword)
        return row[COLUMNS.index(self.column)] if row else None

    def sends(self, keyword: str, sort: str = "") -> bool:
        """Tell whether a keyword goes out as it is."""
        return self.support(keyword, sort) == "sent"


# Anthropic's API refuses a whole request with "Property keys should match pattern ..."; the others have not documented
# what they take, and refuse no key that is good there.
_KEYS = r"[a-zA-Z0-9_.-]{1,64}"

PLAIN = Rules(name="plain", column="plain")
GRAMMAR = Rules(name="grammar", column="grammar")  # of a server that compiles a schema itself
ANTHROPIC = Rules(name="anthropic", column="plain", keys=_KEYS)
STRICT = Rules(
    name="strict",
    column="strict",
    strict=True,
    keys=_KEYS,
    limits={
        "properties": 5000,
        "levels of objects": 10,
        "characters in names and values": 120_000,
        "values in enumerations": 1000,
        "characters in one enumeration": 15_000,
    },
)
ANTHROPIC_STRICT = Rules(
    name="anthropic_strict",
    column="anthropic",
    strict=True,
    keys=_KEYS,
    limits={"optional properties": 24, "unions": 16},
)
GEMINI = Rules(name="gemini", column="gemini", keys=r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
MINIMAL = Rules(name="minimal", column="minimal", keys=_KEYS)


@cache
def rewrites(column: str) -> bool:
    """Tell whether some keywords are rewritten; else nothing worse befalls them than to be said in words."""
    return any(row[COLUMNS.index(column)] == "rewritten" for row in KEYWORDS.values())


@cache
def always_sent(column: str) -> frozenset[str]:
    """List the keywords that go out as they are, whatever their value."""
    return frozenset(KEYWORDS.keys() - _changes(column))


@cache
def quoted_changes(column: str) -> tuple[bytes, ...]:
    """List the keywords that do not always go out as they are, as they stand in JSON."""
    return tuple(f'"{keyword}"'.encode() for keyword in _changes(column))


def _changes(column: str) -> set[str]:
    place = COLUMNS.index(column)
    return {keyword.partition("=")[0] for keyword, row in KEYWORDS.items() if row[place] != "sent"}
