"""Calls as data: saved, compared, executed later, alone or together; and in a run."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import jsonschema  # type: ignore[import-untyped]
import pytest
from pydantic import BaseModel

from tests.servers import FakeServer
from toolkit import (
    ApprovalRequest,
    FatalError,
    Runner,
    RunResult,
    RunState,
    Tool,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)
from toolkit.approvers import defer
from toolkit.calls import calls_schema, parse_calls
from toolkit.events import ToolCallFinished, ToolCallStarted
from toolkit.models import ModelResponse, ToolMessage
from toolkit.testing import ScriptedModel, reply


class Forecast(BaseModel):
    """A forecast."""

    days: int


SENTIMENT = Tool.from_schema(
    "sentimentAnalysis",
    {
        "description": "Analyzes text sentiment",
        "properties": {
            "text": {"type": "string"},
            "_reasoningForCall": {"type": "string"},
            "_output": {"type": "object", "properties": {"sentiment": {"type": "string"}}, "required": ["sentiment"]},
        },
        "required": ["text"],
    },
)


@tool
def weather(city: str) -> str:
    """Check the weather."""
    return f"rain in {city}"


@tool
def broken(city: str = "") -> str:
    """Fail."""
    raise ToolError(f"no {city or 'weather'}")


@tool
def fatal() -> str:
    """End everything."""
    raise FatalError("no more")


class Slow:
    """Tools that end when they are cancelled, and record it."""

    def __init__(self) -> None:
        self.started, self.ended = threading.Event(), threading.Event()

    @tool
    def slow(self, context: ToolContext) -> str:
        """Work until it is cancelled."""
        self.started.set()
        context.cancellation.subscribe(self.ended.set)
        self.ended.wait(20)
        return f"cancelled: {context.cancelled}"

    @tool
    async def slow_later(self) -> str:
        """Wait until it is cancelled."""
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended.set()
            raise
        return ""

    @tool
    def after(self) -> str:
        """Answer once the slow one is running."""
        self.started.wait(20)
        return "after"


def made(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=json.dumps(arguments))


SAD = made("sentimentAnalysis", text="Rain again.", _output={"sentiment": "sad"})
OSLO = made("weather", city="Oslo")
Way = Callable[..., list[ToolResult]]
WAITS = ("all", "success", "first")


def call_sync(box: Toolbox, wait: Any, calls: Any, *context: Any) -> list[ToolResult]:
    return box.call_many(calls, *context, wait=wait)


def in_a_loop(box: Toolbox, wait: Any, calls: Any, *context: Any) -> list[ToolResult]:
    return asyncio.run(box.acall_many(calls, *context, wait=wait))


both_ways = pytest.mark.parametrize("go", [call_sync, in_a_loop], ids=["sync", "async"])


def texts(results: Sequence[ToolResult]) -> list[str | None]:
    return [result.text for result in results]


# Data


CALLS = {
    "name": ToolCall(name="weather"),
    "arguments": OSLO,
    "all": ToolCall(
        name="weather", arguments='{"city": "Tromsø"}', id="1", provider_call_id="p", reasoning="They asked.",
        instance="b", output_path="a.b", imports=("city",), wire_arguments="{}", namespace="n",
    ),
    "broken": ToolCall(name="", arguments="{"),
    "no arguments": ToolCall(name="weather", arguments=""),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_round_trip(call: ToolCall) -> None:
    """A call is the same after it was written as JSON, which is readable."""
    text = call.to_json()

    assert call == ToolCall.from_json(text)
    assert call.name == json.loads(text)["name"]


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "NaN", "{}", "{", '{"name": 5}', '{"name": "x", "more": 1}', '{"name": "x", "arguments": {}}',
        '{"name": "x", "imports": "city"}', '{"name": "x", "imports": [1]}', '{"name": "x", "imports": null}',
    ],
)  # fmt: skip
def test_invalid_json(text: str) -> None:
    """Text that is not a call raises ValueError, which says so."""
    with pytest.raises(ValueError, match="^This is not a tool call: "):
        ToolCall.from_json(text)


def test_call_of_wrong_types() -> None:
    """A call whose arguments are not a text is refused when it is written."""
    with pytest.raises(TypeError, match=r"arguments=\{'n': 1\} is not text"):
        ToolCall(name="a", arguments=cast("Any", {"n": 1})).to_json()


def test_saved_call() -> None:
    """A saved call is executed by the handler of that time: first the model's output, then a function."""
    box = Toolbox([SENTIMENT])
    saved = SAD.to_json()
    latent = box.call_many([ToolCall.from_json(saved)])[0].value
    box.bind("sentimentAnalysis", lambda text: {"sentiment": f"wet: {text}"})

    assert {"sentiment": "sad"} == latent
    assert {"sentiment": "wet: Rain again."} == box.call_many([ToolCall.from_json(saved)])[0].value


