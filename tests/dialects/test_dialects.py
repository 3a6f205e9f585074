"""Every dialect, both ways: how tools go out, how calls come back, how they are answered."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses import FunctionToolParam, Response
from openai.types.responses.response_input_item_param import FunctionCallOutput
from openai.types.shared_params import FunctionDefinition
from pydantic import TypeAdapter

from tests.servers import FakeServer
from toolkit import DefinitionError, Image, Runner, RunResult, Tool, Toolbox, ToolResult, tool
from toolkit.testing import Reply, reply

PIXEL = Image(b"\x89PNG", "image/png")
PIXEL_TEXT = "iVBORw=="
PIXEL_URL = f"data:image/png;base64,{PIXEL_TEXT}"
NAMES: tuple[Any, ...] = ("chat", "calls", "minimal", "responses", "anthropic", "gemini", "interactions", "mcp")
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


BOX = Toolbox([add, ping, count, grow, anything])
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


def giving(output: Any, value: Any = None, **options: Any) -> Tool[..., Any]:
    """A tool without parameters, whose output has a schema."""
    if output is None:
        return tool(lambda: value, name="get", description="Get.", **options)
    return Tool.from_models("get", {}, output, lambda: value, description="Get.", **options)


def show(made: Tool[..., Any], dialect: Any, *, strict: bool = False) -> Any:
    """A tool as a provider gets it."""
    (shown,) = Toolbox([made]).schemas(dialect, strict=strict)
    return shown


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
    ("interactions", False): {"type": "function", **HEAD, "parameters": FEW},
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
    assert shown == show(add, name, strict=strict)


@pytest.mark.parametrize("name", ["minimal", "gemini", "interactions", "mcp"])
def test_strict_where_there_is_no_such_thing(name: str) -> None:
    """Where a provider enforces nothing, strict changes nothing."""
    assert show(add, name) == show(add, name, strict=True)


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
    "interactions": {"type": "function", "name": "ping", "description": "Answer."},
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
    assert EMPTY[name] == show(ping, name)


@pytest.mark.parametrize("name", NAMES)
def test_tool_is_shown_once(name: Any) -> None:
    """The form of a tool is made once for each dialect."""
    assert add.explain(name).sent is add.explain(name).sent


def wire_strict(name: str, made: Tool[..., Any], *, strict: bool) -> Any:
    shown = show(made, name, strict=strict)
    return shown.get("function", shown).get("strict", False)


@pytest.mark.parametrize("name", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize(
    ("own", "of_dialect", "expected"),
    [(None, False, False), (None, True, True), (False, True, False), (True, False, True)],
    ids=["nobody", "the dialect", "not the tool", "the tool"],
)
def test_who_wants_strict(name: str, own: bool | None, of_dialect: bool, expected: bool) -> None:
    """A tool's own word on strict mode counts before the dialect's."""
    assert expected == wire_strict(name, tool(add, strict=own), strict=of_dialect)


def nested(levels: int) -> dict[str, Any]:
    inner = nested(levels - 1) if levels > 1 else {"type": "integer"}
    return {"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": False}


OPTIONAL = {"type": "object", "properties": {f"a{n}": {"type": "integer"} for n in range(25)}}


@pytest.mark.parametrize(
    ("name", "schema", "reason"),
    [("chat", nested(11), "10"), ("responses", nested(11), "10"), ("anthropic", OPTIONAL, "24")],
    ids=["chat", "responses", "anthropic"],
)
def test_strict_where_it_cannot_be(name: Any, schema: Any, reason: str) -> None:
    """Strict mode is left out for a tool that exceeds the provider's limits, and the form says why."""
    odd = Tool.from_schema("odd", schema, strict=True)
    (note, *_) = odd.explain(name, strict=False).notes

    assert not wire_strict(name, odd, strict=True)
    assert reason in note.text


