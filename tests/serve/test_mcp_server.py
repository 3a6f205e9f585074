"""A toolbox for MCP clients: listing, calls, progress, cancellation and approval."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from typing_extensions import TypedDict

from tests.apps import serve
from toolkit import DefinitionError, FatalError, File, Image, Toolbox, ToolContext, ToolError, tool
from toolkit.approvers import approve_all
from toolkit.builtin import provider_tool
from toolkit.cli import main
from toolkit.serve.local import parse_address
from toolkit.serve.mcp import make_server
from toolkit.sources.mcp import MCP

Answer = Callable[[Any, types.ElicitRequestParams], Awaitable[types.ElicitResult]]
VERSIONS = pytest.mark.parametrize("mode", ["auto", "legacy"])


class Place(TypedDict):
    name: str
    birds: int


log: list[str] = []


@tool(effect="read", title="Bird counter")
def count_birds(place: str) -> Place:
    """Count the birds at a place."""
    if place == "moon":
        raise ToolError("There are no birds on the moon.")
    return {"name": place, "birds": 7}


@tool(effect="destructive", idempotent=True, approve=True)
def clear(path: str) -> str:
    """Clear a folder."""
    log.append(path)
    return f"cleared {path}"


@tool(effect="write")
async def work(context: ToolContext) -> int:
    """Report progress."""
    context.progress("one")
    await asyncio.sleep(0)
    context.update({"done": 2})
    return 3


@tool
def draw() -> list[Any]:
    """Draw a picture."""
    print("this is for nobody")
    return ["here", Image(b"\x89PNG"), File(b"%PDF", name="a.pdf")]


@tool
def wait(context: ToolContext) -> str:
    """Wait until it is cancelled."""
    context.progress("waiting")
    while not context.cancelled:
        time.sleep(0.01)
    log.append("cancelled")
    return "over"


@tool
def end() -> str:
    """End everything."""
    raise FatalError("the secret is 42")


@tool
def whoami(context: ToolContext[str | None]) -> str | None:
    """Return the user."""
    return context.deps


TOOLS: list[Any] = [count_birds, clear, work, draw, wait, end, whoami]


def talk(session: Callable[[Client], Awaitable[Any]], *, mode: Any = "auto", answer: Any = None, **options: Any) -> Any:
    """Run a client's session with a server of the tools."""
    log.clear()

    async def main() -> Any:
        async with Client(make_server(TOOLS, **options), mode=mode, elicitation_callback=answer) as client:
            return await session(client)

    return asyncio.run(main())


def call(
    name: str, mode: Any = "auto", answer: Any = None, options: Any = None, **arguments: Any
) -> types.CallToolResult:
    """Call one tool of the server."""
    result: types.CallToolResult = talk(
        lambda client: client.call_tool(name, arguments), mode=mode, answer=answer, **(options or {})
    )
    return result


def text_of(result: types.CallToolResult) -> str:
    """Return the first text of a result."""
    return next(block.text for block in result.content if isinstance(block, types.TextContent))


def make_answer(action: Any, content: Any = None, asked: list[str] | None = None) -> Answer:
    """Make the client's user."""

    async def answer(_: Any, params: Any) -> types.ElicitResult:
        if asked is not None:
            asked.append(params.message)
        return types.ElicitResult(action=action, content=content)

    return answer


@VERSIONS
def test_listing(mode: str) -> None:
    """A client sees names, titles, schemas, and hints that come from the effects."""
    listed = {each.name: each for each in talk(lambda client: client.list_tools(), mode=mode).tools}
    birds = listed["count_birds"]

    assert [tool.name for tool in TOOLS] == [*listed]
    assert ("Bird counter", "Count the birds at a place.") == (birds.title, birds.description)
    assert ["place"] == [*birds.input_schema["properties"]]
    assert ["name", "birds"] == [*(birds.output_schema or {})["properties"]]
    hints = {
        name: each.annotations and (each.annotations.read_only_hint, each.annotations.destructive_hint)
        for name, each in listed.items()
    }
    assert ((True, None), (False, True), (False, False)) == (hints["count_birds"], hints["clear"], hints["work"])
    assert hints["draw"] is None
    clear_hints = listed["clear"].annotations
    assert clear_hints is not None and clear_hints.idempotent_hint is True


