"""The Model Context Protocol: `tools/list` shows tools, `tools/call` calls one.

Wire facts: protocol versions 2025-11-25 and 2026-07-28, as the mcp package has them in version 2.3. What it says to
both of them is the stricter of the two: structured content, and its schema, are an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from toolkit._dialects.base import Dialect, attribute, base64_of, call_of, data_of, gives_object, text_of
from toolkit._dialects.strict.rules import PLAIN
from toolkit._messages import File, ToolCall, ToolResult, ToolSpec, replace_surrogates
from toolkit._schema.matching import is_valid


class MCP(Dialect):
    """Tools go out as a server lists them, calls come as requests, answers are their results."""

    name = "mcp"
    rules = strict_rules = PLAIN

    def answers(
        self, done: Sequence[tuple[ToolCall, ToolResult]], specs: Sequence[ToolSpec] = ()
    ) -> list[dict[str, Any]]:
        """Answer each call by a result; the tools' specs tell which of them give structured content."""
        by_name = {spec.name: spec for spec in specs}
        return [_answer(by_name.get(call.name), result) for call, result in done]

    def _shown(self, spec: ToolSpec) -> dict[str, Any]:
        return {
            "name": spec.name,
            **({"title": spec.title} if spec.title else {}),
            "description": spec.description,
            "inputSchema": self.form(spec).schema,
            **({"outputSchema": _wrapped_schema(spec, spec.output)} if spec.output is not None else {}),
        }

    def _found(self, reply: Any) -> Iterable[ToolCall]:
        """Read a request `tools/call`, or its params; any other request has no call."""
        params = attribute(reply, "params") or reply
        name, arguments = attribute(params, "name"), attribute(params, "arguments")
        if attribute(reply, "method") in (None, "tools/call") and isinstance(name, str):
            yield call_of(name, arguments, attribute(reply, "id"))


def _answer(spec: ToolSpec | None, result: ToolResult) -> dict[str, Any]:
    images = [{"type": "image", "data": base64_of(i), "mimeType": i.media_type} for i in result.images]
    answer = {
        "content": [{"type": "text", "text": text_of(result)}, *images, *map(_resource, result.files)],
        "isError": result.is_error,
        "resultType": "complete",
    }
    if spec is None or spec.output is None or result.is_error:
        return answer
    data = data_of(result)
    if not is_valid(spec.output, data, spec.output):  # clients refuse what is not of the schema; the text says it all
        return answer
    return {**answer, "structuredContent": data if gives_object(spec) else {"result": data}}


def _resource(file: File) -> dict[str, Any]:
    """Embed a file; that it needs an address is a rule of the protocol, no server knows it."""
    address = f"file:///{quote(replace_surrogates(file.name), safe='')}"
    return {"type": "resource", "resource": {"uri": address, "mimeType": file.media_type, "blob": base64_of(file)}}


def _wrapped_schema(spec: ToolSpec, output: Mapping[str, Any]) -> Mapping[str, Any]:
    if gives_object(spec):
        return output
    inner = {keyword: value for keyword, value in output.items() if keyword != "$defs"}
    wrapped = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return {**wrapped, "$defs": output["$defs"]} if "$defs" in output else wrapped
