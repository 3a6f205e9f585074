"""What type checkers know of a run: mypy, pyright and pyrefly read this file, pytest runs it."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict, assert_type

from toolkit import AsyncRunStream, DefinitionError, FinishReason, Runner, RunResult, RunStream, ToolContext, tool
from toolkit.events import Event
from toolkit.testing import ScriptedModel

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class City(BaseModel):
    name: str


@dataclass
class Point:
    x: int


class Row(TypedDict):
    key: str


@tool
def asking(context: ToolContext[Point]) -> int:
    assert_type(context, ToolContext[Point])
    assert_type(context.deps, Point)
    assert_type(context.run_id, str)
    assert_type(context.cancelled, bool)
    return context.deps.x


def runner(*script: str) -> Runner:
    """A runner whose model says this."""
    return Runner(model=ScriptedModel(script))


def test_text() -> None:
    """Without an output type the output is text."""
    result = runner("Hi.").run("x")
    assert_type(result, RunResult[str])
    assert_type(result.output, str)
    assert_type(result.finish_reason, FinishReason)

    assert "Hi." == result.output


def test_bare_result() -> None:
    """A result without a type in brackets is one of text."""

    def read_output(result: RunResult) -> str:
        return assert_type(result.output, str)

    assert "Hi." == read_output(runner("Hi.").run("x"))


def test_str() -> None:
    """Text may be asked for by its type."""
    assert_type(runner("Hi.").run("x", output_type=str), RunResult[str])

    assert "Hi." == runner("Hi.").run("x", output_type=str).output


def test_classes() -> None:
    """The output is of the class that was asked for."""
    assert_type(runner('{"name": "Oslo"}').run("x", output_type=City).output, City)
    assert_type(runner('{"x": 1}').run("x", output_type=Point).output, Point)
    assert_type(runner('{"key": "a"}').run("x", output_type=Row).output, Row)
    assert_type(runner('{"result": 5}').run("x", output_type=int).output, int)

    assert "Oslo" == runner('{"name": "Oslo"}').run("x", output_type=City).output.name


def test_generic_classes() -> None:
    """The output is of the class with its arguments."""
    assert_type(runner('{"result": [1]}').run("x", output_type=list[int]).output, list[int])
    assert_type(runner('{"a": 1}').run("x", output_type=dict[str, int]).output, dict[str, int])

    assert [1] == runner('{"result": [1]}').run("x", output_type=list[int]).output


def test_other_forms() -> None:
    """What is no class may be asked for, too: a union, a Literal, an annotated type."""
    assert_type(runner('{"result": 5}').run("x", output_type=int | City).output, int | City)
    assert_type(runner('{"result": null}').run("x", output_type=City | None).output, City | None)
    assert_type(runner('{"result": "a"}').run("x", output_type=Literal["a", "b"]).output, Literal["a", "b"])
    assert_type(runner('{"result": 5}').run("x", output_type=Annotated[int, Field(ge=1)]).output, int)

    assert 5 == runner('{"result": 5}').run("x", output_type=int | City).output


def test_schema() -> None:
    """A JSON Schema tells type checkers nothing of the values."""
    assert_type(runner('{"name": "a"}').run("x", output_type=SCHEMA).output, Any)

    assert {"name": "a"} == runner('{"name": "a"}').run("x", output_type=SCHEMA).output


def test_stream() -> None:
    """A stream gives events, and its result is typed as that of a run."""
    assert_type(runner("Hi.").stream("x"), RunStream[str])
    with runner('{"name": "Oslo"}').stream("x", output_type=City) as events:
        for event in events:
            assert_type(event, Event)
    assert_type(events.result, RunResult[City])

    assert City(name="Oslo") == events.result.output


def test_map() -> None:
    """The results of many prompts are typed as that of one."""
    assert_type(runner("Hi.").map(["x"]), list[RunResult[str] | Exception])
    results = runner('{"name": "Oslo"}').map(["x"], output_type=City)
    assert_type(results, list[RunResult[City] | Exception])
    assert_type(runner('{"result": 5}').map(["x"], output_type=int | City), list[RunResult[int | City] | Exception])

    assert isinstance(results[0], RunResult)
    assert City(name="Oslo") == results[0].output


async def asynchronous() -> City:
    assert_type(await runner("Hi.").arun("x"), RunResult[str])
    assert_type(runner("Hi.").astream("x"), AsyncRunStream[str])
    async with runner('{"name": "Oslo"}').astream("x", output_type=City) as events:
        async for event in events:
            assert_type(event, Event)
    assert_type(events.result.output, City)
    assert_type(await runner("Hi.").amap(["x"]), list[RunResult[str] | Exception])
    result = await runner('{"name": "Oslo"}').arun("x", output_type=City)
    return assert_type(result.output, City)


def test_asynchronous() -> None:
    """The async backends are typed as the sync ones."""
    import asyncio

    coroutine: Coroutine[Any, Any, City] = asynchronous()

    assert City(name="Oslo") == asyncio.run(coroutine)


def test_wrong_uses() -> None:
    """Type checkers refuse what a run does not take, and what its output does not have."""
    with pytest.raises(TypeError):
        runner("Hi.").run(5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        runner("Hi.").run("x", ouput_type=City)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    with pytest.raises(AttributeError):
        runner("Hi.").run("x").output.nmae  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError):
        ToolContext(deps=Point(1)).deps.y  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def test_wrong_options() -> None:
    """Type checkers refuse options that a runner does not have."""
    with pytest.raises(TypeError):
        Runner(modle="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_instance_for_a_type() -> None:
    """An instance in place of a type is refused when the run begins."""
    with pytest.raises(DefinitionError, match="output_type="):
        runner("Hi.").run("x", output_type=City(name="Oslo"))
