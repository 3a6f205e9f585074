"""Runs as the UI message stream of the AI SDK: read by its own parser, where Node.js has the package `ai`."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit import Decision, File, Halt, Image, Runner, ToolCall, ToolContext, ToolResult, Usage, tool
from toolkit.approvers import defer
from toolkit.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    PendingApproval,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
)
from toolkit.models import ModelResponse, UserMessage
from toolkit.serve import vercel
from toolkit.testing import ScriptedModel, call

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(approve=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def types(parts: list[dict[str, Any]]) -> list[str]:
    """What sorts of parts there are."""
    return [part["type"] for part in parts]


def left_open(parts: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What is open at the end; AssertionError where something is opened twice, or closed and not open."""
    opened: list[tuple[str, str]] = []
    for part in parts:
        sort, _, stage = part["type"].partition("-")
        if part["type"] in ("start-step", "finish-step"):
            sort, stage = stage, {"start": "start", "finish": "end"}[sort]
        if (sort, stage) in (("text", "start"), ("reasoning", "start"), ("step", "start")):
            assert (sort, part.get("id", "")) not in opened
            opened.append((sort, part.get("id", "")))
        elif stage == "end":
            opened.remove((sort, part.get("id", "")))
        elif stage == "delta":
            assert (sort, part["id"]) in opened
    return opened


def test_whole_run() -> None:
    """A turn is a step with its calls and their results; the answer comes in pieces, and the end has the usage."""
    runner = Runner([add], model=ScriptedModel([[call("add", a=1, b=2)], "It is 3."], name="small"))

    parts = list(vercel.encode_events(runner.stream("x"), message_id="m"))
    call_id = parts[2]["toolCallId"]
    assert [
        {"type": "start", "messageId": "m"},
        {"type": "start-step"},
        {"type": "tool-input-start", "toolCallId": call_id, "toolName": "add"},
        {"type": "tool-input-available", "toolCallId": call_id, "toolName": "add", "input": {"a": 1, "b": 2}},
        {"type": "tool-output-available", "toolCallId": call_id, "output": "3"},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "text-start", "id": "text-1"},
    ] == [part for part in parts if not part["type"].startswith("data-")][:8]
    text = "".join(part["delta"] for part in parts if part["type"] == "text-delta")
    assert ("It is 3.", ["text-end", "finish-step", "finish"]) == (text, types(parts)[-3:])
    assert ("stop", "small") == (parts[-1]["finishReason"], parts[-1]["messageMetadata"]["model"])


def test_lines() -> None:
    """Server-sent events have a line of JSON each, and [DONE] at the end, also of an async stream."""
    lines = list(vercel.encode_sse(Runner(model=ScriptedModel(["Hé."])).stream("x"), message_id="m"))

    async def read() -> list[str]:
        stream = Runner(model=ScriptedModel(["Hé."])).astream("x")
        return [line async for line in vercel.encode_sse(stream, message_id="m")]

    assert lines == asyncio.run(read())
    assert ('data: {"type": "start", "messageId": "m"}\n\n', "data: [DONE]\n\n") == (lines[0], lines[-1])
    assert all(line.startswith("data: ") and line.endswith("\n\n") and "\n" not in line[:-2] for line in lines)


OUTPUTS: dict[str, tuple[ToolResult, list[dict[str, Any]]]] = {
    "text": (ToolResult(text="hi"), [{"type": "tool-output-available", "output": "hi"}]),
    "object": (ToolResult(text='{"a": [1]}'), [{"type": "tool-output-available", "output": {"a": [1]}}]),
    "number": (ToolResult(text="12"), [{"type": "tool-output-available", "output": "12"}]),
    "no JSON": (ToolResult(text="[1e999]"), [{"type": "tool-output-available", "output": "[1e999]"}]),
    "no text": (ToolResult(12), [{"type": "tool-output-available", "output": ""}]),
    "error": (ToolResult(text="no", error="no"), [{"type": "tool-output-error", "errorText": "no"}]),
    "error without a text": (ToolResult(error="no"), [{"type": "tool-output-error", "errorText": "no"}]),
    "picture": (
        ToolResult(text="", images=(Image(b"1", "image/png"),)),
        [
            {"type": "tool-output-available", "output": ""},
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,MQ=="},
        ],
    ),
}


