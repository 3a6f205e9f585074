"""Compaction of a long conversation: what is sent of it, and what stays whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from tests.ways import arun, astream, run, stream
from toolkit import File, Image, Runner, RunResult, RunState, Session, ToolCall, Usage, tool
from toolkit.approvers import defer
from toolkit.middleware import Compaction, estimate_tokens
from toolkit.models import ModelRequest, ModelResponse, SystemMessage, ToolMessage, UserMessage
from toolkit.testing import ScriptedModel, call

Message = SystemMessage | UserMessage | ModelResponse | ToolMessage
Go = Callable[..., RunResult]
WAYS = pytest.mark.parametrize("go", [run, arun, stream, astream])
# The text of a message with the pictures of results, as runs add it.
IMAGES = "The images of the results above, in order."


@tool
def read_page(number: int) -> str:
    """Read a page."""
    return "\n".join(f"line {line} of page {number}" for line in range(200))


def shorten(compaction: Compaction, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return what is sent of a conversation."""
    request = ModelRequest(messages=tuple(messages))
    shortened: Any = compaction.before_model(request)
    return request.messages if shortened is None else shortened.messages


def converse(*turns: str, tokens: int = 0) -> list[Message]:
    """Make a conversation in which each turn has one call with this result."""
    messages: list[Message] = [SystemMessage("Be brief."), UserMessage("Read all pages.")]
    for number, text in enumerate(turns):
        made = ToolCall(name="read_page", id=f"c{number}", arguments=f'{{"number": {number}}}')
        messages.append(ModelResponse(calls=(made,), usage=Usage(tokens, 0, 1)))
        messages.append(ToolMessage(call_id=made.id, name=made.name, text=text))
    return messages


LONG = "\n".join(f"line {number} of a long result" for number in range(200))


def test_nothing_below_the_limit() -> None:
    """A conversation that is short enough is sent as it is, and the model's own cache of it stays."""
    messages = converse(*[LONG] * 3)

    assert Compaction().before_model(ModelRequest(messages=tuple(messages))) is None


def test_old_results_lose_their_middle() -> None:
    """First the results that are not recent are cut to 50 lines, with a note; the recent ones stay."""
    messages = converse(*[LONG] * 10)

    sent = shorten(Compaction(estimate_tokens(messages) - 1, keep_recent=4), messages)

    lines = sent[3].text.split("\n")
    assert (51, "[... 150 lines truncated ...]") == (len(lines), lines[25])
    assert ("line 24 of a long result", "line 175 of a long result") == (lines[24], lines[26])
    assert [message.text for message in messages[-4:]] == [message.text for message in sent[-4:]]
    assert len(messages) == len(sent)


def test_a_long_line_loses_its_middle() -> None:
    """A result of one line, such as JSON, is cut, too."""
    messages = converse(*["x" * 40_000] * 4)

    sent = shorten(Compaction(30_000, keep_recent=2), messages)

    assert 9_900 <= len(sent[3].text) <= 10_000
    assert "characters truncated ...]" in sent[3].text


def test_old_turns_become_a_summary() -> None:
    """Where that is not enough, one message of the user stands for the turns that are not recent."""
    messages = converse(*["word " * 200] * 40)

    sent = shorten(Compaction(5_000, keep_recent=6), messages)

    assert [*messages[:2], *messages[3 - len(sent) :]] == [*sent[:2], *sent[3:]]
    left_out = len(messages) - len(sent) + 1
    head = f"[Summary of {left_out} earlier messages, which are left out here]"
    assert sent[2].text.startswith(f"{head}\n[Assistant called read_page")
    assert " truncated ...]" in sent[2].text
    assert estimate_tokens(sent) <= 5_000
    assert 6 <= len(sent) - 3 < 20


def test_the_latest_question_stays() -> None:
    """In a long chat the question that is being worked on stays, and so does the first one, each at its place."""
    chat = [*converse(*["word " * 200] * 10), ModelResponse(text="Read."), UserMessage("Now sum up page 3.")]
    messages = [*chat, *converse(*["word " * 200] * 20)[2:]]
    texts = [message.text for message in shorten(Compaction(5_000, keep_recent=4), messages)]

    assert ["Be brief.", "Read all pages.", "Now sum up page 3."] == [texts[0], texts[1], texts[3]]
    assert [True, True] == [text.startswith("[Summary of") for text in (texts[2], texts[4])]