def test_calls_are_strict_together() -> None:
    """The reply of the calls dialect is enforced where that can be done for every tool."""
    asked = []
    for tools in ([add], [add, tool(ping, strict=False)]):
        with FakeServer([reply.text("Hi.")]) as server:
            Runner(tools, model="fake", base_url=server.base_url, dialect="calls", strict=True).run("Hi")
        asked.append(server.requests[0].body)

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
    assert expected == show(giving(output), "mcp").get("outputSchema")


@pytest.mark.parametrize(("output", "expected"), [(OBJECT, OBJECT), ({"type": "string"}, None), (None, None)], ids=str)
def test_output_schema_of_responses(output: Any, expected: Any) -> None:
    """Responses get the schema of outputs that are always JSON."""
    assert expected == show(giving(output), "responses").get("output_schema")


def test_title() -> None:
    """A title is for people: MCP alone shows tools to them."""
    titled = {name: json.dumps(show(giving(None, title="Fetch it"), name)) for name in NAMES}

    assert ["mcp"] == [name for name, shown in titled.items() if "Fetch it" in shown]


@pytest.mark.parametrize("name", ["2add", "-add"])
def test_name_that_gemini_refuses(name: str) -> None:
    """A name that begins with a digit or a dash is refused for Gemini, with what to do."""
    with pytest.raises(DefinitionError, match=rf"Tool '{name}': Gemini's names begin with a letter or '_'.*prefixed"):
        show(add.with_name(name), "gemini")


# -- how calls come back

GIVEN = {"a": 1, "b": 2}
TEXT = '{"a":1,"b":2}'
CHAT_CALL = {"id": "i", "type": "function", "function": {"name": "add", "arguments": TEXT}}
CHAT_MESSAGE = {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}
CHOICE = {"index": 0, "finish_reason": "tool_calls", "message": CHAT_MESSAGE}
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}
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
STEP = {"type": "function_call", "id": "i", "name": "add", "arguments": GIVEN}
OLD_CALL = {"type": "function_call", "id": "h", "name": "add", "arguments": {}}
OLD_RESULT = {"type": "function_result", "call_id": "h", "name": "add", "result": "7"}
THOUGHT = {"type": "thought", "signature": "c2ln"}
INTERACTION = {"id": "n", "status": "requires_action", "steps": [OLD_CALL, OLD_RESULT, THOUGHT, STEP]}
PARAMS = {"name": "add", "arguments": GIVEN}
REQUEST = {"jsonrpc": "2.0", "id": "i", "method": "tools/call", "params": PARAMS}
REPLIED = '{"calls": [{"_tool": "add", "a": 1, "b": 2}], "output": null}'

REPLIES: dict[str, tuple[str, Any]] = {
    "chat: completion": ("chat", CHAT),
    "chat: object": ("chat", ChatCompletion.model_validate(CHAT)),
    "chat: choice": ("chat", CHOICE),
    "chat: choice object": ("chat", ChatCompletion.model_validate(CHAT).choices[0]),
    "chat: message": ("chat", CHAT_MESSAGE),
    "chat: message with a member of that name": ("chat", {**CHAT_MESSAGE, "message": "I add."}),
    "chat: message object": ("chat", ChatCompletion.model_validate(CHAT).choices[0].message),
    "chat: calls": ("chat", CHAT_MESSAGE["tool_calls"]),
    "chat: call objects": ("chat", ChatCompletion.model_validate(CHAT).choices[0].message.tool_calls),
    "chat: call": ("chat", CHAT_CALL),
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
    "interactions: interaction": ("interactions", INTERACTION),
    "interactions: steps": ("interactions", INTERACTION["steps"]),
    "interactions: step": ("interactions", STEP),
    "interactions: object": ("interactions", SimpleNamespace(steps=[SimpleNamespace(**STEP)])),
    "mcp: request": ("mcp", REQUEST),
    "mcp: object": ("mcp", SimpleNamespace(id="i", method="tools/call", params=SimpleNamespace(**PARAMS))),
}


