"""Runs as events of AG-UI: everything that is opened is closed, whatever happens."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit import Decision, File, FinishReason, Halt, Image, Runner, ToolCall, ToolContext, ToolResult, Usage, tool
from toolkit.approvers import defer
from toolkit.events import (
    ApprovalNeeded,
    Event,
    LimitReached,
    MessageAdded,
    OutputDelta,
    PendingApproval,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
)
from toolkit.models import ModelResponse, UserMessage
from toolkit.serve import agui
from toolkit.testing import ScriptedModel, call

CALL = ToolCall(name="add", arguments='{"a": 1, "b": 2}', id="r_0")
BARE = ToolCall(name="now", id="r_1")
START: list[Event] = [RunStarted(run_id="r", model="m"), TurnStarted(turn=0)]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def finish(output: str = "", finish_reason: FinishReason = "stop", usage: Usage = Usage()) -> RunFinished:
    """The last event of a run."""
    return RunFinished(output=output, finish_reason=finish_reason, usage=usage)


def finish_turn(*calls: ToolCall, **said: str) -> TurnFinished:
    """The model's answer of the first turn."""
    return TurnFinished(turn=0, response=ModelResponse(calls=calls, **said))  # type: ignore[arg-type]


def encode_turn(*events: Event) -> list[dict[str, Any]]:
    """Return the events of a run's first turn, without those with which every run starts."""
    return list(agui.encode_events([*START, *events]))[2:]


def types(events: list[dict[str, Any]]) -> list[str]:
    """What sorts of events there are."""
    return [event["type"] for event in events]


IDENTITIES = ("messageId", "toolCallId", "stepName")


