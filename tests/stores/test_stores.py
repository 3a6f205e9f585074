"""Stores of documents with embeddings: the same facts of the one in memory and the one in a file."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.properties import examples
from toolkit import Cancelled, DefinitionError, Runner
from toolkit.stores import Chunk, Document, KnowledgeStore, SQLiteKnowledge, StoreError
from toolkit.testing import ScriptedModel, call

KILLS = int(os.environ.get("TOOLKIT_KILLS", "40"))
EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that stands."""
    return Clock()


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[SQLiteKnowledge]:
    """A store of each kind."""
    in_memory = request.param == "memory"
    with SQLiteKnowledge(":memory:" if in_memory else tmp_path / "k.db", clock=clock) as subject:
        yield subject


def add(store: KnowledgeStore, content: str, embedding: Sequence[float] = EAST, **fields: Any) -> Document:
    """Store a document of one chunk, whose id is its text."""
    document = Document(**{"id": content, "content": content, **fields})
    store.add(document, [Chunk(content=content, embedding=embedding)])
    return document


def near(store: KnowledgeStore, embedding: Sequence[float], **options: Any) -> list[str]:
    """The texts whose embeddings are nearest."""
    return [hit.content for hit in store.search(embedding, **options)]


def test_document(store: SQLiteKnowledge) -> None:
    """A document is returned as it was stored, with the time."""
    document = Document(id="1", content="Naïve 漢字\0", title="T", source="S", expires_at=2000.0)
    store.add(document, [])

    assert [document] == store.documents()
    assert [1000.0] == [entry.created_at for entry in store.documents()]


def test_hit(store: SQLiteKnowledge) -> None:
    """A hit has its chunk, its document and its score."""
    store.add(
        Document(id="1", content="one two", title="T", source="S"),
        [Chunk(content="one", embedding=NORTH), Chunk(content="two", embedding=[3, 4])],
    )
    hit = store.search(NORTH)[1]

    assert ("1", "T", "S", 1000.0, 1, "two") == (
        hit.document_id, hit.title, hit.source, hit.created_at, hit.chunk_index, hit.content,
    )  # fmt: skip
    assert math.isclose(0.8, hit.score, abs_tol=1e-6)


def test_nearest_first(store: SQLiteKnowledge) -> None:
    """The nearest by direction come first, however long the embeddings are, and no more than asked for."""
    for content, embedding in {"west": WEST, "north": [0.0, 9e300], "east": [1e-300, 0.0]}.items():
        add(store, content, embedding)

    assert ["east", "north", "west"] == near(store, [5.0, 1.0])
    assert ["east"] == near(store, [5.0, 1.0], limit=1)
    assert [] == near(store, EAST, limit=-1)


def test_as_near(store: SQLiteKnowledge) -> None:
    """Of two equally near chunks, the one that was stored first comes first."""
    for content in ("b", "a", "c"):
        add(store, content)

    assert ["b", "a"] == near(store, EAST, limit=2)


def test_many(store: SQLiteKnowledge) -> None:
    """All are compared, also more than are compared at once."""
    chunks = [Chunk(content=str(n), embedding=[math.cos(n / 2000), math.sin(n / 2000)]) for n in range(3000)]
    store.add(Document(id="1", content="many"), chunks)

    assert ["2500", "2499"] == near(store, [math.cos(1.25 - 1e-5), math.sin(1.25 - 1e-5)], limit=2)


def test_same_id(store: SQLiteKnowledge) -> None:
    """A document takes the place of one of the same id, with its chunks."""
    add(store, "old words", id="1")
    new = add(store, "new text", id="1")

    assert [new] == store.documents()
    assert ["new text"] == near(store, EAST)
    assert ["new text"] == near(store, EAST)


def test_delete(store: SQLiteKnowledge) -> None:
    """Removed documents are not found, and their number is returned."""
    add(store, "one")
    add(store, "two")

    assert 1 == store.delete("one", "three")
    assert ["two"] == near(store, EAST) == [document.id for document in store.documents()]


