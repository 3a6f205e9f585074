"""LangChain: our tools for its models and agents, and its tools for a Runner."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from typing import Any

import pytest

from tests.adapters.adapted import BOX, CONTEXT, PIXEL, PUT, PUT_TEXT, add, dropped, load
from toolkit import DefinitionError, FatalError, Runner, Toolbox, ToolContext, tool
from toolkit.adapters import from_langchain, to_langchain
from toolkit.approvers import approve_all
from toolkit.sources.retrievers import retriever_tool
from toolkit.testing import ScriptedModel, call

lc = load("langchain_core.tools")
pytestmark = pytest.mark.filterwarnings("ignore")


def invoke(name: str, arguments: dict[str, Any], *, is_async: bool = False, **options: Any) -> Any:
    """Call one of our tools as an agent of LangChain does."""
    tools = {made.name: made for made in to_langchain(BOX, context=CONTEXT, **options)}
    given = {"type": "tool_call", "id": "call_1", "name": name, "args": arguments}
    return asyncio.run(tools[name].ainvoke(given)) if is_async else tools[name].invoke(given)


def test_schema() -> None:
    """Name, description and schema are ours, in what LangChain sends to a model."""
    convert = load("langchain_core.utils.function_calling").convert_to_openai_tool

    sent = [convert(made) for made in to_langchain(BOX)]

    assert [made["function"]["name"] for made in sent] == [*BOX.names]
    assert sent[0]["function"]["description"] == "Add two numbers."
    assert sent[0]["function"]["parameters"] == add.parameters
    place = sent[1]["function"]["parameters"]["properties"]["place"]  # LangChain puts it in place of its reference
    assert place["properties"]["shelf"] == {"type": "string"}


@pytest.mark.parametrize("is_async", [False, True])
def test_call(is_async: bool) -> None:
    """Arguments of any name arrive, typed, with the context; the text comes back."""
    assert invoke("add", {"a": 2}, is_async=is_async).content == "3"
    assert invoke("put", PUT, is_async=is_async).content == PUT_TEXT


def test_errors_are_text() -> None:
    """Wrong arguments and a tool's own errors are text for the model; other messages are not shown."""
    wrong, missing = invoke("add", {"a": "x"}), invoke("fail", {"how": "tool"})

    assert (wrong.status, wrong.content[:18]) == ("error", "Invalid arguments:")
    assert (missing.status, missing.content) == ("error", "There is no such book.")
    assert "secret" not in invoke("fail", {"how": "other"}).content
    with pytest.raises(FatalError):
        invoke("fail", {"how": "fatal"})


def test_approval() -> None:
    """Where nobody is asked, a call that requires approval is refused."""
    dropped.clear()

    assert invoke("drop", {"name": "users"}).status == "error" and not dropped
    assert invoke("drop", {"name": "users"}, approve=approve_all).content == "users is gone"


def test_images() -> None:
    """Images come as content blocks."""
    assert invoke("draw", {}).content[1]["base64"] == base64.b64encode(PIXEL.data).decode()


def test_agent() -> None:
    """The tools run in a node of LangGraph."""
    prebuilt, graph = load("langgraph.prebuilt"), load("langgraph.graph")
    messages = load("langchain_core.messages")
    call = {"type": "tool_call", "id": "call_1", "name": "add", "args": {"a": 2, "b": 3}}
    node = graph.StateGraph(graph.MessagesState)
    node.add_node("tools", prebuilt.ToolNode(to_langchain([add])))
    node.add_edge(graph.START, "tools")

    done = node.compile().invoke({"messages": [messages.AIMessage("", tool_calls=[call])]})

    assert done["messages"][-1].content == "5"


def test_taken() -> None:
    """A tool of theirs is one of ours: name, description, schema, value, errors."""

    @lc.tool  # type: ignore[untyped-decorator]
    def find(title: str, limit: int = 5) -> str:
        """Find a book."""
        if title == "none":
            raise lc.ToolException("There is no such book.")
        if title == "bug":
            raise KeyError("secret")
        return f"{title} {limit}"

    made = from_langchain(find, effect="read")

    assert (made.name, made.description, made.settings.effect) == ("find", "Find a book.", "read")
    assert made.parameters["required"] == ["title"]
    assert made.invoke({"title": "Emma"}).text == "Emma 5"
    assert asyncio.run(made.ainvoke({"title": "Emma", "limit": 2})).text == "Emma 2"
    assert made.invoke({"title": 5}).kind == "invalid_arguments"
    assert made.invoke({"title": "none"}).text == "There is no such book."
    assert "secret" not in str(made.invoke({"title": "bug"}).text)
    with ScriptedModel([call("find", title="Emma"), "Found."]) as model:
        assert Runner([made], model=model).run("Find Emma.").calls[0].result.text == "Emma 5"


