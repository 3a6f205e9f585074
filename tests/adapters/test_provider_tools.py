"""Tools that OpenAI executes itself: offered beside ours where the gates allow it, and seen in events."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.servers import FakeServer
from toolkit import ApprovalRequest, Decision, DefinitionError, Runner, RunState, Toolbox, tool
from toolkit.approvers import after_foreign, approve_all, defer
from toolkit.builtin import provider_tool
from toolkit.events import ToolCallFinished, TurnFinished
from toolkit.models.responses import ResponsesModel
from toolkit.testing import reply

SEARCH: dict[str, Any] = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "cats", "sources": [{"type": "url", "url": "https://example.com"}]},
}
CODE: dict[str, Any] = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "1 + 1",
    "container_id": "cntr_1",
    "outputs": [{"type": "logs", "logs": "2"}],
}
FILES: dict[str, Any] = {
    "type": "file_search_call",
    "id": "fs_1",
    "status": "completed",
    "queries": ["cats"],
    "results": None,
}
CALL: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "add",
    "arguments": '{"a": 1, "b": 2}',
}
MESSAGE = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}]
TOOLS: list[dict[str, Any]] = [
    {"type": "web_search"},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "file_search", "vector_store_ids": ["vs_1"]},
]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_raw_provider_tools() -> None:
    """Those of the model's options are in each request, ungated; what they did goes back as it came, and is saved."""
    asked: list[str] = []
    output = [SEARCH, CODE, FILES, CALL]

    def authorize(made: Any, *_: Any) -> bool:
        asked.append(made.name)
        return True

    with FakeServer([reply.output(*output), reply.text("3."), reply.text("Yes.")]) as server:
        with openai.OpenAI(base_url=server.base_url, api_key="test") as client:
            model = ResponsesModel(client, "m", options={"tools": TOOLS})
            runner = Runner([add], model=model, authorize=authorize)
            with runner.stream("Go.") as events:
                turns = [event.response.items for event in events if isinstance(event, TurnFinished)]
            runner.run("Sure?", messages=RunState.from_json(events.result.state.to_json()).messages)

        bodies = [request.body for request in server.requests]
    assert [item["type"] for item in turns[0]] == [item["type"] for item in output]
    assert all(body["tools"][1:] == TOOLS for body in bodies)
    answer = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
    assert bodies[1]["input"][1:] == [*output, answer]
    assert bodies[2]["input"][1:6] == [*output, answer]
    assert asked == ["add"]  # no gate of the run is asked about what the provider executes


OURS = [
    add,
    provider_tool("web_search"),
    provider_tool("code_interpreter"),
    provider_tool("file_search", vector_store_ids=["vs_1"]),
]


def use(*replies: Any, tools: Any = OURS, **options: Any) -> tuple[list[Any], list[list[str]]]:
    """Run, and return the ends of calls, and the names of the tools of each request."""
    with FakeServer(replies) as server:
        runner = Runner(tools, model="m", base_url=server.base_url, api_key="test", api="responses", **options)
        with runner.stream("Go.") as events:
            ends = [event for event in events if isinstance(event, ToolCallFinished)]
        offered = [[each.get("name", each["type"]) for each in body.body.get("tools", ())] for body in server.requests]
    return ends, offered


def test_provider_tools() -> None:
    """As members of a toolbox they are offered in each request, and each use is an event, before those of our calls."""
    ends, offered = use(reply.output(SEARCH, CODE, FILES, CALL), reply.text("3."))

    assert TOOLS == Toolbox(OURS).schemas("responses")[1:]
    assert [["add", "web_search", "code_interpreter", "file_search"]] * 2 == offered
    assert ["web_search", "code_interpreter", "file_search", "add"] == [end.call.name for end in ends]
    assert [SEARCH, CODE, FILES, 3] == [end.result.value for end in ends]
    assert '{"code": "1 + 1"}' == ends[1].call.arguments


def test_failed_use() -> None:
    """A use that failed at the provider is a failure."""
    (end,), _ = use(reply.output({**SEARCH, "status": "failed"}, *MESSAGE))

    assert end.result.is_error