# How the call in each is answered.
SUM: dict[str, Any] = {
    **dict.fromkeys(("chat", "minimal"), {"role": "tool", "tool_call_id": "i", "content": "3"}),
    "responses": {"type": "function_call_output", "call_id": "i", "output": "3"},
    "anthropic": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": "3"}]},
    "gemini": {"role": "user", "parts": [{"functionResponse": {"name": "add", "response": {"output": 3}, "id": "i"}}]},
    "interactions": {"type": "function_result", "name": "add", "call_id": "i", "result": "3"},
    "mcp": {
        "content": [{"type": "text", "text": "3"}],
        "isError": False,
        "resultType": "complete",
        "structuredContent": {"result": 3},
    },
}


@pytest.mark.parametrize(("name", "reply"), REPLIES.values(), ids=REPLIES)
def test_calls(name: Any, reply: Any) -> None:
    """The calls in a reply are found, wherever the reply begins, in plain data and in the client's objects."""
    assert [SUM[name]] == BOX.answer(reply, name)


NAMELESS: dict[str, tuple[str, Any, Any]] = {
    "chat: the form before tool_calls": (
        "chat",
        {"function_call": {"name": "add", "arguments": TEXT}},
        {"role": "tool", "tool_call_id": "", "content": "3"},
    ),
    "mcp: params": ("mcp", PARAMS, SUM["mcp"]),
    "gemini: no id": (
        "gemini",
        {"functionCall": {"name": "add", "args": GIVEN}},
        {"role": "user", "parts": [{"functionResponse": {"name": "add", "response": {"output": 3}}}]},
    ),
}


@pytest.mark.parametrize(("name", "reply", "answer"), NAMELESS.values(), ids=NAMELESS)
def test_calls_without_an_id(name: Any, reply: Any, answer: Any) -> None:
    """A call without an id is a call."""
    assert [answer] == BOX.answer(reply, name)


@pytest.mark.parametrize("reply", [REPLIED, {"choices": [{"message": {"content": REPLIED}}]}], ids=["text", "reply"])
def test_calls_in_a_text(reply: Any) -> None:
    """In the calls dialect they are what the text says."""
    assert [{"role": "user", "content": "Result of add: 3"}] == BOX.answer(reply, "calls")


def odd_replies(name: str) -> Sequence[Any]:
    """What a model, or a server, may also say."""
    odd: Any
    chat: list[Any] = [{"choices": []}, {"choices": [{}]}, {"tool_calls": "x"}, {"tool_calls": [None]}]
    blocks = [[{"type": "thinking"}], [{"type": 5}], [None], ["tool_use"], [{"type": "server_tool_use", "name": "x"}]]
    nothing: list[Any] = [5, [], {}, [[]], object(), {"content": None}, {"error": {"code": 1}}]
    match name:
        case "calls":
            odd = [*chat, "", "text"]
        case "chat" | "minimal":
            odd = chat
        case "responses":
            odd = [*blocks, {"output": None}, {"output": [{"type": "reasoning", "name": "x"}]}]
        case "anthropic":
            odd = [*blocks, {"content": "Hm."}]
        case "gemini":
            odd = [{"candidates": []}, {"candidates": [{}]}, {"parts": None}, {"candidates": [{"content": {}}]}]
        case "interactions":
            odd = [*blocks, {"steps": None}, {"steps": [{"type": "model_output"}, {"type": "function_result"}]}]
        case _:
            odd = [{"method": "tools/list", "params": {"name": "add"}}, {"params": {"name": 5}}, {"params": []}]
    return [*nothing, *odd]


