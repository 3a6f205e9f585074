"""Which tools may or must be called: what is checked, what goes out over either API, and for how long."""

from typing import Any

import httpx2
import openai
import pytest

from tests.servers import FakeServer
from toolkit import OpenAIModel, Runner, RunResult, Toolbox, tool
from toolkit._concurrency.backend import run_sync
from toolkit._dialects.calls import Calls
from toolkit._dialects.tool_choice import allowed_names, applies_to_turn, check_choice
from toolkit._messages import OutputSpec
from toolkit._runner.output import build_output
from toolkit.models import ModelRequest, UserMessage
from toolkit.models.client import ServerModel
from toolkit.models.responses import ResponsesModel
from toolkit.testing import reply


def add(a: int) -> int:
    """Add."""
    return a


def subtract(a: int) -> int:
    """Subtract."""
    return -a


@tool(namespace="crm")
def list_orders() -> str:
    """List orders."""
    return "none"


@tool(defer_loading=True)
def weather() -> str:
    """Tell the weather."""
    return "fair"


BOX = Toolbox([add, subtract, list_orders, weather])
SPECS = tuple(made._spec for made in BOX)
NAMES = ("add", "subtract")
BOTH_APIS = pytest.mark.parametrize("model", [OpenAIModel, ResponsesModel], ids=["chat", "responses"])


def asked(**changes: Any) -> ModelRequest:
    return ModelRequest(**{"messages": (UserMessage("x"),), "tools": SPECS[:2], **changes})


def sent(model: type[ServerModel], request: ModelRequest, **options: Any) -> dict[str, Any]:
    """What a server elsewhere than at OpenAI is sent."""
    with FakeServer([reply.text("Hi.")]) as server:
        with openai.OpenAI(base_url=server.base_url, api_key="test") as client:
            run_sync(model(client, "m", options=options).complete(request))
        return server.requests[0].body


def sent_to_openai(model: type[ServerModel], request: ModelRequest) -> dict[str, Any]:
    """What OpenAI itself is sent, by way of a server here, which refuses what OpenAI refuses."""
    with FakeServer([reply.text("Hi.")]) as server:
        here = httpx2.URL(server.base_url)

        def redirect(request: httpx2.Request) -> None:
            request.url = request.url.copy_with(scheme=here.scheme, host=here.host, port=here.port)

        through = httpx2.Client(event_hooks={"request": [redirect]})
        with openai.OpenAI(api_key="test", base_url="https://api.openai.com/v1", http_client=through) as client:
            run_sync(model(client, "m").complete(request))
        return server.requests[0].body


def names_in(tools: list[dict[str, Any]]) -> list[str]:
    return [shown.get("function", shown).get("name", shown["type"]) for shown in tools]


# -- what is checked


@pytest.mark.parametrize("choice", [None, "auto", "none", "required", "add"])
@pytest.mark.parametrize("allowed", [None, ["add"], ("add", "subtract", "add")], ids=["all", "one", "twice"])
def test_fitting_choices(choice: str | None, allowed: Any) -> None:
    """A choice is one of three words or a tool's name; what is allowed is listed once."""
    assert (choice, None if allowed is None else tuple(dict.fromkeys(allowed))) == check_choice(choice, allowed, NAMES)


@pytest.mark.parametrize(
    ("choice", "allowed", "expected"),
    [
        (
            "ad",
            None,
            r"^tool_choice='ad' is neither one of 'auto', 'none', 'required' nor a tool here; did you mean 'add'\?",
        ),
        ("", None, r"Available: add, subtract$"),
        ({"type": "function"}, None, r"^tool_choice=\{'type': 'function'\} is neither one of 'auto'"),
        (None, [{}], r"^allowed_tools has \{\}, which is not a tool here"),
        (None, ["ad"], r"^allowed_tools has 'ad', which is not a tool here; did you mean 'add'\?"),
        (None, [], r"pass tool_choice='none' instead\.$"),
        ("subtract", ["add"], r"^tool_choice='subtract' is not among allowed_tools=\['add'\]\.$"),
    ],
    ids=["unknown choice", "empty choice", "an object", "no name", "unknown tool", "nothing allowed", "not allowed"],
)
def test_refused_choices(choice: Any, allowed: Any, expected: str) -> None:
    """What fits no tool is refused, and the tools are named."""
    with pytest.raises(ValueError, match=expected):
        check_choice(choice, allowed, NAMES)


def test_refused_without_tools() -> None:
    """A call cannot be demanded where there is no tool."""
    with pytest.raises(ValueError, match=r"^tool_choice='required' needs a tool, and there is none\.$"):
        check_choice("required", None, ())


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        ("add", r"^allowed_tools='add' is one text: it takes a list of names\.$"),
        (5, r"^allowed_tools=5 is not a list of names\.$"),
    ],
    ids=["text", "number"],
)
def test_no_list(allowed: Any, message: str) -> None:
    """What is allowed comes as a list of names."""
    with pytest.raises(TypeError, match=message):
        check_choice(None, allowed, NAMES)