# A reply that lists calls

FOR_OSLO = {"_tool": "weather", "city": "Oslo"}


def test_parse_reply() -> None:
    """Calls are returned in the order of the reply, without the meta fields among their arguments."""
    written = [
        {"_tool": SENTIMENT.name, "_reasoningForCall": "Mood?", "text": "a", "_output": {"sentiment": "b"}},
        {"_tool": "weather", "_activity": "weather", "city": "Oslo"},
        {"_tool": "weather", "_activity": "weather", "city": "Rome"},
    ]  # fmt: skip
    calls = parse_calls(Toolbox([SENTIMENT, weather]), json.dumps({"calls": written, "output": None}))

    assert ["sentimentAnalysis", "weather", "weather"] == [call.name for call in calls]
    assert ["Mood?", "", ""] == [call.reasoning for call in calls]
    assert [{"text": "a", "_output": {"sentiment": "b"}}, {"city": "Oslo"}, {"city": "Rome"}] == [
        json.loads(call.arguments) for call in calls
    ]


def test_output_of_an_explicit_call_is_ignored() -> None:
    """The output that a model writes for a tool with a function is not the result."""
    box = Toolbox([SENTIMENT])
    box.bind("sentimentAnalysis", lambda text: {"sentiment": "bound"})
    [call] = parse_calls(
        box, json.dumps({"calls": [{"_tool": "sentimentAnalysis", "text": "a", "_output": {"no": 1}}]})
    )

    assert {"sentiment": "bound"} == box.call_many([call])[0].value


def test_reply_without_calls() -> None:
    """An empty list of calls is valid."""
    box = Toolbox([weather])

    assert () == parse_calls(box, '{"calls": [], "output": "Rain."}')
    assert [] == box.call_many(())


NO_REPLIES: list[Any] = ["", "[]", "{}", '{"calls": {}}', "Rain.", '{"calls": [', {"calls": 5}, None, 5, "[" * 999]


@pytest.mark.parametrize("text", NO_REPLIES, ids=lambda text: str(text)[:12])
def test_no_reply(text: Any) -> None:
    """A text that lists no calls is refused, with a message for the model."""
    with pytest.raises(ToolError, match='Invalid reply: it is not a JSON object with a list "calls"'):
        parse_calls(Toolbox([weather]), text)


IN_OSLO = json.dumps({"calls": [FOR_OSLO]})


@pytest.mark.parametrize(
    "reply",
    [{"calls": [FOR_OSLO]}, IN_OSLO.encode(), f"```json\n{IN_OSLO}\n```", f"```{IN_OSLO}```"],
    ids=["object", "bytes", "fence", "fence in one line"],
)
def test_forms_of_a_reply(reply: Any) -> None:
    """A reply may be an object, bytes, or text in a Markdown fence."""
    assert ["weather"] == [call.name for call in parse_calls(Toolbox([weather]), reply)]