@pytest.mark.parametrize("name", NAMES)
def test_no_calls(name: Any) -> None:
    """What is no call is left out, and nothing that a model or a server says raises."""
    found = {repr(reply): BOX.answer(reply, name) for reply in odd_replies(name)}

    assert {} == {reply: answers for reply, answers in found.items() if answers}


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
    "interactions": lambda name, given, provider_call_id: {
        "type": "function_call",
        "name": name,
        "arguments": given,
        "id": provider_call_id,
    },
    "mcp": lambda name, given, provider_call_id: {"id": provider_call_id, "params": {"name": name, "arguments": given}},
}
DEEP = reduce(lambda inner, _: {"a": inner}, range(5000), cast("Any", 1))
CYCLE: dict[str, Any] = {}
CYCLE["a"] = CYCLE
MISSING = "Invalid arguments: a: missing, but required. Expected: "
# A name, arguments, an id; the id of the answer, and how its text begins.
ODD: dict[str, tuple[Any, Any, Any, str, str]] = {
    "no arguments": ("add", None, "i", "i", MISSING),
    "blank": ("add", "", "i", "i", MISSING),
    "cut": ("add", '{"a": 1', "i", "i", "Invalid arguments: not valid JSON (EOF while parsing an object at line 1 "),
    "a list": ("add", [1], "i", "i", "Invalid arguments: expected one JSON object with a, b, received [1]"),
    "a number": ("add", 5, "i", "i", "Invalid arguments: expected one JSON object with a, b, received 5"),
    "half a character": ("add", {"a": "\ud83d"}, "i", "i", "Invalid arguments: not valid JSON (unexpected end of hex "),
    "an id that is a number": ("add", {}, 7, "7", MISSING),
    "an id that is nothing": ("add", {}, None, "", MISSING),
    "an unknown tool": ("nobody", {}, "i", "i", "unknown tool: 'nobody'. Available: add, ping, "),
}


def read_answer(name: str, answers: list[Any], begin: str) -> tuple[str, str]:
    """The id in the answer to one call, and as much of its text as there should be; in MCP answers have no id."""
    (answer,) = answers
    if name == "mcp":
        return "", answer["content"][0]["text"][: len(begin)]
    if name == "gemini":
        done = answer["parts"][0]["functionResponse"]
        (text,) = done["response"].values()
        return done.get("id", ""), str(text)[: len(begin)]
    done = answer["content"][0] if name == "anthropic" else answer
    (place,) = done.keys() & {"tool_call_id", "call_id", "tool_use_id"}
    return done[place], str(done.get("content", done.get("output", done.get("result"))))[: len(begin)]


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize(("called", "given", "call_id", "expected", "text"), ODD.values(), ids=ODD)
def test_odd_call(name: Any, called: Any, given: Any, call_id: Any, expected: str, text: str) -> None:
    """A call is found whatever is wrong with it: it has to be answered."""
    for strict in (False, True):
        answers = BOX.answer(BUILD[name](called, given, call_id), name, strict=strict)

        assert ("" if name == "mcp" else expected, text) == read_answer(name, answers, text)


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize("given", [DEEP, CYCLE, {"a": object()}, {1: 2}], ids=["deep", "cycle", "object", "key"])
def test_arguments_that_are_no_json(name: Any, given: Any) -> None:
    """Arguments that JSON cannot hold make a call, too; the tool refuses them."""
    answers = BOX.answer(BUILD[name]("count", given, "i"), name, strict=True)

    assert ("" if name == "mcp" else "i", "Invalid arguments: ") == read_answer(name, answers, "Invalid arguments: ")


def test_schema_that_is_too_deep_where_it_is_inlined() -> None:
    """A schema whose references lead too deep is refused by name where a dialect replaces them."""
    links = {f"D{n}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/D{n + 1}"}}} for n in range(200)}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/D0"}}, "$defs": {**links, "D200": {}}}
    box = Toolbox([Tool.from_schema("dig", schema)])

    with pytest.raises(DefinitionError, match=r"from_schema\('dig'\): its schema cannot be sent in this dialect"):
        box.schemas("gemini")


@pytest.mark.parametrize("name", ["chat", "minimal", "responses"])
@pytest.mark.parametrize("called", [None, 5.5, []], ids=str)
def test_call_without_a_name(name: Any, called: Any) -> None:
    """A call without a name is one of an unknown tool."""
    text = "unknown tool: the call names none. Available: add, "

    assert ("i", text) == read_answer(name, BOX.answer(BUILD[name](called, {}, "i"), name), text)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["tool_use", "add"])
