"""The conversation decides the next step, whatever it is given, and can be saved and resumed at any point."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit import File, Image, LimitError, Limits, RunError, RunState, ToolCall, Usage
from toolkit._dialects.base import CUT_TEXT
from toolkit._runner.conversation import CallModel, Conversation, Finished, RunCalls
from toolkit._runner.limits import LAST_TURN, NO_TOOLS_TEXT
from toolkit.errors import ConversationError
from toolkit.events import PendingApproval
from toolkit.models import Message, ModelResponse, SystemMessage, ToolMessage, UserMessage

HELLO = UserMessage("hello")
LAST_WISH = UserMessage("You have used all available tool calls. Summarize what you found and respond to the user.")


def start_conversation(**limits: Any) -> Conversation:
    return Conversation(RunState(run_id="run12345-and-more", messages=(HELLO,)), Limits(**limits))


def respond(text: str = "", *calls: ToolCall, reason: str = "stop", **more: Any) -> ModelResponse:
    return ModelResponse(text=text, calls=calls, finish_reason=reason, **more)


def make_call(name: str = "add", arguments: str = "{}", provider_call_id: str = "") -> ToolCall:
    return ToolCall(name=name, arguments=arguments, provider_call_id=provider_call_id)


def answered(call: ToolCall, text: str = "3") -> ToolMessage:
    return ToolMessage(call_id=call.id, name=call.name, text=text)


def calling(*provider_call_ids: str) -> Conversation:
    conversation = start_conversation()
    conversation.add_response(
        respond("", *(make_call(provider_call_id=provider_call_id) for provider_call_id in provider_call_ids or ("a",)))
    )
    return conversation


def open_calls(conversation: Conversation) -> tuple[ToolCall, ...]:
    step = conversation.next()
    return step.calls if isinstance(step, RunCalls) else ()


def provider_call_ids(conversation: Conversation) -> list[str]:
    return [c.provider_call_id for m in conversation.state.messages if isinstance(m, ModelResponse) for c in m.calls]


def refusing(*, tries: int = 1, **limits: Any) -> Conversation:
    """A conversation whose answer was refused so many times."""
    conversation = start_conversation(**limits)
    for _ in range(tries):
        conversation.add_response(respond("Five."))
        conversation.next()
        conversation.reject_answer("Not a number.", "Send one.")
    return conversation


# -- every way it can go


def test_first_step() -> None:
    """A conversation begins with asking the model, tools on offer."""
    assert CallModel((HELLO,), 0, True) == start_conversation().next()


def test_asking_twice_changes_nothing() -> None:
    """Asking for the next step does not take it."""
    conversation = calling()

    assert conversation.next() == conversation.next()


def test_answer_ends_the_run() -> None:
    """An answer without calls is the end."""
    conversation = start_conversation()
    conversation.add_response(respond("Hi."))

    assert Finished("Hi.", "stop") == conversation.next()


def test_calls_are_handed_out() -> None:
    """A response with calls is followed by carrying them out, under our ids, in the turn that made them."""
    conversation = calling("a", "b")

    assert (
        RunCalls(
            (
                ToolCall(name="add", id="run12345_0", provider_call_id="a"),
                ToolCall(name="add", id="run12345_1", provider_call_id="b"),
            ),
            0,
        )
        == conversation.next()
    )


def test_results_stand_in_call_order() -> None:
    """Results may arrive in any order; they are in the history in call order, under the provider's ids."""
    conversation = calling("a", "b")
    first, second = open_calls(conversation)
    conversation.end_turn([answered(second, "second"), answered(first, "first")])

    assert [("a", "first"), ("b", "second")] == [
        (m.provider_call_id, m.text) for m in conversation.state.messages if isinstance(m, ToolMessage)
    ]


def test_results_are_followed_by_the_model() -> None:
    """When every call has its result, the model is called again."""
    conversation = calling()
    conversation.end_turn([answered(call) for call in open_calls(conversation)])

    assert CallModel(conversation.state.messages, 1, True) == conversation.next()


