"""docs/examples.md, made of the examples: `python -m tests.gallery` writes it, with `--pictures` its pictures.

Each example has its sentence, what it printed, and its source. `tests/test_documentation.py` compares the page with
what the examples print. The pictures take Chromium.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import rich.console
from rich.text import Text
from typing_extensions import override

from toolkit import Runner, tool
from toolkit.approvers import Console, ask_when
from toolkit.display import show
from toolkit.testing import ScriptedModel, call

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "examples.md"
# Headings by example, in the order of the page.
TITLES = {
    "quickstart": "First tools",
    "own_server": "A server with OpenAI's API",
    "structured_output": "Structured output",
    "progress": "Progress, streaming and AG-UI",
    "web_agui": "Chat in the browser, by AG-UI",
    "web_vercel": "Chat in the browser, by the AI SDK of Vercel",
    "providers": "Your own loop with OpenAI or Anthropic",
    "builtin_tools": "Built-in tools",
    "coding_agent": "Coding agent",
    "code_mode": "Code mode",
    "retrieval": "Retrieval (RAG)",
    "mcp_files": "MCP server and client",
    "mcp_functions": "Your functions for an MCP client",
    "a2a_agents": "A2A agents",
    "sub_agents": "Sub-agents",
    "approval_terminal": "Approval in a terminal",
    "approval_deferred": "Approval later, in another process",
    "undo": "Undo what a run has done",
    "guards": "Hooks, redaction and audit",
    "retry": "Retries and timeouts",
    "cancellation": "Cancel a run",
    "steering": "Steering",
    "compaction": "Long conversations",
    "schema_first": "Tools from schemas",
    "environments": "One tool, several implementations",
}
MAX_LINES = 24
# What differs from run to run: paths of Python, ids, times.
CHANGES = {
    r"/\S*/python[\d.]*": "python",
    r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b": "...",
    r"\b[0-9a-f]{8,}(_\d+)?\b": "...",
    r"\d{4}-\d\d-\d\dT[\d:.+]+": "...",
    r"('seconds': )[\d.e-]+": r"\1...",
    r" in 0\.\d+ ?s": " in ...",
    r"  \(\d+\.\d s\)(?=\n)": "",  # of a call that took long, on a busy machine
}
HEAD = """# Examples

Each example is one file in `examples/`. You can run it without a key: `python examples/retry.py`.
For each example, this page shows the output, without ids and times, and the source. Long outputs are cut.
Most models are scripted.

The notebook `examples/tour.ipynb` shows tools and runs in Jupyter.
In `examples/durable` you kill a worker and watch the [run](durable.md) finish.

![A run in a notebook: its answer, and two calls with arguments and results](images/run.png)
"""


@tool(effect="read")
def get_weather(city: str) -> str:
    """Current weather for a city."""
    return f"21 degrees in {city}"


@tool(effect="read")
def list_books(author: str) -> list[dict[str, str]]:
    """List the books of an author."""
    return [{"title": "Dune", "author": author}, {"title": "Children of Dune", "author": author}]


def normalize(output: str) -> list[str]:
    """Return the lines that an example printed, without what differs from run to run."""
    for pattern, text in CHANGES.items():
        output = re.sub(pattern, text, output)
    return [line.rstrip() for line in output.strip("\n").splitlines()]


def shorten(lines: list[str]) -> list[str]:
    """Cut the lines for the page."""
    return lines if len(lines) <= MAX_LINES else [*lines[: MAX_LINES - 1], "..."]


def render_example(name: str, lines: list[str]) -> str:
    """Return the section of an example."""
    source = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    sentence = str(ast.get_docstring(ast.parse(source))).partition("\n\n")[0].replace("\n", " ")
    output = "\n".join(shorten(lines))
    return (
        f"## {TITLES[name]}\n\n{sentence}\n\n```text\n{output}\n```\n\n"
        f'<details markdown="1">\n<summary>examples/{name}.py</summary>\n\n```py\n{source}```\n\n</details>\n'
    )


def read_outputs() -> dict[str, list[str]]:
    """Return the lines of output on the page, by example."""
    sections = re.findall(r"^```text\n(.*?)\n```.*?<summary>examples/(\w+)\.py", PAGE.read_text("utf-8"), re.S | re.M)
    return {name: output.splitlines() for output, name in sections}


@tool(effect="write")
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


class Screen(io.StringIO):
    """A terminal that keeps what is written."""

    @override
    def isatty(self) -> bool:
        return True


def draw_terminal() -> None:
    """Draw a run as a terminal shows it, with a question about a call."""
    screen = Screen()

    def write(text: str) -> str:
        screen.write(f"{text}\n".replace("__main__.", "tools."))
        return "y"

    script = [call("get_weather", city="Jakarta"), call("send_mail", to="ann@example.org", text="21 degrees")]
    runner = Runner(
        [get_weather, send_mail],
        model=ScriptedModel([*script, "I mailed Ann that it is 21 degrees in Jakarta."]),
        approve=ask_when(Console(read=lambda prompt: write(f"{prompt}y"), write=write), effects=["write"]),
    )
    write('$ toolkit run tools.py "Mail Ann the weather in Jakarta."')
    show(runner.stream("Mail Ann the weather in Jakarta."), out=screen)
    terminal = rich.console.Console(record=True, width=84, file=io.StringIO())
    terminal.print(Text.from_ansi(screen.getvalue()))
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", terminal.export_svg(title="toolkit", unique_id="t"), flags=re.DOTALL)
    (PAGE.parent / "images" / "terminal.svg").write_text(drawn, encoding="utf-8")  # it loads nothing


def draw_pictures() -> None:
    """Draw the run of docs/notebook.md as a notebook displays it."""
    calls = [call("get_weather", city="Jakarta"), call("list_books", author="Frank Herbert")]
    model = ScriptedModel([calls, "It is 21 degrees in Jakarta, and there are two books by Frank Herbert."])
    runner = Runner([get_weather, list_books], model=model)
    shown = runner.run("The weather in Jakarta, and Herbert's books?")._repr_html_()
    style = "margin:16px;font:14px system-ui,sans-serif;background:white"
    with TemporaryDirectory() as folder:
        page = Path(folder) / "run.html"
        page.write_text(
            f"<!doctype html><meta charset=utf-8><body style='{style}'>{shown}".replace("<details", "<details open")
        )
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=800,330"]
        command = ["chromium", *options, f"--screenshot={PAGE.parent / 'images' / 'run.png'}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603


def main() -> None:
    """Run the examples and write the page."""
    sections = []
    for name in TITLES:
        command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)  # noqa: S603
        sections.append(render_example(name, normalize(ran.stdout)))
    PAGE.write_text("\n".join([HEAD, *sections]), encoding="utf-8")
    if "--pictures" in sys.argv:
        draw_pictures()
        draw_terminal()


if __name__ == "__main__":
    main()
