"""What wire forms have in common: members of objects or of plain data, calls, results, pictures.

What a model wrote is read without trust: nothing of it raises, and what is no call is left out.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import from_json

from toolkit._messages import META, OUTPUT, File, Image, ToolCall, ToolResult, ToolSpec, parted, sendable
from toolkit._schema.json_text import as_text
from toolkit.dialects.codecs import read_json
from toolkit.dialects.forms import Form

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
        return spec.about.keys()
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
    return sendable(result.text or "")


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
    arguments, said = parted(document, about) if about and isinstance(document, dict) else (document, {})
    own = decode(arguments) if decode else arguments
    return call if own == document else replace(call, arguments=as_text(own), wire_arguments=call.arguments, **said)


def _arguments(value: Any) -> str:
    try:
        return sendable(as_text(value))
    except (ValueError, TypeError, RecursionError):
        return str(type(value))  # no JSON, so the tool refuses it


def _word(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return sendable(value) if isinstance(value, str) else ""