@pytest.mark.parametrize("text", ["", " \n"], ids=["nothing", "blank"])
def test_empty_answer_is_asked_for_once_more(text: str) -> None:
    """A first answer that is empty leaves no trace but its cost, and the model is called again."""
    conversation = start_conversation()
    conversation.add_usage(Usage(1, 2, 1))
    conversation.add_response(respond(text))

    assert (CallModel((HELLO,), 1, True), Usage(1, 2, 1)) == (conversation.next(), conversation.state.usage)


def test_second_empty_answer_ends_the_run() -> None:
    """Two answers in a row that say nothing are the end, and the reason says so."""
    conversation = start_conversation()
    conversation.add_response(respond())
    conversation.add_response(respond())

    assert Finished("", "empty") == conversation.next()


def test_calls_between_empty_answers() -> None:
    """An empty answer after calls is a first one again."""
    conversation = start_conversation()
    conversation.add_response(respond())
    conversation.add_response(respond("", make_call()))
    conversation.end_turn([answered(call) for call in open_calls(conversation)])
    conversation.add_response(respond())

    assert isinstance(conversation.next(), CallModel)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (respond("Hi", reason="stop"), Finished("Hi", "stop")),
        (respond("Hi", reason=""), Finished("Hi", "stop")),
        (respond("Hi", reason="tool_calls"), Finished("Hi", "stop")),
        (respond("Hi", reason="end_turn"), Finished("Hi", "stop")),
        (respond("Hi", reason="length"), Finished("Hi", "length")),
        (respond("", reason="length"), Finished("", "length")),
        (respond("", reason="content_filter"), Finished("", "content_filter")),
    ],
    ids=["stop", "none", "tool_calls", "unknown word", "length", "length, no text", "content_filter"],
)
def test_finish_reason(response: ModelResponse, expected: Finished) -> None:
    """A whole answer ends in `stop`, whatever the provider calls it; a truncated one keeps the provider's reason."""
    conversation = start_conversation()
    conversation.add_response(response)

    assert expected == conversation.next()


@pytest.mark.parametrize("reason", ["stop", "end_turn", "other", "", "tool_calls", "function_call"])
def test_calls_count_more_than_the_finish_reason(reason: str) -> None:
    """Whole calls are executed whatever the provider calls the end."""
    conversation = start_conversation()
    conversation.add_response(respond("", make_call(), reason=reason))

    assert isinstance(conversation.next(), RunCalls)


@pytest.mark.parametrize(
    ("reason", "arguments"),
    [("length", "{}"), ("content_filter", "{}"), ("tool_calls", '{"a": 1'), ("stop", '{"a": "x'), ("", "{")],
)
def test_cut_response(reason: str, arguments: str) -> None:
    """No call of a truncated response is executed: each gets a result here, and the model is called again."""
    conversation = start_conversation()
    conversation.add_response(
        respond("", make_call(provider_call_id="a"), make_call("mul", arguments, "b"), reason=reason)
    )

    cut_messages = [ToolMessage(call_id=f"run12345_{n}", provider_call_id=w, name=name, text=CUT_TEXT, is_error=True)
            for n, w, name in ((0, "a", "add"), (1, "b", "mul"))]  # fmt: skip
    assert (cut_messages, True) == (list(conversation.state.messages[2:]), isinstance(conversation.next(), CallModel))


@pytest.mark.parametrize("size", range(1, 21))
def test_cut_at_every_byte(size: int) -> None:
    """Wherever the last call's arguments break off, none of the response's calls is handed out."""
    conversation = start_conversation()
    whole = '{"a": 1, "b": [2, 3]}'
    conversation.add_response(
        respond("", make_call(), make_call(), make_call(arguments=whole[:size]), reason="tool_calls")
    )

    assert isinstance(conversation.next(), CallModel)


# -- limits


def used_up(**limits: Any) -> Conversation:
    conversation = start_conversation(max_turns=1, **limits)
    conversation.add_response(respond("Let me see.", make_call()))
    conversation.end_turn([answered(call) for call in open_calls(conversation)])
    return conversation


def test_last_turn() -> None:
    """After the last turn the model is called without tools, with the literal text."""
    step = used_up().next()

    assert isinstance(step, CallModel)
    assert (LAST_WISH, 1, False) == (step.messages[-1], step.turn, step.with_tools)


def test_last_turn_is_asked_for_once() -> None:
    """Asking for the last step again does not repeat the request in the history."""
    conversation = used_up()
    conversation.next()
    conversation.next()

    assert 1 == conversation.state.messages.count(UserMessage(LAST_TURN))


