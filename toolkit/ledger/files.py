"""A ledger in a file."""

from __future__ import annotations

import os
import threading
import time
import weakref
from contextlib import closing
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.ledger.entries import Entry

if TYPE_CHECKING:
    import sqlite3

# Seconds between two tries to open a file that others are making.
PAUSE = 0.01


class SQLiteLedger:
    """A ledger in a file, for several threads and processes of one machine.

    Args:
        path: The file; it is made where there is none.
        timeout: How long to wait for another process that writes, in seconds.
    """

    def __init__(self, path: str | Path, timeout: float = 30.0) -> None:
        self._path, self._timeout = Path(path), timeout
        self._lock = threading.Lock()
        self._connections: dict[int, sqlite3.Connection] = {}  # by process: none may be used across a fork
        weakref.finalize(self, _close, self._connections)
        with self._lock:
            self._connection()

    def write(self, entry: Entry) -> bool:
        """Keep an entry; False, and nothing kept, where the same stage of the same call is there already.

        Raises:
            sqlite3.Error: It could not be kept.
        """
        with self._lock, closing(self._connection().execute(_WRITE, astuple(entry))) as done:
            return done.rowcount == 1

    def read(self, run_id: str, call_id: str | None = None) -> tuple[Entry, ...]:
        """Give the entries of a run, or of one of its calls, in the order in which they were written.

        Raises:
            sqlite3.Error: They could not be read.
        """
        with self._lock, closing(self._connection().execute(_READ, (run_id, call_id))) as rows:
            return tuple(Entry(**dict(zip(_FIELDS, row))) for row in rows)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            _close(self._connections)

    def _connection(self) -> sqlite3.Connection:
        process = os.getpid()
        if process not in self._connections:
            self._connections[process] = _opened(self._path, self._timeout)
        return self._connections[process]


_FIELDS = tuple(Entry.__dataclass_fields__)
_TABLE = """
CREATE TABLE IF NOT EXISTS entries (
    run_id TEXT, call_id TEXT, stage TEXT, digest TEXT, result TEXT, at REAL,
    PRIMARY KEY (run_id, call_id, stage)
)
"""
_WRITE = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_READ = "SELECT * FROM entries WHERE run_id = ? AND call_id = ifnull(?, call_id) ORDER BY rowid"


def _opened(path: Path, timeout: float) -> sqlite3.Connection:
    import sqlite3  # few runs need it

    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        until = time.monotonic() + timeout
        while not _is_wal(connection, until):
            time.sleep(PAUSE)
        connection.execute("PRAGMA synchronous = FULL")  # what was said to be started stays so when the power fails
        connection.execute(_TABLE)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _is_wal(connection: sqlite3.Connection, until: float) -> bool:
    """Let no reader wait for a writer; of processes that make the file together, one does it while the others wait."""
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except connection.OperationalError as error:
        if "locked" not in str(error) or time.monotonic() > until:
            raise
        return False
    return True


def _close(connections: dict[int, sqlite3.Connection]) -> None:
    connection = connections.pop(os.getpid(), None)
    if connection is not None:
        connection.close()
