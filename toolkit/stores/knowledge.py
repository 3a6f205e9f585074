"""Documents with embeddings, in a SQLite file or in memory, found by meaning.

An embedding is stored with length one, as little-endian 32-bit floats, so the cosine of two is their dot product. A
search compares the query with every embedding: with 100,000 of 384 numbers each it takes 0.2 s with numpy, and 1.2 s
without (2 s on Python 3.10 and 3.11). SQLite extensions that search faster cannot be loaded by many Python builds.
"""

from __future__ import annotations

import heapq
import math
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from operator import mul
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from typing_extensions import Self, override

from toolkit._concurrency.cancellation import check_cancelled
from toolkit._guards.options import check_number, check_sync_function, check_type
from toolkit.errors import DefinitionError, StoreError
from toolkit.stores.database import MEMORY, Layout, SQLiteStore

if TYPE_CHECKING:
    import sqlite3

KNOWLEDGE = "knowledge"

# Embeddings that are compared at once.
BATCH = 1024
NO_EMBEDDING = "an embedding is a list of at least one finite number"

DAMAGED = "The store is damaged, or has data that this library did not write: restore it from a backup."

LAYOUT = Layout(
    holds="knowledge",
    application_id=int.from_bytes(b"tkKN", "big"),
    migrations=(
        (
            """CREATE TABLE documents (
                owner TEXT, id TEXT, title TEXT, source TEXT, content TEXT, collection TEXT, created_at REAL,
                expires_at REAL, PRIMARY KEY (owner, id)
            )""",
            """CREATE TABLE chunks (
                id INTEGER PRIMARY KEY, owner TEXT, document_id TEXT, content TEXT, chunk_index INTEGER, embedding BLOB,
                FOREIGN KEY (owner, document_id) REFERENCES documents ON DELETE CASCADE
            )""",
            "CREATE INDEX chunks_of ON chunks (owner, document_id)",
            "CREATE TABLE model (number INTEGER PRIMARY KEY CHECK (number = 1), name TEXT, bytes INTEGER)",
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text and its origin.

    Attributes:
        id: Key of the document: adding another one of the same id and owner replaces it.
        content: The whole text.
        title: A name for people; the role of a message, the kind of a memory.
        source: Origin, such as a path, a URL, or "message".
        collection: Name of the group of documents that are searched together.
        created_at: Time of storage, in seconds since 1970, UTC; set by the store.
        expires_at: Time of removal, in seconds since 1970, UTC; None for never.

    Raises:
        DefinitionError: A field is not of its type: a `datetime` is not a number of seconds.
    """

    id: str
    content: str
    title: str = ""
    source: str = ""
    collection: str = KNOWLEDGE
    created_at: float = field(default=0.0, compare=False)
    expires_at: float | None = None

    def __post_init__(self) -> None:
        for name in ("id", "content", "title", "source", "collection"):
            check_type(name, getattr(self, name), str)
        if self.expires_at is not None:
            check_number("expires_at", self.expires_at)


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A part of a document, with its embedding: a vector whose direction stands for the meaning."""

    content: str
    embedding: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A chunk as the result of a search.

    Attributes:
        score: The cosine of the chunk and the query; larger is better.
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
    """Documents of one owner, searched by the meaning of their chunks. Any thread may call its methods.

    Each method raises StoreError if the store cannot be used.
    """

    def with_owner(self, owner: str) -> Self:
        """Return the same store for another owner. Neither sees the documents of the other.

        Raises:
            DefinitionError: The owner is not text, or is empty.
        """
        ...

    def add(self, document: Document, chunks: Sequence[Chunk], *, model: str = "") -> None:
        """Store a document with all of its chunks, or nothing. A document of the same id is replaced.

        Nothing is stored if the current call was cancelled.

        Args:
            document: The document.
            chunks: Its parts, in order.
            model: Name of the embedding model. All embeddings of a store are by one model, and of one length.
        """
        ...

    def search(
        self, embedding: Sequence[float], *, collection: str = KNOWLEDGE, limit: int = 5, model: str = ""
    ) -> list[Hit]:
        """Return the `limit` chunks of a collection with the nearest embeddings, the nearest first."""
        ...

    def documents(self, collection: str = KNOWLEDGE) -> list[Document]:
        """Return the documents of a collection, in the order of storage."""
        ...

    def delete(self, *ids: str) -> int:
        """Remove the documents with these ids, and all expired ones. Return how many of these ids existed."""
        ...


class SQLiteKnowledge(SQLiteStore):
    """Documents of one owner in a file, for several threads and processes of one machine; or in memory.

    Args:
        path: The file, created if it does not exist. By default memory, as long as the object lasts.
        timeout: Seconds to wait for another process that writes.
        clock: Returns the time, in seconds since 1970, UTC.

    Raises:
        DefinitionError: The path, the timeout or the clock is invalid.
        StoreError: The file is damaged, is not a knowledge store, or cannot be opened.
    """

    def __init__(
        self, path: str | os.PathLike[str] = MEMORY, *, timeout: float = 30.0, clock: Callable[[], float] = time.time
    ) -> None:
        check_sync_function("clock", clock)
        super().__init__(path, LAYOUT, timeout=timeout)
        self._clock = clock
        self._owner = ""

    def with_owner(self, owner: str) -> Self:
        """Return the same store for another owner. Neither sees the documents of the other.

        Raises:
            DefinitionError: The owner is not text, or is empty.
        """
        if not isinstance(owner, str) or not owner:
            raise DefinitionError(f"owner={owner!r:.100} is not text of at least one character.")
        other = copy(self)
        vars(other).update(_owner=owner)
        return other

    def add(self, document: Document, chunks: Sequence[Chunk], *, model: str = "") -> None:
        """Store a document with all of its chunks, or nothing. A document of the same id is replaced."""
        check_type("document", document, Document)
        rows = [
            (self._owner, document.id, chunk.content, index, _pack(chunk.embedding))
            for index, chunk in enumerate(chunks)
        ]
        fields = (document.title, document.source, document.content, document.collection)
        now = self._clock()

        with self._database.transaction() as connection:
            for length in sorted({len(row[-1]) for row in rows}):
                connection.execute("INSERT INTO model VALUES (1, ?, ?) ON CONFLICT DO NOTHING", (model, length))
                _check_model(connection, model, length)
            _delete_documents(connection, "expires_at <= ?", now)
            _delete_documents(connection, _ONE, self._owner, document.id)
            connection.execute(_ADD, (self._owner, document.id, *fields, now, document.expires_at))
            connection.executemany(_ADD_CHUNK, rows)
            check_cancelled()  # at the end, as waiting for the file may have taken long

    def search(
        self, embedding: Sequence[float], *, collection: str = KNOWLEDGE, limit: int = 5, model: str = ""
    ) -> list[Hit]:
        """Return the `limit` chunks of a collection with the nearest embeddings, the nearest first."""
        query = _pack(embedding)
        with self._database.snapshot() as connection:
            _check_model(connection, model, len(query))
            rows = connection.execute(_EMBEDDINGS, (self._owner, collection, self._clock()))
            try:  # equally near chunks come in the order of storage
                nearest = heapq.nlargest(limit, compute_cosines(query, rows))
            except ValueError as error:
                raise StoreError(DAMAGED) from error
            return [_make_hit(connection.execute(_CHUNK, (-key,)).fetchone(), score) for score, key in nearest]

    def documents(self, collection: str = KNOWLEDGE) -> list[Document]:
        """Return the documents of a collection, in the order of storage."""
        with self._database.snapshot() as connection:
            rows = connection.execute(_DOCUMENTS, (self._owner, collection, self._clock()))
            return [_read_document(row) for row in rows]

    def delete(self, *ids: str) -> int:
        """Remove the documents with these ids, and all expired ones. Return how many of these ids existed."""
        with self._database.transaction() as connection:
            _delete_documents(connection, "expires_at <= ?", self._clock())
            return sum(_delete_documents(connection, _ONE, self._owner, each) for each in ids)

    @override
    def close(self) -> None:
        """Close the file. The next use opens it again. Stores from `with_owner` do not close it."""
        if not self._owner:
            super().close()


_FIELDS = ("id", "title", "source", "content", "collection", "created_at", "expires_at")
_ONE = "documents.owner = ? AND documents.id = ?"
_ADD = "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_CHUNK = "INSERT INTO chunks (owner, document_id, content, chunk_index, embedding) VALUES (?, ?, ?, ?, ?)"
_IS_THERE = "documents.owner = ? AND collection = ? AND ifnull(expires_at > ?, 1)"
_OF_DOCUMENTS = "(chunks.owner, document_id) = (documents.owner, documents.id)"
_HIT = "document_id, title, source, created_at, chunk_index, chunks.content"
# The statements are built from constants alone. With the documents first, chunks are read in the order of storage.
_EMBEDDINGS = f"""
SELECT -chunks.id, embedding FROM documents CROSS JOIN chunks ON {_OF_DOCUMENTS} WHERE {_IS_THERE}
"""  # noqa: S608
_CHUNK = f"SELECT {_HIT} FROM chunks JOIN documents ON {_OF_DOCUMENTS} WHERE chunks.id = ?"  # noqa: S608
_DOCUMENTS = f"SELECT {', '.join(_FIELDS)} FROM documents WHERE {_IS_THERE} ORDER BY rowid"  # noqa: S608


def _pack(embedding: Sequence[float]) -> bytes:
    try:
        return pack_embedding(embedding)
    except ValueError as error:
        raise StoreError(f"This cannot be stored or searched for: {error}.") from error


def _read_document(row: Sequence[Any]) -> Document:
    values = {name: value for name, value in zip(_FIELDS, row) if value is not None}
    try:
        return Document(**values)
    except (DefinitionError, TypeError) as error:
        raise StoreError(f"The document {row[0]!r} is damaged: delete it, or restore it from a backup.") from error


def _delete_documents(connection: sqlite3.Connection, where: str, *values: object) -> int:
    """Remove documents and their chunks. Return how many documents there were."""
    return connection.execute(f"DELETE FROM documents WHERE {where}", values).rowcount  # noqa: S608


def _check_model(connection: sqlite3.Connection, model: str, length: int) -> None:
    """Check that new embeddings have the model of the stored ones, and their length in bytes."""
    for name, stored in connection.execute("SELECT name, bytes FROM model"):
        if not isinstance(stored, int):
            raise StoreError(DAMAGED)
        if (name, stored) != (model, length):
            raise StoreError(
                f"This store holds embeddings of {stored // 4} numbers by the model {name!r}, not of {length // 4} by "
                f"{model!r}: use the same model, or another store."
            )


def _make_hit(row: Sequence[Any], score: float) -> Hit:
    names = ("document_id", "title", "source", "created_at", "chunk_index", "content")
    return Hit(**dict(zip(names, row)), score=score)


def pack_embedding(embedding: Sequence[float]) -> bytes:
    """Convert an embedding to bytes, scaled to length one. An embedding of zeros is not scaled.

    Raises:
        ValueError: The embedding is empty, or has a value that is not a finite number.
    """
    try:
        numbers = [float(each) for each in embedding]
        length = math.hypot(*numbers) or 1.0
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(NO_EMBEDDING) from error
    if not numbers or not math.isfinite(length):
        raise ValueError(NO_EMBEDDING)
    return struct.pack(f"<{len(numbers)}f", *(number / length for number in numbers))


def compute_cosines(query: bytes, rows: Iterable[tuple[Any, bytes]]) -> Iterator[tuple[float, Any]]:
    """Compare a packed embedding with those of rows. Yield each cosine with the row's key.

    Raises:
        ValueError: A row has no packed embedding of the same length.
    """
    compare = _make_numpy_comparison(query) if find_spec("numpy") else _make_plain_comparison(query)
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH)):
        if any(type(embedding) is not bytes or len(embedding) != len(query) for _, embedding in batch):
            raise ValueError("a stored embedding was changed")
        yield from zip(compare([embedding for _, embedding in batch]), (key for key, _ in batch))


def _make_numpy_comparison(query: bytes) -> Callable[[list[bytes]], list[float]]:
    import numpy

    numbers = numpy.frombuffer(query, "<f4")
    return lambda batch: (numpy.frombuffer(b"".join(batch), "<f4").reshape(len(batch), -1) @ numbers).tolist()


def _make_plain_comparison(query: bytes) -> Callable[[list[bytes]], list[float]]:
    form = struct.Struct(f"<{len(query) // 4}f")
    numbers = form.unpack(query)
    product: Callable[..., float] = getattr(math, "sumprod", lambda *pair: math.fsum(map(mul, *pair)))  # Python 3.12
    return lambda batch: [product(numbers, form.unpack(embedding)) for embedding in batch]
