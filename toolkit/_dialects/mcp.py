"""The Model Context Protocol: `tools/list` lists tools, `tools/call` calls one.

Source: protocol versions 2025-11-25 and 2026-07-28, as in version 2.3 of the mcp package. If they differ, the stricter
one is followed: structured content, and its schema, are objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from pydantic_core import from_json, to_json
from typing_extensions import override

from toolkit._dialects.base import (
    Dialect,
    FinishedCalls,
    encode_base64,
    get_member,
    has_object_output,
    make_call,
    result_data,
)
from toolkit._dialects.strict.matching import is_valid
from toolkit._dialects.strict.rules import PLAIN
from toolkit._messages import File, Image, ToolCall, ToolResult, ToolSpec, replace_surrogates
from toolkit._schema.json_schema import wrap_schema
from toolkit._schema.json_text import is_long_integer


class ModelContextProtocol(Dialect):
    """Tools go out as in `tools/list`, calls come as requests `tools/call`, and are answered by their results."""

    name = "mcp"
    rules = strict_rules = PLAIN

    @override
    def render_results(self, done: FinishedCalls, specs: Sequence[ToolSpec] = ()) -> list[dict[str, Any]]:
        """Answer each call by a result, with structured content if the call's spec declares an output.

        A result that does not match the declared output is an error: clients raise an exception if a result has other
        structured content, or none.
        """
        by_name = {spec.name: spec for spec in specs}
        return [_render_result(by_name.get(call.name), result) for call, result in done]

    def _render_tool(self, spec: ToolSpec) -> dict[str, Any]:
        output = spec.output
        is_object = has_object_output(spec)
        return {
            "name": spec.name,
            **({"title": spec.title} if spec.title else {}),
            "description": spec.description,
            "inputSchema": self.form(spec).schema,
            **({} if output is None else {"outputSchema": output if is_object else wrap_schema(output, "result")}),
        }

    def _parse_calls(self, reply: Any) -> Iterable[ToolCall]:
        """Read a request `tools/call`, or its params; any other request has no call."""
        params = get_member(reply, "params") or reply
        name = get_member(params, "name")
        arguments = get_member(params, "arguments")
        if get_member(reply, "method") in (None, "tools/call") and isinstance(name, str):
            yield make_call(name, arguments, get_member(reply, "id"))


def _render_result(spec: ToolSpec | None, result: ToolResult) -> dict[str, Any]:
    images = [{"type": "image", "data": encode_base64(i), "mimeType": i.media_type} for i in result.images]
    text = {"type": "text", "text": replace_surrogates(result.text)}
    content = [text, *images, *map(render_resource, result.files)]
    answer = {"content": content, "isError": result.is_error, "resultType": "complete"}
    if spec is None or spec.output is None or result.is_error:
        return answer
    for data in _list_data(result):
        if is_valid(spec.output, data, spec.output):
            return {**answer, "structuredContent": data if has_object_output(spec) else {"result": data}}
    fault = {"type": "text", "text": f"{spec.name} has run, but what follows is not what it declares."}
    return {**answer, "content": [fault, *content], "isError": True}


def _list_data(result: ToolResult) -> Iterator[Any]:
    """Yield what may be the structured content: the data in the text, and the value with null for images and files."""
    yield result_data(result)
    value = result.value
    if isinstance(value, (list, tuple)):
        value = [None if isinstance(part, (Image, File)) else part for part in value]
    with suppress(ValueError, RecursionError):  # it contains itself, or is nested too deeply
        if not is_long_integer(value):
            yield from_json(to_json(value, fallback=str, inf_nan_mode="strings", bytes_mode="base64"))


def render_resource(file: File) -> dict[str, Any]:
    """Render a file as an embedded resource. The protocol requires a URI; no server resolves this one."""
    address = f"file:///{quote(replace_surrogates(file.name), safe='')}"
    return {"type": "resource", "resource": {"uri": address, "mimeType": file.media_type, "blob": encode_base64(file)}}
