"""Prompts and resources of an MCP server, by the client of the mcp package and by ours."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.server import Server

from toolkit import DefinitionError, Failed, FatalError, File, Image, Runner, TimedOut, ToolContext, ToolError, tool
from toolkit.cli import main
from toolkit.models import ModelResponse, UserMessage
from toolkit.serve.mcp import make_server, prompt, resource
from toolkit.sources.mcp import MCP
from toolkit.testing import ScriptedModel


@prompt
def review(code: str, strict: bool = False) -> str:
    """Review code.

    Args:
        code: The code.
        strict: Whether each fault counts.
    """
    if code == "bad":
        raise ToolError("There is no code.")
    return f"Review this, strictly: {strict}\n{code}"


@prompt
def greet() -> list[Any]:
    """Begin a conversation."""
    return ["Hello.", ModelResponse(text="Hi."), UserMessage("Look.", images=(Image(b"\x89PNG"),))]


@resource("config://app")
@tool(title="Settings")
def config() -> dict[str, int]:
    """The settings."""
    return {"size": 5}


@resource("notes://{folder}/all/{name}", media_type="text/markdown")
async def note(folder: str, name: str) -> str:
    """A note."""
    return f"{folder}: {name}"


@resource("file:///logo.png")
def logo() -> Image:
    """The logo."""
    return Image(b"\x89PNG")


@resource("data://raw/dump.bin")
def dump() -> bytes:
    """Bytes."""
    return b"123"


@resource("me://{who}")
def me(who: str, context: ToolContext[str | None]) -> str:
    """Who asks."""
    if who == "nobody":
        raise FatalError("the secret is 42")
    return f"{who} of {context.deps}"


@resource("menu://the café/{day}")
def menu(day: str) -> str:
    """The menu of a day."""
    return f"Soup on {day}."


RESOURCES: list[Any] = [config, note, logo, dump, me, menu]


def talk(session: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
    """Run a session of the mcp package's client."""

    async def main() -> Any:
        async with Client(make_server([], prompts=[review, greet], resources=RESOURCES, **options)) as client:
            return await session(client)

    return asyncio.run(main())


def test_functions() -> None:
    """A decorated function is called as before."""
    assert ("Review this, strictly: True\nx", {"size": 5}) == (review("x", strict=True), config())


def test_listed_prompts() -> None:
    """A prompt has the name, the docstring and the parameters of its function."""
    first, second = talk(lambda client: client.list_prompts()).prompts

    assert ("review", "Review code.", "greet", []) == (first.name, first.description, second.name, second.arguments)
    assert [("code", "The code.", True), ("strict", "Whether each fault counts.", False)] == [
        (each.name, each.description, each.required) for each in first.arguments
    ]


def test_prompt() -> None:
    """Arguments, which the protocol sends as text, are converted; a text is one message of the user."""
    (message,) = talk(lambda client: client.get_prompt("review", {"code": "x = 1", "strict": "true"})).messages

    assert ("user", "Review this, strictly: True\nx = 1") == (message.role, message.content.text)


def test_messages() -> None:
    """A prompt may have several messages, of both sides, with images."""
    messages = talk(lambda client: client.get_prompt("greet")).messages

    assert [("user", "text"), ("assistant", "text"), ("user", "text"), ("user", "image")] == [
        (each.role, each.content.type) for each in messages
    ]


def test_files() -> None:
    """Files of a message arrive, and so do images and files that are returned as they are."""
    picture, paper = Image(b"\x89PNG"), File(b"%PDF-1.4", "application/pdf", "a b.pdf")

    @prompt
    def summarize() -> list[Any]:
        """Summarize a paper."""
        return [UserMessage("Summarize:", files=(paper,)), picture, paper]

    with MCP(make_server([], prompts=[summarize])) as server:
        text, *parts = server.get_prompt("summarize")

    assert UserMessage("Summarize:") == text
    assert [((), (paper,)), ((picture,), ()), ((), (paper,))] == [
        (each.images, each.files) for each in parts if isinstance(each, UserMessage)
    ]


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda client: client.get_prompt("none"), "There is no prompt 'none'"),
        (lambda client: client.get_prompt("review", {}), "code: missing, but required"),
        (lambda client: client.get_prompt("review", {"code": "bad"}), "There is no code."),
        (lambda client: client.read_resource("config://other"), "There is no resource 'config://other'"),
        (lambda client: client.read_resource("notes://a/all/b/c"), "There is no resource"),
        (lambda client: client.read_resource("notes://a/all/..%2Fb"), "There is no resource"),
        (lambda client: client.read_resource("notes://../all/b"), "There is no resource"),
        (lambda client: client.read_resource("notes://a/all/..%5Cb"), "There is no resource"),
        (lambda client: client.read_resource("me://nobody"), "^me failed.$"),
    ],
)
def test_refused(ask: Callable[[Client], Awaitable[Any]], text: str) -> None:
    """What is not there or fails is an error of the protocol, which says no more than a tool's would."""

    async def session(client: Client) -> None:
        with pytest.raises(MCPError, match=text):
            await ask(client)

    talk(session)


