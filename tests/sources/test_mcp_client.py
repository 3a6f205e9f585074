"""MCP: the tools of a server, in toolboxes and runs."""

from __future__ import annotations

import asyncio
import codecs
import gc
import itertools
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
from mcp.server import Server
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestURLParams,
    ImageContent,
    InputRequiredResult,
    ListToolsResult,
    SamplingMessage,
    TextContent,
    Tool,
)
from starlette.responses import PlainTextResponse

from tests import ways
from tests.apps import serve
from tests.sources.mcp_server import QUESTION, SAMPLE, make_asking_server, make_server
from toolkit import (
    ApprovalRequest,
    Decision,
    DefinitionError,
    DuplicateToolError,
    Failed,
    File,
    Halt,
    Image,
    Limits,
    Runner,
    RunResult,
    Toolbox,
    ToolCall,
    ToolContext,
    ToolNotFoundError,
)
from toolkit.approvers import approve_all, defer
from toolkit.display import show
from toolkit.events import ToolCallStarted, ToolCallUpdated, event_to_dict
from toolkit.models import ModelRequest, ToolMessage
from toolkit.serve.mcp import make_server as make_toolkit_server
from toolkit.sources.mcp import MCP
from toolkit.sources.mcp.transport import LINES
from toolkit.testing import ScriptedModel, call

HERE = Path(__file__).parent
SERVER = [sys.executable, HERE / "mcp_server.py"]


def liar(silent: str = "never", *switches: str, **options: Any) -> MCP:
    """Return a server that means no good."""
    command = [sys.executable, str(HERE / "mcp_liar.py"), silent, *switches]
    everything: Any = {"name": "liar", "timeout": 30, **options}
    return MCP(command, **everything)


@pytest.fixture(scope="module")
def server() -> Iterator[MCP]:
    """A server over standard input and output, which is given a variable; this process has another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_SECRET", "s3cret")
        with MCP(SERVER, name="s", env={"GIVEN": "x", "PYTHONPATH": str(HERE.parent.parent)}) as server:
            yield server


@pytest.fixture
def box(server: MCP) -> Toolbox:
    """A toolbox of the server's tools."""
    return Toolbox([server])


class Recorder:
    """An app that records the header `authorization` of each request."""

    def __init__(self, app: Any) -> None:
        self.app, self.seen = app, set[str]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen |= {value.decode() for name, value in scope.get("headers", ()) if name == b"authorization"}
        await self.app(scope, receive, send)


def test_call(box: Toolbox) -> None:
    """A call goes to the server, from a script and from an event loop."""
    assert {"result": 3} == box.call("mcp_s_add", '{"a": 1, "b": 2}').value
    assert "3" == asyncio.run(box.acall("mcp_s_add", {"a": 1, "b": 2})).text


def test_call_without_a_toolbox(server: MCP) -> None:
    """The tools of a server are ordinary tools."""
    add = next(each for each in server.tools if each.name == "mcp_s_add")

    assert "3" == add.invoke({"a": 1, "b": 2}).text
    assert 5 == Toolbox([*server.tools]).prefixed("x_").call("x_mcp_s_add", {"a": 2, "b": 3}).value["result"]


@pytest.mark.parametrize("way", [ways.run, ways.arun, ways.stream, ways.astream, ways.start])
def test_run(way: Callable[[Runner], Any], server: MCP) -> None:
    """A run calls the tools of a server beside its own, in whatever way it is started."""

    def double(n: int) -> int:
        """Double a number."""
        return 2 * n

    calls = [call("mcp_s_add", a=1, b=2), call("double", n=4), call("mcp_s_add", a=5, b=5)]
    result = way(Runner([double, server], model=ScriptedModel([calls, "done"])))

    assert ["3", "8", "10"] == [each.result.text for each in result.calls]


def test_sync_call_in_a_loop(box: Toolbox) -> None:
    """A sync call works inside a running event loop, as in a notebook."""

    async def main() -> str | None:
        return box.call("mcp_s_add", {"a": 1, "b": 2}).text

    assert "3" == asyncio.run(main())


def test_declaration(box: Toolbox) -> None:
    """Name, title, description, schema and effect come from the server; the name begins with the server's own here."""
    add, remove = box["mcp_s_add"], box["mcp_s_remove"]

    assert ("Addition", "Add two numbers.", "read") == (add.title, add.description, add.settings.effect)
    assert ["a", "b"] == [*add.parameters["properties"]]
    assert {"result": "integer"} == {key: part["type"] for key, part in (add.output_schema or {})["properties"].items()}
    assert ("Removal", "destructive") == (remove.title, remove.settings.effect)
    assert "MCP tool (no description)" == remove.description
    assert box["mcp_s_work"].settings.effect is None


def test_options_hold_against_hints(server: MCP) -> None:
    """What the application says of effect and approval holds, whatever the server hints."""
    with MCP(make_server(), name="s", effect="destructive", approve=True) as strict:
        result = Toolbox([strict]).call("mcp_s_add", {"a": 1, "b": 2})

        assert "destructive" == strict.tools[0].settings.effect
        assert "unavailable" == result.kind


@pytest.mark.parametrize(
    ("default", "effects"),
    [
        ("read", ["read", "destructive", "read"]),
        ("write", ["write", "destructive", "write"]),
        ("destructive", ["destructive"] * 3),
    ],
)
def test_hints_are_never_looser(default: Any, effects: list[str], server: MCP) -> None:
    """Of a hint and the effect that the toolbox states for its tools, the stricter one holds."""
    box = Toolbox([server], defaults={"effect": default})

    assert effects == [box[f"mcp_s_{name}"].settings.effect for name in ("add", "remove", "work")]


