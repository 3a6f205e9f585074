"""Every dialect, both ways: how tools go out, how calls come back, how they are answered."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, cast

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses import FunctionToolParam, Response
from openai.types.responses.response_input_item_param import FunctionCallOutput
from openai.types.shared_params import FunctionDefinition
from pydantic import TypeAdapter

from tests.servers import FakeServer
from toolkit import DefinitionError, Image, Runner, RunResult, Tool, Toolbox, ToolCall, ToolResult, tool
from toolkit._dialects.calls import Calls
from toolkit._dialects.catalog import APIS, DIALECTS
from toolkit._dialects.chat import Chat, render_message
from toolkit._messages import ToolSpec
from toolkit.models import ModelRequest, ModelResponse, UserMessage
from toolkit.models.openai import OpenAIModel
from toolkit.testing import Reply, reply

PIXEL = Image(b"\x89PNG", "image/png")
PIXEL_TEXT = "iVBORw=="
PIXEL_URL = f"data:image/png;base64,{PIXEL_TEXT}"
NAMES = list(DIALECTS)
PAGE = Path(__file__).parents[2] / "docs" / "providers.md"


@tool
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@tool
def ping() -> str:
    """Answer."""
    return "pong"


@tool
def count(words: dict[str, int]) -> int:
    """Count words."""
    return sum(words.values())


@tool
def grow(größe: int) -> int:
    """Grow."""
    return größe


@tool
def anything(value: Any) -> str:
    """Take anything."""
    return str(value)


SPECS = [made._spec for made in (add, ping, count, grow, anything)]
OPEN: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 0}},
    "required": ["a"],
    "additionalProperties": False,
}
CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": ["integer", "null"], "description": "Default: 0. Send null to leave it out."},
    },
    "required": ["a", "b"],
    "additionalProperties": False,
}
FEW = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "description": "Default: 0."}},
    "required": ["a"],
}
HEAD = {"name": "add", "description": "Add two numbers."}


def spec_giving(output: Any, **more: Any) -> ToolSpec:
    return ToolSpec(
        name="get", description="Get.", parameters={"type": "object", "properties": {}}, output=output, **more
    )


def result_of(kind: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"result": {"type": kind}}, "required": ["result"]}


# -- how tools go out

SHOWN: dict[tuple[str, bool], dict[str, Any]] = {
    ("chat", False): {"type": "function", "function": {**HEAD, "parameters": OPEN}},
    ("chat", True): {"type": "function", "function": {**HEAD, "parameters": CLOSED, "strict": True}},
    ("minimal", False): {"type": "function", "function": {**HEAD, "parameters": FEW}},
    ("responses", False): {"type": "function", **HEAD, "parameters": OPEN, "strict": False},
    ("responses", True): {"type": "function", **HEAD, "parameters": CLOSED, "strict": True},
    ("anthropic", False): {**HEAD, "input_schema": OPEN},
    ("anthropic", True): {**HEAD, "input_schema": {**FEW, "additionalProperties": False}, "strict": True},
    ("gemini", False): {**HEAD, "parameters": FEW},
    ("mcp", False): {**HEAD, "inputSchema": OPEN, "outputSchema": result_of("integer")},
    ("calls", False): {
        "type": "object",
        "description": "Add two numbers.",
        "properties": {"_tool": {"type": "string", "const": "add"}, **OPEN["properties"]},
        "required": ["_tool", "a"],
        "additionalProperties": False,
    },
    ("calls", True): {
        "type": "object",
        "description": "Add two numbers.",
        "properties": {"_tool": {"type": "string", "const": "add"}, **CLOSED["properties"]},
        "required": ["_tool", "a", "b"],
        "additionalProperties": False,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "strict", "shown"),
    [(*key, shown) for key, shown in SHOWN.items()],
    ids=[f"{name}{' strict' * strict}" for name, strict in SHOWN],
)
def test_tool(name: str, strict: bool, shown: dict[str, Any]) -> None:
    """A tool goes out in the form of its provider."""
    assert shown == DIALECTS[name](strict=strict).render_tool(add._spec)


@pytest.mark.parametrize("name", ["minimal", "gemini", "mcp"])
def test_strict_where_there_is_no_such_thing(name: str) -> None:
    """Where a provider enforces nothing, strict changes nothing."""
    assert DIALECTS[name]().render_tool(add._spec) == DIALECTS[name](strict=True).render_tool(add._spec)


NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
EMPTY: dict[str, Any] = {
    "chat": {"type": "function", "function": {"name": "ping", "description": "Answer.", "parameters": NOTHING}},
    "responses": {
        "type": "function",
        "name": "ping",
        "description": "Answer.",
        "parameters": NOTHING,
        "strict": False,
    },
    "anthropic": {"name": "ping", "description": "Answer.", "input_schema": NOTHING},
    "gemini": {"name": "ping", "description": "Answer."},
    "mcp": {
        "name": "ping",
        "description": "Answer.",
        "inputSchema": NOTHING,
        "outputSchema": result_of("string"),
    },
}


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("Maximum results", "Maximum results. Default: 10."),
        ("Results (at most 50)", "Results (at most 50). Default: 10."),
        ("Maximum results.", "Maximum results. Default: 10."),
        ("How many?", "How many? Default: 10."),
        ("", "Default: 10."),
    ],
)
def test_sentences_after_a_description(description: str, expected: str) -> None:
    """A description without a full stop gets one before the sentences that a dialect adds."""
    parameters = {
        "type": "object",
        "properties": {"limit": {"type": "integer", "description": description, "default": 10}},
    }
    shown = Toolbox([Tool.from_schema("search", parameters, lambda limit: limit)]).schemas("gemini")[0]

    assert expected == shown["parameters"]["properties"]["limit"]["description"]


@pytest.mark.parametrize("name", ["chat", "responses"])
def test_tool_without_description(name: Literal["chat", "responses"]) -> None:
    """A tool without a description is sent without one: Azure and Copilot refuse an empty one."""
    assert '"description"' not in json.dumps(Toolbox([tool(lambda: 1, name="one")]).schemas(name))


@pytest.mark.parametrize("name", EMPTY)
def test_tool_without_parameters(name: str) -> None:
    """A tool without parameters has none on the wire; Gemini refuses an empty list of them."""
    assert EMPTY[name] == DIALECTS[name]().render_tool(ping._spec)


@pytest.mark.parametrize("name", NAMES)
def test_tool_is_shown_once(name: str) -> None:
    """The form of a tool is made once, for equal dialects, and its bytes do not change."""
    first, second = DIALECTS[name]().render_tool(add._spec), DIALECTS[name]().render_tool(add._spec)

    assert json.dumps(first) == json.dumps(second)
    assert first is second or name == "calls"


def wire_strict(name: str, spec: ToolSpec, *, strict: bool) -> Any:
    shown = DIALECTS[name](strict=strict).render_tool(spec)
    return shown.get("function", shown).get("strict", False)


@pytest.mark.parametrize("name", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize(
    ("own", "of_dialect", "expected"),
    [(None, False, False), (None, True, True), (False, True, False), (True, False, True)],
    ids=["nobody", "the dialect", "not the tool", "the tool"],
)
def test_who_wants_strict(name: str, own: bool | None, of_dialect: bool, expected: bool) -> None:
    """A tool's own word on strict mode counts before the dialect's."""
    spec = ToolSpec(name="add", description="Add.", parameters=OPEN, strict=own)

    assert expected == wire_strict(name, spec, strict=of_dialect)


def nested(levels: int) -> dict[str, Any]:
    inner = nested(levels - 1) if levels > 1 else {"type": "integer"}
    return {"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": False}


OPTIONAL = {"type": "object", "properties": {f"a{n}": {"type": "integer"} for n in range(25)}}


@pytest.mark.parametrize(
    ("name", "schema", "reason"),
    [("chat", nested(11), "10"), ("responses", nested(11), "10"), ("anthropic", OPTIONAL, "24")],
    ids=["chat", "responses", "anthropic"],
)
def test_strict_where_it_cannot_be(name: str, schema: Any, reason: str) -> None:
    """Strict mode is left out for a tool that exceeds the provider's limits, and the form says why."""
    spec = ToolSpec(name="odd", description="Odd.", parameters=schema, strict=True)
    (note, *_) = DIALECTS[name]().form(spec).notes

    assert not wire_strict(name, spec, strict=True)
    assert reason in note.text


