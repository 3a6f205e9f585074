"""Which calls of one answer run together, and which wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.ways import arun, astream, run, start, stream
from toolkit import FatalError, Runner, RunResult, ToolError, batched, tool
from toolkit.testing import ScriptedModel, call

WAYS = pytest.mark.parametrize("go", [run, arun, stream, astream, start])


class Place:
    """Tools that record when they start and end, and how many of them run at the same time.

    Those in `meet` wait, each, until so many are running; so a test fails where they do not run together.
    """

    def __init__(self, **meet: int) -> None:
        self.trace: list[str] = []
        self.running: set[str] = set()
        self.most = 0
        self.changed = threading.Condition()
        self.meet = meet

    def visit(self, name: str) -> str:
        with self.changed:
            self.trace.append(f"+{name}")
            self.running.add(name)
            self.most = max(self.most, len(self.running))
            self.changed.notify_all()
            count = self.meet.get(name, 1)
            assert self.changed.wait_for(lambda: self.most >= count, 5), f"{name} is alone"
            self.running.discard(name)
            self.trace.append(f"-{name}")
        return name

    def tools(self) -> list[Any]:
        kinds: dict[str, dict[str, Any]] = {
            "plain": {},
            "read": {"effect": "read"},
            "write": {"effect": "write"},
            "destroy": {"effect": "destructive"},
            "alone": {"exclusive": True},
        }

        def made(kind: str, options: dict[str, Any]) -> Any:
            def visit(n: int) -> str:
                """Visit."""
                return self.visit(f"{kind}{n}")

            return tool(visit, name=kind, **options)

        return [made(kind, options) for kind, options in kinds.items()]

    def runner(self, *names: str, **options: Any) -> Runner:
        calls = [call(name, n=n) for n, name in enumerate(names)]
        return Runner(self.tools(), model=ScriptedModel([calls, "ok"]), **options)


def one_by_one(*names: str) -> list[str]:
    return [step for n, name in enumerate(names) for step in (f"+{name}{n}", f"-{name}{n}")]


@WAYS
def test_parallel(go: Callable[[Runner], RunResult]) -> None:
    """Calls run side by side, unless something says otherwise."""
    place = Place(plain0=3, plain1=3, plain2=3)
    go(place.runner("plain", "plain", "plain"))

    assert 3 == place.most


@WAYS
def test_sequential(go: Callable[[Runner], RunResult]) -> None:
    """In order, each call ends before the next starts."""
    names = ["plain", "read", "plain", "read"]
    place = Place()
    go(place.runner(*names, order="sequential"))

    assert one_by_one(*names) == place.trace


@WAYS
def test_batched(go: Callable[[Runner], RunResult]) -> None:
    """In batches, so many run together, and the next ones wait for all of them."""
    place = Place(plain0=2, plain1=2)
    go(place.runner("plain", "plain", "plain", order=batched(2)))

    assert (2, ["+plain2", "-plain2"]) == (place.most, place.trace[4:])


@WAYS
@pytest.mark.parametrize("kind", ["write", "destroy", "alone"])
def test_barrier(kind: str, go: Callable[[Runner], RunResult]) -> None:
    """What writes or is exclusive runs alone: those before it end first, those behind it wait."""
    place = Place(read0=2, read1=2, read3=2, read4=2)
    go(place.runner("read", "read", kind, "read", "read"))

    assert ({"read0", "read1"}, [f"+{kind}2", f"-{kind}2"], 2) == (
        {step[1:] for step in place.trace[:4]}, place.trace[4:6], place.most
    )  # fmt: skip


@WAYS
def test_writes_in_order(go: Callable[[Runner], RunResult]) -> None:
    """Calls that write run one after the other, in call order."""
    place = Place()
    go(place.runner("write", "write", "destroy"))

    assert one_by_one("write", "write", "destroy") == place.trace


@WAYS
@pytest.mark.parametrize("width", [1, 2])
def test_max_parallel(width: int, go: Callable[[Runner], RunResult]) -> None:
    """No more calls than `max_parallel` are running at the same time."""
    place = Place(plain0=width)
    go(place.runner(*["plain"] * 6, max_parallel=width))

    assert width == place.most


@WAYS
@pytest.mark.parametrize("order", ["parallel", "sequential", batched(2)], ids=str)
def test_results_in_call_order(order: Any, go: Callable[[Runner], RunResult]) -> None:
    """Results are in call order, whichever call ends first, and so are the run's calls."""
    last = threading.Event()

    @tool
    def work(n: int) -> int:
        """Work."""
        if order != "sequential" and n % 2 == 0:
            assert last.wait(5)
        last.set()
        return n

    result = go(Runner([work], model=ScriptedModel([[call("work", n=n) for n in range(4)], "ok"]), order=order))

    assert ["0", "1", "2", "3"] == [message.text for message in result.messages[2:6]]
    assert [0, 1, 2, 3] == [done.result.value for done in result.calls]


@WAYS
@pytest.mark.parametrize("order", ["parallel", "sequential", batched(2)], ids=str)
def test_failure_harms_no_other(order: Any, go: Callable[[Runner], RunResult]) -> None:
    """A call that fails is an error result; those beside and behind it run."""

    @tool
    def work(n: int) -> int:
        """Work."""
        if n == 1:
            raise ToolError("not this one")
        return n

    result = go(Runner([work], model=ScriptedModel([[call("work", n=n) for n in range(3)], "ok"]), order=order))

    assert ["0", "not this one", "2"] == [message.text for message in result.messages[2:5]]


def test_fatal_error_stops_what_follows() -> None:
    """A tool that ends the run keeps the calls behind it from starting."""
    ran: list[int] = []

    @tool(effect="write")
    def work(n: int) -> None:
        """Work."""
        ran.append(n)
        raise FatalError("the end")

    with pytest.raises(FatalError, match="the end"):
        Runner([work], model=ScriptedModel([[call("work", n=n) for n in range(3)]])).run("go")

    assert [0] == ran


@pytest.mark.parametrize("size", [0, -1, True, "2", None])
def test_impossible_batch(size: Any) -> None:
    """A batch holds a whole number of calls."""
    with pytest.raises(ValueError, match="the size is not a whole number of at least 1"):
        batched(size)


def test_no_thread_where_none_is_needed() -> None:
    """Calls that run one by one run on the thread of whoever called `run`."""
    threads: list[threading.Thread] = []

    @tool
    def work() -> None:
        """Work."""
        threads.append(threading.current_thread())

    Runner([work], model=ScriptedModel([[call("work")] * 3, "ok"]), order="sequential").run("go")

    assert [threading.current_thread()] * 3 == threads
