"""The public names: what there is, where it lives, and what loading it costs."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

import pytest

import toolkit
import toolkit.builtin
import toolkit.middleware
import toolkit.stores
import toolkit.testing
from toolkit._lazy import OTHER_NAMES

ALL: list[str] = vars(toolkit)["__all__"]
PACKAGES = [toolkit, toolkit.builtin, toolkit.middleware, toolkit.stores, toolkit.testing]
HEAVY = [
    "openai",
    "pydantic",
    "pydantic_core",
    "docstring_parser",
    "xllamacpp",
    "asyncio",
    "httpx",
    "httpx2",
    "toolkit._schema.validation",
]

each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)


def declared(package: ModuleType) -> dict[str, str]:
    """Read the names that a package's block for type checkers declares, with their homes."""
    tree = ast.parse(Path(str(package.__file__)).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {
        str(alias.asname): str(node.module) for node in imports for alias in node.names if alias.asname == alias.name
    }


def loaded_by(statement: str) -> set[str]:
    """Run a statement in a process of its own, and tell which heavy modules it has loaded."""
    code = f"import sys\n{statement}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    return set(done.stdout.split())


# Every public name, by the module that users import it from. A change of the public surface is a change of this table.
PUBLIC: dict[str, str] = {
    "toolkit": """
        ApprovalError ApprovalRequest AsyncRunStream BusyError Cancelled Decision DefinitionError Denied Deny
        DuplicateToolError Effect Failed FallbackModel FatalError File Fingerprint FinishReason
        Halt Image InvalidArguments Ledger
        LedgerEntry LimitError Limits MemoryLedger ModelError NoModelError NotFound OpenAIModel PendingApproval Prices
        RateLimitedModel ResponsesModel RunError RunHandle RunResult RunState RunStream Runner SQLiteLedger SQLiteRuns
        SQLiteSession Session SharedValues TimedOut Tool ToolCall ToolContext ToolError
        ToolResult ToolNotFoundError Toolbox ToolkitError Undo Usage batched repair_history tool
    """,
    "toolkit.adapters": """
        from_anthropic from_langchain from_openai_agents from_pydantic_ai from_smolagents
        to_anthropic to_langchain to_openai_agents to_pydantic_ai to_smolagents
    """,
    "toolkit.approvers": "ApprovalQueue Approver Console Notebook after_foreign allow approve_all ask_when defer",
    "toolkit.builtin": """
        Action Brave CodingLimits CommandLimits DEFAULT_GUARDED DEFAULT_HIDDEN DEFAULT_PRIVATE Firing
        FiringOutcome Memories Page Question Result Root SQLiteSchedule Sandbox Scheduler Serper
        SharedState Todos WebOptions ask_user_tool bash_tool code_tool coding_tools current_time
        data_tools default_tools fetch file_tools http_tool ingest_file ingest_message
        ingest_text ingest_url knowledge_tools memory_tool next_run plan_tool planned_only provider_tool random_tool
        schedule_tools search_tool shared_state_tool shell_tool todo_tool weather_tool web_search_tool
        wikipedia_tool
    """,
    "toolkit.builtin.samples": "calculator echo reverser word_count",
    "toolkit.calls": "calls_schema parse_calls",
    "toolkit.cli": "main",
    "toolkit.display": "Form InvalidForm Story Transcript ashow show",
    "toolkit.durable": """
        DevServer DurableRun DurableRunner PostgresLedger RunStatus Worker
    """,
    "toolkit.errors": """
        ApprovalError BusyError Cancelled ConversationError DefinitionError Denied DuplicateToolError Failed
        FatalError FingerprintError Halt InvalidArguments LimitError ModelError NoModelError NotFound RunEndedError
        RunError RunExistsError RunNotFoundError RunUnreachableError StoreError TimedOut ToolError ToolNotFoundError
        ToolkitError UnknownActivity UnknownTool
    """,
    "toolkit.events": """
        ApprovalNeeded CallEvent Event LimitReached MessageAdded OutputDelta ReasoningDelta ResultsAdded
        RunFinished RunStarted SubAgentEvent TextDelta ToolArgumentsDelta ToolCallAbandoned ToolCallFinished
        ToolCallRetried ToolCallStarted ToolCallUpdated TurnFinished TurnStarted event_to_dict
    """,
    "toolkit.middleware": "Compaction Middleware Next PerRun Telemetry audit cache estimate_tokens redact repeat_guard",
    "toolkit.models": "CallReady Message Model ModelRequest ModelResponse Piece SystemMessage ToolMessage UserMessage",
    "toolkit.models.local": "EmbeddedModel embedded_model",
    "toolkit.schema": "FromJson array boolean enum integer number object string",
    "toolkit.serve": "a2a agui mcp vercel",
    "toolkit.serve.a2a": "make_app serve",
    "toolkit.serve.agui": "encode_events parse_decisions",
    "toolkit.serve.vercel": "HEADERS encode_events encode_sse parse_decisions parse_prompt",
    "toolkit.serve.mcp": "make_server prompt resource serve",
    "toolkit.sources": "a2a mcp openapi retrievers search",
    "toolkit.sources.a2a": "A2A",
    "toolkit.sources.mcp": "MCP",
    "toolkit.sources.openapi": "openapi_tools",
    "toolkit.sources.retrievers": "Prefetch retriever_tool",
    "toolkit.sources.search": "ToolSearch",
    "toolkit.stores": """
        Chunk Document Embed Hit KnowledgeStore LocalEmbeddings OpenAIEmbeddings SQLiteKnowledge StoreError
    """,
    "toolkit.testing": """
        Cassette FakeServer ModelReply Reply Request ScriptError ScriptedModel assert_calls call dry_run reply
    """,
}


def test_public_modules() -> None:
    """The table has every module of the package without an underscore, and within these every one with `__all__`."""
    modules = {f"toolkit.{module.name}" for module in pkgutil.iter_modules(toolkit.__path__) if module.name[0] != "_"}
    files = Path(toolkit.__path__[0]).rglob("*.py")
    nested = {
        ".".join(["toolkit", *place.with_suffix("").parts]).removesuffix(".__init__")
        for place in (file.relative_to(toolkit.__path__[0]) for file in files if "__all__" in file.read_text("utf-8"))
        if not any(part.startswith("_") and part != "__init__.py" for part in place.parts)
    }

    assert modules | nested == PUBLIC.keys()


def test_public_names() -> None:
    """A public module has `__all__`, and in it the names of the table."""
    found = {name: sorted(vars(importlib.import_module(name))["__all__"]) for name in PUBLIC}

    assert {name: sorted(names.split()) for name, names in PUBLIC.items()} == found


def test_public_names_are_documented() -> None:
    """Every public name can be imported, and has a docstring, if it is not an alias of types."""
    for name, names in PUBLIC.items():
        for public in names.split():
            scope: dict[str, Any] = {}
            exec(f"from {name} import {public} as value", scope)  # noqa: S102

            assert get_origin(scope["value"]) or scope["value"].__doc__, public


@each_package
def test_tables_agree(package: ModuleType) -> None:
    """The block for type checkers and the table of lazy names say the same."""
    homes: dict[str, tuple[str, ...]] = package._HOMES

    assert declared(package) == {name: home for home, names in homes.items() for name in names}


@each_package
def test_all(package: ModuleType) -> None:
    """`__all__` is what is declared, in order and without repetition."""
    assert sorted(declared(package)) == vars(package)["__all__"]


@each_package
def test_importable(package: ModuleType) -> None:
    """Every public name is the one of its home."""
    homes = {name: importlib.import_module(home) for name, home in declared(package).items()}

    assert [] == [name for name, home in homes.items() if getattr(home, name) is not getattr(package, name)]


@each_package
def test_home(package: ModuleType) -> None:
    """No public name is that of a module, which would take its place once it is loaded."""
    names = vars(package)["__all__"]

    assert [] == [name for name in names if importlib.util.find_spec(f"{package.__name__}.{name}")]


@each_package
def test_star(package: ModuleType) -> None:
    """A star brings the public names and nothing else."""
    scope: dict[str, Any] = {}
    exec(f"from {package.__name__} import *", scope)  # noqa: S102

    assert set(vars(package)["__all__"]) == scope.keys() - {"__builtins__"}


@pytest.mark.parametrize(
    ("package", "name", "home"),
    [
        ("toolkit", "Console", "toolkit.approvers"),
        ("toolkit", "ScriptedModel", "toolkit.testing"),
        ("toolkit", "MCP", "toolkit.sources.mcp"),
        ("toolkit.sources", "MCP", "toolkit.sources.mcp"),
        ("toolkit.testing", "Runner", "toolkit"),
        ("toolkit.models", "OpenAIModel", "toolkit"),
        ("toolkit.events", "RunResult", "toolkit"),
        ("toolkit.errors", "Console", "toolkit.approvers"),
    ],
)
def test_name_of_another_module(package: str, name: str, home: str) -> None:
    """Where a public name is imported from another module than its own, the error says which one has it."""
    with pytest.raises(ImportError, match=f"{name} is in {home}: write from {home} import {name}."):
        exec(f"from {package} import {name}")  # noqa: S102


def test_name_of_another_library() -> None:
    """Where a name of another library is imported, the error says what to import here."""
    for name, ours in OTHER_NAMES.items():
        with pytest.raises(
            ImportError, match=rf"^{name} is called {ours} here: write from (\S+) import {ours}\.$"
        ) as found:
            exec(f"from toolkit import {name}")  # noqa: S102

        exec(str(found.value).partition("write ")[2].rstrip("."))  # noqa: S102
    with pytest.raises(ImportError, match="ModelRetry is called ToolError here"):
        exec("from toolkit.errors import ModelRetry")  # noqa: S102


def test_unknown_name() -> None:
    """A name that no module has is an ordinary AttributeError, as is that of a module which is not loaded."""
    assert not hasattr(toolkit, "Toolbx")
    assert not hasattr(toolkit, "compile")
    exec("from toolkit import serve")  # noqa: S102  which has a function of this name, too


def test_dir() -> None:
    """Completion offers the public names before they are loaded."""
    assert set(ALL) <= set(dir(toolkit))


def test_unknown() -> None:
    """A name that is not there is an ordinary error."""
    with pytest.raises(AttributeError, match="module 'toolkit' has no attribute 'Tolbox'"):
        exec("toolkit.Tolbox", {"toolkit": toolkit})  # noqa: S102
    with pytest.raises(ImportError, match="cannot import name 'Tolbox'"):
        exec("from toolkit import Tolbox")  # noqa: S102


def test_import_that_fails() -> None:
    """If a file of the user hides a module, the message about a public name has the reason."""
    code = "import sys, types\nsys.modules['json'] = types.ModuleType('json')\nfrom toolkit import Toolbox"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603

    assert "ImportError: Toolbox cannot be imported: module 'json' has no attribute" in done.stderr


TWO_THREADS = """
import sys
from importlib.abc import MetaPathFinder
from threading import Event, Thread
from toolkit import builtin

class Wait(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "toolkit.builtin.files" and not is_found.is_set():
            is_found.set()
            other.join(0.5)  # until it waits for this package, too

def load_part():
    is_found.wait()
    builtin.DEFAULT_PRIVATE

is_found, other = Event(), Thread(target=load_part)
sys.meta_path.insert(0, Wait())
other.start()
builtin.file_tools
other.join()
"""


def test_first_use_on_two_threads() -> None:
    """Names of a package and of its part may be used first on two threads at the same time."""
    done = subprocess.run([sys.executable, "-c", TWO_THREADS], capture_output=True, text=True, check=False)  # noqa: S603

    assert ("", 0) == (done.stderr, done.returncode)


DECORATED = "from toolkit import tool\n@tool\ndef f(a: int): return a"
LOADED = {
    "decorated": (DECORATED, {*HEAVY}),
    "invoked": (
        DECORATED + """\nf.invoke('{"a": 1}')""",
        {"openai", "pydantic", "docstring_parser", "xllamacpp", "toolkit._schema.validation"},
    ),
    "toolbox": (
        "from toolkit import Toolbox",
        {"openai", "pydantic", "docstring_parser", "xllamacpp", "toolkit._schema.validation"},
    ),
    "runner": (
        "from toolkit import Runner",
        {"pydantic", "docstring_parser", "xllamacpp", "toolkit._schema.validation"},
    ),
    "schema": (
        "from toolkit import tool\ntool(lambda a: a).parameters",
        {"openai", "xllamacpp", "toolkit._schema.validation"},
    ),
}


@pytest.mark.parametrize(("statement", "absent"), LOADED.values(), ids=LOADED)
def test_loads_little(statement: str, absent: set[str]) -> None:
    """A name loads what it needs, and no client of a model."""
    assert set() == loaded_by(statement) & absent


THREADS = """
import sys
from threading import Barrier, Thread

def add(a: int, b: int = 1) -> int:
    "Add two numbers."
    return a + b

def use(number):
    ready.wait()
    from toolkit import Toolbox, tool
    own = tool(add, name=f"own_{number}")
    properties = [*Toolbox([own]).schemas("chat")[0]["function"]["parameters"]["properties"]]
    seen.append((properties, own.invoke('{"a": 2}').text, own.invoke('{"a": "x"}').kind))

sys.setswitchinterval(1e-6)
ready, seen = Barrier(16), []
threads = [Thread(target=use, args=(number,)) for number in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert seen == [(["a", "b"], "3", "invalid_arguments")] * 16, seen
"""


def test_threads_load_at_once() -> None:
    """Names and parts are loaded when they are first used, by any number of threads at the same time."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False)  # noqa: S603

    assert (0, "") == (done.returncode, done.stderr)


def test_import_changes_nothing() -> None:
    """Importing leaves no thread, no log handler and no warning filter behind."""
    state = "threading.active_count(), len(logging.root.handlers), len(warnings.filters)"
    code = f"import logging, threading, warnings\nb = {state}\nfrom toolkit import *\nassert b == ({state}), b"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603

    assert (0, "") == (done.returncode, done.stderr)


MISSING = """
import sys
sys.modules |= dict.fromkeys(["temporalio", "psycopg", "opentelemetry", "a2a", "mcp"])
import toolkit
toolkit.Runner
for home, name in {wanted!r}:
    try:
        exec(f"from toolkit.{{home}} import {{name}}")
    except ImportError as error:
        print(error)
"""
EXTRAS = {
    ("durable", "Worker"): "temporal",
    ("durable", "DurableRunner"): "temporal",
    ("durable", "PostgresLedger"): "postgres",
    ("middleware", "Telemetry"): "otel",
    ("sources.a2a", "A2A"): "a2a",
    ("sources.mcp", "MCP"): "mcp",
}


def test_missing_extras() -> None:
    """A name whose package is not installed says which extra to install; `toolkit` itself needs none."""
    code = MISSING.format(wanted=[*EXTRAS])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603

    needed = [f'{name} needs an extra: pip install "function-toolkit[{extra}]".' for (_, name), extra in EXTRAS.items()]
    assert needed == done.stdout.splitlines()
