"""What a run does next, whatever the model answers; ids and states; and the state machine that decides it."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit import File, Image, LimitError, Limits, Runner, RunResult, RunState, ToolCall, Usage
from toolkit._runner.conversation import Conversation, RunCalls
from toolkit.errors import ConversationError
from toolkit.events import PendingApproval
from toolkit.models import ModelResponse, SystemMessage, ToolMessage, UserMessage
from toolkit.testing import ScriptedModel

HELLO = UserMessage("hello")
LAST_WISH = UserMessage("You have used all available tool calls. Summarize what you found and respond to the user.")


def add(a: int = 1, b: int = 2) -> int:
    """Add."""
    return a + b


def respond(text: str = "", *calls: ToolCall, reason: str = "stop", **more: Any) -> ModelResponse:
    return ModelResponse(text=text, calls=calls, finish_reason=reason, **more)


def make_call(name: str = "add", arguments: str = "{}", provider_call_id: str = "") -> ToolCall:
    return ToolCall(name=name, arguments=arguments, provider_call_id=provider_call_id)


def run(*answers: str | ModelResponse, messages: Any = (), **limits: Any) -> tuple[RunResult, ScriptedModel]:
    """A run that gets all these answers, and its model."""
    with ScriptedModel(answers) as model:
        return Runner([add], model=model, limits=Limits(**limits)).run("hello", messages=messages), model


def provider_call_ids(result: RunResult) -> list[str]:
    return [c.provider_call_id for m in result.messages if isinstance(m, ModelResponse) for c in m.calls]


# -- answers


@pytest.mark.parametrize("text", ["", " \n"], ids=["nothing", "blank"])
def test_empty_answer_is_asked_for_once_more(text: str) -> None:
    """A first answer that is empty leaves no trace but its cost, and the model is called again."""
    result, model = run(respond(text, usage=Usage(1, 2, 1)), respond("Hi.", usage=Usage(1, 2, 1)))

    assert ([(HELLO,)] * 2, Usage(2, 4, 2)) == ([request.messages for request in model.requests], result.usage)
    assert [HELLO, ("Hi.")] == [result.messages[0], result.messages[1].text]


def test_second_empty_answer_ends_the_run() -> None:
    """Two answers in a row that say nothing are the end, and the reason says so."""
    result, _ = run("", "")

    assert ("", "empty") == (result.output, result.finish_reason)


def test_resumed_run_knows_the_empty_answer() -> None:
    """The one second chance of an empty answer is not given again to a run that is resumed after it."""
    states: list[RunState] = []
    Runner(model=ScriptedModel(["", "Hi."]), checkpoint=states.append).run("hello")
    after = next(state for state in states if state.empty_responses)

    assert "empty" == Runner(model=ScriptedModel([""])).resume(after.to_json()).finish_reason


def test_calls_between_empty_answers() -> None:
    """An empty answer after calls is a first one again."""
    result, _ = run("", respond("", make_call()), "", "Hi.")

    assert ("Hi.", "stop") == (result.output, result.finish_reason)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (respond("Hi", reason="stop"), ("Hi", "stop")),
        (respond("Hi", reason=""), ("Hi", "stop")),
        (respond("Hi", reason="tool_calls"), ("Hi", "stop")),
        (respond("Hi", reason="end_turn"), ("Hi", "stop")),
        (respond("Hi", reason="length"), ("Hi", "length")),
        (respond("", reason="length"), ("", "length")),
        (respond("", reason="content_filter"), ("", "content_filter")),
    ],
    ids=["stop", "none", "tool_calls", "unknown word", "length", "length, no text", "content_filter"],
)
def test_finish_reason(response: ModelResponse, expected: tuple[str, str]) -> None:
    """A whole answer ends in `stop`, whatever the provider calls it; a truncated one keeps the provider's reason."""
    result, _ = run(response)

    assert expected == (result.output, result.finish_reason)


@pytest.mark.parametrize("reason", ["stop", "end_turn", "other", "", "tool_calls", "function_call"])
def test_calls_count_more_than_the_finish_reason(reason: str) -> None:
    """Whole calls are executed whatever the provider calls the end."""
    result, _ = run(respond("", make_call(), reason=reason), "Done.")

    assert [3] == [made.result.value for made in result.calls]


@pytest.mark.parametrize(
    ("reason", "arguments"),
    [("length", "{}"), ("content_filter", "{}"), ("tool_calls", '{"a": 1'), ("stop", '{"a": "x'), ("", "{")],
)
def test_cut_response(reason: str, arguments: str) -> None:
    """No call of a truncated response is executed: each gets a result, and the model is called again."""
    calls = (make_call(provider_call_id="a"), make_call("mul", arguments, "b"))
    result, _ = run(respond("", *calls, reason=reason), "Done.")

    text = "Not run: the answer that held this call was cut off. Send it again, with shorter arguments or fewer calls."
    assert [("a", "add", text, True), ("b", "mul", text, True)] == [
        (m.provider_call_id, m.name, m.text, m.is_error) for m in result.messages if isinstance(m, ToolMessage)
    ]
    assert "Done." == result.output


# -- limits


@pytest.mark.parametrize("text", ["It is 3.", ""], ids=["answer", "nothing"])
def test_last_answer(text: str) -> None:
    """The last answer ends the run, even an empty one, and the reason is the limit."""
    result, _ = run(respond("Let me see.", make_call()), text, max_turns=1)

    assert (text, "max_turns") == (result.output, result.finish_reason)


