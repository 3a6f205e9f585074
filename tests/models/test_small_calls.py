"""The dialect of the embedded model, without the model: what it is shown, and what is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

import jsonschema  # type: ignore[import-untyped]
import pytest

from toolkit import Image, ModelError, Tool, Toolbox, ToolCall, tool
from toolkit.models import ModelRequest, ModelResponse, SystemMessage, ToolMessage, UserMessage
from toolkit.models.local.prompt import SmallCalls, call_schema


@tool
def paint(wall: str, colour: Literal["red", "blue"], coats: int = 2) -> str:
    """Paint a wall.

    Args:
        wall: Which wall.
    """
    return f"{wall} is {colour}"


QUESTION = UserMessage("Paint the north wall red.")
CALL = ToolCall(name="paint", arguments='{"wall": "north", "colour": "red"}', id="c")


def answered(text: str, *, is_error: bool = False) -> ModelRequest:
    """A request after the call has its result."""
    message = ToolMessage(call_id="c", name="paint", text=text, is_error=is_error)
    return ModelRequest(messages=(QUESTION, ModelResponse(calls=(CALL,)), message), tools=(paint._spec,))


def test_call_is_asked_for_with_a_worked_example() -> None:
    """Each tool has one worked example, made of its own schema, before the question."""
    body = SmallCalls().render_request(ModelRequest(messages=(QUESTION,), tools=(paint._spec,)))

    assert [
        {"role": "system", "content": "Answer each request with one JSON call of the right tool."},
        {"role": "user", "content": "Paint a wall: wall blue river, colour blue."},
        {"role": "assistant", "content": '{"calls": [{"_tool": "paint", "wall": "blue river", "colour": "blue"}]}'},
        {"role": "user", "content": "Paint the north wall red."},
    ] == body["messages"]


def test_instructions_reach_the_prompt() -> None:
    """The application's instructions follow the task."""
    messages = (SystemMessage("Be kind."), QUESTION)
    body = SmallCalls().render_request(ModelRequest(messages=messages, tools=(paint._spec,)))

    assert body["messages"][0]["content"].endswith("of the right tool. Be kind.")


def test_schema_allows_exactly_one_call() -> None:
    """The reply is one object with one call; words that restrict nothing are left out."""
    items = call_schema([paint._spec])["properties"]["calls"]

    assert (1, 1) == (items["minItems"], items["maxItems"])
    assert {
        "type": "object",
        "properties": {
            "_tool": {"type": "string", "const": "paint"},
            "wall": {"type": "string"},
            "colour": {"enum": ["red", "blue"], "type": "string"},
            "coats": {"type": "integer"},
        },
        "required": ["_tool", "wall", "colour"],
        "additionalProperties": False,
    } == items["items"]["anyOf"][0]


def test_sentence_puts_question_and_result_together() -> None:
    """The last turn is a fresh conversation without a grammar."""
    body = SmallCalls().render_request(answered("north is red"))

    assert "Question: Paint the north wall red.\nResult: north is red" == body["messages"][-1]["content"]
    assert "response_format" not in body


def test_pictures() -> None:
    """The model cannot see: what a result holds is left out, and what the user sends is refused."""
    picture = Image(b"PNG")
    request = answered("painted")
    drawn = replace(
        request, messages=(*request.messages, UserMessage("The images of the results above, in order.", (picture,)))
    )

    assert SmallCalls().render_request(request) == SmallCalls().render_request(drawn)
    assert SmallCalls().has_public_text(drawn)
    with pytest.raises(ModelError, match="The embedded model cannot see images and files"):
        SmallCalls().render_request(ModelRequest(messages=(UserMessage("What is it?", (picture,)),)))


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("no such wall", "no such wall."),
        ("Which wall?", "Which wall?"),
        ('not "north"\n\x00\tor \\', r"not \"north\" or \\."),
        ("é" * 1000, f"{'é' * 399}…"),
        (
            "paint failed: KeyError. Try other arguments or another tool, or report that this did not work.",
            "paint failed: KeyError.",
        ),
    ],
    ids=["text", "question", "escapes", "long", "remedy"],
)
def test_failure_is_stated(error: str, sentence: str) -> None:
    """The sentence about a call that failed can only be the text of its error."""
    body = SmallCalls().render_request(answered(error, is_error=True))

    assert f'root ::= "Sorry, that did not work: {sentence}"' == body["grammar"]