def test_delete_of_the_expired(store: SQLiteKnowledge, clock: Clock) -> None:
    """Expired documents are removed together with any others."""
    add(store, "note", expires_at=1500.0)
    clock.now = 1500.0
    removed = store.delete()
    clock.now = 1000.0

    assert (0, []) == (removed, store.documents())


def test_collections(store: SQLiteKnowledge) -> None:
    """A search finds nothing of another collection."""
    add(store, "a message", collection="messages")

    assert ([], []) == (near(store, EAST), store.documents())
    assert ["a message"] == near(store, EAST, collection="messages")


def test_expiry(store: SQLiteKnowledge, clock: Clock) -> None:
    """Expired documents are not found."""
    add(store, "note", expires_at=1500.0)
    add(store, "fact")
    before = near(store, EAST)
    clock.now = 1500.0

    assert ["note", "fact"] == before
    assert ["fact"] == near(store, EAST) == [document.id for document in store.documents()]


def test_expired_is_removed(store: SQLiteKnowledge, clock: Clock) -> None:
    """Expired documents are removed with the next one added, even if the clock is set back later."""
    add(store, "note", expires_at=1500.0)
    clock.now = 1500.0
    add(store, "fact")
    clock.now = 1000.0

    assert ["fact"] == [document.id for document in store.documents()]


def test_owners(store: SQLiteKnowledge) -> None:
    """An owner neither finds, replaces nor removes documents of another."""
    ann, bob = store.with_owner("ann"), store.with_owner("bob")
    add(ann, "secret of ann", id="1")
    add(bob, "secret of bob", id="1")

    assert 0 == store.delete("1")
    assert ["secret of ann"] == near(ann, EAST)
    assert ([], []) == (near(store, EAST), store.documents())


@pytest.mark.parametrize(
    "options",
    [{"path": 3}, {"timeout": "x"}, {"timeout": True}, {"timeout": -1}, {"timeout": 1e9}, {"clock": 3}],
    ids=str,
)
def test_invalid_options(options: dict[str, Any]) -> None:
    """An invalid option is refused by name when the store is made."""
    ((name, value),) = options.items()

    with pytest.raises(DefinitionError, match=f"^{name}={value!r} is not "):
        SQLiteKnowledge(**{"path": ":memory:", **options})


def test_async_clock() -> None:
    """A clock that would have to be awaited is refused."""

    async def clock() -> float:
        return 1.0

    with pytest.raises(DefinitionError, match="is asynchronous: give a plain function"):
        SQLiteKnowledge(clock=clock)  # type: ignore[arg-type]


@pytest.mark.parametrize("owner", [None, "", 5, b"ann"], ids=repr)
def test_invalid_owner(owner: Any, store: SQLiteKnowledge) -> None:
    """An invalid owner is refused, as its documents could not be found again."""
    with pytest.raises(DefinitionError, match="owner="):
        store.with_owner(owner)


def test_close_of_an_owner(store: SQLiteKnowledge) -> None:
    """Closing the store of an owner does not close the file."""
    add(store, "one")
    with store.with_owner("ann") as ann:
        add(ann, "two")

    assert (["one"], ["two"]) == (near(store, EAST), near(ann, EAST))


def test_late(tmp_path: Path) -> None:
    """A cancelled call stores nothing, even if it was cancelled while it waited for another process."""
    started_event, ended = threading.Event(), threading.Event()

    def clock() -> float:
        started_event.set()
        return 1000.0

    def keep_late() -> None:
        with pytest.raises(Cancelled):
            add(late, "late")
        ended.set()

    with (
        SQLiteKnowledge(tmp_path / "k.db", clock=clock) as late,
        closing(sqlite3.connect(tmp_path / "k.db", isolation_level=None)) as another,
    ):
        another.execute("BEGIN IMMEDIATE")
        run = Runner([keep_late], model=ScriptedModel([call("keep_late")])).start("Go.")
        started_event.wait()
        run.cancel()
        another.execute("ROLLBACK")

        assert (True, []) == (ended.wait(10), late.documents())