@pytest.mark.parametrize(
    "text",
    [
        '{"calls": [{"_tool": "weather", "city": "Rome", "city": "Oslo"}]}',
        '{"calls": [{"_tool": "climate", "city": "Oslo", "_tool": "weather"}]}',
        '{"calls": [], "calls": [{"_tool": "weather", "city": "Oslo"}]}',
    ],
    ids=["in a call", "the tool", "in the reply"],
)
def test_equal_keys_in_a_reply(text: str) -> None:
    """Of equal keys the last one wins, as for every reader of JSON."""
    assert [("weather", {"city": "Oslo"})] == [
        (call.name, json.loads(call.arguments)) for call in parse_calls(Toolbox([weather]), text)
    ]


def test_no_number_in_a_reply() -> None:
    """NaN is read, and refused by the tool."""
    box = Toolbox([weather])
    (call,) = parse_calls(box, '{"calls": [{"_tool": "weather", "city": NaN}]}')

    assert "received NaN" in box.call_many([call])[0].text


def test_invalid_items() -> None:
    """An item that is not a call has an error result in its place."""
    items = [7, None, "weather", [FOR_OSLO], {"_tool": None}, {}, FOR_OSLO]
    box = Toolbox([weather])

    assert ["not_found"] * 6 + [None] == [
        result.kind for result in box.call_many(parse_calls(box, json.dumps({"calls": items})))
    ]


@pytest.mark.parametrize("half", ["\\ud83d", "\ud83d"], ids=["escaped", "raw"])
def test_surrogate_in_a_reply(half: str) -> None:
    """A call with half of a surrogate pair is refused; the others are executed."""
    box = Toolbox([weather])
    text = f'{{"calls": [{{"_tool": "weather", "city": "{half}"}}, {json.dumps(FOR_OSLO)}]}}'

    assert ["invalid_arguments", None] == [result.kind for result in box.call_many(parse_calls(box, text))]


@pytest.mark.parametrize("own", [True, False], ids=["of the toolbox", "of the call"])
def test_strict_reply(own: bool) -> None:
    """A reply of the strict schema is decoded as such, if the toolbox or the caller is strict."""

    def total(first: int = 1, more: dict[str, int] | None = None) -> int:
        return first + sum((more or {}).values())

    box, strict = (Toolbox([total], strict=True), None) if own else (Toolbox([total]), True)
    call = {"_tool": "total", "_activity": "total", "first": None, "more": [{"key": "a", "value": 2}]}
    jsonschema.validate({"calls": [call], "output": None}, calls_schema(box, strict=strict))

    assert [3] == [result.value for result in box.call_many(parse_calls(box, {"calls": [call]}, strict=strict))]


def test_schema_without_tools() -> None:
    """Without tools the schema allows no call."""
    schema = calls_schema(Toolbox([]))
    jsonschema.Draft202012Validator.check_schema(schema)
    accepted = [jsonschema.Draft202012Validator(schema).is_valid({"calls": c, "output": None}) for c in ([], [None])]

    assert [True, False] == accepted


def test_unknown_tool_of_a_reply() -> None:
    """A call of an unknown tool is an error result that lists the tools."""
    box = Toolbox([weather])
    results = box.call_many(parse_calls(box, '{"calls": [{"_tool": "wether", "city": "Oslo"}, {"city": "Oslo"}]}'))

    assert ["not_found", "not_found"] == [result.kind for result in results]
    assert "'wether'; did you mean 'weather'" in str(results[0].text)


ACCEPTED: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "none": ([], True),
    "latent": ([{"_tool": "sentimentAnalysis", "_activity": "", "text": "a", "_output": {"sentiment": "b"}}], True),
    "explicit": ([{"_tool": "weather", "_activity": "weather", "city": "Oslo"}], True),
    "twice": ([{"_tool": "weather", "_activity": "weather", "city": "Oslo"}] * 2, True),
    "latent, without its output": ([{"_tool": "sentimentAnalysis", "_activity": "", "text": "a"}], False),
    "explicit, with an output": ([{"_tool": "weather", "_activity": "weather", "city": "a", "_output": "b"}], False),
    "another's arguments": ([{"_tool": "weather", "_activity": "weather", "text": "a"}], False),
    "another's activity": ([{"_tool": "weather", "_activity": "", "city": "a"}], False),
    "unknown": ([{"_tool": "wether", "_activity": "", "city": "a"}], False),
}