@pytest.mark.parametrize("text", ["It is 3.", ""], ids=["answer", "nothing"])
def test_last_answer(text: str) -> None:
    """The last answer ends the run, even an empty one, and the reason is the limit."""
    conversation = used_up()
    conversation.next()
    conversation.add_response(respond(text))

    assert Finished(text, "max_turns") == conversation.next()


def test_calls_in_the_last_answer() -> None:
    """Calls in the last answer are not executed; each result says why, and the text is the output."""
    conversation = used_up()
    conversation.next()
    conversation.add_response(respond("Half.", make_call(provider_call_id="late"), reason="tool_calls"))

    assert (Finished("Half.", "max_turns"), NO_TOOLS_TEXT) == (
        conversation.next(),
        getattr(conversation.state.messages[-1], "text", None),
    )


def test_limit_stops() -> None:
    """With on_limit="stop" the run ends at once, with the last text as its output."""
    conversation = used_up(on_limit="stop")

    assert Finished("Let me see.", "max_turns") == conversation.next()


def test_limit_raises_every_time() -> None:
    """With on_limit="raise" the step raises, says what to change, and leaves the conversation as it was."""
    conversation = used_up(on_limit="raise")
    before = conversation.state
    with pytest.raises(LimitError, match=r"reached max_turns=1\. Raise Limits\(max_turns=\.\.\.\)"):
        conversation.next()

    assert before == conversation.state


def test_empty_answer_counts_as_a_turn() -> None:
    """An empty answer uses up a turn, so a limit of one asks for the last answer next."""
    conversation = start_conversation(max_turns=1)
    conversation.add_response(respond())

    assert CallModel((HELLO, LAST_WISH), 1, False) == conversation.next()


def test_no_output_before_any_answer() -> None:
    """A conversation that is finished before the model has answered has no output."""
    state = RunState(run_id="r", messages=(HELLO,), phase="finished", finish_reason="max_turns")

    assert Finished("", "max_turns") == Conversation(state).next()


# -- answers that are refused

REFUSAL = UserMessage("Not a number. Send one.")


def test_refused_answer() -> None:
    """A refused answer stays in the history; the model reads why, and is asked again with its tools."""
    conversation = refusing()

    assert CallModel((HELLO, respond("Five."), REFUSAL), 1, True) == conversation.next()


def test_answer_after_a_refusal() -> None:
    """The answer that follows is the output, and the run has ended as any other."""
    conversation = refusing(tries=2)
    conversation.add_response(respond("5"))

    assert Finished("5", "stop") == conversation.next()


def test_refusals_are_bounded() -> None:
    """After `max_output_retries` refusals another one ends the run, and changes nothing."""
    conversation = refusing(tries=1, max_output_retries=1)
    conversation.add_response(respond("Six."))
    before = conversation.state
    with pytest.raises(RunError, match=r"no answer of its output_type after 2 answers of the model\. Not a number\."):
        conversation.reject_answer("Not a number.")

    assert before == conversation.state


def test_refusals_use_up_turns() -> None:
    """A refused answer is a turn, so the next one may be the last, and the limit is the reason."""
    conversation = refusing(max_turns=1)
    step = conversation.next()
    conversation.add_response(respond("5"))

    assert (CallModel((HELLO, respond("Five."), REFUSAL, LAST_WISH), 1, False), Finished("5", "max_turns")) == (
        step, conversation.next()
    )  # fmt: skip


def test_refused_last_answer() -> None:
    """A refused last answer is asked for again without tools; the reason stays the limit."""
    conversation = refusing(tries=2, max_turns=1)
    step = conversation.next()

    assert (CallModel, False, "max_turns") == (
        type(step),
        getattr(step, "with_tools", None),
        conversation.state.finish_reason,
    )


def test_refusal_where_the_run_stops() -> None:
    """With on_limit="stop" nothing is asked after the limit: a refusal there ends the run."""
    conversation = used_up(on_limit="stop")
    conversation.next()

    with pytest.raises(RunError, match="Not a number"):
        conversation.reject_answer("Not a number.")


