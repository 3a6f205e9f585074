"""The page of `toolkit inspect`, as a browser gets it."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from tests.browser import NEEDS_AXE, SCHEMES, audit
from tests.servers import FakeServer
from toolkit.testing import Reply, reply

pytestmark = pytest.mark.usefixtures("own_process")

TOOLS = '''
import time
from pathlib import Path
from typing import Literal

from toolkit import ToolContext, tool

deps = {"Lima": 21}


@tool
def get_weather(
    city: str, context: ToolContext[dict], unit: Literal["celsius", "fahrenheit"] = "celsius"
) -> str:
    """Current weather for a city.

    Args:
        city: City name <in English>.
    """
    return f"<b>{context.deps[city]}</b> degrees {unit} in {city}"


@tool(effect="destructive")
def delete_book(title: str) -> str:
    """Delete a book."""
    Path("deleted").write_text(title)
    return f"{title} is gone"


@tool
def wait(context: ToolContext) -> str:
    """Wait until the run is cancelled."""
    while not context.cancelled:
        time.sleep(0.01)
    return "cancelled"


@tool
def crash(n: int) -> float:
    """Crash."""
    return 1 / n
'''


@dataclass
class Page:
    """The page of a command."""

    port: int
    root: str
    folder: Path
    server: FakeServer
    replies: list[Reply]

    def request(
        self, method: str, path: str, form: Mapping[str, str] | None = None, **headers: str
    ) -> tuple[int, str, http.client.HTTPMessage]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
            connection.request(method, path, urlencode(form) if form is not None else None, sent)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers

    def get(self, path: str = "") -> str:
        return self.request("GET", self.root + path)[1]

    def post(self, path: str, **form: str) -> str:
        """Post a form, and follow the redirection."""
        status, text, headers = self.request("POST", self.root + path, form)
        return self.request("GET", headers["Location"])[1] if status == 303 else text


@contextmanager
def start(folder: Path, *options: str) -> Iterator[tuple[int, str]]:
    """Start the command in a folder with tools.py, and give its port and the root of its pages."""
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TOOLKIT_SESSIONS": ""}
    command = [sys.executable, "-m", "toolkit", "inspect", "tools.py", *options]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = urlsplit(process.stdout.readline().split()[1])
        try:
            yield url.port or 0, url.path
        finally:
            process.kill()


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of a command whose model gives the page's replies."""
    folder, replies = tmp_path_factory.mktemp("inspect"), list[Reply]()
    server = FakeServer(lambda _: replies.pop(0))
    with server, start(folder, "--base-url", server.base_url, "-m", "m") as (port, root):
        yield Page(port, root, folder, server, replies)


@pytest.fixture
def page(command: Page) -> Page:
    """That page, with a new conversation."""
    command.post("new")
    command.replies.clear()
    (command.folder / "deleted").unlink(missing_ok=True)
    return command


def texts(html: str) -> str:
    """The visible texts of a page."""
    for name in re.findall(r"<style>#(.*?){display:none}</style>", html):
        html = re.sub(rf'(?s)<div[^>]* id="{name}">.*?</div>|<div id="{name}">.*?</div>', "", html)
    bare = re.sub(r"(?s)<style>.*?</style>|<[^>]+>", " ", html.partition("<main")[2].partition(">")[2])
    return " ".join(unescape(bare).split())


def test_tools_and_calls(page: Page) -> None:
    """Each tool has a form that calls it; texts of tools are escaped, and errors stand beside the fields."""
    front, form = page.get(), page.get("tools/get_weather")
    result = page.post("tools/get_weather", city="Lima", unit="fahrenheit")
    wrong = page.post("tools/get_weather", city="Lima", unit="kelvin")
    crashed = page.post("tools/crash", n="0")

    assert ["", *(f"tools/{name}" for name in ("get_weather", "delete_book", "wait", "crash"))] == re.findall(
        rf'href="{re.escape(page.root)}(.*?)"', front
    )
    assert 'name="city" required' in form and "&lt;in English&gt;" in form
    assert "Result <b>21</b> degrees fahrenheit in Lima" in texts(result) and 'value="Lima"' in result
    assert "Input should be 'celsius' or 'fahrenheit'" in texts(wrong) and "Result" not in texts(wrong)
    assert "ZeroDivisionError: division by zero" in texts(crashed)


def test_changes_are_asked_about(page: Page) -> None:
    """A call of a destructive tool is shown first, and made once a person approves it."""
    question = page.post("tools/delete_book", title="<i>Dune</i>")
    was_deleted = (page.folder / "deleted").exists()
    arguments = unescape(re.findall(r'name="approved" value="(.*?)"', question)[0])
    done = page.post("tools/delete_book", approved=arguments)

    assert 'Run delete_book? destructive delete_book({"title": "<i>Dune</i>"}) Run it Cancel' == texts(question)
    assert not was_deleted and "<i>Dune</i> is gone" in texts(done)


STRANGER = "Open the address that the command has printed."
ELSEWHERE = "This page is for the browser of this machine alone."
REFUSED: list[tuple[str, dict[str, str], int, str]] = [
    ("/", {}, 404, STRANGER),
    ("/{other}/tools/crash", {}, 404, STRANGER),
    ("{root}tools/crash", {"Host": "evil.example"}, 403, ELSEWHERE),
    ("{root}tools/crash", {"Host": "127.0.0.1"}, 403, ELSEWHERE),
    ("{root}tools/crash", {"Origin": "http://evil.example"}, 403, "This request comes from another page."),
    ("{root}tools/crash", {"Origin": "null"}, 403, "This request comes from another page."),
    ("{root}tools/none", {}, 404, "There is no such page."),
    ("{root}decide", {}, 409, "No call waits for approval."),
]


