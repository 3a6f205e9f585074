"""Which model answers: what was given, what the environment says, or an error that names the ways."""

import asyncio
import contextlib
import gc
import logging
import os
import re
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any
from unittest import mock

import openai
import pytest

from tests.servers import FakeServer
from tests.threads import together
from toolkit import DefinitionError, ModelError, NoModelError, OpenAIModel, ResponsesModel, Runner, tool
from toolkit.approvers import approve_all
from toolkit.builtin import provider_tool
from toolkit.models import Model
from toolkit.testing import ScriptedModel, call, reply


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(lambda _: reply.text("Hi."), model="listed") as server:
        yield server


def list_requests(server: FakeServer) -> list[tuple[str, str, Any]]:
    """Method, path and model of each request."""
    return [(r.method, r.path.removeprefix("/v1"), r.body.get("model")) for r in server.requests]


CHAT = "/chat/completions"


# -- order


def test_key_of_the_environment_stays_with_its_server(
    server: FakeServer, environment: Callable[[str, str], None]
) -> None:
    """An address that was given does not get the environment's key; a given key is sent there."""
    environment("OPENAI_API_KEY", "secret")
    Runner(base_url=server.base_url, model="m").run("x")
    Runner(base_url=server.base_url, model="m", api_key="mine").run("x")

    assert ["Bearer none", "Bearer mine"] == [request.headers["authorization"] for request in server.requests]


def test_first_runs_on_several_threads(server: FakeServer) -> None:
    """Threads that need the model at the same time get the same one: they share its connections, and a rate."""
    runner = Runner(base_url=server.base_url)

    assert 1 == len({id(model) for model in together(*[lambda: runner.model] * 8)})


def test_address_and_name(server: FakeServer) -> None:
    """An address and a name are enough; no key is needed, and none is made up by the environment."""
    Runner(base_url=server.base_url, model="named").run("x")

    assert ([("POST", CHAT, "named")], "Bearer none") == (
        list_requests(server),
        server.requests[0].headers["authorization"],
    )


def test_address_alone(server: FakeServer) -> None:
    """Without a name the server is asked for its first model, once for all runs."""
    runner = Runner(base_url=server.base_url)
    runner.run("x")
    runner.run("x")

    assert [("GET", "/models", None), ("POST", CHAT, "listed"), ("POST", CHAT, "listed")] == list_requests(server)


def test_environment_alone(server: FakeServer, environment: Callable[[str, str], None]) -> None:
    """Address, key and name may all come from the environment."""
    environment("OPENAI_BASE_URL", server.base_url)
    environment("OPENAI_API_KEY", "key")
    environment("TOOLKIT_MODEL", "from-environment")
    Runner().run("x")

    assert ([("POST", CHAT, "from-environment")], "Bearer key") == (
        list_requests(server),
        server.requests[0].headers["authorization"],
    )


def test_what_is_given_comes_first(server: FakeServer, environment: Callable[[str, str], None]) -> None:
    """What the Runner was given comes before the environment."""
    environment("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    environment("TOOLKIT_MODEL", "from-environment")
    Runner(base_url=server.base_url, model="named").run("x")

    assert [("POST", CHAT, "named")] == list_requests(server)


def test_client_comes_before_an_address(server: FakeServer, environment: Callable[[str, str], None]) -> None:
    """A client that was given is used; the environment only names its model."""
    environment("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    environment("TOOLKIT_MODEL", "from-environment")
    with openai.OpenAI(base_url=server.base_url, api_key="test") as client:
        Runner(client=client).run("x")

    assert [("POST", CHAT, "from-environment")] == list_requests(server)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"client": object(), "base_url": "http://localhost:1/v1"}, "base_url"),
        ({"client": object(), "api_key": "k"}, "api_key"),
        ({"model": ScriptedModel([]), "client": object()}, "client"),
        ({"model": ScriptedModel([]), "base_url": "http://localhost:1/v1"}, "base_url"),
        ({"model": ScriptedModel([]), "api_key": "k"}, "api_key"),
        ({"model": ScriptedModel([]), "dialect": "calls"}, "dialect"),
        ({"model": ScriptedModel([]), "api": "responses"}, "api"),
        ({"model": ScriptedModel([]), "request_options": {"seed": 7}}, "request_options"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else None,
)
def test_options_without_effect(options: Mapping[str, Any], name: str) -> None:
    """An option that a client or a Model of the application has itself is refused: it would have no effect."""
    owner = "model" if "model" in options else "client"

    with pytest.raises(ValueError, match=rf"^{owner}= has its own {name}: leave out {name}=, or {owner}=\.$"):
        Runner(**options)