def test_taken_class() -> None:
    """Injected arguments are not the model's, handled errors are errors, validators speak to the model."""
    from pydantic import BaseModel, field_validator

    class Wanted(BaseModel):
        title: str

        @field_validator("title")
        @classmethod
        def check(cls, title: str) -> str:
            if title == "x":
                raise ValueError("too short")
            return title

    class Find(lc.BaseTool):  # type: ignore[name-defined, misc]
        name: str = "find.book"
        description: str = "Find a book."
        args_schema: Any = Wanted
        handle_tool_error: Any = True

        def _run(self, title: str) -> str:
            raise lc.ToolException(f"no {title}")

    made = from_langchain(Find())

    assert (made.name, made.invoke({"title": "Emma"}).error) == ("find_book", "no Emma")
    wrong = made.invoke({"title": "x"})
    assert wrong.kind == "invalid_arguments" and "too short" in str(wrong.text)


def test_blocks() -> None:
    """Content blocks become text and images; anything else is JSON."""
    data = base64.b64encode(PIXEL.data).decode()

    @lc.tool  # type: ignore[untyped-decorator]
    def draw() -> list[dict[str, Any]]:
        """Draw."""
        return [
            {"type": "text", "text": "A point"},
            {"type": "image", "base64": data, "mime_type": "image/png"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
            {"type": "image", "url": "https://example.com"},
        ]

    result = from_langchain(draw).invoke({})

    assert result.images == (PIXEL, PIXEL)
    assert str(result.text).splitlines() == [
        "A point",
        "[image]",
        "[image]",
        '{"type": "image", "url": "https://example.com"}',
    ]


def test_round_trip() -> None:
    """A tool that went there and came back has its schema."""
    (there,) = to_langchain([add])
    back = Toolbox([from_langchain(there)])

    assert back["add"].parameters["properties"] == add.parameters["properties"]
    assert back.call("add", {"a": 1, "b": 5}).text == "6"


def test_private_parameter() -> None:
    """A parameter that begins with an underscore is refused."""

    schema = {"type": "object", "properties": {"_a": {"type": "string"}}}
    theirs = lc.StructuredTool(name="f", description="F.", args_schema=schema, func=print)

    with pytest.raises(DefinitionError, match="begins with '_'"):
        from_langchain(theirs)


def test_cancelling() -> None:
    """A call that is cancelled there is cancelled here, on its thread; the next one with the same context runs."""
    started, ended = threading.Event(), threading.Event()

    @tool
    def wait(seconds: float, context: ToolContext[str]) -> str:
        """Wait."""
        started.set()
        end = time.monotonic() + seconds
        while time.monotonic() < end and not context.cancelled:
            time.sleep(0.01)
        if context.cancelled:
            ended.set()
        return "done"

    async def main() -> Any:
        (made,) = to_langchain([wait], context=CONTEXT)
        task = asyncio.create_task(made.ainvoke({"seconds": 60}))
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await made.ainvoke({"seconds": 0})

    assert asyncio.run(main()) == "done"
    assert ended.wait(10)


def test_deps() -> None:
    """A tool that takes deps is refused without them, as in a run; a tool's own rules are asked."""

    @tool(authorize=lambda made, values, context: context.deps == "Ann", max_result=300)
    def read(context: ToolContext[str]) -> str:
        """Read."""
        return context.deps * 1000

    with pytest.raises(TypeError, match=r"pass context=ToolContext\(deps=...\)"):
        to_langchain([read])
    assert len(to_langchain([read], context=CONTEXT)[0].invoke({})) <= 300
    assert "denied" in to_langchain([read], context=ToolContext(deps="Bob"))[0].invoke({})


def test_retriever() -> None:
    """A retriever of LangChain is a search."""
    document = load("langchain_core.documents").Document

    class Retriever(load("langchain_core.retrievers").BaseRetriever):  # type: ignore[misc]
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            return [document(page_content=f"About {query}.", metadata={"source": "a.md"})]

    found = retriever_tool(Retriever(), "docs").invoke({"query": "cats"}).text

    assert found == "[1] About cats.\n(source: a.md)"
