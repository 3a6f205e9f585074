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

How a SQLite file is opened: made where there is none, looked through, brought up to date, or refused.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from typing_extensions import Self

from toolkit.errors import DefinitionError, StoreError
from toolkit.stores.forks import forks

if TYPE_CHECKING:
    import sqlite3

MEMORY = ":memory:"

# Seconds between two tries to open a file that others are making.
PAUSE = 0.01

# A commit is on the disk when it is done, on macOS too. What is read may have been made by others: for that see
# sqlite.org/security.html. A log that one large document made is cut again, to bytes.
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
    """What the files of one kind of store hold.

    Attributes:
        holds: What that is, for messages, such as "a schedule".
        application_id: What tells these files from others: four bytes, the first below 0x80.
        migrations: Statements that lead from one version to the next; the first make the tables of a new file.
    """

    holds: str
    application_id: int
    migrations: tuple[tuple[str, ...], ...]


def opened(path: str, layout: Layout, timeout: float) -> sqlite3.Connection:
    """Open a file, for its owner alone where it is made here.

    Raises:
        StoreError: It is not one of this layout, or has more in it than is known here.
        sqlite3.Error: It is damaged, or cannot be used.
    """
    import sqlite3  # few runs need it

    _make(path)
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        _version(connection, layout, path)  # before anything is changed
        _check(connection)
        until = time.monotonic() + timeout
        while not _is_logged(connection, until, path):
            time.sleep(PAUSE)
        for setting in _SETTINGS:
            connection.execute(setting)
        _migrate(connection, layout, path)
    except BaseException:
        connection.close()
        raise
    return connection


def refuse_lost(path: Path) -> None:
    """Refuse what SQLite would take for a new file, and throw away what was written to the old one.

    Raises:
        StoreError: There is a log, and not its file.
    """
    log = Path(f"{path}-wal")
    if _size(log) and not _size(path):  # the log is looked at first: whoever makes a file makes the log last
        raise StoreError(
            f"{path.name} is lost, and {log.name} is there: put a copy of both back, or move the second away."
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (OSError, ValueError):  # no name of a file
        return 0


def _make(path: str) -> None:
    """Make a file that only its owner may read, as SQLite makes its log then."""
    if path == MEMORY:
        return
    # To close it lets go of the locks that this process has on it: no other thread may have opened it meanwhile.
    with forks.making, suppress(OSError):  # it is there, or SQLite says what is wrong
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except ValueError as error:
            raise StoreError(f"{path!r} is no name of a file: choose another one.") from error


def _version(connection: sqlite3.Connection, layout: Layout, path: str) -> int:
    """Tell how many migrations a file has behind it, by one state of it.

    Raises:
        StoreError: It is not one of this layout, or has more behind it than are known here.
    """
    connection.execute("SAVEPOINT version")
    ((found,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    things = _things(connection)
    connection.execute("RELEASE version")
    name = Path(path).name
    if found != layout.application_id and (found, version, things) != (0, 0, set()):
        raise StoreError(f"{name} does not hold {layout.holds}, but something else: choose another file.")
    if version > len(layout.migrations):
        raise StoreError(
            f"A later version of this library has made {name}: update the library, or choose another file."
        )
    _refuse_others(things, layout, version, name)
    return int(version)


def _refuse_others(things: set[str], layout: Layout, version: int, name: str) -> None:
    """Hold a file to what its layout makes: a trigger of somebody else would change what is kept."""
    import sqlite3

    with closing(sqlite3.connect(MEMORY)) as model:
        _execute(model, layout.migrations[: max(version, 0)])
        made = _things(model)
    if others := sorted(things - made):
        raise StoreError(
            f"{name} holds what this library has not made, {', '.join(others)[:300]}: it may change what is kept. "
            "Choose another file; or drop it with sqlite3, where you know whose it is."
        )
    if missing := sorted(made - things):
        raise StoreError(f"{name} does not hold {layout.holds}: {', '.join(missing)} is missing. Put a copy back.")


def _things(connection: sqlite3.Connection) -> set[str]:
    """Name the tables, indexes, triggers and views of a file, but for the statistics that ANALYZE makes."""
    rows = connection.execute(
        "SELECT type, name, tbl_name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_stat_' ESCAPE '\\'"
    )
    return {
        f"{kind} {name!a}" if kind in ("table", "view") else f"{kind} {name!a} of {of!a}" for kind, name, of in rows
    }


def _execute(connection: sqlite3.Connection, migrations: Iterable[Iterable[str]]) -> None:
    for migration in migrations:
        for statement in migration:
            connection.execute(statement)


def _is_logged(connection: sqlite3.Connection, until: float, path: str) -> bool:
    """Let no reader wait for a writer; of processes that make the file together, one does it while the others wait."""
    try:
        ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
    except connection.OperationalError as error:
        if "locked" not in str(error) or time.monotonic() > until:
            raise
        return False
    if mode not in ("wal", "memory"):
        raise StoreError(f"{Path(path).name} cannot be shared where it lies: keep it on a disk of this machine.")
    return True


def _migrate(connection: sqlite3.Connection, layout: Layout, path: str) -> None:
    """Bring a file up to date, all the way or not at all."""
    if _version(connection, layout, path) == len(layout.migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    _execute(connection, layout.migrations[_version(connection, layout, path) :])
    connection.execute(f"PRAGMA application_id = {layout.application_id}")
    connection.execute(f"PRAGMA user_version = {len(layout.migrations)}")
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection) -> None:
    """Look through the whole file, as fast as the disk gives it."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise connection.DatabaseError(f"malformed: {found}")


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