KEYS = st.sampled_from(
    ["choices", "message", "content", "tool_calls", "function_call", "function", "name", "arguments", "input", "id",
     "output", "type", "call_id", "candidates", "parts", "functionCall", "args", "method", "params", "calls", "_tool"]
)  # fmt: skip
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20)


@given(reply=ANYTHING)
def test_whatever_a_model_says(reply: Any) -> None:
    """Any reply at all is read, and each call in it answered; only a text, and another dialect's reply, are refused."""
    for name in NAMES:
        if isinstance(reply, (dict, list)):
            try:
                answers = BOX.answer(reply, name, strict=True)
            except ValueError as error:
                assert "The calls in this reply are of the dialect" in str(error)  # noqa: PT017  a few of many
            else:
                json.dumps(answers, ensure_ascii=False).encode()


# -- arguments in another form than the tool's own

COUNTED = {"words": {"red": 1, "blue": 2}}
PAIRS = {"words": [{"key": "red", "value": 1}, {"key": "blue", "value": 2}]}


class Shown(NamedTuple):
    name: str
    strict: bool


ENCODING = [Shown("chat", True), Shown("minimal", False), Shown("responses", True), Shown("anthropic", True),
            Shown("gemini", False), Shown("interactions", False)]  # fmt: skip


@pytest.mark.parametrize("shown", ENCODING, ids=lambda shown: shown.name)
def test_arguments_come_back_in_the_tools_own_form(shown: Shown) -> None:
    """A dict that went out as a list of keys and values comes back a dict, and the tool takes it."""
    dialect: Any = shown.name
    answers = BOX.answer(BUILD[shown.name]("count", PAIRS, "i"), dialect, strict=shown.strict)

    assert ("i", "3") == read_answer(shown.name, answers, "3")


@pytest.mark.parametrize("name", ["anthropic", "gemini", "interactions", "minimal"])
def test_parameter_names_that_providers_refuse(name: Any) -> None:
    """A parameter whose name the provider refuses goes out under another, and comes back under its own."""
    shown = show(grow, name)
    schema = shown.get("input_schema") or shown.get("function", shown)["parameters"]
    (sent,) = schema["properties"]
    answers = BOX.answer(BUILD[name]("grow", {sent: 3}, "i"), name)

    assert (True, ("i", "3")) == (sent.isascii(), read_answer(name, answers, "3"))


@pytest.mark.parametrize("name", ["chat", "responses"])
def test_lists_without_items(name: Any) -> None:
    """OpenAI refuses a list without `items`, also without strict mode."""
    lists: list[Any] = [{"type": "array"}, {"type": ["array", "null"]}, {"description": "Of any type."}]
    properties = dict(zip("abc", lists, strict=True))
    shown = show(Tool.from_schema("odd", {"type": "object", "properties": properties}, print), name)
    sent = shown.get("function", shown)["parameters"]["properties"]

    assert [{}, {}, {}] == [part["items"] for part in sent.values()]


def test_enumeration_with_an_empty_text() -> None:
    """Gemini refuses all tools because of an empty text in an enumeration, so the description has the values."""
    shelf = {"type": "string", "enum": ["", "top"]}
    made = Tool.from_schema("tidy", {"type": "object", "properties": {"shelf": shelf}}, print)

    sent = show(made, "gemini")["parameters"]["properties"]["shelf"]
    assert {"type": "string", "description": 'One of "", "top".'} == sent
    assert shelf == show(made, "anthropic")["input_schema"]["properties"]["shelf"]


def test_calls_dialect_reads_strict_arguments() -> None:
    """The calls dialect reads its arguments back, too."""
    text = json.dumps({"calls": [{"_tool": "count", **PAIRS}], "output": None})

    assert "Result of count: 3" == BOX.answer(text, "calls", strict=True)[0]["content"]


