"""SQLite files: durability, threads, processes, forks, and files that are refused."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from toolkit import ToolError
from toolkit.errors import StoreError
from toolkit.stores.database import Database, Layout

NUMBERS = Layout(
    holds="numbers", application_id=0x746B_5454, migrations=(("CREATE TABLE numbers (n INTEGER PRIMARY KEY, text)",),)
)
LATER = replace(
    NUMBERS, migrations=(*NUMBERS.migrations, ("ALTER TABLE numbers ADD sign", "UPDATE numbers SET sign = 1"))
)
BROKEN = replace(NUMBERS, migrations=(*NUMBERS.migrations, ("UPDATE numbers SET n = 9", "no SQL at all")))
# What a script of another process begins with.
SCRIPT = """
import os, sys
from toolkit.stores.database import Database, Layout
NUMBERS = Layout(holds="numbers", application_id=0x746B5454, migrations=(("CREATE TABLE numbers (n, text)",),))
def add(database, *numbers):
    for number in numbers:
        with database.transaction() as connection:
            connection.execute("INSERT INTO numbers (n) VALUES (?)", (number,))
"""


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path without a file."""
    return tmp_path / "numbers.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    """A new file."""
    with closing(Database(path, NUMBERS)) as subject:
        yield subject


def add(database: Database, *numbers: object) -> None:
    """Insert numbers, all or none."""
    with database.transaction() as connection:
        connection.executemany("INSERT INTO numbers (n) VALUES (?)", [(number,) for number in numbers])


def add_each(database: Database, numbers: Iterable[int]) -> None:
    """Insert numbers, each in its own block."""
    for number in numbers:
        add(database, number)


def read_numbers(database: Database) -> list[int]:
    """Read the numbers of a database."""
    with database.snapshot() as connection:
        return [number for (number,) in connection.execute("SELECT n FROM numbers ORDER BY n")]


def open_and_read(path: Path) -> list[int]:
    """Open the file, and read its numbers."""
    with closing(Database(path, NUMBERS)) as opened:
        return read_numbers(opened)


def run(script: str, *arguments: object, stderr: int | None = None) -> subprocess.Popen[str]:
    """Start a process that can use `add`."""
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT + script, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": "."}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment)


def refusal(path: Path, layout: Layout = NUMBERS, timeout: float = 1.0) -> str:
    """Why a file is refused."""
    with pytest.raises(StoreError) as refused:
        Database(path, layout, timeout=timeout)
    return str(refused.value)


def test_committed(database: Database, path: Path) -> None:
    """The changes of a block are there for everyone who opens the file."""
    add(database, 1, 2)

    assert [1, 2] == open_and_read(path)


def test_all_or_nothing(database: Database, path: Path) -> None:
    """A block that raises changes nothing, and the file stays usable."""

    def begin_only() -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO numbers (n) VALUES (1)")
            raise KeyError

    with pytest.raises(KeyError):
        begin_only()
    add(database, 2)

    assert [2] == open_and_read(path)


def test_block_in_a_block(database: Database) -> None:
    """A block in a block of the same database is refused, and the outer one goes on."""
    with database.transaction() as connection:
        connection.execute("INSERT INTO numbers (n) VALUES (1)")
        with pytest.raises(RuntimeError, match="has a transaction of this database open"):
            add(database, 2)

    assert [1] == read_numbers(database)


def test_one_state(database: Database, path: Path) -> None:
    """A reading block sees one state, and does not block writers."""
    add(database, 1)
    with database.snapshot() as connection, closing(Database(path, NUMBERS)) as another:
        before = connection.execute("SELECT count(*) FROM numbers").fetchone()
        add(another, 2)
        after = connection.execute("SELECT count(*) FROM numbers").fetchone()

    assert (1,) == before == after
    assert [1, 2] == read_numbers(database)


def test_use_after_close(database: Database) -> None:
    """A database that was closed opens its file again."""
    add(database, 1)
    database.close()

    assert [1] == read_numbers(database)


def test_other_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path means the same file after the process went elsewhere."""
    monkeypatch.chdir(tmp_path)
    with closing(Database("numbers.db", NUMBERS)) as database:
        monkeypatch.chdir("/")
        database.close()
        add(database, 1)

    assert [1] == open_and_read(tmp_path / "numbers.db")