def test_effect_of_the_source_and_of_the_toolbox(server: MCP) -> None:
    """What the application says of one server stands before what it says of all tools; retries go by the result."""
    defaults: Any = {"effect": "write", "retries": 2}
    with MCP(make_server(), name="s", effect="read") as trusted:
        (made, *_) = Toolbox([trusted], defaults=defaults)

    assert ("read", 2) == (made.settings.effect, made.settings.retries)
    assert ("write", 0) == (
        (hinted := Toolbox([server], defaults=defaults)["mcp_s_add"].settings).effect,
        hinted.retries,
    )


def test_approver_sees_the_source(server: MCP) -> None:
    """Whoever approves a call reads which server it is for."""
    runner = Runner([server], model=ScriptedModel([[call("mcp_s_remove", path="x")]]), approve=defer)

    assert ["the tool 'remove' of the MCP server 's'"] == [each.source for each in runner.run("go").pending]


def test_events_name_the_source(server: MCP, capsys: pytest.CaptureFixture[str]) -> None:
    """An event of a call says which server it is for, whatever the tool is called here, and so does the display."""
    box = Toolbox([*server.tools]).prefixed("my_")
    calls = [call("my_mcp_s_add", a=1, b=2)]
    with Runner(box, model=ScriptedModel([calls, "done"])).stream("go") as events:
        (started,) = (event for event in events if isinstance(event, ToolCallStarted))
    show(Runner(box, model=ScriptedModel([calls, "done"])).stream("go"))

    assert "the tool 'add' of the MCP server 's'" == started.source == event_to_dict(started)["source"]
    assert "[Addition, the tool 'add' of the MCP server 's']" in capsys.readouterr().out


def test_invalid_arguments_stay_here(box: Toolbox) -> None:
    """Arguments that do not match the server's schema are refused here."""
    assert "invalid_arguments" == box.call("mcp_s_add", {"a": "x", "b": 2}).kind


def test_error(box: Toolbox) -> None:
    """An error of the server's tool is an error here, with the server's text."""
    result = box.call("mcp_s_fail")

    assert ("no such city", "no such city", "failed") == (result.text, result.error, result.kind)


def test_progress(server: MCP) -> None:
    """Progress and log messages of the server are updates of the call."""
    with Runner([server], model=ScriptedModel([[call("mcp_s_work")], "done"])).stream("go") as events:
        texts = [event.text for event in events if isinstance(event, ToolCallUpdated)]

    assert ["step 0", "step 1", "step 2", "3 of 3", "info: almost there"] == texts


def test_content(box: Toolbox) -> None:
    """Images and files are attached, embedded texts are read, links are named and not followed."""
    result = box.call("mcp_s_show")

    assert "look\n[image]\n[image that cannot be read]\n[file audio]\nthe notes\n[file b c.pdf]\n" in f"{result.text}"
    assert f"{result.text}".endswith("[manual](http://127.0.0.1:9/manual)")
    assert [b"\x89PNG\r\n"] == [image.data for image in result.images]
    assert ["audio/wav", "application/pdf"] == [file.media_type for file in result.files]


def test_content_that_a_text_names() -> None:
    """An image or file that the server's text names already, as the texts of this library's do, is named once."""
    parts = ["a chart:", Image(b"x", "image/png"), File(b"y", name="b[1].pdf")]

    def show() -> list[Any]:
        """Show."""
        return parts

    with MCP(make_toolkit_server([show]), name="s") as server:
        result = Toolbox([server]).call("mcp_s_show")
    assert ("a chart:\n[image]\n[file b[1].pdf]", 1, 1) == (result.text, len(result.images), len(result.files))


def test_cancel(box: Toolbox) -> None:
    """A call that is cancelled is cancelled at the server; other calls go on."""

    async def main() -> None:
        waiting = asyncio.Event()
        loop = asyncio.get_running_loop()

        def on_event(event: Any) -> None:
            if isinstance(event, ToolCallUpdated):
                loop.call_soon_threadsafe(waiting.set)

        async def follow() -> None:
            async with Runner(box, model=ScriptedModel([[call("mcp_s_wait")]])).astream("go") as events:
                async for event in events:
                    on_event(event)

        task = asyncio.create_task(follow())
        await waiting.wait()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())

    assert ["wait"] == box.call("mcp_s_list_cancelled").value["result"]


def test_time_limit() -> None:
    """A call that is not answered ends after the time limit, and the next one is answered."""
    with liar(timeout=2) as server:
        box = Toolbox([server])

        assert "timed_out" == box.call("mcp_liar_hang").kind
        assert "done" == box.call("mcp_liar_echo").text


def test_only_a_few_variables_of_the_environment(box: Toolbox) -> None:
    """A command gets the variables that it is given, and not those of this process."""
    assert ["", "x"] == [box.call("mcp_s_get_variable", {"name": name}).text for name in ("MY_SECRET", "GIVEN")]


def test_allow_and_block(caplog: pytest.LogCaptureFixture) -> None:
    """Either list chooses among the server's tools; a name that the server lacks is warned of, with similar ones."""
    with (
        MCP(make_server(), allow=["add", "remov"], name="s") as some,
        MCP(make_server(), block=["add"], name="s") as rest,
    ):
        assert ["mcp_s_add"] == [tool.name for tool in some.tools]
        assert "mcp_s_remove" in (names := [tool.name for tool in rest.tools]) and "mcp_s_add" not in names
    assert "allow= names the tool 'remov', which it does not have; did you mean 'remove'? Available:" in caplog.text
    with pytest.raises(DefinitionError, match=r"^The MCP server 'x': set either allow= or block=, not both\.$"):
        MCP("x", allow=["add"], block=["remove"])


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("uvx some-server", "some-server"),
        (["npx", "-y", "@scope/files", "/data"], "files"),
        ([sys.executable, "servers/weather.py"], "weather"),
        (["python", "-m", "my_server"], "my_server"),
        ("my-server --fast yes", "my-server"),
        ("/usr/bin/python3.12 server.py", "server"),
        ("uv run server.py", "server"),
        (["env", "TOKEN=key", "python", "server.py"], "env"),
        ("https://user:key@mcp.example.com/mcp?token=1", "mcp_example_com"),
    ],
)
def test_name(server: Any, name: str) -> None:
    """A server is called after its command or host; what is shown of its address has no keys."""
    made = MCP(server)

    assert name == made.name
    assert "key" not in repr(made) and "token" not in repr(made)


