"""An answer that has a schema: how it is asked for, and how it is found in a reply.

It is treated as the arguments of a tool, whether the model calls that tool or writes them as its text: the same form
goes out, and the same way leads back.

What wire forms have in common: members of objects or of plain data, calls, results, pictures.

What a model wrote is read without trust: nothing of it raises, and what is no call is left out.

What a dialect is: one provider's way to speak about tools, and what all of them do alike.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from pydantic_core import from_json

from toolkit._dialects.strict.codecs import read_json
from toolkit._dialects.strict.rewriter import Form, form_of
from toolkit._dialects.strict.rules import Rules
from toolkit._messages import (
    META,
    OUTPUT,
    File,
    Image,
    ModelRequest,
    OutputSpec,
    ToolCall,
    ToolResult,
    ToolSpec,
    replace_surrogates,
    split_meta,
)
from toolkit._schema.json_text import to_json_text

META_BESIDE_OUTPUT = frozenset(META) - {OUTPUT}


def attribute(value: Any, name: str) -> Any:
    """Read a member of a wire value: of the client's objects, or of plain data."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def items(value: Any, name: str) -> list[Any]:
    """List the items of a reply: those of its member, or its own where it is that list or a single item."""
    inner = attribute(value, name)
    found = value if inner is None else inner
    return list(found) if isinstance(found, (list, tuple)) else [found]


def content_of(value: Any) -> str:
    """Read a content: text, a list of parts, or nothing."""
    if isinstance(value, list):
        return "".join(text for part in value if isinstance(text := attribute(part, "text"), str))
    return value if isinstance(value, str) else ""


def call_of(name: Any, arguments: Any, provider_call_id: Any) -> ToolCall:
    """Make a call of what a model wrote, whatever it is."""
    return ToolCall(name=_word(name), arguments=_arguments(arguments), provider_call_id=_word(provider_call_id))


def function_of(item: Any) -> tuple[Any, Any]:
    """Read name and arguments of a call in Chat Completions; those of a custom tool are its input."""
    function = attribute(item, "function") or attribute(item, "custom")
    arguments = attribute(function, "arguments")
    return attribute(function, "name"), attribute(function, "input") if arguments is None else arguments


def about_calls(spec: ToolSpec) -> Collection[str]:
    """List the keys that are said about a call of a tool: those asked for; of a declared one all but its output."""
    if spec.activity is None:
        return spec.meta.keys()
    return META_BESIDE_OUTPUT if spec.activity == "" else META


def owned(
    calls: Iterable[ToolCall],
    specs: Sequence[ToolSpec],
    form: Callable[[ToolSpec], Form],
    about: Callable[[ToolSpec], Collection[str]] = about_calls,
) -> tuple[ToolCall, ...]:
    """Read the arguments of calls back into their tools' own forms; a call of no such tool stays as it is.

    Args:
        calls: As the model wrote them.
        specs: The tools on offer.
        form: How a tool is shown.
        about: Which keys are said about a call of a tool, and are none of its arguments.
    """
    by_name = {spec.name: spec for spec in specs}

    def read(call: ToolCall) -> ToolCall:
        spec = by_name.get(call.name)
        return call if spec is None else _owned(call, form(spec).decode, about(spec))

    return tuple(map(read, calls))


def gives_object(spec: ToolSpec) -> bool:
    """Tell whether a tool says that it gives a JSON object."""
    return spec.output is not None and spec.output.get("type") == "object"


def text_of(result: ToolResult) -> str:
    """Read what the model is told."""
    return replace_surrogates(result.text or "")


def data_of(result: ToolResult) -> Any:
    """Read what the model is told as JSON data: a text stays text, also one that looks like JSON."""
    text = text_of(result)
    try:
        return text if isinstance(result.value, str) else from_json(text, allow_inf_nan=False)
    except ValueError:
        return text


def base64_of(part: Image | File) -> str:
    """Write a picture or a file as text."""
    return base64.b64encode(part.data).decode()


def data_url(part: Image | File) -> str:
    """Write a picture or a file into a URL."""
    return f"data:{part.media_type};base64,{base64_of(part)}"


