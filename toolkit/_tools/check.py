"""Findings about the tools of a toolbox: problems that a model or a provider may have with them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from toolkit._dialects.base import Dialect
from toolkit._messages import CHARACTERS_PER_TOKEN
from toolkit._options import find_misfit
from toolkit._schema.error_messages import suggest
from toolkit._schema.json_schema import as_mapping, iterate_schemas
from toolkit._schema.signature import Signature
from toolkit._tools.bindings import Bindings
from toolkit._tools.delegation import Delegated
from toolkit._tools.functions import FunctionHandler
from toolkit._tools.handlers import BoundHandler, Handler, LatentHandler, UnboundHandler
from toolkit._tools.options import ToolSettings
from toolkit._tools.tool import Tool
from toolkit.errors import DefinitionError, InvalidArguments

Level: TypeAlias = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")

# OpenAI refuses a request with more tools, or with a longer description of one: platform.openai.com, function calling.
MAX_TOOLS = 128
MAX_DESCRIPTION = 1024
# The arguments of a tool's own rules.
RULES = {"authorize": ("tool", "arguments", "context"), "approve": ("request",), "retry_on": ("exception",)}
# A model reads all schemas with every request. This is about 1,000 tokens for one tool.
MAX_CHARACTERS = 4_000
# Words that stand for a tool: with an underscore, in quotes, before a parenthesis, or beside the word "tool".
_MENTION = re.compile(r"""[\w-]*_[\w-]*|(?<=[`'"])[\w-]+(?=[`'"])|[\w-]+(?=\(| tool\b)|(?<=\btool )[\w-]+""")
_NAME_THERE = re.compile(r"^the \w+ '(.+)' of the ")  # of an origin
# Anthropic refuses a request in which a parameter has another name: docs.claude.com, tool use.
PARAMETER_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding. Warnings and errors should be fixed.

    Attributes:
        level: `error`: the tool cannot be used. `warning`: a model or a provider may fail at it. `note`: good to know.
        tool: The tool's name; empty where the finding is about the toolbox.
        code: The kind of finding, such as `undocumented`.
        parameter: The parameter's name, where the finding is about one.
    """

    level: Level
    code: str
    text: str
    tool: str = ""
    parameter: str = ""

    def __str__(self) -> str:
        place = ".".join(filter(None, (self.tool, self.parameter))) or "toolbox"
        return f"{self.level:<7}  {place}: {self.text} [{self.code}]"


class CheckReport(tuple[Finding, ...]):
    """Findings, errors first, printed one per line. A report without findings is empty, and so false."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "Nothing to report."

    __str__ = __repr__

    def at_least(self, level: Level) -> CheckReport:
        """Return the findings of a level and of those above it."""
        return CheckReport(finding for finding in self if LEVELS.index(finding.level) <= LEVELS.index(level))


def check_tools(tools: Iterable[Tool[..., Any]], dialect: Dialect, bindings: Bindings) -> CheckReport:
    """Check tools, with the handlers that execute them now, as a model and its provider will see them."""
    listed = list(tools)
    findings = [
        *_check_toolbox(listed),
        *_check_mentions(listed),
        *_check_bindings(listed, bindings),
        *(replace(finding, tool=tool.name) for tool in listed for finding in _check_tool(tool, dialect)),
    ]
    return CheckReport(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def _check_toolbox(tools: list[Tool[..., Any]]) -> Iterator[Finding]:
    if len(tools) > MAX_TOOLS:
        text = f"{len(tools)} tools: OpenAI takes {MAX_TOOLS} in one request. Offer fewer, with Toolbox.filtered()."
        yield _warn("many-tools", text)
    first: dict[str, str] = {}
    for tool in tools:
        other = first.setdefault(re.sub(r"[_-]", "", tool.name).lower(), tool.name)
        if other != tool.name:
            text = f"its name is nearly that of {other!r}: models mix them up. Rename one of them."
            yield _warn("near-name", text, tool=tool.name)


def _check_mentions(tools: list[Tool[..., Any]]) -> Iterator[Finding]:
    """Find texts of other programs that name tools from elsewhere: a server may try to change how these are used."""
    named = defaultdict[str, list[str]](list)
    for tool in tools:
        for name in (tool.name, *_NAME_THERE.findall(tool.origin)):
            named[name.lower()].append(tool.origin)
    for tool in tools:
        source = tool.origin.partition(" of ")[2]
        if not source:
            continue
        texts = [tool.description, *(str(each.get("description", "")) for each in iterate_schemas(tool.parameters))]
        for name in dict.fromkeys(_MENTION.findall(" ".join(texts).lower())):
            if name in named and not any(origin.endswith(source) for origin in named[name]):
                text = f"its text names {name!r}, which is {named[name][0]}. Read it: it may change how that is used."
                yield _warn("mention", text, tool=tool.name)


def _check_bindings(tools: list[Tool[..., Any]], bindings: Bindings) -> Iterator[Finding]:
    """Find bound functions that execute no tool, perhaps since a name is misspelt, and choices for missing tools."""
    import difflib  # nothing else here needs it

    latent = [tool.name for tool in tools if isinstance(tool.handler, LatentHandler)]
    used = {tool.handler.activity for tool in tools}
    is_open = any(map(callable, bindings.choices.values()))  # a function may choose another name at another time
    unused = [name for name, function in bindings.functions.items() if function and name not in used]

    for name in unused:
        near = difflib.get_close_matches(name, latent, n=1)
        text = f"{name!r} is bound, and executes no tool"
        if near:
            text = f"{text}; the model makes up what {near[0]!r} gives. Give it the tool's name."
            yield _warn("misnamed", text, tool=near[0])
        elif not is_open:
            yield _warn("idle", f"{text}. Choose it for a tool, or unbind it.")

    names = [tool.name for tool in tools]
    for name in bindings.choices:
        if name not in names:
            hint = suggest(name, names)
            yield _warn("no-tool", f"a function is chosen for {name!r}, and there is no such tool{hint}")


def _check_tool(tool: Tool[..., Any], dialect: Dialect) -> Iterator[Finding]:
    """Check one tool. The findings have its name from `check_tools`."""
    try:
        schema = tool.parameters
        rendered = dialect.render_tool(tool._spec)
        form = dialect.form(tool._spec)
    except DefinitionError as error:
        yield _fail("undescribable", str(error))
        return

    if tool.name[0].isdigit():
        yield _warn("name", "Gemini and Moonshot take only names that begin with a letter. Use Toolbox.prefixed().")
    yield from _check_description(tool)
    yield from _check_handler(tool.handler)
    yield from _check_rules(tool.settings)
    yield from _check_parameters(tool, schema)
    yield from _check_examples(tool, schema)
    size = len(json.dumps(rendered, ensure_ascii=False))
    if size > MAX_CHARACTERS:
        tokens = f"about {size // CHARACTERS_PER_TOKEN:,} tokens of every request"
        yield _warn("large", f"{size:,} characters, {tokens}. Shorten its schema.")
    if tool.strict and not form.strict:
        why = next((note.text for note in form.notes), f"the dialect {dialect.name!r} has no strict form")
        yield _warn("not-strict", f"strict is left out: {why}")


def _check_handler(handler: Handler) -> Iterator[Finding]:
    """Check the handler of a declared tool."""
    if isinstance(handler, (LatentHandler, Delegated)) and handler.interface.returns.schema is None:
        remedy = "Declare it by _output, or a return annotation."
        yield _warn("no-output", f"does not declare its output, so the model writes text. {remedy}")
    if isinstance(handler, LatentHandler):
        text = (
            "no function executes it: the model fills in its output itself. Bind a function where that is not wanted."
        )
        yield Finding(level="note", code="latent", text=text)

    if isinstance(handler, Delegated) and handler.delegate is None:
        remedy = "so every call fails. Set one: Toolbox.bindings.module()."
        yield _fail("no-module", f"no runner is set for its module {handler.scope.module!r}, {remedy}")
    if isinstance(handler, UnboundHandler):
        remedy = "so every call fails. Bind one, or leave the activity out."
        yield _fail("unbound", f"no function is bound as {handler.activity!r}, {remedy}")
    if isinstance(handler, BoundHandler):
        yield from _check_bound(handler)


def _check_rules(settings: ToolSettings) -> Iterator[Finding]:
    """Check that the tool's own rules accept their arguments."""
    for option, taken in RULES.items():
        rule = getattr(settings, option)
        if callable(rule) and (error := find_misfit(rule, *taken)):
            yield _fail("unfit-rule", f"{option}= cannot take ({', '.join(taken)}), so every call fails: {error}.")


def _check_bound(handler: BoundHandler) -> Iterator[Finding]:
    """Compare an interface with the function that is bound to it."""
    function = handler.function.origin
    for parameter in handler.unused:
        text = f"{function} does not take it, so calls that give it fail. Add it, or take **others."
        yield _fail("mismatch", text, parameter)
    for parameter in handler.missing:
        text = f"{function} needs it, and the tool has no such parameter. Give it a default, or another name."
        yield _fail("mismatch", text, parameter)
    for parameter in handler.uncertain:
        text = f"{function} needs it, and calls may leave it out. Give it a default, or make it required."
        yield _fail("mismatch", text, parameter)
    try:
        _ = replace(handler.function.argument_schema, offered=handler.parameters).schema
    except DefinitionError as error:
        yield _fail("undescribable", str(error))


def _check_description(tool: Tool[..., Any]) -> Iterator[Finding]:
    if not tool.description:
        yield _warn("undocumented", f"has no description, so a model has to guess what it does. {_remedy(tool)}")
    if len(tool.description) > MAX_DESCRIPTION:
        text = f"its description has {len(tool.description)} characters; OpenAI takes {MAX_DESCRIPTION}. Shorten it."
        yield _warn("long-description", text)


def _check_parameters(tool: Tool[..., Any], schema: Mapping[str, Any]) -> Iterator[Finding]:
    own = tool.handler.interface.argument_schema.schema["properties"].keys()
    for name in (each for each in schema["properties"] if each in own):
        if as_mapping(schema["properties"][name]).keys().isdisjoint(("description", "$ref")):
            yield _warn("undocumented", f"has no description. {_remedy(tool)}", name)
        if not PARAMETER_NAME.fullmatch(name):
            text = "some providers take only letters, digits, '_', '.' and '-', 64 of them. Rename it."
            yield _warn("name", text, name)
    if isinstance(tool.handler, FunctionHandler):
        yield from _check_docstring(tool.handler.signature)


def _remedy(tool: Tool[..., Any]) -> str:
    is_function = isinstance(tool.handler.interface, FunctionHandler)
    return "Add it to the docstring." if is_function else "Add it to the schema."


def _check_docstring(signature: Signature) -> Iterator[Finding]:
    """Compare the docstring with the signature."""
    known = {p.name for p in signature.parameters}
    for unknown in (each for each in signature.docstring.parameters if each not in known):
        text = "the docstring describes it, and the function has no such parameter. Correct one of them."
        yield _warn("unknown-parameter", text, unknown)
    for hidden, why in signature.argument_schema.hidden.items():
        yield _warn("left-out", f"left out of what a model may fill, its default is used: {why}", hidden)
    for unannotated in signature.unannotated:
        yield _warn("unannotated", "has no annotation, so any value is accepted. Annotate it.", unannotated)


def _check_examples(tool: Tool[..., Any], schema: Mapping[str, Any]) -> Iterator[Finding]:
    """Parse the arguments of the docstring's examples."""
    examples = schema.get("examples")
    for example in examples if isinstance(examples, list) else ():
        outcome = tool._invocation.parser.try_parse(example)
        if isinstance(outcome, InvalidArguments):
            shown = json.dumps(example, ensure_ascii=False)
            yield _warn("wrong-example", f"the tool refuses the docstring's example {shown}: {outcome}")


def _fail(code: str, text: str, parameter: str = "") -> Finding:
    return Finding(level="error", code=code, text=text, parameter=parameter)


def _warn(code: str, text: str, parameter: str = "", tool: str = "") -> Finding:
    return Finding(level="warning", tool=tool, code=code, text=text, parameter=parameter)
