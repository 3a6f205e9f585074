"""SQLite files, shared by several threads and processes of one machine.

A store declares the layout of its files once, and works in blocks. A writing block is atomic, and its changes are on
the disk when it ends, whatever happens to the process or the power after that:

    SCHEDULE = Layout(holds="a schedule", application_id=0x746B5343, migrations=(("CREATE TABLE actions (...)",),))

    database = Database("actions.db", SCHEDULE)
    with database.transaction() as connection:  # no other thread or process writes meanwhile
        connection.execute("INSERT INTO actions VALUES (...)")
    with database.snapshot() as connection:  # other writers do not change it
        connection.execute("SELECT * FROM actions")

A migration that was released is never changed; a new one is appended. A block should only execute statements, since
other threads and a fork of the process wait for its end. Keep the file on a disk of this machine: locks do not work on
network file systems.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from weakref import WeakKeyDictionary

from typing_extensions import Self, override

from toolkit._guards.options import check_type
from toolkit._options import is_number
from toolkit.errors import DefinitionError, StoreError

if TYPE_CHECKING:
    import sqlite3

MEMORY = ":memory:"

MAX_TIMEOUT = 1e6  # seconds: SQLite counts milliseconds, in 32 bits

OPEN_PAUSE = 0.01  # seconds between two attempts to open a file that other processes are creating

# A commit is on the disk when it returns, on macOS too. The file may come from an untrusted source: see
# sqlite.org/security.html. After a large transaction, the log is truncated to this number of bytes.
_SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA journal_size_limit = 16777216",
)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Tables of one kind of store, and the mark of its files.

    Attributes:
        holds: Description of the content, for messages, such as "a schedule".
        application_id: Number that marks these files: four bytes, the first below 0x80.
        migrations: Statements that lead from one version to the next; the first create the tables of a new file.
    """

    holds: str
    application_id: int
    migrations: tuple[tuple[str, ...], ...]


class Database:
    """A SQLite file, for several threads and processes of one machine. A forked child can use it too.

    Args:
        path: The file; created if it does not exist. ":memory:" lasts as long as the object.
        layout: Expected layout of the file.
        timeout: Seconds to wait for another process that writes.

    Raises:
        DefinitionError: The path or the timeout is invalid.
        StoreError: The file is damaged, has another layout, was made by a later version, or cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], layout: Layout, *, timeout: float = 30.0) -> None:
        check_type("path", path, str, os.PathLike)
        if not is_number(timeout) or not 0 <= timeout <= MAX_TIMEOUT:
            raise DefinitionError(f"timeout={timeout!r:.100} is not a number of seconds from 0 to {MAX_TIMEOUT:,.0f}.")

        # Absolute, since the process may change its directory.
        self.path: str = MEMORY if path == MEMORY else str(Path(path).absolute())
        self._layout = layout
        self._timeout = timeout
        self._lock = threading.RLock()
        self._connections: list[sqlite3.Connection] = []  # one, or none while the file is closed

        # Not at exit: a thread may still use the connection then, and an open file loses nothing.
        weakref.finalize(self, _close_connections, self._connections).atexit = False
        _forks.add(self, self._lock, self._connections)
        with self.snapshot():  # open it now, so that errors are raised here
            pass

    def snapshot(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a block that reads one snapshot of the file.

        Raises:
            StoreError: The file could not be read.
        """
        return self._run_block("BEGIN")

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a block that writes: all of its changes are committed, or none if it raises.

        Raises:
            StoreError: The changes could not be written.
        """
        return self._run_block("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Close the file. The next block opens it again. Data in memory is lost."""
        with self._lock:
            _close_connections(self._connections)

    @override
    def __reduce__(self) -> NoReturn:
        name = Path(self.path).name
        raise TypeError(f"{name} is open and cannot be pickled or copied: make another object of the same file.")

    @contextmanager
    def _run_block(self, begin: str) -> Iterator[sqlite3.Connection]:
        """Run a block as one transaction. Open the file first if it is closed."""
        with self._lock, _translate_errors(Path(self.path).name):
            if not self._connections:
                self._connections.append(_open_file(self.path, self._layout, self._timeout))
            connection = self._connections[0]
            if connection.in_transaction:
                raise RuntimeError("This thread has a transaction of this database open: do the work in that one.")

            try:
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(connection.Error):  # SQLite has rolled back already, or the disk is gone
                    connection.execute("ROLLBACK")
                raise


