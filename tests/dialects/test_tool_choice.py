"""Which tools may or must be called: what is checked, what goes out over either API, and for how long."""

from dataclasses import replace
from typing import Any

import httpx2
import openai
import pytest

from tests.servers import FakeServer
from toolkit import OpenAIModel, Runner, tool
from toolkit.models import ModelRequest
from toolkit.models.responses import ResponsesModel
from toolkit.testing import ScriptedModel, call, reply


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


TWO = (add, subtract)
GROUPED = (add, subtract, list_orders, weather)
APIS = pytest.mark.parametrize("api", ["chat", "responses"])
TURNS = (reply.calls(("add", {"a": 1})), reply.text("Hi."))
NO_OPTIONS: dict[str, Any] = {}
# For an answer by a call: the server refuses the other way to ask for one.
BY_CALL = (reply.error(400, "'response_format' is not supported"), reply.calls(("final_result", {"result": 1})))


def sent(api: Any, *tools: Any, replies: Any = TURNS, run: Any = NO_OPTIONS, **options: Any) -> list[dict[str, Any]]:
    """What a server elsewhere than at OpenAI is sent in a run."""
    with FakeServer(replies) as server:
        Runner(tools or TWO, model="m", base_url=server.base_url, api=api, **options).run("x", **run)
        return [request.body for request in server.requests]


def sent_to_openai(
    api: Any, *tools: Any, replies: Any = TURNS, run: Any = NO_OPTIONS, **options: Any
) -> list[dict[str, Any]]:
    """What OpenAI itself is sent, by way of a server here, which refuses what OpenAI refuses."""
    with FakeServer(replies) as server:
        here = httpx2.URL(server.base_url)

        def redirect(request: httpx2.Request) -> None:
            request.url = request.url.copy_with(scheme=here.scheme, host=here.host, port=here.port)

        through = httpx2.Client(event_hooks={"request": [redirect]})
        with openai.OpenAI(api_key="test", base_url="https://api.openai.com/v1", http_client=through) as client:
            Runner(tools or TWO, model="m", client=client, api=api, **options).run("x", **run)
        return [request.body for request in server.requests]


def names_in(tools: list[dict[str, Any]]) -> list[str]:
    return [shown.get("function", shown).get("name", shown["type"]) for shown in tools]


# -- what is checked


@pytest.mark.parametrize("choice", [None, "auto", "none", "required", "add"])
@pytest.mark.parametrize("allowed", [None, ["add"], ("add", "subtract", "add")], ids=["all", "one", "twice"])
def test_fitting_choices(choice: str | None, allowed: Any) -> None:
    """A choice is one of three words or a tool's name; what is allowed is listed once."""
    model = ScriptedModel(["Hi."])
    Runner(TWO, model=model, tool_choice=choice, allowed_tools=allowed).run("x")
    (request,) = model.requests

    assert (choice, None if allowed is None else tuple(dict.fromkeys(allowed))) == (request.choice, request.allowed)


@pytest.mark.parametrize(
    ("choice", "allowed", "expected"),
    [
        (
            "ad",
            None,
            r"^tool_choice='ad' is neither one of 'auto', 'none', 'required' nor a tool here; did you mean 'add'\?",
        ),
        ("", None, r"Available: add, subtract$"),
        (None, [{}], r"^allowed_tools has \{\}, which is not a tool here"),
        (None, ["ad"], r"^allowed_tools has 'ad', which is not a tool here; did you mean 'add'\?"),
        (None, [], r"pass tool_choice='none' instead\.$"),
        ("subtract", ["add"], r"^tool_choice='subtract' is not among allowed_tools=\['add'\]\.$"),
    ],
    ids=["unknown choice", "empty choice", "no name", "unknown tool", "nothing allowed", "not allowed"],
)
def test_refused_choices(choice: Any, allowed: Any, expected: str) -> None:
    """What fits no tool is refused before anything is asked, and the tools are named."""
    with pytest.raises(ValueError, match=expected):
        Runner(TWO, model=ScriptedModel([]), tool_choice=choice, allowed_tools=allowed).run("x")


def test_refused_without_tools() -> None:
    """A call cannot be demanded where there is no tool."""
    with pytest.raises(ValueError, match=r"^tool_choice='required' needs a tool, and there is none\.$"):
        Runner(model=ScriptedModel([]), tool_choice="required").run("x")


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
        Runner(TWO, model=ScriptedModel([])).run("x", allowed_tools=allowed)