def test_refusal_out_of_turn() -> None:
    """An answer can be refused only where there is one."""
    with pytest.raises(ConversationError, match="The conversation is asking, not finished"):
        start_conversation().reject_answer("Not a number.")


# -- ids


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "run12345_1", "run12345_2"]),
        (["", " ", "c"], ["run12345_0", "run12345_1", "c"]),
        (["run12345_1", ""], ["run12345_1", "run12345_1_2"]),
        (["run12345_2", "run12345_2_2", ""], ["run12345_2", "run12345_2_2", "run12345_2_3"]),
    ],
    ids=["unique", "repeated", "missing", "one of ours", "two of ours"],
)
def test_provider_call_ids_are_unique(sent: list[str], kept: list[str]) -> None:
    """A provider's id is kept where it is unique, and replaced where it is blank or taken."""
    assert kept == provider_call_ids(calling(*sent))


def test_provider_call_ids_of_later_turns() -> None:
    """An id that a provider repeats in a later turn is replaced, also where the history came from elsewhere."""
    history: list[Message] = [HELLO, respond("", ToolCall(name="add", id="x", provider_call_id="x"))]
    history += [ToolMessage(call_id="x", provider_call_id="x", name="add", text="3"), HELLO]
    conversation = Conversation(RunState(run_id="run12345", messages=tuple(history)))
    conversation.add_response(respond("", make_call(provider_call_id="x"), make_call(provider_call_id="y")))

    assert ["x", "run12345_0", "y"] == provider_call_ids(conversation)


@given(
    st.lists(st.lists(st.sampled_from(["", "a", "run12345_1", "run12345_2", "run12345_1_2"]), max_size=4), max_size=4)
)
def test_ids_are_unique_whatever_the_provider_sends(turns: list[list[str]]) -> None:
    """Neither our ids nor those on the wire are ever repeated in one history."""
    conversation = start_conversation()
    for sent in filter(None, turns):
        conversation.add_response(
            respond("", *(make_call(provider_call_id=provider_call_id) for provider_call_id in sent))
        )
        conversation.end_turn([answered(call) for call in open_calls(conversation)])

    own = [m.call_id for m in conversation.state.messages if isinstance(m, ToolMessage)]
    assert [len(own)] * 3 == [len(set(own)), len(set(provider_call_ids(conversation))), sum(map(len, turns))]


# -- state


def nothing(_: Conversation) -> None:
    """Leave it as it begins."""


def make_calls(conversation: Conversation) -> None:
    conversation.add_response(
        respond(
            "", make_call(provider_call_id="a"), make_call(provider_call_id="a"), usage=Usage(3, 4, 1), reasoning="hm"
        )
    )


def say_nothing(conversation: Conversation) -> None:
    conversation.add_response(respond())


def use_up(conversation: Conversation) -> None:
    make_calls(conversation)
    conversation.end_turn([answered(call, "é \x00 \U0001f600") for call in open_calls(conversation)])
    conversation.next()


def end(conversation: Conversation) -> None:
    use_up(conversation)
    conversation.add_response(respond("Done."))


def refuse(conversation: Conversation) -> None:
    end(conversation)
    conversation.reject_answer("Not a number.")


@pytest.mark.parametrize(
    "doing", [nothing, make_calls, say_nothing, use_up, end, refuse], ids=lambda doing: doing.__name__
)
def test_state_at_each_phase(doing: Callable[[Conversation], None]) -> None:
    """A conversation restored from its state's JSON says the same next step and has the same state."""
    conversation = start_conversation(max_turns=1)
    doing(conversation)
    restored = Conversation(RunState.from_json(conversation.state.to_json()), Limits(max_turns=1))

    assert (conversation.next(), conversation.state) == (restored.next(), restored.state)


def test_restored_conversation_goes_on() -> None:
    """A restored conversation gives later calls the ids that the first one would have given."""
    conversation = calling("a")
    restored = Conversation(conversation.state)
    for each in (conversation, restored):
        each.end_turn([answered(call) for call in open_calls(each)])
        each.add_response(respond("", make_call(provider_call_id="a")))

    assert conversation.state == restored.state


def test_restored_state_knows_the_empty_answer() -> None:
    """The one second chance of an empty answer is not given again after a restore."""
    conversation = start_conversation()
    say_nothing(conversation)
    restored = Conversation(RunState.from_json(conversation.state.to_json()))
    say_nothing(restored)

    assert Finished("", "empty") == restored.next()