def test_empty_answer_counts_as_a_turn() -> None:
    """An empty answer uses up a turn, so a limit of one asks for the last answer next."""
    _, model = run("", "Hi.", max_turns=1)

    assert ((HELLO, LAST_WISH), ()) == (model.requests[1].messages, model.requests[1].tools)


def test_no_output_before_any_answer() -> None:
    """A run that ends before the model has answered has no output, and not that of the history."""
    with Runner(model=ScriptedModel(["Hi."])).stream("hello", messages=[HELLO, respond("Earlier.")]) as events:
        events.cancel()

    assert ("", "cancelled") == (events.result.output, events.result.finish_reason)


@pytest.mark.parametrize("turns", [0, -1])
def test_no_turns(turns: int) -> None:
    """A limit that allows nothing is refused where it is written."""
    with pytest.raises(ValueError, match=f"max_turns={turns} is not a whole number of at least 1"):
        Limits(max_turns=turns)


def test_unknown_on_limit() -> None:
    """A wrong word for what happens at the limit is refused with the right ones."""
    with pytest.raises(ValueError, match="on_limit='explode' is not one of 'answer', 'stop', 'raise'"):
        Limits(on_limit="explode")  # type: ignore[arg-type]


# -- ids


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "OWN_1", "OWN_2"]),
        (["", " ", "c"], ["OWN_0", "OWN_1", "c"]),
    ],
    ids=["unique", "repeated", "missing"],
)
def test_provider_call_ids_are_unique(sent: list[str], kept: list[str]) -> None:
    """A provider's id is kept where it is unique, and replaced by ours where it is blank or taken."""
    result, _ = run(respond("", *(make_call(provider_call_id=each) for each in sent)), "Done.")

    assert kept == [each.replace(result.state.run_id[:8], "OWN") for each in provider_call_ids(result)]
    assert [f"{result.state.run_id[:8]}_{number}" for number in range(len(sent))] == [m.call.id for m in result.calls]


def test_provider_call_ids_of_later_turns() -> None:
    """An id that a provider repeats in a later turn is replaced, also where the history came from elsewhere."""
    history = [
        HELLO,
        respond("", ToolCall(name="add", id="x", provider_call_id="x")),
        ToolMessage(call_id="x", provider_call_id="x", name="add", text="3"),
    ]
    calls = (make_call(provider_call_id="x"), make_call(provider_call_id="y"))
    result, _ = run(respond("", *calls), "Done.", messages=history)

    assert ["x", f"{result.state.run_id[:8]}_0", "y"] == provider_call_ids(result)


# -- state


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
    state = RunState(run_id="run12345-and-more", messages=(HELLO,))
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


def test_state_is_plain_json() -> None:
    """The written state is one JSON object with the run's facts by name."""
    assert {
        "version": 1,
        "run_id": "run12345-and-more",
        "messages": [{"kind": "user", "text": "hello", "images": [], "files": []}],
        "start": 0,
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
    } == json.loads(RunState(run_id="run12345-and-more", messages=(HELLO,)).to_json())


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


# -- the state machine, which a driver asks for steps and tells what came of them


def start_conversation(**limits: Any) -> Conversation:
    return Conversation(RunState(run_id="run12345-and-more", messages=(HELLO,)), Limits(**limits))


def answered(call: ToolCall, text: str = "3") -> ToolMessage:
    return ToolMessage(call_id=call.id, name=call.name, text=text)


def calling(*provider_call_ids: str) -> Conversation:
    conversation = start_conversation()
    conversation.add_response(respond("", *(make_call(provider_call_id=each) for each in provider_call_ids)))
    return conversation


def open_calls(conversation: Conversation) -> tuple[ToolCall, ...]:
    step = conversation.next()
    return step.calls if isinstance(step, RunCalls) else ()


def test_asking_twice_changes_nothing() -> None:
    """Asking for the next step does not take it, nor repeat the request for a last answer in the history."""
    conversation = start_conversation(max_turns=1)
    conversation.add_response(respond("", make_call()))
    assert conversation.next() == conversation.next()
    conversation.end_turn([answered(call) for call in open_calls(conversation)])

    assert conversation.next() == conversation.next()
    assert 1 == conversation.state.messages.count(LAST_WISH)


def test_limit_raises_every_time() -> None:
    """With on_limit="raise" each request for a step raises, and leaves the conversation as it was."""
    conversation = start_conversation(max_turns=1, on_limit="raise")
    conversation.add_response(respond())
    before = conversation.state
    for _ in range(2):
        with pytest.raises(LimitError, match=r"reached max_turns=1\. Raise Limits\(max_turns=\.\.\.\)"):
            conversation.next()

    assert before == conversation.state


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

    wire = [c.provider_call_id for m in conversation.state.messages if isinstance(m, ModelResponse) for c in m.calls]
    own = [m.call_id for m in conversation.state.messages if isinstance(m, ToolMessage)]
    assert [len(own)] * 3 == [len(set(own)), len(set(wire)), sum(map(len, turns))]


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


def test_refusal_out_of_turn() -> None:
    """An answer can be refused only where there is one."""
    with pytest.raises(ConversationError, match="The conversation is asking, not finished"):
        start_conversation().reject_answer("Not a number.")
