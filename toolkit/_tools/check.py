"""Findings about the tools of a toolbox, for its developer: what a model or a provider may fail at."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from toolkit._dialects.base import Dialect
from toolkit._schema.error_messages import suggest
from toolkit._tools.bindings import Bindings
from toolkit._tools.delegation import Delegated
from toolkit._tools.functions import FunctionHandler
from toolkit._tools.handlers import BoundHandler, LatentHandler, UnboundHandler
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError, InvalidArguments

Level: TypeAlias = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")

# OpenAI refuses a request with more tools, or with a longer description of one: platform.openai.com, function calling.
MAX_TOOLS = 128
MAX_DESCRIPTION = 1024
# What a tool's own rules are called with.
RULES = {"authorize": ("tool", "arguments", "context"), "approve": ("request",), "retry_on": ("exception",)}
# A model reads all schemas with every request. This is about 1,000 tokens for one tool.
MAX_CHARACTERS = 4_000
CHARACTERS_PER_TOKEN = 4  # of English and of JSON, roughly
# Anthropic refuses a request in which a parameter has another name: docs.claude.com, tool use.
PARAMETER_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding; warnings and errors should be fixed.

    Attributes:
        level: `error`: the tool cannot be used. `warning`: a model or a provider may fail at it. `note`: good to know.
        tool: The tool's name; empty where the finding is about the toolbox.
        code: The kind of finding, such as `undocumented`.
        parameter: The parameter's name, where the finding is about one.
    """

    level: Level
    tool: str
    code: str
    text: str
    parameter: str = ""

    def __str__(self) -> str:
        place = ".".join(filter(None, (self.tool, self.parameter))) or "toolbox"
        return f"{self.level:<7}  {place}: {self.text} [{self.code}]"


