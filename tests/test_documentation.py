"""What the documentation says, run: README, pages, docstrings, examples."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.cli import main
from toolkit.models.default import FALLBACK
from toolkit.models.local.weights import NAME

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
MODULES = [
    "toolkit._tools.decorator",
    "toolkit._toolbox",
    "toolkit._runner.runner",
    "toolkit.compaction",
    "toolkit.display.terminal",
    "toolkit.testing.scripted",
]
MODULES += ["toolkit.serve.agui", "toolkit.schema", "toolkit.display.notebook", "toolkit.events"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS_THE_MODEL = {"quickstart"}


def blocks_with_output(page: Path, language: str = "python") -> list[tuple[str, str]]:
    """Return the blocks of a page, each with the text block that is next after it, or without one with ""."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    following = [*fences[1:], ("", "")]
    return [
        (block, after if kind_after == "text" else "")
        for (kind, block), (kind_after, after) in zip(fences, following)
        if kind == language
    ]


def blocks(page: Path) -> list[str]:
    """The Python blocks of a page, in order."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_commands_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command of the page that has an output prints it; the page's Python is the file that they are about."""
    page = ROOT / "docs" / "command-line.md"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "tools.py").write_text(blocks(page)[0], encoding="utf-8")

    for command, expected in blocks_with_output(page, "sh"):
        if expected:
            main(shlex.split(command)[1:])
            assert expected == capsys.readouterr().out, command
    sys.modules.pop("tools")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_of_the_pages_compiles(page: Path) -> None:
    """Every Python block of the documentation is Python."""
    for block in blocks(page):
        compile(block, page.name, "exec", flags=0x2000)  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


@pytest.mark.parametrize(
    "name",
    [
        "functions",
        "providers",
        "middleware",
        "results",
        "events",
        "running",
        "approval",
        "schema-first",
        "shared-values",
        "built-in-tools",
        "web",
        "mcp",
        "knowledge",
        "schedules",
    ],
)
def test_pages_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The blocks of a page that needs no model run one after the other; each prints just the text block after it."""
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    for block, expected in blocks_with_output(ROOT / "docs" / f"{name}.md"):
        exec(block, space)

        assert expected == capsys.readouterr().out, block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of the project finds it."""
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))

    assert [] == [link for link in links if not (page.parent / link).exists()]


def test_readme_is_short() -> None:
    """README.md stays under 150 lines."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name: str) -> None:
    """The examples in docstrings print what they say."""
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)

    assert (0, True) == (failed, tried > 0)


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.real_model] if path.stem in NEEDS_THE_MODEL else [])
        for path in EXAMPLES
    ],
)
def test_examples_run(example: Path) -> None:
    """An example runs as it is, without a key; standard error has nothing but which model answers."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "TOOLKIT_"))}
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    announcement = FALLBACK.format(name=NAME) + "\n" if example.stem in NEEDS_THE_MODEL else ""
    assert (0, announcement) == (ran.returncode, ran.stderr)
    assert ran.stdout.strip()


@pytest.mark.real_model
def test_readme_runs() -> None:
    """The first program of README.md, and the lines after it, do what they say."""
    program, lines = blocks(ROOT / "README.md")[:2]
    space: dict[str, object] = {"__name__": "readme"}
    exec(program, space)

    parameters, result, refusal = (eval(line.partition("#")[0], space) for line in lines.strip().splitlines())
    assert ["city"] == parameters["required"]
    assert "21 degrees celsius in Jakarta" == result
    assert refusal.startswith("Invalid arguments: ")