@VERSIONS
def test_call(mode: str) -> None:
    """A call returns text and structured content; an int is wrapped, as its schema says."""
    birds, three = call("count_birds", mode, place="pond"), call("work", mode)

    assert ({"name": "pond", "birds": 7}, False) == (birds.structured_content, birds.is_error)
    assert '{"name":"pond","birds":7}' == text_of(birds)
    assert {"result": 3} == three.structured_content


def test_images_and_files() -> None:
    """Images and files of a result reach the client."""
    result = call("draw")

    assert ["text", "image", "resource"] == [block.type for block in result.content]
    assert {"result": ["here", None, None]} == result.structured_content


def test_image_in_a_dict() -> None:
    """The structured content of a dict names its images, which are beside it."""

    def plot() -> dict[str, Any]:
        """Plot something."""
        return {"plot": Image(b"\x89PNG"), "points": 7}

    async def main() -> types.CallToolResult:
        async with Client(make_server([plot])) as client:
            return await client.call_tool("plot", {})

    result = asyncio.run(main())

    assert {"plot": "[image]", "points": 7} == result.structured_content
    assert ["text", "image"] == [block.type for block in result.content]


def test_tool_of_another_server() -> None:
    """The structured content of a tool of another server is passed on, where its text is not the same data."""

    def count() -> int:
        """Count."""
        return 5

    with MCP(make_server([count]), name="inner") as inner, MCP(make_server([inner]), name="outer") as outer:
        assert {"result": 5} == Toolbox([outer]).call("mcp_outer_mcp_inner_count").value


@VERSIONS
def test_result_that_is_not_as_declared(mode: Any) -> None:
    """A result that does not match the return annotation is an error with its text; a client raises no exception."""

    def measure() -> float:
        """Measure something."""
        return float("nan")

    async def main() -> types.CallToolResult:
        async with Client(make_server([measure]), mode=mode) as client:
            return await client.call_tool("measure", {})

    result = asyncio.run(main())

    assert (True, None) == (result.is_error, result.structured_content)
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    assert ["measure has run, but what follows is not what it declares.", '"NaN"'] == texts


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("count_birds", {"place": "moon"}, "There are no birds on the moon."),
        ("count_birds", {"place": []}, "Invalid arguments: place"),
        ("count_bird", {}, "did you mean 'count_birds'"),
        ("end", {}, "end failed."),
    ],
)
def test_errors(name: str, arguments: dict[str, Any], text: str) -> None:
    """Whatever fails is a result with an error, without what the client is not to know."""
    result = call(name, **arguments)

    assert result.is_error
    assert text in text_of(result)
    assert "42" not in text_of(result)


@VERSIONS
def test_progress(mode: str) -> None:
    """Progress reaches a client that asks for it, in order and before the result."""
    seen: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async def session(client: Client) -> None:
        await client.call_tool("work", progress_callback=on_progress)
        while len(seen) < 2:  # noqa: ASYNC110  an older client handles notifications in tasks of their own
            await asyncio.sleep(0.01)

    talk(session, mode=mode)

    assert [(1, "one"), (2, '{"done":2}')] == seen


@VERSIONS
def test_cancellation(mode: str) -> None:
    """A client that cancels a call cancels the tool."""

    async def session(client: Client) -> None:
        started = asyncio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            started.set()

        task = asyncio.create_task(client.call_tool("wait", progress_callback=on_progress))
        await started.wait()
        task.cancel()
        await asyncio.wait([task])
        while not log:  # noqa: ASYNC110  a thread fills it
            await asyncio.sleep(0.01)

    talk(session, mode=mode)

    assert ["cancelled"] == log


@VERSIONS
def test_approval(mode: str) -> None:
    """The client's user is asked about a call that requires approval, with its arguments, and it runs once approved."""
    asked: list[str] = []
    result = call("clear", mode, make_answer("accept", {"approve": True}, asked), path="/tmp/x")  # noqa: S108

    assert "cleared /tmp/x" == text_of(result)
    assert ['Run clear with {"path":"/tmp/x"}?'] == [message.replace(": ", ":") for message in asked]
    assert ["/tmp/x"] == log  # noqa: S108


