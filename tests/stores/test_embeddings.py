"""Sources of embeddings: a function, a server that speaks OpenAI's API, a model on this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import openai
import pytest

from toolkit import DefinitionError, Failed, FatalError
from toolkit.models.local.fetch import cache_folder
from toolkit.stores import Embed, LocalEmbeddings, OpenAIEmbeddings
from toolkit.stores.embeddings import VOCABULARY, embed_texts, get_model_name

needs_model = pytest.mark.skipif(not find_spec("onnxruntime"), reason="the extra `embeddings` is not installed")


def lengths(texts: Sequence[str]) -> list[list[float]]:
    """Embed texts by how long they are."""
    return [[float(len(text)), 1.0] for text in texts]


def test_batches() -> None:
    """Texts are embedded 64 at a time, in order."""
    requests: list[int] = []

    def embed(texts: Sequence[str], /) -> list[list[float]]:
        requests.append(len(texts))
        return lengths(texts)

    assert lengths(["x" * n for n in range(130)]) == embed_texts(embed, ["x" * n for n in range(130)])
    assert [64, 64, 2] == requests


def raising(texts: Sequence[str], /) -> list[list[float]]:
    """Refuse to embed."""
    raise ConnectionError("the server is away")


class Refusal(Exception):  # noqa: N818
    """An error of a client whose request a server refused."""

    status_code = 401


def refusing(texts: Sequence[str], /) -> list[list[float]]:
    """Refuse as a server does that repeats the key."""
    raise Refusal("Incorrect API key: sk-SECRET " * 1000)


def stopping(texts: Sequence[str], /) -> list[list[float]]:
    """End the run."""
    raise FatalError("enough")


def test_why(caplog: pytest.LogCaptureFixture) -> None:
    """Why the function failed stands in the log, and in the error's cause, for people."""
    with pytest.raises(Failed) as failed:
        embed_texts(raising, ["a"])

    assert "the server is away" == str(failed.value.__cause__)
    assert "the server is away" in caplog.text


def test_end_of_the_run() -> None:
    """A function may end the run."""
    with pytest.raises(FatalError, match="enough"):
        embed_texts(stopping, ["a"])


def test_generator() -> None:
    """A function may yield its embeddings."""
    assert [[1.0, 1.0], [2.0, 1.0]] == embed_texts(cast("Embed", lambda texts, /: iter(lengths(texts))), ["a", "bb"])


FAILURES: dict[str, tuple[Embed, str]] = {
    "raises": (raising, "embedding error: ConnectionError"),
    "refuses": (refusing, "embedding error: Refusal (HTTP 401)"),
    "nothing": (cast("Embed", lambda texts, /: None), "embedding error: TypeError"),
    "none": (lambda texts, /: [], "no embedding returned"),
    "too few": (lambda texts, /: lengths(texts)[1:], "embedding error: 1 embeddings were returned for 2 texts"),
    "too many": (lambda texts, /: lengths([*texts, ""]), "embedding error: 3 embeddings were returned for 2 texts"),
}


@pytest.mark.parametrize(("embed", "message"), FAILURES.values(), ids=FAILURES.keys())
def test_failures(embed: Embed, message: str) -> None:
    """A function that does not embed each text is an error that a model may read."""
    with pytest.raises(Failed) as failed:
        embed_texts(embed, ["a", "b"])

    assert message == str(failed.value)


def test_model_of_a_function() -> None:
    """A plain function has no model name."""
    assert "" == get_model_name(lengths)


