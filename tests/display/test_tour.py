"""The notebook examples/tour.ipynb runs, and displays what it says."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"
CELLS: list[dict[str, Any]] = json.loads(TOUR.read_text(encoding="utf-8"))["cells"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]

# Runs cells as a kernel does, and prints for each the type of its value, and the text of its HTML.
RUN_IN_IPYTHON = """
import html, json, re, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
shell.history_manager.enabled = False
shell.displayhook.write_output_prompt = lambda: None
shell.displayhook.write_format_data = lambda *_: None
shown = []
for cell in json.load(sys.stdin):
    done = shell.run_cell(cell, silent=False)
    done.raise_error()
    data, _ = shell.display_formatter.format(done.result)
    shell.execution_count += 1
    text = re.sub("(?s)<style>.*?</style>|<[^>]+>", " ", data.get("text/html", ""))
    shown.append([type(done.result).__name__, " ".join(html.unescape(text).split())])
print("\\n" + json.dumps(shown))
"""


def run_python(*arguments: str, stdin: str = "") -> str:
    """Run Python in a process of its own, and return its output."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_no_outputs() -> None:
    """The notebook in the repository has no outputs, which change with every run."""
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in CELLS if "outputs" in cell)


def test_tour_is_python() -> None:
    """The cells are a program."""
    assert "Question  How is the weather in Jakarta?\nCall      get_weather(city='Jakarta')" in run_python(
        "-c", "\n".join(CODE)
    )


@pytest.mark.skipif(importlib.util.find_spec("IPython") is None, reason="needs the package ipython")
def test_tour_in_ipython() -> None:
    """The values at the ends of the cells are displayed as HTML."""
    out = run_python("-c", RUN_IN_IPYTHON, stdin=json.dumps([*CODE, "stream.result"]))
    shown = [tuple(each) for each in json.loads(out.splitlines()[-1])]
    tool, _, result, error, _, box, table, runner, run, printed, paused, resumed, later = shown

    assert tool[0] == "Tool" and "city str City name" in tool[1]
    assert result == ("ToolResult", "21 degrees celsius in Jakarta")
    assert error[1].startswith("invalid_arguments Invalid arguments: city: missing")
    assert box[0] == "Toolbox" and "delete_book destructive title Delete a book" in box[1]
    assert table[1].startswith("title author place Dune Frank Herbert F1")
    assert runner[0] == "Runner" and runner[1].startswith("Runner scripted max_turns = 10 Answer briefly.")
    assert run[0] == "RunResult" and "2 calls · scripted Turn 1 get_weather" in run[1]
    assert printed == ("RunResult", "")  # `show` has printed it in this cell
    assert later[1].startswith("It is 21 degrees in Jakarta, and there are two books by Frank Herbert. 2 calls")
    assert paused[1].startswith('delete_book waits for approval destructive {"title":')
    assert resumed[1].startswith("Dune is deleted. 1 call")