WRONG: list[dict[str, Any]] = [
    {"id": 5},
    {"content": b"text"},
    {"title": None},
    {"source": Path("a.txt")},
    {"collection": None},
    {"expires_at": datetime(2026, 1, 1, tzinfo=timezone.utc)},
    {"expires_at": "2026-01-01"},
    {"expires_at": math.nan},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_fields_of_other_types(wrong: dict[str, Any]) -> None:
    """A document with a field of another type is refused; one that expires at a text would stay for ever."""
    with pytest.raises(DefinitionError, match=f"{next(iter(wrong))}="):
        Document(**{"id": "a", "content": "text", **wrong})


def test_no_document() -> None:
    """What is no document is refused."""
    given: Any = {"id": "a", "content": "text"}
    with pytest.raises(DefinitionError, match="document={'id': 'a', 'content': 'text'} is not of type Document"):
        SQLiteKnowledge().add(given, [])


def test_document_without_a_title(tmp_path: Path) -> None:
    """Null is read as missing: documents of older versions may have it."""
    with SQLiteKnowledge(tmp_path / "k.db") as store:
        add(store, "one")
        with closing(sqlite3.connect(tmp_path / "k.db", isolation_level=None)) as connection:
            connection.execute("UPDATE documents SET title = NULL")

        assert [""] == [document.title for document in store.documents()]


def test_damaged_document(tmp_path: Path) -> None:
    """A document that cannot be read raises an error with advice."""
    with SQLiteKnowledge(tmp_path / "k.db") as store:
        add(store, "one")
        with closing(sqlite3.connect(tmp_path / "k.db", isolation_level=None)) as connection:
            connection.execute("UPDATE documents SET title = x'00'")

        with pytest.raises(StoreError, match="restore it from a backup"):
            store.documents()


SPOILT = {
    "an embedding of one byte": "UPDATE chunks SET embedding = x'00'",
    "an embedding of words": "UPDATE chunks SET embedding = 'words'",
    "no embedding": "UPDATE chunks SET embedding = NULL",
    "a length of words": "UPDATE model SET bytes = 'words'",
}


@pytest.mark.parametrize("statement", SPOILT.values(), ids=SPOILT.keys())
def test_spoilt_rows(statement: str, tmp_path: Path) -> None:
    """A row that was not written by this library raises an error with advice."""
    with SQLiteKnowledge(tmp_path / "k.db") as store:
        add(store, "one")
        with closing(sqlite3.connect(tmp_path / "k.db", isolation_level=None)) as connection:
            connection.execute(statement)

        with pytest.raises(StoreError, match="restore it from a backup"):
            store.search(EAST)


@examples(30)
@given(st.lists(st.tuples(st.sampled_from(["a", "A", "a' OR '1'='1", "%", "\0"]), st.text("xyz ", min_size=1))))
def test_owners_never_meet(expected: list[tuple[str, str]]) -> None:
    """Owners of any names find their own documents only."""
    with SQLiteKnowledge() as store:
        for owner, content in expected:
            add(store.with_owner(owner), content)

        for owner in {owner for owner, _ in expected}:
            own = {content for another, content in expected if another == owner}
            assert own == set(near(store.with_owner(owner), EAST, limit=100))


@pytest.mark.parametrize(
    ("embedding", "model", "holder"),
    [([1.0], "", "not of 1 by ''"), ([1.0, 0.0], "another", "not of 2 by 'another'")],
    ids=["another length", "another model"],
)
def test_other_model(embedding: list[float], model: str, holder: str, store: SQLiteKnowledge) -> None:
    """A store refuses embeddings of another model, and does not change."""
    document = add(store, "one")
    text = f"This store holds embeddings of 2 numbers by the model '', {holder}: use the same model, or another store."

    with pytest.raises(StoreError, match=text):
        store.search(embedding, model=model)
    with pytest.raises(StoreError, match=text):
        store.add(replace(document, id="2"), [Chunk(content="two", embedding=embedding)], model=model)
    assert [document] == store.documents()


ODD = {
    "NaN": [math.nan, 1.0], "infinite": [math.inf, 1.0], "empty": [], "words": ["a", "b"], "nothing": [None, 1.0],
    "too large": [10**400, 1.0], "nested": [[1.0, 2.0]],
}  # fmt: skip


@pytest.mark.parametrize("embedding", ODD.values(), ids=ODD.keys())
def test_odd_embedding(embedding: Any, store: SQLiteKnowledge) -> None:
    """An embedding that is not a list of finite numbers is refused, and its document is not stored."""
    good = Chunk(content="good", embedding=EAST)

    with pytest.raises(StoreError, match="This cannot be stored or searched for: "):
        store.add(Document(id="1", content="both"), [good, Chunk(content="bad", embedding=embedding)])
    with pytest.raises(StoreError, match="searched for: an embedding is a list of at least one finite number"):
        store.search(embedding)
    assert [] == store.documents()


def test_no_direction(store: SQLiteKnowledge) -> None:
    """An embedding of zeros has the cosine 0 with all others."""
    add(store, "nowhere", [0.0, 0.0])
    add(store, "west", WEST)

    assert [("nowhere", 0.0), ("west", -1.0)] == [(hit.content, hit.score) for hit in store.search(EAST)]
    assert {0.0} == {hit.score for hit in store.search([0, 0])}


def test_surrogates(store: SQLiteKnowledge) -> None:
    """A text that no file can hold is refused, and the store can be used on."""
    with pytest.raises(StoreError, match="surrogates not allowed"):
        add(store, "\ud800")
    add(store, "one")

    assert ["one"] == near(store, EAST)


def test_without_numpy(store: SQLiteKnowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are the same without numpy."""
    for turn in range(50):
        add(store, str(turn), [math.cos(turn), math.sin(turn), turn / 50])
    with_numpy = store.search([0.3, -0.2, 0.9], limit=50)
    monkeypatch.setitem(sys.modules, "numpy", None)
    without = store.search([0.3, -0.2, 0.9], limit=50)

    assert with_numpy == without
    assert all(math.isclose(a.score, b.score, abs_tol=1e-6) for a, b in zip(with_numpy, without))


def test_file_lasts(tmp_path: Path) -> None:
    """One process finds the documents of another."""
    with SQLiteKnowledge(tmp_path / "k.db") as first:
        add(first, "one")

    with SQLiteKnowledge(tmp_path / "k.db") as second:
        assert ["one"] == near(second, EAST)


class Machine(RuleBasedStateMachine):
    """The store beside a model of dictionaries."""

    owners, ids = st.sampled_from(["", "ann"]), st.sampled_from(["1", "2", "3"])
    contents = st.lists(st.sampled_from(["red fox", "fox", "blue", "red red"]), max_size=3)
    embeddings = st.sampled_from([EAST, NORTH, WEST, [1.0, 1.0], [0.0, 0.0]])

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.store = SQLiteKnowledge(clock=self.clock)
        self.kept: dict[tuple[str, str], tuple[list[tuple[str, Sequence[float]]], float]] = {}

    def teardown(self) -> None:
        self.store.close()

    @rule(owner=owners, identity=ids, contents=contents, embedding=embeddings, life=st.sampled_from([1, 5, math.inf]))
    def add(self, owner: str, identity: str, contents: list[str], embedding: list[float], life: float) -> None:
        """Keep a document, for some time."""
        expiry = self.clock.now + life
        document = Document(id=identity, content="", expires_at=None if life == math.inf else expiry)
        self.of(owner).add(document, [Chunk(content=text, embedding=embedding) for text in contents])
        self.kept[owner, identity] = [(text, embedding) for text in contents], expiry

    @rule(owner=owners, identity=ids)
    def delete(self, owner: str, identity: str) -> None:
        """Remove a document."""
        was_there = self.kept.pop((owner, identity), None) is not None

        assert was_there <= self.of(owner).delete(identity)

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        """Advance the clock."""
        self.clock.now += seconds
        self.kept = {key: document for key, document in self.kept.items() if document[1] > self.clock.now}

    @rule(owner=owners, sought=st.sampled_from([EAST, [1.0, 2.0]]))
    def search(self, owner: str, sought: list[float]) -> None:
        """Look for a direction."""
        expected = sorted(round(cosine(sought, embedding), 5) for _, embedding in self.chunks(owner))
        result = [round(hit.score, 5) for hit in self.of(owner).search(sought, limit=100)]

        assert expected == result[::-1]

    @invariant()
    def documents(self) -> None:
        """Each owner has the documents that were stored."""
        for owner in ("", "ann"):
            ids = {identity for another, identity in self.kept if another == owner}
            assert ids == {document.id for document in self.of(owner).documents()}

    def of(self, owner: str) -> SQLiteKnowledge:
        """The documents that the store returns for an owner."""
        return self.store.with_owner(owner) if owner else self.store

    def chunks(self, owner: str) -> list[tuple[str, Sequence[float]]]:
        """The documents of an owner in the model of the store."""
        return [chunk for (another, _), (chunks, _) in self.kept.items() if another == owner for chunk in chunks]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of two vectors."""
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other)) / lengths if lengths else 0.0


