"""The Model Context Protocol: `tools/list` shows tools, `tools/call` calls one.

Wire facts: protocol versions 2025-11-25 and 2026-07-28, as the mcp package has them in version 2.3. What it says to
both of them is the stricter of the two: structured content, and its schema, are an object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.dialects.forms import Form, form_of
from toolkit.dialects.rules import PLAIN
from toolkit.dialects.wire import attribute, base64_of, call_of, data_of, gives_object, owned, text_of
from toolkit.messages import ToolCall, ToolResult, ToolSpec


@dataclass(frozen=True)
class MCP:
    """Tools go out as a server lists them, calls come as requests, answers are their results.

    Attributes:
        strict: Of no effect: the protocol has no such thing.
    """

    name: str = "mcp"
    strict: bool = False

    def form(self, spec: ToolSpec) -> Form:
        """Tell how a tool's arguments are shown."""
        return form_of(spec, PLAIN)

    def tool(self, spec: ToolSpec) -> dict[str, Any]:
        """Show one tool; it is made once, and must not be changed."""
        shown: dict[str, Any] = spec.forms.get(self) or spec.forms.setdefault(self, self._shown(spec))
        return shown

    def calls(self, reply: Any, specs: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Find the call in a request `tools/call`, or in its params; in any other request there is none."""
        params = attribute(reply, "params") or reply
        name, arguments = attribute(params, "name"), attribute(params, "arguments")
        if attribute(reply, "method") not in (None, "tools/call") or not isinstance(name, str):
            return ()
        return owned([call_of(name, arguments, attribute(reply, "id"))], specs, self.form)

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


def _answer(spec: ToolSpec | None, result: ToolResult) -> dict[str, Any]:
    images = [{"type": "image", "data": base64_of(i), "mimeType": i.media_type} for i in result.images]
    answer = {
        "content": [{"type": "text", "text": text_of(result)}, *images],
        "isError": result.is_error,
        "resultType": "complete",
    }
    if spec is None or spec.output is None or result.is_error:
        return answer
    data = data_of(result)
    return {**answer, "structuredContent": data if gives_object(spec) else {"result": data}}


def _wrapped_schema(spec: ToolSpec, output: Mapping[str, Any]) -> Mapping[str, Any]:
    if gives_object(spec):
        return output
    inner = {keyword: value for keyword, value in output.items() if keyword != "$defs"}
    wrapped = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return {**wrapped, "$defs": output["$defs"]} if "$defs" in output else wrapped
