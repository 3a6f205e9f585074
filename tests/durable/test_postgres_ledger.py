"""A ledger in PostgreSQL, on a server of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from toolkit import LedgerEntry, Runner, RunState, SQLiteLedger, tool
from toolkit.approvers import defer
from toolkit.errors import StoreError
from toolkit.testing import ScriptedModel, call

pytest.importorskip("psycopg", reason='needs the extra "postgres"')
import psycopg

from toolkit.durable import PostgresLedger

PROGRAMS = [*map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"))), os.environ.get("PATH", "")]
INITDB = shutil.which("initdb", path=os.pathsep.join(PROGRAMS))
# The server refuses to run as root.
USER = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
ENTRY = LedgerEntry(run_id="r", call_id="c", stage="proposed", digest="d")

pytestmark = pytest.mark.skipif(INITDB is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server that listens on a socket in a directory of its own."""
    home = tempfile.mkdtemp(prefix="pg")
    if USER:
        shutil.chown(home, "postgres", "postgres")
    data, programs = f"{home}/data", Path(str(INITDB)).parent
    subprocess.run(  # noqa: S603
        [str(INITDB), "-D", data, "-A", "trust", "-U", "test", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=home,
        **USER,
    )  # type: ignore[call-overload]
    server = subprocess.Popen(  # noqa: S603
        [programs / "postgres", "-D", data, "-k", home, "-c", "listen_addresses="],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=home, **USER,
    )  # type: ignore[call-overload]  # fmt: skip
    try:
        for _ in range(300):
            if Path(f"{home}/.s.PGSQL.5432").exists():
                break
            time.sleep(0.1)
        yield f"host={home} user=test dbname=postgres"
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def ledger(address: str) -> Iterator[PostgresLedger]:
    """An empty ledger."""
    with PostgresLedger(address) as made:
        made.prune(0)
        yield made


def test_stages(ledger: PostgresLedger, address: str) -> None:
    """Each stage of a call is stored once, whoever writes it, and read in the order of writing."""
    others = [replace(ENTRY, stage="started"), replace(ENTRY, call_id="b"), replace(ENTRY, run_id="s")]
    with PostgresLedger(address) as other:
        written = [ledger.write(ENTRY), other.write(replace(ENTRY, digest="e")), *map(other.write, others)]

    assert [True, False, True, True, True] == written
    assert (ENTRY, *others[:2]) == ledger.read("r")
    assert (ENTRY, others[0]) == ledger.read("r", "c")
    assert () == ledger.read("unknown")


def test_a_restart_of_the_server(ledger: PostgresLedger, address: str) -> None:
    """Connections that have broken while they were idle are replaced."""
    ledger.write(ENTRY)
    with psycopg.connect(address) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    assert (ENTRY,) == ledger.read("r")


def test_one_writer_wins(ledger: PostgresLedger) -> None:
    """Of many that write a stage at the same time, one stores it."""
    together = threading.Barrier(8)
    won = list[bool]()

    def write() -> None:
        together.wait()
        won.append(ledger.write(ENTRY))

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [False] * 7 + [True] == sorted(won)


def test_many_create_the_table(address: str) -> None:
    """Workers that start at the same time all find the table."""
    made = list[PostgresLedger]()
    threads = [threading.Thread(target=lambda: made.append(PostgresLedger(address))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in made:
        each.close()

    assert 6 == len(made)


def test_runs_share_it(ledger: PostgresLedger) -> None:
    """A state that two runners resume has its effect once."""
    paid = list[int]()

    @tool(approve=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    state = Runner([pay], model=ScriptedModel([call("pay", amount=5)]), approve=defer).run("Pay.").state
    decisions = {waiting.call.id: True for waiting in state.pending}
    results = [
        Runner([pay], model=ScriptedModel(["Done."]), ledger=ledger).resume(
            RunState.from_json(state.to_json()), decisions
        )
        for _ in range(2)
    ]

    assert ([5], ["paid 5", "paid 5"]) == (paid, [result.calls[0].result.text for result in results])


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_prune(kind: str, address: str, tmp_path: Path) -> None:
    """Runs to which nothing was written for some time are deleted whole; others stay whole."""
    with PostgresLedger(address) if kind == "postgres" else SQLiteLedger(tmp_path / "calls.db") as kept:
        now = time.time()
        entries = [
            replace(ENTRY, run_id="old", at=now - 100),
            replace(ENTRY, run_id="long", at=now - 100),
            replace(ENTRY, run_id="long", stage="started", at=now),
        ]
        written = [kept.write(entry) for entry in entries]
        counts = kept.prune(50), kept.prune(50)

        assert ([True] * 3, (1, 0)) == (written, counts)
        assert ((), 2) == (kept.read("old"), len(kept.read("long")))
        with pytest.raises(ValueError, match="seconds=-1"):
            kept.prune(-1)


def test_unreachable(tmp_path: Path) -> None:
    """A database that cannot be reached is an error at once, not at the first call."""
    with pytest.raises(StoreError, match="ledger in PostgreSQL failed"):
        PostgresLedger(f"host={tmp_path} dbname=none", timeout=0.3)