@pytest.mark.parametrize(("result", "parts"), OUTPUTS.values(), ids=OUTPUTS)
def test_outputs(result: ToolResult, parts: list[dict[str, Any]]) -> None:
    """An output is what the model reads: data where it is JSON, else text; pictures follow as files."""
    events: list[Event] = [RunStarted(run_id="r", model="m"), ToolCallFinished(CALL, result, 0.0)]
    encoded = [part for part in vercel.encode_events(events) if part["type"].startswith(("tool-output", "file"))]

    assert parts == [{key: value for key, value in part.items() if key != "toolCallId"} for part in encoded]


def test_failed_run(caplog: pytest.LogCaptureFixture) -> None:
    """A run that fails ends with an error that names the class of the exception; its text is in the log alone."""
    parts = list(vercel.encode_events(Runner(model=ScriptedModel([RuntimeError("secret")])).stream("x")))

    assert {"type": "error", "errorText": "The run failed: RuntimeError."} == parts[-1]
    assert [] == left_open(parts)
    assert "for the AI SDK" in caplog.text


def test_cancelled_run() -> None:
    """A run that was cancelled is aborted."""
    stream = Runner(model=ScriptedModel(["One two three."])).stream("x")
    parts = vercel.encode_events(stream)
    started = [next(parts) for _ in range(3)]
    stream.cancel()

    assert "abort" == [*started, *parts][-1]["type"]


def leave_question(runner: Runner) -> Iterator[Event]:
    """Yield the events of a run that is cancelled when a call waits for approval."""
    with runner.stream("x") as stream:
        for event in stream:
            if isinstance(event, ApprovalNeeded):
                stream.cancel()
            yield event


def test_cancelled_question() -> None:
    """A call that waits for the client's answer when the run is cancelled has no output, which the SDK would refuse."""
    runner = Runner([pay], model=ScriptedModel([[call("pay", amount=5)]]), approve=defer)
    kinds = [part["type"] for part in vercel.encode_events(leave_question(runner))]

    assert ("tool-approval-request", "abort") == (kinds[-4], kinds[-1])
    assert [] == [kind for kind in kinds if kind.startswith("tool-output")]


class Censor:
    def after_model(self, response: object) -> None:
        raise Halt("I may not.")


@pytest.mark.parametrize(("hooks", "answer"), [([], "A pond."), ([Censor()], "I may not.")])
def test_answer_that_the_model_has_not_written(hooks: list[object], answer: str) -> None:
    """The result of a tool, or the text of a hook, that is the answer is a text of its own, after that of its turn."""

    @tool(return_direct=True)
    def look() -> str:
        """Look."""
        return "A pond."

    response = ModelResponse(text="Wait.", calls=(ToolCall(name="look"),))
    runner = Runner([look], model=ScriptedModel([response]), hooks=hooks)
    deltas = [part for part in vercel.encode_events(runner.stream("x")) if part["type"] == "text-delta"]

    assert [("text-1", "Wait."), ("text-2", answer)] == [(part["id"], part["delta"]) for part in deltas]


def test_leaving_ends_the_run() -> None:
    """Whoever closes the lines ends the run, also before the first one."""
    runner = Runner(model=ScriptedModel(["One two three."]), max_runs=1)
    unread = runner.stream("x")
    vercel.encode_sse(unread).close()
    assert [] == list(unread)

    lines = vercel.encode_sse(runner.stream("x"))
    next(lines)
    lines.close()

    assert [] == list(lines)
    assert "One two three." == runner.run("x").output


# -- what a client sends


@pytest.mark.parametrize("go", [Runner.run, Runner.arun])
def test_no_stream(go: Any) -> None:
    """What is no stream of events, such as the coroutine of `arun`, is refused at once."""
    with pytest.raises(TypeError, match=r"A (coroutine|RunResult) is not a stream of events: pass runner\.astream"):
        vercel.encode_sse(go(Runner(model=ScriptedModel(["Hi."])), "Hello!"))


FILE = "data:text/plain;base64," + base64.b64encode(b"hello").decode()


