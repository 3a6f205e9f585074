"""Options of tools, toolboxes, runners and limits: their signatures, their descriptions, and misspelt ones."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import TypedDict

from toolkit import Decision, DefinitionError, Limits, OpenAIModel, Prices, Runner, Tool, Toolbox, tool
from toolkit._runner.options import RunnerOptions, RunOptions, RunRequest
from toolkit._tools.options import ToolOptions, ToolSettings
from toolkit.approvers import Console, allow, ask_when
from toolkit.builtin import bash_tool, file_tools, http_tool
from toolkit.middleware import redact
from toolkit.sources.a2a import A2A
from toolkit.sources.mcp import MCP
from toolkit.sources.openapi import openapi_tools
from toolkit.testing import ScriptedModel

DOCS = Path(__file__).parent.parent.parent / "docs"
TOOL = ("name", "title", "description", *ToolOptions.__annotations__)
RUN = ("prompt", "output_type", *RunOptions.__annotations__)
RUNNER = ("toolbox", "model", "instructions", *RunnerOptions.__annotations__)


def echo(text: str) -> str:
    """Repeat a text."""
    return text


def keywords(function: Callable[..., Any]) -> list[str]:
    """List the names that a signature shows, `**options` with its stars."""
    return [str(each).partition(":")[0] for each in inspect.signature(function).parameters.values()]


def defaults(function: Callable[..., Any], names: Any) -> dict[str, Any]:
    """Read the defaults of some parameters from a signature."""
    return {name: inspect.signature(function).parameters[name].default for name in names}


# -- signatures


def test_signature_of_the_decorator() -> None:
    """Every option of `@tool` is a keyword of its signature, which notebooks complete from."""
    assert ["function", *TOOL] == keywords(tool)


@pytest.mark.parametrize(
    ("declare", "own"),
    [(Tool.from_schema, ["name", "schema", "function"]), (Tool.from_models, ["name", "accepts", "gives", "function"])],
    ids=["schema", "models"],
)
def test_signature_of_declarations(declare: Callable[..., Any], own: list[str]) -> None:
    """A declared tool has the same options."""
    assert [*own, *TOOL[1:]] == keywords(declare)


def test_signature_of_the_runner() -> None:
    """Every option of a Runner is a keyword of its signature, on the class as on its constructor."""
    assert list(RUNNER) == keywords(Runner)
    assert ["self", *RUNNER] == keywords(Runner.__init__)


@pytest.mark.parametrize("method", [Runner.run, Runner.arun, Runner.stream, Runner.astream, Runner.start])
def test_signature_of_a_run(method: Callable[..., Any]) -> None:
    """Every option of a run is a keyword of each method that starts one, with the default that it has."""
    request = RunRequest(prompt=None, output_type=str)

    assert ["self", *RUN] == keywords(method)
    assert {name: getattr(request, name) for name in RUN} == defaults(method, RUN)


@pytest.mark.parametrize("method", [Runner.map, Runner.amap])
def test_signature_of_many_runs(method: Callable[..., Any]) -> None:
    """Many prompts take the options of one, but for the session, which is for one run at a time."""
    assert {"session"} == {*RunOptions.__annotations__} - {*keywords(method)}


def test_signatures_that_check_names() -> None:
    """What refuses misspelt names shows the signature that it checks."""
    assert [field.name for field in fields(Limits)] == keywords(Limits)
    assert ["tools", "strict", "references", "check_output", "defaults"] == keywords(Toolbox)


def test_every_setting_is_an_option() -> None:
    """A field of ToolSettings is an option of `@tool` with the same type and the same default."""
    settings = {setting.name: (setting.type, setting.default) for setting in fields(ToolSettings)}
    parameters = inspect.signature(tool).parameters

    assert MISSING not in [default for _, default in settings.values()]
    assert settings == {name: (parameters[name].annotation, parameters[name].default) for name in settings}


def test_every_option_has_a_field() -> None:
    """An option is a field of ToolSettings or of Tool, but for those that others are made of."""
    names = {field.name for kind in (ToolSettings, Tool) for field in fields(kind)}

    assert set() == {*ToolOptions.__annotations__} - {"latent", "reasoning", "module", "imports"} - names


def test_every_option_is_checked() -> None:
    """A value that is right for no option is refused by each, in a message that names the option."""
    for name in ToolOptions.__annotations__:
        with pytest.raises(DefinitionError, match=rf"^echo: _?{name}\b.*<object object"):
            tool(echo, **{name: object()})  # type: ignore[call-overload]


def test_defaults_of_a_tool() -> None:
    """Defaults that are written out make the tool that is made without them."""
    one, other = tool(echo), tool(**defaults(tool, TOOL))(echo)

    assert (one.settings, one._spec) == (other.settings, other._spec)


def test_defaults_of_a_runner() -> None:
    """Defaults that are written out make a runner that works as one without them."""
    options = {**defaults(Runner, RUNNER), "model": ScriptedModel(["Hi."])}

    assert "Hi." == Runner(**options).run("x").output


# -- descriptions


@pytest.mark.parametrize(("documented", "names"), [(tool, TOOL), (Runner, RUNNER), (Runner.run, RUN)])
def test_options_are_described(documented: Any, names: tuple[str, ...]) -> None:
    """An option is described in the docstring of `tool`, Runner or `run`, which `help` shows with its name."""
    text, shown = str(documented.__doc__), pydoc.plain(pydoc.render_doc(documented))

    assert [] == [name for name in names if not re.search(rf"^ +{name}: \S", text, re.MULTILINE)]
    assert [] == [name for name in names if not re.search(rf"\b{name}\b", shown)]


@pytest.mark.parametrize(("page", "names"), [("functions.md", TOOL), ("running.md", RUNNER[1:])])
def test_options_are_listed(page: str, names: tuple[str, ...]) -> None:
    """An option is listed in the documentation."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    rows = "\n".join(line for line in lines if line.startswith("| "))

    assert [] == [name for name in names if f"`{name}`" not in rows]