def test_command_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """There a backslash in a command is part of a path."""
    monkeypatch.setattr(sys, "platform", "win32")

    assert r": C:\birds\server.exe>" in repr(MCP(r"C:\birds\server.exe --port 5", name="birds"))
    assert r": C:\My birds\server.exe>" in repr(MCP(r'"C:\My birds\server.exe"', name="birds"))


@pytest.mark.parametrize(
    "server",
    [
        ["python", "--token", "key"],
        ["python", "-u", "-W", "key", "server.py"],
        ["npx", "--registry", "https://key@h/", "files"],
        "uvx --index key server",
        ["uvx", "git+https://key@example.com/server"],
        ["uv", "run", "TOKEN=key"],
        ["python3"],
    ],
)
def test_name_that_may_be_a_key(server: Any) -> None:
    """Where an option or an address stands before what a launcher starts, a name has to be given."""
    with pytest.raises(DefinitionError, match=r"Pass name=\.") as caught:
        MCP(server)

    assert "key" not in f"{caught.value}"
    assert "given" == MCP(server, name="given").name


@pytest.mark.parametrize(
    "server", [["env", "TOKEN=key", "python", "x.py"], ["srv", "--token", "key"], "http://u:key@h/x?token=key#key"]
)
def test_texts_have_no_keys(server: Any) -> None:
    """Of a command the program alone is shown, of a URL neither user nor query."""
    wrong: Any = {"headers": {}} if isinstance(server, list) else {"cwd": "/"}
    with pytest.raises(DefinitionError) as caught:
        MCP(server, **wrong)

    assert "key" not in f"{caught.value} {MCP(server)!r} {MCP(server).name}"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: MCP(""), r"or a server object, not \[\]"),
        (lambda: MCP(None), "or a server object, not None"),
        (lambda: MCP({"command": "uvx", "env": {"TOKEN": "key"}}), "or a server object, not a dict: write "),
        (lambda: MCP("x", headers={"a": "b"}), "headers= cannot be used with a command"),
        (lambda: MCP("http://x", env={"a": "b"}), "env= cannot be used with a URL"),
        (lambda: MCP(make_server(), cwd="/"), "cwd= cannot be used with a server object"),
        (lambda: MCP("x", allow="add"), "allow='add' is not a list of texts"),
        (
            lambda: MCP("http://x", headers=cast("Any", "k")),
            r"^headers= maps names to texts: headers={'X-Key': key}\.$",
        ),
        (lambda: MCP("http://x", headers={"X-Key": "k\n"}), r"^headers\['X-Key'\] cannot be sent: .* use strip\(\)\.$"),
        (lambda: MCP("x", env=cast("Any", "k")), "^env= maps names to texts"),
        (lambda: MCP("x", env=cast("Any", {"A": 3})), r"^env\['A'\] cannot be set"),
        (lambda: MCP("x", env={"A=B": "k"}), r"^env\['A=B'\] cannot be set"),
        (lambda: MCP("http://x", auth=cast("Any", "k")), "^auth= is not an httpx2.Auth. A key is sent by headers="),
        (lambda: MCP("x", elicit=cast("Any", 3)), "^elicit=3 is neither True nor a function of a message and a schema"),
        (lambda: MCP("x", timeout=None), "timeout=None"),
        (lambda: MCP("x", timeout=-1), "timeout=-1"),
        (lambda: MCP("x", name=cast("Any", 3)), "name=3"),
        (lambda: MCP("x", optional=cast("Any", "no")), "optional='no'"),
        (lambda: MCP("x", cwd=cast("Any", 3)), "cwd=3"),
        (lambda: MCP(cast("Any", ["x", 3])), "server=3"),
    ],
)
def test_wrong_options(make: Callable[[], MCP], text: str) -> None:
    """An option that is wrong, or belongs to another kind of server, is refused at once."""
    with pytest.raises(DefinitionError, match=text):
        make()


def test_unknown_option() -> None:
    """An option that does not exist is refused."""
    with pytest.raises(TypeError, match="retry_count"):
        MCP("x", retry_count=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("server", "text"),
    [
        (MCP("no-such-program-here", name="m"), "'m' cannot be reached: there is no 'no-such-program-here'"),
        (MCP([sys.executable, "server.py"], cwd=Path("/no/such"), name="m"), r"reached: .*'\W+no\W+such'"),
        (MCP([sys.executable, "server.py"], cwd=__file__, name="m"), r"reached: '.*test_mcp_client\.py': \w"),
        (MCP([sys.executable, "-c", "print(1)"], name="m"), "'m' cannot be reached: "),
        (MCP("http://127.0.0.1:9/mcp?key=x", name="m"), "Connection refused. Its URL is http://127.0.0.1:9/mcp.$"),
        (MCP("http://127.0.0.1:9/mcp", name="m", timeout=1.4), "Connection refused"),  # it ends before the third try
        (liar("initialize", timeout=1), "'liar' cannot be reached: it did not answer within 1 s"),
        (liar("tools/list", timeout=1), "'liar' cannot be reached: it did not answer within 1 s"),
    ],
)
def test_unreachable(server: MCP, text: str) -> None:
    """A server that cannot be reached is an error when its tools are added, which names it."""
    with pytest.raises(Failed, match=text):
        Runner([server])


