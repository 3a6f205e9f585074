"""A runner for A2A clients: its card, tasks, conversations, approvals, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from a2a.client import Client, ClientConfig, create_client
from a2a.helpers import new_data_part, new_raw_part, new_text_part
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict

from tests.apps import serve
from toolkit import DefinitionError, FatalError, Runner, Toolbox, ToolContext, ToolError, tool
from toolkit.approvers import ask_when, defer
from toolkit.cli import main
from toolkit.models import ModelRequest
from toolkit.serve.a2a import make_app
from toolkit.sources.a2a import A2A
from toolkit.testing import ScriptedModel, call

TOKEN = "k3y"  # noqa: S105  for tests
log: list[str] = []
started = threading.Event()


@tool(effect="destructive", approve=True)
def clear(path: str) -> str:
    """Clear a folder."""
    log.append(path)
    return f"cleared {path}"


@tool(title="Bird counter")
def count_birds(place: str) -> int:
    """Count the birds at a place."""
    if place == "moon":
        raise ToolError("There are none.")
    return 7


@tool
def wait(context: ToolContext) -> str:
    """Wait until it is cancelled."""
    started.set()
    while not context.cancelled:
        time.sleep(0.01)
    log.append("cancelled")
    return "over"


@tool
def end() -> str:
    """End everything."""
    raise FatalError("the secret is 42")


@tool
def whoami(context: ToolContext[str]) -> str:
    """Return the user."""
    return context.deps


TOOLS = [clear, count_birds, wait, end, whoami]


def answer(request: ModelRequest) -> Any:
    """Answer as a model that does what the last message says."""
    last = request.messages[-1]
    text = last.text
    if type(last).__name__ == "ToolMessage":
        return f"Done: {text}"
    if text.startswith("clear"):
        return [call("clear", path=path) for path in text.split()[1:]]
    if text in ("wait", "end", "whoami"):
        return [call(text)]
    if text == "remember":
        return " / ".join(message.text for message in request.messages)
    if text == "break":
        raise RuntimeError("the secret is 42")
    if text == "say nothing":
        return ""
    files = "".join(f" {file.name} of {len(file.data)}" for file in getattr(last, "files", ()))
    return f"You said {text!r}{files}."


def make_runner(**options: Any) -> Runner:
    """Make a runner that pauses for calls that require approval."""
    approve = ask_when(defer, when=lambda request: request.required)
    given: Any = {"approve": approve, **options}
    return Runner(TOOLS, model=ScriptedModel(answer), **given)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a served runner."""
    with serve(make_app(make_runner(), name="Birds", deps="ann", hosts=["127.0.0.1"])) as url:
        yield url


@pytest.fixture(autouse=True)
def empty_log() -> None:
    """Each test begins with an empty log."""
    log.clear()
    started.clear()


def ask(source: A2A, message: str, **more: Any) -> Any:
    """Send a message by the client of this library."""
    return Toolbox([source]).call(f"a2a_{source.name}_ask", {"message": message, **more})


def talk(url: str, session: Callable[[Client], Any], *, streaming: bool = True, token: str = "") -> Any:
    """Run a session of the a2a package's own client."""

    async def main() -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else None
        async with httpx.AsyncClient(headers=headers, timeout=20) as http:
            client = await create_client(url, ClientConfig(httpx_client=http, streaming=streaming))
            return await session(client)

    return asyncio.run(main())


async def send(client: Client, *parts: str | Part, **ids: str) -> list[StreamResponse]:
    """Send a message, and return the events."""
    contents = [new_text_part(part) if isinstance(part, str) else part for part in parts]
    message = Message(role=Role.ROLE_USER, message_id="m1", parts=contents, **cast("Any", ids))
    return [event async for event in client.send_message(SendMessageRequest(message=message))]


async def finish(client: Client, *parts: str | Part, **ids: str) -> Task:
    """Send a message, and return the task."""
    events = await send(client, *parts, **ids)
    first = events[0]
    known = first.task.id or first.status_update.task_id or ids.get("task_id", "")
    return await client.get_task(GetTaskRequest(id=known))


def text_of(task: Task) -> str:
    """Return the texts of a task's artifacts and of its message."""
    parts = [*(part for artifact in task.artifacts for part in artifact.parts), *task.status.message.parts]
    return "\n".join(part.text for part in parts if part.text)


def pending_of(task: Task) -> list[str]:
    """Return the ids of the calls that a task asks about."""
    data = next(part.data for part in task.status.message.parts if part.HasField("data"))
    return [each["id"] for each in MessageToDict(data)["pending"]]