def test_recent_results_are_cut_last() -> None:
    """Recent messages that are too long by themselves are cut, then summarised; the last turn stays."""
    messages = converse(*[LONG] * 6)
    sent = shorten(Compaction(1_000, keep_recent=12), messages)

    assert [SystemMessage, UserMessage, UserMessage] == [*map(type, sent[:3])]
    assert messages[-2] == sent[-2]
    assert "[... 150 lines truncated ...]" in sent[-1].text
    assert estimate_tokens(sent) <= 1_000


def test_the_beginning_stays_for_some_turns() -> None:
    """After it has shortened a conversation, the next requests begin with the same messages, which servers cache."""
    compaction = Compaction(20_000)
    messages = converse(*["word " * 200] * 150)
    sent = [shorten(compaction, messages[:end]) for end in range(2, len(messages) + 1, 2)]

    changes = sum(later[: len(former)] != former for former, later in zip(sent, sent[1:]))

    assert 1 <= changes <= 12
    assert max(map(estimate_tokens, sent)) <= 20_000


def test_reported_tokens_count() -> None:
    """What a server reported counts more than a number of characters: texts of other scripts, schemas of tools."""
    short = converse(*["語" * 100] * 20, tokens=9_500)

    assert len(short) > len(shorten(Compaction(8_000), short))
    assert len(short) == len(shorten(Compaction(8_000), converse(*["語" * 100] * 20)))


@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
@WAYS
def test_summary_of_a_function(go: Go, later: bool) -> None:
    """A function may write the summary, sync or async; it is asked once for the same messages."""
    asked: list[Sequence[Message]] = []

    def summarize(messages: Sequence[Message]) -> str:
        asked.append(messages)
        return f"{len(messages)} messages about pages"

    async def summarize_later(messages: Sequence[Message]) -> str:
        await asyncio.sleep(0)
        return summarize(messages)

    model = ScriptedModel([*([call("read_page", number=n)] for n in range(30)), "Read."])
    hook = Compaction(6_000, keep_recent=4, summarize=summarize_later if later else summarize)
    result = go(Runner([read_page], model=model, hooks=[hook], max_turns=40))

    sent = model.requests[-1].messages
    assert f"left out here]\n{len(asked[-1])} messages about pages" in sent[1].text
    assert len({*asked}) == len(asked) < 15
    assert (1 + 2 * 30 + 1, "Read.") == (len(result.messages), result.output)
    assert max(estimate_tokens(request.messages) for request in model.requests) <= 6_000


@pytest.mark.parametrize("is_shared", [True, False], ids=["one hook", "a new hook for each run"])
def test_summary_of_a_long_chat(is_shared: bool) -> None:
    """However long a chat is, `summarize` gets `max_tokens` at most: its last summary, if any, and what followed."""
    asked: list[Sequence[Message]] = []

    def summarize(messages: Sequence[Message]) -> str:
        asked.append(messages)
        return f"summary {len(asked)}"

    hook, session = Compaction(2_000, keep_recent=4, summarize=summarize), Session()
    for number in range(60):
        hooks = [hook if is_shared else Compaction(2_000, keep_recent=4, summarize=summarize)]
        Runner(model=ScriptedModel(["An answer. " * 20]), hooks=hooks).run(f"{number} " * 200, session=session)

    assert max(map(estimate_tokens, asked)) <= 2_000 < estimate_tokens(session.messages)
    follows = [messages[0].text.endswith(f"here]\nsummary {number}") for number, messages in enumerate(asked)]
    assert follows == [is_shared and number > 0 for number in range(len(asked))]


