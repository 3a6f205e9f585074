"""A broken history becomes one that every server accepts, and notes say what was done."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from tests.servers import FakeServer
from toolkit import Runner, ToolCall, repair_history
from toolkit.models import Message, ModelResponse, SystemMessage, ToolMessage, UserMessage
from toolkit.testing import ScriptedModel, reply

USER = UserMessage("Go on.")
LOST_TEXT = "No result of this call is known: it may have been executed, or not. Find out before you make it again."


def response(*ids: str, arguments: str = "{}") -> ModelResponse:
    """An answer of the model with calls of these ids."""
    calls = (ToolCall(name="add", arguments=arguments, id=one, provider_call_id=one) for one in ids)
    return ModelResponse(calls=tuple(calls))


def tool_result(one: str, text: str = "3") -> ToolMessage:
    """The result of a call."""
    return ToolMessage(call_id=one, provider_call_id=one, name="add", text=text)


def lost(one: str) -> ToolMessage:
    """What stands for a result that nobody has."""
    return ToolMessage(call_id=one, provider_call_id=one, name="add", text=LOST_TEXT, is_error=True)


WHOLE: dict[str, list[Message]] = {
    "nothing": [],
    "no calls": [SystemMessage("Be short."), USER, ModelResponse(text="Yes.")],
    "one call": [USER, response("a"), tool_result("a"), ModelResponse(text="Yes.")],
    "two calls": [USER, response("a", "b"), tool_result("a"), tool_result("b")],
    "two answers": [USER, response("a"), tool_result("a"), response("b"), tool_result("b"), USER],
}


@pytest.mark.parametrize("messages", WHOLE.values(), ids=WHOLE)
def test_whole(messages: list[Message]) -> None:
    """A history that needs no repair stays as it is, and there is no note."""
    assert (messages, ()) == repair_history(messages)


ELSEWHERE = "Results that were elsewhere were moved to their calls, in call order."
BROKEN: dict[str, tuple[list[Message], list[Message], tuple[str, ...]]] = {
    "no result": (
        [USER, response("a"), USER],
        [USER, response("a"), lost("a"), USER],
        ("The call 'a' had no result; it got an error.",),
    ),
    "one of two results": (
        [USER, response("a", "b"), tool_result("b")],
        [USER, response("a", "b"), lost("a"), tool_result("b")],
        ("The call 'a' had no result; it got an error.",),
    ),
    "no call": ([tool_result("a"), USER], [USER], ("A result of 'a' was left out: there is no call for it.",)),
    "two results": (
        [response("a"), tool_result("a", "1"), tool_result("a", "2")],
        [response("a"), tool_result("a", "1")],
        ("A result of 'a' was left out: there is no call for it.",),
    ),
    "results the other way round": (
        [response("a", "b"), tool_result("b"), tool_result("a")],
        [response("a", "b"), tool_result("a"), tool_result("b")],
        (ELSEWHERE,),
    ),
    "result behind another message": (
        [response("a"), USER, tool_result("a")],
        [response("a"), tool_result("a"), USER],
        (ELSEWHERE,),
    ),
    "result before its call": (
        [USER, tool_result("a"), response("a")],
        [USER, response("a"), tool_result("a")],
        (ELSEWHERE,),
    ),
    "arguments that are not JSON": (
        [response("a", arguments='{"a": '), tool_result("a")],
        [response("a"), tool_result("a")],
        ("The arguments of the call 'a' were not a JSON object; they are {} now.",),
    ),
    "arguments that are not an object": (
        [response("a", arguments="[1]"), tool_result("a")],
        [response("a"), tool_result("a")],
        ("The arguments of the call 'a' were not a JSON object; they are {} now.",),
    ),
    "one id in two answers": (
        [response("a"), tool_result("a", "1"), response("a"), tool_result("a", "2")],
        [response("a"), tool_result("a", "1"), response("a_2"), tool_result("a_2", "2")],
        ("The call 'a' had no id of its own; it is 'a_2' now.",),
    ),
    "one id in one answer": (
        [response("a", "a", "a_2"), tool_result("a", "1"), tool_result("a", "2"), tool_result("a_2", "3")],
        [response("a", "a_3", "a_2"), tool_result("a", "1"), tool_result("a_3", "2"), tool_result("a_2", "3")],
        ("The call 'a' had no id of its own; it is 'a_3' now.",),
    ),
    "no id": (
        [response(""), tool_result("")],
        [response("call_2"), tool_result("call_2")],
        ("The call '' had no id of its own; it is 'call_2' now.",),
    ),
    "half a character as id": (
        [response("\ud800"), tool_result("\ud800")],
        [response("\ufffd_2"), tool_result("\ufffd_2")],
        ("The call '\\ud800' had no id of its own; it is '\ufffd_2' now.",),
    ),
}


@pytest.mark.parametrize(("messages", "whole", "notes"), BROKEN.values(), ids=BROKEN)
def test_broken(messages: list[Message], whole: list[Message], notes: tuple[str, ...]) -> None:
    """What is missing is put in, what is too much is left out, and each step has a note."""
    assert (whole, notes) == repair_history(messages)


def test_own_ids() -> None:
    """A result that knows its call by our id alone is found, and gets the provider's."""
    call = ToolCall(name="add", id="ours", provider_call_id="theirs")
    result = ToolMessage(call_id="ours", name="", text="3")

    made, notes = repair_history([ModelResponse(calls=(call,)), result])
    assert (ToolMessage(call_id="ours", provider_call_id="theirs", name="add", text="3"), ()) == (made[1], notes)


