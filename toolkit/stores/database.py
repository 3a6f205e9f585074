"""The one way in which a SQLite file is opened here.

A store says once what its files hold, and works in blocks. A block that writes is all or nothing; what it wrote is on
the disk when it ends, whatever happens to the process or the power after that:

    SCHEDULE = Layout(holds="a schedule", application_id=0x746B5343, migrations=(("CREATE TABLE actions (...)",),))

    database = Database("actions.db", SCHEDULE)
    with database.writing() as connection:  # no other thread or process writes meanwhile
        connection.execute("INSERT INTO actions VALUES (...)")
    with database.reading() as connection:  # sees one state, whoever writes meanwhile
        connection.execute("SELECT * FROM actions")

A migration that was ever released is not changed; a new one is put behind it. Nothing but the statements belongs into a
block: the other threads wait for its end. There is one connection, and it is closed before the process forks: SQLite
keeps its locks per process, and a child that goes on with them loses what it writes.
Keep the file on a disk of this machine: on a network file system locks do not hold.
"""

from __future__ import annotations

import os
import shlex
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from typing_extensions import Self

from toolkit.errors import DefinitionError
from toolkit.stores.forks import forks
from toolkit.stores.opening import MEMORY, Layout, StoreError, opened, refuse_lost

if TYPE_CHECKING:
    import sqlite3

# The longest wait, in seconds: SQLite counts milliseconds, in 32 bits.
LONGEST = 1e6


class Database:
    """A SQLite file, for several threads and processes of one machine.

    Args:
        path: The file; it is made where there is none. ":memory:" lasts as long as the object.
        layout: What it holds.
        timeout: How long to wait for another process that writes, in seconds.

    Raises:
        DefinitionError: The path or the time is none.
        StoreError: The file is damaged, holds something else, was made by a later version, or cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], layout: Layout, *, timeout: float = 30.0) -> None:
        _refuse_mistaken(path, timeout)
        # A path stays the same when the process changes its directory.
        self.path = MEMORY if path == MEMORY else str(Path(path).absolute())
        self._layout, self._timeout = layout, timeout
        self._lock = threading.RLock()
        self._connections: list[sqlite3.Connection] = []  # one, or none while it is closed
        # Not at the end of the process: a thread may still be at work then, and nothing is lost by an open file.
        weakref.finalize(self, _close, self._connections).atexit = False
        refuse_lost(Path(self.path))
        forks.add(self)
        with self.reading():  # opened now, so that what is wrong is told now
            pass

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give one state of the file to look at.

        Raises:
            StoreError: It could not be read.
        """
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Keep all of what the block writes, or nothing where it raises; nobody else writes meanwhile.

        Raises:
            StoreError: It could not be kept.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def close(self) -> None:
        """Close the file; the next use opens it again. What is in memory is lost."""
        with self._lock:
            _close(self._connections)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rest(self, seconds: float) -> bool:
        """Close the file, and let nobody use it until `resume`, as the process forks; False where it is busy."""
        if not self._lock.acquire(timeout=seconds):
            return False
        if self.path != MEMORY:  # which has no locks to lose
            _close(self._connections)
        return True

    def resume(self) -> None:
        """Let the file be used again."""
        self._lock.release()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        self._refuse_lost()  # whose lock nobody lets go of
        with self._lock, _explained(Path(self.path), self._timeout):
            connection = self._connection()
            if connection.in_transaction:
                raise RuntimeError("This thread is in a block of this database already: do the work in that one.")
            try:
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(connection.Error):  # where SQLite has done so itself, or the disk is gone
                    connection.execute("ROLLBACK")
                raise

    def _connection(self) -> sqlite3.Connection:
        if not self._connections:
            self._connections.append(opened(self.path, self._layout, self._timeout))
        return self._connections[0]

    def _refuse_lost(self) -> None:
        if any(lost is self or lost.path == self.path != MEMORY for lost in forks.lost):
            raise StoreError(
                f"{Path(self.path).name} was in use for too long while this process was forked, and cannot be used in "
                "it: use it in the process that forked, or start this one anew."
            )


def _refuse_mistaken(path: object, timeout: object) -> None:
    if not isinstance(path, (str, os.PathLike)):
        raise DefinitionError(f"path={path!r:.100} is no path of a file, such as 'kept.db'.")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 <= timeout <= LONGEST:
        raise DefinitionError(f"timeout={timeout!r:.100} is no number of seconds from 0 to {LONGEST:,.0f}.")


_DAMAGED = (
    "it is damaged. Keep it, and {name}-wal if that is there; put a copy back in its place. "
    "Where there is no copy, `sqlite3 {file} .recover | sqlite3 {saved}` may save what can be read: see that it "
    "printed no error, and count what is there, for it may save nothing and end as if all were well"
)
_CLOSED = "it cannot be opened or written to: see whether it is a file, its directory is there, and both are permitted"

# What SQLite says, and what to do about it.
_ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "locked": "another process kept it busy for {timeout:g} seconds: try again, and see whether that one hangs",
        "is full": "its disk is full: make room, and try again",
        "readonly": _CLOSED,
        "unable to open": _CLOSED,
        "disk I/O": "its disk failed, or is full: see to it, and try again",
        "malformed": _DAMAGED,
        "not a database": f"{_DAMAGED}. Or it is no such file at all: then choose another name",
        "too big": "something is too long for it: save it in parts",
    }
)


@contextmanager
def _explained(path: Path, timeout: float) -> Iterator[None]:
    import sqlite3

    try:
        yield
    except (sqlite3.Error, UnicodeError, OverflowError) as error:  # of a value that SQLite has no form for
        advice = next((advice for said, advice in _ADVICE.items() if said in str(error)), "{error}")
        told = advice.format(
            name=path.name,
            file=shlex.quote(path.name),
            saved=shlex.quote(f"saved-{path.name}"),
            timeout=timeout,
            error=error,
        )
        raise StoreError(f"{path.name} cannot be used: {told}.") from error


def _close(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()
