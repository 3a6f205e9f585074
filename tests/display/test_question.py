"""Approval by buttons: the script in Chromium, and its Python in a real kernel, whose front end is the test."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from toolkit.display.question import SCRIPT, STYLE, Question

CHROMIUM = shutil.which("chromium")
MODULES = [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep) if place]
AXE = next((file for place in MODULES if (file := place / "axe-core" / "axe.min.js").is_file()), None)

# -- the script

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Question</title>
<style>:root{color-scheme:light dark;font-family:sans-serif}
@media (prefers-color-scheme:dark){:root{background:#16181c;color:#e6e6e6}}STYLE</style>
<main><h1>Notebook</h1><div id="place"></div><pre id="sent"></pre></main>
<script type="module">
const state = {card: "<b>pay(5)</b>"};
SCRIPT
function ask(act) {
  const el = document.createElement("div"), sent = [];
  document.querySelector("#place").append(el);
  render({model: {get: name => state[name], send: message => { sent.push(message); }}, el});
  act(el);
  document.querySelector("#sent").textContent += JSON.stringify(sent) + "\\n";
}
ACTIONS
</script></html>"""


def browse(folder: Path, actions: str, *options: str, source: str = "") -> str:
    """Return a page of questions after some actions."""
    script = SCRIPT.replace("export default {render};", "")
    page = PAGE.replace("STYLE", STYLE).replace("SCRIPT", script)
    (folder / "page.html").write_text(page.replace("ACTIONS", actions) + source, encoding="utf-8")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    output = options or ("--virtual-time-budget=5000", "--dump-dom")
    url = (folder / "page.html").as_uri()
    return subprocess.run([*command, *output, url], capture_output=True, check=True, timeout=120, text=True).stdout


# What a person does, and what the script sends then.
ACTIONS: dict[str, list[dict[str, Any]]] = {
    "": [],
    'el.querySelectorAll("button")[0].click();': [{"type": "answer", "approved": True, "reason": ""}],
    'el.querySelector("input").value = "Too <b>much</b>."; el.querySelectorAll("button")[1].click();': [
        {"type": "answer", "approved": False, "reason": "Too <b>much</b>."}
    ],
    'for (const each of el.querySelectorAll("button")) each.click();': [
        {"type": "answer", "approved": True, "reason": ""}
    ],
}


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_buttons(tmp_path: Path) -> None:
    """The script says that it is there, and then which button was pressed first."""
    page = browse(tmp_path, "".join(f"ask(el => {{ {act} }});\n" for act in ACTIONS))
    sent = unescape(re.findall(r'<pre id="sent">(.*?)</pre>', page, re.DOTALL)[0]).splitlines()

    assert [[{"type": "ready"}, *messages] for messages in ACTIONS.values()] == [json.loads(line) for line in sent]