def test_listed_resources() -> None:
    """Resources are listed by address, and those whose address has parameters as templates."""

    async def session(client: Client) -> Any:
        return (await client.list_resources()).resources, (await client.list_resource_templates()).resource_templates

    plain, templates = talk(session)

    assert ["config://app", "file:///logo.png", "data://raw/dump.bin"] == [each.uri for each in plain]
    assert ("config", "Settings", "The settings.") == (plain[0].name, plain[0].title, plain[0].description)
    assert [
        ("notes://{folder}/all/{name}", "text/markdown"),
        ("me://{who}", None),
        ("menu://the café/{day}", None),
    ] == [(each.uri_template, each.mime_type) for each in templates]


@pytest.mark.parametrize(
    ("uri", "content"),
    [
        ("config://app", types.TextResourceContents(uri="", mime_type="application/json", text='{"size":5}')),
        ("notes://a%20b/all/c.md", types.TextResourceContents(uri="", mime_type="text/markdown", text="a b: c.md")),
        ("file:///logo.png", types.BlobResourceContents(uri="", mime_type="image/png", blob="iVBORw==")),
        ("data://raw/dump.bin", types.BlobResourceContents(uri="", mime_type="application/octet-stream", blob="MTIz")),
        ("me://x", types.TextResourceContents(uri="", mime_type="text/plain", text="x of Ann")),
        ("menu://the café/May 1", types.TextResourceContents(uri="", mime_type="text/plain", text="Soup on May 1.")),
        (
            "menu://the%20caf%C3%A9/May%201",
            types.TextResourceContents(uri="", mime_type="text/plain", text="Soup on May 1."),
        ),
    ],
)
def test_resource(uri: str, content: Any) -> None:
    """A resource is what its function returns, with the arguments of its address and the deps of the server."""
    (got,) = talk(lambda client: client.read_resource(uri), deps="Ann").contents

    assert content.model_copy(update={"uri": uri}) == got


def test_gates() -> None:
    """The gates of a tool hold for the resource that is made of it."""
    secret = resource("x://y")(tool(lambda: "secret", name="secret", authorize=lambda made, values, context: False))
    with MCP(make_server([], resources=[secret])) as server, pytest.raises(ToolError, match="denied by authorization"):
        server.read_resource("x://y")


def test_no_prompts() -> None:
    """A server of tools alone does not say that it has prompts or resources."""

    async def main() -> Any:
        async with Client(make_server([])) as client:
            return client.server_capabilities

    capabilities = asyncio.run(main())
    assert (None, None) == (capabilities.prompts, capabilities.resources)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: resource("app")(config.tool), "is not an address"),
        (lambda: resource("app://{x}")(config.tool), r"has the parameters \['x'\], but the function has \[\]\. They"),
        (lambda: make_server([], resources=[config.tool]), r"is not a resource: decorate the function with @resource"),
        (lambda: make_server([], prompts=[greet, greet]), 'duplicate tool name "greet"'),
        (lambda: make_server([], prompts=[config]), r"is not a prompt: decorate the function with @prompt"),
        (lambda: make_server([], resources=[me, resource("me://{name}")(lambda name: name)]), "Two resources have"),
    ],
)
def test_mistakes(make: Callable[[], object], text: str) -> None:
    """A resource without an address of its own, or with other parameters, and what is none, are refused at once."""
    with pytest.raises(DefinitionError, match=text):
        make()


