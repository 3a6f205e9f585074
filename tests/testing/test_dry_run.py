"""In a dry run reads run, and the results of the other tools are simulated."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from toolkit import ModelError, Runner, Tool, Toolbox, tool
from toolkit.approvers import defer
from toolkit.testing import ScriptedModel, call, dry_run


class Order(BaseModel):
    number: int
    item: str
    note: str | None = None


ran: list[str] = []


@tool(effect="read")
def look(item: str) -> str:
    """Look an item up."""
    ran.append("look")
    return f"{item} is there"


@tool(effect="write")
def order(item: str, count: int = 1) -> Order:
    """Order an item."""
    ran.append("order")
    return Order(number=count, item=item)


@tool(effect="destructive", isolate="process")
def delete(item: str) -> bool:
    """Delete an item."""
    ran.append("delete")
    return True


@tool
async def unlabelled(item: str) -> None:
    """Do something."""
    ran.append("unlabelled")


def untyped(item):  # type: ignore[no-untyped-def]
    """Do something else."""
    ran.append("untyped")


TOOLS = [look, order, delete, unlabelled, untyped]


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def test_reads_run_and_the_others_are_simulated() -> None:
    """Only the read runs; the other results say so, and have values of the declared types, if there are any."""
    model = ScriptedModel([[call(each, item="tea") for each in Toolbox(TOOLS).names], "Done."])
    result = Runner(dry_run(TOOLS), model=model).run("Go.")
    looked, *others = (each.result for each in result.calls)

    assert ["look"] == ran
    assert "tea is there" == looked.text
    assert [Order(number=1, item="text"), True, None, None] == [each.value for each in others]
    assert all(str(each.text).startswith("Dry run: ") and not each.is_error for each in others)
    assert "Dry run: untyped was not executed, and nothing has changed." == others[-1].text
    assert 'changed. Simulated result: {"number":1,"item":"text"}' in str(others[0].text)


class Stay(BaseModel):
    """One of many types; `parts` holds itself."""

    day: date
    room: Literal["small", "large"]
    persons: Annotated[int, Field(ge=2)]
    extras: list[tuple[str, float]]
    parts: list[Stay] = []
    key: UUID | None = None


class Code(BaseModel):
    code: Annotated[str, Field(pattern="^[0-9]{4}$")]


class Endless(BaseModel):
    inner: list[Endless]


SIMULATED: dict[str, tuple[Any, Any]] = {
    "model": (Stay, {"day": "2030-01-01", "room": "small", "persons": 2, "extras": [["text", 1.0]]}),
    "list": (list[Code | int], None),
    "union": (int | None, 1),
    "pattern": (Code, None),
    "recursive": (Endless, None),
    "text": (Literal["done"], "done"),
}


@pytest.mark.parametrize(("kind", "plain"), SIMULATED.values(), ids=SIMULATED)
def test_simulated_values(kind: Any, plain: Any) -> None:
    """A value is one that the output schema allows; a pattern that no sample matches leaves it out."""

    def act() -> Any:
        raise AssertionError

    act.__annotations__["return"] = kind
    first, second = (dry_run([act]).call("act") for _ in range(2))

    assert first == second and (first.value is None or first.value == TypeAdapter(kind).validate_python(plain))
    assert (plain is None) == (first.value is None)


def test_async() -> None:
    """Async runs and calls behave the same."""
    box = dry_run(Toolbox(TOOLS))

    assert "Dry run: unlabelled" in str(asyncio.run(box.acall("unlabelled", {"item": "x"})).text)
    model = ScriptedModel([[call("order", item="tea"), call("look", item="tea")], "Done."])
    asyncio.run(Runner(box, model=model).arun("Go."))
    assert ["look"] == ran


def test_model_sees_the_same_tools() -> None:
    """Names, descriptions and schemas are those of the real tools, in every dialect."""
    box = Toolbox(TOOLS)

    for dialect in ("chat", "responses", "anthropic", "gemini", "interactions", "mcp", "minimal", "calls"):
        assert box.schemas(dialect) == dry_run(box).schemas(dialect)


def test_toolbox_itself_is_unchanged() -> None:
    """The toolbox that was given still runs its tools."""
    box = Toolbox(TOOLS)
    dry_run(box)
    box.call("order", {"item": "tea"})

    assert ["order"] == ran


def test_wrong_arguments_are_refused() -> None:
    """A call is validated as ever."""
    assert "invalid_arguments" == dry_run(TOOLS).call("order", {"item": 1}).kind
    assert Toolbox(TOOLS).call("order", {"x": 1}).text == dry_run(TOOLS).call("order", {"x": 1}).text


def test_gates_hold() -> None:
    """A call that needs approval waits for it, and says then that nothing was done."""
    runner = Runner(dry_run(TOOLS), model=ScriptedModel([call("delete", item="tea"), "Done."]), approve=defer)
    paused = runner.run("Go.")
    result = runner.resume(paused.state, {paused.pending[0].call.id: True})

    assert "Dry run: delete was not executed" in str(result.calls[0].result.text)
    refused = dry_run([tool(untyped, authorize=lambda tool, arguments, context: False)])
    assert "denied" == refused.call("untyped", {"item": "x"}).kind
    assert [] == ran


def test_undo_does_nothing() -> None:
    """The `undo` of a tool that did not run is not called, also where the dry run fails."""
    undone: list[str] = []
    box = dry_run([tool(untyped, undo=lambda item: undone.append(item))])
    script: list[Any] = [call("untyped", item="tea"), ModelError("down")]
    with pytest.raises(ModelError, match="down"):
        Runner(box, model=ScriptedModel(script), undo_on_failure=True).run("Go.")

    assert [] == undone


def test_approvals_are_for_the_dry_run_alone() -> None:
    """The approver sees that it is a dry run, and the real tool needs an approval of its own."""
    gated = tool(untyped, approve=True)
    paused = Runner(dry_run([gated]), model=ScriptedModel([call("untyped", item="tea")]), approve=defer).run("Go.")
    real = Runner([gated], model=ScriptedModel(["Done."]), approve=defer)

    assert paused.pending[0].source.startswith("dry run of ")
    assert real.resume(paused.state, {paused.pending[0].call.id: True}).is_paused
    assert Toolbox([gated]).fingerprint() != dry_run([gated]).fingerprint()
    assert [] == ran


def test_methods_bound_functions_and_sources() -> None:
    """Whatever executes a tool: a method, a bound function, an override, nothing yet; the stricter effect counts."""

    class Shop:
        @tool(effect="write")
        def sell(self, item: str) -> int:
            """Sell an item."""
            raise AssertionError

    declared = Tool.from_schema("buy", {"type": "object", "properties": {"_output": {"const": "bought"}}}, activity="b")
    box = Toolbox([Shop(), declared, look])
    assert ["", ""] == [
        dry_run(box).call(name, given).error or "" for name, given in (("sell", {"item": "x"}), ("buy", {}))
    ]

    box.bind("b", lambda: ran.append("buy"))
    with box.override("look", order):  # a read by a function that writes
        dry = dry_run(box)
    assert "Dry run: buy was not executed" in str(dry.call("buy").text)
    assert "Dry run: look was not executed" in str(dry.call("look", {"item": "x"}).text)
    assert [] == ran


def test_latent_tools_stay() -> None:
    """The output of a latent tool is the model's; nothing is executed."""
    think = Tool.from_schema("think", {"type": "object", "properties": {"_output": {"type": "string"}}})

    assert "so" == dry_run([think]).call("think", {"_output": "so"}).value


def test_override_comes_back() -> None:
    """A test may give its own answer."""
    box = dry_run(TOOLS)
    with box.override("order", lambda item, count: Order(number=7, item=item)):
        assert Order(number=7, item="tea") == box.call("order", {"item": "tea"}).value


def test_options_of_the_toolbox() -> None:
    """References and strictness stay, outputs are not checked; a reference to a result stands for its text."""
    box = dry_run(Toolbox([look, order], references=True, check_output=True, strict=True))
    results = box.call_many([call("order", item="tea", _outputPath="made"), call("look", item="†made")])

    assert (True, False, True) == (box.references, box.check_output, box.strict)
    assert Order(number=1, item="text") == results[0].value
    assert str(results[1].value).startswith("Dry run: order was not executed")
