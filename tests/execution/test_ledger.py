"""What a ledger keeps, in memory and in a file, and what it keeps from happening twice."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolkit import (
    Denied,
    Failed,
    File,
    Image,
    Ledger,
    LedgerEntry,
    MemoryLedger,
    Runner,
    RunState,
    SQLiteLedger,
    ToolCall,
    ToolResult,
    tool,
)
from toolkit.middleware import Next
from toolkit.stores import StoreError
from toolkit.testing import ScriptedModel, call

STARTED_ENTRY = LedgerEntry(run_id="run", call_id="run_1", stage="started", digest="d")


@pytest.fixture(params=["memory", "file"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger of each kind."""
    made = MemoryLedger() if request.param == "memory" else SQLiteLedger(tmp_path / "calls.db")
    yield made
    if isinstance(made, SQLiteLedger):
        made.close()


def entries() -> list[LedgerEntry]:
    """The life of one call."""
    return [
        replace(STARTED_ENTRY, stage="proposed"),
        replace(STARTED_ENTRY, stage="approved", digest="other arguments"),
        STARTED_ENTRY,
        replace(STARTED_ENTRY, stage="finished", result="grüße\u2028\x00"),
    ]


def test_read(ledger: Ledger) -> None:
    """What is written is read, in the order in which it was written."""
    written = [ledger.write(entry) for entry in entries()]

    assert ([True] * 4, tuple(entries())) == (written, ledger.read("run"))


def test_time(ledger: Ledger) -> None:
    """An entry says when it was written."""
    ledger.write(replace(STARTED_ENTRY, at=5.5))

    assert [5.5] == [entry.at for entry in ledger.read("run")]


def test_once(ledger: Ledger) -> None:
    """A stage is written once; the first one stays."""
    ledger.write(STARTED_ENTRY)

    assert not ledger.write(replace(STARTED_ENTRY, digest="another"))
    assert not ledger.write(STARTED_ENTRY)
    assert (STARTED_ENTRY,) == ledger.read("run")


def test_apart(ledger: Ledger) -> None:
    """Calls and runs are kept apart."""
    others = [replace(STARTED_ENTRY, call_id="run_2"), replace(STARTED_ENTRY, run_id="ruin")]

    assert [True] * 3 == [ledger.write(entry) for entry in [STARTED_ENTRY, *others]]
    assert ((STARTED_ENTRY,), (others[1],)) == (ledger.read("run", "run_1"), ledger.read("ruin"))


@pytest.mark.parametrize("wanted", [("ruin", None), ("run", "run_9"), ("run", ""), ("", None)], ids=repr)
def test_nothing_known(ledger: Ledger, wanted: tuple[str, str | None]) -> None:
    """Of what was never written nothing is known."""
    ledger.write(STARTED_ENTRY)

    assert () == ledger.read(*wanted)


class Compared(str):
    """A text that counts how often it was compared."""

    __slots__ = ()
    times = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)


def count_steps(ledger: Any, size: int) -> int:
    """Count the steps in which one call is read, among as many of its run: of SQLite, or comparisons of its id."""
    for number in range(size):
        ledger.write(replace(STARTED_ENTRY, run_id=f"of {size}", call_id=Compared(number)))
    steps: list[int] = []
    Compared.times = 0
    if isinstance(ledger, SQLiteLedger):
        with ledger._database.snapshot() as connection:
            connection.set_progress_handler(lambda: steps.append(1), 1)
    assert 1 == len(ledger.read(f"of {size}", "5"))
    return len(steps) + Compared.times


def test_long_run(ledger: Ledger) -> None:
    """One call is found as fast among many calls of its run as among few."""
    assert count_steps(ledger, 1000) < 2 * count_steps(ledger, 10)


def test_with(tmp_path: Path) -> None:
    """A ledger in a file is closed at the end of a block, and opened again when it is used."""
    with SQLiteLedger(tmp_path / "calls.db", timeout=1.0) as ledger:
        ledger.write(STARTED_ENTRY)

    assert not Path(f"{tmp_path}/calls.db-wal").exists()
    assert (STARTED_ENTRY,) == ledger.read("run")
    ledger.close()


