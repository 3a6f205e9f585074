"""The schema-first composition: one object whose `calls` name their tool, asked for by `response_format`.

It serves models and servers without native tool calling. Every reply is one JSON object:

    {"calls": [{"_tool": "add", "a": 17, "b": 25}], "output": null}    run these
    {"calls": [], "output": "It is 42."}                               the answer

The keys in META are about the call; every other one is a parameter of the tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.dialects import structured
from toolkit.dialects.chat import encoded, message_of, pictures
from toolkit.dialects.forms import Form, form_of
from toolkit.dialects.rules import GRAMMAR, STRICT
from toolkit.dialects.wire import attribute, content_of, owned, text_of, wants_strict
from toolkit.errors import DefinitionError
from toolkit.jsontext import is_cut, is_object
from toolkit.messages import (
    Message,
    ModelRequest,
    ModelResponse,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    sendable,
)
from toolkit.schemas import rewritten

# What the schema-first system says about a call beside its parameters.
META = frozenset(
    {"_tool", "_activity", "_output", "_reasoningForCall", "_module", "_imports", "_instance", "_outputPath"}
)

GUIDE = """You can call tools. Reply with one JSON object and nothing else.
To call tools, list them in "calls", each with its name in "_tool" and its arguments beside it, and leave "output" null.
When you have the answer, leave "calls" empty and write it in "output".

Tools:
"""


@dataclass(frozen=True)
class Calls:
    """Tools go out as a schema of the reply, calls come back as its `calls`.

    Attributes:
        strict: Whether the provider is to enforce the schemas of tools that have no opinion of their own. Enforced is
            the reply as a whole, so it is where that can be done for each tool on offer.
    """

    name: str = "calls"
    strict: bool = False

    def form(self, spec: ToolSpec) -> Form:
        """Tell how a tool's arguments are shown."""
        return form_of(spec, STRICT if wants_strict(spec, otherwise=self.strict) else GRAMMAR)

    def tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool: its parameters with the constant `_tool` in front; definitions stay inside.

        It is made once, and must not be changed.

        Raises:
            DefinitionError: A parameter has a name that the dialect needs itself.
        """
        shown, definitions = self.alternative(spec)
        return {**shown, "$defs": definitions} if definitions else shown

    def alternative(self, spec: ToolSpec) -> tuple[dict[str, Any], dict[str, Any]]:
        """Make one alternative of `calls`, and its definitions under names that no other tool uses."""
        made: tuple[dict[str, Any], dict[str, Any]]
        made = spec.forms.get(self) or spec.forms.setdefault(self, _alternative(spec, self.form(spec).schema))
        return made

    def calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Find the calls in the text of a completion, or in a text."""
        text = reply if isinstance(reply, str) else content_of(attribute(message_of(reply), "content"))
        return self.read(text, (), specs)[1]

    def answers(
        self,
        done: Sequence[tuple[ToolCall, ToolResult]],
        specs: Sequence[ToolSpec] = (),  # noqa: ARG002  the signature is the dialects'
    ) -> list[dict[str, Any]]:
        """Answer all calls by one message of the user; pictures follow in another."""
        told = [
            plain(ToolMessage(call_id=call.id, name=call.name, text=text_of(result), is_error=result.is_error))
            for call, result in done
        ]
        return _merged([*told, *pictures(done)])

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Make messages and, where tools are on offer, the schema of the reply."""
        if not request.tools:
            messages = _merged([plain(message) for message in request.messages])
            return {"messages": messages, **structured.asked(request.output, self.form)}
        wanted = (request.output.spec,) if request.output else ()
        forms = [self.form(spec) for spec in (*request.tools, *wanted)]
        guide = GUIDE + "\n".join([*map(described, request.tools, forms), *map(self._wish, wanted)])
        return {
            "messages": _merged([plain(m) for m in (SystemMessage(guide), *request.messages)]),
            "response_format": response_format(
                composed(request.tools, dialect=self, output=wanted), strict=all(form.strict for form in forms)
            ),
        }

    def shows_text(self, request: ModelRequest) -> bool:
        """Tell that a reply with calls is not for people."""
        return not request.tools

    def read(self, text: str, calls: Sequence[ToolCall], specs: Sequence[ToolSpec]) -> tuple[str, tuple[ToolCall, ...]]:
        """Find the calls in a reply; a text that is no such object is an answer, unless it is half of one."""
        calls = owned(calls, specs, self.form)
        reply = parsed(text)
        if reply is None:
            return "" if text.lstrip().startswith("{") and is_cut(text) else text, calls
        found = owned((_call(item) for item in reply.get("calls") or () if isinstance(item, dict)), specs, self.form)
        output = reply.get("output")
        told = output if isinstance(output, str) or output is None else json.dumps(output, ensure_ascii=False)
        return told or "", (*calls, *found)

    def _wish(self, wanted: ToolSpec) -> str:
        return f"\nOutput: {wanted.description} JSON Schema: {json.dumps(self.form(wanted).schema, ensure_ascii=False)}"


def composed(
    specs: Sequence[ToolSpec],
    *,
    only_one: bool = False,
    dialect: Calls = Calls(),
    output: Sequence[ToolSpec] = (),
) -> dict[str, Any]:
    """Compose the schema of a reply: any number of calls, or exactly one and no output.

    Args:
        specs: The tools on offer.
        only_one: Whether there has to be a call.
        dialect: How they are shown.
        output: What the output may be, each as the arguments of a tool; none means text.
    """
    shown, definitions = zip(*map(dialect.alternative, specs))
    outputs, more = zip(*(_parted(dialect.form(spec).schema, spec.name) for spec in output)) if output else ((), ())
    calls: dict[str, Any] = {"type": "array", "items": {"anyOf": list(shown)}}
    told = {"anyOf": [*(outputs or [{"type": "string"}]), {"type": "null"}]}
    properties = {"calls": {**calls, "minItems": 1, "maxItems": 1}} if only_one else {"calls": calls, "output": told}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    hoisted = {name: schema for part in (*definitions, *more) for name, schema in part.items()}
    return {**schema, "$defs": hoisted} if hoisted else schema


def _alternative(spec: ToolSpec, schema: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    reserved = sorted(META & schema["properties"].keys())
    if reserved:
        raise DefinitionError(f"Tool {spec.name!r}: the dialect 'calls' needs {reserved[0]!r} itself. Rename it.")
    schema, definitions = _parted(schema, spec.name)
    properties = {"_tool": {"type": "string", "const": spec.name}, **schema["properties"]}
    shown = {
        "type": "object",
        "description": spec.description,
        "properties": properties,
        "required": ["_tool", *schema.get("required", ())],
        "additionalProperties": schema.get("additionalProperties", False),
    }
    return shown, definitions


def _parted(schema: Mapping[str, Any], owner: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part a schema from its definitions, which get names that no other owner uses."""
    whole: dict[str, Any] = rewritten(schema, lambda node: _pointing_to(node, owner))
    definitions = whole.pop("$defs", {})
    return whole, {f"{owner}.{name}": part for name, part in definitions.items()}