@pytest.mark.parametrize(
    ("choice", "allowed", "expected"),
    [
        (None, None, ["add", "subtract"]),
        ("auto", ("add",), ["add"]),
        ("none", None, []),
        ("add", None, ["add", "subtract"]),
    ],
    ids=["all", "some", "none", "one has to be called"],
)
def test_available(choice: Any, allowed: Any, expected: list[str]) -> None:
    """A call is executed only where its tool could be called; any other is answered."""
    model = ScriptedModel([[call("add", a=1), call("subtract", a=1)], "Hi."])
    result = Runner(TWO, model=model, tool_choice=choice, allowed_tools=allowed).run("x")

    assert 2 == len(result.calls)
    assert expected == [each.call.name for each in result.calls if not each.result.is_error]


# -- what goes out


@APIS
@pytest.mark.parametrize(
    ("choice", "later"), [("auto", "auto"), ("none", "none"), ("required", None)], ids=["auto", "none", "required"]
)
def test_words(api: Any, choice: str, later: str | None) -> None:
    """The three words go out as they are; the one that forces a call in the first turn alone, so that a run can end."""
    assert [choice, later] == [body.get("tool_choice") for body in sent(api, tool_choice=choice)]


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ("chat", {"type": "function", "function": {"name": "add"}}),
        ("responses", {"type": "function", "name": "add"}),
    ],
)
def test_one_tool(api: Any, expected: Any) -> None:
    """A tool's name goes out as the choice of that tool, in the first turn alone."""
    assert [expected, None] == [body.get("tool_choice") for body in sent(api, tool_choice="add")]


@pytest.mark.parametrize(
    ("choice", "is_kept"),
    [
        ("auto", True),
        ("none", True),
        ("required", False),
        ({"type": "function", "name": "add"}, False),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "add"}]}, True),
    ],
    ids=["auto", "none", "required", "one tool", "allowed tools"],
)
@pytest.mark.parametrize("make", [OpenAIModel, ResponsesModel], ids=["chat", "responses"])
def test_choice_of_the_options(make: Any, choice: Any, is_kept: bool) -> None:
    """A choice among the options of a model that forces a call is for the first turn alone, too."""
    with FakeServer(TURNS, strict=False) as server, openai.OpenAI(base_url=server.base_url, api_key="test") as client:
        Runner(TWO, model=make(client, "m", options={"tool_choice": choice})).run("x")

    assert [choice, choice if is_kept else None] == [request.body.get("tool_choice") for request in server.requests]


@APIS
@pytest.mark.parametrize("options", [{}, {"tool_choice": "auto", "max_turns": 1}], ids=["no choice", "no tools"])
def test_nothing_is_said_by_default(api: Any, options: Any) -> None:
    """Without a choice none goes out; and none without tools, as in a run's last turn, where servers refuse it."""
    assert "tool_choice" not in sent(api, **options)[-1]


# -- what is allowed


@APIS
def test_allowed_elsewhere(api: Any) -> None:
    """Servers that know no list of allowed tools are shown no others."""
    body, _ = sent(api, allowed_tools=["subtract"], tool_choice="required")

    assert (["subtract"], "required") == (names_in(body["tools"]), body["tool_choice"])


@pytest.mark.parametrize(
    ("api", "one", "nested"),
    [
        ("chat", {"type": "function", "function": {"name": "add"}}, True),
        ("responses", {"type": "function", "name": "add"}, False),
    ],
    ids=["chat", "responses"],
)
@pytest.mark.parametrize(("choice", "mode"), [(None, "auto"), ("auto", "auto"), ("required", "required")])
def test_allowed_at_openai(api: Any, one: Any, nested: bool, choice: Any, mode: str) -> None:
    """OpenAI gets the same tools in every turn, so that it can reuse its cache, and the choice among them."""
    bodies = sent_to_openai(api, allowed_tools=["add"], tool_choice=choice)
    limited = [{"mode": each, "tools": [one]} for each in (mode, "auto")]

    assert [["add", "subtract"]] * 2 == [names_in(body["tools"]) for body in bodies]
    assert [{"type": "allowed_tools", **({"allowed_tools": each} if nested else each)} for each in limited] == [
        body["tool_choice"] for body in bodies
    ]