class Server:
    """Answers requests for embeddings on loopback: a text's embedding is its length; `spoil` changes an answer."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.spoil: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list
        self.content = ""  # of an answer that is not an answer
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                requests = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.requests.append({"path": self.path, **requests})
                self.reply(server.spoil(items(requests["input"])))

            def reply(self, data: list[dict[str, Any]]) -> None:
                answer = json.dumps({"object": "list", "data": data, "model": "m", "usage": {}})
                content = (server.content or answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html" if content.startswith(b"<") else "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self.http.server_port}/v1"


def items(texts: list[str]) -> list[dict[str, Any]]:
    """Make embeddings as OpenAI's API returns them, in another order."""
    subject = [{"object": "embedding", "index": n, "embedding": [float(len(text))]} for n, text in enumerate(texts)]
    return subject[::-1]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that embeds."""
    subject = Server()
    thread = threading.Thread(target=subject.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield subject
    subject.http.shutdown()
    thread.join()
    subject.http.server_close()


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    """A client of the server."""
    with openai.OpenAI(base_url=server.base_url, api_key="test", max_retries=0) as subject:
        yield subject


def test_server(server: Server, client: openai.OpenAI) -> None:
    """A server is asked for 64 at a time; its embeddings are put in order by their numbers."""
    embed = OpenAIEmbeddings("small", client)
    result = embed_texts(embed, ["x" * n for n in range(70)])

    assert [[float(n)] for n in range(70)] == result
    assert [64, 6] == [len(requests["input"]) for requests in server.requests]
    assert "small" == get_model_name(embed)


def test_request(server: Server, client: openai.OpenAI) -> None:
    """The request has model, texts, and dimensions if they are set."""
    OpenAIEmbeddings("small", client)(["a"])
    OpenAIEmbeddings("small", client, dimensions=8)(["b"])
    usual = {"path": "/v1/embeddings", "model": "small", "encoding_format": "float"}

    assert [{**usual, "input": ["a"]}, {**usual, "input": ["b"], "dimensions": 8}] == server.requests


def test_server_by_the_environment(server: Server, environment: Callable[[str, str], None]) -> None:
    """Without a client the environment names the server."""
    environment("OPENAI_BASE_URL", server.base_url)

    assert [[1.0]] == OpenAIEmbeddings("small")(["a"])


SPOILT: dict[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "one is missing": lambda data: data[1:],
    "two have one number": lambda data: [data[0], data[0]],
    "a number is too high": lambda data: [data[0], {**data[1], "index": 2}],
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_spoilt_answer(
    spoil: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], server: Server, client: openai.OpenAI
) -> None:
    """An answer without one embedding for each text is refused."""
    server.spoil = spoil

    with pytest.raises(Failed, match="the answer does not have an embedding for each text"):
        OpenAIEmbeddings("small", client)(["a", "b"])


UNREADABLE = {"no object": "null", "nothing in it": "{}", "a page": "<html>Welcome</html>", "a list": "[]"}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_no_answer(content: str, server: Server, client: openai.OpenAI) -> None:
    """A response from another address than that of the API has a message of its own."""
    server.content = content

    with pytest.raises(Failed, match="does not have an embedding for each text; check that base_url is the API"):
        OpenAIEmbeddings("small", client)(["a"])


def test_asynchronous_client() -> None:
    """An async client is refused."""
    with pytest.raises(DefinitionError, match="client=AsyncOpenAI is asynchronous"):
        OpenAIEmbeddings("small", cast("openai.OpenAI", openai.AsyncOpenAI(api_key="test")))


def test_silent_server(client: openai.OpenAI) -> None:
    """A server that does not respond is waited for until the timeout."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        embed = OpenAIEmbeddings("small", client.with_options(base_url=address), timeout=0.05)

        with pytest.raises(openai.APITimeoutError):
            embed(["a"])


def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a client, an address or a key, the client's error has the missing variable."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(openai.OpenAIError, match="OPENAI_API_KEY"):
        OpenAIEmbeddings("small")(["a"])


@pytest.fixture(scope="module")
def local() -> LocalEmbeddings:
    """The model on this machine."""
    return LocalEmbeddings()


def nearness(embeddings: Sequence[Sequence[float]]) -> float:
    """The cosine of two embeddings, both as long as one."""
    one, other = embeddings
    return sum(a * b for a, b in zip(one, other))


PAIRS = [
    ("How do I reset my password?", "Steps to recover access to an account", "The cat sat on the mat"),
    ("The cat sat on the mat", "A feline rested on a rug", "Quarterly revenue grew by 12 percent"),
    ("Quarterly revenue grew by 12 percent", "Sales rose by an eighth", "Bake it for forty minutes"),
    ("Bake it for forty minutes", "Leave the cake in the oven", "How do I reset my password?"),
]


@needs_model
@pytest.mark.parametrize(("text", "similar", "other"), PAIRS)
def test_meaning(text: str, similar: str, other: str, local: LocalEmbeddings) -> None:
    """With the local model, texts of similar meaning are near, others are not."""
    assert nearness(local([text, similar])) > 0.35
    assert abs(nearness(local([text, other]))) < 0.2


@needs_model
def test_order(local: LocalEmbeddings) -> None:
    """Each text's embedding has 384 numbers, and is hardly another one beside other texts."""
    texts = [PAIRS[0][0], "x" * 2000, "", "word " * 1000]
    together = local(texts)

    assert [384] * 4 == [len(embedding) for embedding in together]
    assert all(nearness([together[n], local([text])[0]]) > 0.97 for n, text in enumerate(texts))


@needs_model
def test_end_of_a_long_text(local: LocalEmbeddings) -> None:
    """The end of a long text counts, too."""
    beginning = "The weather was fine that day, and people sat in the garden. " * 40
    ends = [beginning, beginning + "Bake the cake in the oven for forty minutes. " * 40]

    assert nearness([local(["How long does a cake bake?"])[0], local(ends)[1]]) > 0.3


FORK = """
import os, sys
from toolkit.stores import LocalEmbeddings
embed = LocalEmbeddings()
before = embed(["a text"])
child = os.fork()
same = embed(["a text"]) == before
if not child:
    os._exit(not same)
sys.exit(os.waitpid(child, 0)[1] or not same)
"""


@needs_model
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_model_after_fork(local: LocalEmbeddings) -> None:
    """A process that forked, and its child, both go on with the model."""
    local(["fetched before the clock runs"])
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], env={**os.environ, "PYTHONPATH": "."}, timeout=20
    )

    assert 0 == run.returncode


@needs_model
def test_spoilt_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files in the cache that are not the expected ones are removed, not loaded."""
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    path = cache_folder() / VOCABULARY.name
    path.parent.mkdir(parents=True)
    path.write_text("{}", encoding="utf-8")

    with pytest.raises(OSError, match=r"tokenizer\.json was damaged and has been removed"):
        LocalEmbeddings()(["a"])
    assert not path.exists()


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)

    with pytest.raises(ImportError, match=r'pip install "function-toolkit\[embeddings\]"'):
        LocalEmbeddings()