def test_calls_are_strict_together() -> None:
    """The reply of the calls dialect is enforced where that can be done for every tool."""
    asked = [
        APIS["chat"]["calls"](strict=True).render_request(ModelRequest(messages=(UserMessage("Hi"),), tools=(*specs,)))
        for specs in ([add._spec], [add._spec, ToolSpec(name="x", description="", parameters=OPEN, strict=False)])
    ]

    assert [True, None] == [body["response_format"]["json_schema"].get("strict") for body in asked]


OBJECT = {"type": "object", "properties": {"x": {"type": "integer"}}}
DEFINED = {"$ref": "#/$defs/Node", "$defs": {"Node": OBJECT}}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (None, None),
        (OBJECT, OBJECT),
        (
            {"type": "integer"},
            {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]},
        ),
        (
            DEFINED,
            {
                "type": "object",
                "properties": {"result": {"$ref": "#/$defs/Node"}},
                "required": ["result"],
                "$defs": {"Node": OBJECT},
            },
        ),
    ],
    ids=["no schema", "object", "number", "reference"],
)
def test_output_schema_of_mcp(output: Any, expected: Any) -> None:
    """What a tool gives is an object in MCP; anything else stands under `result`."""
    assert expected == DIALECTS["mcp"]().render_tool(spec_giving(output)).get("outputSchema")


@pytest.mark.parametrize(("output", "expected"), [(OBJECT, OBJECT), ({"type": "string"}, None), (None, None)], ids=str)
def test_output_schema_of_responses(output: Any, expected: Any) -> None:
    """Responses get the schema of outputs that are always JSON."""
    assert expected == DIALECTS["responses"]().render_tool(spec_giving(output)).get("output_schema")