def test_server_that_cannot_ask() -> None:
    """Where an older client cannot be asked, since each answer is one JSON object, the call is refused."""

    async def main(url: str) -> types.CallToolResult:
        answer: Any = make_answer("accept", {"approve": True})
        async with Client(f"{url}/mcp", mode="legacy", elicitation_callback=answer) as client:
            return await client.call_tool("clear", {"path": "x"})

    log.clear()
    with serve(make_server(TOOLS).streamable_http_app(json_response=True)) as url:
        result = asyncio.run(main(url))

    assert result.is_error and "cannot ask its user" in text_of(result)
    assert [] == log


@VERSIONS
@pytest.mark.parametrize(
    ("action", "content"),
    [("accept", {"approve": False}), ("accept", {"approve": "true"}), ("accept", {}), ("accept", None)]
    + [("decline", {"approve": True}), ("cancel", None)],
)
def test_no_approval(mode: str, action: str, content: Any) -> None:
    """Anything but an accepted true refuses the call."""
    result = call("clear", mode, make_answer(action, content), path="x")

    assert result.is_error
    assert [] == log


@VERSIONS
def test_client_that_cannot_ask(mode: str) -> None:
    """A client without elicitation cannot call a tool that requires approval."""
    result = call("clear", mode, path="x")

    assert "This client cannot ask its user for approval." in text_of(result)
    assert [] == log


def test_approval_is_for_one_call() -> None:
    """An approval does not pass to other arguments, nor to another tool."""

    async def session(client: Client) -> list[Any]:
        first: Any = await client.session.call_tool("clear", {"path": "x"}, allow_input_required=True)
        accepted = types.ElicitResult(action="accept", content={"approve": True})
        answers: Any = dict.fromkeys(first.input_requests, accepted)
        options: Any = {"input_responses": answers, "allow_input_required": True}
        return [await client.session.call_tool("clear", {"path": path}, **options) for path in ("y", "x")]

    other, same = talk(session, answer=make_answer("decline"))

    assert isinstance(other, types.InputRequiredResult)
    assert isinstance(same, types.CallToolResult)
    assert ["x"] == log


def test_own_approver() -> None:
    """The application's approver decides in place of the client's user."""
    assert "cleared x" == text_of(call("clear", options={"approve": approve_all}, path="x"))
    assert call("work", options={"approve": lambda _: False}).is_error


def test_deps() -> None:
    """Tools get the application's deps."""
    assert "Ann" == text_of(call("whoami", options={"deps": "Ann"}))


def test_later_tools() -> None:
    """A tool that joins the toolbox later is served, too."""
    box = Toolbox([count_birds])

    async def session() -> list[str]:
        async with Client(make_server(box)) as client:
            box.add(draw)
            return [each.name for each in (await client.list_tools()).tools]

    assert ["count_birds", "draw"] == asyncio.run(session())


def test_round_trip() -> None:
    """A toolbox that is served is a toolbox again."""
    with MCP(make_server(TOOLS), name="t") as server:
        box = Toolbox([server])

        assert {"name": "pond", "birds": 7} == box.call("mcp_t_count_birds", {"place": "pond"}).value
        assert [tool.settings.effect for tool in TOOLS] == ["read", "destructive", "write", None, None, None, None]
        assert ["read", "destructive", None] == [made.settings.effect for made in server.tools[:3]]


FILE = """
    from toolkit import tool

    print("loading")

    @tool
    def add(a: int, b: int) -> int:
        '''Add two numbers.'''
        print("adding")
        return a + b
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of tools that prints."""
    path = tmp_path / "tools.py"
    path.write_text(textwrap.dedent(FILE), encoding="utf-8")
    return path


