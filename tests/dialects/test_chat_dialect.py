"""Messages in OpenAI's form: what goes out is always acceptable, what comes in is read whole or refused."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage

from toolkit import Image, OpenAIModel, Session, ToolCall
from toolkit.models import Message, ModelRequest, ModelResponse, SystemMessage, ToolMessage, UserMessage

PIXEL = Image(b"\x89PNG", "image/png")
URL = "data:image/png;base64,iVBORw=="


def write(*messages: Message, **more: Any) -> list[dict[str, Any]]:
    """What a client is given of messages."""
    bodies: list[dict[str, Any]] = []

    def create(**body: Any) -> Any:
        bodies.append(body)
        return {"choices": [{"message": {"content": "Hi."}}]}

    client: Any = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    asyncio.run(OpenAIModel(client, "m").complete(ModelRequest(messages=messages, **more)))
    written: list[dict[str, Any]] = bodies[0]["messages"]
    return written


def read(messages: Any) -> list[Message]:
    """What a session is given."""
    session = Session()
    session.extend(messages)
    return list(session.messages)


def answer(*calls: ToolCall, **more: Any) -> ModelResponse:
    return ModelResponse(calls=calls, **more)


def wired(arguments: str = "{}", name: str = "add", provider_call_id: str = "w") -> dict[str, Any]:
    return {"id": provider_call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


# Ours, and the same on the wire.
PAIRS: dict[str, tuple[Message, dict[str, Any]]] = {
    "system": (SystemMessage("Be brief."), {"role": "system", "content": "Be brief."}),
    "user": (UserMessage("Hi"), {"role": "user", "content": "Hi"}),
    "picture": (
        UserMessage("Look", (PIXEL,)),
        {
            "role": "user",
            "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": URL}}],
        },
    ),
    "picture alone": (
        UserMessage("", (PIXEL,)),
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}]},
    ),
    "answer": (answer(text="Hi"), {"role": "assistant", "content": "Hi"}),
    "empty answer": (answer(), {"role": "assistant", "content": ""}),
    "calls": (
        answer(ToolCall(name="add", id="w", provider_call_id="w", arguments='{"a": 1}')),
        {"role": "assistant", "content": None, "tool_calls": [wired('{"a": 1}')]},
    ),
    "words, thoughts and calls": (
        answer(
            ToolCall(name="add", id="w", provider_call_id="w"),
            text="Hm",
            reasoning="Ah",
            reasoning_key="reasoning_content",
        ),
        {"role": "assistant", "content": "Hm", "reasoning_content": "Ah", "tool_calls": [wired()]},
    ),
    "result": (
        ToolMessage(call_id="w", provider_call_id="w", name="", text="3"),
        {"role": "tool", "tool_call_id": "w", "content": "3"},
    ),
}


@pytest.mark.parametrize(("message", "wire"), PAIRS.values(), ids=PAIRS)
def test_encoded(message: Message, wire: dict[str, Any]) -> None:
    """Every kind of message has its form on the wire."""
    assert [wire] == write(message)


def test_white_space_before_calls() -> None:
    """White space that a model writes before its calls is not sent back: Anthropic refuses a text of white space."""
    message = answer(ToolCall(name="add", id="w", provider_call_id="w"), text="\n\n")

    assert [{"role": "assistant", "content": None, "tool_calls": [wired()]}] == write(message)


def test_result_without_an_id_of_the_provider() -> None:
    """A result has the id of its call, if the provider gave none."""
    assert "i" == write(ToolMessage(call_id="i", name="add", text="3"))[0]["tool_call_id"]


@pytest.mark.parametrize(("message", "wire"), PAIRS.values(), ids=PAIRS)
def test_decoded(message: Message, wire: dict[str, Any]) -> None:
    """What was written is read back."""
    assert [message] == read([wire])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (ToolCall(name="add", id="i"), wired(provider_call_id="i")),
        (ToolCall(name="add", provider_call_id="w", arguments="{'a'"), wired()),
        (ToolCall(name="add", provider_call_id="w", arguments="[1]"), wired()),
        (ToolCall(name="add", provider_call_id="w", arguments=""), wired()),
        (ToolCall(name="add", provider_call_id="w", arguments='{"a": NaN}'), wired()),
        (ToolCall(name="add", provider_call_id="w", arguments='{"a": "\ud83d"}'), wired('{"a": "\ufffd"}')),
        (ToolCall(name="", provider_call_id="w"), wired(name="unknown")),
        (ToolCall(name="__", provider_call_id="w"), wired(name="__")),
        (ToolCall(name="a.b c", provider_call_id="w"), wired(name="a_b_c")),
        (ToolCall(name="\u4f60\u597d", provider_call_id="w"), wired(name="unknown")),
        (ToolCall(name="x" * 99, provider_call_id="w"), wired(name="x" * 64)),
    ],
    ids=["own id", "broken", "a list", "blank", "NaN", "half a character", "no name", "underscores", "illegal",
         "no letter", "too long"],
)  # fmt: skip
def test_calls_that_no_server_takes(call: ToolCall, expected: dict[str, Any]) -> None:
    """A call is written so that a server accepts it, whatever the model wrote."""
    assert [expected] == write(answer(call))[0]["tool_calls"]


@pytest.mark.parametrize(
    "message",
    [
        SystemMessage("\ud83d"),
        UserMessage("\ud83d"),
        UserMessage("\ud83d", (PIXEL,)),
        answer(text="\ud83d", reasoning="\ud83d"),
        ToolMessage(call_id="i", name="n", text="\ud83d"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_half_a_character(message: Message) -> None:
    """Half a character, which no UTF-8 can carry, is replaced."""
    assert "\ufffd" in json.dumps(write(message), ensure_ascii=False).encode().decode()


def test_what_is_no_message() -> None:
    """Only messages are written."""
    with pytest.raises(TypeError, match="5 is not a message"):
        write(5)  # type: ignore[arg-type]


def test_each_message_is_written_once() -> None:
    """A message keeps its wire form through a run, and an earlier request does not change as the run goes on."""
    memo: list[dict[str, Any]] = []
    first, second = write(UserMessage("a"), memo=memo), write(UserMessage("a"), UserMessage("b"), memo=memo)

    assert (1, 2, True) == (len(first), len(second), first[0] is second[0])


def test_own_messages_stay() -> None:
    """Messages of this library are taken as they are."""
    messages: list[Message] = [UserMessage("x"), ToolMessage(call_id="i", name="n", text="t")]

    assert messages == read(messages)


def test_answer_of_the_openai_package() -> None:
    """An answer of the openai package may stand in a history as it is."""
    answered = ChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [wired()]})

    assert [answer(ToolCall(name="add", id="w", provider_call_id="w"))] == read([answered])


def test_developer() -> None:
    """A developer's message is a system message."""
    assert [SystemMessage("Be brief.")] == read([{"role": "developer", "content": "Be brief."}])