def test_title() -> None:
    """A title is for people: MCP alone shows tools to them."""
    titled = {name: json.dumps(DIALECTS[name]().render_tool(spec_giving(None, title="Fetch it"))) for name in NAMES}

    assert ["mcp"] == [name for name, shown in titled.items() if "Fetch it" in shown]


@pytest.mark.parametrize("name", ["2add", "-add"])
def test_name_that_gemini_refuses(name: str) -> None:
    """A name that begins with a digit or a dash is refused for Gemini, with what to do."""
    with pytest.raises(DefinitionError, match=rf"Tool '{name}': Gemini's names begin with a letter or '_'.*prefixed"):
        DIALECTS["gemini"]().render_tool(add.with_name(name)._spec)


# -- how calls come back

ADD = ToolCall(name="add", arguments='{"a":1,"b":2}', provider_call_id="i")
GIVEN = {"a": 1, "b": 2}
TEXT = '{"a":1,"b":2}'
CHAT_CALL = {"id": "i", "type": "function", "function": {"name": "add", "arguments": TEXT}}
CHAT_MESSAGE = {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": CHAT_MESSAGE}]}  # fmt: skip
ITEM = {"type": "function_call", "id": "fc", "call_id": "i", "name": "add", "arguments": TEXT}
WORDS = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": []}
RESPONSE = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": [WORDS, ITEM],
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip
BLOCK = {"type": "tool_use", "id": "i", "name": "add", "input": GIVEN}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
           "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
           "content": [{"type": "text", "text": "Hm."}, BLOCK]}  # fmt: skip
PART = {"functionCall": {"id": "i", "name": "add", "args": GIVEN}}
CONTENT = {"role": "model", "parts": [{"text": "Hm."}, PART]}
CANDIDATES = {"candidates": [{"content": CONTENT}]}
PARAMS = {"name": "add", "arguments": GIVEN}
REQUEST = {"jsonrpc": "2.0", "id": "i", "method": "tools/call", "params": PARAMS}
REPLIED = '{"calls": [{"_tool": "add", "a": 1, "b": 2}], "output": null}'

REPLIES: dict[str, tuple[str, Any]] = {
    "chat: completion": ("chat", CHAT),
    "chat: object": ("chat", ChatCompletion.model_validate(CHAT)),
    "chat: message": ("chat", CHAT_MESSAGE),
    "chat: message object": ("chat", ChatCompletion.model_validate(CHAT).choices[0].message),
    "chat: calls": ("chat", CHAT_MESSAGE["tool_calls"]),
    "chat: call objects": ("chat", ChatCompletion.model_validate(CHAT).choices[0].message.tool_calls),
    "chat: custom": ("chat", {"tool_calls": [{"id": "i", "custom": {"name": "add", "input": TEXT}}]}),
    "chat: decoded arguments": ("chat", {"tool_calls": [{"id": "i", "function": {"name": "add", "arguments": GIVEN}}]}),
    "minimal: completion": ("minimal", CHAT),
    "responses: response": ("responses", RESPONSE),
    "responses: object": ("responses", Response.model_validate(RESPONSE)),
    "responses: output": ("responses", RESPONSE["output"]),
    "responses: objects": ("responses", Response.model_validate(RESPONSE).output),
    "responses: item": ("responses", ITEM),
    "anthropic: message": ("anthropic", MESSAGE),
    "anthropic: content": ("anthropic", MESSAGE["content"]),
    "anthropic: block": ("anthropic", BLOCK),
    "anthropic: object": ("anthropic", SimpleNamespace(content=[SimpleNamespace(**BLOCK)])),
    "gemini: response": ("gemini", CANDIDATES),
    "gemini: content": ("gemini", CONTENT),
    "gemini: parts": ("gemini", CONTENT["parts"]),
    "gemini: part": ("gemini", PART),
    "gemini: snake case": ("gemini", [{"function_call": PART["functionCall"]}]),
    "mcp: request": ("mcp", REQUEST),
    "mcp: object": ("mcp", SimpleNamespace(id="i", method="tools/call", params=SimpleNamespace(**PARAMS))),
}


@pytest.mark.parametrize(("name", "reply"), REPLIES.values(), ids=REPLIES)
def test_calls(name: str, reply: Any) -> None:
    """The calls in a reply are found, wherever the reply begins, in plain data and in the client's objects."""
    assert (ADD,) == DIALECTS[name]().parse_calls(reply, SPECS)


NAMELESS: dict[str, tuple[str, Any]] = {
    "chat: the form before tool_calls": ("chat", {"function_call": {"name": "add", "arguments": TEXT}}),
    "mcp: params": ("mcp", PARAMS),
    "gemini: no id": ("gemini", {"functionCall": {"name": "add", "args": GIVEN}}),
}


@pytest.mark.parametrize(("name", "reply"), NAMELESS.values(), ids=NAMELESS)
def test_calls_without_an_id(name: str, reply: Any) -> None:
    """A call without an id is a call."""
    assert (ToolCall(name="add", arguments=TEXT),) == DIALECTS[name]().parse_calls(reply, SPECS)


