"""Options of tools, toolboxes, runners and limits: their signatures, their descriptions, and misspelt ones."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from toolkit import DefinitionError, Limits, Runner, Tool, Toolbox, tool
from toolkit._runner.options import RunnerOptions
from toolkit._tools.options import ToolOptions, ToolSettings
from toolkit.testing import ScriptedModel

DOCS = Path(__file__).parent.parent.parent / "docs"
TOOL = ("name", "title", "description", *ToolOptions.__annotations__)
RUNNER = ("toolbox", "model", "instructions", "max_turns", *RunnerOptions.__annotations__)


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


def test_signatures_that_check_names() -> None:
    """What refuses misspelt names shows the signature that it checks."""
    assert [field.name for field in fields(Limits)] == keywords(Limits)
    assert ["tools", "strict", "references"] == keywords(Toolbox)


@pytest.mark.parametrize("setting", fields(ToolSettings), ids=lambda field: field.name)
def test_every_setting_is_an_option(setting: Any) -> None:
    """A field of ToolSettings is an option of `@tool` with the same type and the same default."""
    parameter = inspect.signature(tool).parameters[setting.name]

    assert MISSING is not setting.default
    assert (setting.type, setting.default) == (parameter.annotation, parameter.default)


def test_defaults_of_a_tool() -> None:
    """Defaults that are written out make the tool that is made without them."""
    one, other = tool(echo), tool(**defaults(tool, TOOL))(echo)

    assert (one.settings, one._spec) == (other.settings, other._spec)


def test_defaults_of_a_runner() -> None:
    """Defaults that are written out make a runner that works as one without them."""
    options = {**defaults(Runner, RUNNER), "model": ScriptedModel(["Hi."])}

    assert "Hi." == Runner(**options).run("x").output


# -- descriptions


@pytest.mark.parametrize(
    ("documented", "name"),
    [*((tool, name) for name in TOOL), *((Runner, name) for name in RUNNER)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_option_is_described(documented: Any, name: str) -> None:
    """An option is described in the docstring of `tool` or Runner, which `help` shows with its name."""
    assert re.search(rf"^ +{name}: \S", str(documented.__doc__), re.MULTILINE)
    assert re.search(rf"\b{name}\b", pydoc.plain(pydoc.render_doc(documented)))


@pytest.mark.parametrize(
    ("page", "name"),
    [*(("functions.md", name) for name in TOOL), *(("running.md", name) for name in RUNNER[1:])],
)
def test_option_is_listed(page: str, name: str) -> None:
    """An option is listed in the documentation."""
    rows = [line for line in (DOCS / page).read_text(encoding="utf-8").splitlines() if line.startswith("| ")]

    assert any(f"`{name}`" in row for row in rows)


# -- misspelt options

MISSPELT: dict[str, tuple[Callable[..., Any], str, str]] = {
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
    message = f"^There is no option '{wrong}'. Did you mean '{right}'\\?$"
    with pytest.raises((TypeError, DefinitionError), match=message):
        make(**{wrong: 1})


FOREIGN = {
    "system": r"Write instructions=\.\.\.$",
    "system_prompt": r"Write instructions=\.\.\.$",
    "temperature": r"request_options=\{'temperature': \.\.\.\}\.$",
    "max_tokens": r"request_options=\{'max_tokens': \.\.\.\}\.$",
    "top_p": r"request_options=\{'top_p': \.\.\.\}\.$",
    "output_type": r"runner\.run\(\.\.\., output_type=\.\.\.\)\.$",
    "tools": r"Tools are the first argument: Runner\(\[\.\.\.\]\)\.$",
    "max_iterations": r"Write max_turns=\.\.\., or limits=Limits\(\.\.\.\)\.$",
    "max_steps": r"Write max_turns=\.\.\., or limits=Limits\(\.\.\.\)\.$",
    "verbose": r"runner\.stream\(prompt\) gives the events of a run\.$",
}


@pytest.mark.parametrize(("name", "hint"), FOREIGN.items(), ids=FOREIGN)
def test_options_of_other_libraries(name: str, hint: str) -> None:
    """An option that other libraries have is refused with the way to write it here."""
    with pytest.raises(TypeError, match=f"^There is no option '{name}'. .*{hint}"):
        Runner(**{name: 1})  # type: ignore[arg-type]
