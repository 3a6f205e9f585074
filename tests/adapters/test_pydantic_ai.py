"""pydantic-ai: our tools for its agents, and its tools for a Runner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, Field

from tests.adapters.adapted import BOX, CONTEXT, PIXEL, PUT, PUT_TEXT, add, dropped, load
from toolkit import DefinitionError, FatalError, Runner
from toolkit.adapters import from_pydantic_ai, to_pydantic_ai
from toolkit.approvers import approve_all
from toolkit.testing import ScriptedModel, call

pai = load("pydantic_ai")
pytestmark = pytest.mark.filterwarnings("ignore")


def run(name: str, arguments: dict[str, Any], **options: Any) -> Any:
    """Run an agent whose model calls one of our tools; return the part that answers the call, and the tools."""
    messages, function = load("pydantic_ai.messages"), load("pydantic_ai.models.function")
    seen: list[Any] = []

    def answer(history: Any, info: Any) -> Any:
        seen.append((history, info))
        part = messages.ToolCallPart(name, arguments) if len(seen) == 1 else messages.TextPart("Done.")
        return messages.ModelResponse([part])

    agent = pai.Agent(function.FunctionModel(answer), tools=to_pydantic_ai(BOX, context=CONTEXT, **options))
    assert asyncio.run(agent.run("Go.")).output == "Done."
    return seen[-1][0][-1].parts[0], seen[0][1].function_tools


def test_schema() -> None:
    """Name, description and schema are ours."""
    _, offered = run("add", {"a": 1})

    by_name = {each.name: each for each in offered}
    assert {*by_name} == {*BOX.names}
    assert by_name["add"].description == "Add two numbers."
    assert by_name["put"].parameters_json_schema == BOX["put"].parameters


def test_call() -> None:
    """Arguments arrive, typed, with the context; the text comes back."""
    assert run("add", {"a": 2})[0].content == "3"
    assert run("put", PUT)[0].content == PUT_TEXT


def test_errors_are_text() -> None:
    """Wrong arguments and a tool's own errors are text for the model; other messages are not shown."""
    wrong, missing = run("add", {"a": "x"})[0], run("fail", {"how": "tool"})[0]

    assert (wrong.outcome, wrong.content[:18]) == ("failed", "Invalid arguments:")
    assert (missing.outcome, missing.content) == ("failed", "There is no such book.")
    assert "secret" not in run("fail", {"how": "other"})[0].content
    with pytest.raises(FatalError):
        run("fail", {"how": "fatal"})


def test_approval() -> None:
    """Where nobody is asked, a call that requires approval is refused."""
    dropped.clear()

    assert run("drop", {"name": "users"})[0].outcome == "failed" and not dropped
    assert run("drop", {"name": "users"}, approve=approve_all)[0].content == "users is gone"


def test_images() -> None:
    """Images go to the model."""
    assert run("draw", {})[0].content[1].data == PIXEL.data


class Wanted(BaseModel):
    """What is wanted."""

    title: str = Field(min_length=2)


def find(wanted: Wanted, limit: int = 5) -> Any:
    """Find a book.

    Args:
        wanted: The book.
        limit: At most so many.
    """
    if wanted.title == "none":
        raise pai.ModelRetry("There is no such book.")
    if wanted.title == "draw":
        return [pai.BinaryContent(PIXEL.data, media_type="image/png")]
    return f"{wanted.title} {limit}"


def test_taken() -> None:
    """A tool of theirs is one of ours: name, description, schema, typed values, errors."""
    made = from_pydantic_ai(pai.Tool(find, timeout=5))

    assert (made.name, made.description, made.settings.timeout) == ("find", "Find a book.", 5)
    assert made.parameters["required"] == ["wanted"]
    assert made.invoke({"wanted": {"title": "Emma"}}).text == "Emma 5"
    assert asyncio.run(made.ainvoke({"wanted": {"title": "Emma"}, "limit": 1})).text == "Emma 1"
    assert made.invoke({"wanted": {"title": "none"}}).text == "There is no such book."
    assert made.invoke({"wanted": {"title": "x"}}).kind == "invalid_arguments"
    assert made.invoke({"wanted": {"title": "draw"}}).images == (PIXEL,)
    with ScriptedModel([call("find", wanted={"title": "Emma"}), "Found."]) as model:
        assert Runner([made], model=model).run("Find Emma.").calls[0].result.text == "Emma 5"


def test_round_trip() -> None:
    """A tool that went there and came back has its schema, and its errors."""
    (there,) = to_pydantic_ai([add])
    back = from_pydantic_ai(there)

    assert back.parameters["properties"] == add.parameters["properties"]
    assert back.invoke({"a": 1, "b": 5}).text == "6"


def test_gates_are_kept() -> None:
    """What requires approval there requires it here; what only their agents have is refused."""

    def own(context: Any, title: str) -> str:
        """Find."""
        return title

    own.__annotations__["context"] = pai.RunContext[Any]
    assert from_pydantic_ai(pai.Tool(find, requires_approval=True)).settings.approve is True
    with pytest.raises(DefinitionError, match="evaluates its RunContext"):
        from_pydantic_ai(pai.Tool(own, takes_ctx=True))
    with pytest.raises(DefinitionError, match="evaluates its prepare"):
        from_pydantic_ai(pai.Tool(find, prepare=lambda context, definition: definition))
