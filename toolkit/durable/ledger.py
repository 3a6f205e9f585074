"""A ledger in PostgreSQL, which the workers of several machines share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from typing import Any

import psycopg
import psycopg_pool
from typing_extensions import Self

from toolkit._execution.ledger import LedgerEntry
from toolkit._guards.options import check_seconds, check_whole
from toolkit._options import find_cutoff
from toolkit.errors import StoreError

# The key of a lock, so that workers that start at the same time create the table one after the other.
_CREATION_LOCK = int.from_bytes(b"tkLG", "big")
_CREATE = """
CREATE TABLE IF NOT EXISTS toolkit_entries (
    run_id text, call_id text, stage text, digest text, result text, at double precision,
    number bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (run_id, call_id, stage)
)
"""
_WRITE = """
INSERT INTO toolkit_entries (run_id, call_id, stage, digest, result, at) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
_READ = """
SELECT run_id, call_id, stage, digest, result, at FROM toolkit_entries
WHERE run_id = %(run_id)s AND call_id = COALESCE(%(call_id)s, call_id) ORDER BY number
"""
_PRUNE = """
DELETE FROM toolkit_entries
WHERE run_id IN (SELECT run_id FROM toolkit_entries GROUP BY run_id HAVING max(at) < %s)
"""


class PostgresLedger:
    """A ledger in a table of a PostgreSQL database, for any number of processes and machines.

    The table `toolkit_entries` is created if it does not exist. Connections are opened when they are needed. A forked
    process must make a ledger of its own.

    Args:
        address: Address of the database, such as "postgresql://user:password@host/name", or a connection string of
            libpq.
        connections: Maximum number of connections of this process.
        timeout: Longest wait for a connection, in seconds.

    Raises:
        DefinitionError: `connections` or `timeout` is not a number above 0.
        StoreError: The database cannot be reached, or the table cannot be created.
    """

    def __init__(self, address: str, *, connections: int = 8, timeout: float = 30.0) -> None:
        check_whole("connections", connections)
        check_seconds("timeout", timeout)
        self._pool = psycopg_pool.ConnectionPool(
            address,
            min_size=0,
            max_size=connections,
            timeout=timeout,
            open=True,
            name="toolkit",
            check=psycopg_pool.ConnectionPool.check_connection,  # a restart of the server breaks idle connections
        )

        try:
            with self._connect() as connection:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
                connection.execute(_CREATE)
        except StoreError:
            self.close()
            raise

    def write(self, entry: LedgerEntry) -> bool:
        """Store an entry. If the same stage of the same call is stored already, return False instead.

        Raises:
            StoreError: The entry could not be stored.
        """
        with self._connect() as connection:
            return connection.execute(_WRITE, astuple(entry)).rowcount == 1

    def read(self, run_id: str, call_id: str | None = None) -> tuple[LedgerEntry, ...]:
        """Return the entries of a run, or of one of its calls, in the order in which they were written.

        Raises:
            StoreError: The entries could not be read.
        """
        with self._connect() as connection:
            rows = connection.execute(_READ, {"run_id": run_id, "call_id": call_id}).fetchall()
        return tuple(LedgerEntry(**dict(zip(LedgerEntry.__dataclass_fields__, row))) for row in rows)

    def prune(self, seconds: float) -> int:
        """Delete the entries of runs whose last entry is older than `seconds`. Return the number of entries.

        These runs must not be resumed.

        Raises:
            ValueError: `seconds` is not a number of at least 0.
            StoreError: The entries could not be deleted.
        """
        cutoff = find_cutoff(seconds)
        with self._connect() as connection:
            return connection.execute(_PRUNE, (cutoff,)).rowcount

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _connect(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with self._pool.connection() as connection:
                yield connection
        except (psycopg.Error, psycopg_pool.PoolTimeout) as error:
            raise StoreError(f"The ledger in PostgreSQL failed: {error}") from error
