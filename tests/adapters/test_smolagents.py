"""smolagents: our tools for its agents, and its tools for a Runner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.adapters.adapted import BOX, CONTEXT, PUT, PUT_TEXT, add, dropped, load
from toolkit import DefinitionError, Runner, Tool, ToolResult, tool
from toolkit.adapters import from_smolagents, to_smolagents
from toolkit.approvers import approve_all
from toolkit.testing import ScriptedModel, call

smol = load("smolagents")
pytestmark = pytest.mark.filterwarnings("ignore")


def scripted(*replies: Any) -> Any:
    """Make a model that answers by a script: texts, or a tool's name and arguments."""
    models = load("smolagents.models")
    script = iter(replies)

    class Scripted(models.Model):  # type: ignore[name-defined, misc]
        def generate(self, messages: Any, **_: Any) -> Any:
            self.seen = messages
            given = next(script)
            if isinstance(given, str):
                return models.ChatMessage("assistant", given)
            function = models.ChatMessageToolCallFunction(arguments=given[1], name=given[0])
            return models.ChatMessage("assistant", "", [models.ChatMessageToolCall(function, "call_1", "function")])

    return Scripted()


def run(name: str, arguments: dict[str, Any], **options: Any) -> str:
    """Run an agent whose model calls one of our tools; return what it observes."""
    model = scripted((name, arguments), ("final_answer", {"answer": "Done."}))
    tools = to_smolagents(BOX, context=CONTEXT, **options)
    agent = smol.ToolCallingAgent(tools, model, verbosity_level=0)
    assert agent.run("Go.") == "Done."
    step = agent.memory.steps[1]
    return str(step.error or step.observations)


def test_inputs() -> None:
    """Name, description and inputs are ours; what they cannot say is in the description, as JSON Schema."""
    made = {each.name: each for each in to_smolagents(BOX)}

    assert made["add"].description == "Add two numbers."
    assert made["add"].inputs["a"] == {"type": "integer", "description": "The first."}
    assert made["add"].inputs["b"]["type"] == ["integer", "null"] and made["add"].inputs["b"]["nullable"]
    assert made["put"].inputs["place"]["type"] == "any" and "shelf" in made["put"].inputs["place"]["description"]
    sent = load("smolagents.models").get_tool_json_schema(made["put"])["function"]
    assert sent["parameters"]["required"] == ["place", "config"]


def test_call() -> None:
    """Arguments arrive, typed, with the context."""
    assert run("add", {"a": 2}) == "3"
    assert run("put", PUT) == PUT_TEXT


def test_code() -> None:
    """An agent that writes Python gets values, and passes arguments by position, too."""
    code = "<code>final_answer(add(1, b=2) + add(3))</code>"
    agent = smol.CodeAgent(to_smolagents([add]), scripted(code), verbosity_level=0)

    assert agent.run("Go.") == 7


def test_errors_are_text() -> None:
    """Wrong arguments and a tool's own errors are text for the model; other messages are not shown."""
    (made,) = to_smolagents([add])

    with pytest.raises(Exception, match="Invalid arguments:"):
        made("x")
    with pytest.raises(TypeError, match="at most 2"):
        made(1, 2, 3)
    assert "There is no such book." in run("fail", {"how": "tool"})
    assert "secret" not in run("fail", {"how": "other"})
    assert "secret" not in run("fail", {"how": "fatal"})


def test_approval() -> None:
    """Where nobody is asked, a call that requires approval is refused."""
    dropped.clear()

    assert "approv" in run("drop", {"name": "users"}) and not dropped
    assert run("drop", {"name": "users"}, approve=approve_all) == "users is gone"


def test_types() -> None:
    """Every schema of a parameter has a type that smolagents knows, and passes its check of arguments."""
    check = load("smolagents.tools").validate_tool_arguments
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    cases: dict[str, tuple[Any, Any]] = {
        "anything": ({}, 1),
        "number": ({"type": "number"}, 1),
        "maybe": ({"type": ["number", "null"]}, 1),
        "union": ({"anyOf": [{"type": "number"}, {"$ref": "#/$defs/Node"}]}, 1),
        "open": ({"anyOf": [{"type": "number"}, {}]}, "x"),
        "node": ({"$ref": "#/$defs/Node"}, {"next": {}}),
        "choice": ({"enum": ["a", "b"]}, "a"),
    }
    properties = {name: schema for name, (schema, _) in cases.items()}
    schema = {"type": "object", "properties": properties, "required": [*cases], "$defs": {"Node": node}}
    (made,) = to_smolagents([Tool.from_schema("take", schema, lambda **given: [*given])])
    values = {name: value for name, (_, value) in cases.items()}

    check(made, values)

    assert made(**values) == [*cases]


def test_name() -> None:
    """A name that Python cannot have is refused."""
    with pytest.raises(DefinitionError, match="'get-it': smolagents needs an identifier of Python"):
        to_smolagents([add.with_name("get-it")])


def test_text_only() -> None:
    """A result that has a text alone is that text."""

    @tool
    def say() -> ToolResult:
        """Say."""
        return ToolResult(text="hello")

    assert to_smolagents([say])[0]() == "hello"


def test_taken() -> None:
    """A tool of theirs is one of ours: name, description, schema, value."""

    @smol.tool  # type: ignore[untyped-decorator]
    def find(title: str, limit: int | None = None) -> str:
        """Find a book.

        Args:
            title: Its title.
            limit: At most so many.
        """
        return f"{title} {limit}"

    made = from_smolagents(find)

    assert (made.name, made.description) == ("find", "Find a book.")
    assert made.parameters["properties"]["title"] == {"type": "string", "description": "Its title."}
    assert made.parameters["required"] == ["title"]
    assert made.invoke({"title": "Emma"}).text == "Emma None"
    assert asyncio.run(made.ainvoke({"title": "Emma", "limit": None})).text == "Emma None"
    assert made.invoke({"title": 5}).kind == "invalid_arguments"
    with ScriptedModel([call("find", title="Emma", limit=2), "Found."]) as model:
        assert Runner([made], model=model).run("Find Emma.").calls[0].result.text == "Emma 2"


def test_taken_media() -> None:
    """A tool that takes an image is refused."""

    class Look(smol.Tool):  # type: ignore[name-defined, misc]
        name = "look"
        description = "Look at it."
        inputs = {"picture": {"type": "image", "description": "The picture."}}
        output_type = "string"

        def forward(self, picture: Any) -> str:
            return "nice"

    with pytest.raises(DefinitionError, match="no model can write 'picture'"):
        from_smolagents(Look())
