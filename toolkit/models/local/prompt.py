"""The `calls` dialect for a model of 135 million parameters: one call, then one sentence.

So small a model does not choose freely whether to call a tool. It is shown one worked example for each tool, made of
the tool's own schema, and its reply is bound by a grammar to be exactly one call. When the call has its result, a fresh
conversation puts question and result together and asks for one sentence. That one is free: a grammar that quotes the
result to the letter was tried, and made sentences that hold it and make no sense. What was said before is not shown to
the model: it would lose its way.

All of it is pure, and equal tools make an equal beginning of the prompt, which the server keeps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from toolkit._dialects.base import output_request
from toolkit._dialects.calls import Calls, render_message, reply_schema, response_format
from toolkit._messages import META, Message, ModelRequest, SystemMessage, ToolCall, ToolMessage, ToolSpec, UserMessage
from toolkit._schema.json_schema import map_schemas

TASK = "Answer each request with one JSON call of the right tool."


@dataclass(frozen=True)
class LastTurn:
    """How the sentence is asked for: what to do, the word before what the tool gave, and three worked examples."""

    task: str
    label: str
    examples: tuple[tuple[str, str, str], ...]


ANSWER = LastTurn(
    "Answer the question with the given result, in one sentence.",
    "Result",
    (
        ("How tall is Mount Everest?", "8849 metres", "Mount Everest is 8849 metres tall."),
        ("Look up the capital of Peru.", "Lima", "The capital of Peru is Lima."),
        ("Change 3 feet to inches.", "36 inches", "3 feet is 36 inches."),
    ),
)
# With the examples above the model claims that a refused call was carried out.
FAILURE = LastTurn(
    "Say in one sentence that it did not work, and why.",
    "Error",
    (
        ("How tall is Mount Everest?", "no such mountain", "Sorry, that did not work: no such mountain."),
        ("Look up the capital of Peru.", "not allowed", "Sorry, that did not work: not allowed."),
        ("Change 3 feet to inches.", "the tool failed", "Sorry, that did not work: the tool failed."),
    ),
)
# Values for the worked examples, where a schema has no examples of its own.
SAMPLES: Mapping[str, Sequence[Any]] = {
    "integer": (3, 8, 40, 6, 15),
    "number": (4, 60, 2.5, 9),
    "string": ("blue river", "Anna", "some text", "apple"),
    "date": ("2001-03-04", "2001-05-06"),
    "boolean": (True, False),
    "array": ([],),
    "object": ({},),
    "null": (None,),
}
# LLGuidance: no free white space, and ignore what it cannot enforce. By default it would refuse the schema, and
# llama.cpp then decodes without any grammar.
GUIDANCE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
# Words that explain a schema and do not restrict it: they cost tokens, and the grammar needs none of them.
PROSE = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
CALL_SAMPLING: Mapping[str, Any] = {"temperature": 0, "max_tokens": 256}  # an e-mail fits in it
ANSWER_SAMPLING: Mapping[str, Any] = {"temperature": 0, "max_tokens": 64}


@dataclass(frozen=True)
class SmallCalls(Calls):
    """One call by grammar, then one sentence."""

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Ask for a call where the user has spoken, for a sentence or the wanted output where a tool has."""
        question, results = _question(request.messages), _results(request.messages)
        wanted = output_request(request.output, self.form)
        if results:
            sampling = CALL_SAMPLING if wanted else ANSWER_SAMPLING
            return {**sampling, "messages": answer_messages(question, results), **wanted}
        if not request.tools:
            return {**CALL_SAMPLING, "messages": [render_message(message) for message in request.messages], **wanted}
        told = " ".join(message.text for message in request.messages if isinstance(message, SystemMessage))
        messages = call_messages(request.tools, question, told)
        return {**CALL_SAMPLING, "messages": messages, "response_format": response_format(call_schema(request.tools))}

    def shows_text(self, request: ModelRequest) -> bool:
        """Tell whether the reply is a sentence."""
        return not request.tools or bool(_results(request.messages))

    def read(self, text: str, calls: Sequence[ToolCall], specs: Sequence[ToolSpec]) -> tuple[str, tuple[ToolCall, ...]]:
        """Find the call, or the sentence."""
        return super().read(text.strip(), calls, specs)