class CheckReport(tuple[Finding, ...]):
    """Findings, errors first; printed one per line. Empty, and so false, where there are none."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "Nothing to report."

    __str__ = __repr__

    def at_least(self, level: Level) -> CheckReport:
        """Return the findings of a level and of those above it."""
        return CheckReport(finding for finding in self if LEVELS.index(finding.level) <= LEVELS.index(level))


def check_tools(tools: Iterable[Tool[..., Any]], dialect: Dialect, bindings: Bindings) -> CheckReport:
    """Check tools as a model and its provider will see them.

    Args:
        tools: The tools with the handlers that execute them now.
        dialect: The provider's.
        bindings: Those of the toolbox.
    """
    listed = list(tools)
    findings = [
        *_check_toolbox(listed),
        *_check_unused(listed, bindings),
        *_check_choices(listed, bindings),
        *(finding for tool in listed for finding in _check_tool(tool, dialect)),
    ]
    return CheckReport(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def _check_toolbox(tools: list[Tool[..., Any]]) -> Iterator[Finding]:
    if len(tools) > MAX_TOOLS:
        text = f"{len(tools)} tools: OpenAI takes {MAX_TOOLS} in one request. Offer fewer, with Toolbox.filtered()."
        yield Finding(level="warning", tool="", code="many-tools", text=text)
    first: dict[str, str] = {}
    for tool in tools:
        other = first.setdefault(re.sub(r"[_-]", "", tool.name).lower(), tool.name)
        if other != tool.name:
            text = f"its name is nearly that of {other!r}: models mix them up. Rename one of them."
            yield Finding(level="warning", tool=tool.name, code="near-name", text=text)


def _check_unused(tools: list[Tool[..., Any]], bindings: Bindings) -> Iterator[Finding]:
    """Find bound functions that execute no tool. The name may be a misspelt one of a latent tool."""
    import difflib  # nothing else here needs it

    latent = [tool.name for tool in tools if isinstance(tool.handler, LatentHandler)]
    used = {tool.handler.activity for tool in tools}
    is_open = any(map(callable, bindings.choices.values()))  # it may return another name at another time
    for name in (each for each, function in bindings.functions.items() if function and each not in used):
        near = difflib.get_close_matches(name, latent, n=1)
        text = f"{name!r} is bound, and executes no tool"
        if near:
            text = f"{text}; the model makes up what {near[0]!r} gives. Give it the tool's name."
            yield Finding(level="warning", tool=near[0], code="misnamed", text=text)
        elif not is_open:
            yield Finding(level="warning", tool="", code="idle", text=f"{text}. Choose it for a tool, or unbind it.")


def _check_choices(tools: list[Tool[..., Any]], bindings: Bindings) -> Iterator[Finding]:
    names = [tool.name for tool in tools]
    for name in (each for each in bindings.choices if each not in names):
        text = f"a function is chosen for {name!r}, and there is no such tool{suggest(name, names)}"
        yield Finding(level="warning", tool="", code="no-tool", text=text)


def _check_tool(tool: Tool[..., Any], dialect: Dialect) -> Iterator[Finding]:
    try:
        schema, rendered, form = tool.parameters, dialect.render_tool(tool._spec), dialect.form(tool._spec)
    except DefinitionError as error:
        yield Finding(level="error", tool=tool.name, code="undescribable", text=str(error))
        return
    yield from _check_description(tool)
    yield from _check_handler(tool)
    yield from _check_rules(tool)
    yield from _check_parameters(tool, schema)
    yield from _check_examples(tool, schema)
    yield from _check_size(tool, rendered)
    if tool.strict and not form.strict:
        why = next((note.text for note in form.notes), f"the dialect {dialect.name!r} has no strict form")
        yield Finding(level="warning", tool=tool.name, code="not-strict", text=f"strict is left out: {why}")


def _check_handler(tool: Tool[..., Any]) -> Iterator[Finding]:
    """Check the handler of a declared tool."""
    handler = tool.handler
    if isinstance(handler, (LatentHandler, Delegated)) and handler.returns.schema is None:
        text = "does not declare its output, so the model writes a text. Declare it by _output, or a return annotation."
        yield Finding(level="warning", tool=tool.name, code="no-output", text=text)
    if isinstance(handler, LatentHandler):
        text = (
            "no function executes it: the model fills in its output itself. Bind a function where that is not wanted."
        )
        yield Finding(level="note", tool=tool.name, code="latent", text=text)
    if isinstance(handler, Delegated) and handler.delegate is None:
        module = handler.scope.module
        text = (
            f"nothing answers for its module {module!r}, so every call fails. Add a runner: Toolbox.bindings.module()."
        )
        yield Finding(level="error", tool=tool.name, code="no-module", text=text)
    if isinstance(handler, UnboundHandler):
        text = f"nothing is bound as {handler.activity!r}, so every call fails. Bind it, or take the name away."
        yield Finding(level="error", tool=tool.name, code="unbound", text=text)
    if isinstance(handler, BoundHandler):
        yield from _check_bound(tool.name, handler)


def _check_rules(tool: Tool[..., Any]) -> Iterator[Finding]:
    """Check that the tool's own rules can take what they are asked with."""
    for option, taken in RULES.items():
        rule = getattr(tool.settings, option)
        if not callable(rule):
            continue
        try:
            inspect.signature(rule).bind(*taken)
        except ValueError:  # it has no signature
            continue
        except TypeError as error:
            text = f"{option}= cannot take ({', '.join(taken)}), so every call fails: {error}."
            yield Finding(level="error", tool=tool.name, code="unfit-rule", text=text)


def _check_bound(name: str, handler: BoundHandler) -> Iterator[Finding]:
    """Compare an interface with the function that is bound to it."""
    function = handler.function.origin
    for parameter in handler.unused:
        text = f"{function} does not take it, so calls that give it fail. Add it, or take **others."
        yield Finding(level="error", tool=name, parameter=parameter, code="mismatch", text=text)
    for parameter in handler.missing:
        text = f"{function} needs it, and the tool has no such parameter. Give it a default, or another name."
        yield Finding(level="error", tool=name, parameter=parameter, code="mismatch", text=text)
    for parameter in handler.uncertain:
        text = f"{function} needs it, and calls may leave it out. Give it a default, or make it required."
        yield Finding(level="error", tool=name, parameter=parameter, code="mismatch", text=text)
    try:
        _ = replace(handler.function.argument_schema, offered=handler.parameters).schema
    except DefinitionError as error:
        yield Finding(level="error", tool=name, code="undescribable", text=str(error))