@pytest.mark.timeout(60)
def test_command_over_http(file: Path) -> None:
    """`toolkit serve FILE --http` serves at an address of this machine."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "toolkit", "serve", str(file), "--http", str(port)], stderr=-3)
    try:
        server = MCP(f"http://127.0.0.1:{port}/mcp")
        while True:
            try:
                server.connect()
                break
            except Exception:
                threading.Event().wait(0.2)
        with server:
            assert "3" == Toolbox([*server.tools]).call("mcp_127_0_0_1_add", {"a": 1, "b": 2}).text
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize(
    ("address", "parsed"),
    [
        ("8000", ("127.0.0.1", 8000)),
        (8000, ("127.0.0.1", 8000)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:80", ("::1", 80)),
        (":9", ("127.0.0.1", 9)),
    ],
)
def test_address(address: str | int, parsed: tuple[str, int]) -> None:
    """A port alone is one of this machine."""
    assert parsed == parse_address(address)


@pytest.mark.parametrize("address", ["0.0.0.0:8000", "example.com:80", "8000/mcp", "", "localhost", "99999", "-1"])
def test_wrong_address(address: str) -> None:
    """An address that others can reach is refused, as is one that is none."""
    with pytest.raises(DefinitionError, match="is not a local address|is not a port"):
        parse_address(address)


def test_option_of_another_library() -> None:
    """Where an option of FastMCP is passed, the error says what to write."""
    with pytest.raises(TypeError, match=r"no option 'transport'\. serve\(.* serve\(\[...\], http=8000\) serves HTTP\."):
        make_server([work], transport="http")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@pytest.mark.usefixtures("own_process")
def test_runner_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file with a Runner is not served, since its gates would not apply."""
    path = tmp_path / "running.py"
    path.write_text("from toolkit import Runner\nrunner = Runner([])\n", encoding="utf-8")

    assert 1 == main(["serve", str(path)])
    assert "whose gates would not apply to clients. Serve it by A2A: --a2a. Or " in capsys.readouterr().err


def test_progress_without_a_run() -> None:
    """A caller's own `emit` receives the progress of a call without a run."""
    seen: list[Any] = []
    context = ToolContext(deps=None, emit=lambda *update: seen.append(update))
    Toolbox([work]).call("work", "{}", context)
    asyncio.run(Toolbox([work]).acall("work", "{}", context))

    assert [("one", None), (None, {"done": 2})] * 2 == seen


def test_another_client() -> None:
    """FastMCP's client, too, lists, calls, and asks its user."""
    fastmcp = pytest.importorskip("fastmcp")
    elicitation = pytest.importorskip("fastmcp.client.elicitation")

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return elicitation.ElicitResult(action="accept", content={"approve": True})

    async def session(url: str) -> tuple[int, Any, Any]:
        async with fastmcp.Client(url, elicitation_handler=answer) as client:
            listed = await client.list_tools()
            birds = await client.call_tool("count_birds", {"place": "pond"})
            cleared = await client.call_tool("clear", {"path": "x"})
            return len(listed), birds.structured_content, cleared.content[0].text

    with serve(make_server(TOOLS).streamable_http_app()) as url:
        assert (7, {"name": "pond", "birds": 7}, "cleared x") == asyncio.run(session(f"{url}/mcp"))


def test_deps_of_a_server() -> None:
    """A tool that takes deps is not served without them."""

    @tool
    def who(context: ToolContext[str]) -> str:
        """Say who is asking."""
        return context.deps

    with pytest.raises(TypeError, match=r"who\(\) takes a ToolContext\[str\], .*: pass deps= to the server"):
        make_server([who])


@pytest.mark.parametrize("option", ["name", "instructions", "approve", "prompts", "resources"])
def test_wrong_options(option: str) -> None:
    """An option of a wrong type is refused by its name."""
    options: dict[str, Any] = {option: 5}
    with pytest.raises(DefinitionError, match=f"{option}=5 is not "):
        make_server([], **options)


def test_no_instructions() -> None:
    """None is taken, as by the `mcp` package."""
    assert make_server([], instructions=None).instructions is None


def test_tool_that_no_client_can_have() -> None:
    """A tool that a model's provider executes cannot be served, and is refused at once."""
    with pytest.raises(DefinitionError, match="the dialect 'mcp' is not for"):
        make_server([provider_tool("web_search")])