def test_prompt() -> None:
    """The prompt is the last message, with its texts, pictures and files."""
    picture = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,MQ=="}
    file = {"type": "file", "mediaType": "text/plain", "url": FILE, "filename": "a.txt"}
    parts = [{"type": "text", "text": "Look:"}, picture, file, {"type": "text", "text": "What is it?"}]

    assert UserMessage(
        "Look:\nWhat is it?", (Image(b"1", "image/png"),), (File(b"hello", "text/plain", "a.txt"),)
    ) == vercel.parse_prompt([{"role": "assistant", "parts": []}, {"role": "user", "parts": parts}])


NO_PROMPTS: dict[str, tuple[Any, str]] = {
    "nothing": ([], "messages must be a list of messages"),
    "a number": (5, "messages must be a list of messages"),
    "a text": ("Hi", "messages must be a list of messages"),
    "of the assistant": ([{"role": "assistant", "parts": []}], "The last message is not from the user"),
    "of an older SDK": ([{"role": "user", "content": "Hi"}], "The last message has no text or file in 'parts'"),
    "a part that is none": ([{"role": "user", "parts": ["Hi"]}], "The last message has no text or file in 'parts'"),
    "a file elsewhere": (
        [{"role": "user", "parts": [{"type": "file", "url": "http://10.0.0.1/a.png"}]}],
        "A file must be sent with its message, as a data: URL, not 'http://10",
    ),
    "no base64": (
        [{"role": "user", "parts": [{"type": "file", "url": "data:image/png;base64,*"}]}],
        "is not valid base64",
    ),
}


@pytest.mark.parametrize(("messages", "text"), NO_PROMPTS.values(), ids=NO_PROMPTS)
def test_no_prompt(messages: Any, text: str) -> None:
    """What is no message of the user is refused, and no file is fetched from elsewhere."""
    with pytest.raises(ValueError, match=text):
        vercel.parse_prompt(messages)


ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Decision]]] = {
    "approved": ({"state": "approval-responded", "approval": {"id": "r", "approved": True}}, {"r": Decision.approve()}),
    "rejected": (
        {"state": "approval-responded", "approval": {"id": "r", "approved": False, "reason": "No."}},
        {"r": Decision.reject("No.")},
    ),
    "nearly": ({"state": "approval-responded", "approval": {"id": "r", "approved": "true"}}, {"r": Decision.reject()}),
    "waits": ({"state": "approval-requested", "approval": {"id": "r"}}, {}),
    "was executed": ({"state": "output-available", "approval": {"id": "r", "approved": True}}, {}),
    "none": ({"state": "approval-responded", "approval": None}, {}),
}


@pytest.mark.parametrize(("part", "decisions"), ANSWERS.values(), ids=ANSWERS)
def test_decisions(part: dict[str, Any], decisions: dict[str, Decision]) -> None:
    """An answer is a decision on its call, and an approval only if it is literally true."""
    assert decisions == vercel.parse_decisions([{"role": "assistant", "parts": [{"type": "tool-pay", **part}]}])


def test_rejected_call() -> None:
    """A call that the client rejected is denied, since the client has its answer; another approver's answer is sent."""
    script = [call("pay", amount=5), call("pay", amount=6), "Done."]
    stream = Runner([pay], model=ScriptedModel(script), approve=defer).stream("x")
    (waiting,) = [part for part in vercel.encode_events(stream) if part["type"] == "tool-approval-request"]
    runner = Runner([pay], model=ScriptedModel(script[1:]), approve=lambda _: False)
    resumed = runner.stream(stream.result.state, decisions={waiting["approvalId"]: Decision.reject("No.")})

    outputs = [part for part in vercel.encode_events(resumed) if part["type"].startswith("tool-output")]
    assert {"type": "tool-output-denied", "toolCallId": waiting["toolCallId"]} == outputs[0]
    assert ["Tool execution was rejected by the user."] == [part["errorText"] for part in outputs[1:]]


def test_calls_of_a_sub_agent() -> None:
    """The calls that a sub-agent makes are data, and the run's own calls are parts."""
    payer = Runner([pay], model=ScriptedModel([call("pay", amount=1), "Paid."]))
    boss = Runner([payer.as_tool("payer", "Pays.")], model=ScriptedModel([call("payer", query="x"), "Done."]))
    parts = [*vercel.encode_events(boss.stream("x"))]

    assert ["payer"] == [part["toolName"] for part in parts if part["type"] == "tool-input-available"]