def test_threads(database: Database) -> None:
    """Threads can share a database without losing writes."""
    workers = [
        threading.Thread(target=lambda first: add_each(database, range(first, first + 50)), args=(100 * worker,))
        for worker in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert [worker * 100 + n for worker in range(8) for n in range(50)] == read_numbers(database)


def test_processes(path: Path) -> None:
    """Processes that create one file at the same time lose no writes."""
    script = "start = int(sys.argv[2]); add(Database(sys.argv[1], NUMBERS), *range(start, start + 100))"
    workers = [run(script, path, 100 * worker) for worker in range(4)]

    assert [0, 0, 0, 0] == [worker.wait() for worker in workers]
    assert list(range(400)) == open_and_read(path)
    for worker in workers:
        worker.communicate()


# The child goes on writing after its parent closed the file: with SQLite's locks of before the fork, the log would be
# deleted that it writes to.
FORK = """
database = Database(sys.argv[1], NUMBERS)
add(database, 1)
to_child, to_parent = os.pipe(), os.pipe()
if os.fork() == 0:
    add(database, 2)
    os.write(to_parent[1], b"2")
    os.read(to_child[0], 1)
    add(database, 3)
    os._exit(0)
os.read(to_parent[0], 1)
add(database, 4)
database.close()
os.write(to_child[1], b"3")
os.wait()
"""


@needs_fork
def test_fork(path: Path) -> None:
    """Both processes of a fork go on writing to one file, and lose nothing."""
    with run(FORK, path) as forking:
        forking.communicate()

    assert [1, 2, 3, 4] == open_and_read(path)


FORK_IN_MEMORY = """
database = Database(":memory:", NUMBERS)
add(database, 1)
child = os.fork()
add(database, 2 if child else 3)
if child:
    os.wait()
with database.snapshot() as connection:
    print(connection.execute("SELECT n FROM numbers").fetchall(), flush=True)
"""


@needs_fork
def test_fork_in_memory() -> None:
    """After a fork each process has its own copy of a database in memory."""
    with run(FORK_IN_MEMORY) as forking:
        text = forking.communicate()[0]

    assert "[(1,), (3,)]\n[(1,), (2,)]\n" == text


@pytest.mark.skipif(sys.platform == "win32", reason="no fork here")
def test_fork_while_another_thread_writes(path: Path) -> None:
    """A fork waits for the block of another thread, and the child can use the file."""
    script = """
import threading
database = Database(sys.argv[1], NUMBERS)
writer = threading.Thread(target=add, args=(database, *range(100)))
writer.start()
children = [os.fork() or (add(database, 1000 + n), os._exit(0)) for n in range(5)]
writer.join()
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""
    with run(script, path) as forking:
        forking.communicate()

    assert 0 == forking.returncode
    assert [*range(100), *range(1000, 1005)] == open_and_read(path)


EXIT = """
import threading
database = Database(sys.argv[1], NUMBERS)
started = threading.Event()
def count():
    with database.snapshot() as connection:
        started.set()
        connection.execute(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT max(x) FROM n"
        )
threading.Thread(target=count, daemon=True).start()
started.wait()
"""


def test_exit_while_a_thread_works(path: Path) -> None:
    """A process that ends while a thread of it is at work in a database ends well, and at once."""
    with run(EXIT, path) as ending:
        ending.communicate(timeout=20)

    assert 0 == ending.returncode


def test_migration(database: Database, path: Path) -> None:
    """A file of an earlier version is migrated with its data."""
    add(database, 1)
    with closing(Database(path, LATER)) as later, later.snapshot() as connection:
        rows = connection.execute("SELECT n, sign FROM numbers").fetchall()

    assert [(1, 1)] == rows


def test_migration_that_fails(database: Database, path: Path) -> None:
    """If a migration fails, the file stays as it was."""
    add(database, 1)
    refusal(path, BROKEN)

    assert [1] == open_and_read(path)


def test_later_version(path: Path) -> None:
    """A file of a later version is refused, and not changed."""
    Database(path, LATER).close()
    before = path.read_bytes()

    assert (
        "numbers.db was made by a later version of this library: update the library, or choose another file."
    ) == refusal(path)
    assert before == path.read_bytes()


def test_other_contents(path: Path) -> None:
    """A SQLite file of another program is refused, and not changed."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE contacts (name)")
    before = path.read_bytes()

    assert "numbers.db holds something other than numbers: choose another file." == refusal(path)
    assert before == path.read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="no modes here")
def test_private(database: Database, path: Path) -> None:
    """Only its owner may read a new file and its log."""
    add(database, 1)
    files = [path, Path(f"{path}-wal"), Path(f"{path}-shm")]

    assert [0o600] * 3 == [file.stat().st_mode & 0o777 for file in files]


def test_null_byte(tmp_path: Path) -> None:
    """An invalid file name is refused like a file that cannot be opened."""
    with pytest.raises(StoreError, match="is not a file name"):
        Database(f"{tmp_path}/a\0b", NUMBERS)


CLOSED = "unable to open database file. Check that its directory exists"


@pytest.mark.parametrize("name", ["directory", ""], ids=["is a directory", "no name"])
def test_no_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that cannot be a file is refused with advice."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    with pytest.raises(StoreError) as refused:
        Database(name, NUMBERS)

    assert str(refused.value).startswith(f"{(tmp_path / name).name} cannot be used: {CLOSED}")


def test_no_directory(tmp_path: Path) -> None:
    """Where the directory of a new file is missing, the error says what to look at."""
    with pytest.raises(StoreError) as refused:
        Database(tmp_path / "missing" / "numbers.db", NUMBERS)

    assert str(refused.value).startswith(f"numbers.db cannot be used: {CLOSED}")


def test_no_database(path: Path) -> None:
    """A file of another format is refused with advice, and not changed."""
    path.write_text("Dear diary, " * 1000, encoding="utf-8")

    assert refusal(path).startswith("numbers.db cannot be used: file is not a database.")
    assert "Dear diary, " * 1000 == path.read_text(encoding="utf-8")