def test_own_client(url: str) -> None:
    """The client of this library and the server of it understand each other."""
    with A2A(url, name="b", timeout=20) as source:
        assert [("a2a_b_ask", "b A2A Birds Tool", "Answers messages.")] == [
            (each.name, each.title, each.description) for each in source.tools
        ]
        assert "You said 'hello'." == ask(source, "hello").text
        assert "Done: ann" == ask(source, "whoami").text


@pytest.mark.parametrize("streaming", [True, False])
def test_client_of_the_package(url: str, streaming: bool) -> None:
    """The a2a package's own client gets a task that ends, with one artifact."""
    events = talk(url, lambda client: send(client, "hello"), streaming=streaming)
    task = talk(url, lambda client: finish(client, "hello"), streaming=streaming)

    kinds = [event.WhichOneof("payload") for event in events]
    assert (["task", "status_update", "artifact_update", "status_update"] if streaming else ["task"]) == kinds
    assert (TaskState.TASK_STATE_COMPLETED, "You said 'hello'.") == (task.status.state, text_of(task))


def test_older_version(url: str) -> None:
    """Clients of version 0.3 of the protocol are served, too."""
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    result = httpx.post(url, json=request).json()["result"]

    assert ("completed", "You said 'hello'.") == (result["status"]["state"], result["artifacts"][0]["parts"][0]["text"])


def test_card(url: str) -> None:
    """The card has the address that it was asked for at, and one skill, the agent itself."""
    card = httpx.get(f"{url}/.well-known/agent-card.json").json()

    assert ("Birds", ["ask"]) == (card["name"], [skill["id"] for skill in card["skills"]])
    assert {f"{url}/"} == {each["url"] for each in card["supportedInterfaces"]}
    assert "clear" not in json.dumps(card)


def test_card_of_options() -> None:
    """The address and the version on the card may be given; a token is said to be needed."""
    app = make_app(make_runner(), url="https://agents.example.org/birds", token=TOKEN, version="7")
    with serve(app) as url:
        card = httpx.get(f"{url}/.well-known/agent-card.json").json()

    assert ("7", "https://agents.example.org/birds") == (card["version"], card["url"])
    assert "Bearer" == card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"]


def test_conversation(url: str) -> None:
    """Messages of one context id are one conversation; those of another one are not."""

    async def session(client: Client) -> list[str]:
        first = await finish(client, "one")
        texts = [text_of(await finish(client, "remember", context_id=first.context_id))]
        return [*texts, text_of(await finish(client, "remember"))]

    assert ["one / You said 'one'. / remember", "remember"] == talk(url, session)


def test_forgotten_conversations() -> None:
    """The oldest conversations are forgotten."""

    async def session(client: Client) -> str:
        first = await finish(client, "one")
        await finish(client, "two")
        return text_of(await finish(client, "remember", context_id=first.context_id))

    with serve(make_app(make_runner(), deps="ann", keep=1)) as url:
        assert "remember" == talk(url, session)


def test_parts(url: str) -> None:
    """Data are JSON for the model, files are attached, links are named."""
    file = new_raw_part(b"%PDF", media_type="application/pdf", filename="a.pdf")
    link = Part(url="http://127.0.0.1:9/x", filename="x")
    task = talk(url, lambda client: finish(client, "look", new_data_part({"a": 1}), file, link))

    assert """You said 'look\\n{"a":1}\\n[x](http://127.0.0.1:9/x)' a.pdf of 4.""" == text_of(task)


@pytest.mark.parametrize(
    ("reply", "done"),
    [
        ("approve", ["x", "y"]),
        (" Approve. ", ["x", "y"]),
        ("reject", []),
        ("first", ["x"]),
        ("none", []),
    ],
)
def test_approval(url: str, reply: str, done: list[str]) -> None:
    """A run that is paused asks for input; the answer decides on each call."""

    async def session(client: Client) -> tuple[Task, Task]:
        question = await finish(client, "clear x y")
        given = {"first": [True, False], "none": [False, False]}.get(reply)
        part = reply if given is None else new_data_part({"decisions": dict(zip(pending_of(question), given))})
        return question, await finish(client, part, task_id=question.id)

    question, task = talk(url, session)

    assert TaskState.TASK_STATE_INPUT_REQUIRED == question.status.state
    assert 'Waits for approval:\n- clear({"path": "x"})\n- clear({"path": "y"})' in text_of(question)
    assert (TaskState.TASK_STATE_COMPLETED, done) == (task.status.state, log)


