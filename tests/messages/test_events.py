"""The JSON form of events: one for every kind, strict, and without private data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, SecretStr

from toolkit import File, Image, Runner, ToolCall, ToolResult, Usage
from toolkit.events import (
    ApprovalNeeded,
    Event,
    LimitReached,
    MessageAdded,
    OutputDelta,
    PendingApproval,
    ReasoningDelta,
    ResultsAdded,
    RunFinished,
    RunStarted,
    SubAgentEvent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallAbandoned,
    ToolCallFinished,
    ToolCallRetried,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
    event_to_dict,
)
from toolkit.models import ModelResponse, ToolMessage, UserMessage
from toolkit.testing import ScriptedModel, call

CALL = ToolCall(name="add", arguments='{"a": 1}', id="r_0", provider_call_id="call_9", wire_arguments="{}")
NAMED = {"toolCallId": "r_0", "toolName": "add"}
FAILED = ToolResult(text="add failed", error="add failed", kind="failed", exception=ValueError("secret"))
SHOWN = ToolResult(b"secret", "seen", details={"key": "secret"}, images=(Image(b"\x00"),), files=(File(b"\x01"),))
IMAGES = [{"mediaType": "image/png", "data": "AA=="}]
FILES = [{"name": "file", "mediaType": "application/pdf", "data": "AQ=="}]
PENDING = PendingApproval(call=CALL, digest="d", arguments='{"a":1}', title="Add", effect="write", reason="asleep")
USAGE = {"inputTokens": 1, "outputTokens": 2, "requests": 3}
REASONED = ToolCall(name="add", id="r_0", reasoning="They asked.")
RESPONSE = ModelResponse(
    text="Hm.", calls=(CALL,), finish_reason="tool_calls", usage=Usage(1, 2, 3), model="m", reasoning="thought"
)
NONE: dict[str, list[Any]] = {"images": [], "files": []}


class Answer(BaseModel):
    """A structured answer with a secret."""

    name: str
    key: SecretStr = SecretStr("secret")


FORMS: list[tuple[Event, dict[str, Any]]] = [
    (RunStarted(run_id="r", model="m"), {"type": "runStarted", "runId": "r", "model": "m"}),
    (TurnStarted(turn=0), {"type": "turnStarted", "turn": 0}),
    (TextDelta("Hi"), {"type": "textDelta", "text": "Hi"}),
    (ReasoningDelta("Hm"), {"type": "reasoningDelta", "text": "Hm"}),
    (
        ToolArgumentsDelta(index=1, name="add", text='{"'),
        {"type": "toolArgumentsDelta", "index": 1, "toolName": "add", "text": '{"'},
    ),
    (OutputDelta(Answer(name="Ann")), {"type": "outputDelta", "value": {"name": "Ann", "key": "**********"}}),
    (
        MessageAdded(UserMessage("Wait.", (Image(b"\x00"),))),
        {"type": "messageAdded", "text": "Wait.", "images": IMAGES, "files": []},
    ),
    (
        TurnFinished(turn=2, response=RESPONSE),
        {
            "type": "turnFinished",
            "turn": 2,
            "text": "Hm.",
            "reasoning": "thought",
            "calls": [{**NAMED, "arguments": '{"a": 1}'}],
            "finishReason": "tool_calls",
            "model": "m",
            "usage": USAGE,
        },
    ),
    (ToolCallStarted(CALL), {"type": "toolCallStarted", **NAMED, "arguments": '{"a": 1}'}),
    (ToolCallStarted(CALL, "Add"), {"type": "toolCallStarted", **NAMED, "arguments": '{"a": 1}', "title": "Add"}),
    (
        SubAgentEvent(CALL, TextDelta("Hi")),
        {"type": "subAgentEvent", **NAMED, "event": {"type": "textDelta", "text": "Hi"}},
    ),
    (ToolCallUpdated(CALL, "50 %"), {"type": "toolCallUpdated", **NAMED, "text": "50 %", "partial": None}),
    (
        ToolCallUpdated(CALL, partial=SHOWN),
        {
            "type": "toolCallUpdated",
            **NAMED,
            "text": "",
            "partial": {"isError": False, "kind": None, "text": "seen", "images": IMAGES, "files": FILES},
        },
    ),
    (
        ToolCallRetried(call=CALL, attempt=0, error=ValueError("secret"), seconds=0.5),
        {"type": "toolCallRetried", **NAMED, "attempt": 0, "exception": "ValueError", "seconds": 0.5},
    ),
    (ToolCallAbandoned(call=CALL, count=2), {"type": "toolCallAbandoned", **NAMED, "count": 2}),
    (
        ApprovalNeeded(PENDING),
        {
            "type": "approvalNeeded",
            **NAMED,
            "arguments": '{"a":1}',
            "digest": "d",
            "title": "Add",
            "effect": "write",
            "reason": "asleep",
        },
    ),
    (
        ToolCallFinished(CALL, FAILED, 0.5),
        {
            "type": "toolCallFinished",
            **NAMED,
            "isError": True,
            "kind": "failed",
            "text": "add failed",
            **NONE,
            "exception": "ValueError",
            "seconds": 0.5,
        },
    ),
    (
        ResultsAdded(turn=1, messages=(ToolMessage(call_id="r_0", name="add", text="3"),)),
        {
            "type": "resultsAdded",
            "turn": 1,
            "results": [
                {"toolCallId": "r_0", "toolName": "add", "isError": False, "text": "3", "images": [], "files": []}
            ],
        },
    ),
    (LimitReached(limit="max_turns"), {"type": "limitReached", "limit": "max_turns"}),
    (
        RunFinished(output="3", finish_reason="stop", usage=Usage(1, 2, 3)),
        {"type": "runFinished", "output": "3", "finishReason": "stop", "usage": USAGE},
    ),
]


@pytest.mark.parametrize(("event", "form"), FORMS, ids=lambda value: type(value).__name__)
def test_forms(event: Event, form: dict[str, Any]) -> None:
    """Each kind of event has its form, in camelCase."""
    assert form == event_to_dict(event)


WITH_REASONING = [ToolCallStarted(REASONED), ApprovalNeeded(PendingApproval(call=REASONED, digest="d", arguments="{}"))]


@pytest.mark.parametrize("event", WITH_REASONING, ids=lambda event: type(event).__name__)
def test_reasoning_of_a_call(event: Event) -> None:
    """The model's reason for a call stands beside its arguments."""
    written = event_to_dict(event)

    assert ("{}", "They asked.") == (written["arguments"], written["reasoning"])