@pytest.mark.parametrize("options", [{"base_url": ""}, {"api_key": ""}, {"request_options": {}}], ids=str)
def test_empty_options_beside_a_model(options: Mapping[str, Any]) -> None:
    """An empty option is as one that is not given, such as a variable of the environment that is not set."""
    assert "Hello." == Runner(model=ScriptedModel(["Hello."]), **options).run("x").output


def test_model_of_ones_own_comes_before_all(environment: Callable[[str, str], None]) -> None:
    """A model of the application is used whatever the environment says."""
    environment("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")

    assert "Hi." == Runner(model=ScriptedModel(["Hi."])).run("x").output


def test_key_alone(environment: Callable[[str, str], None]) -> None:
    """With a key alone it is OpenAI's own address and a model of its own; nothing is asked for a list."""
    environment("OPENAI_API_KEY", "key")
    events = Runner().stream("x")
    started = next(events)
    events.close()

    assert "gpt-6-luna" == getattr(started, "model", None)
    assert ResponsesModel is type(Runner().model)


def replace_create(*names: str) -> openai.OpenAI:
    """A client of OpenAI's server, whose `create` is replaced, as by a test or who traces requests."""
    client = openai.OpenAI(api_key="test")
    for name in names:
        vars(attrgetter(name)(client))["create"] = lambda **_: None
    return client


AZURE: dict[str, Any] = {"api_version": "1", "azure_endpoint": "https://example.org"}
USUAL: dict[str, tuple[Callable[[], dict[str, Any]], type[Model]]] = {
    "key": (lambda: {"api_key": "test"}, ResponsesModel),
    "client": (lambda: {"client": openai.OpenAI(api_key="test")}, ResponsesModel),
    "async client": (lambda: {"client": openai.AsyncOpenAI(api_key="test")}, ResponsesModel),
    "traced client": (lambda: {"client": replace_create("chat.completions", "responses")}, ResponsesModel),
    "double of a client": (lambda: {"client": replace_create("chat.completions")}, OpenAIModel),
    "mock": (lambda: {"client": mock.MagicMock(base_url="https://api.openai.com/v1/")}, OpenAIModel),
    "Azure": (lambda: {"client": openai.AzureOpenAI(api_key="test", **AZURE)}, OpenAIModel),
    "region": (lambda: {"base_url": "https://eu.api.openai.com/v1"}, ResponsesModel),
    "user": (lambda: {"base_url": "https://user:password@api.openai.com/v1"}, ResponsesModel),
    "similar user": (lambda: {"base_url": "https://api.openai.com@example.org/v1"}, OpenAIModel),
    "similar host": (lambda: {"base_url": "https://api.openai.com.example.org/v1"}, OpenAIModel),
    "similar letters": (lambda: {"base_url": "https://ap\u0131.opena\u0131.com/v1"}, OpenAIModel),
    "similar path": (lambda: {"base_url": "https://example.org/api.openai.com/v1"}, OpenAIModel),
    "api": (lambda: {"api_key": "test", "api": "chat"}, OpenAIModel),
    "dialect": (lambda: {"api_key": "test", "dialect": "calls"}, OpenAIModel),
    "other server": (lambda: {"base_url": "https://example.org/v1", "dialect": "responses"}, ResponsesModel),
}


@pytest.mark.parametrize("case", USUAL)
def test_usual_api(case: str) -> None:
    """OpenAI's own server is sent Responses, without which its newer models have no tools; others Chat Completions."""
    options, kind = USUAL[case]

    assert kind is type(Runner(model="m", **options()).model)