@pytest.mark.parametrize(("calls", "is_valid"), ACCEPTED.values(), ids=ACCEPTED)
def test_schema_of_calls(calls: list[dict[str, Any]], is_valid: bool) -> None:
    """The composed schema accepts the arguments of the tools and nothing else, by another validator too."""
    schema = calls_schema(Toolbox([SENTIMENT, weather]))
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.Draft202012Validator(schema)

    assert is_valid is checker.is_valid({"calls": calls, "output": None})


def test_meta_fields_come_first() -> None:
    """Each tool is listed once, with its meta fields first."""
    schema = calls_schema(Toolbox([SENTIMENT, weather]))

    assert [
        ["_tool", "_activity", "_reasoningForCall", "_output", "text"],
        ["_tool", "_activity", "city"],
    ] == [list(shown["properties"]) for shown in schema["properties"]["calls"]["items"]["anyOf"]]


# All, the first success, the first end


@both_ways
def test_one_call(go: Way) -> None:
    """One call has one result; a failure of the tool is a result."""
    box = Toolbox([SENTIMENT, broken])

    assert [{"sentiment": "sad"}] == [result.value for result in go(box, "all", [SAD])]
    assert [("no weather", "failed")] == [result[1:4:2] for result in go(box, "all", [made("broken")])]


@both_ways
def test_all(go: Way) -> None:
    """All results come in the order of the calls, failures among them."""
    box = Toolbox([SENTIMENT, broken, weather])

    assert ["no weather", "rain in Oslo", '{"sentiment":"sad"}'] == texts(go(box, "all", [made("broken"), OSLO, SAD]))


@both_ways
def test_all_at_the_same_time(go: Way) -> None:
    """Calls run at the same time: calls that wait for each other end."""
    turn = threading.Barrier(3, timeout=20)

    @tool
    def meet(number: int) -> int:
        turn.wait()
        return number

    assert [0, 1, 2] == [
        result.value for result in go(Toolbox([meet]), "all", [made("meet", number=n) for n in range(3)])
    ]


@both_ways
def test_one_call_twice(go: Way) -> None:
    """The same call may be given twice, and is executed twice."""
    seen: list[str] = []

    @tool
    def note(word: str) -> str:
        seen.append(word)
        return word

    saved = made("note", word="a")
    assert ["a", "a"] == texts(go(Toolbox([note]), "all", [saved, saved]))
    assert ["a", "a"] == seen


@both_ways
@pytest.mark.parametrize(
    ("wait", "errors"), [("all", []), ("success", ["there is no call"]), ("first", ["there is no call"])]
)
def test_no_calls(go: Way, wait: str, errors: list[str]) -> None:
    """Without calls there is no result; waiting for one is an error."""
    assert errors == [result.error for result in go(Toolbox([weather]), wait, [])]


@both_ways
def test_first_success(go: Way) -> None:
    """The first success is the only result, whatever failed before."""
    box = Toolbox([broken, weather])

    assert ["rain in Oslo"] == texts(go(box, "success", [made("broken"), made("wether"), OSLO]))


@both_ways
def test_no_success(go: Way) -> None:
    """If no call succeeds, the error has those of all, in call order."""
    [ended] = go(Toolbox([broken]), "success", [made("broken", city=city) for city in "abc"])

    assert ("broken: no a; broken: no b; broken: no c", "failed") == (ended.error, ended.kind)


@both_ways
def test_first_end(go: Way) -> None:
    """The first call that ends is the only result, also if it failed."""
    slow = Slow()

    @tool
    def broken_after() -> str:
        slow.started.wait(20)  # a call that has not started is left out, and notices no end
        raise ToolError("no weather")

    box = Toolbox([slow.slow, broken_after])

    assert ["no weather"] == texts(go(box, "first", [made("slow"), made("broken_after")]))
    assert slow.ended.wait(20)