@pytest.mark.parametrize(
    ("choice", "allowed", "expected"),
    [(None, None, {*NAMES}), ("auto", ("add",), {"add"}), ("none", None, set()), ("add", None, {*NAMES})],
    ids=["all", "some", "none", "one has to be called"],
)
def test_available(choice: Any, allowed: Any, expected: set[str]) -> None:
    """A call is to be executed only where its tool could be called."""
    assert expected == allowed_names(NAMES, choice, allowed)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, True), ("auto", True), ("none", True), ("required", False), ("add", False),
        ({"type": "function", "name": "add"}, False), ({"type": "allowed_tools", "mode": "required"}, True),
    ],
    ids=str,
)  # fmt: skip
def test_later_answers(choice: Any, expected: bool) -> None:
    """A choice that forces a call holds for the first answer alone."""
    assert (True, expected) == (applies_to_turn(choice, 0), applies_to_turn(choice, 1))


# -- what goes out


@BOTH_APIS
@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_words(model: type[ServerModel], choice: str) -> None:
    """The three words go out as they are."""
    assert choice == sent(model, asked(choice=choice))["tool_choice"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (OpenAIModel, {"type": "function", "function": {"name": "add"}}),
        (ResponsesModel, {"type": "function", "name": "add"}),
    ],
    ids=["chat", "responses"],
)
def test_one_tool(model: type[ServerModel], expected: Any) -> None:
    """A tool's name goes out as the choice of that tool."""
    assert expected == sent(model, asked(choice="add"))["tool_choice"]


@BOTH_APIS
@pytest.mark.parametrize(("choice", "expected"), [("required", None), ("add", None), ("none", "none")])
def test_choice_in_later_turns(model: type[ServerModel], choice: str, expected: Any) -> None:
    """A choice that forces a call is not repeated, whoever asks for it; one that forbids calls is."""
    assert expected == sent(model, asked(choice=choice, turn=1)).get("tool_choice")


@BOTH_APIS
def test_choice_of_the_options(model: type[ServerModel]) -> None:
    """A choice among the options of a request is kept no longer than any other."""
    bodies = [sent(model, asked(turn=turn), tool_choice="required") for turn in (0, 1)]

    assert ["required", None] == [body.get("tool_choice") for body in bodies]


@BOTH_APIS
def test_nothing_is_said_by_default(model: type[ServerModel]) -> None:
    """Without a choice none goes out; and none without tools, where servers refuse it."""
    bodies = [sent(model, asked()), sent(model, asked(tools=(), choice="auto"))]

    assert [False, False] == ["tool_choice" in body for body in bodies]


# -- what is allowed


@BOTH_APIS
def test_allowed_elsewhere(model: type[ServerModel]) -> None:
    """Servers that know no list of allowed tools are shown no others."""
    body = sent(model, asked(allowed=("subtract",), choice="required"))

    assert (["subtract"], "required") == (names_in(body["tools"]), body["tool_choice"])


@pytest.mark.parametrize(
    ("model", "one", "nested"),
    [
        (OpenAIModel, {"type": "function", "function": {"name": "add"}}, True),
        (ResponsesModel, {"type": "function", "name": "add"}, False),
    ],
    ids=["chat", "responses"],
)
@pytest.mark.parametrize(("choice", "mode"), [(None, "auto"), ("auto", "auto"), ("required", "required")])
def test_allowed_at_openai(model: Any, one: Any, nested: bool, choice: Any, mode: str) -> None:
    """OpenAI gets the same tools in every turn, so that it can reuse its cache, and the choice among them."""
    body = sent_to_openai(model, asked(allowed=("add",), choice=choice))
    limited = {"mode": mode, "tools": [one]}

    assert ["add", "subtract"] == names_in(body["tools"])
    assert {"type": "allowed_tools", **({"allowed_tools": limited} if nested else limited)} == body["tool_choice"]


@BOTH_APIS
@pytest.mark.parametrize(("choice", "turn", "expected"), [("none", 0, "none"), ("required", 1, "auto")])
def test_allowed_and_a_choice(model: type[ServerModel], choice: str, turn: int, expected: str) -> None:
    """What is allowed stays so when a choice no longer forces a call, and is of no use where none may be called."""
    found = sent_to_openai(model, asked(allowed=("add",), choice=choice, turn=turn))["tool_choice"]
    mode = found if isinstance(found, str) else found.get("allowed_tools", found)["mode"]

    assert expected == mode