def _owned(call: ToolCall, decode: Callable[[Any], Any] | None, about: Collection[str]) -> ToolCall:
    if decode is None and not about:
        return call
    try:
        document = read_json(call.arguments)
    except (ValueError, RecursionError):
        return call  # the tool says what is wrong with it
    arguments, said = split_meta(document, about) if about and isinstance(document, dict) else (document, {})
    own = decode(arguments) if decode else arguments
    return (
        call if own == document else replace(call, arguments=to_json_text(own), wire_arguments=call.arguments, **said)
    )


def _arguments(value: Any) -> str:
    try:
        return replace_surrogates(to_json_text(value))
    except (ValueError, TypeError, RecursionError):
        return str(type(value))  # no JSON, so the tool refuses it


def _word(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return replace_surrogates(value) if isinstance(value, str) else ""


@dataclass(frozen=True)
class Dialect(ABC):
    """One provider's way to speak about tools.

    Attributes:
        strict: Whether the provider is to enforce the schemas of tools that have no opinion of their own; of no effect
            where it enforces none.
        name: What users call it.
        rules: What the provider understands of JSON Schema.
        strict_rules: What it understands of a schema that it enforces.
    """

    strict: bool = False
    name: ClassVar[str]
    rules: ClassVar[Rules]
    strict_rules: ClassVar[Rules]

    def form(self, spec: ToolSpec) -> Form:
        """Tell how a tool's arguments are shown, and where that differs from the tool's own schema."""
        return form_of(spec, self.strict_rules if self.is_strict(spec) else self.rules)

    def is_strict(self, spec: ToolSpec) -> bool:
        """Tell whether a tool's schema is to be enforced, where that can be done."""
        return self.strict if spec.strict is None else spec.strict

    def tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool; it is made once, and must not be changed.

        Raises:
            DefinitionError: The provider takes no such tool.
        """
        shown: dict[str, Any] = spec.rendered.get(self) or spec.rendered.setdefault(self, self._shown(spec))
        return shown

    def calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Find the calls in a reply: of the provider's client, or the same as plain data.

        Their arguments are in the tools' own forms. Nothing that a model wrote raises; what is no call is left out.
        """
        return owned(self._found(reply), specs, self.form)

    @abstractmethod
    def answers(
        self, done: Sequence[tuple[ToolCall, ToolResult]], specs: Sequence[ToolSpec] = ()
    ) -> list[dict[str, Any]]:
        """Make the messages that answer calls: each exactly once, in the order given."""

    @abstractmethod
    def _shown(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool."""

    @abstractmethod
    def _found(self, reply: Any) -> Iterable[ToolCall]:
        """Find the calls as they were written."""


class RunDialect(Dialect):
    """A dialect in which a run can be held: over Chat Completions, or over Responses."""

    @abstractmethod
    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Make the part of the request's body that says messages and tools."""

    @abstractmethod
    def shows_text(self, request: ModelRequest) -> bool:
        """Tell whether the text of the reply is meant for people as it comes."""

    @abstractmethod
    def read(self, text: str, calls: Sequence[ToolCall], specs: Sequence[ToolSpec]) -> tuple[str, tuple[ToolCall, ...]]:
        """Find text and calls in a whole reply; the calls' arguments come in the tools' own forms."""


Read: TypeAlias = Callable[[str, Sequence[ToolCall], Sequence[ToolSpec]], tuple[str, tuple[ToolCall, ...]]]


def output_request(output: OutputSpec | None, form_of: Callable[[ToolSpec], Form]) -> dict[str, Any]:
    """Make the part of a request's body that asks for such an answer as text; nothing where it is to be a call."""
    if output is None or output.by_tool:
        return {}
    form = form_of(output.spec)
    schema = {"name": output.spec.name, "description": output.spec.description, "schema": form.schema}
    json_schema = {**schema, "strict": True} if form.strict else schema
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def extract_output(
    text: str, calls: Sequence[ToolCall], output: OutputSpec, read: Read
) -> tuple[str, tuple[ToolCall, ...]]:
    """Find the answer in text and calls, as a text in its own form; the other calls stay.

    Args:
        text: The reply's own.
        calls: Already read.
        output: What the answer has to be.
        read: A dialect's way to read calls.
    """
    given: Sequence[ToolCall] = [call for call in calls if call.name == output.spec.name]
    if not output.by_tool:
        _, given = read("", [ToolCall(name=output.spec.name, arguments=text)], [output.spec])
    answer = given[-1].arguments if given else text
    return answer, tuple(call for call in calls if call.name != output.spec.name or not output.by_tool)