@pytest.mark.parametrize("approve", [None, defer], ids=["calls wait", "the sub-agent waits, too"])
def test_approvals_inside_sub_agents(approve: Any) -> None:
    """A call inside a sub-agent that waited goes on, and gets its result: its answer is not sent with the next one."""
    payer = Runner([pay], model=ScriptedModel([call("pay", amount=1), call("pay", amount=2), "Paid."]), approve=defer)
    clerk_model = ScriptedModel([call("payer", query="x"), "Asked."])
    clerk = Runner([payer.as_tool("payer", "Pays.")], model=clerk_model, approve=approve)
    boss = Runner([clerk.as_tool("clerk", "Asks.")], model=ScriptedModel([call("clerk", query="x"), "Done."]))
    prompt: Any = "x"
    text = ""
    answers, outputs = dict[str, Any](), list[str]()  # the client's message: its answers to calls that wait
    while text != "Done.":
        message = {"role": "assistant", "parts": [*answers.values()]}
        stream = boss.stream(prompt, decisions=vercel.parse_decisions([message]))
        for part in vercel.encode_events(stream):
            if part["type"] == "tool-approval-request":
                approval = {"id": part["approvalId"], "approved": True}
                answers[part["toolCallId"]] = {"state": "approval-responded", "approval": approval}
            if part["type"] in ("tool-input-available", "tool-output-available"):  # the part's new state
                answers.pop(part["toolCallId"], None)
            if part["type"] == "tool-output-available":
                outputs.append(part["output"])
        prompt, text = stream.result.state, stream.result.output

    assert ["paid 1", "paid 2", "Paid.", "Asked."] == outputs


# -- the SDK's own parser

NODE = shutil.which("node")
READER = Path(__file__).with_name("read_ui_stream.mjs")
MODULES = [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep) if place]
PACKAGE = next((place for place in MODULES if (place / "ai" / "package.json").is_file()), None)
needs_sdk = pytest.mark.skipif(NODE is None or PACKAGE is None, reason="needs Node.js, and NODE_PATH with `ai`")


