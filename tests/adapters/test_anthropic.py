"""Anthropic's SDK: our tools for its tool runner, and its tools for a Runner."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from tests.adapters.adapted import BOX, CONTEXT, PIXEL, PUT, PUT_TEXT, add, dropped, load
from toolkit import DefinitionError, Runner
from toolkit.adapters import from_anthropic, to_anthropic
from toolkit.approvers import approve_all
from toolkit.testing import ScriptedModel, call

anthropic = load("anthropic")
sdk = load("anthropic.lib.tools")
pytestmark = pytest.mark.filterwarnings("ignore")


def run(name: str, arguments: dict[str, Any], *, is_async: bool = False, **options: Any) -> tuple[Any, Any]:
    """Run the tool runner, whose model calls one of our tools; return the block that answers it, and the tools sent."""
    httpx2 = load("httpx2")
    bodies: list[dict[str, Any]] = []

    def answer(request: Any) -> Any:
        bodies.append(json.loads(request.content))
        use = {"type": "tool_use", "id": "t_1", "name": name, "input": arguments}
        block = use if len(bodies) == 1 else {"type": "text", "text": "Done."}
        reason = "tool_use" if len(bodies) == 1 else "end_turn"
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [block]}
        usage = {"input_tokens": 1, "output_tokens": 1}
        return httpx2.Response(200, json={**message, "stop_reason": reason, "stop_sequence": None, "usage": usage})

    tools = to_anthropic(BOX, context=CONTEXT, is_async=is_async, **options)
    given: dict[str, Any] = {"max_tokens": 100, "model": "m", "tools": tools}
    given["messages"] = [{"role": "user", "content": "Go."}]
    transport = httpx2.MockTransport(answer)

    async def arun() -> Any:
        http = httpx2.AsyncClient(transport=transport)
        client = anthropic.AsyncAnthropic(api_key="test", http_client=http)
        return await client.beta.messages.tool_runner(**given).until_done()

    if is_async:
        done = asyncio.run(arun())
    else:
        client = anthropic.Anthropic(api_key="test", http_client=httpx2.Client(transport=transport))
        done = client.beta.messages.tool_runner(**given).until_done()
    assert done.content[0].text == "Done."
    return bodies[-1]["messages"][-1]["content"][0], bodies[0]["tools"]


@pytest.mark.parametrize("is_async", [False, True])
def test_call(is_async: bool) -> None:
    """The tools are sent as ours, arguments arrive with the context, and the text goes back."""
    block, sent = run("put", PUT, is_async=is_async)

    assert sent == BOX.schemas("anthropic")
    assert block["content"] == PUT_TEXT
    assert run("add", {"a": 2}, is_async=is_async)[0]["content"] == "3"


@pytest.mark.parametrize("is_async", [False, True])
def test_errors_are_text(is_async: bool) -> None:
    """Wrong arguments and a tool's own errors are text for the model; other messages are not shown."""
    wrong, missing = run("add", {"a": "x"}, is_async=is_async)[0], run("fail", {"how": "tool"}, is_async=is_async)[0]

    assert wrong["is_error"] and wrong["content"].startswith("Invalid arguments:")
    assert missing["is_error"] and missing["content"] == "There is no such book."
    for how in ("other", "fatal"):
        assert "secret" not in str(run("fail", {"how": how}, is_async=is_async)[0])


def test_approval() -> None:
    """Where nobody is asked, a call that requires approval is refused."""
    dropped.clear()

    assert run("drop", {"name": "users"})[0]["is_error"] and not dropped
    assert run("drop", {"name": "users"}, approve=approve_all)[0]["content"] == "users is gone"


def test_images() -> None:
    """Images go to the model."""
    assert run("draw", {})[0]["content"][-1]["source"]["media_type"] == "image/png"


def find(title: str, limit: int = 5) -> str:
    """Find a book.

    Args:
        title: Its title.
    """
    if title == "none":
        raise sdk.ToolError([{"type": "text", "text": "There is no such book."}])
    if title == "bug":
        raise ValueError("secret")
    return f"{title} {limit}"


async def afind(title: str, limit: int = 5) -> str:
    """Find a book."""
    return find(title, limit)


@pytest.mark.parametrize("is_async", [False, True])
def test_taken(is_async: bool) -> None:
    """A tool of theirs is one of ours: name, description, schema, value, errors."""
    theirs = anthropic.beta_async_tool(afind, name="find") if is_async else anthropic.beta_tool(find)

    made = from_anthropic(theirs)

    assert (made.name, made.description, made.parameters["required"]) == ("find", "Find a book.", ["title"])
    assert made.invoke({"title": "Emma"}).text == "Emma 5"
    assert asyncio.run(made.ainvoke({"title": "Emma", "limit": 1})).text == "Emma 1"
    assert made.invoke({"title": "none"}).error == "There is no such book."
    assert made.invoke({"title": 5}).kind == "invalid_arguments"
    assert "secret" not in str(made.invoke({"title": "bug"}).text)
    with ScriptedModel([call("find", title="Emma"), "Found."]) as model:
        assert Runner([made], model=model).run("Find Emma.").calls[0].result.text == "Emma 5"


def check(title: str) -> str:
    raise ValueError("too short")


def look(title: Annotated[str, AfterValidator(check)]) -> str:
    """Look."""
    return title


def test_taken_validator() -> None:
    """A validator of theirs speaks to the model."""
    result = from_anthropic(anthropic.beta_tool(look)).invoke({"title": "x"})

    assert result.kind == "invalid_arguments" and "too short" in str(result.text)


def test_taken_blocks() -> None:
    """Content blocks become text and images."""
    draw = next(made for made in to_anthropic(BOX) if made.name == "draw")

    assert from_anthropic(draw).invoke({}).images == (PIXEL,)


def test_round_trip() -> None:
    """A tool that went there and came back has its schema."""
    assert from_anthropic(to_anthropic([add])[0]).parameters["properties"] == add.parameters["properties"]


def test_their_own() -> None:
    """A tool that Anthropic's API defines is refused."""

    class Memory(sdk.BetaBuiltinFunctionTool):  # type: ignore[name-defined, misc]
        def to_dict(self) -> Any:
            return {"type": "memory_20250818", "name": "memory"}

        def call(self, input: object) -> str:
            return ""

    with pytest.raises(DefinitionError, match="memory: Anthropic's API defines this tool"):
        from_anthropic(Memory())