def ran(dialect: Any, *replies: Reply) -> tuple[RunResult, list[dict[str, Any]]]:
    """A run that counts words, with a server that keeps to OpenAI's rules, and the requests it got."""
    with FakeServer(replies) as server:
        result = Runner([count], model="fake", base_url=server.base_url, dialect=dialect, strict=True).run("Count.")
        return result, [request.body for request in server.requests]


def test_strict_run() -> None:
    """In a run the tool gets its own form, and the model is sent its own text again; an unknown call stays as it is."""
    result, (_, second) = ran("chat", reply.calls(("count", PAIRS), ("gone", PAIRS)), reply.text("3."))
    (turn,) = [message for message in second["messages"] if message.get("tool_calls")]

    assert ("3.", 3) == (result.output, result.calls[0].result.value)
    assert [COUNTED, PAIRS] == [json.loads(each.call.arguments) for each in result.calls]
    assert [PAIRS, PAIRS] == [json.loads(each["function"]["arguments"]) for each in turn["tool_calls"]]


def test_strict_run_of_the_calls_dialect() -> None:
    """The calls dialect does the same with the text of its replies."""
    asked = json.dumps({"calls": [{"_tool": "count", **PAIRS}], "output": None})
    result, (first, second) = ran("calls", reply.text(asked), reply.text('{"calls": [], "output": "3."}'))

    assert ("3.", 3) == (result.output, result.calls[0].result.value)
    assert first["response_format"]["json_schema"]["strict"]
    assert json.loads(asked) == json.loads(second["messages"][-2]["content"])


# -- how calls are answered

GOOD = ToolResult({"x": 1}, '{"x":1}')
BAD = ToolResult(text="add failed", error="add failed")
SEEN = ToolResult(PIXEL, "a picture", images=(PIXEL,))
BROKEN = ToolResult(text="half of it", error="half of it", images=(PIXEL,))
IMAGES = "The images of the results above, in order."
INLINE = {"inlineData": {"mimeType": "image/png", "data": PIXEL_TEXT}}
IMAGE_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL_TEXT}}
IMAGE_URL = {"type": "image_url", "image_url": {"url": PIXEL_URL}}
IN_CHAT: list[dict[str, Any]] = [
    {"role": "tool", "tool_call_id": "good", "content": '{"x":1}'},
    {"role": "tool", "tool_call_id": "bad", "content": "add failed"},
    {"role": "tool", "tool_call_id": "see", "content": "a picture"},
    {"role": "user", "content": [{"type": "text", "text": IMAGES}, IMAGE_URL]},
]
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "chat": IN_CHAT,
    "minimal": IN_CHAT,
    "responses": [
        {"type": "function_call_output", "call_id": "good", "output": '{"x":1}'},
        {"type": "function_call_output", "call_id": "bad", "output": "add failed"},
        {
            "type": "function_call_output",
            "call_id": "see",
            "output": [{"type": "input_text", "text": "a picture"}, {"type": "input_image", "image_url": PIXEL_URL}],
        },
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "good", "content": '{"x":1}'},
                {"type": "tool_result", "tool_use_id": "bad", "content": "add failed", "is_error": True},
                {
                    "type": "tool_result",
                    "tool_use_id": "see",
                    "content": [{"type": "text", "text": "a picture"}, IMAGE_BLOCK],
                },
            ],
        }
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "good", "response": {"output": {"x": 1}}, "id": "good"}},
                {"functionResponse": {"name": "bad", "response": {"error": "add failed"}, "id": "bad"}},
                {
                    "functionResponse": {
                        "name": "see",
                        "response": {"output": "a picture"},
                        "id": "see",
                        "parts": [INLINE],
                    }
                },
            ],
        }
    ],
    "interactions": [
        {"type": "function_result", "name": "good", "call_id": "good", "result": '{"x":1}'},
        {"type": "function_result", "name": "bad", "call_id": "bad", "result": "add failed", "is_error": True},
        {
            "type": "function_result",
            "name": "see",
            "call_id": "see",
            "result": [
                {"type": "text", "text": "a picture"},
                {"type": "image", "mime_type": "image/png", "data": PIXEL_TEXT},
            ],
        },
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
        {"role": "user", "content": 'Result of good: {"x":1}\n\nResult of bad: add failed\n\nResult of see: a picture'},
        {"role": "user", "content": [{"type": "text", "text": IMAGES}, IMAGE_URL]},
    ],
}
DONE = {"good": GOOD, "bad": BAD, "see": SEEN}


