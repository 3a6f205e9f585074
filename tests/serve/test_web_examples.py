"""The pages of the examples, some in a browser: skipped where Chromium, Starlette or uvicorn is not installed."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.browser import AXE, NEEDS_AXE, NEEDS_CHROMIUM, browse

uvicorn = pytest.importorskip("uvicorn")
applications = pytest.importorskip("starlette.applications")
responses = pytest.importorskip("starlette.responses")
routing = pytest.importorskip("starlette.routing")
httpx2 = pytest.importorskip("httpx2")

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

# Sends what the page proposes, and presses a button once there is one; the title says whether the button that sends is
# disabled until then. The picture delays the end of loading, and so Chromium's look at the page, until a script asks
# for /done.
DRIVER = """
<img src="/hold" alt="">
<script type="module">
document.forms[0].requestSubmit();
const timer = setInterval(() => {
  const button = [...document.querySelectorAll("#log button")].find(each => each.textContent === "LABEL");
  if (button) document.title = `while it waits: ${document.querySelector("form button").disabled}`;
  button?.click();
  if ([...document.querySelectorAll("#log p")].at(-1)?.textContent === "LAST") {
    clearInterval(timer);
    fetch("/done");
  }
}, 20);
</script>"""
AUDIT = """
<img src="/hold" alt="">
<script>SOURCE</script>
<script type="module">
document.forms[0].requestSubmit();
const timer = setInterval(async () => {
  if (!document.querySelector("#log button")) return;
  clearInterval(timer);
  const {violations} = await axe.run();
  const found = violations.map(each => `${each.impact}: ${each.help}`);
  document.title = ["checked", ...found].join("|");
  fetch("/done");
}, 20);
</script>"""


def load(example: str) -> Any:
    """Return the module of an example."""
    spec = importlib.util.spec_from_file_location(example, EXAMPLES / f"{example}.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def serve(example: str, script: str) -> Iterator[str]:
    """Serve an example with a script in its page, and give the address."""
    module = load(example)

    async def show(_: object) -> Any:
        return responses.HTMLResponse(module.PAGE + script)

    done = threading.Event()

    async def hold(_: object) -> Any:
        await asyncio.to_thread(done.wait, 30)
        return responses.PlainTextResponse("")

    async def release(_: object) -> Any:
        done.set()
        return responses.PlainTextResponse("")

    own = {"/driven": show, "/hold": hold, "/done": release}
    routes = [*(routing.Route(path, function) for path, function in own.items()), *module.app.routes]
    app = applications.Starlette(routes=routes)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    socket = server.config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}/driven"
    finally:
        server.should_exit = True
        thread.join(20)
        socket.close()


@NEEDS_CHROMIUM
@pytest.mark.parametrize("example", ["web_vercel", "web_agui"])
@pytest.mark.parametrize(
    ("label", "answer"),
    [("Approve", "sent to emma: Hello!"), ("Reject", "Tool execution was rejected by the user.")],
    ids=["approved", "rejected"],
)
def test_approval_in_a_page(example: str, label: str, answer: str, tmp_path: Path) -> None:
    """A call waits for a button, and nothing can be sent; pressing it lets the run go on, and its answer appears."""
    with serve(example, DRIVER.replace("LABEL", label).replace("LAST", f"The tool says: {answer}")) as address:
        page = browse(address, tmp_path, "--dump-dom")
    lines = [unescape(line) for line in re.findall(r"<p[^>]*>(.*?)</p>", page)]

    assert ["Send Emma a mail.", f"The tool says: {answer}"] == [lines[0], lines[-1]]
    assert any("send_mail" in line and "Hello!" in line and answer in line for line in lines)
    assert "<button>" not in page.partition('id="log"')[2].partition("<form")[0]
    assert "<title>while it waits: true</title>" in page


JSON = {"content-type": "application/json"}
EMPTY = '{"id": 1, "threadId": 1, "messages": []}'


@pytest.mark.parametrize("example", ["web_vercel", "web_agui"])
@pytest.mark.parametrize("body", ["", "[]", "{}", '{"id": 1, "threadId": 1}', EMPTY])
def test_wrong_body(example: str, body: str) -> None:
    """A body that is not what the page sends is the client's mistake."""

    async def post() -> int:
        transport = httpx2.ASGITransport(load(example).app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return int((await client.post("/chat", content=body, headers=JSON)).status_code)

    assert 400 == asyncio.run(post())


@pytest.mark.parametrize("example", ["web_vercel", "web_agui"])
def test_other_pages(example: str) -> None:
    """A page of another site, or one whose name leads to this machine, can start no run."""
    body = '{"id": 1, "threadId": 1, "messages": [{"role": "user", "content": "Hi!", "parts": [{"type": "text"}]}]}'

    async def post(host: str, headers: dict[str, str]) -> int:
        transport = httpx2.ASGITransport(load(example).app)
        async with httpx2.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return int((await client.post("/chat", content=body, headers=headers)).status_code)

    plain = {"content-type": "text/plain", "origin": "http://page.example"}
    requests = [("localhost", JSON), ("localhost", plain), ("page.example", JSON)]
    assert [200, 415, 400] == [asyncio.run(post(host, headers)) for host, headers in requests]


def test_thread_of_an_odd_id() -> None:
    """The run of a thread is noted whatever JSON a client sends as its id."""

    async def post() -> str:
        transport = httpx2.ASGITransport(load("web_agui").app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return str((await client.post("/chat", json={"threadId": [1], "messages": [{"content": "Hello"}]})).text)

    assert "RUN_FINISHED" in asyncio.run(post())


@NEEDS_AXE
@pytest.mark.parametrize("example", ["web_vercel", "web_agui"])
def test_accessible_page(example: str, tmp_path: Path) -> None:
    """axe-core finds nothing to mend in the page, while a call waits for an answer."""
    with serve(example, AUDIT.replace("SOURCE", Path(str(AXE)).read_text("utf-8"))) as address:
        page = browse(address, tmp_path, "--dump-dom")

    assert ["checked"] == re.findall(r"<title>(.*?)</title>", page)