def call_messages(tools: Sequence[ToolSpec], question: str, instructions: str = "") -> list[dict[str, Any]]:
    """Make the conversation that ends in one call."""
    examples = (_example(spec, shift) for shift, spec in enumerate(tools))
    return [_said("system", f"{TASK} {instructions}".strip()), *_turns(examples), _said("user", question)]


def answer_messages(question: str, results: Sequence[ToolMessage]) -> list[dict[str, Any]]:
    """Make the conversation that ends in one sentence."""
    last = FAILURE if any(result.is_error for result in results) else ANSWER
    found = "\n".join(result.text for result in results)
    solved = ((_put(asked, last.label, told), sentence) for asked, told, sentence in last.examples)
    return [_said("system", last.task), *_turns(solved), _said("user", _put(question, last.label, found))]


def call_schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """Make the schema of a reply with exactly one call."""
    bare: dict[str, Any] = map_schemas(reply_schema(tools, only_one=True), _without_prose)
    return {"x-guidance": GUIDANCE, **bare}


def _question(messages: Sequence[Message]) -> str:
    return next((message.text for message in reversed(messages) if isinstance(message, UserMessage)), "")


def _results(messages: Sequence[Message]) -> list[ToolMessage]:
    """The results of the calls that were just carried out."""
    last = takewhile(lambda message: isinstance(message, ToolMessage), reversed(messages))
    return [message for message in reversed(list(last)) if isinstance(message, ToolMessage)]


def _example(spec: ToolSpec, shift: int) -> tuple[str, str]:
    """Make a request and its call, from a tool's own schema; other tools get other values.

    The request names the arguments. What is said about the call, and its output where the model makes it, are in the
    call alone.
    """
    shown, is_declared = Calls().tool(spec), spec.activity is not None
    properties, sample = shown["properties"], _whole if is_declared else _sample
    named = [name for name in properties if name not in META]
    needed = [name for name in named if name in shown["required"]] or (named if is_declared else [])
    about = [name for name in shown["required"] if name in META]
    values = {name: sample(properties[name], shown, shift + place) for place, name in enumerate(needed)}
    said = {name: sample(properties[name], shown, shift + 1) for name in about}
    told = ", ".join(f"{name.replace('_', ' ')} {_told(value)}" for name, value in values.items())
    described = spec.description.partition("\n")[0].rstrip(".") or spec.name.replace("_", " ")
    call = {"calls": [{**said, **values}]}
    return f"{described}: {told}." if told else f"{described}.", json.dumps(call, ensure_ascii=False)


def _told(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


def _whole(schema: Mapping[str, Any], root: Mapping[str, Any], shift: int, depth: int = 4) -> Any:
    """Make a sample with all that is inside: what an object requires, or all it may have, and one item of a list."""
    schema = _resolved(schema, root)
    if depth and schema.get("properties"):
        known = schema["properties"]
        needed = [name for name in schema.get("required", ()) if name in known] or known
        return {name: _whole(known[name], root, shift + place, depth - 1) for place, name in enumerate(needed)}
    if depth and isinstance(schema.get("items"), dict):
        return [_whole(schema["items"], root, shift, depth - 1)]
    return _between(schema, _sample(schema, root, shift))


def _between(schema: Mapping[str, Any], value: Any) -> Any:
    if schema.get("type") not in ("integer", "number"):
        return value
    return max(min(value, schema.get("maximum", value)), schema.get("minimum", value))


def _sample(schema: Mapping[str, Any], root: Mapping[str, Any], shift: int) -> Any:
    schema = _resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    own = schema.get("examples") or schema.get("enum")
    kind = schema.get("format") if schema.get("format") in SAMPLES else schema.get("type")
    values = own or SAMPLES.get(str(kind), SAMPLES["string"])
    return values[shift % len(values)]


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a pointer, or the first way of a union."""
    for _ in range(8):
        if "$ref" in schema:
            schema = root.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
        elif ways := schema.get("anyOf") or schema.get("oneOf"):
            schema = ways[0]
    return schema


def _without_prose(node: dict[str, Any]) -> dict[str, Any]:
    return {keyword: value for keyword, value in node.items() if keyword not in PROSE}


def _turns(pairs: Iterator[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    for request, reply in pairs:
        yield _said("user", request)
        yield _said("assistant", reply)


def _said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def _put(question: str, label: str, found: str) -> str:
    return f"Question: {question}\n{label}: {found}"