@pytest.mark.skipif(CHROMIUM is None or AXE is None, reason="needs Chromium, and axe-core in a directory of NODE_PATH")
@pytest.mark.parametrize("scheme", ["0", "1"], ids=["dark", "light"])
def test_accessible_buttons(scheme: str, tmp_path: Path) -> None:
    """axe-core finds nothing to mend, in dark and in light."""
    audit = """ask(() => {});
    const {violations} = await axe.run();
    document.title = ["checked", ...violations.map(each => each.help)].join("|");"""
    dark = [f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=9000", "--dump-dom"]
    page = browse(tmp_path, audit, *dark, source=f"<script>{Path(str(AXE)).read_text('utf-8')}</script>")

    assert ["checked"] == re.findall(r"<title>(.*?)</title>", page)


# -- the answer


class FakeWidget:
    """A widget without a front end."""

    def on_msg(self, receive: Any) -> None:
        self.receive = receive


ANSWERS: dict[str, tuple[list[Any], tuple[bool, str] | None]] = {
    "none": ([{"type": "ready"}], None),
    "approved": ([{"type": "answer", "approved": True, "reason": ""}], (True, "")),
    "rejected": ([{"type": "answer", "approved": False, "reason": "no"}], (False, "no")),
    "nearly": ([{"type": "answer", "approved": "true"}], (False, "")),
    "a number": ([{"type": "answer", "approved": 1, "reason": 5}], (False, "")),
    "no object": (["approved"], None),
    "the first counts": ([{"type": "answer"}, {"type": "answer", "approved": True}], (False, "")),
}


@pytest.mark.parametrize(("messages", "answer"), ANSWERS.values(), ids=ANSWERS)
def test_answers(messages: list[Any], answer: tuple[bool, str] | None) -> None:
    """Only a literal true approves, and the first answer counts."""
    widget = FakeWidget()
    question = Question("", widget)
    for message in messages:
        widget.receive(widget, message, [])

    assert question.wait_until_ready(0)
    assert answer == question.wait(0)


# -- a kernel

CELL = """
import asyncio
from toolkit import Runner, tool
from toolkit.approvers import Notebook
from toolkit.testing import ScriptedModel, call

@tool(effect="destructive", approve=True)
def delete(path: str) -> str:
    "Delete a file."
    return f"deleted {path}"

runner = Runner([delete], model=ScriptedModel([call("delete", path="<b>a.txt</b>"), "Done."]), approve=Notebook())
"""


class Kernel:
    """A kernel, and the messages between it and a front end that this test plays."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.comm = ""
        self.card = ""
        self.plain = ""  # the widget where there is no HTML
        self.subshell: dict[str, str] = {}  # in the header of what the widget sends
        self.texts = list[str]()
        self.streams = set[str]()  # names of those that were written to
        self.answers = list[str]()  # to input()
        self.pages = list[tuple[str, str]]()  # kind and HTML of what is displayed

    def run(self, code: str, answer: dict[str, Any] | None) -> str:
        """Run a cell; press a button of each question that is displayed, and return what was printed."""
        request = self.client.execute(code, store_history=False, allow_stdin=bool(self.answers))
        for answered in self.answers:
            self.client.get_stdin_msg(timeout=60)
            self.client.input(answered)
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            kind, content = message["msg_type"], message["content"]
            if (html := content.get("data", {}).get("text/html")) is not None:
                self.pages.append((kind, html))
            if kind == "comm_open" and "card" in content["data"].get("state", {}):
                self.comm, self.card = content["comm_id"], content["data"]["state"]["card"]
            elif kind == "display_data" and answer is not None:
                self.plain = content["data"]["text/plain"]
                self.send({"type": "ready"})
                self.send(answer)
            elif kind == "comm_close" and content["comm_id"] == self.comm:
                self.comm = ""
            elif kind == "stream":
                self.streams.add(content["name"])
                self.texts.append(content["text"])
            elif kind == "error":
                self.texts.append("\n".join(content["traceback"]))
            elif kind == "status" and content["execution_state"] == "idle" and is_reply(message, request):
                return "".join(self.texts)

    def send(self, content: dict[str, Any]) -> None:
        """Send a message of the widget's script."""
        data = {"method": "custom", "content": content}
        message = self.client.session.msg("comm_msg", {"comm_id": self.comm, "data": data})
        message["header"] |= self.subshell
        self.client.shell_channel.send(message)

    def create_subshell(self) -> None:
        """Send what the widget sends to a thread of its own, as JupyterLab does."""
        self.client.control_channel.send(self.client.session.msg("create_subshell_request", {}))
        self.subshell = {"subshell_id": self.client.get_control_msg(timeout=60)["content"]["subshell_id"]}


def is_reply(message: dict[str, Any], request: str) -> bool:
    """Return whether a message belongs to a request."""
    return bool(message["parent_header"].get("msg_id") == request)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """What talks to a kernel, which all tests share."""
    pytest.importorskip("anywidget")
    ipykernel = pytest.importorskip("ipykernel")
    if ipykernel.version_info[:2] < (7, 4):
        pytest.skip("an older kernel hears no widget while a cell runs")
    manager = pytest.importorskip("jupyter_client").KernelManager(kernel_name="none")
    manager._kernel_spec = pytest.importorskip("jupyter_client.kernelspec").KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python"
    )
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(client: Any) -> Kernel:
    """The kernel, with a new runner and the usual patience."""
    found = Kernel(client)
    assert found.run(CELL, None) == ""
    return found


def test_approved_in_a_kernel(kernel: Kernel) -> None:
    """The run waits for a button while the cell awaits it; the call is shown, escaped, and runs once it is approved."""
    approve = {"type": "answer", "approved": True, "reason": ""}
    printed = kernel.run('result = await runner.arun("Go")\nprint(result.calls[0].result.text, result)', approve)

    assert "deleted <b>a.txt</b> Done.\n" == printed
    assert "&lt;b&gt;a.txt" in kernel.card
    assert "<b>a.txt" not in kernel.card
    assert "<Question>" == kernel.plain