# -- misspelt options

RUNNING = Runner([echo], model=ScriptedModel([]))
BOX = Toolbox([echo])


def awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that awaits another one."""
    return lambda *given, **options: asyncio.run(function(*given, **options))


MISSPELT: dict[str, tuple[Callable[..., Any], str, str]] = {
    "run": (RUNNING.run, "mesages", "messages"),
    "arun": (awaited(RUNNING.arun), "output_typ", "output_type"),
    "stream": (RUNNING.stream, "dep", "deps"),
    "astream": (RUNNING.astream, "dep", "deps"),
    "start": (RUNNING.start, "shard", "shared"),
    "resume": (RUNNING.resume, "decision", "decisions"),
    "aresume": (awaited(RUNNING.aresume), "decision", "decisions"),
    "defaults": (lambda **o: Toolbox([], defaults=o), "timout", "timeout"),  # type: ignore[arg-type]
    "schemas": (BOX.schemas, "stict", "strict"),
    "call": (BOX.call, "args", "arguments"),
    "acall": (awaited(BOX.acall), "contex", "context"),
    "call_many": (BOX.call_many, "wiat", "wait"),
    "ask_when": (ask_when, "name", "names"),
    "allow": (allow, "otherwse", "otherwise"),
    "Console": (Console, "writ", "write"),
    "Decision": (Decision, "aproved", "approved"),
    "Prices": (Prices, "inputs", "input"),
    "bind": (BOX.bind, "functon", "function"),
    "model": (OpenAIModel, "optons", "options"),
    "redact": (redact, "patern", "patterns"),
    "file_tools": (file_tools, "hash", "hashes"),
    "bash_tool": (partial(bash_tool, "."), "timout", "timeout"),
    "fetch": (http_tool, "timeot", "timeout"),
    "openapi_tools": (partial(openapi_tools, {}), "base_ur", "base_url"),
    "tool": (tool, "timout", "timeout"),
    "from_schema": (lambda **o: Tool.from_schema("x", {"properties": {}}, **o), "retrys", "retries"),
    "from_models": (lambda **o: Tool.from_models("x", {"properties": {}}, **o), "aprove", "approve"),
    "Runner": (Runner, "instruction", "instructions"),
    "Limits": (Limits, "on_limits", "on_limit"),
    "Toolbox": (lambda **o: Toolbox([], **o), "stric", "strict"),
}


@pytest.mark.parametrize(("make", "wrong", "right"), MISSPELT.values(), ids=MISSPELT)
def test_misspelt(make: Callable[..., Any], wrong: str, right: str) -> None:
    """A misspelt option is refused by an error that names the nearest one."""
    message = rf"^\S+ has no option '{wrong}'\. Did you mean '{right}'\?$"
    with pytest.raises(TypeError, match=message):
        make(**{wrong: 1})


def test_unlike_any() -> None:
    """An option that is like none is refused with all of their names."""
    with pytest.raises(TypeError, match="^tool has no option 'colour'. The options are: name, title, desc"):
        tool(colour="x")  # type: ignore[call-overload]


def test_inherited_constructor() -> None:
    """The error about an option of a constructor that a class inherits names the class."""
    with pytest.raises(TypeError, match=r"^OpenAIModel has no option 'model'\. The model's name"):
        OpenAIModel(model="gpt-6-luna")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("function", [Runner.arun, Runner.aresume, Toolbox.acall, Toolbox.acall_many])
def test_coroutine_functions(function: Callable[..., Any]) -> None:
    """What refuses misspelt names stays a coroutine function."""
    assert inspect.iscoroutinefunction(function)


FOREIGN = {
    "system": r"Write Runner\(\.\.\., instructions=\.\.\.\)\.$",
    "system_prompt": r"Write Runner\(\.\.\., instructions=\.\.\.\)\.$",
    "temperature": r"Runner\(\.\.\., request_options=\{'temperature': \.\.\.\}\)\.$",
    "max_tokens": r"request_options=\{'max_tokens': \.\.\.\}\.$",
    "top_p": r"request_options=\{'top_p': \.\.\.\}\)\.$",
    "output_type": r"runner\.run\(\.\.\., output_type=\.\.\.\)\.$",
    "tools": r"Tools are the first argument: Runner\(\[\.\.\.\]\)\.$",
    "max_iterations": r"Write Runner\(\.\.\., max_turns=\.\.\.\), or limits=Limits\(\.\.\.\)\.$",
    "max_steps": r"Write Runner\(\.\.\., max_turns=\.\.\.\), or limits=Limits\(\.\.\.\)\.$",
    "verbose": r"runner\.stream\(prompt\) gives the events of a run\.$",
    "retries": r"@tool\(retries=\.\.\.\) repeats a call",
    "input_guardrails": r"Write Runner\(\.\.\., hooks=\[\.\.\.\]\): before_model checks the prompt",
    "mcp_servers": r"Runner\(\[MCP\(\.\.\.\)\]\)",
    "deps_type": r"ToolContext\[Deps\], and pass deps= to a run",
    "checkpointer": r"session=SQLiteSession\(",
}


@pytest.mark.parametrize(("name", "hint"), FOREIGN.items(), ids=FOREIGN)
def test_options_of_other_libraries(name: str, hint: str) -> None:
    """An option that other libraries have is refused with the way to write it here."""
    with pytest.raises(TypeError, match=f"^.* has no option '{name}'. .*{hint}"):
        Runner(**{name: 1})  # type: ignore[arg-type]


ELSEWHERE: dict[str, tuple[Callable[..., Any], str, str]] = {
    "near a foreign name": (Runner, "sytem", r"Write Runner\(\.\.\., instructions="),
    "not so near a foreign name": (BOX.schemas, "approve", "The options are: dialect, strict"),
    "near nothing": (tool, "retry", "Write retries="),
    "of the Runner": (RUNNING.run, "max_turns", r"It is an option of the Runner: Runner\(\.\.\., max_turns=\.\.\.\)"),
    "near one of the Runner": (RUNNING.stream, "max_turn", "It is an option of the Runner"),
    "of a request": (RUNNING.run, "temperature", r"request_options=\{'temperature'"),
    "history": (awaited(RUNNING.arun), "message_history", "Write messages="),
    "description": (tool, "desc", "Write description="),
    "name": (tool, "name_override", "Write name="),
    "approval": (tool, "needs_approval", "Write approve=True"),
    "schema": (tool, "args_schema", r"Tool\.from_schema\(\) takes one"),
    "strict": (tool, "strict_mode", "Write strict="),
    "dialect": (BOX.schemas, "format", "Write dialect="),
    "limit": (Limits, "request_limit", "Write max_turns="),
    "cost": (Limits, "max_budget", "Write max_cost="),
    "thread": (RUNNING.run, "config", "Write session="),
    "images": (RUNNING.run, "images", "They are parts of the prompt"),
    "calls of a tool": (tool, "max_calls", r"Limits\(max_calls_per_tool="),
    "tools of a server": (partial(MCP, "birds"), "tool_filter", r"Write allow=\[\.\.\.\]"),
    "other tools of a server": (partial(MCP, "birds"), "exclude", r"Write block=\[\.\.\.\]"),
    "command of a server": (partial(MCP, "birds"), "args", r"The command or the URL is the first argument: MCP\("),
    "server by keyword": (MCP, "params", r"The command or the URL is the first argument: MCP\("),
    "agent by keyword": (A2A, "endpoint", "The options are: url, "),
    "server of a model": (Runner, "api_base", r"Write base_url=\.\.\."),
    "model after a failure": (Runner, "fallbacks", r"model=FallbackModel\(\[\.\.\.\]\)"),
    "headers of requests": (Runner, "headers", "Set it on the client"),
    "effect by a flag": (tool, "readonly", "Write effect='read'"),
    "files to read": (partial(file_tools, "."), "read_only", r"filtered\(.* has the tools that only read\."),
    "schema by keyword": (partial(Tool.from_schema, "f", {}), "parameters", "The JSON Schema is the second argument"),
    "function of a schema": (partial(Tool.from_schema, "f", {}), "handler", "Write function="),
    "skills of an agent": (partial(A2A, "http://birds"), "allowed_tools", "The options are: url, "),
    "keys of a provider": (tool, "extras", r"add keys of a provider to box\.schemas\("),
    "model of the arguments": (tool, "model", r"Tool\.from_schema\(\) takes one"),
    "key of Responses": (Runner, "truncation", r"request_options=\{'truncation'"),
    "tools of a provider": (Runner, "native_tools", r"Runner\(\[provider_tool\(\.\.\.\)\], api='responses'\)"),
    "tokens of an outer run": (RUNNING.run, "usage", "Leave it out: a run inside a tool counts in the outer run"),
    "turns of a chain": (Limits, "chain_limit", "Write max_turns="),
    "limit of cost": (Runner, "max_cost", r"Limits has it: Runner\(\.\.\., limits=Limits\(\.\.\.\)\)"),
    "listener": (Runner, "on_event", "on_event of a hook gets them"),
    "parallel runs": (partial(RUNNING.map, []), "max_concurrency", "Write max_parallel="),
    "key of a server": (partial(MCP, "birds"), "token", "Write headers="),
    "operations": (partial(openapi_tools, {}), "operations", r"Write include=\[\.\.\.\]"),
    "key of a model's server": (partial(OpenAIModel, None), "api_key", r"Set it on the client: OpenAI\("),
    "limits of a run": (RUNNING.run, "usage_limits", r"Write Runner\(\.\.\., limits=Limits\("),
}


@pytest.mark.parametrize(("make", "name", "hint"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_options_that_belong_elsewhere(make: Callable[..., Any], name: str, hint: str) -> None:
    """An option of another function or library, misspelt too, is refused with the way to write it here."""
    with pytest.raises(TypeError, match=f"^.* has no option '{name}'. .*{hint}"):
        make(**{name: 1})


@pytest.mark.parametrize("given", ["echo", echo, 5], ids=["name", "function", "number"])
@pytest.mark.parametrize("make", [Runner, Toolbox])
def test_no_list_of_tools(make: Callable[..., Any], given: object) -> None:
    """What is not a list of tools is refused with the way to write one."""
    with pytest.raises(TypeError, match=r"not of .*: write Toolbox\(\[\.\.\.\]\) or Runner\(\[\.\.\.\]\), "):
        make(given)


@tool(approve=True, effect="write", exclusive=True, idempotent=False)
def delete(name: str) -> str:
    """Delete."""
    return f"deleted {name}"


class Nothing(TypedDict):
    pass


WAYS_OF_WRAPPING: dict[str, Callable[..., Tool[..., Any]]] = {
    "tool": lambda **options: tool(delete, **options),
    "decorator": lambda **options: tool(**options)(delete),
    "partial": lambda **options: tool(partial(delete, name="a"), **options),
    "schema": lambda **options: Tool.from_schema("other", {"type": "object"}, delete, **options),
    "types": lambda **options: Tool.from_models("other", Nothing, str, delete, **options),
}


@pytest.mark.parametrize("wrap", WAYS_OF_WRAPPING.values(), ids=WAYS_OF_WRAPPING)
@pytest.mark.parametrize(
    "options", [{"approve": False}, {"effect": "read"}, {"exclusive": False}, {"idempotent": True}], ids=str
)
def test_gates_cannot_be_loosened(wrap: Callable[..., Tool[..., Any]], options: Any) -> None:
    """A tool that is made of another one keeps its gates; options that would loosen them say so."""
    ((name, value),) = options.items()
    reason = rf"{name}={value!r} would loosen {name}=.* of the plain function: inspect\.unwrap\(\.\.\.\) returns it"
    with pytest.raises(DefinitionError, match=reason):
        wrap(**options)

    kept = wrap(effect="destructive").settings
    assert (True, "destructive", True, False) == (kept.approve, kept.effect, kept.exclusive, kept.idempotent)
    assert options[name] == getattr(tool(inspect.unwrap(delete), **options).settings, name)


@pytest.mark.parametrize("wrap", WAYS_OF_WRAPPING.values(), ids=WAYS_OF_WRAPPING)
def test_gates_are_added(wrap: Callable[..., Tool[..., Any]]) -> None:
    """A rule about approval does not replace the tool's own."""
    assert True is wrap(approve=lambda _: False).settings.approve


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_both_authorizers_are_asked(first: bool, second: bool) -> None:
    """A second authorizer is asked beside the tool's own."""
    inner = tool(inspect.unwrap(delete), authorize=lambda *_: first)
    made = tool(inner, authorize=lambda *_: second)

    assert "denied" == Toolbox([made]).call("delete", {"name": "a"}).kind


def test_decorated_tool_keeps_its_gates() -> None:
    """What wraps a tool, as a decorator for logging does, has its gates and its effect; also where it is bound."""

    @tool(approve=True, effect="destructive")
    def wipe(x: int) -> str:
        """Wipe."""
        return f"wiped {x}"

    @wraps(wipe)
    def logged(*args: Any, **options: Any) -> str:
        return wipe(*args, **options)

    box = Toolbox([Tool.from_schema("act", {"type": "object", "properties": {"x": {"type": "integer"}}})])
    box.bind("act", logged)
    made = Toolbox([partial(logged, x=1)])["wipe"]
    called = Toolbox(
        [Tool.from_schema("act", {"type": "object", "properties": {"x": {"type": "integer"}}}, wipe.__call__)]
    )

    assert [True, True] == [made.settings.approve, Toolbox([logged])["wipe"].settings.approve]
    assert "destructive" == made.settings.effect
    assert ["unavailable"] * 2 == [each.call("act", {"x": 1}).kind for each in (box, called)]