def test_usual_api_of_a_class_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that replaces Chat Completions of all clients gets the requests of a client that is made here, too."""
    monkeypatch.setattr("openai.resources.chat.completions.Completions.create", mock.MagicMock())

    assert OpenAIModel is type(Runner(model="m", api_key="test").model)


def test_usual_api_of_provider_tools() -> None:
    """A tool that OpenAI executes needs no option at its own address, and is refused at others."""
    search = provider_tool("web_search")

    assert "gpt-x" == Runner([search], model="gpt-x", api_key="test").model.name
    with pytest.raises(DefinitionError, match="responses"):
        Runner([search], model="m", base_url="https://example.org/v1")


class LazyClient:
    """A proxy that makes its client when it is used."""

    made: openai.OpenAI | None = None

    def __getattr__(self, name: str) -> Any:
        self.made = self.made or openai.OpenAI(api_key="test")
        return getattr(self.made, name)


def test_proxy_makes_its_client_when_it_is_used() -> None:
    """A runner may be made before its client can be, which also says which API is the usual one."""
    client = LazyClient()
    runner = Runner(client=client, model="m")

    assert client.made is None
    assert ResponsesModel is type(runner.model)


def test_address_of_the_environment(server: FakeServer, environment: Callable[[str, str], None]) -> None:
    """An address from the environment is asked for its model as one that was given."""
    environment("OPENAI_BASE_URL", server.base_url)
    Runner().run("x")

    assert [("GET", "/models", None), ("POST", CHAT, "listed")] == list_requests(server)


@pytest.mark.parametrize(
    "address",
    [
        *("http://", "https:///v1", "http://:8080/v1", "http://[::1", "http://host:x/v1", "localhost:1/v1"),
        *(" http://localhost:1/v1", "http://localhost:1/v1\n", "http://local host:1/v1"),
        "http://localhost:1/v1?key=secret",
        *("http://user:secret@localhost:1/v1/chat/completions", "http://user:secret@localhost:1/v1/responses/"),
    ],
)
def test_address_that_is_no_servers(address: str, environment: Callable[[str, str], None]) -> None:
    """An address that is not a server's is refused where it is given, a variable when it is used; it is not shown."""
    with pytest.raises(ValueError, match="^base_url takes the address of a server, such as 'http://") as error:
        Runner(base_url=address, model="m")
    environment("OPENAI_BASE_URL", address)
    with pytest.raises(NoModelError, match="^OPENAI_BASE_URL takes the address of a server"):
        Runner(model="m").run("x")

    assert "secret" not in str(error.value)


def test_options_reach_the_server(server: FakeServer) -> None:
    """Options and dialect of the Runner go with a model of our choosing, in either backend."""
    runner = Runner(base_url=server.base_url, model="named", request_options={"seed": 7})
    runner.run("x")
    asyncio.run(runner.arun("x"))

    assert [7, 7] == [request.body["seed"] for request in server.requests]


def test_it_says_which(server: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    """The chosen model is announced once."""
    runner = Runner(base_url=server.base_url, model="named")
    with caplog.at_level(logging.INFO, "toolkit"):
        runner.run("x")
        runner.run("x")

    assert [f"The model that answers is <OpenAIModel named at {server.base_url}/>."] == caplog.messages


def test_client_needs_no_thread(server: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    """Where a client is given, nothing is asked to choose the model, so an async run starts no thread for it."""

    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="test") as client:
            await Runner(client=client, model="named").arun("x")

    with caplog.at_level(logging.INFO, "toolkit"):
        asyncio.run(main())

    assert [threading.get_ident()] == [record.thread for record in caplog.records if "that answers" in record.message]


# -- errors


def test_nothing_says_which() -> None:
    """Where nothing says which model, and the extra is not installed, the error names the three ways."""
    script = "import sys; sys.modules['xllamacpp'] = None\nfrom toolkit import Runner\nRunner().run('x')"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert 1 == ran.returncode
    assert re.search(
        r"NoModelError: .*OPENAI_API_KEY.*TOOLKIT_MODEL.*pip install.*--base-url.*base_url=.*client=OpenAI",
        ran.stderr,
        re.S,
    )


def test_embedded_without_its_extra() -> None:
    """Where the embedded model is chosen, and the extra is not installed, the error has the command alone."""
    script = (
        "import sys; sys.modules['xllamacpp'] = None\nfrom toolkit import Runner\nRunner(model='embedded').run('x')"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    needs = 'NoModelError: The embedded model needs an extra: pip install "function-toolkit[local]".'
    assert ran.stderr.rstrip().endswith(needs)


def test_name_alone() -> None:
    """A name does not say where the model is; the embedded one is not taken for it, and the error has its name."""
    ways = ("the environment", 'the embedded model: +model="embedded", after pip install', "in a shell")
    expected = r"model='gpt-5' .* OPENAI_API_KEY is not set\.\n.*\n" + r".*\n".join(f"  - {way}" for way in ways)
    with pytest.raises(NoModelError, match=expected):
        Runner(model="gpt-5").run("x")


def test_name_of_the_environment_alone(environment: Callable[[str, str], None]) -> None:
    """A name in the environment is not passed over either."""
    environment("TOOLKIT_MODEL", "gpt-5")
    with pytest.raises(NoModelError, match="TOOLKIT_MODEL='gpt-5' names a model, but not its server"):
        Runner().run("x")


@pytest.mark.real_model
def test_embedded_model_says_that_it_answers() -> None:
    """Where nothing chooses a model, standard error says once which one answers, also to threads; its name does not."""
    script = "\n".join(
        [
            "import sys; from threading import Barrier, Thread; from toolkit import Runner",
            "Runner(model='embedded').run('Hello')",
            "print('By default:', file=sys.stderr)",
            "ready = Barrier(8)",
            "def ask():",
            "    ready.wait()",
            "    Runner().model",
            "sys.setswitchinterval(1e-6)",
            "threads = [Thread(target=ask) for _ in range(8)]",
            "for thread in threads: thread.start()",
            "for thread in threads: thread.join()",
            "Runner().run('Hello')",
        ]
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "TOOLKIT_"))}
    ran = subprocess.run(
        [sys.executable, "-c", script], env=clean, capture_output=True, text=True, check=True, timeout=120
    )
    by_name, by_default = ran.stderr.split("By default:\n")

    assert "" == by_name
    assert 1 == by_default.count("no model is configured, so the embedded one answers: SmolLM2-135M-Instruct")
    assert "OPENAI_BASE_URL" in by_default


