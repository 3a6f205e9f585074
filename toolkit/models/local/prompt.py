"""The `calls` dialect for a model of 135 million parameters: one call, then one sentence.

A model of this size cannot choose whether to call a tool. With two alternatives in its grammar, its choice depends on
the last worked example and not on the request. The probabilities of two labels, after eight examples, distinguish
small talk from tasks in only 83 of 100 pairs. So `is_task` decides, by the words of the request and of the tools.

- Without a task, the model answers in its own words.
- With a task, the prompt has one worked example for each tool, made from the tool's schema, and a grammar restricts the
  reply to exactly one call.
- After the result of the call, a new conversation with question and result asks for one sentence, without a grammar: a
  grammar that quotes the result was tried, and led to sentences that make no sense.
- After a failed call the model would invent reasons, so a grammar restricts its sentence to the text of the error.

Earlier messages are left out, since they confuse the model. Nothing here does I/O. The prompts of equal tools have an
equal start, which the server caches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse, takewhile
from typing import Any

from toolkit._dialects.base import ParsedReply
from toolkit._dialects.calls import Calls, render_plain_message, response_format
from toolkit._messages import (
    FILES_TEXT,
    IMAGES_TEXT,
    META,
    REMEDY,
    Message,
    ModelRequest,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from toolkit._schema.error_messages import shorten
from toolkit._schema.json_schema import map_schemas, resolve_reference
from toolkit.errors import ModelError

OTHER = "For another model set OPENAI_API_KEY or OPENAI_BASE_URL, or pass base_url=, client= or model=."
TASK = "Answer each request with one JSON call of the right tool."

ANSWER = "Answer the question with the given result, in one sentence."
ANSWERS = (
    ("How tall is Mount Everest?", "8849 metres", "Mount Everest is 8849 metres tall."),
    ("Look up the capital of Peru.", "Lima", "The capital of Peru is Lima."),
    ("Change 3 feet to inches.", "36 inches", "3 feet is 36 inches."),
)
FAILURE = "Sorry, that did not work: "
MAX_FAILURE = 400  # characters of the answer that states an error
TALK = "You are a helpful assistant. Answer in one short sentence."
SMALL_TALK = (
    ("Hello.", "Hello! How can I help you?"),
    ("Thank you.", "You are welcome!"),
    ("Who are you?", "I am a small language model, and I can call functions for you."),
)
# Values for the worked examples, if a schema has no examples of its own.
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
# Options of LLGuidance: no free white space, and ignore keywords that cannot be enforced. By default it would refuse
# the schema, and llama.cpp would then decode without any grammar.
GUIDANCE: Mapping[str, Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": True,
}
# Keywords that explain a schema and do not restrict it: the grammar does not need them.
PROSE = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
CALL_SAMPLING: Mapping[str, Any] = {"temperature": 0, "max_tokens": 256}  # an e-mail fits in it
ANSWER_SAMPLING: Mapping[str, Any] = {"temperature": 0, "max_tokens": 64}
FAILURE_SAMPLING: Mapping[str, Any] = {"temperature": 0, "max_tokens": 3 * MAX_FAILURE}  # a token for each byte

# Characters at the start by which forms of one word are recognized: "convert" and "conversion", "day" and "days".
STEM = 4
# Words that do not indicate a task, neither in a request nor in a tool's description.
_COMMON = """
about able all also and any are ask bad been being but bye call can could day did does don for from get give good great
had happy has have hello her here hey him his how its just kind know let life like long look love make many may me mean
meaning meet morning much music name need new nice night not now off okay old one our out please really say see self she
should show some sorry such sure talk tell than thank thanks that the their them then there these they thing this time
today told tomorrow too tool try two use used user very want was way well were what when where which who why will with
wonderful would you your yourself
"""
COMMON = frozenset(_COMMON.split())
_GREETING = re.compile(
    r"\W*((hello|hi|hey|hiya|howdy|greetings|good (morning|day|afternoon|evening|night)|thanks?|thank you|welcome|bye|"
    r"goodbye|see you)\b[^.!?,]*[.!?,]*\s*)+",
    re.IGNORECASE,
)
# A text that may be an argument: a number, a quoted text, an address, a name in the middle of a sentence.
_VALUE = re.compile(r"""\d|["“”«»`]|(?<!\w)'[^']+'|\w@\w|://|(?<=[a-z,;] )[A-Z](?!\b|'m\b|'ll\b|'ve\b|'d\b)\w*""")
_WORD = re.compile(r"[A-Z][a-z]{2,}|[a-z]{3,}|[^\W\d_]{3,}")  # parts of camelCase too