def test_optional(caplog: pytest.LogCaptureFixture) -> None:
    """An optional server that cannot be reached is left out with a warning, and the run goes on without it."""
    runner = Runner([MCP("no-such-program-here", name="m", optional=True)], model=ScriptedModel(["done"]))

    assert "done" == runner.run("go").output
    assert ["toolkit"] == [record.name for record in caplog.records if "'m' cannot be reached" in record.message]


def test_server_that_dies() -> None:
    """A call whose server dies is an error that names it; the next call connects again."""
    with liar() as server:
        box = Toolbox([server])
        result = box.call("mcp_liar_die")

        assert "failed" == result.kind
        assert "The connection to the MCP server 'liar' was lost. Whether it has executed" in f"{result.text}"
        assert "done" == box.call("mcp_liar_echo").text


@pytest.mark.skipif(sys.platform == "win32", reason="needs ps")
@pytest.mark.timeout(60)
def test_server_that_leaves(tmp_path: Path) -> None:
    """A server that ended between two calls is started again for the second one, which is not lost."""
    with liar("never", str(tmp_path)) as server:
        box = Toolbox([server])
        box.call("mcp_liar_leave")
        while is_running(str(tmp_path)):
            threading.Event().wait(0.05)
        threading.Event().wait(0.5)

        assert "done" == box.call("mcp_liar_echo").text


def test_refusal() -> None:
    """A call that the server refuses by an error of the protocol is an error with its text."""
    with liar() as server:
        result = Toolbox([server]).call("mcp_liar_refuse")

    assert "The MCP server 'liar' refused the call: I will not" == result.text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("unknown", "gave an invalid answer: content.0.TextContent.text: Field required."),
        ("wrong", "old\nThis does not match what mcp_liar_wrong declares to return."),
        ("ask", '"message": "Elicitation not supported"'),
        ("sample", '"message": "Sampling not supported"'),
        ("noise", "done"),
        ("huge", "xxx"),
    ],
)
def test_misbehaviour(name: str, text: str) -> None:
    """Whatever a server answers or asks, the call has a result, and the next call is answered."""
    with liar() as server:
        runner = Runner([server], model=ScriptedModel([[call(f"mcp_liar_{name}")], [call("mcp_liar_echo")], "done"]))
        result = runner.run("go")
    first, second = (message.text for message in result.messages if isinstance(message, ToolMessage))

    assert text in first
    assert len(first) <= 100_000
    assert "done" == second


def test_printed_lines(caplog: pytest.LogCaptureFixture) -> None:
    """A line of a server's standard output that is no message is left out, with a warning of one line."""
    with liar() as server:
        assert "done" == Toolbox([server]).call("mcp_liar_noise").text

    (record,) = (record for record in caplog.records if "Starting up..." in record.getMessage())
    assert ("toolkit", None) == (record.name, record.exc_info)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 99])
def test_printed_lines_in_pieces(size: int) -> None:
    """Wherever the output of a command is cut into pieces, all messages are read, and nothing else."""
    decoder = codecs.getincrementaldecoder(LINES)()
    output = 'Hi\n\n \r\n  {"a": "é {\u2028"}\r\n[{}]\n{}\nend{'.encode()
    pieces = [decoder.decode(output[start : start + size]) for start in range(0, len(output), size)]

    assert ['{"a": "é {\u2028"}\r', "{}", ""] == [line.lstrip() for line in "".join(pieces).split("\n")]


def test_flood() -> None:
    """A server cannot report without end: of 3,000 updates 1,000 arrive."""
    model = ScriptedModel([[call("mcp_liar_flood")], "done"])
    with liar() as server, Runner([server], model=model).stream("go") as events:
        updates = [event for event in events if isinstance(event, ToolCallUpdated)]

    assert 1_000 == len(updates)
    assert "done" == events.result.calls[0].result.text


def test_endless_listing(caplog: pytest.LogCaptureFixture) -> None:
    """A listing without end is cut, with a warning."""
    with liar("never", "pages") as server:
        assert () == server.tools
    assert "too many tools" in caplog.text


def test_long_listing(caplog: pytest.LogCaptureFixture) -> None:
    """Of a longer listing only the first 10,000 tools are looked at, with a warning."""
    with liar("never", "long") as server:
        good = len(server.tools)

    assert "too many tools" in caplog.text
    assert f"\n  {10_000 - good - 10:,} more are left out." in caplog.text


def test_tools_that_cannot_be(caplog: pytest.LogCaptureFixture) -> None:
    """A tool whose schema refers to elsewhere, or that needs a task, is left out with a warning; others stay."""
    with liar("never", "bad") as server:
        names = [tool.name for tool in server.tools]
        box = Toolbox([server])
        result = box.call("mcp_liar_bad_slow", {"p": "a" * 40 + "!"})

    assert "mcp_liar_echo" in names
    assert {"self", "slow", "deep", "optional"} == {n.removeprefix("mcp_liar_bad_") for n in names if "bad" in n}
    left_out = [record.getMessage() for record in caplog.records]
    for name in ("bad far", "bad near", "bad missing", "bad _tool", "bad _activity", "bad required"):
        assert any(repr(name) in message for message in left_out), name
    assert "invalid_arguments" == result.kind


# That of zod for an address, with look-around.
EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


def list_one(count: int = 1, timeout: float = 30, **spec: Any) -> MCP:
    """Return a server with one tool, `a`, or with so many of that name."""

    async def list_tools(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="a", **spec)] * count)

    return MCP(Server("s", on_list_tools=list_tools), name="s", timeout=timeout)