@pytest.mark.parametrize("reply", [REPLIED, {"choices": [{"message": {"content": REPLIED}}]}], ids=["text", "reply"])
def test_calls_in_a_text(reply: Any) -> None:
    """In the calls dialect they are what the text says."""
    assert (ToolCall(name="add", arguments='{"a": 1, "b": 2}'),) == DIALECTS["calls"]().parse_calls(reply, SPECS)


def odd_replies(name: str) -> Sequence[Any]:
    """What a model, or a server, may also say."""
    odd: Any
    chat: list[Any] = [{"choices": []}, {"choices": [{}]}, {"tool_calls": "x"}, {"tool_calls": [None]}]
    blocks = [[{"type": "thinking"}], [{"type": 5}], [None], ["tool_use"], [{"type": "server_tool_use", "name": "x"}]]
    nothing: list[Any] = [None, "", "text", 5, [], {}, [[]], object(), {"content": None}, {"error": {"code": 1}}]
    match name:
        case "chat" | "minimal" | "calls":
            odd = chat
        case "responses":
            odd = [*blocks, {"output": None}, {"output": [{"type": "reasoning", "name": "x"}]}]
        case "anthropic":
            odd = [*blocks, {"content": "Hm."}]
        case "gemini":
            odd = [{"candidates": []}, {"candidates": [{}]}, {"parts": None}, {"candidates": [{"content": {}}]}]
        case _:
            odd = [{"method": "tools/list", "params": {"name": "add"}}, {"params": {"name": 5}}, {"params": []}]
    return [*nothing, *odd]


@pytest.mark.parametrize("name", NAMES)
def test_no_calls(name: str) -> None:
    """What is no call is left out, and nothing that a model or a server says raises."""
    found = {repr(reply): DIALECTS[name]().parse_calls(reply, SPECS) for reply in odd_replies(name)}

    assert {} == {reply: calls for reply, calls in found.items() if calls}


def chat_call(name: Any, arguments: Any, provider_call_id: Any) -> Any:
    return {"tool_calls": [{"id": provider_call_id, "function": {"name": name, "arguments": arguments}}]}


BUILD: dict[str, Callable[[Any, Any, Any], Any]] = {
    "chat": chat_call,
    "minimal": chat_call,
    "responses": lambda name, given, provider_call_id: {
        "type": "function_call",
        "name": name,
        "arguments": given,
        "call_id": provider_call_id,
    },
    "anthropic": lambda name, given, provider_call_id: {
        "type": "tool_use",
        "name": name,
        "input": given,
        "id": provider_call_id,
    },
    "gemini": lambda name, given, provider_call_id: {
        "functionCall": {"name": name, "args": given, "id": provider_call_id}
    },
    "mcp": lambda name, given, provider_call_id: {"id": provider_call_id, "params": {"name": name, "arguments": given}},
}
DEEP = reduce(lambda inner, _: {"a": inner}, range(5000), cast("Any", 1))
CYCLE: dict[str, Any] = {}
CYCLE["a"] = CYCLE
ODD: dict[str, tuple[Any, Any, Any, ToolCall]] = {
    "no arguments": ("add", None, "i", ToolCall(name="add", arguments="{}", provider_call_id="i")),
    "blank": ("add", "", "i", ToolCall(name="add", arguments="", provider_call_id="i")),
    "cut": ("add", '{"a": 1', "i", ToolCall(name="add", arguments='{"a": 1', provider_call_id="i")),
    "a list": ("add", [1], "i", ToolCall(name="add", arguments="[1]", provider_call_id="i")),
    "a number": ("add", 5, "i", ToolCall(name="add", arguments="5", provider_call_id="i")),
    "half a character": (
        "add",
        {"a": "\ud83d"},
        "i",
        ToolCall(name="add", arguments='{"a": "\\ud83d"}', provider_call_id="i"),
    ),
    "an id that is a number": ("add", {}, 7, ToolCall(name="add", provider_call_id="7")),
    "an id that is nothing": ("add", {}, None, ToolCall(name="add")),
    "an unknown tool": ("nobody", {}, "i", ToolCall(name="nobody", provider_call_id="i")),
}


@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize(("called", "given", "provider_call_id", "expected"), ODD.values(), ids=ODD)
def test_odd_call(name: str, strict: bool, called: Any, given: Any, provider_call_id: Any, expected: ToolCall) -> None:
    """A call is found whatever is wrong with it: it has to be answered."""
    assert (expected,) == DIALECTS[name](strict=strict).parse_calls(BUILD[name](called, given, provider_call_id), SPECS)


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize("given", [DEEP, CYCLE, {"a": object()}, {1: 2}], ids=["deep", "cycle", "object", "key"])
def test_arguments_that_are_no_json(name: str, given: Any) -> None:
    """Arguments that JSON cannot hold make a call, too; the tool refuses them."""
    (call,) = DIALECTS[name](strict=True).parse_calls(BUILD[name]("count", given, "i"), SPECS)

    assert (True, "count", "i") == (
        Toolbox([count]).call("count", call.arguments).is_error,
        call.name,
        call.provider_call_id,
    )


