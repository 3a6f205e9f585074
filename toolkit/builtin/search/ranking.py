"""Which pieces of pages answer a question best, by their embeddings."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from toolkit._concurrency.async_backend import AsyncDoor
from toolkit._concurrency.backend import called
from toolkit._concurrency.cancellation import Cancellation
from toolkit.builtin.search.results import Result
from toolkit.stores.knowledge import cosines, packed

Embeddings: TypeAlias = Sequence[Sequence[float]]
# Gives an embedding for each text, sync or async.
Embedding: TypeAlias = Callable[[Sequence[str]], Embeddings | Awaitable[Embeddings]]

# Characters. A piece has about 125 tokens; one that is much shorter says nothing.
LONGEST = 500
SHORTEST = 50


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A piece of a page.

    Attributes:
        result: The page.
        text: The piece.
        score: How near it is to the question, as a cosine; 0 where it was not compared.
    """

    result: Result
    text: str
    score: float = 0.0


def order(piece: Piece) -> float:
    """Sort by it, and the highest score comes first."""
    return -piece.score


def pieces(result: Result, text: str) -> list[Piece]:
    """Part a page: its snippet first, then its text without overlap."""
    snippet = [Piece(result=result, text=result.snippet)] if result.snippet else []
    parts = textwrap.wrap(" ".join(text.split()), LONGEST, break_on_hyphens=False)
    return [*snippet, *(Piece(result=result, text=part) for part in parts if len(part) >= SHORTEST)]


async def ranked(
    embed: Embedding | None, query: str, given: Sequence[Piece], until: Cancellation
) -> list[Piece] | None:
    """Put the pieces nearest to a question first; None where they cannot be compared.

    Raises:
        Cancelled: `until` was called off.
        TimedOut: `until` has no time left.
    """
    if embed is None:
        return None
    if not given:
        return []
    door, texts = AsyncDoor(), [query, *(piece.text for piece in given)]
    try:
        embeddings = await called(embed, (texts,), door)
        scored: list[Piece] | None = await called(_compared, (embeddings, given), door)
    except Exception:  # the pieces are worth something without an order too
        if until:
            raise
        logging.getLogger("toolkit").exception("The results of a search were not ranked: they could not be embedded.")
        scored = None
    return scored


def _compared(embeddings: Embeddings, given: Sequence[Piece]) -> list[Piece]:
    asked, *others = map(packed, embeddings)
    if len(others) != len(given) or {len(asked)} != set(map(len, others)):
        raise ValueError(f"{len(others)} embeddings came for {len(given)} texts, or they differ in length")
    scored = [replace(piece, score=score) for score, piece in cosines(asked, zip(given, others))]
    return sorted(scored, key=order)
