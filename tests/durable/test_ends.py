"""Ends of durable runs: what fails is undone, and what was said is remembered, each in a step of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.durable.support import Durable
from toolkit import Decision, FatalError, LedgerEntry, ModelError, Runner, Session, SQLiteLedger, SQLiteSession, tool
from toolkit.errors import ConversationError, DefinitionError, StoreError
from toolkit.testing import ScriptedModel, call


class Hotel:
    """Bookings, and those that are undone."""

    def __init__(self) -> None:
        self.undone: list[int] = []
        self.has_begun = asyncio.Event()

    def make(self, folder: Path, *script: Any, **options: Any) -> Runner:
        """A runner that books by itself and by a sub-agent, and undoes both."""

        @tool(effect="write", undo=lambda booking: self.undone.append(booking))
        def book(n: int) -> int:
            """Book."""
            return n * 10

        @tool(effect="write")
        async def wait() -> str:
            """Wait."""
            self.has_begun.set()
            await asyncio.sleep(60)
            return "waited"

        inner = Runner([book], model=ScriptedModel([call("book", n=2), "Booked."]))
        first: list[Any] = [[call("book", n=1), call("ask_inner", query="Book 2.")], *script]
        return Runner(
            [book, wait, inner.as_tool("ask_inner", "bookings")],
            model=ScriptedModel(first),
            ledger=SQLiteLedger(folder / "calls.db"),
            undo_on_failure=True,
            **options,
        )


def test_undo_of_a_run_that_fails(durable: Durable, tmp_path: Path) -> None:
    """The calls of a run and of its sub-agents are undone before it fails."""
    hotel = Hotel()

    with pytest.raises(ModelError, match="No such model"):
        asyncio.run(durable.run(hotel.make(tmp_path, ModelError("No such model.", 404))))

    assert [20, 10] == hotel.undone


def test_undo_of_a_run_that_is_stopped(durable: Durable, tmp_path: Path) -> None:
    """Where an approver stops the run, its result has what became of its calls; without a failure nothing is undone."""

    def approve(request: Any) -> Decision | bool:
        return Decision.stop("Enough.") if request.name == "wait" else True

    hotel = Hotel()
    result = asyncio.run(durable.run(hotel.make(tmp_path, call("wait"), approve=approve)))
    finished = asyncio.run(Durable(durable.address).run(hotel.make(tmp_path, "Done.")))

    assert ("stopped", [("undone", "book"), ("undone", "book")], [20, 10]) == (
        result.finish_reason,
        [(each.outcome, each.call.name) for each in result.undos],
        hotel.undone,
    )
    assert ("stop", ()) == (finished.finish_reason, finished.undos)


def test_undo_of_a_run_that_is_cancelled(durable: Durable, tmp_path: Path) -> None:
    """Where it is cancelled, the run ends once its calls are undone."""

    async def go() -> Any:
        hotel = Hotel()
        async with await durable.worker(runner := hotel.make(tmp_path, call("wait"))):
            run = await (await durable.runs(runner)).start("Go.")
            await hotel.has_begun.wait()
            await run.cancel()
            return (await run.result()), hotel.undone

    result, undone = asyncio.run(go())

    assert ("cancelled", ["undone", "undone"], [20, 10]) == (
        result.finish_reason,
        [each.outcome for each in result.undos],
        undone,
    )


def test_a_call_beside_one_that_fails(durable: Durable) -> None:
    """Where a call ends the run, those beside it end first: nothing goes on in a run that has failed."""
    ended: list[str] = []

    async def go() -> list[str]:
        has_begun = asyncio.Event()

        @tool
        async def wait() -> str:
            """Wait."""
            has_begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("wait")
            return "waited"

        @tool
        async def explode() -> str:
            """Explode."""
            await has_begun.wait()
            raise FatalError("Broken for good.")

        runner = Runner([wait, explode], model=ScriptedModel([[call("wait"), call("explode")]]))
        async with await durable.worker(runner):
            with pytest.raises(FatalError):
                await (await durable.runs(runner)).run("Go.")
            return [*ended]

    assert ["wait"] == asyncio.run(go())


def test_sessions(durable: Durable, tmp_path: Path) -> None:
    """A run goes on from the session of a name, and adds its messages; another session knows nothing of them."""

    async def go() -> Any:
        answers = ScriptedModel(lambda request: f"{len(request.messages)} messages")
        runner = Runner(model=answers, instructions="Count.")
        async with await durable.worker(runner, sessions=lambda name: SQLiteSession(tmp_path / "chats.db", name)):
            runs = await durable.runs(runner)
            first, second = [await runs.run(prompt, session="anna") for prompt in ("One.", "Two.")]
            other = await runs.run("One.", session="ben")
            with pytest.raises(TypeError, match="give one of them"):
                await runs.start("Three.", session="anna", messages=first.messages)
            return [first.output, second.output, other.output]

    assert ["2 messages", "4 messages", "2 messages"] == asyncio.run(go())
    texts = [getattr(each, "text", "") for each in SQLiteSession(tmp_path / "chats.db", "anna").messages]
    assert ["One.", "2 messages", "Two.", "4 messages"] == texts


class LossySession(Session):
    """Loses the connection once after it has added messages."""

    def extend(self, messages: Iterable[Any], *, after: int | None = None) -> None:
        super().extend(messages, after=after)
        if after == 0:
            raise ApplicationError("The worker is gone.")


def test_a_session_is_added_to_once(durable: Durable) -> None:
    """A step that is tried again adds no message twice."""
    sessions = {"anna": LossySession()}

    async def go() -> None:
        runner = Runner(model=ScriptedModel(["Hello."]))
        async with await durable.worker(runner, sessions=sessions.__getitem__):
            await (await durable.runs(runner)).run("Hi.", session="anna")

    asyncio.run(go())

    assert ["Hi.", "Hello."] == [getattr(each, "text", "") for each in sessions["anna"].messages]


class SlowSession(Session):
    """A session that waits before it adds messages."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.released = threading.Event(), threading.Event()

    def extend(self, *given: Any, **options: Any) -> None:
        self.begun.set()
        self.released.wait(30)
        super().extend(*given, **options)


