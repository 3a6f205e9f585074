"""openai-agents: our tools for its agents, and its tools for a Runner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.adapters.adapted import BOX, CONTEXT, PIXEL, PUT, PUT_TEXT, add, dropped, load
from tests.servers import FakeServer
from toolkit import DefinitionError, Runner, ToolContext
from toolkit.adapters import from_openai_agents, to_openai_agents
from toolkit.approvers import approve_all
from toolkit.testing import ScriptedModel, call, reply

agents = load("agents")
pytestmark = pytest.mark.filterwarnings("ignore")


def run(name: str, arguments: Any, **options: Any) -> Any:
    """Run an agent whose model calls one of our tools; return the output that the model is sent."""
    import openai

    async def start() -> Any:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="test") as client:
            model = agents.OpenAIResponsesModel("fake-model", client)
            agent = agents.Agent("A", tools=to_openai_agents(BOX, context=CONTEXT, **options), model=model)
            return await agents.Runner.run(agent, "Go.", run_config=agents.RunConfig(tracing_disabled=True))

    with FakeServer([reply.calls((name, arguments)), reply.text("Done.")]) as server:
        assert asyncio.run(start()).final_output == "Done."
        item = next(item for item in server.requests[-1].body["input"] if item.get("type") == "function_call_output")
        return item["output"]


def test_schema() -> None:
    """Name, description and schema are ours."""
    made = to_openai_agents(BOX)

    assert [each.name for each in made] == [*BOX.names]
    assert (made[0].description, made[0].params_json_schema) == ("Add two numbers.", add.parameters)


def test_call() -> None:
    """The server takes the tools, arguments arrive with the context, and the text goes back."""
    assert run("add", {"a": 2}) == "3"
    assert run("put", PUT) == PUT_TEXT


def test_errors_are_text() -> None:
    """Wrong arguments and a tool's own errors are text for the model; other messages are not shown."""
    assert run("add", {"a": "x"}).startswith("Invalid arguments:")
    assert asyncio.run(to_openai_agents([add])[0].on_invoke_tool(None, '{"a": 1')).startswith("Invalid arguments:")
    assert run("fail", {"how": "tool"}) == "There is no such book."
    assert "secret" not in run("fail", {"how": "other"})


def test_fatal() -> None:
    """A fatal error ends the run of the agent."""
    with pytest.raises(Exception, match="secret of the application"):
        run("fail", {"how": "fatal"})


def test_approval() -> None:
    """Where nobody is asked, a call that requires approval is refused."""
    dropped.clear()

    assert "approv" in run("drop", {"name": "users"}) and not dropped
    assert run("drop", {"name": "users"}, approve=approve_all) == "users is gone"


def test_images() -> None:
    """Images go to the model."""
    assert run("draw", {})[1]["image_url"].startswith("data:image/png;base64,")


def test_taken() -> None:
    """A tool of theirs is one of ours, and its context is our deps."""

    def find(context: Any, title: str, limit: int = 5) -> str:
        """Find a book.

        Args:
            title: Its title.
        """
        return f"{title} {limit} {context.context}"

    find.__annotations__["context"] = agents.RunContextWrapper[Any]
    made = from_openai_agents(agents.function_tool(find))

    assert (made.name, made.description) == ("find", "Find a book.")
    assert made.parameters["properties"]["title"]["description"] == "Its title."
    assert made.invoke({"title": "Emma", "limit": 1}, ToolContext(deps="Ann")).text == "Emma 1 Ann"
    assert made.invoke({"title": 5, "limit": 1}).kind == "invalid_arguments"
    with ScriptedModel([call("find", title="Emma", limit=2), "Found."]) as model:
        assert Runner([made], model=model).run("Find Emma.", deps="Ann").calls[0].result.text == "Emma 2 Ann"


def test_taken_outputs() -> None:
    """Structured outputs become text and images."""
    (draw,) = [made for made in to_openai_agents(BOX) if made.name == "draw"]

    result = asyncio.run(from_openai_agents(draw).ainvoke({}))

    assert result.images == (PIXEL,)


def test_gates_are_kept() -> None:
    """What needs approval there needs it here; what only their agents evaluate is refused."""

    def make(**options: Any) -> Any:
        return agents.function_tool(name_override="drop", **options)(gone)

    def gone() -> str:
        """Drop."""
        return "gone"

    async def ask(*_: Any) -> bool:
        return False

    for rule in (True, ask):
        assert from_openai_agents(make(needs_approval=rule)).settings.approve is True
        with pytest.raises(DefinitionError, match="approve=False would waive it"):
            from_openai_agents(make(needs_approval=rule), approve=False)
    with pytest.raises(DefinitionError, match="evaluates its is_enabled"):
        from_openai_agents(make(is_enabled=lambda *_: True))
    guarded = make()
    guarded.tool_input_guardrails = [object()]
    with pytest.raises(DefinitionError, match="evaluates its tool_input_guardrails"):
        from_openai_agents(guarded)
    assert from_openai_agents(make()).settings.approve is False