def test_a_summary_must_be_text() -> None:
    """What is not text ends the run with an error that names the function."""
    hook = Compaction(1_000, keep_recent=0, summarize=lambda messages: 5)  # type: ignore[arg-type, return-value]
    model = ScriptedModel([*([call("read_page", number=n)] for n in range(9)), "Read."])

    with pytest.raises(TypeError, match=r"summarize=.* must return text, not 5"):
        Runner([read_page], model=model, hooks=[hook], max_turns=40).run("Read.")


@WAYS
def test_the_result_has_everything(go: Go) -> None:
    """Only what is sent is shortened: the result has the whole conversation, with all texts."""
    model = ScriptedModel([*([call("read_page", number=n), call("read_page", number=-n)] for n in range(9)), "Read."])
    runner = Runner([read_page], model=model, hooks=[Compaction(2_000, keep_recent=2)], instructions="Be brief.")
    messages = go(runner).messages

    assert 2 + 9 * 3 + 1 == len(messages)
    assert all(message.text.count("\n") == 199 for message in messages if isinstance(message, ToolMessage))
    assert max(estimate_tokens(request.messages) for request in model.requests) <= 2_000


def test_a_resumed_run_is_sent_the_same() -> None:
    """A run that continues elsewhere, from its saved state, is sent what it would have been sent."""

    def make(replies: list[Any], approve: Any = None) -> tuple[Runner, ScriptedModel]:
        model = ScriptedModel(replies)
        hooks = [Compaction(2_000, keep_recent=2)]
        return Runner([read_page], model=model, hooks=hooks, max_turns=40, approve=approve), model

    @tool(approve=True)
    def stop() -> str:
        """Stop."""
        return "stopped"

    calls: list[Any] = [[call("read_page", number=number)] for number in range(12)]
    runner, model = make([*calls, [call("stop")], "Stopped."], defer)
    runner.toolbox.add(stop)
    paused = runner.run("Read.")
    other, later = make(["Stopped."])
    other.toolbox.add(stop)
    state = RunState.from_json(paused.state.to_json())
    decisions = {pending.call.id: True for pending in paused.pending}

    runner.resume(paused.state, decisions)
    other.resume(state, decisions)

    assert model.requests[-1].messages == later.requests[-1].messages
    assert estimate_tokens(later.requests[-1].messages) <= 2_000


def test_images_go_with_their_results() -> None:
    """The images of results are sent with these, or not at all."""
    image = Image(b"\x89PNG", "image/png")
    messages: list[Message] = [UserMessage("Look.")]
    for number in range(6):
        messages.append(ModelResponse(calls=(ToolCall(name="look", id=f"c{number}"),)))
        messages.append(ToolMessage(call_id=f"c{number}", name="look", text="", images=(image,)))
        messages.append(UserMessage(IMAGES, (image,)))

    sent = shorten(Compaction(5_000, keep_recent=2), messages)

    assert [UserMessage, UserMessage, *[ModelResponse, ToolMessage, UserMessage] * 2] == [*map(type, sent)]
    assert messages[-6:] == [*sent[-6:]]


def test_own_function() -> None:
    """A hook of the application's own may shorten requests in the same way."""

    class LastTwo:
        def before_model(self, request: ModelRequest) -> ModelRequest:
            return replace(request, messages=(request.messages[0], *request.messages[-2:]))

    model = ScriptedModel([*([call("read_page", number=n)] for n in range(4)), "Read."])
    result = Runner([read_page], model=model, hooks=[LastTwo()]).run("Read.")

    assert 3 == len(model.requests[-1].messages)
    assert 10 == len(result.messages)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"max_tokens": 999}, "max_tokens=999 is not a whole number of at least 1000"),
        ({"keep_recent": -1}, "keep_recent=-1 is not"),
        ({"summarize": "short"}, "summarize='short' is not a function"),
    ],
)
def test_wrong_options(options: dict[str, Any], fault: str) -> None:
    """A wrong option is refused when the hook is made."""
    with pytest.raises((ValueError, TypeError), match=fault):
        Compaction(**options)