GATES: dict[str, dict[str, Any]] = {
    "authorize": {"authorize": lambda made, arguments, context: made.name not in ("web_search", "code_interpreter")},
    "approve": {"approve": lambda request: request.tool.name not in ("web_search", "code_interpreter")},
    "allowed": {"allowed_tools": ["add", "file_search"]},
}


@pytest.mark.parametrize("options", GATES.values(), ids=GATES)
def test_gates(options: dict[str, Any]) -> None:
    """The gates are asked about the offer: what they refuse, and what may not be called, is not offered."""
    _, offered = use(reply.output(CALL), reply.text("3."), **options)

    assert [["add", "file_search"]] * 2 == offered


def test_what_the_gates_see() -> None:
    """They are asked once in a run, about the tool with its settings; a decision that must wait is none."""
    seen: list[Any] = []

    def approve(request: ApprovalRequest) -> Any:
        seen.append((request.tool.name, request.arguments))
        return request.tool.name == "add" or defer(request)

    _, offered = use(reply.output(CALL), reply.text("3."), approve=approve)

    assert [["add"]] * 2 == offered
    assert ("code_interpreter", {"container": {"type": "auto"}}) == seen[1]
    assert ["web_search", "code_interpreter", "file_search", "add"] == [name for name, _ in seen]


def test_required_approval() -> None:
    """One that requires approval is not offered where there is nobody to ask."""
    own = [tool(OURS[1], approve=True)]

    assert [[]] == use(reply.text("No."), tools=own)[1]
    assert [["web_search"]] == use(reply.text("No."), tools=own, approve=approve_all)[1]


def test_stopped() -> None:
    """An approver that stops the run at the offer ends it before any request."""

    def approve(_: ApprovalRequest) -> Decision:
        return Decision(False, "enough", refusal="stop")

    with FakeServer([]) as server:
        options: dict[str, Any] = {"model": "m", "base_url": server.base_url, "api_key": "test", "api": "responses"}

        assert "stopped" == Runner(OURS, approve=approve, **options).run("Go.").finish_reason


def test_foreign() -> None:
    """What the model has read by them counts as foreign from then on."""
    asked: list[tuple[str, ...]] = []

    @tool(effect="write")
    def write(text: str) -> str:
        """Write."""
        return text

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.foreign)
        return True

    called = {**CALL, "name": "write", "arguments": '{"text": "x"}'}
    tools = [OURS[1], write]
    use(reply.output(SEARCH, called), reply.text("Done."), tools=tools, approve=after_foreign(approve))

    assert [("web_search",)] == asked


@pytest.mark.parametrize("dialect", ["chat", "anthropic", "gemini", "interactions", "mcp", "minimal", "calls"])
def test_other_dialects(dialect: Any) -> None:
    """No other dialect has them, and says so."""
    with pytest.raises(DefinitionError, match=f"'web_search' is executed by .* dialect '{dialect}' is not for"):
        Toolbox(OURS).schemas(dialect)


@pytest.mark.parametrize("options", [{}, {"dialect": "calls"}])
def test_other_runners(options: dict[str, Any]) -> None:
    """A runner of another API is refused when it is made."""
    with pytest.raises(DefinitionError, match="pass api='responses', or leave the tool out"):
        Runner(OURS, model="m", base_url="http://localhost:9/v1", **options)


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("web", {}, "not one of 'web_search', 'file_search', 'code_interpreter'"),
        ("file_search", {}, "needs vector_store_ids"),
        ("web_search", {"filters": {1j}}, "is not JSON"),
    ],
)
def test_wrong_settings(name: Any, settings: dict[str, Any], why: str) -> None:
    """An unknown tool, and a setting that is missing or no JSON, is refused at once."""
    with pytest.raises(DefinitionError, match=why):
        provider_tool(name, **settings)


def test_called_as_a_function() -> None:
    """A model that calls one as a function gets an answer, and nothing is executed."""
    called = {**CALL, "name": "web_search", "arguments": "{}"}
    (end,), _ = use(reply.output(called), reply.text("Oh."))

    assert "web_search is executed by the model's provider." == end.result.text
