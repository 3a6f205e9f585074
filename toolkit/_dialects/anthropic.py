"""Anthropic's Messages: calls and results are blocks of a message's content.

Wire facts: `anthropic.types` of the anthropic package, version 2.12, and what the API answers to requests that it
refuses: a failed result holds text alone, and some of it; no text block is blank; a document is PDF or text. Of one
request's limits nothing is said here, since a dialect sees one tool at a time: 20 strict tools, which may have 24
optional parameters together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from toolkit._dialects.base import Dialect, attribute, base64_of, call_of, items, text_of
from toolkit._dialects.strict.rules import ANTHROPIC, ANTHROPIC_STRICT
from toolkit._messages import File, Image, ToolCall, ToolResult, ToolSpec


class Anthropic(Dialect):
    """Tools go out with an `input_schema`, calls come back as blocks `tool_use`."""

    name = "anthropic"
    rules, strict_rules = ANTHROPIC, ANTHROPIC_STRICT

    @override
    def answers(
        self, done: Sequence[tuple[ToolCall, ToolResult]], specs: Sequence[ToolSpec] = ()
    ) -> list[dict[str, Any]]:
        """Answer all calls by one message of the user; pictures and files of failed calls follow their results."""
        results = [_answer(call, result) for call, result in done]
        others = [block for _, result in done if result.is_error for block in _attached(result)]
        return [{"role": "user", "content": [*results, *others]}] if results else []

    def _shown(self, spec: ToolSpec) -> dict[str, Any]:
        form = self.form(spec)
        shown = {"name": spec.name, "description": spec.description, "input_schema": form.schema}
        return {**shown, "strict": True} if form.strict else shown

    def _found(self, reply: Any) -> Iterable[ToolCall]:
        """Read a message, or its content."""
        return (_read_call(block) for block in items(reply, "content") if attribute(block, "type") == "tool_use")


def _read_call(block: Any) -> ToolCall:
    return call_of(attribute(block, "name"), attribute(block, "input"), attribute(block, "id"))


def _answer(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    answer = {"type": "tool_result", "tool_use_id": call.provider_call_id or call.id}
    text = text_of(result)
    if result.is_error:
        return {**answer, "content": text if text.strip() else "error", "is_error": True}
    attached = _attached(result)
    told = [{"type": "text", "text": text}] if text.strip() else []
    content = [*told, *attached] if attached else text
    return {**answer, "content": content} if content else answer


def _attached(result: ToolResult) -> list[dict[str, Any]]:
    return [*map(_image, result.images), *map(_document, result.files)]


def _document(file: File) -> dict[str, Any]:
    if file.media_type == "application/pdf":
        source = {"type": "base64", "media_type": file.media_type, "data": base64_of(file)}
        return {"type": "document", "source": source, "title": file.name}
    try:
        source = {"type": "text", "media_type": "text/plain", "data": file.data.decode()}
    except UnicodeDecodeError:
        return {"type": "text", "text": f"[{file.name} cannot be shown here: {file.media_type}]"}
    return {"type": "document", "source": source, "title": file.name}


def _image(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": base64_of(image)}
    return {"type": "image", "source": source}