def test_agent_that_asks() -> None:
    """The question says which agent asks, as text and as data."""
    with serve(make_app(make_runner(name="Ann"), deps="ann", hosts=["127.0.0.1"])) as url:
        question = talk(url, lambda client: finish(client, "clear x"))
    data = next(part.data for part in question.status.message.parts if part.HasField("data"))

    assert 'clear({"path": "x"}) by Ann' in text_of(question)
    assert ["Ann"] == [each["agent"] for each in MessageToDict(data)["pending"]]


NO_DECISIONS: list[Any] = [
    " ",
    "yes, if you must approve",
    "approve x",
    "APPROVED",
    {"approve": True},
    {"decisions": {}},
    {"decisions": {"other": True}},
    {"decisions": {"ID": "true"}},
    {"decisions": {"ID": 1}},
    [True],
]


@pytest.mark.parametrize("reply", NO_DECISIONS, ids=str)
def test_no_decision(url: str, reply: Any) -> None:
    """Whatever is not a decision decides nothing, and the question is asked again."""

    async def session(client: Client) -> Task:
        question = await finish(client, "clear x")
        text = json.dumps(reply).replace("ID", pending_of(question)[0])
        part = new_text_part(reply) if isinstance(reply, str) else new_data_part(json.loads(text))
        return await finish(client, part, task_id=question.id)

    task = talk(url, session)

    assert (TaskState.TASK_STATE_INPUT_REQUIRED, []) == (task.status.state, log)


def test_answer_before_its_question() -> None:
    """An answer that is sent twice decides on one question: the next one was not asked yet."""

    @tool(effect="destructive", approve=True)
    def clear_slowly(path: str, context: ToolContext) -> str:
        """Clear a folder, once both answers have arrived."""
        assert arrived.wait(10)
        log.append(path)
        return "cleared"

    arrived, count = threading.Event(), 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal count
        count += scope["type"] == "http" and scope["method"] == "POST"

        async def receive_and_count() -> Any:
            message = await receive()
            if count == 3:
                arrived.set()
            return message

        await inner(scope, receive_and_count, send)

    async def session(client: Client) -> Task:
        question = await finish(client, "clear both")
        await asyncio.gather(*(send(client, "approve", task_id=question.id) for _ in range(2)))
        await asyncio.sleep(0.2)  # so that the second answer is handled
        assert ["x"] == log
        return await finish(client, "approve", task_id=question.id)

    script = [call("clear_slowly", path="x"), call("clear_slowly", path="y"), "Both are clear."]
    approve = ask_when(defer, when=lambda request: request.required)
    inner = make_app(Runner([clear_slowly], model=ScriptedModel(script), approve=approve))
    with serve(app) as url:
        task = talk(url, session)

    assert (TaskState.TASK_STATE_COMPLETED, ["x", "y"]) == (task.status.state, log)


def test_answers_at_the_same_time(url: str) -> None:
    """Each of two answers decides on its call, though the run of the first one asks about the other again."""

    async def session(client: Client) -> Task:
        question = await finish(client, "clear x y")
        parts = [new_data_part({"decisions": {each: True}}) for each in pending_of(question)]
        await asyncio.gather(*(send(client, part, task_id=question.id) for part in parts))
        task = question
        for _ in range(400):  # the stream of an answer may end when the other one is asked about
            if task.status.state == TaskState.TASK_STATE_COMPLETED:
                break
            await asyncio.sleep(0.05)
            task = await client.get_task(GetTaskRequest(id=question.id))
        return task

    task = talk(url, session)

    assert (TaskState.TASK_STATE_COMPLETED, ["x", "y"]) == (task.status.state, log)


def test_approval_by_own_client(url: str) -> None:
    """A model that calls the agent learns how to answer, and an approval is used once."""
    with A2A(url, name="b", timeout=20) as source:
        question = ask(source, "clear x")
        task_id = question.value["id"]

        assert not question.is_error and f"task_id='{task_id}'" in question.text
        assert "Done: cleared x" == ask(source, "approve", task_id=task_id).text
        assert "failed" == ask(source, "approve", task_id=task_id).kind
    assert ["x"] == log