def read_by_sdk(lines: Iterator[str], message: Any = None) -> tuple[dict[str, Any], list[str]]:
    """Return the message that the SDK makes of server-sent events, and its errors."""
    text = json.dumps(message) + "\n" + "".join(lines)
    command = [str(NODE), str(READER), f"{PACKAGE}/"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert "" == done.stderr
    found = json.loads(done.stdout)
    return found["message"], found["errors"]


@needs_sdk
def test_message_of_the_sdk() -> None:
    """The SDK makes of a run a message with its text, and its call with input and output; progress is transient."""

    def look(context: ToolContext) -> list[Any]:
        """Look."""
        context.progress("It is dark.")
        return ["A pond.", Image(PNG, "image/png")]

    model = ScriptedModel([[call("look")], ModelResponse(reasoning="Hm.", text="It is a pond.")])
    message, errors = read_by_sdk(vercel.encode_sse(Runner([look], model=model).stream("x"), message_id="m"))

    assert [] == errors
    assert ["step-start", "tool-look", "file", "step-start", "reasoning", "text"] == [
        part["type"] for part in message["parts"]
    ]
    assert ("m", "output-available", "It is a pond.") == (
        message["id"],
        message["parts"][1]["state"],
        message["parts"][-1]["text"],
    )
    assert "stop" == message["metadata"]["finishReason"]


@needs_sdk
@pytest.mark.parametrize(("approved", "end"), [(True, "output-available"), (False, "output-denied")])
def test_approval_in_the_sdk(approved: bool, end: str) -> None:
    """A call waits in the SDK's message; answered there, the resumed run gives that same call its result."""
    runner = Runner([pay], model=ScriptedModel([[call("pay", amount=5)], "Done."]), approve=defer)
    stream = runner.stream("x")
    message, errors = read_by_sdk(vercel.encode_sse(stream))
    part = message["parts"][1]
    assert ([], "approval-requested") == (errors, part["state"])
    answered = {**part, "state": "approval-responded", "approval": {**part["approval"], "approved": approved}}
    message["parts"][1] = answered

    resumed = runner.stream(stream.result.state, decisions=vercel.parse_decisions([message]))
    whole, errors = read_by_sdk(vercel.encode_sse(resumed), message)
    assert ([], message["id"]) == (errors, whole["id"])
    assert [("tool-pay", end, "paid 5" if approved else None)] == [
        (part["type"], part["state"], part.get("output")) for part in whole["parts"] if part["type"].startswith("tool-")
    ]
    assert "Done." == whole["parts"][-1]["text"]


@needs_sdk
def test_cancelled_question_in_the_sdk() -> None:
    """An application can load a chat again whose run was cancelled while a call waited."""
    runner = Runner([pay], model=ScriptedModel([[call("pay", amount=5)]]), approve=defer)
    message, errors = read_by_sdk(vercel.encode_sse(leave_question(runner)))

    assert ([], "approval-requested") == (errors, message["parts"][1]["state"])


@needs_sdk
def test_error_in_the_sdk() -> None:
    """The SDK reports a run that has failed."""
    _, errors = read_by_sdk(vercel.encode_sse(Runner(model=ScriptedModel([RuntimeError()])).stream("x")))

    assert ["Error: The run failed: RuntimeError."] == errors


# -- any run

CALL = ToolCall(name="add", arguments='{"a": 1, "b": 2}', id="r_0")
ODD = ToolCall(name="\ud83d", arguments='{"a": 1e999, ', id="r_1")
PENDING = PendingApproval(call=CALL, arguments="{}", reason="", digest="d")
TURN = st.lists(
    st.sampled_from(
        [
            TextDelta("\ud83d"),
            ReasoningDelta("hm"),
            ToolCallStarted(CALL),
            ToolCallFinished(ODD, ToolResult(text="3"), 0.0),
            TurnFinished(turn=0, response=ModelResponse(calls=(CALL, ODD), text="a", reasoning="b")),
            MessageAdded(UserMessage("c")),
            ApprovalNeeded(PENDING),
            ToolCallUpdated(ODD, partial=ToolResult(text="x", images=(Image(b""),))),
            TurnStarted(turn=1),
            TurnStarted(turn=2),
        ]
    )
)
ENDINGS = st.sampled_from(
    [[], *([RunFinished(output="Hi.", finish_reason=reason, usage=Usage())] for reason in ("stop", "cancelled"))]
)


@given(TURN, ENDINGS, st.booleans())
def test_any_run(turn: list[Event], ending: list[Event], fails: bool) -> None:
    """In whatever order things happen, and wherever it ends: all is closed, strict JSON, calls before results."""

    def run() -> Iterator[Event]:
        yield from [RunStarted(run_id="r", model="m"), *turn, *ending]
        if fails:
            raise ValueError

    parts = list(vercel.encode_events(run()))
    assert [] == left_open(parts)
    assert (parts[-1]["type"] == "error") == (fails or not ending)
    json.dumps(parts, allow_nan=False).encode()
    known = set[str]()
    for part in parts:
        if part["type"] == "tool-input-available":
            known.add(part["toolCallId"])
        elif "toolCallId" in part and part["type"] != "tool-input-start":
            assert part["toolCallId"] in known


@needs_sdk
@pytest.mark.parametrize("fails", [False, True])
def test_any_order_in_the_sdk(fails: bool) -> None:
    """The SDK takes every sort of part."""

    async def run() -> AsyncIterator[Event]:
        events: list[Any] = [RunStarted(run_id="r", model="m"), TurnStarted(turn=0)]
        for event in events:
            yield event
        for event in (TextDelta("a"), ReasoningDelta("b"), TextDelta("c"), ApprovalNeeded(PENDING)):
            yield event
        yield ToolCallUpdated(ODD, text="half")
        yield ToolCallFinished(ODD, ToolResult(text="no", error="no"), 0.0)
        yield MessageAdded(UserMessage("d"))
        if fails:
            raise ValueError
        yield RunFinished(output="", finish_reason="max_turns", usage=Usage(1, 2, 3))

    async def read() -> list[str]:
        return [line async for line in vercel.encode_sse(run())]

    message, errors = read_by_sdk(iter(asyncio.run(read())))
    assert (["Error: The run failed: ValueError."] if fails else []) == errors
    assert ["step-start", "text", "reasoning", "text", "tool-add", "tool-\ufffd", "data-messageAdded"] == [
        part["type"] for part in message["parts"]
    ]