class Without:
    """A hook that does not offer a tool."""

    def before_model(self, request: ModelRequest) -> ModelRequest:
        return replace(request, tools=tuple(spec for spec in request.tools if spec.name != "add"))


@APIS
@pytest.mark.parametrize(("allowed", "listed"), [(["add", "subtract"], ["subtract"]), (["add"], [])])
def test_allowed_and_not_offered(api: Any, allowed: list[str], listed: list[str]) -> None:
    """OpenAI gets no name of a tool that a hook has removed; with no other tool, it may call none."""
    body, _ = sent_to_openai(api, allowed_tools=allowed, hooks=[Without()])
    choice = body["tool_choice"]
    tools = [] if choice == "none" else choice.get("allowed_tools", choice)["tools"]

    assert (["subtract"], listed) == (names_in(body["tools"]), names_in(tools))


@APIS
def test_allowed_and_no_call(api: Any) -> None:
    """What is allowed is of no use where no tool may be called."""
    assert ["none", "none"] == [
        body["tool_choice"] for body in sent_to_openai(api, allowed_tools=["add"], tool_choice="none")
    ]


@APIS
@pytest.mark.parametrize("choice", [None, "none"])
def test_answer_by_a_call(api: Any, choice: str | None) -> None:
    """Where the answer itself is a call, it may always be made."""
    run = {"output_type": int}
    _, body = sent(api, replies=BY_CALL, run=run, tool_choice=choice, allowed_tools=["add"])

    assert ["final_result"] if choice else ["add", "final_result"] == names_in(body["tools"])
    assert "tool_choice" not in body


def test_answer_by_a_call_at_openai() -> None:
    """It is on the list of what is allowed, too."""
    run = {"output_type": int}
    _, body = sent_to_openai("responses", replies=BY_CALL, run=run, allowed_tools=["add"])

    assert ["add", "final_result"] == names_in(body["tool_choice"]["tools"])


@pytest.mark.parametrize(
    ("options", "tools", "choice"),
    [
        ({"tool_choice": "list_orders"}, ["crm"], "required"),
        ({"tool_choice": "weather"}, ["weather", "tool_search"], "required"),
        ({"allowed_tools": ["add", "list_orders"]}, ["add", "crm"], None),
        ({"allowed_tools": ["add"]}, ["add", "subtract", "crm", "weather", "tool_search"], "allowed_tools"),
    ],
    ids=["of a group", "loaded later", "some of a group", "no group"],
)
def test_groups(options: Any, tools: list[str], choice: str | None) -> None:
    """A tool in a group, or one that is loaded later, cannot be named in a choice: no other is shown instead."""
    (body,) = sent_to_openai("responses", *GROUPED, replies=[reply.text("Hi.")], **options)
    found = body.get("tool_choice")

    assert (tools, choice) == (names_in(body["tools"]), found["type"] if isinstance(found, dict) else found)


# -- the dialect `calls`


@pytest.mark.parametrize(
    ("options", "tools", "has_to_call"),
    [
        ({}, ["add", "subtract"], False),
        ({"tool_choice": "required"}, ["add", "subtract"], True),
        ({"tool_choice": "add"}, ["add"], True),
        ({"allowed_tools": ["subtract"]}, ["subtract"], False),
    ],
    ids=["all", "required", "one", "allowed"],
)
def test_calls_dialect(options: Any, tools: list[str], has_to_call: bool) -> None:
    """The schema of the reply says which tools may be called, and whether one has to be."""
    (body,) = sent("chat", replies=[reply.text("Hi.")], dialect="calls", **options)
    calls = body["response_format"]["json_schema"]["schema"]["properties"]["calls"]

    assert tools == [one["properties"]["_tool"]["const"] for one in calls["items"]["anyOf"]]
    assert has_to_call is ("minItems" in calls)
    assert "tool_choice" not in body


def test_calls_dialect_without_calls() -> None:
    """Where no tool may be called, the reply is text."""
    (body,) = sent("chat", replies=[reply.text("Hi.")], dialect="calls", tool_choice="none")

    assert {"model", "messages", "stream"} == body.keys()


def test_unknown_call_with_allowed_tools() -> None:
    """Of the tools only those that may be called are named to a model that calls another one."""
    model = ScriptedModel([call("multiply", a=1), "Hi."])
    result = Runner(TWO, model=model, allowed_tools=["subtract"]).run("x")

    assert ["unknown tool: 'multiply'. Available: subtract"] == [call.result.text for call in result.calls]
