"""A scripted model says what its script says, keeps what it was asked, and notices when the two do not fit."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.threads import together
from toolkit import ModelError, Runner, ToolCall, Usage
from toolkit.events import ReasoningDelta, TextDelta
from toolkit.models import Model, ModelRequest, ModelResponse, UserMessage
from toolkit.testing import ScriptedModel, ScriptError, call

ASKED = ModelRequest(messages=(UserMessage("x"),), memo=[{"role": "user"}])
PING = ToolCall(name="ping")
SAID = ModelResponse(text="Hi.", finish_reason="length", usage=Usage(1, 2, 3), model="other")


def completed(model: ScriptedModel) -> ModelResponse:
    return asyncio.run(model.complete(ASKED))


def streamed(model: ScriptedModel) -> list[Any]:
    async def draw() -> list[Any]:
        return [piece async for piece in model.stream(ASKED)]

    return asyncio.run(draw())


def response(text: str = "", *calls: ToolCall, reason: str = "stop") -> ModelResponse:
    return ModelResponse(text=text, calls=calls, finish_reason=reason, usage=Usage(requests=1), model="scripted")


def test_is_a_model() -> None:
    """A scripted model is a model by the library's own protocol."""
    assert isinstance(ScriptedModel([]), Model)


def test_threads_share_a_script() -> None:
    """Runs on several threads get each reply once."""
    model = ScriptedModel([str(number) for number in range(20_000)])

    async def draw() -> list[str]:
        return [(await model.complete(ASKED)).text for _ in range(5_000)]

    drawn = together(*[lambda: asyncio.run(draw())] * 4)

    assert [str(number) for number in range(20_000)] == sorted(sum(drawn, []), key=int)
    model.check()


@pytest.mark.parametrize(
    ("scripted", "expected"),
    [
        ("Hi.", response("Hi.")),
        (PING, response("", PING, reason="tool_calls")),
        ([PING, PING], response("", PING, PING, reason="tool_calls")),
        ((PING,), response("", PING, reason="tool_calls")),
        (SAID, SAID),
        (lambda request: request.messages[0].text, response("x")),
        (lambda request: lambda request: [PING], response("", PING, reason="tool_calls")),
    ],
    ids=["text", "call", "calls", "tuple", "response", "function", "function of a function"],
)
def test_reply(scripted: Any, expected: ModelResponse) -> None:
    """Each kind of reply becomes a response."""
    assert expected == completed(ScriptedModel([scripted]))


def test_function_for_a_script() -> None:
    """A function in place of a script is asked every time, without end."""
    model = ScriptedModel(lambda request: str(len(model.requests)))

    assert ["1", "2", "3"] == [completed(model).text for _ in range(3)]


@pytest.mark.parametrize("error", [ModelError("down"), KeyboardInterrupt()], ids=repr)
def test_exception(error: BaseException) -> None:
    """An exception in a script is raised."""
    with pytest.raises(type(error)):
        completed(ScriptedModel([error]))


def test_requests() -> None:
    """The model keeps what it was asked, without the memory that a run keeps for its own model."""
    model = ScriptedModel(["Hi."])
    completed(model)

    assert ([ModelRequest(messages=(UserMessage("x"),))], []) == (model.requests, model.requests[0].memo)


def test_call() -> None:
    """Calls for a script are written with Python's values; even `name` may be an argument."""
    assert ToolCall(name="say", arguments='{"name": "ö", "n": [1, null]}') == call("say", name="ö", n=[1, None])


def test_call_says_something_about_itself() -> None:
    """Meta fields of a call become its fields, as those of a real model do; its output stays an argument."""
    made = call("say", n=1, _reasoningForCall="why", _outputPath="p", _instance="i", _imports=["a"], _output=2)

    assert made == ToolCall(
        name="say",
        arguments='{"n": 1, "_output": 2}',
        reasoning="why",
        output_path="p",
        instance="i",
        imports=("a",),
    )


def test_stream() -> None:
    """A stream gives the text word by word, then the response."""
    assert [TextDelta("the"), TextDelta(" cat"), TextDelta(" the"), response("the cat the")] == streamed(
        ScriptedModel(["the cat the"])
    )


@given(st.text(" ab\n", max_size=12))
def test_words_of_a_stream(text: str) -> None:
    """The words of a stream make up its text, whatever spaces are in it, and none is empty."""
    words = [piece.text for piece in streamed(ScriptedModel([text])) if isinstance(piece, TextDelta)]

    assert (text, True) == ("".join(words), all(words))


def test_stream_of_calls() -> None:
    """A stream without text is the response alone."""
    assert [response("", PING, reason="tool_calls")] == streamed(ScriptedModel([PING]))


def test_script_that_is_too_short() -> None:
    """One request more than there are replies is an error that shows what was asked."""
    model = ScriptedModel(["Hi."])
    completed(model)
    with pytest.raises(ScriptError, match=r"left \(1 used\), and there is one more request: UserMessage\(text='x'"):
        completed(model)


@pytest.mark.parametrize("wrong", [5, {"role": "assistant"}, [5], ["a", "b"], ValueError])
def test_reply_that_is_none(wrong: Any) -> None:
    """What is no reply is refused with the list of what is one."""
    with pytest.raises(ScriptError, match="A reply is text, calls such as"):
        completed(ScriptedModel([wrong]))


def test_call_of_a_tool() -> None:
    """A call takes the name of a tool, not the tool."""
    with pytest.raises(TypeError, match="takes a tool's name"):
        call(len)  # type: ignore[arg-type]


def test_call_with_an_unnamed_argument() -> None:
    """Arguments of a call have names, as a model gives them."""
    with pytest.raises(TypeError, match=r"takes arguments by name, such as call\('add', a=1\), not 5"):
        call("add", 5)  # type: ignore[arg-type]


def test_model_as_a_client() -> None:
    """A model in place of a client, and a class in place of a model, are refused with what to write."""
    with pytest.raises(TypeError, match="is not a client .* write .* for a Model, model="):
        Runner(client=ScriptedModel(["Hi."]))
    with pytest.raises(TypeError, match="neither a model's name nor a Model"):
        Runner(model=ScriptedModel)  # type: ignore[arg-type]


def test_script_that_is_too_long() -> None:
    """Leaving the with block with replies left over is an error that shows them."""
    with (
        pytest.raises(ScriptError, match=r"has unused replies: \['b', 'c'\]"),
        ScriptedModel(["a", "b", "c"]) as model,
    ):
        completed(model)


def test_check_of_a_used_script() -> None:
    """A script that was used up, or is a function, has nothing left."""
    model = ScriptedModel(["Hi."])
    completed(model)
    model.check()
    ScriptedModel(lambda _: "Hi.").check()

    assert 1 == len(model.requests)


def test_other_errors_come_first() -> None:
    """An exception that leaves the with block is not hidden by the replies left over."""
    with pytest.raises(KeyError, match="mine"), ScriptedModel(["a"]):
        raise KeyError("mine")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_in_a_run(is_async: bool) -> None:
    """A scripted model serves a sync run, be it a sync or an async one itself."""
    assert "Hi." == Runner(model=ScriptedModel(["Hi."], name="me", is_async=is_async)).run("x").output


def test_streamed_reasoning() -> None:
    """The reasoning of a scripted response comes before its text."""
    thought = SAID.replace(reasoning="Why.")

    assert [ReasoningDelta("Why."), TextDelta("Hi."), thought] == streamed(ScriptedModel([thought]))
