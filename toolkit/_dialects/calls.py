"""The schema-first composition: one object whose `calls` name their tool, asked for by `response_format`.

It serves models and servers without native tool calling. Every reply is one JSON object:

    {"calls": [{"_tool": "add", "a": 17, "b": 25}], "output": null}    run these
    {"calls": [], "output": "It is 42."}                               the answer

The keys in META are about the call; every other one is a parameter of the tool.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

from pydantic_core import from_json
from typing_extensions import override

from toolkit._dialects.base import RunDialect, about_calls, attribute, content_of, output_request, owned, text_of
from toolkit._dialects.chat import encoded, message_of, pictures
from toolkit._dialects.strict.rewriter import Form, form_of
from toolkit._dialects.strict.rules import GRAMMAR, STRICT, Rules
from toolkit._dialects.tool_choice import narrowed
from toolkit._messages import (
    ACTIVITY,
    META,
    MODULE,
    OUTPUT,
    TOOL,
    Message,
    ModelRequest,
    ModelResponse,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    replace_surrogates,
)
from toolkit._schema.json_schema import rename_definitions
from toolkit._schema.json_text import dump_json, is_object, is_truncated, load_json, strip_fence

GUIDE = """You can call tools. Reply with one JSON object and nothing else.
To call tools, list them in "calls", each with its name in "_tool" and its arguments beside it, and leave "output" null.
When you have the answer, leave "calls" empty and write it in "output".

Tools:
"""


# What the object around all calls takes of the limits.
_AROUND = {"levels of objects": 1}
# What is said of the calls where there is no tool; a schema of the items has to be there.
_NO_CALLS = {"items": {"type": "null"}, "maxItems": 0}


@cache
def _beside(said: frozenset[str], *, strict: bool) -> Rules:
    """Make the rules under which a parameter with the name of what is said about calls is sent under another one.

    Args:
        said: What is asked for about a call of this tool; it keeps its name.
        strict: Whether the server enforces the schema.
    """
    rules, asked_for = STRICT if strict else GRAMMAR, "".join(f" {key}" for key in sorted(said))
    reserved = f"(?!(?:{'|'.join(sorted({*META} - said))})$)"
    keys = reserved + (rules.keys or "(?s:.+)")
    limits = {name: limit - _AROUND.get(name, 0) for name, limit in rules.limits.items()}
    return replace(rules, name=f"calls {rules.name}{asked_for}", keys=keys, limits=limits)


class Calls(RunDialect):
    """Tools go out as a schema of the reply, calls come back as its `calls`.

    Enforced is the reply as a whole, so it is where that can be done for each tool on offer.
    """

    name = "calls"
    rules, strict_rules = GRAMMAR, STRICT

    @override
    def form(self, spec: ToolSpec) -> Form:
        """Tell how a tool's arguments are shown; what is asked for about a call, or as its output, keeps its name."""
        said = frozenset((*spec.meta, *([OUTPUT] if spec.activity == "" else ())))
        return form_of(spec, _beside(said & {*META}, strict=self.is_strict(spec)))

    @override
    def calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Find the calls in a reply; what is said about them stands beside their arguments."""
        return owned(self._found(reply), specs, self.form, _meta)

    @override
    def answers(
        self, done: Sequence[tuple[ToolCall, ToolResult]], specs: Sequence[ToolSpec] = ()
    ) -> list[dict[str, Any]]:
        """Answer all calls by one message of the user; pictures follow in another."""
        told = [
            render_message(ToolMessage(call_id=call.id, name=call.name, text=text_of(result), is_error=result.is_error))
            for call, result in done
        ]
        return _merged([*told, *pictures(done)])

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Make messages and, where tools are on offer, the schema of the reply."""
        request = _offering(request)
        if not request.tools:
            return {
                "messages": _merged(map(render_message, request.messages)),
                **output_request(request.output, self.form),
            }
        wanted = (request.output.spec,) if request.output else ()
        guide = SystemMessage(GUIDE + "\n".join([*map(self._described, request.tools), *map(self._wish, wanted)]))
        reply = reply_schema(request.tools, dialect=self, output=wanted, has_to_call=request.choice == "required")
        strict = all(self.form(spec).strict for spec in (*request.tools, *wanted))
        return {
            "messages": _merged(map(render_message, (guide, *request.messages))),
            "response_format": response_format(reply, strict=strict),
        }

    def shows_text(self, request: ModelRequest) -> bool:
        """Tell that a reply with calls is not for people."""
        return not request.tools

    def read(self, text: str, calls: Sequence[ToolCall], specs: Sequence[ToolSpec]) -> tuple[str, tuple[ToolCall, ...]]:
        """Find the calls in a reply; a text that is no such object is an answer, unless it is half of one."""
        calls = owned(calls, specs, self.form)
        reply = parse_calls(text)
        if reply is None:
            bare = strip_fence(text)
            is_half = bare.lstrip().startswith("{") and is_truncated(bare)
            return "" if is_half else text, calls
        return _output_of(reply), (*calls, *owned(_calls_of(reply), specs, self.form, _meta))

    def _shown(self, spec: ToolSpec) -> dict[str, Any]:
        """Show its parameters with the constant `_tool` in front; no other tool's definitions have the same names."""
        schema = rename_definitions(self.form(spec).schema, spec.name)
        known = {TOOL: spec.name} if spec.activity is None else {TOOL: spec.name, ACTIVITY: spec.activity}
        known |= {MODULE: spec.module} if spec.module else {}
        constants = {key: {"type": "string", "const": value} for key, value in known.items()}
        shown = {**constants, **schema["properties"]}
        return {
            "type": "object",
            "description": spec.description,
            "properties": {key: shown[key] for key in (*META, *shown) if key in shown},
            "required": [*constants, *schema.get("required", ())],
            # A pattern would hold for the constants, too.
            "additionalProperties": "patternProperties" in schema or schema.get("additionalProperties", False),
            **({"$defs": schema["$defs"]} if "$defs" in schema else {}),
        }

    def _found(self, reply: Any) -> Iterable[ToolCall]:
        """Read the text of a completion, or a text."""
        text = reply if isinstance(reply, str) else content_of(attribute(message_of(reply), "content"))
        return _calls_of(parse_calls(text) or {})

    def _described(self, spec: ToolSpec) -> str:
        return f"- {spec.name}: {spec.description} Arguments: {json.dumps(self.form(spec).schema, ensure_ascii=False)}"

    def _wish(self, wanted: ToolSpec) -> str:
        return f"\nOutput: {wanted.description} JSON Schema: {json.dumps(self.form(wanted).schema, ensure_ascii=False)}"