class SQLiteStore:
    """A store in a SQLite file. The end of a `with` block closes it."""

    def __init__(self, path: str | os.PathLike[str], layout: Layout, *, timeout: float) -> None:
        self._database = Database(path, layout, timeout=timeout)

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close_connections(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


class _Forks:
    """Closes the databases of the process while it forks, once their blocks have ended.

    SQLite keeps its locks per process and file. As long as a child has its parent's connection, it holds no lock, even
    through a connection of its own, and its writes can be lost (sqlite.org/howtocorrupt.html, section 2.6). So a check
    of the process id at the next use would come too late.

    Attributes:
        creating: Held while a file is created; a child has its own.
    """

    def __init__(self) -> None:
        self.creating = threading.Lock()
        self._lock = threading.RLock()
        self._members: WeakKeyDictionary[Database, tuple[threading.RLock, list[sqlite3.Connection]]]
        self._members = WeakKeyDictionary()
        self._held: list[threading.RLock] = []
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._after_in_child)

    def add(self, database: Database, lock: threading.RLock, connections: list[sqlite3.Connection]) -> None:
        """Add a database, with the lock of its blocks and its connections, for as long as it lives."""
        with self._lock:
            self._members[database] = lock, connections

    def _before(self) -> None:
        self._lock.acquire()
        members = [database for reference in self._members.keyrefs() if (database := reference()) is not None]
        for database in members:
            lock, connections = self._members[database]
            lock.acquire()
            self._held.append(lock)
            if database.path != MEMORY:  # which has no locks to lose
                _close_connections(connections)

    def _after(self) -> None:
        while self._held:
            self._held.pop().release()
        self._lock.release()

    def _after_in_child(self) -> None:
        self._after()
        self.creating = threading.Lock()  # a thread of the parent may hold the old one


_forks = _Forks()  # one for the process: code that forks does not know about its databases


def _open_file(path: str, layout: Layout, timeout: float) -> sqlite3.Connection:
    """Open a file, and bring it up to date. A new one is readable by its owner alone.

    Raises:
        StoreError: The file has another layout, or a later version.
        sqlite3.Error: The file is damaged, or cannot be used.
    """
    import sqlite3  # few runs need it

    _create_file(path)
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        _read_version(connection, layout, path)  # before anything is changed
        _check_integrity(connection)
        deadline = time.monotonic() + timeout
        while not _use_log(connection, deadline, path):
            time.sleep(OPEN_PAUSE)
        for setting in _SETTINGS:
            connection.execute(setting)
        _migrate(connection, layout, path)
    except BaseException:
        connection.close()
        raise

    return connection


def _create_file(path: str) -> None:
    """Create a file that only its owner may read; SQLite gives its log the same permissions."""
    if path == MEMORY:
        return
    # Closing a file drops all locks of the process on it, so no other thread may open it before that.
    with _forks.creating, suppress(OSError):  # it exists, or SQLite reports the error
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except ValueError as error:
            raise StoreError(f"{path!r} is not a file name: choose another one.") from error


def _read_version(connection: sqlite3.Connection, layout: Layout, path: str) -> int:
    """Return the number of migrations that a file has had, from one snapshot."""
    connection.execute("SAVEPOINT version")
    ((application_id,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    ((objects,),) = connection.execute("SELECT count(*) FROM sqlite_master")
    connection.execute("RELEASE version")
    name = Path(path).name
    if application_id != layout.application_id and (application_id, version, objects) != (0, 0, 0):
        raise StoreError(f"{name} holds something other than {layout.holds}: choose another file.")
    if version > len(layout.migrations):
        raise StoreError(
            f"{name} was made by a later version of this library: update the library, or choose another file."
        )
    return int(version)


def _check_integrity(connection: sqlite3.Connection) -> None:
    """Check the whole file, which takes as long as reading it."""
    (report,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if report != "ok":
        raise connection.DatabaseError("database disk image is malformed")


def _use_log(connection: sqlite3.Connection, deadline: float, path: str) -> bool:
    """Switch to a write-ahead log, so that readers do not wait for writers. Return False while others do the same."""
    try:
        ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
    except connection.OperationalError as error:
        if "locked" not in str(error) or time.monotonic() > deadline:
            raise
        return False
    if mode not in ("wal", "memory"):
        raise StoreError(f"{Path(path).name} cannot be shared in this directory: keep it on a local disk.")
    return True


def _migrate(connection: sqlite3.Connection, layout: Layout, path: str) -> None:
    """Apply the missing migrations, all or none."""
    if _read_version(connection, layout, path) == len(layout.migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    for migration in layout.migrations[_read_version(connection, layout, path) :]:
        for statement in migration:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {layout.application_id}")
    connection.execute(f"PRAGMA user_version = {len(layout.migrations)}")
    connection.execute("COMMIT")


_ADVICE = (
    "Check that its directory exists, has room and is writable, and that no other process holds the file; restore a "
    "damaged file from a backup"
)


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Translate SQLite's errors, and those of values that SQLite cannot store."""
    import sqlite3

    of_values = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
    try:
        yield
    except (UnicodeError, OverflowError, *of_values) as error:  # the file is sound
        raise StoreError(f"{name}: {error}.") from error
    except sqlite3.Error as error:
        raise StoreError(f"{name} cannot be used: {error}. {_ADVICE}.") from error