def test_conversation_without_tools_is_plain() -> None:
    """Without tools the messages go out as they are."""
    body = SmallCalls().render_request(ModelRequest(messages=(QUESTION,)))

    assert [{"role": "user", "content": "Paint the north wall red."}] == body["messages"]


def test_calls_are_no_text_for_people() -> None:
    """The reply with the call is not shown as it comes; the sentence is."""
    asking = ModelRequest(messages=(QUESTION,), tools=(paint._spec,))

    assert (False, True) == (SmallCalls().has_public_text(asking), SmallCalls().has_public_text(answered("done")))


def test_reply_is_read_as_a_call() -> None:
    """The one call of a reply becomes a call; what is no such object is an answer."""
    _, calls = SmallCalls().parse_reply('{"calls": [{"_tool": "paint", "wall": "north", "colour": "red"}]}', (), ())

    assert [("paint", '{"wall": "north", "colour": "red"}')] == [(call.name, call.arguments) for call in calls]
    assert ("It is red.", ()) == SmallCalls().parse_reply(" It is red. ", (), ())


# -- a call or an answer


@tool
def delete_book(title: str) -> str:
    """Delete a book from the library."""
    return title


@tool
def convert(amount: float, source: Literal["USD", "EUR"], target: Literal["USD", "EUR"]) -> str:
    """Convert an amount of money to another currency."""
    return "90 EUR"


@tool
def get_weather(city: str) -> str:
    """Get the current weather in a city."""
    return "sunny"


@tool
def send_email(to: str, subject: str, body: str) -> str:
    """Send an e-mail."""
    return "sent"


SMALL_TALK = [
    *("Hello, how are you?", "Hi!", "Thanks a lot!", "Good morning", "Who are you?", "What can you do?"),
    *("Tell me a joke.", "I am bored.", "Goodbye!", "Nice to meet you.", "How was your day?", "You are great."),
    *("What is the meaning of life?", "See you tomorrow.", "Hi there, how is it going?", "Who made you?"),
    *("Thank you, that was very helpful.", "Are you a robot?", "I don't know what to do.", "Good evening, my friend"),
]
TASKS = [
    *("Delete the book Dune.", "delete a book called dune", "Please remove Moby Dick from the library."),
    *("Get rid of Emma, please.", "Convert 100 USD to EUR.", "How many euros are 50 dollars?", "change 5 GBP into USD"),
    *("What is the weather in Paris?", "weather london", "Is it raining in Tokyo?", "How's the weather in Rome today?"),
    *("Hello! What is the weather in Bonn?", "Send an e-mail to ann@example.com.", "Mail ann@x.org that I am late."),
    *("Hi, send bob an email about the party", "convert all my money", "Hey, can you delete the book Dracula?"),
    *("What is the current weather?", "Thanks! Now delete 'Emma'.", "Is 5 much money?"),
]


@pytest.mark.parametrize("text", SMALL_TALK)
def test_small_talk_is_answered_without_a_call(text: str) -> None:
    """Small talk is answered in words, streamed as they come, whatever the tools are."""
    tools = tuple(each._spec for each in (delete_book, convert, get_weather, send_email))
    asking = ModelRequest(messages=(SystemMessage("Be kind."), UserMessage(text)), tools=tools)
    body = SmallCalls().render_request(asking)

    assert "response_format" not in body and SmallCalls().has_public_text(asking)
    assert (True, text) == (body["messages"][0]["content"].endswith("Be kind."), body["messages"][-1]["content"])


