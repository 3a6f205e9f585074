"""One JSON object whose `calls` name their tools, asked for by `response_format`.

This is for models and servers without native tool calling. Every reply is one object:

    {"calls": [{"_tool": "add", "a": 17, "b": 25}], "output": null}    calls to run
    {"calls": [], "output": "It is 42."}                               the answer

The keys in META are metadata of the call; all other keys are parameters of the tool.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from pydantic_core import from_json
from typing_extensions import override

from toolkit._dialects.base import FinishedCalls, ParsedReply, RunDialect, get_member, join_text, metadata_keys
from toolkit._dialects.chat import get_message, render_attachments, render_message
from toolkit._dialects.strict.rules import GRAMMAR, STRICT, Rules
from toolkit._dialects.tool_choice import offer_allowed
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
    ToolSpec,
    make_message,
    replace_surrogates,
)
from toolkit._schema.json_schema import rename_definitions
from toolkit._schema.json_text import dump_json, is_object, is_truncated, load_json, strip_fence

GUIDE = """You can call tools. Reply with one JSON object and nothing else.
To call tools, list them in "calls", each with its name in "_tool" and its arguments beside it, and leave "output" null.
When you have the answer, leave "calls" empty and write it in "output".
Results come in messages that begin with "Result of" and the tool's name; every further line of a result is indented.

