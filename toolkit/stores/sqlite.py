"""Documents with embeddings in a file, and in memory."""

from __future__ import annotations

import heapq
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from toolkit._concurrency.threads import refuse_late
from toolkit.errors import DefinitionError
from toolkit.stores.database import Database
from toolkit.stores.knowledge import KNOWLEDGE, Chunk, Document, Hit
from toolkit.stores.opening import MEMORY, Layout, StoreError
from toolkit.stores.vectors import cosines, packed

if TYPE_CHECKING:
    import sqlite3

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
            refuse_late()  # now, as others may have kept the file busy

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
