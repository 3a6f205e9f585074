"""What is known of each call, and a place for it that lasts as long as the process."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias

Stage: TypeAlias = Literal["proposed", "approved", "started", "finished"]

# Stages after which a call is not carried out any more, but where that does no harm.
_CLAIMS = frozenset({"started", "finished"})


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
    """A ledger that lasts as long as its process.

    Args:
        runs: How many runs it keeps whole, the latest; of those before it keeps no more than which calls have begun or
            were refused, so that none of them is carried out again. None keeps all.

    Raises:
        ValueError: `runs` is less than 1.
    """

    def __init__(self, runs: int | None = None) -> None:
        if runs is not None and runs < 1:
            raise ValueError(f"runs={runs!r}: a ledger keeps one run at least, or None for all.")
        self._runs = runs
        self._lock = threading.Lock()
        self._whole: dict[str, _Run] = {}  # the run that was written to last stands last
        self._short: dict[str, _Run] = {}

    def write(self, entry: Entry) -> bool:
        """Keep an entry; False, and nothing kept, where the same stage of the same call is there already."""
        with self._lock:
            run = self._whole.pop(entry.run_id, None) or self._short.pop(entry.run_id, {})
            self._whole[entry.run_id] = run
            is_first = run.setdefault((entry.call_id, entry.stage), entry) is entry
            if self._runs is not None and len(self._whole) > self._runs:
                self._shorten(next(iter(self._whole)))
        return is_first

    def read(self, run_id: str, call_id: str | None = None) -> tuple[Entry, ...]:
        """Give the entries of a run, or of one of its calls, in the order in which they were written."""
        with self._lock:
            run = self._whole.get(run_id) or self._short.get(run_id, {})
            return tuple(entry for entry in run.values() if call_id in (None, entry.call_id))

    def _shorten(self, run_id: str) -> None:
        entries = self._whole.pop(run_id).values()
        claims = [replace(entry, stage="started", result="") for entry in entries if entry.stage in _CLAIMS]
        if claims:
            self._short[run_id] = {(entry.call_id, entry.stage): entry for entry in claims}


# The entries of one run, in the order in which they were written.
_Run: TypeAlias = dict[tuple[str, Stage], Entry]
