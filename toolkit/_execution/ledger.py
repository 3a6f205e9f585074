"""Ledger of calls: each stage of a call is recorded, so that no call has its effect twice.

A call is proposed, approved, started and finished. Each stage is written once, by the first process that reaches it.
The process that writes `started` may run the call. After a crash, or when a state is resumed twice, the ledger shows
what was done. A finished call does not run again; its result is returned again. A call that started and did not finish
may have had its effect, and runs again only if its tool may be repeated.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, get_args

from pydantic_core import to_json

from toolkit._concurrency.backend import Backend, call_function
from toolkit._messages import ToolCall, ToolMessage, ToolResult, make_message, message_from_dict, message_to_dict
from toolkit._options import find_cutoff, is_whole
from toolkit._tools.tool import Tool, name_function
from toolkit.errors import Cancelled, Failed, FatalError, StoreError, TimedOut
from toolkit.stores.database import Layout, SQLiteStore

logger = logging.getLogger("toolkit")

T = TypeVar("T")
# Runs that a bounded ledger in memory has shortened, for each one that it has whole.
SHORTENED = 10
Stage: TypeAlias = Literal["proposed", "approved", "started", "finished"]


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One stage of one call.

    Attributes:
        run_id: The run.
        call_id: The call.
        stage: `proposed`, `approved`, `started` or `finished`.
        digest: Identifies the tool, its definition and the arguments.
        result: The result of a finished call, as JSON: text, error, its kind, pictures and files. Of a tool with `undo`
            also its value and, once it has started, tool and arguments.
        at: Time in seconds since 1970, UTC.
    """

    run_id: str
    call_id: str
    stage: Stage
    digest: str = ""
    result: str = ""
    at: float = field(default_factory=time.time, compare=False)


class Ledger(Protocol):
    """Storage of entries. Its methods may be called from any thread."""

    def write(self, entry: LedgerEntry) -> bool:
        """Store an entry. If the same stage of the same call is stored already, return False instead."""
        ...

    def read(self, run_id: str, call_id: str | None = None) -> Sequence[LedgerEntry]:
        """Return the entries of a run, or of one of its calls, in the order in which they were written."""
        ...


class MemoryLedger:
    """A ledger that lasts as long as its process.

    Args:
        runs: How many of the latest runs are stored whole; None stores all. Of ten times as many earlier runs it stores
            only which calls started or were refused, so that none of them runs again.

    Raises:
        ValueError: `runs` is not a whole number of at least 1.
    """

    def __init__(self, runs: int | None = None) -> None:
        if runs is not None and not is_whole(runs, 1):
            raise ValueError(f"runs={runs!r} is not a whole number of at least 1. None keeps all runs.")
        self._runs = runs
        self._lock = threading.Lock()
        self._whole: dict[str, _Run] = {}  # the run that was written to last comes last
        self._short: dict[str, _Run] = {}

    def write(self, entry: LedgerEntry) -> bool:
        """Store an entry. If the same stage of the same call is stored already, return False instead."""
        with self._lock:
            run = self._whole.pop(entry.run_id, None) or self._short.pop(entry.run_id, {})
            self._whole[entry.run_id] = run
            key = entry.call_id, entry.stage
            is_first = key not in run
            run.setdefault(key, entry)
            if self._runs is not None and len(self._whole) > self._runs:
                self._shorten(next(iter(self._whole)))
        return is_first

    def read(self, run_id: str, call_id: str | None = None) -> tuple[LedgerEntry, ...]:
        """Return the entries of a run, or of one of its calls, in the order in which they were written."""
        with self._lock:
            run = self._whole.get(run_id) or self._short.get(run_id, {})
            keys = run if call_id is None else [(call_id, stage) for stage in get_args(Stage)]
            return tuple([run[key] for key in keys if key in run])

    def _shorten(self, run_id: str) -> None:
        entries = self._whole.pop(run_id).values()
        refused = [replace(entry, stage="started", result="") for entry in entries if entry.stage == "finished"]
        started = [entry for entry in entries if entry.stage == "started"]
        if refused or started:
            self._short[run_id] = {(entry.call_id, entry.stage): entry for entry in (*refused, *started)}
        if self._runs is not None and len(self._short) > SHORTENED * self._runs:
            del self._short[next(iter(self._short))]


# The entries of one run, in the order in which they were written.
_Run: TypeAlias = dict[tuple[str, Stage], LedgerEntry]