@dataclass(frozen=True)
class SmallCalls(Calls):
    """A dialect of one call, by grammar, then one sentence."""

    def render_request(self, request: ModelRequest) -> dict[str, Any]:
        """Request a call after a user message, and a sentence or structured output after a tool message.

        Raises:
            ModelError: The user sent images or files.
        """
        question, results = _last_question(request.messages), _last_results(request.messages)
        if question.images or question.files:
            raise ModelError(f"The embedded model cannot see images and files. {OTHER}")
        output_format = self.render_output_format(request.output)
        if results:
            messages, failed = answer_messages(question.text, results), [each for each in results if each.is_error]
            if failed and not output_format:
                return {**FAILURE_SAMPLING, "messages": messages, "grammar": failure_grammar(failed)}
            sampling = CALL_SAMPLING if output_format else ANSWER_SAMPLING
            return {**sampling, "messages": messages, **output_format}
        if not request.tools:
            return {**CALL_SAMPLING, "messages": list(map(render_plain_message, request.messages)), **output_format}
        instructions = " ".join(message.text for message in request.messages if isinstance(message, SystemMessage))
        if not _is_call_due(request):
            messages = _make_conversation(f"{TALK} {instructions}", SMALL_TALK, question.text)
            return {**ANSWER_SAMPLING, "messages": messages}
        messages = call_messages(request.tools, question.text, instructions)
        return {**CALL_SAMPLING, "messages": messages, "response_format": response_format(call_schema(request.tools))}

    def has_public_text(self, request: ModelRequest) -> bool:
        """Return whether the reply is a sentence."""
        return not request.tools or bool(_last_results(request.messages)) or not _is_call_due(request)

    def parse_reply(self, text: str, calls: Sequence[ToolCall], specs: Sequence[ToolSpec]) -> ParsedReply:
        """Read the call, or the sentence."""
        return super().parse_reply(text.strip(), calls, specs)


def _is_call_due(request: ModelRequest) -> bool:
    """Return whether the first reply must be a call: the request is a task, or a call or an output is required."""
    is_free = request.choice in (None, "auto") and request.output is None
    return not is_free or is_task(_last_question(request.messages).text, request.tools)


def is_task(question: str, tools: Sequence[ToolSpec]) -> bool:
    """Return whether a request is a task for a tool: it has a word of a tool, or a text that may be an argument.

    A greeting at its start does not count. The words are English, like the model.
    """
    rest = _GREETING.sub("", question, count=1)
    if _VALUE.search(rest):
        return True
    return not _stem_words(rest).isdisjoint({stem for spec in tools for stem in _stem_words(_describe(spec))})


def _describe(spec: ToolSpec) -> str:
    schema = Calls().render_tool(spec)
    names = [name for name in schema["properties"] if name not in META]
    values = (value for name in names for value in schema["properties"][name].get("enum", ()))
    return " ".join([spec.name, spec.description.partition("\n\n")[0], *names, *map(str, values)])


def _stem_words(text: str) -> set[str]:
    words = (word.lower() for word in _WORD.findall(text))
    return {word[:STEM] for word in words if word not in COMMON and word.removesuffix("s") not in COMMON}


def call_messages(tools: Sequence[ToolSpec], question: str, instructions: str) -> list[dict[str, Any]]:
    """Make the conversation that ends in one call."""
    examples = (_make_example(spec, shift) for shift, spec in enumerate(tools))
    return _make_conversation(f"{TASK} {instructions}", examples, question)


def answer_messages(question: str, results: Sequence[ToolMessage]) -> list[dict[str, Any]]:
    """Make the conversation that ends in one sentence."""
    texts = "\n".join(result.text for result in results)
    examples = ((f"Question: {asked}\nResult: {result}", answer) for asked, result, answer in ANSWERS)
    return _make_conversation(ANSWER, examples, f"Question: {question}\nResult: {texts}")