@BOTH_APIS
@pytest.mark.parametrize("choice", [None, "none"])
def test_answer_by_a_call(model: type[ServerModel], choice: str | None) -> None:
    """Where the answer itself is a call, it may always be made."""
    wanted = build_output(int).spec
    assert wanted is not None
    body = sent(model, asked(output=OutputSpec(spec=wanted.spec, by_tool=True), choice=choice, allowed=("add",)))

    assert ["final_result"] if choice else ["add", "final_result"] == names_in(body["tools"])
    assert "tool_choice" not in body


def test_answer_by_a_call_at_openai() -> None:
    """It is on the list of what is allowed, too."""
    wanted = build_output(int).spec
    assert wanted is not None
    output = OutputSpec(spec=wanted.spec, by_tool=True)
    body = sent_to_openai(ResponsesModel, asked(output=output, allowed=("add",)))

    assert ["add", "final_result"] == names_in(body["tool_choice"]["tools"])


@pytest.mark.parametrize(
    ("changes", "tools", "choice"),
    [
        ({"choice": "list_orders"}, ["crm"], "required"),
        ({"choice": "weather"}, ["weather", "tool_search"], "required"),
        ({"allowed": ("add", "list_orders")}, ["add", "crm"], None),
        ({"allowed": ("add",)}, ["add", "subtract", "crm", "weather", "tool_search"], "allowed_tools"),
    ],
    ids=["of a group", "loaded later", "some of a group", "no group"],
)
def test_groups(changes: Any, tools: list[str], choice: str | None) -> None:
    """A tool in a group, or one that is loaded later, cannot be named in a choice: no other is shown instead."""
    body = sent_to_openai(ResponsesModel, asked(tools=SPECS, **changes))
    found = body.get("tool_choice")

    assert (tools, choice) == (names_in(body["tools"]), found["type"] if isinstance(found, dict) else found)


# -- the dialect `calls`


@pytest.mark.parametrize(
    ("changes", "tools", "has_to_call"),
    [
        ({}, ["add", "subtract"], False),
        ({"choice": "required"}, ["add", "subtract"], True),
        ({"choice": "add"}, ["add"], True),
        ({"allowed": ("subtract",)}, ["subtract"], False),
    ],
    ids=["all", "required", "one", "allowed"],
)
def test_calls_dialect(changes: Any, tools: list[str], has_to_call: bool) -> None:
    """The schema of the reply says which tools may be called, and whether one has to be."""
    body = Calls().render_request(asked(**changes))
    calls = body["response_format"]["json_schema"]["schema"]["properties"]["calls"]

    assert tools == [one["properties"]["_tool"]["const"] for one in calls["items"]["anyOf"]]
    assert has_to_call is ("minItems" in calls)
    assert "tool_choice" not in body


def test_calls_dialect_without_calls() -> None:
    """Where no tool may be called, the reply is text."""
    assert {"messages"} == Calls().render_request(asked(choice="none")).keys()


# -- a run


def through(server: FakeServer, api: Any, **options: Any) -> RunResult[Any]:
    with openai.OpenAI(base_url=server.base_url, api_key="test") as client:
        return Runner([add, subtract], model="m", client=client, api=api, **options).run("x")


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(("choice", "expected"), [("required", ["required", None]), ("none", ["none", "none"])])
def test_choice_of_a_run(api: Any, choice: str, expected: list[Any]) -> None:
    """A run that has to begin with a call can end, and one without calls stays so."""
    with FakeServer([reply.calls(("add", {"a": 1})), reply.text("Hi.")]) as server:
        through(server, api, tool_choice=choice)

        assert expected == [request.body.get("tool_choice") for request in server.requests]


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("options", [{"tool_choice": "none"}, {"allowed_tools": ["subtract"]}], ids=["none", "others"])
def test_call_that_is_not_allowed(api: Any, options: Any) -> None:
    """A call of a tool that may not be called now is answered, and not executed."""
    with FakeServer([reply.calls(("add", {"a": 1})), reply.text("Hi.")]) as server:
        result = through(server, api, **options)

    assert [True] == [call.result.is_error for call in result.calls]


def test_unknown_call_with_allowed_tools() -> None:
    """Of the tools only those that may be called are named to a model that calls another one."""
    with FakeServer([reply.calls(("multiply", {"a": 1})), reply.text("Hi.")]) as server:
        result = through(server, "chat", allowed_tools=["subtract"])

    assert ["unknown tool: 'multiply'. Available: subtract"] == [call.result.text for call in result.calls]


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_run_with_an_unknown_tool(api: Any) -> None:
    """A choice of no tool is refused before anything is asked."""
    with FakeServer() as server, pytest.raises(ValueError, match="'ad' is neither one of"):
        through(server, api, tool_choice="ad")