TestMachine = Machine.TestCase
TestMachine.settings = examples(40, stateful_step_count=25)


# Each child keeps documents, and says so after each; it is killed at some moment. Spinning takes another time at each
# kill, so that the moments differ. What was reported as stored is printed at the end.
KILLER = """
import json, os, random, signal, sys
from toolkit.stores import Chunk, Document, SQLiteKnowledge

path, kills = sys.argv[1], int(sys.argv[2])

def write(pipe, child):
    store = SQLiteKnowledge(path)
    for number in range(10**9):
        name = f"{child}-{number % 40}"
        chunks = [Chunk(content=f"{name} {number} {part}", embedding=[part, 1, number]) for part in range(4)]
        store.add(Document(id=name, content=str(number)), chunks)
        os.write(pipe, f"{name} {number}\\n".encode())

acknowledged = {}
for child in range(kills):
    chance = random.Random(child)
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        write(writing, child)
    os.close(writing)
    with os.fdopen(reading) as reports:
        lines = [reports.readline() for _ in range(chance.randrange(1, 6))]
        for _ in range(chance.randrange(60_000)):
            pass
        os.kill(process, signal.SIGKILL)
        lines += reports
    os.waitpid(process, 0)
    acknowledged.update(line.split() for line in lines if line.endswith("\\n"))
print(json.dumps(acknowledged))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_kills(tmp_path: Path) -> None:
    """A process that is killed while it writes leaves an intact file, whole documents, and all that it confirmed."""
    command = [sys.executable, "-c", KILLER, str(tmp_path / "k.db"), str(KILLS)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "."})
    acknowledged: dict[str, str] = json.loads(run.stdout)
    with SQLiteKnowledge(tmp_path / "k.db") as store:
        entry = {document.id: int(document.content) for document in store.documents()}
        chunks = {(hit.document_id, hit.content) for hit in store.search([0, 1, 0], limit=10**6)}

    assert len(acknowledged) >= KILLS
    assert {} == {name: number for name, number in acknowledged.items() if entry.get(name, -1) < int(number)}
    assert {(name, f"{name} {number} {part}") for name, number in entry.items() for part in range(4)} == chunks