def failure_grammar(failed: Sequence[ToolMessage]) -> str:
    """Make the grammar, in GBNF, of the one sentence that states the errors, on one line and without the remedy."""
    reasons = "; ".join(each.text.removesuffix(REMEDY) for each in failed)
    printable = "".join(character if character.isprintable() else " " for character in reasons)
    sentence = f"{FAILURE}{shorten(' '.join(printable.split()), MAX_FAILURE)}"
    end = "" if sentence.endswith((".", "!", "?", "…")) else "."
    return f"root ::= {json.dumps(sentence + end, ensure_ascii=False)}"


def call_schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """Make the schema of a reply with exactly one call."""
    bare: dict[str, Any] = map_schemas(
        Calls().reply_schema(tools, only_one=True),
        lambda node: {keyword: value for keyword, value in node.items() if keyword not in PROSE},
    )
    return {"x-guidance": GUIDANCE, **bare}


def _make_conversation(system: str, examples: Iterable[tuple[str, str]], request: str) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": system.strip()},
        *({"role": role, "content": text} for pair in examples for role, text in zip(("user", "assistant"), pair)),
        {"role": "user", "content": request},
    ]


def _last_question(messages: Sequence[Message]) -> UserMessage:
    asked = (message for message in reversed(messages) if isinstance(message, UserMessage))
    return next(filterfalse(_is_attachment, asked), UserMessage(""))


def _last_results(messages: Sequence[Message]) -> list[ToolMessage]:
    last = takewhile(lambda message: isinstance(message, ToolMessage), filterfalse(_is_attachment, reversed(messages)))
    return [message for message in reversed(list(last)) if isinstance(message, ToolMessage)]


def _is_attachment(message: Message) -> bool:
    """Return whether a message has the images and files of results, which the model cannot see."""
    return isinstance(message, UserMessage) and message.text in (IMAGES_TEXT, FILES_TEXT)


def _make_example(spec: ToolSpec, shift: int) -> tuple[str, str]:
    """Make a request and its call from a tool's own schema; the values of tools differ by `shift`.

    The request names the arguments. Metadata, and the output of a latent tool, are in the call only.
    """
    schema = Calls().render_tool(spec)
    properties = schema["properties"]
    names = [name for name in properties if name not in META]
    needed = [name for name in names if name in schema["required"]] or ([] if spec.activity is None else names)
    values = {name: _sample(properties[name], schema, shift + place) for place, name in enumerate(needed)}
    metadata = {name: _sample(properties[name], schema, shift + 1) for name in schema["required"] if name in META}
    texts = {
        name.replace("_", " "): json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
        for name, value in values.items()
    }
    request = spec.description.partition("\n")[0].rstrip(".") or spec.name.replace("_", " ")
    if texts:
        request += ": " + ", ".join(f"{name} {text}" for name, text in texts.items())
    return f"{request}.", json.dumps({"calls": [{**metadata, **values}]}, ensure_ascii=False)


def _sample(schema: Mapping[str, Any], root: Mapping[str, Any], shift: int, depth: int = 4) -> Any:
    """Make a sample value: an object with its required members, or all if none is, and a list with one item."""
    schema = resolve_reference(schema, root)
    if depth and (choices := schema.get("anyOf") or schema.get("oneOf")):
        return _sample(choices[0], root, shift, depth - 1)
    if depth and schema.get("properties"):
        known = schema["properties"]
        needed = [name for name in schema.get("required", ()) if name in known] or known
        return {name: _sample(known[name], root, shift + place, depth - 1) for place, name in enumerate(needed)}
    if depth and isinstance(schema.get("items"), dict):
        return [_sample(schema["items"], root, shift, depth - 1)]
    if "const" in schema:
        return schema["const"]
    kind = schema.get("format") if schema.get("format") in SAMPLES else schema.get("type")
    values = schema.get("examples") or schema.get("enum") or SAMPLES.get(str(kind), SAMPLES["string"])
    value = values[shift % len(values)]
    if schema.get("type") not in ("integer", "number"):
        return value
    return max(min(value, schema.get("maximum", value)), schema.get("minimum", value))