def left_open(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What is open at the end; AssertionError where something is opened twice, or closed and not open."""
    opened: list[tuple[str, str]] = []
    for event in events:
        sort, _, stage = event["type"].rpartition("_")
        identity = next((event[name] for name in IDENTITIES if name in event), "")
        if stage in ("START", "STARTED") and sort != "RUN":
            assert (sort, identity) not in opened
            opened.append((sort, identity))
        elif stage in ("END", "FINISHED") and sort != "RUN":
            opened.remove((sort, identity))
        elif stage in ("CONTENT", "ARGS"):
            assert (sort, identity) in opened
    return opened


# -- a run


def test_whole_run() -> None:
    """A turn is a step; its calls have start, arguments, end and result; the answer comes in pieces."""
    runner = Runner([add], model=ScriptedModel([[call("add", a=1, b=2)], "It is 3."]))

    events = list(agui.encode_events(runner.stream("x"), thread_id="t", run_id="r"))
    call_id = events[2]["toolCallId"]
    assert [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "protocolVersion": "1.0"},
        {"type": "STEP_STARTED", "stepName": "turn 0"},
        {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": "add", "parentMessageId": "r-0"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": '{"a": 1, "b": 2}'},
        {"type": "TOOL_CALL_END", "toolCallId": call_id},
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": f"{call_id}-result",
            "toolCallId": call_id,
            "role": "tool",
            "content": "3",
        },
        {"type": "STEP_FINISHED", "stepName": "turn 0"},
        {"type": "STEP_STARTED", "stepName": "turn 1"},
        {"type": "TEXT_MESSAGE_START", "messageId": "r-1", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "r-1", "delta": "It"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "r-1", "delta": " is"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "r-1", "delta": " 3."},
        {"type": "TEXT_MESSAGE_END", "messageId": "r-1"},
        {"type": "STEP_FINISHED", "stepName": "turn 1"},
        {
            "type": "RUN_FINISHED",
            "threadId": "t",
            "runId": "r",
            "outcome": {"type": "success"},
            "result": "It is 3.",
            "metadata": {"finishReason": "stop"},
        },
    ] == events


def test_async_run() -> None:
    """An async stream is encoded as an async iterator of the same events."""

    async def main() -> list[dict[str, Any]]:
        stream = Runner([add], model=ScriptedModel([[call("add", a=1, b=2)], "Three."])).astream("x")
        return [event async for event in agui.encode_events(stream)]

    stream = Runner([add], model=ScriptedModel([[call("add", a=1, b=2)], "Three."])).stream("x")
    assert types(list(agui.encode_events(stream))) == types(asyncio.run(main()))


def test_ids_are_the_runs_own() -> None:
    """Where the client has no ids, those of the run stand in for them."""
    events = list(agui.encode_events([*START, finish()]))

    assert [("r", "r"), ("r", "r")] == [(e["threadId"], e["runId"]) for e in events if e["type"].startswith("RUN")]


# -- texts and reasoning


def test_text_that_came_whole() -> None:
    """Where no pieces came, the answer is encoded whole."""
    events = encode_turn(finish_turn(text="Hi.", reasoning="A greeting."), finish("Hi."))

    assert [
        "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END", "REASONING_END",
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED",
    ] == types(events)  # fmt: skip
    assert ["A greeting.", "Hi."] == [event["delta"] for event in events if "delta" in event]


def test_text_beside_calls_that_comes_whole() -> None:
    """Text that no delta has brought comes before the calls of its turn."""
    events = types(encode_turn(finish_turn(CALL, text="Wait.")))

    assert events.index("TEXT_MESSAGE_CONTENT") < events.index("TOOL_CALL_START")


def test_text_that_came_in_pieces() -> None:
    """What came in pieces is not sent again."""
    pieces = ReasoningDelta("Hm."), TextDelta("H"), TextDelta("i.")
    events = encode_turn(*pieces, finish_turn(text="Hi.", reasoning="Hm."), finish("Hi."))

    assert ["Hm.", "H", "i."] == [event["delta"] for event in events if "delta" in event]


def test_thoughts_in_between() -> None:
    """Each stretch of reasoning has an id of its own; the text around it stays one message."""
    events = encode_turn(
        ReasoningDelta("a"), TextDelta("b"), ReasoningDelta("c"), TextDelta("d"), finish_turn(), finish()
    )

    pieces = [(event["messageId"], event["delta"]) for event in events if "delta" in event]
    assert [("r-0-reasoning-1", "a"), ("r-0", "b"), ("r-0-reasoning-2", "c"), ("r-0", "d")] == pieces


def test_messages_meanwhile() -> None:
    """A message of the user during the run is one of the user."""
    events = encode_turn(MessageAdded(UserMessage("Hurry.")), MessageAdded(UserMessage("Please.")), finish())

    assert [
        {"type": "TEXT_MESSAGE_START", "messageId": "r-0-user-1", "role": "user"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "r-0-user-1", "delta": "Hurry."},
        {"type": "TEXT_MESSAGE_END", "messageId": "r-0-user-1"},
    ] == events[:3]
    assert "r-0-user-2" == events[3]["messageId"]


# -- calls


@pytest.mark.parametrize("arguments", ["", "{}", " {} "], ids=["none", "empty", "spaced"])
def test_no_arguments(arguments: str) -> None:
    """A call without arguments has no event for them."""
    events = encode_turn(finish_turn(ToolCall(name="now", arguments=arguments, id="r_0")), finish())

    assert ["TOOL_CALL_START", "TOOL_CALL_END"] == types(events)[:2]


def test_early_call() -> None:
    """A call that starts before its turn is over is sent then, and once."""
    events = encode_turn(ToolCallStarted(CALL), finish_turn(CALL, BARE), ToolCallStarted(BARE), finish())

    assert ["r_0", "r_1"] == [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_START"]


class Guard:
    def before_call(self, call: object, context: object) -> None:
        raise Halt("I may not.")


class Censor:
    def after_model(self, response: object) -> None:
        raise Halt("I may not.")


@pytest.mark.parametrize("text", ["", "Let me look."])
@pytest.mark.parametrize(
    ("hooks", "answer"),
    [([], "A pond."), ([Guard()], "I may not."), ([Censor()], "I may not.")],
    ids=["result of a tool", "text of a hook around a call", "text of a hook after the model"],
)
def test_answer_that_the_model_has_not_written(hooks: list[object], answer: str, text: str) -> None:
    """Such an answer is a message of its own, after the text of its turn."""

    @tool(return_direct=True)
    def look() -> str:
        """Look."""
        return "A pond."

    response = ModelResponse(text=text, calls=(ToolCall(name="look"),))
    runner = Runner([look], model=ScriptedModel([response]), hooks=hooks)
    texts = [event for event in agui.encode_events(runner.stream("x"), run_id="r") if "TEXT" in event["type"]]

    assert ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"] == types(texts)[-3:]
    assert ("r-answer", answer) == (texts[-2]["messageId"], texts[-2]["delta"])
    assert text == "".join(event["delta"] for event in texts[:-3] if "delta" in event)


def test_call_of_an_earlier_run() -> None:
    """A call of an earlier run has only its result here: sent again, its arguments would double."""
    result = ToolCallFinished(CALL, ToolResult(3, "3"), 0.1)
    events = list(agui.encode_events([START[0], ToolCallStarted(CALL), result, finish()]))

    assert ["RUN_STARTED", "TOOL_CALL_RESULT", "RUN_FINISHED"] == types(events)


def test_failed_call() -> None:
    """A result that is an error says so beside its text, and names no exception."""
    failed = ToolResult(text="add failed", error="add failed", exception=ValueError("secret"))
    (event, *_) = encode_turn(ToolCallFinished(CALL, failed, 0.1), finish())

    assert ("add failed", {"isError": True}) == (event["content"], event["metadata"])
    assert "secret" not in json.dumps(event)


def test_pictures_and_files() -> None:
    """A result with more than text is a list of parts, each of the sort that its media type says."""
    files = (File(b"\x01", "text/csv", "rows.csv"), File(b"\x02", "audio/wav", "a.wav"))
    (event, *_) = encode_turn(
        ToolCallFinished(CALL, ToolResult(text="Look:", images=(Image(b"\x00"),), files=files), 0.1)
    )

    assert [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"type": "data", "value": "AA==", "mimeType": "image/png"}},
        {
            "type": "document",
            "source": {"type": "data", "value": "AQ==", "mimeType": "text/csv"},
            "metadata": {"name": "rows.csv"},
        },
        {
            "type": "audio",
            "source": {"type": "data", "value": base64.b64encode(b"\x02").decode(), "mimeType": "audio/wav"},
            "metadata": {"name": "a.wav"},
        },
    ] == event["content"]


CUSTOM: dict[str, tuple[Event, dict[str, Any]]] = {
    "progress": (
        ToolCallUpdated(CALL, "50 %"),
        {"toolCallId": "r_0", "toolName": "add", "text": "50 %", "partial": None},
    ),
    "a limit": (LimitReached(limit="max_turns"), {"limit": "max_turns"}),
    "a partial answer": (OutputDelta([1]), {"value": [1]}),
    "arguments on their way": (
        ToolArgumentsDelta(index=0, name="add", text="{"),
        {"index": 0, "toolName": "add", "text": "{"},
    ),
}


@pytest.mark.parametrize(("event", "value"), CUSTOM.values(), ids=CUSTOM)
def test_custom_events(event: Event, value: dict[str, Any]) -> None:
    """What the protocol has no event for is a custom event, in the event's JSON form."""
    name = type(event).__name__

    assert {"type": "CUSTOM", "name": name[0].lower() + name[1:], "value": value} == encode_turn(event, finish())[0]


def test_progress_of_a_tool() -> None:
    """The title of a tool reaches the user interface, and never the model."""

    def work(context: ToolContext) -> str:
        """Work."""
        context.progress("half")
        return "done"

    with ScriptedModel([[call("work")], "Fine."]) as model:
        events = list(agui.encode_events(Runner([work], model=model).stream("x")))

    assert ["half"] == [event["value"]["text"] for event in events if event["type"] == "CUSTOM"]
    assert "half" not in repr(model.requests)


# -- ends

PENDING = PendingApproval(
    call=CALL, digest="d", arguments='{"a":1,"b":2}', title="Add", effect="write", reason="Later."
)


def test_agent_that_asks() -> None:
    """The interrupt of a call that waits names the agent that asks."""
    events = encode_turn(ApprovalNeeded(replace(PENDING, agent="clerk")), finish(finish_reason="paused"))

    assert "clerk" == events[-1]["outcome"]["interrupts"][0]["metadata"]["agent"]


def test_reasoning_of_a_call() -> None:
    """The reason of a call is sent with its start, and with the interrupt of one that waits."""
    call = replace(CALL, reasoning="They asked.")
    events = encode_turn(finish_turn(call), ApprovalNeeded(replace(PENDING, call=call)), finish(finish_reason="paused"))
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    (start,) = (event for event in events if event["type"] == "TOOL_CALL_START")

    assert ["They asked."] * 2 == [shown["metadata"]["reasoning"] for shown in (start, interrupt)]


def test_interrupt() -> None:
    """A run whose calls wait for approval ends with an interrupt for each, which a decision can name."""
    events = encode_turn(finish_turn(CALL), ApprovalNeeded(PENDING), finish(finish_reason="paused"))

    (interrupt,) = events[-1]["outcome"].pop("interrupts")
    assert {"type": "interrupt"} == events[-1]["outcome"]
    assert ("r_0", "tool_call", "r_0", "Allow Add? Later.") == tuple(
        interrupt[name] for name in ("id", "reason", "toolCallId", "message")
    )
    assert {"toolName": "add", "arguments": '{"a":1,"b":2}', "digest": "d", "effect": "write"} == interrupt["metadata"]


def test_answered_approval() -> None:
    """A call that was approved meanwhile interrupts nothing; that it waited is a custom event."""
    events = encode_turn(ApprovalNeeded(PENDING), ToolCallFinished(CALL, ToolResult(3, "3"), 9.0), finish("3"))

    assert ("CUSTOM", "approvalNeeded", {"type": "success"}) == (
        events[0]["type"],
        events[0]["name"],
        events[-1]["outcome"],
    )


ENDS: dict[str, tuple[list[Event], str, str]] = {
    "an answer": ([finish_turn()], "stop", "success"),
    "an answer that was cut": ([finish_turn()], "length", "success"),
    "a last answer at a limit": ([finish_turn()], "max_turns", "success"),
    "no answer at a limit": ([finish_turn(BARE)], "max_turns", "cancelled"),
    "cancelled": ([finish_turn(BARE)], "cancelled", "cancelled"),
    "stopped by whoever was asked": ([finish_turn(BARE)], "stopped", "cancelled"),
    "stopped while a call waits": ([finish_turn(BARE), ApprovalNeeded(PENDING)], "stopped", "cancelled"),
}


@pytest.mark.parametrize(("events", "reason", "outcome"), ENDS.values(), ids=ENDS)
def test_outcomes(events: list[Event], reason: Any, outcome: str) -> None:
    """A run that was ended from outside is not a success, and has no result."""
    last = encode_turn(*events, finish("Hi.", reason))[-1]

    assert (outcome, reason) == (last["outcome"]["type"], last["metadata"]["finishReason"])
    assert (outcome == "success") == ("result" in last)


def test_cancelled_run() -> None:
    """A run that is cancelled amid its answer ends as cancelled, with all closed."""
    runner = Runner(model=ScriptedModel(["One two three."]))
    events: list[dict[str, Any]] = []
    for event in agui.encode_events(runner.stream("x")):
        events.append(event)
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            runner.cancel()

    assert ({"type": "cancelled"}, []) == (events[-1]["outcome"], left_open(events))
    assert "result" not in events[-1]


def test_usage() -> None:
    """Tokens are sent where the provider sent them; a count of nothing is left out."""
    with_usage, without = encode_turn(finish(usage=Usage(7, 0, 1)))[-1], encode_turn(finish())[-1]

    assert [{"model": "m", "inputTokens": 7}] == with_usage["usage"]
    assert "usage" not in without


def test_failed_run(caplog: pytest.LogCaptureFixture) -> None:
    """A run that fails ends with RUN_ERROR, which names the class of the exception; the log has the rest."""

    def run() -> Iterator[Event]:
        yield from [*START, TextDelta("H")]
        raise ValueError("secret")

    with caplog.at_level(logging.ERROR, "toolkit"):
        events = list(agui.encode_events(run()))

    assert ["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_ERROR"] == types(events)[-3:]
    assert {"type": "RUN_ERROR", "message": "The run failed: ValueError.", "code": "ValueError"} == events[-1]
    assert "secret" in caplog.text


def test_failed_async_run() -> None:
    """The same holds of an async stream."""

    async def run() -> AsyncIterator[Event]:
        for event in [*START, ReasoningDelta("H")]:
            yield event
        raise ValueError("secret")

    async def main() -> list[dict[str, Any]]:
        return [event async for event in agui.encode_events(run())]

    events = asyncio.run(main())
    assert ("RUN_ERROR", []) == (events[-1]["type"], left_open(events))


def test_model_that_fails() -> None:
    """Where a model fails before it sends anything, the run has started, and failed."""
    stream = Runner(model=ScriptedModel([RuntimeError("secret")])).stream("x")

    assert ["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_ERROR"] == types(list(agui.encode_events(stream)))


def test_run_that_was_left() -> None:
    """A stream that somebody else has closed ends with RUN_ERROR."""
    stream = Runner(model=ScriptedModel(["One two three."])).stream("x")
    events = agui.encode_events(stream)
    started = [next(events) for _ in range(4)]
    stream.close()

    whole = started + list(events)
    assert ("RUN_ERROR", "left", []) == (whole[-1]["type"], whole[-1]["code"], left_open(whole))


def test_leaving_ends_the_run() -> None:
    """Whoever leaves the events early ends the run."""
    stream = Runner(model=ScriptedModel(["One two three."])).stream("x")
    events = agui.encode_events(stream)
    next(events)
    events.close()

    assert [] == list(stream)


def test_leaving_ends_the_async_run() -> None:
    """The same holds of an async stream."""

    async def main() -> list[Event]:
        stream = Runner(model=ScriptedModel(["One two three."])).astream("x")
        events = agui.encode_events(stream)
        await events.__anext__()
        await events.aclose()
        return [event async for event in stream]

    assert [] == asyncio.run(main())


def test_leaving_before_the_first() -> None:
    """Events that are closed before the first one leave the runner free for another run."""
    runner = Runner(model=ScriptedModel(["Hello."]), max_runs=1)
    stream = runner.stream("x")
    agui.encode_events(stream).close()

    assert [] == list(stream)
    assert "Hello." == runner.run("x").output


def test_leaving_before_the_first_async() -> None:
    """The same holds of an async stream."""
    runner = Runner(model=ScriptedModel(["Hello."]), max_runs=1)

    async def main() -> str:
        stream = runner.astream("x")
        await agui.encode_events(stream).aclose()
        assert [] == [event async for event in stream]
        return (await runner.arun("x")).output

    assert "Hello." == asyncio.run(main())


# -- decisions

ANSWERS: dict[str, tuple[dict[str, Any], Decision]] = {
    "approved": ({"status": "resolved", "payload": {"approved": True}}, Decision.approve()),
    "approved with edits": (
        {"status": "resolved", "payload": {"approved": True, "editedArgs": {"a": 2}}},
        Decision.modify({"a": 2}),
    ),
    "rejected": ({"status": "resolved", "payload": {"approved": False, "reason": "No."}}, Decision.reject("No.")),
    "rejected without a reason": (
        {"status": "resolved", "payload": {"approved": False, "reason": None}},
        Decision.reject(),
    ),
    "cancelled": ({"status": "cancelled"}, Decision.reject()),
    "cancelled and approved": ({"status": "cancelled", "payload": {"approved": True}}, Decision.reject()),
    "not a boolean": ({"status": "resolved", "payload": {"approved": "true"}}, Decision.reject()),
    "no object": ({"status": "resolved", "payload": True}, Decision.reject()),
    "edits that are none": ({"status": "resolved", "payload": {"approved": True, "editedArgs": []}}, Decision.reject()),
    "no status": ({"payload": {"approved": True}}, Decision.reject()),
}


@pytest.mark.parametrize(("entry", "decision"), ANSWERS.values(), ids=ANSWERS)
def test_decisions(entry: dict[str, Any], decision: Decision) -> None:
    """A client's answer is a decision about the call of its interrupt, and a rejection unless it is literally true."""
    assert {"r_0": decision} == agui.parse_decisions([{"interruptId": "r_0", **entry}])


APPROVAL = {"interruptId": "r_0", "status": "resolved", "payload": {"approved": True}}
REFUSED: dict[str, Any] = {
    "nothing": None,
    "one answer": APPROVAL,
    "no answer": ["x"],
    "no id": [{"status": "resolved", "payload": {"approved": True}}],
    "empty id": [{**APPROVAL, "interruptId": ""}],
    "no text as id": [{**APPROVAL, "interruptId": []}],
    "both": [{**APPROVAL, "payload": {"approved": False}}, APPROVAL],
    "the same twice": [APPROVAL, APPROVAL],
}


@pytest.mark.parametrize("resume", REFUSED.values(), ids=REFUSED)
def test_no_decisions(resume: Any) -> None:
    """What is not a list of answers, one for each interrupt, decides nothing."""
    with pytest.raises(ValueError, match="^resume must be a list with one answer for each 'interruptId'"):
        agui.parse_decisions(resume)


def test_decisions_of_a_client() -> None:
    """A run is resumed with a client's answers to its interrupts."""
    runner = Runner([add], model=ScriptedModel([[call("add", a=1, b=2)], "Three."]), approve=defer)
    stream = runner.stream("x")
    *_, last = agui.encode_events(stream)
    payload = {"approved": True, "editedArgs": {"a": 40, "b": 2}}
    resume = [{"interruptId": i["id"], "status": "resolved", "payload": payload} for i in last["outcome"]["interrupts"]]

    result = runner.resume(stream.result.state, agui.parse_decisions(resume))
    assert (["42"], "Three.") == ([done.result.text for done in result.calls], result.output)


# -- any run

TURN = st.lists(
    st.sampled_from(
        [
            TextDelta("\ud83d"),
            ReasoningDelta("hm"),
            ToolCallStarted(CALL),
            ToolCallFinished(CALL, ToolResult(text="3"), 0.0),
            finish_turn(CALL, BARE, text="a", reasoning="b"),
            MessageAdded(UserMessage("c")),
            ApprovalNeeded(PENDING),
            ToolCallUpdated(BARE, partial=ToolResult(text="x", images=(Image(b""),))),
            TurnStarted(turn=1),
            TurnStarted(turn=2),
        ]
    )
)
ENDINGS = st.sampled_from([[], [finish("Hi.", usage=Usage(1, 2, 3))], [finish("", "cancelled")]])


@given(TURN, ENDINGS, st.booleans())
def test_any_run(turn: list[Event], ending: list[Event], fails: bool) -> None:
    """In whatever order things happen, and wherever it ends: all is closed, strict JSON, and an end comes last."""

    def run() -> Iterator[Event]:
        yield from [*START, *turn, *ending]
        if fails:
            raise ValueError

    events = list(agui.encode_events(run()))
    assert [] == left_open(events)
    assert events[-1]["type"] == ("RUN_ERROR" if fails or not ending else "RUN_FINISHED")
    json.dumps(events, allow_nan=False).encode()


@given(TURN, ENDINGS)
def test_protocols_own_models(turn: list[Event], ending: list[Event]) -> None:
    """The protocol's own models take every event, and know every field of it."""
    core = pytest.importorskip("ag_ui.core")
    from pydantic import TypeAdapter

    for event in agui.encode_events([*START, *turn, *ending]):
        read = TypeAdapter(core.Event).validate_json(json.dumps(event))
        assert event == read.model_dump(mode="json", by_alias=True)
        assert not read.model_extra


# -- the protocol's own packages

NODE = shutil.which("node")
VERIFIER = Path(__file__).with_name("verify_agui.mjs")
MODULES = [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep) if place]
PACKAGES = next((place for place in MODULES if (place / "@ag-ui" / "client").is_dir()), None)