Tools:
"""

# In front of each further line of a result.
INDENT = "    "

# The part of the server's limits that the object around all calls uses up.
_OUTER = {"levels of objects": 1}
# The schema of the calls if there is no tool; servers require a schema of the items.
_NO_CALLS = {"items": {"type": "null"}, "maxItems": 0}


@cache
def _reserve_metadata(rules: Rules, metadata: frozenset[str]) -> Rules:
    """Make rules by which a parameter with the name of a metadata key is sent under another name.

    The metadata that this tool asks for keep their names.
    """
    reserved = f"(?!(?:{'|'.join(sorted({*META} - metadata))})$)"
    keys = reserved + (rules.keys or "(?s:.+)")
    limits = {name: limit - _OUTER.get(name, 0) for name, limit in rules.limits.items()}
    return replace(rules, name=f"calls {rules.name}", keys=keys, limits=limits)


class Calls(RunDialect):
    """Tools go out as a schema of the reply, calls come back as its `calls`.

    The schema of the reply is enforced only if that is lossless for every tool that is offered.
    """

    name = "calls"
    reads_text = True
    rules: ClassVar[Rules] = GRAMMAR
    strict_rules: ClassVar[Rules] = STRICT

    @override
    def choose_rules(self, spec: ToolSpec) -> Rules:
        """Choose rules by which metadata that a tool asks for, and the output of a latent tool, keep their names."""
        metadata = frozenset((*spec.meta, *([OUTPUT] if spec.activity == "" else ())))
        return _reserve_metadata(super().choose_rules(spec), metadata & {*META})

    @override
    def decode_calls(self, calls: Iterable[ToolCall], specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Decode calls of a reply's text, which have metadata beside their arguments."""
        return self._decode_calls(calls, specs, _metadata_keys)

    @override
    def render_results(self, done: FinishedCalls, specs: Sequence[ToolSpec] = ()) -> list[dict[str, Any]]:
        """Answer all calls by one user message. Images and files follow in another."""
        results = (render_plain_message(make_message(*each)) for each in done)
        return _merge_messages([*results, *render_attachments(done)])

    def render_request(self, request: ModelRequest) -> dict[str, Any]:
        """Write the messages and, if tools are offered, the schema of the reply."""
        request = _apply_choice(request)
        if not request.tools:
            return {
                "messages": _merge_messages(map(render_plain_message, request.messages)),
                **self.render_output_format(request.output),
            }

        outputs = (request.output.spec,) if request.output else ()
        heads = [(spec, f"- {spec.name}: {spec.description} Arguments") for spec in request.tools]
        heads += [(spec, f"\nOutput: {spec.description} JSON Schema") for spec in outputs]
        lines = [f"{head}: {json.dumps(self.form(spec).schema, ensure_ascii=False)}" for spec, head in heads]
        guide = SystemMessage(GUIDE + "\n".join(lines))
        reply = self.reply_schema(request.tools, outputs=outputs, requires_call=request.choice == "required")
        strict = all(self.form(spec).strict for spec in (*request.tools, *outputs))
        return {
            "messages": _merge_messages(map(render_plain_message, (guide, *request.messages))),
            "response_format": response_format(reply, strict=strict),
        }

    def reply_schema(
        self,
        specs: Sequence[ToolSpec],
        *,
        only_one: bool = False,
        outputs: Sequence[ToolSpec] = (),
        requires_call: bool = False,
    ) -> dict[str, Any]:
        """Compose the schema of a reply: any number of calls, or exactly one and no output.

        Args:
            specs: The tools that are offered.
            only_one: Exactly one call, and no output.
            outputs: Alternatives of the output, each as the arguments of a tool; none means text.
            requires_call: At least one call.
        """
        tools = list(map(self.render_tool, specs))
        answers = [rename_definitions(self.form(spec).schema, spec.name) for spec in outputs] or [{"type": "string"}]

        items = {"items": {"anyOf": [*map(_without_definitions, tools)]}} if tools else _NO_CALLS
        calls: dict[str, Any] = {"type": "array", **items}
        properties = {"calls": calls}
        if only_one:
            calls |= {"minItems": 1, "maxItems": 1}
        else:
            if requires_call:
                calls["minItems"] = 1
            properties["output"] = {"anyOf": [*map(_without_definitions, answers), {"type": "null"}]}

        definitions: dict[str, Any] = {}
        for part in (*tools, *answers):
            definitions |= part.get("$defs", {})
        schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
        return {**schema, "$defs": definitions} if definitions else schema

    @override
    def has_public_text(self, request: ModelRequest) -> bool:
        """Return False if tools are offered: the text is JSON then."""
        return not request.tools

    @override
    def has_answer(self, text: str) -> bool:
        """Return whether the reply is an object with a list of calls and an `output`."""
        return bool(_read_output(load_reply(text) or {}))

    @override
    def parse_reply(self, text: str, calls: Sequence[ToolCall], specs: Sequence[ToolSpec]) -> ParsedReply:
        """Split a reply into output and calls; any other text is the answer, unless it is a truncated object."""
        calls = super().decode_calls(calls, specs)
        reply = load_reply(text)
        if reply is None:
            bare = strip_fence(text)
            is_cut = bare.lstrip().startswith("{") and is_truncated(bare)
            return "" if is_cut else text, calls
        return _read_output(reply), (*calls, *self.decode_calls(_read_calls(reply), specs))

    def _render_tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Write the schema of a call: metadata, then parameters. Definitions get names unique to the tool."""
        schema = rename_definitions(self.form(spec).schema, spec.name)
        identity = {TOOL: spec.name} if spec.activity is None else {TOOL: spec.name, ACTIVITY: spec.activity}
        if spec.module:
            identity[MODULE] = spec.module
        constants = {key: {"type": "string", "const": value} for key, value in identity.items()}
        properties = {**constants, **schema["properties"]}
        return {
            "type": "object",
            "description": spec.description,
            "properties": {key: properties[key] for key in (*META, *properties) if key in properties},
            "required": [*constants, *schema.get("required", ())],
            # Patterns are left out, since they would apply to the constants, too; so any other key is allowed.
            "additionalProperties": "patternProperties" in schema or schema.get("additionalProperties", False),
            **({"$defs": schema["$defs"]} if "$defs" in schema else {}),
        }

    def _parse_calls(self, reply: Any) -> Iterable[ToolCall]:
        """Read the text of a completion, or a text."""
        text = reply if isinstance(reply, str) else join_text(get_member(get_message(reply), "content"))
        return _read_calls(load_reply(text) or {})


def _apply_choice(request: ModelRequest) -> ModelRequest:
    """Express the tool choice by the tools that are offered, since the request has no `tool_choice`."""
    if request.choice == "none":
        return replace(request, tools=(), choice=None)
    if request.choice not in (None, "auto", "required"):
        request = replace(request, allowed=(request.choice,), choice="required")
    return offer_allowed(request)


def _without_definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {keyword: value for keyword, value in schema.items() if keyword != "$defs"}


def response_format(schema: Mapping[str, Any], *, strict: bool = False) -> dict[str, Any]:
    """Write the `response_format` for a reply of this schema."""
    reply = {"name": "reply", "schema": schema}
    return {"type": "json_schema", "json_schema": {**reply, "strict": True} if strict else reply}


def load_reply(text: str) -> dict[str, Any] | None:
    """Parse a reply that lists calls, with or without a Markdown fence. Return None for anything else."""
    try:
        reply = load_json(strip_fence(text))
    except ValueError:
        return None
    return reply if isinstance(reply, dict) and isinstance(reply.get("calls"), list) else None


def render_plain_message(message: Message) -> dict[str, Any]:
    """Write a message for a model without tool calls and without the role tool.

    The further lines of a result are indented: otherwise its text could pass for another
    result, or for a message of the user.
    """
    if isinstance(message, ToolMessage):
        lines = replace_surrogates(f"Result of {message.name}: {message.text}").splitlines(keepends=True)
        return {"role": "user", "content": INDENT.join(lines)}
    if isinstance(message, ModelResponse):
        return {
            "role": "assistant",
            "content": replace_surrogates(_render_reply(message) if message.calls else message.text),
        }
    return render_message(message)


def _merge_messages(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join adjacent text messages of one role: many chat templates require that roles alternate."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        texts = isinstance(message["content"], str) and joined and isinstance(joined[-1]["content"], str)
        if texts and joined[-1]["role"] == message["role"]:
            joined[-1] = {**message, "content": f"{joined[-1]['content']}\n\n{message['content']}"}
        else:
            joined.append(message)
    return joined


def _render_reply(message: ModelResponse) -> str:
    texts = [replace_surrogates(call.wire_arguments or call.arguments) for call in message.calls]
    arguments = [from_json(text) if is_object(text) else {} for text in texts]
    calls = [{"_tool": call.name, **given} for call, given in zip(message.calls, arguments)]
    output = None
    if message.is_answer:
        text = replace_surrogates(message.text)
        output = from_json(text) if is_object(text) else text
    return json.dumps({"calls": calls, "output": output}, ensure_ascii=False)


def _read_output(reply: Mapping[str, Any]) -> str:
    output = reply.get("output")
    if output is None:
        return ""
    return replace_surrogates(output) if isinstance(output, str) else dump_json(output)


def _read_calls(reply: Mapping[str, Any]) -> Iterator[ToolCall]:
    return map(_read_call, reply.get("calls", ()))


def _read_call(item: Any) -> ToolCall:
    """Make a call from an item. A call without a tool's name gets an empty one, and is refused later."""
    if not isinstance(item, dict) or TOOL not in item:
        return ToolCall(name="", arguments=dump_json(item))
    arguments = {key: value for key, value in item.items() if key != TOOL}
    return ToolCall(name=replace_surrogates(str(item[TOOL] or "")), arguments=dump_json(arguments))


def _metadata_keys(spec: ToolSpec) -> Collection[str]:
    return META if spec.activity is None else metadata_keys(spec)