def test_state_of_every_kind_of_message() -> None:
    """Every kind of message survives JSON, pictures, files and reasoning included."""
    state = RunState(
        run_id="r",
        messages=(
            SystemMessage("Be brief."),
            UserMessage("Look", (Image(b"\x89PNG\x00", "image/png"),), (File(b"%PDF", name="a.pdf"),)),
            respond(
                "",
                ToolCall(name="a", arguments="[", id="i", provider_call_id="w", reasoning="why"),
                model="m",
                reasoning="hm",
            ),
            ToolMessage(
                call_id="i",
                provider_call_id="w",
                name="a",
                text="no",
                is_error=True,
                images=(Image(b"x"),),
                files=(File(b"x", name="b"),),
            ),
        ),
        usage=Usage(1, 2, 3),
    )

    assert state == RunState.from_json(state.to_json())


def test_signed_state() -> None:
    """A state is read with the key that it was signed with, however its JSON is spaced; what was changed is refused."""
    state = start_conversation().state
    text = state.to_json(key="a secret")
    spaced = json.dumps(json.loads(text), indent=1, sort_keys=True)
    wrong = [
        (text.replace('"run12345-and', '"run12346-and'), "a secret"),
        (text, "another"),
        (state.to_json(), "a secret"),
        (text.replace('"signature": "', '"signature": "\u00e9'), "a secret"),
    ]

    assert text != wrong[0][0]
    assert [state] * 4 == [
        RunState.from_json(text, key=b"a secret"),
        RunState.from_json(spaced, key="a secret"),
        RunState.from_json(text),
        RunState.from_json(state.to_json()),
    ]
    for changed, key in wrong:
        with pytest.raises(ConversationError, match="was not signed with this key, or was changed"):
            RunState.from_json(changed, key=key)
    for use in (state.to_json, lambda key: RunState.from_json(text, key=key)):
        with pytest.raises(ValueError, match="key= is empty"):
            use(key="")


def test_state_is_a_snapshot() -> None:
    """A state taken earlier does not change as the conversation continues."""
    conversation = start_conversation()
    state = conversation.state
    make_calls(conversation)

    assert RunState(run_id="run12345-and-more", messages=(HELLO,)) == state


def test_state_is_plain_json() -> None:
    """The written state is one JSON object with the run's facts by name."""
    assert {
        "version": 1,
        "run_id": "run12345-and-more",
        "messages": [{"kind": "user", "text": "hello", "images": [], "files": []}],
        "phase": "asking",
        "turns": 0,
        "call_count": 0,
        "calls_by_tool": {},
        "usage": vars(Usage()),
        "results": [],
        "pending": [],
        "sub_agents": {},
        "finish_reason": "",
        "output": None,
        "allowed_tools": None,
        "offered": None,
        "is_last_turn": False,
        "empty_responses": 0,
        "output_retries": 0,
    } == json.loads(start_conversation().state.to_json())


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "5", '"x"', "[]", "{}", '{"messages": 5}', '{"messages": [5]}', '{"messages": [{"kind": "x"}]}',
     '{"messages": [{"kind": "user"}], "usage": {}}', '{"messages": [], "usage": {}}',
     '{"messages": [], "usage": {"euros": 1}, "run_id": "r"}', '{"messages": [], "usage": {}, "run_id": "", "x": 1}',
     '{"messages": [], "usage": {}, "run_id": "r", "phase": "thinking"}', "[" * 100_000],
)  # fmt: skip
def test_what_is_no_state(text: str) -> None:
    """Text that is not the state of a run is refused as such, whatever is wrong with it."""
    with pytest.raises(ConversationError, match="This is not the state of a run"):
        RunState.from_json(text)