def give(name: str, result: ToolResult) -> Tool[..., Any]:
    return tool(lambda: result, name=name)


def answer(dialect: Any, results: Mapping[str, ToolResult]) -> list[Any]:
    """The answers to calls of tools that give these results; each call has its tool's name as its id."""
    box = Toolbox([give(*each) for each in results.items()])
    if dialect == "calls":
        return box.answer(json.dumps({"calls": [{"_tool": name} for name in results]}), dialect)
    calls = [BUILD[dialect](name, {}, name) for name in results]
    if dialect == "mcp":
        return [each for call in calls for each in box.answer(call, dialect)]
    is_chat = dialect in ("chat", "minimal")
    return box.answer({"tool_calls": [call["tool_calls"][0] for call in calls]} if is_chat else calls, dialect)


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name: str) -> None:
    """Each call is answered once and in order, as its provider wants it: texts, faults, pictures."""
    assert ANSWERS[name] == answer(name, DONE)


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
    "choice": ("chat", {"message": {"tool_calls": [{"function": _FUNCTION}]}, "finish_reason": "length"}),
    "Ollama's own": ("chat", {"message": {"tool_calls": [{"function": _FUNCTION}]}, "done_reason": "length"}),
    "failed completion": (
        "chat",
        {"choices": [{"message": {"tool_calls": [{"function": _FUNCTION}]}, "finish_reason": "overloaded_error"}]},
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
    "interaction": ("interactions", {"steps": [{**_CALL, "id": "a"}], "status": "requires_continuation"}),
    "budget": ("interactions", {"steps": [{**_CALL, "id": "a"}], "status": "budget_exceeded"}),
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
    (message,) = answer("anthropic", {"a": result})

    assert [{"type": "tool_result", "tool_use_id": "a", **expected}] == message["content"]


def test_pictures_of_an_error_for_anthropic() -> None:
    """Anthropic takes no pictures in a failed result: they follow the results."""
    (message,) = answer("anthropic", {"broken": BROKEN, "good": GOOD})

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
    (content,) = answer("gemini", {"a": result})

    assert {"output": expected} == content["parts"][0]["functionResponse"]["response"]


@pytest.mark.parametrize(
    ("output", "value", "expected"),
    [
        (OBJECT, {"x": 1}, {"x": 1}),
        ({"type": "integer"}, 5, {"result": 5}),
        (DEFINED, {"x": 1}, {"result": {"x": 1}}),
        (OBJECT, BAD, None),
        (None, {"x": 1}, None),
    ],
    ids=["object", "number", "reference", "error", "no schema"],
)
def test_structured_content(output: Any, value: Any, expected: Any) -> None:
    """MCP has a result as data too where the tool says what it gives, in the form of its output schema."""
    (answered,) = Toolbox([giving(output, value)]).answer(BUILD["mcp"]("get", {}, "i"), "mcp")

    assert expected == answered.get("structuredContent")


# -- what the providers' own packages say


def test_openai_takes_it() -> None:
    """What goes out has the types of the openai package."""
    shown = {name: show(count, name, strict=True) for name in ("chat", "responses")}
    outputs = answer("responses", DONE)

    TypeAdapter(FunctionDefinition).validate_python(shown["chat"]["function"])
    TypeAdapter(FunctionToolParam).validate_python(shown["responses"])
    assert 3 == len(TypeAdapter(list[FunctionCallOutput]).validate_python(outputs))


def test_anthropic_takes_it() -> None:
    """What goes out has the types of the anthropic package, and what it gives is read."""
    types = pytest.importorskip("anthropic.types")

    TypeAdapter(types.ToolParam).validate_python(show(count, "anthropic", strict=True))
    TypeAdapter(types.MessageParam).validate_python(answer("anthropic", DONE)[0])
    assert [SUM["anthropic"]] == BOX.answer(types.Message.model_validate(MESSAGE), "anthropic")


def test_google_takes_it() -> None:
    """What goes out is valid for the google-genai package, and what it gives is read."""
    types = pytest.importorskip("google.genai.types")

    for shown in BOX.schemas("gemini"):
        types.FunctionDeclaration.model_validate(shown)
    types.Content.model_validate(answer("gemini", DONE)[0])
    assert [SUM["gemini"]] == BOX.answer(types.GenerateContentResponse.model_validate(CANDIDATES), "gemini")


def test_google_takes_interactions() -> None:
    """What goes out has the types of the google-genai package, and what it gives is read."""
    types = pytest.importorskip("google.genai.interactions")

    for shown in BOX.schemas("interactions"):
        types.Function.model_validate(shown)
    for step in answer("interactions", DONE):
        types.FunctionResultStep.model_validate(step)
    assert [SUM["interactions"]] == BOX.answer(types.Interaction.model_validate(INTERACTION), "interactions")


def test_mcp_takes_it() -> None:
    """What goes out is valid for the mcp package, and what it gives is read."""
    types = pytest.importorskip("mcp.types")

    shown = [
        types.Tool.model_validate(each) for each in [*BOX.schemas("mcp"), show(giving({"type": "integer"}), "mcp")]
    ]
    answers = [types.CallToolResult.model_validate(each) for each in answer("mcp", DONE)]
    request = types.CallToolRequest.model_validate({"method": "tools/call", "params": PARAMS})

    assert (6, [False, True, False]) == (len(shown), [each.is_error for each in answers])
    assert [SUM["mcp"]] == BOX.answer(request, "mcp")


# -- dialects by name


def test_dialects_by_name() -> None:
    """A dialect is found by its name, and says it; a wrong name is refused with the right ones."""
    assert [*NAMES] == [ping.explain(name).dialect for name in NAMES]
    with pytest.raises(ValueError, match=f"'klingon' is not one of {', '.join(map(repr, NAMES))}\\.$"):
        show(ping, "klingon")


@pytest.mark.parametrize("name", ["klingon", *NAMES[4:]])
def test_dialect_that_holds_no_run(name: Any) -> None:
    """A dialect of neither API of OpenAI is none for a run."""
    with pytest.raises(ValueError, match=f"'{name}' is not one of 'chat', 'calls', 'minimal'\\.( |$)"):
        Runner(model="fake", base_url="http://127.0.0.1:9", dialect=name)


@pytest.mark.parametrize("strict", [True, False], ids=["read back", "as it is"])
def test_last_of_equal_keys_wins(strict: bool) -> None:
    """Of equal keys the last one wins, also in arguments that are decoded into the tool's own form."""
    second = '[{"key": "b", "value": 2}]' if strict else '{"b": 2}'
    repeated = {"function": {"name": "count", "arguments": f'{{"words": [], "words": {second}}}'}}

    assert "2" == BOX.answer({"tool_calls": [repeated]}, "chat", strict=strict)[0]["content"]


@pytest.mark.parametrize("value", [None, "oops", [1], {"a": "b"}], ids=repr)
def test_mcp_answer_beside_its_schema(value: Any) -> None:
    """A result that contradicts the annotation is an error with its text: clients refuse any other, or no, content."""

    def count() -> dict[str, int]:
        return cast(dict[str, int], value)

    asked = {"method": "tools/call", "id": 1, "params": {"name": "count", "arguments": {}}}
    (answer,) = Toolbox([count]).answer(asked, "mcp")

    assert (False, True) == ("structuredContent" in answer, answer["isError"])
    assert "count has run, but what follows is not what it declares." == answer["content"][0]["text"]
