"""The tools of an agent that works on a project: the list, and a whole run of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolkit import Runner, Toolbox, tool
from toolkit.builtin import default_tools
from toolkit.testing import ScriptedModel, call

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs file tools")

EXAMPLE = Path(__file__).parents[2] / "examples" / "coding_agent.py"


def test_names(tmp_path: Path) -> None:
    """A list: one tool for commands and five for files, in this order, each with a title and an effect."""
    tools = default_tools(tmp_path)

    assert isinstance(tools, list)
    assert [
        ("bash", "destructive", "Run Command"),
        ("read_file", "read", "Read File"),
        ("write_file", "write", "Write File"),
        ("edit_file", "write", "Edit File"),
        ("list_files", "read", "List Files"),
        ("search", "read", "Search Files"),
    ] == [(subject.name, subject.settings.effect, subject.title) for subject in tools]


def test_more(tmp_path: Path) -> None:
    """It is a list like any other: one's own tools join it."""

    @tool
    def deploy() -> str:
        """Deploy the project."""
        return "deployed"

    assert "deployed" == Toolbox([*default_tools(tmp_path), deploy]).call("deploy", {}).text


def test_one_directory(tmp_path: Path) -> None:
    """All of them work in the same directory."""
    model = ScriptedModel([call("write_file", path="a.txt", content="one\n"), call("bash", command="cat a.txt"), "."])
    result = Runner(default_tools(tmp_path), model=model).run("Write and read.")

    assert ["Wrote 4 bytes to a.txt", "Exit code: 0\none\n"] == [subject.result.text for subject in result.calls]


def test_agent() -> None:
    """The example's agent finds the mistake, mends it, may run nothing but the tests, and they pass then."""
    ran = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=120, check=True)
    facts = [
        "FAIL: test_discount",
        "Replaced 1 line with 1 line in basket.py",
        "Tool execution was rejected by the user. Reason: Only",
        "return sum(prices) * (100 - percent_off) // 100",
        "Seen from outside, the tests pass.",
    ]

    assert [] == [fact for fact in facts if fact not in ran.stdout]