def reply_schema(
    specs: Sequence[ToolSpec],
    *,
    only_one: bool = False,
    dialect: Calls | None = None,
    output: Sequence[ToolSpec] = (),
    has_to_call: bool = False,
) -> dict[str, Any]:
    """Compose the schema of a reply: any number of calls, or exactly one and no output.

    Args:
        specs: The tools on offer.
        only_one: Whether there has to be a call.
        dialect: How they are shown; not strict, by default.
        output: What the output may be, each as the arguments of a tool; none means text.
        has_to_call: Whether there has to be a call, beside any number of others.
    """
    dialect = dialect or Calls()
    tools = list(map(dialect.tool, specs))
    outputs = [rename_definitions(dialect.form(spec).schema, spec.name) for spec in output] or [{"type": "string"}]
    least = {"minItems": 1} if has_to_call else {}
    calls: dict[str, Any] = {"type": "array", **(_any_of(tools) if tools else _NO_CALLS), **least}
    told = {"anyOf": [*map(_bare, outputs), {"type": "null"}]}
    properties = {"calls": {**calls, "minItems": 1, "maxItems": 1}} if only_one else {"calls": calls, "output": told}
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    definitions = dict(chain.from_iterable(part.get("$defs", {}).items() for part in (*tools, *outputs)))
    return {**schema, "$defs": definitions} if definitions else schema


def _any_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"items": {"anyOf": [*map(_bare, tools)]}}


def _offering(request: ModelRequest) -> ModelRequest:
    """Say by the schema of the reply what may and has to be called: it has no other place for that."""
    if request.choice == "none":
        return replace(request, tools=(), choice=None)
    if request.choice not in (None, "auto", "required"):
        request = replace(request, allowed=(request.choice,), choice="required")
    return narrowed(request)


def _bare(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {keyword: value for keyword, value in schema.items() if keyword != "$defs"}


def response_format(schema: Mapping[str, Any], *, strict: bool = False) -> dict[str, Any]:
    """Ask a server for a reply of this schema."""
    reply = {"name": "reply", "schema": schema}
    return {"type": "json_schema", "json_schema": {**reply, "strict": True} if strict else reply}


def parse_calls(text: str) -> dict[str, Any] | None:
    """Read a reply that lists calls, be it in a Markdown fence; None where it is something else."""
    try:
        reply = load_json(strip_fence(text))
    except ValueError:
        return None
    return reply if isinstance(reply, dict) and isinstance(reply.get("calls"), list) else None


def render_message(message: Message) -> dict[str, Any]:
    """Write a message for a model that knows neither tool calls nor the role tool."""
    if isinstance(message, ToolMessage):
        return {"role": "user", "content": replace_surrogates(f"Result of {message.name}: {message.text}")}
    if isinstance(message, ModelResponse):
        return {"role": "assistant", "content": replace_surrogates(_reply(message) if message.calls else message.text)}
    return encoded(message)


def _merged(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join neighbours of one role: many chat templates demand that roles take turns."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        texts = isinstance(message["content"], str) and joined and isinstance(joined[-1]["content"], str)
        if texts and joined[-1]["role"] == message["role"]:
            joined[-1] = {**message, "content": f"{joined[-1]['content']}\n\n{message['content']}"}
        else:
            joined.append(message)
    return joined


def _reply(message: ModelResponse) -> str:
    texts = [replace_surrogates(call.wire_arguments or call.arguments) for call in message.calls]
    arguments = [from_json(text) if is_object(text) else {} for text in texts]
    calls = [{"_tool": call.name, **given} for call, given in zip(message.calls, arguments)]
    return json.dumps({"calls": calls, "output": None}, ensure_ascii=False)


def _output_of(reply: Mapping[str, Any]) -> str:
    output = reply.get("output")
    if output is None:
        return ""
    return replace_surrogates(output) if isinstance(output, str) else dump_json(output)


def _calls_of(reply: Mapping[str, Any]) -> Iterator[ToolCall]:
    return map(_call, reply.get("calls", ()))


def _call(item: Any) -> ToolCall:
    """Make a call of an item; one that names no tool has no name, and is refused as such."""
    if not isinstance(item, dict) or TOOL not in item:
        return ToolCall(name="", arguments=dump_json(item))
    arguments = {key: value for key, value in item.items() if key != TOOL}
    return ToolCall(name=replace_surrogates(str(item[TOOL] or "")), arguments=dump_json(arguments))


def _meta(spec: ToolSpec) -> Collection[str]:
    """List the keys that are said about a call of a tool."""
    return META if spec.activity is None else about_calls(spec)