@pytest.mark.skipif(NODE is None or PACKAGES is None, reason="needs Node.js, and NODE_PATH with @ag-ui/client")
def test_schemas_of_the_protocol() -> None:
    """The protocol's own schemas accept each event, and its client their order: of runs with all kinds of ends."""

    def draw(context: ToolContext) -> list[Any]:
        """Draw."""
        context.progress("drawing")
        return ["done", Image(b"\0", "image/png"), File(b"x", "text/plain", "a.txt")]

    said = ModelResponse(reasoning="Hm.", text="I draw.", calls=(call("draw"), call("draw", a=1), call("missing")))
    guarded = Runner(
        [tool(draw, approve=True)], model=ScriptedModel([call("draw"), call("draw"), "Done."]), approve=defer
    )
    state = guarded.run("x").state
    streams = [
        Runner([draw], model=ScriptedModel([said, "Done."])).stream("x"),
        Runner([draw], model=ScriptedModel([call("draw"), call("draw")]), max_turns=1).stream("x"),
        guarded.stream(state, decisions={state.pending[0].call.id: True}),  # and pauses once more
        Runner(model=ScriptedModel([])).stream("x"),
    ]
    runs = json.dumps([list(agui.encode_events(stream)) for stream in streams])
    command = [str(NODE), str(VERIFIER), f"{PACKAGES}/"]
    done = subprocess.run(command, input=runs, capture_output=True, text=True, timeout=60, check=False)

    assert ("", []) == (done.stderr, json.loads(done.stdout))