def test_schema_that_is_too_deep_where_it_is_inlined() -> None:
    """A schema whose references lead too deep is refused by name where a dialect replaces them."""
    links = {f"D{n}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/D{n + 1}"}}} for n in range(200)}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/D0"}}, "$defs": {**links, "D200": {}}}
    box = Toolbox([Tool.from_schema("dig", schema)])

    with pytest.raises(DefinitionError, match=r"from_schema\('dig'\): its schema cannot be sent in this dialect"):
        box.schemas("gemini")


@pytest.mark.parametrize("name", ["chat", "minimal", "responses"])
@pytest.mark.parametrize("called", [None, 5.5, []], ids=str)
def test_call_without_a_name(name: str, called: Any) -> None:
    """A call without a name is one of an unknown tool."""
    assert (ToolCall(name="", provider_call_id="i"),) == DIALECTS[name]().parse_calls(
        BUILD[name](called, {}, "i"), SPECS
    )


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["tool_use", "add"])
KEYS = st.sampled_from(
    ["choices", "message", "content", "tool_calls", "function_call", "function", "name", "arguments", "input", "id",
     "output", "type", "call_id", "candidates", "parts", "functionCall", "args", "method", "params", "calls", "_tool"]
)  # fmt: skip
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20)


@given(reply=ANYTHING)
def test_whatever_a_model_says(reply: Any) -> None:
    """Any reply at all is read without an exception, and each call in it can be answered."""
    for name in NAMES:
        dialect = DIALECTS[name](strict=True)
        calls = dialect.parse_calls(reply, SPECS)
        answers = dialect.render_results([(call, GOOD) for call in calls], SPECS)

        assert bool(calls) == bool(answers)
        json.dumps(answers, ensure_ascii=False).encode()


# -- arguments in another form than the tool's own

COUNTED = {"words": {"red": 1, "blue": 2}}
PAIRS = {"words": [{"key": "red", "value": 1}, {"key": "blue", "value": 2}]}


class Shown(NamedTuple):
    name: str
    strict: bool


ENCODING = [Shown("chat", True), Shown("minimal", False), Shown("responses", True), Shown("anthropic", True),
            Shown("gemini", False)]  # fmt: skip


@pytest.mark.parametrize("shown", ENCODING, ids=lambda shown: shown.name)
def test_arguments_come_back_in_the_tools_own_form(shown: Shown) -> None:
    """A dict that went out as a list of keys and values comes back a dict, and the tool takes it."""
    (call,) = DIALECTS[shown.name](strict=shown.strict).parse_calls(BUILD[shown.name]("count", PAIRS, "i"), SPECS)

    assert (COUNTED, PAIRS, 3) == (
        json.loads(call.arguments),
        json.loads(call.wire_arguments),
        count.invoke(call.arguments).value,
    )


@pytest.mark.parametrize("name", ["anthropic", "gemini", "minimal"])
def test_parameter_names_that_providers_refuse(name: str) -> None:
    """A parameter whose name the provider refuses goes out under another, and comes back under its own."""
    dialect = DIALECTS[name]()
    (sent,) = dialect.form(grow._spec).schema["properties"]
    (call,) = dialect.parse_calls(BUILD[name]("grow", {sent: 3}, "i"), SPECS)

    assert (True, {"größe": 3}) == (sent.isascii(), json.loads(call.arguments))


def test_calls_dialect_reads_strict_arguments() -> None:
    """The calls dialect reads its arguments back, too."""
    text = json.dumps({"calls": [{"_tool": "count", **PAIRS}], "output": None})
    (call,) = DIALECTS["calls"](strict=True).parse_calls(text, SPECS)

    assert COUNTED == json.loads(call.arguments)


def test_run_reads_strict_arguments() -> None:
    """What a run's model finds is read back; a call of a tool that is not on offer stays as it is."""
    wire = [ToolCall(name="count", arguments=json.dumps(PAIRS)), ToolCall(name="gone", arguments=json.dumps(PAIRS))]
    text, calls = APIS["chat"]["chat"](strict=True).parse_reply("Hm.", wire, SPECS)

    assert ("Hm.", COUNTED, wire[1]) == (text, json.loads(calls[0].arguments), calls[1])


def ran(dialect: Any, *replies: Reply) -> tuple[RunResult, list[dict[str, Any]]]:
    """A run that counts words, with a server that keeps to OpenAI's rules, and the requests it got."""
    with (
        FakeServer(replies) as server,
        openai.OpenAI(base_url=server.base_url, api_key="test", max_retries=0) as client,
    ):
        result = Runner(Toolbox([count]), model=OpenAIModel(client, "fake", dialect=dialect)).run("Count.")
        return result, [request.body for request in server.requests]


def test_strict_run() -> None:
    """In a run the tool gets its own form, and the model is sent its own text again."""
    result, (_, second) = ran(Chat(strict=True), reply.calls(("count", PAIRS)), reply.text("3."))
    (turn,) = [message for message in second["messages"] if message.get("tool_calls")]

    assert ("3.", 3) == (result.output, result.calls[0].result.value)
    assert PAIRS == json.loads(turn["tool_calls"][0]["function"]["arguments"])


