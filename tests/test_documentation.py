"""What the documentation says, run: README, pages, docstrings, examples.

A block ```python of a page is run, a block ```py only compiled: it needs a package that the tests do not have.
"""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import gallery
from toolkit import errors
from toolkit.cli import main
from toolkit.models.default import FALLBACK
from toolkit.models.local import NAME
from toolkit.testing import FakeServer, reply

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
COMPARISON = ROOT / "docs" / "comparison.md"
MODULES = [
    "toolkit._tools.decorator",
    "toolkit._toolbox",
    "toolkit._runner.runner",
    "toolkit.middleware.compaction",
    "toolkit.middleware.telemetry",
    "toolkit.display.terminal",
    "toolkit.testing.scripted",
    "toolkit.testing.cassette",
    "toolkit.testing.trajectory",
]
MODULES += ["toolkit.serve.agui", "toolkit.schema", "toolkit.display.notebook", "toolkit.events"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Examples that need the weights of a model, with what they say of it on standard error.
ANNOUNCED = {"quickstart": FALLBACK.format(name=NAME) + "\n", "retrieval": ""}


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
    """The Python blocks of a page, in order, those that are not run too."""
    return re.findall(r"```py(?:thon)?\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def read_prose(page: Path) -> str:
    """Read a page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, in lower case, with hyphens for spaces, without punctuation."""
    headings = re.findall(r"^#+ (.+)$", read_prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["command-line", "cookbook"])
def test_commands_of_the_page(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command of the page that has an output prints it; the page's first block is the file that they are about."""
    page = ROOT / "docs" / f"{name}.md"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "tools.py").write_text(blocks(page)[0], encoding="utf-8")

    for command, expected in blocks_with_output(page, "sh"):
        if expected:
            main(shlex.split(command)[1:])
            assert expected == capsys.readouterr().out, command
    sys.modules.pop("tools")


def test_site_has_every_page() -> None:
    """The navigation of the site, and the list for language models, have every page."""
    shown = re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text(encoding="utf-8"))
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    listed = re.findall(r"\]\((\S+)\)", (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8"))

    assert sorted(pages) == sorted(shown)
    assert sorted(re.sub(r"(/index)?\.md$", "/", page) for page in pages - {"index.md"}) == sorted(listed)


def test_defaults_in_the_reference() -> None:
    """The API reference has the default of each option, whose type checkers know no default."""
    griffe = pytest.importorskip("griffe")
    extensions = griffe.load_extensions("unpack_typeddict", str(ROOT / ".ci" / "defaults.py"))
    package = griffe.load("toolkit", search_paths=[ROOT], extensions=extensions, docstring_parser="google")
    decorator, run = package["_tools.decorator.tool"], package["_runner.runner.Runner.run"]
    (section,) = (each for each in decorator.docstring.parsed if each.kind.value == "parameters")

    assert ["0.5", "(Exception,)"] == [decorator.parameters[name].default for name in ("retry_delay", "retry_on")]
    assert "0.5" in [each.value for each in section.value if each.name == "retry_delay"]
    assert "{}" == run.parameters["decisions"].default


def test_program_for_language_models(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The programs in llms.txt run."""
    answers = [reply.calls(("find_book", {"title": "Dune"})), reply.text("At F1."), reply.text("At A3.")]
    with FakeServer(answers) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        first, second = blocks(ROOT / "docs" / "llms.txt")
        exec(first, {})
    assert capsys.readouterr().out.startswith("At F1. (ToolCallFinished(")
    assert 3 == len(server.requests)
    exec(second, {})
    assert capsys.readouterr().out.endswith("Ann has got 5 euros None\nPaid.\n")


def test_reference_has_every_public_name() -> None:
    """The reference describes every public module; of one that loads its names later, each name."""
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    described = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    entries = (ROOT / "toolkit").iterdir()
    modules = {f"toolkit.{entry.stem}" for entry in entries if entry.stem[0] != "_" and entry.suffix in ("", ".py")}
    names = {
        f"{name}.{each}"
        for name in ("toolkit", "toolkit.builtin", "toolkit.durable", "toolkit.stores", "toolkit.testing")
        for each in vars(importlib.import_module(name))["__all__"]
        if each not in errors.__all__
    }

    assert [] == sorted(names - described)
    assert ["toolkit.cli"] == sorted(  # a page of its own describes the commands
        module for module in modules if not any(f"{each}.".startswith(f"{module}.") for each in described)
    )


def test_python_of_the_pages_compiles() -> None:
    """Every Python block of the documentation is Python."""
    for page in PAGES:
        for block in blocks(page):
            compile(block, page.name, "exec", flags=0x2000)  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


# Pages whose blocks need a model, a server or another file; and those whose blocks continue each other, as they say.
NOT_RUN = {"README", "durable", "embedded-model", "getting-started"}
CONTINUED = ("a2a", "knowledge", "schedules", "schema-first")
WHOLE = [page.stem for page in PAGES if page.stem not in {*NOT_RUN, *CONTINUED} and blocks_with_output(page)]


@pytest.mark.parametrize("name", CONTINUED)
def test_pages_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The blocks of a page that says so continue each other; each prints just the text block after it."""
    monkeypatch.chdir(tmp_path)
    page, space = ROOT / "docs" / f"{name}.md", dict[str, object]()
    assert " continues those above it." in page.read_text(encoding="utf-8")
    for block, expected in blocks_with_output(page):
        exec(block, space)

        assert expected == capsys.readouterr().out, block


@pytest.mark.parametrize("name", WHOLE)
def test_each_block_runs_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block can be copied: it is a whole program, which prints just the text block after it.

    A page may have one block saved as `tools.py`, which the others import.
    """
    page = ROOT / "docs" / f"{name}.md"
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    shared = re.search(r"Save this as `tools.py`.*?```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "tools.py").write_text(shared[1] if shared else "", encoding="utf-8")
    for number, (block, expected) in enumerate(blocks_with_output(page)):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        sys.modules.pop("tools", None)
        exec(block, {"__name__": "__main__"})

        assert expected == capsys.readouterr().out, block
    sys.modules.pop("tools", None)


@pytest.fixture
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The program of the cookbook for a package, and a server whose model lists files, and then deletes one."""
    pytest.importorskip(request.param)
    (found,) = (each for each in blocks(ROOT / "docs" / "cookbook.md") if f"import {request.param} as " in each)
    script = [
        reply.calls(("list_files", {"folder": "."})),
        reply.text("There are two."),
        reply.calls(("delete_file", {"path": "plan.txt"})),
        reply.text("It is gone."),
    ]
    with FakeServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield found


@pytest.mark.parametrize("program", ["streamlit"], indirect=True)
def test_program_for_streamlit(program: str, tmp_path: Path) -> None:
    """The page for Streamlit shows calls, asks with buttons, and shows the conversation again."""
    testing = importlib.import_module("streamlit.testing.v1")
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    page = testing.AppTest.from_file(tmp_path / "page.py", default_timeout=60).run()
    page.chat_input[0].set_value("Which files are there?").run()
    assert "There are two." == page.chat_message[-1].markdown[0].value
    page.chat_input[0].set_value("Delete the plan.").run()
    assert 'May I call this? delete_file({"path": "plan.txt"})' == page.markdown[-1].value
    page.button[0].click().run()

    assert ([], []) == (list(page.exception), list(page.button))
    assert "It is gone." == page.chat_message[-1].markdown[0].value


SEND = """
import asyncio, copy
chat = copy.deepcopy(Chat())  # as Gradio does for each user

async def send(message):
    async for shown in respond(message, [], chat):
        pass
    for each in shown:
        print(repr(each.content), each.metadata.get("title"), len(each.options))

for message in ("Which files are there?", "Delete the plan.", "Approve"):
    asyncio.run(send(message))
"""
SENT = r"""
'{"folder": "."}\n\n["notes.txt","plan.txt"]' list_files 0
'There are two.' None 0
'May I call delete_file({"path": "plan.txt"})?' None 2
'{"path": "plan.txt"}\n\nplan.txt is deleted' delete_file 0
'It is gone.' None 0
"""


@pytest.mark.parametrize("program", ["gradio"], indirect=True)
def test_program_for_gradio(program: str) -> None:
    """The chat for Gradio shows calls and buttons, and continues after the decision."""
    code = program.replace("__main__", "launched") + SEND
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)

    assert SENT.strip() == ran.stdout.strip()


# What people type into a search field.
SEARCHED = """
    streaming; structured output; Ollama; vLLM; LM Studio; Azure; Anthropic; Gemini; chat history; database
    connection; rate limit; cost; tokens; FastAPI; Gradio; Streamlit; async; debugging; logging; testing; images; PDF;
    pandas; NumPy; MCP; OpenAPI; approve; approval; human in the loop; retry; retries; timeout; cancel; parallel;
    crash recovery; resume; notebook; shell; command line; sub-agents; handoff; memory; RAG; embeddings; long
    conversations; context window; guardrails; middleware; hooks; OpenTelemetry; security; JSON Schema;
    docstrings; strict mode; fallback; proxies; migrating; compared; examples; pytest; dry run; code mode; web
    search; ledger; errors; limits; system prompt; pydantic model; enum; optional arguments; dependency injection;
    persist a chat; max iterations; parallel tool calls; cache; Responses API; tracing;
    tool choice; dynamic system prompt; output validator; dynamic tools; workflows; judge;
    temperature; environment variables; token usage; multi-agent; error handling; mock
"""


def test_headings_have_the_words_that_are_searched() -> None:
    """Each word that a newcomer searches for is in a heading of some page."""
    pages = (ROOT / "docs").glob("*.md")
    headings = "\n".join(found for page in pages for found in re.findall(r"^#+ (.+)$", read_prose(page), re.MULTILINE))

    assert [] == [word for word in SEARCHED.split(";") if " ".join(word.split()).lower() not in headings.lower()]


def test_anchors_lead_somewhere() -> None:
    """Every link to a heading, of its own page or of another one, finds it."""
    for page in PAGES:
        links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", read_prose(page))

        assert [] == [(path, at) for path, at in links if at not in anchors(page.parent / path if path else page)], page


def test_links_lead_somewhere() -> None:
    """Every link to a file of the project finds it."""
    links = [
        page.parent / link for page in PAGES for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", read_prose(page))
    ]

    assert [] == [link for link in links if not link.exists()]


def test_code_in_tables_has_no_pipe() -> None:
    """A pipe in the code of a table ends the cell in some viewers, and keeps its backslash in others."""
    rows = [line for page in PAGES for line in read_prose(page).splitlines() if line.startswith("|")]

    assert [] == [code for row in rows for code in row.split("`")[1::2] if "|" in code]


def test_tests_that_are_named() -> None:
    """Every test that a page names exists."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = re.findall(r"`(tests/[\w/]+\.py)::(?:\w+::)?(\w+)`", text)

    assert [] == [(path, name) for path, name in named if f"def {name}(" not in (ROOT / path).read_text("utf-8")]


def test_comparison_names_its_tests() -> None:
    """Each row of the comparison that says what this library does names a test."""
    rows = re.findall(
        r"^\| Here \| Others \|.*?(?=\n\n)", COMPARISON.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    claims = [row.split(" | ")[2] for table in rows for row in table.splitlines()[2:]]

    assert [] == [claim for claim in claims if "`tests/" not in claim]
    assert len(claims) > 15


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
        pytest.param(
            path, id=path.stem, marks=[pytest.mark.real_model, pytest.mark.slow] if path.stem in ANNOUNCED else []
        )
        for path in EXAMPLES
    ],
)
def test_examples_run(example: Path) -> None:
    """An example runs as it is, without a key; standard error has nothing but which model answers."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "TOOLKIT_"))}
    open_files = "ignore:unclosed database:ResourceWarning"  # a store's file stays open until the end of the process
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-W", open_files, str(example)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert (0, ANNOUNCED.get(example.stem, "")) == (ran.returncode, ran.stderr)
    shown, printed = Counter(gallery.read_outputs()[example.stem]), Counter(gallery.normalize(ran.stdout))
    is_cut = shown.pop("...", 0)  # calls of one turn print in any order
    if sys.version_info >= (3, 11):  # before, unittest names tests in another way
        assert (Counter(), is_cut > 0) == (shown - printed, shown != printed)


def test_gallery_is_complete() -> None:
    """The page of examples has each example, with its sentence and its source: `python -m tests.gallery` writes it."""
    outputs = gallery.read_outputs()

    assert {example.stem for example in EXAMPLES} == gallery.TITLES.keys() == outputs.keys()
    made = [gallery.HEAD, *(gallery.render_example(name, outputs[name]) for name in gallery.TITLES)]
    assert "\n".join(made) == gallery.PAGE.read_text(encoding="utf-8")


@pytest.mark.real_model
def test_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The first program of README.md prints what it says, and the lines after it do what they say."""
    (program, printed), (lines, _) = blocks_with_output(ROOT / "README.md")[:2]
    space: dict[str, object] = {"__name__": "__main__"}
    exec(program, space)
    assert printed == capsys.readouterr().out

    parameters, result, refusal = (eval(line.partition("#")[0], space) for line in lines.strip().splitlines())
    assert ["city"] == parameters["required"]
    assert "21 degrees celsius in Jakarta" == result
    assert refusal.startswith("Invalid arguments: ")
