"""Runs in a SQLite file: the state before each step, and the calls of the run, for a process that may die at any time.

The state says what comes next, and the ledger of calls in the same file what was done since. A run that is resumed
repeats no finished call; one that had started and has no result may have had its effect, and is repeated only if its
tool may be.
"""

from __future__ import annotations

import time

from toolkit._execution.ledger import ENTRIES, SQLiteLedger
from toolkit._options import find_cutoff
from toolkit._runner.state import RunState
from toolkit.errors import ConversationError
from toolkit.stores.database import Layout

_RUNS = "CREATE TABLE runs (id TEXT PRIMARY KEY, phase TEXT, state TEXT, at REAL)"
_SAVE = """
INSERT INTO runs VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET phase = excluded.phase, state = excluded.state, at = excluded.at
"""
_OPEN = "SELECT id, phase FROM runs WHERE phase != 'finished' ORDER BY at"
_ENDED = "SELECT id FROM runs WHERE phase = 'finished' AND at < ?"


class SQLiteRuns(SQLiteLedger):
    """Saves each step of runs in a SQLite file, for several threads and processes of one machine.

    Pass it to a runner: `Runner(..., checkpoint=SQLiteRuns("runs.db"))`. It saves the state before each step and at the
    end, and records the calls, unless the runner has another `ledger`. After a crash, continue with
    `runner.resume(run_id)`.

    Resume a run in one process at a time. A second process repeats no call, but both ask the model.

    Args:
        path: The file. It is created if it does not exist. It contains whole conversations, and only its owner can read
            it.
        timeout: Longest wait for another process that writes, in seconds.

    Raises:
        StoreError: The file is damaged, holds something else, or cannot be opened.
    """

    _layout = Layout(holds="runs", application_id=int.from_bytes(b"tkRN", "big"), migrations=((*ENTRIES, _RUNS),))

    def __call__(self, state: RunState) -> None:
        """Save the state of a run.

        Raises:
            StoreError: The state could not be saved.
        """
        row = state.run_id, state.phase, state.to_json(), time.time()
        with self._database.transaction() as connection:
            connection.execute(_SAVE, row)

    def load(self, run_id: str) -> RunState:
        """Return the last state of a run.

        Raises:
            ConversationError: There is no such run.
            StoreError: The file could not be read.
        """
        with self._database.snapshot() as connection:
            row = connection.execute("SELECT state FROM runs WHERE id = ?", (run_id,)).fetchone()
        if row is None:
            raise ConversationError(f"There is no run {run_id!r:.100} here: unfinished() lists those to resume.")
        return RunState.from_json(row[0])

    def unfinished(self) -> dict[str, str]:
        """Return the phases of the runs that have not ended, by run id. The run with the oldest last step comes first.

        `paused` waits for approval. In `asking` or `calling`, a process is working on the run, or has crashed.

        Raises:
            StoreError: The file could not be read.
        """
        with self._database.snapshot() as connection:
            return dict(connection.execute(_OPEN).fetchall())

    def prune(self, seconds: float) -> int:
        """Delete the runs that ended longer ago than `seconds`, with the records of their calls. Return how many.

        Raises:
            ValueError: `seconds` is not a number of at least 0.
            StoreError: The runs could not be deleted.
        """
        cutoff = find_cutoff(seconds)
        with self._database.transaction() as connection:
            ended = connection.execute(_ENDED, (cutoff,)).fetchall()
            connection.executemany("DELETE FROM entries WHERE run_id = ?", ended)
            connection.executemany("DELETE FROM runs WHERE id = ?", ended)
        return len(ended)


def read_state(given: RunState | str, checkpoint: object) -> RunState:
    """Return the state that `resume` is given: a state, its JSON text, or the id of a run in the runner's SQLiteRuns.

    Raises:
        ConversationError: There is no such run, or the text is not the state of a run.
        TypeError: The value is neither a state nor a text.
    """
    if isinstance(given, RunState):
        return given
    if not isinstance(given, str):
        raise TypeError(f"resume() takes result.state, the text of its to_json(), or a run's id, not {given!r:.100}.")
    if given.lstrip().startswith("{"):
        return RunState.from_json(given)
    if isinstance(checkpoint, SQLiteRuns):
        return checkpoint.load(given)
    raise ConversationError(
        f"This is not the state of a run: {given!r:.100}. To resume by a run's id, make the Runner with "
        "checkpoint=SQLiteRuns(path)."
    )