def test_many_bad_tools(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of tools that are left out are one warning, with the first of them and the number of the others."""
    with list_one(2_000, input_schema={"type": "object", "required": ["b"]}) as server:
        assert () == server.tools

    (warning,) = [record.getMessage() for record in caplog.records]
    assert "the tool 'a' is left out: " in warning and "'b' is required" in warning
    assert "\n  1,990 more are left out." in warning


def test_schemas_of_zod() -> None:
    """A pattern that may take for ever is left to the server to check, and a tuple of an older draft is one."""
    pair = {"type": "array", "items": [{"type": "number"}, {"type": "string"}], "additionalItems": False}
    properties = {"to": {"type": "string", "pattern": EMAIL}, "id": {"type": "string", "pattern": "^a"}, "pair": pair}
    schema = {"type": "object", "properties": properties}
    with list_one(input_schema=schema, output_schema=schema) as server:
        (made,) = server.tools
        refused = made.invoke({"to": "x", "id": "b", "pair": ["1", "b", 0]}).text

    assert {"type": "string"} == made.parameters["properties"]["to"]
    assert "Invalid arguments: id: String should match pattern '^a'" in refused
    assert "pair[2]: No value is allowed here" in refused


def test_many_patterns(caplog: pytest.LogCaptureFixture) -> None:
    """Of many patterns the last are left to the server, since each takes time to compile; of names there are few."""
    texts = {f"p{number}": {"type": "string", "pattern": "^a+$"} for number in range(30)}
    with list_one(input_schema={"type": "object", "properties": texts}) as server:
        checked = ["pattern" in part for part in server.tools[0].parameters["properties"].values()]
    names: dict[str, Any] = {f"^{number}a+$": {} for number in range(30)}
    with list_one(input_schema={"type": "object", "patternProperties": names}) as server:
        assert () == server.tools

    assert [True] * 20 + [False] * 10 == checked
    assert "its schema has more than 20 patterns" in caplog.text


@pytest.mark.slow
def test_slow_schemas(caplog: pytest.LogCaptureFixture) -> None:
    """Of schemas that take longer to check than the time limit allows the last are left out."""
    slow = {f"p{number}": {"type": "string", "pattern": rf"\p{{L}}{{{number + 900}}}"} for number in range(20)}
    with list_one(9, timeout=2, input_schema={"type": "object", "properties": slow}) as server:
        server.connect()

    assert "the schemas before it took 2 s to check, which timeout= sets." in caplog.text


def test_hidden_in_an_output() -> None:
    """What is hidden in the schema of a result is escaped, too: a model that writes programs reads it."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "description": "n\u200b"}}}
    with list_one(input_schema={"type": "object"}, output_schema=schema) as server:
        assert "n\\u200b" == (server.tools[0].output_schema or {})["properties"]["n"]["description"]


def test_names_that_lie(caplog: pytest.LogCaptureFixture) -> None:
    """A server chooses neither its own name here nor that of another's tool; all names are distinct and sendable."""
    with liar("never", "names") as server:
        tools = Toolbox([server])

    assert all(name.startswith("mcp_liar_") and len(name) <= 64 and name.isascii() for name in tools.names)
    assert "mcp_liar_mcp_other_add" in tools
    assert 2 == len([name for name in tools.names if "xxx" in name])
    assert max(len(tool.description) for tool in tools) <= 1_000
    assert "'echo' is left out: another one has that name" in caplog.text


def test_two_servers(server: MCP) -> None:
    """Two servers may have tools of one name; two servers of one name are refused, and both are named."""
    with MCP(make_server(), name="t") as other, MCP(make_server(), name="s") as same:
        both = Toolbox([server, other])

        assert {"mcp_s_add", "mcp_t_add"} <= {*both.names}
        with pytest.raises(DuplicateToolError, match="the tool 'add' of the MCP server 's'.*the tool 'add' of the MCP"):
            Toolbox([server, same])


def wait_for_change(server: MCP, before: Any) -> None:
    """Wait until the tools of a server have changed."""
    while server.tools is before:
        threading.Event().wait(0.01)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["swap", "storm"])
def test_changed_definitions(name: str) -> None:
    """Tools that the server has changed come with the next run; those of a running one stay as they were."""
    with liar() as server:
        runner = Runner([server], model=ScriptedModel([[call(f"mcp_liar_{name}")], "done", "again"]))
        before, names = server.tools, runner.toolbox.names
        runner.run("go")
        wait_for_change(server, before)

        assert before[0] is runner.toolbox["mcp_liar_echo"]
        runner.run("go")
        assert server.tools[0] is runner.toolbox["mcp_liar_echo"]
        assert names == runner.toolbox.names
        assert ("swap" == name) == ("Another tool." == runner.toolbox["mcp_liar_echo"].description)


@pytest.mark.timeout(60)
def test_added_tool() -> None:
    """A tool that the server adds joins the toolbox at its next use, also where changes have to be subscribed to."""
    with MCP(make_server(), name="s") as server:
        box, before = Toolbox([server]), server.tools
        box.call("mcp_s_grow")
        wait_for_change(server, before)

        assert "mcp_s_late" in [schema["function"]["name"] for schema in box.schemas()]
        assert "late" == box.call("mcp_s_late").text


def test_removed_tool_stays_removed() -> None:
    """A tool that the application removed does not come back when the server changes another."""
    with liar() as server:
        box, before = Toolbox([server]), server.tools
        box.remove("mcp_liar_hang")
        box.call("mcp_liar_swap")
        wait_for_change(server, before)

        assert "mcp_liar_hang" not in box.snapshot()