def test_strict_run_of_the_calls_dialect() -> None:
    """The calls dialect does the same with the text of its replies."""
    asked = json.dumps({"calls": [{"_tool": "count", **PAIRS}], "output": None})
    result, (first, second) = ran(Calls(strict=True), reply.text(asked), reply.text('{"calls": [], "output": "3."}'))

    assert ("3.", 3) == (result.output, result.calls[0].result.value)
    assert first["response_format"]["json_schema"]["strict"]
    assert json.loads(asked) == json.loads(second["messages"][-2]["content"])


def test_history_has_the_models_own_words() -> None:
    """In the history stands what the model wrote, in the form that it was shown."""
    calls = DIALECTS["chat"](strict=True).parse_calls(chat_call("count", json.dumps(PAIRS), "i"), SPECS)

    assert [chat_call("count", json.dumps(PAIRS), "i")["tool_calls"][0] | {"type": "function"}] == render_message(
        ModelResponse(calls=calls)
    )["tool_calls"]


# -- how calls are answered

CALL = ToolCall(name="add", id="ours", provider_call_id="theirs")
OTHER = ToolCall(name="get", id="ours-2", provider_call_id="")
GOOD = ToolResult({"x": 1}, '{"x":1}')
BAD = ToolResult(text="add failed", error="add failed")
SEEN = ToolResult(PIXEL, "a picture", images=(PIXEL,))
BROKEN = ToolResult(text="half of it", error="half of it", images=(PIXEL,))
IMAGES = "The images of the results above, in order."
INLINE = {"inlineData": {"mimeType": "image/png", "data": PIXEL_TEXT}}
IMAGE_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL_TEXT}}
IMAGE_URL = {"type": "image_url", "image_url": {"url": PIXEL_URL}}
IN_CHAT: list[dict[str, Any]] = [
    {"role": "tool", "tool_call_id": "theirs", "content": '{"x":1}'},
    {"role": "tool", "tool_call_id": "ours-2", "content": "add failed"},
    {"role": "tool", "tool_call_id": "theirs", "content": "a picture"},
    {"role": "user", "content": [{"type": "text", "text": IMAGES}, IMAGE_URL]},
]
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "chat": IN_CHAT,
    "minimal": IN_CHAT,
    "responses": [
        {"type": "function_call_output", "call_id": "theirs", "output": '{"x":1}'},
        {"type": "function_call_output", "call_id": "ours-2", "output": "add failed"},
        {
            "type": "function_call_output",
            "call_id": "theirs",
            "output": [{"type": "input_text", "text": "a picture"}, {"type": "input_image", "image_url": PIXEL_URL}],
        },
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "theirs", "content": '{"x":1}'},
                {"type": "tool_result", "tool_use_id": "ours-2", "content": "add failed", "is_error": True},
                {
                    "type": "tool_result",
                    "tool_use_id": "theirs",
                    "content": [{"type": "text", "text": "a picture"}, IMAGE_BLOCK],
                },
            ],
        }
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "add", "response": {"output": {"x": 1}}, "id": "theirs"}},
                {"functionResponse": {"name": "get", "response": {"error": "add failed"}}},
                {
                    "functionResponse": {
                        "name": "add",
                        "response": {"output": "a picture"},
                        "id": "theirs",
                        "parts": [INLINE],
                    }
                },
            ],
        }
    ],
    "mcp": [
        {"content": [{"type": "text", "text": '{"x":1}'}], "isError": False, "resultType": "complete"},
        {"content": [{"type": "text", "text": "add failed"}], "isError": True, "resultType": "complete"},
        {
            "content": [
                {"type": "text", "text": "a picture"},
                {"type": "image", "data": PIXEL_TEXT, "mimeType": "image/png"},
            ],
            "isError": False,
            "resultType": "complete",
        },
    ],
    "calls": [
        {"role": "user", "content": 'Result of add: {"x":1}\n\nResult of get: add failed\n\nResult of add: a picture'},
        {"role": "user", "content": [{"type": "text", "text": IMAGES}, IMAGE_URL]},
    ],
}
DONE = [(CALL, GOOD), (OTHER, BAD), (CALL, SEEN)]


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name: str) -> None:
    """Each call is answered once and in order, as its provider wants it: texts, faults, pictures."""
    assert ANSWERS[name] == DIALECTS[name]().render_results(DONE)


TWICE: dict[str, tuple[Any, Any]] = {
    "chat": (
        lambda arguments: {"tool_calls": [{"id": "a", "function": {"name": "count", "arguments": arguments}}] * 2},
        "tool_call_id",
    ),
    "responses": (
        lambda arguments: [{"type": "function_call", "call_id": "a", "name": "count", "arguments": arguments}] * 2,
        "call_id",
    ),
}