TEXTS = st.one_of(
    st.text(max_size=40),
    st.integers(0, 300).map(lambda lines: "a line of text\n" * lines),
    st.integers(0, 9_000).map(lambda size: "y" * size),
)
PICTURE = Image(b"1", "image/png")


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Generate a valid conversation that ends in what the model has to answer."""
    messages: list[Message] = [SystemMessage(draw(st.text(max_size=400)))] * draw(st.integers(0, 2))
    ids = 0
    for _ in range(draw(st.integers(1, 12))):
        files = (File(b"1"),) * draw(st.integers(0, 1))
        messages.append(UserMessage(draw(st.text(max_size=400)), files=files))
        for _ in range(draw(st.integers(0, 6))):
            count = draw(st.integers(1, 4))
            calls = tuple(ToolCall(name="read", id=f"c{ids + number}") for number in range(count))
            usage = Usage(draw(st.sampled_from([0, 0, 500, 20_000])), 0, 1)
            messages.append(ModelResponse(text=draw(st.text(max_size=20)), calls=calls, usage=usage))
            messages += [ToolMessage(call_id=made.id, name="read", text=draw(TEXTS)) for made in calls]
            if draw(st.integers(0, 5)) == 0:
                messages.append(UserMessage(IMAGES, (PICTURE,)))
            ids += count
        if draw(st.booleans()):
            messages.append(ModelResponse(text=draw(TEXTS)))
    return (*messages, UserMessage("Go on.")) if isinstance(messages[-1], ModelResponse) else tuple(messages)


@examples(500, deadline=None)
@given(conversations(), st.integers(1_000, 20_000), st.integers(0, 12))
def test_any_conversation(messages: tuple[Message, ...], max_tokens: int, keep_recent: int) -> None:
    """Each call keeps its result, in order; what must stay does; the size is below the limit wherever that is possible.

    The order of messages and their ids stay, and the same is sent each time.
    """
    sent = shorten(Compaction(max_tokens, keep_recent=keep_recent), messages)

    expected = [made.id for message in sent if isinstance(message, ModelResponse) for made in message.calls]
    assert expected == [message.call_id for message in sent if isinstance(message, ToolMessage)]
    for message, following in zip(sent, sent[1:]):
        if isinstance(message, ModelResponse) and message.calls:
            assert isinstance(following, ToolMessage)
    order = [message for message in sent if isinstance(message, ModelResponse)]
    responses = iter(messages)
    assert all(message in responses for message in order)
    users = [message for message in messages if isinstance(message, UserMessage) and message.text != IMAGES]
    kept: list[Message] = [
        *(message for message in messages if isinstance(message, SystemMessage)),
        users[0],
        users[-1],
    ]
    assert all(message in sent for message in kept)
    assert messages[-1].text == sent[-1].text or isinstance(sent[-1], ToolMessage)
    assert sent == shorten(Compaction(max_tokens, keep_recent=keep_recent), messages)
    last = max((at for at, message in enumerate(messages) if isinstance(message, ModelResponse)), default=0)
    largest = estimate_tokens(kept) + 10_000 * (len(messages) - last) // 4 + 1_000 + max_tokens // 10
    is_counted = any(message.usage.input_tokens for message in messages[last:] if isinstance(message, ModelResponse))
    if largest <= max_tokens and not is_counted:  # a server may count fewer tokens than estimated
        assert estimate_tokens(sent) <= max_tokens
    if not any(isinstance(message, ModelResponse) and message.usage.input_tokens for message in messages):
        assert sent == messages or estimate_tokens(messages) > max_tokens or estimate_tokens(sent) < max_tokens


def test_reasoning_details_are_sent_beside_the_text() -> None:
    """The details of OpenRouter count in addition, while the items of Responses have the text."""
    detail = {"type": "reasoning.encrypted", "data": "x" * 4000}
    item = {"type": "message", "content": [{"type": "output_text", "text": "y" * 4000}]}
    text = estimate_tokens([ModelResponse(text="y" * 4000)])

    assert estimate_tokens([ModelResponse(text="y" * 4000, items=(detail,))]) == pytest.approx(2 * text, rel=0.05)
    assert estimate_tokens([ModelResponse(text="y" * 4000, items=(item,))]) == pytest.approx(text, rel=0.05)