def test_removed_server() -> None:
    """A toolbox removes a server with all its tools, also those that it adds later; its own tools stay."""

    def own() -> str:
        """Do nothing."""
        return ""

    with MCP(make_server(), name="s") as server:
        box, before = Toolbox([own, server]), server.tools
        box.call("mcp_s_grow")
        box.remove(server)
        wait_for_change(server, before)

        assert ["own"] == [*box.snapshot()]
        with pytest.raises(ToolNotFoundError, match="was not added"):
            box.remove("own", server)
        assert ("own",) == box.names


def test_question() -> None:
    """A server may ask the user where the application answers for them; a refusal is a refusal."""
    asked: list[str] = []

    def answer(message: str, schema: Any) -> dict[str, Any] | None:
        asked.append(f"{message} {[*schema['properties']]}")
        return {"years": 7} if len(asked) == 1 else None

    with MCP(make_asking_server(), name="s", elicit=answer) as server:
        box = Toolbox([server])

        assert ["accept {'years': 7}", "decline None"] == [box.call("mcp_s_ask").text for _ in range(2)]
        assert ["How old are you? ['years']"] * 2 == asked


@pytest.mark.parametrize("answer", [lambda _, __: 1 / 0, lambda _, __: [1]], ids=["raises", "a list"])
def test_question_that_is_answered_wrongly(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A fault of the function that answers is in the log, and the question is declined: it is not the server's."""
    with MCP(make_asking_server(), name="s", elicit=answer) as server:
        assert "decline None" == Toolbox([server]).call("mcp_s_ask").text

    assert "elicit= of an MCP server failed, so its question is declined." in caplog.text


def test_page_to_open(caplog: pytest.LogCaptureFixture) -> None:
    """A page that a server wants to be opened is declined; the log has its address, for a person to open."""
    page = ElicitRequest(params=ElicitRequestURLParams(message="Log in.", url="https://example.com/login?state=1"))
    with MCP(make_asking_server(page), name="s", elicit=lambda _, __: {}) as server:
        assert "decline None" == Toolbox([server]).call("mcp_s_ask").text

    assert "wants a page to be opened, which is declined: https://example.com/login?state=1 Log in." in caplog.text


@pytest.mark.parametrize(("at_once", "calls", "answers"), [(1, 10, 10), (11, 1, 0)])
def test_question_without_end(at_once: int, calls: int, answers: int) -> None:
    """A server that asks again after each answer, or too much at once, is given up, and the error says so."""
    rounds, asked = itertools.count(), list[str]()

    async def list_tools(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="ask", input_schema={"type": "object"})])

    async def ask(_: Any, __: Any) -> InputRequiredResult:
        name = f"{next(rounds)}"
        questions: dict[str, Any] = {f"{name}-{number}": QUESTION for number in range(at_once)}
        return InputRequiredResult(input_requests=questions, request_state="more")

    def answer(message: str, _: Any) -> dict[str, Any]:
        asked.append(message)
        return {"years": 7}

    with MCP(Server("nag", on_list_tools=list_tools, on_call_tool=ask), elicit=answer) as server:
        text = Toolbox([server]).call("mcp_nag_ask").text
    assert "The MCP server asked 10 times or more, and gave no result." == text
    assert (calls, answers) == (next(rounds), len(asked))


def test_question_without_anybody() -> None:
    """A server that asks where nobody answers gets no answer, and the call is an error."""
    with MCP(make_asking_server(), name="s") as server:
        result = Toolbox([server]).call("mcp_s_ask")

    assert "The MCP server asks for something that it does not get here" in f"{result.error}"


def test_question_of_an_older_server() -> None:
    """Questions work with servers of older versions of the protocol, by an async function, too."""

    async def answer(message: str, schema: Any) -> dict[str, Any]:
        return {"age": 7}

    with liar(elicit=answer) as server:
        assert '"age": 7' in f"{Toolbox([server]).call('mcp_liar_ask').text}"


def ask_in_a_run(*, older: bool, approve: Any) -> tuple[RunResult, list[Any]]:
    """Run a server's question that is put to an approver; return the result, and what the approver was shown."""
    shown = list[Any]()

    def decide(request: ApprovalRequest) -> Any:
        if not request.tool.name.startswith("elicitation"):
            return True
        shown.append(request.arguments)
        return approve(request.arguments)

    name = "mcp_liar_ask" if older else "mcp_s_ask"
    with liar(elicit=True) if older else MCP(make_asking_server(), name="s", elicit=True) as server:
        result = Runner([server], model=ScriptedModel([call(name), "Done."]), approve=decide).run("go")
    return result, shown


@pytest.mark.parametrize("older", [False, True])
def test_question_to_the_approver(*, older: bool) -> None:
    """The run's approver answers a question by changing the call that it is asked about."""
    key = "age" if older else "years"
    result, shown = ask_in_a_run(older=older, approve=lambda given: Decision.modify({**given, "answer": {key: 7}}))

    assert f"{key}': 7" in f"{result.calls[0].result.text}".replace('"', "'")
    assert [[key]] == [[*each["form"]["properties"]] for each in shown]
    assert ("Age?" if older else "How old are you?") == shown[0]["question"]


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize(
    "verdict",
    [lambda _: False, lambda given: Decision.modify({**given, "answer": {"years": "x", "age": "x"}}), defer],
    ids=["no", "no number", "later"],
)
def test_question_that_the_approver_does_not_answer(verdict: Any, *, older: bool) -> None:
    """A question that is rejected, deferred, or not answered as the server wants is declined; the run goes on."""
    result, _ = ask_in_a_run(older=older, approve=verdict)

    assert "Done." == result.output
    assert "decline" in f"{result.calls[0].result.text}"


def test_question_that_is_approved_with_a_wrong_answer(caplog: pytest.LogCaptureFixture) -> None:
    """If an answer that was approved does not match the form, the log says how to give another."""
    ask_in_a_run(older=False, approve=lambda given: Decision.modify({**given, "answer": {"years": "x"}}))

    assert "approves the call with another `answer`, as `e` does in a Console" in caplog.text