@pytest.mark.parametrize("name", ["chat", "responses"])
def test_call_that_comes_twice_is_answered_once(name: Any) -> None:
    """A call that stands in a reply twice, with its id, runs once and has one answer."""
    entered: list[int] = []

    def count(n: int) -> int:
        """Count."""
        entered.append(n)
        return n

    reply, member = TWICE[name]
    answers = Toolbox([count]).answer(reply('{"n": 1}'), name)

    assert (["a"], [1]) == ([answer[member] for answer in answers], entered)


class FinishReason(str, enum.Enum):
    """Why a candidate ended, as an enum of Google's client."""

    MAX_TOKENS = "MAX_TOKENS"


_FUNCTION = {"name": "ping", "arguments": "{}"}
_CALL = {"type": "function_call", "call_id": "a", **_FUNCTION}
_PARTS = {"parts": [{"functionCall": {"name": "ping", "args": {}}}]}
CUT_REPLIES: dict[str, tuple[Any, Any]] = {
    "completion": (
        "chat",
        {"choices": [{"message": {"tool_calls": [{"function": _FUNCTION}]}, "finish_reason": "length"}]},
    ),
    "message": (
        "anthropic",
        {"content": [{"type": "tool_use", "name": "ping", "input": {}}], "stop_reason": "max_tokens"},
    ),
    "candidate": ("gemini", {"candidates": [{"content": _PARTS, "finishReason": "MAX_TOKENS"}]}),
    "continued": ("gemini", {"candidates": [{"content": _PARTS, "finishReason": "CONTINUATION"}]}),
    "filtered": ("gemini", {"candidates": [{"content": _PARTS, "finishReason": "MODEL_ARMOR"}]}),
    "object": (
        "gemini",
        SimpleNamespace(candidates=[SimpleNamespace(content=_PARTS, finish_reason=FinishReason.MAX_TOKENS)]),
    ),
    "response": ("responses", {"output": [_CALL], "status": "incomplete"}),
    "failed response": ("responses", {"output": [_CALL], "status": "failed"}),
    "output": ("responses", [{"type": "reasoning"}, {**_CALL, "status": "incomplete"}]),
}


@pytest.mark.parametrize(("name", "asked"), CUT_REPLIES.values(), ids=CUT_REPLIES)
def test_reply_that_was_cut_off(name: Any, asked: Any) -> None:
    """A call of a reply that ended at its token limit does not run: what came of its arguments may not be all."""
    ran = []
    answers = Toolbox([tool(lambda: ran.append(1), name="ping")]).answer(asked, name)

    assert (True, []) == ("Not run: the answer that held this call was cut off." in str(answers), ran)


@pytest.mark.parametrize("name", NAMES)
def test_dialect_is_in_the_tables(name: str) -> None:
    """Each dialect has a row in the documentation, and examples of a tool, of a call and of an answer."""
    replies = {key for key, _ in REPLIES.values()} | {"calls"}  # whose replies are texts: see test_calls_in_a_text

    assert f"| `{name}` |" in PAGE.read_text(encoding="utf-8")
    assert all(name in table for table in ({key for key, _ in SHOWN}, replies, ANSWERS))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_to_answer(name: str) -> None:
    """Without calls there is nothing to answer."""
    assert [] == DIALECTS[name]().render_results([])


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (ToolResult("", ""), {}),
        (ToolResult(PIXEL, " ", images=(PIXEL,)), {"content": [IMAGE_BLOCK]}),
        (ToolResult(text="", error=""), {"content": "error", "is_error": True}),
    ],
    ids=["nothing", "a picture alone", "an error without words"],
)
def test_blank_text_for_anthropic(result: ToolResult, expected: dict[str, Any]) -> None:
    """Anthropic refuses blank texts, and errors without one."""
    (message,) = DIALECTS["anthropic"]().render_results([(CALL, result)])

    assert [{"type": "tool_result", "tool_use_id": "theirs", **expected}] == message["content"]


def test_pictures_of_an_error_for_anthropic() -> None:
    """Anthropic takes no pictures in a failed result: they follow the results."""
    (message,) = DIALECTS["anthropic"]().render_results([(CALL, BROKEN), (CALL, GOOD)])

    assert ["tool_result", "tool_result", "image"] == [block["type"] for block in message["content"]]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (ToolResult(5, "5"), 5),
        (ToolResult("5", "5"), "5"),
        (ToolResult([1], "[1]"), [1]),
        (ToolResult(None, "null"), None),
        (ToolResult([1], "one item"), "one item"),
        (ToolResult(float("nan"), "NaN"), "NaN"),
        (ToolResult(object(), "\ud83d"), "\ufffd"),
    ],
    ids=["number", "text that looks like one", "list", "nothing", "own words", "NaN", "half a character"],
)
def test_response_of_gemini(result: ToolResult, expected: Any) -> None:
    """Gemini is given data where a result is data; the response itself is always an object."""
    (content,) = DIALECTS["gemini"]().render_results([(CALL, result)])

    assert {"output": expected} == content["parts"][0]["functionResponse"]["response"]


