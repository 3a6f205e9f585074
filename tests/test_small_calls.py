"""The dialect of the embedded model, without the model: what it is shown, and what is read."""

from __future__ import annotations

from typing import Literal

from toolkit import ToolCall, tool
from toolkit.local.prompt import SmallCalls, call_schema
from toolkit.messages import ModelRequest, ModelResponse, SystemMessage, ToolMessage, UserMessage


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
    told = ToolMessage(call_id="c", name="paint", text=text, is_error=is_error)
    return ModelRequest(messages=(QUESTION, ModelResponse(calls=(CALL,)), told), tools=(paint.spec,))


def test_call_is_asked_for_with_a_worked_example() -> None:
    """Each tool has one worked example, made of its own schema, before the question."""
    body = SmallCalls().body(ModelRequest(messages=(QUESTION,), tools=(paint.spec,)))

    assert [
        {"role": "system", "content": "Answer each request with one JSON call of the right tool."},
        {"role": "user", "content": "Paint a wall: wall blue river, colour blue."},
        {"role": "assistant", "content": '{"calls": [{"_tool": "paint", "wall": "blue river", "colour": "blue"}]}'},
        {"role": "user", "content": "Paint the north wall red."},
    ] == body["messages"]


def test_instructions_reach_the_prompt() -> None:
    """The application's instructions stand behind the task."""
    messages = (SystemMessage("Be kind."), QUESTION)
    body = SmallCalls().body(ModelRequest(messages=messages, tools=(paint.spec,)))

    assert body["messages"][0]["content"].endswith("of the right tool. Be kind.")


def test_schema_allows_exactly_one_call() -> None:
    """The reply is one object with one call; words that restrict nothing are left out."""
    items = call_schema([paint.spec])["properties"]["calls"]

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
    body = SmallCalls().body(answered("north is red"))

    assert "Question: Paint the north wall red.\nResult: north is red" == body["messages"][-1]["content"]
    assert "response_format" not in body


def test_failure_is_asked_for_as_a_failure() -> None:
    """A call that failed is told of by other examples, which say that it did not work."""
    messages = SmallCalls().body(answered("no such wall", is_error=True))["messages"]

    assert "Question: Paint the north wall red.\nError: no such wall" == messages[-1]["content"]
    assert "Sorry, that did not work: the tool failed." == messages[-2]["content"]


def test_conversation_without_tools_is_plain() -> None:
    """Without tools the messages go out as they are."""
    body = SmallCalls().body(ModelRequest(messages=(QUESTION,)))

    assert [{"role": "user", "content": "Paint the north wall red."}] == body["messages"]


def test_calls_are_no_text_for_people() -> None:
    """The reply with the call is not shown as it comes; the sentence is."""
    asking = ModelRequest(messages=(QUESTION,), tools=(paint.spec,))

    assert (False, True) == (SmallCalls().shows_text(asking), SmallCalls().shows_text(answered("done")))


def test_reply_is_read_as_a_call() -> None:
    """The one call of a reply becomes a call; what is no such object is an answer."""
    _, calls = SmallCalls().read('{"calls": [{"_tool": "paint", "wall": "north", "colour": "red"}]}', (), ())

    assert [("paint", '{"wall": "north", "colour": "red"}')] == [(call.name, call.arguments) for call in calls]
    assert ("It is red.", ()) == SmallCalls().read(" It is red. ", (), ())
