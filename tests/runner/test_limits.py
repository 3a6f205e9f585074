"""How far a run may go: each bound, and what happens at it."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.ways import arun, astream, run, stream
from toolkit import LimitError, Limits, ModelError, Prices, Runner, RunResult, Usage, tool
from toolkit.events import LimitName, LimitReached
from toolkit.models import ModelRequest, ModelResponse
from toolkit.testing import ScriptedModel, call

PAGE = Path(__file__).parent.parent.parent / "docs" / "limits.md"
LAST_TURN = "You have used all available tool calls. Summarize what you found and respond to the user."
WAYS = pytest.mark.parametrize("go", [run, arun, stream, astream])


@tool
def add(n: int = 0) -> int:
    """Add."""
    return n


@tool
def other() -> str:
    """Do another thing."""
    return "other"


def adding(request: ModelRequest) -> ModelResponse:
    """Call for ever, for ten tokens in and five out; say something where there is no tool."""
    usage = Usage(input_tokens=10, output_tokens=5, requests=1)
    if not request.tools:
        return ModelResponse(text="In the end.", usage=usage)
    return ModelResponse(text="Let me see.", calls=(call("add"),), usage=usage)


# Each bound, such that it is reached after two turns.
BOUNDS: dict[str, dict[str, Any]] = {
    "max_turns": {"max_turns": 2},
    "max_calls": {"max_calls": 2},
    "max_tokens": {"max_tokens": 30},
    "max_input_tokens": {"max_input_tokens": 20},
    "max_output_tokens": {"max_output_tokens": 10},
    "max_cost": {"max_cost": 0.03, "prices": Prices(input=1000, output=1000)},
}
# Limits that do not end a run, or say how others do.
OTHERS = {
    "max_calls_per_turn",
    "max_calls_per_tool",
    "max_seconds_per_turn",
    "prices",
    "on_limit",
    "max_output_retries",
}
FIELDS = [field.name for field in fields(Limits)]
# The same, as the conversation ends with "stop".
NOTES = {
    "max_turns": "Max turns reached (2/2)",
    "max_tokens": "Max tokens reached (30/30)",
    "max_calls": "Limit reached: max_calls (2/2)",
    "max_input_tokens": "Limit reached: max_input_tokens (20/20)",
    "max_output_tokens": "Limit reached: max_output_tokens (10/10)",
    "max_cost": "Limit reached: max_cost (0.03/0.03)",
}
EACH = pytest.mark.parametrize("limit", BOUNDS)


def limited(limit: str, **more: Any) -> Runner:
    return Runner([add], model=ScriptedModel(adding), limits=Limits(**BOUNDS[limit], **more))


def texts(result: RunResult) -> list[str]:
    return [message.text for message in result.messages]


@EACH
@WAYS
def test_answer(limit: str, go: Callable[[Runner], RunResult]) -> None:
    """At a bound the model is asked for one last answer, without tools; the reason names the bound."""
    result = go(limited(limit))

    assert ("In the end.", limit, 3) == (result.output, result.finish_reason, result.usage.requests)
    assert [LAST_TURN, "In the end."] == texts(result)[-2:]


def test_turns_without_a_bound() -> None:
    """A run may have any number of turns, where that is asked for; other limits still bound it."""
    runner = Runner([add], model=ScriptedModel(adding), limits=Limits(max_turns=None, max_calls=25))

    result = runner.run("go")

    assert ("In the end.", "max_calls", 26) == (result.output, result.finish_reason, result.usage.requests)


@EACH
@WAYS
def test_stop(limit: str, go: Callable[[Runner], RunResult]) -> None:
    """With "stop" the run ends as it is, with the model's last words; a last message names the bound."""
    result = go(limited(limit, on_limit="stop"))

    assert ("Let me see.", limit, 2, ["0", f"[Agent stopped: {NOTES[limit]}]"]) == (
        result.output, result.finish_reason, result.usage.requests, texts(result)[-2:]
    )  # fmt: skip


@EACH
@WAYS
def test_raise(limit: str, go: Callable[[Runner], RunResult]) -> None:
    """With "raise" the run ends in LimitError, which names the bound and holds all that was done."""
    with pytest.raises(LimitError, match=rf"Raise Limits\({limit}=\.\.\.\)") as caught:
        go(limited(limit, on_limit="raise"))
    result: RunResult = caught.value.result

    assert (2, 2) == (len(result.calls), result.usage.requests)


@EACH
@pytest.mark.parametrize("on_limit", ["answer", "stop"])
def test_event(limit: Any, on_limit: Any) -> None:
    """A limit that is reached is reported once."""
    events = list(limited(limit, on_limit=on_limit).stream("go"))

    assert [LimitReached(limit=limit)] == [event for event in events if isinstance(event, LimitReached)]