def test_foreign_ids() -> None:
    """A result that has another id of ours gets that of its call."""
    result = ToolMessage(call_id="other", provider_call_id="a", name="add", text="3")

    assert ([response("a"), tool_result("a")], ()) == repair_history([response("a"), result])


def test_wire_arguments() -> None:
    """What the model wrote itself goes to the server, so it is what has to be JSON."""
    call = ToolCall(name="add", id="a", arguments='{"a": 1}', wire_arguments="{")

    made, _ = repair_history([ModelResponse(calls=(call,)), ToolMessage(call_id="a", name="add", text="3")])
    assert ModelResponse(calls=(ToolCall(name="add", id="a"),)) == made[0]


def test_arguments_that_were_encoded_twice() -> None:
    """Arguments that some models send as a text of JSON, and that have run, are kept as the object in it."""
    call = ToolCall(name="add", id="a", arguments=json.dumps('{"a": 1}'))

    made, notes = repair_history([ModelResponse(calls=(call,)), ToolMessage(call_id="a", name="add", text="3")])
    assert (ModelResponse(calls=(ToolCall(name="add", id="a", arguments='{"a": 1}'),)), ()) == (made[0], notes)


def test_pure() -> None:
    """The history that was given stays as it was."""
    given_messages: list[Message] = [tool_result("a"), response("b")]

    repair_history(given_messages)
    assert [tool_result("a"), response("b")] == given_messages


def test_long() -> None:
    """A history of 20,000 messages whose calls all have one id is repaired without a wait."""
    pairs: list[Message] = [message for _ in range(10_000) for message in (response("a"), tool_result("a"))]

    made, notes = repair_history(pairs)
    assert (20_000, 9_999) == (len(made), len(notes))


def wired(**call: Any) -> dict[str, Any]:
    """An answer with one call, in OpenAI's form."""
    return {"role": "assistant", "content": None, "tool_calls": [call]}


