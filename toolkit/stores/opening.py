"""How a SQLite file is opened: made where there is none, looked through, brought up to date, or refused."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import Failed
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


class StoreError(Failed):
    """A file could not be used; what was to be written then is not kept. The message says what to do."""


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