@pytest.mark.parametrize("text", TASKS)
def test_task_is_a_call(text: str) -> None:
    """A request with a word of a tool, or with what may be an argument, is answered by a call."""
    tools = tuple(each._spec for each in (delete_book, convert, get_weather, send_email))

    assert "response_format" in SmallCalls().render_request(ModelRequest(messages=(UserMessage(text),), tools=tools))


def test_required_call_is_made() -> None:
    """Where a call is required, small talk gets one too."""
    asking = ModelRequest(messages=(UserMessage("Hi!"),), tools=(paint._spec,), choice="required")

    assert "response_format" in SmallCalls().render_request(asking)


# -- tools without a function

MOOD: dict[str, Any] = {
    "type": "object",
    "description": "Analyzes text sentiment",
    "properties": {
        "_tool": {"const": "mood"},
        "text": {"type": "string"},
        "_reasoningForCall": {"type": "string"},
        "_output": {"type": "object", "properties": {"mood": {"type": "string"}, "sure": {"type": "number"}}},
    },
}


def example(made: Tool[..., Any]) -> tuple[str, Any]:
    """The worked example of a tool: its request, its call."""
    asking = ModelRequest(messages=(QUESTION,), tools=(made._spec,), choice="required")
    _, request, answer, _ = SmallCalls().render_request(asking)["messages"]
    return request["content"], json.loads(answer["content"])["calls"][0]


def test_example_of_a_latent_tool() -> None:
    """The example has a whole output beside the arguments; the request names only the arguments."""
    request, call = example(Tool.from_schema("mood", MOOD))

    assert "Analyzes text sentiment: text blue river." == request
    assert {"_tool": "mood", "_activity": "", "text": "blue river", "_output": {"mood": "Anna", "sure": 2.5}} == call


def test_example_of_a_bound_tool() -> None:
    """Once a function executes the tool, the example has its name and no output; the request stays."""
    box = Toolbox([Tool.from_schema("mood", MOOD)])
    box.bind("mood", lambda text: text)
    request, call = example(box["mood"])

    assert "Analyzes text sentiment: text blue river." == request
    assert {"_tool": "mood", "_activity": "mood", "text": "blue river"} == call


OUTPUTS: dict[str, tuple[dict[str, Any], Any]] = {
    "text": ({"type": "string"}, "Anna"),
    "choice": ({"enum": ["a", "b"]}, "b"),
    "bounds": ({"type": "number", "minimum": 0, "maximum": 1}, 1),
    "list": ({"type": "array", "items": {"type": "integer"}}, [8]),
    "what is required": (
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["b"]},
        {"b": "Anna"},
    ),
    "objects inside": (
        {"type": "object", "properties": {"in": {"type": "object", "properties": {"a": {"type": "boolean"}}}}},
        {"in": {"a": False}},
    ),
    "definitions": ({"$ref": "#/$defs/size"}, {"width": 8}),
    "one that contains itself": (
        {"type": "object", "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/properties/_output"}}},
        {"n": 8, "next": {"n": 40, "next": {"n": 6, "next": {"n": 15, "next": {}}}}},
    ),
}


@pytest.mark.parametrize(("output", "expected"), OUTPUTS.values(), ids=OUTPUTS)
def test_sample_of_an_output(output: dict[str, Any], expected: Any) -> None:
    """A sample of an output has all that it needs inside, and is one that the grammar lets through."""
    size = {"type": "object", "properties": {"width": {"type": "integer"}}, "required": ["width"]}
    made = Tool.from_schema("t", {"properties": {"_output": output}, "$defs": {"size": size}})
    _, call = example(made)
    jsonschema.validate({"calls": [call]}, call_schema([made._spec]))

    assert expected == call["_output"]


def test_example_of_a_function_with_objects() -> None:
    """Objects that a plain function takes stay empty in its example."""

    def move(to: dict[str, int], pace: Literal["slow"] = "slow") -> None:
        """Move."""

    assert ("Move: to {}.", {"_tool": "move", "to": {}}) == example(tool(move))