ADD = {"name": "add", "arguments": "{}"}
RENAMED = "The call '' had no id of its own; it is 'call_2' now."
WIRED: dict[str, tuple[list[dict[str, Any]], list[Message], tuple[str, ...]]] = {
    "ids that are null": (
        [wired(id=None, type="function", function=ADD), {"role": "tool", "tool_call_id": None, "content": "3"}],
        [response("call_2"), tool_result("call_2")],
        (RENAMED,),
    ),
    "no ids": (
        [wired(type="function", function=ADD), {"role": "tool", "content": "3"}],
        [response("call_2"), tool_result("call_2")],
        (RENAMED,),
    ),
    "ids that are numbers": (
        [wired(id=5, function=ADD), {"role": "tool", "tool_call_id": 5, "content": "3"}],
        [response("5"), tool_result("5")],
        (),
    ),
    "function_call": (
        [{"role": "assistant", "function_call": ADD}, {"role": "function", "name": "add", "content": "3"}],
        [response("call_2"), tool_result("call_2")],
        (RENAMED,),
    ),
    "a result without an id, of a call that has one": (
        [wired(id="a", function=ADD), {"role": "tool", "content": "3"}],
        [response("a"), lost("a")],
        ("A result of '' was left out: there is no call for it.", "The call 'a' had no result; it got an error."),
    ),
    "a custom tool": (
        [wired(id="a", type="custom", custom={"name": "add", "input": "1+2"}), {"role": "tool", "tool_call_id": "a"}],
        [response("a", arguments='{"input":"1+2"}'), tool_result("a", "")],
        (),
    ),
    "a refusal": ([{"role": "assistant", "content": None, "refusal": "No."}], [ModelResponse(text="No.")], ()),
    "a refusal as a part": (
        [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}],
        [ModelResponse(text="No.")],
        (),
    ),
}


@pytest.mark.parametrize(("wire", "whole", "notes"), WIRED.values(), ids=WIRED)
def test_openai_form(
    wire: list[dict[str, Any]], whole: list[Message], notes: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """What lacks ids, or is of an older form, is read whole and repaired as any other history; each note is logged."""
    result = Runner(model=ScriptedModel(["Yes."])).run("Go on.", messages=wire)

    assert [*whole, USER] == [*result.messages[:-1]]
    assert [f"The history was repaired: {note}" for note in notes] == caplog.messages


@pytest.mark.parametrize("role", ["system", "assistant", "tool"])
def test_pictures_elsewhere(role: str) -> None:
    """A picture that no request can carry where it stands is refused, not left out."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}

    with pytest.raises(ValueError, match="Only user messages may have images and files"):
        Runner(model=ScriptedModel([])).run("Go on.", messages=[{"role": role, "content": [picture]}])


IDS = st.sampled_from(["a", "b", "c", ""])
ARGUMENTS = st.sampled_from(
    ["{}", '{"a": 1}', "{", "[]", '{"a": NaN}', '{"a": "\ud800"}', '{"a": 1' + "0" * 5000 + "}"]
)


@st.composite
def answers(draw: st.DrawFn) -> list[Message]:
    """An answer with calls, and their results."""
    ids = draw(st.lists(IDS, min_size=1, max_size=3))
    return [response(*ids, arguments=draw(ARGUMENTS)), *(tool_result(one, str(n)) for n, one in enumerate(ids))]


@st.composite
def broken(draw: st.DrawFn) -> list[Message]:
    """A history, of which messages were lost, doubled and shuffled."""
    turns = draw(st.lists(st.one_of(answers(), st.just([USER])), max_size=5))
    messages: list[Message] = list(itertools.chain.from_iterable(turns))
    kept = [message for message in messages for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2])))]
    return draw(st.permutations(kept)) if draw(st.booleans()) else kept


@pytest.fixture(scope="module")
def send() -> Iterator[Any]:
    """Asks a server that is as strict as OpenAI; anything it refuses raises."""
    with (
        FakeServer(lambda _: reply.text("Yes."), strict=True) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test", max_retries=0) as client,
    ):
        yield lambda messages: Runner(client=client, model="m").run("Go on.", messages=messages)


@given(broken())
@examples(200)
def test_accepted(send: Any, messages: list[Message]) -> None:
    """Whatever was lost, doubled or shuffled, a strict server accepts what comes of it."""
    assert "Yes." == send(messages).output


@given(broken())
@examples(500)
def test_twice(messages: list[Message]) -> None:
    """What was repaired needs no repair; only what did has notes."""
    made, notes = repair_history(messages)

    assert (made, ()) == repair_history(made)
    assert (made == messages) == (notes == ())


@given(broken())
@examples(500)
def test_nothing_is_lost(messages: list[Message]) -> None:
    """No word of the user or the model is left out, and each call has a result."""
    made, _ = repair_history(messages)

    others = [type(message) for message in messages if not isinstance(message, ToolMessage)]
    assert others == [type(message) for message in made if not isinstance(message, ToolMessage)]