def test_question_to_the_approver_that_ends_the_run() -> None:
    """An approver that stops the run at a question ends it."""
    result, _ = ask_in_a_run(older=False, approve=lambda _: Decision.stop("enough"))

    assert "stopped" == result.finish_reason


def test_question_to_the_approver_without_a_run() -> None:
    """Where there is no run, there is no approver, and the question is declined."""
    with MCP(make_asking_server(), name="s", elicit=True) as server:
        assert "decline None" == Toolbox([server]).call("mcp_s_ask").text


Asking = Callable[..., tuple[MCP, str]]


def ask_now(**options: Any) -> tuple[MCP, str]:
    """A server of the newest version of the protocol that asks for an answer of a model, and its tool."""
    return MCP(make_asking_server(SAMPLE), name="s", sample=True, **options), "mcp_s_ask"


def ask_before(**options: Any) -> tuple[MCP, str]:
    """A server of an older version that does."""
    return liar(sample=True, **options), "mcp_liar_sample"


ASKING = pytest.mark.parametrize("ask", [ask_now, ask_before])


@ASKING
@pytest.mark.parametrize("go", [ways.run, ways.arun, ways.stream])
def test_sampling(ask: Asking, go: Callable[[Runner], RunResult]) -> None:
    """A server may ask the run's model where it is allowed to: by a call that is approved, and whose usage counts."""
    seen: list[tuple[str, Any]] = []

    def approve(request: ApprovalRequest) -> bool:
        seen.append((request.tool.name.partition("_")[0], request.arguments))
        return True

    server, name = ask()
    model = ScriptedModel([call(name), "It is blue, I think, or green as the sea.", "Done."])
    with server:
        result = go(Runner([server], model=model, approve=approve))
    (kind, shown) = seen[-1]

    assert ("Done.", 3) == (result.output, result.usage.requests)
    assert "It is b" in f"{result.calls[0].result.text}"
    assert "sea" not in f"{result.calls[0].result.text}"  # it wanted few tokens
    assert ("sampling", "user") == (kind, shown["messages"][0]["role"])
    assert shown["messages"][0]["text"] == model.requests[1].messages[-1].text


def test_hidden_text_in_sampling() -> None:
    """What a person would not see in what a server asks the model is escaped."""
    asked = SAMPLE.model_copy(deep=True)
    asked.params.messages[0].content, asked.params.system_prompt = TextContent(text="a\u200b"), "b\u202e"
    model = ScriptedModel([call("mcp_s_ask"), "Blue.", "Done."])
    with MCP(make_asking_server(asked), name="s", sample=True) as server:
        Runner([server], model=model, approve=approve_all).run("Go")

    assert ["b\\u202e", "a\\u200b"] == [message.text for message in model.requests[1].messages]


@ASKING
def test_sampling_in_the_loop_of_the_run(ask: Asking) -> None:
    """The model of an async run answers in the loop of that run."""
    server, name = ask()
    loops: list[object] = []

    def answer(_: ModelRequest) -> Any:
        loops.append(asyncio.get_running_loop())
        return ([call(name)], "Blue.", "Done.")[len(loops) - 1]

    async def go() -> set[object]:
        async with server:
            await Runner([server], model=ScriptedModel(answer, is_async=True), approve=approve_all).arun("go")
        return {asyncio.get_running_loop()}

    assert asyncio.run(go()) == {*loops}
    assert 3 == len(loops)


@ASKING
@pytest.mark.parametrize("verdict", [None, lambda request: False, defer])
def test_refused_sampling(ask: Asking, verdict: Any) -> None:
    """Without an approval at once a server gets no answer; the run goes on."""
    server, name = ask()
    approve = verdict and (lambda request: verdict(request) if request.tool.name.startswith("sampling") else True)
    model = ScriptedModel([call(name), "Done."])
    with server:
        result = Runner([server], model=model, approve=approve).run("go")

    assert ("Done.", 2) == (result.output, result.usage.requests)
    assert "The request for an answer was refused." in f"{result.calls[0].result.text}"


@ASKING
def test_sampling_that_ends_the_run(ask: Asking) -> None:
    """An approver that stops the run at a server's request ends it."""

    def approve(request: ApprovalRequest) -> Decision | bool:
        return Decision(False, "enough", refusal="stop") if request.tool.name.startswith("sampling") else True

    server, name = ask()
    with server:
        result = Runner([server], model=ScriptedModel([call(name)]), approve=approve).run("go")

    assert "stopped" == result.finish_reason


@ASKING
def test_halt_at_sampling(ask: Asking) -> None:
    """A hook that halts the run at a server's request ends it with that answer, which the server does not read."""

    class Guard:
        def before_call(self, proposed: ToolCall, context: ToolContext) -> None:
            if proposed.name.startswith("sampling"):
                raise Halt("No more.")

    server, name = ask()
    with server:
        model = ScriptedModel([call(name), "Never."])
        result = Runner([server], model=model, approve=approve_all, hooks=[Guard()]).run("go")

    assert ("halted", "No more.", 1) == (result.finish_reason, result.output, len(model.requests))


def test_sampling_without_a_run() -> None:
    """Where there is no run, there is no model that could answer."""
    with ask_now()[0] as server:
        result = Toolbox([server]).call("mcp_s_ask", approve=approve_all)

    assert "asks for something that it does not get here" in f"{result.error}"