def test_refused_requests(page: Page) -> None:
    """Without the token, under another host's name, from another page: one sentence, and nothing else."""
    paths = [path.format(root=page.root, other="x" * (len(page.root) - 2)) for path, *_ in REFUSED]
    answers = [
        page.request("POST", path, {"n": "1"}, **headers)[:2]
        for path, (_, headers, *_) in zip(paths, REFUSED, strict=True)
    ]

    assert [(status, text) for _, _, status, text in REFUSED] == answers


def test_page_runs_no_script(page: Page) -> None:
    """A page fetches nothing, runs no script, and is shown by no other page; it is not kept."""
    _, text, headers = page.request("GET", page.root)
    policy = headers["Content-Security-Policy"].split("; ")

    assert "<script" not in text
    assert {"default-src 'none'", "form-action 'self'", "frame-ancestors 'none'"} <= {*policy}
    assert ("no-store", "same-origin") == (headers["Cache-Control"], headers["Referrer-Policy"])


def test_chat(page: Page) -> None:
    """A prompt is answered with calls and text, all escaped; the next one continues the conversation."""
    page.replies += [
        reply.calls(("get_weather", {"city": "Lima"})),
        reply.text("It is <i>warm</i>."),
        reply.text("Yes."),
    ]
    answer = texts(page.post("chat", prompt="Weather in\r\nLima?"))
    later = texts(page.post("chat", prompt="Really?"))
    sent = page.server.requests[-1].body["messages"]
    new = texts(page.post("new"))

    assert re.search(r"Weather in Lima\? get_weather \d+ ms city = \"Lima\" <b>21</b> degrees", answer)
    assert "It is <i>warm</i>. m · 2 tokens in, 2 out Prompt Send New conversation" in answer
    assert later.endswith("Really? Yes. m · 1 tokens in, 1 out Prompt Send New conversation")
    assert ["user", "assistant", "tool", "assistant", "user"] == [message["role"] for message in sent]
    assert "Chat Prompt Send" == new


@NEEDS_AXE
@SCHEMES
def test_accessible_pages(page: Page, tmp_path: Path, scheme: str) -> None:
    """axe-core finds nothing to mend in a form, a result, a question, and a chat that waits for approval."""
    page.replies += [reply.calls(("get_weather", {"city": "Lima"})), reply.calls(("delete_book", {"title": "Dune"}))]
    pages = [
        page.post("tools/get_weather", city="Lima", unit="kelvin"),
        page.post("tools/crash", n="0"),
        page.post("tools/delete_book", title="Dune"),
        page.post("chat", prompt="Delete Dune, if it is warm in Lima."),
    ]

    assert [[]] * 4 == [audit(each, tmp_path, scheme) for each in pages]


@pytest.mark.parametrize("choice", ["yes", "no"])
def test_chat_asks_about_changes(page: Page, choice: str) -> None:
    """A destructive call of the model waits for a decision on the page."""
    page.replies += [reply.calls(("delete_book", {"title": "Dune"})), reply.text("Done.")]
    question = page.post("chat", prompt="Delete Dune.")
    was_deleted = (page.folder / "deleted").exists()
    (call_id,) = {*re.findall(r'type="radio" name="(.*?)"', question)}
    busy = page.post("chat", prompt="And now?")
    answer = texts(page.post("decide", **{call_id: choice}))

    assert 'waits for approval destructive {"title": "Dune"}' in texts(question) and not was_deleted
    assert "The last run has not ended. Go back, and stop it or decide." == busy
    assert (
        "Done. m · 2 tokens in, 2 out Prompt Send" in answer and (choice == "yes") == (page.folder / "deleted").exists()
    )


def test_stop_a_run(page: Page) -> None:
    """A run can be stopped from the page, which goes on with the conversation."""
    page.replies.append(reply.calls(("wait", {})))
    status, _, _ = page.request("POST", page.root + "chat", {"prompt": "Wait."})
    stopped = texts(page.post("cancel"))

    assert 303 == status and re.search(r"cancelled m.*Prompt Send", stopped)


def test_chat_with_a_server_that_fails(page: Page) -> None:
    """An error of the model is one sentence on the page, and the next prompt can be sent."""
    page.replies += [reply.error(401, "bad key"), reply.text("Hello.")]
    failed = texts(page.post("chat", prompt="Hi"))
    answer = texts(page.post("chat", prompt="Hi again"))

    assert "bad key" in failed and failed.endswith("Prompt Send New conversation")
    assert "Hello. m · 1 tokens in, 1 out Prompt Send" in answer


def test_port_in_use(tmp_path: Path) -> None:
    """A port that is in use ends the command with one sentence; no model is needed to start it."""
    with start(tmp_path) as (port, _):
        command = [sys.executable, "-m", "toolkit", "inspect", "tools.py", "--port", f"{port}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (1, "") == (done.returncode, done.stdout)
    assert f"toolkit: Port {port} cannot be used: Address already in use. Leave out --port to take a free one.\n" == (
        done.stderr
    )
