"""What a knowledge store keeps, and what it can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from typing_extensions import Self

KNOWLEDGE = "knowledge"


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text with where it came from.

    Attributes:
        id: What it is known by: a document of the same id, of the same owner, takes its place.
        content: The text as it was given.
        title: A name for people; of a message, its role; of a memory, its kind.
        source: Where it came from, such as a path, a URL, or "message".
        collection: Which documents it is searched with.
        created_at: When it was kept, in seconds since 1970, UTC; the store says so.
        expires_at: When it is to be forgotten; None where it is kept.
    """

    id: str
    content: str
    title: str = ""
    source: str = ""
    collection: str = KNOWLEDGE
    created_at: float = field(default=0.0, compare=False)
    expires_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A piece of a document, with its embedding: numbers whose direction is its meaning."""

    content: str
    embedding: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A chunk that was found.

    Attributes:
        score: The larger the better: the cosine of a search by embedding; of any other search, good to compare only.
            There it counts how rare a word is, among the texts of all owners.
    """

    document_id: str
    title: str
    source: str
    created_at: float
    chunk_index: int
    content: str
    score: float = field(compare=False)


@runtime_checkable
class KnowledgeStore(Protocol):
    """Documents of one owner, found by what their chunks mean or say. It may be used from any thread.

    Each method raises StoreError where the store cannot do it.
    """

    def owned_by(self, owner: str) -> Self:
        """Give the same store for another owner: neither sees what the other one keeps.

        Raises:
            DefinitionError: The owner is no text, or an empty one.
        """
        ...

    def add(self, document: Document, chunks: Sequence[Chunk], *, model: str = "") -> None:
        """Keep a document with all its chunks, or nothing; it takes the place of one of the same id.

        Nothing is kept where the call that this is done for was called off.

        Args:
            document: The document.
            chunks: Its pieces, in order.
            model: What made the embeddings. All of a store are by one model, and of one length.
        """
        ...

    def search(
        self, embedding: Sequence[float], *, collection: str = KNOWLEDGE, limit: int = 5, model: str = ""
    ) -> list[Hit]:
        """Give the chunks whose embeddings are nearest by their direction, the nearest first."""
        ...

    def search_text(self, query: str, *, collection: str = KNOWLEDGE, limit: int = 5) -> list[Hit]:
        """Give the chunks that say most of the words of a query, the best first; it has words only, no operators."""
        ...

    def documents(self, collection: str = KNOWLEDGE) -> list[Document]:
        """Give the documents of a collection, in the order in which they were kept."""
        ...

    def delete(self, *ids: str) -> int:
        """Remove documents, and all that have expired; give how many of the former there were."""
        ...
