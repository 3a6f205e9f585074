"""The base classes of the dialects, and reading and writing wire values.

Replies of a model are not trusted: no reply raises an exception, and parts that are not calls are left out.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from toolkit._dialects.strict.plain import Note, SchemaForm
from toolkit._dialects.strict.rewriter import make_form
from toolkit._dialects.strict.rules import Rules
from toolkit._messages import (
    IMPORTS,
    INSTANCE,
    META,
    OUTPUT,
    OUTPUT_PATH,
    REASONING,
    File,
    Image,
    ModelRequest,
    OutputSpec,
    ToolCall,
    ToolResult,
    ToolSpec,
    replace_surrogates,
)
from toolkit._options import is_whole
from toolkit._schema.json_text import load_if_json, load_json, to_json_text
from toolkit.errors import DefinitionError

# Calls with their results.
FinishedCalls: TypeAlias = Sequence[tuple[ToolCall, ToolResult]]
# The text of a reply, and its calls.
ParsedReply: TypeAlias = tuple[str, tuple[ToolCall, ...]]

META_BESIDE_OUTPUT = frozenset(META) - {OUTPUT}
# Fields of a call by the meta keys that set them.
_CALL_FIELDS = {REASONING: "reasoning", INSTANCE: "instance", OUTPUT_PATH: "output_path"}

# Finish reasons of a reply that was cut off, at a limit or by a filter -> OpenAI's name.
CUT_REASONS: Mapping[str, str] = {
    **dict.fromkeys(("length", "max_tokens", "model_length", "model_context_window_exceeded"), "length"),
    "continuation": "length",
    **dict.fromkeys(("content_filter", "refusal", "safety", "sensitive"), "content_filter"),
    **dict.fromkeys(("recitation", "prohibited_content", "blocklist", "spii"), "content_filter"),
    **dict.fromkeys(("language", "escalation", "model_armor", "pup_limited_disabled"), "content_filter"),
}
# Finish reasons of a server that failed within its reply, beside those that end in "error".
FAILED_REASONS = frozenset({"insufficient_system_resource", "abort"})
# Statuses of a response of OpenAI, or an interaction of Gemini, that is not complete.
_UNFINISHED = ("incomplete", "in_progress", "queued", "requires_continuation", "budget_exceeded", "failed", "cancelled")
# All others with which providers say that a reply may be incomplete.
_CUT = frozenset({*CUT_REASONS, *_UNFINISHED})
CUT_TEXT = "Not run: the answer that held this call was cut off. Send it again, with shorter arguments or fewer calls."


@dataclass(frozen=True)
class Dialect(ABC):
    """One provider's wire format for tools, calls and results.

    Attributes:
        strict: Whether the provider is asked to enforce the schemas of tools that do not set `strict` themselves; no
            effect if the provider enforces none.
        name: The name that users pass.
        rules: The part of JSON Schema that the provider understands.
        strict_rules: The part that it understands in a schema which it enforces.
        reads_text: Whether calls are in the text of a reply.
    """

    strict: bool = False
    name: ClassVar[str]
    rules: ClassVar[Rules]
    strict_rules: ClassVar[Rules]
    reads_text: ClassVar[bool] = False

    def form(self, spec: ToolSpec) -> SchemaForm:
        """Return the form in which a tool's parameters are sent; the spec caches it."""
        rules = self.choose_rules(spec)
        form: SchemaForm = spec.cache.get(rules) or spec.cache.setdefault(rules, make_form(spec.parameters, rules))
        return form

    def choose_rules(self, spec: ToolSpec) -> Rules:
        """Choose the rules under which a tool's parameters are sent."""
        return self.strict_rules if (self.strict if spec.strict is None else spec.strict) else self.rules

    def render_tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Write one tool for the provider. The result is cached by the spec and must not be changed.

        Raises:
            DefinitionError: The provider does not accept the tool.
        """
        if spec.provider_form is not None:
            return self.render_provider_tool(spec.name, spec.provider_form)
        tool: dict[str, Any] = spec.cache.get(self) or spec.cache.setdefault(self, self._render_tool(spec))
        return tool

    def render_provider_tool(
        self,
        name: str,
        form: Mapping[str, Any],  # noqa: ARG002  for subclasses
    ) -> dict[str, Any]:
        """Write a tool that the provider executes.

        Raises:
            DefinitionError: The provider executes no tools.
        """
        raise DefinitionError(
            f"{name!r} is executed by OpenAI's Responses API, which the dialect {self.name!r} is not for: pass "
            "api='responses', or leave the tool out."
        )

    def parse_calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Read the calls in a reply: an object of the provider's client, or the same as plain data.

        Arguments are converted to the form of the tools' own schemas, but not validated. No reply raises an exception;
        parts that are not calls are left out, and so is a call that repeats another one with its id.
        """
        return self.decode_calls(drop_repeated(tuple(self._parse_calls(reply))), specs)

    def decode_calls(self, calls: Iterable[ToolCall], specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Convert the arguments of calls from the form that was sent. A call of an unknown tool is not changed."""
        return self._decode_calls(calls, specs, metadata_keys)

    def _decode_calls(
        self, calls: Iterable[ToolCall], specs: Sequence[ToolSpec], list_metadata: Callable[[ToolSpec], Collection[str]]
    ) -> tuple[ToolCall, ...]:
        """Decode calls. `list_metadata` returns the metadata keys of a tool's calls."""
        by_name = {spec.name: spec for spec in specs}

        def decode(call: ToolCall) -> ToolCall:
            spec = by_name.get(call.name)
            if spec is None:  # an unknown tool
                return call
            return _decode_call(call, self.form(spec), list_metadata(spec), spec.meta)

        return tuple(map(decode, calls))

    @abstractmethod
    def render_results(self, done: FinishedCalls, specs: Sequence[ToolSpec] = ()) -> list[dict[str, Any]]:
        """Write the messages that answer calls: each call exactly once, in the given order."""

    @abstractmethod
    def _render_tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Write one tool."""

    @abstractmethod
    def _parse_calls(self, reply: Any) -> Iterable[ToolCall]:
        """Read the calls with the arguments that the model wrote."""


class RunDialect(Dialect):
    """A dialect that a run can use, with Chat Completions or Responses."""

    @abstractmethod
    def render_request(self, request: ModelRequest) -> dict[str, Any]:
        """Write the messages, tools and formats of a request's body."""

    def render_output_format(self, output: OutputSpec | None) -> dict[str, Any]:
        """Write the `response_format` that asks for structured output, or {} if the output is to be a call."""
        if output is None or output.by_tool:
            return {}
        form = self.form(output.spec)
        schema = {"name": output.spec.name, **describe(output.spec), "schema": form.schema}
        json_schema = {**schema, "strict": True} if form.strict else schema
        return {"response_format": {"type": "json_schema", "json_schema": json_schema}}

    def drop_reasoning(self, memo: list[dict[str, Any]]) -> bool:
        """Leave reasoning out of converted messages, and return whether there was any."""
        before = memo.copy()
        memo[:] = map(self._without_reasoning, before)
        return memo != before

    def _without_reasoning(self, wire: dict[str, Any]) -> dict[str, Any]:
        return wire

    def has_public_text(self, request: ModelRequest) -> bool:
        """Return whether the reply's text may be streamed to the user as it arrives.

        If the structured output is a call, the text is not the output and must not be streamed.
        """
        return request.output is None or not request.output.by_tool

    def has_answer(self, text: str) -> bool:  # noqa: ARG002  only some dialects read it
        """Return whether a complete reply states the answer, even if it has calls, too."""
        return False

    def parse_reply(self, text: str, calls: Sequence[ToolCall], specs: Sequence[ToolSpec]) -> ParsedReply:
        """Split a complete reply into text and calls, with arguments in the form of the tools' own schemas."""
        return text, self.decode_calls(calls, specs)

    def extract_output(self, text: str, calls: Sequence[ToolCall], output: OutputSpec) -> ParsedReply:
        """Split a parsed reply into structured output, as JSON text in the form of its own schema, and calls.

        The output is the arguments of a tool: the model either calls that tool, or writes the arguments as its text.
        """
        answers: Sequence[ToolCall] = [call for call in calls if call.name == output.spec.name]
        if not output.by_tool:
            _, answers = self.parse_reply("", [ToolCall(name=output.spec.name, arguments=text)], [output.spec])
        answer = answers[-1].arguments if answers else text
        return answer, tuple(call for call in calls if call.name != output.spec.name or not output.by_tool)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A tool as a dialect sends it, and the differences from the tool's own schema. Its text is a short report.

    Attributes:
        tool: The tool's name.
        dialect: The dialect's name.
        strict: Whether the provider is asked to enforce the schema.
        notes: Differences between the schema that is sent and the tool's own, with reasons.
        sent: The tool as it is sent.
    """

    tool: str
    dialect: str
    strict: bool
    notes: tuple[Note, ...]
    sent: Mapping[str, Any]

    def __repr__(self) -> str:
        size = len(json.dumps(self.sent, ensure_ascii=False))
        enforced = "strict" if self.strict else "not strict"
        head = f"{self.tool} in the dialect {self.dialect!r}: {enforced}, {size:,} characters"
        width = max((len(note.path) for note in self.notes), default=0)
        lines = [f"  {note.path:<{width}}  {note.text}" for note in self.notes]
        return "\n".join([head, *lines]) if lines else f"{head}, sent as it is"

    __str__ = __repr__


def describe(spec: ToolSpec) -> dict[str, str]:
    """Write the description of a tool, if it has one: Azure, Bedrock and Copilot refuse an empty one."""
    return {"description": spec.description} if spec.description else {}


def explain_tool(spec: ToolSpec, dialect: Dialect) -> Explanation:
    """Explain the form in which a dialect sends a tool."""
    form = dialect.form(spec)
    return Explanation(
        tool=spec.name, dialect=dialect.name, strict=form.strict, notes=form.notes, sent=dialect.render_tool(spec)
    )


def metadata_keys(spec: ToolSpec) -> Collection[str]:
    """List the metadata keys of a tool's calls: all for a declared tool, except `_output` if the model fills it in.

    For other tools only the keys in `spec.meta` are metadata.
    """
    if spec.activity is None:
        return spec.meta.keys()
    return META_BESIDE_OUTPUT if spec.activity == "" else META


def _decode_call(call: ToolCall, form: SchemaForm, metadata: Collection[str], meta: Mapping[str, Any]) -> ToolCall:
    if form.decoder is None and not metadata:
        return call

    try:
        document = load_json(call.arguments)
        document = load_json(document) if isinstance(document, str) else document  # it may be encoded twice
    except ValueError:
        return call  # the tool's own validation reports it

    arguments: Any = document
    fields: dict[str, Any] = {}
    if metadata and isinstance(document, dict):
        constants = {key: schema["const"] for key, schema in meta.items() if "const" in schema}  # these win
        arguments, fields = split_meta({**document, **constants}, metadata)
    own = form.decode(arguments)
    if own == document and not fields:
        return call
    return replace(call, arguments=to_json_text(own), wire_arguments=call.arguments, **fields)


def split_meta(document: Mapping[str, Any], keys: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a model's JSON object into the arguments, and the fields of `ToolCall` that its meta keys set."""
    arguments = {key: value for key, value in document.items() if key not in keys}
    meta = {key: value for key, value in document.items() if key in keys}

    call_fields: dict[str, Any] = {}
    for key, value in meta.items():
        if key in _CALL_FIELDS and isinstance(value, str):
            call_fields[_CALL_FIELDS[key]] = replace_surrogates(value)
    if isinstance(imports := meta.get(IMPORTS), (list, str)):
        names = [imports] if isinstance(imports, str) else imports
        call_fields["imports"] = tuple(replace_surrogates(name) for name in names if isinstance(name, str))
    return arguments, call_fields


def get_member(value: Any, name: str) -> Any:
    """Return a member of a wire value, which is an object of the client or plain data, or None if it is missing."""
    if isinstance(value, (dict, Mapping)):  # checking for dict is several times faster
        return value.get(name)
    return getattr(value, name, None)


def list_items(value: Any, name: str) -> list[Any]:
    """List the items of a reply: those in its member `name`, or the reply itself if it is a list or one item."""
    inner = get_member(value, name)
    items = value if inner is None else inner
    return list(items) if isinstance(items, (list, tuple)) else [items]


def to_plain_item(item: Any) -> dict[str, Any] | None:
    """Convert an item of any type to plain data that can be sent back. Return None for anything else."""
    if hasattr(item, "model_dump"):
        item = item.model_dump(mode="python", by_alias=True, exclude_unset=True, warnings=False)
    if not isinstance(item, Mapping) or not isinstance(item.get("type"), str):
        return None
    text = replace_surrogates(json.dumps(item, ensure_ascii=False, default=str))
    plain: dict[str, Any] = json.loads(text, parse_constant=lambda _: None)  # no request can carry NaN
    return plain


def is_cut_off(reply: Any) -> bool:
    """Return whether a reply says that it was cut off, so that its calls may be incomplete."""
    first = (*list_items(reply, "choices")[:1], *list_items(reply, "candidates")[:1])
    parts = (reply, *first, *list_items(reply, "output"))
    names = ("finish_reason", "finishReason", "stop_reason", "status", "done_reason")  # the last: Ollama
    reasons = (get_member(part, name) for part in parts for name in names)
    texts = [str(getattr(reason, "value", reason)) for reason in reasons]
    return any(has_failed(text) or text.lower() in _CUT for text in texts)


def has_failed(reason: str) -> bool:
    """Return whether a finish reason says that the server failed, such as a gateway's "overloaded_error"."""
    return reason.lower().endswith("error") or reason.lower() in FAILED_REASONS


def join_text(content: Any) -> str:
    """Join the texts of a message's content: a text, or a list of parts. Return "" for anything else."""
    if isinstance(content, list):
        return "".join(text for part in content if isinstance(text := get_member(part, "text"), str))
    return content if isinstance(content, str) else ""


def make_call(name: Any, arguments: Any, provider_call_id: Any) -> ToolCall:
    """Make a call from values that a model wrote. Values of wrong types are converted."""
    try:
        text = replace_surrogates(to_json_text(arguments))
    except (ValueError, TypeError, RecursionError):
        text = str(type(arguments))  # not JSON, so the tool refuses it
    return ToolCall(name=_to_name(name), arguments=text, provider_call_id=_to_name(provider_call_id))


def drop_repeated(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Drop calls that repeat an earlier one, with the same id, name and arguments. Keep all calls without an id."""
    if len(calls) < 2:
        return tuple(calls)

    counts = Counter((call.provider_call_id, call.name) for call in calls if call.provider_call_id)
    seen: set[tuple[str, ...]] = set()
    kept: list[ToolCall] = []

    for call in calls:
        identity = (call.provider_call_id, call.name)
        key = (*identity, canonical_text(call.arguments)) if counts[identity] > 1 else identity
        if not call.provider_call_id or key not in seen:
            kept.append(call)
        seen.add(key)

    return tuple(kept)


def canonical_text(arguments: str) -> str:
    """Write an object with sorted keys, so that equal objects have equal texts. Return any other text unchanged."""
    try:
        document = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(document, dict):
        return arguments
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _to_name(value: Any) -> str:
    if is_whole(value):
        return str(value)
    return replace_surrogates(value) if isinstance(value, str) else ""


def split_function(item: Any) -> tuple[Any, Any]:
    """Return name and arguments of a call in Chat Completions. The arguments of a custom tool are its input."""
    function = get_member(item, "function") or get_member(item, "custom")
    arguments = get_member(function, "arguments")
    return get_member(function, "name"), get_member(function, "input") if arguments is None else arguments


def has_object_output(spec: ToolSpec) -> bool:
    """Return whether a tool declares that it returns a JSON object."""
    return spec.output is not None and spec.output.get("type") == "object"


def result_data(result: ToolResult) -> Any:
    """Return a result as JSON data. Text stays text, even if it looks like JSON."""
    text = replace_surrogates(result.text)
    return text if isinstance(result.value, str) else load_if_json(text)


def encode_base64(part: Image | File) -> str:
    """Encode an image or a file in Base64."""
    return base64.b64encode(part.data).decode()


def data_url(part: Image | File) -> str:
    """Return an image or a file as a data URL."""
    return f"data:{part.media_type};base64,{encode_base64(part)}"