@both_ways
@pytest.mark.parametrize("loser", ["slow", "slow_later"])
@pytest.mark.parametrize("wait", ["success", "first"])
def test_losers_are_cancelled(go: Way, wait: str, loser: str) -> None:
    """Once there is a winner, the other calls are cancelled: by their context, or as tasks."""
    slow = Slow()
    box = Toolbox([slow.slow, slow.slow_later, slow.after])

    [result] = go(box, wait, [made(loser), made("after")])
    assert result.text == "after"
    assert slow.ended.wait(20)


@both_ways
@pytest.mark.parametrize("wait", WAITS)
def test_fatal_error_leaves(go: Way, wait: str) -> None:
    """A FatalError is raised to the caller."""
    with pytest.raises(FatalError, match="no more"):
        go(Toolbox([fatal]), wait, [made("fatal")])


@both_ways
def test_unknown_wait(go: Way) -> None:
    """Another value of `wait` is refused by an error that lists the three, and nothing is called."""
    with pytest.raises(ValueError, match='wait=\'any\' is not "all", "success" or "first"'):
        go(Toolbox([fatal]), "any", [made("fatal")])


@both_ways
@pytest.mark.parametrize("references", [False, True], ids=["plain", "references"])
def test_fatal_error_cancels_the_others(go: Way, references: bool) -> None:
    """A FatalError cancels the calls that are still running."""
    slow = Slow()

    @tool
    def fatal_after() -> str:
        """End everything once the slow one is running."""
        slow.started.wait(20)
        raise FatalError("no more")

    with pytest.raises(FatalError, match="no more"):
        go(Toolbox([slow.slow, fatal_after], references=references), "all", [made("slow"), made("fatal_after")])

    assert slow.ended.wait(20)