def test_every_kind_has_a_form() -> None:
    """An event that is added needs a form, and a line in the table above."""
    assert set(get_args(Event)) == {type(event) for event, _ in FORMS}


@pytest.mark.parametrize("kind", get_args(Event))
def test_every_kind_is_described(kind: type[Any]) -> None:
    """The page about events says when each of them comes."""
    page = Path(__file__).parent.parent.parent / "docs" / "events.md"

    assert re.search(rf"^\|.*`{kind.__name__}`.* \| .+ \|$", page.read_text(encoding="utf-8"), re.MULTILINE)


def test_nothing_private_is_told() -> None:
    """Details, values of Python, messages of exceptions and secret fields stay where they are."""
    texts = [json.dumps(event_to_dict(event)) for event, _ in FORMS]

    assert [] == [text for text in texts if "secret" in text]


def test_what_is_no_event() -> None:
    """Anything else is refused, by name."""
    with pytest.raises(TypeError, match=r"'x' is not an event of a run\."):
        event_to_dict("x")  # type: ignore[arg-type]


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
VALUES: dict[str, tuple[Any, Any]] = {
    "NaN": (float("nan"), "NaN"),
    "infinity, inside": ({"x": [float("-inf")]}, {"x": ["-Infinity"]}),
    "bytes": (b"\xff", "_w=="),
    "half a character": (["\ud83d"], ["\ufffd"]),
    "two halves": ("\ud83d\ude00", "\U0001f600"),
    "half a character as a key": ({"\ud83d": 1}, "<dict>"),
    "a cycle": (CYCLE, "<list>"),
    "a number of many digits": (10**30, 10**30),
    "a key that is not text": ({1: 2}, {"1": 2}),
    "something else": (Exception, "<class 'Exception'>"),
}


@pytest.mark.parametrize(("value", "written"), VALUES.values(), ids=VALUES)
def test_values_are_strict_json(value: Any, written: Any) -> None:
    """Values that JSON lacks are replaced, and every JSON writer takes the result."""
    form = event_to_dict(OutputDelta(value))

    assert written == form["value"]
    assert form == json.loads(json.dumps(form, allow_nan=False).encode().decode())


def test_texts_are_whole_characters() -> None:
    """A half of a character is replaced, in whatever place it stands."""
    broken = ToolCall(name="\ud83d", arguments='{"\ud83d": 1}', id="r_0")

    form = event_to_dict(TurnFinished(turn=0, response=ModelResponse(calls=(broken,))))
    assert [{"toolCallId": "r_0", "toolName": "\ufffd", "arguments": '{"\ufffd": 1}'}] == form["calls"]


def test_a_run_as_json() -> None:
    """The events of a run come in its order, and each is one line of JSON."""

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with Runner([add], model=ScriptedModel([[call("add", a=1, b=2)], "Three."])).stream("x") as events:
        lines = [json.dumps(event_to_dict(event), allow_nan=False) for event in events]

    written = [json.loads(line) for line in lines]
    assert [
        "runStarted", "turnStarted", "turnFinished", "toolCallStarted", "toolCallFinished", "resultsAdded",
        "turnStarted", "textDelta", "turnFinished", "runFinished",
    ] == [event["type"] for event in written]  # fmt: skip
    assert ("3", False) == (written[4]["text"], written[4]["isError"])
