"""A ledger in a file."""

from __future__ import annotations

import os
from dataclasses import astuple

from typing_extensions import Self

from toolkit.ledger.entries import Entry
from toolkit.stores.database import Database, Layout


class SQLiteLedger:
    """A ledger in a file, for several threads and processes of one machine.

    It keeps every run for good, so that no call is ever carried out twice: begin a new file where one grows too large,
    and put the old one away when none of its runs can be taken up again.

    Args:
        path: The file; it is made where there is none.
        timeout: How long to wait for another process that writes, in seconds.

    Raises:
        StoreError: The file is damaged, holds something else, or cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        self._database = Database(path, _LAYOUT, timeout=timeout)

    def write(self, entry: Entry) -> bool:
        """Keep an entry; False, and nothing kept, where the same stage of the same call is there already.

        Raises:
            StoreError: It could not be kept.
        """
        with self._database.writing() as connection:
            return connection.execute(_WRITE, astuple(entry)).rowcount == 1

    def read(self, run_id: str, call_id: str | None = None) -> tuple[Entry, ...]:
        """Give the entries of a run, or of one of its calls, in the order in which they were written.

        Raises:
            StoreError: They could not be read.
        """
        with self._database.reading() as connection:
            rows = connection.execute(_READ, (run_id, call_id))
            return tuple(Entry(**dict(zip(_FIELDS, row))) for row in rows)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_FIELDS = tuple(Entry.__dataclass_fields__)
_TABLE = """
CREATE TABLE entries (
    run_id TEXT, call_id TEXT, stage TEXT, digest TEXT, result TEXT, at REAL,
    PRIMARY KEY (run_id, call_id, stage)
)
"""
_LAYOUT = Layout(holds="a ledger", application_id=int.from_bytes(b"tkLG", "big"), migrations=((_TABLE,),))
_WRITE = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_READ = "SELECT * FROM entries WHERE run_id = ? AND call_id = ifnull(?, call_id) ORDER BY rowid"
