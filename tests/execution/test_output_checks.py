"""With `check_output`, a result is of the type that its tool declares, whoever executes the tool."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from toolkit import Image, MemoryLedger, Runner, Tool, Toolbox, ToolCall, ToolResult, tool
from toolkit.testing import ScriptedModel, call


class Person(BaseModel):
    """A person."""

    name: str
    born: datetime.date


ANN = Person(name="Ann", born=datetime.date(2000, 1, 2))
PLAIN = {"name": "Ann", "born": "2000-01-02"}
TEXT = '{"name":"Ann","born":"2000-01-02"}'
BY_TYPE = Tool.from_models("find", {"properties": {}}, Person)
BY_SCHEMA = Tool.from_schema("find", {"properties": {"_output": Person.model_json_schema()}})
FINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: PLAIN,
    "typed": lambda: ANN,
    "half typed": lambda: {**PLAIN, "born": ANN.born},
    "result": lambda: ToolResult(PLAIN),
}


def checked(made: Tool[..., Any], function: Callable[..., Any] | None = None) -> Toolbox:
    """Return a toolbox with a tool, which a function executes, or the model."""
    box = Toolbox([made], check_output=True)
    if function:
        box.bind(made.name, function)
    return box


@pytest.mark.parametrize("find", FINDS.values(), ids=FINDS)
def test_same_type(find: Callable[[], Any]) -> None:
    """A value has the type that it has where the model fills it in: the declared one, or plain data for a schema."""
    by_type, by_schema = checked(BY_TYPE, find).call("find"), checked(BY_SCHEMA, find).call("find")

    assert (ANN, TEXT) == (by_type.value, by_type.text)
    assert (PLAIN, TEXT) == (by_schema.value, by_schema.text)
    assert by_type == checked(BY_TYPE).call("find", {"_output": PLAIN})
    assert by_schema == checked(BY_SCHEMA).call("find", {"_output": PLAIN})


@pytest.mark.parametrize("made", [BY_TYPE, BY_SCHEMA], ids=["type", "schema"])
def test_wrong_output(made: Tool[..., Any]) -> None:
    """A value of another type is an error, which says where it is wrong; the log has the rest."""
    result = checked(made, lambda: {**PLAIN, "name": 5}).call("find")

    assert (None, "failed") == (result.value, result.kind)
    assert result.text == (
        "find has run, but its result is not what it declares: result.name: Input should be a valid string (received 5)"
    )


def test_by_default() -> None:
    """Without `check_output` a function's value is its own."""
    box = Toolbox([BY_TYPE])
    box.bind("find", lambda: {"name": 5})

    assert {"name": 5} == box.call("find").value


@tool
def count() -> int:
    """Count."""
    return "five"  # type: ignore[return-value]


@tool
async def count_later() -> int:
    """Count."""
    return "5"  # type: ignore[return-value]


@tool
def each() -> Iterator[int]:
    """Count each."""
    yield "1"  # type: ignore[misc]


@tool
def draw() -> Image:
    """Draw."""
    return Image(b"\x89")


@tool
def free():  # type: ignore[no-untyped-def]
    """Return anything."""
    return object


def fail() -> int:
    """Fail."""
    raise OSError


OTHERS: list[tuple[Any, Any]] = [(count, None), (count_later, 5), (each, [1]), (draw, Image(b"\x89")), (free, object)]


@pytest.mark.parametrize(("made", "value"), OTHERS, ids=[made.name for made, _ in OTHERS])
def test_annotations(made: Tool[..., Any], value: Any) -> None:
    """A return annotation is a declaration; a tool without one may return anything."""
    box = Toolbox([made], check_output=True)

    assert value == box.call(made.name).value == asyncio.run(box.acall(made.name)).value


def test_errors_stay() -> None:
    """A call that has failed is reported as it is."""
    assert "fail failed: OSError" in str(Toolbox([fail], check_output=True).call("fail").text)


@pytest.mark.parametrize("options", [{}, {"ledger": MemoryLedger()}], ids=["plain", "ledger"])
def test_in_a_run(options: Any) -> None:
    """The same holds in runs, and for copies of the toolbox."""
    box = checked(BY_TYPE, lambda: PLAIN)
    for copy in (box, box.prefixed("my_"), box.filtered(lambda _: True), box | Toolbox([draw]), Toolbox([draw]) | box):
        name = next(name for name in copy.names if name.endswith("find"))
        model = ScriptedModel([call(name), "Done."])

        assert [ANN] == [done.result.value for done in Runner(copy, model=model, **options).run("go").calls]
        assert [ANN] == [result.value for result in copy.call_many([ToolCall(name=name)])]