@pytest.mark.usefixtures("own_process")
def test_missing_deps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A prompt or resource that takes deps is refused where there are none, also by `toolkit serve`."""

    @resource("deps://all")
    def mine(context: ToolContext[int]) -> int:
        """Mine."""
        return context.deps

    with pytest.raises(TypeError, match=r"mine\(\) takes a ToolContext\[int\], and there are no deps"):
        make_server([], resources=[mine])
    with MCP(make_server([], resources=[mine], deps=7)) as server:
        assert ["7"] == server.read_resource("deps://all")

    file = tmp_path / "needy.py"
    file.write_text(
        "from toolkit import ToolContext\nfrom toolkit.serve.mcp import prompt\n\n"
        "@prompt\ndef ask(context: ToolContext[int]) -> str:\n    return ''\n"
    )
    assert 1 == main(["serve", str(file)])
    assert "ask() takes a ToolContext[int]" in capsys.readouterr().err


def test_prompts_alone(tmp_path: Path) -> None:
    """`toolkit serve FILE` serves a file that has prompts and no tools."""
    file = tmp_path / "asking.py"
    file.write_text("from toolkit.serve.mcp import prompt\n\n@prompt\ndef ask() -> str:\n    return 'Why?'\n")
    command = [sys.executable, "-m", "toolkit", "serve", file]
    with MCP(command, name="asking", env={"PYTHONPATH": ":".join(sys.path)}) as server:
        assert ([UserMessage("Why?")], ()) == (server.get_prompt("ask"), tuple(server.tools))


SERVER = make_server([], prompts=[review, greet], resources=RESOURCES)


def test_client() -> None:
    """`MCP` lists and reads a server's prompts and resources: as messages and parts that a run takes."""
    with MCP(SERVER) as server:
        names = [each.name for each in server.list_prompts()]
        uris = [getattr(each, "uri", None) or getattr(each, "uri_template") for each in server.list_resources()]
        messages = server.get_prompt("greet")
        model = ScriptedModel(["Fine.", "Yes."])
        Runner(model=model).run(messages=server.get_prompt("review", code="x = 1"))
        Runner(model=model).run([*server.read_resource("config://app"), "Is this all?"])

        assert [File(b"123", "application/octet-stream", "dump.bin")] == server.read_resource("data://raw/dump.bin")
    assert (["review", "greet"], 6) == (names, len({*uris}))
    assert [UserMessage("Hello."), ModelResponse(text="Hi.")] == messages[:2]
    first, second = (request.messages[-1].text for request in model.requests)
    assert "Review this, strictly: False\nx = 1" == first
    assert ['{"size":5}', "Is this all?"] == second.split()[:1] + second.splitlines()[-1:]


def test_async_client() -> None:
    """The same in an event loop."""

    async def main() -> Any:
        async with MCP(SERVER) as server:
            listed = [*await server.alist_prompts(), *await server.alist_resources()]
            return len(listed), await server.aget_prompt("review", code="x"), await server.aread_resource("me://x")

    assert (8, [UserMessage("Review this, strictly: False\nx")], ["x of None"]) == asyncio.run(main())


def test_hidden_in_a_resource() -> None:
    """What a person would not see in the text of a resource is escaped."""
    with MCP(SERVER) as server:
        assert ["a: b\\u200b"] == server.read_resource("notes://a/all/b%E2%80%8B")


def test_refused_client() -> None:
    """What a server refuses is an error with its reason."""
    with MCP(SERVER) as server, pytest.raises(ToolError, match=r"There is no prompt 'none'\."):
        server.get_prompt("none")


def test_argument_of_a_prompt_that_is_no_text() -> None:
    """An argument of a prompt that is not text is refused, with what to write."""
    number: Any = 3
    with (
        MCP(SERVER) as server,
        pytest.raises(TypeError, match=r"code=3 is not text, as MCP requires: write code='3'\."),
    ):
        server.get_prompt("review", code=number)


def test_server_without_some_kinds() -> None:
    """A server need not know tools, prompts and templates of resources: it has none then."""

    async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(name="note", uri="x://note")])

    with MCP(Server("notes", on_list_resources=list_resources)) as server:
        assert ((), [], ["x://note"]) == (
            server.tools,
            server.list_prompts(),
            [getattr(each, "uri", "") for each in server.list_resources()],
        )


def test_server_that_refuses_what_it_offers() -> None:
    """A server that says that it has tools, and does not list them, cannot be used."""

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        raise MCPError(types.METHOD_NOT_FOUND, "not today")

    with pytest.raises(Failed, match=r"cannot be reached: not today\."):
        MCP(Server("lazy", on_list_tools=list_tools)).connect()


def test_slow_client() -> None:
    """A resource that does not come in time is an error."""

    @resource("x://slow")
    async def slow() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return ""

    with MCP(make_server([], resources=[slow]), timeout=0.2) as server, pytest.raises(TimedOut):
        server.read_resource("x://slow")


def test_command(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`toolkit serve FILE` serves the prompts and resources of the file beside its tools, whatever the file prints."""
    file = tmp_path / "birds.py"
    file.write_text(
        "from toolkit import tool\nfrom toolkit.serve.mcp import prompt, resource\n\nprint('loading')\n\n"
        "@tool\ndef count() -> int:\n    print('counting')\n    return 7\n\n"
        "@prompt\ndef ask(place: str) -> str:\n    return f'Which birds are at the {place}?'\n\n"
        "@resource('birds://{name}')\ndef bird(name: str) -> str:\n    return f'A {name}.'\n"
    )
    command = [sys.executable, "-m", "toolkit", "serve", file]
    with MCP(command, name="birds", env={"PYTHONPATH": ":".join(sys.path)}) as server:
        assert [UserMessage("Which birds are at the pond?")] == server.get_prompt("ask", place="pond")
        assert ["A tern."] == server.read_resource("birds://tern")
        assert [("mcp_birds_count", "7")] == [(each.name, each.invoke({}).text) for each in server.tools]
    assert [] == [record for record in caplog.records if record.levelno >= logging.WARNING]