@pytest.fixture
def fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scripted model in place of the embedded one."""

    class Embedded(ScriptedModel):
        dialect: Any = None
        options: Any = None

    monkeypatch.setattr(
        "toolkit.models.local.embedded_model", lambda: Embedded([[call("delete_book", title="Dune")], "Done."])
    )


@pytest.mark.usefixtures("fallback")
@pytest.mark.parametrize("rule", [False, lambda _: False], ids=["no rule", "own rule"])
@pytest.mark.parametrize("effect", ["write", "destructive"])
def test_model_that_was_not_chosen_changes_nothing(effect: Any, rule: Any) -> None:
    """The embedded model as the last resort runs what changes something only with an approver, or chosen by name."""

    @tool(effect=effect, approve=rule)
    def delete_book(title: str) -> str:
        """Delete a book."""
        return f"{title} is gone"

    runners = [
        Runner([delete_book]),
        Runner([delete_book], approve=approve_all),
        Runner([delete_book], model="embedded"),
    ]
    results = [runner.run("Hello").calls[0].result.text for runner in runners]

    assert [True, False, False] == [text != "Dune is gone" for text in results]
    assert "no approval handler is configured" in (results[0] or "")


def test_destructive_tool_without_an_approver_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    """A run that may destroy something unasked warns, once for its Runner, unless there is an approver or a rule."""

    @tool(effect="destructive")
    def wipe() -> None:
        """Wipe."""

    @tool(effect="destructive", approve=True)
    def erase() -> None:
        """Erase."""

    runner = Runner([wipe], model=ScriptedModel(["a", "b"]))
    runner.run("x")
    runner.run("x")
    Runner([wipe], model=ScriptedModel(["a"]), approve=approve_all).run("x")
    Runner([erase], model=ScriptedModel(["a"])).run("x")

    assert 1 == len(caplog.messages)
    assert caplog.messages[0].startswith("No approver is set, so calls of destructive tools run unasked: 'wipe'.")


def test_name_alone_in_a_loop() -> None:
    """The same in arun."""
    with pytest.raises(NoModelError, match="OPENAI_API_KEY is not set"):
        asyncio.run(Runner(model="gpt-5").arun("x"))


@pytest.mark.parametrize("value", ["", None])
def test_blank_environment(environment: Callable[[str, str], None], value: str | None) -> None:
    """A blank variable does not count."""
    if value is not None:
        environment("OPENAI_API_KEY", value)
        environment("OPENAI_BASE_URL", value)
    with pytest.raises(NoModelError, match="OPENAI_API_KEY is not set"):
        Runner(model="gpt-5").run("x")


def test_white_space_around_a_key(server: FakeServer) -> None:
    """The line end of a key that was read from a file is not sent: HTTP refuses it."""
    Runner(base_url=server.base_url, model="m", api_key="mine\n").run("x")

    assert ["Bearer mine"] == [request.headers["authorization"] for request in server.requests]


def test_blank_key(environment: Callable[[str, str], None]) -> None:
    """A key of white space is none."""
    environment("OPENAI_API_KEY", " \n")
    with pytest.raises(NoModelError, match="OPENAI_API_KEY is not set"):
        Runner(model="gpt-5").run("x")


def test_address_in_capitals() -> None:
    """The scheme of an address may be in capitals."""
    assert "at http://localhost:1/v1" in repr(Runner(base_url="HTTP://localhost:1/v1", model="m").model)


@pytest.mark.parametrize("key", ["sk-canary\nand-more", "\u201csk-canary\u201d"], ids=["line end", "quotes"])
def test_key_that_no_request_can_have(server: FakeServer, environment: Callable[[str, str], None], key: str) -> None:
    """A key with a line end or curly quotes is refused by the name of its variable, and is not shown."""
    environment("OPENAI_API_KEY", key)
    environment("OPENAI_BASE_URL", server.base_url)
    with pytest.raises(NoModelError, match="check OPENAI_API_KEY") as error:
        Runner(model="m").run("x")

    assert "canary" not in str(error.value)


def test_key_with_a_line_end_in_a_client(server: FakeServer) -> None:
    """The error of a client whose key has a line end does not show the key."""
    with (
        openai.OpenAI(base_url=server.base_url, api_key="sk-canary\nand-more", max_retries=0) as client,
        pytest.raises(ModelError) as error,
    ):
        Runner(client=client, model="m").run("x")

    assert "canary" not in f"{error.value} {error.value.cause!r}"


@pytest.mark.parametrize("proxy", ["gopher://localhost:1", "http://localhost:port"])
def test_proxy_that_no_client_takes(server: FakeServer, environment: Callable[[str, str], None], proxy: str) -> None:
    """A proxy that cannot be used is an error that names its variable."""
    environment("HTTP_PROXY", proxy)
    with pytest.raises(NoModelError, match="No HTTP client can be made; check HTTP_PROXY"):
        Runner(base_url=server.base_url, model="m").run("x")


def test_key_is_not_shown(server: FakeServer) -> None:
    """The representation of a runner's model and of its settings has no key."""
    runner = Runner(base_url=server.base_url, model="m", api_key="sk-canary")

    assert "canary" not in f"{runner!r} {runner.model!r} {runner._factory.settings.model_choice!r}"


