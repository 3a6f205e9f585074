"""Who decides about strict: the tool, else the run, else the toolbox; and what the function sees of it: nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from tests.servers import FakeServer
from toolkit import Runner, Tool, Toolbox, ToolContext, tool
from toolkit.testing import reply


def search(query: str, weights: dict[str, int], limit: int = 5) -> str:
    """Search."""
    return f"{query} {weights} {limit}"


NATURAL = '{"query": "cats", "weights": {"pet": 2}}'
STRICT = '{"query": "cats", "weights": [{"key": "pet", "value": 2}], "limit": null}'
FOUND = "cats {'pet': 2} 5"

# The tool's own setting, the toolbox's, the run's, and what a run makes of them.
DECIDED: dict[str, tuple[bool | None, bool | None, bool | None, bool]] = {
    "nobody": (None, None, None, True),
    "toolbox": (None, False, None, False),
    "run": (None, None, False, False),
    "run over toolbox": (None, False, True, True),
    "tool": (False, None, None, False),
    "tool over run": (True, True, False, True),
    "tool over toolbox": (False, True, None, False),
}


def options(**given: bool | None) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize(("own", "toolboxes", "runs", "strict"), DECIDED.values(), ids=DECIDED)
def test_run(own: bool | None, toolboxes: bool | None, runs: bool | None, strict: bool) -> None:
    """A run asks for strict where that is decided, and reads the calls in whichever form it asked for."""
    box = Toolbox([tool(**options(strict=own))(search)], strict=toolboxes)
    with FakeServer([reply.calls(("search", STRICT if strict else NATURAL)), reply.text("Done.")]) as server:
        result = Runner(box, base_url=server.base_url, model="m", **options(strict=runs)).run("Cats?")

    assert strict == server.requests[0].body["tools"][0]["function"].get("strict", False)
    assert FOUND == result.calls[0].result.text


def test_history() -> None:
    """The conversation goes on with the words that the model itself wrote."""
    with FakeServer([reply.calls(("search", STRICT)), reply.text("Done.")]) as server:
        Runner([search], base_url=server.base_url, model="m").run("Cats?")

    sent = server.requests[1].body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert STRICT == sent


@pytest.mark.parametrize(("own", "asked", "strict"), [(None, None, False), (None, True, True), (True, False, False)])
def test_schemas(own: bool | None, asked: bool | None, strict: bool) -> None:
    """What is shown by a toolbox is strict where it, or whoever asks, says so."""
    (shown,) = Toolbox([search], strict=own).schemas("chat", strict=asked)

    assert strict == shown["function"].get("strict", False)


@pytest.mark.parametrize(("strict", "words"), [(True, STRICT), (True, NATURAL), (False, NATURAL)])
@pytest.mark.parametrize("is_async", [False, True], ids=["answer", "aanswer"])
def test_answer(is_async: bool, strict: bool, words: str) -> None:
    """A call is answered, in an event loop too, whether a strict form was kept to or not."""
    asked = {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "search", "arguments": words}}]}
    box = Toolbox([search])
    given = asyncio.run(box.aanswer(asked, strict=strict)) if is_async else box.answer(asked, strict=strict)

    assert [{"role": "tool", "tool_call_id": "a", "content": FOUND}] == given


def test_answer_of_unfit_calls() -> None:
    """Each call has its answer, in order, whatever is wrong with it; a reply without calls needs none."""
    calls = [
        ("a", "search", '{"query": 5}'),
        ("b", "find", "{}"),
        ("c", "search", '{"query": '),
        ("d", "search", NATURAL),
    ]
    asked = {
        "tool_calls": [{"id": i, "type": "function", "function": {"name": n, "arguments": w}} for i, n, w in calls]
    }
    answers = Toolbox([search]).answer(asked)

    assert ["a", "b", "c", "d"] == [answer["tool_call_id"] for answer in answers]
    assert [False, False, False, True] == [answer["content"] == FOUND for answer in answers]
    assert [] == Toolbox([search]).answer({"role": "assistant", "content": "Hello!"})


def test_answer_with_context() -> None:
    """A tool that asks for its context gets the one that is given."""

    def who(context: ToolContext[str]) -> str:
        return context.deps

    asked = {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "who", "arguments": "{}"}}]}

    assert "Ann" == Toolbox([who]).answer(asked, context=ToolContext(deps="Ann"))[0]["content"]


class First(BaseModel):
    kind: Literal["a"]
    size: int = 1


class Second(BaseModel):
    kind: Literal["b"]
    size: int = 1


class Third(BaseModel):
    kind: Literal["c"]
    size: int = 1


class Some(BaseModel):
    name: Literal["some"]
    items: list[First | Second]


class Others(BaseModel):
    name: Literal["others"]
    items: list[First | Third]


def test_unions_in_the_alternatives_of_a_union() -> None:
    """Each alternative is decoded by its own inner union, however alike they are."""

    def count(value: Some | Others) -> int:
        """Count."""
        return sum(item.size for item in value.items)

    sent = '{"value": {"name": "others", "items": [{"kind": "c", "size": null}, {"kind": "a", "size": 2}]}}'
    with FakeServer([reply.calls(("count", sent)), reply.text("Done.")]) as server:
        result = Runner([count], base_url=server.base_url, model="m").run("Count.")

    assert "3" == result.calls[0].result.text


def test_pattern_that_repeats_repetitions() -> None:
    """A pattern of a server's schema is matched in linear time, where a union is decoded, too."""
    tag = {"type": "string", "pattern": "^(a+)+$"}
    weights = {"type": "object", "additionalProperties": {"type": "integer"}}
    choices: list[Any] = [
        {"properties": {"tag": tag, "weights": weights}, "required": ["tag"]},
        {"properties": {"name": {"type": "string"}}, "required": ["name"]},
    ]
    choices = [{"type": "object", "additionalProperties": False, **choice} for choice in choices]
    schema = {"type": "object", "properties": {"value": {"anyOf": choices}}, "required": ["value"]}
    box = Toolbox([Tool.from_schema("find", schema, lambda value: str(value))], strict=True)

    def find(tag: str) -> str:
        arguments = json.dumps({"value": {"tag": tag, "weights": [{"key": "x", "value": 1}]}})
        called = {"id": "a", "type": "function", "function": {"name": "find", "arguments": arguments}}
        answer: str = box.answer({"tool_calls": [called]})[0]["content"]
        return answer

    assert "{'tag': 'aa', 'weights': {'x': 1}}" == find("aa")
    assert find("a" * 60 + "!").startswith("Invalid arguments: value")