def test_held_by_another(database: Database, path: Path) -> None:
    """If another process locks the file for too long, the error advises to try again."""
    add(database, 1)
    with closing(Database(path, NUMBERS, timeout=0.05)) as hasty:
        with database.transaction(), pytest.raises(ToolError) as refused:
            add(hasty, 2)
        add(hasty, 3)

    assert refused.value.text.startswith("numbers.db cannot be used: database is locked.")
    assert [1, 3] == read_numbers(database)


def test_made_by_another(path: Path) -> None:
    """A file that another process never finishes creating is waited for until the timeout."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")

        assert "database is locked" in refusal(path, timeout=0.05)


FULL = """
import resource, signal
database = Database(sys.argv[1], NUMBERS)
add(database, 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (300000, resource.RLIM_INFINITY))
try:
    with database.transaction() as connection:
        connection.execute("INSERT INTO numbers VALUES (2, randomblob(1000000))")
except Exception as error:
    print(type(error).__name__, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
add(database, 3)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits here")
def test_full(path: Path) -> None:
    """On a full disk, a block changes nothing, older data stays, and the file works once there is room."""
    with run(FULL, path) as filling:
        text = filling.communicate()[0]

    assert text.startswith("StoreError numbers.db cannot be used: ")
    assert [1, 3] == open_and_read(path)


@pytest.mark.parametrize("value", ["\ud800", 2**70, object()], ids=["lone surrogate", "too large", "no value at all"])
def test_odd_values(value: object, database: Database) -> None:
    """A value that SQLite has no form for is refused, with no advice about the file, which can be used on."""
    with pytest.raises(StoreError) as refused:
        add(database, 1, value)
    assert "Check that its directory" not in str(refused.value)
    add(database, 2)

    assert [2] == read_numbers(database)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with some pages of numbers."""
    path = tmp_path_factory.mktemp("sound") / "numbers.db"
    with closing(Database(path, NUMBERS)) as database:
        add(database, *range(1500))
    return path.read_bytes()


def cut(data: bytes, chance: random.Random) -> bytes:
    """A file that ends too early."""
    return data[: chance.randrange(1, len(data))]


def overwrite_bytes(data: bytes, chance: random.Random) -> bytes:
    """A file with something else in some place."""
    start = chance.randrange(len(data))
    return data[:start] + chance.randbytes(chance.choice([1, 16, 600])) + data[start + 600 :]


def flip_bit(data: bytes, chance: random.Random) -> bytes:
    """A file with one bit that is not as it was."""
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]


def zero_page(data: bytes, chance: random.Random) -> bytes:
    """A file with a page of zeros."""
    start = chance.randrange(len(data) // 4096) * 4096
    return data[:start] + bytes(4096) + data[start + 4096 :]


@pytest.mark.parametrize("damage", [cut, overwrite_bytes, flip_bit, zero_page])
def test_damage(damage: Callable[[bytes, random.Random], bytes], sound: bytes, path: Path) -> None:
    """A damaged file is refused and left as it is, or can be read; no other error is raised."""
    for seed in range(60):
        damaged = damage(sound, random.Random(seed))  # noqa: S311  # the same damage each time
        path.write_bytes(damaged)
        try:
            seen = len(open_and_read(path))
        except StoreError:
            assert damaged == path.read_bytes()
        else:
            assert 0 <= seen <= 1500


def test_cut_file(sound: bytes, path: Path) -> None:
    """A file without its second half is refused with advice."""
    path.write_bytes(sound[: len(sound) // 2 // 4096 * 4096])

    assert refusal(path).startswith("numbers.db cannot be used: database disk image is malformed. Check that ")


def test_damage_is_found_on_opening(sound: bytes, path: Path) -> None:
    """A damaged page is found when the file is opened."""
    path.write_bytes(sound[:-4096] + bytes(4096))

    assert "numbers.db cannot be used: database disk image is malformed." in refusal(path)


def leave_log(path: Path) -> bytes:
    """Write ten numbers in a process that dies, and return the log that it leaves."""
    script = "database = Database(sys.argv[1], NUMBERS); add(database, *range(10)); os._exit(0)"
    with run(script, path) as writing:
        writing.communicate()
    return Path(f"{path}-wal").read_bytes()


def test_cut_log(path: Path, tmp_path: Path) -> None:
    """A log without its end gives the earlier transactions, each whole."""
    log, lengths = leave_log(path), set()
    for share in range(1, 20):
        copy = tmp_path / f"{share}.db"
        copy.write_bytes(path.read_bytes())
        Path(f"{copy}-wal").write_bytes(log[: len(log) * share // 20])
        numbers = open_and_read(copy)
        lengths.add(len(numbers))
        assert list(range(len(numbers))) == numbers

    assert len(lengths) > 5


def test_log_is_bounded(database: Database, path: Path) -> None:
    """After one large block the log is cut again."""
    with database.transaction() as connection:
        connection.execute("INSERT INTO numbers VALUES (1, zeroblob(40000000))")
    add(database, 2)

    assert Path(f"{path}-wal").stat().st_size <= 16 * 2**20