def test_a_cancellation_that_comes_too_late(durable: Durable) -> None:
    """A run that is cancelled while its messages are remembered has its answer, and they are remembered."""
    session = SlowSession()

    async def go() -> Any:
        runner = Runner(model=ScriptedModel(["Hello."]))
        async with await durable.worker(runner, sessions=lambda name: session):
            run = await (await durable.runs(runner)).start("Hi.", session="anna")
            await asyncio.to_thread(session.begun.wait, 30)
            await run.cancel()
            await asyncio.sleep(1)
            session.released.set()
            return await run.result()

    assert "Hello." == asyncio.run(go()).output
    assert 2 == len(session.messages)


def test_sessions_that_do_not_fit(durable: Durable) -> None:
    """A session that another run has changed, and one that no worker opens, are errors of the run."""
    session = Session()

    def answer(request: Any) -> str:
        session.extend(Session([{"role": "user", "content": "Me, too."}]).messages)
        return "Hello."

    async def run(**options: Any) -> None:
        own, runner = Durable(durable.address), Runner(model=ScriptedModel(answer))
        async with await own.worker(runner, **options):
            await (await own.runs(runner)).run("Hi.", session="anna")

    with pytest.raises(ConversationError, match="another run has changed it"):
        asyncio.run(run(sessions=lambda name: session))
    with pytest.raises(DefinitionError, match="Worker\\(sessions="):
        asyncio.run(run())


def test_a_ledger_that_is_away(durable: Durable, tmp_path: Path) -> None:
    """A step that cannot read the ledger is tried again."""
    failures = [StoreError("The database restarts.")]

    class Restarting(SQLiteLedger):
        def read(self, run_id: str, call_id: str | None = None) -> tuple[LedgerEntry, ...]:
            if failures:
                raise failures.pop()
            return super().read(run_id, call_id)

    @tool(effect="write")
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    model = ScriptedModel([call("pay", amount=5), "Done."])
    result = asyncio.run(durable.run(Runner([pay], model=model, ledger=Restarting(tmp_path / "calls.db"))))

    assert ([], "5", "Done.") == (failures, result.calls[0].result.text, result.output)


def test_a_call_that_another_worker_has_started(durable: Durable, tmp_path: Path) -> None:
    """A call that has passed its gates does not run if the ledger says that another worker has started it."""
    paid: list[int] = []

    class Late(SQLiteLedger):
        def write(self, entry: LedgerEntry) -> bool:
            return super().write(entry) and entry.stage != "started"

    @tool(effect="write")
    def pay(amount: int) -> None:
        """Pay."""
        paid.append(amount)

    model = ScriptedModel([call("pay", amount=5), "Done."])
    runner = Runner([pay], model=model, approve=lambda _: True, ledger=Late(tmp_path / "calls.db"))
    result = asyncio.run(durable.run(runner))

    assert ([], True) == (paid, result.calls[0].result.text.startswith("This call was started before"))