def response_format(schema: Mapping[str, Any], *, strict: bool = False) -> dict[str, Any]:
    """Ask a server for a reply of this schema."""
    asked = {"name": "reply", "schema": schema}
    return {"type": "json_schema", "json_schema": {**asked, "strict": True} if strict else asked}


def described(spec: ToolSpec, form: Form) -> str:
    """Describe a tool in words: name, description, JSON Schema of its arguments."""
    return f"- {spec.name}: {spec.description} Arguments: {json.dumps(form.schema, ensure_ascii=False)}"


def parsed(text: str) -> dict[str, Any] | None:
    """Read a reply that lists calls; None where it is something else."""
    from pydantic_core import from_json

    try:
        reply = from_json(text)
    except ValueError:
        return None
    return reply if isinstance(reply, dict) and isinstance(reply.get("calls"), list) else None


def plain(message: Message) -> dict[str, Any]:
    """Write a message for a model that knows neither tool calls nor the role tool."""
    if isinstance(message, ToolMessage):
        return {"role": "user", "content": sendable(f"Result of {message.name}: {message.text}")}
    if isinstance(message, ModelResponse):
        return {"role": "assistant", "content": sendable(_reply(message) if message.calls else message.text)}
    return encoded(message)


def _merged(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
    from pydantic_core import from_json

    texts = [sendable(call.wire_arguments or call.arguments) for call in message.calls]
    arguments = [from_json(text) if is_object(text) else {} for text in texts]
    calls = [{"_tool": call.name, **given} for call, given in zip(message.calls, arguments)]
    return json.dumps({"calls": calls, "output": None}, ensure_ascii=False)


def _call(item: Mapping[str, Any]) -> ToolCall:
    arguments = {key: value for key, value in item.items() if key not in META}
    reasoning = item.get("_reasoningForCall")
    return ToolCall(
        name=str(item.get("_tool") or ""),
        arguments=json.dumps(arguments, ensure_ascii=False),
        reasoning=reasoning if isinstance(reasoning, str) else "",
    )


def _pointing_to(node: dict[str, Any], owner: str) -> dict[str, Any]:
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return node
    return {**node, "$ref": reference.replace("#/$defs/", f"#/$defs/{owner}.", 1)}