@pytest.mark.parametrize(
    ("output", "result", "expected"),
    [
        (OBJECT, GOOD, {"x": 1}),
        ({"type": "integer"}, ToolResult(5, "5"), {"result": 5}),
        (DEFINED, GOOD, {"result": {"x": 1}}),
        (OBJECT, BAD, None),
        (None, GOOD, None),
    ],
    ids=["object", "number", "reference", "error", "no schema"],
)
def test_structured_content(output: Any, result: ToolResult, expected: Any) -> None:
    """MCP has a result as data too where the tool says what it gives, in the form of its output schema."""
    (answer,) = DIALECTS["mcp"]().render_results([(OTHER, result)], [spec_giving(output)])

    assert expected == answer.get("structuredContent")


# -- what the providers' own packages say


def test_openai_takes_it() -> None:
    """What goes out has the types of the openai package."""
    shown = {name: DIALECTS[name](strict=True).render_tool(count._spec) for name in ("chat", "responses")}
    outputs = DIALECTS["responses"]().render_results(DONE)

    TypeAdapter(FunctionDefinition).validate_python(shown["chat"]["function"])
    TypeAdapter(FunctionToolParam).validate_python(shown["responses"])
    assert 3 == len(TypeAdapter(list[FunctionCallOutput]).validate_python(outputs))


def test_anthropic_takes_it() -> None:
    """What goes out has the types of the anthropic package, and what it gives is read."""
    types = pytest.importorskip("anthropic.types")
    dialect = DIALECTS["anthropic"](strict=True)

    TypeAdapter(types.ToolParam).validate_python(dialect.render_tool(count._spec))
    TypeAdapter(types.MessageParam).validate_python(dialect.render_results(DONE)[0])
    assert (ADD,) == dialect.parse_calls(types.Message.model_validate(MESSAGE), [])


def test_google_takes_it() -> None:
    """What goes out is valid for the google-genai package, and what it gives is read."""
    types = pytest.importorskip("google.genai.types")
    dialect = DIALECTS["gemini"]()

    for spec in SPECS:
        types.FunctionDeclaration.model_validate(dialect.render_tool(spec))
    types.Content.model_validate(dialect.render_results(DONE)[0])
    assert (ADD,) == dialect.parse_calls(types.GenerateContentResponse.model_validate(CANDIDATES), SPECS)


def test_mcp_takes_it() -> None:
    """What goes out is valid for the mcp package, and what it gives is read."""
    types = pytest.importorskip("mcp.types")
    dialect = DIALECTS["mcp"]()

    shown = [
        types.Tool.model_validate(dialect.render_tool(spec)) for spec in [*SPECS, spec_giving({"type": "integer"})]
    ]
    answers = [types.CallToolResult.model_validate(answer) for answer in dialect.render_results(DONE)]
    request = types.CallToolRequest.model_validate({"method": "tools/call", "params": PARAMS})

    assert (6, [False, True, False]) == (len(shown), [answer.is_error for answer in answers])
    assert (ToolCall(name="add", arguments=TEXT),) == dialect.parse_calls(request, SPECS)


# -- dialects by name


def test_dialects_by_name() -> None:
    """A dialect is found by its name, and says it."""
    assert NAMES == [DIALECTS[name]().name for name in NAMES]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (DIALECTS, "'klingon' is not one of 'chat', 'calls', 'minimal', 'responses', 'anthropic'"),
        (APIS["chat"], r"'klingon' is not one of 'chat', 'calls', 'minimal'\.$"),
    ],
    ids=["any", "for a run"],
)
def test_wrong_name(table: Mapping[str, Any], message: str) -> None:
    """A wrong name is refused with the right ones."""
    with pytest.raises(ValueError, match=message):
        table["klingon"]


@pytest.mark.parametrize("name", sorted(DIALECTS.keys() - APIS["chat"].keys()))
def test_dialect_that_holds_no_run(name: str) -> None:
    """A dialect that does not go over Chat Completions is none for a run."""
    with pytest.raises(ValueError, match=f"'{name}' is not one of"):
        APIS["chat"][name]


@pytest.mark.parametrize("strict", [True, False], ids=["read back", "as it is"])
def test_last_of_equal_keys_wins(strict: bool) -> None:
    """Of equal keys the last one wins, also in arguments that are decoded into the tool's own form."""
    second = '[{"key": "b", "value": 2}]' if strict else '{"b": 2}'
    repeated = {"function": {"name": "count", "arguments": f'{{"words": [], "words": {second}}}'}}
    (call,) = DIALECTS["chat"](strict=strict).parse_calls({"tool_calls": [repeated]}, [count._spec])

    assert {"b": 2} == json.loads(call.arguments)["words"]


@pytest.mark.parametrize("value", [None, "oops", [1], {"a": "b"}], ids=repr)
def test_mcp_answer_beside_its_schema(value: Any) -> None:
    """A result that contradicts the annotation is sent as text alone: clients refuse it as structured content."""

    def count() -> dict[str, int]:
        return cast(dict[str, int], value)

    asked = {"method": "tools/call", "id": 1, "params": {"name": "count", "arguments": {}}}
    (answer,) = Toolbox([count]).answer(asked, "mcp")

    assert (False, False) == ("structuredContent" in answer, answer["isError"])