def test_results_are_named() -> None:
    """A result has the name of the call that it answers."""
    history: list[dict[str, Any]] = [{"role": "assistant", "tool_calls": [wired()]}]
    history += [{"role": "tool", "tool_call_id": "w", "content": "3"}]

    assert ToolMessage(call_id="w", provider_call_id="w", name="add", text="3") == read(history)[1]


@pytest.mark.parametrize("name", [["add"], {"a": 1}, 5], ids=str)
def test_name_that_is_no_text(name: Any) -> None:
    """A result without a usable name has that of its call; reasoning that is no text is left out."""
    history = [{"role": "assistant", "tool_calls": [wired()], "reasoning": name}]
    history += [{"role": "tool", "tool_call_id": "w", "name": name, "content": "3"}]
    made, result = read(history)

    assert ("", "add") == (made.reasoning, result.name)  # type: ignore[union-attr]


@pytest.mark.parametrize("arguments", [None, "", {}], ids=str)
def test_call_without_arguments(arguments: Any) -> None:
    """A call without arguments has none."""
    function = {"name": "add", **({} if arguments is None else {"arguments": arguments})}
    (made,) = read([{"role": "assistant", "tool_calls": [{"id": "w", "function": function}]}])

    assert isinstance(made, ModelResponse)
    assert made.calls[0].arguments in ("", "{}")


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"content": "x"}, "one of system, developer, user, assistant, tool, function; this one has None"),
        ({"role": "robot"}, "this one has 'robot'"),
        ({"type": "function_call_output"}, "of Chat Completions .* has None: .*function_call_output"),
        ({"role": "assistant", "tool_calls": [{"id": "w"}]}, "A tool call needs a function with a name"),
        ({"role": "assistant", "tool_calls": 5}, "not a message in OpenAI's form"),
        ({"role": "user", "content": [5]}, "not a message in OpenAI's form"),
        ({"role": ["user"]}, r"this one has \['user'\]"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}, "as data URLs"),
        ({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}, "this is neither: .*input_audio"),
        (
            {"role": "assistant", "audio": {"id": "audio_1"}},
            "represented by its transcript; this one has none: .*audio_1",
        ),
    ],
    ids=[
        "no role",
        "unknown role",
        "item of Responses",
        "no function",
        "calls that are none",
        "part that is none",
        "role that is none",
        "picture elsewhere",
        "sound",
        "answer in audio",
    ],  # fmt: skip
)
def test_history_that_cannot_be_read(message: dict[str, Any], error: str) -> None:
    """A message that would not be read whole is refused, and the error says what it lacks."""
    with pytest.raises(ValueError, match=error):
        read([message])


@pytest.mark.parametrize("messages", ["hello", [5], [None]], ids=str)
def test_history_of_something_else(messages: Any) -> None:
    """What is no message at all is refused by name."""
    with pytest.raises(
        TypeError, match="messages= takes a list of messages|is not a message: pass those of another result"
    ):
        read(messages)
