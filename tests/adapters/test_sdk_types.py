"""Schemas of the dialects in the types that the providers' own SDKs publish; nothing of them is dropped."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from tests.adapters.adapted import load
from tests.servers import FakeServer
from toolkit import Runner, Tool, Toolbox, tool
from toolkit.testing import reply

pytestmark = pytest.mark.filterwarnings("ignore")


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    """A node of a tree."""

    name: str = Field(pattern="^[a-z]+$", max_length=9)
    children: list[Node] = []


@tool(strict=None)
def everything(
    node: Node,
    colour: Colour,
    day: date,
    pair: tuple[int, str],
    weights: dict[str, float],
    either: int | list[str] | None,
    anything: Any,
    exact: Literal["a", 1, None] = "a",
    limit: int = Field(default=5, ge=1, le=10, multiple_of=1),
) -> dict[str, int]:
    """Take everything.

    Args:
        node: A node.
        limit: At most so many.
    """
    return {}


@tool
def nothing() -> int:
    """Take nothing."""
    return 0


@tool(namespace="crm", defer_loading=True, title="Find a client")
def find(name: str) -> list[str]:
    """Find a client."""
    return []


OPEN = Tool.from_schema("open", {"type": "object", "properties": {"a": {}}}, lambda a=None: a)
BOX = Toolbox([everything, nothing, find, OPEN])

each_strictness = pytest.mark.parametrize("strict", [False, True])


def compare(kind: Any, schemas: list[dict[str, Any]], *, but: str = "") -> None:
    """Validate schemas as a type of an SDK: what it does not know would be missing afterwards, except inside `but`."""
    adapter = TypeAdapter(kind)
    for schema in schemas:
        read = {key: [*value] if key == "tools" else value for key, value in adapter.validate_python(schema).items()}
        assert {**read, **({but: schema[but]} if but else {})} == schema


@each_strictness
def test_openai(strict: bool) -> None:
    """Chat Completions, also of the other dialects for its servers."""
    types = load("openai.types.chat")

    for dialect in ("chat", "minimal"):
        compare(types.ChatCompletionFunctionToolParam, BOX.schemas(dialect, strict=strict))


@each_strictness
def test_openai_responses(strict: bool) -> None:
    """Responses: functions by themselves, and all tools of a request, in namespaces and with the search tool."""
    types: Any = load("openai.types.responses")
    with FakeServer([reply.text("Hi.")]) as server:
        Runner(BOX, api="responses", model="m", base_url=server.base_url, strict=strict).run("Go.")
    (tools,) = [request.body["tools"] for request in server.requests]

    compare(types.FunctionToolParam, BOX.schemas("responses", strict=strict))
    assert {each["type"] for each in tools} == {"function", "namespace", "tool_search"}
    compare(types.ToolParam, tools)


@each_strictness
def test_anthropic(strict: bool) -> None:
    """Messages, and the tool runner."""
    types, beta = load("anthropic.types"), load("anthropic.types.beta")

    compare(types.ToolParam, BOX.schemas("anthropic", strict=strict))
    compare(beta.BetaToolParam, BOX.schemas("anthropic", strict=strict), but="input_schema")  # which may be any object


def test_gemini() -> None:
    """Function declarations; the SDK writes types in capitals."""
    try:
        types = load("google.genai.types")
    except ModuleNotFoundError:  # other packages have a part of `google`, too
        pytest.skip("see the dependency group `adapters`")

    def lower(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: each.lower() if key == "type" else lower(each) for key, each in value.items()}
        return [*map(lower, value)] if isinstance(value, list) else value

    for schema in BOX.schemas("gemini"):
        read = types.FunctionDeclaration.model_validate(schema)
        assert lower(read.model_dump(mode="json", by_alias=True, exclude_unset=True)) == schema


def test_mcp() -> None:
    """Tools of a server."""
    types = load("mcp.types")

    for schema in BOX.schemas("mcp"):
        assert types.Tool.model_validate(schema).model_dump(mode="json", by_alias=True, exclude_unset=True) == schema