def test_client_without_a_name(server: FakeServer) -> None:
    """A client alone does not say which of its models; the error says how to."""
    with (
        openai.OpenAI(base_url=server.base_url, api_key="test") as client,
        pytest.raises(
            NoModelError, match=r'client= needs the name of a model: pass model="\.\.\.", or set TOOLKIT_MODEL'
        ),
    ):
        Runner(client=client).run("x")

    assert [] == server.requests


class Listing:
    """A server's answer to the question for its models."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def address(self) -> str:
        import http.server

        answer = self.body

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b'{"object": "list", "data": []}', NoModelError, "lists no model"),
        (b'{"object": "list", "data": null}', NoModelError, "lists no model"),
        (b"<html>", ModelError, r"The request to the model failed, .*; check base_url, which often ends in /v1"),
        (b'{"data": [5]}', ModelError, "The request to the model failed"),
    ],
    ids=["empty", "null", "html", "numbers"],
)
def test_server_that_lists_no_model(body: bytes, kind: type[Exception], message: str) -> None:
    """A server that lists no model is an error, in the library's own text."""
    listing = Listing(body)
    try:
        with pytest.raises(kind, match=message):
            Runner(base_url=listing.address()).run("x")
    finally:
        listing.close()


# -- loops


def test_runs_in_one_loop_after_another(server: FakeServer) -> None:
    """A Runner that made its own client works in one event loop after another, and each closes what it opened."""
    runner = Runner(base_url=server.base_url, model="named")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outputs = [asyncio.run(runner.arun("x")).output for _ in range(3)]
        gc.collect()

    assert ["Hi."] * 3 == outputs