def _check_description(tool: Tool[..., Any]) -> Iterator[Finding]:
    if not tool.description:
        text = f"has no description, so a model has to guess what it does. {_remedy(tool)}"
        yield Finding(level="warning", tool=tool.name, code="undocumented", text=text)
    if len(tool.description) > MAX_DESCRIPTION:
        text = f"its description has {len(tool.description)} characters; OpenAI takes {MAX_DESCRIPTION}. Shorten it."
        yield Finding(level="warning", tool=tool.name, code="long-description", text=text)


def _check_parameters(tool: Tool[..., Any], schema: Mapping[str, Any]) -> Iterator[Finding]:
    own = tool.handler.interface.argument_schema.schema["properties"].keys()
    for name in (each for each in schema["properties"] if each in own):
        for code, text in _check_parameter(name, schema["properties"][name], _remedy(tool)):
            yield Finding(level="warning", tool=tool.name, parameter=name, code=code, text=text)
    if isinstance(tool.handler, FunctionHandler):
        yield from _check_docstring(tool.name, tool.handler)


def _remedy(tool: Tool[..., Any]) -> str:
    return (
        "Add it to the docstring." if isinstance(tool.handler.interface, FunctionHandler) else "Add it to the schema."
    )


def _check_parameter(name: str, schema: Mapping[str, Any], remedy: str) -> Iterator[tuple[str, str]]:
    if "description" not in schema and "$ref" not in schema:
        yield "undocumented", f"has no description. {remedy}"
    if not PARAMETER_NAME.fullmatch(name):
        yield "name", "some providers take only letters, digits, '_', '.' and '-', 64 of them. Rename it."


def _check_docstring(name: str, handler: FunctionHandler) -> Iterator[Finding]:
    """Compare the docstring with the signature."""
    signature = handler.signature
    known = {p.name for p in signature.parameters}
    for unknown in (each for each in signature.docstring.parameters if each not in known):
        text = "the docstring describes it, and the function has no such parameter. Correct one of them."
        yield Finding(level="warning", tool=name, parameter=unknown, code="unknown-parameter", text=text)
    for hidden, why in signature.argument_schema.hidden.items():
        text = f"left out of what a model may fill, its default is used: {why}"
        yield Finding(level="warning", tool=name, parameter=hidden, code="left-out", text=text)
    for unannotated in signature.unannotated:
        text = "has no annotation, so any value is accepted. Annotate it."
        yield Finding(level="warning", tool=name, parameter=unannotated, code="unannotated", text=text)


def _check_examples(tool: Tool[..., Any], schema: Mapping[str, Any]) -> Iterator[Finding]:
    """Parse the arguments of the docstring's examples."""
    for example in schema.get("examples", ()):
        outcome = tool._invocation.parser.try_parse(example)
        if isinstance(outcome, InvalidArguments):
            text = f"the tool refuses the docstring's example {json.dumps(example, ensure_ascii=False)}: {outcome}"
            yield Finding(level="warning", tool=tool.name, code="wrong-example", text=text)


def _check_size(tool: Tool[..., Any], rendered: Mapping[str, Any]) -> Iterator[Finding]:
    size = len(json.dumps(rendered, ensure_ascii=False))
    if size > MAX_CHARACTERS:
        text = (
            f"{size:,} characters, about {size // CHARACTERS_PER_TOKEN:,} tokens of every request. Shorten its schema."
        )
        yield Finding(level="warning", tool=tool.name, code="large", text=text)