def test_other_message_while_waiting(url: str) -> None:
    """While a task of a conversation waits, another one of it is rejected; after it was cancelled, it is not."""

    async def session(client: Client) -> list[Task]:
        question = await finish(client, "clear x")
        other = await finish(client, "hello", context_id=question.context_id)
        await client.cancel_task(CancelTaskRequest(id=question.id))
        return [question, other, await finish(client, "hello", context_id=question.context_id)]

    question, other, last = talk(url, session)

    assert TaskState.TASK_STATE_REJECTED == other.status.state
    assert f"The task {question.id} of this conversation waits for an answer." in text_of(other)
    assert TaskState.TASK_STATE_COMPLETED == last.status.state


def test_lost_state() -> None:
    """A task whose run is gone from memory ends, and nothing is executed."""

    async def session(client: Client) -> Task:
        question = await finish(client, "clear x")
        await finish(client, "hello")
        return await finish(client, "approve", task_id=question.id)

    with serve(make_app(make_runner(), deps="ann", keep=1, task_store=InMemoryTaskStore())) as url:
        task = talk(url, session)

    assert (TaskState.TASK_STATE_FAILED, []) == (task.status.state, log)
    assert "can no longer be continued" in text_of(task)


def test_cancel(url: str) -> None:
    """Cancelling a task cancels its run."""

    async def session(client: Client) -> Task:
        running = asyncio.create_task(send(client, "wait", context_id="waiting"))
        await asyncio.to_thread(started.wait)
        listed = await client.list_tasks(ListTasksRequest(context_id="waiting"))
        task = await client.cancel_task(CancelTaskRequest(id=listed.tasks[0].id))
        await running
        return task

    assert TaskState.TASK_STATE_CANCELED == talk(url, session).status.state
    while not log:
        time.sleep(0.02)
    assert ["cancelled"] == log


def test_time_limit_of_own_client(url: str) -> None:
    """A call that takes too long is cancelled at the server."""
    with A2A(url, name="b", timeout=1) as source:
        assert "timed_out" == ask(source, "wait").kind
    while not log:
        time.sleep(0.02)
    assert ["cancelled"] == log


def test_subscribe(url: str) -> None:
    """A client may come back to a task that runs."""

    async def session(client: Client) -> list[str | None]:
        running = asyncio.create_task(send(client, "wait", context_id="subscribed"))
        await asyncio.to_thread(started.wait)
        listed = await client.list_tasks(ListTasksRequest(context_id="subscribed"))
        events = client.subscribe(SubscribeToTaskRequest(id=listed.tasks[0].id))
        first = await anext(events)
        await client.cancel_task(CancelTaskRequest(id=listed.tasks[0].id))
        await running
        return [first.WhichOneof("payload")]

    assert ["task"] == talk(url, session)


@pytest.mark.parametrize("message", ["break", "end"])
def test_errors_do_not_leak(url: str, message: str) -> None:
    """Of a run that fails the client reads the class of the exception alone."""
    task = talk(url, lambda client: finish(client, message))

    assert TaskState.TASK_STATE_FAILED == task.status.state
    assert "secret" not in str(task)
    assert text_of(task) in ("The run failed: RuntimeError.", "The run failed: FatalError.")


def test_no_answer(url: str) -> None:
    """A run without an answer is a task that failed; a message without content is rejected."""
    nothing = talk(url, lambda client: finish(client, "say nothing"))
    empty = talk(url, lambda client: finish(client, Part(text="")))

    assert (TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED) == (nothing.status.state, empty.status.state)


def test_busy() -> None:
    """Where the runner has as many runs as it may have, a task is rejected."""

    async def session(client: Client) -> Task:
        running = asyncio.create_task(send(client, "wait"))
        await asyncio.to_thread(started.wait)
        task = await finish(client, "hello")
        runner.cancel()
        await running
        return task

    runner = make_runner(max_runs=1)
    with serve(make_app(runner, deps="ann")) as url:
        assert "The agent is busy. Try again later." == text_of(talk(url, session))


def test_token() -> None:
    """Without the token there is the card, and nothing else."""
    with serve(make_app(make_runner(), deps="ann", token=TOKEN)) as url:
        assert "You said 'hello'." == text_of(talk(url, lambda client: finish(client, "hello"), token=TOKEN))
        for wrong in ("k3", "k3yy", "K3Y", "k3y k3y"):
            with A2A(url, name="b", token=wrong) as source:
                assert "HTTP 401: it does not accept the token" in f"{ask(source, 'hello').text}"
        statuses = [
            httpx.request(method, f"{url}{path}", headers=headers, json={}).status_code
            for method in ("GET", "POST", "DELETE")
            for path in ("/", "/tasks", "/x/../")
            for headers in ({}, {"Authorization": "Basic azN5"}, {"Authorization": TOKEN})
        ]

    assert {401} == {*statuses}