def test_runs_in_loops_at_the_same_time(server: FakeServer) -> None:
    """Threads with event loops of their own may share a Runner that made its own client."""
    runner = Runner(base_url=server.base_url)
    outputs: list[str] = []
    ready = threading.Barrier(4, timeout=10)

    async def main() -> None:
        outputs.extend([(await runner.arun("x")).output for _ in range(3)])

    def work() -> None:
        ready.wait()
        asyncio.run(main())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert ["Hi."] * 12 == outputs


def test_both_backends_of_one_runner(server: FakeServer) -> None:
    """run() and arun() of one Runner that made its own client take turns, also inside a running loop."""
    runner = Runner(base_url=server.base_url, model="named")

    async def cell() -> list[str]:
        return [runner.run("x").output, (await runner.arun("x")).output, runner.run("x").output]

    assert ["Hi."] * 4 == [runner.run("x").output, *asyncio.run(cell())]


def test_one_client_per_loop(server: FakeServer) -> None:
    """Runs in one loop share one client, and so its connection."""
    runner = Runner(base_url=server.base_url, model="named")
    models: list[Any] = []

    async def main() -> None:
        models.extend([await runner._factory.settings.model_choice.get_async_model() for _ in range(2)])

    asyncio.run(main())

    assert models[0] is models[1]


def test_runs_that_start_at_the_same_time(server: FakeServer) -> None:
    """Runs that start at the same time in one loop do not close each other's client."""
    runner = Runner(base_url=server.base_url)

    async def main() -> list[str]:
        return [result.output for result in await asyncio.gather(*(runner.arun("x") for _ in range(8)))]

    assert ["Hi."] * 8 == asyncio.run(main())


def test_end_of_a_loop() -> None:
    """A runner that is gone when its loop ends leaves no connection open, however many it had."""

    async def main(address: str) -> list[Any]:
        runner = Runner(base_url=address, model="m")
        return [result.output for result in await asyncio.gather(*[runner.arun("Hi") for _ in range(40)])]

    with (
        FakeServer(lambda _: reply.text("Hi.")) as server,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        outputs = asyncio.run(main(server.base_url))
        gc.collect()

    assert (["Hi."] * 40, []) == (outputs, [str(each.message) for each in caught])


def test_end_of_a_loop_that_takes_its_time(caplog: pytest.LogCaptureFixture) -> None:
    """A runner whose connections are still being closed when its own delay is over leaves no error in the log."""

    async def linger() -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            time.sleep(0.2)  # noqa: ASYNC251  it blocks the loop that shuts down

    async def main(address: str, lingering: AsyncGenerator[None, None]) -> None:
        await anext(lingering)
        runner = Runner(base_url=address, model="m")
        await asyncio.gather(*[runner.arun("Hi") for _ in range(40)])

    with FakeServer(lambda _: reply.text("Hi.")) as server:
        lingering = linger()
        asyncio.run(main(server.base_url, lingering))
        gc.collect()

    assert [] == [record.getMessage() for record in caplog.records if record.name == "asyncio"]


def test_client_of_a_runner_that_is_gone() -> None:
    """The client of a runner that is gone is closed while the loop goes on."""

    async def main(address: str) -> bool:
        assert "Hi." == (await Runner(base_url=address, model="m").arun("Hi")).output
        made = [each for each in gc.get_objects() if issubclass(type(each), openai.AsyncOpenAI)]
        (client,) = [each for each in made if str(each.base_url).startswith(address)]
        while not client.is_closed():  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)
        return True

    with FakeServer([reply.text("Hi.")]) as server:
        assert asyncio.run(main(server.base_url))