def test_long_arguments_in_a_kernel(kernel: Kernel) -> None:
    """Arguments are shown whole, however long: nothing runs that nobody has seen. So is what was decided on."""
    kernel.run(
        'model = ScriptedModel([call("delete", path=10_000 * "x" + "END"), "Done."])\n'
        'await Runner([delete], model=model, approve=Notebook()).arun("Go")',
        {"type": "answer", "approved": False, "reason": ""},
    )

    assert 10_000 * "x" + "END" in kernel.card
    assert any(10_000 * "x" + "END" in card for _, card in kernel.pages)


def test_answered_in_a_kernel(kernel: Kernel) -> None:
    """Once it is answered, HTML takes the place of the widget: a saved notebook has no widget that is not there."""
    kernel.run('await runner.arun("Go")', {"type": "answer", "approved": True, "reason": ""})
    (update, card), (result, _) = kernel.pages

    assert ("update_display_data", "execute_result", "") == (update, result, kernel.comm)
    assert "approved</span>" in card
    assert "&lt;b&gt;a.txt" in card
    assert "waits for approval" not in card


def test_rejected_in_a_kernel(kernel: Kernel) -> None:
    """A reason goes to the model, and the function is not called."""
    reject = {"type": "answer", "approved": False, "reason": "keep it"}
    printed = kernel.run('result = await runner.arun("Go")\nprint(result.calls[0].result.text)', reject)

    assert "keep it" in printed
    assert "deleted" not in printed
    assert "rejected</span>" in kernel.pages[0][1]
    assert "keep it" in kernel.pages[0][1]


def test_console_in_a_kernel(kernel: Kernel) -> None:
    """The approver of terminals asks with the field of input() in a notebook."""
    code = 'from toolkit.approvers import Console\nmodel = ScriptedModel([call("delete", path="a.txt"), "Done."])\n'
    code += 'result = Runner([delete], model=model, approve=Console()).run("Go")\nprint(result.calls[0].result.text)'
    kernel.answers.append("y")

    assert kernel.run(code, None).endswith("deleted a.txt\n")


def test_front_end_without_buttons(kernel: Kernel) -> None:
    """Where no button appears, the field of input() is tried; without one the call is refused, without a traceback."""
    code = 'import toolkit.approvers\ntoolkit.approvers.READY_SECONDS = 0.1\nresult = await runner.arun("Go")\n'
    printed = kernel.run(code + "print(result.calls[0].result.text)", None)

    assert "the tool was not run. Reason: There is nobody to ask: this front end takes no input.\n" in printed
    assert "Traceback" not in printed
    assert "deleted" not in printed
    assert ("update_display_data", "") == kernel.pages[0]


def test_show_in_a_kernel(kernel: Kernel) -> None:
    """A run is one display that changes; the cell displays its result neither as text nor once more."""
    code = "from toolkit.display import ashow, show\nstream = Runner(model=ScriptedModel(['**Warm.**'])).stream('x')\n"

    assert "" == kernel.run(f"{code}show(stream, 'Is it <warm>?')", None)
    assert ["display_data", "update_display_data"] == [*dict.fromkeys(kind for kind, _ in kernel.pages)]
    assert "display_data" not in dict(kernel.pages[1:])
    assert "Is it &lt;warm&gt;?" in kernel.pages[0][1]
    assert "<strong>Warm.</strong>" in kernel.pages[-1][1]
    assert "Answer    **Warm.**\n" == kernel.run(f"import sys\n{code}_ = show(stream, out=sys.stdout)", None)


def test_progress_in_a_kernel(kernel: Kernel) -> None:
    """The bar of `map` is on standard output: a notebook displays standard error as a failure."""
    code = 'results = Runner(model=ScriptedModel(["3", "4"])).map(["x", "y"], progress=True)'

    assert "2/2 done" in kernel.run(code, None)
    assert {"stdout"} == kernel.streams


def test_busy_kernel(kernel: Kernel) -> None:
    """A plain run keeps the main thread busy; a front end that has a subshell is heard all the same."""
    kernel.create_subshell()
    printed = kernel.run('print(runner.run("Go"))', {"type": "answer", "approved": True, "reason": ""})

    assert "Done.\n" == printed


def test_busy_kernel_without_a_subshell(kernel: Kernel) -> None:
    """A plain run hears no button of another front end, and gives it up."""
    code = 'import toolkit.approvers\ntoolkit.approvers.READY_SECONDS = 0.1\nresult = runner.run("Go")\n'
    printed = kernel.run(code + "print(result.calls[0].result.text)", {"type": "answer", "approved": True})

    assert "could not be completed; the tool was not run" in printed
    assert "deleted" not in printed