def test_browser(url: str) -> None:
    """A page in a browser cannot call: not with its content types, and not by another name of the server."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "clear x"}]}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}})
    types = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]

    assert {415} == {httpx.post(url, content=body, headers={"content-type": each}).status_code for each in types}
    headers = {"content-type": "application/json", "host": "evil.example:80"}
    assert 421 == httpx.post(url, content=body, headers=headers).status_code
    assert 421 == httpx.get(f"{url}/.well-known/agent-card.json", headers={"host": "["}).status_code


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"3", b"{}", b'{"jsonrpc":"2.0","id":1,"method":"SendMessage"}', b"[" * 100_000]
)
def test_nonsense(url: str, content: bytes) -> None:
    """A request that is none has an error of the protocol as its answer."""
    answer = httpx.post(url, content=content, headers={"content-type": "application/json"})

    assert answer.status_code == 200 and "error" in answer.json()
    assert "/toolkit/" not in answer.text and "Traceback" not in answer.text


@pytest.mark.parametrize("content", [b" " * 10_000_001, b"[" + b"1," * 200_000, b"{}" * 200_001])
def test_long_request(url: str, content: bytes) -> None:
    """A request that is too long, or has too many values, is refused before it is parsed."""
    answer = httpx.post(url, content=content, headers={"content-type": "application/json"})

    assert "Payload too large" in answer.text


def test_table_in_a_request(url: str) -> None:
    """The commas of a text are no values."""
    answer = httpx.post(url, json={"text": '"a",' * 200_001})

    assert answer.status_code == 200 and "too large" not in answer.text


def test_tasks_are_bounded() -> None:
    """Of tasks that have ended or wait, the last ones are kept."""

    async def session(client: Client) -> None:
        first = await finish(client, "one")
        for _ in range(2):
            await finish(client, "clear x")
        with pytest.raises(A2AError):
            await client.get_task(GetTaskRequest(id=first.id))

    with serve(make_app(make_runner(), deps="ann", keep=2)) as url:
        talk(url, session)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"token": ""}, "token= must be visible ASCII"),
        ({"token": " a"}, "token= must be visible ASCII"),
        ({"keep": 0}, "keep=0"),
        ({"name": 5}, "name=5"),
        ({"description": None}, "description=None"),
        ({"url": 5}, "url=5"),
        ({"hosts": "localhost"}, "hosts='localhost'"),
    ],
)
def test_wrong_options(options: dict[str, Any], text: str) -> None:
    """An option that is wrong is refused at once."""
    with pytest.raises(DefinitionError, match=text):
        make_app(make_runner(), **options)
    with pytest.raises(DefinitionError, match="runner="):
        make_app(cast("Any", [clear]))


@pytest.mark.usefixtures("own_process")
def test_command(tmp_path: Path) -> None:
    """`toolkit serve --a2a` serves the Runner of a file to this machine; port 0 takes a free one."""
    path = tmp_path / "birds.py"
    path.write_text(
        "from toolkit import Runner\nfrom toolkit.testing import ScriptedModel\n"
        "runner = Runner(model=ScriptedModel(lambda request: 'Hello.'))\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "toolkit", "serve", str(path), "--a2a", "--http", "0"]
    assert 1 == main(["serve", str(path), "--a2a", "--http", "0.0.0.0:80"])
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.terminate()

    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*\n", line)


def test_at_the_same_time(url: str) -> None:
    """Calls of one turn run beside each other, each with a conversation of its own."""
    words = [f"word {number}" for number in range(12)]
    calls = [call("a2a_b_ask", message=word) for word in words]
    with A2A(url, name="b", timeout=30) as source:
        result = Runner([source], model=ScriptedModel([calls, "done"])).run("go")

    assert [f"You said '{word}'." for word in words] == [each.result.text for each in result.calls]


def test_one_conversation_at_the_same_time(url: str) -> None:
    """Messages of one conversation that come together are answered one after the other, and none is lost."""

    async def session(client: Client) -> str:
        await asyncio.gather(*(finish(client, f"word {number}", context_id="shared") for number in range(5)))
        return text_of(await finish(client, "remember", context_id="shared"))

    remembered = talk(url, session)

    assert all(f"You said 'word {number}'." in remembered for number in range(5))