def test_connections_of_a_crowd(environment: Callable[[str, str], None]) -> None:
    """Conversations after each other share one connection; of many at once, each has one and gets its answer."""
    ports: list[int] = []
    answer = b'{"choices": [{"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]}'

    async def main() -> tuple[int, list[str], int, int]:
        may_answer, arrived = asyncio.Event(), asyncio.Semaphore(0)
        may_answer.set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ports.append(writer.get_extra_info("peername")[1])
            with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError):
                while head := (await reader.readuntil(b"\r\n\r\n")).lower():
                    await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
                    arrived.release()
                    await may_answer.wait()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))

        server = await asyncio.start_server(serve, "127.0.0.1", backlog=500)
        runner = Runner(base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", model="m")
        for _ in range(2):
            await runner.arun("x")
            await arrived.acquire()
        alone = len(ports)
        may_answer.clear()
        runs = []
        for number in range(300):
            runs.append(asyncio.create_task(runner.arun("x")))
            if number % 20 == 19:  # on a busy machine, more at once may need the client's five seconds to connect
                for _ in range(20):
                    await arrived.acquire()
        may_answer.set()
        outputs = [result.output for result in await asyncio.gather(*runs)]
        crowded = len(ports)
        await runner.arun("x")
        server.close()
        return alone, outputs, crowded, len(ports)

    assert (1, ["Hi."] * 300, 300, 300) == asyncio.run(main())


def test_listing_does_not_block_the_loop(environment: Callable[[str, str], None]) -> None:
    """Asking a server for its models leaves the event loop free."""
    beat = threading.Event()

    class Late(Listing):
        def address(self) -> str:
            address = super().address()
            handler: Any = self.server.RequestHandlerClass
            answer = handler.do_GET
            handler.do_GET = lambda self: (beat.wait(10), answer(self))
            return address

    listing = Late(b'{"object": "list", "data": []}')
    address = listing.address()

    async def main() -> None:
        running = asyncio.ensure_future(Runner(base_url=address).arun("x"))
        asyncio.get_running_loop().call_later(0.01, beat.set)
        with pytest.raises(NoModelError, match="lists no model"):
            await asyncio.wait_for(running, 5)

    asyncio.run(main())
    listing.close()

    assert beat.is_set()


# -- forks

FORK = """
import os, sys
from openai import OpenAI
from toolkit import ModelError, Runner

address, way = sys.argv[1:]
options = {"base_url": address} if way == "base_url" else {"client": OpenAI(base_url=address, api_key="x")}
runner = Runner(model="m", **options)
runner.run("before")
child = os.fork()
who = "parent" if child else "child"
try:
    answers = {runner.run(who).output for _ in range(20)}
except ModelError as error:
    answers = {str(error)[:70]}
if child:
    os.waitpid(child, 0)
print(who, *answers, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("way", ["base_url", "client"])
def test_fork(way: str) -> None:
    """After a fork an address gets connections of the child's own; a client that both would read from is refused."""
    with FakeServer(lambda request: reply.text(request.body["messages"][-1]["content"])) as server:
        done = subprocess.run(
            [sys.executable, "-c", FORK, server.base_url, way], capture_output=True, text=True, check=True, timeout=60
        )
    refused = "This client sent a request before the process was forked, and now shares its connections"[:70]

    assert [f"child {refused if way == 'client' else 'child'}", "parent parent"] == done.stdout.splitlines()


# -- loops that do not close generators

WITHOUT_HOOKS = """
import asyncio, sys
from toolkit import Runner

async def main():
    sys.set_asyncgen_hooks(None, None)
    print(await Runner(model="m", base_url=sys.argv[1]).arun("x"))

asyncio.new_event_loop().run_until_complete(main())
"""


def test_loop_without_hooks(server: FakeServer) -> None:
    """A loop that does not close generators, as with nest_asyncio, leaves no error at the exit."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HOOKS, server.base_url], capture_output=True, text=True, check=True, timeout=60
    )

    assert ("Hi.\n", "") == (done.stdout, done.stderr)


IN_A_BROWSER = """
import asyncio, sys
from toolkit import FatalError, Runner, tool

@tool
async def add(a: int, b: int) -> int:
    "Add."
    return a + b

runner = Runner([add], model="m", base_url=sys.argv[1])
import httpx2, openai  # which look at the platform, too

sys.platform = "emscripten"
print(asyncio.run(runner.arun("1 + 2?")))
try:
    add.invoke({"a": 1, "b": 2})
except FatalError as error:
    print(error)
"""


def test_browser() -> None:
    """A Python in a browser, which has no threads and no certificates, has async runs; others say so."""
    with FakeServer([reply.calls(("add", {"a": 1, "b": 2})), reply.text("It is 3.")]) as server:
        command = [sys.executable, "-W", "ignore", "-c", IN_A_BROWSER, server.base_url]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()

    assert lines[0] == "It is 3."
    assert lines[1].startswith("An async function is called, and a browser has no threads: use async methods")
