"""In a dry run reads run, and the other tools answer with made-up values of their output schema."""

from __future__ import annotations

import asyncio
import datetime
import json
import uuid
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Len, Lt
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import BaseModel, Field

from toolkit import Runner, Tool, Toolbox, tool
from toolkit.approvers import defer
from toolkit.testing import ScriptedModel, call, dry_run


class Order(BaseModel):
    number: Annotated[int, Gt(0)]
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


def test_reads_run_and_the_others_say_that_they_did_not() -> None:
    """Only the read runs; the other results say that nothing did, and have values of the declared types."""
    model = ScriptedModel([[call(each, item="tea") for each in Toolbox(TOOLS).names], "Done."])
    result = Runner(dry_run(TOOLS), model=model).run("Go.")
    looked, ordered, *others = (each.result for each in result.calls)

    assert ["look"] == ran
    assert "tea is there" == looked.text
    assert Order(number=1, item="") == ordered.value
    assert ordered.text == (
        'Dry run: order was not executed, and nothing has changed. A made-up result: {"number":1,"item":""}'
    )
    assert [False, None, None] == [each.value for each in others]
    assert all(str(each.text).startswith("Dry run: ") and not each.is_error for each in others)
    assert "Dry run: untyped was not executed, and nothing has changed." == others[-1].text


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

    for dialect in ("chat", "responses", "anthropic", "gemini", "mcp", "minimal", "calls"):
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
    """A call that needs approval waits for it, and answers with a made-up value then."""
    runner = Runner(dry_run(TOOLS), model=ScriptedModel([call("delete", item="tea"), "Done."]), approve=defer)
    paused = runner.run("Go.")
    result = runner.run(paused.state, decisions={paused.pending[0].call.id: True})

    assert "Dry run: delete was not executed" in str(result.calls[0].result.text)
    refused = dry_run([tool(untyped, authorize=lambda tool, arguments, context: False)])
    assert "denied" == refused.call("untyped", {"item": "x"}).kind
    assert [] == ran


def test_approvals_are_for_the_dry_run_alone() -> None:
    """The approver sees that it is a dry run, and the real tool needs an approval of its own."""
    gated = tool(untyped, approve=True)
    paused = Runner(dry_run([gated]), model=ScriptedModel([call("untyped", item="tea")]), approve=defer).run("Go.")
    real = Runner([gated], model=ScriptedModel(["Done."]), approve=defer)

    assert paused.pending[0].source.startswith("dry run of ")
    assert real.run(paused.state, decisions={paused.pending[0].call.id: True}).is_paused
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
    assert "bought" == dry.call("buy").value
    assert "Dry run: look was not executed" in str(dry.call("look", {"item": "x"}).text)
    assert [] == ran


def test_latent_tools_stay() -> None:
    """The output of a latent tool is the model's; nothing is executed, and nothing made up."""
    think = Tool.from_schema("think", {"type": "object", "properties": {"_output": {"type": "string"}}})

    assert "so" == dry_run([think]).call("think", {"_output": "so"}).value


def test_override_comes_back() -> None:
    """A test may give its own answer in place of the made-up one."""
    box = dry_run(TOOLS)
    with box.override("order", lambda item, count: Order(number=7, item=item)):
        assert Order(number=7, item="tea") == box.call("order", {"item": "tea"}).value


def test_options_of_the_toolbox() -> None:
    """References, the check of outputs and strictness stay; a reference to a made-up result stands for its text."""
    box = dry_run(Toolbox([look, order], references=True, check_output=True, strict=True))
    results = box.call_many([call("order", item="tea", _outputPath="made"), call("look", item="†made")])

    assert (True, True, True) == (box.references, box.check_output, box.strict)
    assert Order(number=1, item="") == results[0].value
    assert str(results[1].value).startswith("Dry run: order was not executed")


class Colour(Enum):
    RED = "red"


class Node(BaseModel):
    name: Annotated[str, Len(3)]
    child: Node | None
    nodes: list[Node]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (int, 0),
        (Annotated[int, Gt(4)], 5),
        (Annotated[int, Lt(-3)], -4),
        (Annotated[int, Field(multiple_of=7, ge=8)], 14),
        (Annotated[float, Gt(0.25), Lt(0.5)], 0.375),
        (Annotated[float, Ge(2)], 2.0),
        (Annotated[str, Len(2)], "xx"),
        (bool, False),
        (list[int], []),
        (Annotated[list[int], Len(2)], [0, 0]),
        (tuple[int, str], (0, "")),
        (dict[str, int], {}),
        (Literal["b", "a"], "b"),
        (Colour, Colour.RED),
        (datetime.date, datetime.date(2000, 1, 1)),
        (datetime.datetime, datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc)),
        (datetime.timedelta, datetime.timedelta(0)),
        (uuid.UUID, uuid.UUID("00000000-0000-4000-8000-000000000000")),
        (int | str, 0),
        (Annotated[int, Gt(4), Lt(5)] | str, ""),
        (Node, Node.model_construct(name="xxx", child=None, nodes=[])),
    ],
    ids=str,
)
def test_values_of_types(kind: Any, expected: Any) -> None:
    """The value is of the return type."""

    def make() -> Any:
        raise AssertionError

    make.__annotations__["return"] = kind
    value = dry_run([make]).call("make").value

    assert (expected, type(expected)) == (value, type(value))


ENDLESS = {"type": "object", "required": ["n"], "properties": {"n": {"$ref": "#/$defs/n"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"$ref": "#/$defs/n"}, {"type": "null"}], "$defs": {"n": ENDLESS}},
        {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "integer", "minimum": 3}}}]},
        {"type": ["integer", "null"], "minimum": 1.5},
        {"type": "array", "prefixItems": [{"const": 1}, {"type": "string"}], "minItems": 3},
        {"required": ["x"]},
        {"type": "number", "exclusiveMinimum": -2, "exclusiveMaximum": -1},
        {"type": "string", "format": "email", "minLength": 30},
        {"properties": {"a": False}},
        {},
    ],
    ids=str,
)
def test_values_of_schemas(schema: Any) -> None:
    """The value is valid by a validator of somebody else."""
    declared = Tool.from_models("make", {"type": "object", "properties": {}}, schema, lambda: None)
    text = str(dry_run([declared]).call("make").text)

    Draft202012Validator(schema).validate(json.loads(text.partition("A made-up result: ")[2]))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^[0-9]+$"},
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "uniqueItems": True},
        {"type": "string", "minLength": 1_000_000_000},
        {"type": "object", "required": ["a"], "properties": {"a": False}},
    ],
    ids=str,
)
def test_no_value(schema: Any) -> None:
    """Where no value is found the text says so, and no wrong one is returned."""
    declared = Tool.from_schema("make", {"type": "object", "properties": {"_output": schema}}, lambda: None)
    result = dry_run([declared]).call("make")

    assert (None, False) == (result.value, result.is_error)
    assert str(result.text).endswith("No value of its output schema could be made up.")