_FIELDS = tuple(LedgerEntry.__dataclass_fields__)
# Statements that create the table of entries.
ENTRIES = (
    """
CREATE TABLE entries (
    run_id TEXT, call_id TEXT, stage TEXT, digest TEXT, result TEXT, at REAL,
    PRIMARY KEY (run_id, call_id, stage)
)
""",
)
_WRITE = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_READ_RUN = "SELECT * FROM entries WHERE run_id = ? ORDER BY rowid"
_READ_CALL = "SELECT * FROM entries WHERE run_id = ? AND call_id = ? ORDER BY rowid"
_PRUNE = """
DELETE FROM entries WHERE run_id IN (SELECT run_id FROM entries GROUP BY run_id HAVING max(at) < ?)
"""


class SQLiteLedger(SQLiteStore):
    """A ledger in a file, for several threads and processes of one machine.

    It keeps every run, so that no call runs twice, until `prune` deletes those that will not be resumed.

    Args:
        path: The file; created if it does not exist.
        timeout: Longest wait for another process that writes, in seconds.

    Raises:
        StoreError: The file is damaged, holds something else, or cannot be opened.
    """

    _layout = Layout(holds="a ledger", application_id=int.from_bytes(b"tkLG", "big"), migrations=(ENTRIES,))

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        super().__init__(path, self._layout, timeout=timeout)

    def write(self, entry: LedgerEntry) -> bool:
        """Store an entry. If the same stage of the same call is stored already, return False instead.

        Raises:
            StoreError: The entry could not be stored.
        """
        with self._database.transaction() as connection:
            return connection.execute(_WRITE, astuple(entry)).rowcount == 1

    def read(self, run_id: str, call_id: str | None = None) -> tuple[LedgerEntry, ...]:
        """Return the entries of a run, or of one of its calls, in the order in which they were written.

        Raises:
            StoreError: The entries could not be read.
        """
        query = (_READ_RUN, (run_id,)) if call_id is None else (_READ_CALL, (run_id, call_id))
        with self._database.snapshot() as connection:
            rows = connection.execute(*query)
            return tuple(LedgerEntry(**dict(zip(_FIELDS, row))) for row in rows)

    def prune(self, seconds: float) -> int:
        """Delete the entries of runs whose last entry is older than `seconds`, and return how many were deleted.

        Do not resume these runs: their calls would be executed again.

        Raises:
            ValueError: `seconds` is not a number of at least 0.
            StoreError: The entries could not be deleted.
        """
        cutoff = find_cutoff(seconds)
        with self._database.transaction() as connection:
            return connection.execute(_PRUNE, (cutoff,)).rowcount


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Where the calls of a run are recorded.

    Attributes:
        ledger: Records the calls; None if only those of tools with `undo` are recorded.
        undo_ledger: Records the calls of tools with `undo`; the same as `ledger` if that is set.
        runs_above: Ids of the runs above, the outermost first, whose `undo` undoes these calls, too. The calls are
            recorded as those of the first.
        suspects: Ids of calls that may have started in a process that has ended, and that no ledger has recorded.
    """

    ledger: Ledger | None = None
    undo_ledger: Ledger | None = None
    runs_above: tuple[str, ...] = ()
    suspects: Collection[str] = ()


UNRECORDED = "This call was not run: its steps cannot be recorded now."
STARTED = "This call was started before and may have taken effect; it was not run again."
CHANGED = (
    "A call of this id was started before with other arguments, or by another definition of its tool; "
    "this one was not run. Send it again if it is still needed."
)


@dataclass(frozen=True)
class CallNote:
    """The further record of a call that can be undone."""

    tool: Tool[..., Any]
    call: ToolCall
    turn: int
    runs: Sequence[str]

    def describe_call(self) -> str:
        """Write the call as JSON."""
        own = {"tool": self.call.name, "function": name_function(self.tool)}
        return json.dumps({**own, "arguments": self.call.arguments, "turn": self.turn, "runs": self.runs})

    def describe_result(self, result: ToolResult) -> Mapping[str, Any]:
        """Describe how a call ended: its value, or for a failed call, whether it may have taken effect."""
        if result.is_error:
            was_interrupted = isinstance(result.exception, (Cancelled, TimedOut, Failed, BrokenExecutor))
            return {"may_have_run": was_interrupted}
        if not self.tool._plan_undo().result:
            return {"value": "null"}

        returns = self.tool.handler.interface.returns
        try:
            if returns.serializer:
                text = returns.serializer.to_json(result.value, by_alias=True).decode()
            else:
                text = to_json(result.value).decode()
            if returns.check(json.loads(text)) == result.value:
                return {"value": text}
        except Exception:  # noqa: BLE001, S110  the user's type may raise anything
            pass

        logger.warning("%s() returned what cannot be kept as JSON, so it cannot be undone.", self.call.name)
        return {"value": ""}


@dataclass(frozen=True, kw_only=True)
class CallRecord:
    """One call in a ledger.

    Attributes:
        digest: Identifies the call with the arguments that the model proposes.
        may_repeat: Whether the tool may run twice.
    """

    ledger: Ledger
    run_id: str
    call_id: str
    digest: str
    may_repeat: bool
    backend: Backend

    async def recall(self) -> ToolResult | None:
        """Return the call's earlier result, or None if the call is to run now.

        Raises:
            Failed: The call, or another one with its id, has started and not finished, and may not be repeated; or the
                ledger cannot be read.
        """
        entries = await self._attempt("be read", self.ledger.read, self.run_id, self.call_id)
        stages = {entry.stage: entry for entry in entries}
        started, finished = stages.get("started"), stages.get("finished")
        if finished is not None and finished.digest == self.digest:
            return _load_result(finished.result)
        if started is None or self.may_repeat:
            return None
        raise Failed(STARTED if started.digest == self.digest else CHANGED)

    async def write(self, stage: Stage, text: str = "", digest: str = "") -> bool:
        """Write a stage, with a result or a note as its text. Return False if it was written before.

        Raises:
            Failed: The stage cannot be written.
        """
        entry = LedgerEntry(
            run_id=self.run_id, call_id=self.call_id, stage=stage, digest=digest or self.digest, result=text
        )
        return await self._attempt(f"keep {stage!r}", self.ledger.write, entry)

    async def execute(self, work: Callable[[], Awaitable[ToolResult]], note: CallNote | None = None) -> ToolResult:
        """Run the call, and record its start and its result. A note adds what an undo of the call needs.

        Raises:
            Failed: The call was started elsewhere, and may not be repeated; or its start cannot be written.
        """
        is_first = await self.write("started", note.describe_call() if note else "")
        if not is_first and (known := await self.recall()) is not None:
            return known

        try:
            result = await work()
        except FatalError as error:
            if note:  # the effect of a tool that raises is not undone
                await self.finish(ToolResult.from_error(Failed(f"The call raised {error!r}."), error), note)
            raise

        if result.kind != "pending":  # its sub-agent waits for approval
            await self.finish(result, note)
        return result

    async def finish(self, result: ToolResult, note: CallNote | None = None) -> None:
        """Record the call's result, which may be a refusal. If that fails, the error is only logged."""
        more = note.describe_result(result) if note else {}
        with suppress(Failed):
            await self.write("finished", dump_result(result, more))

    async def _attempt(self, what: str, method: Callable[..., T], *arguments: Any) -> T:
        try:
            value: T = await call_function(method, arguments, self.backend)
        except Exception as error:
            logger.exception("The ledger could not %s, for the call %s.", what, self.call_id)
            raise Failed(UNRECORDED) from error
        return value


def dump_result(result: ToolResult, more: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Write a result as JSON, with further keys."""
    message = make_message(ToolCall(name=""), result)
    return json.dumps({"message": message_to_dict(message), "error": result.error, "kind": result.kind, **more})


def parse_record(entry: LedgerEntry, *keys: str) -> Mapping[str, Any]:
    """Parse what an entry says of its call: a JSON object with at least these keys.

    Raises:
        StoreError: The entry is damaged.
    """
    with suppress(ValueError, TypeError, RecursionError):
        record = json.loads(entry.result)
        if isinstance(record, dict) and record.keys() >= {*keys}:
            return record
    raise StoreError(f"The record of the call {entry.call_id!r} is damaged: restore the ledger from a backup.")


def _load_result(text: str) -> ToolResult:
    data = json.loads(text)
    message = cast("ToolMessage", message_from_dict(data["message"]))
    value = message.text if data["error"] is None else None
    return message.to_result().replace(value=value, error=data["error"], kind=data["kind"])