def test_no_limit_no_event() -> None:
    """A run that stays within its limits reports none."""
    events = list(Runner([add], model=ScriptedModel([[call("add")], "ok"]), max_turns=2).stream("go"))

    assert [] == [event for event in events if isinstance(event, LimitReached)]


def test_ten_turns() -> None:
    """By default a run has ten turns and one last answer."""
    result = Runner([add], model=ScriptedModel(adding)).run("go")

    assert (11, "max_turns") == (result.usage.requests, result.finish_reason)


def test_call_in_the_last_turn() -> None:
    """A call in the last answer gets a result and is not executed, and the run ends with the text beside it."""
    script: list[Any] = [[call("add")], ModelResponse(text="Wait.", calls=(call("add"),))]
    result = Runner([add], model=ScriptedModel(script), max_turns=1).run("go")

    assert ("Wait.", "Not run: no tool can be called in the last turn.", [None, "cancelled"]) == (
        result.output, texts(result)[-1], [done.result.kind for done in result.calls]
    )  # fmt: skip


# -- calls


@WAYS
def test_calls_within_a_turn(go: Callable[[Runner], RunResult]) -> None:
    """Calls over the bound are refused, with a text that says what to do; the others run."""
    script: list[Any] = [[call("add", n=n) for n in range(3)], "ok"]
    result = go(Runner([add], model=ScriptedModel(script), limits=Limits(max_calls=2)))

    assert ["0", "1", "Not run: the run's 2 calls are used up. Answer with what you have."] == texts(result)[2:5]


@WAYS
def test_calls_per_turn(go: Callable[[Runner], RunResult]) -> None:
    """An answer with too many calls has the first ones executed; the next answer may hold as many again."""
    script: list[Any] = [[call("add", n=n) for n in range(3)], [call("add", n=3)], "ok"]
    result = go(Runner([add], model=ScriptedModel(script), limits=Limits(max_calls_per_turn=2)))
    refusal = "Not run: one answer may hold 2 calls. Send this one again later, if it is needed."

    assert ["0", "1", refusal, "", "3", "ok"] == texts(result)[2:]


@pytest.mark.parametrize("count", [1, 2, 5000])
def test_many_calls(count: int) -> None:
    """Each call of an answer has one result, however many there are; a thousand of them run."""
    result = Runner([add], model=ScriptedModel([[call("add")] * count, "ok"]), order="sequential").run("go")

    assert (count, min(count, 1024)) == (
        len(result.calls), sum(done.result.error is None for done in result.calls)
    )  # fmt: skip


@WAYS
def test_per_tool(go: Callable[[Runner], RunResult]) -> None:
    """Calls of one tool over its bound are refused; other tools go on, and the results keep call order."""
    script: list[Any] = [[call("add"), call("other"), call("add")], [call("add", n=9), call("other")], "ok"]
    result = go(Runner([add, other], model=ScriptedModel(script), limits=Limits(max_calls_per_tool={"add": 1})))
    refusal = "Not run: add may be called 1 times in a run. Go on without it."

    assert ["0", "other", refusal, "", refusal, "other", "ok"] == texts(result)[2:]
    assert ["0", "other", refusal, refusal, "other"] == [done.result.text for done in result.calls]


def test_never() -> None:
    """A tool that may be called no times is never called."""
    result = Runner(
        [add], model=ScriptedModel([[call("add")], "ok"]), limits=Limits(max_calls_per_tool={"add": 0})
    ).run("go")

    assert "Not run: add may be called 0 times in a run. Go on without it." == texts(result)[2]


def test_limits_of_a_resumed_run() -> None:
    """A run that is resumed has used what it had used before."""
    model = ScriptedModel(adding)
    runner = Runner([add], model=model, limits=Limits(max_calls=2))
    states: list[Any] = []
    first = Runner([add], model=model, limits=Limits(max_calls=2), checkpoint=states.append)
    first.run("go")
    result = runner.resume(states[2])  # one call is done, and the model is to be asked

    assert ("max_calls", 2) == (result.finish_reason, len(result.calls))


def test_every_limit_that_ends_a_run() -> None:
    """Each limit that can end a run is among the finish reasons, and has a test above; that of time has others."""
    assert {*FIELDS} - OTHERS == {*get_args(LimitName)} == {*BOUNDS, "max_seconds"}


@pytest.mark.parametrize("name", FIELDS)
def test_every_limit_is_described(name: str) -> None:
    """Each limit is in the docstring and on the page about limits."""
    assert f"\n    {name}: " in f"{inspect.getdoc(Limits)}"
    assert re.search(rf"\b{name}\b", PAGE.read_text(encoding="utf-8"))


# -- what a bound can be


