"""Tools that OpenAI executes itself: offered beside ours, seen in events, and kept in the conversation."""

from __future__ import annotations

from typing import Any

import openai

from toolkit import Runner, RunState, tool
from toolkit.events import TurnFinished
from toolkit.models.responses import ResponsesModel
from toolkit.testing import FakeServer, reply

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
TOOLS: list[dict[str, Any]] = [
    {"type": "web_search"},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "file_search", "vector_store_ids": ["vs_1"]},
]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_provider_tools() -> None:
    """They are in each request; what they did is in the events of the turn, goes back as it came, and is saved."""
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