def test_much_sampling() -> None:
    """A server gets ten answers in one call, unless the run's limits allow fewer."""
    model = ScriptedModel([call("mcp_s_ask"), *["Blue."] * 10, "Done."])
    with MCP(make_asking_server(*[SAMPLE] * 10), name="s", sample=True) as server:
        many = Runner([server], model=model, approve=approve_all).run("go")
        limited = ScriptedModel([call("mcp_s_ask"), "Blue.", "Done."])
        few = Runner([server], model=limited, approve=approve_all, limits=Limits(max_calls=2)).run("go")

    assert ("Done.", False, 12) == (many.output, many.calls[0].result.is_error, many.usage.requests)
    assert ("Done.", True, 3) == (few.output, few.calls[0].result.is_error, few.usage.requests)


def test_much_sampling_beside_other_calls() -> None:
    """The ten answers are those of one call, also of an older server, and however many other calls begin meanwhile."""
    server = liar(sample=True)

    def answer(request: ModelRequest) -> Any:
        if "Your key?" not in request.messages[-1].text:
            return [call("mcp_liar_beg")] if len(request.messages) == 1 else "Done."
        Toolbox([server]).call("mcp_liar_echo", {"text": "x"})
        return "Blue."

    with server:
        result = Runner([server], model=ScriptedModel(answer), approve=approve_all).run("go")

    assert "10" == result.calls[0].result.value


def test_sampling_of_pictures() -> None:
    """What is no text is not put to a model."""
    picture = SamplingMessage(role="user", content=ImageContent(data="", mime_type="image/png"))
    params = CreateMessageRequestParams(messages=[picture], max_tokens=9)
    with MCP(make_asking_server(CreateMessageRequest(params=params)), name="s", sample=True) as server:
        model = ScriptedModel([call("mcp_s_ask"), "Done."])
        result = Runner([server], model=model, approve=approve_all).run("go")

    assert "Only text can be put to the model." == result.calls[0].result.text


def test_http() -> None:
    """A URL is reached by streamable HTTP, with the headers of this server alone; a new server under it is found."""
    app = Recorder(make_server().streamable_http_app())
    with serve(app) as url:
        server = MCP(f"{url}/mcp", name="s", headers={"Authorization": "Bearer k"}, timeout=10)
        box = Toolbox([server])

        assert "3" == box.call("mcp_s_add", {"a": 1, "b": 2}).text
        assert {"Bearer k"} == app.seen
    assert box.call("mcp_s_add", {"a": 1, "b": 2}).is_error
    with serve(make_server().streamable_http_app(), int(url.rpartition(":")[2])):
        results = [box.call("mcp_s_add", {"a": 1, "b": 2}) for _ in range(2)]

        assert "3" == results[-1].text
        server.close()


def test_http_status_of_a_call() -> None:
    """A call that fails by an HTTP status says which."""
    served, is_closed = make_server().streamable_http_app(), threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await (PlainTextResponse("closed", 503) if is_closed.is_set() else served)(scope, receive, send)

    with serve(app) as url, MCP(f"{url}/mcp", name="s", timeout=10) as server:
        box = Toolbox([server])
        is_closed.set()
        result = box.call("mcp_s_add", {"a": 1, "b": 2})
        is_closed.clear()

    reason = "its last answer had the HTTP status 503 Service Unavailable."
    assert f"The MCP server 's' refused the call: {reason}" == result.text


def test_server_of_the_same_loop() -> None:
    """An async application can connect to a server that its own event loop serves."""

    async def main() -> str | None:
        running = uvicorn.Server(
            uvicorn.Config(make_server().streamable_http_app(), port=0, log_level="critical", ws="none")
        )
        task = asyncio.create_task(running.serve())
        while not running.started:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)
        port = running.servers[0].sockets[0].getsockname()[1]
        async with MCP(f"http://127.0.0.1:{port}/mcp", name="s") as server:
            result = await Toolbox([server]).acall("mcp_s_add", {"a": 1, "b": 2})
        running.should_exit = True
        await task
        return result.text

    assert "3" == asyncio.run(main())


def is_running(process: str) -> bool:
    """Return whether a process of this command runs."""
    return process in subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout  # noqa: S607


@pytest.mark.skipif(sys.platform == "win32", reason="needs ps")
def test_close(tmp_path: Path) -> None:
    """The end of the block ends the server's process, even a stubborn one; later calls are errors."""
    with liar("never", "stubborn", str(tmp_path)) as server:
        box = Toolbox([server])

        assert is_running(str(tmp_path))
    assert not is_running(str(tmp_path))
    assert "The MCP server 'liar' was closed." == box.call("mcp_liar_echo").text


@pytest.mark.skipif(sys.platform == "win32", reason="needs ps")
@pytest.mark.timeout(60)
def test_forgotten_server(tmp_path: Path) -> None:
    """A server that nothing refers to any more is ended."""
    Toolbox([liar("never", str(tmp_path))]).call("mcp_liar_echo")
    while is_running(str(tmp_path)):
        gc.collect()  # once may be too early: the thread of the connection is still busy with the call's end
        threading.Event().wait(0.05)


@pytest.mark.slow
def test_end_of_the_program(tmp_path: Path) -> None:
    """The end of the program ends its servers, without a word."""
    code = f"""if True:
        import sys
        from toolkit import Toolbox
        from toolkit.sources.mcp import MCP
        box = Toolbox([MCP([sys.executable, {str(HERE / "mcp_liar.py")!r}, "never", "stubborn", {str(tmp_path)!r}])])
        print(box.call("mcp_mcp_liar_echo").text)
    """
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)

    assert ("done\n", "") == (done.stdout, done.stderr)
    assert not is_running(str(tmp_path))


def test_quiet_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Connecting, calling and closing log nothing above the level of information."""
    with MCP(make_server(), name="s") as server:
        Toolbox([server]).call("mcp_s_add", {"a": 1, "b": 2})

    assert [] == [record for record in caplog.records if record.levelno > logging.INFO]