HI = {"kind": "user", "text": "Hi"}
CALLS = {"kind": "model", "calls": [{"name": "add", "id": "a"}]}
STRANGER = {"call": {"name": "add", "id": "b"}, "digest": "d", "arguments": "{}"}
NO_STATES: dict[str, dict[str, Any]] = {
    "a text as turn": {"turns": "x"},
    "null as turn": {"turns": None},
    "a truth as turn": {"turns": True},
    "a negative turn": {"turns": -1},
    "a list as counts": {"calls_by_tool": [1]},
    "a number as run_id": {"run_id": 5},
    "null as run_id": {"run_id": None},
    "a text as tokens": {"usage": {"input_tokens": "x"}},
    "negative tokens": {"usage": {"input_tokens": -1}},
    "a text as last": {"is_last_turn": "no"},
    "a number as a message's text": {"messages": [{"kind": "user", "text": 5}]},
    "a number as a call's name": {"messages": [{"kind": "model", "calls": [{"name": 5}]}], "phase": "calling"},
    "a user's message as a result": {"results": [HI]},
    "no messages": {"messages": []},
    "calling without messages": {"messages": [], "phase": "calling"},
    "paused without messages": {"messages": [], "phase": "paused"},
    "calling without calls": {"phase": "calling"},
    "asking with open calls": {"messages": [CALLS]},
    "finished with open calls": {"messages": [CALLS], "phase": "finished"},
    "paused for nothing": {"messages": [CALLS], "phase": "paused"},
    "paused for a call that is not open": {"messages": [CALLS], "phase": "paused", "pending": [STRANGER]},
    "a result of no call": {"results": [{"kind": "tool", "call_id": "b", "name": "add", "text": "3"}]},
}


@pytest.mark.parametrize("changes", NO_STATES.values(), ids=NO_STATES)
def test_state_that_no_run_is_in(changes: dict[str, Any]) -> None:
    """A state with a value of another type or range, or in which no run can be, is refused."""
    data = {"run_id": "r", "messages": [HI], **changes}

    with pytest.raises(ConversationError, match="This is not the state of a run"):
        RunState.from_json(json.dumps(data))


# -- refusals


@pytest.mark.parametrize(
    "results",
    [lambda a, b: [a], lambda a, b: [a, a], lambda a, b: [a, a, b], lambda a, b: [a, b, replace(b, call_id="other")],
     lambda a, b: []],
    ids=["too few", "one twice", "one too many", "a stranger", "none"],
)  # fmt: skip
def test_results_that_do_not_fit(results: Callable[[ToolMessage, ToolMessage], list[ToolMessage]]) -> None:
    """Results that are not exactly one for each call are refused, named, and change nothing."""
    conversation = calling("a", "b")
    before = conversation.state
    with pytest.raises(
        ConversationError, match=r"\['run12345_0', 'run12345_1'\] needs one result; there are results for"
    ):
        conversation.end_turn(results(*map(answered, open_calls(conversation))))

    assert before == conversation.state


def test_call_that_waits_twice() -> None:
    """A call that waits for two approvals is refused, and changes nothing."""
    conversation = calling("a")
    before, (call,) = conversation.state, open_calls(conversation)
    with pytest.raises(ConversationError, match=r"there are results for \['run12345_0', 'run12345_0'\]"):
        conversation.end_turn([], [PendingApproval(call=call, digest=digest, arguments="{}") for digest in "ab"])

    assert before == conversation.state


@pytest.mark.parametrize("doing", [make_calls, end], ids=["calling", "finished"])
def test_response_out_of_turn(doing: Callable[[Conversation], None]) -> None:
    """A response that was not asked for is refused and changes nothing."""
    conversation = start_conversation(max_turns=1)
    doing(conversation)
    before = conversation.state
    with pytest.raises(ConversationError, match=f"is {before.phase}, not asking: do the step"):
        conversation.add_response(respond("Hi."))

    assert before == conversation.state


def test_results_out_of_turn() -> None:
    """Results while no call is open are refused."""
    with pytest.raises(ConversationError, match=r"is asking, not calling: do the step of next\(\)"):
        start_conversation().end_turn([])


@pytest.mark.parametrize("turns", [0, -1])
def test_no_turns(turns: int) -> None:
    """A limit that allows nothing is refused where it is written."""
    with pytest.raises(ValueError, match=f"max_turns={turns} must be a whole number, at least 1"):
        Limits(max_turns=turns)


def test_unknown_on_limit() -> None:
    """A wrong word for what happens at the limit is refused with the right ones."""
    with pytest.raises(ValueError, match="on_limit='explode' is not one of 'answer', 'stop', 'raise'"):
        Limits(on_limit="explode")  # type: ignore[arg-type]
