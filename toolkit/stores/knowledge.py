"""What a knowledge store keeps, and what it can do.

Embeddings as bytes: how they are kept, and how near one is to another.

An embedding is kept with length one, as 32-bit floats with the lowest byte first; so the cosine of two is the sum of
their products. Every one is compared with the query: with 100,000 of 384 numbers each a search takes 0.2 s where numpy
is there, else 1.2 s (with Python 3.10 or 3.11, 2 s). Extensions that search faster cannot be loaded by many a Python's
sqlite3.

Documents with embeddings in a file, and in memory.
"""

from __future__ import annotations

import heapq
import math
import os
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from operator import mul
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from typing_extensions import Self

from toolkit._concurrency.threads import check_cancelled
from toolkit.errors import DefinitionError, StoreError
from toolkit.stores.database import MEMORY, Database, Layout

if TYPE_CHECKING:
    import sqlite3

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


# How many are compared at once.
BATCH = 1024
NO_EMBEDDING = "an embedding is a list of finite numbers, one at least"
_NO_NUMBERS = (bool, str, bytes)  # and yet `float` takes them


def packed(embedding: Sequence[float]) -> bytes:
    """Write an embedding, made as long as one. One of zeros alone has no direction, and stays as it is.

    Raises:
        ValueError: It is empty, or holds what is no finite number.
    """
    try:
        numbers = [] if isinstance(embedding, _NO_NUMBERS) else [_number(each) for each in embedding]
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(NO_EMBEDDING) from error
    largest = max(map(abs, numbers), default=math.nan)
    if not all(map(math.isfinite, [largest, *numbers])):
        raise ValueError(NO_EMBEDDING)
    scaled = [number / largest for number in numbers] if largest else numbers  # their squares do not overflow
    length = math.hypot(*scaled) or 1.0
    return struct.pack(f"<{len(scaled)}f", *(number / length for number in scaled))


def _number(value: Any) -> float:
    return math.nan if isinstance(value, _NO_NUMBERS) else float(value)


def cosines(query: bytes, rows: Iterable[tuple[Any, bytes]]) -> Iterator[tuple[float, Any]]:
    """Compare a packed embedding with others; give each cosine with what stands beside the other.

    Raises:
        ValueError: One of them is no packed embedding of the same length.
    """
    compare = _by_numpy(query) if find_spec("numpy") else _by_hand(query)
    left = iter(rows)
    while batch := list(islice(left, BATCH)):
        if any(type(embedding) is not bytes or len(embedding) != len(query) for _, embedding in batch):
            raise ValueError("an embedding is not as it was kept")
        yield from zip(compare([embedding for _, embedding in batch]), (key for key, _ in batch))


def _by_numpy(query: bytes) -> Callable[[list[bytes]], list[float]]:
    import numpy

    numbers = numpy.frombuffer(query, "<f4")

    def compare(batch: list[bytes]) -> list[float]:
        found = numpy.frombuffer(b"".join(batch), "<f4").reshape(len(batch), -1) @ numbers
        return [float(cosine) for cosine in found]

    return compare


def _by_hand(query: bytes) -> Callable[[list[bytes]], list[float]]:
    form = struct.Struct(f"<{len(query) // 4}f")
    numbers = form.unpack(query)
    product: Callable[..., float] = getattr(math, "sumprod", _sum_of_products)  # of Python 3.12
    return lambda batch: [product(numbers, form.unpack(embedding)) for embedding in batch]


def _sum_of_products(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(map(mul, one, other))


# The first second of the year 10000, which no date has.
LAST_TIME = 253_402_300_800.0
SPOILT = "The store holds what was not written by this library, or is damaged: put a copy back in its place."
# Words of a query that are looked for; more only take time.
MAX_WORDS = 64

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
            """CREATE VIRTUAL TABLE words USING fts5(
                content, content = chunks, content_rowid = id, tokenize = "unicode61 remove_diacritics 2"
            )""",
        ),
    ),
)


