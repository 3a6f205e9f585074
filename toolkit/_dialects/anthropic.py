"""Anthropic's Messages: calls and results are blocks of a message's content.

Sources: `anthropic.types` of the anthropic package, version 2.14, and errors of the API: a failed result has only text,
which is not empty; no text block is blank; a document is PDF or text. The limits of a whole request (20 strict tools,
with 24 optional parameters together) are not checked, since a dialect sees one tool at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from toolkit._dialects.base import Dialect, FinishedCalls, encode_base64, get_member, list_items, make_call
from toolkit._dialects.strict.rules import ANTHROPIC, ANTHROPIC_STRICT
from toolkit._messages import File, Image, ToolCall, ToolResult, ToolSpec, replace_surrogates


class Anthropic(Dialect):
    """Tools go out with an `input_schema`, calls come back as blocks `tool_use`."""

    name = "anthropic"
    rules = ANTHROPIC
    strict_rules = ANTHROPIC_STRICT

    @override
    def render_results(self, done: FinishedCalls, specs: Sequence[ToolSpec] = ()) -> list[dict[str, Any]]:
        """Answer all calls by one user message. Images and files of failed calls follow their results."""
        results = [_render_result(call, result) for call, result in done]
        others = [block for _, result in done if result.is_error for block in _render_attachments(result)]
        return [{"role": "user", "content": [*results, *others]}] if results else []

    def _render_tool(self, spec: ToolSpec) -> dict[str, Any]:
        form = self.form(spec)
        tool = {"name": spec.name, "description": spec.description, "input_schema": form.schema}
        return {**tool, "strict": True} if form.strict else tool

    def _parse_calls(self, reply: Any) -> Iterable[ToolCall]:
        """Read a message, or its content."""
        for block in list_items(reply, "content"):
            if get_member(block, "type") == "tool_use":
                yield make_call(get_member(block, "name"), get_member(block, "input"), get_member(block, "id"))


def _render_result(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    answer = {"type": "tool_result", "tool_use_id": call.provider_call_id or call.id}
    text = replace_surrogates(result.text)
    if result.is_error:
        return {**answer, "content": text if text.strip() else "error", "is_error": True}
    attachments = _render_attachments(result)
    blocks = [{"type": "text", "text": text}] if text.strip() else []
    content = [*blocks, *attachments] if attachments else text
    return {**answer, "content": content} if content else answer


def _render_attachments(result: ToolResult) -> list[dict[str, Any]]:
    return [*map(_render_image, result.images), *map(_render_document, result.files)]


def _render_image(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": encode_base64(image)}
    return {"type": "image", "source": source}


def _render_document(file: File) -> dict[str, Any]:
    if file.media_type == "application/pdf":
        source = {"type": "base64", "media_type": file.media_type, "data": encode_base64(file)}
        return {"type": "document", "source": source, "title": file.name}
    try:
        source = {"type": "text", "media_type": "text/plain", "data": file.data.decode()}
    except UnicodeDecodeError:
        return {"type": "text", "text": f"[{file.name} cannot be shown here: {file.media_type}]"}
    return {"type": "document", "source": source, "title": file.name}