def claims(ledger: Ledger, count: int, threads: int) -> list[int]:
    """Let threads claim the same calls; give what each of them got."""
    got: list[int] = []
    begin = threading.Barrier(threads)

    def claim() -> None:
        begin.wait()
        got.extend(n for n in range(count) if ledger.write(replace(STARTED_ENTRY, call_id=f"run_{n}")))

    workers = [threading.Thread(target=claim) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return got


def test_threads(ledger: Ledger) -> None:
    """Of threads that claim the same call one gets it."""
    assert list(range(50)) == sorted(claims(ledger, 50, threads=8))


def claim_in_a_process(path: Path, begin: Any, got: Any) -> None:
    """Open the ledger and claim what can be had."""
    begin.wait()
    got.put(claims(SQLiteLedger(path), 50, threads=2))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # the threads of earlier tests
@pytest.mark.parametrize(("method", "count"), [("spawn", 2), ("fork", 4)])
def test_processes(method: Any, count: int, tmp_path: Path) -> None:
    """Of processes that claim the same call one gets it; the file may be made by all of them at once."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("this system does not start processes so")
    context = multiprocessing.get_context(method)
    begin, got = context.Barrier(count), context.Queue()
    arguments = (tmp_path / "calls.db", begin, got)
    workers = [context.Process(target=claim_in_a_process, args=arguments) for _ in range(count)]
    for worker in workers:
        worker.start()
    claimed = sorted(n for _ in workers for n in got.get(timeout=60))
    for worker in workers:
        worker.join()

    assert list(range(50)) == claimed


def test_file_lasts(tmp_path: Path) -> None:
    """What one process wrote another one finds."""
    first = SQLiteLedger(str(tmp_path / "calls.db"))
    first.write(STARTED_ENTRY)
    first.close()

    with_another = SQLiteLedger(tmp_path / "calls.db")
    assert (STARTED_ENTRY,) == with_another.read("run")
    with_another.close()


def test_file_after_close(tmp_path: Path) -> None:
    """A ledger that was closed opens its file again."""
    made = SQLiteLedger(tmp_path / "calls.db")
    made.close()

    assert made.write(STARTED_ENTRY)
    made.close()


def test_file_that_is_none(tmp_path: Path) -> None:
    """A file that is not a ledger is refused when it is opened."""
    (tmp_path / "calls.db").write_text("no database " * 100, encoding="utf-8")

    with pytest.raises(StoreError):
        SQLiteLedger(tmp_path / "calls.db")


def test_bounded_memory() -> None:
    """A ledger for so many runs keeps the latest whole, and of earlier ones what has started or was refused."""
    ledger = MemoryLedger(runs=1)
    refused = [replace(entry, call_id="run_2") for entry in (entries()[0], entries()[3])]
    for entry in [*entries(), *refused, replace(STARTED_ENTRY, run_id="other")]:
        ledger.write(entry)

    assert (STARTED_ENTRY, replace(STARTED_ENTRY, call_id="run_2")) == ledger.read("run")
    assert (replace(STARTED_ENTRY, run_id="other"),) == ledger.read("other")


def test_bounded_memory_forgets_what_never_started() -> None:
    """Of a run without a call that has started nothing is kept, once it is too old."""
    ledger = MemoryLedger(runs=1)
    for entry in [entries()[0], replace(STARTED_ENTRY, run_id="other")]:
        ledger.write(entry)

    assert () == ledger.read("run")


def test_bounded_memory_claims_once() -> None:
    """A call that has started cannot be claimed again, unless ten times as many runs have come since."""
    ledger = MemoryLedger(runs=2)
    runs = [replace(STARTED_ENTRY, run_id=f"run {number}") for number in range(23)]

    assert [True] * 23 == [ledger.write(entry) for entry in runs]
    assert [True] + [False] * 22 == [ledger.write(entry) for entry in [runs[0], *runs[2:], runs[-1]]]


def test_bounded_memory_of_no_run() -> None:
    """A ledger that could keep nothing is refused."""
    with pytest.raises(ValueError, match="is not a whole number of at least 1"):
        MemoryLedger(runs=0)


class Work:
    """A tool that counts how often it runs."""

    def __init__(self, result: object = "paid") -> None:
        self.count = 0
        self.result = result

    def runner(self, script: list[Any], ledger: Ledger, **options: Any) -> Runner:
        """Make a runner with it."""

        @tool(idempotent=options.pop("idempotent", False))
        def pay() -> object:
            """Pay."""
            self.count += 1
            if isinstance(self.result, BaseException):
                raise self.result
            return self.result

        return Runner([pay], model=ScriptedModel(script), ledger=ledger, **options)


def executed(work: Work) -> tuple[RunState, list[LedgerEntry]]:
    """The state of a run before its one call, and what a ledger knows of the call in the end."""
    states, ledger = list[RunState](), MemoryLedger()
    work.runner([call("pay"), "Done."], ledger, checkpoint=states.append).run("Pay.")
    state = next(state for state in states if state.phase == "calling")
    return state, [*ledger.read(state.run_id)]


class Racing(MemoryLedger):
    """A ledger in which another process executes each call just before it is started here."""

    known: Sequence[LedgerEntry] = ()

    def write(self, entry: LedgerEntry) -> bool:
        """Write what the other process knows, then the entry."""
        if entry.stage == "started":
            _ = [*map(super().write, self.known)]
        return super().write(entry)


def resumed(work: Work, state: RunState, known: Sequence[LedgerEntry], ledger: Ledger, **options: Any) -> ToolResult:
    """Resume a run before its call, of which the ledger knows this; return the call's result."""
    if isinstance(ledger, Racing):
        ledger.known = known
    else:
        _ = [*map(ledger.write, known)]
    (made,) = work.runner(["Done."], ledger, **options).resume(state).calls
    return made.result


def test_fresh_call_is_not_recalled(ledger: Ledger) -> None:
    """A call that was proposed and approved, and never started, is executed."""
    state, known = executed(work := Work())

    assert ("paid", 2) == (resumed(work, state, known[:2], ledger).text, work.count)


PICTURE, PAPER = Image(b"\x89PNG"), File(b"%PDF", name="paper.pdf")
RESULTS: dict[str, tuple[object, ToolResult]] = {
    "value": ([1], ToolResult("[1]", "[1]")),
    "error": (Failed("no money"), ToolResult(None, "no money", "no money", "failed")),
    "another kind": (Denied("No."), ToolResult(None, "No.", "No.", "denied")),
    "partial": (
        ToolResult([1], "[1]\nno more", "no more", "failed"),
        ToolResult(None, "[1]\nno more", "no more", "failed"),
    ),
    "empty": ("", ToolResult("", "")),
    "picture": (PICTURE, ToolResult("[image]", "[image]", images=(PICTURE,))),
    "file": (PAPER, ToolResult("[file paper.pdf]", "[file paper.pdf]", files=(PAPER,))),
}


@pytest.mark.parametrize(("result", "expected"), RESULTS.values(), ids=RESULTS)
def test_finished_call_is_recalled(ledger: Ledger, result: object, expected: ToolResult) -> None:
    """Of a call that has finished all that the model saw is known; whoever lost the race for it gets the same."""
    state, known = executed(Work(result))
    again = Work()

    assert [expected] * 2 == [resumed(again, state, known, each) for each in (ledger, Racing())]
    assert 0 == again.count


STARTED = "This call was started before and may have taken effect; it was not run again."
CHANGED = (
    "A call of this id was started before with other arguments, or by another definition of its tool; "
    "this one was not run. Send it again if it is still needed."
)
REFUSED = {
    "started": (3, "", STARTED),
    "started as another": (3, "e", CHANGED),
    "finished as another": (4, "e", CHANGED),
}


@pytest.mark.parametrize(("stages", "digest", "text"), REFUSED.values(), ids=REFUSED)
def test_started_call_is_refused(ledger: Ledger, stages: int, digest: str, text: str) -> None:
    """A call that may have taken effect, or another one of its id, is not executed."""
    state, entries = executed(Work())
    known = [replace(entry, digest=digest or entry.digest) for entry in entries[:stages]]
    work = Work()

    assert [text] * 2 == [resumed(work, state, known, each).text for each in (ledger, Racing())]
    assert 0 == work.count


@pytest.mark.parametrize("digest", ["", "e"], ids=["the same call", "another"])
def test_repeatable(ledger: Ledger, digest: str) -> None:
    """What does no harm when it is done twice is done again after it was left half done."""
    state, entries = executed(Work())
    known = [replace(entry, digest=digest or entry.digest) for entry in entries[:3]]
    work = Work()

    assert ["paid"] * 2 == [resumed(work, state, known, each, idempotent=True).text for each in (ledger, Racing())]
    assert 2 == work.count


class Broken(MemoryLedger):
    """A ledger that cannot write one of the stages."""

    def __init__(self, stage: str) -> None:
        super().__init__()
        self.stage = stage

    def write(self, entry: LedgerEntry) -> bool:
        """Fail, or keep the entry."""
        if entry.stage == self.stage:
            raise OSError("disk full")
        return super().write(entry)


@pytest.mark.parametrize("stage", ["proposed", "approved", "started"])
def test_run_with_a_ledger_that_fails(stage: str, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be written down does not run; the log says that it is the ledger that failed, and why."""
    work = Work()
    result = work.runner([call("pay"), "Sorry."], Broken(stage)).run("Pay.")
    text = "This call was not run: its steps cannot be recorded now."

    assert (0, [text]) == (work.count, [done.result.text for done in result.calls])
    assert f"The ledger could not keep '{stage}'" == caplog.messages[0].partition(",")[0]
    assert "disk full" in caplog.text


def test_end_that_cannot_be_kept(caplog: pytest.LogCaptureFixture) -> None:
    """A result that cannot be written down is a result nevertheless, and the log says so."""
    result = Work().runner([call("pay"), "Done."], Broken("finished")).run("Pay.")

    assert [ToolResult("paid", "paid")] == [done.result for done in result.calls]
    assert "The ledger could not keep 'finished'" in caplog.text


def test_work_that_leaves() -> None:
    """A call that was left in the middle has started, and not finished."""
    states, ledger = list[RunState](), MemoryLedger()
    runner = Work(KeyboardInterrupt()).runner([call("pay")], ledger, checkpoint=states.append)

    with pytest.raises(KeyboardInterrupt):
        runner.run("Pay.")
    assert ["proposed", "approved", "started"] == [entry.stage for entry in ledger.read(states[0].run_id)]


@pytest.mark.parametrize(("effect", "tries"), [("read", 3), ("write", 1)])
def test_middleware_that_tries_again(ledger: Ledger, effect: Any, tries: int) -> None:
    """What a middleware sends on once more runs again where that does no harm; else it has the first result."""
    tried: list[int] = []

    @tool(effect=effect)
    def look_up() -> str:
        """Look up."""
        tried.append(len(tried))
        return f"at try {len(tried)}"

    async def thrice(made: ToolCall, call_next: Next) -> ToolResult:
        await call_next(made)
        await call_next(made)
        return await call_next(made)

    model = ScriptedModel([[call("look_up")], "Done."])
    result = Runner([look_up], model=model, middleware=[thrice], ledger=ledger).run("Look.")

    assert (tries, f"at try {tries}") == (len(tried), result.calls[0].result.text)


def test_ledger_behind_a_proxy() -> None:
    """An object that passes the methods of a ledger on is a ledger, on each Python."""

    class Proxy:
        def __init__(self) -> None:
            self.inner = MemoryLedger()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    proxy: Any = Proxy()

    assert Runner(model=ScriptedModel([]), ledger=proxy)