@pytest.mark.parametrize(
    ("verb", "given"),
    [("acall_many", [[made("slow")]]), ("acall", ["slow"])],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_calls_of_a_cancelled_task(verb: str, given: list[Any]) -> None:
    """A sync tool is cancelled if its caller's task is; the caller's own context is not."""
    slow, context = Slow(), ToolContext(deps=None)

    async def leave() -> None:
        working = asyncio.create_task(getattr(Toolbox([slow.slow]), verb)(*given, *[{}] * (verb == "acall"), context))
        await asyncio.to_thread(slow.started.wait, 20)
        working.cancel()
        await asyncio.wait([working])

    asyncio.run(leave())
    assert (True, False) == (slow.ended.wait(20), context.cancelled)


OTHERS: dict[str, tuple[str, Any, str]] = {
    "a dict": ("all", [{"name": "weather"}], r"is not a ToolCall: ToolCall\.from_dict\(data\)"),
    "a text": ("all", ["weather"], r"'weather' is not a ToolCall"),
    "one call for many": ("all", OSLO, r"Calls come in a list, so write \[ToolCall"),
    "arguments as a dict": (
        "all", [ToolCall(name="weather", arguments=cast("Any", {"city": "Oslo"}))], r"so write json\.dumps\(\{'city'",
    ),
    "a dict among many": ("first", [OSLO, {}], r"\{\} is not a ToolCall"),
}  # fmt: skip


@both_ways
@pytest.mark.parametrize(("wait", "given", "text"), OTHERS.values(), ids=OTHERS)
def test_invalid_calls(go: Way, wait: str, given: Any, text: str) -> None:
    """An object that is not a call raises a TypeError that says how to make one."""
    with pytest.raises(TypeError, match=text):
        go(Toolbox([weather]), wait, given)


@both_ways
@pytest.mark.parametrize("wait", WAITS)
def test_cancelling_the_context(go: Way, wait: str) -> None:
    """Cancelling the context cancels the calls that were made with it."""
    slow, context = Slow(), ToolContext(deps=None)
    threading.Thread(target=lambda: slow.started.wait(20) and context.cancellation.cancel()).start()
    [ended] = go(Toolbox([slow.slow]), wait, [made("slow")], context)

    assert slow.ended.wait(20)
    assert re.search("cancelled: True|Cancelled", str(ended.text))


@both_ways
def test_context(go: Way) -> None:
    """Each call gets the fields of the context, with its own ids."""

    @tool
    def describe(context: ToolContext[str]) -> list[str]:
        return [context.deps, context.tool_name, context.call_id, context.provider_call_id]

    call = ToolCall(name="describe", id="1", provider_call_id="p")
    [result] = go(Toolbox([describe]), "all", [call], ToolContext(deps="db"))

    assert ["db", "describe", "1", "p"] == result.value


def test_in_a_running_loop() -> None:
    """The sync forms work where a loop is running, too."""

    async def inside() -> str | None:
        return Toolbox([weather]).call_many([OSLO])[0].text

    assert "rain in Oslo" == asyncio.run(inside())


# In a run


WRITTEN: list[tuple[str, dict[str, Any]]] = [
    ("sentimentAnalysis", {"_reasoningForCall": "Mood?", "text": "Rain.", "_output": {"sentiment": "sad"}}),
    ("weather", {"city": "Oslo"}),
    ("sentimentAnalysis", {"text": "Sun.", "_output": {"mood": "glad"}}),
    ("sentimentAnalysis", {"text": "Sun.", "_output": {"sentiment": "glad"}}),
]
SPOKEN: dict[str, dict[str, Any]] = {"chat": {}, "responses": {"api": "responses"}, "calls": {"dialect": "calls"}}
DIALECTS = pytest.mark.parametrize("dialect", SPOKEN)


def as_reply(dialect: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> reply:
    if dialect != "calls":
        return reply.calls(*calls)
    listed = [{"_tool": name, **arguments} for name, arguments in calls]
    return reply.text(json.dumps({"calls": listed, "output": None}))


def as_answer(dialect: str, text: str) -> reply:
    return reply.text(json.dumps({"calls": [], "output": text}) if dialect == "calls" else text)


def run_dialect(dialect: str, backend: str, box: Toolbox, **options: Any) -> RunResult[str]:
    with FakeServer([as_reply(dialect, WRITTEN), as_answer(dialect, "Rain, and sad.")]) as server:
        runner = Runner(box, model="fake", base_url=server.base_url, **SPOKEN[dialect], **options)
        return asyncio.run(runner.arun("How is it?")) if backend == "arun" else runner.run("How is it?")


def list_messages(result: RunResult[str]) -> list[Any]:
    """List the messages without what only one provider has."""
    seen: list[Any] = []
    for message in result.messages:
        if isinstance(message, ModelResponse):
            seen.append(
                [message.text, *((made.name, json.loads(made.arguments), made.reasoning) for made in message.calls)]
            )
        elif isinstance(message, ToolMessage):
            seen.append((message.name, message.text, message.is_error))
    return seen


LATENT_TRANSCRIPT = [
    [
        "",
        ("sentimentAnalysis", {"text": "Rain.", "_output": {"sentiment": "sad"}}, "Mood?"),
        ("weather", {"city": "Oslo"}, ""),
        ("sentimentAnalysis", {"text": "Sun.", "_output": {"mood": "glad"}}, ""),
        ("sentimentAnalysis", {"text": "Sun.", "_output": {"sentiment": "glad"}}, ""),
    ],
    ("sentimentAnalysis", '{"sentiment":"sad"}', False),
    ("weather", "rain in Oslo", False),
    (
        "sentimentAnalysis",
        (
            "Invalid arguments: _output.sentiment: missing, but required. "
            "Expected: sentimentAnalysis(_output: object, text: string)"
        ),
        True,
    ),
    ("sentimentAnalysis", '{"sentiment":"glad"}', False),
    ["Rain, and sad."],
]


@DIALECTS
@pytest.mark.parametrize("backend", ["run", "arun"])
def test_transcript(dialect: str, backend: str) -> None:
    """Latent and explicit calls can be in one response, and every dialect has the same conversation."""
    assert LATENT_TRANSCRIPT == list_messages(run_dialect(dialect, backend, Toolbox([SENTIMENT, weather])))


@DIALECTS
@pytest.mark.parametrize("backend", ["run", "arun"])
def test_transcript_when_bound(dialect: str, backend: str) -> None:
    """Once a function is bound, the same responses have its results, and no outputs of the model."""
    box = Toolbox([SENTIMENT, weather])
    box.bind("sentimentAnalysis", lambda text: {"sentiment": text.lower()})
    seen = list_messages(run_dialect(dialect, backend, box))

    assert [{"text": "Rain."}, {"city": "Oslo"}, {"text": "Sun."}, {"text": "Sun."}] == [
        made[1] for made in seen[0][1:]
    ]
    assert ['{"sentiment":"rain."}', "rain in Oslo", '{"sentiment":"sun."}', '{"sentiment":"sun."}'] == [
        text for _, text, _ in seen[1:5]
    ]


@pytest.mark.parametrize("backend", ["run", "arun"])
def test_scripted_model(backend: str) -> None:
    """A scripted model's calls of latent tools are executed as a server's are."""
    box = Toolbox([SENTIMENT, weather])
    runner = Runner(box, model=ScriptedModel([[SAD, OSLO], "Rain."]))
    result = asyncio.run(runner.arun("?")) if backend == "arun" else runner.run("?")

    assert ['{"sentiment":"sad"}', "rain in Oslo"] == [done.result.text for done in result.calls]


@DIALECTS
def test_reasoning(dialect: str) -> None:
    """The reason of a call is in the call and its events, and not in the function's arguments."""
    box = Toolbox([SENTIMENT, weather])
    with FakeServer([as_reply(dialect, WRITTEN[:1]), as_answer(dialect, "Sad.")]) as server:
        runner = Runner(box, model="fake", base_url=server.base_url, **SPOKEN[dialect])
        events = list(runner.stream("?"))

    seen = [event.call.reasoning for event in events if isinstance(event, (ToolCallStarted, ToolCallFinished))]
    assert ["Mood?", "Mood?"] == seen


@DIALECTS
def test_middleware_sees_the_output(dialect: str) -> None:
    """Middleware sees the output of a latent tool among the arguments."""
    seen: list[tuple[str, list[str]]] = []

    def watching(call: ToolCall, go_on: Callable[[ToolCall], Any]) -> Any:
        seen.append((call.name, sorted(json.loads(call.arguments))))
        return go_on(call)

    run_dialect(dialect, "run", Toolbox([SENTIMENT, weather]), middleware=[watching])
    assert [("sentimentAnalysis", ["_output", "text"])] * 3 + [("weather", ["city"])] == sorted(seen)


@DIALECTS
def test_approval_of_a_latent_call(dialect: str) -> None:
    """An approver sees the output of a latent call and may reject it; invalid outputs are not asked for."""
    asked: list[dict[str, Any]] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(dict(request.arguments))
        return request.arguments.get("_output") != {"sentiment": "sad"}

    box = Toolbox([Tool.from_schema(SENTIMENT.name, WITH_OUTPUT, approve=True), weather])
    seen = list_messages(run_dialect(dialect, "run", box, approve=approve))

    assert [{"text": "Rain.", "_output": {"sentiment": "sad"}}, {"text": "Sun.", "_output": {"sentiment": "glad"}}] == (
        sorted((arguments for arguments in asked if "text" in arguments), key=lambda arguments: arguments["text"])
    )
    assert [True, False, True, False] == [is_error for _, _, is_error in seen[1:5]]


WITH_OUTPUT: dict[str, Any] = {
    "properties": {"text": {"type": "string"}, "_output": SENTIMENT.output_schema or {}, "_reasoningForCall": True}
}


@DIALECTS
def test_missing_activity(dialect: str) -> None:
    """A call of an activity that is not bound is an error result, and the run continues."""
    box = Toolbox([Tool.from_schema(SENTIMENT.name, WITH_OUTPUT, activity="nlp"), weather])
    seen = list_messages(run_dialect(dialect, "run", box))

    assert [("sentimentAnalysis", "activity not found: nlp", True), ("weather", "rain in Oslo", False)] == seen[1:3]
    assert ["Rain, and sad."] == seen[-1]


def run_final(
    tools: Sequence[Any], arguments: dict[str, Any], *more: reply, bodies: list[Any] | None = None, **options: Any
) -> RunResult[Any]:
    """Run a reply that has a call of `weather` and an output, and further replies; add the requests' bodies."""
    item = {"_tool": "weather", **arguments}
    first = reply.text(json.dumps({"calls": [item], "output": "I have looked it up."}))
    with FakeServer([first, *more]) as server:
        runner = Runner(tools, model="fake", base_url=server.base_url, dialect="calls", **options)
        result = runner.run("How is it?")
        if result.is_paused:
            state = RunState.from_json(result.state.to_json())
            result = runner.resume(state, {waiting.call.id: True for waiting in result.pending})
        if bodies is not None:
            bodies += [request.body for request in server.requests]
        return result


def test_output_beside_calls() -> None:
    """A reply with calls and an output ends the run once the calls have succeeded; the calls are in the result."""
    result = run_final([weather], {"city": "Oslo"})

    assert ("I have looked it up.", "stop") == (result.output, result.finish_reason)
    assert ["rain in Oslo"] == [done.result.text for done in result.calls]


def test_output_beside_a_call_that_fails() -> None:
    """Where a call fails, the model is asked again instead, and reads its own output beside the error."""
    bodies: list[Any] = []
    result = run_final([weather], {}, as_answer("calls", "I could not look it up."), bodies=bodies)

    assert "I could not look it up." == result.output
    written = next(message["content"] for message in bodies[1]["messages"] if message["role"] == "assistant")
    assert {"calls": [{"_tool": "weather"}], "output": "I have looked it up."} == json.loads(written)


def test_typed_output_beside_calls() -> None:
    """An output that does not fit `output_type` is sent back, and one that does ends the run."""
    items = [{"calls": [{"_tool": "weather", "city": "Oslo"}], "output": {"days": days}} for days in ("many", 3)]
    with FakeServer([reply.text(json.dumps(item)) for item in items]) as server:
        runner = Runner([weather], model="fake", base_url=server.base_url, dialect="calls")
        result = runner.run("How is it?", output_type=Forecast)

    assert (Forecast(days=3), 2) == (result.output, len(result.calls))


def test_output_beside_a_call_that_waits() -> None:
    """A run that is paused for approval ends with the output once the call is approved, from its saved state too."""
    result = run_final([tool(weather, approve=True)], {"city": "Oslo"}, approve=defer)

    assert "I have looked it up." == result.output


def test_surrogate_in_meta_fields() -> None:
    """Half of a surrogate pair in a meta field is replaced, so that the call can be written as UTF-8."""
    item = {"_tool": "sentimentAnalysis", "_reasoningForCall": "a\ud800b", "text": "Rain."}
    [made] = parse_calls(Toolbox([SENTIMENT]), json.dumps({"calls": [item]}))

    assert "a\ufffdb" == made.reasoning
    assert made == ToolCall.from_json(made.to_json().encode().decode())


@DIALECTS
def test_replaced_tool(dialect: str) -> None:
    """A tool that replaces another of its name is the one that is sent and called."""
    box = Toolbox([SENTIMENT, weather])
    box.replace(tool(lambda city: f"sun in {city}", name="weather"))

    assert ("weather", "sun in Oslo", False) == list_messages(run_dialect(dialect, "run", box))[2]
