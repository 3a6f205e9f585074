"""Cases: functions with their arguments, and a scripted conversation by a Runner and by hand."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from time import process_time
from typing import Any, Literal, NamedTuple

import openai
from pydantic import BaseModel

from benchmarks import limits
from benchmarks.server import address
from toolkit import Runner


class Party(BaseModel):
    """A person with ten fields."""

    name: str
    company: str
    street: str
    postcode: str
    city: str
    country: str
    email: str
    phone: str
    since: int
    verified: bool


class Order(BaseModel):
    """Forty fields: ten of its own, and three parties."""

    number: int
    currency: str
    total: float
    weight: float
    paid: bool
    express: bool
    note: str
    tags: list[str]
    skus: list[str]
    amounts: list[int]
    buyer: Party
    payer: Party
    receiver: Party


def small(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def usual(query: str, limit: int = 10, sort: str = "date") -> str:
    """Find messages."""
    return f"{query}, {limit} by {sort}"


def medium(order: Order) -> Order:
    """Store an order."""
    return order


def large(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Store rows."""
    return rows


async def asmall(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def ausual(query: str, limit: int = 10, sort: str = "date") -> str:
    """Find messages."""
    return f"{query}, {limit} by {sort}"


async def amedium(order: Order) -> Order:
    """Store an order."""
    return order


async def alarge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Store rows."""
    return rows


_PARTY = Party(
    name="Ada Example",
    company="Example Ltd",
    street="1 Long Street",
    postcode="12345",
    city="Ghent",
    country="BE",
    email="ada@example.org",
    phone="+32 9 000 00 00",
    since=2019,
    verified=True,
)
_ORDER = Order(
    number=1204,
    currency="EUR",
    total=129.5,
    weight=2.25,
    paid=True,
    express=False,
    note="Leave it with the neighbours.",
    tags=["gift", "fragile"],
    skus=["A-1", "B-2", "C-3"],
    amounts=[1, 2, 3],
    buyer=_PARTY,
    payer=_PARTY,
    receiver=_PARTY,
)
_ROWS = [{"id": i, "name": f"row {i}", "value": i / 2, "tags": ["a", "b"], "note": "x" * 24} for i in range(11_000)]


class Case(NamedTuple):
    """A sync or async function, with raw arguments for it, and the ratio that a call should not exceed."""

    function: Callable[..., Any]
    afunction: Callable[..., Coroutine[Any, Any, Any]]
    words: str
    aim: float


_SHAPE = """
def report_{number}(city: str, days: int, radius: float, units: Literal["metric", "imperial"], place: Party) -> str:
    \"\"\"Make the weather report number {number} of a city.

    Args:
        city: Name of the city.
        days: How many days to look ahead.
        radius: Radius around the city, in kilometres.
        units: Units of the values that are reported.
        place: The place to start from.
    \"\"\"
    return city
"""


def reports(numbers: range) -> list[Callable[..., str]]:
    """Make functions with different names; all take one model, as the tools of a program often do."""
    scope: dict[str, Any] = {"Literal": Literal, "Party": Party}
    source = "".join(_SHAPE.format(number=number) for number in numbers)
    exec(compile(source, "reports", "exec", dont_inherit=True), scope)  # noqa: S102  annotations are types, not texts
    return [scope[f"report_{number}"] for number in numbers]


CASES = {
    "small": Case(small, asmall, '{"a": 3, "b": 4}', 1.4),
    "usual": Case(usual, ausual, '{"query": "meeting at 10:30 {room 4}", "limit": 5}', 1.6),
    "medium": Case(medium, amedium, json.dumps({"order": _ORDER.model_dump()}), 1.1),
    "1 MB": Case(large, alarge, json.dumps({"rows": _ROWS}), 1.05),
    "invalid": Case(small, asmall, '{"a": "many", "b": 4}', 1.6),
}


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """One scripted conversation, by a Runner and by hand, over the same client.

    Attributes:
        turns: Answers of the model; all but the last make calls.
        calls: Calls of a turn.
        crowd: How many times it is held at once.
        clock: CPU clock of the process at each call of the tool, since the conversation began.
    """

    turns: int
    calls: int
    crowd: int = 1
    clock: list[float]
    by_runner: Callable[[], object]
    by_hand: Callable[[], object]

    def runner_turn(self) -> float:
        """Measure the CPU seconds of a Runner's turn."""
        return self._held(self.by_runner)

    def hand_turn(self) -> float:
        """Measure the CPU seconds of a turn of the hand-written loop."""
        return self._held(self.by_hand)

    def _held(self, hold: Callable[[], object]) -> float:
        self.clock.clear()
        began = process_time()
        hold()
        took = process_time() - began
        if len(self.clock) != (due := (self.turns - 1) * self.calls * self.crowd):
            raise SystemExit(f"{len(self.clock)} calls of the tool ran instead of {due}: this is not a run.")
        return took / self.turns / self.crowd


def conversation(port: int, *, turns: int, calls: int, stream: bool = False) -> Conversation:
    """Make a conversation with a sync client and a function."""
    clock: list[float] = []

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        clock.append(process_time())
        return a + b

    client = openai.OpenAI(base_url=address(port, turns, calls), api_key="none", max_retries=0)
    runner = Runner([add], client=client, model="scripted", max_turns=1000)
    schemas, by_name = runner.toolbox.schemas(), {"add": limits.called(add)}
    return Conversation(
        turns=turns,
        calls=calls,
        clock=clock,
        by_runner=lambda: deque(runner.stream("Go."), maxlen=0) if stream else runner.run("Go."),
        by_hand=lambda: limits.converse(client, schemas, by_name, stream=stream),
    )


def aconversation(
    loop: asyncio.AbstractEventLoop,
    port: int,
    *,
    turns: int,
    calls: int,
    stream: bool = False,
    crowd: int = 1,
    own_client: bool = False,
) -> Conversation:
    """Make a conversation with an async client and a coroutine function, in `loop`; many of them at once.

    With `own_client` the runner makes its client itself.
    """
    clock: list[float] = []

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        clock.append(process_time())
        return a + b

    url = address(port, turns, calls)
    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=60)
    server: dict[str, Any] = {"base_url": url} if own_client else {"client": client}
    runner = Runner([add], model="scripted", max_turns=1000, **server)
    schemas, by_name = runner.toolbox.schemas(), {"add": limits.acalled(add)}

    async def by_runner() -> None:
        if not stream:
            await runner.arun("Go.")
            return
        async for _ in runner.astream("Go."):
            pass

    async def by_hand() -> None:
        await limits.aconverse(client, schemas, by_name, stream=stream)

    async def crowded(hold: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*(hold() for _ in range(crowd)))

    return Conversation(
        turns=turns,
        calls=calls,
        crowd=crowd,
        clock=clock,
        by_runner=lambda: loop.run_until_complete(crowded(by_runner)),
        by_hand=lambda: loop.run_until_complete(crowded(by_hand)),
    )