class SQLiteKnowledge:
    """Documents of one owner in a file, for several threads and processes of one machine.

    Args:
        path: The file; it is made where there is none.
        timeout: How long to wait for another process that writes, in seconds.
        clock: Gives the time, in seconds since 1970, UTC.

    Raises:
        DefinitionError: The path, the time or the clock is none.
        StoreError: The file is damaged, holds something else, or cannot be opened.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, timeout: float = 30.0, clock: Callable[[], float] = time.time
    ) -> None:
        if not callable(clock):
            raise DefinitionError(f"clock={clock!r:.100} is no function that gives seconds.")
        self._database = Database(path, LAYOUT, timeout=timeout)
        self._clock, self._owner = clock, ""
        self._close: Callable[[], None] = self._database.close

    def owned_by(self, owner: str) -> Self:
        """Give the same store for another owner: neither sees what the other one keeps.

        Raises:
            DefinitionError: The owner is no text, or an empty one.
        """
        if not isinstance(owner, str) or not owner:
            raise DefinitionError(f"owner={owner!r}: it is a text, and not empty.")
        other = copy(self)
        vars(other).update(_owner=owner, _close=_do_nothing)  # others use the file
        return other

    def add(self, document: Document, chunks: Sequence[Chunk], *, model: str = "") -> None:
        """Keep a document with all its chunks, or nothing; it takes the place of one of the same id."""
        rows = [
            (self._owner, document.id, chunk.content, index, _packed(chunk.embedding))
            for index, chunk in enumerate(chunks)
        ]
        fields = (document.title, document.source, document.content, document.collection)
        now = self._clock()
        with self._database.writing() as connection:
            for length in sorted({len(row[-1]) for row in rows}):
                connection.execute("INSERT INTO model VALUES (1, ?, ?) ON CONFLICT DO NOTHING", (model, length))
                _refuse_other(connection, model, length)
            _delete(connection, "expires_at <= ?", now)
            _delete(connection, _ONE, self._owner, document.id)
            connection.execute(_ADD, (self._owner, document.id, *fields, now, document.expires_at))
            connection.executemany(_ADD_CHUNK, rows)
            connection.execute(_ADD_WORDS, (self._owner, document.id))
            check_cancelled()  # now, as others may have kept the file busy

    def search(
        self, embedding: Sequence[float], *, collection: str = KNOWLEDGE, limit: int = 5, model: str = ""
    ) -> list[Hit]:
        """Give the chunks whose embeddings are nearest by their direction, the nearest first."""
        query = _packed(embedding)
        with self._database.reading() as connection:
            _refuse_other(connection, model, len(query))
            rows = connection.execute(_EMBEDDINGS, (self._owner, collection, self._clock()))
            nearest = _nearest(limit, query, rows)
            return [_hit(connection.execute(_CHUNK, (-key,)).fetchone(), score) for score, key in nearest]

    def search_text(self, query: str, *, collection: str = KNOWLEDGE, limit: int = 5) -> list[Hit]:
        """Give the chunks that say most of the words of a query, the best first; it has words only, no operators."""
        words = re.findall(r"\w+", query)[:MAX_WORDS]
        sought = " OR ".join(f'"{word}"' for word in words)
        if not sought:
            return []
        with self._database.reading() as connection:
            rows = connection.execute(_WORDS, (sought, self._owner, collection, self._clock(), max(limit, 0)))
            return [_hit(row, -rank) for *row, rank in rows]

    def documents(self, collection: str = KNOWLEDGE) -> list[Document]:
        """Give the documents of a collection, in the order in which they were kept."""
        with self._database.reading() as connection:
            rows = connection.execute(_DOCUMENTS, (self._owner, collection, self._clock()))
            return [Document(**_sound(dict(zip(_FIELDS, row)))) for row in rows]

    def delete(self, *ids: str) -> int:
        """Remove documents, and all that have expired; give how many of the former there were."""
        with self._database.writing() as connection:
            _delete(connection, "expires_at <= ?", self._clock())
            return sum(_delete(connection, _ONE, self._owner, each) for each in ids)

    def close(self) -> None:
        """Close the file; the next use opens it again. What `owned_by` gave closes nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryKnowledge(SQLiteKnowledge):
    """Documents that last as long as the object.

    Args:
        clock: As for SQLiteKnowledge.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(MEMORY, clock=clock)


_FIELDS = ("id", "title", "source", "content", "collection", "created_at", "expires_at")
# What a row holds that is no text.
_KINDS: Mapping[str, Any] = MappingProxyType(
    {"created_at": float, "expires_at": (float, type(None)), "chunk_index": int}
)
_ONE = "documents.owner = ? AND documents.id = ?"
_ADD = "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_CHUNK = "INSERT INTO chunks (owner, document_id, content, chunk_index, embedding) VALUES (?, ?, ?, ?, ?)"
_ADD_WORDS = "INSERT INTO words (rowid, content) SELECT id, content FROM chunks WHERE owner = ? AND document_id = ?"
_IS_THERE = "documents.owner = ? AND collection = ? AND ifnull(expires_at > ?, 1)"
_OF_DOCUMENTS = "JOIN documents ON (chunks.owner, document_id) = (documents.owner, documents.id)"
_HIT = "document_id, title, source, created_at, chunk_index, chunks.content"
# Only the words of this module are put together here.
# The documents first: each chunk is then next to the one before it.
_EMBEDDINGS = f"""
SELECT -chunks.id, embedding FROM documents CROSS JOIN chunks
ON (chunks.owner, document_id) = (documents.owner, documents.id) WHERE {_IS_THERE}
"""  # noqa: S608
_CHUNK = f"SELECT {_HIT} FROM chunks {_OF_DOCUMENTS} WHERE chunks.id = ?"  # noqa: S608
_WORDS = f"""
SELECT {_HIT}, rank FROM words JOIN chunks ON chunks.id = words.rowid {_OF_DOCUMENTS}
WHERE words MATCH ? AND {_IS_THERE} ORDER BY rank, chunks.id LIMIT ?
"""  # noqa: S608
_DOCUMENTS = f"SELECT {', '.join(_FIELDS)} FROM documents WHERE {_IS_THERE} ORDER BY rowid"  # noqa: S608


def _packed(embedding: Sequence[float]) -> bytes:
    try:
        return packed(embedding)
    except ValueError as error:
        raise StoreError(f"This cannot be kept or looked for: {error}.") from error


def _delete(connection: sqlite3.Connection, where: str, *values: object) -> int:
    """Remove documents, their chunks and their words; give how many there were."""
    old = f"SELECT 'delete', chunks.id, chunks.content FROM chunks {_OF_DOCUMENTS} WHERE {where}"  # noqa: S608
    connection.execute(f"INSERT INTO words (words, rowid, content) {old}", values)
    return connection.execute(f"DELETE FROM documents WHERE {where}", values).rowcount  # noqa: S608


def _refuse_other(connection: sqlite3.Connection, model: str, length: int) -> None:
    """Hold a store to the model whose embeddings it holds; bytes tell how long they are."""
    for name, known in connection.execute("SELECT name, bytes FROM model"):
        if (name, known) != (model, length):
            raise StoreError(
                f"This store holds embeddings of {known // 4} numbers by the model {name!r}, not of {length // 4} by "
                f"{model!r}: use the same model, or another store."
            )


def _hit(row: Sequence[Any], score: float) -> Hit:
    names = ("document_id", "title", "source", "created_at", "chunk_index", "content")
    return Hit(**_sound(dict(zip(names, row))), score=score)


def _nearest(limit: int, query: bytes, rows: Iterable[tuple[Any, bytes]]) -> list[tuple[float, Any]]:
    """Of two that are as near, the one that was kept first comes first."""
    try:
        return heapq.nlargest(limit, cosines(query, rows))
    except ValueError as error:
        raise StoreError(SPOILT) from error


def _sound(values: dict[str, Any]) -> dict[str, Any]:
    """Give a row as it is, where it can be one that was kept here."""
    is_time = abs(values["created_at"] or 0.0) < LAST_TIME
    if not is_time or any(not isinstance(value, _KINDS.get(name, str)) for name, value in values.items()):
        raise StoreError(SPOILT)
    return values


def _do_nothing() -> None:
    pass