@pytest.mark.parametrize("name", FIELDS)
def test_every_limit_is_checked(name: str) -> None:
    """A negative number is no value of any limit."""
    wrong: dict[str, Any] = {name: -1}

    with pytest.raises(ValueError, match=rf"\b{name}="):
        Limits(**wrong)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"max_turns": 0}, "max_turns=0 is not a whole number of at least 1. None means no limit"),
        ({"max_turns": True}, "max_turns=True is not a whole number"),
        ({"max_calls": 0}, "max_calls=0 is not a whole number of at least 1. None"),
        ({"max_calls": 2.5}, "max_calls=2.5 is not a whole number"),
        ({"max_input_tokens": 0.5}, "max_input_tokens=0.5 is not a whole number"),
        ({"max_seconds": -1}, "max_seconds=-1 is not a number above 0"),
        ({"max_seconds": "5"}, "max_seconds='5' is not a number above 0"),
        ({"max_calls_per_turn": 1.5}, "max_calls_per_turn=1.5 is not a whole number of at least 0"),
        ({"max_calls_per_tool": {"add": -1}}, "add=-1 is not a whole number of at least 0"),
        ({"max_calls_per_tool": None}, "max_calls_per_tool=None does not map names"),
        ({"max_cost": 1}, r"max_cost= needs prices: Limits\(max_cost="),
        ({"max_cost": 1, "prices": (1, 2)}, r"prices=\(1, 2\) is not Prices"),
        ({"max_cost": float("nan"), "prices": Prices(input=1, output=1)}, "max_cost=nan is not a number above 0"),
        ({"on_limit": "explode"}, "on_limit='explode' is not one of 'answer', 'stop', 'raise'"),
        ({"max_output_retries": -1}, "max_output_retries=-1 is not a whole number"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_impossible_bound(bounds: dict[str, Any], message: str) -> None:
    """A bound that is none is refused where it is written."""
    with pytest.raises(ValueError, match=message):
        Limits(**bounds)


@pytest.mark.parametrize(
    ("name", "price"),
    [
        *itertools.product(("input", "output", "cached", "cache_write"), (-1, float("nan"), float("inf"), "1", True)),
        ("input", None),
        ("output", None),
    ],
)
def test_impossible_price(name: str, price: Any) -> None:
    """A wrong price is refused where it is written: no cost would ever reach its limit."""
    with pytest.raises(ValueError, match=f"{name}={price!r} is not the price"):
        Prices(**{"input": 1, "output": 1, name: price})


def test_per_tool_without_its_tool() -> None:
    """A bound for a tool that there is not is refused, and the tool that may be meant is named."""
    with pytest.raises(ValueError, match=r"max_calls_per_tool=.* has 'ad', which is not a tool here.*add"):
        Runner([add], model=ScriptedModel(adding), limits=Limits(max_calls_per_tool={"ad": 1})).run("go")


# -- hooks around an answer


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets go what hangs when the test ends."""
    event = threading.Event()
    yield event
    event.set()


class Hanging:
    """A hook of one kind that never answers: sync as long as `release` is not set, or async."""

    def __init__(self, name: str, release: threading.Event, *, later: bool) -> None:
        async def hang(_: object) -> None:
            await asyncio.get_running_loop().create_future()

        setattr(self, name, hang if later else lambda _: release.wait(60) and None)


@WAYS
@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", ["before_model", "after_model"])
@pytest.mark.parametrize("bounds", [{}, {"max_seconds": 0.05}], ids=["first turn", "last turn"])
def test_hook_that_hangs(
    go: Callable[[Runner], RunResult], name: str, later: bool, bounds: dict[str, Any], release: threading.Event
) -> None:
    """The time of a turn bounds the hooks around its answer too, those of the last answer as well."""
    hook, limits = Hanging(name, release, later=later), Limits(max_seconds_per_turn=0.1, **bounds)

    with pytest.raises(ModelError, match=r"within 0\.1 s, including the hooks around it"):
        go(Runner([add], model=ScriptedModel(["ok"] * 2), hooks=[hook], limits=limits))


def test_cost() -> None:
    """A result has the cost of the tokens of its run; those of the provider's cache have prices of their own."""
    usage = Usage(1_000_000, 500_000, 1, cached_tokens=400_000, cache_write_tokens=200_000)
    response = ModelResponse(text="Done.", usage=usage)
    costs = [
        Runner(model=ScriptedModel([response]), limits=Limits(prices=prices)).run("Go").cost
        for prices in (
            None,
            Prices(input=2, output=8),
            Prices(input=2, output=8, cached=0.5),
            Prices(input=2, output=8, cached=0.5, cache_write=2.5),
        )
    ]

    assert [None, 6.0, 5.4, 5.5] == costs


def test_known_prices() -> None:
    """The prices of many models are known, those of cached tokens too."""
    assert Prices(input=0.15, output=0.6, cached=0.075, cache_write=0.15) == Prices.of("gpt-4o-mini", "openai")
    assert 3.75 == Prices.of("claude-sonnet-4-5", "anthropic").cache_write
    with pytest.raises(ValueError, match="No prices are known for the model 'my-own'"):
        Prices.of("my-own")
