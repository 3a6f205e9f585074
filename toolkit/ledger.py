"""What is known of each call, written down before and after: so that none has its effect twice.

A call is proposed, approved, started and finished. Each stage is written once, by whoever comes first; to have written
`started` is the right to carry the call out. After a crash, or when a state is taken up twice, the ledger tells what
was done: what has finished is not done again, and its result is told again; what has started and not finished may have
taken effect, and is done again only where that does no harm.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar, cast

from toolkit.doors import Door
from toolkit.errors import Failed
from toolkit.messages import ToolMessage, ToolResult
from toolkit.transcripts import message_from_dict, message_to_dict

if TYPE_CHECKING:
    import sqlite3

logger = logging.getLogger("toolkit")

T = TypeVar("T")
Stage: TypeAlias = Literal["proposed", "approved", "started", "finished"]

# Seconds between two tries to open a file that others are making.
PAUSE = 0.01

UNKEPT = "This call was not run: its steps cannot be written down now."
STARTED = "This call was started before and may have taken effect; it was not run again."
CHANGED = (
    "A call of this id was started before with other arguments, or by another definition of its tool; "
    "this one was not run. Send it again if it is still needed."
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One stage of one call.

    Attributes:
        digest: Which call it was: the tool, its definition, the arguments.
        result: What came of it, once it has finished, as JSON: text, error, its kind, pictures and files.
        at: When, in seconds since 1970, UTC.
    """

    run_id: str
    call_id: str
    stage: Stage
    digest: str = ""
    result: str = ""
    at: float = field(default_factory=time.time, compare=False)


class Ledger(Protocol):
    """Where entries are kept. It may be used from any thread."""

    def write(self, entry: Entry) -> bool:
        """Keep an entry; False, and nothing kept, where the same stage of the same call is there already."""
        ...

    def read(self, run_id: str, call_id: str | None = None) -> tuple[Entry, ...]:
        """Give the entries of a run, or of one of its calls, in the order in which they were written."""
        ...


class MemoryLedger:
    """A ledger that lasts as long as its process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, dict[tuple[str, Stage], Entry]] = {}

    def write(self, entry: Entry) -> bool:
        """Keep an entry; False, and nothing kept, where the same stage of the same call is there already."""
        key = (entry.call_id, entry.stage)
        with self._lock:
            return self._entries.setdefault(entry.run_id, {}).setdefault(key, entry) is entry

    def read(self, run_id: str, call_id: str | None = None) -> tuple[Entry, ...]:
        """Give the entries of a run, or of one of its calls, in the order in which they were written."""
        with self._lock:
            entries = tuple(self._entries.get(run_id, {}).values())
        return tuple(entry for entry in entries if call_id in (None, entry.call_id))


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


@dataclass(frozen=True, kw_only=True)
class Record:
    """One call in a ledger.

    Attributes:
        digest: Which call it is, with the arguments that the model proposes.
        may_repeat: Whether it does no harm to carry it out twice.
    """

    ledger: Ledger
    run_id: str
    call_id: str
    digest: str
    may_repeat: bool
    door: Door

    async def recall(self) -> ToolResult | None:
        """Give what came of the call, where it was carried out before; None where it is to be carried out now.

        Raises:
            Failed: It has started and not finished, or it was another call, and may not be repeated; or the ledger
                cannot be read.
        """
        entries = await self._do("be read", lambda: self.ledger.read(self.run_id, self.call_id))
        stages = {entry.stage: entry for entry in entries}
        started, finished = stages.get("started"), stages.get("finished")
        if finished is not None and finished.digest == self.digest:
            return _result(finished.result)
        if started is None or self.may_repeat:
            return None
        raise Failed(STARTED if started.digest == self.digest else CHANGED)

    async def note(self, stage: Stage, digest: str = "") -> bool:
        """Write a stage; False where it was written before.

        Raises:
            Failed: It cannot be written.
        """
        return await self._write(stage, digest or self.digest)

    async def carry_out(self, work: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Do the work of the call, and write down that it starts and what came of it.

        Raises:
            Failed: Somebody else has started the call, and it may not be repeated; or its start cannot be written.
        """
        is_first = await self.note("started")
        if not is_first and (known := await self.recall()) is not None:
            return known
        result = await work()
        await self.finish(result)
        return result

    async def finish(self, result: ToolResult) -> None:
        """Write down what came of the call, a refusal included; where that cannot be kept, the log says so."""
        with suppress(Failed):
            await self._write("finished", self.digest, result)

    async def _write(self, stage: Stage, digest: str, result: ToolResult | None = None) -> bool:
        def write() -> bool:
            told = "" if result is None else _json(result)
            entry = Entry(run_id=self.run_id, call_id=self.call_id, stage=stage, digest=digest, result=told)
            return self.ledger.write(entry)

        return await self._do(f"keep {stage!r}", write)

    async def _do(self, what: str, work: Callable[[], T]) -> T:
        async def done() -> T:
            try:
                return work()
            except Exception as error:
                logger.exception("The ledger could not %s, for the call %s.", what, self.call_id)
                raise Failed(UNKEPT) from error

        return await self.door.call(done, is_async=False)


def _json(result: ToolResult) -> str:
    told = ToolMessage(call_id="", name="", text=result.text or "", images=result.images, files=result.files)
    return json.dumps({"told": message_to_dict(told), "error": result.error, "kind": result.kind})


def _result(text: str) -> ToolResult:
    kept = json.loads(text)
    told = cast("ToolMessage", message_from_dict(kept["told"]))
    value = told.text if kept["error"] is None else None
    return ToolResult(value, told.text, kept["error"], kept["kind"], images=told.images, files=told.files)
